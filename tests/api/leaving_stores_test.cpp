// A store that is detached, attached read-only after that, or has just been made, while transactions are open that have
// stored into it or try to: its pages lose their access when no such transaction is left, and no other gets there.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../sanitized.hpp"
#include "api/object_stores.hpp"
#include "api/pool_object.hpp"
#include "engine/store_side.hpp"
#include "nvm/kv.h"
#include "nvm/malloc.h"
#include "nvm/nvm.h"
#include "nvm/stm.h"
#include "nvm/store.h"
#include "nvm/store_kv.h"
#include "with_store.hpp"

namespace nvm::tests {
namespace {

class leaving_store : public testing::TestWithParam<pool_type> {
 protected:
  void SetUp() override {
    in_.create(GetParam().engine, GetParam().ssd);
    in_.fill_store();
    at_ = reinterpret_cast<item*>(in_.base() + in_.place());
  }
  void TearDown() override {
    in_.close();
    in_.open();
    EXPECT_EQ(in_.sum_of_store(), with_store::sum);
    in_.close();
    EXPECT_EQ(findings_in(in_.path()), "");
  }
  [[nodiscard]] NVM_POOL* pool() const { return in_.pool(); }
  [[nodiscard]] bool announces() const { return GetParam().ssd || GetParam().engine == NVM_ENGINE_UNDO; }
  nvm_store* attached(unsigned flags = 0) {
    nvm_store* const s = nvm_store_attach(pool(), "closed", flags);
    EXPECT_NE(s, nullptr) << nvm_errormsg();
    return s;
  }
  nvm_stores_statistics figures() {
    nvm_stores_statistics st{};
    EXPECT_EQ(nvm_stores_get_statistics(pool(), &st), 0) << nvm_errormsg();
    return st;
  }
  void look_after_stores() { (void)figures(); }
  // In a thread: a barrier transaction that does `first`, waits until go_on(), does `then`, and ends as `code` says.
  class open_barrier {
   public:
    using part = std::function<void(nvm_stm*)>;
    open_barrier(NVM_POOL* pool, part first, part then, int code = 0)
        : first_{std::move(first)}, then_{std::move(then)}, code_{code} {
      thread_ = std::thread{[this, pool] {
        outcome_ = nvm_stm_run(pool, run, this);
        error_ = outcome_ == 0 ? 0 : nvm_errno();
      }};
      is_open_.get_future().wait();
    }
    int end() {
      goes_on_.set_value();
      thread_.join();
      return outcome_;
    }
    [[nodiscard]] int error() const { return error_; }

   private:
    static int run(nvm_stm* tx, void* self) {
      auto* const me = static_cast<open_barrier*>(self);
      me->first_(tx);
      if (!std::exchange(me->was_open_, true)) me->is_open_.set_value();
      me->may_go_on_.wait();
      me->then_(tx);
      return me->code_;
    }
    part first_, then_;
    int code_, outcome_ = 0, error_ = 0;
    bool was_open_ = false;
    std::promise<void> is_open_, goes_on_;
    std::shared_future<void> may_go_on_ = goes_on_.get_future().share();
    std::thread thread_;
  };
  static void nothing(nvm_stm*) {}
  [[nodiscard]] open_barrier::part same_number() {
    return [this](nvm_stm* tx) { nvm_stm_store64(tx, &at_->number, nvm_stm_load64(tx, &at_->number)); };
  }
  [[nodiscard]] open_barrier::part a_number() {
    return [this](nvm_stm* tx) { nvm_stm_store64(tx, &at_->number, 999); };
  }
  // An object of the pool's, so that the transaction has a lane.
  [[nodiscard]] static open_barrier::part own_object() {
    return [](nvm_stm* tx) { (void)nvm_stm_alloc(tx, 1, 64); };
  }

  with_store in_{"leaving_store", GetParam().ssd};
  item* at_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(on, leaving_store, testing::ValuesIn(kinds_of_build(pool_types)),
                         [](const auto& i) { return i.param.name; });

// The kernel is asked for each stretch of neighbouring clusters, and for the page that says who may attach.
TEST_P(leaving_store, asks_the_kernel_as_often_as_it_has_stretches) {
  nvm_store* s = attached();
  ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
  for (int i = 0; i < 16; ++i) ASSERT_NE(nvm_store_alloc(s, 0, 65536), nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  nvm_store_info info{};
  ASSERT_EQ(nvm_store_stat(pool(), "closed", &info), 0) << nvm_errormsg();
  const nvm_stores_statistics before = figures();
  const std::uint64_t stretches = before.protected_ranges;  // there is no other store
  ASSERT_LT(stretches, info.clusters);
  s = attached();
  const nvm_stores_statistics between = figures();
  EXPECT_EQ(between.protection_calls - before.protection_calls, stretches + 1);
  EXPECT_EQ(between.closed_bytes, 0U);
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  const nvm_stores_statistics after = figures();
  EXPECT_EQ(after.protection_calls - between.protection_calls, stretches);
  EXPECT_EQ(after.closed_bytes, before.closed_bytes);
}
// Its pages are another store's by then.
TEST_P(leaving_store, that_was_deleted_opens_no_pages_for_its_successors) {
  ASSERT_EQ(nvm_store_delete(pool(), "closed"), 0) << nvm_errormsg();
  EXPECT_EQ(figures().closed_bytes, 0U);
  in_.fill_store();
  ASSERT_EQ(nvm_store_rename(pool(), "closed", "first"), 0) << nvm_errormsg();
  in_.fill_store();
  const std::uint64_t both = figures().closed_bytes;
  for (const char* const name : {"first", "closed"}) {
    nvm_store_info info{};
    ASSERT_EQ(nvm_store_stat(pool(), name, &info), 0) << nvm_errormsg();
    nvm_store* const s = nvm_store_attach(pool(), name, 0);
    ASSERT_NE(s, nullptr) << nvm_errormsg();
    EXPECT_EQ(figures().closed_bytes, both - info.pages * 4096);
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    EXPECT_EQ(figures().closed_bytes, both);
  }
}

TEST_P(leaving_store, waits_for_a_barrier_transaction_that_has_stored) {
  for (const int code : {0, 1}) {
    nvm_store* const s = attached();
    open_barrier t{pool(), same_number(), nothing, code};
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    look_after_stores();
    EXPECT_EQ(t.end(), code);
    look_after_stores();
  }
}

// One that is open for something else keeps the pages accessible; another one does not get there for that.
TEST_P(leaving_store, takes_no_store_while_it_waits_for_others) {
  nvm_store* const s = attached();
  open_barrier other{pool(), own_object(), nothing};
  ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  open_barrier stray{pool(), own_object(), a_number()};
  EXPECT_EQ(other.end(), 0);
  look_after_stores();
  EXPECT_NE(stray.end(), 0);
  EXPECT_EQ(stray.error(), NVM_E_BAD_POINTER);
}

// It stays accessible until the transaction ends, whatever calls about it come between.
TEST_P(leaving_store, is_not_closed_by_another_call) {
  for (const int code : {0, 1}) {
    nvm_store* const s = attached();
    open_barrier t{pool(), same_number(), nothing, code};
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_store_chmod(pool(), "closed", 0640), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_store_quota(pool(), "closed", 1 << 20), 0) << nvm_errormsg();
    look_after_stores();
    EXPECT_EQ(t.end(), code);
    look_after_stores();
  }
}

TEST_P(leaving_store, comes_back_read_only_under_a_transaction) {
  for (const int code : {0, 1}) {
    nvm_store* const s = attached();
    open_barrier t{pool(), same_number(), nothing, code};
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    nvm_store* const again = attached(NVM_STORE_READ_ONLY);
    look_after_stores();
    open_barrier stray{pool(), own_object(), a_number()};
    EXPECT_NE(stray.end(), 0);
    EXPECT_EQ(stray.error(), NVM_E_READ_ONLY);
    EXPECT_EQ(t.end(), code);
    nvm_stores_statistics st;
    ASSERT_EQ(nvm_stores_get_statistics(pool(), &st), 0) << nvm_errormsg();
    EXPECT_NE(st.read_only_bytes, 0U);
    ASSERT_EQ(nvm_store_detach(again), 0) << nvm_errormsg();
  }
}

// The same of stores that are announced: an abort puts old bytes back.
TEST_P(leaving_store, comes_back_read_only_under_announced_stores) {
  if (!announces()) GTEST_SKIP() << "stores are not announced";
  for (const bool commits : {true, false}) {
    nvm_store* const s = attached();
    ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_log(&at_->number, 8), 0) << nvm_errormsg();
    at_->number += commits ? 0 : 7;
    ASSERT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    nvm_store* const again = attached(NVM_STORE_READ_ONLY);
    EXPECT_NE(nvm_tx_log(&at_->next, 8), 0);
    EXPECT_EQ(nvm_errno(), NVM_E_READ_ONLY) << nvm_errormsg();
    if (commits) {
      EXPECT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
    } else {
      EXPECT_EQ(nvm_tx_abort(pool()), 0) << nvm_errormsg();
    }
    ASSERT_EQ(nvm_store_detach(again), 0) << nvm_errormsg();
  }
}

// What asks about an address may find the object or not; it looks at no page that is closed meanwhile.
TEST_P(leaving_store, is_asked_about_while_it_comes_and_goes) {
  nvm_store* s = attached();
  ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
  std::vector<void*> objects;
  for (const std::size_t bytes : {24U, 3000U, 40'000U, 1'000'000U}) {
    objects.push_back(nvm_store_alloc(s, 9, bytes));
    ASSERT_NE(objects.back(), nullptr) << nvm_errormsg();
  }
  ASSERT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  std::vector<nvm_store_ref> refs;
  for (void* const p : objects) refs.push_back(nvm_store_ref_of(p));

  std::atomic<bool> over{false};
  std::atomic<long> found{0}, absent{0}, wrong{0};
  const auto note = [&](bool is_there, bool is_right) {
    ++(is_there ? found : absent);
    if (!(is_there ? is_right : nvm_errno() == NVM_E_BAD_POINTER || nvm_errno() == NVM_E_NOT_FOUND)) ++wrong;
  };
  std::vector<std::thread> askers;
  for (unsigned t = 0; t < 2; ++t) {
    askers.emplace_back([&] {
      for (std::size_t i = 0; !over; i = (i + 1) % objects.size()) {
        void* const at = nvm_store_at(pool(), refs[i]);
        note(at != nullptr, at == objects[i]);
        const std::size_t bytes = nvm_size_of(pool(), objects[i]);
        note(bytes != 0, bytes >= 24);
        const std::uint32_t type = nvm_type_of(pool(), objects[i]);
        note(type != 0, type == 9);
        if (nvm_store* const of = nvm_store_of(objects[i]); of != nullptr) (void)nvm_store_ref_of(objects[i]);
      }
    });
  }
  const int rounds = rounds_of_build(4000);
  for (int i = 0; s != nullptr && (i < rounds || ((found == 0 || absent == 0) && i < 100 * rounds)); ++i) {
    EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    s = attached(i % 4 == 3 ? unsigned{NVM_STORE_READ_ONLY} : 0U);
  }
  over = true;
  for (auto& t : askers) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 0);
  EXPECT_GT(absent, 0);
  EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
}

// A transaction has stored into free pages, of which one becomes a store's.
TEST_P(leaving_store, begins_under_a_stray_store) {
  engines::store_side& side = **pool()->engine->stores();
  const geometry g = pool()->file->geometry();
  std::vector<std::uint64_t*> zeros;
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const std::uint64_t last_word = g.page_offset(page + 1) - sizeof(std::uint64_t);
    auto* const word = reinterpret_cast<std::uint64_t*>(in_.base() + last_word);
    if (side.cluster_holding(last_word) == 0 && *word == 0) zeros.push_back(word);
  }
  const auto stray = [&](nvm_stm* tx) {
    for (std::uint64_t* const word : zeros) nvm_stm_store64(tx, word, 0);
  };
  open_barrier t{pool(), stray, nothing};
  EXPECT_EQ(nvm_store_create(pool(), "young", nullptr), 0) << nvm_errormsg();
  look_after_stores();
  EXPECT_TRUE(std::any_of(zeros.begin(), zeros.end(), [&](const std::uint64_t* word) {
    return side.cluster_holding(static_cast<std::uint64_t>(reinterpret_cast<const char*>(word) - in_.base())) != 0;
  }));
  EXPECT_EQ(t.end(), 0) << nvm_errormsg();
  look_after_stores();
  EXPECT_EQ(nvm_store_delete(pool(), "young"), 0) << nvm_errormsg();
}

// Lines of a store's first page are written back before it is closed, also if no other transaction is open: what comes
// next for another store writes back all that the log still has.
TEST(young_store, is_written_back_before_it_is_closed) {
  for (const std::uint32_t engine : {NVM_ENGINE_UNDO, NVM_ENGINE_REDO, NVM_ENGINE_MNEMOSYNE}) {
    with_store in{"young_store"};
    in.create(engine, false, NVM_PERSIST_CLFLUSHOPT);
    in.fill_store();
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(nvm_store_create(in.pool(), ("young" + std::to_string(i)).c_str(), nullptr), 0) << nvm_errormsg();
      EXPECT_EQ(in.sum_of_store(), with_store::sum);
    }
  }
}

// Between the moment when a store leaves and the one when its handle says so.
TEST_P(leaving_store, is_not_changed_by_a_handle_that_does_not_know_yet) {
  engines::store_side& side = **pool()->engine->stores();
  nvm_store* const s = attached();
  engines::left_open left;
  open_store* const of = s->of;
  ASSERT_TRUE(side.detach(*of, left));
  void* const root = nvm_store_get_root(s);
  EXPECT_NE(nvm_store_set_root(s, nullptr), 0);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
  EXPECT_NE(nvm_store_set_root(s, nullptr), 0);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_abort(pool()), 0) << nvm_errormsg();
  nvm_kv_options o{};
  EXPECT_EQ(nvm_kv_open_in(s, "one", &o), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  // The same by one that was attached before that.
  const auto again = side.attach(s->page, false);
  ASSERT_TRUE(again);
  ASSERT_EQ(*again, of);
  EXPECT_NE(nvm_store_set_root(s, nullptr), 0);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << nvm_errormsg();
  EXPECT_EQ(nvm_store_get_root(s), root);
  EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
}

// A collection of a detached store attaches it for itself.
TEST_P(leaving_store, is_collected_and_programs_get_no_right_by_that) {
  using api::attachments;
  const auto rights = [&] { return api::rights_at(*pool(), in_.place()); };
  std::atomic<bool> over{false};
  std::thread collector{[&] {
    while (!over.load()) {
      nvm_store_gc_options o{};
      o.dry_run = 1;
      nvm_store_gc_report report;
      (void)nvm_store_gc(pool(), "closed", &o, &report);
      o.dry_run = 0;
      (void)nvm_store_gc(pool(), "closed", &o, &report);
    }
  }};
  const int turns = sanitized ? 60 : 400;
  for (int i = 0; i < turns; ++i) {
    for (int looks = 0; looks < 100; ++looks) EXPECT_EQ(rights(), attachments::rights::none);
    const bool reads = i % 2 != 0;
    nvm_store* const s = nvm_store_attach(pool(), "closed", reads ? unsigned{NVM_STORE_READ_ONLY} : 0U);
    if (s == nullptr) {
      EXPECT_EQ(nvm_errno(), NVM_E_BUSY) << nvm_errormsg();  // it is collected for the other use
      continue;
    }
    EXPECT_EQ(rights(), reads ? attachments::rights::reads : attachments::rights::changes);
    EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
  }
  over = true;
  collector.join();
}

// An object that another thread has freed waits, and its store is attached read-only now.
TEST_P(leaving_store, keeps_an_object_that_was_freed_late_and_others_go) {
  engines::store_side& side = **pool()->engine->stores();
  unsigned misuses = 0;
  nvm_set_misuse_handler([](const nvm_misuse*, void* count) { ++*static_cast<unsigned*>(count); }, &misuses);
  nvm_store* const s = attached(NVM_STORE_READ_ONLY);
  ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
  void* const own = nvm_alloc(pool(), 1, 64);
  ASSERT_NE(own, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  pool()->late.leave(*pool()->engine, in_.place(), side.attachment_of(*side.holder(in_.place())));
  nvm_malloc_free(own);
  EXPECT_EQ(pool()->late.waiting(), 2U);
  ASSERT_EQ(nvm_tx_begin(pool()), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_tx_commit(pool()), 0) << nvm_errormsg();
  EXPECT_EQ(pool()->late.waiting(), 0U);
  EXPECT_EQ(misuses, 1U);
  nvm_set_misuse_handler(nullptr, nullptr);
  EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
}

// Stray stores from several threads, while the store comes and goes.
TEST_P(leaving_store, is_met_by_stray_stores_of_threads) {
  std::atomic<bool> over{false};
  std::atomic<unsigned> refused{0}, taken{0};
  std::vector<std::thread> strays;
  for (int i = 0; i < 2; ++i) {
    strays.emplace_back([&, i] {
      struct target {
        item* at;
        bool first;
      } to{at_, i == 0};
      while (!over.load()) {
        const int done = nvm_stm_run(
            pool(),
            [](nvm_stm* tx, void* p) {
              const auto* const t = static_cast<target*>(p);
              if (t->first) (void)nvm_stm_alloc(tx, 1, 64);
              nvm_stm_store64(tx, &t->at->number, 999);
              return t->first ? 7 : 0;
            },
            &to);
        if (done == 0 || done == 7) {
          ++taken;
          continue;
        }
        ++refused;
        EXPECT_TRUE(nvm_errno() == NVM_E_BAD_POINTER || nvm_errno() == NVM_E_READ_ONLY) << nvm_errormsg();
      }
    });
  }
  const int turns = sanitized ? 60 : 400;
  for (int i = 0; i < turns || ((taken == 0 || refused == 0) && i < 100 * turns); ++i) {
    nvm_store* const s = attached(i % 3 == 2 ? unsigned{NVM_STORE_READ_ONLY} : 0U);
    if (s == nullptr) break;
    std::this_thread::yield();
    EXPECT_EQ(nvm_store_detach(s), 0) << nvm_errormsg();
    look_after_stores();
  }
  over = true;
  for (std::thread& t : strays) t.join();
  EXPECT_GT(taken, 0U);
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace nvm::tests
