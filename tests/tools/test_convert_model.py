"""tensor-convert --model: attention weights under Hugging Face's names, by head.

The models are made by hand; what is expected is that x wq[h] + bq[h] are the channels of head h
that the layer itself computes."""

import json
import unittest

import numpy as np

from arrays import brain, safetensors, widened
from attn import ToolTest

D, H, SIZE = 12, 3, 5  # size of the model; heads; channels per head (whose product differs from D)


def matrices(seed, shapes, dtype=np.float32):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def by_head(projected, heads):
    """Reshapes (length, heads * size), as the model computes it, to (heads, length, size)."""
    return projected.reshape(len(projected), heads, -1).transpose(1, 0, 2)


class Models(ToolTest):

    def put(self, tensors, config=None, name="m.safetensors"):
        (self.folder / name).write_bytes(safetensors(tensors))
        path = self.folder / "config.json"
        path.unlink(missing_ok=True)
        if config is not None:
            path.write_text(config if isinstance(config, str) else json.dumps(config))

    def weights(self, *arguments):
        self.run_tool("tensor-convert", "m.safetensors", *arguments, "-o", "w.h5", "--force")
        return self.read("w.h5")

    def assert_projects(self, found, letter, expected, heads):
        x = np.random.default_rng(9).normal(size=(7, found["w" + letter].shape[1]))
        mine = np.einsum("li,hic->hlc", x, found["w" + letter].astype(float))
        if "b" + letter in found:
            mine = mine + found["b" + letter][:, None, :]
        self.assert_near(letter, mine, by_head(expected(x), heads), 1e-12)

    def test_bert(self):
        for prefix in ("", "bert.", "model.", "transformer."):
            tensors = {}
            for layer in range(3):
                for i, part in enumerate(("query", "key", "value")):
                    base = f"{prefix}encoder.layer.{layer}.attention.self.{part}."
                    tensors |= matrices(10 * layer + i, {base + "weight": (H * SIZE, D),
                                                         base + "bias": (H * SIZE,)})
            self.put(tensors, {"num_attention_heads": H})
            found = self.weights("--model", "bert", "--layer", 2)
            self.assertEqual(set(found), {"wq", "wk", "wv", "bq", "bk", "bv"})
            for letter, part in zip("qkv", ("query", "key", "value")):
                base = f"{prefix}encoder.layer.2.attention.self.{part}."
                self.assertEqual(found["w" + letter].shape, (H, D, SIZE))
                # Bit for bit, if they are stored, too.
                self.assertEqual(found["w" + letter][1, 4, 2],
                                 tensors[base + "weight"][SIZE + 2, 4])
                self.assert_projects(found, letter, lambda x, b=base: x @ tensors[b + "weight"].T
                                     .astype(float) + tensors[b + "bias"], H)
        self.refused("tensor-convert", "m.safetensors", "--model", "bert", "--layer", 3, status=3,
                     says=["encoder.layer.3"], hint="0 to 2")
        self.refused("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 0, status=3,
                     says=["layers.0.self_attn.q_proj.weight"], hint="--model")

    def test_gpt2(self):
        for prefix in ("", "transformer."):
            base = f"{prefix}h.1.attn.c_attn."
            tensors = matrices(1, {base + "weight": (D, 3 * H * SIZE),
                                   base + "bias": (3 * H * SIZE,)})
            self.put(tensors, {"n_head": H})
            found = self.weights("--model", "gpt2", "--layer", 1)
            for i, letter in enumerate("qkv"):
                part = slice(i * H * SIZE, (i + 1) * H * SIZE)
                self.assertEqual(found["w" + letter].shape, (H, D, SIZE))
                weight, bias = tensors[base + "weight"][:, part], tensors[base + "bias"][part]
                self.assert_projects(
                    found, letter, lambda x, w=weight, b=bias: x @ w.astype(float) + b, H)

    def test_t5(self):
        tensors = matrices(5, {"shared.weight": (9, D)})
        for stack in ("encoder", "decoder"):
            tensors |= matrices(6, {
                f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight": (32, H)})
            for letter in "qkv":
                tensors |= matrices(ord(letter), {
                    f"{stack}.block.2.layer.0.SelfAttention.{letter}.weight": (H * SIZE, D),
                    f"{stack}.block.2.layer.1.EncDecAttention.{letter}.weight": (H * SIZE, D)})
        self.put(tensors)
        for part in ("encoder", "decoder", "cross"):
            found = self.weights("--model", "t5", "--layer", 2, "--part", part,
                                 *(["--heads", H] if part == "cross" else []))
            self.assertEqual(found.attributes["attn_energy"], "dot")
            self.assertEqual(found.attributes.get("attn_causal"),
                             "bottom-right" if part == "decoder" else None)
            base = (f"{part}.block.2.layer.0.SelfAttention." if part != "cross"
                    else "decoder.block.2.layer.1.EncDecAttention.")
            for letter in "qkv":
                self.assert_projects(
                    found, letter, lambda x, n=base + letter: x @ tensors[n + ".weight"].T, H)
            self.assertEqual("rel_bias" in found, part != "cross")
            if part != "cross":
                name = f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
                self.assertEqual(found["rel_bias"].tobytes(), tensors[name].tobytes())

    def test_other_distances_of_t5(self):
        base = "encoder.block.0.layer.0.SelfAttention."
        tensors = matrices(6, {base + "relative_attention_bias.weight": (32, H)})
        for letter in "qkv":
            tensors |= matrices(ord(letter), {f"{base}{letter}.weight": (H * SIZE, D)})
        words = ["--model", "t5", "--layer", 0]
        for distance, status in ((128, 0), (64, 3)):
            self.put(tensors, {"relative_attention_max_distance": distance})
            if status == 0:
                self.weights(*words)
            else:
                self.refused("tensor-convert", "m.safetensors", *words, status=3,
                             says=["config.json", "relative_attention_max_distance", "64", "128"])

    def test_llama(self):
        heads, shared = 6, 2
        base = "model.layers.0.self_attn."
        tensors = {}
        for i, (letter, count) in enumerate((("q", heads), ("k", shared), ("v", shared))):
            values = np.random.default_rng(i).normal(size=(count * SIZE, D))
            tensors[f"{base}{letter}_proj.weight"] = brain(values)
        full = {"num_attention_heads": heads, "num_key_value_heads": shared}
        for config, arguments in ((full, []), (None, ["--heads", heads]),
                                  (None, ["--kv-heads", shared]), ({"head_dim": SIZE}, []),
                                  ("no JSON", ["--heads", heads, "--kv-heads", shared])):
            self.put(tensors, config)
            found = self.weights("--model", "llama", "--layer", 0, *arguments)
            for letter, count in (("q", heads), ("k", shared), ("v", shared)):
                self.assertEqual(found["w" + letter].shape, (count, D, SIZE))
                stored = widened(tensors[f"{base}{letter}_proj.weight"]).astype(float)
                self.assert_projects(found, letter, lambda x, s=stored: x @ s.T, count)
        self.put(tensors, full)
        self.run_tool("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 0, "-o",
                      "w.safetensors")  # stays bfloat16
        self.assertLess((self.folder / "w.safetensors").stat().st_size, 2 * 10 * SIZE * D + 600)
        self.refused("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 0,
                     "--kv-heads", 1, status=3, says=["k_proj", "2 heads", "expected 1"])

    def test_a_checkpoint_in_parts(self):
        base = "bert.encoder.layer.0.attention.self."
        tensors = matrices(3, {f"{base}{p}.{k}": (4, 6) if k == "weight" else (4,)
                               for p in ("query", "key", "value") for k in ("weight", "bias")})
        names = sorted(tensors)
        self.put({n: tensors[n] for n in names[:3]}, name="1.safetensors")
        self.put({n: tensors[n] for n in names[3:]}, {"num_attention_heads": 2},
                 name="2.safetensors")
        words = ["--model", "bert", "--layer", 0]
        self.run_tool("tensor-convert", "1.safetensors", "2.safetensors", *words, "-o", "w.h5")
        self.assertEqual(len(self.read("w.h5")), 6)
        self.refused("tensor-convert", "1.safetensors", *words, status=3, says=["attention.self"])

    def layer(self, prefix="model.layers.1.self_attn."):
        """A layer of llama, without config.json."""
        return matrices(8, {f"{prefix}{name}_proj.weight": (H * SIZE, D) for name in "qkv"})

    def refused_model(self, says, hint=None, *files):
        return self.refused("tensor-convert", *(files or ["m.safetensors"]), "--model", "llama", "--layer", 1,
                            status=3, says=says, hint=hint)

    def test_what_the_projections_leave_out_is_refused(self):
        base = "model.layers.1.self_attn."
        for name in ("q_norm.weight", "k_norm.weight", "sinks", "q_a_proj.weight"):
            self.put(self.layer() | matrices(9, {base + name: (SIZE,)}), {"num_attention_heads": H})
            self.refused_model([base + name, "does not compute"], "projections alone")
        self.put(self.layer() | matrices(9, {base + "o_proj.weight": (D, H * SIZE)}), {"num_attention_heads": H})
        self.weights("--model", "llama", "--layer", 1)
        for member, value in (("attn_logit_softcapping", 50.0), ("attention_multiplier", 0.5), ("sliding_window", 64),
                              ("query_pre_attn_scalar", 144), ("alibi", True), ("is_causal", False)):
            self.put(self.layer(), {"num_attention_heads": H, member: value})
            self.refused_model([f"config.json has {member}"], "--heads")
            found = self.weights("--model", "llama", "--layer", 1, "--heads", H)  # which reads no config.json
            self.assertEqual(found["wq"].shape, (H, D, SIZE))
        for config in ({"sliding_window": None}, {"sliding_window": 64, "use_sliding_window": False},
                       {"sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"]}):
            self.put(self.layer(), {"num_attention_heads": H} | config)
            self.weights("--model", "llama", "--layer", 1)

    def test_rotary_positions_are_said_to_be_left_out(self):
        self.put(self.layer(), {"num_attention_heads": H, "rope_theta": 1e6})
        done = self.run_tool("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 1, "-o", "w.h5")
        self.assertIn("rotary positions are left out", done.err)
        self.assertIn("rope_theta", done.err)

    def test_a_checkpoint_with_an_index(self):
        tensors = self.layer()
        names = sorted(tensors)
        files = {name: f"model-0000{1 + (name != names[0])}-of-00002.safetensors" for name in names}
        for file in set(files.values()):
            self.put({name: tensors[name] for name in names if files[name] == file}, {"num_attention_heads": H}, file)
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {}, "weight_map": files}))
        self.run_tool("tensor-convert", index.name, "--model", "llama", "--layer", 1, "-o", "w.h5")
        self.assertEqual(set(self.read("w.h5")), {"wq", "wk", "wv"})
        self.refused_model(["q_proj"], "model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors")
        for wrong in ("[]", "{", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "../b"}}'):
            index.write_text(wrong)
            self.refused_model(["index.json"], None, index.name)

    def test_names_that_are_not_read(self):
        self.put(matrices(4, {"model.layers.1.self_attn.qkv_proj.weight": (3 * H * SIZE, D)}), {})
        self.refused_model(["q_proj"], "qkv_proj")
        self.put(self.layer("model.language_model.layers.1.self_attn."), {"num_attention_heads": H})
        self.assertEqual(self.weights("--model", "llama", "--layer", 1)["wk"].shape, (H, D, SIZE))

    def test_bad_use(self):
        base = "encoder.layer.0.attention.self."
        good = matrices(3, {f"{base}{p}.weight": (6, 4) for p in ("query", "key", "value")})
        key = base + "key.weight"
        rows = [
            (good, None, [], 2, ["number of heads", "config.json"]),
            (good, None, ["--heads", 4], 3, ["query", "6 channels", "4 heads"]),
            (good, {"num_attention_heads": 0}, [], 3, ["config.json", "num_attention_heads"]),
            (good, {"num_attention_heads": "3"}, [], 3, ["config.json", "num_attention_heads"]),
            (good, "[" * 10000, [], 3, ["config.json"]),
            (good, "[1]", [], 3, ["config.json"]),
            (good | matrices(1, {key: (3, 4)}), None, ["--heads", 2], 3, ["key"]),
            (good | matrices(1, {key: (6, 5)}), None, ["--heads", 2], 3, ["key"]),
            (good | matrices(1, {key: (6, 4, 1)}), None, ["--heads", 2], 3, ["key", "matrix"]),
            (good | matrices(1, {base + "query.bias": (5,)}), None, ["--heads", 2], 3,
             ["query.bias", "(6)"]),
            (good, None, ["--heads", 2, "--kv-heads", 2], 2, ["--kv-heads"]),
            (good, None, ["--heads", 2, "--part", "cross"], 2, ["--part"]),
        ]
        for tensors, config, arguments, status, says in rows:
            with self.subTest(says=says, arguments=arguments):
                self.put(tensors, config)
                self.refused("tensor-convert", "m.safetensors", "--model", "bert", "--layer", 0,
                             *arguments, status=status, says=says)
        self.refused("tensor-convert", "m.safetensors", "--model", "bert", status=2,
                     says=["--layer"])
        self.refused("tensor-convert", "m.safetensors", "--layer", 1, status=2, says=["--model"])
        self.refused("tensor-convert", "a=m.safetensors", "--model", "bert", "--layer", 0, status=2,
                     says=["FILE"])


if __name__ == "__main__":
    unittest.main()
