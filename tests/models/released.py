"""Checkpoints of the released fairseq forks: building, comparing, writing as their code does."""

import argparse
import sys
from collections import OrderedDict
from functools import cache
from types import ModuleType

import torch
from fairseq.models import build_model

from tests.helpers import FIXTURES, task, without_hydra

# fairseq of then had its meters in a module that is gone, and its trainer saved them with every checkpoint.
meters = sys.modules["fairseq.meters"] = ModuleType("fairseq.meters")
FIELDS = {
    "AverageMeter": {"val": 4.2, "avg": 4.5, "sum": 9.0, "count": 2},
    "StopwatchMeter": {"sum": 3.5, "n": 2, "start_time": None},
    "TimeMeter": {"init": 0, "start": 1.5, "n": 2},
}
for kind in FIELDS:
    setattr(meters, kind, type(kind, (), {"__module__": meters.__name__}))


@cache
def load(name: str) -> dict:
    """A fixture: configuration, weights, a batch, and what the released code computed from them; it is not changed."""
    return torch.load(FIXTURES / f"{name}.pt", weights_only=True)


def built(name: str, **options):
    """The model that fairseq builds from the options of a fixture, with these others."""
    cfg = without_hydra(argparse.Namespace(**{**load(name)["args"], **options}))
    cfg.update({option: None for option, value in options.items() if value is None})
    return build_model(cfg, task())


def sizes(fixture: dict) -> dict:
    """The flags of the fixture's sizes."""
    keys = ("embed_dim", "ffn_embed_dim", "attention_heads", "layers")
    return {f"{s}-{k.replace('_', '-')}": fixture["args"][f"{s}_{k}"] for s in ("encoder", "decoder") for k in keys}


def assert_logits(m, fixture: dict) -> torch.Tensor:
    """The model's logits, which have to be the fixture's where there is no padding."""
    prev = fixture["prev_output_tokens"]
    logits, _ = m(fixture["src_tokens"], fixture["src_lengths"], prev)
    torch.testing.assert_close(logits[prev != 1], fixture["logits"][prev != 1], atol=1e-5, rtol=0)
    return logits


def as_written(fixture: dict) -> dict:
    """The file that the released code writes: options as a Namespace, weights, the trainer's state."""
    args = argparse.Namespace(
        **fixture["args"], task="translation", source_lang="xx", target_lang="yy", criterion="cross_entropy",
        optimizer="adam", adam_betas="(0.9, 0.98)", lr=[0.0015], lr_scheduler="inverse_sqrt", data=["none"],
    )  # fmt: skip
    saved = OrderedDict((kind, getattr(meters, kind)()) for kind in FIELDS)
    for kind, meter in saved.items():
        vars(meter).update(FIELDS[kind])
    history = {"criterion_name": "x", "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 1}
    return {
        "args": args,
        "model": fixture["model"],
        "optimizer_history": [history],
        "extra_state": {"epoch": 1, "batch_offset": 0, "val_loss": 1.0, "train_meters": saved},
        "last_optimizer_state": {},
    }
