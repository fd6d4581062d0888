#!/usr/bin/env python3
"""Parts are added to a copy of the tree by changing the files that docs/extending.md names, and no other; and its lists
name every file that tells kinds of a part apart.

  Lists      what the page names is all
  Judged     parts are added; the tree is configured, and the sources that matter are compiled as far as their meaning
  Extending  parts are added, the command is built, and pools are made with them

usage: extending_test.py [Lists | Judged | Extending] [unittest arguments]
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import extending_parts

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROGRAM = r"""
#include <nvm/lockfree.h>
#include <stdio.h>
#include <stdlib.h>
#define REQUIRE(x) if (!(x)) { fprintf(stderr, "%d: %s: %s\n", __LINE__, #x, nvm_errormsg()); return 1; }

int main(int argc, char **argv) {
  REQUIRE(argc == 3);
  const int before = atoi(argv[2]); /* entries of each structure */
  NVM_POOL *pool = nvm_pool_open(argv[1]);
  REQUIRE(pool != NULL);
  for (unsigned flags = 0; flags < 8; ++flags) {
    if ((flags & NVM_LF_NO_WAIT) != 0) continue;
    char name[] = {'s', (char)('0' + flags), 0};
    const nvm_lf_options options = {.kind = NVM_LF_DUMMY, .flags = flags};
    nvm_lf *lf = nvm_lf_open(pool, name, &options);
    REQUIRE(lf != NULL);
    uint64_t count = 0;
    REQUIRE(nvm_lf_get_count(lf, &count) == 0 && (int)count == before);
    if ((flags & NVM_LF_BYTES) != 0) {
      REQUIRE(nvm_lf_get(lf, "key", 3, NULL, 0, NULL) == before);
      REQUIRE(nvm_lf_put(lf, "key", 3, "value", 5, 0, 0) == 1 + before);
    } else {
      uint64_t value = 0;
      REQUIRE(nvm_lf_get64(lf, 42, &value) == (int)count && value == 7u * (unsigned)before);
      REQUIRE(nvm_lf_put64(lf, 42, 7, 0) == 1 + before);
    }
  }
  REQUIRE(nvm_pool_close(pool) == 0);
  return 0;
}
"""


def text_of(section):
    """The page's, from the heading to the next."""
    text = (ROOT / "docs" / "extending.md").read_text()
    text = text[text.index(section):]
    return text[:text.find("\n## ", 1)]


def lists_of(section):
    """The files that each of the section's lists names, in the page's order."""
    found = re.findall(r"^(\* `|  )?(.*)$", text_of(section), re.MULTILINE)
    lists, within = [], False
    for bullet, line in found:
        if bullet == "* `":
            if not within:
                lists.append([])
            # `a`, `b`: what they are changed for
            lists[-1] += re.findall(r"`([^`]+)`", "`" + line.split(": ")[0])
        within = bool(bullet) or (within and not line)
    return lists


def copy_of_tree(to):
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True,
                           capture_output=True).stdout
    for name in set(filter(None, names.decode().split("\0"))):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def run_in(folder, *command):
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


class Lists(unittest.TestCase):
    """A source that tells kinds apart names one that is no special case."""

    def named_in(self, section):
        return set(re.findall(r"`((?:include|src|tests|cmake)/[^`]+)`", text_of(section)))

    def telling(self, folders, words):
        for folder in folders:
            for path in (ROOT / folder).rglob("*"):
                if path.suffix in (".h", ".hpp", ".cpp") and re.search(words, path.read_text()):
                    yield str(path.relative_to(ROOT))

    def expect(self, section, folders, words):
        told = set(self.telling(folders, words))
        self.assertGreater(len(told), 2)
        self.assertEqual(told - self.named_in(section), set())

    def test_of_an_engine_with_a_log_of_its_own_is_complete(self):
        self.expect("## An engine", ("src", "tests/crash"),
                    r"case log_kind::|\{log_kind::old_words, ")

    def test_of_a_lock_free_structure_is_complete(self):
        self.expect("## A lock-free structure", ("src", "include"), r"kind::(list|tree|skip_list)\b|NVM_LF_TREE")

    def test_of_an_index_is_complete(self):
        self.expect("## An index", ("src", "include"), r"kv_index::rbtree|NVM_KV_RBTREE|\"rbtree\"|kv/rbtree.hpp")

    def test_of_a_medium_is_complete(self):
        self.expect("## A medium", ("src", "include"), r"NVM_MEDIUM_AUTO|last_medium")

    def test_of_a_store_beside_objects_is_complete(self):
        self.expect("## A store", ("src/pool", "src/space", "src/engine"),
                    r"feature_regions|anchor, regions|slot_protocol::region|> open_regions\(")


class Judged(unittest.TestCase):
    """Clang's opinion of the sources that matter: all but their code is made."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-extending-")
        cls.addClassCleanup(folder.cleanup)
        cls.tree = pathlib.Path(folder.name) / "tree"
        copy_of_tree(cls.tree)
        for part in extending_parts.PARTS:
            extending_parts.add(part, cls.tree)
        run_in(cls.tree, "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DNVM_RECORD=ON",
               "-DHOLDFAST_TESTS=ON", "-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19")
        cls.commands = json.loads((cls.tree / "build" / "compile_commands.json").read_text())
        for command in cls.commands:
            command["output"] = re.search(r" -o (\S+)", command["command"])[1]
        cls.tests = {test["name"] for test in json.loads(
            run_in(cls.tree, "ctest", "--test-dir", "build", "--show-only=json-v1"))["tests"]}

    def options_in(self, folder):
        """What sources in C++ of a folder are compiled with, but for what is made: objects, precompiled headers, the
        recording pass, which is not built."""
        found = next(c for c in self.commands
                     if c["output"].startswith(f"{folder}/CMakeFiles/") and c["file"].endswith((".cpp", ".cxx")))
        words = shlex.split(found["command"])
        options = [w for w in words if re.match(r"-(I|D|W|std|f(?!pass-plugin|depfile|no-pch))", w)]
        places = [f"-isystem{words[i + 1]}" for i, w in enumerate(words) if w == "-isystem"]
        self.assertTrue(any(w.startswith("-std=") for w in options) and "-Werror" in options, words)
        return options + places

    def opinion(self, job):
        folder, name = job
        return subprocess.run(["clang++-19", *self.options_in(folder), "-fsyntax-only", name], cwd=self.tree, text=True,
                              capture_output=True, check=False).stderr

    def judge(self, part):
        lists = lists_of(part.section)
        for own, named in zip(part.changes, lists):
            self.assertEqual(sorted(own), sorted(named), f"{part.section} of docs/extending.md")
        jobs = [(os.path.dirname(name), name) for name in part.judged]
        if part.probe:
            folder, text = part.probe
            (self.tree / "probe.cpp").write_text(text)
            jobs.append((folder, "probe.cpp"))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as several:
            self.assertEqual("".join(several.map(self.opinion, jobs)), "")
        self.assertLessEqual(set(part.tests), self.tests)
        for folder, source in part.sources:
            read = [c["file"] for c in self.commands if c["output"].startswith(f"{folder}/CMakeFiles/")]
            as_one = "".join(pathlib.Path(file).read_text() for file in read if file.endswith(".cxx"))
            self.assertTrue(str(self.tree / source) in read or f"/{source}\"" in as_one, source)

    def test_an_engine(self):
        self.judge(extending_parts.ENGINE)

    def test_a_lock_free_structure(self):
        self.judge(extending_parts.STRUCTURE)

    def test_an_index_of_key_value_stores(self):
        self.judge(extending_parts.INDEX)

    def test_a_medium(self):
        self.judge(extending_parts.MEDIUM)

    def test_a_verb_of_the_command(self):
        self.judge(extending_parts.VERB)

    def test_a_subject_of_the_explorer(self):
        self.judge(extending_parts.SUBJECT)

    def test_what_is_left_out_is_found(self):
        """A place that the page names and nobody changes: one of each kind of judgement."""
        (self.tree / "forgotten.cpp").write_text((self.tree / "src/kv/inspect.cpp").read_text().replace(
            "    case kv_index::dummy:\n", ""))
        self.assertIn("'dummy' not handled in switch", self.opinion(("src/kv", "forgotten.cpp")))
        (self.tree / "forgotten.cpp").write_text(extending_parts.ENGINE.probe[1].replace('"dummy"', '"mummy"'))
        self.assertIn("static assertion failed", self.opinion(("src/pool", "forgotten.cpp")))
        (self.tree / "forgotten.cpp").write_text(extending_parts.LOG_TABLE.replace("{nvm::log_kind::dummy_lanes}, ", ""))
        self.assertIn("not a constant expression", self.opinion(("src/pool", "forgotten.cpp")))


class Extending(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-extending-")
        cls.addClassCleanup(folder.cleanup)
        memory = tempfile.TemporaryDirectory(prefix="holdfast-extending-", dir="/dev/shm")
        cls.addClassCleanup(memory.cleanup)
        cls.memory = pathlib.Path(memory.name)
        cls.tree = pathlib.Path(folder.name) / "tree"
        copy_of_tree(cls.tree)
        for part in extending_parts.PARTS:
            extending_parts.add(part, cls.tree)
        run_in(cls.tree, "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Quick",
               "-DCMAKE_CXX_FLAGS_QUICK=-O0", "-DCMAKE_C_FLAGS_QUICK=-O0")
        run_in(cls.tree, "ninja", "-C", "build", "-j", str(os.cpu_count()), "holdfast_cli", "holdfast")
        cls.tool = str(cls.tree / "build" / "src" / "cli" / "holdfast")

    def test_an_engine(self):
        for medium, folder in (("shm", self.memory), ("ssd", self.tree)):
            pool = str(folder / "pool.nvm")
            run_in(self.tree, self.tool, "create", pool, "--engine", "dummy", "--medium", medium, "--size", "8M")
            self.assertIn('"dummy"', run_in(self.tree, self.tool, "info", pool, "--json"))
            run_in(self.tree, self.tool, "kv", "put", pool, "key", "value")
            self.assertIn("value", run_in(self.tree, self.tool, "kv", "get", pool, "key"))
            run_in(self.tree, self.tool, "check", pool)
            os.unlink(pool)

    def test_an_index_of_key_value_stores(self):
        pool = str(self.memory / "stores.nvm")
        run_in(self.tree, self.tool, "create", pool, "--size", "8M")
        for key in ("a", "b", "a"):
            run_in(self.tree, self.tool, "kv", "put", pool, key, key * 3, "--index", "dummy")
        self.assertIn('"dummy"', run_in(self.tree, self.tool, "kv", "stat", pool, "--json"))
        self.assertEqual("aaa", run_in(self.tree, self.tool, "kv", "get", pool, "a").strip())
        run_in(self.tree, self.tool, "kv", "del", pool, "b")
        run_in(self.tree, self.tool, "check", pool)

    def test_a_verb_of_the_command(self):
        self.assertIn("dummy", run_in(self.tree, self.tool, "help"))
        run_in(self.tree, self.tool, "dummy")

    def test_a_lock_free_structure(self):
        (self.tree / "program.c").write_text(PROGRAM)
        library = self.tree / "build" / "lib"
        run_in(self.tree, "cc", "-std=c11", "-Iinclude", "program.c", "-o", "program", f"-L{library}", "-lholdfast",
               f"-Wl,-rpath,{library}")
        for medium, folder in (("shm", self.memory), ("ssd", self.tree)):
            pool = str(folder / "structures.nvm")
            run_in(self.tree, self.tool, "create", pool, "--medium", medium, "--size", "8M")
            for before in "01":  # the second process finds what the first one has put
                run_in(self.tree, "./program", pool, before)
                run_in(self.tree, self.tool, "check", pool)
            os.unlink(pool)


if __name__ == "__main__":
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        print("skipped: the tree is no clone, so which files it has is not known")
        sys.exit(77)
    unittest.main()
