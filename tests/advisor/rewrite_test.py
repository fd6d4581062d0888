#!/usr/bin/env python3
"""Patches of awkward C: golden ones, applied, compiled and run; what is refused, and why.

usage: rewrite_test.py HOLDFAST-CC HOLDFAST
HOLDFAST_GOLDEN=write in the environment writes the golden patches anew.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess

from advisor_testing import HERE, HOLDFAST, AdvisorTest, main, run

PROGRAMS = HERE / "programs"
GOLDEN = PROGRAMS / "rewrite"


class Rewrite(AdvisorTest):
    def awkward(self):
        """A copy of the awkward sources, profiled."""
        for name in ("awkward.c", "util.h"):
            shutil.copy(GOLDEN / name, self.folder / name)
        profile, output = self.profiled("awkward.c", "-O0")
        return profile, output, self.advise(profile)

    def sites(self, answer, *wheres):
        return ",".join(str(self.site_of(answer, *w).get("site")) for w in wheres)

    def patch(self, profile, sites, *more, code=0):
        done = run([HOLDFAST, "advise", "--rewrite", "--sites", sites, *more, profile], code=code, cwd=self.folder)
        return done.stdout if code == 0 else done.stderr

    def applied(self, patch):
        (self.folder / "it.patch").write_text(patch)
        run(["patch", "-p1", "-i", "it.patch"], cwd=self.folder)

    def golden(self, name, patch):
        path = GOLDEN / f"{name}.patch"
        if os.environ.get("HOLDFAST_GOLDEN") == "write":
            path.write_text(patch)
        self.assertEqual(patch, path.read_text())

    def runs_as_before(self, output):
        program = self.compile("awkward.c", "-O1", name="rewritten")
        for placed in (str(self.store), "off"):
            done = run([program], env={**os.environ, "HOLDFAST_PLACED": placed})
            self.assertEqual(done.stdout, output, placed)

    # Every kind at once, so that several changes meet in a line.
    ALL = (("main", "calloc"), ("main", "strdup"), ("main", "realloc"), ("twice",))

    def test_moves_chosen_allocations_and_frees_by_address(self):
        profile, output, answer = self.awkward()
        ints = min(s["site"] for s in self.sites_of(answer, "main", "malloc") if s.get("type") == "int")
        patch = self.patch(profile, f"{self.sites(answer, *self.ALL)},{ints}")
        self.golden("chosen", patch)
        self.applied(patch)
        self.runs_as_before(output)
        objects = json.loads(run([HOLDFAST, "dump", "--json", self.store]).stdout)["objects"]
        self.assertEqual(len(objects), 0)

    def test_moves_one_caller_of_a_wrapper(self):
        profile, output, answer = self.awkward()
        patch = self.patch(profile, str(self.site_of(answer, "xmalloc", caller="points")["site"]))
        self.golden("caller", patch)
        self.assertIn("NVM_PLACED(xmalloc(", patch)
        self.applied(patch)
        self.runs_as_before(output)

    def test_moves_a_wrapper_where_all_its_callers_move(self):
        profile, output, answer = self.awkward()
        both = ",".join(str(s["site"]) for s in self.sites_of(answer, "xmalloc"))
        patch = self.patch(profile, both)
        self.golden("wrapper", patch)
        self.assertIn("nvm_placed_malloc(n)", patch)
        self.assertNotIn("NVM_PLACED(", patch)
        self.applied(patch)
        self.runs_as_before(output)

    def test_applies_twice_without_harm(self):
        profile, output, answer = self.awkward()
        patch = self.patch(profile, self.sites(answer, *self.ALL))
        self.applied(patch)
        once = (self.folder / "awkward.c").read_text()
        again = run(["patch", "-N", "-p1", "-i", "it.patch", "-r", "-"], code=1, cwd=self.folder)
        self.assertIn("previously applied", again.stdout)
        self.assertEqual((self.folder / "awkward.c").read_text(), once)
        # The rewritten program, profiled and rewritten once more: what has moved stays as it is.
        profile, again = self.profiled("awkward.c", "-O0", name="second")
        self.assertEqual(again, output)
        answer = self.advise(profile)
        site = self.site_of(answer, "xmalloc", caller="points")["site"]
        self.applied(self.patch(profile, str(site)))
        text = (self.folder / "awkward.c").read_text()
        self.assertEqual(text.count("NVM_PLACED_START"), 1)
        self.assertEqual(text.count("nvm/placed.h"), 1)
        self.assertNotIn("nvm_placed_nvm_placed", text)
        self.runs_as_before(output)

    def test_can_be_refused_in_parts(self):
        profile, output, answer = self.awkward()
        patch = self.patch(profile, self.sites(answer, *self.ALL))
        # Without the hunk of the header: its allocation and its macro stay the C library's.
        files = ["--- a/" + part for part in patch.split("--- a/")[1:]]
        kept = "".join(f for f in files if "util.h" not in f.splitlines()[0])
        self.assertNotEqual(kept, patch)
        self.applied(kept)
        self.compile("awkward.c", "-O1", name="rewritten")

    def test_is_counted_as_it_was_predicted(self):
        profile, output, answer = self.awkward()
        chosen = self.sites(answer, *self.ALL, ("xmalloc", None, "points"))
        predicted = self.advise("--rewrite", "--sites", chosen, profile)
        self.applied(predicted["patch"])
        rewritten, _ = self.profiled("awkward.c", "-O0", name="rewritten")
        found = self.advise(rewritten)["durable"]
        self.assertGreater(found["stores"], 10)
        for what in ("loads", "stores", "read_bytes", "written_bytes"):
            self.assertEqual(found[what], predicted["moved"][what], what)

    def test_names_what_should_not_be_durable(self):
        _, _, answer = self.awkward()
        kinds = {s.get("type"): (s.get("verdict"), s.get("why")) for s in answer["sites"]}
        self.assertEqual(kinds["struct link"][0], "pointer")
        self.assertIn("field 'next' is a plain pointer", kinds["struct link"][1])
        self.assertEqual(kinds["struct hook"][0], "callback")
        self.assertIn("field 'run' points to a function", kinds["struct hook"][1])
        self.assertEqual(kinds["struct point"][0], "ok")
        printed = [s for s in answer["sites"] if s["path"][0]["called"] == "printf"]
        self.assertEqual(printed[0]["verdict"], "library")

    def test_leaves_out_what_should_not_be_durable_unless_told(self):
        profile, output, answer = self.awkward()
        link = str([s for s in answer["sites"] if s.get("type") == "struct link"][0]["site"])
        said = self.patch(profile, link, code=1)
        self.assertIn("plain pointer", said)
        patch = self.patch(profile, link, "--with-pointers")
        self.assertIn("struct link *l = nvm_placed_malloc", patch)
        self.applied(patch)
        self.runs_as_before(output)

    def test_refuses_sources_that_changed(self):
        profile, _, answer = self.awkward()
        with open(self.folder / "awkward.c", "a") as f:
            f.write("\n")
        said = self.patch(profile, self.sites(answer, ("twice",)), code=1)
        self.assertIn("awkward.c has changed since the profile was made", said)

    def test_refuses_headers_that_changed(self):
        profile, _, answer = self.awkward()
        text = (self.folder / "util.h").read_text()
        (self.folder / "util.h").write_text(text.replace("/* A macro", "/* The macro"))
        said = self.patch(profile, self.sites(answer, ("twice",)), code=1)
        self.assertIn("util.h has changed since the profile was made", said)

    def test_refuses_profiles_of_another_build(self):
        profile, _, _ = self.awkward()
        other, _ = self.profiled("awkward.c", "-O1", name="other")
        done = run([HOLDFAST, "advise", profile, other], code=3)
        self.assertIn("of another build", done.stderr)

    def test_refuses_names_that_macros_put_together(self):
        source = self.folder / "pasted.c"
        source.write_text("#include <stdlib.h>\n#define CALL(a, b) a##b\n"
                          "int main(void) { int *p = CALL(mal, loc)(4); *p = 1; free(p); return 0; }\n")
        profile, _ = self.profiled(source, "-O0", name="pasted")
        site = str(self.site_of(self.advise(profile), "main", "malloc")["site"])
        self.assertIn("a macro puts the name together", self.patch(profile, site, code=1))

    def test_refuses_a_macro_that_also_allocates_what_stays(self):
        source = self.folder / "shared.c"
        source.write_text("#include <stdlib.h>\n#define NEW(T) ((T *)malloc(sizeof(T)))\n"
                          "struct a { int x; };\nstruct b { struct b *next; };\n"
                          "int main(void) {\n  struct a *p = NEW(struct a);\n  struct b *q = NEW(struct b);\n"
                          "  p->x = 1; q->next = 0;\n  free(p); free(q);\n  return 0;\n}\n")
        profile, _ = self.profiled(source, "-O0", name="shared")
        answer = self.advise(profile)
        site = str([s for s in answer["sites"] if s.get("type") == "struct a"][0]["site"])
        self.assertIn("macro NEW allocates for site", self.patch(profile, site, code=1))
        both = ",".join(str(s["site"]) for s in self.sites_of(answer, "main", "malloc"))
        self.assertIn("nvm_placed_malloc(sizeof(T))", self.patch(profile, both, "--with-pointers"))

    def test_never_touches_system_headers(self):
        system = self.folder / "system"
        system.mkdir()
        (system / "sys_util.h").write_text("#include <stdlib.h>\n#define SYS_NEW(n) malloc(n)\n"
                                           "#define SYS_FREE(p) free(p)\n")
        source = self.folder / "user.c"
        source.write_text("#include <sys_util.h>\nint main(void) { int *p = SYS_NEW(4), *q = malloc(4);\n"
                          "  *p = *q = 1; free(q); SYS_FREE(p); return 0; }\n")
        profile, _ = self.profiled(source, "-O0", "-isystem", system, name="user")
        answer = self.advise(profile)
        sites = sorted(s["site"] for s in self.sites_of(answer, "main", "malloc"))
        said = [self.patch(profile, str(s), code=1) for s in sites]
        self.assertTrue(all("system header" in s for s in said), said)

    def test_refuses_a_program_without_main(self):
        library = self.folder / "made.c"
        library.write_text("#include <stdlib.h>\nint *make(void) { return calloc(1, 4); }\n")
        user = self.folder / "plain.c"
        user.write_text("int *make(void);\nint main(void) { return *make(); }\n")
        run([self.cc(), "-w", "-O0", "-fnvm-profile", "-c", library], cwd=self.folder)
        run([self.cc(), "-w", "-O0", "-c", user], cwd=self.folder)
        run([self.cc(), "-fnvm-profile", "made.o", "plain.o", "-o", "both"], cwd=self.folder)
        profile = self.folder / "both.profile"
        run([self.folder / "both"], env={**os.environ, "HOLDFAST_PROFILE": str(profile)})
        site = str(self.site_of(self.advise(profile), "make")["site"])
        self.assertIn("no source of the program has a function main", self.patch(profile, site, code=1))

    @staticmethod
    def cc():
        from advisor_testing import CC
        return CC


class Placed(AdvisorTest):
    def placed(self, name):
        return self.compile(PROGRAMS / f"{name}.c", "-O1", name=name)

    def run_placed(self, program, *arguments, code=0):
        return run([program, *arguments], code=code, env={**os.environ, "HOLDFAST_PLACED": str(self.store)})

    def test_objects_without_a_root_are_gone_with_their_run(self):
        program = self.placed("leaks")
        for _ in range(2):
            self.assertEqual(self.run_placed(program).stdout, "0\n")
        self.run_placed(program, "abort", code=-signal.SIGABRT)
        self.assertEqual(self.run_placed(program).stdout, "0\n")
        self.assertEqual(run([HOLDFAST, "check", self.store]).returncode, 0)

    def test_objects_that_a_root_leads_to_stay(self):
        program = self.placed("stays")
        for k in range(1, 4):
            self.assertEqual(self.run_placed(program).stdout, f"{k}\n")

    def test_a_second_process_is_refused(self):
        program = self.placed("leaks")
        self.run_placed(program)
        holder = self.folder / "holder.c"
        holder.write_text("#include <nvm/placed.h>\n#include <stdio.h>\nint main(void) { NVM_PLACED_START;\n"
                          "  puts(\"has it\"); fflush(stdout); getchar(); return 0; }\n")
        first = subprocess.Popen([self.compile(holder, name="holder")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 env={**os.environ, "HOLDFAST_PLACED": str(self.store)})
        try:
            self.assertEqual(first.stdout.readline(), b"has it\n")
            said = self.run_placed(program, code=1).stderr
            self.assertIn(f"the program's store {self.store}", said)
            self.assertIn(str(first.pid), said)
        finally:
            first.communicate(b"\n", timeout=20)

    def test_the_store_has_the_programs_path_for_a_name(self):
        program = self.placed("stays")
        named = pathlib.Path(f"/dev/shm/holdfast-{os.geteuid()}") / (str(program).replace("/", "%") + ".nvm")
        environment = {k: v for k, v in os.environ.items() if k != "HOLDFAST_PLACED"}
        try:
            run([program], env=environment)
            self.assertTrue(named.exists(), named)
            self.assertEqual(named.parent.stat().st_mode & 0o777, 0o700)
        finally:
            named.unlink(missing_ok=True)

    def test_nothing_is_durable_where_it_is_off(self):
        program = self.placed("stays")
        self.assertEqual(run([program], code=2, env={**os.environ, "HOLDFAST_PLACED": "off"}).stdout, "")

    def test_a_store_that_cannot_be_had_is_said(self):
        program = self.placed("leaks")
        said = run([program], code=1, env={**os.environ, "HOLDFAST_PLACED": "/nowhere/store"}).stderr
        self.assertIn("the program's store /nowhere/store", said)


if __name__ == "__main__":
    main()
