#!/usr/bin/env python3
"""Lines of C++ per folder, and the change against a revision: `tools/loc.py [REVISION]` (HEAD when left out).

Warns above the soft caps: 500 lines a file, 30,000 lines for src/. A warning is a question, not a failure.
"""
import collections, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_CAP, SRC_CAP = 500, 30_000


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def folder_of(name):
    """src/ops/a.cpp -> src/ops; None for what is not C++."""
    path = pathlib.PurePath(name)
    return "/".join(path.parts[:-1][:2]) if path.suffix in (".h", ".cpp") and len(path.parts) > 1 else None


def lines_now():
    names = git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    existing = (name for name in names if folder_of(name) and (ROOT / name).exists())
    return {name: len((ROOT / name).read_text().splitlines()) for name in existing}


def changes(revision):
    """Folder -> added minus removed lines. Files git does not know yet are all added."""
    change = collections.Counter()
    for line in git("diff", "--numstat", "--no-renames", revision).splitlines():
        added, removed, name = line.split("\t")
        if folder_of(name):
            change[folder_of(name)] += int(added) - int(removed)
    for name in git("ls-files", "--others", "--exclude-standard").splitlines():
        if folder_of(name):
            change[folder_of(name)] += len((ROOT / name).read_text().splitlines())
    return change


def main():
    revision = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    files, change = lines_now(), changes(revision)
    folders = collections.Counter()
    for name, lines in files.items():
        folders[folder_of(name)] += lines
    for folder in sorted(folders.keys() | change.keys()):
        print(f"{folder:<20} {folders[folder]:7} {change[folder]:+7}")
    print(f"{'total':<20} {sum(folders.values()):7} {sum(change.values()):+7}   against {revision}")
    for name, lines in sorted(files.items()):
        if lines > FILE_CAP and not name.startswith("tests/"):
            print(f"warning: {name} has {lines} lines; above {FILE_CAP} a file wants splitting by concept")
    src = sum(lines for name, lines in files.items() if name.startswith("src/"))
    if src > SRC_CAP:
        print(f"warning: src/ has {src} lines, above {SRC_CAP}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(f"loc: git: {failed.stderr.strip()}")
