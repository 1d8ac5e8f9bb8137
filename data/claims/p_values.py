"""Cells of the printed tables, and the p-values that tests make of them.

Cells are texts, whose last digits say how far they are rounded. So a test of cells has an interval of
p-values: that of all numbers which are printed so.
"""

import itertools
from decimal import Decimal
from math import gamma

from plain import *

with open(os.path.join(os.path.dirname(__file__), "printed.json")) as file:
    PRINTED = json.load(file)

NODE, WEIGHT = np.polynomial.legendre.leggauss(80)


def column(rows, name):
    """The cells of a column as exact numbers, so that their differences have no rounding."""
    return np.array([Decimal(row[name]) for row in rows])


def row(rows, method, init=None):
    """The row of that method."""
    return next(row for row in rows if row["method"] == method and row.get("init") == init)


def tail(t, freedom):
    """P(T > t): by t = sqrt(freedom) tan(angle), an integral of powers of the cosine."""
    if t < 0:
        return 1 - tail(-t, freedom)
    low = np.arctan(t / np.sqrt(freedom))
    half = (np.pi / 2 - low) / 2
    area = half * (np.cos(low + half * (1 + NODE))**(freedom - 1) @ WEIGHT)
    return area * gamma((freedom + 1) / 2) / (np.sqrt(np.pi) * gamma(freedom / 2))


# In closed form for whole degrees of freedom.
for t in (0, 0.3, 2, 10):
    for freedom in (3, 4, 5, 6):
        angle = np.arctan(t / freedom**0.5)
        sin, square = np.sin(angle), np.cos(angle)**2
        exact = {3: 0.5 - (angle + sin * np.cos(angle)) / np.pi, 4: 0.5 - sin * (1 + square / 2) / 2,
                 5: 0.5 - (angle + sin * np.cos(angle) * (1 + 2 * square / 3)) / np.pi,
                 6: 0.5 - sin * (1 + square / 2 + 3 * square**2 / 8) / 2}[freedom]
        if not abs(tail(t, freedom) - exact) < 1e-13:
            raise ArithmeticError(f"tail of {t} for {freedom}: {tail(t, freedom)}, expected {exact}")


def variance_of_mean(deviation, n, reading):
    """Of n values with +- deviation, read as that of the population or of the sample, or as the
    standard error of the mean."""
    return deviation**2 / {"population": n - 1, "sample": n, "error": 1}[reading]


def welch(low, low_pm, high, high_pm, n=4, reading="population", pooled=False):
    """p of the one-sided test that the first mean is below the second, of n runs each."""
    v, w = variance_of_mean(low_pm, n, reading), variance_of_mean(high_pm, n, reading)
    freedom = 2 * (n - 1) if pooled else (v + w)**2 / ((v**2 + w**2) / (n - 1))
    return tail((high - low) / np.sqrt(v + w), freedom)


def one_sample(low, high, high_pm, n=4, reading="population"):
    """p of the one-sided test that the second mean is above the known number `low`."""
    return tail((high - low) / np.sqrt(variance_of_mean(high_pm, n, reading)), n - 1)


def rounded(text):
    """The least and the largest number that are printed so."""
    half = 0.5 * 10.0**-len(text.partition(".")[2])
    return float(text) - half, float(text) + half


def over_rounding(test, *cells, **options):
    """The least and the largest p of a test over the numbers that are printed as these cells: at the ends
    and the middle of each."""
    found = [test(*numbers, **options)
             for numbers in itertools.product(*((*rounded(cell), float(cell)) for cell in cells))]
    return min(found), max(found)


def room(interval, text):
    """How far inside of the interval what is printed so may lie; below 0 outside."""
    low, high = rounded(text)
    return min(interval[1] - low, high - interval[0])


def table_3(rows=PRINTED["si"]["table_2"], **options):
    """How far each p of SI's Table 3 lies inside of what its Table 2 makes of it."""
    return [room(over_rounding(welch, *(row[name] for name in ("si_sgd", "si_sgd_pm", "sgd", "sgd_pm")), **options),
                 row["p"]) for row in rows]


def table_5(**options):
    """The same of SI's Table 5 and its Table 4."""
    return [room(over_rounding(one_sample, row["adam"], row["decoder"], row["decoder_pm"], **options), row["p"])
            for row in PRINTED["si"]["table_4"]]
