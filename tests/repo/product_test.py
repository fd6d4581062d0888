#!/usr/bin/env python3
"""What `cmake --install` copies from a build folder is made by the target `product`, which needs no test and no
benchmark.

usage: product_test.py <build folder>
"""

import pathlib
import re
import subprocess
import sys


def ninja(build, *arguments):
    return subprocess.run(["ninja", "-C", build, *arguments], check=True, text=True, capture_output=True).stdout


def led_to(build, target):
    """All files that this target is made of or from, as absolute paths."""
    return {(build / name).as_posix() for name in re.findall(r'label="([^"]+)"', ninja(build, "-t", "graph", target))}


def made(build):
    """All files that any rule makes."""
    return {(build / name).as_posix() for name in re.findall(r"^(.+): (?!phony$)\S+$", ninja(build, "-t", "targets", "all"),
                                                             re.MULTILINE)}


def installed(build):
    """Files of the build folder that any of its install scripts names."""
    for script in build.rglob("cmake_install.cmake"):
        for name in re.findall(rf'"({re.escape(build.as_posix())}/[^"]+)"', script.read_text()):
            if not name.endswith(("cmake_install.cmake", "/")):
                yield name


def main(build):
    build = pathlib.Path(build).resolve()
    product, any_rule = led_to(build, "product"), made(build)
    folders = ("tests/", "bench/")
    wanted = sorted(set(installed(build)))
    faults = [f"{name} is installed, and product does not make it" for name in wanted
              if name in any_rule and re.sub(r"[.]so[.\d]+$", ".so", name) not in product]  # one rule makes both links
    faults += [f"product needs {name}" for name in sorted(product)
               if name.startswith(build.as_posix()) and name[len(build.as_posix()) + 1:].startswith(folders)]
    print(f"{len(wanted)} files are installed; product leads to {len(product)} files, rules make {len(any_rule)}")
    print("\n".join(faults))
    return 1 if faults or not wanted or not product else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
