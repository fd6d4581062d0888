#!/usr/bin/env python3
"""Applies an edit script to a source tree and counts the lines that it changes.

usage: apply_edits.py SCRIPT TREE   edit the files in TREE
       apply_edits.py SCRIPT        only read the script, say what it would touch

A script has one command a line; '#' begins a comment line.
  in FILE        what follows is about this file; the current line is before its first
  at TEXT        go forward to the next line that contains TEXT
  insert TEXT    put a line behind the current one, indented like it
  before TEXT    put a line in front of the current one, indented like it
  swap OLD NEW   replace a word of the current line, which has it once
A line of the tree is counted once, however often it is edited.  Nothing is written unless all of it applies.
Exit codes: 0 done, 1 the script does not fit the tree, 2 the script cannot be read.
"""
import pathlib
import re
import sys


class ScriptError(Exception):
    """The script itself is wrong."""


class FitError(Exception):
    """The script does not fit the tree."""


def read_script(text):
    """[(line number, command, arguments)]"""
    commands = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        verb, _, rest = line.partition(" ")
        rest = rest.strip()
        if verb not in ("in", "at", "insert", "before", "swap"):
            raise ScriptError(f"{number}: unknown command '{verb}'")
        if not rest:
            raise ScriptError(f"{number}: '{verb}' needs an argument")
        if verb != "in" and not commands:
            raise ScriptError(f"{number}: '{verb}' before any 'in'")
        if verb == "in" and (rest.startswith("/") or ".." in rest.split("/")):
            raise ScriptError(f"{number}: '{rest}' is not inside the tree")
        arguments = rest.split() if verb == "swap" else [rest]
        if verb == "swap" and len(arguments) != 2:
            raise ScriptError(f"{number}: 'swap' needs two words, found {len(arguments)}")
        if verb in ("insert", "before", "swap") and commands[-1][1] == "in":
            raise ScriptError(f"{number}: '{verb}' before any 'at'")
        commands.append((number, verb, arguments))
    return commands


class EditedFile:
    """Lines of one file, with a mark at each that was edited."""

    def __init__(self, name, text):
        self.name = name
        self.lines = text.split("\n")
        self.marks = [""] * len(self.lines)
        self.current = -1

    def at(self, text):
        for i in range(self.current + 1, len(self.lines)):
            if text in self.lines[i] and self.marks[i] != "inserted":
                self.current = i
                return
        raise FitError(f"{self.name}: no line with '{text}' behind line {self.current + 1}")

    def put(self, text, where):
        indent = re.match(r"\s*", self.lines[self.current]).group()
        self.lines.insert(where, indent + text)
        self.marks.insert(where, "inserted")

    def insert(self, text):
        self.put(text, self.current + 1)
        self.current += 1

    def before(self, text):
        self.put(text, self.current)
        self.current += 1

    def swap(self, old, new):
        found = len(re.findall(rf"(?<!\w){re.escape(old)}(?!\w)", self.lines[self.current]))
        if found != 1:
            raise FitError(f"{self.name}:{self.current + 1}: '{old}' is there {found} times, expected once")
        self.lines[self.current] = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, self.lines[self.current])
        self.marks[self.current] = self.marks[self.current] or "changed"

    def count(self, mark):
        return sum(1 for m in self.marks if m == mark)


def apply(commands, read):
    """The edited files by name; read(name) gives a file's text."""
    files = {}
    current = None
    for number, verb, arguments in commands:
        try:
            if verb == "in":
                name = arguments[0]
                if name not in files:
                    files[name] = EditedFile(name, read(name))
                current = files[name]
                current.current = -1
            else:
                getattr(current, verb)(*arguments)
        except OSError as error:
            raise FitError(f"{number}: {error}") from error
        except FitError as error:
            raise FitError(f"{number}: {error}") from error
    return files


def report(files):
    rows = [(f.name, f.count("inserted"), f.count("changed")) for f in files.values()]
    for name, inserted, changed in rows:
        print(f"{name:<20} {inserted:3} inserted {changed:3} changed")
    inserted, changed = sum(r[1] for r in rows), sum(r[2] for r in rows)
    print(f"{'all':<20} {inserted:3} inserted {changed:3} changed: {inserted + changed} lines")


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    script = arguments[0]
    try:
        commands = read_script(pathlib.Path(script).read_text(encoding="utf-8"))
    except (ScriptError, OSError) as error:
        print(f"apply_edits: {script}:{error}", file=sys.stderr)
        return 2
    if len(arguments) == 1:
        names = dict.fromkeys(a[0] for _, verb, a in commands if verb == "in")
        edits = sum(1 for _, verb, _ in commands if verb in ("insert", "before", "swap"))
        print(f"{edits} edits in {' '.join(names)}")
        return 0
    tree = pathlib.Path(arguments[1])
    try:
        files = apply(commands, lambda name: (tree / name).read_text(encoding="utf-8"))
    except FitError as error:
        print(f"apply_edits: {script}:{error}", file=sys.stderr)
        return 1
    for f in files.values():
        path = tree / f.name
        path.write_text("\n".join(f.lines), encoding="utf-8")
    report(files)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
