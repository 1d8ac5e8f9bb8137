"""Logs of attn-train, whose names say what was run."""

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

    def last(self, part):
        """The last line's `part` among those that have it."""
        return next((line[part] for line in reversed(self.lines) if part in line), None)

    def value(self, metric):
        """The last value of a metric such as test.loss; None if the log has none."""
        part, _, name = metric.partition(".")
        return (self.last(part) or {}).get(name)


def kinds_of(paths, columns):
    """{words of the name without the seed: [logs]} in the order of the first of each."""
    found = {}
    for path in paths:
        log = Log(path)
        if len(log.words) != columns + 1:
            sys.exit(f"{path}: expected a name of {columns + 1} words with _ between them")
        found.setdefault(tuple(log.words[:-1]), []).append(log)
    return found
