#!/usr/bin/env python3
"""store: the object stores of a pool, from the command line."""

import os
import pathlib
import subprocess

import cli_testing
from cli_testing import GOOD, MEDIA, NEGATIVE, USAGE, PoolTest, main, run


class Store(PoolTest):
    def pool(self, medium="shm"):
        path = self.path(medium)
        self.answer("create", path, "--size", "8M", "--medium", medium)
        return path

    def names(self, path, *prefix):
        return [s["name"] for s in self.answer("store", "ls", path, *prefix)["stores"]]

    def test_makes_lists_renames_and_deletes(self):
        for medium in MEDIA:
            path = self.pool(medium)
            self.assertEqual(self.names(path), [])
            self.assertIn("no stores", run("store", "ls", path).stdout)
            for name in ("tenant/2", "robot", "tenant/1"):
                self.assertEqual(self.answer("store", "create", path, name)["name"], name)
            self.assertEqual(self.names(path), ["robot", "tenant/1", "tenant/2"])
            self.assertEqual(self.names(path, "tenant/"), ["tenant/1", "tenant/2"])
            self.assertEqual(run("store", "ls", path, "tenant/").stdout, "tenant/1\ntenant/2\n")
            self.assertEqual(self.answer("store", "mv", path, "robot", "arm")["name"], "arm")
            self.assertEqual(self.answer("store", "mv", path, "tenant/1", "tenant/2")["name"], "tenant/2")
            self.assertEqual(self.names(path), ["arm", "tenant/2"])
            self.answer("store", "rm", path, "arm")
            self.assertEqual(self.names(path), ["tenant/2"])
            self.assertEqual(run("check", path).returncode, GOOD)
            if medium == "shm":
                self.assertEqual(self.answer("info", path)["store_count"], 1)

    def test_shows_facts_and_sets_rights(self):
        path = self.pool()
        self.answer("store", "create", path, "s", "--mode", "640", "--quota", "1M")
        facts = self.answer("store", "stat", path, "s")
        self.assertEqual((facts["mode"], facts["quota_bytes"], facts["object_count"], facts["pages"]),
                         ("0640", 1 << 20, 0, 1))
        self.assertEqual((facts["owner"], facts["group"]), (os.geteuid(), os.getegid()))
        self.assertIn("mode 0640", run("store", "stat", path, "s").stdout)
        self.assertEqual(self.answer("store", "chmod", path, "s", "0400")["mode"], "0400")
        self.assertEqual(self.answer("store", "stat", path, "s")["mode"], "0400")
        if os.geteuid() == 0:
            self.answer("store", "chown", path, "s", "1000:100")
            facts = self.answer("store", "stat", path, "s")
            self.assertEqual((facts["owner"], facts["group"]), (1000, 100))
            self.answer("store", "chown", path, "s", ":7")
            self.assertEqual(self.answer("store", "stat", path, "s")["group"], 7)

    def test_sums_up_pages(self):
        path = self.pool()
        for name in ("a", "b"):
            self.answer("store", "create", path, name)
        use = self.answer("store", "du", path)
        self.assertEqual(use["bytes"], 2 * 4096)
        self.assertEqual([s["name"] for s in use["stores"]], ["a", "b"])
        self.assertEqual(sum(s["bytes"] for s in use["stores"]), use["bytes"])
        self.assertIn("in all", run("store", "du", path, "a").stdout)

    def test_has_lock_free_structures(self):
        for medium in MEDIA:
            path = self.pool(medium)
            for name in ("a", "b"):
                self.answer("store", "create", path, name)
            made = self.answer("lf", "create", path, "seen", "--words", "--kind", "tree", "--in", "a")
            self.assertEqual((made["object_store"], made["structure"]), ("a", "seen"))
            self.answer("lf", "create", path, "names", "--in", "a")
            self.answer("lf", "create", path, "seen", "--words")
            self.assertEqual([s["name"] for s in self.answer("lf", "list", path, "--in", "a")["structures"]],
                             ["names", "seen"])
            self.assertEqual(self.answer("lf", "list", path, "--in", "b")["structures"], [])
            self.assertEqual(self.answer("lf", "stat", path, "seen", "--in", "a")["count"], 0)
            self.assertEqual(self.answer("store", "stat", path, "a")["structures"],
                             [{"name": "names", "kind": "hash", "entries_are": "bytes"},
                              {"name": "seen", "kind": "tree", "entries_are": "words"}])
            self.assertIn("tree of words seen", run("store", "stat", path, "a").stdout)
            self.assertEqual([s["structure_count"] for s in self.answer("store", "du", path)["stores"]], [2, 0])
            self.assertIn("2 lock-free structures", run("store", "du", path).stdout)
            self.answer("lf", "drop", path, "seen", "--in", "a")
            self.assertIn("NVM_E_NOT_FOUND", run("lf", "stat", path, "seen", "--in", "a").stderr)
            self.assertIn("NVM_E_NOT_FOUND", run("lf", "list", path, "--in", "c").stderr)
            self.assertEqual(run("check", path).returncode, GOOD)
            self.answer("store", "rm", path, "a")
            self.assertEqual(run("check", path).returncode, GOOD)

    def test_has_key_value_stores(self):
        for medium in MEDIA:
            path = self.pool(medium)
            for name in ("a", "b"):
                self.answer("store", "create", path, name)
            put = self.answer("kv", "put", path, "apple", "17", "--in", "a", "--store", "prices", "--index", "hash")
            self.assertEqual((put["object_store"], put["store"]), ("a", "prices"))
            self.answer("kv", "put", path, "apple", "of the pool", "--store", "prices")
            self.assertEqual(self.answer("kv", "get", path, "apple", "--in", "a", "--store", "prices")["value"], "17")
            self.assertEqual(self.answer("kv", "get", path, "apple", "--store", "prices")["value"], "of the pool")
            self.assertEqual(self.answer("kv", "stores", path, "--in", "b")["stores"], [])
            entries = self.path(medium, "entries.csv")
            entries.write_text("key,value\n" + "".join(f"k{i},{i}\n" for i in range(1500)))
            self.assertEqual(self.answer("kv", "load", path, str(entries), "--in", "a")["count"], 1500)
            self.assertEqual(self.answer("kv", "stat", path, "--in", "a")["count"], 1500)
            out = self.path(medium, "out.csv")
            out.unlink(missing_ok=True)
            self.assertEqual(self.answer("kv", "export", path, str(out), "--in", "a", "--salvage")["count"], 1500)
            self.assertEqual(self.answer("store", "stat", path, "a")["key_values"],
                             [{"name": "main", "index": "btree"}, {"name": "prices", "index": "hash"}])
            self.assertIn("prices", run("store", "stat", path, "a").stdout)
            self.assertEqual([s["key_value_count"] for s in self.answer("store", "du", path)["stores"]], [2, 0])
            self.assertIn("2 key-value stores", run("store", "du", path).stdout)
            self.assertEqual(self.answer("kv", "drop", path, "--in", "a")["count"], 1500)
            self.assertIn("NVM_E_NOT_FOUND", run("kv", "get", path, "apple", "--in", "c").stderr)
            self.assertEqual(run("check", path).returncode, GOOD)
            self.answer("store", "rm", path, "a")
            self.assertEqual(run("check", path).returncode, GOOD)

    def test_frees_what_no_root_leads_to(self):
        maker = pathlib.Path(cli_testing.MAKER).with_name("cli_garbage_maker")
        for medium in MEDIA:
            path = self.path(medium)
            subprocess.run([maker, path, medium, "stores"], check=True)
            facts = self.answer("store", "stat", path, "robot")
            self.assertEqual((facts["object_count"], facts["garbage_count"], facts["garbage_bytes"]), (5, 3, 3 * 32))
            self.assertNotIn("garbage_count", self.answer("store", "stat", path, "empty"))
            self.answer("kv", "put", path, "apple", "17", "--in", "robot", "--store", "prices")
            looked = self.answer("store", "gc", path, "robot", "--dry-run", expect=NEGATIVE)
            self.assertEqual((looked["garbage_count"], looked["freed_count"], looked["dry_run"]), (3, 0, True))
            freed = self.answer("store", "gc", path, "--all")
            self.assertEqual((freed["garbage_count"], freed["freed_count"], freed["freed_bytes"]), (3, 3, 3 * 32))
            self.assertEqual(freed["left_alone_count"], 1)
            self.assertEqual([s["name"] for s in freed["stores"]], ["empty", "robot"])
            self.assertIn("no root", freed["stores"][0]["left_alone"])
            self.assertIn("0 garbage", run("store", "gc", path, "robot").stdout)
            self.assertEqual(self.answer("kv", "get", path, "apple", "--in", "robot", "--store", "prices")["value"], "17")
            self.assertIn("NVM_E_INVALID", run("store", "gc", path, "empty").stderr)
            self.assertEqual(run("check", path).returncode, GOOD)
        for arguments in ((path,), (path, "robot", "--all")):
            self.assertEqual(run("store", "gc", *arguments).returncode, USAGE)

    def test_says_what_is_wrong(self):
        path = self.pool()
        self.answer("store", "create", path, "s")
        for arguments, code in (
                (("create", path, "s"), "NVM_E_EXISTS"), (("rm", path, "t"), "NVM_E_NOT_FOUND"),
                (("stat", path, "t"), "NVM_E_NOT_FOUND"), (("mv", path, "t", "u"), "NVM_E_NOT_FOUND"),
                (("create", path, "n" * 256), "NVM_E_INVALID"), (("create", path, ""), "")):
            done = run("store", *arguments)
            self.assertNotEqual(done.returncode, GOOD, arguments)
            self.assertIn(code, done.stderr)
        for arguments in (("ls",), ("create", path), ("mv", path, "s"), ("chmod", path, "s", "9"),
                          ("chown", path, "s", "x"), ("chown", path, "s", ":"), ("stat", path, "s", "t"),
                          ("unknown", path)):
            self.assertEqual(run("store", *arguments).returncode, USAGE, arguments)
        self.assertEqual(self.names(path), ["s"])


if __name__ == "__main__":
    main()
