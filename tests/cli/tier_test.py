#!/usr/bin/env python3
"""tier, and create with a second file."""

import os

from cli_testing import GOOD, NEGATIVE, UNAVAILABLE, USAGE, PoolTest, main, run


class Tier(PoolTest):
    def made(self, *more):
        path, second = self.path("shm"), self.path("ssd", "second.tier")
        done = run("create", path, "--size", "16M", "--tier", second, "--fast", "1M", *more)
        self.assertEqual(done.returncode, GOOD, done.stderr)
        if "no second file is used" in done.stderr:
            self.skipTest(done.stderr)
        return path, second

    def test_stat_says_what_is_where(self):
        path, second = self.made("--tier-policy", "uflru", "--tier-compression", "plain")
        told = self.answer("tier", "stat", path)
        self.assertEqual((told["policy"], told["compression"]), ("uflru", "plain"))
        self.assertEqual((told["file"], told["fast_bytes_max"]), (str(second), 1 << 20))
        self.assertEqual((told["sequence"], told["file_sequence"]), (0, 0))
        self.assertEqual(told["file_bytes"], second.stat().st_size)
        for i in range(40):
            value = os.urandom(60_000).hex()
            self.assertEqual(run("kv", "put", path, f"key {i}", value).returncode, GOOD)
        told = self.answer("tier", "stat", path)
        self.assertLessEqual(told["fast_bytes"], 1 << 20)
        self.assertGreater(told["sequence"], 0)
        self.assertGreater(told["slow_bytes"], 3_000_000)
        self.assertEqual(run("kv", "get", path, "key 39").stdout.strip(), value)
        self.assertTrue(self.answer("check", path)["sound"])
        self.assertIn("in fast memory, at most 1 MiB", run("tier", "stat", path).stdout)

    def test_of_a_pool_without_a_second_file_is_told(self):
        path = self.path("shm")
        self.answer("create", path)
        done = run("tier", "stat", path)
        self.assertEqual(done.returncode, NEGATIVE)
        self.assertIn("it has no second file", done.stderr)

    def test_pools_whose_second_file_is_missing_are_refused(self):
        path, second = self.made()
        second.rename(second.with_suffix(".kept"))
        for verb in (("kv", "stores", path), ("check", path), ("tier", "stat", path)):
            done = run(*verb)
            self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
            self.assertIn(f"second file {second}", done.stderr)
        second.with_suffix(".kept").rename(second)
        self.assertTrue(self.answer("check", path)["sound"])

    def test_repair_leaves_both_files_alone(self):
        path, second = self.made()
        with self.unchanged(path), self.unchanged(second):
            done = run("repair", path)
            self.assertNotEqual(done.returncode, GOOD)
            self.assertIn("in a second file", done.stderr)

    def test_options_that_go_with_it_are_refused_without(self):
        self.assert_fails(("create", self.path("shm"), "--fast", "1M"), USAGE, "USAGE", "go with --tier")

    def test_a_pool_on_a_disk_takes_none(self):
        path, second = self.path("ssd"), self.path("ssd", "second.tier")
        self.assert_fails(("create", path, "--medium", "ssd", "--tier", second), USAGE, "NVM_E_INVALID",
                          "takes no second file")
        self.assertFalse(path.exists() or second.exists())

    def test_of_the_log_engine_on_a_disk_is_warned_of(self):
        second = self.path("ssd", "second.tier")
        done = run("create", self.path("ssd"), "--medium", "ssd", "--engine", "log", "--tier", second)
        self.assertEqual(done.returncode, GOOD, done.stderr)
        self.assertIn("no second file is used", done.stderr)
        self.assertFalse(second.exists())


if __name__ == "__main__":
    main()
