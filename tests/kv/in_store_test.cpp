// Key-value stores inside of object stores: their memory and their names are the object store's, they come, go, and are
// refused with it, and nothing of them is read where it is not attached.
#include "nvm/store_kv.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "../sanitized.hpp"
#include "api/pool_object.hpp"
#include "care/repair.hpp"
#include "kv/kv_layout.hpp"
#include "kv_testing.hpp"
#include "nvm/store.h"

namespace nvm::tests {
namespace {

constexpr ground homes[] = {{"shm_undo", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO},
                            {"shm_redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO},
                            {"shm_mnemosyne", NVM_MEDIUM_SHM, NVM_ENGINE_MNEMOSYNE},
                            {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT}};
std::vector<ground_and_index> homes_and_indexes() {
  std::vector<ground_and_index> all;
  for (const ground& g : homes) {
    for (const auto index : indexes) all.push_back({g, index});
  }
  return all;
}

class in_store : public testing::TestWithParam<ground_and_index> {
 protected:
  void SetUp() override { pool_ = std::make_unique<pool>(place_.create(std::size_t{16} << 20, std::size_t{16} << 20)); }
  void TearDown() override {
    pool_.reset();
    if (!testing::Test::HasFatalFailure()) {
      EXPECT_EQ(place_.findings(), 0) << nvm_errormsg();
    }
  }
  nvm_store* attached(const char* name, unsigned flags = NVM_STORE_CREATE) {
    nvm_store* const s = nvm_store_attach(pool_->handle(), name, flags);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    return s;
  }
  std::optional<kv> opened(nvm_store* s, const char* name, enum nvm_kv_open_mode mode = NVM_KV_OPEN_OR_CREATE) {
    nvm_kv_options o{};
    o.index = GetParam().index;
    o.mode = mode;
    auto found = kv::of(nvm_kv_open_in(s, name, &o));
    EXPECT_TRUE(found) << nvm_errormsg();
    return found;
  }
  void detach(nvm_store* s) { EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg(); }
  static void fill(kv& to, std::uint64_t count, std::size_t bytes = 20) {
    for (std::uint64_t i = 0; i < count; ++i)
      ASSERT_TRUE(to.put(number_key(i), std::string(bytes, static_cast<char>('a' + i % 26)))) << nvm_errormsg();
  }
  nvm_store_info info(const char* name) {
    nvm_store_info i;
    EXPECT_EQ(nvm_store_stat(pool_->handle(), name, &i), 0) << nvm_errormsg();
    return i;
  }
  std::vector<std::string> names(nvm_store* s) {
    std::vector<std::string> all;
    EXPECT_EQ(nvm_kv_each_in(
                  s,
                  [](const char* name, enum nvm_kv_index, void* to) {
                    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
                    return 0;
                  },
                  &all),
              0)
        << nvm_errormsg();
    return all;
  }
  void reopen() {
    pool_.reset();
    pool_ = std::make_unique<pool>(place_.open());
  }

  pool_place place_{GetParam().where};
  std::unique_ptr<pool> pool_;
};
INSTANTIATE_TEST_SUITE_P(everywhere, in_store, testing::ValuesIn(kinds_of_build(homes_and_indexes())), name_of);

TEST_P(in_store, has_names_of_its_own_and_all_memory_in_its_pages) {
  nvm_store* const a = attached("a");
  nvm_store* const b = attached("b");
  kv of_pool = open_store(*pool_, "same", GetParam().index);
  const std::uint64_t objects_before = info("b").objects;
  {
    auto in_a = opened(a, "same");
    auto in_b = opened(b, "same");
    fill(*in_a, 400);
    ASSERT_TRUE(in_b->put(number_key(1), "of b"));
    ASSERT_TRUE(of_pool.put(number_key(1), "of the pool"));
    EXPECT_EQ(nvm_kv_store_of(in_a->handle()), a);
    EXPECT_EQ(nvm_kv_store_of(of_pool.handle()), nullptr);
    EXPECT_EQ(*in_a->get(number_key(1)), std::string(20, 'b'));
    EXPECT_EQ(*in_b->get(number_key(1)), "of b");
    EXPECT_EQ(*of_pool.get(number_key(1)), "of the pool");
    EXPECT_EQ(*in_a->size(), 400U);
    ASSERT_TRUE(in_a->statistics()) << nvm_errormsg();
  }
  EXPECT_GT(info("a").objects, 400U);
  EXPECT_GT(info("b").objects, objects_before);
  EXPECT_NE(info("a").key_values, 0U);
  // Every object of theirs lies in pages of its store.
  struct seen {
    std::uint64_t in_store = 0, elsewhere = 0;
  } s;
  (void)nvm_pool_each(
      pool_->handle(),
      [](void* at, std::uint32_t type, std::size_t, void* to) {
        if (type < layout::kv_type_header || type > layout::kv_type_separator) return 0;
        auto& count = *static_cast<seen*>(to);
        ++(nvm_store_of(at) != nullptr ? count.in_store : count.elsewhere);
        return 0;
      },
      &s);
  EXPECT_GT(s.in_store, 400U);
  EXPECT_LT(s.elsewhere, 12U);  // of the pool's own
  detach(a);
  detach(b);
}

TEST_P(in_store, is_found_again_after_a_detach_and_after_the_pool_was_closed) {
  nvm_store* s = attached("home");
  {
    auto one = opened(s, "one");
    fill(*one, 120);
    const std::string text(9000, 'l');
    ASSERT_TRUE(one->put(number_key(1000), text));
  }
  detach(s);
  s = attached("home", 0);
  EXPECT_EQ(names(s), std::vector<std::string>{"one"});
  EXPECT_EQ(entries_of(*opened(s, "one", NVM_KV_OPEN_ONLY)).size(), 121U);
  detach(s);
  reopen();
  ASSERT_EQ(nvm_store_rename(pool_->handle(), "home", "house"), 0) << nvm_errormsg();
  s = attached("house", 0);
  auto one = opened(s, "one", NVM_KV_OPEN_ONLY);
  EXPECT_EQ(entries_of(*one).size(), 121U);
  EXPECT_EQ(one->get(number_key(1000))->size(), 9000U);
  // The pool is closed with it open: later calls are refused.
  ASSERT_TRUE(pool_->close()) << nvm_errormsg();
  EXPECT_FALSE(one->put(number_key(1), "v"));
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  pool_ = std::make_unique<pool>(place_.open());
}

TEST_P(in_store, keeps_its_home_from_being_detached_while_it_is_open) {
  nvm_store* const s = attached("home");
  nvm_kv_options o{};
  o.index = GetParam().index;
  nvm_kv* const one = nvm_kv_open_in(s, "one", &o);
  ASSERT_NE(one, nullptr) << nvm_errormsg();
  EXPECT_EQ(nvm_store_detach(s), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  EXPECT_NE(std::string{nvm_errormsg()}.find("key-value store \"one\" is open"), std::string::npos) << nvm_errormsg();
  EXPECT_EQ(nvm_store_delete(pool_->handle(), "home"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  EXPECT_EQ(nvm_kv_put(one, "12345678", 8, "v", 1), 0) << nvm_errormsg();
  // Attached twice, it may be given up once.
  EXPECT_EQ(attached("home"), s);
  detach(s);
  EXPECT_EQ(nvm_kv_put(one, "12345678", 8, "w", 1), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_kv_close(one), 0);
  EXPECT_EQ(nvm_kv_put(one, "12345678", 8, "x", 1), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  detach(s);
  EXPECT_EQ(nvm_kv_get(one, "12345678", 8, nullptr, 0, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_kv_open_in(s, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
}

TEST_P(in_store, goes_with_its_home_and_leaves_nothing) {
  const auto free_pages = [&] {
    reopen();
    nvm_check_summary sum;
    pool_.reset();
    EXPECT_EQ(nvm_pool_check(place_.path().c_str(), nullptr, nullptr, &sum), 0) << nvm_errormsg();
    pool_ = std::make_unique<pool>(place_.open());
    return sum.free_pages;
  };
  // The names of the first round have made the pool's own extents.
  std::uint64_t after_first = 0;
  for (int round = 0; round < 4; ++round) {
    nvm_store* const s = attached("home");
    for (const char* name : {"one", "two"}) {
      auto kv = opened(s, name);
      fill(*kv, 300, 100);
    }
    ASSERT_EQ(nvm_kv_drop_in(s, "two"), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_kv_rename_in(s, "one", "three"), 0) << nvm_errormsg();
    EXPECT_EQ(names(s), std::vector<std::string>{"three"});
    detach(s);
    ASSERT_EQ(nvm_store_delete(pool_->handle(), "home"), 0) << nvm_errormsg();
    const std::uint64_t now = free_pages();
    if (round == 0) after_first = now;
    EXPECT_EQ(now, after_first) << round;
  }
}

TEST_P(in_store, takes_no_more_than_its_quota) {
  nvm_store_options o{};
  o.quota = 256 << 10;
  ASSERT_EQ(nvm_store_create(pool_->handle(), "small", &o), 0) << nvm_errormsg();
  nvm_store* const s = attached("small", 0);
  {
    auto one = opened(s, "one");
    std::uint64_t put = 0;
    while (one->put(number_key(put), std::string(500, 'q'))) ++put;
    EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
    EXPECT_NE(std::string{nvm_errormsg()}.find("quota"), std::string::npos) << nvm_errormsg();
    EXPECT_GT(put, 100U);
    EXPECT_EQ(entries_of(*one).size(), put);
    for (std::uint64_t i = 0; i < put; ++i) ASSERT_TRUE(one->remove(number_key(i))) << i << nvm_errormsg();
    EXPECT_TRUE(one->put(number_key(1), std::string(500, 'r'))) << nvm_errormsg();
  }
  EXPECT_LE(info("small").pages * info("small").page_bytes, std::uint64_t{256} << 10);
  detach(s);
}

TEST_P(in_store, takes_part_in_transactions_with_others) {
  nvm_store* const s = attached("home");
  kv of_pool = open_store(*pool_, "of the pool", GetParam().index);
  auto one = opened(s, "one");
  kv_batch both;
  both.put(*one, number_key(1), "a").put(of_pool, number_key(1), "b");
  ASSERT_TRUE(both.commit()) << nvm_errormsg();
  EXPECT_EQ(*one->get(number_key(1)), "a");
  EXPECT_EQ(*of_pool.get(number_key(1)), "b");
  struct two {
    nvm_kv *a, *b;
  } t{one->handle(), of_pool.handle()};
  const auto changes = [](nvm_stm*, void* raw) {
    const auto& of = *static_cast<two*>(raw);
    const std::string k = number_key(2);
    if (nvm_kv_put(of.a, k.data(), k.size(), "c", 1) != 0 || nvm_kv_put(of.b, k.data(), k.size(), "d", 1) != 0)
      return 9;
    return 1;  // taken back
  };
  EXPECT_EQ(nvm_stm_run(pool_->handle(), changes, &t), 1) << nvm_errormsg();
  EXPECT_EQ(*one->size(), 1U);
  EXPECT_EQ(*of_pool.size(), 1U);
  one.reset();
  detach(s);
}

TEST_P(in_store, is_only_read_where_its_home_is_attached_read_only) {
  nvm_store* s = attached("home");
  {
    auto one = opened(s, "one");
    fill(*one, 30);
  }
  detach(s);
  detach(attached("empty"));
  s = attached("home", NVM_STORE_READ_ONLY);
  nvm_store* const empty = attached("empty", NVM_STORE_READ_ONLY);
  nvm_kv_options o{};
  for (const auto& [home, name] : {std::pair{s, "two"}, std::pair{empty, "one"}}) {
    EXPECT_EQ(nvm_kv_open_in(home, name, &o), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY) << nvm_errormsg();
  }
  o.mode = NVM_KV_OPEN_ONLY;
  EXPECT_EQ(nvm_kv_open_in(empty, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  auto one = opened(s, "one");
  EXPECT_EQ(entries_of(*one).size(), 30U);
  EXPECT_TRUE(one->statistics());
  const std::string k = number_key(1);
  for (const int code :
       {nvm_kv_put(one->handle(), k.data(), k.size(), "v", 1), nvm_kv_remove(one->handle(), k.data(), k.size()),
        nvm_kv_update(
            one->handle(), k.data(), k.size(), 0, [](void*, std::size_t*, std::size_t, void*) { return 0; }, nullptr),
        nvm_kv_drop_in(s, "other"), nvm_kv_rename_in(s, "other", "more")}) {
    EXPECT_EQ(code, -1);
    EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY) << nvm_errormsg();
  }
  one.reset();
  detach(s);
  detach(empty);
}

TEST_P(in_store, refuses_what_cannot_be) {
  nvm_store* const s = attached("home");
  nvm_kv_options o{};
  EXPECT_EQ(nvm_kv_open_in(nullptr, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_kv_open_in(s, "", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_kv_each_in(s, nullptr, nullptr), -1);
  o.index = NVM_KV_REGIONS;
  EXPECT_EQ(nvm_kv_open_in(s, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(names(s).size(), 0U);
  EXPECT_EQ(info("home").key_values, 0U);
  EXPECT_EQ(nvm_kv_drop_in(s, "one"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  o.index = GetParam().index;
  auto one = kv::of(nvm_kv_open_in(s, "one", &o));
  ASSERT_TRUE(one) << nvm_errormsg();
  o.mode = NVM_KV_CREATE_ONLY;
  EXPECT_EQ(nvm_kv_open_in(s, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_EXISTS);
  EXPECT_EQ(nvm_kv_drop_in(s, "one"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BUSY);
  one.reset();
  detach(s);
}

// Readers and writers whose store is closed and detached under them, again and again: each call works or is refused,
// and none touches a page that is not there.
TEST_P(in_store, is_closed_and_detached_while_others_use_it) {
  std::atomic<nvm_kv*> now{nullptr};
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> worked{0};
  std::vector<std::thread> users;
  for (unsigned t = 0; t < 3; ++t) {
    users.emplace_back([&, t] {
      for (std::uint64_t i = 0; !over; ++i) {
        nvm_kv* const kv = now.load();
        if (kv == nullptr) continue;
        const std::string k = number_key(i % 50);
        const int code = t == 0 ? nvm_kv_put(kv, k.data(), k.size(), "value", 5)
                                : nvm_kv_get(kv, k.data(), k.size(), nullptr, 0, nullptr);
        if (code < 0 && nvm_errno() != NVM_E_INVALID) ADD_FAILURE() << nvm_errormsg();
        if (code >= 0) worked.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (int round = 0; round < 60; ++round) {
    nvm_store* const s = attached("home");
    nvm_kv_options o{};
    o.index = GetParam().index;
    nvm_kv* const kv = nvm_kv_open_in(s, "one", &o);
    ASSERT_NE(kv, nullptr) << nvm_errormsg();
    now = kv;
    const std::uint64_t until = worked.load() + 20;
    while (worked.load() < until) std::this_thread::yield();
    ASSERT_EQ(nvm_kv_close(kv), 0);
    // A call that has begun in time may be kept from ending for as long as a detach waits.
    int left = nvm_store_detach(s);
    while (left != 0 && nvm_errno() == NVM_E_BUSY) left = nvm_store_detach(s);
    ASSERT_EQ(left, 0) << nvm_errormsg();
    nvm_stores_statistics sum;
    ASSERT_EQ(nvm_stores_get_statistics(pool_->handle(), &sum), 0);
    EXPECT_EQ(sum.attached, 0U);
  }
  over = true;
  for (auto& u : users) u.join();
}

struct object_maker {
  nvm_store* in;
  std::uint64_t** to;
  int leave;
};
int make_object(nvm_stm* tx, void* raw) {
  const auto& m = *static_cast<object_maker*>(raw);
  auto* const made = static_cast<std::uint64_t*>(nvm_stm_store_alloc(tx, m.in, 5, 64));
  if (made == nullptr) return 9;
  *made = 17;
  *m.to = made;
  return m.leave;
}
TEST_P(in_store, has_objects_of_barrier_transactions) {
  nvm_store* const s = attached("home");
  std::uint64_t* made = nullptr;
  object_maker m{s, &made, 1};
  const std::uint64_t before = info("home").objects;
  EXPECT_EQ(nvm_stm_run(pool_->handle(), make_object, &m), 1);
  EXPECT_EQ(info("home").objects, before);
  m.leave = 0;
  ASSERT_EQ(nvm_stm_run(pool_->handle(), make_object, &m), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_store_of(made), s);
  EXPECT_EQ(*made, 17U);
  EXPECT_EQ(info("home").objects, before + 1);
  const auto free_it = [](nvm_stm* tx, void* at) { return nvm_stm_free(tx, at); };
  ASSERT_EQ(nvm_stm_run(pool_->handle(), free_it, made), 0) << nvm_errormsg();
  EXPECT_EQ(info("home").objects, before);
  detach(s);
  EXPECT_NE(nvm_stm_run(pool_->handle(), make_object, &m), 0);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
}

// ---- damage ---------------------------------------------------------------------------------------------------------

std::string bytes_of_file(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream{path, std::ios::binary | std::ios::trunc} << bytes;
}
int add_finding(void* to, const char* what) {
  *static_cast<std::string*>(to) += std::string{what} + "\n";
  return 0;
}
std::string findings_in(const std::string& path) {
  std::string all;
  (void)nvm_pool_check(
      path.c_str(), [](std::uint64_t, const char* what, void* to) { (void)add_finding(to, what); }, &all, nullptr);
  return all;
}

// Places of the payloads of key-value stores in pages of an attached store, or of the pool's own, of one
// type or, 0, of all.
std::vector<std::uint64_t> places_in(NVM_POOL* pool, nvm_store* home, std::uint32_t type) {
  struct list {
    nvm_store* home;
    std::uint32_t type;
    char* base;
    std::vector<std::uint64_t> places{};
  } all{home, type, reinterpret_cast<char*>(pool->base())};
  const auto add = [](void* at, std::uint32_t of, std::size_t, void* raw) {
    auto& to = *static_cast<list*>(raw);
    const bool wanted = to.type == 0 ? of >= layout::kv_type_header && of <= layout::kv_type_separator : of == to.type;
    if (wanted && nvm_store_of(at) == to.home)
      to.places.push_back(static_cast<std::uint64_t>(static_cast<char*>(at) - to.base));
    return 0;
  };
  EXPECT_EQ(nvm_pool_each(pool, add, &all), 0) << nvm_errormsg();
  return all.places;
}

// Every word of the store's nodes that leads to the record at `from` leads to `to`; how many.
unsigned redirect(NVM_POOL* pool, nvm_store* home, std::uint64_t from, std::uint64_t to) {
  unsigned changed = 0;
  char* const base = reinterpret_cast<char*>(pool->base());
  for (const std::uint64_t place : places_in(pool, home, 0)) {
    auto* const words = reinterpret_cast<std::uint64_t*>(base + place);
    for (std::size_t i = 0; i < nvm_size_of(pool, words) / 8; ++i) {
      const std::uint64_t word = words[i];
      if (word == from) words[i] = to;
      if (layout::place_of(word) == from && layout::more_of(word) != 0)
        words[i] = layout::pack_place(to, layout::more_of(word));
      changed += words[i] != word ? 1 : 0;
    }
  }
  return changed;
}

// A link that leads to a page of a store that nobody has attached, which cannot be accessed, is damage and no trap.
TEST_P(in_store, follows_no_link_out_of_its_home) {
  if (place_.ssd()) GTEST_SKIP() << "the image is not the file";
  nvm_store* const s = attached("home");
  nvm_store* const other = attached("other");
  for (nvm_store* const home : {s, other}) {
    auto one = opened(home, "one");
    fill(*one, 40);
  }
  // The last ones are no records of directories.
  const std::uint64_t here = places_in(pool_->handle(), s, layout::kv_type_record).back();
  const std::uint64_t there = places_in(pool_->handle(), other, layout::kv_type_record).back();
  detach(other);
  auto one = opened(s, "one", NVM_KV_OPEN_ONLY);
  ASSERT_GT(redirect(pool_->handle(), s, here, there), 0U);
  unsigned refused = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::string k = number_key(i);
    if (nvm_kv_get(one->handle(), k.data(), k.size(), nullptr, 0, nullptr) >= 0) continue;
    EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
    ++refused;
  }
  EXPECT_GT(refused, 0U);
  EXPECT_FALSE(one->statistics());
  one.reset();
  detach(s);
  pool_.reset();
  EXPECT_NE(findings_in(place_.path()).find("key-value store \"one\" of store 1"), std::string::npos)
      << findings_in(place_.path());
  ASSERT_EQ(::unlink(place_.path().c_str()), 0);
  pool_ = std::make_unique<pool>(place_.create());
}

// The same for a link of the pool's own.
TEST_P(in_store, leads_no_link_of_the_pool_into_a_store) {
  if (place_.ssd()) GTEST_SKIP() << "the image is not the file";
  nvm_store* const other = attached("other");
  {
    auto one = opened(other, "one");
    fill(*one, 40);
  }
  const std::uint64_t there = places_in(pool_->handle(), other, layout::kv_type_record).back();
  kv of_pool = open_store(*pool_, "one", GetParam().index);
  fill(of_pool, 40);
  std::uint64_t here = 0;  // of an entry, and not of the directory
  for (const std::uint64_t at : places_in(pool_->handle(), nullptr, layout::kv_type_record)) {
    const auto* const record = reinterpret_cast<const char*>(pool_->handle()->base() + at);
    if (std::string_view{record, 40}.find(number_key(20)) != std::string_view::npos) here = at;
  }
  ASSERT_NE(here, 0U);
  ASSERT_GT(redirect(pool_->handle(), nullptr, here, there), 0U);
  detach(other);
  for (const bool opened_again : {false, true}) {
    unsigned refused = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
      const std::string k = number_key(i);
      if (nvm_kv_get(of_pool.handle(), k.data(), k.size(), nullptr, 0, nullptr) >= 0) continue;
      EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
      ++refused;
    }
    EXPECT_GT(refused, 0U);
    EXPECT_FALSE(of_pool.statistics());
    if (opened_again) break;
    reopen();
    of_pool = open_store(*pool_, "one", NVM_KV_DETECT);
  }
  // Attached, it is as little the pool's.
  nvm_store* const again = attached("other", 0);
  EXPECT_FALSE(of_pool.statistics());
  detach(again);
  {
    const kv closed = std::move(of_pool);
  }
  pool_.reset();
  EXPECT_NE(findings_in(place_.path()).find("key-value store \"one\": "), std::string::npos)
      << findings_in(place_.path());
  ASSERT_EQ(::unlink(place_.path().c_str()), 0);
  pool_ = std::make_unique<pool>(place_.create());
}

struct salvaged {
  std::uint64_t count = 0;
  bool foreign = false;
};
salvaged salvage_in(const std::string& path, const char* home, const char* name) {
  salvaged got;
  nvm_kv_salvage_options how{};
  how.argument = &got;
  how.entry = [](const nvm_kv_entry* entry, enum nvm_kv_proof, void* to) {
    auto& in = *static_cast<salvaged*>(to);
    ++in.count;
    const std::string_view value{static_cast<const char*>(entry->value), entry->value_bytes};
    in.foreign = in.foreign || value.starts_with("of the");
  };
  EXPECT_GE(nvm_kv_salvage_in(path.c_str(), home, name, &how), 0) << nvm_errormsg();
  return got;
}
// A sound pool, in which the pool's own has all of its entries; those of "one" at home.
std::uint64_t entries_of_mended(const std::string& path, const std::string& mended) {
  care::repair_request request;
  request.path = path;
  request.out = mended;
  care::repair_report report;
  ::unlink(mended.c_str());
  EXPECT_TRUE(care::repair_pool(request, report)) << last_message();
  EXPECT_EQ(findings_in(mended), "");
  auto again = pool::open(mended.c_str());
  if (!again) return 0;
  EXPECT_EQ(entries_of(open_store(*again, "one", NVM_KV_DETECT)).size(), 60U);
  nvm_store* const home = nvm_store_attach(again->handle(), "home", 0);
  EXPECT_NE(home, nullptr) << nvm_errormsg();
  nvm_kv_options o{};
  o.mode = NVM_KV_OPEN_ONLY;
  auto one = kv::of(nvm_kv_open_in(home, "one", &o));
  EXPECT_TRUE(one) << nvm_errormsg();
  return one ? entries_of(*one).size() : 0;
}

// One whose directory, or whose header, or a root, is not as it was: the check says so, salvage reads on, and a repair
// makes it anew, without a look at what the pool has of the same name.
TEST_P(in_store, is_checked_salvaged_and_mended_where_it_lies) {
  if (place_.ssd()) GTEST_SKIP() << "the same in an image";
  nvm_store* const s = attached("home");
  {
    kv of_pool = open_store(*pool_, "one", GetParam().index);
    for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(of_pool.put(number_key(i + 500), "of the pool"));
    auto one = opened(s, "one");
    fill(*one, 60, 30);
    auto two = opened(s, "two");
    fill(*two, 10);
  }
  const std::uint64_t directory = info("home").key_values;
  const auto headers = places_in(pool_->handle(), s, layout::kv_type_header);
  ASSERT_EQ(headers.size(), 3U);
  detach(s);
  pool_.reset();
  const std::string sound = bytes_of_file(place_.path());
  std::vector<std::uint64_t> edits{directory + offsetof(layout::kv_header, seed)};
  for (const std::uint64_t at : headers) {
    if (at == directory) continue;
    edits.push_back(at + offsetof(layout::kv_header, seed));
    if (GetParam().index != NVM_KV_HASH) edits.push_back(at + offsetof(layout::kv_header, root));
  }
  for (const std::uint64_t at : edits) {
    SCOPED_TRACE(at);
    std::string bytes = sound;
    for (std::size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<char>(bytes[at + i] ^ 0x5A);
    write_file(place_.path(), bytes);
    EXPECT_NE(findings_in(place_.path()).find("of store 1"), std::string::npos) << findings_in(place_.path());
    const salvaged got = salvage_in(place_.path(), "home", "one");
    EXPECT_FALSE(got.foreign);
    EXPECT_EQ(entries_of_mended(place_.path(), place_.path() + ".mended"), got.count);
    EXPECT_EQ(got.count, 60U);
  }
  write_file(place_.path(), sound);
  EXPECT_EQ(nvm_kv_salvage_in(place_.path().c_str(), "none", "one", nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND) << nvm_errormsg();
  pool_ = std::make_unique<pool>(place_.open());
}

}  // namespace
}  // namespace nvm::tests
