"""Tables of methods by name, which plugins can extend."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


class Table(Mapping[str, T]):
    """The methods that an option names.

    ``table[name] = method`` adds a method until ``choices`` is called. The models call it when they are imported, to
    enumerate the values of the option.

    Args:
        option: the option, for error messages.
        methods: the methods of this package.
    """

    def __init__(self, option: str, methods: Mapping[str, T]):
        self.option, self._methods, self._closed = option, dict(methods), False

    def __getitem__(self, name: str) -> T:
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def named(self, name: str) -> T:
        """The method with this name.

        Raises:
            ValueError: there is no such method; the message lists those that exist.
        """
        if name not in self._methods:
            raise ValueError(f"{self.option} {name!r}: must be one of {', '.join(self._methods)}")
        return self._methods[name]

    def __setitem__(self, name: str, method: T) -> None:
        """Add a method.

        Raises:
            ValueError: the name is taken, or the models have been imported.
        """
        if name in self._methods:
            raise ValueError(f"{self.option} {name!r}: is taken; must differ from {', '.join(self._methods)}")
        if self._closed:
            raise ValueError(f"{self.option} {name!r}: must be added before ode_transformer.models is imported")
        self._methods[name] = method

    def choices(self) -> list[str]:
        """The names. No method can be added after this call."""
        self._closed = True
        return list(self._methods)
