#!/usr/bin/env python3
"""Runs the unit tests that what changed since they last passed can fail, for a few minutes at most.

usage: tools/quick_tests.py [--build DIR] [--seconds N] [--jobs N] [--list]
       tools/quick_tests.py [--build DIR] --stamp
       tools/quick_tests.py [--build DIR] --remember <results.xml>
A test is affected when it never passed here, when a program that it runs, or a library that comes with one, would be
built by ninja (which a dry run tells) or was built since, or when another file that it reads has other content: of its
folder, of its command, of what its scripts import or name (tools/test_inputs.py). Affected tests are built and run some
at a time: first those of folders that git names as changed since the last commit of which all passed, then the fastest.
When the time is over, the others are left, and stay affected. Each group leaves results-quick-<n>.xml beside the build
folder, in which quick.json keeps what passed.
  --list      names the affected tests and stops
  --stamp     keeps what each test depends on now, before all of them run
  --remember  takes what passed from results of ctest, since the last --stamp: what changed while they ran stays affected
Exit codes: 0 all that ran passed, 1 a test or the build failed, 2 there is no configured build.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

from test_inputs import Inputs

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROUP = 4  # tests that are built and run together; what is cut off by the end of the time is run again
UNKNOWN_SECONDS = 5.0
COMPILED = frozenset({".c", ".cpp", ".h", ".hpp", ".S"})
LINKING = re.compile(r"\] Linking \S+ (?:static library|shared library|shared module|executable) (\S+)")


class Test:
    def __init__(self, line):
        self.name, folder, labels, *self.programs = line.split(";")
        self.labels = labels.split(",")
        self.folder = pathlib.Path(folder)


def git(*arguments):
    done = subprocess.run(["git", "-C", ROOT, *arguments], text=True, capture_output=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def load(file):
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return {"commit": "", "passed": {}}


def stamp(inputs, test):
    """What it depends on, as it is now; None when a program is missing."""
    found = hashlib.sha256()
    for program in sorted(inputs.runs(test)):
        path = inputs.build / program
        if not path.exists():
            return None
        found.update(f"{program} {path.stat().st_mtime_ns}\n".encode())
    found.update(inputs.digest(test.folder, COMPILED))
    for place in sorted(inputs.places(test)):
        found.update(inputs.digest(place))
    return found.hexdigest()


def would_be_built(inputs, tests):
    """Names of programs and libraries, as ninja says them in a dry run."""
    def dry(*targets):
        command = ["ninja", "-C", inputs.build, "-n", *targets]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit(f"quick_tests: ninja cannot say what it would build: {(done.stdout + done.stderr)[-500:]}")
        return done.stdout
    stale = set(LINKING.findall(dry(*sorted({p for t in tests for p in t.programs}))))
    all_that_runs = set().union(*(inputs.runs(test) for test in tests))
    # Commands of the project's own say what they like.
    stale.update(name for name in inputs.graph.made_by_commands(all_that_runs) if "no work to do" not in dry(name))
    return stale


def affected(build, tests, passed):
    inputs = Inputs(build)
    stale = would_be_built(inputs, tests)
    return [test for test in tests if stale.intersection(inputs.runs(test))
            or passed.get(test.name) is None or passed[test.name] != stamp(inputs, test)]


def in_order(build, tests, commit):
    changed = git("diff", "--name-only", commit or "HEAD") + git("ls-files", "--others", "--exclude-standard")
    rooms = {"/".join(name.split("/")[:2]) for name in changed}
    near = {room.replace("src/", "tests/") for room in rooms}
    costs, file = {}, build / "Testing/Temporary/CTestCostData.txt"
    for line in file.read_text().splitlines() if file.exists() else []:
        words = line.split()
        if len(words) == 3:
            costs[words[0]] = float(words[2])

    def far_and_slow(test):
        room = "/".join(test.folder.relative_to(ROOT).parts[:2]) if test.folder.is_relative_to(ROOT) else ""
        return room not in near, costs.get(test.name, UNKNOWN_SECONDS)
    return sorted(tests, key=far_and_slow)


def run_until(end, command):
    """Its exit code, or None when time was over."""
    if time.monotonic() >= end:
        return None
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(timeout=max(0.0, end - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as reason:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if isinstance(reason, KeyboardInterrupt):
            raise
        return None


def passed_in(results):
    return {case.get("name") for case in xml.parse(results).getroot().iter("testcase")
            if case.get("status") == "run" and case.find("failure") is None}


def stamps(build, tests):
    """Taken before tests run: a file that changes while they do is not what passed."""
    inputs = Inputs(build)
    return {test.name: stamp(inputs, test) for test in tests}


def remember(state, file, taken, names):
    state["passed"].update((name, taken[name]) for name in names if name in taken)
    file.write_text(json.dumps(state, indent=1))


def run_groups(arguments, tests, state, file):
    """What failed, and how many tests were run."""
    end, done, failed = time.monotonic() + arguments.seconds, 0, 0
    for number, first in enumerate(range(0, len(tests), GROUP)):
        group = tests[first:first + GROUP]
        results = file.parent / f"results-quick-{number}.xml"
        built = run_until(end, ["ninja", "-C", arguments.build, "-j", str(arguments.jobs),
                                *sorted({program for test in group for program in test.programs})])
        if built is None:
            break
        if built != 0:
            return 1, done
        taken = stamps(arguments.build, group)
        names = "|".join(re.escape(test.name) for test in group)
        code = run_until(end, ["ctest", "--test-dir", str(arguments.build), "-j", str(arguments.jobs), "-R", f"^({names})$",
                               "--output-on-failure", "--output-junit", str(results.resolve()),
                               "--test-output-size-passed", "4194304", "--test-output-size-failed", "4194304"])
        if code is None:
            results.unlink(missing_ok=True)
            break
        remember(state, file, taken, passed_in(results))
        done += len(group)
        failed += code != 0
    return failed, done


def main():
    parser = argparse.ArgumentParser(description="Runs the unit tests that a change can fail.")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--stamp", action="store_true")
    parser.add_argument("--remember", type=pathlib.Path)
    arguments = parser.parse_args()
    build = arguments.build
    if not (build / "programs_of_tests.txt").exists():
        print(f"quick_tests: {build} has no tests configured", file=sys.stderr)
        return 2
    tests = [Test(line) for line in (build / "programs_of_tests.txt").read_text().splitlines() if line]
    tests = [test for test in tests if "unit" in test.labels and "slow" not in test.labels]
    file = build.parent / "quick.json"
    state = load(file)
    kept = build.parent / "quick-stamps.json"
    if arguments.stamp:
        kept.write_text(json.dumps({"passed": stamps(build, tests)}))
        return 0
    if arguments.remember:
        remember(state, file, load(kept)["passed"], passed_in(arguments.remember))
        kept.unlink(missing_ok=True)
        return 0
    due = in_order(build, affected(build, tests, state["passed"]), state["commit"])
    if arguments.list:
        print("\n".join(test.name for test in due))
        return 0
    for old in file.parent.glob("results-quick-*.xml"):
        old.unlink()
    failed, done = run_groups(arguments, due, state, file)
    if not failed and done == len(due):
        state["commit"] = (git("rev-parse", "HEAD") or [""])[0]
        remember(state, file, {}, set())
    print(f"quick: of {len(tests)} unit tests {len(due)} may be affected, {done} were run", end="")
    print(f"; time was over, ./dev test quick goes on with {len(due) - done}" if done < len(due) and not failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
