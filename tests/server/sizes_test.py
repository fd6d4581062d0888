"""A service whose values change in size keeps storing, in a file of bounded size.

usage: sizes_test.py <nv-memcached> [unittest arguments]
"""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import process_test
from process_test import ServerTest

MIB = 1 << 20
LIMIT_MIB = 8
# Values of a phase, each after all others at least once: small after large, large after small.
PHASES = (60, 800, 100, 12800, 60, 3200, 200, 100_000, 400, 6400, 60)
BATCH_BYTES = 256 * 1024


class Sizes(ServerTest):
    def phase(self, client, number, size):
        """Stores 1.5 times the limit; answers that are not STORED, by their text."""
        refused = {}
        left = LIMIT_MIB * MIB * 3 // 2 // (size + 100)
        key = 0
        while left:
            count = min(left, max(1, BATCH_BYTES // (size + 50)))
            value = b"x" * size
            client.send(b"".join(b"set %d.%d 0 0 %d\r\n%b\r\n" % (number, key + i, size, value) for i in range(count)))
            for _ in range(count):
                answer = client.line().strip()
                if answer != "STORED":
                    refused[answer] = refused.get(answer, 0) + 1
            key += count
            left -= count
        return key, refused

    def survivors(self, client, number, keys):
        """How many of the last keys are there, of a sample."""
        sample = range(max(0, keys - 200), keys)
        found = 0
        for key in sample:
            client.send(b"mg %d.%d\r\n" % (number, key))
            found += client.line().startswith("HD")
        return found, len(sample)

    def check_medium(self, medium):
        folder = tempfile.mkdtemp(prefix="nv-memcached-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        pool = f"{folder}/items.nvm"
        port = self.start("-m", LIMIT_MIB, store=("--pool", pool, "--medium", medium, "--durability", "relaxed"))
        client = self.connect(port)
        for number, size in enumerate(PHASES):
            with self.subTest(phase=number, size=size):
                keys, refused = self.phase(client, number, size)
                self.assertEqual(refused, {})
                found, of = self.survivors(client, number, keys)
                self.assertGreater(found, of // 4, "of the last items few are left")
                self.assertLessEqual(os.stat(pool).st_size, LIMIT_MIB * MIB * 5 // 4 + 64 * MIB)

    def test_may_change_on_shared_memory(self):
        self.check_medium("shm")

    def test_may_change_on_ssd(self):
        self.check_medium("ssd")


if __name__ == "__main__":
    process_test.SERVER = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
