#!/usr/bin/env python3
"""What optimizing for another runtime gains there: what `make bench-target` runs.

Every model of the zoo is optimized for onnxruntime or openvino (`emend optimize --target`); the input and the written file are then timed there by turns,
anew. Printed are how long both take, how much faster the second is, by how much the outputs differ, how long optimizing took, how many times it
measured something there, and what was changed.
"""
import argparse, collections, math, os, pathlib, sys, tempfile

from search import MODELS, ROOT, emend, facts_of


def made_up(path):
    """Inputs for a model, by name."""
    import numpy as np
    import onnx

    file = onnx.load(path, load_external_data=False)
    rng, inputs = np.random.default_rng(1), {}
    for i in file.graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        shape = [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]
        inputs[i.name] = rng.standard_normal(shape).astype(kind) if kind.kind == "f" else np.ones(shape, kind)
    return inputs


def side_by_side(before, after, runtime, seconds):
    """Shortest runs of two files in a runtime, by turns, and the largest difference of their outputs, relative to the largest value."""
    import numpy as np

    sys.path.insert(0, str(ROOT / "src/pipeline"))
    import runtime_helper, worker

    inputs = made_up(before)
    runs = [worker.RUNTIMES[runtime][0](model=path, inputs=inputs, threads=len(os.sched_getaffinity(0))) for path in (before, after)]
    results = []
    for run, outputs in runs:
        run()
        results.append(outputs())
    differs = max(float(np.max(np.abs(value - results[1][name])) / max(float(np.max(np.abs(value))), 1e-30)) for name, value in results[0].items())
    return *runtime_helper.race([run for run, _ in runs], seconds), differs


def row(name, options):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model, better = folder / "model.onnx", folder / "better.onnx"
        emend("zoo", name, model)
        facts = facts_of("optimize", model, better, "-O2", "--target", options.target, folder=folder)
        before, after, differs = side_by_side(model, better, options.target, options.seconds)
    changed = collections.Counter(facts["trail"])
    told = [f"in the form {form}" for form in facts["forms"]] + [f"{rule} {times}" for rule, times in sorted(changed.items())]
    if facts["kept_input"]:
        told = ["the input is kept"]
    print(f"{name:<16} {1e3 * before:>9.3f} {1e3 * after:>9.3f} {before / after:>7.3f} {differs:>9.1e} {sum(facts['phases_ms'].values()) / 1e3:>7.1f} "
          f"{facts['prices_measured']:>8}  {', '.join(told)}", flush=True)
    return before / after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, help="which (all)")
    parser.add_argument("--target", choices=("onnxruntime", "openvino"), default="onnxruntime", help="the runtime (onnxruntime)")
    parser.add_argument("--seconds", type=float, default=3, help="of timing both files (3)")
    options = parser.parse_args()
    print(f"{'model':<16} {'ms in ' + options.target:>19} {'ratio':>7} {'differs':>9} {'took s':>7} {'measured':>8}")
    ratios = [row(name, options) for name in options.models]
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, worst {min(ratios):.3f}, best {max(ratios):.3f}")


if __name__ == "__main__":
    sys.exit(main())
