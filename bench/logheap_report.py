"""The document of the log-structured heap: what LSNVMM's sections 5.2 to 5.4 measure, beside the figures that the paper
prints (5.2 and 5.3 over whole workloads: lsnvmm_report.py), and what its mapping costs. Used by report.py."""

import json

import matplotlib.pyplot as plt

import lsnvmm_report
from report_parts import machine_lines, merge, number, table
from suite_report import Results, system

PAPER = {
    "fragmentation": "The paper (Fig. 9): the log-structured heap 4.5 % on average, 7.3 % in W1, 0.6 % in W3; Mnemosyne "
                     "(Hoard) 25.3 % on average, NVML (jemalloc) 35.0 %.",
    "traffic": "The paper (Fig. 8): 82.8 % and 82.0 % less traffic than Mnemosyne with redo and with undo logging, 80.1 % "
               "and 65.1 % fewer dirty bytes, on average over its structures; it prints none for a byte.",
    "fast": "The paper (Fig. 10; 10 million elements, values of 1 KB): more than 200 MB for a million updates, after the "
            "first ten million; more with separate logs, and the difference is larger for the red-black tree.",
    "cleaning": "The paper (Fig. 11; B+tree, four threads that work, two cleaners, eight processors): 8 % or less at 90 % "
                "of utilisation.",
    "lsc": "The paper (Fig. 7): 4.1 % with one thread, 7.8 % with four.",
    "recovery": "The paper (Fig. 12): 19.2 s for 10 GB of log and values of 128 B with one thread, 3.0 s with eight.",
    "memory": "The paper (Fig. 13): 16.9 % of the data for values of 128 B, mapping and thread caches.",
}
OURS = "log-structured heap"
# In percent, where the paper's text has a figure; Hoard is Mnemosyne's allocator, jemalloc NVML's.
PAPER_FRAGMENTATION = {(OURS, "W1"): 7.3, (OURS, "W3"): 0.6, (OURS, "average"): 4.5, ("Hoard-like", "average"): 25.3,
                       ("jemalloc", "average"): 35.0}
# Seconds for 10 GB by bytes of a value and threads; percent of the data by bytes of a value.
PAPER_RECOVERY_S = {(128, 1): 19.2, (128, 8): 3.0}
PAPER_MEMORY = {128: 16.9}
COLOURS = {"background cleaners": "#1f6f8b", "whoever needs room": "#c7803a", "no cleaning": "#9a9a9a", "one log": "#c7803a",
           "separate logs": "#1f6f8b"}


def percent(value):
    return number(value, 1)


def fragmentation(results):
    names = [n for n in results.names("fragmentation-") if not n.endswith("-single")]
    if not names:
        return []
    lines = ["## Fragmentation (Fig. 9)", "", "- " + PAPER["fragmentation"], "",
             "Bytes taken over the bytes of the objects that live, less one, in percent. W1: objects of 100 to 150 bytes, "
             "then as many bytes of 200 to 250; W2: the same, and 90 % of the first objects, chosen at random, are freed in "
             "between; W3: 1,000 to 2,000, 90 % freed, 1,500 to 2,500. The log-structured heap: chunks that are not free "
             "when cleaning gains nothing more; what stands in brackets is without any cleaning. libpmemobj: active runs. "
             "jemalloc: resident pages after a purge. Hoard-like: superblocks of 64 KiB in use, of a stand-in for Hoard.", ""]
    for suffix, together in (("", 100), ("-single", 1)):
        benchmarks = [b for b in (results.get(n + suffix, 1) for n in names) if b]
        if not benchmarks:
            continue
        systems = list(dict.fromkeys(s["name"] for b in benchmarks for s in b["systems"]))
        sizes = number(benchmarks[0]["parameters"]["bytes_a_phase"] / 2 ** 20)
        lines += [f"{together} call{'s' * (together > 1)} a transaction, phases of {sizes} MiB:", ""]
        rows = []
        for name in systems:
            found = [system(b, name) for b in benchmarks]
            cells = []
            for s in found:
                cells.append("" if s is None else percent(s["percent"])
                             + (f" ({percent(s['uncleaned_percent'])})" if name == OURS else ""))
            known = [s["percent"] for s in found if s]
            rows.append([name] + cells + [percent(sum(known) / len(known)) if len(known) == len(found) else ""])
        lines += table(["system"] + [b["parameters"]["workload"] for b in benchmarks] + ["average"], rows)
        if together > 1 and len(benchmarks) == 3:
            published = [PAPER_FRAGMENTATION.get((OURS, k)) for k in ("W1", "W2", "W3", "average")]
            lines += ["Published elsewhere, log-structured heap: " + "; ".join(
                f"{k} {percent(v)} %" for k, v in zip(("W1", "W2", "W3", "average"), published) if v is not None) + ".", ""]
    return lines


def traffic(results):
    names = results.names("traffic-")
    if not names:
        return []
    rows = []
    for name in names:
        b = results.get(name, 1)
        p = b["parameters"]
        for s in b["systems"]:
            rows.append([f"{p['stored_bytes']} B, {p['updates_a_transaction']} a transaction, {s['name']}",
                         number(s["lines"], 2), number(s["dirty_bytes"]), number(s["fences"], 3),
                         number(s["traffic_per_byte"], 2), number(s["dirty_per_byte"], 2)])
    return ["## Write traffic (Fig. 8)", "", "- " + PAPER["traffic"], "",
            "Of an update of values of 128 bytes, by the meter: lines written back, bytes that were asked to be written "
            "back, fences; and lines times 64, and these bytes, for each byte stored.", ""
            ] + table(["update", "lines", "dirty bytes", "fences", "traffic per byte", "dirty per byte"], rows)


def fast_cleaning(results):
    names = results.names("fast-cleaning-")
    if not names:
        return []
    rows = []
    for name in names:
        b = results.get(name, 1)
        for s in b["systems"]:
            points = s["points"]
            # What the second half of the updates has made stale: the first still finds the preload.
            half = points[len(points) // 2 - 1]
            steady = (points[-1]["reclaimed_bytes"] - half["reclaimed_bytes"]) / (points[-1]["updates"] - half["updates"])
            rows.append([name.removeprefix("fast-cleaning-"), s["name"], number(b["parameters"]["keys"]),
                         number(points[-1]["updates"]), number(points[-1]["reclaimed_bytes"] / 1e6, 1), number(steady)])
    return ["## Fast cleaning (Fig. 10)", "", "- " + PAPER["fast"], "",
            "Chunks in which nothing lives are recycled, every 1,000 operations, and nothing is copied. Values of 1 KiB, "
            "half of the keys there; an operation removes a random key or else inserts it. The last column (bytes, or MB a "
            "million) is of the second half of the updates.", ""
            ] + table(["structure", "logs", "keys", "updates", "MB reclaimed", "bytes an update"], rows)


STRUCTURES = {"bptree": "B+tree", "values": "values"}


def loss_of(ratio, clock="wall"):
    """Percent of the throughput that is lost."""
    return 100 * (1 - ratio[clock]["median"])


def kind_of(benchmark):
    p = benchmark["parameters"]
    return (f"{STRUCTURES[p['structure']]}, {p['value_bytes']} B, {benchmark['threads']} "
            f"thread{'s' * (benchmark['threads'] > 1)}")


def under_pressure(results):
    return [b for b in results.all if b["name"].startswith("cleaning-") and not b["name"].endswith("-cleaned")]


def cleaning(results):
    rows = []
    for b in under_pressure(results):
        told = results.get(b["name"] + "-cleaned", b["threads"])
        plain = system(b, "no cleaning")
        for s in b["systems"]:
            if s["role"] != "subject":
                continue
            r = next(r for r in b["ratios"] if r["subject"] == s["name"])
            c = system(told, s["name"])
            rows.append([f"{kind_of(b)}, {s['name']}", str(b["parameters"]["utilisation_percent"]),
                         number(b["threads"] * 1e6 / plain["wall_ns"]["median"]),
                         number(b["threads"] * 1e6 / s["wall_ns"]["median"]), percent(loss_of(r)),
                         percent(loss_of(r, "cpu")), number(c["recycled_mb_s"]) if c else "",
                         number(c["moved_per_update"]) if c else ""])
    lines = []
    if rows:
        lines += ["## Cleaning under pressure (Fig. 11)", "", "- " + PAPER["cleaning"], "",
                  "B+tree: an operation removes a random key or else inserts it, loads are translated, nothing isolates. "
                  "Values: overwritten at random, one a transaction, and nothing else. % of pool: what the log takes "
                  "when all that can be cleaned is, headers and all. Against a pool in which nothing need be cleaned. "
                  "Thousands of updates a second, all threads; loss in percent, by the wall clock and by processor time "
                  "of the whole process. The two background cleaners have no processors of their own: they share two "
                  "with the threads that work. With none, whoever finds no free chunk cleans.", ""
                  ] + table(["what, who cleans", "% of pool", "no cleaning", "cleaning", "loss %", "CPU loss %",
                             "MB/s recycled", "B moved an update"], rows)
    rows = []
    for name in results.names("lsc-"):
        for threads in results.threads():
            b = results.get(name, threads)
            if b is None or name.endswith("-cleaned"):
                continue
            r = b["ratios"][0]
            spread = f"{100 * (1 - r['wall']['max']):.1f} to {100 * (1 - r['wall']['min']):.1f}"
            c = system(results.get(name + "-cleaned", threads), "LSC")
            rows.append([kind_of(b), percent(loss_of(r)), spread, percent(loss_of(r, "cpu")),
                         number(c["moved_per_update"]) if c else ""])
    if rows:
        lines += ["## Cleaning every 1,000 transactions (LSC)", "", "- " + PAPER["lsc"], "",
                  "No shortage; each thread that works cleans all chunks of which more than half is stale, by itself, "
                  "after 1,000 transactions.", ""
                  ] + table(["what", "loss %", "spread", "CPU loss %", "B moved an update"], rows)
    return lines


def recovery(results):
    rows, memory = [], []
    for name in results.names("recovery-"):
        for threads in results.threads():
            b = results.get(name, threads)
            if b is None:
                continue
            p = b["parameters"]
            for s in b["systems"]:
                whole = s["whole_ms"]["median"]
                ten = whole * 1e10 / p["log_bytes"] / 1e3
                published = PAPER_RECOVERY_S.get((p["value_bytes"], threads))
                beside = f", {number(p['tombstones'])} tombstones" if "tombstones" in p else ""
                rows.append([f"{p['value_bytes']} B, {s['name']}{beside}", number(p["log_bytes"] / 1e9, 2), str(threads),
                             number(s["first_phase_ms"]["median"]), number(s["second_phase_ms"]["median"]), number(whole),
                             number(ten, 1), number(published, 1), number(s["peak_bytes"] / 1e6)])
                if threads == min(results.threads()) and not beside:
                    share = s["mapping_percent_of_data"]
                    memory.append([f"{p['value_bytes']} B, {s['name']}", percent(share),
                                   percent(PAPER_MEMORY.get(p["value_bytes"])),
                                   percent(s["volatile_percent_of_data"])])
    if not rows:
        return []
    return ["## Recovery (Fig. 12)", "", "- " + PAPER["recovery"], "",
            "A log of values each allocated and stored in a transaction of its own, all of which live, after a kill. "
            "Tombstones: as many of objects of which nothing else is left. "
            "Milliseconds: chunks are read and entries dealt out; they are sorted and replayed. Seconds for 10 GB: in "
            "proportion, not measured unless the log has that size. Peak: volatile memory while it lasts.", ""
            ] + table(["values", "log, GB", "threads", "first phase", "second", "whole, ms", "s for 10 GB",
                       "published elsewhere", "peak, MB"], rows) + [
            "## Volatile memory (Fig. 13)", "", "- " + PAPER["memory"], "",
            "Percent of the data: the mapping with one thread's cache; and all that the heap holds, which is the slots of "
            "home space and what is known of chunks besides.", ""
            ] + table(["values", "mapping", "published elsewhere", "all"], memory)


def mapping(report):
    results = Results(report)
    columns = [(f"{kind}-{pick}", t, f"{'' if kind == 'loads' else kind + ' '}{pick}" + (f", {t} threads" if t > 1 else ""))
               for t in results.threads() for kind in ("loads", "mixed", "renewing") for pick in ("hot", "zipf", "uniform")]
    columns = [(results.get(name, t), title) for name, t, title in columns if results.get(name, t)]
    lines = ["# The mapping by itself", ""] + machine_lines(report, "./dev bench mapping")
    if columns:
        p = columns[0][0]["parameters"]
        lines += [f"Nanoseconds of processor time an access, medians. {number(p['values'])} values of {p['value_bytes']} "
                  "bytes; a load is 8 bytes, from home address to the bytes in the log, 16 of them inside one epoch; *plain* "
                  "is the same load from an array. *hot*: 512 values in no order; *zipf*: theta 0.99, scattered; *uniform*: "
                  "all. Without group update (Base, 2L) a value is 16 pieces of a word, with it one. *Mixed*: one access in "
                  "16 is a change of a whole value, bounds as they were; *renewing*: the value is erased and made anew.", ""]
        names = [s["name"] for s in columns[0][0]["systems"]]
        rows = [[n] + [number(s["cpu_ns"]["median"]) if s else "" for s in (system(b, n) for b, _ in columns)] for n in names]
        lines += table(["system"] + [title for _, title in columns], rows)
    hits = results.get("hits", 1)
    if hits:
        picks, entries = ("hot", "zipf", "uniform"), {}
        for s in hits["systems"]:
            pick, size = s["name"].split(", ")
            entries.setdefault(int(size.split()[0]), {})[pick] = s["hits_percent"]
        rows = [[number(n), f"{n * 8 // 1024:,} KiB"] + [number(of[p], 1) + " %" for p in picks] for n, of in entries.items()]
        lines += ["## Hits of the node cache", "", "The paper has 92.2 % on average, with up to 4 M entries.", ""
                  ] + table(["entries", "a thread"] + list(picks), rows)
    memory = results.get("memory", 1)
    if memory:
        values = memory["parameters"]["values"]
        lines += ["## Memory of the mapping", "", f"{number(values)} values, everything mapped.", ""]
        lines += table(["mapping", "bytes a value", "of the data"],
                       [[s["name"], number(s["bytes"] / values, 1), number(s["percent_of_data"], 1) + " %"]
                        for s in memory["systems"]])
    return lines


def plot_fast(results, path):
    names = results.names("fast-cleaning-")
    if not names:
        return False
    figure, all_axes = plt.subplots(1, len(names), figsize=(4.5 * len(names), 3.6), squeeze=False)
    for axes, name in zip(all_axes[0], names):
        for s in results.get(name, 1)["systems"]:
            axes.plot([p["updates"] / 1e6 for p in s["points"]], [p["reclaimed_bytes"] / 1e6 for p in s["points"]],
                      color=COLOURS[s["name"]], label=s["name"], marker="o", markersize=3, linewidth=1.2)
        axes.set_title(name.removeprefix("fast-cleaning-"), fontsize=10)
        axes.set_xlabel("million updates")
        axes.set_ylabel("MB reclaimed without copying")
        axes.grid(linewidth=0.3)
        axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def plot_cleaning(results, path):
    groups = {}
    for b in under_pressure(results):
        groups.setdefault((b["parameters"]["structure"], b["parameters"]["value_bytes"], b["threads"]), []).append(b)
    if not groups:
        return False
    rows = (len(groups) + 1) // 2
    figure, all_axes = plt.subplots(rows, 2, figsize=(9, 3.6 * rows), squeeze=False)
    for axes in all_axes.flat[len(groups):]:
        axes.set_axis_off()
    for axes, ((_, _, threads), found) in zip(all_axes.flat, sorted(groups.items())):
        beside = axes.twinx()
        for name in dict.fromkeys(s["name"] for b in found for s in b["systems"]):
            def curve(value):
                return zip(*sorted((b["parameters"]["utilisation_percent"], value(b)) for b in found))
            axes.plot(*curve(lambda b, n=name: threads * 1e6 / system(b, n)["wall_ns"]["median"]), color=COLOURS[name],
                      label=f"txn, {name}", marker="o", markersize=3, linewidth=1.2)
            if name == "no cleaning":
                continue
            beside.plot(*curve(lambda b, n=name: system(results.get(b["name"] + "-cleaned", threads), n)["recycled_mb_s"]),
                        "--", color=COLOURS[name], label=f"cln, {name}", marker="s", markersize=3, linewidth=1)
        axes.set_title(kind_of(found[0]), fontsize=10)
        axes.set_xlabel("% of the pool")
        axes.set_ylabel("thousand updates a second")
        axes.set_ylim(bottom=0)
        beside.set_ylabel("MB/s recycled")
        beside.set_ylim(bottom=0)
        axes.grid(linewidth=0.3)
        handles, labels = axes.get_legend_handles_labels()
        more, more_labels = beside.get_legend_handles_labels()
        axes.legend(handles + more, labels + more_labels, fontsize=6, loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def plot_fragmentation(results, path):
    names = [n for n in results.names("fragmentation-") if not n.endswith("-single")]
    if not names:
        return False
    found = [results.get(n, 1) for n in names]
    systems = list(dict.fromkeys(s["name"] for b in found for s in b["systems"]))
    figure, axes = plt.subplots(figsize=(8, 3.4))
    width = 0.8 / len(systems)
    palette = ["#1f6f8b", "#c7803a", "#5b5b8f", "#9a9a9a"]
    groups = [b["parameters"]["workload"] for b in found] + ["average"]
    for k, name in enumerate(systems):
        values = [s["percent"] if s else None for s in (system(b, name) for b in found)]
        values.append(None if None in values else sum(values) / len(values))
        for i, value in enumerate(values):
            if value is None:
                continue
            axes.bar(i + k * width, value, width, color=palette[k % 4], label=name if i == 0 else None)
            axes.text(i + k * width, value, percent(value), ha="center", va="bottom", fontsize=7)
            printed = PAPER_FRAGMENTATION.get((name, groups[i]))
            if printed is not None:
                axes.hlines(printed, i + (k - 0.5) * width, i + (k + 0.5) * width, color="#b02020", linewidth=1.6,
                            label="published elsewhere" if (name, groups[i]) == (OURS, "W1") else None)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(groups))], groups)
    axes.set_ylabel("% more than what lives")
    axes.set_title("Fragmentation (Fig. 9)", fontsize=10)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_axisbelow(True)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def merged(results_directory):
    """logheap.json, and what logheap-*.json add to it: parts that were run one after the other; by emulated latency."""
    reports = {}
    for source in sorted(results_directory.glob("logheap*.json")):
        part = json.loads(source.read_text())
        latency = part["machine"]["emulated_latency"]
        reports[latency] = merge(reports.get(latency), part)
    return reports


def write(results_directory, out):
    """Writes logheap.md with its plots; the paths, or nothing where there are no results."""
    reports = merged(results_directory)
    of_mapping = results_directory / "mapping.json"
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for latency, report in sorted(reports.items(), key=lambda item: item[0] != "none"):
        results = Results(report)
        suffix = "" if latency == "none" else f"-{latency}"
        lines += ["# The log-structured heap" + (f", memory as slow as {latency}" if suffix else ""), ""]
        lines += machine_lines(report, "./dev bench logheap")
        for section, plot, picture in ((fragmentation, plot_fragmentation, "fig9"), (traffic, None, ""),
                                       (fast_cleaning, plot_fast, "fig10"), (cleaning, plot_cleaning, "fig11"),
                                       (recovery, None, "")):
            lines += section(results)
            if plot and plot(results, out / f"logheap-{picture}{suffix}.png"):
                lines += [f"![{picture}](logheap-{picture}{suffix}.png)", ""]
        lines += lsnvmm_report.wear(results, out, suffix) + lsnvmm_report.hits(results, out, suffix)
    lines += lsnvmm_report.write(results_directory, out)
    if of_mapping.exists():
        lines += mapping(json.loads(of_mapping.read_text()))
    if not lines:
        return []
    (out / "logheap.md").write_text("\n".join(lines).rstrip() + "\n")
    return [str(out / "logheap.md")]
