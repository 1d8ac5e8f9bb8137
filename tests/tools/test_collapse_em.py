"""mode-collapse-sim em, against NumPy."""

import json
import unittest

import numpy as np

from collapse import PAIR, UNBALANCED, CollapseTest


def likelihood(x, centres, prior, variance):
    """`variance` is one number, or one for each centre."""
    d = x.shape[1]
    squares = ((x[:, None] - centres[None])**2).sum(-1)
    joint = np.log(prior) - squares / (2 * variance) - d / 2 * np.log(2 * np.pi * variance)
    top = joint.max(1, keepdims=True)
    logs = top[:, 0] + np.log(np.exp(joint - top).sum(1))
    return logs.sum(), np.exp(joint - logs[:, None])


class Em(CollapseTest):

    def test_against_the_formulas(self):
        start = np.array([[1.0, 0.5], [-0.5, 0.0], [0.3, -1.0]])
        text = ";".join(",".join(map(str, row)) for row in start)
        for priors in ("fixed", "estimated", "dnas"):
            for estimated in (False, True):
                options = [f"--priors={priors}", "--steps=4", "--model-variance=0.7"]
                bundle = self.sim("em", *PAIR, "--variance=0.3", f"--start={text}", *options,
                                  *["--estimate-variance"] * estimated)
                x, centre, variance = bundle["x"], start, 0.7
                prior = np.full(3, 1 / 3)
                for step in range(5):
                    if priors == "dnas":
                        prior = np.exp(0.5 * (centre**2).sum(1) / variance)
                        prior /= prior.sum()
                    value, shares = likelihood(x, centre, prior, variance)
                    self.assert_near("centre", bundle["em/centre"][step], centre, 1e-11)
                    self.assert_near("prior", bundle["em/prior"][step], prior, 1e-11)
                    self.assert_near("variance", bundle["em/variance"][step], variance, 1e-11)
                    self.assert_near("likelihood", bundle["em/log_likelihood"][step], value,
                                     1e-11 * abs(value))
                    centre = shares.T @ x / shares.sum(0)[:, None]
                    if priors == "estimated":
                        prior = shares.mean(0)
                    if estimated:
                        squares = ((x[:, None] - centre[None])**2).sum(-1)
                        variance = (shares * squares).sum() / x.size

    def test_variances_of_components(self):
        start = np.array([[1.0, 0.5], [-0.5, 0.0], [0.3, -1.0]])
        text = ";".join(",".join(map(str, row)) for row in start)
        for priors in ("fixed", "estimated"):
            for more in (["--model-variance=0.7,0.4,1.1"],
                         ["--model-variance=0.7,0.4,1.1", "--estimate-variance=each"],
                         ["--model-variance=0.7", "--estimate-variance=each"]):
                bundle, result = self.sim("em", *PAIR, "--variance=0.3", f"--start={text}",
                                          f"--priors={priors}", "--steps=4", *more, json=True)
                self.assertEqual(bundle["em/variance"].shape, (5, 3))
                x, centre = bundle["x"], start
                variance = np.array([0.7, 0.4, 1.1] if "," in more[0] else [0.7] * 3)
                prior = np.full(3, 1 / 3)
                for step in range(5):
                    value, shares = likelihood(x, centre, prior, variance)
                    self.assert_near("centre", bundle["em/centre"][step], centre, 1e-11)
                    self.assert_near("prior", bundle["em/prior"][step], prior, 1e-11)
                    self.assert_near("variance", bundle["em/variance"][step], variance, 1e-11)
                    self.assert_near("likelihood", bundle["em/log_likelihood"][step], value,
                                     1e-11 * abs(value))
                    told = result["steps"][step]
                    found = bundle["em/variance"][step]
                    self.assertEqual([told["least_variance"]["median"],
                                      told["largest_variance"]["median"]],
                                     [found.min(), found.max()])
                    centre = shares.T @ x / shares.sum(0)[:, None]
                    if priors == "estimated":
                        prior = shares.mean(0)
                    if len(more) > 1:
                        squares = ((x[:, None] - centre[None])**2).sum(-1)
                        variance = (shares * squares).sum(0) / (2 * shares.sum(0))

    def test_variances_of_components_are_those_of_attn_compute(self):
        random = np.random.default_rng(12)
        x, start = random.normal(size=(70, 3)), random.normal(size=(5, 3))
        self.write("in.h5", x=x, start=start, q=start, k=x, v=x)
        for priors, estimate in (("fixed", "variance"), ("estimated", "variance,priors")):
            bundle = self.sim("em", "in.h5", "--steps=6", f"--priors={priors}", "--min-variance=0.01",
                              "--model-variance=0.5", "--estimate-variance=each")
            for times in (1, 2, 7):
                found = self.compute("in.h5", "--scheme=em", f"--iterations={times}", "-q", "--scale=2",
                                     "--energy=gaussian", f"--estimate={estimate}", "--min-variance=0.01",
                                     "--emit=centre,variance,prior", "--json=attn.json")
                for name in ("centre", "variance", "prior"):
                    np.testing.assert_array_equal(found[name], bundle["em/" + name][times - 1])
            told = json.loads((self.folder / "attn.json").read_text())
            self.assertEqual(told["result"]["log_likelihood_by_iteration"],
                             bundle["em/log_likelihood"].tolist())

    def test_variances_of_components_by_set(self):
        random = np.random.default_rng(13)
        self.write("in.h5", x=random.normal(size=(2, 20, 2)), start=random.normal(size=(2, 3, 2)))
        options = ["--steps=3", "--estimate-variance=each", "--priors=estimated"]
        whole = self.sim("em", "in.h5", *options)
        self.assertEqual(whole["em/variance"].shape, (2, 4, 3))
        for n in range(2):
            one = self.sim("em", "-i", f"x=in.h5:/x[{n}]", "-i", f"start=in.h5:/start[{n}]", *options)
            np.testing.assert_array_equal(one["em/variance"], whole["em/variance"][n])
        self.assert_same_bits(self.sim("em", "in.h5", *options, "--threads=3"), whole)

    def test_variances_that_do_not_fit(self):
        problem = ["em", *PAIR, "--start=1,1;-1,1"]
        for more, words in (
                (["--model-variance=1,2,3"], ["3 numbers", "2 components"]),
                (["--model-variance=1,2", "--estimate-variance"], ["--estimate-variance=each"]),
                (["--priors=dnas", "--estimate-variance=each"], ["--priors dnas", "one variance"]),
                (["--priors=dnas", "--model-variance=1,2"], ["--priors dnas", "one variance"]),
                (["--model-variance=1,1e-9", "--estimate-variance=each"], ["1e-09", "--min-variance"]),
                (["--model-variance=1,0"], ["--model-variance"]),
                (["--estimate-variance=all"], ["shared", "each"])):
            self.refused("mode-collapse-sim", *problem, *more, status=2, says=words)

    def test_the_likelihood_never_falls(self):
        for priors in ("fixed", "estimated"):
            for more in ([], ["--estimate-variance", "--min-variance=1e-3"],
                         ["--estimate-variance=each", "--min-variance=1e-3"]):
                for start in ([], ["--start=1,1;0,0;-1,2;5,5"]):
                    bundle, result = self.sim("em", *PAIR, f"--priors={priors}", "--seeds=10",
                                              "--steps=60", *more, *start, json=True)
                    values = bundle["em/log_likelihood"]
                    self.assertEqual(values.shape, (10, 61))
                    limit = 1e-10 * np.maximum(1, np.abs(values[:, :-1]))
                    self.assertTrue((np.diff(values) >= -limit).all())
                    self.assertIs(result["never_falls"], True)
                    self.assertEqual(result["falls"], 0)

    def test_the_likelihood_does_not_fall_far_from_the_origin(self):
        bundle, result = self.sim("em", "--counts=300,200", "--variance=1e-8",
                                  "--model-variance=1e-8", "--steps=40", "--seed=1",
                                  "--centres=1e8,0;100000000.0004,0",
                                  "--start=1e8,0;100000000.0003,0", json=True)
        self.assertIs(result["never_falls"], True)
        np.testing.assert_array_equal(bundle["em/centre"][0], [[1e8, 0], [100000000.0003, 0]])
        self.assert_near("centre", bundle["em/centre"][-1][:, 0], [1e8, 1e8 + 4e-4], 1e-4)

    def test_iterated_dnas_is_not_em(self):
        bundle, result = self.sim("em", "--counts=225,225", *UNBALANCED[1:], "--priors=dnas",
                                  "--seeds=3", "--steps=12", json=True)
        self.assertLessEqual(result["dnas_error"], 1)
        values = bundle["em/log_likelihood"]
        falls = np.diff(values).min()
        self.assertLess(falls, -0.1)
        self.assertIs(result["never_falls"], False)
        self.assertAlmostEqual(result["largest_fall"], -falls, delta=1e-9 * abs(values).max())

    def test_a_step_with_priors_of_dnas_is_dnas(self):
        for variance in (0.5, 1, 2.0):
            bundle = self.sim("em", *PAIR, "--priors=dnas", f"--model-variance={variance}",
                              "--steps=1")
            self.write("x.h5", q=bundle["x"], k=bundle["x"], v=bundle["x"])
            out = self.compute("x.h5", "--scheme=dnas", "--energy=dot", f"--scale={1 / variance}",
                               "-q")["out"]
            self.assert_near("dnas", bundle["em/centre"][1], out, 1e-12 * np.abs(out).max())
            step = self.sim("simulate", *PAIR, f"--scale={1 / variance}", "--steps=1")
            self.assert_near("simulate", bundle["em/centre"][1], step["dnas/trajectory"][1],
                             1e-12 * np.abs(out).max())

    def test_start_and_points_from_elsewhere(self):
        random = np.random.default_rng(5)
        x = random.normal(size=(3, 20, 2))
        self.write("in.h5", x=x, start=x[0, :4], unrelated=np.arange(2))
        bundle = self.sim("em", "in.h5", "--steps=2")
        self.assertEqual(bundle["em/centre"].shape, (3, 3, 4, 2))
        np.testing.assert_array_equal(bundle["em/centre"][2, 0], x[0, :4])
        self.write("own.h5", x=x, start=x[:, :4])
        np.testing.assert_array_equal(self.sim("em", "own.h5", "--steps=1")["em/centre"][2, 0],
                                      x[2, :4])

    def test_floor_of_the_variance(self):
        done = self.run_tool("mode-collapse-sim", "em", "--counts=3,4", "--centres=1;-1",
                             "--variance=0", "--start=0.9;-0.8", "--estimate-variance",
                             "--model-variance=0.5", "--min-variance=1e-4", "-o", "em.h5",
                             "--json=em.json")
        self.assertIn("--min-variance", done.err)
        bundle = self.read("em.h5")
        self.assertEqual(bundle["em/variance"][-1], 1e-4)
        self.assert_near("centre", bundle["em/centre"][-1], [[1], [-1]], 1e-15)
        self.assertTrue((np.diff(bundle["em/log_likelihood"]) >= -1e-9).all())

    def test_bits_do_not_depend_on_threads(self):
        options = [*PAIR, "--seeds=3", "--steps=3", "--estimate-variance", "--priors=estimated"]
        whole = self.sim("em", *options)
        for more in (["--threads=1"], ["--threads=2"], ["--threads=5"], ["--memory=2M"]):
            self.assert_same_bits(self.sim("em", *options, *more), whole)


if __name__ == "__main__":
    unittest.main()
