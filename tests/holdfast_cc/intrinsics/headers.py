"""The functions and macros of Clang's own headers for x86 that get a pointer to what is not const, as calls."""
import re
import subprocess

FUNCTION = re.compile(r"(?:static|extern)\b[^;{}]*?__target__\(\"([^\"]*)\"\)[^;{}]*?\b(_\w+)\s*\(([^(){};]*)\)\s*\{")
MACRO = re.compile(r"^#define (_\w+)\(([\w, ]*)\) (.*)$", re.M)
BUILTIN = re.compile(r"TARGET_\w*BUILTIN\((__builtin_ia32_\w+),.*\"([^\"]*)\"\)")
ROOM = 16384  # between what pointers of one call point to


class Intrinsic:
    def __init__(self, name, target, arguments):
        self.name, self.target, self.arguments = name, target, arguments

    def call(self):
        return f"{self.name}({', '.join(self.arguments)})"


def is_writable(kind):
    """A pointer to what is not const, however const and volatile are written."""
    return "*" in kind and "const" not in kind[:kind.rindex("*")]


def value(kind, name, number, function):
    """Of a type, from the bytes at `s`; a pointer goes to the durable object."""
    if is_writable(kind):
        return f"(void *)(m + {ROOM * number})"
    if "*" in kind:
        return f"(void *)(s + {64 * number})"
    if "stride" in name:
        return "64"
    if kind == "__tile1024i":
        return "({ __tile1024i t = {16, 64}; __tile_zero(&t); t; })"
    if "index" in name:
        return f"*({kind} *)(s + {8192 if 'i64scatter' in function else 12288})"
    return f"*({kind} *)(s + {64 * number})"


def functions(text):
    for target, name, parameters in FUNCTION.findall(text):
        parts = [re.fullmatch(r"(.*?)(\w+)", " ".join(p.split())) for p in parameters.split(",")]
        if any(p is None for p in parts):
            continue
        kinds = [(p[1].strip(), p[2]) for p in parts]
        if any(is_writable(k) for k, _ in kinds):
            arguments = [value(k, n, i, name) for i, (k, n) in enumerate(kinds)]
            yield Intrinsic(name, target, arguments)


def cast_of(parameter, body):
    """The type that the macro gives its parameter: the cast next to it."""
    found = re.search(r"\(((?:\w+ )*\w+ ?\**)\) ?\(" + re.escape(parameter) + r"\)", body)
    return found[1].strip() if found else ""


def macros(text, targets):
    for name, parameters, body in MACRO.findall(text):
        names = [p.strip() for p in parameters.split(",")]
        kinds = [cast_of(p, body) for p in names]
        if not any(is_writable(k) for k in kinds):
            continue
        needed = [targets[b] for b in re.findall(r"__builtin_ia32_\w+", body) if b in targets]
        # What has no cast, or one to int alone, is a constant: 1 is a scale, a tile and a hint.
        arguments = ["1" if k in ("", "int") else value(k, n, i, name) for i, (n, k) in enumerate(zip(names, kinds))]
        yield Intrinsic(name, ",".join(sorted(set(needed))), arguments)


def builtin_targets(clang):
    """What each builtin needs of the processor, as Clang's own list says."""
    folder = subprocess.run([clang, "-print-resource-dir"], text=True, capture_output=True, check=True).stdout.strip()
    found = {}
    for file in ("BuiltinsX86.def", "BuiltinsX86_64.def"):
        with open(f"{folder}/../../../include/clang/Basic/{file}", encoding="utf-8") as lines:
            for name, target in BUILTIN.findall(lines.read()):
                found[name] = target.replace("|", ",")
    return found


def intrinsics(clang):
    """By name; a header that declares one twice, for two modes, is taken at its first word."""
    text = subprocess.run([clang, "-x", "c", "-E", "-dD", "-P", "-"], input="#include <x86intrin.h>\n", text=True,
                          capture_output=True, check=True).stdout
    found = {}
    for i in [*functions(text), *macros(text, builtin_targets(clang))]:
        found.setdefault(i.name, i)
    return [found[n] for n in sorted(found)]
