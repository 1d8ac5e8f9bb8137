"""sinkhorn-iter divergence: against a plain iteration, its properties, differences, and POT."""

import json
import unittest
import warnings

import numpy as np

from attn import ToolTest

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ot
except ImportError:
    ot = None


def distances(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def kl(x, y):
    return (x * np.log(x / y) - x + y).sum()


def transport(cost, a, b, epsilon, iterations=3000, rho=np.inf):
    """<P, C> + epsilon KL(P, a b') + rho KL(P 1, a) + rho KL(P' 1, b) and <P, C>, in the logarithmic domain."""
    def soft_min(z, axis):
        least = z.min(axis, keepdims=True)
        return np.squeeze(least, axis) - np.log(np.exp(least - z).sum(axis))
    scaled, log_a, log_b, soft = cost / epsilon, np.log(a), np.log(b), 1 / (1 + epsilon / rho)
    g = np.zeros(len(b))
    for _ in range(iterations):
        f = soft * soft_min(scaled - g - log_b, 1)
        g = soft * soft_min(scaled - f[:, None] - log_a[:, None], 0)
    log_ratio = f[:, None] + g - scaled
    plan = np.exp(log_ratio) * np.outer(a, b)
    product = np.outer(a, b)
    penalty = rho * (kl(plan.sum(1), a) + kl(plan.sum(0), b)) if rho < np.inf else 0
    return (float((plan * cost).sum() + epsilon * (plan * log_ratio - plan + product).sum() + penalty), float((plan * cost).sum()))


def plain(costs, a, b, epsilon, rho=np.inf):
    """The divergence and the sharp one, of the costs between, within a and within b."""
    values = [transport(cost, *masses, epsilon, rho=rho) for cost, masses in zip(costs, ((a, b), (a, a), (b, b)))]
    divergence, sharp = [x - y / 2 - z / 2 for x, y, z in zip(*values)]
    return divergence + epsilon / 2 * (a.sum() - b.sum()) ** 2, sharp


class DivergenceTest(ToolTest):

    def solve(self, *arguments, status=0):
        self.run_tool("sinkhorn-iter", "divergence", *arguments, "-o", "out.h5", "--force", "--json=out.json", status=status)
        return self.read("out.h5"), json.loads((self.folder / "out.json").read_text())["result"]

    def data(self, seed, m, n):
        random = np.random.default_rng(seed)
        a, b = random.uniform(1, 2, m), random.uniform(1, 2, n)
        return {"q": random.normal(size=(m, 2)), "k": random.normal(size=(n, 2)) + 0.5, "a": a / a.sum(), "b": b / b.sum()}


class Numbers(DivergenceTest):

    def test_convention_of_geomloss(self):
        """Half of the squared distances, blur^2 for epsilon, potentials relative to the masses, as the guide says."""
        data, blur = self.data(8, 30, 21), 0.7
        a, b, epsilon = data["a"], data["b"], 2 * blur ** 2
        self.write("in.h5", **data)
        result = self.solve("--epsilon", epsilon, "in.h5", "--only")[1]
        costs = [distances(data[x], data[y]) / 2 for x, y in ("qk", "qq", "kk")]
        self.assert_near("divergence", result["divergence"] / 2, plain(costs, a, b, blur ** 2)[0], 1e-9)
        self.run_tool("sinkhorn-iter", "--epsilon", epsilon, "--emit=row_potential,col_potential", "in.h5", "--only",
                      "-o", "plan.h5")
        found = self.read("plan.h5")
        f, g = (-epsilon * (found[name] + np.log(mass)) / 2
                for name, mass in (("row_potential", a), ("col_potential", b)))
        plan = np.exp((f[:, None] + g - costs[0]) / blur ** 2) * np.outer(a, b)
        self.assert_near("rows", plan.sum(1), a, 1e-9)
        self.assert_near("columns", plan.sum(0), b, 1e-9)

    def test_points(self):
        for m, n, epsilon in ((1, 1, 1), (1, 7, 0.3), (33, 20, 1), (65, 66, 1.5)):
            data = self.data(m, m, n)
            self.write("in.h5", **data)
            q, k, a, b = data.values()
            value, sharp = plain((distances(q, k), distances(q, q), distances(k, k)), a, b, epsilon)
            _, result = self.solve("in.h5", "--epsilon", epsilon, "--tolerance", 1e-11, "--iterations", 20000)
            self.assertAlmostEqual(result["divergence"], value, 9)
            self.assertAlmostEqual(result["sharp_divergence"], sharp, 7)
            self.assertLessEqual(result["lower"], value + 1e-12)
            self.assertGreaterEqual(result["upper"], value - 1e-12)
            self.assertEqual(result["status"], "converged")

    def test_histograms_on_a_common_support(self):
        support = np.linspace(0, 1, 40)[:, None]
        cost = distances(support, support)
        a = np.exp(-(support[:, 0] - 0.3) ** 2 / 0.01)
        b = np.exp(-(support[:, 0] - 0.6) ** 2 / 0.02)
        a, b = a / a.sum(), b / b.sum()
        self.write("in.h5", cost=cost, a=a, b=b)
        _, result = self.solve("in.h5", "--epsilon", 0.05, "--iterations", 20000)
        value, _ = plain((cost, cost, cost), a, b, 0.05)
        self.assertAlmostEqual(result["divergence"], value, 9)

    def test_few_iterations_are_bounded(self):
        data = self.data(3, 30, 40)
        self.write("in.h5", **data)
        _, best = self.solve("in.h5", "--epsilon", 0.1, "--iterations", 20000)
        for iterations in (1, 4, 30):
            _, result = self.solve("in.h5", "--epsilon", 0.1, "--iterations", iterations, "--tolerance", 1e-14, status=1)
            self.assertLessEqual(result["lower"], best["divergence"])
            self.assertGreaterEqual(result["upper"], best["divergence"])
            self.assertEqual(result["iterations"], iterations)

    def test_float32_threads_batches_and_padding(self):
        data = {name: values.astype(np.float32) for name, values in self.data(4, 66, 40).items()}
        data["b"] *= data["a"].sum() / data["b"].sum()
        self.write("one.h5", **data)
        options = ("--epsilon", 0.5, "--emit", "row_potential,dual_grad_q,dual_grad_k,dual_grad_a")
        names = ["row_potential", "dual_grad_q", "dual_grad_k", "dual_grad_a"]
        want, one = self.solve("one.h5", *options, "--threads", 1)
        got, _ = self.solve("one.h5", *options, "--threads", 3)
        self.assert_same_bits(got, want, names)
        padded = {**data, "q": np.stack([data["q"], data["q"][::-1]]), "k": np.stack([data["k"], data["k"]]),
                  "query_length": np.array([66, 9]), "key_length": np.array([40, 12])}
        del padded["a"], padded["b"]
        self.write("in.h5", **padded)
        got, result = self.solve("in.h5", *options)
        self.write("in.h5", q=data["q"][::-1][:9], k=data["k"][:12])
        alone, second = self.solve("in.h5", *options)
        self.assertEqual(result["problems"][1]["divergence"], second["divergence"])
        self.assertEqual(got["dual_grad_q"][1, :9].tobytes(), alone["dual_grad_q"].tobytes())
        self.assertTrue((got["dual_grad_q"][1, 9:] == 0).all())


class Properties(DivergenceTest):

    def test_0_for_equal_measures_and_positive_for_others(self):
        data = self.data(11, 30, 30)
        data["k"], data["b"] = data["q"][::-1], data["a"][::-1]
        self.write("in.h5", **data)
        got, result = self.solve("in.h5", "--epsilon", 0.3, "--iterations", 20000, "--emit", "dual_grad_q,dual_grad_a")
        self.assertAlmostEqual(result["divergence"], 0, 10)
        self.assert_near("points", got["dual_grad_q"], np.zeros((30, 2)), 1e-8)
        self.assertLess(np.ptp(got["dual_grad_a"]), 1e-7)
        for seed in range(3):
            self.write("in.h5", **self.data(seed, 9, 8))
            _, result = self.solve("in.h5", "--epsilon", 1)
            self.assertGreater(result["lower"], 0)

    def test_large_epsilon_gives_half_the_energy_distance(self):
        data = self.data(12, 20, 25)
        self.write("in.h5", **data)
        _, result = self.solve("in.h5", "--epsilon", 1e5)
        q, k, a, b = data.values()
        limit = a @ distances(q, k) @ b - a @ distances(q, q) @ a / 2 - b @ distances(k, k) @ b / 2
        # Differences are of order cost^2/epsilon.
        self.assertAlmostEqual(result["divergence"], float(limit), 3)

    def test_differences(self):
        data = self.data(13, 4, 3)
        options = ("--epsilon", 0.4, "--tolerance", 1e-13, "--iterations", 20000)
        self.write("in.h5", **data)
        got, _ = self.solve("in.h5", *options, "--emit", "dual_grad_a,dual_grad_b,dual_grad_q,dual_grad_k")
        step = 1e-5

        def value(name, values):
            self.write("in.h5", **{**data, name: values})
            return self.solve("in.h5", *options)[1]["divergence"]

        for name, values in data.items():
            changes = np.eye(values.size).reshape(-1, *values.shape)
            if values.ndim == 1:
                changes = changes[1:] - changes[:-1]
            want = [(value(name, values + step * change) - value(name, values - step * change)) / (2 * step)
                    for change in changes]
            self.assert_near(name, np.array([(got["dual_grad_" + name] * change).sum() for change in changes]), np.array(want), 1e-7)

    def test_a_marginal_of_0_has_a_derivative(self):
        data = self.data(14, 5, 6)
        data["a"] = np.array([0, 0.2, 0.3, 0.1, 0.4])
        options = ("--epsilon", 0.4, "--tolerance", 1e-13, "--iterations", 20000)
        self.write("in.h5", **data)
        got, first = self.solve("in.h5", *options, "--emit", "dual_grad_a")
        step = 1e-8
        self.write("in.h5", **{**data, "a": data["a"] + step * np.array([1, -1, 0, 0, 0])})
        _, second = self.solve("in.h5", *options)
        want = (second["divergence"] - first["divergence"]) / step
        # One-sided, as a is not negative: 1e-13/step of rounding, and what a step changes of the derivative.
        self.assertAlmostEqual(got["dual_grad_a"][0] - got["dual_grad_a"][1], want, delta=1e-4)


class Unbalanced(DivergenceTest):

    OPTIONS = ("--epsilon", 0.4, "--tolerance", 1e-13, "--iterations", 20000)

    def unequal(self, seed, m, n):
        data = self.data(seed, m, n)
        return {**data, "b": 1.7 * data["b"]}

    def test_points_and_histograms(self):
        for m, n, rho in ((1, 1, 1), (1, 5, 0.3), (30, 23, 0.3), (20, 30, 5)):
            data = self.unequal(m, m, n)
            q, k, a, b = (x.astype(np.longdouble) for x in data.values())
            want, _ = plain((distances(q, k), distances(q, q), distances(k, k)), a, b, 0.4, rho)
            for dtype, bound in (("f8", 1e-11), ("f4", 3e-5)):
                self.write("in.h5", **{name: x.astype(dtype) for name, x in data.items()})
                options = self.OPTIONS if dtype == "f8" else ("--epsilon", 0.4)
                _, result = self.solve("in.h5", *options, "--unbalanced", rho)
                self.assertEqual(result["status"], "converged")
                self.assertAlmostEqual(result["divergence"], want, delta=bound)
                self.assertLessEqual(result["lower"] - bound, want)
                self.assertGreaterEqual(result["upper"] + bound, want)
                self.assertIsNone(result["sharp_divergence"])
        cost, a = distances(q, q), np.roll(data["a"], 3) * 2
        open_ = np.arange(20) != 4
        want, _ = plain((cost[open_], cost[open_][:, open_], cost), a[open_], data["a"], 0.4, 0.5)
        self.write("in.h5", cost=cost.astype(float), a=np.where(open_, a, 0), b=data["a"])
        _, result = self.solve("in.h5", *self.OPTIONS, "--unbalanced", 0.5)
        self.assertAlmostEqual(result["divergence"], want, 10)

    def test_the_plan_of_its_potentials(self):
        data = self.unequal(3, 7, 8)
        self.write("in.h5", **data)
        got, result = self.solve("in.h5", *self.OPTIONS, "--unbalanced", 0.6)
        cost = distances(data["q"], data["k"])
        plan = np.exp(-cost / 0.4 - got["row_potential"][:, None] - got["col_potential"])
        self.assertAlmostEqual(result["mass"], plan.sum(), 10)
        self.assertAlmostEqual(result["value"], (plan * cost).sum(), 10)

    def test_0_for_equal_measures_and_the_limit_of_large_penalties(self):
        data = self.unequal(11, 30, 30)
        data["k"], data["b"] = data["q"][::-1], data["a"][::-1]
        self.write("in.h5", **data)
        got, result = self.solve("in.h5", *self.OPTIONS, "--unbalanced", 0.5, "--emit", "dual_grad_q,dual_grad_a")
        self.assertAlmostEqual(result["divergence"], 0, 11)
        self.assert_near("points", got["dual_grad_q"], np.zeros((30, 2)), 1e-8)
        self.assert_near("a", got["dual_grad_a"], np.zeros(30), 1e-8)
        self.write("in.h5", **self.data(5, 9, 8))
        _, balanced = self.solve("in.h5", *self.OPTIONS)
        apart = [abs(self.solve("in.h5", *self.OPTIONS, "--unbalanced", rho)[1]["divergence"] - balanced["divergence"]) for rho in (1e2, 1e4)]
        self.assertLess(apart[1], apart[0] / 50)
        self.assertLess(apart[1], 1e-3)

    def test_differences(self):
        data = self.unequal(13, 4, 3)
        data["a"][1] = 0
        self.write("in.h5", **data)
        options = (*self.OPTIONS, "--unbalanced", 0.8)
        got, first = self.solve("in.h5", *options, "--emit", "dual_grad_a,dual_grad_b,dual_grad_q,dual_grad_k")
        step = 1e-5

        def value(name, values):
            self.write("in.h5", **{**data, name: values})
            return self.solve("in.h5", *options)[1]["divergence"]

        for name, values in data.items():
            found, want = [], []
            for change in np.eye(values.size).reshape(-1, *values.shape):
                found.append((got["dual_grad_" + name] * change).sum())
                if name == "a" and change[1] == 1:
                    # One-sided, of the second order.
                    ahead = [value(name, values + n * step * change) - first["divergence"] for n in (1, 2)]
                    want.append((4 * ahead[0] - ahead[1]) / (2 * step))
                else:
                    want.append((value(name, values + step * change) - value(name, values - step * change)) / (2 * step))
            self.assert_near(name, np.array(found), np.array(want), 2e-7)

    def test_refused(self):
        self.write("in.h5", **self.unequal(1, 3, 4))
        command = ("sinkhorn-iter", "divergence", "in.h5", "--epsilon", 1)
        self.refused(*command, "--unbalanced", "1:2", status=2, says="takes one RHO for a and b")
        self.refused(*command, "--unbalanced", "inf", status=2, says="that is the balanced problem")


class Refused(DivergenceTest):

    def test_wrong_use(self):
        data = self.data(21, 5, 6)
        for more, says in (({"mask": np.ones((5, 6), bool)}, "a mask has no meaning for a divergence"),
                           ({"bias": np.zeros((5, 6))}, "a bias has no meaning")):
            self.write("in.h5", **data, **more)
            self.refused("sinkhorn-iter", "divergence", "in.h5", "--epsilon", 1, status=2, says=says)
        self.write("in.h5", **data)
        self.refused("sinkhorn-iter", "divergence", "in.h5", status=2, says="divergence requires --epsilon E")
        self.refused("sinkhorn-iter", "divergence", "in.h5", "--epsilon", 1, "--window", 2, status=2, says="has no meaning")
        self.refused("sinkhorn-iter", "divergence", "in.h5", "--epsilon", 1, "--emit", "plan", status=2,
                     says="--emit plan has no effect with divergence")
        self.write("in.h5", cost=np.ones((5, 6)))
        self.refused("sinkhorn-iter", "divergence", "in.h5", "--epsilon", 1, status=3, says=["in.h5:/cost", "the square cost of a common support, not 5 x 6"])
        self.write("in.h5", cost=np.array([[0., 1], [2, 0]]))
        self.refused("sinkhorn-iter", "divergence", "in.h5", "--epsilon", 1, status=3,
                     says=["in.h5:/cost", "requires a symmetric cost, but [0, 1] differs from [1, 0]"])
        self.write("in.h5", **{**data, "b": 2 * data["b"]})
        self.refused("sinkhorn-iter", "divergence", "in.h5", "--epsilon", 1, status=4, says="no plan has these marginals")


@unittest.skipIf(ot is None, "POT (python3-pot) is not installed")
class AgainstPot(DivergenceTest):

    def test_its_empirical_divergence_is_the_sharp_one(self):
        data = self.data(31, 40, 30)
        self.write("in.h5", **data)
        _, result = self.solve("in.h5", "--epsilon", 0.5, "--iterations", 20000)
        want = ot.bregman.empirical_sinkhorn_divergence(data["q"], data["k"], 0.5, a=data["a"], b=data["b"], numIterMax=20000,
                                                        stopThr=1e-14)
        self.assertAlmostEqual(result["sharp_divergence"], float(np.squeeze(want)), 8)


if __name__ == "__main__":
    unittest.main()
