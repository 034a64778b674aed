"""What the world does to a compiler: none there, a full disk, a cache that is read-only or damaged, a killed compilation, two processes at
once, another processor. Every case has its answer here, and every answer is compared with the reference: never a wrong result.
"""
import json, os, pathlib, resource, shutil, signal, sqlite3, subprocess, time

import numpy as np
import onnx, pytest
from onnx import TensorProto, helper

PATIENCE = 60  # seconds; more is a failure, not a slow machine

# The system's own compiler until it is asked for code: `-o` names the library then.
WRAPPER = """#!/bin/sh
out=
for a in "$@"; do [ "$last" = -o ] && out=$a; last=$a; done
if [ -z "$out" ]; then {probe}; exit $?; fi
echo "$out" >> '{log}'
{code}
"""


class Machine:
    """The command with a cache and a compiler of its own, and a model whose right outputs are known."""

    def __init__(self, emend, folder):
        self.emend, self.folder, self.cache = emend, folder, folder / "cache"
        self.model, self.log = folder / "tour.onnx", folder / "compiled.log"
        emend("zoo", "tour", self.model)
        self.wanted = self.outputs("reference", "--target", "interp")[0]
        self.use()

    def use(self, code='exec cc "$@"', probe='cc "$@"'):
        """Replaces the compiler: what it does when asked for code, and when asked what it is."""
        self.compiler = self.folder / "compiler"
        self.compiler.write_text(WRAPPER.format(code=code, probe=probe, log=self.log))
        self.compiler.chmod(0o755)

    def environment(self, **more):
        own = {"EMEND_CACHE_DIR": self.cache, "EMEND_CC": self.compiler} if hasattr(self, "compiler") else {}
        return {**os.environ, **{name: str(value) for name, value in {**own, **more}.items()}}

    def run(self, *args, preexec_fn=None, **more):
        command = [self.emend.path, *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment(**more), preexec_fn=preexec_fn)

    def outputs(self, name, *args, **how):
        """What `emend run` computes, and what it says."""
        to = self.folder / name
        shutil.rmtree(to, ignore_errors=True)
        done = self.run("run", self.model, "--random", 1, "--save", to, *args, **how)
        assert done.returncode == 0, (done.returncode, done.stderr)
        return {f.name: np.load(f) for f in to.iterdir()}, done.stderr

    def check(self, *args, **how):
        """Runs compiled: the outputs must be the reference's. What was said, and how many kernels were compiled for it."""
        self.log.write_text("")
        got, said = self.outputs("compiled", "--target", "cpu", *args, **how)
        assert got.keys() == self.wanted.keys()
        for name, want in self.wanted.items():
            assert np.abs(got[name] - want).max() <= 1e-5 * np.abs(want).max(), f"{name} is wrong; {said}"
        return said, len(self.log.read_text().splitlines())

    def kernels(self):
        return sorted((self.cache / "kernels").glob("*.so"))

    def leftovers(self):
        return [f.name for f in (self.cache / "kernels").iterdir() if f.name.startswith("new-")]


@pytest.fixture
def machine(emend, tmp_path):
    return Machine(emend, tmp_path)


def test_the_second_run_compiles_nothing(machine):
    said, compiled = machine.check()
    assert compiled == len(machine.kernels()) > 0 and said == ""
    assert machine.check() == ("", 0) and machine.leftovers() == []


# No compiler.


@pytest.mark.parametrize("lack", [{"EMEND_CC": "/nonexistent/cc"}, {"EMEND_CC": "cc", "PATH": ""}, {"EMEND_CC": "/etc"}, {"EMEND_CC": ""}],
                         ids=["absent", "empty path", "a folder", "no name"])
def test_without_a_compiler_the_reference_computes(machine, lack):
    said, _ = machine.check(**lack)
    assert "no C compiler" in said and "the reference runs the program" in said
    facts = json.loads(machine.run("run", machine.model, "--random", 1, "--target", "cpu", "--json", "-", "--quiet", **lack).stdout)
    assert len(facts["on_host"]) > 0 and "no C compiler" in facts["faults"][0]
    done = machine.run("bench", machine.model, "--budget", "60s", "--runs", 1, "--json", "-", **lack)
    [model] = json.loads(done.stdout)["models"]
    assert done.returncode == 0 and model["max_rel_err"] < 1e-5 and len(model["on_host"]) > 0
    assert machine.check()[1] > 0  # once there is one, it is used


def test_what_was_compiled_stays_when_the_compiler_goes(machine):
    """Without it nobody can tell that the code is for this machine: the reference computes."""
    machine.check()
    assert "no C compiler" in machine.check(EMEND_CC="/nonexistent/cc")[0]
    assert machine.check() == ("", 0)


# A compiler that does not finish.

BROKEN = {
    "fails": ("echo 'out of luck' >&2; exit 1", "the C compiler ended with 1: out of luck"),
    "no space, half a library": ('cc "$@"; head -c 1000 "$out" > "$out.half"; mv "$out.half" "$out"; echo No space left on device >&2; exit 1',
                                 "No space left on device"),
    "half a library and no word": ('cc "$@"; head -c 9000 "$out" > "$out.half"; mv "$out.half" "$out"', "left no whole library"),
    "an empty library": (': > "$out"', "left no whole library"),
    "no library": ("exit 0", "left no whole library"),
    "nonsense for a library": ('head -c 20000 /dev/zero > "$out"', "left no whole library"),
    "killed": ("kill -9 $$", "was killed"),
    "killed half way": ('cc "$@"; head -c 1000 "$out" > "$out.half"; mv "$out.half" "$out"; kill -9 $$', "was killed"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_compiler_that_does_not_finish(machine, how):
    code, told = BROKEN[how]
    machine.use(code)
    said, compiled = machine.check()
    assert compiled > 0 and told in said and "the reference runs the program" in said
    assert machine.kernels() == [] and machine.leftovers() == []
    machine.use()
    said, compiled = machine.check()
    assert compiled > 0 and said == ""


def test_killed_while_it_compiles(machine):
    """kill -9 of Emend itself: the next run is not disturbed by what lies about, and `cache clear` removes it."""
    go = machine.folder / "go"
    machine.use(f'while [ ! -e {go} ]; do sleep 0.05; done; exec cc "$@"')
    command = [machine.emend.path, "run", machine.model, "--random", "1", "--target", "cpu"]
    process = subprocess.Popen(command, env=machine.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while not machine.log.exists() or not machine.log.read_text():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait(PATIENCE)
    assert machine.leftovers() != [] and machine.kernels() == []
    go.write_text("")  # what it started may end
    machine.use()
    said, compiled = machine.check()
    assert compiled > 0 and said == ""
    assert json.loads(machine.run("cache", "stats", "--json", "-").stdout)["leftovers"]["count"] > 0
    machine.run("cache", "clear")
    assert machine.leftovers() == [] and machine.kernels() == []


# A full disk.


@pytest.mark.parametrize("bytes", [0, 1000, 10000])
def test_a_full_disk(machine, bytes):
    """No file grows beyond some size: the source does not fit, or the library does not. Nor would outputs: a data set judges them."""

    def full():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a full disk is an error, not a signal
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, bytes))

    data = machine.folder / "data"
    data.mkdir()
    [x] = onnx.load(machine.model).graph.input
    shape = [d.dim_value for d in x.type.tensor_type.shape.dim]
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    np.save(machine.folder / "x.npy", values)
    (data / "input_0.pb").write_bytes(onnx.numpy_helper.from_array(values, x.name).SerializeToString())
    wanted = machine.run("run", machine.model, "--input", f"{x.name}:{machine.folder}/x.npy", "--save", machine.folder / "full")
    assert wanted.returncode == 0, wanted.stderr
    [name] = os.listdir(machine.folder / "full")
    (data / "output_0.pb").write_bytes(onnx.numpy_helper.from_array(np.load(machine.folder / "full" / name), name[:-4]).SerializeToString())
    done = machine.run("run", machine.model, "--data", data, "--target", "cpu", preexec_fn=full)
    assert done.returncode == 0 and "as expected" in done.stdout, (done.stdout, done.stderr)
    assert "the reference runs the program" in done.stderr
    tuned = machine.run("bench", machine.model, "--budget", "60s", "--runs", 1, "--json", "-", preexec_fn=full)
    assert tuned.returncode == 0 and json.loads(tuned.stdout)["models"][0]["max_rel_err"] < 1e-5, tuned.stderr
    assert machine.kernels() == [] and machine.leftovers() == []
    assert machine.check()[0] == ""


def test_prices_that_cannot_be_written_are_measured_all_the_same(machine):
    machine.check()
    machine.cache.mkdir(exist_ok=True)
    (machine.cache / "prices.db").mkdir()
    done = machine.run("bench", machine.model, "--budget", "60s", "--runs", 1, "--json", "-")
    assert done.returncode == 0 and "measured times are not kept" in done.stderr
    assert json.loads(done.stdout)["models"][0]["prices_measured"] > 0


# A cache that cannot be used.


def read_only(machine):
    return {"EMEND_CACHE_DIR": "/proc/emend"}  # where nobody can make anything


def a_file(machine):
    (machine.folder / "file").write_text("not a folder")
    return {"EMEND_CACHE_DIR": machine.folder / "file"}


def open_to_others(machine):
    (machine.cache / "kernels").mkdir(parents=True)
    (machine.cache / "kernels").chmod(0o777)
    return {}


def elsewhere(machine):
    (machine.folder / "theirs").mkdir(mode=0o700)
    machine.cache.mkdir()
    (machine.cache / "kernels").symlink_to(machine.folder / "theirs")
    return {}


@pytest.mark.parametrize("unusable", [read_only, a_file, open_to_others, elsewhere])
def test_a_cache_that_cannot_be_used_is_left_alone(machine, unusable):
    passing = machine.folder / "passing"
    passing.mkdir()
    environment = unusable(machine)
    said, compiled = machine.check(TMPDIR=passing, **environment)
    assert compiled > 0 and said == ""  # by a folder that goes with the process
    assert list(passing.iterdir()) == []
    if machine.cache.exists():
        assert list((machine.cache / "kernels").iterdir()) == []


# A cache with damage in it.


def change(offset):
    def damage(library):
        content = bytearray(library.read_bytes())
        content[offset] ^= 0x40
        library.write_bytes(content)

    return damage


def replace_by(make):
    def damage(library):
        library.unlink()
        make(library)

    return damage


def sum_of(library):
    return library.with_name(library.name + ".sum")


DAMAGE = {
    "a bit in the head": change(20),
    "a bit in the middle": change(5000),
    "a bit at the end": change(-1),
    "truncated": lambda library: os.truncate(library, 4096),
    "empty": lambda library: os.truncate(library, 0),
    "longer": lambda library: library.write_bytes(library.read_bytes() + b"x"),
    "a foreign file": replace_by(lambda library: library.write_text("no library")),
    "a link to nowhere": replace_by(lambda library: library.symlink_to("/nonexistent")),
    "a link to a file of the system": replace_by(lambda library: library.symlink_to("/bin/sh")),
    "gone": replace_by(lambda library: None),
    "a wrong sum": lambda library: sum_of(library).write_text("0123456789abcdef"),
    "an empty sum": lambda library: sum_of(library).write_text(""),
    "no sum": lambda library: sum_of(library).unlink(),
    "a sum for another": lambda library: sum_of(library).write_bytes(sum_of(max(library.parent.glob("*.so"))).read_bytes()),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_entry_is_made_again(machine, how):
    machine.check()
    victim = min(machine.kernels())
    before = victim.read_bytes()
    DAMAGE[how](victim)
    said, compiled = machine.check()
    assert compiled == 1 and said == ""
    assert victim.is_file() and not victim.is_symlink() and len(victim.read_bytes()) == len(before)
    assert machine.check() == ("", 0)


def test_entries_under_one_anothers_names(machine):
    """Whole files with right sums, but each another's: the function that must be in them is not."""
    machine.check()
    a, b, *_ = machine.kernels()
    for x, y in ((a, b), (sum_of(a), sum_of(b))):
        passing = x.with_name("passing")
        x.rename(passing), y.rename(x), passing.rename(y)
    assert machine.check() == ("", 2)
    assert machine.check() == ("", 0)


def test_what_cannot_be_kept_is_compiled_at_every_start(machine):
    machine.check()
    victim = min(machine.kernels())
    victim.unlink()
    (victim / "inside").mkdir(parents=True)  # a folder in its place
    for _ in range(2):
        assert machine.check() == ("", 1)
    assert machine.leftovers() == []


def test_a_damaged_price_list_is_put_aside(machine):
    bench = ("bench", machine.model, "--budget", "60s", "--runs", 1, "--json", "-", "--quiet")
    assert machine.run(*bench).returncode == 0
    prices = machine.cache / "prices.db"
    prices.write_bytes(b"not a database at all" * 1000)
    done = machine.run(*bench, "--search-again")  # else it takes what was decided
    [model] = json.loads(done.stdout)["models"]
    assert model["prices_measured"] > 0 and model["max_rel_err"] < 1e-5
    assert (machine.cache / "prices.db.damaged").exists()
    [model] = json.loads(machine.run(*bench, "--search-again").stdout)["models"]
    assert model["prices_measured"] == 0 and model["prices_known"] > 0


# Two at once, and another processor.


def test_two_processes_tune_at_once(machine):
    """On one cache and one list, from nothing. Both finish; the list is whole and has what either measured."""
    product = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])], "g",
                                [helper.make_tensor_value_info("x", TensorProto.FLOAT, (24, 40))],
                                [helper.make_tensor_value_info("y", TensorProto.FLOAT, (24, 56))],
                                [onnx.numpy_helper.from_array(np.ones((40, 56), np.float32), "w")])
    path = machine.folder / "product.onnx"
    onnx.save(helper.make_model(product, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    runs = [[machine.emend.path, "bench", *models, "--budget", "60s", "--runs", "1", "--json", "-", "--quiet", "--threads", "1"]
            for models in ([machine.model, path], [path, machine.model])]
    both = [subprocess.Popen(command, env=machine.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in runs]
    for process in both:
        out, said = process.communicate(timeout=10 * PATIENCE)
        assert process.returncode == 0, said
        for model in json.loads(out)["models"]:
            assert model["max_rel_err"] < 1e-5 and model["faults"] == []
            assert model["prices_measured"] + model["prices_known"] > 0 or model["plan_recalled"]
    with sqlite3.connect(machine.cache / "prices.db") as list:
        assert list.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    alone = subprocess.run([*runs[0], "--search-again"], env=machine.environment(), capture_output=True, text=True, check=True)
    for model in json.loads(alone.stdout)["models"]:
        assert model["prices_measured"] == 0 and model["prices_known"] > 0
    assert machine.leftovers() == []


def test_another_processor_under_an_old_cache(machine):
    """What the compiler says of the processor is part of every key: code and prices of one machine do not serve another."""
    bench = ("bench", machine.model, "--budget", "60s", "--runs", 1, "--json", "-", "--quiet", "--search-again")

    def prices():
        [model] = json.loads(machine.run(*bench).stdout)["models"]
        assert model["max_rel_err"] < 1e-5
        return model["prices_measured"], model["prices_known"]

    first = machine.check()[1]
    measured, known = prices()
    assert first > 0 and measured > 0 and known == 0
    machine.use(probe='cc "$@"; echo -march= another')
    assert machine.check()[1] == first  # all of it again
    others, known = prices()
    assert others > 0 and known == 0
    machine.use()
    assert machine.check()[1] == 0 and prices() == (0, measured)  # both are kept


# What fell back is named.


def test_what_no_kernel_computes_is_named(machine, tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["r"], "the_relu"), helper.make_node("NonZero", ["r"], ["y"], "the_places")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 4))],
                              [helper.make_tensor_value_info("y", TensorProto.INT64, (2, "n"))])
    path = tmp_path / "places.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    done = machine.run("run", path, "--random", 1, "--target", "cpu", "--json", tmp_path / "facts.json")
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert done.returncode == 0 and len(facts["on_host"]) == 1 and facts["faults"] == [], (facts, done.stderr)
    assert facts["on_host"][0] in done.stderr and "1 of 2 steps run on the reference" in done.stderr


def test_a_folder_in_place_of_a_sum(machine):
    machine.check()
    for library in machine.kernels():
        there = library.with_name(library.name + ".sum")
        there.unlink()
        there.mkdir()
    assert machine.check() == ("", len(machine.kernels()))
    assert machine.leftovers() == []
