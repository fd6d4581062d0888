#!/usr/bin/env python3
"""relocate: pools move and come back, what cannot move is named, and copies say so."""

import pathlib
import shutil
import subprocess

import cli_testing
from cli_testing import GOOD, NEGATIVE, UNAVAILABLE, USAGE, PoolTest, main, run

KINDS = ("shm", "ssd", "log")
POINTERS = 2  # of a typed pool


class Relocate(PoolTest):
    def typed_pool(self, kind, *how):
        path = self.path("shm" if kind == "log" else kind, f"{kind}.nvm")
        path.unlink(missing_ok=True)
        maker = pathlib.Path(cli_testing.MAKER).with_name("cli_typed_pool_maker")
        subprocess.run([maker, path, kind, *how], check=True, timeout=60)
        return path

    def base(self, path):
        info = self.answer("info", path)
        self.assertEqual(info["bases"], [info["base"]])
        return info["base"]

    def other_place(self, base):
        """Far from there, inside of every window that is built."""
        at = int(base, 16)
        step = 1 << 38
        return hex(at - step if (at >> 38) % 4 != 0 else at + step)

    def test_there_and_back(self):
        for kind in KINDS:
            path = self.typed_pool(kind, "described")
            home = self.base(path)
            away = self.other_place(home)
            before = self.answer("dump", path, "--summary")
            for start, to in ((home, away), (away, home)):
                done = self.answer("relocate", path, "--address", to)
                self.assertEqual((int(done["from"], 16), int(done["to"], 16)), (int(start, 16), int(to, 16)))
                self.assertEqual((done["pointers"], done["moved"], done["foreign"]), (POINTERS, POINTERS, 0))
                self.assertEqual(int(self.base(path), 16), int(to, 16))
                self.assertEqual(run("check", path).returncode, GOOD)
            self.assertEqual(self.answer("dump", path, "--summary"), before)
            done = self.answer("relocate", path)
            self.assertEqual((done["from"], done["to"], done["objects"]), (home, home, 0))
            self.assertIn("nothing to do", run("relocate", path).stdout)
            self.assertIn("2 of 2 pointers in 3 objects moved", run("relocate", path, "--address", away).stdout)

    def test_objects_that_nobody_describes_are_named(self):
        for kind in KINDS:
            path = self.typed_pool(kind, "untyped")
            home = self.base(path)
            self.assert_fails(("relocate", path, "--address", self.other_place(home)), UNAVAILABLE, "NVM_E_ADDRESS",
                              r"types \(objects\) 7 \(1\)")
            self.assertEqual(self.base(path), home)
            self.assertEqual(run("check", path).returncode, GOOD)

    def test_pointers_into_programs_are_told_and_left_alone(self):
        for kind in KINDS:
            path = self.typed_pool(kind, "statics")
            statics = self.answer("types", path)["statics"]
            self.assertEqual([(s["name"], s["fields"]) for s in statics], [("answer", 1)])
            self.assertRegex(statics[0]["build"], r"^[0-9a-f]+ /.*/cli_typed_pool_maker$")
            done = self.answer("relocate", path, "--address", self.other_place(self.base(path)))
            self.assertEqual((done["moved"], done["static_pointers"]), (POINTERS, 1))
            self.assertRegex(run("relocate", path).stdout, "1 static pointers lead into programs of build .*: left alone")
            self.assertEqual(self.answer("types", path)["statics"], statics)
            self.assertEqual(run("check", path).returncode, GOOD)

    def test_foreign_pointers_are_named_and_left_alone(self):
        for kind in KINDS:
            path = self.typed_pool(kind, "foreign")
            done = self.answer("relocate", path, "--address", self.other_place(self.base(path)), expect=NEGATIVE)
            self.assertEqual((done["moved"], done["foreign"]), (POINTERS, 1))
            self.assertRegex(done["first_foreign"][0], r"object at offset \d+, type \d+: pointer at 0 is 0x5eed")

    def test_addresses_that_are_none(self):
        path = self.typed_pool("shm", "described")
        home = self.base(path)
        for text in ("x", "0", "12z"):
            self.assert_fails(("relocate", path, "--address", text), USAGE, "USAGE", "expected an address")
        for at in (hex(int(home, 16) + 4096), "0x1000"):
            self.assert_fails(("relocate", path, "--address", at), UNAVAILABLE, "NVM_E_ADDRESS")
        self.assertEqual(self.base(path), home)

    def test_copy_is_a_pool_of_its_own(self):
        path = self.typed_pool("shm", "described")
        copy = path.with_suffix(".copy")
        shutil.copyfile(path, copy)
        copy.chmod(0o600)
        self.answer("relocate", copy, "--address", self.other_place(self.base(path)))
        self.assertNotEqual(self.base(copy), self.base(path))


if __name__ == "__main__":
    main()
