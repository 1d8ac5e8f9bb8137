"""System calls that fail one by one: memory, renames and reads. A tool works, or reports the
problem in one line, and leaves nothing half-done."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import h5py
import numpy as np

from attn import BIN, LONG, SANITIZED, TIMEOUT, ToolTest

# Preloaded. Call number FAIL_AT of kind FAIL_KIND fails, counted from the start of main; the count
# is written to the file COUNT_TO.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static atomic_long count;
static long fail_at;
static char kind;
static int armed;

static int fails(char of, int number) {
  if (!armed || of != kind || atomic_fetch_add(&count, 1) + 1 != fail_at) return 0;
  errno = number;
  return 1;
}

void *malloc(size_t n) { return fails('m', ENOMEM) ? NULL : __libc_malloc(n); }
void *calloc(size_t a, size_t b) { return fails('m', ENOMEM) ? NULL : __libc_calloc(a, b); }
void *realloc(void *p, size_t n) { return fails('m', ENOMEM) ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { return fails('m', ENOMEM) ? NULL : __libc_memalign(a, n); }
void *memalign(size_t a, size_t n) { return fails('m', ENOMEM) ? NULL : __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) {
  if (fails('m', ENOMEM)) return ENOMEM;
  *p = __libc_memalign(a, n);
  return *p ? 0 : ENOMEM;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Kinds for a whole run: 'k' keeps report.json from being linked, renamed or replaced, as an
   immutable file is; 'x' is a file system that neither exchanges files nor links them. */
static int refuses(const char *a, const char *b, int exchange, int links) {
  if (!armed) return 0;
  if (kind == 'k' && (strstr(a, "report.json") || strstr(b, "report.json"))) return errno = EPERM;
  if (kind == 'x' && exchange) return errno = EINVAL;
  if (kind == 'x' && links) return errno = EPERM;
  return fails('r', EIO);
}
int rename(const char *a, const char *b) {
  return refuses(a, b, 0, 0) ? -1 : NEXT(rename)(a, b);
}
int renameat2(int a, const char *b, int c, const char *d, unsigned e) {
  return refuses(b, d, e & 2, 0) ? -1 : NEXT(renameat2)(a, b, c, d, e);
}
int linkat(int a, const char *b, int c, const char *d, int e) {
  return refuses(b, d, 0, 0) ? -1 : NEXT(linkat)(a, b, c, d, e);
}
int link(const char *a, const char *b) { return refuses(a, b, 0, 1) ? -1 : NEXT(link)(a, b); }

static int of_input(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return strstr(path, "/input.") != NULL;
}
ssize_t read(int fd, void *to, size_t n) {
  return of_input(fd) && fails('i', EIO) ? -1 : NEXT(read)(fd, to, n);
}
ssize_t pread(int fd, void *to, size_t n, off_t at) {
  return of_input(fd) && fails('i', EIO) ? -1 : NEXT(pread)(fd, to, n, at);
}
ssize_t pread64(int fd, void *to, size_t n, off_t at) { return pread(fd, to, n, at); }

static void report(void) {
  const char *to = getenv("COUNT_TO");
  armed = 0;
  FILE *file = to ? fopen(to, "w") : NULL;
  if (file) fprintf(file, "%ld\n", (long)count), fclose(file);
}

static int (*real_main)(int, char **, char **);
static int wrapped(int c, char **v, char **e) {
  fail_at = atol(getenv("FAIL_AT") ? getenv("FAIL_AT") : "0");
  kind = *getenv("FAIL_KIND");
  if (getenv("COUNT_TO")) atexit(report);
  armed = 1;
  return real_main(c, v, e);
}
int __libc_start_main(int (*m)(int, char **, char **), int c, char **v, void (*i)(void),
                      void (*f)(void), void (*r)(void), void *s) {
  real_main = m;
  return NEXT(__libc_start_main)(wrapped, c, v, i, f, r, s);
}
"""
SHIM = SHIM.replace("#include <unistd.h>\n", "#include <unistd.h>\nint __libc_start_main(int (*)(int, char **, char **), "
                    "int, char **, void (*)(void), void (*)(void), void (*)(void), void *);\n")


@unittest.skipIf(SANITIZED, "sanitizers have allocators of their own")
@unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
class Failures(ToolTest):

    @classmethod
    def setUpClass(cls):
        cls.shim_folder = Path(tempfile.mkdtemp(prefix="attn-shim-"))
        cls.addClassCleanup(shutil.rmtree, cls.shim_folder, ignore_errors=True)
        (cls.shim_folder / "shim.c").write_text(SHIM)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-fno-builtin", "-o", "shim.so", "shim.c",
                        "-ldl"], cwd=cls.shim_folder, check=True)

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(0)
        with h5py.File(self.folder / "input.h5", "w") as file:
            for name in "qkv":
                file[name] = random.normal(size=(2, 20, 4)).astype(np.float32)
            file.create_dataset("tokens", data=[f"t{n}" for n in range(20)],
                                dtype=h5py.string_dtype())
            file["extra/x"] = np.arange(5)
            file.attrs["note"] = "text"
        self.whole = (self.folder / "input.h5").read_bytes()

    def run_failing(self, kind, number, tool, *arguments, stdin=None, count=False):
        environment = self.environment | {
            "LD_PRELOAD": str(self.shim_folder / "shim.so"), "FAIL_KIND": kind,
            "FAIL_AT": str(number), "OMP_NUM_THREADS": "2", "SOURCE_DATE_EPOCH": "0"}
        if count:
            environment["COUNT_TO"] = str(self.shim_folder / "count")
        return subprocess.run([BIN / tool, *arguments], cwd=self.folder, env=environment,
                              input=stdin, capture_output=True, timeout=TIMEOUT, check=False)

    def calls(self, kind, tool, *arguments, **more):
        """The number of calls of that kind that a tool makes."""
        done = self.run_failing(kind, 0, tool, *arguments, count=True, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int((self.shim_folder / "count").read_text())

    def assert_one_error(self, tool, done, statuses):
        error = done.stderr.decode(errors="replace")
        self.assertIn(done.returncode, statuses, error)
        if done.returncode != 0:
            self.assertTrue(re.search(rf"(\A|\n){tool}: error: .+\n({tool}: hint: .+\n)?\Z", error),
                            error)
            self.assertEqual(error.count(": error: "), 1, error)

    def listing(self):
        return {p.name: p.read_bytes() for p in self.folder.iterdir()} | {
            f"tmp/{p.name}": b"" for p in self.tmp.iterdir()}

    def test_memory(self):
        commands = (["attn-compute", "-q"], ["explain-away-stats"], ["tensor-info"],
                    ["tensor-convert", "-q"], ["sinkhorn-iter", "-q"])
        random = np.random.default_rng(3)
        before = self.listing()
        for tool, *options in commands:
            for pipe in (False, True):
                command = [tool, "-" if pipe else "input.h5", *options]
                if tool != "tensor-info":
                    command += ["-o", "-" if pipe else "out.h5"]
                stdin = self.whole if pipe else b""
                total = self.calls("m", *command, stdin=stdin)
                (self.folder / "out.h5").unlink(missing_ok=True)
                # The first and the last, and some in between.
                numbers = {*range(1, 4), *range(total - (8 if LONG else 4), total + 1),
                           *map(int, random.integers(4, total - 8, 40 if LONG else 5))}
                for number in sorted(numbers):
                    with self.subTest(command=command, number=number):
                        done = self.run_failing("m", number, *command, stdin=stdin)
                        self.assert_one_error(tool, done, (0, 5, 6))
                        after = self.listing()
                        self.assertEqual(after.pop("out.h5", None) is not None,
                                         done.returncode == 0 and "out.h5" in command)
                        self.assertEqual(after, before)
                        (self.folder / "out.h5").unlink(missing_ok=True)

    def test_report_and_bundle_together(self):
        command = ["attn-compute", "input.h5", "-q", "-o", "out.h5", "--json=report.json", "--force"]
        statuses = []
        for there in (False, True):
            for number in range(1, 9):
                for name in ("out.h5", "report.json"):
                    (self.folder / name).unlink(missing_ok=True)
                    if there:
                        (self.folder / name).write_text("old")
                before = self.listing()
                with self.subTest(there=there, number=number):
                    done = self.run_failing("r", number, *command)
                    statuses.append(done.returncode)
                    self.assert_one_error("attn-compute", done, (0, 5))
                    after = self.listing()
                    if done.returncode == 0:
                        self.assertEqual(sorted(after), ["input.h5", "out.h5", "report.json"])
                        self.assertIn(b'"ok"', after["report.json"])
                        self.assertEqual(after["out.h5"][:4], b"\x89HDF")
                        continue
                    # The report of the failure may follow it.
                    if b'"error"' in after.get("report.json", b""):
                        after.pop("report.json")
                        before.pop("report.json", None)
                    self.assertEqual(after, before)
        self.assertGreaterEqual(statuses.count(5), 5)

    def test_report_that_cannot_be_replaced(self):
        command = ["attn-compute", "input.h5", "-q", "-o", "out.h5", "--json=report.json", "--force"]
        for old_bundle in (False, True):
            with self.subTest(old_bundle=old_bundle):
                for name in ("out.h5", "report.json")[not old_bundle:]:
                    (self.folder / name).write_text("old")
                before = self.listing()
                done = self.run_failing("k", 0, *command)
                self.assertEqual(done.returncode, 5)
                self.assert_one_error("attn-compute", done, (5,))
                self.assertIn("--json=report.json: operation not permitted", done.stderr.decode())
                self.assertEqual(self.listing(), before)

    def test_file_system_without_exchanges_and_links(self):
        command = ["attn-compute", "input.h5", "-q", "-o", "out.h5", "--json=report.json", "--force"]
        for name in ("out.h5", "report.json"):
            (self.folder / name).write_text("old")
        done = self.run_failing("x", 0, *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        after = self.listing()
        self.assertEqual(sorted(after), ["input.h5", "out.h5", "report.json"])
        self.assertIn(b'"ok"', after["report.json"])
        # The report has its name while the bundle is written to the stream, and loses it again.
        os.unlink(self.folder / "out.h5")
        os.mkfifo(self.folder / "out.h5")
        (self.folder / "report.json").write_text("old")
        with subprocess.Popen([BIN / "attn-compute", *command[1:]], cwd=self.folder,
                              env=self.environment | {"LD_PRELOAD": str(self.shim_folder / "shim.so"),
                                                      "FAIL_KIND": "x"}) as process:
            time.sleep(0.5)
            meanwhile = (self.folder / "report.json").read_text()
            process.terminate()
            self.assertEqual(process.wait(TIMEOUT), -signal.SIGTERM)
        self.assertIn('"ok"', meanwhile)
        self.assertEqual((self.folder / "report.json").read_text(), "old")
        self.assertEqual(sorted(os.listdir(self.folder)), ["input.h5", "out.h5", "report.json"])

    def test_reads(self):
        with h5py.File(self.folder / "input.h5") as file:
            arrays = {n: file[n][()] for n in "qkv"}
        np.savez(self.folder / "input.npz", **arrays)
        np.savez_compressed(self.folder / "input.packed.npz", **arrays)
        np.save(self.folder / "input.npy", arrays["q"])
        self.run_tool("tensor-convert", "input.h5", "-q", "-o", "input.safetensors")
        before = sorted(os.listdir(self.folder))
        for name in ("input.npz", "input.packed.npz", "input.safetensors", "input.h5", "input.npy"):
            named = ["-i", f"q={name}"] if name.endswith(".npy") else []
            command = ["attn-compute", *(named or [name]), "-q", "-o", "out.h5"]
            if named:
                command.insert(1, "input.npz")
            total = self.calls("i", *command)
            (self.folder / "out.h5").unlink()
            for number in range(1, total + 1):
                with self.subTest(name=name, number=number):
                    done = self.run_failing("i", number, *command)
                    self.assert_one_error("attn-compute", done, (0, 3))
                    (self.folder / "out.h5").unlink(missing_ok=done.returncode == 3)
                    if done.returncode == 3:
                        error = done.stderr.decode()
                        if name != "input.h5":
                            self.assertIn("nput/output error", error)
                        if number == 1:
                            self.assertIn(f"{'input.npz' if named else name} cannot be read: input/output error",
                                          error)
            self.assertEqual(sorted(os.listdir(self.folder)), before)


if __name__ == "__main__":
    unittest.main()
