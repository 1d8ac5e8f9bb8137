"""Times the writing of dumps: a part of tests/bench/run. What h5py needs for the same numbers, at
its best, is the measure; the time of the model is left out of both.

Files are written to memory (/dev/shm) where there is such a folder: disks vary too much.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from contenders import Missing, dumpers

# Layers, and the shape of q, k and v: batch, heads, length, depth. Some 110 to 200 MB.
SHAPES = [(24, 1, 12, 512, 64), (3, 4, 16, 1024, 64), (1, 1, 32, 4096, 128)]
# How tensors lie in memory, and what h5py is given.
CASES = [("contiguous", "contiguous", "the same"), ("strided", "copied", "contiguous copies"),
         ("strided", "strided", "the same")]
RUNS = 15


def remove_files(folder):
    for path in folder.glob("*.h5"):
        path.unlink()


def begin(start, program, scheme, direction, shape, folder):
    worker = start[program]()
    chosen = worker.set(scheme, direction, shape, folder)
    remove_files(folder)
    answers = {name: (folder / name).read_bytes() for name in "qkv"}
    return worker, chosen, answers


def write_inputs(folder, shape):
    random = np.random.default_rng(1)
    for name in "qkv":
        random.standard_normal(shape[1:], np.float32).tofile(folder / name)


def measure(start, ours, theirs, shape):
    """Median seconds of both, in turn, and the way that h5py chose."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        folder = Path(name)
        write_inputs(folder, shape)
        first, _, ours_read = begin(start, "dump", "dump", ours, shape, folder)
        write_inputs(folder, shape)
        second, chosen, theirs_read = begin(start, "h5py", "h5py", theirs, shape, folder)
        if ours_read != theirs_read:
            sys.exit(f"run: dump {shape}: what dump-attention wrote differs from what h5py wrote")
        seconds = {first: [], second: []}
        for _ in range(RUNS):
            for worker, times in seconds.items():
                times.append(worker.time())
                remove_files(folder)
        for worker in seconds:
            worker.close()
        return statistics.median(seconds[first]), statistics.median(seconds[second]), chosen


def print_dump(threads):
    print(f"dump: MB/s of dump-attention and of h5py, and their ratio; medians of {RUNS}")
    figures = []
    try:
        start = dumpers(threads)
        for shape in SHAPES:
            size = 4 * 3 * int(np.prod(shape)) / 1e6
            for ours, theirs, what in CASES:
                seconds, peer, chosen = measure(start, ours, theirs, shape)
                figures.append({"shape": shape, "tensors": ours, "h5py_is_given": what,
                                "MB": size, "seconds": seconds, "h5py_seconds": peer,
                                "h5py_way": chosen, "ratio": peer / seconds})
                print(f"{' x '.join(map(str, shape)):24}{ours:>11}; h5py is given {what:17}"
                      f"{size / seconds:>8.0f}{size / peer:>8.0f}{peer / seconds:>7.2f}", flush=True)
    except Missing as why:
        print(f"skipped: {why}")
    print()
    return figures
