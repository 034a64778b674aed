#!/usr/bin/env python3
"""Models of the zoo in eight bits against onnxruntime and openvino: what `make bench-quantized` runs.

onnxruntime's own quantiser makes the models, once: `static` as QDQ (activations u8, weights s8 per channel, scales from random inputs),
`dynamic` with scales that every run finds. Peers run them as they run any model. *difference* is the largest one from onnxruntime's outputs,
relative to their largest: eight bits round to either side of a tie, and what follows differs by that.
"""
import argparse, os, pathlib, shutil, sys, tempfile

import figures
from compare import ROOT, build_model, command_of, largest_error, say
from race import Failed, Runner, race

RUNTIMES = ("emend", "onnxruntime", "openvino")
CASES = [("bert_base", {"layers": 4}, "static"), ("bert_base", {"layers": 4}, "dynamic"), ("resnet18", {}, "static"), ("resnet50", {}, "static")]
QUANTISED = {"bert_base": ["MatMul", "Gemm"], "resnet18": ["Conv", "Gemm", "MatMul"], "resnet50": ["Conv", "Gemm", "MatMul"]}


def random_inputs(path):
    sys.path.insert(0, str(ROOT / "tests/oracle"))
    import numpy as np, onnx, zoo_torch

    return zoo_torch.random_inputs(onnx.load(path), np.random.default_rng(1))


def quantized(plain, how, operators):
    from onnxruntime import quantization as q

    path = plain.with_name(f"{plain.stem}-{how}.onnx")
    if path.exists() and path.stat().st_mtime >= plain.stat().st_mtime:
        return path
    say(f"quantising {path.stem}")
    if how == "dynamic":
        q.quantize_dynamic(plain, path, weight_type=q.QuantType.QInt8, op_types_to_quantize=operators)
        return path

    class Samples(q.CalibrationDataReader):
        left = [random_inputs(plain)]

        def get_next(self):
            return self.left.pop() if self.left else None

    q.quantize_static(plain, path, Samples(), quant_format=q.QuantFormat.QDQ, per_channel=True, op_types_to_quantize=operators,
                      activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
    return path


def contest(emend, name, path, options):
    import numpy as np

    scratch = pathlib.Path(tempfile.mkdtemp(prefix="race-", dir=options.out))
    runners, differences, failures = {}, {}, {}
    try:
        (scratch / "inputs").mkdir()
        inputs = random_inputs(path)
        for key, value in inputs.items():
            np.save(scratch / "inputs" / f"{key}.npy", value)
        environment = {**os.environ, "EMEND_CACHE_DIR": str(scratch / "emend"), "OMP_NUM_THREADS": str(options.threads)}
        for runtime in RUNTIMES:
            command = command_of(runtime, emend, name, path, list(inputs), scratch / "inputs", options.threads)
            try:
                runners[runtime] = Runner(command, options.out / "logs" / f"{path.stem}-{runtime}.log", environment)
            except Failed as e:
                failures[runtime] = str(e)
        times, failed = race(runners, options.seconds)
        for runtime in times:
            runners[runtime].ask(f"outputs {scratch / runtime}")
        for runtime in times if "onnxruntime" in times else ():
            differences[runtime] = largest_error(scratch / runtime, scratch / "onnxruntime")
        return times, differences, failures | failed
    finally:
        for runner in runners.values():
            runner.close()
        shutil.rmtree(scratch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every runtime (default: as many as there are)")
    parser.add_argument("--seconds", type=float, default=10, help="for the rounds of a model")
    parser.add_argument("--out", type=lambda p: pathlib.Path(p).resolve(), default=ROOT / "build/bench", help="where models and logs go")
    options = parser.parse_args()
    emend = pathlib.Path(os.environ.get("EMEND", ROOT / "build/emend"))
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{'model':32}{'runtime':14}{'ms':>9}{'min':>9}{'ratio':>8}{'difference':>12}")
    for name, sizes, how in CASES:
        path = quantized(build_model(emend, name, sizes, options.out), how, QUANTISED[name])
        times, differences, failures = contest(emend, name, path, options)
        facts = {runtime: figures.summary(rounds) for runtime, rounds in times.items()}
        figures.add_ratios(facts)
        for runtime in RUNTIMES:
            label = f"{path.stem if runtime == RUNTIMES[0] else '':32}{runtime:14}"
            if runtime not in facts:
                print(f"{label}failed: {failures.get(runtime, 'did not run')}")
                continue
            f = facts[runtime]
            print(f"{label}{f['median_ms']:9.3f}{f['min_ms']:9.3f}{f.get('ratio') or float('nan'):8.2f}{differences.get(runtime, float('nan')):12.1e}", flush=True)


if __name__ == "__main__":
    main()
