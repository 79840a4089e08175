"""YAML files as plain data, within bounds: a small file stays small in memory, and means what it seems to mean.

PyYAML's safe loader runs no code, but it allows unlimited nesting, lets a few aliases of aliases stand for billions of
values, and keeps the last of several equal keys.

Imports neither torch nor fairseq.
"""

from pathlib import Path
from typing import Any

import yaml

from ...errors import OdeTransformerError
from ...files import regular

LONGEST = 2**20  # bytes of a file
DEEPEST = 20  # mappings and lists within each other, with aliases written out
MOST = 100_000  # keys and values, with aliases written out

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(OdeTransformerError):
    """A file that is not plain YAML; the message names the file, the place and what is valid."""


class _Plain(_Loader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        found = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key must be a word", problem_mark=key.start_mark)
            if key.value in found:
                raise yaml.MarkedYAMLError(problem=f"key {key.value} is there twice", problem_mark=key.start_mark)
            found.add(key.value)
        return super().construct_mapping(node, deep)


def read(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        YamlError: there is no such file; or it is not YAML, not UTF-8, too long or too deep, or holds a NUL or equal
            keys.
    """
    try:
        if (size := regular(path).stat().st_size) > LONGEST:
            raise YamlError(f"{path}: has {size} bytes, must be at most {LONGEST}")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise YamlError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise YamlError(f"{path}: not UTF-8: {error}") from error
    if "\0" in text:
        raise YamlError(f"{path}: line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a NUL, must be text")
    try:
        _check(path, text)
        return yaml.load(text, Loader=_Plain)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a number of thousands of digits
        if isinstance(error, YamlError):
            raise
        raise YamlError(f"{path}: not YAML: {' '.join(str(error).split())}") from error


def _check(path: Path, text: str) -> None:
    """Check the size and depth of a file event by event, before any value is built."""
    anchors: dict[str, tuple[int, int]] = {}  # the number of values that each stands for, and their depth
    open_: list[list] = [["", 0, 0]]  # for each open collection its anchor, and the number and depth of its values
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append([event.anchor, 1, 1])
            anchor, size, height = None, 0, 0
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size, height = open_.pop()
        elif isinstance(event, yaml.ScalarEvent):
            anchor, size, height = event.anchor, 1, 0
        elif isinstance(event, yaml.AliasEvent):
            anchor = None
            if event.anchor not in anchors:
                raise YamlError(f"{path}: line {event.start_mark.line + 1}: *{event.anchor} has no value before it")
            size, height = anchors[event.anchor]
        else:
            continue
        if anchor:
            anchors[anchor] = size, height
        around = open_[-1]
        around[1:] = around[1] + size, max(around[2], height + (len(open_) > 1))
        if around[1] > MOST or len(open_) - 1 + height > DEEPEST:
            raise YamlError(
                f"{path}: line {event.start_mark.line + 1}: must be at most {MOST} values and {DEEPEST} levels, with "
                "aliases written out"
            )
