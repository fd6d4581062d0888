#!/usr/bin/env python3
"""Durable Redis: which file the pool is, that no reply leaves before what it is about is committed; functions;
large flushes.

usage: pool_test.py --durable SERVER --folder FOLDER...   pools are made in each of these
Exit codes: 0 all as it should be, 1 not.
"""
import argparse
import os
import random
import resource
import shutil
import socket
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

    def __init__(self, pool, folder, *arguments, data_bytes_max=resource.RLIM_INFINITY):
        self.socket = tempfile.mkdtemp()
        self.path = os.path.join(self.socket, "socket")
        with open(os.path.join(self.socket, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [SERVER, "--port", "0", "--unixsocket", self.path, "--save", "", "--enable-debug-command", "yes",
                 *arguments], stdout=log, stderr=log, cwd=folder, env={**os.environ, "REDIS_POOL": pool},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (data_bytes_max, data_bytes_max)))
        for _ in range(9000):
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

    def data_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))

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


class Folders(unittest.TestCase):
    def setUp(self):
        self.folders = [tempfile.mkdtemp(dir=f, prefix="redis-test.") for f in FOLDERS]
        for folder in self.folders:
            self.addCleanup(shutil.rmtree, folder)


class Pools(Folders):
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
            self.assertEqual(one.call("FUNCTION", "LIST"), [])
            self.assertEqual(one.call("DBSIZE"), b":%d" % (size + 1))

    def test_a_change_that_was_answered_in_the_midst_of_a_script_is_there(self):
        script = ("EVAL", "redis.call('SET', 'half', 1) while true do end", "0")
        load = ("FUNCTION", "LOAD", library("half", "1"))
        for folder in self.folders:
            for slow in ([script], [("MULTI",), ("SET", "half", "1"), load, script, ("EXEC",)]):
                self.nothing_answered_is_lost(folder, [], slow, "--busy-reply-threshold", "1")

    def test_a_change_that_was_answered_in_the_midst_of_a_reload_is_there(self):
        reload = ("DEBUG", "RELOAD")
        for folder in self.folders:
            for slow in ([reload], [("MULTI",), ("SET", "half", "1"), reload, ("EXEC",)]):
                self.nothing_answered_is_lost(
                    folder, [("SET", f"k{i}", "v" * 1000) for i in range(1000)], slow,
                    "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024")

    def test_a_flush_of_more_than_a_transaction_takes_is_done(self):
        for folder in self.folders:
            pool = os.path.join(folder, "data.pool")
            with Server(pool, folder) as server:
                one = server.connection()
                one.socket.settimeout(300)
                for i in range(60):
                    one.call("DEBUG", "POPULATE", 20000, f"k{i}", 100)
                self.assertEqual(one.call("FLUSHALL", "SYNC"), b"+OK")
                self.assertEqual(one.call("SET", "k", "v"), b"+OK")
            with Server(pool, folder) as server:
                self.assertEqual(server.connection().call("KEYS", "*"), [b"k"])


def library(name, answer, *functions):
    """Code of a library whose functions (one of the library's name, unless they are named) give the answer."""
    lines = [f"redis.register_function{{function_name='{f}', callback=function() return '{answer}' end, "
             "flags={'no-writes'}}" for f in functions or [name]]
    return f"#!lua name={name}\n" + "\n".join(lines)


def libraries(connection):
    """By name: the code and what each function answers."""
    found = {}
    for _, name, _, _, _, functions, _, code in connection.call("FUNCTION", "LIST", "WITHCODE"):
        names = sorted(f[1] for f in functions)
        found[name.decode()] = (code.decode(), [(f.decode(), connection.call("FCALL", f, 0).decode()) for f in names])
    return found


class Functions(Folders):
    """After each step the server is killed; the next process has the libraries that the last one had."""

    def after_a_kill(self, folder, *steps):
        """A step is a function of a connection; the libraries after the last one, in the last process."""
        pool, now = os.path.join(folder, "data.pool"), None
        for step in steps:
            with Server(pool, folder) as server:
                one = server.connection()
                if now is not None:
                    self.assertEqual(libraries(one), now)
                step(one)
                now = libraries(one)
        with Server(pool, folder) as server:
            self.assertEqual(libraries(server.connection()), now)
        return {name: functions[0][1] for name, (_, functions) in now.items()}

    def calls(self, *words, refused=False):
        def step(one):
            answer = one.call(*words)
            self.assertEqual(isinstance(answer, bytes) and answer.startswith(b"-"), refused, answer)
        return step

    def load(self, name, answer, *functions, replace=False):
        return self.calls("FUNCTION", "LOAD", *(["REPLACE"] if replace else []), library(name, answer, *functions))

    def test_what_is_loaded_replaced_or_deleted_stays_so(self):
        for folder in self.folders:
            self.assertEqual(self.after_a_kill(
                folder, self.load("a", "1"), self.load("b", "1"), self.load("c", "1", "c1", "c2"),
                self.load("a", "2", replace=True), self.load("c", "3", "c2", "c3", replace=True),
                self.calls("FUNCTION", "DELETE", "b"), self.calls("FLUSHALL"), self.calls("SET", "k", "v")),
                {"a": "2", "c": "3"})

    def test_what_failed_changes_nothing(self):
        loads = lambda *words: self.calls("FUNCTION", "LOAD", *words, refused=True)  # noqa: E731
        for folder in self.folders:
            self.assertEqual(self.after_a_kill(
                folder, self.load("a", "1"), self.load("b", "1"), loads(library("a", "2")),
                loads("REPLACE", "#!lua name=a\nno lua"), loads("REPLACE", "#!lua name=a\nerror('no')"),
                loads("REPLACE", library("a", "2", "a", "b")), loads("REPLACE", library("A b", "2")),
                self.calls("FUNCTION", "DELETE", "c", refused=True)), {"a": "1", "b": "1"})

    def test_a_flush_and_a_restore_stay(self):
        for folder in self.folders:
            payload = []
            restore = lambda *words, refused=False: (  # noqa: E731
                lambda one: self.calls("FUNCTION", "RESTORE", payload[0], *words, refused=refused)(one))
            self.assertEqual(self.after_a_kill(
                folder, self.load("a", "1"), self.load("b", "1"),
                lambda one: payload.append(one.call("FUNCTION", "DUMP")),
                self.calls("FUNCTION", "FLUSH", "SYNC"), lambda one: self.assertEqual(libraries(one), {}),
                restore(), restore("APPEND", refused=True), self.load("a", "2", replace=True), self.load("c", "1"),
                restore("REPLACE"), lambda one: self.assertEqual(sorted(libraries(one)), ["a", "b", "c"]),
                self.load("many", "1", *(f"f{i}" for i in range(100))), self.calls("FUNCTION", "FLUSH", "ASYNC"),
                self.load("d", "1"), restore("FLUSH")), {"a": "1", "b": "1"})

    def test_a_flush_and_a_load_in_one_turn_stay(self):
        def step(one):
            one.send(("MULTI",), ("FUNCTION", "FLUSH", "ASYNC"), ("FUNCTION", "LOAD", library("b", "2")),
                     ("FUNCTION", "FLUSH", "SYNC"), ("FUNCTION", "LOAD", library("c", "3")), ("EXEC",))
            self.assertEqual([one.answer() for _ in range(6)][5], [b"+OK", b"b", b"+OK", b"c"])
        for folder in self.folders:
            self.assertEqual(self.after_a_kill(folder, self.load("a", "1"), step), {"c": "3"})

    def test_a_reload_keeps_them(self):
        for folder in self.folders:
            self.assertEqual(self.after_a_kill(
                folder, self.load("a", "1"), self.calls("DEBUG", "RELOAD"),
                self.calls("SAVE"), self.load("a", "2", replace=True), self.load("b", "2"),
                self.calls("DEBUG", "RELOAD", "NOSAVE")), {"a": "1"})

    def test_a_new_pool_has_those_of_dump_rdb(self):
        for folder in self.folders:
            with Server(os.path.join(folder, "other.pool"), folder) as server:
                one = server.connection()
                self.load("a", "1")(one)
                one.call("SAVE")
            self.assertEqual(self.after_a_kill(
                folder, lambda one: self.assertEqual(sorted(libraries(one)), ["a"]), self.calls("SET", "k", "v")),
                {"a": "1"})

    def test_a_replica_has_those_of_its_master(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        for folder, way in ((f, w) for f in self.folders for w in ("disabled", "swapdb")):
            above = tempfile.mkdtemp(dir=folder)

            def follow(one, way=way):
                self.assertEqual(sorted(libraries(one)), ["old"])
                one.call("CONFIG", "SET", "repl-diskless-load", way)
                one.call("REPLICAOF", "127.0.0.1", port)
                for _ in range(300):
                    if b"master_link_status:up" in one.call("INFO", "replication"):
                        break
                    time.sleep(0.1)
                self.assertEqual(sorted(libraries(one)), ["new"])

            with Server(os.path.join(above, "master.pool"), above, "--port", port,
                        "--repl-diskless-sync-delay", "0") as master:
                self.load("new", "1")(master.connection())
                self.assertEqual(self.after_a_kill(above, self.load("old", "1"), follow), {"new": "1"})

    def test_one_that_was_answered_in_the_midst_of_a_script_is_there(self):
        for folder in self.folders:
            pool = os.path.join(folder, "data.pool")
            with Server(pool, folder, "--busy-reply-threshold", "1") as server:
                first, _ = server.in_one_turn([("FUNCTION", "LOAD", library("a", "1"))],
                                              [("EVAL", "while true do end", "0")])
                self.assertEqual(first.answer(), b"a")
            with Server(pool, folder) as server:
                self.assertEqual(list(libraries(server.connection())), ["a"])

    def test_a_library_and_data_of_one_transaction_are_both_there_or_neither(self):
        draw, done = random.Random(1), 0
        for folder in self.folders:
            pool = os.path.join(folder, "data.pool")
            for kill in range(11):
                with Server(pool, folder) as server:
                    one = server.connection()
                    if kill > 0:
                        found = int(one.call("GET", "number"))
                        self.assertIn(found, (done, done + 1))
                        self.assertEqual(int(one.call("FCALL", "number", "0")), found)
                        done = found
                    until = time.monotonic() + draw.uniform(0.01, 0.1)
                    while done == 0 or time.monotonic() < until:
                        done += 1
                        one.send(("MULTI",), ("SET", "number", done), ("FUNCTION", "LOAD", "REPLACE",
                                 library("number", done)), ("EXEC",))
                        self.assertEqual([one.answer() for _ in range(4)][3], [b"+OK", b"number"])
                    one.send(("MULTI",), ("SET", "number", done + 1), ("FUNCTION", "LOAD", "REPLACE",
                             library("number", done + 1)), ("EXEC",))
                    time.sleep(draw.uniform(0, 0.001))
            done = 0

    def test_a_pool_whose_library_cannot_be_loaded_is_refused(self):
        heavy = library("heavy", "1") + "\nlocal s = 'x'\nfor _ = 1, 28 do s = s .. s end"
        for folder in self.folders:
            pool = os.path.join(folder, "data.pool")
            with Server(pool, folder) as server:
                enough = server.data_bytes()
                self.load("a", "1")(server.connection())
                self.calls("FUNCTION", "LOAD", heavy)(server.connection())
            for _ in range(2):
                with self.assertRaisesRegex(AssertionError, "the library heavy of functions: .*not enough memory"):
                    Server(pool, folder, data_bytes_max=enough + (100 << 20))
            with Server(pool, folder) as server:
                self.assertEqual(sorted(libraries(server.connection())), ["a", "heavy"])


def main():
    global SERVER  # pylint: disable=global-statement
    parser = argparse.ArgumentParser()
    parser.add_argument("--durable", required=True)
    parser.add_argument("--folder", required=True, nargs="+")
    options = parser.parse_args()
    SERVER = os.path.abspath(options.durable)
    FOLDERS.extend(os.path.abspath(folder) for folder in options.folder)
    unittest.main(argv=sys.argv[:1], warnings="ignore")


if __name__ == "__main__":
    main()
