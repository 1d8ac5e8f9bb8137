"""--man of every tool, and the overview page attnkit(7): valid roff that man(1) formats without
warnings, with every option and result."""

import re
import subprocess
import unittest

from attn import BIN, SOURCE, ToolTest, require_program
from test_help import TOOLS, options_of

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]


def unescaped(roff):
    """The words of a page without its font changes and escapes."""
    for escape, text in [(r"\-", "-"), (r"\(aq", "'"), (r"\(dq", '"'), (r"\(ti", "~"),
                         (r"\(ha", "^"), (r"\(ga", "`"), (r"\&", ""), (r"\e", "\\")]:
        roff = roff.replace(escape, text)
    return re.sub(r"\\f[BIR]", "", roff)


def section(page, name):
    """The text of one section of a page."""
    found = re.search(rf'^\.SH "?{name}"?\n(.*?)(?=^\.SH|\Z)', page, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


class ManPage(ToolTest):

    def page(self, tool):
        done = self.run_tool(tool, "--man")
        self.assertEqual(done.err, "")
        return done.out.decode()

    def formatted(self, name, page):
        """The page as man shows it; man must not warn."""
        require_program(self, "man")
        path = self.folder / name
        path.write_text(page)
        environment = self.environment | {"LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANPAGER": "cat"}
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", str(path)], check=False,
                              env=environment, capture_output=True, timeout=60)
        self.assertEqual(done.stderr.decode(), "")
        self.assertEqual(done.returncode, 0)
        # Bold is printed as a letter, a backspace and the letter again.
        return re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout.decode())

    def test_man_formats_it_without_warnings(self):
        for tool in TOOLS:
            with self.subTest(tool=tool):
                shown = self.formatted(f"{tool}.1", self.page(tool))
                self.assertIn(f"{tool} - ", shown)
                self.assertNotIn("\\f", shown)
                for line in shown.splitlines():
                    self.assertLessEqual(len(line), 90, line)
                    self.assertNotRegex(line, "[\u2010\u00ad]$", "a word is hyphenated")

    def test_it_names_every_option(self):
        for tool in TOOLS:
            with self.subTest(tool=tool):
                options = options_of(self.run_tool(tool, "--help").out.decode())
                self.assertIn("--man", options)
                shown = unescaped(section(self.page(tool), "OPTIONS"))
                for option in options:
                    self.assertRegex(shown, rf"(?m)^(-\w, )?{option}\b")

    def test_sections(self):
        for tool in TOOLS:
            with self.subTest(tool=tool):
                page = self.page(tool)
                titles = [title.strip('"') for title in re.findall(r"^\.SH (.*)$", page, re.M)]
                self.assertEqual([title for title in titles if title in SECTIONS], SECTIONS)
                for name in titles:
                    self.assertNotEqual(section(page, name).strip(), "", name)
                self.assertIn(".BR attnkit (7)", section(page, "SEE ALSO"))
                name, summary = section(page, "NAME").rstrip("\n").split(r" \- ")
                self.assertEqual(unescaped(name), tool)
                self.assertRegex(summary, r"\A[a-z][^\n]*[^.\n]\Z")

    def test_results_that_can_be_chosen_are_described(self):
        for tool in TOOLS:
            values = re.search(r"--emit LIST .*?Any\s+of\s+(.*?),\s+separated", self.run_tool(
                tool, "--help").out.decode(), re.DOTALL)
            if not values:
                continue
            with self.subTest(tool=tool):
                results = unescaped(section(self.page(tool), "RESULTS"))
                for name in " ".join(values[1].split()).split(", "):
                    self.assertRegex(results, rf"(?m)^(.*[ /])?{re.escape(name)}\b")

    def test_nothing_is_taken_for_a_request(self):
        known = {"TH", "ad", "nr", "nh", "SH", "SS", "TP", "PP", "RS", "RE", "EX", "EE", "BR", '\\"'}
        for tool in TOOLS:
            with self.subTest(tool=tool):
                for line in self.page(tool).splitlines():
                    if line[:1] in (".", "'"):
                        self.assertIn(line[1:].split(" ")[0], known, line)

    def test_man_wins_over_mistakes(self):
        for tool in TOOLS:
            with self.subTest(tool=tool):
                done = self.run_tool(tool, "--bogus", "missing.h5", "--man")
                self.assertEqual(done.out.decode(), self.page(tool))

    def test_overview(self):
        done = subprocess.run([str(SOURCE / "scripts/make-overview-man"), str(BIN)], check=False,
                              env=self.environment, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        page = done.stdout.decode()
        self.assertNotIn("@", page)
        for tool in TOOLS:
            self.assertIn(f".BR {tool}".replace("-", "\\-") + " (1)\n", section(page, "TOOLS"))
        self.assertIn("arXiv:2009.14308", section(page, "REFERENCES"))
        self.assertEqual(page.count("arXiv:2009.14308"), 1)
        self.assertIn("ATTNKIT(7)", self.formatted("attnkit.7", page))

    def test_overview_without_tools(self):
        done = subprocess.run([str(SOURCE / "scripts/make-overview-man"), str(self.folder)],
                              check=False, env=self.environment, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (3, b""))
        self.assertIn(b"has no tools", done.stderr)


if __name__ == "__main__":
    unittest.main()
