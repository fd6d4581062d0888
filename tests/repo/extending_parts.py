"""The parts that extending_test.py adds to a copy of the tree: for each section of docs/extending.md that lists files,
the changes to exactly these files, the files that are written besides, and what shows that a part is there.

Each part is a copy of one that is there, under another name.
"""

import dataclasses
import re


@dataclasses.dataclass
class Part:
    section: str  # how the page's heading begins
    # One for each list of the section that the part needs, in the page's order: {file: [(before, after)]}.
    changes: list
    # {file: text}, or {file: (file to copy, function that makes the text of its text)}.
    written: dict = dataclasses.field(default_factory=dict)
    judged: tuple = ()  # sources that must compile, changed ones and ones that see what is changed
    probe: tuple = ()  # of a source that must compile: the folder whose options it is compiled with, and its text
    tests: tuple = ()  # names of tests that there must be
    sources: tuple = ()  # (folder of the build, source that must be among those it compiles)


LAST_ROW = '    {NVM_ENGINE_LOG, "log", log_kind::none, true},\n'

LOG_TABLE = """
#include "pool/log_table.hpp"
struct row {
  nvm::log_kind kind;
};
constexpr nvm::log_table<row> table{{{
    {nvm::log_kind::lanes}, {nvm::log_kind::rings}, {nvm::log_kind::new_words}, {nvm::log_kind::old_words},
    {nvm::log_kind::dummy_lanes}, {nvm::log_kind::none},
}}};
static_assert(table[nvm::log_kind::dummy_lanes].kind == nvm::log_kind::dummy_lanes);
"""

# A copy of undo, with a log of its own that is a copy as well.
ENGINE = Part(
    "## An engine",
    [{
        "include/nvm/nvm.h": [("  NVM_ENGINE_LOG = 5\n", "  NVM_ENGINE_LOG = 5,\n  NVM_ENGINE_DUMMY = 6\n")],
        "src/pool/engines.hpp": [
            ("std::array<engine_row, 5>", "std::array<engine_row, 6>"),
            (LAST_ROW, LAST_ROW + '    {NVM_ENGINE_DUMMY, "dummy", log_kind::lanes, true},\n'),
            ("5 (log)", "5 (log), 6 (dummy)"),
            ("0, 2 or 5 on ssd", "0, 2, 5 or 6 on ssd"),
        ],
        "src/engine/direct.cpp": [
            ("mnemosyne_undo, log}", "mnemosyne_undo, log, dummy}"),
            ("started log(const start_request& r)", """started dummy(const start_request& r) {
  const unsigned lanes = r.file.geometry().lane_count;
  if (!r.measured) return start_dummy(r.with, r.file, lanes);
  return start_dummy(make_measured_stack(r.with, r.emulated), r.file, lanes);
}
started log(const start_request& r)"""),
        ],
    }, {
        "src/pool/engines.hpp": [
            ("  none,       // the log", "  dummy_lanes,\n  none,       // the log"),
            ('"dummy", log_kind::lanes', '"dummy", log_kind::dummy_lanes'),
            ("return log != log_kind::lanes; }", "return log != log_kind::lanes && log != log_kind::dummy_lanes; }"),
            ("return log != log_kind::lanes && log != log_kind::none; }",
             "return log != log_kind::lanes && log != log_kind::dummy_lanes && log != log_kind::none; }"),
        ],
        "src/engine/recover_image.cpp": [
            ("    {log_kind::none, ", "    {log_kind::dummy_lanes, recover_lanes},\n    {log_kind::none, "),
        ],
        "src/care/check.cpp": [
            ("    {log_kind::none, ", "    {log_kind::dummy_lanes, check_lanes},\n    {log_kind::none, "),
        ],
        "src/care/repair_image.cpp": [
            ("      {log_kind::none, ", "      {log_kind::dummy_lanes, &repair_image::settle_lanes},\n      {log_kind::none, "),
        ],
        "src/care/references_in_image.cpp": [
            ("    {log_kind::none, ", "    {log_kind::dummy_lanes, true},\n    {log_kind::none, "),
        ],
        "src/crash_test/runtime/recorded_pool.cpp": [
            ("    {log_kind::none, ", "    {log_kind::dummy_lanes, nullptr},\n    {log_kind::none, "),
        ],
        "src/engine/direct_engines.hpp": [
            ("[[nodiscard]] started start_undo(isa::write_back with, pool_file& file, unsigned lanes);",
             """[[nodiscard]] started start_undo(isa::write_back with, pool_file& file, unsigned lanes);
[[nodiscard]] started start_dummy(isa::write_back with, pool_file& file, unsigned lanes);
[[nodiscard]] started start_dummy(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes);"""),
        ],
        "src/engine/direct_as_any.cpp": [
            ("started start_redo(", """started start_dummy(isa::write_back with, pool_file& file, unsigned lanes) {
  return start_dummy(plainly(with), file, lanes);
}
started start_redo("""),
        ],
        "src/engine/CMakeLists.txt": [
            ("set(over_any baselines_any.cpp ", "set(over_any baselines_any.cpp dummy_any.cpp "),
            ("set(over_direct baselines_direct.cpp ", "set(over_direct baselines_direct.cpp dummy_direct.cpp "),
        ],
        "tests/crash/whole_pool.cpp": [
            ("    case log_kind::lanes:\n", "    case log_kind::dummy_lanes:\n    case log_kind::lanes:\n"),
        ],
    }],
    written={f"src/engine/dummy_{on}.cpp": (f"src/engine/undo_{on}.cpp",
                                            lambda text: text.replace("start_undo", "start_dummy"))
             for on in ("any", "direct")},
    judged=("src/engine/direct.cpp", "src/engine/recover_image.cpp"),
    sources=(("src/engine", "src/engine/dummy_any.cpp"),),
    probe=("src/pool", LOG_TABLE + """
#include <string_view>
static_assert(nvm::is_engine(NVM_ENGINE_DUMMY) && nvm::engine_of(NVM_ENGINE_DUMMY).on_ssd);
static_assert(std::string_view{nvm::engine_name(NVM_ENGINE_DUMMY)} == "dummy");
"""))

# A copy of the list.
STRUCTURE = Part(
    "## A lock-free structure",
    [{
        "include/nvm/lockfree.h": [("  NVM_LF_TREE = 4 ", "  NVM_LF_DUMMY = 5,\n  NVM_LF_TREE = 4 ")],
        "src/lockfree/lockfree_layout.hpp": [
            ("tree = 4 };", "tree = 4, dummy = 5 };"),
            ("last_kind = kind::tree;", "last_kind = kind::dummy;"),
        ],
        "src/lockfree/shapes.hpp": [
            ('#include "lockfree/hash_table.hpp"\n', '#include "lockfree/dummy.hpp"\n#include "lockfree/hash_table.hpp"\n'),
            ("using shape_rows = ", """struct dummy_row {
  static constexpr layout::kind kind = layout::kind::dummy;
  static constexpr const char* name = "dummy";
  template <class Memory, class Nodes>
  using shape = dummy<Memory, Nodes>;
};
using shape_rows = """),
            ("skip_list_row, tree_row>;", "skip_list_row, tree_row, dummy_row>;"),
        ],
    }, {
        "src/care/structure_nodes.hpp": [
            ('#include "lockfree/hash_table.hpp"\n', '#include "lockfree/dummy.hpp"\n#include "lockfree/hash_table.hpp"\n'),
        ],
        "src/care/structure_reader.cpp": [
            ("  if (format_.is_tree()) {\n    expect(", """  if (format_.kind == lockfree::layout::kind::dummy) expect(lockfree::dummy_magic, "it is no root of a dummy");
  if (format_.is_tree()) {
    expect("""),
        ],
        "src/care/structure_links.cpp": [
            ("    case lockfree::layout::kind::hash:\n      return follow_cells();", """    case lockfree::layout::kind::dummy:
      return follow_chain(about_.root + offsetof(lockfree::dummy_root, first), 0);
    case lockfree::layout::kind::hash:
      return follow_cells();"""),
            ("  std::uint64_t i = order >> (64 - all_bits_);\n", """  if (format_.kind == lockfree::layout::kind::dummy) return about_.root + offsetof(lockfree::dummy_root, first);
  std::uint64_t i = order >> (64 - all_bits_);
"""),
        ],
        "src/care/structure_entries.cpp": [
            ("  if (about_.root != 0 && format_.kind == lockfree::layout::kind::list) {",
             """  if (about_.root != 0 && format_.kind == lockfree::layout::kind::dummy) {
    add(format_.word(about_.root + offsetof(lockfree::dummy_root, first)));
  }
  if (about_.root != 0 && format_.kind == lockfree::layout::kind::list) {"""),
            ("format_.is_sealed && format_.kind != lockfree::layout::kind::list;",
             "format_.is_sealed && format_.kind != lockfree::layout::kind::list &&\n"
             "                          format_.kind != lockfree::layout::kind::dummy;"),
        ],
        "src/care/mend_catalogue.cpp": [
            ("    if (magic == lockfree::hash_magic) return", "    if (magic == lockfree::dummy_magic) return lf::kind::dummy;\n"
             "    if (magic == lockfree::hash_magic) return"),
        ],
    }],
    written={"src/lockfree/dummy.hpp": ("src/lockfree/list.hpp", lambda text: re.sub(
        r"\blist(?=[<(]| :|_root|_magic)", "dummy", text.replace("0x5453'494C", "0x594D'5544")))},
    judged=("src/care/structure_links.cpp",),
    probe=("src/engine", """
#include "lockfree/lockfree.hpp"
#include "lockfree/shapes.hpp"
#include "media/media.hpp"
namespace nvm::lockfree {
template class dummy<node_memory<direct_media>, word_nodes>;
template class dummy<node_memory<direct_media>, byte_nodes>;
template class dummy<sealed_memory<direct_media, sealed_words>, sealed_words>;
static_assert(std::is_same_v<std::tuple_element_t<4, shape_rows>::shape<node_memory<direct_media>, word_nodes>,
                             dummy<node_memory<direct_media>, word_nodes>>);
}
"""))

# A copy of the list, with keys in the same order.
INDEX = Part(
    "## An index",
    [{
        "include/nvm/kv.h": [("  NVM_KV_RBTREE = 4,", "  NVM_KV_DUMMY = 6,\n  NVM_KV_RBTREE = 4,")],
        "src/kv/kv_layout.hpp": [
            ("regions = 5 };", "regions = 5, dummy = 6 };"),
            ("kv_last_index = kv_index::regions;", "kv_last_index = kv_index::dummy;"),
        ],
        "src/kv/calls.cpp": [
            ("              NVM_KV_RBTREE ==", "              NVM_KV_DUMMY == static_cast<int>(keyed::kv_index::dummy) &&\n"
             "              NVM_KV_RBTREE =="),
        ],
        "src/kv/operations.hpp": [('#include "kv/hash', '#include "kv/dummy.hpp"\n#include "kv/hash')],
        "src/kv/operations.cpp": [
            ('    case kv_index::rbtree:\n      return "rbtree";',
             '    case kv_index::rbtree:\n      return "rbtree";\n    case kv_index::dummy:\n      return "dummy";'),
            *((f"    case kv_index::rbtree:\n      return rbtree::{call};",
               f"    case kv_index::rbtree:\n      return rbtree::{call};\n    case kv_index::dummy:\n      return dummy::{own};")
              for call, own in (("put(op, k, value)", "put(op, k, value, put_mode::any)"),
                                ("remove(op, k, removed)", "remove(op, k, removed)"),
                                ("fetch(op, from, to, ended)", "fetch(op, from, to, ended)"))),
            ("      return rbtree::find(op, k, out);", """      return rbtree::find(op, k, out);
    case kv_index::dummy: {
      dummy::found f;
      const status s = dummy::find(op, k, f);
      out = f.r;
      return s;
    }"""),
        ],
        "src/kv/inspect.cpp": [("    case kv_index::list:\n      walk_list();",
                                "    case kv_index::dummy:\n    case kv_index::list:\n      walk_list();")],
        "src/kv/salvage.cpp": [
            ("std::array<kv_index, 4> indexes{", "std::array<kv_index, 5> indexes{kv_index::dummy, "),
            ("} else if (facts_.index == kv_index::list) {",
             "} else if (facts_.index == kv_index::list || facts_.index == kv_index::dummy) {"),
        ],
        "src/care/mend_stores.cpp": [
            ("if (d.facts.index == keyed::kv_index::list) std::reverse",
             "if (d.facts.index == keyed::kv_index::list || d.facts.index == keyed::kv_index::dummy)\n"
             "      std::reverse"),
        ],
        "src/cli/kv.cpp": [('"rbtree", "regions"};', '"rbtree", "regions", "dummy"};')],
    }],
    written={"src/kv/dummy.hpp": ("src/kv/list.hpp", lambda text: text.replace("keyed::list", "keyed::dummy"))},
    judged=("src/kv/operations.cpp", "src/kv/inspect.cpp"))

# A copy of auto that is found by nobody: it has to be asked for.
MEDIUM = Part(
    "## A medium",
    [{
        "include/nvm/nvm.h": [("  NVM_MEDIUM_SSD = 4 ", "  NVM_MEDIUM_DUMMY = 5,\n  NVM_MEDIUM_SSD = 4 ")],
        "src/pool/superblock.hpp": [("last_medium = NVM_MEDIUM_SSD;", "last_medium = NVM_MEDIUM_DUMMY;")],
        "src/pool/superblock.cpp": [
            ('      return "auto";', '      return "auto";\n    case NVM_MEDIUM_DUMMY:\n      return "dummy";'),
            ('sb.medium, "1 .. 4")', 'sb.medium, "1 .. 5")'),
        ],
        "src/pool/pool_file.cpp": [("medium_ == NVM_MEDIUM_SHM || ",
                                    "medium_ == NVM_MEDIUM_SHM || medium_ == NVM_MEDIUM_DUMMY ||\n                         ")],
        "src/engine/media_stacks.hpp": [(": medium == NVM_MEDIUM_AUTO ? isa::write_back::fence_only",
                                         ": medium == NVM_MEDIUM_AUTO || medium == NVM_MEDIUM_DUMMY ? "
                                         "isa::write_back::fence_only")],
        "src/server/durable_store.cpp": [('  if (s.medium == "dax")',
                                          '  if (s.medium == "dummy") return NVM_MEDIUM_DUMMY;\n  if (s.medium == "dax")')],
        "src/cli/diagnosis.cpp": [("    case NVM_MEDIUM_DAX:\n      d.power =", """    case NVM_MEDIUM_DUMMY:
      d.power = {verdict::unknown, "nobody knows"};
      break;
    case NVM_MEDIUM_DAX:
      d.power =""")],
    }],
    judged=("src/pool/superblock.cpp", "src/pool/pool_file.cpp"))  # media_stacks.hpp is judged with the engine's sources

# Says nothing.
VERB = Part(
    "## A verb",
    [{
        "src/cli/commands.cpp": [
            ("extern const command info_command;", "extern const command dummy_command;\nextern const command info_command;"),
            ("    &create_command, ", "    &create_command, &dummy_command, "),
        ],
        "src/cli/CMakeLists.txt": [("    dump.cpp\n", "    dummy.cpp\n    dump.cpp\n")],
        "tests/cli/CMakeLists.txt": [("foreach(subject pools ", "foreach(subject dummy pools ")],
    }],
    written={
        "src/cli/dummy.cpp": ("src/cli/version.cpp", lambda text: re.sub(r"version(?=_verb|_command)", "dummy", text)
                              .replace('.name = "version"', '.name = "dummy"')),
        "tests/cli/dummy_test.py": "",
    },
    judged=("src/cli/dummy.cpp", "src/cli/commands.cpp"),
    tests=("cli_dummy",),
    sources=(("src/cli", "src/cli/dummy.cpp"),))

# Two words of which the second says that the first is there.
SUBJECT = Part(
    "## A subject",
    [{"tests/crash/CMakeLists.txt": [("  holdfast_crash_test(tx_crash_test)\n",
                                      "  holdfast_crash_test(tx_crash_test)\n  holdfast_crash_test(dummy_test)\n")]}],
    written={"tests/crash/dummy_test.cpp": r"""
#include <gtest/gtest.h>

#include "explore/explore.hpp"

namespace nvm::explore {
namespace {

subject two_words() {
  subject s;
  s.name = "two words";
  s.image.resize(128);
  s.run = [](machine& m) {
    auto* words = reinterpret_cast<std::uint64_t*>(m.base());
    m.op_begin();
    words[0] = 7;
    m.media().flush(words, 8);
    m.media().fence(edge{"dummy/E1"});
    words[8] = 1;
    m.media().flush(words + 8, 8);
    m.media().fence(edge{"dummy/E2"});
    m.op_end();
  };
  s.recover = [](machine&) { return pass(); };
  s.oracle = [](machine& m, const window&) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(m.base());
    return words[8] == 0 || words[0] == 7 ? pass() : fault("the second word is there without the first");
  };
  return s;
}

TEST(dummy, needs_its_fence) {
  EXPECT_TRUE(explore(two_words()).clean());
  EXPECT_TRUE(explore(two_words(), {}, without(edge{"dummy/E1"})).finds_violation());
}

}  // namespace
}  // namespace nvm::explore
"""},
    judged=("tests/crash/dummy_test.cpp",),
    tests=("dummy_test",))

PARTS = (ENGINE, STRUCTURE, INDEX, MEDIUM, VERB, SUBJECT)


def add(part, tree):
    """Changes the copy of the tree; fails where a change does not fit what is there."""
    for files in part.changes:
        for name, changes in files.items():
            text = (tree / name).read_text()
            for before, after in changes:
                assert text.count(before) == 1, f"{name}: {text.count(before)} times {before!r}"
                text = text.replace(before, after)
            (tree / name).write_text(text)
    for name, text in part.written.items():
        if not isinstance(text, str):
            source, make = text
            text = make((tree / source).read_text())
        assert not (tree / name).exists(), name
        (tree / name).write_text(text)
