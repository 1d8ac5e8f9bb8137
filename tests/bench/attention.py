"""Attention in float32, forward and backward, beside others: parts of tests/bench/run."""

import math
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from contenders import Missing, contenders, in_turn

# Heads, keys, width and queries. As many queries as 131072 keys would take peers a minute.
SHAPES = [(12, 512, 64, 512), (16, 1024, 64, 1024), (8, 2048, 64, 2048), (4, 4096, 64, 4096),
          (4, 8192, 64, 8192), (1, 16384, 64, 16384), (1, 131072, 64, 4096)]
FEW_SHAPES = [SHAPES[0], SHAPES[2], SHAPES[3]]  # for other instruction sets, which may be slow
SCHEMES = ["unas", "dnas"]
PRODUCT = 4096  # the length of the matrices of the sgemm product
# Products of Lq x Lk x d that softmax attention needs: two forward, four backward.
PRODUCTS = {"forward": 2, "backward": 6}
# Largest allowed difference, relative to the largest entry. Gradients are sums of as many terms of
# both signs as the length, and so lose more digits.
CLOSE = {"forward": 2e-5, "backward": 1e-4}


def write_inputs(folder, shape):
    random = np.random.default_rng(1)
    heads, keys, width, queries = shape
    for name in ("q", "k", "v", "grad_out"):
        length = keys if name in "kv" else queries
        random.standard_normal((heads, length, width), dtype=np.float32).tofile(folder / name)


def answers(folder, direction):
    names = ["out"] if direction == "forward" else ["out", "grad_q", "grad_k", "grad_v"]
    found = {name: np.fromfile(folder / name, np.float32) for name in names}
    for name in names:
        (folder / name).unlink()
    return found


def largest_difference(ours, theirs):
    # Not max(), which may ignore a NaN.
    return float(np.max([np.abs(theirs[name] - ours[name]).max() / np.abs(ours[name]).max()
                         for name in ours]))


def bytes_available():
    line = next(line for line in open("/proc/meminfo") if line.startswith("MemAvailable"))
    return 1024 * int(line.split()[1])


def set_up(start, scheme, direction, shape, folder):
    """The participating contenders by name, with their chosen variants; and the reasons of the
    others."""
    taking_part, chosen, differences, skipped, ours = {}, {}, {}, {}, None
    for name, begin in start.items():
        if name == "oneDNN" and shape[3] != shape[1]:
            skipped[name] = "only as many queries as keys"
            continue
        # It may keep a head's weights, once for each variant.
        if name == "oneDNN" and 12 * shape[1] ** 2 > bytes_available() // 2:
            skipped[name] = f"too little memory for a head of {shape[1]}"
            continue
        try:
            contender = begin()
            taking_part[name] = contender
            if name == "sgemm":
                continue
            chosen[name] = contender.set(scheme, f"{direction},queries={shape[3]}", shape[:3], folder)
        except Missing as why:
            taking_part.pop(name, None)
            skipped[name] = str(why)
            continue
        found = answers(folder, direction)
        ours = ours or found
        differences[name] = largest_difference(ours, found)
        if not differences[name] <= CLOSE[direction]:
            sys.exit(f"run: {scheme} {shape}: the answers of {name} differ by {differences[name]}")
    return taking_part, chosen, differences, skipped


def measure(start, scheme, direction, shape, runs):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, shape)
        taking_part, chosen, differences, skipped = set_up(start, scheme, direction, shape, folder)
        seconds = in_turn(taking_part, runs, rarely=("sgemm",))
        for contender in taking_part.values():
            contender.close()
    flops = 2 * PRODUCTS[direction] * math.prod(shape)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    gflops = {name: flops / median / 1e9 for name, median in medians.items()}
    gflops["sgemm"] = 2 * PRODUCT**3 / medians["sgemm"] / 1e9
    return {
        "scheme": scheme, "direction": direction, "shape": shape, "seconds": seconds, "gflops": gflops,
        "of_sgemm": gflops["attnkit"] / gflops["sgemm"],
        "speedup": {name: median / medians["attnkit"] for name, median in medians.items()},
        "variant": chosen, "max_relative_difference": differences, "skipped": skipped,
    }


def label(shape):
    heads, keys, width, queries = shape
    return f"{heads} x {keys} x {width}" + (f", {queries} queries" if queries != keys else "")


def cell(figure, name):
    if name in figure["skipped"]:
        return "skipped" if figure["skipped"][name] else ""
    return f"{figure['gflops'][name]:.0f} ({figure['speedup'][name]:.2f})"


def print_attention(direction, conditions):
    """Measures, and prints line by line."""
    start = contenders(conditions)
    if direction == "backward":  # NumPy and oneDNN have no gradients, and the tool uses the library
        start = {name: start[name] for name in ("attnkit", "sgemm", "PyTorch")}
    peers = [name for name in start if name not in ("attnkit", "sgemm", "tool")]
    what = "forward" if direction == "forward" else "forward and backward"
    per_head = 2 * PRODUCTS[direction]
    print(f"{what}: GF/s ({per_head} Lq Lk d a head) and, in brackets, their time over ours")
    print(f"{'':6}{'heads x length x d':>28}{'attnkit':>9}{'of sgemm':>10}{'tool':>8}"
          + "".join(f"{name:>13}" for name in peers))
    shapes = FEW_SHAPES if conditions.target else SHAPES if direction == "forward" else SHAPES[:4]
    figures = []
    for scheme in SCHEMES:
        for shape in shapes:
            f = measure(start, scheme, direction, shape, conditions.runs)
            figures.append(f)
            tool = f"{f['gflops']['tool']:.0f}" if "tool" in f["gflops"] else ""
            print(f"{scheme:6}{label(shape):>28}{f['gflops']['attnkit']:>9.0f}"
                  f"{f['of_sgemm']:>10.2f}{tool:>8}" + "".join(f"{cell(f, name):>13}" for name in peers),
                  flush=True)
    for name, why in sorted({item for f in figures for item in f["skipped"].items() if item[1]}):
        print(f"{name}: skipped: {why}")
    print()
    return figures
