#!/usr/bin/env python3
"""Requests a second and processor time a command: plain Redis, with an append-only file, and durable by a pool.

usage: measure.py --plain FOLDER --durable FOLDER --folder FOLDER [--rounds N] [--requests N]
FOLDERs have redis-server and redis-benchmark; files of servers lie in --folder, those of the pool on shared memory in
/dev/shm.  50 clients, keys of 100,000, values of 100 bytes.  Each round has all servers in turn; medians of the rounds,
with the smallest and the largest.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

COMMANDS = ("set", "get", "incr", "lpush")
PORT = "21379"


def variants(options):
    """(name, program, arguments, environment)"""
    aof = os.path.join(options.folder, "measured")
    everything = ["--port", PORT, "--save", "", "--dir", aof, "--logfile", os.path.join(aof, "log")]
    plain, durable = (os.path.join(f, "redis-server") for f in (options.plain, options.durable))
    append = ["--appendonly", "yes", "--appendfsync"]
    return (
        ("not persistent", plain, everything, {}),
        ("append-only file, everysec", plain, [*everything, *append, "everysec"], {}),
        ("append-only file, always", plain, [*everything, *append, "always"], {}),
        ("compiled, no pool", durable, everything, {}),
        ("pool, shm", durable, everything, {"REDIS_POOL": "/dev/shm/redis-measured.pool"}),
        ("pool, ssd", durable, everything, {"REDIS_POOL": os.path.join(aof, "pool")}),
    )


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def benchmark(options, command, pipeline, requests):
    ran = subprocess.run(
        [os.path.join(options.plain, "redis-benchmark"), "-p", PORT, "-t", command, "-n", str(requests), "-r", "100000",
         "-d", "100", "-P", str(pipeline), "--csv"], capture_output=True, text=True, check=True)
    line = next(x for x in ran.stdout.splitlines() if x.lower().startswith(f'"{command}'))
    return float(line.split(",")[1].strip('"'))


def measure(options, variant):
    """{(command, pipeline): (requests a second, us of processor a command)}"""
    _, program, arguments, environment = variant
    shutil.rmtree(os.path.join(options.folder, "measured"), ignore_errors=True)
    os.makedirs(os.path.join(options.folder, "measured"))
    for path in environment.values():
        if os.path.exists(path):
            os.unlink(path)
    found = {}
    with subprocess.Popen([program, *arguments], env={**os.environ, **environment}) as server:
        try:
            for _ in range(200):
                time.sleep(0.05)
                if subprocess.run([os.path.join(options.plain, "redis-cli"), "-p", PORT, "ping"], capture_output=True,
                                  check=False).returncode == 0:
                    break
            benchmark(options, "set", 16, options.requests)  # keys are there
            for pipeline in (1, 16):
                for command in COMMANDS:
                    requests = options.requests * (4 if pipeline > 1 else 1)
                    before = processor_seconds(server.pid)
                    rate = benchmark(options, command, pipeline, requests)
                    found[command, pipeline] = (rate, (processor_seconds(server.pid) - before) / requests * 1e6)
        finally:
            server.kill()
    for path in environment.values():
        os.unlink(path)
    return found


def cell(values):
    rates, times = zip(*values)
    return (f"{statistics.median(times):.1f} ({statistics.median(rates) / 1000:.0f}: "
            f"{min(rates) / 1000:.0f} to {max(rates) / 1000:.0f})")


def main():
    parser = argparse.ArgumentParser()
    for name in ("plain", "durable", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=50000)
    options = parser.parse_args()
    results = {}
    for _ in range(options.rounds):
        for variant in variants(options):
            for what, value in measure(options, variant).items():
                results.setdefault((variant[0], *what), []).append(value)
    shutil.rmtree(os.path.join(options.folder, "measured"), ignore_errors=True)
    print("Microseconds of the server's processor a command (thousands of commands a second: median, smallest, largest)\n")
    columns = [(c, p) for p in (1, 16) for c in COMMANDS]
    print("| | " + " | ".join(f"{c.upper()} P={p}" for c, p in columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    for name, *_ in variants(options):
        print(f"| {name} | " + " | ".join(cell(results[name, c, p]) for c, p in columns) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
