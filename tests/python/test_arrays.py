"""Arrays of other kinds than NumPy's usual ones, as inputs and for results."""

import array
import copy
import ctypes
import mmap
import pickle
import tempfile
import unittest

import numpy
from numpy.lib.stride_tricks import as_strided

import attnkit

Q = numpy.random.default_rng(6).normal(size=(6, 4)).astype("float32")
EXPECTED = attnkit.attention(Q, Q, Q, emit="out").out


def result(q, **arguments):
    return attnkit.attention(q, Q, Q, emit="out", **arguments).out


class Inputs(unittest.TestCase):
    def test_other_buffers(self):
        flat = Q.tobytes()
        with tempfile.TemporaryFile() as file:
            file.write(flat)
            file.flush()
            mapped = numpy.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), "f4").reshape(6, 4)
            buffers = [
                ((ctypes.c_float * 4) * 6).from_buffer_copy(flat),  # has no strides
                memoryview(array.array("f", Q.ravel().tolist())).cast("b").cast("f", (6, 4)),
                mapped,
            ]
            for buffer in buffers:
                with self.subTest(type(buffer)):
                    self.assertEqual(result(buffer).tobytes(), EXPECTED.tobytes())

    def test_awkward_places_of_numbers(self):
        records = numpy.zeros((6, 4), [("x", "f4"), ("y", "u1")])
        records["x"] = Q
        unaligned = numpy.frombuffer(b"x" + Q.tobytes(), "f4", offset=1).reshape(6, 4)
        for q in (records["x"], unaligned, numpy.asfortranarray(Q), numpy.repeat(Q, 2, 1)[:, ::2]):
            self.assertEqual(result(q).tobytes(), EXPECTED.tobytes())
        one_row = numpy.broadcast_to(Q[:1], (6, 4))
        self.assertEqual(result(one_row).tobytes(), result(one_row.copy()).tobytes())


    def test_what_reading_in_place_would_change(self):
        with self.assertRaisesRegex(attnkit.InputError, "q is a masked array"):
            result(numpy.ma.masked_array(Q, Q > 0))
        try:
            import torch
        except ImportError:
            return
        with self.assertRaisesRegex(attnkit.InputError, "q is negated") as caught:
            result(torch.complex(torch.from_numpy(Q), torch.from_numpy(Q)).conj().imag)
        self.assertEqual(caught.exception.hint, "q.resolve_neg()")


class Places(unittest.TestCase):
    def test_ctypes(self):
        out = ((ctypes.c_float * 4) * 6)()
        result(Q, out=out)
        self.assertEqual(bytes(out), EXPECTED.tobytes())

    def test_every_element_needs_a_place(self):
        records = numpy.zeros((6, 4), [("x", "f4"), ("y", "u1")])
        memory = numpy.zeros(100, "f4")
        plan = attnkit.AttentionPlan(Q, Q, Q, emit="out")
        for out in (
            records["x"],
            as_strided(memory, (6, 4), (0, 4)),
            as_strided(memory, (6, 4), (4, 4)),
            memory.view("u1")[1:97].view("f4").reshape(6, 4),
        ):
            for call in (lambda: result(Q, out=out), lambda: plan(Q, Q, Q, out=out)):
                with self.assertRaisesRegex(attnkit.InputError, "^out has .*strides"):
                    call()
        self.assertFalse(records["y"].any())

    def test_transposed(self):
        out = numpy.empty((4, 6), "f4").T
        result(Q, out=out)
        self.assertEqual(out.tobytes(), EXPECTED.tobytes())

    def test_plans_refuse_what_they_do_not_compute(self):
        plan = attnkit.AttentionPlan(Q, Q, Q, emit="out")
        with self.assertRaisesRegex(attnkit.UsageError, "out has an array for col_sum"):
            plan(Q, Q, Q, out={"col_sum": numpy.empty(6)})


class ResultObjects(unittest.TestCase):
    def test_copies_and_texts(self):
        found = attnkit.attention(Q, Q, Q)
        for again in (copy.copy(found), copy.deepcopy(found)):
            self.assertEqual(again.out.tobytes(), found.out.tobytes())
        with self.assertRaisesRegex(AttributeError, "no result weights; the results are out"):
            found.weights
        scalar = attnkit.bulk(numpy.eye(3))
        self.assertIn("error: float64 ()", repr(scalar))

    def test_pickle(self):
        found = attnkit.stats(Q, Q, epsilon=0.5)
        again = pickle.loads(pickle.dumps(found))
        self.assertEqual(again.unas_col_sum.tobytes(), found.unas_col_sum.tobytes())
        self.assertEqual(again.report["result"], found.report["result"])
        self.assertEqual((again.table(), str(again)), (found.table(), str(found)))

    def test_tables_are_those_of_the_run(self):
        q = Q.copy()
        found = attnkit.stats(q, q)
        q[:] = 0
        self.assertAlmostEqual(found.table()["min_c"][0], found.unas_col_sum.min(), places=6)

    def test_too_large_a_result(self):
        q = numpy.zeros((3_000_000, 1), "f4")
        with self.assertRaises(attnkit.OutOfMemory):
            attnkit.attention(q, q, emit="weights")

    def test_notes(self):
        wq = numpy.ones((3, 2))
        found = attnkit.paths.step(wq, wq, wq, wq, optimizer="sgd", rate=0.1, skeleton="cyclic")
        self.assertTrue(any("all weights alike" in note for note in found.notes), found.notes)


if __name__ == "__main__":
    unittest.main()
