"""What an export is: a network as users write it, the sizes that stay open, and which exporters write it at which opset.

A network registers itself with `@export`. Its inputs are given in forward's order as `type[sizes]`, a symbol per open size (`P+S` is a size that
follows from others), for integers with the values below which they lie: `i64[N,S]<50`. Every symbol comes with the five sizes it is tried at.
"""
import dataclasses, re, zlib

import numpy as np

TYPES = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "bool": np.bool_}


@dataclasses.dataclass
class Input:
    name: str
    dtype: str
    dims: list  # of numbers and of symbols or sums of them
    below: int = 2

    def shape(self, sizes):
        return [d if isinstance(d, int) else sum(sizes[s] for s in d.split("+")) for d in self.dims]

    def draw(self, rng, sizes):
        shape = self.shape(sizes)
        if self.dtype == "bool":
            return rng.random(shape) < 0.7
        if self.dtype == "i64":
            return rng.integers(0, self.below, shape)
        return rng.normal(size=shape).astype(TYPES[self.dtype])

    def open_axes(self):
        return {axis: d.replace("+", "_plus_") for axis, d in enumerate(self.dims) if isinstance(d, str)}


def parse_input(name, text):
    dtype, dims, below = re.fullmatch(r"(\w+)\[([^\]]*)\](?:<(\d+))?", text).groups()
    return Input(name, dtype, [int(d) if d.isdigit() else d for d in dims.split(",") if d], int(below or 2))


@dataclasses.dataclass
class Export:
    name: str
    network: type
    inputs: list
    outputs: list
    sizes: dict  # symbol: its five sizes
    ways: list  # (exporter, opset)
    prepare: object  # the inputs' values made consistent with one another, where random ones are not

    def at(self, turn):
        """The sizes of one of the five turns. Symbols move through their lists at different paces, so that no two always go together."""
        return {s: values[(turn * (1 + i % 4) + i) % 5] for i, (s, values) in enumerate(self.sizes.items())}

    def draw(self, turn, seed=0):
        sizes = self.at(turn)
        rng = np.random.default_rng([seed, turn, zlib.crc32(self.name.encode())])
        values = {i.name: i.draw(rng, sizes) for i in self.inputs}
        return self.prepare(values) if self.prepare else values


EXPORTS = {}


def export(name, inputs, sizes, ways, outputs=("y",), prepare=None):
    """`ways` as in "legacy-11 dynamo-18"."""
    parsed = [parse_input(*i.split(":")) for i in inputs.split(" ")]
    pairs = [(w.split("-")[0], int(w.split("-")[1])) for w in ways.split()]

    def add(network):
        EXPORTS[name] = Export(name, network, parsed, list(outputs), sizes, pairs, prepare)
        return network

    return add
