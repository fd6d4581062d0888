#!/usr/bin/env python3
"""Profiles real programs, moves sites as the advisor says, and compares what it predicted with what then happens.

For each program: a plain build by Clang; a profiled one; a patch of the chosen sites, applied to a copy; that copy
profiled, timed and killed. Output must be that of the plain program each time. Exit code 1: something differs by more
than was said, or an output differs.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WITHIN = 0.2  # of what the rewritten program shows


def run(command, folder=None, environment=None, stdin=b"", check=True):
    done = subprocess.run([str(c) for c in command], cwd=folder, input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, **(environment or {})}, check=False)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: code {done.returncode}\n{done.stderr.decode(errors='replace')[-3000:]}")
    return done


class Program:
    """How a program is built and run. `arguments` and `stdin` are its work; `choose` picks the sites to move."""

    with_pointers = False

    def build(self, folder, compiler, flags):
        raise NotImplementedError

    def suite(self, folder):
        """The program's own tests: commands of (arguments, stdin), whose outputs are compared with the plain one's."""
        return []


class Bc(Program):
    program = "bc/bc"
    arguments = ["-l"]
    stdin = b"scale=600\n4*a(1)\ne(1)\nscale=0\ns=1\nfor(i=1;i<700;i++)s*=i\ns\n2^9000%(10^50)\n"

    def build(self, folder, compiler, flags):
        # What was generated is there; nothing of it is to be made anew.
        for made in ("aclocal.m4", "configure", "config.h.in", "Makefile.in", "lib/Makefile.in", "bc/Makefile.in",
                     "bc/bc.c", "bc/scan.c"):
            (folder / made).touch()
        environment = {"CC": str(compiler), "CFLAGS": flags}
        run(["./configure", "--disable-dependency-tracking"], folder, environment)
        none = ["AUTOMAKE=:", "AUTOCONF=:", "ACLOCAL=:", "AUTOHEADER=:", "YACC=:", "LEX=:"]
        run(["make", "-C", "lib", *none], folder, {"HOLDFAST_PLACED": "off"})
        run(["make", "-C", "bc", *none], folder, {"HOLDFAST_PLACED": "off"})

    def suite(self, folder):
        tests = sorted((folder / "Test").glob("*.b"))
        return [(["-l", str(t)], b"quit\n") for t in tests if t.name not in ("timetest.b",)]

    @staticmethod
    def choose(site):
        return site["verdict"] == "ok"


class Bzip2(Program):
    program = "bzip2"
    arguments = ["-9", "-c"]
    with_pointers = True

    def __init__(self):
        words = random.Random(1)
        self.stdin = b" ".join(b"%x" % (words.getrandbits(24) ** 2 >> 30) for _ in range(600000))

    def build(self, folder, compiler, flags):
        flags += " -D_FILE_OFFSET_BITS=64"
        run(["make", f"CC={compiler}", f"CFLAGS={flags}", "libbz2.a", "bzip2.o"], folder)
        run([compiler, *flags.split(), "-o", "bzip2", "bzip2.o", "libbz2.a"], folder)

    def suite(self, folder):
        work = [(["-1"], "sample1.ref"), (["-2"], "sample2.ref"), (["-3"], "sample3.ref"), (["-d"], "sample1.bz2"),
                (["-d"], "sample2.bz2"), (["-ds"], "sample3.bz2")]
        return [(a, (folder / name).read_bytes()) for a, name in work]

    @staticmethod
    def choose(site):
        return site["verdict"] in ("ok", "pointer", "callback", "unknown")


class Lua(Program):
    program = "src/lua"
    with_pointers = True
    stdin = b""

    def __init__(self):
        self.arguments = [str(HERE / "work.lua")]

    def build(self, folder, compiler, flags):
        # Debian's makefile needs libtool, and its rules make this header.
        (folder / "src" / "lua5.4-deb-multiarch.h").write_text('#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"\n')
        sources = sorted(p.name for p in (folder / "src").glob("*.c") if p.name != "luac.c")
        run([compiler, "-std=gnu99", *flags.split(), "-DLUA_COMPAT_5_3", "-DLUA_USE_LINUX", *sources, "-o", "lua", "-Wl,-E",
             "-lm", "-ldl"], folder / "src")

    @staticmethod
    def choose(site):
        return site["verdict"] in ("ok", "pointer", "callback", "unknown")


PROGRAMS = {"bc": Bc, "bzip2": Bzip2, "lua": Lua}


class Comparison:
    def __init__(self, name, options):
        self.name = name
        self.program = PROGRAMS[name]()
        self.folder = options.work / name
        self.cc = options.build / "bin" / "holdfast-cc"
        self.holdfast = options.build / "src" / "cli" / "holdfast"
        self.options = options
        self.store = pathlib.Path(f"/dev/shm/advisor-port-{name}.nvm")
        self.placed = {"HOLDFAST_PLACED": str(self.store)}
        self.wrong = []

    def tree(self, name, source="source"):
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / source, folder, symlinks=True)
        return folder

    def built(self, name, compiler, flags, source="source"):
        folder = self.tree(name, source)
        self.program.build(folder, compiler, flags)
        return folder

    def command(self, folder):
        return [folder / self.program.program, *self.program.arguments]

    def once(self, folder, environment=None):
        """Output, and seconds of processor time: other work on the machine is none of the program's."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run(self.command(folder), folder, {**self.placed, **(environment or {})}, self.program.stdin)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return done.stdout, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def seconds(self, folder):
        return min(self.once(folder)[1] for _ in range(self.options.runs))

    def advise(self, profile, *more):
        text = run([self.holdfast, "advise", "--json", "--on", "shm", "--without-transactions", "--costs",
                    self.options.work / "costs.txt", *more, profile], self.folder).stdout
        return json.loads(text)

    def profiled(self, folder):
        profile = self.folder / f"{folder.name}.profile"
        output, seconds = self.once(folder, {"HOLDFAST_PROFILE": str(profile)})
        for _ in range(self.options.runs - 1):
            seconds = min(seconds, self.once(folder, {"HOLDFAST_PROFILE": str(profile)})[1])
        return profile, output, seconds

    def expect(self, what, good):
        if not good:
            self.wrong.append(what)
            print(f"  WRONG: {what}")

    def run(self):
        plain = self.built("plain", "clang-19", "-O2 -g -w")
        output, _ = self.once(plain)
        profiled = self.built("profiled", self.cc, "-O2 -g -w -fno-nvm -fnvm-profile")
        profile, counted, profiled_seconds = self.profiled(profiled)
        self.expect("output of the profiled program", counted == output)
        plain_seconds = self.seconds(plain)
        answer = self.advise(profile)
        chosen = [s["site"] for s in answer["sites"] if "verdict" in s and self.program.choose(s)]
        more = ["--with-pointers"] if self.program.with_pointers else []
        predicted = self.advise(profile, "--rewrite", "--sites", ",".join(map(str, chosen)), *more)
        patched = self.tree("patched", "profiled")
        patch = predicted["patch"].replace(f"a/profiled/", "a/").replace(f"b/profiled/", "b/")
        (self.folder / "store.patch").write_text(patch)
        run(["patch", "-p1", "-i", self.folder / "store.patch"], patched)
        rewritten = self.rebuilt("rewritten", patched, "-O2 -g -w -fno-nvm")
        logged = self.rebuilt("compiled", patched, "-O2 -g -w")
        again = self.rebuilt("counted", patched, "-O2 -g -w -fno-nvm -fnvm-profile")
        for folder in (rewritten, logged):
            self.expect(f"output of the {folder.name} program", self.once(folder)[0] == output)
        second, _, _ = self.profiled(again)
        self.compare(predicted, self.advise(second)["durable"])
        self.compare_time(predicted, plain_seconds, self.seconds(rewritten), profiled_seconds, self.seconds(logged))
        print(f"  sites: {len(answer['sites'])}, moved {len(chosen)}; lines of the patch: "
              f"{sum(l.startswith('+') and not l.startswith('+++') for l in patch.splitlines())}")
        self.own_tests(plain, rewritten)
        self.kills(logged, output)
        self.store.unlink(missing_ok=True)
        return not self.wrong

    def rebuilt(self, name, patched, flags):
        """The patched sources in a fresh tree, so that nothing of an earlier build is left in it."""
        folder = self.tree(name)
        changed = run(["grep", "-rl", "nvm/placed.h", ".", "--include=*.[chly]"], patched).stdout.decode().split()
        for path in changed:
            shutil.copy2(patched / path, folder / path)
        self.program.build(folder, self.cc, flags)
        return folder

    def compare(self, predicted, found):
        for what in ("loads", "stores", "read_bytes", "written_bytes"):
            said, is_now = predicted["moved"][what], found[what]
            print(f"  {what:<14} predicted {said:>14,}   found {is_now:>14,}   {said / max(is_now, 1):.3f}")
            self.expect(what, abs(said - is_now) <= WITHIN * max(is_now, 1))

    def compare_time(self, predicted, plain, rewritten, profiled, logged):
        said = plain + predicted["moved"]["time_ns"] * 1e-9
        print(f"  seconds        predicted {said:14.3f}   found {rewritten:14.3f}   {said / rewritten:.3f}"
              f"   (plain {plain:.3f}, with log calls {logged:.3f})")
        self.expect("time", abs(said - rewritten) <= WITHIN * rewritten)
        print(f"  profiling      {profiled / plain:.1f} times the plain run")
        self.expect("profiling within 10 times the plain run", profiled <= 10 * plain)

    def own_tests(self, plain, rewritten):
        passed = 0
        tests = self.program.suite(plain)
        for arguments, stdin in tests:
            there = [str(a).replace(str(plain), str(rewritten)) for a in arguments]
            old = run([plain / self.program.program, *arguments], plain, self.placed, stdin, check=False)
            new = run([rewritten / self.program.program, *there], rewritten, self.placed, stdin, check=False)
            same = (old.stdout, old.returncode) == (new.stdout, new.returncode)
            passed += same
            self.expect(f"own test {' '.join(map(str, arguments))}", same)
        if tests:
            print(f"  own tests: {passed} of {len(tests)} as the plain program")

    def kills(self, folder, output):
        """Killed anywhere, the store is whole, and the next run does its work."""
        chance = random.Random(1)
        seconds = self.seconds(folder)
        killed = 0
        for _ in range(self.options.kills):
            process = subprocess.Popen([str(c) for c in self.command(folder)], cwd=folder, stdin=subprocess.PIPE,
                                       stdout=subprocess.DEVNULL, env={**os.environ, **self.placed})
            deadline = chance.uniform(0, seconds)
            try:
                process.communicate(self.program.stdin, timeout=deadline)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                process.stdin.close()
                killed += 1
            check = run([self.holdfast, "check", "--quiet", self.store], check=False)
            self.expect("check of the store after a kill", check.returncode == 0 or not self.store.exists())
        self.expect("output after kills", self.once(folder)[0] == output)
        print(f"  kills: {killed}, the store whole after each")


def measure_costs(options):
    """Coefficients of this machine, of allocation; the rest of a pool on tmpfs is memory like any other."""
    program = options.work / "alloc_cost"
    run([options.build / "bin" / "holdfast-cc", "-O2", HERE / "alloc_cost.c", "-o", program])
    store = pathlib.Path("/dev/shm/advisor-port-cost.nvm")
    plain, placed = run([program], environment={"HOLDFAST_PLACED": str(store)}).stdout.decode().split()
    store.unlink(missing_ok=True)
    (options.work / "costs.txt").write_text(f"dram alloc_ns {plain} alloc_cost.c on this machine\n"
                                            f"shm alloc_ns {placed} alloc_cost.c on this machine\n")
    print(f"an allocation and its release: {plain} ns in the C library, {placed} ns in the store")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("programs", nargs="+", choices=PROGRAMS)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.work = options.work.resolve()
    measure_costs(options)
    good = True
    for name in options.programs:
        print(f"\n{name}")
        good = Comparison(name, options).run() and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
