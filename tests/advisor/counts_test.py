#!/usr/bin/env python3
"""What a profiled program counts, by hand: usage counts_test.py HOLDFAST-CC HOLDFAST [-O0|-O2]."""

import os
import sys

from advisor_testing import HERE, AdvisorTest, main, run

LEVEL = sys.argv.pop(3) if len(sys.argv) > 3 else "-O2"


class Counts(AdvisorTest):
    def answer(self, *flags, environment=None, source="counts.c"):
        profile, _ = self.profiled(HERE / "programs" / source, LEVEL, *flags, environment=environment)
        return self.advise(profile)

    def has(self, counts, **expected):
        self.assertEqual({k: counts[k] for k in expected}, expected)

    def test_of_every_kind_of_access_are_exact(self):
        a = self.answer()
        self.has(self.counts(a, "scalars"), objects=2, bytes=32, largest=16, frees=2, stores=3, written_bytes=24, loads=2,
                 read_bytes=8, lines_logged=0)
        self.has(self.counts(a, "blocks"), objects=1, stores=12, written_bytes=740, loads=2, read_bytes=100)
        # The final zero is a store of its own; -O2 may fold it into the block.
        texts = self.counts(a, "texts")
        self.has(texts, objects=1, loads=2, read_bytes=100, written_bytes=100)

    def test_belong_to_call_paths(self):
        a = self.answer()
        self.has(self.counts(a, "wrapped", caller="first_caller"), objects=1, bytes=3, stores=3)
        self.has(self.counts(a, "wrapped", caller="second_caller"), objects=1, bytes=5, stores=5)
        self.has(self.counts(a, "deep"), objects=10, stores=10, peak_bytes=40)

    def test_go_with_an_object_that_moves(self):
        a = self.answer()
        grown = self.counts(a, "grows")
        self.has(grown, objects=1, frees=1, reallocs=5, largest=400000, bytes=400000, peak_bytes=400000, stores=6,
                 written_bytes=24)

    def test_of_very_large_objects_are_exact(self):
        a = self.answer()
        self.has(self.counts(a, "huge"), objects=1, reallocs=2, frees=1, largest=50 << 20, stores=6, loads=2,
                 written_bytes=6, live_bytes=0)
        self.has(self.counts(a, "huge_again"), objects=1, stores=2, loads=0)

    def test_name_the_call_that_made_the_library_allocate(self):
        a = self.answer()
        self.has(self.counts(a, "by_library", "strdup"), objects=1, bytes=12, frees=1)
        self.assertGreaterEqual(self.counts(a, "by_library", "asprintf")["objects"], 1)

    def test_of_logged_lines_are_first_stores_of_a_burst(self):
        kept = self.counts(self.answer(), "keep")
        self.assertEqual(kept["stores"], 41060)
        # Ten bursts end inside of bursts(), and eleven store to its line; logs() brings the other line of one.
        self.assertIn(kept["lines_logged"], (11, 12))
        few = self.counts(self.answer(environment={"HOLDFAST_PROFILE_BURST": "1024"}), "keep")
        self.assertIn(few["lines_logged"], (41, 42))
        every = self.counts(self.answer(environment={"HOLDFAST_PROFILE_BURST": "1"}), "keep")
        # But for the first, which is in the burst that allocated the object.
        self.assertEqual(every["lines_logged"], 41059)

    def test_of_lifetimes_are_in_accesses_of_the_program(self):
        a = self.answer()
        kept = self.counts(a, "keep")
        self.assertGreaterEqual(kept["object_accesses"], 41060)
        self.assertLessEqual(kept["object_accesses"], a["accesses"])
        self.assertGreater(kept["byte_ticks"], 128 * 41060)
        self.assertLess(self.counts(a, "scalars")["object_accesses"], 10)

    def test_of_paths_are_right_after_longjmp_and_in_callbacks(self):
        a = self.answer()
        self.has(self.counts(a, "wrapped", caller="after_jump"), objects=1, bytes=9)
        self.has(self.counts(a, "thrower"), objects=1, bytes=7)
        compared = self.site_of(a, "compare")
        self.assertGreaterEqual(compared["counts"]["objects"], 1)

    def test_have_as_many_frames_as_were_asked_for(self):
        a = self.answer(environment={"HOLDFAST_PROFILE_DEPTH": "1"})
        self.has(self.counts(a, "wrapped"), objects=3)
        self.assertTrue(all(len({f["function"] for f in s["path"]}) == 1 or LEVEL != "-O0" for s in a["sites"]))

    def test_of_threads_exceptions_and_new_add_up(self):
        a = self.answer("-pthread", source="many.cpp")
        worked = self.counts(a, "work")
        self.has(worked, objects=4000, frees=4000, stores=64000, written_bytes=256000, live_objects=0, live_bytes=0)
        self.assertEqual(self.counts(a, "throws", "malloc")["objects"], 1)
        self.assertEqual(self.counts(a, "catches", "malloc")["objects"], 1)
        self.has(self.counts(a, "makes"), objects=1, bytes=100, frees=1)

    def test_of_a_child_are_its_own(self):
        program = self.compile(HERE / "programs" / "many.cpp", "-fnvm-profile", LEVEL, "-pthread")
        run([program], cwd=self.folder, env={**os.environ, "HOLDFAST_PROFILE": "%p.profile"})
        profiles = [self.advise(p) for p in self.folder.glob("*.profile")]
        self.assertEqual(len(profiles), 2)
        both = sorted(profiles, key=lambda p: p["accesses"])
        self.assertEqual(sum(self.counts(both[1], "work").values()) > 0, True)
        self.assertEqual([s for s in self.sites_of(both[0], "main", "malloc")][0]["counts"]["bytes"], 123)
        self.assertTrue(all(s["counts"]["objects"] == 0 or s["path"][0]["function"] == "main"
                            for s in both[0]["sites"]), [s["path"][0] for s in both[0]["sites"]])

    def test_of_a_library_that_is_loaded_later_are_there(self):
        plugin = self.folder / "plugin.c"
        plugin.write_text("#include <stdlib.h>\nvoid fill(void) { volatile char *p = malloc(8);\n"
                          "  for (int k = 0; k < 8; ++k) p[k] = 0;\n  free((void *)p); }\n")
        host = self.folder / "host.c"
        host.write_text("#include <dlfcn.h>\nint main(int argc, char **argv) { void *h = dlopen(argv[1], RTLD_NOW);\n"
                        "  if (h == 0) return 2;\n  ((void (*)(void))dlsym(h, \"fill\"))(); return 0; }\n")
        library = self.compile(plugin, "-fnvm-profile", LEVEL, "-shared", "-fPIC", name="plugin.so")
        profile, _ = self.profiled(host, LEVEL, "-ldl", arguments=[library], name="host")
        self.has(self.counts(self.advise(profile), "fill"), objects=1, stores=8, bytes=8)
        # In a program that is not profiled it runs, and nothing is counted: the heap is the C library's.
        plain = self.compile(host, LEVEL, "-ldl", name="plain")
        run([plain, library], cwd=self.folder, env={**os.environ, "HOLDFAST_PROFILE": str(self.folder / "plain.profile")})
        self.assertEqual(self.sites_of(self.advise(self.folder / "plain.profile"), "fill"), [])

    def test_of_threads_that_come_and_go_add_up(self):
        source = self.folder / "short.c"
        source.write_text("#include <pthread.h>\n#include <stdlib.h>\n"
                          "static void *work(void *a) { volatile int *p = malloc(4);\n"
                          "  for (int k = 0; k < 10; ++k) *p = k;\n  return (void *)p; }\n"
                          "int main(void) { for (int k = 0; k < 2000; ++k) { pthread_t t; void *p;\n"
                          "  if (pthread_create(&t, 0, work, 0) != 0) return 2;\n"
                          "  pthread_join(t, &p); free(p); } return 0; }\n")
        profile, _ = self.profiled(source, LEVEL, "-pthread", name="short")
        self.has(self.counts(self.advise(profile), "work"), objects=2000, stores=20000, frees=2000, live_objects=0)

    def test_of_several_runs_are_merged(self):
        profile, _ = self.profiled(HERE / "programs" / "counts.c", LEVEL)
        a = self.advise(profile, profile)
        self.assertEqual(a["runs"], 2)
        self.has(self.counts(a, "scalars"), objects=4, stores=6, largest=16)

    def test_are_none_of_a_program_that_may_not_reserve_the_window(self):
        program = self.compile(HERE / "programs" / "counts.c", "-fnvm-profile", LEVEL)
        done = run(["bash", "-c", f"ulimit -v 4000000; HOLDFAST_PROFILE={self.folder}/none exec {program}"], code=None,
                   cwd=self.folder)
        self.assertIn("not profiled", done.stderr)
        self.assertFalse((self.folder / "none").exists())


if __name__ == "__main__":
    main()
