"""What the scripts beside this one share: reading bundles, a look, a caption, files written whole.

They read what the tools write and nothing else. Bad input is one line on standard error and the
tools' exit status: 2 usage, 3 input, 5 output.
"""

import argparse
import io
import os
import re
import shlex
import sys
import tempfile
import textwrap
from pathlib import Path

TOOL = Path(sys.argv[0]).name


def fail(status, message, hint=None):
    print(f"{TOOL}: error: {message}", file=sys.stderr)
    if hint:
        print(f"{TOOL}: hint: {hint}", file=sys.stderr)
    sys.exit(status)


try:
    import h5py
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np
except ImportError as missing:
    fail(2, missing, "scripts/install-deps plots, for Debian's /usr/bin/python3")

# Okabe and Ito's colours, which colour-blind readers tell apart; lines differ by dashes besides.
ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY = ("#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00",
                                               "#CC79A7", "#777777")
SCHEMES = {"unas": (RED, "-"), "dnas": (BLUE, "--"), "hnas": (GREEN, "-."),
           "sinkhorn": (PURPLE, ":"), "fenchel": (ORANGE, (0, (5, 1, 1, 1, 1, 1))),
           "stored": (GREY, "-")}
WIDTH = 7.0  # inches: a page's text
CAPTION_SIZE = 6.5  # points

plt.rcParams.update({
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "axes.spines.top": False,
    "axes.spines.right": False, "lines.linewidth": 1.2, "legend.frameon": False,
    "figure.dpi": 100, "savefig.dpi": 200, "pdf.fonttype": 42, "svg.fonttype": "none",
})


def look_of(scheme):
    """Colour and dashes of a scheme."""
    return SCHEMES.get(scheme, (GREY, "-"))


def short(number, digits=6):
    """A number as people write it: 1e-8, not 1e-08."""
    return re.sub(r"e([+-])0*", lambda sign: "e-" if sign[1] == "-" else "e", f"{number:.{digits}g}")


def ordered(schemes):
    """Schemes in the order of the documents, others after them."""
    known = list(SCHEMES)
    return sorted(schemes, key=lambda name: known.index(name) if name in known else len(known))


# --- Reading


class Bundle:
    """The datasets of a file (or of its group, FILE:/group; "-" is a stream on standard input)."""

    def __init__(self, address):
        path, _, group = address.rpartition(":")
        if os.path.exists(address) or not path:
            path, group = address, ""
        self.name = "standard input" if address == "-" else address
        try:
            if address == "-":
                if sys.stdin.isatty():
                    fail(2, "the input would be read from the terminal", "give a file, or use a pipe")
                stream = sys.stdin.buffer.read()
                if not stream:
                    fail(3, "standard input: is empty", "the command before it failed")
                self.file = h5py.File(io.BytesIO(stream), "r")
            elif not os.path.exists(path):
                fail(3, f"{path}: no such file")
            else:
                self.file = h5py.File(path, "r")
        except OSError as error:
            fail(3, f"{self.name}: not a bundle: {error}")
        if group and not isinstance(self.file.get(group), h5py.Group):
            fail(3, f"{path}: no group {group}")
        self.root = self.file[group] if group else self.file

    def names(self):
        """Paths of all datasets."""
        found = []
        self.root.visititems(
            lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        return found

    def __contains__(self, name):
        return isinstance(self.root.get(name), h5py.Dataset)

    def _numbers(self, name, axes, exactly, made_by):
        if name not in self:
            fail(3, f"{self.name}: no dataset {name}; there is {', '.join(self.names()) or 'none'}",
                 made_by)
        dataset = self.root[name]
        if dataset.dtype.kind not in "fiub" or dataset.shape is None:
            fail(3, f"{self.name}:/{name}: holds no numbers")
        if dataset.ndim != axes if exactly else dataset.ndim < axes:
            fail(3, f"{self.name}:/{name}: is of shape {dataset.shape}, expected {axes} "
                    f"{'' if exactly else 'or more '}axes")
        if dataset.size == 0:
            fail(3, f"{self.name}:/{name}: is empty")
        return dataset

    def array(self, name, axes, made_by=None):
        """A dataset of numbers of so many axes. `made_by` is the hint where there is none."""
        return self._numbers(name, axes, True, made_by)[()]

    def whole(self, name, axes, made_by=None):
        """A dataset of numbers of so many axes or more, with what leads."""
        return self._numbers(name, axes, False, made_by)[()]

    def part(self, name, axes, index, made_by=None):
        """The last `axes` axes of a dataset of numbers where those that lead are at `index`, a
        tuple like (0, 3), or None for the first. Nothing else is read."""
        dataset = self._numbers(name, axes, False, made_by)
        leading = dataset.shape[:dataset.ndim - axes]
        index = (0,) * len(leading) if index is None else index
        if len(index) != len(leading) or not all(-n <= i < n for i, n in zip(index, leading)):
            fail(2, f"{self.name}:/{name}: its leading axes are {leading}, so there is nothing at "
                    f"{','.join(map(str, index))}")
        return dataset[tuple(i % n for i, n in zip(index, leading))]

    def strings(self, name):
        """A dataset of strings, or None."""
        if name not in self or not h5py.check_string_dtype(self.root[name].dtype):
            return None
        return self.root[name].asstr()[()]

    def attribute(self, name, group=None):
        """An attribute, or None."""
        holder = self.root if group is None else self.root[group]
        value = holder.attrs.get(name, self.file.attrs.get(name))
        return value.decode() if isinstance(value, bytes) else value

    def commands(self):
        """The commands that made it, first to last, as `history` has them."""
        history = self.file.get("history", self.file.attrs.get("history", ""))
        text = history.asstr()[()] if isinstance(history, h5py.Dataset) else history
        text = text.decode() if isinstance(text, bytes) else str(text)
        lines = [line.partition(": ")[2].rpartition(" (")[0] for line in text.splitlines()]
        return [line for line in reversed(lines) if line]


# --- Arguments


def numbers(text):
    """Integers separated by commas."""
    return tuple(int(word) for word in text.split(","))


def span(text):
    """LO:HI, either of which may be left out."""
    low, colon, high = text.partition(":")
    if not colon:
        raise ValueError
    return slice(int(low) if low else None, int(high) if high else None)


numbers.__name__, span.__name__ = "list of integers", "range LO:HI"


def parser(text, many=True):
    """What all have: inputs, where to write, caption. The module's text is the help."""
    made = argparse.ArgumentParser(prog=TOOL, description=text,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundles", nargs="*" if many else "?", metavar="BUNDLE",
                      default=["-"] if many else "-",
                      help="what a tool wrote: FILE[:/group], or - (the default), standard input")
    made.add_argument("-o", "--output", required=True, metavar="NAME",
                      help="NAME.png and NAME.pdf are written; one alone where NAME ends so")
    made.add_argument("--caption", metavar="TEXT",
                      help="the line below; unless given, the commands that made the data")
    made.add_argument("--title", metavar="TEXT", help="above the figure; unless given, none")
    made.add_argument("--width", type=float, default=WIDTH, metavar="INCHES",
                      help="default %(default)s; text keeps its size")
    made.add_argument("--dpi", type=float, default=200, metavar="N",
                      help="of the PNG; default %(default)s")
    return made


# --- Captions


# Words that say where and how, not what; with the value that follows.
_PLACES = {"-o": 1, "--output": 1, "--threads": 1, "--memory": 1, "--tmpdir": 1, "--force": 0,
           "--only": 0, "-q": 0, "--quiet": 0}


def _essential(command):
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word.partition("=")[0] in _PLACES:
            if "=" not in word and _PLACES[word]:
                next(words, None)
        elif not word.startswith("--json"):
            kept.append(word)
    return kept


def _quoted_in_braces(word):
    return f"'{word}'" if "," in word and "'" not in word else shlex.quote(word)


def _alike(one, other):
    """Whether they differ in the values of options alone."""
    return len(one) == len(other) and all(
        a == b or not (place == 0 or a.startswith("--") or b.startswith("--"))
        for place, (a, b) in enumerate(zip(one, other)))


def merged(commands):
    """Commands that differ in values as one line, {these,those} as a shell expands them; those that
    differ otherwise by themselves."""
    lines, rest = [], list(commands)
    while rest:
        alike = [words for words in rest if _alike(words, rest[0])]
        rest = [words for words in rest if words not in alike]
        columns = [list(dict.fromkeys(column)) for column in zip(*alike)]
        if sum(len(column) > 1 for column in columns) > 1:  # braces would mean all combinations
            lines += [shlex.join(words) for words in dict.fromkeys(map(tuple, alike))]
            continue
        lines.append(" ".join(shlex.quote(column[0]) if len(column) == 1 else
                              "{" + ",".join(map(_quoted_in_braces, column)) + "}"
                              for column in columns))
    return lines


def caption_of(bundles):
    """The commands that made the bundles, a line for each stage."""
    stages = {}
    for bundle in bundles:
        commands = bundle.commands()
        for place, command in enumerate(commands):
            stages.setdefault(place - len(commands), []).append(_essential(command))
    return [line for place in sorted(stages) for line in merged(stages[place])]


# --- Writing


def _write(figure, target, dpi):
    try:
        handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.",
                                           suffix=target.suffix)
    except OSError as error:
        fail(5, f"{target}: {error.strerror}")
    try:
        with os.fdopen(handle, "wb") as stream:
            # Without a date: the same data give the same file.
            figure.savefig(stream, format=target.suffix[1:], dpi=dpi,
                           metadata={"CreationDate": None} if target.suffix == ".pdf" else None)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(partial, 0o666 & ~umask)
        os.replace(partial, target)
    except OSError as error:
        fail(5, f"{target}: {error.strerror}")
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def save(figure, arguments, bundles, legend=0):
    """Adds title and caption, leaves so many inches for a legend above the panels, and writes the
    figure, whole or not at all."""
    lines = [arguments.caption] if arguments.caption else [f"$ {c}" for c in caption_of(bundles)]
    width, height = figure.get_size_inches()
    room = int(width * 72 / (0.61 * CAPTION_SIZE)) - 2
    folded = [part for line in lines
              for part in textwrap.wrap(line, room, subsequent_indent="    ",
                                        break_on_hyphens=False)]
    below = (len(folded) * CAPTION_SIZE * 1.3 + 4) / 72 / height if folded else 0
    above = legend / height
    if arguments.title:
        figure.text(0.5, 1 - above - 2 / 72 / height, arguments.title, fontsize=9, ha="center", va="top")
        above += 14 / 72 / height
    figure.get_layout_engine().set(rect=(0, below, 1, 1 - below - above))
    figure.text(4 / 72 / width, 3 / 72 / height, "\n".join(folded), family="monospace",
                fontsize=CAPTION_SIZE, color="#444444", va="bottom", linespacing=1.25)
    name = Path(arguments.output)
    targets = [name] if name.suffix in (".png", ".pdf", ".svg") else [
        name.with_name(name.name + suffix) for suffix in (".png", ".pdf")]
    for target in targets:
        _write(figure, target, arguments.dpi)
    print(f"{TOOL}: {', '.join(map(str, targets))}", file=sys.stderr)
