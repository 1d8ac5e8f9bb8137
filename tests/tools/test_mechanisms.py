"""The tools of the mechanisms beside plain evaluations: padded batches, gradients, and what is refused."""

import os
import re
import unittest

import numpy as np

from attn import LONG, ToolTest
from mechanisms import PROBLEMS


class Mechanisms(ToolTest):

    def problems(self, one_of_tool=False, sequences=11):
        """All, or in short runs only the first one of each tool, each with a batch of its lengths."""
        firsts = {problem.tool: problem for problem in reversed(PROBLEMS)}.values()
        for problem in firsts if one_of_tool and not LONG else PROBLEMS:
            random = np.random.default_rng(3)
            yield problem, {name: random.integers(0, problem.sizes[of] + 1, size=sequences)
                            for name, of in problem.lengths.items()}

    def run_problem(self, problem, file, *words, **more):
        return self.run_tool(problem.tool, *problem.options, *words, file, **more)

    def emitted(self, problem, datasets):
        return ",".join(problem.evaluate(datasets, 0))

    def test_padded_batches(self):
        for problem, own in self.problems():
            for dtype, limit in (("f8", 1e-12), ("f4", 2e-5)):
                datasets = problem.datasets(own, dtype)
                self.write("in.h5", **datasets)
                done = self.run_problem(problem, "in.h5", "--only", "--emit", self.emitted(problem, datasets))
                found = done.bundle()
                wide = {name: values.astype("f8") if values.dtype.kind == "f" else values
                        for name, values in datasets.items()}
                for sequence in range(11):
                    for name, expected in problem.evaluate(wide, sequence).items():
                        self.assertEqual(found[name].dtype, dtype)
                        padding = -np.inf if "potential" in name else 0
                        whole = np.full(found[name].shape[1:], padding, float)
                        whole[tuple(map(slice, np.shape(expected)))] = expected
                        self.assert_near(f"{name} of {sequence}", found[name][sequence], whole,
                                         limit * np.maximum(1, np.abs(np.nan_to_num(whole, neginf=0))))

    def test_alone(self):
        # Each sequence by itself has the bits that it has in the batch.
        for problem, own in self.problems(one_of_tool=True):
            datasets = problem.datasets(own, "f4")
            emit = ("--emit", self.emitted(problem, datasets), "--only")
            self.write("in.h5", **datasets)
            batch = self.run_problem(problem, "in.h5", *emit).bundle()
            for sequence in (0, 4, 7):
                self.write("one.h5", **problem.own(datasets, sequence))
                one = self.run_problem(problem, "one.h5", *emit).bundle()
                for name in one:
                    part = batch[name][(sequence, *map(slice, one[name].shape))]
                    self.assertEqual(part.tobytes(), one[name].tobytes(), name)

    def test_gradients(self):
        sequences = 11 if LONG else 4
        for problem, own in self.problems(sequences=sequences):
            datasets = problem.datasets(own)
            random = np.random.default_rng(5)
            results = problem.evaluate(datasets, 0)
            self.write("in.h5", **datasets)
            differentiable = self.run_problem(problem, "in.h5", "--only").bundle()
            upstream = {f"grad_{name}": random.normal(size=differentiable[name].shape)
                        for name in differentiable}
            self.assertLessEqual(differentiable.keys(), results.keys())
            inputs = [*problem.sequences, *problem.shared]
            emit = ",".join(f"grad_{name}" for name in inputs)
            self.write("in.h5", **datasets, **upstream)
            found = self.run_problem(problem, "in.h5", "--only", "--emit", emit, "--threads", 1).bundle()

            def loss(at):
                total = 0.0
                for sequence in range(sequences):
                    for name, value in problem.evaluate(at, sequence).items():
                        if name in differentiable:
                            own_part = upstream[f"grad_{name}"][(sequence, *map(slice, np.shape(value)))]
                            total += np.sum(own_part * value)
                return total

            for name in inputs:
                for _ in range(3 if LONG else 1):
                    place = tuple(random.integers(0, length) for length in datasets[name].shape)
                    if np.isnan(datasets[name][place]):
                        self.assertEqual(found[f"grad_{name}"][place], 0)
                        continue
                    moved = [dict(datasets) for _ in range(2)]
                    for sign, one in zip((1, -1), moved):
                        one[name] = datasets[name].copy()
                        one[name][place] += sign * 1e-5
                    expected = (loss(moved[0]) - loss(moved[1])) / 2e-5
                    self.assert_near(f"grad_{name}{place}", found[f"grad_{name}"][place], expected,
                                     1e-7 * max(1, abs(expected)))
            # Neither threads nor memory change a bit.
            short = self.run_problem(problem, "in.h5", "--only", "--emit", emit, "--memory", "64",
                                     "--threads", 1, status=6)
            least = re.search(r"hint: --memory (\S+)", short.err)[1]
            for words in (("--threads", 3), ("--memory", least, "--threads", 1)):
                again = self.run_problem(problem, "in.h5", "--only", "--emit", emit, *words).bundle()
                self.assert_same_bits(again, found)

    def test_leading_axes_and_groups(self):
        for problem, own in self.problems(one_of_tool=True):
            datasets = problem.datasets({name: values[:6] for name, values in own.items()})
            self.write("in.h5", **datasets)
            flat = self.run_problem(problem, "in.h5", "--only").bundle()
            folded = {name: values if name in problem.shared else values.reshape(2, 3, *values.shape[1:])
                      for name, values in datasets.items()}
            self.write("groups.h5", **{f"layer1__{name}": values for name, values in folded.items()})
            found = self.run_problem(problem, "groups.h5", "--only", "--each", "/layer*").bundle()
            for name in flat:
                self.assertEqual(found[f"layer1/{name}"].shape[:2], (2, 3))
                self.assertEqual(found[f"layer1/{name}"].tobytes(), flat[name].tobytes())

    def test_refused(self):
        for problem, own in self.problems(one_of_tool=True):
            datasets = problem.datasets(own)
            first = next(iter(problem.sequences))
            length = next(iter(problem.lengths))

            def refuse(says, status=3, words=(), **changes):
                changed = {name: values for name, values in (datasets | changes).items() if values is not None}
                self.write("bad.h5", **changed)
                self.refused(problem.tool, *problem.options, "bad.h5", *words, status=status, says=says)

            wrong = datasets[first].copy()
            own_one = np.argwhere(~np.isnan(wrong))[0]
            wrong[tuple(own_one)] = np.inf
            refuse([f"bad.h5:/{first}", "inf"], **{first: wrong})
            refuse([first], **{first: None})
            refuse([f"bad.h5:/{first}", "int"], **{first: np.zeros(wrong.shape, int)})
            refuse([length, "[0, "], **{length: datasets[length] + 100})
            refuse([length, "expected (11)"], **{length: datasets[length][:3]})
            refuse(["expected"], **{first: datasets[first][..., :-1]})
            refuse(["grad_"], words=["--emit", f"grad_{first}"])
            refuse(["memory"], status=6, words=["--memory", "64"])
            if len(problem.sequences) > 1:
                refuse(["leading axes"], **{first: datasets[first][:3]})
        self.write("d.h5", document=np.ones((3, 2)), question=np.ones((2, 2)))
        self.refused("attention-over-attention", "--emit", "p", "d.h5", status=2, says=["words"])
        self.refused("intra-attention", "--emit", "fused", "d.h5", status=3, says=["x"])

    def test_a_word_outside_of_the_vocabulary(self):
        problem = next(one for one in PROBLEMS if one.tool == "hard-attention")
        datasets = problem.datasets({"length": [3, 0]})
        for target in (-1, 6):
            self.write("in.h5", **datasets | {"target": np.array([0, target])})
            self.refused("hard-attention", "in.h5", status=3, says=["in.h5:/target", f"{target} at [1]", "[0, 6)"])

    def decoder(self, **lengths):
        problem = next(one for one in PROBLEMS if one.tool == "coattention" and one.tokens)
        return problem, problem.datasets(lengths)

    def test_a_target_outside_of_its_document(self):
        _, datasets = self.decoder(document_length=[4, 0, 3], question_length=[5, 2, 1])
        # In an empty document nothing is a position; the target is not looked at.
        good = datasets | {"target": np.array([[0, 3], [9, -1], [2, 0]])}
        self.write("in.h5", **good)
        found = self.run_tool("coattention", "in.h5", "--only").bundle()
        self.assertEqual([found[name][1].max() for name in ("loss", "iterations", "span")], [0, 0, 0])
        self.assertGreater(min(found["loss"][[0, 2]]), 0)
        self.write("in.h5", **good | {"target": np.array([[0, 3], [9, -1], [2, 3]])})
        self.refused("coattention", "in.h5", status=3, says=["in.h5:/target", "3 at [2, 1]", "[0, 3)"])

    def test_a_decoder_without_some_of_its_weights(self):
        problem, datasets = self.decoder(document_length=[4], question_length=[5])

        def without(*names):
            self.write("in.h5", **{name: values for name, values in datasets.items() if name not in names},
                       grad_loss=np.ones(1))

        for name in ("start_w2", "end_w", "end_w3"):
            without(name)
            self.refused("coattention", "in.h5", status=3, says=["in.h5", name])
        without("w_decoder")
        self.refused("coattention", "--emit", "span", "in.h5", status=2, says=["span", "w_decoder"])
        self.assertEqual(set(self.run_tool("coattention", "in.h5", "--only").bundle()), {"encoding"})
        without("target")
        self.refused("coattention", "--emit", "loss", "in.h5", status=2, says=["loss", "target"])
        self.refused("coattention", "--emit", "grad_w", "in.h5", status=3, says=["grad_loss", "target"])
        self.write("in.h5", **datasets | {f"{word}_{name}": np.ones((0, *shape))
                                          for word in ("start", "end")
                                          for name, shape in (("w1", (9,)), ("w2", (3,)), ("w3", (6,)))} |
                   {name: np.ones(0) for name in problem.shared if name.endswith(("_b1", "_b2", "_b3"))})
        self.refused("coattention", "in.h5", status=3, says=["0 pieces"])

    def test_a_result_that_does_not_exist(self):
        problem = next(one for one in PROBLEMS if one.tool == "intra-attention")
        self.write("in.h5", **problem.datasets({"length": [3]}))
        self.refused("intra-attention", "--emit", "fused", "in.h5", status=2, says=["fused", "--fusion none"])

    def test_a_window_of_an_even_number_of_places(self):
        problem = next(one for one in PROBLEMS if one.tool == "alignment-attention")
        datasets = problem.datasets({name: [3] for name in problem.lengths})
        self.write("in.h5", **datasets | {"w_previous": np.ones((5, 4))})
        self.refused("alignment-attention", "in.h5", status=3, says=["w_previous", "(5, 4)", "2*K+1"])

    def test_views_that_lack_something(self):
        random = np.random.default_rng(1)
        views = {name: random.normal(size=(4, 3)) for name in ("x", "view1", "view4")}
        weights = {name: random.normal(size=(3, 2)) for name in ("wq", "wk", "wk1", "wk4")}
        datasets = views | weights

        def refuse(says, status, *words, without=(), **changes):
            changed = {name: values for name, values in (datasets | changes).items() if name not in without}
            self.write("in.h5", **changed)
            self.refused("multi-view", *words, "in.h5", status=status, says=says)

        refuse(["neither wk4 nor wk", "view4"], 3, without=["wk", "wk4"])
        refuse(["grad_view2", "view2"], 2, "--emit", "grad_view2")
        refuse(["weights3", "view3"], 2, "--emit", "weights3")
        refuse(["grad_hybrid", "--scheme dnas"], 2, "--emit", "grad_hybrid", "--scheme", "dnas")
        refuse(["hybrid", "hnas"], 2, "--hybrid", "0.5")
        refuse(["iterations", "sinkhorn"], 2, "--iterations", "5")
        refuse(["hybrid"], 3, "--scheme", "hnas")
        refuse(["hybrid", "[0, 1]"], 3, "--scheme", "hnas", hybrid=1.5)
        refuse(["hybrid"], 3, "--scheme", "hnas", hybrid=np.array([0.5, 0.5]))
        refuse(["view1", "did not converge, iterations: 1"], 4, "--scheme", "sinkhorn", "--iterations", "1",
               "--tolerance", "1e-9")
        refuse(["wq", "empty"], 3, **{name: np.ones((3, 0)) for name in weights})
        # Each view has its own keys, or else the common ones; a length of an absent view says nothing.
        self.write("all.h5", **datasets, view2_length=np.int64(-1))
        self.write("own.h5", **{name: datasets[name] for name in datasets if name != "wk"})
        self.write("one.h5", **{name: datasets[name] for name in ("x", "view1", "wq")}, wk=weights["wk1"])
        both = self.run_tool("multi-view", "all.h5", "--only").bundle()
        self.assert_same_bits(self.run_tool("multi-view", "own.h5", "--only").bundle(), both)
        self.write("groups.h5", **{f"layer{n}__{name}": values for n, chosen in ((0, datasets), (1, views))
                                   for name, values in chosen.items()})
        found = self.run_tool("multi-view", "groups.h5", "--only").bundle()
        self.assertEqual(found.keys(), {"layer0/out"})
        self.assertEqual(found["layer0/out"].tobytes(), both["out"].tobytes())
        ones = self.run_tool("multi-view", "one.h5", "--only", "--emit", "weights1").bundle()
        alls = self.run_tool("multi-view", "all.h5", "--only", "--emit", "weights1").bundle()
        self.assert_same_bits(ones, alls)

    def test_weights_of_long_views_take_no_memory_unless_written(self):
        random = np.random.default_rng(1)
        self.write("in.h5", x=random.normal(size=(5000, 4)), view1=random.normal(size=(5000, 4)),
                   wq=np.eye(4), wk=np.eye(4), grad_out=np.ones((5000, 4)))
        for emit in ("out,col_sum1", "grad_x,grad_view1"):
            self.run_tool("multi-view", "in.h5", "-o", "out.h5", "--force", "--emit", emit, "--memory", "32M")
        self.refused("multi-view", "in.h5", "--emit", "weights1", "--memory", "32M", status=6, output="w.h5")

    def test_overflow(self):
        self.write("in.h5", x=np.full((3, 2), 1e38, "f4"), w1=np.full((2, 2), 0.4, "f4"),
                   w2=np.full((1, 2), 1e38, "f4"), grad_out=np.full((1, 2), 1e38, "f4"))
        self.refused("structured-attention", "--emit", "grad_w2", "in.h5", status=4, says=["grad_w2"])

    def test_sequences_are_counted_in_words(self):
        for count, says in ((1, "1 sequence"), (3, "3 sequences")):
            made = self.run_tool("tensor-gen", "normal", f"x={count}x4x3", "w1=2x3", "w2=2x2")
            done = self.run_tool("structured-attention", stdin=made.out)
            self.assertIn(f"structured-attention: {says}", done.err)
            self.assertNotIn("1 sequences", done.err)

    def test_stale_results(self):
        problem = PROBLEMS[0]
        datasets = problem.datasets({"length": [4, 9]})
        self.write("in.h5", **datasets)
        self.run_problem(problem, "in.h5", "-o", "one.h5")
        np.save(self.folder / "w2.npy", 2 * datasets["w2"])
        done = self.run_problem(problem, "one.h5", "-i", "w2=w2.npy", "--emit", "penalty", "-o", "two.h5")
        self.assertIn("out", done.err)
        self.assertNotIn("out", self.read("two.h5"))
        self.assertIn("penalty", self.read("two.h5"))

    def test_reports(self):
        for problem, own in self.problems(one_of_tool=True):
            datasets = problem.datasets(own)
            self.write("in.h5", **datasets)
            result = self.run_problem(problem, "in.h5", "-o", "out.h5", "--json", "--force").json()["result"]
            self.assertEqual((result["sequences"], result["axes"]), (11, problem.sizes))
            for name in set(result) - {"sequences", "axes"}:
                values = self.read("out.h5")[name]
                self.assert_near(name, result[name]["mean"], values.mean(), 1e-12)
                self.assertEqual((result[name]["least"], result[name]["largest"]), (values.min(), values.max()))
            done = self.run_problem(problem, "in.h5", "--dry-run")
            self.assertIn(b"11 sequences of ", done.out)
        self.assertNotIn("x.h5", os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
