#!/usr/bin/env python3
"""Durable UnQLite: transactions, auto-commit, what is refused.

usage: PYTHONPATH=FOLDER pool_test.py FOLDER...   pools are made in each of these
"""
import os
import sys
import threading
import unittest

from unqlite import UnQLite

FOLDERS = []


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
    FOLDERS += sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
