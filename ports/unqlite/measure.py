#!/usr/bin/env python3
"""Calls a second of a store of documents: durable UnQLite, UnQLite on a file with a commit each call, in memory, SQLite.

usage: measure.py --plain FOLDER --durable FOLDER --disk FOLDER [--rounds N] [--seconds S]
A call stores, or reads, one document of 1 KB by its key; SQLite's is a row of JSON, synchronous=FULL.  Each round has all
in turn; medians of the rounds, with the smallest and the largest.
"""
import argparse
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import time

KEYS = 2000


class Documents:
    """UnQLite; `commits`: after each call that changes something."""

    def __init__(self, name, commits):
        from unqlite import UnQLite
        self.db, self.commits = UnQLite(name), commits

    def store(self, key, text):
        self.db.store(key, text)
        if self.commits:
            self.db.commit()

    def fetch(self, key):
        return self.db.fetch(key)


class Rows:
    """SQLite."""

    def __init__(self, name):
        self.db = sqlite3.connect(name, isolation_level=None)
        self.db.execute("pragma synchronous=full")
        self.db.execute("create table documents (key text primary key, value json)")

    def store(self, key, text):
        self.db.execute("insert or replace into documents values (?, json(?))", (key, text))

    def fetch(self, key):
        return self.db.execute("select value from documents where key = ?", (key,)).fetchone()[0]


def variants(options):
    """(name, folder of unqlite.so, kind, file)"""
    disk = os.path.join(options.disk, "measured.db")
    return (
        ("in memory", options.plain, "memory", ":mem:"),
        ("durable, shm", options.durable, "pool", "/dev/shm/unqlite-measured.pool"),
        ("durable, ssd", options.durable, "pool", disk),
        ("a file on tmpfs, a commit each call", options.plain, "file", "/dev/shm/unqlite-measured.db"),
        ("a file on ssd, a commit each call", options.plain, "file", disk),
        ("SQLite on ssd", options.plain, "sqlite", disk),
    )


def child(kind, path, seconds):
    opened = {"memory": lambda: Documents(path, False), "pool": lambda: Documents("pool:" + path, False),
              "file": lambda: Documents(path, True), "sqlite": lambda: Rows(path)}[kind]()
    draw = random.Random(1)
    filler = "x" * 980

    def rate(call):
        begun, cpu, count = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - begun < seconds:
            for _ in range(10):
                call(f"user{draw.randrange(KEYS)}", count)
                count += 1
        return count / (time.perf_counter() - begun), (time.process_time() - cpu) / count * 1e6
    text = [json.dumps({"number": i, "text": filler}) for i in range(100)]
    for i in range(KEYS):
        if kind != "file" or i < 200:
            opened.store(f"user{i}", text[i % 100])
    if kind == "file":
        for i in range(200, KEYS):
            opened.db.store(f"user{i}", text[i % 100])
        opened.db.commit()
    print(json.dumps([rate(lambda key, n: opened.store(key, text[n % 100])), rate(lambda key, _: opened.fetch(key))]))


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    parser = argparse.ArgumentParser()
    for name in ("plain", "durable", "disk"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    found = {}
    for _ in range(options.rounds):
        for name, folder, kind, path in variants(options):
            for file in (path, path + "_unqlite_journal", path + "-journal"):
                if os.path.exists(file):
                    os.unlink(file)
            ran = subprocess.run([sys.executable, __file__, "--child", kind, path, str(options.seconds)],
                                 capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": folder})
            found.setdefault(name, []).append(json.loads(ran.stdout))
            if os.path.exists(path):
                os.unlink(path)
    print("Calls a second (smallest to largest); microseconds of processor time a call\n")
    print("| | store | CPU | fetch | CPU |\n| --- | --- | --- | --- | --- |")
    for name, all_of_it in found.items():
        cells = []
        for i in range(2):
            rates, times = zip(*(r[i] for r in all_of_it))
            cells += [f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})",
                      f"{statistics.median(times):.1f}"]
        print(f"| {name} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
