"""Branches of three resolutions that exchange sums, as networks for poses have them: fusion has too much to look at as a whole, and the parts that it
looks at need one another in a circle."""
import numpy as np
import onnx, onnxruntime, pytest
from onnx import TensorProto, helper, numpy_helper


class Network:
    def __init__(self):
        self.rng, self.nodes, self.weights, self.channels = np.random.default_rng(1), [], [], {"x": 3}

    def add(self, op, *inputs, **attributes):
        made = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [made], **attributes))
        self.channels[made] = self.channels[inputs[0]]
        return made

    def weight(self, array):
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def conv(self, x, to, stride=1, kernel=3):
        w = self.weight(self.rng.normal(size=(to, self.channels[x], kernel, kernel)) / 10)
        y = self.add("Conv", x, w, strides=[stride] * 2, pads=[kernel // 2] * 4)
        self.channels[y] = to
        return y

    def relu(self, x):
        return self.add("Relu", x)

    def larger(self, x, times):
        how = {"coordinate_transformation_mode": "asymmetric", "mode": "nearest", "nearest_mode": "floor"}
        return self.add("Resize", x, "", self.weight(np.array([1, 1, times, times])), **how)

    def block(self, x):
        inner = self.relu(self.conv(x, self.channels[x]))
        return self.relu(self.add("Add", self.conv(inner, self.channels[x]), x))

    def stem(self):
        x = self.relu(self.conv(self.relu(self.conv("x", 64, 2)), 64, 2))
        inner = self.relu(self.conv(self.relu(self.conv(x, 8, kernel=1)), 8))
        return self.relu(self.add("Add", self.conv(inner, 32, kernel=1), self.conv(x, 32, kernel=1)))

    def term(self, x, source, to):
        """What one branch adds to another."""
        if source > to:
            return self.larger(self.conv(x, 4 << to, kernel=1), 1 << (source - to))
        for k in range(source, to):
            x = self.conv(x, 4 << to, 2) if k + 1 == to else self.relu(self.conv(x, 4, 2))
        return x

    def exchanged(self, branches):
        sums = []
        for to in range(len(branches)):
            total, *others = [self.term(x, source, to) for source, x in enumerate(branches)]
            for other in others:
                total = self.add("Add", total, other)
            sums.append(self.relu(total))
        return sums

    def model(self):
        stem = self.stem()
        branches = [self.relu(self.conv(stem, 4)), self.relu(self.conv(stem, 8, 2))]
        for count in (2, 3, 3):
            if len(branches) < count:
                branches.append(self.relu(self.conv(branches[-1], 16, 2)))
            branches = self.exchanged([self.block(x) for x in branches])
        value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "g", [value("x", [1, 3, 64, 64])], [value(branches[0], [1, 4, 16, 16])], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_parallel_resolutions(emend, tmp_path, level):
    model = Network().model()
    onnx.save(model, tmp_path / "model.onnx")
    x = np.random.default_rng(2).normal(size=(1, 3, 64, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    emend("run", tmp_path / "model.onnx", "--target", "cpu", f"-O{level}", "--input", f"x:{tmp_path / 'x.npy'}", "--save", tmp_path / "out")
    [made] = [np.load(f) for f in (tmp_path / "out").iterdir()]
    [wanted] = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    assert np.abs(made - wanted).max() <= 1e-4 * np.abs(wanted).max()
