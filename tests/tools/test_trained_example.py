"""scripts/make-trained-example: what it makes of a checkpoint, beside what the model saw."""

import importlib.machinery
import importlib.util
import unittest

import h5py
import numpy as np

from attn import SOURCE, ToolTest

RECIPE = """
[data]
tokens = "byte-pairs"
vocabulary = 200
length = 48
[model]
layers = 3
width = 24
heads = 3
inner = 40
norm = "pre"
activation = "gelu"
[schedule]
rate = 1e-2
[run]
steps = 20
batch = 4
keep-inputs = true
"""


def load(path):
    loader = importlib.machinery.SourceFileLoader("made", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("made", loader))
    loader.exec_module(module)
    return module


class TrainedExample(ToolTest):

    def test_queries_are_those_of_the_model(self):
        (self.folder / "r.toml").write_text(RECIPE)
        text = SOURCE / "data/prose.txt"
        self.run_tool("attn-train", "r.toml", "--set", f"data.text={text}", "-o", "run.h5")
        example = load(SOURCE / "scripts/make-trained-example")
        words = text.read_text()
        # Texts are divided at the end of a line.
        valid = words[len(words) * 90 // 100:len(words) * 95 // 100].partition("\n")[2]
        with h5py.File(self.folder / "run.h5") as run:
            names = [name.decode() for name in run["vocabulary"]]
            tokens = example.encoded(valid, names, run["vocabulary_merges"][:])
            self.assertEqual("".join(names[token] for token in tokens).replace("<eos>", "").split(), valid.split())
            for number, (q, k, v) in enumerate(example.passes(run, tokens[:48])):
                layer = run[f"layer{number}"]
                # The model computes in float32.
                for name, found in (("wq", q), ("wk", k), ("wv", v)):
                    self.assert_near(f"layer{number}/{name}", found, layer["x"][0].astype(float) @ layer[name][:], 1e-4)

    def test_the_file_that_ships(self):
        with h5py.File(SOURCE / "data/trained.h5") as file:
            for number in range(4):
                layer = file[f"layer{number}"]
                for name in "qkv":
                    self.assertEqual((layer[name].shape, layer[name].dtype), ((4, 256, 32), np.float16))
                self.assertEqual(layer.attrs["attn_causal"], "top-left")
                self.assertEqual(len(layer["tokens"]), 256)
        self.assertLess((SOURCE / "data/trained.h5").stat().st_size, 1_000_000)


if __name__ == "__main__":
    unittest.main()
