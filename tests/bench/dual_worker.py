"""The Fenchel dual by NumPy, for all queries at once, and by SciPy, for one query at a time.

    max over lambda of  <lambda, mu + z> - |lambda|^2 / (2 alpha) - log sum_i u_i exp <t_i, lambda>

with alpha = 1 and u uniform, to a gradient norm of 1e-8 in float64. Every way starts at alpha z.
"""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from scipy.optimize import minimize
from worker import THREADS, serve

TOLERANCE = 1e-8
# OpenBLAS' OpenMP build asks OpenMP for the number of threads of the calling thread.
OPENMP = ctypes.CDLL("libgomp.so.1")
POOL = ThreadPoolExecutor(THREADS, initializer=lambda: OPENMP.omp_set_num_threads(1))


def softmax(logits):
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits


def dots(a, b):
    return np.einsum("ij,ij->i", a, b)[:, None]


def conjugate_gradients(product, dot, gradient, norm2):
    """Solves for all queries together, each only as far as its gradient justifies."""
    step = np.zeros_like(gradient)
    residual, direction = gradient.copy(), gradient.copy()
    now = first = norm2
    wanted = first * np.minimum(0.01, first)  # (relative error)^2: superlinear convergence
    for _ in range(100):
        image = product(direction)
        rate = np.where(now > wanted, now / np.maximum(dot(direction, image), 1e-300), 0)
        step += rate * direction
        residual -= rate * image
        before, now = now, dot(residual, residual)
        if (now <= wanted).all():
            break
        direction *= now / np.maximum(before, 1e-300)
        direction += residual
    return step


def newton(templates, z):
    """Products with the templates."""
    t = templates - templates.mean(axis=0)
    columns = np.ascontiguousarray(t.T)
    lam = z.copy()
    for _ in range(50):
        p = softmax(lam @ columns)
        h = p @ t
        gradient = z - lam - h
        norm2 = dots(gradient, gradient)
        if norm2.max() <= TOLERANCE**2:
            return lam

        def product(v):
            image = v @ columns
            image *= p
            return v + image @ t - h * dots(h, v)

        lam += conjugate_gradients(product, dots, gradient, norm2)
    raise RuntimeError("Newton's method does not converge")


def newton_by_gram(templates, z):
    """lambda = z + c T: works on the coefficients c, with one product with the Gram matrix per
    iteration of conjugate gradients, whose scalar product is that of the Gram matrix."""
    t = templates - templates.mean(axis=0)
    gram = t @ t.T
    logits = z @ t.T
    c = np.zeros((len(z), len(t)))
    for _ in range(50):
        p = softmax(logits + c @ gram)
        residual = 1 / len(t) - p - c
        image = residual @ gram
        now = dots(residual, image)
        if now.max() <= TOLERANCE**2:
            return z + c @ t
        wanted = now * np.minimum(0.01, now)
        direction, direction_image = residual.copy(), image.copy()
        for _ in range(100):
            product = p * direction_image
            product += direction - p * product.sum(axis=1, keepdims=True)
            rate = np.where(now > wanted, now / np.maximum(dots(direction_image, product), 1e-300), 0)
            c += rate * direction
            residual -= rate * product
            np.matmul(residual, gram, out=image)
            before, now = now, dots(residual, image)
            if (now <= wanted).all():
                break
            rate = now / np.maximum(before, 1e-300)
            direction *= rate
            direction += residual
            direction_image *= rate
            direction_image += image
    raise RuntimeError("Newton's method does not converge")


def nesterov(curvature, templates, z):
    """Uses 1 + `curvature` as the largest second derivative."""
    t = templates - templates.mean(axis=0)
    columns = np.ascontiguousarray(t.T)
    root = np.sqrt(1 + curvature)
    momentum = (root - 1) / (root + 1)
    lam, point = z.copy(), z.copy()
    for _ in range(2000):
        gradient = z - point - softmax(point @ columns) @ t
        if dots(gradient, gradient).max() <= TOLERANCE**2:
            return point
        before, lam = lam, point + gradient / (1 + curvature)
        point = lam + momentum * (lam - before)
    raise RuntimeError("gradients do not get small")


def nesterov_by_gram(curvature, templates, z):
    t = templates - templates.mean(axis=0)
    gram = t @ t.T
    logits = z @ t.T
    root = np.sqrt(1 + curvature)
    momentum = (root - 1) / (root + 1)
    c = np.zeros((len(z), len(t)))
    point, image = c, np.zeros_like(c)
    for n in range(2000):
        residual = 1 / len(t) - softmax(logits + image) - point
        # The norm of the gradient costs another product, so it is checked only now and then.
        if n % 4 == 0 and dots(residual, residual @ gram).max() <= TOLERANCE**2:
            return z + point @ t
        before, c = c, point + residual / (1 + curvature)
        point = c + momentum * (c - before)
        image = point @ gram
    raise RuntimeError("gradients do not get small")


def scipy_by_query(method, options, templates, z):
    t = templates - templates.mean(axis=0)

    def loss(lam, evidence):
        logits = t @ lam
        most = logits.max()
        p = np.exp(logits - most)
        total = p.sum()
        p /= total
        value = 0.5 * lam @ lam - lam @ evidence + most + np.log(total)
        return value, lam - evidence + p @ t

    def hessian(lam, v, _):
        p = softmax((t @ lam)[None])[0]
        image = t @ v
        return v + (p * image) @ t - (p @ t) * (p @ image)

    extra = {"hessp": hessian} if method in ("trust-ncg", "trust-krylov", "Newton-CG") else {}
    return np.stack([minimize(loss, query, (query,), method, jac=True, options=options, **extra).x
                     for query in z])


def by_threads(solve, templates, z):
    """Each Python thread solves a share of the queries, with BLAS on one thread."""
    return np.concatenate(list(POOL.map(partial(solve, templates), np.array_split(z, THREADS))))


def curvatures(templates):
    """Candidates chosen by hand: shares of the largest eigenvalue of the templates' covariance."""
    largest = np.linalg.svd(templates - templates.mean(axis=0), compute_uv=False)[0] ** 2
    return [share * largest / len(templates) for share in (0.35, 0.5, 0.7, 1, 1.4, 2)]


def ways(method, templates):
    if method == "newton":
        return {"Newton-CG": newton, "Newton-CG by the Gram matrix": newton_by_gram}
    if method == "nesterov":
        return {f"{name}, {c:.3g}": partial(of, c) for c in curvatures(templates)
                for name, of in (("Nesterov", nesterov), ("by the Gram matrix", nesterov_by_gram))}
    return {"L-BFGS-B": partial(scipy_by_query, "L-BFGS-B", {"gtol": TOLERANCE, "ftol": 0}),
            "trust-ncg": partial(scipy_by_query, "trust-ncg", {"gtol": TOLERANCE}),
            "Newton-CG": partial(scipy_by_query, "Newton-CG", {"xtol": TOLERANCE})}


def gradient_norm(templates, z, lam):
    t = templates - templates.mean(axis=0)
    return np.linalg.norm(z - lam - softmax(lam @ t.T) @ t, axis=1).max()


def prepare(problem):
    queries, count, depth = problem.shape
    templates = problem.input("templates", np.float64, (count, depth))
    z = problem.input("evidence", np.float64, (queries, depth))
    method = problem.scheme.removeprefix("dual-")
    # SciPy itself runs on one thread, and stops when its steps no longer improve.
    needed = TOLERANCE if method != "scipy" else 1e-5
    variants = {}
    for name, solve in ways(method, templates).items():
        for how, run in (("", partial(solve, templates, z)),
                         (", by Python threads", partial(by_threads, solve, templates, z))):
            try:
                good = gradient_norm(templates, z, run()) <= 1.01 * needed
            except RuntimeError:
                good = False
            if good:
                variants[name + how] = lambda run=run: {"lambda": run()}
    return variants


serve(prepare)
