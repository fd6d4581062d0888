#!/usr/bin/env python3
"""Kills a durable Lua between and inside statements, goes on with another build of it, and compares with plain Lua.

Statements are runs of step() (steps.lua).  Some commit after each step, others count whole or not at all.  After each kill the
state has to be that of a plain Lua which nobody kills, after a number of steps that was possible; no less than was answered.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Plain:
    """Plain Lua, which does the same steps."""

    def __init__(self, program):
        code = (f"dofile('{HERE}/steps.lua') for line in io.lines() do "
                "for k = data.last + 1, tonumber(line) do step(k) end print(digest()) io.flush() end")
        self.process = subprocess.Popen([program, "-e", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def digest(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


class Durable:
    """A durable Lua on a pool; its answers are read by a thread."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.answered = 0
        self.first = None
        self.met = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["at"] and len(words) == 3:
                self.first = (int(words[1]), words[2])
                self.met.set()
            elif words[:1] == ["ok"] and line.endswith("\n"):
                self.answered = int(words[1])
        self.met.set()

    def say(self, statement):
        try:
            self.process.stdin.write(statement + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.reader.join()
        code = self.process.wait()
        errors = self.process.stderr.read()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        if errors or code not in (0, -signal.SIGKILL):
            sys.exit(f"kill_test: exit code {code}: {errors}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plain", required=True)
    parser.add_argument("--durable", required=True, nargs="+", help="builds, in turns")
    parser.add_argument("--pool", required=True)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    began = time.monotonic()
    if os.path.exists(options.pool):
        os.unlink(options.pool)
    subprocess.run([options.durable[0], options.pool, f"{HERE}/steps.lua"], check=True)
    plain = Plain(options.plain)
    # Of each statement that was sent: its first and last step, and whether it commits between them.
    sent, least, inside = [], 0, 0
    for round_number in range(options.kills + 1):
        program = options.durable[round_number % len(options.durable)]
        lua = Durable([program, options.pool])
        lua.say('print("at", data.last, digest())')
        if not lua.met.wait(60) or lua.first is None:
            lua.kill()
            sys.exit(f"kill_test: round {round_number}: {program} did not answer")
        last, digest = lua.first
        possible = {least} | {b for _, b, _ in sent}
        for a, b, commits in sent:
            if commits:
                possible |= set(range(a, b + 1))
            inside += commits and a <= last < b
        if last not in possible or last < least:
            sys.exit(f"kill_test: round {round_number}: {last} steps are there, {least} were answered, of {sent}")
        if digest != plain.digest(last):
            sys.exit(f"kill_test: round {round_number}: after {last} steps not the state of plain Lua")
        if round_number == options.kills:
            lua.kill()
            break
        sent, least, at = [], last, last
        until = time.monotonic() + chance.uniform(0.002, 0.2)
        while time.monotonic() < until:
            n = chance.randint(1, 30)
            commits = chance.random() < 0.3
            sent.append((at + 1, at + n, commits))
            lua.say(f"for k = {at + 1}, {at + n} do step(k) {'holdfast.commit()' if commits else ''} end "
                    f"print('ok', data.last)")
            at += n
            # No more than a few statements ahead.
            while at - max(lua.answered, last) > 60 and time.monotonic() < until:
                time.sleep(0.001)
        lua.kill()
        least = max(least, lua.answered)
    subprocess.run([os.environ.get("HOLDFAST", "holdfast"), "check", options.pool], check=True, stdout=subprocess.DEVNULL)
    os.unlink(options.pool)
    plain.process.stdin.close()
    print(f"{options.kills} kills, {inside} of them between two commits of a statement, {last} steps, "
          f"{len(options.durable)} builds in turns: each time the state of plain Lua; {time.monotonic() - began:.0f} s, "
          f"seed {options.seed}")


if __name__ == "__main__":
    main()
