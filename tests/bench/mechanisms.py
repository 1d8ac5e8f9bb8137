"""Recurrent mechanisms beside PyTorch: the memory network LSTMN, and coattention's encoder, float32.

A loss depends on the states or encodings; its gradients are those of all inputs. PyTorch twice: a
Python loop of cells, and the best of several ways (torch_mechanism_worker.py).
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from contenders import Missing, mechanism_contenders

# Name, direction, shape, whether PyTorch's best way takes part: it is as the loop where that takes
# a minute.
CASES = [("lstmn", "forward", (16384, 64, 64), True),
         ("lstmn", "backward", (4096, 64, 64), True),
         ("lstmn", "backward", (16384, 64, 64), False),
         ("coattention", "forward", (4096, 512, 64), True),
         ("coattention", "backward", (4096, 512, 64), True)]
LONG = 6  # seconds after which a contender has been timed often enough
# At this length or more, a contender with only one way to compute is run once.
LONG_SHAPE = 16384
# Largest allowed difference, relative to the largest entry.
CLOSE = {"forward": 2e-5, "backward": 1e-3}


def shapes(name, shape):
    """The inputs, and the number of terms of a product with a matrix."""
    first, second, third = shape
    if name == "lstmn":
        steps, width, inputs = shape
        return {"x": (steps, inputs), "w_h": (width, width), "w_x": (width, inputs),
                "w_prev": (width, width), "v": (width,), "w": (4 * width, width + inputs),
                "b": (4 * width,), "grad_out": (steps, width)}
    gates = (4 * third, 4 * third)
    return {"document": (first, third), "question": (second, third), "w": (4 * third, 2 * third),
            "b": gates[:1], "sentinel_d": (third,), "sentinel_q": (third,),
            "w_question": (third, third), "b_question": (third,), "w_forward": gates,
            "b_forward": gates[:1], "w_backward": gates, "b_backward": gates[:1],
            "grad_out": (first, 2 * third)}


def write_inputs(folder, name, shape):
    random = np.random.default_rng(1)
    for tensor, lengths in shapes(name, shape).items():
        numbers = random.standard_normal(lengths, dtype=np.float32)
        if tensor.startswith("w"):
            numbers /= np.sqrt(np.float32(lengths[-1]))
        numbers.tofile(folder / tensor)


def answers(folder, name, direction):
    wanted = ["out"] if direction == "forward" else [
        f"grad_{tensor}" for tensor in shapes(name, (1, 1, 1)) if tensor != "grad_out"]
    found = {tensor: np.fromfile(folder / tensor, np.float32) for tensor in wanted}
    for tensor in wanted:
        (folder / tensor).unlink()
    return found


def megabytes(worker):
    """The most memory that its process has held."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def cpu_seconds(worker):
    """What its process has used of all cores: a check where other processes share them."""
    text = Path(f"/proc/{worker.process.pid}/stat").read_text(encoding="utf-8")
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def timed(worker, work):
    """What it returns, and the seconds and CPU seconds."""
    begun, used = time.perf_counter(), cpu_seconds(worker)
    found = work()
    return found, (time.perf_counter() - begun, cpu_seconds(worker) - used)


def memory_of(start, name, direction, shape, folder):
    write_inputs(folder, name, shape)
    worker = start()
    worker.set(name, direction, shape, folder)
    found = megabytes(worker)
    worker.close()
    return found


def begin(start, scheme, direction, shape, folder):
    """The worker, the way it has chosen, and the times of its one run if the shape is long."""
    worker = start()
    if shape[0] >= LONG_SHAPE:  # it loads its libraries
        tiny = (8, *shape[1:])
        with tempfile.TemporaryDirectory() as other:
            write_inputs(Path(other), scheme.partition("-")[0], tiny)
            worker.set(scheme, direction, tiny, other)
    way, spent = timed(worker, lambda: worker.set(scheme, direction, shape, folder))
    return worker, way, [spent] if shape[0] >= LONG_SHAPE and spent[0] > LONG else []


def measure(start, case, runs):
    name, direction, shape, with_best = case
    taking_part, chosen, skipped, differences, times, ours = {}, {}, {}, {}, {}, None
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        half = memory_of(start["attnkit"], name, direction, (shape[0] // 2, *shape[1:]), folder)
        write_inputs(folder, name, shape)
        for contender, its_start in start.items():
            if contender == "PyTorch" and not with_best:
                continue
            try:
                scheme = f"{name}-cells" if contender == "loop of cells" else name
                worker, chosen[contender], times[contender] = begin(
                    its_start, scheme, direction, shape, folder)
            except Missing as why:
                skipped[contender] = str(why)
                continue
            taking_part[contender] = worker
            found = answers(folder, name, direction)
            ours = ours or found
            differences[contender] = float(np.max(
                [np.abs(found[tensor] - ours[tensor]).max() / np.abs(ours[tensor]).max()
                 for tensor in ours]))
            if not differences[contender] <= CLOSE[direction]:
                sys.exit(f"run: {case}: answers of {contender} differ by {differences[contender]}")
        for _ in range(runs):
            for contender, worker in taking_part.items():
                if sum(seconds for seconds, _ in times[contender]) < LONG:
                    seconds, (_, used) = timed(worker, worker.time)
                    times[contender].append((seconds, used))
        memory = {contender: megabytes(worker) for contender, worker in taking_part.items()}
        for worker in taking_part.values():
            worker.close()
    seconds, cpu = ({contender: [of[which] for of in found] for contender, found in times.items()}
                    for which in (0, 1))
    medians = {contender: statistics.median(found) for contender, found in seconds.items()}
    return {
        "mechanism": name, "direction": direction, "shape": shape, "seconds": seconds, "median": medians,
        "speedup": {contender: median / medians["attnkit"] for contender, median in medians.items()},
        "cpu_seconds": {contender: statistics.median(found) for contender, found in cpu.items()},
        "variant": chosen, "max_relative_difference": differences, "megabytes": memory,
        "megabytes_of_half": half, "skipped": skipped,
    }


def print_mechanisms(conditions):
    """Measures, and prints line by line."""
    start = mechanism_contenders(conditions)
    peers = [contender for contender in start if contender != "attnkit"]
    print("mechanisms: seconds, and in brackets their time over ours; MB of our process, at half the "
          "first length and at all of it")
    print(f"{'':34}{'attnkit':>9}" + "".join(f"{peer:>16}" for peer in peers) + f"{'MB':>14}")
    figures = []
    for case in CASES:
        f = measure(start, case, conditions.runs)
        figures.append(f)
        cells = "".join(
            f"{f['median'][peer]:>9.2f} ({f['speedup'][peer]:.1f})" if peer in f["median"]
            else f"{'':>16}" for peer in peers)
        what = f"{case[0]} {case[1]} " + " x ".join(map(str, case[2]))
        print(f"{what:36}{f['median']['attnkit']:>7.3f}{cells}{f['megabytes_of_half']:>8.0f}"
              f"{f['megabytes']['attnkit']:>6.0f}", flush=True)
    for contender, why in sorted({item for f in figures for item in f["skipped"].items()}):
        print(f"{contender}: skipped: {why}")
    print()
    return figures
