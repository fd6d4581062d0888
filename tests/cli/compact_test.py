#!/usr/bin/env python3
"""compact, and what drop says and leaves."""

import os

from cli_testing import GOOD, MEDIA, UNAVAILABLE, PoolTest, main, run

ENTRIES = 20000


class Compact(PoolTest):
    def loaded(self, medium):
        """A pool with a store that is there to be dropped, and one that stays."""
        path = self.path(medium, "loaded.nvm")
        self.answer("create", path, "--size", "4M", "--medium", medium)
        lines = self.path(medium, "lines.csv")
        lines.write_text("".join(f"key-{i},{'v' * 100}\n" for i in range(ENTRIES)))
        self.answer("kv", "put", path, "stays", "here", "--store", "kept")
        self.answer("kv", "load", path, lines, "--format", "csv")
        lines.unlink()
        return path

    def test_gives_what_was_dropped_back_to_the_file_system(self):
        for medium in MEDIA:
            path = self.loaded(medium)
            self.assertEqual(self.answer("kv", "drop", path)["count"], ENTRIES)
            info = self.answer("info", path)
            self.assertGreater(info["free_pages"], info["used_pages"])
            before = os.stat(path)
            answer = self.answer("compact", path)
            after = os.stat(path)
            # A file system may still be writing.
            self.assertLess(abs(answer["allocated_bytes_before"] - before.st_blocks * 512), 65536)
            self.assertEqual((answer["file_bytes"], answer["file_bytes_before"]), (after.st_size, before.st_size))
            self.assertLess(after.st_blocks * 2, before.st_blocks)
            self.assertIsNone(answer["not_done"])
            self.assertEqual(run("check", path).returncode, GOOD)
            self.assertEqual(self.answer("kv", "get", path, "stays", "--store", "kept")["value"], "here")
            # And again, of what there is nothing to give.
            self.assertEqual(self.answer("compact", path)["cut_bytes"], 0)

    def test_inside_leaves_the_file_alone(self):
        path = self.loaded("shm")
        before = os.stat(path)
        answer = self.answer("compact", path, "--inside")
        self.assertEqual((answer["cut_bytes"], answer["punched_bytes"]), (0, 0))
        self.assertEqual(os.stat(path).st_blocks, before.st_blocks)

    def test_says_in_words_what_it_did(self):
        path = self.loaded("shm")
        run("kv", "drop", path)
        done = run("compact", path)
        self.assertEqual((done.returncode, done.stderr), (GOOD, ""))
        self.assertRegex(done.stdout, r"on the device, .* before; the file has .* before\n  freed .*\n  given back .* at the end, .* as holes\n$")

    def test_of_what_is_no_pool_is_refused(self):
        self.assert_fails(("compact", self.path("shm", "none.nvm")), UNAVAILABLE, "NVM_E_NOT_FOUND")


if __name__ == "__main__":
    main()
