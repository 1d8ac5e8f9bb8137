"""mode-collapse-sim: closed forms, and clusters that attend to each other, against NumPy."""

import math
import unittest

import numpy as np

from collapse import PAIR, UNBALANCED, CollapseTest, attention


def closed_forms(r, a):
    s = np.exp(-2 * a**2)
    q = (r + s) / (r * s + 1)
    unas = 2 * r * (1 - s**2) * a / ((1 + r * s) * (r + s))
    return unas, 2 * q * r * (1 - s**2) * a / ((q + r * s) * (r + s * q))


class Curve(CollapseTest):

    def test_known_values(self):
        bundle = self.sim("curve", "--r=1:10:2", "--a=1")
        np.testing.assert_array_equal(bundle["r"], [1, 10])
        np.testing.assert_array_equal(bundle["a"], [1])
        self.assert_near("unas", bundle["unas_distance"],
                         [[1.52318831191153, 0.823145680143430]], 1e-13)
        self.assert_near("dnas", bundle["dnas_distance"],
                         [[1.52318831191153, 1.411642138288099]], 1e-13)
        self.assertEqual(bundle.labels["gap"], ["a", "r"])

    def test_grid(self):
        bundle, result = self.sim("curve", "--r=1e-4:1e4:161", "--a=0.3,1,2.5", json=True)
        r, a = bundle["r"], bundle["a"]
        np.testing.assert_allclose(r, np.logspace(-4, 4, 161), rtol=1e-14)
        unas, dnas = closed_forms(r, a[:, None])
        self.assert_near("unas", bundle["unas_distance"], unas, 1e-13 * unas)
        self.assert_near("dnas", bundle["dnas_distance"], dnas, 1e-13 * dnas)
        self.assert_near("gap", bundle["gap"], dnas - unas, 1e-14 * dnas + 1e-12 * (dnas - unas))
        self.assertTrue((bundle["dnas_distance"] >= bundle["unas_distance"] * (1 - 1e-15)).all())
        mirrored = bundle["unas_distance"][:, ::-1]
        self.assert_near("mirrored", bundle["unas_distance"], mirrored, 1e-13 * mirrored)
        self.assertIs(result["holds"], True)
        for row, curve in enumerate(result["curves"]):
            self.assertIs(curve["holds"], True)
            self.assertGreaterEqual(curve["least_difference_ulps"], -4)
            self.assertLessEqual(curve["asymmetry"], 32 * np.finfo(float).eps)
            self.assertEqual(curve["grid_peak"]["gap"], bundle["gap"][row].max())

    def test_asymmetry_uses_other_formulas(self):
        for grid in ("1:1e6:500", "1e-300:1e300:500", "1e-6:1:500"):
            _, result = self.sim("curve", f"--r={grid}", "--a=0.001,0.5,1,30,1e100", json=True)
            self.assertIs(result["holds"], True)
            for curve in result["curves"][:3]:  # they round differently
                self.assertGreater(curve["asymmetry"], 0)

    def test_where_the_gap_peaks(self):
        _, result = self.sim("curve", "--a=0.5,1,2,20", json=True)
        peaks = [curve["peak"] for curve in result["curves"]]
        for peak, r in zip(peaks, (7.1, 26.8, 1.6e5)):
            self.assertLess(abs(peak["r"] / r - 1), 0.02)
            self.assertAlmostEqual(peak["log10_r"], math.log10(peak["r"]), delta=1e-12)
        self.assertIsNone(peaks[3]["r"])  # beyond float64
        self.assertAlmostEqual(peaks[3]["log10_r"], 1200 / math.log(10), delta=1e-9)

    def test_any_size_with_any_memory(self):
        whole = self.sim("curve", "--r=1:1e6:20001", "--a=1,2")
        for option in ("--memory=4K", "--threads=1", "--threads=3"):
            self.assert_same_bits(self.sim("curve", "--r=1:1e6:20001", "--a=1,2", option), whole)
        one = self.sim("curve", "--r=7:7:1", "--a=1")
        self.assertEqual(one["gap"].shape, (1, 1))


class Simulate(CollapseTest):

    def test_points_are_those_of_tensor_gen(self):
        for spread in (["--variance=0.1,0.4"], ["--diagonal=0.1,0.4;2,0"],
                       ["--covariance=0.5,0.2;0.2,0.3"]):
            for kind in ("f64", "f32"):
                made = self.run_tool("tensor-gen", "clusters", "x=42x2", *PAIR, *spread, "--seed=7",
                                     f"--dtype={kind}", "-q").bundle()
                bundle = self.sim("simulate", *PAIR, *spread, "--seed=7", f"--precision={kind}")
                self.assert_same_bits(bundle, made, ["x", "label"])

    def test_trajectories(self):
        for energy, options, residual in (("dot", [], False), ("gaussian", ["--scale=1.7"], True)):
            arguments = ["--scheme=unas,dnas,hnas", "--hybrid=0.4", "--steps=3",
                         f"--energy={energy}", *options, *["--residual"] * residual]
            bundle = self.sim("simulate", *PAIR, "--variance=0.1", *arguments)
            for scheme in ("unas", "dnas", "hnas"):
                found = bundle[f"{scheme}/trajectory"]
                self.assertEqual(found.shape, (4, 42, 2))
                np.testing.assert_array_equal(found[0], bundle["x"])
                for before, after in zip(found, found[1:]):
                    scale = 1.7 if options else 1.0
                    expected = attention(before, scheme, energy, scale, 0.4) + residual * before
                    self.assert_near(scheme, after, expected, 1e-12 * np.abs(expected).max())
                self.check_statistics(bundle, scheme)

    def check_statistics(self, bundle, scheme, width=1.0):
        x, label = bundle[f"{scheme}/trajectory"], bundle["label"]
        groups = [x[:, label == c] for c in np.unique(label)]
        centres = np.stack([g.mean(1) for g in groups], 1)
        spread = np.stack([np.sqrt(((g - g.mean(1, keepdims=True))**2).sum(-1).mean(1))
                           for g in groups], 1)
        between = np.sqrt(((centres[:, :, None] - centres[:, None])**2).sum(-1))
        similar = np.exp(-0.5 * (between / width)**2).mean(-1)
        self.assert_near("centre", bundle[f"{scheme}/centre"], centres, 1e-13)
        self.assert_near("spread", bundle[f"{scheme}/spread"], spread, 1e-13)
        distance = between[:, 0, 1] if len(groups) == 2 else between
        self.assert_near("distance", bundle[f"{scheme}/centre_distance"], distance, 1e-13)
        modes = np.exp(-np.log(similar).mean(-1))
        self.assert_near("modes", bundle[f"{scheme}/modes"], modes, 1e-12)

    def test_several_clusters_in_several_dimensions(self):
        bundle, result = self.sim("simulate", "--centres=1,0,0;0,1,0;0,0,1;-1,-1,-1",
                                  "--counts=9,1,30,4", "--variance=0.01", "--steps=2",
                                  "--width=0.5", json=True)
        self.assertEqual(bundle["unas/centre_distance"].shape, (3, 4, 4))
        for scheme in ("unas", "dnas"):
            self.check_statistics(bundle, scheme, 0.5)
            distances = bundle[f"{scheme}/centre_distance"]
            for step, told in zip(distances, result["schemes"][scheme]["steps"]):
                least = step[~np.eye(4, dtype=bool)].min()
                self.assertEqual(told["centre_distance"]["median"], least)
        self.assertEqual((result["clusters"], result["labels"]), (4, [0, 1, 2, 3]))

    def test_clusters_very_far_apart_and_very_near(self):
        for size, scale in ((0.99e154, 0.1), (1e-170, 1)):
            bundle, result = self.sim("simulate", "--counts=5,5", f"--centres={size};-{size}",
                                      "--variance=0", f"--scale={scale}", "--steps=1", json=True)
            self.assertEqual(bundle["unas/centre_distance"][0], 2 * size)
            told = result["schemes"]["unas"]["steps"][0]["centre_distance"]
            self.assertEqual(told["median"], 2 * size)
        self.refused("mode-collapse-sim", "simulate", "--counts=5,5", "--centres=1.7e308;-1.7e308",
                     "--variance=0", "--scale=0", "--steps=1", status=4, says=["seed 0, unas, step 0"])

    def test_one_cluster(self):
        bundle, result = self.sim("simulate", "--centres=1", "--counts=3", "--steps=1", json=True)
        self.assertEqual(bundle["dnas/centre_distance"].shape, (2, 1, 1))
        np.testing.assert_array_equal(bundle["dnas/modes"], [1, 1])
        self.assertIsNone(result["schemes"]["unas"]["steps"][0]["centre_distance"]["median"])
        done = self.run_tool("mode-collapse-sim", "simulate", "--centres=1", "--counts=3", "-o",
                             "one.h5")
        self.assertIn("1 cluster, 4 steps", done.err)
        self.assertNotIn("nan", done.err)

    def test_point_masses_give_the_closed_form(self):
        for above, below in ((1, 1), (10, 1), (1, 10), (500, 50)):
            for a in (0.5, 1.0, 2.0):
                for energy in ("dot", "gaussian"):
                    bundle = self.sim("simulate", f"--centres={a};{-a}", "--variance=0",
                                      f"--counts={above},{below}", f"--energy={energy}",
                                      "--steps=1")
                    unas, dnas = closed_forms(above / below, a)
                    self.assert_near("unas", bundle["unas/centre_distance"], [2 * a, unas], 1e-12)
                    self.assert_near("dnas", bundle["dnas/centre_distance"], [2 * a, dnas], 1e-12)

    def test_unbalanced_clusters_merge_only_under_unas(self):
        bundle, result = self.sim("simulate", *UNBALANCED, "--seeds=100", "--steps=5",
                                  "--emit=centre_distance", json=True)
        unas, dnas = bundle["unas/centre_distance"], bundle["dnas/centre_distance"]
        self.assertEqual(unas.shape, (100, 6))
        self.assertGreaterEqual((unas[:, 4] < 0.1).sum(), 80)
        self.assertTrue((unas[:, 5] < 0.1).all())
        self.assertTrue((dnas[:, 4] > 2.8).all())
        steps = result["schemes"]["unas"]["steps"]
        self.assertEqual(steps[4]["merged"], (unas[:, 4] < 0.1).sum())
        self.assertEqual(steps[4]["centre_distance"]["median"], np.median(unas[:, 4]))
        self.assertEqual(result["schemes"]["dnas"]["steps"][4]["merged"], 0)

    def test_balanced_clusters_stay_apart(self):
        balanced = ["--counts=225,225", *UNBALANCED[1:], "--seeds=100", "--emit=centre_distance"]
        bundle = self.sim("simulate", *balanced)
        self.assertTrue((bundle["unas/centre_distance"][:, 4] > 2.7).all())
        self.assertTrue((bundle["dnas/centre_distance"][:, 4] > 2.7).all())

    def test_at_a_larger_variance_dnas_merges(self):
        for variance in (0.5, 1):
            bundle = self.sim("simulate", *UNBALANCED[:2], f"--variance={variance}", "--seeds=20",
                              "--steps=6", "--emit=centre_distance")
            self.assertLess(np.median(bundle["dnas/centre_distance"][:, 6]), 0.1)
            self.assertGreater(np.median(bundle["unas/centre_distance"][:, 6]), 1)

    def test_seeds_are_sets_of_their_own(self):
        options = [*PAIR, "--steps=2"]
        many = self.sim("simulate", *options, "--seed=5", "--seeds=3")
        for n in range(3):
            one = self.sim("simulate", *options, f"--seed={5 + n}")
            for name in one:
                part = many[name] if name == "label" else many[name][n]
                np.testing.assert_array_equal(part, one[name], name)
        self.assertEqual(many.labels["x"], ["seed", "point", "dimension"])


if __name__ == "__main__":
    unittest.main()
