"""Reports of the tools: the report of explain-away-stats for people, and the JSON for programs."""

import os
import pty
import re
import unittest

import numpy as np

from attn import ToolTest


class Report(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(7)
        self.words = np.array(["attention", "of", "the", "ungefähr", "tab\there", "λ"] +
                              [f"word{j}" for j in range(34)], dtype=object)
        self.write("in.h5", q=3 * random.normal(size=(2, 30, 6)),
                   k=3 * random.normal(size=(2, 40, 6)), tokens=self.words)

    def test_table(self):
        options = ["in.h5", "--epsilon=1e-8,1e-3"]
        text = self.run_tool("explain-away-stats", *options).out.decode()
        result = self.stats(*options)
        # More than 100 columns: dnas has a table below that of unas.
        tables = text[:text.index("\n\nc is the column sum")].split("\n\n")[1:]
        self.assertEqual(len(tables), 2)
        self.assertLessEqual(max(map(len, "\n".join(tables).splitlines())), 100)
        rows = {}
        for line in "\n".join(tables).splitlines():
            rows.setdefault(line.split()[0], []).extend(line.split()[1:])
        for label, pick in (("0", lambda r: r["heads"][0]), ("1", lambda r: r["heads"][1]),
                            ("all", lambda r: r)):
            expected = []
            for scheme in ("unas", "dnas"):
                figures = pick(result[scheme])
                expected += [figures["col_sum"]["min"], figures["col_sum"]["median"]]
                expected += [100 * e["share"] for e in figures["explained_away"]]
                expected += [figures["row_entropy"]["mean"]]
            expected.append(pick(result["dnas"])["margin"])
            shown = [float(cell.rstrip("%")) for cell in rows[label]]
            # Three digits; shares to a tenth of a percent.
            np.testing.assert_allclose(shown, expected, rtol=5.1e-3, atol=0.051)

    def test_keys_as_words(self):
        text = self.run_tool("explain-away-stats", "in.h5", "--top=3").out.decode()
        result = self.stats("in.h5", "--top=3")["unas"]
        for key in result["lowest"] + result["highest"]:
            head, index = key["head"][0], key["index"]
            word = self.words[index].replace("\t", r"\t")
            self.assertEqual(key["key"], self.words[index])
            self.assertRegex(text, rf"(?m)^{head} +{index} +{re.escape(word)} +[\d.]")

    def test_histogram_adds_up(self):
        text = self.run_tool("explain-away-stats", "in.h5", "--bins=5").out.decode()
        counts = [int(n) for n in re.findall(r"#+ (\d+)", text)]
        self.assertEqual(sum(counts), 2 * 2 * 40)

    def test_conclusion(self):
        text = self.run_tool("explain-away-stats", "in.h5", "--epsilon=0.5").out.decode()
        count = self.stats("in.h5", "--epsilon=0.5")["unas"]["explained_away"][0]["count"]
        self.assertGreater(count, 0)
        self.assertIn(f"unas explains away {count} of 80 keys (c < 0.5), dnas ", text)

    def test_words_that_a_terminal_must_not_see(self):
        # A control sequence of one byte or two, and invalid UTF-8.
        keys = self.read("in.h5")["k"].shape[-2]
        words = [b"\x1b[31m", b"\xc2\x9b31m", b"\xff\xfe", "\u00e9".encode(), b"\xc3"] * keys
        datasets = {n: a for n, a in self.read("in.h5").items() if n != "tokens"}
        self.write("odd.h5", **datasets, tokens=np.array(words[:keys]).reshape(1, keys))
        text = self.run_tool("explain-away-stats", "odd.h5", f"--top={keys}").out.decode()
        for word in ("?[31m", "??31m", "??", "\u00e9"):
            self.assertIn(f" {word} ", text)
        self.assertEqual([c for c in text if c < " " and c != "\n" or "\x7f" <= c < "\xa0"], [])

    def test_tokens_of_the_wrong_shape_are_left_out(self):
        self.write("bad.h5", **{n: a for n, a in self.read("in.h5").items() if n != "tokens"},
                   tokens=["too", "few"])
        done = self.run_tool("explain-away-stats", "bad.h5")
        self.assertIn("bad.h5:/tokens is not used", done.err)
        self.assertIn("unas", done.out.decode())


class Json(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(8)
        self.write("in.h5", **{n: random.normal(size=(3, 4)).astype(np.float32) for n in "qkv"})

    def test_frame(self):
        for tool, more in (("explain-away-stats", []), ("attn-compute", ["-o", "out.h5"])):
            with self.subTest(tool=tool):
                report = self.run_tool(tool, "in.h5", "--json", "--threads=1", *more).json()
                self.assertEqual(" ".join(report), "schema tool version status inputs outputs "
                                                   "params result runtime warnings")
                self.assertEqual((report["schema"], report["tool"], report["status"]),
                                 ("attnkit/1", tool, "ok"))
                self.assertEqual(report["inputs"][0], {"name": "q", "address": "in.h5:/q",
                                                       "shape": [3, 4], "dtype": "float32"})
                self.assertEqual(report["params"]["energy"], "scaled-dot")
                self.assertEqual(report["runtime"]["threads"], 1)
                self.assertLessEqual(report["runtime"]["compute_s"], report["runtime"]["wall_s"])
                self.assertGreater(report["runtime"]["peak_rss_bytes"], 2**20)
        out = {"name": "out", "address": "out.h5:/out", "shape": [3, 4], "dtype": "float32"}
        self.assertIn(out, report["outputs"])

    def test_beside_the_report(self):
        done = self.run_tool("explain-away-stats", "in.h5", "--json=a b.json")
        self.assertIn("entropy", done.out.decode())
        self.assertIn('"attnkit/1"', (self.folder / "a b.json").read_text())
        # A bundle and JSON cannot share a stream.
        refused = self.run_tool("attn-compute", "in.h5", "--json", status=2)
        self.assertIn("--json", refused.err)
        self.run_tool("explain-away-stats", "in.h5", "-o", "-", "--json", status=2)

    def test_of_a_failure(self):
        done = self.run_tool("explain-away-stats", "missing.h5", "--json", status=3)
        self.assertEqual(done.json()["status"], "error")
        self.assertEqual(done.json()["error"]["exit"], 3)
        self.assertIn("missing.h5", done.json()["error"]["message"])

    def test_memory_is_that_of_the_tool(self):
        # Not the peak of its parent, which Linux includes in that of a child.
        ballast = bytearray(b"x") * 300_000_000
        report = self.run_tool("explain-away-stats", "in.h5", "--json").json()
        self.assertLess(report["runtime"]["peak_rss_bytes"], len(ballast))


def everything_drawn(terminal):
    """The bytes written to a terminal whose other side is closed: they come in pieces, and Linux
    ends them with EIO."""
    drawn = b""
    while True:
        try:
            piece = terminal.read(65536)
        except OSError:
            return drawn
        if not piece:
            return drawn
        drawn += piece


class Messages(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(9)
        mask = np.ones((6, 5), bool)
        mask[2], mask[:, :2] = False, False
        self.write("in.h5", mask=mask, q=random.normal(size=(3, 6, 4)).astype(np.float32),
                   **{n: random.normal(size=(3, 5, 4)).astype(np.float32) for n in "kv"})

    def test_summary(self):
        done = self.run_tool("attn-compute", "in.h5", "-o", "out.h5")
        self.assertRegex(done.err, r"\Aattn-compute: unas, 3 x 6 x 5 in float32, "
                                   r"3 queries .*, 6 keys .*\n\Z")
        self.assertEqual(done.out, b"")
        for tool in ("attn-compute", "explain-away-stats"):
            done = self.run_tool(tool, "in.h5", "-q", "-o", f"{tool}.h5")
            self.assertEqual((done.err, done.out), ("", b""))

    def test_leaks_are_reported(self):
        for options, words in ((["--scheme=dnas", "--causal=top-left"], "leak"),
                               (["--scheme=sinkhorn", "--causal=bottom-right"], "leak"),
                               (["--scheme=dnas", "-i", "q=in.h5:/q[:,:1]", "-i",
                                 "mask=in.h5:/mask[:1]"], "uniform")):
            with self.subTest(options=options):
                report = self.run_tool("attn-compute", "in.h5", *options, "--json", "--force",
                                       "-o", "out.h5", status=None)
                self.assertRegex(report.err, rf"(?m)^attn-compute: warning: .*{words}")
                self.assertIn(words, report.json()["warnings"][0])
        done = self.run_tool("attn-compute", "in.h5", "--causal=top-left", "-o", "unas.h5")
        self.assertNotIn("warning", done.err)

    def test_unused_names(self):
        np.save(self.folder / "m.npy", np.ones((6, 5), bool))
        self.write("stored.h5", weights=np.full((6, 5), 0.2))
        pair = ["-i", "q=in.h5", "-i", "k=in.h5"]
        for tool, name, options, used in (
                ("attn-compute", "maks=m.npy", [], False),
                ("attn-compute", "mask=m.npy", [], True),
                ("attn-compute", "preference=in.h5:/v[0, :, :1]", [], False),
                ("attn-compute", "w=in.h5:/k", [], False),
                ("attn-compute", "v=in.h5", ["--emit=col_sum"], False),
                ("attn-compute", "v=in.h5", [], True),
                ("attn-compute", "hybrid=in.h5:/v[0, 0, 0]", ["--scheme=hnas", "--hybrid=0.5"],
                 False),
                ("attn-compute", "tokens=m.npy", [], True),
                ("explain-away-stats", "maks=m.npy", [], False),
                ("explain-away-stats", "v=in.h5", [], False),
                ("explain-away-stats", "weights=stored.h5", [], False)):
            with self.subTest(tool=tool, name=name, options=options):
                out = [] if tool == "explain-away-stats" else ["-o", "out.h5", "--force"]
                done = self.run_tool(tool, *pair, "-i", name, *options, *out, "--json")
                warned = [w for w in done.json()["warnings"] if "does not use" in w]
                if used:
                    self.assertEqual(warned, [])
                else:
                    self.assertEqual(len(warned), 1)
                    self.assertIn("-i " + name.partition("=")[0], warned[0])
                    self.assertIn(f"{tool}: warning: {warned[0]}\n", done.err)
        done = self.run_tool("explain-away-stats", "-i", "weights=stored.h5", "--json")
        self.assertEqual(done.json()["warnings"], [])

    def test_an_unused_map(self):
        for tool in ("attn-compute", "explain-away-stats"):
            done = self.run_tool(tool, "in.h5", "--map=maks=q", "--dry-run")
            self.assertIn("warning: --map maks: this computation does not use it", done.err)
            done = self.run_tool(tool, "in.h5", "--map=q=q", "--dry-run")
            self.assertNotIn("warning", done.err)

    def test_unused_names_in_a_dump(self):
        vectors = {f"layer{n}__{x}": np.ones((3, 2)) for n in range(3) for x in "qk"}
        self.write("dump.h5", **vectors, bais=np.zeros((3, 3)))
        for tool in ("attn-compute", "explain-away-stats"):
            done = self.run_tool(tool, "dump.h5", "--each=layer*", "-i", "bais=dump.h5", "-o",
                                 f"{tool}.h5")
            self.assertEqual(done.err.count("warning"), 1)
            self.assertIn("-i bais: ", done.err)

    def test_progress(self):
        for when, shown in (("always", True), ("never", False), ("auto", False)):
            with self.subTest(progress=when):
                done = self.run_tool("attn-compute", "in.h5", f"--progress={when}", "-o", "out.h5",
                                     "--force")
                self.assertEqual("%" in done.err, shown)

    def test_progress_on_a_terminal(self):
        # Long enough for something to be drawn, and all of it erased at the end.
        self.write("long.h5", **{n: np.ones((20, 1000, 8)) for n in "qk"})
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            with os.fdopen(theirs, "wb", buffering=0) as error:
                self.run_tool("attn-compute", "long.h5", "--scheme=sinkhorn", "--iterations=400",
                              "--threads=1", "-q", "--progress=always", "-o", "out.h5",
                              stderr=error)
            drawn = everything_drawn(terminal).decode()
        drawn_line = r"\rattn-compute: sinkhorn +\d+%, [\d.]+ heads/s, \d+ s left\x1b\[K"
        self.assertRegex(drawn, drawn_line)
        self.assertTrue(drawn.endswith("\r\x1b[K"))
        self.assertNotIn("\n", drawn)
        for line in drawn.split("\r"):
            self.assertLess(len(line.removesuffix("\x1b[K")), 80)

    def test_dry_run(self):
        for tool in ("attn-compute", "explain-away-stats"):
            with self.subTest(tool=tool):
                report = self.run_tool(tool, "in.h5", "--dry-run", "-o", "out.h5", "--json").json()
                self.assertFalse((self.folder / "out.h5").exists())
                self.assertEqual(report["result"]["shape"], [3, 6, 5])
                self.assertGreater(report["result"]["working_bytes"], 0)
                text = self.run_tool(tool, "in.h5", "--dry-run", "-o", "out.h5").out.decode()
                self.assertIn("3 x 6 x 5", text)
        report = self.run_tool("attn-compute", "in.h5", "--dry-run", "--json",
                               "--emit=weights,out").json()
        self.assertEqual(report["result"]["result_bytes"], 3 * (6 * 5 + 6 * 4) * 4)
        # explain-away-stats writes a bundle only with -o.
        for options, size in (([], 0), (["-o", "s.h5"], 3 * (2 * (6 + 5) + 5) * 8)):
            stats = self.run_tool("explain-away-stats", "in.h5", "--dry-run", "--json",
                                  *options).json()["result"]
            self.assertEqual(stats["result_bytes"], size)
            # unas takes one pass over the scores, dnas two.
            self.assertEqual(stats["flops"], 3 * 2 * 3 * 6 * 5 * 4)
        # Predicted needs are the needs that are refused.
        needed = report["result"]["working_bytes"]
        enough, too_little = f"--memory={needed}", f"--memory={needed // 3}"
        self.run_tool("attn-compute", "in.h5", enough, "--emit=weights,out", "-o", "done.h5")
        self.refused("attn-compute", "in.h5", too_little, output="other.h5", status=6)

    def test_dry_run_counts_what_is_computed(self):
        # 3 heads of 6 queries and 5 keys, d = 4.
        ones = np.ones
        self.write("terms.h5", **{n: a for n, a in self.read("in.h5").items()}, w=ones((4, 4)),
                   w1=ones((7, 8)), w2=ones(7), key_length=np.array([5, 2, 0]))
        pairs = (5 + 2 + 0) * 6
        for options, flops in (
                (["--energy=bilinear"], 3 * 2 * 5 * 4 * 4 + pairs * 2 * 4),
                (["--energy=mlp"], 3 * 2 * (6 + 5) * 4 * 7 + pairs * 4 * 7),
                (["--energy=dot", "--scheme=dnas"], 2 * pairs * 2 * 4)):
            with self.subTest(options=options):
                found = self.run_tool("attn-compute", "terms.h5", "--dry-run", "--json",
                                      "--emit=col_sum", *options).json()["result"]["flops"]
                self.assertEqual(found, flops)
        self.write("x.h5", x=ones((6, 9)), wq=ones((3, 9, 4)), wk=ones((1, 9, 4)))
        found = self.run_tool("attn-compute", "x.h5", "--from=projection", "--dry-run", "--json",
                              "--emit=col_sum").json()["result"]["flops"]
        self.assertEqual(found, 3 * (2 * 2 * 6 * 9 * 4) + 3 * 36 * 2 * 4)
        # Causality leaves 1, 2, ... keys, a window of one only the key at a query's own position.
        for options, pairs in ((["--causal=top-left"], 1 + 2 + 3 + 4 + 5 + 5), (["--window=1"], 5)):
            found = self.run_tool("attn-compute", "in.h5", "--dry-run", "--json", "--emit=col_sum",
                                  *options).json()["result"]["flops"]
            self.assertEqual(found, 3 * pairs * 2 * 4)

    def test_dry_run_knows_the_size_of_the_file(self):
        every = "--emit=out,weights,row_potential,col_potential,col_sum,row_entropy"
        # Sizes on and off multiples of the chunks in which weights are stored.
        for heads, queries, keys in ((3, 65, 65), (1, 513, 513), (2, 100, 1100), (1, 1030, 20),
                                     (1, 2049, 700), (12, 128, 512), (1, 64, 5000)):
            with self.subTest(heads=heads, queries=queries, keys=keys):
                self.write("q.h5", q=np.ones((heads, queries, 4), np.float32),
                           k=np.ones((heads, keys, 4), np.float32),
                           v=np.ones((heads, keys, 4), np.float32))
                before = (self.folder / "q.h5").stat().st_size
                for command in (["attn-compute", "q.h5"], ["attn-compute", "q.h5", every],
                                ["attn-compute", "q.h5", every, "--precision=f64"],
                                ["explain-away-stats", "q.h5"]):
                    plan = self.run_tool(*command, "--dry-run", "--json", "-o", "out.h5").json()
                    self.run_tool(*command, "-q", "--force", "-o", "out.h5")
                    growth = (self.folder / "out.h5").stat().st_size - before
                    predicted = plan["result"]["result_bytes"]
                    # Plus headers, attributes and the index of chunks.
                    self.assertLess(abs(growth - predicted), 0.1 * predicted + 10240, command)


if __name__ == "__main__":
    unittest.main()
