#!/usr/bin/env python3
"""A transaction of the language that has ended lasts, wherever a call of the system fails or the process is killed.

usage: told_test.py <folder with libitm.so.1 of ours> <holdfast command> <failing_calls.so> <told>

NVM_RUNS=N: so many runs (a campaign), drawn from NVM_EXPLORE_SEED.
"""

import errno
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import random_seed

LIBRARY, HOLDFAST, CALLS, PROGRAM = sys.argv[1:5]
RUNS = int(os.environ.get("NVM_RUNS", "30"))
SEED = random_seed.seed_from_environment()
TRANSACTIONS = 9
GROUNDS = (("undo", "ssd"), ("redo", "ssd"), ("log", "ssd"), ("undo", "shm"), ("redo", "shm"), ("log", "shm"))
KILL = -signal.SIGKILL


class Run:
    def __init__(self, folder, chance):
        self.pool = folder / "pool"
        self.failing = folder / "failing"
        self.engine, self.medium = chance.choice(GROUNDS)
        calls = (("fdatasync", 30), ("growth", 4), ("pwrite", 40), ("fallocate", 4))
        self.call, skips = chance.choice(calls if self.medium == "ssd" else calls[3:])
        self.code = chance.choice((errno.EIO, errno.ENOSPC, KILL) if self.call == "fallocate" else (errno.EIO, KILL))
        self.skip = chance.randrange(skips)

    def __str__(self):
        return f"{self.engine} {self.medium}: {self.call} {self.code} after {self.skip}"

    def program(self, *arguments, fails=False):
        environment = dict(os.environ, HOLDFAST_ITM_POOL=str(self.pool), LD_LIBRARY_PATH=LIBRARY)
        if fails:
            environment.update(LD_PRELOAD=CALLS, NVM_FAILING_CALLS=str(self.failing))
        return subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=60,
                              check=False)

    def make(self):
        self.pool.unlink(missing_ok=True)
        self.failing.unlink(missing_ok=True)
        subprocess.run([HOLDFAST, "create", "--quiet", "--size", "256K", "--capacity", "64M", "--engine", self.engine,
                        "--medium", self.medium, str(self.pool)], check=True)
        if self.program("0").returncode != 0:  # the root is there
            sys.exit(f"{self}: cannot prepare")
        self.failing.write_text(f"{self.call} {self.code} {self.skip}")

    def look(self):
        """What is wrong; empty: nothing.  True: the fault struck."""
        self.make()
        run = self.program(str(TRANSACTIONS), fails=True)
        told = {0: 0, 1: 0}
        for line in run.stdout.splitlines():
            thread, number = map(int, line.split())
            told[thread] = number
        if run.returncode not in (0, -signal.SIGKILL, -signal.SIGABRT):
            return f"ended with {run.returncode}: {run.stderr}", True
        if run.returncode == -signal.SIGABRT and "libnvm-itm:" not in run.stderr:
            return f"aborted without a message: {run.stderr}", True
        after = self.program("0")
        if after.returncode != 0:
            return f"the next open fails: {after.stderr}", True
        for line in after.stdout.splitlines():
            thread, newest, beside = map(int, line.split())
            if newest != beside:
                return f"thread {thread}: half of a transaction is there: {newest}, {beside}", True
            if not told[thread] <= newest <= told[thread] + 1:
                return f"thread {thread}: told {told[thread]}, found {newest}; {run.stderr}", True
        return "", run.returncode != 0


def main():
    chance = random.Random(SEED)
    struck = 0
    with tempfile.TemporaryDirectory(prefix="holdfast-told-", dir="/dev/shm") as folder:
        for number in range(RUNS):
            run = Run(pathlib.Path(folder), chance)
            wrong, has_struck = run.look()
            if wrong:
                sys.exit(f"run {number} of seed {SEED}: {run}: {wrong}")
            struck += has_struck
    print(f"seed {SEED}: {RUNS} runs, {struck} of them with a fault, nothing told that did not hold")
    if struck == 0:
        sys.exit("no fault struck")


main()
