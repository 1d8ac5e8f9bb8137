"""Bundles on disk: lazy arrays, attributes and groups, beside h5py in the same process."""

import tempfile
import unittest
from pathlib import Path

import h5py
import numpy

import attnkit

RANDOM = numpy.random.default_rng(5)


class Bundles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="attnkit-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "a.h5"
        self.q = RANDOM.normal(size=(2, 9, 4)).astype("float32")
        self.k = RANDOM.normal(size=(2, 7, 4)).astype("float32")
        with h5py.File(self.file, "w") as file:
            file.attrs["model"] = "small/decoder"
            file.attrs["sizes"] = [1.5, 2.5]
            for layer in (0, 10, 2):
                group = file.create_group(f"text/layer{layer}")
                group.attrs["attn_scale"] = 0.5 + layer
                group["q"], group["k"] = self.q, self.k
            file["tokens"] = ["a", "\u00e9", "c"]
            file["half"] = self.q.astype("float16")
            file["empty"] = numpy.empty((0, 3))

    def test_groups_and_attributes(self):
        bundle = attnkit.open(self.file)
        self.assertEqual(set(bundle), {"text", "tokens", "half", "empty"})
        self.assertEqual(bundle.attributes, {"model": "small/decoder", "sizes": [1.5, 2.5]})
        self.assertEqual(list(bundle["text"]), ["layer0", "layer2", "layer10"])
        self.assertEqual(bundle["text"]["layer2"].attributes, {"attn_scale": 2.5})
        self.assertEqual(bundle["text/layer2/q"].attnkit_address, f"{self.file}:/text/layer2/q")
        self.assertEqual(bundle["text"]["layer2"]["q"].attnkit_address, f"{self.file}:/text/layer2/q")
        inner = attnkit.open(f"{self.file}:/text")
        self.assertEqual(inner["layer2"]["q"].attnkit_address, f"{self.file}:/text/layer2/q")
        with self.assertRaises(KeyError):
            bundle["nothing"]

    def test_arrays_are_read_by_parts(self):
        array = attnkit.open(self.file)["text/layer0/q"]
        self.assertEqual((array.dtype, array.shape, array.ndim, len(array)), ("float32", (2, 9, 4), 3, 2))
        for index in (..., 0, -1, (1, 2), (1, 2, 3), slice(None), (slice(None), slice(2, 5)), (..., 1), (0, ..., -1),
                      (slice(None, None, -1), 0), (1, slice(1, 9, 3)), (slice(5, 2),), slice(1, 99)):
            with self.subTest(index=index):
                numpy.testing.assert_array_equal(array[index], self.q[index])
        self.assertEqual(numpy.asarray(array).tobytes(), self.q.tobytes())
        for index in (2, (0, 9), (0, 0, 0, 0), (..., ...)):
            with self.subTest(index=index), self.assertRaises(IndexError):
                array[index]

    def test_types(self):
        bundle = attnkit.open(self.file)
        self.assertEqual(bundle["tokens"][...].tolist(), ["a", "\u00e9", "c"])
        self.assertEqual(bundle["tokens"][1], "\u00e9")
        self.assertEqual(bundle["half"][...].dtype, numpy.float16)
        self.assertEqual(bundle["empty"][...].shape, (0, 3))

    def test_other_formats(self):
        numpy.savez(self.folder / "a.npz", q=self.q, k=self.k)
        bundle = attnkit.open(self.folder / "a.npz")
        self.assertEqual(bundle["q"][1].tobytes(), self.q[1].tobytes())
        # Dots separate groups.
        numpy.savez(self.folder / "b.npz", **{"blocks.0.q": self.q, "blocks.0.k": self.k, "blocks.0": [1.0], "a//b": [2.0]})
        bundle = attnkit.open(self.folder / "b.npz")
        for found in (bundle["blocks.0.q"], bundle["blocks"]["0"]["q"], bundle["blocks/0/q"], bundle["blocks"]["0.q"]):
            self.assertEqual(found[...].tobytes(), self.q.tobytes())
        self.assertEqual(sorted(bundle), ["a//b", "blocks", "blocks.0"])
        self.assertEqual([bundle[name][0] for name in ("a//b", "blocks.0")], [2, 1])
        self.assertEqual(sorted(bundle["blocks"]["0"]), ["k", "q"])

    def test_a_bundle_stands_for_arrays(self):
        bundle = attnkit.open(self.file)
        expected = attnkit.stats(self.q, self.k, scale=2.5)
        for arguments in (
            (f"{self.file}:/text/layer2",), (bundle["text/layer2"],),
        ):
            self.assertEqual(attnkit.stats(*arguments).unas_col_sum.tobytes(), expected.unas_col_sum.tobytes())
        lazy = attnkit.stats(bundle["text/layer2/q"], bundle["text/layer2"]["k"], scale=2.5)
        self.assertEqual(lazy.unas_col_sum.tobytes(), expected.unas_col_sum.tobytes())
        mixed = attnkit.stats(self.q, bundle["text/layer2/k"], scale=2.5)
        self.assertEqual(mixed.unas_col_sum.tobytes(), expected.unas_col_sum.tobytes())
        with self.assertWarnsRegex(attnkit.Warning, "tokens does not apply to the groups"):
            every = attnkit.stats(bundle, each="/text/*")
        self.assertEqual(every["text/layer2/unas_col_sum"].tobytes(), expected.unas_col_sum.tobytes())

    def test_errors(self):
        with self.assertRaisesRegex(attnkit.InputError, "no such file"):
            attnkit.open(self.folder / "b.h5")
        with self.assertRaisesRegex(attnkit.InputError, "not an HDF5 file"):
            (self.folder / "b.h5").write_text("text, text, text, text")
            attnkit.open(self.folder / "b.h5")

    def test_beside_h5py(self):
        # Both have conversions of their own for strings, in one HDF5.
        def attributes():
            with h5py.File(self.file) as file:
                return dict(file.attrs)["model"], file["tokens"][()].tolist()

        before = attributes()
        for _ in range(50):
            attnkit.open(self.file)["tokens"][...]
            attnkit.stats(f"{self.file}:/text/layer2")
            self.assertEqual(attributes(), before)


if __name__ == "__main__":
    unittest.main()
