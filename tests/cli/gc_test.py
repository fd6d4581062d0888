#!/usr/bin/env python3
"""gc."""

import pathlib
import subprocess

import cli_testing
from cli_testing import GOOD, MEDIA, NEGATIVE, PoolTest, main, run


class Garbage(PoolTest):
    def pool(self, medium, *more):
        path = self.path(medium, "garbage.nvm")
        maker = pathlib.Path(cli_testing.MAKER).with_name("cli_garbage_maker")
        subprocess.run([maker, path, medium, *more], check=True, timeout=60)
        return path

    def test_is_shown_with_the_way_that_led_to_it_and_then_freed(self):
        for medium in MEDIA:
            path = self.pool(medium)
            with self.unchanged(path):
                answer = self.answer("gc", "--dry-run", path, expect=NEGATIVE)
            self.assertEqual((answer["reachable_count"], answer["garbage_count"], answer["freed_count"]), (2, 4, 0))
            self.assertTrue(answer["dry_run"])
            types = {t["name"]: t for t in answer["types"]}
            self.assertEqual(types["node"]["object_count"], 2)
            self.assertEqual(types["node"]["unlinked_count"], 0)
            self.assertEqual(types["table"]["unlinked_count"], 1)
            self.assertEqual([(s["type"], s.get("field")) for s in types["table"]["way"]], [("table", None)])
            self.assertEqual([(s["type"], s.get("field")) for s in types["node"]["way"]],
                             [("table", "slots[2].first"), ("node", None)])
            text = run("gc", "--dry-run", path)
            self.assertEqual(text.returncode, NEGATIVE)
            self.assertIn("2 of 6 objects reachable, 4 garbage", text.stdout)
            self.assertRegex(text.stdout, r"by  table 0x[0-9a-f]+\.slots\[2\]\.first -> node 0x[0-9a-f]+\n")

            answer = self.answer("gc", path)
            self.assertEqual((answer["garbage_count"], answer["freed_count"], answer["transactions"]), (4, 4, 1))
            self.assertEqual(run("check", path).returncode, GOOD)
            self.assertEqual(self.answer("gc", "--dry-run", path)["garbage_count"], 0)

    def test_of_types_that_nobody_describes_is_refused(self):
        for medium in MEDIA:
            path = self.pool(medium, "linked")
            done = run("gc", path)
            self.assertNotIn(done.returncode, (GOOD, NEGATIVE))
            self.assertIn("1 of type 0x0000004d (NVM_E_TYPE_MISMATCH)", done.stderr)
            answer = self.answer("gc", path, "--untyped")
            self.assertEqual((answer["reachable_count"], answer["freed_count"]), (3, 3))
            self.assertEqual(self.answer("gc", path, "--conservative", "--dry-run")["garbage_count"], 0)


if __name__ == "__main__":
    main()
