"""Random pairs of models through `emend verify`, for as long as one likes: `pairs.py --pairs 5000 --jobs 2`; `--help`.

A planted difference that onnxruntime shows, or that is known to be above rounding, must not be called equal; an equal pair must not be called different; and
what stays unknown is counted. What is wrong is made small and written to the folder `--out`. Ends with 1 where anything was, or more than a tenth stays unknown."""
import argparse
import collections
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import onnx
from onnx import helper

from plant import pair_of
from build import session, value_info

VERDICTS = {0: "equal", 4: "different", 7: "unknown"}
MOST_UNKNOWN = 0.1


def verdict(pair, folder, seconds=20):
    """What verify says, or how it failed."""
    paths = [folder / "a.onnx", folder / "b.onnx"]
    for path, model in zip(paths, (pair.a, pair.b)):
        onnx.save(model, path)
    try:
        done = subprocess.run([os.environ["EMEND"], "verify", *paths, "--quiet", "--seconds", str(seconds)], capture_output=True, text=True, timeout=10 * seconds)
    except subprocess.TimeoutExpired:
        return "too slow", ""
    return VERDICTS.get(done.returncode, f"exit code {done.returncode}"), (done.stdout + done.stderr).strip()


def beside(values):
    """For every element the largest magnitude in its row or column, whichever is least."""
    size, least = np.abs(values), np.full(values.shape, np.inf)
    for axis in range(values.ndim):
        if values.shape[axis] > 1:
            others = tuple(d for d in range(values.ndim) if d != axis)
            least = np.minimum(least, size.max(axis=others, keepdims=True) if others else size)
    return np.where(np.isinf(least), size, least)


def differs(x, y):
    """Far above what rounding explains, where both are finite."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return True
    if x.dtype.kind in "OSU" or x.size == 0:
        return False
    if x.dtype.kind in "biu":
        return bool((x != y).any())
    x, y = x.astype(np.float64), y.astype(np.float64)
    good = np.isfinite(x) & np.isfinite(y)
    x, y = np.where(good, x, 0), np.where(good, y, 0)
    return bool((np.abs(x - y) > 1e-2 * np.maximum(beside(x), 1e-30)).any())


def shown(pair, seed):
    """Does onnxruntime show a difference on inputs that are no extremes? None where it does not run one of them."""
    try:
        a, b = session(pair.a), session(pair.b)
        names = [o.name for o in a.get_outputs()]
        seen = []
        for regime in ("normal", "integers", "spikes"):
            values = pair.case.draw(regime, seed)
            x, y = a.run(None, values), b.run(names, values)
            seen.append(all(isinstance(v, np.ndarray) for v in x + y) and any(differs(v, w) for v, w in zip(x, y)))
        return sum(seen) > 1  # once may be a step tipped
    except Exception:
        return None


def judged(pair, seed, folder):
    """(verdict, text, what is wrong or None, whether the verdict counts)."""
    seen = None if pair.equal or pair.certain else shown(pair, seed)
    counts = pair.equal or pair.certain or bool(seen)
    said, text = verdict(pair, folder)
    wrong = None
    if said not in VERDICTS.values():
        refused = said == "exit code 3"  # what Emend does not read is another tester's business
        wrong, counts = (None if refused else said), False
    elif said == "equal" and not pair.equal and counts:
        wrong = "a planted difference is called equal"
    elif said == "different" and pair.equal:
        wrong = "an equal pair is called different"
    return said, text, wrong, counts


def cut_at(model, name, info):
    """The model with this value as an input, without what only made it; None where it does not have it."""
    if not any(name in n.output for n in model.graph.node) or any(name == o.name for o in model.graph.output):
        return None
    nodes = [n for n in model.graph.node if name not in n.output]
    needed, kept = {o.name for o in model.graph.output}, []
    for node in reversed(nodes):
        if needed & set(node.output):
            kept.insert(0, node)
            needed |= set(node.input) | {i for a in node.attribute for n in a.g.node for i in n.input}
    inputs = [i for i in model.graph.input if i.name in needed] + [info]
    constants = [c for c in model.graph.initializer if c.name in needed]
    graph = helper.make_graph(kept, "small", inputs, list(model.graph.output), constants)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def shrunk(pair, shows):
    """Values that both have become inputs, while what is wrong stays."""
    inferred = onnx.shape_inference.infer_shapes(pair.a)
    for info in reversed(list(inferred.graph.value_info)):
        a, b = (cut_at(m, info.name, info) for m in (pair.a, pair.b))
        if a is None or b is None:
            continue
        other = type(pair)(pair.kind, a, b, pair.case, pair.equal, pair.certain)
        if shows(other):
            pair = other
    return pair


def report(pair, seed, wrong, text, out, folder):
    def shows(other):
        said, _, found, _ = judged(other, seed, folder)
        return found == wrong if other.equal or other.certain else said == "equal"

    small = shrunk(pair, shows)
    out.mkdir(parents=True, exist_ok=True)
    for name, model in (("a", small.a), ("b", small.b)):
        onnx.save(model, out / f"{seed}_{name}.onnx")
    return f"seed {seed}, {pair.kind}: {wrong}: {text}\n  emend verify {out}/{seed}_a.onnx {out}/{seed}_b.onnx"


def work(task):
    seed, out = task
    with tempfile.TemporaryDirectory(prefix="pairs") as folder:
        folder = pathlib.Path(folder)
        try:
            pair = pair_of(seed)
            if pair is None:
                return None
            said, text, wrong, counts = judged(pair, seed, folder)
            told = report(pair, seed, wrong, text, out, folder) if wrong else ""
            return ("equal pairs" if pair.equal else "planted") if counts else "not counted", pair.kind, said, told, seed
        except Exception:
            return "not counted", "broken", "broken", f"seed {seed}: {traceback.format_exc()}", seed


def run(seeds, pairs, out, jobs, say=print):
    """Counts by (sort, kind, verdict), and what is wrong."""
    counts, wrong, unknown = collections.Counter(), [], []
    with multiprocessing.Pool(jobs) as pool:
        for result in pool.imap_unordered(work, ((s, out) for s in seeds), chunksize=4):
            if result is None:
                continue
            sort, kind, said, told, seed = result
            counts[sort, kind, said] += 1
            if sort != "not counted" and said == "unknown":
                unknown.append(seed)
            if told:
                wrong.append(told)
                say(told)
            if sum(n for (s, _, _), n in counts.items() if s != "not counted") >= pairs:
                break
        pool.terminate()
    return counts, wrong, unknown


def table(counts):
    rows = sorted({(s, k) for s, k, _ in counts})
    said = sorted({v for _, _, v in counts})
    lines = [f"{'':44}" + "".join(f"{v:>14}" for v in said)]
    return "\n".join(lines + [f"{s + ': ' + k:44}" + "".join(f"{counts[s, k, v]:14}" for v in said) for s, k in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5000, help="how many that count")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/soak-pairs"))
    args = parser.parse_args()
    counts, wrong, unknown = run(range(args.seed, args.seed + 10 * args.pairs), args.pairs, args.out, args.jobs)
    counted = sum(n for (s, _, _), n in counts.items() if s != "not counted")
    print(table(counts))
    print(f"{counted} pairs, {len(wrong)} wrong, {len(unknown)} unknown ({len(unknown) / max(counted, 1):.1%}); first unknown seeds: {unknown[:10]}")
    return 1 if wrong or len(unknown) > MOST_UNKNOWN * counted else 0


if __name__ == "__main__":
    sys.exit(main())
