#!/usr/bin/env python3
"""Emend against onnxruntime, openvino and torch.compile on the models of the zoo: what `make bench` runs.

Models are built once into build/bench. For each, every runtime is started in a process of its own (bench/worker.py, `emend bench
--serve`), one after the other and with empty caches; then they race in rounds (bench/race.py). Results go to stdout and, with every
single time, to results.json there; --update-docs also writes docs/benchmarks.md and docs/bench.svg.
"""
import argparse, datetime, json, math, os, pathlib, platform, shutil, subprocess, sys, tempfile
from importlib import metadata

import figures
from race import Failed, Runner, race

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNTIMES = ("emend", "onnxruntime", "openvino", "torch.compile")
BEFORE = "before"  # another build of Emend, of an older state
NOT_RACED = {"tour"}  # explains, and is too small to tell anything
TOLERANCE = 1e-3  # who is further from double precision has not computed the model


def say(text):
    print(text, file=sys.stderr, flush=True)


def output_of(*command):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def this_machine(threads, out):
    output_of(os.environ.get("EMEND_CC", "cc"), "-O3", "-march=native", "-ffp-contract=fast", "-pthread", ROOT / "bench/peak.c", "-o", out / "peak")
    names = [line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.machine(), "threads": threads, "gflops": 0, "gbytes": 0}


def measure_limits(machine, out):
    """Again before every model; the best counts, since nothing but disturbance makes them differ."""
    limits = json.loads(output_of(out / "peak", machine["threads"]))
    for key in ("gflops", "gbytes"):
        machine[key] = max(machine[key], limits[key])


def versions(emend, runtimes):
    names = {"onnxruntime": "onnxruntime", "openvino": "openvino", "torch.compile": "torch"}
    found = {"emend": output_of(emend, "--version").split()[-1]}
    for name, package in ((n, p) for n, p in names.items() if n in runtimes):
        try:
            found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
    return found


def commit():
    try:
        return output_of("git", "describe", "--always", "--dirty").strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def build_model(emend, name, sizes, out):
    """Once, unless the zoo has changed since. Sizes are options of `emend zoo` and their values, where they are not the model's own."""
    path = out / "models" / ("-".join([name, *(f"{option}{value}" for option, value in sizes.items())]) + ".onnx")
    path.parent.mkdir(parents=True, exist_ok=True)
    changed = max(p.stat().st_mtime for p in (ROOT / "src/zoo").iterdir())
    if not path.exists() or path.stat().st_mtime < changed:
        say(f"building {name}")
        output_of(emend, "zoo", name, path, "--quiet", *(word for option, value in sizes.items() for word in (f"--{option}", value)))
    return path


def needed_bytes(model):
    """What any program must read and write: inputs, outputs, weights; of tables only the rows that are looked up, of shapes nothing."""
    import onnx

    graph = model.graph
    size = lambda dims, dtype: math.prod(dims) * onnx.helper.tensor_dtype_to_np_dtype(dtype).itemsize
    values = {v.name: v.type.tensor_type for v in [*graph.input, *graph.output]}
    total = sum(size([d.dim_value for d in t.shape.dim], t.elem_type) for t in values.values())
    looked_up = {n.input[0]: n.input[1] for n in graph.node if n.op_type == "Gather"}
    for weight in (w for w in graph.initializer if w.data_type != onnx.TensorProto.INT64):
        bytes_ = size(weight.dims, weight.data_type)
        indices = values.get(looked_up.get(weight.name))
        if indices is not None:
            rows = math.prod(d.dim_value for d in indices.shape.dim)
            bytes_ = min(bytes_, bytes_ // weight.dims[0] * rows)
        total += bytes_
    return total


def prepare(emend, name, sizes, folder, out):
    """The model's file, its inputs as files in the folder, and its size."""
    sys.path.insert(0, str(ROOT / "tests/oracle"))
    import numpy as np, onnx, zoo_torch

    path = build_model(emend, name, sizes, out)
    model = onnx.load(path)
    folder.mkdir(parents=True, exist_ok=True)
    for key, value in zoo_torch.random_inputs(model, np.random.default_rng(1)).items():
        np.save(folder / f"{key}.npy", value)
    facts = json.loads(output_of(emend, "inspect", path, "--json", "-"))
    inputs = [i.name for i in model.graph.input]
    return path, inputs, {"name": name, "flops": facts["flops"], "weight_bytes": facts["weight_bytes"], "needed_bytes": needed_bytes(model)}


def command_of(runtime, emend, name, path, inputs, folder, threads):
    if runtime in ("emend", BEFORE):
        given = [word for i in inputs for word in ("--input", f"{i}:{folder / i}.npy")]
        return [emend, "bench", path, "--serve", "--quiet", "--threads", threads, *given]
    return [sys.executable, ROOT / "bench/worker.py", runtime, name, path, folder, threads]


def largest_error(got, want):
    """Over all outputs, relative to the largest value of each."""
    import numpy as np

    files = sorted(pathlib.Path(want).glob("*.npy"))
    worst = 0.0 if files else float("inf")  # nothing to compare with is no agreement
    for file in files:
        exact, value = np.load(file), np.load(pathlib.Path(got) / file.name)
        if exact.shape != value.shape:
            return float("inf")
        error = np.abs(value.astype(np.float64) - exact).max() / max(np.abs(exact).max(), 1e-300)
        worst = max(worst, float("inf") if np.isnan(error) else float(error))
    return worst


class Contest:
    """One model: its runtimes, started, raced and asked for their answers. Everything it writes but logs goes when it ends."""

    def __init__(self, emend, name, options):
        self.binaries, self.name = {"emend": emend, BEFORE: options.before}, name
        self.runtimes, self.threads, self.seconds, self.out = options.runtimes, options.threads, options.seconds, options.out
        self.sizes, self.reference = options.sizes, options.reference
        self.runners, self.failures = {}, {}

    def __enter__(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="race-", dir=self.out))
        return self

    def __exit__(self, *_):
        for runner in self.runners.values():
            runner.close()
        shutil.rmtree(self.scratch)

    def start(self, runtime):
        """With empty caches, so that starting takes what it takes the first time."""
        caches = {"EMEND_CACHE_DIR": self.scratch / "emend", "TORCHINDUCTOR_CACHE_DIR": self.scratch / "inductor"}
        environment = {**os.environ, **{k: str(v) for k, v in caches.items()}, "OMP_NUM_THREADS": str(self.threads)}
        command = command_of(runtime, self.binaries.get(runtime), self.name, self.path, self.inputs, self.scratch / "inputs", self.threads)
        say(f"  starting {runtime}")
        return Runner(command, self.out / "logs" / f"{self.name}-{runtime}.log", environment)

    def answers(self, runner, name):
        folder = self.scratch / "outputs" / name
        runner.ask(f"outputs {folder}")
        return folder

    def run(self):
        self.path, self.inputs, facts = prepare(self.binaries["emend"], self.name, self.sizes, self.scratch / "inputs", self.out)
        for runtime in self.runtimes:
            try:
                self.runners[runtime] = self.start(runtime)
            except Failed as e:
                self.failures[runtime] = str(e)
        times, failed = race(self.runners, self.seconds, lambda done, of: say(f"  round {done} of {of}"))
        self.failures |= failed
        results = {}
        for runtime, rounds in times.items():
            runner = self.runners[runtime]
            ready = runner.ready
            results[runtime] = figures.summary(rounds) | {
                "start_s": ready["compile_s"] + ready["first_ms"] / 1e3,
                "peak_memory_bytes": runner.peak_memory_bytes(),
            }
        self.add_errors(results)
        facts["runtimes"] = {r: results.get(r, {"failed": self.failures.get(r, "did not run")}) for r in self.runtimes}
        return facts

    def add_errors(self, results):
        try:
            if self.reference in self.runners:
                want = self.answers(self.runners[self.reference], "reference")
            else:
                exact = self.start(self.reference)
                try:
                    want = self.answers(exact, "reference")
                finally:
                    exact.close()
        except Failed as e:
            say(f"  no reference: {e}")
            return
        for runtime, r in list(results.items()):
            try:
                error = largest_error(self.answers(self.runners[runtime], runtime), want)
                if not error <= TOLERANCE:
                    raise Failed(f"wrong: off by {error:.1e} of the largest value")
                r["max_rel_err"] = error
            except Failed as e:
                results.pop(runtime)
                self.failures[runtime] = str(e)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="names of the zoo; none: all")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every runtime (default: as many as there are)")
    parser.add_argument("--batch", type=int, help="samples at once (default: 1)")
    parser.add_argument("--seq", type=int, help="tokens of a sequence (default: the model's own)")
    parser.add_argument("--seconds", type=float, default=40, help="for the rounds of a model")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES), help=f"some of {','.join(RUNTIMES)}")
    parser.add_argument("--before", type=lambda p: pathlib.Path(p).resolve(), metavar="EMEND", help="another build of Emend, raced in place of other runtimes: what a change costs or gains")
    parser.add_argument("--out", type=lambda p: pathlib.Path(p).resolve(), default=ROOT / "build/bench", help="where models, logs and results.json go")
    parser.add_argument("--reference", default="reference", choices=["reference", "onnxruntime"],
                        help="whose outputs are the truth (default: PyTorch's in double precision, which takes time and memory)")
    parser.add_argument("--update-docs", action="store_true", help="write docs/benchmarks.md and docs/bench.svg")
    options = parser.parse_args()
    options.runtimes = ["emend", BEFORE] if options.before else options.runtimes.split(",")
    options.sizes = {k: v for k in ("batch", "seq") if (v := getattr(options, k)) is not None}
    if options.reference != "reference" and options.update_docs:
        parser.error("the table tells errors against double precision")
    if options.sizes and options.update_docs:
        parser.error("the table of the docs is of batch 1 and the models' own sizes")
    if options.before and options.update_docs:
        parser.error("the table of the docs is of other runtimes")
    unknown = [] if options.before else [r for r in options.runtimes if r not in RUNTIMES]
    if unknown:
        parser.error(f"no such runtime: {', '.join(unknown)}")
    return options


def main():
    options = arguments()
    emend = pathlib.Path(os.environ.get("EMEND", ROOT / "build/emend"))
    options.out.mkdir(parents=True, exist_ok=True)
    listed = [m["name"] for m in json.loads(output_of(emend, "zoo", "--json", "-"))["models"]]
    unknown = [m for m in options.models if m not in listed]
    if unknown:
        sys.exit(f"the zoo has no {', '.join(unknown)}; it has {', '.join(listed)}")
    report = {"schema": 1, "commit": commit(), "date": datetime.date.today().isoformat(), "machine": this_machine(options.threads, options.out),
              "versions": versions(emend, options.runtimes), "models": []}
    machine = report["machine"]
    for name in options.models or [m for m in listed if m not in NOT_RACED]:
        say(name)
        measure_limits(machine, options.out)
        with Contest(emend, name, options) as contest:
            model = contest.run()
        figures.add_ratios(model["runtimes"])
        report["models"].append(model)
        for m in report["models"]:
            figures.add_shares(m["runtimes"], m["flops"], m["needed_bytes"], machine)
        print("\n" + figures.model_text(model), flush=True)
        (options.out / "results.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"\n{machine['cpu']}, {machine['threads']} threads: {machine['gflops']:.0f} GFLOP/s, {machine['gbytes']:.0f} GB/s")
    print(figures.summary_text(report["models"]))
    if options.update_docs:
        (ROOT / "docs/benchmarks.md").write_text(figures.markdown(report))
        (ROOT / "docs/bench.svg").write_text(figures.chart(report["models"]))
    return 1 if any("failed" in m["runtimes"].get("emend", {}) for m in report["models"]) else 0


if __name__ == "__main__":
    sys.exit(main())
