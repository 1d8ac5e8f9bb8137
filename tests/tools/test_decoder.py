"""A trained decoder's own attention outputs and column sums, from its stored Q, K and V: grouped
heads, a causal mask, rotary positions, real text."""

import unittest

import h5py
import numpy as np

import formulas
from attn import SOURCE, ToolTest, sample

MODEL = SOURCE.parent / "shared/data/model/stories260K_attention.h5"
RAW = MODEL.with_name("stories260K.bin")


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
                    # Two spellings of the same scale: d_head is 8.
                    energy = (["--energy=dot", f"--scale={scale!r}"], [])[number % 2]
                    tensors = [f"-i{name.lower()}={MODEL}:{layer}/{name}" for name in "QKV"]
                    found = self.compute("-q", "--only", "--scheme=unas", "--causal", *energy,
                                         *tensors, "--emit=out,col_sum")
                    stored = file[layer]
                    # The stored values are accurate to 3e-6, relative to the largest entry.
                    for name, source in (("out", "O"), ("col_sum", "colsum")):
                        expected = stored[source][()]
                        self.assert_near(name, found[name], expected, 1e-5 * np.abs(expected).max())

    @unittest.skipUnless(RAW.exists(), f"{RAW} is not there")
    def test_raw_weights_through_projections(self):
        # The layers' scores before rotation, from the layers' inputs.
        raw = np.fromfile(RAW, np.float32, offset=7 * 4)
        dim, layers, heads, groups, size, vocabulary = 64, 5, 8, 4, 8, 512
        at = vocabulary * dim + layers * dim
        taken = {}
        for name, count in (("wq", heads), ("wk", groups), ("wv", groups)):
            length = layers * count * size * dim
            stored = raw[at:at + length].reshape(layers, count, size, dim)  # (out, in)
            taken[name] = np.swapaxes(stored, -1, -2)
            at += length
        for layer in sample(range(layers), 3):
            with self.subTest(layer=layer), h5py.File(MODEL) as file:
                weights = {name: values[layer] for name, values in taken.items()}
                for name, values in weights.items():
                    own = file[f"weights/layer{layer}/W_{name[1].upper()}"][()]
                    np.testing.assert_array_equal(values, own)
                place = f"text/wikitext2_valid/layer{layer}"
                x = file[f"{place}/X"][()]
                self.write("raw.h5", **weights)
                found = self.compute("raw.h5", "-ix=" f"{MODEL}:/{place}/X", "-q", "--only",
                                     "--from=projection", "--causal", "--scheme=dnas",
                                     "--emit=out,weights,col_sum")
                q, k, v = (x.astype(formulas.LONG) @ weights["w" + n].astype(formulas.LONG)
                           for n in "qkv")
                # Values are not rotated: the projection equals the values stored by the model.
                self.assert_near("V", v, file[f"{place}/V"][()], 1e-5 * np.abs(v).max())
                s = formulas.scores(q, k, causal="top-left")
                expected = formulas.attention(s, v, "dnas")
                for name in ("out", "weights", "col_sum"):
                    exact = getattr(expected, name)
                    self.assert_near(name, found[name], exact, 2e-5 * np.abs(exact).max())


if __name__ == "__main__":
    unittest.main()
