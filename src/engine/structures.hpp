// The lock-free structures of a pool on one medium: structure_side over src/lockfree.  Included once for each medium.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <type_traits>

#include "base/inlining.hpp"
#include "engine/structure_side.hpp"
#include "lockfree/lockfree.hpp"
#include "platform/platform.hpp"

namespace nvm::engines {

template <class Memory>
using word_list = lockfree::list<Memory, lockfree::word_nodes>;
template <class Memory>
using byte_list = lockfree::list<Memory, lockfree::byte_nodes>;
template <class Memory>
using word_hash_table = lockfree::hash_table<Memory, lockfree::word_nodes, lockfree::word_hash>;
template <class Memory>
using byte_hash_table = lockfree::hash_table<Memory, lockfree::byte_nodes, lockfree::byte_hash>;
template <class Memory>
using word_skip_list = lockfree::skip_list<Memory, lockfree::word_nodes>;
template <class Memory>
using byte_skip_list = lockfree::skip_list<Memory, lockfree::byte_nodes>;
template <class Memory>
using word_tree = lockfree::tree<Memory, lockfree::word_nodes>;
template <class Memory>
using byte_tree = lockfree::tree<Memory, lockfree::byte_nodes>;
// The same of nodes whose links are volatile.
template <class Memory>
using sealed_word_list = lockfree::list<Memory, lockfree::sealed_words>;
template <class Memory>
using sealed_byte_list = lockfree::list<Memory, lockfree::sealed_bytes>;
template <class Memory>
using sealed_word_hash_table = lockfree::hash_table<Memory, lockfree::sealed_words, lockfree::word_hash>;
template <class Memory>
using sealed_byte_hash_table = lockfree::hash_table<Memory, lockfree::sealed_bytes, lockfree::byte_hash>;
template <class Memory>
using sealed_word_skip_list = lockfree::skip_list<Memory, lockfree::sealed_words>;
template <class Memory>
using sealed_byte_skip_list = lockfree::skip_list<Memory, lockfree::sealed_bytes>;

// Durable: durable.hpp or rebuilt.hpp.
template <media M, class Durable, class Nodes, lockfree::layout::kind Kind>
class structure_on final : public open_structure {
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
  void set_count(std::int64_t n) noexcept {
    counted_.store(n, std::memory_order_relaxed);
    if constexpr (requires { it_->set_count(n); }) it_->set_count(n);
  }

  // The thread's reservations go back.
  void end(unsigned who) noexcept {
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
      return s == nullptr ? result<written>{no_memory()} : it_->write(*s, key, value, rule);
    }
  }
  result<bool> find64(unsigned who, std::uint64_t key, std::uint64_t& value) noexcept override {
    if constexpr (bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      return seen(it_->look_up(*s, key, [&](const lockfree::node_head* n) { value = Nodes::value_of(n); }));
    }
  }
  result<bool> remove64(unsigned who, std::uint64_t key) noexcept override {
    if constexpr (bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      return s == nullptr ? result<bool>{no_memory()} : it_->remove(*s, key);
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

  result<written> write(unsigned who, bytes key, bytes value, std::uint64_t mark, write_rule rule) noexcept override {
    if constexpr (!bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      return s == nullptr ? result<written>{no_memory()} : it_->write(*s, key, {value, mark, with_sums_}, rule);
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
      return s == nullptr ? result<bool>{no_memory()} : it_->remove(*s, key);
    }
  }
  result<updated> update(unsigned who, bytes key, std::uint64_t (*size)(void*, const structure_entry*),
                         std::uint64_t (*fill)(void*, std::span<std::byte>, const structure_entry*),
                         void* context) noexcept override {
    if constexpr (!bytes_inside || !requires { &shape_type::template write_with<int, int>; }) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      using node = typename Nodes::node;
      s->enter();
      result<updated> outcome = updated::nothing;
      for (bool again = true; again;) {
        again = false;
        bool remove_it = false;
        std::uint64_t value_bytes = 0;
        std::uint64_t seen = 0;  // the entry that was to go
        const auto w = it_->write_with(
            *s, key, write_rule::either,
            [&](const lockfree::node_head* old) -> std::uint64_t {
              structure_entry e;
              if (old != nullptr) e = entry_of(old);
              value_bytes = size(context, old == nullptr ? nullptr : &e);
              remove_it = value_bytes == take_away;
              if (remove_it && old != nullptr) seen = e.offset;
              if (value_bytes >= take_away) return 0;
              return sizeof(node) + key.size() + value_bytes + (with_sums_ ? lockfree::node_sum_bytes : 0);
            },
            [&](std::byte* at, std::uint64_t order, const lockfree::node_head* old) {
              auto* n = reinterpret_cast<node*>(at);
              n->order = order;
              n->key_bytes = static_cast<std::uint32_t>(key.size());
              n->value_bytes = static_cast<std::uint32_t>(value_bytes);
              if (!key.empty()) std::memcpy(n->content(), key.data(), key.size());
              structure_entry e;
              if (old != nullptr) e = entry_of(old);
              n->mark = fill(context, {n->content() + key.size(), value_bytes}, old == nullptr ? nullptr : &e);
              if (with_sums_) Nodes::add_sum(n);
            });
        if (!w) {
          outcome = w.error();
        } else if (*w != written::refused) {
          outcome = *w == written::inserted ? updated::inserted : updated::replaced;
        } else if (remove_it && seen != 0) {
          // Only what was decided about may go.
          bool same = true;
          const auto r = it_->remove_if(*s, key, [&](const lockfree::node_head* n) {
            same = it_.memory().offset_in_pool(n) == seen;
            return same;
          });
          if (!r) {
            outcome = r.error();
          } else if (*r) {
            outcome = updated::removed;
          } else {
            again = true;
          }
        }
      }
      s->leave();
      return outcome;
    }
  }
  result<int> scan(unsigned who, std::uint64_t& cursor, std::size_t entries_max,
                   int (*visit)(void*, const structure_entry&), void* argument) noexcept override {
    if constexpr (!bytes_inside) {
      return wrong();
    } else {
      session* s = of(who);
      if (s == nullptr) return no_memory();
      int answer = 0;
      std::size_t seen = 0;
      std::uint64_t last = cursor;
      std::uint64_t next = 0;
      it_->each_from(*s, cursor, [&](const lockfree::node_head* n) {
        // Entries of one order are not divided: the cursor could not tell them apart.
        if (seen >= entries_max && n->order != last) {
          next = n->order;
          return false;
        }
        last = n->order;
        ++seen;
        answer = visit(argument, entry_of(n));
        if (answer != 0) next = last;
        return answer == 0;
      });
      cursor = next;
      return walked(answer);
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

 private:
  using shape_type = typename durable_type::shape_type;
  [[nodiscard]] static errc no_entry(std::uint64_t offset) noexcept {
    return fail(errc::bad_pointer, "no entry of a lock-free structure is at offset %lx", offset);
  }
  [[nodiscard]] static errc wrong() noexcept {
    return fail(errc::type_mismatch, bytes_inside ? "the structure holds bytes, not words of 8 bytes"
                                                  : "the structure holds words of 8 bytes, not bytes");
  }
  // What a damaged chain does not lead to need not be absent.
  [[nodiscard, NVM_INLINE]] result<bool> seen(bool found) noexcept {
    if (!found && it_.memory().is_damaged()) [[unlikely]]
      return damaged();
    return found;
  }
  // Nor is it all that a visitor was shown, unless it wanted no more.
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
  std::atomic<std::int64_t> counted_{0};  // when it was opened
  std::array<std::atomic<session*>, epochs::threads_max> sessions_{};
};

template <media M>
class structures final : public structure_side {
 public:
  structures(M& medium, std::byte* base, structure_pages& pages) noexcept
      : medium_{medium}, base_{base}, pages_{pages}, names_{medium, base, pages} {}

  status open() noexcept override { return open_telling(nullptr); }
  // As open().  Calls lost(offset, what) for nodes that were linked, and that no crash alone can have left without.
  [[nodiscard]] status open_telling(const std::function<void(std::uint64_t, const char*)>* lost) noexcept try {
    if (status s = names_.open(); !s) return s;
    lockfree::domain_settings settings;
    if (names_.exists()) settings.area_shift = names_.area_shift();
    settings.with_link_cache = false;
    domain_ = std::make_unique<lockfree::domain<M>>(medium_, base_, pages_, settings);
    if (status s = domain_->exists(); !s) return s;
    names_.free_foreign_pages(report_);
    status made;
    if (status s = names_.each([&](const found& f, std::string_view name) {
          if (!made) return;
          auto one = make(f, name);
          if (!one) made = one.error();
        });
        !s) {
      return s;
    }
    if (!made) return made;
    typename lockfree::catalogue<M>::recovery r;
    const auto of_owner = [&](std::uint16_t owner) {
      const unsigned i = owner - lockfree::layout::first_owner;
      return i < open_.size() && open_[i].of != nullptr ? open_[i].raw : nullptr;
    };
    if (status s = names_.begin_recovery(r, of_owner, lockfree::recovery_method::automatic); !s) return s;
    const auto parts =
        static_cast<unsigned>(std::min<std::size_t>(platform::processors(), r.areas.size() / areas_per_thread + 1));
    platform::run_parts(parts, [&](unsigned) noexcept { names_.recover_part(r); });
    if (status s = names_.check_recovery(r); !s) return s;
    if (lost != nullptr) names_.tell_lost(r, *lost);
    return names_.end_recovery(r, report_, [&]() noexcept {
      for (auto& o : open_) {
        if (o.of != nullptr) o.count(*o.of);
      }
      return finish_deletions();
    });
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the lock-free structures of a pool");
  }
  // What is deleted and linked still, and what a process before the last had left so, leaves all structures.  Nobody is
  // at work.  errc::no_memory.
  [[nodiscard]] status unlink_all_deleted() noexcept {
    for (auto& o : open_) {
      if (o.of == nullptr || o.find_deletions == nullptr) continue;
      if (status s = o.find_deletions(*o.of); !s) return s;
    }
    return finish_deletions();
  }

  result<open_structure*> find(std::string_view name) noexcept override {
    const std::lock_guard guard{lock_};
    return find_locked(name);
  }
  result<open_structure*> create(std::string_view name, lockfree::layout::kind kind, bool of_bytes, bool volatile_links,
                                 bool with_sums, std::uint64_t expected) noexcept override {
    if (volatile_links && kind == lockfree::layout::kind::tree) {
      return fail(errc::invalid, "a tree with volatile links: the links of a tree are durable");
    }
    const std::lock_guard guard{lock_};
    // What a medium that has failed is given is lost.
    if (status s = medium_.durable(0); !s) return s.error();
    if (status s = names_.need(domain_->settings().area_shift); !s) return s.error();
    const std::uint64_t flags = lockfree::layout::entry_map | (of_bytes ? lockfree::layout::entry_bytes : 0) |
                                (volatile_links ? lockfree::layout::entry_volatile_links : 0) |
                                (with_sums ? lockfree::layout::entry_sums : 0);
    const auto f = names_.create(name, kind, 0, flags, [&](std::uint16_t owner) {
      return volatile_links ? make_sealed_root(owner, expected) : make_root(owner, kind, expected);
    });
    if (!f) return f.error();
    auto made = make(*f, name);
    if (!made) {
      names_.drop(*f);
      return made;
    }
    if (status s = of_what_is_done(wait_for(medium_, medium_.last_lsn())); !s) return s.error();
    return made;
  }
  status drop(std::string_view name) noexcept override {
    const std::lock_guard guard{lock_};
    if (status s = medium_.durable(0); !s) return s;
    const auto f = names_.find(name);
    if (!f) return f.error();
    opened& o = open_[f->index];
    try {
      dropped_.emplace_back();
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory to drop a lock-free structure");
    }
    // Nodes that were unlinked wait in generations that know it.
    if (o.of != nullptr) {
      o.abandon(*o.of);
      domain_->settle_freeing();
      o.forget_words(*o.of);
    }
    names_.drop(*f);
    dropped_.back() = std::move(o);
    o = {};
    return of_what_is_done(wait_for(medium_, medium_.last_lsn()));
  }
  result<int> names(int (*visit)(const char*, int, void*), void* argument) noexcept override try {
    std::vector<std::pair<std::string, int>> all;
    {
      const std::lock_guard guard{lock_};
      if (status s = names_.each([&](const found& f, std::string_view name) {
            all.emplace_back(std::string{name}, static_cast<int>(f.kind));
          });
          !s) {
        return s.error();
      }
    }
    for (const auto& [name, kind] : all) {
      if (const int answer = visit(name.c_str(), kind, argument); answer != 0) return answer;
    }
    return 0;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the names of lock-free structures");
  }
  const lockfree::recovery_report& recovered() const noexcept override { return report_; }

  // Calls tell(offset, what) for each node that is allocated and nothing leads to, for each that something leads to
  // and is not allocated, and for what is wrong with links and the order of keys.  Nobody is at work.
  // errc::no_memory: what it told so far is true, and not all.
  template <class Tell>
  [[nodiscard]] status check(Tell&& tell) {
    std::array<std::string, lockfree::layout::structures_max> names;
    if (status s = names_.each([&](const found& f, std::string_view name) { names[f.index] = name; }); !s) return s;
    for (auto& o : open_) {
      if (o.of == nullptr) continue;
      noted linked;
      noted allocated;
      const bool all = o.raw->each_linked(
          &linked, [](void* to, std::uint64_t offset, const lockfree::link*) { static_cast<noted*>(to)->add(offset); });
      o.raw->each_allocated(0, ~std::uint64_t{0} >> 1, &allocated, [](void* to, std::uint64_t offset, std::uint64_t) {
        static_cast<noted*>(to)->add(offset);
      });
      if (!all || !linked.complete || !allocated.complete) {
        return fail(errc::no_memory, "no volatile memory to check the lock-free structures");
      }
      if (o.count_linked != nullptr) {
        // What recovery has not found deleted is counted, though no walk shows it.
        const auto walked = o.count_linked(*o.of);
        if (walked && *walked != o.of->count()) tell(0, "a node is deleted and linked, and counted as an entry");
      }
      linked.sort();
      allocated.sort();
      for (const std::uint64_t at : allocated.offsets) {
        if (!linked.has(at)) tell(at, "node is allocated, and nothing leads to it");
      }
      if (const char* wrong = o.raw->links_fault(); wrong != nullptr || o.raw->is_damaged()) {
        tell(0, wrong != nullptr ? wrong : "a link leads where no node can be");
      }
      if (failing<Tell> told{tell, names[static_cast<std::size_t>(&o - open_.data())]}; !o.raw->is_damaged()) {
        o.raw->each_failing(&told, failing<Tell>::add);
      }
      o.raw->each_stray(&tell, [](void* to, std::uint64_t at) {
        (*static_cast<std::remove_reference_t<Tell>*>(to))(at, "nodes live in pages that the page map calls free");
      });
      std::uint64_t before = 0;
      for (const std::uint64_t at : linked.offsets) {
        if (at == before) tell(at, "two links lead to the same node");
        if (!allocated.has(at)) tell(at, "something leads to a node that is not allocated");
        before = at;
      }
    }
    return {};
  }

  result<unsigned> join() noexcept override {
    {
      const std::lock_guard guard{lock_};
      if (status s = names_.need(domain_->settings().area_shift); !s) return s.error();
    }
    const auto t = domain_->join([&](unsigned n) { return names_.table_word(n); });
    if (!t) return t.error();
    return (*t)->number();
  }
  void leave(unsigned who) noexcept override {
    {
      const std::lock_guard guard{lock_};
      end_all(who);
    }
    domain_->leave(domain_->thread_at(who));
  }
  void enter(unsigned who) noexcept override { domain_->thread_at(who).enter(); }
  bool leave_operation(unsigned who) noexcept override {
    auto& t = domain_->thread_at(who);
    if (!t.inside()) return false;
    t.leave();
    return true;
  }
  unsigned threads() const noexcept override { return domain_->joined(); }
  bool at_work() const noexcept override { return domain_->any_inside(); }
  lsn_t position(unsigned who) noexcept override { return domain_->thread_at(who).client.lsn; }
  void come_to_rest() noexcept override {
    domain_->each_thread([&](auto& t) { end_all(t.number()); });
    domain_->come_to_rest();
  }

 private:
  struct noted {
    std::vector<std::uint64_t> offsets;
    bool complete = true;
    void add(std::uint64_t offset) noexcept {
      try {
        offsets.push_back(offset);
      } catch (const std::bad_alloc&) {
        complete = false;
      }
    }
    void sort() noexcept { std::sort(offsets.begin(), offsets.end()); }
    [[nodiscard]] bool has(std::uint64_t offset) const noexcept {
      return std::binary_search(offsets.begin(), offsets.end(), offset);
    }
  };
  // Says which entry fails its checksum.
  template <class Tell>
  struct failing {
    Tell& tell;
    const std::string& name;
    static constexpr std::size_t shown = 40;
    static void add(void* self, std::uint64_t at, std::span<const std::byte> key) {
      auto& of = *static_cast<failing*>(self);
      std::string hex;
      for (std::size_t i = 0; i < std::min(key.size(), shown); ++i) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(key[i]));
        hex += digits;
      }
      const std::string text = "lock-free structure '" + of.name + "': the entry with the key of " +
                               std::to_string(key.size()) + " bytes " + hex + (key.size() > shown ? "..." : "") +
                               " fails its checksum";
      of.tell(at, text.c_str());
    }
  };
  using found = typename lockfree::catalogue<M>::found;
  static constexpr std::size_t areas_per_thread = 8;
  static constexpr std::uint64_t pages_per_thread = 2048;
  static constexpr unsigned hash_bits_default = 9;

  // An open structure, and what has to know its type.
  struct opened {
    std::unique_ptr<open_structure> of;
    lockfree::structure* raw = nullptr;
    void (*end)(open_structure&, unsigned who) = nullptr;
    void (*count)(open_structure&) = nullptr;
    // Of structures with durable links: the count by walking; what is deleted and linked is found, and unlinked.
    std::optional<std::uint64_t> (*count_linked)(open_structure&) = nullptr;
    bool (*has_deletions)(open_structure&) = nullptr;
    status (*find_deletions)(open_structure&) = nullptr;
    status (*finish_deletions)(open_structure&, typename lockfree::domain<M>::thread&) = nullptr;
    void (*abandon)(open_structure&) = nullptr;
    void (*forget_words)(open_structure&) = nullptr;
  };

  // Of what was found deleted and linked.  errc::no_memory.
  [[nodiscard]] status finish_deletions() noexcept {
    const auto has_any = [](const opened& o) {
      return o.of != nullptr && o.has_deletions != nullptr && o.has_deletions(*o.of);
    };
    if (std::none_of(open_.begin(), open_.end(), has_any)) return {};
    const auto t = domain_->join([&](unsigned n) { return names_.table_word(n); });
    if (!t) return t.error();
    status all;
    for (auto& o : open_) {
      if (!all || !has_any(o)) continue;
      if (status s = o.finish_deletions(*o.of, **t); !s) all = s;
    }
    domain_->leave(**t);
    domain_->come_to_rest();
    return all;
  }

  void end_all(unsigned who) noexcept {
    for (auto& o : open_) {
      if (o.of != nullptr) o.end(*o.of, who);
    }
    for (auto& o : dropped_) {
      if (o.of != nullptr) o.end(*o.of, who);
    }
  }
  [[nodiscard]] result<open_structure*> find_locked(std::string_view name) noexcept {
    const auto f = names_.find(name);
    if (!f) return f.error();
    if (open_[f->index].of == nullptr) {
      return fail(errc::corrupt, "lock-free structure '%.*s' could not be opened", static_cast<int>(name.size()),
                  name.data());
    }
    return open_[f->index].of.get();
  }

  [[nodiscard]] static errc bad_root(const found& f, std::string_view name, const char* what) noexcept {
    return fail(errc::corrupt, "lock-free structure '%.*s', root at offset %lu: %s", static_cast<int>(name.size()),
                name.data(), f.root, what);
  }
  // With volatile links.
  template <template <class> class Shape, class Nodes, lockfree::layout::kind Kind>
  [[nodiscard]] result<open_structure*> rebuild_as(const found& f, std::string_view name) noexcept {
    if (const char* what = lockfree::sealed_root_fault(base_, f.root)) return bad_root(f, name, what);
    using type = structure_on<M, lockfree::rebuilt<M, Nodes, Shape>, Nodes, Kind>;
    std::unique_ptr<type> made{new (std::nothrow) type{*domain_, f}};
    if (made == nullptr) return fail(errc::no_memory, "no volatile memory for a lock-free structure");
    const auto parts = static_cast<unsigned>(
        std::min<std::uint64_t>(platform::processors(), pages_.size_pages() / pages_per_thread + 1));
    if (status s = made->inside().rebuild(parts); !s) return s.error();
    return keep(f, std::move(made));
  }
  template <template <class> class Shape, class Nodes, lockfree::layout::kind Kind>
  [[nodiscard]] result<open_structure*> make_as(const found& f, std::string_view name) noexcept {
    if (const char* what = Shape<lockfree::node_memory<M>>::root_fault(pages_, base_, f.root, f.owner)) {
      return bad_root(f, name, what);
    }
    using type = structure_on<M, lockfree::durable<M, Shape>, Nodes, Kind>;
    std::unique_ptr<type> made{new (std::nothrow) type{*domain_, f, domain_->settings().all_at_once}};
    if (made == nullptr) return fail(errc::no_memory, "no volatile memory for a lock-free structure");
    return keep(f, std::move(made));
  }
  template <class Type>
  [[nodiscard]] open_structure* keep(const found& f, std::unique_ptr<Type> made) noexcept {
    opened& o = open_[f.index];
    o.raw = &made->inside();
    o.end = [](open_structure& s, unsigned who) { static_cast<Type&>(s).end(who); };
    o.count = [](open_structure& s) {
      auto& t = static_cast<Type&>(s);
      t.set_count(static_cast<std::int64_t>(t.inside().count_keys(platform::processors())));
    };
    if constexpr (requires { made->inside().has_deletions(); }) {
      o.count_linked = [](open_structure& s) { return static_cast<Type&>(s).inside().count_linked(); };
      o.has_deletions = [](open_structure& s) { return static_cast<Type&>(s).inside().has_deletions(); };
      o.find_deletions = [](open_structure& s) { return static_cast<Type&>(s).inside().find_deletions(); };
      o.finish_deletions = [](open_structure& s, typename lockfree::domain<M>::thread& t) {
        return static_cast<Type&>(s).inside().finish_deletions(t);
      };
    }
    o.forget_words = [](open_structure& s) { static_cast<Type&>(s).inside().memory().heap().forget_words(); };
    o.abandon = [](open_structure& s) { static_cast<Type&>(s).inside().memory().heap().abandon(); };
    o.of = std::move(made);
    return o.of.get();
  }
  [[nodiscard]] result<open_structure*> make(const found& f, std::string_view name) noexcept {
    using lockfree::byte_nodes;
    using lockfree::sealed_bytes;
    using lockfree::sealed_words;
    using lockfree::word_nodes;
    using lockfree::layout::kind;
    const bool bytes = (f.flags & lockfree::layout::entry_bytes) != 0;
    if ((f.flags & lockfree::layout::entry_volatile_links) != 0) {
      switch (f.kind) {
        case kind::list:
          return bytes ? rebuild_as<sealed_byte_list, sealed_bytes, kind::list>(f, name)
                       : rebuild_as<sealed_word_list, sealed_words, kind::list>(f, name);
        case kind::hash:
          return bytes ? rebuild_as<sealed_byte_hash_table, sealed_bytes, kind::hash>(f, name)
                       : rebuild_as<sealed_word_hash_table, sealed_words, kind::hash>(f, name);
        case kind::skip_list:
          return bytes ? rebuild_as<sealed_byte_skip_list, sealed_bytes, kind::skip_list>(f, name)
                       : rebuild_as<sealed_word_skip_list, sealed_words, kind::skip_list>(f, name);
        default:
          return fail(errc::version, "lock-free structure '%.*s' is of kind %u, which has no volatile links",
                      static_cast<int>(name.size()), name.data(), static_cast<unsigned>(f.kind));
      }
    }
    switch (f.kind) {
      case kind::list:
        return bytes ? make_as<byte_list, byte_nodes, kind::list>(f, name)
                     : make_as<word_list, word_nodes, kind::list>(f, name);
      case kind::hash:
        return bytes ? make_as<byte_hash_table, byte_nodes, kind::hash>(f, name)
                     : make_as<word_hash_table, word_nodes, kind::hash>(f, name);
      case kind::skip_list:
        return bytes ? make_as<byte_skip_list, byte_nodes, kind::skip_list>(f, name)
                     : make_as<word_skip_list, word_nodes, kind::skip_list>(f, name);
      case kind::tree:
        return bytes ? make_as<byte_tree, byte_nodes, kind::tree>(f, name)
                     : make_as<word_tree, word_nodes, kind::tree>(f, name);
      default:
        return fail(errc::version, "lock-free structure '%.*s' is of kind %u, which this version does not know",
                    static_cast<int>(name.size()), name.data(), static_cast<unsigned>(f.kind));
    }
  }
  [[nodiscard]] static unsigned bits_for(std::uint64_t expected) noexcept {
    using shape = word_hash_table<lockfree::node_memory<M>>;
    return expected < (1U << hash_bits_default)
               ? hash_bits_default
               : std::min(shape::bits_max, static_cast<unsigned>(std::bit_width(expected - 1)));
  }
  [[nodiscard]] static result<std::uint64_t> random_seed() noexcept {
    std::uint64_t seed = 0;
    if (status s = platform::random_bytes(&seed, sizeof seed); !s) return s.error();
    return seed;
  }
  // Of a structure with volatile links, whatever its kind.
  [[nodiscard]] result<std::uint64_t> make_sealed_root(std::uint16_t owner, std::uint64_t expected) noexcept {
    const auto seed = random_seed();
    if (!seed) return seed.error();
    const auto root =
        pages_.take_run(0, nvm::layout::slot_protocol::self_validating, owner, sizeof(lockfree::sealed_root));
    if (!root) return root.error();
    lockfree::make_sealed_root(base_ + *root, *root, bits_for(expected), *seed);
    medium_.flush(base_ + *root, sizeof(lockfree::sealed_root));
    return *root;
  }
  [[nodiscard]] result<std::uint64_t> make_root(std::uint16_t owner, lockfree::layout::kind kind,
                                                std::uint64_t expected) noexcept {
    const auto run_of = [&](std::uint64_t bytes) {
      return pages_.take_run(0, nvm::layout::slot_protocol::epoch, owner, bytes);
    };
    // Roots do not depend on the nodes.
    const auto plain_root = [&]<class Shape>(const Shape*) -> result<std::uint64_t> {
      const auto root = run_of(Shape::root_bytes);
      if (!root) return root.error();
      Shape::make_root(base_ + *root);
      medium_.flush(base_ + *root, Shape::root_bytes);
      return *root;
    };
    using memory = lockfree::node_memory<M>;
    if (kind == lockfree::layout::kind::list) return plain_root(static_cast<word_list<memory>*>(nullptr));
    if (kind == lockfree::layout::kind::skip_list) return plain_root(static_cast<word_skip_list<memory>*>(nullptr));
    if (kind == lockfree::layout::kind::tree) return plain_root(static_cast<word_tree<memory>*>(nullptr));
    if (kind == lockfree::layout::kind::hash) {
      using shape = word_hash_table<lockfree::node_memory<M>>;
      const unsigned bits = bits_for(expected);
      const auto seed = random_seed();
      if (!seed) return seed.error();
      const auto root = run_of(shape::root_bytes);
      if (!root) return root.error();
      const auto array = run_of(shape::array_bytes(bits));
      if (!array) return array.error();
      shape::make_root(base_ + *root, *root, bits, *seed, base_ + *array, *array);
      medium_.flush(base_ + *root, shape::root_bytes);
      medium_.flush(base_ + *array, shape::array_bytes(bits));
      return *root;
    }
    return fail(errc::invalid, "a lock-free structure of kind %u, which is none of them", static_cast<unsigned>(kind));
  }

  M& medium_;
  std::byte* const base_;
  structure_pages& pages_;
  lockfree::catalogue<M> names_;
  std::unique_ptr<lockfree::domain<M>> domain_;
  std::mutex lock_;  // of the names
  std::array<opened, lockfree::layout::structures_max> open_;
  std::vector<opened> dropped_;  // threads may hold areas for them still
  lockfree::recovery_report report_;
};

template <media M>
result<std::unique_ptr<structure_side>> make_structure_side(M& medium, std::byte* base,
                                                            structure_pages& pages) noexcept {
  std::unique_ptr<structure_side> made{new (std::nothrow) structures<M>{medium, base, pages}};
  if (made == nullptr) return fail(errc::no_memory, "no volatile memory for the lock-free structures of a pool");
  if (status s = made->open(); !s) return s.error();
  return made;
}

}  // namespace nvm::engines
