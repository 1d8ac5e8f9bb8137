"""The kinds of figures: each is a module with a docstring, `options(parser)` and `draw(arguments)`.

MANY in a module says whether it takes several inputs, READS what an input is.
"""

import importlib

import version
from command import TOOL, fail, parser, start
from documents import completion, man_page
from libraries import find_libraries
from targets import targets_of

KINDS = ("heatmap", "temperature", "column-sums", "attention-map", "relative-deviation", "evidence",
         "sinkhorn-error", "collapse-curves", "collapse-steps", "training", "claims")

ABOUT = """\
Usage: attn-plot KIND [options] [INPUT...] -o NAME

Draws a figure of what the tools of attnkit write, as NAME.png and NAME.pdf.

Kinds:
{kinds}

  attn-plot KIND --help     what a kind reads, and its options

Options:
  -h, --help                prints this text and exits
      --man                 prints the manual page (roff) and exits
      --completion SHELL    prints the completion script for bash, zsh or fish
      --version             prints the version and exits

Examples:
  explain-away-stats --each '/*' --tsv dump.h5 | attn-plot heatmap -o layers
      The share of explained-away keys by layer and head.
  attn-plot column-sums a.h5 b.h5 --width 3.3 -o sums.pdf
      A line for each bundle, as wide as a column of a paper.

Exit status:
  0  success
  2  the command line is wrong
  3  an input is missing or unreadable, or has a wrong type, shape or value
  5  the output cannot be written"""


def module_of(kind):
    return importlib.import_module(kind.replace("-", "_"))


def summary_of(kind):
    """The first line of its docstring."""
    return module_of(kind).__doc__.split("\n", 1)[0]


def parser_of(kind):
    module = module_of(kind)
    made = parser(kind, module.__doc__, module.MANY,
                  getattr(module, "READS", "output of a tool: FILE[:/group]"))
    module.options(made)
    return made


def main(words):
    """Runs the command; exits by SystemExit on errors."""
    start()
    kind, rest = (words[0], words[1:]) if words else (None, [])
    shell = rest[0] if kind == "--completion" and rest else (kind or "").partition("=")[2]
    if kind is None:
        fail(2, f"which kind of figure? {', '.join(KINDS)}", f"{TOOL} --help")
    if kind in ("-h", "--help"):
        print(ABOUT.format(kinds="\n".join(f"  {name:<19} {summary_of(name)}" for name in KINDS)))
    elif kind == "--version":
        print(f"{TOOL} {version.read()}")
    elif kind == "--man":
        print(man_page({name: parser_of(name) for name in KINDS}, version.read()))
    elif kind.partition("=")[0] == "--completion":
        print(completion(shell, {name: (summary_of(name), parser_of(name)) for name in KINDS}))
    elif kind not in KINDS:
        fail(2, f"{kind} is not a kind of figure; there are {', '.join(KINDS)}", f"{TOOL} --help")
    else:
        arguments = parser_of(kind).parse_args(rest)
        inputs = arguments.inputs if module_of(kind).MANY else [arguments.inputs]
        # Before anything is read: what it says needs no data.
        arguments.targets = targets_of(arguments.output, inputs)
        find_libraries(words)
        module_of(kind).draw(arguments)
