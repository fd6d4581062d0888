// One protocol that publishes by compare-and-swap, unchanged on a direct and on an image medium: an acknowledged push
// is on the stack after the loss of everything that was not durable.
//
// Method: threads push; at arbitrary moments, and at the end, the world loses everything not durable; the
// stack that is left is walked.  The twin without the flush of the head must be found out.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <thread>
#include <unordered_map>

#include "image_rig.hpp"
#include "media/media.hpp"

namespace nvm {
namespace {

using namespace test;

constexpr std::size_t threads_count = 4;
constexpr std::uint64_t pushes = 40;  // of each thread

// Offsets instead of pointers: the image is walked at another address.
struct node {
  std::uint64_t value;
  std::uint64_t next;  // offset of the node below, 0: none
};
constexpr std::uint64_t head_offset = data_offset;
constexpr std::uint64_t nodes_offset = data_offset + 4096;

// Push:  S store, F flush, | fence, D wait.
//   1. S value, next; F node;  | stack/E1  the node is durable, or ordered, before anything names it
//   2. S head (CAS);  F head;  | stack/E2  publication
//   3. D                       acknowledge
template <bool flush_head, media M>
[[nodiscard]] bool push(M& m, std::byte* base, std::uint64_t offset, std::uint64_t value) {
  auto* n = reinterpret_cast<node*>(base + offset);
  const std::atomic_ref head{*reinterpret_cast<std::uint64_t*>(base + head_offset)};
  n->value = value;
  std::uint64_t top = head.load(std::memory_order_acquire);
  do {
    n->next = top;
    persist(m, n, sizeof *n, edge{"stack/E1"});
    // release: pairs with the acquire load of other pushes, which flush the head that names this node.
  } while (!head.compare_exchange_weak(top, offset, std::memory_order_release, std::memory_order_acquire));
  if (flush_head) persist(m, base + head_offset, 8, edge{"stack/E2"});
  return m.durable(m.last_lsn()).has_value();
}

// Direct medium with a shadow that holds what is guaranteed: a line gets there as it was when a thread
// flushed it, once that thread has fenced.
class direct_world {
 public:
  direct_world() : memory_(file_bytes / sizeof(page)), durable_(file_bytes) {}
  [[nodiscard]] std::byte* base() noexcept { return memory_[0].bytes; }
  [[nodiscard]] auto& medium() noexcept { return recorder_; }
  [[nodiscard]] std::vector<std::byte> after_loss() {
    const std::lock_guard held{shadow_.lock};
    return durable_;
  }

 private:
  struct line_copy {
    std::uint64_t order;
    std::array<std::byte, line_bytes> bytes;
  };
  struct shadow final : record_sink {
    explicit shadow(direct_world& w) : world{w} {}
    void flush(const void* p, std::size_t bytes, site) noexcept override {
      const std::lock_guard held{lock};
      const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - world.base());
      for (std::uint64_t line = offset / line_bytes; line * line_bytes < offset + bytes; ++line) {
        line_copy& copy = flushed[std::this_thread::get_id()][line];
        copy.order = ++order;
        capture(copy.bytes.data(), world.base() + line * line_bytes, line_bytes);
      }
    }
    void fence(edge) noexcept override {
      const std::lock_guard held{lock};
      for (const auto& [line, copy] : flushed[std::this_thread::get_id()]) {
        // A line never goes back to what it was before.
        if (copy.order < reached[line]) continue;
        reached[line] = copy.order;
        std::memcpy(&world.durable_[line * line_bytes], copy.bytes.data(), line_bytes);
      }
      flushed[std::this_thread::get_id()].clear();
    }
    void publish(std::span<const recorded_range>, edge, lsn_t, errc) noexcept override {}
    void durable_begin(lsn_t) noexcept override {}
    void durable_end(lsn_t, errc) noexcept override {}

    direct_world& world;
    std::mutex lock;
    std::uint64_t order = 0;
    std::map<std::thread::id, std::map<std::uint64_t, line_copy>> flushed;
    std::unordered_map<std::uint64_t, std::uint64_t> reached;
  };

  std::vector<page> memory_;
  std::vector<std::byte> durable_;
  direct_media direct_{isa::best_write_back()};
  shadow shadow_{*this};
  recorder<direct_media> recorder_{direct_, shadow_};
};

class image_world {
 public:
  [[nodiscard]] std::byte* base() noexcept { return rig_.image(); }
  [[nodiscard]] image_media& medium() noexcept { return *rig_.medium; }
  [[nodiscard]] std::vector<std::byte> after_loss() {
    memory_device device{rig_.device.crash_losing_all_unsynced()};
    EXPECT_TRUE(replay(device, rig_.ring())) << last_message();
    return device.content();
  }

 private:
  image_rig rig_;
};

// Values on the stack that a loss left, with how often each is there.
std::map<std::uint64_t, unsigned> walk(const std::vector<std::byte>& content) {
  std::map<std::uint64_t, unsigned> seen;
  std::uint64_t at = 0;
  std::memcpy(&at, &content[head_offset], 8);
  for (std::uint64_t steps = 0; at != 0; ++steps) {
    node n{};
    if (steps > threads_count * pushes || !range_inside(at, sizeof n, content.size())) {
      ADD_FAILURE() << "the chain leads to " << at << " after " << steps << " nodes";
      break;
    }
    std::memcpy(&n, &content[at], sizeof n);
    ++seen[n.value];
    at = n.next;
  }
  return seen;
}

// Acknowledged pushes that are missing or double after a loss; the world goes through several of them.
template <class World, bool flush_head>
std::uint64_t lost_pushes() {
  World world;
  std::array<std::atomic<std::uint64_t>, threads_count> acknowledged{};
  std::array<std::thread, threads_count> threads;
  for (std::uint64_t t = 0; t < threads_count; ++t)
    threads[t] = std::thread{[&, t] {
      for (std::uint64_t i = 0; i < pushes; ++i) {
        const std::uint64_t offset = nodes_offset + (t * pushes + i) * 2 * sizeof(node);
        ASSERT_TRUE((push<flush_head>(world.medium(), world.base(), offset, t * pushes + i + 1)));
        // release: pairs with the acquire below: the push is over.
        acknowledged[t].store(i + 1, std::memory_order_release);
      }
    }};
  std::uint64_t lost = 0;
  const auto lose = [&] {
    std::array<std::uint64_t, threads_count> expected{};
    for (std::size_t t = 0; t < threads_count; ++t) expected[t] = acknowledged[t].load(std::memory_order_acquire);
    const auto seen = walk(world.after_loss());
    for (std::uint64_t t = 0; t < threads_count; ++t)
      for (std::uint64_t i = 0; i < expected[t]; ++i) {
        const auto found = seen.find(t * pushes + i + 1);
        if (found == seen.end() || found->second != 1) ++lost;
      }
    return expected;
  };
  for (int i = 0; i < 20; ++i) lose();
  for (auto& t : threads) t.join();
  const auto expected = lose();
  for (const std::uint64_t e : expected) EXPECT_EQ(e, pushes);
  return lost;
}

template <class World>
class cas_publish : public ::testing::Test {};
using worlds = ::testing::Types<direct_world, image_world>;
TYPED_TEST_SUITE(cas_publish, worlds);

TYPED_TEST(cas_publish, every_acknowledged_node_survives_the_loss_of_what_is_not_durable) {
  for (int round = 0; round < 5; ++round) EXPECT_EQ((lost_pushes<TypeParam, true>()), 0u);
}

TYPED_TEST(cas_publish, loses_nodes_without_the_flush_of_the_head) { EXPECT_GT((lost_pushes<TypeParam, false>()), 0u); }

}  // namespace
}  // namespace nvm
