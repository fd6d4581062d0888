#!/usr/bin/env python3
"""Processor time of plain Lua, of one that holdfast-cc has built, and of the durable one; and what a start costs whose
program lies elsewhere than before."""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def run(command):
    """CPU seconds, wall seconds, output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    since = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - since, done.stdout


def main():
    parser = argparse.ArgumentParser()
    for name in ("plain", "compiled", "durable", "folder"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", default="100")
    options = parser.parse_args()
    work = [f"{HERE}/work.lua", options.size]
    pools = {"pool on shared memory": "/dev/shm/lua-measure.pool", "pool on a file system": f"{options.folder}/measure.pool"}
    ways = {"built by Clang": [options.plain], "built by holdfast-cc": [options.compiled]}
    ways |= {name: [options.durable, "--log", str(256 << 20), pool] if "file" in name else [options.durable, pool]
             for name, pool in pools.items()}
    times = {name: [] for name in ways}
    starts = {name: [] for name in ("as it lies", "where it lay (setarch -R)")}
    outputs = set()
    try:
        for _ in range(options.runs):
            for name, command in ways.items():
                if name in pools and os.path.exists(pools[name]):
                    os.unlink(pools[name])
                cpu, _, out = run(command + work)
                times[name].append(cpu)
                outputs.add(out)
            pool = pools["pool on shared memory"]
            for name, prefix in (("as it lies", []), ("where it lay (setarch -R)", ["setarch", "-R"])):
                run(prefix + [options.durable, pool, "-e", "x = 1"])
                starts[name].append(run(prefix + [options.durable, pool, "-e", "x = 1"])[1])
    finally:
        for pool in pools.values():
            if os.path.exists(pool):
                os.unlink(pool)
    if len(outputs) != 1:
        sys.exit("measure: outputs differ")
    plain = statistics.median(times["built by Clang"])
    print(f"| work.lua {options.size}, medians of {options.runs}, in turns | CPU s | of plain |\n| --- | --- | --- |")
    for name, all_of in times.items():
        print(f"| {name} | {statistics.median(all_of):.2f} | {statistics.median(all_of) / plain:.2f} |")
    print("\n| start on its pool and a statement | ms |\n| --- | --- |")
    for name, all_of in starts.items():
        print(f"| {name} | {statistics.median(all_of) * 1000:.1f} |")


if __name__ == "__main__":
    main()
