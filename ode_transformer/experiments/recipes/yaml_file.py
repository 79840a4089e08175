"""YAML files as plain data, which mean what they seem to mean.

PyYAML's safe loader runs no code, but it reads files of any length, and keeps the last of several equal keys.

Imports neither torch nor fairseq.
"""

from pathlib import Path
from typing import Any

import yaml

from ...errors import OdeTransformerError
from ...files import regular

LONGEST = 2**20  # bytes of a file

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
        YamlError: there is no such file; or it is not YAML, not UTF-8, too long, or holds a NUL or equal keys.
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
        return yaml.load(text, Loader=_Plain)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a number of thousands of digits
        raise YamlError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
