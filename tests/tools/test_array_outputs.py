"""-o out.npz and -o out.safetensors: what every tool writes there is what it writes into a bundle,
and other tools read it back with its settings."""

import json
import os
import subprocess
import unittest

import numpy as np

from arrays import read_safetensors, safetensors_metadata
from attn import BIN, ToolTest

FORMATS = ("npz", "safetensors")


class ArrayOutputs(ToolTest):

    def setUp(self):
        super().setUp()
        self.environment["SOURCE_DATE_EPOCH"] = "1000000000"
        random = np.random.default_rng(0)
        normal = lambda *shape: random.normal(size=shape).astype(np.float32)
        self.write("in.h5", {"note": "kept", "list": [1, 2, 3]}, q=normal(2, 9, 4), k=normal(2, 7, 4),
                   v=normal(2, 7, 3), tokens=["the", "", "naïve", "日本", "𝄞x", "f", "g"],
                   unknown__deep=np.arange(3))
        self.write("cost.h5", cost=abs(normal(2, 9, 7)))
        self.write("dual.h5", t=normal(6, 3), z=normal(4, 3))
        self.write("paths.h5", wq=normal(4, 3), wk=normal(4, 3))
        layers = {f"layer{n}__{name}": normal(2, 9, 4) for n in (0, 2, 10) for name in "qkv"}
        self.write("dump.h5", **layers)

    def arrays(self, name):
        """The arrays and the metadata of a file."""
        if name.lower().endswith(".npz"):
            with np.load(self.folder / name, allow_pickle=False) as found:
                arrays = {key: found[key] for key in found.files}
            return arrays, json.loads(str(arrays.pop("__metadata__")))
        content = (self.folder / name).read_bytes()
        arrays, metadata = read_safetensors(content), safetensors_metadata(content)
        return arrays, json.loads(metadata["attnkit"])

    def assert_same_content(self, name, bundle):
        arrays, metadata = self.arrays(name)
        strings = metadata.get("strings", {})
        self.assertEqual(set(arrays) | set(strings), set(bundle), name)
        for path, values in bundle.items():
            if path in strings:
                self.assertEqual(strings[path]["values"], np.ravel(values).tolist())
                self.assertEqual(strings[path]["shape"], list(np.shape(values)))
            elif np.asarray(values).dtype.kind in "OU":
                self.assertEqual(arrays[path].tolist(), np.asarray(values).tolist())
            else:
                self.assertEqual(arrays[path].dtype, values.dtype, path)
                self.assertEqual(arrays[path].shape, values.shape, path)
                self.assertEqual(arrays[path].tobytes(), values.tobytes(), path)
        self.assertEqual(set(metadata["attributes"]), set(bundle.attributes))
        for attribute, value in bundle.attributes.items():
            if attribute != "history":
                found = metadata["attributes"][attribute]
                self.assertEqual(found, value.tolist() if hasattr(value, "tolist") else value)
        self.assertIn(name, metadata["attributes"]["history"].splitlines()[0])
        self.assertEqual(sorted(metadata.get("groups", {})), sorted(bundle.groups))
        marks = {path: attributes["attn_result"] for path, attributes
                 in metadata.get("datasets", {}).items() if "attn_result" in attributes}
        self.assertEqual(marks, {path: attributes["attn_result"]
                                 for path, attributes in bundle.attributes_of.items()
                                 if "attn_result" in attributes})

    def test_every_tool(self):
        for command in (
                "attn-compute in.h5 --scheme dnas --emit out,weights,col_sum,row_potential",
                "attn-compute in.h5 --only", "attn-compute dump.h5 --each /* --scheme dnas",
                "explain-away-stats in.h5", "sinkhorn-iter cost.h5 --epsilon 1",
                "lambda-solve dual.h5", "basis-paths values paths.h5",
                "mode-collapse-sim curve --r 1:10:5 --a 1",
                "mode-collapse-sim simulate --counts 5,4 --centres 1,1;-1,-1 --variance 0.1 --steps 2",
                "mode-collapse-sim em --counts 50,40 --centres 1,1;-1,-1 --variance 0.1",
                "tensor-gen normal q=4x4 --dtype f64", "tensor-gen clusters x=9x2 --centres 1,1;2,2"):
            tool, *arguments = command.split()
            self.run_tool(tool, *arguments, "-q", "-o", "expected.h5", "--force", status=None)
            bundle = self.read("expected.h5")
            for ending in FORMATS:
                with self.subTest(command=command, ending=ending):
                    done = self.run_tool(tool, *arguments, "-o", f"out.{ending}", "--force",
                                         "--json=report.json", status=None)
                    self.assertNotIn("warning", done.err)
                    self.assert_same_content(f"out.{ending}", bundle)
                    for output in self.read_json("report.json")["outputs"]:
                        self.assertTrue(output["address"].startswith(f"out.{ending}:"))
                        self.assertNotIn(":/", output["address"])

    def test_reading_back(self):
        self.run_tool("attn-compute", "in.h5", "-q", "--scheme", "dnas", "--scale", "0.5",
                      "-o", "a.h5")
        figures = self.run_tool("explain-away-stats", "a.h5", "--json").json()
        for ending in FORMATS:
            with self.subTest(ending=ending):
                self.run_tool("attn-compute", "in.h5", "-q", "--scheme", "dnas", "--scale", "0.5",
                              "-o", f"a.{ending}")
                found = self.run_tool("explain-away-stats", f"a.{ending}", "--json").json()
                # Also the scale and the names of the keys, which are metadata.
                self.assertEqual(found["result"], figures["result"])
                self.assertEqual(found["params"]["scale"], 0.5)
                self.assertEqual(found["result"]["unas"]["lowest"][0]["key"],
                                 figures["result"]["unas"]["lowest"][0]["key"])
                self.run_tool("tensor-compare", "a.h5", f"a.{ending}")
                self.run_tool("tensor-convert", f"a.{ending}", "-q", "-o", "back.h5", "--force")
                back, bundle = self.read("back.h5"), self.read("a.h5")
                self.assertEqual(set(back), set(bundle))
                self.assertEqual(back.labels, bundle.labels)
                self.assertEqual(back.attributes["attn_scale"], 0.5)
                self.assertEqual(list(back.attributes["list"]), [1, 2, 3])
                self.assertEqual(back.attributes_of["out"]["attn_result"],
                                 bundle.attributes_of["out"]["attn_result"])
                # A result that another run makes outdated is left out, as of a bundle.
                done = self.run_tool("attn-compute", f"a.{ending}", "--scale", "2", "--emit",
                                     "col_sum", "-o", f"b.{ending}")
                self.assertIn("outdated: col_potential, out, row_potential", done.err)
                self.assertNotIn("out", self.arrays(f"b.{ending}")[0])

    def test_groups(self):
        self.run_tool("attn-compute", "dump.h5", "--each", "/*", "-q", "--scheme", "dnas",
                      "-o", "a.h5")
        figures = self.run_tool("explain-away-stats", "a.h5", "--each", "/l*", "--json").json()
        for ending in FORMATS:
            with self.subTest(ending=ending):
                self.run_tool("attn-compute", "dump.h5", "--each", "/*", "-q", "--scheme", "dnas",
                              "-o", f"a.{ending}")
                self.assertIn("layer10/out", self.arrays(f"a.{ending}")[0])
                found = self.run_tool("explain-away-stats", f"a.{ending}", "--each", "/l*",
                                      "--json").json()
                self.assertEqual(found["result"], figures["result"])
                self.run_tool("explain-away-stats", f"a.{ending}:/layer2", "-q")
                self.run_tool("attn-compute", "-i", f"q=a.{ending}:/layer0", "-i",
                              f"k=a.{ending}:layer0/k[0:1]", "-q", "-o", "x.h5", "--force",
                              "--emit", "col_sum")
                self.refused("attn-compute", f"a.{ending}:/layer3", status=3,
                             says=[f"a.{ending}", "layer3", "layer10"])

    def test_tensor_convert_writes_the_same(self):
        self.run_tool("attn-compute", "in.h5", "-q", "-o", "a.h5")
        for ending in FORMATS:
            self.run_tool("tensor-convert", "a.h5", "-q", "-o", f"c.{ending}")
            self.assert_same_content(f"c.{ending}", self.read("a.h5"))
            self.run_tool("tensor-convert", f"c.{ending}", "-q", "-o", "back.h5", "--force")
            self.run_tool("tensor-compare", "a.h5", "back.h5")

    def test_bytes_are_the_same_each_time(self):
        for ending in FORMATS:
            contents = set()
            for options in (["--threads", "1"], ["--threads", "2"]):
                self.run_tool("attn-compute", "in.h5", "-q", "-o", f"a.{ending}", "--force",
                              *options, "--only", "--emit", "weights")
                arrays, _ = self.arrays(f"a.{ending}")
                contents.add(arrays["weights"].tobytes())
            self.assertEqual(len(contents), 1)

    def test_nothing_is_left_of_a_failure(self):
        self.write("big.h5", **{n: np.zeros((1, 600, 4), np.float32) for n in "qkv"})
        before = sorted(os.listdir(self.folder))
        for ending in FORMATS:
            # Room for the weights, but not for a second copy; then not even for the first.
            for blocks in (2000, 100):
                done = self.shell(f"ulimit -f {blocks}; attn-compute big.h5 --emit weights --only "
                                  f"-o out.{ending}", status=None)
                if blocks == 100:
                    self.assertEqual(done.status, 5, done.err)
                    self.assertRegex(done.err, rf"\Aattn-compute: error: out.{ending}.+\n\Z")
                    self.assertEqual(sorted(os.listdir(self.folder)), before)
                (self.folder / f"out.{ending}").unlink(missing_ok=True)
            self.refused("attn-compute", "in.h5", "--hybrid", "2", output=f"x.{ending}", status=2)
            (self.folder / f"x.{ending}").write_text("mine")
            self.refused("attn-compute", "in.h5", output=f"x.{ending}", status=5, says=["exists"])
            self.assertEqual((self.folder / f"x.{ending}").read_text(), "mine")
            (self.folder / f"x.{ending}").unlink()
            self.refused("attn-compute", "in.h5", output=f"nowhere/x.{ending}", status=5,
                         says=["nowhere"])

    def test_killed_in_the_middle(self):
        random = np.random.default_rng(1)
        self.write("long.h5", **{n: random.normal(size=(8, 3000, 64)).astype(np.float32)
                                 for n in "qkv"})
        before = sorted(os.listdir(self.folder))
        process = subprocess.Popen([str(BIN / "attn-compute"), "long.h5", "--emit", "weights",
                                    "--only", "-q", "-o", "out.npz"], cwd=self.folder,
                                   env=self.environment)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
        process.terminate()
        self.assertEqual(process.wait(), -15)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_a_fifo(self):
        os.mkfifo(self.folder / "pipe.npz")
        self.shell("attn-compute in.h5 -q -o pipe.npz & cat pipe.npz > out.npz; wait")
        self.assertIn("out", self.arrays("out.npz")[0])

    def test_what_cannot_be_held(self):
        import h5py
        with h5py.File(self.folder / "in.h5", "a") as file:
            file.attrs["matrix"] = np.eye(2)
            file["pairs"] = np.zeros(3, dtype=[("a", "f4"), ("b", "i4")])
        for ending in FORMATS:
            done = self.run_tool("attn-compute", "in.h5", "-o", f"a.{ending}", "--json=report.json")
            warning = f"a.{ending} cannot hold pairs, matrix"
            self.assertIn(warning, done.err)
            self.assertIn(warning, self.read_json("report.json")["warnings"])
            self.assertNotIn("pairs", self.arrays(f"a.{ending}")[0])
            self.refused("attn-compute", "in.h5", "--compress", "gzip", status=2,
                         output=f"b.{ending}", says=["--compress", ending])

    def test_metadata_of_others(self):
        """Any array may be called __metadata__; what is not ours is an array like others."""
        arrays = {n: np.ones((3, 2), np.float32) for n in "qkv"}
        for text in (np.array("hello"), np.arange(3.0), np.array('{"schema":"other"}'),
                     np.array('{"schema":"attnkit/9","attributes":{"attn_scale":"x"}}')):
            np.savez(self.folder / "a.npz", **arrays, __metadata__=text)
            self.run_tool("attn-compute", "a.npz", "-q", "-o", "x.h5", "--force")
        for broken in ('{"attributes":{"attn_scale":{"a":1}}}', '{"attributes":[1]}',
                       '{"groups":{"q":{}}}', '{"groups":{"/":{}}}', '{"datasets":3}',
                       '{"strings":{"s":{"shape":[2],"values":["a"]}}}',
                       '{"strings":{"s":{"shape":[-1],"values":["a"]}}}',
                       '{"strings":{"q":{"shape":[],"values":["a"]}}}'):
            text = '{"schema":"attnkit/1",' + broken[1:]
            np.savez(self.folder / "a.npz", **arrays, __metadata__=np.array(text))
            with self.subTest(broken=broken):
                self.refused("attn-compute", "a.npz", status=3, says=["a.npz", "metadata"])
        deep = '{"schema":"attnkit/1","attributes":' + "[" * 100000 + "]" * 100000 + "}"
        np.savez(self.folder / "a.npz", **arrays, __metadata__=np.array(deep))
        self.run_tool("attn-compute", "a.npz", "-q", "-o", "x.h5", "--force")


if __name__ == "__main__":
    unittest.main()
