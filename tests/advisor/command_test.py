#!/usr/bin/env python3
"""holdfast advise as a user runs it: bad input, exit codes, what is printed.

usage: command_test.py HOLDFAST-CC HOLDFAST
"""

import json

from advisor_testing import COUNTERS, HERE, HOLDFAST, AdvisorTest, main, run

GOOD, NEGATIVE, USAGE, UNAVAILABLE = 0, 1, 2, 3


class Command(AdvisorTest):
    def made(self):
        profile, _ = self.profiled(HERE / "programs" / "counts.c", "-O1")
        return profile

    def fails(self, code, words, *arguments):
        done = run([HOLDFAST, "advise", *arguments], code=code, cwd=self.folder)
        self.assertIn(words, done.stderr)
        document = json.loads(run([HOLDFAST, "advise", "--json", *arguments], code=code, cwd=self.folder).stdout)
        self.assertIn(words, json.dumps(document, ensure_ascii=False).replace('\\"', '"'))

    def test_names_what_is_wrong_with_a_profile(self):
        profile = self.made()
        text = profile.read_bytes()
        cases = {"cut": (text[:-40], "cut off"), "changed": (text.replace(b"scalars", b"scalers"), "checksum"),
                 "none": (b"", "not a profile"), "other": (b"\x7fELF" + text, "not a profile")}
        for name, (content, words) in cases.items():
            path = self.folder / f"{name}.profile"
            path.write_bytes(content)
            self.fails(UNAVAILABLE, words, path)
        self.fails(UNAVAILABLE, "No such file", self.folder / "missing")

    def test_refuses_wrong_use(self):
        profile = self.made()
        self.fails(USAGE, "PROFILE is missing")
        self.fails(USAGE, "is none of", "--on", "dram", profile)
        self.fails(USAGE, "expected numbers from 1 on", "--sites", "1,x", profile)
        self.fails(USAGE, "there is no site 9999", "--sites", "9999", profile)
        self.fails(USAGE, "--with-pointers goes with --rewrite", "--with-pointers", profile)
        self.fails(USAGE, "No such file", "--costs", self.folder / "missing", profile)

    def test_refuses_coefficients_that_are_none(self):
        costs = self.folder / "costs"
        costs.write_text("# mine\nnvm read_ns fast measured\n")
        self.fails(USAGE, "line 2: found 'fast', expected a number", "--costs", costs, self.made())

    def test_takes_coefficients_of_a_file(self):
        profile = self.made()
        costs = self.folder / "costs"
        costs.write_text("nvm write_pj 0 a medium that writes for nothing\nnvm read_pj 0 and reads\n")
        dear, free = self.advise(profile), self.advise("--costs", costs, profile)
        kept = self.site_of(dear, "keep")["prices"]["nvm"]["energy_pj"]
        self.assertGreater(kept, 0)
        self.assertEqual(self.site_of(free, "keep")["prices"]["nvm"]["energy_pj"], 0)
        self.assertEqual(self.site_of(free, "keep")["best"], "nvm")

    def test_prints_a_table_with_the_best_first(self):
        profile = self.made()
        text = run([HOLDFAST, "advise", "--top", "3", profile]).stdout
        rows = [line for line in text.splitlines()[3:] if line and not line.lstrip().startswith("not:")]
        self.assertEqual(len(rows), 3)
        answer = self.advise(profile)
        self.assertEqual([int(r.split()[0]) for r in rows], [s["site"] for s in answer["sites"][:3]])
        gains = [s["gain"] for s in answer["sites"]]
        self.assertEqual(gains, sorted(gains, reverse=True))
        self.assertEqual([s["rank"] for s in answer["sites"]], list(range(1, len(gains) + 1)))

    def test_has_every_counter_and_medium_in_its_document(self):
        answer = self.advise(self.made())
        for s in answer["sites"]:
            self.assertEqual(list(s["counts"]), COUNTERS)
            self.assertEqual(list(s["prices"]), ["dram", "shm", "nvm", "ssd", "tier"])
            self.assertTrue(s["path"])
        self.assertEqual(answer["runs"], 1)
        self.assertEqual(answer["durable"]["loads"], 0)

    def test_prices_by_each_measure_and_model(self):
        profile = self.made()
        for by in ("energy", "time", "wear"):
            self.assertEqual(self.advise("--by", by, profile)["by"], by)
        lines = self.site_of(self.advise(profile), "keep")["prices"]["nvm"]
        instructions = self.site_of(self.advise("--model", "instructions", profile), "keep")["prices"]["nvm"]
        # 41,060 stores of 8 bytes into two lines.
        self.assertAlmostEqual(instructions["energy_pj"], 41060 * 64 * 16.82, delta=1)
        self.assertLess(lines["energy_pj"], instructions["energy_pj"] / 10)
        bare = self.site_of(self.advise("--without-transactions", profile), "keep")["prices"]["nvm"]
        self.assertLess(bare["time_ns"], lines["time_ns"])

    def test_prints_the_usual_coefficients_with_their_sources(self):
        text = run([HOLDFAST, "advise", "--show-costs"]).stdout
        self.assertIn("nvm  write_pj     16.82   Lee 2009: PCM array write", text)
        self.assertEqual(json.loads(run([HOLDFAST, "advise", "--json", "--show-costs"]).stdout)["costs"], text)

    def test_works_without_the_rewriter(self):
        profile = self.made()
        environment = {"HOLDFAST_REWRITE": "/nowhere/holdfast-rewrite", "PATH": "/usr/bin:/bin"}
        done = run([HOLDFAST, "advise", "--json", profile], env=environment)
        self.assertNotIn("verdict", json.loads(done.stdout)["sites"][0])
        done = run([HOLDFAST, "advise", "--rewrite", "--sites", "1", profile], code=None, env=environment)
        self.assertIn(done.returncode, (USAGE, UNAVAILABLE))


if __name__ == "__main__":
    main()
