#!/usr/bin/env python3
"""Random programs with durable state, compiled in many ways: none may lose a log call that it needs.

usage: run_random.py --cc HOLDFAST_CC [--programs N | --seconds T] [--seed S] [--folder DIR] [--plant NAME] [--keep DIR]
                     [--engine NAME] [--collect NAME] [--quiet]

Each program (generate.py) is compiled without any log call as its own twin, which says what is right; with every log
call; with what the optimizer leaves out at each level; and as a checked build, which looks at each store that was left
out. Compared are the digest of the state after each transaction, that a transaction taken back leaves nothing behind,
and what is there after a process that ended in the middle of a transaction: before its commit, and at any statement.

--plant NAME: the pass leaves out what it must not (-mllvm -nvm-log-plant=NAME); exit code 0 if that is found.
--engine NAME: of the pools (LOG: NVM_ENGINE_LOG), instead of the library's choice.
--collect NAME: references are counted (BACKGROUND: NVM_COLLECT_BACKGROUND): nodes that are unlinked go by themselves, and
    none is left, also after a crash; a weak pointer to one that is gone is null.
Exit codes: 0 nothing found, 1 a program went wrong (its seed and its commands are printed), 2 wrong usage.
"""

import argparse
import itertools
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BUILDS = {
    "everything": ["-O0", "-fno-nvm-elide"],
    "O1": ["-O1"],
    "O2": ["-O2"],
    "O3": ["-O3", "-march=x86-64-v3"],
    "Os": ["-Os"],
    "checked": ["-O2", "-fnvm-check"],
}
COMMON = ["-std=gnu11", "-w", "-ffp-contract=off", f"-I{HERE}"]


class Wrong(Exception):
    """A program did not do what its twin does."""


class Broken(Exception):
    """It could not even be compiled."""


def run(command, expected, limit=60):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired as error:
        raise Wrong(f"{' '.join(command)}: no end after {limit} s") from error
    if done.returncode not in expected:
        raise Wrong(f"{' '.join(command)}: exit code {done.returncode}, expected {expected}\n{done.stderr}")
    return done


class Trial:
    """One program, in a folder of its own."""

    def __init__(self, arguments, seed, folder):
        self.cc, self.plant, self.seed, self.folder = arguments.cc, arguments.plant, seed, folder
        self.common = COMMON + ([f"-DPOOL_ENGINE=NVM_ENGINE_{arguments.engine}"] if arguments.engine else [])
        if arguments.collect:
            self.common.append(f"-DPOOL_COLLECT=NVM_COLLECT_{arguments.collect}")
        self.random = random.Random(seed)
        self.source = folder / "program.c"
        self.pool = str(folder / "pool")
        self.source.write_text(run([sys.executable, str(HERE / "generate.py"), str(seed)], [0]).stdout)

    def compile(self, name, flags):
        plant = ["-mllvm", f"-nvm-log-plant={self.plant}"] if self.plant and "-fno-nvm" not in flags else []
        program = self.folder / name
        try:
            run([self.cc, *self.common, *flags, *plant, str(self.source), "-o", str(program)], [0], 300)
        except Wrong as wrong:
            raise Broken(str(wrong)) from wrong
        return str(program)

    def forget_pool(self):
        for file in (self.pool, self.pool + ".new"):
            if os.path.exists(file):
                os.remove(file)

    def judge(self):
        twin = self.compile("twin", ["-O1", "-DTWIN", "-fno-nvm"])
        right = run([twin, self.pool, "run"], [0]).stdout.splitlines()
        for name, flags in BUILDS.items():
            program = self.compile(name, flags)
            self.forget_pool()
            found = run([program, self.pool, "run"], [0])
            if found.stdout.splitlines() != right:
                raise Wrong(f"{program} {self.pool} run: found\n{found.stdout}expected\n" + "\n".join(right))
            if found.stderr:
                raise Wrong(f"{program} {self.pool} run: says {found.stderr}")
        for name, flags in (("O2", None), ("steps", ["-O2", "-DSTEPS"])):
            program = self.compile(name, flags) if flags else str(self.folder / name)
            for k in range(len(right) - 1):
                self.crash(program, right, k, self.random.randrange(1, 40) if flags else None)

    def crash(self, program, right, k, step):
        self.forget_pool()
        command = [program, self.pool, "crash", str(k)] + ([str(step)] if step else [])
        run(command, [9])
        left = run([program, self.pool, "digest"], [0]).stdout.strip()
        if left != right[k].strip():
            raise Wrong(f"{' '.join(command)}: left {left}, expected {right[k]}")
        rest = run([program, self.pool, "run"], [0]).stdout.splitlines()
        if rest[1:] != right[k + 1:]:
            raise Wrong(f"{' '.join(command)}, then run: found {rest[1:]}, expected {right[k + 1:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cc", required=True)
    parser.add_argument("--programs", type=int, default=4)
    parser.add_argument("--seconds", type=float, help="as many programs as this time allows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--plant")
    parser.add_argument("--keep")
    parser.add_argument("--engine")
    parser.add_argument("--collect")
    parser.add_argument("--quiet", action="store_true")
    arguments = parser.parse_args()
    begun = time.monotonic()
    done = 0
    for seed in itertools.count(arguments.seed):
        if time.monotonic() - begun > arguments.seconds if arguments.seconds else done == arguments.programs:
            break
        with tempfile.TemporaryDirectory(prefix="holdfast-random-", dir=arguments.folder) as folder:
            try:
                Trial(arguments, seed, pathlib.Path(folder)).judge()
            except (Wrong, Broken) as wrong:
                if arguments.plant and isinstance(wrong, Wrong):
                    print(f"seed {seed}: found {arguments.plant}: {str(wrong).splitlines()[0]}")
                    return 0
                if arguments.keep:
                    shutil.copytree(folder, arguments.keep, dirs_exist_ok=True)
                print(f"seed {seed}: {wrong}", file=sys.stderr)
                return 1
        done += 1
        if not arguments.quiet and sys.stdout.isatty():
            print(f"\r{done} programs", end="", flush=True)
    print(f"\r{done} programs, each compiled {len(BUILDS) + 2} ways: nothing found")
    return 1 if arguments.plant else 0


if __name__ == "__main__":
    sys.exit(main())
