"""Random models through Emend, for as long as one likes: `soak.py --seconds 7200 --jobs 2`; `--help`.

Every model is a pure function of its seed. Each goes through `run` on the reference or compiled, `optimize` at several levels with its files run in
onnxruntime, and `verify`; which of them, and on what inputs, the seed says, too. A wrong value, a refusal of what onnxruntime runs, an internal error, a
signal is a finding: the first ones of each kind are shown, the very first is shrunk and written to the folder `--out`, with the command that shows it.
Ends with 1 where there are any."""
import argparse, collections, itertools, json, multiprocessing, os, pathlib, shutil, sys, tempfile, time, traceback

import onnx

import models
from checker import Checker, plan_of
from shrink import shrink


def check_seed(checker, seed, family=None, closed=False):
    """(family or None, the case, findings)."""
    case = models.model_of(seed, family, closed)
    if case is None:
        return None, None, []
    return case.family, case, checker.findings(case, seed, plan_of(seed))


def work(jobs, told, family, closed):
    """Takes seeds until there are no more; says first which one, so that one at which onnxruntime itself dies is known."""
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        checker = Checker(folder)
        while (seed := jobs.get()) is not None:
            told.put(("begins", os.getpid(), seed))
            try:
                name, case, found = check_seed(checker, seed, family, closed)
            except Exception:
                told.put(("broken", os.getpid(), seed, traceback.format_exc()))
                continue
            kinds = [(f.kind, f.what, f.command) for f in found]
            told.put(("done", os.getpid(), seed, name, bool(case and case.sizes), kinds, checker.counts))
            checker.counts = {}


def reduced(seed, kind, options, out):
    """The smallest case with this finding, as a file with its inputs and the command."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        checker, plan = Checker(folder), plan_of(seed)
        case = models.model_of(seed, options.family, options.closed)
        last = []

        def shows(other):
            found = [f for f in checker.findings(other, seed, plan) if alike(f.kind, kind)]
            last[:] = found or last
            return bool(found)

        case = shrink(case, seed, plan, shows)
        try:
            shows(case)
        except Exception:
            pass
        onnx.save(case.model, out / "model.onnx")
        for path in pathlib.Path(folder).glob("*.in.npy"):
            shutil.copy(path, out)
        command = (last[0].command if last else "").replace(folder, str(out))
        nodes = [n.op_type for n in case.model.graph.node]
        (out / "finding.txt").write_text(f"seed {seed}\nkind {kind}\n{last[0].what if last else 'not seen again'}\n{command}\nnodes {nodes}\n")
        return len(nodes), last[0].what if last else "not seen again"


def alike(a, b):
    """Wrong values stay of a kind as operators fall away."""
    return a == b or (a.startswith("wrong") and a.split()[:2] == b.split()[:2])


MOST_SHOWN = 20  # of a kind, which may have several causes


class Tally:
    def __init__(self):
        self.families, self.verbs, self.kinds, self.examples = collections.Counter(), collections.Counter(), collections.Counter(), {}
        self.models = self.open = self.skipped = self.died = 0

    def take(self, seed, name, is_open, found, counts):
        self.verbs.update(counts)
        if name is None:
            self.skipped += 1
            return
        self.models += 1
        self.open += is_open
        self.families[name] += 1
        for kind, what, command in found:
            self.kinds[kind] += 1
            self.examples.setdefault(kind, (seed, what, command))
            if self.kinds[kind] <= MOST_SHOWN:
                print(f"seed {seed}: {kind}\n    {what}\n    {command}", flush=True)

    def table(self):
        rows = [f"{self.models} models, {self.open} of them with open sizes; {self.skipped} seeds without one; {self.died} at which onnxruntime died"]
        rows += ["  ".join(f"{name} {n}" for name, n in counter.most_common()) for counter in (self.families, self.verbs)]
        return "\n".join(rows + [f"{n:6} x {kind} (seed {self.examples[kind][0]})" for kind, n in self.kinds.most_common()])


def soak(options):
    seeds = itertools.count(options.seed) if options.models is None else iter(range(options.seed, options.seed + options.models))
    context, told, tally, end = multiprocessing.get_context("spawn"), multiprocessing.get_context("spawn").Queue(), Tally(), time.monotonic() + options.seconds
    queues, workers, busy = {}, {}, {}

    def begin():
        queue = context.Queue()
        worker = context.Process(target=work, args=(queue, told, options.family, options.closed), daemon=True)
        worker.start()
        queues[worker.pid], workers[worker.pid] = queue, worker
        feed(worker.pid)

    def feed(pid):
        busy[pid] = seed = next(seeds, None) if time.monotonic() < end else None
        queues[pid].put(seed)
        if seed is None:
            del busy[pid]

    for _ in range(options.jobs):
        begin()
    shown = time.monotonic()
    while busy:
        try:
            kind, pid, seed, *rest = told.get(timeout=5)
        except Exception:
            for pid in [p for p in busy if not workers[p].is_alive()]:
                tally.died += 1
                print(f"seed {busy.pop(pid)}: the process died (onnxruntime runs in it)", flush=True)
                begin()
            continue
        if kind == "done":
            tally.take(seed, *rest)
        elif kind == "broken":
            tally.take(seed, None, False, [], {})
            print(f"seed {seed}: the tester itself failed\n{rest[0]}", flush=True)
        if kind != "begins":
            feed(pid)
        if time.monotonic() - shown > options.every:
            shown = time.monotonic()
            print(tally.table(), flush=True)
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="begin no model after so long")
    parser.add_argument("--models", type=int, help="so many seeds at most")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--family", choices=sorted(models.FAMILIES), help="of one family only")
    parser.add_argument("--closed", action="store_true", help="no model has open sizes")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/soak"), help="where findings are written")
    parser.add_argument("--no-shrink", action="store_true", help="findings as they are")
    parser.add_argument("--every", type=float, default=600, help="seconds between tables")
    return run(parser.parse_args())


def run(options):
    tally = soak(options)
    print(tally.table(), flush=True)
    for i, (kind, (seed, _, _)) in enumerate(tally.examples.items()):
        if not options.no_shrink:
            nodes, what = reduced(seed, kind, options, options.out / f"{i:03}-{seed}")
            print(f"{options.out / f'{i:03}-{seed}'}: {kind}, {nodes} nodes: {what}", flush=True)
    print(f"{sum(tally.kinds.values())} findings of {len(tally.kinds)} kinds" if tally.kinds else "no findings")
    return 1 if tally.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
