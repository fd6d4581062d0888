#!/usr/bin/env python3
"""kv: entries one by one, loading and exporting, and what is wrong with them."""

import base64
import json
import os
import random
import shutil
import socket
import subprocess
import threading

import cli_testing
from cli_testing import GOOD, INTERNAL, MEDIA, NEGATIVE, UNAVAILABLE, USAGE, PoolTest, main, run

# Keys and values that are hard to write down.
HARD = [(b"", b""), (b"a,b", b'say "hi"'), (b"line\nend", b"\r\n"), (b"\xff\x00\xfe", b"\x00" * 40),
        ("\u00fc\u20ac\U0001f600".encode(), b"'"), (b" lead", b"trail "), (b"key", b"value"), (b'"', b'""'),
        (b"\r", b"a\rb"), (b"{", b"\\"), (b"\x7f\x1b[31m", b"\t"),
        (b"\xef\xbb\xbfkey", b"\xed\xa0\x80"), (b"long", b"0123456789" * 3000)]


class Kv(PoolTest):
    def pool(self, medium="shm", size="8M"):
        path = self.path(medium)
        self.answer("create", path, "--size", size, "--capacity", size, "--medium", medium)
        return path

    def feed(self, data, *arguments):
        """A run of load that reads these bytes."""
        return subprocess.run([cli_testing.HOLDFAST, "kv", "load", *map(str, arguments)], input=data,
                              capture_output=True, timeout=60, check=False)

    def exported(self, path, *more):
        done = subprocess.run([cli_testing.HOLDFAST, "kv", "export", str(path), *more], capture_output=True, timeout=60,
                              check=True)
        return done.stdout

    def entries(self, path, store="main"):
        """{key: value} in bytes, as JSON lines say."""
        found = {}
        for line in self.exported(path, "--store", store, "--format", "jsonl").splitlines():
            entry = json.loads(line)
            part = [base64.b64decode(entry[n + "_base64"]) if n + "_base64" in entry else entry[n].encode()
                    for n in ("key", "value")]
            found[part[0]] = part[1]
        return found

    def test_puts_gets_and_deletes(self):
        for medium in MEDIA:
            path = self.pool(medium)
            for index in ("list", "hash", "btree", "regions"):
                options = ("--store", index)
                made = self.answer("kv", "put", path, "apple", "17", "--index", index, *options)
                self.assertEqual(made["found"], False)
                self.assertEqual(self.answer("kv", "put", path, "apple", "18", *options),
                                 {"path": str(path), "action": "put", "store": index, "index": index, "found": True})
                self.assertEqual(run("kv", "get", path, "apple", *options).stdout, "18\n")
                self.assertEqual(run("kv", "get", path, "pear", *options).returncode, NEGATIVE)
                self.assertEqual(run("kv", "del", path, "apple", *options).returncode, GOOD)
                self.assertEqual(run("kv", "del", path, "apple", *options).returncode, NEGATIVE)
            names = [s["name"] for s in self.answer("kv", "stores", path)["stores"]]
            self.assertEqual(names, ["btree", "hash", "list", "regions"])
            self.assertEqual(run("check", path).returncode, GOOD)

    def test_reads_a_value_from_standard_input(self):
        path = self.pool()
        done = run("kv", "put", path, "k", input="two\nlines")
        self.assertEqual(done.returncode, GOOD, done.stderr)
        self.assertEqual(run("kv", "get", path, "k").stdout, "two\nlines\n")
        self.assertEqual(run("kv", "put", path, "k", "").returncode, GOOD)
        self.assertEqual(run("kv", "get", path, "k").stdout, "\n")

    def test_a_dash_is_standard_input_or_output(self):
        path = self.pool()
        self.assertEqual(run("kv", "put", path, "k", "-", input="piped").returncode, GOOD)
        self.assertEqual(run("kv", "get", path, "k").stdout, "piped\n")
        self.assertEqual(run("kv", "export", path, "-").stdout, run("kv", "export", path).stdout)
        self.assertEqual(self.answer("kv", "export", path),
                         {"path": str(path), "action": "export", "store": "main", "index": "btree",
                          "entries": [{"key": "k", "value": "piped"}], "count": 1})

    def test_takes_bytes_in_base64(self):
        path = self.pool()
        self.assertEqual(run("kv", "put", path, "/wD+", "AAE=", "--base64").returncode, GOOD)
        self.assertEqual(run("kv", "get", path, "/wD+", "--base64").stdout, "AAE=\n")
        self.assertEqual(self.answer("kv", "get", path, "/wD+", "--base64")["value_base64"], "AAE=")
        for wrong in ("/wD", "a===", "AAF=", "?AAA", "AA=A"):
            self.assert_fails(("kv", "get", path, wrong, "--base64"), USAGE, "USAGE", "base64")

    def test_reading_changes_nothing(self):
        path = self.pool()
        run("kv", "put", path, "a", "1")
        with self.unchanged(path):
            for line in (("get", path, "a"), ("scan", path), ("export", path), ("stores", path), ("stat", path)):
                self.assertEqual(run("kv", *line).returncode, GOOD)

    def test_salvages_what_is_not_damaged(self):
        for medium in ("shm", "ssd"):
            path = self.pool(medium)
            self.feed(b"".join(b"k%02d,value %d\n" % (i, i) for i in range(50)), path)
            whole = self.answer("kv", "export", path, self.path("whole.jsonl"), "--salvage")
            self.assertEqual((whole["count"], whole["led_to_count"], whole["lost"]), (50, 50, []))
            content = path.read_bytes()
            at = content.rindex(b"value 17")
            path.write_bytes(content[:at] + b"V" + content[at + 1:])
            kept = self.path(f"{medium}.csv")
            self.assertNotEqual(run("kv", "export", path, kept).returncode, GOOD)
            self.assertFalse(kept.exists())
            with self.unchanged(path):
                answer = self.answer("kv", "export", path, kept, "--salvage", expect=NEGATIVE)
                done = run("kv", "export", path, "--salvage")
            self.assertEqual(answer["led_to_count"], 49)
            self.assertEqual([lost["key"] for lost in answer["lost"]], ["k17"])
            self.assertEqual(kept.read_text().count("\n"), 50)
            self.assertEqual((done.returncode, done.stdout), (NEGATIVE, kept.read_text()))
            self.assertIn('entry "k17"', done.stderr)
            self.assert_fails(("kv", "export", path, self.path("no.csv"), "--salvage", "--store", "none"), UNAVAILABLE, "NVM_E_NOT_FOUND")

    def test_says_when_it_salvages_a_copy_of_a_pool_in_use(self):
        path = self.pool()
        self.feed(b"".join(b"k%02d,value %d\n" % (i, i) for i in range(50)), path)
        copy = self.path("copy.nvm")
        with self.held(path, "shm"):
            shutil.copyfile(path, copy)
        copy.chmod(0o600)
        answer = self.answer("kv", "export", copy, self.path("kept.csv"), "--salvage", expect=NEGATIVE)
        self.assertEqual((answer["is_copy"], answer["count"], len(answer["lost"])), (True, 50, 1))
        self.assertIn("copy of a pool that was in use", answer["lost"][0]["problem"])
        done = run("kv", "export", copy, self.path("kept.csv"), "--salvage")
        self.assertEqual(done.returncode, NEGATIVE)
        self.assertIn("warning: a copy of a pool that was in use", done.stderr)
        answer = self.answer("kv", "export", path, self.path("whole.csv"), "--salvage")
        self.assertEqual((answer["is_copy"], answer["lost"]), (False, []))

    def test_scans_a_range_in_order(self):
        path = self.pool()
        self.feed(b"".join(b"k%02d,v%d\n" % (i, i) for i in range(50)), path)
        def keys(*more):
            return [e["key"] for e in self.answer("kv", "scan", path, *more)["entries"]]
        self.assertEqual(keys(), [f"k{i:02}" for i in range(50)])
        self.assertEqual(keys("--from", "k10", "--to", "k13"), ["k10", "k11", "k12"])
        self.assertEqual(keys("--backward", "--limit", "2"), ["k49", "k48"])
        self.assertEqual(run("kv", "scan", path, "--limit", "1").stdout, "k00\tv0\n")
        self.assertEqual(self.answer("kv", "scan", path, "--from", "x"), {"path": str(path), "action": "scan",
                         "store": "main", "index": "btree", "entries": [], "count": 0})

    def test_an_export_has_its_name_when_it_is_whole(self):
        path = self.pool()
        self.feed(b"".join(b"%06d,%s\n" % (i, b"v" * 100) for i in range(20_000)), path)
        old = path.parent / "old.csv"
        old.write_text("what was there before")
        old.chmod(0o640)
        line = f"ulimit -f 512; {cli_testing.HOLDFAST} kv export {path} "
        for file in (path.parent / "new.csv", old):
            before = sorted(path.parent.iterdir())
            done = subprocess.run(["sh", "-c", line + str(file)], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, INTERNAL, done.stderr)
            self.assertIn("File too large", done.stderr)
            self.assertEqual(sorted(path.parent.iterdir()), before)
        self.assertEqual(old.read_text(), "what was there before")
        # A killed one leaves the old file, and nothing that the next does not clear away.
        with subprocess.Popen([cli_testing.HOLDFAST, "kv", "export", path, old]) as one:
            for _ in range(2000):
                if (path.parent / ".old.csv.holdfast-unfinished").exists() or one.poll() is not None:
                    break
            one.kill()
        self.assertIn(old.stat().st_size, (21, 20_001 * 108 - 98))
        self.assertEqual(run("kv", "export", path, old).returncode, GOOD)
        self.assertEqual(old.read_text().count("\n"), 20_001)
        self.assertEqual(old.stat().st_mode & 0o777, 0o640)
        self.assertEqual(sorted(p.name for p in path.parent.iterdir()), ["old.csv", path.name])

    def test_a_file_that_is_cut_off_meanwhile_is_an_error(self):
        path = self.pool()
        self.feed(b"".join(b"%06d,%s\n" % (i, b"v" * 100) for i in range(20_000)), path)
        for words in (("kv", "export", str(path)), ("dump", "--hex", "64", str(path))):
            whole = path.read_bytes()
            with subprocess.Popen([cli_testing.HOLDFAST, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as process:
                process.stdout.readline()  # it waits for us when the pipe is full
                os.truncate(path, 50_000)
                _, said = process.communicate(timeout=60)
            self.assertEqual(process.returncode, INTERNAL, said)
            self.assertIn("cut off to 50000 bytes", said)
            self.assertIn(str(path), said)
            path.write_bytes(whole)

    def test_what_is_exported_loads_as_it_was(self):
        for index in ("list", "hash", "btree", "regions"):
            for form in ("csv", "jsonl"):
                path = self.pool()
                for key, value in HARD:
                    text = [base64.b64encode(b).decode() for b in (key, value)]
                    if not key:  # the command line has no word for it
                        self.assertEqual(self.feed(b'"",""\n', path, "--index", index).returncode, GOOD)
                        continue
                    done = run("kv", "put", path, *text, "--base64", "--index", index)
                    self.assertEqual(done.returncode, GOOD, done.stderr)
                self.assertEqual(self.entries(path), dict(HARD))
                first = self.exported(path, "--format", form)
                done = self.feed(first, path, "--store", "again", "--format", form, "--index", "btree")
                self.assertEqual(done.returncode, GOOD, done.stderr)
                self.assertEqual(self.entries(path, "again"), dict(HARD), (index, form))
                file = path.parent / f"out.{form}"
                self.assertEqual(self.answer("kv", "export", path, file, "--store", "again")["count"], len(HARD))
                self.assertEqual(sorted(file.read_bytes()), sorted(first))
                done = run("kv", "load", path, file, "--store", "third", "--index", "btree")
                self.assertEqual(done.returncode, GOOD, done.stderr)
                self.assertEqual(self.exported(path, "--store", "third"), self.exported(path, "--store", "again"))
                path.unlink()

    def test_loads_much_in_one_step_and_keeps_what_was_there(self):
        for medium, index in (("shm", "hash"), ("ssd", "btree"), ("shm", "list"), ("shm", "regions")):
            path = self.pool(medium)
            lines = 1200 if index == "list" else 5000
            run("kv", "put", path, "old", "stays", "--index", index)
            run("kv", "put", path, "k7", "replaced", "--index", index)
            done = self.feed(b"".join(b"k%d,v%d\n" % (i, i) for i in range(lines)), path, "--json")
            self.assertEqual(done.returncode, GOOD, done.stderr)
            self.assertEqual(json.loads(done.stdout)["count"], lines)
            found = self.entries(path)
            self.assertEqual(found, {b"old": b"stays"} | {b"k%d" % i: b"v%d" % i for i in range(lines)})
            self.assertEqual([s["name"] for s in self.answer("kv", "stores", path)["stores"]], ["main"])
            self.assertEqual(self.answer("kv", "stat", path)["index"], index)
            self.assertEqual(run("check", path).returncode, GOOD)
            path.unlink()

    WRONG_CSV = [(b"a,1\nb\n", 2, "1 field, expected two"), (b"a,1,2\n", 1, "3 fields"),
                 (b"a,1\n\n\nb,2,3,4\n", 4, "more than two"), (b'a,1\n"b,2\nc,3\n', 2, "does not end"),
                 (b'a,b"c\n', 1, "a quote inside"), (b'"a"b,c\n', 1, "closing quote"),
                 (b"a,b\rc\n", 1, "carriage return"), (b"k" * 65536 + b",v\n", 1, "key of more than 65535"),
                 (b'a,"x\n\ny"\nb\n', 4, "1 field"), (b"a,1,2", 1, "3 fields"), (b"a,1,", 1, "3 fields"),
                 (b'a,1,"2"', 1, "3 fields")]
    WRONG_JSON = [(b'{"key":"a","value":"1"}\n{"key":"b"}\n', 2, 'either "value" or "value_base64"'),
                  (b"[]\n", 1, "no JSON object"), (b'{"key":1,"value":""}\n', 1, '"key" is no string'),
                  (b'{"key":"a","value":"b"\n', 1, "no JSON"),
                  (b'{"key":"a","value":"b","more":1}\n', 1, 'unknown member "more"'),
                  (b'{"key":"a","value":"b","key":"c"}\n', 1, 'two members "key"'),
                  (b'{"key":"\xff","value":""}\n', 1, "UTF-8"), (b'{"key_base64":"a","value":""}\n', 1, "no base64"),
                  (b'{"key":"a","key_base64":"","value":""}', 1, "either"), (b"\n\n[[[[[[\n", 3, "no JSON"),
                  (b'{"key":"' + b"k" * 65536 + b'","value":""}', 1, "a key of 65536 bytes"),
                  (b"[" * 200000, 1, "no JSON")]

    def test_names_the_line_that_is_wrong_and_loads_nothing(self):
        path = self.pool()
        run("kv", "put", path, "there", "before")
        for form, cases in (("csv", self.WRONG_CSV), ("jsonl", self.WRONG_JSON)):
            for text, line, words in cases:
                for many in (False, True):
                    if many:  # so many that they are staged
                        first = (b"".join(b"x%d,1\n" % i for i in range(2500)) if form == "csv" else
                                 b"".join(b'{"key":"x%d","value":"1"}\n' % i for i in range(2500)))
                        text, line = first + text, line + 2500
                    done = self.feed(text, path, "--format", form)
                    self.assertEqual(done.returncode, INTERNAL, done.stderr)
                    self.assertIn(f"standard input:{line}: ".encode(), done.stderr)
                    self.assertIn(words.encode(), done.stderr)
                    self.assertIn(b"(INPUT)", done.stderr)
                    self.assertEqual(self.entries(path), {b"there": b"before"})
                    self.assertEqual(len(self.answer("kv", "stores", path)["stores"]), 1)
        file = path.parent / "bad.csv"
        file.write_bytes(b"a,1\nb\n")
        self.assert_fails(("kv", "load", path, file), INTERNAL, "INPUT", "expected two")
        self.assertIn(f"{file}:2: ", run("kv", "load", path, file).stderr)

    def test_input_that_cannot_be_read_loads_nothing(self):
        path = self.pool()
        run("kv", "put", path, "there", "before")
        self.assertEqual(run("kv", "load", path, path.parent, "--store", "new").returncode, INTERNAL)
        for many in (0, 2500):
            ours, theirs = socket.socketpair()
            theirs.sendall(b"unread")  # so that the end of the other side is a failure of this one
            text = b"".join(b"x%d,1\n" % i for i in range(many)) + b"price,12"
            writer = threading.Thread(target=lambda: (ours.sendall(text), ours.close()))
            writer.start()
            done = subprocess.run([cli_testing.HOLDFAST, "kv", "load", str(path)], stdin=theirs, capture_output=True,
                                  timeout=60, check=False)
            writer.join()
            theirs.close()
            self.assertEqual(done.returncode, INTERNAL, done.stderr)
            self.assertIn(b"reset", done.stderr)
            self.assertEqual(self.entries(path), {b"there": b"before"})
        self.assertEqual([s["name"] for s in self.answer("kv", "stores", path)["stores"]], ["main"])

    def test_a_load_takes_no_store_of_the_users(self):
        path = self.pool()
        run("kv", "put", path, "mine", "1", "--store", "main.loading")
        done = self.feed(b"".join(b"x%d,1\n" % i for i in range(2500)), path)
        self.assertEqual(done.returncode, GOOD, done.stderr)
        self.assertEqual(self.entries(path, "main.loading"), {b"mine": b"1"})

    def test_an_export_never_replaces_the_pool(self):
        path = self.pool()
        run("kv", "put", path, "k", "v")
        link = path.parent / "link"
        link.symlink_to(path)
        for more in ((), ("--salvage",)):
            for file in (path, link):
                self.assertEqual(run("kv", "export", path, file, *more).returncode, USAGE)
        self.assertEqual(self.entries(path), {b"k": b"v"})

    def test_an_export_goes_after_what_a_descriptor_has(self):
        path = self.pool()
        run("kv", "put", path, "k", "v")
        file = path.parent / "both"
        subprocess.run(f"{{ echo head; '{cli_testing.HOLDFAST}' kv export '{path}' /dev/stdout; }} > '{file}'",
                       shell=True, timeout=60, check=True)
        self.assertTrue(file.read_bytes().startswith(b"head\nkey,value\nk,v\n"), file.read_bytes())

    def test_what_get_prints_in_base64_put_takes(self):
        path = self.pool()
        for value in ("AAE=", "", "/wD+"):
            self.assertEqual(run("kv", "put", path, "a", value, "--base64").returncode, USAGE)  # "a" is no base64
            self.assertEqual(run("kv", "put", path, "YQ==", value, "--base64").returncode, GOOD)
            printed = run("kv", "get", path, "YQ==", "--base64").stdout
            self.assertEqual(run("kv", "put", path, "Yg==", "--base64", input=printed).returncode, GOOD)
            self.assertEqual(run("kv", "get", path, "Yg==", "--base64").stdout, value + "\n")
        self.assertEqual(run("kv", "put", path, "Yg==", "--base64", input="no base64\n").returncode, USAGE)

    def test_a_key_that_begins_with_a_mark_stays_what_it_is(self):
        path = self.pool()
        run("kv", "put", path, "77u/YQ==", "Yg==", "--base64")
        text = self.exported(path, "--no-header")
        self.assertEqual(self.feed(text, path, "--no-header", "--store", "again").returncode, GOOD)
        self.assertEqual(self.entries(path, "again"), {b"\xef\xbb\xbfa": b"b"})

    def test_keeps_going_when_told_to(self):
        path = self.pool()
        text = b'a,1\nwrong\n"open,\nb,2\nk' + b"k" * 65535 + b",3\nc,4\n"
        done = self.feed(text, path, "--keep-going")
        self.assertEqual(done.returncode, NEGATIVE)
        self.assertEqual(self.entries(path), {b"a": b"1", b"b": b"2", b"c": b"4"})
        for line in (2, 3, 5):
            self.assertIn(b"standard input:%d: " % line, done.stderr)
        done = self.feed(text, path, "--keep-going", "--json")
        answer = json.loads(done.stdout)
        self.assertEqual((answer["count"], answer["rejected_count"]), (3, 3))
        self.assertEqual([r["line"] for r in answer["rejected"]], [2, 3, 5])
        self.assertEqual(done.stderr, b"")

    def test_header_is_no_entry_unless_told_so(self):
        path = self.pool()
        self.feed(b"\xef\xbb\xbfkey,value\r\na,1\r\n", path)
        self.assertEqual(self.entries(path), {b"a": b"1"})
        self.feed(b"key,value\n", path, "--no-header")
        self.assertEqual(self.entries(path), {b"a": b"1", b"key": b"value"})
        self.assertEqual(self.exported(path, "--no-header"), b"a,1\nkey,value\n")

    def test_a_pool_that_is_full_keeps_its_contents(self):
        path = self.pool(size="1M")
        run("kv", "put", path, "there", "before")
        for lines in (900, 20000):
            done = self.feed(b"".join(b"k%d,%s\n" % (i, b"v" * 2000) for i in range(lines)), path)
            self.assertEqual(done.returncode, INTERNAL, done.stderr)
            self.assertIn(b"NVM_E_NO_SPACE", done.stderr)
            self.assertEqual(self.entries(path), {b"there": b"before"})
        self.assertEqual(run("kv", "put", path, "more", "fits").returncode, GOOD)
        self.assertEqual(run("check", path).returncode, GOOD)

    def test_refusals_name_what_was_found(self):
        path = self.pool()
        run("kv", "put", path, "a", "1", "--index", "hash")
        self.assert_fails(("kv", "put", path, "a", "1", "--index", "btree"), INTERNAL, "NVM_E_TYPE_MISMATCH",
                          "hash, not btree")
        self.assert_fails(("kv", "scan", path, "--from", "a"), UNAVAILABLE, "NVM_E_INVALID",
                          "not in the order of keys")
        self.assert_fails(("kv", "get", path, "a", "--store", "none"), UNAVAILABLE, "NVM_E_NOT_FOUND", '"none"')
        self.assert_fails(("kv", "get", path.parent / "none", "a"), UNAVAILABLE, "NVM_E_NOT_FOUND")
        self.assert_fails(("kv", "put", path), USAGE, "USAGE", "the key is missing")
        self.assert_fails(("kv", "scan", path, "x"), USAGE, "USAGE", "unexpected")
        self.assert_fails(("kv", "put", path, "short", "1", "--store", "r", "--index", "rbtree"), UNAVAILABLE,
                          "NVM_E_INVALID", "keys of 8")
        with self.held(path, "shm"):
            self.assert_fails(("kv", "put", path, "a", "1"), UNAVAILABLE, "NVM_E_BUSY")

    def test_drops_a_store(self):
        path = self.pool()
        self.feed(b"a,1\nb,2\n", path, "--store", "s")
        self.assertEqual(self.answer("kv", "drop", path, "--store", "s")["count"], 2)
        self.assertEqual(self.answer("kv", "stores", path)["stores"], [])
        self.assert_fails(("kv", "drop", path, "--store", "s"), UNAVAILABLE, "NVM_E_NOT_FOUND")

    def test_a_load_that_is_killed_changes_nothing(self):
        path = self.pool()
        self.feed(b"there,before\n", path)
        for attempt in range(6):
            with subprocess.Popen([cli_testing.HOLDFAST, "kv", "load", str(path)], stdin=subprocess.PIPE) as process:
                for i in range(random.Random(attempt).randrange(500, 9000)):
                    process.stdin.write(b"k%d,v\n" % i)
                process.stdin.flush()
                process.kill()
                process.stdin.close()
            self.assertEqual(self.entries(path), {b"there": b"before"})
        done = self.feed(b"".join(b"k%d,v\n" % i for i in range(3000)), path)
        self.assertEqual(done.returncode, GOOD, done.stderr)
        self.assertEqual(len(self.entries(path)), 3001)
        self.assertEqual([s["name"] for s in self.answer("kv", "stores", path)["stores"]], ["main"])
        self.assertEqual(run("check", path).returncode, GOOD)


if __name__ == "__main__":
    os.environ.pop("NO_COLOR", None)
    main()
