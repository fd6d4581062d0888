#!/usr/bin/env python3
"""Checks that each local link in the Markdown files leads to a file, and to a heading if it names one.

usage: tools/check_docs.py [--root DIR] [--list]; exit code 1 when a link leads nowhere.
"""

import argparse
import pathlib
import re
import sys

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
SKIP = {"build", "out", ".git"}


def documents(root):
    return sorted(p for p in root.rglob("*.md") if not SKIP & set(p.relative_to(root).parts))


def prose(path):
    return FENCE.sub("", path.read_text())


def anchors(path):
    """Names that headings get: lower case, punctuation dropped, blanks turned into hyphens."""
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in HEADING.findall(prose(path))}


def broken_links(root):
    for path in documents(root):
        for target in LINK.findall(prose(path)):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / name).resolve() if name else path
            if not file.exists():
                yield f"{path.relative_to(root)}: no file for link '{target}'"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                yield f"{path.relative_to(root)}: no heading for link '{target}'"


def main():
    parser = argparse.ArgumentParser(description="Checks the links of the documents.")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", action="store_true", help="list the documents")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.list:
        for path in documents(root):
            title = HEADING.search(path.read_text())
            print(f"{str(path.relative_to(root)):40} {title[1] if title else ''}")
    broken = list(broken_links(root))
    for line in broken:
        print(line)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
