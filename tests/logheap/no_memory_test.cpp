// Volatile memory runs out at any allocation of a commit, a cleaner, a close or an open: all or nothing has happened,
// and once there is memory again everything goes on.
#include <array>
#include <cerrno>

#include "../fault_injection.hpp"
#include "ground.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::leaves;
using heap_ground = ground<leaves>;
using tests::fault;
using tests::injected;

constexpr std::uint64_t object_bytes = 700;
constexpr int objects = 12;

struct filled {
  heap_ground g;
  std::array<home_t, objects> homes{};
  filled() {
    for (int i = 0; i < objects; ++i) homes[static_cast<std::size_t>(i)] = g.put(object_bytes, i);
    for (int i = 0; i < objects; i += 2) g.paint(homes[static_cast<std::size_t>(i)], object_bytes / 2, i);
  }
  [[nodiscard]] std::byte first_of(int i) { return g.look(homes[static_cast<std::size_t>(i)], 1)[0]; }
  void expect_rest(int without) {
    for (int i = 0; i < objects; ++i) {
      if (i == without) continue;
      EXPECT_EQ(g.look(homes[static_cast<std::size_t>(i)], object_bytes),
                std::vector<std::byte>(object_bytes, static_cast<std::byte>(i)));
    }
    EXPECT_EQ(g->check(), "");
    for (std::uint32_t i = 0; i < g->chunks().count(); ++i) {
      EXPECT_NE(g->chunks().at(i).state.load(), chunk_state::cleaning) << "chunk " << i;
    }
  }
};

// Calls life(filled&) with each allocation of it failing in turn, alone or with all that follow; look(filled&) after.
template <class Life, class Look>
void at_each_allocation(Life&& life, Look&& look) {
  unsigned struck = 0;
  for (const bool lasting : {false, true}) {
    for (long first = 1;; ++first) {
      SCOPED_TRACE(std::to_string(first) + (lasting ? " and all that follow" : ""));
      filled f;
      try {
        injected.arm(fault::memory, ENOMEM, first, lasting);
        life(f);
      } catch (const std::bad_alloc&) {
        // The transaction's own stores.
      }
      injected.relieve();
      const bool is_last = !injected.struck();
      look(f);
      ASSERT_FALSE(::testing::Test::HasFailure());
      if (is_last) break;
      ++struck;
    }
  }
  EXPECT_GT(struck, 10U);
}

TEST(log_heap_no_memory, for_a_commit_leaves_what_was) {
  constexpr std::byte paint[object_bytes] = {std::byte{77}};
  bool done = false;
  at_each_allocation(
      [&](filled& f) {
        done = false;
        heap_ground::transaction_type t{*f.g, f.g.thread()};
        t.store(f.homes[5], paint, object_bytes);
        const auto fresh = t.allocate(object_bytes);
        if (!fresh || !t.release(f.homes[7])) return;
        t.store(*fresh, paint, object_bytes);
        done = bool{t.commit()};
      },
      [&](filled& f) {
        for (int lives = 0; lives < 2; ++lives) {
          EXPECT_EQ(f.first_of(5), done ? std::byte{77} : std::byte{5});
          EXPECT_EQ(f.g.objects().contains(f.homes[7]), !done);
          EXPECT_EQ(f.g.objects().size(), std::size_t{objects});
          EXPECT_EQ(f.g->check(), "");
          EXPECT_TRUE(f.g.crash_and_open()) << last_message();
        }
      });
}
// A commit that takes chunks from the space.
TEST(log_heap_no_memory, for_more_chunks_leaves_what_was_and_the_pages) {
  constexpr std::uint64_t large_bytes = 20000;
  bool done = false;
  at_each_allocation(
      [&](filled& f) {
        done = false;
        const std::vector<std::byte> bytes(large_bytes, std::byte{77});
        heap_ground::transaction_type t{*f.g, f.g.thread()};
        const auto fresh = t.allocate(large_bytes);
        if (!fresh) return;
        t.store(*fresh, bytes.data(), large_bytes);
        const auto committed = t.commit();
        done = bool{committed};
        EXPECT_TRUE(done || committed.error() == errc::no_memory) << last_message();
      },
      [&](filled& f) {
        // No pages but of the root and of chunks that the heap knows.
        unsigned unknown = 0;
        std::pair<heap_ground*, unsigned*> context{&f.g, &unknown};
        f.g.pages().each_owned(0, f.g.pages().size_pages(), &context, [](void* raw, const owned_pages& p) {
          const auto& [g, count] = *static_cast<decltype(context)*>(raw);
          if ((*g)->chunks().number_of(p.offset) == chunk_store<any_direct>::none) ++*count;
          return true;
        });
        EXPECT_EQ(unknown, 1U);
        EXPECT_EQ(f.g.objects().size(), static_cast<std::size_t>(objects + (done ? 1 : 0)));
        const home_t again = f.g.put(large_bytes, 78);
        f.expect_rest(-1);
        EXPECT_TRUE(f.g.crash_and_open()) << last_message();
        EXPECT_EQ(f.g.look(again, large_bytes), std::vector<std::byte>(large_bytes, std::byte{78}));
        f.expect_rest(-1);
      });
}
TEST(log_heap_no_memory, for_tables_of_chunks_is_told_by_open) {
  filled f;
  unsigned struck = 0;
  for (long first = 1;; ++first) {
    injected.arm(fault::memory, ENOMEM, first, false);
    heap_ground::heap_type other{f.g.medium(), f.g.base(), f.g.pages(), f.g.settings()};
    injected.relieve();
    if (!injected.struck()) break;
    ++struck;
    recovery_report report;
    EXPECT_EQ(other.open(report).error(), errc::no_memory);
    EXPECT_NE(std::string{last_message()}.find("tables of chunks"), std::string::npos) << last_message();
  }
  EXPECT_EQ(struck, 2U);
  f.expect_rest(-1);
}
TEST(log_heap_no_memory, for_a_cleaner_costs_only_its_pass) {
  at_each_allocation([](filled& f) { (void)f.g->clean(4, true); },
                     [](filled& f) {
                       f.expect_rest(-1);
                       while (f.g->clean(4, true) != 0) {
                       }
                       f.expect_rest(-1);
                       EXPECT_TRUE(f.g.crash_and_open()) << last_message();
                       f.expect_rest(-1);
                     });
}
TEST(log_heap_no_memory, for_a_close_costs_the_next_open_its_speed) {
  bool closed = false;
  at_each_allocation(
      [&](filled& f) {
        f.g->leave(f.g.thread());
        const status s = f.g->close();
        closed = bool{s};
        EXPECT_TRUE(s || s.error() == errc::no_memory) << last_message();
      },
      [&](filled& f) {
        EXPECT_TRUE(f.g.crash_and_open()) << last_message();
        EXPECT_EQ(f.g.report().clean, closed);
        f.expect_rest(-1);
      });
}
TEST(log_heap_no_memory, for_an_open_leaves_everything_to_the_next) {
  for (const bool closed : {false, true}) {
    for (long first = 1;; ++first) {
      SCOPED_TRACE(first);
      filled f;
      if (closed) {
        f.g->leave(f.g.thread());
        ASSERT_TRUE(f.g->close());
      }
      const status s = f.g.crash_and_open_within([&](auto&& open) {
        injected.arm(fault::memory, ENOMEM, first, true);
        const status opened = open();
        injected.relieve();
        return opened;
      });
      if (!injected.struck()) break;
      EXPECT_TRUE(s || s.error() == errc::no_memory) << last_message();
      EXPECT_TRUE(f.g.crash_and_open()) << last_message();
      f.expect_rest(-1);
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
  }
}

}  // namespace
}  // namespace nvm::logheap
