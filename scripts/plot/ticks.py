"""Ticks of an axis that can be read: names, as many as there is room for, and numbers that stand apart.

What there is room for is known once the panels have been laid out; fitting.py asks then.
"""

from libraries import mpl, np

LARGEST, SMALLEST = 7, 5  # points: labels of ticks
_APART = 6  # points between numbers, more than a digit: nearer ones read as one


def name_ticks(axis, places, names, family=None):
    """Names at the ticks of `axis` (an XAxis or YAxis, with its label), as many as can be read."""
    axis.attn_names = (list(places), list(names), family, axis.label.get_text())
    axis.set_ticks([])


def extent(text, figure):
    """The box of a text, or of a legend, in dots."""
    return text.get_window_extent(figure.canvas.get_renderer())


def _width_of(text, figure, size, family):
    """Width of a text in points."""
    made = mpl.text.Text(0, 0, text, fontsize=size, family=family, figure=figure)
    return 72 * extent(made, figure).width / figure.dpi


def _place_names(axis, figure):
    places, names, family, label = axis.attn_names
    flat, numbers = axis.axis_name == "x", all(name.isdigit() for name in names)
    ends = np.array([axis.axes.get_xlim(), axis.axes.get_ylim()])
    # Where the names stand, in points.
    drawn = np.array([axis.axes.transData.transform((place, ends[1, 0]) if flat else
                                                    (ends[0, 0], place))[0 if flat else 1]
                      for place in places]) * 72 / figure.dpi
    box = axis.axes.get_window_extent()
    room = (float(np.abs(np.diff(drawn)).min()) if len(places) > 1 else
            72 * (box.width if flat else box.height) / figure.dpi)
    # To measure all would take long.
    longest = max(_width_of(name, figure, LARGEST, family) for name in sorted(names, key=len)[-3:])
    if flat and longest + 4 <= room:
        turned, size, step = 0, LARGEST, 1
    else:
        # Lines of text beside each other: turned ones along x.
        turned = 90 if flat else 0
        size = min(LARGEST, max(SMALLEST, room / 1.15))
        step = int(np.ceil(1.15 * size / room - 1e-9))
        if flat and step > 1 and longest + 4 <= step * room:
            turned = 0
        # Of numbers that count up, some say what all of them are; of ids of tokens they do not.
        counting = numbers and set(np.diff([int(name) for name in names])) == {1}
        if (step > 1 and numbers) or (flat and counting):
            turned, size = 0, LARGEST
            needed = longest + 6 if flat else 1.3 * size
            step = next((by for by in (2, 5, 10, 20, 50, 100, 200, 500)
                         if by * room >= needed), 1000)
    axis.set_ticks(places[::step], names[::step], fontsize=size, rotation=turned)
    for text in axis.get_ticklabels():
        text.set_family(family or "sans-serif")
    if step > 1 and label and not numbers:
        axis.label.set_text(f"{label} (1 of {step} is named)")


def _least_gap(axis, figure):
    """Points between the labels of an x axis that are nearest to each other."""
    low, high = sorted(axis.get_view_interval())
    boxes = [extent(label, figure) for place, label in zip(axis.get_majorticklocs(),
                                                           axis.get_ticklabels())
             if low <= place <= high and label.get_visible() and label.get_text()]
    boxes.sort(key=lambda box: box.x0)
    return min((72 * (after.x0 - before.x1) / figure.dpi for before, after in zip(boxes, boxes[1:])),
               default=np.inf)


def _space_numbers(axis, figure):
    """Fewer numbers along x, until they stand apart."""
    locator = axis.get_major_locator()
    if axis.axis_name != "x" or not isinstance(locator, mpl.ticker.MaxNLocator):
        return
    bins = len(axis.get_majorticklocs())
    while bins > 1 and _least_gap(axis, figure) < _APART:
        bins -= 1
        locator.set_params(nbins=bins)


def place_ticks(axis, figure):
    """Chooses the ticks of an axis after its panel has been laid out."""
    if hasattr(axis, "attn_names"):
        _place_names(axis, figure)
    else:
        _space_numbers(axis, figure)
