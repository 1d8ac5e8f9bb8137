"""sinkhorn-iter --emit grad_NAME: derivatives through the solution of transport, against differences of whole solutions."""

import unittest
import warnings

import numpy as np

from attn import ToolTest

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ot
        import torch
except ImportError:
    ot = torch = None

EXACTLY = ("--tolerance", 1e-14, "--iterations", 50000)
STEP = 1e-4


def distances(x, y):
    return ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1)


class SolutionGradientTest(ToolTest):

    def solve(self, *arguments, status=0):
        done = self.run_tool("sinkhorn-iter", *arguments, "-o", "out.h5", "--force", "--json=out.json", status=status)
        return self.read("out.h5"), self.read_json("out.json")["result"], done

    def problem(self, seed, m, n):
        random = np.random.default_rng(seed)
        a, b = random.uniform(1, 2, m), random.uniform(1, 2, n)
        return {"q": random.normal(size=(m, 2)), "k": random.normal(size=(n, 2)), "a": a / a.sum(), "b": b / b.sum()}

    def number(self, seed, m, n):
        """A number of the plan and the potentials, for stacks of them, and its derivatives by these."""
        random = np.random.default_rng(seed)
        h, x, y = random.normal(size=(m, n)), random.normal(size=m) / 10, random.normal(size=n) / 10

        def value(plan, f, g):
            return (h * plan ** 2).sum((-2, -1)) / 2 + (x * f ** 2).sum(-1) / 2 + (y * g ** 2).sum(-1) / 2
        return value, lambda plan, f, g: {"grad_plan": h * plan, "grad_row_potential": x * f, "grad_col_potential": y * g}

    def check(self, data, number, options, names, balanced=True, limit=1e-7):
        """Differences of the fourth order along each element, in one run for each dataset."""
        value, slopes = number
        solved = "plan,row_potential,col_potential"

        def results(got):
            plan, f, g = (got[name][...] for name in solved.split(","))
            if balanced:
                apart = (f.sum(-1) - g.sum(-1)) / (f.shape[-1] + g.shape[-1])
                f, g = f - apart[..., None], g + apart[..., None]
            return plan, f, g
        self.write("in.h5", **data)
        at = results(self.solve("in.h5", *options, "--emit", solved)[0])
        self.write("in.h5", **data, **slopes(*at))
        got, result, _ = self.solve("in.h5", *options, "--emit", ",".join("grad_" + name for name in names))
        self.assertLessEqual(result["gradient_residual"], 1e-10)
        self.assertGreater(result["gradient_iterations"], 0)
        for name in names:
            values = data[name]
            changes = np.eye(values.size).reshape(-1, *values.shape)
            if name in ("a", "b") and balanced:
                changes = changes[1:] - changes[:-1]
            if len(changes) == 0:
                continue
            moves = np.array([-2, -1, 1, 2])[:, None].reshape(4, *[1] * changes.ndim) * STEP * changes
            # A problem for each move.
            self.write("in.h5", **{**data, name: values + moves})
            along = value(*results(self.solve("in.h5", *options, "--emit", solved)[0]))
            want = (along[0] - 8 * along[1] + 8 * along[2] - along[3]) / (12 * STEP)
            have = np.array([(got["grad_" + name] * change).sum() for change in changes])
            self.assert_near(name, have, want, limit * max(1, np.abs(want).max()))


class Differences(SolutionGradientTest):

    def test_points(self):
        for m, n in ((1, 1), (1, 4), (5, 1), (5, 4)):
            self.check(self.problem(m, m, n), self.number(1, m, n), ("--epsilon", 0.7, *EXACTLY), ["q", "k", "a", "b"])

    def test_cost_and_forbidden_pairs(self):
        data = self.problem(2, 5, 6)
        data = {"cost": distances(data.pop("q"), data.pop("k")), **data}
        self.check(data, self.number(2, 5, 6), ("--epsilon", 0.7, *EXACTLY), ["cost", "a", "b"])
        data["mask"] = np.add.outer(3 * np.arange(5), 2 * np.arange(6)) % 7 != 1
        self.check(data, self.number(3, 5, 6), ("--epsilon", 0.7, *EXACTLY), ["cost", "a", "b"])

    def test_scores(self):
        data = {"scores": np.random.default_rng(4).normal(size=(4, 5))}
        self.check(data, self.number(4, 4, 5), EXACTLY, ["scores"])

    def test_unbalanced(self):
        data = self.problem(5, 5, 4)
        data["b"] *= 1.7
        for penalties in ("1.2:0.6", "inf:0.6", "1.2:inf"):
            self.check(data, self.number(5, 5, 4), ("--epsilon", 0.7, "--unbalanced", penalties, *EXACTLY), ["q", "k", "a", "b"],
                       balanced=False)

    def test_the_cost_of_the_plan(self):
        """The value <P, C>, whose derivative by P is C, and not that of the dual."""
        data = self.problem(6, 30, 40)
        cost = distances(data["q"], data["k"])
        self.write("in.h5", cost=cost, a=data["a"], b=data["b"], grad_plan=cost)
        got, _, _ = self.solve("in.h5", "--epsilon", 0.5, "--tolerance", 1e-13, "--iterations", 5000, "--emit", "plan,grad_cost")
        change = np.random.default_rng(7).normal(size=cost.shape)
        values = []
        for side in (-1, 1):
            self.write("moved.h5", cost=cost + side * 1e-4 * change, a=data["a"], b=data["b"])
            values.append(self.solve("moved.h5", "--epsilon", 0.5, "--tolerance", 1e-13, "--iterations", 5000)[1]["value"])
        total = (got["plan"] * change).sum() + (got["grad_cost"] * change).sum()
        self.assertAlmostEqual(total, (values[1] - values[0]) / 2e-4, 6)


class Runs(SolutionGradientTest):

    NAMES = ["grad_a", "grad_b", "grad_q", "grad_k"]

    def test_dense_solution_float32_and_threads(self):
        data = {name: values.astype(np.float32) for name, values in self.problem(11, 66, 130).items()}
        data["b"] *= data["a"].sum() / data["b"].sum()
        random = np.random.default_rng(12)
        upstream = {"grad_plan": random.normal(size=(66, 130)).astype(np.float32), "grad_col_potential": random.normal(size=130)}
        self.write("in.h5", **data, **upstream)
        options = ("--epsilon", 1, "--emit", ",".join(self.NAMES + ["plan"]))
        got, _, _ = self.solve("in.h5", *options, "--threads", 1)
        again, _, _ = self.solve("in.h5", *options, "--threads", 3)
        self.assert_same_bits(again, got, self.NAMES)
        p, g = got["plan"].astype(np.float64), upstream["grad_plan"].astype(np.float64)
        system = np.block([[np.diag(p.sum(1)), p], [p.T, np.diag(p.sum(0))]])
        right = np.concatenate([-(p * g).sum(1), upstream["grad_col_potential"] - (p * g).sum(0)])
        z = np.linalg.lstsq(system, right, rcond=1e-9)[0]
        self.assert_near("a", got["grad_a"], -z[:66], 1e-4 * np.abs(z).max())
        self.assert_near("b", got["grad_b"], -z[66:], 1e-4 * np.abs(z).max())
        slope = p * (g + z[:66, None] + z[66:])
        q, k = data["q"].astype(np.float64), data["k"].astype(np.float64)
        by_q = -2 * (slope.sum(1)[:, None] * q - slope @ k)
        self.assert_near("q", got["grad_q"], by_q, 1e-4 * np.abs(by_q).max())

    def test_energies_with_operands(self):
        """Derivatives by q and k, with no gradient of the operands: bilinear of the identity is dot."""
        random = np.random.default_rng(8)
        q, k = random.normal(size=(20, 5)), random.normal(size=(30, 5))
        layer = {"w1": random.normal(size=(4, 10)), "w2": random.normal(size=4)}
        self.write("in.h5", q=q, k=k, w=np.eye(5), **layer)
        results = {}
        for energy in ("dot", "bilinear", "mlp"):
            self.run_tool("sinkhorn-iter", "in.h5", f"--energy={energy}", "--emit=dual_grad_q,dual_grad_k", "-o", "out.h5",
                          "--force", "--only")
            results[energy] = self.read("out.h5")
        for name in ("dual_grad_q", "dual_grad_k"):
            self.assert_near(name, results["bilinear"][name], results["dot"][name], 1e-12)
            self.assertGreater(np.abs(results["mlp"][name]).max(), 1e-3)

    def test_memory_padding_and_shards(self):
        data = self.problem(13, 40, 50)
        one = {name: data[name] for name in "qk"}
        short = {"q": data["q"][::-1][:9], "k": data["k"][:12]}
        upstream = np.random.default_rng(14).normal(size=(40, 50))
        self.write("in.h5", q=np.stack([one["q"], one["q"][::-1]]), k=np.stack([one["k"], one["k"]]), grad_plan=upstream,
                   query_length=np.array([40, 9]), key_length=np.array([50, 12]))
        options = ("--epsilon", 1, "--emit", ",".join(self.NAMES))
        whole, result, _ = self.solve("in.h5", *options)
        self.write("short.h5", **short, grad_plan=upstream[:9, :12])
        alone, second, _ = self.solve("short.h5", *options)
        for name, count in zip(self.NAMES, (9, 12, 9, 12)):
            self.assertEqual(whole[name][1, :count].tobytes(), alone[name].tobytes(), name)
            self.assertTrue((whole[name][1, count:] == 0).all())
        self.assertEqual(result["problems"][1]["gradient_residual"], second["gradient_residual"])
        for part in (1, 2):
            self.run_tool("sinkhorn-iter", "in.h5", *options, "--shard", f"{part}/2", "-o", "p.h5")
        self.run_tool("tensor-join", *sorted(path.name for path in self.folder.glob("p.0*")), "-o", "joined.h5")
        self.assert_same_bits(self.read("joined.h5"), whole, self.NAMES)

    def test_what_problems_share_is_summed(self):
        """Four problems in two groups: of the groups, of all, and of each one; with padding."""
        random = np.random.default_rng(15)
        shapes = {"cost": (2, 1, 9, 7), "a": (2, 9), "b": (7,), "grad_plan": (2, 2, 9, 7), "grad_row_potential": (9,)}
        lengths = {"query_length": np.array([9, 6]), "key_length": np.array([5, 7])}
        points = {"q": (1, 2, 9, 3), "k": (2, 7, 3)}
        for dtype, limit in ((np.float64, 1e-15), (np.float32, 1e-6)):
            data = {name: random.uniform(1, 2, shape).astype(dtype) for name, shape in (shapes | points).items()}
            costs = {name: data[name] for name in shapes} | lengths
            clouds = {name: data[name] for name in points} | {name: data[name] for name in ("b", "grad_plan")} | lengths
            for inputs, names, extra in ((costs, "cost,a,b", ("--unbalanced", 2)), (clouds, "q,k,b", ("--iterations", 8)),
                                         (clouds, "q,k,a", ("--unbalanced", "inf:1"))):
                with self.subTest(dtype=dtype, names=names):
                    options = ("--epsilon", 0.7, *extra, "--emit", ",".join("grad_" + name for name in names.split(",")))
                    status = None if "--iterations" in extra else 0
                    self.write("in.h5", **inputs)
                    got, _, _ = self.solve("in.h5", *options, "--threads", 1, status=status)
                    for more in (("--threads", 3), ("--memory", "5M")):
                        self.assert_same_bits(self.solve("in.h5", *options, *more, status=status)[0], got)
                    own = {name: 1 if name in ("a", "b") else 2 for name in names.split(",")}
                    apart = {name: np.broadcast_to(inputs[name], (2, 2, *inputs[name].shape[-count:]))
                             for name, count in own.items() if name in inputs}
                    self.write("in.h5", **{**inputs, **apart})
                    want, _, _ = self.solve("in.h5", *options, status=status)
                    for name, count in own.items():
                        # A default marginal is each problem's own.
                        shape = inputs[name].shape if name in inputs else (2, 2, 9)
                        by_problem = want["grad_" + name].astype(np.longdouble)
                        stretched = (1,) * (count + 2 - len(shape)) + shape
                        axes = tuple(axis for axis in (0, 1) if stretched[axis] == 1)
                        self.assertEqual(got["grad_" + name].shape, shape)
                        self.assertEqual(got["grad_" + name].dtype, np.float64 if count == 1 else dtype)
                        total = by_problem.sum(axes).reshape(shape)
                        self.assert_near(name, got["grad_" + name], total, limit * max(1, np.abs(by_problem).max()) * 8)

    def test_shards_keep_together_what_is_summed(self):
        random = np.random.default_rng(16)
        self.write("in.h5", cost=random.uniform(size=(3, 1, 8, 6)), b=random.uniform(1, 2, (4, 6)),
                   grad_plan=random.normal(size=(8, 6)))
        options = ("in.h5", "--epsilon", 0.4, "--emit", "grad_cost,row_potential,grad_a")
        whole, _, _ = self.solve(*options)
        self.assertEqual((whole["grad_cost"].shape, whole["grad_a"].shape), ((3, 1, 8, 6), (3, 4, 8)))
        for part in (1, 2):
            self.run_tool("sinkhorn-iter", *options, "--shard", f"{part}/2", "-o", "p.h5")
        self.run_tool("tensor-join", *sorted(path.name for path in self.folder.glob("p.0*")), "-o", "joined.h5")
        self.assert_same_bits(self.read("joined.h5"), whole, ["grad_cost", "grad_a", "row_potential"])
        # b is shared by the first axis, so that all problems belong together.
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 0.4, "--emit", "grad_cost,grad_b", "--shard", "1/2", status=2,
                     says="grad_b", output="p.h5")

    def test_groups_of_heads_and_the_order_of_axes(self):
        random = np.random.default_rng(17)
        data = {"q": random.normal(size=(2, 5, 4, 3)), "k": random.normal(size=(2, 6, 2, 3)), "grad_plan": random.normal(size=(5, 6))}
        self.write("in.h5", **data)
        options = ("in.h5", "--epsilon", 0.6, "--emit", "grad_q,grad_k", "--only")
        got, _, _ = self.solve(*options, "--layout", "blhd")
        self.write("in.h5", q=data["q"].swapaxes(1, 2), k=data["k"].swapaxes(1, 2).repeat(2, 1), grad_plan=data["grad_plan"])
        want, _, _ = self.solve(*options)
        self.assertEqual(got["grad_q"].tobytes(), want["grad_q"].swapaxes(1, 2).tobytes())
        by_pair = want["grad_k"].reshape(2, 2, 2, 6, 3).sum(2)
        self.assertEqual(got["grad_k"].tobytes(), by_pair.swapaxes(1, 2).tobytes())

    def test_a_checkpoint_of_a_shared_cost(self):
        """The sum would be as large as the result, and every write of it, too."""
        self.write("in.h5", cost=np.ones((3, 2)), b=np.full((4, 2), 0.5), grad_plan=np.ones((3, 2)))
        self.refused("sinkhorn-iter", "in.h5", "--epsilon", 1, "--emit", "grad_cost", "--checkpoint", "ck", status=2,
                     says="--checkpoint cannot keep the result grad_cost, which has a number for each query and key")

    def test_numbers_beyond_float32(self):
        random = np.random.default_rng(19)
        large = (3e38 * random.uniform(-1, 1, (3, 6, 5))).astype("f4")
        data = {"cost": random.uniform(size=(6, 5)).astype("f4"), "grad_plan": large}
        for shared in (True, False):
            masses = {"a": np.full((3, 6), 1 / 6)} if shared else {}
            self.write("in.h5", **(data if shared else {**data, "grad_plan": large[0]}), **masses)
            self.refused("sinkhorn-iter", "in.h5", "--epsilon", 0.01, "--precision", "f32", "--emit", "grad_cost", status=4,
                         says="grad_cost is beyond the range of float32")

    def test_masses_that_rounding_exceeds(self):
        """Where a mass is 1e-30 as elsewhere: u_i is minus the mean of G_ij + v_j over the plan's share in the row."""
        x = np.linspace(0, 1, 100)
        masses = np.exp(-(x - np.array([[0.2], [0.6]])) ** 2 / 0.01)
        a, b = masses / masses.sum(1, keepdims=True)
        cost = (x[:, None] - x) ** 2
        slopes = np.random.default_rng(17).normal(size=(100, 100))
        self.write("in.h5", cost=cost, a=a, b=b, grad_plan=slopes)
        got, result, _ = self.solve("in.h5", "--epsilon", 0.01, "--emit", "grad_a,grad_b,row_potential,col_potential")
        self.assertLessEqual(result["gradient_residual"], 1e-10)
        for mine, other, turned, name in (("a", "b", slopes, "col_potential"), ("b", "a", slopes.T, "row_potential")):
            share = -cost / 0.01 - got[name][...]
            share = np.exp(share - share.max(1, keepdims=True))
            share /= share.sum(1, keepdims=True)
            want = (share * (turned - got["grad_" + other][...])).sum(1)
            self.assert_near(mine, got["grad_" + mine], want, 1e-7)

    def test_masses_of_0(self):
        """From above, as there is nothing below. A potential of a line without mass is -log of it."""
        data = self.problem(15, 5, 6)
        data["a"], data["b"] = np.array([0, 0.2, 0.3, 0.1, 0.4]), np.array([0.3, 0.1, 0, 0.2, 0.2, 0.2])
        random = np.random.default_rng(15)
        upstream = {"grad_plan": random.normal(size=(5, 6)), "grad_row_potential": np.array([0, 1, -2, 0.5, 0.5])}
        options = ("--epsilon", 1, *EXACTLY)

        def number(name, change, step):
            moved = {**data, name: data[name] + step * change}
            self.write("moved.h5", **moved)
            got, _, _ = self.solve("moved.h5", *options, "--emit", "plan,row_potential")
            f = np.where(upstream["grad_row_potential"] == 0, 0, got["row_potential"])
            return (upstream["grad_plan"] * got["plan"]).sum() + (upstream["grad_row_potential"] * f).sum()
        for kind in (np.float64, np.float32):
            self.write("in.h5", **{name: values.astype(kind) for name, values in data.items()}, **upstream)
            got, _, _ = self.solve("in.h5", "--epsilon", 1, "--emit", "grad_a,grad_b")
            for name, change in (("a", np.array([1., 0, -1, 0, 0])), ("b", np.array([0, -1., 1, 0, 0, 0]))):
                along = [number(name, change, step * STEP) for step in range(3)]
                want = (4 * along[1] - along[2] - 3 * along[0]) / (2 * STEP)
                self.assertAlmostEqual((got["grad_" + name] * change).sum(), want, 4 if kind == np.float64 else 3)
        upstream["grad_row_potential"] = np.array([0.5, 0, 0, 0, 0])
        self.write("in.h5", **data, **upstream)
        self.assertEqual(self.solve("in.h5", "--epsilon", 1, "--emit", "grad_a")[0]["grad_a"][0], -np.inf)

    def test_masses_of_0_at_a_penalty(self):
        """The plan's row grows like a power of its mass below 1."""
        data = self.problem(16, 4, 5)
        data["a"] = np.array([0, 0.2, 0.3, 0.5])
        slopes = np.random.default_rng(16).normal(size=(4, 5))
        self.write("in.h5", **data, grad_plan=slopes)
        options = ("--epsilon", 1, "--unbalanced", 1, "--emit")
        got, _, _ = self.solve("in.h5", *options, "grad_a,dual_grad_a,plan")
        here = (slopes * got["plan"]).sum()
        data["a"][0] = 1e-8
        self.write("moved.h5", **data)
        gained = (slopes * self.solve("moved.h5", *options, "plan")[0]["plan"]).sum() - here
        self.assertGreater(abs(gained), 1e-5)  # its root
        self.assertEqual(got["grad_a"][0], np.sign(gained) * np.inf)
        self.assertTrue(np.isfinite(got["grad_a"][1:]).all())
        self.assertEqual(got["dual_grad_a"][0], -np.inf)

    def test_rows_that_may_go_nowhere(self):
        data = self.problem(17, 4, 5)
        cost = distances(data["q"], data["k"])
        cost[1] = np.inf
        a = np.array([0.5, 0, 0.2, 0.3])
        self.write("in.h5", cost=cost, a=a, b=data["b"], grad_plan=np.ones((4, 5)))
        got, _, _ = self.solve("in.h5", "--epsilon", 1, "--emit", "grad_a,dual_grad_a")
        self.assertTrue(np.isnan(got["grad_a"][1]))
        self.assertEqual(got["dual_grad_a"][1], np.inf)
        # All that a gains is lost, at the cost R.
        got, _, _ = self.solve("in.h5", "--epsilon", 1, "--unbalanced", 0.7, "--emit", "grad_a,dual_grad_a")
        self.assertEqual(got["grad_a"][1], 0)
        self.assertAlmostEqual(got["dual_grad_a"][1], 0.7)

    def test_infinite_derivatives_of_both_signs(self):
        cost = np.array([[1, 2.], [2, 1], [3, 1]])
        slopes = np.zeros((2, 3, 2))
        slopes[:, :, 1] = np.array([[1], [-0.5]])
        for second, want in ((-0.5, np.nan), (0.5, np.inf)):
            slopes[1, :, 1] = second
            self.write("in.h5", cost=cost, a=np.full((2, 3), 1 / 3), b=np.array([1., 0]), grad_plan=slopes)
            got, _, _ = self.solve("in.h5", "--epsilon", 1, "--unbalanced", 1, "--emit", "grad_b")
            np.testing.assert_array_equal(got["grad_b"][1], want)

    def test_a_side_without_mass(self):
        data = self.problem(18, 3, 4)
        self.write("in.h5", **{**data, "a": np.zeros(3)}, grad_plan=np.ones((3, 4)))
        got, _, _ = self.solve("in.h5", "--epsilon", 1, "--unbalanced", 1, "--emit", "grad_a,dual_grad_a")
        np.testing.assert_array_equal(got["dual_grad_a"], np.full(3, -np.inf))
        np.testing.assert_array_equal(got["grad_a"], np.full(3, np.nan))

    def test_what_is_constant(self):
        data = self.problem(15, 5, 6)
        data["a"] = np.array([0, 0.2, 0.3, 0.1, 0.4])
        self.write("in.h5", **data, grad_plan=np.array([[2.]]))
        got, _, _ = self.solve("in.h5", "--epsilon", 1, "--emit", "grad_a,grad_b,grad_q")
        # The sum of the plan stays: only the constant is left.
        self.assertLess(np.ptp(got["grad_a"]), 1e-8)
        self.assert_near("q", got["grad_q"], np.zeros((5, 2)), 1e-8)

    def test_gradients_that_do_not_converge(self):
        """Two parts that share no line: what moves between them has no potentials."""
        mask = np.zeros((4, 4), bool)
        mask[:2, :2] = mask[2:, 2:] = True
        self.write("in.h5", scores=np.random.default_rng(16).normal(size=(4, 4)), mask=mask,
                   grad_row_potential=np.array([1., 0, 0, 0]))
        _, result, done = self.solve("in.h5", "--emit", "grad_scores", status=1)
        self.assertGreater(result["gradient_residual"], 0.01)
        self.assertIn("gradients not converged", done.err)
        self.assertEqual(self.read_json("out.json")["status"], "not_converged")


class NoSolution(SolutionGradientTest):
    """Derivatives through a solution, asked for at a plan that is none."""

    def check_refused(self, arguments, names, error_of=lambda result: result["row_error"] + result["col_error"]):
        options = [*arguments, "--emit", names]
        for iterations, status in ((2, 1), (3000, 0)):
            got, result, done = self.solve(options[0], *options[1:], "--iterations", iterations, status=status)
            said = self.read_json("out.json")
            self.assertIn(names.split(",")[0], got)
            if status == 0:
                self.assertEqual((result["status"], result["gradient_plan_error"]), ("done", 0))
                self.assertEqual(said["warnings"], [])
                continue
            self.assertEqual((said["status"], result["status"]), ("not_converged", "not_converged"))
            self.assertEqual(got.attributes["attn_status"], "not_converged")
            self.assertGreaterEqual(result["gradient_plan_error"], error_of(result))
            self.assertGreater(result["gradient_plan_error"], 1e-6)
            self.assertIn("gradients are those at a solution", done.err)
            self.assertIn(f"{result['gradient_plan_error']:.2g}", said["warnings"][0])

    def test_each_kind_of_transport(self):
        random = np.random.default_rng(35)
        x, y = random.uniform(size=(2, 9, 2))
        upstream = {"grad_row_potential": random.normal(size=9), "grad_col_potential": random.normal(size=9)}
        self.write("in.h5", q=x, k=y, grad_plan=random.normal(size=(9, 9)), **upstream)
        self.check_refused(["in.h5", "--epsilon", 0.1], "grad_q,grad_a")
        self.check_refused(["in.h5", "--epsilon", 0.1, "--unbalanced", 3], "grad_q,grad_a")
        self.write("points.h5", q=x, k=y, **upstream)
        self.check_refused(["divergence", "points.h5", "--epsilon", 0.1], "grad_q,grad_b", lambda result: 0)
        self.write("scores.h5", scores=random.normal(size=(9, 9)), grad_plan=random.normal(size=(9, 9)))
        self.check_refused(["scores.h5"], "grad_scores")
        histograms = random.uniform(1, 2, (3, 9))
        self.write("mean.h5", q=x, k=y, a=histograms / histograms.sum(1, keepdims=True), grad_barycentre=random.normal(size=9))
        self.check_refused(["barycentre", "mean.h5", "--epsilon", 0.1], "grad_q,grad_a")

    def test_a_plan_alone_may_have_any_number_of_iterations(self):
        random = np.random.default_rng(36)
        self.write("in.h5", q=random.normal(size=(9, 2)), k=random.normal(size=(7, 2)))
        _, result, done = self.solve("in.h5", "--epsilon", 0.1, "--iterations", 2, "--emit", "plan,dual_grad_q")
        self.assertEqual((result["status"], self.read_json("out.json")["warnings"]), ("done", []))


def of_iterations(cost, a, b, epsilon, iterations):
    """The plan and the potentials after some iterations, in long double."""
    scores = -cost.astype(np.longdouble) / epsilon
    lse = lambda x, axis: np.log(np.exp(x - x.max(axis, keepdims=True)).sum(axis)) + x.max(axis)
    f = np.zeros(len(scores), np.longdouble)
    for _ in range(iterations):
        g = lse(scores - f[:, None], 0) - np.log(b)
        f = lse(scores - g, 1) - np.log(a)
    return np.exp(scores - g - f[:, None]), f, g


class Unrolled(SolutionGradientTest):
    """--gradient unrolled against differences of that many iterations."""

    def check_iterations(self, shape, dtype, iterations, *options):
        random = np.random.default_rng(41)
        m, n = shape
        a, b = random.uniform(1, 2, m), random.uniform(1, 2, n)
        data = {"cost": random.uniform(size=shape).astype(dtype), "a": a / a.sum(), "b": b / b.sum()}
        g, x, y = random.normal(size=shape).astype(dtype), random.normal(size=m), random.normal(size=n)
        self.write("in.h5", **data, grad_plan=g, grad_row_potential=x, grad_col_potential=y)
        precision = "f32" if dtype == np.float32 else "f64"
        got, result, done = self.solve("in.h5", "--epsilon", 0.1, "--iterations", iterations, "--gradient", "unrolled", "--emit",
                                       "plan,grad_cost,grad_a,grad_b", "--precision", precision, *options)
        self.assertEqual((result["status"], self.read_json("out.json")["warnings"]), ("done", []))
        self.assertEqual(self.read_json("out.json")["params"]["gradient"], "unrolled")
        step = 1e-6

        def value(data):
            plan, f, c = of_iterations(data["cost"], data["a"], data["b"], 0.1, iterations)
            return (g * plan).sum() + (x * f).sum() + (y * c).sum()
        for name, values in data.items():
            want = np.zeros(values.shape)
            for entry in np.ndindex(values.shape):
                move = np.zeros(values.shape, np.longdouble)
                move[entry] = step
                want[entry] = (value({**data, name: values + move}) - value({**data, name: values - move})) / (2 * step)
            limit = (1e-5 if dtype == np.float32 else 1e-9) * max(1, np.abs(want).max())
            self.assert_near("grad_" + name, got["grad_" + name], want, limit)

    def test_differences_of_iterations(self):
        for shape in ((12, 12), (5, 7), (1, 3), (1, 1)):
            for dtype in (np.float32, np.float64):
                for iterations in (1, 2, 20):
                    with self.subTest(shape=shape, dtype=dtype, iterations=iterations):
                        self.check_iterations(shape, dtype, iterations)

    def test_points_of_several_problems_threads_and_memory(self):
        random = np.random.default_rng(42)
        self.write("in.h5", q=random.normal(size=(3, 40, 2)), k=random.normal(size=(3, 33, 2)), grad_plan=random.normal(size=(3, 40, 33)))
        command = ("in.h5", "--epsilon", 0.5, "--gradient", "unrolled", "--iterations", 5, "--emit", "grad_q,grad_k")
        whole, _, _ = self.solve(*command, "--threads", 1)
        for more in (("--threads", 3), ("--memory", "6M")):
            got, _, _ = self.solve(*command, *more)
            for name in ("grad_q", "grad_k"):
                self.assertTrue(np.array_equal(got[name], whole[name]))
        # The same as attention, whose gradient goes through its iterations.
        scores = random.normal(size=(6, 6))
        g = random.normal(size=(6, 6))
        self.write("in.h5", scores=scores, grad_plan=g)
        got, _, _ = self.solve("in.h5", "--iterations", 3, "--gradient", "unrolled", "--emit", "grad_scores")
        self.write("in.h5", q=np.zeros((6, 1)), k=np.zeros((6, 1)), bias=scores, v=np.eye(6), grad_out=g)
        found = self.compute("in.h5", "--scheme", "sinkhorn", "--iterations", 3, "--emit", "grad_bias")
        self.assert_near("grad_scores", got["grad_scores"], found["grad_bias"], 1e-14)

    def test_a_tolerance(self):
        data = self.problem(43, 6, 5)
        self.write("in.h5", **data, grad_plan=np.random.default_rng(44).normal(size=(6, 5)))
        command = ("in.h5", "--epsilon", 1, "--tolerance", 1e-13, "--emit", "grad_q,grad_a")
        limit, _, _ = self.solve(*command)
        got, _, _ = self.solve(*command, "--gradient", "unrolled")
        self.assert_near("grad_q", got["grad_q"], limit["grad_q"], 1e-10)
        apart = got["grad_a"][...] - limit["grad_a"][...]
        self.assert_near("grad_a", apart - apart.mean(), np.zeros(6), 1e-10)

    def test_refused(self):
        self.write("in.h5", cost=np.ones((3, 3)), grad_plan=np.ones((3, 3)), a=np.array([0.5, 0, 0.5]))
        command = ("sinkhorn-iter", "in.h5", "--epsilon", 1, "--gradient", "unrolled", "--emit")
        for option in (("--relax", 1.5), ("--anneal",), ("--unbalanced", 2)):
            self.refused(*command, "grad_cost", *option, status=2, says=["plain iterations", option[0]])
        self.refused(*command, "plan", status=2, says=["--gradient has no effect"])
        self.refused(*command, "grad_a", status=3, says=["in.h5:/a has 0 at 1"], hint="implicit")
        self.refused("sinkhorn-iter", "divergence", *command[1:], "grad_cost", status=2, says=["--gradient"])
        self.refused(*command, "grad_cost", "--iterations", 10 ** 9, status=6, says=["--memory"])


class GradientError(SolutionGradientTest):
    """What gradient_error says of an implicit gradient, against the limit of many iterations."""

    def check_error(self, write, options, name, iterations):
        """For half of the problems the estimate is right to a tenth; where Newton's steps fail, it is unknown."""
        self.write("in.h5", **write)
        limit, _, _ = self.solve(*options, "in.h5", "--tolerance", 1e-13, "--iterations", 200000, "--emit", name)
        known = []
        for count in iterations:
            got, result, done = self.solve(*options, "in.h5", "--iterations", count, "--emit", name, status=1)
            estimate = result["gradient_error"]
            away = np.linalg.norm(got[name][...] - limit[name][...]) / np.linalg.norm(got[name][...])
            if estimate is None:
                self.assertIn("even in sign", done.err)
                continue
            known.append(count)
            self.assertGreater(estimate, 0)
            self.assertLess(abs(estimate - away), 0.15 * away + 1e-9)
            self.assertIn(f"off by about {estimate:.2g} of their length", done.err)
        return known

    def test_cost(self):
        for seed in range(3):
            random = np.random.default_rng(seed)
            x, y = random.uniform(size=(2, 12, 2))
            data = {"cost": distances(x, y), "grad_plan": random.normal(size=(12, 12))}
            self.assertLessEqual({20, 100}, set(self.check_error(data, ("--epsilon", 0.02), "grad_cost", (5, 20, 100))))

    def test_scores_and_unbalanced(self):
        random = np.random.default_rng(45)
        data = {"scores": random.normal(size=(4, 4)) * 3, "grad_plan": random.normal(size=(4, 4))}
        self.assertEqual(self.check_error(data, (), "grad_scores", (3, 10)), [3, 10])
        self.assertEqual(self.check_error(data, ("--unbalanced", 5), "grad_scores", (3, 6)), [3, 6])

    def test_divergence(self):
        random = np.random.default_rng(47)
        x = random.uniform(size=(8, 2))
        a, b = random.uniform(1, 2, (2, 8))
        data = {"cost": distances(x, x), "a": a / a.sum(), "b": b / b.sum(), "grad_row_potential": random.normal(size=8)}
        self.assertEqual(self.check_error(data, ("divergence", "--epsilon", 0.05), "grad_cost", (4, 8)), [4, 8])

    def test_a_tenth_that_float32_does_not_reach(self):
        random = np.random.default_rng(46)
        self.write("in.h5", scores=random.normal(size=(5, 5)).astype(np.float32), grad_plan=random.normal(size=(5, 5)).astype(np.float32))
        for count in range(1, 12):
            _, result, _ = self.solve("in.h5", "--iterations", count, "--emit", "grad_scores", status=None)
            self.assertIsNotNone(result["gradient_error"])


class Refused(SolutionGradientTest):

    def test_wrong_use(self):
        data = self.problem(21, 4, 3)
        command = ("sinkhorn-iter", "in.h5", "--epsilon", 1, "--emit")
        self.write("in.h5", **data)
        self.refused(*command, "grad_a", status=2, says=["--emit grad_a: there is no dataset grad_plan"], hint="-i grad_plan=")
        for given, names, status, says in (
                ({"grad_plan": np.full((4, 3), np.nan)}, "grad_a", 3, "in.h5:/grad_plan has nan at [0, 0], expected finite numbers"),
                ({"grad_plan": np.full((4, 3), -np.inf)}, "grad_a", 3, "expected finite numbers"),
                ({"grad_plan": np.ones((3, 4))}, "grad_a", 3, "in.h5:/grad_plan has shape (3, 4)"),
                ({"grad_row_potential": np.ones(3)}, "grad_a", 3, "in.h5:/grad_row_potential has shape (3)"),
                ({"grad_col_potential": np.array([1, np.inf, 0])}, "grad_a", 3, "expected finite numbers"),
                ({"grad_col_potential": np.ones(3)}, "grad_cost", 2, "--emit grad_cost: the scores are not made of a cost"),
                ({"grad_col_potential": np.ones(3)}, "grad_scores", 2, "--emit grad_scores: the scores are not ready-made")):
            self.write("in.h5", **data, **given)
            self.refused(*command, names, status=status, says=[says])
        self.write("in.h5", cost=distances(data["q"], data["k"]), grad_plan=np.ones((4, 3)))
        self.refused(*command, "grad_q", status=2, says=["--emit grad_q requires q and k"])
        self.refused(*command, "grad_cost", "--softcap", 2, status=2)
        self.refused(*command, "grad_cost", "--checkpoint", "ck", status=2, says=["grad_cost"])
        self.refused("sinkhorn-iter", "exact", "in.h5", "--emit", "grad_a", status=2, says=["grad_a has no effect with exact"])
        self.write("in.h5", scores=np.ones((2, 3, 3)))
        self.refused("sinkhorn-iter", "bulk", "in.h5", "--emit", "grad_a", status=2, says=["grad_a has no effect with bulk"])


@unittest.skipIf(ot is None, "POT (python3-pot) or PyTorch (python3-torch) is not installed")
class AgainstPot(SolutionGradientTest):

    def test_automatic_differentiation_of_its_iterations(self):
        data = self.problem(31, 7, 6)
        cost = distances(data["q"], data["k"])
        weights = np.random.default_rng(32).normal(size=cost.shape)
        tensors = [torch.tensor(values, requires_grad=True) for values in (data["a"], data["b"], cost)]
        plan = ot.sinkhorn(*tensors, 0.8, numItermax=2000, stopThr=1e-15)
        (torch.tensor(weights) * plan ** 2).sum().backward()
        self.write("in.h5", cost=cost, a=data["a"], b=data["b"], grad_plan=2 * weights * plan.detach().numpy())
        got, _, _ = self.solve("in.h5", "--epsilon", 0.8, "--tolerance", 1e-13, "--iterations", 5000, "--emit", "grad_a,grad_b,grad_cost")
        self.assert_near("cost", got["grad_cost"], tensors[2].grad.numpy(), 1e-9)
        for name, tensor in (("grad_a", tensors[0]), ("grad_b", tensors[1])):
            have, want = got[name][...], tensor.grad.numpy()
            self.assert_near(name, have - have.mean(), want - want.mean(), 1e-9)


if __name__ == "__main__":
    unittest.main()
