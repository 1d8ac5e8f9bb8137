"""Heads whose memory ranks divide: the bits are those of one process."""

import os
import unittest

import numpy as np

from attn import LONG, sample
from test_ranks import THREADS, RankTest


class Memory(RankTest):
    """Heads that do not fit the memory of a rank: each has some queries, and reads the keys by blocks, or under dnas the
    other way round."""

    ALL = "--emit=out,row_potential,col_potential,col_sum,row_entropy"

    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(25)

    def data(self, queries=500, keys=9000, width=48, spread=1.0, kind="f4"):
        shapes = {"q": (2, queries, width), "k": (2, keys, width), "v": (2, keys, width + 40)}
        return {name: (spread * self.random.normal(size=shape)).astype(kind) for name, shape in shapes.items()}

    def many_queries(self):
        return {name: self.random.normal(size=(2, length, 64)).astype("f4")
                for name, length in (("q", 10400), ("k", 1100), ("v", 1100))}

    def check(self, place, data, memory, tool, *arguments):
        """A whole head does not fit `memory`; parts have its bits."""
        self.write("in.h5", **data)
        self.run_tool(tool, *arguments, f"--memory={memory}", "in.h5", "-o", "alone.h5", status=6)
        counts = (2, 3, 5) if LONG else [(3, 2, 5)[place % 3]]
        threads = THREADS if LONG else [(1, 2)[place % 2]]
        alone = self.run_tool(tool, *arguments, "in.h5", "-o", "alone.h5", "--threads=1")
        for count in counts:
            for number in threads:
                with self.subTest(arguments=arguments, ranks=count, threads=number):
                    ranked = self.on_ranks(count, tool, *arguments, f"--memory={memory}", "in.h5", "-o", "ranked.h5",
                                           f"--threads={number}", "--force")
                    self.assert_same_bits(self.read("alone.h5"), self.read("ranked.h5"), list(self.read("alone.h5")))
                    self.assertEqual((ranked.out, ranked.err), (alone.out, alone.err))
        os.remove(self.folder / "alone.h5")

    def test_softmax(self):
        shift = {"bias": self.random.normal(size=(500, 9000)), "sink": self.random.normal(size=2)}
        mask = {"mask": self.random.random(size=(500, 9000)) < 0.5}
        mask["mask"][:, 0] = False
        mask["mask"][3] = False
        padded = {"key_length": np.array([8000, 100]), "query_length": np.array([450, 33]),
                  "gate": self.random.normal(size=(2, 500, 88))}
        cases = [
            ({}, [self.ALL]),
            (self.data(spread=3), ["--emit=out"]),
            (shift, [self.ALL, "--causal=bottom-right"]),
            (mask, [self.ALL, "--window=900", "--precision=f64"]),
            (padded, [self.ALL]),
            ({}, ["--emit=out,col_sum", "--precision=bf16"]),
            ({"preference": self.random.random(size=(500, 1))}, ["--scheme=fenchel", "--alpha=0.5", self.ALL]),
            (self.data(kind="f8"), [self.ALL, "--relative-bias=alibi", "--energy=dot"]),
        ]
        for place, (more, arguments) in enumerate(sample(cases, 3)):
            data = self.data() | more
            if "--precision=bf16" in arguments:
                data = {name: (x.view("u4") & 0xffff0000).view("f4") for name, x in data.items()}
            f64 = "--precision=f64" in arguments or data["q"].dtype == np.float64
            self.check(place, data, "12M" if f64 else "7M", "attn-compute", *arguments)

    def test_dnas(self):
        swapped = self.many_queries()
        mask = {"mask": self.random.random(size=(10400, 1)) < 0.9, "sink": np.zeros(2)}
        cases = [
            ({}, []),
            ({"q": 4 * swapped["q"]}, ["--causal=bottom-right"]),
            (mask, ["--precision=f64"]),
            ({"query_length": np.array([10000, 700]), "key_start": np.array([3, 7]),
              "gate": self.random.normal(size=(2, 10400, 64))}, []),
        ]
        for place, (more, arguments) in enumerate(sample(cases, 2)):
            memory = "18M" if "--precision=f64" in arguments else "10M"
            self.check(place, swapped | more, memory, "attn-compute", "--scheme=dnas", *arguments)

    def test_hnas(self):
        emitted = "--emit=out,row_potential,col_potential"
        own = {"hybrid": np.array([0.25, 0.8]), "sink": np.array([1, -3], dtype="f4")}
        few, many = self.data(), self.many_queries()
        cases = [
            ("12M", many, ["--hybrid=0.4", emitted]),
            ("12M", many | own | {"q": 2 * many["q"]}, [emitted]),
            ("9M", few | own, [emitted + ",col_sum,row_entropy"]),
            ("9M", few | {"q": 3 * few["q"], "bias": self.random.normal(size=(500, 9000)).astype("f4")},
             ["--hybrid=0.4", "--emit=out,col_sum"]),
        ]
        for place, (memory, data, arguments) in enumerate(sample(cases, 2)):
            self.check(place, data, memory, "attn-compute", "--scheme=hnas", *arguments)

    def test_ends_of_hnas(self):
        """There it is another scheme."""
        few, many = self.data(), self.many_queries()
        cases = [
            ("9M", few | {"hybrid": np.array([1.0, 0.0])}, [self.ALL]),
            ("12M", many, ["--hybrid=1", "--emit=out"]),
            ("9M", few, ["--hybrid=0", "--emit=col_sum,row_potential"]),
            ("12M", many | {"hybrid": np.array([0.4, 0.0])}, ["--emit=out,row_potential,col_potential", "--scale=4"]),
        ]
        for place, (memory, data, arguments) in enumerate(sample(cases, 2)):
            self.check(place, data, memory, "attn-compute", "--scheme=hnas", *arguments)

    def test_dnas_with_what_needs_weights(self):
        """The keys are divided for g, and the queries for the rest."""
        mask = {"mask": self.random.random(size=(500, 9000)) < 0.5, "sink": np.zeros(2)}
        mask["mask"][:, 17] = False
        mask["mask"][3] = False
        padded = {"key_length": np.array([8000, 1100]), "query_start": np.array([2, 400]),
                  "gate": self.random.normal(size=(2, 500, 88)).astype("f4")}
        sink = {"sink": np.array([3, -20], dtype="f4")}
        cases = [
            ("8M", {}, ["--emit=out,row_entropy", "--relative-bias=alibi"]),
            ("8M", self.data(spread=3), [self.ALL]),
            ("8M", padded, [self.ALL]),
            ("10M", self.many_queries() | sink, [self.ALL, "--causal=bottom-right"]),
            ("13M", mask, [self.ALL, "--precision=f64"]),
            ("8M", self.data(spread=3) | padded, [self.ALL, "--window=8900"]),
            ("8M", {"bias": 40 * self.random.normal(size=(1, 9000)).astype("f4")}, ["--emit=out,col_sum"]),
        ]
        for place, (memory, more, arguments) in enumerate(sample(cases, 3)):
            self.check(place, self.data() | more, memory, "attn-compute", "--scheme=dnas", *arguments)

    def gradient_data(self, queries, keys, common=0.0, **more):
        shapes = {"q": (2, queries, 40), "k": (2, keys, 40), "v": (2, keys, 56), "grad_out": (2, queries, 56)}
        data = {name: self.random.normal(size=shape).astype("f4") for name, shape in shapes.items()}
        data["v"] += np.float32(common)
        return data | more

    def test_gradients(self):
        names = "--emit=out,row_potential,grad_q,grad_k,grad_v"
        mask = {"mask": self.random.random(size=(1100, 9000)) < 0.7, "bias": self.random.normal(size=(1100, 1))}
        mask["mask"][:, 17] = False
        mask["mask"][5] = False
        padded = {"query_length": np.array([1000, 9]), "key_length": np.array([8000, 40]), "key_start": np.array([4, 0])}
        sharp = self.gradient_data(1100, 9000)
        sharp["q"] *= 8
        ready = {name: sharp[name][0] for name in ("v", "grad_out")}
        ready["scores"] = self.random.normal(size=(1100, 9000)).astype("f4")
        cases = [
            (sharp, "16M", [names]),
            (self.gradient_data(1100, 9000, common=5), "16M", ["--emit=grad_q,grad_k,grad_v", "--causal=bottom-right"]),
            (self.gradient_data(5000, 1300) | {"sink": np.array([0.5, -1])}, "20M",
             ["--emit=grad_k,grad_sink", "--softcap=3", "--window=900"]),
            (self.gradient_data(1100, 9000) | {"sink": np.array(0.5)}, "16M", ["--emit=out,grad_sink"]),
            (self.gradient_data(1100, 9000, **mask), "30M", [names, "--precision=f64"]),
            (self.gradient_data(1100, 9000, **padded), "16M", [names]),
            (ready, "11M", ["--emit=out,grad_v", "--from=scores"]),
            (self.gradient_data(1100, 9000, preference=self.random.random(size=(1100, 1)).astype("f4")), "16M",
             ["--scheme=fenchel", names]),
            (self.gradient_data(6000, 1500) | {"sink": np.array([2, 0.1])}, "14M", ["--scheme=dnas", names + ",grad_sink"]),
            (self.gradient_data(6000, 1500), "12M", ["--scheme=dnas", names]),
            (self.gradient_data(6000, 1500, common=3), "12M", ["--scheme=dnas", names, "--causal=bottom-right"]),
            (self.gradient_data(6000, 1500, hybrid=np.array([0.3, 0.9])) | {"sink": np.array([2, 0.1])}, "14M",
             ["--scheme=hnas", "--emit=grad_v,grad_sink"]),
            (self.gradient_data(6000, 1500, hybrid=np.array([0.3, 0.9])), "12M", ["--scheme=hnas", names]),
            (self.gradient_data(1100, 9000, common=50, hybrid=np.array([0.7, 0.2])), "14M",
             ["--scheme=hnas", "--emit=grad_q,grad_k,grad_v,row_entropy", "--causal=bottom-right"]),
        ]
        for place, (data, memory, arguments) in enumerate(sample(cases, 4)):
            self.check(place, data, memory, "attn-compute", *arguments)

    def test_gates(self):
        """Gradients start from the output before the gate; what is written comes after it."""
        names = "--emit=out,grad_q,grad_k,grad_v,grad_gate"
        padded = {"query_length": np.array([1000, 9]), "key_length": np.array([8000, 40])}

        def gate(*shape, **more):
            return {"gate": self.random.normal(size=shape).astype("f4")} | more

        few, many = (1100, 9000), (6000, 1500)
        cases = [
            (few, gate(2, 1100, 56), "17M", [names]),
            (many, gate(2, 6000, 1), "12M", ["--scheme=dnas", names]),
            (few, gate(2, 1, 56, sink=np.array([2, 0.1])), "16M", ["--emit=grad_gate,grad_sink"]),
            (few, gate(1100, 56), "12M", ["--emit=out,grad_gate"]),
            (few, gate(2, 1100, 56, **padded), "17M", [names]),
            (few, gate(2, 1, 1, **padded), "16M", [names, "--causal=bottom-right"]),
            (many, gate(1, 56, hybrid=np.array([0.3, 0.9])), "14M", ["--scheme=hnas", names]),
            (many, gate(1, 1), "12M", ["--scheme=dnas", "--emit=grad_v,grad_gate,row_entropy"]),
            (many, gate(2, 6000, 56, query_start=np.array([7, 5990])), "16M", ["--scheme=dnas", "--emit=grad_gate"]),
        ]
        for place, ((queries, keys), more, memory, arguments) in enumerate(sample(cases, 2)):
            self.check(place, self.gradient_data(queries, keys, **more), memory, "attn-compute", *arguments)

    def test_gradients_that_heads_share(self):
        """Each rank has the sums of some rows, whatever the keys that it has of a head."""
        names = "--emit=out,grad_q,grad_k,grad_v"

        def data(queries, keys, q, k, v, **more):
            shapes = {"q": (q, queries, 40), "k": (k, keys, 40), "v": (v, keys, 56), "grad_out": (4, queries, 56)}
            return {name: self.random.normal(size=shape).astype("f4") for name, shape in shapes.items()} | more

        padded = {"key_length": np.array([8000, 9000, 40, 1000]), "query_start": np.array([3, 0, 1000, 0])}
        cases = [
            (data(1100, 9000, 4, 2, 1), "16M", [names, "--causal=bottom-right"]),
            (data(1100, 9000, 4, 1, 1) | padded, "17M", [names, "--precision=f32"]),
            (data(6000, 1500, 1, 4, 2), "14M", ["--scheme=dnas", names]),
            (data(6000, 1500, 2, 4, 1, hybrid=np.array([0.3, 0.9, 0.5, 0.6])), "14M",
             ["--scheme=hnas", "--emit=grad_q,grad_v"]),
            (data(6000, 1500, 4, 2, 2, query_length=np.array([6, 6000, 5000, 5000])), "14M", ["--scheme=dnas", names]),
        ]
        for place, (inputs, memory, arguments) in enumerate(sample(cases, 2)):
            self.check(place, inputs, memory, "attn-compute", *arguments)

    def test_shared_gradients_of_whole_heads(self):
        """A head that must be computed whole, beside one in parts."""
        shapes = {"q": (2, 3000, 48), "k": (3000, 48), "v": (3000, 48), "grad_out": (2, 3000, 48)}
        data = {name: self.random.normal(size=shape).astype("f4") for name, shape in shapes.items()}
        data["k"] = abs(data["k"])
        data["q"][1, 1234] = -12
        self.write("in.h5", **data)
        command = ["attn-compute", "--scheme=dnas", "--emit=out,grad_q,grad_k,grad_v"]
        alone = self.compute(*command[1:], "in.h5")
        hint = self.on_ranks(3, *command, "in.h5", "--memory=11M", "-o", "out.h5", status=6).err
        self.assertIn("for query 1234, which no key prefers, a whole head needs ", hint)
        self.on_ranks(3, *command, "in.h5", f"--memory={hint.split()[-1]}", "--threads=3", "-o", "out.h5")
        self.assert_same_bits(self.read("out.h5"), alone, ["out", "grad_q", "grad_k", "grad_v"])

    def test_bad_gradients(self):
        """One line says what is wrong, before the work if it is an input."""
        data = self.gradient_data(1100, 9000)
        shared = {name: values[:1] if name in "kv" else values for name, values in data.items()}

        def error(status, *arguments):
            done = self.on_ranks(3, "attn-compute", "--emit=grad_k,grad_v", *arguments, "--memory=16M", "in.h5", "-o",
                                 "out.h5", status=status)
            self.assertEqual(os.listdir(self.folder), ["in.h5"])
            self.assertEqual(done.err.count("error: "), 1)
            return done.err

        for scheme in ("unas", "dnas"):
            bad = data["grad_out"].copy()
            bad[1, 777, 3] = np.nan
            self.write("in.h5", **data | {"grad_out": bad})
            self.assertIn("grad_out has nan at [1, 777, 3]", error(3, f"--scheme={scheme}"))
            large = self.random.choice([-1e38, 1e38], size=(2, 1100, 56)).astype("f4")
            for inputs in (data, shared):
                self.write("in.h5", **inputs | {"grad_out": large})
                self.assertIn(": grad_k is beyond the range of float32", error(4, f"--scheme={scheme}"))

    def test_small_head_with_gradients(self):
        """Every rank computes it whole, beside one that is divided."""
        gate = self.random.normal(size=(6000, 1)).astype("f4")
        data = self.gradient_data(6000, 1500, query_length=np.array([6, 6000]), gate=gate)
        for place, scheme in enumerate((["dnas"], ["hnas", "--hybrid=0.3"])):
            self.check(place, data, "12M", "attn-compute", "--emit=out,grad_q,grad_v,grad_gate", "--scheme", *scheme)

    def test_errors_ask_for_enough(self):
        """A head in parts may need more than a whole one, and one scheme more than another."""
        shapes = {"q": (368, 40), "k": (11840, 40), "v": (11840, 64)}
        self.write("in.h5", **{name: self.random.normal(size=shape).astype("f4") for name, shape in shapes.items()})
        for command in (["attn-compute", "--scheme=hnas", "--hybrid=0.4"], ["explain-away-stats", "--scheme=unas,dnas"]):
            with self.subTest(command=command):
                command = [*command, "in.h5", "-o", "out.h5", "--force", "--threads=1"]
                alone = self.run_tool(*command, "--memory=1M", status=6).err.split()[-1]
                hint = self.on_ranks(3, *command, "--memory=1M", status=6).err.split()[-1]
                self.assertLessEqual(int(hint.rstrip("M")), int(alone.rstrip("M")))
                self.on_ranks(3, *command, f"--memory={hint}")

    def test_query_that_no_key_prefers(self):
        one = {name: self.random.normal(size=(3000, 48)).astype("f4") for name in "qkv"}
        one["k"] = abs(one["k"])
        one["q"][1234] = -12
        self.write("in.h5", **one)
        done = self.on_ranks(3, "attn-compute", "--scheme=dnas", "--memory=6M", "in.h5", "-o", "out.h5", status=6)
        self.assertIn("for query 1234, which no key prefers, a whole head needs ", done.err)
        self.assertEqual(os.listdir(self.folder), ["in.h5"])
        self.on_ranks(3, "attn-compute", "--scheme=dnas", "--memory=8M", "--threads=2", "in.h5", "-o", "out.h5")
        self.assert_same_bits(self.read("out.h5"), self.compute("--scheme=dnas", "in.h5"), ["out", "row_potential"])
        hnas = ["attn-compute", "--scheme=hnas", "--hybrid=0.5", "in.h5", "-o", "hnas.h5"]
        done = self.on_ranks(3, *hnas, "--memory=7M", status=6)
        self.assertIn("for query 1234, whose scores are far below the largest of others, a whole head needs ", done.err)
        self.on_ranks(3, *hnas, f"--memory={done.err.split()[-1]}", "--threads=2")
        alone = self.compute("--scheme=hnas", "--hybrid=0.5", "in.h5")
        self.assert_same_bits(self.read("hnas.h5"), alone, ["out", "row_potential", "unas_row_potential"])

    def test_the_memory_that_an_error_asks_for(self):
        """It suffices, also for keys in one block and with causality, where some ranks have more queries than others."""
        shapes = {"q": (30000, 64), "k": (700, 64), "v": (700, 64)}
        self.write("in.h5", **{name: self.random.normal(size=shape).astype("f4") for name, shape in shapes.items()})
        command = ["attn-compute", "--causal=top-left", "in.h5", "-o", "out.h5"]
        hint = self.on_ranks(3, *command, "--memory=1M", status=6).err.split()[-1]
        self.run_tool(*command, f"--memory={hint}", status=6)
        self.on_ranks(3, *command, f"--memory={hint}")
        self.assert_same_bits(self.read("out.h5"), self.compute("--causal=top-left", "in.h5"),
                              ["out", "row_potential"])

    def test_statistics(self):
        data = self.data() | {"key_length": np.array([8800, 2500]), "sink": np.array([1.0, -1.0])}
        cases = (("hnas", "8M"), ("unas", "7M"), ("dnas", "8M"), ("unas,dnas", "8M"), ("unas,hnas", "8M"))
        for place, (scheme, memory) in enumerate(sample(cases, 2)):
            own = {}
            if scheme == "hnas":
                own["hybrid"] = np.array(0.6)
            elif scheme == "unas,hnas":
                own["hybrid"] = np.array([1.0, 0.0])
            self.check(place, data | own, memory, "explain-away-stats", f"--scheme={scheme}")

    def test_costs_before_a_run(self):
        """--dry-run on ranks plans for each of them."""
        self.write("in.h5", **self.data())
        for tool, arguments in (("attn-compute", [self.ALL]), ("explain-away-stats", [])):
            with self.subTest(tool=tool):
                command = [tool, *arguments, "in.h5", "--dry-run", "--threads=1", "--json=costs.json"]
                self.run_tool(*command)
                alone = self.read_json("costs.json")["result"]["working_bytes"]
                self.run_tool(*command, "--memory=7M", status=6)
                self.on_ranks(3, *command, "--memory=7M")
                self.assertLess(self.read_json("costs.json")["result"]["working_bytes"], 7 * 2 ** 20)
                self.assertGreater(alone, 7 * 2 ** 20)

    def test_bytes(self):
        """MATHEMATICS.md §10, for the mean over the ranks; the first messages are some dozen bytes."""
        lq, lk, d, dv, e, count = 2000, 9216, 48, 40, 4, 3
        one = {"q": (lq, d), "k": (lk, d), "v": (lk, dv), "grad_out": (lq, dv)}
        self.write("in.h5", **{name: self.random.normal(size=shape).astype("f4") for name, shape in one.items()})
        part, turns = 1 - 1 / count, 2 - 2 / count
        counts = turns * 8 * (lq + lk)
        rows = part * (16 * lq + e * lq * dv / count) + turns * 8 * lk
        sums = turns * (8 * lq + e * lq * dv)
        g = part * 8 * lk
        gradients = part * (16 * lq + e * lk * (d + dv) / count) + e * lq * d
        cases = [
            ("9M", [self.ALL], counts + rows),
            ("9M", ["--scheme=dnas"], counts + g + sums),
            ("9M", ["--scheme=hnas", "--hybrid=0.5"], counts + g + 2 * sums),
            ("9M", ["--scheme=dnas", self.ALL], counts + g + rows),
            ("9M", ["--scheme=hnas", "--hybrid=0.5", self.ALL], counts + g + part * 8 * lq + rows),
            ("10M", ["--emit=grad_q,grad_k,grad_v"], counts + gradients),
            ("11M", ["--scheme=hnas", "--hybrid=0.5", "--emit=grad_q,grad_k,grad_v"], counts + g + 2 * sums + gradients),
        ]
        for memory, arguments, expected in sample(cases, 4):
            with self.subTest(arguments=arguments):
                self.on_ranks(count, "attn-compute", *arguments, f"--memory={memory}", "--threads=1", "in.h5", "-o",
                              "out.h5", "--force", "--json=report.json")
                ranks = self.read_json("report.json")["runtime"]["ranks"]
                sent = sum(rank["sent_bytes"] for rank in ranks) / count
                self.assertAlmostEqual(sent, expected, delta=0.01 * expected)


if __name__ == "__main__":
    unittest.main()
