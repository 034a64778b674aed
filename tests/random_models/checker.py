"""One case through Emend: what it is asked to do with it, and what of that is a finding."""
import dataclasses, os, pathlib, re, subprocess

import numpy as np
import onnx

import standard
from build import session
from expected import Expected, Reference
from models import REGIMES

PATIENCE = 120  # seconds of CPU a command may take
SLOWEST = 10  # times that in all: a machine that does other things, or halts everything for a while, makes no command slow, but one that waits for ever ends
WIDTHS = ("64", "64", "32", "16")  # bytes of a vector register; a machine without such wide ones uses its own
MEASURED = 5  # one of so many compiled programs is chosen by a clock
KERNELS = 1e-4  # of a channel's largest value: what kernels may lose besides rounding


@dataclasses.dataclass
class Finding:
    kind: str  # of the same cause, as far as can be told without reading: what is counted and shrunk together
    what: str
    command: str = ""


class Emend:
    def __init__(self, folder):
        self.path, self.folder = os.path.abspath(os.environ.get("EMEND", "build/emend")), folder

    def __call__(self, *arguments, **environment):
        """The finished process, or None where it ran out of patience."""
        told = [f"{name}={value}" for name, value in environment.items()]
        self.last = " ".join(map(str, [*told, "emend", *arguments]))
        command = [self.path, *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", cwd=self.folder,
                              env={**os.environ, "EMEND_BUDGET": "0", **environment}) as process:
            for _ in range(SLOWEST):
                try:
                    told = process.communicate(timeout=PATIENCE)
                    return subprocess.CompletedProcess(command, process.returncode, *told)
                except subprocess.TimeoutExpired:
                    if cpu_seconds(process.pid) >= PATIENCE:
                        break
            process.kill()
            return None

    def ended_badly(self, done):
        """Signals, internal errors and patience; what is refused is for the caller to judge."""
        if done is None:
            return Finding("slow", f"took over {PATIENCE} s", self.last)
        if done.returncode < 0 or done.returncode in (1, 134, 139):
            reason = message(done)
            return Finding("crash " + same(reason), f"exit code {done.returncode}: {reason}", self.last)
        return None


def cpu_seconds(pid):
    """Of a process and of those that it has waited for, the compiler among them."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def message(done):
    """The line that says why, without the warnings before it."""
    lines = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["no word"]
    ours = [x for x in lines if x.startswith("emend:")]
    return next((x for x in ours if "internal error" in x), (ours or lines)[-1])[:300]


def same(text):
    """A message without what differs from model to model."""
    text = re.sub(r"/\S+|'[^']*'|\"[^\"]*\"|\[[^\]]*\]", "_", text)
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "#", re.sub(r"\b[xvcny]b?\d+\w*", "_", text))[:120]


@dataclasses.dataclass
class Plan:
    """Which of the many ways this case goes: all are too many for each."""

    regimes: tuple
    levels: tuple
    verify: bool
    cpu: tuple  # (level, threads, bytes of a vector register), or nothing
    interpret: bool = True


def plan_of(seed, cpu_share=0.3, deep_share=0.45):
    rng = np.random.default_rng([99, seed])
    regimes = ["normal", *rng.choice(REGIMES[1:], 2, replace=False)]
    levels = ["-O1"]
    if rng.random() < deep_share:
        levels.append(str(rng.choice(["-O2", "-O2", "-O3"])))
    if rng.random() < 0.15:
        levels.append("-O0")
    cpu = (f"-O{rng.integers(0, 4) if rng.random() < 0.5 else 1}", int(rng.integers(1, 9))) if rng.random() < cpu_share else ()
    verify = bool(rng.random() < 0.4)
    return Plan(tuple(map(str, regimes)), tuple(levels), verify, cpu and (*cpu, str(rng.choice(WIDTHS))))


class Checker:
    def __init__(self, folder):
        self.folder, self.emend = pathlib.Path(folder), Emend(folder)
        self.counts = {}

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def findings(self, case, seed, plan):
        path = self.folder / "model.onnx"
        onnx.save(case.model, path)
        reference = Reference(case.model)
        expected = [e for e in (expected_at(reference, case.draw(r, seed), r) for r in plan.regimes) if e]
        found = []
        if not expected:
            return []
        if plan.interpret:
            found += self.ran(path, expected[-1], ["--target", "interp"], "interp")
        for level in plan.levels:
            found += self.optimized(path, case, seed, reference, expected, level, plan.verify)
        if plan.cpu:
            level, threads, width = plan.cpu
            found += self.ran(path, expected[0], ["--target", "cpu", level, "--threads", threads], "cpu", KERNELS, EMEND_VECTOR_BYTES=width,
                              EMEND_BUDGET="0.5" if seed % MEASURED == 0 else "0")
        return found

    def ran(self, path, expected, options, kind, slack=0.0, **environment):
        """`emend run` against onnxruntime."""
        self.count(f"run {kind}")
        command = ["run", path, *options, "--save", self.folder]
        for name, value in expected.values.items():
            np.save(self.folder / f"{name}.in.npy", value)
            command += ["--input", f"{name}:{self.folder / name}.in.npy"]
        for name in expected.reference.outputs:
            (self.folder / f"{name}.npy").unlink(missing_ok=True)
        done = self.emend(*command, **environment)
        bad = self.emend.ended_badly(done)
        if bad:
            return [bad]
        if done.returncode:
            return [Finding(f"{kind} refuses: {same(message(done))}", message(done), self.emend.last)]
        found = []
        if "error:" in done.stderr:
            line = next(x for x in done.stderr.splitlines() if "error:" in x)
            found.append(Finding("kernel " + same(line), line[:300], self.emend.last))
        got = {n: np.load(self.folder / f"{n}.npy") for n in expected.reference.outputs if (self.folder / f"{n}.npy").exists()}
        fault = expected.faults(got, slack)
        if fault and not standard_says(expected, got):
            found.append(Finding(f"wrong {kind} {self.operators(expected)}", fault, self.emend.last))
        return found

    def operators(self, expected):
        return "" if len(expected.reference.model.graph.node) > 3 else ",".join(n.op_type for n in expected.reference.model.graph.node)

    def optimized(self, path, case, seed, reference, expected, level, verify):
        self.count(f"optimize {level}")
        better = self.folder / "better.onnx"
        better.unlink(missing_ok=True)
        done = self.emend("optimize", path, better, level, "-q", "--threads", 1 + seed % 8)
        command = self.emend.last
        bad = self.emend.ended_badly(done)
        if bad:
            return [Finding(f"{level} {bad.kind}", bad.what, command)]
        if done.returncode == 8:
            return [Finding(f"fixed {case.family}", "a dimension is fixed: " + done.stdout.strip()[-200:], command)] if case.sizes else []
        if done.returncode:
            return [Finding(f"{level} refuses ({done.returncode}): {same(message(done))}", message(done), command)]
        found = [Finding(f"{kind} {level}", f, command) for kind, f in self.file_faults(better, case, seed, reference, expected)]
        if verify and not found:
            self.count("verify")
            judged = self.emend("verify", path, better, "-q")
            bad = self.emend.ended_badly(judged)
            if bad or judged.returncode == 4:
                found.append(bad or Finding("verify calls it different", judged.stdout.strip()[:300], self.emend.last))
        return found

    def file_faults(self, better, case, seed, reference, expected):
        """The first thing that is wrong with a written file, in onnxruntime, and of what kind."""
        try:
            running = session(str(better))
        except Exception as e:
            return [("corrupt file", f"onnxruntime does not take it: {str(e)[-250:]}")]
        names = [i.name for i in reference.plain.get_inputs()], [i.name for i in running.get_inputs()]
        if names[0] != names[1] or reference.outputs != [o.name for o in running.get_outputs()]:
            return [("corrupt file", f"its inputs and outputs are {names[1]}, {[o.name for o in running.get_outputs()]}")]
        lost = [i.name for i, o in zip(running.get_inputs(), reference.plain.get_inputs()) if symbols_of(o.shape) != symbols_of(i.shape)]
        if lost:
            return [("sizes lost in file", f"sizes of {lost} were open and are {[i.shape for i in running.get_inputs() if i.name in lost]}")]
        faults = [self.runs_as(running, one) for one in expected]
        faults += [self.at_sizes(running, case, seed, reference, sizes) for sizes in case.sizes]
        return [("wrong file", f) for f in faults if f][:1]

    def at_sizes(self, running, case, seed, reference, sizes):
        expected = expected_at(reference, case.draw("normal", seed, sizes))
        if expected is None:
            return None
        self.count("other sizes")
        fault = self.runs_as(running, expected)
        return f"at {sizes}: {fault}" if fault else None

    def runs_as(self, running, expected):
        try:
            got = dict(zip(expected.reference.outputs, running.run(None, expected.values)))
        except Exception as e:
            return f"does not run: {str(e)[-250:]}"
        fault = expected.faults(got)
        return None if fault and standard_says(expected, got) else fault


def expected_at(reference, values, regime="normal"):
    """None for values that the model itself cannot be run on: its sizes depend on them."""
    try:
        return Expected(reference, values, regime)
    except Exception:
        return None


def symbols_of(shape):
    return [axis for axis, d in enumerate(shape) if not isinstance(d, int)]


def standard_says(expected, got):
    """Does every output agree with the standard's own evaluator, where it does not with onnxruntime?"""
    mine, names = expected.outputs, expected.reference.outputs
    theirs = standard.outputs_of(expected.reference.model, expected.values, mine)

    def agrees(i, want):
        expected.outputs = [want if i == k else got[name] for k, name in enumerate(names)]
        return expected.faults(got) is None

    try:
        return all(agrees(i, mine[i]) or agrees(i, theirs[i]) for i in range(len(names)))
    except Exception:
        return False
    finally:
        expected.outputs = mine
