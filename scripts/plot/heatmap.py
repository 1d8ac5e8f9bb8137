"""Any statistic by layer and head, as a map.

    explain-away-stats --each '/*' --tsv dump.h5 | attn-plot heatmap -o layers
    attn-plot heatmap --statistic entropy --scheme unas stats.csv -o entropy

Reads tables with the columns group, head, scheme and statistics (explain-away-stats --tsv, --csv or
--json), or bundles with column sums (explain-away-stats -o, attn-compute --emit col_sum). Draws a
panel for each input and scheme, with a row for each group in natural order and a column for each
head; all panels share the colours. Rows are named by what tells the groups apart. If several rows of
a table belong to one cell, such as those of a batch, it shows their mean (for min_c the least, for
max_c the largest). A hatched cell has no value. Dark is where keys are ignored: a large share of
explained-away keys, many masked keys, or small values of any other statistic.
"""

import table
from command import fail
from group_names import group_labels
from libraries import mpl, np
from plotting import empty_patch, framed, hatch, new_figure, ordered, save
from selection import options as row_options, select
from statistic import chosen, dark_side, described, pooled, usual
from ticks import name_ticks
from words import file_labels, natural, plain, plain_ends, short

MANY = True
READS = "a table of statistics (TSV, CSV, JSON) or a bundle FILE[:/group]"
MOST_LETTERS = 20  # characters of the label of a group
LEAST_CELL = 0.05  # inches: panels with narrower cells stand below each other


def options(parser):
    parser.add_argument("--statistic", metavar="NAME",
                        help="the column to draw; default: the share of explained-away keys, or the "
                             "least column sum if there are none")
    row_options(parser)
    parser.add_argument("--epsilon", type=float, default=1e-8, metavar="E",
                        help="for bundles: keys with smaller column sums are explained away "
                             "(default %(default)g)")


class Panel:
    """The grid of one input and scheme."""

    def __init__(self, title, rows, column):
        self.title = title
        self.groups = sorted({row.get("group") or "" for row in rows}, key=natural)
        self.heads = sorted({row.get("head") or "" for row in rows}, key=natural)
        self.values = np.full((len(self.groups), len(self.heads)), np.nan)
        for place in np.ndindex(self.values.shape):
            cell = [row for row in rows if (row.get("group") or "") == self.groups[place[0]] and
                    (row.get("head") or "") == self.heads[place[1]]]
            value = pooled(cell, column)
            self.values[place] = np.nan if value is None else value


def panels_of(arguments):
    """(panels, column, bundles): a panel for each input and scheme that has numbers."""
    inputs = [table.read(address, arguments.epsilon) for address in arguments.inputs]
    names = file_labels([name for name, *_ in inputs], 40)
    tables = [(name, select(rows, name, arguments)) for name, rows, _ in inputs]
    panels, column = [], arguments.statistic or usual(tables)
    for short_name, (name, rows) in zip(names, tables):
        chosen(rows, name, column)
        for many in ("scale", "hybrid"):
            values = dict.fromkeys(str(row[many]) for row in rows if row.get(many))
            if len(values) > 1:
                fail(2, f"{name}: has rows of {len(values)} values of {many}: {', '.join(values)}",
                     f"--where {many}={next(iter(values))}")
        files = list(dict.fromkeys(row.get("file") or "" for row in rows))
        for file, end in zip(files, file_labels(files, 40)):
            own = [row for row in rows if (row.get("file") or "") == file]
            for scheme in ordered(dict.fromkeys(row.get("scheme") or "" for row in own)):
                words = [short_name if len(inputs) > 1 else "", end if len(files) > 1 else "",
                         plain(scheme, 40)]
                panels.append(Panel(", ".join(word for word in words if word),
                                    [row for row in own if (row.get("scheme") or "") == scheme],
                                    column))
    full = [panel for panel in panels if np.isfinite(panel.values).any()]
    return full or panels, column, [bundle for *_, bundle in inputs if bundle]


def norm_of(values):
    """The scale of colours: logarithmic if values span more than three decades."""
    low, high = values.min(), values.max()
    if 0 < 1e3 * low < high:
        return mpl.colors.LogNorm(low, high)
    low = min(low, 0) if high <= 0 or low < 0.5 * high else low
    return mpl.colors.Normalize(low, high if high > low else low + 1)


def texts_of(panel):
    return [short(value, 2) if np.isfinite(value) else "" for value in panel.values.flat]


def size_of_values(panels, across, cell):
    """The size of the values in the cells; 0 if they do not fit into those of every panel."""
    sizes = [min(6.5, 72 * across / len(panel.heads) / (0.62 * max(map(len, texts_of(panel))) + 0.6),
                 72 * cell / 1.3) for panel in panels]
    return min(sizes) if min(sizes) >= 5 else 0


def write_values(axis, panel, norm, colours, size):
    for (row, column), text in zip(np.ndindex(panel.values.shape), texts_of(panel)):
        red, green, blue, _ = colours(norm(panel.values[row, column])) if text else (1, 1, 1, 1)
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        axis.text(column, row, text, ha="center", va="center", fontsize=size,
                  color="white" if dark else "black")


def draw(arguments):
    panels, column, bundles = panels_of(arguments)
    label, factor = described(column)
    for panel in panels:
        panel.values *= factor
    drawn = np.concatenate([panel.values[np.isfinite(panel.values)] for panel in panels])
    if not drawn.size:
        fail(3, f"column {column} holds no finite numbers")
    norm = norm_of(drawn)
    large_is_dark, dark = dark_side(column)
    colours = mpl.colormaps["magma_r" if large_is_dark else "magma"]
    names = [group_labels(panel.groups, MOST_LETTERS) for panel in panels]
    widest = max(len(panel.heads) for panel in panels)
    beside = arguments.width >= 5 and arguments.width / 2 >= LEAST_CELL * widest
    side = 2 if beside and len(panels) > 1 else 1
    lines = -(-len(panels) // side)
    most = max(len(panel.groups) for panel in panels)
    letters = max(len(name) for _, labels in names for name in labels)
    across = (arguments.width - 0.35 * side) / side - 0.05 * letters
    cell = min(max(across / widest, 0.08), 0.32)
    size = size_of_values(panels, across, cell)
    height = lines * (min(max(most * cell, 0.3), 8) + 0.55) + 0.5
    figure, axes = new_figure(arguments, height, lines, side)
    for axis in axes.flat[len(panels):]:
        axis.axis("off")
    for axis, panel, (kind, labels) in zip(axes.flat, panels, names):
        image = axis.imshow(np.ma.masked_invalid(panel.values), norm=norm, cmap=colours,
                            aspect="auto", interpolation="nearest")
        columns, rows = (np.arange(n + 1) - 0.5 for n in panel.values.shape[::-1])
        hatch(axis, columns, rows, ~np.isfinite(panel.values))
        if size:
            write_values(axis, panel, norm, colours, size)
        kind = kind or ("group" if len(labels) > 1 else "")
        axis.set(xlabel="head", ylabel=plain_ends(kind, 40), title=panel.title)
        name_ticks(axis.xaxis, range(len(panel.heads)), [head or "all" for head in panel.heads])
        if any(labels):
            name_ticks(axis.yaxis, range(len(panel.groups)), labels)
        else:  # the one row of a file without groups
            axis.set_yticks([])
        axis.tick_params(length=2)
        framed(axis)
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.7, aspect=40,
                          pad=0.12 / height, label=label + dark)
    bar.outline.set_linewidth(0.5)
    empty = any(not np.isfinite(panel.values).all() for panel in panels)
    save(figure, arguments, bundles,
         ([empty_patch("no value")], 1) if empty else None)
