#!/usr/bin/python3
"""The build that another one is compared with, by `make bench-compare` and `make same-results`.

    tests/bench/base_build.py BASE      prints the folder of its tools

BASE is a commit, which is built in build/bench-base-SHA, or a folder with a build.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def git(*words):
    return subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *words],
                          check=True, capture_output=True).stdout


def build_of_commit(name):
    """Builds attn-bench and the tools of a commit, or finishes a build that was begun; its folder."""
    try:
        sha = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
    except subprocess.CalledProcessError:
        sys.exit(f"base_build: {name} is neither a commit nor a folder with a build")
    source = ROOT / "build" / f"bench-base-{sha[:12]}"
    if not source.exists():
        source.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=source.parent) as name:
            whole = Path(name) / "source"  # which appears whole or not at all
            whole.mkdir()
            subprocess.run(["tar", "-x", "-C", whole], input=git("archive", sha), check=True)
            whole.rename(source)
    built = source / "build/release"
    commands = [["cmake", "--preset", "release"],
                ["cmake", "--build", "--preset", "release", "--target", "attn-bench", "tools",
                 "--parallel", str(os.cpu_count())]]
    for command in commands:
        done = subprocess.run(command, cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        if done.returncode:
            sys.exit(f"base_build: {' '.join(command)} in {source}:\n{done.stdout}")
    return built


def base_build(name):
    """The folder of the build, which has attn-bench and the folder bin."""
    folder = Path(name).absolute()
    return folder if (folder / "bin/attn-compute").exists() else build_of_commit(name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(base_build(sys.argv[1]) / "bin")
