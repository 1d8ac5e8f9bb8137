"""attn-compute against a plain evaluation of attention with the conventions of ONNX's operator
Attention (opset 25), which variable-length kernels share: causality, offsets, windows, padding,
grouped heads, soft caps and sinks in all combinations."""

import unittest

import numpy as np

from attn import LONG, ToolTest


def plain_scores(q, k, case, offset):
    """The scores of one sequence, -inf where a query may not attend. q (Lq, d), k (Lk, d)."""
    queries, keys = len(q), len(k)
    if offset is None:
        offset = keys - queries if case["causal"] == "bottom-right" else 0
    scores = np.full((queries, keys), -np.inf)
    for i in range(queries):
        position = i + offset
        for j in range(keys):
            if ((case["causal"] is None or j <= position)
                    and (case["left"] is None or j >= position - case["left"])
                    and (case["right"] is None or j <= position + case["right"])):
                score = q[i] @ k[j] / np.sqrt(q.shape[1])
                cap = case["softcap"]
                scores[i, j] = score if cap is None else cap * np.tanh(score / cap)
    return scores


def log_sum(values):
    most = np.max(values, initial=-np.inf)
    return most if np.isinf(most) else most + np.log(np.exp(values - most).sum())


def plain_attention(scores, v, case, sink):
    """out and column sums of one sequence, a line at a time. v (Lk, dv)."""
    queries, keys = scores.shape
    out, sums = np.zeros((queries, v.shape[1])), np.zeros(keys)
    if case["scheme"] == "dnas":
        columns = np.array([log_sum(scores[:, j]) for j in range(keys)])
        scores = scores - np.where(np.isinf(columns), 0, columns)
    for i in range(queries):
        # The sink takes part in the sum alone.
        total = log_sum(scores[i] if sink is None else np.append(scores[i], sink))
        if not np.isinf(total):
            weights = np.exp(scores[i] - total)
            out[i] = weights @ v
            sums += weights
    return out, sums


def random_case(random):
    def maybe(share, value):
        return value if random.random() < share else None
    causal = [None, "top-left", "bottom-right"][random.integers(3)]
    left, right = (maybe(0.4, int(random.integers(0, 12))) for _ in range(2))
    placed = causal == "top-left" or (causal is None and (left, right) != (None, None))
    return {"causal": causal, "left": left, "right": right,
            "offset": maybe(0.5, int(random.integers(-5, 12))) if placed else None,
            "softcap": maybe(0.3, float(random.uniform(0.5, 3))),
            "padded": random.random() < 0.7, "left_padded": random.random() < 0.5,
            "with_sink": random.random() < 0.4, "dataset": random.random() < 0.5,
            "scheme": "dnas" if random.random() < 0.3 else "unas"}


def random_span(random, length, count, from_left):
    """Starts and lengths of `count` sequences within `length` positions."""
    lengths = random.integers(0, length + 1, count)
    room = length - lengths
    return random.integers(0, room + 1) if from_left else np.zeros(count, int), lengths


class Conventions(ToolTest):

    def options(self, case):
        options = [] if case["causal"] is None else [f"--causal={case['causal']}"]
        if (case["left"], case["right"]) != (None, None):
            sides = ("" if side is None else side for side in (case["left"], case["right"]))
            options.append("--window={}:{}".format(*sides))
        if case["softcap"] is not None:
            options.append(f"--softcap={case['softcap']!r}")
        if case["offset"] is not None and not case["dataset"]:
            options.append(f"--query-offset={case['offset']}")
        return options

    def test_random_combinations(self):
        random = np.random.default_rng(25)
        for number in range(300 if LONG else 60):
            case = random_case(random)
            batch, key_heads, group = random.integers(1, 4, 3)
            heads = key_heads * group
            queries, keys = random.integers(1, 24, 2)
            depth, width = random.integers(1, 9, 2)
            data = {"q": random.normal(size=(batch, heads, queries, depth)),
                    "k": random.normal(size=(batch, key_heads, keys, depth)),
                    "v": random.normal(size=(batch, key_heads, keys, width))}
            more = {}
            starts, lengths = {}, {}
            for side, length in (("query", queries), ("key", keys)):
                starts[side], lengths[side] = np.zeros(batch, int), np.full(batch, length)
                if case["padded"]:
                    starts[side], lengths[side] = random_span(random, length, batch,
                                                              case["left_padded"])
                    more[f"{side}_length"] = lengths[side]
                    if case["left_padded"]:
                        more[f"{side}_start"] = starts[side]
            own = {side: [slice(starts[side][b], starts[side][b] + lengths[side][b])
                          for b in range(batch)] for side in starts}
            for name, side in (("q", "query"), ("k", "key"), ("v", "key")):
                whole, data[name] = data[name], np.full_like(data[name], np.nan)
                for b in range(batch):
                    data[name][b, :, own[side][b]] = whole[b, :, own[side][b]]
            sinks = random.normal(size=heads) if case["with_sink"] else [None] * heads
            if case["with_sink"]:
                more["sink"] = sinks
            offsets = [case["offset"]] * batch
            if case["offset"] is not None and case["dataset"]:
                offsets = more["query_offset"] = random.integers(-5, 12, batch)
            self.write("in.h5", **data, **more)
            with self.subTest(number=number, **case):
                found = self.compute("in.h5", "-q", "--emit=out,col_sum",
                                     f"--scheme={case['scheme']}", *self.options(case))
                for b in range(batch):
                    rows, cols = own["query"][b], own["key"][b]
                    for h in range(heads):
                        scores = plain_scores(data["q"][b, h, rows],
                                              data["k"][b, h // group, cols], case, offsets[b])
                        out, sums = plain_attention(scores, data["v"][b, h // group, cols], case,
                                                    sinks[h])
                        whole = np.zeros((queries, width)), np.zeros(keys)
                        whole[0][rows], whole[1][cols] = out, sums
                        self.assert_near("out", found["out"][b, h], whole[0], 1e-12)
                        self.assert_near("col_sum", found["col_sum"][b, h], whole[1], 1e-12)

    def test_an_offset_places_a_block_of_queries_behind_a_cache(self):
        random = np.random.default_rng(26)
        data = {n: random.normal(size=(2, 40, 8)) for n in "qkv"}
        self.write("all.h5", **data)
        self.write("block.h5", q=data["q"][:, 30:37], k=data["k"], v=data["v"])
        whole = self.compute("all.h5", "-q", "--causal", "--window=9:")
        for options in (["--causal", "--query-offset=30"], ["--causal=top-left", "--query-offset=30"]):
            block = self.compute("block.h5", "-q", "--window=9:", *options)
            self.assert_near("out", block["out"], whole["out"][:, 30:37], 1e-14)
        self.refused("attn-compute", "block.h5", "--causal=bottom-right", "--query-offset=30",
                     status=2, says=["both --causal=bottom-right and a query offset"])
        self.refused("attn-compute", "block.h5", "--query-offset=30", status=2,
                     says=["--query-offset has no effect"])
        self.refused("attn-compute", "block.h5", "--causal", status=2, says=["--causal is ambiguous"],
                     hint="behind a cache of keys: --causal=bottom-right")

    def test_windows_in_words(self):
        random = np.random.default_rng(27)
        self.write("in.h5", **{n: random.normal(size=(1, 12, 4)) for n in "qkv"})
        same = (("--window=4", "--window=3:3"), ("--window=none", "--window=:"))
        for a, b in same:
            self.assert_same_bits(self.compute("in.h5", "-q", a), self.compute("in.h5", "-q", b),
                                  ["out"])
        for text in ("0", "-1", "3:x", "a", "3:4:5", ":-1", "1.5"):
            self.refused("attn-compute", "in.h5", f"--window={text}", status=2,
                         says=[f"--window is {text}", "LEFT:RIGHT"])
        # What is recorded is used again.
        for text, recorded in (("5", 5), ("2:0", "2:0"), (":3", ":3")):
            self.run_tool("attn-compute", "in.h5", f"--window={text}", "--force", "-o", "made.h5")
            self.assertEqual(self.read("made.h5").attributes["attn_window"], recorded)
            stored = self.stats("made.h5", "--scheme=stored,unas")
            self.assert_near("mean", stored["stored"]["row_entropy"]["mean"],
                             stored["unas"]["row_entropy"]["mean"], 1e-12)


if __name__ == "__main__":
    unittest.main()
