#!/usr/bin/env python3
"""check.py [--write] <clang> <libc.unsafe> <table>: every function of the C library's headers that gets a pointer to
what is not const, or any number of arguments, is described; what is said about sizes is what they are; and the table
of the results is up to date.  --write makes the table."""
import argparse
import os
import re
import subprocess
import sys

import declarations
import described

# Declared in headers, defined by the program or by nobody.
NOT_CALLED = {
    r"la_\w+": "an auditor defines it",
    r"__tg_\w+": "inside of a header",
}
BY_VALUE = {"hsearch_r": 1}  # arguments more than parameters: a structure in two registers


def written_in_words(d):
    if d.written == "?" or re.fullmatch(r"(\{[^{}]*,lock\},?)+", d.written):
        return "warned of"
    parts = re.findall(r"\{[^{}]*\}|\w+\([^()]*\)", d.written)
    logged = ", ".join(p[1:-1].replace(",", ": ", 1) if p.startswith("{") else p for p in parts)
    return ("in part warned of: " if d.warns() else "logged: ") + f"`{logged}`"


def called():
    """Those that the programs of run.py call (it makes the list)."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "called.txt"), encoding="utf-8") as lines:
        return set(lines.read().split())


def table(functions, descriptions):
    rows, runs = [], called()
    for symbol in sorted(functions, key=lambda s: (functions[s].header, s)):
        d = descriptions[symbol]
        if d.written == "":
            result = "nothing"
        elif d.warns() and not re.search(r",(?!\?|lock)[^{}]*\}|\w\(", d.written):
            result = "warned of"
        else:
            result = written_in_words(d)
        why = re.sub(r"^(Nothing|Nobody can say \w+): ", "", d.reason)
        rows.append(f"| `{symbol}` | {functions[symbol].header} | {result} | {why} | {'yes' if symbol in runs else ''} |")
    return rows


def of_plus(descriptions):
    symbols = sorted(s for s in descriptions if s.startswith("_Z"))
    names = subprocess.run(["c++filt"], input="\n".join(symbols), text=True, capture_output=True, check=True).stdout
    return zip(symbols, names.split("\n"))


def document(functions, descriptions):
    rows = table(functions, descriptions)
    count = {w: sum(f"| {w}" in r for r in rows) for w in ("logged", "in part warned of", "nothing", "warned of")}
    return "\n".join([
        "# What holdfast-cc makes of the C library",
        "",
        "Made by `tests/holdfast_cc/libc/check.py --write` from the declarations of the C library's headers and from",
        "`libc.unsafe`; a test compares. It lists every function that gets a pointer to what is not const, or any number of",
        f"arguments, by the name that the linker sees: {len(rows)} of them. {count['logged'] + count['in part warned of']} are"
        f" logged, {count['in part warned of']} of these in part, {count['nothing']} write nothing that",
        f"can be durable, {count['warned of']} are a warning where a provably durable pointer goes to"
        " them, and a report of a",
        "checked build where any does. What is logged is an address and a number of bytes, in the words of a *.unsafe file",
        "([compiler.md](compiler.md#functions-that-come-compiled)).",
        "",
        f"*Called*: it is among the calls of the test that calls functions on durable memory, aborts and compares;"
        f" {sum(r.endswith('yes |') for r in rows)} are.",
        "",
        "| Function | Header | What it writes | Why | Called |",
        "| --- | --- | --- | --- | --- |",
        *rows,
        "",
        "## The C++ library",
        "",
        "Functions of libstdc++ that are described, in the same words.",
        "",
        "| Function | What it writes |",
        "| --- | --- |",
        *(f"| `{name}` | {written_in_words(descriptions[symbol])} |" for symbol, name in of_plus(descriptions)),
        "",
    ])


def wrong_numbers(functions, descriptions):
    for symbol, f in sorted(functions.items()):
        d = descriptions.get(symbol)
        if d is None:
            continue
        expected = len(f.parameters) + BY_VALUE.get(symbol, 0)
        if d.arguments != expected or d.more != f.variadic:
            yield f"{symbol} has {expected}{'+' if f.variadic else ''} arguments, its line says otherwise"


def wrong_sizes(clang, functions, descriptions):
    """`{argN,#B}` of a parameter that points to a complete type of another size."""
    claims = []
    for symbol, f in sorted(functions.items()):
        if symbol in BY_VALUE or symbol not in descriptions:
            continue
        for argument, size in re.findall(r"\{arg(\d+),#(\d+)\}", descriptions[symbol].written):
            kind = re.sub(r"\brestrict\b", "", f.parameters[int(argument)][0]).strip()
            plain = f.parameters[int(argument)][1]
            if not re.match(r"(unsigned |signed )?(void|char|short|int) \*", plain) and "SOCKADDR" not in kind:
                claims.append((symbol, argument, size, kind))
    text = "".join(f"#include <{h}>\n" for h in declarations.headers())
    text += "".join(f"_Static_assert(sizeof(*(__typeof__({kind}))0) == {size}, \"{symbol}: arg{argument}\");\n"
                    for symbol, argument, size, kind in claims)
    command = [clang, "-x", "c", "-w", "-D_GNU_SOURCE", "-ferror-limit=0", "-fsyntax-only", "-"]
    found = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    # Of a type that the headers do not complete nothing is known.
    yield from re.findall(r"static assertion failed due to requirement '(.*?)'", found.stderr)
    if not claims:
        yield "no size is claimed at all"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--write", action="store_true")
    options.add_argument("clang")
    options.add_argument("unsafe")
    options.add_argument("table")
    o = options.parse_args()
    everything = declarations.functions(o.clang)
    functions = {s: f for s, f in everything.items() if (f.writable() or f.variadic)
                 and not any(re.fullmatch(p, s) for p in NOT_CALLED)}
    descriptions = described.read(o.unsafe)
    faults = [f"{s} ({functions[s].header}) is not described: {functions[s].declaration}"
              for s in sorted(functions) if s not in descriptions]
    faults += [f"{s}: nothing is written, or nobody can say what, and no reason stands there"
               for s in sorted(functions) if s in descriptions and not descriptions[s].reason
               and (descriptions[s].written == "" or descriptions[s].warns())]
    faults += list(wrong_numbers(everything, descriptions))
    faults += list(wrong_sizes(o.clang, functions, descriptions))
    if len(functions) < 1000:
        faults.append(f"{len(functions)} functions found in the headers, expected more than 1000")
    if not faults:
        made = document(functions, descriptions)
        if o.write:
            with open(o.table, "w", encoding="utf-8") as out:
                out.write(made)
        else:
            with open(o.table, encoding="utf-8") as known:
                if known.read() != made:
                    faults.append(f"{o.table} is not what check.py --write makes")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
