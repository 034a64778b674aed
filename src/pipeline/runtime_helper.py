"""Times ONNX files in another runtime: the helper process of `emend optimize --target RUNTIME`, which carries this text inside.

    python -c TEXT RUNTIME THREADS

It says {"version": ...} when it is ready, or {"error": ...}; then it answers every line {"files": [...], "seconds": S} on stdin with one line
{"seconds": [...], "reasons": [...]}: the shortest run of each file on made-up inputs, or null and why it does not run. Files of one request take turns, so
that what slows the machine down slows all of them. Models stay loaded as long as requests name them.
"""
import sys

sys.path = [folder for folder in sys.path if folder]  # never from the current folder: a stranger's module may lie there

import json, os, time

TURN = 0.02  # seconds that a file runs before the next has its turn
TURNS = 4  # at least, whatever `seconds` says


def one_of(numpy, shape, kind):
    """Values that every operator can take. Integers are mostly places: they are tried as ones, then as zeros."""
    if "float" in kind or "double" in kind or "f16" in kind or "f32" in kind or "f64" in kind:
        dtype = {"float16": "float16", "f16": "float16", "double": "float64", "f64": "float64"}.get(kind, "float32")
        return [numpy.random.default_rng(1).standard_normal(shape).astype(dtype)]
    dtype = {"i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64",
             "boolean": "bool"}.get(kind, kind)
    return [numpy.ones(shape, dtype), numpy.zeros(shape, dtype)]


def first_that_runs(inputs, bind):
    """`bind` of the first of the values that a run accepts."""
    for choice in (0, -1):
        run = bind({name: values[choice] for name, values in inputs.items()})
        try:
            run()
            return run
        except Exception:
            if choice == -1:
                raise


def onnxruntime(threads):
    import numpy, onnxruntime as ort

    # One pool for all: threads of one session that wait busily would slow the next.
    ort.set_global_thread_pool_sizes(threads, 1)
    ort.set_default_logger_severity(3)

    def load(path):
        options = ort.SessionOptions()
        options.use_per_session_threads = False
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        inputs = {i.name: one_of(numpy, i.shape, i.type.removeprefix("tensor(").removesuffix(")")) for i in session.get_inputs()}

        def bind(values):
            binding = session.io_binding()
            for name, value in values.items():
                binding.bind_cpu_input(name, value)
            for output in session.get_outputs():
                binding.bind_output(output.name, "cpu")
            return lambda: session.run_with_iobinding(binding)

        return first_that_runs(inputs, bind)

    return load, ort.__version__


def openvino(threads):
    import numpy, openvino as ov

    core = ov.Core()
    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}

    def load(path):
        compiled = core.compile_model(path, "CPU", settings)
        request = compiled.create_infer_request()
        inputs = {i.any_name: one_of(numpy, tuple(i.shape), i.element_type.get_type_name()) for i in compiled.inputs}

        def bind(values):
            for name, value in values.items():
                request.set_tensor(name, ov.Tensor(value))
            return request.infer

        return first_that_runs(inputs, bind)

    return load, ov.__version__


RUNTIMES = {"onnxruntime": onnxruntime, "openvino": openvino}


def seconds_of(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def turn(run):
    """The shortest of some runs. The first one warms up what others have left cold, and counts only where there is time for no second."""
    end = time.perf_counter() + TURN
    best, left = seconds_of(run), 2
    while left > 0 or time.perf_counter() < end:
        best = min(best, seconds_of(run))
        left -= 1
    return best


def race(runs, seconds):
    best = [float("inf")] * len(runs)
    end, turns = time.perf_counter() + seconds, 0
    while runs and (turns < TURNS or time.perf_counter() < end):
        order = range(len(runs)) if turns % 2 == 0 else reversed(range(len(runs)))
        for i in order:
            best[i] = min(best[i], turn(runs[i]))
        turns += 1
    return best


def answer(request, load, loaded):
    files = request["files"]
    for path in [path for path in loaded if path not in files]:
        del loaded[path]
    reasons = []
    for path in files:
        try:
            loaded[path] = loaded.get(path) or load(path)
            reasons.append(None)
        except Exception as error:
            reasons.append(str(error) or type(error).__name__)
    times = dict(zip(loaded, race(list(loaded.values()), request["seconds"])))
    return {"seconds": [times.get(path) for path in files], "reasons": reasons}


def main(name, threads):
    # Answers have stdout for themselves; what libraries print goes to stderr.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        load, version = RUNTIMES[name](int(threads))
    except ImportError as error:
        return print(json.dumps({"error": str(error)}), file=answers)
    print(json.dumps({"version": version}), file=answers)
    loaded = {}
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), load, loaded)), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
