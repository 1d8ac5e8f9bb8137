"""Filters that HDF5 loads as plugins (HDF5_PLUGIN_PATH)."""

import subprocess
import sys

import h5py
import numpy as np

from attn import BIN, ToolTest

PLUGINS = BIN.parent / "hdf5-plugins"
FILTER = 300  # tests/tools/plugin/invert_filter.cpp

# h5py reads the variable when it is loaded.
WRITE = f"""
import h5py, numpy as np, sys
with h5py.File(sys.argv[1], "w") as file:
    for name in ("q", "k", "v", "other"):
        file.create_dataset(name, data=np.load(name + ".npy"), chunks=(1, 16), compression={FILTER})
"""
READ = """
import h5py, numpy as np, sys
with h5py.File(sys.argv[1]) as file:
    np.save("read.npy", file[sys.argv[2]])
    print(file[sys.argv[2]].id.get_create_plist().get_filter(0)[0])
"""


class Plugins(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(5)
        self.arrays = {name: random.normal(size=(6, 16)).astype("f4")
                       for name in ("q", "k", "v", "other")}
        for name, array in self.arrays.items():
            np.save(self.folder / f"{name}.npy", array)
        self.plugins = {"HDF5_PLUGIN_PATH": str(PLUGINS)}
        self.python(WRITE, "in.h5")

    def python(self, program, *arguments):
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, check=True, cwd=self.folder, capture_output=True, text=True,
                              env=self.environment | self.plugins).stdout

    def test_reading_and_copying(self):
        self.write("plain.h5", **{name: self.arrays[name] for name in "qkv"})
        self.run_tool("attn-compute", "in.h5", "-o", "out.h5", environment=self.plugins)
        with h5py.File(self.folder / "out.h5") as file:
            np.testing.assert_array_equal(file["out"], self.compute("plain.h5")["out"])
        # The copy has the filter, which asked HDF5 about the copied type.
        self.assertEqual(self.python(READ, "out.h5", "other").split(), [str(FILTER)])
        np.testing.assert_array_equal(np.load(self.folder / "read.npy"), self.arrays["other"])

    def test_without_the_plugin(self):
        self.refused("attn-compute", "in.h5", status=3, says=["in.h5:/", f"filter {FILTER}"],
                     hint="HDF5_PLUGIN_PATH")
