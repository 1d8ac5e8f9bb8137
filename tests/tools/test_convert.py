"""tensor-convert, and .npy, .npz and .safetensors as inputs of any tool: bits against NumPy, h5py
and files made by hand."""

import json
import os
import struct
import unittest
import zipfile

import h5py
import numpy as np

from arrays import brain, npy, npy_with, read_safetensors, safetensors, typed, widened
from attn import ToolTest

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 5), (1, 1, 1, 1), (4, 1, 3, 2), (129, 65)]


def numbers(dtype, shape, seed=0):
    """Arbitrary bits, including NaN and infinities; bool as 0 and 1."""
    random = np.random.default_rng(seed)
    if dtype == "?":
        return random.integers(0, 2, shape).astype(bool)
    raw = random.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    return np.ascontiguousarray(raw).view(dtype).reshape(shape)


def qkv(seed=0, heads=2, length=9, d=4):
    random = np.random.default_rng(seed)
    return {n: random.normal(size=(heads, length, d)).astype(np.float32) for n in "qkv"}


class Arrays(ToolTest):

    def put(self, name, content):
        (self.folder / name).write_bytes(content)
        return name

    def get(self, name):
        return (self.folder / name).read_bytes()

    def convert(self, *arguments, **more):
        return self.run_tool("tensor-convert", *arguments, **more)

    def assert_bits(self, actual, expected, what=""):
        self.assertEqual((actual.dtype, actual.shape), (expected.dtype, expected.shape), what)
        self.assertEqual(actual.tobytes(), expected.tobytes(), what)


class Reading(Arrays):

    def test_npy_of_every_type_shape_and_order(self):
        words, expected = [], {}
        for dtype in DTYPES:
            for number, shape in enumerate(SHAPES):
                for order in "CF":
                    for end in "<>":
                        values = numbers(dtype, shape)
                        name = f"{np.dtype(dtype).name}_{number}_{order}_{'lb'[end == '>']}"
                        stored = values.astype(values.dtype.newbyteorder(end))
                        self.put(f"{name}.npy", npy(np.asarray(stored, order=order)))
                        words.append(f"{name}={name}.npy")
                        expected[name] = values
        self.convert(*words, "-o", "all.h5")
        found = self.read("all.h5")
        self.assertEqual(set(found), set(expected))
        for name, values in expected.items():
            self.assert_bits(found[name], values, name)

    def test_versions_of_npy(self):
        values = numbers("f4", (3, 5))
        for version in ((1, 0), (2, 0), (3, 0)):
            self.put("a.npy", npy(values, version=version))
            self.convert("a=a.npy", "-o", "a.h5", "--force")
            self.assert_bits(self.read("a.h5")["a"], values, version)

    def test_npz(self):
        arrays = {"q": numbers("f4", (300, 70)), "half": numbers("f2", (5, 3)),
                  "mask": numbers("?", (4, 9)), "big": numbers("f8", (257, 129)).T,
                  "scalar": np.array(3.5), "a.b": numbers("i8", (2, 2))}
        for save in (np.savez, np.savez_compressed):
            save(self.folder / "a.npz", **arrays)
            self.convert("a.npz", "-o", "a.h5", "--force")
            found = self.read("a.h5")
            self.assertEqual(set(found), {name.replace(".", "/") for name in arrays})
            for name, values in arrays.items():
                self.assert_bits(found[name.replace(".", "/")], np.asarray(values, order="C"), (save, name))
            self.convert("x=a.npz:big[3:200:7, -1]", "-o", "x.h5", "--force")
            self.assert_bits(self.read("x.h5")["x"], arrays["big"][3:200:7, -1].copy())

    def test_safetensors(self):
        arrays = {f"x.{np.dtype(t).name}.{i}": numbers(t, s)
                  for t in DTYPES for i, s in enumerate(SHAPES)}
        arrays["brain"] = brain(np.linspace(-3, 3, 24).reshape(2, 3, 4))
        self.put("a.safetensors", safetensors(arrays, {"format": "pt"}))
        self.put("no-suffix", safetensors(arrays))
        for file in ("a.safetensors", "no-suffix"):
            self.convert(file, "-o", "a.h5", "--force")
            found = self.read("a.h5")
            self.assertEqual(set(found), {name.replace(".", "/") for name in arrays})
            for name, values in arrays.items():
                expected = widened(values) if name == "brain" else values
                self.assert_bits(found[name.replace(".", "/")], np.asarray(expected), name)

    def test_unpacking(self):
        arrays = {"small": np.arange(10.0), "large": np.arange(1e5)}
        np.savez_compressed(self.folder / "z.npz", **arrays)
        # Data in the first bytes is read without a temporary.
        self.convert("x=z.npz:small", "--tmpdir", "missing", "-o", "x.npy")
        self.refused("tensor-convert", "x=z.npz:large", "--tmpdir", "missing", status=5,
                     says=["missing"], hint="--tmpdir", output="y.npy")
        self.convert("x=z.npz:large", "-o", "y.npy")
        self.assertEqual(self.get("y.npy"), npy(arrays["large"]))

    def test_slices(self):
        values = numbers("f4", (6, 70, 33))
        self.put("c.npy", npy(values))
        self.put("f.npy", npy(np.asfortranarray(values)))
        self.put("s.safetensors", safetensors({"layer.0.q": values}))
        np.savez_compressed(self.folder / "z.npz", q=values)
        np.savez(self.folder / "n.npz", q=np.asfortranarray(values))
        for text in ("[0]", "[-1,...]", "[...,0]", "[:,::3,1:20:5]", "[2,3,4]", "[1:1]", "[::5,7]",
                     "[:,69:,-1:]", "[...,::32]", "[4,1::68]"):
            expected = np.ascontiguousarray(eval(f"values{text}"))  # the result of NumPy itself
            for address in ("c.npy", "f.npy", "s.safetensors:layer.0.q", "z.npz:q", "n.npz:q"):
                self.convert(f"x={address}{text}", "-o", "x.h5", "--force")
                self.assert_bits(self.read("x.h5")["x"].reshape(expected.shape), expected,
                                 address + text)

    def test_every_tool_accepts_them(self):
        arrays = qkv()
        self.write("qkv.h5", **arrays)
        words = []
        for name, values in arrays.items():
            self.put(f"{name}.npy", npy(values))
            words += ["-i", f"{name}={name}.npy"]
        np.savez(self.folder / "qkv.npz", **arrays)
        self.put("qkv.safetensors", safetensors(arrays))
        expected = self.compute("qkv.h5", "--scheme", "dnas")
        for inputs in (["qkv.npz"], ["qkv.safetensors"], words,
                       ["qkv.npz", "-i", "q=qkv.safetensors:q"]):
            found = self.compute(*inputs, "--scheme", "dnas")
            self.assert_same_bits(found, expected)
            self.assertEqual(set(found), set(expected))
            self.assertEqual(self.stats(*inputs), self.stats("qkv.h5"))
        for file in ("qkv.npz", "qkv.safetensors", "q.npy"):
            address = "q.npy" if file == "q.npy" else f"{file}:q"
            self.run_tool("tensor-compare", address, "qkv.h5:/q")
        self.run_tool("tensor-compare", "qkv.npz", "qkv.safetensors")

    def test_bfloat16_is_float32_to_tools(self):
        arrays = {n: brain(np.random.default_rng(i).normal(size=(9, 4)))
                  for i, n in enumerate("qkv")}
        self.put("b.safetensors", safetensors(arrays))
        self.write("f.h5", **{n: widened(a) for n, a in arrays.items()})
        self.assert_same_bits(self.compute("b.safetensors"), self.compute("f.h5"))

    def test_bfloat16_of_numpy_and_hdf5(self):
        """NumPy's two bytes, HDF5 2.0's float and opaque bytes, in both orders, whole, sliced and copied."""
        bits = np.random.default_rng(1).integers(0, 2 ** 16, (7, 5), dtype=np.uint16)
        bits[(bits & 0x7f80) == 0x7f80] &= 0xff7f  # no NaN, whose bits float arithmetic may change
        expected = widened(bits)
        header = "{{'descr': '{}', 'fortran_order': False, 'shape': (7, 5), }}"
        files = {}
        for number, descr in enumerate(("|V2", "<V2", "bfloat16")):
            files[f"v{number}.npy"] = npy_with(header.format(descr), bits.tobytes())
        for name, content in files.items():
            self.put(name, content)
        with zipfile.ZipFile(self.folder / "v.npz", "w") as archive:
            archive.writestr("x.npy", files["v0.npy"])
        with h5py.File(self.folder / "v.h5", "w") as file:
            for order in ("little", "big"):
                kind = h5py.h5t.IEEE_F32LE.copy()
                kind.set_fields(15, 7, 8, 0, 7)
                kind.set_size(2)
                kind.set_ebias(127)
                kind.set_order(h5py.h5t.ORDER_LE if order == "little" else h5py.h5t.ORDER_BE)
                stored = bits if order == "little" else bits.byteswap()
                for chunk in (None, (2, 5)):
                    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                    if chunk:
                        plan.set_chunk(chunk)
                    name = f"{order}{'_chunks' * bool(chunk)}"
                    made = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((7, 5)), plan)
                    made.write(h5py.h5s.ALL, h5py.h5s.ALL, stored, kind)
            tagged = h5py.h5t.create(h5py.h5t.OPAQUE, 2)
            tagged.set_tag(b"bfloat16")
            made = h5py.h5d.create(file.id, b"opaque", tagged, h5py.h5s.create_simple((7, 5)))
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, bits.view("V2"), tagged)
        names = ["little", "big", "little_chunks", "big_chunks", "opaque"]
        self.run_tool("tensor-convert", "v.h5", "-o", "copy.h5")
        addresses = [*list(files)[:3], "v.npz:x"]
        addresses += [f"{file}:{name}" for file in ("v.h5", "copy.h5") for name in names]
        for address in addresses:
            for at, part in (("", ()), ("[1::2, 3]", np.s_[1::2, 3])):
                self.convert(f"x={address}{at}", "-o", "x.npy", "--force")
                self.assert_bits(np.load(self.folder / "x.npy"), np.ascontiguousarray(expected[part]), address + at)
            self.convert(f"x={address}", "--dtype", "bf16", "-o", "x.safetensors", "--force")
            found = read_safetensors(self.get("x.safetensors"))["x"]
            self.assertEqual(found.tobytes(), bits.tobytes(), address)
        found = self.run_tool("tensor-info", "v.h5", "--json").json()["result"]["datasets"]
        self.assertEqual({one["dtype"] for one in found}, {"bfloat16"})
        with h5py.File(self.folder / "v.h5", "a") as file:
            other = h5py.h5t.create(h5py.h5t.OPAQUE, 2)
            h5py.h5d.create(file.id, b"other", other, h5py.h5s.create_simple((7, 5)))
        self.refused("attn-compute", "-i", "q=v.h5:other", "-i", "k=v.h5:other", status=3, says=["an opaque type"])

    def test_float8(self):
        """Every number of both formats against NumPy, and each kind of scales."""
        every = np.arange(256, dtype=np.uint8)
        e5m2 = (every.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
        exponent, fraction = every >> 3 & 15, every & 7
        e4m3 = np.where(exponent == 0, fraction * 2.0 ** -9, (8.0 + fraction) * 2.0 ** (exponent - 10.0))
        e4m3 = np.where(every & 127 == 127, np.nan, np.where(every < 128, e4m3, -e4m3)).astype(np.float32)
        self.assertEqual(np.nanmax(e4m3), 448)
        for name, values in (("F8_E4M3", e4m3), ("F8_E5M2", e5m2)):
            self.put("e.safetensors", typed({"w": (name, every.reshape(16, 16))}))
            self.convert("e.safetensors", "-o", "e.npz", "--force")
            np.testing.assert_array_equal(np.load(self.folder / "e.npz")["w"], values.reshape(16, 16))
        random = np.random.default_rng(2)
        shape = (130, 257)
        bits = random.integers(0, 120, shape, dtype=np.uint8) | random.integers(0, 2, shape, dtype=np.uint8) << 7
        plain = e4m3[bits].astype(np.float64)
        for scale in ((), (1,), (1, 1), (130,), (130, 1), (2, 3), (1, 257)):
            scales = random.uniform(0.5, 2, scale).astype(np.float32)
            grid = scales.reshape(130, 1) if scale == (130,) else scales
            if scale == (2, 3):
                grid = np.kron(scales, np.ones((128, 128)))[:130, :257]
            if grid.size == 1:
                grid = grid.reshape(())
            expected = (plain * grid.astype(np.float64)).astype(np.float32)
            for ending in ("_scale", "_scale_inv"):
                self.put("s.safetensors", typed({"w.weight": ("F8_E4M3", bits), "w.weight" + ending: ("F32", scales)}))
                for at, part in (("", ()), ("[127:130, 5::9]", np.s_[127:130, 5::9]),
                                 ("[:, 200]", np.s_[:, 200]), ("[129, 100:]", np.s_[129, 100:]),
                                 ("[129, 256]", np.s_[129, 256])):
                    self.convert(f"x=s.safetensors:w.weight{at}", "-o", "x.npy", "--force")
                    self.assert_bits(np.load(self.folder / "x.npy"), np.ascontiguousarray(expected[part]).reshape(
                        expected[part].shape), f"{scale} {at}")
        for scale in ((0,), (0, 1), ()):
            self.put("none.safetensors", typed({"w": ("F8_E4M3", bits[:0]), "w_scale": ("F32", np.ones(scale, "f4"))}))
            self.convert("x=none.safetensors:w", "-o", "x.npy", "--force")
            self.assert_bits(np.load(self.folder / "x.npy"), np.zeros((0, 257), np.float32))
        self.assertIn("F8_E4M3 times scales", self.run_tool("tensor-info", "s.safetensors").out.decode())
        for scales, kind in ((np.ones((3, 3), "f4"), "F32"), (np.ones((130, 257), "f4"), "F32"),
                             (np.ones((1, 1, 2), "f4"), "F32"), (np.ones((2, 3), "i4"), "I32")):
            self.put("bad.safetensors", typed({"w": ("F8_E4M3", bits), "w_scale": (kind, scales)}))
            self.refused("tensor-convert", "x=bad.safetensors:w", status=3,
                         says=["bad.safetensors:w_scale", "expected", "(130, 257)"])

    def test_float8_blocks(self):
        """Blocks of other sizes than 128, in floating-point scales and powers of two (F8_E8M0, U8), against NumPy."""
        random = np.random.default_rng(3)
        e5m2 = (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float64)

        def put(shape, scales, kind="F32", config=None, name="w_scale_inv"):
            path = self.folder / "config.json"
            path.unlink(missing_ok=True)
            if config is not None:
                path.write_text(config if isinstance(config, str) else json.dumps({"quantization_config": config}))
            bits = random.integers(0, 124, shape, dtype=np.uint8) | random.integers(0, 2, shape, dtype=np.uint8) << 7
            self.put("b.safetensors", typed({"w": ("F8_E5M2", bits), name: (kind, scales)}))
            return e5m2[bits]

        def check(shape, count, blocks, kind="F32", config=None, name="w_scale_inv"):
            if kind in ("F8_E8M0", "U8"):
                scales = random.integers(0, 255, count, dtype=np.uint8)
                numbers = 2.0 ** (scales.astype(np.float64) - 127)
            else:
                scales = random.uniform(0.5, 2, count).astype({"F32": "f4", "F64": "f8", "F16": "f2"}[kind])
                numbers = scales.astype(np.float64)
            plain = put(shape, scales, kind, config, name)
            for axis, block in enumerate(blocks):
                numbers = np.repeat(numbers, block, axis).take(range(shape[axis]), axis)
            with np.errstate(over="ignore"):
                expected = (plain * numbers).astype(np.float32)
            for at, part in (("", ()), ("[1::7]", np.s_[1::7]), ("[-1]", -1), ("[..., 40:41]", np.s_[..., 40:41])):
                at = at.replace("..., ", ":, " * (len(shape) - 1))
                self.convert(f"x=b.safetensors:w{at}", "-o", "x.npy", "--force")
                self.assert_bits(np.load(self.folder / "x.npy"), np.ascontiguousarray(expected[part]), f"{shape} {count} {at}")

        for kind in ("F32", "F64", "F16", "F8_E8M0", "U8"):
            check((96, 160), (3, 5), (32, 32), kind)
            check((260, 300), (3, 3), (128, 128), kind)
            check((5, 160), (5, 1), (1, 160), kind)
            check((96, 160), (2, 4), (64, 48), kind, {"weight_block_size": [64, 48]})
            check((96, 160), (1, 4), (96, 48), kind, {"weight_block_size": [64, 48]})
            check((3, 96, 160), (3, 2, 4), (1, 48, 50), kind, {"weight_block_size": [48, 50]})
            check((3, 96, 160), (3, 2, 4), (1, 48, 50), kind, {"weight_block_size": [1, 48, 50]})
            check((7, 160), (7, 3), (1, 60), kind, {"weight_block_size": [60]}, "w_scale")
            check((260, 300), (3, 3), (128, 128), kind, {"weight_block_size": None})
        # Blocks of MX end beyond the row; without the type, 25 numbers or 32 could share a scale.
        for kind in ("F8_E8M0", "U8"):
            check((7, 100), (7, 4), (1, 32), kind)
        blocks = "quantization_config.weight_block_size"
        for shape, count, config, says, hint in (
                ((7, 100), (7, 4), None, ["shape (7, 4)", "(7, 100)"], blocks),
                ((96, 160), (2, 5), {}, ["shape (2, 5)"], blocks),
                ((96, 160), (3, 5), {"weight_block_size": [128, 32]}, ["blocks of 128 x 32".replace("blocks", "block"),
                                                                      "as config.json says"], None),
                ((96, 160), (3, 5), {"weight_block_size": [0, 32]}, ["config.json has a weight_block_size that is no list"],
                 None),
                ((96, 160), (3, 5), {"weight_block_size": [2 ** 29] * 40}, ["config.json has a weight_block_size"], None),
                ((96, 160), (3, 5), {"weight_block_size": 32}, ["config.json has a weight_block_size that is no list"], None),
                ((96, 160), (3, 5), "[1]", ["config.json is not a JSON object"], None)):
            put(shape, np.ones(count, np.float32), config=config)
            self.refused("tensor-convert", "x=b.safetensors:w", status=3, says=says, hint=hint)
        put((96, 160), np.ones((1, 1), np.float32), config="{")  # which is not needed
        self.convert("x=b.safetensors:w", "-o", "x.npy", "--force")
        scales = np.full((2, 96, 5), 120, np.uint8)
        scales[1, 70, 3] = 255
        put((2, 96, 160), scales, "F8_E8M0")
        self.refused("tensor-convert", "x=b.safetensors:w", status=3, says=["w_scale_inv[1, 70, 3] is NaN (255)"])
        self.convert("x=b.safetensors:w[1, 71:]", "-o", "x.npy", "--force")

    def test_float8_blocks_of_a_checkpoint(self):
        """config.json lies beside the name of the file, which may be a link, and is reported as a source."""
        (self.folder / "store").mkdir()
        (self.folder / "model").mkdir()
        scales = np.float32([[1, 2], [4, 8]])
        self.put("store/blob", typed({"w": ("F8_E5M2", np.full((6, 8), 60, np.uint8)), "w_scale_inv": ("F32", scales)}))
        (self.folder / "model/m.safetensors").symlink_to("../store/blob")
        (self.folder / "model/config.json").write_text(json.dumps({"quantization_config": {"weight_block_size": [4, 6]}}))
        done = self.run_tool("tensor-convert", "x=model/m.safetensors:w", "-o", "x.npy", "--json").json()
        expected = np.repeat(np.repeat(scales, 4, 0), 6, 1)[:6, :8]
        np.testing.assert_array_equal(np.load(self.folder / "x.npy"), expected)
        self.assertIn("config.json", json.dumps(done))
        (self.folder / "model/config.json").unlink()
        os.mkfifo(self.folder / "model/config.json")
        self.refused("tensor-convert", "x=model/m.safetensors:w", status=3, says=["config.json is no regular file"])

    def test_heads_of_activations(self):
        """--heads: outputs of the projections of q, k and v, as nnsight caches them, by head."""
        random = np.random.default_rng(4)
        base = "model.model.layers.{}.self_attn."
        heads = {"q_proj": 4, "k_proj": 2, "v_proj": 2, "o_proj": 0}
        cache = {base.format(layer) + name: random.normal(size=(2, 70, (count or 4) * 5)).astype(np.float32)
                 for layer in range(2) for name, count in heads.items()}
        np.savez(self.folder / "cache.npz", **cache)

        def split(array, count):
            return np.ascontiguousarray(array.reshape(*array.shape[:-1], count, -1).swapaxes(-2, -3)) if count else array

        words = ["cache.npz", "--heads=4", "--kv-heads=2", "--force"]
        for name, more in (("c.h5", []), ("c.h5", ["--memory=4K"]), ("c.npz", []), ("c.safetensors", []), ("c.h5", ["--dtype=f16"])):
            self.convert(*words, *more, "-o", name)
            if name == "c.h5":
                with h5py.File(self.folder / name) as file:
                    found = {path: file[path.replace(".", "/")][()] for path in cache}
            else:
                found = np.load(self.folder / name) if name == "c.npz" else read_safetensors((self.folder / name).read_bytes())
            for path, array in cache.items():
                expected = split(array, heads[path.rpartition(".")[2]])
                self.assert_bits(found[path], expected.astype(np.float16) if "--dtype=f16" in more else expected, f"{path} {name}")
        self.convert("q=cache.npz:" + base.format(1) + "q_proj[0, :3]", "--heads=4", "-o", "q.npy")
        self.assert_bits(np.load(self.folder / "q.npy"), split(cache[base.format(1) + "q_proj"][0, :3], 4), "q")
        np.savez(self.folder / "bare.npz", q=np.ones((3, 8)), k=np.ones(8))
        np.savez(self.folder / "deep.npz", q=np.ones((2, 4, 5, 8)))
        with h5py.File(self.folder / "layout.h5", "w") as file:
            file["q"] = np.ones((2, 3, 8))
            file.attrs["attn_layout"] = "blhd"
        for arguments, status, says in (
                (["layout.h5", "--heads=2"], 2, ["layout.h5 has attn_layout"]),
                (["cache.npz", "--heads=3"], 3, ["k_proj is (2, 70, 10) of float32", "multiple of 3"]),
                (["bare.npz", "--heads=2"], 3, ["k is (8) of float64"]),
                (["x=bare.npz:q", "--heads=2"], 2, ["--heads splits", "there is none"]),
                (["bare.npz", "--kv-heads=2"], 2, ["--kv-heads requires --model or --heads"]),
                (["deep.npz", "--heads=4"], 3, ["q is (2, 4, 5, 8)", "has an axis of 4 already"]),
                (["deep.npz", "--heads=5"], 3, ["q is (2, 4, 5, 8)", "multiple of 5"])):
            self.refused("tensor-convert", *arguments, status=status, says=says)
        # Heads of keys have as many channels as those of queries.
        np.savez(self.folder / "shared.npz", **{"0/q_proj": np.ones((2, 5, 32)), "0/k_proj": np.ones((2, 5, 16)),
                                               "1/k_proj": np.ones((2, 5, 8)), "0/v_proj": np.ones((2, 5, 24))})
        for more, depth in (([], 2), (["--kv-heads=2"], 8)):
            self.refused("tensor-convert", "shared.npz", "--heads=8", *more, status=3,
                         says=[f"0/k_proj would have heads of {depth} channels", "0/q_proj of 4"], hint="--kv-heads 4")
        self.convert("shared.npz", "--heads=8", "--kv-heads=4", "-o", "shared.h5")
        np.savez(self.folder / "named.npz", **{"layers.0.q_proj.output": np.ones((2, 5, 32))})
        self.refused("tensor-convert", "named.npz", "--heads=4", status=2, says=["there is none"],
                     hint="q=named.npz:layers.0.q_proj.output")
        self.convert("q=named.npz:layers.0.q_proj.output", "--heads=4", "-o", "named.h5")

    def test_strings(self):
        words = np.array(["the", "", "naïve", "日本", "𝄞x"])
        self.put("w.npy", npy(words))
        self.put("b.npy", npy(words.astype(words.dtype.newbyteorder(">"))))
        self.put("s.npy", npy(np.array([b"one", b"", b"three"])))
        self.convert("w=w.npy", "b=b.npy[::2]", "s=s.npy", "-o", "w.h5")
        found = self.read("w.h5")
        self.assertEqual(found["w"].tolist(), words.tolist())
        self.assertEqual(found["b"].tolist(), words[::2].tolist())
        self.assertEqual(found["s"].tolist(), ["one", "", "three"])

    def test_a_stream_is_a_bundle(self):
        self.refused("attn-compute", status=3, stdin=npy(numbers("f4", (3, 2))),
                     says=["standard input", ".npy", "HDF5"], hint="tensor-convert")


class Writing(Arrays):

    def test_npy_is_what_numpy_saves(self):
        for dtype in DTYPES:
            for shape in SHAPES:
                values = numbers(dtype, shape)
                self.write("a.h5", a=values)
                self.convert("a.h5", "-o", "a.npy", "--force")
                self.assertEqual(self.get("a.npy"), npy(values), (dtype, shape))

    def test_npz(self):
        arrays = {f"{np.dtype(t).name}/{i}": numbers(t, s)
                  for t in DTYPES for i, s in enumerate(SHAPES)} | {"ü": np.arange(3.0)}
        self.put("a.safetensors", safetensors(arrays))
        self.convert("a.safetensors", "-o", "a.npz")
        with np.load(self.folder / "a.npz") as found:
            self.assertEqual(set(found.files), set(arrays))
            for name, values in arrays.items():
                self.assert_bits(found[name], values, name)
        with zipfile.ZipFile(self.folder / "a.npz") as archive:
            self.assertIsNone(archive.testzip())
            content = self.get("a.npz")
            for member in archive.infolist():
                at = member.header_offset
                name, extra = struct.unpack_from("<HH", content, at + 26)
                at += 30 + name + extra
                self.assertEqual(at % 64, 0, member.filename)
                self.assertEqual(content[at:at + 6], b"\x93NUMPY")
        first = self.get("a.npz")
        self.convert("a.npz", "-o", "b.npz")  # read by the tool, and written again
        self.assertEqual(self.get("b.npz"), first)

    def test_safetensors_is_what_the_reference_writes(self):
        arrays = {f"x{i}.{np.dtype(t).name}": numbers(t, s)
                  for t in DTYPES for i, s in enumerate(SHAPES)}
        arrays["brain"] = brain(np.arange(7))
        arrays['quote"\\ü'] = np.arange(5, dtype=np.uint8)
        content = safetensors(arrays)
        self.put("a.safetensors", content)
        self.convert("a.safetensors", "-o", "b.safetensors")
        self.assertEqual(self.get("b.safetensors"), content)

    def test_round_trips(self):
        arrays = {np.dtype(t).name: numbers(t, (3, 4, 5)) for t in DTYPES}
        self.write("a.h5", **arrays)
        self.convert("a.h5", "-o", "a.npz")
        self.convert("a.npz", "-o", "a.safetensors")
        self.convert("a.safetensors", "-o", "b.h5")
        found = self.read("b.h5")
        for name, values in arrays.items():
            self.assert_bits(found[name], values, name)

    def test_streams(self):
        self.write("a.h5", a=np.arange(6.0), history="h")
        out = self.convert("a=a.h5:/a", "--to", "npy").out
        self.assertEqual(out, npy(np.arange(6.0)))
        self.shell("cat a.h5 | tensor-convert - -o a.npz && tensor-convert a.npz | "
                   "tensor-convert --to safetensors > a.safetensors")
        self.assert_bits(read_safetensors(self.get("a.safetensors"))["a"], np.arange(6.0))

    def test_dtype(self):
        random = np.random.default_rng(3)
        values = np.concatenate([random.normal(size=5000) * 10.0**random.integers(-9, 4, 5000),
                                 [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 2**-24,
                                  2**-25, 2**-25 * 1.0001, 1 + 2**-11, 1 + 2**-11 + 2**-40]])
        self.write("a.h5", {"note": "kept"}, x=values, n=np.arange(3), tokens=["a"])
        for name, numpy in (("f16", np.float16), ("f32", np.float32), ("f64", np.float64)):
            expected = values.astype(numpy)
            self.convert("a.h5", "--dtype", name, "-o", "b.h5", "--force")
            found = self.read("b.h5")
            same = (found["x"] == expected) | (np.isnan(found["x"]) & np.isnan(expected))
            self.assertTrue(same.all(), name)
            self.assertEqual(found["x"].dtype, expected.dtype)
            self.assertEqual(np.signbit(found["x"]).tolist(), np.signbit(expected).tolist())
            self.assert_bits(found["n"], np.arange(3))
            self.assertEqual(found.attributes["note"], "kept")
        self.convert("x=a.h5:/x", "--dtype", "bf16", "-o", "b.safetensors")
        found = widened(read_safetensors(self.get("b.safetensors"))["x"])
        finite = np.isfinite(values)
        # Nearest: at most half the distance of neighbours, a relative 2^-8.
        self.assertTrue((np.abs(found[finite] - values[finite])
                         <= np.abs(values[finite]) * 2.0**-8).all())
        self.assertEqual(np.isnan(found).sum(), 1)
        self.refused("tensor-convert", "a.h5", "--dtype", "bf16", status=2, says=["bf16"])
        self.write("big.h5", x=np.array([1e5]))
        self.refused("tensor-convert", "big.h5", "--dtype", "f16", status=4,
                     says=["big.h5:/x", "100000", "float16"])

    def test_values_that_a_format_cannot_store(self):
        self.write("a.h5", {"attn_scheme": "dnas"}, x=np.arange(3.0), tokens=["a"], group__y=[1.0])
        self.write("one.h5", {"attn_scheme": "dnas"}, x=np.arange(3.0), group__y=[1.0])
        done = self.convert("one.h5", "-o", "a.npy")
        for left_out in ("group", "attn_scheme"):
            self.assertIn(left_out, done.err)
        self.assertEqual(np.load(self.folder / "a.npy").tolist(), [0, 1, 2])
        self.refused("tensor-convert", "t=a.h5:/tokens", status=3, says=["tokens", "string"],
                     output="b.safetensors")
        self.convert("t=a.h5:/tokens", "-o", "t.npy")
        self.assertEqual(np.load(self.folder / "t.npy").tolist(), ["a"])
        self.write("b.h5", x=np.arange(3.0), y=np.arange(3.0))
        self.refused("tensor-convert", "b.h5", status=3, says=["one array", "2"], output="b.npy")

    def test_empty_conversions_are_errors(self):
        np.savez(self.folder / "none.npz")
        self.put("none.safetensors", safetensors({}))
        self.write("none.h5", {"note": "alone"})
        self.write("groups.h5", group__x=[1.0])
        self.write("words.h5", tokens=["a"])
        for source in ("none.npz", "none.safetensors", "none.h5"):
            for output in ("x.h5", "x.npz", "x.safetensors"):
                self.refused("tensor-convert", source, status=3, says=[source, "no datasets"],
                             output=output)
        self.refused("tensor-convert", "groups.h5", status=3, says=["groups.h5", "only groups"],
                     hint="group", output="x.npy")
        self.refused("tensor-convert", "words.h5", status=3, says=["words.h5", "only strings"],
                     output="x.safetensors")
        self.assertIn("0 datasets and 1 group -> x.h5", self.convert("groups.h5", "-o", "x.h5").err)
        self.assertEqual(list(self.read("x.h5")), ["group/x"])

    def test_words_are_counted(self):
        self.write("a.h5", x=np.arange(3.0), tokens=["a", "b"])
        done = self.convert("a.h5", "-o", "b.h5", "--json")
        self.assertIn("2 datasets -> b.h5 (h5)", done.err)
        self.assertEqual(done.json()["result"]["datasets"], 2)
        self.assertEqual(sorted(o["name"] for o in done.json()["outputs"]), ["tokens", "x"])
        self.assertIn("tokens  2  string", self.convert("a.h5", "--dry-run").out.decode())

    def test_endings(self):
        self.write("a.h5", x=np.arange(3.0))
        for name, warned in (("b.xyz", True), ("b.tensors", True), ("b.hdf5", False), ("b", False)):
            self.assertEqual("warning" in self.convert("a.h5", "-o", name).err, warned)
            self.assertEqual(list(self.read(name)), ["x"])
        self.assertNotIn("warning", self.convert("a.h5", "--to=h5", "-o", "c.xyz").err)
        self.assertNotIn("warning", self.shell("tensor-convert a.h5 > d.h5").err)

    def test_bytes_that_are_not_text(self):
        for word, wrong in ((b"caf\xc3\xa9", None), (b"\xf0\x9f\x99\x82", None), (b"", None),
                            (b"caf\xe9", "UTF-8"), (b"\xc0\xaf", "UTF-8"),
                            (b"\xed\xa0\x80", "UTF-8"), (b"\xf4\x90\x80\x80", "UTF-8"),
                            (b"\xe2\x82", "UTF-8"), (b"\x80", "UTF-8"), (b"\xff", "UTF-8"),
                            (b"a\0b", "NUL")):
            with self.subTest(word=word):
                words = np.array([[b"a", b"b", b"c"], [b"d", word, b"e"]], "S8")
                self.put("words.npy", npy(words))
                if wrong is None:
                    self.convert("tokens=words.npy", "-o", "x.h5", "--force")
                    self.assertEqual(self.read("x.h5")["tokens"][1, 1].encode(), word)
                else:
                    self.refused("tensor-convert", "tokens=words.npy", status=3,
                                 says=["words.npy", "[1, 1]", wrong])

    def test_attributes_and_groups_stay(self):
        self.write("a.h5", {"attn_scheme": "dnas"}, x=np.arange(3.0), tokens=["a"], group__y=[1.0])
        source = "a.h5"
        for target in ("b.h5", "c.npz", "d.safetensors", "e.npz", "f.h5"):
            done = self.convert(source, "-o", target)
            self.assertNotIn("warning", done.err)
            source = target
        for name in ("b.h5", "f.h5"):
            found = self.read(name)
            self.assertEqual(set(found), {"x", "tokens", "group/y"})
            self.assertEqual(found["tokens"].tolist(), ["a"])
            self.assertEqual(found.attributes["attn_scheme"], "dnas")
            self.assertIn("tensor-convert", found.attributes["history"])
        self.assertEqual(len(found.attributes["history"].splitlines()), 5)
        # --dtype rounds what lies in groups, too.
        self.convert("a.h5", "--dtype", "f16", "-o", "g.npz")
        self.assertEqual(np.load(self.folder / "g.npz")["group/y"].dtype, np.float16)
        self.convert("a.h5", "--dtype", "f16", "-o", "g.h5")
        self.assertEqual(self.read("g.h5")["group/y"].dtype, np.float16)
        self.put("s.safetensors", safetensors({"a.b.c": np.arange(3.0), "d": np.arange(2)}))
        self.convert("s.safetensors", "--dtype", "f16", "-o", "s.h5")
        self.assert_bits(self.read("s.h5")["a/b/c"], np.arange(3, dtype=np.float16))
        self.assert_bits(self.read("s.h5")["d"], np.arange(2))

    def test_plain_arrays_stay_plain(self):
        self.put("a.safetensors", safetensors({"x": np.arange(3.0)}))
        self.convert("a.safetensors", "-o", "a.npz")
        self.assertEqual(np.load(self.folder / "a.npz").files, ["x"])
        self.convert("a.npz", "-o", "b.safetensors")
        self.assertEqual(self.get("b.safetensors"), self.get("a.safetensors"))

    def test_an_existing_output_is_kept(self):
        self.write("a.h5", x=np.arange(3.0))
        for name in ("x.npy", "x.npz", "x.safetensors"):
            self.put(name, b"mine")
            self.refused("tensor-convert", "a.h5", status=5, says=[name, "exists"], output=name)
            self.assertEqual(self.get(name), b"mine")
            self.convert("a.h5", "-o", name, "--force")
            self.assertNotEqual(self.get(name), b"mine")
        self.refused("tensor-convert", "a.h5", status=5, says=["nowhere"], output="nowhere/x.npz")

    def test_a_full_disk(self):
        self.write("a.h5", x=np.zeros(300000))
        for name in ("x.npy", "x.npz", "x.safetensors"):
            done = self.shell(f"ulimit -f 100; tensor-convert a.h5 -o {name}", status=None)
            self.assertEqual(done.status, 5, done.err)
            self.assertRegex(done.err, r"\Atensor-convert: error: .*cannot be written: .+\n\Z")
            self.assertEqual(sorted(os.listdir(self.folder)), ["a.h5"])

    def test_bytes_are_the_same_each_time(self):
        self.write("a.h5", **qkv())
        for name in ("x.npz", "x.safetensors"):
            contents = set()
            for memory in ("1K", "1G"):
                self.convert("a.h5", "-o", name, "--force", "--memory", memory)
                contents.add(self.get(name))
            self.assertEqual(len(contents), 1)

    def test_dry_run(self):
        self.write("a.h5", **qkv())
        done = self.convert("a.h5", "-o", "x.npz", "--dry-run")
        self.assertIn("2 x 9 x 4", done.out.decode())
        self.assertEqual(os.listdir(self.folder), ["a.h5"])


if __name__ == "__main__":
    unittest.main()
