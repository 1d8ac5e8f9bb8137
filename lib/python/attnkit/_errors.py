"""The exceptions of attnkit, one for each exit status of the tools."""

from __future__ import annotations

from typing import Any, Dict, Optional, Type


class Error(Exception):
    """What a tool refuses or cannot do. The text is the line that the tool prints."""

    exit_status = 70
    """The exit status of the tool."""

    hint: str = ""
    """What would help, as the tool prints it; also a note of the exception."""

    report: Optional[Dict[str, Any]] = None
    """The report of a run that has one although it failed, such as an infeasible transport."""


class UsageError(Error, ValueError):
    """Options that do not exist or contradict each other."""

    exit_status = 2


class InputError(Error, ValueError):
    """An array or file that is missing, unreadable, or of a wrong type, shape or value."""

    exit_status = 3


class NumericalError(Error, ArithmeticError):
    """What cannot be computed: infeasible, singular, beyond the range of the format."""

    exit_status = 4


class OutputError(Error, OSError):
    """A file that cannot be written."""

    exit_status = 5


class OutOfMemory(Error, MemoryError):
    """A computation that does not fit into the memory allowed."""

    exit_status = 6


class Warning(UserWarning):
    """What a tool warns of."""


class NotConverged(Warning):
    """An iteration that did not converge, or a property that does not hold. The results are there."""


_CLASSES: Dict[int, Type[Error]] = {
    kind.exit_status: kind for kind in (UsageError, InputError, NumericalError, OutputError, OutOfMemory)
}


def error_of(status: int, message: str, hint: str = "", report: Optional[Dict[str, Any]] = None) -> Error:
    """The exception of an exit status, with its hint as a note."""
    error = _CLASSES.get(status, Error)(message)
    error.hint = hint
    error.report = report
    if hint:
        note = "hint: " + hint
        if hasattr(error, "add_note"):
            error.add_note(note)
        else:  # before Python 3.11
            error.__notes__ = [note]  # type: ignore[attr-defined]
    return error
