"""sinkhorn-iter: what it says of solutions that are none, and what it refuses."""

import unittest

import h5py
import numpy as np

from test_sinkhorn_iter import INF, SinkhornTest, points


class Statuses(SinkhornTest):

    def test_not_converged(self):
        cost = points(np.random.default_rng(31), 40, 40)[0]
        self.write("in.h5", cost=cost)
        out, report = self.solve("in.h5", "--epsilon", 1e-3, "--tolerance", 1e-12, "--iterations", 5,
                                 status=1)
        self.assertEqual(report["status"], "not_converged")
        self.assertEqual(report["result"]["status"], "not_converged")
        self.assertEqual(out.attributes["attn_status"], "not_converged")
        self.assertEqual(out["error"].shape, (5,))
        self.assertGreater(out["error"][-1], 1e-12)

    def infeasible(self, *arguments, says, **datasets):
        self.write("in.h5", **datasets)
        self.refused("sinkhorn-iter", "in.h5", *arguments, status=4, says=says,
                     hint="--iterations T")
        done = self.run_tool("sinkhorn-iter", "in.h5", *arguments, "-o", "out.h5", "--json=out.json",
                             status=4)
        self.assertIn("error:", done.err)
        report = self.report()
        self.assertEqual(report["status"], "infeasible")
        # A fixed number of iterations runs anyway.
        self.solve("in.h5", *arguments, "--iterations", 3)
        return report["result"]

    def test_totals_that_differ(self):
        result = self.infeasible("--epsilon", 1, cost=np.ones((2, 3)), a=[0.5, 0.5],
                                 b=[0.5, 0.5, 0.5], says=["in.h5:/cost", "in.h5:/a", "in.h5:/b", "1.5"])
        self.assertEqual((result["row_total"], result["col_total"]), (1, 1.5))

    def test_small_totals(self):
        """The usual tolerance is relative to them: little mass moves as much does."""
        draw = np.random.default_rng(6)
        cost, b = draw.uniform(size=(7, 5)), draw.dirichlet(np.ones(5))
        for dtype in ("f8", "f4"):
            plans = []
            for total in (1, 1e-11):
                self.write("small.h5", cost=cost.astype(dtype), a=np.full(7, total / 7), b=total * b)
                self.run_tool("sinkhorn-iter", "--epsilon", 0.1, "--emit", "plan", "small.h5", "-o", "plan.h5", "--force")
                plans.append(self.read("plan.h5")["plan"].astype(float) / total)
                self.run_tool("sinkhorn-iter", "--epsilon", 0.1, "--unbalanced", 1, "--only", "small.h5", "-o", "plan.h5",
                              "--force", "--json=plan.json")
                result = self.read_json("plan.json")["result"]
                self.assertLess(result["row_error"] + result["col_error"], (1e-10 if dtype == "f8" else 1e-6) * total)
            # The plan is as far from that of the solution as its sums are, times a few.
            self.assert_near("plan", plans[1], plans[0], 1e-9 if dtype == "f8" else 1e-5)

    def test_totals_apart_by_less_than_the_tolerance(self):
        # Marginals that were rounded to float32 and stored as float64.
        a = np.full(3, np.float64(np.float32(1 / 3)))
        b = np.full(5, np.float64(np.float32(1 / 5)))
        apart = abs(a.sum() - b.sum())
        self.assertGreater(apart, 1e-8)
        self.write("in.h5", cost=np.random.default_rng(3).random((3, 5)), a=a, b=b)
        self.refused("sinkhorn-iter", "in.h5", "--epsilon=1", status=4, says="no plan",
                     hint="accepts them as equal")
        for tolerance, status in ((apart * 1.9, 4), (apart * 2.1, 0), (1e-3, 0)):
            self.run_tool("sinkhorn-iter", "in.h5", "--epsilon=1", "--emit=plan", "--force",
                          f"--tolerance={tolerance!r}", "-o", "out.h5", status=status)
        done = self.run_tool("sinkhorn-iter", "in.h5", "--epsilon=1", "--emit=plan", "--force",
                             f"--tolerance={apart * 2.1!r}", "-o", "out.h5")
        self.assertIn("the sums of in.h5:/a and in.h5:/b differ by ", done.err)
        plan = self.read("out.h5")["plan"]
        error = abs(plan.sum(1) - a).sum() + abs(plan.sum(0) - b).sum()
        self.assertLessEqual(error, apart * 2.1)

    def test_queries_whose_keys_accept_less_mass(self):
        mask = np.ones((4, 4), bool)
        mask[1:, 1:] = False  # three queries, one key
        result = self.infeasible(scores=np.zeros((4, 4)), mask=mask,
                                 says=["in.h5:/scores", "rows 1, 2, 3 have mass 3, but the 1 column allowed for them"])
        self.assertEqual(result["status"], "infeasible")
        self.assertEqual(result["unserved_queries"]["lines"], [1, 2, 3])
        self.assertEqual(result["unserved_queries"]["partners"], 1)

    def test_support_without_total_support(self):
        result = self.infeasible("--causal", scores=np.zeros((5, 5)),
                                 says=["total support", "10 allowed entries", "[1, 0]"])
        self.assertEqual(result["vanishing"]["count"], 10)
        self.assertEqual(result["vanishing"]["first"][:3], [[1, 0], [2, 0], [2, 1]])
        # The limit is the identity, which the error approaches as 1/T.
        out, _ = self.solve("in.h5", "--causal", "--iterations", 2000, "--emit", "plan")
        self.assert_near("plan", out["plan"], np.eye(5), 0.01)

    def test_one_problem_of_many(self):
        mask = np.ones((3, 3, 3), bool)
        mask[1] = [[1, 1, 1], [1, 0, 0], [1, 0, 0]]
        self.write("in.h5", scores=np.zeros((3, 3, 3)), mask=mask)
        done = self.run_tool("sinkhorn-iter", "in.h5", "-o", "out.h5", "--json=out.json", status=4)
        self.assertIn("head [1]", done.err)
        self.assertFalse((self.folder / "out.h5").exists())
        statuses = [p["status"] for p in self.report()["result"]["problems"]]
        self.assertEqual(statuses, ["converged", "infeasible", "converged"])

    def test_float32_marginals_whose_sums_agree_to_rounding(self):
        a = np.full(30, 1 / 30, np.float32)
        b = np.random.default_rng(32).uniform(1, 2, 77).astype(np.float32)
        b /= b.sum()
        self.write("in.h5", cost=np.random.default_rng(33).uniform(size=(30, 77)), a=a, b=b)
        _, report = self.solve("in.h5", "--epsilon", 0.1)
        self.assertEqual(report["result"]["status"], "converged")


class Refusals(SinkhornTest):

    def test_usage(self):
        cost = np.ones((3, 3))
        self.write("cost.h5", cost=cost)
        self.write("scores.h5", scores=cost)
        self.write("qk.h5", q=cost, k=cost)
        for arguments, says in (
            (["cost.h5"], "--epsilon"),
            (["cost.h5", "--epsilon", "0"], "--epsilon is 0"),
            (["cost.h5", "--epsilon", "1", "--scale", "2"], "--scale"),
            (["cost.h5", "--epsilon", "1", "--energy", "dot"], "--energy"),
            (["scores.h5", "--epsilon", "1"], "--epsilon has no effect"),
            (["qk.h5", "--epsilon", "1", "--energy", "dot"], "--energy dot is no cost of points"),
            (["qk.h5", "--epsilon", "1", "--scale", "2"], "--scale"),
            (["scores.h5", "--relax", "2"], "--relax is 2"),
            (["scores.h5", "--anneal", "--iterations", "3"], "--anneal"),
            (["scores.h5", "--iterations", "0"], "--iterations is 0"),
            (["scores.h5", "--emit", "out"], "--emit"),
            (["exact", "qk.h5", "--softcap", "2", "--emit", "dual_grad_k"], "without --softcap"),
        ):
            with self.subTest(arguments=arguments):
                self.refused("sinkhorn-iter", *arguments, status=2, says=[says])

    def test_input(self):
        good = np.ones((3, 4))
        bad = good.copy()
        for value, text in ((np.nan, "nan"), (-INF, "-inf")):
            bad[1, 2] = value
            self.write("in.h5", cost=bad)
            self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, status=3,
                         says=["in.h5:/cost", text, "[1, 2]"])
        for name, values, says in (
            ("a", [1, 1, -1.0], "has -1 at [2]"),
            ("a", [1, np.nan, 1], "has nan at [1]"),
            ("b", [1, 1, INF, 1], "has inf at [2]"),
            ("b", [1, 1, 1.0], "expected (..., 4)"),
            ("a", [1, -1, 1], "has -1 at [1], expected integers from 0 to 2^53"),
        ):
            with self.subTest(name=name, values=values):
                self.write("in.h5", cost=good, **{name: values})
                self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, status=3,
                             says=[f"in.h5:/{name}", says])
        self.write("in.h5", x=good)
        self.refused("sinkhorn-iter", "in.h5", status=3, says=["no dataset", "q"])
        self.write("in.h5", C=good)
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, status=3,
                     says=["in.h5: no dataset cost, nor q and k"], hint="--map cost=C")
        self.run_tool("sinkhorn-iter", "in.h5", "--epsilon", 1, "--map", "cost=C", "-o", "/dev/null")
        self.refused("sinkhorn-iter", "in.h5", "--reg", 1, status=2, says="--reg", hint="--epsilon")

    def test_beyond_float32(self):
        self.write("in.h5", cost=np.full((2, 2), 1e300))
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--precision", "f32", status=4,
                     says=["in.h5:/cost"], hint="--precision f64")

    def test_memory(self):
        self.write("in.h5", cost=np.ones((2000, 2000)))
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--memory", "64K", status=6,
                     says=["--memory allows"])


class Honesty(SinkhornTest):
    """The reported figures are true for the written plan."""

    def test_converged_refers_to_the_stored_plan(self):
        """If rounding at the size of the scores rules out such a plan, it reports so."""
        random = np.random.default_rng(50)
        n = 40
        for size in (1, 1e3, 1e6, 1e9):
            scores = (size * (random.normal(size=(n, 1)) + random.normal(size=(1, n))) +
                      2 * random.normal(size=(n, n)))
            self.write("in.h5", scores=scores)
            with self.subTest(size=size):
                done = self.run_tool("sinkhorn-iter", "in.h5", "-o", "out.h5", "--force", "--emit",
                                     "plan", "--json=out.json", status=1 if size > 1e5 else 0)
                result = self.report()["result"]
                plan = self.read("out.h5")["plan"].astype(np.longdouble)
                error = np.abs(plan.sum(0) - 1).sum() + np.abs(plan.sum(1) - 1).sum()
                self.assertEqual(result["status"] == "converged", bool(error <= 1e-10), done.err)
                self.assertEqual(result["tolerance"], 1e-10)

    def test_value_of_a_large_epsilon(self):
        """The value belongs to a cost in [0, 1], however large the potentials are."""
        cost = np.random.default_rng(51).uniform(size=(50, 50))
        for dtype, epsilon, bound in ((np.float64, 1e12, 1e-12), (np.float32, 1e6, 1e-6)):
            self.write("in.h5", cost=cost.astype(dtype))
            _, report = self.solve("in.h5", "--epsilon", epsilon)
            # The plan is uniform up to 1/epsilon.
            self.assertAlmostEqual(report["result"]["value"], cost.mean(), delta=bound + 1 / epsilon)

    def test_rows_and_columns_without_a_plan_are_in_the_error(self):
        scores = np.zeros((4, 4))
        scores[:, 1] = -INF
        scores[2] = -INF
        self.write("in.h5", scores=scores, a=np.ones(4), b=np.ones(4))
        out, report = self.solve("in.h5", "--iterations", 5)
        result = report["result"]
        self.assertAlmostEqual(out["error"][-1], result["row_error"] + result["col_error"], 12)

    def test_marginals_beyond_float32(self):
        self.write("in.h5", scores=np.zeros((4, 4), np.float32), a=np.full(4, 1e39))
        done = self.run_tool("sinkhorn-iter", "in.h5", "-o", "out.h5", "--precision", "f32",
                             status=4)
        self.assertIn("--precision f64", done.err)
        self.assertFalse((self.folder / "out.h5").exists())

    def test_errors_take_memory_only_if_written(self):
        self.write("in.h5", scores=np.zeros((3000, 2, 2), np.float32))
        many = ["in.h5", "-o", "out.h5", "--force", "--memory", "16M"]
        self.run_tool("sinkhorn-iter", *many, "--emit", "row_potential")
        self.run_tool("sinkhorn-iter", *many, "--emit", "error", status=6)

    def test_the_error_of_the_marginals_stands_beside_their_total(self):
        self.write("in.h5", cost=np.random.default_rng(1).random((5, 4)), a=np.full(5, 3.0),
                   b=np.full(4, 3.75))
        self.write("histograms.h5", cost=np.ones((4, 4)), a=np.full((3, 4), 2.0))
        for words, total in ((["in.h5", "--epsilon=0.5"], 15), (["exact", "in.h5"], 15),
                             (["barycentre", "histograms.h5", "--epsilon=0.5"], 8)):
            done = self.run_tool("sinkhorn-iter", *words, "-o", "out.h5", "--force")
            self.assertRegex(done.err, rf", marginals off by \S+ of a total of {total}, cost ")

    def test_a_group_without_a_plan_is_named_in_the_report(self):
        with h5py.File(self.folder / "in.h5", "w") as file:
            file["one/scores"] = np.zeros((3, 3))
            file["two/scores"] = np.array([[0, -INF, -INF], [0, -INF, -INF], [0, 0, 0]])
        self.run_tool("sinkhorn-iter", "--each", "/*", "in.h5", "-o", "out.h5", "--json=out.json",
                      status=4)
        groups = self.report()["result"]["groups"]
        self.assertEqual([group["group"] for group in groups], ["one", "two"])
        self.assertEqual([group["status"] for group in groups], ["converged", "infeasible"])


if __name__ == "__main__":
    unittest.main()
