"""Gradients through repeated attention against central differences of the formulas."""

import unittest

import numpy as np

from attn import ToolTest, sample
from problems import differences, near_differences, t5_bucket
from repeated import em, shifted

# As in test_gradients.py; each move may enlarge the rounding of the queries before it.
TOLERANCE = {"f64": 1e-8, "f32": 7e-5}


class RepeatedGradients(ToolTest):

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(21)

    def normal(self, *shape):
        return self.random.normal(size=shape).astype(np.float32).astype(np.float64)

    def near(self, forward, data, names, options, moves, precisions=("f64", "f32")):
        """`forward` computes out of one head from q, k, v and the rest of `data`."""
        def out(given):
            own = {n: x for n, x in given.items() if n not in ("q", "k", "v")}
            heads = [forward(q, given["k"][h // (len(given["q"]) // len(given["k"]))],
                             given["v"][h // (len(given["q"]) // len(given["v"]))], **own)
                     for h, q in enumerate(given["q"])]
            return np.array(heads)

        grad_out = self.normal(*out(data).shape)
        exact = differences(out, data, grad_out, names)
        self.write("in.h5", **data, grad_out=grad_out)
        emit = ",".join("grad_" + name for name in names)
        # The only query has all weights of its keys: its gradient is 0.
        floor = 1e-3 * max(np.nanmax(np.abs(gradient)) for gradient in exact.values())
        for precision in precisions:
            found = self.compute("in.h5", "-q", "--only", f"--emit={emit}",
                                 f"--precision={precision}", *options)
            for name in names:
                gradient = found["grad_" + name]
                self.assertEqual(gradient.dtype, np.float64 if precision == "f64" else np.float32)
                near_differences(self, f"grad_{name} {options} {precision}", gradient, exact[name],
                                 TOLERANCE[precision] * 3**moves, floor)

    def vectors(self, queries, keys, d, heads=2, groups=1):
        return {"q": 0.7 * self.normal(heads, queries, d), "k": self.normal(groups, keys, d),
                "v": self.normal(groups, keys, 2)}

    def masked(self, data):
        mask = self.random.random((data["q"].shape[1], data["k"].shape[1])) < 0.7
        mask[0], mask[:, 1], mask[1:3, 2:4] = False, False, True
        return data | {"mask": mask}

    def test_em(self):
        cases = [(times, energy, estimate, masked, biased, shape)
                 for shape in ((4, 6, 2), (1, 5, 1), (6, 4, 3)) for times in (1, 2, 4)
                 for energy in ("gaussian", "dot", "scaled-dot")
                 for estimate in ((), ("variance",), ("priors",), ("variance", "priors"))
                 for masked in (False, True) for biased in (False, True)]
        # Among these 12 is each value, and nearly each pair of values.
        for times, energy, estimate, masked, biased, shape in sample(cases, 12):
            data = self.vectors(*shape)
            if masked and shape[0] > 3:
                data = self.masked(data)
            if biased:
                data["bias"] = self.normal(shape[0], 1)
            options = ["--scheme=em", f"--iterations={times}", f"--energy={energy}", "--scale=1.2"]
            if estimate:
                options.append("--estimate=" + ",".join(estimate))

            def forward(q, k, v, mask=None, bias=None, times=times, energy=energy,
                        estimate=estimate):
                return em(q, k, v, times, 1.2, energy, None if bias is None else bias[:, 0], mask,
                          estimate).out

            with self.subTest(options=options, masked=masked, biased=biased, shape=shape):
                self.near(forward, data, ["q", "k", "v"] + ["bias"] * biased, options, times - 1)

    def test_a_variance_at_its_floor(self):
        data = self.vectors(4, 9, 2)
        floor = 0.4  # some of the variances are below it
        options = ["--scheme=em", "--iterations=3", "--energy=gaussian", "--scale=2",
                   "--estimate=variance", f"--min-variance={floor}"]

        def forward(q, k, v):
            return em(q, k, v, 3, 2.0, "gaussian", estimate=("variance",), floor=floor).out

        self.near(forward, data, ["q", "k", "v"], options, 2)

    def test_mean_shift(self):
        cases = [(times, energy, masked) for times in (1, 2, 4)
                 for energy in ("gaussian", "dot", "scaled-dot") for masked in (False, True)]
        for times, energy, masked in sample(cases, 8):
            data = self.vectors(4, 6, 2, heads=4, groups=2)
            if masked:
                data = self.masked(data) | {"bias": self.normal(4, 6)}
            options = ["--scheme=mean-shift", f"--iterations={times}", f"--energy={energy}",
                       "--scale=0.8"]

            def forward(q, k, v, mask=None, bias=None, times=times, energy=energy):
                return shifted(q, k, v, times, 0.8, energy, mask, bias).out

            with self.subTest(options=options, masked=masked):
                self.near(forward, data, ["q", "k", "v"] + ["bias"] * masked, options, times - 1)

    def test_biases_of_mean_shift(self):
        """A bias by key, by query or of one number, and the table of relative positions, all of which a
        softmax sees each time; that by query has no effect."""
        for times, shape in ((1, (1, 6)), (3, (1, 6)), (3, (2, 4, 6)), (2, (2, 1, 6)), (3, ())):
            data = self.masked(self.vectors(4, 6, 2)) | {"bias": self.normal(*shape)}

            def forward(q, k, v, mask=None, bias=None, times=times):
                return shifted(q, k, v, times, 0.8, "gaussian", mask, bias).out

            def by_head(given, forward=forward):
                heads = np.broadcast_to(given["bias"], (2, 4, 6))
                return np.array([forward(given["q"][h], given["k"][0], given["v"][0], given["mask"], heads[h])
                                 for h in range(2)])

            grad_out = self.normal(2, 4, 2)
            exact = differences(by_head, data, grad_out, ["bias"])["bias"]
            self.write("in.h5", **data, grad_out=grad_out)
            for precision, tolerance in TOLERANCE.items():
                with self.subTest(times=times, shape=shape, precision=precision):
                    found = self.compute("in.h5", "-q", "--only", "--emit=grad_bias", "--energy=gaussian",
                                         "--scheme=mean-shift", f"--iterations={times}", "--scale=0.8",
                                         f"--precision={precision}")["grad_bias"]
                    near_differences(self, "bias", found, exact, tolerance * 3**times, floor=1)

    def test_relative_positions_of_mean_shift(self):
        data = self.vectors(5, 7, 2) | {"rel_bias": self.normal(32, 2)}
        apart = np.arange(7)[None] - np.arange(5)[:, None]

        def out(given):
            return np.array([shifted(given["q"][h], given["k"][0], given["v"][0], 3, bias=given["rel_bias"][
                t5_bucket(apart, True), h]).out for h in range(2)])

        grad_out = self.normal(2, 5, 2)
        exact = differences(out, data, grad_out, ["rel_bias"])["rel_bias"]
        self.write("in.h5", **data, grad_out=grad_out)
        options = ["in.h5", "-q", "--only", "--emit=grad_rel_bias,grad_bias", "--energy=gaussian",
                   "--scheme=mean-shift", "--iterations=3", "--relative-bias=t5", "--scale=1"]
        found = self.compute(*options)
        near_differences(self, "rel_bias", found["grad_rel_bias"], exact, 1e-7)
        np.testing.assert_array_equal(found["grad_bias"], found["grad_rel_bias"])
        self.assert_same_bits(self.compute(*options, "--threads=3"), found)

    def test_tiles(self):
        """Several panels: against the sum over all directions at once, one difference each."""
        for scheme, energy in (("em", "gaussian"), ("em", "dot"), ("mean-shift", "gaussian")):
            data = {"q": 0.7 * self.normal(1, 130, 3), "k": self.normal(1, 600, 3),
                    "v": self.normal(1, 600, 2)}
            options = [f"--scheme={scheme}", "--iterations=3", f"--energy={energy}"]
            estimate = ("variance", "priors") if scheme == "em" else ()
            options += ["--estimate=variance,priors"] * (scheme == "em")

            def forward(q, k, v, scheme=scheme, energy=energy, estimate=estimate):
                if scheme == "em":
                    return em(q, k, v, 3, 1.0, energy, estimate=estimate).out
                return shifted(q, k, v, 3, 1.0, energy).out

            grad_out = self.normal(1, 130, 2)
            self.write("in.h5", **data, grad_out=grad_out)
            found = self.compute("in.h5", "-q", "--only", "--emit=grad_q,grad_k,grad_v", *options,
                                 "--threads=2")
            again = self.compute("in.h5", "-q", "--only", "--emit=grad_q,grad_k,grad_v", *options,
                                 "--threads=5")
            self.assert_same_bits(again, found)
            step = np.longdouble(1e-6)
            for name in ("q", "k", "v"):
                direction = self.normal(*data[name].shape)
                losses = []
                for sign in (1, -1):
                    moved = {n: x[0].astype(np.longdouble) for n, x in data.items()}
                    moved[name] = moved[name] + sign * step * direction[0]
                    losses.append((grad_out[0] * forward(**moved)).sum())
                slope = (losses[0] - losses[1]) / (2 * step)
                value = (found["grad_" + name] * direction).sum()
                scale = np.abs(found["grad_" + name] * direction).sum()
                with self.subTest(scheme=scheme, energy=energy, name=name):
                    self.assertLessEqual(abs(value - slope), 1e-8 * scale)

    def test_padding_projections_and_joined_heads(self):
        x = self.normal(2, 6, 4)
        weights = {"wq": 0.5 * self.normal(2, 4, 3), "wk": 0.5 * self.normal(2, 4, 3),
                   "wv": self.normal(2, 4, 2), "wo": self.normal(4, 3)}
        lengths = {"query_length": np.array([6, 4]), "key_length": np.array([6, 4])}
        x[1, 4:] = 0
        options = ["--scheme=em", "--iterations=3", "--energy=gaussian",
                   "--estimate=variance,priors", "--from=projection", "--join"]

        def out(given):
            joined = np.zeros((2, 6, 3), np.longdouble)
            for b, own in enumerate((6, 4)):
                for h in range(2):
                    rows = given["x"][b, :own]
                    q, k, v = (rows @ given[f"w{n}"][h] for n in "qkv")
                    found = em(q, k, v, 3, estimate=("variance", "priors"))
                    joined[b, :own] += found.out @ given["wo"][2 * h:2 * h + 2]
            return joined

        data = {"x": x, **weights}
        grad_joined = self.normal(2, 6, 3)
        names = ["x", "wq", "wk", "wv", "wo"]
        exact = differences(out, data, grad_joined, names)
        self.write("in.h5", **data, **lengths, grad_joined=grad_joined)
        found = self.compute("in.h5", "-q", "--only", *options,
                             "--emit=" + ",".join("grad_" + n for n in names))
        for name in names:
            near_differences(self, name, found["grad_" + name], exact[name], 1e-7)

    def test_parts_and_checkpoints(self):
        data = {n: self.normal(3, 90, 3) for n in ("q", "k", "v", "grad_out")}
        self.write("in.h5", **data, bias=self.normal(3, 90, 1))
        for scheme in ("em", "mean-shift"):
            names = ["grad_q", "grad_k", "grad_v", "grad_bias"]
            options = ["in.h5", "--emit=" + ",".join(names), f"--scheme={scheme}", "--iterations=3"]
            self.run_tool("attn-compute", *options, "-o", "whole.h5", "--force")
            for part in (1, 2):
                self.run_tool("attn-compute", *options, f"--shard={part}/2", "-o", f"{scheme}.h5")
            parts = sorted(path.name for path in self.folder.glob(f"{scheme}*.h5"))
            self.run_tool("tensor-join", *parts, "--with", "in.h5", "-o", "all.h5", "--force")
            self.run_tool("attn-compute", *options, "-o", "kept.h5", "--checkpoint=state",
                          "--force")
            self.assert_same_bits(self.read("all.h5"), self.read("whole.h5"), names)
            self.assert_same_bits(self.read("kept.h5"), self.read("whole.h5"), names)

    def test_more_times_than_memory_has_room_for(self):
        data = self.vectors(4, 6, 2)
        self.write("in.h5", **data, grad_out=self.normal(2, 4, 2))
        for scheme in ("em", "mean-shift"):
            self.refused("attn-compute", "in.h5", f"--scheme={scheme}", "--emit=grad_q",
                         f"--iterations={2**40}", status=6, says=["needs"])


if __name__ == "__main__":
    unittest.main()
