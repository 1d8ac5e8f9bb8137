"""The package within the process of its user: signals, threads, forks, other libraries, memory."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy

import attnkit
from attnkit import _core

LONG = bool(os.environ.get("ATTN_LONG"))


def normal(*shape, dtype="float32", seed=0):
    return numpy.random.default_rng(seed).normal(size=shape).astype(dtype)


def interrupt_after(seconds):
    def send():
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Signals(unittest.TestCase):
    def setUp(self):
        x = normal(4, 4000, 64)
        self.long_run = lambda: attnkit.attention(x, x, x, scheme="sinkhorn", iterations=5000, emit="out")
        plan = attnkit.AttentionPlan(x, x, x, scheme="sinkhorn", iterations=5000)
        self.long_plan = lambda: plan(x, x, x)

    def test_ctrl_c_ends_a_run_within_a_second(self):
        for run in (self.long_run, self.long_plan):
            interrupt_after(0.2)
            start = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                run()
            self.assertLess(time.monotonic() - start, 1.2)

    def test_the_handler_of_python_is_there_again(self):
        before = signal.getsignal(signal.SIGINT)
        x = normal(8, 8)
        attnkit.attention(x, x, x)
        self.assertIs(signal.getsignal(signal.SIGINT), before)
        with self.assertRaises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    def test_a_handler_of_the_user_decides_what_is_raised(self):
        def handler(*_):
            raise LookupError("asked to stop")

        before = signal.signal(signal.SIGINT, handler)
        try:
            interrupt_after(0.1)
            with self.assertRaises(LookupError):
                self.long_run()
        finally:
            signal.signal(signal.SIGINT, before)


    def test_a_call_within_a_callback_ends_too(self):
        outer, calls = normal(64, 800, 64), []

        def callback(share):
            if not calls:
                calls.append(share)
                interrupt_after(0.2)
                self.long_run()

        start = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            attnkit.attention(outer, outer, outer, scheme="dnas", threads=1, progress=callback)
        self.assertLess(time.monotonic() - start, 3)


    def test_a_handler_that_raises_nothing_lets_the_run_go_on(self):
        seen = []
        before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        x = normal(8, 3000, 64)
        expected = attnkit.attention(x, x, x, scheme="dnas").out.tobytes()
        try:
            interrupt_after(0.05)
            self.assertEqual(attnkit.attention(x, x, x, scheme="dnas").out.tobytes(), expected)
            time.sleep(0.1)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual(seen, [1])


class Progress(unittest.TestCase):
    def test_grows_to_one(self):
        x = normal(32, 600, 64)
        seen = []
        attnkit.attention(x, x, x, scheme="dnas", progress=seen.append)
        self.assertEqual(seen, sorted(seen))
        self.assertEqual(seen[-1], 1.0)
        self.assertTrue(all(0 <= share <= 1 for share in seen))

    def test_an_exception_of_the_callback_ends_the_run(self):
        def refuse(share):
            raise RuntimeError("enough")

        x = normal(64, 1000, 64)
        with self.assertRaisesRegex(RuntimeError, "enough"):
            attnkit.attention(x, x, x, scheme="dnas", progress=refuse)


    def test_an_exception_in_the_last_report_counts(self):
        def refuse(share):
            raise KeyError("last")

        x = normal(1, 3000, 64)
        with self.assertRaisesRegex(KeyError, "last"):
            attnkit.attention(x, x, x, scheme="dnas", progress=refuse)


class Threads(unittest.TestCase):
    def setUp(self):
        self.x = normal(3, 70, 16)
        self.plan = attnkit.AttentionPlan(self.x, self.x, self.x, scheme="dnas", threads=2)
        self.expected = self.plan(self.x, self.x, self.x)["out"].tobytes()

    def one(self, number):
        if number % 2:
            return self.plan(self.x, self.x, self.x)["out"].tobytes()
        return attnkit.attention(self.x, self.x, self.x, scheme="dnas", threads=1 + number % 3).out.tobytes()

    def test_calls_from_several_agree(self):
        wrong = []

        def work(number):
            for _ in range(20):
                if self.one(number) != self.expected:
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_forked_process_computes(self):
        child = os.fork()
        if child == 0:
            os._exit(0 if all(self.one(number) == self.expected for number in range(4)) else 1)
        end = time.monotonic() + 60
        done = status = 0
        while done == 0 and time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if done == 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.assertEqual((done, status), (child, 0))

    def test_a_first_call_after_a_fork_computes(self):
        code = """
import os, numpy, attnkit
a = numpy.ones((500, 500))
a @ a  # OpenMP has threads now, which a child has not
child = os.fork()
if child == 0:
    x = numpy.ones((4, 60, 8))
    attnkit.attention(x, x, x, threads=2)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
"""
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual(found.returncode, 0, found.stderr)

    def test_forks_while_other_threads_compute(self):
        going, x = [True], self.x

        def compute():
            while going:
                attnkit.attention(x, x, x, threads=1)

        threads = [threading.Thread(target=compute) for _ in range(2)]
        for thread in threads:
            thread.start()
        statuses = []
        for _ in range(40):
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # ends a child that waits forever
                found = attnkit.attention(x, x, x, scheme="dnas", threads=1).out.tobytes()
                os._exit(0 if found == self.expected else 1)
            statuses.append(os.waitpid(child, 0)[1])
        going.clear()
        for thread in threads:
            thread.join()
        self.assertEqual(set(statuses), {0})

    def test_python_ends_while_a_thread_computes(self):
        code = """
import threading, time, numpy, attnkit
x = numpy.ones((2, 200, 8), "float32")
plan = attnkit.AttentionPlan(x, x, x)
def compute(call):
    while True:
        call(x, x, x)
for call in (plan, attnkit.attention, plan, attnkit.attention):
    threading.Thread(target=compute, args=(call,), daemon=True).start()
time.sleep(0.3)
"""
        for _ in range(3):
            found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
            self.assertEqual((found.returncode, found.stderr), (0, ""))

    def test_dropout_of_a_plan_that_runs(self):
        plan = attnkit.AttentionPlan(self.x, self.x, self.x, emit="out")
        expected = []
        for seed in (1, 2):
            plan.set_dropout(0.5, seed)
            expected.append(plan(self.x, self.x, self.x)["out"].tobytes())
        going, found = [True], []

        def change():
            while going:
                for seed in (1, 2):
                    plan.set_dropout(0.5, seed)

        thread = threading.Thread(target=change)
        thread.start()
        found = [plan(self.x, self.x, self.x)["out"].tobytes() for _ in range(60)]
        going.clear()
        thread.join()
        self.assertEqual(set(found) - set(expected), set())

    def test_other_libraries_keep_their_threads(self):
        # NumPy's products by BLAS, and PyTorch's by OpenMP, before and after.
        code = """
import sys
for name in sys.argv[1:]:
    __import__(name)
import attnkit, numpy
x = numpy.ones((2, 50, 8), "float32")
counts = []
def note():
    if "torch" in sys.modules:
        counts.append(sys.modules["torch"].get_num_threads())
    a = numpy.random.default_rng(0).normal(size=(300, 300))
    counts.append((a @ a).tobytes())
note()
half = len(counts)
attnkit.attention(x, x, x, scheme="dnas", threads=2)
note()
assert counts[:half] == counts[half:]
"""
        orders = [["numpy"]]
        if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0:
            orders += [["torch", "attnkit"], ["attnkit", "torch"]]
        for order in orders:
            found = subprocess.run([sys.executable, "-c", code, *order], capture_output=True, text=True, timeout=120)
            self.assertEqual(found.returncode, 0, found.stderr)


class Memory(unittest.TestCase):
    def test_arrays_are_used_where_they_lie(self):
        base = normal(2, 5, 3, 8)
        aligned = base.ctypes.data
        for array, start in [
            (base, aligned),
            (base.transpose(0, 2, 1, 3), aligned),  # heads of (batch, length, heads, depth)
            (base[:, 1:], base[:, 1:].ctypes.data),
            (base[0, 0, 0], aligned),
            (numpy.broadcast_to(base[:1], (7, 5, 3, 8)), aligned),
        ]:
            self.assertEqual(_core.place_of(array), (start, True))
        self.assertFalse(_core.place_of(base.transpose(0, 1, 3, 2))[1])  # read element by element

    def test_tensors_of_pytorch_are_used_where_they_lie(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not there")
        tensor = torch.zeros(2, 5, 3, 8)
        for view in (tensor, tensor.transpose(1, 2), tensor[1:]):
            self.assertEqual(_core.place_of(view), (view.data_ptr(), True))

    def test_results_go_into_arrays_of_the_caller(self):
        x = normal(2, 9, 4)
        out = numpy.empty((2, 9, 4), "float32")
        wide = numpy.empty((2, 9, 6), "float32")
        sums = numpy.empty((2, 9))
        expected = attnkit.attention(x, x, x, scheme="dnas", emit="out,col_sum")
        for target in (out, wide[:, :, 1:5]):
            found = attnkit.attention(x, x, x, scheme="dnas", emit="out,col_sum", out={"out": target, "col_sum": sums})
            self.assertIs(found.out, target)
            self.assertEqual(target.tobytes(), expected.out.tobytes())
            self.assertEqual(sums.tobytes(), expected.col_sum.tobytes())
        plan = attnkit.AttentionPlan(x, x, x, scheme="dnas", emit="out,col_sum")
        self.assertIs(plan(x, x, x, out=out)["out"], out)
        self.assertEqual(out.tobytes(), expected.out.tobytes())

    def grows(self, call, calls):
        for _ in range(max(100, calls // 20)):
            call()
        gc.collect()
        before = resident_bytes()
        for _ in range(calls):
            call()
        gc.collect()
        return resident_bytes() - before

    def test_no_call_leaks(self):
        x = normal(2, 8, 8)
        plan = attnkit.AttentionPlan(x, x, x, scheme="dnas", emit="out")

        def refused():
            try:
                attnkit.attention(x, x[:, :, :3], x)
            except attnkit.InputError:
                return

        factor = 30 if LONG else 1
        for call, calls in [
            (lambda: plan(x, x, x), 100_000),
            (lambda: plan.gradients(x, x, x, x), 20_000 * factor // 6 if LONG else 5000),
            (lambda: attnkit.attention(x, x, x), 3300 * factor),
            (lambda: attnkit.AttentionPlan(x, x, x), 1000 * factor),
            (refused, 1000 * factor),
        ]:
            # A lost array of 4 KB in each call would be more.
            self.assertLess(self.grows(call, calls), max(4 << 20, 200 * calls))


if __name__ == "__main__":
    unittest.main()
