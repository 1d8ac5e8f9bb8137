"""Makes the texts of a figure fit: nothing is cut, and labels of ticks do not touch.

matplotlib places texts without regard to each other and to the edge of the figure. Once it has laid
out the panels, their sizes are known: lines are broken, ticks are chosen (ticks.py), and the panels
are laid out again.
"""

import textwrap

from command import tell
from ticks import extent, place_ticks

_EDGE = 2 / 72  # inches that stay free at the edges
_ROUNDS = 4


def _broken(lines, width):
    return "\n".join(part for line in lines
                     for part in (textwrap.wrap(line, width, break_long_words=False,
                                                break_on_hyphens=False) or [""]))


def _fold(text, room, length_of):
    """Breaks the lines of a text so that it is at most `room` long, into lines of like length."""
    if not text.get_text() or length_of(text) <= room:
        return
    lines = text.get_text().split("\n")
    longest = max(map(len, lines))
    if longest <= 8:  # shorter lines would cut words
        return
    for width in range(longest - 1, 7, -1):
        fitting = _broken(lines, width)
        text.set_text(fitting)
        if length_of(text) <= room:
            break
    for narrower in range(width - 1, 7, -1):
        even = _broken(lines, narrower)
        if even.count("\n") > fitting.count("\n") or max(map(len, even.split("\n"))) > width:
            break
        text.set_text(even)


def _fold_labels(axis, figure):
    """Titles and labels of one panel. A panel beside another keeps to its own part of the figure."""
    width, height = figure.get_size_inches() * figure.dpi
    edge = _EDGE * figure.dpi
    box = axis.get_window_extent()
    grid = axis.get_subplotspec() if hasattr(axis, "get_subplotspec") else None
    columns = grid.get_gridspec().ncols if grid else 1

    def across(text):
        return extent(text, figure).width

    def along(text):
        return extent(text, figure).height

    for text in (axis.title, axis.xaxis.label):
        middle = (box.x0 + box.x1) / 2
        room = 2 * (min(middle, width - middle) - edge)
        _fold(text, min(room, width / columns) if columns > 1 else room, across)
    middle = (box.y0 + box.y1) / 2
    room = 2 * (min(middle, height - middle) - edge)
    # Beyond the panel there are other panels, or the legend.
    _fold(axis.yaxis.label, min(room, 1.1 * box.height), along)


def _axes_of(figure):
    """All axes with the insets of the panels."""
    found = list(figure.axes)
    for axis in figure.axes:
        found += [child for child in axis.child_axes if child not in found]
    return [axis for axis in found if axis.get_visible() and axis.axison]


def _legend(figure, legend):
    """Adds the legend, in as many columns as fit; returns it and its height in inches."""
    handles, columns = legend
    room = (figure.get_size_inches()[0] - 2 * _EDGE) * figure.dpi

    for count in range(min(columns, len(handles)), 0, -1):
        made = figure.legend(handles=handles, loc="upper center", ncols=count, borderaxespad=0.2)
        if extent(made, figure).width <= room or count == 1:
            break
        made.remove()
    beside = extent(made, figure).width - max(extent(text, figure).width for text in made.get_texts())
    for text in made.get_texts():
        _fold(text, room - beside, lambda one: extent(one, figure).width)
    return made, extent(made, figure).height / figure.dpi + 0.04


def _title(figure, words):
    """Adds the title; returns it and its height in inches."""
    width = figure.get_size_inches()[0]
    text = figure.text(width / 2, 0, words, fontsize=9, ha="center", va="top",
                       transform=figure.dpi_scale_trans)
    _fold(text, (width - 2 * _EDGE) * figure.dpi, lambda one: extent(one, figure).width)
    return text, extent(text, figure).height / figure.dpi + 5 / 72


def _add_above(figure, title, legend, below):
    """Adds title and legend; the figure becomes higher, so that its panels keep their size."""
    width, height = figure.get_size_inches()
    title, title_height = _title(figure, title) if title else (None, 0)
    legend, legend_height = _legend(figure, legend) if legend and legend[0] else (None, 0)
    above = title_height + legend_height
    height += above + below
    figure.set_size_inches(width, height)
    if title:
        title.set_y(height - 2 / 72)
    if legend:
        legend.set_bbox_to_anchor((width / 2, height - title_height),
                                  transform=figure.dpi_scale_trans)
    figure.get_layout_engine().set(rect=(0, below / height, 1, 1 - (above + below) / height))


def _cut(figure):
    """By how many points what is drawn exceeds the figure."""
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    width, height = figure.get_size_inches()
    return 72 * max(-box.x0, -box.y0, box.x1 - width, box.y1 - height)


def _words_of(figure):
    """All labels with their sizes, which decide on the layout."""
    return [(text.get_text(), text.get_fontsize(), text.get_rotation())
            for axis in _axes_of(figure)
            for text in (axis.title, axis.xaxis.label, axis.yaxis.label,
                         *(label for side in (axis.xaxis, axis.yaxis) if hasattr(side, "attn_names")
                           for label in side.get_ticklabels()))]


def fit(figure, title=None, legend=None, below=0):
    """Adds title and legend above the panels, keeps `below` inches free below them, and makes all
    texts fit. Both make the figure higher."""
    _add_above(figure, title, legend, below)
    before = None
    for _ in range(_ROUNDS):
        figure.draw_without_rendering()
        for axis in _axes_of(figure):
            for side in (axis.xaxis, axis.yaxis):
                place_ticks(side, figure)
            _fold_labels(axis, figure)
        after = _words_of(figure)
        if after == before:
            break
        before = after
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # nothing changes any more, and each file would take as long again
    if _cut(figure) > 1:
        tell("the figure is too small for its texts, which are cut at the edge: use a larger --width")
