#!/usr/bin/env python3
"""Runs clang-tidy over the core, several sources of a layer at a time.

usage: tools/tidy.py [--jobs N] [file...]; default: all sources of src/ that build/release compiles, but what
NOT_READ names and those that put the headers of another source, NAME_any.cpp, over another medium (NAME_direct.cpp,
NAME_image.cpp).

Most of the time goes into headers, which sources of a layer share: up to twenty are read as one. Two with a name in common
cannot be: those that the CMakeLists.txt keep apart (SKIP_UNITY_BUILD_INCLUSION) are read apart here too, and a group that
does not compile is read again in halves. What has passed is not read again until it, a header, the checks or the flags
change (tools/passed.py).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import passed

# Sources over Clang's own headers, and one that is compiled without vector registers, which Clang does not do for sources
# that include the C++ library.
NOT_READ = ("src/compiler/", "src/advisor/rewriter/", "src/advisor/runtime/access.cpp")
ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
MOST = 20
OVER_A_MEDIUM = re.compile(r"_(direct|image)\.cpp$")


def flags_of(command):
    """What a source is compiled with, as clang understands it, without its own name and its output."""
    words, kept, skip = shlex.split(command), [], False
    start = next(i for i, word in enumerate(words) if re.search(r"(^|/)(g\+\+|gcc|cc|c\+\+)(-\d+)?$", word))
    for word in words[start + 1:-2]:
        if skip:
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        elif word != "-MD" and not word.startswith("-ffile-prefix-map"):
            kept.append(word)
    return (*kept, "-Wno-unknown-warning-option")


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, check=True, capture_output=True)
    return [name for name in listed.stdout.decode().split("\0") if name]


def shared_digest():
    names = tracked(".clang-tidy", "CMakeLists.txt", "tools/tidy.py", "*.h", "*.hpp")
    return passed.digest(passed.versions("clang-tidy-19"), *((ROOT / name).read_bytes() for name in names))


class Group:
    """Sources of a layer that are compiled alike."""

    def __init__(self, sources, flags):
        self.sources, self.flags = sources, flags

    def halves(self):
        middle = len(self.sources) // 2
        return Group(self.sources[:middle], self.flags), Group(self.sources[middle:], self.flags)

    def digest(self, shared):
        flags = (flag.replace(str(ROOT), "") for flag in self.flags)
        return passed.digest(shared, *flags, *self.sources, *((ROOT / source).read_bytes() for source in self.sources))

    def file(self, folder):
        """One file with all of them."""
        if len(self.sources) == 1:
            return ROOT / self.sources[0]
        whole = pathlib.Path(folder) / "whole.cpp"
        whole.write_text("".join(f'#include "{ROOT / source}"\n' for source in self.sources))
        return whole


def kept_apart():
    """Sources with a name in common with others of their layer, as their CMakeLists.txt say."""
    said = re.compile(r"set_source_files_properties\(([^()]*?)\s+PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON\)")
    return {f"{pathlib.PurePath(file).parent}/{name}" for file in tracked("src/*CMakeLists.txt")
            for names in said.findall((ROOT / file).read_text()) for name in names.split()}


def tidy(group, shared):
    """What is wrong, of all its sources; empty: nothing."""
    now = group.digest(shared)
    if passed.has(now):
        return ""
    several = len(group.sources) > 1
    first_only = ["-Wfatal-errors"] if several else []  # of several, nothing but whether they compile as one
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["clang-tidy-19", "--quiet", f"--config-file={ROOT / '.clang-tidy'}", group.file(folder),
                               "--", *group.flags, *first_only], cwd=ROOT, text=True, capture_output=True, check=False)
    found = "" if done.returncode == 0 else (done.stdout + done.stderr).strip() + "\n"
    if several and "clang-diagnostic-error" in found:
        found = "".join(tidy(half, shared) for half in group.halves())
    if not found:
        passed.remember(now)
    return found


def compiled(entry):
    """Sources of a command: what a build that reads several as one includes, or the one that it names."""
    path = pathlib.Path(entry["file"])
    if path.parent.name != "Unity":
        return [path]
    return [pathlib.Path(name) for name in re.findall(r'^#include "(.*)"$', path.read_text(), re.MULTILINE)]


def read_by_default():
    sources = tracked("src/*.cpp", "src/*.c")
    return {name for name in sources
            if not name.startswith(NOT_READ) and OVER_A_MEDIUM.sub("_any.cpp", name) not in {*sources} - {name}}


def groups_of(chosen):
    alike, alone = {}, kept_apart()
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        for path in compiled(entry):
            name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
            if name not in chosen:
                continue
            chosen.remove(name)  # the first of several ways to compile it
            apart = name if name in alone else ""
            key = (str(pathlib.Path(name).parent), pathlib.Path(name).suffix, apart, flags_of(entry["command"]))
            alike.setdefault(key, []).append(name)
    for (_, suffix, _, flags), names in sorted(alike.items()):
        most = MOST if suffix == ".cpp" else 1
        count = -(-len(names) // most)
        for i in range(count):
            yield Group(sorted(names)[i::count], flags)


def main():
    parser = argparse.ArgumentParser(description="Runs clang-tidy over the core.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    if not (BUILD / "compile_commands.json").exists():
        print("tidy: build/release is not configured: cmake --preset release", file=sys.stderr)
        return 2
    chosen = set(arguments.files) or read_by_default()
    work = sorted(groups_of(chosen), key=lambda group: -len(group.sources))
    if arguments.files and chosen:
        print(f"tidy: build/release does not compile {', '.join(sorted(chosen))}", file=sys.stderr)
        return 2
    shared = shared_digest()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        found = [f for f in pool.map(lambda group: tidy(group, shared), work) if f]
    for text in found:
        print(text)
    print(f"{sum(len(g.sources) for g in work)} sources in {len(work)} groups, {len(found)} groups with findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
