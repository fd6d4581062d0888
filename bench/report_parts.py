"""What all reports write alike: numbers, tables, and where the figures come from."""


def number(value, digits=0):
    return "" if value is None else f"{value:,.{digits}f}"


def table(head, rows):
    """Markdown; the first column to the left, the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join([" :-- "] + [" --: "] * (len(head) - 1)) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def machine_lines(report, command):
    """`command` makes such results; that of these is in them, options and all."""
    m = report["machine"]
    load = f"; load average when it began {m['load_average']:.1f}" if "load_average" in m else ""
    lines = [f"Made by `{report.get('command', command)}` at commit {m['commit']}: {report['runs']} repetitions, systems "
             "in turn.",
             f"{m['cpu']} ({m['cpu_family_model_stepping']}), {m['cpus']} processors, {m['kernel']}, {m['compiler']}, "
             f"{m['build']} build; medium {m['medium']}, emulated latency {m['emulated_latency']}{load}."]
    if report["quick"]:
        lines += ["", "**These are numbers of a quick run, which shows that the benchmarks work and little more.**"]
    return lines + [""]
