#!/usr/bin/env python3
"""What the search gains: what `make bench-search` runs.

Every model of the zoo, and the single operators that PET's paper shows, runs as `emend run` would run it: with the search, without it, and
without each family of rules that the result rests on, all compiled in one process and timed by turns (`emend bench --without`). The files that
`emend optimize` writes with and without the search are also timed in onnxruntime by turns, where it is installed. Printed are the e-graph's size,
the search's own time, the price before and after as the back end estimates it, both times, their ratio, and for every family how much slower
the program is without it; mutations are a family of their own. A model that the search leaves as it is, is not timed: its program is the
same. `--markdown` prints the rows of docs/search.md.
"""
import argparse, collections, json, os, pathlib, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ("resnet18 resnet50 resnext50 resnet3d18 vgg19 csrnet csrnet_pet squeezenet inception_v3 mobilenet_v2 nasnet_a nasnet_a_tensat "
          "nasrnn bert_base bert_large bert_tensat bert_pet vit_b16 llama_block").split()
SEARCH = "saturate", "price", "extract", "mutate", "back end"


def emend(*arguments):
    command = [os.environ.get("EMEND", ROOT / "build/emend"), *arguments, "--quiet"]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def facts_of(*arguments, folder):
    emend(*arguments, "--json", folder / "facts.json")
    return json.loads((folder / "facts.json").read_text())


def onnxruntime_ratio(before, after, seconds):
    """Times of one runtime by turns: how much faster it runs the second file."""
    try:
        import numpy as np
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    sessions = [onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"]) for path in (before, after)]
    rng = np.random.default_rng(1)
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    feeds = {i.name: rng.standard_normal(i.shape).astype(kinds[i.type]) if "float" in i.type else np.ones(i.shape, kinds[i.type])
             for i in sessions[0].get_inputs()}
    times = [[], []]
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times[0]) < 5:
        for session, kept in zip(sessions, times):
            start = time.perf_counter()
            session.run(None, feeds)
            kept.append(time.perf_counter() - start)
    return statistics.median(times[0]) / statistics.median(times[1])


def families_of(trail, themes):
    """The rules of a trail, by the theme of the table that they stand in; mutations stand in one of their own."""
    families = collections.defaultdict(set)
    for rule in trail:
        families[themes.get(rule, "mutation")].add(rule)
    return dict(sorted(families.items()))


def operators():
    """PET's operator cases: name, inputs, weights, nodes."""
    conv = lambda name, x, w, k, **how: (f"{name}", x, {f"w{i}": w for i in range(k)}, [("Conv", ["x", f"w{i}"], how) for i in range(k)])
    yield conv("conv_5x5", (1, 48, 38, 38), (64, 48, 5, 5), 1, pads=[2] * 4)
    yield conv("conv_dilated", (1, 512, 14, 14), (256, 512, 3, 3), 1, pads=[2] * 4, dilations=[2, 2])
    yield conv("conv_parallel", (1, 768, 18, 18), (192, 768, 1, 1), 2)
    yield "products_parallel", (512, 768), {f"w{i}": (768, 768) for i in range(3)}, [("MatMul", ["x", f"w{i}"], {}) for i in range(3)]


def write_operator(name, path):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    _, x, weights, nodes = next(case for case in operators() if case[0] == name)
    rng = np.random.default_rng(1)
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    made = [helper.make_node(kind, inputs, [f"y{i}"], **how) for i, (kind, inputs, how) in enumerate(nodes)]
    initializers = [numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), w) for w, shape in weights.items()]
    graph = helper.make_graph(made, name, [value("x", x)], [value(f"y{i}", None) for i in range(len(nodes))], initializers)
    onnx.save(onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)), path)


def row(name, options, themes):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model, plain, better = (folder / f"{kind}.onnx" for kind in ("model", "plain", "better"))
        if name in OPERATORS:
            write_operator(name, model)
        else:
            emend("zoo", name, model)
        emend("optimize", model, plain, "-O1")
        facts = facts_of("optimize", model, better, "-O2", "--search-again", folder=folder)
        spent = sum(facts["phases_ms"].get(phase, 0) for phase in SEARCH)
        cells = [name, facts["enodes"], f"{spent:.0f}", f"{facts['cost_before']:.3f}", f"{facts['cost_after']:.3f}"]
        if not facts["trail"]:
            return cells + ["", "", "as it is", "", ""]
        families = families_of(facts["trail"], themes)
        left_out = ["search"]  # without one mutation another may do: they are left out together
        if len(families) > 1:
            left_out += ["mutate" if family == "mutation" else ",".join(sorted(rules)) for family, rules in families.items()]
        timed = facts_of("bench", model, *(part for names in left_out for part in ("--without", names)), "--no-check", "--seconds", options.seconds,
                         folder=folder)["models"]
        after, before, *without = (entry["median_ms"] for entry in timed)
        gains = [before / after] if len(families) == 1 else [ms / after for ms in without]
        ratio = onnxruntime_ratio(plain, better, options.seconds)
        return cells + [f"{before:.3f}", f"{after:.3f}", f"{before / after:.2f}", "" if ratio is None else f"{ratio:.2f}",
                        ", ".join(f"{family} {gain:.2f} ({', '.join(sorted(families[family]))})" for family, gain in zip(families, gains))]


OPERATORS = [case[0] for case in operators()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*MODELS, *OPERATORS], help=f"of the zoo, or {', '.join(OPERATORS)} (all)")
    parser.add_argument("--seconds", type=float, default=3, help="for the runs of each program (3)")
    parser.add_argument("--markdown", action="store_true", help="rows of a table for docs/search.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        themes = {rule["name"]: rule["theme"] for rule in facts_of("rules", "list", folder=pathlib.Path(folder))["rules"]}
    widths = 18, 8, 10, 10, 10, 10, 10, 9, 7, 0
    heads = "model", "e-nodes", "search ms", "before", "after", "before", "after", "ratio", "in ort", "slower without"
    if options.markdown:
        print("| " + " | ".join(heads) + " |\n| --- |" + " ---: |" * 8 + " --- |")
    else:
        print(f"{'':<34}{'estimated ms':>20}{'measured ms':>20}")
        print("".join(f"{head:<{width}}" if i in (0, 9) else f"{head:>{width}}" for i, (head, width) in enumerate(zip(heads, widths))))
    for name in options.models:
        cells = [str(cell) for cell in row(name, options, themes)]
        if options.markdown:
            print("| " + " | ".join(cells) + " |", flush=True)
        else:
            print("".join(f"{cell:<{width}}" if i == 0 else "  " + cell if i == 9 else f"{cell:>{width}}"
                          for i, (cell, width) in enumerate(zip(cells, widths))), flush=True)


if __name__ == "__main__":
    sys.exit(main())
