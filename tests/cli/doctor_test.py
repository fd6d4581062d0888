#!/usr/bin/env python3
"""doctor: tries what a place promises, says it in words, leaves nothing behind."""

import os
import resource
import signal
import subprocess
import time

import cli_testing
from cli_testing import GOOD, MEDIA, NEGATIVE, UNAVAILABLE, PoolTest, run

SHORT = ("--kill-seconds", "0.2", "--crash-seconds", "0.3")


class Places(PoolTest):
    def test_are_tried_and_left_as_they_were(self):
        for medium in MEDIA:
            folder = self.path(medium).parent
            answer = self.answer("doctor", folder, *SHORT)
            self.assertEqual(answer["medium"], medium)
            self.assertEqual((answer["survives_kill"], answer["problems"], answer["kill_fault"]), ("yes", [], ""))
            self.assertGreater(answer["kills"], 0)
            self.assertGreater(answer["kill_transactions"], 0)
            self.assertGreater(answer["sync_count"], 0)
            self.assertLessEqual(answer["sync_median_ns"], answer["sync_p99_ns"])
            self.assertTrue(answer["window"])
            self.assertIsNone(answer["pool_condition"])
            self.assertNotEqual(answer["file_system"]["type"], "")
            if medium == "ssd":
                self.assertEqual((answer["crash_run"], answer["crash_fault"]), ("power-cuts", ""))
                self.assertGreater(answer["crash_states"], 0)
                self.assertIn(answer["survives_power_loss"], ("yes", "unknown"))
            else:
                self.assertEqual(answer["survives_power_loss"], "no")
            self.assertEqual(os.listdir(folder), [])

    def test_of_pools_are_tried_beside_them(self):
        for medium in MEDIA:
            path, _ = self.used_pool(medium)
            with self.unchanged(path):
                answer = self.answer("doctor", path, *SHORT)
                text = run("doctor", path, *SHORT).stdout
            self.assertEqual((answer["medium"], answer["pool_condition"]), (medium, "clean"))
            self.assertIn("survives", text)
            self.assertRegex(text, r"kill -9, a program's crash +yes: ")
            self.assertRegex(text, r"power loss, kernel crash +(yes|no|unknown): ")
            self.assertEqual(os.listdir(path.parent), [path.name])

    def test_that_are_none_are_errors(self):
        here = self.path("shm").parent
        text = here / "text"
        text.write_text("no pool")
        self.assert_fails(("doctor", here / "none"), UNAVAILABLE, "NVM_E_NOT_FOUND")
        self.assert_fails(("doctor", text), UNAVAILABLE, "NVM_E_NOT_A_POOL")
        self.assert_fails(("doctor", "/proc"), UNAVAILABLE, "NVM_E_SYSTEM")

    def test_where_no_file_may_grow_do_not_hold(self):
        folder = self.path("shm").parent
        limit = 32 * 1024
        done = run("doctor", folder, *SHORT,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, NEGATIVE, done.stderr)
        self.assertIn("does not hold:", done.stdout)
        self.assertEqual(os.listdir(folder), [])

    def test_are_tidied_up_when_the_doctor_is_interrupted(self):
        folder = self.path("shm").parent
        with subprocess.Popen([cli_testing.HOLDFAST, "doctor", folder, "--kill-seconds", "60"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as doctor:
            for _ in range(400):
                if os.listdir(folder):
                    break
                time.sleep(0.01)
            time.sleep(0.5)
            doctor.send_signal(signal.SIGINT)
            self.assertNotEqual(doctor.wait(timeout=30), GOOD)
        self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    cli_testing.main()
