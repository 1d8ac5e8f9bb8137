"""Shared by the scripts of the experiments: logs of attn-train, whose names say what was run, and tables."""

import json
import sys
from pathlib import Path


class Log:
    """A log: `lines` after the first one, `steps` as planned, `words` of its name, of which the last is
    the seed."""

    def __init__(self, path):
        self.path = Path(path)
        self.words = self.path.stem.split("_")
        with open(path, encoding="utf-8") as file:
            first, *self.lines = map(json.loads, file)
        self.recipe, self.steps = first["recipe"], first["steps"]

    @property
    def finished(self):
        """Whether the run reached its last step."""
        return bool(self.lines) and self.lines[-1]["step"] >= self.steps

    @property
    def seconds(self):
        """The time of all steps."""
        return sum(line["seconds"] for line in self.lines)

    def last(self, part):
        """The last line's `part` among those that have it."""
        return next((line[part] for line in reversed(self.lines) if part in line), None)


def kinds_of(paths, columns):
    """{words of the name without the seed: [logs]} in the order of the first of each."""
    found = {}
    for path in paths:
        log = Log(path)
        if len(log.words) != len(columns) + 1:
            sys.exit(f"{path}: expected a name of {len(columns) + 1} words with _ between them")
        found.setdefault(tuple(log.words[:-1]), []).append(log)
    return found


def cell(value):
    """A value in a table; None is empty."""
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def print_table(rows):
    """Dictionaries with the same keys as lines of values with tabs between them."""
    if rows:
        print("\t".join(rows[0]))
    for row in rows:
        print("\t".join(map(cell, row.values())))


def read_table(path):
    """The rows of such a table, as dictionaries of texts."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [dict(zip(lines[0].split("\t"), line.split("\t"))) for line in lines[1:]]
