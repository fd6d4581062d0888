#!/usr/bin/env python3
"""Durable Redis: which file the pool is, and that no reply leaves before what it is about is committed.

usage: pool_test.py --durable SERVER --folder FOLDER...   pools are made in each of these
Exit codes: 0 all as it should be, 1 not.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from kill_test import Connection, Ended

SERVER = None
FOLDERS = []


class Server:
    """A server with the pool that REDIS_POOL names, started from a folder."""

    def __init__(self, pool, folder, *arguments):
        self.socket = tempfile.mkdtemp()
        self.path = os.path.join(self.socket, "socket")
        with open(os.path.join(self.socket, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [SERVER, "--port", "0", "--unixsocket", self.path, "--save", "", "--enable-debug-command", "yes",
                 *arguments], stdout=log, stderr=log, cwd=folder, env={**os.environ, "REDIS_POOL": pool})
        for _ in range(1000):
            try:
                if Connection(self.path).call("PING") == b"+PONG":
                    return
            except (OSError, Ended):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        told = self.told()
        self.__exit__()
        raise AssertionError("the server does not answer: " + told)

    def told(self):
        with open(os.path.join(self.socket, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-2000:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.socket)

    def connection(self):
        one = Connection(self.path)
        one.socket.settimeout(30)
        return one

    def in_one_turn(self, *requests):
        """Sends each of them by a connection of its own while the server sleeps: it gets all of them in one turn."""
        sleeper, others = self.connection(), [self.connection() for _ in requests]
        for one in others:
            one.call("PING")
        sleeper.send(("DEBUG", "SLEEP", "0.5"))
        time.sleep(0.1)
        for one, commands in zip(others, requests):
            one.send(*commands)
            time.sleep(0.02)
        return others


class Pools(unittest.TestCase):
    def setUp(self):
        self.folders = [tempfile.mkdtemp(dir=f, prefix="redis-test.") for f in FOLDERS]
        for folder in self.folders:
            self.addCleanup(shutil.rmtree, folder)

    def test_a_relative_name_means_the_folder_of_the_start_and_not_dir(self):
        for folder in self.folders:
            here, there = os.path.join(folder, "here"), os.path.join(folder, "there")
            os.mkdir(here)
            os.mkdir(there)
            for at, other in ((here, there), (there, here)):  # at the second, `dir` has a pool of the same name
                for start in range(3):
                    with Server("data.pool", at, "--dir", other) as server:
                        one = server.connection()
                        self.assertEqual(one.call("GET", "k1"), None if start == 0 else b"1" + at.encode())
                        for i in range(100):
                            one.call("SET", f"k{i}", f"{i}{at}")
                        self.assertEqual(one.call("DBSIZE"), b":100")
                self.assertTrue(os.path.exists(os.path.join(at, "data.pool")))

    def nothing_answered_is_lost(self, above, before, slow, *arguments):
        """A's change and B's slow command come in one turn; A's answer comes in the midst of it, then a kill."""
        folder = tempfile.mkdtemp(dir=above)  # a new pool would begin with the dump.rdb that a reload has left
        pool = os.path.join(folder, "data.pool")
        with Server(pool, folder, *arguments) as server:
            one = server.connection()
            for words in before:
                one.call(*words)
            size = int(one.call("DBSIZE")[1:])
            first, _ = server.in_one_turn([("SET", "answered", "1")], slow)
            self.assertEqual(first.answer(), b"+OK")
        with Server(pool, folder) as server:
            one = server.connection()
            self.assertEqual(one.call("GET", "answered"), b"1")
            self.assertEqual(one.call("EXISTS", "half"), b":0")
            self.assertEqual(one.call("DBSIZE"), b":%d" % (size + 1))

    def test_a_change_that_was_answered_in_the_midst_of_a_script_is_there(self):
        script = ("EVAL", "redis.call('SET', 'half', 1) while true do end", "0")
        for folder in self.folders:
            for slow in ([script], [("MULTI",), ("SET", "half", "1"), script, ("EXEC",)]):
                self.nothing_answered_is_lost(folder, [], slow, "--busy-reply-threshold", "1")

    def test_a_change_that_was_answered_in_the_midst_of_a_reload_is_there(self):
        reload = ("DEBUG", "RELOAD")
        for folder in self.folders:
            for slow in ([reload], [("MULTI",), ("SET", "half", "1"), reload, ("EXEC",)]):
                self.nothing_answered_is_lost(
                    folder, [("SET", f"k{i}", "v" * 1000) for i in range(1000)], slow,
                    "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024")


def main():
    global SERVER  # pylint: disable=global-statement
    parser = argparse.ArgumentParser()
    parser.add_argument("--durable", required=True)
    parser.add_argument("--folder", required=True, nargs="+")
    options = parser.parse_args()
    SERVER = os.path.abspath(options.durable)
    FOLDERS.extend(options.folder)
    unittest.main(argv=sys.argv[:1], warnings="ignore")


if __name__ == "__main__":
    main()
