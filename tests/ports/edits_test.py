#!/usr/bin/env python3
"""ports/apply_edits.py does what a script says, counts its lines, and refuses what does not fit, changing nothing."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

PORTS = pathlib.Path(__file__).resolve().parents[2] / "ports"
TEXT = "int f(void)\n{\n\treturn alloc(1);\n}\n\nint g(void)\n{\n\treturn alloc(alloc(2));\n}\n"


class EditsCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        (self.tree / "a.c").write_text(TEXT)
        (self.tree / "b.c").write_text(TEXT)

    def edit(self, script, code, says):
        path = self.tree / "edits"
        path.write_text(script)
        done = subprocess.run([sys.executable, str(PORTS / "apply_edits.py"), str(path), str(self.tree)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(says, done.stdout + done.stderr)
        return (self.tree / "a.c").read_text()

    def test_inserts_and_swaps_and_counts_each_line_once(self):
        edited = self.edit("# why\nin a.c\nat alloc\nswap alloc take\nswap 1 3\ninsert leave();\nin a.c\nat int g\n"
                           "before int h(void);\nin b.c\nat {\ninsert x();\n", 0, "3 inserted   1 changed: 4 lines")
        self.assertEqual(edited, TEXT.replace("return alloc(1);", "return take(3);\n\tleave();").replace(
            "int g", "int h(void);\nint g"))

    def test_goes_forward_only(self):
        script = "in a.c\nat int g\nat int f\ninsert x\n"
        self.assertEqual(self.edit(script, 1, "no line with 'int f' behind line 6"), TEXT)

    def test_a_word_that_is_there_twice_is_refused_and_nothing_is_written(self):
        script = "in a.c\nat alloc(1)\nswap alloc take\nin b.c\nat alloc(2)\nswap alloc take\n"
        self.assertEqual(self.edit(script, 1, "b.c:8: 'alloc' is there 2 times, expected once"), TEXT)

    def test_an_absent_file_is_refused(self):
        self.assertEqual(self.edit("in a.c\nat int\ninsert x\nin c.c\nat x\n", 1, "c.c"), TEXT)

    def test_what_is_no_command_is_refused(self):
        for script, says in (("in a.c\nat x\nremove y\n", "3: unknown command 'remove'"),
                             ("at x\n", "1: 'at' before any 'in'"),
                             ("in a.c\ninsert x\n", "2: 'insert' before any 'at'"),
                             ("in a.c\nat x\nswap y\n", "3: 'swap' needs two words, found 1"),
                             ("in ../a.c\n", "1: '../a.c' is not inside the tree"),
                             ("in /a.c\n", "1: '/a.c' is not inside the tree"),
                             ("in a.c\nat\n", "2: 'at' needs an argument")):
            self.assertEqual(self.edit(script, 2, says), TEXT)

    def test_the_scripts_of_all_ports_can_be_read(self):
        scripts = list(PORTS.glob("*/edits"))
        self.assertTrue(scripts)
        for script in scripts:
            done = subprocess.run([sys.executable, str(PORTS / "apply_edits.py"), str(script)], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("edits in", done.stdout)


if __name__ == "__main__":
    unittest.main()
