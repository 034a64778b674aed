"""ONNX's own test suite on the interpreter and compiled for the CPU, with one list for both. Every case that does not pass is listed with its reason in
tests/conformance/<kind>.txt; a case that starts passing or failing breaks the test."""
import os, pathlib, re, subprocess

import pytest

import cases

DATA = pathlib.Path(os.environ.get("EMEND_ONNX_DATA", ""))
LISTS = pathlib.Path(__file__).resolve().parents[1] / "conformance"
AT_LEAST = {"node": 1600, "simple": 1, "pytorch-converted": 1, "pytorch-operator": 1}


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("kind", AT_LEAST)
def test_suite(kind, target):
    done = subprocess.run([cases.EMEND, "conformance", str(DATA / kind), "--target", target,
                           "--expect", str(LISTS / f"{kind}.txt")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    passed = int(re.search(r"(\d+) of \d+ cases pass", done.stdout + done.stderr).group(1))
    assert passed >= AT_LEAST[kind]


@pytest.mark.parametrize("kind", ["pytorch-converted", "pytorch-operator"])
def test_all_of_pytorch_passes(kind):
    known = [line for line in (LISTS / f"{kind}.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert known == []


def test_every_reason_is_given():
    for path in LISTS.glob("*.txt"):
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                case, _, reason = line.partition(":")
                assert case.startswith("test_") and reason.strip(), f"{path.name}: {line}"
