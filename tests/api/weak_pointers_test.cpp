// Weak pointers of the C interface: they keep nothing alive, and are null before their object's memory is used again.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "nvm/describe.hpp"
#include "nvm/gc.hpp"
#include "nvm/stm.hpp"
#include "platform/platform.hpp"
#include "scratch.hpp"

namespace nvm::tests {

// In C++, told by templates.
struct twig {
  p<std::uint64_t> number;
  ref<twig> child;
  weak<twig> parent;
};

namespace {

constexpr std::uint32_t twig_id = NVM_TYPE_ID(nvm::tests::twig);
const bool twigs_are_known = describe<twig>(nvm::field("number", &twig::number), nvm::field("child", &twig::child),
                                            nvm::field("parent", &twig::parent));

struct branch {
  std::uint64_t number;
  branch* child;
  branch* parent;  // weak
  branch* others[];
};
constexpr std::uint32_t branch_id = NVM_TYPE_ID(branch);
// Two weak pointers, neither of which lies in one word.
struct [[gnu::packed]] tight {
  char name[3];
  branch* first;
  char more;
  branch* second;
};
constexpr std::uint32_t tight_id = NVM_TYPE_ID(tight);
static_assert(sizeof(tight) == 20);
// As many weak pointers as there is room for.
struct watcher {
  branch* of[1];
};
constexpr std::uint32_t watcher_id = NVM_TYPE_ID(watcher);

nvm_field_description told(const char* name, std::uint64_t offset, nvm_field_kind kind, std::uint64_t count = 1) {
  const bool points = kind == NVM_FIELD_POINTER || kind == NVM_FIELD_WEAK_POINTER;
  return {name, offset, kind == NVM_FIELD_CHAR ? 1U : 8U, count, kind, 0, points ? "branch" : nullptr, nullptr};
}
template <std::size_t N>
bool know(const char* name, std::uint64_t size, std::uint32_t align, const nvm_field_description (&fields)[N]) {
  const nvm_type_description type{name, size, align, N, fields};
  return nvm_describe_type(&type) == 0;
}
void know_types() {
  static const bool known =
      know("branch", 24, 8,
           {told("number", 0, NVM_FIELD_UNSIGNED), told("child", 8, NVM_FIELD_POINTER),
            told("parent", 16, NVM_FIELD_WEAK_POINTER), told("others", 24, NVM_FIELD_POINTER, 0)}) &&
      know("tight", 20, 1,
           {told("name", 0, NVM_FIELD_CHAR, 3), told("first", 3, NVM_FIELD_WEAK_POINTER),
            told("more", 11, NVM_FIELD_CHAR), told("second", 12, NVM_FIELD_WEAK_POINTER)}) &&
      know("watcher", 8, 8, {told("of", 0, NVM_FIELD_WEAK_POINTER)});
  ASSERT_TRUE(known) << nvm_errormsg();
}

std::string findings(const std::string& path) {
  std::string all;
  const auto add = [](std::uint64_t, const char* text, void* to) { *static_cast<std::string*>(to) += text; };
  EXPECT_GE(nvm_pool_check(path.c_str(), add, &all, nullptr), 0) << nvm_errormsg();
  return all;
}

class weak_pointers : public testing::TestWithParam<pool_kind> {
 protected:
  void SetUp() override { know_types(); }
  void create(std::uint32_t collect = NVM_COLLECT_AT_REST) {
    nvm_pool_options o{};
    o.size = std::size_t{16} << 20;
    o.collect = collect;
    choose(o, GetParam());
    pool_ = nvm_pool_create_with(place_.path().c_str(), &o);
    ASSERT_NE(pool_, nullptr) << nvm_errormsg();
    root_ = static_cast<branch*>(make(branch_id, sizeof(branch) + roots * sizeof(branch*)));
    ASSERT_EQ(nvm_pool_set_root(pool_, root_), 0) << nvm_errormsg();
  }
  void close() {
    ASSERT_EQ(nvm_pool_close(pool_), 0) << nvm_errormsg();
    EXPECT_EQ(findings(place_.path()), "");
  }
  void* make(std::uint32_t type, std::size_t bytes) {
    const bool own = nvm_tx_depth(pool_) == 0;
    EXPECT_TRUE(!own || nvm_tx_begin(pool_) == 0) << nvm_errormsg();
    void* made = nvm_calloc(pool_, type, 1, bytes);
    EXPECT_NE(made, nullptr) << nvm_errormsg();
    EXPECT_TRUE(!own || nvm_tx_commit(pool_) == 0) << nvm_errormsg();
    return made;
  }
  branch* make_branch() {
    auto* b = static_cast<branch*>(make(branch_id, sizeof(branch)));
    set(&b->number, std::uint64_t{77});
    return b;
  }
  template <class T>
  void set(T* field, T to) {
    const bool own = nvm_tx_depth(pool_) == 0;
    EXPECT_TRUE(!own || nvm_tx_begin(pool_) == 0) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_log(field, sizeof *field), 0) << nvm_errormsg();
    std::memcpy(static_cast<void*>(field), &to, sizeof to);
    EXPECT_TRUE(!own || nvm_tx_commit(pool_) == 0) << nvm_errormsg();
  }
  nvm_settle_report settled() {
    nvm_settle_report r{};
    EXPECT_EQ(nvm_settle(pool_, &r), 0) << nvm_errormsg();
    EXPECT_EQ(r.drifted_counts + r.damaged_records, 0U);
    return r;
  }
  bool is_there(const void* p) { return nvm_object_around(pool_, p) != nullptr; }

  static constexpr std::size_t roots = 4;
  scratch place_{GetParam()};
  NVM_POOL* pool_ = nullptr;
  branch* root_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(kinds, weak_pointers, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(weak_pointers, become_null_with_the_last_reference) {
  create();
  branch* a = make_branch();
  set(&root_->child, a);
  set(&root_->parent, a);
  set(&a->parent, root_);
  EXPECT_EQ(settled().cleared_pointers, 0U);
  EXPECT_EQ(nvm_weak_get(&root_->parent), a);
  EXPECT_EQ(nvm_drop(a), 0);
  nvm_reference_counts c{};
  ASSERT_EQ(nvm_references(a, &c), 0);
  EXPECT_EQ(c.weak, 1U);
  set(&root_->child, static_cast<branch*>(nullptr));
  EXPECT_EQ(root_->parent, a) << "until it is settled";
  EXPECT_EQ(nvm_weak_get(&root_->parent), nullptr) << "though its memory is there";
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  const nvm_settle_report r = settled();
  EXPECT_EQ(r.cleared_pointers, 1U);
  EXPECT_EQ(r.freed_objects, 1U);
  EXPECT_EQ(r.waiting_objects, 0U);
  EXPECT_EQ(root_->parent, nullptr);
  EXPECT_FALSE(is_there(a));
  ASSERT_EQ(nvm_references(root_, &c), 0);
  EXPECT_EQ(c.weak, 0U) << "of what is freed with it";
  close();
}

TEST_P(weak_pointers, of_any_number_into_any_place_become_null) {
  create();
  branch* a = make_branch();
  branch* b = make_branch();
  branch* c = make_branch();
  set(&root_->child, a);
  set(&a->child, b);
  set(&b->parent, a);
  set(&a->parent, b);
  constexpr unsigned watchers = 1500;  // more than a count tells
  auto* all = static_cast<watcher*>(make(watcher_id, watchers * sizeof(watcher)));
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  for (unsigned i = 0; i < watchers; ++i) {
    set(&all[i].of[0], reinterpret_cast<branch*>(reinterpret_cast<char*>(i % 2 == 0 ? a : b) + i % 16));
  }
  set(&all[0].of[0], c);  // which lives, and so do pointers to it
  set(&root_->others[0], c);
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  auto* t = static_cast<tight*>(make(tight_id, sizeof(tight)));
  ASSERT_EQ(nvm_tx_begin(pool_), 0);
  ASSERT_EQ(nvm_tx_log(t, sizeof *t), 0);
  *t = {{'a', 'b', 'c'}, a, 'd', b};
  ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
  set(&root_->child, static_cast<branch*>(nullptr));
  const nvm_settle_report r = settled();
  EXPECT_EQ(r.freed_objects, 2U);
  EXPECT_EQ(r.cleared_pointers, watchers - 1 + 2 + 1) << "the one in a went with it";
  for (unsigned i = 1; i < watchers; ++i) ASSERT_EQ(all[i].of[0], nullptr);
  EXPECT_EQ(all[0].of[0], c);
  EXPECT_EQ(std::memcmp(t, "abc\0\0\0\0\0\0\0\0d\0\0\0\0\0\0\0\0", sizeof *t), 0);
  EXPECT_EQ(settled().waiting_objects, 0U);
  close();
}

TEST_P(weak_pointers, bring_back_what_is_held) {
  create();
  branch* a = make_branch();
  set(&root_->child, a);
  set(&root_->parent, a);
  settled();
  ASSERT_EQ(nvm_hold(a), 0);
  set(&root_->child, static_cast<branch*>(nullptr));
  EXPECT_EQ(settled().waiting_objects, 1U);
  EXPECT_EQ(nvm_weak_get(&root_->parent), nullptr);
  EXPECT_EQ(root_->parent->number, 77U);
  set(&root_->child, root_->parent);
  EXPECT_EQ(nvm_weak_get(&root_->parent), a) << "before it is settled";
  ASSERT_EQ(nvm_drop(a), 0);
  ASSERT_EQ(nvm_drop(a), 0);
  EXPECT_EQ(settled().freed_objects, 0U);
  EXPECT_EQ(root_->parent, a);
  set(&root_->child, static_cast<branch*>(nullptr));
  ASSERT_EQ(nvm_pool_close(pool_), 0);  // settles
  nvm_pool_options o{};
  o.collect = NVM_COLLECT_AT_REST;
  pool_ = nvm_pool_open_with(place_.path().c_str(), &o);
  ASSERT_NE(pool_, nullptr) << nvm_errormsg();
  EXPECT_EQ(static_cast<branch*>(nvm_pool_get_root(pool_))->parent, nullptr);
  close();
}

TEST_P(weak_pointers, to_a_cycle_become_null_when_it_is_collected) {
  for (const std::uint32_t collect : {NVM_COLLECT_OFF, NVM_COLLECT_AT_REST}) {
    create(collect);
    branch* a = make_branch();
    branch* b = make_branch();
    set(&root_->child, a);
    set(&a->child, b);
    set(&b->child, a);
    set(&root_->parent, reinterpret_cast<branch*>(&b->child));
    set(&a->parent, root_);
    EXPECT_EQ(nvm_weak_get(&root_->parent), &b->child);
    nvm_gc_report r{};
    set(&root_->child, static_cast<branch*>(nullptr));
    ASSERT_EQ(nvm_gc(pool_, nullptr, &r), 0) << nvm_errormsg();
    EXPECT_EQ(r.garbage_objects, 0U) << "held";
    ASSERT_EQ(nvm_drop(&b->child), 0) << nvm_errormsg();
    nvm_gc_options dry{};
    dry.dry_run = 1;
    ASSERT_EQ(nvm_gc(pool_, &dry, &r), 0) << nvm_errormsg();
    EXPECT_EQ(r.weak_pointers, 1U);
    EXPECT_EQ(root_->parent, reinterpret_cast<branch*>(&b->child));
    ASSERT_EQ(nvm_gc(pool_, nullptr, &r), 0) << nvm_errormsg();
    EXPECT_EQ(r.freed_objects, 2U);
    EXPECT_EQ(r.weak_pointers, 1U);
    EXPECT_EQ(r.mended_counts, 0U);
    EXPECT_EQ(root_->parent, nullptr);
    EXPECT_EQ(nvm_weak_get(&root_->parent), nullptr);
    close();
    ASSERT_EQ(::unlink(place_.path().c_str()), 0);
  }
}

TEST_P(weak_pointers, and_references_are_fields_of_cpp_in_either_kind_of_transaction) {
  ASSERT_TRUE(twigs_are_known) << nvm_errormsg();
  create();
  twig* root = nullptr;
  ASSERT_TRUE(transaction(pool_, [&] {
    root = nvm::make<twig>(pool_, twig_id);
    root->number = 1;
    root->child = nvm::make<twig>(pool_, twig_id);
    root->parent = root->child;
    root->child->parent = root;
  })) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_set_root(pool_, root), 0);
  EXPECT_EQ(settled().freed_objects, 1U) << "the root before";
  nvm_reference_counts c{};
  ASSERT_EQ(nvm_references(root->child, &c), 0);
  EXPECT_EQ(c.strong, 1U);
  EXPECT_EQ(c.weak, 1U);
  ASSERT_EQ(nvm_references(root, &c), 0);
  EXPECT_EQ(c.weak, 1U);
  held<twig> mine = lock(root->parent);
  EXPECT_EQ(mine.get(), root->child.get());
  // Rolled back: nothing has happened.
  EXPECT_FALSE(transaction(pool_, [&] {
    root->child = nullptr;
    return false;
  }));
  ASSERT_TRUE(atomic(pool_, [&](tx& t) {
    EXPECT_TRUE(lock(root->parent));
    auto* second = t.make<twig>(twig_id);
    second->number = 2;
    root->child->child = second;  // loads and stores are barriers
    root->parent = root->child->child;
  })) << nvm_errormsg();
  EXPECT_EQ(settled().freed_objects, 0U);
  EXPECT_EQ(root->parent->number, 2U);
  ASSERT_TRUE(atomic(pool_, [&] { root->child = nullptr; })) << nvm_errormsg();
  EXPECT_EQ(settled().freed_objects, 0U) << "held";
  EXPECT_TRUE(lock(root->parent)) << "referred to by what is held";
  mine = nullptr;
  const nvm_settle_report r = settled();
  EXPECT_EQ(r.freed_objects, 2U);
  EXPECT_EQ(r.cleared_pointers, 1U);
  EXPECT_EQ(root->parent, nullptr);
  EXPECT_FALSE(lock(root->parent));
  close();
}

// A process is killed while weak pointers become null and what they led to goes.
TEST_P(weak_pointers, lead_to_nothing_that_is_gone_after_a_kill) {
  constexpr unsigned watchers = 200;
  for (const unsigned delay : {1000, 3000, 9000}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::thread later{[delay] {
        std::this_thread::sleep_for(std::chrono::microseconds{delay});
        ::kill(::getpid(), SIGKILL);
      }};
      create();
      for (auto* all = static_cast<watcher*>(make(watcher_id, watchers * sizeof(watcher)));;) {
        set(&root_->others[0], reinterpret_cast<branch*>(all));
        (void)nvm_tx_begin(pool_);
        for (unsigned i = 0; i < watchers; ++i) set(&all[i].of[0], i % 8 == 0 ? make_branch() : all[i - 1].of[0]);
        for (unsigned i = 0; i < watchers; i += 8) set(&all[i].of[0]->child, i < 8 ? nullptr : all[i - 8].of[0]);
        set(&root_->child, all[watchers - 1].of[0]);
        (void)nvm_tx_commit(pool_);
        set(&root_->child, static_cast<branch*>(nullptr));
        (void)nvm_settle(pool_, nullptr);
      }
    }
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFSIGNALED(how));
    nvm_pool_options o{};
    o.collect = NVM_COLLECT_AT_REST;
    pool_ = nvm_pool_open_with(place_.path().c_str(), &o);
    if (pool_ == nullptr) {  // it was not there yet
      (void)::unlink(place_.path().c_str());
      continue;
    }
    const auto look = [](void* p, std::uint32_t type, std::size_t bytes, void* pool) {
      for (std::size_t i = 0; type == watcher_id && i < bytes / sizeof(watcher); ++i) {
        const branch* const to = static_cast<watcher*>(p)[i].of[0];
        EXPECT_TRUE(to == nullptr ||
                    (nvm_object_around(static_cast<NVM_POOL*>(pool), to) != nullptr && to->number == 77));
      }
      return 0;
    };
    EXPECT_EQ(nvm_pool_each(pool_, look, pool_), 0) << nvm_errormsg();
    close();
    ASSERT_EQ(::unlink(place_.path().c_str()), 0);
  }
}

// ---- while the program runs -----------------------------------------------------------------------------------------

TEST_P(weak_pointers, stay_while_a_transaction_is_open_that_may_follow_them) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "nothing is freed while the program runs here";
  create(NVM_COLLECT_BACKGROUND);
  branch* a = make_branch();
  set(&root_->child, a);
  set(&root_->parent, a);
  std::atomic<int> turn{0};
  std::thread reader{[&] {
    EXPECT_EQ(nvm_tx_begin(pool_), 0);
    turn = 1;
    while (turn != 2) std::this_thread::yield();
    EXPECT_EQ(root_->parent, a);
    EXPECT_EQ(root_->parent->number, 77U);
    EXPECT_EQ(nvm_tx_commit(pool_), 0);
  }};
  while (turn != 1) std::this_thread::yield();
  set(&root_->child, static_cast<branch*>(nullptr));
  for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(settled().cleared_pointers, 0U);
  turn = 2;
  reader.join();
  while (is_there(a)) settled();
  EXPECT_EQ(root_->parent, nullptr);
  close();
}

// Each thread has a cell, and a weak pointer to what was in it once.
TEST_P(weak_pointers, lead_to_what_lives_beside_threads_that_settle) {
  create(NVM_COLLECT_BACKGROUND);
  branch* weak[roots];
  for (branch*& w : weak) set(&root_->others[&w - weak], w = make_branch());
  for (branch* w : weak) set(&w->number, std::uint64_t{1});
  std::atomic<unsigned> at_work{roots - 1};
  const auto work = [&](unsigned me) {
    std::mt19937_64 random{me};
    branch* const mine = weak[me];
    for (unsigned i = 0; i < 150; ++i) {
      ASSERT_EQ(nvm_tx_begin(pool_), 0) << nvm_errormsg();
      if (mine->parent != nullptr) {
        ASSERT_EQ(mine->parent->number, 77U);
      }
      switch (random() % 4) {
        case 0:
          set(&mine->child, make_branch());
          set(&mine->parent, mine->child);
          break;
        case 1:
          set(&mine->child, static_cast<branch*>(nullptr));
          break;
        case 2:
          if (mine->parent != nullptr) set(&mine->child, mine->parent);
          break;
        default:
          if (auto* held = static_cast<branch*>(nvm_weak_get(&mine->parent)); held != nullptr) {
            ASSERT_EQ(held->number, 77U);
            ASSERT_EQ(nvm_drop(held), 0) << nvm_errormsg();
          }
      }
      ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    }
    --at_work;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i + 1 < roots; ++i) threads.emplace_back(work, i);
  while (at_work != 0) settled();
  for (std::thread& t : threads) t.join();
  settled();
  for (branch* w : weak) {
    EXPECT_TRUE(w->parent == nullptr || w->parent == w->child || !platform::can_fence_all_threads());
  }
  close();
}

TEST_P(weak_pointers, lead_to_what_lives_beside_barrier_transactions) {
  ASSERT_TRUE(twigs_are_known) << nvm_errormsg();
  create(NVM_COLLECT_BACKGROUND);
  twig* cells[roots];
  for (twig*& c : cells) {
    c = static_cast<twig*>(make(twig_id, sizeof(twig)));
    set(&root_->others[&c - cells], reinterpret_cast<branch*>(c));
  }
  std::atomic<unsigned> at_work{roots - 1};
  const auto work = [&](unsigned seed) {
    std::mt19937_64 random{seed};
    for (unsigned i = 0; i < 150; ++i) {
      twig* const mine = cells[random() % roots];
      const auto choice = random() % 4;
      const outcome done = atomic(pool_, [&](tx& t) {
        twig* const seen = mine->parent;
        EXPECT_TRUE(seen == nullptr || seen->number == 77U);
        if (choice == 0) {
          auto* made = t.make<twig>(twig_id);
          made->number = 77;
          mine->child = made;
          mine->parent = made;
        } else if (choice == 1) {
          mine->child = nullptr;
        } else if (choice == 2 && mine->parent != nullptr) {
          mine->child = mine->parent;
        } else if (const auto up = lock(mine->parent); up) {
          EXPECT_EQ(up->number, 77U);
        }
      });
      ASSERT_TRUE(done) << nvm_errormsg();
    }
    --at_work;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i + 1 < roots; ++i) threads.emplace_back(work, i);
  while (at_work != 0) settled();
  for (std::thread& t : threads) t.join();
  close();
}

}  // namespace
}  // namespace nvm::tests
