"""What all reports write alike: numbers, tables, and where the figures come from."""


def number(value, digits=0):
    return "" if value is None else f"{value:,.{digits}f}"


def table(head, rows):
    """Markdown; the first column to the left, the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join([" :-- "] + [" --: "] * (len(head) - 1)) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def merge(report, part):
    """Results of runs one after the other: `part` replaces what the report has of the same name, and adds the rest.

    `report`: None for the first. Each part is named with its command, its commit and its repetitions.
    """
    if report is None:
        report = {**part, "benchmarks": [], "parts": []}
    known = {(b["name"], b["threads"]) for b in part["benchmarks"]}
    report["benchmarks"] = [b for b in report["benchmarks"] if (b["name"], b["threads"]) not in known]
    report["benchmarks"] += part["benchmarks"]
    report["parts"].append((part.get("command", ""), part["machine"]["commit"], part["runs"]))
    return report


def machine_lines(report, command):
    """`command` makes such results; that of these is in them, options and all."""
    m = report["machine"]
    load = f"; load average when it began {m['load_average']:.1f}" if "load_average" in m else ""
    made = report.get("parts") or [(report.get("command", command), m["commit"], report["runs"])]
    lines = ["Made by " + "; ".join(f"`{c}` at commit {at}, {runs} repetition{'s' * (runs != 1)}" for c, at, runs in made)
             + ", systems in turn.",
             f"{m['cpu']} ({m['cpu_family_model_stepping']}), {m['cpus']} processors, {m['kernel']}, {m['compiler']}, "
             f"{m['build']} build; medium {m['medium']}, emulated latency {m['emulated_latency']}{load}."]
    if report["quick"]:
        lines += ["", "**These are numbers of a quick run, which shows that the benchmarks work and little more.**"]
    return lines + [""]
