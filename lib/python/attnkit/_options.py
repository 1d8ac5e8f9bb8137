"""From Python's arguments to the command line of a tool, by the tool's own table of options."""

from __future__ import annotations

import functools
import json
import os
from keyword import iskeyword
from typing import Any, Dict, FrozenSet, List, Mapping, Tuple

from . import _core
from ._errors import error_of

LEFT_OUT: FrozenSet[str] = frozenset(
    # files, streams and the terminal
    ["output", "input", "only", "force", "compress", "json", "progress", "quiet", "verbose", "tmpdir"]
    # texts about the tool
    + ["help", "man", "completion", "version"]
    # parts of a run on a cluster, and runs that go on
    + ["shard", "ranks", "rank-timeout", "checkpoint", "checkpoint-every", "requeue-status"]
    # the form of a table: Results.table has it as columns
    + ["tsv", "csv", "sort"]
)
"""Options of the tools that Python's functions do not have."""


@functools.lru_cache(maxsize=None)
def table(tool: str) -> Dict[str, Any]:
    """The declaration of a tool: its options, datasets, results, formulas and references."""
    declared: Dict[str, Any] = json.loads(_core.description(tool))
    return declared


@functools.lru_cache(maxsize=None)
def options_of(tool: str, verb: str) -> Mapping[str, Dict[str, Any]]:
    """The options of a verb by their name in Python."""
    return {
        option["name"].replace("-", "_"): option
        for option in table(tool)["options"]
        if option["name"] not in LEFT_OUT and (not option["verbs"] or verb in option["verbs"])
    }


@functools.lru_cache(maxsize=None)
def has_option(tool: str, verb: str, name: str) -> bool:
    """Whether the tool has an option, also one that Python's functions do not have."""
    return any(
        option["name"] == name and (not option["verbs"] or verb in option["verbs"])
        for option in table(tool)["options"]
    )


@functools.lru_cache(maxsize=None)
def datasets_of(tool: str) -> FrozenSet[str]:
    """The names of the datasets that a tool reads, with w1 and w2 for "w1, w2, ..."."""
    return frozenset(
        name for dataset in table(tool)["datasets"] for name in dataset["name"].split(", ") if name != "..."
    )


def _is_dataset(tool: str, name: str) -> bool:
    """Whether a tool reads a dataset of that name; w7 is one if w1 and w2 are."""
    datasets = datasets_of(tool)
    start = name.rstrip("0123456789")
    return name in datasets or (start != name and {start + "1", start + "2"} <= datasets)


def is_array(value: Any) -> bool:
    """Whether the value is an array, rather than a number, a word or a list of these."""
    if isinstance(value, (str, bytes, bool, int, float, list, tuple)) or value is None:
        return False
    shape = getattr(value, "shape", None)
    if shape is not None:
        return len(shape) > 0
    return hasattr(value, "__dlpack__") or _has_buffer(value)


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "item") and getattr(value, "shape", ()) == ():
        value = value.item()
    return repr(value) if isinstance(value, float) else str(value)


def _items(value: Any) -> List[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]


_SEPARATORS = {"window": ":", "unbalanced": ":", "r": ":", "shape": "x"}


def _list_text(option: str, items: List[Any]) -> str:
    """A list as the words of an option have it, where lists within it are rows."""
    if items and isinstance(items[0], (list, tuple)):
        return ";".join(_list_text(option, list(row)) for row in items)
    return _SEPARATORS.get(option, ",").join("" if item is None else _text(item) for item in items)


def words_of(option: Mapping[str, Any], value: Any) -> List[str]:
    """The words of the command line that give an option this value."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # numbers and truth values of NumPy
        value = value.item()
    name, kind = "--" + option["name"], option["kind"]
    if value is None or (value is False and kind in ("flag", "optional_choice")):
        return []
    if kind == "flag":
        if value is not True:
            raise error_of(2, f"{name} is {value!r}, expected True or False")
        return [name]
    if kind == "optional_choice" and value is True:
        return [name]
    if kind == "texts":
        return [f"{name}={_text(item)}" for item in _items(value)]
    if kind in ("numbers", "integers", "choices"):
        return [name + "=" + (value if isinstance(value, str) else ",".join(map(_text, _items(value))))]
    if kind == "points" and not isinstance(value, str):
        rows = [",".join(map(_text, _items(row))) for row in _items(value)]
        return [name + "=" + ";".join(rows)]
    if kind == "text" and (isinstance(value, (list, tuple)) or is_array(value)):
        return [f"{name}={_list_text(option['name'], _items(value))}"]
    return [f"{name}={_text(value)}"]


def _refuse_unknown(function: str, tool: str, verb: str, name: str) -> None:
    import difflib

    if name.replace("_", "-") in LEFT_OUT:
        raise error_of(2, f"{function}() has no argument {name}", f"the command {tool} has it")
    there = list(options_of(tool, verb)) + sorted(datasets_of(tool))
    close = difflib.get_close_matches(name, there, n=1)
    others = [option for option in table(tool)["options"] if option["name"].replace("-", "_") == name]
    hint = f"{close[0]}=..." if close else ""
    if others:
        hint = "it goes with " + ", ".join(verb or "no verb" for verb in others[0]["verbs"])
    raise error_of(2, f"{function}() has no argument {name}", hint)


def _files(value: Any) -> List[str]:
    """The addresses of a bundle, or of a list of bundles; empty for anything else."""
    if isinstance(value, (list, tuple)):
        found = [file for item in value if not isinstance(item, (list, tuple)) for file in _files(item)]
        return found if len(found) == len(value) else []
    if isinstance(value, (str, os.PathLike)):
        return [str(os.fspath(value))]
    address = getattr(value, "attnkit_address", None)
    return [] if address is None or is_array(value) else [str(address)]


def command_line(
    function: str, tool: str, verb: str, arguments: Mapping[str, Any], first: str = ""
) -> Tuple[List[str], Dict[str, Any]]:
    """The arguments as words of the command line, and the arrays among them by their names.

    The argument called `first` may be a bundle in place of an array: a file, or what `attnkit.open` returns,
    or a list of these for a tool that takes several.
    """
    options = options_of(tool, verb)
    words: List[str] = [verb] if verb else []
    inputs: List[str] = []
    arrays: Dict[str, Any] = {}
    for name, value in arguments.items():
        name = name[:-1] if name.endswith("_") and iskeyword(name[:-1]) else name
        if value is None:
            continue
        if _is_dataset(tool, name) and (name not in options or is_array(value)):
            files = _files(value) if name == first else []
            if files:
                inputs += files
            elif hasattr(value, "attnkit_address"):
                words += ["-i", f"{name}={value.attnkit_address}"]
            else:
                is_text = name == "tokens" and getattr(getattr(value, "dtype", None), "kind", "") == "U"
                arrays[name] = value.tolist() if is_text else value
                words += ["-i", f"{name}={name}"]
        elif name in options:
            words += words_of(options[name], value)
        else:
            _refuse_unknown(function, tool, verb, name)
    return words + inputs, arrays
