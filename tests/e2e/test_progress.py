"""How long work is shown: a bar on a terminal, lines of JSON for programs, nothing where it is short or unwanted."""
import json, os, pty, subprocess

import pytest


@pytest.fixture(scope="module")
def model(emend, tmp_path_factory):
    path = tmp_path_factory.mktemp("progress") / "squeezenet.onnx"
    emend("zoo", "squeezenet", path, "--batch", 4)  # long enough to be shown
    return path


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path, monkeypatch):
    """What was checked before goes without a bar."""
    monkeypatch.setenv("EMEND_CACHE_DIR", str(tmp_path / "cache"))


def on_terminal(emend, *args, **environment):
    """What the command writes to a terminal on stderr."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([emend.path, *map(str, args)], stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, **environment})
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return seen.decode()


def test_json_lines(emend, model, tmp_path):
    done = emend.run("optimize", model, tmp_path / "out.onnx", "--progress=json", "--search-again")
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert list(dict.fromkeys(line["phase"] for line in lines)) == ["import", "simplify", "saturate", "check", "export"]
    assert all(line["schema"] == 1 for line in lines)
    costs = [line["best"] for line in lines if line["phase"] == "simplify"]
    assert costs and costs[0] > 0
    for line in lines:
        if line["of"] is not None:
            assert 0 <= line["done"] <= line["of"]


def test_a_bar_on_a_terminal_goes_away_again(emend, model):
    seen = on_terminal(emend, "optimize", model, NO_COLOR="1")
    frames = seen.split("\r\x1b[K")
    assert any("check" in frame and "left" in frame and "#" in frame for frame in frames), seen
    assert frames[-1] == "" and "\n" not in seen
    assert all(len(frame) < 80 for frame in frames)


def test_colours_can_be_refused(emend, model, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m" not in on_terminal(emend, "optimize", model, "--search-again", NO_COLOR="1")
    assert "\x1b[1m" in on_terminal(emend, "optimize", model, "--search-again")


def test_silence(emend, model):
    assert on_terminal(emend, "optimize", model, "--quiet") == ""
    assert on_terminal(emend, "optimize", model, "--progress=none") == ""
    assert emend.run("zoo", "--quiet").stderr == ""
