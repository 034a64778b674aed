"""tests/exports: the smaller ones of the exports with open sizes, as `make exports` checks all of them, times aside (those are a benchmark's)."""
import os, pathlib, sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/exports"))
import check
from spec import EXPORTS

# Where others leave fewer nodes, `make exports` says so for each file; these are at or below them.
FILES = ["cnn.legacy", "unet_resize.legacy", "convnext.legacy", "swin.legacy", "gpt_cache.legacy", "rope_gqa.legacy", "lstm_state.legacy", "dlrm.legacy", "whisper.legacy",
         "detr.legacy", "lstm.legacy", "gru_bidirectional.legacy", "flow_warp.legacy", "rope_gqa.dynamo", "convnext.dynamo", "dlrm.dynamo", "yolo.dynamo"]


def test_there_are_enough_of_them():
    ways = {(e.name, way) for e in EXPORTS.values() for way in e.ways}
    assert len(ways) >= 40
    assert {opset for _, (_, opset) in ways} == set(range(11, 22))
    assert all(len(set(sizes)) == 5 for e in EXPORTS.values() for sizes in e.sizes.values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("file", FILES)
def test_an_export_keeps_its_sizes_and_is_right_at_all_of_them(tmp_path, file):
    name, exporter = file.split(".")
    if exporter == "dynamo":
        pytest.importorskip("onnxscript", reason="PyTorch's newer exporter needs onnxscript (tools/setup.sh test)")
    export = EXPORTS[name]
    opset = next(o for e, o in export.ways if e == exporter)
    _, complaints = check.check(export, exporter, opset, tmp_path, os.environ["EMEND"])
    assert not complaints
