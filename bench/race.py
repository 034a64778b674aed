"""Runtimes race in turns: each is a process that stays alive, and only the one whose turn it is runs; the others are stopped, so
that neither spinning threads nor background work of one disturbs another. Who begins rotates from round to round."""
import json, pathlib, selectors, signal, subprocess, time


class Failed(Exception):
    """A runtime that cannot run a model; the message says why."""


class Runner:
    """A process that speaks what tools/emend/serve.h describes. Between calls it is stopped."""

    def __init__(self, command, log, environment, patience=900):
        self.log = pathlib.Path(log)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.patience = patience
        with open(self.log, "wb") as errors:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.buffer = b""
        self.ready = self._answer()
        self._pause()

    def _pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def _fail(self, reason):
        self.close()
        last = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        raise Failed("; ".join([reason] + last))

    def _answer(self):
        deadline = time.monotonic() + self.patience
        while b"\n" not in self.buffer:
            if not self.selector.select(max(0, deadline - time.monotonic())):
                self._fail(f"no answer in {self.patience} s")
            chunk = self.process.stdout.read1(1 << 20)
            if not chunk:
                self._fail(f"ended with {self.process.wait()}")
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            self._fail(answer["error"])
        return answer

    def ask(self, line):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            self._fail(f"ended with {self.process.wait()}")
        answer = self._answer()
        self._pause()
        return answer

    def run(self, count):
        return self.ask(f"run {count}")["ms"]

    def peak_memory_bytes(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return None

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


TURN_MS = 400


def turn_length(estimate_ms):
    """How many runs a turn has: long enough to be steady, short enough for many rounds."""
    return int(min(200, max(3, TURN_MS / max(estimate_ms, 1e-3))))


def round_count(turn_ms, seconds):
    """How many rounds fit; fewer than three say nothing."""
    return int(min(15, max(3, seconds * 1e3 / max(turn_ms, 1e-3))))


def race(runners, seconds, on_round=lambda done, of: None):
    """{name: [the times of each round]}, and {name: why} of those that failed on the way."""
    lengths, failures = {}, {}

    def attempt(name, count):
        try:
            return runners[name].run(count)
        except Failed as e:
            failures[name] = str(e)
            return None

    for name in runners:
        warm = attempt(name, 3)
        if warm:
            lengths[name] = (turn_length(min(warm)), min(warm))
    rounds = round_count(sum((length + 1) * ms for length, ms in lengths.values()), seconds) if lengths else 0
    times = {name: [] for name in lengths}
    for number in range(rounds):
        names = [n for n in lengths if n not in failures]
        for name in names[number % len(names):] + names[: number % len(names)] if names else []:
            # The first run finds caches that the others have filled.
            turn = attempt(name, lengths[name][0] + 1)
            if turn:
                times[name].append(turn[1:])
        on_round(number + 1, rounds)
    return {n: t for n, t in times.items() if n not in failures}, failures
