"""Datasets whose values lie in other files: virtual ones, external links, external raw storage.
They are looked up relative to the file that names them, and nowhere else."""

import os
import shutil
import unittest
from pathlib import Path

import h5py
import numpy as np

from attn import ToolTest

SHAPE = (3, 5, 4)


def normal(seed, shape=SHAPE):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


Q, K, V = normal(1), normal(2), normal(3)


def virtual(path, sources, name="q", shape=SHAPE, dtype="f4", **more):
    """A virtual dataset; `sources`: tuples (key, file, dataset, shape of the source[, its key])."""
    layout = h5py.VirtualLayout(shape, dtype)
    for key, file, dataset, source_shape, *source_key in sources:
        source = h5py.VirtualSource(file, dataset, source_shape, dtype)
        layout[key] = source[source_key[0]] if source_key else source
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset(name, layout, **more)


def rest(path, **datasets):
    with h5py.File(path, "a") as file:
        for name, values in (datasets or {"k": K, "v": V}).items():
            file[name] = values


class Sources(ToolTest):

    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        (self.data / "parts").mkdir(parents=True)
        self.away = self.folder / "away"
        self.away.mkdir()
        self.write("plain.h5", q=Q, k=K, v=V)
        self.expected = self.compute("plain.h5")["out"]
        self.make_virtual("parts/")
        self.make_link("parts/whole.h5")
        self.make_raw("parts/q.raw")

    def make_virtual(self, prefix):
        for head in range(3):
            with h5py.File(self.data / "parts" / f"{head}.h5", "w") as file:
                file["x"] = Q[head]
        virtual(self.data / "virtual.h5",
                [(head, f"{prefix}{head}.h5", "x", SHAPE[1:]) for head in range(3)])
        rest(self.data / "virtual.h5")

    def make_link(self, target):
        with h5py.File(self.data / "parts" / "whole.h5", "w") as file:
            file["inner/q"] = Q
        with h5py.File(self.data / "link.h5", "w") as file:
            file["q"] = h5py.ExternalLink(target, "/inner/q")
        rest(self.data / "link.h5")

    def make_raw(self, target):
        half = Q.nbytes // 2
        (self.data / "parts" / "q.raw").write_bytes(b"head" + Q.tobytes()[:half])
        (self.data / "parts" / "q2.raw").write_bytes(Q.tobytes()[half:])
        with h5py.File(self.data / "raw.h5", "w") as file:
            file.create_dataset("q", SHAPE, "f4", external=[
                (target, 4, half), (target.replace("q.raw", "q2.raw"), 0, half)])
        rest(self.data / "raw.h5")

    FILES = {"virtual.h5": "virtual", "link.h5": "external link", "raw.h5": "raw storage"}
    SOURCES = {"virtual.h5": "1.h5", "link.h5": "whole.h5", "raw.h5": "q2.raw"}

    def assert_refused(self, name, *says, hint=None, **more):
        """Refused by every command that has to read its `q`, and no values are listed."""
        for tool, *arguments in (["attn-compute"], ["attn-compute", "--only"], ["tensor-convert"]):
            self.refused(tool, *arguments, name, status=3, says=[f"{name}:/q ", *says],
                         hint=hint, **more)
        listing = self.run_tool("tensor-info", name, status=3, **more)
        self.assertRegex(listing.out.decode(), r"(?m)^q .* unreadable$")
        self.assertIn(says[-1], listing.err)
        self.refused("tensor-compare", name, "plain.h5", output=None, status=3, says=says, **more)

    def test_sources_beside_the_file(self):
        for name, kind in self.FILES.items():
            with self.subTest(kind=kind):
                done = self.run_tool("attn-compute", f"data/{name}", "-o", "out.h5", "--force",
                                     "--json=report.json")
                np.testing.assert_array_equal(self.read("out.h5")["out"], self.expected)
                self.assertIn(f"note: data/{name}:/q took values from ", done.err)
                (source,) = self.read_json("report.json")["sources"]
                self.assertEqual(source["address"], f"data/{name}:/q")
                self.assertEqual(source["kind"], kind)
                self.assertIn(str((self.data / "parts" / self.SOURCES[name]).resolve()),
                              source["files"])
                quiet = self.run_tool("attn-compute", "-q", f"data/{name}", "-o", "out.h5", "--force")
                self.assertEqual(quiet.err, "")
                # The copy holds the values and refers to no other file.
                shutil.copy(self.folder / "out.h5", self.away / "alone.h5")
                self.run_tool("tensor-compare", "--datasets", "q", "away/alone.h5", "plain.h5")
                self.assertNotIn("sources", self.run_tool(
                    "tensor-info", "--json", "away/alone.h5").json())
                self.run_tool("tensor-compare", f"data/{name}", "plain.h5")

    def test_from_another_folder_and_through_a_link(self):
        (self.away / "link.h5").symlink_to(self.data / "virtual.h5")
        for name in self.FILES:
            (self.away / f"to-{name}").symlink_to(self.data / name)
            for path in (self.data / name, Path("..") / "data" / name, f"to-{name}"):
                with self.subTest(path=path):
                    found = self.compute(path, cwd=self.away)["out"]
                    np.testing.assert_array_equal(found, self.expected)

    def test_a_missing_source_is_not_searched_elsewhere(self):
        for name, source in self.SOURCES.items():
            with self.subTest(name=name):
                (self.away / "parts").mkdir(exist_ok=True)
                shutil.move(self.data / "parts" / source, self.away / "parts" / source)
                # It exists relative to this folder, and so in the folders of these variables.
                shutil.copy(self.folder / "plain.h5", self.away)
                variables = {f"HDF5_{kind}_PREFIX": str(self.away)
                             for kind in ("VDS", "EXT", "EXTFILE")}
                for environment in ({}, variables):
                    path = f"../data/{name}"
                    self.refused("attn-compute", path, status=3, cwd=self.away,
                                 environment=environment,
                                 says=[f"{path}:/q ", f"parts/{source}", "there is no such file"])
                self.assert_refused(f"data/{name}", source, "there is no such file")

    def test_prefixes_have_no_effect(self):
        """HDF5 would read other values, in the folders of its variables, under the names that were checked."""
        shutil.copytree(self.data, self.away / "decoys")
        self.away = self.away / "decoys"
        for part in (self.away / "parts").iterdir():
            if part.suffix == ".raw":
                part.write_bytes(bytes(part.stat().st_size))
            else:
                with h5py.File(part, "r+") as file:
                    values = file["inner/q"] if "inner" in file else file["x"]
                    values[...] = 0
        for variable in ("HDF5_VDS_PREFIX", "HDF5_EXT_PREFIX", "HDF5_EXTFILE_PREFIX"):
            for name in self.FILES:
                with self.subTest(variable=variable, name=name):
                    more = {"environment": {variable: str(self.away)}}
                    self.run_tool("tensor-compare", f"data/{name}", "plain.h5", **more)
                    self.run_tool("tensor-convert", f"data/{name}", "--force", "-o", "copy.h5", **more)
                    np.testing.assert_array_equal(self.read("copy.h5")["q"], Q)
                    found = self.run_tool("attn-compute", f"data/{name}", "--force", "-o", "out.h5", **more)
                    np.testing.assert_array_equal(self.read("out.h5")["out"], self.expected)

    def test_streams_have_no_folder(self):
        for name in self.FILES:
            with self.subTest(name=name):
                content = (self.data / name).read_bytes()
                for more in ([], ["--allow-external"]):
                    self.refused("attn-compute", *more, stdin=content, status=3,
                                 says=["standard input:/q ", "a stream has no folder"],
                                 hint="name the file")

    def test_sources_that_are_too_short_or_of_another_shape(self):
        with h5py.File(self.data / "parts" / "1.h5", "r+") as file:
            for shape, says in (((4, 4), "(4, 4)"), ((4, 5), "(4, 5)"), ((20,), "(20)"),
                                ((5, 4, 2), "(5, 4, 2)"), ((6, 4), "(6, 4)")):
                del file["x"]
                file["x"] = np.ones(shape, np.float32)
                file.flush()
                with self.subTest(shape=shape):
                    shutil.copy(file.filename, self.folder / "copy")
                    self.assert_with_copy(file.filename, says)
        raw = self.data / "parts" / "q2.raw"
        raw.write_bytes(raw.read_bytes()[:-1])
        self.assert_refused("data/raw.h5", "q2.raw", "expected at least 120")

    def assert_with_copy(self, source, says):
        """While the writer has the file open, its content is in a copy."""
        folder = self.folder / "shape"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.data, folder)
        self.assert_refused("shape/virtual.h5", "parts/1.h5", says)

    def test_sources_of_other_kinds(self):
        part = self.data / "parts" / "1.h5"
        part.write_bytes(b"this is not HDF5" * 100)
        self.assert_refused("data/virtual.h5", "parts/1.h5", "not an HDF5 file")
        with h5py.File(part, "w") as file:
            file["y"] = Q[0]
        self.assert_refused("data/virtual.h5", "parts/1.h5", "there is no dataset /x")
        with h5py.File(part, "w") as file:
            file.create_group("x")
        self.assert_refused("data/virtual.h5", "parts/1.h5", "there is no dataset /x")
        part.unlink()
        part.mkdir()
        self.assert_refused("data/virtual.h5", "parts/1.h5", "not a regular file")
        with h5py.File(self.data / "parts" / "whole.h5", "w") as file:
            file["other"] = Q
        self.assert_refused("data/link.h5", "there is no parts/whole.h5:/inner/q")

    def test_sources_outside_the_folder(self):
        shutil.move(self.data / "parts", self.folder / "outside")
        for prefix in ("../outside/", f"{self.folder}/outside/", "parts/"):
            for name in self.FILES:
                (self.data / name).unlink()
            # A file reached through a symbolic link to the outside counts as outside.
            if prefix == "parts/":
                (self.data / "parts").symlink_to(self.folder / "outside")
            else:
                (self.data / "parts").mkdir(exist_ok=True)
            self.make_virtual(prefix)
            self.make_link(prefix + "whole.h5")
            self.make_raw(prefix + "q.raw")
            if prefix != "parts/":
                shutil.rmtree(self.data / "parts")
            for name in self.FILES:
                with self.subTest(prefix=prefix, name=name):
                    self.assert_refused(f"data/{name}", "outside", hint=None)
                    self.refused("attn-compute", f"data/{name}", status=3, says=["outside"],
                                 hint="--allow-external")
                    found = self.compute("--allow-external", f"data/{name}")["out"]
                    np.testing.assert_array_equal(found, self.expected)
                    self.run_tool("tensor-compare", "--allow-external", f"data/{name}", "plain.h5")
                    self.run_tool("tensor-convert", "--allow-external", f"data/{name}", "-o",
                                  "/dev/null")

    def test_sources_of_sources(self):
        # Each is found relative to the file that names it.
        deep = self.data / "parts" / "deep"
        deep.mkdir()
        virtual(self.data / "parts" / "middle.h5", [(np.s_[:], "deep/end.h5", "z", SHAPE)], "y")
        with h5py.File(deep / "end.h5", "w") as file:
            file["z"] = Q
        # Not this one, which is beside the first file.
        (self.data / "deep").mkdir()
        with h5py.File(self.data / "deep" / "end.h5", "w") as file:
            file["z"] = Q + 1
        virtual(self.data / "top.h5", [(np.s_[:], "parts/middle.h5", "y", SHAPE)])
        rest(self.data / "top.h5")
        np.testing.assert_array_equal(self.compute("data/top.h5")["out"], self.expected)
        (deep / "end.h5").unlink()
        self.refused("attn-compute", "data/top.h5", status=3, says=["deep/end.h5", "no such file"])
        # A link to a file that leads further, to the outside.
        with h5py.File(deep / "end.h5", "w") as file:
            file["z"] = h5py.ExternalLink("../../../plain.h5", "/q")
        self.refused("attn-compute", "data/top.h5", status=3, says=["plain.h5", "outside"],
                     hint="--allow-external")
        np.testing.assert_array_equal(self.compute("--allow-external", "data/top.h5")["out"],
                                      self.expected)

    def test_rings_end(self):
        virtual(self.folder / "self.h5", [(np.s_[:], ".", "q", SHAPE)])
        rest(self.folder / "self.h5")
        self.refused("attn-compute", "self.h5", status=3, says=["more than 16 virtual datasets"])
        for a, b in (("a.h5", "b.h5"), ("b.h5", "a.h5")):
            virtual(self.folder / a, [(np.s_[:], b, "q", SHAPE)])
            rest(self.folder / a)
        self.refused("attn-compute", "a.h5", status=3, says=["more than 16 virtual datasets"])
        for a, b in (("c.h5", "d.h5"), ("d.h5", "c.h5")):
            with h5py.File(self.folder / a, "w") as file:
                file["q"] = h5py.ExternalLink(b, "/q")
            rest(self.folder / a)
        self.refused("attn-compute", "c.h5", status=3, says=["c.h5:/q leads through more than 40"])
        # Two files whose groups link to each other: each is copied once.
        for a, b in (("e.h5", "f.h5"), ("f.h5", "e.h5")):
            with h5py.File(self.folder / a, "w") as file:
                file.update({"q": Q, "k": K, "v": V, "other": h5py.ExternalLink(b, "/")})
        self.run_tool("attn-compute", "e.h5", "-o", "ring.h5")
        ring = self.read("ring.h5")
        self.assertIn("other/q", ring)

    def test_a_group_in_another_file(self):
        with h5py.File(self.data / "groups.h5", "w") as file:
            file["layer"] = h5py.ExternalLink("virtual.h5", "/")
        for arguments in (["data/groups.h5:/layer"], ["--each", "/layer", "data/groups.h5"]):
            found = self.compute(*arguments)
            name = "layer/out" if "--each" in arguments else "out"
            np.testing.assert_array_equal(found[name], self.expected)

    def test_selections(self):
        # Interleaved parts, slices of sources, unmapped parts, many sources.
        whole = normal(7, (12, 10))
        for n in range(2):
            with h5py.File(self.folder / f"half{n}.h5", "w") as file:
                file["x"] = whole[n::2]
        with h5py.File(self.folder / "wide.h5", "w") as file:
            file["x"] = np.pad(whole, ((3, 2), (1, 4)))
        rows = [((n, np.s_[:]), f"row{n}.h5", "x", (10,)) for n in range(12)]
        for n in range(12):
            with h5py.File(self.folder / f"row{n}.h5", "w") as file:
                file["x"] = whole[n].astype(">f8" if n % 2 else "f4")
        cases = {
            "interleaved": [((np.s_[n::2], np.s_[:]), f"half{n}.h5", "x", (6, 10))
                            for n in range(2)],
            "sliced": [(np.s_[:], "wide.h5", "x", (17, 15), np.s_[3:15, 1:11])],
            "rows": rows,
            "some": rows[:9],
        }
        for name, sources in cases.items():
            file = f"{name}.h5"
            virtual(self.folder / file, sources, "x", (12, 10), fillvalue=-7)
            expected = whole.copy()
            if name == "some":
                expected[9:] = -7
            for text, key in (("", np.s_[:]), ("[2:11:3]", np.s_[2:11:3]), ("[5]", np.s_[5]),
                              ("[:,3]", np.s_[:, 3]), ("[1:,1::2]", np.s_[1:, 1::2])):
                with self.subTest(name=name, key=text):
                    done = self.run_tool("tensor-convert", f"x={file}:/x{text}", "-o", "-")
                    np.testing.assert_array_equal(done.bundle()["x"], expected[key])

    def test_more_sources_than_are_kept_open(self):
        values = normal(8, (200, 6))
        for n in range(200):
            with h5py.File(self.data / "parts" / f"n{n}.h5", "w") as file:
                file["x"] = values[n]
        virtual(self.data / "many.h5", [(n, f"parts/n{n}.h5", "x", (6,)) for n in range(200)],
                "x", (200, 6))
        done = self.run_tool("tensor-convert", "data/many.h5", "-o", "-",
                             preexec_fn=lambda: limit_files(120))
        np.testing.assert_array_equal(done.bundle()["x"], values)
        self.assertIn("and 197 more", done.err)

    def test_types(self):
        for dtype in ("f2", ">f2", ">f8", "?", ">i4", "u1"):
            values = (100 * normal(9, (6, 4))).astype(dtype)
            with h5py.File(self.folder / "source.h5", "w") as file:
                file["x"] = values
            (self.folder / "typed.h5").unlink(missing_ok=True)
            virtual(self.folder / "typed.h5", [(np.s_[:], "source.h5", "x", (6, 4))], "x", (6, 4),
                    values.dtype)
            with self.subTest(dtype=dtype):
                done = self.run_tool("tensor-convert", "typed.h5", "-o", "-")
                found = done.bundle()["x"]
                np.testing.assert_array_equal(found, values)
                self.run_tool("tensor-compare", "typed.h5", "source.h5")

    def test_unlimited_parts_are_refused(self):
        with h5py.File(self.folder / "grows.h5", "w") as file:
            layout = h5py.VirtualLayout((3, 5, 4), "f4", maxshape=(None, 5, 4))
            source = h5py.VirtualSource("plain.h5", "q", SHAPE, maxshape=(None, 5, 4))
            layout[:h5py.h5s.UNLIMITED] = source[:h5py.h5s.UNLIMITED]
            file.create_virtual_dataset("q", layout)
        rest(self.folder / "grows.h5")
        self.refused("attn-compute", "grows.h5", status=3, says=["grows.h5:/q", "unlimited parts"],
                     hint="h5repack")


def limit_files(count):
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


if __name__ == "__main__":
    unittest.main()
