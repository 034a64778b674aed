#!/usr/bin/env python3
"""What the search gains: what `make bench-search` runs.

Every model of the zoo is optimized without the search (-O1) and with it (-O2); both files are then timed in one process by turns
(`emend bench`) and, where onnxruntime is installed, in it by turns as well. Printed are the e-graph's size, the search's own time, the price before and
after as the back end estimates it, both times, their ratio, and the rules that the result rests on. A model that the search leaves as
it is, is not timed: its file is the same.
"""
import argparse, collections, json, os, pathlib, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ("resnet18 resnet50 resnext50 resnet3d18 vgg19 csrnet csrnet_pet squeezenet inception_v3 mobilenet_v2 nasnet_a nasnet_a_tensat "
          "nasrnn bert_base bert_large bert_tensat bert_pet vit_b16 llama_block").split()
SEARCH = "saturate", "price", "extract", "back end"


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


def row(name, options):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model, plain, better = (folder / f"{kind}.onnx" for kind in ("model", "plain", "better"))
        emend("zoo", name, model)
        emend("optimize", model, plain, "-O1")
        facts = facts_of("optimize", model, better, "-O2", folder=folder)
        spent = sum(facts["phases_ms"].get(phase, 0) for phase in SEARCH)
        start = (f"{name:<16} {facts['enodes']:>7} {spent:>8.0f} {facts['cost_before']:>9.3f} {facts['cost_after']:>9.3f} ")
        if not facts["trail"]:
            print(start + f"{'':>9} {'':>9} {'as it is':>9}", flush=True)
            return
        timed = facts_of("bench", plain, better, "--runs", options.runs, folder=folder)["models"]
        before, after = (entry["median_ms"] for entry in timed)
        ratio = onnxruntime_ratio(plain, better, options.seconds)
        elsewhere = "" if ratio is None else f"{ratio:.2f}"
        rests = ", ".join(f"{rule} {times}" for rule, times in sorted(collections.Counter(facts["trail"]).items()))
        print(start + f"{before:>9.3f} {after:>9.3f} {before / after:>9.2f} {elsewhere:>7}  {rests}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, help="which (all)")
    parser.add_argument("--runs", type=int, default=50, help="of each file (50)")
    parser.add_argument("--seconds", type=float, default=3, help="of onnxruntime (3)")
    options = parser.parse_args()
    print(f"{'model':<16} {'e-nodes':>7} {'search':>8} {'estimated ms':>19} {'measured ms':>19} {'':>9} {'in ort':>7}")
    print(f"{'':<16} {'':>7} {'ms':>8} {'before':>9} {'after':>9} {'before':>9} {'after':>9} {'ratio':>9} {'ratio':>7}  rests on")
    for name in options.models:
        row(name, options)


if __name__ == "__main__":
    sys.exit(main())
