"""The libraries that draw. Each is loaded when it is first used, so that help needs only Python."""

import importlib

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


class Library:
    """A module that is loaded when one of its names is used. `after` is called with it once."""

    def __init__(self, name, after=None):
        self._name, self._after = name, after

    def __getattr__(self, attribute):
        try:
            module = importlib.import_module(self._name)
        except ImportError as missing:
            fail(2, missing, "matplotlib and h5py are needed: apt install python3-matplotlib "
                             "python3-h5py, for /usr/bin/python3, or pip install matplotlib h5py")
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
