"""What each test reads: what its programs were linked from and load, and files that its command and scripts name."""

import hashlib
import json
import pathlib
import re
import subprocess

LINKER = re.compile(r"_LINKER__|^CUSTOM_COMMAND$")
LIBRARY = re.compile(r"\.(a|so[.\d]*)$")
DEFINED = re.compile(r'-D\w+=\\?"(/[^"\\]+)\\?"')
IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)
NAMED = re.compile(r"[\w.-]+(?:/[\w.-]+)+|[\w-]+\.(?:py|sh)\b")


class Graph:
    """What ninja makes, of what, and by which rule."""

    def __init__(self, build):
        self.build, self.edges, self.defined, self.known = build, {}, {}, {}
        outputs = []
        file = build / "build.ninja"
        for line in file.read_text().splitlines() if file.exists() else ():
            if line.startswith("build ") and ": " in line:
                made, _, of = line[len("build "):].partition(": ")
                rule, *inputs = of.split()
                outputs = [name for name in made.split() if name != "|" and not name.startswith("${")]
                for name in outputs:
                    self.edges[name] = rule, [i for i in inputs if i not in ("|", "||", "|@")]
            elif line.startswith("  DEFINES = "):
                for name in outputs:
                    self.defined[name] = DEFINED.findall(line)

    def reached(self, target):
        """All that a target is made of or has to be there with it."""
        if target not in self.known:
            seen, unread = {target}, [target]
            while unread:
                for name in self.edges.get(unread.pop(), ("", ()))[1]:
                    if name not in seen:
                        seen.add(name)
                        unread.append(name)
            self.known[target] = seen
        return self.known[target]

    def runs(self, target):
        """The program itself, and libraries and programs that come with it; of a utility, what it makes."""
        found, unread = set(), [target]
        while unread:  # names that stand for files
            name = unread.pop()
            rule, inputs = self.edges.get(name, ("", ()))
            if rule == "phony":
                unread += inputs
            elif name == target or rule:
                found.add(name)
        for name in self.reached(target):
            rule = self.edges.get(name, ("",))[0]
            if LINKER.search(rule) and (rule != "CUSTOM_COMMAND" or LIBRARY.search(name)):
                found.add(name)
        return found

    def told(self, target):
        """Places of the tree that its own sources were compiled with the names of."""
        inputs = self.edges.get(target, ("", ()))[1]
        return {pathlib.Path(place) for name in inputs for place in self.defined.get(name, ())}

    def made_by_commands(self, names):
        return {name for name in names if self.edges.get(name, ("",))[0] == "CUSTOM_COMMAND"}


def commands_of(build):
    command = ["ctest", "--test-dir", build, "--show-only=json-v1"]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        return {}
    return {test["name"]: test.get("command", []) for test in json.loads(done.stdout)["tests"]}


def source_of(build):
    found = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return pathlib.Path(found[1])


class Inputs:
    def __init__(self, build):
        self.build = build.resolve()
        self.source = source_of(self.build)
        self.graph = Graph(self.build)
        self.commands = commands_of(self.build)
        self.digests = {}

    def runs(self, test):
        return set().union(*(self.graph.runs(program) for program in test.programs))

    def is_of_the_tree(self, path):
        return path.is_relative_to(self.source) and path != self.source and not path.is_relative_to(self.build)

    def named_in(self, script):
        """Files that a script imports or names, from its folder or one above it."""
        text = script.read_text(errors="replace")
        names = [name + ".py" for name in IMPORT.findall(text)] if script.suffix == ".py" else []
        names += NAMED.findall(text)
        names += [name.partition("/")[2] for name in names if name.count("/") > 1]  # after a variable
        above = [folder for folder in script.parents if folder.is_relative_to(self.source)]
        for place in (folder / name for name in names for folder in above):
            if place.is_file() and self.is_of_the_tree(place.resolve()):
                yield place.resolve()

    def places(self, test):
        """Files and folders beside what is compiled; public headers where a script may have a program compiled."""
        command = [pathlib.Path(word) for word in self.commands.get(test.name, ())]
        found = {path for path in command if path.is_absolute() and path.exists() and self.is_of_the_tree(path)}
        for program in test.programs:
            found.update(path for path in self.graph.told(program) if path.exists() and self.is_of_the_tree(path))
        if command and not command[0].is_relative_to(self.build) and (self.source / "include").is_dir():
            found.add(self.source / "include")
        unread = [path for path in found if path.suffix in (".py", ".sh")]
        while unread:
            for path in self.named_in(unread.pop()):
                if path not in found:
                    found.add(path)
                    unread += [path] if path.suffix in (".py", ".sh") else []
        return found

    def digest(self, place, leaving_out=frozenset()):
        """Of a file, or of all files below a folder but those of some suffixes."""
        if (place, leaving_out) not in self.digests:
            all_of_it = hashlib.sha256()
            for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
                if path.is_file() and path.suffix not in leaving_out and "__pycache__" not in path.parts:
                    all_of_it.update(str(path).encode() + path.read_bytes())
            self.digests[place, leaving_out] = all_of_it.digest()
        return self.digests[place, leaving_out]
