"""Results of another run are removed when attributes or inputs change, and valid ones are kept."""

import json
import unittest

import h5py
import numpy as np

from attn import LONG, Bundle, ToolTest
from dumps import EACH, MAP, Dump

NOT_COPIED = "not copied, because this run makes them outdated: "
COLUMN_SUMS = {"queries_of_key", "unas_col_sum", "unas_row_entropy", "dnas_col_sum",
               "dnas_row_entropy"}


class Stale(ToolTest):
    """in.h5 has vectors and the gradient of a loss."""

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(1)
        self.data = {"q": self.normal(2, 7, 4), "k": self.normal(2, 6, 4), "v": self.normal(2, 6, 3),
                     "grad_out": self.normal(2, 7, 3)}
        self.write("in.h5", **self.data)

    def normal(self, *shape):
        return self.random.normal(size=shape).astype(np.float32)

    def made(self, tool, *arguments, name="made.h5", status=0):
        """Runs a tool with -o; the bundle that it writes, with its messages as `err`."""
        done = self.run_tool(tool, *arguments, "--force", "-o", name, status=status)
        bundle = self.read(name)
        bundle.err = done.err
        return bundle

    def dropped(self, bundle, tool, *names):
        """Checks that these are gone, and that one line says so."""
        for name in names:
            self.assertNotIn(name, bundle)
        self.assertIn(f"warning: {NOT_COPIED}{', '.join(sorted(names))} (of an earlier {tool})\n",
                      bundle.err)
        self.assertEqual(bundle.err.count(NOT_COPIED), 1)

    def kept(self, bundle, *names):
        for name in names:
            self.assertIn(name, bundle)
        self.assertNotIn(NOT_COPIED, bundle.err)

    def strip_marks(self, name):
        """The bundle as the tools wrote it before they marked their results."""
        with h5py.File(self.folder / name, "r+") as file:
            for item in file.values():
                item.attrs.pop("attn_result", None)

    def consistent(self, bundle):
        """If a bundle with attributes of a run holds weights and out, they must belong together."""
        if {"weights", "out"} <= set(bundle) and "attn_scheme" in bundle.attributes:
            made = bundle["weights"].astype(float) @ bundle["v"]
            self.assert_near("out", bundle["out"], made, 1e-5)


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


class Inputs(Stale):

    def test_named_inputs(self):
        self.write("other.h5", q=self.normal(2, 7, 4), v=self.normal(2, 6, 3),
                   mask=np.ones((7, 6), np.uint8))
        self.made("attn-compute", "--emit=out,weights,grad_q", "in.h5")
        values = self.made("attn-compute", "--emit=out", "-i", "v=other.h5", "made.h5",
                           name="values.h5")
        self.dropped(values, "attn-compute", "grad_q")
        self.assertIn("weights", values)  # which do not depend on v
        self.consistent(values)
        for name in ("q", "mask"):
            other = self.made("explain-away-stats", "-i", f"{name}=other.h5", "made.h5",
                              name="sums.h5")
            self.dropped(other, "attn-compute", "out", "weights", "grad_q")
        converted = self.made("tensor-convert", "made.h5", "q=other.h5:/q", name="converted.h5")
        self.dropped(converted, "attn-compute", "out", "weights", "grad_q")
        self.assertEqual(set(converted), set(self.data))
        copied = self.made("tensor-convert", "--dtype=f64", "made.h5", name="copied.h5")
        self.kept(copied, "out", "weights", "grad_q")
        self.dropped(self.made("attn-compute", "--precision=f32", "--emit=out", "--scale=2",
                               "copied.h5", name="anew.h5"), "attn-compute", "weights", "grad_q")
        arrays = self.run_tool("tensor-convert", "made.h5", "q=other.h5:/q", "-o", "a.npz")
        self.assertIn(NOT_COPIED + "grad_q, out, weights (of an earlier attn-compute)", arrays.err)
        self.assertEqual(set(np.load(self.folder / "a.npz")) - {"__metadata__"}, set(self.data))

    def test_a_result_from_elsewhere_is_an_input(self):
        old = self.made("attn-compute", "--emit=out", "in.h5", name="old.h5")
        self.made("attn-compute", "--emit=weights", "-i", "out=old.h5:/out", "in.h5")
        self.assertNotIn("attn_result", self.read("made.h5").attributes_of["out"])
        again = self.made("attn-compute", "--emit=weights", "--scale=2", "made.h5")
        self.kept(again, "out")
        np.testing.assert_array_equal(again["out"], old["out"])
        # As q, and as a slice.
        self.write("three.h5", k=self.normal(2, 6, 3))
        queries = ["-i", "q=old.h5:/out[:, :5]", "-i", "k=three.h5:/k"]
        self.made("attn-compute", "--emit=row_potential", *queries)
        again = self.made("attn-compute", "--emit=col_sum", "--scale=2", "made.h5")
        self.dropped(again, "attn-compute", "row_potential")
        np.testing.assert_array_equal(again["q"], old["out"][:, :5])
        self.assertNotIn("attn_result", again.attributes_of["q"])

    def test_names_of_the_dump(self):
        self.write("dump.h5", **{name.upper(): values for name, values in self.data.items()})
        mapped = ["--map=q=Q,k=K,v=V", "--emit"]
        self.made("attn-compute", *mapped, "weights", "dump.h5")
        self.kept(self.made("explain-away-stats", "-i", "q=in.h5", "-i", "k=in.h5", "made.h5",
                            name="sums.h5"), "weights")
        other = self.made("explain-away-stats", "-i", "Q=in.h5:/q", "--map=k=K", "-i", "q=in.h5",
                          "made.h5", name="sums.h5")
        self.dropped(other, "attn-compute", "weights")

    def test_a_result_that_was_read_may_be_outdated(self):
        self.made("attn-compute", "--emit=weights,out", "in.h5")
        self.write("other.h5", q=self.normal(2, 7, 4))
        read = self.made("explain-away-stats", "--scheme=stored", "-i", "q=other.h5", "made.h5",
                         name="sums.h5")
        self.dropped(read, "attn-compute", "out", "weights")
        sums = self.read("made.h5")["weights"].astype(float).sum(-2)
        self.assert_near("sums", read["stored_col_sum"], sums, 1e-5)
        self.consistent(self.made("attn-compute", "--emit=out", "sums.h5", name="out.h5"))
        self.kept(self.made("explain-away-stats", "--scheme=stored", "made.h5", name="sums.h5"),
                  "out", "weights")
        # Two layers in a row: the weights of the second do not belong to the first's out.
        self.write("three.h5", k=self.normal(2, 6, 3))
        second = self.made("attn-compute", "--map=q=out", "-i", "k=three.h5", "--emit=weights",
                           "made.h5", name="second.h5")
        self.dropped(second, "attn-compute", "out")

    def test_other_names_of_the_same_tool(self):
        upper = {name.upper(): self.normal(*values.shape) for name, values in self.data.items()}
        self.write("both.h5", **self.data, **upper)
        mapped = "--map=q=Q,k=K,v=V"
        for emitted, other in (("out", "weights"), ("col_sum,weights", "out"), ("grad_q", "out")):
            self.made("attn-compute", mapped, "--emit", emitted, "both.h5")
            for options in ([], ["--map=q=Q"], ["-i", "k=in.h5"]):
                with self.subTest(emitted=emitted, options=options):
                    self.dropped(self.made("attn-compute", *options, "--emit", other, "made.h5",
                                           name="other.h5"), "attn-compute", *emitted.split(","))
        for tool, first, second in (("sinkhorn-iter", "plan", "error"), ("lambda-solve", "h", "p"),
                                    ("explain-away-stats", None, None)):
            with self.subTest(tool=tool):
                one = ["--emit", first] if first else ["--scheme=unas"]
                two = ["--emit", second] if second else ["--scheme=dnas"]
                self.made(tool, "--map=q=Q,k=K", *one, "both.h5")
                names = [first] if first else ["unas_col_sum", "unas_row_entropy"]
                self.dropped(self.made(tool, *two, "made.h5", name="other.h5"), tool, *names)
                self.kept(self.made(tool, "--map=q=Q,k=K", *two, "made.h5"), *names)
        # A run that does not read v cannot invalidate results by it.
        self.made("attn-compute", mapped, "--emit=out", "both.h5")
        self.kept(self.made("attn-compute", "--map=q=Q,k=K", "--emit=weights", "made.h5"), "out")
        # -i Q would be copied, but not read.
        self.refused("attn-compute", mapped, "-i", "Q=both.h5:/q", "both.h5", status=2,
                     says=["both --map q=Q and -i define Q"], hint="-i q=ADDRESS")
        # The same datasets in other roles.
        self.write("square.h5", A=self.normal(5, 4), B=self.normal(5, 4), v=self.normal(5, 3))
        self.made("attn-compute", "--map=q=A,k=B", "--emit=out", "square.h5")
        self.dropped(self.made("attn-compute", "--map=q=B,k=A", "--emit=weights", "made.h5"),
                     "attn-compute", "out")

    def test_datasets_of_the_user_are_kept(self):
        own = {name: self.normal(3) for name in ("error", "p", "out", "plan", "h")}
        self.write("own.h5", {"attn_causal": "none"}, **self.data, **own)
        steps = (["attn-compute", "--emit=col_sum"], ["attn-compute", "--scale=2", "--emit=weights"],
                 ["sinkhorn-iter", "--emit=row_potential"], ["lambda-solve", "--emit=lambda"],
                 ["lambda-solve", "--alpha=2", "--emit=gap"], ["attn-compute", "--emit=col_sum"])
        name = "own.h5"
        for step in steps:
            made = self.made(*step, name)
            name = "made.h5"
            for dataset, values in own.items():
                np.testing.assert_array_equal(made[dataset], values, str(step))
        # Replaced by name, as always.
        replaced = self.made("lambda-solve", "--emit=out", "made.h5")
        self.assertEqual(replaced["out"].shape, (2, 7, 3))
        np.testing.assert_array_equal(replaced["p"], own["p"])


class OlderFiles(Stale):
    """Results without a mark."""

    def test_beside_attributes_of_a_run(self):
        self.made("attn-compute", "--emit=out,weights,grad_q", "in.h5")
        self.strip_marks("made.h5")
        with h5py.File(self.folder / "made.h5", "r+") as file:
            file["error"] = np.arange(3.0)  # the user's own: no sinkhorn-iter was here
        sinkhorn = self.made("sinkhorn-iter", "made.h5", "--emit=plan", name="other.h5")
        self.dropped(sinkhorn, "attn-compute", "out", "weights", "grad_q")
        np.testing.assert_array_equal(sinkhorn["error"], np.arange(3.0))
        dual = self.made("lambda-solve", "made.h5", name="other.h5")
        self.dropped(dual, "attn-compute", "weights", "grad_q")
        self.assertNotIn("attn_scheme", dual.attributes)
        self.write("q.h5", q=self.normal(2, 7, 4))
        named = self.made("explain-away-stats", "-i", "q=q.h5", "made.h5", name="other.h5")
        self.dropped(named, "attn-compute", "out", "weights", "grad_q")

    def test_plan_and_dual(self):
        self.made("sinkhorn-iter", "--emit=plan,error", "in.h5")
        self.strip_marks("made.h5")
        self.dropped(self.made("attn-compute", "made.h5"), "sinkhorn-iter", "plan", "error")
        self.made("lambda-solve", "--emit=out,p,gap", "in.h5")
        self.strip_marks("made.h5")
        self.dropped(self.made("attn-compute", "--emit=weights", "made.h5"), "lambda-solve", "gap",
                     "out", "p")


class Marks(Stale):

    def test_contents_of_a_mark(self):
        made = self.made("attn-compute", "--emit=out,weights", "--scale=3", "in.h5")
        mark = json.loads(made.attributes_of["out"]["attn_result"])
        self.assertEqual((mark["name"], mark["tool"]), ("out", "attn-compute"))
        self.assertLessEqual({"q", "k", "v"}, set(mark["from"]))
        self.assertEqual(mark["with"]["attn_scale"], 3)
        self.assertNotIn("v", json.loads(made.attributes_of["weights"]["attn_result"])["from"])
        told = self.run_tool("tensor-info", "made.h5")
        self.assertIn("\nresults\n  attn-compute: out, weights\n", told.out.decode())
        self.assertNotIn("attn_result", told.out.decode())
        listed = self.run_tool("tensor-info", "--json", "made.h5").json()["result"]["datasets"]
        self.assertIn("attn_result", {d["path"]: d["attributes"] for d in listed}["out"])

    def test_a_text_that_is_not_a_mark(self):
        for text in ("", "{", "[]", '{"name": "out"}', '{"name": "out", "tool": 1, "from": {}}',
                     '{"name": "out", "tool": "nobody", "from": [], "with": {}}'):
            self.write("own.h5", {"attn_scheme": "unas"}, **self.data, out=np.zeros(2))
            with h5py.File(self.folder / "own.h5", "r+") as file:
                file["out"].attrs["attn_result"] = text
            self.dropped(self.made("attn-compute", "--emit=col_sum", "own.h5"), "attn-compute", "out")
        with h5py.File(self.folder / "own.h5", "r+") as file:
            file["out"].attrs["attn_result"] = np.arange(4)
        self.dropped(self.made("attn-compute", "--emit=col_sum", "own.h5"), "attn-compute", "out")

    def test_a_mark_that_would_overflow_the_stack(self):
        deep = ["[" * 100000 + "]" * 100000, '{"with":' * 200000 + "1" + "}" * 200000,
                "[" * 30000 + "]" * 30000, '{"a":' * 10000 + "1" + "}" * 10000]
        marks = [f'{{"name":"out","tool":"attn-compute","from":{{}},"with":{value}}}'
                 for value in deep] + [f'{{"name":{value}}}' for value in deep] + deep
        marks.append(json.dumps({"name": "out", "tool": "attn-compute", "from": {},
                                 "with": {"attn_scheme": "unas"}}) + " " * 65536)
        for text in marks:
            self.write("own.h5", {"attn_scheme": "unas"}, **self.data, out=np.zeros(2))
            with h5py.File(self.folder / "own.h5", "r+", libver="latest") as file:
                file["out"].attrs["attn_result"] = text
            self.dropped(self.made("attn-compute", "--emit=col_sum", "own.h5"), "attn-compute", "out")
            told = self.run_tool("tensor-info", "own.h5")
            self.assertNotIn("\nresults\n", told.out.decode())

    def test_comparison(self):
        self.made("attn-compute", "in.h5", name="a.h5")
        self.made("attn-compute", "in.h5", name="b.h5")
        self.strip_marks("b.h5")
        self.assertIn("attn_result", self.read("a.h5").attributes_of["out"])
        self.run_tool("tensor-compare", "--attributes", "a.h5", "b.h5")

    def test_left_out_results_take_no_space(self):
        self.write("big.h5", q=self.normal(400, 4), k=self.normal(400, 4), v=self.normal(400, 4))
        self.made("sinkhorn-iter", "--emit=plan", "big.h5")
        self.made("attn-compute", "--emit=out", "made.h5", name="small.h5")
        self.assertLess((self.folder / "small.h5").stat().st_size, 60000)

    def test_refused_runs_do_not_report_it(self):
        self.made("attn-compute", "--emit=out,grad_v", "in.h5")
        self.write("nan.h5", q=np.full((2, 7, 4), np.nan, np.float32))
        self.dropped(self.made("sinkhorn-iter", "made.h5", name="other.h5"), "attn-compute",
                     "grad_v", "out")
        self.refused("sinkhorn-iter", "-i", "q=nan.h5", "made.h5", status=3, says=["nan.h5:/q"])
        self.refused("attn-compute", "-i", "q=nan.h5", "made.h5", status=3, says=["nan.h5:/q"])

    def test_in_the_json(self):
        self.made("attn-compute", "--emit=weights", "in.h5")
        done = self.run_tool("attn-compute", "--emit=out", "--scale=2", "made.h5", "-q", "--json",
                             "-o", "out.h5")
        self.assertEqual(done.err, "")
        self.assertIn(NOT_COPIED + "weights (of an earlier attn-compute)", done.json()["warnings"])


class Paths(Stale):

    def setUp(self):
        super().setUp()
        data = {"x": (9, 5), "wq": (2, 5, 3), "wk": (2, 5, 3), "wv": (2, 5, 2), "grad_out": (2, 9, 2)}
        self.write("model.h5", **{name: self.normal(*shape) for name, shape in data.items()})

    def test_a_step(self):
        self.made("attn-compute", "--from=projection", "--emit=out,grad_wq,grad_wk,grad_wv",
                  "model.h5")
        self.made("basis-paths", "values", "made.h5")
        step = ["basis-paths", "step", "--optimizer=si-adam", "--rate=1e-3"]
        stepped = self.made(*step, "made.h5", name="step.h5")
        self.assertIn(NOT_COPIED + "grad_wv, out (of an earlier attn-compute); basis_value, "
                      "wk_skeleton (of an earlier basis-paths)\n", stepped.err)
        self.assertEqual({name for name in stepped if name not in self.read("model.h5")},
                         {"skeleton_q", "skeleton_k", "si_adam_m", "si_adam_v", "si_adam_step"})
        # State and skeleton are inputs: they stay, whatever else is run.
        again = self.made("attn-compute", "--from=projection", "--emit=grad_wq,grad_wk", "step.h5")
        self.kept(again, "si_adam_m", "si_adam_v", "si_adam_step", "skeleton_q")
        twice = self.made(*step, "made.h5")
        self.assertEqual(twice["si_adam_step"], 2)

    def test_the_other_verbs(self):
        self.made("attn-compute", "--from=projection", "--emit=out", "model.h5")
        self.made("basis-paths", "identify", "made.h5")
        values = self.made("basis-paths", "values", "made.h5")
        self.kept(values, "out", "basis_path", "basis_value")
        self.write("values.h5", **{name: values[name] for name in ("wq", "wk")})
        self.made("basis-paths", "values", "values.h5", name="values.h5")
        paths = self.made("basis-paths", "reconstruct", "--paths=0,1,2", "made.h5", name="paths.h5")
        self.kept(paths, "out", "basis_path", "basis_value", "path_value")
        weights = self.made("basis-paths", "reconstruct", "made.h5", name="weights.h5")
        self.dropped(weights, "attn-compute", "out")
        self.assertLessEqual({"basis_value", "wk_skeleton", "basis_path"}, set(weights))
        self.write("scale.h5", scale=np.full(3, 2, np.float32))
        scaled = self.made("basis-paths", "rescale", "-i", "scale=scale.h5", "paths.h5")
        self.dropped(scaled, "attn-compute", "out")
        # No scale changes the values of paths, which rebuild the rescaled weights.
        self.assertLessEqual({"basis_path", "basis_value", "path_value"}, set(scaled))
        again = self.made("basis-paths", "reconstruct", "made.h5", name="again.h5")
        np.testing.assert_allclose(again["wq"], scaled["wq"], rtol=1e-6)
        self.write("wq.h5", wq=self.normal(2, 5, 3))
        other = self.made("basis-paths", "rescale", "-i", "wq=wq.h5", "-i", "scale=scale.h5",
                          "values.h5", name="other.h5")
        self.dropped(other, "basis-paths", "basis_value")
        named = self.made("attn-compute", "--from=projection", "-i", "wq=wq.h5", "paths.h5")
        self.dropped(named, "basis-paths", "basis_value", "path_value", "wk_skeleton")


class Points(Stale):

    def test_other_points(self):
        points = ["mode-collapse-sim", "simulate", "--counts=5,4", "--centres=1,0;-1,0", "--steps=2"]
        self.made(*points, "--scheme=unas,dnas")
        # From the same points, which are read.
        more = self.made("mode-collapse-sim", "simulate", "--scheme=hnas", "--hybrid=0.5",
                         "--steps=1", "made.h5", name="more.h5")
        self.kept(more, "unas/centre", "dnas/centre", "hnas/centre")
        one = self.made("mode-collapse-sim", "simulate", "--scheme=unas", "--emit=modes", "more.h5",
                        name="one.h5")
        self.dropped(one, "mode-collapse-sim simulate", "unas/centre", "unas/centre_distance",
                     "unas/spread", "unas/trajectory")
        self.assertIn("hnas/centre", one)
        self.write("x.h5", x=self.normal(9, 2).astype(float))
        em = self.made("mode-collapse-sim", "em", "-i", "x=x.h5", "more.h5", name="em.h5")
        self.assertIn(NOT_COPIED + "dnas/centre, dnas/centre_distance, ", em.err)
        self.assertEqual(em.groups, ["em"])


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
