"""What would be read for ever: files on which HDF5 loops, those that declare more than was ever written, and
texts that are no files. Also reads that are cut into parts."""

import os
import socket
import struct
import subprocess
import unittest

import h5py
import numpy as np

from arrays import safetensors
from attn import BIN, LONG, TIMEOUT, ToolTest, sample

HEADER = 16  # of a global heap, and of an object in it
LOOPS = 2**64 - HEADER  # with its header, an object of this size takes no space


def damaged(whole, size, last=False):
    """The bytes of a bundle whose global heap has a first object (with `last`: the free space at
    its end) of that size."""
    whole = bytearray(whole)
    at = whole.index(b"GCOL") + HEADER
    while last:
        index, length = struct.unpack_from("<H6xQ", whole, at)
        if index == 0:
            break
        at += HEADER + (length + 7) // 8 * 8
    struct.pack_into("<Q", whole, at + 8, size)
    return bytes(whole)


class Endless(ToolTest):

    def bundle(self, history=None, tokens=None):
        random = np.random.default_rng(0)
        with h5py.File(self.folder / "whole.h5", "w") as file:
            for name in "qkv":
                file[name] = random.normal(size=(2, 5, 4))
            if history is not None:
                file.attrs["history"] = history
            if tokens is not None:
                file.create_dataset("tokens", data=tokens, dtype=h5py.string_dtype())
        return (self.folder / "whole.h5").read_bytes()

    def test_global_heap(self):
        history = self.bundle(history="a history of some length")
        tokens = self.bundle(tokens=["a", "bb", "ccc", "dd", "e"])
        files = {
            "history.h5": damaged(history, LOOPS),
            "free.h5": damaged(history, 0, last=True),
            "tokens.h5": damaged(tokens, LOOPS),
        }
        for name, data in files.items():
            (self.folder / name).write_bytes(data)
        commands = [[tool, name] for tool in ("tensor-info", "attn-compute") for name in files]
        commands += [["attn-compute", "-"]]
        before = sorted(os.listdir(self.folder))
        processes = []
        commands = sample(commands[::-1], 1)
        # All at the same time, as each takes 10 seconds of CPU time.
        for number, (tool, name) in enumerate(commands):
            more = ["-o", f"out{number}.h5"] if tool == "attn-compute" else []
            with open(self.folder / ("tokens.h5" if name == "-" else name), "rb") as stream:
                processes.append(subprocess.Popen(
                    [BIN / tool, name, *more], cwd=self.folder, env=self.environment, stdin=stream,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        for (tool, name), process in zip(commands, processes):
            with self.subTest(tool=tool, name=name):
                try:
                    out, error = process.communicate(timeout=TIMEOUT)
                finally:
                    process.kill()
                    process.wait()
                subject = "standard input" if name == "-" else name
                self.assertEqual(process.returncode, 3, error)
                self.assertEqual(out, b"")
                self.assertRegex(error.decode(), rf"\A{tool}: error: {subject}.* is damaged: "
                                                 r"HDF5 does not finish reading it\n\Z")
        self.assertEqual(sorted(os.listdir(self.folder)), before)


class Parts(ToolTest):

    def test_large_reads(self):
        # More than 64 MiB, whole and sliced, with various chunks: the same bits.
        random = np.random.default_rng(1)
        small = {n: random.normal(size=(4, 4096)).astype(np.float32) for n in "qv"}
        k = np.tile(random.normal(size=(4200, 64)).astype(np.float32), 64)  # quickly compressed
        self.write("plain.h5", q=small["q"], k=k, v=np.ones((4200, 2), np.float32))
        expected = self.compute("plain.h5", "-q", "--only")
        strided = self.compute("plain.h5", "-q", "--only", "-i", "k=plain.h5:/k[1::1,:]", "-i",
                               "v=plain.h5:/v[1:]")
        for chunk, packed in sample((((700, 900), None), ((4200, 4096), "gzip"),
                                     ((13, 4096), "gzip")), 2):
            with self.subTest(chunk=chunk, packed=packed):
                with h5py.File(self.folder / "chunked.h5", "w") as file:
                    file.create_dataset("k", data=k, chunks=chunk, compression=packed,
                                        compression_opts=1 if packed else None)
                named = ["plain.h5", "-q", "--only", "-i"]
                self.assert_same_bits(self.compute(*named, "k=chunked.h5:/k"), expected)
                self.assert_same_bits(
                    self.compute(*named, "k=chunked.h5:/k[1:]", "-i", "v=plain.h5:/v[1:]"), strided)

    def test_many_strings(self):
        tokens = [f"t{n}" for n in range(70000)]
        for name, values in (("a.h5", tokens), ("b.h5", tokens[:-1] + ["other"])):
            with h5py.File(self.folder / name, "w") as file:
                file.create_dataset("tokens", data=values, dtype=h5py.string_dtype())
        self.run_tool("tensor-compare", "a.h5", "a.h5")
        done = self.run_tool("tensor-compare", "a.h5", "b.h5", status=1)
        self.assertIn("69999", done.out.decode())


if __name__ == "__main__":
    unittest.main()


class Unwritten(ToolTest):
    """A few kilobytes that declare 256 TiB."""

    SHAPE = (2**15, 2**15, 2**15)  # of float64

    def setUp(self):
        super().setUp()
        with h5py.File(self.folder / "parts.h5", "w") as file:
            for name, more in (("plain", {}), ("packed", {"compression": 1})):
                made = file.create_dataset(name, self.SHAPE, "f8", chunks=(32, 32, 64), fillvalue=2, **more)
                made[:2, :3, :4] = 5
            file.create_dataset("contiguous", self.SHAPE, "f8")
        self.layout = h5py.VirtualLayout(self.SHAPE, "f8")
        self.layout[:16] = h5py.VirtualSource("parts.h5", "plain", self.SHAPE)[:16]
        with h5py.File(self.folder / "virtual.h5", "w") as file:
            file.create_virtual_dataset("x", self.layout)
        for name in ("plain", "packed", "contiguous"):
            with h5py.File(self.folder / f"{name}.h5", "w") as file, h5py.File(self.folder / "parts.h5") as parts:
                parts.copy(name, file, "x")

    def test_refused(self):
        tools = (["tensor-info"], ["tensor-compare", None], ["tensor-convert", "-o", "o.h5"])
        for place, name in enumerate(("plain", "packed", "contiguous", "virtual")):
            with self.subTest(name=name):
                says = (f"{name}.h5:/x has the shape (32768, 32768, 32768), but nearly all values of its file were "
                        "never written\n")
                for tool, *words in tools if LONG else [tools[place % 3]]:
                    done = self.run_tool(tool, f"{name}.h5", *(word or f"{name}.h5" for word in words), status=3)
                    self.assertIn(f"{tool}: error: {says}", done.err)
                brief = self.run_tool("tensor-info", "--brief", f"{name}.h5").out.decode()
                self.assertRegex(brief, r"(?m)^x +32768 x 32768 x 32768 +float64")
                found = self.run_tool("tensor-info", "-i", f"x={name}.h5:/x[0:2,0:100,0:100]", "--json").json()
                lowest = 0 if name == "contiguous" else 2
                self.assertEqual(found["result"]["datasets"][0]["min"], lowest)
        self.assertNotIn("o.h5", os.listdir(self.folder))

    def test_many_datasets(self):
        """Each takes a second, all of them minutes."""
        with h5py.File(self.folder / "many.h5", "w", libver="latest") as file:
            for n in range(200):
                file.create_dataset(f"x{n:03}", (2**27,), "f8")
        done = self.run_tool("tensor-info", "many.h5", status=3)
        self.assertIn("nearly all values of its file were never written", done.err + done.out.decode())

    def test_read_if_written(self):
        """Zeros take little room when compressed, and are read nevertheless."""
        with h5py.File(self.folder / "zeros.h5", "w") as file:
            file.create_dataset("x", (2**26,), "f8", chunks=(2**22,), compression=1)[:] = 0
        self.assertLess((self.folder / "zeros.h5").stat().st_size, 2**22)
        self.run_tool("tensor-info", "zeros.h5")


class Special(ToolTest):
    """A text that is no file is refused before it is opened."""

    def setUp(self):
        super().setUp()
        os.mkfifo(self.folder / "pipe")
        self.socket = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.socket.close)
        here = os.getcwd()
        os.chdir(self.folder)  # the name of a socket has few characters
        self.socket.bind("socket")
        os.chdir(here)
        self.write("w.h5", weights=np.ones((1, 2, 2)))
        (self.folder / "text").write_text("a b c d\n" * 100)
        # A recipe without a folder names its text in full.
        (self.folder / "r.toml").write_text(f'[data]\ntext = "{self.folder}/text"\n[objective]\nkind = "causal"\n[run]\nsteps = 1\n')

    KINDS = {"pipe": "a pipe", "socket": "a socket", "/dev/zero": "a device", ".": "a folder"}

    def test_texts(self):
        readers = (["attn-train", "{}", "-o", "o.h5"],
                   ["attn-train", "r.toml", "--set", "data.text={}", "-o", "o.h5"],
                   ["claim-check", "{}"],
                   ["seed-test", "{}", "{}", "--metric=loss"],
                   ["seed-test", "--table", "{}", "a", "--metric=loss"],
                   ["alignment-attention", "measure", "w.h5", "--gold", "{}"])
        for tool, *words in readers:
            for file, kind in self.KINDS.items():
                with self.subTest(tool=tool, words=words, file=file):
                    self.refused(tool, *(word.format(file) for word in words), output=None, status=3,
                                 says=[f"{file} is {kind}, expected "])

    def test_bundles(self):
        for tool in ("tensor-info", "attn-compute"):
            for words in (["/dev/zero"], ["-i", "q=/dev/zero:/q"]):
                self.refused(tool, *words, output="o.h5" if tool == "attn-compute" else None, status=3,
                             says=["/dev/zero is a device, expected a bundle"])
        with open("/dev/zero", "rb") as zero:
            self.refused("tensor-info", "-", output=None, status=3, stdin=zero,
                         says=["standard input is a device, expected a bundle"])
        self.refused("tensor-join", "pipe", "pipe", status=2, says=["pipe and pipe are the same pipe"])

    def test_config_of_a_model(self):
        (self.folder / "config.json").symlink_to("pipe")
        (self.folder / "m.safetensors").write_bytes(safetensors({
            f"encoder.layer.0.attention.self.{part}.weight": np.ones((6, 4), np.float32)
            for part in ("query", "key", "value")}))
        command = ["tensor-convert", "m.safetensors", "--model", "bert", "--layer", 0]
        self.refused(*command, status=3, says=["config.json is a pipe, expected a JSON object"])
        self.run_tool(*command, "--ignore-config", "--heads", 2, "-o", "o.h5")

    def test_descriptors(self):
        """What a shell has opened, <(…) too, is read as before."""
        for command in ("attn-train <(cat r.toml) -o o.h5", "cat r.toml | attn-train /dev/stdin -o o.h5"):
            subprocess.run(["bash", "-c", f"set -o pipefail; {command} --dry-run"], cwd=self.folder,
                           env=self.environment, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT)

    def test_memory(self):
        with open(self.folder / "text", "wb") as file:
            file.truncate(2**30)
        self.refused("attn-train", "r.toml", "--memory", "1G", status=6, says=["the text ", "2.0 GiB"])
        command = f"head -c 1G /dev/zero | {BIN}/attn-train r.toml --set data.text=/dev/stdin --memory 1G -o o.h5"
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, check=False,
                              stderr=subprocess.PIPE, timeout=TIMEOUT)
        self.assertEqual((done.returncode, done.stderr.decode()),
                         (3, "attn-train: error: /dev/stdin is larger than 512.0 MiB, expected a text\n"))
