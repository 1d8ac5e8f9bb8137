"""Entropy and explained-away keys over temperature.

    explain-away-stats --scale 0.25,0.5,1,2 --tsv layer3.h5 | attn-plot temperature -o temperature
    attn-plot temperature --by head --scheme unas sweep.tsv -o heads

Reads tables with the columns scale, scheme, entropy and the share of explained-away keys
(explain-away-stats with several --scale, --tsv, --csv or --json), from one or several inputs. If no
key is explained away, the second panel shows the least column sums. The temperature is 1/scale:
scores are divided by it. A line is the mean over the rows that it stands for (heads, groups,
batches), for the share by keys, and for the least column sum the least; the band around it reaches
from the least to the largest head of a group.
"""

import table
from command import fail
from group_names import group_labels
from libraries import mpl, np
from plotting import COLOURS, GREY, legend_of, look, looks_of, new_figure, ordered, save
from selection import options as row_options, select
from statistic import chosen, described, pooled, usual
from ticks import name_ticks
from words import cut_apart, file_labels, natural, short, without_common

MANY = True
READS = "a table of statistics (TSV, CSV, JSON)"
MOST_LINES = 42  # styles of lines
MOST_LETTERS = 30  # characters of a word of the legend


def options(parser):
    parser.add_argument("--by", choices=("scheme", "head", "group"), default="scheme",
                        help="draws a line for each scheme (the default), each head or each group")
    parser.add_argument("--statistic", metavar="NAME",
                        help="the column of the second panel; default: the share of explained-away "
                             "keys, or the least column sum if there are none")
    row_options(parser)


def rows_of(arguments):
    """All rows that are drawn, with their input; and the column of the second panel."""
    inputs = [(name, select(found, name, arguments))
              for name, found, _ in map(table.read, arguments.inputs)]
    rows, column = [], arguments.statistic
    for name, found in inputs:
        if not any(row.get("scale") for row in found):
            fail(3, f"{name}: no column scale; there are {', '.join(found[0])}",
                 "explain-away-stats --scale 0.25,0.5,1,2 --tsv makes it")
        chosen(found, name, "entropy")
        for row in found:
            try:
                row["scale"] = float(row["scale"])
            except (TypeError, ValueError):
                fail(3, f"{name}: scale is {row['scale']}, expected a number")
            if not row["scale"] > 0:
                fail(3, f"{name}: scale is {row['scale']:g}, expected a number > 0, as the "
                        "temperature is 1/scale")
            row["input"] = name if len(inputs) > 1 else ""
        rows += found
    column = column or usual(inputs)
    for name, found in inputs:
        chosen(found, name, column)
    return rows, column


def files_tell_apart(rows):
    """Whether files hold different curves, not different points: two of them have the same scale and
    share of the same scheme."""
    where = {}
    for row in rows:
        point = row["scale"], row.get("scheme"), row.get("hybrid")
        where.setdefault(point, set()).add((row["input"], row.get("file")))
    return any(len(files) > 1 for files in where.values())


def lines_of(rows, by):
    """[(label, scheme, rest, rows)] in order; rest is what else tells the line apart. What all rows share is
    not in the labels."""
    columns = list(dict.fromkeys(["scheme", "hybrid", by]))
    if files_tell_apart(rows):
        columns = ["input", "file", *columns]
    if by == "head":
        columns.insert(columns.index("scheme"), "group")
    columns = [name for name in columns if len({row.get(name) or "" for row in rows}) > 1] or [by]
    found = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) or "" for name in columns), []).append(row)
    words = [_words(name, sorted(set(values), key=natural)) for name, values in
             zip(columns, zip(*found))]
    lines = []
    for key in sorted(found, key=lambda key: [_rank(word) for word in key]):
        label = ", ".join(filter(None, (known[word] for known, word in zip(words, key)))) or "all"
        rest = tuple(word for name, word in zip(columns, key) if name != "scheme")
        lines.append((label, found[key][0].get("scheme") or "", rest, found[key]))
    order = ordered(dict.fromkeys(scheme for _, scheme, *_ in lines))
    return sorted(lines, key=lambda line: order.index(line[1]))


def looks(lines):
    """Colour and dashes of each line. Where schemes tell apart some lines and not all, dashes are for them and
    colours for the rest, such as the head."""
    schemes = looks_of(list(dict.fromkeys(scheme for _, scheme, *_ in lines)))
    rests = list(dict.fromkeys(rest for *_, rest, _ in lines))
    if len(rests) == 1:
        return [schemes[scheme] for _, scheme, *_ in lines]
    if len(schemes) == 1:
        return [look(place) for place in range(len(lines))]
    colours = (COLOURS if len(rests) <= len(COLOURS) else
               mpl.colormaps["viridis"](np.linspace(0, 0.95, len(rests))))
    return [(colours[rests.index(rest)], schemes[scheme][1]) for _, scheme, rest, _ in lines]


def _rank(word):
    """For sorting: numbers by value, before other words."""
    try:
        return 0, float(word), []
    except ValueError:
        return 1, 0, natural(word)


def _words(column, values):
    """{value: what the legend says for it}: values are shortened together, so that they still
    differ."""
    if column in ("input", "file"):
        texts = file_labels(values, MOST_LETTERS)
    elif column == "group":
        kind, texts = group_labels(values, MOST_LETTERS)
        texts = cut_apart(without_common(values), MOST_LETTERS) if kind else texts
    else:
        before = {"hybrid": "u = ", "head": "head "}.get(column, "")
        texts = [before + text for text in cut_apart(values, MOST_LETTERS)]
    return {value: text if value else "" for value, text in zip(values, texts)}


def curve(rows, column):
    """Temperatures, the pooled values, and the least and largest of the single rows."""
    scales = sorted({row["scale"] for row in rows}, reverse=True)
    parts = [[row for row in rows if row["scale"] == scale] for scale in scales]
    parts = [(scale, part) for scale, part in zip(scales, parts) if pooled(part, column) is not None]
    single = [[pooled([row], column) for row in part if row.get(column) is not None]
              for _, part in parts]
    return (np.array([1 / scale for scale, _ in parts]),
            np.array([pooled(part, column) for _, part in parts]),
            np.array([[min(values), max(values)] for values in single]).reshape(-1, 2))


def scale_values(axis, logarithm):
    """The axis begins at 0, or is logarithmic if that is allowed and values span two decades."""
    values = np.concatenate([line.get_ydata() for line in axis.lines])
    least, largest = values.min(initial=np.inf), values.max(initial=-np.inf)
    if logarithm and 0 < 100 * least <= largest:
        axis.set_yscale("log")
    elif least >= 0:
        axis.set_ylim(0, 1 if largest <= 0 else None)  # not only zeros


def draw(arguments):
    rows, share = rows_of(arguments)
    lines = lines_of(rows, arguments.by)
    if len(lines) > MOST_LINES:
        fail(2, f"{len(lines)} lines cannot be told apart", "--scheme, --where or --by scheme")
    beside = arguments.width >= 5
    figure, axes = new_figure(arguments, 0.36 * arguments.width if beside else 1.3 * arguments.width,
                              *((1, 2) if beside else (2, 1)), sharex=True)
    bands = False
    for axis, column in zip(axes.flat, ("entropy", share)):
        label, factor = described(column)
        for (colour, dashes), (name, _, _, own) in zip(looks(lines), lines):
            temperature, values, band = curve(own, column)
            axis.plot(temperature, factor * values, color=colour, linestyle=dashes, marker="o",
                      markersize=2.5, label=name)
            if len(lines) <= 3 and np.ptp(band, axis=1).any():
                bands = True
                axis.fill_between(temperature, *(factor * band.T), color=colour, alpha=0.12,
                                  linewidth=0)
        axis.set(xscale="log", xlabel="temperature (1/scale)", ylabel=label)
        scale_values(axis, logarithm=column != "entropy" and factor == 1)
        axis.grid(color="#e4e4e4", linewidth=0.5)
        axis.minorticks_off()
        axis.xaxis.set_major_locator(mpl.ticker.NullLocator())
        places = sorted({1 / row["scale"] for row in rows})
        axis.set_xlim(places[0] / 1.1, places[-1] * 1.1)
        axis.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        name_ticks(axis.xaxis, places, [short(place, 3) for place in places])
        axis.tick_params(labelbottom=True)
    handles, columns = legend_of(axes[0, 0], 4)
    if bands:
        handles.append(mpl.patches.Patch(color=GREY, alpha=0.2, linewidth=0,
                                         label="least to largest head"))
    save(figure, arguments, (), (handles, columns))
