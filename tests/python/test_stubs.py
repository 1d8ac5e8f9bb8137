"""The stubs of the functions that are made from the tools' tables of options, and mypy's view of the package.

ATTN_RENEW_GOLDEN=1 writes the stubs, attnkit/*.pyi beside the sources of the package.
"""

import os
import pathlib
import subprocess
import sys
import unittest
from keyword import iskeyword

from attnkit._options import datasets_of, options_of
from attnkit._tools import FUNCTIONS, keyword_names

CACHE = pathlib.Path(os.environ["ATTN_BIN"]).parent / "mypy"
PACKAGE = pathlib.Path(os.environ["ATTN_SOURCE"]) / "lib/python"

HEAD = '''# Written by tests/python/test_stubs.py from the tools' tables of options.
from typing import Any, Callable, Dict, List, Literal, Optional, Sequence, Tuple, Union

from ._results import Results

Array = Any  # what has the buffer protocol or DLPack, or a bundle as the first argument
'''

TOOLS_END = '''
FUNCTIONS: Dict[str, Tuple[str, str, Tuple[str, ...]]]

def keyword_names(path: str) -> Tuple[List[str], List[str]]: ...
'''

TYPES = {
    "flag": "bool",
    "number": "float",
    "integer": "int",
    "seed": "int",
    "numbers": "Union[float, Sequence[float]]",
    "integers": "Union[int, Sequence[int]]",
    "points": "Union[str, Sequence[Sequence[float]]]",
    "size": "Union[int, str]",
    "text": "Union[str, float, Sequence[Any]]",
    "texts": "Union[str, Sequence[str]]",
}


def type_of(option):
    words = "Literal[" + ", ".join(f'"{value}"' for value in option.get("values", ())) + "]"
    if option["kind"] == "choice":
        return words
    if option["kind"] == "optional_choice":
        return f"Union[bool, {words}]"
    if option["kind"] == "choices":
        return f"Union[str, Sequence[{words}]]"
    return TYPES[option["kind"]]


def stub_of(path):
    tool, verb, first = FUNCTIONS[path]
    arrays, options = keyword_names(path)
    lines = [f"def {path.rpartition('.')[2]}("]
    lines += [f"    {name}: Array = ..." for name in first]
    lines.append("    *")
    lines += [f"    {name}: Array = ..." for name in arrays]
    lines.append("    out: Union[Array, Dict[str, Array], None] = ...")
    lines.append("    progress: Optional[Callable[[float], object]] = ...")
    for name in options:
        is_array_too = name in datasets_of(tool)
        kind = "Array" if is_array_too else type_of(options_of(tool, verb)[name])
        lines.append(f"    {name}{'_' if iskeyword(name) else ''}: Optional[{kind}] = ...")
    if {"w1", "w2"} <= datasets_of(tool) and tool == "basis-paths":
        lines.append("    **arrays: Array")  # w3, w4 and so on of a network
    return lines[0] + "\n" + ",\n".join(lines[1:]) + "\n) -> Results: ...\n"


def stubs():
    files = {"_tools.pyi": HEAD, "collapse.pyi": HEAD, "paths.pyi": HEAD}
    for path in FUNCTIONS:
        module = path.partition(".")[0] if "." in path else "_tools"
        files[module + ".pyi"] += "\n" + stub_of(path)
    files["_tools.pyi"] += TOOLS_END
    return files


class Stubs(unittest.TestCase):
    def test_are_those_of_the_tables(self):
        for name, text in stubs().items():
            path = PACKAGE / "attnkit" / name
            if os.environ.get("ATTN_RENEW_GOLDEN"):
                path.write_text(text, encoding="utf-8")
            self.assertEqual(path.read_text(encoding="utf-8"), text, f"{path}: renew with ATTN_RENEW_GOLDEN=1")

    def test_pass_mypy_with_the_package_and_the_examples(self):
        if subprocess.run([sys.executable, "-c", "import mypy"], capture_output=True).returncode != 0:
            self.skipTest("mypy is not there")
        examples = sorted(map(str, PACKAGE.glob("examples/*.py")))
        command = [sys.executable, "-m", "mypy", f"--cache-dir={CACHE}",
                   "--config-file=pyproject.toml", "attnkit", *examples]
        found = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)


if __name__ == "__main__":
    unittest.main()
