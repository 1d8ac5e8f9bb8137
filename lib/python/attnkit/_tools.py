"""One function for each computation of the tools, with the tools' options, defaults and checks."""

from __future__ import annotations

import inspect
import textwrap
from keyword import iskeyword
from typing import Any, Callable, Dict, List, Tuple

from ._errors import error_of
from ._functions import call
from ._options import options_of, table
from ._results import Results


FUNCTIONS: Dict[str, Tuple[str, str, Tuple[str, ...]]] = {
    "attention": ("attn-compute", "", ("q", "k", "v")),
    "stats": ("explain-away-stats", "", ("q", "k")),
    "sinkhorn": ("sinkhorn-iter", "", ("cost", "a", "b")),
    "unbalanced": ("sinkhorn-iter", "", ("cost", "a", "b", "unbalanced")),
    "exact": ("sinkhorn-iter", "exact", ("cost", "a", "b")),
    "divergence": ("sinkhorn-iter", "divergence", ("cost", "a", "b")),
    "barycentre": ("sinkhorn-iter", "barycentre", ("cost", "a", "histogram_weights")),
    "bulk": ("sinkhorn-iter", "bulk", ("scores",)),
    "solve_dual": ("lambda-solve", "", ("t", "z")),
    "collapse.curve": ("mode-collapse-sim", "curve", ()),
    "collapse.simulate": ("mode-collapse-sim", "simulate", ("x",)),
    "collapse.em": ("mode-collapse-sim", "em", ("x",)),
    "paths.identify": ("basis-paths", "identify", ("wq", "wk")),
    "paths.values": ("basis-paths", "values", ("wq", "wk")),
    "paths.reconstruct": ("basis-paths", "reconstruct", ("basis_value",)),
    "paths.rescale": ("basis-paths", "rescale", ("wq", "wk", "scale")),
    "paths.start": ("basis-paths", "start", ("wq", "wk")),
    "paths.step": ("basis-paths", "step", ("wq", "wk", "grad_wq", "grad_wk")),
    "paths.check": ("basis-paths", "check", ("path",)),
}
"""The tool of each function, its verb, and the arrays that may be given by position."""


def _paragraph(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 88, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _entry(head: str, text: str) -> str:
    return head + "\n" + _paragraph(text, "    ")


def _about_option(name: str, option: Dict[str, Any]) -> str:
    text = option["help"]
    if "values" in option:
        text += " One of " + ", ".join(option["values"]) + "."
    default = ", else ".join(option[name] for name in ("default_words", "default") if option.get(name))
    if default:
        text += f" Default: {default}."
    return _entry(name, text)


def _document(tool: str, verb: str) -> str:
    """The docstring of a function, from the declaration of its tool."""
    declared = table(tool)
    summary = next((v["help"] for v in declared["verbs"] if verb and v["name"] == verb), declared["summary"] + ".")
    parts: List[str] = [summary, *map(_paragraph, declared["about"])]
    if declared["formulas"]:
        parts.append("Formulas::\n\n" + "\n".join("    " + line for line in declared["formulas"]))
    arrays = [_entry(f"{d['name']} : {d['shape'] or 'array'}", d["meaning"]) for d in declared["datasets"]]
    parts.append("Arrays\n------\n" + "\n".join(arrays))
    common = [
        _entry("out", "An array for the result out, or a dict of arrays by the names of results."),
        _entry("progress", "Called with the share of the work that is done, from 0 to 1."),
    ]
    options = [_about_option(name, option) for name, option in options_of(tool, verb).items()]
    parts.append("Options\n-------\n" + "\n".join(common + options))
    results = [_entry(f"{d['name']} : {d['shape'] or 'array'}", d["meaning"]) for d in declared["results"]]
    parts.append("Results\n-------\n" + "\n".join(results))
    if declared["report"]:
        report = [_entry(d["name"], d["meaning"]) for d in declared["report"]]
        parts.append('Members of report["result"]\n---------------------------\n' + "\n".join(report))
    if declared["references"]:
        parts.append("References\n----------\n" + "\n".join(map(_paragraph, declared["references"])))
    return "\n\n".join(parts)


def dataset_names(tool: str) -> List[str]:
    """The names of datasets as arguments, in the order of the declaration."""
    names: Dict[str, None] = {}
    for dataset in table(tool)["datasets"]:
        for name in dataset["name"].split(", "):
            if name != "...":
                names[name] = None
    return list(names)


def keyword_names(path: str) -> Tuple[List[str], List[str]]:
    """The arguments of a function that are given by name: arrays, and options."""
    tool, verb, first = FUNCTIONS[path]
    options = [name for name in options_of(tool, verb) if name not in first]
    arrays = [name for name in dataset_names(tool) if name not in first and name not in options]
    return arrays, options


def signature_of(path: str) -> inspect.Signature:
    """The signature of a function: arrays by position, then arrays and options by name."""
    kind = inspect.Parameter
    arrays, options = keyword_names(path)
    parameters = [kind(name, kind.POSITIONAL_OR_KEYWORD, default=None) for name in FUNCTIONS[path][2]]
    for name in [*arrays, "out", "progress", *options]:
        # A keyword of Python has an underscore.
        parameters.append(kind(name + "_" if iskeyword(name) else name, kind.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters, return_annotation=Results)


def function_of(path: str) -> Callable[..., Results]:
    """The function that FUNCTIONS describes, such as "attention" or "paths.values"."""
    tool, verb, first = FUNCTIONS[path]
    module, _, name = ("attnkit." + path).rpartition(".")

    def function(*arrays: Any, out: Any = None, progress: Any = None, **arguments: Any) -> Results:
        if len(arrays) > len(first):
            raise error_of(2, f"{name}() takes at most {len(first)} arrays by position: {', '.join(first)}")
        given = dict(zip(first, arrays))
        for twice in given.keys() & arguments.keys():
            raise error_of(2, f"{name}() has two values for {twice}")
        if name == "unbalanced" and given.get(name, arguments.get(name)) is None:
            raise error_of(2, "unbalanced() requires the penalty unbalanced", "1.0, or (1.0, 2.0) for rows and columns")
        return call(name, tool, verb, {**given, **arguments}, first[0] if first else "", out=out, progress=progress)

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = _document(tool, verb)
    function.__signature__ = signature_of(path)  # type: ignore[attr-defined]
    return function


attention = function_of("attention")
stats = function_of("stats")
sinkhorn = function_of("sinkhorn")
unbalanced = function_of("unbalanced")
exact = function_of("exact")
divergence = function_of("divergence")
barycentre = function_of("barycentre")
bulk = function_of("bulk")
solve_dual = function_of("solve_dual")
