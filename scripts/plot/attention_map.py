"""Weights of a head with their row and column sums.

    attn-compute --emit weights layer3.h5 -o unas.h5
    attn-compute --emit weights --scheme dnas layer3.h5 -o dnas.h5
    attn-plot attention-map unas.h5 dnas.h5 --head 1 -o map

Reads weights (..., Lq, Lk), and optionally the strings tokens (Lk) or (B, Lk). Sums include all
queries and keys, even if only a part is drawn. Colours show the square root of the weights, from 0 to
the largest weight of all maps, so that small weights are visible: dark is what is ignored. Cells
whose query may not attend to the key are hatched: by mask, bias, scores, attn_causal and attn_window
of the bundle. In a padded sequence (key_length, query_length, key_start, query_start) only its own
queries and keys are drawn. With more than 400 queries or keys, a dot shows the largest of several
weights, and column sums are drawn as ranges.
"""

from allowed import allowed, own_part
from bundle import Bundle
from command import fail, integers, span
from libraries import mpl, np
from plotting import empty_patch, framed, hatch, looks_of, new_figure, save
from ticks import name_ticks
from words import file_labels, head_name, plain, short, token

MANY = True
MOST_CELLS = 400  # per side: fewer than the dots of a panel
LOGARITHMIC = 100  # ratio of column sums from which their axis is logarithmic


def options(parser):
    parser.add_argument("--head", type=integers, metavar="H[,H]",
                        help="head to draw, by its leading axes, such as 3, or 0,3 for head 3 of "
                             "sequence 0; default: the first")
    parser.add_argument("--queries", type=span, default=slice(None), metavar="LO:HI",
                        help="draw only these rows")
    parser.add_argument("--keys", type=span, default=slice(None), metavar="LO:HI",
                        help="draw only these columns")


def blocks(values, axis, reduce):
    """Reduces neighbours to at most MOST_CELLS along an axis."""
    size = -(-values.shape[axis] // MOST_CELLS)
    return reduce.reduceat(values, np.arange(0, values.shape[axis], size), axis=axis)


def block_edges(count):
    size = -(-count // MOST_CELLS)
    return np.append(np.arange(0, count, size), count) - 0.5


class Map:
    """The weights of one bundle, and the part that is drawn."""

    def __init__(self, bundle, name, arguments):
        made_by = "attn-compute --emit weights makes it"
        index = bundle.position("weights", 2, arguments.head, made_by)
        weights = bundle.part("weights", 2, index, made_by)
        if not np.isfinite(weights).all() or (weights < 0).any():
            fail(3, f"{bundle.name}:/weights: expected finite numbers of 0 and more")
        own = tuple(own_part(bundle, index, side, count)
                    for side, count in zip(("query", "key"), weights.shape))
        square = weights.shape[0] == weights.shape[1] and own[0] == own[1]
        # What is not 0 was allowed, whatever the bundle says.
        empty = ~allowed(bundle, index, weights.shape, own)[own] & (weights[own] == 0)
        names = self._tokens(bundle, index, weights.shape[1])
        weights = weights[own]
        self.queries, self.keys = (np.arange(n)[part] for n, part in
                                   zip(weights.shape, (arguments.queries, arguments.keys)))
        if not len(self.queries) or not len(self.keys):
            fail(2, f"--queries and --keys select none of {weights.shape} weights")
        self.scheme = str(bundle.attribute("attn_scheme") or "")
        self.title = ", ".join(filter(None, [plain(self.scheme, 30) or name, head_name(index)]))
        self.column_sums = weights.sum(axis=0, dtype=float)[self.keys]
        self.row_sums = weights.sum(axis=1, dtype=float)[self.queries]
        part = (arguments.queries, arguments.keys)
        self.cells = blocks(blocks(weights[part], 0, np.maximum), 1, np.maximum)
        self.empty = blocks(blocks(empty[part], 0, np.logical_and), 1, np.logical_and)
        self.key_names = self._labels(names[own[1]], self.keys) if len(names) else []
        self.query_names = (self._labels(names[own[0]], self.queries)
                            if square and len(names) else [])

    @staticmethod
    def _labels(names, places):
        """An empty token is called by its place."""
        return [token(names[place]) or str(place) for place in places]

    @staticmethod
    def _tokens(bundle, index, count):
        """The names of all keys, or nothing."""
        tokens = bundle.strings("tokens")
        if tokens is not None and tokens.ndim == 2:
            tokens = tokens[index[0] if index and len(tokens) > 1 else 0]
        return tokens if tokens is not None and tokens.shape == (count,) else np.array([])


def label(axis, names, places):
    """Names of tokens, else numbers."""
    if names:
        name_ticks(axis, places, names, "monospace")
    else:
        axis.set_major_locator(mpl.ticker.MaxNLocator(5, integer=True, min_n_ticks=1))


def axis_of_sums(sums):
    """(scale, (lowest, highest), ticks) of the column sums of all maps, so that they can be compared.
    Logarithmic if they span two decades. No tick is at the lower end, where the first query is named."""
    positive, highest = sums[sums > 0], max(sums.max(), 1)
    if positive.size and positive.max() >= LOGARITHMIC * positive.min():
        bottom, top = int(min(np.floor(np.log10(positive.min())), -1)), int(np.log10(highest))
        return ("log", (10.0 ** bottom, 2 * highest),
                10.0 ** np.arange(top, bottom, -max(1, -(-(top - bottom) // 2))))
    for intervals in range(3, 9):
        ticks = mpl.ticker.MaxNLocator(intervals, steps=[1, 2, 5, 10]).tick_values(0, highest)
        ticks = ticks[(ticks > 0) & (ticks <= highest)]
        if len(ticks) > 1:
            break
    return "linear", (0, 1.1 * highest), ticks


def draw_sums(body, drawn, axis_of, edges):
    """The column sums above and the row sums beside a map."""
    above = body.inset_axes([0, 1.03, 1, 0.22], sharex=body)
    beside = body.inset_axes([1.03, 0, 0.13, 1], sharey=body)
    rows, columns = edges
    (colour, _), = looks_of([drawn.scheme]).values()
    scale, limits, ticks = axis_of
    for reduce, alpha in ((np.maximum, 0.25), (np.minimum, 0.3)):
        above.stairs(np.maximum(blocks(drawn.column_sums, 0, reduce), limits[0]), columns,
                     baseline=limits[0], fill=True, alpha=alpha, color=colour, linewidth=0)
    above.axhline(1, color="black", linewidth=0.6, linestyle=":")
    above.set(yscale=scale, ylim=limits, ylabel="column\nsum", title=drawn.title)
    above.set_yticks(ticks)
    above.minorticks_off()
    above.tick_params(bottom=False, labelbottom=False)
    sums = blocks(drawn.row_sums, 0, np.maximum)
    beside.stairs(sums, rows, orientation="horizontal", color=colour, linewidth=1, baseline=None)
    beside.set(xlim=(0, max(1.5, 1.1 * sums.max())), xticks=[1], xlabel="row\nsum")
    beside.tick_params(left=False, labelleft=False)


def draw_map(body, drawn, norm, sums):
    """Draws a map with its sums; returns the image."""
    rows, columns = (part[0] + block_edges(len(part)) for part in (drawn.queries, drawn.keys))
    image = body.pcolormesh(columns, rows, np.ma.masked_where(drawn.empty, drawn.cells), norm=norm,
                            cmap="magma", rasterized=True)
    hatch(body, columns, rows, drawn.empty)
    body.set(xlabel="key", ylabel="query", xlim=columns[[0, -1]], ylim=rows[[-1, 0]])
    framed(body)
    label(body.xaxis, drawn.key_names, drawn.keys)
    label(body.yaxis, drawn.query_names, drawn.queries)
    draw_sums(body, drawn, sums, (rows, columns))
    return image


def draw(arguments):
    bundles = [Bundle(address) for address in arguments.inputs]
    names = file_labels([bundle.name for bundle in bundles], 30)
    maps = [Map(bundle, name, arguments) for bundle, name in zip(bundles, names)]
    if len({drawn.title for drawn in maps}) < len(maps):
        for drawn, name in zip(maps, names):
            drawn.title = f"{name}: {drawn.title}"
    largest = max(drawn.cells.max() for drawn in maps) or 1
    norm = mpl.colors.PowerNorm(0.5, 0, largest)
    sums = axis_of_sums(np.concatenate([drawn.column_sums for drawn in maps]))
    columns = min(len(maps), 2 if arguments.width >= 5 else 1)
    rows = -(-len(maps) // columns)
    height = rows * arguments.width / columns + 0.8
    figure, axes = new_figure(arguments, height, rows, columns)
    for axis in axes.flat[len(maps):]:
        axis.axis("off")
    for axis, drawn in zip(axes.flat, maps):
        image = draw_map(axis, drawn, norm, sums)
    merged = [max(-(-len(part) // MOST_CELLS) for part in parts)
              for parts in zip(*((drawn.queries, drawn.keys) for drawn in maps))]
    merged = " × ".join(str(count) for count in merged if count > 1)
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.6, aspect=40,
                          pad=0.12 / height,
                          label="weight that a query gives to a key (a row sums to 1); dark: ignored" +
                          (f"; largest of {merged} neighbours" if merged else ""))
    ticks = largest * np.linspace(0, 1, 5) ** 2  # at equal distances
    bar.set_ticks(ticks, labels=[short(tick, 2) for tick in ticks])
    bar.outline.set_linewidth(0.5)
    masked = any(drawn.empty.any() for drawn in maps)
    save(figure, arguments, bundles, ([empty_patch("the query may not attend to the key")], 1)
         if masked else None)
