"""tensor-info: shows everything that a bundle holds."""

import csv
import subprocess
import unittest

import h5py
import numpy as np

from attn import BIN, ToolTest


class TensorInfo(ToolTest):

    def info(self, *arguments, **more):
        return self.run_tool("tensor-info", *arguments, "--json", **more).json()["result"]

    def setUp(self):
        super().setUp()
        odd = np.array([[np.nan, 1.5, np.inf], [-2, -np.inf, np.nan]], np.float32)
        self.write("in.h5", {"model": "small", "layers": 5, "scale": 0.25, "sizes": [1, 2, 3],
                             "history": "second\nfirst", "long": np.zeros(100)},
                   q=odd, mask=np.array([True, False]), tokens=["a", "two words", "\x1b[1m"],
                   half=np.float16([0.5, 65504]), big=np.array([2**63], np.uint64),
                   empty=np.zeros((0, 3)), nothing=np.array([np.nan]), scalar=12345678,
                   text__wiki__layer10__Q=np.ones((2, 3)), text__wiki__layer9__Q=np.ones(1))
        with h5py.File(self.folder / "in.h5", "r+") as file:
            file["text/wiki"].attrs["perplexity"] = 3.5
            file["q"].attrs["unit"] = "nats"
            file["q"].dims[0].label = "query"
            file["again"] = file["text"]  # a second link, and a cycle
            file["text/up"] = file["/"]
            file["twin"] = file["scalar"]

    def test_tools_that_compute_nothing_do_not_load_openblas(self):
        for tool in ("tensor-compare", "tensor-convert", "tensor-gen", "tensor-info"):
            loaded = subprocess.run(["ldd", BIN / tool], stdout=subprocess.PIPE, check=True).stdout
            self.assertIn(b"libstdc++", loaded)
            self.assertNotIn(b"openblas", loaded, tool)

    def test_datasets(self):
        result = self.info("in.h5")
        found = {entry["path"]: entry for entry in result["datasets"]}
        wiki = "again/wiki"
        self.assertEqual(list(found), [
            f"{wiki}/layer9/Q", f"{wiki}/layer10/Q", "big", "empty", "half", "mask", "nothing", "q",
            "scalar", "tokens", "twin"])
        q = found["q"]
        self.assertEqual((q["shape"], q["dtype"], q["min"], q["max"], q["nan"], q["infinite"]),
                         ([2, 3], "float32", -2, 1.5, 2, 2))
        self.assertEqual(q["attributes"]["unit"], "nats")
        self.assertEqual((found["nothing"]["min"], found["nothing"]["nan"]), (None, 1))
        self.assertEqual((found["empty"]["shape"], found["empty"]["max"]), ([0, 3], None))
        self.assertEqual((found["half"]["dtype"], found["half"]["max"]), ("float16", 65504))
        self.assertEqual((found["mask"]["min"], found["mask"]["max"]), (0, 1))
        self.assertEqual((found["big"]["dtype"], found["big"]["max"]), ("uint64", 2.0**63))
        self.assertNotIn("min", found["tokens"])
        groups = {entry["path"]: entry["attributes"] for entry in result["groups"]}
        self.assertEqual(groups[wiki], {"perplexity": 3.5})

    def test_attributes(self):
        attributes = self.info("in.h5")["attributes"]
        self.assertEqual(attributes, {
            "model": "small", "layers": 5, "scale": 0.25, "sizes": [1, 2, 3],
            "history": "second\nfirst", "long": {"type": "float64, 100"}})

    def test_report(self):
        text = self.run_tool("tensor-info", "in.h5").out.decode()
        for line in (r"  model  small", r"  sizes  \[1, 2, 3\]", r"history\n  second\n  first",
                     r"q +2 x 3  \(query, \) +float32 +-2 \.\. 1.5, 2 NaN, 2 infinite",
                     r"half +2 +float16 +0.5 \.\. 65504", r"empty +0 x 3 +float64 +empty",
                     r"nothing +1 +float64 +none finite, 1 NaN", r"scalar +scalar +int64 +all 12345678",
                     r"q\n  unit  nats"):
            self.assertRegex(text, rf"(?m)^{line}$")
        self.assertIn("tokens", text)
        self.assertNotIn("\x1b", text)
        brief = self.run_tool("tensor-info", "in.h5", "--brief").out.decode()
        self.assertRegex(brief, r"(?m)^half +2 +float16$")

    def test_inputs(self):
        whole = (self.folder / "in.h5").read_bytes()
        self.assertEqual(self.info(stdin=whole), self.info("in.h5"))
        layer = self.info("in.h5:/text/wiki/layer10")["datasets"]
        self.assertEqual([entry["path"] for entry in layer], ["Q"])
        one = self.info("-i", "q=in.h5:/q[1]")["datasets"]
        self.assertEqual([(e["path"], e["shape"], e["nan"]) for e in one], [("q", [3], 1)])
        self.refused("tensor-info", "missing.h5", status=3, says=["missing.h5"], output=None)
        self.refused("tensor-info", "in.h5", "-o", "x.h5", status=2, says=["-o"], output=None)

    def test_several_inputs(self):
        self.write("b.h5", {"model": "other"}, z=np.arange(4.0))
        files = self.info("in.h5", "b.h5")["files"]
        self.assertEqual([entry.pop("file") for entry in files], ["in.h5", "b.h5"])
        self.assertEqual(files, [self.info("in.h5"), self.info("b.h5")])
        text = [self.run_tool("tensor-info", *names).out.decode()
                for names in (["in.h5"], ["b.h5"], ["in.h5", "b.h5"])]
        self.assertEqual(text[2], text[0] + "\n" + text[1])
        self.run_tool("tensor-info", "in.h5", "b.h5", "-o", "all.csv")
        with open(self.folder / "all.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["file"] for row in rows}, {"in.h5", "b.h5"})
        self.assertEqual([(row["dataset"], row["min"], row["max"]) for row in rows
                          if row["file"] == "b.h5"], [("z", "0", "3")])
        # Nothing is printed if one of them cannot be opened.
        self.refused("tensor-info", "in.h5", "missing.h5", status=3, says=["missing.h5"],
                     output=None)
        with h5py.File(self.folder / "b.h5", "r+") as file:
            file["gone"] = h5py.SoftLink("/nowhere")
        done = self.run_tool("tensor-info", "b.h5", "in.h5", status=3)
        self.assertIn("b.h5:/gone", done.err)
        self.assertIn(text[0], done.out.decode())


if __name__ == "__main__":
    unittest.main()
