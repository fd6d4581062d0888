"""The document of pools that open at another address: Breeze's Table V, case B, measured again. Used by report.py."""

import json

from report_parts import machine_lines, merge, number, table

# Breeze, Table V, case B: seconds by the size of the pool, with one thread and two; it does not say how many pointers an
# object has.
PAPER = {"4GiB": (18.95, 10.58), "8GiB": (21.25, 21.08), "16GiB": (42.20, 41.02)}


def seconds(s):
    w = s["wall_ns"]
    return f"{number(w['median'] / 1e9, 2)} ({number(w['min'] / 1e9, 2)} to {number(w['max'] / 1e9, 2)})"


def eager(benchmarks):
    rows = []
    for b in sorted(benchmarks, key=lambda b: b["parameters"].get("pool_bytes", 0)):
        if not b["name"].startswith("relocation-"):
            continue
        _, size, pointers = b["name"].split("-")
        p = b["parameters"]
        by_name = {s["name"]: s for s in b["systems"]}
        per_object = by_name["holdfast"]["wall_ns"]["median"] / p["objects"]
        paper = PAPER.get(size)
        rows.append([size, pointers, str(b["threads"]), p["emulated"], f"{p['objects']:,}"]
                    + [seconds(by_name[n]) for n in ("holdfast", "algorithm-1", "memory")]
                    + [number(per_object), number(paper[b["threads"] > 1], 2) if paper else ""])
    if not rows:
        return []
    return ["## Whole relocations (Table V, case B)", "",
            "Seconds by the wall clock from the first look at an object to the fence after which the old address is forgotten, of a pool "
            "full of objects of 1 KiB that begin with so many pointers; beside it the paper's Algorithm 1, mended, a transaction an object, and "
            "a loop that loads the same headers, loads and stores the same pointers and writes their lines back.", ""
            ] + table(["pool", "pointers", "threads", "emulated", "objects", "holdfast, s", "Algorithm 1, s", "memory, s", "ns an object",
                       "published elsewhere, s"], rows)


def lazily(benchmarks):
    rows = []
    for b in benchmarks:
        if not b["name"].startswith("lazily-"):
            continue
        _, what, _, size, pointers = b["name"].split("-")
        unit = 1e6 if what == "open" else 1e3
        row = [size, pointers, "open to the first transaction, ms" if what == "open" else "a page touched first, µs",
               b["parameters"]["emulated"]]
        for s in b["systems"]:
            w = s["wall_ns"]
            row.append(f"{number(w['median'] / unit, 3)} ({number(w['min'] / unit, 3)} to {number(w['max'] / unit, 3)})")
        rows.append(row)
    if not rows:
        return []
    return ["## Page by page", "", "Beside the first: the whole relocation; beside the second: touching the page once more.", ""
            ] + table(["pool", "pointers", "", "emulated", "lazily", "beside"], rows)


def write(results_directory, out):
    """Writes relocation.md from relocation*.json; its path, or nothing where there are no results."""
    report = None
    for source in sorted(results_directory.glob("relocation*.json")):
        part = json.loads(source.read_text())
        for b in part["benchmarks"]:
            if b["parameters"]["emulated"] != "none":
                b["name"] += "-" + b["parameters"]["emulated"]
        report = merge(report, part)
    if report is None:
        return []
    for b in report["benchmarks"]:
        b["name"] = b["name"].removesuffix("-" + b["parameters"]["emulated"])
    lines = ["# Pools that open at another address", ""] + machine_lines(report, "./dev bench relocation")
    lines += eager(report["benchmarks"]) + lazily(report["benchmarks"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "relocation.md").write_text("\n".join(lines).rstrip() + "\n")
    return [str(out / "relocation.md")]
