"""sinkhorn-iter bulk: many small problems against the formulas, their reports, and chains."""

import h5py
import numpy as np

from attn import LONG, ToolTest
from shards import ShardTest
from test_sinkhorn_iter import iterate

EMIT = ("--emit", "plan,row_potential,col_potential,error")


class Bulk(ToolTest):

    def bulk(self, scores, *arguments, **marginals):
        """The bundle, and the result of the report."""
        self.write("in.h5", scores=scores, **marginals)
        done = self.run_tool("sinkhorn-iter", "bulk", *EMIT, *arguments, "in.h5", "-o", "out.h5",
                             "--force", "--json")
        return self.read("out.h5"), done.json()["result"]

    def check(self, scores, iterations, bundle, a=None, b=None):
        m, n = scores.shape[-2:]
        # Potentials are sums of roundings of the type, of m + n terms; errors sum over lines.
        limit = (m + n + 8) * np.finfo(scores.dtype).eps * max(1, np.abs(scores).max())
        for index in np.ndindex(scores.shape[:-2]):
            own_a = np.ones(m) if a is None else a if a.ndim == 1 else a[index]
            own_b = np.full(n, own_a.sum() / n) if b is None else b if b.ndim == 1 else b[index]
            f, g, plan, errors = iterate(scores[index], own_a, own_b, iterations)
            self.assert_near("row_potential", bundle["row_potential"][index], f, limit)
            self.assert_near("col_potential", bundle["col_potential"][index], g, limit)
            self.assert_near("plan", bundle["plan"][index], plan, limit)
            self.assert_near("error", bundle["error"][index], errors[-1], limit * (m + n))

    def test_numbers(self):
        random = np.random.default_rng(1)
        for shape in ((33, 4, 4), (3, 2, 7, 4, 4), (2, 5, 3), (4, 4), (1, 1, 1), (2, 64, 64)):
            for dtype in (np.float32, np.float64):
                with self.subTest(shape=shape, dtype=dtype):
                    scores = random.normal(size=shape).astype(dtype)
                    bundle, result = self.bulk(scores, "--iterations", 20)
                    self.assertEqual(bundle["plan"].dtype, dtype)
                    self.check(scores, 20, bundle)
                    self.assertEqual(result["scaled"], np.prod(shape[:-2]))
                    self.assertEqual(result["largest_error"], np.max(bundle["error"]))

    def test_marginals(self):
        random = np.random.default_rng(2)
        scores = random.normal(size=(3, 5, 4, 6))
        for a, b in ((random.uniform(size=4), None), (None, random.uniform(size=6)),
                     (random.uniform(size=(3, 5, 4)), random.uniform(size=(3, 5, 6)))):
            given = {name: value for name, value in (("a", a), ("b", b)) if value is not None}
            bundle, _ = self.bulk(scores, "--iterations", 3, **given)
            self.check(scores, 3, bundle, a, b)

    def test_wide_ranges_and_closed_pairs(self):
        scores = np.random.default_rng(3).normal(size=(9, 4, 4))
        scores[2] *= 100
        scores[5, 1, 3] = -np.inf
        bundle, result = self.bulk(scores)
        self.assertEqual((result["scaled"], result["logarithmic"]), (8, 1))
        finite = np.where(np.isinf(scores), -1e4, scores)
        f, g, plan, _ = iterate(scores[2], np.ones(4), np.ones(4), 20)
        self.assert_near("plan", bundle["plan"][2], plan, 1e-10)
        f, g, plan, _ = iterate(finite[5], np.ones(4), np.ones(4), 20)
        self.assert_near("plan", bundle["plan"][5], plan, 1e-13)
        # Nothing meets these marginals: only column 0 is open to two rows.
        scores[0, :2, 1:] = -np.inf
        bundle, result = self.bulk(scores, "--iterations", 2000)
        self.assertGreater(bundle["error"][0], 0.9)
        self.assertTrue(np.isfinite(bundle["plan"]).all())

    def test_chain(self):
        scores = np.random.default_rng(4).normal(size=(5, 6, 4, 4))
        bundle, result = self.bulk(scores, "--chain", "--iterations", 2)
        product = np.broadcast_to(np.eye(4), (5, 4, 4))
        for layer in range(6):
            product = bundle["plan"][:, layer] @ product
            gains = np.stack([np.linalg.norm(product, 2, (1, 2)), product.sum(2).max(1),
                              product.sum(1).max(1)], 1)
            self.assert_near("chain", bundle["chain"][:, layer], gains, 1e-13)
        self.assert_near("largest", [result["largest_gain"][name] for name in
                                     ("spectral", "row_sum", "column_sum")], gains.max(0), 1e-13)
        # In the limit all gains are 1.
        bundle, _ = self.bulk(scores, "--chain", "--iterations", 2000)
        self.assert_near("limit", bundle["chain"], np.ones((5, 6, 3)), 1e-12)

    def test_threads_and_memory(self):
        self.write("in.h5", scores=np.random.default_rng(5).normal(size=(40, 50, 4, 4)))
        for name, *more in (("one.h5", "--threads", "1"), ("three.h5", "--threads", "3"),
                            ("few.h5", "--memory", "64K")):
            self.run_tool("sinkhorn-iter", "bulk", *EMIT, "--chain", *more, "in.h5", "-o", name)
        for name in ("three.h5", "few.h5"):
            done = self.run_tool("tensor-compare", "one.h5", name)
            self.assertTrue(done.out.decode().endswith("same\n"))

    def test_refused(self):
        command = ("sinkhorn-iter", "bulk")
        scores = np.zeros((3, 2, 4, 4))
        self.write("wide.h5", scores=np.zeros((3, 65, 4)))
        self.refused(*command, "wide.h5", status=3, says=["wide.h5:/scores", "[1, 64]"])
        scores[2, 1, 3, 0] = np.nan
        self.write("nan.h5", scores=scores)
        self.refused(*command, "nan.h5", status=3, says=["nan.h5:/scores", "[2, 1, 3, 0]"])
        self.write("a.h5", scores=np.zeros((3, 4, 4)), a=np.array([1, 1, -1, 1.0]))
        self.refused(*command, "a.h5", status=3, says=["a.h5:/a", "-1", ">= 0"])
        self.write("b.h5", scores=np.zeros((3, 4, 4)), b=np.ones((2, 4)))
        self.refused(*command, "b.h5", status=3, says=["b.h5:/b", "(2, 4)", "(3, 4)"])
        self.write("flat.h5", scores=np.zeros((3, 4, 5)))
        self.refused(*command, "--chain", "flat.h5", status=2, says=["--chain", "square"])
        self.refused(*command, "--tolerance", "1e-3", "flat.h5", status=2, says=["--tolerance"])
        self.refused(*command, "--memory", "1K", "flat.h5", status=6, says=["--memory"])
        self.write("empty.h5", scores=np.zeros((0, 4, 4)))
        self.run_tool(*command, "empty.h5", "-o", "none.h5")
        self.assertEqual(self.read("none.h5")["error"].shape, (0,))


class Shards(ShardTest):

    def check_report(self, *arguments, count):
        whole = self.run_tool("sinkhorn-iter", "bulk", *arguments, "--json=whole.json", "-o", "whole.h5",
                              "--only", "--force")
        parts = self.shards("sinkhorn-iter bulk", *arguments, count=count)
        done = self.run_tool("tensor-join", *parts[::-1], "--json=joined.json", "-o", "joined.h5", "--force")
        self.assert_same("whole.h5", "joined.h5")
        expected, found = self.read_json("whole.json"), self.read_json("joined.json")
        self.assertEqual(found["result"]["report"]["result"], expected["result"])
        self.assertEqual(found["result"]["report"]["tool"], "sinkhorn-iter")
        for name, value in found["result"]["report"]["params"].items():
            self.assertEqual(value, expected["params"][name], name)
        summary = whole.err.splitlines()[-1].partition(" -> ")[0].partition(": ")[2]
        self.assertIn(summary + f", from {count} shard", done.err)
        for part in parts:
            (self.folder / part).unlink()
        return expected["result"]

    def test_report_of_all_shards(self):
        scores = np.random.default_rng(7).normal(size=(40, 2, 4, 4))
        scores[3] *= 100
        scores[17, 1] *= 1e-7
        self.write("in.h5", scores=scores)
        for count in (1, 3, 64) if LONG else (1, 5):
            for more in ((), ("--chain",)):
                with self.subTest(count=count, more=more):
                    result = self.check_report("in.h5", "--iterations", 3, *more, count=count)
                    errors = self.read("whole.h5")["error"]
                    self.assertAlmostEqual(result["mean_error"], errors.mean(), delta=1e-15 * 80 * errors.max())
                    self.assertEqual(result["logarithmic"], 2)

    def test_report_of_groups(self):
        draw = np.random.default_rng(8)
        self.write("in.h5", **{f"layer{n}__scores": draw.normal(size=(n + 1, 3, 3)).astype(np.float32)
                               for n in range(5)})
        for count in (1, 2, 7):
            result = self.check_report("in.h5", "--each", "layer*", "--emit", "row_potential", count=count)
            self.assertEqual([group["problems"] for group in result["groups"]], [1, 2, 3, 4, 5])

    def test_damaged_notes(self):
        self.write("in.h5", scores=np.random.default_rng(9).normal(size=(6, 3, 3)))
        parts = self.shards("sinkhorn-iter bulk", "in.h5", count=2)
        with h5py.File(self.folder / parts[1], "r+") as file:
            notes = file["attn_shard/report/0/figures"]
            notes[0] = notes[0].replace(b'"errors":[', b'"errors":[9999999999,')
        self.refused("tensor-join", *parts, status=3, says=[parts[1], "damaged"], output="joined.h5")

    def test_no_table(self):
        self.write("in.h5", scores=np.random.default_rng(9).normal(size=(6, 3, 3)))
        parts = self.shards("sinkhorn-iter bulk", "in.h5", count=2)
        self.refused("tensor-join", *parts, "--tsv", status=2, says=["--tsv", "sinkhorn-iter"], output="j.h5")

    def test_joined_shards_are_the_whole(self):
        self.write("in.h5", scores=np.random.default_rng(6).normal(size=(7, 3, 4, 4)))
        for more in ((), ("--chain",)):
            self.run_tool("sinkhorn-iter", "bulk", *EMIT, *more, "in.h5", "-o", "whole.h5",
                          "--only", "--force")
            parts = self.shards("sinkhorn-iter bulk", *EMIT, *more, "in.h5", "--force", count=4)
            self.run_tool("tensor-join", *parts, "-o", "joined.h5", "--force")
            self.assert_same("whole.h5", "joined.h5")
            for part in parts:
                (self.folder / part).unlink()
