"""What tensor-join adds to results: INPUT and the datasets of -i, as an undivided run does, and its warnings."""

import os
import shutil
import unittest

import h5py
import numpy as np

from shards import ShardTest


class Inputs(ShardTest):
    """--with and -i: the joined bundle is that of the command without --shard and without --only."""

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(2)
        self.write("same.h5", {"model": "m"},
                   **{f"l{n}__{name}": draw.normal(size=(2, 9, 4)) for n in range(3) for name in "qkv"})
        self.write("one.h5", {"model": "m"}, **{name: draw.normal(size=(2, 3, 9, 4)) for name in "qkv"})
        self.write("k.h5", k=draw.normal(size=(5, 2, 9, 4)), out=draw.normal(size=(2, 3, 9, 4)))
        self.write("z.h5", extra=draw.normal(size=4))

    def check(self, tool, inputs, given, *options, count=2):
        """Shards of a run with `inputs`, which tensor-join is `given`, too."""
        self.run_tool(tool, *inputs, *options, "-q", "-o", "whole.h5", "--force")
        files = self.shards(tool, *inputs, *options, "-q", count=count)
        self.run_tool("tensor-join", *files, *given, "-q", "-o", "joined.h5", "--force")
        self.assert_same("whole.h5", "joined.h5")
        for file in files:
            (self.folder / file).unlink()

    def test_same_as_undivided(self):
        other = ["-i", "k=k.h5:/k[1]", "-i", "extra=z.h5:/extra"]
        for count in (1, 2, 7):
            with self.subTest(count=count):
                self.check("attn-compute", ["same.h5", *other], ["--with", "same.h5", *other], count=count)
        with h5py.File(self.folder / "joined.h5") as file:  # stored once
            self.assertEqual(file["l0/k"], file["l2/k"])
        self.check("attn-compute", ["one.h5", "-i", "v=one.h5:/k"], ["--with", "one.h5", "-i", "v=one.h5:/k"])
        # Results in place of a dataset of -i.
        with_out = ["-i", "out=k.h5:/out"]
        self.check("attn-compute", ["one.h5", *with_out], ["--with", "one.h5", *with_out])

    def test_without_input(self):
        named = [word for name in "qkv" for word in ("-i", f"{name}=one.h5:/{name}")]
        self.check("attn-compute", named, named)
        self.check("explain-away-stats", named, named)

    def test_share_of_hnas(self):
        """With --only, as in a shard, it is a result by head; else it is copied as it was given."""
        self.write("u.h5", u=np.array(0.25))
        self.write("own.h5", hybrid=np.array(0.5), **{name: np.ones((4, 5, 3)) for name in "qkv"})
        scheme = ["--scheme", "hnas"]
        other = ["-i", "hybrid=u.h5:/u"]
        self.check("attn-compute", ["same.h5", *other], ["--with", "same.h5", *other], *scheme)
        self.check("attn-compute", ["own.h5"], ["--with", "own.h5"], *scheme)
        self.check("attn-compute", ["one.h5", *other], ["--with", "one.h5", *other, "--virtual"], *scheme)

    def test_of_a_group(self):
        self.check("attn-compute", ["same.h5:/l1"], ["--with", "same.h5:/l1"])

    def test_refused(self):
        other = ["-i", "k=k.h5:/k[1]"]
        files = self.shards("attn-compute", "same.h5", *other, "-q", count=2)

        def refused(*given, status=2, says, hint=None):
            self.refused("tensor-join", *files, *given, status=status, says=says, hint=hint, output="joined.h5")

        refused("--with", "same.h5", says=["do not name all"], hint="also -i 'k=k.h5:/k[1]'")
        refused(*other, says=["do not name all"], hint="also --with same.h5")
        refused("--with", "same.h5", *other, "-i", "v=one.h5:/v", says=["name 3 inputs", "has 2"])
        refused("--with", "same.h5", "-i", "k=k.h5:/k[2]", status=3,
                says=["-i k k.h5:/k[2] is not the k.h5:/k[1]", "it names :/k[2], not :/k[1]"])
        refused("--with", "one.h5", *other, status=3, says=["--with one.h5 is not the same.h5", "its size is"])
        refused("--with", "none.h5", *other, status=3, says=["none.h5"])
        shutil.copy2(self.folder / "k.h5", self.folder / "moved.h5")  # the time of change, too
        self.run_tool("tensor-join", *files, "--with", "same.h5", "-i", "k=moved.h5:/k[1]", "-o", "joined.h5")
        (self.folder / "joined.h5").unlink()
        os.utime(self.folder / "k.h5", (0, 0))
        refused("--with", "same.h5", *other, status=3, says=["-i k k.h5:/k[1]", "it has changed since"])

    def test_streams_are_refused(self):
        self.refused("attn-compute", "same.h5", "-i", "k=-:/k", "--shard", "1/2", status=2,
                     says=["-i k is standard input, which only one job could read"])
        os.mkfifo(self.folder / "pipe")
        self.refused("attn-compute", "pipe", "--shard", "1/2", status=2, says=["INPUT is a pipe, which only one job"])
        (self.folder / "pipe").unlink()


class Warnings(ShardTest):
    """The join says what an undivided run warns of, once."""

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(8)
        data = {name: draw.normal(size=(3, 4, 12, 8)) for name in "qkv"}
        data["bias"] = np.where(draw.random((12, 12)) < 0.3, -1e9, 0)
        self.write("in.h5", **data, tokens=np.arange(3))
        self.write("z.h5", extra=draw.normal(size=4))

    def check(self, tool, *arguments, given=(), status=0, most=1):
        """Compares the warnings of both; returns them."""
        before = set(os.listdir(self.folder))
        whole = self.run_tool(tool, *arguments, *(() if given else ("--only",)), "--json=whole.json", "-o", "whole.h5",
                              status=status)
        for number in (1, 2, 3):
            self.run_tool(tool, *arguments, "-q", "--shard", f"{number}/3", "-o", "out.h5", status=None)
        files = [f"out.000{number}-of-0003.h5" for number in (1, 2, 3)]
        done = self.run_tool("tensor-join", *files, *given, "--json=joined.json", "-o", "joined.h5", status=status)
        lines = [[line.partition(": warning: ")[2] for line in run.err.splitlines() if ": warning: " in line]
                 for run in (whole, done)]
        self.assertEqual(lines[1], lines[0])
        self.assertEqual(lines[1], self.read_json("joined.json")["warnings"])
        self.assertEqual(self.read_json("whole.json")["warnings"], lines[0])
        for name in set(os.listdir(self.folder)) - before:
            (self.folder / name).unlink()
        return lines[1]

    def test_of_each_part(self):
        said = self.check("attn-compute", "in.h5", "--scheme", "dnas", "--causal")
        self.assertEqual(len(said), 2)
        self.assertIn("a leak", said[0])
        self.assertIn("-1e4", said[1])
        said = self.check("sinkhorn-iter", "in.h5", "--iterations", 2)
        self.assertEqual(len(said), 1)
        self.check("attn-compute", "dump.h5", "--scheme", "dnas", "--causal")

    def test_of_inputs(self):
        extra = ["-i", "extra=z.h5:/extra"]
        said = self.check("attn-compute", "in.h5", *extra)
        self.assertEqual(said, ["-i extra: this computation does not use it"])
        said = self.check("attn-compute", "in.h5", *extra, given=["--with", "in.h5", *extra])
        self.assertEqual(said, ["-i extra: this computation does not use it, it is only copied"])

    def test_of_outdated_results(self):
        self.run_tool("attn-compute", "dump.h5", "--scheme", "dnas", "--emit", "out,col_sum", "-q", "-o", "old.h5")
        said = self.check("attn-compute", "old.h5", "--scale", 2, given=["--with", "old.h5"])
        self.assertEqual(len(said), 1)
        self.assertIn("col_sum", said[0])
        self.assertEqual(self.check("attn-compute", "old.h5", "--scale", 2), [])

    def test_of_reports(self):
        """Figures of all heads, of which a part says something else."""
        said = self.check("explain-away-stats", "in.h5", "--scheme=unas,dnas", "--causal", "--epsilon", "0.9")
        self.assertEqual(len([line for line in said if "a leak" in line]), 1)
        self.assertEqual(len([line for line in said if line.startswith("in.h5:/tokens is not used")]), 1)
        self.check("explain-away-stats", "dump.h5", "--causal", "--epsilon", "0.9")
        self.run_tool("attn-compute", "in.h5", "-q", "--scheme", "sinkhorn", "--iterations", 2, "--tolerance", "1e-9",
                      "-o", "stopped.h5", status=1)
        said = self.check("explain-away-stats", "stopped.h5", "--scheme", "sinkhorn,unas", status=1)
        self.assertEqual(len([line for line in said if "did not converge on every head" in line]), 1)


if __name__ == "__main__":
    unittest.main()
