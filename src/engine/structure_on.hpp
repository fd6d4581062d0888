// One lock-free structure of a pool on one medium: open_structure over a shape, with further members for
// structures.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/inlining.hpp"
#include "base/unsteady.hpp"
#include "engine/structure_side.hpp"
#include "lockfree/lockfree.hpp"
#include "platform/platform.hpp"

namespace nvm::engines {

// Members of a structure that only structures.hpp calls.
template <media M>
class structure_inside : public open_structure {
 public:
  [[nodiscard]] virtual lockfree::structure& raw() noexcept = 0;
  // The thread's reservations go back.
  virtual void end(unsigned who) noexcept = 0;
  // Recovery is over: counts the present entries.
  virtual void take_count() noexcept = 0;
  // The count by a walk over all links. No value: no volatile memory, damage, or the links were just made anew.
  [[nodiscard]] virtual std::optional<std::uint64_t> count_linked() noexcept = 0;
  // Nodes that are deleted and still linked: whether recovery has found any; finds them all; unlinks them.
  [[nodiscard]] virtual bool has_deletions() const noexcept = 0;
  [[nodiscard]] virtual status find_deletions() noexcept = 0;
  [[nodiscard]] virtual status finish_deletions(typename lockfree::domain<M>::thread& t) noexcept = 0;
  // The structure was dropped: forgets its waiting nodes and its knowledge of pages.
  virtual void abandon() noexcept = 0;
  virtual void forget_words() noexcept = 0;
};

// Durable: durable.hpp or rebuilt.hpp.
template <media M, class Durable, class Nodes, lockfree::layout::kind Kind>
class structure_on final : public structure_inside<M> {
  using bytes = open_structure::bytes;
  using updated = open_structure::updated;

 public:
  using durable_type = Durable;
  using session = typename durable_type::session;
  static constexpr bool bytes_inside = Nodes::of_bytes;

  template <class... Settings>
  structure_on(lockfree::domain<M>& d, const typename lockfree::catalogue<M>::found& f, Settings... settings) noexcept
      : domain_{d}, with_sums_{(f.flags & lockfree::layout::entry_sums) != 0}, it_{d, f, settings...} {}

  [[nodiscard]] durable_type& inside() noexcept { return it_; }
  lockfree::layout::kind kind() const noexcept override { return Kind; }
  bool of_bytes() const noexcept override { return bytes_inside; }
  std::uint64_t count() noexcept override {
    std::int64_t n = counted_.load(std::memory_order_relaxed);
    for (auto& s : sessions_) {
      const session* one = s.load(std::memory_order_acquire);
      if (one != nullptr) n += one->inserted_ever();
    }
    return n < 0 ? 0 : static_cast<std::uint64_t>(n);
  }

  lockfree::structure& raw() noexcept override { return it_; }
  void take_count() noexcept override {
    const auto n = static_cast<std::int64_t>(it_.count_keys(platform::processors()));
    counted_.store(n, std::memory_order_relaxed);
    it_->set_count(n);
  }
  std::optional<std::uint64_t> count_linked() noexcept override { return it_.count_linked(); }
  bool has_deletions() const noexcept override { return it_.has_deletions(); }
  status find_deletions() noexcept override { return it_.find_deletions(); }
  status finish_deletions(typename lockfree::domain<M>::thread& t) noexcept override { return it_.finish_deletions(t); }
  void abandon() noexcept override { it_.memory().heap().abandon(); }
  void forget_words() noexcept override { it_.memory().heap().forget_words(); }
  void end(unsigned who) noexcept override {
    if (session* s = sessions_[who].load(std::memory_order_acquire); s != nullptr) it_.memory().end(*s);
  }
  ~structure_on() override {
    for (auto& s : sessions_) delete s.load(std::memory_order_relaxed);
  }

  result<written> write64(unsigned who, std::uint64_t key, std::uint64_t value, write_rule rule) noexcept override {
    if constexpr (bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return with_room(who, [&] { return it_->write(*s, key, value, rule); });
    }
  }
  result<bool> find64(unsigned who, std::uint64_t key, std::uint64_t& value, bool verifies) noexcept override {
    if constexpr (bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      bool holds = true;
      const bool found = it_->look_up(*s, key, [&](const lockfree::node_head* n) {
        value = Nodes::value_of(n);
        if (verifies) holds = holds_what_it_was_given(n);
      });
      if (!holds) [[unlikely]]
        return fail(errc::corrupt, "the entry of key %lu fails its checksum", key);
      return seen(found);
    }
  }
  result<bool> remove64(unsigned who, std::uint64_t key) noexcept override {
    if constexpr (bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return with_room(who, [&] { return it_->remove(*s, key); });
    }
  }
  result<int> each64(unsigned who, int (*visit)(std::uint64_t, std::uint64_t, void*),
                     void* argument) noexcept override {
    if constexpr (bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      int answer = 0;
      it_->each(*s, [&](const lockfree::node_head* n) {
        answer = visit(it_->key_of_order(n->order), Nodes::value_of(n), argument);
        return answer == 0;
      });
      return walked(answer);
    }
  }

  result<int> scan64(unsigned who, std::uint64_t& cursor, std::size_t entries_max,
                     int (*visit)(std::uint64_t, std::uint64_t, void*), void* argument) noexcept override {
    if constexpr (bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return some_of_order(*s, cursor, entries_max, [&](const lockfree::node_head* n) {
        return visit(it_->key_of_order(n->order), Nodes::value_of(n), argument);
      });
    }
  }
  result<int> scan_from64(unsigned who, std::uint64_t from, bool after, std::size_t entries_max,
                          int (*visit)(std::uint64_t, std::uint64_t, void*), void* argument) noexcept override {
    if constexpr (bytes_inside) {
      return wrong();
    } else if constexpr (!is_sorted) {
      return not_sorted();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return some_from_key(*s, from, after, entries_max, [&](const lockfree::node_head* n) {
        return visit(it_->key_of_order(n->order), Nodes::value_of(n), argument);
      });
    }
  }

  result<written> write(unsigned who, bytes key, bytes value, std::uint64_t mark, write_rule rule) noexcept override {
    if constexpr (!bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return with_room(who, [&] { return it_->write(*s, key, {value, mark, with_sums_}, rule); });
    }
  }
  result<bool> find(unsigned who, bytes key, void (*visit)(void*, const structure_entry&),
                    void* argument) noexcept override {
    if constexpr (!bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return seen(it_->look_up(*s, key, [&](const lockfree::node_head* n) { visit(argument, entry_of(n)); }));
    }
  }
  result<bool> remove(unsigned who, bytes key) noexcept override {
    if constexpr (!bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return with_room(who, [&] { return it_->remove(*s, key); });
    }
  }
  result<updated> update(unsigned who, bytes key, std::uint64_t (*size)(void*, const structure_entry*),
                         std::uint64_t (*fill)(void*, std::span<std::byte>, const structure_entry*),
                         void* context) noexcept override {
    if constexpr (!bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return with_room(who, [&] {
        s->enter();
        result<updated> outcome = updating{*this, *s, key, size, fill, context}.run();
        s->leave();
        return outcome;
      });
    }
  }
  result<int> scan(unsigned who, std::uint64_t& cursor, std::size_t entries_max,
                   int (*visit)(void*, const structure_entry&), void* argument) noexcept override {
    if constexpr (!bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return some_of_order(*s, cursor, entries_max,
                           [&](const lockfree::node_head* n) { return visit(argument, entry_of(n)); });
    }
  }
  result<int> scan_from(unsigned who, bytes from, bool after, std::size_t entries_max,
                        int (*visit)(void*, const structure_entry&), void* argument) noexcept override {
    if constexpr (!bytes_inside) {
      return wrong();
    } else if constexpr (!is_sorted) {
      return not_sorted();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return some_from_key(*s, from, after, entries_max,
                           [&](const lockfree::node_head* n) { return visit(argument, entry_of(n)); });
    }
  }
  result<int> each_beside(unsigned who, std::uint64_t offset, std::uint64_t bytes,
                          int (*visit)(void*, const structure_entry&), void* argument) noexcept override {
    if constexpr (!bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      const auto [first, end] = pages_around(offset, bytes);
      if (first == end) return no_entry(offset);
      auto& heap = it_.memory().heap();
      if (!heap.has_alone(first, end)) return 0;
      const std::unique_ptr<neighbours> all{new (std::nothrow) neighbours{*this, *s, visit, argument}};
      if (all == nullptr) return no_memory();
      s->enter();
      heap.each_place_near(first, end, [&](std::uint64_t at, std::uint64_t size) { all->look_at(at, size); });
      s->leave();
      return walked(all->answer());
    }
  }
  std::uint64_t entry_bytes(std::uint64_t key_bytes, std::uint64_t value_bytes) const noexcept override {
    if constexpr (!bytes_inside) {
      return lockfree::class_bytes(lockfree::class_of(Nodes::bytes(0, 0)));
    } else {
      const std::uint64_t bytes =
          sizeof(typename Nodes::node) + key_bytes + value_bytes + (with_sums_ ? lockfree::node_sum_bytes : 0);
      const unsigned c = lockfree::class_of(bytes);
      return c < lockfree::classes ? lockfree::class_bytes(c) : round_up(bytes, domain_.pages().sizes().page_bytes());
    }
  }
  status set_mark(unsigned who, std::uint64_t offset, std::uint64_t mark) noexcept override {
    if constexpr (bytes_inside) {
      auto* n = reinterpret_cast<typename Nodes::node*>(it_.memory().at(offset));
      if (n == nullptr) return no_entry(offset);
      session* s = of(who);
      if (s == nullptr) return no_memory();
      it_.memory().store_word(*s, &n->mark, mark, n->order);
      return {};
    }
    return wrong();
  }
  result<bool> change_mark(unsigned who, std::uint64_t offset, std::uint64_t& expected, std::uint64_t mark,
                           bool durable) noexcept override {
    if constexpr (bytes_inside) {
      auto* n = reinterpret_cast<typename Nodes::node*>(it_.memory().at(offset));
      if (n == nullptr) return no_entry(offset);
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return it_.memory().exchange_word(*s, &n->mark, expected, mark, n->order, durable);
    }
    return wrong();
  }
  result<bool> holds_sum(std::uint64_t offset) noexcept override {
    if constexpr (bytes_inside) {
      const auto* n = reinterpret_cast<const typename Nodes::node*>(it_.memory().at(offset));
      if (n == nullptr || !it_.memory().holds(n, sizeof *n)) return no_entry(offset);
      return !with_sums_ || lockfree::holds_its_sum<Nodes>(it_.memory(), n);
    }
    return wrong();
  }

 private:
  static constexpr bool is_sorted = durable_type::shape_type::is_sorted;

  // Calls visit(node) for some `entries_max` nodes from `cursor` on, until it answers something else than 0.
  template <class Visit>
  [[nodiscard]] result<int> some_of_order(session& s, std::uint64_t& cursor, std::size_t entries_max,
                                          Visit&& visit) noexcept {
    int answer = 0;
    std::size_t seen = 0;
    std::uint64_t last = cursor;
    std::uint64_t next = 0;
    it_->each_from(s, cursor, [&](const lockfree::node_head* n) {
      // Entries of one order are not divided: the cursor could not tell them apart.
      if (seen >= entries_max && n->order != last) {
        next = n->order;
        return false;
      }
      last = n->order;
      ++seen;
      answer = visit(n);
      if (answer != 0) next = last;
      return answer == 0;
    });
    cursor = next;
    return walked(answer);
  }
  template <class Visit>
  [[nodiscard]] result<int> some_from_key(session& s, const typename Nodes::key& from, bool after,
                                          std::size_t entries_max, Visit&& visit) noexcept {
    int answer = 0;
    std::size_t seen = 0;
    it_->each_from_key(s, from, [&](const lockfree::node_head* n) {
      if (after && n->order == it_->order_of(from) && is_key(n, from)) return true;
      if (seen == entries_max) return false;
      ++seen;
      answer = visit(n);
      return answer == 0;
    });
    return walked(answer);
  }
  [[nodiscard]] bool is_key(const lockfree::node_head* n, const typename Nodes::key& k) noexcept {
    return lockfree::is_whole<Nodes>(it_.memory(), n) && Nodes::compare(n, k) == 0;
  }
  [[nodiscard]] static errc not_sorted() noexcept {
    return fail(errc::type_mismatch, "a hash table has no order of keys");
  }

  struct page_range {
    std::uint64_t first, end;
  };
  // Whole extents, as many as `bytes` need; empty where `offset` is in none.
  [[nodiscard]] page_range pages_around(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const structure_pages& pages = domain_.pages();
    const geometry& g = pages.sizes();
    constexpr std::uint64_t unit = layout::coarse_extent_pages;
    const std::uint64_t size = round_down(pages.size_pages(), unit);
    if (offset < g.data_offset || g.page_of(offset) >= size) return {0, 0};
    const std::uint64_t count = std::max(unit, round_up(ceil_div(bytes, g.page_bytes()), unit));
    if (count > size) return {0, 0};
    const std::uint64_t first = std::min(round_down(g.page_of(offset), unit), size - count);
    return {first, first + count};
  }
  // One call of each_beside().  An allocated node may be linked, or be on its way in or out and be written to
  // meanwhile. So each entry is looked up by its key: it is in the structure if it is found at the same place.
  class neighbours {
   public:
    using visitor = int (*)(void*, const structure_entry&);
    neighbours(structure_on& in, session& who, visitor visit, void* argument) noexcept
        : in_{in}, who_{who}, visit_{visit}, argument_{argument} {}
    [[nodiscard]] int answer() const noexcept { return answer_; }

    void look_at(std::uint64_t offset, std::uint64_t bytes) noexcept {
      using shape = typename durable_type::shape_type;
      if (answer_ != 0) return;
      if constexpr (requires { shape::each_head(bytes, [](std::uint64_t) {}); }) {
        shape::each_head(bytes, [&](std::uint64_t inside) { look_at_head(offset + inside, bytes - inside); });
      } else {
        look_at_head(offset, bytes);
      }
    }

   private:
    using node = typename Nodes::node;
    void look_at_head(std::uint64_t offset, std::uint64_t bytes) noexcept {
      if (answer_ != 0 || bytes < sizeof(node)) return;
      const std::byte* const at = in_.it_.memory().of_pool(offset);
      alignas(node) std::array<std::byte, sizeof(node)> seen;
      copy_unsteady(seen.data(), at, sizeof(node));
      const auto* n = reinterpret_cast<const node*>(seen.data());
      if (!Nodes::fits(n, bytes) || n->key_bytes > key_.size()) return;
      copy_unsteady(key_.data(), at + sizeof(node), n->key_bytes);
      (void)in_.it_->look_up(who_, bytes_of_key(n->key_bytes), [&](const lockfree::node_head* found) {
        if (in_.it_.memory().offset_in_pool(found) == offset) answer_ = visit_(argument_, in_.entry_of(found));
      });
    }
    [[nodiscard]] bytes bytes_of_key(std::size_t n) const noexcept { return std::span{key_}.first(n); }

    structure_on& in_;
    session& who_;
    const visitor visit_;
    void* const argument_;
    int answer_ = 0;
    std::array<std::byte, std::size_t{1} << 16> key_;
  };
  // One call of update().
  class updating {
   public:
    using size_call = std::uint64_t (*)(void*, const structure_entry*);
    using fill_call = std::uint64_t (*)(void*, std::span<std::byte>, const structure_entry*);
    updating(structure_on& in, session& who, bytes key, size_call size, fill_call fill, void* context) noexcept
        : in_{in}, who_{who}, key_{key}, size_{size}, fill_{fill}, context_{context} {}

    // Inside of an operation.
    [[nodiscard]] result<updated> run() noexcept {
      for (;;) {
        takes_away_ = 0;
        const auto w = in_.it_->write_with(
            who_, key_, write_rule::either, [this](const lockfree::node_head* old) { return decide(old); },
            [this](std::byte* at, std::uint64_t order, const lockfree::node_head* old) { fill(at, order, old); });
        if (!w) return w.error();
        if (*w != written::refused) return *w == written::inserted ? updated::inserted : updated::replaced;
        if (takes_away_ == 0) return updated::nothing;
        const auto r = take_away();
        if (!r) return r.error();
        if (*r) return updated::removed;
      }
    }

   private:
    using node = typename Nodes::node;
    // Bytes of the new node; 0: there is to be none.
    [[nodiscard]] std::uint64_t decide(const lockfree::node_head* old) noexcept {
      structure_entry e;
      if (old != nullptr) e = in_.entry_of(old);
      value_bytes_ = size_(context_, old == nullptr ? nullptr : &e);
      takes_away_ = value_bytes_ == open_structure::take_away && old != nullptr ? e.offset : 0;
      if (value_bytes_ >= open_structure::take_away) return 0;
      return sizeof(node) + key_.size() + value_bytes_ + (in_.with_sums_ ? lockfree::node_sum_bytes : 0);
    }
    void fill(std::byte* at, std::uint64_t order, const lockfree::node_head* old) noexcept {
      auto* n = reinterpret_cast<node*>(at);
      n->order = order;
      n->key_bytes = static_cast<std::uint32_t>(key_.size());
      n->value_bytes = static_cast<std::uint32_t>(value_bytes_);
      if (!key_.empty()) std::memcpy(n->content(), key_.data(), key_.size());
      structure_entry e;
      if (old != nullptr) e = in_.entry_of(old);
      n->mark = fill_(context_, {n->content() + key_.size(), value_bytes_}, old == nullptr ? nullptr : &e);
      if (in_.with_sums_) Nodes::add_sum(n);
    }
    // False: the entry was replaced since the decision, and a new decision is due.
    [[nodiscard]] result<bool> take_away() noexcept {
      return in_.it_->remove_if(
          who_, key_, [&](const lockfree::node_head* n) { return in_.it_.memory().offset_in_pool(n) == takes_away_; });
    }

    structure_on& in_;
    session& who_;
    const bytes key_;
    const size_call size_;
    const fill_call fill_;
    void* const context_;
    std::uint64_t value_bytes_ = 0;
    std::uint64_t takes_away_ = 0;  // offset of the entry to remove; 0: none
  };

  // For words with volatile links the seal is the sum.
  [[nodiscard]] bool holds_what_it_was_given(const lockfree::node_head* n) noexcept {
    if constexpr (requires { Nodes::sealed_whole; }) {
      const auto* sealed = static_cast<const lockfree::sealed_head*>(n);
      const std::uint64_t sum = it_.memory().sum_of(sealed, it_.memory().offset_in_pool(n));
      return (lockfree::seal::load(sealed) & lockfree::seal::sum_mask) == sum;
    } else {
      return !with_sums_ || lockfree::holds_its_sum<Nodes>(it_.memory(), n);
    }
  }
  [[nodiscard]] static errc no_entry(std::uint64_t offset) noexcept {
    return fail(errc::bad_pointer, "no entry of a lock-free structure is at offset %lx", offset);
  }
  [[nodiscard]] static errc wrong() noexcept {
    return fail(errc::type_mismatch, bytes_inside ? "the structure holds bytes, not words of 8 bytes"
                                                  : "the structure holds words of 8 bytes, not bytes");
  }
  // A key not found in a damaged chain may exist all the same: that is an error.
  [[nodiscard, NVM_INLINE]] result<bool> seen(bool found) noexcept {
    if (!found && it_.memory().is_damaged()) [[unlikely]]
      return damaged();
    return found;
  }
  // If the visitor has stopped the walk, damage further on does not matter.
  [[nodiscard]] result<int> walked(int answer) noexcept {
    if (answer == 0 && it_.memory().is_damaged()) [[unlikely]]
      return damaged();
    return answer;
  }
  [[nodiscard]] errc damaged() noexcept {
    return fail(errc::corrupt, "a link leads to offset %lu, where no node can be", it_.memory().damaged_offset());
  }
  [[nodiscard]] static errc no_memory() noexcept {
    return fail(errc::no_memory, "no volatile memory for a thread's part of a lock-free structure");
  }
  // Runs an operation, and repeats it if it finds no room while other threads' nodes or reservations hold some. Not
  // inside a larger operation, which may hold what would be freed.
  template <class Operation>
  [[nodiscard, NVM_INLINE]] auto with_room(unsigned who, Operation&& operation) noexcept {
    auto done = operation();
    if (!done && done.error() == errc::no_space) [[unlikely]]
      look_for_room(who, operation, done);
    return done;
  }
  template <class Operation, class Result>
  [[gnu::noinline]] void look_for_room(unsigned who, Operation& operation, Result& done) noexcept {
    constexpr unsigned attempts = 4;
    auto& t = domain_.thread_at(who);
    const auto give_back = [this](unsigned of) noexcept {
      session* s = sessions_[of].load(std::memory_order_acquire);
      return s != nullptr && it_.memory().end(*s);
    };
    for (unsigned i = 0; i < attempts && !done && done.error() == errc::no_space && !t.inside(); ++i) {
      const bool reclaimed = domain_.reclaim(t, give_back);
      if (!domain_.give_empty_extents() && !reclaimed) return;
      done = operation();
    }
  }
  [[nodiscard, NVM_INLINE]] session* of(unsigned who) noexcept {
    session* s = sessions_[who].load(std::memory_order_relaxed);  // set by the thread that has the number
    return s != nullptr ? s : first_of(who);
  }
  [[nodiscard, gnu::noinline]] session* first_of(unsigned who) noexcept {
    auto* s = new (std::nothrow) session{domain_.thread_at(who)};
    // release: pairs with the acquire in count() and end().
    sessions_[who].store(s, std::memory_order_release);
    return s;
  }
  [[nodiscard]] structure_entry entry_of(const lockfree::node_head* n) noexcept {
    const auto* sized = static_cast<const typename Nodes::node*>(n);
    if (!it_.memory().holds(n, sizeof *sized + std::uint64_t{sized->key_bytes} + sized->value_bytes)) return {};
    const auto v = Nodes::value_of(n);
    // relaxed: a word of its own.
    const std::uint64_t mark =
        std::atomic_ref<std::uint64_t>{const_cast<std::uint64_t&>(sized->mark)}.load(std::memory_order_relaxed);
    return {Nodes::key_of(n), v.bytes, mark, it_.memory().offset_in_pool(n)};
  }

  lockfree::domain<M>& domain_;
  const bool with_sums_;
  durable_type it_;
  std::atomic<std::int64_t> counted_{0};  // at the opening
  std::array<std::atomic<session*>, epochs::threads_max> sessions_{};
};

}  // namespace nvm::engines
