"""Attention sinks and output gates: weights, gradients by differences, statistics, refusals."""

import unittest

import numpy as np

from attn import ToolTest


def softmax_with_sink(s, sink):
    exponentials = np.exp(s)
    sums = exponentials.sum(-1, keepdims=True) + np.exp(sink)[:, None, None]
    return exponentials / sums, (np.exp(sink)[:, None, None] / sums)[..., 0]


def doubly_with_sink(s, sink):
    shares = np.exp(s) / np.exp(s).sum(-2, keepdims=True)
    sums = shares.sum(-1, keepdims=True) + np.exp(sink)[:, None, None]
    return shares / sums, (np.exp(sink)[:, None, None] / sums)[..., 0]


class Sinks(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        self.data = {"q": random.normal(size=(2, 3, 9, 4)), "k": random.normal(size=(2, 3, 11, 4)),
                     "v": random.normal(size=(2, 3, 11, 5)), "sink": random.normal(size=3),
                     "gate": random.normal(size=(3, 1, 5)),
                     "grad_out": random.normal(size=(2, 3, 9, 5))}
        self.write("in.h5", **self.data)
        self.scores = np.einsum("bhic,bhjc->bhij", self.data["q"], self.data["k"]) / 2

    def weights(self, scheme, u=0.3):
        unas, on_sink = softmax_with_sink(self.scores, self.data["sink"])
        if scheme == "unas":
            return unas, on_sink
        dnas, of_dnas = doubly_with_sink(self.scores, self.data["sink"])
        if scheme == "dnas":
            return dnas, of_dnas
        return u * dnas + (1 - u) * unas, u * of_dnas + (1 - u) * on_sink

    def options(self, scheme):
        return [f"--scheme={scheme}", "-q"] + (["--hybrid=0.3"] if scheme == "hnas" else [])

    def test_weights_outputs_and_entropies(self):
        for scheme in ("unas", "dnas", "hnas"):
            found = self.compute("in.h5", *self.options(scheme), "--emit=weights,out,row_entropy")
            weights, on_sink = self.weights(scheme)
            with self.subTest(scheme=scheme):
                self.assert_near("weights", found["weights"], weights, 1e-13)
                out = weights @ self.data["v"] / (1 + np.exp(-self.data["gate"]))
                self.assert_near("out", found["out"], out, 1e-13)
                entropy = -(weights * np.log(weights)).sum(-1) - on_sink * np.log(on_sink)
                self.assert_near("row_entropy", found["row_entropy"], entropy, 1e-12)
                if scheme != "hnas":
                    # f contains the sink.
                    self.assert_near("share", np.exp(self.data["sink"][:, None]
                                                     - found_potential(self, scheme)), on_sink, 1e-12)

    def test_gradients_are_differences(self):
        for scheme in ("unas", "dnas", "hnas"):
            found = self.compute("in.h5", *self.options(scheme),
                                 "--emit=grad_sink,grad_gate,grad_q,grad_v")

            def loss(**moved):
                self.write("moved.h5", **self.data | moved)
                out = self.compute("moved.h5", *self.options(scheme))["out"]
                return (out * self.data["grad_out"]).sum()
            step = 1e-5
            for name, places in (("sink", [(1,)]), ("gate", [(2, 0, 3)]), ("q", [(1, 0, 4, 2)]),
                                 ("v", [(0, 2, 7, 1)])):
                for place in places:
                    ends = []
                    for sign in (1, -1):
                        moved = self.data[name].copy()
                        moved[place] += sign * step
                        ends.append(loss(**{name: moved}))
                    with self.subTest(scheme=scheme, name=name):
                        slope = (ends[0] - ends[1]) / (2 * step)
                        self.assert_near(name, found[f"grad_{name}"][place], slope, 1e-8)

    def test_statistics(self):
        result = self.stats("in.h5", "--scheme=unas,dnas,hnas", "--hybrid=0.3", "--top-shares=2")
        for scheme in ("unas", "dnas", "hnas"):
            weights, on_sink = self.weights(scheme)
            with self.subTest(scheme=scheme):
                found = result[scheme]
                self.assert_near("sink_share", found["sink_share"], on_sink.mean(), 1e-12)
                sums = weights.sum(-2)
                self.assert_near("first", found["first_key_share"],
                                 sums[..., 0].sum() / on_sink.size, 1e-12)
                if scheme == "unas":
                    continue
                # The bound counts the sink among the keys: dnas 1/(Lk + e^sink).
                u = {"dnas": 1, "hnas": 0.3}[scheme]
                for h, head in enumerate(found["heads"]):
                    bound = u / (11 + np.exp(self.data["sink"][h % 3]))
                    self.assert_near("bound", head["bound"], bound, 1e-12)
                    self.assertGreaterEqual(head["margin"], 1)
        text = self.run_tool("explain-away-stats", "in.h5").out.decode()
        self.assertIn("sink", text)

    def test_stored_attention(self):
        for scheme in ("unas", "dnas", "hnas"):
            for emit, limit in (("weights,out", 1e-6), ("out,row_potential,col_potential", 1e-12)):
                with self.subTest(scheme=scheme, emit=emit):
                    self.run_tool("attn-compute", "in.h5", *self.options(scheme), f"--emit={emit}",
                                  "-o", "made.h5", "--force")
                    found = self.stats("made.h5", f"--scheme=stored,{scheme}")
                    for member in ("sink_share", "first_key_share"):
                        self.assert_near(member, found["stored"][member], found[scheme][member],
                                         limit)
                    self.assert_near("entropy", found["stored"]["row_entropy"]["mean"],
                                     found[scheme]["row_entropy"]["mean"], 10 * limit)

    def test_stored_potentials_of_other_scores(self):
        self.write("square.h5", **{n: self.data[n] for n in ("q", "sink")},
                   k=self.data["k"][:, :, :9])
        self.run_tool("attn-compute", "square.h5", "--causal", "--query-offset=2", "-o", "made.h5")
        self.stats("made.h5", "--scheme=stored")
        self.refused("explain-away-stats", "made.h5", "--scheme=stored", "--query-offset=0",
                     output="stats.h5", status=3,
                     says=["the potentials were computed for other scores"])

    def test_a_sink_that_takes_everything(self):
        self.write("huge.h5", **{n: self.data[n] for n in "qkv"}, sink=np.full(3, 800.0))
        self.run_tool("attn-compute", "huge.h5", "-o", "made.h5")
        found = self.stats("made.h5", "--scheme=stored,unas")
        for scheme in ("stored", "unas"):
            self.assertEqual((found[scheme]["sink_share"], found[scheme]["first_key_share"]), (1, 0))

    def test_gates_have_the_layout_of_out(self):
        data = {n: self.data[n][:, :, :9] for n in "qkv"}
        data["grad_out"] = self.data["grad_out"]
        random = np.random.default_rng(4)
        for shape in ((2, 3, 9, 5), (3, 9, 5), (2, 3, 1, 5), (2, 1, 9, 1), (3, 1, 5), (5,), ()):
            gate = random.normal(size=shape)
            self.write("first.h5", **data, gate=gate)
            inside = gate if gate.ndim < 2 else np.swapaxes(gate, -2, -3)
            self.write("inside.h5", **{n: np.swapaxes(a, 1, 2) for n, a in data.items()},
                       gate=inside)
            with self.subTest(shape=shape):
                first = self.compute("first.h5", "-q", "--emit=out,grad_gate")
                found = self.compute("inside.h5", "-q", "--emit=out,grad_gate", "--layout=blhd")
                self.assertEqual(np.swapaxes(found["out"], 1, 2).tobytes(),
                                 np.ascontiguousarray(first["out"]).tobytes())
                self.assertEqual(found["grad_gate"].shape, inside.shape)
                expected = first["grad_gate"]
                expected = expected if gate.ndim < 2 else np.swapaxes(expected, -2, -3)
                np.testing.assert_array_equal(found["grad_gate"], expected)
        # One number for each head and channel.
        gate = random.normal(size=(3, 5))
        self.write("inside.h5", **{n: np.swapaxes(a, 1, 2) for n, a in data.items()}, gate=gate)
        self.write("first.h5", **data, gate=gate[:, None])
        found = self.compute("inside.h5", "-q", "--emit=out,grad_gate", "--layout=blhd")
        first = self.compute("first.h5", "-q", "--emit=out,grad_gate")
        np.testing.assert_array_equal(np.swapaxes(found["out"], 1, 2), first["out"])
        np.testing.assert_array_equal(found["grad_gate"], first["grad_gate"][:, 0])
        self.write("inside.h5", **{n: np.swapaxes(a, 1, 2) for n, a in data.items()},
                   gate=np.ones((2, 3, 9, 5)))
        self.refused("attn-compute", "inside.h5", "--layout=blhd", status=3,
                     says=["inside.h5:/gate has shape (2, 3, 9, 5)", "(2, 9, 3, 5)"])

    def test_sweeps_of_padded_batches_with_sinks(self):
        lengths = np.array([9, 5])
        q, k = self.data["q"].copy(), self.data["k"].copy()
        q[1, :, 5:], k[1, :, 5:] = np.nan, np.nan
        self.write("padded.h5", q=q, k=k, sink=self.data["sink"], query_length=lengths,
                   key_length=lengths)
        options = ["padded.h5", "--scheme=unas,dnas"]
        sweep = self.stats(*options, "--scale=0.5,2")["sweep"]
        for point, scale in zip(sweep, (0.5, 2), strict=True):
            alone = self.stats(*options, f"--scale={scale}")
            self.assertEqual(point["result"], alone)
            self.assertEqual(alone["dnas"]["padded_keys"], 3 * (2 + 6))
            self.assertEqual(alone["dnas"]["padded_queries"], 3 * 4)
            self.assertGreater(alone["unas"]["sink_share"], 0)

    def test_zero_is_softmax_off_by_one(self):
        self.write("zero.h5", **{n: self.data[n] for n in "qkv"}, sink=np.zeros(()))
        found = self.compute("zero.h5", "-q", "--emit=weights")["weights"]
        exponentials = np.exp(self.scores)
        self.assert_near("weights", found, exponentials / (1 + exponentials.sum(-1, keepdims=True)),
                         1e-13)
        self.write("none.h5", **{n: self.data[n] for n in "qkv"}, sink=np.full(3, -np.inf))
        self.write("plain.h5", **{n: self.data[n] for n in "qkv"})
        self.assert_same_bits(self.compute("none.h5", "-q"), self.compute("plain.h5", "-q"), ["out"])

    def test_refusals(self):
        says = ["in.h5:/sink is an attention sink"]
        self.refused("attn-compute", "in.h5", "--scheme=sinkhorn", status=2, says=says)
        self.refused("explain-away-stats", "in.h5", "--scheme=sinkhorn", status=2, says=says)
        self.refused("sinkhorn-iter", "in.h5", status=2, says=says)
        self.refused("lambda-solve", "in.h5", status=2, says=says)
        vectors = {n: self.data[n] for n in "qkv"}
        for bad, text in ((np.full(3, np.nan), "sink has nan"), (np.zeros(4), "sink has leading"),
                          (np.arange(3), "sink has type")):
            self.write("bad.h5", **vectors, sink=bad)
            self.refused("attn-compute", "bad.h5", status=3, says=["bad.h5:/sink", text.split()[1]])
        self.write("bad.h5", **vectors, gate=np.zeros((9, 4)))
        self.refused("attn-compute", "bad.h5", status=3,
                     says=["bad.h5:/gate has shape (9, 4)", "(..., queries, dv)"])
        self.write("plain.h5", **vectors, grad_out=self.data["grad_out"])
        for name in ("sink", "gate"):
            self.refused("attn-compute", "plain.h5", f"--emit=grad_{name}", status=2,
                         says=[f"there is no dataset {name}"])


def found_potential(test, scheme):
    return test.compute("in.h5", *test.options(scheme), "--emit=row_potential")["row_potential"]


if __name__ == "__main__":
    unittest.main()
