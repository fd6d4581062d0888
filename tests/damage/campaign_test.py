#!/usr/bin/env python3
"""What the campaign of damaged pools draws, and what it goes on from."""
import argparse
import collections
import json
import pathlib
import random
import tempfile
import unittest

import campaign


def run_of(folder, state=None, **other):
    given = argparse.Namespace(only="", aim=[], seed=1, first=0, tries=0, seconds=0, server=None, state=state)
    vars(given).update(other)
    return campaign.Run(given, pathlib.Path(folder))


class Draws(unittest.TestCase):
    def test_aims_a_quarter_of_the_tries_and_of_those_of_each_pool(self):
        run = run_of(".")
        rounds = 4 * campaign.AIMED_EVERY
        aimed = collections.Counter(run.which(n) for n in range(rounds * len(run.bases)) if run.aims(n))
        self.assertEqual(set(aimed), set(run.bases))
        self.assertEqual(set(aimed.values()), {rounds // campaign.AIMED_EVERY})

    def test_aims_all_of_them_where_that_is_asked_for(self):
        run = run_of(".", aim=["map"])
        self.assertTrue(all(run.aims(n) == ("map",) for n in range(20)))

    def test_has_many_parts_in_a_pool_of_every_engine_and_medium(self):
        every = {b[1:] for b in campaign.bases(True)}
        self.assertEqual({b[1:] for b in campaign.bases(True) if b[0] in campaign.MIXED.values()}, every)

    def test_damages_what_it_aims_at(self):
        image = bytearray(b"\1" * 64 * campaign.PAGE)
        page_map, log, data = (n * campaign.PAGE for n in (2, 4, 8))
        image[72:104] = b"".join(n.to_bytes(8, "little") for n in (page_map, log, data - log, data))
        self.assertEqual(campaign.aimed_places(image, ("map",)), [2 * campaign.PAGE, 3 * campaign.PAGE])
        before = bytes(image)
        words = 0
        for seed in range(60):
            damaged = bytearray(image)
            if campaign.damage(random.Random(seed), damaged, before, ("log",))[0] is not campaign.word:
                continue
            changed = [at for at in range(len(before)) if damaged[at] != before[at]]
            self.assertTrue(all(log <= at < data for at in changed), changed)
            words += 1 if changed else 0
        self.assertGreater(words, 10)


class State(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        self.file = self.folder / "state"

    def test_is_gone_on_from(self):
        campaign.campaign(run_of(self.folder, self.file, first=7))
        self.assertEqual(campaign.campaign(run_of(self.folder, self.file))["next"], 7)

    def refused_because(self, **other):
        with self.assertRaises(SystemExit) as refused:
            campaign.campaign(run_of(self.folder, self.file, **other))
        return str(refused.exception)

    def test_of_an_older_version_is_refused_with_a_sentence(self):
        self.file.write_text(json.dumps({"next": 5, "tables": {}, "findings": []}))
        version = campaign.STATE_VERSION
        self.assertIn(f"of version 1, whose tries are others than those of version {version}: it cannot go on",
                      self.refused_because())
        self.assertEqual(json.loads(self.file.read_text())["next"], 5)

    def test_of_another_seed_or_of_other_pools_is_refused(self):
        campaign.campaign(run_of(self.folder, self.file))
        self.assertIn("another seed", self.refused_because(seed=2))
        self.assertIn("other pools", self.refused_because(only="kv-list"))
        self.assertIn("another aim", self.refused_because(aim=["log"]))


if __name__ == "__main__":
    unittest.main()
