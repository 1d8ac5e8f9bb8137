"""The command dump-attention: scripts and modules, tokenizers, wrong usage, failures."""

import importlib.util
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import unittest

import h5py
import numpy as np

from attn import SOURCE, TIMEOUT, Run, ToolTest
from loaded import run_loaded

WITHOUT_TORCH = importlib.util.find_spec("torch") is None
COMMAND = [sys.executable, SOURCE / "scripts/dump-attention"]

if WITHOUT_TORCH:
    print("test_dump_command: no torch for this Python, so only help and usage are tested",
          file=sys.stderr)
else:
    import torch  # noqa: F401  pylint: disable=unused-import

SCRIPT = textwrap.dedent("""
    import sys
    import torch
    import mylayer

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(9, 8)
            self.block = torch.nn.ModuleList([mylayer.Layer() for _ in range(2)])
            self.mha = torch.nn.MultiheadAttention(8, 2)

        def forward(self, ids):
            x = self.words(ids)[:, None]
            for layer in self.block:
                x = layer(x)
            return self.mha(x, x, x)[0]

    class Tokenizer:
        def convert_ids_to_tokens(self, ids):
            return [f"<{one}>" for one in ids]

    if __name__ == "__main__":
        assert sys.argv[1:] == ["--layers", "2"], sys.argv
        torch.manual_seed(1)
        Model()(torch.tensor([3, 1, 4, 1, 5]))
        words = Tokenizer()
        print("done")
    """)
LAYER = textwrap.dedent("""
    import torch

    def attend(query, key, value, causal):
        s = query @ key.transpose(-1, -2) / 8**0.5
        if causal:
            s = s.masked_fill(~torch.ones_like(s, dtype=torch.bool).tril(), -float("inf"))
        return s.softmax(-1) @ value

    class Layer(torch.nn.Module):
        def forward(self, x):
            return attend(x[:, 0], value=x[:, 0], key=x[:, 0], causal=True)[:, None]
    """)


class CommandTest(ToolTest):

    def setUp(self):
        super().setUp()
        self.path = self.folder / "dump.h5"
        (self.folder / "infer.py").write_text(SCRIPT)
        (self.folder / "mylayer.py").write_text(LAYER)

    prepare = None  # what is called before the command in the Python that has loaded torch

    def run_command(self, *arguments, status=0, command=None, stdin=b"", **more):
        """Runs the command, or `command` in its place; by a Python that has loaded torch, which
        takes longer than most of these tests, unless `command` or `more` are given."""
        if command or more:
            done = subprocess.run([*(command or COMMAND), *arguments], cwd=self.folder,
                                  env=self.environment | {"PYTHONDONTWRITEBYTECODE": "1"},
                                  capture_output=True, check=False, timeout=TIMEOUT, **more)
            run = Run(done.returncode, done.stdout, done.stderr.decode())
        else:
            run = run_loaded(COMMAND[-1], arguments, self.folder, self.environment, stdin,
                             self.prepare)
        self.assertEqual(run.status, status, run.err)
        shutil.rmtree(self.folder / "__pycache__", ignore_errors=True)
        self.assertEqual([p for p in os.listdir(self.folder) if p.endswith(".tmp")], [])
        return run.out.decode(), run.err

    def refused_with(self, *arguments, status, says, hint=None):
        """The last line or lines of standard error are one error and at most one hint, and there is
        no dump."""
        _, err = self.run_command(*arguments, status=status)
        self.assertRegex(err, r"(\A|\n)dump-attention: error: [^\n]+\n(dump-attention: hint: [^\n]+\n)?\Z")
        self.assertRegex(err, f"dump-attention: error: .*{says}")
        if hint:
            self.assertRegex(err, f"dump-attention: hint: .*{hint}")
        self.assertFalse(self.path.exists())
        return err


class Usage(CommandTest):

    def test_help_needs_nothing_but_python(self):
        bare = [sys.executable, "-S", "-E", SOURCE / "scripts/dump-attention"]
        out, err = self.run_command("--help", command=bare)
        self.assertIn("--layers LIST", out)
        self.assertFalse(err)
        self.assertLessEqual(max(map(len, out.splitlines())), 100)
        self.assertRegex(self.run_command("--version", command=bare)[0], r"\Adump-attention \d+\.\d+\.\d+\n\Z")
        folder = self.run_command("--module-path", command=bare)[0].strip()
        self.assertTrue(os.path.isfile(f"{folder}/dump_attention/__init__.py"))
        probe = "import sys, dump_attention; sys.exit('torch' in sys.modules or 'h5py' in sys.modules)"
        subprocess.run([sys.executable, "-S", "-c", probe], check=True,
                       env=self.environment | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"})

    def test_completions(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.run_command("--completion", shell)[0]
            self.assertIn("layers", script)
            if shutil.which(shell):
                subprocess.run([shell, "-n", "/dev/stdin"], input=script.encode(), check=True)

    def test_man_page(self):
        page = self.run_command("--man")[0]
        for part in (".SH NAME", ".SH SYNOPSIS", ".SH EXAMPLES", ".SH EXIT STATUS", r"\-\-layers",
                     r"\-\-inputs"):
            self.assertIn(part, page)
        if shutil.which("man"):
            shown = subprocess.run(["man", "--warnings", "-l", "-"], input=page.encode(), check=True,
                                   capture_output=True, env=self.environment | {"LC_ALL": "C.UTF-8"})
            self.assertFalse(shown.stderr.decode())

    def test_usage(self):
        for arguments, says in [([], "-o FILE is needed"), (["-o", "dump.h5"], "SCRIPT is needed"),
                                (["-o", "-", "infer.py"], "scripts print there"),
                                (["-o", "dump.h5", "--tokens=a", "--tokenizer", "b", "infer.py"], "one of them"),
                                (["--completion", "csh"], "bash, zsh or fish"),
                                (["--lay", "1", "-o", "dump.h5", "infer.py"], "--lay"),
                                (["-o"], "expected one argument")]:
            with self.subTest(arguments=arguments):
                self.refused_with(*arguments, status=2, says=says)
        self.refused_with("-o", "dump.h5", "none.py", status=3, says="none.py: there is no such script")

    @unittest.skipUnless(WITHOUT_TORCH, "torch is installed")
    def test_without_torch(self):
        install = "sudo apt install python3-torch python3-numpy python3-h5py, and /usr/bin/python3 "
        for more in ([], ["--tokens", "words.txt"]):
            self.refused_with("-o", "dump.h5", *more, "infer.py", status=2, says="torch", hint=install)


@unittest.skipIf(WITHOUT_TORCH, "torch is not installed")
class Scripts(CommandTest):

    ARGUMENTS = ["--function", "mylayer:attend", "infer.py", "--layers", "2"]

    def groups(self):
        with h5py.File(self.path) as file:
            return sorted(file)

    def tokens(self, group="mha"):
        with h5py.File(self.path) as file:
            return [word.decode() for word in file[group]["tokens"][()].flatten()]

    def test_around_a_script(self):
        out, err = self.run_command("-o", "dump.h5", *self.ARGUMENTS, command=COMMAND)
        self.assertEqual(out, "done\n")
        self.assertRegex(err, r"\Adump-attention: 3 calls of 3 layers, [\d.e-]+ MB written in "
                         r"[\d.e-]+ s -> dump.h5\n\Z")
        self.assertEqual(self.groups(), ["block.0", "block.1", "mha"])
        with h5py.File(self.path) as file:
            values = {n: file[f"block.0/{n}"][()] for n in "qkv"}
            self.assertRegex(file.attrs["history"],
                             r"Z: dump-attention -o dump.h5 --function mylayer:attend infer.py --layers 2 \(")
            self.assertEqual(file.attrs["model_class"], "Model")
            self.assertEqual(file["block.0"].attrs["module_class"], "mylayer.Layer")
        scores = np.tril(np.exp(values["q"] @ values["k"].T / 8**0.5))
        expected = scores / scores.sum(1, keepdims=True) @ values["v"]
        self.assert_near("out", self.compute("dump.h5:/block.0")["out"], expected, 1e-5)
        self.assertEqual(self.tokens(), ["<3>", "<1>", "<4>", "<1>", "<5>"])
        report = self.run_tool("explain-away-stats", "--each", "/*", "dump.h5").out.decode()
        self.assertRegex(report, r"(?m)^block\.0 ")

    def test_module(self):
        (self.folder / "pack").mkdir()
        (self.folder / "pack/__init__.py").write_text("")
        (self.folder / "pack/run.py").write_text(SCRIPT)
        self.run_command("-q", "--function=mylayer:attend", "-o", "dump.h5", "-m", "pack.run", "--layers", "2")
        self.assertEqual(self.groups(), ["block.0", "block.1", "mha"])
        self.assertEqual(self.tokens(), ["<3>", "<1>", "<4>", "<1>", "<5>"])

    def test_tokenizers(self):
        words = list("abcdefghi")
        (self.folder / "vocab.txt").write_text("\n".join(words) + "\n")
        (self.folder / "vocab.json").write_text(json.dumps({w: n for n, w in enumerate(words)}))
        (self.folder / "tokenizer.json").write_text(json.dumps(
            {"model": {"vocab": {w: n for n, w in enumerate(words[:5])}},
             "added_tokens": [{"id": 5, "content": "f"}]}))
        for what in ("vocab.txt", "vocab.json", "tokenizer.json"):
            with self.subTest(what):
                self.run_command("--tokenizer", what, "--force", "-o", "dump.h5", *self.ARGUMENTS)
                self.assertEqual(self.tokens(), ["d", "b", "e", "b", "f"])
        (self.folder / "names.txt").write_text("\n".join(["the", "cat", "sät", "on", "it"]))
        self.run_command("--tokens", "names.txt", "--force", "-o", "dump.h5", *self.ARGUMENTS)
        self.assertEqual(self.tokens(), ["the", "cat", "sät", "on", "it"])
        self.run_command("--tokenizer", "words", "--force", "-o", "dump.h5", *self.ARGUMENTS)
        self.assertEqual(self.tokens()[0], "<3>")
        self.path.unlink()
        (self.folder / "bad.json").write_text("{")
        for what, says in (("bad.json", "bad.json: not a vocabulary"), ("nothing", "no such variable"),
                           ("no.module:x", "no such variable")):
            self.refused_with("--tokenizer", what, "-o", "dump.h5", *self.ARGUMENTS, status=3, says=says)
        self.refused_with("--tokens", "none.txt", "-o", "dump.h5", *self.ARGUMENTS, status=3,
                          says="none.txt: No such file")

    def test_functions_of_the_script(self):
        script = LAYER + SCRIPT.replace("import mylayer", "").replace("mylayer.", "")
        (self.folder / "whole.py").write_text(script)
        self.run_command("-q", "-o", "dump.h5", "--function=__main__:attend", "whole.py", "--layers", "2")
        self.assertEqual(self.groups(), ["block.0", "block.1", "mha"])
        self.path.unlink()
        self.refused_with("-o", "dump.h5", "--function=__main__:other", "whole.py", "--layers", "2", status=2,
                          says="__main__:other: .*no attribute")

    def test_no_names_for_tokens_is_said(self):
        (self.folder / "infer.py").write_text(SCRIPT.replace("words = Tokenizer()", ""))
        _, err = self.run_command("-o", "dump.h5", *self.ARGUMENTS)
        self.assertIn("\ndump-attention: the tokens have no names; --tokenizer", err)

    def test_leaving_with_status_zero_keeps_the_dump(self):
        (self.folder / "infer.py").write_text(SCRIPT + "\n    sys.exit(0)\n")
        self.run_command("-o", "dump.h5", *self.ARGUMENTS)
        self.assertEqual(self.tokens()[0], "<3>")

    def test_failures(self):
        self.refused_with("-o", "dump.h5", "--function", "mylayer:other", "infer.py", status=2,
                          says="mylayer:other: .*module:function")
        err = self.refused_with("-o", "dump.h5", "infer.py", status=3, says="infer.py failed: AssertionError")
        self.assertIn('infer.py", line', err)
        self.assertNotIn("command.py", err)
        (self.folder / "leaves.py").write_text("import sys; sys.exit('no data')")
        self.assertIn("no data\n", self.refused_with("-o", "dump.h5", "leaves.py", status=3,
                                                     says="ended with status 1; nothing was written"))
        (self.folder / "idle.py").write_text("print(1)")
        self.refused_with("-o", "dump.h5", "idle.py", status=3, says="no attention was called",
                          hint="--function")
        self.refused_with("-o", "none/dump.h5", "idle.py", status=5,
                          says="cannot write none/dump.h5: No such file or directory")
        self.refused_with("-o", "dump.npz", "idle.py", status=2, says="only HDF5", hint="tensor-convert")
        self.path.mkdir()
        _, err = self.run_command("-o", "dump.h5", "idle.py", status=5)
        self.assertIn("it is a folder", err)
        self.path.rmdir()
        self.path.write_text("mine")
        _, err = self.run_command("-o", "dump.h5", "idle.py", status=5)
        self.assertIn("error: dump.h5 exists\ndump-attention: hint: replace it with --force", err)
        self.assertEqual(self.path.read_text(), "mine")

    LARGE = textwrap.dedent("""
        import time, torch
        m = torch.nn.MultiheadAttention(256, 4, batch_first=True).eval()
        x = torch.randn(1, 4000, 256)
        with torch.no_grad():
            for _ in range(4):
                m(x[:, :40], x, x)
        print("ready", flush=True)
        time.sleep({})
        """)

    def test_full_disk(self):
        (self.folder / "large.py").write_text(self.LARGE.format(0))

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 24, 1 << 24))

        _, err = self.run_command("-o", "dump.h5", "large.py", status=5, preexec_fn=limit)
        self.assertRegex(err, r"\Adump-attention: error: cannot write dump.h5: File too large\n\Z")
        self.assertEqual(sorted(os.listdir(self.folder)), ["infer.py", "large.py", "mylayer.py"])

    def test_signals(self):
        (self.folder / "large.py").write_text(self.LARGE.format(60))
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                running = subprocess.Popen([*COMMAND, "-o", "dump.h5", "large.py"], cwd=self.folder,
                                           env=self.environment, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE)
                self.assertEqual(running.stdout.readline(), b"ready\n")
                self.assertEqual(len([p for p in os.listdir(self.folder) if p.endswith(".tmp")]), 1)
                running.send_signal(number)
                _, err = running.communicate(timeout=TIMEOUT)
                self.assertEqual((running.returncode, err), (-number, b""))
                self.assertEqual(sorted(os.listdir(self.folder)), ["infer.py", "large.py", "mylayer.py"])

    def test_reproducible(self):
        self.environment["SOURCE_DATE_EPOCH"] = "1700000000"
        contents = []
        for _ in range(2):
            self.run_command("-q", "--force", "-o", "dump.h5", *self.ARGUMENTS)
            contents.append(self.path.read_bytes())
        self.assertEqual(*contents)
        with h5py.File(self.path) as file:
            self.assertTrue(file.attrs["history"].startswith("2023-11-14T22:13:20Z: "))


if __name__ == "__main__":
    unittest.main()
