"""What the columns of a table mean: their names with units, and how several rows become one."""

import re

from command import fail
from libraries import np
from table import PLACES
from words import short

# (name with unit, factor). c is a column sum, in units of what a query gives away.
_MEANINGS = {
    "min_c": ("least column sum c (attention of one query = 1)", 1),
    "enough_min_c": ("least column sum c of keys with enough queries (attention of one query = 1)", 1),
    "median_c": ("median column sum c (attention of one query = 1)", 1),
    "mean_c": ("mean column sum c (attention of one query = 1)", 1),
    "max_c": ("largest column sum c (attention of one query = 1)", 1),
    "max_c_per_query": ("largest weight of a key, mean over its queries (%)", 100),
    "entropy": ("mean entropy of a query (nats)", 1),
    "first_key_share": ("attention on the first key (%)", 100),
    "margin": ("least column sum / its proven bound", 1),
    "bound": ("proven bound of the column sum c", 1),
    "keys": ("keys (number)", 1),
    "enough_keys": ("keys with enough queries (number)", 1),
    "masked_keys": ("keys that no query may attend to (number)", 1),
    "empty_queries": ("queries that may attend to no key (number)", 1),
}
_EXPLAINED = re.compile(r"(?:enough_)?share_below_(.+)$")
_TOP = re.compile(r"top_(\d+)_share$")
_SMALL = ("min_c", "median_c")
_TOTALS = ("keys", "enough_keys", "masked_keys", "empty_queries", "empty_rows")


def described(name):
    """(name with unit, factor to be multiplied with) of a column."""
    if name in _MEANINGS:
        return _MEANINGS[name]
    below, top = _EXPLAINED.search(name), _TOP.match(name)
    if top:
        return f"attention on the {top[1]} most attended keys (%)", 100
    if below:
        try:
            epsilon = short(float(below[1]))
        except ValueError:
            epsilon = below[1]
        among = " of those with enough queries" if name.startswith("enough_") else ""
        return f"keys explained away, c < {epsilon} (%{among})", 100
    if "share" in name.split("_"):
        return f"{name.replace('_', ' ')} (%)", 100
    return name.replace("_", " "), 1


def dark_side(name):
    """(whether large values are dark, the words for it) of a column. Dark is where keys get little attention:
    large numbers of ignored keys, and small ones of everything else."""
    counts = bool(_EXPLAINED.search(name)) or name == "masked_keys"
    return counts, "; dark: ignored" if counts or name.endswith(_SMALL) else ""


def available(rows):
    """The columns with at least one number, in their order."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name not in PLACES and
            any(row.get(name) is not None and not isinstance(row[name], str) for row in rows)]


def has_tails(rows):
    """Whether some keys have too few queries to say much, as the last ones under a causal mask."""
    return any((row.get("enough_keys") or 0) < row["keys"] for row in rows
               if row.get("enough_keys") is not None and row.get("keys") is not None)


def explained_away(rows, name, tails):
    """The column with the share of explained-away keys, the first if there are several. `tails`: the share
    among keys with enough queries."""
    found = [column for column in available(rows) if _EXPLAINED.match(column)]
    beginning = "enough_" if tails else "share_"
    found = [column for column in found if column.startswith(beginning)] or found
    return found[0] if found else chosen(rows, name, "share_below_1e-08")


def usual(tables):
    """The column that is drawn unless one is named: explained_away, or the least column sum if no key of
    these tables, (name, rows) each, is explained away. A map of zeros would say nothing."""
    tails = any(has_tails(rows) for _, rows in tables)
    columns = [explained_away(rows, name, tails) for name, rows in tables]
    none = not any(row.get(column) for (_, rows), column in zip(tables, columns) for row in rows)
    least = "enough_min_c" if tails else "min_c"
    return least if none and all(least in available(rows) for _, rows in tables) else columns[0]


def chosen(rows, name, wanted):
    """A column by its name, or an error that names those there are. `name` is the input's."""
    names = available(rows)
    if wanted not in names:
        fail(3, f"{name}: no column {wanted} with numbers; there are {', '.join(names) or 'none'}")
    return wanted


def pooled(rows, column):
    """One number for several rows: the least of the least, the largest of the largest, sums of counts,
    and else the mean, for shares of keys by their number. None if no row has a number."""
    count = "enough_keys" if column.startswith("enough_") else "keys"
    values = [(row[column], row.get(count)) for row in rows if row.get(column) is not None]
    values = [(value, keys) for value, keys in values if not isinstance(value, str)]
    if not values:
        return None
    numbers = np.array([value for value, _ in values], dtype=float)
    if column in ("min_c", "enough_min_c", "margin"):
        return float(numbers.min())
    if column in ("max_c", "max_c_per_query"):
        return float(numbers.max())
    if column in _TOTALS:
        return float(numbers.sum())
    weights = [keys for _, keys in values]
    by_keys = _EXPLAINED.search(column) and all(isinstance(keys, float) for keys in weights)
    return float(np.average(numbers, weights=weights if by_keys and sum(weights) else None))
