"""--shard within one INPUT: parts of its heads, sequences or sets of points."""

import json
import os
import shutil
import unittest

import h5py
import numpy as np

from attn import LONG
from mechanisms import PROBLEMS
from shards import ShardTest

HEADS_RUNS = [
    ("attn-compute", "--scheme dnas --emit out,row_potential,weights,col_sum,row_entropy"),
    ("attn-compute", "--scheme dnas --emit out,grad_q,grad_k,grad_v"),
    ("attn-compute", "--join --emit out,grad_q,grad_k"),
    ("attn-compute", "--emit out,grad_bias"),
    ("attn-compute", "--scheme hnas --queries 1,3:5 --emit out,row_potential,scores"),
    ("attn-compute", "--scheme sinkhorn --iterations 4"),
    ("attn-compute", "--scheme sinkhorn --tolerance 1e-4 --layout blhd -i q=inside.h5 -i k=inside.h5 -i v=inside.h5"),
    ("sinkhorn-iter", "--emit plan,row_potential,error --tolerance 1e-5"),
    ("sinkhorn-iter", "--emit plan,row_potential,error --iterations 9 --unbalanced 0.5:2"),
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
            for count in (1, 2, 3, 7, 64) if LONG else (16,) if number == 0 else (2 + number % 3,):
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
        check(notes(f'"own":"{own}"', f'"own":"{first}:13"'), f'own is "{first}:13", expected ranges of at most 12 numbers below 12')
        check(notes('"own"', '"none"'), "changed.h5:/attn_shard/divided is damaged: own is missing")
        check(notes(f'"blocks":"{own}"', f'"blocks":"{first + 1}:{last + 1}"'), f"both hold block {last} of ")

        def many(file):
            """A list of more problems than --memory has room for, in a short text."""
            notes(f'"own":"{own}"', '"own":"0:100000000"')(file)
            file["attn_shard"].attrs["problems"] = 10**8

        with h5py.File(self.folder / files[1]) as file:
            self.assertEqual(file["attn_shard"].attrs["problems"], 12)
        shutil.copy(self.folder / files[1], self.folder / "changed.h5")
        with h5py.File(self.folder / "changed.h5", "a") as file:
            many(file)
        self.refused("tensor-join", "changed.h5", "--memory", "500M", status=6, output="joined.h5",
                     says=["problems of the shards up to changed.h5 needs 762.9 MiB of working memory"])
        other = self.shards("attn-compute", "in.h5", "-q", "--emit", "out", count=3, output="other.h5")
        self.refused("tensor-join", files[0], other[1], files[2], status=3, says=[other[1], "emit"],
                     output="joined.h5")


    def test_a_shard_that_is_longer_without_blocks(self):
        """A result that may end early is as long as its longest block, and no shard without blocks is longer."""
        with h5py.File(self.folder / "cost.h5", "w") as file:
            file["cost"] = np.random.default_rng(4).normal(size=(2, 3, 4))
        files = self.shards("sinkhorn-iter", "cost.h5", "--epsilon=1", "--iterations=3", "--emit=error", "-q", count=3)
        notes = {}
        for name in files:
            with h5py.File(self.folder / name) as file:
                notes[name] = json.loads(file["attn_shard/divided"].asstr()[0])
        empty, = (name for name in files if notes[name]["own"] == "")
        full = next(name for name in files if name != empty)
        piece, = (one for one in notes[full]["pieces"] if one["name"] == "error")
        piece |= {"shape": [*piece["shape"][:-1], 2**58], "blocks": ""}
        notes[empty]["pieces"] = [piece]
        with h5py.File(self.folder / empty, "a") as file:
            file["attn_shard/divided"][0] = json.dumps(notes[empty])
            file.create_dataset("error", (0, 2**58), "f8", chunks=(1, 1), maxshape=(None, 2**58))
        for more in ([], ["--virtual"]):
            self.refused("tensor-join", *files, *more, status=3, says=[f"{empty} is part of a error "],
                         output="joined.h5")


class Paths(ShardTest):
    """The heads of basis-paths, which have skeletons of their own."""

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(12)
        weights = {name: draw.normal(size=(2, 3, 5, 4)) for name in ("wq", "wk", "grad_wq", "grad_wk")}
        self.write("weights.h5", {"model": "m"}, **weights, scale=draw.uniform(0.5, 2, size=(3, 4)),
                   bq=draw.normal(size=(2, 3, 4)))
        self.run_tool("basis-paths", "values", "weights.h5", "--skeleton", "largest", "-q", "-o", "values.h5")
        self.run_tool("basis-paths", "step", "weights.h5", "--rate", "1e-5", "--optimizer", "si-adam", "-q",
                      "-o", "once.h5")
        stepped = self.read("once.h5")
        self.write("adam.h5", **{name: stepped[name] for name in stepped},
                   grad_wq=weights["grad_wk"], grad_wk=weights["grad_wq"])

    def test_same_bits_as_undivided(self):
        cases = [("identify", "weights.h5"), ("identify", "weights.h5", "--skeleton", "largest"),
                 ("values", "weights.h5", "--precision", "f32"), ("rescale", "weights.h5"),
                 ("reconstruct", "values.h5"), ("reconstruct", "values.h5", "--paths", "all"),
                 ("reconstruct", "values.h5", "--paths", "0,1,2;3,0,2", "--compress", "gzip"),
                 ("start", "weights.h5", "--skeleton", "cyclic", "--across-heads"), ("step", "weights.h5", "--rate", "1e-5"),
                 ("step", "adam.h5", "--rate", "1e-5", "--optimizer", "si-adam")]
        for verb, source, *options in cases:
            arguments = [source, *options, "-q"]
            self.run_tool("basis-paths", verb, *arguments, "-o", "whole.h5", "--force")
            self.run_tool("basis-paths", verb, *arguments, "--only", "-o", "only.h5", "--force")
            for count in (1, 2, 4, 9) if LONG else (2,):
                with self.subTest(verb=verb, options=options, count=count):
                    files = self.shards(f"basis-paths {verb}", *arguments, count=count)
                    self.run_tool("tensor-join", *files, "-q", "-o", "joined.h5", "--force")
                    self.assert_same("only.h5", "joined.h5")
                    self.assertEqual(self.read("only.h5").labels, self.read("joined.h5").labels)
                    self.run_tool("tensor-join", *files, "--with", source, "-q", "-o", "joined.h5", "--force")
                    self.assert_same("whole.h5", "joined.h5")
                    for file in files:
                        (self.folder / file).unlink()

    def test_networks(self):
        draw = np.random.default_rng(13)
        sizes = [(3, 4), (4, 2)]
        self.write("nets.h5", scale=draw.uniform(0.5, 2, size=(5, 4)),
                   **{f"{of}w{n}": draw.normal(size=(5, *size)) for of in ("", "grad_") for n, size in enumerate(sizes, 1)})
        self.run_tool("basis-paths", "values", "--network", "relu", "nets.h5", "-q", "-o", "values.h5", "--force")
        cases = [("identify", "nets.h5", "--skeleton", "largest"), ("values", "nets.h5"), ("rescale", "nets.h5"),
                 ("reconstruct", "values.h5"), ("step", "nets.h5", "--rate", "1e-6"),
                 ("step", "nets.h5", "--rate", "1e-6", "--optimizer", "si-adam")]
        for verb, source, *options in cases:
            arguments = ["--network", "relu", source, *options, "-q"]
            self.run_tool("basis-paths", verb, *arguments, "-o", "whole.h5", "--force")
            with self.subTest(verb=verb):
                files = self.shards(f"basis-paths {verb}", *arguments, count=3)
                self.run_tool("tensor-join", *files, "--with", source, "-q", "-o", "joined.h5", "--force")
                self.assert_same("whole.h5", "joined.h5")
                for file in files:
                    (self.folder / file).unlink()

    def test_places_are_those_of_the_whole(self):
        weights = self.read("weights.h5")
        large = weights["wq"].copy()
        large[1, 2] *= 1e30
        self.write("large.h5", wq=large, wk=np.where(np.arange(2)[:, None, None, None], 1e20, 1) * weights["wk"])
        run = ["values", "large.h5", "--precision", "f32"]
        whole = self.run_tool("basis-paths", *run, "-o", "v.h5", status=4)
        self.assertIn("[1, 2, ", whole.err)
        part = self.run_tool("basis-paths", *run, "-o", "v.h5", "--shard", "3/3", status=4)
        self.assertEqual(part.err, whole.err)


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
                     says=["all 10 add into grad_w2"], hint="one run without --shard")

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
        self.check("simulate", *drawn, "--scheme", "unas,dnas", counts=counts if LONG else (9,))
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


if __name__ == "__main__":
    unittest.main()
