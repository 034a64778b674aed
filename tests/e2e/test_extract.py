"""The verb extract: merges found and proven to be best, the same answer every time, bad files.

Besides an e-graph written here, TENSAT's own (extraction-gym's data/tensat) where EMEND_EGRAPHS names their folder; there the search
must reach the cost that CPLEX reaches in 15 minutes.
"""
import json, os, pathlib

import pytest

BEST = {"tensat_bert": 0.704720, "tensat_vgg": 4.850757, "tensat_resnet50": 4.385795}


def merged_products(layers=6, width=4):
    """In every layer `width` products of one input, which any group of neighbours can share: a group of k costs 3 + k, one alone
    7. The last product of a layer is the next one's input. Groups also give back their halves, by splits and concatenations that
    are free, so that classes depend on one another in cycles. All of a layer in one product is best: 3 + width."""
    nodes, count = {}, iter(range(10**6))

    def add(eclass, cost, *children):
        nodes[f"n{next(count)}"] = {"op": "f", "cost": cost, "eclass": eclass, "children": list(children)}

    def group(layer, begin, end):
        return f"{layer}:{begin}-{end}"

    add("x0", 0.5)
    for layer in range(layers):
        for begin in range(width):
            for end in range(begin + 1, width + 1):
                one, size = group(layer, begin, end), end - begin
                add(one, 7 if size == 1 else 3 + size, f"x{layer}")
                for cut in range(begin + 1, end):
                    halves = group(layer, begin, cut), group(layer, cut, end)
                    add(one, 0, *halves)
                    for half in halves:
                        add(half, 0, one)
        add(f"x{layer + 1}", 0, group(layer, width - 1, width))
    first = {}
    for name, node in nodes.items():
        first.setdefault(node["eclass"], name)
    for node in nodes.values():
        node["children"] = [first[child] for child in node["children"]]
    roots = [group(layer, one, one + 1) for layer in range(layers) for one in range(width)]
    return {"nodes": nodes, "root_eclasses": roots}, 0.5 + layers * (3 + width)


@pytest.fixture(scope="module", params=["merged_products", *BEST])
def egraph(request, tmp_path_factory):
    """A file and what the best solution costs."""
    if request.param == "merged_products":
        path = tmp_path_factory.mktemp("extract") / "merged_products.json"
        graph, best = merged_products()
        path.write_text(json.dumps(graph))
        return path, best
    path = pathlib.Path(os.environ.get("EMEND_EGRAPHS", ".")) / f"{request.param}.json"
    if not path.exists():
        pytest.skip("EMEND_EGRAPHS names no folder with extraction-gym's data/tensat")
    return path, BEST[request.param]


def facts(emend, *args):
    return json.loads(emend("extract", *args, "--json", "-", "--quiet"))


def cost_of(graph, choices):
    """An independent judge: what the choices cost, each class once; fails on a cycle or a class without a choice."""
    cost, state = 0.0, {}
    stack = [(root, False) for root in graph["root_eclasses"]]
    while stack:
        cls, done = stack.pop()
        if done:
            state[cls] = "done"
            continue
        if state.get(cls) == "done":
            continue
        assert state.get(cls) != "open", f"class {cls} depends on itself"
        state[cls] = "open"
        node = graph["nodes"][choices[cls]]
        assert node["eclass"] == cls
        cost += node["cost"]
        stack.append((cls, True))
        for child in {graph["nodes"][child]["eclass"] for child in node["children"]}:
            if state.get(child) != "done":
                stack.append((child, False))
    return cost


def test_reaches_the_best_known_cost_and_says_how(emend, egraph, tmp_path):
    out = tmp_path / "choices.json"
    path, best = egraph
    found = facts(emend, path, "--seed", 3, "--out", out)
    assert found["schema"] == 1 and found["lower_bound"] is None and not found["optimal"]
    assert found["cost"] == pytest.approx(best, abs=1e-6)
    graph = json.loads(path.read_text())
    assert cost_of(graph, json.loads(out.read_text())["choices"]) == pytest.approx(found["cost"], rel=1e-12)


def test_baselines_are_solutions_and_dearer(emend, egraph, tmp_path):
    path, best = egraph
    graph = json.loads(path.read_text())
    for method in "greedy-tree", "greedy-dag":
        out = tmp_path / method
        found = facts(emend, path, "--method", method, "--out", out)
        assert cost_of(graph, json.loads(out.read_text())["choices"]) == pytest.approx(found["cost"], rel=1e-12)
        assert found["cost"] >= best - 1e-6


def test_certify_gives_a_bound(emend, egraph):
    path, _ = egraph
    found = facts(emend, path, "--certify", "--seconds", 20)
    assert 0.9 * found["cost"] < found["lower_bound"] <= found["cost"] + 1e-12
    assert found["optimal"] == (found["lower_bound"] == found["cost"])
    # Only this one needs a solver.
    assert found["optimal"] or path.stem == "tensat_bert"


def test_same_seed_same_bytes_for_any_number_of_threads(emend, egraph, tmp_path):
    texts = set()
    for threads in 1, 2, 4:
        out = tmp_path / f"{threads}.json"
        emend("extract", egraph[0], "--seed", 5, "--starts", 3, "--threads", threads, "--out", out, "--quiet")
        texts.add(out.read_text())
    assert len(texts) == 1


NODE = '"n": {"op": "f", "cost": 1, "eclass": "A", "children": []}'
BAD = {
    "truncated": ('{"nodes": {"n": {"op"', "ends too early"),
    "not-json": ("nodes!", "this is not JSON"),
    "no-nodes": ("{}", '"nodes"'),
    "nan": ('{"nodes": {"n": {"cost": NaN, "eclass": "A"}}, "root_eclasses": ["A"]}', "this is not JSON"),
    "text-cost": ('{"nodes": {"n": {"cost": "NaN", "eclass": "A"}}, "root_eclasses": ["A"]}', "node n: its cost is not a number"),
    "negative": ('{"nodes": {"n": {"cost": -2, "eclass": "A"}}, "root_eclasses": ["A"]}', "node n of class A costs -2"),
    "cyclic": ('{"nodes": {"n": {"eclass": "A", "children": ["m"]}, "m": {"eclass": "B", "children": ["n"]}}, "root_eclasses": ["A"]}', "cyclic"),
    "child": ('{"nodes": {"n": {"eclass": "A", "children": ["m"]}}, "root_eclasses": ["A"]}', "its child m does not exist"),
    "root": ('{"nodes": {%s}, "root_eclasses": ["B"]}' % NODE, "root B"),
    "no-root": ('{"nodes": {%s}, "root_eclasses": []}' % NODE, "no root"),
    "empty-class": ('{"nodes": {"n": {"eclass": "A", "subsumed": true}}, "root_eclasses": ["A"]}', "class A has no nodes"),
    "deep": ("[" * 100000, "nested too deeply"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_end_with_one_clear_line(emend, tmp_path, name):
    text, reason = BAD[name]
    path, out = tmp_path / f"{name}.json", tmp_path / "out.json"
    path.write_text(text)
    done = emend.run("extract", path, "--out", out)
    assert done.returncode == 3, done.stderr
    [line] = done.stderr.splitlines()
    assert str(path) in line and reason in line
    assert not done.stdout and not out.exists()


def test_bad_options_are_usage_errors(emend, tmp_path):
    assert emend.run("extract", tmp_path / "x.json", "--method", "best").returncode == 2
    assert emend.run("extract").returncode == 2
    assert emend.run("extract", tmp_path / "none.json").returncode == 3


def test_costs_whose_sum_is_infinite_are_refused(emend, tmp_path):
    graph = tmp_path / "dear.json"
    node = lambda eclass, *children: {"op": "x", "children": list(children), "eclass": eclass, "cost": 1e308}
    graph.write_text(json.dumps({"nodes": {"a": node("0"), "b": node("1", "a")}, "root_eclasses": ["1"]}))
    done = emend.run("extract", graph)
    assert done.returncode == 3 and "dear.json: the costs are so large" in done.stderr
