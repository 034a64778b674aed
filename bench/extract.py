#!/usr/bin/env python3
"""Extraction on TENSAT's own e-graphs: what `make bench-extract` runs.

The three files are extraction-gym's and not part of this tree: EMEND_EGRAPHS names the folder that holds them, as data/tensat of
https://github.com/egraphs-good/extraction-gym does.

Every method on one thread: the greedy baselines once, the search with ten seeds, the proof once. Printed are the cost, the time of
the extraction alone (reading the file is not part of it), how many seeds reach the bar, and the lower bound. Exits with 1 where a
bar is missed: the cost that CPLEX reaches in 15 minutes, by every seed and in the time given.
"""
import argparse, json, os, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The most a solution may cost, and the seconds of one search.
BARS = {"tensat_bert": (0.70472 + 1e-5, 5.0), "tensat_vgg": (4.850758, 0.1), "tensat_resnet50": (4.385796, 0.1)}


def egraphs():
    folder = pathlib.Path(os.environ.get("EMEND_EGRAPHS", "."))
    paths = {name: folder / f"{name}.json" for name in BARS}
    missing = [str(path) for path in paths.values() if not path.exists()]
    if missing:
        sys.exit(f"not found: {', '.join(missing)}\nclone https://github.com/egraphs-good/extraction-gym and set EMEND_EGRAPHS to its data/tensat")
    return paths


def extract(emend, path, *options):
    command = [emend, "extract", path, "--json", "-", "--quiet", "--threads", "1", *options]
    return json.loads(subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout)


def row(name, method, cost, seconds, seeds="", bound=""):
    print(f"{name:<16} {method:<12} {cost:>10} {seconds:>18} {seeds:>8}  {bound}", flush=True)


def race(emend, name, path, seeds):
    """One e-graph; true if every bar is met."""
    dearest, longest = BARS[name]
    for method in "greedy-tree", "greedy-dag":
        facts = extract(emend, path, "--method", method)
        row(name, method, f"{facts['cost']:.6f}", f"{facts['seconds']:.4f}")
    runs = [extract(emend, path, "--seed", seed) for seed in range(seeds)]
    good = sum(run["cost"] <= dearest and run["seconds"] <= longest for run in runs)
    times = sorted(run["seconds"] for run in runs)
    worst = max(run["cost"] for run in runs)
    row(name, "search", f"{worst:.6f}", f"{times[0]:.4f} - {times[-1]:.4f}", f"{good}/{seeds}")
    proof = extract(emend, path, "--certify", "--seconds", 300)
    gap = 100 * (1 - proof["lower_bound"] / proof["cost"])
    told = "optimal" if proof["optimal"] else f"gap {gap:.2f} %"
    row(name, "--certify", f"{proof['cost']:.6f}", f"{proof['certify_seconds']:.4f}", "", f"{proof['lower_bound']:.6f} {told}, {proof['certified_by']}")
    return good == seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many searches (10)")
    options = parser.parse_args()
    emend = os.environ.get("EMEND", ROOT / "build/emend")
    paths = egraphs()
    row("e-graph", "method", "cost", "seconds", "seeds", "lower bound")
    met = [race(emend, name, path, options.seeds) for name, path in paths.items()]
    print("every bar is met" if all(met) else "a bar is missed")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
