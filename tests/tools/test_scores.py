"""attn-compute --emit scores,energies against the formulas in NumPy's long double."""

import unittest

import numpy as np

import formulas
from attn import ToolTest
from formulas import FORBIDDEN
from problems import Problem, long


class ScoreResults(ToolTest):

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(23)

    def normal(self, *shape):
        return self.random.normal(size=shape).astype(np.float32).astype(np.float64)

    def vectors(self, heads=2, groups=2, queries=5, keys=6, depth=3):
        return {"q": self.normal(heads, queries, depth), "k": self.normal(groups, keys, depth)}

    def emitted(self, name, *options, **more):
        return self.compute(name, "-q", "--only", "--emit=scores,energies", *options, **more)

    def near(self, problem, data, options=(), name="in.h5"):
        """Checks both results in both precisions; returns those in float32."""
        self.write(name, **data)
        exact = {"scores": problem.scores(long(data)),
                 "energies": problem.scaled_energies(long(data))}
        size = np.abs(exact["energies"]).max(initial=1)
        for precision, bits in (("f64", 53), ("f32", 24)):
            found = self.emitted(name, f"--precision={precision}", *problem.options(), *options)
            self.assertEqual(sorted(found), ["energies", "scores"])
            for result, values in exact.items():
                # A few roundings for each product of a sum, the scale, the cap and the biases.
                self.assert_near(f"{result} {problem.options()} {precision}", found[result], values,
                                 64 * 2.0**-bits * size)
        return found

    def test_every_term(self):
        for energy, weights in (("scaled-dot", {}), ("dot", {}), ("gaussian", {}),
                                ("bilinear", {"w": self.normal(3, 3)}),
                                ("mlp", {"w1": self.normal(4, 6), "w2": self.normal(4),
                                         "b1": self.normal(4)})):
            with self.subTest(energy=energy):
                self.near(Problem("unas", energy, 0.7), self.vectors() | weights)
        mask = self.random.random((2, 5, 6)) < 0.7
        mask[0, 2] = False
        bias = self.normal(5, 6)
        bias[1, 2] = -np.inf
        for problem, more in (
                (Problem(softcap=0.8), {"bias": bias, "mask": mask}),
                (Problem("dnas", causal="top-left"), {"bias": self.normal(2, 1, 6)}),
                (Problem(causal="bottom-right", window=2), {}),
                (Problem(relative="t5"), {"rel_bias": self.normal(32, 2)}),
                (Problem("dnas", relative="alibi", causal="top-left"), {}),
                (Problem("fenchel", "dot", alpha=1.7),
                 {"preference": np.abs(self.normal(5, 6)) * (bias > -1)})):
            with self.subTest(options=problem.options()):
                self.near(problem, self.vectors() | more)

    def test_sizes(self):
        # One past the tile of 256 queries and 512 keys, and single pairs.
        for queries, keys in ((257, 513), (1, 1), (1, 700), (300, 1)):
            with self.subTest(queries=queries, keys=keys):
                self.near(Problem(causal="top-left"),
                          self.vectors(queries=queries, keys=keys, heads=4, groups=2))
        alone = {n: a[0] for n, a in self.vectors().items()}
        self.near(Problem(), alone)

    def test_axes(self):
        data = {"q": self.normal(2, 5, 4, 3), "k": self.normal(2, 6, 2, 3)}
        found = self.near(Problem(inside=True), data)
        self.assertEqual(found["scores"].shape, (2, 4, 5, 6))
        self.assertEqual(found.labels["scores"], ["", "head", "query", "key"])
        data = {"x": self.normal(2, 4, 3), "y": self.normal(2, 5, 3), "wq": self.normal(2, 3, 2),
                "wk": self.normal(2, 3, 2), "bq": self.normal(2, 2)}
        self.near(Problem(), data, ["--from=projection"])

    def test_padding(self):
        """Padded pairs are not allowed, have no energy, and are never looked at."""
        data = {n: a[None].repeat(3, 0) for n, a in self.vectors().items()}
        lengths = {"query_length": np.array([5, 2, 0]), "key_length": np.array([6, 4, 3])}
        for b in range(3):
            data["q"][b, :, lengths["query_length"][b]:] = np.nan
            data["k"][b, :, lengths["key_length"][b]:] = np.nan
        self.write("in.h5", **data, **lengths)
        found = self.emitted("in.h5", "--causal=bottom-right")
        for b in range(3):
            queries, keys = lengths["query_length"][b], lengths["key_length"][b]
            own = np.zeros((2, 5, 6), bool)
            own[:, :queries, :keys] = True
            self.assertTrue((found["scores"][b][~own] == FORBIDDEN).all())
            self.assertTrue((found["energies"][b][~own] == 0).all())
            if queries == 0:
                continue
            self.write("alone.h5", q=data["q"][b, :, :queries], k=data["k"][b, :, :keys])
            alone = self.emitted("alone.h5", "--causal=bottom-right")
            for name, values in alone.items():
                self.assertEqual(found[name][b, :, :queries, :keys].tobytes(), values.tobytes())

    def test_chosen_queries(self):
        self.write("in.h5", **self.vectors(queries=600, keys=600), bias=self.normal(600, 600))
        whole = self.emitted("in.h5", "--causal")
        some = self.emitted("in.h5", "--causal", "--queries=3,250:260,-1")
        rows = [3, *range(250, 260), 599]
        self.assertEqual(some["queries"].tolist(), rows)
        for name, values in whole.items():
            np.testing.assert_array_equal(some[name], values[:, rows])

    def test_threads_memory_and_groups(self):
        data = {n: a.astype(np.float32) for n, a in self.vectors(4, 2, 700, 1100, 16).items()}
        self.write("in.h5", **data)
        one = self.emitted("in.h5", "--scheme=dnas", "--threads=1")
        for more in (["--threads=2"], ["--threads=3", "--memory=12M"]):
            self.assert_same_bits(self.emitted("in.h5", "--scheme=dnas", *more), one)
        small = self.vectors()
        self.write("both.h5", **{f"{g}__{n}": a for g in "ab" for n, a in small.items()})
        self.write("in.h5", **small)
        alone, both = self.emitted("in.h5"), self.emitted("both.h5", "--each=*")
        for group in "ab":
            for name, values in alone.items():
                np.testing.assert_array_equal(both[f"{group}/{name}"], values)

    def test_weights_follow_from_scores(self):
        """The scores that a run writes give the same attention when a run reads them."""
        data = self.vectors() | {"v": self.normal(2, 6, 2), "bias": self.normal(5, 6)}
        self.write("in.h5", **data)
        made = self.compute("in.h5", "-q", "--only", "--causal=top-left",
                            "--emit=scores,out")
        weights = np.exp(made["scores"] - formulas.log_sum_exp(made["scores"], -1)[..., None])
        self.assert_near("out", weights @ data["v"], made["out"], 1e-12)
        self.shell("attn-compute -q --causal=top-left --emit scores in.h5 -o scores.h5")
        again = self.compute("-iscores=scores.h5:/scores", "-iv=in.h5:/v", "-q", "--only",
                             "--from=scores", "--emit=out")
        self.assert_near("out", again["out"], made["out"], 1e-12)
        # energies are what the bias is still to be added to.
        self.shell("attn-compute -q --causal=top-left --emit energies in.h5 -o energies.h5")
        again = self.compute("-q", "--only", "--from=scores", "--map=scores=energies",
                             "--causal=top-left", "--emit=out", "energies.h5")
        self.assert_near("out", again["out"], made["out"], 1e-12)

    def test_reports_add_no_term_twice(self):
        """Scale, cap and relative bias of the run that wrote scores are in them."""
        data = self.vectors(2, 2, 5, 5) | {"rel_bias": self.normal(32, 2)}
        self.write("in.h5", **data)
        for options in (["--scale=3"], ["--softcap=0.5"], ["--relative-bias=alibi"],
                        ["--relative-bias=t5"], ["--scale=2", "--softcap=1", "--causal=top-left"]):
            with self.subTest(options=options):
                self.run_tool("attn-compute", "in.h5", *options, "--emit=scores", "-o", "made.h5",
                              "--force")
                exact = self.stats("in.h5", *options, "--scheme=unas,dnas")
                found = self.stats("made.h5", "--from=scores", "--scheme=unas,dnas")
                for scheme in ("unas", "dnas"):
                    for one, other in zip(found[scheme]["heads"], exact[scheme]["heads"],
                                          strict=True):
                        self.assert_near("c", [one["col_sum"]["min"], one["row_entropy"]["mean"]],
                                         [other["col_sum"]["min"], other["row_entropy"]["mean"]],
                                         1e-6)
        # Scores that no tool wrote have the recorded scale still to come, and so has any option.
        self.write("own.h5", {"attn_scale": 2.0, "attn_source": "scores"}, scores=self.normal(4, 5))
        self.write("twice.h5", scores=2 * self.read("own.h5")["scores"])
        self.assertEqual(self.stats("own.h5", "--scheme=unas")["unas"],
                         self.stats("twice.h5", "--from=scores", "--scheme=unas")["unas"])

    def test_refused(self):
        data = self.vectors() | {"v": self.normal(2, 6, 2), "bias": self.normal(5, 6)}
        self.write("in.h5", **data)
        self.shell("attn-compute -q --emit scores in.h5 -o scores.h5")
        self.refused("attn-compute", "scores.h5", "--from=scores", status=2,
                     says=["scores.h5:/scores contains scores.h5:/bias already"],
                     hint="-i scores=FILE:/scores")
        self.write("ready.h5", scores=self.normal(2, 5, 6))
        self.refused("attn-compute", "ready.h5", "--from=scores", "--emit=scores", status=2,
                     says=["--emit scores would replace the dataset scores"], hint="--only")
        self.compute("ready.h5", "-q", "--only", "--from=scores", "--emit=scores", "--scale=2")
        # Beyond the range of float32, for a pair that is forbidden as well.
        huge = {"q": np.full((2, 2), 3e20, np.float32), "k": np.full((3, 2), 3e20, np.float32),
                "mask": np.array([[0, 0, 0], [0, 0, 1]], bool)}
        huge["k"][2] = 0
        self.write("huge.h5", **huge)
        self.refused("attn-compute", "huge.h5", "--emit=energies", "--precision=f32", status=4,
                     says=["the energy of query 0 and key 0 is beyond the range of float32"],
                     hint="--precision f64")

    def test_copied_with_their_run(self):
        self.write("in.h5", **self.vectors())
        self.shell("attn-compute -q --emit scores,energies in.h5 -o made.h5")
        self.assertIn("scores", self.compute("-q", "made.h5"))
        again = self.run_tool("attn-compute", "--scale=2", "made.h5")
        self.assertNotIn("scores", again.bundle())
        self.assertIn("not copied, because this run makes them outdated: energies, scores",
                      again.err)
        # Scores that no tool wrote are an input, which stays.
        self.write("own.h5", **self.vectors(), scores=self.normal(3, 3))
        self.shell("attn-compute -q own.h5 -o made.h5 --force")
        self.assertIn("scores", self.compute("-q", "--scale=2", "made.h5"))

    def test_dry_run(self):
        self.write("in.h5", **{n: a.astype(np.float32)
                               for n, a in self.vectors(2, 2, 50, 60).items()})
        cost = self.run_tool("attn-compute", "in.h5", "--dry-run", "--json",
                             "--emit=scores,energies").json()["result"]
        self.assertEqual(cost["result_bytes"], 2 * 2 * 50 * 60 * 4)


if __name__ == "__main__":
    unittest.main()
