"""The library alone, beside what the machine can do at best, or beside `unas`: a part of
tests/bench/run.

Each case of attn-bench (library.cpp) is a process of its own, and so is what it is compared with;
they run in turn.
"""

import json
import statistics
import subprocess
import time
from pathlib import Path

from contenders import attn_bench, in_turn

USUAL = "unas:8x2048x64"
SGEMM, DGEMM = "gemm:4096", "gemm:4096:f64"
READ = "read:512"  # as many mebibytes as one query per head reads of keys and values
# Cases, and what each is compared with.
CASES = [
    *[(f"{scheme}:{rest}", SGEMM) for scheme in ("unas", "dnas") for rest in (
        "512x64x64", "8x2048x80", "8x2048x96", "8x2048x128", "8x2048x256",
        "8x2048x64:dv=40", "8x2048x64:dv=200", "8x2047x64:rows=1537", "8x2048x64:backward")],
    (f"{USUAL}:causal", SGEMM), (f"{USUAL}:spread=3", SGEMM), (f"{USUAL}:entropy", SGEMM),
    *[(f"{scheme}:8x2048x64:f64{word}", DGEMM) for scheme in ("unas", "dnas")
      for word in ("", ":backward")],
    (f"{USUAL}:bf16", USUAL), ("dnas:8x2048x64:bf16", "dnas:8x2048x64"),
    (f"{USUAL}:colsum", USUAL), ("dnas:8x2048x64:colsum", USUAL), ("hnas:8x2048x64", USUAL),
    ("hnas:8x2048x64:colsum", f"{USUAL}:colsum"), ("sinkhorn:8x2048x64:iterations=5", USUAL),
    ("unas:64x16384x64:rows=1", READ),
]
DUMP = Path(__file__).resolve().parents[3] / "shared/data/model/stories260K_attention.h5"


def _measure(conditions, case, beside):
    """Seconds of both; the rate of the case, and its share of that of a machine's case, or its
    time over that of another case of attention."""
    workers = {case: attn_bench(conditions, case),
               beside: attn_bench(conditions, beside, conditions.peer() if "gemm" in beside else {})}
    about = {name: json.loads(worker.ask("about")) for name, worker in workers.items()}
    seconds = in_turn(workers, conditions.runs, rarely=(SGEMM, DGEMM))
    for worker in workers.values():
        worker.close()
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    figure = {"case": case, "beside": beside, "seconds": seconds, "median": medians[case],
              "gflops": about[case]["flops"] / medians[case] / 1e9,
              "gbytes": about[case]["bytes"] / medians[case] / 1e9}
    if beside.startswith(("gemm", "read")):
        counted = "bytes" if beside.startswith("read") else "flops"
        best = about[beside][counted] / medians[beside]
        figure["share"] = about[case][counted] / medians[case] / best
    else:
        figure["over"] = medians[case] / medians[beside]
    return figure


def of_machine(conditions):
    """GFLOP/s and GB/s of the machine by case, on all threads."""
    command = [conditions.build / "attn-bench", "--json", "--runs", conditions.runs,
               "--threads", conditions.threads, "peak", "peak:f64", READ]
    text = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    found = {line["case"]: line for line in map(json.loads, text.splitlines())}
    return {name: line["gbytes"] if name == READ else line["gflops"] for name, line in found.items()}


def print_library(conditions):
    best = of_machine(conditions)
    print(f"the machine: {best['peak']:.0f} GF/s of fused multiply-adds in float32, {best['peak:f64']:.0f} "
          f"in float64; reads {best[READ]:.1f} GB/s")
    print("the library alone: share of the rate of gemm or of reading, or time over that of another case")
    cases = []
    for case, beside in CASES:
        figure = _measure(conditions, case, beside)
        cases.append(figure)
        compared = (f"{figure['share']:>7.2f} of" if "share" in figure else f"{figure['over']:>7.2f} times")
        rate = (f"{figure['gbytes']:>7.1f} GB/s" if beside == READ else f"{figure['gflops']:>7.0f} GF/s")
        print(f"{case:36}{1e3 * figure['median']:>10.2f} ms{rate}{compared} {beside}", flush=True)
    figures = {"machine": best, "cases": cases,
               "whole_dump_s": print_whole_dump(conditions.build / "bin/attn-compute", conditions.runs)}
    print()
    return figures


def print_whole_dump(tool, runs):
    """Seconds of one command over every layer of a trained decoder, if that is available."""
    if not DUMP.exists():
        return None
    command = [tool, "--each", "/text/*/layer*", "--map", "q=Q,k=K,v=V", "--causal", "--quiet",
               "--only", "--emit=out,col_sum", DUMP, "-o", "/dev/null"]
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, check=True)
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    print(f"a whole dump (4 texts x 5 layers x 8 heads), reading and writing: {seconds:.2f} s")
    return seconds
