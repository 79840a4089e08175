"""The base class of errors that a user's input causes; ``numerics`` raises a plain ``ValueError``."""


class OdeTransformerError(ValueError):
    """An error that the user can correct: the message names the option or file, its value, and what is valid.

    The command ``ode-transformer`` prints such an error as one line. It prints the system's errors about files in
    the same way. Anything else is a defect and keeps its traceback.
    """


def install(extra: str) -> str:
    """The command that installs an extra of this package, in its clone."""
    return f"pip install -c constraints.txt --no-build-isolation -e '.[{extra}]'"
