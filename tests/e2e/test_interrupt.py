"""Ctrl-C: the first keeps the best so far and writes it, the second ends everything and leaves the old file.

A signal must arrive at a known moment, on any machine. So the command's stderr is a pipe that is full: it stops at the first line
of progress it wants to write, which comes after the handler is in place and before the search, and goes on once we read.
"""
import fcntl, json, os, pathlib, re, signal, subprocess, time

import onnx, pytest

PATIENCE = 60  # seconds; more is a failure, not a slow machine


@pytest.fixture(scope="module")
def model(emend, tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupt") / "model.onnx"
    emend("zoo", "squeezenet", path, "--size", 64)
    return path


def wait_for(what):
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "it does not come to the place where it should wait"
        time.sleep(0.01)


def signals(process, kind, which=signal.SIGINT):
    """Is it caught (SigCgt), or does it wait to be delivered (ShdPnd, SigPnd)?"""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return any(int(mask, 16) >> (which - 1) & 1 for mask in re.findall(rf"^{kind}:\s*(\w+)", status, re.MULTILINE))


class Stuck:
    """A command that waits for us at its first line of progress."""

    def __init__(self, *command):
        self.end, theirs = os.pipe()
        size = fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
        os.write(theirs, b" " * size)
        self.process = subprocess.Popen([*map(str, command), "--progress=json"], stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        wait_for(lambda: signals(self.process, "SigCgt"))

    def interrupt(self, how=signal.SIGINT):
        self.process.send_signal(how)
        wait_for(lambda: self.process.poll() is not None or not signals(self.process, "(?:Shd|Sig)Pnd", how))

    def finish(self):
        """Lets it go on; its exit code and what it said."""
        said = b""
        while chunk := os.read(self.end, 4096):
            said += chunk
        os.close(self.end)
        return self.process.wait(PATIENCE), said.decode()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_keeps_the_best_so_far(emend, model, tmp_path, how):
    out, facts = tmp_path / "out.onnx", tmp_path / "facts.json"
    command = Stuck(emend.path, "optimize", model, out, "--json", facts)
    command.interrupt(how)
    code, said = command.finish()
    assert code == 130
    assert "best result so far" in said
    report = json.loads(facts.read_text())
    assert report["stop_reason"] == "interrupted" and report["fired"] == []
    assert report["verified"]["max_rel_err"] is not None  # found early, checked all the same
    onnx.checker.check_model(onnx.load(out), full_check=True)
    assert emend("verify", model, out).startswith("equal")


def test_the_second_interrupt_ends_it_and_leaves_the_old_file(emend, model, tmp_path):
    out = tmp_path / "out.onnx"
    out.write_text("as it was")
    command = Stuck(emend.path, "optimize", model, out)
    command.interrupt()
    command.interrupt()
    code, _ = command.finish()
    assert code == -signal.SIGINT  # what a shell calls 130
    assert out.read_text() == "as it was" and os.listdir(tmp_path) == ["out.onnx"]


def test_without_an_interrupt_the_same_command_goes_to_the_end(emend, model, tmp_path):
    facts = tmp_path / "facts.json"
    code, _ = Stuck(emend.path, "optimize", model, tmp_path / "out.onnx", "--json", facts).finish()
    assert code == 0
    assert json.loads(facts.read_text())["stop_reason"] == "saturated"
