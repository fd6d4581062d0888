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

# Tests without a program of their own, and what they read.
READERS = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES C)
enable_testing()
add_library(loaded SHARED a.c)
add_executable(loader b.c)
add_dependencies(loader loaded)
add_custom_command(OUTPUT libmade.so COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/made.txt libmade.so
  DEPENDS made.txt COMMENT "Made")
add_custom_target(made DEPENDS libmade.so)
add_executable(corpus b.c)
target_compile_definitions(corpus PRIVATE CORPUS="${CMAKE_SOURCE_DIR}/corpus")
add_test(NAME utility COMMAND sh ${CMAKE_SOURCE_DIR}/script/run.sh)
add_test(NAME loads COMMAND loader)
add_test(NAME corpus COMMAND corpus)
add_test(NAME imports COMMAND python3 ${CMAKE_SOURCE_DIR}/script/run.py)
add_test(NAME compiles COMMAND sh ${CMAKE_SOURCE_DIR}/shared/compile.sh ${CMAKE_SOURCE_DIR}/programs/p.c)
"""


class SmallProject(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.build = self.root / "out/release"
        self.write("a.c", "int main(void) { return 0; }\n")
        self.write("b.c", "int main(void) { return 0; }\n")
        self.write("script/run.sh", "exit 0\n")
        self.nowhere = self.root / "none"
        self.nowhere.mkdir()

    def configure(self, project, tests):
        self.write("CMakeLists.txt", project)
        subprocess.run(["cmake", "-G", "Ninja", "-S", self.root, "-B", self.build], check=True, capture_output=True)
        self.write("out/release/programs_of_tests.txt", tests)

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


class Quick(SmallProject):
    def setUp(self):
        super().setUp()
        nowhere = self.nowhere
        self.configure(PROJECT, f"a;{nowhere};unit;a\nb;{nowhere};unit,threads;b\n"
                       f"script;{self.root}/script;unit\nlong;{nowhere};unit,slow\nrule;{nowhere};repo\n")

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

    def whole_run(self, meanwhile=lambda: None):
        """a and script pass, b fails."""
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)
        self.assertEqual(self.quick("--stamp")[0], 0)
        meanwhile()
        self.write("r.xml", '<testsuite><testcase name="a" status="run"/><testcase name="script" status="run"/>'
                            '<testcase name="b" status="fail"><failure message=""/></testcase></testsuite>')
        self.assertEqual(self.quick("--remember", str(self.root / "r.xml"))[0], 0)

    def test_results_of_a_whole_run_are_remembered(self):
        self.whole_run()
        self.assertEqual(self.affected(), ["b"])

    def test_what_changes_while_tests_run_stays_affected(self):
        self.whole_run(lambda: self.write("script/run.sh", "exit 0 # changed\n"))
        self.assertEqual(self.affected(), ["b", "script"])
        # The script changes itself when it runs.
        self.write("script/run.sh", "echo '#' >> " + str(self.root / "script/run.sh") + "\n")
        self.write("b.c", "int main(void) { return 0; }\n\n")
        self.assertEqual(self.quick()[0], 0)
        self.assertEqual(self.affected(), ["script"])

    def test_results_without_stamps_are_not_remembered(self):
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)
        self.write("r.xml", '<testsuite><testcase name="a" status="run"/></testsuite>')
        self.assertEqual(self.quick("--remember", str(self.root / "r.xml"))[0], 0)
        self.assertEqual(self.affected(), ["a", "b", "script"])

    def test_folders_that_changed_come_first_then_what_is_fast(self):
        sys.path.insert(0, str(TOOL.parent))
        self.addCleanup(sys.path.remove, str(TOOL.parent))
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


class Readers(SmallProject):
    def setUp(self):
        super().setUp()
        self.write("made.txt", "1\n")
        self.write("corpus/one", "1\n")
        self.write("shared/drawn.py", "NUMBER = 1\n")
        self.write("drawn_too.py", "NUMBER = 1\n")
        self.write("shared/compile.sh", "exit 0\n")
        self.write("programs/p.c", "int main(void) { return 0; }\n")
        self.write("include/nvm/a.h", "\n")
        self.write("script/run.py", "import os, sys\nsys.path.append(os.path.dirname(os.path.dirname(__file__)))\n"
                   "import drawn_too\nSCRIPT = 'shared/drawn.py'\n")
        nowhere = self.nowhere
        self.configure(READERS, f"utility;{nowhere};unit;made\nloads;{nowhere};unit;loader\n"
                       f"corpus;{nowhere};unit;corpus\nimports;{nowhere};unit\ncompiles;{nowhere};unit\n")
        code, output = self.quick()
        self.assertEqual(code, 0, output)
        self.assertEqual(self.affected(), [])

    def expect(self, name, text, *tests):
        self.write(name, text)
        self.assertEqual(self.affected(), sorted(tests), name)
        self.assertEqual(self.quick()[0], 0)
        self.assertEqual(self.affected(), [])

    def test_what_a_utility_makes(self):
        self.expect("made.txt", "2\n", "utility")
        self.write("made.txt", "3\n")
        subprocess.run(["ninja", "-C", self.build, "made"], check=True, capture_output=True)
        self.assertEqual(self.affected(), ["utility"])  # by what was built since

    def test_a_library_that_comes_with_a_program(self):
        self.expect("a.c", "int f(void) { return 1; }\n", "loads")

    def test_a_folder_whose_name_is_compiled_in(self):
        self.expect("corpus/two", "2\n", "corpus")

    def test_scripts_outside_of_the_folder(self):
        self.expect("drawn_too.py", "NUMBER = 2\n", "imports")
        self.expect("shared/drawn.py", "NUMBER = 2\n", "imports")
        self.expect("shared/compile.sh", "exit 0 # changed\n", "compiles")

    def test_what_a_script_has_compiled(self):
        self.expect("programs/p.c", "int main(void) { return 1; }\n", "compiles")
        self.expect("include/nvm/a.h", "/* changed */\n", "compiles", "imports", "utility")


if __name__ == "__main__":
    unittest.main()
