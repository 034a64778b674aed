#!/usr/bin/env python3
"""Refits the costs that estimates rest on (src/kernels/cpu/costs.inc) to what kernels take on this machine.

    fit.py [--build DIR] [--networks N] [--seed S] [--budget 60s] [--rounds N]

Networks are drawn from seeds (bench/networks) and split: every other one is fitted to, of the rest nothing is looked at but how well it went, and nothing
of groups that both have. Kernels of all of them are measured by `emend bench --candidates`, which says of every estimate what it changes by with each cost;
times that are known come from the price list. A cost stays near what it was unless the times say otherwise. The table is written, emend is built with it,
and everything is measured again, since better estimates offer other candidates: what is printed of a round is what emend then does.
"""
import argparse, datetime, json, math, os, pathlib, platform, re, subprocess, sys, tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "src/kernels/cpu/costs.inc"
ROW = re.compile(r"^COST\((\w+), ([-+.\de]+), ")
sys.path.insert(0, str(ROOT / "bench"))
from networks import write as write_network  # noqa: E402


def table():
    return {m[1]: float(m[2]) for m in map(ROW.match, TABLE.read_text().splitlines()) if m}


def processor():
    try:
        return next(l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


class Kernel:
    """One candidate of a group in one layout: what it was thought to take, what it took, and how the first depends on the costs."""

    def __init__(self, price, costs):
        self.group, self.name = (price["group"], price["layouts"]), price["kernel"]
        self.estimate, self.ms = price["estimate_ms"], price["ms"]
        self.slopes = numpy.array([price["slopes_ms"].get(c, 0.0) for c in costs])


def measured(emend, network, costs, options):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "facts.json"
        command = [emend, "bench", network, "--candidates", str(options.candidates), "--budget", options.budget, "--seconds", "0.05", "--no-check", "-q"]
        done = subprocess.run([*command, "--json", file], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}")
        model = json.loads(file.read_text())["models"][0]
    if model["prices_left"]:
        print(f"  {model['prices_left']} kernels of {network} were not measured: --budget", flush=True)
    return [Kernel(p, costs) for p in model["prices"] if p["ms"] > 0]


def groups_of(kernels):
    groups = {}
    for k in kernels:
        groups.setdefault(k.group, {})[k.name] = k
    return [list(g.values()) for g in groups.values()]


def fitted(kernels, costs, options):
    """Factors of the costs: what is far off counts no more than what is off by half, and a factor costs something by itself."""
    # Every group counts alike, however many candidates it has.
    sizes = {}
    for k in kernels:
        sizes[k.group] = sizes.get(k.group, 0) + 1
    weights = numpy.array([1 / math.sqrt(sizes[k.group]) for k in kernels])
    estimates, times = (numpy.array([getattr(k, a) for k in kernels]) for a in ("estimate", "ms"))
    slopes = numpy.array([k.slopes for k in kernels])
    logs = numpy.zeros(len(costs))
    for _ in range(60):
        factors = numpy.exp(logs)
        now = numpy.maximum(estimates + slopes @ (factors - 1), estimates / 20)
        residual = numpy.log(times / now)
        robust = weights / (1 + (residual / 0.4) ** 2)
        jacobian = slopes * factors / now[:, None]
        left = (jacobian.T * robust) @ jacobian + options.stay * robust.sum() / 100 * numpy.eye(len(costs))
        step = numpy.linalg.solve(left, (jacobian.T * robust) @ residual - options.stay * robust.sum() / 100 * logs)
        logs = numpy.clip(logs + 0.5 * numpy.clip(step, -0.3, 0.3), -math.log(options.most), math.log(options.most))
    return numpy.exp(logs)


def score(groups):
    """What choosing by estimates comes to. Groups of one candidate have no choice, but an estimate."""
    best = ratio = choices = near = 0
    for group in groups:
        first = min(group, key=lambda k: k.estimate)
        near += max(first.ms / first.estimate, first.estimate / first.ms) <= 1.3
        if len(group) < 2:
            continue
        fastest = min(k.ms for k in group)
        choices += 1
        best += first.ms == fastest
        ratio += math.log(first.ms / fastest)
    return choices, best / max(choices, 1), math.exp(ratio / max(choices, 1)), near / max(len(groups), 1)


def tell(title, kernels):
    groups = groups_of(kernels)
    choices, best, ratio, near = score(groups)
    print(f"{title:<34}{len(groups):>7}{choices:>9}{best:>9.0%}{ratio:>14.3f}{near:>16.0%}", flush=True)


def write(costs, values, kernels):
    lines = TABLE.read_text().splitlines()
    for i, line in enumerate(lines):
        if line.startswith("// Fitted to"):
            lines[i] = f"// Fitted to: {processor()}, {os.cpu_count()} threads, {datetime.date.today()}, {kernels} kernels (bench/fit.py)."
        if m := ROW.match(line):
            lines[i] = f"COST({m[1]}, {values[costs.index(m[1])]:.3g}, " + line[m.end():]
    TABLE.write_text("\n".join(lines) + "\n")


def measured_sets(files, costs, options):
    sets = []
    for part in files:
        sets.append([])
        for number, file in enumerate(part):
            sets[-1] += measured(options.emend, file, costs, options)
            print(f"\r{number + 1} of {len(part)} networks", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    fit = {k.group for k in sets[0]}
    return sets[0], [k for k in sets[1] if k.group not in fit]


def drawn(folder, options):
    """Kinds take turns, so neighbours are networks of different kinds: which kind is fitted to changes from one turn to the next."""
    files = ([], [])
    for number in range(options.networks):
        files[number % 2].append(write_network(folder, options.seed + number))
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="where emend is built, again with what was fitted")
    parser.add_argument("--networks", type=int, default=40, help="how many are drawn; half of them are fitted to")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--fit-to", nargs="+", default=[], metavar="MODEL", help="files instead of drawn networks")
    parser.add_argument("--held-out", nargs="+", default=[], metavar="MODEL")
    parser.add_argument("--budget", default="60s", help="for the measurements of one network")
    parser.add_argument("--candidates", type=int, default=10, help="of every group")
    parser.add_argument("--rounds", type=int, default=2, help="of fitting; 0: how good the table is")
    parser.add_argument("--stay", type=float, default=0.5, help="how strongly costs stay where they are")
    parser.add_argument("--most", type=float, default=4, help="times that a cost may change in one round")
    options = parser.parse_args()
    options.emend = options.build / "emend"
    costs, given = list(table()), table()
    with tempfile.TemporaryDirectory() as folder:
        files = (options.fit_to, options.held_out) if options.fit_to or options.held_out else drawn(folder, options)
        sets = measured_sets(files, costs, options)
        print(f"{'':<34}{'groups':>7}{'choices':>9}{'first':>9}{'first / best':>14}{'within 1.3x':>16}")
        print(f"{'':<34}{'':>7}{'':>9}{'is best':>9}{'':>14}{'of its estimate':>16}")
        tell("fitted to, before", sets[0])
        tell("held out, before", sets[1])
        for number in range(options.rounds):
            values = [table()[c] * f for c, f in zip(costs, fitted(sets[0], costs, options))]
            write(costs, values, len(sets[0]))
            subprocess.run(["cmake", "--build", options.build, "--target", "emend_cli"], check=True, stdout=subprocess.DEVNULL)
            sets = measured_sets(files, costs, options)
            tell(f"fitted to, round {number + 1}", sets[0])
            tell(f"held out, round {number + 1}", sets[1])
    print(f"\n{'cost':<22}{'was':>12}{'is':>12}")
    for cost, value in table().items():
        print(f"{cost:<22}{given[cost]:>12.4g}{value:>12.4g}")


if __name__ == "__main__":
    main()
