"""From checkpoint and config.json to the weights of attention: tensor-convert --model, then attn-compute, against the
formulas of each family of models in NumPy.

The checkpoints are made by hand, under the names of Hugging Face; the formulas follow its transformers 5."""

import importlib.util
import json
import math
import unittest

import h5py
import numpy as np

from arrays import brain, safetensors, widened
from attn import ToolTest

D, H, G, SIZE, LENGTH = 12, 4, 2, 8, 11


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def turned(a, angles, factor=1.0, neighbours=False):
    """a (heads, length, d), whose first channels turn by `angles` per position."""
    r = 2 * len(angles)
    apart = np.arange(a.shape[-2])[:, None] * angles
    cos, sin = np.cos(apart) * factor, np.sin(apart) * factor
    first, second = (slice(0, r, 2), slice(1, r, 2)) if neighbours else (slice(0, r // 2), slice(r // 2, r))
    made = a.copy()
    made[..., first] = a[..., first] * cos - a[..., second] * sin
    made[..., second] = a[..., second] * cos + a[..., first] * sin
    return made


def rms(a, weight, eps, axes=-1):
    return a / np.sqrt((a * a).mean(axes, keepdims=True) + eps) * weight


def layer_norm(a, weight, eps, bias=0.0):
    return rms(a - a.mean(-1, keepdims=True), weight, eps) + bias


def usual(theta, r=SIZE):
    return theta ** (-np.arange(0, r, 2) / r)


def yarn(theta, r, factor, original, fast=32, slow=1, truncate=True):
    """Peng et al. 2023."""
    def pair(turns):
        return r * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low, high = pair(fast), pair(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, r - 1)
    high += 0.001 if low == high else 0
    interpolated = np.clip((np.arange(r // 2) - low) / (high - low), 0, 1)
    return usual(theta, r) * (interpolated / factor + 1 - interpolated)


def llama3(theta, factor, low, high, original):
    found = []
    for angle in usual(theta):
        wavelength = 2 * math.pi / angle
        if wavelength < original / high:
            found.append(angle)
        elif wavelength > original / low:
            found.append(angle / factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            found.append((1 - smooth) * angle / factor + smooth * angle)
    return np.array(found)


class ModelScores(ToolTest):

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(51)
        self.x = self.random.normal(size=(LENGTH, D))

    def normal(self, *shape):
        """bfloat16 numbers."""
        return widened(brain(self.random.normal(size=shape))).astype(float)

    def put(self, tensors, config):
        (self.folder / "m.safetensors").write_bytes(safetensors({n: brain(a) for n, a in tensors.items()}))
        (self.folder / "config.json").write_text(json.dumps(config))

    def projections(self, base="model.layers.1.self_attn.", groups=G, size=SIZE):
        """The matrices (heads, size, D), and the tensors of a layer."""
        parts = {"q": self.normal(H, size, D), "k": self.normal(groups, size, D), "v": self.normal(groups, size, D)}
        return parts, {f"{base}{n}_proj.weight": a.reshape(-1, D) for n, a in parts.items()}

    def config(self, **more):
        return {"num_attention_heads": H, "num_key_value_heads": G, "head_dim": SIZE} | more

    def heads(self, parts):
        return [np.einsum("nd,hcd->hnc", self.x, parts[n]) for n in "qk"]

    def weights(self, q, k, scale=SIZE ** -0.5, cap=None, window=None):
        s = q @ np.repeat(k, H // len(k), 0).swapaxes(-1, -2) * scale
        if cap:
            s = cap * np.tanh(s / cap)
        apart = np.arange(LENGTH)[:, None] - np.arange(LENGTH)
        return softmax(np.where((apart >= 0) & (apart < (window or LENGTH)), s, -np.inf))

    def check(self, expected, model="llama", limit=1e-12):
        self.run_tool("tensor-convert", "m.safetensors", "--model", model, "--layer", 1, "-o", "layer.h5", "--force")
        self.write("x.h5", x=self.x)
        found = self.compute("--from=projection", "-i", "x=x.h5:/x", "layer.h5", "--only", "--emit=weights")
        self.assertEqual(found["weights"].dtype, float)
        self.assert_near(model, found["weights"], expected, limit)

    def refused_config(self, config, says, model="llama"):
        self.put(self.tensors, config)
        self.refused("tensor-convert", "m.safetensors", "--model", model, "--layer", 1, status=3,
                     says=["config.json", *says], hint="--ignore-config")

    def test_plain_decoders(self):
        """Rotary positions of halves over all channels, by rope_theta and by its usual value."""
        parts, tensors = self.projections()
        q, k = self.heads(parts)
        for type_, theta in (("llama", 1e4), ("mistral", 1e4), ("mixtral", 1e6), ("qwen2", 1e4), ("gemma", 1e4),
                             ("olmo", 1e4), ("starcoder2", 1e4)):
            for given, angles in (({}, usual(theta)), ({"rope_theta": 5e5}, usual(5e5)),
                                  ({"rope_parameters": {"rope_type": "default", "rope_theta": 3e4}}, usual(3e4))):
                with self.subTest(type=type_, given=given):
                    self.put(tensors, self.config(model_type=type_, **given))
                    self.check(self.weights(turned(q, angles), turned(k, angles)))

    def test_what_config_leaves_out(self):
        """Scale, soft cap and window of a family's layer 1 where config.json does not have them; --heads and
        --ignore-config."""
        norms = {f"model.layers.1.self_attn.{x}_norm.weight": self.normal(SIZE) for x in "qk"}
        plain, norm = self.projections()[1], self.projections()[1] | norms
        late = {"use_sliding_window": True, "sliding_window": 4}
        dot = {"attn_energy": "dot"}
        for tensors, config, expected in (
                (plain, {"model_type": "gemma2"}, dot | {"attn_scale": 1 / 16, "attn_softcap": 50}),
                (plain, {"model_type": "gemma2", "attn_logit_softcapping": None}, dot | {"attn_scale": 1 / 16}),
                (norm, {"model_type": "gemma3_text"}, dot | {"attn_scale": 1 / 16, "attn_window": 4096}),
                (norm, {"model_type": "gemma3_text", "sliding_window": None}, dot | {"attn_scale": 1 / 16}),
                (plain, {"model_type": "cohere2", "rope_theta": 1e4}, {"attn_window": 4096}),
                (plain, {"model_type": "granite"}, dot | {"attn_scale": 1}),
                (plain, {"model_type": "mistral", "sliding_window": 2 ** 21}, {"attn_window": 2 ** 21}),
                (plain, {"model_type": "qwen2"} | late, {}),
                (plain, {"model_type": "qwen2", "max_window_layers": 1} | late, {"attn_window": 4}),
                (norm, {"model_type": "qwen3", "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-3}, {})):
            with self.subTest(config=config):
                self.put(tensors, self.config(**config))
                self.run_tool("tensor-convert", "m.safetensors", "--model=llama", "--layer=1", "-o", "layer.h5", "--force")
                with h5py.File(self.folder / "layer.h5") as file:
                    found = {n: v for n, v in file.attrs.items() if n in ("attn_energy", "attn_scale", "attn_softcap",
                                                                          "attn_window")}
                    self.assertEqual({n: v if isinstance(v, str) else float(v) for n, v in found.items()}, expected)
                    self.assertIn("rotary_interleaved" if config["model_type"] == "cohere2" else "rotary", file)
                    if "norm_epsilon" in file:
                        self.assertEqual(file["norm_epsilon"][()], 1e-6)
        self.tensors = plain
        factors = {"type": "yarn", "factor": 4, "short_factor": [1], "long_factor": [1]}
        for config, says in (
                ({"model_type": "olmo3"}, "rope_theta"), ({"model_type": "cohere"}, "rope_theta"),
                ({"model_type": "qwen2_moe"} | late, "sliding_window"),
                ({"model_type": "qwen2", "max_window_layers": "x"} | late, "max_window_layers"),
                ({"model_type": "llama", "sliding_window": 4}, "sliding_window"),
                ({"model_type": "llama", "query_pre_attn_scalar": 4}, "query_pre_attn_scalar"),
                ({"model_type": "llama", "attn_logit_softcapping": 30}, "attn_logit_softcapping"),
                ({"model_type": "phi3", "rope_scaling": factors}, "short_factor"),
                ({"model_type": "llama", "rope_scaling": "linear"}, "rope_scaling"),
                ({"model_type": "llama", "rope_scaling": {"factor": 8.0}}, "without their type"),
                ({"model_type": "gemma2", "layer_types": ["full_attention"]}, "layer_types"),
                ({"model_type": "gemma2", "query_pre_attn_scalar": 0}, "scale")):
            with self.subTest(config=config):
                self.refused_config(self.config(**config), [says])
        command = ["tensor-convert", "m.safetensors", "--model=llama", "--layer=1", f"--heads={H}", "--force", "-o", "h.h5"]
        # --heads stands for a number that is missing or wrong; the rest is read.
        for config in (self.config(), {}, self.config(num_attention_heads=H + 1, head_dim=3)):
            self.put(plain, config | {"model_type": "gemma2"})
            done = self.run_tool(*command)
            self.assertEqual("warning" in done.err, config.get("num_attention_heads") == H + 1)
            self.assertEqual(self.read("h.h5").attributes["attn_softcap"], 50)
            self.assertIn("rotary", self.read("h.h5"))
        self.put(plain, self.config(model_type="mystery"))
        self.refused(*command[:-3], status=3, says=["config.json has model_type mystery"], hint="--ignore-config")
        done = self.run_tool(*command, "--ignore-config")
        self.assertIn("config.json is not read: the norms, rotary positions", done.err)
        self.assertEqual(set(self.read("h.h5")), {"wq", "wk", "wv"})

    def test_scalings(self):
        parts, tensors = self.projections()
        q, k = self.heads(parts)
        long = {"factor": 4.0, "original_max_position_embeddings": 64}
        by_yarn = 0.1 * math.log(4) + 1
        for scaling, angles, factor in (
                ({"type": "linear", "factor": 4.0}, usual(1e4) / 4, 1),
                ({"rope_type": "ntk", "factor": 4.0}, usual(1e4 * 4 ** (SIZE / (SIZE - 2))), 1),
                ({"rope_type": "yarn"} | long, yarn(1e4, SIZE, 4, 64), by_yarn),
                ({"rope_type": "yarn", "truncate": False, "beta_fast": 8, "beta_slow": 0.5} | long,
                 yarn(1e4, SIZE, 4, 64, 8, 0.5, False), by_yarn),
                ({"rope_type": "yarn", "attention_factor": 1.25} | long, yarn(1e4, SIZE, 4, 64), 1.25),
                ({"rope_type": "yarn", "mscale": 0.7, "mscale_all_dim": 1.0} | long, yarn(1e4, SIZE, 4, 64),
                 (0.07 * math.log(4) + 1) / by_yarn),
                ({"rope_type": "yarn", "original_max_position_embeddings": 64}, yarn(1e4, SIZE, 8, 64),
                 0.1 * math.log(8) + 1),
                ({"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0} | long,
                 llama3(1e4, 4, 1, 4, 64), 1)):
            with self.subTest(scaling=scaling):
                self.put(tensors, self.config(model_type="llama", max_position_embeddings=512, rope_scaling=scaling))
                self.check(self.weights(turned(q, angles, factor), turned(k, angles, factor)))
        # Each pair is scaled in another way.
        self.assertEqual(len(set(np.round(llama3(1e4, 4, 1, 4, 64) / usual(1e4), 9))), 3)
        self.assertGreater(len(set(np.round(yarn(1e4, SIZE, 4, 64, 8, 0.5, False) / usual(1e4), 9))), 2)

    def test_norms_of_each_head(self):
        base = "model.layers.1.self_attn."
        parts, tensors = self.projections()
        q, k = self.heads(parts)
        a, b = self.normal(SIZE), self.normal(SIZE)
        norms = {base + "q_norm.weight": a, base + "k_norm.weight": b}
        for type_, said, eps in (("qwen3", {}, 1e-6), ("qwen3", {"rms_norm_eps": 1e-3}, 1e-3),
                                 ("qwen3_moe", {"rms_norm_eps": 1e-3}, 1e-3)):
            self.put(tensors | norms, self.config(model_type=type_, rope_theta=1e6, **said))
            angles = usual(1e6)
            self.check(self.weights(turned(rms(q, a, eps), angles), turned(rms(k, b, eps), angles)))
        # Gemma 3: weights less 1; every sixth layer sees all, the others have a window and another theta.
        gemma = self.config(model_type="gemma3_text", rope_theta=1e6, query_pre_attn_scalar=24, sliding_window=3,
                            rope_scaling={"rope_type": "linear", "factor": 8.0})
        q, k = rms(q, 1 + a, 1e-6), rms(k, 1 + b, 1e-6)
        by_layer = {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}}
        newer = {n: v for n, v in gemma.items() if n not in ("rope_theta", "rope_scaling")} | {
            "rope_parameters": by_layer}
        types = ["full_attention", "sliding_attention"]
        for config, angles, window in (
                (gemma, usual(1e4), 3), (gemma | {"rope_local_base_freq": 2e4}, usual(2e4), 3),
                (gemma | {"layer_types": types[::-1]}, usual(1e6) / 8, None),
                (gemma | {"sliding_window_pattern": 2}, usual(1e6) / 8, None),
                (newer | {"layer_types": types}, usual(1e4), 3),
                (newer | {"layer_types": types[::-1]}, usual(1e6) / 8, None)):
            with self.subTest(config=config):
                self.put(tensors | norms, {"model_type": "gemma3", "text_config": config})
                self.check(self.weights(turned(q, angles), turned(k, angles), 24 ** -0.5, window=window), limit=1e-11)

        # The text part of a model with images says little: the norm has the channels of a head.
        little = {n: v for n, v in gemma.items() if n not in ("num_attention_heads", "num_key_value_heads", "head_dim")}
        self.put(tensors | norms, {"model_type": "gemma3", "text_config": little})
        self.check(self.weights(turned(q, usual(1e4)), turned(k, usual(1e4)), 24 ** -0.5, window=3), limit=1e-11)

    def test_norms_over_all_heads(self):
        base = "model.layers.1.self_attn."
        parts, tensors = self.projections()
        a, b = self.normal(H * SIZE), self.normal(G * SIZE)
        tensors |= {base + "q_norm.weight": a, base + "k_norm.weight": b}
        q, k = (rms(u, w.reshape(len(u), 1, SIZE), 1e-5, (0, 2)) for u, w in zip(self.heads(parts), (a, b)))
        long = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
        factor = 0.1 * math.log(4) + 1
        for type_, more, angles, factor, window in (
                ("olmo2", {}, usual(1e4), 1, None), ("olmoe", {"rms_norm_eps": 1e-5}, usual(1e4), 1, None),
                ("olmo3", {"rope_scaling": long, "sliding_window": 4}, usual(1e4), 1, 4),
                ("olmo3", {"rope_scaling": long, "sliding_window": 4, "layer_types": ["", "full_attention"]},
                 yarn(1e4, SIZE, 4, 64), factor, None)):
            with self.subTest(type=type_):
                self.put(tensors, self.config(model_type=type_, rope_theta=1e4, **more))
                self.check(self.weights(turned(q, angles, factor), turned(k, angles, factor), window=window))

    def test_layer_norms(self):
        base = "model.layers.1.self_attn."
        parts, tensors = self.projections()
        q, k = self.heads(parts)
        a, b = self.normal(H, SIZE), self.normal(G, SIZE)
        by_head = layer_norm(q, a[:, None], 1e-5), layer_norm(k, b[:, None], 1e-5)
        angles = usual(1e4)
        cohere = self.config(model_type="cohere", rope_theta=1e4, use_qk_norm=True, layer_norm_eps=1e-5)
        self.put(tensors | {base + "q_norm.weight": a, base + "k_norm.weight": b}, cohere)
        self.check(self.weights(*(turned(u, angles, 1, True) for u in by_head)))
        self.put(tensors, cohere | {"use_qk_norm": False})
        self.check(self.weights(*(turned(u, angles, 1, True) for u in (q, k))))
        # StableLM: a tensor for each head; a quarter of the channels turns.
        of_heads = {f"{base}{n}_layernorm.norms.{h}.weight": row for n, w in (("q", a), ("k", b))
                    for h, row in enumerate(w)}
        stablelm = self.config(model_type="stablelm", qk_layernorm=True)
        self.put(tensors | of_heads, stablelm)
        self.check(self.weights(*(turned(u, usual(1e4, 2)) for u in by_head)))
        self.put(tensors | of_heads, stablelm | {"partial_rotary_factor": 0.5})
        self.check(self.weights(*(turned(u, usual(1e4, 4)) for u in by_head)))
        # Phi: weights and biases for all heads alike.
        a, b, c, d = (self.normal(SIZE) for _ in range(4))
        phi = {base + "q_layernorm.weight": a, base + "q_layernorm.bias": b, base + "k_layernorm.weight": c,
               base + "k_layernorm.bias": d}
        self.put(tensors | phi, self.config(model_type="phi", qk_layernorm=True, layer_norm_eps=1e-4))
        normed = layer_norm(q, a, 1e-4, b), layer_norm(k, c, 1e-4, d)
        self.check(self.weights(*(turned(u, usual(1e4, 4)) for u in normed)))
        missing = {n: t for n, t in of_heads.items() if "q_layernorm.norms.2" not in n}
        for tensors_, config, says in ((missing, stablelm, "q_layernorm.norms.2.weight"), ({}, stablelm, "q_norm"),
                                       ({base + "q_norm.weight": np.ones(5)}, cohere, "(8)")):
            self.put(tensors | tensors_, config)
            self.refused("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 1, status=3, says=[says])

    def test_scales_caps_and_windows(self):
        parts, tensors = self.projections()
        q, k = (turned(u, usual(1e4)) for u in self.heads(parts))
        for config, options in (
                ({"model_type": "granite", "attention_multiplier": 0.6}, {"scale": 0.6}),
                ({"model_type": "granitemoe", "attention_multiplier": 0.6}, {"scale": 0.6}),
                ({"model_type": "gemma2", "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 30,
                  "sliding_window": 4}, {"scale": 30 ** -0.5, "cap": 2.0}),
                ({"model_type": "mistral", "sliding_window": 4}, {"window": 4}),
                ({"model_type": "qwen2", "sliding_window": 4, "max_window_layers": 0}, {}),
                ({"model_type": "qwen2", "sliding_window": 4, "use_sliding_window": True, "max_window_layers": 1},
                 {"window": 4}),
                ({"model_type": "qwen2", "sliding_window": 4, "use_sliding_window": True, "max_window_layers": 2}, {}),
                ({"model_type": "llama", "sliding_window": None}, {})):
            with self.subTest(config=config):
                self.put(tensors, self.config(**config))
                self.check(self.weights(q, k, **options))
        # Cohere 2 rotates, in pairs of neighbours, only where there is a window.
        plain = self.heads(parts)
        for types, vectors, window in ((["", "full_attention"], plain, None),
                                       (["", "sliding_attention"], [turned(u, usual(1e4), 1, True) for u in plain], 5)):
            self.put(tensors, self.config(model_type="cohere2", rope_theta=1e4, sliding_window=5, layer_types=types))
            self.check(self.weights(*vectors, window=window))

    def test_parts_of_the_channels_in_fused_matrices(self):
        """gpt_neox, chatglm, glm, falcon, phi3, gptj and gpt2."""
        parts, _ = self.projections(groups=H)
        plain = self.heads(parts)

        def grouped(q, k, v):
            return np.concatenate([q[:, None], k[:, None], v[:, None]], 1).reshape(-1, D)

        def stacked(q, k, v):
            return np.concatenate([part.reshape(-1, D) for part in (q, k, v)])

        names = {"gpt_neox": "gpt_neox.layers.1.attention.query_key_value",
                 "falcon": "transformer.h.1.self_attention.query_key_value",
                 "chatglm": "transformer.encoder.layers.1.self_attention.query_key_value",
                 "phi3": "model.layers.1.self_attn.qkv_proj", "gpt2": "transformer.h.1.attn.c_attn"}
        for type_, fused, more, angles, neighbours in (
                ("gpt_neox", grouped, {"rotary_emb_base": 2e4}, usual(2e4, 2), False),
                ("gpt_neox", grouped, {"rotary_pct": 0.5}, usual(1e4, 4), False),
                ("falcon", grouped, {"multi_query": False}, usual(1e4), False),
                ("chatglm", stacked, {"kv_channels": SIZE, "rope_ratio": 1}, usual(1e4, 4), True),
                ("phi3", stacked, {"partial_rotary_factor": 0.75}, usual(1e4, 6), False),
                ("gpt2", stacked, {}, np.zeros(1), False)):
            with self.subTest(type=type_, more=more):
                weight = fused(*parts.values())
                self.put({names[type_] + ".weight": weight.T if type_ == "gpt2" else weight},
                         {"model_type": type_, "num_attention_heads": H, "head_dim": SIZE} | more)
                self.check(self.weights(*(turned(u, angles, 1, neighbours) for u in plain)), "gpt2")
        _, tensors = parts, {f"transformer.h.1.attn.{n}_proj.weight": a.reshape(-1, D) for n, a in parts.items()}
        more = {"transformer.h.1.attn.out_proj.weight": np.ones((D, 2)), "transformer.h.1.attn.bias": np.ones((1, 1))}
        self.put(tensors | more, {"model_type": "gptj", "n_head": H, "rotary_dim": 4})
        self.check(self.weights(*(turned(u, usual(1e4, 4), 1, True) for u in plain)), "gpt2")
        for type_ in ("glm", "glm4"):
            _, tensors = parts, {f"model.layers.1.self_attn.{n}_proj.weight": a.reshape(-1, D)
                                 for n, a in parts.items()}
            self.put(tensors, {"model_type": type_, "num_attention_heads": H, "head_dim": SIZE})
            self.check(self.weights(*(turned(u, usual(1e4, 4), 1, True) for u in plain)))

    def test_gradients_of_a_model(self):
        """A loss through norms over all heads and rotary positions, in both precisions."""
        base = "model.layers.1.self_attn."
        _, tensors = self.projections()
        tensors |= {base + "q_norm.weight": self.normal(H * SIZE), base + "k_norm.weight": self.normal(G * SIZE)}
        self.put(tensors, self.config(model_type="olmo2"))
        self.run_tool("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 1, "-o", "layer.h5")
        self.write("x.h5", x=self.x, grad_out=self.random.normal(size=(H, LENGTH, SIZE)))
        found = {p: self.compute("--from=projection", "layer.h5", "-ix=x.h5:/x", "-igrad_out=x.h5:/grad_out", "--only",
                                 "--emit=grad_x,grad_wq,grad_wk", f"--precision={p}") for p in ("f32", "f64")}
        for name in ("grad_x", "grad_wq", "grad_wk"):
            exact = found["f64"][name]
            self.assert_near(name, found["f32"][name], exact, 3e-5 * np.abs(exact).max())

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_the_models_themselves(self):
        import torch
        import transformers
        long = {"factor": 4.0, "original_max_position_embeddings": 16}
        for type_, more in (
                ("llama", {"rope_scaling": {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0} | long}),
                ("qwen2", {}), ("qwen3", {"rope_scaling": {"rope_type": "yarn"} | long}), ("gemma2", {}), ("gemma3_text", {}),
                ("olmo2", {}), ("cohere", {"use_qk_norm": True}), ("stablelm", {"qk_layernorm": True}),
                ("phi", {"qk_layernorm": True}), ("glm", {}), ("granite", {})):
            with self.subTest(type=type_):
                sizes = {"hidden_size": H * SIZE, "intermediate_size": 16, "num_hidden_layers": 2, "vocab_size": 32,
                         "pad_token_id": 0, "max_position_embeddings": 64}
                config = transformers.AutoConfig.for_model(type_, **self.config(**sizes), **more)
                torch.manual_seed(1)
                model = transformers.AutoModel.from_config(config, attn_implementation="eager").eval()
                for parameter in model.parameters():
                    torch.nn.init.normal_(parameter, std=0.3)
                seen = {}

                def see(_, arguments, named):
                    seen["x"] = named["hidden_states"] if "hidden_states" in named else arguments[0]

                model.layers[1].self_attn.register_forward_pre_hook(see, with_kwargs=True)
                with torch.no_grad():
                    out = model(torch.arange(LENGTH)[None], output_attentions=True)
                model.save_pretrained(self.folder / type_)
                self.run_tool("tensor-convert", f"{type_}/model.safetensors", "--model", "llama", "--layer", 1, "-o", "layer.h5",
                              "--force")
                self.write("x.h5", x=seen["x"][0].numpy().astype(float))
                found = self.compute("--from=projection", "-i", "x=x.h5:/x", "layer.h5", "--only", "--emit=weights")
                self.assert_near(type_, found["weights"], out.attentions[1][0].numpy(), 1e-5)

    def test_types_of_the_datasets(self):
        """Angles and epsilon keep float64, whatever --dtype says; the rest is as stored."""
        base = "model.layers.1.self_attn."
        _, tensors = self.projections()
        self.put(tensors | {base + f"{n}_norm.weight": np.ones(SIZE) for n in "qk"}, self.config(model_type="qwen3"))
        for file, words, stored in (("w.h5", [], "f4"), ("w.h5", ["--dtype=f16"], "f2"), ("w.npz", [], "f4")):
            self.run_tool("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 1, *words, "-o", file, "--force")
            found = self.read(file) if file == "w.h5" else np.load(self.folder / file)
            for name, type_ in (("rotary", "f8"), ("norm_epsilon", "f8"), ("q_norm", stored), ("wq", stored)):
                self.assertEqual(found[name].dtype, np.dtype(type_), name)
            np.testing.assert_allclose(found["rotary"], usual(1e4), rtol=1e-15)
        self.write("x.h5", x=self.x)
        self.compute("--from=projection", "w.npz", "-ix=x.h5:/x", "--only")

    def test_refusals(self):
        parts, self.tensors = self.projections()
        for more, says in (
                ({"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}}, ["dynamic", "length"]),
                ({"model_type": "phi3", "rope_scaling": {"type": "longrope"}}, ["longrope", "length"]),
                ({"model_type": "llama", "rope_scaling": {"rope_type": "twisted"}}, ["twisted", "yarn or llama3"]),
                ({"model_type": "qwen2", "rope_scaling": {"type": "default", "mrope_section": [1]}}, ["mrope_section"]),
                ({"model_type": "llama", "rope_scaling": {"type": "linear"}}, ["linear without factor"]),
                ({"model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 2.0}}, ["yarn without original"]),
                ({"model_type": "llama", "rope_scaling": {"type": "llama3", "factor": 2.0}}, ["low_freq_factor"]),
                ({"model_type": "llama", "rope_theta": "much"}, ["rope_theta"]),
                ({"model_type": "llama", "rope_theta": -1}, ["rope_theta"]),
                ({"model_type": "phi", "partial_rotary_factor": 0.1}, ["0 channels", "8 channels"]),
                ({"model_type": "phi", "partial_rotary_factor": 1e300}, ["1000000 channels"]),
                ({"model_type": "gptj"}, ["no rotary_dim"]),
                ({"model_type": "chatglm", "rope_ratio": 50}, ["rope_ratio", "versions"]),
                ({"model_type": "gptj", "rotary_dim": 10}, ["10 channels", "8 channels"]),
                ({"model_type": "llama4_text", "use_qk_norm": True}, ["model_type llama4_text"]),
                ({"rope_theta": 1e4}, ["rope_theta but no model_type"]),
                ({"model_type": "qwen", "use_logn_attn": True}, ["use_logn_attn"]),
                ({"model_type": "llama", "use_qk_norm": True}, ["use_qk_norm"]),
                ({"model_type": "granite", "attention_multiplier": "x"}, ["attention_multiplier"]),
                ({"model_type": "olmo", "clip_qkv": 8}, ["clip_qkv"]),
                ({"model_type": "qwen3", "sliding_window": 4, "layer_types": ["", "chunked"],
                  "use_sliding_window": True}, ["chunked"])):
            with self.subTest(config=more):
                self.refused_config(self.config(**more), says)
        base = "model.layers.1.self_attn."
        self.put(self.tensors | {base + "q_norm.weight": np.ones(SIZE)}, self.config(model_type="llama"))
        self.refused("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 1, status=3, says=["q_norm.weight"])
        # Without config.json the weights alone are written, and a warning says what is missing.
        self.put(self.tensors, {})
        (self.folder / "config.json").unlink()
        done = self.run_tool("tensor-convert", "m.safetensors", "--model", "llama", "--layer", 1, "--heads", H, "-o", "w.h5")
        self.assertIn("rotary positions are left out", done.err)
        self.assertEqual(set(self.read("w.h5")), {"wq", "wk", "wv"})
        self.put({f"h.1.attn.{n}_proj.weight": np.ones((H * SIZE, D)) for n in "qkv"}, {})
        (self.folder / "config.json").unlink()
        done = self.run_tool("tensor-convert", "m.safetensors", "--model", "gpt2", "--layer", 1, "--heads", H, "-o", "w.h5",
                             "--force")
        self.assertIn("rotary positions are left out (models with h.1.attn.q_proj", done.err)


if __name__ == "__main__":
    unittest.main()
