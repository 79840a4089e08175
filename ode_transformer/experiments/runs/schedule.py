"""Which checkpoints the flags of a training allow it to leave, before it begins."""

import math
from typing import TYPE_CHECKING

from .. import recipes
from ..records import RunError

if TYPE_CHECKING:
    from omegaconf import DictConfig


def check_average(recipe: "recipes.Recipe", config: "DictConfig") -> str:
    """Check that no flag keeps training from leaving the checkpoints that are to be averaged.

    How many there are in the end depends on the length of an epoch, too, and on ``--patience``: a training that left
    too few is kept.

    Returns:
        what may leave fewer of them, as only training can tell; empty if nothing may.

    Raises:
        RunError: there will be too few, or none if the recipe averages fewer; the message names the flag.
    """
    ((kind, count),) = recipe.average.wanted
    needed = 1 if recipe.average.fewer else count
    checkpoint, optimization, dataset = config.checkpoint, config.optimization, config.dataset

    def most(value: int, every: int = 1) -> float:
        return value // every if value > 0 else math.inf

    some, interval = checkpoint.keep_interval_updates_pattern != -1, checkpoint.save_interval_updates
    limits = {  # best 1 is checkpoint_best.pt, which is kept
        "last_epochs": {
            "--max-epoch": most(optimization.max_epoch or 0, checkpoint.save_interval),
            "--no-epoch-checkpoints": 0 if checkpoint.no_epoch_checkpoints else math.inf,
            "--keep-last-epochs": most(checkpoint.keep_last_epochs),
        },
        "last_updates": {
            "--save-interval-updates": math.inf if interval > 0 else 0,
            "--max-update": most(optimization.max_update or 0, max(interval, 1)),
            "--keep-interval-updates": math.inf if some else most(checkpoint.keep_interval_updates),
        },
        "best": {
            "--disable-validation": 0 if dataset.disable_validation else math.inf,
            "--keep-best-checkpoints": max(checkpoint.keep_best_checkpoints, 0) if count > 1 else math.inf,
        },
    }[kind] | {"--no-save": 0 if checkpoint.no_save else math.inf}
    for flag, left in limits.items():
        if left < needed:
            raise RunError(f"average.{kind} {count}: training would leave {left:g} of these checkpoints, by {flag}")
    said = f"average.{kind} {count}: training may leave fewer of these checkpoints"
    if checkpoint.patience > 0:
        return f"{said}, if --patience {checkpoint.patience} ends it early"
    if optimization.stop_time_hours > 0:
        return f"{said}, if --stop-time-hours ends it early"
    if kind == "best" and count > 1:
        return f"{said}: fairseq writes none that is worse than those it has"
    return ""
