"""A synthetic dump of a model, by text and layer, and the dump of a trained decoder, shared by the
tests of --each."""

import h5py
import numpy as np

from attn import SOURCE, ToolTest

MODEL = SOURCE.parent / "shared/data/model/stories260K_attention.h5"
LAYERS = ["layer0", "layer2", "layer10"]
EACH = ["--each", "/text/*/layer*"]
MAP = ["--map", "q=Q,k=K,v=V"]


def tensors(seed, heads, queries, keys):
    random = np.random.default_rng(seed)
    shapes = {"Q": (heads, queries, 3), "K": (heads, keys, 3), "V": (heads, keys, 2)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


class Dump(ToolTest):
    """text/{a,b}/layer{0,2,10}, with different lengths and numbers of heads in each text."""

    def setUp(self):
        super().setUp()
        with h5py.File(self.folder / "dump.h5", "w") as file:
            file.attrs["model"] = "none"
            file["embedding"] = np.arange(3)
            self.groups = []
            for text, (heads, queries, keys) in {"a": (2, 7, 7), "b": (3, 1, 5)}.items():
                for number, layer in enumerate(LAYERS):
                    path = f"text/{text}/{layer}"
                    self.groups.append(path)
                    for name, values in tensors(number, heads, queries, keys).items():
                        file[f"{path}/{name}"] = values
                    file[path].attrs["number"] = number
                    file[f"{path}/note"] = np.float64(number)

    def one_by_one(self, *options):
        """Results by path of one run per group, with that group as INPUT."""
        return {group: self.compute("-q", "--only", *MAP, *options, f"dump.h5:/{group}")
                for group in self.groups}

    def assert_results(self, found, expected):
        for group, results in expected.items():
            self.assert_same_bits({name: found[f"{group}/{name}"] for name in results}, results)
            for name in results:
                self.assertEqual(found.labels[f"{group}/{name}"], results.labels[name])
            of_group = found.attributes_of[group]
            made = {k: v for k, v in results.attributes.items() if k.startswith("attn_")}
            self.assertEqual({k: v for k, v in of_group.items() if k.startswith("attn_")}, made)
