// Pools that open at other addresses: contents that the program finds, reports that it gets, and refusals.
//
// Two processes are two opens: types that are registered stay known, which is what a program of these types has.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "../object/sample_types.hpp"
#include "../sanitized.hpp"
#include "nvm/describe.h"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "scratch.hpp"
#include "space/aligned_layout.hpp"

namespace nvm::tests {
namespace {

struct node {
  node* next;
  char data[32];
};
struct table {
  unsigned n;
  struct slot {
    node* first;
    double weight;
  } slots[4];
  void* more[];
};
struct [[gnu::packed]] odd {
  char tag;
  odd* to;
  void* next;
  char more;
};
static_assert(sizeof(node) == 40 && sizeof(table) == 72 && sizeof(odd) == 18);
constexpr std::uint32_t node_id = layout::type_id_of("node");
constexpr std::uint32_t table_id = layout::type_id_of("table");
constexpr std::uint32_t odd_id = layout::type_id_of("odd");

// As a program that was compiled with the plugin.
void know_types() {
  static const int known = [] {
    type_map_writer w;
    for (const type_description& t : {node_type(), table_type(), odd_type()}) w.add(t);
    const auto words = w.finish();
    return nvm_register_types(words.data(), words.size() * 8);
  }();
  ASSERT_EQ(known, 0) << nvm_errormsg();
}

constexpr unsigned nodes = 500;
// A ring of nodes, and a table with pointers into it.
void fill(NVM_POOL* pool) {
  ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
  auto* const t = static_cast<table*>(nvm_alloc(pool, table_id, sizeof(table) + 4 * sizeof(void*)));
  ASSERT_NE(t, nullptr) << nvm_errormsg();
  std::vector<node*> all;
  for (unsigned i = 0; i < nodes; ++i) {
    all.push_back(static_cast<node*>(nvm_alloc(pool, node_id, sizeof(node))));
    ASSERT_NE(all.back(), nullptr) << nvm_errormsg();
    *all.back() = {i == 0 ? nullptr : all[i - 1], {}};
    std::snprintf(all.back()->data, sizeof all.back()->data, "%u", i);
  }
  all.front()->next = all.back();
  *t = {3, {{all[7], 1}, {nullptr, 2}, {all[9], 3}, {nullptr, 4}}};
  t->more[0] = t;
  t->more[1] = all[5]->data + 3;  // into an object
  t->more[2] = all[6] + 1;        // one past its end
  t->more[3] = nullptr;
  ASSERT_EQ(nvm_pool_set_root(pool, t), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
}
void expect_filled(NVM_POOL* pool) {
  const auto* t = static_cast<const table*>(nvm_pool_get_root(pool));
  ASSERT_NE(t, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_of(t), pool);
  EXPECT_EQ(t->more[0], t);
  EXPECT_EQ(t->slots[1].first, nullptr);
  EXPECT_EQ(t->more[3], nullptr);
  ASSERT_EQ(nvm_pool_of(t->slots[0].first), pool);
  EXPECT_STREQ(t->slots[0].first->data, "7");
  const node* at = t->slots[0].first;
  for (unsigned i = 0; i < nodes; ++i) {
    ASSERT_EQ(nvm_pool_of(at), pool) << i;
    EXPECT_EQ(std::string{at->data}, std::to_string((nodes + 7 - i) % nodes));
    if (at->data == std::string{"5"}) {
      EXPECT_EQ(t->more[1], at->data + 3);
    }
    if (at->data == std::string{"6"}) {
      EXPECT_EQ(t->more[2], at + 1);
    }
    at = at->next;
  }
  EXPECT_EQ(at, t->slots[0].first);
}

nvm_pool_info info_of(NVM_POOL* pool) {
  nvm_pool_info i{};
  EXPECT_EQ(nvm_pool_get_info(pool, &i), 0) << nvm_errormsg();
  return i;
}
nvm_relocation_report report_of(NVM_POOL* pool) {
  nvm_relocation_report r{};
  EXPECT_EQ(nvm_pool_get_relocation(pool, &r), 0) << nvm_errormsg();
  return r;
}
void expect_healthy(const std::string& path) {
  EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
}

struct relocated_kind {
  pool_kind on;
  std::uint32_t engine;
  const char* name;
};
constexpr relocated_kind relocated_kinds[] = {{pool_kind::shm, NVM_ENGINE_UNDO, "undo"},
                                              {pool_kind::shm, NVM_ENGINE_REDO, "redo"},
                                              {pool_kind::shm, NVM_ENGINE_MNEMOSYNE, "mnemosyne"},
                                              {pool_kind::shm, NVM_ENGINE_MNEMOSYNE_UNDO, "mnemosyne_undo"},
                                              {pool_kind::ssd, NVM_ENGINE_UNDO, "ssd"},
                                              {pool_kind::log, NVM_ENGINE_LOG, "log"},
                                              {pool_kind::ssd_log, NVM_ENGINE_LOG, "ssd_log"}};
// Of these plain stores in a transaction are announced, so that a test may make them.
bool stores_are_announced(const relocated_kind& k) {
  return k.engine != NVM_ENGINE_REDO && k.engine != NVM_ENGINE_MNEMOSYNE;
}

class relocation : public ::testing::TestWithParam<relocated_kind> {
 protected:
  void SetUp() override { know_types(); }
  [[nodiscard]] std::string path(const char* name = "pool") const { return place_.path(name); }
  NVM_POOL* create(const char* name = "pool", std::size_t size = std::size_t{4} << 20) {
    nvm_pool_options o{};
    o.size = size;
    choose(o, GetParam().on);
    o.engine = GetParam().engine;
    NVM_POOL* const pool = nvm_pool_create_with(path(name).c_str(), &o);
    EXPECT_NE(pool, nullptr) << nvm_errormsg();
    return pool;
  }
  NVM_POOL* open(const char* name = "pool", std::uint64_t address = 0, std::uint32_t how = 0, bool read_only = false) {
    nvm_pool_options o{};
    choose(o, GetParam().on);
    o.engine = GetParam().engine;
    o.address = address;
    o.relocation = how;
    o.read_only = read_only ? 1 : 0;
    return nvm_pool_open_with(path(name).c_str(), &o);
  }
  void expect_twists_moved_once(unsigned tellings);
  void copy(const char* from, const char* to) const { std::filesystem::copy_file(path(from), path(to)); }

 private:
  scratch place_{GetParam().on};
};
INSTANTIATE_TEST_SUITE_P(of, relocation, testing::ValuesIn(kinds_of_build(relocated_kinds)),
                         [](const auto& i) { return i.param.name; });

TEST_P(relocation, lets_two_copies_of_a_pool_be_open_at_once) {
  NVM_POOL* a = create("a");
  fill(a);
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  copy("a", "c");
  a = open("a");
  ASSERT_NE(a, nullptr) << nvm_errormsg();
  EXPECT_EQ(report_of(a).bases, 0U);
  EXPECT_EQ(open("b", 0, NVM_RELOCATE_NEVER), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_ADDRESS);
  NVM_POOL* b = open("b");
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  NVM_POOL* c = open("c");
  ASSERT_NE(c, nullptr) << nvm_errormsg();
  for (NVM_POOL* p : {a, b, c}) expect_filled(p);
  EXPECT_NE(info_of(a).base, info_of(b).base);
  EXPECT_NE(info_of(b).base, info_of(c).base);
  const nvm_relocation_report r = report_of(b);
  EXPECT_EQ(r.from, info_of(a).base);
  EXPECT_EQ(r.bases, 2U);
  EXPECT_EQ(r.objects, nodes + 1U);
  EXPECT_EQ(r.pointers, nodes + 5U);
  EXPECT_EQ(r.moved, r.pointers);
  EXPECT_EQ(r.foreign, 0U);
  const std::uint64_t second = info_of(b).base;
  for (NVM_POOL* p : {a, b, c}) ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  for (const char* name : {"a", "b", "c"}) expect_healthy(path(name));
  // It is at home there now.
  b = open("b", 0, NVM_RELOCATE_NEVER);
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  EXPECT_EQ(info_of(b).base, second);
  EXPECT_EQ(report_of(b).bases, 0U);
  expect_filled(b);
  ASSERT_EQ(nvm_pool_close(b), 0) << nvm_errormsg();
}

TEST_P(relocation, goes_where_the_caller_wants_and_back) {
  NVM_POOL* pool = create();
  fill(pool);
  const std::uint64_t home = info_of(pool).base;
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  const std::uint64_t middle = NVM_WINDOW_BASE + (std::uint64_t{1} << (NVM_WINDOW_BITS - 1));
  const std::uint64_t away =
      home < middle ? home + (middle - NVM_WINDOW_BASE) / 2 : home - (middle - NVM_WINDOW_BASE) / 2;
  for (const auto& [address, how] : {std::pair{away, NVM_RELOCATE_EAGER}, std::pair{home, NVM_RELOCATE_TRANSACTIONS},
                                     std::pair{away, NVM_RELOCATE_TRANSACTIONS}, std::pair{home, NVM_RELOCATE_EAGER},
                                     std::pair{away, NVM_RELOCATE_EAGER}}) {
    pool = open("pool", address, how);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(info_of(pool).base, address);
    EXPECT_EQ(report_of(pool).moved, nodes + 5U);
    expect_filled(pool);
    if (stores_are_announced(GetParam())) {
      auto* const t = static_cast<table*>(nvm_pool_get_root(pool));
      ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_tx_log(&t->more[3], sizeof(void*)), 0) << nvm_errormsg();
      t->more[3] = t;
      ASSERT_EQ(nvm_tx_abort(pool), 0) << nvm_errormsg();
    }
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    expect_healthy(path());
  }
  EXPECT_EQ(open("pool", away + 4096), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_ADDRESS);
  EXPECT_EQ(open("pool", home, NVM_RELOCATE_NEVER), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_ADDRESS);
  EXPECT_EQ(open("pool", 0, 77), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
}

// Where the system lets us, pages are put right when they are touched; everywhere the program sees the same.
TEST_P(relocation, lazily_shows_what_was_there_to_threads_that_touch_it_at_once) {
  NVM_POOL* a = create("a");
  fill(a);
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  a = open("a");
  ASSERT_NE(a, nullptr) << nvm_errormsg();
  NVM_POOL* b = open("b", 0, NVM_RELOCATE_LAZY);
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < 3; ++i) readers.emplace_back([b] { expect_filled(b); });
  if (stores_are_announced(GetParam())) {
    auto* const t = static_cast<table*>(nvm_pool_get_root(b));
    ASSERT_EQ(nvm_tx_begin(b), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_log(&t->slots[3].weight, sizeof(double)), 0) << nvm_errormsg();
    t->slots[3].weight = 5;
    for (unsigned i = 0; i < 100; ++i) ASSERT_NE(nvm_alloc(b, node_id, 2000), nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_abort(b), 0) << nvm_errormsg();
  }
  for (std::thread& t : readers) t.join();
  while (report_of(b).pages_left != 0 || info_of(b).base_count > 1) std::this_thread::yield();
  EXPECT_EQ(report_of(b).moved, nodes + 5U);
  EXPECT_EQ(report_of(b).objects, nodes + 1U);
  expect_filled(b);
  const std::uint64_t there = info_of(b).base;
  for (NVM_POOL* p : {a, b}) ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  for (const char* name : {"a", "b"}) expect_healthy(path(name));
  b = open("b", 0, NVM_RELOCATE_NEVER);
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  EXPECT_EQ(info_of(b).base, there);
  expect_filled(b);
  ASSERT_EQ(nvm_pool_close(b), 0) << nvm_errormsg();
}

// Closed, or killed, before all pages are right: the next open goes on, at whatever address and either way.
TEST_P(relocation, lazily_begun_is_finished_by_a_later_open) {
  NVM_POOL* pool = create();
  fill(pool);
  const std::uint64_t home = info_of(pool).base;
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  const std::uint64_t quarter = std::uint64_t{1} << (NVM_WINDOW_BITS - 2);
  const auto place = [&](unsigned i) {
    return NVM_WINDOW_BASE + (home - NVM_WINDOW_BASE + i * quarter) % (4 * quarter);
  };
  for (unsigned i = 1; i <= 3; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      NVM_POOL* const there = open("pool", place(i), NVM_RELOCATE_LAZY);
      if (there == nullptr) _exit(1);
      if (i == 2 && nvm_pool_close(there) != 0) _exit(2);
      if (i == 2) _exit(0);
      const auto* const t = static_cast<const table*>(nvm_pool_get_root(there));
      _exit(t != nullptr && std::string{t->slots[0].first->data} == "7" ? 0 : 3);
    }
    int how = 0;
    ASSERT_EQ(waitpid(child, &how, 0), child);
    ASSERT_EQ(how, 0);
    expect_healthy(path());
  }
  pool = open("pool", home, NVM_RELOCATE_LAZY);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  expect_filled(pool);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  pool = open("pool", place(2));
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  expect_filled(pool);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  expect_healthy(path());
}

// A process that ends without closing the pool leaves nothing to its threads, which may go on reading: all is right.
TEST_P(relocation, lazily_is_finished_when_the_process_ends) {
  NVM_POOL* pool = create();
  fill(pool);
  const std::uint64_t home = info_of(pool).base;
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  const std::uint64_t half = std::uint64_t{1} << (NVM_WINDOW_BITS - 1);
  const std::uint64_t away = home < NVM_WINDOW_BASE + half ? home + half / 2 : home - half / 2;
  std::fflush(nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) std::exit(open("pool", away, NVM_RELOCATE_LAZY) == nullptr ? 1 : 0);
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_EQ(how, 0);
  pool = open("pool", away, NVM_RELOCATE_NEVER);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(info_of(pool).base_count, 1U);
  expect_filled(pool);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
}

// A number that no relocation has left would be believed by the next one.
TEST_P(relocation, number_of_a_relocation_that_never_was_is_found) {
  if (GetParam().engine != NVM_ENGINE_UNDO || GetParam().on != pool_kind::shm) {
    GTEST_SKIP() << "numbers are in headers at their place: looked at in one kind of pool";
  }
  NVM_POOL* pool = create();
  fill(pool);
  const std::uint64_t home = info_of(pool).base;
  const auto root = reinterpret_cast<std::uint64_t>(nvm_pool_get_root(pool)) - home;
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  const std::uint64_t at = root - sizeof(layout::object_header);
  std::uint64_t word = 0;
  const auto with_header = [&](auto&& f) {
    std::fstream file{path(), std::ios::binary | std::ios::in | std::ios::out};
    f(file);
    ASSERT_TRUE(file.good());
  };
  with_header([&](auto& file) {
    file.seekg(static_cast<std::streamoff>(at));
    file.read(reinterpret_cast<char*>(&word), sizeof word);
  });
  word |= layout::number_bits(2);
  with_header([&](auto& file) {
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(&word), sizeof word);
  });
  EXPECT_EQ(nvm_pool_check(path().c_str(), nullptr, nullptr, nullptr), 1);
  const std::uint64_t half = std::uint64_t{1} << (NVM_WINDOW_BITS - 1);
  const std::uint64_t away = home < NVM_WINDOW_BASE + half ? home + half / 2 : home - half / 2;
  EXPECT_EQ(open("pool", away, NVM_RELOCATE_TRANSACTIONS), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
}

TEST_P(relocation, read_only_moves_a_private_copy) {
  NVM_POOL* a = create("a");
  fill(a);
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  a = open("a");
  ASSERT_NE(a, nullptr) << nvm_errormsg();
  NVM_POOL* b = open("b", 0, 0, true);
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  expect_filled(b);
  EXPECT_EQ(report_of(b).moved, nodes + 5U);
  ASSERT_EQ(nvm_pool_close(b), 0) << nvm_errormsg();
  const std::uint64_t home = info_of(a).base;
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  b = open("b", 0, NVM_RELOCATE_NEVER);  // as it was
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  EXPECT_EQ(info_of(b).base, home);
  expect_filled(b);
  ASSERT_EQ(nvm_pool_close(b), 0) << nvm_errormsg();
}

// What a process has seen read-only is not in the file: it is that of before, byte for byte.
TEST_P(relocation, read_only_leaves_the_file_as_it_is) {
  NVM_POOL* a = create("a");
  fill(a);
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  copy("a", "c");
  a = open("a");
  ASSERT_NE(a, nullptr) << nvm_errormsg();
  NVM_POOL* const b = open("b", 0, 0, true);
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  for (NVM_POOL* p : {a, b}) ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  const auto bytes_of = [this](const char* name) {
    std::string all(std::filesystem::file_size(path(name)), '\0');
    std::ifstream in{path(name), std::ios::binary};
    EXPECT_TRUE(in.read(all.data(), static_cast<std::streamsize>(all.size())));
    return all;
  };
  EXPECT_TRUE(bytes_of("b") == bytes_of("c"));
}

TEST_P(relocation, of_objects_that_nobody_describes_is_refused_with_their_types) {
  NVM_POOL* a = create("a");
  fill(a);
  ASSERT_EQ(nvm_tx_begin(a), 0) << nvm_errormsg();
  for (unsigned i = 0; i < 3; ++i) ASSERT_NE(nvm_alloc(a, 4711, 100), nullptr) << nvm_errormsg();
  ASSERT_NE(nvm_alloc(a, 12, 100), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(a), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  a = open("a");
  ASSERT_NE(a, nullptr) << nvm_errormsg();
  EXPECT_EQ(open("b"), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_ADDRESS);
  const std::string said = nvm_errormsg();
  EXPECT_NE(said.find("4711 (3)"), std::string::npos) << said;
  EXPECT_NE(said.find("12 (1)"), std::string::npos) << said;
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  NVM_POOL* const b = open("b", 0, NVM_RELOCATE_NEVER);  // nothing has happened to it
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  expect_filled(b);
  ASSERT_EQ(nvm_pool_close(b), 0) << nvm_errormsg();
}

TEST_P(relocation, leaves_foreign_pointers_alone_and_names_them) {
  NVM_POOL* a = create("a");
  fill(a);
  ASSERT_EQ(nvm_tx_begin(a), 0) << nvm_errormsg();
  auto* const odd = static_cast<node*>(nvm_alloc(a, node_id, sizeof(node)));
  ASSERT_NE(odd, nullptr) << nvm_errormsg();
  *odd = {reinterpret_cast<node*>(0x5EED), "odd"};
  const auto at = reinterpret_cast<std::uint64_t>(odd) - info_of(a).base;
  ASSERT_EQ(nvm_tx_commit(a), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  a = open("a");
  NVM_POOL* b = open("b");
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  expect_filled(b);
  const nvm_relocation_report r = report_of(b);
  EXPECT_EQ(r.foreign, 1U);
  EXPECT_EQ(r.moved, nodes + 5U);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(r.first_foreign[0].object), info_of(b).base + at);
  EXPECT_EQ(r.first_foreign[0].offset, 0U);
  EXPECT_EQ(r.first_foreign[0].value, 0x5EEDU);
  EXPECT_EQ(r.first_foreign[0].type, node_id);
  EXPECT_EQ(static_cast<const node*>(r.first_foreign[0].object)->next, reinterpret_cast<node*>(0x5EED));
  for (NVM_POOL* p : {a, b}) ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
}

// So many that the pointers of the last ones lie in other pages, windows and transactions than those of the first.
constexpr unsigned odds = 9000;
void expect_odd(NVM_POOL* pool, odd* all) {
  ASSERT_EQ(nvm_pool_of(all), pool);
  for (unsigned i = 0; i < odds; ++i) {
    // A copy: references to its members would be at no multiple of 8 bytes.
    odd* const to = all[i].to;
    void* const next = all[i].next;
    ASSERT_EQ(all[i].tag, 'a') << i;
    ASSERT_EQ(all[i].more, 'z') << i;
    ASSERT_EQ(to, &all[(i + 1) % odds]) << i;
    ASSERT_EQ(next, i % 3 == 0 ? nullptr : &all[i].more) << i;
  }
}
TEST_P(relocation, moves_pointers_of_packed_types) {
  NVM_POOL* a = create("a");
  ASSERT_NE(a, nullptr);
  ASSERT_EQ(nvm_tx_begin(a), 0) << nvm_errormsg();
  auto* all = static_cast<odd*>(nvm_alloc(a, odd_id, odds * sizeof(odd)));
  ASSERT_NE(all, nullptr) << nvm_errormsg();
  for (unsigned i = 0; i < odds; ++i) {
    all[i] = {'a', &all[(i + 1) % odds], i % 3 == 0 ? nullptr : &all[i].more, 'z'};
  }
  auto* const alone = static_cast<odd*>(nvm_alloc(a, odd_id, sizeof(odd)));
  ASSERT_NE(alone, nullptr) << nvm_errormsg();
  *alone = {'x', all, reinterpret_cast<void*>(0x5EED), 'y'};
  ASSERT_EQ(nvm_pool_set_root(a, alone), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(a), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  a = open("a");
  ASSERT_NE(a, nullptr) << nvm_errormsg();
  for (const bool read_only : {true, false}) {
    NVM_POOL* b = open("b", 0, 0, read_only);
    ASSERT_NE(b, nullptr) << nvm_errormsg();
    const nvm_relocation_report r = report_of(b);
    EXPECT_EQ(r.objects, 2U);
    EXPECT_EQ(r.pointers, odds + odds - odds / 3 + 2U);
    EXPECT_EQ(r.moved, r.pointers - 1);
    EXPECT_EQ(r.foreign, 1U);
    EXPECT_EQ(r.first_foreign[0].offset, 9U);
    auto* const root = static_cast<odd*>(nvm_pool_get_root(b));
    ASSERT_NE(root, nullptr);
    EXPECT_EQ(root->tag, 'x');
    EXPECT_EQ(root->more, 'y');
    expect_odd(b, root->to);
    ASSERT_EQ(nvm_pool_close(b), 0) << nvm_errormsg();
  }
  expect_odd(a, static_cast<odd*>(nvm_pool_get_root(a))->to);
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  expect_healthy(path("b"));
}

// ---- sizes and types that are taken back ----------------------------------------------------------------------------

// An object over many pages, whose words all lead to itself, after others that keep the background busy for a while.
constexpr std::uint64_t long_pages = 20;
constexpr std::uint64_t long_bytes = long_pages * 4096 - sizeof(layout::object_header);
constexpr std::uint64_t long_words = (long_bytes - sizeof(table)) / sizeof(void*);
void fill_with_long_objects(NVM_POOL* pool) {
  constexpr std::uint64_t words = std::uint64_t{1} << 17;
  for (unsigned i = 0; i < 24; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
    const std::uint64_t bytes = i < 23 ? sizeof(table) + words * sizeof(void*) : long_bytes;
    auto* const t = static_cast<table*>(nvm_calloc(pool, table_id, 1, bytes));
    ASSERT_NE(t, nullptr) << nvm_errormsg();
    for (std::uint64_t k = 0; k < (i < 23 ? words : long_words); ++k) t->more[k] = t;
    ASSERT_EQ(nvm_pool_set_root(pool, t), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }
}
void expect_long_object(NVM_POOL* pool) {
  auto* const t = static_cast<table*>(nvm_pool_get_root(pool));
  ASSERT_NE(t, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_type_of(pool, t), table_id);
  ASSERT_EQ(nvm_size_of(pool, t), long_bytes);
  std::uint64_t wrong = 0;
  for (std::uint64_t k = 0; k < long_words; ++k) wrong += t->more[k] == t ? 0 : 1;
  EXPECT_EQ(wrong, 0U);
}
TEST_P(relocation, lazily_goes_by_no_size_or_type_that_a_transaction_takes_back) {
  if (GetParam().on != pool_kind::shm || !stores_are_announced(GetParam())) {
    GTEST_SKIP() << "its pages are not relocated one by one, or its objects do not change in place";
  }
  NVM_POOL* a = create("a", std::size_t{64} << 20);
  ASSERT_NE(a, nullptr);
  fill_with_long_objects(a);
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  copy("a", "c");
  a = open("a");
  ASSERT_NE(a, nullptr) << nvm_errormsg();
  for (const auto& [name, type, bytes] :
       {std::tuple{"b", layout::type_of_text, long_bytes}, std::tuple{"c", table_id, (long_pages - 1) * 4096}}) {
    NVM_POOL* const b = open(name, 0, NVM_RELOCATE_LAZY);
    ASSERT_NE(b, nullptr) << nvm_errormsg();
    void* const t = nvm_pool_get_root(b);
    ASSERT_EQ(nvm_tx_begin(b), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_realloc(b, t, type, bytes), t) << nvm_errormsg();
    while (report_of(b).pages_left != 0 || info_of(b).base_count > 1) std::this_thread::yield();
    ASSERT_EQ(nvm_tx_abort(b), 0) << nvm_errormsg();
    expect_long_object(b);
    ASSERT_EQ(nvm_pool_close(b), 0) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  for (const char* name : {"b", "c"}) {
    expect_healthy(path(name));
    NVM_POOL* const b = open(name, 0, NVM_RELOCATE_NEVER);
    ASSERT_NE(b, nullptr) << nvm_errormsg();
    expect_long_object(b);
    ASSERT_EQ(nvm_pool_close(b), 0) << nvm_errormsg();
  }
}

// Packed pointers, the last of which the visitor tells first.
struct twist {
  odd all[4];
};
constexpr std::uint32_t twist_id = layout::type_id_of("twist");
unsigned twist_tellings = 1;  // of each pointer
void visit_twist(const void* object, nvm_visit* visit) {
  const auto* const bytes = static_cast<const std::byte*>(object);
  for (unsigned i = 4; i-- > 0;) {
    for (const std::size_t at : {offsetof(odd, next), offsetof(odd, to)}) {
      for (unsigned n = 0; n < twist_tellings; ++n)
        nvm_visit_field(visit, bytes + i * sizeof(odd) + at, NVM_FIELD_POINTER);
    }
  }
}
void know_twists() {
  static const bool known = [] {
    type_map_writer w;
    w.add({"twist", sizeof(twist), 1, {field("all", 0, layout::field_kind::by_visitor, sizeof(twist), 1, twist_id)}});
    const auto words = w.finish();
    return nvm_register_visitor(twist_id, visit_twist) == 0 && nvm_register_types(words.data(), words.size() * 8) == 0;
  }();
  ASSERT_TRUE(known) << nvm_errormsg();
}
void relocation::expect_twists_moved_once(unsigned tellings) {
  twist_tellings = tellings;
  know_twists();
  NVM_POOL* a = create("a");
  ASSERT_NE(a, nullptr);
  ASSERT_EQ(nvm_tx_begin(a), 0) << nvm_errormsg();
  auto* const made = static_cast<twist*>(nvm_alloc(a, twist_id, sizeof(twist)));
  ASSERT_NE(made, nullptr) << nvm_errormsg();
  for (odd& o : made->all) o = {'a', made->all, &o.more, 'z'};
  ASSERT_EQ(nvm_pool_set_root(a, made), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(a), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  copy("a", "c");
  a = open("a");
  ASSERT_NE(a, nullptr) << nvm_errormsg();
  for (const auto& [name, how] : {std::pair{"b", NVM_RELOCATE_EAGER}, std::pair{"c", NVM_RELOCATE_TRANSACTIONS}}) {
    NVM_POOL* const b = open(name, 0, how);
    ASSERT_NE(b, nullptr) << nvm_errormsg();
    EXPECT_GE(report_of(b).moved, 8U);
    EXPECT_LE(report_of(b).moved, 8 * tellings);
    auto* const found = static_cast<twist*>(nvm_pool_get_root(b));
    ASSERT_NE(found, nullptr) << nvm_errormsg();
    for (odd& o : found->all) {
      odd* const to = o.to;
      void* const next = o.next;
      EXPECT_EQ(o.tag, 'a');
      EXPECT_EQ(o.more, 'z');
      EXPECT_EQ(to, found->all);
      EXPECT_EQ(next, &o.more);
    }
    ASSERT_EQ(nvm_pool_close(b), 0) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  for (const char* name : {"b", "c"}) expect_healthy(path(name));
}
TEST_P(relocation, moves_packed_pointers_in_the_order_in_which_a_visitor_tells_them) { expect_twists_moved_once(1); }
TEST_P(relocation, moves_a_pointer_once_that_a_visitor_tells_twice) { expect_twists_moved_once(2); }

// Stores and structures hold places, and go along.
TEST_P(relocation, takes_stores_and_structures_along) {
  NVM_POOL* a = create("a");
  fill(a);
  nvm_kv* kv = nvm_kv_open(a, "store", nullptr);
  ASSERT_NE(kv, nullptr) << nvm_errormsg();
  for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(nvm_kv_put(kv, &i, sizeof i, "value", 5), 0) << nvm_errormsg();
  nvm_lf_options o{};
  o.kind = NVM_LF_SKIP_LIST;
  nvm_lf* lf = nvm_lf_open(a, "set", &o);
  if (lf != nullptr) {
    for (std::uint64_t k = 1; k < 300; ++k) ASSERT_EQ(nvm_lf_put64(lf, k, 2 * k, 0), 1) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_pool_close(a), 0) << nvm_errormsg();
  copy("a", "b");
  a = open("a");
  NVM_POOL* b = open("b");
  ASSERT_NE(b, nullptr) << nvm_errormsg();
  expect_filled(b);
  for (NVM_POOL* p : {a, b}) {
    kv = nvm_kv_open(p, "store", nullptr);
    ASSERT_NE(kv, nullptr) << nvm_errormsg();
    char value[8];
    std::size_t bytes = 0;
    for (unsigned i = 0; i < 300; ++i) {
      ASSERT_EQ(nvm_kv_get(kv, &i, sizeof i, value, sizeof value, &bytes), 1) << nvm_errormsg();
    }
    if (lf == nullptr) continue;
    nvm_lf* const set = nvm_lf_open(p, "set", &o);
    ASSERT_NE(set, nullptr) << nvm_errormsg();
    for (std::uint64_t k = 1; k < 300; ++k) {
      std::uint64_t found = 0;
      ASSERT_EQ(nvm_lf_get64(set, k, &found), 1) << nvm_errormsg();
      EXPECT_EQ(found, 2 * k);
    }
  }
  for (NVM_POOL* p : {a, b}) ASSERT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
  expect_healthy(path("b"));
}

}  // namespace
}  // namespace nvm::tests
