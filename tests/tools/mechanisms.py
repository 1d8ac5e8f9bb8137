"""Plain evaluations of the mechanisms, one sequence at a time, and random problems for them."""

import functools

import numpy as np


def softmax(scores, axis=-1):
    if scores.size == 0:
        return scores
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def structured(x, w1, w2):
    weights = softmax(w2 @ np.tanh(w1 @ x.T))
    overlap = weights @ weights.T
    hops = len(w2)
    rest = overlap.sum() - np.trace(overlap)
    return {"out": weights @ x, "weights": weights, "overlap": overlap,
            "penalty": ((overlap - np.eye(hops))**2).sum(), "diagonal": np.trace(overlap) / hops,
            "off_diagonal": rest / (hops * (hops - 1)) if hops > 1 else 0.0}


def decomposable(a, b, **weights):
    def net(name, x, cuts):
        hidden = np.maximum(x @ weights[f"{name}1"].T + weights.get(f"{name}1_bias", 0), 0)
        result = hidden @ weights[f"{name}2"].T + weights.get(f"{name}2_bias", 0)
        return np.maximum(result, 0) if cuts else result

    energies = net("f", a, True) @ net("f", b, True).T
    weights_a, weights_b = softmax(energies), softmax(energies.T)
    beta, alpha = weights_a @ b, weights_b @ a
    sums = [net("g", np.hstack([x, y]), True).sum(axis=0) for x, y in ((a, beta), (b, alpha))]
    return {"scores": net("h", np.concatenate(sums), False), "beta": beta, "alpha": alpha,
            "weights_a": weights_a, "weights_b": weights_b}


def over_attention(document, question, words=None):
    energies = document @ question.T
    weights_d, weights_q = softmax(energies, axis=0), softmax(energies)
    beta = weights_q.mean(axis=0) if len(document) else np.zeros(len(question))
    s = weights_d @ beta
    found = {"s": s, "beta": beta, "weights_d": weights_d, "weights_q": weights_q}
    if words is not None:
        found["p"] = np.array([s[words == word].sum() for word in words])
    return found


def hard_attention(a, state, w_a, w_h, v, readout, target, readout_bias=0):
    def log_p(z):
        scores = readout @ z + readout_bias
        return scores[target] - scores.max() - np.log(np.exp(scores - scores.max()).sum())

    weights = softmax(np.tanh(a @ w_a.T + w_h @ state) @ v)
    each = np.array([log_p(one) for one in a])
    return {"log_p": weights @ each, "log_p_soft": log_p(weights @ a), "log_p_each": each,
            "entropy": -weights @ np.log(weights), "weights": weights}


def intra_attention(x, w_h, w_x, w_prev, v, w, b=0, fusion="none", **source):
    steps, width = len(x), w_h.shape[1]
    h, c, weights = np.zeros((steps, width)), np.zeros((steps, width)), np.zeros((steps, steps))
    h_mean, fused, source_weights = np.zeros(width), [], []
    if fusion != "none":
        places, width_of_source = source["source_h"].shape
        source_mean = np.zeros(width_of_source)
    for t in range(steps):
        s = softmax(np.tanh(h[:t] @ w_h.T + w_x @ x[t] + w_prev @ h_mean) @ v)
        weights[t, :t] = s
        h_mean, c_mean = s @ h[:t], s @ c[:t]
        gates = w @ np.concatenate([h_mean, x[t]]) + b
        i, f, o = (sigmoid(gates[n * width:(n + 1) * width]) for n in range(3))
        c[t] = f * c_mean + i * np.tanh(gates[3 * width:])
        if fusion != "none":
            p = softmax(np.tanh(source["source_h"] @ source["u_h"].T + source["u_x"] @ x[t] +
                                source["u_prev"] @ source_mean) @ source["u"])
            source_mean = p @ source["source_h"]
            fused.append(source_mean)
            source_weights.append(p)
        if fusion == "deep":
            r = sigmoid(source["w_r"] @ np.concatenate([source_mean, x[t]]))
            c[t] += r * (p @ source["source_c"])
        h[t] = o * np.tanh(c[t])
    found = {"h": h, "c": c, "weights": weights}
    if fusion != "none":
        found |= {"fused": np.reshape(fused, (steps, width_of_source)),
                  "source_weights": np.reshape(source_weights, (steps, places))}
    return found


def alignment(source, target, w_source, w_target, v, w_position=None, w_previous=None):
    places, rows = len(source), len(target)
    weights, row = np.zeros((rows, places)), np.zeros(places)
    for j in range(rows):
        hidden = source @ w_source.T + w_target @ target[j]
        if w_position is not None:
            psi = [np.full(places, np.log(2.0 + j)), np.log(2.0 + np.arange(places)),
                   np.full(places, np.log(1.0 + places))]
            hidden += np.transpose(psi) @ w_position.T
        if w_previous is not None:
            reach = w_previous.shape[1] // 2
            padded = np.pad(row, reach)
            for i in range(places):
                hidden[i] += w_previous @ padded[i:i + 2 * reach + 1]
        weights[j] = row = softmax(np.tanh(hidden) @ v)
    return {"context": weights @ source, "weights": weights, "fertility": weights.sum(axis=0)}


def lstm(x, w, b=0, backwards=False):
    width = len(w) // 4
    h, c, states = np.zeros(width), np.zeros(width), np.zeros((len(x), width))
    for t in range(len(x))[::-1 if backwards else 1]:
        gates = w @ np.concatenate([h, x[t]]) + b
        i, f, o = (sigmoid(gates[n * width:(n + 1) * width]) for n in range(3))
        c = f * c + i * np.tanh(gates[3 * width:])
        states[t] = h = o * np.tanh(c)
    return states


def pointing_decoder(u, w_decoder, iterations, end, b_decoder=0, target=None, **weights):
    positions, width = len(u), len(w_decoder) // 4

    def log_p(word, state):
        w, w1, b1, w2, b2, w3, b3 = (weights.get(f"{word}_{name}", 0)
                                     for name in ("w", "w1", "b1", "w2", "b2", "w3", "b3"))
        r = np.tanh(w @ state)
        scores = []
        for one in u:
            m1 = (w1 @ np.concatenate([one, r]) + b1).reshape(-1, width).max(axis=0)
            m2 = (w2 @ m1 + b2).reshape(-1, width).max(axis=0)
            scores.append((w3 @ np.concatenate([m1, m2]) + b3).max())
        return scores - np.max(scores) - np.log(np.exp(scores - np.max(scores)).sum())

    found = {name: np.zeros((iterations, positions)) for name in ("start_log_p", "end_log_p")}
    found |= {"span": np.zeros(2), "iterations": 0} | ({} if target is None else {"loss": 0.0})
    spans = [(0, positions - 1)]
    for n in range(iterations if positions else 0):
        ends = [np.concatenate([u[s], u[e]]) for s, e in spans]
        h = lstm(ends, w_decoder, b_decoder)[-1]
        log_ps = [log_p(word, np.concatenate([h, ends[-1]])) for word in ("start", "end")]
        found["start_log_p"][n], found["end_log_p"][n] = log_ps
        if target is not None:
            found["loss"] -= log_ps[0][target[0]] + log_ps[1][target[1]]
        first = np.argmax(log_ps[0])
        from_here = first if end == "after-start" else 0
        spans.append((first, from_here + np.argmax(log_ps[1][from_here:])))
        found["span"], found["iterations"] = np.array(spans[-1], float), n + 1
        if spans[-1] == spans[-2]:
            break
    return found


def coattention(document, question, w, sentinel_d, sentinel_q, w_question, w_forward, w_backward, b=0,
                b_question=0, b_forward=0, b_backward=0, iterations=4, end="any", **decoder):
    d = np.vstack([lstm(document, w, b), sentinel_d])
    q = np.tanh(np.vstack([lstm(question, w, b), sentinel_q]) @ w_question.T + b_question)
    energies = d @ q.T
    weights_q, weights_d = softmax(energies.T), softmax(energies)
    context = (weights_d @ np.hstack([q, weights_q @ d]))[:-1]
    joined = np.hstack([d[:-1], context])
    u = np.hstack([lstm(joined, w_forward, b_forward), lstm(joined, w_backward, b_backward, True)])
    found = {"encoding": u, "context": context, "weights_q": weights_q, "weights_d": weights_d}
    if "w_decoder" in decoder:
        found |= pointing_decoder(u, iterations=iterations, end=end, **decoder)
    return found


def multi_view(x, wq, wk=None, gain=1, shift=0, hybrid=0.3, scheme="unas", iterations=3, **more):
    def log_sum(scores, axis):
        return np.log(np.exp(scores).sum(axis=axis))

    def potentials(s):
        if scheme in ("dnas", "hnas"):
            g = log_sum(s, 0)
            return log_sum(s - g, 1), g
        f, g = np.zeros(len(s)), np.zeros(s.shape[1])
        for _ in range(iterations if scheme == "sinkhorn" else 0):
            g = log_sum(s - f[:, None], 0) - np.log(s.shape[0] / s.shape[1])
            f = log_sum(s - g, 1)
        return (log_sum(s, 1) if scheme == "unas" else f), g

    found, z = {}, x
    for number in range(1, 9):
        if f"view{number}" not in more:
            continue
        view = more[f"view{number}"]
        s = x @ wq @ (view @ more.get(f"wk{number}", wk)).T / np.sqrt(wq.shape[1])
        # Lines without pairs have the potential -inf.
        f, g = potentials(s) if s.size else (np.full(len(x), -np.inf), np.full(len(view), -np.inf))
        weights = np.exp(s - g - f[:, None]) if s.size else np.zeros(s.shape)
        found |= {f"row_potential{number}": f, f"col_potential{number}": g}
        if scheme == "hnas":
            unas_f = log_sum(s, 1) if s.size else f
            unas = np.exp(s - unas_f[:, None]) if s.size else weights
            weights = hybrid * weights + (1 - hybrid) * unas
            found[f"unas_row_potential{number}"] = unas_f
        found |= {f"weights{number}": weights, f"col_sum{number}": weights.sum(axis=0)}
        z = z + weights @ view
    away = z - z.mean(axis=1, keepdims=True)
    return {"out": gain * away / np.sqrt((away**2).mean(axis=1, keepdims=True) + 1e-5) + shift} | found


class Problem:
    """A tool with its inputs: shapes of sequences and of weights by symbols, the padded lengths, and a
    plain evaluation of one sequence. Tokens are below the length of the axis in `below`, else below 4;
    `shares` are inputs in [0, 1]."""

    def __init__(self, tool, plain, sizes, sequences, shared, lengths, options=(), tokens=(), below=(),
                 shares=()):
        self.tool, self.plain, self.sizes = tool, plain, sizes
        self.sequences, self.shared, self.lengths = sequences, shared, lengths
        self.options, self.tokens, self.below, self.shares = options, tokens, dict(below), shares

    def shape(self, axes):
        return tuple(eval(axis, {}, dict(self.sizes)) for axis in axes.split())  # pylint: disable=eval-used

    def datasets(self, own, dtype="f8", seed=0):
        """Random datasets of a batch. own: {name of a length: lengths}; NaN in the padding."""
        random = np.random.default_rng(seed)
        count = len(next(iter(own.values())))
        made = {name: np.asarray(values) for name, values in own.items()}
        for name, axes in self.shared.items():
            draw = random.uniform if name in self.shares else random.normal
            made[name] = np.asarray(draw(size=self.shape(axes)), dtype)
        for name in (*self.sequences, *self.tokens):
            axes = (self.sequences | dict(self.tokens))[name]
            shape = (count, *self.shape(axes))
            if name in dict(self.tokens):
                end = [4] * count
                for length, of in self.lengths.items():
                    if self.below.get(name) == of:
                        end = np.maximum(1, own[length])
                made[name] = np.array([random.integers(0, one, size=shape[1:]) for one in end])
                continue
            made[name] = random.normal(size=shape).astype(dtype)
            for sequence in range(count):
                for axis, symbol in enumerate(axes.split()):
                    for length, of in self.lengths.items():
                        if of == symbol:
                            at = [sequence] + [slice(None)] * axis + [slice(own[length][sequence], None)]
                            made[name][tuple(at)] = np.nan
        return made

    def own(self, datasets, sequence):
        """The inputs of one sequence, without padding."""
        found = {name: datasets[name] for name in self.shared}
        for name, axes in (self.sequences | dict(self.tokens)).items():
            cuts = {of: int(datasets[length][sequence]) for length, of in self.lengths.items()}
            found[name] = datasets[name][(sequence, *(slice(cuts.get(symbol)) for symbol in axes.split()))]
        return found

    def evaluate(self, datasets, sequence):
        return self.plain(**self.own(datasets, sequence))


TWO_TEXTS = {"document": "M E", "question": "N E"}
TEXT_LENGTHS = {"document_length": "M", "question_length": "N"}
ENCODER = {"w": "4*L L+E", "sentinel_d": "L", "sentinel_q": "L", "w_question": "L L", "w_forward": "4*L 4*L",
           "w_backward": "4*L 4*L"}
DECODER = {"w_decoder": "4*L 5*L"} | {
    f"{word}_{name}": axes for word in ("start", "end")
    for name, axes in (("w", "L 5*L"), ("w1", "P*L 3*L"), ("w2", "P*L L"), ("w3", "P 2*L"))}

PROBLEMS = [
    Problem("structured-attention", structured, {"T": 9, "D": 5, "A": 4, "R": 3}, {"x": "T D"},
            {"w1": "A D", "w2": "R A"}, {"length": "T"}),
    Problem("decomposable-attention", decomposable,
            {"M": 6, "N": 7, "D": 4, "F": 5, "E": 3, "G": 5, "C": 4, "H": 6, "K": 2},
            {"a": "M D", "b": "N D"},
            {"f1": "F D", "f1_bias": "F", "f2": "E F", "g1": "G 2*D", "g2": "C G", "g2_bias": "C",
             "h1": "H 2*C", "h1_bias": "H", "h2": "K H", "h2_bias": "K"},
            {"a_length": "M", "b_length": "N"}),
    Problem("attention-over-attention", over_attention, {"M": 8, "N": 5, "D": 4},
            {"document": "M D", "question": "N D"}, {}, {"document_length": "M", "question_length": "N"},
            tokens={"words": "M"}),
    Problem("hard-attention", hard_attention, {"L": 7, "D": 4, "H": 3, "A": 5, "V": 6},
            {"a": "L D", "state": "H"},
            {"w_a": "A D", "w_h": "A H", "v": "A", "readout": "V D", "readout_bias": "V"},
            {"length": "L"}, tokens={"target": ""}),
    Problem("alignment-attention", alignment, {"I": 7, "J": 6, "S": 4, "G": 3, "A": 5, "K": 2},
            {"source": "I S", "target": "J G"},
            {"w_source": "A S", "w_target": "A G", "v": "A", "w_position": "A 3", "w_previous": "A 2*K+1"},
            {"source_length": "I", "target_length": "J"}),
    Problem("alignment-attention", alignment, {"I": 7, "J": 6, "S": 4, "G": 3, "A": 5},
            {"source": "I S", "target": "J G"}, {"w_source": "A S", "w_target": "A G", "v": "A"},
            {"source_length": "I", "target_length": "J"}),
    Problem("intra-attention", intra_attention, {"T": 6, "D": 3, "A": 4, "E": 2}, {"x": "T E"},
            {"w_h": "A D", "w_x": "A E", "w_prev": "A D", "v": "A", "w": "4*D D+E", "b": "4*D"},
            {"length": "T"}),
] + [
    Problem("intra-attention", lambda fusion=fusion, **own: intra_attention(fusion=fusion, **own),
            {"T": 6, "D": 3, "A": 4, "E": 2, "S": 5, "G": 2, "B": 3},
            {"x": "T E", "source_h": "S G", "source_c": "S D"},
            {"w_h": "A D", "w_x": "A E", "w_prev": "A D", "v": "A", "w": "4*D D+E",
             "u_h": "B G", "u_x": "B E", "u_prev": "B G", "u": "B"} |
            ({"w_r": "D G+E"} if fusion == "deep" else {}),
            {"length": "T", "source_length": "S"}, ("--fusion", fusion))
    for fusion in ("shallow", "deep")
] + [
    Problem("coattention", coattention, {"M": 6, "N": 5, "E": 2, "L": 3, "I": 4}, TWO_TEXTS, ENCODER,
            TEXT_LENGTHS),
    Problem("coattention", coattention, {"M": 6, "N": 5, "E": 2, "L": 3, "P": 2, "I": 4}, TWO_TEXTS,
            ENCODER | DECODER | {"b": "4*L", "b_question": "L", "b_forward": "4*L", "start_b1": "P*L",
                                 "end_b2": "P*L", "end_b3": "P"},
            TEXT_LENGTHS, tokens={"target": "2"}, below={"target": "M"}),
    Problem("coattention", functools.partial(coattention, iterations=3, end="after-start"),
            {"M": 6, "N": 5, "E": 2, "L": 3, "P": 3, "I": 3}, TWO_TEXTS,
            ENCODER | DECODER | {"b_backward": "4*L", "b_decoder": "4*L", "start_b2": "P*L", "end_b1": "P*L",
                                 "start_b3": "P"},
            TEXT_LENGTHS, ("--iterations", "3", "--end", "after-start")),
] + [
    Problem("multi-view", lambda scheme=scheme, **own: multi_view(scheme=scheme, **own),
            {"N": 6, "D": 5, "A": 4, "M1": 7, "M3": 5}, {"x": "N D", "view1": "M1 D", "view3": "M3 D"},
            {"wq": "D A"} | dict.fromkeys(weights, "D A") | more,
            {"x_length": "N", "view1_length": "M1", "view3_length": "M3"}, ("--scheme", scheme, *options),
            shares=("hybrid",))
    for scheme, weights, more, options in (
        ("unas", ["wk"], {}, ()),
        ("dnas", ["wk1", "wk3"], {"gain": "D", "shift": "D"}, ()),
        ("hnas", ["wk", "wk3"], {"hybrid": "", "gain": "D"}, ()),
        ("hnas", ["wk"], {"shift": "D"}, ("--hybrid", "0.3")),
        ("sinkhorn", ["wk1", "wk3"], {}, ("--iterations", "3")))
]
