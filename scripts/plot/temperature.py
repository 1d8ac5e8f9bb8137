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
from fitting import name_ticks
from libraries import mpl, np
from plotting import GREY, legend_of, look, looks_of, new_figure, ordered, save
from selection import options as row_options, select
from statistic import chosen, described, explained_away, pooled
from words import file_names, natural, plain, short, without_common

MANY = True
READS = "a table of statistics (TSV, CSV, JSON)"
MOST_LINES = 42  # styles of lines


def options(parser):
    parser.add_argument("--by", choices=("scheme", "head", "group"), default="scheme",
                        help="draws a line for each scheme (the default), each head or each group")
    parser.add_argument("--statistic", metavar="NAME",
                        help="the column of the second panel; default: the share of explained-away "
                             "keys")
    row_options(parser)


def rows_of(arguments):
    """All rows that are drawn, with their input as file; and the column of the second panel."""
    inputs = [table.read(address) for address in arguments.inputs]
    rows, column = [], arguments.statistic
    for end, (name, found, _) in zip(file_names([name for name, *_ in inputs]), inputs):
        found = select(found, name, arguments)
        if not any(row.get("scale") for row in found):
            fail(3, f"{name}: no column scale; there are {', '.join(found[0])}",
                 "explain-away-stats --scale 0.25,0.5,1,2 --tsv makes it")
        chosen(found, name, "entropy")
        column = chosen(found, name, column) if column else explained_away(found, name)
        for row in found:
            try:
                row["scale"] = float(row["scale"])
            except (TypeError, ValueError):
                fail(3, f"{name}: scale is {row['scale']}, expected a number")
            if not row["scale"] > 0:
                fail(3, f"{name}: scale is {row['scale']:g}, expected a number > 0, as the "
                        "temperature is 1/scale")
            file = file_names([row.get("file") or ""])[0]
            row["file"] = ", ".join(filter(None, [end if len(inputs) > 1 else "", file]))
        rows += found
    return rows, column


def lines_of(rows, by):
    """{label: (scheme, rows)} in order. What all rows share is not in the labels."""
    columns = list(dict.fromkeys(["file", "scheme", "hybrid", by]))
    if by == "head":
        columns.insert(1, "group")
    columns = [name for name in columns if len({row.get(name) or "" for row in rows}) > 1] or [by]
    groups = sorted({row.get("group") or "" for row in rows}, key=natural)
    short_groups = dict(zip(groups, without_common(groups)))
    found = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) or "" for name in columns), []).append(row)
    lines = {}
    for key in sorted(found, key=lambda key: [natural(str(word)) for word in key]):
        words = [_word(name, value, short_groups) for name, value in zip(columns, key)]
        label = ", ".join(word for word in words if word) or "all"
        lines[label] = (found[key][0].get("scheme") or "", found[key])
    order = ordered(dict.fromkeys(scheme for scheme, _ in lines.values()))
    return dict(sorted(lines.items(), key=lambda line: order.index(line[1][0])))


def _word(column, value, groups):
    if value == "":
        return ""
    if column == "group":
        return plain(groups[value], 30)
    if column == "hybrid":
        return f"u = {plain(value, 12)}"
    return f"head {value}" if column == "head" else plain(value, 30)


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
    schemes = [scheme for scheme, _ in lines.values()]
    named = len(set(schemes)) == len(schemes)
    looks = list(looks_of(schemes).values()) if named else [look(n) for n in range(len(lines))]
    bands = False
    for axis, column in zip(axes.flat, ("entropy", share)):
        label, factor = described(column)
        for (colour, dashes), (name, (_, own)) in zip(looks, lines.items()):
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
