"""The log-likelihoods of attn-compute and mode-collapse-sim simulate, against NumPy."""

import unittest

import numpy as np

from attn import sample
from collapse import PAIR, CollapseTest
from formulas import LONG


def log_densities(data, centres, variance):
    """log N(x_n | m_c, variance I), shaped (data, centres), in long double."""
    squares = ((data[:, None].astype(LONG) - centres[None].astype(LONG))**2).sum(-1)
    d = data.shape[1]
    return -squares / (2 * variance) - LONG(d) / 2 * np.log(2 * np.pi * LONG(variance))


def log_likelihood(data, centres, variance, log_prior=None, allowed=None):
    """Of the data and the centres with an allowed pair; `allowed` is (data, centres)."""
    logs = log_densities(data, centres, variance)
    allowed = np.ones(logs.shape, bool) if allowed is None else allowed
    prior = np.zeros(len(centres), LONG) if log_prior is None else log_prior.astype(LONG)
    prior = np.where(allowed.any(0), prior, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(allowed, logs + prior - np.log(np.exp(prior).sum()), -np.inf)
    logs = logs[allowed.any(1)]
    top = logs.max(1, keepdims=True, initial=-1e300)
    return (top[:, 0] + np.log(np.exp(logs - top).sum(1))).sum()


class Compute(CollapseTest):

    def found(self, scheme, *options, scale=1.0, energy="gaussian", **data):
        self.write("in.h5", **data)
        command = ["in.h5", f"--scheme={scheme}", f"--scale={scale}", f"--energy={energy}",
                   *options, "--json", "-o", "out.h5", "--force"]
        return self.run_tool("attn-compute", *command).json()["result"]

    def test_against_the_formula(self):
        cases = [(queries, keys, d, scale, masked, biased, kind)
                 for queries, keys, d in ((1, 1, 1), (1, 7, 3), (7, 1, 2), (33, 65, 5), (129, 64, 2))
                 for scale in (1.0, 0.3, 12.5) for masked in (False, True)
                 for biased in (False, True) for kind in (np.float32, np.float64)]
        for n, (queries, keys, d, scale, masked, biased, kind) in enumerate(sample(cases, 40)):
            random = np.random.default_rng(n)
            for scheme in ("unas", "dnas"):
                of_keys = scheme == "unas"
                q = random.normal(size=(2, queries, d)).astype(kind)
                k = (random.normal(size=(keys, d)) + 0.5).astype(kind)
                data, allowed = {"q": q, "k": k}, np.ones((queries, keys), bool)
                if masked:
                    allowed = random.random((queries, keys)) < 0.8
                    allowed[random.integers(queries)] = False
                    allowed[:, random.integers(keys)] = False
                    data["mask"] = allowed
                prior = None
                if biased:
                    prior = random.normal(size=keys if of_keys else queries).astype(kind)
                    data["bias"] = prior[None, :] if of_keys else prior[:, None]
                expected = 0
                for head in q:
                    pair, over = ((head, k), allowed) if of_keys else ((k, head), allowed.T)
                    expected += log_likelihood(*pair, 1 / scale, prior, over)
                value = self.found(scheme, scale=scale, **data)["log_likelihood"]
                # Each potential has the error of its scores.
                size = 2 * max(queries, keys) * (30 + 40 * scale)
                limit = (1e-6 if kind == np.float32 else 1e-14) * size
                self.assertLessEqual(abs(value - expected), limit, (scheme, n))

    def test_padding_does_not_count(self):
        random = np.random.default_rng(1)
        q, k = random.normal(size=(2, 9, 3)), random.normal(size=(2, 11, 3))
        lengths = {"query_length": np.array([9, 4]), "key_length": np.array([6, 11])}
        for scheme in ("unas", "dnas"):
            expected = 0
            for b in range(2):
                own_q, own_k = q[b, :lengths["query_length"][b]], k[b, :lengths["key_length"][b]]
                pair = (own_q, own_k) if scheme == "unas" else (own_k, own_q)
                expected += log_likelihood(*pair, 1)
            value = self.found(scheme, q=q, k=k, **lengths)["log_likelihood"]
            self.assertLessEqual(abs(value - expected), 1e-12 * abs(expected))

    def test_sequences_without_queries_or_without_keys(self):
        lengths = {"query_length": np.array([0, 3]), "key_length": np.array([4, 0])}
        for scheme, bias in (("unas", np.ones((1, 4))), ("dnas", np.ones((3, 1)))):
            result = self.found(scheme, q=np.zeros((2, 3, 2)), k=np.ones((2, 4, 2)), bias=bias,
                                **lengths)
            self.assertEqual(result["log_likelihood"], 0)

    def test_one_gaussian(self):
        value = self.found("dnas", scale=4.0, q=np.zeros((1, 1)), k=np.array([[0.5]]))
        self.assertAlmostEqual(value["log_likelihood"], -0.5 - 0.5 * np.log(2 * np.pi / 4), 14)

    def test_there_is_none(self):
        random = np.random.default_rng(2)
        q, k = random.normal(size=(5, 3)), random.normal(size=(6, 3))
        self.assertIn("log_likelihood", self.found("dnas", q=q, k=k))
        for scheme, options, more in (
                ("sinkhorn", ["--iterations=1"], {}), ("hnas", ["--hybrid=0.5"], {}),
                ("dnas", ["--softcap=5"], {}), ("dnas", [], {"sink": np.float64(0.5)}),
                ("dnas", [], {"bias": np.zeros((1, 6))}), ("unas", [], {"bias": np.zeros((5, 1))}),
                ("unas", [], {"bias": np.zeros((5, 6))}),
                ("unas", ["--relative-bias=alibi"], {})):
            result = self.found(scheme, *options, q=q, k=k, **more)
            self.assertNotIn("log_likelihood", result, (scheme, options, list(more)))
        self.assertNotIn("log_likelihood", self.found("unas", scale=-1.0, q=q, k=k))
        self.assertNotIn("log_likelihood", self.found("unas", energy="dot", q=q, k=k))

    def test_it_has_the_same_bits_with_any_threads_and_a_checkpoint(self):
        random = np.random.default_rng(3)
        data = {"q": random.normal(size=(3, 200, 4)), "k": random.normal(size=(3, 170, 4))}
        values = {self.found("dnas", f"--threads={n}", **data)["log_likelihood"]
                  for n in (1, 2, 5)}
        values.add(self.found("dnas", "--checkpoint=state", **data)["log_likelihood"])
        self.assertEqual(len(values), 1)


class Simulate(CollapseTest):

    def test_against_the_formula(self):
        for scale in (1.0, 3.0):
            bundle, result = self.sim("simulate", *PAIR, "--energy=gaussian", f"--scale={scale}",
                                      "--seeds=2", "--steps=3", json=True)
            for scheme in ("unas", "dnas"):
                values = bundle[f"{scheme}/log_likelihood"]
                self.assertEqual(values.shape, (2, 4))
                x = bundle[f"{scheme}/trajectory"]
                expected = np.array([[log_likelihood(p, p, 1 / scale) for p in run] for run in x])
                self.assert_near("log_likelihood", values, expected, 1e-12 * np.abs(expected))
                for step, figures in enumerate(result["schemes"][scheme]["steps"]):
                    self.assertEqual(figures["log_likelihood"]["max"], values[:, step].max())

    def test_the_dot_product_has_none(self):
        bundle, result = self.sim("simulate", *PAIR, "--steps=1", json=True)
        self.assertNotIn("unas/log_likelihood", bundle)
        self.assertNotIn("log_likelihood", result["schemes"]["unas"]["steps"][0])
        self.refused("mode-collapse-sim", "simulate", *PAIR, "--emit=log_likelihood", status=2,
                     says=["log_likelihood", "--energy gaussian"])


if __name__ == "__main__":
    unittest.main()
