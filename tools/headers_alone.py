#!/usr/bin/env python3
"""Compiles every header by itself, so that none leans on what its users include first.

  include/**/*.h            C11 with gcc and clang, C++20 with g++ and clang
  include/**/*.hpp          C++20 with g++ and clang
  src/**/*.h, src/**/*.hpp  C++20 with clang; its warnings are errors. Those that a source of src/ includes
                            before anything else are compiled alone by the release build, and left out here;
                            but not where that build reads several sources as one

usage: tools/headers_alone.py [--root DIR] [--generated DIR] [path...]; paths limit the headers.
A header that passed is not compiled again until it or another header changes (build/headers.passed).
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys

C11 = ("-x", "c", "-std=c11")
CXX20 = ("-x", "c++", "-std=c++20")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-D_GNU_SOURCE")
LLVM_HEADERS = "/usr/lib/llvm-19/include"


def compilers(root, header):
    if header.is_relative_to(root / "src"):
        return [("clang++-19", *CXX20)]
    both = [("g++", *CXX20), ("clang++-19", *CXX20)]
    if header.suffix == ".h":
        both += [("gcc", *C11), ("clang-19", *C11)]
    return both


def read_as_one(root):
    """Folders of src/ of which the release build reads several sources as one: their CMakeLists.txt say TOOL."""
    lists = (root / "src").rglob("CMakeLists.txt")
    return {root / "src" / file.relative_to(root / "src").parts[0] for file in lists
            if re.search(r"\bTOOL\)", file.read_text())}


def included_first(root):
    """What sources of src/ that are read apart include before anything else, as they name it."""
    first = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)
    together = read_as_one(root)
    found = (first.search(source.read_bytes()) for source in (root / "src").rglob("*.cpp")
             if together.isdisjoint(source.parents))
    return {root / "src" / match[1].decode() for match in found if match}


def compile_alone(root, generated, header, compiler):
    # The header comes from a one-line file: as a main file it would draw a warning on `#pragma once`.
    include = ["-I", root / "include", "-I", root / "src", "-I", generated]
    if "compiler" in header.parts:
        include += ["-isystem", LLVM_HEADERS]
    done = subprocess.run(
        [*compiler, *WARNINGS, *include, "-"], input=f'#include "{header}"\n', text=True,
        capture_output=True, check=False)
    if done.returncode == 0:
        return None
    return f"{header.relative_to(root)}: not by itself with {' '.join(compiler)}\n{done.stderr}"


def digest(headers):
    total = hashlib.sha256()
    for header in headers:
        total.update(str(header).encode() + b"\0" + header.read_bytes())
    return total.hexdigest()


def main():
    parser = argparse.ArgumentParser(description="Compiles every header by itself.")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--generated", type=pathlib.Path)
    parser.add_argument("paths", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    generated = arguments.generated or root / "build" / "release" / "generated"

    headers = sorted(p for folder in ("include", "src") for p in (root / folder).rglob("*")
                     if p.suffix in {".h", ".hpp"} and p.is_file())
    stamp, now = root / "build" / "headers.passed", digest(headers)
    if not arguments.paths and stamp.exists() and stamp.read_text() == now:
        return 0
    chosen = [h for h in headers
              if not arguments.paths or any(h.is_relative_to(p.resolve()) for p in arguments.paths)]
    built = set() if arguments.paths else included_first(root)
    work = [(root, generated, h, c) for h in chosen if h not in built for c in compilers(root, h)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [f for f in pool.map(lambda item: compile_alone(*item), work) if f]
    for failure in failures:
        print(failure)
    print(f"{len(chosen)} headers, {len(work)} compilations, {len(failures)} failed")
    if not failures and not arguments.paths and stamp.parent.is_dir():
        stamp.write_text(now)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
