"""explain-away-stats: every number in its JSON, and its inputs from a bundle."""

import unittest

import numpy as np

import formulas
from attn import ToolTest


def close(a, b):
    """Equal, numbers up to the rounding of sums in another order."""
    if isinstance(b, dict):
        return isinstance(a, dict) and all(k in a and close(a[k], b[k]) for k in b)
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(map(close, a, b))
    if isinstance(b, float) and isinstance(a, (int, float)):
        return abs(a - b) <= 1e-12 * abs(b)
    return type(a) is type(b) and a == b


def extreme_keys(c, queries, open_keys, heads, names, top, sign):
    """The first `top` of the (heads, keys) by sign·c, ties by position."""
    order = [at for at in np.ndindex(c.shape) if open_keys[at]]
    order.sort(key=lambda at: sign * c[at])
    return [{"head": heads[h], "index": j, "key": names and names[h][j], "value": float(c[h, j]),
             "queries": int(queries[h, j]), "value_per_query": float(c[h, j] / queries[h, j])}
            for h, j in order[:top]]


def few_keys(c, queries, heads, names, least, shares):
    """The expected shares of the attention on few keys, and the key with the most per query."""
    total = c.sum()
    first = sum(row[open_row][0] for row, open_row in zip(c, queries > 0) if open_row.any())
    most = [sum(np.sort(row)[::-1][:count].sum() for row in c) for count in shares]
    found = {"first_key_share": float(first / total) if total > 0 else None,
             "top_shares": [{"keys": n, "share": float(m / total) if total > 0 else None}
                            for n, m in zip(shares, most)],
             "most_per_query": None}
    enough = queries >= least
    if enough.any():
        per_query = np.where(enough, c / np.maximum(queries, 1), -1)
        h, j = np.unravel_index(per_query.argmax(), c.shape)
        found["most_per_query"] = {"head": heads[h], "index": int(j), "key": names and names[h][j],
                                   "value": float(per_query[h, j])}
    return found


def expected_summary(c, entropy, allowed, u, epsilons, edges, heads, names, top):
    """The expected JSON for column sums c (heads, Lk) and row entropies (heads, Lq), where
    `allowed` is (heads, Lq, Lk) and c >= u/(most keys of a query) is proven (u = 0: there is no
    bound)."""
    open_keys, open_rows = allowed.any(axis=1), allowed.any(axis=2)
    counted = c[open_keys]
    bounds = u / np.maximum(1, allowed.sum(axis=2).max(axis=1))
    proven = [h for h in range(len(c)) if u > 0 and open_keys[h].any()]
    margins = [c[h][open_keys[h]].min() / bounds[h] for h in proven]
    some = counted.size > 0
    below = [int((counted < e).sum()) for e in epsilons]
    queries = allowed.sum(axis=1)
    least = max(1, allowed.shape[1] // 10)
    enough = c[queries >= least]
    rest = [int((enough < e).sum()) for e in epsilons]
    positive = counted[counted > 0]
    return {
        "col_sum": {
            "min": float(counted.min()) if some else None,
            "max": float(counted.max()) if some else None,
            "mean": float(counted.mean()) if some else None,
            "median": float(np.median(counted)) if some else None,
        },
        "explained_away": [{"epsilon": e, "count": n, "share": n / counted.size if counted.size else None,
                            "enough": {"min_queries": least, "count": m,
                                       "share": m / enough.size if enough.size else None}}
                           for e, n, m in zip(epsilons, below, rest)],
        "enough_keys": enough.size,
        "bound": float(bounds[proven].min()) if proven else None,
        "margin": float(min(margins)) if proven else None,
        "holds": True if proven else None,
        "row_entropy": {"mean": float(entropy[open_rows].mean()) if open_rows.any() else None},
        "histogram": {"counts": np.histogram(np.log10(positive), edges)[0].tolist(),
                      "zeros": int((counted == 0).sum())},
        "lowest": extreme_keys(c, queries, open_keys, heads, names, top, 1),
        "highest": extreme_keys(c, queries, open_keys, heads, names, top, -1),
        "keys": counted.size,
        "masked_keys": int((~open_keys).sum()),
        "empty_rows": int((~open_rows).sum()),
    } | few_keys(c, queries, heads, names, least, (1, 10))


class Figures(ToolTest):

    def check(self, data, schemes=("unas", "dnas"), epsilons=(1e-8,), top=10, bins=20, u=0.0,
              **options):
        """Runs the tool on `data`; compares the column sums that it writes with the formulas, and
        its figures with those of NumPy for the written sums."""
        data = {name: np.asarray(values) for name, values in data.items()}
        self.write("in.h5", **data)
        flags = [f"--{name}={value}" for name, value in options.items()]
        if "hnas" in schemes:
            flags.append(f"--hybrid={u}")
        result = self.stats("in.h5", "-o", "out.h5", "--force", f"--scheme={','.join(schemes)}",
                            f"--epsilon={','.join(map(str, epsilons))}", f"--top={top}",
                            f"--bins={bins}", *flags)
        self.assertEqual(list(result), list(schemes))
        bundle = self.read("out.h5")

        s = formulas.scores(data["q"], data["k"], mask=data.get("mask"), bias=data.get("bias"),
                            **options)
        leading, (queries, keys) = s.shape[:-2], s.shape[-2:]
        heads = [list(at) for at in np.ndindex(leading)]
        allowed = (s != formulas.FORBIDDEN).reshape(-1, queries, keys)
        names = None
        if "tokens" in data:
            per_head = np.broadcast_to(
                data["tokens"].reshape(-1, *[1] * (len(leading) - 1), keys), (*leading, keys))
            names = per_head.reshape(-1, keys).tolist()
        limit = formulas.tolerance(s, "f64")[..., 0]
        for scheme in schemes:
            found = result[scheme]
            c, entropy = bundle[f"{scheme}_col_sum"], bundle[f"{scheme}_row_entropy"]
            exact = formulas.attention(s, scheme=scheme, hybrid=u)
            largest = exact.col_sum.max(axis=-1, keepdims=True)
            self.assert_near("col_sum", c, exact.col_sum, limit * largest)
            self.assert_near("row_entropy", entropy, exact.row_entropy,
                             limit * (1 + exact.row_entropy))

            edges = found["histogram"]["edges"]
            np.testing.assert_allclose(np.diff(edges), (edges[-1] - edges[0]) / (len(edges) - 1))
            c, entropy = c.reshape(-1, keys), entropy.reshape(-1, queries)
            proven = {"unas": 0.0, "dnas": 1.0, "hnas": u}[scheme]
            figures = (proven, epsilons, edges)
            whole = expected_summary(c, entropy, allowed, *figures, heads, names, top)
            self.assertTrue(close(found, whole), f"{scheme}: {found}\nexpected {whole}")
            self.quantiles_agree(found, c[allowed.any(axis=1)])
            self.assertEqual([head["index"] for head in found["heads"]], heads)
            for h, head in enumerate(found["heads"]):
                own = slice(h, h + 1)
                part = expected_summary(c[own], entropy[own], allowed[own], *figures, heads[own],
                                        names and names[own], top)
                self.assertTrue(close(head, part), f"{scheme}, head {h}: {head}\nexpected {part}")
                self.quantiles_agree(head, c[h][allowed[h].any(axis=0)])
        return result

    def quantiles_agree(self, found, counted):
        quantiles = found["col_sum"]["quantiles"]
        if counted.size == 0:
            self.assertEqual(quantiles, {})
            return
        self.assertIn("0.5", quantiles)
        expected = {p: float(np.quantile(counted, float(p))) for p in quantiles}
        self.assertTrue(close(quantiles, expected), f"{quantiles}, expected {expected}")

    def test_one_problem(self):
        random = np.random.default_rng(1)
        self.check({"q": random.normal(size=(50, 6)), "k": random.normal(size=(70, 6))}, bins=7)
        self.check({"q": random.normal(size=(1, 1)), "k": random.normal(size=(1, 1))}, top=0)

    def test_heads_masks_and_names(self):
        random = np.random.default_rng(2)
        mask = random.random((2, 1, 30, 20)) < 0.7
        mask[0, 0, 4], mask[1, 0, :, 3] = False, False
        mask[1, 0, 7] = False
        words = np.array([[f"w{b}{j}" for j in range(20)] for b in range(2)], dtype=object)
        data = {"q": 2 * random.normal(size=(2, 4, 30, 6)), "k": random.normal(size=(2, 2, 20, 6)),
                "mask": mask}
        schemes = ("unas", "dnas", "hnas")
        self.check(data | {"tokens": words}, schemes, (1e-8, 1e-3, 0.5, 3.0), u=0.3, top=25)
        self.check(data | {"tokens": words[0]}, schemes, (0.1,), u=1.0, energy="gaussian",
                   scale=1.5, causal="bottom-right")
        self.check(data, ("hnas",), u=0.0)

    def test_sums_that_are_zero(self):
        # Scores 3000 apart: under unas most keys get exactly 0, in float64 too.
        random = np.random.default_rng(3)
        data = {"q": random.normal(size=(9, 2)), "k": random.normal(size=(12, 2))}
        result = self.check(data, energy="dot", scale=3e3)
        self.assertGreater(result["unas"]["histogram"]["zeros"], 2)
        self.assertEqual(result["dnas"]["histogram"]["zeros"], 0)

    def test_a_head_with_nothing_allowed(self):
        random = np.random.default_rng(4)
        data = {"q": random.normal(size=(2, 5, 3)), "k": random.normal(size=(2, 6, 3))}
        data["mask"] = np.array([0, 1])[:, None, None]
        result = self.check(data)
        self.assertIsNone(result["dnas"]["heads"][0]["margin"])
        self.check(data | {"mask": np.zeros((1, 1), np.int8)})

    def test_bound_within_one_percent(self):
        # Query 0 prefers all keys so strongly that they spend their columns on it; the other
        # queries prefer the last key less than the rest. So it gets only its share of row 0.
        for keys in (2, 3, 10, 200):
            with self.subTest(keys=keys):
                q = np.array([[20.0, 0]] + [[0, 1.0]] * 4)
                k = np.array([[1.0, 0]] * (keys - 1) + [[1.0, -20.0]])
                result = self.check({"q": q, "k": k}, energy="dot")["dnas"]
                self.assertEqual(result["bound"], 1 / keys)
                self.assertTrue(1 - 1e-6 <= result["margin"] < 1.01, result["margin"])
                self.assertEqual(result["lowest"][0]["index"], keys - 1)

    def test_bound_on_many_instances(self):
        random = np.random.default_rng(5)
        for seed in range(16):
            with self.subTest(seed=seed):
                queries, keys, d = random.integers(2, 60, size=3)
                spread = 10.0 ** random.integers(-1, 3)
                mask = random.random((3, queries, keys)) < random.choice([0.3, 0.9, 1])
                # For sinkhorn, any iteration.
                self.write("in.h5", {"attn_iterations": random.integers(1, 4)}, mask=mask,
                           q=spread * random.normal(size=(3, queries, d)),
                           k=spread * random.normal(size=(3, keys, d)))
                result = self.stats("in.h5", "--scheme=dnas,hnas,sinkhorn", "--hybrid=0.01")
                for scheme, figures in result.items():
                    # The minimum over the heads, so one comparison suffices.
                    self.assertGreaterEqual(figures["margin"], 1 - 1e-6, scheme)
                    self.assertIs(figures["holds"], True)


class FromTheBundle(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(6)
        self.write("in.h5", **{n: random.normal(size=(2, 30, 6)) for n in "qkv"},
                   hybrid=np.array([0.2, 0.9]), mask=random.random((30, 30)) < 0.8)

    def same_figures(self, found, expected):
        """Figures of weights that were rounded once more on the way."""
        self.assertEqual(found["keys"], expected["keys"])
        self.assertEqual(found["masked_keys"], expected["masked_keys"])
        for group in ("col_sum", "row_entropy"):
            for name in ("min", "mean", "max"):
                if name in expected[group]:
                    self.assert_near(name, found[group][name], expected[group][name], 1e-12)

    def test_attributes_are_the_defaults(self):
        options = ["--energy=gaussian", "--scale=2", "--causal"]
        self.run_tool("attn-compute", "in.h5", *options, "-o", "made.h5")
        expected = self.stats("in.h5", *options)
        self.assertEqual(self.stats("made.h5"), expected)
        self.assertNotEqual(self.stats("in.h5"), expected)
        # An option overrides only its own attribute.
        self.assertEqual(self.stats("made.h5", "--scale=0.5"),
                         self.stats("in.h5", "--energy=gaussian", "--scale=0.5", "--causal"))
        # So does the precision of the run that made the bundle.
        self.run_tool("attn-compute", "in.h5", "--precision=f32", "-o", "single.h5")
        self.assertEqual(self.stats("single.h5"), self.stats("in.h5", "--precision=f32"))
        self.assertNotEqual(self.stats("single.h5"), self.stats("in.h5"))

    def test_stored_weights_and_potentials(self):
        for scheme, *more in (["unas"], ["dnas"], ["hnas"], ["hnas", "--hybrid=0.6"],
                              ["sinkhorn", "--iterations=3"]):
            with self.subTest(scheme=scheme, more=more):
                made = ["in.h5", "--causal", f"--scheme={scheme}", *more]
                made.append("--force")
                self.run_tool("attn-compute", *made, "-o", "potentials.h5")
                self.run_tool("attn-compute", *made, "-o", "weights.h5", "--emit=weights")
                anew = self.stats("weights.h5", f"--scheme={scheme}")[scheme]
                for name in ("weights.h5", "potentials.h5"):
                    stored = self.stats(name, "--scheme=stored")["stored"]
                    self.same_figures(stored, anew)
                    self.assertEqual(stored["bound"], anew["bound"])

    def test_plan_of_sinkhorn_iter(self):
        """Its tolerance is a sum, that of a scheme is relative to the total."""
        scores = 3 * np.random.default_rng(5).normal(size=(60, 70))
        for options in ([], ["--tolerance=2"], ["--tolerance=0.05", "--precision=f64"], ["--iterations=2"]):
            with self.subTest(options=options):
                self.write("scores.h5", scores=scores.astype("f4"))
                self.run_tool("sinkhorn-iter", "scores.h5", *options, "-o", "plan.h5", "--force")
                found = self.stats("plan.h5", "--scheme=sinkhorn,stored")
                tolerance = 1e-12 if "--precision=f64" in options else 1e-5  # of the column sums
                for name in ("min", "mean", "max"):
                    self.assert_near(name, found["sinkhorn"]["col_sum"][name], found["stored"]["col_sum"][name], tolerance)

    def test_tolerance_of_an_older_version(self):
        """Sinkhorn alone needs it."""
        self.write("old.h5", {"attn_tolerance": 5.0}, q=np.ones((4, 3)), k=np.ones((4, 3)))
        self.stats("old.h5")
        self.refused("explain-away-stats", "old.h5", "--scheme=sinkhorn", status=3, says=["attn_tolerance is 5"])

    def test_stored_potentials_of_other_scores(self):
        self.run_tool("attn-compute", "in.h5", "--scheme=dnas", "-o", "made.h5")
        self.stats("made.h5", "--scheme=stored")
        for options in (["--energy=gaussian"], ["--scale=3"], ["-i", "q=in.h5:/k"]):
            with self.subTest(options=options):
                self.refused("explain-away-stats", "made.h5", "--scheme=stored", *options, status=3,
                             says=["potentials", "scores"])

    def test_precedence_of_hybrid(self):
        self.write("u.h5", hybrid=np.array([0.0, 1.0]))
        self.run_tool("attn-compute", "in.h5", "--scheme=hnas", "--hybrid=0.5", "-o", "made.h5")
        for options, u in (([], "0.5"), (["--hybrid=0.3"], "0.3"), (["-i", "hybrid=u.h5"], None)):
            with self.subTest(options=options):
                found = self.stats("made.h5", "--scheme=hnas", *options)
                given = [f"--hybrid={u}"] if u else ["-i", "hybrid=u.h5"]
                self.assertEqual(found, self.stats("in.h5", "--scheme=hnas", *given))

    def test_sinkhorn_that_does_not_converge(self):
        # Under a causal mask the error falls only as 1/T.
        done = self.run_tool("explain-away-stats", "in.h5", "--scheme=sinkhorn", "--causal",
                             "--json", status=1)
        self.assertEqual(done.json()["status"], "not_converged")
        self.assertIn("sinkhorn", done.json()["warnings"][0])
        self.assertIs(done.json()["result"]["sinkhorn"]["holds"], True)

    def test_only_weights(self):
        # If weights cannot be computed, the stored ones are the default.
        self.run_tool("attn-compute", "in.h5", "--scheme=dnas", "--emit=weights", "--only",
                      "-o", "w.h5")
        expected = self.stats("in.h5", "--scheme=dnas")["dnas"]
        result = self.stats("w.h5")
        self.assertEqual(list(result), ["stored"])
        self.same_figures(result["stored"], expected)
        # Weights of unknown origin and scheme: no bound is known.
        weights = self.read("w.h5")["weights"]
        self.write("foreign.h5", weights=weights)
        foreign = self.stats("foreign.h5")["stored"]
        self.same_figures(foreign, expected)
        self.assertEqual([foreign[n] for n in ("bound", "margin", "holds")], [None] * 3)

    def test_only_weights_with_masked_keys(self):
        # Only its column sum of 0, which dnas cannot produce, shows that the key was masked.
        mask = np.arange(30) != 7
        self.run_tool("attn-compute", "in.h5", "--scheme=dnas", "--emit=weights", "--only",
                      "-i", f"mask={self.write('mask.h5', mask=mask)}", "-o", "w.h5")
        stored = self.stats("w.h5")["stored"]
        self.assertEqual((stored["masked_keys"], stored["holds"]), (2, True))

    def test_only_weights_with_an_empty_query(self):
        mask = np.ones((30, 30), bool)
        mask[4] = False
        self.write("mask.h5", mask=mask)
        for scheme in ("unas", "dnas"):
            whole = self.stats("in.h5", "-i", "mask=mask.h5", f"--scheme={scheme}")[scheme]
            self.run_tool("attn-compute", "in.h5", "-i", "mask=mask.h5", f"--scheme={scheme}",
                          "--emit=weights", "--only", "--force", "-o", "w.h5")
            stored = self.stats("w.h5")["stored"]
            self.assertEqual(stored["empty_rows"], 2)
            self.same_figures(stored, whole)

    def test_a_recorded_mask_can_be_undone(self):
        self.run_tool("attn-compute", "in.h5", "--causal", "-o", "made.h5")
        self.assertEqual(self.stats("made.h5", "--causal=none"), self.stats("in.h5"))

    def test_results_kept_by_only(self):
        # The history continues, and a mixture can be rebuilt.
        self.run_tool("attn-compute", "in.h5", "--scheme=hnas", "-o", "all.h5")
        self.run_tool("attn-compute", "all.h5", "--scheme=hnas", "--only", "-o", "only.h5")
        only = self.read("only.h5")
        np.testing.assert_array_equal(only["hybrid"], [0.2, 0.9])
        self.assertEqual(len(only.attributes["history"].splitlines()), 2)
        vectors = [word for name in "qk" for word in ("-i", f"{name}=in.h5")]
        found = self.stats("only.h5", *vectors, "-i", "mask=in.h5", "--scheme=stored")["stored"]
        self.same_figures(found, self.stats("in.h5", "--scheme=hnas")["hnas"])

    def test_masked_keys_of_stored_weights(self):
        # One key gets exactly 0 without being masked, another one is masked.
        scores = np.zeros((2, 4, 6))
        scores[:, :, 2] = -3000
        self.write("scores.h5", scores=scores, mask=np.arange(6) != 4)
        for scheme in ("unas", "dnas"):
            self.run_tool("attn-compute", "scores.h5", "--from=scores", f"--scheme={scheme}",
                          "--emit=weights,row_potential,col_potential", "--only", "--force",
                          "-o", "only.h5")
            found = self.stats("only.h5")["stored"]
            expected = self.stats("scores.h5", "--from=scores", f"--scheme={scheme}")[scheme]
            for part in ("keys", "masked_keys", "explained_away", "lowest"):
                self.assertEqual(found[part], expected[part], (scheme, part))
            self.assertEqual(found["masked_keys"], 2)
        self.assertEqual(self.stats("only.h5", "-i", "mask=scores.h5")["stored"]["keys"], 10)

    def test_every_scheme_at_once(self):
        options = ["in.h5", "--hybrid=0.5"]
        schemes = ["sinkhorn", "hnas", "dnas", "unas"]
        together = self.stats(*options, f"--scheme={','.join(schemes)}", "--bins=1")
        self.assertEqual(list(together), schemes)
        for scheme in schemes:
            own = options if scheme == "hnas" else ["in.h5"]
            alone = self.stats(*own, f"--scheme={scheme}", "--bins=1")[scheme]
            for result in (alone, together[scheme]):
                for part in (result, *result["heads"]):
                    del part["histogram"]  # its edges cover all schemes
            self.assertEqual(alone, together[scheme])

    def test_sums_of_one_share_a_bin(self):
        for bins in ([], ["--bins=2"], ["--bins=3"], ["--bins=4"], ["--bins=24"], ["--bins=25"]):
            found = self.stats("in.h5", "--scheme=dnas,sinkhorn", "--precision=f64", *bins)
            sums = found["sinkhorn"]["col_sum"]
            self.assertTrue(1 - 1e-6 < sums["min"] < 1 < sums["max"] < 1 + 1e-6, sums)
            counts = np.array(found["sinkhorn"]["histogram"]["counts"])
            self.assertEqual(np.count_nonzero(counts), 1, bins)
            edges = found["sinkhorn"]["histogram"]["edges"]
            self.assertEqual(found["dnas"]["histogram"]["edges"], edges)
            self.assertLess(edges[counts.argmax()], -1e-3)
            self.assertGreater(edges[counts.argmax() + 1], 1e-3)

    def test_bundle(self):
        # Nothing is written without -o; with it, the output also holds all of the input.
        self.run_tool("explain-away-stats", "in.h5", "-o", "out.h5")
        results = ["dnas_col_sum", "dnas_row_entropy", "queries_of_key", "unas_col_sum",
                   "unas_row_entropy"]
        bundle = self.read("out.h5")
        self.assertEqual(sorted(bundle), sorted([*self.read("in.h5"), *results]))
        self.assertEqual(bundle.labels["dnas_col_sum"], ["head", "key"])
        self.assertEqual(bundle.labels["unas_row_entropy"], ["head", "query"])
        self.run_tool("explain-away-stats", "in.h5", "--only", "-o", "only.h5")
        self.assertEqual(sorted(self.read("only.h5")), results)
        # If the bundle goes to standard output, the report goes to standard error.
        stream = self.run_tool("explain-away-stats", "in.h5", "-o", "-")
        self.assert_same_bits(stream.bundle(), bundle, results)
        self.assertIn("entropy", stream.err)


if __name__ == "__main__":
    unittest.main()
