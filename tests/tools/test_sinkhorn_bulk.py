"""sinkhorn-iter bulk: many small problems against the formulas, their reports, and chains."""

import h5py
import numpy as np

from arrays import Brain, safetensors
from attn import LONG, ToolTest
from shards import ShardTest
from test_sinkhorn_iter import iterate

EMIT = ("--emit", "plan,row_potential,col_potential,error")


class Bulk(ToolTest):

    def bulk(self, scores, *arguments, **marginals):
        """The bundle, and the result of the report."""
        self.write("in.h5", scores=scores, **marginals)
        done = self.run_tool("sinkhorn-iter", "bulk", *EMIT, *arguments, "in.h5", "-o", "out.h5",
                             "--force", "--json")
        return self.read("out.h5"), done.json()["result"]

    def check(self, scores, iterations, bundle, a=None, b=None):
        m, n = scores.shape[-2:]
        # Potentials are sums of roundings of the type, of m + n terms; errors sum over lines.
        limit = (m + n + 8) * np.finfo(scores.dtype).eps * max(1, np.abs(scores).max())
        for index in np.ndindex(scores.shape[:-2]):
            own_a = np.ones(m) if a is None else a if a.ndim == 1 else a[index]
            own_b = np.full(n, own_a.sum() / n) if b is None else b if b.ndim == 1 else b[index]
            f, g, plan, errors = iterate(scores[index], own_a, own_b, iterations)
            self.assert_near("row_potential", bundle["row_potential"][index], f, limit)
            self.assert_near("col_potential", bundle["col_potential"][index], g, limit)
            self.assert_near("plan", bundle["plan"][index], plan, limit)
            self.assert_near("error", bundle["error"][index], errors[-1], limit * (m + n))

    def test_numbers(self):
        random = np.random.default_rng(1)
        for shape in ((33, 4, 4), (3, 2, 7, 4, 4), (2, 5, 3), (4, 4), (1, 1, 1), (2, 64, 64)):
            for dtype in (np.float32, np.float64):
                with self.subTest(shape=shape, dtype=dtype):
                    scores = random.normal(size=shape).astype(dtype)
                    bundle, result = self.bulk(scores, "--iterations", 20)
                    self.assertEqual(bundle["plan"].dtype, dtype)
                    self.check(scores, 20, bundle)
                    self.assertEqual(result["scaled"], np.prod(shape[:-2]))
                    self.assertEqual(result["largest_error"], np.max(bundle["error"]))

    def test_marginals(self):
        random = np.random.default_rng(2)
        scores = random.normal(size=(3, 5, 4, 6))
        for a, b in ((random.uniform(size=4), None), (None, random.uniform(size=6)),
                     (random.uniform(size=(3, 5, 4)), random.uniform(size=(3, 5, 6)))):
            given = {name: value for name, value in (("a", a), ("b", b)) if value is not None}
            bundle, _ = self.bulk(scores, "--iterations", 3, **given)
            self.check(scores, 3, bundle, a, b)

    def test_wide_ranges_and_closed_pairs(self):
        scores = np.random.default_rng(3).normal(size=(9, 4, 4))
        scores[2] *= 100
        scores[5, 1, 3] = -np.inf
        bundle, result = self.bulk(scores)
        self.assertEqual((result["scaled"], result["logarithmic"]), (8, 1))
        finite = np.where(np.isinf(scores), -1e4, scores)
        f, g, plan, _ = iterate(scores[2], np.ones(4), np.ones(4), 20)
        self.assert_near("plan", bundle["plan"][2], plan, 1e-10)
        f, g, plan, _ = iterate(finite[5], np.ones(4), np.ones(4), 20)
        self.assert_near("plan", bundle["plan"][5], plan, 1e-13)
        # Nothing meets these marginals: only column 0 is open to two rows.
        scores[0, :2, 1:] = -np.inf
        bundle, result = self.bulk(scores, "--iterations", 2000)
        self.assertGreater(bundle["error"][0], 0.9)
        self.assertTrue(np.isfinite(bundle["plan"]).all())

    def test_chain(self):
        scores = np.random.default_rng(4).normal(size=(5, 6, 4, 4))
        bundle, result = self.bulk(scores, "--chain", "--iterations", 2)
        product = np.broadcast_to(np.eye(4), (5, 4, 4))
        for layer in range(6):
            product = bundle["plan"][:, layer] @ product
            gains = np.stack([np.linalg.norm(product, 2, (1, 2)), product.sum(2).max(1),
                              product.sum(1).max(1)], 1)
            self.assert_near("chain", bundle["chain"][:, layer], gains, 1e-13)
        self.assert_near("largest", [result["largest_gain"][name] for name in
                                     ("spectral", "row_sum", "column_sum")], gains.max(0), 1e-13)
        # In the limit all gains are 1.
        bundle, _ = self.bulk(scores, "--chain", "--iterations", 2000)
        self.assert_near("limit", bundle["chain"], np.ones((5, 6, 3)), 1e-12)

    def test_threads_and_memory(self):
        self.write("in.h5", scores=np.random.default_rng(5).normal(size=(40, 50, 4, 4)))
        for name, *more in (("one.h5", "--threads", "1"), ("three.h5", "--threads", "3"),
                            ("few.h5", "--memory", "64K")):
            self.run_tool("sinkhorn-iter", "bulk", *EMIT, "--chain", *more, "in.h5", "-o", name)
        for name in ("three.h5", "few.h5"):
            done = self.run_tool("tensor-compare", "one.h5", name)
            self.assertTrue(done.out.decode().endswith("same\n"))

    def test_refused(self):
        command = ("sinkhorn-iter", "bulk")
        scores = np.zeros((3, 2, 4, 4))
        self.write("wide.h5", scores=np.zeros((3, 65, 4)))
        self.refused(*command, "wide.h5", status=3, says=["wide.h5:/scores", "[1, 64]"])
        scores[2, 1, 3, 0] = np.nan
        self.write("nan.h5", scores=scores)
        self.refused(*command, "nan.h5", status=3, says=["nan.h5:/scores", "[2, 1, 3, 0]"])
        self.write("a.h5", scores=np.zeros((3, 4, 4)), a=np.array([1, 1, -1, 1.0]))
        self.refused(*command, "a.h5", status=3, says=["a.h5:/a", "-1", ">= 0"])
        self.write("b.h5", scores=np.zeros((3, 4, 4)), b=np.ones((2, 4)))
        self.refused(*command, "b.h5", status=3, says=["b.h5:/b", "(2, 4)", "(3, 4)"])
        self.write("flat.h5", scores=np.zeros((3, 4, 5)))
        self.refused(*command, "--chain", "flat.h5", status=2, says=["--chain", "square"])
        self.refused(*command, "--tolerance", "1e-3", "flat.h5", status=2, says=["--tolerance"])
        self.refused(*command, "--memory", "1K", "flat.h5", status=6, says=["--memory"])
        self.write("empty.h5", scores=np.zeros((0, 4, 4)))
        self.run_tool(*command, "empty.h5", "-o", "none.h5")
        self.assertEqual(self.read("none.h5")["error"].shape, (0,))


def unrolled(scores, iterations, order="columns", eps=0, a=None, b=None):
    """The plans in long double; with eps the softmax first, and eps added to it and to each later sum."""
    axes = (-1, -2) if order == "rows" else (-2, -1)
    log = scores.astype(np.longdouble)
    lse = lambda x, axis: np.log(np.exp(x - x.max(axis, keepdims=True)).sum(axis, keepdims=True)) + x.max(axis, keepdims=True)
    if eps:
        plan = np.exp(log - lse(log, axes[0])) + eps
        for axis in ((-2, -1) * iterations if order == "columns" else (-1, -2) * iterations)[1:]:
            plan = plan / (plan.sum(axis, keepdims=True) + eps)
        return plan
    m, n = log.shape[-2:]
    a = np.ones(m) if a is None else a
    b = np.full(n, a.sum(-1) / n) if b is None else b
    wanted = {-1: np.log(a)[..., :, None], -2: np.log(b)[..., None, :]}
    for axis in axes * iterations:
        log = log - lse(log, axis) + wanted[axis]
    return np.exp(log)


def differences(plans, scores, upstream, step=1e-5):
    gradient = np.zeros(scores.shape)
    for entry in np.ndindex(scores.shape[-2:]):
        moved = np.zeros(scores.shape, np.longdouble)
        moved[(..., *entry)] = step
        change = plans(scores + moved) - plans(scores - moved)
        gradient[(..., *entry)] = (change * upstream).sum((-1, -2)) / (2 * step)
    return gradient


class Orders(ToolTest):

    def check(self, scores, iterations, order, eps, **marginals):
        upstream = np.random.default_rng(11).normal(size=scores.shape).astype(scores.dtype)
        self.write("in.h5", scores=scores, grad_plan=upstream, **marginals)
        self.run_tool("sinkhorn-iter", "bulk", "--emit", "plan,error,grad_scores", "--order", order, "--eps", eps,
                      "--iterations", iterations, "in.h5", "-o", "out.h5", "--only", "--force")
        found = self.read("out.h5")
        plans = lambda s: unrolled(s, iterations, order, eps, **marginals)
        unit = np.finfo(scores.dtype).eps * (sum(scores.shape[-2:]) + iterations + 8) * max(1, np.abs(scores).max(initial=0))
        self.assert_near("plan", found["plan"], plans(scores), unit)
        # The differences have an error of about 1e-10.
        self.assert_near("grad_scores", found["grad_scores"], differences(plans, scores, upstream), unit + 3e-9)
        return found

    def test_orders_and_eps(self):
        random = np.random.default_rng(12)
        for shape in ((5, 4, 4), (2, 3, 3), (1, 1), (2, 8, 8), (3, 3, 5), (0, 4, 4)):
            for dtype in (np.float32, np.float64):
                for order in ("columns", "rows"):
                    for eps in (0, 1e-6, 1e-25) if shape[-1] == shape[-2] else (0,):
                        for width in (1, 12):
                            with self.subTest(shape=shape, dtype=dtype, order=order, eps=eps, width=width):
                                scores = (random.normal(size=shape) * width).astype(dtype)
                                self.check(scores, 7 if width > 1 else 1, order, eps)

    def test_marginals(self):
        random = np.random.default_rng(13)
        a, b = random.uniform(0.5, 2, size=(6, 4)), random.uniform(0.5, 2, size=(6, 3))
        b *= (a.sum(1) / b.sum(1))[:, None]
        for order in ("columns", "rows"):
            self.check(random.normal(size=(6, 4, 3)), 20, order, 0, a=a, b=b)

    def test_the_sums_of_the_last_half_are_exact(self):
        scores = np.random.default_rng(14).normal(size=(9, 4, 6)) * 3
        for order, axis, of_rows in (("columns", 2, 1), ("rows", 1, 4 / 6)):
            plan = self.check(scores, 3, order, 0)["plan"]
            self.assert_near("sums", plan.sum(axis), np.full_like(plan.sum(axis), of_rows), 1e-14)

    def test_gradient_of_a_converged_plan_is_the_implicit_one(self):
        random = np.random.default_rng(15)
        self.write("in.h5", scores=random.normal(size=(4, 4, 4)), grad_plan=random.normal(size=(4, 4, 4)))
        options = ("--emit", "grad_scores", "in.h5", "--only", "--force")
        self.run_tool("sinkhorn-iter", "bulk", "--iterations", 500, *options, "-o", "bulk.h5")
        self.run_tool("sinkhorn-iter", "--tolerance", 1e-13, *options, "-o", "one.h5")
        self.assert_near("grad_scores", self.read("bulk.h5")["grad_scores"], self.read("one.h5")["grad_scores"], 1e-11)

    def test_closed_lines_have_no_gradient(self):
        scores = np.random.default_rng(16).normal(size=(3, 4, 4))
        scores[1, 2] = scores[2, :, 0] = -np.inf
        scores[0] *= 100
        self.write("in.h5", scores=scores, grad_plan=np.random.default_rng(17).normal(size=(3, 4, 4)))
        for order in ("columns", "rows"):
            self.run_tool("sinkhorn-iter", "bulk", "--emit", "grad_scores", "--order", order, "in.h5", "-o", "out.h5",
                          "--only", "--force")
            gradient = self.read("out.h5")["grad_scores"]
            self.assertTrue(np.isfinite(gradient).all())
            self.assertEqual(np.abs(gradient[np.isinf(scores)]).max(), 0)

    def test_threads_and_memory(self):
        random = np.random.default_rng(18)
        self.write("in.h5", scores=random.normal(size=(40, 50, 4, 4)) * 5, grad_plan=random.normal(size=(40, 50, 4, 4)))
        command = ("sinkhorn-iter", "bulk", "--emit", "plan,error,grad_scores", "--order", "rows", "--eps", "1e-6", "in.h5",
                   "--only")
        for name, *more in (("one.h5", "--threads", "1"), ("three.h5", "--threads", "3"), ("few.h5", "--memory", "512K")):
            self.run_tool(*command, *more, "-o", name)
        for name in ("three.h5", "few.h5"):
            self.assertTrue(self.run_tool("tensor-compare", "one.h5", name).out.decode().endswith("same\n"))
        self.refused(*command, "--iterations", 100000000, status=6, says=["--memory"])

    def test_later_tools_do_not_make_another_plan(self):
        self.write("in.h5", scores=np.random.default_rng(19).normal(size=(4, 4)))
        for options, has_it in (((), True), (("--order", "rows"), False), (("--eps", "1e-6"), False)):
            self.run_tool("sinkhorn-iter", "bulk", *options, "in.h5", "-o", "out.h5", "--force")
            with h5py.File(self.folder / "out.h5") as file:
                self.assertEqual("attn_scheme" in file.attrs, has_it)
                self.assertEqual("row_potential" in file, options != ("--eps", "1e-6"))

    def test_refused(self):
        command = ("sinkhorn-iter", "bulk")
        scores = np.zeros((3, 4, 4))
        self.write("in.h5", scores=scores)
        self.refused(*command, "--emit", "grad_scores", "in.h5", status=2, says=["no dataset grad_plan"])
        self.refused(*command, "--emit", "row_potential", "--eps", "1e-6", "in.h5", status=2, says=["row_potential", "--eps"])
        self.refused(*command, "--emit", "grad_a", "in.h5", status=2, says=["grad_a", "bulk"])
        self.refused(*command, "--gradient", "implicit", "in.h5", status=2, says=["through its iterations"])
        self.refused(*command, "--eps", "2", "in.h5", status=2, says=["--eps", "[0, 1]"])
        self.write("wide.h5", scores=np.zeros((3, 4, 5)))
        self.refused(*command, "--eps", "1e-6", "wide.h5", status=2, says=["--eps", "square", "(3, 4, 5)"])
        self.write("a.h5", scores=scores, a=np.ones(4))
        self.refused(*command, "--eps", "1e-6", "a.h5", status=2, says=["--eps", "a.h5:/a"])
        self.write("grad.h5", scores=scores, grad_plan=np.zeros((4, 4)))
        self.refused(*command, "--emit", "grad_scores", "grad.h5", status=3, says=["grad.h5:/grad_plan", "(4, 4)", "(3, 4, 4)"])
        grad = np.zeros((3, 4, 4))
        grad[2, 1, 0] = np.inf
        self.write("inf.h5", scores=scores, grad_plan=grad)
        self.refused(*command, "--emit", "grad_scores", "inf.h5", status=3, says=["inf.h5:/grad_plan", "[2, 1, 0]"])
        self.write("row.h5", scores=scores, grad_plan=scores, grad_row_potential=np.zeros((3, 4)))
        self.refused(*command, "--emit", "grad_scores", "row.h5", status=2, says=["row.h5:/grad_row_potential"])
        scores[1, 2, 3] = -np.inf
        self.write("closed.h5", scores=scores)
        self.refused(*command, "--eps", "1e-6", "closed.h5", status=3, says=["closed.h5:/scores", "[1, 2, 3]", "--eps"])
        # A factor of exp(35) times the gradient exceeds float32.
        self.write("large.h5", scores=np.float32([[0, 0], [-35, -35]]), grad_plan=np.float32([[1e25, 0], [1e25, 0]]))
        self.refused(*command, "--precision", "f32", "--emit", "grad_scores", "large.h5", status=4, says=["grad_scores exceeds float32"], hint="f64")


class Against(ToolTest):

    COMMAND = ("sinkhorn-iter", "bulk", "--order", "rows", "in.h5", "--only", "--force")

    def compare(self, *options, status=0):
        done = self.run_tool(*self.COMMAND, "-o", "out.h5", "--json", "--against", "kernel.h5", *options, status=status)
        return done, done.json()["result"]["against"]

    def kernel(self, scores, upstream, iterations, eps, dtype):
        """In float32, and stored as dtype."""
        plan = np.exp(scores - scores.max(-1, keepdims=True))
        plan = plan / plan.sum(-1, keepdims=True) + np.float32(eps)
        for axis in ((-1, -2) * iterations)[1:]:
            plan = plan / (plan.sum(axis, keepdims=True) + np.float32(eps))
        right = lambda s: unrolled(s, iterations, "rows", eps)
        self.write("kernel.h5", plan=plan.astype(dtype), grad_scores=differences(right, scores, upstream).astype(dtype))

    def test_right_and_wrong_kernels(self):
        random = np.random.default_rng(21)
        for width in (1, 12):
            scores = (random.normal(size=(40, 5, 4, 4)) * width).astype(np.float32)
            upstream = random.normal(size=scores.shape).astype(np.float32)
            self.write("in.h5", scores=scores, grad_plan=upstream)
            for dtype in (np.float16, np.float32):
                self.kernel(scores, upstream, 20, 1e-6, dtype)
                _, found = self.compare("--eps", "1e-6")
                self.assertEqual({name: one["differing"] for name, one in found.items()}, {"plan": 0, "grad_scores": 0})
                self.assertEqual(found["plan"]["matrices"], 200)
                # The kernel lacks an iteration, which some problems show.
                done, found = self.compare("--eps", "1e-6", "--iterations", 5, status=1)
                self.assertIn("differs in", done.err)
            # Without eps, float32 shows the difference almost everywhere.
            _, found = self.compare(status=1)
            self.assertGreater(found["plan"]["differing"], 150)

    def test_bfloat16(self):
        scores = np.random.default_rng(23).normal(size=(30, 4, 4)).astype(np.float32) * 3
        self.write("in.h5", scores=scores)
        bits = unrolled(scores, 20, "rows", 1e-6).astype(np.float32).view(np.uint32)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        command = (*self.COMMAND, "-o", "out.h5", "--against", "kernel.safetensors")
        for kernel, status in ((rounded, 0), ((bits >> 16).astype(np.uint16) - 1, 1)):
            (self.folder / "kernel.safetensors").write_bytes(safetensors({"plan": kernel.view(Brain)}))
            self.run_tool(*command, "--eps", "1e-6", status=status)

    def test_the_worst_entry(self):
        random = np.random.default_rng(22)
        scores, upstream = random.normal(size=(2, 7, 3, 4, 4)).astype(np.float32)[:, :, 0]
        self.write("in.h5", scores=scores, grad_plan=upstream)
        plan = unrolled(scores, 20, "rows").astype(np.float32)
        plan[3, 1, 2] += 1e-3
        plan[5, 0, 0] -= 2e-3
        self.write("kernel.h5", plan=plan)
        for threads in (1, 3):
            done, found = self.compare("--threads", threads, "--memory", "64K", status=1)
            self.assertEqual((found["plan"]["differing"], found["plan"]["worst"]["index"]), (2, [5, 0, 0]))
            self.assertAlmostEqual(found["plan"]["worst"]["found"], plan[5, 0, 0], delta=1e-9)
            self.assertIn("2 of 7 matrices", done.err)
        plan[6, 3, 3] = np.nan
        self.write("kernel.h5", plan=plan)
        _, found = self.compare(status=1)
        self.assertEqual(found["plan"]["worst"]["index"], [6, 3, 3])
        self.assertNotIn("grad_scores", found)

    def test_refused(self):
        self.write("in.h5", scores=np.zeros((3, 4, 4)))
        self.write("none.h5", out=np.zeros(3))
        command = self.COMMAND
        self.refused(*command, "--against", "none.h5", status=3, says=["none.h5", "plan or grad_scores"])
        self.refused(*command, "--against", "missing.h5", status=3, says=["missing.h5"])
        self.write("flat.h5", plan=np.zeros((3, 4, 5)))
        self.refused(*command, "--against", "flat.h5", status=3, says=["flat.h5:/plan", "(3, 4, 5)"])
        self.write("grad.h5", grad_scores=np.zeros((3, 4, 4)))
        self.refused(*command, "--against", "grad.h5", status=2, says=["grad.h5:/grad_scores", "grad_plan"])
        self.write("plan.h5", plan=np.zeros((3, 4, 4)))
        self.refused(*command, "--against", "plan.h5", "--precision", "f32", status=2, says=["--against", "f32"])
        self.refused(*command, "--against", "plan.h5", output="plan.h5", status=2, says=["-o plan.h5 would replace"])
        self.refused(*command, "--against", "plan.h5", "--shard", "1/2", status=2, says=["--against", "--shard"])


class Shards(ShardTest):

    def check_report(self, *arguments, count):
        whole = self.run_tool("sinkhorn-iter", "bulk", *arguments, "--json=whole.json", "-o", "whole.h5",
                              "--only", "--force")
        parts = self.shards("sinkhorn-iter bulk", *arguments, count=count)
        done = self.run_tool("tensor-join", *parts[::-1], "--json=joined.json", "-o", "joined.h5", "--force")
        self.assert_same("whole.h5", "joined.h5")
        expected, found = self.read_json("whole.json"), self.read_json("joined.json")
        self.assertEqual(found["result"]["report"]["result"], expected["result"])
        self.assertEqual(found["result"]["report"]["tool"], "sinkhorn-iter")
        for name, value in found["result"]["report"]["params"].items():
            self.assertEqual(value, expected["params"][name], name)
        summary = whole.err.splitlines()[-1].partition(" -> ")[0].partition(": ")[2]
        self.assertIn(summary + f", from {count} shard", done.err)
        for part in parts:
            (self.folder / part).unlink()
        return expected["result"]

    def test_report_of_all_shards(self):
        scores = np.random.default_rng(7).normal(size=(40, 2, 4, 4))
        scores[3] *= 100
        scores[17, 1] *= 1e-7
        self.write("in.h5", scores=scores)
        for count in (1, 3, 64) if LONG else (1, 5):
            for more in ((), ("--chain",)):
                with self.subTest(count=count, more=more):
                    result = self.check_report("in.h5", "--iterations", 3, *more, count=count)
                    errors = self.read("whole.h5")["error"]
                    self.assertAlmostEqual(result["mean_error"], errors.mean(), delta=1e-15 * 80 * errors.max())
                    self.assertEqual(result["logarithmic"], 2)

    def test_report_of_groups(self):
        draw = np.random.default_rng(8)
        self.write("in.h5", **{f"layer{n}__scores": draw.normal(size=(n + 1, 3, 3)).astype(np.float32)
                               for n in range(5)})
        for count in (1, 2, 7):
            result = self.check_report("in.h5", "--each", "layer*", "--emit", "row_potential", count=count)
            self.assertEqual([group["problems"] for group in result["groups"]], [1, 2, 3, 4, 5])

    def test_damaged_notes(self):
        self.write("in.h5", scores=np.random.default_rng(9).normal(size=(6, 3, 3)))
        parts = self.shards("sinkhorn-iter bulk", "in.h5", count=2)
        with h5py.File(self.folder / parts[1], "r+") as file:
            notes = file["attn_shard/report/0/figures"]
            notes[0] = notes[0].replace(b'"errors":[', b'"errors":[9999999999,')
        self.refused("tensor-join", *parts, status=3, says=[parts[1], "damaged"], output="joined.h5")

    def test_no_table(self):
        self.write("in.h5", scores=np.random.default_rng(9).normal(size=(6, 3, 3)))
        parts = self.shards("sinkhorn-iter bulk", "in.h5", count=2)
        self.refused("tensor-join", *parts, "--tsv", status=2, says=["--tsv", "sinkhorn-iter"], output="j.h5")

    def test_joined_shards_are_the_whole(self):
        self.write("in.h5", scores=np.random.default_rng(6).normal(size=(7, 3, 4, 4)))
        for more in ((), ("--chain",)):
            self.run_tool("sinkhorn-iter", "bulk", *EMIT, *more, "in.h5", "-o", "whole.h5",
                          "--only", "--force")
            parts = self.shards("sinkhorn-iter bulk", *EMIT, *more, "in.h5", "--force", count=4)
            self.run_tool("tensor-join", *parts, "-o", "joined.h5", "--force")
            self.assert_same("whole.h5", "joined.h5")
            for part in parts:
                (self.folder / part).unlink()
