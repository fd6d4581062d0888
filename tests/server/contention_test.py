"""nv-memcached with many clients at the same few keys: every reply is a possible one, and what the threads do together
is in order (built with the thread sanitizer, the server says so on standard error).

usage: contention_test.py <nv-memcached> [unittest arguments]
"""

import pathlib
import random
import re
import shutil
import sys
import tempfile
import threading
import time
import unittest

import process_test
import random_seed
from process_test import GOOD, Client, ServerTest

SEED = random_seed.seed_from_environment()
CALLS = 1500  # of each client
CLIENTS = 8
KEYS = 12


class Contention(ServerTest):
    def work(self, me, port, wrong):
        own = random.Random(SEED * 100 + me)
        client = Client(port)
        try:
            for _ in range(CALLS):
                key = f"k{own.randrange(KEYS)}"
                # A value names its key, so that a torn or a foreign one is seen.
                value = f"{key}:" * own.randrange(1, 400)
                call, reply = own.choice((
                    (f"set {key} 0 0 {len(value)}\r\n{value}\r\n", r"STORED"),
                    (f"add {key} 0 {own.choice((0, 1))} {len(value)}\r\n{value}\r\n", r"(NOT_)?STORED"),
                    (f"append {key} 0 0 {len(key) + 1}\r\n{key}:\r\n", r"(NOT_)?STORED"),
                    (f"delete {key}\r\n", r"DELETED|NOT_FOUND"),
                    (f"touch {key} {own.choice((0, 1, 100))}\r\n", r"TOUCHED|NOT_FOUND"),
                    (f"mg {key} t c N10 s\r\n", r"HD t(-1|\d+) c\d+ s\d+( [ZXW])*"),
                    (f"md {key} I T5\r\n", r"HD|NF"),
                    (f"incr n{own.randrange(2)} 1\r\n", r"\d+|NOT_FOUND"),
                    (f"ma n{own.randrange(2)} N0 v\r\n", r"VA \d+"),
                    ("flush_all\r\n" if own.random() < 0.02 else "mn\r\n", r"OK|MN"),
                    ("", "")))
                if call == "":
                    found = client.get(key)
                    if found and found.replace(f"{key}:".encode(), b"") != b"":
                        wrong.append(f"get {key}: {found[:80]}")
                    continue
                said = client.say(call)
                if not re.fullmatch(reply, said.rstrip("\r\n")):
                    wrong.append(f"{call[:60]!r}: {said!r}")
                if said.startswith("VA "):
                    client.line()
        except (ConnectionError, AssertionError, IndexError, TimeoutError, ValueError) as error:
            wrong.append(repr(error))
        finally:
            client.close()

    def run_against(self, *arguments, store):
        port = self.start("-t", "4", *arguments, store=store)
        wrong = []
        threads = [threading.Thread(target=self.work, args=(me, port, wrong)) for me in range(CLIENTS)]
        for thread in threads:
            thread.start()
        # Whoever looks at all items does so meanwhile.
        client = self.connect(port)
        while any(thread.is_alive() for thread in threads):
            self.assertIn("curr_items", client.stats())
            client.stats("slabs")
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        stats = client.stats()
        self.assertGreater(int(stats["cmd_set"]), CALLS)
        self.assertEqual(self.stop(), GOOD, self.said())
        self.assertNotIn("Sanitizer", self.said())

    def on_pool(self, parent, *arguments):
        pools = pathlib.Path(tempfile.mkdtemp(prefix="nv-memcached-", dir=parent))
        self.addCleanup(shutil.rmtree, pools)
        self.run_against(*arguments, store=("--pool", str(pools / "items.nvm")))

    def test_on_shm(self):
        self.on_pool("/dev/shm")

    def test_on_ssd(self):
        self.on_pool("/var/tmp")

    def test_volatile(self):
        self.run_against(store=("--volatile",))


if __name__ == "__main__":
    process_test.SERVER = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
