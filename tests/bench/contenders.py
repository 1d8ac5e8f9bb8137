"""The processes that run times: starting them and sending them commands."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from conditions import has_avx512

HERE = Path(__file__).resolve().parent
# Seconds: shorter runs have an untimed one before them, longer ones take part in every third turn.
SHORT, LONG = 0.3, 2
QUIET = 0.03  # seconds


class Missing(Exception):
    """A contender that cannot take part, with the reason."""


class Worker:
    """A process that speaks the protocol of worker.hpp."""

    def __init__(self, command, environment, why_missing):
        self.why_missing = why_missing
        self.process = subprocess.Popen(
            list(map(str, command)), env={**os.environ, **environment}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, *words):
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        reply = self.process.stdout.readline()
        if not reply:
            said = self.process.stderr.read()
            if self.why_missing and "No module named" in said:
                raise Missing(self.why_missing)
            sys.exit(f"run: {self.process.args}: {said}")
        return reply.strip()

    def set(self, scheme, direction, shape, folder):
        return self.ask("set", scheme, direction, *shape, folder)

    def time(self):
        return float(self.ask("time"))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def in_turn(workers, runs, rarely=()):
    """Seconds of each worker by name: of each of `runs` turns or, where it takes long or `rarely`
    names it, of every third one."""
    seconds = {name: [] for name in workers}
    for turn in range(runs):
        for name, worker in workers.items():
            found = seconds[name]
            if turn % 3 and (name in rarely or found[-1] > LONG):
                continue
            # Caches and threads as after a run of its own, when those of the others have gone to sleep:
            # threads of OpenMP spin for some milliseconds, and the kernel lets them go on for as long.
            if name not in rarely and (not found or found[-1] < SHORT):
                time.sleep(QUIET)
                worker.time()
            found.append(worker.time())
    return seconds


class Tool:
    """attn-compute on a bundle: compute_s of its report, which excludes reading and writing."""

    def __init__(self, tool, threads):
        self.tool, self.threads = tool, threads

    def set(self, scheme, direction, shape, folder):
        if not direction.startswith("forward"):
            raise Missing("")
        import h5py
        import numpy as np

        self.folder = Path(folder)
        self.command = [self.tool, "--quiet", "--scheme", scheme, "--emit", "out", "--only", "--force",
                        "--threads", str(self.threads), f"--json={self.folder / 'report.json'}",
                        str(self.folder / "in.h5"), "-o", str(self.folder / "out.h5")]
        with h5py.File(self.folder / "in.h5", "w") as file:
            for name in "qkv":
                file[name] = np.fromfile(self.folder / name, np.float32).reshape(shape[0], -1, shape[2])
        self.time()
        with h5py.File(self.folder / "out.h5") as file:
            file["out"][:].tofile(self.folder / "out")
        return "command"

    def time(self):
        subprocess.run(self.command, check=True)
        runtime = json.loads((self.folder / "report.json").read_text())["runtime"]
        return runtime["compute_s"]

    def close(self):
        pass


def python_worker(script, environment, why_missing=""):
    # OpenBLAS' OpenMP build, whichever BLAS Debian's alternatives select.
    folder = next(Path("/usr/lib").glob("*/openblas-openmp"), "")
    paths = ":".join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH", "")]))
    return Worker([sys.executable, HERE / script], {**environment, "LD_LIBRARY_PATH": paths}, why_missing)


def onednn_worker(build, environment):
    program = build / "onednn-bench-worker"
    if not program.exists():
        raise Missing("libdnnl-dev was not installed when this was built (scripts/install-deps peers)")
    return Worker([program], environment, "")


def settings(conditions):
    """Environments: for all, for those that keep memory, for peers, and for PyTorch."""
    threads = str(conditions.threads)
    omp = {"OMP_NUM_THREADS": threads, "BENCH_THREADS": threads}
    # Freed memory is kept instead of being returned and faulted in again, which can cost several
    # times the computation: nothing is mapped separately, and threads share one heap that is never
    # trimmed. (A mapping threshold above 32 MB would be ignored.)
    kept = {**omp, "MALLOC_MMAP_MAX_": "0", "MALLOC_ARENA_MAX": "1",
            "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(2**26)}
    peers = {**kept, **conditions.peer()}
    # PyTorch does not use AVX-512 by default on every CPU.
    wide = {"ATEN_CPU_CAPABILITY": "avx512"} if has_avx512(conditions.target) else {}
    return omp, kept, peers, {**peers, **wide}


def attn_bench(conditions, case, environment=None):
    """attn-bench on one of its cases (library.cpp)."""
    command = [conditions.build / "attn-bench", "--threads", conditions.threads, "--serve", case]
    return Worker(command, environment or {}, "")


NO_TORCH = "python3-torch is not installed (scripts/install-deps peers)"


def contenders(conditions):
    """Names, and functions that start them; the others are compared with the first."""
    omp, _, peers, torch = settings(conditions)
    build = conditions.build
    return {
        "attnkit": lambda: Worker([build / "attn-bench-worker"], omp, ""),
        "sgemm": lambda: attn_bench(conditions, "gemm:4096", conditions.peer()),
        "tool": lambda: Tool(build / "bin/attn-compute", conditions.threads),
        "NumPy": lambda: python_worker("numpy_worker.py", {**peers, "OMP_NUM_THREADS": "1"}),
        "PyTorch": lambda: python_worker("torch_worker.py", torch, NO_TORCH),
        "oneDNN": lambda: onednn_worker(build, omp),
    }


def solvers(conditions):
    """The same for Sinkhorn and the dual."""
    _, kept, peers, torch = settings(conditions)
    return {
        "attnkit": lambda: Worker([conditions.build / "attn-bench-solver-worker"], kept, ""),
        "POT": lambda: python_worker("pot_worker.py", peers,
                                     "python3-pot is not installed (scripts/install-deps peers)"),
        "PyTorch": lambda: python_worker("torch_sinkhorn_worker.py", torch, NO_TORCH),
        "NumPy": lambda: python_worker("dual_worker.py", peers,
                                       "python3-scipy is not installed (scripts/install-deps peers)"),
    }


def mechanism_contenders(conditions):
    """The same for recurrent mechanisms."""
    _, kept, _, torch = settings(conditions)

    def pytorch():
        return python_worker("torch_mechanism_worker.py", torch, NO_TORCH)

    return {
        "attnkit": lambda: Worker([conditions.build / "attn-bench-mechanism-worker"], kept, ""),
        "loop of cells": pytorch,
        "PyTorch": pytorch,
    }
