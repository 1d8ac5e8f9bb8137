"""hard-attention --samples: estimated gradients, their moments, and what they depend on."""

import re
import unittest

import numpy as np

from attn import ToolTest
from mechanisms import PROBLEMS

PROBLEM = next(one for one in PROBLEMS if one.tool == "hard-attention")
INPUTS = [*PROBLEM.sequences, *PROBLEM.shared]
GRADIENTS = ",".join(f"grad_{name}" for name in INPUTS)
LENGTHS = [4, 7, 0, 1, 5, 2, 7, 3, 6, 0, 7]


class HardSamples(ToolTest):

    def datasets(self, lengths=LENGTHS, dtype="f8", **more):
        return PROBLEM.datasets({"length": lengths}, dtype) | more

    def sampled(self, *words, emit=GRADIENTS, file="in.h5"):
        return self.run_tool("hard-attention", "--only", "--emit", emit, *words, file).bundle()

    def estimates(self, *words):
        done = self.run_tool("hard-attention", *words, "in.h5", "-o", "out.h5", "--force", "--json")
        return {row["devices"]: row for row in done.json()["result"]["estimates"]}

    def steps(self, datasets):
        """Weights, log p of each annotation and the gradients of entropy and log_p_soft with respect to the energies."""
        for sequence in range(len(datasets["length"])):
            own = PROBLEM.own(datasets, sequence)
            found = PROBLEM.plain(**own)
            weights = found["weights"]
            logs = np.log(weights)
            entropy = -weights * (logs - weights @ logs)
            scores = own["readout"] @ (weights @ own["a"]) + own["readout_bias"]
            p = np.exp(scores - scores.max())
            of_mean = own["readout"][own["target"]] - p / p.sum() @ own["readout"]
            soft = weights * (own["a"] @ of_mean - weights @ own["a"] @ of_mean)
            yield weights, found["log_p_each"], entropy, soft

    def test_parts_of_an_estimate(self):
        # For the same samples, an estimate is linear in its weights, and its other parts are exact.
        ones = np.ones(len(LENGTHS))
        for dtype, limit in (("f8", 1e-12), ("f4", 1e-4)):
            datasets = self.datasets(dtype=dtype)
            self.write("in.h5", **datasets, grad_log_p=ones.astype(dtype))
            self.write("entropy.h5", **datasets, grad_entropy=ones.astype(dtype))
            self.write("soft.h5", **datasets, grad_log_p_soft=ones.astype(dtype))
            self.write("twice.h5", **datasets, grad_log_p=2 * ones.astype(dtype), grad_entropy=ones.astype(dtype))
            entropy, soft = (self.sampled(file=file) for file in ("entropy.h5", "soft.h5"))
            run = ("--samples", 3, "--seed", 5)
            plain = self.sampled(*run, "--baseline", 0)
            shifted, none = self.sampled(*run, "--baseline", -2), self.sampled(*run, "--reward", 0)
            expected = {
                ("--baseline", -1): lambda name: (plain[name] + shifted[name]) / 2,
                ("--baseline", -1, "--reward", 3): lambda name: 1.5 * (plain[name] + shifted[name]) - 2 * none[name],
                ("--reward", 0, "--entropy", 0.3): lambda name: none[name] + 0.3 * entropy[name],
                ("--soft-share", 1): lambda name: soft[name],
                ("--soft-share", 1, "--entropy", -2): lambda name: soft[name] - 2 * entropy[name],
            }
            for words, value in expected.items():
                found = self.sampled(*run, *words)
                for name, gradient in found.items():
                    self.assertEqual(gradient.dtype, dtype)
                    self.assert_near(f"{name} with {words}", gradient, value(name), 10 * limit)
            # The weight of a sequence in the loss, and results that are not estimated.
            found = self.sampled(*run, "--baseline", 0, file="twice.h5")
            for name in found:
                self.assert_near(name, found[name], 2 * plain[name] + entropy[name], 10 * limit)
            self.assertGreater(np.abs(plain["grad_v"] - shifted["grad_v"]).max(), 0.01)

    def test_sequences_are_independent(self):
        # 4000 times the same sequence with one sample each: the mean of the estimates is the gradient.
        one = PROBLEM.own(self.datasets([5]), 0)
        count = 4000
        repeated = {name: values if name in PROBLEM.shared else np.broadcast_to(values, (count, *np.shape(values)))
                    for name, values in one.items()}
        self.write("in.h5", **repeated, grad_log_p=np.ones(count), grad_log_p_soft=np.zeros(count))
        self.write("one.h5", **one, grad_log_p=np.float64(1))
        self.write("soft.h5", **one, grad_log_p_soft=np.float64(1))
        exact, soft = (self.sampled(file=file) for file in ("one.h5", "soft.h5"))
        # A running baseline would make them depend on each other.
        for baseline, share in ((0, 0), ("best", 0), (-1, 0.5)):
            words = ("--baseline", baseline, "--soft-share", share)
            found = self.sampled("--samples", 1, *words)
            for name in ("grad_a", "grad_state"):
                each = found[name]
                error = each.std(axis=0) / np.sqrt(count)
                expected = (1 - share) * exact[name] + share * soft[name]
                self.assertGreater(error.min(), 0)
                self.assert_near(f"{name} with {words}", each.mean(axis=0), expected, 5 * error)

    def test_bits(self):
        for dtype in ("f8", "f4"):
            datasets = self.datasets(dtype=dtype, grad_log_p=np.linspace(1, 2, 11).astype(dtype))
            self.write("in.h5", **datasets)
            words = ("--samples", 600, "--soft-share", 0.4, "--entropy", 0.1)
            found = self.sampled(*words, "--threads", 1)
            table = self.estimates(*words, "--threads", 1)
            short = self.run_tool("hard-attention", *words, "--emit", GRADIENTS, "in.h5", "--memory", 64,
                                  "--threads", 1, status=6)
            least = re.search(r"hint: --memory (\S+)", short.err)[1]
            for more in (("--threads", 3), ("--threads", 16), ("--threads", 1, "--memory", least)):
                self.assert_same_bits(self.sampled(*words, *more), found)
            self.assertEqual(self.estimates(*words, "--threads", 3), table)
            self.assertNotEqual(self.sampled(*words, "--seed", 1)["grad_v"].tobytes(), found["grad_v"].tobytes())

    def test_padding_and_the_other_sequences(self):
        # A sequence has the bits that it has alone under its number, whatever the others are.
        words = ("--samples", 50, "--baseline", "mean", "--soft-share", 0.3)
        own = "grad_a,grad_state"
        datasets = self.datasets(grad_log_p=np.ones(11))
        self.write("in.h5", **datasets)
        found = self.sampled(*words, emit=own)
        others = self.datasets([6] * 11, grad_log_p=np.full(11, 3.0))
        for sequence in (0, 4, 7):
            mixed = {name: values.copy() for name, values in others.items()}
            for name, values in datasets.items():
                if name in PROBLEM.shared:
                    mixed[name] = values
                else:
                    mixed[name][sequence] = values[sequence]
            self.write("in.h5", **mixed)
            again = self.sampled(*words, emit=own)
            for name in again:
                self.assertEqual(again[name][sequence].tobytes(), found[name][sequence].tobytes())
        self.write("one.h5", **PROBLEM.own(datasets, 0), grad_log_p=np.float64(1))
        alone = self.sampled(*words, emit=own, file="one.h5")
        self.assertEqual(alone["grad_a"].tobytes(), found["grad_a"][0, :LENGTHS[0]].tobytes())

    def test_moments(self):
        datasets = self.datasets()
        self.write("in.h5", **datasets)
        steps = list(self.steps(datasets))
        share, entropy_weight, reward = 0.5, 0.2, 1.3
        found = self.estimates("--samples", 100000, "--enumerate", "--baseline", -2.5, "--reward", reward,
                               "--entropy", entropy_weight, "--soft-share", share)
        self.assertEqual(list(found), ["none", "baseline", "entropy", "soft", "all"])
        best = []
        for weights, each, _, _ in steps:
            square = ((np.eye(len(weights)) - weights)**2).sum(axis=1)
            if len(weights) > 1:
                best.append(weights @ (each * square) / (weights @ square))
        for devices, row in found.items():
            b = -2.5 if devices in ("baseline", "all") else 0
            e = entropy_weight if devices in ("entropy", "all") else 0
            s = share if devices in ("soft", "all") else 0
            variance, bias = [], []
            for weights, each, entropy, soft in steps:
                samples = reward * (each - b)[:, None] * (np.eye(len(weights)) - weights)
                samples = np.vstack([samples, soft]) + e * entropy
                shares = np.append((1 - s) * weights, s)
                mean = shares @ samples
                variance.append((shares @ (samples - mean)**2).sum())
                bias.append(np.linalg.norm(mean - weights * (each - weights @ each)))
            self.assert_near(devices, row["exact_variance"], np.mean(variance), 1e-12)
            self.assert_near(devices, row["exact_bias"], np.mean(bias), 1e-12)
            self.assert_near(devices, row["variance"], np.mean(variance), 0.02 * np.mean(variance))
            self.assert_near(devices, row["b"], b, 1e-12)
            self.assert_near(devices, row["best_b"], np.mean(best), 1e-12)
        for words in ((), ("--baseline", 0), ("--baseline", "best"), ("--baseline", "mean")):
            for devices, row in self.estimates("--samples", 100000, *words).items():
                self.assertLess(row["bias"], 5, devices)
                self.assertNotIn("exact_variance", row)
        self.assertGreater(found["all"]["bias"], 5)
        self.assertEqual(list(self.estimates("--samples", 9, "--baseline", 0)), ["none"])
        self.assertEqual(list(self.estimates("--samples", 9, "--baseline", 0, "--soft-share", 1)), ["none", "soft"])
        self.assertEqual(self.estimates("--samples", 1)["none"]["variance"], None)

    def test_running_baseline(self):
        # Equal annotations: log p is that of any sample.
        datasets = self.datasets([7] * 11)
        datasets["a"] = np.repeat(datasets["a"][:, :1], 7, axis=1)
        b, used = 0.0, []
        for _, each, _, _ in self.steps(datasets):
            used.append(b)
            b = 0.9 * b + 0.1 * each[0]
        self.write("in.h5", **datasets)
        self.assert_near("b", self.estimates("--samples", 2)["baseline"]["b"], np.mean(used), 1e-12)
        # A sequence without annotations has no log p, and changes nothing.
        both = {name: values if name in PROBLEM.shared else np.concatenate([values[:1], values])
                for name, values in datasets.items()}
        both["length"][0] = 0
        self.write("in.h5", **both)
        self.assert_near("b", self.estimates("--samples", 2)["baseline"]["b"], np.sum(used) / 12, 1e-12)
        # mean is log_p, here the same.
        self.write("in.h5", **datasets)
        means = [each[0] for _, each, _, _ in self.steps(datasets)]
        self.assert_near("b", self.estimates("--samples", 2, "--baseline", "mean")["baseline"]["b"], np.mean(means),
                         1e-12)

    def test_exact_without_samples(self):
        self.write("in.h5", **self.datasets(), grad_log_p=np.ones(11))
        self.assert_same_bits(self.sampled("--enumerate"), self.sampled())
        # Results are the same with samples: only gradients are estimated.
        results = "log_p,log_p_soft,log_p_each,entropy,weights"
        self.assert_same_bits(self.sampled("--samples", 5, emit=results), self.sampled(emit=results))

    def test_stale_results(self):
        self.write("in.h5", **self.datasets(), grad_log_p=np.ones(11))
        self.run_tool("hard-attention", "--emit", "log_p,grad_v,grad_a", "--samples", 5, "in.h5", "-o", "one.h5")
        for words, left in ((["--samples", 5], True), (["--samples", 5, "--seed", 2], False), ([], False),
                            (["--samples", 6], False), (["--samples", 5, "--entropy", 1], False)):
            self.run_tool("hard-attention", "--emit", "grad_v", *words, "one.h5", "-o", "two.h5", "--force")
            self.assertEqual("grad_a" in self.read("two.h5"), left, words)
            self.assertIn("log_p", self.read("two.h5"))

    def test_reports(self):
        datasets = self.datasets()
        self.write("in.h5", **datasets)
        self.write("groups.h5", **{f"layer{n}__{name}": values for n in (1, 2) for name, values in datasets.items()})
        done = self.run_tool("hard-attention", "--samples", 50, "in.h5", "-o", "out.h5")
        lines = done.out.decode().splitlines()
        self.assertIn("50", lines[0])
        self.assertEqual(lines[1].split(), ["devices", "variance", "bias", "b", "best_b"])
        self.assertEqual([line.split()[0] for line in lines[2:]], ["none", "baseline"])
        done = self.run_tool("hard-attention", "--samples", 50, "--each", "/layer*", "groups.h5", "-o", "out.h5", "--force")
        text = done.out.decode()
        self.assertIn("layer1\n", text)
        # Samples have the numbers of the sequences in their group.
        first, second = text.split("layer2\n")
        self.assertEqual(first.split("\n", 1)[1].strip(), second.strip())
        self.assertEqual(self.run_tool("hard-attention", "-q", "--samples", 50, "in.h5", "-o", "out.h5", "--force").out, b"")
        self.assertIn(b"11 sequences of ", self.run_tool("hard-attention", "--samples", 50, "in.h5", "--dry-run").out)

    def test_no_sequences(self):
        empty = {name: values if name in PROBLEM.shared else values[:0] for name, values in self.datasets().items()}
        self.write("in.h5", **empty, grad_log_p=np.ones(0))
        self.assertEqual(self.estimates("--samples", 3)["none"]["variance"], None)
        self.assertEqual(np.abs(self.sampled("--samples", 3)["grad_v"]).max(), 0)

    def test_refused(self):
        self.write("in.h5", **self.datasets())
        for words, says in {
            ("--samples", 0): ["--samples", "0"],
            ("--samples", 2.5): ["--samples", "2.5"],
            ("--samples", 5, "--baseline", "first"): ["--baseline", "first", "running, mean, best"],
            ("--samples", 5, "--baseline", "nan"): ["--baseline", "nan"],
            ("--samples", 5, "--baseline", "1e999"): ["--baseline", "1e999"],
            ("--samples", 5, "--baseline", "1 "): ["--baseline"],
            ("--samples", 5, "--soft-share", 1.5): ["--soft-share", "1.5"],
            ("--samples", 5, "--reward", "inf"): ["--reward"],
            ("--baseline", 0): ["--baseline", "no effect without --samples"],
            ("--entropy", 1): ["--entropy", "--samples"],
            ("--seed", 1): ["--seed", "--samples"],
            ("--soft-share", 0.5, "--dry-run"): ["--soft-share", "--samples"],
        }.items():
            self.refused("hard-attention", "in.h5", *words, status=2, says=says)
        self.refused("hard-attention", "in.h5", "--samples", 5, "--emit", "grad_v", status=3, says=["grad_log_p"])
        # A likelihood whose square is beyond the range.
        datasets = self.datasets([2])
        self.write("in.h5", **datasets | {"readout": np.diag([1e300] * 6)[:, :4], "a": np.array([[[1, 2.0, 0, 0]] * 7])})
        self.refused("hard-attention", "in.h5", "--samples", 5, status=4, says=["variance"])


if __name__ == "__main__":
    unittest.main()
