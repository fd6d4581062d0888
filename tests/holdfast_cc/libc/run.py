#!/usr/bin/env python3
"""run.py [--write] <holdfast-cc> [flags]...: calls the functions of the C library of cases.txt on durable memory, aborts,
and compares. Each group of flags, separated by commas, is one build; without any: all that a program may be built with.
Then called.txt has to name the functions that these programs call, and --write makes it."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILDS = ["-O0", "-O2", "-O2,-fno-builtin", "-O2,-D_FORTIFY_SOURCE=2", "-O1,-D_FORTIFY_SOURCE=3",
          "-O2,-D_FILE_OFFSET_BITS=64", "-O0,-D_FILE_OFFSET_BITS=64", "-O2,-D_FORTIFY_SOURCE=2,-D_FILE_OFFSET_BITS=64",
          "-O2,-fnvm-check", "-O0,-fno-nvm-elide"]


def cases():
    with open(os.path.join(HERE, "cases.txt"), encoding="utf-8") as lines:
        for text in map(str.strip, lines):
            if text and not text.startswith("#"):
                before, bar, run = text.partition(" | ")
                yield (before, run) if bar else ("", text)


def program():
    parts, table = ['#include "frame.h"\n'], []
    for k, (before, run) in enumerate(cases()):
        quoted = run.replace("\\", "\\\\").replace('"', '\\"')
        for what, code in (("before", before), ("run", run)):
            parts.append(f"__attribute__((noinline)) static void {what}_{k}(char *m, wchar_t *w) {{ (void)m, (void)w; {code}; }}\n")
        table.append(f'    {{"{quoted}", before_{k}, run_{k}}},\n')
    parts.append("static const struct a_case all[] = {\n" + "".join(table) + "};\n")
    parts.append("int main(int c, char **v) { return c == 2 ? run_all(all, sizeof all / sizeof *all, v[1]) : 2; }\n")
    return "".join(parts)


def symbols(unlinked):
    """What it calls of libraries, by the name that the linker sees; calls of the run-time are linked to it later."""
    listed = subprocess.run(["nm", "-u", unlinked], text=True, capture_output=True, check=True).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    return {n for n in names if not n.startswith(("nvm_", "__nvm_"))}


def called_is_current(called, write):
    """False: called.txt says otherwise."""
    text = "".join(f"{name}\n" for name in sorted(called))
    with open(os.path.join(HERE, "called.txt"), "w" if write else "r", encoding="utf-8") as file:
        if write:
            file.write(text)
        elif file.read() != text:
            print("called.txt is not what run.py --write makes", file=sys.stderr)
            return False
    return True


def main():
    write = "--write" in sys.argv
    compiler, *chosen = [a for a in sys.argv[1:] if a != "--write"]
    builds = chosen or BUILDS
    failed, called = False, set()
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory(dir="/dev/shm") as pools:
        source, unlinked, made = (os.path.join(work, name) for name in ("calls.c", "calls.o", "calls"))
        with open(source, "w", encoding="utf-8") as out:
            out.write(program())
        for build in builds:
            flags = [*build.split(","), "-w"]
            subprocess.run([compiler, *flags, "-I", HERE, "-c", source, "-o", unlinked], check=True)
            subprocess.run([compiler, *flags, unlinked, "-o", made, "-lm", "-lresolv"], check=True)
            called |= symbols(unlinked)
            pool = os.path.join(pools, "pool")
            found = subprocess.run([made, pool], text=True, capture_output=True, check=False,
                                   env={**os.environ, "NVM_CHECK": "report"})
            print(f"{build}: {found.stdout}exit code {found.returncode}", flush=True)
            if found.returncode != 0:
                print(found.stderr)
            failed |= found.returncode != 0
            if os.path.exists(pool):
                os.remove(pool)
    return 1 if failed or (not chosen and not called_is_current(called, write)) else 0


if __name__ == "__main__":
    sys.exit(main())
