#!/usr/bin/env python3
"""Is what runs by default ever slower than what is only cleaned, or than the other runtimes? What `make bench-slower` runs.

Networks from seeds (bench/networks), the named ones and the zoo, at each batch that is asked for, run as four processes by turns (bench/race.py):
`-O2` as it is by default, with what it measures at its first start; `-O1` by estimates; onnxruntime; openvino. Printed are the times and `-O1` and
the better of the others over `-O2`; at the end geometric means, what is below the gate, with its time, and how long first starts took.

The exit code is 1 where a ratio is below the gate or the mean below its own. `--json FILE` keeps the lines, `--resume FILE` takes those of an
earlier run. Errors are not looked at here: `make bench` and the tests do.
"""
import argparse, json, math, os, pathlib, sys, tempfile

import networks
from compare import build_model
from figures import summary
from race import Failed, Runner, race
from search import MODELS, ROOT

OURS, CLEANED, OTHERS = "-O2", "-O1", ("onnxruntime", "openvino")
GATE = {"cleaned": 0.98, "others": 1.0, "mean": 1.5}  # -O1 and the better of the others, each over -O2; the latter's geometric mean
EMEND = pathlib.Path(os.environ.get("EMEND", ROOT / "build/emend"))


def say(text):
    print(text, file=sys.stderr, flush=True)


def cases(options):
    """(name, batch): the named ones first, then those that are drawn, then the zoo."""
    seeds = range(options.seed, options.seed + options.networks)
    names = [*(networks.NAMED if not options.no_named else []), *(f"{networks.kind_of(s)}-{s}" for s in seeds), *(f"zoo/{m}" for m in MODELS if options.zoo)]
    return [(name, batch) for batch in options.batch for name in names]


def write(name, batch, folder):
    if name.startswith("zoo/"):
        return build_model(EMEND, name.removeprefix("zoo/"), {"batch": batch} if batch > 1 else {}, folder)
    kind, _, seed = (name, "", "0") if name in networks.NAMED else name.rpartition("-")
    return networks.write(folder, int(seed), kind, batch)


def inputs_of(path, folder):
    import numpy as np
    import onnx

    sys.path.insert(0, str(ROOT / "tests/oracle"))
    import zoo_torch

    rng, model = np.random.default_rng(1), onnx.load(path)
    known = {w.name for w in model.graph.initializer}
    if path.parent.name == "models":
        drawn = zoo_torch.random_inputs(model, rng)
    else:
        from networks.check import IDS_BELOW

        shapes = {i.name: ([d.dim_value for d in i.type.tensor_type.shape.dim], i.type.tensor_type.elem_type) for i in model.graph.input if i.name not in known}
        drawn = {n: rng.integers(0, IDS_BELOW, s) if t == onnx.TensorProto.INT64 else rng.standard_normal(s, dtype=np.float32) for n, (s, t) in shapes.items()}
    for name, value in drawn.items():
        np.save(folder / f"{name}.npy", value)
    return list(drawn)


def commands(path, folder, threads):
    given = [word for i in inputs_of(path, folder) for word in ("--input", f"{i}:{folder / i}.npy")]
    ours = [EMEND, "bench", path, "--serve", "--quiet", "--threads", threads, *given]
    yield OURS, ours
    yield CLEANED, [*ours, "-O", "1"]
    for other in OTHERS:
        yield other, [sys.executable, ROOT / "bench/worker.py", other, path.stem, path, folder, threads]


def measured(name, batch, options):
    """Times by runtime, and what starting ours took."""
    with tempfile.TemporaryDirectory(prefix="slower-") as scratch:
        scratch = pathlib.Path(scratch)
        path, line, runners = pathlib.Path(write(name, batch, scratch)), {"name": name, "batch": batch, "failed": {}}, {}
        environment = {**os.environ, "EMEND_CACHE_DIR": str(scratch / "cache"), "OMP_NUM_THREADS": str(options.threads)}
        environment.pop("EMEND_BUDGET", None)
        (scratch / "inputs").mkdir()
        try:
            for runtime, command in commands(path, scratch / "inputs", options.threads):
                try:
                    runners[runtime] = Runner(command, scratch / f"{runtime}.log", environment)
                except Failed as e:
                    line["failed"][runtime] = str(e)
            times, failed = race(runners, options.seconds)
            line["failed"] |= failed
            line["ms"] = {runtime: summary(rounds)["median_ms"] for runtime, rounds in times.items()}
            if OURS in runners:
                line["start_s"] = runners[OURS].ready["compile_s"]
        finally:
            for runner in runners.values():
                runner.close()
        return line


def ratios(line):
    """(-O1 over -O2, the better of the others over -O2), each None where there is no such time."""
    ms = line["ms"]
    others = [ms[o] for o in OTHERS if o in ms]
    over = lambda t: t / ms[OURS] if t and OURS in ms else None
    return over(ms.get(CLEANED)), over(min(others, default=None))


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def told(line):
    cleaned, others = ratios(line)
    text = lambda r: "-" if r is None else f"{r:.2f}"
    times = "  ".join(f"{runtime} {line['ms'][runtime]:.3f}" for runtime in (OURS, CLEANED, *OTHERS) if runtime in line["ms"])
    failed = "".join(f"; {runtime}: {why[:80]}" for runtime, why in line["failed"].items())
    return f"{line['name']:<28} batch {line['batch']}  {text(cleaned):>5} {text(others):>5}   {times} ms{failed}"


def report(lines):
    both = [(line, *ratios(line)) for line in lines]
    cleaned, others = [c for _, c, _ in both if c], [o for _, _, o in both if o]
    print(f"\n{len(lines)} runs: -O1 over -O2 {mean(cleaned):.3f} (geometric mean), {min(cleaned, default=math.nan):.3f} (least); "
          f"the better of {' and '.join(OTHERS)} over -O2 {mean(others):.3f}, {min(others, default=math.nan):.3f}")
    starts = [line["start_s"] for line in lines if "start_s" in line]
    print(f"first starts took {sum(starts) / max(1, len(starts)):.1f} s, {max(starts, default=math.nan):.1f} s at most")
    slow = [line for line, c, o in both if not c or c < GATE["cleaned"] or not o or o < GATE["others"]]
    for line in slow:
        print("below the gate: " + told(line))
    enough = mean(others) >= GATE["mean"]
    print(f"{'ok  ' if not slow else 'FAIL'}  {len(slow)} below {GATE['cleaned']} of -O1 or {GATE['others']} of the others")
    print(f"{'ok  ' if enough else 'FAIL'}  geometric mean over the others {mean(others):.3f}, at least {GATE['mean']}")
    return not slow and enough


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=100, help="how many are drawn (100)")
    parser.add_argument("--seed", type=int, default=1, help="the first one's (1)")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8], help="samples at once (1 8)")
    parser.add_argument("--no-zoo", dest="zoo", action="store_false", help="networks alone")
    parser.add_argument("--no-named", action="store_true", help="without those of a name")
    parser.add_argument("--seconds", type=float, default=4, help="for the rounds of each (4)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="keep a line for each")
    parser.add_argument("--resume", type=pathlib.Path, metavar="FILE", help="leave out what stands in this file already (may be that of --json)")
    options = parser.parse_args()
    lines = [json.loads(text) for text in options.resume.read_text().splitlines()] if options.resume and options.resume.exists() else []
    known = {(line["name"], line["batch"]) for line in lines}
    if options.json:
        options.json.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{'network':<28} {'':7}  {'-O1':>5} {'best':>5}   (over -O2)")
    lines = [line for line in lines if (line["name"], line["batch"]) in set(cases(options))]
    for line in lines:
        print(told(line))
    for name, batch in cases(options):
        if (name, batch) in known:
            continue
        line = measured(name, batch, options)
        lines.append(line)
        print(told(line), flush=True)
        if options.json:
            with options.json.open("a") as out:
                out.write(json.dumps(line) + "\n")
    return 0 if report(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
