"""sinkhorn-iter exact: plans and bounds against assignments by brute force, closed forms, and SciPy's linear programme."""

import itertools
import json
import unittest

import numpy as np

from attn import ToolTest

try:
    from scipy.optimize import linear_sum_assignment, linprog
except ImportError:
    linprog = None

INF = np.inf


def problem(random, m, n):
    x, y = random.normal(size=(m, 2)), random.normal(size=(n, 2)) + 0.5
    a, b = random.uniform(0.5, 2, m), random.uniform(0.5, 2, n)
    return ((x[:, None] - y[None]) ** 2).sum(-1), a / a.sum(), b / b.sum(), x, y


class ExactTest(ToolTest):
    SOLVER = "simplex"

    def solve(self, *arguments, status=0):
        self.run_tool("sinkhorn-iter", "exact", "--solver", self.SOLVER, *arguments, "-o", "out.h5", "--force",
                      "--json=out.json", status=status)
        result = json.loads((self.folder / "out.json").read_text())["result"]
        self.assertEqual(result["solver"], self.SOLVER)
        return self.read("out.h5"), result

    def assert_certified(self, got, result, cost, a, b, gap, rounding=1e-10):
        """The plan has its marginals and costs `value`; the potentials prove that no plan costs less than `dual`."""
        plan, f, g = got["plan"], got["row_potential"], got["col_potential"]
        self.assertGreaterEqual(plan.min(), 0)
        self.assert_near("rows", plan.sum(1), a, rounding)
        self.assert_near("columns", plan.sum(0), b, rounding)
        size = np.abs(cost).max()
        self.assertAlmostEqual(result["value"], float((plan * cost).sum()), delta=rounding * size)
        self.assertGreaterEqual((cost + f[:, None] + g).min(), -rounding * size)
        dual = -(a @ f) - (b @ g)
        self.assertAlmostEqual(result["dual"], dual, delta=rounding * size)
        self.assertAlmostEqual(result["gap"], result["value"] - dual, delta=rounding * size)
        self.assertLessEqual(result["gap"], gap * abs(result["value"]) + rounding * size)
        self.assertGreaterEqual(result["gap"], -rounding * size)
        self.assertEqual(result["status"], "converged")

    EMIT = ("--emit", "plan,row_potential,col_potential")


class Numbers(ExactTest):

    def test_assignments_of_few_points(self):
        random = np.random.default_rng(1)
        for n in (1, 2, 5, 6):
            cost = random.uniform(size=(n, n))
            self.write("in.h5", cost=cost)
            got, result = self.solve("in.h5", "--gap", 1e-9, *self.EMIT)
            want = min(sum(cost[i, j] for i, j in enumerate(order)) for order in itertools.permutations(range(n))) / n
            self.assert_certified(got, result, cost, np.full(n, 1 / n), np.full(n, 1 / n), 1e-9)
            self.assertAlmostEqual(result["value"], want, delta=2e-9)
            self.assertLessEqual(result["dual"], want + 1e-12)

    def test_on_a_line(self):
        """The cheapest plan of a convex cost keeps the order."""
        random = np.random.default_rng(2)
        x, y = np.sort(random.normal(size=(65, 1)), axis=0), np.sort(random.normal(size=(65, 1)), axis=0)
        order = random.permutation(65)
        self.write("in.h5", q=x[order], k=y)
        got, result = self.solve("in.h5", "--gap", 1e-6, *self.EMIT)
        want = float(((x - y) ** 2).mean())
        self.assertLessEqual(result["dual"], want + 1e-12)
        self.assertGreaterEqual(result["value"], want - 1e-12)
        self.assert_certified(got, result, (x[order] - y.T) ** 2, np.full(65, 1 / 65), np.full(65, 1 / 65), 1e-6)

    def test_marginals_of_0_and_equal_costs(self):
        cost, a, b, _, _ = problem(np.random.default_rng(3), 9, 7)
        a[2] = b[5] = 0
        a, b = a / a.sum(), b / b.sum()
        cost[2, 1] = cost[4, 5] = INF  # no mass could go there
        self.write("in.h5", cost=cost, a=a, b=b)
        got, result = self.solve("in.h5", self.EMIT[0], self.EMIT[1] + ",dual_grad_a,dual_grad_b")
        self.assert_certified(got, result, np.where(np.isinf(cost), 99, cost), a, b, 1e-4)
        for gradient, potential in (("dual_grad_a", "row_potential"), ("dual_grad_b", "col_potential")):
            self.assertTrue(np.isfinite(got[gradient]).all())
            self.assert_near(gradient, got[gradient], -got[potential], 0)
        with np.errstate(invalid="ignore"):  # where the cost is infinite
            margin = cost + got["row_potential"][:, None] + got["col_potential"]
        self.assert_near("touched", margin.min(0)[5], 0, 1e-12)
        self.assert_near("touched", margin.min(1)[2], 0, 1e-12)
        for constant in (0, 3, -2, -1e30):
            for marginals in ({}, {"a": a, "b": b}):
                shape = (len(a), len(b))
                self.write("in.h5", cost=np.full(shape, float(constant)), **marginals)
                got, result = self.solve("in.h5", *self.EMIT)
                self.assertAlmostEqual(result["value"], constant, delta=1e-12 * max(1, abs(constant)))
                self.assertLess(result["gap"], 1e-12 * max(1, abs(constant)))
                self.assertGreaterEqual(result["gap"], 0)
                self.assert_near("rows", got["plan"].sum(1), marginals.get("a", np.full(9, 1 / 9)), 1e-12)

    def test_the_gap_is_never_negative(self):
        random = np.random.default_rng(14)
        for m, n in ((292, 2), (7, 5), (33, 65)):
            for dtype in (np.float64, np.float32):
                for constant in (1, -0.1, 3e7):
                    self.write("in.h5", cost=np.full((m, n), constant, dtype), a=random.dirichlet(np.ones(m)),
                               b=random.dirichlet(np.ones(n)))
                    _, result = self.solve("in.h5", "--precision", "f64" if dtype is np.float64 else "f32")
                    self.assertGreaterEqual(result["gap"], 0)
                    self.assertLessEqual(result["dual"], result["value"])

    def test_a_least_cost_near_0(self):
        """The gap relative to it cannot be met: that of the rounding of the costs counts."""
        random = np.random.default_rng(36)
        for n in (5, 40):
            x = random.normal(size=(n, 2))
            order = random.permutation(n)
            cost = ((x[:, None] - x[order][None]) ** 2).sum(-1)
            mass = random.uniform(1, 2, n)
            for dtype, rounding in ((np.float64, 1e-14), (np.float32, 1e-6)):
                for data in ({"q": x, "k": x[order]}, {"cost": cost}, {"cost": cost - cost.max()},
                             {"cost": cost, "a": mass, "b": mass[order]}):
                    total = data["a"].sum() if "a" in data else 1
                    self.write("in.h5", **{name: value.astype(dtype) for name, value in data.items()})
                    got, result = self.solve("in.h5", *self.EMIT)
                    least, size = (-cost.max(), cost.max()) if data.get("cost", cost).max() <= 0 else (0, cost.max())
                    floor = rounding * size * total
                    self.assertEqual(result["status"], "converged")
                    self.assertAlmostEqual(result["gap_floor"], floor, delta=1e-3 * floor)
                    self.assertLessEqual(result["gap"], max(1e-4 * abs(result["value"]), 1.001 * floor))
                    self.assertAlmostEqual(result["value"], least * total, delta=2 * floor + 1e-4 * abs(least) * total)
                    if least == 0 and dtype is np.float64:  # in float32 points may be too near to tell
                        matched = np.zeros((n, n))
                        matched[order, np.arange(n)] = data["a"][order] if "a" in data else 1 / n
                        self.assert_near("plan", got["plan"], matched, 1e-6 * total)

    def test_counts_are_masses(self):
        cost, _, _, _, _ = problem(np.random.default_rng(15), 5, 4)
        a, b = np.array([3, 1, 4, 1, 5]), np.array([2, 6, 5, 1])
        self.write("in.h5", cost=cost, a=a.astype(float), b=b.astype(float))
        expected, _ = self.solve("in.h5", *self.EMIT)
        for dtype in (np.int64, np.int32, np.uint8, np.int16, np.uint64):
            self.write("in.h5", cost=cost, a=a.astype(dtype), b=b.astype(dtype))
            got, _ = self.solve("in.h5", *self.EMIT)
            self.assert_same_bits(got, expected, ["plan", "row_potential", "col_potential"])
        self.write("in.h5", cost=cost, a=np.ones(5, bool), b=np.array([2, 1, 1, 1], np.uint8))
        got, _ = self.solve("in.h5", *self.EMIT)
        self.assert_near("rows", got["plan"].sum(1), np.ones(5), 1e-12)
        self.write("in.h5", cost=cost, a=a, b=b + 1)
        self.refused("sinkhorn-iter", "exact", "in.h5", output="none.h5", status=4, says=["a adds up to 14", "b to 18"])
        for wrong in (2**53 + 1, -1):
            self.write("in.h5", cost=cost, a=np.array([wrong, 1, 1, 1, 1]), b=b)
            self.refused("sinkhorn-iter", "exact", "in.h5", output="none.h5", status=3, says=[f"in.h5:/a has {wrong} at [0]", "integers from 0 to 2^53"])

    def test_costs_of_any_size(self):
        """Down to numbers without a leading 1: the plan is that of the same cost in other units."""
        random = np.random.default_rng(11)
        for dtype, exponents in ((np.float64, (-1050, -1000, -600, 900)), (np.float32, (-140, -120, -60, 100))):
            cost = random.integers(1, 500, size=(5, 6)).astype(dtype)
            self.write("in.h5", cost=cost)
            expected, figures = self.solve("in.h5", *self.EMIT)
            for exponent in exponents:
                with self.subTest(dtype=dtype, exponent=exponent):
                    self.write("in.h5", cost=np.ldexp(cost, exponent).astype(dtype))
                    found, result = self.solve("in.h5", *self.EMIT)
                    self.assert_near("plan", found["plan"], expected["plan"], 1e-6)
                    # A denormal number has few digits.
                    delta = 0.01 if exponent in (-1050, -140) else 1e-5 * figures["value"]
                    self.assertAlmostEqual(np.ldexp(result["value"], -exponent), figures["value"], delta=delta)
                    self.assertAlmostEqual(np.ldexp(result["dual"], -exponent), figures["dual"], delta=delta)
                    self.assertEqual(result["status"], "converged")

    def test_no_mass(self):
        self.write("in.h5", cost=np.random.default_rng(13).uniform(size=(2, 5, 5)), a=np.array([[0.2] * 5, [0] * 5]),
                   b=np.array([[0.2] * 5, [0] * 5]))
        _, result = self.solve("in.h5", *self.EMIT)
        self.assertEqual(result["status"], "converged")

    def test_points_that_coincide(self):
        self.write("in.h5", q=np.ones((4, 2)), k=np.ones((4, 2)))
        _, result = self.solve("in.h5", *self.EMIT)
        self.assertEqual((result["value"], result["dual"], result["status"]), (0, 0, "converged"))

    def test_float32(self):
        cost, a, b, _, _ = (x.astype(np.float32) for x in problem(np.random.default_rng(4), 33, 40))
        self.write("in.h5", cost=cost, a=a, b=b)
        got, result = self.solve("in.h5", "--gap", 1e-3, *self.EMIT)
        self.assertEqual(got["plan"].dtype, np.float32)
        b = b.astype(float) * (a.astype(float).sum() / b.astype(float).sum())
        self.assert_certified(got, result, cost.astype(float), a.astype(float), b, 1e-3, 1e-6)

    def test_bits_and_derivatives(self):
        cost, a, b, _, _ = problem(np.random.default_rng(5), 150, 97)
        self.write("in.h5", cost=np.stack([cost, cost ** 2]), a=a, b=b)
        names = ["row_potential", "col_potential", "dual_grad_a", "plan"]
        options = ("--gap", 1e-2, "--emit", ",".join(names))
        want, _ = self.solve("in.h5", *options, "--threads", 1)
        self.assert_near("by a", want["dual_grad_a"], -want["row_potential"], 0)
        for more in (("--threads", 3), ("--memory", "4M")):
            got, _ = self.solve("in.h5", *options, *more)
            self.assert_same_bits(got, want, names)

    def test_derivatives_by_points(self):
        """Of the cost of the plan as it is shown, what the rounding adds included."""
        _, a, b, x, y = problem(np.random.default_rng(8), 33, 20)
        self.write("in.h5", q=x + 10, k=y + 10, a=a, b=b)
        # Few iterations leave much to be added. The derivatives are those of the plan that the potentials define, which
        # carry their rounding: that of scores of 10 over an ε of 1e-3.
        early = (("f64", 1e-11, ("--iterations", 3)), ("f32", 1e-5, ("--iterations", 30)))
        for dtype, bound, more in (("f64", 1e-11, ()), *(early if self.SOLVER == "annealing" else (("f32", 1e-5, ()),))):
            got, _ = self.solve("in.h5", "--precision", dtype, *more, "--emit", "plan,dual_grad_q,dual_grad_k",
                                status=1 if more else 0)
            plan = got["plan"].astype(float)
            self.assert_near("q", got["dual_grad_q"], 2 * (plan.sum(1)[:, None] * x - plan @ y), bound)
            self.assert_near("k", got["dual_grad_k"], 2 * (plan.sum(0)[:, None] * y - plan.T @ x), bound)


class Annealing(Numbers):
    SOLVER = "annealing"

    def test_what_limits_it_is_named(self):
        random = np.random.default_rng(7)
        places = np.linspace(0, 1, 60, dtype=np.float32)[:, None]
        a = random.dirichlet(np.ones(60)).astype(np.float32)
        self.write("in.h5", q=places, k=places, a=a, b=random.permutation(a))
        for options, advice in (((), "rounding of float32 allows; try --precision f64"),
                                (("--iterations", 50), "try a larger --iterations or --gap")):
            done = self.run_tool("sinkhorn-iter", "exact", "in.h5", "--solver", "annealing", "--gap", 1e-5, *options, "-o", "out.h5",
                                 "--force", status=1)
            self.assertIn(advice, done.err)
        self.solve("in.h5", "--gap", 1e-5, "--precision", "f64")

    def test_gaps_that_rounding_does_not_allow(self):
        """The plan keeps its marginals, and the bounds their order."""
        random = np.random.default_rng(12)
        for gap in (1e-7, 1e-9, 1e-12):
            for _ in range(4):
                cost = 30 * random.normal(size=(3, 2))
                a, b = random.uniform(size=3), random.uniform(size=2)
                self.write("in.h5", cost=cost, a=a, b=b * a.sum() / b.sum())
                run = self.run_tool("sinkhorn-iter", "exact", "in.h5", "--solver", "annealing", "--gap", gap, "-o", "out.h5", "--force",
                                    "--json=out.json", status=None)
                result = self.read_json("out.json")["result"]
                self.assertEqual(run.status, 0 if result["relative_gap"] <= gap else 1)
                self.assertLess(result["row_error"] + result["col_error"], 1e-14)
                self.assertGreater(result["gap"], -1e-13)

    def test_it_says_how_far_it_came(self):
        cost, a, b, _, _ = problem(np.random.default_rng(6), 50, 60)
        self.write("in.h5", cost=cost, a=a, b=b)
        _, best = self.solve("in.h5", "--gap", 1e-6)
        for iterations in (1, 10, 50):
            got, result = self.solve("in.h5", "--gap", 1e-12, "--iterations", iterations, *self.EMIT, status=1)
            self.assertEqual((result["status"], result["iterations"]), ("not_converged", iterations))
            # The bounds hold all the same.
            self.assertLessEqual(result["dual"], best["value"] + 1e-12)
            self.assertGreaterEqual(result["value"], best["dual"] - 1e-12)
            self.assert_near("rows", got["plan"].sum(1), a, 1e-12)
        self.assertEqual(self.read("out.h5").attributes["attn_status"], "not_converged")

    def test_a_gap_beyond_the_format(self):
        cost, a, b, _, _ = problem(np.random.default_rng(7), 12, 15)
        for dtype, reached in ((np.float64, 1e-6), (np.float32, 3e-3)):
            self.write("in.h5", cost=cost.astype(dtype), a=a, b=b)
            _, result = self.solve("in.h5", "--precision", "f64" if dtype is np.float64 else "f32", "--gap", 1e-15, status=1)
            self.assertLess(result["iterations"], 100000)
            self.assertLess(result["relative_gap"], reached)


class Simplex(ExactTest):

    def allowed(self, random, m, n):
        """A mask over which a plan with the masses exists, and which many plans cannot use as a whole."""
        plan = random.integers(1, 5, (m, n)) * (random.uniform(size=(m, n)) < 2 / min(m, n))
        plan[np.arange(m), random.integers(0, n, m)] += 1
        plan[random.integers(0, m, n), np.arange(n)] += 1
        mask = (plan > 0) | (random.uniform(size=(m, n)) < 0.1)
        return mask, plan.sum(1), plan.sum(0)

    def assert_optimal(self, got, result, cost, a, b, rounding=1e-13):
        """Complementary slackness, which proves the optimum."""
        allowed = np.isfinite(cost)
        size, total = np.abs(cost[allowed]).max(), a.sum()
        plan, f, g = got["plan"].astype(float), got["row_potential"], got["col_potential"]
        self.assertEqual(np.abs(plan[~allowed]).max(initial=0), 0)
        self.assert_near("rows", plan.sum(1), a, rounding * total)
        self.assert_near("columns", plan.sum(0), b, rounding * total)
        with np.errstate(invalid="ignore"):
            slack = np.where(allowed, np.where(allowed, cost, 0) + f[:, None] + g, INF)
        size = max(size, np.abs(f[a > 0]).max(), np.abs(g[b > 0]).max())
        self.assertGreaterEqual(slack[a > 0][:, b > 0].min(), -rounding * size)
        self.assertLessEqual(np.abs(slack[plan > 0]).max(), rounding * size)
        self.assertLess((plan > 0).sum(), len(a) + len(b))
        self.assertAlmostEqual(result["value"], (plan * np.where(allowed, cost, 0)).sum(), delta=rounding * size * total)
        self.assertEqual(result["status"], "converged")

    def test_pairs_that_are_left_out(self):
        random = np.random.default_rng(21)
        for m, n in ((1, 1), (1, 5), (7, 7), (12, 31), (40, 33)):
            for dtype, rounding in ((np.float64, 1e-13), (np.float32, 1e-6)):
                for _ in range(4):
                    mask, a, b = self.allowed(random, m, n)
                    cost = random.normal(size=(m, n)).astype(dtype)
                    sparse = np.where(mask, cost, INF).astype(dtype)
                    self.write("in.h5", cost=sparse, a=a, b=b)
                    got, result = self.solve("in.h5", *self.EMIT)
                    self.assert_optimal(got, result, sparse.astype(float), a, b, rounding)
                    self.write("in.h5", cost=cost, mask=mask, a=a, b=b)
                    masked, _ = self.solve("in.h5", *self.EMIT)
                    self.assert_same_bits(masked, got, ["plan", "row_potential", "col_potential"])
                    self.write("in.h5", scores=-sparse, a=a, b=b)
                    scored, figures = self.solve("in.h5", *self.EMIT)
                    self.assert_same_bits(scored, got, ["plan"])
                    self.assertEqual(figures["value"], -result["value"])

    def test_a_band(self):
        """Only one plan exists: each row has one pair that some plan can use."""
        n = 50
        cost = np.where(np.tri(n, dtype=bool), np.random.default_rng(22).normal(size=(n, n)), INF)
        self.write("in.h5", cost=cost)
        got, result = self.solve("in.h5", *self.EMIT)
        self.assertAlmostEqual(result["value"], np.diag(cost).mean(), delta=1e-14)
        self.assert_near("plan", got["plan"], np.eye(n) / n, 0)
        self.assert_optimal(got, result, cost, np.full(n, 1 / n), np.full(n, 1 / n))

    def test_masses_on_a_line(self):
        """The cheapest plan pairs quantiles. Counts have many equal partial sums, and some are 0."""
        random = np.random.default_rng(23)
        for m, n in ((1, 3), (40, 40), (64, 17), (5, 300)):
            x, y = np.sort(random.normal(size=m)), np.sort(random.normal(size=n))
            a = random.integers(0, 4, m) + (np.arange(m) == 0)
            b = random.multinomial(a.sum(), np.full(n, 1 / n))
            want = ((np.repeat(x, a) - np.repeat(y, b)) ** 2).sum()
            self.write("in.h5", q=x[:, None], k=y[:, None], a=a, b=b)
            got, result = self.solve("in.h5", *self.EMIT)
            self.assertAlmostEqual(result["value"], want, delta=1e-12 * (1 + want))
            self.assert_optimal(got, result, (x[:, None] - y) ** 2, a, b)
            self.assertTrue(np.isfinite(got["row_potential"]).all() and np.isfinite(got["col_potential"]).all())

    def test_many_points_in_float32(self):
        """Masses and costs are rounded, not the method."""
        random = np.random.default_rng(26)
        n = 300
        x = np.linspace(0, 1, n, dtype=np.float32)
        a = random.lognormal(size=n).astype(np.float32)
        a /= a.sum()
        b = random.permutation(a)
        self.write("in.h5", q=x[:, None], k=x[:, None], a=a, b=b)
        _, result = self.solve("in.h5", "--gap", 1e-6)
        places = np.unique(np.concatenate([np.cumsum(a.astype(float)), np.cumsum(b.astype(float))]))
        masses, middles = np.diff(places, prepend=0), places - np.diff(places, prepend=0) / 2
        quantile = [x.astype(float)[np.minimum(np.searchsorted(np.cumsum(side.astype(float)), middles), n - 1)] for side in (a, b)]
        want = (masses * (quantile[0] - quantile[1]) ** 2).sum()
        self.assertEqual(result["status"], "converged")
        self.assertAlmostEqual(result["value"], want, delta=1e-6)
        self.assertLess(result["gap"], 1e-6 * want)

    def test_masses_that_rounding_keeps_apart(self):
        """What cannot be sent counts as an error of the rows and columns."""
        third = np.float32(1 / 3)
        a, b = np.array([third, 1 - third]), np.array([np.nextafter(third, np.float32(1)), 1 - third])
        self.write("in.h5", cost=np.array([[1, INF], [INF, 1]], np.float32), a=a, b=b.astype(np.float32))
        got, result = self.solve("in.h5", *self.EMIT)
        self.assert_near("plan", got["plan"], np.diag(a), 1e-7)
        self.assertEqual(result["status"], "converged")
        self.assertLess(result["row_error"] + result["col_error"], 2e-7)

    def test_costs_of_very_different_size(self):
        """Prohibitive costs take no digits of the others."""
        random = np.random.default_rng(24)
        for penalty in (1e3, 1e9, 1e15):
            mask, a, b = self.allowed(random, 30, 30)
            cost = random.uniform(1, 2, (30, 30))
            self.write("in.h5", cost=np.where(mask, cost, INF), a=a, b=b)
            _, want = self.solve("in.h5")
            self.write("in.h5", cost=np.where(mask, cost, penalty), a=a, b=b)
            _, got = self.solve("in.h5")
            self.assertAlmostEqual(got["value"], want["value"], delta=1e-12 * want["value"])
            self.assertAlmostEqual(got["dual"], want["value"], delta=1e-10 * want["value"])

    def test_memory_chooses(self):
        cost, a, b, _, _ = problem(np.random.default_rng(25), 600, 700)
        self.write("in.h5", cost=cost, a=a, b=b)
        _, want = self.solve("in.h5")
        values = {}
        for memory in ("6M", "1G"):
            self.run_tool("sinkhorn-iter", "exact", "in.h5", "--memory", memory, "--gap", 1e-2, "-o", "out.h5", "--force", "--json=out.json")
            report = self.read_json("out.json")
            values[report["result"]["solver"]] = report["result"]["value"]
            self.assertEqual(report["params"]["solver"], report["result"]["solver"])
        self.assertEqual(values["simplex"], want["value"])
        self.assertTrue(want["value"] <= values["annealing"] <= 1.01 * want["value"])
        self.refused("sinkhorn-iter", "exact", "in.h5", "--solver", "simplex", "--memory", "6M", output="none.h5", status=6,
                     says="--memory")


@unittest.skipIf(linprog is None, "SciPy (python3-scipy) is not installed")
class AgainstScipy(ExactTest):

    def test_linear_programmes(self):
        random = np.random.default_rng(11)
        for m, n in ((1, 6), (13, 13), (30, 17)):
            cost, a, b, x, y = problem(random, m, n)
            sums = np.vstack([np.kron(np.eye(m), np.ones(n)), np.kron(np.ones(m), np.eye(n))])
            want = linprog(cost.ravel(), A_eq=sums, b_eq=np.concatenate([a, b]), method="highs").fun
            self.write("in.h5", q=x, k=y, a=a, b=b)
            got, result = self.solve("in.h5", "--gap", 1e-6, *self.EMIT)
            self.assert_certified(got, result, cost, a, b, 1e-6)
            self.assertLessEqual(result["dual"], want + 1e-9)
            self.assertGreaterEqual(result["value"], want - 1e-9)

    def test_an_assignment(self):
        cost, _, _, _, _ = problem(np.random.default_rng(12), 200, 200)
        self.write("in.h5", cost=cost)
        _, result = self.solve("in.h5")
        want = cost[linear_sum_assignment(cost)].mean()
        self.assertLessEqual(result["dual"], want + 1e-9)
        self.assertGreaterEqual(result["value"], want - 1e-9)
        self.assertLessEqual(result["value"] - want, 1.01e-4 * want)


class Refused(ExactTest):

    def refuses(self, *arguments, status, says, hint=None, **datasets):
        self.write("in.h5", **datasets)
        self.refused("sinkhorn-iter", "exact", "in.h5", *arguments, status=status, says=says, hint=hint)

    def test_wrong_use(self):
        cost = np.ones((3, 3))
        self.refuses("--epsilon", 1, cost=cost, status=2, says="--epsilon")
        self.refuses("--unbalanced", 1, cost=cost, status=2, says="--unbalanced")
        self.refuses("--gap", 0, cost=cost, status=2, says="--gap is 0")
        self.refuses("--emit", "error", cost=cost, status=2, says="--emit error has no effect with exact")
        self.refuses("--emit", "dual_grad_q", cost=cost, status=2, says="--emit dual_grad_q requires q and k")
        self.refuses("--energy", "dot", q=cost, k=cost, status=2, says="--energy dot is no cost of points")

    def test_problems_without_a_plan(self):
        self.refuses("--solver", "annealing", cost=np.array([[1, INF, 1], [2, 1, 1], [1, 1, 1]]), status=3,
                     says=["in.h5:/cost", "annealing requires a finite cost of every pair with mass"], hint="simplex")
        self.refuses(cost=np.array([[1, INF, INF], [2, INF, INF], [1, 1, 1]]), status=4,
                     says="rows 0, 1 have mass 0.666667, but the 1 column allowed for them has mass 0.333333")
        self.refuses(cost=np.ones((2, 2)), a=[.5, .5], b=[.5, .7], status=4, says="no plan has these marginals",
                     hint="normalise a and b")

    def test_later_tools_do_not_take_its_potentials_for_weights(self):
        self.write("in.h5", q=np.eye(3), k=np.eye(3))
        got, _ = self.solve("in.h5", "--emit", "row_potential,col_potential")
        self.assertNotIn("attn_scheme", got.attributes)
        self.assertNotIn("attn_scale", got.attributes)


if __name__ == "__main__":
    unittest.main()
