"""mode-collapse-sim: closed forms, clusters that attend to each other, and EM, against NumPy."""

import importlib.util
import json
import math
import sys
import unittest

import numpy as np

from attn import SANITIZED, SOURCE, ToolTest

UNBALANCED = ["--counts=500,50", "--centres=1.8,0.7;-1,-1", "--variance=0.1"]
PAIR = ["--centres=1.8,0.7;-1,-1", "--counts=30,12"]


def closed_forms(r, a):
    s = np.exp(-2 * a**2)
    q = (r + s) / (r * s + 1)
    unas = 2 * r * (1 - s**2) * a / ((1 + r * s) * (r + s))
    return unas, 2 * q * r * (1 - s**2) * a / ((q + r * s) * (r + s * q))


def attention(x, scheme, energy, scale=1.0, hybrid=0.0):
    """One step of self-attention by whole matrices."""
    if energy == "dot":
        scores = x @ x.T
    else:
        scores = -0.5 * ((x[:, None] - x[None])**2).sum(-1)
    e = np.exp(scale * scores - (scale * scores).max())
    unas = e / e.sum(1, keepdims=True)
    columns = e / e.sum(0)
    dnas = columns / columns.sum(1, keepdims=True)
    weights = {"unas": unas, "dnas": dnas, "hnas": hybrid * dnas + (1 - hybrid) * unas}[scheme]
    return weights @ x


def likelihood(x, centres, prior, variance):
    d = x.shape[1]
    squares = ((x[:, None] - centres[None])**2).sum(-1)
    joint = np.log(prior) - squares / (2 * variance) - d / 2 * np.log(2 * np.pi * variance)
    top = joint.max(1, keepdims=True)
    logs = top[:, 0] + np.log(np.exp(joint - top).sum(1))
    return logs.sum(), np.exp(joint - logs[:, None])


class CollapseTest(ToolTest):

    def sim(self, *arguments, json=False, **more):
        """The bundle; with `json` also the result."""
        if not json:
            return self.run_tool("mode-collapse-sim", *arguments, "-q", **more).bundle()
        done = self.run_tool("mode-collapse-sim", *arguments, "-o", "sim.h5", "--force", "--json",
                             **more)
        return self.read("sim.h5"), done.json()["result"]


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

    def test_bits_depend_on_neither_threads_nor_memory(self):
        options = [*PAIR, "--seeds=5", "--steps=2", "--scheme=unas,dnas,hnas,sinkhorn",
                   "--hybrid=0.5", "--iterations=3"]
        environment = {"SOURCE_DATE_EPOCH": "1"}
        whole = self.sim("simulate", *options)
        for more in (["--threads=1"], ["--threads=2"], ["--threads=7"], ["--memory=2M"],
                     ["--compress=gzip"]):
            self.assert_same_bits(self.sim("simulate", *options, *more), whole)
        files = [self.run_tool("mode-collapse-sim", "simulate", *options, "-q",
                               environment=environment).out for _ in range(3)]
        self.assertEqual(len(set(files)), 1)

    def test_points_from_elsewhere(self):
        random = np.random.default_rng(3)
        x = random.normal(size=(2, 3, 20, 4)).astype(np.float32)
        label = np.tile([7, -2], 10)
        self.write("in.h5", x=x, label=label, other=np.arange(3))
        bundle, result = self.sim("simulate", "in.h5", "--steps=1", json=True)
        self.assertEqual(result["labels"], [-2, 7])
        self.assertEqual(bundle["unas/trajectory"].dtype, np.float32)
        self.assertEqual(bundle["unas/trajectory"].shape, (2, 3, 2, 20, 4))
        np.testing.assert_array_equal(bundle["other"], np.arange(3))
        expected = attention(x[1, 2].astype(float), "dnas", "dot")
        self.assert_near("dnas", bundle["dnas/trajectory"][1, 2, 1], expected,
                         3e-5 * np.abs(expected).max())
        double = self.sim("simulate", "in.h5", "--steps=1", "--precision=f64")
        self.assert_near("f64", double["dnas/trajectory"][1, 2, 1], expected, 1e-12)
        by_set = np.broadcast_to(label, (2, 3, 20))
        self.write("sets.h5", x=x, label=by_set)
        self.assert_same_bits(self.sim("simulate", "sets.h5", "--steps=1", "--only"), bundle,
                              ["unas/centre", "dnas/centre", "unas/spread"])

    def test_arrays_of_numpy(self):
        random = np.random.default_rng(4)
        x, label = random.normal(size=(30, 2)), np.arange(30) % 3
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "label.npy", label)
        self.write("in.h5", x=x, label=label)
        bundle = self.sim("simulate", "-i", "x=x.npy", "-i", "label=label.npy", "--energy=gaussian")
        self.assert_same_bits(bundle, self.sim("simulate", "in.h5", "--energy=gaussian"))

    def test_a_long_run(self):
        done = self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--steps=1000", "--scheme=unas",
                             "--energy=gaussian", "--emit=modes", "-o", "s.h5", "--json=s.json")
        told = json.loads((self.folder / "s.json").read_text())
        self.assertEqual(len(told["result"]["schemes"]["unas"]["steps"]), 1001)
        self.assertEqual((told["params"]["steps"], told["params"]["precision"]), (1000, "f64"))
        self.assertLess(done.out.count(b"\n"), 50)
        self.assertRegex(done.out.decode(), r"(?m)^ +1000 ")

    def test_a_second_run_replaces_the_first(self):
        self.sim("simulate", *PAIR, "--steps=3", json=True)
        again = self.sim("simulate", "sim.h5", "--steps=1", "--emit=modes")
        self.assertEqual(sorted(again), ["dnas/modes", "label", "unas/modes", "x"])
        self.assertEqual(again.attributes_of["dnas"]["attn_scheme"], "dnas")
        self.assertEqual(again.attributes["history"].count("mode-collapse-sim simulate"), 2)

    def test_sinkhorn_that_does_not_converge(self):
        done = self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--scheme=sinkhorn",
                             "--iterations=1", "--tolerance=1e-14", "-o", "s.h5", "--json=r.json",
                             status=1)
        self.assertIn("did not converge", done.err)
        attributes = self.read("s.h5").attributes_of["sinkhorn"]
        self.assertEqual(attributes["attn_status"], "not_converged")
        self.assertEqual(attributes["attn_tolerance"], 1e-14)
        self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--scheme=sinkhorn", "--steps=1",
                      "-o", "usual.h5")
        usual = self.read("usual.h5").attributes_of["sinkhorn"]
        self.assertEqual(usual["attn_tolerance"], 1e-10)

    def test_table(self):
        done = self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--seeds=4", "-o", "s.h5")
        self.assertRegex(done.out.decode(), r"(?m)^unas +0 +3\.\d+ .* 0$")
        self.assertRegex(done.err, r"(?m)^mode-collapse-sim: points 4 x 42 x 2, 2 clusters, 4 steps")

    def test_never_reads_standard_input(self):
        with open("/dev/zero", "rb") as endless:
            self.run_tool("mode-collapse-sim", "curve", "-o", "c.h5", stdin=endless)
            self.run_tool("mode-collapse-sim", "simulate", *PAIR, "-o", "s.h5", stdin=endless)

    def test_dry_run(self):
        done = self.run_tool("mode-collapse-sim", "simulate", *PAIR, "--seeds=3", "--dry-run",
                             "--json")
        told = done.json()["result"]
        bundle = self.sim("simulate", *PAIR, "--seeds=3")
        self.assertEqual(told["result_bytes"], sum(a.nbytes for a in bundle.values()))
        self.run_tool("mode-collapse-sim", "curve", "--dry-run")
        em = self.run_tool("mode-collapse-sim", "em", *PAIR, "--dry-run", "--json").json()["result"]
        bundle = self.sim("em", *PAIR)
        self.assertEqual(em["result_bytes"], sum(a.nbytes for a in bundle.values()))


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

    def test_the_likelihood_never_falls(self):
        for priors in ("fixed", "estimated"):
            for more in ([], ["--estimate-variance", "--min-variance=1e-3"]):
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


@unittest.skipIf(importlib.util.find_spec("matplotlib") is None, "matplotlib is not there")
@unittest.skipIf(SANITIZED, "runs the tool 52 times as other tests do")
class Phases(CollapseTest):

    def test_table_and_picture(self):
        done = self.shell(f"{sys.executable} {SOURCE}/scripts/collapse-phases --seeds 3 --steps 4 "
                          "-o phases 2>&1")
        folder = self.folder / "phases"
        self.assertEqual((folder / "phases.png").read_bytes()[:4], b"\x89PNG")
        lines = (folder / "phases.tsv").read_text().splitlines()
        rows = [dict(zip(lines[0].split("\t"), line.split("\t"))) for line in lines[1:]]
        self.assertEqual(len(rows), 2 * 2 * 13 * 2 * 5)
        bundle = self.sim("simulate", *UNBALANCED, "--seeds=3")
        for row in rows:
            if (row["energy"], row["balance"], row["variance"]) != ("dot", "unbalanced", "0.1"):
                continue
            distances = bundle[f"{row['scheme']}/centre_distance"][:, int(row["step"])]
            self.assertEqual(float(row["median_distance"]), np.median(distances))
            self.assertEqual(int(row["merged"]), (distances < 0.1).sum())
        self.assertIn("dot, unbalanced", done.out.decode())

    def test_a_folder_that_cannot_be_made(self):
        (self.folder / "file").write_text("")
        done = self.shell(f"! {sys.executable} {SOURCE}/scripts/collapse-phases -o file/phases 2>&1")
        self.assertIn("collapse-phases: error: file/phases/runs", done.out.decode())
        self.assertNotIn("Traceback", done.out.decode())


class Refused(CollapseTest):

    def test_usage(self):
        sim, em = ["simulate", *PAIR], ["em", *PAIR]
        for arguments, says in (
            ([], "curve, simulate, em"), (["walk"], "curve, simulate, em"),
            (["curve", "--r=1:10"], "LO:HI:N"), (["curve", "--r=10:1:5"], "LO <= HI"),
            (["curve", "--r=0:1:5"], "LO <= HI"), (["curve", "--r=1:2:0"], "N in"),
            (["curve", "--r=1:2:1"], "LO = HI"), (["curve", "--r=nan:2:3"], "LO:HI:N"),
            (["curve", "--a=0"], "--a"), (["curve", "--a=1e101"], "--a"),
            (["curve", "in.h5"], "in.h5"), (["curve", "--steps=3"], "--steps"),
            (["simulate"], "--centres"), (["simulate", "--centres=1;2"], "--counts"),
            (["simulate", "--centres=1;2", "--counts=1,2,3"], "--counts"),
            (["simulate", "--centres=1;2", "--counts=1,0"], "--counts"),
            ([*sim, "--variance=1,2,3"], "--variance"), ([*sim, "--variance=-1"], "--variance"),
            ([*sim, "--diagonal=1,2,3"], "--diagonal"), ([*sim, "--diagonal=1,-2"], "-2"),
            ([*sim, "--covariance=1,2;2,1"], "semidefinite"),
            (["simulate", "--centres=1,2,3", "--counts=4",
              "--covariance=1e200,1e200,1e199;1e200,1e200,-1e199;1e199,-1e199,1e200"],
             "semidefinite"),
            ([*sim, "--covariance=1,2;0,1"], "symmetric"), ([*sim, "--covariance=1,2"], "rows"),
            ([*sim, "--variance=1", "--diagonal=1,1"], "one of"),
            ([*sim, "--scheme=fenchel"], "--scheme"), ([*sim, "--scheme=unas,unas"], "unas"),
            ([*sim, "--scheme=hnas"], "--hybrid"), ([*sim, "--hybrid=0.5"], "hnas"),
            ([*sim, "--iterations=5"], "sinkhorn"), ([*sim, "--energy=mlp"], "--energy"),
            ([*sim, "--steps=0"], "--steps"), ([*sim, "--seeds=0"], "--seeds"),
            ([*sim, "--emit=log_likelihood"], "log_likelihood"), ([*sim, "--width=0"], "--width"),
            ([*em, "--emit=trajectory"], "trajectory"), ([*em, "--precision=f32"], "float64"),
            ([*em, "--start=1,2,3"], "--start"), ([*em, "--min-variance=1"], "--estimate"),
            ([*em, "--estimate-variance", "--model-variance=1e-9"], "--min-variance"),
            ([*em, "--model-variance=0"], "--model-variance"), ([*em, "--scheme=unas"], "--scheme"),
        ):
            with self.subTest(arguments=arguments):
                self.refused("mode-collapse-sim", *arguments, status=2, says=[says])

    def test_input(self):
        x = np.ones((6, 2))
        label = np.arange(6) % 2
        bad = x.copy()
        bad[4, 1] = np.nan
        for datasets, says in (
            ({"label": label}, ["x"]), ({"x": x}, ["label"]),
            ({"x": x, "label": label[:5]}, ["label", "(5)", "(6)"]),
            ({"x": x, "label": label.astype(float)}, ["label", "float64"]),
            ({"x": x[0], "label": label}, ["x"]), ({"x": x[:0], "label": label[:0]}, ["x"]),
            ({"x": bad, "label": label}, ["x", "[4, 1]", "nan"]),
            ({"x": x.astype(int), "label": label}, ["x", "int64"]),
            ({"x": np.stack([x, x]), "label": [label, label * 0]}, ["x [1]", "labelled 1"]),
        ):
            with self.subTest(says=says):
                self.write("in.h5", **datasets)
                self.refused("mode-collapse-sim", "simulate", "in.h5", status=3, says=says)
        self.write("in.h5", x=x, label=label, start=np.ones((3, 3)))
        self.refused("mode-collapse-sim", "em", "in.h5", status=3, says=["start", "(3, 3)"])
        self.refused("mode-collapse-sim", "simulate", "missing.h5", status=3, says=["missing.h5"])
        for option in (*PAIR, "--seed=1", "--seeds=2", "--variance=1"):
            self.refused("mode-collapse-sim", "simulate", "in.h5", option, status=2,
                         says=[option.split("=")[0], "in.h5"])

    def test_existing_points_are_not_emitted(self):
        self.write("in.h5", x=np.ones((6, 2)), label=np.arange(6) % 2)
        for name in ("x", "label"):
            self.refused("mode-collapse-sim", "simulate", "in.h5", f"--emit={name}", "--only",
                         status=2, says=[f"--emit {name}", "in.h5"])

    def test_shape_of_start(self):
        self.write("in.h5", x=np.ones((2, 6, 3)), start=np.ones((3, 4)))
        self.refused("mode-collapse-sim", "em", "in.h5", status=3,
                     says=["(M, 3) or (2, M, 3)"])
        self.write("in.h5", x=np.ones((6, 3)), start=np.ones((3, 4)))
        self.refused("mode-collapse-sim", "em", "in.h5", status=3, says=["expected (M, 3)"])

    def test_labels_that_do_not_fit(self):
        self.write("in.h5", x=np.ones((300000, 1), np.float32), label=np.zeros(300000, np.int8))
        for more in ([], ["--dry-run"]):
            self.refused("mode-collapse-sim", "simulate", "in.h5", "--memory=1M", *more, status=6,
                         says=["in.h5:/label", "--memory"])

    def test_points_that_exceed_the_format(self):
        far = ["--counts=3,3", "--centres=1e3;-1e3", "--residual", "--precision=f32", "--steps=200"]
        self.refused("mode-collapse-sim", "simulate", *far, status=4, says=["seed 0, unas, step"])
        self.refused("mode-collapse-sim", "simulate", "--counts=1", "--centres=1e39",
                     "--precision=f32", status=4, says=["seed 0"], hint="f64")
        self.refused("mode-collapse-sim", "em", "--counts=1000", "--centres=1e153", "--variance=0",
                     "--start=0", "--steps=3", status=4, says=["seed 0, step 1", "likelihood"])

    def test_memory(self):
        self.refused("mode-collapse-sim", "simulate", "--counts=100000,100", "--centres=1,1;0,0",
                     "--memory=1M", status=6, says=["100100 x 2", "--memory"])
        self.refused("mode-collapse-sim", "em", "--counts=100000,100", "--centres=1,1;0,0",
                     "--memory=1M", status=6, says=["--memory"])
        self.refused("mode-collapse-sim", "simulate", "--counts=3,3", "--centres=1;0",
                     "--steps=1000000000000", status=6, says=["--memory"])

    def test_unwritten_distances_take_no_memory(self):
        x = np.arange(3000.0)[:, None] / 3000
        self.write("in.h5", x=x, label=np.arange(3000))
        options = ["simulate", "in.h5", "--steps=2", "--memory=300M", "--threads=1"]
        self.refused("mode-collapse-sim", *options, status=6, says=["--memory"])
        self.assertIn("unas/centre", self.sim(*options, "--emit=centre"))

    def test_bytes_beyond_any_count(self):
        for options in (
            ["simulate", f"--counts={1 << 47}", "--centres=0", "--steps=1", "--scheme=unas"],
            ["simulate", f"--counts={1 << 48}", "--centres=0", "--steps=1", "--scheme=dnas"],
            ["em", f"--counts={1 << 47}", "--centres=0", "--steps=1", "--start=1"],
            ["em", f"--counts={1 << 48}", "--centres=0", "--steps=1"],
            ["simulate", "--counts=" + ",".join(["1"] * 300),
             "--centres=" + ";".join(map(str, range(300))), f"--steps={1 << 40}"],
        ):
            for count, memory in ((8, "1G"), (512, "1G"), (65536, "4194304T")):
                self.refused("mode-collapse-sim", *options, f"--seeds={count}",
                             f"--threads={count}", f"--memory={memory}", "--dry-run", status=6,
                             says=["of working memory"])


if __name__ == "__main__":
    unittest.main()
