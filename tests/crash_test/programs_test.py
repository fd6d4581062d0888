#!/usr/bin/env python3
"""holdfast crash-test on programs with planted bugs, and on store logs: what is found, where, how fast, what is not.

Called with the paths of holdfast and of holdfast-cc; further arguments are unittest's.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
HOLDFAST, CC = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
NOTHING, FOUND, USAGE = range(3)
LONG = 30  # seconds, where a machine that is busy has little of a short budget
STATES_MAX = 20_000  # that a bug may take until it is found
FOLDER = None


def setUpModule():
    global FOLDER
    FOLDER = tempfile.mkdtemp(prefix="crash-test-programs-")


def tearDownModule():
    shutil.rmtree(FOLDER)


def compiled(source, *flags, recorded=True, by_hand=True):
    """The program of a source, compiled once for each set of flags."""
    name = "-".join([pathlib.Path(source).stem, *(f.lstrip("-") for f in flags), str(recorded), str(by_hand)])
    program = os.path.join(FOLDER, name.replace("/", "_"))
    if not os.path.exists(program):
        ours = (["-fnvm-record"] if recorded else []) + (["-fno-nvm"] if by_hand else [])
        subprocess.run([CC, "-O2", "-pthread", *ours, *flags, "-o", program, source], cwd=HERE / "programs", check=True)
    return program


def table(bug=None):
    return compiled("table.c", *([f"-D{bug}"] if bug else []))


def line_of(text, source="table.c", number=1):
    """The line of the source that holds the text for the number-th time."""
    lines = (HERE / "programs" / source).read_text().splitlines()
    return [i for i, line in enumerate(lines, 1) if text in line][number - 1]


class CrashTest(unittest.TestCase):
    def crash_test(self, *arguments, code, program=(), budget=1, more_than=None, lines=(), folder=None):
        """The tool's document, which has numbers and lines of findings; a LONG budget where the first has too few."""
        for seconds in (budget, LONG):
            command = [HOLDFAST, "crash-test", "--json", "--budget", str(seconds), *arguments]
            if program:
                command += ["--", *program]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder or FOLDER)
            self.assertIn(ran.returncode, {code, NOTHING} if code == FOUND else {code}, ran.stdout + ran.stderr)
            answer = json.loads(ran.stdout)
            few = {name: answer[name] for name, least in (more_than or {}).items() if answer[name] <= least}
            missing = set(lines) - {finding["line"] for finding in answer.get("findings", [])}
            if ran.returncode == code and not few and not missing:
                return answer
        self.fail(f"exit code {ran.returncode}, too few {few}, no findings in lines {missing}: {ran.stdout}")

    def only_finding(self, answer):
        self.assertEqual(len(answer["findings"]), 1, json.dumps(answer, indent=1))
        return answer["findings"][0]


class PlantedBugs(CrashTest):
    """Nothing in the program tells the tool what is right."""

    def finds(self, bug, kind, line):
        """Of a program of a thousand operations, among the first STATES_MAX states."""
        answer = self.crash_test(program=[table(bug), "{pool}", "1000"], code=FOUND, budget=1)
        finding = self.only_finding(answer)
        self.assertEqual((finding["kind"], finding["file"], finding["line"]), (kind, "table.c", line))
        self.assertLess(finding["states_before"], STATES_MAX)
        self.assertIn("missing edge", finding["details"])
        self.assertGreater(finding["states"], 0)
        return answer

    def test_a_log_call_that_is_missing_is_found(self):
        answer = self.finds("MISSING_LOG", "store-unlogged", line_of("t->count++"))
        self.assertIn("prints on no state between", answer["findings"][0]["output"])
        self.assertIn("nvm_crash_check() says no", answer["findings"][0]["details"])

    def test_a_store_outside_of_transactions_is_found(self):
        self.finds("OUTSIDE", "store-outside", line_of("t->last_key = key", number=2))

    def test_a_root_that_is_published_before_it_is_filled_is_found(self):
        self.finds("PUBLISH_FIRST", "store-outside", line_of("t->last_key = no_key"))

    def test_a_log_call_behind_its_store_is_found(self):
        self.finds("LOG_TOO_LATE", "store-late", line_of("e->value = value;"))

    def test_the_program_without_bugs_is_not_accused(self):
        answer = self.crash_test(program=[table(), "{pool}", "1000"], code=NOTHING, budget=1,
                                 more_than={"states": 10000, "states_checked": 10})
        self.assertEqual(answer["notes"], [])
        self.assertEqual(answer["program"], "exit code 0")
        self.assertGreater(answer["transactions"], 900)


class Barriers(CrashTest):
    """Barrier transactions, written through and written back; the program says itself what is right."""

    def test_a_program_without_bugs_is_not_accused(self):
        for policy in [[], ["back"]]:
            answer = self.crash_test(program=[compiled("accounts.c"), "{pool}", "300", *policy], code=NOTHING, budget=1,
                                     more_than={"states": 3000, "states_checked": 10})
            self.assertEqual(answer["program"], "exit code 0")
            self.assertGreater(answer["transactions"], 150)

    def test_a_store_that_the_transaction_does_not_know_is_found(self):
        for policy in [[], ["back"]]:
            # A transfer that is refused shows it, too: that store is not taken back.
            self.crash_test(program=[compiled("accounts.c", "-DPLAIN_STORE"), "{pool}", "100", *policy], code=FOUND,
                            budget=1, lines=[line_of("balance[o->to] = have", "accounts.c")])

    def test_a_transfer_in_two_transactions_is_found(self):
        for policy in [[], ["back"]]:
            answer = self.crash_test(program=[compiled("accounts.c", "-DHALF"), "{pool}", "100", *policy],
                                     code=FOUND, budget=1)
            finding = self.only_finding(answer)
            self.assertEqual(finding["kind"], "check")
            self.assertIn("total is", finding["details"])


class Stores(CrashTest):
    """Object stores, lock-free structures in them and of the pool, and transactions over several stores."""

    def stores(self, bug=None):
        return compiled("stores.c", *([f"-D{bug}"] if bug else []))

    def finds(self, bug, lines=()):
        answer = self.crash_test(program=[self.stores(bug), "{pool}", "40"], code=FOUND, budget=1, lines=lines)
        return answer["findings"]

    def finds_by_check(self, bug, text):
        """One finding for each store of the program that can be the last one before such a state."""
        for finding in self.finds(bug):
            self.assertEqual(finding["kind"], "check")
            self.assertRegex(finding["details"], text)

    def test_a_program_without_bugs_is_not_accused(self):
        for kind in (1, 2, 3, 4):
            answer = self.crash_test(program=[self.stores(), "{pool}", "40", str(kind)], code=NOTHING, budget=1,
                                     more_than={"states": 3000, "states_checked": 10})
            self.assertEqual((answer["notes"], answer["program"]), ([], "exit code 0"))
            self.assertGreater(answer["transactions"], 40)

    def test_a_store_to_an_object_that_is_not_logged_is_found(self):
        line = line_of("a->balance += amount", "stores.c")
        found = {(f["kind"], f["line"]) for f in self.finds("MISSING_LOG", [line])}
        self.assertIn(("store-unlogged", line), found)

    def test_an_object_that_is_linked_before_it_is_filled_is_found(self):
        line = line_of("newest->amount = amount", "stores.c")
        found = {(f["kind"], f["line"]) for f in self.finds("OUTSIDE", [line])}
        self.assertIn(("store-outside", line), found)

    def test_two_stores_that_change_in_two_transactions_are_found(self):
        self.finds_by_check("HALF", r"total: \d+, not 300")

    def test_a_structure_that_is_ahead_of_the_store_is_found(self):
        self.finds_by_check("NUMBER_FIRST", "highest number in the structure: ")
        self.finds_by_check("DONE_FIRST", "transfers done: ")


class Checks(CrashTest):
    def test_the_programs_own_check_finds_what_no_transaction_shows(self):
        answer = self.crash_test(program=[table("BROKEN_LINK"), "{pool}", "300"], code=FOUND)
        finding = self.only_finding(answer)
        self.assertEqual((finding["kind"], finding["line"]), ("check", line_of("*chain = e;")))
        self.assertRegex(finding["details"], r"count is \d+, entries are \d+")

    def test_a_command_judges_states(self):
        check = compiled("check_table.c", recorded=False)
        answer = self.crash_test("--check", f"{check} {{pool}}", "--only-check",
                                 program=[table("MISSING_LOG"), "{pool}", "100"], code=FOUND, budget=1)
        finding = answer["findings"][0]
        self.assertEqual(finding["kind"], "check")
        self.assertIn("exit code 1", finding["what"])
        self.assertIn("entries", finding["details"])
        self.crash_test("--check", f"{check} {{pool}}", program=[table(), "{pool}", "100"], code=NOTHING,
                        more_than={"states_checked": 10})

    def test_a_check_that_does_not_end_or_dies_is_a_failure(self):
        for command, seconds, text in (("sleep 60", 0.2, "no end within its time"), ("kill -SEGV $$", 30, "SIGSEGV")):
            answer = self.crash_test("--check", command, "--only-check", "--check-seconds", str(seconds),
                                     program=[table(), "{pool}", "5"], code=FOUND)
            self.assertIn(text, answer["findings"][0]["what"])

    def test_a_recovery_command_runs_before_the_check(self):
        mark = os.path.join(FOLDER, "recovered")
        self.crash_test("--recover", f"touch {mark}", "--check", f"test -e {mark} && rm {mark}",
                        program=[table(), "{pool}", "5"], code=NOTHING)


class Programs(CrashTest):
    def test_stores_that_the_compiler_logs_are_good(self):
        for flags in (("-O0",), ("-O2",)):
            program = compiled("compiled.c", *flags, by_hand=False)
            answer = self.crash_test(program=[program, "{pool}", "200"], code=NOTHING)
            self.assertEqual(answer["notes"], [])

    def test_fields_that_are_zero_after_each_open_are_not_compared(self):
        for flags in (("-O0",), ("-O2",), ("-O2", "-DSTAYS")):
            program = compiled("reset.c", *flags, by_hand=False)
            answer = self.crash_test(program=[program, "{pool}", "100"], code=NOTHING)
            self.assertGreater(answer["transactions"], 100)
        # Without the compiler's passes the pool knows of no such fields.
        program = compiled("reset.c", by_hand=True)
        self.crash_test(program=[program, "{pool}", "100"], code=FOUND,
                        lines=[line_of(t, "reset.c") for t in ("list->newest = n;", "n->next->visits++")])

    def test_without_the_log_pass_each_store_is_found(self):
        program = compiled("compiled.c", by_hand=True)
        answer = self.crash_test(program=[program, "{pool}", "200"], code=FOUND,
                                 lines=[line_of("list->length++", "compiled.c")])
        self.assertEqual({f["kind"] for f in answer["findings"]}, {"store-unlogged"})

    def test_several_threads_are_recorded_in_one_order(self):
        good = self.crash_test(program=[compiled("threads.c"), "{pool}", "200"], code=NOTHING)
        self.assertGreaterEqual(good["threads"], 4)
        self.assertEqual(good["transactions"], 801)
        bad = self.crash_test(program=[compiled("threads.c", "-DMISSING_LOG"), "{pool}", "200"], code=FOUND)
        finding = self.only_finding(bad)
        self.assertEqual((finding["kind"], finding["line"]),
                         ("store-unlogged", line_of("++all->shared", "threads.c")))

    def test_a_killed_program_leaves_a_trace(self):
        answer = self.crash_test(program=[table("KILLED"), "{pool}", "3000"], code=NOTHING)
        self.assertGreater(answer["transactions"], 0)
        self.assertIn("ended", answer["notes"][0])

    def test_bytes_changed_behind_the_recordings_back_are_told(self):
        foreign = os.path.join(FOLDER, "foreign.o")
        subprocess.run([CC, "-fno-nvm", "-O2", "-c", "-o", foreign, "foreign.c"], cwd=HERE / "programs", check=True)
        program = compiled("table.c", "-DFOREIGN", foreign)
        answer = self.crash_test(program=[program, "{pool}", "20"], code=FOUND)
        self.assertTrue(any("does not report its stores" in n for n in answer["notes"]), answer["notes"])


class Use(CrashTest):
    def test_a_token_replays_its_state_alone(self):
        program = [table("MISSING_LOG"), "{pool}", "50"]
        found = self.only_finding(self.crash_test(program=program, code=FOUND))
        again = self.crash_test("--replay", found["replay"], program=program, code=FOUND)
        self.assertEqual(self.only_finding(again)["what"], found["what"])
        self.assertLessEqual(again["states"], 1)
        self.crash_test("--replay", found["replay"], program=[table(), "{pool}", "50"], code=USAGE)
        self.crash_test("--replay", "no token", program=program, code=USAGE)

    def test_a_trace_can_be_kept_and_tested_again(self):
        trace = os.path.join(FOLDER, "kept.trace")
        found = self.only_finding(
            self.crash_test("--trace", trace, program=[table("MISSING_LOG"), "{pool}", "50"], code=FOUND))
        again = self.only_finding(self.crash_test("--trace", trace, code=FOUND))
        self.assertEqual(again["what"], found["what"])
        again = self.only_finding(self.crash_test("--trace", trace, "--replay", found["replay"], code=FOUND))
        self.assertEqual(again["what"], found["what"])
        with open(trace, "r+b") as file:
            file.truncate(1000)
        self.crash_test("--trace", trace, code=USAGE)

    def test_wrong_use_is_told(self):
        for arguments, program in (([], []), (["--image", "x"], ["true"]), (["--recover", "true"], ["true"]),
                                   (["--pmemcheck", "x"], ["true"]), (["--budget", "0"], ["true"]),
                                   (["--trace", "/nowhere/at/all"], []), (["--pmemcheck", "/nowhere"], []),
                                   ([], ["/nowhere/at/all"]), ([], ["true"])):
            answer = self.crash_test(*arguments, program=program, code=USAGE)
            self.assertEqual(answer["error"]["exit_code"], USAGE)

    def test_a_pool_on_ssd_is_refused_with_a_way_out(self):
        pool = os.path.join(FOLDER, "on.ssd")
        answer = self.crash_test(program=[compiled("table.c", "-DON_SSD"), pool, "10"], code=USAGE)
        self.assertIn("{pool}", answer["error"]["message"])

    def test_nothing_is_left_behind(self):
        def started(operations, seconds):
            process = subprocess.Popen([HOLDFAST, "crash-test", "--budget", str(seconds), "--", table(), "{pool}",
                                        str(operations)], stdout=subprocess.DEVNULL)
            self.addCleanup(process.kill)
            return process

        def left(process):
            """Of what is named after the process."""
            places = {"/dev/shm", tempfile.gettempdir(), "/tmp"}
            return [n for p in places for n in os.listdir(p) if n.startswith(f"holdfast-crash-test.{process.pid}.")]

        running = started(20, 0.5)
        self.assertEqual(running.wait(timeout=600), NOTHING)
        self.assertEqual(left(running), [])
        running = started(1000, 60)
        end = time.monotonic() + 60
        while not left(running):
            self.assertLess(time.monotonic(), end, "it makes no folder")
            time.sleep(0.01)
        time.sleep(0.7)
        running.terminate()
        self.assertEqual(running.wait(timeout=600), -signal.SIGTERM)
        self.assertEqual(left(running), [])

    def test_a_report_is_readable(self):
        for seconds in (1, LONG):
            command = [HOLDFAST, "crash-test", "--budget", str(seconds), "--", table("MISSING_LOG"), "{pool}", "50"]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
            if ran.returncode != NOTHING:
                break
        self.assertEqual(ran.returncode, FOUND)
        line = line_of("t->count++")
        self.assertIn(f"1. table.c:{line} (put) stores to an object that its transaction has not logged", ran.stdout)
        self.assertIn("--replay ", ran.stdout)
        self.assertIn("1 found:", ran.stdout)


class StoreLogs(CrashTest):
    def log(self, name, *arguments, code, more_than=None):
        check = compiled(str(HERE / "pmemcheck" / "check_ring.c"), recorded=False)
        return self.crash_test("--pmemcheck", str(HERE / "pmemcheck" / name), "--check", f"{check} {{pool}}",
                               *arguments, code=code, budget=1, more_than=more_than)

    def test_a_flush_that_is_missing_is_found(self):
        finding = self.only_finding(self.log("ring_missing_flush.log", code=FOUND))
        self.assertIn("log entry 34, line 15 durable before log entry 38", finding["details"])
        self.assertIn("record 4 of 4 is torn or lost", finding["details"])
        again = self.log("ring_missing_flush.log", "--replay", finding["replay"], code=FOUND)
        self.assertEqual(self.only_finding(again)["what"], finding["what"])

    def test_the_log_without_bugs_is_clean(self):
        self.log("ring.log", code=NOTHING, more_than={"states_checked": 20})

    def test_without_a_check_the_order_of_stores_is_looked_at(self):
        logs = HERE / "pmemcheck"
        answer = self.crash_test("--pmemcheck", str(logs / "ring_missing_flush.log"), code=FOUND)
        self.assertEqual(self.only_finding(answer)["kind"], "not-durable")
        self.crash_test("--pmemcheck", str(logs / "ring.log"), code=NOTHING)

    def test_an_image_is_the_start(self):
        image = os.path.join(FOLDER, "before.img")
        with open(image, "wb") as file:
            file.write((99).to_bytes(8, "little") + bytes(4088))
        # The count promises records that are not there until the log has stored it anew.
        self.log("ring.log", "--image", image, code=FOUND)

    def test_a_damaged_log_is_refused_with_its_place(self):
        text = (HERE / "pmemcheck" / "ring.log").read_text()
        bad = os.path.join(FOLDER, "bad.log")
        with open(bad, "w") as file:
            file.write(text.replace("STORE;0x7f3a10000050;", "STORE;0xzz;"))
        answer = self.crash_test("--pmemcheck", bad, code=USAGE)
        self.assertIn("line 3, entry 6: STORE: a number is not hexadecimal", answer["error"]["message"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
