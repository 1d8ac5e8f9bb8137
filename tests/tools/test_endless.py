"""Damaged files that make HDF5 loop forever, and reads that are cut into parts."""

import os
import struct
import subprocess
import unittest

import h5py
import numpy as np

from attn import BIN, TIMEOUT, ToolTest, sample

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
