"""Sinkhorn in the log domain by PyTorch, for many problems at once: as one writes it
(sinkhorn-batch-plain), or the fastest of the ways below. Scores beside their transposed, since sums
over an axis that is not the last take longer.

Small problems (bulk) also by factors of exponentials, as the library solves them: problem by
problem, or with the problems along the last axis, where PyTorch uses vectors.
"""

from concurrent.futures import ThreadPoolExecutor

import torch
from worker import THREADS, serve

POOL = ThreadPoolExecutor(THREADS, initializer=lambda: torch.set_num_threads(1))
torch.set_num_threads(THREADS)


def whole(scores, iterations):
    row = torch.zeros(scores.shape[:-1])
    for _ in range(iterations):
        col = torch.logsumexp(scores - row.unsqueeze(-1), -2)
        row = torch.logsumexp(scores - col.unsqueeze(-2), -1)
    return row, col


def transposed(scores, iterations):
    flipped = scores.mT.contiguous()
    row = torch.zeros(scores.shape[:-1])
    for _ in range(iterations):
        col = torch.logsumexp(flipped - row.unsqueeze(-2), -1)
        row = torch.logsumexp(scores - col.unsqueeze(-2), -1)
    return row, col


def in_place(scores, iterations):
    """One buffer for all differences, with explicitly computed maxima."""
    flipped = scores.mT.contiguous()
    room = torch.empty_like(scores)
    row = torch.zeros(scores.shape[:-1])

    def log_sum(of, other):
        torch.sub(of, other.unsqueeze(-2), out=room)
        most = room.amax(-1, keepdim=True)
        return room.sub_(most).exp_().sum(-1).log_().add_(most.squeeze(-1))

    for _ in range(iterations):
        col = log_sum(flipped, row)
        row = log_sum(scores, col)
    return row, col


def scaled(scores, iterations):
    """The plans, by factors."""
    kernel = torch.exp(scores - scores.amax((-1, -2), keepdim=True))
    row = torch.ones(scores.shape[:-1])
    for _ in range(iterations):
        col = 1 / torch.einsum("pij,pi->pj", kernel, row)
        row = 1 / torch.einsum("pij,pj->pi", kernel, col)
    return kernel * row.unsqueeze(-1) * col.unsqueeze(-2)


def scaled_across(scores, iterations):
    kernel = torch.exp(scores - scores.amax((-1, -2), keepdim=True)).permute(1, 2, 0).contiguous()
    row = torch.ones(kernel.shape[0], 1, kernel.shape[2])
    for _ in range(iterations):
        col = (kernel * row).sum(0, keepdim=True).reciprocal_()
        row = (kernel * col).sum(1, keepdim=True).reciprocal_()
    return (kernel * row * col).permute(2, 0, 1).contiguous()


def by_logarithms(way):
    def plans(scores, iterations):
        row, col = way(scores, iterations)
        return torch.exp(scores - col.unsqueeze(-2) - row.unsqueeze(-1))

    return plans


BULK = {"by factors": scaled, "by factors, across problems": scaled_across,
        "by logarithms": by_logarithms(whole), "by logarithms, in place": by_logarithms(in_place)}


def bulk(scores, iterations, grad_plan):
    """The plans, or with `grad_plan` the gradients of its product with them."""
    def gradient(way, part, weights):
        part = part.requires_grad_()
        return torch.autograd.grad(way(part, iterations), part, weights)[0]

    # Pieces that stay in cache; each with the threads of PyTorch, or with one of ours.
    def in_pieces(way, pieces, each):
        if grad_plan is None:
            return {"plan": torch.cat(list(each(lambda part: way(part, iterations), scores.chunk(pieces)))).numpy()}
        parts = each(lambda both: gradient(way, *both), zip(scores.chunk(pieces), grad_plan.chunk(pieces)))
        return {"gradient": torch.cat(list(parts)).numpy()}

    # What computes in place has no gradient.
    return {f"{name}{how}": lambda way=way, pieces=pieces, each=each: in_pieces(way, pieces, each)
            for name, way in BULK.items() if grad_plan is None or "in place" not in name
            for how, pieces, each in (("", 1, map), (", in pieces", 100, map),
                                      (", by Python threads", 100, POOL.map))}


def prepare(problem):
    heads, length, _ = problem.shape
    scores = torch.from_numpy(problem.input("scores", shape=(heads, length, length)))
    iterations = problem.option("iterations", 1)
    if problem.scheme == "bulk":
        through = problem.option("gradient", 0) != 0
        return bulk(scores, iterations, torch.from_numpy(problem.input("grad_plan", shape=scores.shape)) if through else None)

    def answer(row, col):
        row, col = (-p.double() for p in (row, col))
        both = [p - p.mean(-1, keepdim=True) for p in (row, col)]
        return {"potentials": torch.cat(both, -1).numpy()}

    def at_once(way):
        return answer(*way(scores, iterations))

    def by_head(way):
        found = list(POOL.map(lambda head: way(head, iterations), scores))
        return answer(*(torch.stack(lines) for lines in zip(*found)))

    if problem.scheme == "sinkhorn-batch-plain":
        return {"as one writes it": lambda: at_once(whole)}
    with_names = {"as it is": whole, "transposed": transposed, "in place": in_place}
    return {f"{name}{how}": lambda way=way, each=each: each(way)
            for name, way in with_names.items()
            for how, each in (("", at_once), (", by Python threads", by_head))}


serve(prepare)
