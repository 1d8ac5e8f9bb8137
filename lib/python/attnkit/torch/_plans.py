"""Plans of attention for tensors, kept from call to call."""

from __future__ import annotations

import os
import threading
from typing import Any, Dict, Iterable, List, Mapping, Tuple

import numpy

from .. import _core
from .._errors import error_of
from .._functions import warn
from .._options import is_array, options_of
from .._options import words_of as words_of_option

Words = Tuple[str, ...]
"""Options of a plan, as on a command line."""

MOST_UNUSED = 16
"""The most plans that are kept while no call uses them. The plan that is unused for longest goes first."""

OPTIONS = frozenset([
    "scheme", "hybrid", "energy", "scale", "softcap", "causal", "window", "query_offset", "relative_bias",
    "alpha", "gamma", "iterations", "tolerance", "estimate", "min_variance", "precision", "threads",
])
"""The options of `attnkit.attention` that functions of tensors have, too."""

_Key = Tuple[Words, Tuple[Tuple[str, str, Tuple[int, ...]], ...]]
_unused: List[Tuple[_Key, Any]] = []
lock = threading.Lock()
"""Held for moments, by what threads share."""

# A process that is forked while another thread holds the lock would wait for it forever.
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def words_of(options: Mapping[str, Any]) -> Words:
    """The words of options. Their names are those of `attnkit.attention`, in Python."""
    known = options_of("attn-compute", "")
    return tuple(word for name, value in options.items() for word in words_of_option(known[name], value))


def require_options(function: str, options: Mapping[str, Any]) -> None:
    """Raises UsageError for options that functions of tensors do not have, and for arrays in their place."""
    for name, value in options.items():
        if name not in OPTIONS:
            raise error_of(2, f"{function}() has no option {name}", "there are " + ", ".join(sorted(OPTIONS)))
        if is_array(value) or getattr(value, "requires_grad", False):
            raise error_of(2, f"{name} is an array, but {function}() takes it as a number")


def make(words: Words, arrays: Dict[str, Any]) -> Any:
    """A plan for arrays of these shapes and types."""
    return _core.Plan([*words, *(word for name in arrays for word in ("-i", f"{name}={name}"))], arrays)


_SMALLEST = {
    "q": (1, 1, 1), "k": (1, 1, 1), "v": (1, 1, 1), "sink": (1,), "hybrid": (1,), "rel_bias": (32, 1),
    "w": (1, 1), "w1": (1, 2), "w2": (1,), "b1": (1,), "gate": (1, 1), "preference": (1, 1),
    "cost": (1, 1),
}
_NEEDED = {"bilinear": ["w"], "mlp": ["w1", "w2"], "t5": ["rel_bias"], "transport": ["cost"]}


def probe(function: str, options: Mapping[str, Any], operands: Iterable[str] = ()) -> Any:
    """A plan with these options and operands for one query and key: it refuses options that do not fit."""
    require_options(function, options)
    words = [options.get("energy", ""), options.get("relative_bias", ""), options.get("scheme", "")]
    needed = [name for word in words for name in _NEEDED.get(word, [])]
    names = dict.fromkeys(["q", "k", "v", *needed, *operands])
    arrays = {name: numpy.ones(_SMALLEST[name], "f4") for name in names}
    return make(words_of(options), arrays)


class plan_for:
    """A plan that no other call uses within the `with`: an unused plan, or a new one.

    With `warns`, a new plan warns of what `attnkit.attention` would warn of.
    """

    def __init__(self, words: Words, arrays: Dict[str, Any], warns: bool = False) -> None:
        shapes = tuple((name, str(array.dtype), array.shape) for name, array in arrays.items())
        self._key: _Key = (words, shapes)
        self._arrays = arrays
        self._warns = warns

    def __enter__(self) -> Any:
        with lock:
            at = next((at for at in reversed(range(len(_unused))) if _unused[at][0] == self._key), None)
            self._plan = None if at is None else _unused.pop(at)[1]
        if self._plan is None:
            self._plan = make(self._key[0], self._arrays)
            if self._warns:
                warn(self._plan.warnings)
        return self._plan

    def __exit__(self, *_: object) -> None:
        with lock:
            _unused.append((self._key, self._plan))
            del _unused[:-MOST_UNUSED]
