"""fairseq's schedule of checkpoints: which ones a training will leave, before it begins.

torch and fairseq are imported by the functions that need them.
"""

import heapq
import itertools
import math
from typing import TYPE_CHECKING

from .. import recipes
from ..records import RunError

if TYPE_CHECKING:
    from omegaconf import DictConfig


def check_average(recipe: "recipes.Recipe", config: "DictConfig") -> str:
    """Whether training will leave the checkpoints that are to be averaged, before it begins.

    Returns:
        what may leave fewer of them, as only training can tell; empty if nothing may.

    Raises:
        RunError: there will be too few, or none if the recipe averages fewer; the message names the flags.
    """
    ((kind, count),) = recipe.average.wanted
    needed = 1 if recipe.average.fewer else count
    checkpoint, optimization = config.checkpoint, config.optimization
    some, updates_kept = checkpoint.keep_interval_updates_pattern != -1, checkpoint.keep_interval_updates
    limits = {  # that hold without counting; best 1 is checkpoint_best.pt, which is kept
        "last_epochs": {
            "--no-epoch-checkpoints": 0 if checkpoint.no_epoch_checkpoints else math.inf,
            "--keep-last-epochs": checkpoint.keep_last_epochs if checkpoint.keep_last_epochs > 0 else math.inf,
        },
        "last_updates": {
            "--save-interval-updates": math.inf if checkpoint.save_interval_updates > 0 else 0,
            "--keep-interval-updates": math.inf if some or updates_kept <= 0 else updates_kept,
        },
        "best": {
            "--disable-validation": 0 if config.dataset.disable_validation else math.inf,
            "--keep-best-checkpoints": max(checkpoint.keep_best_checkpoints, 0) if count > 1 else math.inf,
        },
    }[kind] | {"--no-save": 0 if checkpoint.no_save else math.inf}
    said = f"average.{kind} {count}: training"
    for flag, most in limits.items():
        if most < needed:
            raise RunError(f"{said} would leave {most} of these checkpoints, by {flag}")
    counted = not _in_epochs(config, needed if kind == "best" else 0)
    per_epoch = updates_per_epoch(config) if counted else 1
    comes, patience = written(config, per_epoch, kind, count), checkpoint.patience
    if comes < needed:
        sections = {"max-update": optimization, "max-epoch": optimization, "validate-after-updates": config.dataset}
        sections |= {"save-interval": checkpoint, "save-interval-updates": checkpoint}
        values = {f"--{flag}": section[flag.replace("-", "_")] for flag, section in sections.items()}
        given = ", ".join(f"{flag} {value}" for flag, value in values.items() if value)
        more = f", with epochs of {per_epoch} update{'s' * (per_epoch > 1)}" if counted else ""
        more += "; an update that ends an epoch has none" if kind == "last_updates" else ""
        raise RunError(f"{said} would leave {comes} of these checkpoints, by {given}{more}")
    if patience > 0 and (least := written(config, per_epoch, kind, count, patience)) < count:
        return f"{said} may leave only {least} of these checkpoints, if --patience {patience} ends it early"
    if optimization.stop_time_hours > 0:
        return f"{said} may leave fewer of these checkpoints, if --stop-time-hours ends it early"
    if kind == "best" and count > 1:
        return f"{said} may leave only 1 of these checkpoints: fairseq writes none that is worse than those it has"
    return ""


def _in_epochs(config: "DictConfig", best: int) -> bool:
    """Whether it does not matter to the checkpoints of a training how many updates its epochs have.

    Args:
        config: of ``fairseq-train``.
        best: how many of the best are needed: one there is after the first epoch, and if training ends in it.
    """
    checkpoint, dataset = config.checkpoint, config.dataset
    if best == 1 and checkpoint.save_interval == dataset.validate_interval == 1 and not dataset.validate_after_updates:
        return True
    by_updates = (checkpoint.save_interval_updates, dataset.validate_interval_updates, dataset.validate_after_updates)
    return not (config.optimization.max_update or any(n > 0 for n in by_updates))


def written(config: "DictConfig", per_epoch: int, kind: str, count: int, patience: int = 0) -> int:
    """How many checkpoints of a kind training writes, at most ``count``: the first ones of fairseq's loop, if not kept.

    Args:
        config: of ``fairseq-train``.
        per_epoch: updates per epoch.
        kind: ``last_epochs``, ``last_updates`` or ``best``. Of the last, those that may be among the best are counted.
        count: how many are enough.
        patience: end after so many validations without a better result than that of the first.
    """
    checkpoint, dataset, optimization = config.checkpoint, config.dataset, config.optimization
    interval, validation = checkpoint.save_interval_updates, dataset.validate_interval_updates
    # Without an end all repeats itself after so many updates.
    period = math.lcm(per_epoch * checkpoint.save_interval, per_epoch * dataset.validate_interval, max(interval, 1))
    end = optimization.max_update or dataset.validate_after_updates + (count + patience + 1) * period
    if optimization.max_epoch:
        end = min(end, optimization.max_epoch * per_epoch)
    moments = heapq.merge(*(range(n, end + 1, n) for n in (per_epoch, interval, validation, end) if n > 0))
    found = validations = 0
    for update, _ in itertools.groupby(moments):
        epoch, within = divmod(update, per_epoch)
        stops, late = update == optimization.max_update, update >= dataset.validate_after_updates
        by_updates = interval > 0 and update % interval == 0
        by_epoch = not within and epoch % checkpoint.save_interval == 0
        saves = by_epoch or stops or (by_updates and late)
        validates = stops or (saves if within else epoch % dataset.validate_interval == 0)
        validates = validates or (validation > 0 and update % validation == 0)
        validates = validates and late and not dataset.disable_validation
        validations += validates
        stops = stops or 0 < patience < validations
        if saves or stops:
            found += {"last_epochs": by_epoch, "last_updates": bool(within) and by_updates, "best": validates}[kind]
        if stops or found >= count:
            break
    return found


def updates_per_epoch(config: "DictConfig") -> int:
    """How many updates an epoch of training has, from the lengths of its sentences."""
    from fairseq import tasks
    from fairseq.data import data_utils

    task = tasks.setup_task(config.task)
    data = config.dataset
    task.load_dataset(data.train_subset, epoch=1, combine=True)
    dataset = task.dataset(data.train_subset)
    with data_utils.numpy_seed(config.common.seed):
        indices = dataset.ordered_indices()
    longest = task.max_positions()
    if longest is not None:
        indices = task.filter_indices_by_size(indices, dataset, longest, True)
    batches = dataset.batch_by_size(
        indices,
        max_tokens=data.max_tokens,
        max_sentences=data.batch_size,
        required_batch_size_multiple=data.required_batch_size_multiple,
    )
    per_update = config.distributed_training.distributed_world_size * config.optimization.update_freq[0]
    return math.ceil(len(batches) / per_update)
