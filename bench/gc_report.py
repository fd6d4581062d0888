"""The document of collection: marking beside libgc, lists that die, a year of kills, collections beside transactions and
of object stores, and what counting references costs a commit. Used by report.py."""

import json
import statistics

from report_parts import machine_lines, merge, number, table

UNCOUNTED = "described: not counted"
COUNTED = {"at rest": "described: counted at rest", "in the background": "described: counted in the background"}


def spread(s, digits=0):
    return f"{number(s['median'], digits)} ({number(s['min'], digits)} to {number(s['max'], digits)})"


def marking(benchmarks):
    rows = []
    for b in benchmarks:
        if not b["name"].startswith("mark-"):
            continue
        _, graph, size = b["name"].split("-")
        ns = {s["name"]: s["wall_ns"] for s in b["systems"]}
        row = [graph, size, str(b["threads"]), f"{b['parameters']['objects']:,}"]
        row += [spread(ns[n], 1) if n in ns else "" for n in ("holdfast", "libgc", "libgc, typed")]
        row += [number(next((r["wall"]["median"] for r in b["ratios"] if r["peer"] == p), None), 2) for p in ("libgc", "libgc, typed")]
        rows.append(row)
    if not rows:
        return []
    return ["## Marking", "",
            "Nanoseconds of the wall clock an object, from the call to its return, nothing to free: `nvm_gc()` as a dry run beside the "
            "Boehm collector's `GC_gcollect()` on the same graph in ordinary memory, which looks at every word, or where it was told "
            "that pointers are (typed). Each system runs in a process of its own, so that what else the machine does may fall on one of them.", ""
            ] + table(["graph", "bytes", "threads", "objects", "holdfast", "libgc", "libgc, typed", "x libgc", "x typed"], rows)


def dying(benchmarks):
    rows = []
    for b in benchmarks:
        if not b["name"].startswith("dies-"):
            continue
        p = b["parameters"]
        rows.append([b["name"], f"{p['nodes']:,}", spread(b["systems"][0]["wall_ns"]), number(p["transactions"]) if p["transactions"] else "",
                     number(p["left"])])
    if not rows:
        return []
    return ["## A list that dies", "",
            "Its first node is unlinked; nanoseconds a node until `nvm_settle()` returns, which a thread with a stack of 64 KiB has called. "
            "`dies-killed`: killed after half of that time; the next open and its `nvm_settle()`, by nodes of the whole list, after which "
            "none may be left.", ""] + table(["", "nodes", "ns a node", "transactions", "objects left"], rows)


def year(benchmarks):
    rows = []
    for b in benchmarks:
        if not b["name"].startswith("year-"):
            continue
        p = b["parameters"]
        rows.append([b["name"], number(p["kills"]), number(p["seconds"], 1), number(p["transactions"]), number(p["objects"]),
                     f"{number(p['used_pages_most'])} of {number(p['pages'])}", number(p["traces"]), number(p["freed_by_traces"]),
                     "yes" if p["full"] else "no"])
    if not rows:
        return []
    return ["## Programs that unlink and forget", "",
            "A pool of 64 MiB; each program is killed after a tenth of a second. Counted: in the background, and one program in 64 traces "
            "at its beginning.", ""
            ] + table(["", "kills", "seconds", "transactions", "objects made", "pages in use at most", "traces", "freed by traces", "full"], rows)


def micros(ns, key):
    return number(ns[key] / 1e3, 1)


def named(benchmarks, prefix):
    return [(b["name"], b, b["parameters"]) for b in benchmarks if b["name"].startswith(prefix)]


def beside(benchmarks):
    rows = []
    for _, b, p in named(benchmarks, "beside-"):
        rows.append([str(b["threads"]), f"{p['processor_percent']} %", f"{p['objects']:,}", spread(p["without_ops_s"]),
                     spread(p["share"], 2), micros(p["without_ns"], "p99.9"), micros(p["beside_ns"], "p99.9"),
                     micros(p["without_ns"], "max"), micros(p["beside_ns"], "max"), number(p["pause_ns"] / 1e3, 1),
                     number(p["collections"]), number(p["freed_objects"])])
    if not rows:
        return []
    return ["## Beside transactions", "",
            "Threads replace objects and leak one of ten, first alone, then while one more thread calls `nvm_gc()` with `beside` again and "
            "again, with so much of a processor at most. Transactions a second, and the share of them that is left; the time of one, "
            "microseconds; hold-up: the longest time for which the collection may have kept the end of a transaction waiting. The rest of "
            "the longest transactions is what the machine does besides: where there are no more processors than threads, they share.", ""
            ] + table(["threads", "collector", "objects", "transactions/s without", "beside, times", "p99.9 µs without", "beside",
                       "longest µs without", "beside", "hold-up µs", "collections", "freed"], rows)


def leaks(benchmarks):
    rows = []
    for name, _, p in named(benchmarks, "stores-leak-"):
        rows.append([name.removeprefix("stores-leak-"), number(p["stores"]), number(p["replaced"]), number(p["seconds"], 1),
                     number(p["used_times_live_at_most"], 2), number(p["pages_times_live_at_most"], 2),
                     number(p["used_times_live_at_end"], 2), number(p["local"]["finished"]), number(p["detached"]["finished"]),
                     number(p["local"]["freed_objects"] + p["detached"]["freed_objects"])])
    if not rows:
        return []
    return ["## Object stores: a service that leaks", "",
            "Stores of 1 MiB, one after the other taken up; objects are replaced, and one of ten leaks. What objects and pages take, by "
            "what lives. `local-15`: collected when a store has grown by 15 % in place of 50.", ""
            ] + table(["collected", "stores", "replaced", "seconds", "objects at most", "pages at most", "objects at the end", "local",
                       "detached", "freed"], rows)


def pauses(benchmarks):
    rows = []
    for _, _, p in named(benchmarks, "stores-pause"):
        for what, ns in (("without", p["without_ns"]), ("during", p["during_ns"])):
            rows.append([f"{p['megabytes']} MiB", what, number(ns["samples"])] +
                        [micros(ns, key) for key in ("p50", "p99", "p99.9", "max")])
    if not rows:
        return []
    return ["## Object stores: allocations beside a local collection", "",
            "The time of an allocation in a store, microseconds, while none runs and while it is collected by the threads that allocate.", ""
            ] + table(["store", "collection", "samples", "p50 µs", "p99 µs", "p99.9 µs", "longest µs"], rows)


def scans(benchmarks):
    rows = []
    for _, b, p in sorted(named(benchmarks, "stores-scan-"), key=lambda scan: scan[2]["objects"]):
        ns = {s["name"]: s["wall_ns"]["median"] for s in b["systems"]}
        times_of = {r["peer"]: r["wall"]["median"] for r in b["ratios"]}
        row = [f"{p['objects']:,}", number(ns["words"], 3)]
        for peer in ("hash", "binary search", "sorted sets, one round", "the structure itself"):
            row.append(f"{number(ns[peer], 2)} ({number(times_of[peer], 1)} x)" if peer in ns else "")
        rows.append(row)
    if not rows:
        return []
    return ["## Object stores: Fast Scan", "",
            "All garbage of a store of which one object in ten is garbage, nanoseconds an object: allocation words without mark words, beside "
            "looking up each allocated object in the set of reachable ones, and the paper's round over two sorted sets, with how many times "
            "as long they take.", ""] + table(["objects", "words", "hash", "binary search", "sorted sets, one round", "the list itself"], rows)


def shares(benchmarks):
    rows = []
    for _, _, p in named(benchmarks, "stores-share"):
        for what, ns in (("without", p["attach_without_ns"]), ("beside", p["attach_beside_ns"])):
            rows.append([number(p["stores"]), what, f"{p['share_of_a_processor'] * 100:.2f} %" if what == "beside" else "",
                         micros(p["detached"], "longest_ns") if what == "beside" else ""] +
                        [micros(ns, key) for key in ("p50", "p99.9", "max")])
    if not rows:
        return []
    return ["## Object stores: the thread for detached ones", "",
            "The thread's share of a processor while there is garbage, and its longest slice. The time of an attach, without the thread and beside it.", ""
            ] + table(["stores", "thread", "of a processor", "longest slice µs", "attach p50 µs", "p99.9 µs", "longest µs"], rows)


def times(counted, plain):
    ratios = [a / b for a, b in zip(counted["cpu_ns"]["sample"], plain["cpu_ns"]["sample"])]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def counting(benchmarks):
    rows = []
    for b in benchmarks:
        by_name = {s["name"]: s for s in b["systems"]}
        if UNCOUNTED not in by_name:
            continue
        plain = by_name[UNCOUNTED]
        for when, name in COUNTED.items():
            s = by_name.get(name)
            if s is None:
                continue
            row = [b["name"], str(b["threads"]), when, spread(plain["cpu_ns"]), spread(s["cpu_ns"]), times(s, plain)]
            for key in ("fences", "lines"):
                row += [number(x.get("own_counts", {}).get(key), 2) for x in (plain, s)]
            row += [number(x.get("latency_ns", {}).get("p50", 0) / 1e3, 1) for x in (plain, s)]
            rows.append(row)
    if not rows:
        return []
    return ["## What counting costs", "",
            "Nanoseconds of processor time of an operation, of the whole process, with the thread that counts and frees; engine undo, the "
            "suite's structures with described nodes. Fences and lines are those of all threads of the library, with what it counts and frees "
            "later; p50: of the operation by itself, microseconds.", ""
            ] + table(["operation", "threads", "counted", "ns, not counted", "ns, counted", "times", "fences", "counted", "lines",
                       "counted", "p50 µs", "counted"], rows)


def write(results_directory, out):
    """Writes gc.md from gc*.json and counting.json; its path, or nothing where there are no results."""
    report = None
    for source in sorted(results_directory.glob("gc*.json")) + sorted(results_directory.glob("counting*.json")):
        report = merge(report, json.loads(source.read_text()))
    if report is None:
        return []
    lines = ["# Collection", ""] + machine_lines(report, "./dev bench gc")
    for part in (marking, beside, dying, year, leaks, pauses, scans, shares, counting):
        lines += part(report["benchmarks"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "gc.md").write_text("\n".join(lines).rstrip() + "\n")
    return [str(out / "gc.md")]
