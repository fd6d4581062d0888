"""The functions that the headers of the C library declare, as Clang sees them."""
import json
import re
import subprocess

# Headers of the kernel for one architecture, or that refuse to be included: nothing in them is called by programs.
LEFT_OUT = {"regexp.h": "refuses to be included", "sys/elf.h": "refuses to be included", "sys/vm86.h": "32 bits only"}

MODES = [
    [],
    ["-D_GNU_SOURCE"],
    ["-D_GNU_SOURCE", "-O2", "-D_FORTIFY_SOURCE=2"],
    ["-D_GNU_SOURCE", "-O2", "-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64"],
    ["-D_FILE_OFFSET_BITS=64"],
    ["-std=c89", "-D_FILE_OFFSET_BITS=64"],
]


class Function:
    def __init__(self, symbol, header, declaration, parameters, variadic):
        self.symbol, self.header, self.declaration = symbol, header, declaration
        self.parameters, self.variadic = parameters, variadic  # parameters: (type, type without typedefs)

    def writable(self):
        """Numbers of the parameters that are pointers to non-const objects."""
        return [i for i, (_, plain) in enumerate(self.parameters) if is_writable(plain)]


def is_writable(plain):
    plain = re.sub(r"\b(restrict|__restrict|volatile)\b", "", plain).strip()
    if plain == "__SOCKADDR_ARG":
        return True
    if not plain.endswith("*") or "(*" in plain or plain.endswith("(*)"):
        return False
    pointee = plain[:-1].strip()
    return not (pointee.endswith("const") or (pointee.startswith("const ") and "*" not in pointee))


def headers():
    listed = subprocess.run(["dpkg", "-L", "libc6-dev"], text=True, capture_output=True, check=True).stdout.split()
    names = set()
    for path in listed:
        found = re.fullmatch(r"/usr/include/(?:x86_64-linux-gnu/)?(.*\.h)", path)
        if found and not re.match(r"(bits|gnu|finclude)/", found[1]) and found[1] not in LEFT_OUT:
            names.add(found[1])
    return sorted(names)


def nodes_of(clang, text, flags):
    command = [clang, "-x", "c", "-w", "-fsyntax-only", "-Xclang", "-ast-dump=json", *flags, "-"]
    dumped = subprocess.run(command, input=text, text=True, capture_output=True, check=True)
    return json.loads(dumped.stdout)["inner"]


def file_of(node, current):
    for place in (node.get("loc", {}), node.get("loc", {}).get("spellingLoc", {}),
                  node.get("loc", {}).get("expansionLoc", {})):
        current = place.get("file", current)
    return current


def functions(clang, modes=None):
    """By symbol: external functions of the headers."""
    text = "".join(f"#include <{h}>\n" for h in headers())
    found = {}
    for flags in MODES if modes is None else modes:
        current = ""
        for node in nodes_of(clang, text, flags):
            current = file_of(node, current)
            if node["kind"] != "FunctionDecl" or node.get("storageClass") == "static":
                continue
            if "/usr/include/" not in current or "/llvm" in current:
                continue
            symbol = re.sub(r"^__builtin_", "", node.get("mangledName", node["name"]).lstrip("\1"))
            parameters = [(p["type"]["qualType"], p["type"].get("desugaredQualType", p["type"]["qualType"]))
                          for p in node.get("inner", []) if p.get("kind") == "ParmVarDecl"]
            header = re.sub(r"^/usr/include/(x86_64-linux-gnu/)?", "", current)
            variadic = node["type"]["qualType"].endswith("...)")
            found.setdefault(symbol, Function(symbol, header, node["type"]["qualType"], parameters, variadic))
    return found
