"""How a function runs a tool."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional

from . import _core
from ._errors import NotConverged, Warning, error_of
from ._options import command_line, has_option
from ._results import Results

Progress = Optional[Callable[[float], object]]

_OWN = os.path.dirname(__file__) + os.sep


def depth_of_caller() -> int:
    """The `stacklevel` at which a warning names the caller of the package."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        depth, frame = depth + 1, frame.f_back
    return depth


def warn(lines: List[str]) -> None:
    """Warns of what a tool warns of."""
    for line in lines:
        warnings.warn(line, Warning, stacklevel=depth_of_caller())


def run_tool(
    tool: str, words: List[str], arrays: Dict[str, Any], places: Dict[str, Any], progress: Progress
) -> Dict[str, Any]:
    """What the command would write and print. Raises its error."""
    found = _core.run(tool, words, arrays, places, progress)
    if found["status"] > 1:
        raise error_of(found["status"], found["message"], found["hint"], json.loads(found["report"]()))
    return found


def places_of(out: Any) -> Dict[str, Any]:
    """The arrays of `out=` by the names of results."""
    return {} if out is None else dict(out) if isinstance(out, Mapping) else {"out": out}


def _is_sweep(value: Any) -> bool:
    return "," in value if isinstance(value, str) else isinstance(value, (list, tuple)) and len(value) > 1


def _makes_bundle(tool: str, verb: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a tool can write arrays: explain-away-stats only reports on chosen heads, sweeps, and several files."""
    if tool != "explain-away-stats":
        return has_option(tool, verb, "output")
    given = {name for name, value in arguments.items() if value is not None}
    files = isinstance(arguments.get("q"), (list, tuple))
    return not files and not given & {"heads", "against"} and not any(
        _is_sweep(arguments.get(name)) for name in ("scale", "hybrid")
    )


def call(
    function: str,
    tool: str,
    verb: str,
    arguments: Mapping[str, Any],
    first: str = "",
    *,
    out: Any = None,
    progress: Progress = None,
) -> Results:
    """Runs a tool on the arrays among the arguments, or on the bundle that the argument `first` is."""
    if progress is not None and not callable(progress):
        raise error_of(2, f"progress is {progress!r}, expected a function of one number")
    words, arrays = command_line(function, tool, verb, arguments, first)
    places = places_of(out)
    writing: List[str] = []
    if _makes_bundle(tool, verb, arguments):
        writing = ["-o", "results"] + (["--only"] if has_option(tool, verb, "only") else [])
    found = run_tool(tool, [*words, *writing, "--json"], arrays, places, progress)

    for name in places:
        if name not in found["results"]:
            there = ", ".join(found["results"]) or "none"
            raise error_of(2, f"out has an array for {name}, which is not a result; the results are {there}")

    warn(found["warnings"])
    if found["status"] == 1:
        line = found["summary"] or f"the status of {function}() is 1"
        warnings.warn(line, NotConverged, stacklevel=depth_of_caller())
    return Results(found, has_option(tool, verb, "csv"))
