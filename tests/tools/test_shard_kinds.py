"""Shards of every tool and of every kind of results: joined as a copy and by reference, they are the run, and so are
the warnings."""

import unittest

import h5py
import numpy as np

from attn import LONG
from mechanisms import PROBLEMS
from shards import ShardTest

POINTS = "--counts 12,5 --centres 2,0;-2,0 --variance 0.3 --seeds 7 --steps 3"
STEPS = ("sgd", "si-sgd", "adam", "si-adam")
RUNS = [
    ("attn-compute", "attention.h5 --scheme dnas --emit out,weights,row_potential,col_sum,row_entropy"),
    ("attn-compute", "attention.h5 --emit out,grad_q,grad_k,grad_v"),
    ("attn-compute", "attention.h5 --each=layers/* --scheme hnas --hybrid 0.3"),
    ("attn-compute", "attention.h5 --precision f32 --join --emit out,grad_q"),
    ("attn-compute", "attention.h5 --emit out,grad_bias"),
    ("attn-compute", "attention.h5 --scheme sinkhorn --tolerance 1e-4"),
    ("sinkhorn-iter", "attention.h5 --emit plan,row_potential,error --tolerance 1e-5"),
    ("sinkhorn-iter", "attention.h5 --each=layers/* --iterations 3 --emit plan,error"),
    ("sinkhorn-iter bulk", "bulk.h5 --emit plan,row_potential,col_potential,error"),
    ("explain-away-stats", "attention.h5"),
    ("explain-away-stats", "attention.h5 --each=layers/*"),
    ("lambda-solve", "attention.h5 --average heads"),
    ("lambda-solve", "attention.h5 --each=layers/*"),
    ("mode-collapse-sim simulate", POINTS),
    ("mode-collapse-sim em", POINTS + " --start 1,0;-1,0 --estimate-variance=each --model-variance 2,2 --min-variance 1"),
    ("basis-paths identify", "weights.h5 --skeleton largest"), ("basis-paths values", "weights.h5 --precision f32"),
    ("basis-paths rescale", "weights.h5"), ("basis-paths reconstruct", "values.h5"),
    ("basis-paths start", "weights.h5 --skeleton cyclic"),
    ("basis-paths values", "networks.h5 --network relu"), ("basis-paths rescale", "networks.h5 --network relu"),
    *(("basis-paths step", f"weights.h5 --rate 1e-6 --optimizer {name}") for name in STEPS),
    *(("basis-paths step", f"networks.h5 --network relu --rate 1e-5 --optimizer {name}") for name in STEPS),
]


class Kinds(ShardTest):

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(3)
        sizes = {"q": (2, 3, 9, 4), "k": (2, 3, 9, 4), "v": (2, 3, 9, 5), "grad_out": (2, 3, 9, 5),
                 "bias": (3, 9, 9), "grad_joined": (2, 9, 15)}
        data = {name: draw.normal(size=size) for name, size in sizes.items()}
        groups = {f"layers__{n}__{name}": draw.normal(size=(2, 5 + n, 4)) for n in range(4) for name in "qkv"}
        self.write("attention.h5", {"model": "m"}, **data, **groups)
        self.write("bulk.h5", scores=draw.normal(size=(7, 3, 4, 5)))
        self.write("weights.h5", **{name: draw.normal(size=(2, 3, 5, 4)) for name in ("wq", "wk", "grad_wq", "grad_wk")},
                   scale=draw.uniform(0.5, 2, size=(3, 4)))
        self.write("networks.h5", scale=draw.uniform(0.5, 2, size=(5, 4)),
                   **{f"{of}w{n}": draw.normal(size=(5, *size)) for of in ("", "grad_")
                      for n, size in ((1, (3, 4)), (2, (4, 2)))})
        self.run_tool("basis-paths", "values", "weights.h5", "--skeleton", "largest", "-q", "-o", "values.h5")
        # A plan of given marginals whose sums differ, by another number for each problem.
        a, b = draw.uniform(1, 2, size=(6, 4)), draw.uniform(1, 2, size=(6, 5))
        b *= (a.sum(-1) / b.sum(-1) * (1 + 1e-3 * np.arange(6)))[:, None]
        self.write("sums.h5", scores=draw.normal(size=(6, 4, 5)), a=a, b=b)
        # Some columns of two heads are singular.
        singular = {name: draw.normal(size=(6, 5, 4)) for name in ("wq", "wk", "grad_wq", "grad_wk")}
        heads = [1, 4]
        singular["wq"][heads, 1, 1], singular["wk"][heads, :, 1] = 1e-6, [0, 1, 0, 0, 0]
        singular["grad_wq"][heads, 1, 1] = 1
        self.write("singular.h5", **singular)

    def shards_of(self, tool, options, status=0):
        """The undivided run, whole.h5, and the bundles of three shards of it."""
        name, *verb = tool.split()
        arguments = [name, *verb, *options]
        only = [] if "--counts" in options else ["--only"]
        whole = self.run_tool(*arguments, *only, "--json=whole.json", "-o", "whole.h5", "--force", status=status)
        for number in (1, 2, 3):
            done = self.run_tool(*arguments, "-q", "--shard", f"{number}/3", "-o", "part.h5", "--force", status=None)
            self.assertIn(done.status, (0, 1), done.err)
        return whole, [f"part.000{number}-of-0003.h5" for number in (1, 2, 3)]

    def check(self, tool, options):
        _, files = self.shards_of(tool, options, status=None)
        for more in ([], ["--virtual"]):
            self.run_tool("tensor-join", *files, "-q", *more, "-o", "joined.h5", "--force", status=None)
            self.assert_same("whole.h5", "joined.h5")
            whole, joined = self.read("whole.h5"), self.read("joined.h5")
            self.assertEqual(whole.labels, joined.labels)
            for name in whole:  # as h5py reads them
                np.testing.assert_array_equal(joined[name], whole[name], err_msg=name)

    def test_joined_both_ways(self):
        # Short runs have each optimiser, on matrices or on networks.
        left_out = {f"weights.h5 --rate 1e-6 --optimizer {name}" for name in STEPS[::2]} | {
            f"networks.h5 --network relu --rate 1e-5 --optimizer {name}" for name in STEPS[1::2]}
        for tool, options in RUNS:
            if not LONG and options in left_out:
                continue
            with self.subTest(tool=tool, options=options):
                self.check(tool, options.split())

    def test_mechanisms_joined_both_ways(self):
        draw = np.random.default_rng(4)
        for problem in PROBLEMS if LONG else {problem.tool: problem for problem in PROBLEMS}.values():
            own = {name: draw.integers(0, problem.sizes[of] + 1, size=7) for name, of in problem.lengths.items()}
            self.write("seq.h5", **problem.datasets(own, "f4"))
            with self.subTest(tool=problem.tool, options=problem.options):
                self.check(problem.tool, ["seq.h5", *problem.options])

    def test_large_results_stay_in_the_shards(self):
        """Only what HDF5 cannot refer to is copied: scalars, and integers other than int64."""
        _, files = self.shards_of("basis-paths step", ["weights.h5", "--rate", "1e-3", "--optimizer", "adam"])
        self.run_tool("tensor-join", *files, "-q", "--virtual", "-o", "joined.h5")
        with h5py.File(self.folder / "joined.h5") as file:
            self.assertEqual({name for name in file if file[name].is_virtual},
                             {"wq", "wk", "adam_m", "adam_v"})
            self.assertFalse(file["adam_step"].is_virtual)

    def test_warnings(self):
        """The same lines in the same order, of which those with figures have the figures of the whole run."""
        runs = [("basis-paths step", "weights.h5 --rate 1e-3 --optimizer si-adam", "differ by"),
                ("basis-paths step", "networks.h5 --network relu --rate 1e-5 --optimizer si-adam", "differ by"),
                ("basis-paths step", "singular.h5 --rate 1e-3 --optimizer si-adam --on-singular skip", "column 1"),
                ("sinkhorn-iter", "sums.h5 --tolerance 1e-1", "differ by"),
                ("sinkhorn-iter", "attention.h5 --causal --iterations 3", "leak"),
                ("attn-compute", "attention.h5 --each=layers/* --scheme dnas --causal", "leak"),
                ("explain-away-stats", "attention.h5 --each=layers/* --scheme unas,dnas --causal", "leak"),
                ("explain-away-stats", "attention.h5 --scheme unas,dnas --causal", "leak"),
                ("mode-collapse-sim simulate", POINTS + " --scheme sinkhorn --iterations 2 --tolerance 1e-3",
                 "converge"),
                ("mode-collapse-sim em", POINTS + " --start 1,0;-1,0;50,50 --priors estimated --estimate-variance "
                                         "--model-variance 2 --min-variance 1.9", "--min-variance")]
        for tool, options, says in runs:
            with self.subTest(tool=tool, options=options):
                _, files = self.shards_of(tool, options.split(), status=None)
                self.run_tool("tensor-join", *files[::-1], "--json=joined.json", "-o", "joined.h5", "--force", status=None)
                expected = self.read_json("whole.json")["warnings"]
                self.assertTrue(any(says in line for line in expected), expected)
                self.assertEqual(self.read_json("joined.json")["warnings"], expected)


if __name__ == "__main__":
    unittest.main()
