#!/usr/bin/env python3
"""What does the pass cost programs that never touch a pool?

usage: volatile_overhead.py --cc HOLDFAST_CC [--runs N] [--json FILE] [--quick]

Three CPU-bound C programs, each compiled by Clang alone (-fno-nvm) and with the pass, at -O2, and run alternately. A
program's figure is the ratio of the medians of its processor time; the last line is their geometric mean. Outputs of
the two must be the same.
"""

import argparse
import json
import math
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def programs(folder, quick):
    """name, sources, arguments"""
    times = 1 if quick else 40
    text = folder / "text"
    text.write_bytes(b"".join(p.read_bytes() for p in sorted((ROOT / "src").rglob("*.?pp"))) * (1 if quick else 80))
    index = [EXAMPLES / "index" / f"{part}.c" for part in ("main", "options", "result", "text", "walk", "index_volatile")]
    structures = [EXAMPLES / "kills" / "churn.c", EXAMPLES / "bptree" / "bptree_volatile.c",
                  EXAMPLES / "bptree" / "bptree_index.c", EXAMPLES / "hashtable" / "hashtable_volatile.c"]
    return [
        ("index over texts", index, ["--result", str(folder / "result"), "--files", str(text)], folder / "result"),
        ("tree, random changes", structures,
         ["--structure", "tree", "--passes", str(400 * times), "--result", str(folder / "result")], folder / "result"),
        ("compress and expand", [ROOT / "bench/compiler/programs/compress.c"], [str(1 + times // 10)], None),
    ]


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cc", required=True)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    runs = arguments.runs or (1 if arguments.quick else 9)
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for title, sources, words, result in programs(folder, arguments.quick):
            builds, outputs, times = {}, {}, {"plain": [], "pass": []}
            for build, flags in (("plain", ["-fno-nvm"]), ("pass", [])):
                builds[build] = str(folder / build)
                subprocess.run([arguments.cc, "-O2", "-w", f"-I{EXAMPLES}", *flags, *map(str, sources), "-o",
                                builds[build]], check=True)
            for turn in range(runs + 1):
                for build in ("plain", "pass") if turn % 2 == 0 else ("pass", "plain"):
                    seconds, printed = cpu_seconds([builds[build], *words])
                    outputs[build] = (printed, result.read_bytes() if result else b"")
                    if turn > 0:
                        times[build].append(seconds)
            if outputs["plain"] != outputs["pass"]:
                print(f"{title}: the two print different results", file=sys.stderr)
                return 1
            medians = {build: statistics.median(times[build]) for build in times}
            ratio = medians["pass"] / medians["plain"] if medians["plain"] > 0 else 1.0
            results.append({"program": title, "ratio": ratio, "seconds": times})
            print(f"{title:22} plain {medians['plain']:6.3f} s ({min(times['plain']):.3f} to {max(times['plain']):.3f})  "
                  f"with the pass {medians['pass']:6.3f} s ({min(times['pass']):.3f} to {max(times['pass']):.3f})  "
                  f"ratio {ratio:.3f}")
    mean = math.exp(sum(math.log(r["ratio"]) for r in results) / len(results))
    print(f"geometric mean of the ratios: {mean:.3f}  ({runs} alternating runs, processor time)")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"programs": results, "geometric_mean": mean}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
