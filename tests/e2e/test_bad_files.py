"""Bad files: every verb ends with code 3 and one line that names the file, the place in it and the reason; no output is written."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name, shape=(2, 3), dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs=None, outputs=None, weights=(), functions=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs or [value("x")], outputs or [value("y", None)], list(weights))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def node(op, inputs, outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), name=f"the_{op}", **attributes)


def integers(name, *numbers):
    return numpy_helper.from_array(np.array(numbers, dtype=np.int64), name)


def external(location, offset, length):
    tensor = TensorProto(name="w", dims=[2, 3], data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(text))
    return model([node("Add", ["x", "w"])], weights=[tensor])


def function(name, *calls):
    nodes = [helper.make_node(call, [f"x{k}"], [f"x{k + 1}"], domain="local" if call[0] == "f" else "") for k, call in enumerate(calls)]
    return helper.make_function("local", name, ["x0"], [f"x{len(calls)}"], nodes, [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])


def calling(*functions):
    return model([helper.make_node(functions[-1].name, ["x"], ["y"], domain="local", name="the_call")], functions=functions)


def truncated():
    return model([node("Relu", ["x"])]).SerializeToString()[:-10]


doubling = [function("f0", "Neg", "Neg")] + [function(f"f{k}", f"f{k - 1}", f"f{k - 1}") for k in range(1, 40)]

# What is in the file; then what the message must say besides the file's name: where, and why.
BAD = {
    "nothing": (b"", ["the file is empty"]),
    "text": (b"Dear reader, this is a letter.\n" * 20, ["not"]),
    "truncated": (truncated(), ["ends"]),
    "cycle": (model([node("Relu", ["z"], ["y"]), node("Neg", ["y"], ["z"])]), ["the_Relu", "cycle"]),
    "produced twice": (model([node("Relu", ["x"]), node("Neg", ["x"])]), ["the_Neg", '"y"', "produced twice"]),
    "never produced": (model([node("Relu", ["q"])]), ["the_Relu", '"q"', "nothing produces it"]),
    "function in itself": (calling(function("f1", "f1")), ["the_call", "f1", "calls itself"]),
    "functions that double": (calling(*doubling), ["f39", "unfolds to too much"]),
    "path that leaves": (external("../w.bin", 0, 24), ['"w"', "../w.bin", "not inside the model's folder"]),
    "absolute path": (external("/etc/passwd", 0, 24), ['"w"', "/etc/passwd", "not inside the model's folder"]),
    "link that leaves": (external("link.bin", 0, 24), ['"w"', "link.bin", "leads out of the model's folder"]),
    "no such data": (external("missing.bin", 0, 24), ['"w"', "missing.bin", "No such file"]),
    "offset past the end": (external("data.bin", 1000, 24), ['"w"', "past the 64 bytes", "data.bin"]),
    "offset that overflows": (external("data.bin", 2**64 - 8, 24), ['"w"', "data.bin"]),
    "negative offset": (external("data.bin", -8, 24), ['"w"', "offset", "-8"]),
    "length of another shape": (external("data.bin", 0, 20), ['"w"', "20 bytes", "takes 24"]),
    "overflowing shape": (model([node("Relu", ["x"])], inputs=[value("x", (2**40, 2**40))]), ['"x"', "absurd shape"]),
    "negative shape": (model([node("Relu", ["x"])], inputs=[value("x", (2, -3))]), ['"x"', "-3"]),
    "shapes that do not fit": (model([node("MatMul", ["x", "x"])]), ["y", "MatMul", "3"]),
    "impossible reshape": (model([node("Reshape", ["x", "s"])], weights=[integers("s", 4, 5)]), ["y", "Reshape", "4"]),
    "absurd range": (model([node("Range", ["a", "b", "c"])], weights=[integers("a", 0), integers("b", 2**60), integers("c", 1)]), ["y", "Range", "too long"]),
    "too few inputs": (model([node("Add", ["x"])]), ["y", "(Add)", "input 1 is missing"]),
    "opset of tomorrow": (model([node("Relu", ["x"])], opset=99), ["the_Relu", "opset 99", "newer than"]),
}


@pytest.fixture(scope="module", params=BAD)
def bad(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    outside = folder.parent / f"{folder.name}.outside"
    outside.write_bytes(bytes(64))
    (folder / "data.bin").write_bytes(bytes(64))
    (folder / "link.bin").symlink_to(outside)
    content, told = BAD[request.param]
    path = folder / "bad.onnx"
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return path, told


@pytest.mark.parametrize("verb", ["inspect", "run", "optimize", "verify"])
def test_code_and_message(emend, bad, verb, tmp_path):
    path, told = bad
    out = tmp_path / "out.onnx"
    done = emend.run(verb, path, *{"optimize": [out], "verify": [path]}.get(verb, []))
    assert done.returncode == 3, (done.returncode, done.stderr)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and str(path) in lines[0], done.stderr
    for part in told:
        assert part in lines[0], f"{part!r} is not in {lines[0]!r}"
    assert done.stdout == "" and not out.exists()


def test_a_good_reference_is_read(emend, tmp_path):
    """The twin of the bad references: what is inside the folder and inside the file is read."""
    (tmp_path / "data.bin").write_bytes(bytes(64))
    path = tmp_path / "good.onnx"
    path.write_bytes(external("data.bin", 8, 24).SerializeToString())
    assert "add" in emend("inspect", path)


def test_what_turns_or_breaks_lines_is_not_printed(emend, tmp_path):
    """Names that would show the rest of a line in another order, or end it."""
    import onnx

    turned = "a\u202eb\u2028c\u200fd\u2066e\u061cf"
    onnx.save(model([node("Relu", [turned])], inputs=[value(turned)]), tmp_path / "turned.onnx")
    done = emend.run("inspect", tmp_path / "turned.onnx")
    assert done.returncode == 0 and "a\\u202eb\\u2028c\\u200fd\\u2066e\\u061cf" in done.stdout
    assert not any(c in done.stdout for c in "\u202e\u2028\u200f\u2066\u061c")
