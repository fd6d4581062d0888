"""The document of YCSB on servers and stores, durable and not. Used by report.py."""

import json

from report_parts import machine_lines, number, table

# Of the rate of the first system of the family, by workload.
GOALS = {"durable memcached shm": {"B": 0.9, "D": 0.9, "A": 0.75, "F": 0.75}}
TITLES = {"memcached": "memcached", "redis": "Redis", "in-process": "Calls in the process"}


def rows_of(benchmark):
    first = benchmark["systems"][0]["name"]
    for s in benchmark["systems"]:
        rate, latency = s["operations_per_second"], s["latency_ns"]
        of_first = s["of_first"]
        goal = GOALS.get(s["name"], {}).get(benchmark["workload"]) if first == "memcached" else None
        met = "" if goal is None else "yes" if of_first["rate"]["median"] >= goal else "**no**"
        yield [benchmark["workload"], s["name"], number(rate["median"]),
               f"{number(rate['min'])} to {number(rate['max'])}", number(of_first["rate"]["median"], 2),
               number(goal, 2) if goal else "", met, number(s["cpu_ns"]["median"] / 1e3, 2),
               number(of_first["cpu"]["median"], 2)] + [
                   number(latency[p] / 1e3, 1) for p in ("p50", "p99", "p999")]


def part(report, title):
    lines = [f"## {title}", ""] + machine_lines(report, "./dev bench ycsb")
    for family, name in TITLES.items():
        all_of_it = [b for b in report["benchmarks"] if b["family"] == family]
        if not all_of_it:
            continue
        b = all_of_it[0]
        lines += [f"### {name}", "",
                  f"{number(b['records'])} records of {number(b['value_bytes'])} bytes, {b['threads']} clients" +
                  (f", {b['server_threads']} worker threads" if family == "memcached" else "") +
                  f"; what is durable on ssd is on {report['disk']}. Ratios are to the first of the family, medians of "
                  "neighbouring repetitions; latency in microseconds.", ""]
        lines += table(["mix", "system", "operations/s", "spread", "of the first", "goal", "met", "CPU, µs",
                        "of the first", "p50", "p99", "p99.9"], [r for b in all_of_it for r in rows_of(b)])
        missed = sum(s["misses"] for b in all_of_it for s in b["systems"])
        if missed:
            lines += [f"{number(missed)} reads found no record.", ""]
    return lines


def write(results, out):
    lines = ["# YCSB: what being durable costs a server", "",
             "Breeze, Fig. 9, again: programs that know nothing of durable memory, as they are and made durable by their "
             "compiler. The paper's figure has memcached (10 million records of 1 KB, emulated memory) slower with Breeze than without in all "
             "mixes, and faster than with NVML but for B and D, where checks of addresses cost what the log saves; it prints no "
             "numbers that could stand beside these.", "",
             "Clients share the two processors with the servers: the server's processor time says what it costs. In-process, "
             "CPU is that of clients and store together.", ""]
    first = len(lines)
    for name, title in (("ycsb", "Memory as it is"), ("ycsb-breeze", "Memory as slow as Breeze's")):
        file = results / f"{name}.json"
        if file.exists():
            lines += part(json.loads(file.read_text()), title)
    if len(lines) == first:
        return []
    out.mkdir(parents=True, exist_ok=True)
    document = out / "ycsb.md"
    document.write_text("\n".join(lines).rstrip() + "\n")
    return [str(document)]
