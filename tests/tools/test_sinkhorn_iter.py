"""sinkhorn-iter: its numbers against the formulas, its errors, and its reports."""

import functools
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
        # The gap is of second order in an error of 1e-10.
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


class Starts(SinkhornTest):

    OPTIONS = ("--epsilon", 0.02, "--emit", "plan,row_potential,col_potential,error")

    def test_a_solution_takes_one_iteration(self):
        for seed, kind, options in ((31, "f8", ()), (32, "f4", ()), (33, "f8", ("--relax", 1.5)),
                                    (34, "f8", ("--unbalanced", 1)), (35, "f8", ("--unbalanced", "inf:1"))):
            with self.subTest(kind=kind, options=options):
                random = np.random.default_rng(seed)
                cost, _, _ = points(random, 19, 23)
                cost[3, :9] = INF
                b = random.uniform(1, 2, (2, 23))
                b[:, 5] = 0  # its potential is -inf
                self.write("in.h5", cost=cost.astype(kind), b=b / b.sum(-1, keepdims=True))
                want, report = self.solve("in.h5", *self.OPTIONS, *options)
                self.assertGreater(report["result"]["iterations"], 5)
                self.run_tool("sinkhorn-iter", "out.h5", *self.OPTIONS, *options, "--start", "stored", "-o", "again.h5",
                              "--force", "--json=out.json")
                again, report = self.read("again.h5"), self.report()
                self.assertEqual(report["params"]["start"], "stored")
                self.assertEqual(report["result"]["iterations"], 1)
                self.assertEqual(report["result"]["status"], "converged")
                for name in ("plan", "row_potential", "col_potential"):
                    self.assert_near(name, again[name], want[name], 1e-9 if kind == "f8" else 2e-4)

    def test_a_constant(self):
        """Potentials are unique up to a constant, unless there are penalties."""
        random = np.random.default_rng(37)
        cost, _, _ = points(random, 15, 21)
        for kind, limit in (("f8", 1e-10), ("f4", 1e-6)):
            b = random.uniform(1, 2, 21)
            data = {"cost": cost.astype(kind), "b": b / b.sum()}
            self.write("in.h5", **data)
            want, report = self.solve("in.h5", *self.OPTIONS)
            self.assertGreater(report["result"]["iterations"], 20)
            for shift in (1e3, -1e6, 1e7):
                self.write("shifted.h5", **data, col_potential=want["col_potential"] + shift)
                got, report = self.solve("shifted.h5", *self.OPTIONS, "--start", "stored")
                self.assertLessEqual(report["result"]["iterations"], 1 if abs(shift) <= 1e6 else 20)
                self.assert_near("plan", got["plan"], want["plan"], 10 * limit)
                self.assertLess(np.abs(got["col_potential"]).max(), 1.001e3 + np.abs(want["col_potential"]).max())
            g = np.full(21, 1e300)
            g[3] = 0
            self.write("shifted.h5", **data, col_potential=g)
            self.refused("sinkhorn-iter", "shifted.h5", "--epsilon", 1, "--start", "stored", status=3, output="other.h5",
                         says="column 3 to start from is 0, expected a number within 2^30 of the mean")
            self.refused("sinkhorn-iter", "shifted.h5", "--epsilon", 1, "--start", "stored", "--unbalanced", 1, status=3, output="other.h5",
                         says="column 0 to start from is 1e+300, expected a number within 2^30, as")

    def test_one_potential_far_away(self):
        self.write("in.h5", cost=np.ones((4, 30)), col_potential=np.where(np.arange(30) == 7, 1e12, 0))
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--start", "stored", status=3,
                     says="column 7 to start from is 1000000000000, expected a number within 2^30 of the mean")

    def test_iterations_go_on(self):
        """Three and four iterations are seven, from any g."""
        random = np.random.default_rng(36)
        cost, _, _ = points(random, 12, 9)
        g = random.normal(size=9)
        self.write("in.h5", cost=cost, a=np.full(12, 1 / 12), b=np.full(9, 1 / 9), col_potential=g)
        options = (*self.OPTIONS, "--start", "stored")
        for source, iterations in (("in.h5", 3), ("part.h5", 4), ("in.h5", 7)):
            got, _ = self.solve(source, *options, "--iterations", iterations)
            if iterations == 3:
                # The next iteration begins with the g after this one.
                s = -cost / 0.02
                after = log_sum(s - got["row_potential"][:, None], 0) + np.log(9)
                self.write("part.h5", cost=cost, a=np.full(12, 1 / 12), b=np.full(9, 1 / 9), col_potential=after)
            if iterations == 4:
                two = got
        self.assert_near("f", got["row_potential"], two["row_potential"], 1e-11)
        self.assert_near("g", got["col_potential"], two["col_potential"], 1e-11)
        plain, _ = self.solve("in.h5", *self.OPTIONS)
        started, _ = self.solve("part.h5", *options)
        self.assert_near("plan", started["plan"], plain["plan"], 1e-10)
        # Starting far away takes longer, but ends at the same plan.
        np.save(self.folder / "far.npy", 300 * g)
        far, _ = self.solve("in.h5", *options, "-i", "col_potential=far.npy")
        self.assert_near("plan", far["plan"], plain["plan"], 1e-9)

    def test_refused(self):
        data = {"cost": np.ones((2, 3)), "b": [1., 2, 0]}
        command = ("sinkhorn-iter", "in.h5", "--epsilon", 1, "--start", "stored")
        for g, says in ((None, "col_potential"), (np.zeros(2), "in.h5:/col_potential has shape (2), expected (..., 3)"),
                        ([0, np.nan, 0], "in.h5:/col_potential has nan at [1], expected finite numbers or -inf"),
                        ([0, INF, 0], "in.h5:/col_potential has inf at [1]"),
                        ([0, -INF, 0], "the potential of column 1 to start from is -inf, expected a number within 2^30")):
            self.write("in.h5", **data, **({} if g is None else {"col_potential": np.array(g, float)}))
            self.refused(*command, status=3, says=says)
        self.write("in.h5", **data, col_potential=np.zeros(3), grad_plan=np.ones((2, 3)))
        self.refused(*command, "--anneal", status=2, says="--start stored has no effect with --anneal")
        self.refused(*command, "--emit", "grad_cost", "--gradient", "unrolled", status=2, says="without --start")
        self.refused("sinkhorn-iter", "exact", "in.h5", "--start", "stored", status=2, says="--start")


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

    def test_one_cost_and_many_histograms(self):
        random = np.random.default_rng(24)
        q = random.normal(size=(6, 2))
        squares = ((q[:, None] - q) ** 2).sum(-1)
        a, b = (x / x.sum(-1, keepdims=True) for x in random.uniform(1, 2, (2, 3, 6)))
        slopes = {"grad_plan": random.normal(size=(6, 6)), "grad_row_potential": random.normal(size=(3, 6))}
        potentials = {name: slopes["grad_row_potential"] for name in ("grad_row_potential", "grad_col_self_potential")}
        many = {"cost": squares, "a": a, "b": b}
        emit = "row_potential,col_potential"
        through = ",grad_a,grad_b,dual_grad_a"
        for data, options in (
                (many, ("--epsilon", 0.3, "--emit", emit + ",plan")),
                ({"cost": squares, "a": a, "b": b[0]}, ("--epsilon", 0.3, "--iterations", 7, "--emit", emit)),
                ({"cost": squares.astype("f4"), "b": b.astype("f4")}, ("--epsilon", 0.3, "--emit", emit)),
                ({"cost": squares, "a": a[:2, None], "b": b}, ("--epsilon", 0.3, "--emit", emit)),
                ({"q": q, "k": q, "a": a, "b": b}, ("--epsilon", 0.3, "--emit", emit + ",dual_grad_q")),
                ({**many, **slopes}, ("--epsilon", 0.3, "--emit", emit + through + ",grad_cost")),
                ({**many, **slopes}, ("--epsilon", 0.3, "--unbalanced", 2, "--emit", emit + through + ",grad_cost")),
                ({"q": q, "k": q, "a": a, "b": b, **slopes}, ("--epsilon", 0.3, "--emit", emit + through + ",grad_k")),
                (many, ("exact", "--emit", emit + ",plan,dual_grad_b")),
                (many, ("exact", "--solver", "annealing", "--emit", emit)),
                ({**many, **potentials}, ("divergence", "--epsilon", 0.3, "--emit", emit + through)),
                ({"cost": squares, "a": np.stack([a, b]), "histogram_weights": random.uniform(size=(2, 3))},
                 ("barycentre", "--epsilon", 0.3, "--emit", emit + ",barycentre"))):
            with self.subTest(data=list(data), options=options):
                self.write("in.h5", **data)
                got, report = self.solve(*options, "in.h5", "--only")
                leading = got["row_potential"].shape[:1 if "barycentre" in options else -1]
                self.assertEqual(len(report["result"]["problems"]), np.prod(leading))
                # The same as for a cost or points of each problem's own, whose derivatives of L are then summed.
                shared = {name: data[name] for name in {"cost", "q", "k"} & data.keys()}
                for name, values in shared.items():
                    data = {**data, name: np.broadcast_to(values, (*leading, *values.shape))}
                self.write("in.h5", **data)
                want, _ = self.solve(*options, "in.h5", "--only")
                for name in shared:
                    if "grad_" + name in got:
                        by_problem = want["grad_" + name].reshape(-1, *shared[name].shape)
                        want["grad_" + name] = functools.reduce(np.add, by_problem, np.zeros(shared[name].shape))
                self.assert_same_bits(got, want)
        self.write("in.h5", **many)
        got, _ = self.solve("in.h5", "--epsilon", 0.3, "--iterations", 9, "--emit", emit)
        for n in range(3):
            f, g, _, _ = iterate(-squares / 0.3, a[n], b[n], 9)
            self.assert_near("f", got["row_potential"][n], f, 1e-11)
            self.assert_near("g", got["col_potential"][n], g, 1e-11)
        self.write("in.h5", cost=squares, a=a[:0])
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 0.3, status=3, says="in.h5:/a has shape (0, 6): an axis is empty",
                     output="other.h5")
        self.write("in.h5", cost=squares, a=a[:2], b=b)
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 0.3, status=3, says="in.h5:/b has leading axes (3), which do not "
                     "broadcast to (2)", output="other.h5")

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


if __name__ == "__main__":
    unittest.main()
