#!/usr/bin/env python3
"""run.py --cc HOLDFAST_CC --clang CLANG --opt OPT --plugin PASS --unsafe FILE --writers PROGRAM --table FILE
           [--sample | --write]

Every storing intrinsic of x86 and every loop of loops.py, in a transaction that is aborted, at each -march and -O;
every intrinsic of LLVM that may write, through the pass alone.  Makes the table, or compares it.

  --sample  one build of each instead of all, and the table's names and what the pass makes of each
  --write   writes the table
Exit codes: 0 nothing lost and the table is current, 1 else, 2 wrong usage."""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile

import headers
import loops
import table

HERE = os.path.dirname(os.path.abspath(__file__))


def processor_has(flag):
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return flag in lines.read().split()


ARCHITECTURES = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
LEVELS = ["-O0", "-O1", "-O2", "-O3"]
SAMPLE = [("x86-64-v4", "-O2", [])]
SAMPLE_OF_OLDER = [("x86-64-v3" if processor_has("avx2") else "x86-64", "-O2", [])]  # of a processor without that


def source(cases):
    """One program of (name, attribute, body)."""
    parts = ['#include "frame.h"\n', "static unsigned char few[256];\n"]
    listed = []
    for k, (name, attribute, body) in enumerate(cases):
        parts.append(f"CASE {attribute} case_{k}(unsigned char *m, unsigned char *s) {{ (void)m, (void)s; {body} }}\n")
        listed.append(f'    {{"{name}", case_{k}}},\n')
    parts.append("static const struct a_case all[] = {\n" + "".join(listed) + "};\n")
    parts.append("int main(int c, char **v) {\n  for (int i = 0; i < 256; i++) few[i] = (unsigned char)(i * 37 % 64);\n"
                 "  return c == 3 ? run_all(all, sizeof all / sizeof *all, v) : 2;\n}\n")
    return "".join(parts)


def intrinsic_cases(found):
    """Clang 19 itself fails on the 128 bits of avx512f without avx512vl: "Cannot select"."""
    targets = [i.target.replace("avx512f,no-evex512", "avx512f,avx512vl,no-evex512") for i in found]
    return [(i.name, f'__attribute__((target("{t}")))' if t else "", i.call() + ";") for i, t in zip(found, targets)]


def loop_cases():
    return [(name, "", body) for name, body in loops.cases()]


def runnable(march):
    return {"x86-64-v3": processor_has("avx2"), "x86-64-v4": processor_has("avx512vl")}.get(march, True)


def build(o, file, made, march, level, more):
    command = [o.cc, "-w", "-D_GNU_SOURCE", f"-march={march}", level, "-ffp-contract=off", f"-I{HERE}", *more, file, "-o",
               made]
    subprocess.run(command, check=True)


def execute(program, names):
    """What each case came to; the signal that ended it, where one did."""
    results, first = {}, 0
    with tempfile.TemporaryDirectory(prefix="holdfast-intrinsics-", dir="/dev/shm") as pools:
        while first < len(names):
            pool = os.path.join(pools, "pool" + str(first))
            done = subprocess.run([program, pool, str(first)], text=True, capture_output=True, check=False, timeout=300)
            for line in done.stdout.splitlines():
                name, result = (line.split() + [""])[:2]
                results[name] = result or signal_of(done)
                first += 1
            if os.path.exists(pool):
                os.remove(pool)
            if done.returncode == 0 and first == len(names):
                break
            if done.returncode >= 0 or not done.stdout:
                raise RuntimeError(f"{program} {first}: exit code {done.returncode}: {done.stderr}")
    return results


def signal_of(done):
    name = signal.Signals(-done.returncode).name if done.returncode < 0 else f"code {done.returncode}"
    return "ABORTED" if name == "SIGABRT" else name


def logged_in_assembly(o, file, work):
    """The numbers of the cases whose code calls the log."""
    out = os.path.join(work, "cases.s")
    subprocess.run([o.cc, "-w", "-D_GNU_SOURCE", "-march=x86-64-v4", "-O1", f"-I{HERE}", "-S", file, "-o", out],
                   check=True)
    with open(out, encoding="utf-8") as lines:
        parts = re.split(r"^(case_\d+):", lines.read(), flags=re.M)
    return {int(parts[k][5:]) for k in range(1, len(parts), 2)
            if re.search(r"(call|jmp)\w*\s+__nvm_log", parts[k + 1].split(".cfi_endproc")[0])}


def through_pass(o, work):
    """Each of LLVM's own: logged, refused, or nothing; with the types of the arguments."""
    made = subprocess.run([o.writers], text=True, capture_output=True, check=True)
    module, refused = made.stdout, set()
    file = os.path.join(work, "writers.ll")
    while True:
        with open(file, "w", encoding="utf-8") as out:
            out.write(module)
        command = [o.opt, f"-load-pass-plugin={o.plugin}", f"--load={o.plugin}", f"-nvm-unsafe={o.unsafe}",
                   "-passes=nvm-log,verify", "-S", file]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        if done.returncode == 0:
            break
        said = re.search(r"calls\.([\w.]+)|'(llvm\.[\w.]+)'", done.stderr)
        if said is None:
            raise RuntimeError(done.stderr)
        name = said[1] or said[2]
        refused.add(name)
        module = re.sub(r"define void @calls\." + re.escape(name) + r"\(.*?\n}\n", "", module, flags=re.S)
    found = {name: ("refused", "") for name in refused}
    for name, arguments, body in re.findall(r"^define void @calls\.([\w.]+)\((.*?)\)[^\n]*\{\n(.*?)^}\n", done.stdout,
                                            flags=re.S | re.M):
        found[name] = ("logged" if "@__nvm_log" in body else "nothing", arguments)
    return found, made.stderr.split()


def builds(o):
    if o.sample:
        return SAMPLE if runnable(SAMPLE[0][0]) else SAMPLE_OF_OLDER
    whole = [(march, level, []) for march in ARCHITECTURES for level in LEVELS]
    return whole + [("x86-64-v4", "-O2", ["-DPOOL_ENGINE=NVM_ENGINE_LOG"]), ("x86-64-v4", "-O2", ["-fnvm-check"]),
                    ("x86-64-v4", "-O3", ["-mprefer-vector-width=512"]), ("x86-64", "-O0", ["-fno-nvm-elide"])]


def is_fault(kind, name, result):
    """A loop that stores nothing shows nothing."""
    if kind == "loops":
        return result != "restored"
    return result in ("LOST", "ABORTED") or (result == "DIFFERS" and not table.STATE.match(name))


def campaign(o, work):
    """Results of each case of intrinsics over all builds; what is lost; runs of loops."""
    found = headers.intrinsics(o.clang)
    kinds = {"intrinsics": intrinsic_cases(found), "loops": loop_cases()}
    results, lost, runs = {}, [], 0
    for kind, cases in kinds.items():
        file, made = os.path.join(work, kind + ".c"), os.path.join(work, kind)
        with open(file, "w", encoding="utf-8") as out:
            out.write(source(cases))
        names = [c[0] for c in cases]
        for march, level, more in builds(o):
            if not runnable(march):
                print(f"{march}: not of this processor")
                continue
            build(o, file, made, march, level, more)
            for name, result in execute(made, names).items():
                runs += 1
                if is_fault(kind, name, result):
                    lost.append(f"{name} -march={march} {level} {' '.join(more)}: {result}")
                if kind == "intrinsics":
                    results.setdefault(name, set()).add(result)
            print(f"{kind} -march={march} {level} {' '.join(more)}: {len(names)} cases", flush=True)
    numbers = logged_in_assembly(o, os.path.join(work, "intrinsics.c"), work)
    logged = {c[0] for k, c in enumerate(kinds["intrinsics"]) if k in numbers}
    return found, results, logged, lost, runs, len(kinds["loops"])


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cc", "clang", "opt", "plugin", "unsafe", "writers", "table"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def main():
    o = options()
    with tempfile.TemporaryDirectory() as work:
        found, results, logged, faults, runs, loop_count = campaign(o, work)
        of_llvm, not_callable = through_pass(o, work)
    rows = {**table.rows(found, results, logged), **table.rows_of_llvm(of_llvm, not_callable)}
    if runnable(SAMPLE[0][0]):
        faults += table.unexplained(rows)
        if not faults:
            faults += table.write(o.table, rows, loop_count) if o.write else list(table.differences(o.table, rows))
    elif o.write:
        faults.append(f"{o.table}: not written: it tells what a processor of {SAMPLE[0][0]} does, and this is none")
    else:
        print(f"{o.table}: not compared: it tells what a processor of {SAMPLE[0][0]} does, and this is none")
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(found)} intrinsics, {loop_count} loops, {runs} runs; {len(of_llvm)} of LLVM: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
