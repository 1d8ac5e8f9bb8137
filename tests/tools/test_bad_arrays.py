"""Malformed .npy, .npz and .safetensors files: one line, exit 3, little memory."""

import io
import json
import resource
import struct
import unittest
import zipfile

import numpy as np

from arrays import framed, npy, npy_with, safetensors
from attn import SANITIZED, ToolTest, sample

MEMORY = 300 << 20


def limited():
    if not SANITIZED:  # whose shadow memory exceeds any limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY + (1 << 30), MEMORY + (1 << 30)))


def header(descr="'<f4'", fortran="False", shape="(2, 3)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


def entry(dtype="F32", shape=(2, 3), offsets=(0, 24)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def archive(members, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for name, content in members:
            file.writestr(name, content)
    return bytearray(stream.getvalue())


def patched(content, signature, at, form, value, every=True):
    """Writes `value` at `at` bytes after each occurrence of `signature`."""
    content, place = bytearray(content), -1
    while (place := content.find(signature, place + 1)) >= 0:
        struct.pack_into(form, content, place + at, value)
        if not every:
            break
    return content


LOCAL, DIRECTORY = b"PK\x03\x04", b"PK\x01\x02"


class BadArrays(ToolTest):

    def refuse(self, name, content, says=(), address=None, status=3):
        (self.folder / name).write_bytes(content)
        with self.subTest(name=name, says=says, content=bytes(content[:120])):
            self.refused("tensor-convert", f"x={address or name}", status=status,
                         says=[name, *says], preexec_fn=limited)

    def test_npy(self):
        data = np.arange(6, dtype="<f4").tobytes()
        rows = [
            (npy_with(header(), data[:-1]), ["truncated", "23", "24"]),
            (npy_with(header(), data + b"x"), ["25", "24"]),
            (npy_with(header(), b""), ["truncated"]),
            (npy_with(header(shape="(2, 4)"), data), ["(2, 4)", "32"]),
            (npy_with(header(shape="(-2, -3)"), data), ["negative"]),
            (npy_with(header(shape="(4294967296, 4294967296)"), data), ["too many"]),
            (npy_with(header(shape="(4611686018427387904, 3)"), data), ["too many"]),
            (npy_with(header(shape="(99999999999999999999999,)"), data), ["64 bits"]),
            (npy_with(header(shape="(1000000000000,)"), data), ["truncated"]),
            (npy_with(header(shape="(" + "1, " * 33 + ")"), data[:4]), ["axes"]),
            (npy_with(header(shape="6"), data), ["header"]),
            (npy_with(header(shape="(6)"), data), ["tuple"]),
            (npy_with(header(shape="(2.0, 3)"), data), ["header"]),
            (npy_with(header(shape="[2, 3]"), data), ["header"]),
            (npy_with(header(shape="(2, 3"), data), ["header"]),
            (npy_with(header(fortran="0"), data), ["fortran_order"]),
            (npy_with(header(descr="'|O'"), data), ["pickled"]),
            (npy_with(header(descr="'<c8'"), data), ["c8"]),
            (npy_with(header(descr="'<f16'"), data), ["f16"]),
            (npy_with(header(descr="'<M8[ns]'"), data), ["M8"]),
            (npy_with(header(descr="'|V4'"), data), ["V4"]),
            (npy_with(header(descr="'f4'"), data), ["f4"]),
            (npy_with(header(descr="''"), data), ["dtype"]),
            (npy_with(header(descr="'<U99999999999'"), data), ["dtype"]),
            (npy_with(header(descr="'<U0'", shape="(1000000000000000,)")), ["dtype"]),
            (npy_with(header(descr="'" + "A" * 9000 + "'"), data), ["dtype"]),
            (npy_with(header(descr="[('a', '<f4'), ('b', '<i4')]"), data), ["structured"]),
            (npy_with("{'descr': '<f4', 'shape': (2, 3)}", data), ["missing"]),
            (npy_with("{'descr': '<f4', " + header()[1:], data), ["repeated"]),
            (npy_with("{'other': 1, " + header()[1:], data), ["unexpected"]),
            (npy_with(header() + "; import os", data), ["after its end"]),
            (npy_with(header() + "\0", data), ["header"]),
            (npy_with("", data), ["header"]),
            (npy_with("\0" * 100, data), ["header"]),
            (npy_with("{" * 5000, data), ["header"]),
            (npy_with(header(), data, (4, 0)), ["version 4.0"]),
            (npy_with(header(), data, (1, 1)), ["version 1.1"]),
            (npy_with(header(), data, (0, 0)), ["version 0.0"]),
            (b"\x93NUMPY", ["npy"]), (b"\x93NUMPY\1\0\xff", ["npy"]),
            (b"\x93NUMPY\1\0\xff\xff" + b" " * 100, ["65535"]),
            (b"\x93NUMPY\2\0\xff\xff\xff\xff" + b" " * 100, ["4294967295"]),
            (b"\x93NUMPY\2\0\0\0\2\0" + b" " * (1 << 18), ["131072"]),
        ]
        for content, says in rows:
            self.refuse("bad.npy", content, says)
        for content, _ in sample(rows, 12):
            self.refuse("bad.npz", archive([("x.npy", content)]), [])
            self.refuse("packed.npz", archive([("x.npy", content)], zipfile.ZIP_DEFLATED), [])
        self.refuse("bad.npy", npy(np.array([{}, None], dtype=object)), ["pickled"])
        np.save(self.folder / "dict.npy", {"q": np.eye(2)})
        hint = "numpy.savez('FILE.npz', **numpy.load('FILE', allow_pickle=True).item())"
        self.refused("attn-compute", "dict.npy", status=3, says=["dict.npy holds a pickled Python object"], hint=hint)
        names = {"numpy": np, "__builtins__": {}}
        eval(hint.replace("FILE", str(self.folder / "dict.npy")), names)  # pylint: disable=eval-used
        self.assertEqual(np.load(self.folder / "dict.npy.npz")["q"].shape, (2, 2))
        good = npy(np.arange(6.0))
        (self.folder / "good.npy").write_bytes(good)
        self.refused("tensor-convert", "good.npy", status=3, says=["good.npy", "single"])
        self.refused("tensor-convert", "x=good.npy:y", status=3,
                     says=["good.npy", "without a name"])
        self.refused("tensor-convert", "x=good.npy[7]", status=3, says=["good.npy[7]", "axis 0"])
        for length in sample(range(len(good)), 25):
            self.refuse("cut.npy", good[:length])

    def test_absurd_shapes_without_elements(self):
        content = npy_with(header(shape="(0, 9223372036854775807, 9223372036854775807)"))
        (self.folder / "e.npy").write_bytes(content)
        self.run_tool("tensor-convert", "x=e.npy[..., 0]", "-o", "x.npy")
        written = (self.folder / "x.npy").read_bytes()
        self.assertIn(b"(0, 9223372036854775807)", written)
        self.assertEqual(len(written), 128)

    def test_strings(self):
        for point in (0x110000, 0xd800, 0xffffffff):
            content = npy_with(header("'<U1'", shape="(1,)"), struct.pack("<I", point))
            self.refuse("bad.npy", content, ["character"])

    def test_safetensors(self):
        data = bytes(24)
        good = {"x": entry()}
        rows = [
            (b"", ["empty"]), (b"\0" * 7, []), (b"\xff" * 8, ["header"]), (b"\0" * 8, []),
            (struct.pack("<Q", 1 << 62) + b"{}", ["4611686018427387904"]),
            (struct.pack("<Q", 100_000_001) + b"{}", ["100000001"]),
            (framed(good, data)[:-1], ["24", "23"]),
            (framed(good, data + b"x"), ["25", "24"]),
            (framed(good), ["24"]),
            (framed({"x": entry(offsets=(0, 20))}, data), ["20", "24"]),
            (framed({"x": entry(offsets=(24, 0))}, data), ["data_offsets"]),
            (framed({"x": entry(offsets=(1 << 62, (1 << 62) + 24))}, data), ["ends at byte"]),
            (framed({"x": entry(offsets=(-24, 0))}, data), ["negative"]),
            (framed({"x": entry(offsets=(0, 1, 2))}, data), ["data_offsets"]),
            (framed({"x": entry(), "y": entry()}, data), ["begins at byte 0"]),
            (framed({"x": entry(), "y": entry(offsets=(12, 36))}, data * 2), ["byte 12", "24"]),
            (framed({"x": entry(), "y": entry(offsets=(32, 56))}, bytes(56)), ["byte 32", "24"]),
            (framed({"x": entry(offsets=(8, 32))}, bytes(32)), ["byte 8"]),
            (framed({"x": entry(shape=(1 << 40, 1 << 40))}, data), ["too many"]),
            (framed({"x": entry(shape=(1 << 64, 1))}, data), []),
            (framed({"x": entry(shape=(-2, -3))}, data), ["negative"]),
            (framed({"x": entry(shape=(2.0, 3))}, data), ["wrong kind"]),
            (framed({"x": entry(shape=(1,) * 33, offsets=(0, 4))}, data[:4]), ["32"]),
            (framed({"x": entry(dtype="F99")}, data), ["F99"]),
            (framed({"x": entry(dtype="")}, data), ["dtype"]),
            (framed({"x": entry(dtype="F" * 5000)}, data), ["unknown"]),
            (framed({"x": {**entry(), "more": 1}}, data), ["more"]),
            (framed({"x": {"dtype": "F32", "shape": [2, 3]}}, data), ["missing"]),
            (framed({"x": 3}, data), ["wrong kind"]), (framed([1], data), ["object"]),
            (framed({"x": None}, data), ["wrong kind"]), (framed({"x": "y"}, data), ["wrong kind"]),
            (framed({"x": {"dtype": {}, "shape": [], "data_offsets": [0, 4]}}, data), ["object"]),
            (framed({"x": {"dtype": "F32", "shape": [[6]], "data_offsets": [0, 24]}}, data), []),
            (framed({"": entry()}, data), ["without a name"]),
            (framed({"a\0b": entry()}, data), ["control"]),
            (framed({"a\nb": entry()}, data), ["control"]),
            (framed({"__metadata__": {"a": 1}, "x": entry()}, data), ["wrong kind"]),
            (framed({"__metadata__": {"a": {}}, "x": entry()}, data), ["object"]),
            (framed({"__metadata__": [], "x": entry()}, data), ["wrong kind"]),
            (framed(b'{"x":' + json.dumps(entry()).encode() + b',"x":' +
                    json.dumps(entry(offsets=(24, 48))).encode() + b"}", data * 2),
             ["two entries"]),
            (framed(b'{"x":{"dtype":"F32","dtype":"F32","shape":[6],"data_offsets":[0,24]}}', data),
             ["twice"]),
            (framed(b'{"x":' * 100000), ["unexpected"]), (framed(b"[" * 1000000), []),
            (framed(b'{"x":{"dtype":"F32","shape":' + b"[" * 1000000), []),
            (framed(b'{"x":{"dtype":"F32","shape":[' + b"1," * 1000000), ["32"]),
            (framed(b'{"x": \xff}', data), ["JSON"]), (framed(b"{", data), ["JSON"]),
            (framed(b'{"\xc3\x28": 1}', data), ["JSON"]), (framed(b"{} x", data), ["JSON"]),
            (framed(b'{"x":{"dtype":"F32","shape":[1e400],"data_offsets":[0,4]}}', data), []),
            (framed(b"{}", data), ["24"]),
        ]
        for content, says in rows:
            self.refuse("bad.safetensors", content, says, "bad.safetensors:x")
        (self.folder / "f8.safetensors").write_bytes(
            framed({"x": entry("F8_E8M0", (24,)), "y": entry("F32", (1,), (24, 28))}, bytes(28)))
        self.run_tool("tensor-convert", "y=f8.safetensors:y", "-o", "y.npy")
        self.refused("tensor-convert", "x=f8.safetensors:x", status=3, says=["x", "F8_E8M0"])
        self.assertRegex(self.run_tool("tensor-info", "f8.safetensors").out.decode(), r"(?m)^x +24 +F8_E8M0")
        self.refused("attn-compute", "-i", "q=f8.safetensors:x", "-i", "k=f8.safetensors:x", status=3,
                     says=["has type F8_E8M0, expected "])
        good = safetensors({"x": np.arange(6.0)})
        for length in sample(range(1, len(good)), 25):
            self.refuse("cut.safetensors", good[:length], (), "cut.safetensors:x")
        (self.folder / "good.safetensors").write_bytes(good)
        self.refused("tensor-convert", "w=good.safetensors:x/y", status=3, says=["good.safetensors:/x is a dataset"])
        for address in ("good.safetensors:y", "good.safetensors"):
            name = address.partition(":")[2] or "w"
            self.refused("tensor-convert", f"w={address}", status=3,
                         says=["good.safetensors", name, "there are: x"])
        self.refused("attn-compute", "good.safetensors:x", status=3, says=["single array"])

    def test_names_that_bundles_cannot_have(self):
        for names in (["/x"], ["x/"], ["a//b"], ["."], ["a/./b"], ["a", "a/b"], ["a/b", "a/b/c"]):
            arrays = {n: np.zeros(3, np.float32) for n in names}
            (self.folder / "n.safetensors").write_bytes(safetensors(arrays))
            self.refused("tensor-convert", "n.safetensors", status=3, says=["cannot be copied"])

    def test_npz(self):
        member = npy(np.arange(600.0))
        zeros = npy(np.zeros(1 << 20))
        stored = archive([("x.npy", member)])
        packed = archive([("x.npy", zeros)], zipfile.ZIP_DEFLATED)
        big = 1 << 31
        rows = [
            (stored[:-1], []), (stored[:-30], []), (stored[:100], []), (b"PK\3\4", []),
            (b"PK\5\6" + bytes(18), ["no dataset x"]),
            (archive([("y.npy", member)]), ["no dataset x", "y"]),
            (archive([("x.npy", b"")]), ["npy"]), (archive([("x.npy", b"text")]), ["npy"]),
            (archive([("x.txt", member)]), ["there are none"]),
            (archive([("m/data.pkl", b"x"), ("m/data/0", b"x")]), ["PyTorch"]),
            (archive([("a\nb.npy", member), ("x.npy", member)]), ["control"]),
            (archive([("x.npy", member)], zipfile.ZIP_BZIP2), ["method 12"]),
            # Sizes: in the directory and in the local header; of the content and of the stored
            # bytes.
            (patched(stored, DIRECTORY, 20, "<I", big), []),
            (patched(stored, DIRECTORY, 24, "<I", big), []),
            (patched(stored, DIRECTORY, 24, "<I", 100), []),
            (patched(stored, DIRECTORY, 20, "<I", 100), []),
            (patched(patched(stored, DIRECTORY, 20, "<I", big), DIRECTORY, 24, "<I", big),
             ["claims"]),
            (patched(packed, DIRECTORY, 24, "<I", 0xfffffffe), []),
            (patched(packed, DIRECTORY, 24, "<I", len(zeros) + 1), []),
            (patched(packed, DIRECTORY, 24, "<I", len(zeros) - 1), []),
            # Positions beyond the file and inside the directory; checksums, methods, encryption.
            (patched(stored, DIRECTORY, 42, "<I", 0xfffffff0), []),
            (patched(stored, DIRECTORY, 42, "<I", 64), []),
            (patched(packed, DIRECTORY, 16, "<I", 1), []),
            (patched(stored, DIRECTORY, 10, "<H", 99), []),
            (patched(stored, DIRECTORY, 8, "<H", 1), []),
            (patched(stored, LOCAL, 26, "<H", 0xffff), []),
            (patched(stored, b"PK\5\6", 10, "<H", 500), []),
            (patched(stored, b"PK\5\6", 16, "<I", 7), []),
        ]
        for content, says in rows:
            self.refuse("bad.npz", content, says, "bad.npz:x")
        with self.assertWarns(UserWarning):
            twice = archive([("x.npy", member), ("x.npy", member)])
        self.refuse("bad.npz", twice, ["two arrays", "x"], "bad.npz:x")

    def test_zip_bombs(self):
        # A valid header that declares far more data than the file holds.
        bomb = npy(np.zeros(2)) + bytes(128 << 20)
        self.refuse("b.npz", archive([("x.npy", bomb)], zipfile.ZIP_DEFLATED), ["(2)"], "b.npz:x")
        # A directory that declares too little, or more than deflate can produce.
        one = archive([("x.npy", npy(np.zeros(1 << 22)))], zipfile.ZIP_DEFLATED)
        for declared in (144, 200_000, 0xfffffff0):
            content = patched(one, DIRECTORY, 24, "<I", declared)
            self.refuse("b.npz", content, [], "b.npz:x")

    def test_stored_content_that_is_damaged(self):
        member = npy(np.arange(100000.0))
        packed = archive([("x.npy", member)], zipfile.ZIP_DEFLATED)
        random = np.random.default_rng(0)
        for at in sample(random.integers(40, len(packed) - 120, 25), 8):
            content = bytearray(packed)
            content[at] ^= 1 << int(random.integers(8))
            self.refuse("bad.npz", content, [], "bad.npz:x")

    def test_flipped_bits(self):
        # Stored and deflated members, below and above the size unpacked at once: NumPy refuses all
        # of them.
        random = np.random.default_rng(11)
        for save in (np.savez, np.savez_compressed):
            for rows in (50, 40_000):
                q = random.random((rows, 8))
                save(self.folder / "whole.npz", q=q, k=q[:50])
                whole = bytearray((self.folder / "whole.npz").read_bytes())
                self.run_tool("tensor-info", "whole.npz")
                for at in (len(whole) // 3, 400):
                    with self.subTest(save=save.__name__, rows=rows, at=at):
                        damaged = whole.copy()
                        damaged[at] ^= 1
                        (self.folder / "bad.npz").write_bytes(damaged)
                        self.refused("tensor-compare", "bad.npz", "whole.npz", status=3,
                                     says=["bad.npz"], output=None)
                        # A listing continues with the readable objects.
                        listed = self.run_tool("tensor-info", "bad.npz", status=3)
                        self.assertRegex(listed.err, r"\Atensor-info: error: bad.npz.*\n\Z")


if __name__ == "__main__":
    unittest.main()
