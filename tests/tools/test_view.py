"""attn-view: the page's data equal what the other tools compute, and nothing in them can run."""

import base64
import hashlib
import re
import signal
import subprocess
import unittest

import numpy as np

from attn import BIN, TIMEOUT, ToolTest
from view_sample import HOSTILE, PAGE, data_of, numbers_in

BATCH, HEADS, LENGTH, DEPTH = 2, 3, 40, 8
SCHEMES = ("unas", "dnas")
TOKENS = np.array([f"t{n}" for n in range(LENGTH)], object)


def vectors(seed, shape=(HEADS, LENGTH, DEPTH), kind=np.float32):
    q, k, v = np.random.default_rng(seed).normal(size=(3, *shape)).astype(kind)
    q[..., 1, :, 0], k[..., 1, 5, 0] = 3, -20  # head 1 ignores key 5
    return {"q": q * 3, "k": k, "v": v}


class View(ToolTest):

    def page(self, *arguments, **more):
        return self.run_tool("attn-view", *arguments, **more).out.decode()

    def heads(self, *arguments, **more):
        """The heads of all groups of a page."""
        return [head for group in data_of(self.page(*arguments, **more))["groups"] for head in group["heads"]]

    def check(self, *options, name="in.h5"):
        """The figures of a bundle are those of explain-away-stats and attn-compute; returns the heads."""
        heads = self.heads(name, *options)
        found = self.stats(name, *options)
        self.run_tool("explain-away-stats", name, *options, "--only", "-q", "--force", "-o", "sums.h5")
        sums = self.read("sums.h5")
        for scheme in SCHEMES:
            weights = self.compute(name, *options, "--scheme", scheme, "--emit", "weights", "--only", "-q")["weights"]
            for head, stats in zip(heads, found[scheme]["heads"]):
                at = tuple(head["batch"]) + (head["head"],)
                self.assertEqual(list(at), stats["index"])
                figures = head["schemes"][scheme]
                for ours, theirs in (("col_sum", "col_sum"), ("row_entropy", "row_entropy")):
                    np.testing.assert_array_equal(numbers_in(figures[ours]), sums[f"{scheme}_{theirs}"][at])
                np.testing.assert_array_equal(numbers_in(head["queries_of_key"]), sums["queries_of_key"][at])
                enough = stats["explained_away"][0]["enough"]
                self.assertEqual(head["min_queries"], enough["min_queries"])
                self.assertEqual(figures["share_ignored"], enough["share"])
                self.assertEqual(figures["entropy"], stats["row_entropy"]["mean"])
                self.assertEqual(figures["first_key_share"], stats["first_key_share"])
                self.assertEqual(figures["sink_share"], stats["sink_share"])
                self.check_least(head, figures)
                half = numbers_in(figures["weights"])
                self.assertEqual(half.dtype, np.float16)
                # Rounded to nearest; the first term is the rounding of float32.
                self.assert_near("weights", half, weights[at], (1e-6 + 2**-11) * weights[at] + 1.001 * 2**-25)
        return heads

    def check_least(self, head, figures):
        sums, queries = numbers_in(figures["col_sum"]), numbers_in(head["queries_of_key"])
        enough = queries >= head["min_queries"]
        self.assertEqual(figures["least"], sums[enough].min())
        self.assertEqual(figures["least_per_query"], (sums[enough] / queries[enough]).min())

    def test_figures(self):
        self.write("in.h5", {"attn_causal": "top-left", "attn_scale": 1.5}, **vectors(1))
        for options in ([], ["--causal=none"], ["--window=9:9", "--causal=none"], ["--softcap=5"],
                        ["--epsilon=0.01", "--min-queries=7"]):
            with self.subTest(options=options):
                if "--epsilon=0.01" in options:
                    heads = self.heads("in.h5", *options)
                    stats = self.stats("in.h5", *options)
                    self.assertEqual([head["schemes"]["unas"]["share_ignored"] for head in heads],
                                     [head["explained_away"][0]["enough"]["share"] for head in stats["unas"]["heads"]])
                    self.assertTrue(any(head["schemes"]["unas"]["share_ignored"] for head in heads))
                    continue
                heads = self.check(*options)
                self.assertEqual({head["causal"] for head in heads}, {"--causal=none" not in options or "--window=9:9" in options})

    def test_kinds_of_inputs(self):
        random = np.random.default_rng(2)
        batch = vectors(3, (BATCH, HEADS, LENGTH, DEPTH), np.float64)
        padded = {"query_length": np.array([LENGTH, 30]), "key_length": np.array([LENGTH, 30]),
                  "query_start": np.array([0, 10]), "key_start": np.array([0, 10])}
        for kind, more in (("padding", padded), ("sink", {"sink": random.normal(size=HEADS)}),
                           ("mask", {"mask": random.random((LENGTH, LENGTH)) < 0.5})):
            with self.subTest(kind=kind):
                (self.folder / "in.h5").unlink(missing_ok=True)
                self.write("in.h5", **batch, **more)
                heads = self.check()
                self.assertEqual([(head["batch"], head["head"]) for head in heads],
                                 [([b], h) for b in range(BATCH) for h in range(HEADS)])
                self.assertEqual(any(head["schemes"]["unas"]["sink_share"] > 0 for head in heads), kind == "sink")

    def test_recorded_precision(self):
        self.write("in.h5", {"attn_precision": "f64"}, **vectors(4))
        self.check()

    def test_packed_sequences(self):
        """A tenth of the longest sequence is enough, not a tenth of the whole packing."""
        self.write("in.h5", cu_seqlens=np.array([0, 4, LENGTH - 4, LENGTH]), **vectors(4))
        heads = self.heads("in.h5", "--causal=none")
        self.assertEqual({head["min_queries"] for head in heads}, {max(1, (LENGTH - 8) // 10)})
        for head in heads:
            queries = numbers_in(head["queries_of_key"])
            self.assertEqual(queries.tolist(), [4] * 4 + [LENGTH - 8] * (LENGTH - 8) + [4] * 4)

    def test_tokens(self):
        lists = np.stack([TOKENS, TOKENS[::-1]])
        batch = vectors(3, (BATCH, HEADS, LENGTH, DEPTH))
        self.write("in.h5", {"model_name": "m", "layers": 2}, **batch, tokens=lists)
        data = data_of(self.page("in.h5"))
        self.assertEqual(data["tokens"], lists.tolist())
        self.assertEqual(data["about"], {"model_name": "m", "layers": 2})
        self.assertEqual([head["tokens"] for head in data["groups"][0]["heads"]], [0] * HEADS + [1] * HEADS)
        self.assertEqual({head["query_tokens"] for head in data["groups"][0]["heads"]}, {0, 1})
        # Queries of another length are other tokens.
        self.write("cross.h5", q=batch["q"][:, :, :7], k=batch["k"], tokens=TOKENS)
        self.assertEqual({(head["tokens"], head["query_tokens"]) for head in self.heads("cross.h5")}, {(0, None)})
        self.write("none.h5", **vectors(1))
        self.assertEqual({head["tokens"] for head in self.heads("none.h5")}, {None})

    def test_groups(self):
        layers = {f"layer{n}__{name}": values for n in range(3) for name, values in vectors(n).items()}
        self.write("dump.h5", **layers, **{f"layer{n}__tokens": TOKENS for n in range(3)})
        data = data_of(self.page("dump.h5"))
        self.assertEqual([group["name"] for group in data["groups"]], ["layer0", "layer1", "layer2"])
        self.assertEqual(len(data["tokens"]), 1)
        self.assertIsNone(data["left_out"])
        chosen = data_of(self.page("dump.h5", "--each", "/layer[12]", "--heads=2,0", "--map=q=k"))
        self.assertEqual([(group["name"], [head["head"] for head in group["heads"]]) for group in chosen["groups"]],
                         [("layer1", [0, 2]), ("layer2", [0, 2])])
        self.assertEqual(data_of(self.page(self.folder / "dump.h5:/layer1"))["title"], "dump.h5:/layer1")
        self.assertEqual([head for head in data["groups"][1]["heads"] if head["head"] == 2],
                         self.heads("dump.h5:/layer1", "--heads=2"))

    def test_deviation(self):
        self.write("in.h5", **vectors(1))
        self.run_tool("lambda-solve", "in.h5", "--emit=relative_deviation", "-q", "-o", "dual.h5")
        stored = self.read("dual.h5")["relative_deviation"]
        for head in self.heads("dual.h5"):
            self.assert_near("deviation", head["relative_deviation"], stored[head["head"]].mean(), 1e-12)
        self.assertEqual({head["relative_deviation"] for head in self.heads("in.h5")}, {None})
        self.write("other.h5", **vectors(1), relative_deviation=np.zeros(LENGTH))
        done = self.run_tool("attn-view", "other.h5", "-o", "view.html")
        self.assertIn("other.h5:/relative_deviation is not used: it has shape (40)", done.err)

    def test_size(self):
        """Heads with the largest share of ignored keys come first, then those with the least sum by query."""
        self.write("in.h5", **vectors(1))
        one = 2 * 2 * LENGTH * LENGTH
        whole = self.heads("in.h5")
        figures = [head["schemes"]["unas"] for head in whole]
        order = sorted(range(HEADS), key=lambda n: (-figures[n]["share_ignored"], figures[n]["least_per_query"]))
        self.assertGreater(figures[order[0]]["share_ignored"], figures[order[1]]["share_ignored"])
        for size, count in ((1, 0), (one - 1, 0), (one, 1), (2 * one, 2), (3 * one, 3)):
            done = self.run_tool("attn-view", "in.h5", f"--size={size}", "--json=report.json")
            data = data_of(done.out.decode())
            heads = data["groups"][0]["heads"]
            kept = [head["head"] for head in heads if head["schemes"]["dnas"]["weights"]]
            self.assertEqual(kept, sorted(order[:count]))
            left = None if count == HEADS else f"weights of {HEADS - count} of 3 heads (--size)"
            self.assertEqual(data["left_out"], left)
            self.assertIn("standard output: 3 heads" + (f", without the {left}" if left else "") + "\n", done.err)
            self.assertEqual(self.read_json("report.json")["result"],
                             {"heads": HEADS, "heads_with_weights": count, "weight_bytes": count * one})
            # Nothing else depends on the size.
            for head, all_of_it in zip(heads, whole):
                for scheme in SCHEMES:
                    for figure in head["schemes"][scheme].keys() - {"weights"}:
                        self.assertEqual(head["schemes"][scheme][figure], all_of_it["schemes"][scheme][figure])
                    if head["head"] in kept:
                        self.assertEqual(head, all_of_it)

    def test_outputs(self):
        self.write("in.h5", **vectors(1))
        page = self.page("in.h5")
        self.assertEqual(self.page(stdin=(self.folder / "in.h5").read_bytes()).replace("standard input", "in.h5"), page)
        self.assertEqual(self.page("in.h5", "--threads=1", "--memory=1M"), page)
        self.assertEqual(self.page(self.folder / "in.h5"), page)
        self.run_tool("attn-view", "in.h5", "-o", "view.html")
        self.assertEqual((self.folder / "view.html").read_text(), page)
        self.refused("attn-view", "in.h5", output="view.html", status=5, says=["view.html exists"])
        (self.folder / "view.html").write_text("old")
        self.run_tool("attn-view", "in.h5", "--force", "-o", "view.html")
        self.assertEqual((self.folder / "view.html").read_text(), page)
        self.run_tool("attn-view", "-i", "q=in.h5", "-i", "k=in.h5:/q", "in.h5")

    def test_atomic(self):
        """Neither an error in the last group nor a signal leaves a page or damages the one before."""
        bad = vectors(2)
        bad["q"][-1, -1, -1] = np.nan
        self.write("bad.h5", **{f"a__{name}": values for name, values in vectors(1).items()},
                   **{f"b__{name}": values for name, values in bad.items()})
        (self.folder / "old.html").write_text("old")
        self.refused("attn-view", "bad.h5", "--force", output="old.html", status=3, says=["bad.h5:/b/q", "nan"])
        self.refused("attn-view", "bad.h5", output="new.html", status=3)
        self.assertEqual((self.folder / "old.html").read_text(), "old")
        self.write("large.h5", **vectors(1, (64, 1024, DEPTH)))
        command = [BIN / "attn-view", "large.h5", "-o", "large.html", "--progress=always", "--threads=1"]
        with subprocess.Popen(command, cwd=self.folder, env=self.environment, stderr=subprocess.PIPE) as process:
            process.stderr.read(1)  # the work has begun
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            self.assertEqual(process.wait(TIMEOUT), -signal.SIGTERM)
        self.assertFalse((self.folder / "large.html").exists())

    def test_nothing_in_the_data_runs(self):
        names = [*HOSTILE, "\x00", "\u2028", "\U0001f642", "@SCRIPT@", "@DATA@", '"', "\\", "]]>", "<!--"]
        tokens = np.array([names[n % len(names)].replace("\x00", "") for n in range(LENGTH)], object)
        hostile = "<script>alert(1)</script>"
        self.write("in.h5", {"model_name": hostile}, tokens=tokens, **vectors(1))
        page = self.page("in.h5")
        data = data_of(page)
        self.assertEqual(data["tokens"], [tokens.tolist()])
        self.assertEqual(data["about"]["model_name"], hostile)
        text = page.partition('id="data">')[2].partition("</script>")[0]
        self.assertNotIn("<", text)
        self.assertNotRegex(text, "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
        # Bytes that are no UTF-8 are replaced.
        broken = np.array([b"\xff<b>"] * LENGTH, "S4")
        self.write("bytes.h5", tokens=broken, **vectors(1))
        self.assertEqual(data_of(self.page("bytes.h5"))["tokens"][0][0], "\ufffd<b>")

    def test_policy(self):
        """The page permits its own script and style, to the byte, and no others."""
        self.write("in.h5", **vectors(1))
        page = self.page("in.h5")
        policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', page)[1]
        names = (PAGE / "files.txt").read_text().split()
        parts = {"script": "", "style": ""}
        for name in names:
            parts["style" if name.endswith(".css") else "script"] += (PAGE / name).read_text()
        expected = ["default-src 'none'"]
        for part, text in parts.items():
            self.assertTrue(f"<{part}>{text}</{part}>" in page, part)
            self.assertEqual(page.count(f"<{part}>"), 1)
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            expected.append(f"{part}-src 'sha256-{digest}'")
        expected += ["img-src data: blob:", "base-uri 'none'", "form-action 'none'"]
        self.assertEqual(policy.split("; "), expected)
        self.assertEqual(sorted({*names, "page.html", "files.txt", "FORMAT.md"}), sorted(path.name for path in PAGE.iterdir()))
        self.assertLess(len(self.page("in.h5", "--size=1")), 200_000)

    def test_refusals(self):
        self.write("in.h5", **vectors(1))
        self.write("weights.h5", weights=np.full((HEADS, 4, 4), 0.25))
        for arguments, status, says in ((["missing.h5"], 3, "missing.h5"), (["weights.h5"], 3, "no dataset q"),
                                        (["in.h5", "--size=0"], 2, "--size is 0"), (["in.h5", "--heads=3"], 2, "3"),
                                        (["in.h5", "--scheme=hnas"], 2, "--scheme"), (["in.h5", "--epsilon=0"], 2, "--epsilon"),
                                        (["in.h5", "--scale=1,2"], 2, "--scale"), (["in.h5", "--json=out.h5"], 2, "--json"),
                                        (["in.h5", "--memory=1K"], 6, "memory")):
            with self.subTest(arguments=arguments):
                self.refused("attn-view", *arguments, status=status, says=[says])
        done = self.run_tool("attn-view", "in.h5", "--json", status=2)
        self.assertIn("--json and the output both go to standard output", done.err)


if __name__ == "__main__":
    unittest.main()
