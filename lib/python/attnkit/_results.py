"""What the functions of attnkit return."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, Dict, Iterator, List, Mapping, Optional


def _number(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def columns_of(table: str) -> Dict[str, List[Any]]:
    """A table of the tools, CSV with a header, by column."""
    rows = list(csv.reader(io.StringIO(table)))
    if not rows:
        return {}
    return {name: [_number(row[at]) for row in rows[1:]] for at, name in enumerate(rows[0])}


class Arrays(Mapping[str, Any]):
    """Arrays by name, as items and as attributes."""

    _kind = "result"  # what messages call an array

    def __init__(self, arrays: Dict[str, Any]) -> None:
        self._arrays = arrays

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._arrays:
            return self._arrays[name]
        there = ", ".join(self._arrays) or "none"
        raise AttributeError(f"there is no {self._kind} {name}; the {self._kind}s are {there}")

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class Results(Arrays):
    """The results of a run: arrays by name, as items and as attributes, and the report of the tool.

    ``results.out`` and ``results["out"]`` are the same array. Names of groups have slashes:
    ``results["unas/centre"]``.
    """

    report: Dict[str, Any]
    """The report, as ``--json`` of the tool writes it."""

    attributes: Dict[str, Any]
    """How the results were made: ``attn_scheme``, ``attn_scale`` and so on."""

    text: str
    """The report for people, as the tool prints it."""

    summary: str
    """One line."""

    notes: List[str]
    """What the tool notes on standard error."""

    def __init__(self, found: Dict[str, Any], has_table: bool) -> None:
        super().__init__(found["results"])
        self._report = found["report"]
        self._table: Optional[str] = found["data"] if has_table else None
        self.attributes = found["attributes"]
        self.text = found["text"]
        self.summary = found["summary"]
        self.notes = found["notes"]

    def __getattr__(self, name: str) -> Any:
        if name == "report":
            self.report = json.loads(self._report())
            return self.report
        return super().__getattr__(name)

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *self._arrays, "report"})

    def __getstate__(self) -> Dict[str, Any]:
        text = self._report()
        return {**self.__dict__, "_report": None, "report": json.loads(text)}

    def __repr__(self) -> str:
        lines = [f"{name}: {array.dtype} {array.shape}" if hasattr(array, "shape") else f"{name}: {len(array)} strings"
                 for name, array in self._arrays.items()]
        return "\n".join([f"<attnkit.Results: {self.summary}>", *lines])

    def __str__(self) -> str:
        return self.text or repr(self)

    @property
    def status(self) -> str:
        """"ok", or "not_converged" and the like, as in the report."""
        return str(self.report["status"])

    def table(self) -> Dict[str, List[Any]]:
        """The rows that ``--csv`` of the tool prints, by column: ``pandas.DataFrame(results.table())``."""
        if self._table is None:
            raise AttributeError("this function has no table")
        return columns_of(self._table)
