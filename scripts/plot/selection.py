"""Which rows of a table are drawn."""

from command import fail


def options(parser):
    """The options that choose rows."""
    parser.add_argument("--scheme", type=lambda text: text.split(","), metavar="LIST",
                        help="only these schemes, such as unas,dnas; default: all")
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE",
                        help="only rows with this value, such as batch=0; may be repeated")


def _same(one, other):
    """Whether two texts are the same word, or the same number: 1 and 1.0."""
    try:
        return str(one) == other or float(one) == float(other)
    except (TypeError, ValueError):
        return False


def _keep(rows, name, column, values):
    if not any(column in row for row in rows):
        columns = dict.fromkeys(key for row in rows for key in row)
        fail(3, f"{name}: no column {column}; there are {', '.join(columns)}")
    found = [row for row in rows if any(_same(row.get(column), value) for value in values)]
    if not found:
        there = dict.fromkeys(str(row.get(column)) for row in rows)
        fail(3, f"{name}: no row with {column} {' or '.join(values)}; there are "
                f"{', '.join(list(there)[:12])}")
    return found


def select(rows, name, arguments):
    """The rows that the options choose, without totals beside what they are totals of."""
    if arguments.scheme:
        rows = _keep(rows, name, "scheme", arguments.scheme)
    for condition in arguments.where:
        column, given, value = condition.partition("=")
        if not given:
            fail(2, f"--where {condition}: expected COLUMN=VALUE")
        rows = _keep(rows, name, column, [value])
    for column in ("head", "group"):
        if any(row.get(column) for row in rows):
            rows = [row for row in rows if row.get(column)]
    # A row without a batch beside rows with one is the total of these.
    total = {_cell(row) for row in rows if not row.get("batch")}
    return [row for row in rows if not row.get("batch") or _cell(row) not in total]


def _cell(row):
    return tuple(row.get(column) for column in ("file", "group", "head", "scheme", "scale", "hybrid"))
