"""Inputs that can be computed but are rarely meant: the other order of axes, masks turned round."""

import resource
import unittest

import numpy as np

from attn import ToolTest

BATCH, HEADS, LENGTH, DEPTH = 2, 3, 12, 4
LAYOUT = "--layout blhd"
TOOLS = ("attn-compute", "explain-away-stats", "lambda-solve")
MEANING = "a query may attend to a key where the mask is true"


def vectors(*shape):
    q, k, v = np.random.default_rng(5).normal(size=(3, *shape))
    return {"q": q, "k": k, "v": v}


class InputWarnings(ToolTest):

    def said_of(self, tool="attn-compute", options=(), attributes=None, **datasets):
        (self.folder / "in.h5").unlink(missing_ok=True)
        self.write("in.h5", attributes, **datasets)
        more = [] if tool == "explain-away-stats" else ["--only", "-o", "/dev/null"]
        return self.run_tool(tool, "in.h5", *options, *more).err

    def test_layout(self):
        inside = vectors(1, 80, HEADS, DEPTH)
        for tool in TOOLS:
            said = self.said_of(tool, **inside)
            self.assertIn("in.h5:/k has shape (1, 80, 3, 4), 80 heads and 3 keys: ", said)
            self.assertIn(LAYOUT, said)
        for layout in ("blhd", "bhld"):
            self.assertNotIn(LAYOUT, self.said_of(options=["--layout", layout], **inside))
        # One query of each head, for 20 keys.
        inside = vectors(BATCH, 20, HEADS, DEPTH)
        inside["q"] = inside["q"][:, :1]
        said = self.said_of(**inside)
        self.assertIn(f"in.h5:/q has one head, in.h5:/k has 20: if the axes are (batch, length, heads, depth), use {LAYOUT}", said)
        self.assertNotIn(LAYOUT, self.said_of(options=["--layout=bhld"], **inside))
        # Three axes may be a batch of single heads: only tokens tell.
        inside = vectors(40, HEADS, DEPTH)
        self.assertNotIn(LAYOUT, self.said_of(**inside))
        said = self.said_of(tokens=np.arange(40), **inside)
        self.assertIn("in.h5:/k has 40 heads and 3 keys, but there are 40 tokens: ", said)

    def test_layout_given_by_mistake(self):
        first = vectors(1, HEADS, 200, DEPTH)
        self.assertIn("200 heads and 3 keys", self.said_of(options=["--layout=blhd"], **vectors(HEADS, 200, DEPTH)))
        said = self.said_of(options=["--layout=blhd"], **first)
        self.assertIn("in.h5:/k has shape (1, 3, 200, 4), 200 heads and 3 keys: if the axes are (batch, heads, length, depth), "
                      "use --layout bhld\n", said)
        self.assertNotIn("bhld", self.said_of(options=["--layout=bhld"], **first))
        # The first tokens of a model with 128 heads.
        self.assertNotIn("bhld", self.said_of(options=["--layout=blhd"], **vectors(1, 3, 128, DEPTH)))
        said = self.said_of(options=["--layout=blhd"], tokens=np.arange(40), **vectors(HEADS, 40, DEPTH))
        self.assertIn("in.h5:/k has 40 heads and 3 keys, but there are 40 tokens: ", said)

    def test_depth_before_length(self):
        said = self.said_of("explain-away-stats", tokens=np.arange(30), **vectors(HEADS, DEPTH, 30))
        self.assertIn("in.h5:/k has depth 30 and 4 keys, but there are 30 tokens: if the axes are (..., depth, length)", said)
        # As many tokens as keys, or as neither.
        for length in (DEPTH, LENGTH):
            self.assertNotIn("swapaxes", self.said_of(tokens=np.arange(DEPTH), **vectors(HEADS, DEPTH, length)))
        self.assertNotIn("swapaxes", self.said_of(tokens=np.arange(7), **vectors(HEADS, LENGTH, DEPTH)))

    def test_layout_not_doubted(self):
        # One query for many keys, few keys in a large model whose tokens agree.
        decoding = vectors(1, 16, 20, DEPTH)
        decoding["q"] = decoding["q"][:, :, :1]
        self.assertNotIn(LAYOUT, self.said_of(**decoding))
        for name in "kv":  # shared by all heads
            decoding[name] = decoding[name][:, :1]
        self.assertNotIn(LAYOUT, self.said_of(**decoding))
        self.assertNotIn(LAYOUT, self.said_of(tokens=np.arange(5), **vectors(1, 16, 5, DEPTH)))
        self.assertNotIn(LAYOUT, self.said_of(**vectors(1, 32, 5, DEPTH)))

    def test_masks_turned_round(self):
        given = vectors(BATCH, HEADS, LENGTH, DEPTH)
        causal = np.tril(np.ones((LENGTH, LENGTH), bool))
        padding = np.arange(LENGTH) < np.array([[LENGTH], [7]])
        padding = padding[:, None, None, :]
        for mask in (causal, padding, np.ones((LENGTH, LENGTH), bool)):
            self.assertNotIn(MEANING, self.said_of(mask=mask, **given))
        for tool in TOOLS:
            self.assertIn(f"in.h5:/mask lets no query attend to the key at its own place in 6 of 6 heads: {MEANING}",
                          self.said_of(tool, mask=~causal, **given))
            # The sequence without padding may attend to nothing.
            self.assertIn(f"in.h5:/mask allows no pair in 3 of 6 heads: {MEANING}",
                          self.said_of(tool, mask=~padding, **given))
            self.assertIn("in.h5:/mask allows no pair in 6 of 6 heads",
                          self.said_of(tool, mask=np.zeros((LENGTH, LENGTH), bool), **given))

    def test_masks_of_some_heads(self):
        given = vectors(40, HEADS, LENGTH, DEPTH)
        # PyTorch's polarity of a left-padded causal batch: the longest sequences tell.
        causal = np.tril(np.ones((LENGTH, LENGTH), bool))
        start = np.arange(40) % 4
        allowed = causal & (np.arange(LENGTH) >= start[:, None])[:, None, None, :]
        self.assertIn("at its own place in 30 of 120 heads", self.said_of(mask=~allowed, **given))
        self.assertNotIn(MEANING, self.said_of(mask=allowed, **given))
        masks = np.ones((40, HEADS, LENGTH, LENGTH), bool)
        masks[7, 1] = False
        masks[8, 2] = ~causal
        said = self.said_of(mask=masks, **given)
        self.assertIn("allows no pair in 1 of 120 heads", said)
        self.assertIn("at its own place in 1 of 120 heads", said)

    def test_masks_of_own_parts(self):
        # Padding of the mask itself says nothing.
        given = vectors(1, 1, LENGTH, DEPTH)
        mask = np.zeros((LENGTH, LENGTH), bool)
        mask[:5, :5] = True
        lengths = {"query_length": np.array([5]), "key_length": np.array([5])}
        self.assertNotIn(MEANING, self.said_of(mask=mask, **lengths, **given))
        # Attention to others: no self-attention, no verdict.
        given["q"] = given["q"][:, :, :4]
        self.assertNotIn(MEANING, self.said_of(mask=~np.eye(4, LENGTH, dtype=bool), **given))

    def test_padding_turned_round(self):
        said = "allows only the last keys of each sequence"
        lengths = np.array([7, 9])[:, None, None, None]
        padding = np.arange(LENGTH)[None, None, None, :] >= lengths  # true where nothing is
        arrays = vectors(BATCH, HEADS, LENGTH, DEPTH)
        for tool in TOOLS:
            self.assertIn(said, self.said_of(tool, mask=padding, **arrays))
        self.assertNotIn(said, self.said_of(mask=~padding, **arrays))
        padding[1] = True  # no padding in this sequence
        self.assertNotIn(said, self.said_of(mask=padding, **arrays))

    def test_scale_of_scaled_dot(self):
        said = "scale 0.5 is 1/sqrt(4), by which the energy scaled-dot is multiplied"
        arrays = vectors(HEADS, LENGTH, DEPTH)
        self.assertIn(said, self.said_of(options=["--scale=0.5"], **arrays))
        self.assertNotIn("sqrt", self.said_of(options=["--scale=0.5", "--energy=dot"], **arrays))
        self.assertNotIn("sqrt", self.said_of(options=["--scale=0.25"], **arrays))

    def test_grouped_heads_inside(self):
        inside = vectors(BATCH, 40, 8, DEPTH)
        for name in "kv":
            inside[name] = inside[name][:, :, :2]
        said = "in.h5:/q has shape (2, 40, 8, 4), in.h5:/k has (2, 40, 2, 4): if the axes are"
        self.assertIn(said, self.said_of("explain-away-stats", **inside))
        self.assertNotIn(LAYOUT, self.said_of(options=["--layout=bhld"], **inside))
        few = vectors(BATCH, HEADS, 8, DEPTH)  # fewer heads than queries
        few["k"] = few["v"] = few["k"][:, :, :2]
        self.assertNotIn(LAYOUT, self.said_of(**few))

    def test_groups_say_it_once(self):
        given = vectors(HEADS, LENGTH, DEPTH) | {"mask": np.tri(LENGTH, dtype=bool).T}
        self.write("dump.h5", **{f"layer{n}/{name}": array for n in range(4) for name, array in given.items()})
        done = self.run_tool("attn-compute", "dump.h5", "--only", "--json=report.json", "-o", "out.h5")
        self.assertEqual(done.err.count("a causal mask"), 1)
        self.assertIn("note: 3 more lines differ from these in the address only; --json has all warnings\n", done.err)
        self.assertEqual(len(self.read_json("report.json")["warnings"]), 4)

    def test_transposed_causal_mask(self):
        given = vectors(BATCH, HEADS, LENGTH, DEPTH)
        said = "in.h5:/mask allows each query its own key and later ones alone in 6 of 6 heads"
        mask = np.tri(LENGTH, dtype=bool)
        self.assertIn(said, self.said_of(mask=mask.T, **given))
        self.assertNotIn(said, self.said_of(mask=mask, **given))
        # Inverted as in torch, against strictly causal and all but oneself, which are meant.
        inverted = "lets no query attend to the key at its own place"
        self.assertIn(inverted, self.said_of(mask=~mask, **given))
        for meant in (np.tri(LENGTH, k=-1, dtype=bool), ~np.eye(LENGTH, dtype=bool)):
            self.assertNotIn(inverted, self.said_of(mask=meant, **given))
        window = mask.T & np.tri(LENGTH, k=4, dtype=bool)
        self.assertNotIn(said, self.said_of(mask=window, **given))

    def test_bias_of_zeros_and_ones(self):
        given = vectors(BATCH, HEADS, LENGTH, DEPTH)
        said = "in.h5:/bias has no values but 0 and 1"
        bias = np.tri(LENGTH)
        self.assertIn(said, self.said_of(bias=bias, **given))
        for other in (np.zeros((LENGTH, LENGTH)), np.ones((LENGTH, LENGTH)), 0.5 * bias, np.where(bias, 0, -np.inf)):
            self.assertNotIn(said, self.said_of(bias=other, **given))

    def test_misspelt_attributes(self):
        given = vectors(BATCH, HEADS, LENGTH, DEPTH)
        for name, meant in (("soft_cap", "softcap"), ("windw", "window"), ("casual", "causal")):
            for tool in TOOLS:
                self.assertIn(f"in.h5: attribute attn_{name} is not read: did you mean attn_{meant}?\n",
                              self.said_of(tool, attributes={f"attn_{name}": 5.0}, **given))
        # Neither what the tools write nor what is like nothing.
        self.write("own.h5", {"attn_implementation": "eager", "attn_layers": 3.0}, **given)
        self.run_tool("attn-compute", "own.h5", "--scheme=sinkhorn", "--iterations=5", "--causal", "-o", "out.h5")
        self.assertNotIn("not read", self.run_tool("attn-compute", "out.h5", "-o", "/dev/null").err)

    def test_lengths_of_keys_alone(self):
        given = vectors(BATCH, HEADS, LENGTH, DEPTH)
        said = "note: in.h5:/key_length shortens the keys alone, and queries of padding count"
        lengths = np.array([LENGTH, 7])
        self.assertIn(said, self.said_of("explain-away-stats", key_length=lengths, **given))
        self.assertNotIn(said, self.said_of(key_length=lengths, query_length=lengths, **given))
        self.assertNotIn(said, self.said_of(key_length=np.array([LENGTH, LENGTH]), **given))
        given["q"] = given["q"][:, :, 1:]
        self.assertNotIn(said, self.said_of(key_length=lengths, **given))

    def test_causality_of_few_queries(self):
        given = vectors(BATCH, HEADS, LENGTH, DEPTH)
        given["q"] = given["q"][:, :, :3]
        said = "no query may attend to the last 9 of 12 keys: if the queries are the last ones of the sequence, use --causal=bottom-right\n"
        self.assertIn(said, self.said_of(options=["--causal=top-left"], **given))
        for options in (["--causal=bottom-right"], ["--causal=top-left", "--query-offset=9"], []):
            self.assertNotIn("no query", self.said_of(options=options, **given))
        given["k"], given["v"] = given["k"][:, :, :6], given["v"][:, :, :6]
        self.assertNotIn("no query", self.said_of(options=["--causal=top-left"], **given))

    def test_masks_that_do_not_fit(self):
        given = vectors(BATCH, HEADS, LENGTH, DEPTH)
        for shape, advice in [((BATCH, LENGTH), "mask[:, None, None, :]; or name the number of keys of each sequence "
                               "key_length"),
                              ((BATCH, LENGTH, LENGTH), "mask[:, None, :, :]"),
                              ((BATCH, HEADS, LENGTH), "mask[..., None, :]"),
                              ((LENGTH + 3, LENGTH + 3), f"mask[..., :{LENGTH}, :{LENGTH}]"),
                              ((1, 1, 1, LENGTH + 3), f"mask[..., :1, :{LENGTH}]")]:
            self.write("bad.h5", mask=np.ones(shape, bool), **given)
            self.assertIn(advice, self.run_tool("attn-compute", "bad.h5", "-o", "o.h5", status=3).err)
            (self.folder / "bad.h5").unlink()
        self.write("bad.h5", mask=np.ones((40, 40), bool), **vectors(1, 40, HEADS, DEPTH))
        self.assertIn(LAYOUT, self.run_tool("attn-compute", "bad.h5", "-o", "o.h5", status=3).err)

    def test_results_by_pair_beyond_memory(self):
        q = np.zeros((1, 24000, 1), np.float32)
        said = "weights takes 2.3 GB of the output: 24000 x 24000 for each of 1 head; --queries writes"
        self.write("long.h5", q=q, k=q)
        options = ["--only", "--scheme=unas", "long.h5"]
        limit = (1 << 24, 1 << 24)  # of the file, so that nothing much is written
        done = self.run_tool("attn-compute", "--emit=weights", *options, "-o", "all.h5", status=5,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
        self.assertIn(said, done.err)
        done = self.run_tool("attn-compute", "--emit=weights", "--queries=0", *options, "-o", "few.h5")
        self.assertNotIn("warning", done.err)


if __name__ == "__main__":
    unittest.main()
