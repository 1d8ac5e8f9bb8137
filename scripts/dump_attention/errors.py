"""What ends a recording, and what a user should know of it."""

import warnings


class DumpError(RuntimeError):
    """One line on what cannot be recorded. `status` is the exit status of dump-attention: 2 for
    wrong usage, 3 for an input, 5 for the output. `hint` is one line that may help, or None."""

    def __init__(self, message, status=3, hint=None):
        super().__init__(" ".join(str(message).split()))
        self.status = status
        self.hint = hint


class DumpWarning(UserWarning):
    """Something that the dump lacks."""


def warn(text):
    """Warns with one line."""
    warnings.warn(text, DumpWarning, stacklevel=3)
