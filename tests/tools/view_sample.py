#!/usr/bin/env python3
"""Makes a page of attn-view from random data, in the format of tools/attn_view/page/FORMAT.md.

    tests/tools/view_sample.py -o view.html [--groups N] [--heads N] [--length N] [--weights N] [--causal] [--hostile]

The tool itself is not needed, so that the page can be worked on alone. Tests read pages by data_of and numbers_in.
"""

import argparse
import base64
import hashlib
import json
import pathlib
import re

import numpy as np

PAGE = pathlib.Path(__file__).resolve().parents[2] / "tools/attn_view/page"
WORDS = ["The", "▁cat", "Ġsat", "on", "\n", "the", "Ċ", "mat", ".", "مرحبا", "e\u0301", "<s>", " ", "<0x0A>", "שלום", "🙂"]
HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "\x1b[31m", "\u202egnp.exe", "&lt;b&gt;", "\u2066x"]
EPSILON = 1e-8


def array(values):
    values = np.ascontiguousarray(values)
    little = values.astype(values.dtype.newbyteorder("<"))
    return {"type": values.dtype.name, "shape": list(values.shape), "base64": base64.b64encode(little.tobytes()).decode()}


def numbers_in(found):
    """The inverse of array."""
    return np.frombuffer(base64.b64decode(found["base64"]), np.dtype(found["type"]).newbyteorder("<")).reshape(found["shape"])


def data_of(page):
    """The data of a page, which is text."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def entropy_of(weights):
    return -np.sum(np.where(weights > 0, weights * np.log(np.where(weights > 0, weights, 1)), 0), axis=1)


def scheme(weights, queries_of_key, min_queries, keeps):
    sums = weights.sum(axis=0)
    enough = queries_of_key >= min_queries
    return {"col_sum": array(sums), "row_entropy": array(entropy_of(weights)),
            "share_ignored": float(np.mean(sums[enough] < EPSILON)), "least": float(sums[enough].min()),
            "least_per_query": float((sums[enough] / queries_of_key[enough]).min()), "entropy": float(entropy_of(weights).mean()),
            "first_key_share": float(sums[0] / sums.sum()), "sink_share": 0.0,
            "weights": array(weights.astype(np.float16)) if keeps else None}


def head(random, number, length, causal, keeps):
    scores = random.normal(size=(length, length)) * 1.5 - random.exponential(6, size=length) * (random.random(length) < 0.2)
    if number % 3 == 1:
        scores[:, random.integers(length, size=2)] -= 40  # keys that are ignored
    if causal:
        scores[np.triu_indices(length, 1)] = -np.inf
    allowed = np.isfinite(scores)
    exponentials = np.exp(scores)
    unas = exponentials / exponentials.sum(axis=1, keepdims=True)
    shares = exponentials / exponentials.sum(axis=0, keepdims=True)
    dnas = shares / shares.sum(axis=1, keepdims=True)
    queries_of_key = allowed.sum(axis=0)
    enough = max(1, length // 10)
    return {"batch": [0], "head": number, "queries": length, "keys": length, "causal": causal, "min_queries": enough, "tokens": 0,
            "query_tokens": 0, "queries_of_key": array(queries_of_key.astype(np.int32)),
            "schemes": {"unas": scheme(unas, queries_of_key, enough, keeps), "dnas": scheme(dnas, queries_of_key, enough, keeps)},
            "relative_deviation": float(random.random() / 3) if number % 2 == 0 else None}


def data(options):
    random = np.random.default_rng(1)
    words = WORDS + (HOSTILE if options.hostile else [])
    tokens = [words[n % len(words)] for n in range(options.length)]
    groups = []
    for group in range(options.groups):
        heads = [head(random, n, options.length, options.causal, group * options.heads + n < options.weights)
                 for n in range(options.heads)]
        groups.append({"name": f"text/layer{group}", "heads": heads})
    count = options.groups * options.heads
    left = max(0, count - options.weights)
    return {"format": "attn-view/1", "title": "sample.h5", "epsilon": EPSILON,
            "left_out": f"weights of {left} of {count} heads (--size)" if left else None,
            "about": {"model_name": "random", "text_length": options.length}, "tokens": [tokens], "groups": groups}


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def page_of(content):
    """The page with `content`, an object in the format."""
    names = (PAGE / "files.txt").read_text().split()
    text_of = lambda ending: "".join((PAGE / name).read_text() for name in names if name.endswith(ending))
    style, script = text_of(".css"), text_of(".js")
    policy = (f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; img-src data: blob:; "
              "base-uri 'none'; form-action 'none'")
    page = (PAGE / "page.html").read_text()
    text = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    for word, value in (("@POLICY@", policy), ("@STYLE@", style), ("@SCRIPT@", script), ("@DATA@", text)):
        before, after = page.split(word)
        page = before + value + after
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", dest="output", required=True)
    for name, usual in (("groups", 4), ("heads", 4), ("length", 64), ("weights", 10**6)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--hostile", action="store_true")
    options = parser.parse_args()
    pathlib.Path(options.output).write_text(page_of(data(options)), encoding="utf-8")


if __name__ == "__main__":
    main()
