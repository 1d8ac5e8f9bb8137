"""PyTorch's training step of the model of train_worker.cpp, with the same arguments; the scheme is
softmax. Freed memory is kept, if MALLOC_MMAP_MAX_ and MALLOC_TRIM_THRESHOLD_ are set."""

import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional

_, layers, width, inner, sequences, length, vocabulary, threads, steps = map(
    int, ["0", *sys.argv[2:]])
HEADS = 4
torch.set_num_threads(threads)
torch.manual_seed(0)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.joined = nn.Linear(width, width, bias=False)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)

    def attention(self, x, mask):
        heads = (part.view(sequences, length, HEADS, -1).transpose(1, 2).flatten(0, 1)
                 for part in self.qkv(x).split(width, -1))
        q, k, v = heads
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(q.shape[-1]))
        out = torch.bmm(torch.softmax(scores, -1), v).view(sequences, HEADS, length, -1)
        return self.joined(out.transpose(1, 2).reshape(sequences, length, width))

    def forward(self, x, mask):
        x = self.norms[0](x + self.attention(x, mask))
        return self.norms[1](x + self.outer(functional.relu(self.inner(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.out = nn.Linear(width, vocabulary)

    def forward(self, x, mask):
        rows = self.tokens(x) + self.positions
        for layer in self.layers:
            rows = layer(rows, mask)
        return self.out(rows)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
mask = torch.full((length, length), -math.inf).triu(1)
inputs, targets = torch.randint(0, vocabulary, (2, sequences, length))
loss = None
for _ in range(steps):
    begun = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss = functional.cross_entropy(model(inputs, mask).view(-1, vocabulary), targets.view(-1))
    loss.backward()
    optimizer.step()
    print(f"{time.perf_counter() - begun:.9f}")
print(f"{loss.item():.6f}")
