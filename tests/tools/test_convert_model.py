"""tensor-convert --model: attention weights under Hugging Face's names, by head.

The models are made by hand; what is expected is that x wq[h] + bq[h] are the channels of head h
that the layer itself computes."""

import json
import os
import unittest

import numpy as np

from arrays import brain, framed, safetensors, typed, widened
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
                                  ({"num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 6}, ["--heads", heads]),
                                  ({"num_key_value_heads": shared}, ["--heads", heads]),
                                  ("no JSON", ["--ignore-config", "--heads", heads, "--kv-heads", shared])):
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
        self.put(tensors, {"head_dim": SIZE})
        self.refused("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 0, "--heads", 3, status=3,
                     says=["q_proj", "30 channels", "3 heads of 5 channels", "config.json"], hint="--ignore-config")

    def test_a_config_that_is_not_usable(self):
        """Another number of heads is said, and --ignore-config is the way out, also for the blocks of scales."""
        base = "model.layers.0.self_attn."
        tensors = matrices(8, {f"{base}{letter}_proj.weight": (count * SIZE, D)
                               for letter, count in (("q", 6), ("k", 2), ("v", 2))})
        words = ["m.safetensors", "--model", "llama", "--layer", 0, "--heads", 6]
        for config, says in (({"num_attention_heads": 3, "head_dim": 10}, "config.json has 3 heads of 10 channels; --heads 6 is used"),
                             ({"num_attention_heads": 5}, "config.json has 5 heads; --heads 6 is used"),
                             ({"num_attention_heads": 6, "head_dim": SIZE}, None), (None, None)):
            self.put(tensors, config)
            done = self.run_tool("tensor-convert", *words, "-o", "w.h5", "--force")
            if says is None:
                self.assertNotIn("is used", done.err)
            else:
                self.assertIn(says, done.err)
        path = self.folder / "config.json"
        bits = np.random.default_rng(2).integers(0, 120, (256, 256)).astype(np.uint8)
        scales = np.float32([[1, 2], [4, 0.5]])
        eight = typed({base + name: one for letter in "qkv" for name, one in (
            (letter + "_proj.weight", ("F8_E4M3", bits)), (letter + "_proj.weight_scale_inv", ("F32", scales)))})
        words = ["m.safetensors", "--model", "llama", "--layer", 0, "--heads", 2]
        self.put(tensors)
        (self.folder / "m.safetensors").write_bytes(eight)
        expected = self.weights(*words[1:])
        for make, says in ((lambda: path.write_text("{"), "not a JSON object"),
                           (lambda: path.write_bytes(b" " * (17 << 20)), "config.json"),
                           (lambda: os.mkfifo(path), "config.json"), (path.mkdir, "config.json")):
            make()
            self.refused("tensor-convert", *words, status=3, says=[says], hint="--ignore-config")
            # Only the blocks of scales are asked for.
            if not path.is_dir():
                self.refused("tensor-convert", f"x=m.safetensors:{base}q_proj.weight", status=3, says=["config.json"],
                             hint="--ignore-config")
            self.assert_same_bits(self.weights(*words[1:], "--ignore-config"), expected)
            path.rmdir() if path.is_dir() else path.unlink()

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
            self.refused_model([f"config.json has {member}"], "--ignore-config")
            self.refused("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 1, "--heads", H, status=3,
                         says=[f"config.json has {member}"], hint="--ignore-config")
            found = self.weights("--model", "llama", "--layer", 1, "--ignore-config", "--heads", H)
            self.assertEqual(found["wq"].shape, (H, D, SIZE))
        for config in ({"sliding_window": None}, {"sliding_window": 64, "use_sliding_window": False}):
            self.put(self.layer(), {"num_attention_heads": H} | config)
            self.weights("--model", "llama", "--layer", 1)

    def shards(self, tensors, config=None):
        """Writes tensors by turns into two files, and the index of both."""
        names = sorted(tensors)
        files = {name: f"model-0000{1 + n % 2}-of-00002.safetensors" for n, name in enumerate(names)}
        for file in set(files.values()):
            self.put({name: tensors[name] for name in names if files[name] == file}, config, file)
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
        return index

    def test_an_index_is_an_address(self):
        tensors = self.layer()
        index = self.shards(tensors, {"num_attention_heads": H})
        self.put(tensors, {"num_attention_heads": H}, "whole.safetensors")
        self.run_tool("tensor-convert", "whole.safetensors", "--model", "llama", "--layer", 1, "-o", "w.h5")
        expected = self.read("w.h5")
        name = "model.layers.1.self_attn.q_proj.weight"
        for address in (index.name, ".", "./", str(self.folder), str(index)):
            with self.subTest(address=address):
                self.run_tool("tensor-convert", address, "--model", "llama", "--layer", 1, "-o", "w.h5", "--force")
                self.assert_same_bits(self.read("w.h5"), expected)
                self.run_tool("tensor-compare", "whole.safetensors", address)
                listed = self.run_tool("tensor-info", address, "--json").json()["result"]["datasets"]
                self.assertEqual({one["path"].replace("/", "."): one["shape"] for one in listed},
                                 {stored: list(a.shape) for stored, a in tensors.items()})
                for path in (name, "/" + name.replace(".", "/")):
                    self.run_tool("tensor-convert", f"x={address}:{path}[2:5]", "-o", "x.npy", "--force")
                    self.assertEqual(np.load(self.folder / "x.npy").tobytes(), tensors[name][2:5].tobytes())
                self.run_tool("tensor-convert", address + ":model.layers.1.self_attn", "-o", "g.h5", "--force")
                self.assertEqual(self.read("g.h5")["q_proj/weight"].tobytes(), tensors[name].tobytes())
        done = self.run_tool("tensor-convert", f"x=.:{name}", "--json=j.json", "-o", "x.npy", "--force")
        self.assertEqual(self.read_json("j.json")["sources"][0]["kind"], "checkpoint part", done.err)
        # One layer for every tool that has --each.
        self.run_tool("tensor-convert", index.name, "-o", "whole.npz")
        with np.load(self.folder / "whole.npz") as found:
            self.assertEqual(sorted(found.files), sorted(tensors))
        self.refused("attn-compute", ".", "--each=model.layers.*", status=3, says=["no dataset q"])
        self.refused_model(["q_proj"], "index.json", "model-00001-of-00002.safetensors")
        # A folder of one file.
        (self.folder / "one").mkdir()
        (self.folder / "whole.safetensors").rename(self.folder / "one/model.safetensors")
        self.run_tool("tensor-convert", f"x=one:{name}", "-o", "x.npy", "--force")

    def test_parts_of_a_checkpoint(self):
        tensors = self.layer()
        index = self.shards(tensors, {"num_attention_heads": H})
        names = sorted(tensors)
        second = self.folder / "model-00002-of-00002.safetensors"
        content = second.read_bytes()
        # What is there can be read; a missing part is named.
        second.unlink()
        self.run_tool("tensor-convert", f"x=.:{names[0]}", "-o", "x.npy")
        said = [index.name, names[1], second.name, "there is no such file"]
        self.refused("tensor-convert", f"x=.:{names[1]}", status=3, says=said, hint="fetch it")
        self.refused_model(said, "fetch it", ".")
        self.refused("tensor-convert", index.name, status=3, says=said)
        listed = self.run_tool("tensor-info", ".", status=3)
        self.assertIn("unreadable", listed.out.decode())
        # In the cache of a hub, files are links to others.
        (self.folder / "blobs").mkdir()
        (self.folder / "blobs/1").write_bytes(content)
        second.symlink_to("blobs/1")
        self.run_tool("tensor-compare", ".", index.name)
        second.unlink()
        for wrong, why in ((safetensors({}), "does not have it"), (b"", "too short"), (content[:250], "has"),
                           (b"junk" * 50, "header")):
            second.write_bytes(wrong)
            self.refused("tensor-convert", f"x=.:{names[1]}", status=3, says=[why, second.name])
        second.unlink()
        second.mkdir()
        self.refused("tensor-convert", f"x=.:{names[1]}", status=3, says=["not a regular file"])
        second.rmdir()
        os.mkfifo(second)
        self.refused("tensor-convert", f"x=.:{names[1]}", status=3, says=["not a regular file"])
        second.unlink()
        second.write_bytes(content)
        for wrong in ("", "[]", "{", "x" * 40, '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": ""}}',
                      '{"weight_map": {"a": "../b.safetensors"}}', '{"weight_map": {"a": "/etc/passwd"}}',
                      '{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}', '{"weight_map": {"": "x"}}',
                      '{"weight_map": {}, "weight_map": {}}', '{"a":' * 5000, '{"weight_map": {"a": "b\\u0000"}}'):
            index.write_text(wrong)
            for tool in ("tensor-convert", "tensor-info"):
                self.refused(tool, index.name, status=3, says=["index.json"],
                             output="out.h5" if tool == "tensor-convert" else None)
        index.write_text(json.dumps({"weight_map": {"a": "model.bin"}}))
        (self.folder / "model.bin").write_bytes(b"x")
        self.refused("tensor-convert", ".", status=3, says=["model.bin", "expected a .safetensors file"])

    def test_a_layer_that_is_not_there(self):
        tensors = {}
        for n in (0, 1, 2, 5):
            tensors |= self.layer(f"model.layers.{n}.self_attn.")
        self.put(tensors, {"num_attention_heads": H})
        self.refused("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 4, status=3,
                     says=["layers.4.self_attn.q_proj"], hint="its layers are 0, 1, 2, 5")
        self.run_tool("tensor-convert", "m.safetensors", "-o", "m.h5")  # names become groups
        self.run_tool("tensor-convert", "m.h5", "--model", "llama", "--layer", 5, "-o", "w.h5")
        self.assertEqual(self.read("w.h5")["wk"].tobytes(), self.weights("--model", "llama", "--layer", 5)["wk"].tobytes())
        self.refused("tensor-convert", "m.h5", "--model", "llama", "--layer", 4, status=3,
                     says=["layers.4.self_attn.q_proj"], hint="its layers are 0, 1, 2, 5")

    def test_prefixes(self):
        for prefix in ("language_model.model.", "model.language_model.", "model.", ""):
            self.put(self.layer(prefix + "layers.1.self_attn."), {"text_config": {"num_attention_heads": H}})
            self.assertEqual(self.weights("--model", "llama", "--layer", 1)["wk"].shape, (H, D, SIZE))

    def test_fused_projections(self):
        """q, k and v of one matrix, stored as each family does, against the three matrices it was made of."""
        heads, size = 4, 8
        random = np.random.default_rng(2)
        for model, name, config, shared in (
                ("llama", "model.layers.3.self_attn.qkv_proj", {"num_key_value_heads": 2}, 2),  # Phi-3
                ("llama", "model.layers.3.self_attn.qkv_proj", {"head_dim": size}, 2),
                ("gpt2", "gpt_neox.layers.3.attention.query_key_value", {"model_type": "gpt_neox"}, 4),
                ("llama", "gpt_neox.layers.3.attention.query_key_value", {"model_type": "gpt_neox"}, 4),
                ("gpt2", "transformer.h.3.self_attention.query_key_value", {"model_type": "falcon"}, 1),
                ("gpt2", "transformer.h.3.self_attention.query_key_value",
                 {"model_type": "falcon", "multi_query": False}, 4),
                ("gpt2", "transformer.h.3.self_attention.query_key_value",
                 {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 2}, 2),
                ("llama", "transformer.encoder.layers.3.self_attention.query_key_value",
                 {"model_type": "chatglm", "multi_query_attention": True, "multi_query_group_num": 2, "kv_channels": size}, 2),
                ("gpt2", "transformer.h.3.attn.c_attn", {"model_type": "gpt_bigcode"}, 1),
                ("gpt2", "transformer.h.3.attn.c_attn", {"model_type": "gpt_bigcode", "multi_query": False}, 4),
                ("llama", "transformer.h.3.attn.c_attn", {"model_type": "qwen"}, 4),
                ("gpt2", "transformer.h.3.attn.c_attn", {"model_type": "gpt2"}, 4)):
            with self.subTest(name=name, config=config):
                width = heads * size
                parts = [random.normal(size=(count, size, width)) for count in (heads, shared, shared)]
                biases = [random.normal(size=part.shape[:2]) for part in parts]
                type_ = config.get("model_type", "")
                grouped = type_ in ("gpt_neox", "falcon") or (type_ == "gpt_bigcode" and shared == heads)

                def fused(q, k, v):
                    if not grouped:
                        return np.concatenate([one.reshape(-1, *one.shape[2:]) for one in (q, k, v)])
                    q = q.reshape(shared, heads // shared, *q.shape[1:])
                    groups = np.concatenate([q, k[:, None], v[:, None]], 1)
                    return groups.reshape(-1, *groups.shape[3:])

                weight = fused(*parts)
                if type_ == "gpt2":
                    weight = weight.T.copy()
                tensors = {name + ".weight": weight, name + ".bias": fused(*biases), name.rpartition(".")[0] + ".dense.weight":
                           np.ones((2, 2))}
                for number, words in ((7, ["--heads", heads, "--kv-heads", shared]), (heads, [])):
                    self.put(tensors, {"num_attention_heads": number} | config)
                    found = self.weights("--model", model, "--layer", 3, *words)
                    for letter, part, bias in zip("qkv", parts, biases):
                        self.assertEqual(found["w" + letter].tolist(), part.swapaxes(1, 2).tolist())
                        self.assertEqual(found["b" + letter].tolist(), bias.tolist())
                self.refused("tensor-convert", "m.safetensors", "--model", model, "--layer", 4, status=3,
                             says=["layers.4" if model == "llama" else "h.4"], hint="its only layer is 3")
                if type_ not in ("gpt2", "qwen", "gpt_bigcode"):
                    self.put(tensors)
                    found = self.weights("--model", model, "--layer", 3, "--heads", heads, "--kv-heads", shared)
                    self.assertEqual(found["wk"].tolist(), parts[1].swapaxes(1, 2).tolist())
                    self.put(tensors, {"num_attention_heads": 7})
                    self.refused("tensor-convert", "m.safetensors", "--model", model, "--layer", 3, status=3,
                                 says=[name, "7 heads"], hint="--kv-heads")
        self.put({"transformer.h.1.self_attention.query_key_value.weight": np.ones((12, 4))},
                 {"model_type": "bloom", "n_head": 2})
        self.refused("tensor-convert", "m.safetensors", "--model", "gpt2", "--layer", 1, status=3,
                     says=["bloom"], hint="--relative-bias alibi")

    def test_float8_with_scales(self):
        """The bits of the same numbers in float32; scales in the file of their weights, or another part."""
        random = np.random.default_rng(3)
        base, tensors, plain = "model.layers.1.self_attn.", {}, {}
        for name in "qkv":
            bits = random.integers(0, 120, (H * SIZE, D), dtype=np.uint8)
            scale = random.uniform(0.5, 2, (1, 1)).astype(np.float32)
            wide = np.where(bits >> 3 == 0, (bits & 7) * 2.0 ** -9, (8.0 + (bits & 7)) * 2.0 ** ((bits >> 3) - 10.0))
            tensors[f"{base}{name}_proj.weight"] = ("F8_E4M3", bits)
            tensors[f"{base}{name}_proj.weight_scale_inv"] = ("F32", scale)
            plain[f"{base}{name}_proj.weight"] = (wide * scale).astype(np.float32)
        tensors[base + "o_proj.weight_scale_inv"] = ("F32", np.ones((1, 1), np.float32))
        tensors[base + "q_proj.input_scale"] = ("F32", np.ones((), np.float32))
        self.put(plain, {"num_attention_heads": H})
        expected = self.weights("--model", "llama", "--layer", 1)
        (self.folder / "m.safetensors").write_bytes(typed(tensors))
        found = self.weights("--model", "llama", "--layer", 1)
        scales = {name: one for name, one in tensors.items() if "scale" in name}
        rest = {name: one for name, one in tensors.items() if "scale" not in name}
        (self.folder / "a.safetensors").write_bytes(typed(rest))
        (self.folder / "b.safetensors").write_bytes(typed(scales))
        (self.folder / "m.safetensors.index.json").write_text(json.dumps({"weight_map": {
            **{name: "a.safetensors" for name in rest}, **{name: "b.safetensors" for name in scales}}}))
        self.run_tool("tensor-convert", "m.safetensors.index.json", "--model", "llama", "--layer", 1, "-o", "p.h5",
                      "--force")
        for name in ("wq", "wk", "wv"):
            self.assertEqual(found[name].tobytes(), expected[name].tobytes())
            self.assertEqual(self.read("p.h5")[name].tobytes(), expected[name].tobytes())
        self.refused_model(["q_proj.weight is F8_E4M3", "weight_scale_inv"], "index of the checkpoint", "a.safetensors")

    def test_types_by_name(self):
        for type_, size in (("F8_E8M0", 1), ("C64", 8)):
            entries = {f"layers.1.self_attn.{x}_proj.weight":
                       {"dtype": type_, "shape": [8, 1], "data_offsets": [8 * size * n, 8 * size * (n + 1)]}
                       for n, x in enumerate("qkv")}
            (self.folder / "m.safetensors").write_bytes(framed(entries, bytes(24 * size)))
            self.refused_model([f"of {type_}"])
            done = self.run_tool("tensor-info", "m.safetensors", "--json").json()
            self.assertEqual({one["dtype"] for one in done["result"]["datasets"]}, {type_})
            done = self.run_tool("tensor-convert", "m.safetensors", "-o", "x.h5", "--json=j.json", status=3)
            self.assertIn(type_, done.err)
            self.assertNotIn("other", done.err + (self.folder / "j.json").read_text())

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
            (good, "{", ["--heads", 2], 3, ["config.json is not a JSON object"]),
            (good, "{", ["--ignore-config"], 2, ["number of heads", "config.json is not read"]),
        ]
        for tensors, config, arguments, status, says in rows:
            with self.subTest(says=says, arguments=arguments):
                self.put(tensors, config)
                self.refused("tensor-convert", "m.safetensors", "--model", "bert", "--layer", 0,
                             *arguments, status=status, says=says)
        self.refused("tensor-convert", "m.safetensors", "--model", "bert", status=2,
                     says=["--layer"])
        self.refused("tensor-convert", "m.safetensors", "--layer", 1, status=2, says=["--model"])
        self.refused("tensor-convert", "m.safetensors", "--ignore-config", status=2, says=["--ignore-config requires --model"])
        self.refused("tensor-convert", "a=m.safetensors", "--model", "bert", "--layer", 0, status=2,
                     says=["FILE"])


if __name__ == "__main__":
    unittest.main()
