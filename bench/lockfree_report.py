"""The document of the lock-free structures: figures 5 to 10 of the log-free paper measured again, beside what its text
says of them, what an operation costs, and what the machine allows. Used by report.py."""

import json

import matplotlib.pyplot as plt

from report_parts import machine_lines, merge, number, table
from suite_report import Results, per_cpu_second, system, to_html

PAPER = {
    "fig5": "Fig. 5 (50 % inserts, 50 % removes, 1 and 8 threads, normalised to redo logging): important benefits whatever "
            "the structure, an order of magnitude for the skip list; less for large structures, where the way to the place "
            "of the change dominates, and where unlinking finds fewer of its areas active.",
    "fig6": "Fig. 6: the slower memory writes, the larger the gain; the ratio of throughputs approaches the inverse ratio "
            "of the numbers of syncs.",
    "fig7": "Fig. 7 (linked list against one that knows nothing of durability): a constant cost for an operation, which "
            "counts for small structures and less and less for larger ones.",
    "fig8": "Fig. 8 (1024 elements): link-and-persist is faster than logging for all structures; in most cases the link "
            "cache adds to that. The link cache has 32 lines; it becomes less efficient with more threads.",
    "fig9": "Fig. 9 (skip list, areas of 4 KiB, trimmed beyond 16): hits close to 100 % for allocations whatever the size; "
            "for unlinking they fall beyond 64 MB (a million nodes). Throughput several-fold for small and medium "
            "structures, less for large ones; larger areas help.",
    "fig10": "Fig. 10: hash table, tree and skip list of 4M elements recover in less than 5 ms; a list of 64K, by "
             "traversal, in 16 ms.",
}
SUBJECT, CACHED, UNLINKED, REDO, STAMPED, VOLATILE = ("link-and-persist", "link cache", "volatile links", "redo log",
                                                      "redo log, stamped", "volatile")
SHAPES = {"list": "list", "hash": "hash table", "skiplist": "skip list", "bst": "search tree"}
FLOOR = "primitive: payload only"
COLOURS = {"list": "#1f6f8b", "hash": "#c7803a", "skiplist": "#2b8a5a", "bst": "#5b5b8f"}

CLAIMED = {"insert": "1 fence, at most 3 lines", "remove": "1 fence, at most 2 lines and deferred ones",
           "replace": "as an insert", "look-up": "none"}


def of_mix(results, mix):
    """(shape, size, threads, benchmark) of what was measured with this mix."""
    for b in results.all:
        if b["name"].startswith(mix + "-"):
            yield b["parameters"]["shape"], b["parameters"]["size"], b["threads"], b


def ratio(benchmark, over, under, clock="cpu_ns"):
    """How many times as fast `over` is as `under`; None where one of them was not measured."""
    a, b = system(benchmark, over), system(benchmark, under)
    return b[clock]["median"] / a[clock]["median"] if a and b else None


def millions(s):
    return number(per_cpu_second(s) / 1e6, 3) if s else ""


def updates(results):
    rows = []
    for shape, size, threads, b in of_mix(results, "updates"):
        rows.append([SHAPES[shape], str(size), str(threads)]
                    + [millions(system(b, name)) for name in (SUBJECT, CACHED, UNLINKED, REDO, STAMPED, VOLATILE)]
                    + [number(ratio(b, SUBJECT, REDO), 2), number(ratio(b, CACHED, REDO), 2),
                       number(ratio(b, SUBJECT, STAMPED), 2), number(ratio(b, CACHED, STAMPED), 2)])
    return ["## Updates beside redo logging (Fig. 5, Fig. 8)", "", "- " + PAPER["fig5"], "- " + PAPER["fig8"], "",
            "Half inserts, half removes of uniformly random keys, half of the range there; millions of operations in a "
            "second of processor time, and how many times as fast as the log-based twin, by processor time. The twins "
            "are the lazy list, the hash table of lazy lists, the optimistic skip list and bst-tk. `redo log` makes "
            "three syncs an update, as hand-written redo logging does whose records are closed before the locks go. "
            "`redo log, stamped` needs one: its links carry stamps, records are known to be stale by these and need "
            "not be closed. The paper has nothing like it; it is the stronger rival.", ""
            ] + table(["structure", "size", "threads", "LP", "LC", "VL", "redo", "stamped", "volatile", "LP / redo",
                       "LC / redo", "LP / stamped", "LC / stamped"], rows)


def reads(results):
    rows = []
    for shape, size, threads, b in of_mix(results, "reads"):
        if system(b, SUBJECT) is None:
            continue
        lost = ratio(b, CACHED, SUBJECT)
        rows.append([SHAPES[shape], str(size), str(threads)]
                    + [millions(system(b, name)) for name in (SUBJECT, CACHED, UNLINKED, STAMPED, VOLATILE)]
                    + [number(ratio(b, SUBJECT, VOLATILE), 2), number(ratio(b, UNLINKED, VOLATILE), 2), number(lost, 2),
                       "yes" if lost >= 0.95 else "no"])
    return ["## Nine look-ups in ten operations", "",
            "As above. The link cache may lose 5 % to link-and-persist.", ""
            ] + table(["structure", "size", "threads", "LP", "LC", "VL", "stamped", "volatile", "LP / volatile",
                       "VL / volatile", "LC / LP", "at least 0.95"], rows)


def over_volatile(results):
    rows = []
    for shape, size, threads, b in of_mix(results, "updates"):
        if threads != 1 or system(b, SUBJECT) is None:
            continue
        rows.append([SHAPES[shape], str(size), number(ratio(b, SUBJECT, VOLATILE), 2),
                     number(ratio(b, CACHED, VOLATILE), 2), number(ratio(b, UNLINKED, VOLATILE), 2),
                     number(system(b, SUBJECT)["cpu_ns"]["median"] - system(b, VOLATILE)["cpu_ns"]["median"])])
    return ["## Durable over volatile (Fig. 7)", "", "- " + PAPER["fig7"], "",
            "The same structure over memory without any persistence; one thread, updates only.", ""
            ] + table(["structure", "size", "LP / volatile", "LC / volatile", "VL / volatile", "LP: ns more an operation"],
                      rows)


def latency(results):
    rows = []
    for shape, size, _, b in of_mix(results, "latency"):
        rows.append([SHAPES[shape], str(size), number(b["parameters"]["write_ns"] / 1e3, 3)]
                    + [number(s["wall_ns"]["median"] / 1e3, 2) if s else ""
                       for s in (system(b, n) for n in (SUBJECT, CACHED, REDO, STAMPED))]
                    + [number(ratio(b, SUBJECT, REDO, "wall_ns"), 2), number(ratio(b, CACHED, REDO, "wall_ns"), 2),
                       number(ratio(b, SUBJECT, STAMPED, "wall_ns"), 2), number(ratio(b, CACHED, STAMPED, "wall_ns"), 2)])
    return ["## Write latency (Fig. 6)", "", "- " + PAPER["fig6"], "",
            "Microseconds an update, one thread, each batch of write-backs that is waited for taking the latency more.", ""
            ] + table(["structure", "size", "µs", "LP", "LC", "redo", "stamped", "LP / redo", "LC / redo", "LP / stamped",
                       "LC / stamped"], rows)


def areas(results):
    rows = []
    for shape, size, threads, b in of_mix(results, "areas"):
        gains = [ratio(b, name, "each recorded by itself") for name in (SUBJECT, "as in the paper")]
        hits = []
        for suffix in ("paper", "ours"):
            h = results.get(f"hits-{shape}-{size}-{suffix}", 1)
            hits += [number(h["systems"][0][k], 2) if h else ""
                     for k in ("allocation_hits_percent", "unlink_hits_percent")]
        rows.append([SHAPES[shape], str(size)] + hits + [number(g, 2) for g in reversed(gains)])
    if not rows:
        return []
    return ["## Active areas (Fig. 9)", "", "- " + PAPER["fig9"], "",
            "Share of allocations and of unlinkings that find their area, of 4 KiB, in the table, in percent; with a "
            "write-back for each allocation, as in the paper, and with ours, where a thread takes all places of an "
            "allocation word at once (so an allocation looks at the table once in tens). Gain: throughput over the "
            "same structure that records each allocation and each unlinking durably by itself.", ""
            ] + table(["structure", "size", "paper: allocations", "unlinkings", "ours: allocations", "unlinkings",
                       "gain, paper", "gain, ours"], rows)


def recovery(results):
    rows = []
    for b in results.all:
        if not b["name"].startswith("recovery-"):
            continue
        for s in b["systems"]:
            ms = s["recovery_ms"]
            rows.append([SHAPES[b["parameters"]["shape"]], str(b["parameters"]["size"]), s["name"], number(ms["median"], 2),
                         f"{ms['min']:.2f} to {ms['max']:.2f}", number(s["boot_ms"]["median"], 2),
                         number(s["first_operation_ms"]["median"], 2), str(s["areas"]), str(s["allocated"]),
                         str(s["freed"])])
    if not rows:
        return []
    return ["## Recovery (Fig. 10)", "", "- " + PAPER["fig10"], "",
            "A process is killed while two of its threads insert and remove, when their tables of areas are as full as they "
            "get; the pool is taken out of the caches (clflush), then opened and recovered by two threads. Milliseconds: recovery alone, the page map's scan before it, and "
            "from the beginning to the first look-up. Search looks for each node of the active areas, traversal walks the "
            "structure once; with volatile links all pages are looked through, all nodes linked (`nodes`: these). After "
            "each first run every allocated node is linked.", ""
            ] + table(["structure", "size", "method", "recovery ms", "spread", "scan ms", "first look-up ms", "areas",
                       "nodes in them", "freed"], rows)


def opening(results):
    rows = []
    for b in results.all:
        if not b["name"].startswith("opening-"):
            continue
        for s in b["systems"]:
            first = s["first_operation_ms"]
            rows.append([SHAPES[b["parameters"]["shape"]], str(b["parameters"]["size"]), number(first["median"], 2),
                         f"{first['min']:.2f} to {first['max']:.2f}", number(s["pool_ms"]["median"], 2),
                         number(s["structure_ms"]["median"], 2)])
    if not rows:
        return []
    return ["## Opening after a kill", "",
            "The same through the C interface, in a process of its own: milliseconds from the call of nvm_pool_open() to the "
            "return of the first look-up, page map scan, recovery and count of the keys included; the opening of the pool, "
            "and that of the structure. Killed at any moment, not with full tables.", ""
            ] + table(["structure", "size", "first look-up ms", "spread", "pool ms", "structure ms"], rows)


def costs(results):
    rows = []
    for b in results.all:
        if not b["name"].startswith("costs-"):
            continue
        for s in b["systems"]:
            for operation in ("insert", "remove", "replace", "look-up"):
                c = s.get(operation)
                if c:
                    rows.append([SHAPES[b["parameters"]["shape"]], str(b["parameters"]["size"]), s["name"], operation,
                                 number(c["fences"], 2), number(c["waiting_locks"], 2), number(c["lines"], 2),
                                 number(c["instructions"]), CLAIMED[operation] if s["name"] == SUBJECT else ""])
    if not rows:
        return []
    return ["## What an operation costs", "",
            "Counted by stepping through successful operations, those included that free unlinked nodes or trim a table. "
            "Draining: locked instructions that found a write-back outstanding and so waited like a fence; a CAS that "
            "publishes a node is one, by design. The paper claims that link-and-persist needs two syncs for an insert (node, "
            "link), fewer with the link cache; the last column is our goal.", ""
            ] + table(["structure", "size", "variant", "operation", "fences", "draining", "lines", "instructions", "goal"],
                      rows)


def beside_the_machine(results):
    rows = []
    for mix in ("updates", "reads"):
        for shape, size, threads, b in of_mix(results, mix):
            candidates = [system(b, name) for name in (SUBJECT, CACHED, UNLINKED) if system(b, name)]
            floor, volatile = system(b, FLOOR), system(b, VOLATILE)
            if threads != 1 or not candidates or not floor or not volatile:
                continue
            best = max(candidates, key=per_cpu_second)
            got = per_cpu_second(best) / 1e6
            bound = 1e3 / (floor["cpu_ns"]["median"] + volatile["cpu_ns"]["median"])
            rows.append([SHAPES[shape], str(size), "U" if mix == "updates" else "R", number(got, 2), best["name"],
                         number(bound, 2), number(got / bound, 2)])
    if not rows:
        return []
    return ["## Beside what the machine allows", "",
            "Millions of operations in a second of processor time, one thread, real write-backs; U: half inserts, half "
            "removes, R: nine look-ups in ten. `bound` is what this machine allows: the volatile original, and for each "
            "update that changes something one line written back and fenced, nothing else.",
            ""] + table(["structure", "size", "mix", "ours", "variant", "bound", "of it"], rows)


def curve(results, mix, path, title, x_of, y_of, x_label, y_label, wanted=lambda b: True, level=1):
    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    lines = {}
    for shape, _, _, b in of_mix(results, mix):
        if not wanted(b):
            continue
        for label, style, value in y_of(b):
            if value is not None:
                lines.setdefault((shape, label, style), []).append((x_of(b), value))
    if not lines:
        plt.close(figure)
        return False
    for (shape, label, style), points in lines.items():
        points.sort()
        axes.plot(*zip(*points), style, color=COLOURS[shape], label=f"{SHAPES[shape]}, {label}", marker="o", markersize=3,
                  linewidth=1.2)
    if level is not None:
        axes.axhline(level, color="#888888", linewidth=0.6)
    axes.set_xscale("log")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title, fontsize=10)
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=6, ncol=2)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def plots(results, out):
    def size_of(b):
        return b["parameters"]["size"]

    def against(clock):
        return lambda b: [("LP / redo", "-", ratio(b, SUBJECT, REDO, clock)), ("LC / redo", "--", ratio(b, CACHED, REDO, clock))]

    made = []
    for threads in results.threads():
        made.append((f"fig5-{threads}", curve(
            results, "updates", out / f"lockfree-fig5-{threads}.png",
            f"Updates over redo logging, by processor time, {threads} thread{'s' * (threads > 1)} (Fig. 5)", size_of,
            against("cpu_ns"), "keys", "times as fast", lambda b, t=threads: b["threads"] == t)))
    made.append(("fig6", curve(results, "latency", out / "lockfree-fig6.png", "Updates over redo logging, by write latency "
                               "(Fig. 6)", lambda b: b["parameters"]["write_ns"], against("wall_ns"), "ns", "times as fast")))
    made.append(("fig7", curve(
        results, "updates", out / "lockfree-fig7.png", "Durable over volatile, updates, one thread (Fig. 7)", size_of,
        lambda b: [("LP", "-", ratio(b, SUBJECT, VOLATILE)), ("LC", "--", ratio(b, CACHED, VOLATILE))], "keys", "share",
        lambda b: b["threads"] == 1)))
    made.append(("fig9", curve(
        results, "areas", out / "lockfree-fig9.png", "Gain from active areas over recording each (Fig. 9 b)", size_of,
        lambda b: [("as in the paper", "-", ratio(b, "as in the paper", "each recorded by itself")),
                   ("ours", "--", ratio(b, SUBJECT, "each recorded by itself"))], "keys", "times as fast")))
    made.append(("fig10", curve(
        results, "recovery", out / "lockfree-fig10.png", "Recovery after a kill (Fig. 10)", size_of,
        lambda b: [(s["name"], "-" if s["name"] == "search" else "--", s["recovery_ms"]["median"]) for s in b["systems"]],
        "keys", "ms", level=5)))
    return [f"lockfree-{name}.png" for name, there in made if there]


def merged(results_directory):
    """lockfree.json, and what lockfree-*.json add to it: parts that were run one after the other."""
    report = None
    for source in sorted(results_directory.glob("lockfree*.json")):
        part = json.loads(source.read_text())
        report = merge(report, part)
    return report


def write(results_directory, out):
    """Writes lockfree.md and lockfree.html with their plots; the paths, or nothing where there are no results."""
    report = merged(results_directory)
    if report is None:
        return []
    results = Results(report)
    out.mkdir(parents=True, exist_ok=True)
    pictures = plots(results, out)
    lines = ["# Lock-free structures", ""] + machine_lines(report, "./dev bench lockfree")
    lines += ["LP: link-and-persist. LC: with the link cache. VL: volatile links. Two threads share two processors with "
              "whatever else the machine does: processor time is what is compared.", ""]
    lines += beside_the_machine(results) + updates(results) + reads(results) + over_volatile(results) + latency(results)
    lines += areas(results) + recovery(results) + opening(results) + costs(results)
    for picture in pictures:
        lines += [f"![{picture}]({picture})", ""]
    (out / "lockfree.md").write_text("\n".join(lines).rstrip() + "\n")
    (out / "lockfree.html").write_text(to_html(lines, "Holdfast: lock-free structures"))
    return [str(out / "lockfree.md"), str(out / "lockfree.html")]
