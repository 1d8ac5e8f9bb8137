"""The counterpart of worker.hpp for contenders in Python."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

THREADS = int(os.environ.get("BENCH_THREADS", len(os.sched_getaffinity(0))))


@dataclass
class Problem:
    scheme: str
    direction: str
    shape: tuple
    folder: Path

    def attention_inputs(self, *names):
        """Queries are as many as the direction says, else as many as there are keys."""
        heads, keys, width = self.shape
        queries = self.option("queries", keys)
        return [self.input(name, shape=(heads, keys if name in "kv" else queries, width))
                for name in names]

    def input(self, name, dtype=np.float32, shape=None):
        return np.fromfile(self.folder / name, dtype).reshape(shape or self.shape)

    def option(self, name, usual=None):
        """The options of a direction such as "f64,reg=0.05,iterations=20"."""
        found = dict(word.split("=") for word in self.direction.split(",") if "=" in word)
        return type(usual)(found[name]) if name in found else usual


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def fastest(variants):
    """The name of the variant with the shortest second run; a long first run suffices."""
    if len(variants) == 1:
        return next(iter(variants))
    times = {}
    for name, run in variants.items():
        times[name] = seconds_of(run)
        if times[name] < 1:
            times[name] = seconds_of(run)
    return min(times, key=times.get)


def blocks(length, size):
    return [slice(first, min(first + size, length)) for first in range(0, length, size)]


def sizes(length):
    """The numbers of rows or columns in a block that are tried, for lines of that length: at most
    32 MiB."""
    return (256, 512) if length <= 16384 else (16, 32, 64)


def parts(heads, length, size):
    """(head, blocks) for each task: whole heads, or shares of heads if there are fewer heads than
    threads."""
    shares = 1 if heads >= THREADS else THREADS
    every = blocks(length, size)
    return [(head, every[share::shares]) for head in range(heads) for share in range(shares)]


def serve(prepare):
    """prepare(problem) returns the variants by name, each of which returns the answers by name."""
    run = None
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "set":
            scheme, direction, *shape, folder = words
            problem = Problem(scheme, direction, tuple(map(int, shape)), Path(folder))
            variants = prepare(problem)
            chosen = fastest(variants)
            run = variants[chosen]
            for name, values in run().items():
                np.ascontiguousarray(values).tofile(problem.folder / name)
            reply = chosen
        else:
            reply = seconds_of(run)
        print(reply, flush=True)
