#!/usr/bin/env python3
"""Checks words and calls in the tracked files.

  leftovers  no marks of unfinished work
  doors      cache write-back, fences and syncs are issued by src/media and src/platform only
  leaks      no machine's paths, no work item numbers, no address outside the written list
  width      no source line longer than 120 columns
  descriptors  a descriptor is made in src/platform/descriptor.cpp only, which keeps it off 0, 1 and 2
  engines    engines are told apart by their rows in src/pool/engines.hpp, never by their numbers
  rulers     a line of dashes alone is what a formatter leaves of a heading that it has broken
  edges      each fence label in src/ reads protocol/E<number> and stands at one place only, so that it
             can be looked up, counted and removed

usage: tools/tree_rules.py [--root DIR] [rule...]; prints one line a violation, exit code 1 when there
is any. Without git the whole folder is read.
"""

import argparse
import pathlib
import re
import subprocess
import sys

CODE = {".h", ".hpp", ".c", ".cpp", ".cc", ".inc", ".S"}
COLUMNS_MAX = 120

# Words are put together here so that this file passes its own check.
LEFTOVERS = re.compile(
    r"\b(?:" + "|".join(["TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"]) + r")\b"
    r"|(?i:\b(?:" + "|".join(["st" "ubs?", "not " "implemented", "for " "now"]) + r")\b)")

LEAK_PATHS = re.compile(r"(?<![\w.}/-])/(?:" + "|".join(["wo" "rk", "ho" "me", "ro" "ot", "Us" "ers"])
                        + r")/[\w.-]+")
WORK_ITEMS = re.compile(r"(?i)\bissue\s*#?\d+\b|\bticket\s*#?\d+\b")
ADDRESS = re.compile(r"https?://([\w.-]+)")
ADDRESSES_ALLOWED = {"localhost", "127.0.0.1", "cmake.org", "json-schema.org", "www.w3.org"}

INSTRUCTION = r"(?:clwb|clflush|clflushopt|[sm]fence)"
DOOR_CALLS = re.compile(
    r"\b(?:_mm_" + INSTRUCTION + r"|__builtin_ia32_" + INSTRUCTION + r"|_mm(?:256|512)?_stream_\w+|"
    r"_movdir64b|msync|fdatasync|fsync|syncfs|sync_file_range)\s*\(")
DOOR_ASSEMBLY = re.compile(r'"[^"\n]*\b(?:' + INSTRUCTION + r"|movnt\w*|movdir64b)\b[^\"\n]*\"")
ASSEMBLY = re.compile(r"\b(?:asm|__asm__)\b")
DOORS = ("src/media/", "src/platform/")

COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def without_comments(text, keep_literals):
    """The text with comments blanked (and literals too, unless kept); lines keep their numbers."""
    def blank(match):
        token = match[0]
        if token[0] in "\"'" and keep_literals:
            return token
        return "\n" * token.count("\n") or " "
    return COMMENT_OR_LITERAL.sub(blank, text)


def tracked_files(root):
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    for name in sorted(set(names)):
        data = (root / name).read_bytes() if (root / name).is_file() else b"\0"
        if b"\0" not in data:
            yield name, data.decode(errors="replace")


def numbered(text):
    return enumerate(text.splitlines(), 1)


def leftovers(name, text):
    for number, line in numbered(text):
        for found in LEFTOVERS.finditer(line):
            yield f"{name}:{number}: leftover '{found[0]}'"


def leaks(name, text):
    for number, line in numbered(text):
        for found in LEAK_PATHS.finditer(line):
            yield f"{name}:{number}: path of one machine '{found[0]}'"
        for found in WORK_ITEMS.finditer(line):
            yield f"{name}:{number}: work item '{found[0]}'"
        for found in ADDRESS.finditer(line):
            if found[1] not in ADDRESSES_ALLOWED and not found[1].endswith("example.org"):
                yield f"{name}:{number}: address '{found[0]}' is not on the list of tools/tree_rules.py"


def doors(name, text):
    if not name.startswith("src/") or name.startswith(DOORS) or pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(without_comments(text, keep_literals=False)):
        for found in DOOR_CALLS.finditer(line):
            yield f"{name}:{number}: '{found[0]}' belongs behind src/media"
    code = without_comments(text, keep_literals=True)
    if ASSEMBLY.search(without_comments(text, keep_literals=False)):
        for number, line in numbered(code):
            for found in DOOR_ASSEMBLY.finditer(line):
                yield f"{name}:{number}: assembly {found[0]} belongs behind src/media"


# What gives a new descriptor.  `open` and `dup` with the global scope only: members are called so, too.  Streams open
# files as well; the main() of our programs gives the standard descriptors away before any of them can get one.
DESCRIPTOR_CALLS = re.compile(
    r"(?<![\w:.>])(?:::(?:open|openat|open64|creat|dup|socket|accept4?|pipe2?|fopen|opendir)"
    r"|(?:::)?(?:socketpair|memfd_create|memfd_secret|eventfd|epoll_create1?|timerfd_create|signalfd|inotify_init1?"
    r"|pidfd_open|mkstemp|mkostemp|mkstemps|shm_open|posix_openpt|tmpfile|popen|perf_event_open|io_uring_setup))\s*\("
    r"|\bSYS_(?:open\w*|userfaultfd|memfd_create|pidfd_open|io_uring_setup|perf_event_open|bpf)\b"
    r"|\bF_DUPFD\w*")
STREAMS = re.compile(r"\bstd::(?:fopen|freopen|tmpfile|[io]?fstream|basic_[io]?fstream|filesystem::directory_iterator"
                     r"|filesystem::recursive_directory_iterator)\b")
DESCRIPTOR_DOOR = "src/platform/descriptor.cpp"
WITH_STREAMS = ("src/cli/", "src/server/", "src/explore/", "src/crash_test/", "src/compiler/driver/", "src/compiler/pass/")


def descriptors(name, text):
    if not name.startswith("src/") or name == DESCRIPTOR_DOOR or pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(without_comments(text, keep_literals=False)):
        for found in DESCRIPTOR_CALLS.finditer(line):
            yield f"{name}:{number}: '{found[0]}' makes a descriptor outside of {DESCRIPTOR_DOOR}"
        if not name.startswith(WITH_STREAMS):
            for found in STREAMS.finditer(line):
                yield f"{name}:{number}: '{found[0]}' opens a file outside of {DESCRIPTOR_DOOR}"


ENGINE_TABLE = "src/pool/engines.hpp"
ENGINE_NUMBERS = re.compile(r"\bNVM_ENGINE_(?!DETECT\b)\w+")


def engines(name, text):
    if not name.startswith("src/") or name == ENGINE_TABLE or pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(without_comments(text, keep_literals=False)):
        for found in ENGINE_NUMBERS.finditer(line):
            yield f"{name}:{number}: '{found[0]}' outside of {ENGINE_TABLE}; ask the engine's row"


RULER = re.compile(r"^\s*(?://|/?\*)\s*-{8,}\s*(?:\*/)?\s*$")


def rulers(name, text):
    if pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(text):
        if RULER.match(line):
            yield f"{name}:{number}: a line of dashes alone; end the heading with them"


def width(name, text):
    if pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(text):
        if len(line) > COLUMNS_MAX:
            yield f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"


EDGE = re.compile(r'\bedge\s*\{\s*"([^"]*)"\s*\}')
EDGE_SHAPE = re.compile(r"[a-z][a-z0-9_-]*/E\d+")
edge_places = {}


def edges(name, text):
    if not name.startswith("src/") or pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(without_comments(text, keep_literals=True)):
        for found in EDGE.finditer(line):
            first = edge_places.setdefault(found[1], f"{name}:{number}")
            if not EDGE_SHAPE.fullmatch(found[1]):
                yield f"{name}:{number}: fence label '{found[1]}' does not read protocol/E<number>"
            elif first != f"{name}:{number}":
                yield f"{name}:{number}: fence label '{found[1]}' stands at {first} already"


RULES = {"leftovers": leftovers, "doors": doors, "leaks": leaks, "width": width, "edges": edges,
         "descriptors": descriptors, "engines": engines, "rulers": rulers}


def main():
    parser = argparse.ArgumentParser(description="Checks words and calls in the tracked files.")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("rules", nargs="*", metavar="rule", help=", ".join(RULES))
    arguments = parser.parse_args()
    unknown = set(arguments.rules) - set(RULES)
    if unknown:
        parser.error(f"unknown rule {', '.join(sorted(unknown))}")
    found = [line
             for name, text in tracked_files(arguments.root)
             for rule in (arguments.rules or RULES)
             for line in RULES[rule](name, text)]
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
