"""Runs divided among processes that mpirun has started: the bits are those of one process, one of
them writes and reports, and a failure of any ends all."""

import os
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

from attn import BIN, LONG, TIMEOUT, Run, ToolTest, require_program, sample

PLUGIN = BIN.parent / "libexec/attnkit/attn-mpi.so"
# What mpirun and MPI themselves print about a failure is not ours.
OWN = ("attn-compute: ", "explain-away-stats: ", "sinkhorn-iter: ", "lambda-solve: ",
       "attn-train: ")
COUNTS = (2, 3, 5, 8)
THREADS = (1, 2, 4)


def mpirun(count):
    return ["mpirun", "--oversubscribe", "-n", str(count)]


class RankTest(ToolTest):
    """`data` has two heads with several panels of queries and keys, so that ranks share them."""

    def setUp(self):
        super().setUp()
        require_program(self, "mpirun", "ranks")
        if not PLUGIN.exists():
            self.skipTest("built without MPI (cmake -DATTN_MPI=ON)")
        sessions = self.folder.parent / "mpi"
        sessions.mkdir()
        self.environment |= {
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_orte_tmpdir_base": str(sessions), "SOURCE_DATE_EPOCH": "0",
            # On one machine. To look for other networks takes more time than most runs here.
            "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "^openib,ofi",
        }
        random = np.random.default_rng(20)
        shapes = {"q": (2, 300, 8), "k": (2, 700, 8), "v": (2, 700, 4), "grad_out": (2, 300, 4)}
        data = {name: random.normal(size=shape).astype("f4") for name, shape in shapes.items()}
        self.write("in.h5", **data)

    def on_ranks(self, count, tool, *arguments, status=0):
        """Runs a tool on ranks. Returns what it printed itself."""
        command = [*mpirun(count), str(BIN / tool), *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True,
                              timeout=TIMEOUT, check=False)
        error = done.stderr.decode()
        self.assertEqual(done.returncode, status, f"{command}: {error}")
        own = "".join(line + "\n" for line in error.splitlines() if line.startswith(OWN))
        return Run(done.returncode, done.stdout, own)

    def wait_for(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, "waited for too long")
            time.sleep(0.02)

    def is_running(self, process):
        try:
            with open(f"/proc/{process}/stat", encoding="ascii") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def interrupted(self, count, command, number):
        """The status and the errors of a run that gets a signal once it has a checkpoint."""
        (self.folder / "script").write_text(f'echo $$ >pid.${{OMPI_COMM_WORLD_RANK:-0}}\nexec {" ".join(command)}\n')
        ranks = mpirun(count) if count > 1 else []
        before = self.age("ck")
        with subprocess.Popen([*ranks, "sh", "script"], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            while run.poll() is None and self.age("ck") in (None, before):
                time.sleep(0.001)
            if run.poll() is None:
                rank = count - 1 if number == signal.SIGKILL else 0
                process = int((self.folder / f"pid.{rank}").read_text())
                if self.is_running(process):
                    os.kill(process, number)
            error = run.communicate(timeout=TIMEOUT)[1].decode()
        for rank in range(count):
            process = int((self.folder / f"pid.{rank}").read_text())
            self.wait_for(lambda one=process: not self.is_running(one))
        return run.returncode, error

    def age(self, name):
        try:
            return os.stat(self.folder / name).st_mtime_ns
        except FileNotFoundError:
            return None

    def check_bits(self, tool, *arguments, counts=COUNTS, threads=THREADS):
        """A run on each number of ranks with each number of threads writes and prints what one
        process does."""
        alone = self.run_tool(tool, *arguments, "in.h5", "-o", "alone.h5", "--threads=1")
        for count in counts:
            for number in threads:
                ranked = self.on_ranks(count, tool, *arguments, "in.h5", "-o", "ranked.h5",
                                       f"--threads={number}", "--force", "--json=report.json")
                with self.subTest(tool=tool, arguments=arguments, ranks=count, threads=number):
                    a, b = self.read("alone.h5"), self.read("ranked.h5")
                    self.assertEqual(list(a), list(b))
                    for name in a:
                        self.assertEqual(a[name].tobytes(), b[name].tobytes(), name)
                    self.assertEqual((ranked.out, ranked.err), (alone.out, alone.err))
                    ranks = self.read_json("report.json")["runtime"]["ranks"]
                    self.assertEqual(len(ranks), count)
                    for rank in ranks:  # each has computed something for the others
                        self.assertGreater(rank["sent_bytes"], 1000)
        os.remove(self.folder / "alone.h5")


class Bits(RankTest):
    """Short runs take one number of ranks and of threads for each."""

    RESULTS = ("--emit=out,row_potential,col_potential,col_sum,row_entropy,"
               "grad_q,grad_k,grad_v")

    def check(self, place, *arguments):
        counts, threads = COUNTS, THREADS
        if not LONG:
            counts, threads = [(2, 3, 4)[place % 3]], [(2, 1)[place % 2]]
        self.check_bits(*arguments, counts=counts, threads=threads)

    def test_attention_and_gradients(self):
        self.write("cost.h5", cost=np.random.default_rng(21).uniform(size=(700, 700)).astype("f4"))
        for place, scheme in enumerate((["unas"], ["dnas"], ["hnas", "--hybrid=0.3"],
                                        ["sinkhorn", "--iterations=4"], ["transport", "--gamma=1", "-i", "cost=cost.h5"])):
            self.check(place, "attn-compute", self.RESULTS, "--scheme", *scheme)

    def test_repeated_attention(self):
        for place, scheme in enumerate((["em", "--estimate=variance,priors"], ["mean-shift"])):
            self.check(place, "attn-compute", self.RESULTS + ",centre", "--scheme", *scheme,
                       "--iterations=3", "--energy=gaussian")

    def test_norms_over_all_heads_and_rotary_positions(self):
        random = np.random.default_rng(24)
        shapes = {"x": (300, 8), "y": (700, 8), "wq": (2, 8, 4), "wk": (2, 8, 4), "wv": (2, 8, 4), "q_norm": 8,
                  "k_norm": 8, "rotary": 2, "grad_out": (2, 300, 4)}
        self.write("in.h5", norm_epsilon=np.array(1e-6),
                   **{name: random.normal(size=shape).astype("f4") for name, shape in shapes.items()})
        self.check(1, "attn-compute", "--emit=out,col_sum,grad_x,grad_wq,grad_wk", "--scheme=dnas", "--from=projection")

    def test_statistics(self):
        self.check(1, "explain-away-stats", "--scheme=unas,dnas")

    def test_transport(self):
        self.check(2, "sinkhorn-iter", "--tolerance=1e-4")
        self.check(2, "sinkhorn-iter", "--unbalanced=0.5:2", "--iterations=20")
        self.check(2, "sinkhorn-iter", "exact", "--gap=0.1")
        self.check(2, "sinkhorn-iter", "divergence", "--epsilon=9", "--iterations=4", "--emit=row_potential,dual_grad_q")
        np.save(self.folder / "a.npy", np.full((3, 700), 1 / 700))
        self.check(2, "sinkhorn-iter", "barycentre", "--epsilon=9", "--iterations=3", "-i", "a=a.npy",
                   "--emit=barycentre,row_potential,col_potential,dual_grad_q")
        np.save(self.folder / "slope.npy", np.cos(np.arange(700)))
        self.check(2, "sinkhorn-iter", "--epsilon=9", "--tolerance=1e-4", "-i", "grad_col_potential=slope.npy", "--emit=grad_q,grad_a")
        np.save(self.folder / "slope.npy", np.cos(np.arange(300)))
        self.check(2, "sinkhorn-iter", "barycentre", "--epsilon=9", "--tolerance=1e-4", "-i", "a=a.npy", "-i", "grad_barycentre=slope.npy",
                   "--emit=grad_q,grad_a,grad_histogram_weights")

    def test_dual(self):
        self.check(0, "lambda-solve", "--causal=top-left")
        self.check(1, "lambda-solve", "--radius=20", "--emit=lambda,h_first_order,h_second_order,out_deviation")

    @unittest.skipUnless(LONG, "a sample of the others")
    def test_weights_terms_and_types(self):
        random = np.random.default_rng(21)
        self.write("in.h5", mask=random.random((300, 700)) < 0.7,
                   bias=random.normal(size=(2, 1, 700)), key_length=np.array([650, 3]),
                   **{name: values.astype("f8") for name, values in self.read("in.h5").items()})
        for scheme in ("unas", "dnas"):
            self.check_bits("attn-compute", "--emit=out,weights,scores,col_sum,grad_q,grad_bias",
                            "--scheme", scheme)


class Bytes(RankTest):
    """MATHEMATICS.md §10, for the mean over the ranks."""

    LQ, LK, D, DV = 300, 2600, 8, 4
    BY_LINE = 5  # panels of 64 queries
    IN_ORDER = 10  # half of the panels of 128 keys
    GRADIENT = 6  # slots of 512 keys

    def sent(self, count, *arguments):
        self.on_ranks(count, "attn-compute", *arguments, "long.h5", "-o", "out.h5", "--force",
                      "--json=report.json")
        ranks = self.read_json("report.json")["runtime"]["ranks"]
        return sum(rank["sent_bytes"] for rank in ranks) / count

    def test_formulas(self):
        random = np.random.default_rng(23)
        shapes = {"q": (self.LQ, self.D), "k": (self.LK, self.D), "v": (self.LK, self.DV),
                  "grad_out": (self.LQ, self.DV)}
        self.write("long.h5", **{name: random.normal(size=shape).astype("f4")
                                 for name, shape in shapes.items()})
        e, lq, lk, d, dv = 4, self.LQ, self.LK, self.D, self.DV

        def results(count, size):
            return (1 - 1 / count) * size

        def sums(count, slots, size):
            return (slots + count - 2) * size / count

        def dnas(count, parts):
            return results(count, 8 * lk) + sums(count, self.IN_ORDER, parts * (8 + 8 * lq + e * lq * dv))

        row, column_sums = 8 * lq, 8 * self.BY_LINE * lk
        cases = [
            (["--emit=out,row_entropy"], lambda n: results(n, row + e * lq * dv + 8 * lq)),
            (["--emit=col_sum"], lambda n: results(n, row + column_sums)),
            (["--scheme=dnas", "--emit=out"], lambda n: dnas(n, 1)),
            (["--scheme=hnas", "--hybrid=0.5", "--emit=out"], lambda n: dnas(n, 2)),
            (["--scheme=dnas", "--emit=col_sum"], lambda n: results(n, 8 * lk + row + column_sums)),
            (["--scheme=sinkhorn", "--iterations=5", "--emit=row_potential"],
             lambda n: 5 * results(n, row + column_sums)),
            (["--emit=grad_q,grad_k,grad_v"],
             lambda n: results(n, row + e * lq * dv + e * lk * (d + dv)) +
             sums(n, self.GRADIENT, e * lq * d)),
        ]
        for place, (arguments, formula) in enumerate(sample(cases, 3)):
            for count in COUNTS if LONG else [(2, 3)[place % 2]]:
                expected = formula(count)
                with self.subTest(arguments=arguments, ranks=count):
                    # At the start ranks exchange settings, 16 bytes each.
                    self.assertAlmostEqual(self.sent(count, *arguments) - 16 * (count - 1),
                                           expected, places=3)


class Failures(RankTest):

    def refused_on_ranks(self, count, *arguments, status, error):
        """The tool prints one line that matches `error`, with at most one hint, and writes
        nothing."""
        before = sorted(os.listdir(self.folder))
        done = self.on_ranks(count, *arguments, status=status)
        self.assertRegex(done.err, rf"\A[a-z-]+: error: {error}\n([a-z-]+: hint: .*\n)?\Z")
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_bad_input_is_reported_once(self):
        self.refused_on_ranks(3, "attn-compute", "absent.h5", "-o", "out.h5", status=3,
                              error="no such file: absent.h5")
        for arguments, status, error in sample((
                (["--wrong"], 2, "unknown option --wrong"),
                (["in.h5", "-o", "in.h5"], 5, "in.h5 exists"),
                (["-:/layer0", "-o", "out.h5"], 2, "ranks read files, but INPUT is standard input, .*"),
                (["-o", "out.h5"], 2, "ranks read files, but INPUT is standard input, .*")), 1):
            self.refused_on_ranks(2, "attn-compute", *arguments, status=status, error=error)

    def test_failure_of_another_rank(self):
        (self.folder / "script").write_text(
            'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then cd ..; fi\n'
            'exec attn-compute in.h5 -o out.h5\n')
        done = subprocess.run([*mpirun(2), "sh", "script"], cwd=self.folder, env=self.environment,
                              capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"attn-compute: error: rank 1: no such file: in.h5\n", done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["in.h5", "script"])

    def test_variable_of_another_run(self):
        """MPI begins anew, with this process alone."""
        done = self.run_tool("attn-compute", "in.h5", "-o", "out.h5", status=2, environment={"PMIX_RANK": "1"})
        self.assertIn("attn-compute: error: rank 1: PMIX_RANK says rank 1, but MPI says rank 0\n", done.err)
        self.assertEqual(os.listdir(self.folder), ["in.h5"])

    def test_another_command(self):
        tool = str(BIN / "attn-compute")
        done = subprocess.run(
            ["mpirun", "--oversubscribe", "-n", "1", tool, "in.h5", "-o", "out.h5", ":", "-n", "1",
             tool, "--causal=top-left", "in.h5", "-o", "out.h5"], cwd=self.folder,
            env=self.environment, capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(b"rank 1 has another command or version than rank 0", done.stderr)

    def test_answer_is_no(self):
        self.on_ranks(2, "attn-compute", "--scheme=sinkhorn", "--tolerance=1e-12",
                      "--iterations=2", "in.h5", "-o", "out.h5", status=1)
        self.assertEqual(self.read("out.h5").attributes["attn_status"], "not_converged")

    def lose(self, rank, number, *options):
        """Runs without end on three ranks, of which one gets a signal."""
        (self.folder / "script").write_text(
            'echo $$ >pid.$OMPI_COMM_WORLD_RANK\n'
            f'exec attn-compute --scheme=sinkhorn --iterations=1000000000 {" ".join(options)} '
            'in.h5 -o out.h5\n')
        with subprocess.Popen([*mpirun(3), "sh", "script"], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            self.wait_for(lambda: (self.folder / ".out.h5.tmp").exists())
            time.sleep(0.3)
            processes = [int((self.folder / f"pid.{n}").read_text()) for n in range(3)]
            start = time.monotonic()
            os.kill(processes[rank], number)
            error = run.communicate(timeout=TIMEOUT)[1].decode()
            took = time.monotonic() - start
        self.wait_for(lambda: not any(map(self.is_running, processes)))
        left = sorted(os.listdir(self.folder))
        return run.returncode, error, took, left

    def test_killed_rank(self):
        for rank, number in sample(((1, signal.SIGKILL), (0, signal.SIGTERM),
                                    (2, signal.SIGTERM)), 1):
            status, error, _, left = self.lose(rank, number)
            with self.subTest(rank=rank, number=number):
                self.assertNotEqual(status, 0)
                self.assertIn(f"signal {number:d}", error)
                self.assertEqual(left, ["in.h5", "pid.0", "pid.1", "pid.2", "script"])

    def test_rank_that_does_not_start(self):
        script = (f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec sleep 60; fi; '
                  f"exec {BIN}/attn-compute in.h5 -o out.h5 --rank-timeout 1")
        done = subprocess.run([*mpirun(3), "sh", "-c", script], cwd=self.folder, env=self.environment,
                              capture_output=True, timeout=30, check=False)
        error = done.stderr.decode()
        self.assertEqual(done.returncode, 71, error)
        self.assertEqual(error.count("attn-compute: error: not all ranks have started"), 1, error)
        self.assertFalse((self.folder / "out.h5").exists())

    def test_silent_rank(self):
        for rank in sample((2, 0, 1), 1):
            status, error, took, left = self.lose(rank, signal.SIGSTOP, "--rank-timeout=1")
            with self.subTest(rank=rank):
                self.assertEqual(status, 71, error)
                self.assertRegex(error, r"attn-compute: error: (rank \d: )?"
                                        rf"rank {rank} has not answered for 1 seconds\n")
                self.assertLess(took, 30)
                if rank != 0:  # which mpirun lets go on for a moment at the end
                    self.assertEqual(error.count("attn-compute: error:"), 1, error)
                    self.assertEqual(left, ["in.h5", "pid.0", "pid.1", "pid.2", "script"])


class Alone(ToolTest):
    """What does not need MPI."""

    RANK = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(22)
        self.write("in.h5", **{name: random.normal(size=(5, 3)) for name in ("q", "k")})
        # The same tool, installed without the plug-in.
        (self.folder / "bin").mkdir()
        self.tool = shutil.copy(BIN / "attn-compute", self.folder / "bin")

    def test_no_plugin(self):
        for variables in (self.RANK, {"PMIX_RANK": "0"},
                          {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}):
            self.refused(self.tool, "in.h5", status=2, environment=variables,
                         says=("several ranks, but this build has no ", "attn-mpi.so"),
                         hint="--ranks off")

    def refused(self, tool, *arguments, **more):
        # The messages have the tool's name without its folder.
        before = sorted(os.listdir(self.folder))
        says, hint = more.pop("says"), more.pop("hint")
        done = self.run_tool(tool, *arguments, "-o", "out.h5", **more)
        self.assertRegex(done.err, r"\Aattn-compute: error: .+\nattn-compute: hint: .+\n\Z")
        for text in (*says, hint):
            self.assertIn(text, done.err)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_each_process_for_itself(self):
        for variables, options in (
                (self.RANK, ["--ranks=off"]), (self.RANK, ["--ranks", "off"]),
                ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, []),  # a batch script
                ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, []),
                # mpirun -n 1 inside a step of several daemons
                ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "OMPI_COMM_WORLD_RANK": "0",
                  "OMPI_COMM_WORLD_SIZE": "1"}, [])):
            done = self.run_tool(self.tool, *options, "in.h5", "-o", "out.h5", "--force",
                                 environment=variables)
            self.assertIn("unas, 5 x 5", done.err)

    def test_number_that_is_none(self):
        done = self.run_tool(self.tool, "in.h5", "-o", "out.h5", status=2,
                             environment=self.RANK | {"OMPI_COMM_WORLD_RANK": "x"})
        self.assertEqual(done.err, "attn-compute: error: OMPI_COMM_WORLD_RANK is 'x', expected a "
                                   "whole number\n")

    def test_other_tools_do_not_care(self):
        self.run_tool("tensor-info", "in.h5", environment=self.RANK)


if __name__ == "__main__":
    unittest.main()
