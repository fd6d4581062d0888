#!/usr/bin/env python3
"""check: sound pools are called sound, every kind of damage is found, nothing is changed."""

import random
import shutil
import signal

import cli_testing
from cli_testing import GOOD, INTERNAL, MEDIA, NEGATIVE, UNAVAILABLE, Layout, PoolTest, run


class Copies(PoolTest):
    """Made of a pool in use, and of one whose owner died."""

    def assert_is_refused(self, path):
        for command in (("check",), ("kv", "stores"), ("dump",), ("pointers",), ("repair",)):
            self.assert_fails((*command, path), UNAVAILABLE, "NVM_E_COPY", "a copy of a pool that was in use")
        self.assertEqual(self.answer("info", path)["condition"], "copy")

    def test_are_refused_until_they_are_accepted(self):
        for medium in MEDIA:
            for state in ("held", "dead"):
                path, _ = self.used_pool(medium, f"{state}.nvm")
                copy = path.with_suffix(".copy")
                if state == "held":
                    with self.held(path, medium):
                        shutil.copyfile(path, copy)
                else:
                    self.make(path, medium, "die", expect=-signal.SIGKILL)
                    shutil.copyfile(path, copy)
                copy.chmod(0o600)
                with self.unchanged(copy):
                    self.assert_is_refused(copy)
                mended = copy.with_suffix(".mended")
                self.assertEqual(run("repair", "--accept-copy", copy, "--out", mended).returncode, GOOD)
                self.assertEqual(run("check", mended).returncode, GOOD)
                self.assertTrue(self.answer("check", "--accept-copy", copy)["accepted"])
                self.assertFalse(self.answer("check", "--accept-copy", copy)["accepted"], "it is a pool by now")
                self.assertEqual(self.answer("info", copy)["condition"], "clean")
                self.assertEqual(run("check", path).returncode, GOOD)
                # Copied when it is closed: as good as the pool.
                self.answer("kv", "put", path, "key", "value")
                shutil.copyfile(path, copy)
                self.assertEqual(run("kv", "get", copy, "key").stdout, "value\n")

    def test_that_are_damaged_are_not_accepted(self):
        path, _ = self.used_pool("shm")
        copy = path.with_suffix(".copy")
        with self.held(path, "shm"):
            shutil.copyfile(path, copy)
        copy.chmod(0o600)
        at = Layout(copy)
        with open(copy, "r+b") as file:
            file.seek(at.entry(at.pages(Layout.RUN)[0]))
            file.write(b"\xff" * 8)
        with self.unchanged(copy):
            self.assertFalse(self.answer("check", "--accept-copy", copy, expect=NEGATIVE)["accepted"])


class SoundPools(PoolTest):
    def test_are_called_sound_and_counted(self):
        for medium in MEDIA:
            path, kinds = self.used_pool(medium)
            with self.unchanged(path):
                done = run("check", path)
                answer = self.answer("check", path)
            self.assertEqual((done.returncode, done.stderr), (GOOD, ""))
            self.assertIn("sound", done.stdout)
            self.assertEqual((answer["sound"], answer["finding_count"], answer["findings"]), (True, 0, []))
            self.assertEqual(answer["objects"], sum(k[2] for k in kinds))
            self.assertEqual(answer["object_bytes"], sum(k[1] * k[2] for k in kinds))
            self.assertEqual(answer["pages"], sum(answer[f"{k}_pages"] for k in ("free", "run", "extent", "log")))
            self.assertEqual(answer["pending_transactions"], 0)

    def test_of_a_dead_owner_have_work_pending_and_no_findings(self):
        for medium in MEDIA:
            path, _ = self.dead_pool(medium)
            with self.unchanged(path):
                answer = self.answer("check", path)
            self.assertTrue(answer["sound"])
            self.assertGreater(answer["pending_transactions"], 0, medium)
            self.assertIn("pending", run("check", path).stdout)


class Damage(PoolTest):
    """One changed byte of a closed pool, at places that the format names."""

    def setUp(self):
        super().setUp()
        self.found_before = False

    def find(self, path, offset, mask, near):
        """Flips bits of one byte: check finds it, says where, and changes nothing.

        `near` is the range of places that may be named.
        """
        original = path.read_bytes()
        data = bytearray(original)
        data[offset] ^= mask
        path.write_bytes(data)
        label = f"byte {offset} of {path.name}, bits {mask:02x}"
        try:
            with self.unchanged(path):
                answer = self.answer("check", path, expect=NEGATIVE)
                if not self.found_before:
                    self.told_to_people(path, answer["findings"])
        finally:
            path.write_bytes(original)
        self.found_before = True
        self.assertFalse(answer["sound"], label)
        self.assertEqual(answer["finding_count"], len(answer["findings"]), label)
        places = [f["offset"] for f in answer["findings"]]
        self.assertTrue(any(p in near for p in places), f"{label}: {answer['findings']}")

    def told_to_people(self, path, findings):
        done = run("check", path)
        self.assertEqual(done.returncode, NEGATIVE)
        for f in findings:
            self.assertIn(f"offset {f['offset']}: {f['finding']}\n", done.stdout)
        quiet = run("check", path, "--quiet")
        self.assertEqual((quiet.returncode, quiet.stdout, quiet.stderr), (NEGATIVE, "", ""))

    def each_medium(self):
        for medium in MEDIA:
            path, _ = self.used_pool(medium)
            with self.subTest(medium=medium):
                yield medium, path, Layout(path)

    def test_in_either_superblock_copy_is_found(self):
        for _, path, layout in self.each_medium():
            for copy in layout.superblocks:
                for field in (0, 8, 20, 24, 28, 33, 48, 64, 88, 112, 120, 128, 136, 320, 504, 511):
                    self.find(path, copy + field, 0x01, range(copy, copy + 512))

    def test_in_both_superblock_copies_is_a_finding_and_no_failure(self):
        for _, path, layout in self.each_medium():
            data = bytearray(path.read_bytes())
            for copy in layout.superblocks:
                data[copy + 120] ^= 4
            path.write_bytes(data)
            answer = self.answer("check", path, expect=NEGATIVE)
            self.assertIn("superblock", answer["findings"][0]["finding"])

    def test_in_either_anchor_is_found(self):
        for _, path, layout in self.each_medium():
            for anchor in layout.anchors:
                for byte in (0, 3, 7, 8, 300, 511):
                    self.find(path, anchor + byte, 0x20, range(anchor, anchor + 512))

    def test_in_a_page_map_entry_is_found(self):
        for _, path, layout in self.each_medium():
            for kind in (layout.RUN, layout.FINE, layout.COARSE):
                entry = layout.entry(layout.pages(kind)[-1])
                for byte in range(8):
                    self.find(path, entry + byte, 0x01, range(entry, entry + 8))

    def test_in_the_entry_of_a_free_or_an_inner_page_is_found(self):
        for _, path, layout in self.each_medium():
            free = layout.entry(layout.pages(0)[-1])
            inner = layout.entry(layout.pages(layout.COARSE)[0] + 3)
            for entry in (free, inner):
                self.assertEqual(layout.word(entry), 0)
                for byte in (0, 6, 7):
                    self.find(path, entry + byte, 0x10, range(entry, entry + 8))

    def test_in_an_extents_header_is_found(self):
        for _, path, layout in self.each_medium():
            for kind in (layout.FINE, layout.COARSE):
                page = layout.pages(kind)[0]
                first, words, lengths, _, extent = layout.extent(page, kind)
                slot = layout.first_object(page, kind)
                near = range(extent, extent + (1 if kind == layout.FINE else 8) * layout.page)
                for byte in (0, 4, 7, 8, 15):  # identity, reserved
                    self.find(path, extent + byte, 0x04, near)
                for word in range(words):
                    for byte in (0, 6, 7):
                        self.find(path, first + 8 * word + byte, 0x08, near)
                for mask in (0x01, 0x80, 0x03, 0xFF):
                    self.find(path, lengths + slot, mask, near)

    def test_in_an_objects_header_is_found(self):
        for _, path, layout in self.each_medium():
            for kind in (layout.FINE, layout.COARSE, layout.RUN):
                page = layout.pages(kind)[0]
                at = layout.data_at + page * layout.page
                if kind != layout.RUN:
                    _, _, _, slot, extent = layout.extent(page, kind)
                    at = extent + layout.first_object(page, kind) * slot
                for byte in (0, 1, 4, 7, 8, 11):  # size, check, type
                    self.find(path, at + byte, 0x02, range(layout.data_at, len(layout.data)))

    def test_in_a_lane_is_found(self):
        path, _ = self.used_pool("shm")
        layout = Layout(path)
        used = [at for at in range(layout.log, layout.log + layout.lane_count * layout.lane_bytes, layout.lane_bytes)
                if layout.word(at + 64) != 0]
        self.assertTrue(used)
        for lane in used:
            near = range(lane, lane + layout.lane_bytes)
            for byte in (0, 5, 7):  # retired generation
                self.find(path, lane + byte, 0x40, near)
            for record in (64, 128):  # commit records: checksum, generation, kind, intents
                for byte in (0, 8, 16, 18, 24, 63):
                    self.find(path, lane + record + byte, 0x01, near)

    def test_in_either_header_of_an_ssd_log_is_found(self):
        path, _ = self.used_pool("ssd")
        layout = Layout(path)
        stride = 4096 if layout.log_bytes >= 64 * 1024 else 512
        for copy in (layout.log, layout.log + stride):
            for byte in (0, 8, 16, 24, 32, 100, 504):
                self.find(path, copy + byte, 0x01, range(layout.log, layout.log + layout.log_bytes))

    def test_of_any_kind_kills_no_command_and_changes_no_file(self):
        dice = random.Random(20)
        for medium, path, layout in self.each_medium():
            whole = path.read_bytes()
            used = [layout.data_at + page * layout.page for kind in (layout.RUN, layout.FINE, layout.COARSE)
                    for page in layout.pages(kind)]
            areas = [(0, layout.page_map), (layout.page_map, layout.page_map + 8 * layout.size_pages),
                     (layout.log, layout.log + layout.log_bytes), *((at, at + 512) for at in used)]
            for _ in range(40):
                data = bytearray(whole)
                changes = [(dice.randrange(*dice.choice(areas)), dice.randrange(1, 256))
                           for _ in range(dice.choice((1, 1, 4, 64)))]
                for offset, mask in changes:
                    data[offset] ^= mask
                path.write_bytes(data)
                with self.unchanged(path):
                    for line in (("info",), ("check",), ("dump", "--hex", "64")):
                        done = run(line[0], path, *line[1:])
                        self.assertIn(done.returncode, (GOOD, NEGATIVE, UNAVAILABLE, INTERNAL),
                                      f"{line} on {medium} with {changes}: {done.stderr}")

    def test_in_many_places_is_counted_in_full_and_printed_to_the_limit(self):
        path, _ = self.used_pool("shm")
        layout = Layout(path)
        data = bytearray(path.read_bytes())
        free = layout.pages(0)[-20:]
        for page in free:
            data[layout.entry(page)] ^= 1
        path.write_bytes(data)
        answer = self.answer("check", path, "--limit", 3, expect=NEGATIVE)
        self.assertEqual(len(answer["findings"]), 3)
        self.assertGreaterEqual(answer["finding_count"], len(free))
        text = run("check", path, "--limit", 3).stdout
        self.assertEqual(sum(line.startswith("offset ") for line in text.splitlines()), 3)
        self.assertIn(f"and {answer['finding_count'] - 3} more\n", text)


if __name__ == "__main__":
    cli_testing.main()
