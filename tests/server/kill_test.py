"""nv-memcached with its items in a pool, stopped and killed: what was acknowledged is there when it runs again.

usage: kill_test.py <nv-memcached> [unittest arguments]
"""

import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import process_test
import random_seed
from process_test import GOOD, UNAVAILABLE, Client, ServerTest

SEED = random_seed.seed_from_environment()


class OnMedium:
    """The tests, once for each medium."""

    parent = None

    def setUp(self):
        super().setUp()
        self.pools = pathlib.Path(tempfile.mkdtemp(prefix="nv-memcached-", dir=self.parent))
        self.addCleanup(shutil.rmtree, self.pools)
        self.pool = self.pools / "items.nvm"

    def run_on_pool(self, *arguments):
        """Starts the server on the pool and connects."""
        self.port = self.start(*arguments, store=("--pool", str(self.pool)))
        return self.connect(self.port)

    def test_keeps_everything_over_a_stop_and_over_a_kill(self):
        client = self.run_on_pool()
        self.assertEqual(client.say("set a 7 0 3\r\nabc\r\n"), "STORED\r\n")
        self.assertEqual(client.say("set n 0 0 2\r\n41\r\n"), "STORED\r\n")
        self.assertEqual(client.say("incr n 1\r\n"), "42\r\n")
        self.assertEqual(client.say("set gone 0 0 1\r\nx\r\n"), "STORED\r\n")
        self.assertEqual(client.say("delete gone\r\n"), "DELETED\r\n")
        self.assertEqual(client.say("ms s 2 T500\r\nhi\r\n"), "HD\r\n")
        self.assertEqual(client.say("md s I\r\n"), "HD\r\n")
        big = os.urandom(900_000)
        client.send(b"set big 0 0 %d\r\n%s\r\n" % (len(big), big))
        self.assertEqual(client.line(), "STORED\r\n")
        self.assertEqual(client.say("append a 0 0 1\r\nd\r\n"), "STORED\r\n")
        for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
            self.stop(how)
            client = self.run_on_pool()
            client.send("get a\r\n")
            self.assertEqual([client.line() for _ in range(3)], ["VALUE a 7 4\r\n", "abcd\r\n", "END\r\n"])
            self.assertEqual(client.get("n"), b"42")
            self.assertIsNone(client.get("gone"))
            self.assertEqual(client.get("big"), big)
            self.assertEqual(client.stats()["curr_items"], "4")
        self.assertRegex(client.say("mg s t\r\n"), r"HD t(500|49\d) X W\r\n")

    def store_and_damage(self):
        """Items a, b, c and n, of which b and n are damaged afterwards."""
        client = self.run_on_pool()
        for key in "abc":
            self.assertEqual(client.say(f"set {key} 5 0 12\r\nvalue-of-{key}-1\r\n"), "STORED\r\n")
        self.assertEqual(client.say("set n 0 0 9\r\n123454321\r\n"), "STORED\r\n")
        self.assertEqual(self.stop(), GOOD)
        image = self.pool.read_bytes()
        self.pool.write_bytes(image.replace(b"value-of-b-1", b"value-of-b-2").replace(b"123454321", b"123454322"))

    def test_serves_damaged_items_where_it_is_told_not_to_look(self):
        self.store_and_damage()
        client = self.run_on_pool("--no-verify-reads")
        self.assertEqual([client.get(key) for key in ("a", "b", "n")], [b"value-of-a-1", b"value-of-b-2", b"123454322"])
        self.assertEqual(client.say("incr n 1\r\n"), "NOT_FOUND\r\n")  # what it changes it looks at

    def test_does_not_start_where_what_it_knows_of_all_items_is_damaged(self):
        client = self.run_on_pool()
        self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
        due = 2_000_000_000
        self.assertEqual(client.say(f"flush_all {due}\r\n"), "OK\r\n")
        self.assertEqual(self.stop(), GOOD)
        image = self.pool.read_bytes()
        limit = (1 << 20) + 1  # of the first block of cas ids
        for what, offset in ((limit, 0), (due, 0), (due, -8)):  # a value, a value, a key
            damaged = bytearray(image)
            word = struct.pack("<Q", what)
            at = image.find(word)
            self.assertGreater(at, 0)
            while at >= 0:
                damaged[at + offset] ^= 16
                at = image.find(word, at + 1)
            self.pool.write_bytes(damaged)
            refused = subprocess.run([process_test.SERVER, "-p", "-1", "--pool", self.pool], capture_output=True,
                                     text=True, timeout=20, check=False)
            self.assertEqual(refused.returncode, UNAVAILABLE, what)
            self.assertIn("nv-memcached state", refused.stderr)
        self.pool.write_bytes(image)
        self.assertEqual(self.run_on_pool().get("a"), b"x")

    def test_serves_no_item_whose_bytes_are_damaged(self):
        self.store_and_damage()
        client = self.run_on_pool()
        self.assertEqual([client.get(key) for key in ("a", "b", "c", "n")], [b"value-of-a-1", None, b"value-of-c-1", None])
        self.assertIn('the item "b" fails its checksum', self.said())
        self.assertEqual(client.say("incr n 1\r\n"), "NOT_FOUND\r\n")
        self.assertEqual(client.say("append b 0 0 1\r\nx\r\n"), "NOT_STORED\r\n")
        self.assertEqual(client.say("add b 0 0 3\r\nnew\r\n"), "STORED\r\n")
        self.assertEqual(client.say("set n 0 0 1\r\n1\r\n"), "STORED\r\n")
        self.assertEqual(client.stats("holdfast")["damaged_misses"], "5")
        for how in (signal.SIGKILL, signal.SIGTERM):
            self.assertEqual([client.get(key) for key in ("b", "n")], [b"new", b"1"])
            self.assertEqual(client.stats()["curr_items"], "4")
            self.stop(how)
            client = self.run_on_pool()

    def test_keeps_marks_and_expiries(self):
        client = self.run_on_pool()
        begun = time.time()
        client.say("set a 0 0 1\r\nx\r\n")
        self.assertEqual(client.say("touch a 3000\r\n"), "TOUCHED\r\n")
        client.say("set short 0 2 1\r\nx\r\n")
        self.assertEqual(client.say("mg gap N1000 t\r\n"), "HD t1000 W\r\n")
        self.stop(signal.SIGKILL)
        time.sleep(2)
        client = self.run_on_pool()
        self.assertIsNone(client.get("short"))
        for key, seconds, marks in (("a", 3000, ""), ("gap", 1000, " Z")):
            left = re.fullmatch(rf"HD t(\d+){marks}\r\n", client.say(f"mg {key} t\r\n"))
            passed = int(time.time()) - int(begun - 0.01)  # the server's clock is read coarsely
            self.assertTrue(left and seconds - passed <= int(left[1]) <= seconds - 2 + 1, f"{key}: {left}, {passed} s")

    def test_gives_no_cas_id_twice_and_brings_nothing_flushed_back(self):
        ids = set()
        for _ in range(4):
            client = self.run_on_pool()
            self.assertIsNone(client.get("old"))
            for i in range(20):
                reply = client.say(f"ms k{i} 1 c\r\nx\r\n")
                new = int(reply.split()[1][1:])
                self.assertTrue(not ids or new > max(ids))
                ids.add(new)
            client.say("set old 0 0 1\r\nx\r\n")
            self.assertEqual(client.say("flush_all\r\n"), "OK\r\n")
            self.assertEqual(client.say("set new 0 0 1\r\nx\r\n"), "STORED\r\n")
            self.stop(signal.SIGKILL)
        client = self.run_on_pool()
        self.assertEqual(client.get("new"), b"x")
        self.assertIsNone(client.get("k0"))

    def test_carries_out_a_flush_that_was_put_off(self):
        for delay in (2, 16, 120):  # until the server runs again before the flush is due
            client = self.run_on_pool()
            client.say("set a 0 0 1\r\nx\r\n")
            begun = time.monotonic()
            self.assertEqual(client.say(f"flush_all {delay}\r\n"), "OK\r\n")
            self.stop(signal.SIGKILL)
            client = self.run_on_pool()
            if client.get("a") == b"x":
                break
            self.assertGreaterEqual(time.monotonic() - begun, delay - 1)
            self.stop(signal.SIGKILL)
        self.wait_until(lambda: client.get("a") is None, "the flush is carried out")
        self.assertGreaterEqual(time.monotonic() - begun, delay - 1.1)

    def test_loses_no_acknowledged_change_to_kills(self):
        self.assertEqual(self.losses(6), [])

    def test_loses_none_whatever_is_chosen_for_its_structures(self):
        for chosen in (("--links", "cache", "--recovery", "search", "--area", "65536"),
                       ("--allocation", "place", "--recovery", "traversal")):
            self.assertEqual(self.losses(2, *chosen), [])
            self.pool.unlink()

    def losses(self, rounds, *arguments):
        """Kills a server with these arguments so often; tells what then is not as it was acknowledged.

        Each client has keys of its own, and knows for each what was acknowledged and what was under way.
        """
        clients = 4
        lost = []
        chance = random.Random(SEED)
        acknowledged = [{} for _ in range(clients)]
        for round_number in range(rounds):
            self.run_on_pool("-t", "2", *arguments)
            open_calls = [None] * clients
            stop = threading.Event()

            def work(me, round_number=round_number, open_calls=open_calls, stop=stop):
                own = random.Random(SEED * 1000 + round_number * 10 + me)
                state = acknowledged[me]
                client = Client(self.port)
                try:
                    while not stop.is_set():
                        key = f"c{me}-{own.randrange(50)}"
                        kind = own.random()
                        if kind < 0.6:
                            value = (f"{round_number}." * own.randrange(1, 60)).encode() + str(own.random()).encode()
                            open_calls[me] = (key, value)
                            client.send(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value), value))
                            assert client.line() == "STORED\r\n"
                            state[key] = value
                        elif kind < 0.8:
                            open_calls[me] = (key, None)
                            found = client.say(f"delete {key}\r\n")
                            assert found == ("DELETED\r\n" if key in state else "NOT_FOUND\r\n"), found
                            state.pop(key, None)
                        else:
                            open_calls[me] = None
                            assert client.get(key) == state.get(key), key
                        open_calls[me] = None
                except (ConnectionError, AssertionError, IndexError, TimeoutError) as error:
                    if not stop.is_set():
                        wrong.append(repr(error))
                finally:
                    client.close()

            wrong = []
            threads = [threading.Thread(target=work, args=(me,)) for me in range(clients)]
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(0.1, 0.5))
            stop.set()  # what breaks from here on is the kill's doing
            self.process.kill()
            self.process.wait()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])
            client = self.run_on_pool()
            for me in range(clients):
                for number in range(50):
                    key = f"c{me}-{number}"
                    found = client.get(key)
                    possible = {acknowledged[me].get(key)}
                    if open_calls[me] is not None and open_calls[me][0] == key:
                        possible.add(open_calls[me][1])
                    if found not in possible:
                        lost.append(f"{key}: found {found}, expected one of {possible}, seed {SEED}")
                    if found is None:
                        acknowledged[me].pop(key, None)
                    else:
                        acknowledged[me][key] = found
            self.stop(chance.choice((signal.SIGTERM, signal.SIGKILL)))
        return lost

    def test_counts_what_was_there(self):
        client = self.run_on_pool()
        client.send("".join(f"set k{i} 0 0 10 noreply\r\n0123456789\r\n" for i in range(5000)) + "mn\r\n")
        self.assertEqual(client.line(), "MN\r\n")
        before = client.stats()["bytes"]
        self.stop(signal.SIGKILL)
        client = self.run_on_pool()
        for _ in range(100):
            if client.stats()["bytes"] == before:
                break
            time.sleep(0.05)
        self.assertEqual(client.stats()["bytes"], before)
        client.send("".join(f"delete k{i} noreply\r\n" for i in range(5000)) + "mn\r\n")
        self.assertEqual(client.line(), "MN\r\n")
        self.assertEqual(client.stats()["bytes"], "0")

    def test_starts_after_a_kill_at_any_moment_of_its_first_start(self):
        chance = random.Random(SEED)
        for turn in range(25):
            pool = self.pools / f"first{turn}.nvm"
            first = subprocess.Popen([process_test.SERVER, "-p", "-1", "--pool", pool], stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0, 0.04))
            first.kill()
            first.wait()
            self.pool = pool
            client = self.run_on_pool()
            self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
            self.assertEqual(self.stop(), GOOD)
            self.assertEqual([p.name for p in self.pools.iterdir()], [pool.name])
            pool.unlink()

    def test_leaves_a_pool_to_its_owner(self):
        client = self.run_on_pool()
        client.say("set a 0 0 1\r\nx\r\n")
        second = subprocess.run([process_test.SERVER, "-p", "-1", "--pool", self.pool], capture_output=True, text=True,
                                timeout=20, check=False)
        self.assertEqual(second.returncode, UNAVAILABLE)
        self.assertIn(str(self.pool), second.stderr)
        self.assertEqual(client.get("a"), b"x")
        self.assertEqual(self.stop(), GOOD)

    def test_refuses_what_is_no_pool(self):
        self.pool.write_bytes(b"something else, " * 1000)
        before = self.pool.read_bytes()
        done = subprocess.run([process_test.SERVER, "-p", "-1", "--pool", self.pool], capture_output=True, text=True,
                              timeout=20, check=False)
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn(str(self.pool), done.stderr)
        self.assertEqual(self.pool.read_bytes(), before)


class OnShm(OnMedium, ServerTest):
    parent = "/dev/shm"


class OnSsd(OnMedium, ServerTest):
    parent = "/var/tmp"

    def test_acknowledges_a_group_of_clients_by_one_wait(self):
        client = self.run_on_pool("-t", "1")
        others = [self.connect(self.port) for _ in range(20)]
        before = int(client.stats("holdfast")["durable_waits"])
        for turn in range(10):
            # A server that runs meanwhile may see them one by one.
            self.process.send_signal(signal.SIGSTOP)
            for i, other in enumerate(others):
                other.send(f"set k{i} 0 0 1\r\n{turn}\r\n")
            self.process.send_signal(signal.SIGCONT)
            for other in others:
                self.assertEqual(other.line(), "STORED\r\n")
        waits = int(client.stats("holdfast")["durable_waits"]) - before
        self.assertGreater(waits, 0)
        self.assertLess(waits, 150)

    def test_waits_for_nothing_when_durability_is_relaxed(self):
        client = self.run_on_pool("--durability", "relaxed")
        self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
        self.assertEqual(client.stats("holdfast")["durable_waits"], "0")
        self.assertEqual(self.stop(), GOOD)
        client = self.run_on_pool()
        self.assertEqual(client.get("a"), b"x")

    def test_finds_what_is_acknowledged_too_early(self):
        # A server that does not wait for the log: kills must lose something, or the test above could not fail.
        for _ in range(5):
            lost = self.losses(4, "--durability", "relaxed")
            if lost:
                break
        self.assertTrue(lost)


if __name__ == "__main__":
    process_test.SERVER = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
