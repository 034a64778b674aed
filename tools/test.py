#!/usr/bin/env python3
"""Runs every test and check of Emend: what `make test` and CI mean by "it works".

Each step prints one line with its counts and its time; what fails prints its output above that line, and the rest still
runs, except for what would only test leftovers of an earlier build. Names of steps as arguments run only those
(`make test ONLY="build tests"`). The last line is `N passed, N failed`; the exit code is 0 only if nothing failed.
"""
import collections, os, pathlib, shutil, subprocess, sys, time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOBS = str(os.cpu_count() or 2)
NOT_RUN = 77  # a check's exit code for "this machine lacks what I need"


class Counts:
    """What a step found. A skipped test is neither passed nor failed; its reason is kept, to be said aloud."""

    def __init__(self, passed=0, failed=0, skips=(), note=""):
        self.passed, self.failed, self.skips, self.note = int(passed), int(failed), list(skips), note

    def __add__(self, other):
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skips + other.skips)

    def __str__(self):
        skipped = f", {len(self.skips)} skipped" if self.skips else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}" + (f" ({self.note})" if self.note else "")

    def any(self):
        return bool(self.passed or self.failed or self.skips)


def run(*command, **environment):
    """The exit code; the output is shown only when it is not 0."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env={**os.environ, **environment})
    if done.returncode not in (0, NOT_RUN):
        print(f"$ {' '.join(map(str, command))}\n{done.stdout}", flush=True)
    return done


def check(*command):
    done = run(*command)
    if done.returncode == NOT_RUN:
        return Counts(skips=[done.stdout.strip()])
    return Counts(passed=1) if done.returncode == 0 else Counts(failed=1)


def build(preset, *options):
    """One configured and built tree, counted as one test. Under the compilers we test with a warning fails it."""
    configured = run("cmake", "--preset", preset, *options)
    if configured.returncode:
        return Counts(failed=1, note="configuring")
    counts = check("cmake", "--build", "--preset", preset, "-j", JOBS)
    counts.note = next((line[3:] for line in configured.stdout.splitlines() if line.startswith("-- Warnings")), "")
    return counts


def count_suites(path):
    """Counts of a JUnit file, as GoogleTest and pytest write it."""
    counts = Counts()
    for case in ElementTree.parse(path).iter("testcase"):
        bad = any(case.find(kind) is not None for kind in ("failure", "error"))
        skip = case.find("skipped")
        if skip is not None and not bad:
            counts += Counts(skips=[" ".join((skip.text or skip.get("message") or "no reason given").split())])
        elif case.get("status") == "notrun":
            counts += Counts(skips=["disabled"])
        else:
            counts += Counts(passed=not bad, failed=bad)
    return counts


def ctest(directory, labels):
    """The tests of a built tree by label. Test programs are counted by the cases inside them."""
    reports = ROOT / directory / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    run("ctest", "--test-dir", directory, "-L", labels, "-j", JOBS, "--output-on-failure", "--no-tests=ignore",
        "--output-junit", str(reports / "ctest.xml"), GTEST_OUTPUT=f"xml:{reports}/", GTEST_BRIEF="1")
    total = Counts()
    for case in ElementTree.parse(reports / "ctest.xml").iter("testcase"):
        cases = reports / f"{case.get('name')}.xml"
        inner = count_suites(cases) if cases.exists() else Counts()
        if case.get("status") == "fail" and not inner.failed:
            inner += Counts(failed=1)  # it died before it could say of what
        elif case.get("status") in ("disabled", "notrun"):
            inner += Counts(skips=[f"{case.get('name')} did not run"])
        elif not inner.any():
            inner += Counts(passed=1)  # a program without cases of its own
        total += inner
    if not total.any():
        total.note = "no tests of this kind yet"
    return total


def python_tests():
    """Python tests: our tools; then Emend against onnxruntime, PyTorch and onnx's own suite, in the private environment."""
    folders = [name for name in ("tests/tools", "tests/oracle", "tests/e2e") if any((ROOT / name).glob("test_*.py"))]
    if not folders:
        return Counts(note="no tests of this kind yet")
    report = ROOT / "build/pytest.xml"
    report.unlink(missing_ok=True)
    done = run(os.environ["EMEND_PYTHON"], "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed",
               f"--junitxml={report}", *folders)
    if not report.exists():
        return Counts(failed=1, note=f"pytest ended with {done.returncode}")
    counts = count_suites(report)
    return counts if counts.failed or done.returncode == 0 else counts + Counts(failed=1)


def clang():
    compiler = next((name for name in ("clang++-14", "clang++") if shutil.which(name)), None)
    if not compiler:
        return Counts(skips=["clang is not installed"])
    return build("clang", f"-DCMAKE_CXX_COMPILER={compiler}")


# name: (what it is, how it is done, the step without which it means nothing)
STEPS = {
    "layers": ("who includes whom", lambda: check(sys.executable, "tools/check_layers.py"), None),
    "format": ("clang-format", lambda: check(sys.executable, "tools/format.py"), None),
    "build": ("everything, with the system's compiler", lambda: build("dev", "-DBUILD_TESTING=ON"), None),
    "tests": ("unit, golden, property and fuzz tests", lambda: ctest("build", "."), "build"),
    "install": ("a stranger's find_package(emend)", lambda: check(sys.executable, "tests/install/check.py"), "build"),
    "docs": ("is the prose still true?", lambda: check(sys.executable, "tools/check_docs.py"), "build"),
    "python": ("tools, and against onnxruntime, PyTorch, onnx", python_tests, "build"),
    "clang": ("src and tools, with clang", clang, None),
    "asan-build": ("address and undefined-behaviour sanitizers", lambda: build("asan"), None),
    "asan-tests": ("unit, golden, fuzz tests and kernels under them", lambda: ctest("build-asan", "unit|golden|fuzz|generated"), "asan-build"),
}


def environment():
    """What tests find in their environment: the Python with everything in it, the built command, onnx's own test cases."""
    python = os.environ.setdefault("EMEND_PYTHON", str(ROOT / ".venv/bin/python"))
    os.environ.setdefault("EMEND", str(ROOT / "build/emend"))
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    os.environ.setdefault("EMEND_BUDGET", "0")  # by estimates: what measures says so itself
    find = "import importlib.util as u; print(u.find_spec('onnx').submodule_search_locations[0])"
    if pathlib.Path(python).exists():
        onnx = subprocess.run([python, "-c", find], capture_output=True, text=True).stdout.strip()
        os.environ.setdefault("EMEND_ONNX_DATA", f"{onnx}/backend/test/data")


def main(names):
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        sys.exit(f"no such step: {' '.join(unknown)}; there are {' '.join(STEPS)}")
    environment()
    begin, total, broken = time.monotonic(), Counts(), set()
    for name in names or STEPS:
        title, step, needed = STEPS[name]
        start = time.monotonic()
        counts = Counts(failed=1, note=f"not run, because {needed} failed") if needed in broken else step()
        if counts.failed:
            broken.add(name)
        total += counts
        word, seconds = "FAIL" if counts.failed else "ok", time.monotonic() - start
        print(f"{word:<4} {name:<11} {title:<46} {seconds:6.1f} s  {counts}", flush=True)
        for reason, times in collections.Counter(counts.skips).items():
            print(f"       skipped{f' {times} times' if times > 1 else ''}: {reason}", flush=True)
    print(f"all in {time.monotonic() - begin:.0f} s")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
