"""The document of caches whose values change in size (bench-churn). Used by report.py."""

import json

from report_parts import machine_lines, number, table

HIT_RATE_GOAL = 0.02  # of memcached's


def rate(part):
    return part["hits"] / max(part["gets"], 1)


def whole_rows(report):
    for s in report["systems"]:
        cpu = sum(p["server_cpu_ns_per_request"] * (p["gets"] + p["stores"]) for p in s["phases"])
        yield [s["name"], number(rate(s), 4), number(s["gets"]), number(s["stores"]), number(s["failed_stores"]),
               number(cpu / (s["gets"] + s["stores"]) / 1e3, 2), number(s["resident_bytes_max"] / 2**20),
               number(s["file_bytes_max"] / 2**20)]


def phase_rows(report):
    for phases in zip(*(s["phases"] for s in report["systems"])):
        yield [number(phases[0]["value_bytes_max"])] + [number(rate(p), 4) for p in phases] + [
            number(p["server_cpu_ns_per_request"] / 1e3, 2) for p in phases]


def verdicts(report):
    by_name = {s["name"]: s for s in report["systems"]}
    peer = by_name.get("memcached")
    for s in report["systems"]:
        if s["role"] != "subject" or peer is None:
            continue
        ratio = rate(s) / rate(peer)
        met = "met" if ratio >= 1 - HIT_RATE_GOAL else "not met"
        yield (f"- {s['name']} finds {number(ratio, 3)} times as many as memcached; goal: at least "
               f"{1 - HIT_RATE_GOAL}: {met}")


def write(results, out):
    source = results / "churn.json"
    if not source.exists():
        return []
    report = json.loads(source.read_text())
    names = [s["name"] for s in report["systems"]]
    lines = ["# Caches whose values change in size", "",
             f"A client asks for 32 keys at a time, drawn by Zipf's law, and stores those that it has not got. Values "
             f"have another size in each phase, from half of what is named to all of it; servers have "
             f"`-m {report['megabytes']}`. Hit rates and failures are counts, which no noise touches; processor time is "
             "that of the server.", ""]
    lines += machine_lines(report, "./dev bench churn")
    lines += table(["server", "hit rate", "gets", "stores", "failed", "CPU, µs a request", "MiB resident at most",
                    "MiB of files at most"], list(whole_rows(report)))
    lines += list(verdicts(report)) + ["", "Phase by phase: hit rate, then µs of the server's processor a request.", ""]
    lines += table(["bytes"] + names + [f"{n}, µs" for n in names], list(phase_rows(report)))
    out.mkdir(parents=True, exist_ok=True)
    document = out / "churn.md"
    document.write_text("\n".join(lines).rstrip() + "\n")
    return [str(document)]
