#!/usr/bin/env python3
"""Random command lines: holdfast-cc ends, prints and writes as Clang does.

usage: random_lines_test.py <holdfast-cc> <clang> [count] [seed]

Messages are not compared, since they hold names of temporary files, nor the output of options that show what Clang runs.
Without the standard libraries a program that stores through pointers lacks the log, or what the log needs, so that those
options are tried on code that does not.
"""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

FILES = {
    "a.c": "int b(int *);\nint main(int n, char **v) { int x = n; (void)v; return b(&x) - n; }\n",
    "b.c": "int b(int *p) { int r = *p; *p = 7; return r; }\n",
    "pure.c": "int main(void) { return 0; }\n",
    "s.s": ".globl s\ns: ret\n.section .note.GNU-stack,\"\",@progbits\n",
    "S.S": "#define R ret\n.globl t\nt: R\n",
    "h.h": "#pragma once\nextern int h;\n",
    "p.cpp": "#include <string>\nstd::string q(int n) { return std::string(n, 0); }\n",
    "i.ll": "define void @i(ptr %p) {\nstore i32 1, ptr %p\nret void\n}\n",
    "bad.c": "int f( {",
    "script": "x",
    "rsp": '-O1 "-DQ=a b" b.c',
}
INPUTS = ["a.c", "b.c", "a.c b.c", "pure.c", "s.s", "S.S", "h.h", "p.cpp", "i.ll", "bad.c", "none.c", "a.c b.c s.s", ""]
OPTIONS = """
-c|-S|-E|-M|-MM|-MD|-MMD|-MF d.d|-MT t|-MQ q|-MP|-MG|-MJ c.json|-P|-C|-dM|-H|-v|-###|-Q|-ftime-report|-save-temps|-pipe
-O0|-O1|-O2|-Os|-g|-gsplit-dwarf|-march=native|-masm=intel|-m64|-m32|-flto|-flto=thin|-fno-integrated-as|-Wa,--noexecstack
-shared|-fPIC|-static|-static-pie|-pie|-no-pie|-r|-nostartfiles|-rdynamic|-s|-pthread|-lm|-L.|-u main|-z now|-e main
-fuse-ld=lld|-Wl,--as-needed|-Wl,-Bstatic -lm -Wl,-Bdynamic|-Xlinker --gc-sections|-T script
-nostdlib|-nodefaultlibs|-nolibc|-nostdinc|-ffreestanding
-x c|-x c++|-x none|-x assembler|-x c-header|-x ir|-std=c11|-std=c99|-std=c++20|-ansi|-pedantic|-trigraphs|-fno-exceptions
-o out|-oout2|-o|-x|-I|-I .|-I.|-D X=1|-DX|-U X|-include h.h|--param x=1|-Wp,-DY|@rsp|@none|--|-|-funknown|-emit-llvm
-Wall|-Werror|-Wextra|-w|-Wno-everything|-fsyntax-only|--analyze|-fsanitize=undefined|-fsanitize=address|--coverage
-dumpversion|-print-libgcc-file-name|--target=x86_64-pc-linux-gnu|-target x86_64-linux-gnu|-fvisibility=hidden
""".replace("\n", "|").strip("|").split("|")
LIBRARIES_OFF = {"-nostdlib", "-nodefaultlibs", "-nolibc", "-nostartfiles"}
SHOWS_COMMANDS = {"-v", "-###", "-H", "-Q", "-ftime-report", "-S", "-E", "-emit-llvm", "--analyze"}


def run(compiler, arguments):
    """(exit code, output, names of the files that were written), in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            pathlib.Path(folder, name).write_text(text)
        done = subprocess.run([compiler, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              check=False, timeout=100)
        # Clang puts random letters into names of what it cannot name after an output.
        written = {re.sub(r"-[0-9a-f]{6,}", "", name) for name in os.listdir(folder) if name not in FILES}
        return done.returncode, done.stdout, written, done.stderr.decode(errors="replace")


def line(source):
    parts = [source.choice(OPTIONS) for _ in range(source.randint(0, 5))]
    inputs = source.choice(INPUTS)
    if LIBRARIES_OFF & set(parts):
        parts = [p for p in parts if p != "@rsp"]
        inputs = source.choice(["pure.c", "s.s"])
    parts.insert(source.randint(0, len(parts)), inputs)
    return " ".join(parts).split()


def main():
    ours, clang = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    source = random.Random(seed)
    failed = 0
    for _ in range(count):
        arguments = line(source)
        expected, found = run(clang, arguments), run(ours, arguments)
        same_output = SHOWS_COMMANDS & set(arguments) or expected[1] == found[1]
        if expected[0] != found[0] or expected[2] != found[2] or not same_output:
            failed += 1
            print(f"{' '.join(arguments)}\n  exit code {found[0]}, Clang's {expected[0]}; files {sorted(found[2])}, "
                  f"Clang's {sorted(expected[2])}\n  {found[3]}\n  Clang: {expected[3]}")
    print(f"{count} command lines of seed {seed}, {failed} differ")
    return 1 if failed else 0


sys.exit(main())
