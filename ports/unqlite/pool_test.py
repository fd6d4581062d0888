#!/usr/bin/env python3
"""Durable UnQLite: transactions, auto-commit, what is refused.

usage: PYTHONPATH=FOLDER pool_test.py FAILING_BEGIN_LIBRARY FOLDER...   pools are made in each of these
"""
import os
import signal
import subprocess
import sys
import threading
import unittest

from unqlite import UnQLite

LIBRARY = None
FOLDERS = []

# A script and a call that could not begin; what is answered after them, the last thing before a kill.
WITHOUT_BEGIN = """
import os, signal, sys
from unqlite import UnQLite
path, mark = sys.argv[1], os.environ["FAIL_BEGINS"]
db = UnQLite("pool:" + path)
open(mark, "w").close()
for change in (lambda: db.collection("users").create(), lambda: db.store("a", "1")):
    try:
        change()
        print("answered without a transaction")
    except Exception:
        pass
os.unlink(mark)
db.store("b", "2")
db.store("c", "3")
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


# Two threads, one with calls and one with scripts, until the process is killed; what was answered is printed.  By the
# calls of C, during which Python lets others run.
IN_THREADS = """
import ctypes, os, signal, sys, threading, time
import unqlite
lib = ctypes.CDLL(unqlite.__file__)
db = ctypes.c_void_p()
lib.unqlite_lib_config(5)  # UNQLITE_LIB_CONFIG_THREAD_LEVEL_MULTI
assert lib.unqlite_open(ctypes.byref(db), b"pool:" + os.fsencode(sys.argv[1]), 4) == 0  # UNQLITE_OPEN_CREATE
def calls():
    for i in range(1 << 30):
        key = b"k%d" % i
        if lib.unqlite_kv_store(db, key, len(key), b"1", ctypes.c_longlong(1)) == 0:
            os.write(1, key + b"\\n")
def scripts():
    text = b"if (!db_exists('users')) { db_create('users'); } db_store('users', {a: 1});"
    for i in range(1 << 30):
        vm = ctypes.c_void_p()
        assert lib.unqlite_compile(db, text, len(text), ctypes.byref(vm)) == 0
        if lib.unqlite_vm_exec(vm) == 0:
            os.write(1, b"script\\n")
        lib.unqlite_vm_release(vm)
for work in (calls, scripts):
    threading.Thread(target=work, daemon=True).start()
time.sleep(2)
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(program, path, environment):
    return subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})


class Pools(unittest.TestCase):
    def setUp(self):
        self.paths = [os.path.join(f, f"unqlite-test.{os.getpid()}") for f in FOLDERS]
        self.tearDown()

    def tearDown(self):
        for path in self.paths:
            if os.path.exists(path):
                os.unlink(path)

    def each(self):
        return [lambda path=path: UnQLite("pool:" + path) for path in self.paths]

    def test_what_was_stored_is_there_again(self):
        for opened in self.each():
            db = opened()
            db.store("a", "1")
            db.append("a", "2")
            db.store("b", "x")
            db.delete("b")
            users = db.collection("users")
            users.create()
            users.store([{"name": "huey"}, {"name": "mickey"}])
            db.close()
            db = opened()
            self.assertEqual(db.fetch("a"), b"12")
            self.assertFalse(db.exists("b"))
            self.assertEqual([u["name"] for u in db.collection("users").all()], ["huey", "mickey"])
            db.close()

    def test_a_rollback_takes_all_calls_back(self):
        for opened in self.each():
            db = opened()
            db.store("kept", "1")
            db.begin()
            db.store("kept", "2")
            for i in range(2000):  # the table grows
                db.store(f"k{i}", "x" * 100)
            db.delete("kept")
            db.rollback()
            self.assertEqual(db.fetch("kept"), b"1")
            self.assertEqual(len(db), 1)
            with db.transaction():
                db.store("more", "3")
            self.assertEqual(db.fetch("more"), b"3")
            db.close()
            db = opened()
            self.assertEqual(len(db), 2)
            db.close()

    def test_without_auto_commit_changes_wait_for_one(self):
        for opened in self.each():
            db = opened()
            db.disable_autocommit()
            db.store("a", "1")
            db.commit()
            db.store("b", "2")
            db.close()
            db = opened()
            self.assertEqual(dict(db.items()), {"a": b"1"})
            db.close()

    def test_another_thread_waits_its_turn(self):
        for opened in self.each():
            db = opened()
            db.begin()
            db.store("a", "1")
            refused = []

            def store():
                try:
                    db.store("b", "2")
                except Exception as error:  # pylint: disable=broad-except
                    refused.append(error)
            thread = threading.Thread(target=store)
            thread.start()
            thread.join()
            self.assertEqual(len(refused), 1)
            db.commit()
            thread = threading.Thread(target=store)
            thread.start()
            thread.join()
            self.assertEqual(len(refused), 1)
            self.assertEqual(db.fetch("b"), b"2")
            db.close()

    def test_calls_after_one_that_could_not_begin_are_durable(self):
        for opened, path in zip(self.each(), self.paths):
            ended = run(WITHOUT_BEGIN, path, {"LD_PRELOAD": LIBRARY, "FAIL_BEGINS": path + ".mark"})
            self.assertEqual((ended.returncode, ended.stdout), (-signal.SIGKILL, ""), ended.stderr)
            db = opened()
            self.assertEqual(dict(db.items()), {"b": b"2", "c": b"3"})
            db.close()

    def test_of_threads_with_scripts_and_calls_nothing_answered_is_lost(self):
        for opened, path in zip(self.each(), self.paths):
            ended = run(IN_THREADS, path, {})
            self.assertEqual(ended.returncode, -signal.SIGKILL, ended.stderr)
            answered = ended.stdout.split()
            stored = [key for key in answered if key != "script"]
            db = opened()
            self.assertEqual([key for key in stored if not db.exists(key)], [])
            self.assertGreaterEqual(len(db.collection("users").all()), len(answered) - len(stored))
            self.assertTrue(0 < len(stored) < len(answered))
            db.close()

    def test_what_is_no_pool_or_open_already_is_refused(self):
        for opened, path in zip(self.each(), self.paths):
            with open(path, "w", encoding="ascii") as file:
                file.write("no pool\n" * 1000)
            self.assertRaises(Exception, opened)
            os.unlink(path)
            db = opened()
            self.assertRaises(Exception, opened)
            db.close()


if __name__ == "__main__":
    LIBRARY = sys.argv[1]
    FOLDERS += sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
