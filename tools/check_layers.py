#!/usr/bin/env python3
"""Holds every #include of the tree to src/layers.txt, which explains itself, and sees to it that no two headers give one
name to different types: the linker would take one for the other. Exits 1 and names each offender."""
import pathlib, re, sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
ROOT = ROOT if ROOT.is_dir() else ROOT.parent.parent
SYSTEM = ("sys/", "linux/", "emend/")  # of the C library; and our own public header


def read_layers():
    allowed, third_party = {}, {}
    for line in (ROOT / "src/layers.txt").read_text().splitlines():
        name, _, rest = line.partition("#")[0].partition(":")
        if name.startswith("<"):
            third_party[name.strip("<>")] = rest.split()
        elif name.strip():
            unknown = [below for below in rest.split() if below not in allowed]
            if unknown:
                sys.exit(f"src/layers.txt: {name} stands before {', '.join(unknown)}, which it includes")
            allowed[name] = {name}.union(*(allowed[below] for below in rest.split()))
    return allowed, third_party


def offences(path, folder, allowed, third_party):
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
        if not match:
            continue
        quoted, header = match[1] == '"', match[2]
        target = header.split("/")[0]
        if quoted and "/" in header and not (target in allowed[folder] or header.startswith("emend/")):
            yield f"{path}:{number}: {folder} may not include {header}"
        if not quoted and ("/" in header or header.endswith(".hpp")) and not header.startswith(SYSTEM):
            places = next((p for prefix, p in third_party.items() if header.startswith(prefix)), [])
            if not any(str(path) == place or str(path).startswith(place + "/") for place in places):
                yield f"{path}:{number}: <{header}> belongs in {' or '.join(places) or 'no folder of src/layers.txt'}"


def twice_named(headers):
    """Types at the outermost level of headers."""
    places = {}
    for path in headers:
        text = (ROOT / path).read_text()
        for name in re.findall(r"^(?:struct|class|enum class) (\w+)[^;\n]*$|^using (\w+) =", text, re.M):
            places.setdefault("".join(name), set()).add(str(path))
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            yield f"{' and '.join(sorted(paths))}: both call a type {name}"


def main():
    allowed, third_party = read_layers()
    headers = sorted(p.relative_to(ROOT) for p in (ROOT / "src").rglob("*.h"))
    found = list(twice_named(h for h in headers if h.parts[1] != "onnx"))  # that has a namespace of its own
    for path in sorted(p.relative_to(ROOT) for top in ("src", "tools/emend") for p in (ROOT / top).rglob("*.*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        folder = "tools/emend" if path.parts[0] == "tools" else path.parts[1]
        if folder in allowed:
            found += offences(path, folder, allowed, third_party)
        else:
            found.append(f"{path}: the folder {folder} has no line in src/layers.txt")
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
