"""PyTorch: the fastest of the variants below, which depends on the shape. Whole batches, with all
weights in memory, are slower than the fastest on every measured shape."""

from concurrent.futures import ThreadPoolExecutor

import torch
from worker import THREADS, blocks, parts, serve, sizes

POOL = ThreadPoolExecutor(THREADS, initializer=lambda: torch.set_num_threads(1))
torch.set_num_threads(THREADS)


def in_turn(task, items):
    return [task(item) for item in items]


def at_once(task, items):
    """A Python thread per CPU, with PyTorch's operators on one thread in each."""
    return list(POOL.map(task, items))


WAYS = {"": in_turn, ", by Python threads": at_once}


def softmax(each, q, k, v, size):
    """Blocks of queries with all keys."""
    out = torch.empty_like(q)
    scale = q.shape[2] ** -0.5

    def task(part):
        head, every = part
        with torch.no_grad():
            for rows in every:
                weights = torch.softmax(torch.mm(q[head, rows] * scale, k[head].T), 1)
                torch.mm(weights, v[head], out=out[head, rows])

    each(task, parts(len(q), q.shape[1], size))
    return {"out": out}


def doubly_normalised(each, q, k, v, size):
    """Blocks of keys with all queries: softmax over an axis other than the last is several times
    slower."""
    heads, length, depth = q.shape
    scale = depth**-0.5

    def task(part):
        head, every = part
        with torch.no_grad():
            product, total = torch.zeros(length, depth), torch.zeros(length, 1)
            for keys in every:
                weights = torch.softmax(torch.mm(k[head, keys] * scale, q[head].T), 1)
                product.addmm_(weights.T, v[head, keys])
                total += weights.sum(0).unsqueeze(1)
        return head, product, total

    out, totals = torch.zeros(heads, length, depth), torch.zeros(heads, length, 1)
    for head, product, total in each(task, parts(heads, k.shape[1], size)):
        out[head] += product
        totals[head] += total
    out /= totals
    return {"out": out}


def leaves(*tensors):
    return [tensor.detach().requires_grad_() for tensor in tensors]


def softmax_gradients(q, k, v, grad_out, size):
    """One head by autograd. Blocks of queries have separate graphs, so their weights stay in
    cache."""
    k, v = leaves(k, v)
    out, grad_q = torch.empty_like(q), torch.empty_like(q)
    for rows in blocks(len(q), size):
        (some,) = leaves(q[rows])
        product = torch.mm(torch.softmax(torch.mm(some * len(q[0]) ** -0.5, k.T), 1), v)
        product.backward(grad_out[rows])
        out[rows], grad_q[rows] = product.detach(), some.grad
    return out, grad_q, k.grad, v.grad


def doubly_normalised_gradients(q, k, v, grad_out, _):
    """One head by autograd, with its weights in memory: blocks would compute them twice, which is
    slower except for the longest heads."""
    q, k, v = leaves(q, k, v)
    weights = torch.softmax(torch.mm(k * len(q[0]) ** -0.5, q.T), 1)
    product = torch.mm(weights.T, torch.cat([v, torch.ones(len(v), 1)], 1))
    out = product[:, :-1] / product[:, -1:]
    out.backward(grad_out)
    return out.detach(), q.grad, k.grad, v.grad


def doubly_normalised_gradients_again(q, k, v, grad_out, size):
    """One head: forward by blocks of keys; then each block again, with autograd from the gradients
    of the sums to which it contributes."""
    scale = len(q[0]) ** -0.5
    product, total = torch.zeros_like(q), torch.zeros(len(q), 1)
    with torch.no_grad():
        for keys in blocks(len(k), size):
            weights = torch.softmax(torch.mm(k[keys] * scale, q.T), 1)
            product.addmm_(weights.T, v[keys])
            total += weights.sum(0).unsqueeze(1)
        out = product / total
        grad_product = grad_out / total
        grad_total = -(grad_product * out).sum(1, keepdim=True)
    (q,) = leaves(q)
    grad_k, grad_v = torch.empty_like(k), torch.empty_like(v)
    for keys in blocks(len(k), size):
        some_k, some_v = leaves(k[keys], v[keys])
        weights = torch.softmax(torch.mm(some_k * scale, q.T), 1)
        sums = [torch.mm(weights.T, some_v), weights.sum(0).unsqueeze(1)]
        torch.autograd.backward(sums, [grad_product, grad_total])
        grad_k[keys], grad_v[keys] = some_k.grad, some_v.grad
    return out, q.grad, grad_k, grad_v


def gradients(each, of_head, tensors, size):
    found = each(lambda head: of_head(*(t[head] for t in tensors), size), range(len(tensors[0])))
    names = ("out", "grad_q", "grad_k", "grad_v")
    return {name: torch.stack(heads) for name, heads in zip(names, zip(*found))}


FORWARD = {"unas": softmax, "dnas": doubly_normalised}
BACKWARD = {
    "unas": {"whole heads": (softmax_gradients, 1 << 30), "blocks of 512": (softmax_gradients, 512)},
    "dnas": {"whole heads": (doubly_normalised_gradients, 0),
             "blocks of 256": (doubly_normalised_gradients_again, 256)},
}


def prepare(problem):
    backward = problem.direction.startswith("backward")
    names = ["q", "k", "v", *["grad_out"] * backward]
    tensors = [torch.from_numpy(values) for values in problem.attention_inputs(*names)]
    row = tensors[0 if problem.scheme == "dnas" else 1].shape[1]
    variants = {}
    for how, each in WAYS.items():
        if not backward:
            attention = FORWARD[problem.scheme]
            for size in sizes(row):
                variants[f"blocks of {size}{how}"] = (
                    lambda each=each, size=size: attention(each, *tensors, size))
        else:
            for name, (of_head, size) in BACKWARD[problem.scheme].items():
                variants[f"{name}{how}"] = (
                    lambda each=each, of_head=of_head, size=size: gradients(each, of_head, tensors, size))
    return variants


serve(prepare)
