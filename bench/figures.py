"""From times to figures, tables and the chart: pure functions, no runtimes."""
import html, statistics

PEERS = ("onnxruntime", "openvino", "before")  # whose better one is the measure; the last is raced alone


def quantile(samples, q):
    """The value below which a share q of the samples lies, straight lines between samples."""
    ordered = sorted(samples)
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def summary(rounds):
    """Of a runtime's rounds: the median of the rounds' medians, which a slow spell of a round or two does not move."""
    samples = [ms for turn in rounds for ms in turn]
    return {
        "median_ms": statistics.median(statistics.median(turn) for turn in rounds),
        "min_ms": min(samples),
        "p10_ms": quantile(samples, 0.1),
        "p90_ms": quantile(samples, 0.9),
        "runs": len(samples),
        "rounds_ms": rounds,
    }


def ms_between_ends(rounds, layers):
    """Of one of a chain's equal layers that neither read what is given nor write what is asked for, from what `steps` (tools/emend/serve.h)
    answered in every round; nothing where there is no such layer."""
    steps = rounds[0] if rounds else []
    between = [i for i, s in enumerate(steps) if not s["end"]]
    operations = sum(s["operations"] for s in steps)
    count = round(layers * sum(steps[i]["operations"] for i in between) / operations) if operations else 0
    if not count:
        return None
    # The first run of a round finds caches that others have filled.
    return summary([[sum(run) / count for run in zip(*(r[i]["ms"][1:] for i in between))] for r in rounds])["median_ms"]


def add_ratios(runtimes):
    """How many times as fast as the better peer; none where no peer ran."""
    peers = [runtimes[p]["median_ms"] for p in PEERS if "median_ms" in runtimes.get(p, {})]
    for r in runtimes.values():
        if "median_ms" in r:
            r["ratio"] = min(peers) / r["median_ms"] if peers else None


def add_shares(runtimes, flops, needed_bytes, machine):
    """Of what the machine can do at most. Above 1 where a runtime needs less arithmetic than the model has, or its weights stay in
    a cache."""
    for r in runtimes.values():
        if "median_ms" in r:
            seconds = r["median_ms"] / 1e3
            r["fma_share"] = flops / seconds / (machine["gflops"] * 1e9)
            r["bandwidth_share"] = needed_bytes / seconds / (machine["gbytes"] * 1e9)


def geometric_mean(values):
    values = list(values)
    return statistics.geometric_mean(values) if values else None


# --- text ---


def ms_text(ms):
    return f"{ms:.3f}" if ms < 10 else f"{ms:.2f}" if ms < 100 else f"{ms:.1f}"


def share_text(r):
    """The resource that is closer to its limit."""
    word, share = max((("FMA", r["fma_share"]), ("memory", r["bandwidth_share"])), key=lambda s: s[1])
    return f"{100 * share:.0f}% {word}" if share >= 0.01 else f"{100 * share:.1g}% {word}"


def optional(value, form, missing="-"):
    return missing if value is None else format(value, form)


COLUMNS = ("runtime", "ms", "min", "ratio", "share of peak", "error", "start s", "memory MB")


def row(name, r):
    if "failed" in r:
        return [name, "failed: " + r["failed"]]
    memory = r.get("peak_memory_bytes")
    return [
        name, ms_text(r["median_ms"]), ms_text(r["min_ms"]), optional(r.get("ratio"), ".2f"), share_text(r),
        optional(r.get("max_rel_err"), ".1e"), optional(r.get("start_s"), ".1f"), optional(memory and memory / 1e6, ".0f"),
    ]


def aligned(rows):
    """Columns of text; the first to the left, the others to the right. A short row ends in free text."""
    full = [r for r in rows if len(r) == len(rows[0])]
    widths = [max(len(r[c]) for r in full) for c in range(len(rows[0]))]
    widths[0] = max(len(r[0]) for r in rows)
    lines = []
    for r in rows:
        cells = [r[0].ljust(widths[0])] + ([c.rjust(w) for c, w in zip(r[1:], widths[1:])] if len(r) == len(rows[0]) else r[1:])
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def model_text(model):
    plain = lambda v: f"{v:.0f}" if v >= 100 else f"{v:.3g}"
    size = f"{model['name']}: {plain(model['flops'] / 1e9)} GFLOP, {plain(model['needed_bytes'] / 1e6)} MB that must be read"
    rows = [list(COLUMNS)] + [row(name, r) for name, r in model["runtimes"].items()]
    return size + "\n" + aligned(rows)


def summary_text(models):
    """One line a model: Emend, and where it stands."""
    rows = [["model", "emend ms", "best peer ms", "ratio"]]
    for m in models:
        r = m["runtimes"].get("emend", {"failed": "did not run"})
        peers = [m["runtimes"][p]["median_ms"] for p in PEERS if "median_ms" in m["runtimes"].get(p, {})]
        if "failed" in r:
            rows.append([m["name"], "failed: " + r["failed"]])
        else:
            rows.append([m["name"], ms_text(r["median_ms"]), ms_text(min(peers)) if peers else "-", optional(r["ratio"], ".2f")])
    mean = geometric_mean(m["runtimes"]["emend"]["ratio"] for m in models if m["runtimes"].get("emend", {}).get("ratio"))
    return aligned(rows) + (f"\ngeometric mean of the ratios: {mean:.3f}" if mean else "")


def markdown(report):
    machine = report["machine"]
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench ARGS=--update-docs`; every figure is from that one run, losses like wins.",
        "",
        f"Machine: {machine['cpu']}, {machine['threads']} threads; measured limits: {machine['gflops']:.0f} GFLOP/s of multiply-adds on"
        f" registers, {machine['gbytes']:.0f} GB/s read from memory.",
        "Runtimes: " + ", ".join(f"{name} {version}" for name, version in report["versions"].items()) + ".",
        "",
        "Batch 1, single precision. Each runtime is a process of its own; they take turns in rounds, and only one runs at a time. *ms* is the median of",
        "the rounds' medians, *ratio* how many times as fast as the better of onnxruntime and openvino, *share of peak* the larger of arithmetic and",
        "necessary traffic against the measured limits (a runtime that computes with less arithmetic than the model has can pass 100%), *error* the",
        "largest one against PyTorch in double precision, relative to the largest value of an output, *start* the time from the file to the first",
        "answer with empty caches, *memory* the largest resident size of the process.",
        "",
        "Single kernels are in [kernels.md](kernels.md).",
        "",
        "![speed relative to the better peer](bench.svg)",
        "",
        "| model | " + " | ".join(COLUMNS) + " |",
        "| --- | " + " | ".join(["---"] + ["---:"] * (len(COLUMNS) - 1)) + " |",
    ]
    for model in report["models"]:
        for i, (name, r) in enumerate(model["runtimes"].items()):
            cells = row(name, r)
            cells += [""] * (len(COLUMNS) - len(cells))
            lines.append(f"| {model['name'] if i == 0 else ''} | " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines) + "\n"


COLOURS = {"emend": "#c2410c", "onnxruntime": "#64748b", "openvino": "#0e7490", "torch.compile": "#a3a3a3"}


def chart(models):
    """Bars of speed relative to the better peer, longer is faster, grouped by model."""
    bar, gap, left, width, top = 11, 12, 130, 560, 46
    ratios = [r["ratio"] for m in models for r in m["runtimes"].values() if r.get("ratio")]
    longest = max(ratios + [1.0]) * 1.05
    scale = width / longest
    parts, y = [], top
    for m in models:
        begin = y
        for name, r in m["runtimes"].items():
            if r.get("ratio"):
                length = r["ratio"] * scale
                weight = ' font-weight="bold"' if name == "emend" else ""
                parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 1}" fill="{COLOURS.get(name, "#000")}"/>')
                parts.append(f'<text x="{left + length + 4:.1f}" y="{y + bar - 2}" font-size="9"{weight}>{r["ratio"]:.2f}</text>')
            else:
                parts.append(f'<text x="{left + 4}" y="{y + bar - 2}" font-size="9">{html.escape(name)} failed</text>')
            y += bar
        parts.append(f'<text x="{left - 8}" y="{(begin + y) / 2 + 4:.1f}" font-size="12" text-anchor="end">{html.escape(m["name"])}</text>')
        y += gap
    x, legend = left, []
    for name, colour in COLOURS.items():
        if any(name in m["runtimes"] for m in models):
            legend.append(f'<rect x="{x}" y="24" width="10" height="10" fill="{colour}"/><text x="{x + 14}" y="33" font-size="11">{name}</text>')
            x += 28 + 7 * len(name)
    line = left + scale
    total = left + width + 50
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {y}" width="{total}" height="{y}" font-family="sans-serif" fill="#1f2937">',
        f'<rect width="{total}" height="{y}" fill="#ffffff"/>',
        f'<text x="{left}" y="15" font-size="12">speed relative to the better of onnxruntime and openvino (longer is faster)</text>',
        *legend,
        f'<line x1="{line:.1f}" y1="{top - 4}" x2="{line:.1f}" y2="{y - gap}" stroke="#1f2937" stroke-dasharray="3 3"/>',
        *parts,
        "</svg>",
    ]) + "\n"
