#!/usr/bin/env python3
"""Kills durable gawk at random moments until its program is through, and compares with plain gawk.

The program goes on, in each run, behind the record that its variables say was the last one, checks its invariants
before it does, and prints everything it knows at the end.  That has to be what plain gawk prints that nobody killed.
When the end comes before enough kills, it begins again with a new pool.  Several builds of durable gawk take turns.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import time


def builds(options):
    """The next of the builds, in turns."""
    options.durable.append(options.durable.pop(0))
    return options.durable[0]


def unlink(path):
    if os.path.exists(path):
        os.unlink(path)


def run(options, environment, seconds):
    """Runs durable gawk, kills it after `seconds`; None if it was killed, else what it printed."""
    command = [builds(options), "-f", options.program, options.input]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            out, err = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            out, err = child.communicate()
            if child.returncode == -signal.SIGKILL and not err:
                return None
        if child.returncode != 0 or err:
            sys.exit(f"kill_test: exit code {child.returncode}: {err.decode(errors='replace')}")
        return out


def done(options, environment):
    """Number of the last record whose changes are in the pool."""
    command = [builds(options), "BEGIN { print done + 0; exit }"]
    return int(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser()
    for name in ("plain", "program", "input", "pool"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--durable", required=True, nargs="+", help="builds of it, in turns")
    parser.add_argument("--kills", type=int, default=100, help="at least so many (default %(default)s)")
    parser.add_argument("--records", type=int, default=1, help="records a transaction (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    environment = dict(os.environ, GAWK_PERSIST_FILE=options.pool, GAWK_PERSIST_RECORDS=str(options.records))
    moments = random.Random(options.seed)

    expected = subprocess.run([options.plain, "-f", options.program, options.input], check=True,
                              stdout=subprocess.PIPE).stdout
    kills = passes = 0
    began = time.monotonic()
    while kills < options.kills:
        unlink(options.pool)
        known, limit = 0, 0.3
        while True:
            out = run(options, environment, moments.uniform(0.002, limit))
            if out is not None:
                break
            kills += 1
            if kills % 10 == 0 and os.path.exists(options.pool):
                now = done(options, environment)
                if now < known:
                    sys.exit(f"kill_test: record {known} was committed, after {kills} kills {now} is the last")
                # A run has to outlast recovery to get anywhere.
                limit = limit * 1.5 if now == known else limit
                known = now
        passes += 1
        if out != expected:
            sys.exit(f"kill_test: pass {passes}: not what plain gawk prints")
        subprocess.run([os.environ.get("HOLDFAST", "holdfast"), "check", options.pool], check=True,
                       stdout=subprocess.DEVNULL)
    unlink(options.pool)
    print(f"{kills} kills, {passes} passes, {len(options.durable)} builds in turns, each with the result of plain gawk"
          f" ({len(expected)} bytes);"
          f" {time.monotonic() - began:.0f} s, seed {options.seed}")


if __name__ == "__main__":
    main()
