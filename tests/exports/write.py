"""Writes the exports: `write.py FOLDER [NAME...]`. The same versions of torch write the same weights: everything is seeded."""
import pathlib, sys, warnings

import torch

import images, sequences  # noqa: F401  (they register themselves)
from spec import EXPORTS


def network_of(export):
    """With running statistics and scales that are not the ones that training starts from, which would hide what a rewrite does to them."""
    torch.manual_seed(0)
    network = export.network().eval()
    for module in network.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.6, 1.4)
        if getattr(module, "bias", None) is not None and "Norm" in type(module).__name__:
            torch.nn.init.normal_(module.bias, 0, 0.1)
            torch.nn.init.uniform_(module.weight, 0.6, 1.4)
    return network


def write(export, exporter, opset, path):
    network, values = network_of(export), export.draw(1)
    arguments = tuple(torch.from_numpy(v) for v in values.values())
    names = {"input_names": [i.name for i in export.inputs], "output_names": export.outputs, "opset_version": opset}
    axes = {i.name: i.open_axes() for i in export.inputs}
    torch.backends.mha.set_fastpath_enabled(False)  # its one fused operator has no words in ONNX
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if exporter == "legacy":
            torch.onnx.export(network, arguments, str(path), dynamic_axes=axes, dynamo=False, **names)
        else:
            torch.onnx.export(network, arguments, str(path), dynamic_shapes=tuple(axes.values()), dynamo=True, external_data=False, verbose=False, **names)


def file_name(export, exporter, opset):
    return f"{export.name}.{exporter}{opset}.onnx"


def main(folder, names):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for export in (EXPORTS[n] for n in names or EXPORTS):
        for exporter, opset in export.ways:
            path = folder / file_name(export, exporter, opset)
            write(export, exporter, opset, path)
            print(f"{path.name}: {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
