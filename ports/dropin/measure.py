#!/usr/bin/env python3
"""Processor time of programs that Clang and that holdfast-cc has built, without a pool, in turns.

usage: measure.py --work FOLDER [--runs N] [--limit RATIO] (PACKAGE COMMAND)...
A command runs in FOLDER/PACKAGE/clang-19 and in FOLDER/PACKAGE/compiled, and which of them is first changes with each
turn; what is counted is user and system time of the command and its children. Exit codes: 0 no ratio is above the
limit, 1 one is.
"""
import argparse
import resource
import statistics
import subprocess
import sys


def seconds(command, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(command, folder, runs):
    """[seconds of Clang's], [seconds of ours], each pair from one turn"""
    times = {"clang-19": [], "compiled": []}
    order = list(times)
    for variant in order:
        seconds(command, f"{folder}/{variant}")  # files come into memory
    for _ in range(runs):
        for variant in order:
            times[variant].append(seconds(command, f"{folder}/{variant}"))
        order.reverse()
    return times["clang-19"], times["compiled"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--limit", type=float, default=1.03)
    parser.add_argument("what", nargs="+")
    options = parser.parse_args()
    print(f"Seconds of processor time, medians of {options.runs}; ratio: the median of those of each turn, with the "
          "smallest and the largest\n")
    print("| | Clang | holdfast-cc | ratio |\n| --- | --- | --- | --- |")
    above = []
    for name, command in zip(options.what[::2], options.what[1::2]):
        clang, ours = measured(command, f"{options.work}/{name}", options.runs)
        ratios = [b / a for a, b in zip(clang, ours)]
        ratio = statistics.median(ratios)
        print(f"| {name} | {statistics.median(clang):.2f} | {statistics.median(ours):.2f} | "
              f"{ratio:.3f} ({min(ratios):.2f}-{max(ratios):.2f}) |", flush=True)
        if ratio > options.limit:
            above.append(name)
    if above:
        sys.exit(f"measure.py: above {options.limit}: {' '.join(above)}")


if __name__ == "__main__":
    main()
