"""Schemas of JSON files, against which a file is checked when it is read.

A form is a type (``float`` is any number, ``int`` a whole one, neither is a bool); ``None``; a list with one form for
all items, or with one per item; a mapping of forms by key, in which ``str`` stands for all other keys; a tuple of
alternatives, among which ``...`` makes the key optional; or a function that returns what is wrong with a value, or an
empty string. Additional keys are allowed, so that a file of a later version can be read.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import OdeTransformerError
from .files import read_json

MOST = 2**63
"""The bound of whole numbers: larger ones are no counts, and may not fit into a floating-point number."""

NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
}


def lacks(value: Any, form: Any, at: str = "") -> str:
    """Return where parsed JSON departs from a form, and what it must be there; empty if it conforms.

    ``at`` is the name of the value, such as ``training.seconds``.
    """
    return next(_lacks(value, form, at), "")


def checked_json(path: Path, form: Any, fault: str, kind: type[OdeTransformerError] = OdeTransformerError) -> Any:
    """Return the content of a JSON file; one of another form has a ``fault``, and the error is of class ``kind``."""
    found = read_json(path, kind)
    if wrong := lacks(found, form):
        raise kind(f"{path}: {fault}: {wrong}")
    return found


def must_be(fits: Callable[[Any], bool], what: str) -> Callable[[Any], str]:
    """Return the form of the values that fit a condition, with its description."""
    return lambda value: "" if fits(value) else f"must be {what}"


def one_of(*values: Any) -> Callable[[Any], str]:
    """Return the form of a choice among values."""
    return must_be(lambda value: value in values, f"{'one of ' * (len(values) > 1)}{', '.join(map(str, values))}")


count = must_be(lambda value: type(value) is int and 0 <= value < MOST, "a whole number, 0 or more")
at_least_one = must_be(lambda value: type(value) is int and 1 <= value < MOST, "a whole number, 1 or more")


def _lacks(value: Any, form: Any, at: str) -> Iterator[str]:
    forms = [one for one in form if one is not ...] if isinstance(form, tuple) else [form]
    near = [one for one in forms if _of_kind(value, one)]
    found = [next(_lacks_inside(value, one, at), "") for one in near]
    if not near:
        names = ["null" if one is None else NAMES[one if isinstance(one, type) else type(one)] for one in forms]
        yield f"{at or 'it'} must be {' or '.join(names)}"
    elif all(found):
        yield found[0]


def _lacks_inside(value: Any, form: Any, at: str) -> Iterator[str]:
    if _is_function(form):
        if complaint := form(value):
            yield f"{at} {complaint}".lstrip()
    elif isinstance(form, list):
        if len(form) not in (1, len(value)):
            yield f"{at} must have {len(form)} values"
        for i, item in enumerate(value):
            yield from _lacks(item, form[i % len(form)], f"{at}[{i}]")
    elif isinstance(form, Mapping):
        others = dict.fromkeys(value, form[str]) if str in form else {}
        for key, its in {**others, **form}.items():
            name = f"{at}.{key}".lstrip(".")
            if key in value:
                yield from _lacks(value[key], its, name)
            elif key is not str and not (isinstance(its, tuple) and ... in its):
                yield f"{name} is missing"


def _of_kind(value: Any, form: Any) -> bool:
    """Whether a value has the type of a form, whatever its content."""
    if _is_function(form):
        return True
    if form is None:
        return value is None
    kind = form if isinstance(form, type) else list if isinstance(form, list) else dict
    if kind in (int, float):
        is_int = isinstance(value, int) and not isinstance(value, bool) and -MOST < value < MOST
        return is_int or (kind is float and isinstance(value, float))
    return isinstance(value, kind)


def _is_function(form: Any) -> bool:
    return callable(form) and not isinstance(form, type)
