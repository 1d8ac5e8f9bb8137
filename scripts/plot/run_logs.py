"""Logs of attn-train: lines of JSON, of which the first holds the recipe, and runs that belong together.

A recipe is flat: {"seed": 1, "model.layers": 2, ...}. Runs that differ in their seeds only are one variant.
"""

import json
import math
import sys

from command import fail, tell
from words import cut_apart, short

MADE_BY = "attn-train RECIPE --log FILE makes it"
SEED = "seed"
# Quantities of each attention: a number by layer, u also one by head.
OF_ATTENTION = ("u", "least_column_sum", "explained_away")
_PATHS = ("data.text", "data.train", "data.valid", "data.test")
_SPEAKING = ("scheme", "rule", "kind")  # of which the value alone says what it is
MOST_LETTERS = 60


def _content(address):
    if address == "-":
        if sys.stdin.isatty():
            fail(2, "the input would be read from the terminal", "give a file, or use a pipe")
        return "standard input", sys.stdin.buffer.read()
    try:
        with open(address, "rb") as file:
            return address, file.read()
    except OSError as error:
        return fail(3, f"{address}: {error.strerror}")


def _object(text, name, place):
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        fail(3, f"{name}: line {place} is no JSON object", MADE_BY)
    return line


_ABSENT = object()


def _at(line, quantity):
    """The value at a name with dots, null as None, or _ABSENT."""
    for part in quantity.split("."):
        line = line.get(part, _ABSENT) if isinstance(line, dict) else _ABSENT
    return line


class Run:
    """A log: `name`, `recipe`, `lines` after the first, `ended` if the last step was reached."""

    def __init__(self, address):
        self.name, content = _content(address)
        lines = [_object(text, self.name, place)
                 for place, text in enumerate(content.splitlines(), 1)]
        if not lines or not isinstance(lines[0].get("recipe"), dict):
            fail(3, f"{self.name}: is no log of attn-train: its first line has no recipe", MADE_BY)
        self.recipe, self.lines = lines[0]["recipe"], lines[1:]
        for place, line in enumerate(self.lines, 2):
            if not isinstance(line.get("step"), int):
                fail(3, f"{self.name}: line {place} has no step")
        steps = lines[0].get("steps")
        self.ended = bool(self.lines) and (steps is None or self.lines[-1]["step"] >= steps)

    def number(self, value, quantity, step):
        """A value of the log as a number. null is what became of NaN and infinity."""
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            fail(3, f"{self.name}: {quantity} of step {step} is no number")
        return float(value)

    def series(self, quantity):
        """{step: number} of a quantity, in which dots lead into objects: valid.loss."""
        values = {line["step"]: _at(line, quantity) for line in self.lines}
        found = {step: self.number(value, quantity, step) for step, value in values.items()
                 if value is not _ABSENT}
        if not found:
            fail(3, f"{self.name}: no line has {quantity}; there are {', '.join(self.quantities())}")
        return found

    def quantities(self):
        """The names of all numbers in the lines."""
        names = {}

        def gather(line, before):
            for name, value in line.items():
                if isinstance(value, dict):
                    gather(value, f"{before}{name}.")
                elif isinstance(value, (int, float)) and before + name != "step":
                    names[before + name] = None
        for line in self.lines:
            gather(line, "")
            for group in line.get("attention") or ():
                names |= {name: None for name in OF_ATTENTION if name in group}
        return list(names)

    def attention(self, quantity):
        """{group: {step: [numbers by head]}} of a quantity of attention."""
        found = {}
        for line in self.lines:
            for group in line.get("attention") or ():
                if quantity not in group:
                    continue
                values = group[quantity]
                values = values if isinstance(values, list) else [values]
                found.setdefault(str(group.get("group")), {})[line["step"]] = [
                    self.number(value, quantity, line["step"]) for value in values]
        return found


def _said(value):
    """A value of a recipe as it is typed."""
    if value is None or value == []:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "+".join(map(_said, value))
    return short(value, 6) if isinstance(value, (int, float)) else str(value)


def _short_keys(keys):
    """{key: its last words, as many as tell it from the other keys}."""
    found = {}
    for key in keys:
        parts = key.split(".")
        for size in range(1, len(parts) + 1):
            end = parts[-size:]
            if sum(other.split(".")[-size:] == end for other in keys) == 1:
                break
        found[key] = ".".join(end)
    return found


def _word(key, shown, value):
    """What a name says of one key: "rate 0.5", "dnas", "no paths"."""
    text = _said(value)
    if key in _PATHS:
        return text.rsplit("/", 1)[-1]
    if shown in _SPEAKING:
        return text
    return f"{shown} {text}" if text else f"no {shown}"


class Variant:
    """Runs that differ in their seeds only, with the name of their line. `rest` is what tells it apart besides
    the scheme."""

    def __init__(self, name, runs, scheme, rest):
        self.name, self.runs, self.scheme, self.rest = name, runs, scheme, rest


def differing(runs, without=()):
    """The keys of the recipes in which runs differ, but for their seed and those in `without`."""
    keys = dict.fromkeys(key for run in runs for key in run.recipe)
    return [key for key in keys if key != SEED and key not in without and
            len({json.dumps(run.recipe.get(key)) for run in runs}) > 1]


def variants_of(runs, by=None, without=()):
    """The variants in the order of their first runs, named by the keys in which they differ, or by
    those in `by`; keys in `without` tell nothing apart."""
    for key in [*(by or ()), *without]:
        if not any(key in run.recipe for run in runs):
            fail(2, f"{key} is no key of these recipes; there are {', '.join(runs[0].recipe)}")
    keys = by or differing(runs, without)
    shown = _short_keys(keys)
    found = {}
    for run in runs:
        found.setdefault(tuple(json.dumps(run.recipe.get(key)) for key in keys), []).append(run)
    names = [", ".join(filter(None, (_word(key, shown[key], some[0].recipe.get(key)) for key in keys)))
             for some in found.values()]
    schemes = [key for key in keys if key.endswith(".scheme")]
    return [Variant(name, some, some[0].recipe.get(schemes[0]) if len(schemes) == 1 else None,
                    tuple(value for key, value in zip(keys, values) if key not in schemes))
            for name, (values, some) in zip(cut_apart(names, MOST_LETTERS), found.items())]


def read_runs(addresses):
    """The runs of some logs, without those that made no step. A log given twice is refused."""
    if len(set(addresses)) < len(addresses):
        fail(2, "one log is given twice")
    runs = [Run(address) for address in addresses]
    found = [run for run in runs if run.lines]
    for run in runs:
        if not run.lines and found:
            tell(f"{run.name}: made no step, and is left out")
    if runs and not found:
        fail(3, f"{runs[0].name}: made no step")
    return found
