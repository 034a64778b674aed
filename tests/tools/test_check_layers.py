"""tools/check_layers.py on planted trees: what it must refuse, and what it must let pass."""
import pathlib, subprocess, sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/check_layers.py"
LAYERS = "base:\nir: base\nops: ir\nonnx: base\ntools/emend: ops\n<wire/>: src/onnx\n<json/>: src/base/json.cpp\n"


def check(tmp_path, files, layers=LAYERS):
    for name, text in {"src/layers.txt": layers, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name, line", [
    ("src/ops/a.cpp", '#include "base/id.h"'),        # below a folder below
    ("src/ops/a.cpp", '#include "ops/b.h"'),          # its own folder
    ("src/ops/a.cpp", "#include <vector>"),
    ("src/base/a.cpp", "#include <sys/mman.h>"),      # the C library's
    ("src/onnx/a.cpp", "#include <wire/reader.hpp>"),
    ("src/base/json.cpp", "#include <json/json.hpp>"),
    ("tools/emend/a.cpp", '#include "ir/graph.h"'),
    ("src/ops/a.cpp", '#include "emend/emend.h"'),    # the public header
])
def test_allowed(tmp_path, name, line):
    assert check(tmp_path, {name: line + "\n"}) == (0, "")


@pytest.mark.parametrize("name, line, named", [
    ("src/ir/a.cpp", '#include "ops/b.h"', "src/ir/a.cpp:2: ir may not include ops/b.h"),         # upwards
    ("src/onnx/a.h", '#  include "ir/graph.h"', "src/onnx/a.h:2: onnx may not include"),          # sideways
    ("src/ops/a.cpp", "#include <wire/reader.hpp>", "<wire/reader.hpp> belongs in src/onnx"),
    ("src/base/a.cpp", "#include <json/json.hpp>", "<json/json.hpp> belongs in src/base/json.cpp"),
    ("src/base/a.cpp", "#include <other/thing.h>", "belongs in no folder"),                       # unlisted library
    ("src/extra/a.cpp", "int x;", "the folder extra has no line"),
])
def test_refused(tmp_path, name, line, named):
    code, output = check(tmp_path, {name: "// a comment\n" + line + "\n"})
    assert code == 1 and named in output


def test_a_folder_must_stand_after_those_it_includes(tmp_path):
    code, output = check(tmp_path, {}, "ir: base\nbase:\n")
    assert code == 1 and "ir stands before base" in output
