"""lambda-solve: the dual of attention, against an independent solver and the formulas."""

import unittest

import numpy as np

from attn import ToolTest


def softmax(logits, log_u):
    s = logits + log_u
    s = s - s.max()
    e = np.exp(s)
    return e / e.sum()


def solve(t, z, u, alpha):
    """lambda and p of one query by damped Newton steps; t (n, d), u (n) with any sum."""
    with np.errstate(divide="ignore"):
        log_u = np.log(u / u.sum())
    target = z + (u / u.sum()) @ t
    value = lambda x: (x @ target - x @ x / (2 * alpha)
                       - (lambda s: s.max() + np.log(np.exp(s - s.max()).sum()))(t @ x + log_u))
    x = np.zeros_like(z)
    for _ in range(500):
        p = softmax(t @ x, log_u)
        h = p @ t
        gradient = target - x / alpha - h
        hessian = np.eye(len(z)) / alpha + (t * p[:, None]).T @ t - np.outer(h, h)
        step = np.linalg.solve(hessian, gradient)
        rate = 1.0
        while value(x + rate * step) < value(x) and rate > 1e-3:
            rate /= 2
        x = x + rate * step
        if np.linalg.norm(step) <= 1e-14 * (1 + np.linalg.norm(x)):
            break
    return x, softmax(t @ x, log_u)


def t5_bucket(distance, bidirectional, buckets=32, furthest=128):
    """The row of the table for key − query, as the model T5 has it."""
    found = 0
    if bidirectional:
        buckets //= 2
        found = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(0, -distance)
    exact = buckets // 2
    if distance < exact:
        return found + distance
    far = exact + int(np.log(distance / exact) / np.log(furthest / exact) * (buckets - exact))
    return found + min(far, buckets - 1)


class LambdaTest(ToolTest):

    def solve(self, *arguments, **more):
        return self.run_tool("lambda-solve", *arguments, **more).bundle()

    def check(self, found, t, z, u, alpha, problem=...):
        """Results of one problem: t (n, d), z (Q, d), u (Q, n)."""
        for q in range(len(z)):
            if not u[q].any():
                for name in ("lambda", "h", "p", "gap", "gradient_norm", "relative_deviation"):
                    self.assertFalse(found[name][problem][q].any(), name)
                continue
            x, p = solve(t, z[q], u[q], alpha)
            self.assert_near("lambda", found["lambda"][problem][q], x, 2e-9)
            # An error of lambda changes logits by at most its size times the norm of a template.
            reach = 2e-9 * np.linalg.norm(t, axis=1).max() * 2
            self.assert_near("p", found["p"][problem][q], p, reach + 1e-12)
            self.assert_near("h", found["h"][problem][q], p @ t,
                             reach * np.linalg.norm(t, axis=1).max() + 1e-12)
            deviation = np.linalg.norm(x - alpha * z[q]) / np.linalg.norm(x)
            self.assert_near("relative_deviation", found["relative_deviation"][problem][q],
                             deviation, 1e-8)
            with np.errstate(divide="ignore"):
                log_u = np.log(u[q])
            first = softmax(t @ (alpha * z[q]), log_u) @ t
            self.assert_near("h_first_order", found["h_first_order"][problem][q], first, 1e-12)
            mean = (u[q] / u[q].sum()) @ t
            covariance = (t * (u[q] / u[q].sum())[:, None]).T @ t - np.outer(mean, mean)
            second = alpha * np.linalg.solve(np.eye(len(mean)) + alpha * covariance, z[q])
            self.assert_near("h_second_order", found["h_second_order"][problem][q],
                             softmax(t @ second, log_u) @ t, 1e-11)

    def everything(self, *arguments):
        names = "lambda,h,p,gap,gradient_norm,iterations,relative_deviation,h_first_order," \
                "h_second_order"
        return self.solve(*arguments, "-q", "--emit", names)


class LambdaSolve(LambdaTest):

    def test_templates_with_preferences(self):
        random = np.random.default_rng(1)
        for n, d, queries in ((1, 1, 1), (30, 3, 7), (9, 25, 4), (40, 20, 5)):
            t, z = random.normal(size=(n, d)), random.normal(size=(queries, d))
            u = random.uniform(size=(queries, n)) * (random.uniform(size=(queries, n)) > 0.3)
            u[0] = 0
            one = random.uniform(0.1, 1, n)
            for given, full in ((u, u), (one, np.broadcast_to(one, u.shape)), (None, np.ones_like(u))):
                for alpha in (0.1, 3.0):
                    with self.subTest(n=n, d=d, alpha=alpha, given=np.shape(given)):
                        extra = {} if given is None else {"preference": given}
                        self.write("in.h5", t=t, z=z, **extra)
                        found = self.everything("in.h5", f"--alpha={alpha}")
                        self.check(found, t, z, full, alpha)
                        self.assertEqual(found["lambda"].dtype, np.float64)
                        self.assertEqual(found.attributes["attn_dual_status"], "converged")
                        self.assertEqual(found.attributes["attn_dual_alpha"], alpha)

    def test_grouped_keys_causal_and_mask(self):
        random = np.random.default_rng(2)
        q, k = random.normal(size=(2, 4, 9, 5)), random.normal(size=(2, 2, 9, 5))
        mask = random.uniform(size=(9, 9)) > 0.3
        length = np.array([9, 6])
        self.write("in.h5", q=q, k=k, mask=mask, key_length=length)
        found = self.everything("in.h5", "--causal=top-left")
        for b in range(2):
            for h in range(4):
                u = (mask & np.tri(9, dtype=bool) & (np.arange(9) < length[b])).astype(float)
                self.check(found, k[b, h // 2] / np.sqrt(5), q[b, h], u, 1, (b, h))
        self.assertEqual(found.labels["lambda"][1:], ["head", "query", "axis"])
        dot = self.everything("in.h5", "--causal=top-left", "--energy=dot", f"--scale={5 ** -0.5!r}")
        self.assert_near("lambda", dot["lambda"], found["lambda"], 1e-13)

    def test_projections_have_templates_of_the_layers_input(self):
        random = np.random.default_rng(3)
        x, y = random.normal(size=(6, 7)), random.normal(size=(8, 7))
        wq, wk, wv = (random.normal(size=(2, 7, 3)) for _ in range(3))
        bq, bk = random.normal(size=(2, 3)), random.normal(size=(2, 3))
        for others, keys in (({}, x), ({"y": y}, y)):
            self.write("in.h5", x=x, wq=wq, wk=wk, wv=wv, bq=bq, bk=bk, **others)
            found = self.everything("in.h5", "--from=projection")
            outputs = self.solve("in.h5", "--from=projection", "-q", "--emit=out,p")
            for head in range(2):
                z = (x @ wq[head] + bq[head]) @ wk[head].T
                u = np.ones((6, len(keys)))
                self.check(found, keys / np.sqrt(3), z, u, 1, head)
                self.assert_near("out", outputs["out"][head],
                                 outputs["p"][head] @ (keys @ wv[head]), 1e-12)

    def test_t5_preferences(self):
        random = np.random.default_rng(4)
        q, k = random.normal(size=(2, 12, 3)), random.normal(size=(2, 12, 3))
        table = random.normal(size=(32, 2))
        self.write("in.h5", q=q, k=k, rel_bias=table)
        for causal in ([], ["--causal"]):
            found = self.everything("in.h5", "--relative-bias=t5", *causal)
            # The weights of attn-compute for zero vectors are the preferences.
            self.write("zero.h5", q=0 * q, k=0 * k, rel_bias=table)
            u = self.compute("zero.h5", "--relative-bias=t5", *causal, "--emit=weights", "-q")
            for head in range(2):
                self.check(found, k[head] / np.sqrt(3), q[head], u["weights"][head], 1, head)

    def test_kinds_of_t5(self):
        """Encoder (bidirectional), decoder (causal), and cross-attention (no preference) with biases
        of the projections and the templates' scale, against the formulas, as means over heads."""
        random = np.random.default_rng(8)
        x, y = random.normal(size=(2, 9, 6)), random.normal(size=(2, 11, 6))
        wq, wk = (random.normal(size=(3, 6, 4)) / 2 for _ in range(2))
        bq, bk = random.normal(size=(3, 4)), random.normal(size=(3, 4))
        table = random.normal(size=(32, 3))
        layer = {"x": x, "wq": wq, "wk": wk, "bq": bq, "bk": bk}
        t5 = {"rel_bias": table}
        for kind, data, options in (
                ("encoder", layer | t5, ["--relative-bias=t5"]),
                ("decoder", layer | t5, ["--relative-bias=t5", "--causal"]),
                ("cross", layer | {"y": y}, [])):
            keys = data.get("y", x)
            self.write("in.h5", **data)
            self.run_tool("lambda-solve", "--from=projection", "--energy=dot",
                          "--template-scale=0.5", "--average=heads", *options, "--emit=lambda,"
                          "relative_deviation", "in.h5", "-o", "out.h5", "--force",
                          "--json=out.json")
            found = self.read("out.h5")
            result = self.read_json("out.json")["result"]
            self.assertEqual(result["template_scale"], 0.5)
            self.assertEqual(found.attributes["attn_dual_scale"], 0.5)
            self.assertEqual(found.attributes["attn_dual_evidence_scale"], 2)
            expected = np.empty((2, 3, 9))
            for b, h, i in np.ndindex(2, 3, 9):
                # Twice the evidence and half the templates: <t, z> is the unscaled score.
                z = 2 * ((x[b, i] @ wq[h] + bq[h]) @ wk[h].T)
                u = np.exp([table[t5_bucket(j - i, kind == "encoder"), h] if t5.items() <= data.items()
                            else 0.0 for j in range(len(keys[b]))])
                if kind == "decoder":
                    u[i + 1:] = 0
                answer, _ = solve(keys[b] / 2, z, u, 1.0)
                self.assert_near("lambda", found["lambda"][b, h, i], answer, 2e-9)
                expected[b, h, i] = np.linalg.norm(answer - z) / np.linalg.norm(answer)
            self.assert_near("deviation", found["relative_deviation"], expected, 1e-8)
            means = expected.mean(axis=1).ravel()
            average = result["mean_over_heads"]
            self.assertEqual(average["queries"], means.size)
            for name, value in (("mean", means.mean()), ("median", np.median(means)),
                                ("min", means.min()), ("max", means.max())):
                self.assertAlmostEqual(average["relative_deviation"][name], value, delta=1e-8)

    def test_scale_of_the_templates(self):
        # The same scores: 1/sqrt(d) in the templates is the default of scaled-dot.
        random = np.random.default_rng(9)
        q, k = random.normal(size=(2, 7, 4)), random.normal(size=(2, 7, 4))
        self.write("in.h5", q=q, k=k)
        usual = self.everything("in.h5")
        same = self.everything("in.h5", "--template-scale=0.5")
        self.assert_same_bits(same, usual, [n for n in usual if n not in ("q", "k", "history")])
        big = self.everything("in.h5", "--template-scale=1")
        for head in range(2):
            self.check(big, k[head], q[head] / 2, np.ones((7, 7)), 1, head)
        deviations = [self.everything("in.h5", f"--template-scale={s}")["relative_deviation"].mean()
                      for s in (0.25, 0.5, 1)]
        self.assertEqual(deviations, sorted(deviations))
        self.refused("lambda-solve", "--template-scale=0", "in.h5", status=2,
                     says=["--template-scale is 0"])

    def test_first_order_is_attention(self):
        random = np.random.default_rng(5)
        q, k, v = random.normal(size=(3, 6, 4)), random.normal(size=(3, 6, 4)), random.normal(size=(3, 6, 2))
        self.write("in.h5", q=q, k=k, v=v)
        found = self.solve("in.h5", "--causal", "-q")
        plain = self.compute("in.h5", "--causal", "-q")
        # For a query with one allowed key all results agree.
        self.assert_near("out", found["out"][:, 0], v[:, 0], 1e-12)
        self.assertFalse(found["relative_deviation"][:, 0].any())
        away = np.linalg.norm(found["out"] - plain["out"], axis=-1)
        self.assert_near("out_deviation", found["out_deviation"],
                         away / np.linalg.norm(found["out"], axis=-1), 1e-9)
        self.assertNotIn("p", found)

    def test_precisions(self):
        random = np.random.default_rng(6)
        t, z = random.normal(size=(2, 20, 6)).astype(np.float32), random.normal(size=(2, 5, 6))
        self.write("in.h5", t=t, z=z.astype(np.float32))
        rough = self.solve("in.h5", "-q", "--emit=lambda,p")
        exact = self.solve("in.h5", "-q", "--emit=lambda,p", "--precision=f64")
        self.assertEqual(rough["lambda"].dtype, np.float64)
        self.assertEqual(rough["p"].dtype, np.float32)
        self.assertEqual(exact["p"].dtype, np.float64)
        # 10 times the tolerance of float32.
        self.assert_near("lambda", rough["lambda"], exact["lambda"], 1e-3)

    def test_preferences_by_problem(self):
        random = np.random.default_rng(7)
        t, z, u = random.normal(size=(3, 8, 4)), random.normal(size=(3, 5, 4)), random.uniform(size=(3, 8))
        self.write("in.h5", t=t, z=z, preference=u)
        found = self.everything("in.h5")
        for head in range(3):
            self.check(found, t[head], z[head], np.broadcast_to(u[head], (5, 8)), 1, head)

    def test_transport(self):
        random = np.random.default_rng(8)
        t, z = random.normal(size=(7, 3)), random.normal(size=(4, 3))
        u = random.uniform(size=7)
        u[2] = 0
        cost = random.uniform(size=(7, 7))
        cost[1, 4] = np.inf
        gamma, alpha = 0.3, 2.0
        self.write("in.h5", t=t, z=z, preference=u, cost=cost)
        found = self.solve("in.h5", "--divergence=ot", f"--gamma={gamma}", f"--alpha={alpha}", "-q",
                           "--emit=lambda,p,h,gap,gradient_norm")
        u = u / u.sum()

        def weights(x):
            logits = ((t @ x)[:, None] - cost) / gamma
            plan = np.exp(logits - logits.max(axis=0))
            return plan / plan.sum(axis=0) @ u
        mean = weights(np.zeros(3)) @ t
        for q in range(4):
            x = found["lambda"][q]
            p = weights(x)
            self.assert_near("p", found["p"][q], p, 1e-12)
            self.assertAlmostEqual(found["p"][q].sum(), 1, delta=1e-13)
            # The optimum is where lambda = alpha (mean + z - h).
            self.assert_near("lambda", x, alpha * (mean + z[q] - p @ t), 1e-9)
        self.assertEqual(found.attributes["attn_dual_gamma"], gamma)

    def test_bits_do_not_depend_on_threads_or_memory(self):
        random = np.random.default_rng(11)
        self.write("in.h5", q=random.normal(size=(3, 70, 24)), k=random.normal(size=(3, 50, 24)))
        expected = self.solve("in.h5", "-q", "--threads=1")
        for options in (["--threads=3"], ["--threads=2", "--memory=3M"]):
            self.assert_same_bits(self.solve("in.h5", "-q", *options), expected)

    def test_few_queries_at_a_time(self):
        """Where a head does not fit the memory, its queries are solved some at a time, to the same bits and report."""
        random = np.random.default_rng(14)
        data = {name: random.normal(size=(2, length, width)).astype("f4")
                for name, length, width in (("q", 700, 24), ("k", 200, 24), ("v", 200, 7))}
        mask = random.random(size=(700, 200)) < 0.7
        self.write("in.h5", **data, mask=mask, query_length=np.array([700, 520]), key_start=np.array([0, 9]))
        results = ("lambda,h,gap,gradient_norm,iterations,relative_deviation,h_first_order,h_second_order,out,"
                   "out_deviation,p")
        for options in ([], ["--causal=top-left", "--precision=f64"], ["--radius=60", "--gradient-tolerance=1e-6"]):
            command = [*options, "--emit", results + (",alpha" if "--radius=60" in options else "")]
            whole = self.run_tool("lambda-solve", "in.h5", *command, "-o", "whole.h5", "--force", "--json=whole.json")
            for memory in ("3500K", "5M"):
                with self.subTest(options=options, memory=memory):
                    planned = self.run_tool("lambda-solve", "in.h5", *command, "--memory", memory, "--dry-run", "--json")
                    self.assertLess(planned.json()["result"]["working_bytes"], 1024 * int(memory[:-1]) *
                                    (1 if memory.endswith("K") else 1024))
                    run = self.run_tool("lambda-solve", "in.h5", *command, "-o", "parts.h5", "--force", "--json=parts.json",
                                        "--memory", memory)
                    self.assert_same_bits(self.read("parts.h5"), self.read("whole.h5"))
                    self.assertEqual(run.err, whole.err)
                    self.assertEqual(self.read_json("parts.json")["result"], self.read_json("whole.json")["result"])
        # A checkpoint keeps blocks of queries, whatever the memory.
        self.run_tool("lambda-solve", "in.h5", "-o", "whole.h5", "--force")
        self.run_tool("lambda-solve", "in.h5", "--memory=3500K", "--checkpoint=ck", "-o", "parts.h5", "--force")
        self.assert_same_bits(self.read("parts.h5"), self.read("whole.h5"))
        # Messages count the queries of the head.
        data["q"][1, 610] = 1e3
        self.write("far.h5", **data)
        for options in ([], ["--memory=3500K"]):
            self.refused("lambda-solve", "far.h5", "--radius=80", *options, status=4, says=["query 610"])

    def test_a_cost_of_float64_is_computed_with(self):
        random = np.random.default_rng(16)
        t, z = (random.normal(size=(n, 3)).astype(np.float32) for n in (4, 2))
        for dtype, precision in ((np.float32, "f32"), (np.float64, "f64")):
            self.write("in.h5", t=t, z=z, cost=random.uniform(size=(4, 4)).astype(dtype))
            done = self.run_tool("lambda-solve", "in.h5", "--divergence=ot", "--gamma=1", "--json",
                                 "-o", f"{precision}.h5").json()
            self.assertEqual(done["params"]["precision"], precision)


if __name__ == "__main__":
    unittest.main()
