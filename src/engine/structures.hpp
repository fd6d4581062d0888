// The lock-free structures of a pool on one medium: structure_side over src/lockfree.  Included once for each medium.
//
// The parts: structure_on.hpp, one of them; structures_check.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "engine/structure_on.hpp"
#include "engine/structure_side.hpp"
#include "lockfree/lockfree.hpp"
#include "platform/platform.hpp"

namespace nvm::engines {

template <media M>
class structures final : public structure_side {
 public:
  structures(M& medium, std::byte* base, structure_pages& pages, const structure_settings& settings) noexcept
      : medium_{medium}, base_{base}, pages_{pages}, settings_{settings}, names_{medium, base, pages} {}

  status open() noexcept override { return open_telling(nullptr); }
  // As open(); also calls lost(offset, what) for nodes that were linked and whose links a crash alone cannot have
  // removed.
  [[nodiscard]] status open_telling(const told* lost) noexcept try {
    if (status s = names_.open(); !s) return s;
    if (names_.exists()) settings_.area_shift = names_.area_shift();
    lockfree::domain_settings settings;
    settings.with_link_cache = settings_.link_cache;
    settings.all_at_once = settings_.all_at_once;
    settings.area_shift = settings_.area_shift;
    domain_ = std::make_unique<lockfree::domain<M>>(medium_, base_, pages_, settings);
    if (status s = domain_->exists(); !s) return s;
    lost_ = lost;
    const struct forgetting {
      const told*& told_to;
      ~forgetting() { told_to = nullptr; }
    } at_the_end{lost_};
    if (status s = names_.check_states(); !s) return s;
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
      return i < open_.size() && open_[i] != nullptr ? &open_[i]->raw() : nullptr;
    };
    if (status s = names_.begin_recovery(r, of_owner, settings_.recovery); !s) return s;
    const auto parts =
        static_cast<unsigned>(std::min<std::size_t>(platform::processors(), r.areas.size() / areas_per_thread + 1));
    platform::run_parts(parts, [&](unsigned) noexcept { names_.recover_part(r); });
    if (status s = names_.check_recovery(r); !s) return s;
    if (lost != nullptr) names_.tell_lost(r, *lost);
    return names_.end_recovery(r, report_, [&]() noexcept {
      for (auto& o : open_) {
        if (o != nullptr) o->take_count();
      }
      return finish_deletions();
    });
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the lock-free structures of a pool");
  }
  status unlink_all_deleted() noexcept override {
    for (auto& o : open_) {
      if (o == nullptr) continue;
      if (status s = o->find_deletions(); !s) return s;
    }
    return finish_deletions();
  }

  result<open_structure*> find(std::string_view name) noexcept override {
    const std::lock_guard guard{lock_};
    return find_locked(name);
  }
  result<open_structure*> create(std::string_view name, lockfree::layout::kind kind, bool of_bytes, bool volatile_links,
                                 bool with_sums, std::uint64_t expected) noexcept override {
    if (status s = may_have(kind, volatile_links); !s) return s.error();
    const std::lock_guard guard{lock_};
    // A failed medium loses whatever it is given.
    if (status s = medium_.durable(0); !s) return s.error();
    if (status s = names_.need(domain_->settings().area_shift); !s) return s.error();
    const std::uint64_t flags = lockfree::layout::entry_map | (of_bytes ? lockfree::layout::entry_bytes : 0) |
                                (volatile_links ? lockfree::layout::entry_volatile_links : 0) |
                                (volatile_links ? lockfree::layout::entry_tally : 0) |
                                (with_sums ? lockfree::layout::entry_sums : 0);
    const auto f = names_.create(name, kind, 0, flags, [&](std::uint16_t owner) {
      return volatile_links ? make_sealed_root(owner, kind, expected) : make_root(owner, kind, expected);
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
    std::unique_ptr<inside>& o = open_[f->index];
    try {
      dropped_.emplace_back();
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory to drop a lock-free structure");
    }
    // Unlinked nodes wait in generations that refer to it.
    if (o != nullptr) {
      o->abandon();
      domain_->settle_freeing();
      o->forget_words();
    }
    names_.drop(*f);
    dropped_.back() = std::move(o);
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

  status check(const told& tell) override;
  status check_each(const told_of& tell_of) override;

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
      const std::lock_guard own{domain_->thread_at(who).own()};
      end_all(who);
    }
    domain_->leave(domain_->thread_at(who));
  }
  void hand_over(unsigned who) noexcept override { domain_->hand_over(domain_->thread_at(who)); }
  void enter(unsigned who) noexcept override { domain_->thread_at(who).enter(); }
  bool leave_operation(unsigned who) noexcept override {
    auto& t = domain_->thread_at(who);
    if (!t.inside()) return false;
    t.leave();
    return true;
  }
  bool at_work() const noexcept override { return domain_->any_inside(); }
  const structure_settings& settings() const noexcept override { return settings_; }
  void settle() noexcept override {
    if (domain_->links.defers()) domain_->links.settle_all();
  }
  lsn_t position(unsigned who) noexcept override { return domain_->thread_at(who).client.lsn; }
  void owe(unsigned who, lsn_t position) noexcept override {
    lsn_t& lsn = domain_->thread_at(who).client.lsn;
    lsn = std::max(lsn, position);
  }
  void come_to_rest(bool closing) noexcept override {
    domain_->each_thread([&](auto& t) { end_all(t.number()); });
    domain_->come_to_rest();
    if (!closing || domain_->any_inside()) return;
    (void)names_.each([&](const found& f, std::string_view) {
      if (open_[f.index] != nullptr) names_.set_tally(f, open_[f.index]->count());
    });
  }

 private:
  using found = typename lockfree::catalogue<M>::found;
  using inside = structure_inside<M>;
  static constexpr std::size_t areas_per_thread = 8;
  static constexpr std::uint64_t pages_per_thread = 2048;
  static constexpr unsigned hash_bits_default = 9;

  // Unlinks nodes that were found deleted and linked. errc::no_memory.
  [[nodiscard]] status finish_deletions() noexcept {
    const auto has_any = [](const std::unique_ptr<inside>& o) { return o != nullptr && o->has_deletions(); };
    if (std::none_of(open_.begin(), open_.end(), has_any)) return {};
    const auto t = domain_->join([&](unsigned n) { return names_.table_word(n); });
    if (!t) return t.error();
    status all;
    for (auto& o : open_) {
      if (!all || !has_any(o)) continue;
      if (status s = o->finish_deletions(**t); !s) all = s;
    }
    domain_->leave(**t);
    domain_->come_to_rest();
    return all;
  }

  void end_all(unsigned who) noexcept {
    for (auto& o : open_) {
      if (o != nullptr) o->end(who);
    }
    for (auto& o : dropped_) {
      if (o != nullptr) o->end(who);
    }
  }
  [[nodiscard]] result<open_structure*> find_locked(std::string_view name) noexcept {
    const auto f = names_.find(name);
    if (!f) return f.error();
    if (open_[f->index] == nullptr) {
      return fail(errc::corrupt, "lock-free structure '%.*s' could not be opened", static_cast<int>(name.size()),
                  name.data());
    }
    return open_[f->index].get();
  }

  [[nodiscard]] static errc bad_root(const found& f, std::string_view name, const char* what) noexcept {
    return fail(errc::corrupt, "lock-free structure '%.*s', root at offset %lu: %s", static_cast<int>(name.size()),
                name.data(), f.root, what);
  }
  [[nodiscard]] static status may_have(lockfree::layout::kind kind, bool volatile_links) noexcept {
    return lockfree::with_row(
        kind,
        [&](auto row) -> status {
          if (!volatile_links || lockfree::layout::links_may_be_volatile(row.kind)) return {};
          return fail(errc::invalid, "a %s with volatile links: the links of a %s are durable", row.name, row.name);
        },
        []() -> status { return {}; });  // make_root() reports it
  }
  // With volatile links.
  template <class Row, class Nodes>
  [[nodiscard]] result<open_structure*> rebuild_as(const found& f, std::string_view name) noexcept {
    if (const char* what = lockfree::sealed_root_fault(base_, f.root)) return bad_root(f, name, what);
    using rebuilt = lockfree::rebuilt<M, Nodes, lockfree::row_with<Row, Nodes>::template shape>;
    using type = structure_on<M, rebuilt, Nodes, Row::kind>;
    std::unique_ptr<type> made{new (std::nothrow) type{*domain_, f}};
    if (made == nullptr) return fail(errc::no_memory, "no volatile memory for a lock-free structure");
    const auto parts = static_cast<unsigned>(
        std::min<std::uint64_t>(platform::processors(), pages_.size_pages() / pages_per_thread + 1));
    const auto had = names_.tally(f);
    const bool only_looks = lost_ != nullptr;
    if (status s = made->inside().rebuild(parts, had, only_looks); !s) return s.error();
    if (had && made->inside().found_nodes() != *had) {
      char what[96];
      (void)std::snprintf(what, sizeof what, "%lu entries are there, and %lu were when the pool was closed",
                          made->inside().found_nodes(), *had);
      if (!only_looks) return bad_root(f, name, what);
      (void)bad_root(f, name, what);
      (*lost_)(f.root, last_message());
    }
    return keep(f, std::move(made));
  }
  template <class Row, class Nodes>
  [[nodiscard]] result<open_structure*> make_as(const found& f, std::string_view name) noexcept {
    using durable = lockfree::durable<M, lockfree::row_with<Row, Nodes>::template shape>;
    if (const char* what = durable::shape_type::root_fault(pages_, base_, f.root, f.owner)) {
      return bad_root(f, name, what);
    }
    using type = structure_on<M, durable, Nodes, Row::kind>;
    std::unique_ptr<type> made{new (std::nothrow) type{*domain_, f, domain_->settings().all_at_once}};
    if (made == nullptr) return fail(errc::no_memory, "no volatile memory for a lock-free structure");
    return keep(f, std::move(made));
  }
  [[nodiscard]] open_structure* keep(const found& f, std::unique_ptr<inside> made) noexcept {
    open_[f.index] = std::move(made);
    return open_[f.index].get();
  }
  [[nodiscard]] result<open_structure*> make(const found& f, std::string_view name) noexcept {
    const bool bytes = (f.flags & lockfree::layout::entry_bytes) != 0;
    const bool volatile_links = (f.flags & lockfree::layout::entry_volatile_links) != 0;
    const auto unknown = [&](const char* what) -> result<open_structure*> {
      return fail(errc::version, "lock-free structure '%.*s' is of kind %u, which %s", static_cast<int>(name.size()),
                  name.data(), static_cast<unsigned>(f.kind), what);
    };
    return lockfree::with_row(
        f.kind,
        [&]<class Row>(Row) -> result<open_structure*> {
          if (!volatile_links) {
            return bytes ? make_as<Row, lockfree::byte_nodes>(f, name) : make_as<Row, lockfree::word_nodes>(f, name);
          }
          if constexpr (lockfree::layout::links_may_be_volatile(Row::kind)) {
            return bytes ? rebuild_as<Row, lockfree::sealed_bytes>(f, name)
                         : rebuild_as<Row, lockfree::sealed_words>(f, name);
          } else {
            return unknown("has no volatile links");
          }
        },
        [&] { return unknown(volatile_links ? "has no volatile links" : "this version does not know"); });
  }
  [[nodiscard]] static unsigned bits_for(std::uint64_t expected) noexcept {
    using shape = lockfree::word_hash_table<lockfree::node_memory<M>>;
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
  [[nodiscard]] result<std::uint64_t> make_sealed_root(std::uint16_t owner, lockfree::layout::kind kind,
                                                       std::uint64_t expected) noexcept {
    const auto seed = random_seed();
    if (!seed) return seed.error();
    const auto root =
        pages_.take_run(0, nvm::layout::slot_protocol::self_validating, owner, sizeof(lockfree::sealed_root));
    if (!root) return root.error();
    lockfree::make_sealed_root(base_ + *root, *root, bits_for(expected), *seed, kind);
    medium_.flush(base_ + *root, sizeof(lockfree::sealed_root));
    return *root;
  }
  [[nodiscard]] result<std::uint64_t> make_root(std::uint16_t owner, lockfree::layout::kind kind,
                                                std::uint64_t expected) noexcept {
    return lockfree::with_row(
        kind,
        [&]<class Row>(Row) -> result<std::uint64_t> {
          // Roots do not depend on the nodes.
          using shape = typename Row::template shape<lockfree::node_memory<M>, lockfree::word_nodes>;
          lockfree::root_settings settings;
          if constexpr (shape::hashes) {
            const auto seed = random_seed();
            if (!seed) return seed.error();
            settings = {bits_for(expected), *seed};
          }
          return shape::make_new(
              settings,
              [&](std::uint64_t bytes) { return pages_.take_run(0, nvm::layout::slot_protocol::epoch, owner, bytes); },
              [&](std::uint64_t offset) { return base_ + offset; },
              [&](std::uint64_t offset, std::uint64_t bytes) { medium_.flush(base_ + offset, bytes); });
        },
        [&]() -> result<std::uint64_t> {
          return fail(errc::invalid, "a lock-free structure of kind %u, which is none of them",
                      static_cast<unsigned>(kind));
        });
  }

  M& medium_;
  std::byte* const base_;
  structure_pages& pages_;
  structure_settings settings_;
  lockfree::catalogue<M> names_;
  std::unique_ptr<lockfree::domain<M>> domain_;
  std::mutex lock_;  // of the names
  std::array<std::unique_ptr<inside>, lockfree::layout::structures_max> open_;
  std::vector<std::unique_ptr<inside>> dropped_;  // threads may still hold areas for them
  lockfree::recovery_report report_;
  const told* lost_ = nullptr;  // of open_telling(), while it opens
};

template <media M>
result<std::unique_ptr<structure_side>> make_structure_side(M& medium, std::byte* base, structure_pages& pages,
                                                            const structure_side::told* lost,
                                                            const structure_settings& settings) noexcept {
  auto made = std::unique_ptr<structures<M>>{new (std::nothrow) structures<M>{medium, base, pages, settings}};
  if (made == nullptr) return fail(errc::no_memory, "no volatile memory for the lock-free structures of a pool");
  if (status s = made->open_telling(lost); !s) return s.error();
  return std::unique_ptr<structure_side>{std::move(made)};
}

}  // namespace nvm::engines

#include "engine/structures_check.hpp"  // IWYU pragma: export
