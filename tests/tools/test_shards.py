"""--shard and tensor-join: parts of a run, which together are the run to the last bit."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import h5py
import numpy as np

from attn import BIN, LONG, ToolTest
from mechanisms import PROBLEMS

LENGTHS = (9, 30, 7, 50, 12, 1, 33, 8)
GROUPS = [f"text/layer{n}" for n in range(len(LENGTHS))]
RUNS = [
    ("attn-compute", "--scheme dnas --emit out,col_sum,grad_q,grad_k"),
    ("attn-compute", "--scheme sinkhorn --iterations 5"),
    ("explain-away-stats", ""),
    ("lambda-solve", ""),
    ("sinkhorn-iter", "--iterations 3"),
    ("basis-paths identify", "--skeleton largest"),
    ("structured-attention", ""),
]
# Variables of job arrays and of ranks, and the shard of 4 that they mean with auto; None: --shard
# auto/4 is needed.
ENGINES = [
    ({"SLURM_ARRAY_TASK_ID": 5, "SLURM_ARRAY_TASK_MIN": 3, "SLURM_ARRAY_TASK_MAX": 9,
      "SLURM_ARRAY_TASK_STEP": 2, "SLURM_ARRAY_TASK_COUNT": 4}, 2),
    # A batch script has a PROCID of 0 of its NTASKS without any rank.
    ({"SLURM_ARRAY_TASK_ID": 3, "SLURM_ARRAY_TASK_MIN": 1, "SLURM_ARRAY_TASK_MAX": 4,
      "SLURM_ARRAY_TASK_STEP": 1, "SLURM_ARRAY_TASK_COUNT": 4, "SLURM_PROCID": 0, "SLURM_NTASKS": 2}, 3),
    ({"PBS_ARRAY_INDEX": 2}, None),
    ({"PBS_ARRAYID": 2}, None),
    ({"LSB_JOBINDEX": 2, "LSB_JOBINDEX_END": 4, "LSB_JOBINDEX_STEP": 1}, 2),
    ({"SGE_TASK_ID": 6, "SGE_TASK_FIRST": 2, "SGE_TASK_LAST": 8, "SGE_TASK_STEPSIZE": 2}, 3),
    ({"SLURM_PROCID": 1, "SLURM_STEP_NUM_TASKS": 4, "SLURM_NTASKS": 4}, 2),
    ({"OMPI_COMM_WORLD_RANK": 3, "OMPI_COMM_WORLD_SIZE": 4}, 4),
    ({"PMIX_RANK": 1}, None),
]
VARIABLES = {name for engine, _ in ENGINES for name in engine}


class ShardTest(ToolTest):

    def setUp(self):
        super().setUp()
        for name in VARIABLES:
            self.environment.pop(name, None)
        self.environment["SOURCE_DATE_EPOCH"] = "0"
        draw = np.random.default_rng(1)
        datasets = {}
        for group, length in zip(GROUPS, LENGTHS):
            shapes = {name: (2, length, 4) for name in ("q", "k", "v", "grad_out")}
            shapes |= {"wq": (length + 3, 2), "wk": (length + 3, 2)}
            shapes |= {"x": (2, length, 5), "w1": (3, 5), "w2": (2, 3)}
            datasets |= {f"{group}/{name}".replace("/", "__"): draw.normal(size=shape)
                         for name, shape in shapes.items()}
        self.write("dump.h5", {"model": "m"}, **datasets)

    def shards(self, tool, *arguments, count, output="out.h5"):
        """Runs all shards, the last one first; returns the names of their bundles."""
        name, *verb = tool.split()
        before = set(os.listdir(self.folder))
        for number in range(count, 0, -1):
            self.run_tool(name, *verb, *arguments, "--shard", f"{number}/{count}", "-o", output)
        return sorted(set(os.listdir(self.folder)) - before)

    def assert_same(self, one, other):
        done = self.run_tool("tensor-compare", "--attributes", "--nan-equal", one, other)
        self.assertTrue(done.out.decode().endswith("same\n"))


class Joined(ShardTest):

    def test_same_bits_as_undivided(self):
        counts = (1, 2, 3, 7, 64)
        for tool, options in RUNS:
            name, *verb = tool.split()
            arguments = [*options.split(), "dump.h5", "--each", "/text/*", "-q"]
            self.run_tool(name, *verb, *arguments, "--only", "-o", "only.h5", "--force")
            self.run_tool(name, *verb, *arguments, "-o", "whole.h5", "--force")
            for count in counts if LONG or name == "attn-compute" else (3,):
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

    def test_datasets_of_other_files(self):
        """A dataset of -i stands in for that of each group, and is not in the joined bundle."""
        self.write("same.h5", **{f"l{n}__{name}": np.ones((2, 9, 4)) for n in range(3) for name in "qkv"})
        self.write("k.h5", k=np.random.default_rng(2).normal(size=(2, 9, 4)))
        arguments = ["same.h5", "-i", "k=k.h5:/k", "-q"]
        self.run_tool("attn-compute", *arguments, "-o", "whole.h5")
        self.run_tool("tensor-join", *self.shards("attn-compute", *arguments, count=2), "--with", "same.h5",
                      "-o", "joined.h5")
        whole, joined = self.read("whole.h5"), self.read("joined.h5")
        # Stored once; the other groups have links to it.
        self.assertEqual(set(whole) - set(joined), {"l0/k"})
        self.assert_same_bits(joined, whole, sorted(joined))

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


# Of one INPUT without groups: runs whose heads are divided. A unit is a head, the heads that share a key and a value,
# a sequence, or the heads of one number, which add into one gradient.
HEADS_RUNS = [
    ("attn-compute", "--scheme dnas --emit out,row_potential,weights,col_sum,row_entropy"),
    ("attn-compute", "--scheme dnas --emit out,grad_q,grad_k,grad_v"),
    ("attn-compute", "--join --emit out,grad_q,grad_k"),
    ("attn-compute", "--emit out,grad_bias"),
    ("attn-compute", "--scheme hnas --queries 1,3:5 --emit out,row_potential,scores"),
    ("attn-compute", "--scheme sinkhorn --iterations 4"),
    ("attn-compute", "--scheme sinkhorn --tolerance 1e-4 --layout blhd -i q=inside.h5 -i k=inside.h5 -i v=inside.h5"),
    ("sinkhorn-iter", "--emit plan,row_potential,error --tolerance 1e-5"),
]


class Heads(ShardTest):

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(7)
        sizes = {"q": (3, 4, 20, 8), "k": (3, 2, 30, 8), "v": (3, 2, 30, 5), "grad_out": (3, 4, 20, 5),
                 "grad_joined": (3, 20, 20), "bias": (4, 20, 30)}
        self.data = {name: draw.normal(size=size) for name, size in sizes.items()}
        self.data["hybrid"] = draw.uniform(size=(3, 4))
        self.data["key_length"] = np.array([30, 7, 19])
        self.write("in.h5", {"model": "m"}, **self.data)
        self.write("inside.h5", **{name: self.data[name].swapaxes(1, 2) for name in "qkv"})

    def assert_joined(self, tool, arguments, count, source="in.h5"):
        files = self.shards(tool, *arguments, count=count)
        self.assertEqual(files, [f"out.{n + 1:04}-of-{count:04}.h5" for n in range(count)])
        self.run_tool("tensor-join", *files[::-1], "-o", "joined.h5", "--force")
        self.assert_same("only.h5", "joined.h5")
        self.assertEqual(self.read("only.h5").labels, self.read("joined.h5").labels)
        if "-i" not in arguments:
            self.run_tool("tensor-join", *files, "--with", source, "-o", "joined.h5", "--force")
            self.assert_same("whole.h5", "joined.h5")
        for file in files:
            (self.folder / file).unlink()

    def test_same_bits_as_undivided(self):
        for number, (tool, options) in enumerate(HEADS_RUNS):
            arguments = [*options.split(), "in.h5", "-q"]
            self.run_tool(tool, *arguments, "--only", "-o", "only.h5", "--force")
            self.run_tool(tool, *arguments, "-o", "whole.h5", "--force")
            for count in (1, 2, 3, 7, 64) if LONG else (64, 3) if number == 0 else (1 + number,):
                with self.subTest(tool=tool, options=options, count=count):
                    self.assert_joined(tool, arguments, count)

    def test_results_of_an_earlier_run(self):
        """Its settings and results are not in the bundle of another run."""
        self.run_tool("attn-compute", "in.h5", "-q", "--scheme", "hnas", "--emit", "out,col_sum,row_potential",
                      "-o", "old.h5")
        arguments = ["old.h5", "-q", "--scale", "2"]
        self.run_tool("attn-compute", *arguments, "--only", "-o", "only.h5")
        self.run_tool("attn-compute", *arguments, "-o", "whole.h5")
        self.assert_joined("attn-compute", arguments, 3, "old.h5")
        self.assertNotIn("col_sum", self.read("joined.h5"))

    def test_settings_of_an_earlier_run(self):
        self.run_tool("attn-compute", "in.h5", "-q", "--scheme", "fenchel", "--alpha", "2", "-o", "old.h5")
        arguments = ["old.h5", "-q"]
        self.run_tool("attn-compute", *arguments, "-o", "whole.h5")
        self.run_tool("attn-compute", *arguments, "--only", "-o", "only.h5")
        self.assert_joined("attn-compute", arguments, 3, "old.h5")
        self.assertNotIn("attn_alpha", self.read("joined.h5").attributes)

    def test_one_group(self):
        self.write("one.h5", **{f"layer__{name}": self.data[name] for name in "qkv"})
        arguments = ["--each", "layer", "one.h5", "-q"]
        self.run_tool("attn-compute", *arguments, "--only", "-o", "only.h5")
        self.run_tool("attn-compute", *arguments, "-o", "whole.h5")
        self.assert_joined("attn-compute", arguments, 5, "one.h5")

    def problems(self, *arguments, count):
        """The heads of each shard, by number."""
        found = []
        for file in self.shards("attn-compute", "in.h5", "-q", *arguments, count=count):
            with h5py.File(self.folder / file) as shard:
                text = json.loads(shard["attn_shard/divided"].asstr()[0])["own"]
            ranges = [part.split(":") for part in text.split(",") if part]
            found.append([n for first, last in ranges for n in range(int(first), int(last))])
            (self.folder / file).unlink()
        return found

    def test_divided_by_work(self):
        work = [length for length in (30, 7, 19) for _ in range(4)]
        for count in (2, 3, 5):
            own = self.problems(count=count)
            self.assertEqual(sum(own, []), list(range(12)))
            sums = [sum(work[n] for n in heads) for heads in own]
            self.assertLessEqual(max(sums) - sum(work) / count, 30)
        self.assertEqual([len(heads) for heads in self.problems(count=2)], [4, 8])

    def test_what_adds_up_stays_together(self):
        for heads in self.problems("--emit", "grad_k", count=5):
            self.assertEqual(heads[::2], [head - 1 for head in heads[1::2]])
            self.assertTrue(all(head % 2 == 0 for head in heads[::2]))
        self.assertEqual(self.problems("--emit", "grad_bias", count=4), [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]])
        for heads in self.problems("--join", count=2):
            self.assertEqual(len(heads) % 4, 0)
        for more, name in ((["--emit", "grad_bias", "--join"], "grad_bias"),
                           (["--emit", "grad_hybrid", "--scheme", "hnas", "--hybrid", "0.5"], "grad_hybrid")):
            self.refused("attn-compute", "in.h5", *more, "--shard", "1/2", status=2,
                         says=[f"all 12 add into {name}"], hint="MPI ranks can share one problem")

    def test_dry_run(self):
        whole = self.run_tool("attn-compute", "in.h5", "--dry-run", "--json").json()["result"]
        parts = [self.run_tool("attn-compute", "in.h5", "--dry-run", "--json=r.json", "--shard", f"{n}/3",
                               "-o", "o.h5") and self.read_json("r.json")["result"] for n in (1, 2, 3)]
        for figure in ("flops", "result_bytes"):
            self.assertEqual(sum(part[figure] for part in parts), whole[figure])

    def test_damaged(self):
        files = self.shards("attn-compute", "in.h5", "-q", count=3)

        def check(change, *says):
            shutil.copy(self.folder / files[1], self.folder / "changed.h5")
            with h5py.File(self.folder / "changed.h5", "a") as file:
                change(file)
            self.refused("tensor-join", files[0], "changed.h5", files[2], status=3, says=says, output="joined.h5")

        def shorter(file):
            values = file["out"][1:]
            del file["out"]
            file["out"] = values

        def notes(old, new):
            def change(file):
                text = file["attn_shard/divided"].asstr()[0]
                self.assertIn(old, text)
                file["attn_shard/divided"][0] = text.replace(old, new)
            return change

        with h5py.File(self.folder / files[1]) as file:
            own = json.loads(file["attn_shard/divided"].asstr()[0])["own"]
            shape = file["out"].shape
        first, last = map(int, own.split(":"))
        check(lambda file: file.__delitem__("out"), "changed.h5 lacks its dataset out")
        check(shorter, f"changed.h5:/out has shape ({shape[0] - 1}, 20, 5), expected ({shape[0]}, 20, 5)")
        check(notes(f'"own":"{own}"', f'"own":"{first}:{last - 1}"'), "the shards have only 11 of the 12 problems")
        check(notes(f'"own":"{own}"', f'"own":"{first - 1}:{last}"'), f"changed.h5 both have problem {first - 1}")
        check(notes(f'"own":"{own}"', f'"own":"{first}:13"'), f"'{first}:13' is no list of ranges")
        check(notes('"own"', '"none"'), "changed.h5 is no shard")
        check(notes(f'"blocks":"{own}"', f'"blocks":"{first + 1}:{last + 1}"'), f"both hold block {last} of ")
        other = self.shards("attn-compute", "in.h5", "-q", "--emit", "out", count=3, output="other.h5")
        self.refused("tensor-join", files[0], other[1], files[2], status=3, says=[other[1], "emit"],
                     output="joined.h5")


class Sequences(ShardTest):
    """The sequences of a mechanism are units, too."""

    def check(self, tool, source, *options, count):
        arguments = [source, *options, "-q"]
        self.run_tool(tool, *arguments, "--only", "-o", "only.h5", "--force")
        files = self.shards(tool, *arguments, count=count)
        self.run_tool("tensor-join", *files, "-q", "-o", "joined.h5", "--force")
        self.assert_same("only.h5", "joined.h5")
        self.assertEqual(self.read("only.h5").labels, self.read("joined.h5").labels)
        for file in files:
            (self.folder / file).unlink()

    def test_every_mechanism(self):
        random = np.random.default_rng(4)
        problems = PROBLEMS if LONG else {problem.tool: problem for problem in PROBLEMS}.values()
        for problem in problems:
            own = {name: random.integers(0, problem.sizes[of] + 1, size=11) for name, of in problem.lengths.items()}
            self.write("seq.h5", **problem.datasets(own, "f4"))
            for count in (1, 2, 3, 7, 64) if LONG else (3,):
                with self.subTest(tool=problem.tool, options=problem.options, count=count):
                    self.check(problem.tool, "seq.h5", *problem.options, count=count)

    def test_gradients(self):
        draw = np.random.default_rng(5)
        self.write("x.h5", x=draw.normal(size=(2, 5, 9, 4)), w1=draw.normal(size=(3, 4)), w2=draw.normal(size=(2, 3)),
                   length=draw.integers(1, 10, size=(2, 5)), grad_out=draw.normal(size=(2, 5, 2, 4)))
        for count in (1, 4, 64) if LONG else (4,):
            self.check("structured-attention", "x.h5", "--emit", "out,penalty,grad_x", count=count)
        self.refused("structured-attention", "x.h5", "--emit", "grad_x,grad_w2", "--shard", "1/2", status=2,
                     says=["all 10 add into grad_w2"], hint="MPI ranks")

    def test_estimates_are_of_all(self):
        problem = next(problem for problem in PROBLEMS if problem.tool == "hard-attention")
        self.write("hard.h5", **problem.datasets({"length": np.array([7, 3, 5])}))
        self.refused("hard-attention", "hard.h5", "--samples", 4, "--shard", "1/2", status=2,
                     says=["all 3 add into the figures of the estimate"])


class Sets(ShardTest):
    """The seeds and the sets of points of mode-collapse-sim."""

    def check(self, *arguments, counts, source=()):
        whole = [*arguments, *source, *(["--only"] if source else [])]
        status = self.run_tool("mode-collapse-sim", *whole, "-q", "-o", "whole.h5", "--force", status=None).status
        for count in counts:
            with self.subTest(arguments=arguments, source=source, count=count):
                before = set(os.listdir(self.folder))
                for number in range(1, count + 1):
                    self.run_tool("mode-collapse-sim", *arguments, *source, "-q", "--shard", f"{number}/{count}",
                                  "-o", "out.h5", status=None)
                files = sorted(set(os.listdir(self.folder)) - before)
                self.assertEqual(len(files), count)
                self.run_tool("tensor-join", *files, "-q", "-o", "joined.h5", "--force", status=status)
                self.assert_same("whole.h5", "joined.h5")
                self.assertEqual(self.read("whole.h5").labels, self.read("joined.h5").labels)
                for file in files:
                    (self.folder / file).unlink()

    def test_same_bits_as_undivided(self):
        counts = (1, 2, 3, 7, 64) if LONG else (3,)
        drawn = ["--counts", "12,5", "--centres", "2,0;-2,0", "--variance", "0.3", "--seeds", 7, "--steps", 3]
        self.check("simulate", *drawn, "--scheme", "unas,dnas", counts=(64,) if not LONG else counts)
        # Some sets do not converge: the attributes are those of the worst.
        self.check("simulate", *drawn, "--scheme", "sinkhorn", "--iterations", 2, "--tolerance", "1e-3", counts=counts)
        self.check("em", *drawn, "--start", "1,0;-1,0", counts=counts)
        draw = np.random.default_rng(6)
        self.write("x.h5", {"model": "m"}, x=draw.normal(size=(2, 3, 9, 2)), label=draw.integers(0, 2, size=9))
        self.check("simulate", counts=counts, source=["x.h5"])

    def test_refused(self):
        self.refused("mode-collapse-sim", "simulate", "--counts", "3,3", "--centres", "1;-1", "--shard", "1/2",
                     status=2, says=["there is only one"])
        self.refused("mode-collapse-sim", "curve", "--r", "1:9:3", "--a", 1, "--shard", "1/2", status=2,
                     says=["--shard"])


class Reports(ShardTest):
    """Reports of all shards are those of an undivided run, and so are their tables and their JSON."""

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(8)
        sizes = {"q": (3, 4, 20, 8), "k": (3, 2, 30, 8), "v": (3, 2, 30, 5)}
        data = {name: draw.normal(size=size) for name, size in sizes.items()}
        # Keys of large norm under a causal mask: some are explained away, and some have few queries.
        data["k"][:, :, ::3] *= 9
        data["key_length"] = np.array([30, 7, 19])
        data["tokens"] = np.array([f"word{n}" for n in range(30)], dtype="S")
        self.write("in.h5", {"model": "m"}, **data)

    def check(self, tool, options, source, counts, status=0):
        arguments = [*options.split(), source]
        whole = self.run_tool(tool, *arguments, "--only", "--json=whole.json", "-o", "only.h5", "--force",
                              status=status)
        expected = self.read_json("whole.json")
        self.assertGreater(whole.out.count(b"\n"), 5)
        for count in counts:
            with self.subTest(tool=tool, options=options, source=source, count=count):
                before = set(os.listdir(self.folder))
                for number in range(1, count + 1):
                    self.run_tool(tool, *arguments, "-q", "--shard", f"{number}/{count}", "-o", "out.h5", status=None)
                files = sorted(set(os.listdir(self.folder)) - before)
                verbose = ["-v"] if "-v" in arguments else []
                done = self.run_tool("tensor-join", *files[::-1], *verbose, "--json=joined.json", "-o", "joined.h5", "--force",
                                     status=status)
                self.assertEqual(done.out, whole.out)
                found = self.read_json("joined.json")
                self.assertEqual(found["status"], expected["status"])
                report = found["result"]["report"]
                self.assertEqual(report["tool"], tool)
                self.assertEqual(report["result"], expected["result"])
                for name, value in report["params"].items():
                    self.assertEqual(value, expected["params"][name], name)
                self.assert_same("only.h5", "joined.h5")
                for file in files:
                    (self.folder / file).unlink()

    def test_explain_away_stats(self):
        counts = (1, 2, 3, 7, 64) if LONG else (3,)
        self.check("explain-away-stats", "", "in.h5", (1, 2, 3, 7, 64) if LONG else (1, 5))
        self.check("explain-away-stats", "--scheme unas,hnas --hybrid 0.2 --epsilon 0.1,0.5 --bins 7 --top 3", "in.h5",
                   counts)
        self.check("explain-away-stats", "", "dump.h5", counts)
        self.check("explain-away-stats", "-v --scheme dnas,unas --min-queries 3", "dump.h5", counts)

    def test_lambda_solve(self):
        counts = (1, 2, 3, 7, 64) if LONG else (3,)
        self.check("lambda-solve", "", "in.h5", counts)
        self.check("lambda-solve", "--average heads --emit h,relative_deviation", "in.h5", counts)
        self.check("lambda-solve", "--max-iterations 2", "in.h5", counts, status=1)
        self.check("lambda-solve", "--average heads", "dump.h5", counts)

    def test_not_converged(self):
        self.run_tool("attn-compute", "in.h5", "-q", "--scheme", "sinkhorn", "--iterations", 2, "--tolerance", "1e-9",
                      "-o", "stopped.h5", status=1)
        self.check("explain-away-stats", "--scheme sinkhorn,unas", "stopped.h5", (3,), status=1)

    def test_joined_results_had_not_converged(self):
        """tensor-join exits as the undivided run does, and says which shards stopped."""
        runs = [("attn-compute", "--scheme", "sinkhorn"), ("sinkhorn-iter",)]
        cases = [(run, source, more) for run in runs for source, more in (("in.h5", []), ("dump.h5", ["--each", "/text/*"]))]
        for (tool, *options), source, more in cases:
            arguments = [tool, source, *options, *more, "-q", "--iterations", 3, "--force"]
            for tolerance, status in ((1e-9, 1), (1 if tool == "attn-compute" else 1e6, 0)):
                with self.subTest(tool=tool, source=source, tolerance=tolerance):
                    own = [*arguments, "--tolerance", tolerance]
                    self.run_tool(*own, "-o", "whole.h5", status=status)
                    for number in (1, 2):
                        self.run_tool(*own, "--shard", f"{number}/2", "-o", "part.h5", status=None)
                    files = [f"part.000{number}-of-0002.h5" for number in (1, 2)]
                    done = self.run_tool("tensor-join", *files, "-o", "joined.h5", "--force", "--json=joined.json",
                                         status=status)
                    self.assertEqual(self.read_json("joined.json")["status"], "not_converged" if status else "ok")
                    self.assertEqual(", not converged in part." in done.err, status == 1)
                    self.assertIn("attn_status", h5py.File(self.folder / "joined.h5")[
                        "/" if source == "in.h5" else GROUPS[0]].attrs)

    def test_status_of_an_earlier_run(self):
        """Other tools copy attn_status, which says nothing of their own results."""
        self.run_tool("attn-compute", "dump.h5", "-q", "--scheme", "sinkhorn", "--iterations", 2, "--tolerance", "1e-9",
                      "-o", "stopped.h5", status=1)
        for arguments in (("stopped.h5", "--each", "/text/*"), ("stopped.h5:/text/layer1",)):
            with self.subTest(arguments=arguments):
                files = self.shards("structured-attention", *arguments, "-q", count=2)
                self.run_tool("tensor-join", *files, "-o", "joined.h5", "--force")
                for file in files:
                    (self.folder / file).unlink()

    def test_damaged_notes(self):
        files = self.shards("lambda-solve", "in.h5", "-q", count=2)

        def check(change):
            shutil.copy(self.folder / files[1], self.folder / "changed.h5")
            with h5py.File(self.folder / "changed.h5", "a") as file:
                change(file["attn_shard"])
            self.refused("tensor-join", files[0], "changed.h5", status=3, says=["changed.h5"], output="joined.h5")

        check(lambda group: group.__delitem__("report"))
        check(lambda group: group.__delitem__("report/0/figures"))
        check(lambda group: group["report/0/figures"].__setitem__(0, "{}"))
        check(lambda group: group["report/0/figures"].__setitem__(0, "{"))


class Virtual(ShardTest):
    """Joined by reference: datasets whose elements stay in the shards."""

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(9)
        sizes = {"q": (3, 4, 20, 8), "k": (3, 2, 30, 8), "v": (3, 2, 30, 5), "grad_out": (3, 4, 20, 5)}
        data = {name: draw.normal(size=size) for name, size in sizes.items()}
        self.write("in.h5", {"model": "m"}, **data)
        self.write("inside.h5", {"attn_layout": "blhd"}, **{name: data[name].swapaxes(1, 2) for name in "qkv"})

    def joined(self, tool, source, *options, count=3, output="joined.h5"):
        self.run_tool(tool, source, *options, "-q", "--only", "-o", "only.h5", "--force")
        (self.folder / "parts %b").mkdir(exist_ok=True)
        for number in range(1, count + 1):
            self.run_tool(tool, source, *options, "-q", "--shard", f"{number}/{count}", "--force",
                          "-o", "parts %b/%I of %N.h5")
        files = [f"parts %b/{number} of {count}.h5" for number in range(count, 0, -1)]
        self.run_tool("tensor-join", *files, "-q", "--virtual", "-o", output, "--force")
        return files[::-1]

    def test_same_bits_as_a_copy(self):
        cases = [("attn-compute", "in.h5", "--emit", "out,weights,row_potential,grad_k"),
                 ("attn-compute", "inside.h5", "--scheme", "dnas"), ("attn-compute", "dump.h5"),
                 ("sinkhorn-iter", "in.h5", "--tolerance", "1e-6", "--emit", "error,plan"),
                 ("explain-away-stats", "dump.h5")]
        for tool, source, *options in cases:
            for count in (1, 2, 3, 7, 64) if LONG else (5,):
                with self.subTest(tool=tool, source=source, count=count):
                    self.joined(tool, source, *options, count=count)
                    self.assert_same("only.h5", "joined.h5")
                    only, joined = self.read("only.h5"), self.read("joined.h5")
                    self.assertEqual(only.labels, joined.labels)
                    for name in only:  # as h5py reads them
                        np.testing.assert_array_equal(joined[name], only[name], err_msg=name)

    def test_holds_no_elements(self):
        self.joined("attn-compute", "in.h5", "--emit", "out")
        with h5py.File(self.folder / "joined.h5") as file:
            self.assertTrue(file["out"].is_virtual)
            self.assertEqual(len(file["out"].virtual_sources()), 3)  # the heads of a sequence each
            self.assertEqual({part.file_name for part in file["out"].virtual_sources()},
                             {f"parts %%b/{n} of 3.h5" for n in (1, 2, 3)})

    def test_moves_with_its_shards(self):
        self.joined("attn-compute", "in.h5")
        moved = self.folder / "moved"
        moved.mkdir()
        for name in ("joined.h5", "parts %b"):
            shutil.move(self.folder / name, moved / name)
        self.assert_same("only.h5", "moved/joined.h5")
        # A copy that holds the elements.
        self.run_tool("tensor-convert", "moved/joined.h5", "-o", "copy.h5", "-q")
        shutil.rmtree(moved)
        self.assert_same("only.h5", "copy.h5")

    def test_a_hole_is_never_zeros(self):
        files = self.joined("attn-compute", "in.h5", "--emit", "out")
        shutil.move(self.folder / files[1], self.folder / "gone.h5")
        self.refused("tensor-compare", "joined.h5", "joined.h5", status=3, says=["joined.h5:/out", "2 of 3.h5"],
                     output=None)
        with h5py.File(self.folder / "joined.h5") as file, h5py.File(self.folder / "only.h5") as whole:
            found, expected = file["out"][()], whole["out"][()]
        missing = np.isnan(found)
        self.assertEqual(missing.sum(), found.size // 3)
        np.testing.assert_array_equal(found[~missing], expected[~missing])

    def test_refused(self):
        files = self.joined("attn-compute", "in.h5", "--emit", "out")
        for output in ("joined.npz", "-"):
            self.refused("tensor-join", *files, "--virtual", status=2, says=["--virtual", output], hint="-o FILE.h5",
                         output=output)
        for n in (1, 2):
            self.run_tool("attn-compute", "in.h5", "-q", "--shard", f"{n}/2", "-o", "part%I-%N.npz")
        self.refused("tensor-join", "part1-2.npz", "part2-2.npz", "--virtual", status=2,
                     says=["--virtual refers to HDF5 files, but part1-2.npz is none"], output="j.h5")
        self.run_tool("tensor-join", "part1-2.npz", "part2-2.npz", "-q", "-o", "j.h5")
        self.refused("tensor-join", files[0], files[2], "--virtual", status=3, says=["shard 2 of 3 is missing"],
                     output="j2.h5")

    def test_never_replaces_a_shard(self):
        """A file that replaced a shard would refer to itself."""
        files = self.shards("attn-compute", "in.h5", "-q", count=2)
        (self.folder / "folder").mkdir()
        os.symlink(self.folder / files[0], self.folder / "folder/link.h5")
        os.link(self.folder / files[1], self.folder / "second.h5")
        before = [(self.folder / file).read_bytes() for file in files]
        for output, shard in ((files[0], 0), (f"folder/../{files[0]}", 0), (self.folder / files[1], 1),
                              ("folder/link.h5", 0), ("second.h5", 1)):
            for more in ([], ["--dry-run"]):
                with self.subTest(output=output, more=more):
                    self.refused("tensor-join", *files, "--virtual", "--force", *more, status=2,
                                 says=[files[shard], f"--output {output} is the same file"], output=output)
        self.assertEqual([(self.folder / file).read_bytes() for file in files], before)

    def test_no_folder_for_the_output(self):
        files = self.shards("attn-compute", "in.h5", "-q", count=1)
        self.refused("tensor-join", *files, "--virtual", status=5, says=["none/joined.h5"], output="none/joined.h5")

    def test_output_is_a_link(self):
        """Names are relative to the folder of the file that a link leads to."""
        files = self.shards("attn-compute", "in.h5", "-q", count=2)
        self.run_tool("attn-compute", "in.h5", "-q", "--only", "-o", "only.h5")
        (self.folder / "folder").mkdir()
        (self.folder / "folder/joined.h5").touch()
        os.symlink("folder/joined.h5", self.folder / "link.h5")
        self.run_tool("tensor-join", *files, "--virtual", "--force", "-o", "link.h5")
        self.run_tool("tensor-compare", "--allow-external", "folder/joined.h5", "only.h5")

    def test_shards_outside_the_folder(self):
        files = self.shards("attn-compute", "in.h5", "-q", count=2)
        (self.folder / "folder").mkdir()
        done = self.run_tool("tensor-join", *files, "--virtual", "-o", "folder/joined.h5")
        self.assertRegex(done.err, r"tensor-join: note: folder/joined\.h5 .* outside its folder.* --allow-external\n")
        self.refused("tensor-compare", "folder/joined.h5", "folder/joined.h5", status=3, says=["lies outside"],
                     output=None)
        self.run_tool("tensor-info", "--allow-external", "folder/joined.h5")
        (self.folder / "above").mkdir()
        for file in files:
            shutil.move(self.folder / file, self.folder / "above" / file)
        done = self.run_tool("tensor-join", *(f"above/{file}" for file in files), "--virtual", "-o", "joined.h5")
        self.assertNotIn("note", done.err)
        self.run_tool("tensor-info", "joined.h5")


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
                     says=["paths.h5", "divides groups"])
        self.refused("attn-compute", "--shard", "1/2", status=2, says=["standard input"])
        self.refused("explain-away-stats", "dump.h5", "--shard", "1/2", status=2, says=["--output"], output=None)
        self.refused("explain-away-stats", "dump.h5", "--shard", "1/2", status=2, says=["o.csv"], output="o.csv")


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
        for turn in range(1000 if LONG else 60):
            command = commands[turn % len(commands)]
            with subprocess.Popen([BIN / command[0], *command[1:]], cwd=self.folder, env=self.environment) as process:
                time.sleep(moments.uniform(0, 0.06))
                process.kill()
            killed += process.returncode == -signal.SIGKILL
        self.assertGreater(killed, 10)
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
        self.refused("explain-away-stats", *sweep, status=2, says=["a sweep", "is not divided among shards"],
                     hint="without it", output="sweep.h5")

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
        with h5py.File(self.folder / third, "a") as file:
            group = file["attn_shard/own"].asstr()[0]
            del file[group]
        self.refused_join(self.files, third, f"lacks its group {group}")


if __name__ == "__main__":
    unittest.main()
