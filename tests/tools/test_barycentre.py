"""sinkhorn-iter barycentre: against a plain iteration, its bounds, differences, and POT."""

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

EXACTLY = ("--tolerance", 1e-12, "--iterations", 20000)


def distances(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def log_sum(x, axis):
    largest = x.max(axis, keepdims=True)
    return np.squeeze(largest, axis) + np.log(np.exp(x - largest).sum(axis))


def plain(cost, histograms, weights, epsilon, iterations=20000):
    """The barycentre and the value sum_k w_k (<P_k, C> + epsilon sum P_k (log P_k - 1)), in the logarithmic domain."""
    s = -cost / epsilon
    with np.errstate(divide="ignore"):
        log_a = np.log(histograms)
    f = np.zeros((len(histograms), len(cost)))
    for _ in range(iterations):
        g = log_sum(s[None] - f[:, :, None], 1) - log_a
        row = log_sum(s[None] - g[:, None], 2)
        log_p = weights @ row
        f = row - log_p
    plans = np.exp(s[None] - g[:, None] - f[:, :, None])
    terms = np.where(plans > 0, plans * (np.log(np.maximum(plans, 1e-300)) - 1), 0)
    return np.exp(log_p), float(weights @ ((plans * cost).sum((1, 2)) + epsilon * terms.sum((1, 2))))


class BarycentreTest(ToolTest):

    def solve(self, *arguments, status=0):
        self.run_tool("sinkhorn-iter", "barycentre", *arguments, "-o", "out.h5", "--force", "--json=out.json", status=status)
        return self.read("out.h5"), json.loads((self.folder / "out.json").read_text())["result"]

    def data(self, seed, m, n, count):
        random = np.random.default_rng(seed)
        a = random.uniform(1, 2, (count, n))
        weights = random.uniform(1, 2, count)
        return {"q": random.normal(size=(m, 2)), "k": random.normal(size=(n, 2)) + 0.5,
                "a": a / a.sum(1, keepdims=True), "histogram_weights": weights / weights.sum()}


class Numbers(BarycentreTest):

    def test_counts_are_masses(self):
        data = self.data(5, 7, 4, 3) | {"a": np.array([[3, 1, 4, 2], [5, 0, 4, 1], [2, 6, 1, 1]]),
                                        "histogram_weights": np.array([1, 2, 1])}
        self.write("in.h5", **(data | {name: data[name].astype(float) for name in ("a", "histogram_weights")}))
        want, _ = self.solve("in.h5", "--epsilon", 1)
        for dtype in (np.int64, np.uint8):
            self.write("in.h5", **(data | {name: data[name].astype(dtype) for name in ("a", "histogram_weights")}))
            got, _ = self.solve("in.h5", "--epsilon", 1)
            self.assert_same_bits(got, want, ["barycentre", "row_potential", "col_potential"])

    def test_points_and_costs(self):
        for m, n, count, epsilon in ((1, 1, 1, 1), (7, 1, 2, 1), (33, 20, 3, 1.5), (65, 66, 2, 2)):
            data = self.data(m, m, n, count)
            if n > 2:
                data["a"][:, 2] = 0
                data["a"] /= data["a"].sum(1, keepdims=True)
            cost = distances(data["q"], data["k"])
            with np.errstate(all="ignore"):
                want, value = plain(cost, data["a"], data["histogram_weights"], epsilon, 3000)
            given = {"a": data["a"], "histogram_weights": 3 * data["histogram_weights"]}
            for inputs in ({**given, "q": data["q"], "k": data["k"]}, {**given, "cost": cost}):
                self.write("in.h5", **inputs)
                got, result = self.solve("in.h5", "--epsilon", epsilon, *EXACTLY)
                self.assert_near("barycentre", got["barycentre"], want, 1e-9)
                for name in ("primal", "dual"):
                    self.assertAlmostEqual(result[name], value, 9)
                self.assertLess(result["gap"], 1e-8)
                self.assertEqual((result["status"], result["histograms"]), ("converged", count))
                self.assertEqual(got["row_potential"].shape, (count, m))
                self.assertEqual(got["col_potential"].shape, (count, n))

    def test_the_plan_is_the_mean_of_plans(self):
        data = self.data(2, 12, 9, 3)
        self.write("in.h5", **data)
        got, result = self.solve("in.h5", "--epsilon", 0.7, "--emit", "plan,barycentre,row_potential,col_potential", *EXACTLY)
        cost = distances(data["q"], data["k"])
        plans = np.exp(-cost / 0.7 - got["col_potential"][:, None] - got["row_potential"][:, :, None])
        mean = np.tensordot(data["histogram_weights"], plans, 1)
        self.assert_near("plan", got["plan"], mean, 1e-12)
        self.assert_near("rows", got["plan"].sum(1), got["barycentre"], 1e-11)
        self.assert_near("columns", plans.sum(1), data["a"], 1e-11)
        self.assertAlmostEqual(result["value"], float((mean * cost).sum()), 10)

    def test_a_weight_of_0_and_one_histogram(self):
        data = self.data(5, 10, 10, 3)
        data["histogram_weights"] = np.array([0.25, 0, 0.75])
        self.write("in.h5", **data)
        options = ("--epsilon", 1, "--emit", "barycentre,dual_grad_a", *EXACTLY)
        got, first = self.solve("in.h5", *options)
        self.write("in.h5", **{**data, "a": data["a"][[0, 2]], "histogram_weights": np.array([1., 3])})
        want, second = self.solve("in.h5", *options)
        self.assert_near("without it", got["barycentre"], want["barycentre"], 1e-13)
        self.assertAlmostEqual(first["dual"], second["dual"], 13)
        self.assertTrue((got["dual_grad_a"][1] == 0).all())
        self.write("in.h5", q=data["q"], k=data["k"], a=data["a"][:1])
        _, alone = self.solve("in.h5", *options)
        self.assertEqual(alone["iterations"], 1)

    def test_few_iterations_are_bounded(self):
        data = self.data(3, 30, 40, 4)
        self.write("in.h5", **data)
        _, best = self.solve("in.h5", "--epsilon", 0.2, *EXACTLY)
        for iterations in (1, 4, 30):
            _, result = self.solve("in.h5", "--epsilon", 0.2, "--iterations", iterations, "--tolerance", 1e-14, status=1)
            self.assertLessEqual(result["dual"], best["dual"] + 1e-12)
            self.assertGreaterEqual(result["dual"] + result["gap"], best["dual"] - 1e-12)
            self.assertEqual(result["iterations"], iterations)

    def test_differences(self):
        data = self.data(13, 4, 3, 2)
        options = ("--epsilon", 0.6, "--tolerance", 1e-13, "--iterations", 20000)
        self.write("in.h5", **data)
        got, _ = self.solve("in.h5", *options, "--emit", "dual_grad_a,dual_grad_q,dual_grad_k,plan")
        cost = distances(data["q"], data["k"])
        step = 1e-5

        def value(**changed):
            self.write("in.h5", **{**data, **changed})
            return self.solve("in.h5", *options)[1]["dual"]

        def check(name, gradient, values, changes, of):
            found = [(gradient * change).sum() for change in changes]
            want = [(value(**{**of, name: values + step * change}) - value(**{**of, name: values - step * change})) / (2 * step)
                    for change in changes]
            self.assert_near(name, np.array(found), np.array(want), 1e-7)

        for name in ("q", "k"):
            check(name, got["dual_grad_" + name], data[name], np.eye(data[name].size).reshape(-1, *data[name].shape), {})
        # Sums of histograms must stay.
        moves = np.zeros((4, 2, 3))
        for n in range(4):
            moves[n, n // 2, n % 2:n % 2 + 2] = 1, -1
        check("a", got["dual_grad_a"], data["a"], moves, {})
        del data["q"], data["k"]
        check("cost", got["plan"], cost, np.eye(12).reshape(-1, 4, 3), {})


class Runs(BarycentreTest):

    def test_float32_threads_shards_and_padding(self):
        data = {name: values.astype(np.float32) for name, values in self.data(4, 66, 40, 3).items()}
        names = ["barycentre", "row_potential", "col_potential", "dual_grad_a", "dual_grad_q", "dual_grad_k", "plan"]
        options = ("--epsilon", 0.9, "--iterations", 3000, "--emit", ",".join(names))
        self.write("one.h5", **data)
        want, _ = self.solve("one.h5", *options, "--threads", 1)
        self.assertEqual(want["dual_grad_q"].dtype, np.float32)
        got, _ = self.solve("one.h5", *options, "--threads", 3)
        self.assert_same_bits(got, want, names)
        padded = {**data, "q": np.stack([data["q"], data["q"][::-1]]), "k": np.stack([data["k"], data["k"]]),
                  "query_length": np.array([66, 9]), "key_length": np.array([40, 12])}
        short = data["a"][:, :12].astype(np.float64)
        short /= short.sum(1, keepdims=True)
        both = np.zeros((2, 3, 40))
        both[0], both[1, :, :12] = data["a"] / data["a"].sum(1, keepdims=True, dtype=np.float64), short
        self.write("both.h5", **{**padded, "a": both})
        whole, result = self.solve("both.h5", *options, "--precision", "f32")
        self.write("in.h5", **{**data, "q": data["q"][::-1][:9], "k": data["k"][:12], "a": short})
        alone, second = self.solve("in.h5", *options, "--precision", "f32")
        self.assertEqual(result["problems"][1]["dual"], second["dual"])
        for name, own in (("barycentre", np.s_[1, :9]), ("row_potential", np.s_[1, :, :9]), ("col_potential", np.s_[1, :, :12]),
                          ("dual_grad_a", np.s_[1, :, :12]), ("dual_grad_q", np.s_[1, :9]), ("plan", np.s_[1, :9, :12])):
            self.assertEqual(whole[name][own].tobytes(), alone[name].tobytes(), name)
        self.assertTrue((whole["barycentre"][1, 9:] == 0).all())
        self.assertTrue(np.isneginf(whole["row_potential"][1, :, 9:]).all())
        self.assertTrue((whole["dual_grad_a"][1, :, 12:] == 0).all())
        for part in (1, 2):
            self.run_tool("sinkhorn-iter", "barycentre", "both.h5", *options, "--precision", "f32", "--shard", f"{part}/2", "-o", "p.h5")
        self.run_tool("tensor-join", *sorted(path.name for path in self.folder.glob("p.0*")), "-o", "joined.h5")
        self.assert_same_bits(self.read("joined.h5"), whole, names)

    def test_results_are_of_no_scheme_and_become_outdated(self):
        self.write("in.h5", **self.data(6, 8, 8, 2))
        self.run_tool("sinkhorn-iter", "barycentre", "in.h5", "--epsilon", 1, "-o", "out.h5")
        self.refused("explain-away-stats", "--scheme", "stored", "out.h5", status=3, output=None)
        np.save(self.folder / "weights.npy", np.array([1., 2]))
        done = self.run_tool("sinkhorn-iter", "barycentre", "out.h5", "--epsilon", 1, "--emit", "col_potential",
                             "-i", "histogram_weights=weights.npy", "-o", "next.h5")
        self.assertIn("barycentre", done.err)
        self.assertNotIn("barycentre", self.read("next.h5"))


class Refused(BarycentreTest):

    def test_wrong_use(self):
        data = self.data(21, 5, 6, 2)
        command = ("sinkhorn-iter", "barycentre", "in.h5", "--epsilon", 1)
        for changed, status, says in (
                ({"a": data["a"][:, :5]}, 3, ["in.h5:/a has shape (2, 5)", "expected (..., K, 6), K histograms"]),
                ({"a": data["a"][0]}, 3, ["expected (..., K, 6), K histograms"]),
                ({"a": -data["a"]}, 3, ["expected finite numbers >= 0"]),
                ({"a": data["a"] * [[1], [2]]}, 4, ["no barycentre: histogram 0 of in.h5:/a adds up to 1, histogram 1 to 2"]),
                ({"histogram_weights": np.ones(3)}, 3, ["in.h5:/histogram_weights", "expected (..., 2)"]),
                ({"histogram_weights": np.zeros(2)}, 3, ["in.h5:/histogram_weights adds up to 0, expected a finite number > 0"]),
                ({"histogram_weights": np.array([1, np.nan])}, 3, ["expected finite numbers >= 0"]),
                ({"mask": np.eye(5, 6, dtype=bool)}, 3, ["a barycentre requires a finite cost of every pair"])):
            self.write("in.h5", **{**data, **changed})
            self.refused(*command, status=status, says=says)
        self.write("in.h5", q=data["q"], k=data["k"])
        self.refused(*command, status=3, says=["no dataset a"])
        self.write("in.h5", **data)
        self.refused(*command, "--emit", "dual_grad_b", status=2, says=["--emit dual_grad_b has no effect with barycentre"])
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--emit", "barycentre", status=2)
        self.refused(*command, "--relax", 1.5, status=2)
        self.refused(*command, "--unbalanced", 1, status=2)


@unittest.skipIf(ot is None, "POT (python3-pot) is not installed")
class AgainstPot(BarycentreTest):

    def test_its_barycenter(self):
        x = np.linspace(0, 1, 50)
        cost = (x[:, None] - x) ** 2
        histograms = np.exp(-(x - np.array([[0.2], [0.5], [0.85]])) ** 2 / np.array([[0.01], [0.02], [0.005]])) + 1e-3
        histograms /= histograms.sum(1, keepdims=True)
        self.write("in.h5", cost=cost, a=histograms)
        got, _ = self.solve("in.h5", "--epsilon", 0.02, *EXACTLY)
        want = ot.barycenter(histograms.T, cost, 0.02, numItermax=20000, stopThr=1e-15)
        self.assert_near("barycentre", got["barycentre"], want, 1e-12)
        weights = np.array([0.5, 0.2, 0.3])
        self.write("in.h5", cost=cost, a=histograms, histogram_weights=weights)
        got, _ = self.solve("in.h5", "--epsilon", 0.02, *EXACTLY)
        settings = {"weights": weights, "numItermax": 20000, "stopThr": 1e-15}
        want = ot.barycenter(histograms.T, cost, 0.02, method="sinkhorn_stabilized", **settings)
        self.assert_near("weighted", got["barycentre"], want, 1e-12)
        # With weights that differ, its usual method begins where sum_k w_k f_k is not 0 and stays there. Its p is a worse one.
        other = ot.barycenter(histograms.T, cost, 0.02, **settings)
        values = []
        for p in (got["barycentre"], other / other.sum()):
            self.write("in.h5", cost=np.broadcast_to(cost, (3, 50, 50)), a=np.broadcast_to(p, (3, 50)), b=histograms)
            self.run_tool("sinkhorn-iter", "in.h5", "--epsilon", 0.02, "-o", "each.h5", "--force", "--json=each.json", "--iterations",
                          20000, "--tolerance", 1e-9)
            values.append(weights @ np.array([each["dual"] for each in self.read_json("each.json")["result"]["problems"]]))
        self.assertLess(values[0], values[1] - 1e-4)


if __name__ == "__main__":
    unittest.main()
