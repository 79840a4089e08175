"""A system of another version of this package that takes turns with ours, as a program.

``contest.py`` starts it with that version first on Python's path, so that what is imported here is that version, and
its systems do what its own contests let them do. The program's argument is the file descriptor of a connection, on
which it receives the name of the function that serves a system, the number of threads, the system and the setting.
"""

import logging
import sys
from dataclasses import fields
from multiprocessing.connection import Connection
from typing import Any


def _made(kind: Any, values: dict[str, Any]) -> Any:
    """A system or a setting of that version; what only ours has is left out."""
    return kind(**{field.name: values[field.name] for field in fields(kind)})


def main(connection: Connection) -> None:
    """Serve a system until the other side has enough."""
    logging.disable(logging.WARNING)  # before fairseq is imported
    from ode_transformer.experiments.bench import contest

    function, threads, system, setting = connection.recv()
    try:
        serve, function = contest._serve, getattr(contest, function)
        system, setting = _made(contest.System, system), _made(contest.Setting, setting)
    except (AttributeError, KeyError, TypeError) as error:
        connection.send(RuntimeError(f"the version in --before cannot take turns with this one: {error!r}"))
        return
    serve(connection, function, threads, system, setting)


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
