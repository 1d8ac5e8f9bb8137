"""Common offsets of inputs, and values without influence on the loss, do not reduce the accuracy of
gradients."""

import unittest

from attn import ToolTest

import numpy as np


class GradientValues(ToolTest):

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(17)

    def normal(self, *shape):
        # Values representable in float32.
        return self.random.normal(size=shape).astype(np.float32).astype(np.float64)

    def gradients(self, *options, **data):
        self.write("in.h5", **data)
        return self.compute("in.h5", "-q", "--only", "--emit=grad_q,grad_k,grad_v", *options)

    def assert_alike(self, got, want, bound=5e-5):
        for name in ("grad_q", "grad_k", "grad_v"):
            self.assert_near(name, got[name], want[name], bound * np.abs(want[name]).max())

    def test_values_that_differ_by_query(self):
        """Values seen only by queries without a loss, or by none, do not affect other gradients."""
        data = {n: self.normal(300, 8) for n in ("q", "k", "v", "grad_out")}
        for scheme in ("unas", "dnas", "hnas", "sinkhorn"):
            options = [f"--scheme={scheme}", "--precision=f32"]
            if scheme == "hnas":
                options.append("--hybrid=0.3")
            if scheme == "sinkhorn":
                options.append("--iterations=3")
            with self.subTest(scheme=scheme):
                # Only the last query sees the last key, and it has no loss.
                last = {n: a.copy() for n, a in data.items()}
                last["grad_out"][-1] = 0
                want = self.gradients("--causal=top-left", *options, **last)
                last["v"][-1] = 1e30
                got = self.gradients("--causal=top-left", *options, **last)
                self.assert_alike(got, want)
                # Queries without keys, values far from the origin.
                mask = np.ones((300, 300), bool)
                mask[:100] = False
                want = self.gradients(*options, mask=mask, **data)
                got = self.gradients(*options, mask=mask, **data | {"v": data["v"] + 1000})
                # The values themselves are rounded to 6e-5 of their differences.
                self.assert_alike(got, want, bound=4e-4)
                # Padding of any size.
                closed = np.arange(300) < 290
                padded = data["v"].copy()
                padded[290:] = 3e38
                want = self.gradients(*options, mask=closed[None], **data)
                got = self.gradients(*options, mask=closed[None], **data | {"v": padded})
                # Output is then scaled by 2^-128, at which some of its values are subnormal.
                self.assert_alike(got, want, bound=1e-4)

    def test_hybrid_of_similar_scores(self):
        """dnas and unas then differ by less than the rounding of sums in float32."""
        for _ in range(4):
            self.write("in.h5", q=0.15 * self.normal(700, 64), k=0.15 * self.normal(700, 64),
                       v=self.normal(700, 64), grad_out=self.normal(700, 64))
            got, want = [
                self.compute("in.h5", "-q", "--only", "--scheme=hnas", "--hybrid=0.3",
                             "--emit=grad_hybrid", f"--precision={precision}")["grad_hybrid"]
                for precision in ("f32", "f64")]
            self.assert_near("grad_hybrid", got, want, 5e-5 * np.abs(want))


if __name__ == "__main__":
    unittest.main()
