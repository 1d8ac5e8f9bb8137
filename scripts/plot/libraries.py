"""The libraries that draw. Each is loaded when it is first used, so that help needs only Python."""

import importlib.util
import os
import subprocess
import sys

from command import fail

# Without hinting, which moves the edges of letters to dots, texts are as large in any resolution and in
# a PDF: the layout is made once, for all of them.
_STYLE = {
    "text.hinting": "none",
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "axes.spines.top": False,
    "axes.spines.right": False, "lines.linewidth": 1.2, "legend.frameon": False,
    "hatch.linewidth": 0.4, "pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "attnkit",
}


_NAMES = ("numpy", "h5py", "matplotlib")
_DEBIAN = "/usr/bin/python3"  # the Python that Debian's packages are for


def _is_debians():
    return (os.path.exists(_DEBIAN) and os.path.samefile(sys.executable or _DEBIAN, _DEBIAN) and
            sys.prefix == sys.base_prefix)  # and no virtual environment of it


def find_libraries(words):
    """Runs the command, of these words, by Debian's Python if that has all libraries and this one, which
    may only stand first on the PATH, has not."""
    if all(map(importlib.util.find_spec, _NAMES)) or sys.flags.isolated or sys.flags.no_site or _is_debians():
        return
    find = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))"
    try:
        if subprocess.run([_DEBIAN, "-c", find, *_NAMES], capture_output=True, check=False).returncode == 0:
            os.execv(_DEBIAN, [_DEBIAN, sys.argv[0], *words])
    except OSError:
        pass  # there is none


class Library:
    """A module that is loaded when one of its names is used. `after` is called with it once."""

    def __init__(self, name, after=None):
        self._name, self._after = name, after

    def __getattr__(self, attribute):
        try:
            module = importlib.import_module(self._name)
        except ImportError as missing:
            fail(2, missing, "sudo apt install python3-numpy python3-h5py python3-matplotlib, or for another Python "
                             "pip install numpy h5py matplotlib")
        if self._after:
            self._after(module)
        self.__dict__.update(vars(module))
        return getattr(module, attribute)


def _set_up(pyplot):
    pyplot.switch_backend("Agg")
    pyplot.rcParams.update(_STYLE)


np = Library("numpy")
h5py = Library("h5py")
plt = Library("matplotlib.pyplot", _set_up)
mpl = Library("matplotlib", lambda _: plt.rcParams)  # with its submodules
