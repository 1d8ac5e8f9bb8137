"""lambda-solve --radius, which fixes the distance from the evidence, and --noise, which fixes alpha."""

import numpy as np

from attn import ToolTest
from test_lambda_solve import softmax, solve


class LambdaRadius(ToolTest):

    def solve(self, *arguments):
        return self.run_tool("lambda-solve", *arguments).bundle()

    def test_radius(self):
        random = np.random.default_rng(12)
        for n, d, queries in ((2, 1, 3), (30, 3, 5), (9, 25, 4), (17, 16, 3)):
            t, z = random.normal(size=(n, d)), random.normal(size=(queries, d))
            u = random.uniform(0.1, 1, n)
            for dtype, near in ((np.float64, 1e-7), (np.float32, 1e-4)):
                t, z = t.astype(dtype), z.astype(dtype)
                wide = t.astype(np.float64)
                # Radii of solutions at alpha 2, of each query by itself: alpha is to be found again.
                for q in range(queries):
                    x, p = solve(wide, z[q].astype(np.float64), u.astype(dtype).astype(np.float64), 2.0)
                    radius = x @ x / 4
                    self.write("in.h5", t=t, z=z[q:q + 1], preference=u.astype(dtype))
                    found = self.solve("in.h5", f"--radius={float(radius)!r}", "-q", "--emit",
                                       "lambda,p,h,gap,alpha,relative_deviation,h_first_order")
                    with self.subTest(n=n, d=d, dtype=dtype.__name__, query=q):
                        self.assert_near("alpha", found["alpha"][0], 2, 2 * near)
                        self.assert_near("lambda", found["lambda"][0], x, near * 10)
                        self.assert_near("p", found["p"][0], p, near * 10)
                        away = (u / u.sum()) @ wide + z[q] - found["h"][0]
                        self.assert_near("radius", away @ away, radius, near * radius)
                        self.assert_near("first", found["h_first_order"][0],
                                         softmax(wide @ (2 * z[q].astype(np.float64)), np.log(u)) @ wide,
                                         near * 10)
                        self.assert_near("deviation", found["relative_deviation"][0],
                                         np.linalg.norm(x - 2 * z[q]) / np.linalg.norm(x), near * 10)
        self.assertNotIn("attn_dual_alpha", found.attributes)
        self.assertEqual(found.attributes["attn_dual_radius"], float(radius))

    def test_noise(self):
        random = np.random.default_rng(14)
        self.write("in.h5", t=random.normal(size=(9, 3)), z=random.normal(size=(4, 3)))
        noisy = self.solve("in.h5", "--noise=0.5", "--weight=0.25", "-q")
        self.assertEqual(noisy.attributes["attn_dual_alpha"], 8)
        self.assert_same_bits(noisy, self.solve("in.h5", "--alpha=8", "-q"), ["lambda", "h", "gap"])
        self.assertEqual(self.solve("in.h5", "--noise=0.5", "-q").attributes["attn_dual_alpha"], 2)

    def test_radius_wide_and_least(self):
        # The mean (1/2, 0) plus the evidence is (2, 3): 10 from the nearest template, (1, 0).
        t, z = np.array([[0.0, 0], [1, 0]]), np.array([[1.5, 3]])
        self.write("in.h5", t=t, z=z, preference=np.array([0.25, 0.25]))
        wide = self.solve("in.h5", "--radius=11.25", "-q", "--emit=alpha,p,lambda,gap")
        self.assertEqual(wide["alpha"][0], 0)
        self.assertEqual(wide["gap"][0], 0)
        self.assertFalse(wide["lambda"].any())
        self.assert_near("p", wide["p"][0], [0.5, 0.5], 1e-15)
        least = self.solve("in.h5", "--radius=10", "-q", "--emit=alpha,p")
        self.assertEqual(least["alpha"][0], np.inf)
        self.assert_near("p", least["p"][0], [0, 1], 1e-8)
        nearest = self.solve("in.h5", "--radius=10.00001", "-q", "--emit=alpha,p")
        self.assertLess(nearest["alpha"][0], np.inf)
        done = self.run_tool("lambda-solve", "in.h5", "--radius=9.9999", "-o", "out.h5", status=4)
        self.assertIn("at least 10, and the radius is 9.9999", done.err)
        self.assertFalse((self.folder / "out.h5").exists())

    def test_radius_options(self):
        self.write("in.h5", t=np.eye(3), z=np.eye(3), cost=np.ones((3, 3)))
        for arguments, text in ((("--radius=1", "--alpha=1"), "both --alpha and --radius"),
                                (("--radius=1", "--divergence=ot", "--gamma=1"), "--divergence kl"),
                                (("--noise=1", "--alpha=1"), "both --alpha and --noise"),
                                (("--noise=1", "--radius=1"), "both --noise and --radius"),
                                (("--weight=1",), "--weight requires --noise"),
                                (("--noise=1e-300", "--weight=1e-300"), "beyond float64"),
                                (("--emit=alpha",), "--emit alpha requires --radius"),
                                (("--radius=0",), "expected a number > 0"),
                                (("--radius=-1",), "expected a number > 0"),
                                (("--radius=nan",), "--radius")):
            with self.subTest(arguments=arguments):
                done = self.run_tool("lambda-solve", "in.h5", *arguments, "-o", "out.h5", status=2)
                self.assertIn(text, done.err)

    def test_radius_of_shards_is_that_of_one_run(self):
        random = np.random.default_rng(13)
        self.write("in.h5", t=random.normal(size=(3, 12, 4)), z=0.15 * random.normal(size=(3, 7, 4)))
        self.run_tool("lambda-solve", "--radius=0.02", "in.h5", "--only", "-o", "whole.h5",
                      "--json=whole.json")
        for shard in (1, 2):
            self.run_tool("lambda-solve", "--radius=0.02", "in.h5", "-o", "part.h5",
                          f"--shard={shard}/2", "-q")
        self.run_tool("tensor-join", "part.0001-of-0002.h5", "part.0002-of-0002.h5", "-o",
                      "joined.h5", "--json=joined.json")
        for name in ("alpha", "lambda", "gap"):
            np.testing.assert_array_equal(self.read("joined.h5")[name], self.read("whole.h5")[name])
        whole, joined = (self.read_json(f"{name}.json")["result"] for name in ("whole", "joined"))
        self.assertEqual(joined["report"]["result"], whole)
        self.assertEqual(whole["alpha"]["max"], self.read("whole.h5")["alpha"].max())
