// Items in a pool: the store in which acknowledged changes survive.
//
// The pool holds a lock-free hash table of bytes, "nv-memcached items". The value of an entry is the item's header
// (stored_item) and its bytes; its mark is the item's state word. A table of words, "nv-memcached state", holds the
// facts about all items: the end of the cas ids that may have been given out, the id before which all items are
// flushed, and the time of the next flush, or the id of one that was carried out in its place.
//
// Order of changes. Cas ids are given out from a block whose end was stored first, so an id is never given out twice,
// also after a crash; the id of a flush is one of them. A flush is one stored word. An item's change is one of the hash
// table's, durable when its position is.
// Threads: everything may be called by any thread. Lock order: 1. sweeping, 2. fetching a block of cas ids, or 2.
// changing what is flushed; most commands take none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.hpp"
#include "nvm/lockfree.h"
#include "server/item_store.hpp"
#include "server/settings.hpp"

namespace nvm::server {

class durable_store final : public item_store {
 public:
  // Opens the pool, or makes it.
  static result<std::unique_ptr<durable_store>> open(const settings& given);
  ~durable_store() override;

  std::unique_ptr<item_session> open_session() override;
  bool wait(position p) noexcept override;
  [[nodiscard]] bool is_durable(position p) const noexcept override { return p == 0; }
  // acquire: pairs with the release in note_failure(); a thread that sees it may read the sentence.
  [[nodiscard]] bool failed() const noexcept override { return failed_.load(std::memory_order_acquire); }
  bool close() noexcept override;
  [[nodiscard]] std::string failure() const override;
  std::size_t sweep(item_session& by, const sweep_wish& wish, const sweep_listener& told) override;
  void for_each(item_session& by, const std::function<bool(const item&)>& visit) override;
  [[nodiscard]] usage used() noexcept override;
  [[nodiscard]] std::uint64_t damaged_misses() const noexcept override {
    return damaged_.load(std::memory_order_relaxed);
  }
  void limit(std::uint64_t bytes) noexcept override;
  [[nodiscard]] std::uint64_t flushed_before() const noexcept override;
  bool flush_all(std::uint32_t at, std::uint32_t now) noexcept override;
  void tick(std::uint32_t now) noexcept override;
  [[nodiscard]] std::string_view place() const noexcept override { return path_; }
  [[nodiscard]] std::string_view survives() const noexcept override { return survives_; }

 private:
  class session;
  // For a store that never served, or that an exception ends: the result of the close is not reported.
  struct pool_closer {
    void operator()(NVM_POOL* p) const noexcept;
  };

  durable_store();
  // After a failed call of the library: whether it lacked room. Any other failure is noted.
  [[nodiscard]] bool lacked_room() noexcept;
  // Notes a failure. One of the medium ends the store; damage is reported once.
  void note_failure() noexcept;
  // Whether a found entry matches its checksum. If not, that is counted, and the first is reported.
  [[nodiscard]] bool is_whole(const nvm_lf_entry& e) noexcept;
  [[nodiscard]] bool put_state(std::uint64_t word, std::uint64_t value) noexcept;
  void stop_counting() noexcept;
  [[nodiscard]] status read_state();
  [[nodiscard]] result<std::uint64_t> state_word(std::uint64_t word) const;
  [[nodiscard]] errc bad_state(const std::string& why) const;
  status open_pool(const settings& given);
  status open_tables(bool is_new, const settings& given);
  [[nodiscard]] bool have_cas_ids() noexcept;
  // flush_all() at once; the caller has cas ids, and holds flush_mutex_.
  [[nodiscard]] bool flush_now() noexcept;
  // Moves the id of a flush that has ended one that waited to its own word; the caller holds flush_mutex_. False: there
  // is no room, or the store has failed; the next flush does it.
  [[nodiscard]] bool settle_flush() noexcept;
  void learn_sizes();
  // Bytes of the pool that an item takes.
  [[nodiscard]] std::uint64_t memory_of(std::size_t key, std::size_t value) const noexcept;
  void count(std::size_t key, std::size_t value, std::int64_t sign) noexcept;
  void begin_counting();
  void count_what_was_there() noexcept;

  std::unique_ptr<NVM_POOL, pool_closer> pool_;
  nvm_lf* items_ = nullptr;
  nvm_lf* state_ = nullptr;
  std::string path_;
  std::string survives_;
  std::uint64_t base_ = 0;
  std::uint64_t capacity_ = 0;
  bool verify_reads_ = true;

  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;  // of the next two
  std::string failure_;
  bool damage_told_ = false;

  // relaxed, unless noted: each word stands for itself.
  std::atomic<std::uint64_t> next_cas_{1};
  std::atomic<std::uint64_t> cas_limit_{0};  // ids below it may be given out
  std::atomic<std::uint64_t> flushed_before_{0};
  std::atomic<std::uint32_t> flush_at_{0};
  std::atomic<std::uint64_t> limit_{0};
  std::atomic<std::uint64_t> item_bytes_{0};
  std::atomic<std::uint64_t> memory_{0};
  std::atomic<std::uint64_t> damaged_{0};
  std::atomic<std::uint64_t> places_made_{0};  // memory that was emptied for items of other sizes
  std::vector<std::uint32_t> sizes_;           // memory of an item with so many bytes of key, header and value / 8

  std::mutex cas_mutex_;      // of fetching a block of ids
  std::mutex flush_mutex_;    // of changing what is flushed, and of the next
  bool flush_ended_ = false;  // the word of the next flush has the id of the last one
  std::mutex sweep_mutex_;    // of the next two
  std::uint64_t cursor_ = 0;
  struct victim;
  struct victims;
  struct sweep_choice;
  struct goodbye;
  // Removes the chosen item. False: it has changed since.
  [[nodiscard]] bool remove(item_session& by, goodbye& bye, const sweep_listener& told);
  // Room for a new item that takes `room` bytes, where `first` lies; how many items went for it.
  [[nodiscard]] std::size_t make_place(item_session& by, const victim& first, std::uint64_t room, std::uint32_t now,
                                       const sweep_listener& told);
  std::unique_ptr<victims> victims_;

  // Items from before the opening of the pool are counted while it serves: one byte for each place of an item says
  // whether that item is counted. Null: everything was counted before.
  struct counted_places;
  std::unique_ptr<counted_places> counted_;
  std::atomic<bool> counting_{false};
  std::atomic<bool> stop_counting_{false};
  std::thread counter_;
};

}  // namespace nvm::server
