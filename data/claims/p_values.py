"""p-values of Student's t, and what other readings of the same table would make of one.

printed.json has p-values as texts, whose last digits say how far they are rounded.
"""

from math import gamma

from plain import *

# Welch's test of n against n has degrees of freedom from n - 1 (one variance) to 2(n - 1) (equal ones).
FREEDOM = np.linspace(1, 2, 9)

NODE, WEIGHT = np.polynomial.legendre.leggauss(80)


def tail(t, freedom):
    """P(T > t) for t >= 0: by t = sqrt(freedom) tan(angle), an integral of powers of the cosine."""
    low = np.arctan(t / np.sqrt(freedom))
    half = (np.pi / 2 - low) / 2
    area = half * (np.cos(low + half * (1 + NODE))**(freedom - 1) @ WEIGHT)
    return area * gamma((freedom + 1) / 2) / (np.sqrt(np.pi) * gamma(freedom / 2))


def deviate(p, freedom):
    """The t whose tail is p <= 1/2."""
    low, high = 0.0, 1e4
    while high - low > 1e-13 * (1 + low):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > p else (low, middle)
    return low


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


def rounded(text):
    """The least and the largest number that are printed so."""
    half = 0.5 * 10.0**-len(text.partition(".")[2])
    return float(text) - half, float(text) + half


def read_otherwise(text, factor, runs):
    """Least and largest p-value, for t multiplied by `factor`, of a test of `runs` against `runs` runs
    that has the p-value `text`. Where Welch's degrees of freedom lie is not known."""
    found = [tail(factor * deviate(p, freedom), freedom)
             for p in rounded(text) for freedom in FREEDOM * (runs - 1)]
    return min(found), max(found)


def of_population(text, runs):
    """From a test with sample deviations: the population's are sqrt((n - 1)/n) of those that the same
    numbers would be as samples', so that reading a +- as such makes s larger, and t smaller."""
    return read_otherwise(text, ((runs - 1) / runs)**0.5, runs)


def room(interval, text):
    """How far inside of the interval what is printed so may lie; below 0 outside."""
    low, high = rounded(text)
    return min(interval[1] - low, high - interval[0])
