#!/usr/bin/env python3
"""Checks words and calls in the tracked files.

  leftovers  no marks of unfinished work
  doors      cache write-back, fences and syncs are issued by src/media and src/platform only
  leaks      no machine's paths, no work item numbers, no address outside the written list
  width      no source line longer than 120 columns
  descriptors  a descriptor is made in src/platform/descriptor.cpp only, which keeps it off 0, 1 and 2
  engines    engines are told apart by their rows in src/pool/engines.hpp, never by their numbers, and kinds of logs by
             rows of a log_table, never by comparing them
  rulers     a line of dashes alone is what a formatter leaves of a heading that it has broken
  lengths    a file has at most 700 lines and a function at most 70; functions that are one table stand in a written
             list
  comments   comments of src/, include/ and examples/, and documents in docs/, avoid words that stop a reader
  edges      each fence label in src/ reads protocol/E<number> and stands at one place only, so that it
             can be looked up, counted and removed

usage: tools/tree_rules.py [--root DIR] [rule...]; prints one line a violation, exit code 1 when there
is any. Without git the whole folder is read.
"""

import argparse
import ast
import itertools
import pathlib
import re
import subprocess
import sys

CODE = {".h", ".hpp", ".c", ".cpp", ".cc", ".inc", ".S"}
COLUMNS_MAX = 120

# Words are put together here so that this file passes its own check.
LEFTOVERS = re.compile(
    r"\b(?:" + "|".join(["TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"]) + r")\b"
    r"|(?i:\b(?:" + "|".join(["st" "ubs?", "not " "implemented", "for " "now"]) + r")\b)")

LEAK_PATHS = re.compile(r"(?<![\w.}/-])/(?:" + "|".join(["wo" "rk", "ho" "me", "ro" "ot", "Us" "ers"])
                        + r")/[\w.-]+")
WORK_ITEMS = re.compile(r"(?i)\bissue\s*#?\d+\b|\bticket\s*#?\d+\b")
ADDRESS = re.compile(r"https?://([\w.-]+)")
ADDRESSES_ALLOWED = {"localhost", "127.0.0.1", "cmake.org", "json-schema.org", "www.w3.org"}

INSTRUCTION = r"(?:clwb|clflush|clflushopt|[sm]fence)"
DOOR_CALLS = re.compile(
    r"\b(?:_mm_" + INSTRUCTION + r"|__builtin_ia32_" + INSTRUCTION + r"|_mm(?:256|512)?_stream_\w+|"
    r"_movdir64b|msync|fdatasync|fsync|syncfs|sync_file_range)\s*\(")
DOOR_ASSEMBLY = re.compile(r'"[^"\n]*\b(?:' + INSTRUCTION + r"|movnt\w*|movdir64b)\b[^\"\n]*\"")
ASSEMBLY = re.compile(r"\b(?:asm|__asm__)\b")
DOORS = ("src/media/", "src/platform/")

COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def without_comments(text, keep_literals):
    """The text with comments blanked (and literals too, unless kept); lines keep their numbers."""
    def blank(match):
        token = match[0]
        if token[0] in "\"'" and keep_literals:
            return token
        return "\n" * token.count("\n") or " "
    return COMMENT_OR_LITERAL.sub(blank, text)


def tracked_files(root):
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    for name in sorted(set(names)):
        data = (root / name).read_bytes() if (root / name).is_file() else b"\0"
        if b"\0" not in data:
            yield name, data.decode(errors="replace")


def numbered(text):
    return enumerate(text.splitlines(), 1)


def leftovers(name, text):
    for number, line in numbered(text):
        for found in LEFTOVERS.finditer(line):
            yield f"{name}:{number}: leftover '{found[0]}'"


def leaks(name, text):
    for number, line in numbered(text):
        for found in LEAK_PATHS.finditer(line):
            yield f"{name}:{number}: path of one machine '{found[0]}'"
        for found in WORK_ITEMS.finditer(line):
            yield f"{name}:{number}: work item '{found[0]}'"
        for found in ADDRESS.finditer(line):
            if found[1] not in ADDRESSES_ALLOWED and not found[1].endswith("example.org"):
                yield f"{name}:{number}: address '{found[0]}' is not on the list of tools/tree_rules.py"


def doors(name, text):
    if not name.startswith("src/") or name.startswith(DOORS) or pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(without_comments(text, keep_literals=False)):
        for found in DOOR_CALLS.finditer(line):
            yield f"{name}:{number}: '{found[0]}' belongs behind src/media"
    code = without_comments(text, keep_literals=True)
    if ASSEMBLY.search(without_comments(text, keep_literals=False)):
        for number, line in numbered(code):
            for found in DOOR_ASSEMBLY.finditer(line):
                yield f"{name}:{number}: assembly {found[0]} belongs behind src/media"


# What gives a new descriptor.  `open` and `dup` with the global scope only: members are called so, too.  Streams open
# files as well; the main() of our programs gives the standard descriptors away before any of them can get one, and the
# file of suppressions of a checked build is closed again before the program goes on.
DESCRIPTOR_CALLS = re.compile(
    r"(?<![\w:.>])(?:::(?:open|openat|open64|creat|dup|socket|accept4?|pipe2?|fopen|opendir)"
    r"|(?:::)?(?:socketpair|memfd_create|memfd_secret|eventfd|epoll_create1?|timerfd_create|signalfd|inotify_init1?"
    r"|pidfd_open|mkstemp|mkostemp|mkstemps|shm_open|posix_openpt|tmpfile|popen|perf_event_open|io_uring_setup))\s*\("
    r"|\bSYS_(?:open\w*|userfaultfd|memfd_create|pidfd_open|io_uring_setup|perf_event_open|bpf)\b"
    r"|\bF_DUPFD\w*")
STREAMS = re.compile(r"\bstd::(?:fopen|freopen|tmpfile|[io]?fstream|basic_[io]?fstream|filesystem::directory_iterator"
                     r"|filesystem::recursive_directory_iterator)\b")
DESCRIPTOR_DOOR = "src/platform/descriptor.cpp"
WITH_STREAMS = ("src/cli/", "src/server/", "src/explore/", "src/crash_test/", "src/compiler/driver/", "src/compiler/pass/",
                "src/compiler/rt/reports.cpp", "src/advisor/rewriter/")


def descriptors(name, text):
    if not name.startswith("src/") or name == DESCRIPTOR_DOOR or pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(without_comments(text, keep_literals=False)):
        for found in DESCRIPTOR_CALLS.finditer(line):
            yield f"{name}:{number}: '{found[0]}' makes a descriptor outside of {DESCRIPTOR_DOOR}"
        if not name.startswith(WITH_STREAMS):
            for found in STREAMS.finditer(line):
                yield f"{name}:{number}: '{found[0]}' opens a file outside of {DESCRIPTOR_DOOR}"


ENGINE_TABLES = ("src/pool/engines.hpp", "src/pool/log_table.hpp")
LOG_KIND_COMPARED = re.compile(r"\bcase\s+(?:\w+::)*log_kind::\w+|[=!]=\s*(?:\w+::)*log_kind::\w+"
                               r"|\blog_kind::\w+\s*[=!]=|\bswitch\s*\(.*\blog_of\(")
ENGINE_NUMBERS = re.compile(r"\bNVM_ENGINE_(?!DETECT\b)\w+")


def engines(name, text):
    if not name.startswith("src/") or name in ENGINE_TABLES or pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(without_comments(text, keep_literals=False)):
        for found in ENGINE_NUMBERS.finditer(line):
            yield f"{name}:{number}: '{found[0]}' outside of {ENGINE_TABLES[0]}; ask the engine's row"
        for found in LOG_KIND_COMPARED.finditer(line):
            yield f"{name}:{number}: '{found[0]}' outside of {ENGINE_TABLES[0]}; ask a row of {ENGINE_TABLES[1]}"


RULER = re.compile(r"^\s*(?://|/?\*)\s*-{8,}\s*(?:\*/)?\s*$")


def rulers(name, text):
    if pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(text):
        if RULER.match(line):
            yield f"{name}:{number}: a line of dashes alone; end the heading with them"


def width(name, text):
    if pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(text):
        if len(line) > COLUMNS_MAX:
            yield f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"


FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
MEASURED = ("src/", "include/", "tests/", "bench/", "tools/")
# Functions that are one table, or one switch with a line or two for each case: a part of it would tell nothing.
TABLES = {
    ("src/compiler/pass/log/written.cpp", "of_x86"),
    ("src/server/executor.cpp", "execute"),
    ("src/server/reports.cpp", "report_general"),
    ("src/server/settings.cpp", "declare"),
    ("tests/crash/logheap_stories.cpp", "logheap_stories"),
    ("tests/crash/region_stories.cpp", "region_stories"),
    ("tests/crash/workloads.cpp", "act"),
    ("tests/faults/gone_pages_calls.cpp", "all_calls"),
    ("tests/faults/gone_pages_regions.cpp", "calls_of_regions"),
    ("tests/pool/superblock_test.cpp", "superblock.field_outside_its_domain_is_refused_by_name"),
    ("tests/server/protocol_test.cpp", "parser.refuses_as_memcached_does"),
    ("tests/zoo/order_entries.cpp", "order_entries"),
}

RAW_OR_DIGITS = re.compile(r'R"([^\s()\\]*)\((?:.|\n)*?\)\1"|(?<=[0-9A-Fa-f])\'(?=[0-9A-Fa-f])')
DIRECTIVE = re.compile(r"\s*#\s*(\w+)")
CONTAINER = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b")
# Parentheses of a declaration that is no function: attributes, alignments, constraints.
DECORATION = re.compile(r"\b(?:alignas|__attribute__|requires|NVM_\w+)\s*\((?:[^()]|\([^()]*\))*\)")


def code_lines(text):
    """The text without comments, literals and preprocessor; of branches (#if, #else) the first; lines keep numbers."""
    text = RAW_OR_DIGITS.sub(lambda m: "\n" * m[0].count("\n"), text)
    lines, left_out, continued = [], [], False
    for line in without_comments(text, keep_literals=False).split("\n"):
        found = None if continued else DIRECTIVE.match(line)
        if found and found[1].startswith("if"):
            left_out.append(False)
        elif found and found[1].startswith("el") and left_out:
            left_out[-1] = True
        elif found and found[1] == "endif" and left_out:
            left_out.pop()
        directive = continued or found is not None
        continued = directive and line.rstrip().endswith("\\")
        lines.append("" if directive or any(left_out) else line)
    return "\n".join(lines)


def name_of(head):
    """The name in the head of a function; of a test `suite.test`."""
    test = re.match(r"\w*TEST\w*\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", head)
    if test:
        return f"{test[1]}.{test[2]}"
    called = re.search(r"(operator\s*\S+|~?\w+)\s*\(", DECORATION.sub("", head))
    return called[1] if called else head[:40]


def functions_of_cpp(text):
    """(first line, lines, name) of each function body; inner classes and lambdas count with the function around them."""
    tokens, number = [], 1
    for found in re.finditer(r"[(){};\n]|[^\s(){};]+", code_lines(text)):
        if found[0] == "\n":
            number += 1
        else:
            tokens.append((found[0], number))

    def closing(at):
        depth = 0
        while at < len(tokens):
            depth += {"{": 1, "}": -1}.get(tokens[at][0], 0)
            if depth == 0:
                break
            at += 1
        return min(at, len(tokens) - 1)

    head, first, parentheses, at = [], None, 0, 0
    while at < len(tokens):
        token, line = tokens[at]
        parentheses += {"(": 1, ")": -1}.get(token, 0)
        if token == "{" and parentheses > 0:
            at = closing(at)
        elif token == "{":
            words = re.sub(r"template\s*<.*?>\s*(?=\w)", "", " ".join(head))
            if CONTAINER.search(words) and "(" not in DECORATION.sub("", words) and " = " not in words:
                head, first = [], None
            else:
                end = closing(at)
                after = tokens[end + 1][0] if end + 1 < len(tokens) else ""
                if after in ("{", ";", ")") or after.startswith((",", ".")):  # an initialiser
                    head.append("{}")
                else:
                    begin = first or line
                    yield begin, tokens[end][1] - begin + 1, name_of(" ".join(head))
                    head, first = [], None
                at = end
        elif token in (";", "}") and parentheses <= 0 or token in ("public:", "protected:", "private:"):
            head, first = [], None
        else:
            first = first or line
            head.append(token)
        at += 1


def functions_of_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1, node.name


def lengths(name, text):
    suffix = pathlib.Path(name).suffix
    if not name.startswith(MEASURED) or suffix not in CODE | {".py"}:
        return
    lines = len(text.splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{name}:1: {lines} lines, at most {FILE_LINES_MAX}"
    long = set()
    for first, count, function in (functions_of_python if suffix == ".py" else functions_of_cpp)(text):
        if count <= FUNCTION_LINES_MAX:
            continue
        long.add((name, function))
        if (name, function) not in TABLES:
            yield f"{name}:{first}: {function}() has {count} lines, at most {FUNCTION_LINES_MAX}"
    for listed in TABLES:
        if listed[0] == name and listed not in long:
            yield f"{name}:1: {listed[1]}() is not long; take it off the list of tools/tree_rules.py"


CODE_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
HARD_WORDS = re.compile(r"(?i)(?<!there )\b(?:is|are) no more\b(?! than)|\bwho (?:has|is)\b|(?<!-)\bbehind\b")
# Sentences that begin with these words are read twice; questions are not, nor headings and cells of tables.
HARD_BEGIN = re.compile(r"\b(?:Who|Whoever|Nor)\s")
QUESTION = re.compile(r"[^.?!]{0,200}\?")
# What is left behind, and what happens behind a back, is plain English, and one with a hyphen is a document's name;
# every other "behind" means *after*.
LEFT_BEHIND = re.compile(r"(?i)\b(?:leav\w+|left)\b.{0,40}\bbehind$", re.DOTALL)
BEHIND_A_BACK = re.compile(r"(?i)behind\b.{0,20}\bback\b", re.DOTALL)
# Of a document: blocks and words that show code, and where links lead.
NO_PROSE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)\n]*\)", re.DOTALL | re.MULTILINE)


def prose(name, text):
    """(where it begins, text) of each comment of a source, or of a document as a whole, code and links blanked."""
    suffix = pathlib.Path(name).suffix
    if name.startswith("docs/") and suffix == ".md":
        yield 0, NO_PROSE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    elif name.startswith(("src/", "include/", "examples/")) and suffix in CODE:
        for token in CODE_TOKEN.finditer(text):
            if token[0][0] == "/":
                yield token.start(), token[0]


def comments(name, text):
    where = "a document" if name.endswith(".md") else "a comment"
    for start, said in prose(name, text):
        def place(found, start=start):
            number = text.count("\n", 0, start + found.start()) + 1
            return f"{name}:{number}: '{found[0].strip()}' in {where}"

        for found in HARD_WORDS.finditer(said):
            if LEFT_BEHIND.search(said[:found.end()]) or BEHIND_A_BACK.match(said, found.start()):
                continue
            yield f"{place(found)}; say after, freed, or the thread that has"
        for found in HARD_BEGIN.finditer(said):
            line = said[said.rfind("\n", 0, found.start()) + 1:found.start()]
            if line.startswith(("#", "|")) or QUESTION.match(text, start + found.start()):
                continue
            yield f"{place(found)} begins a sentence; begin with its noun"


EDGE = re.compile(r'\bedge\s*\{\s*"([^"]*)"\s*\}')
EDGE_SHAPE = re.compile(r"[a-z][a-z0-9_-]*/E\d+")
edge_places = {}


def edges(name, text):
    if not name.startswith("src/") or pathlib.Path(name).suffix not in CODE:
        return
    for number, line in numbered(without_comments(text, keep_literals=True)):
        for found in EDGE.finditer(line):
            first = edge_places.setdefault(found[1], f"{name}:{number}")
            if not EDGE_SHAPE.fullmatch(found[1]):
                yield f"{name}:{number}: fence label '{found[1]}' does not read protocol/E<number>"
            elif first != f"{name}:{number}":
                yield f"{name}:{number}: fence label '{found[1]}' stands at {first} already"


# NULL of nvm_pool_get_root() is a failure, too: who makes a root where there is none asks nvm_pool_read_root().
SHOWN = ("README.md", "docs/", "examples/", "ports/")
ASKED = re.compile(r"\bnvm_pool_get_root\s*\(")
MADE = re.compile(r"\bnvm_pool_set_root\s*\(")
ROOT_LINES = 15
FUNCTION = re.compile(r"}|\w.*\{$")


def roots(name, text):
    if not name.startswith(SHOWN):
        return
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        later = itertools.takewhile(lambda l: not FUNCTION.match(l), lines[number:number + ROOT_LINES])
        if ASKED.search(line) and any(MADE.search(l) for l in later):
            yield f"{name}:{number}: nvm_pool_get_root() before a root is made; nvm_pool_read_root() tells failures"


RULES = {"leftovers": leftovers, "doors": doors, "leaks": leaks, "width": width, "edges": edges,
         "descriptors": descriptors, "engines": engines, "rulers": rulers, "lengths": lengths, "comments": comments,
         "roots": roots}


def main():
    parser = argparse.ArgumentParser(description="Checks words and calls in the tracked files.")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("rules", nargs="*", metavar="rule", help=", ".join(RULES))
    arguments = parser.parse_args()
    unknown = set(arguments.rules) - set(RULES)
    if unknown:
        parser.error(f"unknown rule {', '.join(sorted(unknown))}")
    found = [line
             for name, text in tracked_files(arguments.root)
             for rule in (arguments.rules or RULES)
             for line in RULES[rule](name, text)]
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
