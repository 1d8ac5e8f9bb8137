"""Templates, evidence and inferred points (FD Fig. 3).

    tensor-gen normal t=60x2 z=5x2 -o problem.h5
    for a in 0.3 1 3; do lambda-solve --alpha $a problem.h5 -o a$a.h5; done
    attn-plot evidence a0.3.h5 a1.h5 a3.h5 -o evidence

Reads t (..., n, d), z (..., Q, d), optionally preference, and h, h_first_order and h_second_order
(..., Q, d) of lambda-solve. Draws a panel for each bundle with the first two coordinates: a line
leads from the template mean mu plus the evidence z, to which the data point, to the inferred h. Does
not support masks, biases and optimal transport, under which mu differs between queries.
"""

from bundle import Bundle
from command import fail, integers
from libraries import np
from plotting import BLUE, GREEN, GREY, RED, legend_of, new_figure, save
from words import file_labels, head_name, plain, short

MANY = True

# For each answer: dataset, label, colour, marker.
ANSWERS = [("h", "exact ĥ", BLUE, "o"),
           ("h_first_order", "first order, softmax attention", RED, "^"),
           ("h_second_order", "second order", GREEN, "s")]
NOT_DRAWN = ("mask", "bias", "key_length", "rel_bias", "cost")


def options(parser):
    parser.add_argument("--head", type=integers, metavar="H[,H]",
                        help="problem to draw, by its leading axes; default: the first")


def preference_of(bundle, count, index):
    """The preferences u of the templates, with sum 1."""
    if "preference" not in bundle:
        return np.full(count, 1 / count)
    by_query = bundle.axes("preference") == bundle.axes("t")
    shared = bundle.axes("preference") == 1
    weights = bundle.part("preference", 2 if by_query else 1, () if shared else index)
    if by_query and np.ptp(weights, axis=0).any():
        fail(3, f"{bundle.name}:/preference: differs between queries, expected one for all")
    weights = weights[0] if by_query else weights
    if weights.shape != (count,) or not weights.sum() > 0:
        fail(3, f"{bundle.name}:/preference: expected {count} numbers, as many as templates, not all 0")
    return weights / weights.sum()


def problem_of(bundle, index):
    """Templates, preferences, mu + z, and answers by dataset."""
    found = [name for name in NOT_DRAWN if name in bundle]
    if found or bundle.attribute("attn_dual_divergence") not in (None, "kl"):
        fail(3, f"{bundle.name}: its means differ between queries because of "
                f"{found[0] if found else 'its divergence'}")

    def points(name):
        values = bundle.part(name, 2, index, "lambda-solve on t and z, without --only, has it")
        if values.shape[1] < 2:
            fail(3, f"{bundle.name}:/{name}: has {values.shape[1]} coordinate, expected 2 or more")
        return values.astype(float)

    def scale(name):
        value = bundle.attribute(name)
        return 1 if value is None else value

    templates = points("t") * scale("attn_dual_scale")
    weights = preference_of(bundle, len(templates), index)
    evidence = points("z") * scale("attn_dual_evidence_scale")
    answers = {name: points(name) for name, *_ in ANSWERS if name in bundle or name == "h"}
    return templates, weights, weights @ templates + evidence, answers


def draw_panel(axis, problem):
    templates, weights, pointed, answers = problem
    axis.scatter(*templates[:, :2].T, s=9 * len(weights) * weights, color=GREY, alpha=0.5, linewidths=0,
                 label="templates t, by preference" if np.ptp(weights) else "templates t")
    mean = weights @ templates
    axis.scatter(*mean[:2], s=40, marker="+", color="black", linewidths=1, label="their mean μ")
    axis.scatter(*pointed[:, :2].T, s=26, marker="x", color="black", linewidths=0.8,
                 label="evidence, μ + z")
    for name, text, colour, marker in ANSWERS:
        if name not in answers:
            continue
        axis.plot(*np.stack([pointed[:, :2], answers[name][:, :2]]).transpose(2, 0, 1), color=GREY,
                  linewidth=0.4, zorder=0)
        axis.scatter(*answers[name][:, :2].T, s=20, color=colour, marker=marker, linewidths=0.9,
                     facecolors="none" if name != "h" else colour, label=text, zorder=3)


def title_of(bundle, name, index):
    alpha, status = (bundle.attribute(f"attn_dual_{one}") for one in ("alpha", "status"))
    radius = bundle.attribute("attn_dual_radius")
    title = (f"α = {short(alpha)}" if alpha is not None else
             f"r = {short(radius)}" if radius is not None else name)
    title = ", ".join(filter(None, [title, head_name(bundle.position("h", 2, index))]))
    return title if status in (None, "converged") else f"{title} ({plain(status)})"


def draw(arguments):
    bundles = [Bundle(address) for address in arguments.inputs]
    problems = [problem_of(bundle, arguments.head) for bundle in bundles]
    most = 3 if arguments.width >= 5 and len(bundles) != 4 else 2
    columns = min(len(bundles), most)
    rows = -(-len(bundles) // columns)
    drawn = np.concatenate([part[:, :2] for templates, _, pointed, answers in problems
                            for part in (templates, pointed, *answers.values())])
    shape = np.divide(*np.maximum(np.ptp(drawn, axis=0)[::-1], 1e-300))
    height = rows * (arguments.width / columns * np.clip(shape, 0.3, 3) + 0.1) + 0.3
    figure, axes = new_figure(arguments, height, rows, columns, sharex=True, sharey=True)
    for axis in axes.flat[len(bundles):]:
        axis.axis("off")
    names = file_labels([bundle.name for bundle in bundles], 30)
    for axis, bundle, name, problem in zip(axes.flat, bundles, names, problems):
        draw_panel(axis, problem)
        axis.set(aspect="equal", title=title_of(bundle, name, arguments.head))
    for axis in axes[:, 0]:
        axis.set_ylabel("second coordinate")
    for axis in axes.flat[max(0, len(bundles) - columns):len(bundles)]:  # there is no panel below
        axis.set_xlabel("first coordinate")
        axis.tick_params(labelbottom=True)
    save(figure, arguments, bundles, legend_of(axes[0, 0], 3))
