"""sinkhorn-iter barycentre --emit grad_NAME: derivatives through a barycentre, against differences and a dense solution."""

import unittest
import warnings

import numpy as np

from attn import ToolTest
from test_solution_gradients import EXACTLY, STEP, distances, ot, torch


def changes_of(name, values):
    """Directions in which a dataset may change."""
    changes = np.eye(values.size).reshape(-1, *values.shape)
    if name != "a":
        return changes
    # Within each histogram, whose sum must stay, and all of them alike.
    within = [changes[at + 1] - changes[at] for at in range(values.size - 1) if (at + 1) % values.shape[1]]
    return np.array([*within, values])


class BarycentreGradientTest(ToolTest):

    def solve(self, *arguments, status=0):
        done = self.run_tool("sinkhorn-iter", "barycentre", *arguments, "-o", "out.h5", "--force", "--json=out.json", status=status)
        return self.read("out.h5"), self.read_json("out.json")["result"], done

    def problem(self, seed, m, n, count):
        random = np.random.default_rng(seed)
        a = random.uniform(1, 2, (count, n))
        return {"q": random.normal(size=(m, 2)), "k": random.normal(size=(n, 2)) + 0.5, "a": a / a.sum(1, keepdims=True),
                "histogram_weights": random.uniform(1, 2, count)}

    def check(self, data, options, names, limit=1e-8):
        """L = sum h p^2 / 2 along each element, by differences of the fourth order, all moves in one run; and the dual by weights."""
        h = np.random.default_rng(len(data["a"])).normal(size=len(data["cost"] if "cost" in data else data["q"]))
        self.write("in.h5", **data)
        p = self.solve("in.h5", *options)[0]["barycentre"][...]
        self.write("in.h5", **data, grad_barycentre=h * p)
        emitted = ",".join(["grad_" + name for name in names] + ["dual_grad_histogram_weights"])
        got, result, _ = self.solve("in.h5", *options, "--emit", emitted)
        self.assertLessEqual(result["gradient_residual"], 1e-10)
        for name in names:
            values = data[name]
            changes = changes_of(name, values)
            moves = np.array([-2, -1, 1, 2])[:, None].reshape(4, *[1] * changes.ndim) * STEP * changes
            stacked = {other: np.broadcast_to(old, (4, len(changes), *np.shape(old))) for other, old in data.items()}
            stacked[name] = values + moves
            self.write("moved.h5", **stacked)
            moved, report, _ = self.solve("moved.h5", *options)

            def slope(along):
                return (along[0] - 8 * along[1] + 8 * along[2] - along[3]) / (12 * STEP)
            want = slope((h * moved["barycentre"][...] ** 2).sum(-1) / 2)
            have = np.array([(got["grad_" + name] * change).sum() for change in changes])
            self.assert_near(name, have, want, limit * max(1, np.abs(want).max()))
            if name == "histogram_weights":
                dual = np.array([each["dual"] for each in report["problems"]]).reshape(4, -1)
                self.assert_near("dual", got["dual_grad_histogram_weights"], slope(dual), limit)


class Differences(BarycentreGradientTest):

    def test_points(self):
        for m, n, count in ((1, 1, 1), (1, 4, 2), (5, 1, 2), (5, 4, 1), (5, 4, 3)):
            self.check(self.problem(m, m, n, count), ("--epsilon", 0.9, *EXACTLY), ["q", "k", "a", "histogram_weights"])

    def test_a_cost_and_scores(self):
        data = self.problem(2, 4, 5, 2)
        cost = distances(data.pop("q"), data.pop("k"))
        self.check({**data, "cost": cost}, ("--epsilon", 0.8, *EXACTLY), ["cost", "a", "histogram_weights"])
        data["scores"] = -cost
        h = np.arange(4.)
        self.write("in.h5", **data, grad_barycentre=h)
        got = self.solve("in.h5", "--emit", "grad_scores")[0]["grad_scores"][...]
        del data["scores"]
        self.write("in.h5", **data, cost=cost, grad_barycentre=h)
        same = self.solve("in.h5", "--emit", "grad_cost", "--epsilon", 1)[0]["grad_cost"][...]
        self.assert_near("scores", got, -same, 1e-14)

    def test_masses_that_rounding_exceeds(self):
        """What a mass of 1e-30 gains as it grows to 2e-4."""
        x = np.linspace(0, 1, 40)
        a = np.exp(-(x - np.array([[0.2], [0.5], [0.85]])) ** 2 / 0.01)
        a /= a.sum(1, keepdims=True)
        data = {"cost": (x[:, None] - x) ** 2, "a": a, "histogram_weights": np.array([0.5, 0.2, 0.3])}
        h = np.random.default_rng(18).normal(size=40)
        options = ("--epsilon", 0.05, *EXACTLY)
        self.write("in.h5", **data, grad_barycentre=h)
        got, result, _ = self.solve("in.h5", *options, "--emit", "grad_a")
        self.assertLessEqual(result["gradient_residual"], 1e-10)
        change = np.zeros((3, 40))
        change[0, 39], change[0, 8] = 1, -1
        self.write("moved.h5", cost=np.broadcast_to(data["cost"], (3, 40, 40)), histogram_weights=data["histogram_weights"],
                   a=a + STEP * np.arange(3)[:, None, None] * change)
        along = (h * self.solve("moved.h5", *options)[0]["barycentre"][...]).sum(-1)
        self.assertAlmostEqual((got["grad_a"] * change).sum(), (4 * along[1] - along[2] - 3 * along[0]) / (2 * STEP), 4)

    def test_masses_and_weights_of_0(self):
        """From above, as there is nothing below."""
        data = self.problem(3, 5, 4, 3)
        data["a"][1] = [0.5, 0, 0.2, 0.3]
        data["histogram_weights"] = np.array([2, 3., 0])
        h = np.array([0.5, -1, 2, 0.3, -0.2])
        options = ("--epsilon", 0.9, *EXACTLY)
        self.write("in.h5", **data, grad_barycentre=h)
        got, _, _ = self.solve("in.h5", *options, "--emit", "grad_a,grad_histogram_weights,dual_grad_histogram_weights")
        self.assertTrue((got["grad_a"][2] == 0).all())

        def slope(name, change):
            steps = STEP * np.arange(3).reshape(3, *[1] * change.ndim)
            stacked = {other: np.broadcast_to(old, (3, *np.shape(old))) for other, old in data.items()}
            stacked[name] = data[name] + steps * change
            self.write("moved.h5", **stacked)
            moved, report, _ = self.solve("moved.h5", *options)
            along = np.stack([(h * moved["barycentre"][...]).sum(-1), [each["dual"] for each in report["problems"]]])
            return (4 * along[:, 1] - along[:, 2] - 3 * along[:, 0]) / (2 * STEP)
        change = np.zeros((3, 4))
        change[1, :2] = -1, 1
        self.assertAlmostEqual((got["grad_a"] * change).sum(), slope("a", change)[0], 6)
        of_number, of_dual = slope("histogram_weights", np.array([0, 0, 1.]))
        self.assertAlmostEqual(got["grad_histogram_weights"][2], of_number, 6)
        self.assertAlmostEqual(got["dual_grad_histogram_weights"][2], of_dual, 6)


class OfAllResults(BarycentreGradientTest):
    """L of p, the mean plan and the potentials, for which sum f_k - sum g_k is the same for all k."""

    RESULTS = "barycentre,plan,row_potential,col_potential"

    def number(self, m, n, count, weights):
        random = np.random.default_rng(m + n + count)
        h, of_plan = random.normal(size=m), random.normal(size=(m, n))
        open_ = (weights > 0)[:, None]
        x, y = random.normal(size=(count, m)) / 10 * open_, random.normal(size=(count, n)) / 10 * open_

        def value(p, plan, f, g):
            return ((h * p).sum(-1) + (of_plan * plan ** 2).sum((-2, -1)) / 2 + (x * f ** 2).sum((-2, -1)) / 2
                    + (y * g ** 2).sum((-2, -1)) / 2)
        return value, lambda p, plan, f, g: {"grad_barycentre": h, "grad_plan": of_plan * plan, "grad_row_potential": x * f,
                                             "grad_col_potential": y * g}

    def results(self, got, weights):
        p, plan, f, g = (got[name][...] for name in self.RESULTS.split(","))
        apart = (f.sum(-1) - g.sum(-1)) / (f.shape[-1] + g.shape[-1])
        weights = weights / weights.sum(-1, keepdims=True)
        shift = (weights * apart).sum(-1, keepdims=True) - apart
        return p, plan, f + shift[..., None], g - shift[..., None]

    def check_all(self, data, options, names, limit=1e-7):
        m, n = data["cost"].shape if "cost" in data else (len(data["q"]), len(data["k"]))
        weights = data["histogram_weights"]
        value, slopes = self.number(m, n, len(data["a"]), weights)
        self.write("in.h5", **data)
        at = self.results(self.solve("in.h5", *options, "--emit", self.RESULTS)[0], weights)
        self.write("in.h5", **data, **slopes(*at))
        got, result, _ = self.solve("in.h5", *options, "--emit", ",".join("grad_" + name for name in names))
        self.assertLessEqual(result["gradient_residual"], 1e-10)
        for name in names:
            values = data[name]
            changes = changes_of(name, values)
            if name == "histogram_weights":
                changes = changes[weights > 0]
            moves = np.array([-2, -1, 1, 2])[:, None].reshape(4, *[1] * changes.ndim) * STEP * changes
            stacked = {other: np.broadcast_to(old, (4, len(changes), *np.shape(old))) for other, old in data.items()}
            stacked[name] = values + moves
            self.write("moved.h5", **stacked)
            moved = self.solve("moved.h5", *options, "--emit", self.RESULTS)[0]
            along = value(*self.results(moved, stacked["histogram_weights"]))
            want = (along[0] - 8 * along[1] + 8 * along[2] - along[3]) / (12 * STEP)
            have = np.array([(got["grad_" + name] * change).sum() for change in changes])
            self.assert_near(name, have, want, limit * max(1, np.abs(want).max()))

    def test_points(self):
        for m, n, count in ((1, 4, 2), (5, 4, 1), (5, 4, 3)):
            self.check_all(self.problem(m, m, n, count), ("--epsilon", 0.9, *EXACTLY), ["q", "k", "a", "histogram_weights"])

    def test_a_cost_and_a_weight_of_0(self):
        data = self.problem(2, 4, 5, 3)
        data["cost"] = distances(data.pop("q"), data.pop("k"))
        data["histogram_weights"][1] = 0
        self.check_all(data, ("--epsilon", 0.8, *EXACTLY), ["cost", "a", "histogram_weights"])
        # From above, of the mean plan and p.
        h, slopes = np.arange(4.), np.random.default_rng(3).normal(size=(4, 5))
        self.write("in.h5", **data, grad_barycentre=h, grad_plan=slopes)
        options = ("--epsilon", 0.8, *EXACTLY, "--emit")
        got = self.solve("in.h5", *options, "grad_histogram_weights")[0]["grad_histogram_weights"][...]
        along = []
        for step in range(3):
            moved = {**data, "histogram_weights": data["histogram_weights"] + step * STEP * np.array([0, 1, 0])}
            self.write("moved.h5", **moved)
            at = self.solve("moved.h5", *options, "plan,barycentre")[0]
            along.append((h * at["barycentre"]).sum() + (slopes * at["plan"]).sum())
        self.assertAlmostEqual(got[1], (4 * along[1] - along[2] - 3 * along[0]) / (2 * STEP), 6)

    def test_masses_of_0(self):
        data = self.problem(4, 5, 4, 2)
        data["a"][1] = [0.5, 0, 0.2, 0.3]
        x = np.zeros((2, 4))
        self.write("in.h5", **data, grad_plan=np.ones((5, 4)), grad_col_potential=x)
        options = ("--epsilon", 0.9, *EXACTLY, "--emit")
        # The sum of the plan stays.
        self.assertLess(np.ptp(self.solve("in.h5", *options, "grad_a")[0]["grad_a"], axis=1).max(), 1e-8)
        x[1, 1] = 2
        self.write("in.h5", **data, grad_col_potential=x)
        self.assertEqual(self.solve("in.h5", *options, "grad_a")[0]["grad_a"][1, 1], -np.inf)

    def test_refused(self):
        data = self.problem(5, 3, 4, 2)
        data["histogram_weights"] = np.array([1., 0])
        command = ("sinkhorn-iter", "barycentre", "in.h5", "--epsilon", 1, "--emit", "grad_a")
        for given, says in (
                ({"grad_row_potential": np.ones((2, 3))}, "the row potentials of histogram 1, whose weight is 0"),
                ({"grad_col_potential": np.ones((2, 4))}, "the column potentials of histogram 1"),
                ({"grad_row_potential": np.ones(3)}, "expected (..., 2, 3)"),
                ({"grad_col_potential": np.ones((3, 4))}, "in.h5:/grad_col_potential has shape (3, 4), expected (..., 2, 4)"),
                ({"grad_row_potential": np.array([[0, np.nan, 0], [0, 0, 0]])}, "has nan at [0, 1]"),
                ({"grad_plan": np.ones((4, 3))}, "in.h5:/grad_plan has shape (4, 3)")):
            self.write("in.h5", **data, **given)
            self.refused(*command, status=3, says=[says])


class Runs(BarycentreGradientTest):

    NAMES = ["grad_a", "grad_histogram_weights", "grad_q", "grad_k"]

    def test_dense_solution_float32_and_threads(self):
        m, n, count = 66, 40, 3
        data = {name: values.astype(np.float32) for name, values in self.problem(11, m, n, count).items()}
        h = np.random.default_rng(12).normal(size=m)
        self.write("in.h5", **data, grad_barycentre=h)
        options = ("--epsilon", 1, "--iterations", 3000, "--tolerance", 1e-5, "--emit",
                   ",".join(self.NAMES + ["barycentre", "row_potential", "col_potential"]))
        got, _, _ = self.solve("in.h5", *options, "--threads", 1)
        again, _, _ = self.solve("in.h5", *options, "--threads", 3)
        self.assert_same_bits(again, got, self.NAMES)
        cost = distances(data["q"].astype(float), data["k"].astype(float))
        f, g = got["row_potential"][...], got["col_potential"][...]
        plans = np.exp(-cost - g[:, None] - f[:, :, None])
        w = data["histogram_weights"].astype(float)
        total, w = w.sum(), w / w.sum()
        # The equations as they are, of U (K, m), V (K, n) and R (m), with a solution of least squares.
        size = count * (m + n) + m
        system, right = np.zeros((size, size)), np.zeros(size)
        for k in range(count):
            u, v = np.s_[k * m:(k + 1) * m], np.s_[count * m + k * n:count * m + (k + 1) * n]
            system[u, u], system[u, v] = np.diag(plans[k].sum(1)), plans[k]
            system[v, u], system[v, v] = plans[k].T, np.diag(plans[k].sum(0))
            system[u, count * (m + n):] = -np.eye(m)
            system[count * (m + n):, u] = w[k] * np.eye(m)
        right[count * (m + n):] = h
        z = np.linalg.lstsq(system, right, rcond=1e-9)[0]
        u, v, r = z[:count * m].reshape(count, m), z[count * m:count * (m + n)].reshape(count, n), z[count * (m + n):]
        by_a = got["grad_a"] + w[:, None] * v
        self.assert_near("a, up to a constant of each", by_a, np.broadcast_to(by_a.mean(1, keepdims=True), by_a.shape), 1e-4)
        self.assert_near("weights", got["grad_histogram_weights"], f @ r / total, 1e-4)
        slope = (w[:, None, None] * plans * (u[:, :, None] + v[:, None])).sum(0)
        q, k = data["q"].astype(float), data["k"].astype(float)
        self.assert_near("q", got["grad_q"], -2 * (slope.sum(1)[:, None] * q - slope @ k), 1e-4)
        self.assert_near("k", got["grad_k"], -2 * (slope.sum(0)[:, None] * k - slope.T @ q), 1e-4)

    def test_padding_and_shards(self):
        data = self.problem(13, 40, 50, 2)
        short = data["a"][:, :12] / data["a"][:, :12].sum(1, keepdims=True)
        h = np.random.default_rng(14).normal(size=40)
        both = np.zeros((2, 2, 50))
        both[0], both[1, :, :12] = data["a"], short
        weights = data["histogram_weights"]
        self.write("in.h5", q=np.stack([data["q"], data["q"][::-1]]), k=np.stack([data["k"], data["k"]]), a=both,
                   histogram_weights=np.stack([weights, weights]), grad_barycentre=h, query_length=np.array([40, 9]),
                   key_length=np.array([50, 12]))
        options = ("--epsilon", 1, "--emit", ",".join(self.NAMES + ["dual_grad_histogram_weights"]))
        whole, result, _ = self.solve("in.h5", *options)
        self.write("short.h5", q=data["q"][::-1][:9], k=data["k"][:12], a=short, histogram_weights=weights, grad_barycentre=h[:9])
        alone, second, _ = self.solve("short.h5", *options)
        self.assertEqual(result["problems"][1]["gradient_residual"], second["gradient_residual"])
        for name, own, padding in (("grad_a", np.s_[1, :, :12], np.s_[1, :, 12:]), ("grad_q", np.s_[1, :9], np.s_[1, 9:]),
                                   ("grad_k", np.s_[1, :12], np.s_[1, 12:]), ("grad_histogram_weights", np.s_[1], None),
                                   ("dual_grad_histogram_weights", np.s_[1], None)):
            self.assertEqual(whole[name][own].tobytes(), alone[name].tobytes(), name)
            self.assertTrue(padding is None or (whole[name][padding] == 0).all(), name)
        for part in (1, 2):
            self.run_tool("sinkhorn-iter", "barycentre", "in.h5", *options, "--shard", f"{part}/2", "-o", "p.h5")
        self.run_tool("tensor-join", *sorted(path.name for path in self.folder.glob("p.0*")), "-o", "joined.h5")
        self.assert_same_bits(self.read("joined.h5"), whole, self.NAMES)
        # Both problems share the weights: L is one number.
        self.write("in.h5", **{**self.read("in.h5"), "histogram_weights": weights})
        shared, _, _ = self.solve("in.h5", *options)
        self.assertEqual(shared["grad_histogram_weights"].tobytes(), whole["grad_histogram_weights"][...].sum(0).tobytes())
        self.assert_same_bits(shared, whole, ["grad_a", "dual_grad_histogram_weights"])

    def test_the_cost_with_padding_and_several_threads(self):
        cost = distances(*np.random.default_rng(15).normal(size=(2, 2, 70, 2)))
        data = self.problem(15, 70, 70, 3)
        a = data["a"] * (np.arange(70) < 65)
        a /= a.sum(1, keepdims=True)
        self.write("in.h5", cost=cost, a=a, grad_barycentre=np.arange(70) / 70, query_length=np.array([70, 33]),
                   key_length=np.array([65, 65]))
        options = ("--epsilon", 2, "--emit", "grad_cost")
        got, _, _ = self.solve("in.h5", *options, "--threads", 1)
        again, _, _ = self.solve("in.h5", *options, "--threads", 3)
        self.assert_same_bits(again, got, ["grad_cost"])
        self.write("in.h5", cost=cost[1, :33, :65], a=a[:, :65], grad_barycentre=np.arange(33) / 70)
        alone, _, _ = self.solve("in.h5", *options)
        self.assertEqual(got["grad_cost"][1, :33, :65].tobytes(), alone["grad_cost"][...].tobytes())
        self.assertTrue((got["grad_cost"][1, 33:] == 0).all() and (got["grad_cost"][1, :, 65:] == 0).all())
        self.assertTrue((got["grad_cost"][0, :, :65] != 0).all())


class Refused(BarycentreGradientTest):

    def test_wrong_use(self):
        data = self.problem(21, 4, 3, 2)
        command = ("sinkhorn-iter", "barycentre", "in.h5", "--epsilon", 1, "--emit")
        self.write("in.h5", **data)
        self.refused(*command, "grad_a", status=2, says=["--emit grad_a: there is no dataset grad_barycentre, grad_plan, grad_row_potential"],
                     hint="-i grad_barycentre=")
        for given, names, status, says in (
                (np.ones(3), "grad_a", 3, "in.h5:/grad_barycentre has shape (3)"),
                (np.array([1, np.nan, 0, 0]), "grad_a", 3, "in.h5:/grad_barycentre has nan at [1], expected finite numbers"),
                (np.array([1, np.inf, 0, 0]), "grad_a", 3, "expected finite numbers"),
                (np.ones(4), "grad_b", 2, "--emit grad_b has no effect with barycentre"),
                (np.ones(4), "grad_cost", 2, "--emit grad_cost: the scores are not made of a cost")):
            self.write("in.h5", **data, grad_barycentre=given)
            self.refused(*command, names, status=status, says=[says])
        self.write("in.h5", cost=distances(data["q"], data["k"]), a=data["a"], grad_barycentre=np.ones(4))
        self.refused(*command, "grad_q", status=2, says=["--emit grad_q requires q and k"])
        self.refused(*command, "grad_cost", "--checkpoint", "ck", status=2, says=["grad_cost"])
        self.write("in.h5", q=data["q"], k=data["k"], grad_plan=np.ones((4, 3)))
        for name in ("grad_histogram_weights", "dual_grad_histogram_weights"):
            self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--emit", name, status=2,
                         says=[f"--emit {name} has no effect without a verb"])


@unittest.skipIf(ot is None, "POT (python3-pot) or PyTorch (python3-torch) is not installed")
class AgainstPot(BarycentreGradientTest):

    def test_automatic_differentiation_of_its_iterations(self):
        data = self.problem(31, 7, 7, 3)
        cost = distances(data["q"], data["q"])
        tensors = [torch.tensor(values, requires_grad=True) for values in (data["a"], cost)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p = ot.barycenter(tensors[0].T, tensors[1], 0.8, numItermax=3000, stopThr=1e-16)
        h = np.random.default_rng(32).normal(size=7)
        (torch.tensor(h) * p ** 2).sum().backward()
        self.write("in.h5", cost=cost, a=data["a"], grad_barycentre=2 * h * p.detach().numpy())
        got, _, _ = self.solve("in.h5", "--epsilon", 0.8, *EXACTLY, "--emit", "grad_a,grad_cost,barycentre")
        # It takes the cost for symmetric where it is transposed: only changes that keep it so are the same.
        have, want = got["grad_cost"][...], tensors[1].grad.numpy()
        self.assert_near("cost", have + have.T, want + want.T, 1e-9)
        have, want = got["grad_a"][...], tensors[0].grad.numpy()
        self.assert_near("a", have - have.mean(1, keepdims=True), want - want.mean(1, keepdims=True), 1e-9)


if __name__ == "__main__":
    unittest.main()
