"""What a call from Python costs beside the same plan in C++: a part of tests/bench/run."""

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from contenders import QUIET, Worker

HERE = Path(__file__).resolve().parent
# Cases of attn-bench, threads (0: all), and the calls in a row of each of ROUNDS turns.
CASES = {"unas:1x8x8": (1, 1000), "dnas:1x8x8": (1, 1000), "unas:12x512x64": (0, 50), "dnas:12x512x64": (0, 50)}
ROUNDS = 20


def python_worker(conditions, case):
    path = os.pathsep.join([str(conditions.build / "python"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, HERE / "python_worker.py", case, conditions.threads]
    return Worker(command, {"PYTHONPATH": path}, "the Python package is not built (make python)")


def seconds_in_library(conditions, case, calls):
    command = [conditions.build / "attn-bench", "--json", "--runs", calls, "--threads", conditions.threads, case]
    text = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    return json.loads(text)["seconds"]


def seconds_of(conditions, case, calls):
    """Seconds of a call by way: the plan in C++, the plan in Python, and the function."""
    python = python_worker(conditions, case)
    asks = {"C++": lambda: seconds_in_library(conditions, case, calls),
            "plan": lambda: float(python.ask("plan", calls)),
            "attention": lambda: float(python.ask("attention", calls))}
    found = {way: [] for way in asks}
    for _ in range(ROUNDS):
        for way, ask in asks.items():
            time.sleep(QUIET)
            found[way].append(ask())
    python.close()
    return {way: statistics.median(times) for way, times in found.items()}


def print_python(conditions):
    """Measures, prints, and returns the figures of each case."""
    print("python: ms of a call in C++, by AttentionPlan and by attention(); µs of a plan above C++, and ratios")
    figures = []
    for case, (threads, calls) in CASES.items():
        used = replace(conditions, threads=threads or conditions.threads)
        median = seconds_of(used, case, calls)
        figure = {"case": case, "threads": used.threads, "median": median,
                  "plan_over_us": 1e6 * (median["plan"] - median["C++"]),
                  "plan_ratio": median["plan"] / median["C++"],
                  "attention_ratio": median["attention"] / median["C++"],
                  "attention_over_us": 1e6 * (median["attention"] - median["C++"])}
        figures.append(figure)
        times = "".join(f"{1e3 * median[way]:>10.4f}" for way in ("C++", "plan", "attention"))
        print(f"{case:18}{times}{figure['plan_over_us']:>9.1f}{figure['plan_ratio']:>8.3f}"
              f"{figure['attention_ratio']:>8.3f}")
    print(flush=True)
    return figures
