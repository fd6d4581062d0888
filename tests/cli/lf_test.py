#!/usr/bin/env python3
"""lf: the lock-free structures of a pool, read from the command line."""

import base64
import json
import struct
import subprocess

import cli_testing
from cli_testing import GOOD, MEDIA, NEGATIVE, UNAVAILABLE, USAGE, PoolTest, main, run

KINDS = ("list", "hash", "skiplist", "tree")


class Lf(PoolTest):
    def pool(self, medium="shm"):
        path = self.path(medium)
        subprocess.run([cli_testing.MAKER, path, medium, "structures"], check=True, timeout=60)
        return path

    def test_lists_structures_in_the_order_of_names(self):
        for medium in MEDIA:
            path = self.pool(medium)
            found = [(s["name"], s["kind"]) for s in self.answer("lf", "list", path)["structures"]]
            self.assertEqual(found, sorted((f"{of}-{kind}", kind) for of in ("words", "bytes") for kind in KINDS))
            self.assertIn("skiplist words-skiplist", run("lf", "list", path).stdout)

    def test_says_that_a_pool_has_none(self):
        path = self.path("none")
        self.answer("create", path, "--size", "8M")
        self.assertEqual(self.answer("lf", "list", path)["structures"], [])
        self.assertIn("no lock-free structures", run("lf", "list", path).stdout)

    def test_gets_what_is_there_and_says_what_is_not(self):
        path = self.pool()
        for kind in KINDS:
            self.assertEqual(run("lf", "get", path, f"words-{kind}", "0x10").stdout, "256\n")
            self.assertEqual(run("lf", "get", path, f"bytes-{kind}", "key-7").stdout, "value-7\n")
            self.assertEqual(self.answer("lf", "get", path, f"words-{kind}", "99"),
                             {"path": str(path), "action": "get", "structure": f"words-{kind}", "kind": kind,
                              "entries_are": "words", "found": True, "value": 99 * 99})
            for key in ("100", "18446744073709551615"):
                self.assertEqual(run("lf", "get", path, f"words-{kind}", key).returncode, NEGATIVE)
            self.assertEqual(run("lf", "get", path, f"bytes-{kind}", "key-100").returncode, NEGATIVE)
            hard = base64.b64encode(b"\xff\x00").decode()
            got = self.answer("lf", "get", path, f"bytes-{kind}", hard, "--base64")
            self.assertEqual(base64.b64decode(got["value_base64"]), b"\n\xfe")

    def test_scans_all_entries(self):
        for medium in MEDIA:
            path = self.pool(medium)
            for kind in KINDS:
                words = self.answer("lf", "scan", path, f"words-{kind}")
                self.assertEqual({e["key"]: e["value"] for e in words["entries"]}, {n: n * n for n in range(100)})
                self.assertEqual(words["count"], 100)
                if kind != "hash":
                    self.assertEqual([e["key"] for e in words["entries"]], list(range(100)))
                entries = self.answer("lf", "scan", path, f"bytes-{kind}")["entries"]
                texts = {e["key"]: e["value"] for e in entries if "key" in e}
                self.assertEqual(texts, {f"key-{n}": f"value-{n}" for n in range(100)})
                self.assertEqual([base64.b64decode(e["key_base64"]) for e in entries if "key_base64" in e],
                                 [b"\xff\x00"])
                lines = run("lf", "scan", path, f"bytes-{kind}").stdout.splitlines()
                self.assertIn("\\xff\\x00\t\\x0a\\xfe", lines)
                self.assertEqual(len(lines), 101)
                self.assertEqual(len(self.answer("lf", "scan", path, f"bytes-{kind}", "--limit", "3")["entries"]), 3)

    def test_scans_from_a_key_on(self):
        path = self.pool()
        for kind in KINDS:
            if kind == "hash":
                done = run("lf", "scan", path, "words-hash", "--from", "1")
                self.assertEqual(done.returncode, USAGE)
                self.assertIn("no order of keys", done.stderr)
                continue
            words = self.answer("lf", "scan", path, f"words-{kind}", "--from", "0x60")
            self.assertEqual([e["key"] for e in words["entries"]], [96, 97, 98, 99])
            keys = sorted(f"key-{n}" for n in range(100))
            found = self.answer("lf", "scan", path, f"bytes-{kind}", "--from", "key-95x", "--limit", "2")
            self.assertEqual([e["key"] for e in found["entries"]], ["key-96", "key-97"])
            found = self.answer("lf", "scan", path, f"bytes-{kind}", "--from", "k")
            self.assertEqual([e["key"] for e in found["entries"] if "key" in e], keys)
            self.assertIn("is no number", run("lf", "scan", path, f"words-{kind}", "--from", "x").stderr)

    def test_makes_and_drops_structures(self):
        path = self.path("made")
        self.answer("create", path, "--size", "8M")
        made = self.answer("lf", "create", path, "sessions", "--kind", "skiplist", "--area", "64K", "--expected", "1000")
        self.assertEqual(made, {"path": str(path), "action": "create", "structure": "sessions", "kind": "skiplist",
                                "entries_are": "bytes"})
        for n, kind in enumerate(KINDS):
            answer = self.answer("lf", "create", path, f"words {kind}", "--kind", kind, "--words", "--recovery",
                                 ("by-kind", "search", "traversal", "search")[n])
            self.assertEqual((answer["kind"], answer["entries_are"]), (kind, "words"))
        self.answer("lf", "create", path, "links", "--volatile-links", "--no-checksums")
        self.assertTrue(next(s for s in self.answer("info", path)["structures"] if s["name"] == "links")["volatile_links"])
        for given, code, what in ((("sessions",), UNAVAILABLE, "NVM_E_EXISTS"),
                                  (("more", "--area", "4K"), UNAVAILABLE, "areas of 65536 bytes, expected 4096"),
                                  (("more", "--area", "5000"), UNAVAILABLE, "a power of two"),
                                  (("more", "--area", "1M"), USAGE, "at most 262144"),
                                  (("more", "--kind", "tree", "--volatile-links"), UNAVAILABLE, "are durable"),
                                  (("x" * 64,), UNAVAILABLE, "NVM_E_INVALID")):
            done = run("lf", "create", path, *given)
            self.assertEqual(done.returncode, code, done)
            self.assertIn(what, done.stderr)
        self.assertEqual(self.answer("lf", "drop", path, "sessions")["kind"], "skiplist")
        self.assertEqual(run("lf", "drop", path, "sessions").returncode, UNAVAILABLE)
        self.assertEqual(len(self.answer("lf", "list", path)["structures"]), 5)
        self.assertEqual(run("check", path).returncode, GOOD)

    def test_info_names_structures(self):
        path = self.pool()
        told = self.answer("info", path)["structures"]
        self.assertEqual(told, sorted(({"name": f"{of}-{kind}", "kind": kind, "entries_are": of,
                                        "volatile_links": False} for of in ("words", "bytes") for kind in KINDS),
                                      key=lambda s: s["name"]))
        self.assertIn("hash of words words-hash", run("info", path).stdout)

    def test_counts_and_checks(self):
        path = self.pool()
        for kind in KINDS:
            self.assertEqual(self.answer("lf", "stat", path, f"words-{kind}"),
                             {"path": str(path), "action": "stat", "structure": f"words-{kind}", "kind": kind,
                              "entries_are": "words", "count": 100, "key_bytes": 800, "value_bytes": 800})
            checked = self.answer("lf", "check", path, f"bytes-{kind}")
            self.assertEqual((checked["count"], checked["walked_count"], checked["not_found_count"], checked["sound"]),
                             (101, 101, 0, True))
            self.assertIn("each is found by its key", run("lf", "check", path, f"words-{kind}").stdout)

    def test_finds_an_entry_that_its_key_does_not_lead_to(self):
        path = self.pool()
        # Nodes of words have their key and their value side by side; in lists and tables a walk meets the order first.
        data = bytearray(path.read_bytes())
        value = struct.pack("<QQ", 50, 2500)
        places = [at for at in range(0, len(data) - 16, 8) if data[at:at + 16] == value]
        self.assertNotEqual(places, [])
        for at in places:
            data[at:at + 8] = struct.pack("<Q", 5000)
        path.write_bytes(data)
        self.assertIn("NVM_E_CORRUPT", run("lf", "check", path, "words-list").stderr)
        done = run("--json", "lf", "check", path, "words-tree")
        self.assertEqual(done.returncode, NEGATIVE, done)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["sound"], answer["not_found_count"] > 0), (False, True))

    def test_says_what_is_wrong(self):
        path = self.pool()
        self.assertEqual(run("lf", "get", path, "words-list", "ten").returncode, USAGE)
        self.assertIn("is no number", run("lf", "get", path, "words-list", "ten").stderr)
        self.assertIn("is no number", run("lf", "get", path, "words-list", "18446744073709551616").stderr)
        self.assertIn("the key is no base64", run("lf", "get", path, "bytes-list", "%", "--base64").stderr)
        self.assertIn("the name of the structure is missing", run("lf", "scan", path).stderr)
        self.assertIn("the key is missing", run("lf", "get", path, "words-list").stderr)
        self.assertIn("unexpected", run("lf", "list", path, "words-list").stderr)
        self.assertEqual(run("lf", "scan", path, "nothing").returncode, UNAVAILABLE)
        self.assertIn("NVM_E_NOT_FOUND", run("lf", "scan", path, "nothing").stderr)
        self.assertEqual(run("lf", "list", self.path("absent")).returncode, UNAVAILABLE)
        self.assertEqual(run("lf", "read", path).returncode, USAGE)
        self.assertEqual(run("lf", "list", path).returncode, GOOD)


if __name__ == "__main__":
    main()
