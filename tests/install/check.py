#!/usr/bin/env python3
"""Does the installed package work for a stranger? Installs build/ into a scratch folder, builds the project beside this file
against that folder alone, and runs both the program and the installed command. Exits 77, with the reason, where there is nothing
to install yet.
"""
import pathlib, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOT_RUN = 77


def run(*command):
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True)


def main():
    if not (ROOT / "include/emend/emend.h").exists():
        print("include/emend/emend.h does not exist yet")
        return NOT_RUN
    with tempfile.TemporaryDirectory() as scratch:
        prefix, work, model = (pathlib.Path(scratch) / name for name in ("prefix", "work", "model.onnx"))
        run("cmake", "--install", ROOT / "build", "--prefix", prefix)
        run(prefix / "bin/emend", "zoo", "squeezenet", model)
        # Werror is not ours to set here: the header must be clean under a stranger's own warnings.
        run("cmake", "-S", ROOT / "tests/install", "-B", work, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
            "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        run("cmake", "--build", work)
        run(work / "stranger", model)
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
