"""The tables of README.md: their columns, and their rows from the figures of tests/bench/run.

A row is a list of cells: text, a number, a pair of numbers, or None where nothing was measured.
figures.json holds these rows; a column says how they are printed.
"""

from collections.abc import Callable
from dataclasses import dataclass

SIMD = {"avx512f": "AVX-512", "avx2": "AVX2", "sse4_1": "SSE4"}


@dataclass
class Table:
    part: str  # of tests/bench/run
    columns: list  # of titles and formats
    rows: Callable  # the rows from what that part found


def text(value):
    return value


def fixed(digits, second=None):
    """Writes a number with `digits` digits after the point, and a pair as "first (second)"."""
    def write(value):
        if isinstance(value, list):
            return f"{value[0]:.{digits}f} ({value[1]:.{digits if second is None else second}f})"
        return f"{value:.{digits}f}"
    return write


def significant(digits, second=1):
    """Writes a number with `digits` significant digits, and a pair as "first (second)", the latter
    with `second` digits after the point."""
    def one(value):
        found = f"{value:.{digits - 1}e}"
        return f"{float(found):.{max(0, digits - 1 - int(found.partition('e')[2]))}f}"

    def write(value):
        return f"{one(value[0])} ({value[1]:.{second}f})" if isinstance(value, list) else one(value)
    return write


def with_speedup(figure, name, numbers="gflops", ratios="speedup"):
    return [figure[numbers][name], figure[ratios][name]] if name in figure[numbers] else None


def shape_of(shape):
    heads, keys, _, queries = shape
    return f"{heads} × {keys}" + (f", {queries} queries" if queries != keys else "")


def attention(figures, peers):
    return [[f["scheme"], shape_of(f["shape"]), f["gflops"]["attnkit"], f["of_sgemm"],
             *([f["gflops"].get("tool")] if "NumPy" in peers else []),
             *[with_speedup(f, name) for name in peers]] for f in figures]


def training(figures):
    rows = []
    for figure in figures:
        layers, width, inner, sequences, length, symbols = figure["model"]
        seconds = figure["seconds"]
        over = [seconds[name] / seconds["unas"] if name in seconds else None
                for name in ("dnas", "hnas", "si-sgd", "PyTorch")]
        layer = "layer" if layers == 1 else "layers"
        rows.append([f"{layers} {layer} of {width}/{inner}, {sequences} × {length}, {symbols}",
                     1e3 * seconds["unas"], *over])
    return rows


MECHANISMS = {"lstmn": "LSTMN", "coattention": "coattention's encoder"}
DIRECTIONS = {"forward": "forward", "backward": "forward and backward"}


def mechanisms(figures):
    return [[f"{MECHANISMS[f['mechanism']]}, {DIRECTIONS[f['direction']]}",
             " × ".join(map(str, f["shape"])), f["median"]["attnkit"],
             *[with_speedup(f, name, "median") for name in ("loop of cells", "PyTorch")],
             f"{f['megabytes_of_half']:.0f}, {f['megabytes']['attnkit']:.0f}"] for f in figures]


def iterations(figures):
    rows = {}
    for figure in figures:
        if figure["kind"] == "iteration":
            rows.setdefault(figure["numbers"], []).append([1e3 * figure["attnkit"], figure["ratio"]])
    return [[{"f64": "float64", "f32": "float32"}[numbers], *cells] for numbers, cells in rows.items()]


def penalised(figures):
    return [[f["label"], 1e3 * f["attnkit"], 1e3 * f["theirs"], f["ratio"]]
            for f in figures if f["kind"] == "penalised"]


def bulk(figures):
    return [[f"{f['shape'][0]} of {f['shape'][1]} × {f['shape'][1]}" + ", with gradients" * f.get("gradients", False),
             f["shape"][0] / f["seconds"]["attnkit"] / 1e6, f["ratio"].get("PyTorch")] for f in figures]


def dual(figures):
    rows = []
    for figure in figures:
        queries, templates, length = figure["shape"]
        rows.append([f"{queries} queries, {templates} templates of {length} numbers",
                     *[1e3 * figure["seconds"][name] if name in figure["seconds"] else None
                       for name in ("attnkit", "Nesterov", "Newton-CG", "SciPy")]])
    return rows


BESIDE = {"gemm:4096": "sgemm", "gemm:4096:f64": "dgemm", "read:512": "reading"}


def library(figures):
    rows = []
    for figure in figures["cases"]:
        beside = figure["beside"]
        name = BESIDE.get(beside, f"`{beside}`")
        reads = name == "reading"
        rows.append([f"`{figure['case']}`", 1e3 * figure["median"],
                     None if reads else figure["gflops"], figure["gbytes"] if reads else None,
                     f"{figure['share']:.2f} of {name}" if "share" in figure else
                     f"{figure['over']:.2f} times {name}"])
    return rows


def rates(figures):
    best = figures["machine"]
    return [["fused multiply-adds, float32", best["peak"], "GFLOP/s"],
            ["fused multiply-adds, float64", best["peak:f64"], "GFLOP/s"],
            ["a sum of 512 MiB", best["read:512"], "GB/s"]]


def startup(figures):
    return [[f["tool"] if " " in f["tool"] else f"`{f['tool']}`", f["version"], f.get("tiny")] for f in figures]


def python(figures):
    return [[f"`{f['case']}`", *(1e3 * f["median"][way] for way in ("C++", "plan", "attention"))] for f in figures]


def pipe(figure):
    medians = figure["median"]
    commands = {"files": "`basis-paths step … IN -o OUT`",
                "pipes": "`cat IN \\| basis-paths step … \\| cat > OUT`", "cp": "`cp`",
                "pipes only": "`cat IN \\| cat > COPY; cat MADE \\| cat > OUT`"}
    return [[commands[name], seconds, seconds / medians["cp"]] for name, seconds in medians.items()]


def dump(figures):
    return [[f["tensors"], f["gbytes"], f["share_of"]["h5py"], f["share_of"].get("h5py, strided")]
            for f in figures]


FORWARD = [("", text), ("heads × length", text), ("library", fixed(0)), ("of sgemm", fixed(2)), ("tool", fixed(0)),
           ("NumPy", fixed(0, 2)), ("PyTorch", fixed(0, 2)), ("oneDNN", fixed(0, 2))]


def forward(figures):
    return attention(figures, ("NumPy", "PyTorch", "oneDNN"))


TABLES = {
    "forward": Table("forward", FORWARD, forward),
    "backward": Table("backward", [*FORWARD[:4], ("PyTorch", fixed(0, 2))],
                      lambda figures: attention(figures, ("PyTorch",))),
    "rates": Table("library", [("", text), ("rate", significant(3)), ("", text)], rates),
    "library": Table("library", [("case", text), ("ms", significant(3)), ("GFLOP/s", fixed(0)),
                                 ("GB/s", fixed(1)), ("beside", text)], library),
    "train": Table("train", [("model, tokens, symbols", text), ("`unas`, ms", fixed(0)), ("`dnas`", fixed(2)),
                             ("`hnas`", fixed(2)), ("`si-sgd`", fixed(2)), ("PyTorch", fixed(2))], training),
    "mechanisms": Table("mechanisms", [("", text), ("shape", text), ("library", significant(2)),
                                       ("loop of cells", significant(2)), ("PyTorch", significant(2)),
                                       ("memory, MB", text)], mechanisms),
    "iterations": Table("sinkhorn", [("", text), *[(str(2**n), significant(2)) for n in range(9, 14)]],
                        iterations),
    "penalised": Table("sinkhorn", [("", text), ("ours, ms", fixed(0)), ("POT, ms", fixed(0)),
                                    ("POT / ours", significant(2))], penalised),
    "bulk": Table("bulk", [("problems", text), ("millions a second", significant(3)),
                           ("PyTorch's time over that of the library", fixed(1))], bulk),
    "dual": Table("dual", [("problem", text), ("library, ms", significant(2)),
                           ("NumPy, batched: Nesterov, ms", significant(2)),
                           ("NumPy, batched: Newton-CG, ms", significant(2)),
                           ("SciPy, per query, ms", significant(2))], dual),
    "dump": Table("dump", [("tensors", text), ("GB/s", significant(3)), ("of h5py, contiguous", fixed(2)),
                           ("of h5py, strided", fixed(2))], dump),
    "startup": Table("startup", [("", text), ("`--version`, ms", fixed(1)), ("tiny problem, ms", fixed(1))], startup),
    "python": Table("python", [("case", text), ("C++, ms", significant(3)), ("`AttentionPlan`, ms", significant(3)),
                               ("`attention()`, ms", significant(3))], python),
    "pipe": Table("pipe", [("", text), ("seconds", significant(3)), ("over `cp`", fixed(2))], pipe),
}


def machine_line(about):
    """What the figures of a table were measured on, in Markdown."""
    model = f" (family {about['family']}, model {about['model']})" if "family" in about else ""
    simd = about.get("target") or SIMD.get(about["simd"], about["simd"])
    words = [f"{about['cpu']}{model}", simd, f"{about['threads']} threads"]
    if about.get("core_type"):
        words.append(f"OpenBLAS' kernels of the peers: {about['core_type']}")
    return f"*{', '.join(filter(None, [*words, *about.get('notes', [])]))}; {about['date']}*"


def markdown(name, figures):
    """The lines of a table from its part of figures.json."""
    columns = TABLES[name.partition("@")[0]].columns
    lines = [[title for title, _ in columns]]
    for row in figures["rows"]:
        lines.append(["" if cell is None else write(cell)
                      for (_, write), cell in zip(columns, row, strict=True)])
    written = ["|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|" for line in lines]
    return [machine_line(figures["machine"]), "", written[0], "|---" * len(columns) + "|", *written[1:]]
