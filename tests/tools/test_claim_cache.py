"""claim-check --cache: numbers are taken from it only if nothing that their commands looked at has changed."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import h5py
import numpy as np

from attn import BIN
from claims import claim, ClaimTest

def swap_for_link(path, target):
    os.unlink(path)
    os.link(target, path)


# A command that prints 1, and what makes it print 2. $D is $CLAIMS and a folder of its own, FOLDER its path.
PRINTS = {"x.txt": "1\n"}
CHANGES = {"x.txt": "2\n"}
CASES = {
    "blank": ('cat "$D/a b.txt"', {"a b.txt": "1\n"}, {"a b.txt": "2\n"}),
    "newline": ("cat \"$D\"/a$'\\n'b.txt", {"a\nb.txt": "1\n"}, {"a\nb.txt": "2\n"}),
    "utf8": ("cat $D/ü.txt", {"ü.txt": "1\n"}, {"ü.txt": "2\n"}),
    "bytes": ("cat $D/$'\\xff'.txt", {b"\xff.txt": "1\n"}, {b"\xff.txt": "2\n"}),
    "quotes": ("cat $D/'x'.txt", PRINTS, CHANGES),
    "loop": ("for n in x; do cat $D/$n.txt; done", PRINTS, CHANGES),
    "glob": ("cat $D/x*.txt", PRINTS, CHANGES),
    "glob-of-more": ("cat $D/x*.txt | wc -l", PRINTS, {"x2.txt": "1\n"}),
    "listed": ("ls $D | wc -l", PRINTS, {"y": ""}),
    "found": ("find $D -name '*.txt' | wc -l", PRINTS, {"sub/deep/y.txt": ""}),
    "redirected": ("read -r n <$D/x.txt; echo $n", PRINTS, CHANGES),
    "substituted": ("cat <(cat $D/x.txt)", PRINTS, CHANGES),
    "by-xargs": ("echo $D/x.txt | xargs cat", PRINTS, CHANGES),
    "in-the-background": ("cat $D/x.txt & wait", PRINTS, CHANGES),
    "from-above": ("mkdir s; cd s; cd $D/sub; cd ..; cat x.txt", PRINTS | {"sub/y": ""}, CHANGES),
    "relative": ("cd $D; /usr/bin/python3 -c 'import os; print(1 + os.access(\"y\", os.F_OK))'", {}, {"y": ""}),
    "in-python": ("/usr/bin/python3 -c \"print(open('$D/x.txt').read())\"", PRINTS, CHANGES),
    "in-a-thread": ("/usr/bin/python3 $D/t.py", PRINTS | {
        "t.py": "import threading\nt = threading.Thread(target=lambda: print(open('FOLDER/x.txt').read()))\n"
                "t.start()\nt.join()\n"}, CHANGES),
    "module": ("PYTHONPATH=$D /usr/bin/python3 -c 'import one'",
               {"one.py": "import two\nprint(two.x)\n", "two.py": "x = 1\n"}, {"two.py": "x = 2\n"}),
    "module-that-appears": ("PYTHONPATH=$D /usr/bin/python3 -c 'import one'",
                            {"one.py": "try:\n    import two\n    print(2)\nexcept ImportError:\n    print(1)\n"},
                            {"two.py": ""}),
    "appears": ("cat $D/y.txt 2>/dev/null || echo 1", {}, {"y.txt": "2\n"}),
    "appears-in-no-folder": ("cat $D/s/y.txt 2>/dev/null || echo 1", {}, {"s/y.txt": "2\n"}),
    "vanishes": ("[ -e $D/x.txt ] && echo 1 || echo 2", PRINTS, {"x.txt": None}),
    "size": ("[ $(stat -c %s $D/x.txt) -gt 2 ] && echo 2 || echo 1", PRINTS, {"x.txt": "11\n"}),
    "links": ("stat -c %h $D/x.txt", PRINTS, {"x.txt": lambda path: os.link(path, path + b"2")}),
    "age": ("[ $D/x.txt -nt $D/y.txt ] && echo 2 || echo 1", PRINTS | {"y.txt": ""},
            {"x.txt": lambda path: os.utime(path, (1 << 31, 1 << 31))}),
    "same-file": ("[ $D/x.txt -ef $D/y.txt ] && echo 2 || echo 1", PRINTS | {"y.txt": "1\n"},
                  {"y.txt": lambda path: swap_for_link(path, path.replace(b"y.txt", b"x.txt"))}),
    "permission": ("[ -x $D/x.txt ] && echo 2 || echo 1", PRINTS, {"x.txt": 0o755}),
    "program": ("$D/tool", {"tool": "#!/bin/sh\necho 1\n"}, {"tool": "#!/bin/sh\necho 2\n"}),
    "program-by-a-link": ("$D/link", {"tool": "#!/bin/sh\necho 1\n", "link": ("tool",)},
                          {"tool": "#!/bin/sh\necho 2\n"}),
    "program-before-it": ("PATH=$D/a:$D/b:$PATH; tool", {"b/tool": "#!/bin/sh\necho 1\n"},
                          {"a/tool": "#!/bin/sh\necho 2\n"}),
    "interpreter": ("$D/script", {"script": "#!FOLDER/inner x\n", "inner": "#!/bin/sh\necho 1\n"},
                    {"inner": "#!/bin/sh\necho 2\n"}),
    "own-script": ("printf '#!%s\\n' $D/inner >s; chmod +x s; ./s", {"inner": "#!/bin/sh\necho 1\n"},
                   {"inner": "#!/bin/sh\necho 2\n"}),
    "link-to-another": ("cat $D/link", PRINTS | {"link": ("x.txt",), "y.txt": "2\n"}, {"link": ("y.txt",)}),
    "text-of-a-link": ("readlink $D/link", {"link": ("1",)}, {"link": ("2",)}),
    "link-of-its-own": ("ln -s $D/x.txt .; cat x.txt", PRINTS, CHANGES),
    "link-to-what-appears": ("ln -s $D/y.txt .; [ -e y.txt ] && echo 2 || echo 1", {}, {"y.txt": ""}),
    "folder-by-a-link": ("cat $D/link/x.txt", {"a/x.txt": "1\n", "b/x.txt": "2\n", "link": ("a",)},
                         {"link": ("b",)}),
    "killed": ("bash -c 'cat $D/x.txt; kill -KILL $$' || true", PRINTS, CHANGES),
}

# A command that prints 1, and why its number is not kept.
NEVER = {
    "writes": ("echo 1 | tee $D/y.txt", "y.txt"),
    "counts": ("echo $(($(cat $D/x.txt) + 1)) >$D/x.txt; echo 1", "x.txt"),
    "appends": ("echo >>$D/x.txt; echo 1", "x.txt"),
    "makes": ("mkdir $D/y; echo 1", "/y"),
    "removes": ("rm $D/x.txt; echo 1", "x.txt"),
    "renames": ("mv $D/x.txt .; echo 1", "x.txt"),
    "permits": ("chmod 600 $D/x.txt; echo 1", "x.txt"),
    "writes-by-a-link": ("ln -s $D/x.txt .; echo 1 >x.txt; echo 1", "x.txt"),
    "names-again": ("ln $D/x.txt y.txt; cat y.txt", "x.txt"),
    "links-to-a-folder": ("ln -s $D d; cat d/x.txt", "link to the folder"),
    "links-upwards": ("mkdir d; ln -s ../../../x.txt d/y; echo 1", "makes a link to ../../../x.txt"),
    "looks-beside": ("ls .. >/dev/null; echo 1", "folder of all commands"),
    "listens": ("/usr/bin/python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0)); print(1)'", "socket"),
    "shares-memory": ("/usr/bin/python3 -c 'import multiprocessing; multiprocessing.Lock(); print(1)'", "/dev/shm"),
    "leaves-a-process": ("sleep 60 & echo 1", "not traced to its end"),
    "by-the-process": ("cat /proc/self/cwd/x 2>/dev/null || echo 1", "/proc/self/cwd/x"),
    "counts-threads": ("echo $(($ATTN_NUM_THREADS > 0))", "it reads ATTN_NUM_THREADS"),
    "is-overtaken": ("cat $D/x.txt; sleep 1", "x.txt changed since it started"),
    "overtakes": ("sleep 0.5; echo 1 >$CLAIMS/is-overtaken/x.txt; echo 1", "x.txt"),
}


def can_trace():
    done = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], stderr=subprocess.PIPE, check=False)
    return done.returncode == 0 and not done.stderr


@unittest.skipUnless(shutil.which("strace") and can_trace(), "strace is not there, or may not trace")
class ClaimCache(ClaimTest):

    def run_claims(self, *arguments, status=0, **more):
        """The claims by name, and the names of those that were taken from the cache."""
        found = self.check("--cache=../cache", *arguments, status=status, **more)
        self.report = json.loads((self.folder / "r.json").read_text())
        return found, {name for name, c in found.items() if c["cached"]}

    def place(self, name, files):
        """Makes, changes or removes files in the folder of a case."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for file, content in files.items():
            path = os.path.join(os.fsencode(folder), os.fsencode(file))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if isinstance(content, int):
                os.chmod(path, content)
                continue
            if callable(content):
                content(path)
                continue
            if content is None or isinstance(content, tuple) and os.path.lexists(path):
                os.unlink(path)
            if isinstance(content, tuple):
                os.symlink(content[0], path)
            elif content is not None:
                with open(path, "w", encoding="utf-8") as stream:
                    stream.write(content.replace("FOLDER", str(folder)))
                os.chmod(path, 0o755 if content.startswith("#!") else 0o644)

    def printing(self, name, command):
        return claim(name, f"\n{command.replace('$D', f'$CLAIMS/{name}')}\n", "stdout", 1, "line = 1")

    def test_what_a_command_looks_at(self):
        for name, (_, files, _) in CASES.items():
            self.place(name, files)
        self.claims(*(self.printing(name, command) for name, (command, _, _) in CASES.items()))
        found, known = self.run_claims("-j", 4)
        self.assertEqual(known, set())
        kept = set(CASES)
        self.assertEqual({name for name, c in found.items() if "not_kept" not in c}, kept,
                         {name: c.get("not_kept") for name, c in found.items()})
        self.assertEqual(self.run_claims("-j", 4)[1], kept)
        for name, (_, _, changes) in CASES.items():
            self.place(name, changes)
        found, known = self.run_claims("-j", 4, status=1)
        self.assertEqual(known, set())
        self.assertEqual({name for name, c in found.items() if c["measured"] != 2}, set())
        self.assertEqual(self.run_claims("-j", 4, status=1)[1], kept)

    def test_what_is_never_kept(self):
        for name in NEVER:
            self.place(name, PRINTS)
        self.claims(*(self.printing(name, command) for name, (command, _) in NEVER.items()))
        found, _ = self.run_claims("-j", 4)
        for name, (_, why) in NEVER.items():
            self.assertIn(why, found[name].get("not_kept", ""), name)
        self.assertIn(f"{len(NEVER)} not kept in the cache (-v says why)", self.text)
        self.assertEqual(list((self.folder / "../cache").iterdir()), [])
        done = self.run_tool("claim-check", "claims.toml", "--select=makes", "--cache=../cache", "-v", status=1)
        self.assertEqual(done.err, "")  # it fails now, as there is a folder
        done = self.run_tool("claim-check", "claims.toml", "--select=links-to-a-folder", "--cache=../cache", "-v")
        self.assertRegex(done.err, r"note: links-to-a-folder is not kept in the cache: it makes a link to the folder /")

    def test_text_and_environment(self):
        self.place("x", PRINTS)
        own = self.printing("x", "cat $D/x.txt")
        timed = claim("timed", more="alone = true")
        self.claims(own, timed)
        self.assertEqual(self.run_claims()[1], set())
        self.assertEqual(self.run_claims()[1], {"x"})
        self.assertIn("2 as expected, 0 not, 0 could not run; 1 from the cache", self.text)
        # Another expectation is judged anew, without a run.
        self.claims(own.replace("expected = 1", "expected = 2"))
        self.assertEqual(self.run_claims(status=1)[1], {"x"})
        self.assertIn("measured 1, expected = 2", self.text)
        self.claims(own.replace("expected = 1", "expected = [1, 2]"))
        self.assertEqual(self.run_claims(status=1)[1], {"x"})
        self.assertIn("1 number against 2 expected ones", self.text)
        # A file beside those that it reads does not matter, nor what tells a terminal or a run.
        self.place("x", {"other.txt": ""})
        self.claims(own)
        for name, value, known in (("TERM", "dumb", {"x"}), ("GITHUB_RUN_ID", "7", {"x"}), ("OF_MINE", "1", set()),
                                   ("OF_MINE", "1", {"x"}), ("OF_MINE", b"\xff", set()), ("OF_MINE", b"\xff", {"x"})):
            self.environment[name] = value
            self.assertEqual(self.run_claims()[1], known, (name, value))
        for mask, known in ((0o077, set()), (0o077, {"x"}), (0o002, set())):
            self.assertEqual(self.run_claims(umask=mask)[1], known, oct(mask))
        # What does not count is not there.
        self.claims(claim("hidden", "test -z \"$GITHUB_RUN_ID$SLURM_JOB_ID$MAKEFLAGS\""))
        self.environment |= {"SLURM_JOB_ID": "3", "MAKEFLAGS": "-j"}
        self.run_claims()
        # The text, and a damaged entry.
        self.claims(own.replace("cat ", "cat  "))
        self.assertEqual(self.run_claims()[1], set())
        for damage in (b"{", b"", b"\xa0"):
            (self.folder / "../cache/x.cbor").write_bytes(damage)
            self.assertEqual(self.run_claims()[1], set())
            self.assertEqual(self.run_claims()[1], {"x"})
        # A failed claim is run again.
        self.claims(claim("broken", "exit 7"))
        self.assertEqual((self.run_claims(status=1)[1], self.run_claims(status=1)[1]), (set(), set()))
        for more in (["--keep=kept", "--cache=cache"], ["--cache="], ["--commit=x"]):
            self.refused("claim-check", "claims.toml", *more, status=2, output=None)
        (self.folder / "file").write_text("")
        for option in ("--cache", "--record"):
            self.refused("claim-check", "claims.toml", f"{option}=file/x", status=5, says=["file/x"], output=None)

    def test_files_that_are_open(self):
        """A command has no files of the process that runs claim-check."""
        self.place("x", PRINTS)
        with open(self.folder / "x/x.txt", encoding="utf-8") as file:
            self.claims(claim("x", f"cat <&{file.fileno()} >n.txt", "n.txt", 1, "line = 1"))
            found, _ = self.run_claims(status=1, pass_fds=[file.fileno()])
        self.assertIn("exit status is 1", found["x"]["error"])

    @unittest.skipUnless(os.access("/dev", os.W_OK), "/dev is not writable")
    def test_a_plain_file_in_dev(self):
        with tempfile.NamedTemporaryFile("w", dir="/dev", prefix="attn-test-") as file:
            file.write("1\n")
            file.flush()
            self.claims(claim("x", f"cat {file.name} >n.txt; echo >/dev/null", "n.txt", 1, "line = 1"))
            self.assertEqual((self.run_claims()[1], self.run_claims()[1]), (set(), {"x"}))
            file.write("1\n")
            file.flush()
            self.assertEqual(self.run_claims()[1], set())

    def test_files_behind_a_dataset(self):
        """Only claim-check itself reads them."""
        self.place("x", {})
        folder = self.folder / "x"
        with h5py.File(folder / "part.h5", "w") as file:
            file["q"] = np.ones(2)
        layout = h5py.VirtualLayout((2,), "f8")
        layout[:] = h5py.VirtualSource("part.h5", "q", (2,))
        with h5py.File(folder / "all.h5", "w") as file:
            file.create_virtual_dataset("q", layout)
            file["g/link"] = h5py.ExternalLink("part.h5", "/q")
        self.claims(claim("virtual", "ln -s $CLAIMS/x/all.h5 .", "all.h5:/q", 1),
                    claim("linked", "ln -s $CLAIMS/x/all.h5 .", "all.h5:/*/link", 1))
        self.assertEqual((self.run_claims()[1], self.run_claims()[1]), (set(), {"virtual", "linked"}))
        with h5py.File(folder / "part.h5", "r+") as file:
            file["q"][:] = 2
        found, known = self.run_claims(status=1)
        self.assertEqual((known, {c["measured"] for c in found.values()}), (set(), {2}))

    def test_falsification_and_records(self):
        self.place("x", PRINTS)
        self.claims(self.printing("x", "cat $D/x.txt").replace("line = 1", 'line = 1\nperturb = ["x.txt", "y.txt"]'))
        self.place("x", {"y.txt": "3\n"})
        for known in (set(), {"x"}):
            self.assertEqual(self.run_claims("--falsify", "--record=../records")[1], known)
            self.assertEqual(self.report["result"]["falsify"]["computed_can_fail"], 1)
        self.place("x", {"y.txt": "1\n"})
        self.assertEqual(self.run_claims("--falsify", status=1)[1], {"x"})
        self.assertEqual(self.report["result"]["falsify"]["computed_can_fail"], 0)
        self.assertEqual(len(list((self.folder / "../records").iterdir())), 2)

    def test_tools_that_change(self):
        tools = self.folder / "tools"
        tools.mkdir()
        shutil.copy(BIN / "claim-check", tools)
        self.place("tools", {name: "#!/bin/sh\ntrue\n" for name in ("one", "two", "three")} | {"script.sh": "two\n"})
        self.claims(claim("x", "one"), claim("y", "bash $CLAIMS/tools/script.sh"))

        def run():
            done = subprocess.run([tools / "claim-check", "claims.toml", "--cache=../cache", "--json=r.json"],
                                  cwd=self.folder, env=self.environment, capture_output=True, check=True)
            self.assertEqual(done.stderr, b"")
            report = json.loads((self.folder / "r.json").read_text())["result"]
            return {c["id"] for c in report["list"] if c["cached"]}

        self.assertEqual((run(), run()), (set(), {"x", "y"}))
        for name, kept in (("one", {"y"}), ("two", {"x"}), ("three", {"x", "y"}), ("claim-check", set())):
            with open(tools / name, "a", encoding="ascii") as file:
                file.write("true\n")
            self.assertEqual((name, run(), run()), (name, kept, {"x", "y"}))

    def test_processes_and_times(self):
        """Limits of time, and the end of processes that a command leaves, are as without a cache."""
        self.claims(claim("limit", "setsid sleep 97.25 & sleep 97.5", more="time-limit = 0.5"),
                    claim("left", "setsid bash -c 'trap \"\" TERM; sleep 97.75; true' & sleep 0.2"))
        found, _ = self.run_claims(status=1)
        self.assertIn("more than 0.5 seconds", found["limit"]["error"])
        self.assertEqual(found["left"]["verdict"], "holds")
        processes = subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, check=True).stdout
        self.assertNotIn(b"sleep 97.", processes)

    def test_without_tracing(self):
        self.place("bin", {"strace": f"#!/bin/sh\nexec {shutil.which('strace')} \"$@\"\n"})
        self.environment["PATH"] = f"{self.folder}/bin:{self.environment['PATH']}"
        self.claims(claim("x"))
        self.assertEqual((self.run_claims()[1], self.run_claims()[1]), (set(), {"x"}))
        self.place("bin", {"strace": "#!/bin/sh\necho strace: not permitted >&2\nexit 1\n"})
        # What is known needs no tracing.
        self.assertEqual(self.run_claims()[1], {"x"})
        self.assertEqual(self.report["warnings"], [])
        self.claims(claim("x"), claim("y"))
        for _ in range(2):
            self.assertEqual(self.run_claims()[1], {"x"})
            self.assertEqual(self.report["warnings"], [
                "--cache keeps no claim, as strace cannot tell what a command reads: strace: not permitted"])
            self.assertIn("2 as expected", self.text)


if __name__ == "__main__":
    unittest.main()
