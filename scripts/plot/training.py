"""Training: curves over steps with bands of seeds, u by layer, rate searches.

    attn-plot training sgd-*.jsonl si-*.jsonl --quantity valid.perplexity -o perplexity
    attn-plot training hnas-*.jsonl --quantity u -o shares
    attn-plot training search/*.jsonl --quantity valid.loss --over schedule.rate -o search

Reads logs of attn-train. Runs that differ in their seeds only are one line, their mean, with a band from
the least to the largest. Lines are named by the keys of the recipe in which they differ. u,
least_column_sum and explained_away have a panel for each kind of run, and in it a line for each layer,
whose band is over seeds and heads.
"""

from command import fail, names as list_of_names
from group_names import group_labels
from libraries import mpl, np
from plotting import DASHES, GREY, legend_of, look, looks_of, new_figure, save
from run_logs import OF_ATTENTION, SEED, differing, read_runs, variants_of
from ticks import name_ticks
from words import natural, plain, short

MANY = True
READS = "a log of attn-train (JSON lines)"
MOST_LINES = 42  # styles of lines
BANDS = ("range", "deviation", "none")
_WORDS = {"loss": "training loss (nats)", "u": "u, the share of dnas",
          "least_column_sum": "least column sum (attention of one query = 1)",
          "explained_away": "keys explained away (%)", "rate": "learning rate",
          "gradient_norm": "norm of the gradient", "tokens_per_s": "tokens per second",
          "bits_per_character": "bits per character", "bleu": "BLEU", "rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2",
          "rouge_l": "ROUGE-L"}
_PARTS = {"valid": "validation", "test": "test"}


def options(parser):
    parser.add_argument("--quantity", metavar="LIST", type=list_of_names, default=["loss"],
                        help="what to draw, a panel for each: any number of the log, such as loss (the "
                             "default), valid.perplexity, u, least_column_sum, explained_away")
    parser.add_argument("--band", choices=BANDS, default="range",
                        help="the band around the mean: from the least to the largest (the default), "
                             "± the deviation of the population, or none")
    parser.add_argument("--by", metavar="LIST", type=list_of_names,
                        help="a line for each value of these keys of the recipe; default: all keys in "
                             "which the recipes differ, but the seed")
    parser.add_argument("--heads", action="store_true",
                        help="of u, a panel for each layer and a line for each head")
    parser.add_argument("--over", metavar="KEY",
                        help="draws the last value of each run over this key of the recipe, such as "
                             "schedule.rate, in place of curves over steps")
    parser.add_argument("--deviation-from", metavar="LOG", action="append", default=[],
                        help="draws how far each run is from this one, which has its seed; may be "
                             "repeated, and the log with the most similar recipe is taken")
    parser.add_argument("--label", action="append", default=[], metavar="TEXT",
                        help="label of the next line; give one for each")
    parser.add_argument("--log-axis", action="store_true", help="logarithmic vertical axis")


def described(quantity, deviation):
    """The label of an axis."""
    first, _, rest = quantity.partition(".")
    name = rest if rest and first in _PARTS else quantity
    text = _WORDS.get(name, name.replace("_", " "))
    if rest and first in _PARTS:
        text = f"{_PARTS[first]} {text.removeprefix('training ')}"
    return plain(f"|difference| of {text}" if deviation else text)


def mean_and_band(rows, band):
    """Means of the columns of (runs, places), and (2, places) of a band, or None for a single row."""
    rows = np.asarray(rows, float)
    mean = rows.mean(axis=0)
    if band == "none" or len(rows) < 2:
        return mean, None
    if band == "range":
        return mean, np.array([rows.min(axis=0), rows.max(axis=0)])
    return mean, mean + np.array([[-1], [1]]) * rows.std(axis=0)


def common_steps(series, what):
    """The steps that all of {step: value} have."""
    steps = sorted(set.intersection(*(set(one) for one in series)))
    if not steps:
        fail(3, f"{what}: the runs have no step in common")
    return steps


def reference_of(run, references):
    """The log of --deviation-from that has the seed of a run and most of its recipe."""
    own = [one for one in references if one.recipe.get(SEED) == run.recipe.get(SEED)]
    if not own:
        fail(3, f"{run.name}: no log of --deviation-from has its seed, {run.recipe.get(SEED)}")
    ranked = sorted(own, key=lambda one: len(differing([run, one])))
    if len(own) > 1 and len(differing([run, ranked[0]])) == len(differing([run, ranked[1]])):
        fail(3, f"{run.name}: {ranked[0].name} and {ranked[1].name} are alike to it",
             "one of them is enough")
    return ranked[0]


def deviations(run, quantity, references):
    """{step: |difference|} between a run and its reference."""
    one, other = run.series(quantity), reference_of(run, references).series(quantity)
    return {step: abs(one[step] - other[step]) for step in common_steps((one, other), run.name)}


class Line:
    """What is drawn of one line: places, means and the band around them. `variant` is what it is of, if a
    figure has one line of each."""

    def __init__(self, label, variant, places, mean, band):
        self.label, self.variant, self.places, self.mean, self.band = label, variant, places, mean, band


def line_of(variant, quantity, references, band):
    """The line of a variant over steps."""
    series = [deviations(run, quantity, references) if references else run.series(quantity)
              for run in variant.runs]
    steps = common_steps(series, variant.name or variant.runs[0].name)
    mean, around = mean_and_band([[one[step] for step in steps] for one in series], band)
    return Line(variant.name or "all", variant, steps, mean, around)


def groups_of(variant, quantity):
    """{group: [{step: numbers by head} of each run]} of what the runs log of their attention."""
    found = [run.attention(quantity) for run in variant.runs]
    for run, one in zip(variant.runs, found):
        if one.keys() != found[0].keys():
            fail(3, f"{run.name}: has {quantity} of other layers than {variant.runs[0].name}")
    return {group: [one[group] for one in found] for group in sorted(found[0], key=natural)}


def title_of(label, groups):
    """What a group is called: a label that is only a number says neither layer nor view."""
    if not label.isdigit():
        return label
    return f"view {label}" if all(group.startswith("views/") for group in groups) else f"layer {label}"


def heads_of(runs, steps):
    """(heads, runs, steps) of a layer."""
    count = {len(run[step]) for run in runs for step in steps}
    if len(count) > 1:
        fail(3, "the number of heads changes from line to line")
    return np.moveaxis(np.array([[run[step] for step in steps] for run in runs], float), 2, 0)


def layer_lines(variant, quantity, band):
    """A line for each layer, with a band over seeds and heads."""
    groups = groups_of(variant, quantity)
    _, labels = group_labels(list(groups), 30) if groups else ("", [])
    for label, runs in zip(labels, groups.values()):
        steps = common_steps(runs, label)
        values = heads_of(runs, steps)
        mean, around = mean_and_band(values.reshape(-1, len(steps)), band)
        yield Line(title_of(label, groups), None, steps, mean, around)


def head_panels(variant, quantity, band):
    """(layer, lines): a line for each head, with a band over seeds."""
    groups = groups_of(variant, quantity)
    _, labels = group_labels(list(groups), 30) if groups else ("", [])
    for label, runs in zip(labels, groups.values()):
        steps = common_steps(runs, label)
        lines = []
        for head, values in enumerate(heads_of(runs, steps)):
            lines.append(Line(f"head {head}", None, steps, *mean_and_band(values, band)))
        yield title_of(label, groups), lines


def attention_panels(variants, quantity, arguments):
    """[(title, lines)] of a quantity of attention. Variants without it have no panel."""
    panels = []
    for variant in variants:
        if arguments.heads:
            parts = head_panels(variant, quantity, arguments.band)
            panels += [(", ".join(filter(None, (variant.name, layer))), lines) for layer, lines in parts]
        else:
            lines = list(layer_lines(variant, quantity, arguments.band))
            panels += [(variant.name, lines)] if lines else []
    if not panels:
        fail(3, f"no run logs {quantity}; there are {', '.join(variants[0].runs[0].quantities())}")
    return panels


def looks(lines):
    """Colour and dashes of each line. Where schemes tell lines apart, colours are for them, and dashes for the
    rest, such as the rate, if there is one."""
    schemes = [line.variant and line.variant.scheme for line in lines]
    if all(schemes) and len(set(schemes)) > 1:
        of_scheme = looks_of(list(dict.fromkeys(schemes)))
        rests = list(dict.fromkeys(line.variant.rest for line in lines))
        if len(rests) == 1:
            return [of_scheme[scheme] for scheme in schemes]
        if len(rests) <= len(DASHES) and len({colour for colour, _ in of_scheme.values()}) == len(of_scheme):
            return [(of_scheme[scheme][0], DASHES[rests.index(line.variant.rest)])
                    for scheme, line in zip(schemes, lines)]
    return [look(place) for place in range(len(lines))]


def positive(values):
    """Values for a logarithmic axis, on which 0 has no place."""
    return np.where(np.asarray(values) > 0, values, np.nan)


def draw_lines(axis, lines, factor, logarithmic):
    """All lines of a panel with their bands."""
    shown = positive if logarithmic else np.asarray
    for (colour, dashes), line in zip(looks(lines), lines):
        values = shown(factor * line.mean)
        # Points beside gaps belong to no piece of a line.
        dots = {"marker": "o", "markersize": 2.5} if len(values) < 3 or np.isnan(values).any() else {}
        # A dashed line over a solid one shows both.
        axis.plot(line.places, values, color=colour, linestyle=dashes, label=line.label,
                  zorder=2 + DASHES.index(dashes) / 10, **dots)
        if line.band is None:
            continue
        band = shown(factor * line.band)
        if len(values) == 1:  # a band has no width
            axis.errorbar(line.places, values, np.abs(band - values), color=colour, fmt="none", elinewidth=1, capsize=3)
        else:
            axis.fill_between(line.places, *band, color=colour, alpha=0.15, linewidth=0)
    axis.grid(color="#e4e4e4", linewidth=0.5)
    if logarithmic:
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        if high < 10 * low:  # powers of ten would name at most one place
            axis.yaxis.set_major_locator(mpl.ticker.MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10]))
            axis.yaxis.set_major_formatter(mpl.ticker.ScalarFormatter())
            axis.yaxis.set_minor_locator(mpl.ticker.NullLocator())


def grid_of(arguments, count, **more):
    """A figure with a panel for each of `count`, at most three beside each other."""
    columns = min(count, 3 if arguments.width >= 5 else 1)
    rows = -(-count // columns)
    height = (0.5 if columns == 1 else 0.42 if columns == 2 else 0.33) * arguments.width
    return new_figure(arguments, max(height, 1.8) * rows, rows, columns, sharex=True, **more), columns


def label_lines(lines, labels):
    """Replaces the labels by those of --label."""
    if labels and len(labels) != len(lines):
        fail(2, f"{len(labels)} --label for {len(lines)} lines")
    for line, label in zip(lines, labels):
        line.label = plain(label, 60)


def finish(figure, axes, arguments, words):
    """Adds the legend and the meaning of the bands, and writes the figure."""
    handles, columns = max((legend_of(axis, 4) for axis in axes), key=lambda legend: len(legend[0]))
    if words:
        handles.append(mpl.patches.Patch(color=GREY, alpha=0.2, linewidth=0, label=words))
    save(figure, arguments, (), (handles if len(handles) > 1 or words else [], columns))


def band_words(arguments, what):
    return {"range": f"least to largest {what}", "deviation": f"± deviation of {what}s"}[arguments.band]


def draw_curves(arguments, runs):
    """A panel for each quantity, a line for each variant."""
    references = read_runs(arguments.deviation_from)
    variants = variants_of(runs, arguments.by)
    (figure, axes), columns = grid_of(arguments, len(arguments.quantity))
    banded = False
    for place, (axis, quantity) in enumerate(zip(axes.flat, arguments.quantity)):
        lines = [line_of(variant, quantity, references, arguments.band) for variant in variants]
        label_lines(lines, arguments.label)
        banded |= any(line.band is not None for line in lines)
        draw_lines(axis, lines, 1, arguments.log_axis or bool(references))
        axis.set_ylabel(described(quantity, bool(references)))
        label_steps(axis, place, columns, len(arguments.quantity))
    finish(figure, axes.flat, arguments, band_words(arguments, "seed") if banded else "")


def label_steps(axis, place, columns, count):
    """Labels the horizontal axis of a panel that has none below it."""
    axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
    if place + columns >= count:
        axis.set_xlabel("step")
        axis.tick_params(labelbottom=True)


def draw_attention(arguments, runs):
    """A panel for each variant, a line for each layer; or for each layer, and a line for each head."""
    quantity = arguments.quantity[0]
    variants = variants_of(runs, arguments.by)
    panels = attention_panels(variants, quantity, arguments)
    (figure, axes), columns = grid_of(arguments, len(panels), sharey=True)
    for axis in axes.flat[len(panels):]:
        axis.axis("off")
    banded = False
    for place, (axis, (title, lines)) in enumerate(zip(axes.flat, panels)):
        label_lines(lines, arguments.label)
        banded |= any(line.band is not None for line in lines)
        draw_lines(axis, lines, 100 if quantity == "explained_away" else 1,
                   arguments.log_axis or quantity == "least_column_sum")
        axis.set_title(title if len(panels) > 1 else "")
        if place % columns == 0:
            axis.set_ylabel(described(quantity, False))
        label_steps(axis, place, columns, len(panels))
    if quantity == "explained_away":
        most = max(1, axes.flat[0].get_ylim()[1])  # not only zeros
        axes.flat[0].set_ylim(-0.02 * most, most)  # on which a line can be seen
    over_heads = any(len(values) > 1 for run in runs for group in run.attention(quantity).values()
                     for values in group.values()) and not arguments.heads
    seeds = any(len(variant.runs) > 1 for variant in variants)
    what = " and ".join(word for word, there in (("seed", seeds), ("head", over_heads)) if there)
    finish(figure, axes.flat, arguments, band_words(arguments, what) if banded else "")


def draw_search(arguments, runs):
    """The last value of each run over a key of the recipe."""
    if len(arguments.quantity) > 1:
        fail(2, "--over draws one quantity")
    quantity = arguments.quantity[0]
    variants = variants_of(runs, arguments.by, without=(arguments.over,))
    figure, axes = new_figure(arguments, max(0.45 * arguments.width, 2.2))
    axis = axes[0, 0]
    places, lost, lines = set(), [], []
    last_of = {run: list(run.series(quantity).values())[-1] if run.ended else np.nan
               for variant in variants for run in variant.runs}
    # Runs that diverged without an infinity would flatten all others to one line.
    finite = [abs(last) for last in last_of.values() if np.isfinite(last)]
    most = 10 * np.median(finite) if finite else np.inf
    for variant in variants:
        values = {}
        for run in variant.runs:
            place = run.recipe.get(arguments.over)
            if isinstance(place, bool) or not isinstance(place, (int, float)):
                fail(3, f"{run.name}: {arguments.over} is no number")
            places.add(place)
            last = last_of[run]
            if np.isfinite(last) and abs(last) <= most:
                values.setdefault(place, []).append(last)
            else:
                lost.append(place)
        own = sorted(values)
        parts = [mean_and_band(np.array(values[place])[:, None], arguments.band) for place in own]
        band = None
        if own and all(part[1] is not None for part in parts):
            band = np.hstack([part[1] for part in parts])
        lines.append(Line(variant.name or "all", variant, own,
                          np.array([part[0][0] for part in parts]), band))
    label_lines(lines, arguments.label)
    draw_lines(axis, lines, 1, arguments.log_axis)
    for drawn in axis.lines:
        drawn.set(marker="o", markersize=3)
    places = sorted(places)
    if places[0] > 0 and places[-1] >= 8 * places[0]:
        axis.set_xscale("log")
        axis.set_xlim(places[0] / 1.2, places[-1] * 1.2)
        axis.xaxis.set_major_locator(mpl.ticker.NullLocator())
        axis.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        name_ticks(axis.xaxis, places, [short(place, 3) for place in places])
    axis.set(xlabel=plain(arguments.over), ylabel=f"last {described(quantity, False)}")
    if lost:
        beyond = f", or ended above {short(most, 2)}" if max(finite, default=0) > most else ""
        axis.plot(sorted(lost), [0.98] * len(lost), transform=axis.get_xaxis_transform(), linestyle="",
                  marker="x", color=GREY, markersize=4, label=f"did not reach the last step{beyond}")
    finish(figure, [axis], arguments,
           band_words(arguments, "seed") if any(line.band is not None for line in lines) else "")


def draw(arguments):
    runs = read_runs(arguments.inputs)
    attention = [name for name in arguments.quantity if name in OF_ATTENTION]
    if len(variants_of(runs, arguments.by)) > MOST_LINES:
        fail(2, "the lines cannot be told apart", "--by, or fewer logs")
    if arguments.heads and not attention:
        fail(2, "--heads needs --quantity u")
    if attention and len(arguments.quantity) > 1:
        fail(2, f"--quantity {','.join(arguments.quantity)}: {attention[0]} has a figure of its own")
    if attention and (arguments.over or arguments.deviation_from):
        fail(2, f"--{'over' if arguments.over else 'deviation-from'} draws no {attention[0]}")
    if arguments.over and arguments.deviation_from:
        fail(2, "--over and --deviation-from are two figures")
    if attention:
        draw_attention(arguments, runs)
    elif arguments.over:
        draw_search(arguments, runs)
    else:
        draw_curves(arguments, runs)
