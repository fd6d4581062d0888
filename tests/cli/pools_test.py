#!/usr/bin/env python3
"""create, info and dump on pools in every state."""

import json
import os
import subprocess
import unittest

import cli_testing
from cli_testing import GOOD, INTERNAL, MEDIA, UNAVAILABLE, USAGE, PoolTest, run


class Create(PoolTest):
    def test_makes_a_pool_of_the_sizes_that_were_asked_for(self):
        for medium in MEDIA:
            path = self.path(medium)
            made = self.answer("create", path, "--medium", medium, "--size", "3M", "--capacity", "1G",
                               "--log-bytes", "128K", "--mode", "640")
            self.assertEqual((made["size_bytes"], made["capacity_bytes"]), (3 << 20, 1 << 30))
            self.assertEqual((made["medium"], made["condition"]), (medium, "clean"))
            self.assertEqual(path.stat().st_mode & 0o777, 0o640 & ~umask())
            told = self.answer("info", path)
            self.assertEqual(told.pop("region_sets"), [])
            self.assertEqual(told.pop("structures"), [])
            self.assertEqual(told.pop("extents"), {"count": 0, "bytes": 0, "free_bytes": 0, "empty_bytes": 0})
            self.assertEqual(told.pop("store_count"), 0)
            self.assertIsNone(told.pop("log_chunk_bytes"))
            self.assertEqual(made, told)
            self.assertTrue(self.answer("check", path)["sound"])

    def test_takes_the_size_of_chunks_of_a_log(self):
        for medium in MEDIA:
            for given, expected in (((), 32 << 10), (("--log-chunk", "4K"), 4 << 10), (("--log-chunk", "1M"), 1 << 20)):
                path = self.path(medium, f"{expected}.nvm")
                self.answer("create", path, "--medium", medium, "--engine", "log", "--size", "32M", *given)
                self.assertEqual(self.answer("info", path)["log_chunk_bytes"], expected)
                self.assertTrue(self.answer("check", path)["sound"])

    def test_rounds_the_size_up_to_whole_chunks(self):
        self.assertEqual(self.answer("create", self.path("shm"), "--size", "1")["size_bytes"], 256 << 10)

    def test_finds_the_medium_from_the_path(self):
        self.assertEqual(self.answer("create", self.path("shm"))["medium"], "shm")

    def test_takes_the_number_of_lanes(self):
        made = self.answer("create", self.path("shm"), "--size", "1M", "--lanes", "3", "--log-bytes", "8K")
        self.assertEqual((made["lanes"], made["log_bytes"]), (3, 24 << 10))

    def test_makes_pools_of_every_engine(self):
        for engine in ("undo", "redo", "mnemosyne", "mnemosyne-undo"):
            for validation in ("checksum", "commit-mark"):
                if (engine, validation) == ("undo", "commit-mark"):
                    continue
                path = self.path("shm", f"{engine}-{validation}.nvm")
                made = self.answer("create", path, "--size", "4M", "--engine", engine, "--validation", validation)
                self.assertEqual(made["engine"], engine)
                self.assertEqual(run("kv", "put", path, "key", "value").returncode, GOOD)
                self.assertEqual(run("kv", "get", path, "key").stdout.strip(), "value")
                self.assertTrue(self.answer("check", path)["sound"])

    def test_makes_no_baseline_on_ssd(self):
        path = self.path("ssd")
        self.assert_fails(("create", path, "--medium", "ssd", "--engine", "mnemosyne"), UNAVAILABLE, "NVM_E_MEDIUM",
                          "ssd")

    def test_leaves_an_existing_file_alone(self):
        path = self.path("shm")
        path.write_text("mine")
        with self.unchanged(path):
            self.assert_fails(("create", path), UNAVAILABLE, "NVM_E_EXISTS", "exists")

    def test_refuses_sizes_that_are_none(self):
        for size in ("", "0", "0K", "x", "-1", "64Q", "64Mb", "64MBB", "1.5G", "64 M", "M", "0x10", "99999999999T", "16777216T",
                     "18446744073709551616", "+5"):
            with self.subTest(size):
                path = self.path("shm")
                done = run("create", path, f"--size={size}")
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertIn("--size", done.stderr)
                self.assertFalse(path.exists())

    def test_understands_every_suffix(self):
        for size, expected in (("1048576", 1 << 20), ("1024k", 1 << 20), ("1024KiB", 1 << 20), ("1m", 1 << 20),
                               ("1M", 1 << 20), ("1MiB", 1 << 20), ("1MB", 1 << 20), ("3MB", 3 << 20),
                               ("2500KB", 5 << 19)):
            path = self.path("shm", f"{size}.nvm")
            self.assertEqual(self.answer("create", path, "--size", size)["size_bytes"], expected, size)

    def test_refuses_what_no_pool_can_be(self):
        path = self.path("shm")
        for options, code in ((("--size", "8M", "--capacity", "4M"), "NVM_E_INVALID"),
                              (("--capacity", "1000T",), "NVM_E_TOO_LARGE"),
                              (("--size", "1000T"), "NVM_E_TOO_LARGE"),
                              (("--mode", "400"), "NVM_E_INVALID"),
                              (("--mode", "666"), "NVM_E_INVALID"),
                              (("--lanes", "0"), "USAGE"),
                              (("--lanes", "4294967297"), "USAGE"),
                              (("--lanes", "5000"), "NVM_E_INVALID"),
                              (("--log-chunk", "4K"), "USAGE"),
                              (("--engine", "log", "--log-chunk", "2K"), "NVM_E_INVALID"),
                              (("--engine", "log", "--log-chunk", "2M"), "NVM_E_INVALID"),
                              (("--engine", "log", "--log-chunk", "12K"), "NVM_E_INVALID")):
            with self.subTest(options):
                self.assert_fails(("create", path, *options), USAGE, code)
                self.assertFalse(path.exists())

    def test_names_a_folder_that_is_missing(self):
        self.assert_fails(("create", self.path("shm").parent / "no" / "p.nvm"), UNAVAILABLE, "NVM_E_NOT_FOUND")

    def test_leaves_nothing_behind_on_a_full_device(self):
        path = self.path("shm")
        space = os.statvfs(path.parent)
        size = 2 * space.f_blocks * space.f_frsize >> 20
        self.assert_fails(("create", path, "--size", f"{size}M", "--capacity", f"{size}M"), INTERNAL, "NVM_E_NO_SPACE")
        self.assertFalse(path.exists())


    def test_leaves_nothing_behind_where_files_may_not_be_that_large(self):
        for medium in MEDIA:
            path = self.path(medium)
            done = subprocess.run(["sh", "-c", f"ulimit -f 2048; {cli_testing.HOLDFAST} create {path} --size 64M"],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, INTERNAL, done.stderr)
            self.assertRegex(done.stderr, r"ulimit -f.*\(NVM_E_NO_SPACE\)\n$")
            self.assertEqual(list(path.parent.iterdir()), [])

    def test_warns_of_a_pool_for_power_cuts_in_memory(self):
        path = self.path("shm")
        done = run("create", path, "--size", "1M", "--medium", "ssd")
        self.assertEqual((done.returncode, done.stderr),
                         (GOOD, f"holdfast: {path}: warning: medium ssd on a tmpfs: nothing there survives power loss\n"))
        self.assertEqual(run("create", self.path("shm", "b"), "--medium", "ssd", "--quiet").stderr, "")

    def test_says_the_path_once_where_the_system_refuses(self):
        path = self.path("ssd")
        path.symlink_to(path)
        for command in ("info", "check"):
            self.assertEqual(run(command, path).stderr,
                             f"holdfast: {path}: open: Too many levels of symbolic links (NVM_E_SYSTEM)\n")

    def test_says_what_the_rest_of_an_interrupted_creation_is(self):
        for medium in MEDIA:
            for number, contents in enumerate((b"", bytes(1 << 20))):
                path = self.path(medium, f"{number}.nvm")
                path.write_bytes(contents)
                path.chmod(0o600)
                for command in ("info", "check"):
                    self.assert_fails((command, path), UNAVAILABLE, "NVM_E_NOT_A_POOL",
                                      "creation of a pool was interrupted .* remove it, and create the pool again")

    def test_and_every_other_command_follows_links(self):
        for medium in MEDIA:
            path, link = self.path(medium), self.path(medium, "link.nvm")
            link.symlink_to(path.name)
            self.answer("create", link, "--size", "1M")
            self.assertTrue(path.is_file() and not path.is_symlink() and link.is_symlink())
            self.assertEqual(run("kv", "put", link, "key", "value").returncode, GOOD)
            for command in ("info", "check", "dump", "types", "repair"):
                self.assertEqual(run(command, link).returncode, GOOD, command)
            self.assertEqual(run("pointers", "--untyped", link).returncode, GOOD)
            self.assertEqual(run("repair", "--in-place", link).returncode, GOOD)
            self.assertTrue(link.is_symlink())
            self.assertEqual(run("kv", "get", path, "key").stdout, "value\n")


class Info(PoolTest):
    def test_shows_a_closed_pool_as_clean(self):
        for medium in MEDIA:
            path, _ = self.used_pool(medium)
            with self.unchanged(path):
                info = self.answer("info", path)
                text = run("info", path).stdout
            self.assertEqual((info["condition"], info["clean"], info["owner_pid"]), ("clean", True, None))
            self.assertEqual((info["size_bytes"], info["page_bytes"]), (1 << 20, 4096))
            self.assertEqual(info["used_pages"] + info["free_pages"], 256)
            self.assertGreater(info["used_pages"], 0)
            self.assertEqual(info["file_bytes"], path.stat().st_size)
            self.assertEqual(info["allocated_bytes"], 512 * path.stat().st_blocks)
            self.assertRegex(info["uuid"], r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
            self.assertRegex(info["base"], r"^0x[0-9a-f]+$")
            for word in (str(path), "clean", medium, "1 MiB", info["uuid"], info["base"]):
                self.assertIn(word, text)

    def test_names_the_owner_while_an_application_holds_the_pool(self):
        for medium in MEDIA:
            path, _ = self.used_pool(medium)
            with self.held(path, medium) as pid, self.unchanged(path):
                info = self.answer("info", path)
                self.assertEqual((info["condition"], info["clean"], info["owner_pid"]), ("in use", False, pid))
                self.assertIn(f"process {pid}", run("info", path).stdout)
            self.assertEqual(self.answer("info", path)["condition"], "clean")

    def test_says_that_a_dead_owner_left_work_to_the_next_open(self):
        for medium in MEDIA:
            path, _ = self.dead_pool(medium)
            with self.unchanged(path):
                info = self.answer("info", path)
                self.assertEqual((info["condition"], info["clean"], info["owner_pid"]), ("needs recovery", False, None))
                self.assertIn("needs recovery", run("info", path).stdout)

    def test_takes_no_reader_for_the_owner_who_died_before(self):
        for medium in MEDIA:
            path, _ = self.dead_pool(medium)
            with self.held(path, medium, "read"), self.unchanged(path):
                info = self.answer("info", path)
                self.assertEqual((info["condition"], info["clean"], info["owner_pid"]), ("needs recovery", False, None))
                # Another reader is no obstacle.
                self.assertTrue(self.answer("check", path)["sound"])


class Dump(PoolTest):
    def test_lists_every_object_in_the_order_of_addresses(self):
        for medium in MEDIA:
            path, kinds = self.used_pool(medium)
            with self.unchanged(path):
                dump = self.answer("dump", path)
            objects = dump["objects"]
            self.assertEqual(dump["object_count"], len(objects))
            self.assertEqual(sorted({(o["type"], o["size_bytes"]) for o in objects}), [k[:2] for k in kinds])
            for kind, size, count in kinds:
                self.assertEqual(sum(o["type"] == kind for o in objects), count)
            offsets = [o["offset"] for o in objects]
            self.assertEqual(offsets, sorted(set(offsets)))
            self.assertTrue(all(int(o["address"], 16) == int(dump["base"], 16) + o["offset"] for o in objects))
            self.assertEqual(dump["object_bytes"], sum(size * count for _, size, count in kinds))
            root = [o for o in objects if o["offset"] == dump["root"]]
            self.assertEqual([o["type"] for o in root], [1])

    def test_prints_the_same_list_for_people(self):
        path, _ = self.used_pool("shm")
        dump = self.answer("dump", path)
        lines = run("dump", path).stdout.splitlines()
        self.assertEqual(lines[0].split(), ["address", "offset", "type", "size"])
        self.assertEqual([line.split()[:4] for line in lines[1:]],
                         [[o["address"], str(o["offset"]), str(o["type"]), str(o["size_bytes"])] for o in
                          dump["objects"]])
        self.assertEqual(sum(line.endswith("root") for line in lines), 1)

    def test_filters_by_type_and_limits(self):
        path, kinds = self.used_pool("shm")
        for kind, size, count in kinds:
            dump = self.answer("dump", path, "--type", kind)
            self.assertEqual([o["size_bytes"] for o in dump["objects"]], [size] * count)
            self.assertFalse(dump["stopped_at_limit"])
        dump = self.answer("dump", path, "--type", "0x3", "--limit", 7)
        self.assertEqual([o["type"] for o in dump["objects"]], [3] * 7)
        self.assertTrue(dump["stopped_at_limit"])
        exact = self.answer("dump", path, "--type", 5, "--limit", kinds[4][2])
        self.assertFalse(exact["stopped_at_limit"])
        self.assertEqual(self.answer("dump", path, "--type", 99)["objects"], [])
        self.assertEqual(run("kv", "put", path, "key", "value", "--index", "list").returncode, GOOD)
        records = self.answer("dump", path, "--type", "(store: record)")["objects"]
        self.assertEqual({o["type_name"] for o in records}, {"(store: record)"})
        self.assertIn("(store: record)", run("dump", path, "--summary").stdout)
        self.assert_fails(("dump", path, "--type", "no such type"), USAGE, "USAGE", "the name of no type")
        self.assertEqual(self.answer("dump", path, "--limit", 0)["object_count"], 0)

    def test_prints_the_bytes_of_objects(self):
        path, _ = self.used_pool("shm")
        objects = self.answer("dump", path, "--hex", 40)["objects"]
        for o in objects:
            self.assertEqual(len(o["bytes"]), 2 * min(40, o["size_bytes"]))
            self.assertEqual(len(set(bytes.fromhex(o["bytes"]))), 1)
            self.assertEqual(int(o["bytes"][0], 16), o["type"])
        text = run("dump", path, "--type", 3, "--limit", 1, "--hex", 20).stdout.splitlines()
        self.assertRegex(text[2], r"^  000000  (3[0-9a-f] ){8} (3[0-9a-f] ){8} \|.{16}\|$")
        self.assertRegex(text[3], r"^  000010  (3[0-9a-f] ){4} +\|.{4}\|$")
        self.assertEqual(len(text), 4)

    def test_counts_by_type_and_size(self):
        path, kinds = self.used_pool("shm")
        dump = self.answer("dump", path, "--summary")
        self.assertNotIn("objects", dump)
        self.assertEqual([(t["type"], t["smallest_bytes"], t["objects"]) for t in dump["by_type"]], kinds)
        self.assertTrue(all(t["bytes"] == t["objects"] * t["largest_bytes"] for t in dump["by_type"]))
        self.assertEqual([(s["from_bytes"], s["to_bytes"]) for s in dump["by_size"]],
                         [(17, 32), (129, 256), (513, 1024), (4097, 8192), (65537, 131072)])
        self.assertEqual(sum(s["objects"] for s in dump["by_size"]), dump["object_count"])
        text = run("dump", path, "--summary").stdout
        self.assertIn(f"{dump['object_count']} objects", text)
        self.assertIn("65537 .. 131072", text)

    def test_shows_a_dead_owners_pool_recovered_and_leaves_its_file_dirty(self):
        for medium in MEDIA:
            path, kinds = self.dead_pool(medium)
            with self.unchanged(path):
                dump = self.answer("dump", path, "--hex", 24)
            committed = [o for o in dump["objects"] if o["type"] == 6]
            self.assertEqual([o["bytes"] for o in committed], ["00" * 24], medium)
            root = [o for o in dump["objects"] if o["offset"] == dump["root"]]
            self.assertEqual([o["bytes"] for o in root], ["10" * 24], medium)
            self.assertEqual(dump["object_count"], 1 + sum(k[2] for k in kinds))
            self.assertEqual(self.answer("info", path)["condition"], "needs recovery")

    def test_lists_an_empty_pool_as_an_empty_list(self):
        path = self.path("shm")
        self.answer("create", path, "--size", "1M")
        dump = self.answer("dump", path)
        self.assertEqual((dump["objects"], dump["root"], dump["object_count"]), ([], None, 0))
        self.assertEqual(self.answer("dump", path, "--summary")["by_type"], [])
        self.assertEqual(run("dump", path).stdout, "")


class BadFiles(PoolTest):
    """What no command may take for a pool, and no command may change."""

    COMMANDS = ("info", "check", "dump")

    def refuse(self, path, error, words=""):
        for command in self.COMMANDS:
            with self.subTest(command=command, path=path.name):
                self.assert_fails((command, path), UNAVAILABLE, error, words)

    def test_a_missing_file_is_named(self):
        self.refuse(self.path("shm", "missing.nvm"), "NVM_E_NOT_FOUND", "no such file")

    def test_an_empty_file_is_no_pool(self):
        path = self.path("shm", "empty.nvm")
        path.touch()
        with self.unchanged(path):
            self.refuse(path, "NVM_E_NOT_A_POOL", "empty")

    def test_a_truncated_pool_is_none(self):
        whole, _ = self.used_pool("shm")
        data = whole.read_bytes()
        for kept in (100, 4096, 8192, len(data) // 2, len(data) - 1):
            path = self.path("shm", f"{kept}.nvm")
            path.write_bytes(data[:kept])
            with self.unchanged(path):
                self.refuse(path, "NVM_E_NOT_A_POOL", "truncated")

    def test_a_foreign_file_is_no_pool(self):
        with open(cli_testing.HOLDFAST, "rb") as file:
            program = file.read(1 << 20)
        for name, data in (("text.nvm", b"hello, world\n" * 1000), ("zero.nvm", bytes(1 << 20)),
                           ("program.nvm", program)):
            path = self.path("shm", name)
            path.write_bytes(data)
            with self.unchanged(path):
                self.refuse(path, "NVM_E_NOT_A_POOL")

    def test_a_folder_is_no_pool(self):
        path = self.path("shm").parent
        for command in self.COMMANDS:
            done = run(command, path)
            self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)

    def test_a_pool_in_use_is_left_to_its_owner(self):
        for medium in MEDIA:
            path, _ = self.used_pool(medium)
            with self.held(path, medium) as pid, self.unchanged(path):
                for command in ("check", "dump"):
                    self.assert_fails((command, path), UNAVAILABLE, "NVM_E_BUSY", str(pid))
            self.assertTrue(self.answer("check", path)["sound"])

    def test_a_file_that_may_not_be_read_is_unavailable(self):
        if os.geteuid() == 0:
            self.skipTest("the superuser may read every file")
        path, _ = self.used_pool("shm")
        path.chmod(0)
        self.refuse(path, "NVM_E_SYSTEM")

    def test_a_path_that_is_no_text_is_answered_in_json(self):
        done = run("info", f"{self.path('shm').parent}/\udcff.nvm", "--json")
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "NVM_E_NOT_FOUND")


def umask():
    old = os.umask(0)
    os.umask(old)
    return old


if __name__ == "__main__":
    cli_testing.main()
