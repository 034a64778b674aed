"""tests/random_pairs: pairs of models that are always the same through `verify` (`make soak-pairs` runs as many as one likes), and the tester itself."""
import pathlib, sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/random_models"), str(ROOT / "tests/random_pairs")]
import pairs, plant


def test_verdicts_on_random_pairs(tmp_path):
    counts, wrong, unknown = pairs.run(range(10_000), 300, tmp_path, 1)
    counted = sum(n for (sort, _, _), n in counts.items() if sort != "not counted")
    print(pairs.table(counts))
    assert wrong == []
    assert counted >= 300 and len(unknown) <= pairs.MOST_UNKNOWN * counted, unknown


def test_a_seed_always_means_the_same_pair():
    for seed in range(60):
        first, second = plant.pair_of(seed), plant.pair_of(seed)
        assert (first is None) == (second is None)
        if first:
            assert first.a.SerializeToString() == second.a.SerializeToString() and first.b.SerializeToString() == second.b.SerializeToString()


def test_what_differs_is_seen_by_channel():
    x = np.array([[1e8, 1.0], [2e8, 2.0]], np.float32)
    assert pairs.differs(x, x * np.float32([1, -1])) and not pairs.differs(x, x * np.float32([1, 1.0001]))


def test_a_wrong_verdict_is_reported_and_made_small(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs, "verdict", lambda pair, folder, seconds=20: ("equal", ""))
    seed = next(s for s in range(1000) if (p := plant.pair_of(s)) and not p.equal and p.certain)
    sort, _, said, told, _ = pairs.work((seed, tmp_path))
    assert (sort, said) == ("planted", "equal") and "is called equal" in told
    assert (tmp_path / f"{seed}_a.onnx").exists() and (tmp_path / f"{seed}_b.onnx").exists()
