"""attnkit in Python as timed by python_calls.py: a line "plan 50" asks for the median of 50 calls in a row."""

import statistics
import sys
import time

import numpy as np

import attnkit


def seconds_of(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main():
    case, threads = sys.argv[1], int(sys.argv[2])
    scheme, shape = case.split(":")
    random = np.random.default_rng(1)
    lengths = tuple(map(int, shape.split("x")))
    q, k, v = (random.standard_normal(lengths, dtype=np.float32) for _ in range(3))
    plan = attnkit.AttentionPlan(q, k, v, scheme=scheme, emit="out", threads=threads)
    out = np.empty_like(q)
    calls = {
        "plan": lambda: plan(q, k, v, out=out),
        "attention": lambda: attnkit.attention(q, k, v, scheme=scheme, emit="out", out=out, threads=threads),
    }
    for call in calls.values():
        call()
    for line in sys.stdin:
        way, count = line.split()
        calls[way]()
        print(statistics.median(seconds_of(calls[way]) for _ in range(int(count))), flush=True)


if __name__ == "__main__":
    main()
