#!/usr/bin/env python3
"""Prints "passed failed skipped" of a JUnit file written by ctest.

A test that could not be run counts as failed. Exit code 1 when the file is missing or unreadable.
"""

import sys
import xml.etree.ElementTree as xml


def count(path):
    passed = failed = skipped = 0
    for case in xml.parse(path).getroot().iter("testcase"):
        state = case.get("status")
        if state == "run" and case.find("failure") is None:
            passed += 1
        elif case.find("skipped") is not None and skipped_by_itself(case):
            skipped += 1
        elif state == "disabled":
            skipped += 1
        else:
            failed += 1
    return passed, failed, skipped


def skipped_by_itself(case):
    """ctest writes <skipped> for exit code 77 and also for a program that does not exist."""
    message = case.find("skipped").get("message", "")
    return message.startswith("SKIP_RETURN_CODE") or message.startswith("SKIP_REGULAR_EXPRESSION")


if __name__ == "__main__":
    try:
        print(*count(sys.argv[1]))
    except (OSError, IndexError, xml.ParseError) as error:
        sys.exit(f"count_tests: {error}")
