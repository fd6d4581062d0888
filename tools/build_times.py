#!/usr/bin/env python3
"""Seconds and objects that each room (a folder of src/, tests/, bench/, examples/) costs in each preset.

They are read from what the build leaves in build/: .ninja_log and CTestTestfile.cmake of each preset, and
results-<preset>.xml of ctest. An object counts for the room whose CMakeLists.txt asks for it, so that the copy of src/
that a test folder compiles is that folder's. Seconds are those that each command took: commands run beside each other,
and those of an object that the compiler cache had are the cache's.

usage: tools/build_times.py [--short | --json | --rooms FILE | --fill FILE] [--build DIR] [preset...]
  --short  a few lines, for the end of a run
  --json   everything
  --rooms  writes the table of rooms into this document, between two comments: build_times: rooms, build_times: end
  --fill   fills the last column of the table between build_times: fill and build_times: end. Its first two cells name
           a preset (or "all") and what is meant: objects, compile and link, tests, or a room
Without one of them: all rooms, the dearest sources, all tests. Presets: by default, all that were built.
Exit codes: 0 good, 1 a document without these comments, 2 nothing was built.
"""

import argparse
import collections
import json
import pathlib
import posixpath
import re
import sys
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEAREST = 20
OBJECT = re.compile(r"\.(o|gch|pch)$")
LINKED = re.compile(r"(^|/)(lib[^/]*\.(a|so[.\d]*)|[^/.]+\.so|[^/.]+)$")


def outputs_of(build_file):
    """What the build makes now, or None where that is not known: a log also has what it made once."""
    if not build_file.is_file():
        return None
    made = set()
    for line in build_file.read_text().splitlines():
        if line.startswith("build "):
            made.update(line[len("build "):].split(": ", 1)[0].replace("|", " ").split())
    return made


def read_ninja_log(path):
    """Outputs and their seconds; of an output that was made more than once, the last time."""
    seconds = {}
    made = outputs_of(path.parent / "build.ninja")
    for line in path.read_text().splitlines():
        cells = line.split("\t")
        if len(cells) == 5:
            start, end, _, output, command = cells
            seconds[output] = ((int(end) - int(start)) / 1000, (start, end, command))
    seen = set()
    for output in sorted(seconds):
        took, command = seconds[output]
        inside = pathlib.PurePath(output)
        name = inside.relative_to(path.parent.resolve()).as_posix() if inside.is_absolute() else output
        if command not in seen and (path.parent / name).exists() and (made is None or name in made):
            yield name, took
        seen.add(command)


def shorten(folder):
    parts = folder.split("/")
    if parts[0] in ("src", "tests"):
        return "/".join(parts[:2])
    return parts[0] if parts[0] in ("bench", "examples") else "the top"


def place_of(output):
    """The room and the source of an output, as paths from the root of the tree."""
    made, target, rest = re.fullmatch(r"(?:(.*?)/?CMakeFiles/([^/]+)\.dir/)?(.*)", output).groups()
    if target is None:
        # Commands of our own name an object after its source, which may be a unit that reads several as one.
        copy = re.fullmatch(r"(src/.+?/recorded)/(.+)\.o", rest)
        if copy:
            return copy[1], copy[2] if copy[2].startswith("src/") else f"{copy[1]}/{copy[2]}"
        return shorten(posixpath.dirname(rest)), rest
    if rest.startswith("Unity/"):  # several sources as one, of which a folder may have one for each target
        rest = f"{target}/{posixpath.basename(rest)}"
    source = posixpath.normpath(posixpath.join(made, rest.replace("__", "..")))
    return shorten(made), re.sub(r"\.(o|gch|pch)$", "", source)


def read_build(folder):
    """What one preset cost: rooms, sources, and whether the compiler cache took part."""
    rooms = collections.defaultdict(lambda: {"objects": 0, "compile": 0.0, "link": 0.0, "test": 0.0})
    sources = collections.defaultdict(lambda: {"objects": 0, "seconds": 0.0})
    for output, took in read_ninja_log(folder / ".ninja_log"):
        room, source = place_of(output)
        if OBJECT.search(output):
            rooms[room]["objects"] += 1
            rooms[room]["compile"] += took
            sources[source]["objects"] += 1
            sources[source]["seconds"] += took
        elif LINKED.search(output):
            rooms[room]["link"] += took
    cache = folder / "CMakeCache.txt"
    cached = cache.exists() and re.search(r"^HOLDFAST_CCACHE:\w+=/", cache.read_text(), re.MULTILINE) is not None
    return rooms, sources, cached


def read_tests(build, preset):
    """Seconds of each test, and its room."""
    results = build / f"results-{preset}.xml"
    if not results.exists():
        return {}
    room_of = {}
    for file in (build / preset).rglob("CTestTestfile.cmake"):
        room = shorten(file.parent.relative_to(build / preset).as_posix())
        for name in re.findall(r'^add_test\((?:\[=\[)?"?([^\]"\s]+)', file.read_text(), re.MULTILINE):
            room_of[name] = room
    try:
        cases = xml.parse(results).getroot().iter("testcase")
        return {case.get("name"): {"seconds": float(case.get("time") or 0), "room": room_of.get(case.get("name"), "?")}
                for case in cases}
    except (xml.ParseError, ValueError):
        return {}


def measure(build, presets):
    """Everything, as --json prints it."""
    found = {}
    for preset in presets or sorted(log.parent.name for log in build.glob("*/.ninja_log")):
        if not (build / preset / ".ninja_log").exists():
            continue
        rooms, sources, cached = read_build(build / preset)
        tests = read_tests(build, preset)
        for test in tests.values():
            rooms[test["room"]]["test"] += test["seconds"]
        total = {what: sum(room[what] for room in rooms.values()) for what in ("objects", "compile", "link", "test")}
        found[preset] = {"rooms": dict(sorted(rooms.items())), "sources": dict(sources), "tests": tests,
                         "total": total, "cached": cached}
    return found


def of_a_preset(found, preset, what):
    """The cell that --fill writes, or None where nothing was measured."""
    if preset == "all":
        cells = [of_a_preset(found, name, what) for name in found]
        return sum(filter(None, cells)) if any(cells) else None
    if preset not in found:
        return None
    total, rooms = found[preset]["total"], found[preset]["rooms"]
    if what == "objects":
        return total["objects"]
    if what == "compile and link":
        return total["compile"] + total["link"]
    if what == "tests":
        return total["test"] or None
    return rooms[what]["compile"] + rooms[what]["link"] if what in rooms else None


def table_of_rooms(found):
    """Markdown: a line for each room, and in each preset its objects, seconds of compile and link, seconds of tests."""
    names = sorted({room for preset in found.values() for room in preset["rooms"]})
    yield "| Room | " + " | ".join(found) + " |"
    yield "| --- |" + " ---: |" * len(found)
    for name in [*names, "sum"]:
        cells = []
        for preset in found.values():
            room = preset["total"] if name == "sum" else preset["rooms"].get(name)
            cells.append(f"{room['objects']} / {room['compile'] + room['link']:.0f} / {room['test']:.0f}" if room else "")
        yield f"| {name} | " + " | ".join(cells) + " |"


def rewrite(document, mark, change):
    """Puts change(lines) in the place of the lines between the comments; False when they are absent."""
    text = document.read_text()
    found = re.search(rf"(<!-- build_times: {mark}.*?-->\n)(.*?)(<!-- build_times: end -->)", text, re.DOTALL)
    if not found:
        return False
    lines = "".join(line + "\n" for line in change(found[2].splitlines()))
    document.write_text(text[:found.end(1)] + lines + text[found.start(3):])
    return True


def fill(found, lines):
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        value = of_a_preset(found, cells[0], cells[1]) if len(cells) > 2 else None
        if value is not None:
            cells[-1] = f"{value:,.0f}"
            line = "| " + " | ".join(cells) + " |"
        yield line


def dearest(items, seconds_of, most):
    return sorted(items, key=seconds_of, reverse=True)[:most]


def print_preset(name, preset, short):
    total, rooms = preset["total"], preset["rooms"]
    print(f"{name}: {total['objects']} objects, {total['compile']:.0f} s of compiling, {total['link']:.0f} s of linking, "
          f"{total['test']:.0f} s of {len(preset['tests'])} tests" + (" (with the compiler cache)" if preset["cached"] else ""))
    by_cost = dearest(rooms.items(), lambda item: item[1]["compile"] + item[1]["link"] + item[1]["test"],
                      5 if short else len(rooms))
    if short:
        print("  rooms    " + ", ".join(
            f"{room} {cost['compile'] + cost['link']:.0f} + {cost['test']:.0f} s" for room, cost in by_cost))
    else:
        print("  room                        objects  compile     link    tests")
        for room, cost in by_cost:
            print(f"  {room:<26} {cost['objects']:8d} {cost['compile']:8.1f} {cost['link']:8.1f} {cost['test']:8.1f}")
    sources = dearest(preset["sources"].items(), lambda item: item[1]["seconds"], 3 if short else DEAREST)
    tests = dearest(preset["tests"].items(), lambda item: item[1]["seconds"], 3 if short else len(preset["tests"]))
    if short:
        print("  sources  " + ", ".join(f"{source} {cost['seconds']:.0f} s" for source, cost in sources))
        if tests:
            print("  tests    " + ", ".join(f"{test} {cost['seconds']:.0f} s" for test, cost in tests))
        return
    print(f"  the {DEAREST} dearest sources, in all of their objects")
    for source, cost in sources:
        print(f"  {cost['seconds']:8.1f} s in {cost['objects']:2d}  {source}")
    for test, cost in tests:
        print(f"  {cost['seconds']:8.1f} s  {test}")


def main():
    parser = argparse.ArgumentParser(description="What each folder costs to build and to test.")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--short", action="store_true")
    form.add_argument("--json", action="store_true")
    form.add_argument("--rooms", type=pathlib.Path, metavar="FILE")
    form.add_argument("--fill", type=pathlib.Path, metavar="FILE")
    parser.add_argument("presets", nargs="*")
    arguments = parser.parse_args()
    found = measure(arguments.build, arguments.presets)
    if not found:
        print(f"build_times: no .ninja_log in {arguments.build}/<preset>", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(found, indent=1))
    elif arguments.rooms or arguments.fill:
        document = arguments.rooms or arguments.fill
        change = (lambda _: table_of_rooms(found)) if arguments.rooms else (lambda lines: fill(found, lines))
        if not rewrite(document, "rooms" if arguments.rooms else "fill", change):
            print(f"build_times: {document} has no such table between its comments", file=sys.stderr)
            return 1
    else:
        for name, preset in found.items():
            print_preset(name, preset, arguments.short)
    return 0


if __name__ == "__main__":
    sys.exit(main())
