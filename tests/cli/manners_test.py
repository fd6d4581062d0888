#!/usr/bin/env python3
"""What holds for every command: usage, help, JSON as documented, exit codes, terminal, completion, manual page."""

import base64
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile
import unittest

import cli_testing
from cli_testing import GOOD, INTERNAL, MEDIA, NEGATIVE, UNAVAILABLE, USAGE, Layout, PoolTest, names_in, run

PROFILE = pathlib.Path(__file__).parent / "example.profile"
STORE_LOG = pathlib.Path(__file__).parent.parent / "crash_test/pmemcheck/ring_missing_flush.log"
COMMANDS = ["create", "info", "check", "doctor", "repair", "relocate", "compact", "dump", "types", "gc", "pointers", "kv", "lf",
            "regions", "store", "tier", "bench", "crash-test", "advise", "completion", "manual", "help", "version"]


def described(command):
    return json.loads(run("help", command, "--json").stdout)


class Usage(PoolTest):
    def test_mistakes_are_named_with_exit_code_2(self):
        for arguments, words in (((), "no command"),
                                 (("frobnicate",), 'no command "frobnicate"'),
                                 (("--frobnicate", "info"), "unknown option"),
                                 (("info",), "PATH is missing"),
                                 (("info", ""), "PATH is empty"),
                                 (("info", "a", "b"), 'unexpected "b"'),
                                 (("info", "--frobnicate", "a"), 'unknown option "--frobnicate"'),
                                 (("info", "-x", "a"), 'unknown option "-x"'),
                                 (("dump", "a", "--limit"), "--limit: N is missing"),
                                 (("dump", "a", "--limit", "x"), "--limit: "),
                                 (("dump", "a", "--limit", "-1"), "--limit: "),
                                 (("dump", "a", "--limit", "1", "--limit", "2"), "--limit is given twice"),
                                 (("dump", "a", "--type", "4294967296x"), "--type: "),
                                 (("dump", "a", "--type", "18446744073709551616"), "--type: "),
                                 (("dump", "a", "--summary=false"), "--summary takes no value"),
                                 (("create", "a", "--medium", "tape"), "none of detect, shm, dax, auto, ssd"),
                                 (("create", "a", "--mode", "8"), "--mode: "),
                                 (("create", "a", "--mode", "1777"), "--mode: "),
                                 (("bench", "--seconds", "0"), "--seconds: "),
                                 (("bench", "--seconds", "1e3"), "--seconds: "),
                                 (("bench", "--threads", "0"), "--threads: "),
                                 (("bench", "--threads", "100000"), "--threads: "),
                                 (("completion", "tcsh"), "none of bash, zsh"),
                                 (("help", "frobnicate"), 'no command "frobnicate"')):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual((done.returncode, done.stdout), (USAGE, ""), done.stderr)
                self.assertIn(words, done.stderr)
                self.assertRegex(done.stderr, r"^holdfast: .* \(USAGE\)\n")
                if arguments:
                    answer = run(*arguments, "--json")
                    self.assertEqual(answer.returncode, USAGE)
                    self.assertEqual(json.loads(answer.stdout)["error"]["code"], "USAGE")

    def test_words_after_two_dashes_are_operands(self):
        self.assert_fails(("info", "--", "--help"), UNAVAILABLE, "NVM_E_NOT_FOUND")

    def test_a_path_may_be_named_like_a_command(self):
        path = self.path("shm", "check")
        self.answer("create", path, "--size", "1M")
        done = run("info", "check", cwd=path.parent)
        self.assertEqual(done.returncode, GOOD, done.stderr)

    def test_common_options_may_stand_before_the_command(self):
        path = self.path("shm")
        self.answer("create", path, "--size", "1M")
        self.assertEqual(json.loads(run("--json", "info", path).stdout), self.answer("info", path))
        self.assertEqual(run("--quiet", "info", path).stdout, "")

    def test_what_is_printed_where_a_standard_descriptor_is_closed_reaches_no_file(self):
        for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
            for medium in MEDIA:
                with self.subTest(closed=closed, medium=medium):
                    path = self.path(medium, f"{len(closed)}{closed[0]}.nvm")

                    def spoken(*arguments):
                        line = " ".join([cli_testing.HOLDFAST, *map(str, arguments), closed])
                        return subprocess.run(["sh", "-c", line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                              timeout=60, check=False).returncode

                    quiet = GOOD if "1" not in closed else INTERNAL
                    self.assertEqual(spoken("create", path, "--size", "1M"), quiet)
                    self.assertEqual(spoken("kv", "put", path, "key", "value"), GOOD)
                    self.assertEqual(spoken("kv", "export", path, f"{path}.out"), quiet)
                    self.assertEqual(spoken("repair", path, "--out", f"{path}.copy"), quiet)
                    for name in (path, f"{path}.copy"):
                        self.answer("check", name)
                        self.assertEqual(run("kv", "get", name, "key").stdout, "value\n")

    def test_the_version_is_printed(self):
        for words in (("--version",), ("-V",), ("version",)):
            self.assertRegex(run(*words).stdout, r"^holdfast \d+\.\d+\.\d+\n$")
            self.assertRegex(json.loads(run(*words, "--json").stdout)["version"], r"^\d+\.\d+\.\d+$")

    def test_what_was_likely_meant_is_named(self):
        for words, meant in ((("chek", "a"), "check"), (("crate", "a"), "create"), (("kv", "gte", "a"), "get"),
                             (("create", "a", "--medium", "sdd"), "ssd"), (("dump", "a", "--lmit", "1"), "--limit"),
                             (("crash-tset",), "crash-test")):
            self.assertIn(f'did you mean "{meant}"?', run(*words).stderr, words)
        self.assertNotIn("did you mean", run("frobnicate").stderr)


class Help(PoolTest):
    def test_lists_every_command_and_exit_code(self):
        for arguments in (("help",), ("--help",), ("-h",)):
            done = run(*arguments)
            self.assertEqual(done.returncode, GOOD)
            listed = re.findall(r"^  ([a-z][a-z-]+) {2,}\S", done.stdout, re.MULTILINE)
            self.assertEqual(listed, COMMANDS)
            codes = re.findall(r"^  (\d) {2,}\S", done.stdout, re.MULTILINE)
            self.assertEqual(codes, ["0", "1", "2", "3", "4"])

    def test_of_a_command_names_its_options_operands_and_fields(self):
        for command in COMMANDS:
            texts = {run(*a).stdout for a in ((command, "--help"), (command, "-h"), ("help", command))}
            self.assertEqual(len(texts), 1, command)
            text = texts.pop()
            about = described(command)
            self.assertEqual(json.loads(run(command, "--help", "--json").stdout), about)
            self.assertTrue(text.startswith(f"usage: holdfast {command} "))
            for option in about["options"]:
                self.assertIn(f"--{option['name']}", text)
            for item in about["operands"] + about["fields"]:
                self.assertIn(item["name"], text)

    def test_fits_80_columns(self):
        for command in COMMANDS:
            text = run(command, "--help").stdout.split("\nExamples:")[0]
            self.assertLessEqual(max(map(len, text.splitlines())), 80, command)


class Json(PoolTest):
    def kv_lines(self, medium):
        """Runs of kv that have all its fields between them."""
        path = self.path(medium, "kv.nvm")
        self.answer("create", path, "--size", "1M", "--medium", medium)
        text = path.parent / "some.csv"
        text.write_bytes(b"a,1\nb,\xff\n\xfe,3\nwrong\n")
        base = ("--base64",)
        self.answer("store", "create", path, "home")
        return [("kv", "put", path, "k", "v", "--in", "home"),
                ("kv", "put", path, "k", "v"), ("kv", "get", path, "k"), ("kv", "get", path, "aw==", *base),
                ("kv", "load", path, text, "--keep-going", "--store", "s"), ("kv", "scan", path, "--store", "s"),
                ("kv", "export", path, path.parent / "out.csv", "--store", "s"), ("kv", "stores", path),
                ("kv", "stat", path), ("kv", "del", path, "k"), ("kv", "drop", path, "--store", "s"),
                ("kv", "export", self.with_damaged_entries(medium), path.parent / "kept.csv", "--salvage")]

    def lf_lines(self, medium):
        path = self.path(medium, "structures.nvm")
        subprocess.run([cli_testing.MAKER, path, medium, "structures"], check=True, timeout=60)
        home = self.path(medium, "structures-in-store.nvm")
        self.answer("create", home, "--size", "4M", "--medium", medium)
        self.answer("store", "create", home, "s")
        self.answer("lf", "create", home, "one", "--in", "s")
        return [("lf", "list", path), ("lf", "list", home, "--in", "s"), ("lf", "get", path, "words-hash", "7"), ("lf", "scan", path, "bytes-tree"),
                ("lf", "get", path, "bytes-list", "a2V5LTE=", "--base64"), ("lf", "stat", path, "bytes-hash"),
                ("lf", "check", path, "words-skiplist")]

    def regions_lines(self, medium):
        path = self.path(medium, "regions.nvm")
        self.answer("create", path, "--size", "4M", "--medium", medium)
        run("regions", "put", path, "s", "1", input="text")
        return [("regions", "put", path, "s", "2"), ("regions", "list", path), ("regions", "stat", path),
                ("regions", "scan", path, "s"),
                ("regions", "get", path, "s", "1"), ("regions", "get", path, "s", "1", "--base64"),
                ("regions", "del", path, "s", "2"), ("regions", "drop", path, "s")]

    def store_lines(self, medium):
        path = self.path(medium, "object-stores.nvm")
        self.answer("create", path, "--size", "4M", "--medium", medium)
        self.answer("store", "create", path, "home")
        self.answer("kv", "put", path, "k", "v", "--in", "home")
        self.answer("lf", "create", path, "seen", "--in", "home")
        garbage = self.path(medium, "garbage.nvm")
        maker = pathlib.Path(cli_testing.MAKER).with_name("cli_garbage_maker")
        subprocess.run([maker, garbage, medium, "stores"], check=True, timeout=60)
        return [("store", "gc", garbage, "--all"), ("store", "stat", garbage, "robot"), ("store", "stat", path, "home"), ("store", "create", path, "s"), ("store", "ls", path), ("store", "stat", path, "s"),
                ("store", "chmod", path, "s", "640"), ("store", "chown", path, "s", f":{os.getegid()}"),
                ("store", "du", path), ("store", "gc", path, "--all"), ("store", "mv", path, "s", "t"),
                ("store", "rm", path, "t")]

    def tier_lines(self):
        path = self.path("shm", f"tiered-{len(os.listdir(self.path('shm').parent))}.nvm")
        self.answer("create", path, "--size", "4M", "--tier", self.path("ssd", f"{path.name}.second"), "--fast", "1M")
        return [("tier", "stat", path)]

    def with_damaged_entries(self, medium):
        """A pool with a store in which an entry with a key of text is damaged, and one with a key of other bytes."""
        path = self.path(medium, "entries.nvm")
        self.answer("create", path, "--size", "1M", "--medium", medium)
        for key, value in (("azE=", b"damaged one"), ("/w==", b"damaged two")):
            self.answer("kv", "put", path, key, base64.b64encode(value).decode(), "--base64")
        data = path.read_bytes()
        for value in (b"damaged one", b"damaged two"):
            at = data.rindex(value)
            data = data[:at] + b"D" + data[at + 1:]
        path.write_bytes(data)
        return path

    def without_an_object(self, medium):
        """A pool in which one object has lost its header, and another its length byte too."""
        path, _ = self.used_pool(medium, "gone.nvm")
        layout = Layout(path)
        page = layout.pages(Layout.FINE)[0]
        _, _, lengths, slot, extent = layout.extent(page, Layout.FINE)
        data = bytearray(path.read_bytes())
        root = layout.first_object(page, Layout.FINE)
        slots = data[lengths + root] & 0x7F
        for at in (root + slots, root + 2 * slots):
            data[extent + at * slot:extent + at * slot + 8] = bytes(8)
        data[lengths + root + slots] = 0
        path.write_bytes(data)
        return path

    def pointers_lines(self, medium, other):
        """Of a pool that leads into another one."""
        path = self.path(medium, "astray.nvm")
        maker = pathlib.Path(cli_testing.MAKER).with_name("cli_garbage_maker")
        subprocess.run([maker, path, medium, "astray", self.answer("info", other)["base"]], check=True, timeout=60)
        return [("pointers", path, "--among", other.parent)]

    def test_has_exactly_the_documented_fields(self):
        for medium in MEDIA:
            path, _ = self.used_pool(medium)
            damaged, _ = self.used_pool(medium, "damaged.nvm")
            data = bytearray(damaged.read_bytes())
            data[0] ^= 1
            damaged.write_bytes(data)
            gone = self.without_an_object(medium)
            regions = self.regions_lines(medium)
            with_set = regions[0][2]
            lf = self.lf_lines(medium)
            runs = {"create": [("create", self.path(medium, "new.nvm"), "--size", "1M", "--medium", medium)],
                    "info": [("info", path), ("info", with_set), ("info", lf[0][2])],
                    "check": [("check", path), ("check", damaged)],
                    "doctor": [("doctor", path, "--kill-seconds", "0.1", "--crash-seconds", "0.1")],
                    "repair": [("repair", damaged), ("repair", gone, "--dry-run")],
                    "relocate": [("relocate", path)],
                    "compact": [("compact", path)],
                    "dump": [("dump", path, "--hex", 1), ("dump", path, "--summary"),
                             ("dump", with_set, "--hex", 1)],
                    "types": [("types", path)],
                    "gc": [("gc", path, "--dry-run", "--untyped")],
                    "pointers": self.pointers_lines(medium, path),
                    "kv": self.kv_lines(medium),
                    "lf": lf,
                    "regions": regions,
                    "store": self.store_lines(medium),
                    "tier": self.tier_lines(),
                    "bench": [("bench", path.parent, "--medium", medium, "--seconds", "0.01")],
                    "crash-test": [("crash-test", "--pmemcheck", STORE_LOG, "--check", "false", "--budget", "1")],
                    "advise": [("advise", PROFILE), ("advise", "--show-costs")],
                    "completion": [("completion", "zsh")],
                    "manual": [("manual",)],
                    "help": [("help", "check")],
                    "version": [("version",)]}
            self.assertEqual(list(runs), COMMANDS)
            for command, lines in runs.items():
                documented = {f["name"] for f in described(command)["fields"]}
                seen = set()
                for line in lines:
                    done = run(*line, "--json")
                    self.assertIn(done.returncode, (GOOD, NEGATIVE), done.stderr)
                    self.assertEqual(done.stderr, "")
                    seen |= set(names_in(json.loads(done.stdout)))
                empty = ("findings[]", "kept[]", "lost[]", "objects[]", "region_sets[]", "structures[]", "key_values[]")
                seen = {n.replace("choices[]", "choices") for n in seen if n not in empty}
                seen -= {n for n in seen if n.startswith(("types[]", "statics[]"))}
                # What needs types in the pool is types_test.py's.
                documented -= {n for n in documented if n.startswith(("types[]", "statics[]")) or n.endswith(("type_name", "fields", "visitor_of"))}
                # What needs the compiler is tests/advisor's.
                needing = {"sites[].verdict", "sites[].why", "sites[].type", "remarks[]", "patch"}
                self.assertEqual(seen - needing, documented - needing if command == "advise" else documented, command)

    def test_is_printed_with_quiet_too(self):
        path, _ = self.used_pool("shm")
        self.assertEqual(json.loads(run("info", path, "--json", "--quiet").stdout), self.answer("info", path))


class Quiet(PoolTest):
    def test_leaves_the_exit_code_alone_as_the_answer(self):
        path, _ = self.used_pool("shm")
        for line in (("info", path), ("check", path), ("dump", path), ("dump", path, "--summary"),
                     ("create", self.path("shm", "new.nvm"), "--size", "1M"),
                     ("bench", path.parent, "--seconds", "0.01")):
            done = run(*line, "--quiet")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (GOOD, "", ""), line)

    def test_keeps_errors(self):
        done = run("info", self.path("shm"), "--quiet")
        self.assertEqual((done.returncode, done.stdout), (UNAVAILABLE, ""))
        self.assertIn("NVM_E_NOT_FOUND", done.stderr)


class Terminal(PoolTest):
    def on_terminal(self, *arguments, **environment):
        """What a run prints on a terminal."""
        master, slave = pty.openpty()
        with subprocess.Popen([cli_testing.HOLDFAST, *map(str, arguments)], stdout=slave, stderr=slave,
                              env={**os.environ, "TERM": "xterm", **environment}) as process:
            os.close(slave)
            text = b""
            while True:
                try:
                    part = os.read(master, 65536)
                except OSError:  # end of file on a terminal
                    break
                if not part:
                    break
                text += part
            process.wait(timeout=60)
        os.close(master)
        return text.decode()

    def test_gets_colour_and_a_file_does_not(self):
        path, _ = self.used_pool("shm")
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        self.assertNotIn("\x1b", run("check", path, env=environment).stdout)
        if "NO_COLOR" not in os.environ:
            self.assertIn("\x1b[32msound\x1b[0m", self.on_terminal("check", path))
        self.assertNotIn("\x1b", self.on_terminal("check", path, NO_COLOR="1"))
        self.assertNotIn("\x1b", self.on_terminal("check", path, TERM="dumb"))

    def test_gets_a_progress_bar_only_when_something_takes_long(self):
        folder = self.path("shm").parent
        long = self.on_terminal("bench", folder, "--seconds", "0.3")
        self.assertRegex(long, r"\[[#.]{30}\] +\d+ % measuring")
        self.assertNotIn("measuring", self.on_terminal("check", self.used_pool("shm")[0]))
        self.assertNotIn("measuring", self.on_terminal("bench", folder, "--seconds", "0.3", "--quiet"))
        self.assertEqual(run("bench", folder, "--seconds", "0.3").stderr, "")

    def test_output_that_cannot_be_written_is_an_error(self):
        path, _ = self.used_pool("shm")
        for line in (("info", path), ("info", path, "--json"), ("dump", path), ("manual",)):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([cli_testing.HOLDFAST, *map(str, line)], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, INTERNAL, line)
            self.assertIn("holdfast: standard output: No space left on device (OUTPUT)", done.stderr)


class Bench(PoolTest):
    def test_measures_every_medium_and_leaves_no_file(self):
        for medium in MEDIA:
            folder = self.path(medium).parent
            answer = self.answer("bench", folder, "--medium", medium, "--seconds", "0.02", "--threads", "2")
            self.assertEqual(list(folder.iterdir()), [])
            self.assertEqual((answer["medium"], answer["threads"], answer["seconds"]), (medium, 2, 0.02))
            self.assertGreaterEqual(len(answer["measurements"]), 7)
            for m in answer["measurements"]:
                with self.subTest(m["name"]):
                    self.assertGreater(m["operations"], 0)
                    self.assertGreater(m["p50_ns"], 0)
                    self.assertLessEqual(m["p50_ns"], m["p99_ns"])
                    self.assertLessEqual(m["p99_ns"], m["p99_9_ns"])
                    self.assertLessEqual(m["p99_9_ns"], m["max_ns"])
                    self.assertLessEqual(m["mean_ns"], m["max_ns"])
                    self.assertGreater(m["logged_bytes_per_operation"], 0)
                    per = m["syncs_per_operation"] if medium == "ssd" else m["fences_per_operation"]
                    self.assertGreater(per, 0)

    def test_says_which_write_back_is_in_force(self):
        folder = self.path("shm").parent
        self.assertEqual(self.answer("bench", folder, "--seconds", "0.01")["persist"], "none")
        best = self.answer("bench", folder, "--seconds", "0.01", "--persist", "best")
        self.assertIn(best["persist"], ("clwb", "clflushopt", "clflush"))
        self.assertTrue(all(m["lines_per_operation"] > 0 for m in best["measurements"]))

    def test_is_slower_on_emulated_memory(self):
        folder = self.path("shm").parent
        slow = self.answer("bench", folder, "--seconds", "0.02", "--emulate", "lsnvmm")["measurements"][0]
        # 500 ns each; what they take without emulation depends on what else the machine does.
        self.assertGreaterEqual(slow["fences_per_operation"], 2)
        self.assertGreaterEqual(slow["p50_ns"], 1000)

    def test_refuses_what_the_medium_cannot_do(self):
        folder = self.path("ssd").parent
        done = run("bench", folder, "--medium", "ssd", "--emulate", "breeze", "--seconds", "0.01")
        self.assertEqual(done.returncode, USAGE)
        self.assertRegex(done.stderr, r"^holdfast: .* emulation .* ssd \(NVM_E_INVALID\)\n$")
        self.assert_fails(("bench", folder / "missing"), UNAVAILABLE, "NVM_E_NOT_FOUND")
        self.assertEqual(list(folder.iterdir()), [])


class Shells(unittest.TestCase):
    def complete(self, *words):
        """What bash offers for the last of the words."""
        script = run("completion", "bash").stdout
        driver = script + '\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfast; printf "%s\\n" "${COMPREPLY[@]}"\n'
        done = subprocess.run(["bash", "-c", driver, "bash", *words], capture_output=True, text=True, timeout=60,
                              check=True)
        return done.stdout.split()

    def test_bash_completes_commands_options_values_and_paths(self):
        self.assertEqual(self.complete("holdfast", ""), COMMANDS)
        self.assertEqual(self.complete("holdfast", "c"), ["create", "check", "compact", "crash-test", "completion"])
        for command in COMMANDS:
            self.assertEqual(self.complete("holdfast", command, "--"),
                             [f"--{o['name']}" for o in described(command)["options"]])
            for option in described(command)["options"]:
                offered = self.complete("holdfast", command, f"--{option['name']}", "")
                if option["choices"]:
                    self.assertEqual(offered, option["choices"])
                elif option["value"] in ("DIRECTORY", "FILE", "LOG"):
                    self.assertEqual(sorted(offered), sorted(os.listdir()))
                elif option["value"]:
                    self.assertEqual(offered, [])
        self.assertEqual(self.complete("holdfast", "--json", "create", "--medium", "s"), ["shm", "ssd"])
        self.assertEqual(self.complete("holdfast", "help", "d"), ["doctor", "dump"])
        with tempfile.TemporaryDirectory() as folder:
            open(f"{folder}/pool one.nvm", "w", encoding="ascii").close()
            os.mkdir(f"{folder}/folder")
            self.assertEqual(" ".join(self.complete("holdfast", "info", f"{folder}/p")), f"{folder}/pool one.nvm")
            self.assertEqual(self.complete("holdfast", "bench", f"{folder}/"), [f"{folder}/folder"])

    def test_bash_loads_the_script_without_a_word(self):
        script = run("completion", "bash").stdout
        done = subprocess.run(["bash", "-euc", script + "\ncomplete -p holdfast"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "complete -F _holdfast holdfast\n", ""))

    def test_zsh_parses_the_script(self):
        script = run("completion", "zsh").stdout
        self.assertTrue(script.startswith("#compdef holdfast\n"))
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        done = subprocess.run(["zsh", "-fn", "/dev/stdin"], input=script, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_fish_knows_every_command_and_option(self):
        script = run("completion", "fish").stdout
        for command in COMMANDS:
            self.assertIn(f"-n __fish_use_subcommand -a {command} ", script)
            for option in described(command)["options"]:
                self.assertIn(f"-n '__fish_holdfast_at {command}' -l {option['name']} ", script)
        if not shutil.which("fish"):
            self.skipTest("no fish")
        done = subprocess.run(["fish", "--no-execute"], input=script, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_manual_page_names_every_command_option_and_field(self):
        page = run("manual").stdout
        self.assertTrue(page.startswith(".TH HOLDFAST 1 "))
        literal = page.replace("\\-", "-")
        for command in COMMANDS:
            about = described(command)
            self.assertIn(f".SS {command}\n", literal)
            for name in [f"--{o['name']}" for o in about["options"]] + [f["name"] for f in about["fields"]]:
                self.assertIn(name, literal)

    def test_the_manual_page_is_good_roff(self):
        if not shutil.which("groff"):
            self.skipTest("no groff")
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-z"], input=run("manual").stdout,
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    cli_testing.main()
