"""Memory is linear in the length: 16384 keys in under 64 MB beyond the inputs. Short runs take fewer, which a
matrix would exceed, too."""

import subprocess
import sys
import unittest

from attn import BIN, LONG, SANITIZED, TIMEOUT, ToolTest, write

import numpy as np

# On Linux, the peak memory of a process includes that of its parent. Therefore an interpreter
# without modules, smaller than any of the tools, starts them.
LAUNCHER = """
import os, resource, sys
child = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
status, usage = os.wait4(child, 0)[1:]
print(usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@unittest.skipIf(SANITIZED, "a sanitizer has its own idea of memory")
class Length(ToolTest):

    def peak(self, tool, *arguments):
        """The peak memory of a tool, in bytes."""
        command = [sys.executable, "-I", "-S", "-c", LAUNCHER, BIN / tool, *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, timeout=TIMEOUT,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return int(done.stdout.split()[-1])

    def test_many_keys(self):
        random = np.random.default_rng(0)
        keys = 16384 if LONG else 8192
        data = {n: random.standard_normal((keys, 64), np.float32) for n in "qk"}
        write(self.folder / "in.h5", **data)
        inputs = sum(values.nbytes for values in data.values())
        for command in (["attn-compute", "--emit=col_sum,row_entropy", "-q", "-o", "out.h5"],
                        ["attn-compute", "--scheme=dnas", "--emit=col_sum,row_entropy", "-q",
                         "-o", "dnas.h5"],
                        ["explain-away-stats", "-q", "-o", "stats.h5"]):
            with self.subTest(command=command):
                beyond = self.peak(*command, "in.h5", "--threads=2") - inputs
                print(f"{' '.join(command)}: {beyond / 1e6:.0f} MB beyond the inputs",
                      file=sys.stderr)
                self.assertLess(beyond, 64e6)

    def test_memory_does_not_grow_with_the_square(self):
        random = np.random.default_rng(1)
        peaks = []
        for keys in (2048, 8192 if LONG else 5120):
            values = random.standard_normal((keys, 8), np.float32)
            write(self.folder / f"{keys}.h5", q=values, k=values[::-1])
            peaks.append(self.peak("attn-compute", f"{keys}.h5", "-q", "--scheme=dnas",
                                   "--emit=col_sum", "-o", f"{keys}.out", "--threads=2"))
        # A float32 matrix would take 268 or 105 MB for the larger one.
        self.assertLess(peaks[1] - peaks[0], 30e6)

    def test_points_that_attend_to_each_other(self):
        # A matrix of their weights would take 0.8 or 0.2 GB; the program itself takes some 30 MB.
        options = [f"--counts={'9000,1000' if LONG else '4500,500'}", "--centres=1,1;0,0", "--steps=1", "--memory=32M", "-q"]
        for verb in (["simulate"], ["em", "--estimate-variance"]):
            peak = self.peak("mode-collapse-sim", *verb, *options, "-o", f"{verb[0]}.h5")
            self.assertLess(peak, (32 << 20) + 40e6)

    def test_large_heads_reuse_memory(self):
        # 4.2 MB of keys each, 100 MB in all, of which explain-away-stats keeps 6.7 MB of sums.
        random = np.random.default_rng(3)
        commands = (["attn-compute", "--scheme=dnas", "--emit=col_sum", "--only", "-q", "--force",
                     "-o", "out.h5"], ["explain-away-stats", "-q"])
        peaks = []
        for heads in (6, 24):
            write(self.folder / "in.h5", q=random.standard_normal((heads, 32, 64), np.float32),
                  k=random.standard_normal((heads, 16384, 64), np.float32))
            peaks.append([self.peak(*command, "in.h5", "--threads=2") for command in commands])
        for (tool, *_), few, many in zip(commands, *peaks):
            with self.subTest(tool=tool):
                self.assertLess(many - few, 25e6)

    def test_sinkhorn_keeps_what_memory_allows(self):
        random = np.random.default_rng(3)
        values = random.standard_normal((2, 4096, 8), np.float32)
        write(self.folder / "in.h5", q=values, k=values[:, ::-1])
        matrix = 4 * 4096 ** 2
        # Short runs have a part of a matrix for one tool, and more than one of them for the other.
        for sizes, tool, *arguments in (([64], "attn-compute", "--iterations=3", "--emit=col_sum", "-q"),
                                        ([256], "explain-away-stats")):
            command = [tool, "in.h5", "--scheme=sinkhorn", *arguments, "--threads=2", "--force",
                       "-o", "out.h5"]
            least = self.peak(*command, "--memory=32M")
            for allowed in (64, 96, 256) if LONG else sizes:
                with self.subTest(command=command, allowed=allowed):
                    kept = self.peak(*command, f"--memory={allowed}M") - least
                    print(f"{tool}: {kept / 1e6:.0f} MB more for {allowed} MB", file=sys.stderr)
                    self.assertLess(kept, (allowed - 32 << 20) + 4e6)
                    # One head at a time, which already reads some of them by tiles at the least
                    # memory.
                    self.assertLess(kept, matrix + 4e6)
                    self.assertGreater(kept, matrix / 3)

    def test_memory_does_not_grow_with_the_heads(self):
        # 6 and 60 MB through a pipe of three tools, each run separately here.
        random = np.random.default_rng(2)
        peaks = []
        for heads in (64, 640):
            values = random.standard_normal((heads, 128, 64), np.float32)
            write(self.folder / "in.h5", q=values, k=values, v=values)
            pipe = (["attn-compute", "in.h5", "-q", "--force", "-o", "a.h5"],
                    ["explain-away-stats", "a.h5", "-q", "--force", "-o", "b.h5"],
                    ["tensor-info", "b.h5"])
            peaks.append([self.peak(*command) for command in pipe])
        for (tool, *_), small, large in zip(pipe, *peaks):
            with self.subTest(tool=tool):
                print(f"{tool}: {small / 1e6:.0f} and {large / 1e6:.0f} MB", file=sys.stderr)
                # Column sums of two schemes are kept, and those of one are pooled and sorted.
                self.assertLess(large - small, 4 * 8 * 128 * 640 + 8e6)


if __name__ == "__main__":
    unittest.main()
