"""emend cache: what is kept between runs, counted, carried elsewhere and removed."""
import json, os

import pytest


@pytest.fixture
def kept(emend, tmp_path):
    """A cache with kernels and prices in it, and the command that uses it."""
    emend("zoo", "tour", tmp_path / "tour.onnx")
    cache = tmp_path / "cache"

    def run(*args, code=0, at=cache):
        done = emend.run(*args, EMEND_CACHE_DIR=at)
        assert done.returncode == code, done.stderr
        return done

    run("bench", tmp_path / "tour.onnx", "--budget", "60s", "--runs", 1, "--quiet")
    return run, cache


def stats(run, **how):
    return json.loads(run("cache", "stats", "--json", "-", **how).stdout)


def test_stats_count_what_is_there(kept):
    run, cache = kept
    files = os.listdir(cache / "kernels")
    facts = stats(run)
    assert facts["schema"] == 1 and facts["folder"] == str(cache)
    assert facts["kernels"]["count"] == sum(f.endswith(".so") for f in files) > 0
    assert facts["kernels"]["bytes"] == sum((cache / "kernels" / f).stat().st_size for f in files if ".so" in f)
    assert facts["verdicts"]["count"] == sum(f.startswith("checked-") for f in files) > 0
    assert facts["prices"]["count"] > 0 and facts["prices"]["bytes"] > 0
    text = run("cache").stdout
    assert text.startswith(f"in {cache}\n") and "KiB" in text


def test_nothing_there_is_no_error_and_makes_nothing(kept, tmp_path):
    run, _ = kept
    facts = stats(run, at=tmp_path / "none")
    assert facts["kernels"] == facts["verdicts"] == facts["searches"] == facts["prices"] == {"count": 0, "bytes": 0}
    run("cache", "clear", at=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_clear_removes_what_is_ours_and_nothing_else(kept):
    run, cache = kept
    (cache / "kernels" / "letter.txt").write_text("mine")
    (cache / "kernels" / "folder").mkdir()
    (cache / "downloads").mkdir()
    (cache / "kernels" / "new-999999999-0.c").write_text("left behind by a process that is gone")
    (cache / "kernels" / f"new-{os.getpid()}-0.c").write_text("of a process that is alive")
    assert stats(run)["leftovers"]["count"] == 1 and stats(run)["others"]["count"] == 2
    run("cache", "clear")
    assert sorted(os.listdir(cache / "kernels")) == sorted(["folder", "letter.txt", f"new-{os.getpid()}-0.c"])
    assert (cache / "downloads").is_dir()
    assert stats(run)["prices"]["count"] == 0


def test_prices_travel_and_merging_is_always_legal(kept, tmp_path):
    run, _ = kept
    lines, other = tmp_path / "prices.jsonl", tmp_path / "other"
    run("cache", "export", lines)
    prices = {p["key"]: p["seconds"] for p in map(json.loads, lines.read_text().splitlines())}
    assert len(prices) == stats(run)["prices"]["count"]
    for _ in range(2):
        run("cache", "import", lines, at=other)
    assert run("cache", "export", "-", at=other).stdout == lines.read_text()
    # The shorter time counts, whatever comes first; what is not understood is counted and passed over.
    key = min(prices)
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"key": key, "seconds": prices[key] / 2}) + "\nnonsense\n" + json.dumps({"key": "new", "seconds": 1}) + "\n")
    assert "2 prices taken, 1 lines not understood" in run("cache", "import", more, at=other).stderr
    run("cache", "import", lines, at=other)
    merged = {p["key"]: p["seconds"] for p in map(json.loads, run("cache", "export", "-", at=other).stdout.splitlines())}
    assert merged == {**prices, key: prices[key] / 2, "new": 1}


def test_mistakes_are_told(kept, tmp_path):
    run, _ = kept
    assert "name the file" in run("cache", "export", code=2).stderr
    assert "name the file" in run("cache", "import", code=2).stderr
    run("cache", "polish", code=2)
    assert "absent.jsonl: cannot be read" in run("cache", "import", tmp_path / "absent.jsonl", code=3).stderr
    (tmp_path / "letter.txt").write_text("dear reader\n")
    assert "no line is a price" in run("cache", "import", tmp_path / "letter.txt", code=3).stderr
    assert "cannot write" in run("cache", "export", tmp_path / "no" / "folder.jsonl", code=3).stderr


def test_a_folder_that_others_can_enter_is_named(kept):
    run, cache = kept
    (cache / "kernels").chmod(0o755)
    assert "not used: the folder must be its owner's alone" in run("cache").stdout
