"""What slow clients of nv-memcached cost: memory for what they have sent, up to a limit, and none when they are gone.

usage: slow_test.py <nv-memcached> [unittest arguments]
"""

import pathlib
import sys
import tempfile
import time
import unittest

import process_test
from process_test import ServerTest

MIB = 1 << 20


class Slow(ServerTest):
    def memory(self):
        """Resident and not of a file."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

    def settled(self, least, most):
        """The memory, after some time in which it may come to lie between these."""
        for _ in range(200):
            found = self.memory()
            if least <= found <= most:
                return found
            time.sleep(0.05)
        return self.memory()

    def warm(self, *arguments):
        """Starts, and has used all parts of the server once."""
        port = self.start("-c", "3000", *arguments)
        clients = [self.connect(port) for _ in range(20)]
        for client in clients:
            client.send(b"set a 0 0 100000\r\n" + b"v" * 100000 + b"\r\nget a\r\n")
        for client in clients:
            self.assertEqual(client.line(), "STORED\r\n")
            client.file.read(len("VALUE a 0 100000\r\n") + 100002 + len("END\r\n"))
        self.leave(clients)
        time.sleep(1.5)
        return port, self.memory()

    def wait_for_refusals(self, looking, least):
        """Until so many clients are in the middle of values that the server has no memory for."""
        self.wait_until(lambda: list(looking.stats("conns").values()).count("conn_swallow") >= least,
                        f"{least} values are refused")

    def leave(self, clients):
        for client in clients:
            client.close()
            self.clients.remove(client)

    def test_in_the_middle_of_a_command_cost_what_they_have_sent(self):
        port, before = self.warm()
        clients = [self.connect(port) for _ in range(1000)]
        for piece in ("set key", "0 0 0 10", "\r\n12345"):
            for client in clients:
                client.send(piece)
            time.sleep(0.2)
        self.assertLess(self.settled(0, before + 6 * MIB) - before, 6 * MIB)
        for client in clients:
            client.send("67890\r\n")
        for client in clients:
            self.assertEqual(client.line(), "STORED\r\n")
        self.leave(clients)
        self.assertLess(self.settled(0, before + 4 * MIB) - before, 4 * MIB)

    def test_with_large_values_have_as_much_memory_as_items_and_give_it_back(self):
        port, before = self.warm("-m", "32")
        clients = [self.connect(port) for _ in range(120)]
        half, rest = b"v" * (500 * 1024), b"v" * (500 * 1024) + b"\r\n"
        for i, client in enumerate(clients):
            client.send(b"set k%d 0 0 %d\r\n" % (i, 2 * len(half)) + half)
        other = self.connect(port)
        self.wait_for_refusals(other, 80)
        time.sleep(0.5)
        self.assertLess(self.settled(0, before + 40 * MIB) - before, 40 * MIB)
        self.assertEqual(other.say("set small 0 0 1\r\nx\r\n"), "STORED\r\n")
        answers = []
        for client in clients:
            client.send(rest + b"mn\r\n")
            answers.append(client.line())
            self.assertEqual(client.line(), "MN\r\n")
        stored = answers.count("STORED\r\n")
        self.assertEqual(answers.count("SERVER_ERROR out of memory storing object\r\n"), len(answers) - stored)
        self.assertGreaterEqual(stored, 20)
        self.assertLessEqual(stored, 40)
        # Who was refused may come again.
        self.assertEqual(clients[-1].say(b"set again 0 0 %d\r\n" % (2 * len(half)) + half + rest), "STORED\r\n")
        self.assertEqual(len(clients[-1].get("again")), 2 * len(half))
        other.say("flush_all\r\n")
        self.leave(clients)
        self.assertLess(self.settled(0, before + 8 * MIB) - before, 8 * MIB)

    def test_that_go_in_the_middle_of_a_value_give_everything_back(self):
        port, before = self.warm("-m", "32")
        for _ in range(5):
            clients = [self.connect(port) for _ in range(30)]
            for client in clients:
                client.send(b"set k 0 0 1000000\r\n" + b"v" * 400_000)
            time.sleep(0.2)
            self.leave(clients)
        self.assertLess(self.settled(0, before + 4 * MIB) - before, 4 * MIB)
        client = self.connect(port)
        for i in range(10):
            self.assertEqual(client.say(b"set k%d 0 0 1000000\r\n" % i + b"v" * 1_000_000 + b"\r\n"), "STORED\r\n")

    def test_after_a_refused_value_are_answered_at_once(self):
        port, _ = self.warm("-m", "4", "-I", "1m")
        client, looking = self.connect(port), self.connect(port)
        greedy = [self.connect(port) for _ in range(8)]
        for g in greedy:
            g.send(b"set other 0 0 1000000\r\n" + b"v" * 100_000)
        self.wait_for_refusals(looking, 4)
        # Its line comes in two parts: the server waits for more than the next command is long.
        client.send(b"set a-key-of-some-length 0 0 1000000")
        time.sleep(0.3)
        client.send(b"\r\n" + b"v" * 1_000_000 + b"\r\n")
        self.assertEqual(client.line(), "SERVER_ERROR out of memory storing object\r\n")
        self.assertEqual(client.say("mn\r\n"), "MN\r\n")

    def test_that_send_more_than_is_carried_out_have_to_wait(self):
        port, before = self.warm()
        client = self.connect(port)
        most = 0
        for _ in range(40):
            client.send(b"mg none q\r\n" * 50_000)
            most = max(most, self.memory())
        self.assertEqual(client.say("mn\r\n"), "MN\r\n")
        self.assertLess(most - before, 4 * MIB)

    def test_refused_values_take_the_old_ones_with_them(self):
        port, _ = self.warm("-m", "4", "-I", "1m")
        client, looking, greedy = self.connect(port), self.connect(port), [self.connect(port) for _ in range(8)]
        for verb in ("set", "ms"):
            self.assertEqual(client.say("set k 0 0 1\r\nx\r\n"), "STORED\r\n")
            for g in greedy:
                g.send(b"set other 0 0 1000000\r\n" + b"v" * 100_000)
            self.wait_for_refusals(looking, 4)
            client.send(b"set k 0 0 1000000 noreply\r\n" if verb == "set" else b"ms k 1000000 q\r\n")
            client.send(b"v" * 1_000_000 + b"\r\n")
            if verb == "ms":
                self.assertEqual(client.line(), "SERVER_ERROR out of memory storing object\r\n")
            self.assertIsNone(client.get("k"))
            for g in greedy:
                g.send(b"v" * 900_000 + b"\r\n")
                self.assertIn(g.line(), ("STORED\r\n", "SERVER_ERROR out of memory storing object\r\n"))
                self.assertEqual(g.say("mn\r\n"), "MN\r\n")


class SlowOnPool(Slow):
    def setUp(self):
        super().setUp()
        # Where items are no memory of the process alone.
        pools = tempfile.TemporaryDirectory(prefix="nv-memcached-", dir="/dev/shm")
        self.addCleanup(pools.cleanup)
        self.store = ("--pool", pools.name + "/items.nvm")


if __name__ == "__main__":
    process_test.SERVER = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
