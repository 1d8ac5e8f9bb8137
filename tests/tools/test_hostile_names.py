"""Names that come from files and from the command line cannot write to a terminal, nor forge a line of a report: every
tool, in all of its modes, with names and texts that hold control characters and line breaks."""

import itertools
import json
import os
import re
import unittest

import h5py
import numpy as np

from attn import BIN, LONG, ToolTest
from mechanisms import PROBLEMS

FORGED = "forged: all is well"
# The screen cleared, a line of its own, a return, a tab, a bell, a control character of two bytes, a line separator, an
# order of writing.
HOSTILE = f"a\x1b[2J\n{FORGED}\n\r\t\x07\u009b31m\u2028\u202e|<b>,\"z"
FILE = HOSTILE.replace("/", "_") + ".h5"
# Each is added to each run, but short runs add only the next one; a tool without the option refuses it, which must be clean, too.
MODES = (["--dry-run"], ["--json"], ["--tsv"], ["--csv"], ["--list"], ["-v"], [f"--{HOSTILE}"],
         ["-i", f"{HOSTILE}={HOSTILE}"])


def printed_badly(text):
    """The first character that a terminal would obey, and lines that were forged."""
    text = text.decode()  # which must be UTF-8
    text = text.replace("\r\n", "\n")
    found = re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text)
    # What a claim's command prints is indented.
    forged = [line for line in text.splitlines() if line.startswith(FORGED)]
    return ([repr(found[0])] if found else []) + forged


class HostileNames(ToolTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        n, d = 5, 3
        shapes = {name: (2, n, d) for name in ("q", "k", "v", "grad_out", "x")}
        shapes |= {"scores": (n, n), "cost": (n, n), "wq": (n, 2), "wk": (n, 2), "w1": (3, n), "w2": (2, 3),
                   "grad_wq": (n, 2), "grad_wk": (n, 2), "grad_w1": (3, n), "grad_w2": (2, 3), "scale": (2,),
                   "weights": (n, n), HOSTILE.replace("/", "_"): (2,)}
        with h5py.File(self.folder / FILE, "w") as file:
            for group in (HOSTILE, f"{HOSTILE}2"):
                for name, shape in shapes.items():
                    file[f"{group}/{name}"] = random.normal(size=shape)
                file[group]["tokens"] = [HOSTILE] * n
                file[group].attrs["attn_energy"] = "dot"
                file[group].attrs[HOSTILE] = HOSTILE
            file.attrs["model"] = HOSTILE
        with h5py.File(self.folder / ("s" + FILE), "w") as file:  # a single section
            for name in ("q", "k", "v", "scores"):
                file[name] = random.normal(size=shapes[name])
        with h5py.File(self.folder / ("b" + FILE), "w") as file:
            file[f"{HOSTILE}/{HOSTILE}"] = [1.0]
        with h5py.File(self.folder / ("x" + FILE), "w") as file:
            file["x"], file["label"] = random.normal(size=(6, 2)), np.arange(6) % 2
        (self.folder / "runs").mkdir()
        for name in "AB":
            for run in (1, 2):
                (self.folder / f"runs/{name}{HOSTILE}{run}.jsonl").write_text("".join(
                    json.dumps({"step": n, "loss": n + random.normal(), HOSTILE: 1}) + "\n" for n in range(4)))
        # A line break would end the cell.
        cell = '"' + HOSTILE.replace("\n", " ").replace('"', '""') + '"'
        (self.folder / "runs.csv").write_text(f"scheme,{cell}\n" + f"{cell},1\n" * 2)
        text = json.dumps(HOSTILE)  # a TOML string, too
        (self.folder / "claims.toml").write_text(
            f'source = {text}\ntags = ["t"]\n[[claim]]\nid = "one"\nstatement = {text}\n'
            f'command = {json.dumps("printf 1 >n.txt; echo $" + repr(HOSTILE) + " >&2")}\nvalue = "n.txt"\nline = 1\n'
            f'relation = "="\nexpected = 2\nunperturbed = {text}\n')
        (self.folder / "recipe.toml").write_text(f"[data]\ntext = {text}\n[{json.dumps(HOSTILE)}]\n")
        for problem in PROBLEMS:
            own = {name: random.integers(0, problem.sizes[of] + 1, size=11) for name, of in problem.lengths.items()}
            with h5py.File(self.folder / f"{problem.tool}{FILE}", "w") as file:
                for name, values in problem.datasets(own).items():
                    file[f"{HOSTILE}/{name}"] = values

    def runs(self):
        """By tool, lists of arguments."""
        out = ["-o", "out.h5", "--force"]
        every = ["--each", "*", FILE]
        found = {
            "attn-compute": [["s" + FILE, *out], [*every, *out], [*every, "--emit", "out,col_sum,grad_q", *out], ["b" + FILE, *out],
                             ["--map", f"q={HOSTILE}", *every, *out], [FILE, "-o", f"{HOSTILE}/out.h5"],
                             [*every, "--shard", "1/2", "-o", f"s{HOSTILE}.h5", "--force"],
                             [FILE + f":/{HOSTILE}9", *out]],
            "explain-away-stats": [["s" + FILE], [f"{FILE}:/{HOSTILE}"],
                                   ["s" + FILE, "--shard", "1/1", "-o", f"e{HOSTILE}.h5", "--force"], every, [*every, "--sort", "group"], [*every, "x" + FILE], [*every, FILE],
                                   ["b" + FILE], ["--map", f"tokens={HOSTILE}", *every],
                                   [*every, "--sort", HOSTILE]],
            "attn-view": [["s" + FILE, *out], [*every, *out], ["b" + FILE, *out], ["--map", f"tokens={HOSTILE}", *every, *out]],
            "lambda-solve": [["s" + FILE, *out], [*every, *out], [*every, "--sort", "group", *out], ["b" + FILE, *out]],
            "sinkhorn-iter": [["--from", "scores", "s" + FILE, *out], ["--from", "scores", *every, *out], ["bulk", "--from", "scores", *every, *out],
                              ["exact", "--from", "scores", *every, *out],
                              ["divergence", *every, *out], ["barycentre", *every, *out]],
            "mode-collapse-sim": [["simulate", "x" + FILE, *out], ["em", "x" + FILE, *out], ["curve", *out],
                                  ["simulate", FILE, *out], ["simulate", FILE + f":/{HOSTILE}", *out]],
            "basis-paths": [[verb, *every, *([] if verb == "check" else out)]
                            for verb in ("identify", "values", "rescale", "start", "step", "check")]
                           + [["check", "--network", "relu", *every], ["step", "--network", "relu", *every, *out],
                              ["check", "--paths", HOSTILE, *every]],
            "tensor-info": [[FILE], ["--attributes", FILE], ["b" + FILE], [FILE, "b" + FILE, "--sort", "name"],
                            [HOSTILE]],
            "tensor-compare": [[FILE, "b" + FILE], ["--attributes", FILE, FILE], ["--attributes", FILE, "x" + FILE],
                               ["b" + FILE, "x" + FILE, "--sort", "name"]],
            "tensor-convert": [[FILE, "-o", "o.npz"], ["b" + FILE, *out], [FILE, "--model", "llama", *out],
                               [HOSTILE, *out]],
            "tensor-gen": [["normal", f"{HOSTILE}=2x3", *out], ["normal", "q=2x3", "-o", f"g{HOSTILE}.h5", "--force"]],
            "tensor-join": [[FILE, "b" + FILE, *out], [f"s{HOSTILE}.0001-of-0002.h5", *out],
                            [f"e{HOSTILE}.0001-of-0001.h5", *out]],
            "claim-check": [["claims.toml"], ["claims.toml", "--falsify"], ["claims.toml", "--select", HOSTILE],
                            ["claims.toml", "--markdown", "c.md", "--junit", "c.xml", "--sarif", "c.sarif"],
                            ["claims.toml", "--format", "latex"], ["claims.toml", "--dry-run"],
                            ["claims.toml", "--record", "records", "--commit", HOSTILE],
                            ["diff", "records", "records"], ["history", "records"], [HOSTILE]],
            "seed-test": [[*self.logs("A"), "against", *self.logs("B"), "--metric", "loss", "--better", "lower"],
                          [*self.logs("A"), "--metric", HOSTILE], [HOSTILE],
                          ["--table", "runs.csv", HOSTILE, "--metric", "loss"],
                          ["--table", "runs.csv", HOSTILE, "--metric", HOSTILE.replace("\n", " ")],
                          ["--table", "runs.csv", HOSTILE.replace("\n", " "), "--metric",
                           HOSTILE.replace("\n", " ")]],
            "attn-train": [["recipe.toml", *out], ["recipe.toml", "--set", f"{HOSTILE}={HOSTILE}", *out],
                           [HOSTILE, *out]],
            "alignment-attention": [["measure", "--gold", "recipe.toml", *every], ["measure", *every],
                                    ["measure", "--links", HOSTILE]],
        }
        for problem in PROBLEMS:
            words = [*problem.options, "--each", "*", problem.tool + FILE, *out]
            found.setdefault(problem.tool, []).append(words)
            found[problem.tool].append([*problem.options, "--each", "*", "b" + FILE, *out])
        return found

    def logs(self, name):
        return [f"runs/{name}{HOSTILE}{n}.jsonl" for n in (1, 2)]

    def test_no_tool_prints_them(self):
        runs = self.runs()
        self.assertEqual(sorted(runs), sorted(os.listdir(BIN)), "a tool has no case here")
        computed = set()
        modes = itertools.cycle([MODES] if LONG else [[mode] for mode in MODES])
        for tool, commands in runs.items():
            for command in commands:
                for mode in [[], *next(modes)]:
                    done = self.run_tool(tool, *command, *mode, status=None)
                    with self.subTest(tool=tool, command=command, mode=mode):
                        self.assertIn(done.status, range(7), done.err)
                        self.assertEqual(printed_badly(done.out) + printed_badly(done.err.encode()), [])
                    if mode == [] and done.status in (0, 1):
                        computed.add(tool)
        # A log of a command may be part of the XML, line by line.
        for name in ("c.md", "c.xml", "c.sarif"):
            bad = [found for found in printed_badly((self.folder / name).read_bytes()) if found != FORGED]
            self.assertEqual(bad, [], name)
        self.assertNotIn("<b>", (self.folder / "c.md").read_text())
        # Otherwise the cases above would only be refused.
        self.assertEqual(sorted(computed), sorted(set(runs) - {"attn-train"}))


if __name__ == "__main__":
    unittest.main()
