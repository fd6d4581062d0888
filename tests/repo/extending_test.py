#!/usr/bin/env python3
"""An engine is added to a copy of the tree by changing the files that docs/extending.md names, and no other."""

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
EDITS = {
    "include/nvm/nvm.h": [("  NVM_ENGINE_LOG = 5\n", "  NVM_ENGINE_LOG = 5,\n  NVM_ENGINE_DUMMY = 6\n")],
    "src/pool/engines.hpp": [
        ("std::array<engine_row, 5>", "std::array<engine_row, 6>"),
        (LAST_ROW, LAST_ROW + '    {NVM_ENGINE_DUMMY, "dummy", log_kind::lanes, true},\n'),
        ("5 (log)", "5 (log), 6 (dummy)"),
        ("0, 2 or 5 on ssd", "0, 2, 5 or 6 on ssd"),
    ],
    "src/engine/direct.cpp": [("baseline, baseline, log}", "baseline, baseline, log, undo}")],
}


def files_for_an_engine():
    """Those of the first list of the section, without those of an engine that has a log of its own."""
    text = (ROOT / "docs" / "extending.md").read_text()
    section = text[text.index("## An engine"):text.index("With a log of its own")]
    return re.findall(r"^\* `([^`]+)`", section, re.MULTILINE)


class Extending(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-extending-")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "tree"
        names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True).stdout
        for name in filter(None, names.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name)

    def run_in(self, *command):
        done = subprocess.run(command, cwd=self.tree, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, f"{command}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        return done.stdout

    def test_an_engine(self):
        self.assertEqual(sorted(EDITS), sorted(files_for_an_engine()))
        for name, changes in EDITS.items():
            text = (self.tree / name).read_text()
            for before, after in changes:
                self.assertEqual(text.count(before), 1, f"{name}: {before}")
                text = text.replace(before, after)
            (self.tree / name).write_text(text)
        self.run_in("cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Quick",
                    "-DCMAKE_CXX_FLAGS_QUICK=-O0", "-DCMAKE_C_FLAGS_QUICK=-O0")
        self.run_in("ninja", "-C", "build", "-j", str(os.cpu_count()), "holdfast_cli")
        tool = str(self.tree / "build" / "src" / "cli" / "holdfast")
        memory = tempfile.TemporaryDirectory(prefix="holdfast-extending-", dir="/dev/shm")
        self.addCleanup(memory.cleanup)
        for medium, folder in (("shm", memory.name), ("ssd", self.tree)):
            pool = str(pathlib.Path(folder) / "pool.nvm")
            self.run_in(tool, "create", pool, "--engine", "dummy", "--medium", medium, "--size", "8M")
            self.assertIn('"dummy"', self.run_in(tool, "info", pool, "--json"))
            self.run_in(tool, "kv", "put", pool, "key", "value")
            self.assertIn("value", self.run_in(tool, "kv", "get", pool, "key"))
            self.run_in(tool, "check", pool)
            os.unlink(pool)


if __name__ == "__main__":
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        print("skipped: the tree is no clone, so which files it has is not known")
        sys.exit(77)
    unittest.main()
