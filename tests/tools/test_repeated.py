"""attn-compute --scheme em and mean-shift against NumPy, in long double."""

import unittest

import numpy as np

from attn import LONG, ToolTest, sample
from repeated import em, shifted

EMITTED = "--emit=out,weights,row_potential,col_potential,col_sum,row_entropy,scores"


def emitted(options):
    em_only = ",centre,variance,prior" if "--scheme=em" in options else ""
    return EMITTED + (",centre" if "--scheme=mean-shift" in options else em_only)


class Repeated(ToolTest):

    def run_on(self, data, *options, status=0):
        self.write("in.h5", **data)
        emit = emitted(options)
        done = self.run_tool("attn-compute", "in.h5", emit, *options, "--json", "-o", "out.h5",
                             "--force", status=status)
        return self.read("out.h5"), done.json()["result"]

    def compare(self, bundle, expected, kind, moves):
        """`moves`: how often an error of the centres may have grown."""
        size = np.abs(np.where(np.isfinite(expected.scores), expected.scores, 0)).max(initial=1)
        eps = 2.0**-24 if kind == np.float32 else 2.0**-53
        limit = 200 * eps * size * moves
        for name in ("weights", "out", "col_sum", "row_potential", "col_potential", "row_entropy",
                     "scores", "centre", "variance", "prior"):
            if name not in bundle:
                continue
            wanted = getattr(expected, name)
            finite = np.abs(np.where(np.isfinite(wanted), wanted, 0)).max(initial=1)
            self.assert_near(name, bundle[name], wanted, limit * float(finite))

    def data(self, random, queries, keys, d, kind, masked, biased):
        data = {"q": 0.7 * random.normal(size=(queries, d)), "k": random.normal(size=(keys, d)),
                "v": random.normal(size=(keys, 3))}
        data = {name: x.astype(kind) for name, x in data.items()}
        if masked:
            allowed = random.random((queries, keys)) < 0.8
            allowed[random.integers(queries)] = False
            allowed[:, random.integers(keys)] = False
            data["mask"] = allowed
        if biased:
            data["bias"] = random.normal(size=(queries, 1)).astype(kind)
        return data


class Em(Repeated):

    def test_against_the_formulas(self):
        cases = [(shape, times, energy, estimate, masked, biased, kind)
                 for shape in ((1, 1, 1), (1, 5, 2), (6, 1, 3), (5, 33, 2), (66, 129, 4))
                 for times in (1, 2, 5) for energy in ("gaussian", "dot", "scaled-dot")
                 for estimate in ((), ("variance",), ("priors",), ("variance", "priors"))
                 for masked in (False, True) for biased in (False, True)
                 for kind in (np.float32, np.float64)]
        for n, (shape, times, energy, estimate, masked, biased, kind) in enumerate(
                sample(cases, 29)):  # among which is each pair of values
            random = np.random.default_rng(n)
            data = self.data(random, *shape, kind, masked, biased)
            options = ["--scheme=em", f"--iterations={times}", f"--energy={energy}", "--scale=1.3"]
            if estimate:
                options.append("--estimate=" + ",".join(estimate))
            if "variance" in estimate:
                options.append("--min-variance=0.05")
            bundle, result = self.run_on(data, *options)
            expected = em(data["q"], data["k"], data["v"], times, 1.3, energy,
                          data["bias"][:, 0] if biased else None, data.get("mask"), estimate, 0.05)
            with self.subTest(n=n, shape=shape, times=times, energy=energy, estimate=estimate):
                self.compare(bundle, expected, kind, 4**(times - 1))
                values = np.array(result["log_likelihood_by_iteration"])
                self.assertEqual(len(values), times)
                self.assertEqual(values[-1], result["log_likelihood"])
                size = max(1, shape[1]) * 20
                limit = size * (1e-6 if kind == np.float32 else 1e-12)
                self.assert_near("likelihood", values, np.array(expected.log_likelihood), limit)

    def test_once_is_dnas(self):
        random = np.random.default_rng(7)
        data = self.data(random, 17, 70, 3, np.float64, True, True)
        for energy in ("gaussian", "dot", "scaled-dot"):
            options = [f"--energy={energy}", "--scale=0.8"]
            once, _ = self.run_on(data, "--scheme=em", "--iterations=1", *options)
            dnas, _ = self.run_on(data, "--scheme=dnas", *options)
            for name in ("weights", "out", "col_sum", "row_entropy"):
                self.assert_near(name, once[name], dnas[name], 1e-12)

    def test_with_the_keys_as_values_out_is_where_the_centres_move(self):
        random = np.random.default_rng(8)
        data = self.data(random, 6, 50, 2, np.float64, False, False)
        data["v"] = data["k"]
        options = ["--scheme=em", "--energy=gaussian", "--estimate=variance,priors"]
        moved, _ = self.run_on(data, *options, "--iterations=3")
        next_time, _ = self.run_on(data, *options, "--iterations=4")
        self.assert_near("centre", moved["out"], next_time["centre"], 1e-14)
        first, _ = self.run_on(data, *options, "--iterations=1")
        np.testing.assert_array_equal(first["centre"], data["q"])
        np.testing.assert_array_equal(first["variance"], 1)
        self.assert_near("prior", first["prior"], np.full(6, 1 / 6), 1e-15)
        self.assertAlmostEqual(next_time["prior"].sum(), 1, 14)

    def test_the_likelihood_never_falls(self):
        for seed in range(6 if LONG else 2):
            random = np.random.default_rng(seed)
            for kind in (np.float32, np.float64):
                data = self.data(random, 12, 150, 3, kind, seed % 2 == 1, False)
                for estimate in ([], ["--estimate=variance"], ["--estimate=priors"],
                                 ["--estimate=variance,priors"]):
                    _, result = self.run_on(data, "--scheme=em", "--iterations=12",
                                            "--energy=gaussian", "--scale=3", *estimate)
                    values = np.array(result["log_likelihood_by_iteration"])
                    # Only the last time is computed in the type of the run.
                    least = np.diff(values)
                    self.assertGreaterEqual(least[:-1].min(), -1e-10 * np.abs(values).max())
                    last = 1e-6 if kind == np.float32 else 1e-10
                    self.assertGreaterEqual(least[-1], -last * 150 * 20)
                    self.assertGreater(values[-1], values[0])

    def test_a_tight_cluster_far_from_the_origin(self):
        random = np.random.default_rng(9)
        k = 1e6 + 1e-3 * random.normal(size=(40, 2))
        data = {"q": k[:2] + 5e-4, "k": k, "v": k}
        _, result = self.run_on(data, "--scheme=em", "--iterations=6", "--energy=gaussian",
                                "--scale=1e5", "--estimate=variance", "--min-variance=1e-9")
        values = np.array(result["log_likelihood_by_iteration"])
        self.assertTrue((np.diff(values) >= -1e-10 * np.abs(values[:-1])).all())

    def test_padding(self):
        random = np.random.default_rng(10)
        q, k = random.normal(size=(2, 9, 3)), random.normal(size=(2, 11, 3))
        v = random.normal(size=(2, 11, 2))
        lengths = {"query_length": np.array([9, 4]), "key_length": np.array([6, 11])}
        for batch, own in enumerate(((9, 6), (4, 11))):
            q[batch, own[0]:], k[batch, own[1]:], v[batch, own[1]:] = np.nan, np.nan, np.nan
        options = ["--scheme=em", "--iterations=3", "--energy=gaussian",
                   "--estimate=variance,priors"]
        found, _ = self.run_on({"q": q, "k": k, "v": v, **lengths}, *options)
        for batch, (rows, cols) in enumerate(((9, 6), (4, 11))):
            alone, _ = self.run_on({"q": q[batch, :rows], "k": k[batch, :cols],
                                    "v": v[batch, :cols]}, *options)
            np.testing.assert_array_equal(found["out"][batch, :rows], alone["out"])
            np.testing.assert_array_equal(found["out"][batch, rows:], 0)
            for name in ("centre", "variance", "prior"):
                np.testing.assert_array_equal(found[name][batch, :rows], alone[name])
                np.testing.assert_array_equal(found[name][batch, rows:], 0)
            np.testing.assert_array_equal(found["col_potential"][batch, :cols],
                                          alone["col_potential"])

    def test_causal_and_window(self):
        random = np.random.default_rng(11)
        data = self.data(random, 20, 20, 2, np.float64, False, False)
        allowed = np.tril(np.ones((20, 20), bool)) & ~np.tril(np.ones((20, 20), bool), -6)
        expected = em(data["q"], data["k"], data["v"], 3, allowed=allowed,
                      estimate=("variance", "priors"))
        bundle, _ = self.run_on(data, "--scheme=em", "--iterations=3", "--energy=gaussian",
                                "--estimate=variance,priors", "--causal", "--window=6")
        self.compare(bundle, expected, np.float64, 16)

    def test_sequences_without_queries_or_without_keys(self):
        data = {"q": np.zeros((2, 3, 2)), "k": np.ones((2, 4, 2)), "v": np.ones((2, 4, 1)),
                "bias": np.ones((3, 1)), "query_length": np.array([0, 3]),
                "key_length": np.array([4, 0])}
        for scheme in (["em", "--estimate=variance,priors"], ["mean-shift"]):
            bundle, result = self.run_on(data, f"--scheme={scheme[0]}", *scheme[1:],
                                         "--iterations=3", "--energy=gaussian")
            np.testing.assert_array_equal(bundle["out"], np.zeros((2, 3, 1)))
            if scheme[0] == "em":
                self.assertEqual(result["log_likelihood_by_iteration"], [0, 0, 0])

    def test_attributes(self):
        random = np.random.default_rng(12)
        data = self.data(random, 4, 6, 2, np.float64, False, False)
        bundle, result = self.run_on(data, "--scheme=em", "--iterations=2",
                                     "--estimate=priors,variance")
        self.assertEqual(bundle.attributes["attn_scheme"], "em")
        self.assertEqual(bundle.attributes["attn_repeated"], 2)
        self.assertEqual(bundle.attributes["attn_estimate"], "variance,priors")
        self.assertEqual(bundle.attributes["attn_min_variance"], 1e-6)
        self.assertEqual((result["scheme"], result["iterations"]), ("em", 2))
        # Later tools use the weights, but cannot rebuild them.
        stored = self.stats("out.h5", "--scheme=stored", "-q")
        self.assertAlmostEqual(stored["stored"]["col_sum"]["mean"], 4 / 6)
        options = ["--scheme=em", "--iterations=2", "-o", "potentials.h5"]
        self.run_tool("attn-compute", "in.h5", *options)
        self.refused("explain-away-stats", "potentials.h5", "--scheme=stored", status=3,
                     says=["potentials of em do not rebuild"], hint="--emit weights", output=None)


class MeanShift(Repeated):

    def test_against_the_formulas(self):
        cases = [(shape, times, energy, masked, biased, kind)
                 for shape in ((1, 1, 1), (1, 5, 2), (6, 1, 3), (5, 33, 2), (66, 129, 4))
                 for times in (1, 2, 5) for energy in ("gaussian", "dot", "scaled-dot")
                 for masked in (False, True) for biased in (False, True)
                 for kind in (np.float32, np.float64)]
        for n, (shape, times, energy, masked, biased, kind) in enumerate(sample(cases, 20)):
            random = np.random.default_rng(n)
            data = self.data(random, *shape, kind, masked, False)
            if biased:
                data["bias"] = random.normal(size=shape[:2]).astype(kind)
            bundle, result = self.run_on(data, "--scheme=mean-shift", f"--iterations={times}",
                                         f"--energy={energy}", "--scale=0.7")
            expected = shifted(data["q"], data["k"], data["v"], times, 0.7, energy,
                               data.get("mask"), data.get("bias"))
            with self.subTest(n=n, shape=shape, times=times, energy=energy):
                self.compare(bundle, expected, kind, 4**(times - 1))
                self.assertEqual("log_likelihood" in result, energy == "gaussian" and not
                                 (biased and shape[0] > 1))

    def test_a_query_without_keys_stays(self):
        random = np.random.default_rng(21)
        data = self.data(random, 5, 7, 2, np.float64, False, False)
        data["mask"] = np.ones((5, 7), bool)
        data["mask"][3] = False
        for scheme in ("em", "mean-shift"):
            bundle, _ = self.run_on(data, f"--scheme={scheme}", "--iterations=4")
            np.testing.assert_array_equal(bundle["centre"][3], data["q"][3])
            np.testing.assert_array_equal(bundle["out"][3], 0)
            self.assertEqual(bundle["row_potential"][3], -np.inf)
            self.assertTrue((bundle["centre"][:3] != data["q"][:3]).all())

    def test_centres_have_the_layout_of_the_output(self):
        random = np.random.default_rng(22)
        q, k = random.normal(size=(2, 3, 5, 2)), random.normal(size=(2, 3, 7, 2))
        first = {"q": q, "k": k, "v": k}
        inside = {name: x.swapaxes(1, 2) for name, x in first.items()}
        for scheme in ("em", "mean-shift"):
            options = [f"--scheme={scheme}", "--iterations=3"]
            expected, _ = self.run_on(first, *options)
            found, _ = self.run_on(inside, *options, "--layout=blhd")
            for name in ("out", "centre"):
                np.testing.assert_array_equal(found[name], expected[name].swapaxes(1, 2))

    def test_the_likelihood_never_falls(self):
        random = np.random.default_rng(13)
        data = self.data(random, 30, 80, 2, np.float64, False, False)
        _, result = self.run_on(data, "--scheme=mean-shift", "--iterations=15",
                                "--energy=gaussian", "--scale=2")
        values = np.array(result["log_likelihood_by_iteration"])
        self.assertEqual(len(values), 15)
        self.assertTrue((np.diff(values) >= -1e-12 * np.abs(values[:-1])).all())
        self.assertGreater(values[-1], values[0] + 1)


class Bits(Repeated):

    def test_threads_memory_parts_and_checkpoints(self):
        random = np.random.default_rng(14)
        data = {"q": random.normal(size=(3, 150, 4)).astype(np.float32),
                "k": random.normal(size=(3, 200, 4)).astype(np.float32),
                "v": random.normal(size=(3, 200, 3)).astype(np.float32)}
        for scheme in (["em", "--estimate=variance,priors"], ["mean-shift"]):
            options = [f"--scheme={scheme[0]}", *scheme[1:], "--iterations=3", "--energy=gaussian"]
            one, result = self.run_on(data, *options, "--threads=1")
            names = [n for n in one if n not in data]
            for more in (["--threads=2"], ["--threads=7"], ["--threads=3", "--memory=4M"]):
                other, again = self.run_on(data, *options, *more)
                self.assert_same_bits(other, one, names)
                self.assertEqual(again["log_likelihood_by_iteration"],
                                 result["log_likelihood_by_iteration"])
            for part in (1, 2):
                self.run_tool("attn-compute", "in.h5", emitted(options), *options,
                              f"--shard={part}/2", "-o", f"{scheme[0]}.h5")
            parts = sorted(path.name for path in self.folder.glob(f"{scheme[0]}*.h5"))
            self.run_tool("tensor-join", *parts, "--with", "in.h5", "-o", "all.h5", "--force")
            self.assert_same_bits(self.read("all.h5"), one, names)
            emit = "--emit=out,col_sum,row_potential,col_potential,centre"
            kept = self.run_tool("attn-compute", "in.h5", emit, *options, "--checkpoint=state",
                                 "-o", "kept.h5", "--force", "--json").json()["result"]
            self.assert_same_bits(self.read("kept.h5"), one, ["out", "col_sum", "col_potential", "centre"])
            self.assertEqual(kept["log_likelihood_by_iteration"],
                             result["log_likelihood_by_iteration"])

    def test_chosen_queries(self):
        random = np.random.default_rng(15)
        data = self.data(random, 40, 50, 3, np.float64, True, False)
        options = ["--scheme=em", "--iterations=3", "--estimate=variance"]
        whole, _ = self.run_on(data, *options)
        chosen, _ = self.run_on(data, *options, "--queries=0,5:9,-1")
        rows = [0, 5, 6, 7, 8, 39]
        for name in ("out", "weights", "scores"):
            np.testing.assert_array_equal(chosen[name], whole[name][rows])


class Refused(Repeated):

    def test_what_does_not_fit(self):
        random = np.random.default_rng(16)
        data = self.data(random, 4, 6, 2, np.float64, False, False)
        self.write("in.h5", **data)
        em_twice = ["--scheme=em", "--iterations=2"]
        for options, says in (
                (["--scheme=em"], "--scheme em requires --iterations"),
                (["--scheme=mean-shift"], "--scheme mean-shift requires --iterations"),
                (["--scheme=dnas", "--iterations=2"], "--iterations requires --scheme"),
                (["--scheme=dnas", "--estimate=priors"], "--estimate requires --scheme em"),
                (["--scheme=mean-shift", "--iterations=2", "--estimate=priors"], "--estimate"),
                (["--scheme=mean-shift", "--iterations=2", "--emit=prior"], "--emit prior requires"),
                (["--scheme=dnas", "--emit=centre"], "--emit centre requires"),
                ([*em_twice, "--min-variance=1"], "--min-variance requires"),
                ([*em_twice, "--tolerance=1e-3"], "--tolerance requires"),
                ([*em_twice, "--estimate=variance", "--scale=2e6"],
                 "variances start at sqrt(d)/scale = 7.07107e-07, below --min-variance 1e-06"),
                ([*em_twice, "--estimate=variance", "--min-variance=0.5", "--scale=2.1",
                  "--energy=gaussian"],
                 "variances start at 1/scale = 0.47619, below --min-variance 0.5"),
                ([*em_twice, "--scale=-1"], "a scale > 0"),
                ([*em_twice, "--scale=0"], "a scale > 0"),
                ([*em_twice, "--softcap=3"], "soft cap"),
                ([*em_twice, "--relative-bias=alibi"], "relative positions")):
            self.refused("attn-compute", "in.h5", *options, status=2, says=[says])
        for more, says in (({"bias": np.zeros((4, 6))}, "one number for each query"),
                           ({"sink": np.float64(0)}, "no sink")):
            self.write("more.h5", **data, **more)
            self.refused("attn-compute", "more.h5", *em_twice, status=2, says=[says])
        self.write("scores.h5", scores=np.zeros((4, 6)))
        self.refused("attn-compute", "scores.h5", "--from=scores", *em_twice, status=2,
                     says=["q and k"])
        self.write("closed.h5", **data, bias=np.array([[0], [-np.inf], [0], [0.0]]))
        self.refused("attn-compute", "closed.h5", *em_twice, status=3, says=["query 1"])


if __name__ == "__main__":
    unittest.main()
