#!/usr/bin/env python3
"""pointers."""

import pathlib
import subprocess

import cli_testing
from cli_testing import GOOD, MEDIA, NEGATIVE, UNAVAILABLE, USAGE, PoolTest, main, run


class Pointers(PoolTest):
    def pool(self, medium, *more):
        path = self.path(medium, "astray.nvm")
        path.unlink(missing_ok=True)
        maker = pathlib.Path(cli_testing.MAKER).with_name("cli_garbage_maker")
        subprocess.run([maker, path, medium, *more], check=True, timeout=60)
        return path

    def other(self, medium):
        """Another pool, and an address in its data."""
        path = self.path(medium, "other.nvm")
        path.unlink(missing_ok=True)
        self.answer("create", path, "--size", "1M", "--medium", medium)
        return path, int(self.answer("info", path)["base"], 16) + (600 << 10)

    def test_that_lead_out_of_the_pool_are_found_with_their_fields(self):
        for medium in (*MEDIA, "log"):
            other, there = self.other("ssd" if medium == "ssd" else "shm")
            path = self.pool(medium, "astray", f"{there:x}")
            with self.unchanged(path):
                answer = self.answer("pointers", path, "--among", other.parent, expect=NEGATIVE)
            self.assertEqual((answer["sound"], answer["finding_count"], answer["reachable_count"], answer["pointers"]),
                             (False, 3, 2, 4))
            found = {f["field"]: f for f in answer["findings"]}
            self.assertEqual({k: f["leads_to"] for k, f in found.items()},
                             {"slots[0].first": "no-object", "slots[1].first": "other-pool",
                              "slots[2].first": "elsewhere"})
            self.assertEqual({(f["type"], f["kind"]) for f in found.values()}, {("table", "strong")})
            self.assertEqual([f["offset"] for f in answer["findings"]], [8, 24, 40])
            self.assertEqual(found["slots[1].first"]["value"], hex(there))
            self.assertEqual(found["slots[1].first"]["pool"], str(other))
            self.assertNotIn("pool", self.answer("pointers", path, expect=NEGATIVE)["findings"][1])
            done = run("pointers", path, "--among", other.parent)
            self.assertEqual(done.returncode, NEGATIVE)
            for words in (r"table\.slots\[0\]\.first of the object at 0x[0-9a-f]+ leads to 0x[0-9a-f]+, where no object is",
                          rf"slots\[1\]\.first .* leads to {there:#x}, in pool {other}",
                          r"slots\[2\]\.first .*, which is not in the pool", r": 4 pointers of 2 objects, 3 findings\n"):
                self.assertRegex(done.stdout, words)
            limited = self.answer("pointers", path, "--limit", 1, expect=NEGATIVE)
            self.assertEqual((limited["finding_count"], len(limited["findings"])), (3, 1))
            self.assertIn("and 2 more\n", run("pointers", path, "--limit", 1).stdout)

    def test_agree_with_what_check_notes(self):
        for medium in MEDIA:
            path = self.pool(medium, "astray", "200000001000")
            self.assertEqual(len(self.answer("check", path)["notes"]),
                             self.answer("pointers", path, expect=NEGATIVE)["finding_count"])

    def test_of_objects_of_unknown_types_are_guessed_where_that_is_asked_for(self):
        for medium in MEDIA:
            path = self.pool(medium, "astray-untyped", "200000001000")
            self.assert_fails(("pointers", path), self.refusal(path), "NVM_E_TYPE_MISMATCH", "1 of type 0x0000004d")
            answer = self.answer("pointers", path, "--untyped", expect=NEGATIVE)
            self.assertEqual((answer["finding_count"], answer["reachable_count"]), (3, 2))
            answer = self.answer("pointers", path, "--conservative", expect=NEGATIVE)
            self.assertEqual((answer["finding_count"], answer["reachable_count"]), (6, 3))
            guessed = [(f["field"], f["leads_to"]) for f in answer["findings"] if f["kind"] == "guessed"]
            self.assertEqual(guessed, [("+8", "no-object"), ("+16", "other-pool"), ("+24", "elsewhere")])
            self.assertIn("0x0000004d.+24 of the object", run("pointers", path, "--conservative").stdout)

    def refusal(self, path):
        return run("gc", "--dry-run", path).returncode

    def test_of_sound_pools_are_no_findings(self):
        for medium in MEDIA:
            for more in ((), ("stores",)):
                path = self.pool(medium, *more)
                answer = self.answer("pointers", path)
                self.assertEqual((answer["sound"], answer["findings"]), (True, []))
                self.assertEqual(answer["reachable_count"], 4 if more else 2)
                self.assertEqual(run("pointers", path, "--conservative", "--quiet").returncode, GOOD)

    def test_are_not_looked_at_where_that_cannot_be(self):
        path = self.pool("shm")
        self.assert_fails(("pointers", path, "--untyped", "--conservative"), USAGE, "USAGE", "exclude each other")
        self.assert_fails(("pointers", path, "--among", path.parent / "none"), UNAVAILABLE, "SYSTEM")
        self.assert_fails(("pointers", path.with_name("none")), UNAVAILABLE, "NVM_E_NOT_FOUND")


if __name__ == "__main__":
    main()
