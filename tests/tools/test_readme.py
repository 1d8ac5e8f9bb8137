"""The README's examples, run.

Every block of README.md that is marked ```sh is run, in the order of the file and in one folder, by
`bash -euo pipefail` with the tools on the PATH and the project's data/ and scripts/ linked there. What is
not to be run (building, installing, output) is marked ```console or ```text.
"""

import re
import unittest

from attn import BIN, SOURCE, ToolTest

README = SOURCE / "README.md"


def blocks(text):
    """(line number, script) for each ```sh block."""
    found = re.finditer(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start()) + 2, match[1]) for match in found]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pipelines(scripts, tools):
    """The commands that join at least two tools by a pipe."""
    commands = re.sub(r"\\\n|(?<=\|)\n", " ", "\n".join(scripts)).splitlines()
    starts = [[(part.split() or [""])[0] for part in command.split("|")] for command in commands]
    return [c for c, names in zip(commands, starts) if sum(n in tools for n in names) >= 2]


class Readme(ToolTest):

    def test_examples(self):
        scripts = blocks(README.read_text())
        for name in ("data", "scripts"):
            (self.folder / name).symlink_to(SOURCE / name)
        before = contents(SOURCE / "data")
        for line, script in scripts:
            with self.subTest(line=line):
                done = self.shell(f"set -euo pipefail\n{script}", status=None)
                self.assertEqual(done.status, 0, f"README.md:{line}:\n{script}\n{done.err}")
        self.assertEqual(contents(SOURCE / "data"), before, "an example writes into data/")

    def test_claims(self):
        claims = re.search(r"^```toml\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
        (self.folder / "paper.toml").write_text(claims[1])
        (self.folder / "layer3.h5").symlink_to(SOURCE / "data/passage.h5")
        done = self.run_tool("claim-check", "paper.toml")
        self.assertIn(b"3 claims: 3 as expected", done.out)

    def test_there_are_pipelines(self):
        tools = {path.name for path in BIN.iterdir()}
        scripts = [script for _, script in blocks(README.read_text())]
        self.assertGreaterEqual(len(pipelines(scripts, tools)), 5)

    def test_tools_and_files_that_are_named_are_there(self):
        text = README.read_text()
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            self.assertTrue((SOURCE / target).exists(), f"README.md links to {target}")
        for tool in {path.name for path in BIN.iterdir()}:
            self.assertIn(tool, text)


class Itself(unittest.TestCase):
    """Checks that the runner finds the blocks."""

    TEXT = ("a\n```sh\nattn-compute x |\n  head\n```\n"
            "```text\nno\n```\n```sh\ntensor-gen | cat\n```\n")

    def test_blocks(self):
        self.assertEqual(blocks(self.TEXT), [(3, "attn-compute x |\n  head\n"),
                                             (10, "tensor-gen | cat\n")])

    def test_pipelines(self):
        tools = {"attn-compute", "tensor-gen"}
        scripts = ["tensor-gen a | attn-compute b\n", "tensor-gen \\\n  a | \\\n  attn-compute\n",
                   "tensor-gen a |\n  attn-compute b\n", "tensor-gen | cat\n",
                   "echo attn-compute | cat\n"]
        self.assertEqual(len(pipelines(scripts, tools)), 3)


if __name__ == "__main__":
    unittest.main()
