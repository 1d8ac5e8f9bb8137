"""attn-train: models of mechanisms, whose losses an evaluation in NumPy repeats from the checkpoint."""

import json
import unittest

import h5py
import numpy as np

import mechanisms
from training import TrainTest

NAMES = "anna bert carla dora emil frida gustav hanna ida jakob karl lena max nora otto paul".split()
SHORT = """
[data]
{data}
[model]
kind = "{model}"
width = 5
{inner}
[objective]
kind = "{objective}"
[run]
steps = 30
batch = 8
evaluate-every = 30
log-every = 10
checkpoint-every = 10
[schedule]
rate = 0.02
"""
WITHOUT_INNER = ("attention-over-attention", "coattention")
FILES = 'train = "train.txt"\nvalid = "valid.txt"'
SETTINGS = {
    "structured-attention": ("classes", ["structured.hops=3", "structured.penalty=0.5"]),
    "decomposable-attention": ("matches", []),
    "attention-over-attention": ("cloze", ["model.cell=gru", "data.tokens=words", "cloze.lines=3"]),
    "alignment-attention": ("pairs", ["alignment.terms=position,previous", "alignment.agreement=0.7"]),
    "hard-attention": ("pairs", ["model.cell=gru"]),
    "intra-attention": ("causal", ["data.length=9"]),
    "coattention": ("spans", ["data.tokens=words", "coattention.iterations=3", "coattention.pieces=2"]),
}


def log_softmax(z):
    shifted = z - z.max()
    return shifted - np.log(np.exp(shifted).sum())


def recurrent(x, w, b):
    """States of an LSTM (4 gates) or a GRU (3), whose weights say which it is."""
    width = w.shape[1] - x.shape[1]
    h, c, states = np.zeros(width), np.zeros(width), []
    for row in x:
        gates = w @ np.concatenate([h, row]) + b
        if len(w) == 4 * width:
            i, f, o = (mechanisms.sigmoid(gates[n * width:(n + 1) * width]) for n in range(3))
            c = f * c + i * np.tanh(gates[3 * width:])
            h = o * np.tanh(c)
        else:
            r, z = (mechanisms.sigmoid(gates[n * width:(n + 1) * width]) for n in range(2))
            candidate = np.tanh((w @ np.concatenate([r * h, row]) + b)[2 * width:])
            h = z * h + (1 - z) * candidate
        states.append(h)
    return np.array(states).reshape(len(x), width)


class Checkpoint:

    def __init__(self, path):
        self.tensors = {}
        with h5py.File(path) as file:
            file.visititems(lambda name, item: self.tensors.update({name: item[()]})
                            if isinstance(item, h5py.Dataset) else None)

    def tokens(self, name, symbols):
        known = [symbol.decode() for symbol in self.tensors[name]]
        return [known.index(symbol) if symbol in known else 0 for symbol in symbols]

    def vectors(self, name, tokens):
        return self.tensors[name][tokens]

    def states(self, prefix, x):
        return recurrent(x, self.tensors[prefix + "w"], self.tensors[prefix + "b"])

    def both_ways(self, prefix, x):
        return np.hstack([self.states(prefix, x), self.states(prefix + "back_", x[::-1])[::-1]])

    def weights(self, prefix, *names):
        return {name: self.tensors[prefix + name] for name in names if prefix + name in self.tensors}

    def log_p(self, prefix, features):
        return log_softmax(self.tensors[prefix + "softmax"] @ features + self.tensors[prefix + "softmax_bias"])


class Mechanisms(TrainTest):

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        texts = {
            "pairs": [f"{name}\t{name[::-1].upper()}" for name in NAMES],
            "classes": [f"{'vowel' if name[0] in 'aeiou' else 'other one'}\t{name}" for name in NAMES],
            "spans": [f"{one} likes tea ; {other} likes hot milk\twhat likes {name}\t{span}"
                      for one, other in zip(NAMES, NAMES[1:]) for name, span in ((one, "2-2"), (other, "6-7"))],
            "cloze": [" ".join(random.choice(["north", "south", "rain", "snow", "of"], 4)) for _ in range(40)],
        }
        for name, lines in texts.items():
            (self.folder / f"{name}-train.txt").write_text("\n".join(lines) + "\n")
            (self.folder / f"{name}-valid.txt").write_text("\n".join(lines[:9]) + "\n")

    def recipe(self, model):
        objective, settings = SETTINGS[model]
        data = FILES.replace("train.txt", f"{self.file_of(objective)}-train.txt").replace(
            "valid.txt", f"{self.file_of(objective)}-valid.txt")
        inner = "" if model in WITHOUT_INNER else "inner = 4"
        (self.folder / "r.toml").write_text(
            SHORT.format(data=data, model=model, inner=inner, objective=objective))
        return [word for setting in settings for word in ("--set", setting)]

    def test_sampled_gradients_of_hard_attention(self):
        """REINFORCE learns, and its baseline is a tensor that only its running mean changes."""
        words = self.recipe("hard-attention")
        plain, baseline = {}, {}
        for gradient in ("sampled", "sampled-baseline"):
            self.train("--log", f"{gradient}.jsonl", *words, "--set", f"hard.gradient={gradient}", "--set", "run.log-every=1",
                       "--set", "run.steps=60", "--set", "run.evaluate-every=60", output=f"{gradient}.h5")
            lines = self.log(f"{gradient}.jsonl")[1:]
            losses = [line["loss"] for line in lines]
            self.assertLess(np.mean(losses[-10:]), np.mean(losses[:10]) - 0.1)
            found = self.read(f"{gradient}.h5")
            self.assertEqual("hard/baseline" in found, gradient == "sampled-baseline")
            if "hard/baseline" in found:
                b = 0.0
                for loss in losses:
                    b = 0.9 * b + 0.1 * -loss
                self.assert_near("hard/baseline", found["hard/baseline"], [b], 1e-5)
        whole = self.bytes_of("sampled-baseline.h5"), self.log("sampled-baseline.jsonl")
        (self.folder / "sampled-baseline.previous.h5").replace(self.folder / "sampled-baseline.h5")
        self.train("--log", "sampled-baseline.jsonl", *words, "--set", "hard.gradient=sampled-baseline", "--set",
                   "run.log-every=1", "--set", "run.steps=60", "--set", "run.evaluate-every=60", "--threads", 3,
                   output="sampled-baseline.h5")
        found = self.read("sampled-baseline.h5")
        self.assertEqual(self.log("sampled-baseline.jsonl"), whole[1])
        self.assertEqual(found.attributes["train_checksum"], self.checksum_of(whole[0]))

    def checksum_of(self, content):
        (self.folder / "whole.h5").write_bytes(content)
        return self.read("whole.h5").attributes["train_checksum"]

    @staticmethod
    def file_of(objective):
        return {"matches": "pairs", "causal": "pairs"}.get(objective, objective)

    def lines(self, objective):
        return (self.folder / f"{self.file_of(objective)}-valid.txt").read_text().splitlines()

    def loss(self, model):
        """The loss over the validation data, from the checkpoint."""
        objective, _ = SETTINGS[model]
        return getattr(self, "loss_of_" + objective)(Checkpoint(self.folder / "run.h5"), model)

    def loss_of_classes(self, run, _):
        classes = [name.decode() for name in run.tensors["classes"]]
        losses = []
        for line in self.lines("classes"):
            label, text = line.split("\t")
            x = run.vectors("structured/input/tokens", run.tokens("vocabulary", text))
            found = mechanisms.structured(run.both_ways("structured/encoder/", x),
                                          **run.weights("structured/", "w1", "w2"))
            losses.append(-run.log_p("structured/", found["out"].ravel())[classes.index(label)])
        return np.mean(losses)

    def loss_of_pairs(self, run, model):
        losses = []
        prefix = "hard/" if model == "hard-attention" else "alignment/"
        for line in self.lines("pairs"):
            source, target = line.split("\t")
            encodings, states, targets = self.states_of_pair(run, prefix, source, target)
            if model == "hard-attention":
                weights = run.weights(prefix, "w_a", "w_h", "v", "readout", "readout_bias")
                for h, word in zip(states, targets):
                    a = np.hstack([encodings, np.tile(h, (len(encodings), 1))])
                    losses.append(-mechanisms.hard_attention(a, h, target=word, **weights)["log_p"])
                continue
            weights = run.weights(prefix, "w_source", "w_target", "v", "w_position", "w_previous")
            contexts = mechanisms.alignment(encodings, states, **weights)["context"]
            for h, context, word in zip(states, contexts, targets):
                losses.append(-run.log_p(prefix, np.concatenate([h, context]))[word])
        return np.mean(losses)

    def test_weights_of_all_pairs(self):
        """How the words of targets attend to sources, in the order of the file; </s> has no row."""
        for model, group in (("alignment-attention", "alignment"), ("hard-attention", "hard")):
            with self.subTest(model=model):
                self.train(*self.recipe(model), "--set", "precision=f64", "--set", "run.keep-weights=valid", "--force")
                run = Checkpoint(self.folder / "run.h5")
                kept = {name: run.tensors[f"weights/{group}/{name}"] for name in ("weights", "target_length", "source_length")}
                lines = self.lines("pairs")
                lengths = np.array([[len(word) for word in line.split("\t")] for line in lines])
                np.testing.assert_array_equal(kept["source_length"], lengths[:, 0])
                np.testing.assert_array_equal(kept["target_length"], lengths[:, 1])
                self.assertEqual(kept["weights"].shape, (len(lines), lengths[:, 1].max(), lengths[:, 0].max()))
                for line, found in zip(lines, kept["weights"]):
                    source, target = line.split("\t")
                    want = np.zeros(found.shape)
                    want[:len(target), :len(source)] = self.weights_of_pair(run, model, source, target)[:-1]
                    np.testing.assert_allclose(found, want, atol=1e-13)

    def weights_of_pair(self, run, model, source, target):
        prefix = "hard/" if model == "hard-attention" else "alignment/"
        encodings, states, _ = self.states_of_pair(run, prefix, source, target)
        if model == "hard-attention":
            weights = run.weights(prefix, "w_a", "w_h", "v", "readout", "readout_bias")
            return [mechanisms.hard_attention(np.hstack([encodings, np.tile(h, (len(encodings), 1))]), h, target=0,
                                              **weights)["weights"] for h in states]
        weights = run.weights(prefix, "w_source", "w_target", "v", "w_position", "w_previous")
        return mechanisms.alignment(encodings, states, **weights)["weights"]

    def states_of_pair(self, run, prefix, source, target):
        x = run.vectors(prefix + "source/tokens", run.tokens("source_vocabulary", source))
        targets = run.tokens("target_vocabulary", target) + [2]
        y = run.vectors(prefix + "input/tokens", [1] + targets[:-1])
        return run.both_ways(prefix + "encoder/", x), run.states(prefix + "decoder/", y), targets

    def loss_of_causal(self, run, _):
        text = (self.folder / "pairs-valid.txt").read_text()
        tokens = run.tokens("vocabulary", text)
        losses = []
        for first in range(0, len(tokens) - 1, 9):
            segment = tokens[first:first + 10]
            x = run.vectors("intra_attention/input/tokens", segment[:-1])
            weights = run.weights("intra_attention/", "w_h", "w_x", "w_prev", "v", "w", "b")
            for h, word in zip(mechanisms.intra_attention(x, **weights)["h"], segment[1:]):
                losses.append(-run.log_p("intra_attention/", h)[word])
        return np.mean(losses)

    def loss_of_cloze(self, run, _):
        # Which word is asked for is drawn: the loss is one of a few, by question.
        lines = [run.tokens("vocabulary", line.split()) for line in self.lines("cloze")]
        table = "over_attention/input/tokens"
        least, most, questions = 0, 0, 0
        for n in range(3, len(lines)):
            words = np.concatenate(lines[n - 3:n])
            losses = []
            for word in set(lines[n]) & set(words):
                if run.tensors["vocabulary"][word] == b"of":
                    continue
                question = [1 if token == word else token for token in lines[n]]
                found = mechanisms.over_attention(
                    run.both_ways("over_attention/document/", run.vectors(table, words)),
                    run.both_ways("over_attention/question/", run.vectors(table, question)))
                losses.append(-np.log(found["s"][words == word].sum()))
            if losses:
                least, most, questions = least + min(losses), most + max(losses), questions + 1
        return least / questions, most / questions

    def loss_of_spans(self, run, _):
        names = ["w", "b", "sentinel_d", "sentinel_q", "w_question", "b_question", "w_decoder", "b_decoder"]
        names += [f"{kind}_{way}" for kind in "wb" for way in ("forward", "backward")]
        names += [f"{word}_{name}" for word in ("start", "end") for name in ("w", "w1", "b1", "w2", "b2", "w3", "b3")]
        losses = []
        for line in self.lines("spans"):
            document, question, span = line.split("\t")
            found = mechanisms.coattention(
                run.vectors("coattention/input/tokens", run.tokens("vocabulary", document.split())),
                run.vectors("coattention/input/tokens", run.tokens("vocabulary", question.split())),
                iterations=3, target=np.array(span.split("-"), int), **run.weights("coattention/", *names))
            losses.append(found["loss"] / 2)
        return np.mean(losses)

    def test_losses(self):
        for model, (objective, _) in SETTINGS.items():
            with self.subTest(model=model):
                words = [*self.recipe(model), "--set", "precision=f64", "--log", "run.jsonl", "--force"]
                self.train(*words)
                lines = self.log("run.jsonl")
                found = lines[-1]["valid"]["loss"]
                self.assertLess(lines[-1]["loss"], lines[1]["loss"])
                if objective == "matches":
                    continue  # see test_matches
                want = self.loss(model)
                if objective == "cloze":
                    self.assertTrue(want[0] - 1e-12 <= found <= want[1] + 1e-12, (want, found))
                else:
                    # Sums of some hundred terms.
                    self.assertAlmostEqual(found, want, delta=1e-12)

    def test_matches(self):
        """Of two pairs, each has only one other target."""
        for part in ("train", "valid"):
            (self.folder / f"pairs-{part}.txt").write_text("ab\tXY\ncd\tZZX\n")
        self.train(*self.recipe("decomposable-attention"), "--set", "precision=f64", "--log", "run.jsonl")
        run = Checkpoint(self.folder / "run.h5")
        names = [name + suffix for name in ("f1", "f2", "g1", "g2", "h1", "h2") for suffix in ("", "_bias")]
        losses = []
        for source, target, label in (("ab", "XY", 1), ("ab", "ZZX", 0), ("cd", "ZZX", 1), ("cd", "XY", 0)):
            a = run.vectors("decomposable/source/tokens", run.tokens("source_vocabulary", source))
            b = run.vectors("decomposable/input/tokens", run.tokens("target_vocabulary", target))
            scores = mechanisms.decomposable(a, b, **run.weights("decomposable/", *names))["scores"]
            losses.append(-log_softmax(scores)[label])
        valid = self.log("run.jsonl")[-1]["valid"]
        self.assertAlmostEqual(valid["loss"], np.mean(losses), delta=1e-12)
        self.assertEqual(valid["accuracy"], np.mean(np.array(losses) < np.log(2)))

    def test_threads(self):
        for model in SETTINGS:
            with self.subTest(model=model):
                words = self.recipe(model)
                for threads in ("1", "3"):
                    self.train(*words, "--threads", threads, "--force", output=f"{threads}.h5")
                one, three = (Checkpoint(self.folder / f"{threads}.h5").tensors for threads in "13")
                self.assertEqual(one.keys(), three.keys())
                for name, tensor in one.items():
                    np.testing.assert_array_equal(tensor, three[name], name)

    def test_interrupted_run_ends_with_the_same_bytes(self):
        words = self.recipe("alignment-attention")
        self.train(*words)
        whole = self.bytes_of("run.h5")
        # The checkpoint of step 20, as a run that was killed later would have left it.
        (self.folder / "half.h5").write_bytes(self.bytes_of("run.previous.h5"))
        self.train(*words, output="half.h5")
        self.assertEqual(self.bytes_of("half.h5"), whole)

    def test_outputs_are_learned(self):
        words = self.recipe("alignment-attention")
        self.train(*words, "--set", "run.steps=150", "--set", "run.batch=16", "--log", "run.jsonl")
        metrics = self.log("run.jsonl")[-1]["valid"]
        self.assertLess(metrics["character_error_rate"], 0.5)
        self.assertGreater(metrics["agreement"], 0)

    def test_the_tool_reads_the_checkpoint(self):
        self.train(*self.recipe("structured-attention"))
        run = Checkpoint(self.folder / "run.h5")
        x = np.random.default_rng(0).normal(size=(2, 6, 10)).astype("f4")
        np.save(self.folder / "x.npy", x)
        self.run_tool("structured-attention", "-i", "x=x.npy", "-i", "w1=run.h5:structured/w1", "-i",
                      "w2=run.h5:structured/w2", "-o", "out.h5", "--emit", "out", "--precision", "f64")
        with h5py.File(self.folder / "out.h5") as file:
            for got, one in zip(file["out"], x):
                want = mechanisms.structured(one, **run.weights("structured/", "w1", "w2"))["out"]
                np.testing.assert_allclose(got, want, atol=1e-6)

    def test_metrics_of_cloze(self):
        words = self.recipe("attention-over-attention")
        self.train(*words, "--log", "run.jsonl")
        valid = self.log("run.jsonl")[-1]["valid"]
        for name in ("accuracy", "accuracy_of_most_frequent", "accuracy_of_last"):
            self.assertTrue(0 <= valid[name] <= 1, name)
        with h5py.File(self.folder / "run.h5") as file:
            self.assertEqual(file["vocabulary"][1], b"[BLANK]")

    def test_refused(self):
        cases = [
            ("structured-attention", ["objective.kind=pairs"], 2, ["does not go with"]),
            ("structured-attention", ["model.heads=2"], 2, ["model.heads", "only with transformer"]),
            ("structured-attention", ["structured.hops=0"], 2, ["structured.hops", "[1, "]),
            ("hard-attention", ["alignment.reach=3"], 2, ["only with alignment-attention"]),
            ("hard-attention", ["objective.smoothing=0.1"], 2, ["objective.smoothing"]),
            ("alignment-attention", ["optimizer.paths=decoder.self"], 2, ["optimizer.paths"]),
            ("attention-over-attention", ["data.tokens=characters"], 2, ["ask for words"]),
            ("attention-over-attention", ["cloze.letters=9"], 3, ["train", "no line has a word"]),
            ("intra-attention", ["model.cell=gru"], 2, ["model.cell"]),
            ("attention-over-attention", ["model.inner=4"], 2, ["model.inner", "does not go with"]),
            ("coattention", ["model.inner=4"], 2, ["model.inner", "does not go with"]),
        ]
        for model, settings, status, says in cases:
            with self.subTest(model=model, settings=settings):
                words = self.recipe(model)
                given = {setting.split("=")[0] for setting in settings}
                kept = [setting for setting in words[1::2] if setting.split("=")[0] not in given]
                words = [word for setting in kept + settings for word in ("--set", setting)]
                self.refused("attn-train", "r.toml", *words, status=status, says=says)

    def test_refused_data(self):
        words = self.recipe("structured-attention")
        (self.folder / "classes-valid.txt").write_text("vowel\tanna\nnone\tbert\n")
        self.refused("attn-train", "r.toml", *words, status=3,
                     says=["classes-valid.txt:2", "the class none"])
        words = self.recipe("coattention")
        for answer in ("2-1", "1-4", "-1-2", "1", "1-2x", ""):
            (self.folder / "spans-valid.txt").write_text(f"a b c\tq\t0-0\na b c d\tq\t{answer}\n")
            self.refused("attn-train", "r.toml", *words, status=3,
                         says=["spans-valid.txt:2", "expected two positions in 0 to 3"])
        (self.folder / "spans-valid.txt").write_text("a b c\tq\n")
        self.refused("attn-train", "r.toml", *words, status=3, says=["spans-valid.txt:1", "three columns"])
        words = self.recipe("decomposable-attention")
        (self.folder / "pairs-train.txt").write_text("a\tx\nb\tx\n")
        self.refused("attn-train", "r.toml", *words, status=3,
                     says=["pairs-train.txt", "the same target"])

    def test_plan(self):
        words = self.recipe("hard-attention")
        done = self.run_tool("attn-train", "r.toml", "-o", "run.h5", "--dry-run", "--json", *words)
        self.assertGreater(json.loads(done.out)["result"]["working_bytes"], 1000)


if __name__ == "__main__":
    unittest.main()
