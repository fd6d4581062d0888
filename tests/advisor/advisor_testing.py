"""What tests of the advisor share: compiling, running, reading profiles."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CC = pathlib.Path(sys.argv[1]).absolute()
HOLDFAST = pathlib.Path(sys.argv[2]).absolute()
HERE = pathlib.Path(__file__).resolve().parent
COUNTERS = ("objects bytes largest frees reallocs live_objects live_bytes peak_bytes object_accesses object_ticks "
            "byte_ticks loads stores read_bytes written_bytes lines_logged lines_in lines_out").split()


def run(command, code=0, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=100, **more)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{command}: code {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}")
    return done


class AdvisorTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="advisor-"))
        self.store = pathlib.Path(f"/dev/shm/advisor-{os.getpid()}.nvm")

    def tearDown(self):
        shutil.rmtree(self.folder)
        self.store.unlink(missing_ok=True)

    def compile(self, source, *flags, name="program"):
        compiler = CC.with_name("holdfast-c++") if str(source).endswith(".cpp") else CC
        run([compiler, "-w", *flags, source, "-o", self.folder / name], cwd=self.folder)
        return self.folder / name

    def profiled(self, source, *flags, arguments=(), environment=None, name="program"):
        """Compiles, runs, and returns the profile's path and the program's output."""
        program = self.compile(source, "-fnvm-profile", *flags, name=name)
        profile = self.folder / f"{name}.profile"
        done = run([program, *arguments], cwd=self.folder,
                   env={**os.environ, "HOLDFAST_PROFILE": str(profile), "HOLDFAST_PLACED": str(self.store),
                        **(environment or {})})
        return profile, done.stdout

    def advise(self, *arguments, code=0):
        done = run([HOLDFAST, "advise", "--json", *arguments], code=code, cwd=self.folder)
        return json.loads(done.stdout)

    @staticmethod
    def sites_of(answer, function, called=None, caller=None):
        """Sites whose innermost call is in `function`."""
        found = []
        for s in answer["sites"]:
            first, *rest = s["path"]
            if first["function"] != function or (called and first["called"] != called):
                continue
            if caller is None or (rest and rest[0]["function"] == caller):
                found.append(s)
        return found

    def site_of(self, answer, function, called=None, caller=None):
        found = self.sites_of(answer, function, called, caller)
        self.assertEqual(len(found), 1, (function, called, caller, [s["path"] for s in answer["sites"]]))
        return found[0]

    def counts(self, answer, *where, **also):
        return self.site_of(answer, *where, **also)["counts"]


def main():
    del sys.argv[1:3]
    unittest.main(verbosity=1)
