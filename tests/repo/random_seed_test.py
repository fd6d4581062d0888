#!/usr/bin/env python3
"""Scripts draw from the same number as programs, whatever word NVM_EXPLORE_SEED is."""

import pathlib
import re
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS))
import random_seed


class RandomSeed(unittest.TestCase):
    def test_is_that_of_programs(self):
        rows = re.findall(r'seed_of\("(.*)"\), (\d+)U\)', (TESTS / "base" / "random_seed_test.cpp").read_text())
        self.assertGreater(len(rows), 5)
        for word, seed in rows:
            self.assertEqual(random_seed.seed_of(word), int(seed), word)

    def test_is_read_by_no_other_way(self):
        readers = {path.name for path in TESTS.rglob("*") if path.suffix in (".cpp", ".hpp", ".py", ".c")
                   and '"NVM_EXPLORE_SEED"' in path.read_text(errors="replace")}
        self.assertEqual(readers, {"random_seed.hpp", "random_seed.py", pathlib.Path(__file__).name})


if __name__ == "__main__":
    unittest.main()
