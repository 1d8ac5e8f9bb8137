"""Datasets and attributes of attention with the names of other programs: refused by name, never left out in silence."""

import unittest

import h5py
import numpy as np

from attn import ToolTest, sample

LENGTH, DEPTH = 9, 4
TOOLS = {"attn-compute": ["--only"], "explain-away-stats": [], "sinkhorn-iter": ["--iterations", 3, "--only"],
         "lambda-solve": ["--only"]}
CUTS = np.array([0, 4, 9])
DOCUMENTS = np.repeat([0, 2], [4, 5])
SAME = DOCUMENTS[:, None] == DOCUMENTS
PADDING = np.arange(LENGTH) < 7

# The name of another program, its values, and datasets that are read and say the same.
NAMES = [
    ("cu_seqlens_kv", CUTS, {"mask": SAME}),
    ("cu_seq_lens_k", CUTS, {"mask": SAME}),
    ("seq_idx", DOCUMENTS, {"segment_ids": DOCUMENTS}),
    ("document_ids", DOCUMENTS, {"mask": SAME}),
    ("position_ids", np.concatenate([np.arange(4), np.arange(5)]), {"mask": SAME}),
    ("attention_mask", PADDING.astype(int)[None], {"key_length": np.array([7, 7])}),
    ("attn_mask", SAME, {"mask": SAME}),
    ("key_padding_mask", ~PADDING, {"mask": PADDING}),
    ("seqlens_k", np.array([7, 7]), {"key_length": np.array([7, 7])}),
    ("source_length", np.array([7, 7]), {"key_length": np.array([7, 7])}),
    ("attn_bias", np.zeros((LENGTH, LENGTH)), {"bias": np.zeros((LENGTH, LENGTH))}),
    ("alibi_slopes", np.array([0.5, 0.25]), {"bias": np.zeros((LENGTH, LENGTH))}),
    ("s_aux", np.zeros(2), {"sink": np.zeros(2)}),
]
SETTINGS = [("softmax_scale", 0.5, "--scale=0.5"), ("scale", 0.5, "--scale=1"),
            ("is_causal", True, "--causal=top-left"), ("causal", False, "--causal=none"),
            ("sliding_window", 4, "--window=4"), ("softcap", 30.0, "--softcap=30")]


def vectors():
    q, k, v = np.random.default_rng(20).normal(size=(3, 2, LENGTH, DEPTH))
    return {"q": q, "k": k, "v": v}


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


class ForeignNames(ToolTest):

    def write_new(self, attributes=None, **datasets):
        (self.folder / "in.h5").unlink(missing_ok=True)
        self.write("in.h5", attributes, **datasets)

    def run_on(self, tool, *arguments):
        self.run_tool(tool, *arguments, *TOOLS[tool], "-o", "/dev/null")

    def test_datasets(self):
        for name, values, said in NAMES:
            for tool, options in sample(TOOLS.items(), 2):
                with self.subTest(name=name, tool=tool):
                    self.write_new(**vectors(), **{name: values})
                    self.refused(tool, *options, "in.h5", status=2, says=[f"in.h5:/{name} "], hint="")
                    self.run_on(tool, "-i", "q=in.h5:/q", "-i", "k=in.h5:/k", "-i", "v=in.h5:/v")
                    if "sink" in said and tool != "attn-compute":
                        continue
                    self.write_new(**vectors(), **{name: values}, **said)
                    self.run_on(tool, "in.h5")

    def test_the_hints_work(self):
        self.write_new(**vectors(), attn_mask=SAME)
        self.run_on("attn-compute", "--map", "mask=attn_mask", "in.h5")
        self.write_new(**vectors(), seqlens=np.array([7, 7]))
        self.run_on("attn-compute", "--map", "key_length=seqlens", "in.h5")
        self.write_new(**vectors(), s_aux=np.zeros(2))
        self.run_on("attn-compute", "--map", "sink=s_aux", "in.h5")

        for name in ("attn_mask", "attn_bias", "alibi_slopes"):
            self.write_new(**vectors(), **{name: np.zeros((LENGTH, LENGTH))})
            self.run_on("attn-compute", "--map", f"bias={name}", "in.h5")
        self.write_new(**vectors(), alibi_slopes=np.array([0.5, 0.25]))
        self.run_on("attn-compute", "--relative-bias", "alibi", "in.h5")
        self.write_new(**vectors(), causal_mask=np.tri(LENGTH, dtype=bool))
        self.refused("attn-compute", "in.h5", status=2, says=["in.h5:/causal_mask "], hint="--map mask=causal_mask")
        self.run_on("attn-compute", "--map", "mask=causal_mask", "in.h5")

    def test_a_mask_separates_documents(self):
        data = vectors()
        np.savez(self.folder / "in.npz", **data, document_id=DOCUMENTS)
        np.save(self.folder / "mask.npy", SAME)
        self.refused("attn-compute", "in.npz", "--only", status=2, says=["in.npz:document_id packs several"],
                     hint="--map segment_ids=document_id")
        for said in (["-i", "mask=mask.npy"], ["--map", "segment_ids=document_id"]):
            out = self.compute("in.npz", *said, "--only")["out"]
            for part in (slice(0, 4), slice(4, 9)):
                q, k, v = (data[name][:, part] for name in "qkv")
                expected = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(DEPTH)) @ v
                self.assert_near("out", out[:, part], expected, 1e-12)

    def test_a_bias_is_none_of_them(self):
        """A bias of positions says nothing of packing, masks and lengths."""
        for name, values in (("cu_seqlens_kv", CUTS), ("document_ids", DOCUMENTS), ("seqlens", np.array([7, 7])),
                             ("attention_mask", PADDING.astype(int)[None]),
                             ("position_ids", np.concatenate([np.arange(4), np.arange(5)]))):
            with self.subTest(name=name):
                self.write_new(**vectors(), **{name: values}, bias=np.zeros((LENGTH, LENGTH)))
                self.refused("attn-compute", "in.h5", "--only", status=2, says=[f"in.h5:/{name} "], hint="")

    def test_positions_that_are_no_integers(self):
        for positions in (np.concatenate([np.arange(4.0), np.arange(5.0)]), ["a", "b"]):
            self.write_new(**vectors(), position_ids=positions)
            self.run_on("attn-compute", "in.h5")

    def test_positions_of_one_sequence(self):
        for positions in (np.arange(LENGTH), np.arange(LENGTH)[None] + 3, np.tile(np.arange(LENGTH), (2, 1))):
            self.write_new(**vectors(), position_ids=positions)
            self.run_on("attn-compute", "in.h5")

    def test_settings(self):
        for name, value, option in SETTINGS:
            for attribute in (False, True):
                with self.subTest(name=name, attribute=attribute):
                    said = {name: value}
                    self.write_new(said if attribute else None, **vectors(), **({} if attribute else said))
                    self.refused("attn-compute", "in.h5", "--only", status=2, says=["in.h5", name, "is not read"],
                                 hint=option.split("=")[0])
                    self.run_on("attn-compute", "in.h5", option)
        # Attributes of ours are read; and a vector called scale is that of basis-paths.
        self.write_new({"scale": 0.5, "attn_scale": 0.5}, **vectors())
        self.run_on("attn-compute", "in.h5")
        self.write_new(**vectors(), scale=np.ones(DEPTH))
        self.run_on("attn-compute", "in.h5")

    def test_groups(self):
        with h5py.File(self.folder / "dump.h5", "w") as file:
            for layer in ("layer0", "layer1"):
                for name, values in vectors().items():
                    file[f"{layer}/{name}"] = values
            file["layer1/document_ids"] = DOCUMENTS
        self.refused("attn-compute", "--each", "/layer*", "dump.h5", status=2, says=["dump.h5:/layer1/document_ids"])
        self.run_on("attn-compute", "--each", "/layer0", "dump.h5")

    def test_mechanisms(self):
        random = np.random.default_rng(3)
        data = {"x": random.normal(size=(2, 5, 3)), "w1": random.normal(size=(4, 3)), "w2": random.normal(size=(2, 4))}
        for name, values in (("mask", np.ones((2, 5), bool)), ("attention_mask", np.ones((2, 5), int)),
                             ("key_length", np.array([3, 5])), ("lengths", np.array([3, 5])), ("cu_seqlens", CUTS)):
            with self.subTest(name=name):
                self.write_new(**data, **{name: values})
                self.refused("structured-attention", "in.h5", status=2, says=[f"in.h5:/{name} "], hint="length")
                self.write_new(**data, **{name: values}, length=np.array([3, 5]))
                self.run_tool("structured-attention", "in.h5", "-o", "/dev/null")
        self.write_new(weights=np.full((2, 3, 4), 0.25), reverse_weights=np.full((2, 4, 3), 1 / 3),
                       attention_mask=np.ones((2, 4), int))
        self.refused("alignment-attention", "measure", "in.h5", status=2, output=None, says=["in.h5:/attention_mask "],
                     hint="source_length")

    def test_tokens_that_are_ids(self):
        self.write_new(**vectors(), tokens=np.arange(LENGTH) + 50250)
        found = self.stats("in.h5", "--scheme", "unas", "--top", 2)["unas"]
        for entry in found["lowest"] + found["highest"]:
            self.assertEqual(entry["key"], str(50250 + entry["index"]))


if __name__ == "__main__":
    unittest.main()
