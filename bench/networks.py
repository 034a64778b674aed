#!/usr/bin/env python3
"""Networks as people write them, from seeds: lists their kinds, writes files of them, checks that they compute something.

    networks.py --list
    networks.py --write DIR --count 300 --seed 1 [--kind aspp] [--batch 8]
    networks.py --check --count 5 [--kind aspp]

Without --kind the seeds from --seed on go round through all kinds; --kind takes several, named ones (named/dilated) among them, and draws --count of
each. The same arguments write the same bytes.
"""
import argparse, pathlib, sys

from networks import KINDS, NAMED, draw, write


def wanted(options):
    """Pairs of a seed and a kind."""
    seeds = range(options.seed, options.seed + options.count)
    if not options.kind:
        return [(seed, None) for seed in seeds]
    return [(seed, kind) for kind in options.kind for seed in (seeds if kind in KINDS else seeds[:1])]


def check_all(options):
    from networks.check import check

    bad = 0
    print(f"{'network':<32}{'batch':>6}{'nodes':>7}{'MiB':>8}{'ms':>9}{'largest':>10}")
    for seed, kind in wanted(options):
        name, model = draw(seed, kind, options.batch)
        batch, found = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value, check(model, options.threads)
        bad += bool(found.faults)
        facts = f"{batch:>6}{found.nodes:>7}{found.megabytes:>8.2f}{found.milliseconds:>9.2f}{found.largest:>10.3g}"
        print(f"{name:<32}{facts}  {'; '.join(found.faults)}".rstrip(), flush=True)
    print(f"{bad} of them refused" if bad else "all compute something")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="the kinds and what is named")
    what.add_argument("--write", type=pathlib.Path, metavar="DIR", help="write files NAME.onnx there")
    what.add_argument("--check", action="store_true", help="run each in onnxruntime; one with NaN, infinities or a constant output is refused")
    parser.add_argument("--count", type=int, default=300, help="how many; of each kind where --kind is given (300)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--kind", nargs="+", choices=[*KINDS, *NAMED, "all"], metavar="KIND", help="these alone; all: every kind, and what is named")
    parser.add_argument("--batch", type=int, help="instead of the one that is drawn")
    parser.add_argument("--threads", type=int, default=2, help="of --check (2)")
    options = parser.parse_args()
    if options.kind == ["all"]:
        options.kind = [*KINDS, *NAMED]
    if options.list:
        for name, make in (KINDS | NAMED).items():
            print(f"{name:<26}{(make.__doc__ or '').split(chr(10))[0]}".rstrip())
    elif options.write:
        for seed, kind in wanted(options):
            print(write(options.write, seed, kind, options.batch))
    return check_all(options) if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
