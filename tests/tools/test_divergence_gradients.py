"""sinkhorn-iter divergence --emit grad_NAME: derivatives through the potentials of its three problems, against differences."""

import unittest

import numpy as np

from attn import ToolTest
from test_solution_gradients import EXACTLY, STEP, distances

RESULTS = ("row_potential", "col_potential", "row_self_potential", "col_self_potential")


class DivergenceGradientTest(ToolTest):

    def solve(self, *arguments, status=0):
        done = self.run_tool("sinkhorn-iter", "divergence", *arguments, "-o", "out.h5", "--force", "--json=out.json", status=status)
        return self.read("out.h5"), self.read_json("out.json")["result"], done

    def problem(self, seed, m, n):
        random = np.random.default_rng(seed)
        a, b = random.uniform(1, 2, m), random.uniform(1, 2, n)
        return {"q": random.normal(size=(m, 2)), "k": random.normal(size=(n, 2)) + 0.5, "a": a / a.sum(), "b": b / b.sum()}

    def on_a_support(self, seed, n):
        data = self.problem(seed, n, n)
        data["cost"] = distances(data.pop("q"), data.pop("k"))
        data["cost"] = data["cost"] + data["cost"].T
        return data

    def potentials(self, got, balanced=True):
        """With sum f = sum g between both sides; those of a side with itself are unique, as with penalties."""
        f, g, *own = (np.where(np.isinf(got[name][...]), 0, got[name][...]) for name in RESULTS)
        if not balanced:
            return f, g, *own
        apart = (f.sum(-1) - g.sum(-1)) / (f.shape[-1] + g.shape[-1])
        return f - apart[..., None], g + apart[..., None], *own

    def check(self, data, options, names, limit=1e-7, balanced=True):
        """L = sum x z^2 / 2 over all potentials z, by differences of the fourth order, all moves in one run."""
        m, n = len(data["a"]), len(data["b"])
        random = np.random.default_rng(m + n)
        factors = [random.normal(size=length) / 10 for length in (m, n, m, n)]
        self.write("in.h5", **data)
        at = self.potentials(self.solve("in.h5", *options, "--emit", ",".join(RESULTS))[0], balanced)
        self.write("in.h5", **data, **{"grad_" + name: x * z for name, x, z in zip(RESULTS, factors, at)})
        got, result, _ = self.solve("in.h5", *options, "--emit", ",".join("grad_" + name for name in names))
        self.assertLessEqual(result["gradient_residual"], 1e-10)
        for name in names:
            values = data[name]
            changes = np.eye(values.size).reshape(-1, *values.shape)
            if name in ("a", "b") and balanced:
                changes = changes[1:] - changes[:-1]
            if name == "cost":
                changes = np.array([change + change.T for change in changes])
            if len(changes) == 0:
                continue
            moves = np.array([-2, -1, 1, 2])[:, None].reshape(4, *[1] * changes.ndim) * STEP * changes
            stacked = {other: np.broadcast_to(old, (4, len(changes), *np.shape(old))) for other, old in data.items()}
            stacked[name] = values + moves
            self.write("moved.h5", **stacked)
            moved = self.potentials(self.solve("moved.h5", *options, "--emit", ",".join(RESULTS))[0], balanced)
            along = sum((x * z ** 2).sum(-1) / 2 for x, z in zip(factors, moved))
            want = (along[0] - 8 * along[1] + 8 * along[2] - along[3]) / (12 * STEP)
            have = np.array([(got["grad_" + name] * change).sum() for change in changes])
            self.assert_near(name, have, want, limit * max(1, np.abs(want).max()))


class Differences(DivergenceGradientTest):

    def test_points(self):
        for m, n in ((1, 1), (1, 4), (5, 1), (5, 4)):
            self.check(self.problem(m, m, n), ("--epsilon", 0.7, *EXACTLY), ["q", "k", "a", "b"])

    def test_a_common_support(self):
        self.check(self.on_a_support(2, 5), ("--epsilon", 0.9, *EXACTLY), ["cost", "a", "b"])

    def test_unbalanced(self):
        for m, n, rho in ((1, 1, 2), (1, 4, 0.5), (5, 4, 0.8), (5, 4, 20)):
            with self.subTest(m=m, n=n, rho=rho):
                data = self.problem(m + 5, m, n)
                data["b"] *= 1.7
                options = ("--epsilon", 0.7, "--unbalanced", rho, *EXACTLY)
                self.check(data, options, ["q", "k", "a", "b"], balanced=False, limit=1e-6 if rho == 20 else 1e-7)
        data = self.on_a_support(6, 5)
        data["a"] *= 0.6
        self.check(data, ("--epsilon", 0.9, "--unbalanced", 1.3, *EXACTLY), ["cost", "a", "b"], balanced=False)

    def test_unbalanced_masses_of_0(self):
        """L of the other lines' potentials has a derivative; that of the line's own potential, -log a, has none."""
        data = self.problem(7, 5, 4)
        data["a"] = np.array([0, 0.3, 0.2, 0.4, 0.3])
        x, own = np.array([0, 1, -1, 2, -2.]), np.array([0, 0.5, 1, -1, 0.3])
        self.write("in.h5", **data, grad_row_potential=x, grad_row_self_potential=own)
        options = ("--epsilon", 0.7, "--unbalanced", 0.6, *EXACTLY, "--emit")
        got = self.solve("in.h5", *options, "grad_a")[0]["grad_a"][...]
        along, small = [], STEP / 10
        for step in range(3):
            self.write("moved.h5", **{**data, "a": data["a"] + step * small * np.eye(5)[0]})
            moved = self.solve("moved.h5", *options, ",".join(RESULTS))[0]
            along.append(sum(z[1:] @ moved[name][1:] for z, name in ((x, RESULTS[0]), (own, RESULTS[2]))))
        self.assertAlmostEqual(got[0], (4 * along[1] - along[2] - 3 * along[0]) / (2 * small), 4)
        self.write("in.h5", **data, grad_row_self_potential=own - np.eye(5)[0])
        self.assertEqual(self.solve("in.h5", *options, "grad_a")[0]["grad_a"][0], np.inf)
        # Far from its solution, nothing is known of the error.
        got, result, done = self.solve("in.h5", *options[:4], "--iterations", 2, "--emit", "grad_a", status=1)
        self.assertGreater(result["gradient_plan_error"], 1e-5)
        self.assertIsNone(result["gradient_error"])

    def test_the_slope_of_the_unbalanced_divergence(self):
        """L = sum c dS/da, a column of the second derivatives."""
        data = self.problem(8, 6, 5)
        options = ("--epsilon", 0.7, "--unbalanced", 0.9, *EXACTLY, "--emit")
        c = np.random.default_rng(8).normal(size=6)
        # dual_grad_a = (rho + epsilon) (exp(x_aa) - exp(x_ab)) with x = epsilon (f + log a)/rho.
        self.write("in.h5", **data)
        at = self.solve("in.h5", *options, ",".join(RESULTS) + ",dual_grad_a")[0]
        slopes, total = {}, 0
        for name, sign in (("row_self_potential", 1), ("row_potential", -1)):
            grown = sign * 1.6 * np.exp(0.7 * (at[name] + np.log(data["a"])) / 0.9)
            slopes["grad_" + name] = c * grown * 0.7 / 0.9
            total = total + grown
        self.assert_near("S", total, at["dual_grad_a"], 1e-9)
        self.write("in.h5", **data, **slopes)
        got = self.solve("in.h5", *options, "grad_b")[0]["grad_b"][...]
        for n in range(5):
            along = []
            for side in (-1, 1):
                self.write("moved.h5", **{**data, "b": data["b"] + side * STEP * np.eye(5)[n]})
                along.append((c * self.solve("moved.h5", *options, "dual_grad_a")[0]["dual_grad_a"]).sum())
            self.assertAlmostEqual(got[n], (along[1] - along[0]) / (2 * STEP), 5)

    def test_the_slope_of_the_divergence(self):
        """L = sum c (f_ab - f_aa), of the derivatives of S by a: what a Newton step needs, a column of the second derivatives."""
        data = self.problem(3, 6, 5)
        c = np.random.default_rng(3).normal(size=6)
        c -= c.mean()
        self.write("in.h5", **data, grad_row_potential=-0.7 * c, grad_row_self_potential=0.7 * c)
        options = ("--epsilon", 0.7, *EXACTLY, "--emit")
        got = self.solve("in.h5", *options, "grad_a")[0]["grad_a"][...]
        change = np.array([1, -1, 0, 0, 0, 0.])
        along = []
        for side in (-1, 1):
            self.write("moved.h5", **{**data, "a": data["a"] + side * STEP * change})
            along.append((c * self.solve("moved.h5", *options, "dual_grad_a")[0]["dual_grad_a"]).sum())
        self.assertAlmostEqual((got * change).sum(), (along[1] - along[0]) / (2 * STEP), 5)

    def test_masses_of_0(self):
        data = self.problem(4, 5, 4)
        data["a"] = np.array([0, 0.3, 0.2, 0.4, 0.1])
        x, own = np.array([0, 1, -1, 2, -2.]), np.array([0, 0.5, 1, -1, 0.3])
        self.write("in.h5", **data, grad_row_potential=x, grad_row_self_potential=own)
        options = ("--epsilon", 0.7, *EXACTLY, "--emit")
        got = self.solve("in.h5", *options, "grad_a")[0]["grad_a"][...]
        change = np.array([1, -1, 0, 0, 0.])
        along = []
        small = STEP / 10
        for step in range(3):
            self.write("moved.h5", **{**data, "a": data["a"] + step * small * change})
            moved = self.solve("moved.h5", *options, ",".join(RESULTS))[0]
            along.append(sum(z[1:] @ moved[name][1:] for z, name in ((x, RESULTS[0]), (own, RESULTS[2]))))
        self.assertAlmostEqual((got * change).sum(), (4 * along[1] - along[2] - 3 * along[0]) / (2 * small), 4)

    def test_what_cancels_at_a_mass_of_0(self):
        """L = sum c (f_ab - f_aa), without -log a of both, against differences at masses near 0."""
        random = np.random.default_rng(9)
        c = random.normal(size=5)
        c -= c.mean()
        near = 1e-7
        for points, unbalanced in ((True, ()), (True, ("--unbalanced", 0.7)), (False, ()), (False, ("--unbalanced", 0.7))):
            data = self.problem(9, 5, 4) if points else self.on_a_support(9, 5)
            data["a"][0], data["a"][1] = 0, data["a"][0] + data["a"][1]
            if points:
                data["q"][0] = data["q"][1:].mean(0)
            names = ("a", "b", "q", "k") if points else ("a", "b", "cost")
            options = ("--epsilon", 0.7, *unbalanced, *EXACTLY, "--emit")

            def number(**moves):
                self.write("moved.h5", **{name: values + moves.get(name, 0) for name, values in data.items()})
                moved = self.solve("moved.h5", *options, ",".join(RESULTS))[0]
                return c @ (moved["row_potential"][...] - moved["row_self_potential"])
            self.write("in.h5", **data, grad_row_potential=c, grad_row_self_potential=-c)
            got = self.solve("in.h5", *options, ",".join("grad_" + name for name in names))[0]
            more = np.array([1, -1, 0, 0, 0.]) if not unbalanced else np.eye(5)[0]
            along = [number(a=step * STEP * more) for step in (1, 2, 3)]
            self.assertAlmostEqual(got["grad_a"] @ more, (-2.5 * along[0] + 4 * along[1] - 1.5 * along[2]) / STEP, 4)
            for name in names:
                change = random.normal(size=data[name].shape)
                if name == "cost":
                    change += change.T
                if name in ("a", "b"):
                    change[0] = 0
                    change[1:] -= 0 if unbalanced else change[1:].mean()
                step = STEP * change
                along = [number(**{"a": near * more, name: sign * step + (near * more if name == "a" else 0)}) for sign in (-1, 1)]
                self.assertAlmostEqual((got["grad_" + name] * change).sum(), (along[1] - along[0]) / (2 * STEP), 4, name)

    def test_a_side_without_mass(self):
        """What comes first moves at any price: the slope is -inf; potentials are infinite, and have none."""
        data = self.problem(10, 3, 4)
        data["a"] = np.zeros(3)
        self.write("in.h5", **data, grad_row_potential=np.ones(3), grad_col_potential=np.ones(4))
        emitted = "grad_a,grad_b,dual_grad_a,dual_grad_b"
        got, result, _ = self.solve("in.h5", "--epsilon", 0.7, "--unbalanced", 0.6, "--emit", emitted)
        np.testing.assert_array_equal(got["dual_grad_a"], np.full(3, -np.inf))
        np.testing.assert_array_equal(got["grad_a"], np.full(3, np.nan))
        self.assertTrue(np.isfinite(got["dual_grad_b"]).all())
        rise = []
        for mass in (1e-4, 1e-8):
            self.write("moved.h5", **{**data, "a": np.array([mass, 0, 0])})
            moved = self.solve("moved.h5", "--epsilon", 0.7, "--unbalanced", 0.6, "--emit", "dual_grad_a")[1]
            rise.append((moved["divergence"] - result["divergence"]) / mass)
        self.assertLess(rise[1], 2 * rise[0])
        self.assertLess(rise[0], 0)
        # Without any mass, a derivative that keeps the sums equal has no meaning; with penalties, mass of one side is in no plan.
        for unbalanced, want in (((), np.nan), (("--unbalanced", 0.6), 0)):
            self.write("moved.h5", **{**data, "a": np.zeros(3), "b": np.zeros(4)})
            got = self.solve("moved.h5", "--epsilon", 0.7, *unbalanced, "--emit", "dual_grad_a")[0]["dual_grad_a"]
            np.testing.assert_array_equal(got, np.full(3, want))

    def test_a_vector_of_zeros_without_mass(self):
        data = self.problem(12, 6, 7)
        data["k"][3], data["b"][3] = 0, 0
        data["b"] /= data["b"].sum()
        self.write("in.h5", **data)
        for unbalanced, want in (((), np.inf), (("--unbalanced", 1), 0)):
            got = self.solve("in.h5", "--energy", "cosine", "--epsilon", 0.3, *unbalanced, "--emit", "dual_grad_b")[0]["dual_grad_b"][...]
            self.assertEqual(got[3], want)
            self.assertTrue(np.isfinite(np.delete(got, 3)).all())


class Runs(DivergenceGradientTest):

    NAMES = ["grad_a", "grad_b", "grad_q", "grad_k", "row_self_potential", "col_self_potential"]

    def test_float32_threads_padding_and_shards(self):
        data = self.problem(11, 66, 40)
        random = np.random.default_rng(12)
        upstream = {"grad_row_potential": random.normal(size=66), "grad_col_self_potential": random.normal(size=40)}
        options = ("--epsilon", 1, "--iterations", 5000, "--emit", ",".join(self.NAMES))
        for kind, limit in ((np.float64, 0), (np.float32, 1e-3)):
            self.write("in.h5", **{name: values.astype(kind) for name, values in data.items()}, **upstream)
            got, _, _ = self.solve("in.h5", *options, "--threads", 1)
            again, _, _ = self.solve("in.h5", *options, "--threads", 3)
            self.assert_same_bits(again, got, self.NAMES)
            exact = got if limit == 0 else exact
            for name in self.NAMES:
                self.assert_near(name, got[name], exact[name][...], limit * np.abs(exact[name][...]).max())
        short = self.problem(13, 9, 12)
        pad = lambda values, length: np.pad(values, [(0, length - len(values))] + [(0, 0)] * (values.ndim - 1))
        both = {name: np.stack([values, pad(short[name], len(values))]) for name, values in data.items()}
        self.write("in.h5", **both, **upstream, query_length=np.array([66, 9]), key_length=np.array([40, 12]))
        whole, _, _ = self.solve("in.h5", *options)
        self.write("short.h5", **short, grad_row_potential=upstream["grad_row_potential"][:9],
                   grad_col_self_potential=upstream["grad_col_self_potential"][:12])
        alone, _, _ = self.solve("short.h5", *options)
        for name, count in zip(self.NAMES, (9, 12, 9, 12, 9, 12)):
            self.assertEqual(whole[name][1, :count].tobytes(), alone[name][...].tobytes(), name)
        for part in (1, 2):
            self.run_tool("sinkhorn-iter", "divergence", "in.h5", *options, "--shard", f"{part}/2", "-o", "p.h5")
        self.run_tool("tensor-join", *sorted(path.name for path in self.folder.glob("p.0*")), "-o", "joined.h5")
        self.assert_same_bits(self.read("joined.h5"), whole, self.NAMES)

    def test_wrong_use(self):
        data = self.problem(21, 4, 3)
        command = ("sinkhorn-iter", "divergence", "in.h5", "--epsilon", 1, "--emit")
        self.write("in.h5", **data, grad_plan=np.ones((4, 3)))
        self.refused(*command, "grad_a", status=2, says=["there is no dataset grad_row_potential, grad_col_potential, grad_row_self"],
                     hint="-i grad_row_potential=")
        for given, names, status, says in (
                ({"grad_row_self_potential": np.ones(3)}, "grad_a", 3, "in.h5:/grad_row_self_potential has shape (3)"),
                ({"grad_col_self_potential": np.array([0, np.nan, 0])}, "grad_a", 3, "expected finite numbers"),
                ({"grad_row_potential": np.ones(4)}, "grad_cost", 2, "the scores are not made of a cost")):
            self.write("in.h5", **data, **given)
            self.refused(*command, names, status=status, says=[says])
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--emit", "row_self_potential", status=2,
                     says=["--emit row_self_potential has no effect without a verb"])


if __name__ == "__main__":
    unittest.main()
