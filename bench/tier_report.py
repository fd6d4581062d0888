"""The document of pools that are partly in a second file: each policy, pools that fit, pools on ssd with a limit. Used by
report.py.

Goals: a fault-in of at most 25 us at the median; the policy `steady` at least as fast as the best other in each row;
with `uflru` at most 0.9 of the bytes that `lru` writes where half of the data are referenced by turns; a pool that
fits at most 1 % slower than without a tier.
"""

import json
import statistics

from report_parts import machine_lines, number, table

POLICIES = ("steady", "uflru", "lru", "cflru", "second-chance", "fifo")
TRACES = {"zipfian": "by Zipf's law", "scan": "round and round", "both": "by turns in these two ways",
          "halves": "by Zipf's law of one half at a time, and only that half is referenced"}


def figures_of(benchmarks, name):
    return [b["parameters"] for b in benchmarks if b["name"] == name]


def median(runs, what):
    return statistics.median(r[what] for r in runs)


def spread(runs, what, unit=1, digits=0):
    values = [r[what] / unit for r in runs]
    return f"{number(statistics.median(values), digits)} ({number(min(values), digits)} to {number(max(values), digits)})"


def row(benchmarks, trace, policy):
    runs = figures_of(benchmarks, f"{trace}-{policy}")
    if not runs:
        return None
    return [f"{trace}, {policy}", spread(runs, "ops_per_s"), number(median(runs, "faults")),
            number(median(runs, "store_faults")), number(median(runs, "bytes_written") / 2**20, 1),
            number(median(runs, "syncs")), number(median(runs, "p50_ns") / 1e3, 1), number(median(runs, "p99_ns") / 1e3, 1),
            number(median(runs, "fault_ns_p50") / 1e3, 1), number(median(runs, "fault_ns_p99") / 1e3, 1)]


def judged(benchmarks):
    """Sentences about the goals, by the medians."""
    for trace in TRACES:
        rates = {p: median(runs, "ops_per_s") for p in POLICIES if (runs := figures_of(benchmarks, f"{trace}-{p}"))}
        if len(rates) == len(POLICIES):
            best = max((p for p in rates if p != "steady"), key=rates.get)
            yield f"`{trace}`: steady {number(rates['steady'] / rates[best], 2)} times the rate of the best other, {best} (goal 1)."
    written = [median(runs, "bytes_written") for p in ("uflru", "lru") if (runs := figures_of(benchmarks, f"halves-{p}"))]
    if len(written) == 2 and written[1]:
        yield f"`halves`: uflru writes {number(written[0] / written[1], 2)} times the bytes of lru (goal 0.9)."
    faults = [b["parameters"]["fault_ns_p50"] for b in benchmarks if b["name"].partition("-")[0] in TRACES]
    if faults:
        yield (f"A fault-in takes {number(min(faults) / 1e3, 1)} to {number(max(faults) / 1e3, 1)} us at the median of a run "
               "(goal 25).")
    fits = [median(runs, "ops_per_s") for n in ("with", "without") if (runs := figures_of(benchmarks, f"fits-{n}"))]
    if len(fits) == 2:
        yield f"A pool that fits: {number(fits[0] / fits[1], 3)} times the rate without a tier (goal 0.99)."


def write(results, out):
    file = results / "tier.json"
    if not file.exists():
        return []
    report = json.loads(file.read_text())
    benchmarks = report["benchmarks"]
    lines = ["# A quarter of the data in fast memory", ""] + machine_lines(report, "./dev bench tier")
    lines += ["Objects of a page each, half of which compresses (LZ4); an operation reads 64 bytes of one, or, one in ten, changes "
              "them in a transaction. HEAPO has no figures for its policies.", ""]
    rows = [r for t in TRACES for p in POLICIES if (r := row(benchmarks, t, p))]
    if rows:
        lines += ["## Policies", "", "A pool on shared memory, a quarter of it in fast memory. " +
                  "; ".join(f"`{t}`: objects are drawn {what}" for t, what in TRACES.items()) +
                  ". Medians of the runs, of the rate also the smallest and the largest; times in microseconds.", ""]
        lines += table(["", "operations/s", "faults", "store faults", "MiB written", "syncs", "p50", "p99", "fault-in p50",
                        "p99"], rows)
    for name, title, systems in (("fits", "A pool that fits", ("without", "with")),
                                 ("ssd", "A pool on ssd", ("not bounded", "a quarter", "a tenth"))):
        found = [(s, figures_of(benchmarks, f"{name}-{s}")) for s in systems]
        if not all(runs for _, runs in found):
            continue
        lines += [f"## {title}", ""]
        lines += table(["", "operations/s", "faults", "p50, us", "p99, us"],
                       [[s, spread(runs, "ops_per_s"), number(median(runs, "faults")), number(median(runs, "p50_ns") / 1e3, 2),
                         number(median(runs, "p99_ns") / 1e3, 1)] for s, runs in found])
    sentences = list(judged(benchmarks))
    if sentences:
        lines += ["## Goals", ""] + [f"- {s}" for s in sentences] + [""]
    out.mkdir(parents=True, exist_ok=True)
    document = out / "tier.md"
    document.write_text("\n".join(lines).rstrip() + "\n")
    return [str(document)]
