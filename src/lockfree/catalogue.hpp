// The lock-free structures of a pool, or of an object store, by name, and what a crash has left of them.
//
/// First structure:  S directory; F it; | lockfree/E13  S the words that name it; F them; | lockfree/E14
/// Create:  pages with the structure's number; S root; F it; S entry, but for its state; F it;
///                                      | lockfree/E15  S state; F it; | lockfree/E16  it exists
/// Drop:    S state leaving; F it;      | lockfree/E17  its pages go; | space/E5  S state 0; F it
// A state of zero belongs to a structure that has at most a root and a first array, or no pages.  If it has more, the
// word is damaged: nothing is freed, and opening refuses.
//
// Recovery: pages that belong to a number without an entry are free.  Then the nodes of active areas are looked at, in
// parallel: nodes that are allocated and that nothing leads to are free (NV-epochs: log-free, section 5.5, both
// methods):
//
///   S bits 0; F them;                  | lockfree/E18
///   nodes that are deleted and still linked are unlinked, as by their deleters (domain.hpp); at rest: | lockfree/E10
///   S the tables' words and tallies 0; F them; | lockfree/E19
// A crash meanwhile leaves the tables, and recovery does all of it again.
//
// If a process was killed, and not the machine, recovery sees words that are only in caches.  Before it acts on them,
// or forgets where to find them, they are written back:
//   the page map, words of pages that were given back included; the directory, states of dropped structures included,
//   and roots                          | lockfree/E27  before pages are given back or get another use
//   allocation words of active areas; the links that lead to their nodes, the marks of these, and the links that lead
//   past each node that is freed       | lockfree/E26  by each part
//
// The part that looks at nodes: catalogue_recovery.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/brought_first.hpp"
#include "lockfree/domain.hpp"
#include "lockfree/face.hpp"
#include "lockfree/structure.hpp"
#include "lockfree/tally.hpp"
#include "platform/platform.hpp"

namespace nvm::lockfree {

template <media M>
class catalogue {
 public:
  struct found {
    unsigned index = 0;
    layout::kind kind = layout::kind::none;
    std::uint16_t owner = 0;
    std::uint64_t root = 0;
    std::uint64_t parameters = 0;
    std::uint64_t flags = 0;
  };

  catalogue(M& medium, std::byte* base, structure_pages& pages) noexcept
      : medium_{medium}, base_{base}, pages_{pages} {}
  catalogue(const catalogue&) = delete;
  catalogue& operator=(const catalogue&) = delete;

  // Reads the directory, if there is one.  errc::corrupt, version.
  [[nodiscard]] status open() noexcept {
    const structure_pages::directory_words named = pages_.lockfree_directory();
    const auto holds = [&](std::uint64_t at) { return word_holds(load_word(base_, at), word_seed(at)); };
    if (std::none_of(named.begin(), named.end(), holds)) {
      return fail(errc::corrupt,
                  "directory of lock-free structures: the word that names it, at offset %lu, fails its check: %016lx",
                  *named.begin(), load_word(base_, *named.begin()));
    }
    for (const std::uint64_t at : named) {
      const std::uint64_t word = load_word(base_, at);
      if (!holds(at) || word == 0) continue;
      const std::uint64_t place = word & checked_mask;
      const auto run = pages_.owned_at(place);
      if (!run || run->offset != place || run->owner != layout::directory_owner ||
          run->bytes < sizeof(layout::directory)) {
        return fail(errc::corrupt, "directory of lock-free structures: offset %lu is no run of it", place);
      }
      offset_ = place;
      break;
    }
    if (offset_ == 0) return {};
    if (status s = check_directory(); !s) return s;
    // A crash may have come between the two.
    for (const std::uint64_t at : named) {
      if ((load_word(base_, at) & checked_mask) != offset_) {
        name_directory(offset_);
        break;
      }
    }
    return {};
  }
  [[nodiscard]] bool exists() const noexcept { return offset_ != 0; }

  // Offset of the word that leads to a thread's tables of active areas.
  [[nodiscard]] std::uint64_t table_word(unsigned thread) const noexcept {
    return offset_ + offsetof(layout::directory, tables) + thread * 8;
  }
  [[nodiscard]] unsigned area_shift() const noexcept {
    return static_cast<unsigned>(directory().area_shift & checked_mask);
  }

  // Makes the directory if there is none.
  [[nodiscard]] status need(unsigned area_shift) noexcept {
    if (exists()) return {};
    const auto run =
        pages_.take_run(0, nvm::layout::slot_protocol::epoch, layout::directory_owner, sizeof(layout::directory));
    if (!run) return run.error();
    std::memset(base_ + *run, 0, sizeof(layout::directory));
    auto& d = *reinterpret_cast<layout::directory*>(base_ + *run);
    d.magic = layout::directory_magic;
    d.version = sealed(1, *run + offsetof(layout::directory, version));
    d.area_shift = sealed(area_shift, *run + offsetof(layout::directory, area_shift));
    medium_.flush(&d, sizeof d);
    medium_.fence(edge{"lockfree/E13"});
    name_directory(*run);
    offset_ = *run;
    return {};
  }

  // errc::not_found, corrupt.
  [[nodiscard]] result<found> find(std::string_view name) const noexcept {
    for (unsigned i = 0; exists() && i < layout::structures_max; ++i) {
      const auto f = at(i);
      if (!f) return f.error();
      if (f->kind != layout::kind::none && name == entry(i).name) return *f;
    }
    return fail(errc::not_found, "the pool has no lock-free structure '%.*s'", static_cast<int>(name.size()),
                name.data());
  }
  template <class Visit>
  [[nodiscard]] status each(Visit&& visit) const {
    for (unsigned i = 0; exists() && i < layout::structures_max; ++i) {
      const auto f = at(i);
      if (!f) return f.error();
      if (f->kind != layout::kind::none) visit(*f, std::string_view{entry(i).name});
    }
    return {};
  }

  // make(owner) -> result<root offset>: takes pages with this number and makes the root, flushed.  The caller holds the
  // lock that keeps others from creating and dropping.  errc::invalid for a name, exists, no_space.
  template <class Make>
  [[nodiscard]] result<found> create(std::string_view name, layout::kind kind, std::uint64_t parameters,
                                     std::uint64_t flags, Make&& make) noexcept {
    if (name.empty() || name.size() > layout::name_max || name.find('\0') != std::string_view::npos) {
      return fail(errc::invalid, "a name of %zu bytes: 1 to %u, none of them 0", name.size(), layout::name_max);
    }
    if (const auto f = find(name); f) {
      return fail(errc::exists, "the pool has a lock-free structure '%.*s' already", static_cast<int>(name.size()),
                  name.data());
    } else if (f.error() != errc::not_found) {
      return f.error();
    }
    unsigned i = 0;
    while (i < layout::structures_max && (entry(i).state != 0)) ++i;
    if (i == layout::structures_max) {
      return fail(errc::no_space, "the pool has %u lock-free structures, and no more can be", layout::structures_max);
    }
    const auto owner = static_cast<std::uint16_t>(layout::first_owner + i);
    const result<std::uint64_t> root = make(owner);
    if (!root) {
      give_pages_of(owner);
      return root.error();
    }
    layout::entry& e = entry(i);
    const std::uint64_t offset = entry_offset(i);
    std::memset(&e, 0, sizeof e);
    e.root = sealed(*root, offset + offsetof(layout::entry, root));
    e.parameters = sealed(parameters, offset + offsetof(layout::entry, parameters));
    e.flags = sealed(flags, offset + offsetof(layout::entry, flags));
    std::memcpy(e.name, name.data(), name.size());
    e.crc = entry_crc(i);
    medium_.flush(&e, sizeof e);
    medium_.fence(edge{"lockfree/E15"});
    store_word(offset, std::uint64_t(kind) | std::uint64_t{owner} << 8 | layout::entry_version(flags) << 24);
    medium_.fence(edge{"lockfree/E16"});
    return found{i, kind, owner, *root, parameters, flags};
  }
  void drop(const found& f) noexcept {
    store_word(entry_offset(f.index), layout::leaving(f.owner));
    medium_.fence(edge{"lockfree/E17"});
    give_pages_of(f.owner);
    store_word(entry_offset(f.index), 0);
  }

  // Entries of the structure, if it was counted and nothing has changed since (tally.hpp).
  [[nodiscard]] std::optional<std::uint64_t> tally(const found& f) const noexcept {
    if ((f.flags & layout::entry_tally) == 0) return std::nullopt;
    return tally_in(entry(f.index), tally_at(f.index));
  }
  // At rest.
  void set_tally(const found& f, std::uint64_t entries) noexcept {
    if ((f.flags & layout::entry_tally) == 0) return;
    lockfree::set_tally(medium_, entry(f.index), tally_at(f.index), entries);
  }

  // ---- recovery: no thread uses the structures ----

  // errc::corrupt: a structure has pages and an entry that says that there is none; or there is no directory.
  [[nodiscard]] status check_states() const noexcept {
    struct closure {
      const catalogue& in;
      std::array<unsigned, layout::structures_max> runs{};
      unsigned missed = layout::structures_max;
    } k{*this};
    pages_.each_owned(0, pages_.size_pages(), &k, [](void* raw, const owned_pages& p) {
      auto& of = *static_cast<closure*>(raw);
      const unsigned i = p.owner - layout::first_owner;
      if (p.owner < layout::first_owner || i >= layout::structures_max) return true;
      if (!of.in.exists()) {
        of.missed = i;
        return false;
      }
      const bool is_run = p.kind == nvm::layout::page_kind::run;
      const bool is_used = !is_run || ++of.runs[i] > runs_when_made;
      if (is_used && load_word(of.in.base_, of.in.entry_offset(i)) == 0) of.missed = i;
      return of.missed == layout::structures_max;
    });
    if (k.missed == layout::structures_max) return {};
    if (!exists()) {
      return fail(errc::corrupt, "directory of lock-free structures: found none, named at offset %lu, and pages of %u",
                  *pages_.lockfree_directory().begin(), k.missed + layout::first_owner);
    }
    return fail(errc::corrupt,
                "entry %u of lock-free structures, at offset %lu: its state is zero, and there are pages of it",
                k.missed, entry_offset(k.missed));
  }

  // Frees pages of structures' numbers without an entry, and pages of the directory that it does not name; all of them
  // if a crash came before there was a directory.
  void free_foreign_pages(recovery_report& report) noexcept {
    write_back_names();
    give_pages_if([&](const owned_pages& p) {
      if (p.owner >= layout::first_owner + layout::structures_max) return false;  // another owner's
      if (p.owner != layout::directory_owner) {
        const unsigned i = p.owner - layout::first_owner;
        const bool lives = exists() && i < layout::structures_max && at(i) && at(i)->kind != layout::kind::none;
        report.pages_freed += lives ? 0 : 1;
        return !lives;
      }
      const bool known = exists() && (p.offset == offset_ || is_table(p.offset));
      report.pages_freed += known ? 0 : 1;
      return !known;
    });
    for (unsigned i = 0; exists() && i < layout::structures_max; ++i) {
      if (is_leaving(i)) store_word(entry_offset(i), 0);
    }
  }

  // `structure_of(owner)`: nullptr if it is not to be looked at.  Part i of n; begin_recovery() before, end_recovery()
  // after all parts.
  struct dead_node {
    structure* of;
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  struct recovery {
    struct area {
      std::uint64_t number;
      std::uint16_t owner;
      bool unlinked_only;
      structure* of;
    };
    std::vector<area> areas;
    std::atomic<std::size_t> next{0};
    std::mutex lock;
    std::vector<dead_node> dead;
    std::atomic<std::uint64_t> allocated{0};
    std::atomic<std::uint64_t> searched{0};
    std::atomic<bool> out_of_memory{false};
    unsigned shift = 12;
    recovery_method method = recovery_method::automatic;
  };
  template <class StructureOf>
  [[nodiscard]] status begin_recovery(recovery& r, StructureOf&& structure_of, recovery_method method) noexcept;
  void recover_part(recovery& r) noexcept;
  // Between the parts and the end: whether what they found may be acted on.  errc::no_memory, corrupt.
  [[nodiscard]] status check_recovery(const recovery& r) const noexcept;
  // Calls tell(offset, what) for unlinked nodes that look linked and lead to another such node: no crash leaves a pair.
  // A node that a thread was about to link led to a linked node, which is marked before it is unlinked.  Every other
  // place that was never linked is wiped, or empty.  Single ones say nothing: a wipe may not be durable yet, and
  // earlier libraries did not wipe.  Leaves of trees lead nowhere: they are told by their number alone.
  template <class Tell>
  void tell_lost(const recovery& r, Tell&& tell) const;
  // settle() -> status: unlinks, by a thread of the domain, nodes that recovery has found deleted and linked.  The
  // tables lead there until then.
  template <class Settle>
  [[nodiscard]] status end_recovery(recovery& r, recovery_report& report, Settle&& settle) noexcept;

 private:
  // Whether words that recovery sees may be missing on the medium.
  [[nodiscard]] bool looks_at_caches() const noexcept { return !M::atomic_batches && !stores_survive(medium_); }
  void write_back_linked(structure& of, std::uint64_t offset, std::uint64_t bytes, const link* by) noexcept {
    if (!looks_at_caches()) return;
    if (by != nullptr) medium_.flush(by, sizeof *by);
    of.write_back_mark(offset, bytes);
  }
  void write_back_names() noexcept {
    if (!looks_at_caches()) return;
    // Zero words, too: pages that were given back get another use.
    pages_.write_back_entries();
    if (exists()) write_back_directory();
    medium_.fence(edge{"lockfree/E27"});
  }
  void write_back_directory() noexcept {
    for (const std::uint64_t at : pages_.lockfree_directory()) medium_.flush(base_ + at, 8);
    medium_.flush(&directory(), sizeof(layout::directory));
    for (unsigned i = 0; i < layout::structures_max; ++i) {
      const auto f = at(i);
      if (f && f->kind != layout::kind::none) medium_.flush(base_ + f->root, root_bytes_max);
    }
  }
  static constexpr std::uint64_t root_bytes_max = 512;
  static constexpr unsigned runs_when_made = 2;  // a root, and the first array of a hash table
  [[nodiscard]] bool is_leaving(unsigned i) const noexcept {
    const auto owner = static_cast<std::uint16_t>(layout::first_owner + i);
    return load_word(base_, entry_offset(i)) == sealed(layout::leaving(owner), entry_offset(i));
  }
  void name_directory(std::uint64_t offset) noexcept {
    for (const std::uint64_t at : pages_.lockfree_directory()) store_word(at, offset);
    medium_.fence(edge{"lockfree/E14"});
  }
  [[nodiscard]] layout::directory& directory() const noexcept {
    return *reinterpret_cast<layout::directory*>(base_ + offset_);
  }
  [[nodiscard]] layout::entry& entry(unsigned i) const noexcept { return directory().entries[i]; }
  [[nodiscard]] std::uint64_t entry_offset(unsigned i) const noexcept {
    return offset_ + offsetof(layout::directory, entries) + i * sizeof(layout::entry);
  }
  [[nodiscard]] static std::uint64_t sealed(std::uint64_t content, std::uint64_t at) noexcept {
    return seal_word(content, word_seed(at));
  }
  [[nodiscard]] std::uint64_t tally_at(unsigned i) const noexcept {
    return entry_offset(i) + offsetof(layout::entry, tally);
  }
  void clear_tallies() noexcept {
    for (unsigned i = 0; i < layout::structures_max; ++i) clear_tally(medium_, entry(i));
  }
  void store_word(std::uint64_t at, std::uint64_t content) noexcept {
    auto* word = reinterpret_cast<std::uint64_t*>(base_ + at);
    bring_first(word);
    // release: a thread that finds the word finds what it leads to.
    std::atomic_ref<std::uint64_t>{*word}.store(sealed(content, at), std::memory_order_release);
    medium_.flush(word, 8);
  }
  [[nodiscard]] std::uint64_t entry_crc(unsigned i) const noexcept {
    const auto* from = reinterpret_cast<const std::byte*>(&entry(i)) + 8;
    return checksum(from, offsetof(layout::entry, crc) - 8, entry_offset(i));
  }
  // errc::corrupt if a word of it fails.
  [[nodiscard]] result<found> at(unsigned i) const noexcept {
    const layout::entry& e = entry(i);
    const std::uint64_t offset = entry_offset(i);
    const auto broken = [&](const char* what, std::uint64_t word) {
      return fail(errc::corrupt, "entry %u of lock-free structures, at offset %lu: %s: found %016lx", i, offset, what,
                  word);
    };
    const std::uint64_t state = load_word(base_, offset);
    if (state == 0 || is_leaving(i)) return found{};
    if (!word_holds(state, word_seed(offset))) return broken("its state fails its check", state);
    const std::uint64_t content = state & checked_mask;
    found f;
    f.index = i;
    f.kind = static_cast<layout::kind>(content & 0xFF);
    f.owner = static_cast<std::uint16_t>(content >> 8);
    if (f.kind == layout::kind::none || f.kind > layout::last_kind || f.owner != layout::first_owner + i) {
      return broken("its state is none that we know", state);
    }
    const std::uint64_t crc = entry_crc(i);
    if (crc != e.crc) return broken("it fails its checksum", e.crc);
    f.root = e.root & checked_mask;
    f.parameters = e.parameters & checked_mask;
    f.flags = e.flags & checked_mask;
    if (content >> 24 > layout::entry_version_tally || (f.flags & ~layout::entry_flags_known) != 0) {
      return fail(errc::version, "lock-free structure '%.*s': version %lu, flags %lx: this library does not know them",
                  static_cast<int>(layout::name_max), e.name, content >> 24, f.flags);
    }
    if (content >> 24 != layout::entry_version(f.flags)) return broken("its state is none that we know", state);
    const auto run = pages_.owned_at(f.root);
    if (!run || run->offset != f.root || run->owner != f.owner || run->kind != nvm::layout::page_kind::run) {
      return broken("its root is no run of it", e.root);
    }
    if (e.name[layout::name_max] != '\0') return broken("its name has no end", 0);
    return f;
  }
  [[nodiscard]] status check_directory() const noexcept {
    const layout::directory& d = directory();
    if (d.magic != layout::directory_magic) {
      return fail(errc::corrupt,
                  "directory of lock-free structures at offset %lu: magic: found %016lx, expected %016lx", offset_,
                  d.magic, layout::directory_magic);
    }
    const std::uint64_t version_at = offset_ + offsetof(layout::directory, version);
    if (!word_holds(d.version, word_seed(version_at)) || (d.version & checked_mask) != 1) {
      return fail(errc::version, "directory of lock-free structures at offset %lu: version: found %016lx, expected 1",
                  version_at, d.version);
    }
    const std::uint64_t shift_at = offset_ + offsetof(layout::directory, area_shift);
    if (!word_holds(d.area_shift, word_seed(shift_at)) || area_shift() < 10 || area_shift() > 30) {
      return fail(errc::corrupt, "directory of lock-free structures at offset %lu: area_shift: found %016lx", shift_at,
                  d.area_shift);
    }
    for (unsigned i = 0; i < layout::structures_max; ++i) {
      if (const auto f = at(i); !f) return f.error();
    }
    return {};
  }

  // Calls visit(offset, content) for each word that is set, of every table of every thread.
  template <class Visit>
  void each_table_word(Visit&& visit) const {
    const std::uint64_t words = pages_.sizes().page_bytes() / 8 - 1;
    each_table([&](std::uint64_t table) {
      for (std::uint64_t w = 0; w < words; ++w) {
        const std::uint64_t at = table + w * 8;
        const std::uint64_t word = load_word(base_, at);
        if (word != 0 && word_holds(word, word_seed(at))) visit(at, word & checked_mask);
      }
    });
  }
  // Line by line, so that each is written back once.
  void clear_tables() noexcept {
    constexpr std::uint64_t words = line_bytes / 8;
    each_table([&](std::uint64_t table) {
      // The last word leads to the next table.
      const std::uint64_t end = table + pages_.sizes().page_bytes() - 8;
      for (std::uint64_t line = table; line < end; line += line_bytes) {
        const std::uint64_t count = std::min((end - line) / 8, words);
        bool any = false;
        for (std::uint64_t at = line; at < line + count * 8; at += 8) {
          const std::uint64_t word = load_word(base_, at);
          if ((word & checked_mask) == 0 || !word_holds(word, word_seed(at))) continue;
          // relaxed: no other thread is there.
          std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(base_ + at)}.store(
              sealed(0, at), std::memory_order_relaxed);
          any = true;
        }
        if (any) medium_.flush(base_ + line, count * 8);
      }
    });
  }
  [[nodiscard]] std::uint64_t offset_in_pool(const void* p) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_);
  }
  static constexpr std::size_t unlinked_a_thread = 16;
  // Threads that have ever worked here at one time.
  [[nodiscard]] std::size_t threads_known() const noexcept {
    std::size_t n = 0;
    for (unsigned t = 0; exists() && t < 256; ++t) n += load_word(base_, table_word(t)) != 0 ? 1 : 0;
    return n;
  }
  template <class Visit>
  void each_table(Visit&& visit) const {
    const std::uint64_t page_bytes = pages_.sizes().page_bytes();
    for (unsigned t = 0; t < 256; ++t) {
      std::uint64_t at = table_word(t);
      // Tables of damaged pools may lead round in a circle.
      for (unsigned n = 0; n < 64; ++n) {
        const std::uint64_t word = load_word(base_, at);
        if (word == 0 || !word_holds(word, word_seed(at))) break;
        const std::uint64_t table = word & checked_mask;
        const auto run = pages_.owned_at(table);
        if (!run || run->offset != table || run->owner != layout::directory_owner || run->bytes != page_bytes) break;
        visit(table);
        at = table + page_bytes - 8;
      }
    }
  }
  [[nodiscard]] bool is_table(std::uint64_t offset) const {
    bool is = false;
    each_table([&](std::uint64_t table) { is = is || table == offset; });
    return is;
  }

  void give_pages_of(std::uint16_t owner) noexcept {
    give_pages_if([&](const owned_pages& p) { return p.owner == owner; });
  }
  template <class Condition>
  void give_pages_if(Condition&& goes) noexcept {
    struct closure {
      Condition& goes;
      structure_pages& pages;
    } k{goes, pages_};
    pages_.each_owned(0, pages_.size_pages(), &k, [](void* raw, const owned_pages& p) {
      auto& in = *static_cast<closure*>(raw);
      if (in.goes(p)) in.pages.give(p.offset);
      return true;
    });
  }

  // Frees dead nodes, those of one structure at a time.
  static void free_all(const std::vector<dead_node>& dead) noexcept;
  // An area that a part of recovery works on.
  struct listed_area {
    structure* of;
    bool unlinked_only;
    std::size_t begin;  // of its nodes
  };
  struct part {
    recovery& r;
    std::vector<listed_area> areas{};
    std::vector<structure::candidate> nodes{};       // of these
    structure* of = nullptr;                         // that the candidates belong to
    std::vector<structure::candidate> candidates{};  // to be looked for
    std::vector<dead_node> dead{};
    std::uint64_t allocated = 0;
    std::uint64_t searched = 0;
  };
  static constexpr std::size_t candidates_at_once = 256;
  static constexpr std::size_t areas_at_once = 8;
  void list_area(part& p, const typename recovery::area& a);
  void look_at_listed(part& p);
  void search_for(part& p);
  [[nodiscard]] static bool traverses(const recovery& r, const structure& s) noexcept {
    return r.method == recovery_method::traversal || (r.method == recovery_method::automatic && s.searches_slowly());
  }
  // Callbacks of structures may not throw.
  template <class T>
  static void keep(recovery& r, std::vector<T>& in, const std::type_identity_t<T>& one) noexcept try {
    in.push_back(one);
  } catch (const std::bad_alloc&) {
    r.out_of_memory.store(true, std::memory_order_relaxed);
  }
  struct linked_node {
    std::uint64_t offset;
    const link* by = nullptr;
    bool operator<(const linked_node& other) const noexcept { return offset < other.offset; }
  };
  // All areas of one structure, areas[first] being the first.
  void traverse(recovery& r, std::size_t first, std::vector<dead_node>& dead, std::uint64_t& allocated) noexcept;

  M& medium_;
  std::byte* const base_;
  structure_pages& pages_;
  std::uint64_t offset_ = 0;  // of the directory; 0: there is none
};

}  // namespace nvm::lockfree

#include "lockfree/catalogue_recovery.hpp"  // IWYU pragma: export
