"""Which tokens does my model ignore? Measured while the model runs, without storing its attention.

A small encoder learns to name the verb of a sentence. `observe` then measures the attention that each
word of new sentences receives, by layer and head. Softmax (unas) ignores the words that do not matter.
With the same queries and keys, doubly-normalised attention (dnas) ignores none of the L = 32 words: each
receives at least 1/L.
"""

import collections
import random
from typing import Callable, List, Sequence, Tuple

import torch
from torch import Tensor, nn

from attnkit.torch import observe

VERBS = "sold found painted lost bought followed heard built".split()
NOUNS = "sailor boat painter tower dog letter stranger garden".split()
ADJECTIVES = "old red quiet small broken distant".split()
WORDS = ["[verb?]", "the", "a", "near", *VERBS, *NOUNS, *ADJECTIVES]


Choose = Callable[[Sequence[str]], str]


def sentence(choose: Choose) -> List[str]:
    """Such as: [verb?] the old sailor near a red boat near … sold a small garden near the quiet tower …"""
    def things() -> List[str]:
        named = [[choose(["the", "a"]), choose(ADJECTIVES), choose(NOUNS)] for _ in range(4)]
        return [word for thing in named for word in ["near", *thing]][1:]
    return ["[verb?]", *things(), choose(VERBS), *things()]


def batch(size: int, choose: Choose) -> Tuple[Tensor, Tensor]:
    """Token ids (size, L), and the numbers of the verbs."""
    sentences = [sentence(choose) for _ in range(size)]
    ids = torch.tensor([[WORDS.index(word) for word in words] for words in sentences])
    return ids, torch.tensor([VERBS.index(words[16]) for words in sentences])


class VerbFinder(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS), width)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)  # type: ignore[no-untyped-call]
        self.verb = nn.Linear(width, len(VERBS))

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.verb(self.encoder(self.words(ids))[:, 0])
        return logits


def trained(steps: int = 200) -> VerbFinder:
    choose = random.Random(0).choice
    model = VerbFinder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(steps):
        ids, verbs = batch(64, choose)
        loss = nn.functional.cross_entropy(model(ids), verbs)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.eval()


def main() -> None:
    torch.manual_seed(0)
    model = trained()
    ids, verbs = batch(16, random.Random(1).choice)
    with observe(model, tokenizer=WORDS, epsilon=0.03, top=3) as seen, torch.no_grad():
        right = (model(ids).argmax(-1) == verbs).sum()
    print(f"The model names {right} of {len(verbs)} verbs.")
    print(seen.summary())
    words = collections.Counter(seen.ignored()["token"])
    print("Most often ignored:", ", ".join(f"{word} ×{count}" for word, count in words.most_common(5)))


if __name__ == "__main__":
    main()
