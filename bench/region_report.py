"""The document of regions: figures 8, 10, 11, 15 and 16 of the Lewat paper measured again, beside what its text says of
them. Used by report.py."""

import json

from report_parts import machine_lines, merge, number, table
from suite_report import Results, system, to_html

PAPER = {
    "calls": "Fig. 10 (a million calls): 24.3 to 88.4 % less time than the peers to allocate, 19.5 to 91.7 % to free, 8.6 to "
             "88.3 % to attach; allocating small regions takes 28.5 % less than large ones.",
    "read": "Fig. 11a: 1.9 to 3.3 times as fast where the peer calls the system, 1.5 to 2.1 else.",
    "insert": "Fig. 11b: 2.3 to 4.1 times PMDK, 1.8 to 2.9 HEAPO, 1.2 to 1.8 EFLightPM.",
    "update": "Fig. 11c: 3.0 to 3.7 times below 256 bytes.",
    "partial": "Fig. 11d (regions of 2 KiB): up to 1.8 to 1.9 times.",
    "append": "Fig. 11e (half of it more): 2.1 to 4.6 times.",
    "truncate": "Fig. 11f (half of it less): 4.9 to 12.9 times, the same for all sizes.",
    "share": "Fig. 8 (2 KiB): at 10 % CERL is 1.35 times REDO and 1.88 times COUL; at 50 % and more COUL is 1.12 to 1.27 times "
             "REDO and 1.77 to 2.54 times CERL.",
    "wear": "Fig. 15: blocks of HEAPO are written up to a million times and more than 90 % of them less than 100; of Lewat at most "
            "200, twice its counter (blocks of data). Levelling costs up to 5 % (VAR); start-gap 4, 3, 15 and 19 % for APP, ETC, VAR "
            "and SYS.",
    "runs": "Fig. 16 (no sizes in the text): small allocations 1.06 to 7.79 times the peers, large ones 2.35 to 2.71 times "
            "PAllocator.",
    "waits": "Section IV-F, without figures: readers beside writers read on, and register after a wait.",
}
SUBJECT = "regions"
PEERS = ("libpmemobj", "libpmemobj, atomic", "undo", "redo", "log", "mnemosyne", "mnemosyne-undo")
WAYS = ("regions", "regions, copy", "regions, checked", "regions, marked", "regions, replica", "regions, two copies")


def spread(s):
    """Median and range of the runs, nanoseconds of processor time."""
    if s is None:
        return ""
    ns = s["cpu_ns"]
    return f"{number(ns['median'])} ({number(ns['min'])} to {number(ns['max'])})"


def best(benchmark, names):
    there = [s for s in (system(benchmark, n) for n in names) if s]
    return min(there, key=lambda s: s["cpu_ns"]["median"]) if there else None


def times(slower, faster):
    return number(slower["cpu_ns"]["median"] / faster["cpu_ns"]["median"], 2) if slower and faster else ""


def counted(s):
    """Lines and fences of an operation: the library's own count, which has what it does in the background, or stepping."""
    c = (s.get("own_counts") or s.get("counts")) if s else None
    return f"{number(c['lines'], 1)}, {number(c['fences'], 1)}" if c else ""


def figure(results, kind, title, text):
    rows = []
    for b in results.all:
        if not b["name"].startswith(kind + "-") or system(b, SUBJECT) is None:
            continue
        ours = system(b, SUBJECT)
        pmdk = best(b, PEERS[:2])
        own = best(b, PEERS[2:])
        rows.append([b["name"].split("-")[1], spread(ours)] + [spread(system(b, p)) for p in PEERS]
                    + [times(pmdk, ours), times(own, ours), counted(ours), counted(pmdk)])
    if not rows:
        return []
    return [f"## {title}", "", "- " + text, ""] + table(
        ["bytes", "regions"] + list(PEERS) + ["x libpmemobj", "x best engine", "lines, fences", "libpmemobj's"], rows)


def techniques(results):
    rows = []
    for b in results.all:
        if not b["name"].startswith("share-"):
            continue
        _, law, size, share = b["name"].split("-")
        found = [system(b, w) for w in WAYS]
        fixed = best(b, WAYS[1:])
        rows.append([law, size, share] + [spread(s) for s in found]
                    + [fixed["name"].split(", ")[1] if fixed else "", times(fixed, found[0])])
    if not rows:
        return []
    return ["## Techniques (Fig. 8)", "", "- " + PAPER["share"], "",
            "Nanoseconds of processor time an update. The last column: how many times as fast the adaptive choice is as the "
            "best technique by itself.", ""
            ] + table(["choice", "bytes", "%", "adaptive", "copy", "checked", "marked", "replica", "two copies",
                       "best", "adaptive / best"], rows)


def cost(s):
    c = s.get("times_none")
    return f"{number(c['median'], 2)} ({number(c['min'], 2)} to {number(c['max'], 2)})" if c else ""


def wear(results):
    rows = []
    for b in results.all:
        if not b["name"].startswith("wear-"):
            continue
        for s in b["systems"]:
            at = s["permille"]
            apart = "start-gap" not in s["name"]
            rows.append([b["name"].removeprefix("wear-"), s["name"], number(s["most"])]
                        + [number(s[k]) if apart else "" for k in ("most_of_regions", "most_of_log", "most_besides")]
                        + [number(at[q]) for q in (1, 10, 100, 500)]
                        + [number(s["above_400"]), number(s["operation_ns"]["median"]), cost(s)])
    if not rows:
        return []
    p = next(b for b in results.all if b["name"].startswith("wear-"))["parameters"]
    return ["## Wear (Fig. 15)", "", "- " + PAPER["wear"], "",
            f"Times that a block of 256 bytes was written in {p['operations']:,} operations on {p['items']:,} items: the most, in pages "
            "of regions (replicas too) or the items' places, in the log, in the page map and all else; blocks in falling order, at a thousandth, a "
            "hundredth, a tenth and the middle. A log is a ring of 256 KiB here, as a pool of 1 GiB has it: what its blocks are "
            "written grows with the run and falls with the ring. Last: nanoseconds of an operation, and how many times those of "
            "regions without levelling (none), neighbours compared.", ""
            ] + table(["mix", "system", "most", "regions", "log", "other", "1/1000", "1/100", "1/10", "1/2", "blocks above 400", "ns", "x none"],
                      rows)


def runs(results):
    rows = []
    for b in results.all:
        if not b["name"].startswith("runs-"):
            continue
        found = {s["name"]: s["pair_ns"] for s in b["systems"]}
        names = ("regions", "pages", "libpmemobj", "jemalloc")
        ratio = (number(found["libpmemobj"]["median"] / found["regions"]["median"], 2) if "libpmemobj" in found else "")
        rows.append([b["name"].removeprefix("runs-"), str(b["threads"])]
                    + [f"{number(found[n]['median'])} ({number(found[n]['min'])} to {number(found[n]['max'])})" if n in found else ""
                       for n in names] + [ratio])
    if not rows:
        return []
    return ["## Allocating (Fig. 16)", "", "- " + PAPER["runs"], "",
            "Nanoseconds of a thread's processor time to free the oldest of those that it keeps and make another, with its first word: "
            "regions, with the room for all of their bytes; runs of pages alone, with their entry on media; libpmemobj by its atomic "
            "calls; jemalloc, which keeps nothing.", ""
            ] + table(["size", "threads", "regions", "pages", "libpmemobj", "jemalloc", "x libpmemobj"], rows)


def waits(results):
    rows = []
    for b in results.all:
        if not b["name"].startswith("waits-"):
            continue
        for s in b["systems"]:
            rows.append([b["name"].removeprefix("waits-"), s["name"]]
                        + [number(s[k]) for k in ("p50_ns", "p99_ns", "p999_ns", "longest_ns")] + [number(s["calls"])])
    if not rows:
        return []
    return ["## Waiting (section IV-F)", "", "- " + PAPER["waits"], "", "Nanoseconds of a call by the wall clock, median of the rounds.", ""
            ] + table(["call", "beside", "p50", "p99", "p99.9", "longest", "calls"], rows)


def merged(results_directory):
    """region.json, and what region-parts.json and others add to it; of recovery.json what is about regions."""
    report = None
    for source in sorted(results_directory.glob("region*.json")):
        report = merge(report, json.loads(source.read_text()))
    for source in sorted(results_directory.glob("recovery*.json")):
        part = json.loads(source.read_text())
        part["benchmarks"] = [b for b in part["benchmarks"] if b["name"].startswith(("regions-", "stores-"))]
        if part["benchmarks"]:
            report = merge(report, part)
    return report


def opening(results):
    rows = []
    for b in results.all:
        if b["name"].startswith(("regions-", "stores-")):
            for s in b["systems"]:
                w = s["wall_ns"]
                rows.append([b["name"], s["name"]] + [number(w[k] / 1e6, 2) for k in ("median", "min", "max")])
    if not rows:
        return []
    return ["## Opening", "",
            "Milliseconds by the wall clock from the call that opens the pool to the return of the first read of one of so many regions "
            "of 256 bytes, or entries of a key-value store; the owner had closed it, or was killed after a change.", ""
            ] + table(["", "system", "median", "min", "max"], rows)


def write(results_directory, out):
    """Writes region.md and region.html; the paths, or nothing where there are no results."""
    report = merged(results_directory)
    if report is None:
        return []
    results = Results(report)
    out.mkdir(parents=True, exist_ok=True)
    lines = ["# Regions", ""] + machine_lines(report, "./dev bench region")
    lines += ["Nanoseconds of processor time an operation, of the whole process, with what libraries do in the background: median "
              "of the runs (least to most). Peers keep one object for each number, found by a table of addresses, lengths "
              "and capacities; `libpmemobj, atomic` uses the calls that need no transaction. x: how many times as fast "
              "regions are as the faster of libpmemobj's two, and as the best of our own engines.", ""]
    for kind, title in (("create", "Creating (Fig. 10)"), ("free", "Freeing (Fig. 10)"), ("attach", "Attaching (Fig. 10)")):
        lines += figure(results, kind, title, PAPER["calls"])
    for kind, title in (("read", "Reading the whole (Fig. 11)"), ("insert", "A new one with its bytes (Fig. 11)"),
                        ("update", "Updating the whole (Fig. 11)"), ("partial", "Updating a part of 2 KiB (Fig. 11)"),
                        ("append", "Appending half of it (Fig. 11)"), ("truncate", "Truncating to half (Fig. 11)")):
        lines += figure(results, kind, title, PAPER[kind])
    lines += techniques(results) + wear(results) + runs(results) + waits(results) + opening(results)
    (out / "region.md").write_text("\n".join(lines).rstrip() + "\n")
    (out / "region.html").write_text(to_html(lines, "Holdfast: regions"))
    return [str(out / "region.md"), str(out / "region.html")]
