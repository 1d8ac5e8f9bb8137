"""Under any limit on the address space, a tool works or reports in one line that memory is
short."""

import resource
import subprocess
import time
import unittest

import numpy as np

from attn import BIN, SANITIZED, ToolTest, sample

SECONDS = 20  # far more than a refusal takes, even on a busy machine
LOADER = 127
TOOLS = sorted(path.name for path in BIN.iterdir() if path.is_file())


def loads_openblas(tool):
    """Whether the loader loads OpenBLAS before the tool begins."""
    return "libopenblas" in subprocess.run(["ldd", BIN / tool], capture_output=True, check=True,
                                           text=True).stdout


@unittest.skipIf(SANITIZED, "sanitizers reserve terabytes")
class MemoryLimits(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(0)
        self.write("in.h5", w=random.normal(size=(4, 16, 16)),
                   **{n: random.normal(size=(4, 300, 16)) for n in "qkv"})
        self.write("paths.h5", wq=random.normal(size=(3, 4)), wk=random.normal(size=(3, 4)))
        self.write("dual.h5", t=random.normal(size=(2, 30, 5)), z=random.normal(size=(2, 10, 5)))

    def limited(self, megabytes, tool, *arguments, environment=None):
        """The status and message of a tool under a limit; it must not end by a signal or run
        forever, must report one error and must leave nothing behind."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

        before = sorted(p.name for p in self.folder.iterdir())
        done = subprocess.run([BIN / tool, *arguments], cwd=self.folder, capture_output=True,
                              timeout=SECONDS, preexec_fn=limit, check=False,
                              env=self.environment | (environment or {}))
        error = done.stderr.decode()
        (self.folder / "out.h5").unlink(missing_ok=done.returncode != 0 or "-o" not in arguments)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), before)
        self.assertIn(done.returncode, (0, 6, LOADER), error)
        if done.returncode == 6:
            self.assertRegex(error, rf"\A{tool}: error: .+\n({tool}: hint: .+\n)?\Z")
        return done.returncode, error

    def statuses(self, *command):
        """The statuses under rising limits, each listed once: the loader's, then 6, then 0."""
        statuses = [self.limited(megabytes, *command)[0]
                    for megabytes in sample(range(40, 600, 20), 6)]
        self.assertEqual(statuses[-1], 0)
        return set(statuses)

    def test_every_tool_that_loads_openblas(self):
        tools = [tool for tool in TOOLS if loads_openblas(tool)]
        self.assertIn("attn-compute", tools)
        for tool in tools:
            with self.subTest(tool=tool):
                self.assertEqual(self.statuses(tool, "--help"), {LOADER, 6, 0})

    def test_tools_that_do_not_load_openblas(self):
        tools = [tool for tool in TOOLS if not loads_openblas(tool)]
        self.assertIn("tensor-info", tools)
        for tool in tools:
            with self.subTest(tool=tool):
                status, error = self.limited(150, tool, "--help",
                                             environment={"OMP_NUM_THREADS": "1"})
                self.assertEqual(status, 0, error)

    def test_runs(self):
        commands = (["attn-compute", "in.h5"], ["explain-away-stats", "in.h5"],
                    ["sinkhorn-iter", "in.h5"], ["lambda-solve", "dual.h5"],
                    ["mode-collapse-sim", "curve", "--r", "1:10:5", "--a", "1"],
                    ["basis-paths", "values", "paths.h5"], ["tensor-convert", "in.h5"])
        for command in commands:
            for more in (["--threads=1", "-o", "out.h5"], ["--threads=2", "-o", "out.h5"]):
                with self.subTest(command=command, more=more):
                    statuses = self.statuses(*command, *more)
                    if loads_openblas(command[0]):
                        self.assertEqual(statuses, {LOADER, 6, 0})

    def test_blas_in_threads(self):
        # Every thread needs a buffer of its own, for which OpenBLAS would wait forever.
        command = ["attn-compute", "in.h5", "--energy=bilinear", "--emit=out,weights", "--threads=3",
                   "-o", "out.h5"]
        seen = {self.limited(megabytes, *command, environment={"OMP_NUM_THREADS": "1"})
                for megabytes in range(200, 900, 50)}
        self.assertEqual({status for status, _ in seen}, {0, 6})
        self.assertTrue(any("MiB of address space for each of" in error for _, error in seen))

    def test_heads_that_threads_take_each(self):
        random = np.random.default_rng(1)
        for name, queries, keys in (("small.h5", 4, 4), ("tall.h5", 6000, 250)):
            self.write(name, **{n: random.normal(size=(12, queries if n == "q" else keys, 48)).astype(np.float32)
                                for n in "qkv"})
        for tool, *options in (["attn-compute", "--scheme=dnas", "--emit=col_potential", "--only", "-o", "out.h5"],
                               ["explain-away-stats", "--scheme=unas,dnas"]):
            def told(name, *more, tool=tool, options=tuple(options)):
                self.run_tool(tool, name, *options, "--threads=16", "--json=report.json", "--force", *more)
                return self.read_json("report.json")

            base = told("small.h5")["runtime"]["peak_rss_bytes"]
            for memory in ("1G", "40M"):
                with self.subTest(tool=tool, memory=memory):
                    limit = f"--memory={memory}"
                    planned = told("tall.h5", limit, "--dry-run")["result"]["working_bytes"]
                    used = told("tall.h5", limit)["runtime"]["peak_rss_bytes"] - base
                    # Freed blocks stay mapped (bundles.cpp): between blocks of other sizes, a half of all was seen.
                    self.assertLess(used, 1.5 * planned + (4 << 20))

    def test_a_long_head_is_planned_once(self):
        """Each further thread takes a lane of sums (queries, channels) at most, not another set of lanes."""
        draw = np.random.default_rng(1)
        rows, depth = 6000, 64
        self.write("long.h5", **{n: draw.normal(size=(rows, depth)).astype(np.float32) for n in "qkv"})
        self.write("masked.h5", cost=draw.uniform(size=(900, 900)), mask=draw.uniform(size=(900, 900)) < 0.9)
        lane = 4 * rows * (depth + 16) + (4 << 20)  # and tiles, for each thread
        for most, *command in ((lane, "attn-compute", "long.h5", "--scheme", "dnas", "--emit", "out,col_sum"),
                               (lane, "explain-away-stats", "long.h5", "--scheme", "unas,dnas,hnas", "--hybrid", "0.5"),
                               (8 << 20, "sinkhorn-iter", "masked.h5", "--epsilon", "0.1")):
            with self.subTest(tool=command[0]):
                one, many = (self.run_tool(*command, "--dry-run", "--json", "--memory", "8G", "--threads", threads)
                             .json()["result"]["working_bytes"] for threads in (1, 16))
                self.assertLess(one, many + 1)
                self.assertLess(many - one, 15 * most)

    def test_refused_at_once(self):
        start = time.monotonic()
        status, error = self.limited(150, "attn-compute", "--help",
                                     environment={"OMP_NUM_THREADS": "1"})
        self.assertEqual(status, 6)
        self.assertIn("OpenBLAS needs 136 MiB", error)
        self.assertLess(time.monotonic() - start, 5)

    def test_threads_that_cannot_be_started(self):
        status, error = self.limited(150, "tensor-gen", "normal", "q=4000x1000", "--threads=64",
                                     "-o", "out.h5")
        self.assertEqual(status, 6)
        self.assertIn("64 threads cannot be started", error)


if __name__ == "__main__":
    unittest.main()
