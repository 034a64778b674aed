#!/usr/bin/env python3
"""The e-graph against egglog on the `math` benchmark: what `make bench-egraph` runs.

Both saturate bench/egraph/math.egg without a scheduler on one core, in turns, every turn in a process of its own; egglog repeats within its
turn and its best counts, so that it is not charged for a cold start. Parsing and the first terms are not counted. The e-node counts
must be the known ones, Emend's with provenance on, and the ratio of the best times at least what stands in WANTED; otherwise the exit code is 1.
"""
import argparse, json, os, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = ROOT / "bench/egraph/math.egg"
COUNTS = {8: 8113, 9: 28303, 10: 136446, 11: 1047896}
WANTED = {8: 4.0, 9: 4.0, 10: 3.0, 11: 2.5}

PEER = """
import json, resource, sys, time
from egglog.bindings import EGraph
rules, iterations, repeats = open(sys.argv[1]).read(), sys.argv[2], int(sys.argv[3])
seconds = []
for _ in range(repeats):
    g = EGraph()
    g.run_program(*g.parse_program(rules))
    run = g.parse_program(f"(run {iterations})")
    start = time.perf_counter()
    g.run_program(*run)
    seconds.append(time.perf_counter() - start)
    [sizes] = g.run_program(*g.parse_program("(print-size)"))
print(json.dumps({"seconds": min(seconds), "enodes": sum(n for _, n in sizes.sizes),
                  "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def on_one_core(command):
    core = max(os.sched_getaffinity(0))
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "RAYON_NUM_THREADS": "1"}, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def race(args, iterations):
    ours, theirs = [], []
    repeats = {8: 5, 9: 5, 10: 3}.get(iterations, 1)
    for _ in range(args.rounds):
        ours += [on_one_core([args.bench, RULES, "--iterations", iterations, "--json", "-"]) for _ in range(repeats)]
        theirs.append(on_one_core([sys.executable, "-c", PEER, RULES, iterations, repeats]))
    return [min(runs, key=lambda run: run["seconds"]) for runs in (ours, theirs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("iterations", nargs="*", type=int, default=[], help="8 to 11 (all)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/bench_egraph")
    args = parser.parse_args()
    if unknown := [i for i in args.iterations if i not in COUNTS]:
        parser.error(f"the counts are known for {', '.join(map(str, COUNTS))} iterations, not for {unknown[0]}")
    print(f"{'':12}{'':>10}{'Emend':>10}{'egglog':>10}{'':>8}{'':>8}{'Emend':>14}{'bytes per':>11}{'peak MB,':>10}{'peak MB,':>10}")
    print(f"{'iterations':12}{'e-nodes':>10}{'ms':>10}{'ms':>10}{'ratio':>8}{'wanted':>8}{'M e-nodes/s':>14}{'e-node':>11}{'Emend':>10}{'egglog':>10}")
    wrong = False
    for iterations in args.iterations or COUNTS:
        ours, theirs = race(args, iterations)
        ratio = theirs["seconds"] / ours["seconds"]
        notes = [f"{who} counts {run['enodes']}" for who, run in (("Emend", ours), ("egglog", theirs)) if run["enodes"] != COUNTS[iterations]]
        if ratio < WANTED[iterations]:
            notes.append("too slow")
        wrong |= bool(notes)
        print(f"{iterations:<12}{ours['enodes']:>10}{ours['seconds'] * 1e3:10.2f}{theirs['seconds'] * 1e3:10.2f}{ratio:8.2f}{WANTED[iterations]:8.1f}"
              f"{ours['enodes'] / ours['seconds'] / 1e6:14.2f}{ours['egraph_bytes'] / ours['enodes']:11.0f}{ours['peak_memory_bytes'] / 1e6:10.1f}"
              f"{theirs['peak_memory_bytes'] / 1e6:10.1f}  {', '.join(notes)}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
