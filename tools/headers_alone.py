#!/usr/bin/env python3
"""Compiles every header as if by itself, so that none leans on what its users include first.

  include/**/*.h            C11 with gcc and clang, C++20 with g++ and clang
  include/**/*.hpp          C++20 with g++ and clang
  src/**/*.h, src/**/*.hpp  C++20 with clang; its warnings are errors. Those that a source of src/ includes
                            before anything else are compiled alone by the release build, and left out here;
                            but not where that build reads several sources as one

A header may be compiled after others when it includes all of them, and all that these include: it sees then what it
would see alone. So headers of which each includes the one before are compiled as one, and what most of them include is
compiled in advance (IN_ADVANCE). An include within #if counts for the one that comes before, and not for the one that
comes after. When one of several fails, each is compiled alone.

usage: tools/headers_alone.py [--root DIR] [--generated DIR] [path...]; paths limit the headers.
Headers that passed are not compiled again until one of them changes (tools/passed.py). In `./dev test` of
everything (HOLDFAST_WHOLE_TEST) each day has a third of the rows of src/ and all of include/.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import passed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import random_seed  # noqa: E402

C11 = ("-x", "c", "-std=c11")
CXX20 = ("-x", "c++", "-std=c++20")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE")
LLVM_HEADERS = "/usr/lib/llvm-19/include"
# Doors of layers, in src/: the first that a header includes is what is compiled before it.
IN_ADVANCE = ("space/space.hpp", "media/media.hpp", "platform/platform.hpp", "base/base.hpp")
DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*(include|if|ifdef|ifndef|endif|define)\b[ \t]*("[^"\n]+"|<[^>\n]+>|\w*)', re.MULTILINE)


class Tree:
    """The headers below a root, and what each includes."""

    def __init__(self, root, generated):
        self.root, self.generated = root, generated
        self.headers = sorted(p for folder in ("include", "src") for p in (root / folder).rglob("*")
                              if p.suffix in {".h", ".hpp"} and p.is_file())
        self.known = set(self.headers)
        self.direct = {header: list(self.includes(header)) for header in self.headers}
        self.seen = {}

    def includes(self, header):
        """What a header includes, and whether in any case: headers of the tree as paths, others by their names."""
        found = [(m[1], m[2]) for m in DIRECTIVE.finditer(header.read_text())]
        guarded = [word for word, _ in found[:2]] == ["ifndef", "define"] and found[0][1] == found[1][1]
        depth = -1 if guarded else 0
        for word, name in found:
            if word == "include":
                yield self.resolve(header, name), depth == 0
            elif word != "define":
                depth += -1 if word == "endif" else 1

    def resolve(self, header, name):
        places = (header.parent, self.root / "src", self.root / "include")
        paths = [folder / name[1:-1] for folder in places] if name[0] in '"<' else []
        return next((p.resolve() for p in paths if p.resolve() in self.known), name)

    def closure(self, header, always):
        """All that comes before a header's own text; `always`: without what is included within #if only."""
        if (header, always) not in self.seen:
            found, left = set(), [header]
            while left:
                for name, certain in self.direct.get(left.pop(), ()):
                    if (certain or not always) and name not in found:
                        found.add(name)
                        left.append(name)
            self.seen[header, always] = found
        return self.seen[header, always]

    def may_follow(self, header, before):
        """Whether it sees nothing but what it includes when it is compiled after `before`, and is not in that."""
        whole = self.closure(before, False)
        return before != header and header not in whole and whole | {before} <= self.closure(header, True)

    def chains(self, headers):
        """The headers in as few rows as possible, in each of which each may follow the one before."""
        follower, taken = {}, {}

        def place(header, tried):
            for before in headers:
                if before not in tried and self.may_follow(header, before):
                    tried.add(before)
                    if before not in follower or place(follower[before], tried):
                        follower[before] = header
                        return True
            return False

        for header in headers:
            place(header, set())
        taken = set(follower.values())
        for header in headers:
            if header not in taken:
                row = [header]
                while row[-1] in follower:
                    row.append(follower[row[-1]])
                yield row


def compilers(root, header):
    if header.is_relative_to(root / "src"):
        return [("clang++-19", *CXX20)]
    both = [("g++", *CXX20), ("clang++-19", *CXX20)]
    if header.suffix == ".h":
        both += [("gcc", *C11), ("clang-19", *C11)]
    return both


def read_as_one(root):
    """What the release build reads several of as one: folders of src/ that say TOOL, and sources named after COLD."""
    for file in (root / "src").rglob("CMakeLists.txt"):
        text = file.read_text()
        if re.search(r"\bTOOL\)", text):
            yield root / "src" / file.relative_to(root / "src").parts[0]
        for names in re.findall(r"\bCOLD\s+((?:[\w/]+\.cpp\s*)+)", text):
            yield from (file.parent / name for name in names.split())


def included_first(root):
    """What sources of src/ that are read apart include before anything else, as they name it."""
    first = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)
    together = set(read_as_one(root))
    found = (first.search(source.read_bytes()) for source in (root / "src").rglob("*.cpp")
             if together.isdisjoint((source, *source.parents)))
    return {root / "src" / match[1].decode() for match in found if match}


def run(tree, compiler, headers, more):
    """What the compiler says of these headers, one after the other; empty: nothing."""
    include = ["-I", tree.root / "include", "-I", tree.root / "src", "-I", tree.generated]
    if any("compiler" in header.parts for header in headers):
        include += ["-isystem", LLVM_HEADERS]
    # They come from a file of nothing else: as a main file one would draw a warning on `#pragma once`.
    done = subprocess.run([*compiler, *WARNINGS, *include, *more, "-"],
                          input="".join(f'#include "{header}"\n' for header in headers), text=True,
                          capture_output=True, check=False)
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}\n"


def compile_row(tree, compiler, row, in_advance):
    """What fails, of each header."""
    more = ("-fsyntax-only", *(("-include-pch", in_advance) if in_advance else ()))
    found = run(tree, compiler, row, more)
    if not found:
        return []
    alone = [(header, run(tree, compiler, [header], ("-fsyntax-only",))) for header in row]
    failed = [(header, text) for header, text in alone if text] or [(row[-1], found)]
    return [f"{header.relative_to(tree.root)}: not by itself with {' '.join(compiler)}\n{text}" for header, text in failed]


def rows_of(tree, work, folder):
    """Rows of headers with their compiler, and what is compiled before them."""
    doors = {}
    for name in IN_ADVANCE:
        door, made = tree.root / "src" / name, folder / name.replace("/", "_")
        users = [h for h, c in work if h.is_relative_to(tree.root / "src") and tree.may_follow(h, door)]
        if len(users) > 10:
            doors[door] = made
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # A door that fails is compiled by itself as well, and says so there.
        good = pool.map(lambda door: not run(tree, ("clang++-19", "-x", "c++-header", "-std=c++20"), [door],
                                             ("-fpch-instantiate-templates", "-o", doors[door])), doors)
        doors = {door: doors[door] for door, passed in zip(list(doors), good) if passed}
    alike = {}
    for header, compiler in work:
        door = next((d for d in doors if compiler == ("clang++-19", *CXX20) and tree.may_follow(header, d)), None)
        alike.setdefault((compiler, "compiler" in header.parts, door), []).append(header)
    return [(compiler, row, doors.get(door)) for (compiler, _, door), headers in alike.items()
            for row in tree.chains(headers)]


def of_today(tree, rows):
    """The rows whose turn it is: of src/ by the name of the first header."""
    turn = random_seed.seed_from_environment() % 3
    for row in rows:
        name = row[1][0].relative_to(tree.root)
        if name.parts[0] != "src" or random_seed.seed_of(str(name)) % 3 == turn:
            yield row


def digest(root, headers, built, turn):
    contents = (part for header in headers for part in (header.relative_to(root), header in built, header.read_bytes()))
    return passed.digest(pathlib.Path(__file__).read_bytes(), passed.versions("gcc", "clang-19"), turn, *contents)


def main():
    parser = argparse.ArgumentParser(description="Compiles every header by itself.")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--generated", type=pathlib.Path)
    parser.add_argument("paths", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    tree = Tree(root, arguments.generated or root / "build" / "release" / "generated")
    headers = tree.headers
    built = set() if arguments.paths else included_first(root)
    in_turn = random_seed.takes_turns() and "HOLDFAST_WHOLE_TEST" in os.environ and not arguments.paths
    now = digest(root, headers, built, random_seed.seed_from_environment() % 3 if in_turn else "all")
    if not arguments.paths and passed.has(now):
        return 0
    chosen = [h for h in headers
              if not arguments.paths or any(h.is_relative_to(p.resolve()) for p in arguments.paths)]
    work = [(h, c) for h in chosen if h not in built for c in compilers(root, h)]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = rows_of(tree, work, pathlib.Path(folder))
        if in_turn:
            rows = list(of_today(tree, rows))
        failures = [f for found in pool.map(lambda row: compile_row(tree, *row), rows) for f in found]
    for failure in failures:
        print(failure)
    print(f"{len(chosen)} headers, {len(rows)} compilations, {len(failures)} failed")
    if not failures and not arguments.paths:
        passed.remember(now)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
