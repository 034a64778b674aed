"""bench/: the statistics, the tables and the race, without any runtime to race."""
import os, pathlib, sys, time
import xml.etree.ElementTree as ElementTree

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import figures, race


# --- statistics ---


def test_quantiles_lie_on_lines_between_samples():
    assert figures.quantile([7], 0.1) == 7
    assert figures.quantile([4, 1, 3, 2], 0.5) == 2.5
    assert figures.quantile([5, 1, 3, 2, 4], 0) == 1
    assert figures.quantile([5, 1, 3, 2, 4], 1) == 5
    assert figures.quantile([5, 1, 3, 2, 4], 0.1) == pytest.approx(1.4)


def test_a_slow_round_does_not_move_the_median_of_medians():
    s = figures.summary([[1, 1, 9], [1, 2, 3], [100, 100, 100]])
    assert s["median_ms"] == 2 and s["min_ms"] == 1 and s["runs"] == 9
    assert s["p10_ms"] == 1 and s["p90_ms"] == 100


def step(ms, operations=100, end=False):
    return {"label": "", "end": end, "operations": operations, "ms": ms}


def test_a_layer_is_timed_between_the_ends_of_its_chain():
    first, last = step([9, 9, 9], 0, True), step([9, 9, 9], end=True)
    # Of four layers three are between; a change of order among them is theirs, and the first run of a round does not count.
    layers = [step([50, 1, 3]), step([50, 2, 4]), step([50, 3, 5])]
    assert figures.ms_between_ends([[first, *layers, last]], 4) == pytest.approx(3)
    assert figures.ms_between_ends([[first, *layers, step([50, 3, 3], 0), last]], 4) == pytest.approx(4)


def test_where_all_layers_are_ends_nothing_is_between():
    assert figures.ms_between_ends([[step([1, 1], end=True), step([1, 1], 0), step([1, 1], end=True)]], 2) is None
    assert figures.ms_between_ends([], 4) is None


def runtimes():
    return {
        "emend": {"median_ms": 8.0, "min_ms": 7.5, "max_rel_err": 1e-7, "start_s": 2.0, "peak_memory_bytes": 5e7},
        "onnxruntime": {"median_ms": 12.0, "min_ms": 11.0},
        "openvino": {"median_ms": 10.0, "min_ms": 9.0},
        "torch.compile": {"failed": "no compiler"},
    }


def test_ratios_are_to_the_better_peer():
    r = runtimes()
    figures.add_ratios(r)
    assert r["emend"]["ratio"] == 1.25 and r["openvino"]["ratio"] == 1 and r["onnxruntime"]["ratio"] == pytest.approx(10 / 12)
    assert "ratio" not in r["torch.compile"]


def test_torch_is_no_measure():
    r = {"emend": {"median_ms": 8.0}, "torch.compile": {"median_ms": 1.0}}
    figures.add_ratios(r)
    assert r["emend"]["ratio"] is None


def model(name="m", **changes):
    r = runtimes()
    for runtime, values in changes.items():
        r[runtime] = values
    figures.add_ratios(r)
    figures.add_shares(r, 8e8, 1e6, {"gflops": 200, "gbytes": 30})
    return {"name": name, "flops": 8e8, "needed_bytes": 1e6, "runtimes": r}


def test_shares_are_of_the_resource_closer_to_its_limit():
    r = model()["runtimes"]["emend"]
    assert r["fma_share"] == pytest.approx(0.5)  # 0.8 GFLOP in 8 ms are 100 of 200 GFLOP/s
    assert r["bandwidth_share"] == pytest.approx(1e6 / 8e-3 / 30e9)
    assert figures.share_text(r) == "50% FMA"
    assert figures.share_text({"fma_share": 0.001, "bandwidth_share": 0.02}) == "2% memory"
    assert figures.share_text({"fma_share": 0.096, "bandwidth_share": 0.02}) == "10% FMA"
    assert figures.share_text({"fma_share": 0.004, "bandwidth_share": 0}) == "0.4% FMA"


# --- what is shown ---


def test_tables_tell_failures_and_losses():
    text = figures.model_text(model())
    assert "failed: no compiler" in text and "1.25" in text and "50% FMA" in text
    slow = model("slow", emend={"median_ms": 100.0, "min_ms": 99.0})
    broken = model("broken", emend={"failed": "wrong"})
    lines = figures.summary_text([model(), slow, broken]).splitlines()
    assert lines[2].split() == ["slow", "100.0", "10.00", "0.10"]
    assert lines[3].split() == ["broken", "failed:", "wrong"]
    assert lines[4].endswith(f"{(1.25 * 0.1) ** 0.5:.3f}")


def test_without_peers_there_is_no_ratio():
    alone = {"name": "m", "runtimes": {"emend": {"median_ms": 1.0, "min_ms": 1.0}}}
    figures.add_ratios(alone["runtimes"])
    assert figures.summary_text([alone]).splitlines()[1].split() == ["m", "1.000", "-", "-"]


def test_the_page_has_a_row_for_every_runtime():
    report = {"machine": {"cpu": "abacus", "threads": 2, "gflops": 200, "gbytes": 30}, "versions": {"emend": "0.1"}, "models": [model("a"), model("b")]}
    rows = [line for line in figures.markdown(report).splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 2 * 4
    assert {line.count("|") for line in rows} == {len(figures.COLUMNS) + 2}


def test_bars_are_as_long_as_ratios():
    svg = ElementTree.fromstring(figures.chart([model(), model("<odd> & name")]))
    rects = [r for r in svg.iter("{http://www.w3.org/2000/svg}rect") if r.get("fill") == figures.COLOURS["emend"] and r.get("y") != "24"]
    slower = [r for r in svg.iter("{http://www.w3.org/2000/svg}rect") if r.get("fill") == figures.COLOURS["openvino"] and r.get("y") != "24"]
    assert len(rects) == len(slower) == 2
    assert float(rects[0].get("width")) / float(slower[0].get("width")) == pytest.approx(1.25, rel=0.01)
    assert any("torch.compile failed" in (t.text or "") for t in svg.iter("{http://www.w3.org/2000/svg}text"))


# --- the race ---

# A runtime that takes no time; argument: what goes wrong.
FAKE = """
import json, os, sys, time
trouble, journal = sys.argv[1], sys.argv[2]
if trouble == "start": sys.exit("cannot load")
print(json.dumps({"ready": True, "compile_s": 1, "first_ms": 2}), flush=True)
turns = 0
for line in sys.stdin:
    turns += 1
    if trouble == "later" and turns > 2: os._exit(3)
    if trouble == "hang": time.sleep(60)
    count = int(line.split()[1])
    with open(journal, "a") as f: f.write(f"{trouble} {count}\\n")
    print(json.dumps({"error": "out of luck"} if trouble == "error" else {"ms": [100.0 + i for i in range(count)]}), flush=True)
"""


def runner(tmp_path, trouble):
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    return race.Runner([sys.executable, script, trouble, tmp_path / "journal"], tmp_path / f"{trouble}.log", dict(os.environ))


def test_turns_rotate_and_first_runs_do_not_count(tmp_path):
    runners = {name: runner(tmp_path, name) for name in ("a", "b", "c")}
    times, failures = race.race(runners, seconds=0)
    assert not failures and set(times) == {"a", "b", "c"}
    length = race.turn_length(100)
    for rounds in times.values():
        assert rounds == [[100.0 + i for i in range(1, length + 1)]] * 3
    journal = [line.split()[0] for line in (tmp_path / "journal").read_text().splitlines()]
    assert "".join(journal) == "abc" + "abc" + "bca" + "cab"
    for r in runners.values():
        r.close()


def state(runner):
    return pathlib.Path(f"/proc/{runner.process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_who_waits_is_stopped(tmp_path):
    r = runner(tmp_path, "a")
    for _ in range(2):
        for _ in range(100):
            if state(r) == "T":
                break
            time.sleep(0.01)
        assert state(r) == "T"
        assert len(r.run(4)) == 4
    assert r.peak_memory_bytes() > 1e6
    r.close()
    assert r.process.returncode is not None


def test_one_that_fails_does_not_end_the_race(tmp_path):
    runners = {name: runner(tmp_path, name) for name in ("a", "later", "error")}
    times, failures = race.race(runners, seconds=0)
    assert set(times) == {"a"} and len(times["a"]) == 3
    assert "ended with 3" in failures["later"] and "out of luck" in failures["error"]
    runners["a"].close()


def test_one_that_does_not_start_says_why(tmp_path):
    with pytest.raises(race.Failed, match="ended with 1; cannot load"):
        runner(tmp_path, "start")


def test_one_that_hangs_is_given_up(tmp_path):
    r = runner(tmp_path, "hang")
    r.patience = 1
    with pytest.raises(race.Failed, match="no answer in 1 s"):
        r.run(1)
    assert r.process.returncode is not None


@pytest.mark.parametrize("ms, runs", [(0.01, 200), (1, 200), (4, 100), (40, 10), (1000, 3)])
def test_turns_are_long_enough_and_not_too_long(ms, runs):
    assert race.turn_length(ms) == runs


def test_slow_models_get_three_rounds():
    assert race.round_count(10_000, 5) == 3
    assert race.round_count(1_000, 10) == 10
    assert race.round_count(1, 10) == 15
