"""A trained decoder's own attention outputs and column sums, from its stored Q, K and V: grouped
heads, a causal mask, rotary positions, real text."""

import unittest

import h5py
import numpy as np

from attn import SOURCE, ToolTest

MODEL = SOURCE.parent / "shared/data/model/stories260K_attention.h5"


@unittest.skipUnless(MODEL.exists(), f"{MODEL} is not there")
class Decoder(ToolTest):

    def test_outputs_and_column_sums(self):
        with h5py.File(MODEL) as file:
            scale = file.attrs["scale"]
            layers = [f"/text/{text}/layer{n}" for text in file["text"]
                      for n in range(file.attrs["n_layers"])]
            self.assertEqual(len(layers), 20)
            for number, layer in enumerate(layers):
                with self.subTest(layer=layer):
                    # Two spellings of one scale: d_head is 8.
                    energy = (["--energy=dot", f"--scale={scale!r}"], [])[number % 2]
                    tensors = [f"-i{name.lower()}={MODEL}:{layer}/{name}" for name in "QKV"]
                    found = self.compute("-q", "--only", "--scheme=unas", "--causal", *energy,
                                         *tensors, "--emit=out,col_sum")
                    stored = file[layer]
                    # What is stored is right to 3e-6, relative to the largest entry.
                    for name, source in (("out", "O"), ("col_sum", "colsum")):
                        expected = stored[source][()]
                        self.assert_near(name, found[name], expected, 1e-5 * np.abs(expected).max())


if __name__ == "__main__":
    unittest.main()
