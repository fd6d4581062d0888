#!/usr/bin/env python3
"""How many lines a program's volatile original and its durable version differ by.

usage: changed_lines.py [--most N] <original> <durable>

Comments, blank lines and white space do not count.  A line that was changed counts once; one that came new or went
away counts, too.  With --most the exit code is 1 if there are more.
"""

import argparse
import difflib
import re
import sys


def code_lines(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment.group().count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", "", text)
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.split("\n"))
    return [line for line in lines if line]


def changed(original, durable):
    count = 0
    for what, a, b, c, d in difflib.SequenceMatcher(None, original, durable, autojunk=False).get_opcodes():
        if what != "equal":
            count += max(b - a, d - c)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--most", type=int)
    parser.add_argument("original")
    parser.add_argument("durable")
    arguments = parser.parse_args()
    original, durable = code_lines(arguments.original), code_lines(arguments.durable)
    count = changed(original, durable)
    print(f"{arguments.durable}: {count} of {len(durable)} lines changed")
    return 1 if arguments.most is not None and count > arguments.most else 0


if __name__ == "__main__":
    sys.exit(main())
