"""The steps of recipes: what is printed for a user to copy is what is called."""

import functools
import importlib
import inspect
import shlex
from pathlib import Path

import pytest

from ode_transformer.experiments import cli, recipes
from ode_transformer.experiments.runs import runner
from ode_transformer.experiments.runs.training import TrainingPlace
from ode_transformer.experiments.tasks.task import OURS, step_of_ours

NAMES = {
    "multi30k-short/floater-warm-tiny": "full",
    "ode/wmt14-en-de/rk2": "full",
    "ode/cnndm/rk4": "full",
    "ode/conll14/rk2": "full",
    "ode/wmt16-en-ro/rk2-learnable-big": "small",
    "ptb/rk2-1": "full",
    "imdb/transformer": "full",
    "glue/floater-base/floater-cola": "full",
    "glue/floater-base/floater-sts-b": "small",
    "race/floater": "full",
    "squad/floater-v2": "full",
}


def plain(value):
    """An argument, or arguments of a function: whichever sequence or path they are."""
    if isinstance(value, functools.partial):
        return value.func.__qualname__, plain(value.args), plain(value.keywords)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, Path) else getattr(value, "__qualname__", value)


def arguments(function, args, keywords):
    """All arguments of a call, those that were left out included; keywords of any name as the others."""
    bound = inspect.signature(function).bind(*args, **keywords)
    bound.apply_defaults()
    found = dict(bound.arguments)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind == parameter.VAR_KEYWORD:
            found |= found.pop(name)
    # ``after`` prints what the command line has made.
    return plain({k: v for k, v in found.items() if k != "after" and v not in (None, False)})


def flat(call):
    """The function and the arguments of a call, of partial functions as well."""
    if isinstance(call.func, functools.partial):
        inner = flat(call.func)
        return inner[0], (*inner[1], *call.args), inner[2] | call.keywords
    return call.func, call.args, call.keywords


MODULES = {f"ode_transformer.experiments{one.module}" for one in cli.COMMANDS.values() if ".command" in one.module}
STEPS = [
    (name, step)
    for name, scale in NAMES.items()
    for place in (TrainingPlace(cpu=True), TrainingPlace(devices=1, precision="fp16"))
    for step in runner.steps(recipes.load(name, scale=scale, seed=7), place)
]


@pytest.mark.parametrize(("name", "step"), STEPS, ids=lambda x: getattr(x, "key", x))
def test_the_words_of_a_step_call_its_function_with_its_arguments(name, step, monkeypatch):
    if step.call is None:
        assert tuple(step.words[: len(OURS)]) != OURS
        return
    function, args, keywords = flat(step.call)
    called = []

    @functools.wraps(function)
    def record(*args, **keywords):
        called.append(arguments(function, args, keywords))
        return []  # runs that have a record

    for module in (importlib.import_module(name) for name in (function.__module__, *MODULES)):
        if getattr(module, function.__name__, None) is function:
            monkeypatch.setattr(module, function.__name__, record)
    assert cli.main(shlex.split(shlex.join(step.words[len(OURS) :]))) == 0
    assert called == [arguments(function, args, keywords)]


def test_every_kind_of_step_is_looked_at_and_what_fairseq_has_joined_is_scored_as_words():
    """Whatever characters it has: translations, summaries and corrections."""
    scored = [step.words for name, step in STEPS if step.name == "score" and recipes.load(name).generate]
    assert len(scored) > 9 and all("--remove-bpe none" in " ".join(words) for words in scored)
    kinds = {" ".join(step.words[3 : 5 if step.words[3] == "squad" else 4]) for _, step in STEPS if step.call}
    assert kinds == {"run", "warm-start", "average", "record", "score", "predict", "squad predict", "squad score"}


def test_a_recipe_and_its_user_may_both_ask_for_the_cpu():
    """``validate.flags: {cpu: true}`` of a recipe, and ``--cpu`` of ``run``."""
    step = step_of_ours("validate", "test", ["predict"], dict, {"cpu": True, "subset": "test"}, where=["--cpu"])
    assert step.call() == {"cpu": True, "subset": "test"}
