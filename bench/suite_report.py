"""The document of the transactional suite: tables beside the papers' figures, plots, and the same as an HTML page.

Used by report.py. What papers print of such a figure is quoted where their text states it; their plots have no numbers.
"""

import html
import json
import re

import matplotlib.pyplot as plt

from report_parts import machine_lines, number, table

# Goals: how many times as fast as a peer, by the benchmark and by the peer's name.
GOALS = {("sps-1", "libpmemobj"): 6, ("sps-8", "libpmemobj"): 8, ("sps-64", "libpmemobj"): 8,
         ("hashtable-churn", "libpmemobj's hashmap_tx"): 4, ("bptree-churn", "libpmemobj's btree_map"): 4,
         ("rbtree-churn", "libpmemobj's rbtree_map"): 5}
LIMIT_GOAL_PERCENT = 70  # of the machine's limit, sps-1
PEER = "#c7803a"
SUBJECTS = ["#1f6f8b", "#4a9ab5", "#7bbfd1", "#a9d6e0", "#2b8a5a", "#6fb98f", "#5b5b8f", "#8f8fc1", "#333333"]

# What the papers say of the figures that are measured again here.
PAPERS = {
    "fig5": "HEAPO, Fig. 5 (list, 30,000 inserts, one thread): its checksum is 18.9 % above Mnemosyne's torn-bit log.",
    "fig6": "HEAPO, Fig. 6 (list, 252,000 inserts): checksum is 10 % above commit mark.",
    "fig7": "HEAPO, Fig. 7 (252,000 inserts, from one thread to two): list 1.8 times, B-tree 1.2 times.",
    "lsnvmm7": "LSNVMM, Fig. 7 (one thread): its log-structured heap is on average 37.3 % above Mnemosyne and 66.1 % "
               "above Mnemosyne with undo logging; on hash table and SPS 89.6 % and 89.9 %, and 118.2 % and 125.9 %.",
    "lsnvmm8": "LSNVMM, Fig. 8: its heap writes 82.8 % and 82.0 % fewer lines than Mnemosyne and its undo variant, and "
               "80.1 % and 65.1 % fewer dirty bytes.",
    "lewat12": "Lewat, Fig. 12 and 13 (Optane, its own key-value store): 1.27 to 4.02 times PMDK, HEAPO and EFLightPM "
               "under YCSB with 64-byte values; 1.05 to 5.26 times under the Facebook workloads with one thread.",
}
# Single figures of theirs, beside what is measured here: two threads over one, and one engine over another.
PAPER_SCALING = {"list-252000": "1.8 (Fig. 7)", "bptree-252000": "1.2 (Fig. 7)"}
PAPER_RATIOS = {("list-30000", "stm over redo", "mnemosyne"): "1.19 (Fig. 5)",
                ("list-252000", "stm over redo", "stm over redo, commit mark"): "1.10 (Fig. 6)"}


class Results:
    def __init__(self, report):
        self.all = report["benchmarks"]

    def get(self, name, threads):
        return next((b for b in self.all if b["name"] == name and b["threads"] == threads), None)

    def threads(self):
        return sorted({b["threads"] for b in self.all})

    def names(self, prefix=""):
        return list(dict.fromkeys(b["name"] for b in self.all if b["name"].startswith(prefix)))


def systems(benchmark):
    return [s for s in benchmark["systems"] if s["role"] != "limit"]


def system(benchmark, name):
    return next((s for s in benchmark["systems"] if s["name"] == name), None) if benchmark else None


def per_cpu_second(s):
    return 1e9 / s["cpu_ns"]["median"]


def per_second(benchmark, s):
    return 1e9 * benchmark["threads"] / s["wall_ns"]["median"]


def millions(value):
    return number(value / 1e6, 3)


def goals(results):
    rows = []
    for (name, peer), goal in GOALS.items():
        benchmark = results.get(name, 1)
        if benchmark is None:
            continue
        for ratio in benchmark["ratios"]:
            if ratio["peer"] != peer:
                continue
            cpu = ratio["cpu"]
            rows.append([name, peer, ratio["subject"], number(cpu["median"], 2), f"{cpu['min']:.2f} to {cpu['max']:.2f}",
                         number(ratio["wall"]["median"], 2), number(goal), "yes" if cpu["median"] >= goal else "no"])
    return ["## How many times as fast as libpmemobj, one thread", "",
            "Processor time of the whole process for an operation, median of the ratios of neighbouring repetitions; "
            "background threads count. The wall clock says little where the machine has other work.", ""
            ] + table(["benchmark", "peer", "engine", "ratio", "spread", "by wall clock", "goal", "met"], rows)


def throughput(results, threads):
    groups = [n for n in results.names() if not n.startswith(("fill-", "store-", "log-size-"))]
    rows = []
    for name in groups:
        benchmark = results.get(name, threads)
        if benchmark is None:
            continue
        for s in systems(benchmark):
            own = s.get("own_counts", {})
            counts = s.get("counts", {})
            latency = s.get("latency_ns", {})
            rows.append([name, s["name"], millions(per_cpu_second(s)), millions(per_second(benchmark, s)),
                         number(latency.get("p50", 0) / 1e3, 1), number(latency.get("p99", 0) / 1e3, 1),
                         number(s.get("aborts"), 4), number(own.get("fences", counts.get("fences")), 2),
                         number(own.get("lines", counts.get("lines")), 2),
                         number(own.get("dirty_bytes", counts.get("dirty_bytes"))),
                         number(own.get("logged_bytes", counts.get("logged_bytes"))), number(s.get("percent_of_limit"))])
    if not rows:
        return []
    return [f"## Structures, {threads} thread{'s' if threads > 1 else ''}", "",
            "Millions of operations (SPS: swaps) in a second of processor time and in a second of the wall clock; "
            "percentiles of a whole transaction in microseconds; the rest for an operation. Fences, lines and bytes are "
            "those of all threads of the library; of libpmemobj, those of the thread that was stepped.", ""
            ] + table(["benchmark", "engine", "M / CPU s", "M / s", "p50 µs", "p99 µs", "aborts", "fences", "lines",
                       "dirty bytes", "logged bytes", "% of limit"], rows)


def ring_sizes(results):
    rows = []
    for threads in results.threads():
        benchmark = results.get("log-size-sps-1", threads)
        for s in systems(benchmark) if benchmark else []:
            own = s.get("own_counts", {})
            percent = s.get("percent_of_limit")
            rows.append([s["name"], str(threads), millions(per_cpu_second(s)), number(own.get("fences"), 3),
                         number(own.get("lines"), 2), number(percent),
                         "" if percent is None else "yes" if percent >= LIMIT_GOAL_PERCENT else "no"])
    if not rows:
        return []
    return ["## SPS-1 over the size of the log", "",
            "A larger ring is emptied more rarely, and writes home once what was written often; it also leaves the caches.",
            ""] + table(["engine and ring", "threads", "M swaps / CPU s", "fences", "lines", "% of limit",
                         f"{LIMIT_GOAL_PERCENT} % met"], rows)


def fills(results):
    lines = ["## HEAPO's inserts", ""]
    for key in ("fig5", "fig6", "fig7"):
        lines.append("- " + PAPERS[key])
    lines += ["", "Thousands of inserts in a second; by processor time, and by the wall clock with one thread and two "
              "(half the inserts each). The list's threads all insert at its front, so each transaction meets the other.",
              ""]
    rows = []
    for name in results.names("fill-"):
        one, two = results.get(name, 1), results.get(name, 2)
        for s in systems(one) if one else []:
            other = system(two, s["name"])
            paper = PAPER_SCALING.get(name.removeprefix("fill-"), "") if s["name"] == "stm over redo" else ""
            scaling = per_second(two, other) / per_second(one, s) if other else None
            by_cpu = 2 * s["cpu_ns"]["median"] / other["cpu_ns"]["median"] if other else None
            rows.append([name.removeprefix("fill-"), s["name"], number(per_cpu_second(s) / 1e3),
                         number(per_second(one, s) / 1e3), number(per_second(two, other) / 1e3) if other else "",
                         number(scaling, 2), number(by_cpu, 2), paper,
                         number(other.get("aborts"), 3) if other else ""])
    lines += table(["structure", "engine", "k / CPU s", "k / s, 1 thread", "k / s, 2 threads", "2 over 1",
                    "by CPU time", "HEAPO's STM, published elsewhere", "aborts of 2"], rows)
    pairs = []
    for name in results.names("fill-"):
        benchmark = results.get(name, 1)
        for better, worse in (("stm over redo", "stm over redo, commit mark"),
                              ("mnemosyne", "mnemosyne, plain log"),
                              ("stm over redo", "mnemosyne"),
                              ("stm over redo", "mnemosyne-undo"),
                              ("stm over redo", "stm over undo, write-through"),
                              ("stm over undo, write-back", "stm over undo, write-through")):
            a, b = system(benchmark, better), system(benchmark, worse)
            if a and b:
                ratio = b["cpu_ns"]["median"] / a["cpu_ns"]["median"]
                structure = name.removeprefix("fill-")
                paper = PAPER_RATIOS.get((structure, better, worse), "")
                pairs.append([structure, better, worse, number(ratio, 2), paper])
    if pairs:
        lines += ["How many times as fast, by processor time, one thread:", ""]
        lines += table(["structure", "engine", "over", "ratio", "HEAPO, published elsewhere"], pairs)
    return lines


def scaling(results):
    rows = []
    for name in results.names():
        one, two = results.get(name, 1), results.get(name, 2)
        if not one or not two or name.startswith(("fill-", "log-size")):
            continue
        for s in systems(one):
            other = system(two, s["name"])
            if other:
                rows.append([name, s["name"], number(per_second(two, other) / per_second(one, s), 2),
                             number(2 * s["cpu_ns"]["median"] / other["cpu_ns"]["median"], 2), number(other["aborts"], 4)])
    if not rows:
        return []
    return ["## Two threads over one", "",
            "Goals for barrier transactions: 1.8 on the hash table, 1.5 on the B+tree. By processor time is what two "
            "threads would do that have two processors to themselves, whatever else runs; of an engine with locks that says "
            "nothing, for who waits for one takes no time.", ""
            ] + table(["benchmark", "engine", "by wall clock", "by CPU time", "aborts"], rows)


def stores(results):
    lines = ["## Key-value store: YCSB and Facebook's workloads (Lewat, Table IV)", "", "- " + PAPERS["lewat12"], "",
             "Thousands of operations in a second of processor time, one thread.", ""]
    names = results.names("store-")
    engines = []
    for name in names:
        benchmark = results.get(name, 1)
        engines += [s["name"] for s in systems(benchmark) if s["name"] not in engines] if benchmark else []
    rows = []
    for engine in engines:
        row = [engine]
        for name in names:
            s = system(results.get(name, 1), engine)
            row.append(number(per_cpu_second(s) / 1e3) if s else "")
        rows.append(row)
    return lines + table(["engine"] + [n.removeprefix("store-") for n in names], rows) if names else []


def baselines(results):
    rows = []
    for name in results.names():
        benchmark = results.get(name, 1)
        ours = system(benchmark, "stm over redo")
        if not ours or name.startswith(("fill-", "store-", "log-size")):
            continue
        row = [name]
        for peer in ("mnemosyne", "mnemosyne-undo"):
            other = system(benchmark, peer)
            if other is None:
                row += ["", "", ""]
                continue
            a, b = ours.get("own_counts", {}), other.get("own_counts", {})
            row.append(number(100 * (other["cpu_ns"]["median"] / ours["cpu_ns"]["median"] - 1)))
            for count in ("lines", "dirty_bytes"):
                row.append(number(100 * (1 - a[count] / b[count])) if a.get(count) and b.get(count) else "")
        rows.append(row)
    if not rows:
        return []
    head = ["## Beside the papers' baselines", "", "- " + PAPERS["lsnvmm7"], "- " + PAPERS["lsnvmm8"], ""]
    if not any(any(cell for cell in row[1:]) for row in rows):
        return head + ["Neither `mnemosyne` nor `mnemosyne-undo` was in this run.", ""]
    return head + ["The redo engine beside `mnemosyne` (torn-bit log) and `mnemosyne-undo`: per cent more operations in a second "
            "of processor time, fewer lines, fewer dirty bytes.", ""
            ] + table(["benchmark", "faster, %", "fewer lines, %", "fewer bytes, %", "faster than undo, %",
                       "fewer lines, %", "fewer bytes, %"], rows)


def plot(results, path, title, selected, unit_of):
    """Grouped bars: a group for each benchmark, a bar for each engine."""
    groups = [b for b in results.all if selected(b)]
    if not groups:
        return False
    engines = []
    for b in groups:
        engines += [s["name"] for s in systems(b) if s["name"] not in engines]
    colours = {}
    for engine in engines:
        peer = engine.startswith("libpmemobj")
        colours[engine] = PEER if peer and engine == "libpmemobj" else "#e0b080" if peer else SUBJECTS[
            sum(1 for e in colours if not e.startswith("libpmemobj")) % len(SUBJECTS)]
    figure, axes = plt.subplots(figsize=(max(7, 1.1 * len(groups) + 3), 4))
    width = 0.85 / len(engines)
    for i, engine in enumerate(engines):
        at, heights = [], []
        for g, b in enumerate(groups):
            s = system(b, engine)
            if s:
                at.append(g + (i - len(engines) / 2 + 0.5) * width)
                heights.append(unit_of(b, s))
        axes.bar(at, heights, width, label=engine, color=colours[engine])
    axes.set_xticks(range(len(groups)), [f"{b['name']}\n{b['threads']} thread{'s' * (b['threads'] > 1)}" for b in groups],
                    fontsize=7)
    axes.set_title(title, fontsize=10)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_axisbelow(True)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def cpu_millions(_, s):
    return per_cpu_second(s) / 1e6


PLOTS = [
    ("swaps", "Millions of swaps in a second of processor time", lambda b: b["name"].startswith("sps-"), cpu_millions),
    ("log-size", "SPS-1 over the size of the log: millions of swaps in a second of processor time",
     lambda b: b["name"].startswith("log-size"), cpu_millions),
    ("maps", "Structures, one thread: millions of operations in a second of processor time",
     lambda b: b["threads"] == 1 and b["name"].startswith(("hashtable", "bptree", "rbtree")), cpu_millions),
    ("lines", "Structures, one thread: lines written back for an operation",
     lambda b: b["threads"] == 1 and b["name"].startswith(("hashtable", "bptree", "rbtree")),
     lambda b, s: s.get("own_counts", s.get("counts", {})).get("lines", 0)),
    ("fills", "HEAPO's inserts: thousands in a second of processor time", lambda b: b["name"].startswith("fill-"),
     lambda b, s: per_cpu_second(s) / 1e3),
    ("stores", "Key-value store, one thread: thousands of operations in a second of processor time",
     lambda b: b["threads"] == 1 and b["name"].startswith("store-"), lambda b, s: per_cpu_second(s) / 1e3),
]


def to_html(lines, title="Holdfast: the transactional suite"):
    """As much of Markdown as this document uses."""
    def inline(text):
        text = html.escape(text, quote=False)
        text = re.sub(r"!\[(.*?)\]\((.*?)\)", r'<img alt="\1" src="\2">', text)
        text = re.sub(r"`(.*?)`", r"<code>\1</code>", text)
        return re.sub(r"\*\*(.*?)\*\*", r"<b>\1</b>", text)

    out = ["<!doctype html>", f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
           "<style>body{font:15px/1.45 sans-serif;max-width:78em;margin:2em auto;padding:0 1em}"
           "table{border-collapse:collapse;margin:1em 0;font-size:13px}td,th{border-bottom:1px solid #ddd;padding:2px 8px;"
           "text-align:right}td:first-child,th:first-child{text-align:left}img{max-width:100%}</style></head><body>"]
    in_table = False
    for line in lines:
        cells = [c.strip() for c in line.strip("|").split("|")] if line.startswith("|") else None
        if cells and all(re.fullmatch(r":?-+:?", c) for c in cells):
            continue
        if cells:
            tag = "td" if in_table else "th"
            out.append(("" if in_table else "<table>") + "<tr>" + "".join(f"<{tag}>{inline(c)}</{tag}>" for c in cells)
                       + "</tr>")
            in_table = True
            continue
        if in_table:
            out.append("</table>")
            in_table = False
        if line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            out.append(f"<h{level}>{inline(line[level + 1:])}</h{level}>")
        elif line.startswith("- "):
            out.append(f"<p>• {inline(line[2:])}</p>")
        elif line:
            out.append(f"<p>{inline(line)}</p>")
    return "\n".join(out + ["</table>" if in_table else "", "</body></html>"]) + "\n"


def write(results_directory, out):
    """Writes suite.md and suite.html with their plots; the paths, or nothing where there are no results."""
    lines = []
    for suffix, title in (("", "The transactional suite"), ("-lsnvmm", "With memory of 500 ns and 1 GB/s (LSNVMM)"),
                          ("-log-free", "With memory of 125 ns (log-free)"),
                          ("-ssd", "Pools of the medium ssd, on a file system")):
        source = results_directory / f"suite{suffix}.json"
        if not source.exists():
            continue
        report = json.loads(source.read_text())
        results = Results(report)
        option = "" if not suffix else " --on-ssd" if suffix == "-ssd" else f" --emulate {suffix[1:]}"
        lines += [("# " if not lines else "# ") + title, ""] + machine_lines(report, f"./dev bench suite{option}")
        lines += goals(results)
        for threads in results.threads():
            lines += throughput(results, threads)
        lines += ring_sizes(results) + fills(results) + scaling(results) + baselines(results) + stores(results)
        out.mkdir(parents=True, exist_ok=True)
        for name, plot_title, selected, unit_of in PLOTS:
            if plot(results, out / f"suite{suffix}-{name}.png", plot_title, selected, unit_of):
                lines += [f"![{plot_title}](suite{suffix}-{name}.png)", ""]
    if not lines:
        return []
    (out / "suite.md").write_text("\n".join(lines).rstrip() + "\n")
    (out / "suite.html").write_text(to_html(lines))
    return [str(out / "suite.md"), str(out / "suite.html")]
