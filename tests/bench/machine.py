"""The hardware and software of the measurements."""

import os
import platform
import subprocess
from datetime import date
from pathlib import Path

PACKAGES = ["libopenblas0-openmp", "python3-numpy", "python3-scipy", "python3-pot",
            "python3-torch", "libdnnl2"]


def field(file, name):
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return ""


def versions():
    """Versions of the Debian packages of the peers; empty without dpkg."""
    try:
        asked = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *PACKAGES],
                               capture_output=True, text=True)
    except FileNotFoundError:
        return {}
    return dict(line.split(" ", 1) for line in asked.stdout.splitlines() if line[-1] != " ")


def machine():
    flags = field("/proc/cpuinfo", "flags").split()
    return {
        "date": date.today().isoformat(),
        "cpu": field("/proc/cpuinfo", "model name") or platform.processor(),
        # The name of a virtual CPU may not say which one it is.
        "family": field("/proc/cpuinfo", "cpu family"),
        "model": field("/proc/cpuinfo", "model\t"),
        "simd": next((name for name in ("avx512f", "avx2", "sse4_1") if name in flags), ""),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "packages": versions(),
    }
