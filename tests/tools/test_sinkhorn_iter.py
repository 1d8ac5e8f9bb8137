"""sinkhorn-iter: its numbers against the formulas, its errors, and its reports."""

import unittest

import numpy as np

from attn import ToolTest

INF = np.inf


def log_sum(x, axis):
    largest = np.max(x, axis=axis, keepdims=True)
    largest = np.where(np.isinf(largest), 0, largest)
    with np.errstate(divide="ignore"):
        return np.squeeze(largest, axis) + np.log(np.sum(np.exp(x - largest), axis=axis))


def log_plan(s, f, g):
    """0 for masked entries."""
    closed = np.isinf(f)[:, None] | np.isinf(g)[None]
    with np.errstate(invalid="ignore"):
        return np.where(closed, -INF, s - g[None] - f[:, None])


def iterate(s, a, b, iterations):
    """f, g and the L1 errors of each iteration, by the formulas of MATHEMATICS.md section 2."""
    s = np.asarray(s, np.longdouble)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_a, log_b = np.log(np.asarray(a, np.longdouble)), np.log(np.asarray(b, np.longdouble))
        f, errors = np.where(np.isinf(log_a), -INF, 0), []
        for _ in range(iterations):
            g = log_sum(np.where(np.isinf(f)[:, None], -INF, s - f[:, None]), 0) - log_b
            g = np.where(np.isinf(g), -INF, g)
            f = log_sum(np.where(np.isinf(g)[None], -INF, s - g[None]), 1) - log_a
            f = np.where(np.isinf(f), -INF, f)
            plan = np.exp(log_plan(s, f, g))
            errors.append(np.abs(plan.sum(1) - a).sum() + np.abs(plan.sum(0) - b).sum())
    return f, g, plan, np.array(errors)


def points(random, m, n):
    """Squared distances divided by their maximum, and the points."""
    x, y = random.normal(size=(m, 2)), random.normal(size=(n, 2)) + 1
    cost = ((x[:, None] - y[None]) ** 2).sum(-1)
    scale = np.sqrt(cost.max())
    return cost / cost.max(), x / scale, y / scale


class SinkhornTest(ToolTest):

    def solve(self, *arguments, **more):
        """The bundle, and the JSON report."""
        self.run_tool("sinkhorn-iter", *arguments, "-o", "out.h5", "--force", "--json=out.json",
                      **more)
        return self.read("out.h5"), self.report()

    def report(self):
        import json
        return json.loads((self.folder / "out.json").read_text())


class Numbers(SinkhornTest):

    def test_iterations_follow_the_formulas(self):
        random = np.random.default_rng(1)
        for dtype, bound in ((np.float64, 1e-11), (np.float32, 2e-3)):
            for m, n, epsilon in ((1, 1, 1), (5, 9, 0.3), (60, 41, 0.05), (30, 300, 0.005)):
                with self.subTest(dtype=dtype, m=m, n=n):
                    cost = points(random, m, n)[0].astype(dtype)
                    a, b = random.uniform(0.5, 2, m), random.uniform(0.5, 2, n)
                    a, b = (a / a.sum()).astype(dtype), (b / b.sum()).astype(dtype)
                    self.write("in.h5", cost=cost, a=a, b=b)
                    out, report = self.solve("in.h5", "--epsilon", epsilon, "--iterations", 7,
                                             "--emit", "plan,row_potential,col_potential,error")
                    f, g, plan, errors = iterate(-cost.astype(np.longdouble) / epsilon,
                                                 a.astype(np.longdouble), b.astype(np.longdouble), 7)
                    # Potentials carry roundings of scores of up to 1/epsilon, 7 times.
                    self.assert_near("f", out["row_potential"], f, bound)
                    self.assert_near("g", out["col_potential"], g, bound)
                    self.assert_near("plan", out["plan"], plan, bound * plan.max())
                    self.assert_near("error", out["error"], errors, bound)
                    self.assertEqual(out["plan"].dtype, dtype)
                    result = report["result"]
                    self.assertEqual((result["status"], result["iterations"]), ("done", 7))
                    self.assertAlmostEqual(result["value"], float((plan * cost).sum()),
                                           delta=bound * 2)
                    mass = plan.sum()
                    dual = -epsilon * (np.sum(a * f) + np.sum(b * g) + mass)
                    self.assertAlmostEqual(result["dual"], float(dual), delta=bound * 2)

    def test_default_marginals(self):
        random = np.random.default_rng(2)
        scores = random.normal(size=(6, 4))
        self.write("in.h5", scores=scores)
        out, _ = self.solve("in.h5", "--emit", "plan")
        self.assert_near("rows", out["plan"].sum(1), np.ones(6), 1e-9)
        self.assert_near("columns", out["plan"].sum(0), np.full(4, 1.5), 1e-9)
        self.write("cost.h5", cost=np.abs(scores))
        out, report = self.solve("cost.h5", "--epsilon", 0.5, "--emit", "plan")
        self.assert_near("rows", out["plan"].sum(1), np.full(6, 1 / 6), 1e-9)
        self.assert_near("columns", out["plan"].sum(0), np.full(4, 1 / 4), 1e-9)
        # Only a is given: b has its total.
        self.write("a.h5", scores=scores, a=np.arange(1, 7.0))
        out, _ = self.solve("a.h5", "--emit", "plan")
        self.assert_near("columns", out["plan"].sum(0), np.full(4, 21 / 4), 1e-8)
        self.assertEqual(report["status"], "ok")

    def test_the_certificate(self):
        cost = points(np.random.default_rng(3), 50, 60)[0]
        self.write("in.h5", cost=cost)
        for epsilon in (0.5, 0.02):
            f, g, _, errors = iterate(-cost / epsilon, np.full(50, 1 / 50), np.full(60, 1 / 60), 2000)
            self.assertLess(errors[-1], 1e-8)
            best = -epsilon * (f.mean() + g.mean() + 1)
            for iterations in (1, 3, 100000):
                _, report = self.solve("in.h5", "--epsilon", epsilon, "--iterations", iterations,
                                       "--tolerance", 1e-11, status=None)
                result = report["result"]
                self.assertLessEqual(result["dual"], best + 1e-13)
                self.assertGreaterEqual(result["dual"] + result["gap"], best - 1e-13)
                if iterations == 100000:
                    # At most the error times scores of 1/epsilon and their potentials.
                    self.assertLess(result["gap"], 1e-11 * 10)
                    self.assertEqual(result["status"], "converged")

    def test_points_are_a_cost_by_their_distances(self):
        cost, x, y = points(np.random.default_rng(4), 70, 50)
        self.write("cost.h5", cost=cost)
        self.write("points.h5", q=x, k=y)
        want, by_cost = self.solve("cost.h5", "--epsilon", 0.01, "--iterations", 30)
        got, by_points = self.solve("points.h5", "--epsilon", 0.01, "--iterations", 30)
        # Scores of up to 100, from products.
        self.assert_near("f", got["row_potential"], want["row_potential"], 1e-10)
        self.assert_near("g", got["col_potential"], want["col_potential"], 1e-10)
        self.assertAlmostEqual(by_points["result"]["value"], by_cost["result"]["value"], 11)
        self.assertEqual(by_points["params"]["energy"], "gaussian")

    def test_forbidden_pairs(self):
        random = np.random.default_rng(5)
        cost = random.uniform(size=(20, 20))
        band = np.abs(np.subtract.outer(np.arange(20), np.arange(20))) < 4
        self.write("inf.h5", cost=np.where(band, cost, INF))
        self.write("mask.h5", cost=cost, mask=band)
        want, report = self.solve("inf.h5", "--epsilon", 0.1, "--emit", "plan")
        got, _ = self.solve("mask.h5", "--epsilon", 0.1, "--emit", "plan")
        self.assert_near("plan", got["plan"], want["plan"], 1e-12)
        self.assertTrue((got["plan"][~band] == 0).all())
        self.assert_near("rows", got["plan"].sum(1), np.full(20, 1 / 20), 1e-9)
        # Of second order in an error of 1e-10.
        self.assertLess(report["result"]["gap"], 1e-15)
        self.assertGreaterEqual(report["result"]["gap"], 0)
        _, far = self.solve("inf.h5", "--epsilon", 0.001, "--iterations", 1)
        self.assertIsNone(far["result"]["gap"])

    def test_masked_rows_and_columns(self):
        cost = np.random.default_rng(6).uniform(size=(6, 7))
        a, b = np.full(6, 0.2), np.full(7, 1 / 6)
        a[2] = b[5] = 0
        self.write("in.h5", cost=cost, a=a, b=b)
        out, report = self.solve("in.h5", "--epsilon", 0.1, "--emit",
                                 "plan,row_potential,col_potential")
        self.assertEqual(out["row_potential"][2], -INF)
        self.assertEqual(out["col_potential"][5], -INF)
        self.assert_near("rows", out["plan"].sum(1), a, 1e-9)
        self.assert_near("columns", out["plan"].sum(0), b, 1e-9)
        self.assertGreaterEqual(report["result"]["gap"], 0)


class Identities(SinkhornTest):

    def test_one_iteration_is_dnas_bit_for_bit(self):
        random = np.random.default_rng(11)
        for dtype in (np.float32, np.float64):
            for queries, keys in ((1, 1), (64, 64), (150, 97)):
                q = random.normal(size=(2, queries, 16)).astype(dtype)
                k = random.normal(size=(2, keys, 16)).astype(dtype)
                self.write("in.h5", q=q, k=k, b=np.ones(keys, dtype))
                emit = "row_potential,col_potential"
                want = self.compute("in.h5", "--scheme", "dnas", "--emit", emit + ",weights")
                got, _ = self.solve("in.h5", "--iterations", 1, "--emit", emit + ",plan")
                self.assertEqual(got["plan"].tobytes(), want["weights"].tobytes())
                self.assert_same_bits(got, want, emit.split(","))

    def test_doubly_stochastic(self):
        scores = np.random.default_rng(12).normal(size=(40, 40))
        mask = np.random.default_rng(13).random((40, 40)) < 0.4
        mask |= np.eye(40, dtype=bool) | np.roll(np.eye(40, dtype=bool), 1, axis=1)
        self.write("in.h5", scores=scores, mask=mask)
        out, _ = self.solve("in.h5", "--emit", "plan")
        self.assert_near("rows", out["plan"].sum(1), np.ones(40), 1e-10)
        self.assert_near("columns", out["plan"].sum(0), np.ones(40), 1e-10)

    def test_transposing(self):
        cost = np.random.default_rng(14).uniform(size=(30, 45))
        self.write("one.h5", cost=cost)
        self.write("two.h5", cost=cost.T.copy())
        options = ("--epsilon", 0.1, "--tolerance", 1e-13, "--emit", "plan")
        one, _ = self.solve("one.h5", *options)
        two, _ = self.solve("two.h5", *options)
        self.assert_near("plan", two["plan"], one["plan"].T, 1e-12)

    def test_relaxed_and_annealed_plans_are_the_plan(self):
        cost = points(np.random.default_rng(15), 60, 60)[0]
        self.write("in.h5", cost=cost)
        options = ("--epsilon", 0.002, "--tolerance", 1e-10, "--iterations", 100000, "--emit", "plan")
        want, plain = self.solve("in.h5", *options)
        for more in (("--relax", 1.7), ("--anneal",), ("--anneal", "--relax", 1.5)):
            got, report = self.solve("in.h5", *options, *more)
            # Errors of 1e-10, times the share of the remaining error that one iteration shows.
            self.assert_near("plan", got["plan"], want["plan"], 1e-7)
            self.assertEqual(report["result"]["status"], "converged")
            if "--relax" in more:
                self.assertLess(report["result"]["iterations"], plain["result"]["iterations"])

    def test_a_small_epsilon(self):
        """epsilon is 1e-4 of the largest cost: exp(-C/E) is 0 nearly everywhere."""
        cost = points(np.random.default_rng(16), 50, 50)[0]
        self.write("in.h5", cost=cost)
        out, report = self.solve("in.h5", "--epsilon", 1e-4, "--tolerance", 1e-4, "--iterations",
                                 1000000, "--anneal", "--emit", "plan,row_potential")
        self.assertEqual(report["result"]["status"], "converged")
        self.assertLessEqual(np.abs(out["plan"].sum(1) - 1 / 50).sum()
                             + np.abs(out["plan"].sum(0) - 1 / 50).sum(), 1.001e-4)
        self.assertLess(report["result"]["gap"], 1e-3)


class Batches(SinkhornTest):

    def test_leading_axes_are_independent_problems(self):
        random = np.random.default_rng(21)
        cost = random.uniform(size=(3, 2, 9, 8))
        cost[1, 0] *= 3  # slower
        a = random.uniform(1, 2, (2, 9))
        a /= a.sum(-1, keepdims=True)
        self.write("in.h5", cost=cost, a=a)
        emit = ("--epsilon", 0.1, "--emit", "plan,row_potential,col_potential,error")
        out, report = self.solve("in.h5", *emit)
        result = report["result"]
        self.assertEqual(out["plan"].shape, (3, 2, 9, 8))
        self.assertEqual([p["index"] for p in result["problems"]],
                         [[i, j] for i in range(3) for j in range(2)])
        for i in range(3):
            for j in range(2):
                self.write("one.h5", cost=cost[i, j], a=a[j])
                one, alone = self.solve("one.h5", *emit)
                self.assertEqual(one["plan"].tobytes(), out["plan"][i, j].tobytes())
                steps = alone["result"]["iterations"]
                self.assertEqual(result["problems"][2 * i + j]["iterations"], steps)
                self.assertEqual(one["error"].tobytes(), out["error"][i, j, :steps].tobytes())
                self.assertTrue(np.isnan(out["error"][i, j, steps:]).all())

    def test_neither_threads_nor_memory_change_a_bit(self):
        cost = np.random.default_rng(22).uniform(size=(2, 300, 200)).astype(np.float32)
        self.write("in.h5", cost=cost)
        options = ("--epsilon", 0.01, "--iterations", 20)
        want, _ = self.solve("in.h5", *options, "--threads", 1)
        for more in (("--threads", 3), ("--memory", "3M"), ("--memory", "3M", "--threads", 2)):
            got, _ = self.solve("in.h5", *options, *more)
            self.assert_same_bits(got, want, ["row_potential", "col_potential", "error"])

    def test_groups(self):
        cost = np.random.default_rng(23).uniform(size=(2, 12, 12))
        self.write("in.h5", l0__c=cost[0], l1__c=cost[1])
        out, report = self.solve("in.h5", "--each", "l*", "--map", "cost=c", "--epsilon", 0.1)
        for n in range(2):
            self.write("one.h5", cost=cost[n])
            one, _ = self.solve("one.h5", "--epsilon", 0.1)
            self.assertEqual(one["row_potential"].tobytes(), out[f"l{n}/row_potential"].tobytes())
        self.assertEqual([g["group"] for g in report["result"]["groups"]], ["l0", "l1"])


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
            (["qk.h5", "--epsilon", "1", "--energy", "dot"], "--energy is dot"),
            (["qk.h5", "--epsilon", "1", "--scale", "2"], "--scale"),
            (["scores.h5", "--relax", "2"], "--relax is 2"),
            (["scores.h5", "--anneal", "--iterations", "3"], "--anneal"),
            (["scores.h5", "--iterations", "0"], "--iterations is 0"),
            (["scores.h5", "--emit", "out"], "--emit"),
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
            ("a", [1, 1, 1], "expected float16"),
        ):
            with self.subTest(name=name, values=values):
                self.write("in.h5", cost=good, **{name: values})
                self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, status=3,
                             says=[f"in.h5:/{name}", says])
        self.write("in.h5", x=good)
        self.refused("sinkhorn-iter", "in.h5", status=3, says=["no dataset", "q"])

    def test_beyond_float32(self):
        self.write("in.h5", cost=np.full((2, 2), 1e300))
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--precision", "f32", status=4,
                     says=["in.h5:/cost"], hint="--precision f64")

    def test_memory(self):
        self.write("in.h5", cost=np.ones((2000, 2000)))
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--memory", "64K", status=6,
                     says=["--memory allows"])


class Bundles(SinkhornTest):

    def test_written_datasets(self):
        self.write("in.h5", cost=np.random.default_rng(41).uniform(size=(4, 5)), other=[1, 2])
        out, report = self.solve("in.h5", "--epsilon", 0.25)
        self.assertEqual(set(out), {"cost", "other", "row_potential", "col_potential", "error"})
        self.assertEqual(out.labels["error"], ["iteration"])
        self.assertEqual(out.attributes["attn_scheme"], "sinkhorn")
        self.assertEqual(out.attributes["attn_source"], "cost")
        self.assertEqual(out.attributes["attn_epsilon"], 0.25)
        self.assertEqual([o["name"] for o in report["outputs"]],
                         ["row_potential", "col_potential", "error"])
        only, _ = self.solve("in.h5", "--epsilon", 0.25, "--only", "--emit", "plan")
        self.assertEqual(set(only), {"plan"})

    def test_dry_run(self):
        self.write("in.h5", cost=np.ones((4, 5)))
        done = self.run_tool("sinkhorn-iter", "in.h5", "--epsilon", 1, "--dry-run", "--json")
        result = done.json()["result"]
        self.assertEqual(result["shape"], [4, 5])
        self.assertGreater(result["working_bytes"], 0)

    def test_later_tools_use_the_potentials(self):
        random = np.random.default_rng(42)
        cost, x, y = points(random, 12, 9)
        self.write("cost.h5", cost=cost)
        self.write("points.h5", q=x, k=y)
        self.write("scores.h5", scores=random.normal(size=(12, 9)))
        for name, more in (("cost.h5", ["--epsilon", 0.1]), ("points.h5", ["--epsilon", 0.1]),
                           ("scores.h5", []), ("points.h5", ["--energy", "dot", "--scale", 3])):
            with self.subTest(name=name, more=more):
                self.run_tool("sinkhorn-iter", name, *more, "-o", "s.h5", "--force")
                result = self.stats("s.h5", "--scheme", "stored")["stored"]
                out, _ = self.solve(name, *more, "--emit", "plan")
                sums = out["plan"].sum(0)
                self.assertAlmostEqual(result["col_sum"]["min"], sums.min(), 9)
                self.assertAlmostEqual(result["col_sum"]["max"], sums.max(), 9)


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

    def test_a_group_without_a_plan_is_named_in_the_report(self):
        import h5py
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
