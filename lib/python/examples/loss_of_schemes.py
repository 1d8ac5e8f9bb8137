"""What do dnas and a learned u do to a loss? The same small encoder learns under unas, dnas and hnas.

Some letters of a text are hidden, and the encoder names them from the letters on both sides. A decoder
would be wrong here: dnas normalises over all queries, so causal dnas sees the letters that it predicts.

Without --text, the text is made up: each line repeats three words that are made for this line. To name a
letter, the encoder must find the same word elsewhere in the line. Under hnas, each head learns its share u
of dnas. All schemes start from the same weights and read the same letters. For a model of your own, copy
the lines that are marked with (1), (2) and (3).
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from attnkit.torch import Attention

HEADS, LAYERS, SIZE, FEED, LENGTH = 4, 2, 64, 128, 48
SEEDS, BATCH, HIDDEN, RATE = 3, 16, 0.15, 5e-3
SCHEMES: Dict[str, Dict[str, Any]] = {"unas": {}, "dnas": {}, "hnas": {"hybrid": "learned", "heads": HEADS}}


class Layer(nn.Module):
    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.attention = Attention(scheme, **SCHEMES[scheme])  # (1) "hnas", hybrid="learned", heads=4
        self.qkv = nn.Sequential(nn.LayerNorm(SIZE), nn.Linear(SIZE, 3 * SIZE))
        self.out = nn.Linear(SIZE, SIZE)
        self.mlp = nn.Sequential(nn.LayerNorm(SIZE), nn.Linear(SIZE, FEED), nn.ReLU(), nn.Linear(FEED, SIZE))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).transpose(1, 3).unbind(2)
        found = self.attention(q, k, v)  # (2) all four are (batch, heads, length, depth)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        x = x + self.mlp(x)
        return x


class Encoder(nn.Module):
    def __init__(self, scheme: str, letters: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(1 + letters, SIZE)  # the first is for hidden letters
        self.neighbours = nn.Conv1d(SIZE, SIZE, 3, padding=1)  # tells where in a word a letter is
        self.layers = nn.Sequential(*(Layer(scheme) for _ in range(LAYERS)))
        self.scores = nn.Sequential(nn.LayerNorm(SIZE), nn.Linear(SIZE, letters))

    def loss(self, text: Tensor, count: int, draw: Optional[torch.Generator] = None) -> Tensor:
        """The loss of the hidden letters in `count` pieces of a text."""
        letters = text[torch.randint(len(text) - LENGTH, (count, 1), generator=draw) + torch.arange(LENGTH)]
        hides = torch.rand(letters.shape, generator=draw) < HIDDEN
        x = self.letters((1 + letters).masked_fill(hides, 0))
        x = self.neighbours(x.transpose(1, 2)).transpose(1, 2)
        return nn.functional.cross_entropy(self.scores(self.layers(x))[hides], letters[hides])


def train(scheme: str, text: Tensor, steps: List[int], seed: int) -> Tuple[List[float], Tensor]:
    """The validation losses at some steps, and the u (layers, heads) at the last of them, if learned."""
    torch.manual_seed(seed)  # the same weights and letters under all schemes
    model = Encoder(scheme, int(text.max()) + 1)
    # At the rate of the weights, u would hardly move in so few steps.
    optimizer = torch.optim.Adam([{"params": [parameter], "lr": RATE * (10 if "hybrid_logit" in name else 1)}
                                  for name, parameter in model.named_parameters()])
    split, losses = len(text) * 9 // 10, []
    for step in range(steps[-1] + 1):
        if step > 0:
            optimizer.zero_grad()
            model.loss(text[:split], BATCH).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if step in steps:
            with torch.no_grad():
                losses.append(model.loss(text[split:], 64, torch.Generator().manual_seed(0)).item())
    learned = [layer.attention.u.tolist() for layer in model.layers if scheme == "hnas"]  # (3) u by head
    return losses, torch.tensor(learned)


def report(steps: List[int], losses: Dict[str, Tensor], u: Tensor) -> None:
    """Prints losses (seeds, steps) by scheme, how far they are from unas, and u (seeds, layers, heads)."""
    def spread(of_seeds: Tensor) -> str:
        return f"{of_seeds.mean():.3f} ({of_seeds.min():.3f} to {of_seeds.max():.3f})"
    print(f"Validation loss in nats per hidden letter: mean of {SEEDS} seeds (least to largest)")
    print("step" + "".join(f"{scheme:>25}" for scheme in losses))
    for at in sorted({0, *range(len(steps) - 1, 0, -4)}):
        print(f"{steps[at]:4}" + "".join(f"{spread(one[:, at]):>25}" for one in losses.values()))
    for scheme in ("dnas", "hnas"):
        change = losses[scheme] - losses["unas"]
        for when, one in ("on average over steps", change.mean(1)), (f"at step {steps[-1]}", change[:, -1]):
            signs = "all of one sign" if (one > 0).all() or (one < 0).all() else "of both signs, as noise is"
            print(f"{scheme} - unas {when}: {spread(one)}, {signs}")
    print(f"(By chance alone, {SEEDS} differences are all of one sign in 1 of {2 ** (SEEDS - 1)} cases.)")
    print("u by head, a line for each seed\n" + "".join(f"{f'layer {layer}':>22}" for layer in range(LAYERS)))
    for layers in u.tolist():
        print("".join("   " + " ".join(f"{share:.2f}" for share in heads) for heads in layers))


def plot(path: str, steps: List[int], losses: Dict[str, Tensor], u: Tensor) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.4), layout="constrained")
    looks = ("#D55E00", "-"), ("#0072B2", "--"), ("#009E73", "-.")  # safe for colour-blind readers
    for (scheme, one), (colour, dashes) in zip(losses.items(), looks):
        left.plot(steps, one.mean(0), color=colour, linestyle=dashes, label=scheme)
        left.fill_between(steps, one.amin(0), one.amax(0), color=colour, alpha=0.15, linewidth=0)
    names = [f"{layer}.{head}" for layer in range(LAYERS) for head in range(HEADS)]
    right.axhline(0.5, color="#777777", linestyle=":", linewidth=1, label="start")
    right.plot(names * SEEDS, u.flatten(), "o", color="#009E73", alpha=0.6, label="a seed")
    left.set(xlabel="step", ylabel="validation loss (nats per letter)")
    right.set(xlabel="layer.head", ylabel="learned u, the share of dnas", ylim=(0, 1))
    for axis, title in (left, f"mean and range of {SEEDS} seeds"), (right, f"hnas after {steps[-1]} steps"):
        axis.legend(title=title, ncol=3, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1))
    figure.savefig(path, dpi=150)


def made_up_text() -> str:
    draw, alphabet = random.Random(0), "abcdefghijklmnopqrstuvwxyz"
    lines = [["".join(draw.sample(alphabet, 4)) for _ in range(3)] for _ in range(800)]
    return "\n".join(" ".join(draw.choices(words, k=50)) for words in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the same encoder under unas, dnas and hnas.")
    parser.add_argument("--steps", type=int, default=400, help="the steps of a run (default: 400)")
    parser.add_argument("--seed", type=int, default=0, help=f"the first of {SEEDS} seeds (default: 0)")
    parser.add_argument("--text", metavar="FILE", help="a text in UTF-8 (default: one that is made up)")
    parser.add_argument("--plot", metavar="FILE", help="where to draw the losses and u, such as in loss.png")
    options = parser.parse_args()
    text = Path(options.text).read_text("utf-8") if options.text else made_up_text()
    if len(text) < 20 * LENGTH or options.steps < 1:
        parser.error(f"expected --steps of 1 or more, and a --text of {20 * LENGTH} or more letters")
    torch.set_num_threads(1)  # the arrays are too small for more
    ids = torch.tensor([*map(sorted(set(text)).index, text)])
    steps = sorted({*range(0, options.steps, -(-options.steps // 20)), options.steps})
    runs = {scheme: [train(scheme, ids, steps, options.seed + n) for n in range(SEEDS)] for scheme in SCHEMES}
    losses = {scheme: torch.tensor([one for one, _ in found]) for scheme, found in runs.items()}
    u = torch.stack([one for _, one in runs["hnas"]])
    report(steps, losses, u)
    if options.plot:
        try:
            plot(options.plot, steps, losses, u)
        except ImportError as missing:
            print(f"There is no plot: {missing}")


if __name__ == "__main__":
    main()
