"""Files and streams that cannot be read or written: missing, truncated, damaged, terminals."""

import fcntl
import gzip
import os
import pickle
import pty
import termios
import unittest

import h5py
import numpy as np

import damage
from attn import ToolTest, bundle_bytes, sample

BOTH = ("attn-compute", "explain-away-stats")


def good():
    random = np.random.default_rng(0)
    return {n: random.normal(size=(2, 5, 4)).astype(np.float32) for n in "qkv"}


class BadFiles(ToolTest):

    def setUp(self):
        super().setUp()
        self.write("good.h5", **good())

    def test_files(self):
        (self.folder / "text.h5").write_text("this is no bundle\n" * 100)
        (self.folder / "empty.h5").touch()
        (self.folder / "folder").mkdir()
        rows = [
            (["missing.h5"], 3, ["no such file", "missing.h5"]),
            (["missing.h5:/q"], 3, ["no such file", "missing.h5"]),
            (["good.h5", "-i", "q=missing.h5:/q"], 3, ["no such file", "missing.h5"]),
            (["text.h5"], 3, ["text.h5", "not an HDF5 file"]),
            (["empty.h5"], 3, ["empty.h5", "empty"]),
            (["folder"], 3, ["folder"]),
            (["good.h5", "-i", "q=good.h5:/a/b"], 3, ["good.h5", "a", "there are"]),
            (["good.h5", "-i", "q=good.h5:/w"], 3, ["good.h5", "no dataset w", "k, q, v"]),
            (["good.h5:/layer"], 3, ["good.h5", "layer"]),
            (["good.h5:/q"], 3, ["good.h5:/q", "dataset"]),
            (["good.h5:/q[0]"], 2, ["good.h5:/q[0]"]),
            (["good.h5", "-i", "q=good.h5:/q[5]"], 3, ["good.h5:/q[5]", "5", "axis 0", "length 2"]),
            (["good.h5", "-i", "q=good.h5:/q[0,-6]"], 3, ["good.h5:/q[0,-6]", "-6", "axis 1"]),
            (["good.h5", "-i", "q=good.h5:/q[0,0,0,0]"], 3, ["good.h5:/q[0,0,0,0]", "4 items"]),
            (["good.h5", "-i", "q=good.h5:/q[5:]"], 3, ["good.h5:/q[5:]", "empty"]),
            (["good.h5", "-i", "q=good.h5:/q[1:2"], 3, ["good.h5", "q[1:2"]),
            (["-i", "q=good.h5:/q"], 3, ["no dataset k"]),
        ]
        for arguments, status, says in rows:
            for tool in BOTH:
                with self.subTest(arguments=arguments, tool=tool):
                    self.refused(tool, *arguments, status=status, says=says)

    def test_other_formats(self):
        for content, says, hint in (
                (pickle.dumps({"q": [1.0]}), "other.h5 is a Python pickle, expected HDF5", "numpy.savez('FILE.npz', **pickle.load("),
                (pickle.dumps(0x1950a86a20f9469cfc6c, protocol=2), "is a pickled PyTorch file", "torch.load('FILE')"),
                (b"MATLAB 5.0 MAT-file, Platform: GLNXA64" + b" " * 200, "is a MATLAB file", "scipy.io.loadmat"),
                (gzip.compress(bytes(100)), "is compressed with gzip", "gunzip")):
            (self.folder / "other.h5").write_bytes(content)
            for tool in (*BOTH, "tensor-convert"):
                self.refused(tool, "other.h5", status=3, says=says, hint=hint)
        (self.folder / "other.h5").write_bytes(b"\x80\1" + bytes(100))
        self.refused("attn-compute", "other.h5", status=3, says="other.h5 is not an HDF5 file", hint="")

    def test_truncated(self):
        whole = (self.folder / "good.h5").read_bytes()
        lengths = [1, 7, 8, 9, 64, 95, 96, 97, 512, len(whole) // 2, len(whole) - 1]
        lengths += sample(map(int, np.random.default_rng(1).integers(100, len(whole), 30)), 8)
        for length in lengths:
            with self.subTest(length=length):
                (self.folder / "cut.h5").write_bytes(whole[:length])
                says = ["cut.h5", "not an HDF5" if length < 8 else ""]
                self.refused("attn-compute", "cut.h5", status=3, says=says)
                self.refused("explain-away-stats", "-", stdin=whole[:length], status=3,
                             says=["standard input"])

    def test_damaged(self):
        # For any flipped byte, the tool succeeds or refuses, but never crashes.
        whole = bytearray((self.folder / "good.h5").read_bytes())
        random = np.random.default_rng(2)
        for at in sample(map(int, random.integers(8, 2048, 60)), 20):
            with self.subTest(at=at):
                damaged = whole.copy()
                damaged[at] ^= 1 << int(random.integers(8))
                done = self.run_tool("attn-compute", "-q", stdin=bytes(damaged), status=None)
                self.assertIn(done.status, (0, 3), done.err)

    def test_claimed_lengths(self):
        """A damaged length of a text asks for no more memory than the file has bytes."""
        text = "x" * 37
        for name, tools in (("attn_scheme", ("attn-compute", "explain-away-stats", "tensor-info")),
                            ("model", ("attn-compute", "tensor-info", "tensor-convert"))):
            for length in (1 << 20, 0x7fffffff, 0xffffffff):
                self.write("long.h5", q=np.ones((3, 2)), k=np.ones((3, 2)))
                with h5py.File(self.folder / "long.h5", "a") as file:
                    file.attrs[name] = text
                damage.claimed_length(self.folder / "long.h5", text, length)
                for tool in tools:
                    with self.subTest(name=name, length=length, tool=tool):
                        self.refused(tool, "long.h5", status=3,
                                     says=[f"long.h5: attribute {name} is damaged", f"{length} bytes", "the file has only"],
                                     output=None if tool == "tensor-info" else "o.h5")
        # The same of a dataset, that a tool reads or only copies, whole or in chunks.
        for chunks in (None, (2,)):
            for length in (1 << 20, 0xffffffff):
                self.write("long.h5", q=np.ones((3, 2)), k=np.ones((3, 2)))
                with h5py.File(self.folder / "long.h5", "a") as file:
                    file.create_dataset("tokens", data=[text, "one", ""], dtype=h5py.string_dtype(), chunks=chunks)
                for tool in ("explain-away-stats", "attn-compute"):
                    self.run_tool(tool, "long.h5", "-q", "-o", "fine.h5", "--force")
                with h5py.File(self.folder / "fine.h5") as file:
                    self.assertEqual(file["tokens"].asstr()[...].tolist(), [text, "one", ""])
                (self.folder / "fine.h5").unlink()
                damage.claimed_length(self.folder / "long.h5", text, length)
                for tool in ("explain-away-stats", "attn-compute", "tensor-convert"):
                    with self.subTest(chunks=chunks, length=length, tool=tool):
                        self.refused(tool, "long.h5", status=3, output="o.h5",
                                     says=["long.h5:/tokens is damaged", "bytes", "the file has only"])
        # Several texts, and the lists of HDF5's dimension scales.
        with h5py.File(self.folder / "list.h5", "w") as file:
            for name in "qk":
                file[name] = np.ones((3, 2))
            file["scale"] = np.arange(3)
            file["scale"].make_scale()
            file["q"].dims[0].attach_scale(file["scale"])
            file.attrs["several"] = np.array(["one", "", text], dtype=h5py.string_dtype())
        self.run_tool("attn-compute", "list.h5", "-q", "-o", "fine.h5")
        with h5py.File(self.folder / "fine.h5") as file:
            self.assertEqual(list(file.attrs["several"]), ["one", "", text])

    def test_streams(self):
        for tool in BOTH:
            with self.subTest(tool=tool):
                self.refused(tool, stdin=b"", status=3, says=["standard input is empty"],
                             hint="command before")
                self.refused(tool, stdin=b"x" * 5000, status=3,
                             says=["standard input is not an HDF5 file"])
                self.refused(tool, "-", "-i", "q=-:/q", status=2, says=["standard input"])
                no_q = bundle_bytes(k=good()["k"], v=good()["v"])
                self.refused(tool, stdin=no_q, status=3,
                             says=["standard input", "no dataset q", "k, v"])
        piped = self.shell("attn-compute missing.h5 | explain-away-stats", status=3)
        self.assertIn("attn-compute: error: no such file: missing.h5", piped.err)
        self.assertIn("explain-away-stats: error: standard input is empty", piped.err)

    def test_output_that_exists(self):
        self.write("there.h5", x=np.arange(3))
        before = (self.folder / "there.h5").read_bytes()
        for tool in BOTH:
            with self.subTest(tool=tool):
                self.refused(tool, "good.h5", output="there.h5", status=5, says=["there.h5 exists"],
                             hint="--force")
                self.assertEqual((self.folder / "there.h5").read_bytes(), before)
                self.refused(tool, "good.h5", output="no/folder/out.h5", status=5,
                             says=["no/folder/out.h5"])
                self.refused(tool, "good.h5", output=".", status=5, says=["folder"])

    def test_terminals(self):
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        self.addCleanup(os.close, terminal)
        self.refused("attn-compute", "good.h5", output=None, stdout=terminal, status=2,
                     says=["terminal"], hint="-o")
        self.refused("attn-compute", "good.h5", output="/dev/tty", status=2, says=["terminal"],
                     preexec_fn=lambda: self.own_terminal(terminal))
        for tool in BOTH:
            self.refused(tool, stdin=terminal, status=2, says=["standard input is a terminal"])
        # A report may be printed on a terminal.
        done = self.run_tool("explain-away-stats", "good.h5", stdout=terminal)
        self.assertEqual(done.err, "")

    @staticmethod
    def own_terminal(terminal):
        """Makes `terminal` the controlling terminal of the process."""
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    def test_closed_streams(self):
        # A descriptor opened by the tool must not become the missing standard stream.
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                done = self.shell(f"attn-compute -q good.h5 -o out.h5 --force {closed}")
                self.assertIn("out", self.read("out.h5"))
                self.assertEqual(done.err, "")
        self.assertEqual(self.shell("attn-compute good.h5 >&-", status=5).out, b"")

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_permissions(self):
        self.write("secret.h5", **good())
        os.chmod(self.folder / "secret.h5", 0)
        self.refused("attn-compute", "secret.h5", status=3, says=["secret.h5", "ermission denied"])

    def assert_is_being_written(self, name):
        for tool, *arguments in (["attn-compute"], ["tensor-convert"], ["tensor-compare", "good.h5"], ["tensor-info"]):
            done = self.run_tool(tool, *arguments, name, *(["-o", "x.h5"] if tool[0] != "t" else []), status=3)
            self.assertEqual(done.err, f"{tool}: error: {name} is being written by another process, or one that was "
                                       f"killed has left it open\n{tool}: hint: wait until it is closed; if nobody "
                                       "writes it any more, h5clear -s FILE marks it as closed\n")

    def test_still_written(self):
        """A file that a writer has marked as open is not damaged. If others may read meanwhile (SWMR), it is read."""
        self.write("same.h5", **good())
        expected = self.compute("same.h5", "--only")
        with h5py.File(self.folder / "live.h5", "w", libver="latest") as file:
            for name, values in good().items():
                file[name] = values
            file.swmr_mode = True
            file.flush()
            (self.folder / "killed.h5").write_bytes((self.folder / "live.h5").read_bytes())
            for name in ("live.h5", "killed.h5"):
                done = self.run_tool("attn-compute", name, "--only")
                self.assertIn(f"warning: {name} is still being written (SWMR), and is read as it is now", done.err)
                self.assert_same_bits(done.bundle(), expected)
                self.run_tool("tensor-compare", "same.h5", name)
                self.run_tool("attn-compute", "-i", f"q={name}:/q", name, "-i", "k=same.h5:/k", "-o", "/dev/null")
            # The other name of an open file.
            done = self.run_tool("attn-compute", "-i", "q=live.h5:/q", "-i", "k=./live.h5:/k", "-o", "/dev/null")
            done = self.shell("cat live.h5 | attn-compute -o /dev/null", status=3)
            self.assertIn("standard input is being written by another process", done.err)
        done = self.run_tool("attn-compute", "live.h5", "-o", "/dev/null")
        self.assertNotIn("SWMR", done.err)
        with h5py.File(self.folder / "live.h5", "r+", libver="latest") as file:
            file.flush()
            (self.folder / "killed.h5").write_bytes((self.folder / "live.h5").read_bytes())
        self.assert_is_being_written("killed.h5")

    def test_grows_while_it_is_read(self):
        with h5py.File(self.folder / "live.h5", "w", libver="latest") as file:
            for name in "qk":
                file.create_dataset(name, data=np.ones((4, 3)), maxshape=(None, 3), chunks=(2, 3))
            file.swmr_mode = True
            for length in (4, 9):
                for name in "qk":
                    file[name].resize(length, axis=0)
                    file[name][...] = np.arange(3 * length).reshape(length, 3)
                    file[name].flush()
                found = self.compute("live.h5", "--only", "--emit=weights")
                self.assertEqual(found["weights"].shape, (length, length))

    def test_locked(self):
        with h5py.File(self.folder / "good.h5", "r+"):
            self.refused("attn-compute", "good.h5", status=3, says=["good.h5 is locked"],
                         hint="HDF5_USE_FILE_LOCKING")
            self.run_tool("attn-compute", "good.h5", "-o", "/dev/null",
                          environment={"HDF5_USE_FILE_LOCKING": "FALSE"})


if __name__ == "__main__":
    unittest.main()
