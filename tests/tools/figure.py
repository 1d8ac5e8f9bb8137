"""Shared by the tests of attn-plot: drawing figures, and reading what a figure says.

What a picture says is read from its SVG, whose text is text.
"""

import importlib.util
import json
import re
import resource
import subprocess
import sys
import unittest

from attn import BIN, LONG, SOURCE, TIMEOUT, ToolTest
from loaded import run_loaded

WITHOUT_PICTURES = importlib.util.find_spec("matplotlib") is None

if WITHOUT_PICTURES:
    print("figure: no matplotlib for this Python, so attn-plot is not tested", file=sys.stderr)
else:
    import matplotlib.backends.backend_pdf
    import matplotlib.backends.backend_svg
    import matplotlib.figure
    import matplotlib.image
    import matplotlib.layout_engine
    import matplotlib.pyplot
    import matplotlib.text

PASSAGE = SOURCE / "data/passage.h5"
PLOT = SOURCE / "scripts/attn-plot"
CLUSTERS = ["--centres", "1.8,0.7;-1,-1", "--variance", "0.1", "--seed", "1"]


def drawn_texts(figure):
    """(text, size in points, box x0, y0, x1, y1 in inches) of all texts that are drawn."""
    inside = []
    for axis in [*figure.axes, *(child for axis in figure.axes for child in axis.child_axes)]:
        if not axis.axison:
            continue
        inside += [axis.title, axis.xaxis.label, axis.yaxis.label, *axis.texts]
        for side in (axis.xaxis, axis.yaxis):
            inside += [tick.label1 for tick in side._update_ticks()]  # pylint: disable=protected-access
    for legend in figure.legends:
        inside += legend.get_texts()
    found = []
    for text in [*inside, *figure.texts]:
        if text.get_visible() and text.get_text().strip():
            box = text.get_window_extent(figure.canvas.get_renderer())
            found.append([text.get_text(), text.get_fontsize(),
                          *(value / figure.dpi for value in (box.x0, box.y0, box.x1, box.y1))])
    return found


def record_layout(path):
    """Writes the sizes of the next figure and of its texts to a file when it is saved, as they are at
    the resolution of the picture."""
    original = matplotlib.figure.Figure.savefig

    def savefig(figure, *arguments, **more):
        original(figure, *arguments, **more)
        if figure.dpi != more["dpi"]:
            figure.dpi = more["dpi"]
            figure.draw_without_rendering()
        lines = [len(axis.lines) for axis in figure.axes]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"size": list(figure.get_size_inches()), "texts": drawn_texts(figure),
                       "lines": lines}, file)

    matplotlib.figure.Figure.savefig = savefig


def place_panels_once():
    """Places the panels of a figure when it is first drawn, and not again, and draws it only once more, to save it: to find
    the best places takes more than a third of the time."""
    engine = matplotlib.layout_engine.ConstrainedLayoutEngine
    place = engine.execute

    def execute(self, figure):
        engine.execute = lambda *_: None
        return place(self, figure)

    figure_class = matplotlib.figure.Figure
    draw = figure_class.draw_without_rendering

    def draw_once(self):
        figure_class.draw_without_rendering = lambda _: None
        draw(self)

    engine.execute, figure_class.draw_without_rendering = execute, draw_once


@unittest.skipIf(WITHOUT_PICTURES, "no matplotlib")
class FigureTest(ToolTest):

    def setUp(self):
        super().setUp()
        # matplotlib's cache of fonts; made in each test's folder, it would take seconds each time.
        self.environment.pop("TMPDIR")

    def plot(self, name, *arguments, status=0, stdin=b"", layout=None, room=None, placed=True):
        """Draws a figure. `room`: bytes that a file may have, as on a disk that is nearly full. Without
        `placed`, its panels are placed only roughly."""
        def prepare():
            if not placed:
                place_panels_once()
            if layout:
                record_layout(layout)
            if room is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

        # To load matplotlib takes longer than to draw most figures. `make` starts Python anew.
        run = run_loaded(PLOT, [name, *map(str, arguments)], self.folder, self.environment, stdin,
                         prepare)
        self.assertEqual(run.status, status, f"{name} {arguments}: {run.err}")
        return run

    def words(self, name, *arguments, **more):
        """The text of a figure, a line for each piece of it. test_figure_layout tests where it is."""
        self.plot(name, *arguments, "-o", "figure.svg", placed=LONG, **more)
        return self.words_of_figure()

    def words_of_figure(self):
        svg = (self.folder / "figure.svg").read_text()
        return [re.sub("<[^>]*>", "", text).replace("&lt;", "<").strip()
                for text in re.findall(r"<text[^>]*>(.*?)</text>", svg, re.DOTALL)]

    def looks_of_legend(self):
        """(colour, dashes) of the lines in the legend of figure.svg."""
        svg = (self.folder / "figure.svg").read_text()
        styles = re.findall(r'<path d="M[^"]*L[^"]*"[^>]*style="fill: none; ([^"]*)"',
                            svg[svg.index('<g id="legend_1">'):])
        return [tuple(re.search(rf"(?<!\S){name}: ([^;]+)|$", style)[1] for name in ("stroke", "stroke-dasharray"))
                for style in styles]

    def refused(self, name, *arguments, status, says, **more):  # pylint: disable=arguments-differ
        before = sorted(path.name for path in self.folder.iterdir())
        run = self.plot(name, *arguments, status=status, **more)
        self.assertRegex(run.err, r"\Aattn-plot: error: .+\n(attn-plot: hint: .+\n)?\Z")
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, run.err)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), before)

    def make(self, makefile, *arguments, cwd=SOURCE, status=0):
        command = ["make", "-f", f"scripts/{makefile}", f"BIN={BIN}", f"PYTHON={sys.executable} -B",
                   *arguments]
        done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=TIMEOUT, check=False,
                              env={key: value for key, value in self.environment.items()
                                   if not key.startswith("MAKE")})
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stdout.decode()


