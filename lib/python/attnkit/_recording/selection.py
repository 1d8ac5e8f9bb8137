"""Which layers, heads and calls are recorded."""

from __future__ import annotations

import fnmatch
import re
from typing import Any, List, Optional

from .errors import DumpError

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")


def _words(chosen: Any) -> List[str]:
    if isinstance(chosen, str):
        return [word.strip() for word in chosen.split(",")]
    if isinstance(chosen, int):
        return [str(chosen)]
    return [str(word) for word in chosen]


def _range(word: str, option: str) -> Optional[range]:
    match = _NUMBERS.fullmatch(word)
    if not match:
        return None
    low = int(match[1])
    high = int(match[2] or low)
    if high < low:
        raise DumpError(f"{option}: {word} is empty", 2, f"write {high}-{low}")
    return range(low, high + 1)


class Numbers:
    """A list such as 0,2-3; None stands for all numbers."""

    def __init__(self, chosen: Any, option: str) -> None:
        self.option = option
        self.all = chosen is None
        self._ranges: List[range] = []
        for word in () if self.all else _words(chosen):
            numbers = _range(word, option)
            if numbers is None:
                raise DumpError(f"{option}: '{word}' is not a number or a range, such as 3-5", 2)
            self._ranges.append(numbers)

    def __contains__(self, number: int) -> bool:
        return self.all or any(number in numbers for numbers in self._ranges)

    def among(self, count: int, what: str) -> List[int]:
        """The chosen ones of 0 … count−1, in ascending order. Throws if one is beyond them."""
        if self.all:
            return list(range(count))
        chosen = sorted({number for numbers in self._ranges for number in numbers})
        if not chosen or chosen[-1] >= count:
            raise DumpError(f"{self.option}: {what} has {count} heads, from 0 to {count - 1}", 2)
        return chosen


class Layers:
    """A list of numbers, ranges and patterns of names. The number of a layer is the first number in
    its name: encoder.layers.3.self_attn is layer 3."""

    def __init__(self, chosen: Any, option: str) -> None:
        self.all = chosen is None
        self._ranges: List[range] = []
        self._patterns: List[str] = []
        for word in () if self.all else _words(chosen):
            numbers = _range(word, option)
            if numbers is not None:
                self._ranges.append(numbers)
            elif word:
                self._patterns.append(word)
            else:
                raise DumpError(f"{option}: a number, a range or a name is missing", 2)

    def __contains__(self, name: str) -> bool:
        if self.all:
            return True
        number = re.search(r"\d+", name)
        if number and any(int(number[0]) in numbers for numbers in self._ranges):
            return True
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._patterns)
