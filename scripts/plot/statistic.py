"""What the columns of a table mean: their names with units, and how several rows become one."""

import re

from command import fail
from libraries import np
from table import PLACES
from words import short

# (name with unit, factor). c is a column sum, in units of what a query gives away.
_MEANINGS = {
    "min": ("least column sum c (attention of one query = 1)", 1),
    "median": ("median column sum c (attention of one query = 1)", 1),
    "mean": ("mean column sum c (attention of one query = 1)", 1),
    "max": ("largest column sum c (attention of one query = 1)", 1),
    "entropy": ("mean entropy of a query (nats)", 1),
    "margin": ("least column sum / its proven bound", 1),
    "bound": ("proven bound of the column sum c", 1),
    "keys": ("keys (number)", 1),
    "masked_keys": ("keys that no query may attend to (number)", 1),
}
_EXPLAINED = re.compile(r"share_below_(.+)$")
_TOTALS = ("keys", "masked_keys", "queries", "empty_rows")


def described(name):
    """(name with unit, factor to be multiplied with) of a column."""
    if name in _MEANINGS:
        return _MEANINGS[name]
    below = _EXPLAINED.search(name)
    if below:
        try:
            epsilon = short(float(below[1]))
        except ValueError:
            epsilon = below[1]
        before = name[:below.start()].strip("_").replace("_", " ")
        return f"{before + ': ' if before else ''}keys explained away, c < {epsilon} (%)", 100
    if "share" in name.split("_"):
        return f"{name.replace('_', ' ')} (%)", 100
    return name.replace("_", " "), 1


def available(rows):
    """The columns with at least one number, in their order."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name not in PLACES and
            any(isinstance(row.get(name), float) or np.isscalar(row.get(name)) and
                not isinstance(row.get(name), (str, type(None))) for row in rows)]


def explained_away(rows, name):
    """The column with the share of explained-away keys, the first if there are several."""
    found = [column for column in available(rows) if _EXPLAINED.search(column)]
    return found[0] if found else chosen(rows, name, "share_below_1e-08")


def chosen(rows, name, wanted):
    """A column by its name, or an error that names those there are. `name` is the input's."""
    names = available(rows)
    if wanted not in names:
        fail(3, f"{name}: no column {wanted} with numbers; there are {', '.join(names) or 'none'}")
    return wanted


def pooled(rows, column):
    """One number for several rows: the least for min, the largest for max, sums of counts, and else
    the mean, for shares by keys. None if no row has a number."""
    values = [(row[column], row.get("keys")) for row in rows if row.get(column) is not None]
    values = [(value, keys) for value, keys in values if not isinstance(value, str)]
    if not values:
        return None
    numbers = np.array([value for value, _ in values], dtype=float)
    if column in ("min", "margin"):
        return float(numbers.min())
    if column == "max":
        return float(numbers.max())
    if column in _TOTALS:
        return float(numbers.sum())
    weights = [keys for _, keys in values]
    by_keys = _EXPLAINED.search(column) and all(isinstance(keys, float) for keys in weights)
    return float(np.average(numbers, weights=weights if by_keys and sum(weights) else None))
