#!/usr/bin/env python3
"""Turns benchmark results (JSON of bench/run.sh) into Markdown tables and plots.

usage: bench/report.py [--results DIR] [--out DIR]

For each of transactional.json, ssd.json, recovery.json and compiler.json (with volatile.json) in the results directory it
writes a document and a plot, with the figures that the papers print beside ours; for suite.json, suite-lsnvmm.json and
suite-log-free.json one document, also as an HTML page (suite_report.py); lockfree.json another (lockfree_report.py);
region.json and region-parts.json one (region_report.py); lewat.json one (lewat_report.py); gc.json and counting.json one
(gc_report.py); relocation.json one (relocation_report.py); logheap.json and mapping.json one (logheap_report.py);
server.json and server-ssd.json one (server_report.py), churn.json one (churn_report.py), stores.json one
(stores_report.py), tier.json one (tier_report.py), ycsb.json and ycsb-breeze.json one (ycsb_report.py). Of lockfree, region,
lewat, gc, counting, relocation, logheap and stores what several runs have left (NAME*.json) becomes one document. Needs
matplotlib (python3-matplotlib).
"""

import argparse
import json
import os
import pathlib
import sys

try:
    import matplotlib
except ModuleNotFoundError:
    # The package of the distribution belongs to its own interpreter.
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv)
    sys.exit("report: matplotlib is not installed (python3-matplotlib)")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the back end is chosen)

import churn_report  # noqa: E402
import gc_report  # noqa: E402
import lewat_report  # noqa: E402
import lockfree_report  # noqa: E402
import logheap_report  # noqa: E402
import region_report  # noqa: E402
import relocation_report  # noqa: E402
import server_report  # noqa: E402
import stores_report  # noqa: E402
import suite_report  # noqa: E402
import tier_report  # noqa: E402
import ycsb_report  # noqa: E402
from report_parts import machine_lines, number, table  # noqa: E402

# Breeze, Table IV: average time of an allocation in microseconds, on that paper's machine.
TABLE_IV = {"alloc-1024": (2.51, 4.74, 16.59), "alloc-2048": (2.02, 4.76, 16.56), "alloc-4096": (2.48, 6.01, 16.59)}
# Breeze, Table V, case A: seconds of recovery, by pool and number of threads, on that paper's machine.
TABLE_V = {"4GiB": {1: 0.62, 2: 0.31}, "8GiB": {1: 0.86, 2: 0.59}, "16GiB": {1: 1.72, 2: 1.24}}

# How many times as fast as libpmemobj Holdfast is meant to be, by the beginning of the benchmark's name; longest match.
GOALS = {"": 1.0, "alloc-free": 3.0, "sps-1": 2.0, "sps-8": 3.0, "sps-64": 3.0, "overwrite": 1.5,
         "hashtable-ycsb-A": 2.0, "hashtable-ycsb-F": 2.0, "bptree-ycsb-A": 2.0, "bptree-ycsb-F": 2.0}
CLEAN_OPEN_GOAL_US = 100
COLOURS = {"subject": "#1f6f8b", "peer": "#c7803a", "limit": "#9a9a9a"}


def goal_of(name):
    return GOALS[max((prefix for prefix in GOALS if name.startswith(prefix)), key=len)]


def threads_of(benchmark):
    return f"{benchmark['threads']} thread{'' if benchmark['threads'] == 1 else 's'}"


def counts_row(system):
    counts = system.get("counts", {})
    return [number(counts.get("fences"), 2), number(counts.get("waiting_locks"), 2), number(counts.get("lines"), 2), number(counts.get("logged_bytes")),
            number(system.get("percent_of_limit"))]


def executes(report):
    """For each system, the instructions that were seen to write lines back."""
    seen = {}
    for benchmark in report["benchmarks"]:
        for system in benchmark["systems"]:
            for part in system.get("counts", {}).get("executes", "none").split(", "):
                if part != "none":
                    seen.setdefault(system["name"], set()).add(part.rsplit(" ", 1)[0])
    return [f"- {name}: {', '.join(sorted(kinds))}" for name, kinds in seen.items()]


def ratio_rows(report, peer, subject="holdfast", goal_for=goal_of):
    rows = []
    for benchmark in report["benchmarks"]:
        for ratio in benchmark["ratios"]:
            if ratio["peer"] != peer or ratio["subject"] != subject:
                continue
            goal = goal_for(benchmark["name"])
            wall, cpu = ratio["wall"], ratio.get("cpu", ratio["wall"])
            rows.append([benchmark["name"], str(benchmark["threads"]), number(wall["median"], 2),
                         f"{wall['min']:.2f} to {wall['max']:.2f}", number(cpu["median"], 2), number(goal, 2),
                         "yes" if wall["median"] >= goal else "**no**"])
    return rows


def all_figures(report):
    lines = ["## All figures", "",
              "Nanoseconds for each unit and thread. Fences, lines written back and bytes logged are counted for each "
              "unit; locks are locked instructions that found a write-back outstanding and waited for it as a fence does. The limit stores, writes back and fences as many lines over the same footprint and does nothing "
              "else; a system at 100 % of it spends all its time waiting for memory.", ""]
    for benchmark in report["benchmarks"]:
        lines += [f"### {benchmark['name']}, {threads_of(benchmark)}", "", f"Unit: {benchmark['unit']}.", ""]
        rows = []
        for s in benchmark["systems"]:
            wall = s["wall_ns"]
            rows.append([s["name"], number(wall["median"]), number(wall["min"]), number(wall["max"]),
                         number(s["cpu_ns"]["median"])] + counts_row(s))
        lines += table(["system", "median", "min", "max", "CPU", "fences", "locks", "lines", "bytes logged", "% of limit"], rows)
    return lines


def transactional(report):
    lines = ["# Transactions on byte-addressable memory", "",
             "What a transaction costs beside libpmemobj and beside the machine's own limit.", ""]
    lines += machine_lines(report, "./dev bench transactional")
    lines += ["Write-back instructions that each system was seen to execute (single-stepped):", ""]
    lines += executes(report) + [""]
    rows = ratio_rows(report, "libpmemobj")
    if rows:
        lines += ["## How many times as fast as libpmemobj", "",
                  "Median of the ratios of neighbouring repetitions, and their extremes.", ""]
        lines += table(["benchmark", "threads", "ratio", "spread", "by CPU time", "goal", "met"], rows)
    table_iv = [b for b in report["benchmarks"] if b["name"] in TABLE_IV and b["threads"] == 1]
    if table_iv:
        names = [s["name"] for s in table_iv[0]["systems"] if s["role"] != "limit"]
        lines += ["## Allocation beside Breeze's Table IV", "",
                  "Microseconds of one allocation in a transaction of its own. The paper's figures come from its own "
                  "machine and emulated memory: they are for the shape, not for comparison.", ""]
        rows = []
        for benchmark in table_iv:
            median = {s["name"]: s["wall_ns"]["median"] / 1e3 for s in benchmark["systems"]}
            rows.append([f"{benchmark['parameters']['object_bytes']} B"] + [number(median[n], 2) for n in names]
                        + [number(v, 2) for v in TABLE_IV[benchmark["name"]]])
        lines += table(["object"] + names + ["Breeze, published elsewhere", "NVML, published elsewhere",
                                          "NVM-Direct, published elsewhere"], rows)
    return lines + all_figures(report)


def compiler(report, results):
    lines = ["# Log calls placed by the compiler", "",
             "The examples' tables with values of 100 bytes, their stores logged by `holdfast-cc` or by hand; both built "
             "by Clang 19 at -O2.", ""]
    lines += machine_lines(report, "./dev bench compiler")
    lines += ["## How many times as fast as log calls by hand", "", "At most 10 % slower is the goal: 0.91.", ""]
    rows = ratio_rows(report, "log calls by hand", "holdfast-cc", lambda name: 1 / 1.1)
    lines += table(["benchmark", "threads", "ratio", "spread", "by CPU time", "goal", "met"], rows)
    volatile = results / "volatile.json"
    if volatile.exists():
        measured = json.loads(volatile.read_text())
        lines += ["## Programs that never touch a pool", "",
                  "Processor time with the pass over that without, medians of alternating runs "
                  "(`bench/compiler/volatile_overhead.py`). The goal is at most 1.05 as geometric mean.", ""]
        rows = []
        for one in measured["programs"]:
            plain, passed = one["seconds"]["plain"], one["seconds"]["pass"]
            rows.append([one["program"], f"{min(plain):.3f} to {max(plain):.3f}", f"{min(passed):.3f} to {max(passed):.3f}",
                         f"{one['ratio']:.3f}"])
        rows.append(["geometric mean", "", "", f"{measured['geometric_mean']:.3f}"])
        lines += table(["program", "plain, s", "with the pass, s", "ratio"], rows)
    return lines + all_figures(report)


def ssd(report):
    lines = ["# Durable commits on a file system", "",
             "One put in a transaction of its own, durable when it returns, beside LMDB, SQLite and RocksDB on the same file "
             "system; each repetition lasts 20 seconds and more, checkpoints included. The last tables have one object each, "
             "made, filled and committed, beside a plain file that pwrite() fills and one fdatasync() makes durable; "
             "256 MiB and more a repetition. Durable waits are calls by which the process waits for the device: fdatasync "
             "and its kin, and writes to a descriptor opened with O_DSYNC.", ""]
    lines += machine_lines(report, "./dev bench ssd")
    for benchmark in report["benchmarks"]:
        lines += [f"## {benchmark['name']}, {threads_of(benchmark)}", ""]
        rows = []
        for s in benchmark["systems"]:
            latency = s["latency_ns"]
            rows.append([s["name"], number(1e9 * benchmark["threads"] / s["wall_ns"]["median"])]
                        + [number(latency[q] / 1e3) for q in ("p50", "p90", "p99", "p999", "max")]
                        + [number(s["durable_waits"], 2),
                           number(s.get("device_bytes", 0) / benchmark["parameters"]["value_bytes"], 2)])
        lines += table(["system", "commits/s", "p50 µs", "p90 µs", "p99 µs", "p99.9 µs", "max µs", "waits per commit",
                        "device bytes per byte"], rows)
        for ratio in benchmark["ratios"]:
            lines += [f"- {ratio['subject']} is {ratio['wall']['median']:.2f} times as fast as {ratio['peer']} "
                      f"({ratio['wall']['min']:.2f} to {ratio['wall']['max']:.2f})"]
        lines += [""]
    return lines


def recovery(report):
    lines = ["# Opening a pool", "",
             "How long after a kill a program can allocate again, and how long a clean open takes.", ""]
    lines += machine_lines(report, "./dev bench recovery")
    crashed = [b for b in report["benchmarks"] if b["name"].startswith("crashed-open-")]
    if crashed:
        lines += ["## From open to the first allocation, after a kill", "",
                  "Milliseconds, one thread, a pool full of 1 KiB objects; beside them Breeze's Table V, case "
                  "A, which the paper measured on its own machine.", ""]
        names = sorted({s["name"] for b in crashed for s in b["systems"]})
        rows = []
        for benchmark in crashed:
            size = benchmark["name"].removeprefix("crashed-open-")
            median = {s["name"]: s["wall_ns"]["median"] / 1e6 for s in benchmark["systems"]}
            paper = TABLE_V.get(size, {}).get(1)
            rows.append([size] + [number(median.get(n), 2) for n in names]
                        + [number(paper and paper * 1e3)])
        lines += table(["pool"] + names + ["Breeze, published elsewhere"], rows)
    index = [b for b in report["benchmarks"] if b["name"].startswith("index-")]
    if index:
        lines += ["## The full volatile index", "", "Milliseconds; after an open it is built on demand.", ""]
        rows = []
        for benchmark in index:
            size = benchmark["name"].removeprefix("index-")
            paper = TABLE_V.get(size, {}).get(benchmark["threads"])
            for s in benchmark["systems"]:
                wall = s["wall_ns"]
                rows.append([size, str(benchmark["threads"]), number(wall["median"] / 1e6, 2),
                             number(wall["min"] / 1e6, 2), number(wall["max"] / 1e6, 2), number(paper and paper * 1e3)])
        lines += table(["pool", "threads", "median", "min", "max", "Breeze, published elsewhere"], rows)
    clean = [b for b in report["benchmarks"] if b["name"].startswith("clean-open")]
    if clean:
        lines += ["## A clean pool of 8 MiB", "",
                  f"Microseconds; the goal is {CLEAN_OPEN_GOAL_US} in a process that has opened a pool before. `-first` is "
                  "the first thing that a fresh process does with the library.", ""]
        rows = [[b["name"], s["name"]] + [number(s["wall_ns"][k] / 1e3, 1) for k in ("median", "min", "max")]
                for b in clean for s in b["systems"]]
        lines += table(["benchmark", "system", "median", "min", "max"], rows)
    return lines


def plot_groups(report, path, title, unit, scale, selected):
    """A group of bars for each selected benchmark, with the spread, on a logarithmic axis. Of the limits only the least."""
    places, labels, longest = [], [], 0
    at = 0
    bars = []
    for b in filter(selected, report["benchmarks"]):
        for s in b["systems"]:
            if "limit_of" not in s:
                bars.append((at, f"{b['name']}, {threads_of(b)}: {s['name']}", s))
                at += 1
        at += 0.6
    if not bars:
        return False
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.24 * at))
    for at, label, s in bars:
        wall = s["wall_ns"]
        median = wall["median"] * scale
        spread = [[max(0, median - wall["min"] * scale)], [max(0, wall["max"] * scale - median)]]
        axes.barh(at, median, color=COLOURS[s["role"]], xerr=spread, ecolor="#444444", capsize=2)
        axes.text(wall["max"] * scale * 1.05, at, number(median, 0 if median >= 100 else 1), va="center", fontsize=7)
        longest = max(longest, wall["max"] * scale)
        places.append(at)
        labels.append(label)
    axes.set_yticks(places, labels, fontsize=7)
    axes.set_ylim(places[-1] + 0.8, -0.8)
    axes.set_xscale("log")
    axes.set_xlim(right=longest * 2)
    axes.set_xlabel(unit)
    axes.set_title(title, fontsize=10)
    axes.grid(axis="x", linewidth=0.3)
    axes.set_axisbelow(True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


# Document: (function that writes it, plots: file, title, unit, nanoseconds to unit, which benchmarks).
DOCUMENTS = {
    "transactional": (transactional, [
        ("alloc", "Allocation", "ns", 1, lambda b: b["name"].startswith("alloc")),
        ("overwrite", "Overwriting an object", "ns", 1, lambda b: b["name"].startswith("overwrite")),
        ("sps", "Swaps in an array", "ns per swap", 1, lambda b: b["name"].startswith("sps")),
        ("ycsb", "Tables under YCSB", "ns per operation", 1, lambda b: "ycsb" in b["name"])]),
    "compiler": (compiler, [
        ("tables", "Log calls by the compiler and by hand", "ns per operation", 1, lambda b: True)]),
    "ssd": (ssd, [("puts", "Durable puts on a file system", "µs per put and thread", 1e-3, lambda b: True)]),
    "recovery": (recovery, [
        ("crashed", "From open to the first allocation after a kill", "ms", 1e-6,
         lambda b: b["name"].startswith(("crashed", "index"))),
        ("clean", "Opening a clean pool of 8 MiB", "µs", 1e-3, lambda b: b["name"].startswith("clean"))]),
}


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Tables and plots of benchmark results.")
    parser.add_argument("--results", type=pathlib.Path, default=root / "build/bench", help="directory with the JSON files")
    parser.add_argument("--out", type=pathlib.Path, default=root / "docs/bench", help="where documents and plots go")
    arguments = parser.parse_args()
    written = []
    for name, (write, plots) in DOCUMENTS.items():
        source = arguments.results / f"{name}.json"
        if not source.exists():
            continue
        report = json.loads(source.read_text())
        if name == "recovery" and not any(b["name"].startswith(("crashed", "index", "clean")) for b in report["benchmarks"]):
            continue  # of regions and stores alone: region_report.py
        arguments.out.mkdir(parents=True, exist_ok=True)
        lines = write(report, arguments.results) if name == "compiler" else write(report)
        for plot, title, unit, scale, selected in plots:
            if plot_groups(report, arguments.out / f"{name}-{plot}.png", title, unit, scale, selected):
                lines += [f"![{title}]({name}-{plot}.png)", ""]
        document = arguments.out / f"{name}.md"
        document.write_text("\n".join(lines).rstrip() + "\n")
        written.append(str(document))
    written += suite_report.write(arguments.results, arguments.out)
    written += lockfree_report.write(arguments.results, arguments.out)
    written += region_report.write(arguments.results, arguments.out)
    written += lewat_report.write(arguments.results, arguments.out)
    written += gc_report.write(arguments.results, arguments.out)
    written += relocation_report.write(arguments.results, arguments.out)
    written += logheap_report.write(arguments.results, arguments.out)
    written += server_report.write(arguments.results, arguments.out)
    written += churn_report.write(arguments.results, arguments.out)
    written += stores_report.write(arguments.results, arguments.out)
    written += tier_report.write(arguments.results, arguments.out)
    written += ycsb_report.write(arguments.results, arguments.out)
    if not written:
        sys.exit(f"report: no results in {arguments.results}; ./dev bench makes them")
    print("\n".join(written))


if __name__ == "__main__":
    main()
