// A structure in a pool: its shape (list, hash table, ...) over durable memory, and what recovery asks of it.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "lockfree/catalogue.hpp"
#include "lockfree/concept.hpp"
#include "lockfree/node_memory.hpp"
#include "lockfree/nodes.hpp"

namespace nvm::lockfree {

// Shape: list.hpp, hash_table.hpp, ...: a template whose only open parameter is its memory.
template <media M, template <class> class Shape>
class durable final : public structure {
 public:
  using memory_type = node_memory<M>;
  using shape_type = Shape<memory_type>;
  using session = typename memory_type::session;
  static_assert(recoverable<shape_type>);

  // The root has been checked.
  durable(domain<M>& d, const typename catalogue<M>::found& f, bool all_at_once) noexcept
      : memory_{d,
                {.owner = f.owner,
                 .area_shift = d.settings().area_shift,
                 .all_at_once = all_at_once,
                 .size_pages_at_open = d.pages().size_pages(),
                 .gives_extents = true}},
        root_{f.root},
        with_sums_{(f.flags & layout::entry_sums) != 0},
        shape_{memory_, f.root} {}

  [[nodiscard]] shape_type& operator*() noexcept { return shape_; }
  [[nodiscard]] shape_type* operator->() noexcept { return &shape_; }
  [[nodiscard]] memory_type& memory() noexcept { return memory_; }
  // Number of keys, before any thread has worked since recovery.  Counted by so many threads, if they are worth it.
  [[nodiscard]] std::uint64_t count_keys(unsigned threads = 1) const noexcept {
    return shape_.count_of(count_allocated(threads)) - deleted_.size();
  }
  // Counts keys by a walk over all links, as a check of count_keys(); nothing on damage or without memory.
  [[nodiscard]] std::optional<std::uint64_t> count_linked() noexcept {
    std::uint64_t deleted = 0;
    const auto linked = walk_linked([&](std::uint64_t) { ++deleted; });
    if (!linked) return std::nullopt;
    const std::uint64_t keys = shape_.count_of(*linked);
    return keys < deleted ? std::nullopt : std::optional{keys - deleted};
  }
  // Adds deleted nodes that a walk finds to those that recovery has found.  errc::no_memory.
  [[nodiscard]] status find_deletions() noexcept {
    bool remembered = true;
    deleted_.clear();
    const auto linked = walk_linked([&](std::uint64_t head) { remembered = remembered && remember(head); });
    if (linked && remembered) return {};
    return memory_.is_damaged() ? status{} : no_memory();
  }
  // Unlinks nodes that recovery has found deleted and still linked, so that the next process counts right, too, which
  // could not tell them from others.  By a thread of the domain, after count_keys().  errc::no_memory; damaged ones
  // stay.
  [[nodiscard]] status finish_deletions(typename domain<M>::thread& t) noexcept {
    status all;
    session s{t};
    for (const std::uint64_t head : deleted_) {
      const auto* n = reinterpret_cast<const node_head*>(memory_.at(head));
      if (n == nullptr || shape_.tidy_at(s, n) || memory_.is_damaged()) continue;
      all = no_memory();
      break;
    }
    memory_.end(s);
    deleted_.clear();
    return all;
  }
  [[nodiscard]] bool has_deletions() const noexcept { return !deleted_.empty(); }
  // Number of nodes and runs that are allocated to it.
  [[nodiscard]] std::uint64_t count_allocated(unsigned threads = 1) const noexcept {
    return memory_.heap().count_allocated(threads);
  }

  void look_for(std::span<candidate> all) noexcept override {
    // A search waits for memory most of the time: while one does, the others go on.
    struct {
      typename shape_type::probe probe;
      candidate* of;
    } flights[searches_at_once];
    std::size_t flying = 0;
    std::size_t next = 0;
    do {
      for (; flying < searches_at_once && next != all.size(); ++next) {
        const std::size_t later = std::min(next + searches_at_once, all.size() - 1);
        __builtin_prefetch(memory_.of_pool(all[later].offset));
        candidate& c = all[next];
        c.linked = is_fixed(c.offset);
        if (c.linked || !shape_.begin(flights[flying].probe, c.offset, c.bytes)) continue;
        flights[flying++].of = &c;
      }
      for (std::size_t i = 0; i < flying;) {
        const progress now = shape_.step(flights[i].probe);
        if (now == progress::under_way) {
          ++i;
          continue;
        }
        flights[i].of->linked = now == progress::found;
        flights[i].of->by = flights[i].probe.by;
        flights[i] = flights[--flying];
      }
    } while (flying != 0 || next != all.size());
  }
  [[nodiscard]] bool bears_mark(std::uint64_t offset, std::uint64_t bytes) noexcept override {
    return shape_.bears_mark(offset, bytes);
  }
  [[nodiscard]] const node_head* whole_at(std::uint64_t offset, std::uint64_t bytes) noexcept override {
    if constexpr (requires {
                    typename shape_type::nodes;
                    shape_.mark_of(offset, bytes);
                  }) {
      using nodes = typename shape_type::nodes;
      const link* mark = nullptr;
      if (with_sums_ && !is_fixed(offset)) {
        if constexpr (requires { shape_.mark_of_leaf(offset, bytes); }) {
          mark = shape_.mark_of_leaf(offset, bytes);
        } else {
          mark = shape_.mark_of(offset, bytes);
        }
      }
      if (mark == nullptr || (mark->load() & gone) != 0) return nullptr;
      const auto* n = reinterpret_cast<const node_head*>(mark);
      const std::uint64_t before = memory_.offset_in_pool(n) - offset;
      if (before >= bytes || !nodes::fits(n, bytes - before) || nodes::reach_with_sum(n) > bytes - before) {
        return nullptr;
      }
      return nodes::sum_holds(n) && has_order_of_key<nodes>(shape_, n) ? n : nullptr;
    } else {
      return nullptr;
    }
  }
  void wipe_unlinked(std::uint64_t offset, std::uint64_t bytes) noexcept override {
    if constexpr (requires { shape_.mark_of(offset, bytes); }) {
      if (!is_fixed(offset) && !bears_mark(offset, bytes)) memory_.heap().wipe(offset);
    }
  }
  [[nodiscard]] bool note_linked(std::uint64_t offset, std::uint64_t bytes, const link* by) noexcept override {
    if (is_fixed(offset)) return true;
    const std::uint64_t head = shape_.deleted_head(offset, bytes, by);
    return head == 0 || remember(head);
  }
  bool detach(std::uint64_t offset, std::uint64_t bytes) noexcept override { return shape_.detach(offset, bytes); }
  [[nodiscard]] bool each_linked(void* context,
                                 void (*visit)(void* context, std::uint64_t offset, const link* by)) noexcept override {
    visit(context, root_, nullptr);
    return shape_.each_linked([&](std::uint64_t offset, const link* by = nullptr) { visit(context, offset, by); });
  }
  [[nodiscard]] bool is_damaged() const noexcept override { return memory_.is_damaged(); }
  [[nodiscard]] const char* links_fault() override {
    return shape_.check([](const node_head*) {});
  }
  void each_failing(void* context,
                    void (*visit)(void* context, std::uint64_t offset, std::span<const std::byte> key)) override {
    if (with_sums_) lockfree::each_failing(shape_, memory_, context, visit);
  }
  // There are none: links lead to every node.
  void each_stray(void*, void (*)(void*, std::uint64_t)) noexcept override {}
  [[nodiscard]] bool searches_slowly() const noexcept override { return shape_type::searches_slowly; }
  void each_allocated(std::uint64_t first, std::uint64_t end, void* context,
                      void (*visit)(void* context, std::uint64_t offset, std::uint64_t bytes)) noexcept override {
    memory_.heap().each_allocated(first, end,
                                  [&](std::uint64_t offset, std::uint64_t bytes) { visit(context, offset, bytes); });
  }
  void write_back_words(std::uint64_t first, std::uint64_t end) noexcept override {
    memory_.heap().write_back_words(first, end);
  }
  void write_back_mark(std::uint64_t offset, std::uint64_t bytes) noexcept override {
    const link* l = shape_.mark_of(offset, bytes);
    if (l != nullptr) memory_.of().medium().flush(l, sizeof *l);
  }
  void write_back_links(std::uint64_t offset, std::uint64_t bytes) noexcept override {
    shape_.each_link_to(offset, bytes, [&](const link& l) { memory_.of().medium().flush(&l, sizeof l); });
  }
  void prefetch_words(std::uint64_t first) noexcept override { memory_.heap().prefetch_words(first); }
  void free_unlinked(std::span<const std::uint64_t> offsets) noexcept override {
    lines_written<M> lines{memory_.of().medium()};
    for (const std::uint64_t offset : offsets) memory_.heap().free(offset, lines);
  }
  void come_to_rest() noexcept override {}

 private:
  static constexpr std::size_t searches_at_once = 16;
  // Whether this is the root, or a run that the root leads to for good.
  [[nodiscard]] bool is_fixed(std::uint64_t offset) const noexcept {
    return offset == root_ || shape_.has_array_at(offset);
  }

  // Calls deleted(head) for each node that is deleted and linked.  Returns the nodes and runs that something leads to;
  // nullopt: no volatile memory, or damage.
  template <class Deleted>
  [[nodiscard]] std::optional<std::uint64_t> walk_linked(Deleted&& deleted) noexcept {
    struct closure {
      durable& self;
      Deleted& deleted;
      std::uint64_t linked = 0;
    } k{*this, deleted};
    const bool all = each_linked(&k, [](void* raw, std::uint64_t, const link* by) {
      auto& in = *static_cast<closure*>(raw);
      ++in.linked;
      if (by != nullptr && in.self.shape_.is_deleted_by(*by)) in.deleted(offset_of(by->load()));
    });
    return all && !memory_.is_damaged() ? std::optional{k.linked} : std::nullopt;
  }
  // Notes the head of a deleted node; false: no volatile memory.
  [[nodiscard]] bool remember(std::uint64_t head) noexcept try {
    const std::lock_guard guard{deleted_lock_};
    deleted_.push_back(head);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  [[nodiscard]] static errc no_memory() noexcept {
    return fail(errc::no_memory, "no volatile memory for the nodes of a lock-free structure that were deleted");
  }

  memory_type memory_;
  const std::uint64_t root_;
  const bool with_sums_;
  shape_type shape_;
  std::mutex deleted_lock_;             // while parts of recovery fill it
  std::vector<std::uint64_t> deleted_;  // heads of such nodes that are still linked
};

}  // namespace nvm::lockfree
