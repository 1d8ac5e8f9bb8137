"""A step of si-adam by basis-paths between two files and between two pipes, beside `cp` of as many
bytes: a part of tests/bench/run."""

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

LENGTH = 4096  # of the square matrices wq and wk, float64
STEP = ["step", "--optimizer", "si-adam", "--skeleton", "largest", "--rate", "1e-4", "--quiet"]


def _write_bundle(tool, length, folder):
    """Weights with gradients and the moments of an earlier step."""
    import h5py
    random = np.random.default_rng(1)
    gradients = {name: 1e-3 * random.standard_normal((length, length)) for name in ("grad_wq", "grad_wk")}
    with h5py.File(folder / "first.h5", "w") as file:
        for name in ("wq", "wk"):
            file[name] = random.standard_normal((length, length))
        for name, values in gradients.items():
            file[name] = values
    subprocess.run([tool, *STEP, folder / "first.h5", "-o", folder / "in.h5"], check=True)
    (folder / "first.h5").unlink()
    with h5py.File(folder / "in.h5", "a") as file:
        for name, values in gradients.items():
            file[name] = values


def measure(tool, length, runs):
    """Seconds by name. Everything lies in memory where there is /dev/shm."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        environment = {**os.environ, "TMPDIR": name}
        _write_bundle(tool, length, folder)
        step = f"'{tool}' {' '.join(STEP)}"
        # A tool between pipes receives its whole input before it sends its whole output.
        commands = {"files": f"{step} in.h5 -o out.h5 --force",
                    "pipes": f"cat in.h5 | {step} | cat > out.h5",
                    "cp": "cp copied copy",
                    "pipes only": "cat in.h5 | cat > copy && cat made | cat > out.h5"}

        def seconds(command):
            begun = time.perf_counter()
            subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True, cwd=folder,
                           env=environment)
            return time.perf_counter() - begun

        seconds(commands["files"])
        read, written = ((folder / file).stat().st_size for file in ("in.h5", "out.h5"))
        # `cp` reads and writes as many bytes in all.
        for name, size in (("copied", (read + written) // 2), ("made", written)):
            with open(folder / name, "wb") as file:
                for _ in range(0, size, 2**20):
                    file.write(bytes(2**20))
        times = {name: [] for name in commands}
        for turn in range(runs + 1):
            for name, command in commands.items():
                found = seconds(command)
                if turn:  # the first one touches new pages
                    times[name].append(found)
    return {"length": length, "read": read, "written": written, "seconds": times,
            "median": {name: statistics.median(found) for name, found in times.items()}}


def print_pipe(conditions):
    figure = measure(conditions.build / "bin/basis-paths", LENGTH, conditions.runs)
    medians = figure["median"]
    print(f"pipe: a step of si-adam, {LENGTH} x {LENGTH}, float64, {figure['read'] / 1e6:.0f} MB read and "
          f"{figure['written'] / 1e6:.0f} MB written")
    print("  ".join(f"{name} {seconds:.2f} s ({seconds / medians['cp']:.1f})"
                    for name, seconds in medians.items()) + "\n", flush=True)
    return figure
