"""Whole commands of the tools, from start to end: their time and their peak memory. A part of tests/bench/compare."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# By name of a bundle, the shapes of its random numbers.
BUNDLES = {
    "tiny": {"q": (1, 8, 16), "k": (1, 8, 16), "v": (1, 8, 16)},
    "layer": {"q": (16, 1024, 64), "k": (16, 1024, 64), "v": (16, 1024, 64)},
    "training": {"q": (8, 512, 64), "k": (8, 512, 64), "v": (8, 512, 64), "grad_out": (8, 512, 64)},
    "long": {"q": (1, 1024, 64), "k": (1, 131072, 64), "v": (1, 131072, 64)},
    "many": {"q": (512, 64, 64), "k": (512, 64, 64), "v": (512, 64, 64)},
    "cost": {"cost": (4, 512, 512)},
    "features": {"q": (2, 256, 32), "k": (2, 256, 32)},
    "paths": {name: (1024, 1024) for name in ("wq", "wk", "grad_wq", "grad_wk")},
}
# Command lines of bash by name. A start is repeated, as one takes only some milliseconds.
COMMANDS = {
    "start": "for n in {1..20}; do attn-compute --version >version; done",
    "start of a tiny problem": "for n in {1..20}; do attn-compute tiny.h5 --only --force -o out.h5; done",
    "start of explain-away-stats": "for n in {1..20}; do explain-away-stats tiny.h5 >table; done",
    "attn-compute unas": "attn-compute layer.h5 --only -o out.h5",
    "attn-compute dnas": "attn-compute --scheme dnas layer.h5 --only -o out.h5",
    "attn-compute gradients": "attn-compute --scheme dnas training.h5 --emit grad_q,grad_k,grad_v --only -o out.h5",
    "attn-compute 131072 keys": "attn-compute --scheme dnas long.h5 --only -o out.h5",
    "attn-compute 512 heads": "attn-compute --scheme dnas many.h5 --only -o out.h5",
    "explain-away-stats": "explain-away-stats layer.h5 >table",
    "explain-away-stats 512 heads": "explain-away-stats many.h5 >table",
    "pipe": "attn-compute --scheme dnas layer.h5 | explain-away-stats --scheme stored - >table",
    "sinkhorn-iter": "sinkhorn-iter --epsilon 0.1 --iterations 100 cost.h5 --only -o out.h5",
    "sinkhorn-iter exact": "sinkhorn-iter exact --gap 0.001 cost.h5 --only -o out.h5",
    "lambda-solve": "lambda-solve features.h5 --only -o out.h5",
    "mode-collapse-sim": "mode-collapse-sim simulate --counts 1500,500 --centres '1,0;-1,0' -o out.h5",
    "basis-paths": "basis-paths step --rate 1e-4 --optimizer si-sgd --on-singular skip paths.h5 -o out.h5",
}


class Failed(Exception):
    """A command that a build does not run, with what it said."""


def write_inputs(folder):
    import h5py
    import numpy as np
    random = np.random.default_rng(1)
    for bundle, shapes in BUNDLES.items():
        with h5py.File(folder / f"{bundle}.h5", "w") as file:
            for name, shape in shapes.items():
                scale = 1e-3 if name.startswith("grad_w") else 1
                file[name] = (scale * random.standard_normal(shape)).astype(np.float32)


class Commands:
    """The inputs, in a temporary folder. Use in a `with`."""

    def __enter__(self):
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        # In a process of its own: the peak memory of a new process is at least what its parent has then.
        subprocess.run([sys.executable, __file__, self.folder], check=True)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def measure(self, build, name, threads):
        """Seconds, and bytes of the largest process."""
        environment = {**os.environ, "PATH": f"{build / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(self.folder),
                       "OMP_NUM_THREADS": str(threads)}
        for made in ("out.h5", "table", "version"):
            (self.folder / made).unlink(missing_ok=True)
        begun = time.perf_counter()
        with subprocess.Popen(["bash", "-e", "-o", "pipefail", "-c", COMMANDS[name]], cwd=self.folder, env=environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            said = run.stderr.read().decode(errors="replace")
            _, status, used = os.wait4(run.pid, 0)
            seconds = time.perf_counter() - begun
            run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode:
            raise Failed((said.strip().splitlines() or [f"status {run.returncode}"])[-1])
        return seconds, 1024 * used.ru_maxrss


if __name__ == "__main__":
    write_inputs(Path(sys.argv[1]))
