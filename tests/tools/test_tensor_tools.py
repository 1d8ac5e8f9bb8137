"""tensor-gen and tensor-compare: seeded numbers with the stated distribution, and a comparison that
detects every difference."""

import math
import unittest

import h5py
import numpy as np

from attn import ToolTest

SIGMAS = 6  # standard errors of an estimator: one false alarm in 5e8


class TensorGen(ToolTest):

    def gen(self, *arguments, **more):
        return self.run_tool("tensor-gen", *arguments, "-q", **more).bundle()

    def test_seeds(self):
        made = ["normal", "q=3x40x8", "k=40x8"]
        first = self.gen(*made, "--seed=7")
        self.assert_same_bits(self.gen(*made, "--seed=7"), first)
        self.assert_same_bits(self.gen(*made), self.gen(*made, "--seed=0"))
        for other in (self.gen(*made, "--seed=8"), self.gen(*made)):
            for name in first:
                self.assertFalse(np.isin(other[name], first[name]).any())
        self.assertFalse(np.isin(first["q"], first["k"]).any())

    def test_a_number_depends_only_on_seed_name_and_index(self):
        whole = self.gen("normal", "x=100000", "--seed=3")["x"]
        for arguments in (["x=1000x100"], ["a=5", "x=100000", "z=7"], ["x=100000", "--threads=1"],
                          ["x=100000", "--threads=5"], ["x=100000", "--memory=64K"], ["x=99x1000"],
                          ["x=1"]):
            with self.subTest(arguments=arguments):
                x = self.gen("normal", "--seed=3", *arguments)["x"]
                np.testing.assert_array_equal(x.ravel(), whole[:x.size])
        double = self.gen("normal", "x=100000", "--seed=3", "--dtype=f64")["x"]
        self.assertEqual((whole.dtype, double.dtype), (np.float32, np.float64))
        np.testing.assert_array_equal(double.astype(np.float32), whole)

    def test_shapes(self):
        bundle = self.gen("uniform", "a=1", "b=3x1x2", "c=2x3x4x5x6")
        shapes = {name: values.shape for name, values in bundle.items()}
        self.assertEqual(shapes, {"a": (1,), "b": (3, 1, 2), "c": (2, 3, 4, 5, 6)})
        self.assertIn("tensor-gen uniform a=1 b=3x1x2", bundle.attributes["history"])

    def is_distributed(self, x, mean, deviation, kurtosis, cumulative):
        """Moments and the distribution function are as specified, and neighbours do not
        correlate."""
        n = x.size
        z = (x.ravel().astype(np.float64) - mean) / deviation
        self.assertLess(abs(z.mean()), SIGMAS / math.sqrt(n))
        self.assertLess(abs((z**2).mean() - 1), SIGMAS * math.sqrt((kurtosis - 1) / n))
        # 15 is the value for the normal distribution.
        self.assertLess(abs((z**3).mean()), SIGMAS * math.sqrt(15 / n))
        # Kolmogorov: beyond 3/√n with probability 2·exp(−18).
        empirical = (np.arange(n) + 0.5) / n
        self.assertLess(np.abs(cumulative(np.sort(z)) - empirical).max(), 3 / math.sqrt(n))
        for lag in (1, 2, 4, x.shape[-1], n // 2):
            correlation = (z[:-lag] * z[lag:]).mean()
            self.assertLess(abs(correlation), SIGMAS / math.sqrt(n - lag), f"lag {lag}")

    def test_normal(self):
        cumulative = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)))
        for kind in ("f32", "f64"):
            bundle = self.gen("normal", "q=500x400", "k=500x400", f"--dtype={kind}", "--seed=11")
            self.is_distributed(bundle["q"], 0, 1, 3, cumulative)
            self.is_distributed(bundle["k"], 0, 1, 3, cumulative)
            together = (bundle["q"] * bundle["k"]).mean()
            self.assertLess(abs(together), SIGMAS / math.sqrt(bundle["q"].size))
        x = self.gen("normal", "x=500x400", "--mean=-3", "--std=0.5", "--dtype=f64")["x"]
        self.is_distributed(x, -3, 0.5, 3, cumulative)
        plain, scaled = (self.gen("normal", "w=30x25", "v=16", "--std=2", "--dtype=f64", *more)
                         for more in ((), ("--fan-in",)))
        for name, root in (("w", 5), ("v", 4)):
            np.testing.assert_allclose(scaled[name], plain[name] / root, rtol=1e-15)

    def test_uniform(self):
        for low, high, kind in ((0, 1, "f32"), (0, 1, "f64"), (-2, 5, "f64")):
            x = self.gen("uniform", "x=500x400", f"--low={low}", f"--high={high}",
                         f"--dtype={kind}")["x"]
            self.assertTrue((x >= low).all() and (x <= high).all())
            deviation = (high - low) / math.sqrt(12)
            self.is_distributed(x, (low + high) / 2, deviation, 1.8,
                                lambda z: np.clip(z / math.sqrt(12) + 0.5, 0, 1))

    def test_clusters_and_mixture(self):
        centres = np.array([[1.8, 0.7], [-1, -1]])
        common = ["x=3x5500x2", "--centres=1.8,0.7;-1,-1", "--variance=0.1,0.4", "--dtype=f64"]
        fixed = self.gen("clusters", *common, "--counts=5000,500")
        self.assertEqual(fixed["label"].dtype, np.int64)
        in_order = np.tile(np.repeat([0, 1], [5000, 500]), (3, 1))
        np.testing.assert_array_equal(fixed["label"], in_order)
        drawn = self.gen("mixture", *common, "--weights=3,1")
        share = (drawn["label"] == 0).mean()
        self.assertLess(abs(share - 0.75), SIGMAS * math.sqrt(0.75 * 0.25 / drawn["label"].size))
        for bundle in (fixed, drawn):
            for c, variance in enumerate((0.1, 0.4)):
                points = bundle["x"][bundle["label"] == c] - centres[c]
                limit = SIGMAS * math.sqrt(variance / len(points))
                self.assertTrue((np.abs(points.mean(axis=0)) < limit).all())
                error = np.abs(points.var(axis=0) / variance - 1)
                self.assertTrue((error < SIGMAS * math.sqrt(2 / len(points))).all())

    def test_refused(self):
        for arguments, status, says in (
            ([], 2, "KIND"),
            (["bogus", "q=2"], 2, "normal, uniform, clusters, mixture"),
            (["normal"], 2, "NAME=SHAPE"),
            (["normal", "q"], 2, "q"),
            (["normal", "q=2x"], 2, "q=2x"),
            (["normal", "q=-1"], 2, "q=-1"),
            (["normal", "q=2", "q=3"], 2, "q"),
            (["normal", "q=99999999999x99999999999"], 2, "q"),
            (["normal", "q=2", "--std=-1"], 2, "--std"),
            (["normal", "q=2", "--dtype=f16"], 2, "f32, f64"),
            (["normal", "q=2", "--low=1"], 2, "--low"),
            (["uniform", "q=2", "--low=2", "--high=1"], 2, "--low"),
            (["clusters", "x=5x2"], 2, "--centres"),
            (["clusters", "x=5x2", "--centres=1,2;3"], 2, "--centres"),
            (["clusters", "x=5x2", "--centres=1,2;3,4", "--counts=2,2"], 2, "5"),
            (["clusters", "x=5x3", "--centres=1,2;3,4", "--counts=2,3"], 2, "3"),
            (["normal", "q=1000", "--std=1e39"], 4, "float32"),
        ):
            with self.subTest(arguments=arguments):
                self.refused("tensor-gen", *arguments, status=status, says=[says])


class TensorCompare(ToolTest):

    def compare(self, a, b, *options, same):
        """The result in the JSON; `same` is the expected outcome."""
        done = self.run_tool("tensor-compare", a, b, *options, "--json", status=0 if same else 1)
        self.assertEqual(done.json()["status"], "ok" if same else "no")
        result = done.json()["result"]
        self.assertIs(result["same"], same)
        return result

    def pair(self, a, b, *options, same):
        """Compares two arrays; returns their entry in the result."""
        self.write("a.h5", x=a)
        self.write("b.h5", x=b)
        return self.compare("a.h5", "b.h5", *options, same=same)["datasets"][0]

    def test_equal(self):
        for x in (np.arange(12.0).reshape(3, 4), np.array([np.inf, -np.inf, 0]), np.float32(2),
                  np.arange(5), np.array([True, False]), np.array(["a", "η"], dtype=object),
                  np.zeros((0, 3))):
            found = self.pair(x, x, same=True)
            self.assertIs(found["same"], True)
            if x.dtype.kind in "fi":
                self.assertEqual(found["max_abs_error"], 0)

    def test_one_value_differs(self):
        random = np.random.default_rng(1)
        # Large enough to be read in several pieces.
        x = random.normal(size=(7, 300, 400))
        for at in ((0, 0, 0), (6, 299, 399), (3, 17, 5)):
            with self.subTest(at=at):
                y = x.copy()
                y[at] = np.nextafter(y[at], 9)
                found = self.pair(y, x, "--memory=64K", same=False)
                self.assertEqual((found["index"], found["differing"]), (list(at), 1))
                self.assertEqual(found["max_abs_error"], abs(y[at] - x[at]))
        y = x.copy()
        y[1, 2, 3] += 0.25
        y[5, 6, 7] -= 0.5
        found = self.pair(y, x, same=False)
        self.assertEqual((found["index"], found["differing"]), ([5, 6, 7], 2))
        self.assertEqual(found["max_abs_error"], np.abs(y - x).max())
        relative = np.abs(y - x) / np.abs(x)
        self.assertAlmostEqual(found["max_rel_error"], relative.max(), delta=1e-14 * relative.max())
        self.assertEqual(tuple(found["rel_index"]), np.unravel_index(relative.argmax(), x.shape))
        text = self.run_tool("tensor-compare", "a.h5", "b.h5", status=1).out.decode()
        self.assertRegex(text, r"(?m)^x +\(7, 300, 400\) +0\.5 +\(5, 6, 7\) ")

    def test_special_values(self):
        nan, inf = np.nan, np.inf
        for a, b, same in (([nan], [nan], False), ([nan], [1.0], False), ([1.0], [nan], False),
                           ([-0.0], [0.0], True), ([inf], [inf], True), ([inf], [-inf], False),
                           ([inf], [1e308], False), ([1.0], [inf], False)):
            with self.subTest(a=a, b=b):
                self.pair(np.array(a), np.array(b), same=same)
                # No tolerance excuses it.
                self.pair(np.array(a), np.array(b), "--rtol=1e9", "--atol=1e300", same=same)
                both = bool(np.isnan(a + b).all())
                self.pair(np.array(a), np.array(b), "--nan-equal", same=same or both)

    def test_tolerances(self):
        a, b = np.array([1.0, 100.0, 0.0]), np.array([1.5, 101.0, 0.25])
        self.pair(a, b, "--atol=1", same=True)
        self.pair(a, b, "--atol=0.99", same=False)
        self.pair(a, b, "--rtol=0.34", "--atol=0.25", same=True)
        # Relative to B, as in numpy.allclose: 0.5 <= 0.34·1.5, but not 0.34·1.
        self.pair(b, a, "--rtol=0.34", "--atol=0.25", same=True)  # 0.5 <= 0.25 + 0.34
        self.pair(b[:1], a[:1], "--rtol=0.34", same=False)
        self.pair(a[:1], b[:1], "--rtol=0.34", same=True)
        found = self.pair(a, b, "--rtol=0.02", same=False)
        self.assertEqual(found["differing"], 2)

    def test_types_and_shapes(self):
        x = np.arange(6.0).reshape(2, 3)
        self.pair(x, x.astype(np.float32), same=True)
        self.pair(x, x.astype(int), same=True)
        self.pair(np.array([0.1]), np.array([0.1], np.float32), same=False)
        self.pair(np.array([2**53 + 1]), np.array([2**53]), same=False)
        self.pair(x, x.T, same=False)
        self.pair(x, x[:1], same=False)
        self.pair(x, x[None], same=False)
        self.pair(x, np.array(["a"] * 6, dtype=object).reshape(2, 3), same=False)
        self.pair(np.array(["a", "b"], object), np.array(["a", "c"], object), same=False)
        done = self.run_tool("tensor-compare", "a.h5", "b.h5", status=1)
        self.assertIn("1 of 2 differ", done.out.decode())

    def test_datasets_of_one_side_only(self):
        x = np.arange(3.0)
        self.write("a.h5", x=x, y=x)
        self.write("b.h5", x=x, z=x)
        result = self.compare("a.h5", "b.h5", same=False)
        self.assertEqual((result["only_in_a"], result["only_in_b"]), (["y"], ["z"]))
        self.compare("a.h5", "b.h5", "--datasets=x", same=True)
        self.compare("a.h5", "b.h5", "--datasets=x,y", same=False)
        self.compare("a.h5:/x", "b.h5", same=True)
        self.compare("a.h5:/y", "b.h5:/z", same=True)
        self.compare("a.h5:/x[1:]", "b.h5:/x[:2]", same=False)

    def test_an_empty_comparison_is_an_error(self):
        for name in ("a.h5", "b.h5"):
            with h5py.File(self.folder / name, "w") as file:
                file.create_group("group/empty")
        self.refused("tensor-compare", "a.h5", "b.h5", status=3, says=["neither A nor B"],
                     output=None)

    def test_groups_below(self):
        x = np.arange(6.0)
        self.write("a.h5", q=x, text__layer0__out=x, text__layer10__out=x, text__layer2__out=x)
        self.write("b.h5", q=x, text__layer0__out=x, text__layer2__out=x + 1, other__out=x)
        result = self.compare("a.h5", "b.h5", same=False)
        self.assertEqual([(d["name"], d["same"]) for d in result["datasets"]],
                         [("q", True), ("text/layer0/out", True), ("text/layer2/out", False)])
        self.assertEqual((result["only_in_a"], result["only_in_b"]),
                         (["text/layer10/out"], ["other/out"]))
        self.compare("a.h5", "b.h5", "--datasets=q,text/layer0/out", same=True)
        self.compare("a.h5", "b.h5", "--datasets=text/layer10/out", same=False)
        self.compare("a.h5:/text/layer0", "b.h5:/text/layer0", same=True)
        self.compare("a.h5:/text", "b.h5:/text", "--atol=1", "--datasets=layer2/out", same=True)

    def test_a_group_with_two_names(self):
        self.write("copies.h5", first__x=np.arange(3), second__x=np.arange(3))
        self.write("links.h5", first__x=np.arange(3))
        with h5py.File(self.folder / "links.h5", "a") as file:
            file["second"] = file["first"]
            file["first/round"] = file["first"]  # an endless cycle
        self.compare("links.h5", "copies.h5", same=True)
        self.compare("copies.h5", "links.h5", same=True)
        self.compare("links.h5", "links.h5", "--datasets=second/x", same=True)

    def test_attributes(self):
        x = np.arange(3.0)
        usual = {"history": "a", "attn_scheme": "dnas", "attn_scale": 0.125, "layers": np.arange(4),
                 "large": np.arange(1000.0), "none": h5py.Empty("f4"), "odd": np.uint64(2**64 - 1)}
        kept = self.write("a.h5", usual, x=x, layer0__x=x)
        for item, more in (("", {"attn_scheme": "unas"}), ("", {"attn_scale": 0.25}),
                           ("", {"layers": np.arange(3)}), ("", {"layers": [0, 1, 2, 4]}),
                           ("", {"large": np.append(np.arange(999.0), 7)}), ("", {"odd": 7}),
                           ("", {"odd": np.uint64(2**64 - 2**60)}), ("", {"none": "text"}),
                           ("", {"new": 1}), ("layer0", {"new": 1}), ("layer0/x", {"units": "m"}),
                           ("x", {"CLASS": "mine"})):
            with self.subTest(item=item, more=more):
                self.write("b.h5", usual | {"history": "b"}, x=x, layer0__x=x)
                self.compare(kept, "b.h5", "--attributes", same=True)
                with h5py.File(self.folder / "b.h5", "a") as file:
                    file[item or "/"].attrs.update(more)
                self.compare(kept, "b.h5", same=True)
                for pair in (kept, "b.h5"), ("b.h5", kept):
                    found = self.compare(*pair, "--attributes", same=False)["attributes"]
                    wrong = [entry["name"] for entry in found if not entry["same"]]
                    self.assertEqual(wrong, [f"{item}@{next(iter(more))}"])
        self.compare(kept, "b.h5", "--attributes", "--datasets=layer0/x", same=True)
        text = self.run_tool("tensor-compare", kept, "b.h5", "--attributes", status=1).out.decode()
        self.assertRegex(text, r"(?m)^x@CLASS .* only in B$")
        self.assertIn("1 of 7 attributes differ", text)

    def test_attributes_within_tolerances(self):
        self.write("a.h5", {"scale": 1.0, "count": 3, "nan": np.nan}, x=1)
        self.write("b.h5", {"scale": np.float32(1.001), "count": 4, "nan": np.nan}, x=1)
        self.compare("a.h5", "b.h5", "--attributes", "--atol=2", same=False)
        self.compare("a.h5", "b.h5", "--attributes", "--atol=2", "--nan-equal", same=True)
        self.compare("a.h5", "b.h5", "--attributes", "--atol=0.01", "--nan-equal", same=False)

    def test_labels_and_scales_are_no_attributes(self):
        for name in ("a.h5", "b.h5"):
            self.write(name, x=np.arange(3), axis=np.arange(3))
        with h5py.File(self.folder / "b.h5", "a") as file:
            file["x"].dims[0].label = "key"
            file["axis"].make_scale("position")
            file["x"].dims[0].attach_scale(file["axis"])
        self.compare("a.h5", "b.h5", "--attributes", same=True)

    def test_attributes_that_cannot_be_compared(self):
        self.write("a.h5", {"pair": np.zeros((), [("re", "f4"), ("im", "f4")])}, x=1)
        self.refused("tensor-compare", "a.h5", "a.h5", "--attributes", status=3, output=None,
                     says=["a.h5", "@pair", "compound"])
        self.compare("a.h5", "a.h5", same=True)
        self.refused("tensor-compare", "a.h5:/x", "a.h5", "--attributes", status=2, output=None,
                     says=["--attributes"])

    def test_provenance_is_not_compared(self):
        self.run_tool("tensor-gen", "normal", "q=4x3", "k=4x3", "-o", "a.h5")
        self.shell("tensor-gen normal -q q=4x3 k=4x3 --threads=1 > b.h5")
        self.assertNotEqual(self.read("a.h5").attributes["history"],
                            self.read("b.h5").attributes["history"])
        self.compare("a.h5", "b.h5", same=True)
        piped = self.shell("tensor-gen normal -q q=4x3 k=4x3 | tensor-compare - a.h5")
        self.assertTrue(piped.out.decode().endswith("same\n"))

    def test_refused(self):
        self.write("a.h5", x=np.arange(3))
        (self.folder / "text.h5").write_text("no bundle")
        for arguments, status, says in (
            ([], 2, "A B"), (["a.h5"], 2, "A B"), (["a.h5"] * 3, 2, "a.h5"),
            (["-", "-"], 2, "standard input"),
            (["a.h5", "missing.h5"], 3, "missing.h5"), (["text.h5", "a.h5"], 3, "text.h5"),
            (["a.h5", "a.h5:/y"], 3, "y"), (["a.h5", "a.h5", "--datasets=y"], 3, "y"),
            (["a.h5", "a.h5", "--rtol=-1"], 2, "--rtol"),
            (["a.h5", "a.h5", "--atol=nan"], 2, "--atol"),
            (["a.h5", "a.h5", "-o", "out.h5"], 2, "-o"),
        ):
            with self.subTest(arguments=arguments):
                self.refused("tensor-compare", *arguments, output=None, status=status, says=[says])


if __name__ == "__main__":
    unittest.main()
