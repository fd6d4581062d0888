"""LSNVMM's sections 5.2 and 5.3 over its workloads: the steps of the mapping, and the log-structured engine beside others.
What loads cost. Used by logheap_report.py; the figures come from ./dev bench ablation, comparison and pages."""

import json
import statistics

import matplotlib.pyplot as plt

from report_parts import machine_lines, number, table
from suite_report import Results, per_cpu_second, system

STEPS = ["base list", "two layers", "group update", "node cache", "lock-free readers", "leaves translated",
         "leaves materialised"]
# Of each step over the one before: the paper's average gain in percent, section 5.2 (the last of its own: four threads).
PAPER_GAINS = {"two layers": 39.6, "group update": 42.3, "node cache": 30.1, "lock-free readers": 48.9}
PAPER_HITS = 92.2
PEERS = ["libpmemobj", "mnemosyne", "mnemosyne-undo", "undo", "redo"]
LOGS = ["lock-free readers", "leaves translated", "leaves materialised", "with a cleaner"]
# Section 5.3, averages in percent over Mnemosyne and over Mnemosyne with undo logging.
PAPER_FASTER = {1: {"mnemosyne": 37.3, "mnemosyne-undo": 66.1}, 4: {"mnemosyne": 44.7, "mnemosyne-undo": 80.8}}
PAPER_LESS = {"lines": {"mnemosyne": 82.8, "mnemosyne-undo": 82.0},
              "dirty_bytes": {"mnemosyne": 80.1, "mnemosyne-undo": 65.1}}
LINE_BYTES = 64
# What the structures of the suite run on, and Holdfast's key-value library, by the names above.
OF_SUITE = {"libpmemobj": "libpmemobj", "mnemosyne": "mnemosyne", "mnemosyne-undo": "mnemosyne-undo",
            "undo": "stm over undo, write-through", "redo": "stm over redo",
            **{s: f"stm over log: {s}" for s in STEPS + LOGS}}
OF_LIBRARY = {**{p: f"kv B+tree over {p}" for p in PEERS if p != "libpmemobj"},
              **{s: f"kv B+tree over log: {s}" for s in STEPS + LOGS}}
TITLES = {"sps-1": "SPS", "hashtable-insert": "hash table, insert", "hashtable-update": "hash table, update",
          "bptree-insert": "B+tree, insert", "bptree-update": "B+tree, update", "rbtree-insert": "red-black tree, insert",
          "rbtree-update": "red-black tree, update"}
PALETTE = ["#9a9a9a", "#c7803a", "#e0b080", "#4a9ab5", "#1f6f8b", "#2b8a5a", "#5b5b8f", "#8f8fc1", "#333333"]


class Workload:
    """A benchmark, and what its systems are called there."""

    def __init__(self, title, benchmark, names):
        self.title, self.benchmark, self.names = title, benchmark, names

    def system(self, name):
        return system(self.benchmark, self.names.get(name))


def workloads(results, threads):
    found = []
    for name in results.names():
        b = results.get(name, threads)
        if b is None:
            continue
        if name in TITLES:
            found.append(Workload(TITLES[name], b, OF_SUITE))
        elif name in ("store-insert", "store-update"):
            found += stores(name, b)
    return [w for w in found if any(w.system(s) for s in STEPS)]


def stores(name, b):
    what = name.removeprefix("store-")
    return [Workload(f"KVStore of hashed items, {what}", b, OF_SUITE),
            Workload(f"KVStore, B+tree, {what}", b, OF_LIBRARY)]


def gain(workload, better, worse, clock="cpu_ns"):
    """Percent more operations, median of the ratios of neighbouring repetitions."""
    a, b = workload.system(better), workload.system(worse)
    if a is None or b is None:
        return None
    return 100 * (statistics.median(w / v for v, w in zip(a[clock]["sample"], b[clock]["sample"])) - 1)


def counted(s, what):
    """Of all threads of the library where it counts itself, else of the thread that was stepped."""
    return s.get("own_counts", s.get("counts", {})).get(what) if s else None


def less(workload, ours, peer, what):
    a, b = counted(workload.system(ours), what), counted(workload.system(peer), what)
    return 100 * (1 - a / b) if a is not None and b else None


def mean(values):
    known = [v for v in values if v is not None]
    return statistics.fmean(known) if known else None


def signed(value):
    return "" if value is None else f"{value:+,.1f}"


def threads_text(threads):
    return f"{threads} thread{'s' * (threads > 1)}"


def throughputs(found, names):
    names = [n for n in names if any(w.system(n) for w in found)]
    rows = [[w.title] + [number(per_cpu_second(s) / 1e3) if s else "" for s in map(w.system, names)] for w in found]
    return table(["workload"] + names, rows)


def gains_of_steps(found):
    pairs = [(s, b) for b, s in zip(STEPS, STEPS[1:])]
    rows = [[w.title] + [signed(gain(w, s, b)) for s, b in pairs] + [signed(gain(w, "lock-free readers", STEPS[0]))]
            for w in found]
    for title, clock in (("**average**", "cpu_ns"), ("average by the wall clock", "wall_ns")):
        rows.append([title] + [signed(mean(gain(w, s, b, clock) for w in found)) for s, b in pairs]
                    + [signed(mean(gain(w, "lock-free readers", STEPS[0], clock) for w in found))])
    rows.append(["published elsewhere"] + [signed(PAPER_GAINS.get(s)) + (" (4 threads)" if s == "lock-free readers" else "")
                                 for s, _ in pairs] + [""])
    return table(["workload"] + [f"{s} over {b}" for s, b in pairs] + ["all five over base list"], rows)


def steps(report, out, suffix):
    results = Results(report)
    lines = ["# The mapping's steps over whole workloads (section 5.2)" + of_memory(suffix), ""]
    lines += machine_lines(report, "./dev bench ablation")
    lines += ["- The paper (Fig. 4; one thread, ten million records, 500 ns and 1 GB/s): 2L 39.6 % above Base on average, "
              "group update 42.3 % above that, node caches 30.1 % above that, 157.9 % in all; readers without locks "
              "48.9 % with four threads (Fig. 6).", "",
              "Barrier transactions over a pool of the engine `log`, each load translated but in the last column, nothing "
              "is cleaned. KVStore of hashed items is the suite's, B+tree that of `nvm/kv.h`. Two layers: a list for each "
              "4 KiB. The engine gets an allocated object as one range, and other stores as the runs of bytes within a line, so "
              "much of what group update gains in the paper, whose STM hands over words, is in the first columns. Thousands "
              "of operations in a second of processor time; gains in percent of the same, medians of the "
              "ratios of neighbouring repetitions, then arithmetic means over the workloads.", ""]
    for threads in results.threads():
        found = workloads(results, threads)
        if not found:
            continue
        lines += [f"## {threads_text(threads).capitalize()}", ""] + throughputs(found, STEPS) + gains_of_steps(found)
        if threads > 1:
            lines += [f"This machine has {report['machine']['cpus']} processors: with {threads_text(threads)} a reader "
                      "seldom finds a lock taken, and what four threads would gain without locks cannot be seen here; "
                      "what can be is the cost of taking one.", ""]
        picture = f"logheap-fig4{suffix}-{threads}.png"
        bars(found, STEPS, out / picture, f"Throughput over that of the base list (Fig. 4), {threads_text(threads)}",
             lambda w, s: w.system(STEPS[0])["cpu_ns"]["median"] / s["cpu_ns"]["median"] if w.system(STEPS[0]) else 0)
        lines += [f"![fig4]({picture})", ""]
    return lines


def faster(results):
    """How much faster than each peer."""
    lines, averages, losses = [], [], []
    for threads in results.threads():
        found = workloads(results, threads)
        logs = [n for n in LOGS if any(w.system(n) for w in found)]
        peers = [n for n in PEERS if any(w.system(n) for w in found)]
        if not found:
            continue
        lines += [f"### {threads_text(threads).capitalize()}", ""] + throughputs(found, peers + logs)
        for ours in logs:
            if ours in ("lock-free readers", "leaves materialised"):
                rows = [[w.title] + [signed(gain(w, ours, p)) for p in peers] for w in found]
                rows.append(["**average**"] + [signed(mean(gain(w, ours, p) for w in found)) for p in peers])
                lines += [f"*{ours}*: percent more operations in a second of processor time than", ""]
                lines += table(["workload"] + peers, rows)
            for p in ("mnemosyne", "mnemosyne-undo"):
                slower = [(w.title, gain(w, ours, p)) for w in found if (gain(w, ours, p) or 0) < 0]
                losses.append((f"*{ours}* than {p}, {threads_text(threads)}", slower,
                               len(slower) == sum(gain(w, ours, p) is not None for w in found)))
            row = [f"{ours}, {threads_text(threads)}"]
            for p in ("mnemosyne", "mnemosyne-undo"):
                goal = PAPER_FASTER[1 if threads == 1 else 4][p]
                average = mean(gain(w, ours, p) for w in found)
                row += [signed(average), signed(mean(gain(w, ours, p, "wall_ns") for w in found)),
                        f"{goal}" + ("" if threads == 1 else " (4 threads)")]
            averages.append(row)
    head = table(["log-structured engine", "over mnemosyne, %", "by the wall clock", "published elsewhere",
                  "over mnemosyne-undo, %", "by the wall clock", "published elsewhere"], averages)
    return ["## Throughput (Fig. 7)", "",
            "- The paper: 37.3 % above Mnemosyne and 66.1 % above Mnemosyne with undo logging on average with one thread, "
            "44.7 % and 80.8 % with four; 89.6 % and 118.2 % on the hash table, 89.9 % and 125.9 % on SPS.", ""] + head + where_it_loses(losses) + lines


def where_it_loses(losses):
    """`losses`: which engine than which, [(workload, percent below 0)], whether that is everywhere."""
    lines = ["The paper's engine \"does not perform well with KVStore running the update workload, mainly because it has "
             "intensive memory loads\". Where ours is slower than the papers' baselines, in percent of their operations in a "
             "second of processor time:", ""]
    for title, slower, is_everywhere in losses:
        # The paper's own case first.
        slower = sorted(slower, key=lambda item: not ("KVStore" in item[0] and "update" in item[0]))
        kvstore = [item for item in slower if "KVStore" in item[0] and "update" in item[0]]
        named = "; ".join(f"{name} {value:.1f}" for name, value in (kvstore if is_everywhere else slower))
        if slower:
            lines.append(f"- {title}: " + ("everywhere, " if is_everywhere else "") + named + ".")
    return lines + ([] if any(s for _, s, _ in losses) else ["Nowhere in this run, updates of KVStore included."]) + [""]


def reads(results):
    """What the paper says its engine is not good at, by itself."""
    lines = []
    for threads in results.threads():
        b = results.get("store-ycsb-C", threads)
        if b is None:
            continue
        found = stores("store-ycsb-C", b)
        names = [n for n in PEERS + LOGS if any(w.system(n) for w in found)]
        rows = [[w.title.removesuffix(", ycsb-C")] + [number(s["cpu_ns"]["median"]) if s else ""
                                                      for s in map(w.system, names)] for w in found]
        lines += [f"{threads_text(threads).capitalize()}:", ""] + table(["store"] + names, rows)
    return ["## Transactions that only read", "",
            "YCSB C: nanoseconds of processor time for a look-up of a key of 32 bytes, whose value of 128 is copied out; "
            "libpmemobj needs no transaction for it.", ""] + lines if lines else []


def traffic(results, out, suffix):
    found = workloads(results, 1)
    names = [n for n in PEERS + LOGS if any(counted(w.system(n), "lines") for w in found)]
    if not names:
        return []
    rows, averages = [], []
    for w in found:
        row = [w.title]
        for n in names:
            count, dirty = counted(w.system(n), "lines"), counted(w.system(n), "dirty_bytes")
            row.append("" if count is None else f"{number(count * LINE_BYTES)} / {number(dirty)}")
        rows.append(row)
    for ours in (n for n in names if n in LOGS):
        for what, title in (("lines", "write traffic"), ("dirty_bytes", "dirty bytes")):
            row = [f"{ours}, {title}"]
            for p in ("mnemosyne", "mnemosyne-undo"):
                value, published = mean(less(w, ours, p, what) for w in found), PAPER_LESS[what][p]
                row += [signed(value and -value), f"-{published}"]
            averages.append(row)
    lines = ["## Write traffic and wear (Fig. 8)", "",
             "- The paper, one thread: 82.8 % and 82.0 % less write traffic than Mnemosyne and its undo variant, 80.1 % and "
             "65.1 % fewer dirty bytes, on average.", "",
             "Bytes of the lines that an operation writes back / what of these bytes is changed at most, which is what wears "
             "the memory; all threads of the library, one thread that works. Of libpmemobj, what stepping sees.", ""
             ] + table(["workload"] + names, rows) + table(
        ["log-structured engine", "than mnemosyne, %", "published elsewhere", "than mnemosyne-undo, %", "published elsewhere"],
        averages)
    picture = f"logheap-fig8{suffix}.png"
    bars(found, names, out / picture, "Bytes written back by an operation, dirty ones dark (Fig. 8), 1 thread",
         lambda w, s: (counted(s, "lines") or 0) * LINE_BYTES, lambda w, s: counted(s, "dirty_bytes") or 0,
         1 - PAPER_LESS["lines"]["mnemosyne"] / 100)
    return lines + [f"![fig8]({picture})", ""]


def comparison(report, out, suffix):
    results = Results(report)
    lines = ["# Beside other systems (section 5.3)" + of_memory(suffix), ""]
    lines += machine_lines(report, "./dev bench comparison")
    lines += ["Engines of Holdfast and the papers' baselines under one STM (011); libpmemobj without isolation, under locks "
              "of the program's where there are two threads. *Lock-free readers* is the paper's whole system, its loads translated; "
              "*leaves translated* has our mapping; *leaves materialised* has home pages, so that loads are plain; these "
              "three never clean, *with a cleaner* does in the background when the pool is 80 % full.", ""]
    lines += faster(results)
    for threads in results.threads():
        found = workloads(results, threads)
        names = [n for n in PEERS + LOGS if any(w.system(n) for w in found)]
        if found:
            picture = f"logheap-fig7{suffix}-{threads}.png"
            bars(found, names, out / picture,
                 f"Thousand operations in a second of processor time (Fig. 7), {threads_text(threads)}",
                 lambda w, s: per_cpu_second(s) / 1e3, None,
                 1 + PAPER_FASTER[1 if threads == 1 else 4]["mnemosyne"] / 100)
            lines += [f"![fig7]({picture})", ""]
    return lines + reads(results) + traffic(results, out, suffix)


def of_memory(suffix):
    return f", memory as slow as {suffix[1:]}" if suffix else ""


def bars(found, names, path, title, height, dark=None, goal=None):
    """A group for each workload, a bar for each system; `dark`: a part of the bar.

    `goal`: how much of Mnemosyne's bar the paper's engine has on average.
    """
    names = [n for n in names if any(w.system(n) for w in found)]
    figure, axes = plt.subplots(figsize=(max(8, 1.15 * len(found) + 2), 4))
    width = 0.85 / max(1, len(names))
    for k, name in enumerate(names):
        at = [(i + k * width, w, w.system(name)) for i, w in enumerate(found) if w.system(name)]
        places = [x for x, _, _ in at]
        colour = PALETTE[k % len(PALETTE)]
        axes.bar(places, [height(w, s) for _, w, s in at], width, color=colour, label=name, alpha=0.45 if dark else 1)
        if dark:
            axes.bar(places, [dark(w, s) for _, w, s in at], width, color=colour)
    if goal is not None:
        for i, w in enumerate(found):
            if w.system("mnemosyne"):
                at = goal * height(w, w.system("mnemosyne"))
                axes.hlines(at, i - width / 2, i + 0.85 - width / 2, color="#b02020", linewidth=1,
                            label="the paper's average beside mnemosyne" if i == 0 else None)
    axes.set_xticks([i + 0.425 - width / 2 for i in range(len(found))], [w.title.replace(", ", "\n") for w in found],
                    fontsize=6)
    axes.set_title(title, fontsize=10)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_axisbelow(True)
    axes.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def wear(results, out, suffix):
    b = results.get("wear-128", 1)
    if b is None:
        return []
    p = b["parameters"]
    rows = [[s["name"], number(s["mean"], 1), number(s["permille"][500]), number(s["permille"][990]),
             number(s["permille"][999]), number(s["max"]), number(s["max"] / s["mean"], 1)] for s in b["systems"]]
    picture = f"logheap-wear{suffix}.png"
    figure, axes = plt.subplots(figsize=(7, 3.4))
    for s, colour in zip(b["systems"], ("#1f6f8b", "#c7803a")):
        axes.plot([q / 10 for q in range(len(s["permille"]))], s["permille"], color=colour, label=s["name"], linewidth=1.2)
    axes.set_yscale("symlog")
    axes.set_xlabel("% of the blocks, the least written first")
    axes.set_ylabel("times written")
    axes.set_title("Wear of single blocks", fontsize=10)
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(out / picture, dpi=110)
    plt.close(figure)
    return ["## Wear of single blocks", "",
            f"Times that each block of {p['block_bytes']} bytes of a pool of {number(p['pool_bytes'] / 2 ** 20)} MiB was "
            f"written by {number(p['updates'])} updates of {number(p['values'])} values of {p['value_bytes']} bytes, 90 % of "
            "which fall on 15 % of them. The log-structured heap cleans when there is no room; in place: a ring of 1 MiB as a "
            "log, then home. The paper has no such figure; what wears in all is under write traffic.", ""
            ] + table(["system", "mean", "median", "p99", "p99.9", "max", "max over mean"], rows) + [f"![wear]({picture})", ""]


def hits(results, out, suffix):
    """Of bench-logheap."""
    names = results.names("hits-")
    if not names:
        return []
    found = [results.get(n, 1) for n in names]
    sizes = [s["entries"] for s in found[0]["systems"]]
    percent = {(b["name"], s["entries"]): s["hits_percent"] for b in found for s in b["systems"]}
    rows = [[b["name"].removeprefix("hits-")] + [number(percent[b["name"], e], 1) for e in sizes]
            + [number(b["systems"][0]["lookups"], 1)] for b in found]
    averages = {e: mean(percent[b["name"], e] for b in found) for e in sizes}
    rows.append(["**average**"] + [number(averages[e], 1) for e in sizes] + [""])
    rows.append(["the paper"] + [""] * (len(sizes) - 1) + [number(PAPER_HITS, 1), ""])
    figure, axes = plt.subplots(figsize=(8, 3.2))
    width = 0.8 / len(sizes)
    for k, entries in enumerate(sizes):
        axes.bar([i + k * width for i in range(len(found))], [percent[b["name"], entries] for b in found], width,
                 color=PALETTE[4 - 3 * k], label=f"{entries:,} entries")
    axes.axhline(PAPER_HITS, color="#333333", linewidth=0.8, linestyle="--", label="the paper's average")
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(found))],
                    [b["name"].removeprefix("hits-").replace("-", "\n") for b in found], fontsize=7)
    axes.set_title("Hits of the node cache, % of the look-ups (Fig. 5)", fontsize=10)
    axes.legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    figure.savefig(out / f"logheap-fig5{suffix}.png", dpi=110)
    plt.close(figure)
    p = found[0]["parameters"]
    return ["## Hits of the node cache over whole workloads (Fig. 5)", "",
            f"- The paper: {PAPER_HITS} % on average, caches of up to 4 M entries, ten million records.", "",
            f"Percent of the look-ups of transactions on the heap alone, {number(p['records'])} records, one thread. Pools "
            f"have caches of {sizes[0]:,} entries a thread.", ""
            ] + table(["workload"] + [f"{e:,} entries" for e in sizes] + ["look-ups an operation"], rows) + [
        f"![fig5](logheap-fig5{suffix}.png)", ""]


def loads(report):
    """Of bench-pages."""
    results = Results(report)
    columns = [(results.get(n, 1), n.removeprefix("loads-").replace("-", " ")) for n in results.names("loads-")]
    columns = [(b, title) for b, title in columns if b]
    lines = ["# What a load costs", ""] + machine_lines(report, "./dev bench pages")
    if columns:
        names = list(dict.fromkeys(s["name"] for b, _ in columns for s in b["systems"]))
        rows = [[n] + [number(s["cpu_ns"]["median"], 1) if s else "" for s in (system(b, n) for b, _ in columns)]
                for n in names]
        lines += ["Nanoseconds of processor time for 8 bytes of a value of 128, medians, 16 loads inside one epoch: from an "
                  "array; from a home page that is there; translated by the paper's mapping (*full*) and by leaves. *Hit or "
                  "miss*: the same loads of 8,192 values in no order again and again, which a cache of 65,536 entries always "
                  "has, and one of 2,048 never; both are checked. The barriers of the STM come on top of each.", ""]
        lines += table(["load"] + [title for _, title in columns], rows)
        sure = results.get("loads-hit-or-miss", 1)
        if sure:
            plain = system(sure, "plain loads")["cpu_ns"]["median"]
            lines += ["Over a plain load: " + "; ".join(f"{s['name']} {s['cpu_ns']['median'] - plain:+.1f} ns"
                                                        for s in sure["systems"] if s["name"] != "plain loads") + ".", ""]
    costs = results.get("costs", 1)
    if costs:
        lines += ["Home pages besides, nanoseconds a page of 4 KiB:", ""]
        lines += table(["what", "median", "min", "max"],
                       [[s["name"]] + [number(s[k]) for k in ("ns", "ns_min", "ns_max")] for s in costs["systems"]])
    return lines


def write(results_directory, out):
    """The lines for what there are results of."""
    lines = []
    for name, section in (("ablation", steps), ("comparison", comparison)):
        for source in sorted(results_directory.glob(f"{name}*.json"), key=lambda s: len(s.name)):
            lines += section(json.loads(source.read_text()), out, source.stem.removeprefix(name))
    source = results_directory / "pages.json"
    return lines + (loads(json.loads(source.read_text())) if source.exists() else [])
