#!/usr/bin/env python3
"""One other runtime with one model, in a process of its own: `worker.py RUNTIME NAME MODEL.onnx INPUTS THREADS`.

NAME is the zoo's, INPUTS a folder with NAME.npy for every input. Speaks what `emend bench --serve` speaks (tools/emend/serve.h): a
line of JSON when it is ready, then one for each `run COUNT` and `outputs DIR` on stdin. Each runtime runs as its makers advise for
one request at a time in single precision: everything that can be done before the first run is done before it.
"""
import importlib, json, os, pathlib, sys, time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent


def onnxruntime(model, inputs, threads, **_):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_cpu_input(name, value)
    for name in names:
        binding.bind_output(name, "cpu")
    return lambda: session.run_with_iobinding(binding), lambda: dict(zip(names, binding.copy_outputs_to_cpu()))


def openvino(model, inputs, threads, **_):
    import openvino as ov

    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    compiled = ov.Core().compile_model(str(model), "CPU", settings)
    request = compiled.create_infer_request()
    for name, value in inputs.items():
        request.set_tensor(name, ov.Tensor(value, shared_memory=True))
    return request.infer, lambda: {o.any_name: request.get_tensor(o).data.copy() for o in compiled.outputs}


def twin(model, name):
    """The same network in PyTorch, with the weights of the file."""
    sys.path.insert(0, str(ROOT / "tests/oracle"))
    import onnx, zoo_torch

    file = onnx.load(model)
    return zoo_torch.twin_of(name, file), [o.name for o in file.graph.output]


def pytorch(model, inputs, threads, name, prepare):
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    network, names = twin(model, name)
    network, tensors = prepare(network, [torch.from_numpy(v) for v in inputs.values()])
    results = []

    def run():
        results[:] = [network(*tensors)]

    def outputs():
        values = results[0] if isinstance(results[0], tuple) else (results[0],)
        return {n: v.numpy() for n, v in zip(names, values)}

    return run, outputs


def torch_compile(**arguments):
    """Frozen: weights are constants, folded and packed ahead."""
    import torch, torch._inductor.config

    torch._inductor.config.freezing = True
    return pytorch(prepare=lambda network, tensors: (torch.compile(network), tensors), **arguments)


def reference(**arguments):
    """The truth: PyTorch in double precision, not compiled."""
    widened = lambda tensors: [t.double() if t.is_floating_point() else t for t in tensors]
    return pytorch(prepare=lambda network, tensors: (network.double(), widened(tensors)), **arguments)


# And what they import, which takes seconds and is no part of what is measured.
RUNTIMES = {
    "onnxruntime": (onnxruntime, ["onnxruntime"]),
    "openvino": (openvino, ["openvino"]),
    "torch.compile": (torch_compile, ["torch", "torch._inductor.config", "torch._dynamo"]),
    "reference": (reference, ["torch"]),
}


def timed(run):
    start = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - start) / 1e6


def obey(line, run, outputs):
    command, _, argument = line.strip().partition(" ")
    if command == "run" and argument.isdigit() and int(argument) > 0:
        return {"ms": [timed(run) for _ in range(int(argument))]}
    if command == "outputs" and argument:
        folder = pathlib.Path(argument)
        folder.mkdir(parents=True, exist_ok=True)
        run()
        values = outputs()
        for name, value in values.items():
            np.save(folder / f"{name}.npy", value)
        return {"outputs": list(values)}
    return {"error": f"expected `run COUNT` or `outputs DIR`, got {line!r}"}


def main(runtime, name, model, folder, threads):
    # Answers have stdout for themselves; what libraries print goes to stderr.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import onnx

    order = [i.name for i in onnx.load(model, load_external_data=False).graph.input]
    inputs = {i: np.load(pathlib.Path(folder) / f"{i}.npy") for i in order}
    make, modules = RUNTIMES[runtime]
    for module in modules:
        importlib.import_module(module)
    start = time.perf_counter()
    run, outputs = make(model=model, inputs=inputs, threads=int(threads), name=name)
    made = time.perf_counter()
    first_ms = timed(run)
    print(json.dumps({"ready": True, "compile_s": made - start, "first_ms": first_ms}), file=answers)
    for line in sys.stdin:
        print(json.dumps(obey(line, run, outputs)), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
