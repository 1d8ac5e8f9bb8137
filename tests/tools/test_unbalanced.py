"""sinkhorn-iter --unbalanced: its solution against a plain iteration, against properties of the problem, and against POT."""

import json
import unittest
import warnings

import numpy as np

from attn import ToolTest, sample

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ot
except ImportError:
    ot = None

INF = np.inf


def soft_min(z, axis):
    """-log sum exp(-z); inf where all z are."""
    least = np.min(z, axis=axis, keepdims=True)
    least = np.where(np.isinf(least), 0, least)
    with np.errstate(divide="ignore"):
        return np.squeeze(least, axis) - np.log(np.sum(np.exp(least - z), axis=axis))


def kl(x, y):
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.sum(np.where(x > 0, x * np.log(x / y), 0) - x + y))


def unchanged(before, now):
    """Whether they are equal but for rounding in long double, far below what is asked of float64."""
    finite = np.isfinite(now)
    return np.max(np.abs(now[finite] - before[finite]), initial=0) <= 1e-17 * np.max(np.abs(now)[finite], initial=0)


class Unbalanced:
    """min <C, P> + e sum P (log P - 1) + rho_a KL(P 1, a) + rho_b KL(P' 1, b), in units of the cost.
    With rho_a = inf P 1 = a."""

    def __init__(self, cost, a, b, epsilon, rho_a, rho_b):
        self.cost, self.a, self.b = (np.asarray(x, np.longdouble) for x in (cost, a, b))
        self.epsilon, self.rho_a, self.rho_b = epsilon, rho_a, rho_b

    def iterate(self, most):
        """f, g of the plain iteration without translations, which has the same limit, once an iteration changes nothing."""
        g = np.zeros_like(self.b)
        for _ in range(most):
            f = self.row(g)
            before, g = g, self.col(f)
            if unchanged(before, g):
                break
        return f, g

    def translated(self, iterations, until_unchanged=False):
        """The potentials f, g after that many iterations of the tool, or after the first that changes no g."""
        g, before = self.col(np.where(self.a > 0, 0, -INF)), None
        for n in range(iterations):
            f = self.row(g)
            if n == iterations - 1 or (until_unchanged and before is not None and unchanged(before, g)):
                return f, g
            before = g
            g = self.col(f)
            with np.errstate(over="ignore"):
                masses = [np.sum(np.where(a > 0, a * np.exp(-np.where(a > 0, x, 0) / rho), 0))
                          for a, x, rho in ((self.a, f, self.rho_a), (self.b, g, self.rho_b))]
            g = g - np.log(masses[0] / masses[1]) / (1 / self.rho_a + 1 / self.rho_b)

    def row(self, g):
        with np.errstate(divide="ignore"):
            f = self.epsilon * (np.log(self.a) + soft_min(self.less(g) / self.epsilon, 1))
        return np.where(self.a == 0, -INF, f / (1 + self.epsilon / self.rho_a))

    def col(self, f):
        with np.errstate(divide="ignore"):
            g = self.epsilon * (np.log(self.b) + soft_min(self.less(f[:, None]) / self.epsilon, 0))
        return np.where(self.b == 0, -INF, g / (1 + self.epsilon / self.rho_b))

    def less(self, potential):
        """The cost less a potential; inf where the pair is forbidden, even if the potential is inf."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(self.cost), INF, self.cost - potential)

    def plan(self, f, g):
        with np.errstate(invalid="ignore"):
            return np.exp(-self.less(f[:, None] + g) / self.epsilon)

    def primal(self, plan):
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(plan > 0, plan * (self.cost + self.epsilon * (np.log(plan) - 1)), 0)
        return float(moved.sum()) + sum(
            rho * kl(sums, masses) for rho, sums, masses in ((self.rho_a, plan.sum(1), self.a), (self.rho_b, plan.sum(0), self.b))
            if rho < INF)

    def dual(self, f, g):
        """Where a or b is 0, f or g may be -inf."""
        def side(rho, a, f):
            f = np.where(a > 0, f, 0)
            return np.sum(a * f) if rho == INF else -rho * np.sum(a * np.expm1(-f / rho))
        return float(side(self.rho_a, self.a, f) + side(self.rho_b, self.b, g)
                     - self.epsilon * self.plan(f, g).sum())


def problem(random, m, n, shift=0.5):
    x, y = random.normal(size=(m, 2)), random.normal(size=(n, 2)) + shift
    return ((x[:, None] - y[None]) ** 2).sum(-1), random.uniform(0.5, 2, m) / m, random.uniform(0.5, 3, n) / n


class UnbalancedTest(ToolTest):

    def solve(self, *arguments, status=0):
        self.run_tool("sinkhorn-iter", *arguments, "-o", "out.h5", "--force", "--json=out.json", status=status)
        return self.read("out.h5"), json.loads((self.folder / "out.json").read_text())["result"]


class Numbers(UnbalancedTest):

    def test_the_solution(self):
        random = np.random.default_rng(1)
        for m, n, epsilon, rho in ((1, 1, 1, (1, 1)), (5, 9, 0.3, (1, 0.4)), (60, 41, 0.05, (0.5, 2)),
                                   (30, 130, 0.02, (0.05, 0.05)), (20, 20, 0.03, (5, 1)), (33, 65, 0.5, (1e-3, 10)),
                                   (1, 1, 1, (INF, 1)), (17, 23, 0.3, (INF, 0.4)), (31, 20, 0.05, (2, INF))):
            cost, a, b = problem(random, m, n)
            if INF in rho and m > 1:
                a[3] = b[7] = 0
                cost[:9, 4] = INF
            if m == 60:
                a[3] = b[7] = 0
                cost[5] = INF  # nothing is allowed: the row loses its mass
                cost[:9, 4] = INF
            want = Unbalanced(cost, a, b, epsilon, *rho)
            f, g = want.iterate(5000)
            plan = want.plan(f, g)
            self.write("in.h5", cost=cost, a=a, b=b)
            for more in ((), ("--anneal",), ("--relax", 1.3)):
                with self.subTest(m=m, n=n, epsilon=epsilon, rho=rho, more=more):
                    got, result = self.solve("in.h5", "--epsilon", epsilon, "--unbalanced", f"{rho[0]}:{rho[1]}",
                                             "--tolerance", 1e-12, "--iterations", 20000, "--emit", "plan,row_potential,col_potential", *more)
                    self.assertEqual(result["status"], "converged")
                    self.assert_near("plan", got["plan"], plan, 1e-9 * plan.max())
                    for name, potential, marginal in (("row_potential", f, a), ("col_potential", g, b)):
                        open_ = np.isfinite(potential)
                        self.assert_near(name, -epsilon * got[name][open_], potential[open_], 1e-8 * np.abs(cost[cost < INF]).max())
                        self.assertTrue((got[name][~open_] == -INF).all())
                    value = want.primal(plan)
                    scale = abs(value) + float(a.sum() + b.sum())
                    self.assertAlmostEqual(result["primal"], value, delta=1e-11 * scale)
                    self.assertAlmostEqual(result["dual"], value, delta=1e-11 * scale)
                    self.assertAlmostEqual(result["mass"], float(plan.sum()), delta=1e-11 * scale)
                    self.assertAlmostEqual(result["value"], float((plan * np.where(plan > 0, cost, 0)).sum()), delta=1e-9 * scale)
                    self.assertGreaterEqual(result["gap"], 0)
                    self.assertLess(result["gap"], 1e-10)

    def test_each_iteration(self):
        random = np.random.default_rng(2)
        for dtype, bound in ((np.float64, 1e-10), (np.float32, 3e-4)):
            # Kernels that refer to zero, that are absorbed, and that are out of the format's range.
            for m, n, epsilon, rho, far in ((7, 65, 1, (1, 2), 0), (60, 41, 0.02, (3, 0.4), 0),
                                            (31, 30, 0.004, (0.5, 0.5), 0), (20, 25, 0.1, (0.3, 0.3), 150),
                                            (60, 41, 0.02, (INF, 0.4), 0), (20, 25, 0.1, (0.3, INF), 150)):
                cost, a, b = (x.astype(dtype) for x in problem(random, m, n))
                cost[3] += far
                cost[:, 4] += far
                self.write("in.h5", cost=cost, a=a, b=b)
                plain = Unbalanced(cost, a, b, epsilon, *rho)
                for iterations in (1, 2, 9):
                    with self.subTest(dtype=dtype, m=m, iterations=iterations):
                        f, g = plain.translated(iterations)
                        got, result = self.solve("in.h5", "--epsilon", epsilon, "--unbalanced", f"{rho[0]}:{rho[1]}",
                                                 "--iterations", iterations, "--emit",
                                                 "plan,row_potential,col_potential,error")
                        scale = float(np.abs(cost).max()) * bound
                        self.assert_near("f", -epsilon * got["row_potential"], f, scale)
                        self.assert_near("g", -epsilon * got["col_potential"], g, scale)
                        plan = plain.plan(f, g)
                        sums, calls = ((plan.sum(1), plan.sum(0)),
                                       (plain.a * np.exp(-f / rho[0]), plain.b * np.exp(-g / rho[1])))
                        error = sum(float(np.abs(x - y).sum()) for x, y in zip(sums, calls))
                        size = float(sum(x.sum() for x in (*sums, *calls)))
                        self.assertAlmostEqual(got["error"][-1], error, delta=size * 10 * bound / epsilon)
                        self.assertAlmostEqual(result["mass"], float(plan.sum()), delta=size * 10 * bound / epsilon)
                        self.assertEqual(result["status"], "done")

    def test_the_certificate(self):
        cost, a, b = problem(np.random.default_rng(3), 50, 60)
        for dtype, rounding in ((np.float64, 1e-13), (np.float32, 1e-5)):
            self.write("in.h5", cost=cost.astype(dtype), a=a.astype(dtype), b=b.astype(dtype))
            for epsilon, rho in ((0.5, (1, 1)), (0.05, (3, 0.2)), (0.3, (100, 100))):
                plain = Unbalanced(*(x.astype(dtype) for x in (cost, a, b)), epsilon, *rho)
                best = plain.dual(*plain.translated(4000, until_unchanged=True))
                for iterations in (1, 2, 5, 30, 2000):
                    got, result = self.solve("in.h5", "--epsilon", epsilon, "--unbalanced", f"{rho[0]}:{rho[1]}",
                                             "--iterations", iterations, "--emit", "plan,row_potential,col_potential")
                    self.assertLessEqual(result["dual"], best + rounding)
                    self.assertGreaterEqual(result["dual"] + result["gap"], best - rounding)
                    # The gap is the difference of the primal value of this plan and the dual value.
                    primal = plain.primal(got["plan"].astype(np.longdouble))
                    f, g = (-epsilon * got[name] for name in ("row_potential", "col_potential"))
                    self.assertAlmostEqual(result["primal"], primal, delta=100 * rounding)
                    self.assertAlmostEqual(result["dual"], plain.dual(f, g), delta=100 * rounding)
                    self.assertAlmostEqual(result["gap"], primal - plain.dual(f, g), delta=100 * rounding)
                self.assertLess(result["gap"], rounding)

    def test_the_certificate_of_exact_rows_or_columns(self):
        cost, a, b = problem(np.random.default_rng(3), 50, 60)
        for dtype, rounding in ((np.float64, 1e-13), (np.float32, 1e-5)):
            self.write("in.h5", cost=cost.astype(dtype), a=a.astype(dtype), b=b.astype(dtype))
            for rho, exact in (((INF, 0.2), 1), ((3, INF), 0)):
                plain = Unbalanced(*(x.astype(dtype) for x in (cost, a, b)), 0.05, *rho)
                best = plain.dual(*plain.translated(4000, until_unchanged=True))
                for iterations in (1, 2, 5, 30, 2000):
                    got, result = self.solve("in.h5", "--epsilon", 0.05, "--unbalanced", f"{rho[0]}:{rho[1]}", "--iterations",
                                             iterations, "--emit", "plan,row_potential,col_potential")
                    f, g = (-0.05 * got[name] for name in ("row_potential", "col_potential"))
                    self.assertAlmostEqual(result["dual"], plain.dual(f, g), delta=100 * rounding)
                    self.assertLessEqual(result["dual"], best + rounding)
                    if result["gap"] is None:
                        self.assertLess(iterations, 30)
                        continue
                    # The plan with its exact sums is the plan of the primal.
                    plan = got["plan"].astype(np.longdouble)
                    sums = plan.sum(exact, keepdims=True)
                    primal = plain.primal(plan * (plain.a[:, None] if exact else plain.b) / sums)
                    self.assertGreaterEqual(primal, best - rounding)
                    self.assertAlmostEqual(result["primal"], primal, delta=100 * rounding * max(1, abs(primal)))
                    self.assertAlmostEqual(result["gap"], primal - plain.dual(f, g), delta=100 * rounding * max(1, abs(primal)))
                self.assertLess(result["gap"], 100 * rounding)

    def test_one_pair(self):
        for c, a, b, epsilon, rho_a, rho_b in ((0.7, 1, 2, 0.1, 0.5, 3), (3, 1, 1, 1e-3, 0.1, 0.1), (-3, 2, 5, 2, 1, 1)):
            self.write("in.h5", cost=[[float(c)]], a=[float(a)], b=[float(b)])
            want = np.exp((rho_a * np.log(a) + rho_b * np.log(b) - c) / (epsilon + rho_a + rho_b))
            got, _ = self.solve("in.h5", "--epsilon", epsilon, "--unbalanced", f"{rho_a}:{rho_b}", "--tolerance", 1e-12 * want,
                                "--emit", "plan")
            self.assertAlmostEqual(got["plan"][0, 0] / want, 1, delta=1e-9)


    def test_relaxed_iterations(self):
        """Errors count rows, too, whose sums are then not what they call for; fewer iterations are needed."""
        cost, a, b = problem(np.random.default_rng(4), 40, 50)
        self.write("in.h5", cost=cost, a=a, b=b)
        options = ("--epsilon", 0.1, "--unbalanced", "1:2", "--emit", "plan,error,row_potential,col_potential")
        want, plain = self.solve("in.h5", *options, "--tolerance", 1e-12)
        got, relaxed = self.solve("in.h5", *options, "--tolerance", 1e-12, "--relax", 1.4)
        self.assert_near("plan", got["plan"], want["plan"], 1e-11)
        self.assertLess(relaxed["iterations"], 0.7 * plain["iterations"])
        for iterations in (2, 5):
            got, _ = self.solve("in.h5", *options, "--relax", 1.4, "--iterations", iterations)
            calls = [marginal * np.exp(0.1 * got[name] / rho)
                     for marginal, name, rho in ((a, "row_potential", 1), (b, "col_potential", 2))]
            error = sum(np.abs(got["plan"].sum(1 - n) - calls[n]).sum() for n in range(2))
            self.assertAlmostEqual(got["error"][-1], error, delta=1e-10)


    def test_the_example_of_pots_documentation(self):
        """Printed after a stop at changes of 1e-6."""
        self.write("in.h5", cost=np.array([[0., 1], [1, 0]]), a=[.5, .5], b=[.5, .5])
        got, _ = self.solve("in.h5", "--epsilon", 1, "--unbalanced", 1, "--emit", "plan")
        self.assert_near("plan", got["plan"], np.array([[0.51122823, 0.18807035], [0.18807035, 0.51122823]]), 1e-7)


class Properties(UnbalancedTest):

    def test_large_penalties_give_the_balanced_plan(self):
        cost, a, b = problem(np.random.default_rng(11), 30, 40)
        b *= a.sum() / b.sum()
        self.write("in.h5", cost=cost, a=a, b=b)
        options = ("--epsilon", 0.1, "--tolerance", 1e-11, "--iterations", 20000, "--emit", "plan")
        balanced, exact = self.solve("in.h5", *options)
        apart = []
        for rho in (1e2, 1e4, 1e6):
            # Thanks to translations no more iterations are needed.
            got, result = self.solve("in.h5", *options, "--unbalanced", rho)
            self.assertLess(result["iterations"], 2 * exact["iterations"])
            apart.append(np.abs(got["plan"] - balanced["plan"]).sum())
        # The difference is of first order in 1/rho, for potentials of about 10.
        self.assertLess(apart[2], 1e-4)
        for n in range(2):
            self.assertLess(apart[n + 1], apart[n] / 50)

    def test_an_infinite_penalty_is_the_limit(self):
        cost, a, b = problem(np.random.default_rng(15), 30, 40)
        self.write("in.h5", cost=cost, a=a, b=b)
        options = ("--epsilon", 0.1, "--tolerance", 1e-12, "--iterations", 5000, "--emit", "plan")
        plans = [self.solve("in.h5", *options, "--unbalanced", f"{rho}:0.5")[0]["plan"] for rho in (INF, 1e6, 1e4)]
        self.assert_near("rows", plans[0].sum(1), a, 1e-12)
        apart = [np.abs(plan - plans[0]).sum() for plan in plans[1:]]
        self.assertLess(apart[0], apart[1] / 50)
        self.assertLess(apart[0], 1e-5)

    def test_units_transposition_and_masses(self):
        cost, a, b = problem(np.random.default_rng(12), 33, 20)
        epsilon, rho = 0.2, (1.5, 0.6)

        def plan_of(cost, a, b, epsilon, rho):
            self.write("in.h5", cost=cost, a=a, b=b)
            got, result = self.solve("in.h5", "--epsilon", epsilon, "--unbalanced", f"{rho[0]!r}:{rho[1]!r}",
                                     "--tolerance", 1e-13, "--iterations", 5000, "--emit", "plan")
            return got["plan"], result

        plan, result = plan_of(cost, a, b, epsilon, rho)
        other, scaled = plan_of(7 * cost, a, b, 7 * epsilon, (7 * rho[0], 7 * rho[1]))
        self.assert_near("units", other, plan, 1e-11)
        self.assertAlmostEqual(scaled["dual"], 7 * result["dual"], 9)
        other, _ = plan_of(cost.T.copy(), b, a, epsilon, rho[::-1])
        self.assert_near("transposed", other.T, plan, 1e-11)
        # 3 P has the entropy sum 3 P (log P + log 3 - 1).
        other, scaled = plan_of(cost - epsilon * np.log(3), 3 * a, 3 * b, epsilon, rho)
        self.assert_near("masses", other, 3 * plan, 1e-10)
        self.assertAlmostEqual(scaled["mass"], 3 * result["mass"], 9)

    def test_any_marginals_and_masks_have_a_plan(self):
        mask = np.zeros((4, 5), bool)
        mask[0, :] = mask[:, 0] = True
        mask[3] = False
        self.write("in.h5", cost=np.ones((4, 5)), mask=mask, a=[1., 2, 3, 4], b=[9., 1, 1, 0, 1])
        got, result = self.solve("in.h5", "--epsilon", 0.5, "--unbalanced", 1, "--emit", "plan,row_potential")
        self.assertEqual(result["status"], "converged")
        self.assertTrue((got["plan"][~mask] == 0).all() and (got["plan"][:, 3] == 0).all())
        self.assertGreater(result["mass"], 1)
        self.assertEqual(got["row_potential"][3], -INF)
        # Unless a mass with an exact sum may go nowhere.
        _, result = self.solve("in.h5", "--epsilon", 0.5, "--unbalanced", "1:inf")
        self.assertEqual(result["status"], "converged")
        self.assertAlmostEqual(result["mass"], 12)
        (self.folder / "out.h5").unlink()
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 0.5, "--unbalanced", "inf:1", status=4,
                     says="row 3 has mass 4, but the 0 columns allowed for it have mass 0")

    def test_neither_threads_nor_memory_change_a_bit(self):
        cost, a, b = (x.astype(np.float32) for x in problem(np.random.default_rng(13), 300, 200))
        self.write("in.h5", cost=cost, a=a, b=b)
        options = ("--epsilon", 0.02, "--unbalanced", "1:2", "--iterations", 20)
        want, _ = self.solve("in.h5", *options, "--threads", 1)
        for more in (("--threads", 3), ("--memory", "3M"), ("--memory", "3M", "--threads", 2)):
            got, _ = self.solve("in.h5", *options, *more)
            self.assert_same_bits(got, want, ["row_potential", "col_potential", "error"])

    def test_scores(self):
        """Without --epsilon, penalties are in units of the scores."""
        cost, a, b = problem(np.random.default_rng(14), 9, 7)
        self.write("cost.h5", cost=cost, a=a, b=b)
        self.write("scores.h5", scores=-cost / 0.25, a=a, b=b)
        one, by_cost = self.solve("cost.h5", "--epsilon", 0.25, "--unbalanced", 2, "--emit", "plan")
        two, by_scores = self.solve("scores.h5", "--unbalanced", 8, "--emit", "plan")
        self.assertEqual(one["plan"].tobytes(), two["plan"].tobytes())
        self.assertAlmostEqual(by_cost["dual"], 0.25 * by_scores["dual"], 12)


class Gradients(UnbalancedTest):
    """Derivatives of the dual at the solution against differences of the optimum."""

    OPTIONS = ("--epsilon", 0.3, "--tolerance", 1e-13, "--iterations", 20000)

    def optimum(self, *more, **datasets):
        self.write("in.h5", **datasets)
        return self.solve("in.h5", *self.OPTIONS, *more)[1]["dual"]

    def differences(self, optimum, values, changes):
        """Of optimum(values) along `changes`, central; rounding and truncation are below 1e-8."""
        step = 1e-5
        return np.array([(optimum(values + step * change) - optimum(values - step * change)) / (2 * step)
                         for change in changes])

    def check(self, *more, balanced):
        random = np.random.default_rng(41)
        m, n = 4, 3
        data = {"q": random.normal(size=(m, 2)), "k": random.normal(size=(n, 2)) + 30,
                "a": random.uniform(1, 2, m) / m, "b": random.uniform(1, 2, n) / n}
        data["q"] += 30  # far from the origin
        data["b"] *= data["a"].sum() / data["b"].sum() if balanced else 1
        self.write("in.h5", **data)
        got, _ = self.solve("in.h5", *self.OPTIONS, *more, "--emit",
                            "plan,row_potential,dual_grad_a,dual_grad_b,dual_grad_q,dual_grad_k")
        for name, values in data.items():
            changes = np.eye(values.size).reshape(-1, *values.shape)
            if balanced and values.ndim == 1:
                changes = changes[1:] - changes[:-1]
            changes = sample(changes, 3)
            want = self.differences(lambda x: self.optimum(*more, **{**data, name: x}), values, changes)
            found = np.array([(got["dual_grad_" + name] * change).sum() for change in changes])
            self.assert_near(name, found, want, 1e-7)
            self.assertEqual(got["dual_grad_" + name].shape, values.shape)
        # That by the cost is the plan.
        cost = ((data["q"][:, None] - data["k"]) ** 2).sum(-1)
        by_cost = {"cost": cost, "a": data["a"], "b": data["b"]}
        changes = sample(np.eye(cost.size).reshape(-1, *cost.shape), 5)
        want = self.differences(lambda x: self.optimum(*more, **{**by_cost, "cost": x}), cost, changes)
        self.assert_near("cost", np.array([(got["plan"] * change).sum() for change in changes]), want, 1e-7)

    def test_differences(self):
        self.check("--unbalanced", "0.7:2", balanced=False)
        self.check("--unbalanced", "inf:2", balanced=False)
        self.check(balanced=True)

    def test_other_energies_masks_batches_and_padding(self):
        """The derivative by q of the dual of scores is minus the sum of the plan times those of the scores."""
        random = np.random.default_rng(42)
        q, k = random.normal(size=(2, 3, 9, 5)), random.normal(size=(2, 1, 7, 5))
        mask = random.random((9, 7)) < 0.8
        self.write("in.h5", q=q, k=k, mask=mask, key_length=np.array([7, 4]))
        for dtype, bound in (("f64", 1e-12), ("f32", 1e-5)):
            got, _ = self.solve("in.h5", "--unbalanced", 3, "--energy", "dot", "--scale", 0.5, "--softcap", 4, "--precision", dtype,
                                "--emit", "plan,dual_grad_q,dual_grad_k,dual_grad_a,row_potential")
            energy = 0.5 * q @ np.swapaxes(k, -1, -2)
            slope = -got["plan"] * (1 - np.tanh(energy / 4) ** 2) * 0.5
            self.assert_near("q", got["dual_grad_q"], slope @ k, bound)
            self.assert_near("k", got["dual_grad_k"], np.swapaxes(slope, -1, -2) @ q, bound)
            self.assertTrue((got["dual_grad_k"][1, :, 4:] == 0).all())
            self.assert_near("a", got["dual_grad_a"], 3 * -np.expm1(got["row_potential"] / 3), 1e-12)

    def test_closed_lines(self):
        cost = np.ones((3, 3))
        cost[2] = INF
        self.write("in.h5", cost=cost, a=[0., 1, 1], b=[1., 1, 1])
        got, _ = self.solve("in.h5", "--epsilon", 1, "--unbalanced", 0.25, "--emit", "dual_grad_a")
        self.assertEqual(got["dual_grad_a"][0], -INF)
        # Mass that may go nowhere costs rho.
        self.assertEqual(got["dual_grad_a"][2], 0.25)

    def test_refused(self):
        self.write("in.h5", cost=np.ones((3, 3)))
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--emit", "dual_grad_k", status=2,
                     says="--emit dual_grad_k requires q and k", hint="--emit plan")
        self.write("scores.h5", scores=np.ones((2, 3, 3)))
        self.refused("sinkhorn-iter", "bulk", "scores.h5", "--emit", "dual_grad_a", status=2,
                     says="--emit dual_grad_a has no effect with bulk")


class Refused(UnbalancedTest):

    def test_wrong_options(self):
        self.write("in.h5", cost=np.ones((2, 3)))
        for word in ("inf", "inf:inf"):
            self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--unbalanced", word, status=2,
                         says=f"--unbalanced is {word}: that is the balanced problem", hint="leave out --unbalanced")
        for word in ("0", "-1", "1:", ":1", "1:0", "1:2:3", "-inf", "inf:", "nan", "x"):
            self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, f"--unbalanced={word}", status=2,
                         says=["--unbalanced is " + word, "expected RHO > 0"])
        self.write("scores.h5", scores=np.ones((5, 2, 3)))
        self.refused("sinkhorn-iter", "bulk", "scores.h5", "--unbalanced", 1, status=2, says="--unbalanced")

    def test_penalties_beyond_rounding(self):
        """Potentials grow with the penalties where the sums differ, and their rounding with them."""
        random = np.random.default_rng(26)
        a, b = random.uniform(0.5, 1.5, 6), random.uniform(2, 3, 5)
        for kind in ("f4", "f8"):
            self.write("in.h5", cost=random.uniform(size=(6, 5)).astype(kind), a=a, b=b)
            for rho in ("1e10", "1e16", "1.7e308", "2.2e8"):
                self.refused("sinkhorn-iter", "in.h5", "--epsilon", 0.1, "--unbalanced", rho, status=2,
                             says=[f"--unbalanced is {rho}: RHO RHO/(RHO + RHO) is", "above 1.07e+08 (2^30 epsilon)"],
                             hint="without --unbalanced")
            for rho in ("2.1e8", "1:1e12"):
                _, result = self.solve("in.h5", "--epsilon", 0.1, "--unbalanced", rho)
                self.assertEqual(result["status"], "converged")
            _, result = self.solve("in.h5", "--epsilon", 0.1, "--unbalanced", "2.1e8")
            self.assertAlmostEqual(result["mass"], np.sqrt(a.sum() * b.sum()), delta=1e-5)

    def test_a_plan_out_of_range(self):
        """Costs far below 0, that is rewards, make plans grow like exp(-C/(rho + epsilon))."""
        self.write("in.h5", cost=np.full((3, 3), -100, np.float32))
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 0.5, "--unbalanced", 0.25, status=4,
                     says=["in.h5:/cost", "the plan's sum is more than float32 has room for"])
        self.run_tool("sinkhorn-iter", "in.h5", "--epsilon", 0.5, "--unbalanced", 0.25, "--precision", "f64", "-o", "out.h5",
                      "--tolerance", 1e80)

    def test_an_epsilon_beyond_the_format(self):
        """Potentials of cost/epsilon would have no digits left for the plan."""
        cost, a, b = problem(np.random.default_rng(22), 20, 30)
        self.write("in.h5", cost=cost, a=a, b=b)
        for epsilon in (1e-16, 1e-300):
            self.refused("sinkhorn-iter", "in.h5", "--epsilon", epsilon, "--unbalanced", 1, status=2,
                         says="--unbalanced is 1: ")

    def test_counts_are_masses(self):
        random = np.random.default_rng(25)
        points = {"q": random.normal(size=(3, 2)), "k": random.normal(size=(4, 2))}
        a, b = np.array([3, 0, 7]), np.array([2, 1, 3, 4])
        for verb in ([], ["divergence"]):
            for options in ((), ("--unbalanced", 2)) if not verb else ((),):
                found = []
                for kind in (np.float64, np.int32):
                    self.write("in.h5", **points, a=a.astype(kind), b=b.astype(kind))
                    self.run_tool("sinkhorn-iter", *verb, "in.h5", "--epsilon", 1, *options, "-o", "out.h5", "--force")
                    found.append(self.read("out.h5"))
                self.assert_same_bits(found[1], found[0], ["row_potential", "col_potential"])

    def test_a_large_penalty_with_unequal_sums(self):
        """Rounding of the potentials, which grow with the penalty, keeps the error above the usual tolerance."""
        random = np.random.default_rng(24)
        q, k = random.normal(size=(20, 2)), random.normal(size=(30, 2))
        self.write("in.h5", q=q, k=k, a=np.full(20, 1 / 20), b=np.full(30, 1.3 / 30))
        for rho in (1e5, 1e7, 1e8):
            _, result = self.solve("in.h5", "--epsilon", 0.5, "--unbalanced", rho)
            self.assertEqual(result["status"], "converged")
            largest = rho / 0.5 / 2 * np.log(1.3)
            self.assertAlmostEqual(result["tolerance"], max(1e-10, 4 * 2**-53 * largest * 1.3), delta=1e-16 * largest)
            self.assertLess(result["gap"], 1e-8)
            self.assertAlmostEqual(result["mass"], np.sqrt(1.3), delta=1e-3)
        # A tolerance that is given is kept.
        self.solve("in.h5", "--epsilon", 0.5, "--unbalanced", 1e8, "--tolerance", 1e-10, status=1)

    def test_not_converged(self):
        cost, a, b = problem(np.random.default_rng(21), 30, 30)
        self.write("in.h5", cost=cost, a=a, b=b)
        self.run_tool("sinkhorn-iter", "in.h5", "--epsilon", 1e-3, "--unbalanced", 1, "--tolerance", 1e-12, "--iterations", 4,
                      "-o", "out.h5", status=1)
        self.assertEqual(self.read("out.h5").attributes["attn_status"], "not_converged")


@unittest.skipIf(ot is None, "POT (python3-pot) is not installed")
class AgainstPot(UnbalancedTest):

    def test_its_plan(self):
        for seed, rho in ((31, 1.0), (32, 0.1), (33, 20.0)):
            cost, a, b = problem(np.random.default_rng(seed), 40, 25)
            want, log = ot.sinkhorn_unbalanced(a, b, cost, 0.1, rho, numItermax=20000, stopThr=1e-15, log=True)
            self.write("in.h5", cost=cost, a=a, b=b)
            got, result = self.solve("in.h5", "--epsilon", 0.1, "--unbalanced", rho, "--tolerance", 1e-12,
                                     "--iterations", 5000, "--emit", "plan,row_potential,col_potential")
            self.assert_near("plan", got["plan"], want, 1e-10)
            self.assert_near("u", -got["row_potential"], log["logu"], 1e-8)
            self.assert_near("v", -got["col_potential"], log["logv"], 1e-8)
            self.assertAlmostEqual(result["value"], float((want * cost).sum()), 9)


if __name__ == "__main__":
    unittest.main()
