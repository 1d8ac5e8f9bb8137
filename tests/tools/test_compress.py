"""--compress: the same numbers in a smaller file, and errors."""

import unittest

import h5py
import numpy as np

from attn import LEAST_FILE_SIZE, ToolTest

WRITERS = ("attn-compute", "explain-away-stats", "tensor-gen", "tensor-convert")
RESULTS = "--emit=out,weights,row_potential,col_potential,col_sum,row_entropy"


class Compress(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        data = {n: random.normal(size=(3, 700, 32)).astype(np.float32) for n in "qkv"}
        self.write("in.h5", **data, tokens=[f"word {n}" for n in range(700)])

    def filters(self, name):
        """The level of gzip by dataset, None for a dataset without it."""
        with h5py.File(self.folder / name) as file:
            for dataset in file.values():
                if dataset.compression:
                    self.assertEqual((dataset.compression, dataset.shuffle), ("gzip", True))
            return {n: d.compression_opts for n, d in file.items()}

    def size(self, name):
        return (self.folder / name).stat().st_size

    def test_same_numbers(self):
        for scheme in ("unas", "dnas"):
            for threads in (1, 3):
                options = ["in.h5", "-q", "--force", f"--scheme={scheme}", RESULTS,
                           f"--threads={threads}"]
                self.run_tool("attn-compute", *options, "-o", "plain.h5")
                self.run_tool("attn-compute", *options, "--compress=gzip", "-o", "small.h5")
                self.assert_same_bits(self.read("small.h5"), self.read("plain.h5"),
                                      ["q", "k", "v", "out", "weights", "row_potential",
                                       "col_potential", "col_sum", "row_entropy"])
                levels = self.filters("small.h5")
                # The vectors among the results are below 64 KiB; q, k and v are copied.
                self.assertEqual({n for n, level in levels.items() if level == 4},
                                 {"out", "weights"})
                self.assertLess(self.size("small.h5"), self.size("plain.h5"))

    def test_bytes_do_not_depend_on_threads_but_for_weights(self):
        clock = {"SOURCE_DATE_EPOCH": "0"}
        command = ["attn-compute", "in.h5", "--compress", "gzip:1", "--threads"]
        one, three = (self.run_tool(*command, n, environment=clock).out for n in (1, 3))
        # The number of threads appears in the history; nothing else differs.
        self.assertEqual(one.replace(b"--threads 1", b"--threads 3"), three)
        sizes = {len(self.run_tool(*command, n, "--only", "--emit=weights", environment=clock).out)
                 for n in (1, 2, 3, 8)}
        # The index of the 99 chunks has nodes of 3 KiB, split in the order of writing; one chunk
        # deflated twice would take some 50 KiB.
        self.assertLess(max(sizes) - min(sizes), 32768)

    def test_every_writer(self):
        self.run_tool("tensor-gen", "normal", "x=300x300", "small=10", "--compress=gzip:9",
                      "-o", "gen.h5")
        self.assertEqual(self.filters("gen.h5"), {"x": 9, "small": None})
        self.run_tool("tensor-gen", "normal", "x=300x300", "-o", "plain.h5")
        self.assert_same_bits(self.read("gen.h5"), self.read("plain.h5"), ["x"])
        # Copied datasets stay unchanged, rounded ones are written anew.
        self.run_tool("tensor-convert", "plain.h5", "--compress=gzip:2", "-o", "copied.h5")
        self.assertEqual(self.filters("copied.h5"), {"x": None})
        self.run_tool("tensor-convert", "plain.h5", "--dtype=f64", "--compress=gzip:2", "-o",
                      "rounded.h5")
        self.assertEqual(self.filters("rounded.h5"), {"x": 2})
        self.write("long.h5", **{n: np.ones((1, 9000, 2), np.float32) for n in "qk"})
        self.run_tool("explain-away-stats", "long.h5", "-q", "--compress=gzip:3", "-o", "stats.h5")
        levels = self.filters("stats.h5")
        self.assertEqual((levels["unas_col_sum"], levels["dnas_row_entropy"]), (3, 3))
        self.assertEqual(levels["q"], None)

    def test_a_stream_and_another_tool(self):
        found = []
        for options in ([], ["--compress=gzip"]):
            stream = self.run_tool("attn-compute", "in.h5", "-q", "--scheme=dnas",
                                   "--emit=weights", *options).out
            found.append(self.stats("--scheme=stored", stdin=stream))
        self.assertEqual(*found)

    def test_json_names_the_level(self):
        report = self.run_tool("attn-compute", "in.h5", "--compress", "gzip", "-o", "out.h5",
                               "--json").json()
        self.assertEqual(report["params"]["compress"], "gzip:4")

    def test_invalid_options(self):
        for value in ("zstd", "gzip:0", "gzip:10", "gzip:", "gzip:4.5", "9", "GZIP"):
            for tool in WRITERS:
                with self.subTest(tool=tool, value=value):
                    words = ["normal", "x=3"] if tool == "tensor-gen" else ["in.h5"]
                    self.refused(tool, *words, f"--compress={value}", status=2,
                                 says=["--compress", "gzip:N", "[1, 9]"])
        for tool in ("tensor-compare", "tensor-info"):
            self.refused(tool, "in.h5", "--compress=gzip", status=2, output=None)

    def test_not_for_arrays(self):
        self.write("one.h5", x=np.ones(4))
        for name in ("out.npy", "out.npz", "out.safetensors"):
            with self.subTest(name=name):
                self.refused("tensor-convert", "one.h5", "--compress=gzip", output=name, status=2,
                             says=["--compress", name[4:]])

    def test_disk_that_fills_up(self):
        # A chunk goes to the file when it leaves HDF5's cache, when the dataset is closed, or at
        # the end: a file that may not grow meets all of these.
        options = ["in.h5", "-q", "--only", RESULTS, "--compress=gzip:1"]
        needed = len(self.run_tool("attn-compute", *options).out)
        command = " ".join(["attn-compute", *options, "-o", "out.h5"])
        for blocks in [LEAST_FILE_SIZE // 1024, 1, 2, 4, *range(8, needed // 1024, needed // 1024 // 9)]:
            with self.subTest(blocks=blocks):
                done = self.shell(f"ulimit -f {blocks}; {command}", status=None)
                self.assertEqual(done.status, 5, done.err)
                self.assertRegex(done.err, r"\A\S+: error: .*out.h5.*[Ff]ile too large.*\n\Z")
                self.assertFalse((self.folder / "out.h5").exists())


if __name__ == "__main__":
    unittest.main()
