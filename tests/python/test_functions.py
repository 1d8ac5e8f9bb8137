"""The functions of attnkit against the tools: the same bits, reports, warnings and errors."""

from __future__ import annotations

import csv
import functools
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import h5py
import numpy as np

import attnkit
from attnkit import _options
from problems import COMMANDS, Arrays, Options, Problem, Random, random_problems, refused_problems

BIN = Path(os.environ["ATTN_BIN"]).resolve()
TIMEOUT = 120  # seconds per command: far more than any takes


class Outcome(NamedTuple):
    """What a run returned, or why it did not."""

    status: int
    summary: str
    text: str
    report: Dict[str, Any]
    arrays: Dict[str, Any]
    attributes: Dict[str, Any]


def function_called(name: str) -> Callable[..., Any]:
    found: Any = functools.reduce(getattr, name.split("."), attnkit)
    return found  # type: ignore[no-any-return]


def without_run(report: Dict[str, Any]) -> Dict[str, Any]:
    """A report without what differs between two equal runs: times, threads, names of files."""
    report = {name: value for name, value in report.items() if name != "runtime"}
    own = ("output", "json", "input", "only", "threads", "tmpdir")
    report["params"] = {name: value for name, value in report.get("params", {}).items() if name not in own}
    return report


def writes_a_bundle(problem: Problem) -> bool:
    """Whether the tool has arrays as results: checks, sweeps and chosen heads have figures alone."""
    options = problem.options
    figures = problem.function == "stats" and ("heads" in options or len(options.get("hybrid", [])) > 1)
    return problem.function != "paths.check" and not figures


def run_function(problem: Problem, threads: int) -> Outcome:
    options = {"threads": threads, **problem.options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = function_called(problem.function)(**problem.arrays, **options)
        except attnkit.Error as error:
            failed = without_run(error.report or {})
            failed["error"] = {"message": str(error), "hint": error.hint, "exit": error.exit_status}
            return Outcome(error.exit_status, "", "", failed, {}, {})
    told = [str(warning.message) for warning in caught]
    status = 0
    if caught and caught[-1].category is attnkit.NotConverged:
        status, line = 1, told.pop()
        if line != (found.summary or f"the status of {problem.function}() is 1"):
            raise AssertionError(f"the warning is {line}")
    report = {**without_run(found.report), "warnings": told, "notes": found.notes}
    return Outcome(status, found.summary, found.text, report, dict(found), dict(found.attributes))


def write_bundle(path: Path, arrays: Arrays) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = np.array(array, order="C")


def read_bundle(path: Path, outcome: Outcome) -> None:
    """The results of a file, and the attributes of its groups."""
    with h5py.File(path, "r") as file:
        def take(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                outcome.arrays[name] = item[()]
            else:
                outcome.attributes.update({f"{name}/{key}": value for key, value in item.attrs.items()})

        file.visititems(take)
        outcome.attributes.update((key, value) for key, value in file.attrs.items() if key != "history")


def run(command: List[str], folder: Optional[Path] = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, cwd=folder, timeout=TIMEOUT, stdin=subprocess.DEVNULL, capture_output=True,
                          check=False)


def run_tool(folder: Path, number: int, problem: Problem) -> Outcome:
    tool, verb = COMMANDS[problem.function]
    source, target, report_file = f"in{number}.h5", f"out{number}.h5", f"report{number}.json"
    command = [str(BIN / tool), *[verb] * bool(verb), *problem.words(), f"--json={report_file}"]
    if "threads" not in problem.options:
        command.append("--threads=1")
    if problem.arrays:
        write_bundle(folder / source, problem.arrays)
    for name in problem.arrays:
        command += ["-i", f"{name}={source}:/{name}"]
    if writes_a_bundle(problem):
        command += ["-o", target, *["--only"] * (verb != "curve")]
    done = run(command, folder)

    def renamed(text: str) -> str:
        text = text.replace("the named datasets", "the arrays")
        return text.replace(f"{source}:/", "").replace(f"{target}:/", "")

    report = json.loads(renamed((folder / report_file).read_text()))
    lines = renamed(done.stderr.decode()).splitlines()
    told = [line[len(tool) + 2 :] for line in lines]
    summary = "".join(line for line in told if not re.match("(warning|note|error|hint): ", line))
    report = without_run(report)
    if done.returncode <= 1:
        report["notes"] = [line[len("note: ") :] for line in told if line.startswith("note: ")]
    outcome = Outcome(done.returncode, summary, renamed(done.stdout.decode()), report, {}, {})
    if (folder / target).exists():
        read_bundle(folder / target, outcome)
    return outcome


def form(array: Any) -> Any:
    """Type, shape and bytes."""
    if isinstance(array, list):
        return array
    array = np.asarray(array)
    return array.dtype.str, array.shape, array.tobytes()


def same_bits(test: unittest.TestCase, found: Any, expected: Any) -> None:
    test.assertEqual({name: form(array) for name, array in found.items()},
                     {name: form(array) for name, array in expected.items()})


class SameAsTools(unittest.TestCase):

    maxDiff = 2000

    def compare(self, problems: List[Problem]) -> List[int]:
        """Runs problems by function and by tool, and returns their exit statuses."""
        statuses = []
        with tempfile.TemporaryDirectory(prefix="attnkit-") as folder, ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(run_tool, Path(folder), n, problem) for n, problem in enumerate(problems)]
            for number, (problem, ran) in enumerate(zip(problems, runs)):
                shapes = {name: (array.dtype.str, array.shape) for name, array in problem.arrays.items()}
                with self.subTest(number, call=problem.function, arrays=shapes, options=problem.options):
                    expected = ran.result()
                    found = run_function(problem, threads=2)
                    statuses.append(expected.status)
                    self.assertEqual(found.report, expected.report)
                    self.assertEqual(found[:3], expected[:3])
                    same_bits(self, found.arrays, expected.arrays)
                    self.assertEqual(found.attributes, expected.attributes)
        return statuses

    def test_random_problems(self) -> None:
        problems = list(random_problems())
        self.assertEqual(len(problems), 300)
        self.assertEqual({problem.function for problem in problems}, set(COMMANDS))
        statuses = self.compare(problems)
        # Some draws are refused, such as a radius that no mean of templates reaches.
        self.assertGreater(sum(status <= 1 for status in statuses), 270)

    def test_refused_problems(self) -> None:
        expected, problems = zip(*refused_problems())
        self.assertGreater(len(problems), 40)
        self.assertEqual(self.compare(list(problems)), list(expected))


def heads(random: Random, dtype: str = "f4") -> List[Any]:
    """q, k and v of six heads, long enough for several tiles."""
    return [random.normals(dtype, 6, length, 8) for length in (150, 210, 210)]


class Results(unittest.TestCase):

    def test_threads(self) -> None:
        q, k, v = heads(Random(1))
        gradient = Random(2).normals("f4", *q.shape)
        wanted = "out,col_sum,grad_q,grad_k,grad_v"
        schemes: List[Options] = [{}, {"scheme": "dnas"}, {"scheme": "sinkhorn", "iterations": 3}]
        for options in schemes:
            with self.subTest(options):
                one, two = (attnkit.attention(q, k, v, grad_out=gradient, emit=wanted, threads=n, **options)
                            for n in (1, 2))
                same_bits(self, one, two)
        cost = abs(q @ k.swapaxes(1, 2))
        one, two = (attnkit.exact(cost, gap=0.1, emit="plan", threads=n) for n in (1, 2))
        same_bits(self, one, two)

    def test_out(self) -> None:
        q, k, v = heads(Random(3))
        expected = attnkit.attention(q, k, v, emit="out,col_sum,row_entropy")
        out = np.full_like(q, np.nan)
        self.assertIs(attnkit.attention(q, k, v, out=out).out, out)
        self.assertEqual(form(out), form(expected.out))
        wide = np.full((210, 12), 7.0)
        columns_first = np.full((6, 8, 150), np.nan, "f4").swapaxes(1, 2)
        places = {"out": columns_first, "col_sum": wide[:, ::2].T}
        found = attnkit.attention(q, k, v, emit="out,col_sum,row_entropy", out=places)
        self.assertIs(found["col_sum"], places["col_sum"])
        same_bits(self, found, expected)
        self.assertTrue((wide[:, 1::2] == 7).all())

    def test_inputs_are_not_copied(self) -> None:
        # Zeros that were never written take no memory, a copy of them would take all of it.
        code = """if True:
            import resource, numpy, attnkit
            resident = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            k = numpy.zeros((1, 2**21, 48), "f4")[..., :32]
            q = numpy.zeros((1, 1, 32), "f4")
            attnkit.attention(q, k[:, :1], k[:, :1], threads=1)
            before = resident()
            attnkit.attention(q, k, k, emit="out", threads=1)
            print((resident() - before) * 1024 / k.nbytes)
        """
        grown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertLess(float(grown.stdout), 0.25)

    def test_table(self) -> None:
        q, k, _ = heads(Random(4))
        calls: List[Tuple[str, Options]] = [
            ("stats", {"epsilon": [1e-3, 0.1]}), ("stats", {"rows": "keys", "scheme": ["dnas"]}),
            ("stats", {"scale": [0.5, 2]}), ("solve_dual", {"alpha": 0.5}),
        ]
        with tempfile.TemporaryDirectory(prefix="attnkit-") as name:
            folder = Path(name)
            write_bundle(folder / "in.h5", {"q": q, "k": k})
            for function, options in calls:
                with self.subTest(function, options=options):
                    words = [*Problem(function, {}, options).words(), "-i", "q=in.h5:/q", "-i", "k=in.h5:/k"]
                    words += ["-o", "out.h5"] * (function == "solve_dual")  # else they are there twice
                    printed = run([str(BIN / COMMANDS[function][0]), *words, "--csv"], folder).stdout.decode()
                    rows = list(csv.reader(io.StringIO(printed)))
                    found = function_called(function)(q=q, k=k, **options).table()
                    self.assertGreater(len(rows), 6)
                    self.assertEqual(list(found), rows[0])
                    for column, texts in zip(rows[0], zip(*rows[1:])):
                        values = [type(value)(text) if isinstance(value, (int, float)) else text or None
                                  for value, text in zip(found[column], texts)]
                        self.assertEqual(found[column], values, column)

    def test_bundles(self) -> None:
        """A file, a group of one and its arrays give the bits that the tool gives for them."""
        q, k, v = heads(Random(10))
        with tempfile.TemporaryDirectory(prefix="attnkit-") as name:
            folder = Path(name)
            write_bundle(folder / "in.h5", {f"layer{n}/{name}": array[: n + 1] for n in range(2)
                                            for name, array in (("q", q), ("k", k), ("v", v))})
            source = str(folder / "in.h5")
            for number, (address, each) in enumerate(((source, "/layer*"), (source + ":/layer1", None))):
                target = folder / f"out{number}.h5"
                words = ["--scheme=dnas", *[f"--each={each}"] * bool(each), address, "--only", f"-o{target}"]
                done = run([str(BIN / "attn-compute"), *words])
                self.assertEqual(done.returncode, 0, done.stderr)
                expected = Outcome(0, "", "", {}, {}, {})
                read_bundle(target, expected)
                for given in (address, Path(address), attnkit.open(address)):
                    same_bits(self, attnkit.attention(given, scheme="dnas", each=each), expected.arrays)
            layer = attnkit.open(source)["layer1"]
            for arrays in ((layer,), (layer["q"], layer["k"], layer["v"]), (layer["q"], k[:2], v[:2])):
                same_bits(self, attnkit.attention(*arrays, scheme="dnas"), expected.arrays)

    def test_tokens(self) -> None:
        q, k, _ = heads(Random(11))
        names = [f"word{n}" for n in range(k.shape[1])]
        numbers = np.arange(1000, 1000 + len(names))
        forms: List[Any] = [names, tuple(names), numbers]
        for tokens in forms:
            found = attnkit.stats(q, k, tokens=tokens)
            for key in found.report["result"]["unas"]["lowest"]:
                self.assertEqual(key["key"], str(tokens[key["index"]]))


class SameOptionsAsTools(unittest.TestCase):

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def help_of(tool: str) -> Dict[str, str]:
        """The text of each option in --help."""
        shown = run([str(BIN / tool), "--help"]).stdout.decode()
        texts: Dict[str, str] = {}
        name: Optional[str] = None
        for line in shown.partition("\nExamples:\n")[0].splitlines():
            option = re.match(r"^  (?:-\w, |    )--([\w-]+)\S*(?: (?! )\S+)?(.*)$", line)
            if option:
                name = option[1]
                texts[name] = option[2].strip()
            elif name and line.startswith(24 * " "):
                texts[name] += " " + line.strip()
            else:
                name = None
        return texts

    @classmethod
    def options_of(cls, tool: str, verb: str) -> Dict[str, str]:
        """The options of a verb in --help."""
        def has(text: str) -> bool:
            only = re.search(r"Only (?:with (.*?))?(?:,? or )?(without a verb)?\.$", text)
            return not only or (verb in (only[1] or "").split(", ") if verb else only[2] is not None)

        return {name: text for name, text in cls.help_of(tool).items() if has(text)}

    def test_names(self) -> None:
        missing = set()
        for function, (tool, verb) in COMMANDS.items():
            if function == "unbalanced":
                continue
            signature = inspect.signature(function_called(function))
            parameters = {name.strip("_").replace("_", "-") for name in signature.parameters}
            parameters -= {"out", "progress"}
            there = set(self.options_of(tool, verb))
            self.assertGreater(len(there), 15)
            self.assertEqual(there - parameters, there & _options.LEFT_OUT, function)
            missing |= there - parameters
            datasets = ", ".join(entry["name"] for entry in _options.table(tool)["datasets"])
            known = there | set(datasets.replace("_", "-").split(", "))
            self.assertEqual(parameters - known, set(), function)
        self.assertEqual(missing, _options.LEFT_OUT)

    def test_defaults(self) -> None:
        stated = 0
        for function, (tool, verb) in COMMANDS.items():
            if function == "unbalanced":
                continue
            document = str(function_called(function).__doc__).partition("Options\n-------\n")[2]
            found = re.findall(r"^(\w+)\n((?:    .*\n?)+)", document.partition("\n\n")[0], re.M)
            entries = {head: " ".join(text.split()) for head, text in found}
            for name, text in self.options_of(tool, verb).items():
                default = re.search(r"\(default:? (.*)\)\.|Default:? (.*?)\.(?: Only with|$)", text)
                if name in _options.LEFT_OUT or not default:
                    continue
                stated += 1
                said = (default[1] or default[2]).rstrip(".")
                entry = entries[name.replace("-", "_")].replace("Default ", "Default: ")
                self.assertIn(f"Default: {said}.", entry, function)
        self.assertGreater(stated, 150)


class Values(unittest.TestCase):

    def test_forms(self) -> None:
        """Options may be given as Python's numbers and lists, NumPy's, or words of the command line."""
        q, k, v = (array[:, :5] for array in heads(Random(9)))
        wq, wk = q[0], k[0]
        calls: List[Tuple[str, Arrays, str, List[Any]]] = [
            ("attention", {"q": q, "k": k, "v": v}, "emit", [["out"], ("out",), "out"]),
            ("attention", {"q": q, "k": k, "v": v}, "emit", [["out", "col_sum"], "out,col_sum"]),
            ("attention", {"q": q, "k": k, "v": v}, "queries", [[0, 2, -1], np.array([0, 2, -1]), "0,2,-1"]),
            ("attention", {"q": q, "k": k, "v": v}, "scale", [0.5, np.float32(0.5), np.array(0.5), "0.5"]),
            ("attention", {"q": q, "k": k, "v": v}, "window", [(3, None), [3, None], "3:"]),
            ("attention", {"q": q, "k": k, "v": v}, "memory", [2**20, "1M"]),
            ("attention", {"q": q, "k": k, "v": v}, "causal", [True, "top-left"]),
            ("attention", {"q": q, "k": k, "v": v}, "causal", [False, None, "none"]),
            ("stats", {"q": q, "k": k}, "epsilon", [[1e-8, 0.1], np.array([1e-8, 0.1]), "1e-8,0.1"]),
            ("stats", {"q": q, "k": k}, "heads", [[0, 2], np.array([0, 2]), "0,2"]),
            ("unbalanced", {"cost": abs(q), "epsilon": 1}, "unbalanced", [(1.0, 2.0), np.array([1, 2]), "1:2"]),
            ("collapse.curve", {}, "r", [(1, 100, 5), "1:100:5"]),
            ("collapse.em", {"x": q}, "start", [[[0.5] * 8], np.full((1, 8), 0.5), ",".join(["0.5"] * 8)]),
            ("paths.identify", {"wq": wq, "wk": wk}, "paths", [[[0, 1, 2], [3, 0, 2]], "0,1,2;3,0,2"]),
            ("paths.check", {}, "shape", [(5, 4), "5x4"]),
        ]
        for name, arguments, option, values in calls:
            first = function_called(name)(**arguments, **{option: values[0]})
            for value in values[1:]:
                with self.subTest(name, option=option, value=value):
                    found = function_called(name)(**arguments, **{option: value})
                    self.assertEqual(found.report["result"], first.report["result"])
                    same_bits(self, found, first)


class BadInput(unittest.TestCase):
    """Each mistake is one exception, which names the argument."""

    def refused(self, kind: Any, says: str, function: str, *arrays: Any, **arguments: Any) -> None:
        with self.subTest(says=says, function=function, options=[*arguments]):
            with self.assertRaises(attnkit.Error) as caught:
                function_called(function)(*arrays, **arguments)
            self.assertIs(type(caught.exception), kind)
            self.assertRegex(str(caught.exception), says)
            self.assertNotIn("\n", str(caught.exception) + caught.exception.hint)
            self.assertIsNone(caught.exception.__context__)

    def test_arrays(self) -> None:
        q, k, v = heads(Random(5))
        nan = np.where(np.arange(8) == 3, np.nan, k)
        for array, says in (
            (q.tolist(), "^q is a list"), (q.astype(object), "^q .*objects"), (q.astype(complex), "^q "),
            (q.astype("M8[s]"), "^q "), (q.astype("g"), "^q "), (q.astype(str), "^q "),
            (q.astype("i4"), "^q .*int32"),
            (q[:, ::-1], "^q has negative strides"), (q.astype(">f4"), "^q has elements of the type >f4"),
            (q[:, :0], "^q .*empty"), (q[..., :0], "^q .*empty"), (q[0, 0], "^q "), (q[..., :7], "q has 7"),
            (q[:4], "^q has 4 heads"), (b"q", "^q is a bytes"), (3.0, "^q is a float"), ({}, "^q is a dict"),
            (np.where(q > 3, np.inf, q), "^q.* inf"),
        ):
            self.refused(attnkit.InputError, says, "attention", array, k, v)
        self.refused(attnkit.InputError, r"^k.* nan at \[0, 0, 3\]", "attention", q, nan, v)
        self.refused(attnkit.InputError, "no dataset q", "attention", None, k, v)
        self.refused(attnkit.InputError, "^mask ", "attention", q, k, v, mask=np.ones((150, 9), bool))
        self.refused(attnkit.InputError, "^cost is a list", "exact", [[1.0, 2.0]])

    def test_places(self) -> None:
        q, k, v = heads(Random(6))
        out = np.zeros_like(q)
        frozen = out.copy()
        frozen.setflags(write=False)
        for place, says in (
            (frozen, "^out is read-only"), (q, "^out overlaps q"), (v[:, 60:], "^out overlaps v"),
            (out.astype("f8"), "^out .*float64"), (out[:, 1:], r"^out has the shape \(6, 149, 8\)"),
            (out[:, ::-1], "^out has negative strides"), ([1.0], "^out is a list"),
            ({"out": out, "col_sum": out}, "^out overlaps col_sum|^col_sum overlaps out"),
        ):
            self.refused(attnkit.InputError, says, "attention", q, k, v, out=place)
        self.refused(attnkit.UsageError, "col_sum", "attention", q, k, v, out={"col_sum": np.empty((6, 210))})

    def test_options(self) -> None:
        q, k, v = heads(Random(7))
        wrong: List[Tuple[str, Options]] = [
            ("no argument bogus", {"bogus": 1}), ("no argument shard", {"shard": "1/2"}),
            ("no argument output", {"output": "x.h5"}), ("scheme is softmax", {"scheme": "softmax"}),
            ("scale is true", {"scale": True}), ("scale is ", {"scale": [1, 2]}),
            ("scale is nan", {"scale": float("nan")}), ("hybrid is 1.5", {"scheme": "hnas", "hybrid": 1.5}),
            ("emit lists all", {"emit": ["out", "all"]}), ("join is 1", {"join": 1}),
            ("threads is x", {"threads": "x"}), ("two values for q", {"q": q}),
            ("progress is 3", {"progress": 3}), ("queries has ", {"queries": ["x"]}),
        ]
        for says, options in wrong:
            self.refused(attnkit.UsageError, says, "attention", q, k, v, **options)
        self.refused(attnkit.UsageError, "at most 3 arrays by position: q, k, v", "attention", q, k, v, v)
        self.refused(attnkit.UsageError, "no argument rate", "paths.values", q, q, rate=1.0)
        self.refused(attnkit.UsageError, "requires the penalty unbalanced", "unbalanced", cost=k)
        self.refused(attnkit.UsageError, "there are no arrays and no file", "attention")

    def test_tensors(self) -> None:
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not there")
        q, k, v = map(torch.from_numpy, heads(Random(8)))
        for tensor, says in (
            (q.clone().requires_grad_(), "^q .*gradient"), (q.to_sparse(), "^q "),
            (q.to(torch.complex64), "^q "), (q[..., :0], "^q .*empty"),
            (q.to("meta"), "^q .*meta"),
        ):
            self.refused(attnkit.InputError, says, "attention", tensor, k, v)

if __name__ == "__main__":
    unittest.main()
