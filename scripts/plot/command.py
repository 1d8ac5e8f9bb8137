"""The command line of the plotting scripts: arguments, errors, signals.

Errors are one line on standard error, and the tools' exit status: 2 usage, 3 input, 5 output.
"""

import argparse
import signal
import sys
import warnings
from pathlib import Path

TOOL = Path(sys.argv[0]).name


def fail(status, message, hint=None):
    """Prints the message and exits by SystemExit, so that temporaries are removed."""
    print(f"{TOOL}: error: {' '.join(str(message).split())}", file=sys.stderr)
    if hint:
        print(f"{TOOL}: hint: {hint}", file=sys.stderr)
    sys.exit(status)


def _end_by(number, _frame):
    sys.exit(128 + number)


for _number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(_number, _end_by)

_told = set()


def _tell(message, *_ignored, **_more):
    line = f"{TOOL}: warning: {' '.join(str(message).split())}"
    if line not in _told:
        print(line, file=sys.stderr)
    _told.add(line)


warnings.showwarning = _tell


# --- Types of arguments: argparse names them in its errors by their function names.


def _named(name):
    def give(function):
        function.__name__ = name
        return function
    return give


def between(low, high, kind=float):
    """A number in [low, high]."""
    @_named(f"number from {low:g} to {high:g}")
    def read(text):
        if not low <= kind(text) <= high:
            raise ValueError
        return kind(text)
    return read


@_named("list of integers")
def integers(text):
    return tuple(int(word) for word in text.split(","))


@_named("range LO:HI")
def span(text):
    """A range; either end may be left out."""
    low, colon, high = text.partition(":")
    if not colon:
        raise ValueError
    return slice(int(low) if low else None, int(high) if high else None)


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(2, message, f"{TOOL} --help")


def parser(text, many=True):
    """The common options: inputs, output, caption. `text` describes the script."""
    made = _Parser(prog=TOOL, description=text,
                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundles", nargs="*" if many else "?", metavar="BUNDLE",
                      default=["-"] if many else "-",
                      help="output of a tool: FILE[:/group], or - (the default), standard input")
    made.add_argument("-o", "--output", required=True, metavar="NAME",
                      help="writes or replaces NAME.png and NAME.pdf; only one file if "
                           "NAME ends in .png, .pdf or .svg")
    made.add_argument("--caption", metavar="TEXT",
                      help="caption below the figure; default: the commands that made the data")
    made.add_argument("--title", metavar="TEXT", help="title above the figure; default: none")
    made.add_argument("--width", type=between(2, 40), default=7.0, metavar="INCHES",
                      help="width, default %(default)g; the text size does not change")
    made.add_argument("--dpi", type=between(20, 1200), default=200, metavar="N",
                      help="resolution of the PNG; default %(default)s")
    return made
