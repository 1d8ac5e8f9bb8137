"""Appearance of the figures, and writing them."""

import io
import os
import sys
import tempfile
import textwrap

from caption import caption_of
from command import TOOL, fail
from fitting import fit
from libraries import mpl, np, plt
from words import plain

# Okabe and Ito's colours, which colour-blind readers can distinguish. Lines also differ by dashes
# and points by shape, for prints in black and white.
BLUE, RED, GREEN, PURPLE, ORANGE, SKY = COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                   "#E69F00", "#56B4E9")
GREY = "#777777"
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 3, 1, 3)))
_SCHEMES = {"unas": (RED, DASHES[0]), "dnas": (BLUE, DASHES[1]), "hnas": (GREEN, DASHES[2]),
            "sinkhorn": (PURPLE, DASHES[3]), "fenchel": (ORANGE, DASHES[4]),
            "transport": (SKY, DASHES[6]), "stored": (GREY, DASHES[5]), "none": (GREY, DASHES[3])}
# Fill and hatch of cells without a number: not a colour of the scale.
EMPTY = {"facecolor": "#dddddd", "edgecolor": "#8a8a8a", "hatch": "/////", "linewidth": 0}
_CAPTION_SIZE = 6.5  # points


def look(place):
    """Colour and dashes of the n-th line: 42 distinct styles."""
    return COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]


def looks_of(schemes):
    """Colour and dashes of each scheme, the same in every figure for known schemes."""
    others = [name for name in schemes if name not in _SCHEMES]
    free = [one for one in map(look, range(4, 4 + 42)) if one not in _SCHEMES.values()]
    return {name: _SCHEMES.get(name) or free[others.index(name) % len(free)] for name in schemes}


def ordered(schemes):
    """Schemes in the order of the documents, then others."""
    known = list(_SCHEMES)
    return sorted(schemes, key=lambda name: known.index(name) if name in known else len(known))


def new_figure(arguments, height, rows=1, columns=1, **more):
    """A figure of the given height in inches, and its axes as an array (rows, columns)."""
    return plt.subplots(rows, columns, squeeze=False, layout="constrained",
                        figsize=(arguments.width, height), **more)


def framed(axis):
    """A thin frame around a panel."""
    for spine in axis.spines.values():
        spine.set(visible=True, color=GREY, linewidth=0.5)


def empty_patch(label):
    """The entry of a legend for cells without a number."""
    return mpl.patches.Patch(label=label, **EMPTY)


def hatch(axis, columns, rows, empty):
    """Hatches the cells of a grid that are empty; `columns` and `rows` are the edges of cells."""
    # One patch for each run of cells in a row.
    patches = []
    for row, line in enumerate(empty):
        ends = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]])))
        patches += [mpl.patches.Rectangle((columns[a], rows[row]), columns[b] - columns[a],
                                          rows[row + 1] - rows[row]) for a, b in ends.reshape(-1, 2)]
    axis.add_collection(mpl.collections.PatchCollection(patches, zorder=1.5, **EMPTY))


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
                stream.write(_drawn(figure, target.suffix.lower(), dpi))
            os.chmod(partial, 0o666 & ~umask)
        for partial, target in zip(partials, targets):
            os.replace(partial, target)
    except OSError as error:
        fail(5, f"{target}: {error.strerror}")
    finally:
        for partial in partials:
            if os.path.exists(partial):
                os.remove(partial)


def _folded_caption(arguments, bundles, width):
    """The lines of the caption: none, the commands that made the data, or a text."""
    if arguments.caption is None:
        return []
    lines = [arguments.caption] if arguments.caption else [
        f"$ {command}" for command in caption_of(bundles)]
    room = int(width * 72 / (0.61 * _CAPTION_SIZE)) - 2
    return [part for line in lines
            for part in textwrap.wrap(plain(line), room, subsequent_indent="    ",
                                      break_on_hyphens=False)]


def save(figure, arguments, bundles=(), legend=None):
    """Adds title, caption, and a legend (a list of handles with labels, and the most columns) above
    the panels, makes all texts fit, and writes the figure, whole or not at all; the same data give
    the same file. `bundles` made the data."""
    folded = _folded_caption(arguments, bundles, figure.get_figwidth())
    below = (len(folded) * _CAPTION_SIZE * 1.3 + 4) / 72 if folded else 0
    if folded:
        figure.text(4 / 72, 3 / 72, "\n".join(folded), family="monospace", fontsize=_CAPTION_SIZE,
                    color="#444444", va="bottom", linespacing=1.25,
                    transform=figure.dpi_scale_trans)
    fit(figure, title=plain(arguments.title) if arguments.title else None, legend=legend, below=below)
    _write(figure, arguments.targets, arguments.dpi)
    print(f"{TOOL}: {', '.join(map(str, arguments.targets))}", file=sys.stderr)


def legend_of(axis, columns):
    """The entries of an axis for the legend above the panels, in at most this many columns."""
    handles, _ = axis.get_legend_handles_labels()
    return handles, columns
