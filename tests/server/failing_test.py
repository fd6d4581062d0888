"""nv-memcached on a disk whose syncs, writes and growth fail: what was acknowledged is there at the next start, and
nothing else is told.

usage: failing_test.py <nv-memcached> <failing_calls.so> [unittest arguments]

NVM_RUNS=N: so many failures at chosen calls (a campaign).
"""

import errno
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import process_test
import random_seed
from process_test import GOOD, ServerTest

FAILED = 5
CALLS = None
RUNS = int(os.environ.get("NVM_RUNS", "12"))
SEED = random_seed.seed_from_environment()
ALL_COMMANDS = ("get a", "gets a", "gat 10 a", "set a 0 0 1\r\nx", "add z 0 0 1\r\nx", "replace a 0 0 1\r\nx",
                "append a 0 0 1\r\nx", "prepend a 0 0 1\r\nx", "cas a 0 0 1 1\r\nx", "delete a", "delete none", "incr n 1",
                "decr n 1", "touch a 9", "touch none 9", "flush_all", "flush_all 10", "mg a v", "mg none q", "ms a 1\r\nx",
                "ms a 1 q\r\nx", "md a", "md none q", "ma n", "me a", "stats items", "lru_crawler crawl all")


class Failing(ServerTest):
    def setUp(self):
        super().setUp()
        self.pools = pathlib.Path(tempfile.mkdtemp(prefix="nv-memcached-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.pools)
        self.failing = self.pools / "failing"
        self.environment = {"LD_PRELOAD": CALLS, "NVM_FAILING_CALLS": str(self.failing),
                            "ASAN_OPTIONS": "verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", "")}

    def run_on_pool(self, *arguments):
        self.failing.unlink(missing_ok=True)
        pool = self.pools / "items.nvm"
        self.port = self.start("-t", "1", "-m", "256", "--pool-size", "4m", *arguments, store=("--pool", str(pool)))
        return self.connect(self.port)

    def make_fail(self, call, code=errno.EIO, skip=0, most=""):
        part = self.pools / "part"
        part.write_text(f"{call} {code} {skip} {most}")
        part.rename(self.failing)

    def sets(self, client, items):
        """All of them in one message; those that are acknowledged, and the other answers."""
        acknowledged, others = [], []
        try:
            client.send(b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (k.encode(), len(v), v) for k, v in items))
            for key, _ in items:
                line = client.line()
                if line == "STORED\r\n":
                    acknowledged.append(key)
                else:
                    others.append(line)
                    if not line:
                        break
        except (ConnectionResetError, BrokenPipeError):
            others.append("")
        return acknowledged, others

    def fill_until_it_fails(self, client, start=0):
        """Messages of four small items and a large one, until one is not stored."""
        acknowledged = []
        for turn in range(start, start + 5000):
            items = [(f"{turn}s{i}", b"small") for i in range(4)] + [(f"{turn}b", b"b" * 60_000)]
            stored, others = self.sets(client, items)
            acknowledged += stored
            if others:
                return acknowledged, stored, others
        self.fail("nothing failed")

    def expect_kept(self, client, keys):
        self.assertEqual([k for k in keys if client.get(k) is None], [])

    def test_acknowledges_nothing_in_a_message_whose_growth_fails(self):
        client = self.run_on_pool()
        self.make_fail("growth")
        acknowledged, of_the_last, others = self.fill_until_it_fails(client)
        self.assertEqual(of_the_last, [])
        self.assertEqual(set(others), {""})
        self.assertEqual(self.process.wait(timeout=20), FAILED)
        self.assertIn("the pool has failed, nothing more is acknowledged: NVM_E_I", self.said())
        self.expect_kept(self.run_on_pool(), acknowledged)

    def test_answers_every_command_by_an_error_when_it_is_to_stay(self):
        client = self.run_on_pool("--on-failure", "stay", "--metrics-port", "-1")
        metrics = next(word for word in self.said().split() if word.startswith("http://127.0.0.1:"))
        self.assertEqual(client.stats("holdfast")["pool_failed"], "0")
        self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
        self.assertEqual(client.say("set n 0 0 1\r\n5\r\n"), "STORED\r\n")
        self.make_fail("fdatasync")
        # A failure that another thread meets first is told before the command begins.
        self.assertIn(client.say("set b 0 0 1\r\nx\r\n"), ("", "SERVER_ERROR the pool has failed\r\n"))
        client = self.connect(self.port)
        for command in ALL_COMMANDS:
            self.assertEqual(client.say(f"{command}\r\n"), "SERVER_ERROR the pool has failed\r\n", command)
        for silent in ("set a 0 0 1 noreply\r\nx", "delete a noreply", "incr n 1 noreply", "flush_all noreply"):
            self.assertEqual(client.say(f"{silent}\r\nmn\r\n"), "MN\r\n", silent)
        self.assertEqual(client.stats()["pool_failed"], "1")
        with urllib.request.urlopen(metrics, timeout=10) as page:
            self.assertIn("nv_memcached_pool_failed 1\n", page.read().decode())
        self.assertEqual(self.said().count("the pool has failed"), 1)
        self.assertEqual(self.stop(), FAILED)
        client = self.run_on_pool()
        self.assertEqual(client.get("a"), b"x")
        self.assertEqual(client.get("n"), b"5")

    def use_much_memory(self):
        """Until the server ends the connection, if it does."""
        large = "x" * 200_000
        try:
            client = self.connect(self.port)
            for command in ("stats", "stats conns", "get large large other", f"set other 0 0 200000\r\n{large}",
                            "mg large v", "get " + "large " * 30, "lru_crawler metadump all"):
                client.send(command.encode() + b"\r\n")
            client.say("mn\r\n")
            client.close()
        except (ConnectionResetError, BrokenPipeError):
            pass

    def test_goes_on_where_a_client_gets_no_memory(self):
        if b"__libc_malloc" not in pathlib.Path(CALLS).read_bytes():
            self.skipTest("a sanitizer has an allocator of its own")
        client = self.run_on_pool()
        self.assertEqual(client.say("set large 0 0 200000\r\n" + "x" * 200_000 + "\r\n"), "STORED\r\n")
        ended = skip = 0
        # Which of the program's threads allocates next differs from run to run.
        while skip < 60 or (ended <= 5 and skip < 600):
            self.make_fail("malloc", errno.ENOMEM, skip % 60, 1)
            self.use_much_memory()
            self.failing.unlink()
            self.assertIsNone(self.process.poll(), skip)
            other = self.connect(self.port)
            self.assertEqual(len(other.get("large")), 200_000)
            ended = int(other.stats()["conn_no_memory"])
            other.close()
            skip += 1
        self.assertGreater(ended, 5)
        # Each as the first of its worker.
        for skip in range(20):
            self.assertEqual(self.stop(), GOOD)
            self.run_on_pool().close()
            self.make_fail("malloc", errno.ENOMEM, skip, 1)
            self.use_much_memory()
            self.failing.unlink()
            self.assertIsNone(self.process.poll(), skip)
            self.assertEqual(len(self.connect(self.port).get("large")), 200_000)
        self.assertEqual(self.stop(), GOOD)

    def test_of_volatile_items_goes_on_where_a_client_gets_no_memory(self):
        if b"__libc_malloc" not in pathlib.Path(CALLS).read_bytes():
            self.skipTest("a sanitizer has an allocator of its own")
        self.port = self.start("-t", "1", "-m", "64")
        for skip in range(80):
            self.make_fail("malloc", errno.ENOMEM, skip, 1)
            self.use_much_memory()
            try:
                client = self.connect(self.port)
                client.send(b"".join(b"set k%d 0 0 1\r\nx\r\n" % i for i in range(50)))
                client.send(b"get " + b"k1 k2 k3 " * 20 + b"\r\nmn\r\n")
                client.say("mn\r\n")
                client.close()
            except (ConnectionResetError, BrokenPipeError):
                pass
            self.failing.unlink()
            self.assertIsNone(self.process.poll(), skip)
            other = self.connect(self.port)
            self.assertEqual(other.say("set last 0 0 1\r\ny\r\n"), "STORED\r\n")
            self.assertEqual(other.get("last"), b"y")
            other.close()
        self.assertEqual(self.stop(), GOOD)

    def expect_refusals(self):
        """Of a server that stays, whose connection has been broken."""
        client = self.connect(self.port)
        for command in ALL_COMMANDS:
            self.assertEqual(client.say(f"{command}\r\n"), "SERVER_ERROR the pool has failed\r\n", command)
        stats = client.stats()
        self.assertEqual(stats["pool_failed"], "1")
        self.assertNotIn("curr_items", stats)  # nobody knows
        self.assertEqual(self.said().count("the pool has failed"), 1)

    def test_tells_also_those_who_do_not_wait(self):
        for call in ("fdatasync", "pwrite"):
            client = self.run_on_pool("--durability", "relaxed", "--on-failure", "stay", "--metrics-port", "-1")
            metrics = next(word for word in self.said().split() if word.startswith("http://127.0.0.1:"))
            self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
            # Waits for the log, where the item is as well; due in weeks.
            self.assertEqual(client.say("flush_all 2000000\r\n"), "OK\r\n")
            self.make_fail(call)
            answer = "STORED\r\n"
            end = time.monotonic() + 15
            while answer == "STORED\r\n" and time.monotonic() < end:
                answer = client.say("set b 0 0 1\r\nx\r\n")
                time.sleep(0.01)
            self.assertIn(answer, ("", "SERVER_ERROR the pool has failed\r\n"), call)
            self.expect_refusals()
            with urllib.request.urlopen(metrics, timeout=10) as page:
                text = page.read().decode()
            self.assertIn("nv_memcached_pool_failed 1\n", text)
            self.assertNotIn("nv_memcached_items ", text)
            self.assertEqual(self.stop(), FAILED)
            client = self.run_on_pool()
            self.assertEqual(client.get("a"), b"x")
            self.assertEqual(self.stop(), GOOD)

    def test_ends_where_a_relaxed_one_is_to_end(self):
        client = self.run_on_pool("--durability", "relaxed")
        self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")  # and ids for more of them
        self.make_fail("fdatasync")
        client.say("set b 0 0 1\r\nx\r\n")
        self.assertEqual(self.process.wait(timeout=20), FAILED)
        self.assertIn("the pool has failed, nothing more is acknowledged: NVM_E_I", self.said())

    def test_says_at_the_end_that_what_came_last_may_be_lost(self):
        client = self.run_on_pool("--durability", "relaxed", "--on-failure", "stay")
        self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
        self.make_fail("pwrite")
        self.assertEqual(self.stop(), FAILED)
        self.assertIn("the pool has failed", self.said())

    def fail_while_nobody_asks(self, *arguments):
        """Until the checkpoint fails that comes after what is stored: it may have come before the fault is there."""
        client = self.run_on_pool(*arguments)
        for _ in range(10):
            self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
            self.make_fail("pwrite")
            end = time.monotonic() + 4
            while time.monotonic() < end:
                if "the pool has failed" in self.said():
                    return
                time.sleep(0.05)
            self.failing.unlink()
        self.fail("nothing was told")

    def test_tells_of_a_failure_while_nobody_asks(self):
        self.fail_while_nobody_asks("--on-failure", "stay")
        self.expect_refusals()
        self.assertEqual(self.stop(), FAILED)
        self.assertEqual(self.run_on_pool().get("a"), b"x")

    def test_ends_by_a_failure_while_nobody_asks(self):
        self.fail_while_nobody_asks()
        self.assertEqual(self.process.wait(timeout=20), FAILED)
        self.assertEqual(self.run_on_pool().get("a"), b"x")

    def test_a_full_pool_gives_room_within_a_message_and_replies_stay_what_they_are(self):
        """A large value is sent from where it lies; what removes it and takes its room comes in the same message."""
        client = self.run_on_pool("-M")
        self.make_fail("fallocate", errno.ENOSPC)
        old, new = b"v" * 6000, b"n" * 6000
        stored, others = [], []
        while not others:
            more, others = self.sets(client, [(f"{len(stored) + i}", old) for i in range(8)])
            stored += more
        self.assertGreater(len(stored), 100)
        for key in stored[:40]:
            client.send(b"get %s\r\ndelete %s\r\nset n%s 0 0 %d\r\n%s\r\n" % (*[key.encode()] * 3, len(new), new))
            self.assertEqual(client.line(), f"VALUE {key} 0 {len(old)}\r\n")
            self.assertEqual(client.line(), old.decode() + "\r\n")
            self.assertEqual([client.line() for _ in range(3)], ["END\r\n", "DELETED\r\n", "STORED\r\n"])
        self.assertEqual([k for k in stored[:40] if client.get(f"n{k}") != new], [])
        self.assertEqual(self.stop(), GOOD)

    def test_has_failed_where_its_file_is_cut_off(self):
        on_shm = pathlib.Path(tempfile.mkdtemp(prefix="nv-memcached-", dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, on_shm)
        for folder in (self.pools, on_shm):
            pool = folder / "cut.nvm"
            self.environment = {}
            self.port = self.start("-t", "2", "-m", "64", "--on-failure", "stay", store=("--pool", str(pool)))
            client = self.connect(self.port)
            stored, others = self.sets(client, [(f"k{i}", b"v" * (5000 if i % 7 == 0 else 50)) for i in range(400)])
            self.assertEqual((len(stored), others), (400, []))
            os.truncate(pool, 4096)
            # The connection breaks for which the failure is found; later ones are told.
            told = False
            for i in range(400):
                answer = self.connect(self.port).say(f"get k{i}\r\n")
                good = f"VALUE k{i} 0 {5000 if i % 7 == 0 else 50}\r\n"
                self.assertIn(answer, ("", "SERVER_ERROR the pool has failed\r\n", good))
                answer = self.connect(self.port).say(f"set n{i} 0 0 1\r\nx\r\n")
                self.assertIn(answer, ("", "SERVER_ERROR the pool has failed\r\n", "STORED\r\n"))
                told = answer.startswith("SERVER_ERROR")
                if told:
                    break
            self.assertTrue(told)
            client = self.connect(self.port)
            for command in ALL_COMMANDS:
                self.assertEqual(client.say(f"{command}\r\n"), "SERVER_ERROR the pool has failed\r\n", command)
            self.assertEqual(client.stats()["pool_failed"], "1")
            self.assertIn("the pool has failed, nothing more is acknowledged: NVM_E_I", self.said())
            self.assertIn("cut off to 4096 bytes", self.said())
            self.assertEqual(self.stop(), FAILED)
            self.assertLessEqual(pool.stat().st_size, 4096)

    def test_goes_on_where_only_the_room_is_missing(self):
        client = self.run_on_pool("-M")
        client.say("set a 0 0 1\r\nx\r\n")
        self.make_fail("fallocate", errno.ENOSPC)
        acknowledged, _, others = self.fill_until_it_fails(client)
        self.assertEqual(set(others), {"SERVER_ERROR out of memory storing object\r\n"})
        self.assertEqual(client.get("a"), b"x")
        self.assertEqual(client.say("delete a\r\n"), "DELETED\r\n")
        self.assertEqual(client.stats("holdfast")["pool_failed"], "0")
        self.failing.unlink()
        time.sleep(1.1)  # once a second a size is tried again
        stored, others = self.sets(client, [(f"again{i}", b"b" * 60_000) for i in range(100)])
        self.assertEqual(others, [])
        self.stop(signal.SIGKILL)
        client = self.run_on_pool()
        self.expect_kept(client, acknowledged + stored)
        self.assertIsNone(client.get("a"))

    def test_goes_on_after_an_item_larger_than_all_that_the_pool_has(self):
        client = self.run_on_pool("-I", "16m")
        self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
        self.make_fail("fallocate", errno.ENOSPC)
        large = b"set large 0 0 8000000\r\n" + b"v" * 8_000_000 + b"\r\n"
        self.assertEqual(client.say(large), "SERVER_ERROR out of memory storing object\r\n")
        self.assertEqual(client.get("a"), b"x")
        self.assertEqual(client.say("set b 0 0 1\r\nx\r\n"), "STORED\r\n")
        self.assertEqual(client.stats("holdfast")["pool_failed"], "0")
        self.failing.unlink()
        time.sleep(1.1)  # once a second a size is tried again
        self.assertEqual(client.say(large), "STORED\r\n")
        self.assertEqual(self.stop(), GOOD)

    def test_loses_nothing_acknowledged_wherever_a_call_fails(self):
        chance = random.Random(SEED)
        for run in range(RUNS):
            client = self.run_on_pool("-M")
            call, skips = chance.choice((("fdatasync", 12), ("growth", 2), ("pwrite", 30), ("fallocate", 2)))
            code = chance.choice((errno.EIO, -signal.SIGKILL) if call != "fallocate" else
                                 (errno.EIO, errno.ENOSPC, -signal.SIGKILL))
            self.make_fail(call, code, chance.randrange(skips))
            acknowledged, _, others = self.fill_until_it_fails(client, run * 10_000)
            how = f"{call} {code} in run {run}: {self.said()}"
            self.assertLessEqual(set(others), {"", "SERVER_ERROR out of memory storing object\r\n",
                                               "SERVER_ERROR the pool has failed\r\n"}, how)
            if others[-1] != "":
                self.stop(signal.SIGKILL)
            else:
                self.assertIn(self.process.wait(timeout=20), (FAILED, -signal.SIGKILL), how)
            client = self.run_on_pool()
            self.assertEqual([k for k in acknowledged if client.get(k) is None], [], how)
            self.assertEqual(client.say("flush_all\r\n"), "OK\r\n")
            self.assertEqual(self.stop(), GOOD)


class Starting(ServerTest):
    def test_is_told_to_its_manager(self):
        path = self.folder / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(path))
            manager.settimeout(20)
            self.environment = {"NOTIFY_SOCKET": str(path)}
            self.start()
            self.assertEqual(manager.recv(100), b"READY=1")
            self.assertEqual(self.stop(), GOOD)
            self.assertEqual(manager.recv(100), b"STOPPING=1")

    def test_on_a_port_that_is_taken_leaves_no_pool(self):
        port = self.start()
        pool = self.folder / "second.nvm"
        second = subprocess.run([process_test.SERVER, "-p", str(port), "--pool", pool], capture_output=True, text=True,
                                timeout=20, check=False)
        self.assertEqual(second.returncode, 3)
        self.assertIn("Address already in use", second.stderr)
        self.assertEqual(list(self.folder.glob("second*")), [])

    def test_that_cannot_be_served_leaves_no_pool_and_no_socket(self):
        address = self.folder / "socket"
        pool = self.folder / "second.nvm"
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            for wrong, why in ((("--metrics-port", taken.getsockname()[1]), "Address already in use"),
                               (("-P", self.folder / "none" / "pid"), "No such file or directory"),
                               (("-P", self.folder), "Is a directory"),
                               (("-l", "127.0.0.1", "-p", taken.getsockname()[1]), "Address already in use")):
                refused = subprocess.run([process_test.SERVER, "-s", address, "--pool", pool, *map(str, wrong)],
                                         capture_output=True, text=True, timeout=20, check=False)
                self.assertEqual(refused.returncode, process_test.UNAVAILABLE, wrong)
                self.assertIn(why, refused.stderr)
                self.assertEqual(list(self.folder.iterdir()), [], wrong)

    def test_on_a_pool_that_is_taken_leaves_the_process_id_alone(self):
        pool, pid = self.folder / "items.nvm", self.folder / "pid"
        self.start("-P", pid, store=("--pool", str(pool)))
        refused = subprocess.run([process_test.SERVER, "-p", "-1", "-P", pid, "--pool", pool], capture_output=True,
                                 text=True, timeout=20, check=False)
        self.assertEqual(refused.returncode, process_test.UNAVAILABLE)
        self.assertEqual(int(pid.read_text()), self.process.pid)
        self.assertEqual(self.stop(), GOOD)
        self.assertFalse(pid.exists())

    def test_for_the_first_time_may_be_killed_at_any_moment(self):
        for parent in ("/dev/shm", "/var/tmp"):
            with tempfile.TemporaryDirectory(prefix="nv-memcached-", dir=parent) as folder:
                pool = pathlib.Path(folder) / "items.nvm"
                for i in range(15):
                    server = subprocess.Popen([process_test.SERVER, "-p", "-1", "--pool", pool],
                                              stderr=subprocess.DEVNULL)
                    time.sleep(i * 0.002)
                    server.kill()
                    server.wait()
                    client = self.connect(self.start(store=("--pool", str(pool))))
                    self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
                    self.assertEqual(self.stop(), GOOD)
                    pool.unlink()


if __name__ == "__main__":
    process_test.SERVER = str(pathlib.Path(sys.argv[1]).resolve())
    CALLS = str(pathlib.Path(sys.argv[2]).resolve())
    for part in (process_test.SERVER, CALLS):
        if not os.path.isfile(part):
            sys.exit(f"failing_test: {part} is not built")
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
