#!/usr/bin/env python3
"""Which branches of the code that everything rests on the tests of a coverage build took.

usage: tools/coverage.py [--build DIR] [--list] [--json]

Reads the counters that the tests left in DIR/profiles (build/coverage; `./dev test coverage` runs them) and prints, for
each part, how many of its branches went both ways, all instances of a template together. A branch is a condition, or
an operand of `&&`, `||` and `?:`, and a way it may go; assertions are no branches, nor is what `if constexpr` decides.
Those that no test took have to be in tests/coverage/<layer>.txt, each with the reason why none does:

    src/space/check.cpp
      pages_in_use > pages_there: true
        Refused before, by the superblock.

What threads take only if they meet in the same instructions is `true, by chance` and may be taken or not.

--list prints what is untaken and not explained, in that form. Exit code: 0 every part has at least 98 % and each
untaken branch is explained, 1 not so, or an explanation is of a branch that was taken or is gone, 2 wrong usage.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEAST_PERCENT = 98.0
# Part: what it is made of.
PARTS = {
    "log": ["src/log/*.hpp", "src/sync/number_owners.hpp", "src/media/log_record.*", "src/logheap/block.hpp",
            "src/logheap/chunk_store.hpp", "src/logheap/log_writer.hpp"],
    "recovery": ["src/tx/recover.hpp", "src/media/replay.*", "src/logheap/recovery.hpp", "src/logheap/share_replay.hpp",
                 "src/logheap/replay_record.hpp", "src/logheap/cut_out.hpp"],
    "space": ["src/space/*.hpp", "src/space/*.cpp"],
    "superblock": ["src/pool/superblock.*", "src/pool/geometry.hpp", "src/pool/pool_layout.hpp"],
}
RECOVERIES = ("recovery", "recover", "replay")
UNTAKEN = ROOT / "tests/coverage"
BY_CHANCE = ", by chance"
BRANCH = 4  # kind of a region, of llvm-cov's export


def files_of_parts():
    part_of = {}
    for part, patterns in PARTS.items():
        for pattern in patterns:
            for path in sorted(ROOT.glob(pattern)):
                name = str(path.relative_to(ROOT))
                # Recovery of a log counts as recovery.
                part_of.setdefault(name, "recovery" if any(w in path.name for w in RECOVERIES) else part)
    return part_of


def programs(build):
    """Those of the tests and of the library that count."""
    found = []
    for path in sorted(build.glob("**/*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o100 and "CMakeFiles" not in path.parts:
            with path.open("rb") as f:
                if f.read(4) == b"\x7fELF":
                    found.append(path)
    return found


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def id_of_program(program):
    found = re.search(r"Build ID: ([0-9a-f]+)", output_of("readelf", "-n", str(program)))
    return found[1] if found else None


def id_of_profile(profile):
    found = re.search(r"Binary IDs:\s+([0-9a-f]+)", output_of("llvm-profdata-19", "show", "--binary-ids", str(profile)))
    return found[1] if found else None


def export(build, sources):
    """Of each program by itself: what threads of one lose of their counts hides nothing that another has counted."""
    by_id = collections.defaultdict(list)
    for profile in sorted((build / "profiles").glob("*.profraw")):
        by_id[id_of_profile(profile)].append(str(profile))
    if not by_id:
        sys.exit(f"coverage: no profiles in {build}/profiles: run ./dev test coverage")

    def of_program(program):
        profiles = by_id.get(id_of_program(program))
        if profiles is None:
            return None
        with tempfile.NamedTemporaryFile(suffix=".profdata") as merged:
            output_of("llvm-profdata-19", "merge", "--failure-mode=all", "-o", merged.name, *profiles)
            # One that has none of the sources is no error.
            said = subprocess.run(["llvm-cov-19", "export", "--skip-expansions", f"--instr-profile={merged.name}",
                                   str(program), *[str(ROOT / s) for s in sources]], capture_output=True, text=True)
        return said.stdout if said.returncode == 0 else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for said in pool.map(of_program, programs(build)):
            if said is not None:
                yield json.loads(said)


class Source:
    def __init__(self, name):
        self.lines = (ROOT / name).read_text().splitlines()

    def text(self, line, column, end_line, end_column):
        if line == end_line:
            taken = self.lines[line - 1][column - 1:end_column - 1]
        else:
            taken = " ".join([self.lines[line - 1][column - 1:], *self.lines[line:end_line - 1],
                              self.lines[end_line - 1][:end_column - 1]])
        return re.sub(r"\s+", " ", taken).strip()


def branches_of(build, part_of):
    """{(file, line, column, end line, end column): [taken, not taken]}"""
    counts = collections.defaultdict(lambda: [0, 0])
    for exported in export(build, sorted(part_of)):
        for function in exported["data"][0]["functions"]:
            names = [name_of(f) for f in function["filenames"]]
            for line, column, end_line, end_column, true, false, file_id, _, kind in function["branches"]:
                if kind != BRANCH or names[file_id] not in part_of:
                    continue
                both = counts[names[file_id], line, column, end_line, end_column]
                both[0] += times(true)
                both[1] += times(false)
    return counts


def times(count):
    """Counts are not atomic, and some are differences of two: one that threads lost too much of is below zero."""
    return count if count < 1 << 63 else 0


def name_of(path):
    """A source's name from the root on, whether compiled with that or with the whole path."""
    path = path.removeprefix(str(ROOT)).lstrip("/")
    return path


def explanations_in(text, where, by_chance):
    """{(file, condition, way): reason} of one file of explanations; `where`: its name, for messages"""
    found, file, branch = {}, None, None
    for n, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("    "):
            if branch is None:
                sys.exit(f"{where}:{n}: found a reason, expected a branch before it")
            found[branch] = f"{found[branch]} {line.strip()}".strip()
        elif line.startswith("  "):
            condition, way = line.strip().rsplit(": ", 1)
            chance = way.endswith(BY_CHANCE)
            way = way.removesuffix(BY_CHANCE)
            if file is None or way not in ("true", "false", "both"):
                sys.exit(f"{where}:{n}: found '{line.strip()}', expected a condition and true, false or both")
            branch = (file, condition, way)
            if chance:
                by_chance.add(branch)
            found[branch] = ""
        else:
            file, branch = line.strip(), None
    for (name, condition, _), reason in found.items():
        if not reason:
            sys.exit(f"{where}: {name}: {condition}: found no reason")
    return found


def explanations():
    """Those, and which of them are of branches that may be taken by chance."""
    found, by_chance = {}, set()
    for path in sorted(UNTAKEN.glob("*.txt")):
        found.update(explanations_in(path.read_text(), path.name, by_chance))
    return found, by_chance


def judge(counts, part_of, known, by_chance, text_of):
    """({part: figures}, what is untaken and not explained, explanations of what was taken or is gone)

    `counts`: {key: [taken, not taken]}, a key beginning with file and line; `text_of(key)`: the condition.
    """
    used, there, of_part, unexplained = set(), set(), {}, []
    for key in sorted(counts):
        name, line, text = key[0], key[1], text_of(key)
        there.add((name, text))
        if re.match(r"NVM_(ASSERT|CHECKED|PLANTED)", text):
            continue
        sums = of_part.setdefault(part_of[name], [0, 0, 0])
        sums[0] += 2
        ways = [w for w, n in zip(("true", "false"), counts[key]) if n == 0]
        sums[1] += len(ways)
        for way in ways:
            explained = next((k for k in ((name, text, way), (name, text, "both")) if k in known), None)
            if explained:
                used.add(explained)
                sums[2] += 1
            else:
                unexplained.append((name, line, text, way))
    # One that is gone is stale, taken by chance or not.
    stale = [k for k in known if k not in used and not (k in by_chance and k[:2] in there)]
    result = {part: {"branches": a, "untaken": u, "explained": e, "percent": round(100 * (a - u) / a, 2)}
              for part, (a, u, e) in sorted(of_part.items())}
    return result, unexplained, stale


def is_good(result, unexplained, stale):
    return bool(result) and not unexplained and not stale and all(r["percent"] >= LEAST_PERCENT for r in result.values())


def print_report(result, unexplained, stale, with_list):
    print(f"{'part':<12}{'branches':>9}{'untaken':>9}{'explained':>11}{'percent':>9}")
    for part, r in result.items():
        print(f"{part:<12}{r['branches']:>9}{r['untaken']:>9}{r['explained']:>11}{r['percent']:>9.2f}")
    if with_list:
        before = None
        for name, line, text, way in unexplained:
            if name != before:
                print(name)
                before = name
            print(f"  {text}: {way}\n    line {line}")
    elif unexplained:
        print(f"{len(unexplained)} branches are untaken and not explained: tools/coverage.py --list")
    for name, text, way in stale:
        print(f"explained, but taken or gone: {name}: {text}: {way}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/coverage")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    part_of = files_of_parts()
    counts = branches_of(arguments.build.resolve(), part_of)
    sources = {name: Source(name) for name in {key[0] for key in counts}}
    found = judge(counts, part_of, *explanations(), lambda key: sources[key[0]].text(*key[1:]))
    if arguments.json:
        print(json.dumps(dict(zip(("parts", "unexplained", "stale"), found)), indent=1))
    else:
        print_report(*found, arguments.list)
    sys.exit(0 if is_good(*found) else 1)


if __name__ == "__main__":
    main()
