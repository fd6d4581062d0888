#!/usr/bin/env python3
"""repair: what is known twice is mended, everything else is reported or refused, and nothing gets worse."""

import json
import os
import pathlib
import random
import resource
import struct
import subprocess

import cli_testing
from cli_testing import GOOD, INTERNAL, MEDIA, NEGATIVE, UNAVAILABLE, USAGE, Layout, PoolTest, run


class RepairTest(PoolTest):
    def copy_with(self, path, changes):
        """A copy of the pool in which bytes are changed: {offset: bytes}."""
        data = bytearray(path.read_bytes())
        for offset, new in changes.items():
            data[offset:offset + len(new)] = new
        damaged = path.parent / "damaged.nvm"
        damaged.write_bytes(data)
        os.chmod(damaged, 0o600)
        out = self.out(damaged)
        if out.exists():
            out.unlink()
        return damaged

    def out(self, damaged):
        return damaged.parent / (damaged.name + ".repaired")

    def flipped(self, path, *offsets, mask=0x10):
        data = path.read_bytes()
        return self.copy_with(path, {at: bytes([data[at] ^ mask]) for at in offsets})

    def objects(self, path):
        return {o["offset"]: (o["type"], o["size_bytes"], o["bytes"])
                for o in self.answer("dump", path, "--hex", 4096)["objects"]}

    def repaired(self, damaged, expect=GOOD, found=True):
        """The answer; the result is sound, PATH is as it was, a rehearsal says the same."""
        if found:
            self.answer("check", damaged, expect=NEGATIVE)
        with self.unchanged(damaged):
            rehearsed = self.answer("repair", damaged, "--dry-run", expect=expect)
            self.assertFalse(self.out(damaged).exists())
            answer = self.answer("repair", damaged, expect=expect)
        self.assertEqual(answer["out"], str(self.out(damaged)))
        self.assertIsNone(rehearsed["out"])
        for field in ("mended", "kept", "lost", "objects", "objects_intact", "result"):
            self.assertEqual(rehearsed[field], answer[field])
        self.assert_sound_but_for_stores(self.out(damaged), answer["kept"])
        self.assertEqual(self.out(damaged).stat().st_mode & 0o777, 0o600)
        self.assertGreaterEqual(answer["objects"], answer["objects_intact"])
        return answer

    def assert_sound_but_for_stores(self, path, kept):
        """The check finds nothing, or what repair has kept as it is in key-value stores."""
        done = run("check", path, "--json")
        self.assertIn(done.returncode, (GOOD, NEGATIVE), done.stderr)
        findings = [f["finding"] for f in json.loads(done.stdout)["findings"]]
        others = [f for f in findings if "key-value store" not in f]
        self.assertEqual(others, [])
        if findings:
            self.assertIn("key-value store", str(kept))

    def refused(self, damaged, words):
        before = sorted(os.listdir(damaged.parent))
        with self.unchanged(damaged):
            for more in ((), ("--dry-run",), ("--in-place",)):
                done = run("repair", damaged, *more)
                self.assertEqual(done.returncode, UNAVAILABLE, done.stdout)
                self.assertIn("cannot be mended, nothing was changed", done.stderr)
                self.assertIn(words, done.stderr)
        self.assertEqual(sorted(os.listdir(damaged.parent)), before)

    def each_medium(self):
        for medium in MEDIA:
            path, _ = self.used_pool(medium)
            with self.subTest(medium=medium):
                yield path, Layout(path)


class Mended(RepairTest):
    def mends(self, path, *offsets, mask=0x10, words=""):
        before = self.objects(path)
        answer = self.repaired(self.flipped(path, *offsets, mask=mask))
        self.assertEqual((answer["result"], answer["kept"], answer["lost"]), ("repaired", [], []))
        self.assertNotEqual(answer["mended"], [])
        self.assertIn(words, str(answer["mended"]))
        self.assertEqual(self.objects(self.out(path.parent / "damaged.nvm")), before)
        return answer

    def test_are_copies_of_superblocks_and_anchors(self):
        for path, layout in self.each_medium():
            for copy, name in zip(layout.superblocks, "AB"):
                self.mends(path, copy + 120, words=f"superblock copy {name}")
            for anchor in layout.anchors:
                self.mends(path, anchor + 3, words="place of the root")
                self.mends(path, anchor + 300, words="reserved bytes of an anchor")
            # A byte in each of both.
            self.mends(path, layout.superblocks[0] + 33, layout.superblocks[1] + 137, mask=0x5A, words="one byte")
            self.mends(path, layout.anchors[0] + 1, layout.anchors[1] + 2, words="place of the root")

    def test_are_the_page_map_extents_and_objects(self):
        for path, layout in self.each_medium():
            for kind in (Layout.RUN, Layout.FINE, Layout.COARSE):
                page = layout.pages(kind)[0]
                at = layout.data_at + page * layout.page
                noise = self.copy_with(path, {layout.entry(page): struct.pack("<Q", 0x5DEECE66D1234567)})
                self.assertIn("page map entry", str(self.repaired(noise)["mended"]))
                if kind != Layout.RUN:
                    first, _, lengths, slot, at = layout.extent(page, kind)
                    self.mends(path, at + 2, words="identity of an extent")
                    self.mends(path, first + 8 * 1 + 1, words="allocation word")
                    self.mends(path, lengths + layout.first_object(page, kind), words="length byte")
                    at += slot * layout.first_object(page, kind)
                self.mends(path, at + 9, words="object header")

    def test_are_entries_behind_the_end(self):
        for path, layout in self.each_medium():
            self.mends(path, layout.entry(layout.size_pages) + 1, words="behind the pool's end")

    def test_is_the_log_of_a_closed_pool(self):
        path, _ = self.used_pool("shm")
        layout = Layout(path)
        lane = next(at for at in range(layout.log, layout.data_at, layout.lane_bytes) if layout.word(at + 64) != 0)
        self.mends(path, lane + 64 + 8, words="nothing in it counted")
        self.mends(path, lane + 1, words="retired generation")
        self.answer("kv", "put", self.out(path.parent / "damaged.nvm"), "k", "v")  # it can be worked with
        path, _ = self.used_pool("ssd")
        layout = Layout(path)
        self.mends(path, layout.log + 100, words="header of the log")

    def test_is_a_commit_record_of_a_dead_pool_that_nobody_needs(self):
        path, _ = self.dead_pool("shm")
        layout = Layout(path)
        lane = next(at for at in range(layout.log, layout.data_at, layout.lane_bytes) if layout.word(at + 64) != 0)
        generations = {layout.word(slot + 8): slot for slot in range(lane + 64, lane + 64 * 9, 64)}
        newest = max(generations)
        answer = self.repaired(self.flipped(path, generations[max(1, newest - 5)] + 20))
        self.assertIn("not needed any more", str(answer["mended"]))

    def test_are_pools_of_every_engine(self):
        for engine in ("undo", "redo", "mnemosyne", "mnemosyne-undo", "log"):
            with self.subTest(engine):
                path = self.path("shm", f"{engine}.nvm")
                self.answer("create", path, "--size", "2M", "--engine", engine)
                for n in range(30):
                    self.answer("kv", "put", path, f"key{n}", "v" * (n * 40 + 1))
                layout = Layout(path)
                damages = [layout.superblocks[1] + 120, layout.anchors[1] + (32 if engine == "log" else 16)]
                if engine != "log":
                    damages.append(layout.entry(layout.pages(Layout.COARSE)[0]) + 2)
                for at in damages:
                    damaged = self.flipped(path, at)
                    answer = self.repaired(damaged)
                    self.assertEqual((answer["kept"], answer["lost"]), ([], []))
                    for n in (0, 7, 29):
                        self.assertEqual(self.answer("kv", "get", self.out(damaged), f"key{n}")["value"],
                                         "v" * (n * 40 + 1))

    def test_are_pools_whose_owner_died(self):
        for medium in MEDIA:
            path, kinds = self.dead_pool(medium)
            layout = Layout(path)
            answer = self.repaired(self.flipped(path, layout.superblocks[0] + 130, layout.anchors[1] + 2))
            self.assertEqual(answer["rolled_back_transactions"], 1 if medium == "shm" else 0)
            # Of the dead owner's two transactions one had committed.
            self.assertEqual(answer["objects"], sum(k[2] for k in kinds) + 1)
            root = self.answer("dump", self.out(path.parent / "damaged.nvm"), "--hex", 24)
            first = next(o for o in root["objects"] if o["offset"] == root["root"])
            self.assertNotIn("ee", first["bytes"])

    def test_in_place_takes_the_name_of_the_pool(self):
        for path, layout in self.each_medium():
            before = self.objects(path)
            damaged = self.flipped(path, layout.superblocks[0] + 120)
            os.chmod(damaged, 0o640)
            answer = self.answer("repair", damaged, "--in-place")
            self.assertEqual(answer["out"], str(damaged))
            self.assertEqual(damaged.stat().st_mode & 0o777, 0o640)
            self.assertTrue(self.answer("check", damaged)["sound"])
            self.assertEqual(self.objects(damaged), before)
            self.assertEqual(sorted(os.listdir(path.parent)), ["damaged.nvm", "pool.nvm"])

    def test_a_sound_pool_stays_what_it_is(self):
        for path, _ in self.each_medium():
            before = self.objects(path)
            damaged = self.copy_with(path, {})
            answer = self.repaired(damaged, found=False)
            self.assertEqual((answer["result"], answer["mended"]), ("sound", []))
            self.assertEqual(self.objects(self.out(damaged)), before)


class Lost(RepairTest):
    def test_objects_are_named_with_their_type(self):
        for path, layout in self.each_medium():
            page = layout.pages(Layout.FINE)[0]
            _, _, lengths, slot, extent = layout.extent(page, Layout.FINE)
            root = layout.first_object(page, Layout.FINE)
            victim = root + (layout.data[lengths + root] & 0x7F)
            at = extent + victim * slot
            before = self.objects(path)
            answer = self.repaired(self.copy_with(path, {at: bytes(8), lengths + victim: b"\0"}), NEGATIVE)
            self.assertEqual([(o["offset"], o["type"]) for o in answer["lost"]], [(at, before[at + 16][0])])
            self.assertEqual(answer["kept"], [])
            after = self.objects(self.out(path.parent / "damaged.nvm"))
            del before[at + 16]
            self.assertEqual(after, before)

    def test_certainty_about_an_object_is_reported_and_its_bytes_stay(self):
        for path, layout in self.each_medium():
            page = layout.pages(Layout.COARSE)[0]
            _, _, _, slot, extent = layout.extent(page, Layout.COARSE)
            at = extent + layout.first_object(page, Layout.COARSE) * slot
            before = self.objects(path)
            answer = self.repaired(self.copy_with(path, {at: b"\xA5" * 12}), NEGATIVE)
            self.assertEqual([(o["offset"], o["type"]) for o in answer["kept"]], [(at, 0xA5A5A5A5)])
            self.assertEqual(answer["lost"], [])
            after = self.objects(self.out(path.parent / "damaged.nvm"))
            self.assertEqual(after.keys(), before.keys())
            self.assertTrue(after[at + 16][2].startswith(before[at + 16][2][:200]))

    def test_transactions_of_a_damaged_log_are_named(self):
        path, _ = self.dead_pool("shm")
        layout = Layout(path)
        lane = next(at for at in range(layout.log, layout.data_at, layout.lane_bytes) if layout.word(at + 64) != 0)
        # Noise is one bit from a word that holds in a quarter of all cases; none of that may be believed.
        for noise in range(0x5DEECE66D1234567, 0x5DEECE66D1234567 + 40):
            damaged = self.copy_with(path, {lane: struct.pack("<Q", noise)})
            answer = self.answer("repair", damaged, "--dry-run", expect=NEGATIVE)
            self.assertIn("log of lane", str(answer["lost"]))
            self.assertIn("rolled back", str(answer["kept"]))
        self.repaired(damaged, NEGATIVE)

    def test_blocks_of_a_log_are_cut_out_and_what_they_were_about_is_named(self):
        path = self.path("shm", "log.nvm")
        self.answer("create", path, "--size", "2M", "--engine", "log")
        for n in range(30):
            self.answer("kv", "put", path, f"key{n}", "v" * (n * 40 + 1))
        data = path.read_bytes()
        places = [data.rindex(b"v" * 200), data.index(b"v" * 900)]
        for wanted in places:
            damaged = self.flipped(path, wanted)
            answer = self.repaired(damaged, NEGATIVE)
            about = answer["kept"] + answer["lost"]
            self.assertTrue(any("a block of the log, of version" in o["what"] for o in about), about)
            self.assertTrue(all(o["what"] for o in about))
            out = self.out(damaged)
            good = 0
            for n in range(0, 30, 3):
                done = run("kv", "get", out, f"key{n}")
                good += done.stdout == "v" * (n * 40 + 1) + "\n"
                # What was in the lost bytes is not there, and is named.
                self.assertTrue(done.returncode == GOOD or f'entry "key{n}"' in str(answer["lost"]), done.stderr)
            self.assertGreaterEqual(good, 6)
            self.answer("kv", "put", out, "another", "w")
            self.assert_sound_but_for_stores(out, answer["kept"])

    def test_text_says_the_same(self):
        path, _ = self.used_pool("shm")
        layout = Layout(path)
        done = run("repair", self.flipped(path, layout.superblocks[0] + 120), "--dry-run")
        self.assertIn("mended offset 0: superblock copy A\n", done.stdout)
        self.assertRegex(done.stdout, r"can be repaired: 1 mended, 0 kept, 0 lost; \d+ objects\n")


class StoresTest(RepairTest):
    def stored(self, index, engine="undo", medium="shm", name="store"):
        path = self.path(medium, f"{index}-{engine}.nvm")
        self.answer("create", path, "--size", "2M", "--engine", engine)
        self.add(path, "other", "hash", 20)
        self.add(path, name, index, 60)
        return path

    def add(self, path, name, index, count):
        lines = "".join(f"key-{n:04d},value {n} of {name}\n" for n in range(count))
        done = run("kv", "load", path, "-", "--store", name, "--index", index, input=lines)
        self.assertEqual(done.returncode, GOOD, done.stderr)

    def entries(self, path, name="store"):
        """In the order of the store."""
        return [(e["key"], e["value"]) for e in self.answer("kv", "export", path, "--store", name)["entries"]]

    def changed(self, path, what, new):
        data = path.read_bytes()
        self.assertEqual(len(what), len(new))
        return self.copy_with(path, {data.rindex(what): new})

    def used_again(self, out, name="store"):
        """The rest of the store works, and what was lost can be put again."""
        self.answer("kv", "put", out, "key-0017", "again", "--store", name)
        self.answer("kv", "del", out, "key-0018", "--store", name)
        self.assertEqual(self.answer("kv", "stat", out, "--store", name)["count"], 59)
        self.assertEqual(run("check", out).returncode, GOOD)


class Stores(StoresTest):
    """A damaged store is made anew from what can be read: one damaged value costs that value, and is named."""

    def test_lose_the_value_that_is_damaged_and_nothing_else(self):
        for index in ("list", "hash", "btree"):
            for engine, medium in (("undo", "shm"), ("redo", "ssd"), ("mnemosyne", "shm")):
                with self.subTest(index=index, engine=engine):
                    path = self.stored(index, engine, medium)
                    before, other = self.entries(path), self.entries(path, "other")
                    damaged = self.changed(path, b"value 17 of store", b"value 71 of store")
                    answer = self.repaired(damaged, NEGATIVE)
                    self.assertEqual([n["what"] for n in answer["lost"]],
                                     ['key-value store "store": entry "key-0017": an entry fails its checksum'])
                    self.assertEqual(answer["kept"], [])
                    out = self.out(damaged)
                    self.assertEqual(run("check", out).returncode, GOOD)
                    after = self.entries(out)
                    if index == "hash":
                        before, after = sorted(before), sorted(after)
                    self.assertEqual(after, [e for e in before if e[0] != "key-0017"])
                    self.assertEqual(self.entries(out, "other"), other)
                    self.used_again(out)

    def test_lose_nothing_with_a_link_or_a_counter(self):
        for index in ("list", "hash", "btree"):
            path = self.stored(index)
            before, data = self.entries(path), path.read_bytes()
            place = data.rindex(struct.pack("<QI", 0x5641_4B44_4C4F_4831, 2))
            offsets = {"root": 48, "entries": 112, "segment": 1136}
            for word in ("segment" if index == "hash" else "root", "entries"):
                with self.subTest(index=index, word=word):
                    damaged = self.flipped(path, place + offsets[word])
                    answer = self.repaired(damaged, NEGATIVE if word == "entries" else GOOD)
                    self.assertIn("made anew, with 60 entries", str(answer["mended"]))
                    self.assertEqual(run("check", self.out(damaged)).returncode, GOOD)
                    self.assertEqual(sorted(self.entries(self.out(damaged))), sorted(before))

    def test_lose_no_other_store_with_one_of_which_nothing_says_what_it_was(self):
        path = self.path("shm", "two.nvm")
        self.answer("create", path, "--size", "2M")
        self.add(path, "sound", "hash", 20)
        self.add(path, "damaged", "btree", 60)
        self.add(path, "unknown", "hash", 30)
        before, sound = self.entries(path, "damaged"), self.entries(path, "sound")
        data = path.read_bytes()
        header = data.rindex(struct.pack("<QI", 0x5641_4B44_4C4F_4831, 2))
        junk = bytes(0xA5 ^ n for n in range(128))
        broken = self.copy_with(path, {header: junk, data.rindex(b"value 17 of damaged"): b"value 71 of damaged"})
        answer = self.repaired(broken, NEGATIVE)
        self.assertEqual(sorted(n["what"] for n in answer["lost"]),
                         ['key-value store "damaged": entry "key-0017": an entry fails its checksum',
                          'key-value store "unknown": all of it, for nothing says what its index was'])
        out = self.out(broken)
        self.assertEqual(run("check", out).returncode, GOOD)
        self.assertEqual(self.entries(out, "damaged"), [e for e in before if e[0] != "key-0017"])
        self.assertEqual(sorted(self.entries(out, "sound")), sorted(sound))
        self.assertEqual([s["name"] for s in self.answer("kv", "stores", out)["stores"]], ["damaged", "sound"])

    def test_lose_no_entry_of_a_tree_whose_leaf_knows_its_key(self):
        path = self.stored("btree")
        before = self.entries(path)
        damaged = self.changed(path, b"key-0017", b"kex-0017")
        answer = self.repaired(damaged)
        self.assertEqual((answer["lost"], answer["kept"]), ([], []))
        self.assertEqual(self.entries(self.out(damaged)), before)

    def test_lose_nothing_with_a_word_that_says_that_nothing_is_there(self):
        """Zero holds in the page map and in extents: what links lead to is there all the same."""
        for index in ("list", "hash", "btree"):
            path = self.stored(index)
            before, other = self.entries(path), self.entries(path, "other")
            layout = Layout(path)
            words = []
            for kind in (Layout.FINE, Layout.COARSE):
                for page in layout.pages(kind):
                    first, count, _, _, _ = layout.extent(page, kind)
                    words += [first + 8 * i for i in range(count) if layout.word(first + 8 * i)][:2]
                    words.append(layout.entry(page))
            for at in words:
                with self.subTest(index=index, at=at):
                    damaged = self.copy_with(path, {at: bytes(8)})
                    answer = self.repaired(damaged)
                    self.assertEqual((answer["lost"], answer["kept"]), ([], []))
                    self.assertIn("allocated again", str(answer["mended"]))
                    self.assertEqual(self.entries(self.out(damaged)), before)
                    self.assertEqual(self.entries(self.out(damaged), "other"), other)

    def test_give_back_the_room_of_what_is_lost(self):
        path = self.stored("hash")
        damaged = self.changed(path, b"value 17 of store", b"value 71 of store")
        self.repaired(damaged, NEGATIVE)
        out = self.out(damaged)
        sizes = [self.answer("check", p)["objects"] for p in (path, out)]
        self.assertLessEqual(sizes[1], sizes[0])

    def test_are_read_within_the_bounds_of_their_pool(self):
        """A size of a GiB in a pool of 2 MiB costs neither memory nor, but for a bound against hanging, time."""
        path = self.path("shm", "log.nvm")
        self.answer("create", path, "--size", "2M", "--engine", "log")
        self.add(path, "store", "list", 200)
        data = bytearray(path.read_bytes())
        pages = [at for at in range(0, len(data), 4096) if data[at:at + 4096].count(b" of store") > 10]
        for page in pages:
            damaged = self.copy_with(path, {page: bytes(4096)})
            begin = resource.getrusage(resource.RUSAGE_CHILDREN)
            run("repair", damaged, "--dry-run")
            run("kv", "export", damaged, "--store", "store", "--salvage")
            end = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assertLess(end.ru_maxrss, max(begin.ru_maxrss + 1, 768 << 10))
            self.assertLess(end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime, 50)


class Names(StoresTest):
    """What names the stores is made anew, and keeps no damaged store from being mended."""

    MAGIC = 0x5641_4B44_4C4F_4831

    def names(self, path):
        return [s["name"] for s in self.answer("kv", "stores", path)["stores"]]

    def pool(self, engine="undo", medium="shm"):
        path = self.stored("btree", engine, medium)
        return path, path.read_bytes(), {name: sorted(self.entries(path, name)) for name in ("other", "store")}

    def expect_all(self, path, stored, others=()):
        self.assertEqual(self.names(path), sorted([*stored, *others]))
        for name, entries in stored.items():
            self.assertEqual(sorted(self.entries(path, name)), entries)
        self.assertEqual(run("check", path).returncode, GOOD)

    def record_of(self, data, name):
        """Where the directory has the place of a store."""
        key = name.encode() + bytes(-len(name) % 8)
        places = {at for at in range(0, len(data) - 8, 16) if data[at:at + 8] == struct.pack("<Q", self.MAGIC)}
        at = data.find(key)
        while at >= 0:
            if struct.unpack_from("<Q", data, at + len(key))[0] in places:
                return at + len(key)
            at = data.find(key, at + 1)
        raise AssertionError(f"no record of {name}")

    def header_of_directory(self, data):
        return data.index(struct.pack("<QIIQ", self.MAGIC, 2, 3, 0))

    def test_are_made_anew_where_their_tree_is_damaged(self):
        for engine, medium in (("undo", "shm"), ("redo", "ssd"), ("mnemosyne", "shm")):
            path, data, stored = self.pool(engine, medium)
            header = self.header_of_directory(data)
            for offset in (0, 8, 24, 48, 112):
                with self.subTest(engine=engine, offset=offset):
                    damaged = self.copy_with(path, {header + offset: b"\xa5\x5a\xa5\x5a"})
                    answer = self.repaired(damaged)
                    self.assertIn("directory of key-value stores: made anew, with 2 names", str(answer["mended"]))
                    self.assertEqual((answer["lost"], answer["kept"]), ([], []))
                    self.expect_all(self.out(damaged), stored)
                    self.used_again(self.out(damaged))

    def test_are_found_without_their_place(self):
        path, data, stored = self.pool()
        for noise in (struct.pack("<Q", 0x5DEECE66D1234567), b"\xff" * 8):
            damaged = self.copy_with(path, {at + 16: noise for at in Layout(path).anchors})
            answer = self.repaired(damaged)
            self.assertEqual(answer["lost"], [])
            self.expect_all(self.out(damaged), stored)
            # Nor is there a header that the place could lead to.
            header = self.header_of_directory(data)
            changes = {at + 16: noise for at in Layout(path).anchors} | {header: bytes(32)}
            damaged = self.copy_with(path, changes)
            self.assertEqual(self.repaired(damaged)["lost"], [])
            self.expect_all(self.out(damaged), stored)

    def test_stand_as_they_are_where_their_checksum_fails(self):
        path, data, stored = self.pool()
        place = self.record_of(data, "store")
        damaged = self.copy_with(path, {place + 8: struct.pack("<Q", 0x778CC81EBBB02045)})
        answer = self.repaired(damaged, NEGATIVE)
        self.assertEqual(answer["lost"], [])
        self.assertEqual([n["what"] for n in answer["kept"]],
                         ['directory of key-value stores: the name of a store, as it stands: "store"'])
        self.expect_all(self.out(damaged), stored)
        # Of a short name the leaf of the tree has all.
        damaged = self.copy_with(path, {place - 8: b"stare"})
        answer = self.repaired(damaged)
        self.assertEqual((answer["lost"], answer["kept"]), ([], []))
        self.expect_all(self.out(damaged), stored)

    def test_are_made_up_where_they_are_lost_and_the_stores_are_mended_all_the_same(self):
        path, data, stored = self.pool()
        at = self.record_of(data, "store")
        changes = {at: b"\xff" * 8, data.rindex(b"value 17 of store"): b"value 71 of store"}
        damaged = self.copy_with(path, changes)
        answer = self.repaired(damaged, NEGATIVE)
        lost = [n["what"] for n in answer["lost"]]
        self.assertIn('directory of key-value stores: the name of a store, which is "lost-1" from now on', lost)
        self.assertIn('key-value store "lost-1": entry "key-0017": an entry fails its checksum', lost)
        self.assertEqual(len(lost), 2)
        out = self.out(damaged)
        self.expect_all(out, {"other": stored["other"]}, ["lost-1"])
        self.assertEqual(sorted(self.entries(out, "lost-1")), [e for e in stored["store"] if e[0] != "key-0017"])
        self.used_again(out, "lost-1")


class Structures(RepairTest):
    """A damaged lock-free structure is made anew; what is lost or not certain is named by its key."""

    def pool(self, medium):
        path = self.path(medium)
        self.make(path, medium, "structures")
        return path, path.read_bytes()

    def scan(self, path, name):
        return sorted((e.get("key", ""), e.get("value", "")) for e in self.answer("lf", "scan", path, name)["entries"])

    def all_of(self, path):
        names = [s["name"] for s in self.answer("lf", "list", path)["structures"]]
        return {name: self.scan(path, name) for name in names}

    def node(self, data, name, n):
        """Head of the node of "key-n" in a structure of bytes, and where the link is that leads there."""
        text = f"key-{n}value-{n}".encode()
        heads = []
        first = Layout.SUPERBLOCK.unpack_from(data)[15]
        at = data.find(text, first)
        while at >= 0:
            heads.append(at - 32)
            at = data.find(text, at + 1)
        # Structures are made one after the other.
        kinds = ("list", "hash", "skiplist", "tree")
        head = sorted(heads)[kinds.index(name.split("-")[1])]
        links = [at for at in range(first, len(data) - 7, 8)
                 if struct.unpack_from("<Q", data, at)[0] & ~7 & ~(3 << 62) == head]
        return head, links[0]

    def test_lose_nothing_with_a_link(self):
        for medium in MEDIA:
            path, data = self.pool(medium)
            before = self.all_of(path)
            for kind in ("list", "hash", "skiplist", "tree"):
                with self.subTest(medium=medium, kind=kind):
                    _, link = self.node(data, f"bytes-{kind}", 50)
                    damaged = self.copy_with(path, {link: struct.pack("<Q", 0x123456789ABCDEC0)})
                    answer = self.repaired(damaged)
                    self.assertIn(f'lock-free structure "bytes-{kind}": made anew, with 101 entries',
                                  [n["what"] for n in answer["mended"]])
                    self.assertEqual((answer["lost"], answer["kept"]), ([], []))
                    self.assertEqual(self.all_of(self.out(damaged)), before)
                    for name in before:
                        self.assertTrue(self.answer("lf", "check", self.out(damaged), name)["sound"])

    def test_name_an_entry_whose_value_is_damaged(self):
        path, data = self.pool("shm")
        head, link = self.node(data, "bytes-tree", 50)
        value = head + 32 + len("key-50")
        answer = self.repaired(self.copy_with(path, {value: b"VALUE"}), NEGATIVE)
        self.assertEqual([n["what"] for n in answer["kept"]],
                         ['lock-free structure "bytes-tree": entry "key-50": an entry fails its checksum; '
                          "a look-up finds it, and it stays"])
        self.assertEqual(answer["lost"], [])
        # Where no look-up finds it, it is lost.
        answer = self.repaired(self.copy_with(path, {value: b"VALUE", link: struct.pack("<Q", 1 << 40)}), NEGATIVE)
        self.assertEqual([n["what"] for n in answer["lost"]],
                         ['lock-free structure "bytes-tree": entry "key-50": an entry fails its checksum'])
        self.assertEqual(answer["kept"], [])

    def test_keep_their_entries_where_their_names_are_damaged(self):
        path, data = self.pool("shm")
        before = self.all_of(path)
        at = data.index(b"words-skiplist\0")
        damaged = self.copy_with(path, {at: b"W"})
        answer = self.repaired(damaged)
        self.assertIn('directory of lock-free structures: the entry of "words-skiplist"', str(answer["mended"]))
        self.assertEqual(self.all_of(self.out(damaged)), before)
        damaged = self.copy_with(path, {at: bytes(range(1, 15))})
        answer = self.repaired(damaged, NEGATIVE)
        self.assertEqual([n["what"] for n in answer["lost"]],
                         ["directory of lock-free structures: the name of a structure, "
                          'which is "lost-1" from now on'])
        before["lost-1"] = before.pop("words-skiplist")
        self.assertEqual(self.all_of(self.out(damaged)), before)


class Types(RepairTest):
    def typed_pool(self, kind="shm"):
        path = self.path("shm", f"typed-{kind}.nvm")
        maker = pathlib.Path(cli_testing.MAKER).with_name("cli_typed_pool_maker")
        subprocess.run([maker, path, kind], check=True, timeout=60)
        return path

    def test_of_damaged_objects_are_named(self):
        path = self.typed_pool()
        named = [o for o in self.answer("dump", path)["objects"] if "type_name" in o]
        damaged = self.copy_with(path, {named[0]["offset"] - 16: bytes(8)})  # size and check; the type stays
        answer = self.repaired(damaged, NEGATIVE)
        self.assertEqual([o["type_name"] for o in answer["kept"]], [named[0]["type_name"]])
        self.assertIn(f"({named[0]['type_name']}, ", run("repair", damaged, "--out", damaged.with_name("again")).stdout)

    def test_that_are_damaged_are_dropped_and_nothing_else(self):
        path = self.typed_pool()
        before = self.objects(path)
        damaged = self.flipped(path, path.read_bytes().index(b"HTYPEMAP") + 40)
        answer = self.repaired(damaged, NEGATIVE)
        self.assertEqual(len(answer["lost"]), 1)
        self.assertIn("type map", answer["lost"][0]["what"])
        self.assertEqual(self.objects(self.out(damaged)), before)
        self.assertEqual(self.answer("types", self.out(damaged))["types"], [])

    def test_that_are_damaged_in_a_log_are_dropped_and_nothing_else(self):
        path = self.typed_pool("log")
        before = self.objects(path)
        damaged = self.flipped(path, path.read_bytes().index(b"HTYPEMAP") + 40)
        answer = self.repaired(damaged, NEGATIVE)
        self.assertIn("the type map: ", str(answer["lost"]))
        self.assertEqual(self.objects(self.out(damaged)), before)
        self.assertEqual(self.answer("types", self.out(damaged))["types"], [])


class Refused(RepairTest):
    def test_are_pools_of_which_nothing_says_what_they_were(self):
        for path, layout in self.each_medium():
            noise = struct.pack("<Q", 0x5DEECE66D1234567)
            free = layout.entry(layout.pages(0)[-1])
            self.refused(self.copy_with(path, {free: noise}), "page map entry: nothing says what it was")
            both = {at: noise for at in layout.anchors}
            self.refused(self.copy_with(path, both), "the root: no copy of its place names one")
            self.refused(self.copy_with(path, {at + 120: noise for at in layout.superblocks}), "superblock")

    def test_is_a_pool_whose_root_is_lost(self):
        for path, layout in self.each_medium():
            page = layout.pages(Layout.FINE)[0]
            _, _, lengths, slot, extent = layout.extent(page, Layout.FINE)
            first = layout.first_object(page, Layout.FINE)
            changes = {extent + first * slot: bytes(8), lengths + first: b"\0"}
            self.refused(self.copy_with(path, changes), "the root")

    def test_are_other_files_and_wrong_use(self):
        path, _ = self.used_pool("shm")
        text = path.parent / "text"
        text.write_text("no pool")
        self.assert_fails(("repair", text), UNAVAILABLE, "NVM_E_NOT_A_POOL")
        self.assert_fails(("repair", path.parent / "none"), UNAVAILABLE, "NVM_E_NOT_FOUND")
        self.assert_fails(("repair", path, "--out", text), UNAVAILABLE, "NVM_E_EXISTS")
        self.assertEqual(text.read_text(), "no pool")
        self.assertEqual(run("repair", path, "--in-place", "--out", "x").returncode, USAGE)
        with self.held(path, "shm"):
            for more in ((), ("--in-place",), ("--dry-run",)):
                self.assert_fails(("repair", path, *more), UNAVAILABLE, "NVM_E_BUSY")

    def test_leave_nothing_where_there_is_no_room(self):
        path, _ = self.used_pool("shm")
        damaged = self.flipped(path, 120)
        before = sorted(os.listdir(path.parent))
        limit = 64 * 1024
        with self.unchanged(damaged):
            for more in ((), ("--in-place",)):
                done = run("repair", damaged, *more,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
                self.assertEqual(done.returncode, INTERNAL, done.stderr)
        self.assertEqual(sorted(os.listdir(path.parent)), before)


class Anything(RepairTest):
    def test_ends_in_a_sound_pool_with_every_intact_object_or_in_a_refusal(self):
        dice = random.Random(5)
        results = set()
        for path, layout in self.each_medium():
            before = self.objects(path)
            used = [layout.data_at + page * layout.page for kind in (Layout.RUN, Layout.FINE, Layout.COARSE)
                    for page in layout.pages(kind)]
            areas = [(0, layout.page_map), (layout.page_map, layout.page_map + 8 * layout.size_pages),
                     (layout.log, layout.log + layout.log_bytes), *((at, at + 512) for at in used)]
            for _ in range(40):
                changes = {dice.randrange(*dice.choice(areas)): bytes([dice.randrange(256)])
                           for _ in range(dice.choice((1, 2, 4, 16)))}
                damaged = self.copy_with(path, changes)
                with self.unchanged(damaged):
                    done = run("repair", damaged)
                self.assertIn(done.returncode, (GOOD, NEGATIVE, UNAVAILABLE), f"{changes}: {done.stderr}")
                results.add(done.returncode)
                if done.returncode == UNAVAILABLE:
                    self.assertFalse(self.out(damaged).exists())
                    continue
                out = self.out(damaged)
                self.assertTrue(self.answer("check", out)["sound"], changes)
                if done.returncode == GOOD:
                    self.assertEqual({k: v[:2] for k, v in self.objects(out).items()},
                                     {k: v[:2] for k, v in before.items()}, changes)
        self.assertIn(GOOD, results)


if __name__ == "__main__":
    os.environ["HOLDFAST_ACCEPT_COPY"] = "1"  # what is damaged here are copies, also of pools whose owners had died
    cli_testing.main()
