#!/usr/bin/env python3
"""Each checker of tools/ reports a violation planted in a small tree, and nothing in a clean one."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"

TABLE = """| Folder | Number | What |
| --- | --- | --- |
| `base/` | 0 | ground |
| `media/` | 2 | bytes |
| `sync/` | 2 | locks |
| `pool/` | 3 | file |
| `cli/` | 9 | command |
"""


class CheckerCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/README.md", TABLE)
        self.write("src/base/bits.hpp", "#pragma once\n")
        self.write("src/media/media.hpp", '#pragma once\n#include "base/bits.hpp"\n')
        self.write("src/media/inner.hpp", "#pragma once\n")
        self.write("src/pool/pool_layout.hpp", "#pragma once\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, *arguments):
        # All of what a checker looks at, whatever part has its turn today.
        done = subprocess.run([sys.executable, *map(str, arguments)], text=True, capture_output=True, check=False,
                              env={**os.environ, "NVM_EXPLORE_ALL": "1"})
        return done.returncode, done.stdout + done.stderr

    def expect(self, command, *needles):
        """Exit code 1 and a line with each needle; without needles exit code 0 and no output."""
        code, output = self.run_tool(*command)
        self.assertEqual(code, 1 if needles else 0, output)
        for needle in needles:
            self.assertIn(needle, output)
        if not needles:
            self.assertEqual(output, "")


class Remembered(CheckerCase):
    """tools/passed.py, in a cache of its own."""

    def setUp(self):
        super().setUp()
        sys.path.insert(0, str(TOOLS))
        self.addCleanup(sys.path.remove, str(TOOLS))
        self.passed = importlib.import_module("passed")
        kept = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.root)})
        kept.start()
        self.addCleanup(kept.stop)

    def test_what_has_passed_and_nothing_else(self):
        first = self.passed.digest("a", b"bc")
        self.assertFalse(self.passed.has(first))
        self.passed.remember(first)
        self.assertTrue(self.passed.has(first))
        self.assertFalse(self.passed.has(self.passed.digest("ab", b"c")))

    def test_what_nobody_asks_for_goes(self):
        old, new = self.passed.digest("old"), self.passed.digest("new")
        self.passed.remember(old)
        long_ago = time.time() - (self.passed.DAYS_KEPT + 1) * 86400
        os.utime(self.passed.folder() / old, (long_ago, long_ago))
        self.passed.remember(new)
        self.assertFalse(self.passed.has(old))
        self.assertTrue(self.passed.has(new))

    def test_a_cache_that_cannot_be_written(self):
        self.write("holdfast", "a file\n")
        self.passed.remember("x")
        self.assertFalse(self.passed.has("x"))


class Layers(CheckerCase):
    def layers(self):
        return [TOOLS / "layers.py", self.root]

    def test_a_face_through_which_templates_are_seen(self):
        self.write("src/README.md", TABLE.replace("| `cli/`", "| `tx/` | 6 | transactions |\n| `cli/`"))
        self.write("src/tx/tx.hpp", "#pragma once\n")
        self.write("src/tx/inner.hpp", '#include "tx/tx.hpp"\n')
        self.write("src/tx/face.hpp", '#include "tx/inner.hpp"\n')
        self.expect(self.layers(), "src/tx/face.hpp: a face sees the templates of tx/tx.hpp, by tx/inner.hpp")
        self.write("src/tx/inner.hpp", "#pragma once\n")
        self.write("src/cli/main.cpp", '#include "tx/face.hpp"\n')
        self.expect(self.layers())

    def test_a_source_above_engines_that_sees_templates(self):
        self.write("src/README.md", TABLE.replace("| `cli/` | 9", "| `tx/` | 6 | transactions |\n| `engine/` | 8 | engines |\n"
                                                  "| `api/` | 9 | calls |\n| `care/` | 11 | check |\n| `cli/` | 14"))
        self.write("src/tx/tx.hpp", "#pragma once\n")
        self.write("src/engine/undo.cpp", '#include "tx/tx.hpp"\n')
        self.write("src/care/check.cpp", '#include "tx/tx.hpp"\n')
        self.write("src/engine/start.hpp", "#pragma once\n")
        self.write("src/api/pool.cpp", '#include "engine/start.hpp"\n')
        self.expect(self.layers())
        self.write("src/engine/start.hpp", '#include "tx/tx.hpp"\n')
        self.expect(self.layers(), "src/api/pool.cpp: sees the templates of tx/tx.hpp, by engine/start.hpp < api/pool.cpp")
        self.write("src/engine/start.hpp", "#pragma once\n")
        self.write("src/api/open.hpp", '#include "tx/tx.hpp"\n')
        self.expect(self.layers(), "src/api/open.hpp: sees the templates of tx/tx.hpp")
        self.write("src/api/open.hpp", "#pragma once\n")
        self.write("src/care/check.cpp", "")
        self.expect(self.layers(), "src/care/ sees no template; take it from the list")

    def test_a_source_above_engines_that_sees_a_template_past_the_door(self):
        rows = "| `tx/` | 6 | transactions |\n| `engine/` | 8 | engines |\n| `api/` | 9 | calls |\n| `cli/` | 14"
        self.write("src/README.md", TABLE.replace("| `cli/` | 9", rows))
        self.write("src/tx/transaction.hpp", "template <class Media>\nclass transaction {};\n")
        self.write("src/tx/concept.hpp", "template <class T>\nconcept steps = true;\n")
        self.write("src/tx/lane_layout.hpp", "template <class T>\nstruct lane {};\n")
        self.write("src/tx/outcome.hpp", "enum class outcome { done };  // of a template <class Media>\n")
        self.write("src/api/pool.cpp", "".join(f'#include "tx/{name}.hpp"\n' for name in ("concept", "lane_layout", "outcome")))
        self.expect(self.layers())
        self.write("src/tx/outcome.hpp", '#include "tx/transaction.hpp"\n')
        self.expect(self.layers(), "src/api/pool.cpp: sees the templates of tx/transaction.hpp",
                    "by tx/outcome.hpp < api/pool.cpp")
        self.write("src/tx/outcome.hpp", '#include "tx/aligned_object.hpp"\n')
        self.write("src/tx/aligned_object.hpp", "template <class Admit>\nint f(Admit);\n")  # it is on the list
        self.expect(self.layers())
        self.write("src/tx/aligned_object.hpp", "int f();\n")
        self.expect(self.layers(), "src/tx/aligned_object.hpp has no template that is seen; take it from the list")

    def test_a_public_header_below_its_layer(self):
        self.write("src/README.md", TABLE + "\n| `nvm/nvm.h` | `cli/` |\n| `nvm/kv.h` | `cli/` |\n")
        self.write("include/nvm/nvm.h", "")
        self.write("include/nvm/kv.h", '#include "nvm/nvm.h"\n')
        self.write("src/pool/pool.cpp", '#include "nvm/kv.h"\n')
        self.expect(self.layers(), "pool (3) may not use what cli (9) answers")
        self.write("src/pool/pool.cpp", '#include "nvm/other.h"\n')
        self.expect(self.layers(), "is in no row of the table of public headers")
        self.write("src/pool/pool.cpp", '#include "nvm/nvm.h"\nint f() { return nvm_tx_begin(0); }\n')
        self.expect(self.layers(), "src/pool/pool.cpp:2: pool (3) may not call nvm_tx_begin()")
        self.write("src/pool/pool.cpp",
                   '#include "nvm/nvm.h"\n// nvm_tx_begin()\nbool f() { return nvm_is_durable("nvm_wait()"); }\n')
        self.expect(self.layers())

    def test_a_public_header_without_a_row_and_one_that_sees_a_higher_one(self):
        self.write("src/README.md", TABLE + "\n| `nvm/nvm.h` | `cli/` |\n| `nvm/kv.h` | `cli/` |\n| `nvm/low.h` | `pool/` |\n")
        self.write("include/nvm/nvm.h", "")
        self.write("include/nvm/kv.h", '#include "nvm.h"\n#include "low.h"\n')
        self.write("include/nvm/low.h", '#include "nvm/nvm.h"\n')
        self.expect(self.layers())
        self.write("include/nvm/low.h", '\n#include "kv.h"\n')
        self.expect(self.layers(), "include/nvm/low.h:2:", "pool (3) may not use what cli (9) answers")
        self.write("include/nvm/low.h", '#include "nvm/more.h"\n')
        self.write("include/nvm/more.h", "")
        self.expect(self.layers(), "include/nvm/more.h: is in no row", "include/nvm/low.h:1:")
        (self.root / "include" / "nvm" / "more.h").unlink()
        (self.root / "include" / "nvm" / "low.h").unlink()
        self.expect(self.layers(), "src/README.md: nvm/low.h has a row and is no public header")

    def test_a_clean_tree_passes(self):
        self.write("src/pool/pool.cpp", '#include "media/media.hpp"\n#include "pool/pool_layout.hpp"\n')
        self.write("src/cli/main.cpp", '#include "media/inner.hpp"\n#include <nvm/nvm.h>\n')
        self.expect(self.layers())

    def test_an_upward_include_is_found(self):
        self.write("src/media/bad.cpp", '\n#include "pool/pool_layout.hpp"\n')
        self.expect(self.layers(), "src/media/bad.cpp:2:", "media (2) may not use pool (3)")

    def test_an_include_of_a_layer_of_the_same_number_is_found(self):
        self.write("src/sync/bad.hpp", '# include "media/media.hpp"\n')
        self.expect(self.layers(), "sync (2) may not use media (2)")

    def test_an_include_past_the_door_is_found(self):
        self.write("src/pool/bad.cpp", '#include "media/inner.hpp"\n')
        self.expect(self.layers(), "is not a door of media")

    def test_an_include_that_climbs_is_found(self):
        self.write("src/base/bad.cpp", '#include "../pool/pool_layout.hpp"\n')
        self.expect(self.layers(), "climbs")

    def test_a_folder_outside_the_table_is_found(self):
        self.write("src/misc/a.cpp", "\n")
        self.expect(self.layers(), "'misc' is no layer")

    def test_an_example_that_looks_inside_is_found(self):
        self.write("examples/a.cpp", '#include "media/media.hpp"\n')
        self.expect(self.layers(), "is not a public header")

    def test_a_table_that_differs_from_the_build_is_found(self):
        self.write("cmake/layers.cmake", "set(HOLDFAST_LAYER_TABLE\n  base:0 media:1)\n")
        self.expect(self.layers(), "differs")

    def test_a_table_without_rows_is_an_error(self):
        self.write("src/README.md", "# Layers\n")
        self.expect(self.layers(), "no rows")


class TreeRules(CheckerCase):
    def rule(self, name):
        return [TOOLS / "tree_rules.py", "--root", self.root, name]

    def test_leftover_words_are_found_in_code_and_documents(self):
        self.expect(self.rule("leftovers"))
        for number, words in enumerate(("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK", "a st" "ub",
                                        "Not " "implemented", "for " "now")):
            name = f"docs/{number}.md"
            self.write(name, f"text\n{words}: later\n")
            self.expect(self.rule("leftovers"), f"{name}:2: leftover")

    def test_words_that_only_contain_one_pass(self):
        self.write("a.cpp", 'mkstemp("pool.XX' 'XXXX");  // st' 'ubborn\n')
        self.expect(self.rule("leftovers"))

    def test_flushes_fences_and_syncs_outside_media_are_found(self):
        for call in ("_mm_clwb(p);", "_mm_sfence ();", "__builtin_ia32_clflushopt(p);", "fdatasync(fd);",
                     "::fsync(fd);", "msync(p, n, MS_SYNC);", "_mm_stream_si64(p, 1);",
                     'asm volatile("clwb %0" : "+m"(*p));', '__asm__("sfence");'):
            self.write("src/pool/bad.cpp", f"void f() {{\n  {call}\n}}\n")
            self.expect(self.rule("doors"), "src/pool/bad.cpp:2:")

    def test_the_doors_themselves_and_mere_mentions_pass(self):
        self.write("src/media/direct.cpp", "void f() { _mm_sfence(); fdatasync(1); }\n")
        self.write("src/pool/good.cpp", '// fsync(fd) would\n/* msync(\n*/ const char* s = "fsync(";\n'
                                        "bool clwb = cpu.clwb;\n")
        self.expect(self.rule("doors"))

    def test_numbers_of_engines_outside_of_their_table_are_found(self):
        self.write("src/pool/bad.cpp", "// NVM_ENGINE_LOG\nbool f(int e) { return e == NVM_ENGINE_REDO; }\n")
        self.expect(self.rule("engines"), "src/pool/bad.cpp:2:")
        self.write("src/pool/bad.cpp", "int f() { return NVM_ENGINE_DETECT; }\n")
        self.write("src/pool/engines.hpp", "int g() { return NVM_ENGINE_REDO; }\n")
        self.expect(self.rule("engines"))

    def test_kinds_of_logs_that_are_compared_are_found(self):
        for line in ("bool f(log_kind k) { return k == log_kind::rings; }", "bool f(log_kind k) { return log_kind::none != k; }",
                     "int f(log_kind k) { switch (k) { case nvm::log_kind::lanes: return 1; default: return 0; } }",
                     "int f() { switch (log_of(sb)) { default: return 0; } }"):
            self.write("src/pool/bad.cpp", line + "\n")
            self.expect(self.rule("engines"), "src/pool/bad.cpp:1:")
        self.write("src/pool/bad.cpp", "constexpr log_table<row> rows{{{{log_kind::lanes, f}}}};  // == log_kind::lanes\n")
        self.write("src/pool/engines.hpp", "bool f(log_kind k) { return k == log_kind::rings; }\n")
        self.expect(self.rule("engines"))

    def test_files_and_functions_that_are_too_long_are_found(self):
        body = "  f();\n" * 69
        self.write("src/base/long.cpp", "int g() {\n" + body + "}\n")  # 71 lines
        self.write("src/base/longest.cpp", "// a line\n" * 701)
        self.write("src/base/inner.hpp", "namespace nvm {\nclass c {\n public:\n  c(int x) : a_{x}, b_{x} {\n"
                   + body + "  }\n  int a_, b_;\n};\n}\n")
        self.write("tests/base/long_test.cpp", "TEST(suite, name) {\n" + body + "}\n")
        self.write("tools/long.py", "def long():\n" + "    f()\n" * 70)
        self.expect(self.rule("lengths"), "src/base/long.cpp:1: g() has 71 lines, at most 70",
                    "src/base/longest.cpp:1: 701 lines, at most 700", "src/base/inner.hpp:4: c() has 71 lines",
                    "tests/base/long_test.cpp:1: suite.name() has 71 lines", "tools/long.py:1: long() has 71 lines")

    def test_short_functions_tables_and_classes_pass_for_their_length(self):
        short = "int g() {\n" + "  f();\n" * 68 + "}\n"  # 70 lines
        self.write("src/base/short.cpp", short + short.replace("g()", "h()"))
        self.write("src/base/table.cpp", "constexpr int table[] = {\n" + "    1,\n" * 80 + "};\n")
        self.write("src/base/class.hpp", "struct s {\n" + "  int f() { return 1; }\n" * 80 + "};\n")
        self.write("src/base/text.cpp", 'const char* text = R"({\n' + "{\n" * 80 + ')";\n#define M {\n// {\n')
        self.write("src/base/either.cpp", "#ifdef A\nint g() {\n#else\nint g(int) {\n#endif\n}\n" + short)
        self.write("src/server/reports.cpp", "void report_general() {\n" + "  tell();\n" * 80 + "}\n")
        self.expect(self.rule("lengths"))

    def test_an_exemption_that_is_not_needed_is_found(self):
        self.write("src/server/reports.cpp", "void report_general() {\n  tell();\n}\n")
        self.expect(self.rule("lengths"), "report_general() is not long; take it off the list")

    def test_words_that_stop_a_reader_are_found_in_comments_only(self):
        self.write("src/base/said.cpp", "int f();\n// The run is no more.\nint g();  /* a\n thread who has it */\n"
                   "// the word behind the header\n")
        self.expect(self.rule("comments"), "src/base/said.cpp:2: 'is no more'", "src/base/said.cpp:4: 'who has'",
                    "src/base/said.cpp:5: 'behind'")
        self.write("src/base/said.cpp", 'const char* text = "who has // is no more";\n'
                   "// When there is no more room, it is no more than a page.\n"
                   "// The map that it leaves behind, changed behind its user's back (docs/021-media-behind-types.md).\n")
        self.expect(self.rule("comments"))

    def test_words_that_stop_a_reader_are_found_in_documents_and_examples(self):
        self.write("docs/design/said.md", "```\nbehind\n```\nThe `behind` of [a](media-behind.md) link\nleads behind it.\n")
        self.write("examples/said.c", "int f(void);  /* The thread who is first. */\n")
        self.write("tests/base/said.cpp", "// the word behind the header\n")
        self.expect(self.rule("comments"), "docs/design/said.md:5: 'behind'", "examples/said.c:1: 'who is'")

    def test_sentences_that_begin_with_a_word_of_doubt_are_found(self):
        self.write("src/base/said.cpp", "int f();\n// Who waits holds no lock.\n"
                   "int g();  /* It is not.\n   Nor is this. */\n")
        self.write("docs/said.md", "It ends. Whoever\nsees it may go. Whoever sees it stays.\n")
        self.expect(self.rule("comments"), "src/base/said.cpp:2: 'Who' in a comment begins",
                    "src/base/said.cpp:4: 'Nor'", "docs/said.md:1: 'Whoever'", "docs/said.md:2: 'Whoever'")
        self.write("src/base/said.cpp", "// `who`: the thread that waits.  Who may wait?  Neither this one nor that.\n")
        self.write("docs/said.md", "# Who it is for\n\n| Who waits | What |\n| --- | --- |\n| Nor this | |\n\n"
                   "Who asks\nfor it?\n")
        self.expect(self.rule("comments"))

    def test_rulers_that_a_formatter_has_broken_are_found(self):
        self.write("src/pool/bad.cpp", "// ---- opening\n// " + "-" * 90 + "\n")
        self.expect(self.rule("rulers"), "src/pool/bad.cpp:2:")
        self.write("src/pool/bad.cpp", "// ---- opening " + "-" * 90 + "\n")
        self.expect(self.rule("rulers"))

    def test_descriptors_made_outside_of_their_door_are_found(self):
        for call in ("::open(path, O_RDWR);", "int d = ::socket (1, 2, 3);", "eventfd(0, 0);", "::memfd_create(n, 0);",
                     "::dup(d);", "syscall(SYS_userfaultfd, 0);", "::fcntl(d, F_DUPFD_CLOEXEC, 3);", "::pipe2(e, 0);",
                     "std::ofstream out{path};", "std::fopen(path, mode);", "std::ifstream in{path};"):
            self.write("src/pool/bad.cpp", f"void f() {{\n  {call}\n}}\n")
            self.expect(self.rule("descriptors"), "src/pool/bad.cpp:2:")
        self.write("src/pool/bad.cpp", "// ::open(\nauto f = pool_file::open(p); f.open(); open(f); ::dup2(a, 1);\n")
        self.write("src/platform/descriptor.cpp", "int f() { return ::open(a, b); }\n")
        self.write("src/cli/kv.cpp", "std::ifstream in{path};\n")
        self.expect(self.rule("descriptors"))

    def test_paths_work_items_and_addresses_are_found(self):
        self.expect(self.rule("leaks"))
        for text in ("see /ho" "me/ann/x", "/wo" "rk/main", "issue" " #12", "https://" "mirror.test/"):
            self.write("docs/a.md", f"\n\n{text}\n")
            self.expect(self.rule("leaks"), "docs/a.md:3:")

    def test_a_fence_label_at_two_places_or_of_another_shape_is_found(self):
        self.write("src/pool/a.cpp", 'm.fence(edge{"pool/E1"});  // before edge{"pool/E2"}\n')
        self.write("src/pool/b.cpp", 'm.fence(edge{"pool/E2"});\n')
        self.expect(self.rule("edges"))
        self.write("src/pool/c.cpp", '\nm.fence(edge{"pool/E1"});\nm.fence(edge{"last"});\n')
        self.expect(self.rule("edges"), "src/pool/c.cpp:2: fence label 'pool/E1' stands at src/pool/a.cpp:1",
                    "src/pool/c.cpp:3: fence label 'last' does not read")

    def test_a_line_that_is_too_wide_is_found(self):
        self.write("src/pool/wide.cpp", "//" + "x" * 118 + "\n//" + "x" * 119 + "\n")
        self.expect(self.rule("width"), "src/pool/wide.cpp:2: 121 columns")

    def test_a_root_that_is_made_after_a_failure_is_found(self):
        make = "  if (r == NULL) {\n    r = nvm_alloc(pool, 1, 8);\n    nvm_pool_set_root(pool, r);\n  }\n}\n"
        self.write("examples/read.c", "nvm_pool_read_root(pool, &r);\n" + make)
        self.write("docs/only.md", "void *get(NVM_POOL *pool) { return nvm_pool_get_root(pool); }\nint f(void) {\n" + make)
        self.expect(self.rule("roots"))
        self.write("README.md", "\nr = nvm_pool_get_root(pool);\n" + make)
        self.write("ports/p/get.c", "r = nvm_pool_get_root(pool);\n" + make)
        self.expect(self.rule("roots"), "README.md:2: nvm_pool_get_root()", "ports/p/get.c:1:")

    def test_an_unknown_rule_is_an_error(self):
        code, output = self.run_tool(*self.rule("nothing"))
        self.assertEqual(code, 2)
        self.assertIn("unknown rule nothing", output)


class Headers(CheckerCase):
    def headers(self):
        return self.run_tool(TOOLS / "headers_alone.py", "--root", self.root)

    def test_a_header_that_leans_on_its_users_is_found(self):
        code, output = self.headers()
        self.assertEqual(code, 0, output)
        self.write("src/pool/leans.hpp", "#pragma once\ninline std::size_t n = 0;\n")
        code, output = self.headers()
        self.assertEqual(code, 1)
        self.assertIn("src/pool/leans.hpp: not by itself", output)

    def test_a_header_that_leans_on_one_that_is_compiled_before_it_is_found(self):
        self.write("src/base/base.hpp", "#pragma once\n#include <cstddef>\n")
        for k in range(12):  # enough of them for the door to be compiled in advance
            self.write(f"src/pool/user_{k}.hpp", '#pragma once\n#include "base/base.hpp"\ninline std::size_t n = 0;\n')
        code, output = self.headers()
        self.assertEqual(code, 0, output)
        self.write("src/pool/leans.hpp", "#pragma once\ninline std::size_t m = 0;\n")
        self.write("src/pool/maybe.hpp", '#pragma once\n#if 0\n#include "base/base.hpp"\n#endif\ninline std::size_t k = 0;\n')
        self.write("src/pool/above.hpp", '#pragma once\n#include "leans.hpp"\n#include "maybe.hpp"\n#include "user_1.hpp"\n')
        code, output = self.headers()
        self.assertEqual(code, 1)
        self.assertIn("src/pool/leans.hpp: not by itself", output)
        self.assertIn("src/pool/maybe.hpp: not by itself", output)
        self.assertNotIn("src/pool/user_2.hpp: not by itself", output)

    def test_each_of_headers_that_include_each_other_is_compiled(self):
        self.write("src/pool/one.hpp", '#pragma once\n#include "two.hpp"\ninline std::size_t n = 0;\n')
        self.write("src/pool/two.hpp", '#pragma once\n#include "one.hpp"\n#include <cstddef>\n')
        code, output = self.headers()
        self.assertEqual(code, 1)
        self.assertIn("src/pool/two.hpp: not by itself", output)
        self.assertNotIn("src/pool/one.hpp: not by itself", output)

    def test_a_header_whose_source_is_read_with_others_is_compiled_too(self):
        self.write("src/pool/leans.hpp", "#pragma once\ninline std::size_t n = 0;\n")
        self.write("src/pool/leans.cpp", '#include "pool/leans.hpp"\n')
        self.assertEqual(self.headers()[0], 0)  # the build compiles it first
        self.write("src/pool/other.cpp", "")
        for said in ("SOURCES leans.cpp USES media base TOOL", "SOURCES other.cpp COLD leans.cpp USES media base"):
            self.write("src/pool/CMakeLists.txt", f"holdfast_layer(pool {said})\n")
            code, output = self.headers()
            self.assertEqual(code, 1, said)
            self.assertIn("src/pool/leans.hpp: not by itself", output)
        self.write("src/pool/CMakeLists.txt", "holdfast_layer(pool SOURCES leans.cpp COLD other.cpp USES media base)\n")
        self.assertEqual(self.headers()[0], 0)

    def test_a_public_header_that_is_not_c_is_found(self):
        self.write("include/nvm/a.h", "#ifndef A\n#define A\ninline int f(int &x) { return x; }\n#endif\n")
        code, output = self.headers()
        self.assertEqual(code, 1)
        self.assertIn("include/nvm/a.h: not by itself with gcc -x c -std=c11", output)


class Documents(CheckerCase):
    def test_links_that_lead_nowhere_are_found(self):
        command = [TOOLS / "check_docs.py", "--root", self.root]
        self.write("docs/a.md", "# Title here\n[b](b.md) [self](#title-here)\n```\n[x](none.md)\n```\n")
        self.write("docs/b.md", "# B\n[a](a.md#title-here)\n")
        self.expect(command)
        self.write("docs/b.md", "# B\n[a](a.md#absent) [c](c.md)\n")
        self.expect(command, "no heading for link 'a.md#absent'", "no file for link 'c.md'")


class Counting(CheckerCase):
    GTEST = ("[ RUN      ] a.first\nnoise\n/t/a.cpp:5: Skipped\nthe system has none\n\n[  SKIPPED ] a.first (0 ms)\n"
             "[ RUN      ] a.second\n/t/a.cpp:9: Skipped\n\n\n[  SKIPPED ] a.second (12 ms)\n")
    GTEST_OK = "[ RUN      ] a.third\n[       OK ] a.third (0 ms)\n"
    GTEST_END = "[  SKIPPED ] 2 tests, listed below:\n[  SKIPPED ] a.first\n[  SKIPPED ] a.second\n"

    def count(self, cases, *options):
        self.write("r.xml", f"<testsuite>{cases}</testsuite>")
        return self.run_tool(TOOLS / "count_tests.py", *options, self.root / "r.xml")

    def of_a_test(self, output, *options):
        return self.count(f'<testcase name="t" status="run"><system-out>{output}</system-out></testcase>', *options)

    def test_a_program_that_could_not_run_counts_as_failed(self):
        cases = ('<testcase name="a" status="run"/>'
                 '<testcase name="b" status="fail"><failure message=""/></testcase>'
                 '<testcase name="c" status="notrun"><skipped message="Unable to find executable"/>'
                 '</testcase>'
                 '<testcase name="d" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
                 '<system-out>d: skipped: no mandoc\n</system-out></testcase>')
        self.assertEqual(self.count(cases), (0, "1 2 1\n"))
        self.assertEqual(self.count(cases, "--reasons"), (0, "skipped: d: no mandoc\n"))
        cases = cases.replace("d: skipped: no mandoc", "it has no mandoc")
        self.assertEqual(self.count(cases, "--reasons"), (0, "skipped: d: it has no mandoc\n"))

    def test_cases_that_a_test_skips_are_counted_with_their_reasons(self):
        output = self.GTEST + self.GTEST_OK + self.GTEST_END
        self.assertEqual(self.of_a_test(output), (0, "1 0 2\n"))
        self.assertEqual(self.of_a_test(output, "--reasons"),
                         (0, "skipped: t: the system has none\nskipped: t: it gives no reason\n"))
        self.assertEqual(self.of_a_test(self.GTEST_OK), (0, "1 0 0\n"))

    def test_cases_of_python_are_counted_with_their_reasons(self):
        output = "test_a (x.A) ... skipped 'no zsh'\ntest_b (x.A) ... ok\n\nRan 2 tests in 0.1s\n\nOK (skipped=1)\n"
        self.assertEqual(self.of_a_test(output), (0, "1 0 1\n"))
        self.assertEqual(self.of_a_test(output, "--reasons"), (0, "skipped: t: no zsh\n"))
        self.assertEqual(self.of_a_test("s.\nRan 2 tests in 0.1s\n\nOK (skipped=1)\n"), (0, "1 0 1\n"))
        self.assertEqual(self.of_a_test(".\nRan 1 test in 0.1s\n\nOK\n"), (0, "1 0 0\n"))

    def test_a_test_that_skips_all_of_its_cases_did_not_pass(self):
        self.assertEqual(self.of_a_test(self.GTEST + self.GTEST_END), (0, "0 0 2\n"))
        self.assertEqual(self.of_a_test("s\nRan 1 test in 0.1s\n\nOK (skipped=1)\n"), (0, "0 0 1\n"))

    def test_files_are_added_up(self):
        self.write("s.xml", '<testsuite><testcase name="a" status="run"/></testsuite>')
        self.assertEqual(self.count('<testcase name="a" status="run"/>', self.root / "s.xml"), (0, "2 0 0\n"))

    def test_a_missing_or_broken_file_is_an_error(self):
        self.assertEqual(self.count("<testcase")[0], 1)
        self.assertEqual(self.run_tool(TOOLS / "count_tests.py", self.root / "none.xml")[0], 1)


class Coverage(unittest.TestCase):
    """Two files of one part, four conditions of which each went both ways, a hundred times."""

    EXPLAINED = "src/a.hpp\n  x > 1: true\n    Cannot be.\n  y: both, by chance\n    Threads.\n"

    def setUp(self):
        spec = importlib.util.spec_from_file_location("coverage_of_branches", TOOLS / "coverage.py")
        self.tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.tool)
        self.texts = {("src/a.hpp", 1): "x > 1", ("src/a.hpp", 2): "y", ("src/b.hpp", 1): "NVM_ASSERT(z)",
                      ("src/b.hpp", 2): "w"}
        self.texts |= {("src/b.hpp", n): f"plain {n}" for n in range(3, 103)}
        self.counts = {key: [100, 100] for key in self.texts}

    def judge(self, explained=""):
        by_chance = set()
        known = self.tool.explanations_in(explained, "a.txt", by_chance)
        found = self.tool.judge(self.counts, {"src/a.hpp": "part", "src/b.hpp": "part"}, known, by_chance, self.texts.get)
        return self.tool.is_good(*found), *found

    def test_what_is_taken_passes_and_assertions_do_not_count(self):
        self.counts["src/b.hpp", 1] = [100, 0]
        good, result, _, _ = self.judge()
        self.assertTrue(good)
        self.assertEqual(result, {"part": {"branches": 206, "untaken": 0, "explained": 0, "percent": 100.0}})

    def test_an_untaken_branch_has_to_be_explained(self):
        self.counts["src/a.hpp", 1] = [0, 100]
        good, _, unexplained, _ = self.judge()
        self.assertFalse(good)
        self.assertEqual(unexplained, [("src/a.hpp", 1, "x > 1", "true")])
        self.assertTrue(self.judge(self.EXPLAINED)[0])

    def test_an_explanation_of_what_is_taken_or_gone_is_found(self):
        good, _, _, stale = self.judge(self.EXPLAINED)
        self.assertFalse(good)
        self.assertEqual(stale, [("src/a.hpp", "x > 1", "true")])
        self.counts["src/a.hpp", 1] = [0, 100]
        del self.counts["src/a.hpp", 2]
        self.assertEqual(self.judge(self.EXPLAINED)[3], [("src/a.hpp", "y", "both")])

    def test_too_many_are_not_good_though_each_is_explained(self):
        for n in range(3, 9):
            self.counts["src/b.hpp", n] = [0, 100]
        explained = "src/b.hpp\n" + "".join(f"  plain {n}: true\n    Because.\n" for n in range(3, 9))
        good, result, unexplained, stale = self.judge(explained)
        self.assertEqual((good, unexplained, stale), (False, [], []))
        self.assertEqual(result["part"]["percent"], 97.09)

    def test_a_file_of_explanations_that_cannot_be_read_is_an_error(self):
        for text in ("    A reason.\n", "  x: true\n    No file.\n", "src/a.hpp\n  x: perhaps\n    Why.\n",
                     "src/a.hpp\n  x: true\n"):
            with self.assertRaises(SystemExit, msg=text):
                self.judge(text)


if __name__ == "__main__":
    unittest.main()
