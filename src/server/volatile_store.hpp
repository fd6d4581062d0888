// Items in ordinary memory, under locks: a twin for tests of the protocol and for comparison in benchmarks. It forgets
// everything when the process ends.
//
// Threads: a mutex for each shard and one for flushes, none held while another is taken. Items are counted: a
// session holds what it has found until it leaves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/item_store.hpp"

namespace nvm::server {

class volatile_store final : public item_store {
 public:
  explicit volatile_store(std::uint64_t limit_bytes) noexcept : limit_{limit_bytes} {}
  ~volatile_store() override;

  std::unique_ptr<item_session> open_session() override;
  bool wait(position) noexcept override { return true; }
  [[nodiscard]] bool failed() const noexcept override { return false; }
  bool close() noexcept override { return true; }
  [[nodiscard]] std::string failure() const override { return {}; }
  [[nodiscard]] bool is_durable(position) const noexcept override { return true; }
  std::size_t sweep(item_session& by, const sweep_wish& wish, const sweep_listener& told) override;
  void for_each(item_session& by, const std::function<bool(const item&)>& visit) override;
  [[nodiscard]] usage used() noexcept override;
  void limit(std::uint64_t bytes) noexcept override;
  [[nodiscard]] std::uint64_t flushed_before() const noexcept override;
  bool flush_all(std::uint32_t at, std::uint32_t now) noexcept override;
  void tick(std::uint32_t now) noexcept override;
  [[nodiscard]] std::string_view place() const noexcept override { return "ordinary memory"; }
  [[nodiscard]] std::string_view survives() const noexcept override { return "nothing"; }

 private:
  class session;
  struct node;
  struct shard {
    std::mutex mutex;  // of all below
    std::unordered_map<std::string_view, node*> items;
    std::vector<node*> ring;  // for the clock's hand; a node knows its place
    std::size_t hand = 0;
  };
  static constexpr std::size_t shards = 64;

  static node* make(std::string_view key, std::size_t value_bytes);
  static void release(node* n) noexcept;
  static item seen(node& n) noexcept;
  static std::size_t memory_of(const node& n) noexcept;
  shard& shard_of(std::string_view key) noexcept;
  void unlink(shard& s, node* n) noexcept;
  void unlink_from_ring(shard& s, node* n) noexcept;
  void count(const node& n, std::int64_t sign) noexcept;
  // flush_all() at once; the caller holds flush_mutex_.
  void flush_now() noexcept;

  std::array<shard, shards> shards_;
  std::mutex flush_mutex_;  // of changing what is flushed
  // relaxed, unless noted: each number stands for itself; a thread that needs it exact holds the lock of the shard.
  std::atomic<std::uint64_t> items_{0};
  std::atomic<std::uint64_t> item_bytes_{0};
  std::atomic<std::uint64_t> memory_{0};
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> next_cas_{1};
  std::atomic<std::uint64_t> flushed_before_{0};
  std::atomic<std::uint32_t> flush_at_{0};
  std::atomic<std::size_t> next_shard_{0};
};

}  // namespace nvm::server
