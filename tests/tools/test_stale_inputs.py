"""Results of other inputs are removed, be they vectors, weights or points, and the user's are kept."""

import unittest

import numpy as np

from stale import NOT_COPIED, Stale


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


if __name__ == "__main__":
    unittest.main()
