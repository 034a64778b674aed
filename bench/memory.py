#!/usr/bin/env python3
"""What a start costs and what a process holds: what `make bench-memory` runs, over the models of the zoo or those named.

Every model is started twice, the second time with its kernels in the cache, and that one counts. The peak of the process, less a
constant for what is no model (PROCESS: Emend's own code and tables, the graph, the compiled kernels; ONEDNN: that library's code, what it
generates, and its tables, where it is loaded), may be at most 1.15 times the weights as the plan stores them plus the lower bound on what
is alive at one step; weights as stored at most 4 times those of the model or 512 MiB; the start at most 0.5 s besides reading and packing weights.
"""
import argparse, json, pathlib, subprocess, sys

from compare import NOT_RACED, build_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROCESS, ONEDNN = 20e6, 28e6  # bytes
ALLOWED_PEAK, ALLOWED_WEIGHTS, SMALL_WEIGHTS, ALLOWED_START = 1.15, 4, 512 << 20, 0.5


def second_start(emend, model):
    """The facts of one model whose kernels were compiled and checked before."""
    for _ in range(2):
        out = subprocess.run([emend, "bench", model, "--runs", "2", "--no-check", "--json", "-", "--quiet"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    report = json.loads(out)
    [facts] = report["models"]
    constant = PROCESS + (ONEDNN if report["onednn"] else 0)
    needed = facts["weight_bytes"] + facts["arena_lower_bound"]
    return {
        "model": pathlib.Path(model).stem,
        "in_model": facts["model_weight_bytes"],
        "weights": facts["weight_bytes"],
        "arena": facts["arena_bytes"],
        "lower_bound": facts["arena_lower_bound"],
        "peak": report["peak_memory_bytes"],
        "peak_ratio": (report["peak_memory_bytes"] - constant) / needed,
        "weights_ratio": facts["weight_bytes"] / facts["model_weight_bytes"],
        "start_s": facts["compile_s"] - facts["phases_ms"]["weights"] / 1e3,
        "weights_s": facts["phases_ms"]["weights"] / 1e3,
    }


def faults(m):
    """What is beyond its bound."""
    found = []
    if m["peak_ratio"] > ALLOWED_PEAK:
        found.append(f"peak above {ALLOWED_PEAK}x")
    if m["weights_ratio"] > ALLOWED_WEIGHTS and m["weights"] > SMALL_WEIGHTS:
        found.append(f"weights above {ALLOWED_WEIGHTS}x")
    if m["start_s"] > ALLOWED_START:
        found.append(f"start above {ALLOWED_START} s")
    return found


def zoo(emend):
    listed = subprocess.run([emend, "zoo", "--json", "-"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [m["name"] for m in json.loads(listed)["models"] if m["name"] not in NOT_RACED]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="names of the zoo (all)")
    parser.add_argument("--emend", default=ROOT / "build/emend", type=pathlib.Path)
    args = parser.parse_args()
    print(f"MB; peak ratio: (peak - {PROCESS / 1e6:.0f} - {ONEDNN / 1e6:.0f} for oneDNN) / (weights as stored + lower bound)")
    print(f"{'model':16}{'in model':>10}{'as stored':>10}{'ratio':>7}{'values':>9}{'bound':>9}{'peak':>9}{'ratio':>7}{'start s':>9}{'weights s':>10}")
    wrong = 0
    for name in args.models or zoo(args.emend):
        m = second_start(args.emend, build_model(args.emend, name, ROOT / "build/bench"))
        mb = {k: m[k] / 1e6 for k in ("in_model", "weights", "arena", "lower_bound", "peak")}
        print(f"{name:16}{mb['in_model']:10.1f}{mb['weights']:10.1f}{m['weights_ratio']:7.2f}{mb['arena']:9.2f}{mb['lower_bound']:9.2f}"
              f"{mb['peak']:9.1f}{m['peak_ratio']:7.2f}{m['start_s']:9.2f}{m['weights_s']:10.2f}  {', '.join(faults(m))}", flush=True)
        wrong += bool(faults(m))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
