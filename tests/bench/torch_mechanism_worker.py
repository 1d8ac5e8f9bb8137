"""Mechanisms by PyTorch, for the problems of mechanism_worker.cpp: the fastest of the ways below,
or, for a scheme that ends in -cells, a Python loop of cells.

LSTMN: tapes that are there beforehand, with each state's projection computed once. Autograd would
keep the tanh of all pairs of steps; so gradients are written out, and need memory for one step's.
Coattention: autograd, with LSTM loops of PyTorch's own.
"""

from concurrent.futures import ThreadPoolExecutor

import torch
from worker import THREADS, serve

POOL = ThreadPoolExecutor(THREADS, initializer=lambda: torch.set_num_threads(1))
torch.set_num_threads(THREADS)
BLOCK = 4096  # places of a tape


def lstmn(x, w_h, w_x, w_prev, v, w, b, block: int):
    """The tapes [h, c] and W_h h, and what the backward pass reads. Blocks of `block` places fit a
    core's cache."""
    steps, width = x.shape[0], w_h.shape[1]
    queries, gates = x @ w_x.T, torch.addmm(b, x, w[:, width:].T)
    of_state = w[:, :width].contiguous()
    tape = torch.empty(steps, w_h.shape[0])
    states, means = torch.empty(steps, 2 * width), torch.zeros(steps, 2 * width)
    room, energies = torch.empty(block, w_h.shape[0]), torch.empty(steps)
    for t in range(steps):
        query = queries[t]
        mean = means[t]
        if t > 0:
            query.addmv_(w_prev, means[t - 1, :width])
            for first in range(0, t, block):
                last = min(first + block, t)
                hidden = room[:last - first]
                torch.add(tape[first:last], query, out=hidden)
                torch.mv(hidden.tanh_(), v, out=energies[first:last])
            torch.mv(states[:t].T, torch.softmax(energies[:t], 0), out=mean)
        gate = gates[t].addmv_(of_state, mean[:width])
        gate[:3 * width].sigmoid_()
        gate[3 * width:].tanh_()
        i, f, o, candidate = gate.view(4, width).unbind(0)
        h, c = states[t].view(2, width).unbind(0)
        torch.addcmul(i * candidate, f, mean[width:], out=c)
        torch.mul(o, torch.tanh(c), out=h)
        torch.mv(w_h, h, out=tape[t])
    return queries, gates, tape, states, means


def lstmn_gradients(x, w_h, w_x, w_prev, v, w, b, grad_h, block: int):
    queries, gates, tape, states, means = lstmn(x, w_h, w_x, w_prev, v, w, b, block)
    steps, width, inner = x.shape[0], w_h.shape[1], w_h.shape[0]
    of_state, of_mean = w[:, :width].T.contiguous(), w_prev.T.contiguous()
    of_projection = w_h.T.contiguous()
    # Gradients of the energies by place, and of their slopes: W_h h gets v (energies - squares).
    grad_energies, grad_squares = torch.zeros(steps), torch.zeros(steps, inner)
    grad_states, grad_queries = torch.zeros(steps, 2 * width), torch.zeros(steps, inner)
    grad_states[:, :width] = grad_h
    grad_tape, grad_v = torch.empty(steps, inner), torch.zeros(inner)
    room, energies = torch.empty(steps, inner), torch.empty(steps)
    for back in range(steps):
        t = steps - 1 - back
        torch.mul(v, grad_energies[t] - grad_squares[t], out=grad_tape[t])
        grad = grad_states[t]
        grad[:width].addmv_(of_projection, grad_tape[t])
        i, f, o, candidate = gates[t].view(4, width).unbind(0)
        mean, tanh_c = means[t], torch.tanh(states[t, width:])
        grad_o = grad[:width] * tanh_c
        grad_c = grad[width:] + grad[:width] * o * (1 - tanh_c * tanh_c)
        grad_mean = torch.empty(2 * width)
        torch.mul(grad_c, f, out=grad_mean[width:])
        gates[t] = torch.cat((grad_c * candidate * i * (1 - i), grad_c * mean[width:] * f * (1 - f),
                              grad_o * o * (1 - o), grad_c * i * (1 - candidate * candidate)))
        torch.mv(of_state, gates[t], out=grad_mean[:width])
        if t + 1 < steps:
            grad_mean[:width].addmv_(of_mean, grad_queries[t + 1])
        if t == 0:
            break
        hidden = room[:t]
        for first in range(0, t, block):
            last = min(first + block, t)
            torch.add(tape[first:last], queries[t], out=hidden[first:last])
            torch.mv(hidden[first:last].tanh_(), v, out=energies[first:last])
        weights = torch.softmax(energies[:t], 0)
        grad_weights = torch.mv(states[:t], grad_mean)
        grad_states[:t].addr_(weights, grad_mean)
        grad_scores = weights * (grad_weights - torch.dot(mean, grad_mean))
        grad_energies[:t] += grad_scores
        squares = torch.zeros(inner)
        column = grad_scores.unsqueeze(1)
        for first in range(0, t, block):
            last = min(first + block, t)
            part, own = hidden[first:last], grad_scores[first:last]
            grad_v.addmv_(part.T, own)
            part.mul_(part)
            squares.addmv_(part.T, own)
            grad_squares[first:last].addcmul_(part, column[first:last])
        torch.mul(v, grad_scores.sum() - squares, out=grad_queries[t])
    before = torch.zeros(steps, width)
    before[1:] = means[:-1, :width]
    grad_w = torch.cat((gates.T @ means[:, :width], gates.T @ x), 1)
    return (gates @ w[:, width:] + grad_queries @ w_x, grad_tape.T @ states[:, :width],
            grad_queries.T @ x, grad_queries.T @ before, grad_v, grad_w, gates.sum(0))


LSTMN = ("x", "w_h", "w_x", "w_prev", "v", "w", "b")


def prepare_lstmn(problem, cells):
    steps, width, inputs = problem.shape
    shapes = {"x": (steps, inputs), "w_h": (width, width), "w_x": (width, inputs),
              "w_prev": (width, width), "v": (width,), "w": (4 * width, width + inputs),
              "b": (4 * width,), "grad_out": (steps, width)}
    backward = problem.direction == "backward"
    tensors = [torch.from_numpy(problem.input(name, shape=shapes[name]))
               for name in LSTMN + (("grad_out",) if backward else ())]

    def run(way, block):
        with torch.no_grad():
            found = way(*tensors, block)
        if not backward:
            return {"out": found[3][:, :width].numpy()}
        return {f"grad_{name}": grad.numpy() for name, grad in zip(LSTMN, found)}

    way = lstmn_gradients if backward else lstmn
    if cells:
        return {"loop of cells": lambda: run(way, steps)}
    scripted = torch.jit.script(way)
    variants = {"blocks": lambda: run(scripted, BLOCK)}
    if steps < 2 * BLOCK:  # beyond, it is slower for certain
        variants["whole"] = lambda: run(scripted, steps)
    return variants


class Encoder:
    """Coattention, with the states of a sequence by `states`."""

    def __init__(self, tensors, states):
        self.at, self.states = tensors, states

    def weights(self, name):
        w, b = self.at["w" + name], self.at["b" + name]
        width = len(b) // 4
        # PyTorch's rows are i, f, c, o.
        order = torch.arange(4 * width).view(4, width)[[0, 1, 3, 2]].flatten()
        w = w[order]
        return w[:, width:], w[:, :width], b[order], torch.zeros(4 * width)

    def __call__(self):
        at = self.at
        document, question = self.states(
            [(at["document"], self.weights("")), (at["question"], self.weights(""))])
        d = torch.cat((document, at["sentinel_d"]))
        q = torch.tanh(torch.addmm(at["b_question"], torch.cat((question, at["sentinel_q"])),
                                   at["w_question"].T))
        scores = q @ d.T
        summaries = torch.cat((q, torch.softmax(scores, 1) @ d), 1)
        context = torch.softmax(scores.T, 1) @ summaries
        joined = torch.cat((document, context[:-1]), 1)
        left, right = self.states([(joined, self.weights("_forward")),
                                   (joined.flip(0), self.weights("_backward"))])
        return torch.cat((left, right.flip(0)), 1)


def by_cells(sequence):
    x, weights = sequence
    h = c = torch.zeros(1, weights[1].shape[1])
    states = []
    for row in x.split(1):
        h, c = torch.lstm_cell(row, (h, c), *weights)
        states.append(h)
    return torch.cat(states)


def by_lstm(sequence):
    """What nn.LSTM calls."""
    x, weights = sequence
    zero = torch.zeros(1, 1, weights[1].shape[1])
    return torch.lstm(x.unsqueeze(1), (zero, zero), weights, True, 1, 0.0, False, False,
                      False)[0].squeeze(1)


def prepare_coattention(problem, cells):
    document, question, width = problem.shape
    gates = (4 * width, 4 * width)
    shapes = {"document": (document, width), "question": (question, width),
              "w": (4 * width, 2 * width), "b": gates[:1], "sentinel_d": (1, width),
              "sentinel_q": (1, width), "w_question": (width, width), "b_question": (width,),
              "w_forward": gates, "b_forward": gates[:1], "w_backward": gates,
              "b_backward": gates[:1]}
    backward = problem.direction == "backward"
    tensors = {name: torch.from_numpy(problem.input(name, shape=shape)).requires_grad_(backward)
               for name, shape in shapes.items()}
    grad_out = problem.input("grad_out", shape=(document, 2 * width)) if backward else None

    def run(states):
        encoder = Encoder(tensors, states)
        if not backward:
            with torch.no_grad():
                return {"out": encoder().numpy()}
        found = torch.autograd.grad(encoder(), list(tensors.values()), torch.from_numpy(grad_out))
        return {f"grad_{name}": grad.numpy() for name, grad in zip(tensors, found)}

    def one_by_one(way):
        return lambda sequences: list(map(way, sequences))

    if cells:
        return {"loop of cells": lambda: run(one_by_one(by_cells))}
    variants = {"torch.lstm": lambda: run(one_by_one(by_lstm))}
    if not backward:  # autograd would keep to one thread
        variants["torch.lstm, by Python threads"] = lambda: run(
            lambda sequences: list(POOL.map(without_gradients, sequences)))
    return variants


def without_gradients(sequence):
    with torch.no_grad():
        return by_lstm(sequence)


def prepare(problem):
    scheme, _, cells = problem.scheme.partition("-")
    return {"lstmn": prepare_lstmn, "coattention": prepare_coattention}[scheme](problem, cells)


serve(prepare)
