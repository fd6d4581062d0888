#!/usr/bin/env python3
"""durable_sources_test.py <holdfast-cc> <clang> <include>: the compiler knows of every function of the interface that
gives a pointer whether it is durable.  What the headers declare is read; a pointer that is given to a function of a
library is a warning exactly where it is durable."""
import os
import re
import subprocess
import sys
import tempfile

# What they give is no object of a pool, or not always.
OTHERS = {
    r"nvm_(errormsg|error_name|kv_name|kv_index_name|store_name)": "a text",
    r"nvm_\w*(pool|pool_of|pool_(create|open|after_fork)\w*)": "a handle",
    r"nvm_(kv|kv_cursor|regions|lf)_open|nvm_(kv|lf)_open_in|nvm_(kv|lf)_store_of|nvm_region_group_begin|nvm_stm_(current|begin)": "a handle",
    r"nvm_store_(attach|find|of)": "a handle",
    r"nvm_stm_malloc": "volatile memory",
    r"nvm_malloc\w*": "durable or not, as the scope says",
    r"nvm_placed_\w*": "ordinary memory where the store is off",
    r"nvm_stm_load_pointer|nvm_itm_\w*root": "what it points to may be volatile",
    r"nvm_describe\w*": "a handle",
}
AT_LEAST = 35


def declared(clang, include):
    """(name, result, parameters) of functions that return a pointer, or leave one in a variable."""
    headers = sorted(h for h in os.listdir(os.path.join(include, "nvm")) if h.endswith(".h"))
    text = "".join(f"#include <nvm/{h}>\n" for h in headers if not h.startswith(("compiled", "record")))
    command = [clang, "-x", "c", "-I", include, "-fsyntax-only", "-Xclang", "-ast-dump", "-fno-color-diagnostics", "-"]
    dump = subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout
    found = {}
    for name, result, parameters in re.findall(r"FunctionDecl .*? (nvm_\w+) '([^'(]*)\(([^']*)\)'", dump):
        if result.strip().endswith("*") or "**" in parameters:
            found[name] = (result.strip(), [p.strip() for p in parameters.split(", ")])
    return text, found


def call(name, result, parameters):
    if result.endswith("*"):
        arguments = ", ".join(f"({p}){{0}}" for p in parameters if p != "void")
        return f"vendor_fill((void *){name}({arguments}));"
    arguments = ", ".join("&given" if p.endswith("**") else f"({p}){{0}}" for p in parameters)
    return f"void *given; {name}({arguments}); vendor_fill(given);"


def main():
    cc, clang, include = sys.argv[1:]
    headers, functions = declared(clang, include)
    faults = [] if len(functions) >= AT_LEAST else [f"{len(functions)} functions, expected {AT_LEAST} and more"]
    order = sorted(functions)
    program = headers + '#include "vendor.h"\n'
    first = program.count("\n") + 1
    program += "".join(f"void f_{n}(void) {{ {call(n, *functions[n])} }}\n" for n in order)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/vendor.h", "w", encoding="utf-8") as out:
            out.write("#pragma GCC system_header\nvoid vendor_fill(void *p);\n")
        with open(f"{folder}/all.c", "w", encoding="utf-8") as out:
            out.write(program)
        for level in ("-O0", "-O2"):
            ran = subprocess.run([cc, level, "-g", "-c", "all.c", "-o", "all.o"], text=True, capture_output=True,
                                 check=False, cwd=folder)
            if ran.returncode != 0:
                faults.append(ran.stderr)
            warned = {int(n) for n in re.findall(r"all\.c:(\d+):\d+: warning: vendor_fill may write", ran.stderr)}
            for line, name in enumerate(order, first):
                other = next((why for p, why in OTHERS.items() if re.fullmatch(p, name)), None)
                if (line in warned) != (other is None):
                    faults.append(f"{level}: what {name} gives is {'known' if line in warned else 'not known'} to be "
                                  f"durable; it is {other or 'an object of a pool'}")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
