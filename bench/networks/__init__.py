"""Networks as people write them, drawn from seeds: what `make bench-regret` searches.

`draw(seed, kind, batch)` is a pure function of its arguments: equal ones give the same file, and another batch gives the same network with the same
weights. A kind (images.py, maps.py, modern.py, attention.py, sequences.py) draws channels, sizes, depth and activations and builds with the layers of
builder.py. `named/...` are fixed instances (named.py): nothing in them is drawn but their weights.
"""
import pathlib, zlib

import numpy as np
import onnx

from . import attention, images, maps, modern, named, sequences
from .builder import MEGABYTE, Builder

KINDS = {f.__name__: f for theme in (images, maps, modern, attention, sequences) for f in theme.KINDS}
NAMED = {f"named/{f.__name__}": f for f in named.NETWORKS}

# What a drawn network may be: it is searched by tens of ways, among hundreds of others.
NODES = 10, 150
MILLISECONDS = 0.5, 25
MOST_MEGABYTES, USUAL_MEGABYTES, LARGE_SHARE = 20, 5, 0.35
ATTEMPTS = 300


def key_of(kind):
    return zlib.crc32(kind.encode())


def batch_of(rng, milliseconds):
    """Mostly 1; more where the network stays small with it."""
    batch = int(rng.choice([1, 2, 4, 8], p=[0.64, 0.12, 0.12, 0.12]))
    while batch > 1 and batch * milliseconds > 1.5 * MILLISECONDS[1]:
        batch //= 2
    return batch


def is_wanted(b, rng):
    size = b.weight_bytes() / MEGABYTE
    most = MOST_MEGABYTES if rng.random() < LARGE_SHARE else USUAL_MEGABYTES
    return NODES[0] <= len(b.nodes) <= NODES[1] and size <= most and MILLISECONDS[0] <= b.milliseconds() <= MILLISECONDS[1]


def build(make, seeds, batch):
    """A network is built from a state of the generator that does not depend on the batch, so that the batch changes sizes alone."""
    b = Builder(np.random.default_rng(seeds), batch)
    made = make(b)
    b.outputs(*(made if isinstance(made, (list, tuple)) else [made]))
    return b


def kind_of(seed):
    """Seeds go round through the kinds, so that a run of seeds holds them in equal shares."""
    return list(KINDS)[seed % len(KINDS)]


def draw(seed, kind=None, batch=None):
    """A name and a model."""
    kind = kind or kind_of(seed)
    if kind in NAMED:
        return kind, build(NAMED[kind], [0], batch or 1).model(kind, [0, key_of(kind)])
    for attempt in range(ATTEMPTS):
        seeds = [seed, key_of(kind), attempt]
        b, about = build(KINDS[kind], seeds, 1), np.random.default_rng([*seeds, 1])
        if is_wanted(b, about):
            batch = batch or batch_of(about, b.milliseconds())
            return f"{kind}-{seed}", build(KINDS[kind], seeds, batch).model(f"{kind}-{seed}", [*seeds, 2])
    raise ValueError(f"{kind}: nothing of a wanted size in {ATTEMPTS} attempts from seed {seed}")


def write(folder, seed, kind=None, batch=None):
    name, model = draw(seed, kind, batch)
    path = pathlib.Path(folder) / f"{name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path
