"""The document of regions as a key-value store: figures 12 to 14 of the Lewat paper measured again, beside what its text
says of them. Used by report.py."""

import json

from report_parts import machine_lines, merge, number, table
from suite_report import Results, per_cpu_second, system, to_html

SUBJECT = "kv regions over undo"
PEER = "libpmemobj"
LOCK_FREE = "lock-free hash table"
# Ours and the papers' baselines, with the columns' names.
OTHERS = {"undo, announced stores": "undo", "stm over redo": "redo", "log, announced stores": "log",
          "mnemosyne": "mnemosyne", "mnemosyne-undo": "mnemosyne-undo", "kv hash table over undo": "kv hash table",
          LOCK_FREE: "lock-free"}
# Figures of the text (section VII-D, E): how many times as fast as PMDK, HEAPO and EFLightPM.
READ_HEAVY = "1.27-2.34"
WRITE_HEAVY = "1.56-4.02"
PAPER = {"ycsb-B-64B": READ_HEAVY, "ycsb-C-64B": READ_HEAVY, "ycsb-D-64B": READ_HEAVY, "ycsb-A-64B": WRITE_HEAVY,
         "ycsb-F-64B": WRITE_HEAVY, "ycsb-A-2KB": "to 2.11 EFLightPM", "ycsb-F-2KB": "to 2.11 EFLightPM"}
# With one thread, and with several.
FACEBOOK = {"USR": ("1.05-1.64", "1.28-1.91"), "APP": ("1.26-2.44", "1.64-3.20"), "ETC": ("1.10-1.69", "1.60-2.43"),
            "VAR": ("2.12-5.26", "2.56-6.10"), "SYS": ("1.56-2.63", "2.01-3.29")}
# Over Level-Hash, one thread and four; over HiKV "similar or better" everywhere.
LEVEL_HASH = {"ycsb-C-16B": ("0.93", "0.85"), "rewrite-16B": ("1.0", "0.79")}


def thousands(s):
    return number(per_cpu_second(s) / 1e3) if s else ""


def times(benchmark, peer, subject=SUBJECT):
    """Median of the ratios of neighbouring repetitions."""
    return next((number(r["cpu"]["median"], 2) for r in benchmark["ratios"] if (r["subject"], r["peer"]) == (subject, peer)),
                "")


def against(benchmark, other):
    """The same with another subject of ours, of which the harness takes no ratios."""
    a, b = system(benchmark, SUBJECT), system(benchmark, other)
    return number(b["cpu_ns"]["median"] / a["cpu_ns"]["median"], 2) if a and b else ""


def p99(s):
    return number(s["latency_ns"]["p99"] / 1e3, 1) if s and "latency_ns" in s else ""


def counted(s):
    c = (s.get("own_counts") or s.get("counts")) if s else None
    return f"{number(c['fences'], 2)}, {number(c['lines'], 1)}" if c else ""


def rows_of(results, names, paper):
    """Rows for every number of threads; paper(name, threads): what the paper says."""
    rows = []
    for name in names:
        for threads in results.threads():
            b = results.get("store-" + name, threads)
            ours = system(b, SUBJECT)
            if ours is None:
                continue
            rows.append([name, str(threads), thousands(ours), thousands(system(b, PEER))]
                        + [thousands(system(b, o)) for o in OTHERS]
                        + [times(b, PEER), against(b, LOCK_FREE), paper(name, threads), p99(ours), p99(system(b, PEER)),
                           counted(ours), counted(system(b, PEER))])
    return rows


def figure(title, text, rows):
    if not rows:
        return []
    return ["## " + title, "", text, ""] + table(
        ["mix", "threads", "Lewat-KV", PEER] + list(OTHERS.values())
        + ["x libpmemobj", "x lock-free", "published elsewhere", "p99 µs", "libpmemobj's", "fences, lines", "libpmemobj's"], rows)


def threads_compared(results):
    rows = []
    for name in results.names("store-"):
        one, two = system(results.get(name, 1), SUBJECT), system(results.get(name, 2), SUBJECT)
        if one and two:
            row = [name.removeprefix("store-")]
            for s in (SUBJECT, PEER, LOCK_FREE):
                a, b = system(results.get(name, 1), s), system(results.get(name, 2), s)
                row.append(number(2 * a["cpu_ns"]["median"] / b["cpu_ns"]["median"], 2) if a and b else "")
            rows.append(row)
    if not rows:
        return []
    return ["## Two threads over one", "",
            "By processor time: what two threads would do that have two processors to themselves.", ""
            ] + table(["mix", "Lewat-KV", PEER, "lock-free"], rows)


def figures(results):
    ycsb = [f"ycsb-{m}-{size}" for size in ("64B", "2KB") for m in "ABCDF"]
    lines = figure("YCSB (Fig. 12)", "Values of 64 B and 2 KB.",
                   rows_of(results, ycsb, lambda name, threads: PAPER.get(name, "") if threads == 1 else ""))
    lines += figure("YCSB, keys shared", "Every thread uses every key; the paper does not say whether its threads do.",
                    rows_of(results, [n + "-shared" for n in ycsb], lambda name, threads: ""))
    lines += figure("Facebook's mixes (Fig. 13)", "Keys and values of all sizes up to the mix's largest.",
                    rows_of(results, ["fb-" + n for n in FACEBOOK],
                            lambda name, threads: FACEBOOK[name.removeprefix("fb-")][threads > 1]))
    lines += figure("Read, insert, update (Fig. 14)",
                    "`ycsb-C` reads only, `insert` and `rewrite` say what they do. Published: over Level-Hash, whose place the lock-free "
                    "table has here, with one thread and with four.",
                    rows_of(results, [f"{m}-{size}" for size in ("16B", "2KB") for m in ("ycsb-C", "insert", "rewrite")],
                            lambda name, threads: LEVEL_HASH.get(name, ("", ""))[threads > 1]))
    return lines + threads_compared(results)


def write(results_directory, out):
    """Writes lewat.md and lewat.html from lewat*.json, a part for each emulated memory; the paths, or nothing where there
    are no results."""
    reports = {}
    for source in sorted(results_directory.glob("lewat*.json")):
        part = json.loads(source.read_text())
        memory = part["machine"]["emulated_latency"]
        reports[memory] = merge(reports.get(memory), part)
    if not reports:
        return []
    out.mkdir(parents=True, exist_ok=True)
    lines = ["# Regions as a key-value store", "",
             "Thousands of operations in a second of processor time of the whole process, what libraries do in the background "
             "included; `x` are medians of the ratios of neighbouring repetitions (`x lock-free`: of the medians). Lewat-KV is the key-value "
             "library's index of regions, checksums and all; of libpmemobj, undo, redo, log and the baselines it is one and the same "
             "hash table of items, without checksums, locks or a way to find damage, compiled for each. `published elsewhere`: what the "
             "paper's text says of its own system over its own peers, on its own machine.", ""]
    for memory in sorted(reports, key=lambda m: (m != "none", m)):
        if memory != "none":
            lines += [f"# The same with emulated memory: {memory}", ""]
        lines += machine_lines(reports[memory], "./dev bench lewat") + figures(Results(reports[memory]))
    (out / "lewat.md").write_text("\n".join(lines).rstrip() + "\n")
    (out / "lewat.html").write_text(to_html(lines, "Holdfast: regions as a key-value store"))
    return [str(out / "lewat.md"), str(out / "lewat.html")]
