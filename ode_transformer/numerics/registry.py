"""Registries of methods by name, which plugins can extend."""

from collections import UserDict
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class Registry(UserDict[str, T]):
    """Entries by name, such as methods of an option; ``registry[name] = entry`` adds one until ``choices`` is called.

    The models call ``choices`` when they are imported, to enumerate the values of the option.
    """

    def __init__(self, option: str, methods: Mapping[str, T]):
        self.option, self._closed = option, False
        super().__init__(methods)

    def named(self, name: str) -> T:
        """Return the method with this name; a ``ValueError`` lists the valid ones."""
        if name not in self:
            raise ValueError(f"{self.option} {name!r}: must be one of {', '.join(self)}")
        return self[name]

    def __setitem__(self, name: str, method: T) -> None:
        if name in self:
            raise ValueError(f"{self.option} {name!r}: is taken; must differ from {', '.join(self)}")
        if self._closed:
            raise ValueError(f"{self.option} {name!r}: must be added before ode_transformer.models is imported")
        super().__setitem__(name, method)

    def __ior__(self, methods: Mapping[str, T]) -> "Registry[T]":  # UserDict's would take any name
        self.update(methods)
        return self

    def choices(self) -> list[str]:
        """Return the names. No method can be added after this call."""
        self._closed = True
        return list(self)
