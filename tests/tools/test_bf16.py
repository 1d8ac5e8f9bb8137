"""--precision bf16: as accurate as float32, the same bits for every instruction set and thread, and
refused for anything but bfloat16 queries and keys."""

import unittest

import numpy as np

from attn import ToolTest


def bfloat16(values):
    """float32 numbers cut to bfloat16."""
    return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


class Bf16(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        self.data = {name: bfloat16(random.normal(size=(2, length, 33)))
                     for name, length in {"q": 70, "k": 300, "grad_out": 70, "v": 300}.items()}
        self.write("in.h5", **self.data)

    def test_results_are_those_of_float32_up_to_rounding(self):
        everything = "--emit=out,col_sum,row_entropy,grad_q,grad_k,grad_v"
        for scheme in ("unas", "dnas", "hnas"):
            with self.subTest(scheme=scheme):
                hybrid = ["--hybrid=0.3"] if scheme == "hnas" else []
                options = ["in.h5", f"--scheme={scheme}", *hybrid, everything, "--only", "-q"]
                want = self.compute(*options, "--precision=f64")
                got = self.compute(*options, "--precision=bf16")
                self.assertEqual(got.attributes["attn_precision"], "bf16")
                for name in ("out", "col_sum", "row_entropy", "grad_q", "grad_k", "grad_v"):
                    # Scores have sums of 33 float32 terms; gradients sums of 300 of both signs.
                    self.assert_near(name, got[name], want[name], 1e-5)
                self.assert_same_bits(self.compute(*options, "--precision=bf16", "--threads=3"), got)

    def test_scores_have_the_same_bits_for_every_instruction_set(self):
        options = ["in.h5", "--emit=energies", "--only", "-q", "--precision=bf16"]
        want = self.compute(*options)
        for target in ("avx2", "ssse3", "scalar"):
            done = self.run_tool("attn-compute", *options, environment={"ATTN_TARGET": target},
                                 status=None)
            if done.status == 2:
                self.assertIn("of this CPU", done.err)
                continue
            self.assert_same_bits(done.bundle(), want)

    def test_later_tools_take_the_recorded_precision(self):
        self.run_tool("attn-compute", "in.h5", "--precision=bf16", "-o", "out.h5")
        report = self.run_tool("explain-away-stats", "out.h5", "--scheme=stored", "--json").json()
        self.assertEqual(report["params"]["precision"], "bf16")
        again = self.run_tool("explain-away-stats", "in.h5", "--scheme=unas", "--precision=bf16",
                              "--json").json()
        self.assertEqual(again["params"]["precision"], "bf16")

    def test_other_numbers_are_refused_by_dataset_and_index(self):
        self.data["k"][1, 7, 5] = 0.1
        self.write("in.h5", **self.data)
        self.refused("attn-compute", "in.h5", "--precision=bf16", status=3,
                     says=["in.h5:/k has 0.1 at [1, 7, 5]", "expected bfloat16 numbers"])

    def test_what_has_no_such_products_is_refused(self):
        self.write("scores.h5", scores=np.zeros((3, 3), np.float32))
        for words, says in ((["in.h5", "--energy=gaussian"], "scaled-dot and dot, not gaussian"),
                            (["in.h5", "--scheme=em", "--iterations=2"], "--scheme em"),
                            (["scores.h5", "--from=scores"], "requires scores of q and k")):
            with self.subTest(words=words):
                self.refused("attn-compute", *words, "--precision=bf16", status=2, says=[says])
        self.refused("sinkhorn-iter", "in.h5", "--precision=bf16", status=2,
                     says=["--precision is bf16, expected one of f32, f64"])


if __name__ == "__main__":
    unittest.main()
