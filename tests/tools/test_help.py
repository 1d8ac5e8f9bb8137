"""--help of every tool, word by word, --version, and what the tools know of each other's options.

ATTN_RENEW_GOLDEN=1 rewrites the texts in tests/golden and the list of options, so that their changes can be reviewed."""

import os
import re
import unittest

from attn import BIN, SOURCE, ToolTest

TOOLS = sorted(path.name for path in BIN.iterdir() if path.is_file() and os.access(path, os.X_OK))
GOLDEN = SOURCE / "tests/golden"
# The tools of an option are named in this order, those of the mechanisms last.
FIRST = ["attn-compute", "explain-away-stats", "sinkhorn-iter", "lambda-solve", "attn-view", "mode-collapse-sim", "attn-train",
         "basis-paths", "seed-test", "tensor-gen", "tensor-convert", "tensor-join", "tensor-info", "tensor-compare",
         "claim-check"]


def options_of(help_text):
    """The long options that --help lists."""
    listed = help_text.partition("\nExamples:\n")[0]
    return re.findall(r"^ {2,6}(?:-\w, )?(--[\w-]+)", listed, re.MULTILINE)


class Help(ToolTest):

    def test_every_tool_has_a_golden_text(self):
        mains = (SOURCE / "tools").glob("*/main.cpp")
        sources = {path.parent.name.replace("_", "-") for path in mains}
        self.assertLessEqual(sources, set(TOOLS))
        self.assertEqual({path.name for path in GOLDEN.glob("*.help.txt")},
                         {f"{tool}.help.txt" for tool in sources})

    def test_text(self):
        self.maxDiff = None
        for tool in TOOLS:
            with self.subTest(tool=tool):
                text = self.run_tool(tool, "--help").out.decode()
                golden = GOLDEN / f"{tool}.help.txt"
                if os.environ.get("ATTN_RENEW_GOLDEN") == "1":
                    golden.write_text(text)
                self.assertEqual(text, golden.read_text())

    def test_options_of_tools(self):
        tools_of = {}
        for tool in FIRST + [tool for tool in TOOLS if tool not in FIRST]:
            for option in sorted(set(options_of(self.run_tool(tool, "--help").out.decode()))):
                tools_of.setdefault(option[2:], []).append(tool)
        lines = []
        for option, tools in sorted(tools_of.items()):
            if len(tools) == len(TOOLS):
                continue
            shown = tools if len(tools) <= 4 else tools[:3] + [f"{len(tools) - 3} more tools"]
            text = " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
            lines.append(f'{{"{option}", "{text}"}},\n')
        known = SOURCE / "lib/cli/options_of_tools.inc"
        if os.environ.get("ATTN_RENEW_GOLDEN") == "1":
            known.write_text("".join(lines))
        self.assertEqual(known.read_text().splitlines(True), lines)
        self.refused("tensor-info", "in.h5", "--scheme=unas", status=2, output=None,
                     says="unknown option --scheme", hint="--scheme is an option of attn-compute, ")

    def test_shape(self):
        for tool in TOOLS:
            with self.subTest(tool=tool):
                done = self.run_tool(tool, "--help")
                self.assertEqual(done.err, "")
                lines = done.out.decode().splitlines()
                self.assertTrue(lines[0].startswith(f"Usage: {tool} "))
                for line in lines:
                    self.assertLessEqual(len(line), 80, line)
                    self.assertEqual(line, line.rstrip())
                # The first sentence states the purpose of the tool: one full stop, not two.
                self.assertRegex(lines[2], r"^[A-Z].*\w[.?]$")
                self.assertIn("Exit status:", lines)
                self.assertEqual(self.run_tool(tool, "-h").out, done.out)

    def test_help_wins(self):
        for tool in TOOLS:
            with self.subTest(tool=tool):
                done = self.run_tool(tool, "--bogus", "missing.h5", "--help")
                self.assertEqual(done.out, self.run_tool(tool, "--help").out)

    def test_version(self):
        for tool in TOOLS:
            with self.subTest(tool=tool):
                done = self.run_tool(tool, "--version")
                self.assertRegex(done.out.decode(), rf"\A{tool} \d+\.\d+\.\d+\nHDF5 1\.")
                self.assertEqual(done.err, "")


if __name__ == "__main__":
    unittest.main()
