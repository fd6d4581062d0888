#!/usr/bin/env python3
"""Follows docs/make-durable.md: runs each block of commands, and compares what is printed with the block that follows it.

usage: guide_test.py GUIDE EXAMPLES PATH...   (folders of holdfast-cc and holdfast)

A line `...` of an expected text stands for any lines.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile


def blocks_of(text):
    """(language, line, contents)"""
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield found.group(1), text.count("\n", 0, found.start()) + 2, found.group(2)


def matches(expected, printed):
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*?".join(parts), printed) is not None


def main():
    guide, examples, *folders = sys.argv[1:]
    environment = {**os.environ, "HOLDFAST_EXAMPLES": examples, "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}
    ran = compared = 0
    printed = ""
    with tempfile.TemporaryDirectory(prefix="holdfast-guide-", dir="/var/tmp") as folder:
        for language, line, contents in blocks_of(pathlib.Path(guide).read_text()):
            if language == "sh":
                done = subprocess.run(["bash", "-ec", contents], cwd=folder, env=environment, capture_output=True, text=True,
                                      check=False, timeout=240)
                # Lines that make and patch print depend on the machine.
                printed = "".join(x + "\n" for x in done.stdout.splitlines() if not x.startswith(("holdfast-cc ", "patching ")))
                if done.returncode != 0:
                    sys.exit(f"{guide}:{line}: exit code {done.returncode}\n{contents}{done.stdout}{done.stderr}")
                ran += 1
            elif language == "text":
                if not matches(contents, printed):
                    sys.exit(f"{guide}:{line}: expected\n{contents}found\n{printed}")
                compared += 1
    if ran < 8 or compared < 3:
        sys.exit(f"{guide}: only {ran} blocks of commands and {compared} of answers")
    print(f"{ran} blocks of commands, {compared} compared")


if __name__ == "__main__":
    main()
