"""Where the tests find what they compare: the built command and ONNX's own test cases (tools/test.py sets both)."""
import os, pathlib, subprocess

import pytest


def pytest_configure():
    os.environ.setdefault("EMEND_BUDGET", "0")  # by estimates: what measures says so itself
    if "EMEND" not in os.environ:
        os.environ["EMEND"] = str(pathlib.Path(__file__).parents[1] / "build/emend")
    if "EMEND_ONNX_DATA" not in os.environ:
        import onnx

        os.environ["EMEND_ONNX_DATA"] = str(pathlib.Path(onnx.__file__).parent / "backend/test/data")


class Emend:
    """The command. Calls return what it printed; one that fails unexpectedly fails the test, saying how."""

    def __init__(self, path):
        self.path = path

    def run(self, *args, **environment):
        told = {name: str(value) for name, value in environment.items()}
        return subprocess.run([self.path, *map(str, args)], capture_output=True, text=True, env={**os.environ, **told})

    def __call__(self, *args):
        done = self.run(*args)
        assert done.returncode == 0, f"emend {' '.join(map(str, args))} ended with {done.returncode}: {done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def emend():
    return Emend(os.environ["EMEND"])


@pytest.fixture(scope="session")
def onnx_data():
    return pathlib.Path(os.environ["EMEND_ONNX_DATA"])
