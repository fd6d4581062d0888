"""The manual page and the unit of nv-memcached, held against the program.

usage: manual_test.py <nv-memcached> <its source folder> <its build folder> [unittest arguments]
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SERVER = SOURCE = BUILD = None


def options_of(text):
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))


class Manual(unittest.TestCase):
    def test_has_each_option_and_no_other(self):
        helped = subprocess.run([SERVER, "--help"], capture_output=True, text=True, check=True).stdout
        page = (SOURCE / "nv-memcached.1").read_text().replace("\\-", "-")
        page = page.split(".SH OPTIONS")[1].split(".SH SIGNALS")[0]
        offered = set()
        for line in helped.splitlines():
            if match := re.match(r"\s+(-[\w-]+(?:,-[\w-]+)*)", line):
                offered |= set(match[1].split(","))
        self.assertGreater(len(offered), 50)
        self.assertEqual(offered - options_of(page), set())
        self.assertEqual(options_of(page) - offered, set())

    @unittest.skipUnless(shutil.which("mandoc"), "no mandoc")
    def test_is_well_formed(self):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", SOURCE / "nv-memcached.1"], capture_output=True,
                              text=True, check=False)
        complaints = [line for line in done.stdout.splitlines() if "missing date" not in line]
        self.assertEqual(complaints, [])

    def test_of_the_unit_starts_the_program_with_options_that_it_has(self):
        start = re.search(r'^ExecStart="(.*?)" (.*)$', (BUILD / "nv-memcached.service").read_text(), re.M)
        self.assertEqual(pathlib.Path(start[1]).name, "nv-memcached")
        helped = subprocess.run([SERVER, "--help"], capture_output=True, text=True, check=True).stdout
        for option in options_of(start[2]):
            self.assertIn(option, helped)

    def test_of_the_unit_names_the_place_of_the_installation(self):
        with tempfile.TemporaryDirectory(prefix="nv-memcached-") as folder:
            for prefix in ("one", "two words"):
                place = pathlib.Path(folder) / prefix
                done = subprocess.run(["cmake", "--install", BUILD, "--prefix", place], capture_output=True, text=True,
                                      check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                unit = (place / "lib/systemd/system/nv-memcached.service").read_text()
                start = re.search(r'^ExecStart="(.*?)" ', unit, re.M)
                self.assertEqual(start[1], str(place / "bin/nv-memcached"))
                self.assertTrue(pathlib.Path(start[1]).exists())


if __name__ == "__main__":
    SERVER = str(pathlib.Path(sys.argv[1]).resolve())
    SOURCE, BUILD = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
