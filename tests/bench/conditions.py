"""What holds for a whole run: the build, the threads, the instruction set, and OpenBLAS' kernels."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

# The environment in which the peers, too, use no instructions beyond those of an ATTN_TARGET. NumPy
# has a list of the instruction sets that it must not use.
WIDE = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
NARROW = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41",
          "NPY_DISABLE_CPU_FEATURES": f"AVX F16C FMA3 AVX2 {WIDE}"}
TARGETS = {
    "avx2": {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2",
             "ONEDNN_MAX_CPU_ISA": "AVX2", "NPY_DISABLE_CPU_FEATURES": WIDE},
    "ssse3": {"OPENBLAS_CORETYPE": "Core2", **NARROW},
    "scalar": {"OPENBLAS_CORETYPE": "Prescott", **NARROW},
}


def flags_of_cpu():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    return set()


def has_avx512(target):
    return not target and {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags_of_cpu()


@dataclass
class Conditions:
    """How everything is run. `core_type` is the fastest of OpenBLAS' sets of kernels, which is
    given to the peers only; "": its own choice. The library is run as its users run it."""

    build: Path
    threads: int
    runs: int
    target: str = ""
    core_type: str = ""
    core_rates: dict = field(default_factory=dict)  # GF/s of each: of sgemm and of dgemm

    def find_core_type(self):
        """OpenBLAS takes the kernels for AVX2 on CPUs that are newer than itself. Tried: its own
        choice, and those that this CPU can run."""
        if self.target:
            types = [TARGETS[self.target]["OPENBLAS_CORETYPE"]]
        else:
            types = ["", *["Haswell"] * ("avx2" in flags_of_cpu()), *["SkylakeX"] * has_avx512("")]
        times = {}
        for name in types:
            command = [self.build / "attn-bench", "--json", "--runs", "3", "--threads",
                       str(self.threads), "gemm:2048", "gemm:2048:f64"]
            text = subprocess.run(command, check=True, capture_output=True, text=True,
                                  env={**os.environ, **core(name)}).stdout
            found = [json.loads(line) for line in text.splitlines()]
            self.core_rates[name or "own choice"] = [figure["gflops"] for figure in found]
            times[name] = sum(figure["seconds"] for figure in found)
        self.core_type = min(times, key=times.get)

    def peer(self):
        """The environment of a peer that uses OpenBLAS."""
        return core(self.core_type)


def core(name):
    return {"OPENBLAS_CORETYPE": name} if name else {}


def use_target(target):
    """For this process and all that it starts."""
    os.environ.update({"ATTN_TARGET": target, **TARGETS[target]})
