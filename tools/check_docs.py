#!/usr/bin/env python3
"""Is the prose still true? What a machine can tell: every relative link leads somewhere, every `make` target and every file of
the tree that is named exists, every verb of README's table is one that build/emend knows and the other way round, and the
decision records are numbered without gaps and listed. Commands are run: those of a ```console block must print what stands
behind them, those of a ```sh block that call build/emend must succeed; each document has an empty folder for its own. Exits 1
and names each stale place; --update writes what commands print into the console blocks instead.
"""
import difflib, pathlib, re, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDS = ROOT / "docs/decisions"


def documents():
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def stale_references(document, targets):
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in link and not link.startswith("mailto:") and not (document.parent / link).exists():
            yield f"links to {link}, which does not exist"
    for target in re.findall(r"`make ([a-z-]+)", text):
        if target not in targets:
            yield f"names `make {target}`, which the Makefile does not know"
    for name in re.findall(r"`((?:src|tools|tests|docs|include)/[\w./-]*\w/?)`", text):
        if not (ROOT / name).exists():
            yield f"names {name}, which does not exist"


def stale_records():
    records = sorted(RECORDS.glob("[0-9]*.md"))
    listed = (RECORDS / "README.md").read_text()
    for number, record in enumerate(records):
        if not record.name.startswith(f"{number:04}-"):
            yield f"{record.name} should be number {number:04}"
        if f"({record.name})" not in listed:
            yield f"README.md does not list {record.name}"


def stale_verbs():
    """Both ways, so that neither a promised verb is missing nor an existing one is untold."""
    emend = ROOT / "build/emend"
    if not emend.exists():
        return
    table = (ROOT / "README.md").read_text().partition("## Verbs")[2].partition("\n## ")[0]
    told = set(re.findall(r"^\| `(\w+)", table, re.MULTILINE))
    for verb in sorted(told):
        if subprocess.run([emend, verb, "--help"], capture_output=True).returncode:
            yield f"tells of the verb {verb}, which build/emend does not have"
    help_text = subprocess.run([emend, "--help"], capture_output=True, text=True).stdout
    listed = re.split(r"^(?:sub)?commands:|^verbs:", help_text, flags=re.MULTILINE | re.IGNORECASE)[-1]
    for verb in sorted(set(re.findall(r"^  (\w+)\s", listed, re.MULTILINE)) - told):
        yield f"does not tell of the verb {verb}, which build/emend lists"


def run(command, folder):
    """What a reader would see."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # A slow machine shows progress in between, as "check: 165 of 169, 9.3 s, about 0.1 s left".
    return done.returncode, re.sub(r"^[\w -]+: \d+ of \d+, .* s(, about .* left)?\n", "", done.stdout, flags=re.M)


def console(block, folder):
    """The block as it would be today."""
    text = ""
    for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        _, printed = run(command, folder)
        text += f"$ {command}\n{printed}"
    return text


def stale_commands(document, update):
    text = document.read_text()
    if not (ROOT / "build/emend").exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "build").symlink_to(ROOT / "build")
        current = text
        for kind, block in re.findall(r"^```(console|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if kind == "console":
                now = console(block, folder)
                if now != block and update:
                    current = current.replace(f"```console\n{block}```", f"```console\n{now}```")
                elif now != block:
                    difference = "\n".join(difflib.unified_diff(block.splitlines(), now.splitlines(), "told", "printed", lineterm="", n=1))
                    yield f"a command prints something else (tools/check_docs.py --update):\n{difference}"
                continue
            for command in re.findall(r"^build/emend .*$", block, re.MULTILINE):
                code, printed = run(command, folder)
                if code:
                    yield f"`{command}` ends with {code}: {printed}"
    if current != text:
        document.write_text(current)


def main():
    update = "--update" in sys.argv[1:]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    found = [f"{document.relative_to(ROOT)}: {what}" for document in documents() for what in stale_references(document, targets)]
    found += [f"docs/decisions: {what}" for what in stale_records()]
    found += [f"{document.relative_to(ROOT)}: {what}" for document in documents() for what in stale_commands(document, update)]
    found += [f"README.md: {what}" for what in stale_verbs()]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
