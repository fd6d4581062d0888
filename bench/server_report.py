"""The document of nv-memcached beside memcached and Redis. Used by report.py."""

import json

from report_parts import machine_lines, number, table
from suite_report import to_html

PIPELINED_CPU_GOAL_US = 1.1


def shape(benchmark):
    connections, in_flight = benchmark["connections"], benchmark["in_flight"]
    return f"{connections} connection{'' if connections == 1 else 's'}, {in_flight} in flight"


def rows_of(report):
    for b in report["benchmarks"]:
        for s in b["systems"]:
            rate, latency = s["requests_per_second"], s["latency_ns"]
            yield [b["transport"], str(b["threads"]), number(b["keys"]), shape(b), s["name"], number(rate["median"]),
                   f"{number(rate['min'])} to {number(rate['max'])}", number(s["server_cpu_ns"]["median"] / 1e3, 2)
                   ] + [number(latency[p] / 1e3, 1) for p in ("p50", "p99", "p999")]


def goal_rows(report, subject, peer):
    """A server answers as many requests as its peer, for as much processor time; pipelined, for little of it."""
    for b in report["benchmarks"]:
        for ratio in b["ratios"]:
            if ratio["subject"] != subject or ratio["peer"] != peer:
                continue
            own = next(s for s in b["systems"] if s["name"] == subject)
            cpu = own["server_cpu_ns"]["median"] / 1e3
            rate, by_cpu = ratio["rate"]["median"], ratio["cpu"]["median"]
            met = rate >= 1 and by_cpu >= 1 and (b["in_flight"] == 1 or cpu <= PIPELINED_CPU_GOAL_US)
            yield [b["transport"], str(b["threads"]), number(b["keys"]), shape(b), number(rate, 2),
                   f"{number(ratio['rate']['min'], 2)} to {number(ratio['rate']['max'], 2)}", number(by_cpu, 2),
                   number(cpu, 2), "yes" if met else "no"]


def part(report, title, subject, goals):
    """`goals`: what is expected beside each peer, by its name; peers that were not measured are left out."""
    places = ["transport", "workers", "keys", "load"]
    lines = [f"## {title}", ""] + machine_lines(report, "./dev bench server")
    for peer, goal in goals.items():
        rows = list(goal_rows(report, subject, peer))
        if rows:
            lines += [goal, ""] + table(places + ["requests", "spread", "by server CPU", "server CPU, µs", "met"], rows)
    lines += ["All figures; latency in microseconds, from the moment a request is written to the end of its reply.", ""]
    return lines + table(places + ["server", "requests/s", "spread", "server CPU, µs", "p50", "p99", "p99.9"],
                         list(rows_of(report)))


def write(results, out):
    lines = ["# nv-memcached", "",
             "One set in five requests, uniform keys, half of them there, values of 32 to 100 bytes. The client is one thread "
             "on the same two processors as the server: with more connections than one, or two workers, they share them, "
             "and it is the server's processor time that says what a server costs.", ""]
    first = len(lines)
    shm, ssd = results / "server.json", results / "server-ssd.json"
    if shm.exists():
        lines += part(json.loads(shm.read_text()), "On shared memory: what was acknowledged survives the process",
                      "nv-memcached shm", {
                          "memcached":
                          "Beside memcached as it comes, which keeps nothing, and turns to the next connection after 20 "
                          "requests: medians of neighbouring repetitions. Goal: as many requests, for no more processor "
                          f"time of the server, and pipelined at most {PIPELINED_CPU_GOAL_US} µs of it for each.",
                          "memcached -R 1024":
                          "Beside memcached that takes up to 1024 requests of a connection at a time, as nv-memcached "
                          "does. The same goal."})
    if ssd.exists():
        lines += part(json.loads(ssd.read_text()), "On a file system: what was acknowledged has reached the disk",
                      "nv-memcached ssd", {
                          "redis appendfsync always":
                          "Beside Redis, which is told to sync each time. Goal: as many requests."})
    if len(lines) == first:
        return []
    out.mkdir(parents=True, exist_ok=True)
    document, page = out / "server.md", out / "server.html"
    document.write_text("\n".join(lines).rstrip() + "\n")
    page.write_text(to_html(lines, "Holdfast: nv-memcached"))
    return [str(document), str(page)]
