#!/usr/bin/env python3
"""Checks that layers point one way: the includes in src/ against the table in src/README.md.

Rules
  1. A file of src/<layer>/ includes files of its own layer and of layers with a smaller number.
  2. From another layer it includes the door src/<layer>/<layer>.hpp, or a file <name>_layout.hpp
     that declares what lies on media. Each file of base/ is a door: it is a box of small tools.
  3. Layers of number 9 stand on top and are programs and tools: rule 2 does not bind them.
  4. examples/ see public headers only.
  5. cmake/layers.cmake holds the same table.

usage: tools/layers.py [root]; prints one line a violation, exit code 1 when there is any.
"""

import pathlib
import re
import sys

TABLE_ROW = re.compile(r"^\|\s*`(\w+)/`\s*\|\s*(\d+)\s*\|")
CMAKE_TABLE = re.compile(r"set\(HOLDFAST_LAYER_TABLE([^)]*)\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
SOURCES = {".h", ".hpp", ".c", ".cpp", ".cc", ".inc", ".S"}
TOP = 9


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
    return layer == "base" or path == f"{layer}/{layer}.hpp" or path.endswith("_layout.hpp")


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


def violations(root):
    src = root / "src"
    table = read_table(src / "README.md")
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
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = INCLUDE.match(line)
            if not found or found[1] == "holdfast_version.hpp" or found[1].startswith("nvm/"):
                continue
            reason = check_include(table, layer, found[1], (path.parent / found[1]).is_file())
            if reason:
                yield f'{where}:{number}: "{found[1]}" {reason}'
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
