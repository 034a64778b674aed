"""The contract of `emend optimize`: what its options mean, what it prints and how it ends."""
import json

import numpy as np
import onnx
import pytest


@pytest.fixture(scope="module")
def model(emend, tmp_path_factory):
    path = tmp_path_factory.mktemp("optimize") / "model.onnx"
    emend("zoo", "resnet18", path, "--size", 32)
    return path


def output_of(emend, model, folder):
    emend("run", model, "--random", 5, "--save", folder)
    (file,) = folder.glob("*.npy")
    return np.load(file)


def test_strict_accuracy_keeps_every_bit(emend, model, tmp_path):
    emend("optimize", model, tmp_path / "plain.onnx")
    emend("optimize", model, tmp_path / "strict.onnx", "--accuracy", "strict", "--json", tmp_path / "facts.json")
    before = output_of(emend, model, tmp_path / "before")
    assert (output_of(emend, tmp_path / "strict.onnx", tmp_path / "strict") == before).all()
    assert (output_of(emend, tmp_path / "plain.onnx", tmp_path / "plain") != before).any()  # batch norms are folded
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["nodes_after"] < facts["nodes_before"] and facts["verified"]["max_rel_err"] == 0


def test_an_accuracy_that_is_none_is_a_usage_error(emend, model):
    for text in ("loose", "-1", "0", "nan", "1e-4x"):
        done = emend.run("optimize", model, f"--accuracy={text}")
        assert done.returncode == 2 and text in done.stderr


def test_strict_says_by_its_exit_code_that_nothing_was_gained(emend, model, tmp_path):
    once = tmp_path / "once.onnx"
    assert emend.run("optimize", model, once, "--strict").returncode == 0
    assert emend.run("optimize", once, "--strict").returncode == 6
    assert emend.run("optimize", once).returncode == 0


def test_the_verb_may_be_left_out_with_options_in_front(emend, model, tmp_path):
    emend("--json", tmp_path / "facts.json", "--seed", 4, model, tmp_path / "out.onnx", "--search-again")
    facts = json.loads((tmp_path / "facts.json").read_text())
    fixed = {"schema", "phases_ms", "cost_before", "cost_after", "measured_before_ms", "measured_after_ms", "fired", "enodes", "stop_reason", "verified"}
    assert fixed <= set(facts) and facts["schema"] == 1
    assert list(facts["phases_ms"]) == ["import", "simplify", "back end", "price", "saturate", "extract", "mutate", "check", "export"]
    assert facts["level"] == 2 and facts["search_recalled"] is False
    emend("optimize", model, "--json", tmp_path / "cleaned.json", "-O1")
    facts = json.loads((tmp_path / "cleaned.json").read_text())
    assert facts["level"] == 1 and list(facts["phases_ms"]) == ["import", "simplify", "check", "export"]


def test_quiet_is_about_stderr(emend, model):
    done = emend.run("optimize", model, "--quiet")
    assert done.stderr == "" and "rules that fired" in done.stdout


def test_dumps_are_numbered_and_level_0_has_no_search(emend, model, tmp_path):
    emend("optimize", model, "--dump-dir", tmp_path / "all")
    stages = ["import", "simplify", "search", "simplify", "export"]
    assert sorted(f.name for f in (tmp_path / "all").iterdir()) == [f"0{i + 1}-{stage}.emend" for i, stage in enumerate(stages)]
    emend("optimize", "-O1", model, "--dump-dir", tmp_path / "cleaned")
    assert sorted(f.name for f in (tmp_path / "cleaned").iterdir()) == ["01-import.emend", "02-simplify.emend", "03-export.emend"]
    assert "not run: nothing was changed" in emend("optimize", "-O0", model, "--dump-dir", tmp_path / "none")
    assert sorted(f.name for f in (tmp_path / "none").iterdir()) == ["01-import.emend", "02-export.emend"]


def test_the_same_command_writes_the_same_bytes(emend, model, tmp_path):
    for name in ("a", "b"):
        emend("optimize", model, tmp_path / name, "--search-again")
        emend("optimize", model, tmp_path / f"{name}1", "-O1", "--threads", 1 + (name == "b"))  # the search asks what so many threads take
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a1").read_bytes() == (tmp_path / "b1").read_bytes()


@pytest.fixture(scope="module")
def open_model(tmp_path_factory):
    """Rows of any number, summed in groups of four: there is no such program for every size."""
    path = tmp_path_factory.mktemp("open") / "open.onnx"
    nodes = [
        onnx.helper.make_node("Reshape", ["x", "groups"], ["g"]),
        onnx.helper.make_node("ReduceSum", ["g", "one"], ["s"], keepdims=0),
        onnx.helper.make_node("Add", ["s", "zero"], ["y"]),
    ]
    numbers = lambda name, values: onnx.numpy_helper.from_array(np.array(values), name)
    constants = [numbers("groups", [-1, 4]), numbers("one", [1]), numbers("zero", np.float32([0]))]
    value = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph(nodes, "open", [value("x", ["rows"])], [value("y", ["groups_of_rows"])], constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def dimensions(path):
    return [d.dim_param or d.dim_value for d in onnx.load(path).graph.input[0].type.tensor_type.shape.dim]


def test_a_dimension_is_fixed_only_when_asked(emend, open_model, tmp_path):
    out = tmp_path / "out.onnx"
    for level in ["-O0", "-O1", "-O2"]:
        emend("optimize", open_model, out, level, "--json", tmp_path / "facts.json")
        assert dimensions(out) == ["rows"]
        assert json.loads((tmp_path / "facts.json").read_text())["fixed_dimensions"] == {}
    emend("optimize", open_model, out, "--shape", "rows=8")
    assert dimensions(out) == [8]


def test_level_0_is_the_file_itself(emend, open_model, tmp_path):
    emend("optimize", open_model, tmp_path / "out.onnx", "-O0")
    assert (tmp_path / "out.onnx").read_bytes() == open_model.read_bytes()


def test_what_is_written_for_everyone_does_no_more_of_anything(emend, tmp_path):
    """PET's mosaics pay with our kernels; elsewhere their pads and slices cost more than they save."""
    model = tmp_path / "model.onnx"
    emend("zoo", "csrnet_pet", model)
    emend("optimize", model, tmp_path / "cleaned.onnx", "-O1")
    emend("optimize", model, tmp_path / "any.onnx", "--json", tmp_path / "any.json")
    emend("optimize", model, tmp_path / "cpu.onnx", "--target", "cpu", "--json", tmp_path / "cpu.json")
    facts = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("any", "cpu")}
    assert facts["cpu"]["nodes_after"] > facts["any"]["nodes_after"]
    assert facts["cpu"]["cost_after"] < facts["cpu"]["cost_before"]
    assert (tmp_path / "any.onnx").read_bytes() == (tmp_path / "cleaned.onnx").read_bytes()
