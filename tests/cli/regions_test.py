#!/usr/bin/env python3
"""regions: reading and writing the regions of a pool from the command line."""

import base64
import json
import struct

from cli_testing import GOOD, MEDIA, NEGATIVE, UNAVAILABLE, USAGE, PoolTest, main, run


class Regions(PoolTest):
    def pool(self, medium="shm"):
        path = self.path(medium)
        self.answer("create", path, "--size", "8M", "--medium", medium)
        return path

    def put(self, path, rid, text, action="put"):
        done = run("regions", action, path, "s", rid, "--json", input=text)
        self.assertEqual(done.returncode, GOOD, done.stderr)
        return json.loads(done.stdout)

    def test_keeps_what_was_put(self):
        for medium in MEDIA:
            path = self.pool(medium)
            self.assertEqual(self.put(path, "7", "first "),
                             {"path": str(path), "action": "put", "set": "s", "created": True, "size": 6})
            self.assertEqual(self.put(path, "0x7", "second", "append")["size"], 12)
            self.assertEqual(run("regions", "get", path, "s", "7").stdout, "first second")
            self.assertEqual(run("regions", "get", path, "s", "7", "--offset", "6", "--bytes", "3").stdout, "sec")
            self.assertEqual(self.put(path, "7", "anew"),
                             {"path": str(path), "action": "put", "set": "s", "created": False, "size": 4})
            got = self.answer("regions", "get", path, "s", "7", "--base64")
            self.assertEqual((base64.b64decode(got["value_base64"]), got["size"]), (b"anew", 4))
            large = "x" * 300000
            self.put(path, "3", large)
            self.assertEqual(run("regions", "get", path, "s", "3").stdout, large)
            self.assertEqual(self.answer("regions", "scan", path, "s")["regions"],
                             [{"rid": 3, "size": 300000}, {"rid": 7, "size": 4}])
            self.assertEqual(self.answer("regions", "list", path)["sets"], [{"name": "s", "region_count": 2}])
            self.assertEqual(run("check", path).returncode, GOOD)

    def test_sums_up_sets_by_sizes(self):
        for medium in MEDIA:
            path = self.pool(medium)
            self.assertIn("no sets of regions", run("regions", "stat", path).stdout)
            for rid, size in ((1, 3), (2, 16), (3, 17), (4, 3000), (5, 0)):
                self.put(path, str(rid), "x" * size)
            classes = [(0, 0, 1, 0), (1, 16, 2, 19), (17, 32, 1, 17), (2049, 4096, 1, 3000)]
            names = ("from_bytes", "to_bytes", "region_count", "region_bytes")
            self.assertEqual(self.answer("regions", "stat", path)["sets"],
                             [{"name": "s", "region_count": 5, "region_bytes": 3036,
                               "by_size": [dict(zip(names, c)) for c in classes]}])
            text = run("regions", "stat", path).stdout
            self.assertIn("s: 5 regions, 3036 bytes", text)
            self.assertRegex(text, r"2049 \.\. 4096 +1 +3000\n")

    def test_says_what_is_not_there(self):
        path = self.pool()
        self.assertIn("no sets of regions", run("regions", "list", path).stdout)
        self.assertEqual(run("regions", "scan", path, "s").returncode, UNAVAILABLE)
        self.put(path, "1", "one")
        self.assertEqual(run("regions", "get", path, "s", "2").returncode, NEGATIVE)
        self.assertEqual(run("regions", "del", path, "s", "2").returncode, NEGATIVE)
        for line in (("get", path, "s", "one"), ("get", path, "s"), ("get", path, "s", "1", "--offset", "4")):
            self.assertEqual(run("regions", *line).returncode, USAGE, line)
        self.assertEqual(run("regions", "del", path, "s", "1").returncode, GOOD)
        self.assertEqual(run("regions", "get", path, "s", "1").returncode, NEGATIVE)
        self.assertEqual(run("regions", "drop", path, "s").returncode, GOOD)
        self.assertIn("no sets of regions", run("regions", "list", path).stdout)

    def test_makes_and_sizes_regions(self):
        for medium in MEDIA:
            path = self.pool(medium)
            self.assertEqual(self.answer("regions", "create", path, "s", "5", "3K"),
                             {"path": str(path), "action": "create", "set": "s", "created": True, "size": 3072})
            self.assertEqual(run("regions", "get", path, "s", "5").stdout, "\0" * 3072)
            self.assert_fails(("regions", "create", path, "s", "5", "8"), UNAVAILABLE, "NVM_E_EXISTS")
            self.assertEqual(self.answer("regions", "truncate", path, "s", "5", "4")["size"], 4)
            self.assertEqual(self.answer("regions", "truncate", path, "s", "5", "6")["size"], 6)
            self.assertEqual(self.answer("regions", "truncate", path, "s", "6", "6", expect=NEGATIVE)["found"], False)
            self.assertEqual(self.answer("regions", "truncate", path, "s", "5", "0")["size"], 0)
            self.assertEqual(self.answer("regions", "scan", path, "s")["regions"], [{"rid": 5, "size": 0}])
            for size in ("-1", "3Q", ""):
                self.assertEqual(run("regions", "truncate", path, "s", "5", size).returncode, USAGE, size)
            self.assertIn("size of the region is missing", run("regions", "create", path, "s", "5").stderr)
            self.assertEqual(run("check", path).returncode, GOOD)

    def put_with(self, path, rid, text, *options):
        done = run("regions", "put", path, "s", rid, *options, "--json", input=text)
        self.assertEqual(done.returncode, GOOD, done.stderr)
        return json.loads(done.stdout)["size"]

    def test_writes_a_part_in_each_mode(self):
        for medium in MEDIA:
            path = self.pool(medium)
            content = "abcdefgh" * 150
            self.put(path, "1", content)
            for i, mode in enumerate(("adaptive", "replica", "copy", "checked", "marked", "alternate")):
                part = str(i) * 600
                self.assertEqual(self.put_with(path, "1", part, "--offset", str(7 * i), "--mode", mode,
                                               "--replicas", "4"), len(content), mode)
                content = content[:7 * i] + part + content[7 * i + 600:]
                self.assertEqual(run("regions", "get", path, "s", "1").stdout, content, mode)
            # As far as asked for, and over the end.
            self.assertEqual(self.put_with(path, "1", "tail and more", "--offset", "1196", "--bytes", "9"), 1205)
            content = content[:1196] + "tail and "
            self.assertEqual(run("regions", "get", path, "s", "1").stdout, content)
            for options in (("--offset", "1206"), ("--mode", "other"), ("--mode",)):
                self.assertEqual(run("regions", "put", path, "s", "1", *options, input="x").returncode, USAGE, options)
            self.assertEqual(run("regions", "append", path, "s", "1", "--offset", "1", input="x").returncode, USAGE)
            self.assertNotEqual(run("regions", "put", path, "no set", "1", "--offset", "5", input="").returncode, GOOD)
            self.assertNotIn("no set", run("regions", "list", path).stdout)
            self.assertEqual(run("regions", "get", path, "s", "1").stdout, content)
            self.assertEqual(run("check", path).returncode, GOOD)

    def test_looks_without_a_change(self):
        for medium in MEDIA:
            path = self.pool(medium)
            for rid, text in (("1", "one"), ("2", "x" * 5000)):
                self.put(path, rid, text)
            self.assertEqual(run("kv", "put", path, "apple", "17", "--index", "regions").returncode, GOOD)
            with self.unchanged(path), self.held(path, medium, "read"):
                self.assertEqual(run("regions", "get", path, "s", "1").stdout, "one")
                self.assertEqual(run("kv", "get", path, "apple").stdout, "17\n")
                self.assertEqual(self.answer("kv", "scan", path)["count"], 1)
                sets = self.answer("regions", "list", path)["sets"]
                self.assertEqual([s["region_count"] for s in sets if s["name"] == "s"], [2])
                self.assertIn("s: 2 regions, 5003 bytes", run("regions", "stat", path).stdout)
                # What is to be changed is not shared with those who look.
                self.assertNotEqual(run("regions", "del", path, "s", "1").returncode, GOOD)

    def test_are_in_info_and_dump(self):
        for medium in MEDIA:
            path = self.pool(medium)
            self.assertEqual(self.answer("info", path)["region_sets"], [])
            self.assertNotIn("region_sets", self.answer("dump", path))
            for rid, text in (("7", "first"), ("300", "x" * 5000), ("0", "")):
                self.put(path, rid, text)
            self.assertEqual(run("regions", "create", path, "a", "9", "16").returncode, GOOD)
            with self.unchanged(path):
                sets = self.answer("info", path)["region_sets"]
                self.assertEqual([s["name"] for s in sets], ["a", "s"])
                self.assertTrue(all(s["bytes"] >= 8 * 4096 for s in sets), sets)
                self.assertRegex(run("info", path).stdout, r"regions +set a, ")
                dump = self.answer("dump", path, "--hex", "4")
                self.assertEqual(dump["region_sets"], [
                    {"name": "a", "region_count": 1, "region_bytes": 16,
                     "regions": [{"rid": 9, "size_bytes": 16, "bytes": "00000000"}]},
                    {"name": "s", "region_count": 3, "region_bytes": 5005,
                     "regions": [{"rid": 0, "size_bytes": 0, "bytes": ""},
                                 {"rid": 7, "size_bytes": 5, "bytes": "66697273"},
                                 {"rid": 300, "size_bytes": 5000, "bytes": "78787878"}]}])
                self.assertEqual((dump["stopped_at_limit"], dump["object_count"]), (False, 0))
                text = run("dump", path).stdout
                self.assertIn("set s: 3 regions, 5005 bytes", text)
                self.assertRegex(text, r"\n +300 +5000\n")
                few = self.answer("dump", path, "--limit", "2")
                self.assertEqual([len(s["regions"]) for s in few["region_sets"]], [1, 1])
                self.assertTrue(few["stopped_at_limit"])
                self.assertEqual(self.answer("dump", path, "--summary")["region_sets"],
                                 [{"name": "a", "region_count": 1, "region_bytes": 16},
                                  {"name": "s", "region_count": 3, "region_bytes": 5005}])
                self.assertNotIn("region_sets", self.answer("dump", path, "--type", "3"))

    def damage(self, path, rid, changes):
        """Three regions, and the header of the first as it is after these (byte, bits) were changed; where it is."""
        for n, size in ((rid, 100), (1, 100), (2, 5000)):
            self.put(path, str(n), "x" * size)
        data = bytearray(path.read_bytes())
        # Records of the log, which no longer count, have the header as well.
        copies = [i for i in range(0, len(data) - 32, 8) if data[i:i + 8] == struct.pack("<Q", rid)]
        for i in copies:
            for at, bits in changes:
                data[i + at] ^= bits
        path.write_bytes(data)
        return copies

    def test_loses_no_region_but_the_damaged_one(self):
        rid = 0x1122334455667788
        for medium in MEDIA:
            for changes in (((8, 1),), ((16, 0x80),), ((31, 4),), ((8, 1), (16, 0x80)), ((16, 0x80), (31, 4))):
                path = self.path(medium, "damaged-" + "-".join(str(at) for at, _ in changes) + ".nvm")
                self.answer("create", path, "--size", "8M", "--medium", medium)
                copies = self.damage(path, rid, changes)
                found = self.answer("check", path, expect=NEGATIVE)["findings"]
                self.assertEqual(len(found), 1)
                self.assertIn(found[0]["offset"], copies)
                self.assertIn(f"region {rid}", found[0]["finding"])
                done = run("repair", path, "--in-place", "--json")
                self.assertIn(f"region {rid}", done.stdout)
                self.assertEqual(run("check", path).returncode, GOOD)
                left = [r["rid"] for r in self.answer("regions", "scan", path, "s")["regions"]]
                if len(changes) == 1:  # one word is found again
                    self.assertEqual(done.returncode, GOOD, done.stdout + done.stderr)
                    self.assertEqual(left, [1, 2, rid])
                    self.assertEqual(run("regions", "get", path, "s", str(rid)).stdout, "x" * 100)
                else:
                    self.assertEqual(done.returncode, NEGATIVE, done.stdout + done.stderr)  # something is lost
                    self.assertEqual(left, [1, 2])
                self.assertEqual(run("regions", "get", path, "s", "2").stdout, "x" * 5000)
                self.put(path, str(rid), "again")

    def test_finds_a_directory_that_nothing_names(self):
        for medium in MEDIA:
            path = self.path(medium, "unnamed.nvm")
            self.answer("create", path, "--size", "8M", "--medium", medium)
            self.put(path, "1", "one")
            data = bytearray(path.read_bytes())
            for anchor in (512, 4096 + 512):
                data[anchor + 40:anchor + 48] = bytes(8)
            path.write_bytes(data)
            self.assertEqual(run("check", path).returncode, NEGATIVE)
            done = run("repair", path, "--in-place")
            self.assertEqual(done.returncode, GOOD, done.stdout + done.stderr)
            self.assertEqual(run("check", path).returncode, GOOD)
            self.assertEqual(run("regions", "get", path, "s", "1").stdout, "one")

    def test_says_that_pools_of_the_log_engine_have_none(self):
        path = self.path("log")
        self.answer("create", path, "--size", "8M", "--engine", "log")
        done = run("regions", "put", path, "s", "1", input="x")
        self.assertIn("NVM_E_ENGINE", done.stderr)


if __name__ == "__main__":
    main()
