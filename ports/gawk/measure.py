#!/usr/bin/env python3
"""Times gawk on one program: built by Clang, by holdfast-cc, and durable on several media, in turns.

CPU time is that of the process, user and system; on a busy machine it says more than the clock.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time


def unlink(path):
    if os.path.exists(path):
        os.unlink(path)


def once(command, pool, records):
    environment = dict(os.environ)
    if pool is not None:
        unlink(pool)
        environment.update(GAWK_PERSIST_FILE=pool, GAWK_PERSIST_RECORDS=str(records))
    began = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
    if status != 0:
        sys.exit(f"measure: {' '.join(command)}: status {status}")
    if pool is not None:
        unlink(pool)
    return time.monotonic() - began, used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser()
    for name in ("plain", "compiled", "durable", "program", "input", "folder"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    on_disk = os.path.join(options.folder, "measure.pool")
    subjects = [
        ("plain Clang", options.plain, None, 0),
        ("holdfast-cc", options.compiled, None, 0),
        ("durable, no pool", options.durable, None, 0),
        ("durable, shm, 1 record a transaction", options.durable, "/dev/shm/measure.pool", 1),
        ("durable, shm, 100 records", options.durable, "/dev/shm/measure.pool", 100),
        ("durable, file system, 100 records", options.durable, on_disk, 100),
    ]
    times = {name: [] for name, *_ in subjects}
    for _ in range(options.runs):
        for name, gawk, pool, records in subjects:
            times[name].append(once([gawk, "-f", options.program, options.input], pool, records))
    plain = statistics.median(cpu for _, cpu in times["plain Clang"])
    print(f"{'':<38} {'clock s':>8} {'CPU s':>8} {'spread':>15} {'of plain':>9}   median of {options.runs}")
    for name, *_ in subjects:
        cpu = sorted(c for _, c in times[name])
        middle = statistics.median(cpu)
        print(f"{name:<38} {statistics.median(w for w, _ in times[name]):8.2f} {middle:8.2f}"
              f" {f'{cpu[0]:.2f} .. {cpu[-1]:.2f}':>15} {middle / plain:8.2f}x")


if __name__ == "__main__":
    main()
