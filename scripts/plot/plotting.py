"""Appearance of the figures, and writing them."""

import io
import os
import re
import sys
import tempfile
import textwrap
from pathlib import Path

from caption import caption_of
from command import TOOL, fail

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np
except ImportError as missing:
    fail(2, missing, "scripts/install-deps plots, for Debian's /usr/bin/python3")

# Okabe and Ito's colours, which colour-blind readers can distinguish. Lines also differ by dashes
# and points by shape, for prints in black and white.
BLUE, RED, GREEN, PURPLE, ORANGE, SKY = COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                   "#E69F00", "#56B4E9")
GREY = "#777777"
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 3, 1, 3)))
_SCHEMES = {"unas": (RED, DASHES[0]), "dnas": (BLUE, DASHES[1]), "hnas": (GREEN, DASHES[2]),
            "sinkhorn": (PURPLE, DASHES[3]), "fenchel": (ORANGE, DASHES[4]),
            "stored": (GREY, DASHES[5])}
_CAPTION_SIZE = 6.5  # points

plt.rcParams.update({
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "axes.spines.top": False,
    "axes.spines.right": False, "lines.linewidth": 1.2, "legend.frameon": False,
    "pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "attnkit",
})


def look(place):
    """Colour and dashes of the n-th line: 42 distinct styles."""
    return COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]


def looks_of(schemes):
    """Colour and dashes of each scheme, the same in every figure for known schemes."""
    others = [name for name in schemes if name not in _SCHEMES]
    return {name: _SCHEMES.get(name) or look(others.index(name) + 4) for name in schemes}


def ordered(schemes):
    """Schemes in the order of the documents, then others."""
    known = list(_SCHEMES)
    return sorted(schemes, key=lambda name: known.index(name) if name in known else len(known))


def short(number, digits=6):
    """A number as people write it: 100 and 1e-8, not 1e+02 and 1e-08."""
    if number == 0 or 1e-4 <= abs(number) < 1e5:
        return np.format_float_positional(number, digits, fractional=False, trim="-")
    return re.sub(r"e([+-])0*", lambda sign: "e-" if sign[1] == "-" else "e", f"{number:.{digits}g}")


def plain(text, most=None):
    """Text from a file for matplotlib: no formulas, no line breaks, not too long."""
    text = "".join(c if c.isprintable() else "·" for c in str(text))
    if most is not None and len(text) > most:
        text = text[:most - 1] + "…"
    return text.replace("$", r"\$")


def _drawn(figure, suffix, dpi):
    # In memory, since matplotlib's PDF writer does not report a full disk.
    stream = io.BytesIO()
    undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(suffix)
    figure.savefig(stream, format=suffix[1:], dpi=dpi, metadata=undated)
    return stream.getvalue()


def _write(figure, targets, dpi):
    """Writes all files or none: under temporary names first, renamed once all are written."""
    partials = []
    target = targets[0]
    try:
        umask = os.umask(0)
        os.umask(umask)
        for target in targets:
            handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.",
                                               suffix=target.suffix)
            partials.append(partial)
            with os.fdopen(handle, "wb") as stream:
                stream.write(_drawn(figure, target.suffix, dpi))
            os.chmod(partial, 0o666 & ~umask)
        for partial, target in zip(partials, targets):
            os.replace(partial, target)
    except OSError as error:
        fail(5, f"{target}: {error.strerror}")
    finally:
        for partial in partials:
            if os.path.exists(partial):
                os.remove(partial)


def _targets(output):
    name = Path(output)
    if output in ("", "-") or output.endswith("/") or not name.name:
        fail(2, f"-o {output or '(nothing)'}: expected the name of a file")
    if name.suffix in (".png", ".pdf", ".svg"):
        return [name]
    return [name.with_name(name.name + suffix) for suffix in (".png", ".pdf")]


def save(figure, arguments, bundles, legend=0):
    """Adds title and caption, reserves the given inches for a legend above the panels, and writes
    the figure, whole or not at all; the same data give the same file."""
    targets = _targets(arguments.output)
    lines = ([arguments.caption] if arguments.caption is not None else
             [f"$ {command}" for command in caption_of(bundles)])
    width, height = figure.get_size_inches()
    room = int(width * 72 / (0.61 * _CAPTION_SIZE)) - 2
    folded = [part for line in lines
              for part in textwrap.wrap(plain(line), room, subsequent_indent="    ",
                                        break_on_hyphens=False)]
    below = (len(folded) * _CAPTION_SIZE * 1.3 + 4) / 72 / height if folded else 0
    above = legend / height
    if arguments.title:
        figure.text(0.5, 1 - above - 2 / 72 / height, plain(arguments.title), fontsize=9, ha="center",
                    va="top")
        above += 14 / 72 / height
    figure.get_layout_engine().set(rect=(0, below, 1, 1 - below - above))
    figure.text(4 / 72 / width, 3 / 72 / height, "\n".join(folded), family="monospace",
                fontsize=_CAPTION_SIZE, color="#444444", va="bottom", linespacing=1.25)
    _write(figure, targets, arguments.dpi)
    print(f"{TOOL}: {', '.join(map(str, targets))}", file=sys.stderr)


def legend_above(figure, axis, columns):
    """Adds a legend above the panels with the labels of all of them; returns its height in
    inches."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=columns)
    return 0.05 + 0.165 * -(-len(labels) // columns)
