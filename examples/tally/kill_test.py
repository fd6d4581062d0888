#!/usr/bin/env python3
"""Kills tally at random moments and starts it again; what it has answered must be there.

usage: kill_test.py PROGRAM POOL [KILLS]
"""
import random
import subprocess
import sys
import threading


class Run:
    """One life of the program."""

    def __init__(self, program, pool):
        self.process = subprocess.Popen([program, pool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command):
        """The answer; None: it was killed before."""
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.process.stdout.readline().strip() or None


def expected_after(counts, command):
    verb, word = command.split()
    counts = dict(counts)
    counts[word] = counts.get(word, 0) + 1 if verb == "add" else 0
    return counts


def main():
    program, pool, kills = sys.argv[1], sys.argv[2], int((sys.argv[3:] or ["50"])[0])
    counts, doubt, commands = {}, None, 0  # doubt: the command that has no answer
    for life in range(kills + 1):
        run = Run(program, pool)
        if doubt:  # it was done, or it was not
            word, done = doubt.split()[1], expected_after(counts, doubt)
            found = int(run.ask(f"count {word}") or sys.exit(f"no answer after kill {life}"))
            if found not in (counts.get(word, 0), done[word]):
                sys.exit(f"after kill {life}: {word} was counted {found} times, not {counts.get(word, 0)} or {done[word]}")
            counts = done if found == done[word] else counts
        for word, count in counts.items():
            if run.ask(f"count {word}") != str(count):
                sys.exit(f"after kill {life}: another count of {word} than {count}")
        if run.ask("words") != str(sum(count != 0 for count in counts.values())):
            sys.exit(f"after kill {life}: another number of words")
        if life == kills:
            run.process.stdin.close()
            print(f"{kills} kills, {commands} commands, nothing lost; exit code {run.process.wait()}")
            return run.process.returncode
        killer = threading.Timer(random.uniform(0, 0.03), run.process.kill)
        killer.start()
        while True:
            doubt = f"{random.choice(('add', 'add', 'add', 'drop'))} w{random.randrange(200)}"
            if run.ask(doubt) is None:
                break
            counts, commands = expected_after(counts, doubt), commands + 1
        killer.join()
        run.process.wait()


if __name__ == "__main__":
    sys.exit(main())
