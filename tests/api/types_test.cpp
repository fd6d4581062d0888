// Types of a program and of a pool, from open to open.  Each program is a process of its own, since a process never
// forgets a type.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "../object/sample_types.hpp"
#include "../sanitized.hpp"
#include "nvm/describe.h"
#include "programs.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

constexpr std::uint32_t node_id = 0x71C14E0D;

std::string names_in(NVM_POOL* pool) {
  std::string names;
  if (nvm_pool_each_type(
          pool,
          [](const nvm_type_info* t, void* all) {
            *static_cast<std::string*>(all) += std::string{t->name} + ":" + std::to_string(t->size) + " ";
            return 0;
          },
          &names) != 0) {
    return nvm_errormsg();
  }
  return names;
}
std::string allocate(NVM_POOL* pool, std::uint32_t type, std::size_t bytes) {
  if (nvm_tx_begin(pool) != 0 || nvm_alloc(pool, type, bytes) == nullptr || nvm_tx_commit(pool) != 0) {
    return nvm_errormsg();
  }
  return "";
}
type_description longer_node() {
  auto t = node_type();
  t.size = 48;
  t.fields[1].place.count = 40;
  return t;
}
type_description renamed_node() {
  auto t = node_type();
  t.fields[1].name = "text";
  return t;
}

class types : public testing::TestWithParam<pool_kind> {
 protected:
  scratch dir{GetParam()};
  const std::string path = dir.path();

  // Opens, uses, closes; `use` may be empty.
  std::string opened(const std::function<std::string(NVM_POOL*)>& use, nvm_types how = NVM_TYPES_CHECK) const {
    nvm_pool_options o{};
    o.types = how;
    NVM_POOL* p = nvm_pool_open_with(path.c_str(), &o);
    if (p == nullptr) return std::string{nvm_error_name(nvm_errno())} + ": " + nvm_errormsg();
    std::string wrong = use ? use(p) : "";
    if (nvm_pool_close(p) != 0 && wrong.empty()) wrong = nvm_errormsg();
    return wrong.empty() ? check(path) : wrong;
  }
  void created() {
    as_program({node_type()}, [&] {
      NVM_POOL* p = dir.create();
      const std::string wrong = allocate(p, node_id, 40);
      return nvm_pool_close(p) != 0 ? nvm_errormsg() : wrong;
    });
  }
  [[nodiscard]] std::string refused_with(const std::string& text) const {
    const std::string wrong = opened({});
    return wrong.find(text) == std::string::npos ? "expected a refusal with '" + text + "', found '" + wrong + "'" : "";
  }
};
INSTANTIATE_TEST_SUITE_P(media, types, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(types, of_a_program_are_in_the_pools_that_it_creates) {
  created();
  as_program({}, [&] { return opened([](NVM_POOL* p) { return equal(names_in(p), "node:40 "); }); });
}

TEST_P(types, that_are_new_are_added_and_none_is_lost) {
  created();
  as_program({table_type()}, [&] { return opened({}); });
  as_program({}, [&] { return opened([](NVM_POOL* p) { return equal(names_in(p), "table:72 node:40 "); }); });
}

TEST_P(types, tell_their_fields) {
  created();
  as_program({table_type()}, [&] {
    return opened([](NVM_POOL* p) {
      std::string all;
      (void)nvm_pool_each_type(
          p,
          [](const nvm_type_info* t, void* to) {
            for (std::uint32_t i = 0; i < t->field_count; ++i) {
              const nvm_field_info& f = t->fields[i];
              char line[128];
              std::snprintf(line, sizeof line, "%s %lu %lu*%lu %u %x %u\n", f.name, f.offset, f.bytes, f.count, f.kind,
                            f.target, f.inner);
              *static_cast<std::string*>(to) += line;
            }
            return std::strcmp(t->name, "table") == 0 ? 1 : 0;
          },
          &all);
      return equal(all,
                   "n 0 4*1 2 0 0\n"
                   "slots 8 16*4 9 0 2\n"
                   "slots.first 0 8*1 6 71c14e0d 0\n"
                   "slots.weight 8 8*1 5 0 0\n"
                   "more 72 8*0 6 0 0\n");
    });
  });
}

TEST_P(types, that_the_pool_has_cost_no_transaction) {
  created();
  as_program({node_type()}, [&] {
    return opened([](NVM_POOL* p) {
      nvm_statistics s{};
      (void)nvm_pool_get_statistics(p, &s);
      return equal(std::to_string(s.commits), "0");
    });
  });
}

TEST_P(types, with_another_layout_are_refused_with_both) {
  created();
  as_program({longer_node()}, [&] {
    std::string wrong = refused_with(
        "NVM_E_TYPE_MISMATCH: " + path +
        " holds objects of a type that has another layout in this program: found node: 40 bytes {next: pointer at 0, "
        "data: 32 char at 8}, expected node: 48 bytes {next: pointer at 0, data: 40 char at 8}");
    if (wrong.empty()) wrong = equal(nvm_error_name(nvm_errno()), "NVM_E_TYPE_MISMATCH");
    return wrong.empty() ? check(path) : wrong;
  });
  as_program({node_type()}, [&] { return opened([](NVM_POOL* p) { return equal(names_in(p), "node:40 "); }); });
}

TEST_P(types, with_another_layout_are_refused_to_readers_too) {
  created();
  as_program({longer_node()}, [&]() -> std::string {
    nvm_pool_options o{};
    o.read_only = 1;
    if (nvm_pool_open_with(path.c_str(), &o) != nullptr) return "opened";
    return equal(nvm_error_name(nvm_errno()), "NVM_E_TYPE_MISMATCH");
  });
}

TEST_P(types, with_another_layout_are_accepted_on_request) {
  created();
  as_program({longer_node()},
             [&] { return opened([](NVM_POOL* p) { return equal(names_in(p), "node:48 "); }, NVM_TYPES_ACCEPT); });
  as_program({node_type()}, [&] { return refused_with("found node: 48 bytes"); });
}

TEST_P(types, are_left_alone_on_request) {
  created();
  as_program({longer_node(), table_type()},
             [&] { return opened([](NVM_POOL* p) { return equal(names_in(p), "node:40 "); }, NVM_TYPES_IGNORE); });
}

TEST_P(types, without_objects_may_change) {
  as_program({node_type()}, [&] { return nvm_pool_close(dir.create()) == 0 ? "" : nvm_errormsg(); });
  as_program({longer_node()}, [&] { return opened([](NVM_POOL* p) { return equal(names_in(p), "node:48 "); }); });
}

TEST_P(types, may_not_change_while_there_are_objects_that_no_map_explains) {
  as_program({node_type()}, [&] {
    NVM_POOL* p = dir.create();
    const std::string wrong = allocate(p, 1, 40);
    return nvm_pool_close(p) != 0 ? nvm_errormsg() : wrong;
  });
  as_program({longer_node()}, [&] { return refused_with("NVM_E_TYPE_MISMATCH"); });
}

TEST_P(types, with_new_names_of_fields_replace_the_old_ones) {
  created();
  as_program({renamed_node()}, [&] { return opened({}); });
  as_program({}, [&] {
    return opened([](NVM_POOL* p) -> std::string {
      std::string name;
      (void)nvm_pool_each_type(
          p, [](const nvm_type_info* t, void* to) { return *static_cast<std::string*>(to) = t->fields[1].name, 0; },
          &name);
      return equal(name, "text");
    });
  });
}

TEST_P(types, of_a_library_that_comes_later_are_there_with_the_next_transaction) {
  created();
  as_program({}, [&] {
    return opened([](NVM_POOL* p) -> std::string {
      type_map_writer w;
      w.add(table_type());
      const auto words = w.finish();
      if (nvm_register_types(words.data(), words.size() * 8) != 0) return nvm_errormsg();
      if (std::string wrong = allocate(p, 1, 8); !wrong.empty()) return wrong;
      return equal(names_in(p), "table:72 node:40 ");
    });
  });
}

TEST_P(types, of_a_library_that_contradict_the_pool_stop_transactions) {
  created();
  as_program({}, [&] {
    return opened([](NVM_POOL* p) -> std::string {
      type_map_writer w;
      w.add(longer_node());
      const auto words = w.finish();
      if (nvm_register_types(words.data(), words.size() * 8) != 0) return nvm_errormsg();
      if (nvm_tx_begin(p) == 0) return "began";
      return equal(nvm_error_name(nvm_errno()), "NVM_E_TYPE_MISMATCH");
    });
  });
}

TEST_P(types, that_contradict_each_other_in_one_program_open_nothing) {
  created();
  as_program({node_type()}, [&]() -> std::string {
    type_map_writer w;
    w.add(longer_node());
    const auto words = w.finish();
    if (nvm_register_types(words.data(), words.size() * 8) == 0) return "registered";
    if (nvm_errno() != NVM_E_TYPE_MISMATCH) return nvm_errormsg();
    std::string wrong = refused_with("type id 0x71c14e0d has two meanings in this program: node: 40 bytes");
    if (nvm_pool_create(dir.path("new").c_str(), 1 << 20) != nullptr) return "created";
    if (::access(dir.path("new").c_str(), F_OK) == 0) return "the file of the failed creation is still there";
    return wrong.empty() ? opened({}, NVM_TYPES_IGNORE) : wrong;
  });
}

TEST_P(types, do_not_keep_a_full_pool_from_opening) {
  as_program({}, [&]() -> std::string {
    nvm_pool_options o{};
    o.size = o.capacity = 1 << 20;
    choose(o, GetParam());
    NVM_POOL* p = nvm_pool_create_with(path.c_str(), &o);
    if (p == nullptr) return nvm_errormsg();
    for (std::size_t bytes = 65536; bytes >= 4096; bytes /= 2) {
      // What is full is the pool, or the log, which only the commit finds out.
      while (nvm_tx_begin(p) == 0 && nvm_alloc(p, 1, bytes) != nullptr && nvm_tx_commit(p) == 0) {
      }
      if (nvm_tx_depth(p) != 0) (void)nvm_tx_abort(p);
    }
    return nvm_pool_close(p) == 0 ? "" : nvm_errormsg();
  });
  as_program({node_type()}, [&] { return opened([](NVM_POOL* p) { return equal(names_in(p), ""); }); });
}

TEST_P(types, that_are_none_are_refused) {
  as_program({}, []() -> std::string {
    const std::uint64_t words[8] = {layout::type_map_magic};
    if (nvm_register_types(words, sizeof words) == 0) return "registered";
    if (nvm_errno() != NVM_E_CORRUPT) return nvm_errormsg();
    if (nvm_register_types(nullptr, 8) == 0) return "registered nothing";
    return equal(names_in(nullptr), "");
  });
}

TEST_P(types, of_the_program_are_told_without_a_pool) {
  as_program({node_type(), table_type()}, [] { return equal(names_in(nullptr), "table:72 node:40 "); });
}

std::string undescribed_in(NVM_POOL* pool) {
  std::string all;
  const int ended = nvm_pool_each_undescribed(
      pool,
      [](std::uint32_t type, std::uint64_t objects, std::uint32_t visitor_of, void* to) {
        *static_cast<std::string*>(to) +=
            std::to_string(type) + ":" + std::to_string(objects) + ":" + std::to_string(visitor_of) + " ";
        return 0;
      },
      &all);
  return ended == 0 ? all : nvm_errormsg();
}
std::string opened_as(const std::string& path, nvm_untyped untyped, std::uint32_t read_only, const char* expected) {
  nvm_pool_options o{};
  o.untyped = untyped;
  o.read_only = read_only;
  NVM_POOL* p = nvm_pool_open_with(path.c_str(), &o);
  if (p == nullptr) return nvm_errormsg();
  const std::string wrong = equal(undescribed_in(p), expected);
  return nvm_pool_close(p) == 0 ? wrong : nvm_errormsg();
}

TEST_P(types, of_objects_that_nobody_describes_are_told_unless_these_are_bytes) {
  as_program({node_type()}, [&] {
    NVM_POOL* p = dir.create();
    std::string wrong = allocate(p, node_id, 40) + allocate(p, 7, 24) + allocate(p, 0, 24) + allocate(p, 7, 8000);
    if (nvm_tx_begin(p) != 0 || nvm_strdup(p, "text") == nullptr) return std::string{nvm_errormsg()};
    wrong += equal(undescribed_in(p), path + ": objects cannot be walked while a transaction is open");
    if (nvm_tx_commit(p) != 0) return std::string{nvm_errormsg()};
    wrong += equal(undescribed_in(p), "0:1:0 7:2:0 ");
    return nvm_pool_close(p) != 0 ? nvm_errormsg() : wrong;
  });
  as_program({}, [&] { return opened_as(path, NVM_UNTYPED_REFUSE, 0, "0:1:0 7:2:0 "); });
  as_program({}, [&] { return opened_as(path, NVM_UNTYPED_BYTES, 1, ""); });
  as_program({}, [&] { return opened_as(path, NVM_UNTYPED_REFUSE, 1, "0:1:0 7:2:0 "); });
  as_program({}, [&] { return opened_as(path, NVM_UNTYPED_BYTES, 0, ""); });
  as_program({}, [&] { return opened_as(path, NVM_UNTYPED_REFUSE, 1, ""); });
  as_program({}, [&] { return opened([](NVM_POOL* p) { return equal(undescribed_in(p), ""); }); });
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_inspect(path.c_str(), &info), 0) << nvm_errormsg();
  EXPECT_EQ(info.untyped, NVM_UNTYPED_BYTES);
}

TEST_P(types, with_visitors_need_a_program_that_has_them) {
  type_description t{"visited", 16, 8, {field("v", 0, layout::field_kind::by_visitor, 16, 1, 99)}};
  const std::string lacking = std::to_string(layout::type_id_of("visited")) + ":1:99 ";
  as_program({t}, [&] {
    NVM_POOL* p = dir.create();
    std::string wrong = allocate(p, layout::type_id_of("visited"), 16);
    wrong += equal(undescribed_in(p), lacking);
    if (nvm_register_visitor(99, [](const void*, nvm_visit*) {}) != 0) wrong += nvm_errormsg();
    wrong += equal(undescribed_in(p), "");
    return nvm_pool_close(p) != 0 ? nvm_errormsg() : wrong;
  });
  as_program({}, [&] { return opened_as(path, NVM_UNTYPED_BYTES, 1, lacking.c_str()); });
  as_program({}, []() -> std::string {
    return nvm_register_visitor(99, nullptr) == -1 && nvm_errno() == NVM_E_INVALID ? "" : "registered nothing";
  });
}

TEST_P(types, that_are_described_in_data_are_those_of_the_pool) {
  as_program({}, [&]() -> std::string {
    const nvm_field_description fields[] = {{"next", 0, 8, 1, NVM_FIELD_POINTER, 0, "struct node", nullptr},
                                            {"data", 8, 1, 32, NVM_FIELD_CHAR, 0, nullptr, nullptr}};
    const nvm_type_description node{"node", 40, 8, 2, fields};
    if (nvm_describe_type(&node) != 0) return nvm_errormsg();
    NVM_POOL* p = dir.create();
    const std::string wrong = allocate(p, node_id, 40) + equal(names_in(p), "node:40 ");
    return nvm_pool_close(p) != 0 ? nvm_errormsg() : wrong;
  });
  as_program({node_type()}, [&] { return opened({}); });
  as_program({}, [&]() -> std::string {
    const nvm_field_description fields[] = {{"next", 4, 8, 1, NVM_FIELD_POINTER, 0, nullptr, nullptr}};
    const nvm_type_description node{"node", 8, 8, 1, fields};
    if (nvm_describe_type(&node) != -1 || nvm_errno() != NVM_E_CORRUPT) return "described";
    return refused_with("the description of node: type map: number of elements");
  });
}

// Damage to each byte of the stored map is found by the check and by whoever has types; without types it is in nobody's
// way.
TEST_P(types, that_are_damaged_in_the_pool_are_found) {
  created();
  std::FILE* f = std::fopen(path.c_str(), "r+b");
  ASSERT_NE(f, nullptr);
  std::string bytes(std::filesystem::file_size(path), '\0');
  ASSERT_EQ(std::fread(bytes.data(), 1, bytes.size(), f), bytes.size());
  const std::size_t at = bytes.rfind("HTYPEMAP");  // the last one is the pool's, those before are the log's
  ASSERT_NE(at, std::string::npos);
  std::fseek(f, static_cast<long>(at + 40), SEEK_SET);
  std::fputc(bytes[at + 40] ^ 1, f);
  std::fclose(f);
  const char* finding = is_log(GetParam()) ? "log: found a block of version" : "type map: checksum";
  EXPECT_NE(check(path).find(finding), std::string::npos) << check(path);
  as_program({node_type()}, [&]() -> std::string {
    if (nvm_pool_open(path.c_str()) != nullptr) return "opened";
    return equal(nvm_error_name(nvm_errno()), "NVM_E_CORRUPT");
  });
  as_program({}, [&]() -> std::string {
    NVM_POOL* p = nvm_pool_open(path.c_str());
    if (p == nullptr) return nvm_errormsg();
    const std::string wrong = allocate(p, node_id, 40);
    if (nvm_pool_each_type(p, [](const nvm_type_info*, void*) { return 0; }, nullptr) != -1) return "read";
    return nvm_pool_close(p) == 0 ? wrong : nvm_errormsg();
  });
}

}  // namespace
}  // namespace nvm::tests
