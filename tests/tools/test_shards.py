"""--shard and tensor-join: parts of a run, which together are the run to the last bit."""

import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import h5py
import numpy as np

from attn import BIN, LONG
from shards import ENGINES, GROUPS, LENGTHS, RUNS, ShardTest


class Joined(ShardTest):

    def test_same_bits_as_undivided(self):
        counts = (1, 2, 3, 7, 64) if LONG else (1, 9)
        for place, (tool, options) in enumerate(RUNS):
            name, *verb = tool.split()
            arguments = [*options.split(), "dump.h5", "--each", "/text/*", "-q"]
            self.run_tool(name, *verb, *arguments, "--only", "-o", "only.h5", "--force")
            self.run_tool(name, *verb, *arguments, "-o", "whole.h5", "--force")
            for count in counts if LONG or place == 0 else (3,):
                with self.subTest(tool=tool, count=count):
                    files = self.shards(tool, *arguments, count=count)
                    self.assertEqual(files, [f"out.{n + 1:04}-of-{count:04}.h5" for n in range(count)])
                    self.run_tool("tensor-join", *files[::-1], "-o", "joined.h5", "--force")
                    self.assert_same("only.h5", "joined.h5")
                    self.run_tool("tensor-join", *files, "--with", "dump.h5", "-o", "joined.h5", "--force")
                    self.assert_same("whole.h5", "joined.h5")
                    for file in files:
                        (self.folder / file).unlink()

    def test_each_group_in_one_shard_by_its_work(self):
        for count in (2, 4):
            files = self.shards("attn-compute", "dump.h5", "-q", count=count)
            own = [[group for group in self.read(file).groups if group in GROUPS] for file in files]
            self.assertEqual(sum(own, []), GROUPS)
            work = [sum(LENGTHS[GROUPS.index(group)] ** 2 for group in groups) for groups in own]
            self.assertLessEqual(max(work) - sum(work) / count, max(LENGTHS) ** 2)
            for file in files:
                (self.folder / file).unlink()

    def test_results_that_no_longer_hold_stay_out(self):
        """As without --shard: sums of an earlier run of another scheme."""
        self.run_tool("attn-compute", "dump.h5", "--scheme", "dnas", "--emit", "out,col_sum", "-q", "-o", "old.h5")
        for more in ([], ["--scale", "2"]):
            with self.subTest(more=more):
                arguments = ["old.h5", "-q", *more]
                self.run_tool("attn-compute", *arguments, "-o", "whole.h5", "--force")
                files = self.shards("attn-compute", *arguments, count=3)
                self.run_tool("tensor-join", *files, "--with", "old.h5", "-o", "joined.h5", "--force")
                self.assert_same("whole.h5", "joined.h5")
                self.assertNotIn("text/layer1/col_sum", self.read("joined.h5"))
                for file in files:
                    (self.folder / file).unlink()

    def test_names_of_outputs(self):
        for output, expected in (("a.b.h5", "a.b.0001-of-0001.h5"), ("plain", "plain.0001-of-0001"),
                                 ("x%I_of_%N.h5", "x1_of_1.h5"), ("only%I.h5", "only%I.0001-of-0001.h5"),
                                 ("o.npz", "o.0001-of-0001.npz")):
            with self.subTest(output=output):
                self.assertEqual(self.shards("attn-compute", "dump.h5", "-q", count=1, output=output), [expected])
        (self.folder / "sub.d").mkdir()
        self.shards("attn-compute", "dump.h5", "-q", count=1, output="sub.d/x")
        self.assertEqual(os.listdir(self.folder / "sub.d"), ["x.0001-of-0001"])

    def test_other_formats(self):
        files = self.shards("attn-compute", "dump.h5", "-q", count=2, output="o.npz")
        self.run_tool("tensor-join", *files, "-o", "joined.npz")
        self.run_tool("attn-compute", "dump.h5", "-q", "--only", "-o", "whole.npz")
        self.assert_same("whole.npz", "joined.npz")

    def test_dry_runs(self):
        whole = self.run_tool("attn-compute", "dump.h5", "--dry-run").out.decode()
        parts = [self.run_tool("attn-compute", "dump.h5", "--dry-run", "-o", "o.h5", "--shard", f"{n}/3").out.decode()
                 for n in (1, 2, 3)]
        self.assertEqual([sum(group + "\n" in part for part in parts) for group in GROUPS], [1] * len(GROUPS))
        self.assertEqual(len(whole.split("\n\n")), sum(len(part.split("\n\n")) for part in parts if part))


# Runs with one INPUT without groups, whose heads are divided. A unit is a head, the heads that share a key and a value,
# a sequence, or the heads of one number, which add into one gradient.


class Engines(ShardTest):

    def run_in(self, engine, words, **more):
        return self.run_tool("attn-compute", "dump.h5", "-q", "-o", "o.h5", "--shard", words,
                             environment={name: str(value) for name, value in engine.items()}, **more)

    def test_variables(self):
        for engine, number in ENGINES:
            with self.subTest(engine=engine):
                if number is None:
                    done = self.run_in(engine, "auto", status=2)
                    self.assertIn("hint: --shard auto/N", done.err)
                    self.run_in(engine, "auto/4")
                    number = 2
                else:
                    self.run_in(engine, "auto")
                self.assertTrue((self.folder / f"o.{number:04}-of-0004.h5").exists())
                (self.folder / f"o.{number:04}-of-0004.h5").unlink()

    def test_elements_of_their_own_number(self):
        gaps = {"SLURM_ARRAY_TASK_ID": 17, "SLURM_ARRAY_TASK_MIN": 3, "SLURM_ARRAY_TASK_MAX": 40,
                "SLURM_ARRAY_TASK_STEP": 1, "SLURM_ARRAY_TASK_COUNT": 3}
        done = self.run_in(gaps, "auto", status=2)
        self.assertRegex(done.err, r"\Aattn-compute: error: --shard auto: the array has 3 elements from 3 to 40.*\n"
                                   r"attn-compute: hint: --array=1-N and --shard auto/N: .*\n\Z")
        self.run_in(gaps, "auto/64")
        self.assertTrue((self.folder / "o.0017-of-0064.h5").exists())
        self.run_in(gaps, "auto/16", status=2)
        self.run_in({"OMPI_COMM_WORLD_RANK": 4, "OMPI_COMM_WORLD_SIZE": 5}, "auto/5")
        self.assertTrue((self.folder / "o.0005-of-0005.h5").exists())

    def test_nothing_set(self):
        for engine in ({}, {"SLURM_PROCID": 0, "SLURM_NTASKS": 4}, {"LSB_JOBINDEX": 0},
                       {"SGE_TASK_ID": "undefined"}):
            with self.subTest(engine=engine):
                self.assertIn("no variable of a job array", self.run_in(engine, "auto", status=2).err)
        self.assertIn("SLURM_ARRAY_TASK_ID is 'x'", self.run_in({"SLURM_ARRAY_TASK_ID": "x"}, "auto", status=2).err)

    def test_wrong_words(self):
        for words in ("", "3", "0/3", "4/3", "-1/3", "1/0", "a/3", "1/3/4", "1/", "/3", "1.5/3", "auto/x",
                      "1/99999999", "99999999999999999999/3"):
            with self.subTest(words=words):
                self.refused("attn-compute", "dump.h5", "--shard", words, status=2, says=["--shard"])
        self.write("one.h5", q=np.ones((3, 2)), k=np.ones((3, 2)))
        self.refused("attn-compute", "one.h5", "--shard", "1/2", status=2,
                     says=["divides heads or other problems, but there is only one"], hint="MPI ranks")
        self.write("paths.h5", wq=np.ones((5, 2)), wk=np.ones((5, 2)))
        self.refused("basis-paths", "identify", "paths.h5", "--shard", "1/2", status=2,
                     says=["there is only one"], hint="one run without --shard")
        self.refused("basis-paths", "check", "paths.h5", "--shard", "1/2", status=2,
                     says=["--shard is not an option of check"], output=None)
        self.refused("attn-compute", "--shard", "1/2", status=2, says=["standard input"])
        self.refused("explain-away-stats", "dump.h5", "--shard", "1/2", status=2, says=["--output"], output=None)
        self.refused("explain-away-stats", "dump.h5", "--shard", "1/2", status=2, says=["o.csv"],
                     hint="tensor-join --csv", output="o.csv")


class Killed(ShardTest):

    def test_at_random_moments(self):
        """No temporary is left after the next run, and the bytes are those of runs that nobody killed."""
        files = self.shards("attn-compute", "dump.h5", "-q", "--force", count=3)
        commands = [["attn-compute", "dump.h5", "-q", "--force", "--shard", f"{n}/3", "-o", "out.h5"]
                    for n in (1, 2, 3)]
        commands.append(["tensor-join", *files, "--with", "dump.h5", "-q", "--force", "-o", "joined.h5"])
        self.run_tool(*commands[-1])
        whole = (self.folder / "joined.h5").read_bytes()
        before = sorted(os.listdir(self.folder))
        moments, killed = random.Random(3), 0
        for turn in range(1000 if LONG else 24):
            command = commands[turn % len(commands)]
            with subprocess.Popen([BIN / command[0], *command[1:]], cwd=self.folder, env=self.environment) as process:
                time.sleep(moments.uniform(0, 0.06))
                process.kill()
            killed += process.returncode == -signal.SIGKILL
        self.assertGreater(killed, 4)
        for command in commands:
            self.run_tool(*command)
        self.assertEqual((self.folder / "joined.h5").read_bytes(), whole)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


class Refused(ShardTest):

    def setUp(self):
        super().setUp()
        self.files = self.shards("attn-compute", "dump.h5", "-q", count=4)

    def test_sweep(self):
        sweep = ["dump.h5:/text/layer1", "--scale", "0.5,1", "--shard", "1/2"]
        for output in ("sweep.h5", "sweep.csv"):
            self.refused("explain-away-stats", *sweep, status=2, says=["a sweep", "is not divided among shards"],
                         hint="without it", output=output)

    def test_group_of_the_marks(self):
        for name in ("attn_shard", "attn_shard__b"):
            self.write("own.h5", **{f"{group}__{n}": np.ones((1, 9, 4)) for group in (name, "c") for n in "qkv"})
            done = self.run_tool("attn-compute", "own.h5", "-q", "--shard", "1/2", "-o", "o.h5", status=2)
            self.assertIn("a group attn_shard", done.err)

    def test_names_that_are_no_text(self):
        """Names of files may hold any bytes."""
        name = os.fsdecode(b"b\xffd.h5")
        shutil.copy(self.folder / "dump.h5", self.folder / name)
        for number in (1, 2):
            self.run_tool("explain-away-stats", name, "-q", "--shard", f"{number}/2", "-o", "u.h5")
        files = [f"u.000{number}-of-0002.h5" for number in (1, 2)]
        self.run_tool("tensor-join", *files, "--with", name, "-q", "-o", "joined.h5")
        self.run_tool("explain-away-stats", name, "-q", "-o", "whole.h5")
        self.assert_same("whole.h5", "joined.h5")

    def test_several_inputs(self):
        for tool in ("explain-away-stats", "lambda-solve"):
            self.refused(tool, "dump.h5", "dump.h5", "--shard", "1/2", status=2, says=["several INPUTs"],
                         hint="run the tool with --shard on one INPUT after the other")

    def test_only_group(self):
        self.write("one.h5", **{f"l0__{name}": np.ones((1, 9, 4)) for name in "qkv"})
        for number in (1, 2, 3):
            done = self.run_tool("attn-compute", "one.h5", "--each", "/*", "--shard", f"{number}/3", "-o", "part.h5")
            self.assertNotIn("none of the 1 groups", done.err)
        done = self.run_tool("tensor-join", *(f"part.000{n}-of-0003.h5" for n in (1, 2, 3)), "-o", "joined.h5")
        self.assertIn("1 group of 3 shards", done.err)

    def refused_join(self, files, *says, hint=None):
        self.refused("tensor-join", *files, status=3, says=says, hint=hint, output="joined.h5")

    def test_missing_and_doubled(self):
        first, second, third, fourth = self.files
        self.refused_join([first, second, fourth], "shard 3 of 4 is missing", hint="--shard 3/4")
        self.refused_join([third], "shards 1, 2 and 4 of 4 are missing")
        shutil.copy(self.folder / second, self.folder / "again.h5")
        self.refused_join([*self.files, "again.h5"], second, "again.h5", "are both shard 2 of 4")

    def test_of_another_run(self):
        first, second, third, fourth = self.files
        other = self.shards("attn-compute", "dump.h5", "-q", "--scheme", "dnas", count=4, output="b.h5")
        self.refused_join([first, other[1], third, fourth], other[1], first, 'scheme is "dnas", not "unas"')
        fewer = self.shards("attn-compute", "dump.h5", "-q", count=3, output="c.h5")
        self.refused_join([first, fewer[1]], fewer[1], "one of 3 shards", "one of 4")
        os.utime(self.folder / "dump.h5", (0, 0))
        changed = self.shards("attn-compute", "dump.h5", "-q", count=4, output="d.h5")
        self.refused_join([first, second, changed[2], fourth], changed[2], "files/0/changed is 0.0, not ")
        # What changes no result is no part of a run.
        same = self.shards("attn-compute", "dump.h5", "--threads", 1, "--memory", "64M", "-q", count=4, output="e.h5")
        self.run_tool("tensor-join", *changed[:2], *same[2:], "-o", "joined.h5")

    def test_of_other_sources(self):
        """Files to which an input leads by a virtual dataset, an external link and raw storage."""
        draw = np.random.default_rng(3)
        self.write("part.h5", q=draw.normal(size=(4, 9, 4)), k=draw.normal(size=(4, 9, 4)))
        draw.normal(size=(4, 9, 4)).tofile(self.folder / "v.raw")
        with h5py.File(self.folder / "in.h5", "w") as file:
            layout = h5py.VirtualLayout((4, 9, 4), "f8")
            layout[:] = h5py.VirtualSource("part.h5", "q", (4, 9, 4))
            file.create_virtual_dataset("q", layout)
            file["k"] = h5py.ExternalLink("part.h5", "/k")
            file["leads_nowhere"] = h5py.ExternalLink("none.h5", "/k")  # which no run reads
            file.create_dataset("v", (4, 9, 4), "f8", external=[("v.raw", 0, h5py.h5f.UNLIMITED)])
        inputs = {"all": ["in.h5"], "q": ["-i", "q=in.h5:/q", "-i", "k=part.h5:/k", "-i", "v=part.h5:/k"]}
        for case, arguments in inputs.items():
            for name in ("part.h5", "v.raw") if case == "all" else ("part.h5",):
                with self.subTest(case=case, changed=name):
                    run = ["attn-compute", *arguments, "-q", "--force", "-o", f"{case}.h5", "--shard"]
                    for number in (1, 2):
                        self.run_tool(*run, f"{number}/2")
                    files = [f"{case}.000{number}-of-0002.h5" for number in (1, 2)]
                    self.run_tool("tensor-join", *files, "--force", "-o", "j.h5")
                    os.utime(self.folder / name, (0, 0))
                    self.run_tool(*run, "2/2")
                    self.refused_join(files, "/changed is 0.0, not " if case == "q" else "sources/")
                    os.utime(self.folder / name, (1, 1))

    def test_damaged(self):
        first, second, third, fourth = self.files
        content = (self.folder / second).read_bytes()
        for name, part in (("cut.h5", content[:len(content) // 2]), ("empty.h5", b""), ("text.h5", b"text")):
            (self.folder / name).write_bytes(part)
            self.refused_join([first, name, third, fourth], name)
        self.refused_join([first, "dump.h5"], "dump.h5", "is no shard")
        self.refused_join([first, "none.h5"], "none.h5")
        for name, value in (("count", 10**18), ("count", 0), ("number", 5), ("number", 2.5)):
            with h5py.File(self.folder / fourth, "a") as file:
                before = file["attn_shard"].attrs[name]
                file["attn_shard"].attrs[name] = value
            self.refused_join(self.files, fourth, "is damaged: it is shard ")
            with h5py.File(self.folder / fourth, "a") as file:
                file["attn_shard"].attrs[name] = before
        with h5py.File(self.folder / third, "a") as file:
            group = file["attn_shard/own"].asstr()[0]
            del file[group]
        self.refused_join(self.files, third, f"lacks its group {group}")


if __name__ == "__main__":
    unittest.main()
