"""The command line of attn-plot: arguments, errors, signals.

Errors are one line on standard error, and the tools' exit status: 2 usage, 3 input, 5 output.
"""

import argparse
import signal
import sys
import warnings

TOOL = "attn-plot"


def fail(status, message, hint=None):
    """Prints the message and exits by SystemExit, so that temporaries are removed."""
    print(f"{TOOL}: error: {' '.join(str(message).split())}", file=sys.stderr)
    if hint:
        print(f"{TOOL}: hint: {hint}", file=sys.stderr)
    sys.exit(status)


def _end_by(number, _frame):
    sys.exit(128 + number)


_told = set()


def tell(message, *_ignored, **_more):
    """A warning, once."""
    line = f"{TOOL}: warning: {' '.join(str(message).split())}"
    if line not in _told:
        print(line, file=sys.stderr)
    _told.add(line)


def start():
    """What the process of the command needs: an exit that removes temporaries, warnings of one
    line."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_by)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    warnings.showwarning = tell


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


def names(text):
    """A list of names."""
    return text.split(",")


@_named("range LO:HI")
def span(text):
    """A range; either end may be left out."""
    low, colon, high = text.partition(":")
    if not colon:
        raise ValueError
    return slice(int(low) if low else None, int(high) if high else None)


class Parser(argparse.ArgumentParser):
    """Errors are one line with a hint. A value of --caption follows only after "="."""

    def error(self, message):
        fail(2, message, f"{self.prog} --help")

    def parse_args(self, args=None, namespace=None):
        words = ["--caption=" if word == "--caption" else word for word in args]
        return super().parse_args(words, namespace)


def parser(kind, text, many, reads):
    """The common options of a kind: inputs, output, appearance. `reads` says what an input is."""
    made = Parser(prog=f"{TOOL} {kind}", description=text, allow_abbrev=False,
                  usage=f"{TOOL} {kind} [options] [INPUT{'...' if many else ''}] -o NAME",
                  formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("inputs", nargs="*" if many else "?", metavar="INPUT",
                      default=["-"] if many else "-",
                      help=f"{reads}, or - (the default), standard input")
    made.add_argument("-o", "--output", required=True, metavar="NAME",
                      help="writes or replaces NAME.png and NAME.pdf; only one file if "
                           "NAME ends in .png, .pdf or .svg")
    made.add_argument("--width", type=between(2, 40), default=7.0, metavar="INCHES",
                      help="width, default %(default)g; 3.3 is a column of a paper. The text size "
                           "does not change")
    made.add_argument("--title", metavar="TEXT", help="title above the figure; default: none")
    made.add_argument("--caption", metavar="TEXT",
                      help="--caption prints the commands that made the data below the figure; "
                           "--caption=TEXT prints TEXT; default: no caption")
    made.add_argument("--dpi", type=between(20, 1200), default=200, metavar="N",
                      help="resolution of the PNG; default %(default)s")
    return made
