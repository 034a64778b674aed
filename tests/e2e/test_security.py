"""Models come from strangers. Nothing that stands in one reaches generated source, the name of a file, a command line or a terminal as
anything but data; nothing is written outside of what was asked for; memory has a bound; the cache is its owner's alone.
"""
import os, pathlib, re, stat, subprocess

import numpy as np
import onnx, pytest
from onnx import TensorProto, helper, numpy_helper

MARK = "EVIL"
# Each would do something in C, in a shell, as a path, or on a terminal.
HOSTILE = [f'{MARK}"; system("touch PWNED"); //', f"{MARK}; touch PWNED #", f"{MARK}`touch PWNED`", f"$(touch PWNED){MARK}", f"../../{MARK}",
           f"/{MARK}/../PWNED", f"{MARK}\n#include <PWNED>\n", f"{MARK}'*/ %s%n /*", f"-o {MARK}", f"\x1b]0;{MARK}\x07", f"{MARK}|&><", f"{MARK}\\"]


def hostile_model():
    """A small network of several kernels in which everything that has a name has a hostile one."""
    names = iter(HOSTILE * 10)
    fresh = [f"{next(names)}{i}" for i in range(12)]
    x, w, b, p, q, r, s, y, z, i, *_ = fresh
    rng = np.random.default_rng(0)

    def node(op, inputs, outputs, **attributes):
        made = helper.make_node(op, inputs, outputs, next(names), doc_string=next(names), **attributes)
        made.metadata_props.add(key=next(names), value=next(names))
        return made

    nodes = [node("MatMul", [x, w], [p]), node("Add", [p, b], [q]), node("Gelu", [q], [r]), node("Softmax", [r], [s], axis=1),
             node("Transpose", [s], [y], perm=[1, 0]), node("NonZero", [s], [i]), node("Cast", [s], [z], to=TensorProto.DOUBLE)]
    weights = [numpy_helper.from_array(rng.standard_normal((24, 40)).astype(np.float32), w), numpy_helper.from_array(np.ones(40, np.float32), b)]
    for tensor in weights:
        tensor.doc_string = next(names)
    graph = helper.make_graph(nodes, next(names), [helper.make_tensor_value_info(x, TensorProto.FLOAT, (next(names), 24))],
                              [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in
                               ((y, TensorProto.FLOAT, (40, 1)), (z, TensorProto.DOUBLE, (1, 40)), (i, TensorProto.INT64, (2, next(names))))],
                              weights, doc_string=next(names))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(next(names), 1)], ir_version=10,
                              producer_name=next(names), producer_version=next(names), domain=next(names), doc_string=next(names))
    model.metadata_props.add(key=next(names), value=next(names))
    return model, x


class Sandbox:
    """The command with a cache, a temporary folder and a compiler that writes down how it is called, in a folder that is looked through."""

    def __init__(self, emend, folder):
        self.emend, self.folder = emend, folder
        for name in ("work", "tmp"):
            (folder / name).mkdir()
        self.log, self.compiler = folder / "calls", folder / "compiler"
        self.compiler.write_text(f'#!/bin/sh\nfor a in "$0" "$@"; do printf "%s\\n" "$a" >> {self.log}; done\n'
                                 f'tr "\\0" "\\n" < /proc/$PPID/comm >> {folder}/parents\nexec cc "$@"\n')
        self.compiler.chmod(0o755)

    def run(self, *args, **more):
        told = {"EMEND_CACHE_DIR": self.folder / "cache", "EMEND_CC": self.compiler, "TMPDIR": self.folder / "tmp", "EMEND_KEEP_SOURCE": "1", **more}
        environment = {**os.environ, **{name: str(value) for name, value in told.items()}}
        return subprocess.run([self.emend.path, *map(str, args)], capture_output=True, text=True, errors="replace", env=environment, cwd=self.folder / "work")

    def files(self):
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}


@pytest.fixture
def sandbox(emend, tmp_path):
    return Sandbox(emend, tmp_path)


def test_no_string_of_a_model_leaves_it(sandbox):
    model, x = hostile_model()
    path = sandbox.folder / "model.onnx"
    onnx.save(model, path)
    before = sandbox.files()
    for args in (["run", path, "--random", 1, "--target", "cpu"], ["bench", path, "--runs", 1, "--budget", "60s", "--steps"], ["optimize", path, "better.onnx"],
                 ["inspect", path], ["verify", path, "better.onnx"], ["run", path, "--random", 1, "--target", "cpu", "--save", "saved"]):
        done = sandbox.run(*args)
        assert done.returncode == 0, (args, done.stderr)
        # Nothing that a terminal obeys, and no name breaks a line.
        assert "\x1b" not in done.stdout + done.stderr and "\n#include" not in done.stdout + done.stderr
    made = sandbox.files() - before
    assert not [name for name in made if "PWNED" in name]
    assert {name.split("/")[0] for name in made} <= {"work", "cache", "calls", "parents"} and not any((sandbox.folder / "tmp").iterdir())
    # What was asked for, and no more; a name becomes a file name only in --save, and harmless.
    saved = [name for name in made if name.startswith("work/saved/")]
    assert len(saved) == 3 and all(set(pathlib.Path(name).name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") for name in saved)
    assert made - set(saved) - {"work/saved", "work/better.onnx"} == {name for name in made if name.split("/")[0] != "work"}
    kept = sandbox.folder / "cache"
    sources = list(kept.rglob("*.c"))
    assert len(sources) > 2 and not [name for name in made - set(saved) if MARK in name]
    for file in kept.rglob("*"):
        assert not file.is_file() or MARK.encode() not in file.read_bytes(), f"{file} holds a string of the model"
    calls = sandbox.log.read_text()
    assert MARK not in calls and "PWNED" not in calls and ".so" in calls
    # No shell stands between.
    assert set((sandbox.folder / "parents").read_text().split()) == {"emend"}


def test_the_same_network_with_other_names_is_the_same_code(sandbox):
    """So names cannot be in it: not even by a hash."""
    model, _ = hostile_model()
    rename = {}
    for node in model.graph.node:
        for list_ in (node.input, node.output):
            for k, name in enumerate(list_):
                list_[k] = rename.setdefault(name, f"n{len(rename)}")
        node.name = node.doc_string = ""
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.name = rename[value.name]
    for name, content in (("plain", model), ("hostile", hostile_model()[0])):
        onnx.save(content, sandbox.folder / f"{name}.onnx")
        sandbox.log.write_text("")
        assert sandbox.run("run", sandbox.folder / f"{name}.onnx", "--random", 1, "--target", "cpu", EMEND_KEEP_SOURCE="").returncode == 0
        compiled = sandbox.log.read_text().count(".so\n")
        assert compiled > 0 if name == "plain" else compiled == 0


@pytest.mark.parametrize("name", HOSTILE)
def test_operators_and_domains_load_no_code(sandbox, name):
    """An operator that nobody knows is refused, whatever its name suggests to load."""
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"], name, domain=name)], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(name, 1)], ir_version=10)
    onnx.save(model, sandbox.folder / "model.onnx")
    before = sandbox.files()
    for target in ("interp", "cpu"):
        done = sandbox.run("run", sandbox.folder / "model.onnx", "--random", 1, "--target", target)
        assert done.returncode == 3 and len(done.stderr.splitlines()) == 1 and "\x1b" not in done.stderr, done.stderr
    made = {name for name in sandbox.files() - before if not name.startswith("cache/machine-")}
    made = {name for name in made if not re.fullmatch(r"cache/searches(/search-\d+-\d+)?", name)}
    assert made <= {"cache", "cache/kernels", "calls", "parents"}


def test_two_outputs_never_share_a_file(sandbox):
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["a/b"]), helper.make_node("Neg", ["x"], ["a:b"]), helper.make_node("Abs", ["x"], ["n" * 300])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2,)) for name in ("a/b", "a:b", "n" * 300)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), sandbox.folder / "model.onnx")
    assert sandbox.run("run", sandbox.folder / "model.onnx", "--random", 1, "--save", "saved").returncode == 0
    saved = sandbox.folder / "work/saved"
    assert sorted(os.listdir(saved)) == ["a_b.npy", "a_b_2.npy", "n" * 200 + ".npy"]
    assert (np.load(saved / "a_b.npy") == np.maximum(-np.load(saved / "a_b_2.npy"), 0)).all()


# The cache.


def test_the_cache_is_its_owners_alone(sandbox, emend):
    emend("zoo", "tour", sandbox.folder / "tour.onnx")
    run = ("run", sandbox.folder / "tour.onnx", "--random", 1, "--target", "cpu")
    old = os.umask(0)  # the most careless setting
    try:
        assert sandbox.run(*run).returncode == 0
    finally:
        os.umask(old)
    kernels = sandbox.folder / "cache/kernels"
    facts = kernels.stat()
    assert stat.S_IMODE(facts.st_mode) == 0o700 and facts.st_uid == os.geteuid()


def test_a_planted_library_is_never_loaded(sandbox, emend):
    """In a folder that others can write to, not even with a right sum; in a private one, not without."""
    emend("zoo", "tour", sandbox.folder / "tour.onnx")
    run = ("run", sandbox.folder / "tour.onnx", "--random", 1, "--target", "cpu")
    assert sandbox.run(*run).returncode == 0
    kernels = sandbox.folder / "cache/kernels"
    source = sandbox.folder / "evil.c"
    source.write_text(f'#include <stdio.h>\n__attribute__((constructor)) static void run(void) {{ fclose(fopen("{sandbox.folder}/PWNED", "w")); }}\n')
    for library in kernels.glob("*.so"):
        library.unlink()
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    assert sandbox.run(*run).returncode == 0
    assert not (sandbox.folder / "PWNED").exists()
    for library in kernels.glob("*.so"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    kernels.chmod(0o770)
    assert sandbox.run(*run).returncode == 0
    assert not (sandbox.folder / "PWNED").exists()


# Memory.


def tall(shape, nodes, output):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
                              [numpy_helper.from_array(np.array([2**22, 2**22], np.int64), "s"), numpy_helper.from_array(np.array([2**44], np.int64), "f")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


TALL = {
    "an input": tall((2**44,), [helper.make_node("Relu", ["x"], ["y"])], (2**44,)),
    "an output": tall((1, 1), [helper.make_node("Expand", ["x", "s"], ["y"])], (2**22, 2**22)),
    "a value in between": tall((1, 1), [helper.make_node("Expand", ["x", "s"], ["e"]),
                                        helper.make_node("CumSum", ["e", "axis"], ["c"]), helper.make_node("ReduceMax", ["c"], ["y"], keepdims=0)], ()),
}
TALL["a value in between"].graph.initializer.append(numpy_helper.from_array(np.array(0, np.int64), "axis"))


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("what", TALL)
def test_what_the_machine_cannot_hold_is_refused_before_it_is_tried(sandbox, what, target):
    """64 TiB, named by a file of some bytes."""
    onnx.save(TALL[what], sandbox.folder / "model.onnx")
    command = [sandbox.emend.path, "run", sandbox.folder / "model.onnx", "--random", "1", "--target", target]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "EMEND_CACHE_DIR": str(sandbox.folder / "cache")}, timeout=60)
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert re.search(r" (64|64.0|128) TiB of memory at once; this machine has ", done.stderr), done.stderr
