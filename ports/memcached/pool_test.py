#!/usr/bin/env python3
"""Durable memcached: what survives which end, and what is refused.

usage: pool_test.py SERVER FAILING_SYNC_LIBRARY FOLDER...   pools are made in each of these, the last one is on a disk
"""
import os
import subprocess
import sys
import tempfile
import time
import unittest

from kill_test import Connection, Ended

SERVER = LIBRARY = None
FOLDERS = []


class Server:
    def __init__(self, pool, *arguments, environment=None):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "socket")
        self.log = os.path.join(self.folder.name, "log")
        self.connection = None
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [SERVER, "-s", self.path, "-u", "root", "-e", pool, "-t", "2", *arguments],
                stdout=log, stderr=log, env={**os.environ, **(environment or {})})
        for _ in range(1000):
            try:
                self.connection = Connection(self.path)
                self.connection.socket.settimeout(30)
                if self.connection.call(b"mn") == b"MN":
                    break
            except (OSError, Ended):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.connection is not None:
            self.connection.close()
        self.folder.cleanup()

    def call(self, command):
        return self.connection.call(command)

    def told(self):
        self.process.wait(timeout=20)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def numbers(self, *words):
        """What stats says, by name."""
        self.connection.send(b" ".join((b"stats", *words)) + b"\r\n")
        lines = iter(self.connection.line, b"END")
        return {name: int(number) for _, name, number in (line.split(b" ", 2) for line in lines) if number.isdigit()}

    def store(self, name, count, value, first=0):
        """Sets name0, name1 and so on, some at a time."""
        for at in range(first, first + count, 50):
            keys = [b"%s%d" % (name, i) for i in range(at, min(at + 50, first + count))]
            self.connection.send(b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (k, len(value), value) for k in keys))
            for _ in keys:
                if (line := self.connection.line()) != b"STORED":
                    raise AssertionError(line)

    @staticmethod
    def until(come):
        """Waits for what another thread of the server does."""
        for _ in range(3000):
            if come():
                return
            time.sleep(0.01)
        raise AssertionError("it has not come to that")

    def value(self, key):
        return self.connection.items([key]).get(key, (None,))[0]


class Pools(unittest.TestCase):
    def setUp(self):
        self.paths = [os.path.join(f, f"memcached-test.{os.getpid()}") for f in FOLDERS]
        self.tearDown()

    def tearDown(self):
        for path in self.paths:
            if os.path.exists(path):
                os.unlink(path)

    def test_an_orderly_end_and_a_kill_leave_the_same(self):
        for path in self.paths:
            with Server(path) as server:
                self.assertEqual(server.call(b"set a 7 0 5\r\nhello"), b"STORED")
                self.assertEqual(server.call(b"set n 0 0 2\r\n10"), b"STORED")
                self.assertEqual(server.call(b"incr n 5"), b"15")
                server.process.terminate()
                server.process.wait(timeout=20)
            for _ in range(2):
                with Server(path) as server:
                    self.assertEqual(server.connection.items([b"a", b"n"]),
                                     {b"a": (b"hello", 7, False), b"n": (b"15", 0, False)})

    def test_times_of_items_are_those_of_the_wall_clock(self):
        for path in self.paths:
            with Server(path) as server:
                server.call(b"set long 0 100 1\r\na")
                server.call(b"set short 0 2 1\r\na")
            time.sleep(3.5)
            with Server(path) as server:
                self.assertIsNone(server.value(b"short"))
                left = int(server.call(b"mg long t").split()[1][1:])
                self.assertTrue(90 <= left <= 98, left)

    def test_what_was_flushed_stays_away(self):
        for path in self.paths:
            with Server(path) as server:
                server.call(b"set a 0 0 1\r\na")
                self.assertEqual(server.call(b"flush_all"), b"OK")
            with Server(path) as server:
                self.assertIsNone(server.value(b"a"))
                server.call(b"set b 0 0 1\r\nb")
            with Server(path) as server:
                self.assertIsNone(server.value(b"a"))
                self.assertEqual(server.value(b"b"), b"b")

    def test_no_cas_number_is_given_twice(self):
        path, numbers = self.paths[0], set()
        for i in range(4):
            with Server(path) as server:
                for j in range(3):
                    server.call(b"set a 0 0 1\r\na")
                    numbers.add(server.call(b"mg a c"))
                    self.assertEqual(len(numbers), 3 * i + j + 1)
                server.call(b"delete a")

    def test_a_stale_item_stays_stale(self):
        path = self.paths[0]
        with Server(path) as server:
            server.call(b"set a 0 0 1\r\na")
            self.assertEqual(server.call(b"md a I T30"), b"HD")
            self.assertEqual(server.call(b"mg a s"), b"HD s1 X W")
        with Server(path) as server:
            words = server.call(b"mg a s").split()
            self.assertIn(b"X", words)
            self.assertIn(b"Z", words)
            self.assertNotIn(b"W", words)

    def test_a_full_pool_evicts(self):
        for path in self.paths:
            with Server(path, "-m", "64") as server:
                for first in range(0, 100000, 100):
                    server.connection.send(b"".join(b"set k%d 0 0 1000\r\n%s\r\n" % (first + i, b"x" * 1000)
                                                    for i in range(100)))
                    for _ in range(100):
                        self.assertEqual(server.connection.line(), b"STORED")
                self.assertEqual(server.value(b"k99999"), b"x" * 1000)
                self.assertIsNone(server.value(b"k0"))
            with Server(path, "-m", "64") as server:
                self.assertEqual(server.value(b"k99999"), b"x" * 1000)

    def test_a_page_that_moves_to_a_class_that_grew_meanwhile(self):
        path = self.paths[0]
        arguments = ("-m", "192", "-o", "slab_reassign,slab_automove=0")
        with Server(path, *arguments) as server:
            slabs = server.numbers(b"slabs")
            sizes = {int(n.split(b":")[0]): s for n, s in slabs.items() if n.endswith(b":chunk_size")}
            source, target = (min(c for c, s in sizes.items() if s > n) for n in (11100, 3100))
            pages = b"%d:total_pages" % target
            # An item that has not arrived keeps the first page of its class where it is.
            slow = Connection(server.path)
            slow.send(b"set slow 0 0 11000\r\n" + b"s" * 5000)
            server.until(lambda: server.numbers(b"slabs").get(b"%d:used_chunks" % source) == 1)
            server.store(b"s", 200, b"s" * 11000)
            for i in range(150):
                self.assertEqual(server.call(b"delete s%d" % i), b"DELETED")
            # Of the class after it there are two pages, which its list of pages, of 16 places, must not run into.
            next_value = b"u" * (sizes[target + 1] - 100)
            server.store(b"u", 2 * (1 << 20) // sizes[target + 1], next_value)
            self.assertEqual(server.call(b"slabs reassign %d %d" % (source, target)), b"OK")
            count = 0
            while server.numbers(b"slabs").get(pages, 0) < 16:
                server.store(b"t", 50, b"t" * 3000, count)
                count += 50
            self.assertEqual(server.numbers()[b"slabs_moved"], 0)
            slow.send(b"s" * 6000 + b"\r\n")
            self.assertEqual(slow.line(), b"STORED")
            server.until(lambda: server.numbers()[b"slabs_moved"] == 1)
            server.store(b"t", 10000, b"t" * 3000, count)
            self.assertEqual(server.call(b"slabs reassign %d %d" % (target + 1, source)), b"OK")
            server.until(lambda: server.numbers()[b"slabs_moved"] == 2)
            slow.close()
        with Server(path, *arguments) as server:
            found = server.connection.items(b"t%d" % i for i in range(count + 10000))
            self.assertEqual(len(found), count + 10000)
            self.assertEqual({v[0] for v in found.values()}, {b"t" * 3000})
            self.assertEqual(server.value(b"slow"), b"s" * 11000)

    def test_other_settings_and_other_files_are_refused(self):
        path = self.paths[0]
        with Server(path) as server:
            server.call(b"set a 0 0 1\r\na")
            with Server(path) as second:
                self.assertIn(f"{server.process.pid}", second.told())
        for arguments, name in ((("-m", "128"), "maxbytes"), (("-I", "2m"), "item_size_max"), (("-C",), "use_cas"),
                                (("-o", "hash_algorithm=jenkins"), "hash_algorithm"), (("-f", "2"), "slab_config")):
            with Server(path, *arguments) as server:
                self.assertIn(f"another value of '{name}'", server.told())
        with Server(path) as server:
            self.assertEqual(server.value(b"a"), b"a")
        os.unlink(path)
        with open(path, "wb") as file:
            file.write(b"no pool\n" * 10000)
        with Server(path) as server:
            self.assertIn("not a Holdfast pool", server.told())

    def test_after_a_failed_sync_nothing_is_answered(self):
        path = self.paths[-1]
        mark = path + ".fail"
        environment = {"LD_PRELOAD": LIBRARY, "FAIL_SYNCS": mark}
        try:
            with Server(path, environment=environment) as server:
                for i in range(20):
                    self.assertEqual(server.call(b"set k%d 0 0 1\r\na" % i), b"STORED")
                with open(mark, "wb"):
                    pass
                with self.assertRaises(Ended):
                    server.call(b"set lost 0 0 1\r\na")
                self.assertIn("commit", server.told())
        finally:
            os.unlink(mark)
        with Server(path) as server:
            self.assertEqual(len(server.connection.items(b"k%d" % i for i in range(20))), 20)


if __name__ == "__main__":
    SERVER, LIBRARY, *FOLDERS = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
