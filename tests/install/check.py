#!/usr/bin/env python3
"""Does the installed package work for a stranger? Installs build/ into a scratch folder, builds the project beside this file
and the program of docs/library.md against that folder alone, and runs them and the installed command; the program must print what
the document says. Exits 77, with the reason, where there is nothing to install yet.
"""
import os, pathlib, re, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOT_RUN = 77


def run(*command):
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True)


def example():
    """The program of docs/library.md, and what it prints there."""
    text = (ROOT / "docs/library.md").read_text()
    [(program, printed)] = re.findall(r"^```cpp\n(.*?)^```$.*?^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return program, printed


def main():
    if not (ROOT / "include/emend/emend.h").exists():
        print("include/emend/emend.h does not exist yet")
        return NOT_RUN
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["EMEND_CACHE_DIR"] = f"{scratch}/cache"
        prefix, work, model, source, better = (pathlib.Path(scratch) / name for name in ("prefix", "work", "model.onnx", "example.cpp", "better.onnx"))
        program, printed = example()
        source.write_text(program)
        run("cmake", "--install", ROOT / "build", "--prefix", prefix)
        run(prefix / "bin/emend", "zoo", "squeezenet", model, "--size", "64")
        # Werror is not ours to set here: the header must be clean under a stranger's own warnings.
        run("cmake", "-S", ROOT / "tests/install", "-B", work, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
            "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", f"-DEXAMPLE={source}")
        run("cmake", "--build", work)
        run(work / "stranger", model)
        told = subprocess.run([work / "example", model, better], capture_output=True, text=True)
        if told.returncode or told.stdout != printed or not better.exists():
            print(f"the example of docs/library.md ended with {told.returncode} and printed\n{told.stdout}{told.stderr}")
            return 1
        # The command carries its C++ runtime with it; a shared one would tie it to this distribution's.
        needed = subprocess.run(["readelf", "-d", prefix / "bin/emend"], capture_output=True, text=True, check=True).stdout
        if "libstdc++" in needed or "libgcc_s" in needed:
            print("bin/emend needs a shared libstdc++ or libgcc_s")
            return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as failed:
        sys.exit(f"exit code {failed.returncode}: {failed.cmd[0]}")
