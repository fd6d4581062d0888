#!/usr/bin/env python3
"""tools/quick_tests.py runs what a change can fail, in a small project with a build of its own."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "quick_tests.py"

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES C)
enable_testing()
foreach(name a b)
  add_executable(${name} ${name}.c)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
add_test(NAME script COMMAND sh ${CMAKE_SOURCE_DIR}/script/run.sh)
"""


class Quick(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.build = self.root / "out/release"
        self.write("CMakeLists.txt", PROJECT)
        self.write("a.c", "int main(void) { return 0; }\n")
        self.write("b.c", "int main(void) { return 0; }\n")
        self.write("script/run.sh", "exit 0\n")
        subprocess.run(["cmake", "-G", "Ninja", "-S", self.root, "-B", self.build], check=True, capture_output=True)
        nowhere = self.root / "none"
        nowhere.mkdir()
        self.write("out/release/programs_of_tests.txt", f"a;{nowhere};unit;a\nb;{nowhere};unit,threads;b\n"
                   f"script;{self.root}/script;unit\nlong;{nowhere};unit,slow\nrule;{nowhere};repo\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def quick(self, *arguments):
        done = subprocess.run([sys.executable, TOOL, "--build", self.build, *arguments], text=True,
                              capture_output=True, check=False, env={**os.environ, "CCACHE_DISABLE": "1"})
        return done.returncode, done.stdout

    def affected(self):
        return sorted(self.quick("--list")[1].split())

    def test_what_passed_is_affected_again_when_it_changes(self):
        self.assertEqual(self.affected(), ["a", "b", "script"])
        code, output = self.quick()
        self.assertEqual(code, 0, output)
        self.assertIn("of 3 unit tests 3 may be affected, 3 were run", output)
        self.assertEqual(self.affected(), [])
        self.write("b.c", "int main(void) { return 1; }\n")
        self.assertEqual(self.affected(), ["b"])  # by the dry run
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)
        self.write("script/run.sh", "exit 0 # changed\n")
        self.assertEqual(self.affected(), ["b", "script"])  # by what was built since
        self.assertEqual(self.quick()[0], 1)
        self.assertEqual(self.affected(), ["b"])

    def test_what_there_is_no_time_for_stays_affected(self):
        code, output = self.quick("--seconds", "0")
        self.assertEqual(code, 0)
        self.assertIn("0 were run; time was over, ./dev test quick goes on with 3", output)
        self.assertEqual(self.affected(), ["a", "b", "script"])

    def test_a_build_that_fails_is_a_failure(self):
        self.write("a.c", "nonsense\n")
        self.assertEqual(self.quick()[0], 1)
        self.assertIn("a", self.affected())

    def test_results_of_a_whole_run_are_remembered(self):
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)
        self.write("r.xml", '<testsuite><testcase name="a" status="run"/><testcase name="b" status="fail">'
                            '<failure message=""/></testcase></testsuite>')
        self.assertEqual(self.quick("--remember", str(self.root / "r.xml"))[0], 0)
        self.assertEqual(self.affected(), ["b", "script"])

    def test_folders_that_changed_come_first_then_what_is_fast(self):
        spec = importlib.util.spec_from_file_location("quick_tests", TOOL)
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        tool.git = lambda *words: ["src/tx/a.cpp"] if words[0] == "diff" else []
        self.write("out/release/Testing/Temporary/CTestCostData.txt", "slow 1 9.5\nfast 1 0.5\n---\n")
        tests = [tool.Test(f"{name};{tool.ROOT}/tests/{room};unit") for name, room in
                 (("slow", "kv"), ("fast", "kv"), ("new", "kv"), ("near", "tx"))]
        self.assertEqual([test.name for test in tool.in_order(self.build, tests, "")], ["near", "fast", "new", "slow"])

    def test_without_a_build_it_says_so(self):
        (self.build / "programs_of_tests.txt").unlink()
        self.assertEqual(self.quick()[0], 2)


if __name__ == "__main__":
    unittest.main()
