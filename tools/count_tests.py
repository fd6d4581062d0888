#!/usr/bin/env python3
"""Counts what ctest wrote into JUnit files, and says what was skipped.

usage: tools/count_tests.py [--reasons] <results.xml>...
Prints "passed failed skipped". Passed and failed are ctest's tests; one that could not be run counts as failed.
Skipped are ctest's tests that skipped themselves, and the cases that a test skipped in itself: of GoogleTest and of
Python's unittest. A test that skipped all of its cases did not pass. --reasons prints a line for each reason instead.
Exit codes: 0 good, 1 a file is missing or unreadable.
"""

import argparse
import collections
import re
import sys
import xml.etree.ElementTree as xml

GTEST_SKIPPED = re.compile(r"^\[  SKIPPED \] (\S+) \(\d+ ms\)$", re.MULTILINE)
GTEST_RAN = re.compile(r"^\[ RUN      \] ", re.MULTILINE)
GTEST_CASE = re.compile(r"^\[ RUN      \] (\S+)$(.*?)^\[ +(OK|SKIPPED|FAILED) +\] \1", re.MULTILINE | re.DOTALL)
GTEST_REASON = re.compile(r"^\S+:\d+: Skipped\n(.*?)(?=^\S+:\d+: |^$|\Z)", re.MULTILINE | re.DOTALL)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*?^OK \(.*?skipped=(\d+)", re.MULTILINE | re.DOTALL)
UNITTEST_REASON = re.compile(r"\.\.\. skipped (['\"])(.*)\1$", re.MULTILINE)
SCRIPT_REASON = re.compile(r"skipped: (.+)$", re.MULTILINE)
NO_REASON = "it gives no reason"


def skipped_cases(output):
    """Reasons of the cases that a test skipped in itself, and whether it had no others."""
    gtest = [case for case in GTEST_CASE.finditer(output) if case[3] == "SKIPPED"]
    if gtest or GTEST_SKIPPED.search(output):
        reasons = [(GTEST_REASON.search(case[2]) or ["", ""])[1].strip() or NO_REASON for case in gtest]
        # What children print may stand in the way of a reason, and takes no case from the count.
        reasons += [NO_REASON] * (len(GTEST_SKIPPED.findall(output)) - len(reasons))
        return reasons, len(reasons) >= len(GTEST_RAN.findall(output))
    reasons, ran = [], 0
    for run in UNITTEST.finditer(output):
        ran += int(run[1])
        reasons += [NO_REASON] * int(run[2])
    for at, reason in enumerate(UNITTEST_REASON.findall(output)[:len(reasons)]):
        reasons[at] = reason[1]
    return reasons, bool(reasons) and len(reasons) >= ran


def skipped_by_itself(case):
    """ctest writes <skipped> for exit code 77 and also for a program that does not exist."""
    message = case.find("skipped").get("message", "")
    return message.startswith("SKIP_RETURN_CODE") or message.startswith("SKIP_REGULAR_EXPRESSION")


def read(paths):
    """Passed, failed, and (test, reason) of each skip."""
    passed = failed = 0
    skips = []
    for case in (case for path in paths for case in xml.parse(path).getroot().iter("testcase")):
        name, state = case.get("name"), case.get("status")
        output = (case.findtext("system-out") or "").strip()
        if state == "run" and case.find("failure") is None:
            reasons, all_of_it = skipped_cases(output)
            skips += [(name, reason) for reason in reasons]
            passed += not all_of_it
        elif case.find("skipped") is not None and skipped_by_itself(case):
            skips.append((name, (SCRIPT_REASON.findall(output) or output.split("\n"))[-1].strip() or NO_REASON))
        elif state == "disabled":
            skips.append((name, "it is disabled"))
        else:
            failed += 1
            skips += [(name, reason) for reason in skipped_cases(output)[0]]
    return passed, failed, skips


def main():
    parser = argparse.ArgumentParser(description="Counts results of ctest.")
    parser.add_argument("--reasons", action="store_true")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    try:
        passed, failed, skips = read(arguments.files)
    except (OSError, xml.ParseError) as error:
        sys.exit(f"count_tests: {error}")
    if not arguments.reasons:
        print(passed, failed, len(skips))
        return
    for (name, reason), times in collections.Counter(skips).items():
        print(f"skipped: {name}: {' '.join(reason.split())}" + (f" ({times} times)" if times > 1 else ""))


if __name__ == "__main__":
    main()
