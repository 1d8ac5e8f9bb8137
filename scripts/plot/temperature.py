"""Entropy and explained-away keys over temperature.

    explain-away-stats --scale 0.25,0.5,1,2 --tsv layer3.h5 | attn-plot temperature -o temperature
    attn-plot temperature --by head --scheme unas sweep.tsv -o heads

Reads tables with the columns scale, scheme, entropy and the share of explained-away keys
(explain-away-stats with several --scale, --tsv, --csv or --json), from one or several inputs. The
temperature is 1/scale: scores are divided by it. A line is the mean over the rows that it stands for
(heads, groups, batches), for the share by keys; the band around it reaches from the least to the
largest head of a group.
"""

import table
from command import fail
from group_names import group_labels
from libraries import mpl, np
from plotting import GREY, legend_of, look, looks_of, new_figure, ordered, save
from selection import options as row_options, select
from statistic import chosen, described, explained_away, has_tails, pooled
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
                             "keys")
    row_options(parser)


def rows_of(arguments):
    """All rows that are drawn, with their input; and the column of the second panel."""
    inputs = [(name, select(found, name, arguments))
              for name, found, _ in map(table.read, arguments.inputs)]
    tails = any(has_tails(found) for _, found in inputs)
    rows, column = [], arguments.statistic
    for name, found in inputs:
        if not any(row.get("scale") for row in found):
            fail(3, f"{name}: no column scale; there are {', '.join(found[0])}",
                 "explain-away-stats --scale 0.25,0.5,1,2 --tsv makes it")
        chosen(found, name, "entropy")
        column = chosen(found, name, column) if column else explained_away(found, name, tails)
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
    """[(label, scheme, rows)] in order. What all rows share is not in the labels."""
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
        lines.append((label, found[key][0].get("scheme") or "", found[key]))
    order = ordered(dict.fromkeys(scheme for _, scheme, _ in lines))
    return sorted(lines, key=lambda line: order.index(line[1]))


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


def draw(arguments):
    rows, share = rows_of(arguments)
    lines = lines_of(rows, arguments.by)
    if len(lines) > MOST_LINES:
        fail(2, f"{len(lines)} lines cannot be told apart", "--scheme, --where or --by scheme")
    beside = arguments.width >= 5
    figure, axes = new_figure(arguments, 0.36 * arguments.width if beside else 1.3 * arguments.width,
                              *((1, 2) if beside else (2, 1)), sharex=True)
    schemes = [scheme for _, scheme, _ in lines]
    named = len(set(schemes)) == len(schemes)
    looks = list(looks_of(schemes).values()) if named else [look(n) for n in range(len(lines))]
    bands = False
    for axis, column in zip(axes.flat, ("entropy", share)):
        label, factor = described(column)
        for (colour, dashes), (name, _, own) in zip(looks, lines):
            temperature, values, band = curve(own, column)
            axis.plot(temperature, factor * values, color=colour, linestyle=dashes, marker="o",
                      markersize=2.5, label=name)
            if len(lines) <= 3 and np.ptp(band, axis=1).any():
                bands = True
                axis.fill_between(temperature, *(factor * band.T), color=colour, alpha=0.12,
                                  linewidth=0)
        axis.set(xscale="log", xlabel="temperature (1/scale)", ylabel=label)
        if column == "entropy" or factor == 100:
            axis.set_ylim(0, 1 if axis.get_ylim()[1] < 0.1 else None)  # not only zeros
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
