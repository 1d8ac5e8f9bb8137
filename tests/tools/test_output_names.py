"""Output names: an ending of a format that is not written is refused before anything runs."""

import unittest

import numpy as np

from arrays import read_safetensors
from attn import ToolTest

# A command for each tool that writes bundles. Its input does not exist: the name is refused before
# reading.
COMMANDS = (
    ["attn-compute", "missing.h5"],
    ["explain-away-stats", "missing.h5"],
    ["sinkhorn-iter", "missing.h5"],
    ["lambda-solve", "missing.h5"],
    ["basis-paths", "values", "missing.h5"],
    ["mode-collapse-sim", "curve", "--r", "1:10:5", "--a", "1"],
    ["mode-collapse-sim", "simulate", "missing.h5"],
    ["mode-collapse-sim", "em", "missing.h5"],
    ["tensor-gen", "normal", "q=4x4"],
)
TABLES = ("explain-away-stats", "lambda-solve")  # the tools that write .csv
FOREIGN = ("npy", "csv", "tsv", "txt", "json", "pkl", "pickle", "pt", "mat", "gz", "zst", "zip")


class OutputNames(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(0)
        self.write("in.h5", **{n: random.normal(size=(4, 4)).astype(np.float32) for n in "qkv"})

    def test_every_tool_and_ending(self):
        for tool, *arguments in COMMANDS:
            for ending in FOREIGN:
                if ending == "csv" and tool in TABLES:
                    continue
                for more in ([], ["--dry-run"]):
                    with self.subTest(tool=tool, arguments=arguments, ending=ending, more=more):
                        self.refused(tool, *arguments, *more, output=f"out.{ending}", status=2,
                                     says=[f"--output is out.{ending}", tool, ".npz",
                                           f"not .{ending}"],
                                     hint="-o out.")

    def test_case_and_compound_names(self):
        for name in ("out.NPY", "out.Json", "out.npz.gz", "../work/OUT.H5.ZST", ".npy"):
            with self.subTest(name=name):
                self.refused("attn-compute", "in.h5", output=name, status=2, says=[name])
        for name in ("out.NPZ", ".npz", "out.h5.Npz"):
            self.run_tool("attn-compute", "in.h5", "-q", "-o", name)
            self.assertIn("out", np.load(self.folder / name).files)
        self.run_tool("attn-compute", "in.h5", "-q", "-o", "out.SafeTensors")
        self.assertIn("out", read_safetensors((self.folder / "out.SafeTensors").read_bytes()))

    def test_links_to_other_formats(self):
        for target in ("real.npz", "there.json"):
            (self.folder / "link.h5").unlink(missing_ok=True)
            (self.folder / "link.h5").symlink_to("second")
            (self.folder / "second").unlink(missing_ok=True)
            (self.folder / "second").symlink_to(target)
            (self.folder / "there.json").write_text("{}")
            for tool in ("attn-compute", "tensor-convert"):
                with self.subTest(target=target, tool=tool):
                    self.refused(tool, "in.h5", "--force", output="link.h5", status=2,
                                 says=[f"--output is link.h5, a link to {target}"])
            self.assertEqual((self.folder / "there.json").read_text(), "{}")
        (self.folder / "link.npz").symlink_to("real.h5")
        self.refused("tensor-convert", "in.h5", output="link.npz", status=2, says=["npz"])
        self.assertFalse((self.folder / "real.h5").exists())
        self.refused("attn-compute", "in.h5", output="link.npz", status=2, says=["npz", "real.h5"])
        # A link to a name without an ending, as in content-addressed stores, is accepted.
        for tool, stored in (("tensor-convert", "0a1b2c"), ("attn-compute", "1b2c3d")):
            (self.folder / "stored.npz").unlink(missing_ok=True)
            (self.folder / "stored.npz").symlink_to(stored)
            self.run_tool(tool, "-q", "in.h5", "-o", "stored.npz")
            self.assertLessEqual({"k", "q", "v"}, set(np.load(self.folder / stored)))
        self.run_tool("tensor-convert", "-q", "in.h5", "--to=h5", "--force", "-o", "link.h5")
        self.assertIn("q", self.read("there.json"))

    def test_hints_work_as_they_stand(self):
        self.shell("attn-compute in.h5 -q -o - | tensor-convert -q out=-:/out -o out.npy")
        self.assertEqual(np.load(self.folder / "out.npy").shape, (4, 4))
        for ending, says in (("json", "--json=out.json"), ("tsv", "--tsv"), ("gz", "gzip > out.gz"),
                             ("zst", "--compress"), ("zst", "zstd > out.zst"), ("mat", "-o out.h5"),
                             ("mat", "-o out.npz"), ("pt", "-o out.safetensors"),
                             ("npy", "NAME=-:/NAME -o out.npy"), ("npy", "-o out.npz")):
            with self.subTest(ending=ending):
                self.refused("explain-away-stats", "in.h5", output=f"out.{ending}", status=2,
                             says=[], hint=says)

    def test_the_report_of_a_refusal(self):
        self.refused("attn-compute", "in.h5", output="out.json", status=2, says=["out.json"])
        self.run_tool("attn-compute", "in.h5", "-o", "out.npy", "--json=report.json", status=2)
        self.assertIn('"status":"error"', (self.folder / "report.json").read_text().replace(" ", ""))

    def test_other_names_stay_bundles(self):
        for name in ("out.h5", "out.hdf5", "out", "out.dat", "csv", "out.npz.h5", "x.json.1", "npy"):
            with self.subTest(name=name):
                self.run_tool("attn-compute", "in.h5", "-q", "-o", name)
                self.assertIn("out", self.read(name))

    def test_tensor_convert(self):
        for ending in ("csv", "tsv", "json", "pt", "mat", "gz", "zst", "zip", "PT"):
            with self.subTest(ending=ending):
                self.refused("tensor-convert", "in.h5", output=f"out.{ending}", status=2,
                             says=[f"out.{ending}", "tensor-convert"], hint="--to")
        self.run_tool("tensor-convert", "-q", "in.h5", "-o", "OUT.NPZ")
        self.assertEqual(sorted(np.load(self.folder / "OUT.NPZ")), ["k", "q", "v"])
        # An explicit format takes precedence over the name.
        self.run_tool("tensor-convert", "-q", "in.h5", "--to=h5", "-o", "out.pt")
        self.assertIn("q", self.read("out.pt"))


if __name__ == "__main__":
    unittest.main()
