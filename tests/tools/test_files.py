"""Output files appear whole or not at all: full disks, killed processes, broken pipes, links."""

import itertools
import os
import resource
import signal
import stat
import subprocess
import time
import unittest
from pathlib import Path

import numpy as np

from attn import BIN, LEAST_FILE_SIZE, LONG, TIMEOUT, ToolTest, bundle_bytes, write


def vectors(queries=120, d=4, seed=0):
    random = np.random.default_rng(seed)
    return {n: random.normal(size=(2, queries, d)).astype(np.float32) for n in "qkv"}


class FilesTest(ToolTest):

    def setUp(self):
        super().setUp()
        self.write("in.h5", **vectors())
        self.before = self.listing()

    def listing(self):
        return sorted(os.listdir(self.folder))

    def bytes_of(self, name):
        return (self.folder / name).read_bytes()

    def mounted(self, options):
        """A tmpfs of its own for the test, which is skipped if mounting is not allowed."""
        folder = self.folder.parent / "mounted"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            self.skipTest("there is no mount")
        if done.returncode != 0:
            self.skipTest(f"a tmpfs cannot be mounted: {done.stderr.decode().strip()}")
        # Lazily: a dying process may still use it.
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        return folder


class Pipes(FilesTest):

    def test_reader_that_leaves(self):
        # More than a pipe holds, so that the tool is still writing when head has exited.
        self.write("in.h5", **vectors(), big=np.zeros(2**20))
        for command in ("attn-compute -q in.h5", "cat in.h5 | attn-compute -q",
                        "explain-away-stats in.h5 -o - 2>/dev/null",
                        "attn-compute -q in.h5 | attn-compute -q"):
            with self.subTest(command=command):
                done = self.shell(f"{command} | head -c 1; echo ${{PIPESTATUS[-2]}}")
                self.assertEqual(done.out, b"\x89%d\n" % (128 + signal.SIGPIPE))
                self.assertEqual(done.err, "")
                self.assertEqual(self.listing(), self.before)
                self.assertEqual(os.listdir(self.tmp), [])

    def test_everything_is_read_before_the_end(self):
        # The writer of the pipe must not be killed because the tool refuses early.
        done = self.shell("cat in.h5 | attn-compute -o in.h5; echo ${PIPESTATUS[*]}")
        self.assertEqual(done.out, b"0 5\n")
        self.assertIn("in.h5 exists", done.err)

    def test_fifo(self):
        expected = self.run_tool("attn-compute", "in.h5", "--only").bundle()
        os.mkfifo(self.folder / "fifo")
        for script in ("attn-compute --only in.h5 -o fifo & cat fifo > out.h5; wait $!",
                       "cat in.h5 > fifo & attn-compute --only fifo -o out.h5; wait",
                       "cat in.h5 > fifo & attn-compute --only -i q=fifo:/q -i k=in.h5 -i v=in.h5 "
                       "-o out.h5; wait",
                       "attn-compute --only <(cat in.h5) > out.h5"):
            with self.subTest(script=script):
                (self.folder / "out.h5").unlink(missing_ok=True)
                self.shell(script)
                self.assert_same_bits(self.read("out.h5"), expected)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.folder / "fifo").st_mode))

    def test_devices(self):
        self.run_tool("attn-compute", "in.h5", "-o", "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        says = "o space left on device"
        self.refused("attn-compute", "in.h5", output="/dev/full", status=5,
                     says=["/dev/full", says])
        with open("/dev/full", "wb") as full:
            for tool in ("attn-compute", "explain-away-stats"):
                self.refused(tool, "in.h5", output=None, stdout=full, status=5,
                             says=["standard output", says])


class FullDisks(FilesTest):

    def refused_for_space(self, done, what):
        self.assertEqual(done.status, 5, done.err)
        self.assertRegex(done.err, r"\A\S+: error: .*\n(\S+: hint: .*\n)?\Z")
        self.assertIn(what, done.err)
        self.assertRegex(done.err, "[Nn]o space left|[Ff]ile too large")

    def test_disk_that_fills_up(self):
        disk = self.mounted("size=2m")
        write(disk / "out.h5", old=np.arange(1000))
        old = (disk / "out.h5").read_bytes()
        options = ["in.h5", "-q", "--emit=out,weights,col_sum"]
        needed = len(self.run_tool("attn-compute", *options).out)
        usable = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        self.assertGreater(needed, 64 * 1024)
        # Full from the start, in the middle, and with room for all but the last page.
        for free in [0, 4096, *range(8192, needed, needed // 12), (needed - 1) // 4096 * 4096]:
            with self.subTest(free=free):
                (disk / "filler").write_bytes(bytes(usable - free))
                done = self.run_tool("attn-compute", *options, "--force", "-o", disk / "out.h5",
                                     status=None)
                self.refused_for_space(done, "out.h5")
                self.assertEqual((disk / "out.h5").read_bytes(), old)
                self.assertEqual(sorted(os.listdir(disk)), ["filler", "out.h5"])
        os.unlink(disk / "filler")
        self.run_tool("attn-compute", *options, "--force", "-o", disk / "out.h5")
        self.assertNotEqual((disk / "out.h5").read_bytes(), old)

    def test_no_space_for_temporaries(self):
        disk = self.mounted("size=64k")
        stream = bundle_bytes(**vectors(), big=np.zeros(2**17))
        done = self.run_tool("attn-compute", "-o", "out.h5", stdin=stream, status=None,
                             environment={"TMPDIR": str(disk)})
        self.refused_for_space(done, "standard input")
        self.assertIn("--tmpdir", done.err)
        done = self.run_tool("attn-compute", "in.h5", "--tmpdir", disk, "--emit=weights",
                             status=None)
        self.refused_for_space(done, "standard output")
        self.assertEqual(done.out, b"")
        self.assertEqual((os.listdir(disk), self.listing()), ([], self.before))
        self.run_tool("attn-compute", "-o", "out.h5", stdin=stream)

    def test_no_space_for_the_report(self):
        disk = self.mounted("size=64k")
        usable = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "filler").write_bytes(bytes(usable))
        for tool in ("attn-compute", "explain-away-stats"):
            with self.subTest(tool=tool):
                done = self.run_tool(tool, "in.h5", "-o", "out.h5", "-q",
                                     f"--json={disk}/report.json", status=None)
                self.refused_for_space(done, "report.json")
                self.assertEqual((os.listdir(disk), self.listing()), (["filler"], self.before))
        os.unlink(disk / "filler")
        for _ in range(2):
            self.run_tool("attn-compute", "in.h5", "-o", "out.h5", "-q", "--force",
                          f"--json={disk}/report.json")
            self.assertEqual(os.listdir(disk), ["report.json"])
        self.assertIn("out.h5", self.listing())

    def test_report_that_cannot_be_printed(self):
        with open("/dev/full", "wb") as full:
            done = self.run_tool("explain-away-stats", "in.h5", "-o", "out.h5", status=None,
                                 stdout=full)
        self.refused_for_space(done, "standard output")
        self.assertEqual(self.listing(), self.before)

    def test_limit_on_the_size_of_files(self):
        needed = len(self.run_tool("attn-compute", "in.h5", "-q").out)
        self.write("out.h5", old=np.arange(5))
        old = self.bytes_of("out.h5")
        for size in (0, 1000, needed // 2, needed - 1):
            limit = max(size, LEAST_FILE_SIZE)
            with self.subTest(limit=limit):
                done = self.run_tool(
                    "attn-compute", "in.h5", "--force", "-o", "out.h5", status=None,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
                self.refused_for_space(done, "out.h5")
                self.assertEqual(self.bytes_of("out.h5"), old)
                self.assertEqual(self.listing(), sorted([*self.before, "out.h5"]))

    def test_folder_that_cannot_be_written(self):
        folder = self.mounted("ro") if os.geteuid() == 0 else self.folder / "closed"
        folder.mkdir(exist_ok=True, mode=0o500)
        self.refused("attn-compute", "in.h5", output=folder / "out.h5", status=5,
                     says=["cannot write", f"{folder}/out.h5"])
        for tmpdir in (folder, "/no/such/folder"):
            self.refused("attn-compute", "in.h5", "--tmpdir", tmpdir, output=None, status=5,
                         says=[str(tmpdir)], hint="--tmpdir")


class Killed(FilesTest):

    def kill_at_random_moments(self, number, times, check):
        """Starts a run that replaces out.h5 and sends it a signal at some time between its start
        and its end; `check` is called with its status. Returns the number of killed runs."""
        self.write("in.h5", big=np.zeros(2**17), **vectors(400))
        command = [str(BIN / "attn-compute"), "in.h5", "-q", "--emit=weights,out", "--force",
                   "-o", "out.h5"]
        durations = []
        for _ in range(3):
            start = time.monotonic()
            subprocess.run(command, cwd=self.folder, env=self.environment, check=True,
                           timeout=TIMEOUT)
            durations.append(time.monotonic() - start)
        killed = 0
        # On a busy machine most runs end before the signal: then at once.
        for n, moment in enumerate([*np.random.default_rng(number).uniform(0, 1.1, times), *[0] * 20]):
            if n >= times and killed > 1:
                break
            with subprocess.Popen(command, cwd=self.folder, env=self.environment) as process:
                time.sleep(moment * min(durations))
                process.send_signal(number)
                process.wait(TIMEOUT)
            self.assertIn(process.returncode, (0, -number))
            killed += process.returncode != 0
            check()
        return killed

    def test_kill_9(self):
        def check():
            # The old file, or the complete new one.
            bundle = self.read("out.h5")
            if "old" in bundle:
                self.assertEqual(self.bytes_of("out.h5"), old)
            else:
                self.assert_same_bits(bundle, whole)
            # At most one temporary is left, which the next run removes.
            self.assertLessEqual(set(self.listing()), {".out.h5.tmp", "in.h5", "out.h5"})
            self.write("out.h5", old=np.arange(20000))

        self.write("out.h5", old=np.arange(20000))
        old = self.bytes_of("out.h5")
        self.write("in.h5", big=np.zeros(2**17), **vectors(400))
        whole = self.compute("in.h5", "-q", "--emit=weights,out")
        killed = self.kill_at_random_moments(signal.SIGKILL, 60 if LONG else 20, check)
        self.assertGreater(killed, 5)
        self.run_tool("attn-compute", "in.h5", "--force", "-o", "out.h5")
        self.assertEqual(self.listing(), ["in.h5", "out.h5"])

    def is_locked(self, name):
        """Whether a process holds a lock of the file; asking for one would be in its way."""
        try:
            file = f":{(self.folder / name).stat().st_ino} "
        except FileNotFoundError:
            return False
        return any(" FLOCK " in line and file in line for line in Path("/proc/locks").read_text().splitlines())

    def test_a_second_writer(self):
        self.write("in.h5", **vectors(4000))
        for output, temporary in (("out.h5", ".out.h5.tmp"), ("out.npz", ".out.npz.contents.tmp")):
            with self.subTest(output=output):
                command = ["attn-compute", "in.h5", "--emit=weights", "-q", "-o", output]
                with subprocess.Popen([BIN / command[0], *command[1:]], cwd=self.folder,
                                      env=self.environment) as process:
                    try:
                        # Stopped before it holds the lock, it would not be the first writer.
                        while not self.is_locked(temporary):
                            self.assertIsNone(process.poll())
                        process.send_signal(signal.SIGSTOP)
                        before = self.listing()
                        done = self.run_tool("tensor-gen", "normal", "q=2", "-o", output, status=5)
                        self.assertEqual(done.err, f"tensor-gen: error: {output} is being written by "
                                                   "another process\n")
                        self.assertEqual(self.listing(), before)
                    finally:
                        process.kill()
                self.run_tool("tensor-gen", "normal", "q=2", "-o", output)
                self.assertFalse([name for name in self.listing() if name.endswith(".tmp")])

    def test_signals_that_can_be_handled(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            with self.subTest(signal=number):
                before = sorted({*self.before, "out.h5"})
                killed = self.kill_at_random_moments(
                    number, 12 if LONG else 5, lambda: self.assertEqual(self.listing(), before))
                self.assertGreater(killed, 1)

    def test_signals_while_temporaries_are_open(self):
        # While it waits for the end of its input, and at the end for a reader.
        numbers = (signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
        commands = (["-o", "out.h5"], ["in.h5", "--emit=weights"])
        # Short runs have each signal once.
        cases = itertools.product(numbers, commands) if LONG else zip(numbers, itertools.cycle(commands))
        for number, command in cases:
            with self.subTest(signal=number, command=command):
                self.write("in.h5", **vectors(400))
                with subprocess.Popen([BIN / "attn-compute", *command], cwd=self.folder,
                                      env=self.environment, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                    process.stdin.write(self.bytes_of("in.h5")[:4096])
                    process.stdin.flush()
                    time.sleep(0.5)
                    self.assertIsNone(process.poll())
                    process.send_signal(number)
                    self.assertEqual(process.wait(TIMEOUT), -number)
                    process.stdin.close()
                self.assertEqual(self.listing(), self.before)
                self.assertEqual(os.listdir(self.tmp), [])

    def test_report_of_a_run_that_is_killed(self):
        # It has its name while the bundle is written to the stream, and must lose it again.
        os.mkfifo(self.folder / "fifo")
        for old in (None, "the old report"):
            with self.subTest(old=old):
                (self.folder / "report.json").unlink(missing_ok=True)
                if old:
                    (self.folder / "report.json").write_text(old)
                before = self.listing()
                with subprocess.Popen([BIN / "attn-compute", "in.h5", "-q", "-o", "fifo",
                                       "--json=report.json"], cwd=self.folder,
                                      env=self.environment) as process:
                    time.sleep(0.5)
                    self.assertIsNone(process.poll())
                    process.terminate()
                    self.assertEqual(process.wait(TIMEOUT), -signal.SIGTERM)
                self.assertEqual(self.listing(), before)
                if old:
                    self.assertEqual(self.bytes_of("report.json"), old.encode())

    def test_report_and_bundle_of_a_run_that_is_killed(self):
        """Both files are new, or neither is, whenever a signal arrives; and nothing else
        remains."""
        self.write("in.h5", **vectors(20))
        command = [BIN / "attn-compute", "in.h5", "-q", "-o", "out.h5", "--json=report.json",
                   "--force", "--threads=2"]
        results = [self.folder / "out.h5", self.folder / "report.json"]
        durations = []
        for _ in range(5):
            start = time.monotonic()
            subprocess.run(command, cwd=self.folder, env=self.environment, check=True)
            durations.append(time.monotonic() - start)
        for path in results:
            path.unlink()
        before = self.listing()
        random = np.random.default_rng(0)
        numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGXCPU, signal.SIGQUIT, signal.SIGHUP)
        killed, outcomes = 0, set()
        runs = 300 if LONG else 24
        for run in range(runs):
            old = run % 2 == 0
            for path in results:
                path.write_text("old") if old else path.unlink(missing_ok=True)
            number = random.choice(numbers)
            with subprocess.Popen(command, cwd=self.folder, env=self.environment) as process:
                time.sleep(random.uniform(0.5, 1.1) * min(durations))
                process.send_signal(number)
                self.assertIn(process.wait(TIMEOUT), (0, -number))
            killed += process.returncode != 0
            new = [path.exists() and path.read_bytes() != b"old" for path in results]
            self.assertEqual(new[0], new[1], f"run {run}: new bundle {new[0]}, new report {new[1]}")
            outcomes.add((new[0], process.returncode != 0))
            if new[0]:
                self.assertIn("out", self.read("out.h5"))
                self.assertEqual(self.read_json("report.json")["status"], "ok")
            else:
                self.assertEqual([path.exists() for path in results], [old, old])
            left = sorted({*before, *(path.name for path in results if path.exists())})
            self.assertEqual(self.listing(), left)
        self.assertGreater(killed, runs // 6)
        self.assertIn((False, True), outcomes)

    def test_ignored_signals_stay_ignored(self):
        done = self.shell("trap '' INT; attn-compute -o out.h5 < <(sleep 0.3; cat in.h5) & "
                          "sleep 0.1; kill -INT $!; wait $!")
        self.assertIn("out", self.read("out.h5"), done.err)


class Targets(FilesTest):

    def setUp(self):
        super().setUp()
        self.expected = self.compute("in.h5", "-q")

    def test_reading_and_writing_the_same_file(self):
        for script in ("attn-compute -q in.h5 -o in.h5 --force",
                       "attn-compute -q in.h5 -i q=in.h5:/q -o ./in.h5 --force",
                       "attn-compute -q < in.h5 -o in.h5 --force",
                       "cat in.h5 | attn-compute -q -o in.h5 --force"):
            with self.subTest(script=script):
                write(self.folder / "in.h5", **vectors())
                self.shell(script)
                self.assert_same_bits(self.read("in.h5"), self.expected)
                self.assertEqual(self.listing(), self.before)

    def test_results_alone_do_not_replace_an_input(self):
        for options in (["in.h5"], ["-i", "q=in.h5:/q", "-i", "k=in.h5:/k", "-i", "v=in.h5:/v"]):
            self.refused("attn-compute", *options, "--only", "--force", status=2, output="./in.h5", hint="or leave out --only",
                         says=["this input would keep none of its datasets with --only"])
        self.run_tool("attn-compute", "in.h5", "-o", "in.h5", "--force")
        self.assert_same_bits(self.read("in.h5"), self.expected)

    def test_force_without_an_existing_file(self):
        self.run_tool("attn-compute", "in.h5", "--force", "-o", "out.h5")
        self.assert_same_bits(self.read("out.h5"), self.expected)

    def test_names(self):
        for name in ("a b.h5", "a:b.h5", "out.h5:x", "ünï\tcode.h5", "-.h5", "'quoted' \"twice\"",
                     "n" * 255):
            with self.subTest(name=name):
                self.run_tool("attn-compute", "in.h5", "-o", f"./{name}")
                self.assert_same_bits(self.read(name), self.expected)

    def test_links(self):
        (self.folder / "there").mkdir()
        self.write("there/real.h5", old=np.arange(3))
        links = {"link.h5": "there/real.h5", "double.h5": "link.h5", "dangling.h5": "there/new.h5"}
        for link, target in links.items():
            os.symlink(target, self.folder / link)
        self.run_tool("attn-compute", "in.h5", "-o", "double.h5", status=5)
        for link, target in links.items():
            with self.subTest(link=link):
                self.run_tool("attn-compute", "in.h5", "-o", link, "--force")
                self.assertEqual(os.readlink(self.folder / link), target)
                self.assert_same_bits(self.read(target), self.expected)
        self.assertEqual(sorted(os.listdir(self.folder / "there")), ["new.h5", "real.h5"])
        os.symlink("loop.h5", self.folder / "loop.h5")
        self.run_tool("attn-compute", "in.h5", "-o", "loop.h5", status=5)

    def test_permissions(self):
        def mode(name):
            return stat.S_IMODE(os.stat(self.folder / name).st_mode)

        self.shell("umask 027; attn-compute -q in.h5 -o new.h5")
        self.assertEqual(mode("new.h5"), 0o640)
        os.chmod(self.folder / "new.h5", 0o604)
        self.shell("umask 077; attn-compute -q in.h5 -o new.h5 --force")
        self.assertEqual(mode("new.h5"), 0o604)

    def test_a_file_that_appears_in_the_meantime_is_kept(self):
        # Long enough to be observed at work.
        done = self.shell("attn-compute in.h5 --scheme=sinkhorn --iterations=30000 -o out.h5 & "
                          "until compgen -G '.out.h5.*' > names; do sleep 0.01; done; rm names; "
                          "echo mine > out.h5; wait $!", status=5)
        self.assertIn("out.h5 exists", done.err)
        self.assertEqual(self.bytes_of("out.h5"), b"mine\n")
        self.assertEqual(self.listing(), sorted([*self.before, "out.h5"]))


if __name__ == "__main__":
    unittest.main()
