"""Shared by the tests of the tools: running the real binaries, and reading and writing bundles
through h5py.

ctest sets ATTN_BIN (the folder of the binaries) and ATTN_SOURCE (the project's root); by hand:

    ATTN_BIN=build/release/bin ATTN_SOURCE=. PYTHONPATH=tests/tools python3 -m unittest -v test_bits
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

BIN = Path(os.environ["ATTN_BIN"]).resolve()
SOURCE = Path(os.environ["ATTN_SOURCE"]).resolve()
SANITIZED = "ASAN_OPTIONS" in os.environ
# `make test-long` tries every case of the sets of which `make test` takes a sample.
LONG = bool(os.environ.get("ATTN_LONG"))
# The lowest usable limit on the size of files: clang's OpenMP creates a file of that size before
# main begins.
LEAST_FILE_SIZE = 1024 if SANITIZED else 0
TIMEOUT = 300  # seconds per command: far more than any takes, even with sanitizers


def sample(cases, count):
    """`count` of the cases, evenly spread, with the first and the last; in long runs all of them."""
    cases = list(cases)
    if LONG or count >= len(cases):
        return cases
    return [cases[n * (len(cases) - 1) // max(1, count - 1)] for n in range(count)]


class Bundle(dict):
    """Datasets by path ("name" or "group/name"), strings as str, with the root's attributes, the
    attributes of all objects by path, and the dimension labels by path. Links are not followed."""

    def __init__(self, source):
        super().__init__()
        with h5py.File(source, "r") as file:
            self.attributes = dict(file.attrs)
            self.attributes_of, self.labels, self.groups = {}, {}, []
            file.visititems(self._take)

    def _take(self, name, item):
        self.attributes_of[name] = dict(item.attrs)
        if isinstance(item, h5py.Group):
            self.groups.append(name)
            return
        self[name] = item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()]
        if item.shape is not None:
            self.labels[name] = [axis.label for axis in item.dims]


def write(path, /, attributes=None, **datasets):
    """Writes a bundle; "__" in a dataset's name stands for "/". Returns the path."""
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name.replace("__", "/")] = values
        file.attrs.update(attributes or {})
    return path


def bundle_bytes(**datasets):
    """A bundle as bytes, to be sent through a pipe."""
    stream = io.BytesIO()
    write(stream, **datasets)
    return stream.getvalue()


def require_program(test, program, group="lint"):
    """Skips a test that needs a program which is not installed; where CI is set, fails it. `group`
    is that of scripts/install-deps."""
    if shutil.which(program):
        return
    if os.environ.get("CI"):
        test.fail(f"{program} is not installed")
    test.skipTest(f"{program} is not installed (scripts/install-deps {group} installs it)")


class Run(NamedTuple):
    """The result of a command."""

    status: int  # negative: the signal that ended it
    out: bytes
    err: str

    def bundle(self):
        return Bundle(io.BytesIO(self.out))

    def json(self):
        return json.loads(self.out)


class ToolTest(unittest.TestCase):
    """A test with a folder of its own, in which the tools run, and another one for their
    temporaries, which must be empty when the test ends."""

    def setUp(self):
        base = Path(tempfile.mkdtemp(prefix="attn-test-"))
        self.addCleanup(shutil.rmtree, base, ignore_errors=True)
        self.folder, self.tmp = base / "work", base / "tmp"
        self.folder.mkdir()
        self.tmp.mkdir()
        self.environment = os.environ | {
            "TMPDIR": str(self.tmp),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }

    def tearDown(self):
        self.assertEqual(sorted(os.listdir(self.tmp)), [], "temporaries were left behind")

    def write(self, name, /, attributes=None, **datasets):
        """Writes a bundle into the test's folder; returns its name."""
        write(self.folder / name, attributes, **datasets)
        return name

    def read(self, name):
        return Bundle(self.folder / name)

    def read_json(self, name):
        return json.loads((self.folder / name).read_text())

    def run_tool(self, tool, *arguments, status=0, stdin=b"", environment=None, cwd=None, **more):
        """Runs a tool on `stdin` (bytes, or a file), and checks its exit status unless that is
        None."""
        command = [str(BIN / tool), *map(str, arguments)]
        feed = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        done = subprocess.run(command, cwd=cwd or self.folder, timeout=TIMEOUT, check=False,
                              env=self.environment | (environment or {}), **feed, **pipes | more)
        error = (done.stderr or b"").decode()
        if status is not None:
            self.assertEqual(done.returncode, status, f"{tool} {arguments}: {error}")
        return Run(done.returncode, done.stdout, error)

    def put_python_first(self):
        """Puts a folder before the PATH of commands, whose python3 is this one: it has NumPy and h5py. Returns the folder."""
        binaries = self.folder.parent / "bin"
        binaries.mkdir()
        (binaries / "python3").symlink_to(sys.executable)
        self.environment["PATH"] = f"{binaries}:{self.environment['PATH']}"
        return binaries

    def refused(self, tool, *arguments, status, says=(), hint=None, output="out.h5", **more):
        """Runs a tool that must refuse its input: one line of error that contains `says`, a text or several,
        at most one line of hint (which must contain `hint`), and nothing written, with `-o output`
        unless None."""
        before = sorted(os.listdir(self.folder))
        if output is not None:
            arguments = [*arguments, "-o", output]
        done = self.run_tool(tool, *arguments, status=status, **more)
        form = rf"\A{tool}: error: .+\n({tool}: hint: .+\n)?\Z"
        self.assertRegex(done.err, form)
        error, _, rest = done.err.partition("\n")
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, error)
        if hint is not None:
            self.assertIn(hint, rest)
        self.assertFalse(done.out)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def compute(self, *arguments, **more):
        """The standard output of attn-compute, as a Bundle."""
        return self.run_tool("attn-compute", *arguments, **more).bundle()

    def stats(self, *arguments, **more):
        """The result of explain-away-stats --json."""
        return self.run_tool("explain-away-stats", *arguments, "--json", **more).json()["result"]

    def shell(self, script, status=0):
        """Runs bash on `script` in the test's folder with the tools on PATH; a pipeline fails if
        any of its commands fails."""
        command = ["bash", "-o", "pipefail", "-c", script]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True,
                              timeout=TIMEOUT, check=False)
        if status is not None:
            self.assertEqual(done.returncode, status, f"{script}: {done.stderr.decode()}")
        return Run(done.returncode, done.stdout, done.stderr.decode())

    def assert_near(self, name, actual, expected, limit):
        """Checks |actual − expected| <= limit (an array that broadcasts, or a number) everywhere;
        equal infinities are equal."""
        actual, expected = np.asarray(actual), np.asarray(expected)
        self.assertEqual(actual.shape, expected.shape, name)
        with np.errstate(invalid="ignore"):
            error = np.abs(actual.astype(np.longdouble) - expected)
        error = np.where(np.isinf(actual) & (actual == expected), 0, error)
        # Written so that a NaN is not near anything.
        wrong = ~(error <= limit)
        if wrong.any():
            at = tuple(map(int, np.argwhere(wrong)[0]))
            self.fail(f"{name} differs at {wrong.sum()} of {wrong.size} places, the first is {at}: "
                      f"{actual[at]!r}, expected {expected[at]!r}, "
                      f"limit {np.broadcast_to(limit, wrong.shape)[at]:.3g}")

    def assert_same_bits(self, actual, expected, names=None):
        """Checks that two Bundles hold the same datasets, to the last bit."""
        names = sorted(expected) if names is None else names
        for name in names:
            a, b = actual[name], expected[name]
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape), name)
            # The bytes of strings are pointers.
            a, b = (one.tolist() if one.dtype == object else one.tobytes() for one in (a, b))
            self.assertEqual(a, b, f"{name} differs")
