"""--completion of every tool: each script is loaded in its shell, which then completes an option, a
value and a verb."""

import os
import pty
import select
import signal
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from attn import ToolTest, require_program, sample
from test_help import TOOLS, options_of

# Calls the completion function for the words of a command line, the last of which is completed.
BASH = r"""
source "$1"; shift
declare -F "_${1//-/_}" >/dev/null || exit 9
complete -p "$1" >/dev/null || exit 9
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
"_${1//-/_}"
for hit in "${COMPREPLY[@]}"; do printf '%s\n' "$hit"; done
"""

# A zsh in a pseudo-terminal. Its compadd records what would be offered and adds nothing, so that the
# line stays as it is.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; stty -echo; autoload -Uz compinit; compinit -u -C -d '${(q)4}'; source '${(q)1}
zpty -w shell 'compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits; builtin compadd -A hits "$@"
  if (($#hits)); then print -rl -- "<hit>"$^hits >> '${(q)3}'; fi
  return 1
}'
zpty -w shell 'finish() { print done >> '${(q)3}' }; zle -N finish'
zpty -w shell 'bindkey "^T" complete-word; bindkey "^Y" finish'
zpty -w -n shell "$2"$'\x14'$'\x19'
for ((n = 0; n < 600; ++n)); do
  if [[ -e $3 && "$(tail -n 1 $3)" == done ]]; then break; fi
  sleep 0.1
done
zpty -d shell
"""

# Interactive shells: the command, and a line that loads a script and binds ctrl-Y to write the
# command line, as it then is, to the file {1}. zsh keeps what it knows of all commands in {2}.
INTERACTIVE = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             r"""source {0}; bind -x '"\C-y": printf %s "$READLINE_LINE" > {1}'"""),
    "zsh": (["zsh", "-f", "-i"],
            "autoload -Uz compinit; compinit -u -C -d {2}; source {0}; bindkey '^Y' finish; "
            'finish() {{ print -rn -- "$BUFFER" > {1} }}; zle -N finish'),
    "fish": (["fish", "--no-config", "-i"], r"source {0}; bind \cy 'commandline > {1}'"),
}


class Completion(ToolTest):

    @classmethod
    def setUpClass(cls):
        # To find the completions of all commands takes zsh longer than a test.
        folder = Path(tempfile.mkdtemp(prefix="attn-test-"))
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.known = folder / "zcompdump"

    def script(self, tool, shell):
        done = self.run_tool(tool, f"--completion={shell}")
        self.assertEqual(done.err, "")
        self.assertEqual(self.run_tool(tool, "--completion", shell).out, done.out)
        path = self.folder / f"{tool}.{shell}"
        path.write_bytes(done.out)
        return path

    def ask(self, command):
        done = subprocess.run(command, check=False, env=self.environment | {"LC_ALL": "C.UTF-8"},
                              capture_output=True, timeout=120, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""), command)
        return done.stdout.decode().split("\n")[:-1]

    def bash(self, tool, *words):
        require_program(self, "bash")
        return self.ask(["bash", "-c", BASH, "bash", str(self.script(tool, "bash")), tool, *words])

    def zsh(self, tool, *words):
        require_program(self, "zsh")
        hits = self.folder / "hits"
        hits.unlink(missing_ok=True)
        self.ask(["zsh", "-f", "-c", ZSH, "zsh", str(self.script(tool, "zsh")),
                  " ".join([tool, *words]), str(hits), str(self.known)])
        lines = hits.read_text().splitlines() if hits.exists() else []
        self.assertEqual(lines[-1:], ["done"], "zsh did not finish")
        # zsh asks again when nothing was added.
        return list(dict.fromkeys(line[5:] for line in lines if line.startswith("<hit>")))

    def fish(self, tool, *words):
        require_program(self, "fish")
        script = self.script(tool, "fish")
        line = " ".join([tool, *words])
        found = self.ask(["fish", "--no-config", "-c",
                          f"source {script}; complete -C {line!r}"])
        return [entry.split("\t")[0] for entry in found]

    def typed(self, shell, tool, keys):
        """The command line after `keys` are typed into an interactive shell in a terminal."""
        require_program(self, shell)
        line, ready = self.folder / "line", self.folder / "ready"
        command, setup = INTERACTIVE[shell]
        setup = setup.format(self.script(tool, shell), line, self.known)
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.folder)
            os.execvpe(command[0], command,
                       self.environment | {"TERM": "xterm"} | dict.fromkeys(
                           ("HOME", "TMPDIR", "XDG_RUNTIME_DIR"), str(self.folder)))
        try:
            self.type_until(terminal, f"{setup}; touch {ready}\n", ready)
            self.type_until(terminal, f"{tool} {keys}\x19", line)
            return line.read_text().rstrip("\n").removeprefix(tool + " ")
        finally:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(terminal)
            for path in (line, ready):
                path.unlink(missing_ok=True)

    def type_until(self, terminal, keys, file):
        """Types into a terminal and reads its output until `file` has appeared and is complete."""
        os.write(terminal, keys.encode())
        shown, end = b"", time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.3)[0]:
                shown += os.read(terminal, 1 << 16)
            elif file.exists():
                return
        self.fail(f"{file.name} has not appeared: {shown[-2000:]}")

    def in_each_shell(self, expected, *words):
        for complete in (self.bash, self.zsh, self.fish):
            with self.subTest(shell=complete.__name__, words=words):
                self.assertEqual(complete(*words), expected)

    def test_option(self):
        self.in_each_shell(["--scheme"], "attn-compute", "--sch")

    def test_every_tool_offers_every_option(self):
        for tool in sample(TOOLS, 4):
            options = options_of(self.run_tool(tool, "--help").out.decode())
            for complete in (self.bash, self.zsh, self.fish):
                with self.subTest(tool=tool, shell=complete.__name__):
                    # fish also offers --causal=, for the optional value.
                    offered = {option.rstrip("=") for option in complete(tool, "--")}
                    self.assertEqual(sorted(offered), sorted(options))

    def test_shellcheck(self):
        require_program(self, "shellcheck")
        for tool in sample(TOOLS, 6):
            with self.subTest(tool=tool):
                self.ask(["shellcheck", "--shell=bash", str(self.script(tool, "bash"))])

    def test_value(self):
        self.in_each_shell(["dnas"], "attn-compute", "--scheme", "d")
        self.in_each_shell(["f32"], "tensor-gen", "normal", "--dtype", "f3")

    def test_list(self):
        for complete in (self.bash, self.zsh, self.fish):
            with self.subTest(shell=complete.__name__):
                found = complete("attn-compute", "--emit", "out,col_")
                self.assertEqual([word.rpartition(",")[2] for word in found],
                                 ["col_potential", "col_sum"])

    def test_list_can_go_on(self):
        # No blank after an item, so that the next one can be typed. zsh inserts a comma itself, which
        # gives way to a blank.
        for shell in INTERACTIVE:
            with self.subTest(shell=shell):
                comma = "," if shell == "zsh" else ""
                cases = (("--emit row_e", "--emit row_entropy"),
                         ("--emit=out,row_e", "--emit=out,row_entropy"),
                         ("--emit out,row_e", "--emit out,row_entropy"))
                for begun, completed in sample(cases, 1):
                    self.assertEqual(self.typed(shell, "attn-compute", begun + "\t"),
                                     completed + comma)
                self.assertEqual(self.typed(shell, "attn-compute", "--emit row_e\t x"),
                                 "--emit row_entropy x")
                # Other values are complete.
                self.assertEqual(self.typed(shell, "attn-compute", "--scheme dn\t"),
                                 "--scheme dnas ")

    def test_list_offers_an_item_once(self):
        for complete in (self.bash, self.zsh, self.fish):
            with self.subTest(shell=complete.__name__):
                self.assertEqual(complete("attn-compute", "--emit", "out,col_sum,ou"), [])
                found = complete("attn-compute", "--emit", "col_sum,col_")
                self.assertIn("col_potential", {word.rstrip(",").rpartition(",")[2]
                                                for word in found})
                self.assertNotIn("col_sum", {word.rstrip(",").rpartition(",")[2]
                                             for word in found})

    def test_verb(self):
        self.in_each_shell(["reconstruct"], "basis-paths", "rec")

    def test_options_of_a_verb(self):
        self.in_each_shell(["--rate"], "basis-paths", "step", "--ra")
        self.in_each_shell([], "basis-paths", "values", "--ra")

    def test_a_verb_that_may_be_absent(self):
        (self.folder / "meal.h5").touch()
        for complete in (self.bash, self.zsh, self.fish):
            with self.subTest(shell=complete.__name__):
                found = complete("alignment-attention", "mea")
                self.assertEqual(sorted(found), ["meal.h5", "measure"])
        self.in_each_shell(["--emit"], "alignment-attention", "--emi")
        self.in_each_shell([], "alignment-attention", "measure", "--emi")
        self.in_each_shell(["--threshold"], "alignment-attention", "measure", "--thresh")

    def test_optional_value(self):
        # bash splits the word at '='.
        self.assertEqual(self.bash("attn-compute", "--causal", "=", "top"), ["top-left"])
        self.assertEqual(self.bash("attn-compute", "--causal", "="),
                         ["none", "top-left", "bottom-right"])
        self.assertEqual(self.bash("attn-compute", "--causal=top"), ["--causal=top-left"])
        self.assertEqual(self.zsh("attn-compute", "--causal=top"), ["top-left"])
        self.assertEqual(self.fish("attn-compute", "--causal=top"), ["--causal=top-left"])

    def test_files(self):
        (self.folder / "layer 3.h5").touch()
        for words in (["lay"], ["-o", "lay"], ["-i", "q", "=", "lay"], ["--json", "=", "lay"]):
            self.assertEqual(self.bash("attn-compute", *words), ["layer 3.h5"])
        self.assertEqual(self.bash("attn-compute", "-i", "q=lay"), ["q=layer 3.h5"])
        self.assertEqual(self.bash("tensor-gen", "normal", "lay"), [])
        self.assertEqual(self.bash("attn-compute", "--threads", "lay"), [])
        self.assertEqual(self.fish("attn-compute", "-o", "lay"), ["layer 3.h5"])

    def test_unknown_shell(self):
        for words in (["--completion=tcsh"], ["--completion", "tcsh"]):
            done = self.run_tool("attn-compute", *words, status=2)
            self.assertIn("--completion is tcsh, expected one of bash, zsh, fish", done.err)
            self.assertEqual(done.out, b"")
        for words in (["--completion"], ["--completion="]):
            done = self.run_tool("attn-compute", *words, status=2)
            self.assertRegex(done.err, r"\Aattn-compute: error: --completion (needs a value|is empty)")


if __name__ == "__main__":
    unittest.main()
