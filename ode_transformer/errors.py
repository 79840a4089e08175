"""The base class of all errors that this package raises deliberately."""


class OdeTransformerError(ValueError):
    """Something that the user can put right: the message names the option or file, its value, and what is valid.

    The command ``ode-transformer`` prints such an error as one line. So it does with the
    system's errors about files. Anything else is a defect and keeps its traceback.
    """
