"""The command attn-plot: help, versions, manual page, completions, and errors of usage."""

import re
import shutil
import subprocess
import sys
import unittest
import venv
from pathlib import Path

from attn import SOURCE, ToolTest, require_program

PLOT = SOURCE / "scripts/attn-plot"


class Command(ToolTest):

    def python(self, *words, status=0, options=("-B",)):
        done = subprocess.run([sys.executable, *options, str(PLOT), *words], cwd=self.folder,
                              env=self.environment, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stdout.decode() if status == 0 else done.stderr.decode()

    def kinds(self):
        """{kind: summary} as the help lists them."""
        text = self.python("--help").partition("Kinds:\n")[2].partition("\n\n")[0]
        return dict(re.fullmatch(r"  (\S+) +(\S.*)", line).groups() for line in text.splitlines())

    def test_help_needs_only_python(self):
        alone = ("-B", "-I", "-S")  # no packages
        kinds = self.kinds()
        self.assertGreaterEqual(len(kinds), 9)
        self.assertEqual(self.python("--help", options=alone), self.python("--help"))
        for kind, summary in kinds.items():
            with self.subTest(kind=kind):
                text = self.python(kind, "--help", options=alone)
                self.assertIn(summary, text)
                self.assertIn("--width", text)
                self.assertIn(f"attn-plot {kind}", text)
                self.assertTrue((SOURCE / f"scripts/plot/{kind.replace('-', '_')}.py").is_file())
        self.assertTrue(all(len(line) <= 100 for line in self.python("--help").splitlines()))

    def test_without_libraries_it_says_what_is_missing(self):
        (self.folder / "t.tsv").write_text("head\tmin\n0\t1\n")
        said = self.python("heatmap", "--statistic", "min", "-o", "f", "t.tsv", status=2, options=("-B", "-I", "-S"))
        self.assertRegex(said, r"\Aattn-plot: error: No module named '.+'\nattn-plot: hint: sudo apt install "
                               r"python3-numpy python3-h5py python3-matplotlib, .+\n\Z")

    def test_a_python_without_libraries_hands_over_to_debians(self):
        debians = Path("/usr/bin/python3")
        if not debians.exists() or subprocess.run([debians, "-c", "import numpy, h5py, matplotlib"],
                                                  capture_output=True, check=False).returncode:
            self.skipTest(f"{debians} has no matplotlib")
        venv.create(self.folder / "other", with_pip=False)
        table = "head\tscheme\tshare_below_1e-08\n0\tunas\t1\n"
        for command in (["t.tsv", "-o", "t t"], ["-", "-o", "t t", "--title=two words"]):
            (self.folder / "t.tsv").write_text(table)
            done = subprocess.run([self.folder / "other/bin/python3", "-B", PLOT, "heatmap", *command],
                                  cwd=self.folder, env=self.environment, input=table.encode(),
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b"attn-plot: t t.png, t t.pdf\n"))

    def test_every_kind_is_on_the_page(self):
        page = (SOURCE / "scripts/README.md").read_text()
        listed = re.findall(r"^\| `([a-z-]+)` \| ", page.partition("| kind |")[2].partition("\n\n")[0],
                            re.MULTILINE)
        self.assertEqual(sorted(listed), sorted(self.kinds()))

    def test_version(self):
        tool = self.run_tool("tensor-info", "--version").out.decode().split()
        self.assertIn(self.python("--version").split()[1], tool[:2])

    def test_usage(self):
        for words, says in (([], "which kind"), (["pie"], "pie is not a kind"),
                            (["heatmap", "--bogus", "-o", "f"], "--bogus"), (["heatmap"], "-o"),
                            (["heatmap", "-o", "f", "--wid", "3"], "--wid"),
                            (["--completion", "csh"], "csh")):
            with self.subTest(words=words):
                said = self.python(*words, status=2)
                self.assertRegex(said, r"\Aattn-plot: error: .+\n(attn-plot: hint: .+\n)?\Z")
                self.assertIn(says, said)

    def test_formats_that_are_not_written(self):
        (self.folder / "t.tsv").write_text("head\tscheme\tmin_c\n0\tunas\t1\n")
        for name in ("x.jpg", "x.JPEG", "a.b.tiff", "x.gif", "x.webp", "x.eps"):
            said = self.python("heatmap", "t.tsv", "-o", name, status=2)
            self.assertRegex(said, r"\Aattn-plot: error: .+\nattn-plot: hint: .+\n\Z")
            self.assertIn(f"-o {name}: a figure is written as .png, .pdf or .svg", said)
        self.assertIn("-o a.b.png, or -o a.b for", self.python("heatmap", "-o", "a.b.gif", status=2))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["t.tsv"])

    def test_an_input_is_never_overwritten(self):
        text = "head\tscheme\tmin_c\n0\tunas\t1\n"
        for name in ("t.png", "u.pdf", "v.png.pdf"):
            (self.folder / name).write_text(text)
        (self.folder / "link").symlink_to("t.png")
        before = sorted(path.name for path in self.folder.iterdir())
        for inputs, output in ((["t.png"], "t.png"), (["t.png"], "t"), (["link"], "t"),
                               (["other.tsv", "./t.png"], "t.png"), (["u.pdf"], "u"),
                               (["t.png:/layer0"], "t.png"), (["v.png.pdf"], "v.png.pdf")):
            with self.subTest(inputs=inputs, output=output):
                said = self.python("heatmap", *inputs, "-o", output, status=2)
                self.assertRegex(said, r"\Aattn-plot: error: -o .+ is an input.+\nattn-plot: hint: .+\n\Z")
        run = self.shell(f"{sys.executable} -B {PLOT} heatmap -o t < t.png", status=2)
        self.assertIn("t.png is an input", run.err)
        self.assertIn("t.png is an input", self.python("collapse-curves", "t.png", "-o", "t", status=2))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), before)
        for name in ("t.png", "u.pdf", "v.png.pdf"):
            self.assertEqual((self.folder / name).read_text(), text)

    def test_a_reader_may_leave(self):
        run = self.shell(f"{sys.executable} -B {PLOT} --completion=fish | head -n 1", status=None)
        self.assertEqual(run.err, "")

    def test_manual_page(self):
        page = self.python("--man")
        (self.folder / "attn-plot.1").write_text(page)
        for kind in self.kinds():
            self.assertIn(f".SH {kind.upper()}".replace("-", "\\-"), page)
        if shutil.which("man"):
            done = subprocess.run(["man", "-l", "--warnings", "-E", "UTF-8", "attn-plot.1"], check=False,
                                  cwd=self.folder, capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
            self.assertIn("--statistic NAME", done.stdout.decode())

    def test_completion_in_bash(self):
        (self.folder / "script").write_text(self.python("--completion=bash"))
        ask = ("source ./script; COMP_WORDS=(attn-plot {0}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
               "_attn_plot; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        for words, expected in (("heat", ["heatmap"]), ("heatmap --stat", ["--statistic"]),
                                ("collapse", ["collapse-curves", "collapse-steps"]),
                                ("heatmap scr", ["script"])):
            self.assertEqual(self.shell(ask.format(words)).out.decode().split(), expected, words)

    def test_completion_in_zsh_and_fish(self):
        for shell in ("zsh", "fish"):
            with self.subTest(shell=shell):
                script = self.python(f"--completion={shell}")
                self.assertEqual(script, self.python("--completion", shell))
                for kind in self.kinds():
                    self.assertIn(kind, script)
                require_program(self, shell)
                (self.folder / "script").write_text(script)
                done = subprocess.run([shell, "-n", "script"], cwd=self.folder, check=False,
                                      capture_output=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, b""))


if __name__ == "__main__":
    unittest.main()
