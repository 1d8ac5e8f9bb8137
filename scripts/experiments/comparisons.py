"""Judges the runs of an experiment by bars.toml: which kinds have learned, and which differ."""

import math
import re
import statistics
import subprocess
import sys

SIGNIFICANT = 0.05


def known_baselines(path):
    """{(metric, name): value} of a table of the program `baselines`."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:] if path.exists() else []
    return {(metric, name): float(value) for metric, name, value in (line.split("\t") for line in lines)}


def named(pattern, kind):
    """The words of a kind that is called relative to another."""
    words = pattern.split("_")
    return tuple(own if word == "*" else word for word, own in zip(words, kind)) if len(words) == len(kind) else None


class Experiment:
    """An experiment of bars.toml with its finished runs."""

    def __init__(self, name, settings, kinds, baselines):
        self.name, self.settings, self.baselines = name, settings, baselines
        self.started = kinds
        self.kinds = {kind: [log for log in logs if log.finished] for kind, logs in kinds.items()}
        for kind, logs in kinds.items():
            if len(logs) != settings["seeds"]:
                sys.exit(f"{name}: {len(logs)} runs of {'_'.join(kind)}, where bars.toml has {settings['seeds']} seeds")

    def metrics_of(self, kind):
        return [metric for metric in self.settings["metrics"] if "kinds" not in metric or kind[0] in metric["kinds"]]

    def values(self, kind, metric):
        values = [log.value(metric["name"]) for log in self.kinds[kind]]
        if None in values:
            sys.exit(f"{self.kinds[kind][values.index(None)].path}: there is no {metric['name']}")
        return values

    def mean(self, kind, metric):
        return statistics.fmean(self.values(kind, metric)) if self.kinds[kind] else math.nan

    def bar(self, text, kind, metric):
        """The number that a bar is."""
        if not isinstance(text, str):
            return text
        name, sign, number = re.fullmatch(r"(.+?)(?: ([+-]) ([\d.]+))?", text).groups()
        if (metric["name"], name) in self.baselines:
            base = self.baselines[metric["name"], name]
        elif name.startswith("test."):
            base = self.mean(kind, {"name": name})
        elif named(name, kind) in self.kinds:
            base = self.mean(named(name, kind), metric)
        else:
            sys.exit(f"{self.name}: there is no baseline {name} of {metric['name']}")
        return base + float(f"{sign}{number}") if sign else base

    def bars(self, kind, metric):
        """{bar as it is written: its number}, without the bar that the kind itself is."""
        return {str(text): self.bar(text, kind, metric) for text in metric["bars"]
                if not (isinstance(text, str) and named(text, kind) == kind)}

    def learned(self, kind, metric):
        """Whether all runs of a kind ended with a mean beyond every bar. NaN is not. Without bars, whether the kind has
        learned its other metrics."""
        if len(self.kinds[kind]) < len(self.started[kind]):
            return False
        if not metric["bars"]:
            return all(self.learned(kind, other) for other in self.metrics_of(kind) if other["bars"])
        mean, bars = self.mean(kind, metric), self.bars(kind, metric).values()
        return all(mean < bar if metric["better"] == "lower" else mean > bar for bar in bars)

    def means(self):
        """A row for each kind and metric."""
        for kind, logs in self.kinds.items():
            for metric in self.metrics_of(kind):
                values = self.values(kind, metric)
                yield {"kind": kind, "metric": metric["name"], "started": len(self.started[kind]),
                       "finished": len(logs), "mean": self.mean(kind, metric),
                       "deviation": statistics.stdev(values) if len(values) > 1 else math.nan,
                       "bars": self.bars(kind, metric), "learned": self.learned(kind, metric)}

    def pairs(self):
        """The kinds that are tested, each with the one that it is tested against."""
        for test in self.settings["tests"]:
            pattern, _, other = test.partition("/")
            pairs = [(kind, named(other, kind)) for kind in self.kinds if named(pattern, kind) == kind]
            if not pairs or any(against not in self.kinds for _, against in pairs):
                sys.exit(f"{self.name}: no runs for the test {test}")
            yield from pairs

    def tests(self):
        """A row for each pair and metric, with the verdict; p is two-sided, by Welch's test of seed-test."""
        rows = []
        for kind, against in self.pairs():
            for metric in self.metrics_of(kind):
                if metric not in self.metrics_of(against):
                    continue
                row = {"kind": kind, "against": against, "metric": metric["name"], "better": metric["better"],
                       "learned": self.learned(kind, metric) and self.learned(against, metric)}
                rows.append(row | welch(self.kinds[kind], self.kinds[against], metric))
        judge(rows)
        return rows


def welch(logs, others, metric):
    """Difference, interval, two-sided p and detectable difference; {} if there is no test."""
    if min(len(logs), len(others)) < 2:
        return {}
    words = [*(log.path for log in logs), "against", *(log.path for log in others), "--metric", metric["name"]]
    done = subprocess.run(["seed-test", "--tsv", "--better", metric["better"], *map(str, words)], capture_output=True,
                          text=True, check=False)
    if done.returncode == 4:  # all runs of a kind are equal
        return {}
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    header, line = done.stdout.splitlines()
    found = dict(zip(header.split("\t"), line.split("\t")))
    p = float(found["p"])
    columns = ("difference", "interval_low", "interval_high", "detectable_difference")
    return {"p": min(1.0, 2 * min(p, 1 - p))} | {name: float(found[name]) for name in columns}


def judge(rows):
    """Adds the verdict, and p corrected by Holm for the family of all rows that have learned."""
    tested = sorted((row for row in rows if row["learned"] and "p" in row), key=lambda row: row["p"])
    largest = 0.0
    for place, row in enumerate(tested):
        largest = max(largest, min(1.0, row["p"] * (len(tested) - place)))
        row["corrected"] = largest
    for row in rows:
        if not row["learned"]:
            row["verdict"] = "not learned"
        elif "p" not in row:
            row["verdict"] = "no test"
        elif row["corrected"] >= SIGNIFICANT:
            row["verdict"] = "no difference seen"
        else:
            row["verdict"] = "better" if (row["difference"] < 0) == (row["better"] == "lower") else "worse"
