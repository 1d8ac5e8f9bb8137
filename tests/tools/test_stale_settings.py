"""Results of another tool or of other options are removed, and valid ones are kept; in groups, too."""

import unittest

import h5py
import numpy as np

from attn import LONG, Bundle
from dumps import EACH, MAP, Dump
from stale import NOT_COPIED, Stale

COLUMN_SUMS = {"queries_of_key", "unas_col_sum", "unas_row_entropy", "dnas_col_sum",
               "dnas_row_entropy"}


class OtherTools(Stale):

    def test_gradients_before_sinkhorn(self):
        done = self.shell("attn-compute -q --emit out,grad_q,grad_k in.h5 | sinkhorn-iter -o made.h5")
        made = self.read("made.h5")
        made.err = done.err
        self.dropped(made, "attn-compute", "grad_k", "grad_q", "out")
        self.assertEqual(made.attributes["attn_scheme"], "sinkhorn")
        self.assertIn("grad_out", made)

    def test_plan_before_attention(self):
        self.made("sinkhorn-iter", "--emit=plan,error", "in.h5")
        self.dropped(self.made("attn-compute", "made.h5"), "sinkhorn-iter", "plan", "error")
        # Even if both use the same name and one requests nothing else.
        self.made("sinkhorn-iter", "--emit=plan", "--iterations=5", "in.h5")
        again = self.made("attn-compute", "--scheme=sinkhorn", "--iterations=5", "made.h5")
        self.dropped(again, "sinkhorn-iter", "plan")

    def test_column_sums_before_another_scale(self):
        self.made("explain-away-stats", "in.h5", name="sums.h5")
        self.dropped(self.made("attn-compute", "--scale=5", "sums.h5"), "explain-away-stats",
                     *COLUMN_SUMS)
        same = self.made("attn-compute", "--scheme=dnas", "sums.h5")
        self.kept(same, *COLUMN_SUMS)
        # It belongs to the scheme, unlike dnas' sums.
        masked = self.made("attn-compute", "--causal=top-left", "made.h5")
        self.dropped(masked, "explain-away-stats", *COLUMN_SUMS)

    def test_dual_after_attention(self):
        first = self.made("attn-compute", "--scale=3", "--emit=out,weights,row_potential,"
                          "col_potential,col_sum,row_entropy,grad_q", "in.h5")
        self.consistent(first)
        dual = self.made("lambda-solve", "made.h5", name="dual.h5")
        self.dropped(dual, "attn-compute", "weights", "row_potential", "col_potential", "col_sum",
                     "row_entropy", "grad_q")
        self.assertFalse(np.array_equal(dual["out"], first["out"]))
        self.assertEqual([name for name in dual.attributes if not name.startswith("attn_dual_")],
                         ["history"])
        only = self.made("lambda-solve", "--only", "made.h5", name="only.h5")
        self.assertNotIn("attn_scheme", only.attributes)
        self.assertNotIn(NOT_COPIED, only.err)
        # Without writing out itself, it removes the other's.
        beside = self.made("lambda-solve", "--emit=lambda", "made.h5", name="beside.h5")
        self.kept(beside, "out", "weights", "grad_q")
        self.assertEqual(beside.attributes["attn_scheme"], "unas")

    def test_attention_after_the_dual(self):
        self.made("lambda-solve", "--emit=out,lambda,p", "in.h5")
        weights = self.made("attn-compute", "--emit=weights", "made.h5", name="weights.h5")
        self.dropped(weights, "lambda-solve", "lambda", "out", "p")
        self.assertNotIn("attn_dual_alpha", weights.attributes)
        self.made("lambda-solve", "--emit=lambda", "in.h5")
        self.kept(self.made("attn-compute", "made.h5"), "lambda", "out")
        self.assertEqual(self.read("made.h5").attributes["attn_dual_alpha"], 1)

    def test_layout_belongs_to_the_tensors(self):
        data = {name: values.swapaxes(0, 1) for name, values in self.data.items()}
        self.write("inside.h5", {"attn_layout": "blhd"}, **data)
        self.made("attn-compute", "--emit=weights,out", "inside.h5")
        dual = self.made("lambda-solve", "made.h5", name="dual.h5")
        self.dropped(dual, "attn-compute", "weights")
        self.assertEqual(dual.attributes["attn_layout"], "blhd")
        self.assertEqual(self.compute("dual.h5", "-q")["out"].shape, (7, 2, 3))

    def test_any_order(self):
        steps = (["attn-compute", "--emit=weights"], ["attn-compute", "--scheme=dnas", "--emit=out"],
                 ["attn-compute", "--emit=out,weights,col_sum", "--scale=2"],
                 ["lambda-solve", "--emit=out,lambda"], ["sinkhorn-iter"],
                 ["explain-away-stats", "--scheme=unas"], ["attn-compute", "--emit=out"])
        for _ in range(25 if LONG else 8):
            order = self.random.permutation(len(steps))[:4]
            name = "in.h5"
            for step in order:
                made = self.made(*steps[step], name)
                name = "made.h5"
                self.consistent(made)
                if "weights" in made:
                    self.assertIn("attn_scheme", made.attributes)
                    scale = made.attributes["attn_scale"] / 2
                    scores = scale * made["q"].astype(float) @ made["k"].swapaxes(-1, -2)
                    rows = np.exp(scores - scores.max(-1, keepdims=True))
                    rows /= rows.sum(-1, keepdims=True)
                    self.assert_near("weights", made["weights"], rows, 1e-5)
                    if "unas_col_sum" in made:
                        self.assert_near("sums", made["unas_col_sum"], rows.sum(-2), 1e-4)


class SameTool(Stale):

    def test_the_same_again_keeps_what_holds(self):
        self.made("attn-compute", "--emit=out,col_sum", "in.h5")
        again = self.made("attn-compute", "--emit=weights", "made.h5")
        self.kept(again, "out", "col_sum", "weights")
        self.consistent(again)
        for options in (["--scale=2"], ["--scheme=dnas"], ["--causal=top-left"], ["--window=2"],
                        ["--precision=f64"], ["--softcap=3"]):
            with self.subTest(options=options):
                other = self.made("attn-compute", "--emit=weights", *options, "made.h5",
                                  name="other.h5")
                self.dropped(other, "attn-compute", "out", "col_sum")

    def test_iterations(self):
        sinkhorn = ["--scheme=sinkhorn", "--emit"]
        self.made("attn-compute", *sinkhorn, "out", "--iterations=3", "in.h5")
        self.kept(self.made("attn-compute", *sinkhorn, "weights", "--iterations=3", "made.h5",
                            name="same.h5"), "out", "weights")
        for options in (["--iterations=4"], ["--tolerance=1e-3"]):
            self.dropped(self.made("attn-compute", *sinkhorn, "weights", *options, "made.h5",
                                   name="other.h5"), "attn-compute", "out")
        self.made("sinkhorn-iter", "--emit=error", "--relax=1.5", "in.h5")
        self.dropped(self.made("sinkhorn-iter", "--emit=plan", "made.h5"), "sinkhorn-iter", "error")

    def test_queries(self):
        chosen = ["attn-compute", "--queries=0,3", "--emit"]
        self.made(*chosen, "out,col_potential", "in.h5")
        self.kept(self.made(*chosen, "weights", "made.h5", name="same.h5"), "out", "queries")
        other = self.made("attn-compute", "--queries=1,3", "--emit=weights", "made.h5",
                          name="other.h5")
        self.dropped(other, "attn-compute", "out")
        np.testing.assert_array_equal(other["queries"], [1, 3])
        self.assertIn("col_potential", other)
        everything = self.made("attn-compute", "--emit=weights", "made.h5", name="all.h5")
        self.dropped(everything, "attn-compute", "out", "queries")
        # All rows beside a list of some queries would be mistaken for the rows of these.
        self.made("attn-compute", "--emit=out", "in.h5")
        self.dropped(self.made(*chosen, "weights", "made.h5"), "attn-compute", "out")

    def test_templates_and_keys(self):
        # With one axis, the default scale is 1 for both.
        self.write("dual.h5", q=self.normal(7, 1), k=self.normal(6, 1), t=self.normal(6, 1),
                   z=self.normal(7, 1))
        made = self.made("lambda-solve", "--emit=h", "dual.h5")
        self.assertIn("h", made)
        with h5py.File(self.folder / "made.h5", "r+") as file:
            del file["t"], file["z"]
        self.dropped(self.made("lambda-solve", "--emit=p", "made.h5", name="keys.h5"),
                     "lambda-solve", "h")

    def test_unreadable_dataset_queries(self):
        with h5py.File(self.folder / "in.h5", "r+") as file:
            file["queries"] = h5py.SoftLink("/nowhere")
        self.made("attn-compute", "--only", "in.h5")
        self.assertIn("attn_result", self.read("made.h5").attributes_of["out"])
        self.refused("attn-compute", "in.h5", status=3, says=["in.h5:/queries"])

    def test_statistics_of_other_scores(self):
        self.made("explain-away-stats", "--scheme=unas", "in.h5")
        other = self.made("explain-away-stats", "--scheme=dnas", "--scale=2", "made.h5",
                          name="other.h5")
        self.dropped(other, "explain-away-stats", "unas_col_sum", "unas_row_entropy")
        self.kept(self.made("explain-away-stats", "--scheme=dnas", "made.h5"), "unas_col_sum",
                  "dnas_col_sum")
        # First its own scale, then the root's.
        self.made("explain-away-stats", "--scale=2", "in.h5")
        self.dropped(self.made("attn-compute", "made.h5", name="other.h5"), "explain-away-stats",
                     *COLUMN_SUMS)
        self.made("attn-compute", "--emit=weights", "in.h5", name="weights.h5")
        self.made("explain-away-stats", "--scheme=stored", "weights.h5", name="stored.h5")
        anew = self.made("attn-compute", "--scale=2", "--emit=out", "stored.h5", name="anew.h5")
        self.assertEqual({name for name in anew if "stored" in name or name == "weights"}, set())


class Groups(Dump):

    def test_each(self):
        self.run_tool("attn-compute", *EACH, *MAP, "--emit=out,weights", "dump.h5", "-o", "a.h5")
        same = self.run_tool("attn-compute", *EACH, *MAP, "--emit=col_sum", "a.h5", "-o", "b.h5")
        self.assertNotIn(NOT_COPIED, same.err)
        self.assertIn("text/b/layer2/out", self.read("b.h5"))
        some = self.run_tool("attn-compute", "--each=/text/a/*", *MAP, "--scale=2", "--emit=out",
                             "b.h5", "-o", "c.h5")
        line = NOT_COPIED + "col_sum, weights (of an earlier attn-compute)\n"
        self.assertEqual(some.err.count("warning"), 1)
        self.assertIn(line, some.err)
        found = self.read("c.h5")
        for group in self.groups:
            self.assertEqual(f"{group}/weights" in found, group.startswith("text/b"))
        dual = self.run_tool("lambda-solve", *EACH, *MAP, "c.h5", "-o", "d.h5")
        self.assertEqual(dual.err.count(NOT_COPIED), 1)
        found = self.read("d.h5")
        for group in self.groups:
            self.assertNotIn(f"{group}/weights", found)
            self.assertNotIn("attn_scheme", found.attributes_of[group])
        self.write("v.h5", v=np.zeros((1, 5, 2), np.float32))
        self.run_tool("attn-compute", "--each=/text/b/*", "--map=q=Q,k=K", "-i", "v=v.h5",
                      "--emit=out,weights", "dump.h5", "-o", "e.h5")
        self.write("v.h5", v=np.ones((1, 5, 2), np.float32))
        named = self.run_tool("attn-compute", "--each=/text/b/*", "--map=q=Q,k=K", "-i", "v=v.h5",
                              "--emit=col_sum", "e.h5", "-o", "f.h5")
        self.assertIn(NOT_COPIED + "out (of an earlier attn-compute)\n", named.err)
        self.assertIn("text/b/layer0/weights", self.read("f.h5"))

    def test_the_same_bytes(self):
        epoch = {"SOURCE_DATE_EPOCH": "0"}
        each = ["-q", *EACH, *MAP, "--emit=out,weights,col_sum", "dump.h5"]
        runs = {self.run_tool("attn-compute", *each, environment=epoch | {"ATTN_NUM_THREADS": n}).out
                for n in ("1", "2", "2", "3")}
        self.assertEqual(len(runs), 1)
        with open(self.folder / "a.h5", "wb") as file:
            file.write(runs.pop())
        self.assertIn("attn_result", Bundle(self.folder / "a.h5").attributes_of["text/a/layer0/out"])


if __name__ == "__main__":
    unittest.main()
