"""--help of every tool, word by word, and --version.

ATTN_RENEW_GOLDEN=1 rewrites the texts in tests/golden, so that their changes can be reviewed."""

import os
import unittest

from attn import BIN, SOURCE, ToolTest

TOOLS = sorted(path.name for path in BIN.iterdir() if path.is_file() and os.access(path, os.X_OK))
GOLDEN = SOURCE / "tests/golden"


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
