#!/usr/bin/env python3
"""Single kernels against the same shape in onnxruntime and openvino: what `make bench-kernels` runs.

Every case is a small model: a chain of equal layers where shapes allow it, so that what a call costs counts little, else one layer with
other weights each time. Times are per layer. `wanted` is what a hand-made prototype reached on two cores of an AMD EPYC (Zen 4 class,
AVX-512); elsewhere it says nothing. It kept values between layers in an order of its own, so what is compared with it is `layer`: the time of
those layers of a chain that neither read what is given nor write what is asked for, taken step by step between the rounds of the race. It stored
weights as it liked (F(6, 3) takes 7.1 times what they are), so Emend may do that here, too.
Outputs are checked against onnxruntime's. kernels.json keeps the last result of every case; --update-docs writes docs/kernels.md from it.
"""
import argparse, contextlib, json, os, pathlib, shutil, sys, tempfile

import figures
from compare import ROOT, command_of, largest_error, measure_limits, say, this_machine
from race import Failed, Runner, race

RUNTIMES = ("emend", "onnxruntime", "openvino")
TOLERANCE = 1e-4
GROWTH = 8  # of weights as they are stored
STEP_RUNS = 20  # of a round
SCHEMA = 2  # of kernels.json


class Case:
    """A model of `layers` equal parts; `flops` and `wanted_us` are those of one."""

    def __init__(self, name, build, flops, layers, wanted_us=None):
        self.name, self.build, self.flops, self.layers, self.wanted_us = name, build, flops, layers, wanted_us


def model_of(nodes, initializers, inputs, output):
    from onnx import TensorProto, helper

    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "kernel", [value(n, s) for n, s in inputs.items()], [value(*output)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights(rng, name, shape):
    """Scaled so that chains keep the size of their values."""
    import numpy as np
    from onnx import numpy_helper

    fan_in = np.prod(shape[1:])
    return numpy_helper.from_array((rng.standard_normal(shape) * (2 / fan_in) ** 0.5).astype(np.float32), name)


def convolutions(rng, channels, size, kernel, layers, group=1, dilation=1, outputs=None, inputs=None, stride=1):
    from onnx import helper

    inputs, outputs = inputs or channels, outputs or channels
    nodes, initializers, last = [], [], "x"
    pad = dilation * (kernel - 1) // 2
    for k in range(layers):
        initializers += [weights(rng, f"w{k}", (outputs, inputs // group, kernel, kernel)), weights(rng, f"b{k}", (outputs,))]
        nodes.append(helper.make_node("Conv", [last, f"w{k}", f"b{k}"], [f"c{k}"], pads=[pad] * 4, group=group, dilations=[dilation] * 2,
                                      strides=[stride] * 2))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        last = f"r{k}"
    out = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    return model_of(nodes, initializers, {"x": [1, inputs, size, size]}, (last, [1, outputs, out, out]))


def convolution(name, size, channels, kernel=3, layers=4, wanted=None, **how):
    inputs, outputs = how.get("inputs") or channels, how.get("outputs") or channels
    out = size // how.get("stride", 1)
    flops = 2 * out * out * outputs * inputs // how.get("group", 1) * kernel * kernel
    return Case(name, lambda rng: convolutions(rng, channels, size, kernel, layers, **how), flops, layers, wanted)


def products(rng, m, n, k, layers):
    """One input, several products, the results added up: every product has weights of its own."""
    from onnx import helper

    nodes, initializers = [], []
    for i in range(layers):
        initializers.append(weights(rng, f"w{i}", (n, k)))
        nodes += [helper.make_node("Transpose", [f"w{i}"], [f"t{i}"], perm=[1, 0]), helper.make_node("MatMul", ["x", f"t{i}"], [f"p{i}"])]
    nodes.append(helper.make_node("Sum", [f"p{i}" for i in range(layers)], ["y"]))
    return model_of(nodes, initializers, {"x": [m, k]}, ("y", [m, n]))


def product(m, n, k, wanted, layers=12, note=""):
    return Case(f"product {m} x {n} x {k}{note}", lambda rng: products(rng, m, n, k, layers), 2 * m * n * k, layers, wanted)


def transposed(channels, outputs, kernel, stride, pad, size, more=0):
    """One layer with bias and relu; operations are those of weights that meet inputs."""
    dims = len(size)

    def build(rng):
        from onnx import helper

        initializers = [weights(rng, "w", (channels, outputs) + (kernel,) * dims), weights(rng, "b", (outputs,))]
        nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"], ["c"], strides=[stride] * dims, pads=[pad] * 2 * dims, output_padding=[more] * dims),
                 helper.make_node("Relu", ["c"], ["y"])]
        out = [(n - 1) * stride + kernel - 2 * pad + more for n in size]
        return model_of(nodes, initializers, {"x": [1, channels, *size]}, ("y", [1, outputs, *out]))

    flops = 2 * channels * outputs
    for n in size:
        flops *= n * kernel
    by = lambda n: "x".join([str(n)] * dims)
    name = f"transposed {by(kernel)} stride {stride}, {channels} to {outputs}, {'x'.join(map(str, size))}"
    return Case(name, build, flops, 1)


def recurrences(rng, kind, gates, hidden, batch, steps, **how):
    from onnx import helper

    initializers = [weights(rng, "w", (gates * hidden, hidden)), weights(rng, "r", (gates * hidden, hidden)), weights(rng, "b", (2 * gates * hidden,))]
    for t in initializers:
        t.dims.insert(0, 1)  # the direction
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=hidden, **how)
    return model_of([node], initializers, {"x": [steps, batch, hidden]}, ("y", [steps, 1, batch, hidden]))


def recurrence(kind, hidden, batch=1, steps=64, **how):
    """A layer is a step here, with its share of the inputs' product."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    name = f"{kind} {hidden}, batch {batch}, {steps} steps, each" + ("" if kind != "GRU" or how else ", reset first")
    return Case(name, lambda rng: recurrences(rng, kind, gates, hidden, batch, steps, **how), 4 * gates * hidden * hidden * batch, steps)


def cases():
    yield from (product(64, n, k, wanted) for n, k, wanted in ((768, 768, 327), (2304, 768, 993), (3072, 768, 1319), (768, 3072, 1344)))
    for channels, size, wanted in ((64, 56, 274), (128, 28, 260), (256, 14, 362), (512, 7, 639), (64, 224, 4779), (128, 112, 4383), (256, 56, 4344),
                                   (512, 28, 4098)):
        yield convolution(f"3x3, {channels}, {size}x{size}", size, channels, wanted=wanted)
    yield convolution("7x7 stride 2, 3 to 64, 224x224", 224, 64, kernel=7, layers=1, inputs=3, stride=2, wanted=550)
    for channels, size, wanted in ((128, 56, 129), (256, 28, 174), (512, 14, 123), (1024, 7, 123)):
        yield convolution(f"3x3 in 32 groups, {channels}, {size}x{size}", size, channels, group=32, wanted=wanted)
    # Weights of 17 MB in all, which the last cache holds, then more.
    for n, wanted in ((512, 7.1), (1024, 14.0), (2048, 28.3), (4096, 61), (8192, 111)):
        yield product(1, n, 512, wanted, layers=8192 // n)
    yield product(1, 8192, 512, 400, note=", from memory")
    yield from (product(m, 512, 512, None) for m in (2, 4, 8, 16))
    yield transposed(64, 32, 4, 2, 1, (56, 56))
    yield transposed(128, 64, 2, 2, 0, (56, 56))
    yield transposed(64, 32, 3, 2, 1, (56, 56), more=1)
    yield transposed(256, 128, 4, 2, 1, (16, 16))
    yield transposed(256, 128, 16, 8, 4, (200,))
    yield transposed(32, 16, 2, 2, 0, (16, 16, 16))
    yield transposed(64, 64, 3, 1, 1, (56, 56))
    for hidden in (256, 512, 1024):
        yield recurrence("LSTM", hidden)
        yield recurrence("GRU", hidden, linear_before_reset=1)
    yield recurrence("GRU", 512)
    yield recurrence("RNN", 512)
    yield recurrence("LSTM", 256, batch=8)


def run_case(case, emend, options, machine):
    import numpy as np, onnx

    measure_limits(machine, options.out)
    rng = np.random.default_rng(1)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kernel-", dir=options.out))
    runners, failures = {}, {}
    try:
        model = case.build(rng)
        path = folder / "model.onnx"
        onnx.save(model, path)
        for value in model.graph.input:
            np.save(folder / f"{value.name}.npy", rng.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim]).astype(np.float32))
        environment = {**os.environ, "EMEND_CACHE_DIR": str(options.out / "cache"), "OMP_NUM_THREADS": str(options.threads)}
        for runtime in RUNTIMES:
            command = command_of(runtime, emend, "", path, [i.name for i in model.graph.input], folder, options.threads)
            if runtime == "emend":
                # Products race as they are: the search would make one of several with the same input.
                command += ["--disable", "*matmul*", "--memory", GROWTH] + (["--budget", "60s"] if options.tune else ["--no-measure"])
            try:
                runners[runtime] = Runner(command, options.out / "logs" / f"kernel-{runtime}.log", environment)
            except Failed as e:
                failures[runtime] = str(e)
        steps = []

        def ask_steps(*_):
            if "emend" in runners and runners["emend"].process.poll() is None:
                with contextlib.suppress(Failed):
                    steps.append(runners["emend"].ask(f"steps {STEP_RUNS + 1}")["steps"])

        times, failed = race(runners, options.seconds, ask_steps)
        results = {r: figures.summary(t) for r, t in times.items()}
        failures |= failed
        for runtime in results:
            runners[runtime].ask(f"outputs {folder / runtime}")
        error = largest_error(folder / "emend", folder / "onnxruntime") if {"emend", "onnxruntime"} <= results.keys() else None
    finally:
        for runner in runners.values():
            runner.close()
        shutil.rmtree(folder)
    figures.add_ratios(results)
    return results, figures.ms_between_ends(steps, case.layers), failures, error


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("match", nargs="*", help="parts of names of cases; none: all")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=6, help="for the rounds of a case")
    parser.add_argument("--tune", action="store_true", help="Emend measures its kernels first")
    parser.add_argument("--update-docs", action="store_true", help="write docs/kernels.md")
    parser.add_argument("--out", type=lambda p: pathlib.Path(p).resolve(), default=ROOT / "build/bench", help="where logs and kernels.json go")
    return parser.parse_args()


def distance(row):
    """How much longer than the prototype, in per cent."""
    return 100 * (row["layer_us"] / row["wanted_us"] - 1) if row["wanted_us"] and row["layer_us"] else None


def markdown(report):
    machine = report["machine"]
    lines = [
        "# Single kernels",
        "",
        "Written by `make bench-kernels ARGS=--update-docs`: the last run of every case, losses like wins.",
        "",
        f"Machine: {machine['cpu']}, {machine['threads']} threads; {machine['gflops']:.0f} GFLOP/s of multiply-adds on registers.",
        "",
        "Microseconds of one layer, medians of rounds in which the runtimes, each a process of its own, take turns. Convolutions have bias and relu, run as the search leaves them (strided ones as phases), and both",
        "ends of a chain of four (one of strided and transposed ones) lie as ONNX orders them. *ratio* is against the better of",
        "onnxruntime and openvino, *FMA* the share of the processor's multiply-adds by the operations of plain sums. *layer* is the time of a layer between the ends of its chain,",
        "one that neither reads what is given nor writes what is asked for, as the steps of the same process take it between the rounds; where there is none,",
        "*emend* once more. *prototype* is what generated C with configurations chosen by hand reached on such a machine for such a layer, without ends in another",
        f"order and without a runtime around it, and *behind* how much longer *layer* is. Weights may be stored {GROWTH} times as large as they are, as the prototype's were.",
        "",
        "| case | emend | onnxruntime | openvino | ratio | FMA | layer | prototype | behind |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in report["kernels"]:
        text = lambda us: f"{us:.{1 if us < 1000 else 0}f}" if us else "failed"
        times = " | ".join(text(r["us"].get(name)) for name in RUNTIMES)
        ratio = f"{r['ratio']:.2f}" if r["ratio"] else ""
        behind = distance(r)
        lines.append(f"| {r['name']} | {times} | {ratio} | {100 * r['fma_share']:.0f}% | {text(r['layer_us'])} | {r['wanted_us'] or ''} | "
                     + (f"{behind:+.0f}%" if behind is not None else "") + " |")
    return "\n".join(lines) + "\n"


def main():
    options = arguments()
    emend = pathlib.Path(os.environ.get("EMEND", ROOT / "build/emend"))
    options.out.mkdir(parents=True, exist_ok=True)
    machine = this_machine(options.threads, options.out)
    measure_limits(machine, options.out)
    kept = options.out / "kernels.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    known = {r["name"]: r for r in before["kernels"]} if before.get("schema") == SCHEMA else {}
    measured = []
    print(f"{'us per layer':42}{'emend':>9}{'onnxrt':>9}{'openvino':>9}{'ratio':>7}{'FMA':>6}{'layer':>8}{'wanted':>8}{'behind':>8}{'error':>9}", flush=True)
    for case in cases():
        if options.match and not any(part in case.name for part in options.match):
            continue
        results, own_ms, failures, error = run_case(case, emend, options, machine)
        us = {r: 1e3 * s["median_ms"] / case.layers for r, s in results.items()}
        cell = lambda r: f"{us[r]:9.1f}" if r in us else f"{'failed':>9}"
        ours = results.get("emend", {})
        share = case.flops / (us["emend"] * 1e3 * machine["gflops"]) if "emend" in us else float("nan")
        row = {"name": case.name, "us": us, "failed": failures, "error": error, "wanted_us": case.wanted_us, "fma_share": share,
               "ratio": ours.get("ratio"), "layer_us": 1e3 * own_ms if own_ms else us.get("emend")}
        behind = distance(row)
        print(f"{case.name:42}" + "".join(cell(r) for r in RUNTIMES) + f"{ours.get('ratio') or float('nan'):7.2f}{100 * share:5.0f}%"
              + f"{row['layer_us'] or float('nan'):8.1f}" + (f"{case.wanted_us:8.0f}" if case.wanted_us else " " * 8) + (f"{behind:+7.0f}%" if behind is not None else " " * 8)
              + (f"{error:9.1e}" if error is not None else ""), flush=True)
        for runtime, why in failures.items():
            say(f"  {runtime}: {why}")
        measured.append(row)
        known[case.name] = row
    report = {"schema": SCHEMA, "machine": machine, "kernels": [known[c.name] for c in cases() if c.name in known]}
    kept.write_text(json.dumps(report, indent=1) + "\n")
    if options.update_docs:
        (ROOT / "docs/kernels.md").write_text(markdown(report))
    wrong = [r["name"] for r in measured if r["error"] is None or not r["error"] <= TOLERANCE]
    if wrong:
        say(f"not as onnxruntime computes it: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
