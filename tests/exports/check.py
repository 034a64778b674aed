"""Are exports with open sizes still what they were after `emend optimize`, and better? `check.py [NAME...]`, all without a name; `--help`.

Every export is written, given to Emend at its default level and to OnnxSlim and onnxsim, and five things are asked: does Emend end with 0; is every
size of an input open that OnnxSlim leaves open; is the file right in onnxruntime at five sizes of every symbol, channel by channel, against the network
in double precision; is it no slower there than the export, timed by turns; has it no more nodes than the smaller of the two others (constants aside,
and as files for any runtime).
"""
import argparse, fnmatch, math, os, pathlib, statistics, subprocess, sys, tempfile, time

import numpy as np
import onnx
import onnxruntime

import images, sequences  # noqa: F401  (they register themselves)
import write
from spec import EXPORTS

TURNS = range(5)
# Rounding in single precision: so much of a channel's largest value is free, and so many times the export's own error.
FREE, TIMES = 2e-6, 8
LEAST_NOISE = 0.03  # of a time, however alike two sessions of the same file were


def session(path, plain=False):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def nodes(graph):
    """Constants aside, bodies of loops and branches included."""
    inner = (g for n in graph.node for a in n.attribute for g in ([a.g] if a.type == a.GRAPH else a.graphs))
    return sum(n.op_type != "Constant" for n in graph.node) + sum(map(nodes, inner))


def sizes_of(values):
    """name: a number where the file fixes a size, else None."""
    return {v.name: [d.dim_value if d.HasField("dim_value") else None for d in v.type.tensor_type.shape.dim] for v in values}


def slim(path):
    import onnxslim

    return onnxslim.slim(onnx.load(path))


def sim(path):
    import onnxsim

    # Where it writes operators that one runtime alone has (Attention of com.microsoft) it is asked again without them: a file for any runtime
    # is compared with files for any runtime.
    given, simple = onnx.load(path), onnxsim.simplify(onnx.load(path))[0]
    return simple if domains(simple) <= domains(given) else onnxsim.simplify(given, skipped_optimizers=["fuse_attention"])[0]


def domains(model):
    return {n.domain for n in model.graph.node}


def attempt(peer, path):
    """A peer that fails on a file, or needs one runtime's operators there, sets no mark."""
    try:
        model = peer(path)
    except Exception:
        return None
    return model if domains(model) <= domains(onnx.load(path)) else None


def by_channel(values):
    """[samples, channels, the rest]; what has no channels is one per sample."""
    values = np.asarray(values)
    return values.reshape(*values.shape[:2], -1) if values.ndim > 2 else values.reshape(1, 1, -1) if values.ndim < 2 else values[:, None]


def excess(ours, theirs, exact):
    """The worst of our errors in what rounding allows in its channel: right up to 1."""
    if ours.shape != exact.shape:
        return math.inf
    if ours.dtype.kind != "f":
        return 0.0 if np.array_equal(ours, theirs) else math.inf
    if not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
        return math.inf
    ours, theirs, exact = (by_channel(np.nan_to_num(v.astype(np.float64))) for v in (ours, theirs, exact))
    largest = lambda v: np.abs(v).max(-1, initial=0)
    allowed = np.maximum(FREE * largest(exact), TIMES * largest(theirs - exact))
    return float((largest(ours - exact) / np.maximum(allowed, 1e-30)).max(initial=0))


def in_double(export):
    import torch

    network = write.network_of(export).double()

    def run(values):
        double = (torch.from_numpy(v.astype(np.float64) if v.dtype == np.float32 else v) for v in values.values())
        torch.set_default_dtype(torch.float64)  # for what the network makes itself
        try:
            with torch.no_grad():
                result = network(*double)
        finally:
            torch.set_default_dtype(torch.float32)
        return [r.numpy() for r in (result if isinstance(result, tuple) else (result,))]

    return run


def feed(running, values):
    return {i.name: values[i.name] for i in running.get_inputs()}


def errors(export, original, better, claimed):
    """What is wrong at which sizes, and the worst excess."""
    before, after, exact, wrong, worst = session(original, plain=True), session(better, plain=True), in_double(export), [], 0.0
    for turn in TURNS:
        values = export.draw(turn)
        theirs = before.run(None, feed(before, values))
        try:
            ours = after.run(None, feed(after, values))
        except Exception as e:
            wrong.append(f"does not run at {export.at(turn)}: {str(e).strip()[-120:]}")
            continue
        over = max(map(excess, ours, theirs, exact(values)))
        worst = max(worst, over)
        if not over <= 1:
            wrong.append(f"wrong at {export.at(turn)}: {over:.1f} times what rounding explains")
        for output, value in zip(after.get_outputs(), ours):
            if any(said not in (None, got) for said, got in zip(claimed[output.name], value.shape)):
                wrong.append(f"says that {output.name} is {claimed[output.name]}, and gives {list(value.shape)}")
    return wrong, worst


def ratio(export, original, better, rounds):
    """Our time by the export's, and how far a second session of the export is off the first: geometric means over sizes, of medians."""
    runners = [session(p) for p in (original, better, original)]
    ours, noise = [], []
    for turn in TURNS:
        values = export.draw(turn)
        feeds = [feed(r, values) for r in runners]
        taken = [[], [], []]
        for i in range(rounds + 2):
            for k in np.random.default_rng([turn, i]).permutation(3):
                begin = time.perf_counter()
                runners[k].run(None, feeds[k])
                if i >= 2:
                    taken[k].append(time.perf_counter() - begin)
        first, mine, second = map(statistics.median, taken)
        ours.append(mine / ((first + second) / 2))
        noise.append(second / first)
    mean = lambda v: math.exp(statistics.fmean(map(math.log, v)))
    return mean(ours), max(LEAST_NOISE, *(abs(math.log(n)) for n in noise))


def speed(export, original, better, rounds):
    """Measured again with more rounds where it seems slower."""
    for more in (1, 4, 12):
        factor, noise = ratio(export, original, better, rounds * more)
        if factor <= 1 + noise:
            break
    return factor, noise


def check(export, exporter, opset, folder, emend, rounds=0):
    """The row of the table, and what is to be complained of."""
    original = folder / write.file_name(export, exporter, opset)
    better = original.with_suffix(".better.onnx")
    if not original.exists():
        write.write(export, exporter, opset, original)
    row = {"export": original.stem, "nodes": nodes(onnx.load(original).graph)}
    done = subprocess.run([emend, "optimize", original, better, "-q"], capture_output=True, text=True)
    if done.returncode:
        return row, [f"emend ended with {done.returncode}: {done.stderr.strip()[-200:]}"]
    ours, slimmer, simpler = onnx.load(better), attempt(slim, original), attempt(sim, original)
    row |= {"sim": nodes(simpler.graph) if simpler else None, "slim": nodes(slimmer.graph) if slimmer else None, "emend": nodes(ours.graph)}
    complaints = []
    fixed = sizes_of(ours.graph.input)
    for name, sizes in sizes_of((slimmer or onnx.load(original)).graph.input).items():
        lost = [axis for axis, size in enumerate(sizes) if size is None and (name not in fixed or fixed[name][axis] is not None)]
        complaints += [f"{name} is fixed at {fixed.get(name)}"] if lost else []
    row["kept"] = not complaints
    if complaints:
        return row, complaints
    wrong, row["error"] = errors(export, original, better, sizes_of(ours.graph.output))
    complaints += wrong
    mark = min((row[k] for k in ("sim", "slim") if row[k] is not None), default=math.inf)
    if row["emend"] > mark:
        complaints.append(f"{row['emend']} nodes, where another has {mark}")
    if rounds and not wrong:
        row["time"], row["noise"] = speed(export, original, better, rounds)
        if row["time"] > 1 + row["noise"]:
            complaints.append(f"takes {row['time']:.2f} of the export's time, noise {row['noise']:.0%}")
    return row, complaints


def line(row, complaints):
    show = lambda k, form: format(row[k], form) if row.get(k) is not None else "-"
    kept = {True: "kept", False: "LOST", None: "-"}[row.get("kept")]
    figures = f"{show('nodes', 'd'):>6}{show('sim', 'd'):>6}{show('slim', 'd'):>6}{show('emend', 'd'):>7}  {kept:<5}{show('error', '.2f'):>6}"
    return f"{row['export']:<30}{figures}{show('time', '.2f'):>7}{show('noise', '.0%'):>7}  {'; '.join(complaints) or 'ok'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["*"], help="patterns of files, such as 'unet*' or '*.dynamo*'")
    parser.add_argument("--rounds", type=int, default=40, help="runs of each file at each size; 0 leaves the times out")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the files; what lies there already is not written again")
    options = parser.parse_args()
    emend = os.environ.get("EMEND", "build/emend")
    print(f"{'export':<30}{'nodes':>6}{'sim':>6}{'slim':>6}{'emend':>7}  {'sizes':<5}{'error':>6}{'time':>7}{'noise':>7}", flush=True)
    bad, ratios = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for export in EXPORTS.values():
            for exporter, opset in export.ways:
                name = write.file_name(export, exporter, opset)
                if not any(fnmatch.fnmatch(name, p) or fnmatch.fnmatch(export.name, p) for p in options.names):
                    continue
                row, complaints = check(export, exporter, opset, folder, emend, options.rounds)
                bad += bool(complaints)
                ratios += [row["time"]] if "time" in row else []
                print(line(row, complaints), flush=True)
    if ratios:
        print(f"geometric mean of the times: {math.exp(statistics.fmean(map(math.log, ratios))):.3f} of the exports'")
    print(f"{bad} with complaints" if bad else "no complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
