#!/usr/bin/env python3
"""How much the search leaves on the table: what `make bench-regret` runs.

Networks from seeds (bench/networks), the named ones among them, and the zoo are searched by default and in tens of other ways: a family of rules left out,
mutation left out, ten times the limits (build/bench_regret, which prints one line of JSON for each model). A model's regret is the price by default over
the lowest price that any way came to, the default among them: 1 where nobody could have known better. Printed are the models above 1.005, each with the
two commands that show it; at the end the figures over all, the worst, a table by kind of network, and how often each way alone was best.

The exit code is 1 where the gate is not passed (GATE below) or a model could not be searched. `--json FILE` keeps the lines, and `--resume FILE` takes
those of an earlier run, so that what was interrupted goes on.
"""
import argparse, collections, concurrent.futures, contextlib, json, math, os, pathlib, subprocess, sys, tempfile, threading

import networks
from figures import quantile
from search import MODELS, ROOT, emend

PROGRAM = pathlib.Path(os.environ.get("BENCH_REGRET", ROOT / "build/bench_regret"))
GATE = {"mean": 1.002, "share": (1.01, 0.01), "largest": 1.03}  # the geometric mean; above the first at most that share; none above
TOLD = 1.005  # what progress speaks of
EQUAL = 1e-4  # prices that differ by less are the same
PART = 4  # models that one process searches: few, so that both processes end at about the same time
USELESS = "with 200 useless rules"  # as bench/regret/main.cpp calls it
SERVED = ROOT / "src/saturate/served.inc"
LATER = pathlib.Path("build/regret")  # where commands look for models whose files were temporary

Model = collections.namedtuple("Model", "name kind seed")


def say(text):
    print(text, file=sys.stderr, flush=True)


def models_of(options):
    """The zoo first: its largest take longest. Kinds that are given are drawn from every seed; else seeds go round."""
    seeds, given = range(options.seed, options.seed + options.networks), options.kind or []
    zoo = [Model(f"zoo/{name}", "zoo", None) for name in MODELS] if "zoo" in given or not (given or options.no_zoo) else []
    named = [Model(name, name, 0) for name in networks.NAMED if name in given or "named" in given or not given]
    pairs = [(kind, seed) for kind in given if kind in networks.KINDS for seed in seeds] if given else [(networks.kind_of(seed), seed) for seed in seeds]
    return zoo + named + [Model(f"{kind}-{seed}", kind, seed) for kind, seed in pairs]


def recipe(model, folder):
    """The command that writes a model's file."""
    if model.kind == "zoo":
        return f"build/emend zoo {model.name.removeprefix('zoo/')} {folder / model.name}.onnx"
    return f".venv/bin/python bench/networks.py --write {folder} --kind {model.kind} --seed {model.seed} --count 1"


def write(model, folder):
    if model.kind != "zoo":
        return networks.write(folder, model.seed, model.kind)
    path = folder / f"{model.name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    emend("zoo", model.name.removeprefix("zoo/"), path)
    return path


def name_of(path):
    path = pathlib.PurePath(path)
    return f"{path.parent.name}/{path.stem}" if path.parent.name in ("zoo", "named") else path.stem



class Searches:
    """The processes that run; each takes the next few models when it is done with its own."""

    def __init__(self, folder, keep, ways, on_line):
        self.folder, self.keep, self.ways, self.on_line = folder, keep, ways, on_line
        self.running, self.ended, self.lock = set(), threading.Event(), threading.Lock()

    def search(self, paths):
        """Lines of one process, and why there are fewer than models."""
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen([PROGRAM, "--ways", self.ways, *paths], stdout=subprocess.PIPE, stderr=errors, text=True)
            self.running.add(process)
            done = 0
            for line in process.stdout:
                with self.lock:
                    self.on_line(json.loads(line))
                done += 1
            code = process.wait()
            self.running.discard(process)
            errors.seek(0)
            told = [line for line in errors.read().decode(errors="replace").splitlines() if line.strip()][-1:]
        return done, "; ".join([f"ended with {code}", *told])

    def part(self, models):
        """One that ends a process is told with an error; the others have their turn in another."""
        if self.ended.is_set():
            return
        paths = [write(model, self.folder) for model in models]
        left = list(paths)
        while left and not self.ended.is_set():
            done, why = self.search(left)
            left = left[done:]
            if left and not self.ended.is_set():
                with self.lock:
                    self.on_line({"model": str(left.pop(0)), "error": why})
        for path in [] if self.keep else paths:
            path.unlink()

    def all(self, models, jobs):
        large = [[m] for m in models if m.kind == "zoo"]
        small = [m for m in models if m.kind != "zoo"]
        parts = large + [small[i : i + PART] for i in range(0, len(small), PART)]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            pending = [pool.submit(self.part, part) for part in parts]
            try:
                for future in concurrent.futures.as_completed(pending):
                    future.result()
            except BaseException:
                self.ended.set()
                for process in list(self.running):
                    process.terminate()
                raise


def ways_of(line):
    return [way for way in line["ways"] if way.get("price_ms") is not None]


def lowest(line):
    return min([line["default"]["price_ms"], *(way["price_ms"] for way in ways_of(line))])


def regret(line):
    best = lowest(line)
    return line["default"]["price_ms"] / best if best > 0 else 1.0


def best_ways(line):
    """Those that come to the lowest price, where the default does not."""
    most = lowest(line) * (1 + EQUAL)
    return [] if line["default"]["price_ms"] <= most else [way for way in ways_of(line) if way["price_ms"] <= most]


def commands(model, way, kept):
    folder = kept or LATER
    search = f"build/emend optimize {folder / model.name}.onnx -O2 --target cpu --search-again"
    return ([] if kept else [recipe(model, folder)]) + [search, f"{search} {way['arguments']}"]


def told(model, line, kept):
    ways = best_ways(line)
    if not ways:
        return [f"{regret(line):.4f}  {model.name}"]
    others = f" and {len(ways) - 1} more ways" if len(ways) > 1 else ""
    head = f"{regret(line):.4f}  {model.name}: {line['default']['price_ms']:.4f} ms, {ways[0]['price_ms']:.4f} {ways[0]['name']}{others}"
    return [head, *(f"    {command}" for command in commands(model, ways[0], kept))]


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def table(heads, rows):
    rows = [heads, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    for row in rows:
        print("  ".join(f"{cell:<{w}}" if i == 0 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths))).rstrip())
    print()


def print_kinds(pairs):
    kinds = collections.defaultdict(list)
    for model, line in pairs:
        kinds["named" if model.kind in networks.NAMED else model.kind].append(line)
    rows = []
    for kind, lines in sorted(kinds.items(), key=lambda item: -mean(list(map(regret, item[1])))):
        regrets, seconds = [regret(line) for line in lines], [line["default"]["seconds"] for line in lines]
        rows.append([kind, len(lines), f"{mean(regrets):.4f}", f"{max(regrets):.4f}", sum(r > GATE["share"][0] for r in regrets),
                     f"{mean(seconds):.2f}", f"{max(seconds):.2f}", sum(line["default"]["stopped"] != "saturated" for line in lines)])
    table(["kind", "models", "mean", "largest", "> 1.01", "search s", "largest", "not saturated"], rows)


def print_ways(pairs):
    """What each way was good for, and what its searches took beside the default's."""
    alone, among, longer = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for _, line in pairs:
        best = best_ways(line)
        among.update(way["name"] for way in best)
        alone.update(way["name"] for way in best[:1] if len(best) == 1)
        for way in ways_of(line):
            longer[way["name"]].append(max(way["seconds"], 1e-4) / max(line["default"]["seconds"], 1e-4))
    rows = [[name, alone[name], among[name], f"{mean(times):.2f}"] for name, times in longer.items()]
    table(["way", "alone best", "best", "time of the default's"], sorted(rows, key=lambda row: (-row[1], -row[2])))


def print_useless(pairs):
    """What rules change that are true and of no use."""
    both = [(line["default"], way) for _, line in pairs for way in ways_of(line) if way["name"] == USELESS]
    if both:
        prices, seconds = ([way[key] / default[key] for default, way in both] for key in ("price_ms", "seconds"))
        print(f"{USELESS}: price {min(prices):.4f} to {max(prices):.4f} of the default's, {sum(abs(p - 1) > 0.01 for p in prices)} of {len(both)} off by more than 1 %; "
              f"time {mean(seconds):.2f} of the default's (geometric mean), {max(seconds):.2f} (largest)")


def keep_served(pairs):
    """Rules that the results rest on, besides those that served before."""
    served = set(SERVED.read_text().split('"')[1::2]) if SERVED.exists() else set()
    for _, line in pairs:
        for found in [line["default"], *best_ways(line)]:
            served.update(found["rests_on"])
    with tempfile.TemporaryDirectory() as folder:
        facts = pathlib.Path(folder) / "rules.json"
        emend("rules", "list", "--json", facts)
        served &= {rule["name"] for rule in json.loads(facts.read_text())["rules"]}
    SERVED.write_text("// Written by bench/regret.py --served: rules on which the result of some network rested.\n" + "".join(f'"{name}",\n' for name in sorted(served)))
    print(f"{SERVED.relative_to(ROOT)}: {len(served)} rules")


def gate(regrets):
    """Each bound as text, and whether it is kept."""
    (limit, share), above = GATE["share"], sum(r > GATE["share"][0] for r in regrets)
    yield f"geometric mean {mean(regrets):.5f}, at most {GATE['mean']}", mean(regrets) <= GATE["mean"]
    yield f"{above} of {len(regrets)} above {limit}, at most {share:.0%}", above <= share * len(regrets)
    yield f"largest {max(regrets):.4f}, at most {GATE['largest']}", max(regrets) <= GATE["largest"]


def report(pairs, kept):
    """Of all that were searched; whether the gate is passed."""
    failed = [(model, line["error"]) for model, line in pairs if "error" in line]
    pairs = [(model, line) for model, line in pairs if "error" not in line]
    for model, why in failed:
        print(f"{model.name}: {why}\n    {recipe(model, kept or LATER)}")
    if not pairs:
        print("nothing was searched")
        return False
    print_kinds(pairs)
    print_ways(pairs)
    worst = sorted((pair for pair in pairs if best_ways(pair[1])), key=lambda pair: -regret(pair[1]))[:10]
    print("the worst" if worst else "the default is the best everywhere")
    for pair in worst:
        print("\n".join(told(*pair, kept)))
    regrets, seconds = [regret(line) for _, line in pairs], [line["default"]["seconds"] for _, line in pairs]
    print(f"\n{len(pairs)} models: regret {mean(regrets):.5f} (geometric mean), {quantile(regrets, 0.95):.4f} (95 %), {quantile(regrets, 0.99):.4f} (99 %), "
          f"{max(regrets):.4f} (largest); {sum(r > 1.01 for r in regrets)} above 1.01, {sum(r > 1.03 for r in regrets)} above 1.03")
    print_useless(pairs)
    print(f"search by default: {mean([max(s, 1e-4) for s in seconds]):.3f} s (geometric mean), {max(seconds):.2f} s (largest)")
    bounds = list(gate(regrets)) + ([(f"{len(failed)} models with an error", False)] if failed else [])
    for text, passed in bounds:
        print(f"{'ok  ' if passed else 'FAIL'}  {text}")
    return all(passed for _, passed in bounds)


def lines_in(path):
    """Of an earlier run, by the model's name. The last line may have been cut off; what had an error is tried again."""
    found = {}
    for text in path.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            line = json.loads(text)
            found[name_of(line["model"])] = line
    return {name: line for name, line in found.items() if "error" not in line}


def run(options, folder):
    models = {model.name: model for model in models_of(options)}
    lines = lines_in(options.resume) if options.resume else {}
    kept = open(options.json, "w") if options.json else contextlib.nullcontext()
    with kept as out:
        def on_line(line):
            name = name_of(line["model"])
            lines[name] = line
            if out:
                print(json.dumps(line), file=out, flush=True)
            done = sum(name in lines for name in models)
            if "error" in line:
                say(f"{done}/{len(models)}  {name}: {line['error']}")
            elif regret(line) > TOLD:
                say(f"{done}/{len(models)}  " + "\n".join(told(models[name], line, options.keep)))
            elif done % 20 == 0:
                say(f"{done}/{len(models)}")

        for line in lines.values() if out else ():
            print(json.dumps(line), file=out, flush=True)
        missing = [model for name, model in models.items() if name not in lines]
        Searches(folder, options.keep, options.ways, on_line).all(missing, options.jobs)
    pairs = [(model, lines[name]) for name, model in models.items()]
    if options.served:
        keep_served([(model, line) for model, line in pairs if "error" not in line])
    return report(pairs, options.keep)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=300, help="how many are drawn, of each kind where --kind is given (300)")
    parser.add_argument("--seed", type=int, default=1, help="the first one's (1)")
    kinds = ["zoo", "named", *networks.KINDS, *networks.NAMED]
    parser.add_argument("--kind", nargs="+", choices=kinds, metavar="KIND", help="these alone; also zoo and named")
    parser.add_argument("--no-zoo", action="store_true", help="drawn and named networks alone")
    parser.add_argument("--ways", choices=["all", "quick", "again", "useless", "none"], default="all",
                        help="quick: without those that search longer than the default; again: the default once more, at the prices that it learned; "
                        "useless: rules of no use alone; none: the default alone")
    parser.add_argument("--served", action="store_true", help="note in src/saturate/served.inc which rules the results rest on")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="write the models there and leave them")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="keep what was found, a line for each model")
    parser.add_argument("--resume", type=pathlib.Path, metavar="FILE", help="leave out what stands in this file already (may be that of --json)")
    options = parser.parse_args()
    if not PROGRAM.exists():
        sys.exit(f"{PROGRAM} is missing: cmake --build build --target bench_regret")
    if options.resume and not options.resume.exists():
        sys.exit(f"{options.resume} is missing")
    with tempfile.TemporaryDirectory(prefix="emend-regret-") as folder:
        try:
            return 0 if run(options, options.keep or pathlib.Path(folder)) else 1
        except KeyboardInterrupt:
            say("interrupted" + (f"; --json {options.json} --resume {options.json} goes on" if options.json else ""))
            return 130


if __name__ == "__main__":
    sys.exit(main())
