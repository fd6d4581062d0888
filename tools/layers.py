#!/usr/bin/env python3
"""Checks that layers point one way: the includes in src/ against the table in src/README.md.

Rules
  1. A file of src/<layer>/ includes files of its own layer and of layers with a smaller number.
  2. From another layer it includes the door src/<layer>/<layer>.hpp, its face src/<layer>/face.hpp or
     concept.hpp, or a file <name>_layout.hpp that declares what lies on media. Each file of base/ is a
     door: it is a box of small tools.
  3. Layers of number 8 and above put the parts together: rule 2 does not bind them.
  4. A face sees no template: through whatever it includes, neither the door of a layer that is made of them nor another
     header of it that has one. The same holds for each file of a layer above engine/, where they are made into what is
     called. Files that must see them stand in MAY_SEE_TEMPLATES, and headers whose templates make nothing of a medium
     in WALKS, each with its reason.
  5. A public header is included by layers from the one in the table of public headers on. Layers
     below nvm/nvm.h's include it for its types and constants, and call nothing of it.  Each header of
     include/nvm/ has a row there, and includes public headers of its own layer or of lower ones.
  6. examples/ see public headers only.
  7. cmake/layers.cmake holds the same table.

usage: tools/layers.py [root]; prints one line a violation, exit code 1 when there is any.
"""

import pathlib
import re
import sys

TABLE_ROW = re.compile(r"^\|\s*`(\w+)/`\s*\|\s*(\d+)\s*\|")
CMAKE_TABLE = re.compile(r"set\(HOLDFAST_LAYER_TABLE([^)]*)\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
SOURCES = {".h", ".hpp", ".c", ".cpp", ".cc", ".inc", ".S"}
TOP = 8
HEADER_ROW = re.compile(r"^\|\s*`(nvm/[\w.]+)`\s*\|\s*`(\w+)/`\s*\|")
VOCABULARY = "nvm/nvm.h"
INLINE_CALLS = {"nvm_is_durable"}
CALL = re.compile(r"(?<![\w:.>])(nvm_[a-z0-9_]+)\s*\(")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
# Interfaces that are called without knowing which template answers.
FACE_NAMES = {"face.hpp", "concept.hpp"}
TEMPLATES = {"log", "space", "tx", "lockfree", "logheap", "region"}
TEMPLATE = re.compile(r"\btemplate\s*<")
# Headers of these layers whose templates do not count: none of them is written over a medium or an engine, and each is
# compiled in a moment.
WALKS = {
    "space/extent_image.hpp": "tells a visitor what an extent holds",
    "space/cluster_image.hpp": "tells a visitor what the pages of a cluster are",
    "space/layered_bits.hpp": "sums up a word in the one above, by the caller's rule",
    "space/sparse_array.hpp": "an array of whole numbers in reserved memory",
    "tx/aligned_object.hpp": "asks its caller whether a place may be read",
}
INSTANCES = "engine"
# Folders (with a slash) and files above engine/ that see templates, and why.
MAY_SEE_TEMPLATES = {
    "care/": "reads what a damaged pool has left with what each layer reads its own with",
    "crash_test/pool_judge.cpp": "recovers on the explorer's medium, which no engine is compiled for",
    "crash_test/runtime/recorded_pool.cpp": "stands in for a source of engine/",
}


def read_table(readme):
    """{layer: number} from the rows "| `layer/` | number | ..."."""
    rows = (TABLE_ROW.match(line) for line in readme.read_text().splitlines())
    return {row[1]: int(row[2]) for row in rows if row}


def read_cmake_table(path):
    found = CMAKE_TABLE.search(path.read_text())
    pairs = (word.split(":") for word in found[1].split()) if found else ()
    return {name: int(number) for name, number in pairs}


def source_files(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in SOURCES and p.is_file())


def is_door(path, layer):
    name = path.rsplit("/", 1)[-1]
    return (layer == "base" or path == f"{layer}/{layer}.hpp" or name in FACE_NAMES
            or path.endswith("_layout.hpp"))


def check_include(table, layer, included, is_local):
    """The reason why a file of `layer` may not include "included"; None when it may."""
    target = included.split("/")[0]
    if ".." in included.split("/"):
        return "climbs with '..'; name the layer instead"
    if target not in table:
        return None if is_local else "is neither a layer's file nor beside this one"
    if target == layer:
        return None
    if table[target] >= table[layer]:
        return f"{layer} ({table[layer]}) may not use {target} ({table[target]})"
    if table[layer] < TOP and not is_door(included, target):
        return f"is not a door of {target}; include {target}/{target}.hpp"
    return None


def read_headers(readme):
    """{public header: layer} from the rows "| `nvm/x.h` | `layer/` | ..."."""
    rows = (HEADER_ROW.match(line) for line in readme.read_text().splitlines())
    return {row[1]: row[2] for row in rows if row}


def check_header(table, headers, layer, included):
    """The reason why a file of `layer` may not include the public header; None when it may."""
    if included not in headers:
        return "is in no row of the table of public headers"
    if included == VOCABULARY:
        return None
    if table[headers[included]] > table[layer]:
        return (f"{layer} ({table[layer]}) may not use what {headers[included]} "
                f"({table[headers[included]]}) answers")
    return None


def calls(table, headers, layer, text):
    """(line, function) of each call of the C interface from a layer below the one that answers it."""
    owner = headers.get(VOCABULARY)
    if owner is None or table[layer] >= table[owner]:
        return
    blank = COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", text)
    for number, line in enumerate(blank.splitlines(), 1):
        for found in CALL.finditer(line):
            if found[1] not in INLINE_CALLS:
                yield number, found[1]


def includes_of(src, path, known):
    """Files of src/ that the one of this name includes, by their names."""
    if path not in known:
        file = src / path
        lines = file.read_text(errors="replace").splitlines() if file.is_file() else ()
        found = (INCLUDE.match(line) for line in lines)
        known[path] = [f[1] for f in found if f and (src / f[1]).is_file()]
    return known[path]


def headers_of_templates(src, table):
    """Doors of layers of templates, and each other header of them that has one."""
    layers = TEMPLATES & set(table)
    found = {f"{layer}/{layer}.hpp" for layer in layers}
    for layer in layers:
        for path in source_files(src / layer):
            name = str(path.relative_to(src))
            if path.suffix not in {".h", ".hpp", ".inc"} or path.name in FACE_NAMES or name.endswith("_layout.hpp"):
                continue
            if TEMPLATE.search(COMMENT.sub(" ", path.read_text(errors="replace"))):
                found.add(name)
    return found


def ways_to_doors(src, name, doors, known):
    """{door: "header < header < file"} of those that a file sees through whatever else it includes."""
    way, unread = {name: None}, [name]
    while unread:
        at = unread.pop(0)
        for included in includes_of(src, at, known):
            if included not in way:
                way[included] = at
                if included not in doors:
                    unread.append(included)
    found = {}
    for door in sorted(doors & set(way) - {name}):
        path = [door]
        while way[path[-1]] is not None:
            path.append(way[path[-1]])
        found[door] = " < ".join(path[1:])
    return found


def behind_faces(src, table):
    """A line for each file that sees a header of templates and may not."""
    known, needed, walked = {}, set(), set()
    all_of_them = headers_of_templates(src, table)
    doors = all_of_them - set(WALKS)
    for path in source_files(src):
        name = str(path.relative_to(src))
        is_face = path.name in FACE_NAMES
        if not is_face and table.get(name.split("/")[0], 0) <= table.get(INSTANCES, TOP):
            continue
        seen = ways_to_doors(src, name, doors, known)
        listed = [entry for entry in MAY_SEE_TEMPLATES if name == entry or entry.endswith("/") and name.startswith(entry)]
        if seen and listed and not is_face:
            needed.update(listed)
            continue
        walked.update(ways_to_doors(src, name, doors | set(WALKS), known))
        for door, way in seen.items():
            yield f"src/{name}: {'a face ' if is_face else ''}sees the templates of {door}, by {way}"
    for entry in sorted(set(MAY_SEE_TEMPLATES) - needed):
        if (src / entry.split("/")[0]).is_dir():
            yield f"tools/layers.py: src/{entry} sees no template; take it from the list"
    for entry in sorted(set(WALKS) - (all_of_them & walked)):
        if (src / entry).is_file():
            yield f"tools/layers.py: src/{entry} has no template that is seen; take it from the list"


def of_public_headers(root, table, headers):
    for path in source_files(root / "include" / "nvm"):
        where, name = path.relative_to(root), f"nvm/{path.name}"
        if name not in headers:
            yield f"{where}: is in no row of the table of public headers"
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            beside = (path.parent / found[1]).is_file()
            reason = check_header(table, headers, headers[name], f"nvm/{found[1]}" if beside else found[1])
            if reason:
                yield f'{where}:{number}: "{found[1]}" {reason}'
    for name in headers:
        if not (root / "include" / name).is_file():
            yield f"src/README.md: {name} has a row and is no public header"


def violations(root):
    src = root / "src"
    table = read_table(src / "README.md")
    headers = read_headers(src / "README.md")
    if not table:
        yield "src/README.md: no rows '| `layer/` | number |' found"
        return
    cmake = root / "cmake" / "layers.cmake"
    if cmake.exists() and read_cmake_table(cmake) != table:
        yield "cmake/layers.cmake: HOLDFAST_LAYER_TABLE differs from the table in src/README.md"
    for path in source_files(src):
        layer = path.relative_to(src).parts[0]
        where = path.relative_to(root)
        if layer not in table:
            yield f"{where}: '{layer}' is no layer of src/README.md"
            continue
        text = path.read_text(errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            found = INCLUDE.match(line)
            if not found or found[1] == "holdfast_version.hpp":
                continue
            if found[1].startswith("nvm/"):
                reason = check_header(table, headers, layer, found[1])
            else:
                reason = check_include(table, layer, found[1], (path.parent / found[1]).is_file())
            if reason:
                yield f'{where}:{number}: "{found[1]}" {reason}'
        for number, name in calls(table, headers, layer, text):
            yield f"{where}:{number}: {layer} ({table[layer]}) may not call {name}()"
    yield from behind_faces(src, table)
    yield from of_public_headers(root, table, headers)
    for path in source_files(root / "examples"):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = INCLUDE.match(line)
            if found and found[1].split("/")[0] in table and not (path.parent / found[1]).is_file():
                yield f'{path.relative_to(root)}:{number}: "{found[1]}" is not a public header'


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    if root.is_file():
        root = root.parent.parent
    found = list(violations(root))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
