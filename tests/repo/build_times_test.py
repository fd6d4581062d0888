#!/usr/bin/env python3
"""tools/build_times.py adds up what a small build left, and writes its tables where documents ask for them."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "build_times.py"

# start, end (milliseconds), output, command; the first of tx.cpp.o is an older build of it.
LOG = [(0, 9000, "src/tx/CMakeFiles/holdfast_tx_objects.dir/tx.cpp.o", "a1"),
       (0, 2000, "src/tx/CMakeFiles/holdfast_tx_objects.dir/tx.cpp.o", "a"),
       (0, 3000, "tests/crash/CMakeFiles/recorded.dir/__/__/src/tx/tx.cpp.o", "b"),
       (3000, 4500, "tests/crash/crash_test", "c"),
       (3000, 4500, "tests/crash/crash_test.also", "c"),
       (0, 4000, "{build}/src/crash_test/recorded/src/tx/tx.cpp.o", "d"),
       (5000, 5500, "lib/libholdfast.so.0.1.0", "e"),
       (0, 7000, "tests/gone/CMakeFiles/gone.dir/gone.cpp.o", "f")]

RESULTS = """<testsuite>
<testcase name="crash_test" time="6.5" status="run"/><testcase name="other" time="1" status="run"/>
</testsuite>"""


class BuildTimes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name).resolve()
        log = "# ninja log v5\n"
        for start, end, output, command in LOG:
            output = output.format(build=self.build / "asan")
            log += f"{start}\t{end}\t1\t{output}\t{command}\n"
            if "gone" not in output:
                self.write(self.build / "asan" / output, "")
        self.write(self.build / "asan/.ninja_log", log)
        self.write(self.build / "asan/tests/crash/CTestTestfile.cmake", 'add_test([=[crash_test]=] "crash_test")\n')
        self.write(self.build / "asan/bench/CTestTestfile.cmake", 'add_test(other "/x/other")\n')
        self.write(self.build / "results-asan.xml", RESULTS)

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, TOOL, "--build", self.build, *map(str, arguments)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def found(self):
        code, output = self.run_tool("--json")
        self.assertEqual(code, 0, output)
        return json.loads(output)["asan"]

    def test_rooms_have_what_they_ask_for(self):
        rooms = self.found()["rooms"]
        self.assertEqual(rooms, {
            "bench": {"objects": 0, "compile": 0, "link": 0, "test": 1},
            "src/crash_test/recorded": {"objects": 1, "compile": 4, "link": 0, "test": 0},
            "src/tx": {"objects": 1, "compile": 2, "link": 0, "test": 0},
            "tests/crash": {"objects": 1, "compile": 3, "link": 1.5, "test": 6.5},
            "the top": {"objects": 0, "compile": 0, "link": 0.5, "test": 0}})

    def test_what_the_build_no_longer_makes_does_not_count(self):
        made = ("build src/crash_test/recorded/src/tx/tx.cpp.o | "
                "${cmake_ninja_workdir}src/crash_test/recorded/src/tx/tx.cpp.o: CUSTOM_COMMAND x\n"
                "build tests/crash/crash_test: CXX_EXECUTABLE_LINKER y\n")
        self.write(self.build / "asan/build.ninja", made)
        rooms = self.found()["rooms"]
        self.assertEqual(rooms["src/crash_test/recorded"]["objects"], 1)
        self.assertEqual(rooms["tests/crash"]["objects"], 0)
        self.assertNotIn("src/tx", rooms)

    def test_a_source_is_the_sum_of_its_objects(self):
        self.assertEqual(self.found()["sources"], {"src/tx/tx.cpp": {"objects": 3, "seconds": 9}})
        self.assertIn("9.0 s in  3  src/tx/tx.cpp", self.run_tool()[1])

    def test_sources_that_are_read_as_one_are_named_by_their_target(self):
        log = self.build / "asan/.ninja_log"
        text = log.read_text()
        for number, target in enumerate(("tx_tests", "tx_threads_tests")):
            output = f"tests/tx/CMakeFiles/{target}.dir/Unity/unity_0_cxx.cxx.o"
            text += f"0\t{number + 1}000\t1\t{output}\tunity{number}\n"
            self.write(self.build / "asan" / output, "")
        log.write_text(text)
        found = self.found()
        self.assertEqual(found["rooms"]["tests/tx"]["objects"], 2)
        self.assertEqual(found["sources"]["tests/tx/tx_tests/unity_0_cxx.cxx"], {"objects": 1, "seconds": 1})
        self.assertEqual(found["sources"]["tests/tx/tx_threads_tests/unity_0_cxx.cxx"], {"objects": 1, "seconds": 2})

    def test_units_of_a_recorded_copy_count_for_its_room(self):
        log = self.build / "asan/.ninja_log"
        output = "src/crash_test/recorded/unit_3.cpp.o"
        log.write_text(log.read_text() + f"0\t5000\t1\t{output}\tunit\n")
        self.write(self.build / "asan" / output, "")
        found = self.found()
        self.assertNotIn("src/crash_test", found["rooms"])
        self.assertEqual(found["rooms"]["src/crash_test/recorded"], {"objects": 2, "compile": 9, "link": 0, "test": 0})
        self.assertEqual(found["sources"]["src/crash_test/recorded/unit_3.cpp"], {"objects": 1, "seconds": 5})

    def test_the_short_form_names_the_dearest(self):
        code, output = self.run_tool("--short", "asan")
        self.assertEqual(code, 0)
        self.assertEqual(output.splitlines()[0],
                         "asan: 3 objects, 9 s of compiling, 2 s of linking, 8 s of 2 tests")
        self.assertIn("rooms    tests/crash 4 + 6 s, src/crash_test/recorded 4 + 0 s", output)
        self.assertIn("tests    crash_test 6 s, other 1 s", output)

    def test_that_the_compiler_cache_took_part_is_said(self):
        self.write(self.build / "asan/CMakeCache.txt", "HOLDFAST_CCACHE:FILEPATH=/usr/bin/ccache\n")
        self.assertIn("(with the compiler cache)", self.run_tool("--short")[1])

    def test_tables_are_written_between_their_comments(self):
        document = self.build / "a.md"
        self.write(document, "before\n<!-- build_times: fill -->\n| Preset | What | Before | After |\n"
                             "| asan | objects | 5 | |\n| asan | src/tx | 4 | 9 |\n| all | tests | 1 | |\n"
                             "| tsan | tests | 2 | |\n<!-- build_times: end -->\nafter\n")
        self.assertEqual(self.run_tool("--fill", document), (0, ""))
        self.assertEqual(document.read_text(), "before\n<!-- build_times: fill -->\n| Preset | What | Before | After |\n"
                         "| asan | objects | 5 | 3 |\n| asan | src/tx | 4 | 2 |\n| all | tests | 1 | 8 |\n"
                         "| tsan | tests | 2 | |\n<!-- build_times: end -->\nafter\n")
        self.assertEqual(self.run_tool("--rooms", document)[0], 1)
        self.write(document, "<!-- build_times: rooms -->\nold\n<!-- build_times: end -->\n")
        self.assertEqual(self.run_tool("--rooms", document), (0, ""))
        self.assertIn("| tests/crash | 1 / 4 / 6 |\n", document.read_text())
        self.assertIn("| sum | 3 / 11 / 8 |\n<!-- build_times: end -->\n", document.read_text())

    def test_without_a_build_there_is_nothing_to_say(self):
        self.assertEqual(self.run_tool("release")[0], 2)


if __name__ == "__main__":
    unittest.main()
