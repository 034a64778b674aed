"""emend rules synthesize: equations from the operators alone, on one small menu."""
import json


def test_products_by_themselves(emend):
    report = json.loads(emend("rules", "synthesize", "products", "--operators", 2, "--report", "taso", "--json", "-"))
    assert report["schema"] == 1
    sides = {(f["left"], f["right"]) for f in report["found"]}
    assert ("(matmul ?x ?I)", "?x") in sides
    standing = {a["name"]: a["standing"] for a in report["axioms"]}
    assert standing["matmul-associates"] in ("found", "follows")
    assert standing["scale-matmul"] in ("found", "follows")
    # Nothing of this menu speaks of convolutions.
    assert standing["conv-adds-inputs"] == "MISSING"
    assert len(standing) == 44 and report["axioms_found"] < 44


def test_the_table_knows_the_laws_of_products(emend):
    report = json.loads(emend("rules", "synthesize", "product-sums", "--new", "--json", "-"))
    assert report["found"] == [] and report["menus"][0]["derivable"] == report["menus"][0]["candidates"] > 0


def test_same_seed_same_bytes(emend):
    once, again = (emend("rules", "synthesize", "product-sums", "--seed", 5, "--json", "-") for _ in range(2))
    assert once == again


def test_wrong_menu(emend):
    done = emend.run("rules", "synthesize", "no-such-menu")
    assert done.returncode == 2
    assert "product-sums" in done.stderr
