#!/usr/bin/env python3
"""The shared library exports the calls of its public headers and nothing else, and needs the C and C++ run-time only.
Its thread-local memory is small: a library that is loaded late gets what others have left of some 1,600 bytes.

usage: library_test.py <libholdfast.so> <header>...
"""

import re
import subprocess
import sys

NEEDED_ALLOWED = re.compile(r"lib(c|m|stdc\+\+|gcc_s|pthread)\.so\.\d+|ld-linux.*")

THREAD_LOCAL_BYTES_MAX = 256


def output_of(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def main(library, *headers):
    faults = []
    symbols = output_of("nm", "--dynamic", "--defined-only", library).splitlines()
    exported = {line.split()[-1] for line in symbols}
    declared = set()
    for header in headers:
        with open(header, encoding="utf-8") as file:
            text = file.read()
        declared |= set(re.findall(r"^NVM_API\b[^;]*?\b((?:__)?nvm_\w+)\s*\(", text, re.MULTILINE))
        declared |= set(re.findall(r"^extern NVM_API\b[^;(]*?\b(nvm_\w+);", text, re.MULTILINE))
    faults += [f"{name} is exported but not declared NVM_API in a public header"
               for name in sorted(exported - declared)]
    faults += [f"{name} is declared NVM_API but not in the library"
               for name in sorted(declared - exported)]
    for name in re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "--dynamic", library)):
        if not NEEDED_ALLOWED.fullmatch(name):
            faults.append(f"needs {name}")
    thread_local = sum(int(size, 16) for size in re.findall(
        r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)",
        output_of("readelf", "--program-headers", "--wide", library), re.MULTILINE))
    if not 0 < thread_local <= THREAD_LOCAL_BYTES_MAX:
        faults.append(f"has {thread_local} bytes of thread-local memory, at most {THREAD_LOCAL_BYTES_MAX} may be")
    print(f"{len(exported)} symbols exported, {len(declared)} declared, {thread_local} bytes of thread-local memory")
    for fault in faults:
        print(fault)
    return 1 if faults or not declared else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
