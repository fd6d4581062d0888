#!/usr/bin/env python3
"""An engine and a lock-free structure are added to a copy of the tree by changing the files that docs/extending.md
names, and no other; and its lists name every file that tells kinds of a part apart.

usage: extending_test.py [Lists | Extending] [unittest arguments]
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

LAST_ROW = '    {NVM_ENGINE_LOG, "log", log_kind::none, true},\n'
# A copy of undo under another name.
ENGINE = {
    "include/nvm/nvm.h": [("  NVM_ENGINE_LOG = 5\n", "  NVM_ENGINE_LOG = 5,\n  NVM_ENGINE_DUMMY = 6\n")],
    "src/pool/engines.hpp": [
        ("std::array<engine_row, 5>", "std::array<engine_row, 6>"),
        (LAST_ROW, LAST_ROW + '    {NVM_ENGINE_DUMMY, "dummy", log_kind::lanes, true},\n'),
        ("5 (log)", "5 (log), 6 (dummy)"),
        ("0, 2 or 5 on ssd", "0, 2, 5 or 6 on ssd"),
    ],
    "src/engine/direct.cpp": [("baseline, baseline, log}", "baseline, baseline, log, undo}")],
}
# A copy of the list under another name.
STRUCTURE = {
    "include/nvm/lockfree.h": [("  NVM_LF_TREE = 4 ", "  NVM_LF_DUMMY = 5,\n  NVM_LF_TREE = 4 ")],
    "src/lockfree/lockfree_layout.hpp": [
        ("tree = 4 };", "tree = 4, dummy = 5 };"),
        ("last_kind = kind::tree;", "last_kind = kind::dummy;"),
    ],
    "src/lockfree/shapes.hpp": [
        ('#include "lockfree/hash_table.hpp"\n', '#include "lockfree/dummy.hpp"\n#include "lockfree/hash_table.hpp"\n'),
        ("using shape_rows = ", """struct dummy_row {
  static constexpr layout::kind kind = layout::kind::dummy;
  static constexpr const char* name = "dummy";
  template <class Memory, class Nodes>
  using shape = dummy<Memory, Nodes>;
};
using shape_rows = """),
        ("skip_list_row, tree_row>;", "skip_list_row, tree_row, dummy_row>;"),
    ],
}
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


def files_for(section, until=None):
    """Those of the first list of the section."""
    text = (ROOT / "docs" / "extending.md").read_text()
    text = text[text.index(section):]
    return re.findall(r"^\* `([^`]+)`", text[:text.index(until or "Write `")], re.MULTILINE)


class Lists(unittest.TestCase):
    """A source that tells kinds apart names one that is no special case."""

    def named_in(self, section):
        text = (ROOT / "docs" / "extending.md").read_text()
        text = text[text.index(section):]
        return set(re.findall(r"`((?:include|src|tests|cmake)/[^`]+)`", text[:text.find("\n## ", 1)]))

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
                    r"case log_kind::|log_of\w*(\(.*\))? == log_kind::(rings|old_words)")

    def test_of_a_lock_free_structure_is_complete(self):
        self.expect("## A lock-free structure", ("src", "include"), r"kind::(list|tree|skip_list)\b|NVM_LF_TREE")

    def test_of_an_index_is_complete(self):
        self.expect("## An index", ("src", "include"), r"kv_index::rbtree|NVM_KV_RBTREE|\"rbtree\"|kv/rbtree.hpp")

    def test_of_a_medium_is_complete(self):
        self.expect("## A medium", ("src", "include"), r"NVM_MEDIUM_AUTO|last_medium")

    def test_of_a_store_beside_objects_is_complete(self):
        self.expect("## A store", ("src/pool", "src/space", "src/engine"),
                    r"feature_regions|anchor, regions|slot_protocol::region|> open_regions\(")


class Extending(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-extending-")
        cls.addClassCleanup(folder.cleanup)
        memory = tempfile.TemporaryDirectory(prefix="holdfast-extending-", dir="/dev/shm")
        cls.addClassCleanup(memory.cleanup)
        cls.memory = pathlib.Path(memory.name)
        cls.tree = pathlib.Path(folder.name) / "tree"
        names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True).stdout
        for name in filter(None, names.decode().split("\0")):
            if (ROOT / name).is_file():
                (cls.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, cls.tree / name)
        for name, changes in {**ENGINE, **STRUCTURE}.items():
            text = (cls.tree / name).read_text()
            for before, after in changes:
                assert text.count(before) == 1, f"{name}: {before}"
                text = text.replace(before, after)
            (cls.tree / name).write_text(text)
        shape = (cls.tree / "src/lockfree/list.hpp").read_text()
        shape = re.sub(r"\blist(?=[<(]| :|_root|_magic)", "dummy", shape)
        (cls.tree / "src/lockfree/dummy.hpp").write_text(shape)
        cls.run_in("cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Quick",
                   "-DCMAKE_CXX_FLAGS_QUICK=-O0", "-DCMAKE_C_FLAGS_QUICK=-O0")
        cls.run_in("ninja", "-C", "build", "-j", str(os.cpu_count()), "holdfast_cli", "holdfast")
        cls.tool = str(cls.tree / "build" / "src" / "cli" / "holdfast")

    @classmethod
    def run_in(cls, *command):
        done = subprocess.run(command, cwd=cls.tree, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def test_an_engine(self):
        self.assertEqual(sorted(ENGINE), sorted(files_for("## An engine", "With a log of its own")))
        for medium, folder in (("shm", self.memory), ("ssd", self.tree)):
            pool = str(folder / "pool.nvm")
            self.run_in(self.tool, "create", pool, "--engine", "dummy", "--medium", medium, "--size", "8M")
            self.assertIn('"dummy"', self.run_in(self.tool, "info", pool, "--json"))
            self.run_in(self.tool, "kv", "put", pool, "key", "value")
            self.assertIn("value", self.run_in(self.tool, "kv", "get", pool, "key"))
            self.run_in(self.tool, "check", pool)
            os.unlink(pool)

    def test_a_lock_free_structure(self):
        self.assertEqual(sorted(STRUCTURE), sorted(files_for("## A lock-free structure", "`ctest -R extending`")))
        self.assertLessEqual(len(STRUCTURE), 4)
        (self.tree / "program.c").write_text(PROGRAM)
        library = self.tree / "build" / "lib"
        self.run_in("cc", "-std=c11", "-Iinclude", "program.c", "-o", "program", f"-L{library}", "-lholdfast",
                    f"-Wl,-rpath,{library}")
        for medium, folder in (("shm", self.memory), ("ssd", self.tree)):
            pool = str(folder / "structures.nvm")
            self.run_in(self.tool, "create", pool, "--medium", medium, "--size", "8M")
            for before in "01":  # the second process finds what the first one has put
                self.run_in("./program", pool, before)
                self.run_in(self.tool, "check", pool)
            os.unlink(pool)


if __name__ == "__main__":
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        print("skipped: the tree is no clone, so which files it has is not known")
        sys.exit(77)
    unittest.main()
