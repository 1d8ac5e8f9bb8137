"""The mechanisms of TN and their gradients, in plain NumPy: one sequence at a time, a row for each word.

The weights have the tools' names. Every step is analytic, or linear between its kinks, so that gradients follow by complex
steps, which do not cancel: the imaginary part of a loss of x + 1e-30 i, over 1e-30.
"""

from plain import *


def sigma(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.where(x.real > 0, x, 0)


def cell(w, h, c, x):
    """A step of an LSTM: gates and candidate from [h; x], then the new h and c."""
    i, f, o, candidate = np.split(w @ np.concatenate([h, x]), 4)
    c = sigma(f) * c + sigma(i) * np.tanh(candidate)
    return sigma(o) * np.tanh(c), c


def lstm(w, x):
    h = c = np.zeros(len(w) // 4)
    states = []
    for row in x:
        h, c = cell(w, h, c, row)
        states.append(h)
    return np.array(states)


def intra_attention(x, w_h, w_x, w_prev, v, w):
    """LSTMN: h~ and c~ are means of all earlier h and c, of weights that see h, x_t and the last h~."""
    h, c, mean = np.zeros((0, len(w) // 4)), np.zeros((0, len(w) // 4)), np.zeros(len(w) // 4)
    for row in x:
        s = softmax(np.tanh(h @ w_h.T + w_x @ row + w_prev @ mean) @ v) if len(h) else np.zeros(0)
        mean = s @ h
        one = cell(w, mean, s @ c, row)
        h, c = np.vstack([h, one[0]]), np.vstack([c, one[1]])
    return {"h": h, "c": c}


def alignment(source, target, w_source, w_target, v, w_position, w_previous):
    """An MLP energy that also sees log(1 + j), log(1 + i), log(1 + I), counted from 1, and the last row about i."""
    places, rows = len(source), []
    last = np.zeros(places)
    for j, state in enumerate(target, 1):
        psi = np.log([[1 + j, 1 + i, 1 + places] for i in range(1, places + 1)])
        around = np.pad(last, len(w_previous[0]) // 2)
        xi = np.array([around[i:i + len(w_previous[0])] for i in range(places)])
        last = softmax(np.tanh(source @ w_source.T + w_target @ state + psi @ w_position.T + xi @ w_previous.T) @ v)
        rows.append(last)
    return {"context": np.array(rows) @ source, "weights": np.array(rows)}


def hard_attention(a, state, w_a, w_h, v, readout, target):
    """The mean of log p(target | a_i) over the positions i, and the entropy of their weights."""
    weights = softmax(np.tanh(a @ w_a.T + w_h @ state) @ v)
    scores = a @ readout.T
    return {"log_p": weights @ (scores[:, target] - np.log(np.exp(scores).sum(axis=1))),
            "entropy": -weights @ np.log(weights)}


def coattention(document, question, w, sentinel_d, sentinel_q, w_question, w_forward, w_backward):
    """With texts as columns: L = D'Q, C^Q = D A^Q and C^D = [Q; C^Q] A^D, then a BiLSTM over the document."""
    D = np.vstack([lstm(w, document), sentinel_d]).T
    Q = np.tanh(w_question @ np.vstack([lstm(w, question), sentinel_q]).T)
    L = D.T @ Q
    A_Q, A_D = softmax(L, axis=0), softmax(L.T, axis=0)
    C_D = np.vstack([Q, D @ A_Q]) @ A_D
    u = np.vstack([D, C_D])[:, :-1].T
    return {"weights_q": A_Q.T, "weights_d": A_D.T, "context": C_D[:, :-1].T,
            "encoding": np.hstack([lstm(w_forward, u), lstm(w_backward, u[::-1])[::-1]])}


def decomposable(a, b, f1, f2, g1, g2, h1, h2):
    """Attend by F(a)'F(b), compare by G of each word beside what it is aligned with, aggregate by H."""
    e = relu(relu(a @ f1.T) @ f2.T) @ relu(relu(b @ f1.T) @ f2.T).T
    beta, alpha = softmax(e, axis=1) @ b, softmax(e, axis=0).T @ a
    sums = [relu(relu(np.hstack(pair) @ g1.T) @ g2.T).sum(axis=0) for pair in ((a, beta), (b, alpha))]
    return {"beta": beta, "alpha": alpha, "scores": h2 @ relu(h1 @ np.concatenate(sums))}


def over_attention(document, question):
    M = document @ question.T
    return {"s": softmax(M, axis=0) @ softmax(M, axis=1).mean(axis=0)}


def multi_view(x, view1, view2, wq, wk1, wk2):
    """The layer norm of x plus what doubly-normalised attention gathers from each view."""
    z = x
    for view, wk in ((view1, wk1), (view2, wk2)):
        z = z + dnas(x @ wq @ (view @ wk).T / np.sqrt(wq.shape[1])) @ view
    away = z - z.mean(axis=-1, keepdims=True)
    return {"out": away / np.sqrt((away**2).mean(axis=-1, keepdims=True) + 1e-5)}


def datasets(file, *without):
    """All datasets of the bundle, but the gradients and those that are named."""
    with h5py.File(file) as bundle:
        names = [name for name in bundle if not name.startswith("grad_") and name not in without]
        return {name: bundle[name][()] for name in names}


def gradient_error(mechanism, **fixed):
    """The largest distance of the gradients of out.h5 from complex steps: of a loss whose gradients with respect to
    results of the mechanism are those of in.h5, relative to the largest number of each."""
    inputs = datasets("in.h5")
    with h5py.File("in.h5") as bundle:
        upstream = {name[5:]: bundle[name][()] for name in bundle if name.startswith("grad_")}
    errors = []
    for name, x in inputs.items():
        right = np.zeros(x.shape)
        for place in np.ndindex(*x.shape):
            moved = x.astype(complex)
            moved[place] += 1e-30j
            found = mechanism(**{**inputs, **fixed, name: moved})
            right[place] = sum((grad * found[result]).sum() for result, grad in upstream.items()).imag / 1e-30
        errors.append(farthest(load("out.h5", "grad_" + name), right) / abs(right).max())
    return max(errors)
