"""Tables of methods by name, which packages of others extend."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


class Table(Mapping[str, T]):
    """The methods that an option names.

    ``table[name] = method`` adds one, until ``choices`` is asked for. The models ask when they are imported: they make
    the option's enumeration of what they get.

    Args:
        option: the option, for errors.
        methods: the methods that the package has itself.
    """

    def __init__(self, option: str, methods: Mapping[str, T]):
        self.option, self._methods, self._closed = option, dict(methods), False

    def __getitem__(self, name: str) -> T:
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def __setitem__(self, name: str, method: T) -> None:
        """Add a method.

        Raises:
            ValueError: there is one of that name, or the models have been imported.
        """
        if name in self._methods:
            raise ValueError(f"{self.option} {name!r}: is taken; must be another name than {', '.join(self._methods)}")
        if self._closed:
            raise ValueError(f"{self.option} {name!r}: must be added before ode_transformer.models is imported")
        self._methods[name] = method

    def choices(self) -> list[str]:
        """The names; from now on there are no others."""
        self._closed = True
        return list(self._methods)
