"""Inputs and some 400 commands over all tools, whose results two builds must share to the last bit."""

import json

import h5py
import numpy as np

from mechanisms import PROBLEMS
from networks import network
from paths import weights
from training import RECIPE

EMIT = "out,weights,row_potential,col_potential,col_sum,row_entropy"
SCHEMES = ("--scheme unas", "--scheme dnas", "--scheme hnas --hybrid 0.3", "--scheme sinkhorn --iterations 4",
           "--scheme sinkhorn --tolerance 1e-3", "--scheme fenchel --alpha 1.3", "--scheme em --iterations 3",
           "--scheme mean-shift --iterations 3")
ONE_STEP = SCHEMES[:5]
GRADIENTS = "--emit grad_q,grad_k,grad_v"


def write(path, **datasets):
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name.replace("__", "/")] = values


def attention(random, heads, queries, keys, d, dv, kind="f4", groups=None):
    groups = groups or heads
    shapes = {"q": (heads, queries, d), "k": (groups, keys, d), "v": (groups, keys, dv),
              "grad_out": (heads, queries, dv)}
    return {name: random.normal(size=shape).astype(kind) for name, shape in shapes.items()}


def write_inputs(folder):
    """Bundles that the commands read, in `folder`."""
    random = np.random.default_rng(11)
    plain = attention(random, 2, 130, 97, 17, 9)
    write(folder / "plain.h5", **plain)
    write(folder / "double.h5", **attention(random, 2, 70, 131, 9, 5, "f8"))
    write(folder / "half.h5", **attention(random, 2, 70, 66, 16, 8, "f2"))
    write(folder / "bf16.h5", **{name: (values.view("u4") & 0xFFFF0000).view("f4") for name, values in plain.items()})
    write(folder / "grouped.h5", **attention(random, 6, 65, 80, 8, 8, groups=2))
    write(folder / "long.h5", **attention(random, 1, 1500, 1300, 24, 8))
    write(folder / "many.h5", **attention(random, 40, 33, 35, 8, 8))
    write(folder / "one.h5", **attention(random, 3, 1, 700, 64, 64))
    write(folder / "square.h5", **attention(random, 2, 90, 90, 16, 9), tokens=[f"w{n % 40}" for n in range(90)],
          hybrid=np.array([0.2, 0.7]), sink=random.normal(size=2), gate=random.normal(size=(2, 90, 9)))
    write(folder / "batch.h5", query_length=[60, 0, 33], key_length=[50, 7, 0],
          **{name: np.stack([values[:2]] * 3) for name, values in attention(random, 2, 60, 50, 8, 8).items()})
    mask = random.random((130, 97)) < 0.7
    mask[5], mask[:, 9] = False, False
    bias = random.normal(size=(2, 130, 97)).astype("f4")
    bias[random.random(bias.shape) < 0.1] = -np.inf
    write(folder / "masked.h5", mask=mask, **plain)
    write(folder / "biased.h5", bias=bias, **plain)
    write(folder / "scores.h5", scores=random.normal(size=(2, 130, 97)), **{n: plain[n] for n in ("v", "grad_out")})
    write(folder / "bilinear.h5", w=random.normal(size=(17, 17)).astype("f4"), **plain)
    write(folder / "mlp.h5", w1=random.normal(size=(6, 34)).astype("f4"), w2=random.normal(size=6).astype("f4"),
          b1=random.normal(size=6).astype("f4"), **plain)
    write(folder / "projected.h5", x=random.normal(size=(2, 1, 50, 12)), wq=random.normal(size=(3, 12, 4)),
          wk=random.normal(size=(3, 12, 4)), wv=random.normal(size=(3, 12, 5)), bq=random.normal(size=(3, 4)),
          wo=random.normal(size=(15, 7)), bo=random.normal(size=7), grad_out=random.normal(size=(2, 1, 3, 50, 5)),
          grad_joined=random.normal(size=(2, 1, 50, 7)))
    write(folder / "blhd.h5", **{name: np.swapaxes(values, 0, 1)[None] for name, values in plain.items()})
    write(folder / "t5.h5", rel_bias=random.normal(size=(32, 2)).astype("f4"), **plain)
    write(folder / "fenchel.h5", preference=random.uniform(0.1, 1, (2, 1, 97)).astype("f4"), **plain)
    cost = random.uniform(size=(2, 40, 30))
    masses = {"a": random.dirichlet(np.ones(40)), "b": random.dirichlet(np.ones(30))}
    write(folder / "cost.h5", cost=cost, grad_plan=random.normal(size=cost.shape), **masses)
    write(folder / "forbidden.h5", cost=np.where(random.random(cost.shape) < 0.2, np.inf, cost), **masses)
    write(folder / "points.h5", q=random.normal(size=(2, 40, 2)), k=random.normal(size=(2, 30, 2)), **masses)
    write(folder / "clouds.h5", **{f"k{n}": random.normal(size=(25, 2)) for n in (1, 2)}, k=random.normal(size=(25, 2)),
          q=random.normal(size=(20, 2)), a=random.dirichlet(np.ones(25), 3))
    write(folder / "bulk.h5", scores=random.normal(size=(300, 4, 4)).astype("f4"))
    write(folder / "dual.h5", q=random.normal(size=(2, 15, 3)), k=random.normal(size=(2, 20, 3)),
          preference=random.uniform(0.1, 1, (2, 1, 20)))
    write(folder / "features.h5", t=random.normal(size=(20, 3)), z=random.normal(size=(15, 3)))
    write(folder / "clusters.h5", x=random.normal(size=(3, 30, 2)), label=np.arange(30) % 3,
          start=random.normal(size=(4, 2)))
    wq, wk = weights(random, 2, 6, 4), weights(random, 2, 6, 4)
    write(folder / "paths.h5", wq=wq, wk=wk, scale=random.uniform(0.5, 2, (2, 4)), grad_wq=random.normal(size=wq.shape),
          grad_wk=random.normal(size=wq.shape))
    net = network(random, (5, 8, 8, 3), 4)
    gradients = {f"grad_{name}": random.normal(size=values.shape) for name, values in net.items()}
    write(folder / "net.h5", **net, **gradients)
    groups = {}
    for n, length in enumerate((9, 40, 7, 25)):
        for name in ("q", "k", "v"):
            groups[f"text__layer{n}__{name}"] = random.normal(size=(2, length, 5))
        groups[f"text__layer{n}__tokens"] = [f"t{k}" for k in range(length)]
    write(folder / "dump.h5", **groups)
    for number, problem in enumerate(PROBLEMS):
        own = {name: random.integers(0, problem.sizes[of] + 1, size=7) for name, of in problem.lengths.items()}
        write(folder / f"mechanism{number}.h5", **problem.datasets(own, "f4"))
    (folder / "longer.toml").write_text(RECIPE.replace("steps = 12", "steps = 40"))
    (folder / "recipe.toml").write_text(RECIPE)
    for name in ("a1", "a2", "a3", "b1", "b2", "b3"):
        (folder / f"{name}.jsonl").write_text("".join(
            json.dumps({"step": n, "valid": {"loss": float(n + random.normal())}}) + "\n" for n in range(5)))


def attention_commands():
    for scheme in SCHEMES:
        for file in ("plain", "double", "half", "grouped", "many", "one", "batch"):
            yield f"attn-compute {scheme} {file}.h5 --only -o out.h5"
    for scheme in ONE_STEP:
        for file in ("plain", "masked", "biased", "batch"):
            yield f"attn-compute {scheme} {file}.h5 --emit {EMIT} --only -o out.h5"
            yield f"attn-compute {scheme} {file}.h5 {GRADIENTS} --only -o out.h5"
        yield f"attn-compute {scheme} --from scores scores.h5 --emit {EMIT},grad_v --only -o out.h5"
        yield f"attn-compute {scheme} long.h5 --emit out,col_sum,row_entropy --only -o out.h5"
        yield f"attn-compute {scheme} long.h5 {GRADIENTS} --threads 2 --only -o out.h5"
        yield f"attn-compute {scheme} long.h5 --memory 12M --threads 1 --only -o out.h5"
        yield f"attn-compute {scheme} --from projection projected.h5 --emit out,grad_x,grad_wq --only -o out.h5"
        yield f"attn-compute {scheme} --layout blhd blhd.h5 --emit out,col_sum,grad_q --only -o out.h5"
        yield f"attn-compute {scheme} --precision f64 plain.h5 --emit out,scores,energies --only -o out.h5"
        yield f"attn-compute {scheme} plain.h5 --queries 0,17,100:108,-1 --emit out,weights --only -o out.h5"
    for energy, file in (("dot", "plain"), ("gaussian", "plain"), ("bilinear", "bilinear"), ("mlp", "mlp")):
        for scheme in ONE_STEP[:4]:
            more = {"bilinear": ",grad_w", "mlp": ",grad_w1,grad_w2,grad_b1"}.get(energy, "")
            yield f"attn-compute {scheme} --energy {energy} {file}.h5 --emit {EMIT},grad_q,grad_k{more} --only -o out.h5"
    for option in ("--causal=top-left", "--causal=bottom-right", "--window 9:4", "--softcap 3", "--relative-bias alibi",
                   "--scale 0.3", "--query-offset 12 --causal=top-left", "--window 20 --causal=top-left"):
        for scheme in ONE_STEP[:3]:
            yield f"attn-compute {scheme} {option} plain.h5 --emit {EMIT},grad_q,grad_k --only -o out.h5"
    yield "attn-compute --relative-bias t5 t5.h5 --emit out,grad_rel_bias --only -o out.h5"
    yield "attn-compute --scheme dnas --relative-bias t5 --causal=top-left t5.h5 --emit grad_rel_bias --only -o out.h5"
    yield "attn-compute --scheme hnas square.h5 --emit out,col_sum,grad_hybrid --only -o out.h5"
    yield "attn-compute square.h5 --emit out,grad_sink,grad_gate,row_entropy --only -o out.h5"
    yield "attn-compute --scheme fenchel fenchel.h5 --emit out,weights,col_sum,grad_q --only -o out.h5"
    yield "attn-compute --precision bf16 bf16.h5 --only -o out.h5"
    for scheme in ("em", "mean-shift"):
        yield f"attn-compute --scheme {scheme} --iterations 3 --energy gaussian plain.h5 {GRADIENTS},centre --only -o out.h5"
    yield ("attn-compute --scheme em --iterations 4 --estimate variance,priors plain.h5 --emit out,variance,prior "
           "--only -o out.h5")
    yield "attn-compute --from projection --join projected.h5 --emit out,grad_wo,grad_x --only -o out.h5"
    for threads in (1, 2, 3, 5):
        yield f"attn-compute --scheme dnas many.h5 {GRADIENTS} --threads {threads} --only -o out.h5"
        yield f"attn-compute --scheme dnas long.h5 --emit {EMIT} --threads {threads} --only -o out.h5"
        yield f"explain-away-stats --scheme unas,dnas,hnas,sinkhorn --hybrid 0.4 long.h5 --threads {threads} --tsv"
    for scheme in ("unas", "dnas", "hnas --hybrid 0.3", "sinkhorn", "fenchel --alpha 1.3"):
        yield f"explain-away-stats --scheme {scheme} dump.h5 --tsv"
    for options in ("", "--scheme dnas", "--scheme hnas --hybrid 0,0.5,1", "--scale 0.5,1,2", "--causal",
                    "--epsilon 0.1,1 --min-queries 3", "--top 3 --bins 5", "--concentration 0.01 --top-shares 1,2,3"):
        if "," not in options or "epsilon" in options or "shares" in options:
            yield f"explain-away-stats {options} square.h5 --json=report.json -o out.h5"
        yield f"explain-away-stats {options} square.h5"
    yield "explain-away-stats masked.h5 batch.h5 biased.h5 --tsv"
    yield "explain-away-stats dump.h5 --csv --sort min_c"
    yield "attn-compute --scheme dnas square.h5 | explain-away-stats --scheme stored - "


def transport_commands():
    for options in ("--iterations 7", "--tolerance 1e-6", "--tolerance 1e-6 --anneal", "--unbalanced 0.5 --tolerance 1e-6",
                    "--iterations 5 --precision f32", "--iterations 9 --relax 1.3"):
        for file in ("cost", "forbidden"):
            yield f"sinkhorn-iter {options} --epsilon 0.1 {file}.h5 --emit plan --only -o out.h5 --json=report.json"
        yield f"sinkhorn-iter {options} --epsilon 0.5 points.h5 --only -o out.h5"
        yield f"sinkhorn-iter {options} --energy gaussian points.h5 --only -o out.h5"
    yield "sinkhorn-iter --tolerance 1e-9 --epsilon 0.2 cost.h5 --emit plan,grad_cost --only -o out.h5"
    for threads in (1, 2, 3):
        yield f"sinkhorn-iter --iterations 3 long.h5 --threads {threads} --only -o out.h5"
        yield f"sinkhorn-iter exact cost.h5 --emit plan --threads {threads} --only -o out.h5"
    yield "sinkhorn-iter exact points.h5 --only -o out.h5"
    yield "sinkhorn-iter exact points.h5 --solver annealing --only -o out.h5"
    yield "sinkhorn-iter divergence --epsilon 0.5 points.h5 --only -o out.h5"
    yield "sinkhorn-iter barycentre --epsilon 0.5 clouds.h5 --only -o out.h5"
    yield "sinkhorn-iter --from scores --iterations 20 bulk.h5 --only -o out.h5 --json=report.json"
    yield "sinkhorn-iter plain.h5 --only -o out.h5"


def other_commands():
    for options in ("", "--alpha 2", "--emit lambda,h_first_order", "--threads 2", "--memory 3M"):
        yield f"lambda-solve {options} dual.h5 --only -o out.h5"
        yield f"lambda-solve {options} features.h5 --only -o out.h5 --json=report.json"
    yield "lambda-solve plain.h5 --tsv -o out.h5"
    for scheme in ("unas", "dnas", "hnas --hybrid 0.5", "sinkhorn --iterations 3"):
        for energy in ("dot", "gaussian"):
            yield f"mode-collapse-sim simulate --scheme {scheme} --energy {energy} clusters.h5 -o out.h5"
    yield "mode-collapse-sim simulate --counts 50,5 --centres '1,0;-1,0' --seeds 5 --threads 3 -o out.h5"
    yield "mode-collapse-sim curve -o out.h5"
    for options in ("", "--priors estimated --estimate-variance", "--priors dnas", "--estimate-variance=each --start '1,1;-1,1'"):
        yield f"mode-collapse-sim em {options} clusters.h5 -o out.h5"
    for verb in ("identify", "values", "rescale", "start", "step --rate 0.01", "step --rate 0.01 --optimizer si-sgd",
                 "step --rate 0.1 --optimizer adam", "step --rate 0.01 --optimizer si-adam"):
        yield f"basis-paths {verb} paths.h5 -o out.h5"
        if "rescale" not in verb and "start" not in verb:
            skeleton = "--skeleton largest" if "si-" in verb else ""
            yield f"basis-paths {verb} --network relu {skeleton} net.h5 -o out.h5"
    yield "basis-paths values paths.h5 | basis-paths reconstruct -o out.h5"
    yield "basis-paths check paths.h5 --json=report.json"
    yield "basis-paths check --network relu net.h5"
    for number, problem in enumerate(PROBLEMS):
        words = " ".join(problem.options)
        yield f"{problem.tool} {words} mechanism{number}.h5 --only -o out.h5"
        yield f"{problem.tool} {words} mechanism{number}.h5 --precision f64 --threads 2 --only -o out.h5"
    for change in ("", "--set decoder.self.scheme=dnas --allow-leak", "--set optimizer.rule=adam", "--threads 2"):
        yield f"attn-train recipe.toml {change} -o out.h5 --log log.jsonl"
    yield "seed-test a?.jsonl against b?.jsonl --metric valid.loss --better lower"
    yield "tensor-gen normal q=3x40x5 k=3x30x5 --seed 4 -o out.h5"
    yield "tensor-gen clusters x=90x3 --counts 50,30,10 --centres '2,0,0;0,2,0;0,0,2' -o out.h5"
    yield "attn-view dump.h5 --size 100K"
    yield "attn-view batch.h5 --threads 2 --memory 1M"
    yield "tensor-info dump.h5"
    yield "tensor-info dump.h5 --tsv"
    yield "tensor-convert plain.h5 -o out.npz"
    yield "tensor-convert plain.h5 -o out.safetensors"
    yield "tensor-compare plain.h5 masked.h5 || test $? = 1"
    yield "alignment-attention measure --links-base 0 --help >/dev/null"


def divided_commands():
    """Shards that are joined, ranks, and restarts. STOP interrupts a command once it has a checkpoint."""
    for command in ("attn-compute --scheme dnas many.h5", "explain-away-stats many.h5", "lambda-solve many.h5",
                    "sinkhorn-iter --iterations 3 many.h5", "basis-paths values paths.h5",
                    "mode-collapse-sim simulate clusters.h5", "attn-compute dump.h5"):
        for joined in ("", "--virtual"):
            yield (f"for n in 1 2 3; do {command} --shard $n/3 -o part.h5; done; "
                   f"tensor-join part.*.h5 {joined} -o out.h5")
    for command in ("attn-compute --scheme dnas long.h5", "attn-compute long.h5 --emit out,col_sum",
                    f"attn-compute --scheme hnas --hybrid 0.3 long.h5 {GRADIENTS}",
                    "attn-compute --scheme sinkhorn --iterations 3 long.h5", "explain-away-stats long.h5",
                    "attn-compute --scheme em --iterations 2 long.h5", "attn-compute --scheme fenchel long.h5",
                    "attn-compute --scheme dnas --causal=top-left long.h5 --emit weights",
                    "explain-away-stats --scheme unas,dnas,hnas,sinkhorn --hybrid 0.4 long.h5",
                    "sinkhorn-iter --unbalanced 2 --epsilon 0.5 points.h5",
                    "sinkhorn-iter --iterations 3 long.h5", "sinkhorn-iter exact --gap 0.01 cost.h5", "lambda-solve long.h5"):
        for ranks in (2, 3):
            yield f"RANKS {ranks} {command} --only -o out.h5"
        if "weights" not in command:
            yield f"STOP {command} --only -o out.h5 --checkpoint ck --checkpoint-every 0"
    yield "STOP attn-train longer.toml -o out.h5"


def commands():
    for some in (attention_commands, transport_commands, other_commands, divided_commands):
        yield from some()
