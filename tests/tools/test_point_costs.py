"""sinkhorn-iter with points whose cost is a distance, the sum of absolute differences, or 1 - cosine."""

import unittest

import numpy as np

from attn import ToolTest

EXACTLY = ("--tolerance", 1e-13, "--iterations", 20000)


def euclidean(x, y):
    return np.sqrt(((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1))


def l1(x, y):
    return np.abs(x[..., :, None, :] - y[..., None, :, :]).sum(-1)


def cosine(x, y):
    x, y = (z / np.sqrt((z * z).sum(-1, keepdims=True)) for z in (x, y))
    return 1 - x @ np.swapaxes(y, -1, -2)


COSTS = {cost.__name__: cost for cost in (euclidean, l1, cosine)}


def potentials(cost, a, b, epsilon):
    """The potentials of the plan exp((f + g - cost)/epsilon) a b'; averaged steps also converge for a with itself."""
    def soft_min(z, axis):
        least = z.min(axis, keepdims=True)
        return epsilon * (np.squeeze(least, axis) - np.log(np.exp(least - z).sum(axis)))
    f, g = np.zeros(len(a)), np.zeros(len(b))
    for _ in range(2000):
        f, g = ((f + soft_min((cost - g) / epsilon - np.log(b), 1)) / 2,
                (g + soft_min((cost - f[:, None]) / epsilon - np.log(a)[:, None], 0)) / 2)
    return f, g


class PointCostTest(ToolTest):

    def solve(self, *arguments, status=0):
        self.run_tool("sinkhorn-iter", *arguments, "-o", "out.h5", "--force", "--json=out.json", status=status)
        return self.read("out.h5"), self.read_json("out.json")["result"]

    def data(self, seed, m, n, d=3):
        random = np.random.default_rng(seed)
        a, b = random.uniform(1, 2, m), random.uniform(1, 2, n)
        return {"q": random.normal(size=(m, d)) + 1, "k": random.normal(size=(n, d)), "a": a / a.sum(), "b": b / b.sum()}

    def as_cost(self, data, kind):
        cost = COSTS[kind](data["q"].astype(np.longdouble), data["k"].astype(np.longdouble))
        return {"cost": cost.astype(np.float64), **{name: data[name] for name in ("a", "b")}}

    def derivatives(self, data, value, name, step=1e-5):
        """Differences of `value`, which gets two problems for each element."""
        moves = step * np.eye(data[name].size).reshape(-1, *data[name].shape)
        ahead, behind = value({**data, name: data[name] + np.stack([moves, -moves])})
        return ((ahead - behind) / (2 * step)).reshape(data[name].shape)

    def figures(self, member, *arguments):
        """One member of the report for each problem of `derivatives`."""
        _, result = self.solve(*arguments)
        return np.array([problem[member] for problem in result["problems"]]).reshape(2, -1)


class Numbers(PointCostTest):

    def test_units(self):
        """Points in other units have the same plan: squares of differences stay within the format."""
        data = self.data(31, 6, 5)
        for kind in COSTS:
            self.write("in.h5", **data)
            expected = self.solve("in.h5", "--epsilon=0.5", f"--energy={kind}", "--emit=plan", "--only")[0]["plan"]
            for dtype, units, limit in ((np.float32, (1e-25, 1e25), 2e-6), (np.float64, (1e-200, 1e200), 1e-11)):
                for unit in units:
                    points = {name: (data[name] * unit).astype(dtype) for name in "qk"}
                    epsilon = 0.5 if kind == "cosine" else 0.5 * unit
                    self.write("unit.h5", **points, a=data["a"], b=data["b"])
                    found = self.solve("unit.h5", f"--epsilon={epsilon!r}", f"--energy={kind}", "--emit=plan", "--only",
                                       f"--precision={'f32' if dtype == np.float32 else 'f64'}")[0]["plan"]
                    self.assert_near(f"{kind} {unit}", found, expected, limit)

    def test_float32_sums_over_many_queries(self):
        data = self.data(32, 20000, 3)
        data["q"] += 3
        for kind in COSTS:
            found = []
            for dtype in (np.float32, np.float64):
                self.write("in.h5", q=data["q"].astype(dtype), k=data["k"].astype(dtype))
                found.append(self.solve("in.h5", "--epsilon=0.5", "--iterations=5", f"--energy={kind}",
                                        "--emit=dual_grad_k", "--only")[0]["dual_grad_k"])
            self.assert_near(kind, found[0], found[1], 3e-6 * np.abs(found[1]).max())

    def test_the_same_as_with_the_cost(self):
        emit = ("--emit", "plan,row_potential,col_potential")
        for kind in COSTS:
            for m, n, d, dtype, bound in ((1, 1, 1, "f8", 1e-11), (1, 7, 3, "f8", 1e-11), (70, 131, 5, "f8", 1e-9),
                                          (33, 20, 2, "f4", 2e-5)):
                data = {name: values.astype(dtype) for name, values in self.data(m, m, n, d).items()}
                for options in (("--epsilon", 0.2), ("--epsilon", 0.01, "--iterations", 40), ("--epsilon", 0.2, "--unbalanced", 1)):
                    with self.subTest(kind=kind, m=m, options=options):
                        self.write("in.h5", **data)
                        got, result = self.solve("in.h5", "--energy", kind, *options, *emit)
                        self.write("in.h5", **self.as_cost(data, kind))
                        want, expected = self.solve("in.h5", *options, *emit)
                        self.assert_near("plan", got["plan"], want["plan"], bound)
                        self.assert_near("f", 0.01 * got["row_potential"], 0.01 * want["row_potential"], 10 * bound)
                        self.assertAlmostEqual(result["value"], expected["value"], delta=10 * bound)

    def test_points_that_are_near_each_other(self):
        """Far from the origin, and equal or at a distance of 1e-4: no product of vectors could tell in float32."""
        q = np.array([[100, 200], [100, 201], [100, 200.0001], [103, 204]], np.float32)
        for kind in ("euclidean", "l1"):
            self.write("in.h5", q=q, k=q)
            got, _ = self.solve("in.h5", "--from", "qk", "--energy", kind, "--epsilon", 1e-3, "--iterations", 1, "--emit", "row_potential")
            self.run_tool("attn-compute", "in.h5", "--energy", kind, "--emit", "scores", "-o", "s.h5", "--force")
            want = -COSTS[kind](q.astype(float), q.astype(float))
            self.assert_near("scores", self.read("s.h5")["scores"], want, 1e-6 * np.abs(want) + 1e-12)
            self.assertTrue(np.isfinite(got["row_potential"]).all())

    def test_exact(self):
        for kind in COSTS:
            data = self.data(5, 9, 11)
            for solver, gap in (("simplex", 1e-12), ("annealing", 1e-4)):
                with self.subTest(kind=kind, solver=solver):
                    self.write("in.h5", **data)
                    got, result = self.solve("exact", "in.h5", "--energy", kind, "--solver", solver, "--emit", "plan,dual_grad_q,dual_grad_k")
                    costs = self.as_cost(data, kind)
                    self.write("cost.h5", **costs)
                    _, want = self.solve("exact", "cost.h5", "--solver", "simplex")
                    self.assertAlmostEqual(result["value"], want["value"], delta=2 * gap * want["value"])
                    self.assertAlmostEqual(result["value"], (got["plan"] * costs["cost"]).sum(), delta=1e-12)

                    # The derivatives are those of the cost of this plan.
                    def value(moved):
                        return (got["plan"] * COSTS[kind](moved["q"], moved["k"])).sum((-2, -1))
                    for name in "qk":
                        self.assert_near(name, got["dual_grad_" + name], self.derivatives(data, value, name), 1e-7)

    def test_divergence(self):
        for kind in COSTS:
            data = self.data(6, 6, 5)
            options = ("--energy", kind, "--epsilon", 0.4, *EXACTLY)

            def value(moved):
                self.write("in.h5", **moved)
                return self.figures("divergence", "divergence", "in.h5", *options)
            q, k, a, b = data.values()
            f, g = potentials(COSTS[kind](q, k), a, b, 0.4)
            f_q, _ = potentials(COSTS[kind](q, q), a, a, 0.4)
            g_k, _ = potentials(COSTS[kind](k, k), b, b, 0.4)
            self.write("in.h5", **data)
            got, result = self.solve("divergence", "in.h5", *options, "--emit", "dual_grad_q,dual_grad_k")
            self.assertAlmostEqual(result["divergence"], a @ (f - f_q) + b @ (g - g_k), 11)
            for name in "qk":
                self.assert_near(name, got["dual_grad_" + name], self.derivatives(data, value, name), 1e-7)

    def test_derivatives_of_the_optimum_and_through_the_solution(self):
        random = np.random.default_rng(8)
        h = random.normal(size=(5, 4))
        for kind in COSTS:
            data = self.data(7, 5, 4)
            for options in ((), ("--unbalanced", 1)):
                options = ("--energy", kind, "--epsilon", 0.5, *EXACTLY, *options)

                def optimum(moved):
                    self.write("in.h5", **moved)
                    return self.figures("dual", "in.h5", *options)

                def number(moved):
                    self.write("in.h5", **moved)
                    return (h * self.solve("in.h5", *options, "--emit", "plan")[0]["plan"]).sum((-2, -1))
                self.write("in.h5", **data, grad_plan=h)
                got, _ = self.solve("in.h5", *options, "--emit", "dual_grad_q,dual_grad_k,grad_q,grad_k")
                for name in "qk":
                    want = self.derivatives(data, optimum, name)
                    self.assert_near("dual_grad_" + name, got["dual_grad_" + name], want, 1e-7)
                    want = self.derivatives(data, number, name)
                    self.assert_near("grad_" + name, got["grad_" + name], want, 1e-6)

    def test_equal_points_have_no_slope(self):
        """|x - y| at x = y, whose derivative is 0 by convention."""
        q = np.random.default_rng(9).normal(size=(6, 2))
        for kind in ("euclidean", "l1"):
            self.write("in.h5", q=q, k=q)
            got, result = self.solve("exact", "in.h5", "--energy", kind, "--emit", "dual_grad_q,dual_grad_k")
            self.assertEqual(result["value"], 0)
            self.assertTrue((got["dual_grad_q"] == 0).all() and (got["dual_grad_k"] == 0).all())


class Runs(PointCostTest):

    def test_neither_threads_nor_memory_change_a_bit(self):
        random = np.random.default_rng(10)
        q, k = random.normal(size=(2, 300, 4)).astype("f4"), random.normal(size=(200, 4)).astype("f4")
        self.write("in.h5", q=q, k=k, grad_row_potential=np.ones(300))
        for kind in COSTS:
            options = ("in.h5", "--energy", kind, "--epsilon", 0.5, "--emit", "row_potential,col_potential,dual_grad_q,grad_k")
            want, _ = self.solve(*options, "--threads", 1)
            for more in (("--threads", 3), ("--memory", "5M", "--threads", 2)):
                got, _ = self.solve(*options, *more)
                self.assert_same_bits(got, want, ["row_potential", "col_potential", "dual_grad_q", "grad_k"])

    def test_memory_is_linear(self):
        n = 20000
        self.write("in.h5", q=np.ones((n, 3), "f4"), k=np.ones((n, 3), "f4"))
        for kind in COSTS:
            self.run_tool("sinkhorn-iter", "in.h5", "--energy", kind, "--epsilon", 1, "--memory", "64M", "--threads", 1, "--dry-run",
                          "--json=out.json")

    def test_padding_may_be_0(self):
        data = self.data(11, 5, 6)
        data["k"][4:] = 0
        self.write("in.h5", q=data["q"], k=data["k"], key_length=np.array(4))
        got, _ = self.solve("in.h5", "--energy", "cosine", "--epsilon", 1, "--emit", "plan")
        self.assertTrue((got["plan"][:, 4:] == 0).all() and (got["plan"][:, :4] > 0).all())

    def test_points_that_nothing_reaches_may_be_0(self):
        """By a mask, or by a mass of 0: all other results are those without these points."""
        data = self.data(14, 6, 7)
        rows, cols = np.arange(6) != 2, np.arange(7) % 3 != 1
        data["a"], data["b"] = (x / x.sum() for x in (data["a"] * rows, data["b"] * cols))
        data["grad_plan"] = np.random.default_rng(15).normal(size=(6, 7))
        through = "plan,dual_grad_q,grad_q,grad_k,row_potential"
        of_divergence = "row_potential,col_self_potential,dual_grad_q,dual_grad_k"
        entropic = ("--epsilon", 0.3)
        for dtype, leaves_out, options, emit in (
                ("f8", "mask", entropic, through),
                ("f8", "masses", entropic, through),
                ("f4", "masses", (*entropic, "--unbalanced", 0.7), through),
                ("f8", "masses", (*entropic, "--anneal", "--tolerance", 1e-12), "plan,dual_grad_k"),
                ("f8", "masses", ("divergence", *entropic), of_divergence),
                ("f8", "masses", ("divergence", *entropic, "--unbalanced", 2), of_divergence + ",dual_grad_b"),
                ("f8", "masses", ("exact",), "plan,dual_grad_q,dual_grad_k"),
                ("f8", "masses", ("exact", "--solver", "annealing", "--iterations", 3000, "--gap", 1e-3), "plan,dual_grad_q")):
            with self.subTest(dtype=dtype, leaves_out=leaves_out, options=options):
                own = {name: values.astype(dtype) for name, values in data.items()}
                if leaves_out == "mask":
                    del own["a"], own["b"]
                if emit != through:
                    del own["grad_plan"]
                line = {"q": rows, "a": rows, "k": cols, "b": cols, "grad_plan": np.ix_(rows, cols)}
                self.write("in.h5", **{name: values[line[name]] for name, values in own.items()})
                want, expected = self.solve(*options, "in.h5", "--energy", "cosine", "--emit", emit)
                own["q"], own["k"] = own["q"] * rows[:, None].astype(dtype), own["k"] * cols[:, None].astype(dtype)
                if leaves_out == "mask":
                    own["mask"] = rows[:, None] & cols
                self.write("in.h5", **own)
                got, result = self.solve(*options, "in.h5", "--energy", "cosine", "--emit", emit)
                self.assertEqual(result["status"], expected["status"])
                limit = 0.05 if "annealing" in options else 1e-9 if dtype == "f8" else 1e-5
                for name in emit.split(","):
                    values = got[name][...]
                    of_row = "row" in name or name.endswith("_q")
                    inner = np.ix_(rows, cols) if name == "plan" else rows if of_row else cols
                    self.assert_near(name, values[inner], want[name], limit)
                    values[inner] = 7
                    outside = -np.inf if "potential" in name else 0
                    self.assertTrue(((values == outside) | (values == 7)).all(), name)

    def test_attention_leaves_out_masked_points(self):
        data = self.data(16, 5, 6)
        random = np.random.default_rng(17)
        mask = np.ones((5, 6), bool)
        mask[:, 3] = False
        inputs = {"q": data["q"], "k": data["k"] * mask[0][:, None], "v": random.normal(size=(6, 2)), "grad_out": random.normal(size=(5, 2))}
        command = ("attn-compute", "in.h5", "--energy", "cosine", "-o", "out.h5", "--force", "--emit", "out,grad_q,grad_k", "--only", "--scheme")
        for scheme in (("unas",), ("dnas",), ("sinkhorn",), ("hnas", "--hybrid", 0.4)):
            self.write("in.h5", mask=mask, **inputs)
            self.run_tool(*command, *scheme)
            got = self.read("out.h5")
            self.write("in.h5", **{name: x[mask[0]] if name in "kv" else x for name, x in inputs.items()})
            self.run_tool(*command, *scheme)
            want = self.read("out.h5")
            for name in ("out", "grad_q"):
                self.assert_near(name, got[name], want[name], 1e-12)
            self.assert_near("k", got["grad_k"][mask[0]], want["grad_k"], 1e-12)
            self.assertTrue((got["grad_k"][3] == 0).all())
        mask[2, 3] = True
        self.write("in.h5", mask=mask, **inputs)
        self.refused("attn-compute", "in.h5", "--energy", "cosine", status=3, says="key 3 is 0, which has no cosine", hint="a mask leave out",
                     output="other.h5")


class Refused(PointCostTest):

    def test_wrong_use(self):
        data = self.data(12, 3, 4)
        self.write("in.h5", **data)
        self.refused("sinkhorn-iter", "in.h5", "--energy", "dot", "--epsilon", 1, status=2,
                     says="--energy dot is no cost of points, expected gaussian, euclidean, l1, cosine", hint="--scale X")
        self.refused("sinkhorn-iter", "exact", "in.h5", "--energy", "scaled-dot", status=2, says="is no cost of points")
        data["k"][2] = 0
        self.write("in.h5", **data)
        self.refused("sinkhorn-iter", "in.h5", "--energy", "cosine", "--epsilon", 1, status=3,
                     says=["in.h5:/q and in.h5:/k", "key 2 is 0, which has no cosine"], hint="a mass of 0 or a mask leaves it out")
        self.refused("sinkhorn-iter", "divergence", "in.h5", "--energy", "cosine", "--epsilon", 1, status=3,
                     says="key 2 is 0, which has no cosine", hint="a mass of 0 leaves it out")
        # A mass of 0 of other points, and a default mass, do not leave them out.
        command = ("sinkhorn-iter", "in.h5", "--energy", "cosine", "--epsilon", 1)
        self.write("in.h5", **{name: data[name] for name in "qk"}, a=np.array([0, 1, 1.]))
        self.refused(*command, status=3, says="key 2 is 0, which has no cosine")
        self.write("in.h5", **{**data, "b": np.array([1, 1, 0, 1.]), "q": data["q"] * np.array([[0], [1], [1]])})
        self.refused(*command, status=3, says="query 0 is 0, which has no cosine")
        self.write("in.h5", **{**data, "a": np.array([[1, 0, 1, 0], [1, 1, 0, 1.]])})
        self.refused("sinkhorn-iter", "barycentre", "in.h5", "--energy", "cosine", "--epsilon", 1, status=3, says="key 2 is 0")


if __name__ == "__main__":
    unittest.main()
