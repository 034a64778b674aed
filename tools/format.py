#!/usr/bin/env python3
"""Are the C++ sources formatted as .clang-format says? Names those that are not; --fix formats them.

Releases of clang-format disagree about details, so only version 14 is asked. Exits 0 if clean, 1 if not, 77 if there is no
clang-format 14 to ask.
"""
import pathlib, shutil, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSION = "14."
NOT_RUN = 77


def clang_format():
    for name in ("clang-format-14", "clang-format"):
        found = shutil.which(name)
        if found and f"version {VERSION}" in subprocess.run([found, "--version"], capture_output=True, text=True).stdout:
            return found
    return None


def main():
    tool = clang_format()
    if not tool:
        print("clang-format 14 is not installed")
        return NOT_RUN
    tops = ("src", "include", "tools", "tests", "python", "bench")
    files = sorted(str(p) for top in tops for p in (ROOT / top).rglob("*") if p.suffix in (".h", ".cpp"))
    if not files:
        return 0
    if "--fix" in sys.argv[1:]:
        return subprocess.run([tool, "-i", *files]).returncode
    report = subprocess.run([tool, "--dry-run", *files], capture_output=True, text=True).stderr
    unformatted = sorted({line.split(":")[0] for line in report.splitlines() if "clang-format-violations" in line})
    for name in unformatted:
        print(f"{pathlib.Path(name).relative_to(ROOT)}: not formatted (make format)")
    return 1 if unformatted else 0


if __name__ == "__main__":
    sys.exit(main())
