"""Headroom of claims over the records of their runs.

    claim-check history records --tsv | attn-plot claims -o claims

Reads the table of claim-check history. Draws a line for each claim, those with the least headroom in
any record: at 0 a claim fails, and below 0.2, the dotted line, claim-check warns. A headroom above 1 is
drawn at the upper edge. Records are named by date and commit.
"""

import csv
import io
import sys

from command import fail
from libraries import mpl, np
from plotting import GREY, legend_of, look, new_figure, save
from ticks import name_ticks
from words import cut_apart, plain

MANY = False
READS = "the table of claim-check history --tsv or --csv"
MADE_BY = "claim-check history DIR --tsv makes it"
MOST_LINES = 42  # styles of lines
WARNS = 0.2  # claim-check does below it
TOP = 1.05  # inequalities may be farther from their bounds than their unit


def options(parser):
    parser.add_argument("--claims", type=int, default=8, metavar="N",
                        help=f"the number of claims, from 1 to {MOST_LINES}; default 8")
    parser.add_argument("--id", action="append", default=[], metavar="ID",
                        help="draws this claim; may be repeated, and takes the place of --claims")


def text_of(address):
    if address == "-" and sys.stdin.isatty():
        fail(2, "the input would be read from the terminal", "give a file, or use a pipe")
    name = "standard input" if address == "-" else address
    try:
        if address == "-":
            return name, sys.stdin.buffer.read().decode("utf-8")
        with open(address, encoding="utf-8", newline="") as file:
            return name, file.read()
    except (OSError, UnicodeDecodeError) as error:
        fail(3, f"{name}: {getattr(error, 'strerror', None) or 'is no text'}")


def read(address):
    """Names of the records in order, and {id: {record: headroom}}."""
    name, text = text_of(address)
    rows = list(csv.DictReader(io.StringIO(text), delimiter="\t" if "\t" in text.partition("\n")[0] else ","))
    if not rows or not {"date", "commit", "id", "headroom"} <= set(rows[0]):
        fail(3, f"{name}: is no table of records of claims", MADE_BY)
    records, rooms = {}, {}
    for row in rows:
        record = records.setdefault((row["date"], row["commit"]), len(records))
        try:
            rooms.setdefault(row["id"], {})[record] = float(row["headroom"] or "nan")
        except ValueError:
            fail(3, f"{name}: headroom is {row['headroom']}, expected a number", MADE_BY)
    return [f"{date[:10]} {commit[:7]}" for date, commit in records], rooms


def chosen(rooms, arguments):
    """The ids to draw: those asked for, else those with the least headroom."""
    for name in arguments.id:
        if name not in rooms:
            fail(3, f"no claim has the id {plain(name, 40)}")
    if arguments.id:
        return list(dict.fromkeys(arguments.id))
    least = {name: np.nanmin(list(own.values())) for name, own in rooms.items()
             if not np.isnan(list(own.values())).all()}
    if not least:
        fail(3, "no claim has a headroom")
    return sorted(least, key=lambda name: (least[name], name))[:arguments.claims]


def draw(arguments):
    if not 1 <= arguments.claims <= MOST_LINES:
        fail(2, f"--claims is {arguments.claims}, expected 1 to {MOST_LINES}")
    records, rooms = read(arguments.inputs)
    names = chosen(rooms, arguments)
    if len(names) > MOST_LINES:
        fail(2, f"{len(names)} lines cannot be told apart")
    figure, axes = new_figure(arguments, max(0.45 * arguments.width, 2.2))
    axis = axes[0, 0]
    for place, (name, label) in enumerate(zip(names, cut_apart(names, 34))):
        heights = [rooms[name].get(record, np.nan) for record in range(len(records))]
        colour, dashes = look(place)
        axis.plot(range(len(records)), np.minimum(heights, TOP), color=colour, linestyle=dashes, marker="o",
                  markersize=2.5, label=label)
    axis.axhline(0, color=GREY, linewidth=0.8)
    axis.axhline(WARNS, color=GREY, linewidth=0.5, linestyle=":")
    axis.set(ylabel="headroom (a claim fails at 0)", xlabel="record", xlim=(-0.3, len(records) - 0.7), ylim=(None, TOP))
    axis.grid(color="#e4e4e4", linewidth=0.5)
    axis.xaxis.set_major_locator(mpl.ticker.NullLocator())
    name_ticks(axis.xaxis, list(range(len(records))), records)
    save(figure, arguments, (), legend_of(axis, 3))
