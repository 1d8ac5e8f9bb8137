"""How long the tools take to start, and for a tiny problem, as whole processes: a part of
tests/bench/run."""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import mechanisms
import numpy as np

# Starts are short: each tool runs this many times the usual number of runs.
MANY = 3
# Bundles of random numbers, by name and shape.
BUNDLES = {
    "layer": {"q": (1, 8, 16), "k": (1, 8, 16), "v": (1, 8, 16)},
    "cost": {"cost": (8, 8)},
    "paths": {"wq": (8, 4), "wk": (8, 4), "grad_wq": (8, 4), "grad_wk": (8, 4)},
    "sentence": {"x": (8, 4), "w1": (3, 4), "w2": (2, 3)},
    "texts": {"document": (8, 4), "question": (8, 4)},
    "pair": {"a": (8, 4), "b": (8, 4), "f1": (4, 4), "f2": (4, 4), "g1": (4, 8), "g2": (4, 4),
             "h1": (4, 8), "h2": (2, 4)},
    "sequence": {"x": (8, 4), "w_h": (4, 4), "w_x": (4, 4), "w_prev": (4, 4), "v": (4,), "w": (16, 8),
                 "b": (16,)},
    "encoder": mechanisms.shapes("coattention", (8, 8, 4)),
}
# The commands of tiny problems; {} is the folder. Tools that are not named only say their version.
TINY = {
    "attention-over-attention": "{}/texts.h5 -o {}/out.h5 --force",
    "attn-compute": "{}/layer.h5 -o {}/out.h5 --force",
    "attn-view": "{}/layer.h5 -o {}/out.html --force",
    "basis-paths": "step --rate 0.001 {}/paths.h5 -o {}/out.h5 --force",
    "coattention": "{}/encoder.h5 -o {}/out.h5 --force",
    "decomposable-attention": "{}/pair.h5 -o {}/out.h5 --force",
    "explain-away-stats": "{}/layer.h5",
    "intra-attention": "{}/sequence.h5 -o {}/out.h5 --force",
    "lambda-solve": "{}/layer.h5 -o {}/out.h5 --force",
    "mode-collapse-sim": "curve --r 1:10:8 --a 1 -o {}/out.h5 --force",
    "seed-test": "--means 121.85,123.23 --deviations .46,.36 --counts 4 --better lower",
    "sinkhorn-iter": "--epsilon 1 {}/cost.h5 -o {}/out.h5 --force",
    "structured-attention": "{}/sentence.h5 -o {}/out.h5 --force",
    "tensor-compare": "{}/layer.h5 {}/layer.h5",
    "tensor-convert": "{}/layer.h5 -o {}/out.npz --force",
    "tensor-gen": "normal q=8x8 -o {}/out.h5 --force",
    "tensor-info": "{}/layer.h5",
}
# What else a process costs here.
OTHERS = {"/bin/true": ["/bin/true"],
          "Python with NumPy and h5py": [sys.executable, "-c", "import numpy, h5py"]}


def write_inputs(folder):
    import h5py
    random = np.random.default_rng(1)
    for bundle, shapes in BUNDLES.items():
        with h5py.File(folder / f"{bundle}.h5", "w") as file:
            for name, shape in shapes.items():
                file[name] = random.random(shape).astype(np.float32)


def milliseconds(command):
    """From the start of the process to its end, which is faster to begin than by `subprocess`."""
    quiet = [(os.POSIX_SPAWN_OPEN, descriptor, "/dev/null", os.O_RDWR, 0) for descriptor in (0, 1, 2)]
    begun = time.perf_counter()
    process = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    _, status = os.waitpid(process, 0)
    spent = time.perf_counter() - begun
    if status:
        sys.exit(f"run: {' '.join(command)}: status {os.waitstatus_to_exitcode(status)}")
    return 1e3 * spent


def commands(binaries, folder):
    """By name and kind: "version" or "tiny"."""
    found = {(name, "version"): command for name, command in OTHERS.items()}
    for tool in sorted(binaries.iterdir()):
        found[tool.name, "version"] = [str(tool), "--version"]
        if tool.name in TINY:
            words = TINY[tool.name].replace("{}", str(folder)).split()
            found[tool.name, "tiny"] = [str(tool), *words]
    return found


def print_startup(conditions):
    """Measures in turn, and prints."""
    print("startup: ms of --version, and of a tiny problem, whole processes")
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        write_inputs(Path(name))
        every = commands(conditions.build / "bin", Path(name))
        times = {key: [] for key in every}
        for turn in range(MANY * conditions.runs + 1):
            for key, command in every.items():
                found = milliseconds(command)
                if turn:  # the first one reads the files
                    times[key].append(found)
    figures = []
    for tool in dict.fromkeys(tool for tool, _ in every):
        figure = {"tool": tool} | {kind: statistics.median(times[tool, kind])
                                   for kind in ("version", "tiny") if (tool, kind) in times}
        figures.append(figure)
        tiny = f"{figure['tiny']:>9.1f}" if "tiny" in figure else ""
        print(f"{tool:28}{figure['version']:>9.1f}{tiny}")
    print(flush=True)
    return figures
