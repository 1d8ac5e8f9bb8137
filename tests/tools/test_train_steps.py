"""lib/train against PyTorch: 20 steps of a small model, written here from the formulas, from the same
start and on the same batches, which the program train-steps prints."""

import importlib.util
import json
import math
import subprocess
import sys
import unittest

from attn import BIN, LONG, sample

WITHOUT_TORCH = importlib.util.find_spec("torch") is None
if WITHOUT_TORCH:
    print("test_train_steps: no torch for this Python, so only the program is run", file=sys.stderr)
else:
    import torch
    from torch.nn import functional

HEADS, SHARE, ITERATIONS, SMOOTHING, GAMMA, REACH = 3, 0.3, 3, 0.1, 0.7, 2


def program(*words):
    done = subprocess.run([str(BIN.parent / "train-steps"), *words], capture_output=True, check=True)
    return json.loads(done.stdout)


class Model:
    """The Transformer of SYSTEMS-style formulas on one sequence at a time, so without padding."""

    def __init__(self, start, words, kind):
        self.objective, self.scheme, self.rule, self.order, self.activation, _ = words
        self.weights = {name: torch.tensor(one["values"], dtype=kind).reshape(one["shape"])
                        .requires_grad_() for name, one in start.items()}
        self.decays = {name for name, one in start.items() if one["decays"]}

    def norm(self, name, x):
        return functional.layer_norm(x, x.shape[-1:], self.weights[f"{name}_gain"],
                                     self.weights[f"{name}_shift"], 1e-5)

    def probabilities(self, scores, scheme, share):
        if scheme == "unas":
            return torch.softmax(scores, -1)
        if scheme == "fenchel":
            return torch.softmax(scores + share, -1)
        if scheme == "transport":
            place = torch.arange(scores.shape[-1], dtype=scores.dtype)
            cost = ((place[:, None] - place) / REACH)**2
            # (head, query, target, source)
            sent = torch.softmax((scores[..., :, None] - cost) / GAMMA, -2)
            preference = torch.softmax(share.masked_fill(torch.isinf(scores), -math.inf), -1)
            return (torch.nan_to_num(sent) * preference[..., None, :]).sum(-1)
        if scheme == "sinkhorn":
            queries, keys = scores.shape[-2:]
            row = torch.zeros(scores.shape[:-1], dtype=scores.dtype)
            for _ in range(ITERATIONS):
                column = torch.logsumexp(scores - row[..., None], -2) - math.log(queries / keys)
                row = torch.logsumexp(scores - column[..., None, :], -1)
            return torch.exp(scores - column[..., None, :] - row[..., None])
        dnas = torch.softmax(scores, -2)
        dnas = dnas / dnas.sum(-1, keepdim=True)
        return dnas if scheme == "dnas" else share * dnas + (1 - share) * torch.softmax(scores, -1)

    def attention(self, prefix, x, y, scheme, causal):
        def heads(name, rows):
            made = rows @ self.weights[prefix + name].T
            return made.reshape(len(rows), HEADS, -1).transpose(0, 1)
        q, k, v = heads("wq", x), heads("wk", y), heads("wv", y)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones(len(x), len(y)).triu(1).bool(), -math.inf)
        share = None
        if scheme in ("fenchel", "transport"):
            share = self.weights[prefix + "log_preference"][:len(y)]
        if scheme == "hnas":
            share = torch.sigmoid(self.weights[prefix + "rho"])[:, None, None]
        out = self.probabilities(scores, scheme, share) @ v
        return out.transpose(0, 1).reshape(len(x), -1) @ self.weights[prefix + "wo"].T

    def feed_forward(self, prefix, x):
        inner = x @ self.weights[prefix + "w1"].T + self.weights[prefix + "b1"]
        inner = functional.gelu(inner) if self.activation == "gelu" else functional.relu(inner)
        return inner @ self.weights[prefix + "w2"].T + self.weights[prefix + "b2"]

    def around(self, name, x, layer):
        if self.order == "pre":
            return x + layer(self.norm(name, x))
        return self.norm(name, x + layer(x))

    def stack(self, prefix, group, tokens, scheme, causal, memory=None):
        x = self.weights[f"{prefix}embedding/tokens"][tokens]
        positions = self.weights.get(f"{prefix}embedding/positions")
        if positions is None:
            width, place = x.shape[-1], torch.arange(len(tokens), dtype=torch.float64)[:, None]
            angle = place / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
            positions = torch.stack([angle.sin(), angle.cos()], -1).reshape(len(tokens), width)
        x = x + positions[:len(tokens)].to(x.dtype)
        for n in range(2):
            layer = f"{prefix}layer{n}/"
            if scheme != "none":
                x = self.around(layer + "norm/self", x,
                                lambda y: self.attention(layer + group, y, y, scheme, causal))
            if memory is not None:
                x = self.around(layer + "norm/cross", x, lambda y: self.attention(
                    layer + "cross/", y, memory, "unas", False))
            x = self.around(layer + "norm/ffn", x, lambda y: self.feed_forward(layer + "ffn/", y))
        return self.norm(f"{prefix}norm/last", x) if self.order == "pre" else x

    def rows(self, slot):
        """The last rows of all sequences of a slot, by their number in it."""
        found, length = {}, slot["input"]["length"]
        for n, own in enumerate(slot["input"]["lengths"]):
            tokens = slot["input"]["tokens"][n * length:n * length + own]
            if self.objective == "pairs":
                source = slot["source"]
                first = n * source["length"]
                memory = self.stack("encoder/", "self/",
                                    source["tokens"][first:first + source["lengths"][n]],
                                    self.scheme, False)
                last = self.stack("decoder/", "self/", tokens, "unas", True, memory)
            else:
                last = self.stack("", "", tokens, self.scheme, self.objective == "lm")
            found |= {n * length + i: row for i, row in enumerate(last)}
        return found

    def loss(self, batch):
        matrix = self.weights.get("softmax", self.weights.get("embedding/tokens"))
        sums, count = 0, 0
        for slot in batch:
            if not slot["rows"]:
                continue
            rows = self.rows(slot)
            logits = torch.stack([rows[row] for row in slot["rows"]]) @ matrix.T
            logits = logits + self.weights["softmax_bias"]
            smoothing = SMOOTHING if self.objective == "pairs" else 0
            sums = sums + functional.cross_entropy(logits, torch.tensor(slot["targets"]),
                                                   reduction="sum", label_smoothing=smoothing)
            count += len(slot["targets"])
        return sums / count

    def train(self, batches):
        matrices = [w for name, w in self.weights.items() if name in self.decays]
        others = [w for name, w in self.weights.items() if name not in self.decays]
        groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}]
        if self.rule == "sgd":
            optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
        elif self.rule == "adam":
            optimizer = torch.optim.AdamW(groups, lr=1e-3)
        else:
            optimizer = Lamb(groups)
        losses = []
        for batch in batches:
            optimizer.zero_grad()
            loss = self.loss(batch)
            losses.append(loss.item())
            loss.backward()
            norm = torch.sqrt(sum((w.grad.double() ** 2).sum() for w in self.weights.values()))
            if norm > 1:
                for w in self.weights.values():
                    w.grad /= norm
            optimizer.step()
        return losses


class Lamb:
    """LAMB as You et al. (2020) print it; PyTorch has none."""

    def __init__(self, groups):
        self.groups, self.number, self.moments = groups, 0, {}

    def zero_grad(self):
        for group in self.groups:
            for w in group["params"]:
                w.grad = None

    @staticmethod
    def trust(weight, step):
        return weight / step if weight > 0 and step > 0 else 1

    def step(self):
        self.number += 1
        for group in self.groups:
            for w in group["params"]:
                m, v = self.moments.get(id(w), (0, 0))
                m, v = 0.9 * m + 0.1 * w.grad, 0.999 * v + 0.001 * w.grad ** 2
                self.moments[id(w)] = m, v
                r = m / (1 - 0.9 ** self.number) / (
                    (v / (1 - 0.999 ** self.number)).sqrt() + 1e-6) + group["weight_decay"] * w.data
                w.data -= 1e-3 * self.trust(w.data.norm().item(), r.norm().item()) * r


class TrainSteps(unittest.TestCase):

    CASES = [
        ("lm", "unas", "sgd", "post", "relu"), ("lm", "unas", "adam", "pre", "gelu"),
        ("lm", "dnas", "adam", "post", "gelu"), ("lm", "hnas", "lamb", "post", "relu"),
        ("lm", "sinkhorn", "sgd", "pre", "relu"), ("masked", "unas", "lamb", "pre", "gelu"),
        ("masked", "dnas", "sgd", "post", "gelu"), ("masked", "hnas", "adam", "post", "gelu"),
        ("masked", "sinkhorn", "adam", "post", "relu"), ("pairs", "unas", "adam", "post", "relu"),
        ("pairs", "dnas", "sgd", "pre", "gelu"), ("pairs", "hnas", "sgd", "post", "relu"),
        ("pairs", "sinkhorn", "lamb", "post", "relu"), ("lm", "none", "adam", "post", "gelu"),
        ("masked", "none", "sgd", "pre", "relu"), ("pairs", "none", "adam", "post", "relu"),
        ("lm", "fenchel", "adam", "pre", "gelu"),
        ("masked", "transport", "sgd", "post", "relu"), ("lm", "transport", "adam", "pre", "gelu"),
        ("pairs", "transport", "sgd", "pre", "relu"),
    ]

    def test_the_program_runs(self):
        found = program("lm", "unas", "sgd", "post", "relu", "f64")
        self.assertEqual(len(found["losses"]), 20)
        self.assertTrue(all(0 < loss < 10 for loss in found["losses"]))

    @unittest.skipIf(WITHOUT_TORCH, "torch is not installed")
    def test_losses_are_those_of_pytorch(self):
        # In short runs one precision for a case, and the other one for the next.
        limits = (("f64", 1e-10), ("f32", 1e-5))
        for place, case in enumerate(sample(self.CASES, 6)):
            for precision, limit in limits if LONG else [limits[place % 2]]:
                words = (*case, precision)
                with self.subTest(words=words):
                    found = program(*words)
                    kind = torch.float64 if precision == "f64" else torch.float32
                    losses = Model(found["start"], words, kind).train(found["batches"])
                    worst = max(abs(a - b) for a, b in zip(losses, found["losses"], strict=True))
                    self.assertLessEqual(worst, limit)


if __name__ == "__main__":
    unittest.main()
