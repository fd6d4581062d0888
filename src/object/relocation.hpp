// Relocation: rewrites stored pointers of a pool that was opened at another address, so that they lead to the same
// places.
//
// A pointer's value says all about it (pool/base_history.hpp): null stays null; a pointer into a range of the history
// is moved by the distance of that range, also if it leads into the middle of an object or one past its end; any other
// is foreign, which is reported and left alone.  The type map tells which words are pointers.
//
//   0. look at every object: each is of a known type; nothing is stored if one is not
//   1. begin_relocation()                           | pool/E1, E2
//   2. each part: S moved pointers; F their lines   | object/E1     before a base is forgotten
//      where an earlier one was not finished, F lines of all pointers: a process that was killed may have left them in
//      caches only
//      pointers at no multiple of 8 bytes (packed types), which no single store replaces: transactions of the engine,
//      that of each durable, or ordered, before 3
//   3. finish_relocation()                          | pool/E1, E2
// Recovery: none; the next open finds several bases and begins at 0.
//
// Everything else of a pool is offsets: roots, type map, key-value stores, lock-free structures, logs.
//
// Threads: parts may run in parallel.  No other thread uses the pool meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/plant.hpp"
#include "media/media.hpp"
#include "object/pointer_walk.hpp"
#include "object/relocation_report.hpp"
#include "pool/pool.hpp"
#include "space/aligned_layout.hpp"
#include "space/space.hpp"
#include "tx/tx.hpp"

namespace nvm::object {

// Objects that keep a pool from being relocated, by type.
class obstacles {
 public:
  struct of_type {
    std::uint32_t type = 0;
    std::uint64_t objects = 0;
  };

  void add(std::uint32_t type, std::uint64_t objects) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (types_[i].type != type) continue;
      types_[i].objects += objects;
      return;
    }
    if (count_ == types_.size()) {
      others_ += objects;
    } else {
      types_[count_++] = {type, objects};
    }
  }
  void add(const obstacles& o) noexcept {
    for (std::size_t i = 0; i < o.count_; ++i) add(o.types_[i].type, o.types_[i].objects);
    others_ += o.others_;
  }
  [[nodiscard]] bool none() const noexcept { return count_ == 0; }
  // errc::address, which names types and numbers of objects.
  [[nodiscard]] errc refuse(const char* what) const noexcept;

 private:
  std::array<of_type, 16> types_{};
  std::size_t count_ = 0;
  std::uint64_t others_ = 0;  // objects of types that there was no room for
};

// What looking at all objects has found.
struct survey {
  obstacles undescribed;
  std::uint64_t packed = 0;  // objects of which some pointer is at no multiple of 8
  errc failure = errc::ok;

  // Looks at an object whose bytes are at `object`.  `plan` nullptr: its pointers cannot be told.
  void look_at(std::uint32_t type, const pointer_plan* plan, const std::byte* object, std::uint64_t bytes) noexcept {
    if (plan == nullptr) return undescribed.add(type, 1);
    bool fits = plan->aligned();
    // A visitor may tell of any word.
    if (fits && plan->asks_object()) {
      plan->each(object, bytes, [&](const pointer_word& p) { fits = fits && p.at % 8 == 0; });
    }
    packed += fits ? 0 : 1;
  }
  void add(const survey& s) noexcept {
    undescribed.add(s.undescribed);
    packed += s.packed;
    if (failure == errc::ok) failure = s.failure;
  }
  [[nodiscard]] status refusal() const noexcept;
};

// Where pointers lead after a relocation.  The passes below ask it, as they ask a static_mover (static_pointers.hpp).
class mover {
 public:
  // `goes_on`: an earlier relocation was not finished.  If its process was killed, pointers that lead right may be in
  // caches only.
  mover(const base_ranges& known, std::uint64_t now, bool goes_on) noexcept
      : known_{known}, now_{now}, goes_on_{goes_on} {}
  [[nodiscard]] bool goes_on() const noexcept { return goes_on_; }
  // Whether it moves pointers of this kind.
  static constexpr bool concerns(layout::field_kind k) noexcept { return k != layout::field_kind::static_pointer; }
  // The fence that makes moved pointers durable.
  static constexpr edge moved_edge() noexcept { return edge{"object/E1"}; }
  enum class what : std::uint8_t { stays, moves, foreign };
  // Changes `value` to what it is to be.
  [[nodiscard]] what move(std::uint64_t& value, bool /*guessed*/ = false) const noexcept {
    if (value == 0 && planted(plant::null_moved)) {  // plant::
      value = now_ - known_.bases[known_.count - 1];
      return what::moves;
    }
    if (value == 0 || value - now_ - 1 < known_.bytes) return what::stays;
    const auto offset = known_.offset_of(value);
    if (!offset) return what::foreign;
    value = now_ + *offset;
    return what::moves;
  }

 private:
  base_ranges known_;
  std::uint64_t now_;
  bool goes_on_;
};

// The plan of a type; objects of one type often follow each other.
class plan_finder {
 public:
  explicit plan_finder(const pointer_plans& plans) noexcept : plans_{plans} {}
  [[nodiscard]] const pointer_plan* find(std::uint32_t type) noexcept {
    if (type != type_ || plan_ == nullptr) {
      type_ = type;
      plan_ = plans_.known(type);
    }
    return plan_;
  }

 private:
  const pointer_plans& plans_;
  std::uint32_t type_ = 0;
  const pointer_plan* plan_ = nullptr;
};

// Lines that were stored to, written back as the stores leave them.
template <media M>
class stored_lines {
 public:
  explicit stored_lines(M& m) noexcept : medium_{m} {}
  void stored(std::byte* word) noexcept {
    const auto line = reinterpret_cast<std::uintptr_t>(word) / line_bytes;
    if (line >= first_ && line < end_) return;
    if (line != end_ || end_ - first_ == lines_max) {
      write_back();
      first_ = line;
    }
    end_ = line + 1;
  }
  void write_back() noexcept {
    if (first_ != end_) medium_.flush(reinterpret_cast<void*>(first_ * line_bytes), (end_ - first_) * line_bytes);
    first_ = end_ = 0;
  }

 private:
  static constexpr std::uintptr_t lines_max = 64;
  M& medium_;
  std::uintptr_t first_ = 0, end_ = 0;
};

// Calls visit(header, payload, bytes) for each typed object that begins in part `part` of `parts`.  errc::corrupt names
// the first place or header that is damaged.
template <class Visit>
[[nodiscard]] status each_typed(const std::byte* base, const geometry& g, unsigned part, unsigned parts,
                                Visit&& visit) noexcept {
  std::uint64_t damaged = 0;
  const std::uint64_t first = g.size_pages * part / parts;
  const std::uint64_t end = g.size_pages * (part + 1) / parts;
  status s = for_each_object(base, g, first, end, [&](std::uint64_t at, std::uint64_t room, layout::object_layout l) {
    if (l != layout::object_layout::typed) return true;
    const auto& h = *reinterpret_cast<const layout::object_header*>(base + at);
    const auto a = layout::alignment_of(h, at);
    const std::uint64_t size = layout::object_size(h);
    if (!layout::object_header_holds(h, at) || !a || size > room - sizeof h) {
      if (damaged == 0) damaged = at;
      return true;
    }
    visit(h, at + a->gap, size - a->padding());
    return true;
  });
  if (s && damaged != 0) {
    return fail(errc::corrupt, "object at offset %lu: found a header that fails its check, expected one that holds",
                damaged);
  }
  return s;
}

// Step 0 of a part.
inline void survey_part(const std::byte* base, const geometry& g, const pointer_plans& plans, unsigned part,
                        unsigned parts, survey& out) noexcept {
  plan_finder finder{plans};
  const status s =
      each_typed(base, g, part, parts, [&](const layout::object_header& h, std::uint64_t payload, std::uint64_t bytes) {
        out.look_at(h.type, finder.find(h.type), base + payload, bytes);
      });
  if (!s) out.failure = s.error();
}

// The pointers of one object at multiples of 8 bytes, in memory at `payload`.
template <media M, class Mover>
void move_object(std::byte* payload, std::uint64_t offset, std::uint64_t bytes, std::uint32_t type,
                 const pointer_plan& plan, const Mover& to, stored_lines<M>& lines, relocation_report& out) noexcept {
  ++out.objects;
  plan.each(payload, bytes, [&](const pointer_word& p) {
    if (!Mover::concerns(p.kind) || p.at % 8 != 0) return;
    auto* const word = reinterpret_cast<std::uint64_t*>(payload + p.at);
    std::uint64_t value = *word;
    out.pointers += value != 0 && !p.guessed ? 1 : 0;
    switch (to.move(value, p.guessed)) {
      case Mover::what::stays:
        if (to.goes_on() && value != 0) lines.stored(payload + p.at);
        break;
      case Mover::what::foreign:
        out.found_foreign({offset, p.at, value, type});
        break;
      case Mover::what::moves:
        // relaxed: one store, so that a crash finds the pointer or the one that it becomes.
        std::atomic_ref{*word}.store(value, std::memory_order_relaxed);
        lines.stored(payload + p.at);
        ++out.moved;
        break;
    }
  });
}

// Step 2 of a part.  All plans exist.
template <media M, class Mover>
[[nodiscard]] status move_part(M& m, std::byte* base, const geometry& g, const pointer_plans& plans, const Mover& to,
                               unsigned part, unsigned parts, relocation_report& out) noexcept {
  plan_finder finder{plans};
  stored_lines<M> lines{m};
  const status s =
      each_typed(base, g, part, parts, [&](const layout::object_header& h, std::uint64_t payload, std::uint64_t bytes) {
        const pointer_plan* const plan = finder.find(h.type);
        if (plan != nullptr) move_object(base + payload, payload, bytes, h.type, *plan, to, lines, out);
      });
  lines.write_back();
  m.fence(to.moved_edge());
  return s;
}

// Pointers at no multiple of 8 bytes, which share words with their neighbours: whole words that become new together.
template <class Store>
class packed_words {
 public:
  // store(words) stores them all or none: one transaction.
  packed_words(std::byte* base, Store& store) noexcept : base_{base}, store_{store} {}

  [[nodiscard]] std::uint64_t read(std::uint64_t at) const noexcept {
    std::uint64_t value = 0;
    const auto two = words_at(at);
    std::memcpy(&value, reinterpret_cast<const std::byte*>(two.data()) + at % 8, sizeof value);
    return value;
  }
  [[nodiscard]] status replace(std::uint64_t at, std::uint64_t value) noexcept {
    auto two = words_at(at);
    std::memcpy(reinterpret_cast<std::byte*>(two.data()) + at % 8, &value, sizeof value);
    for (unsigned i = 0; i < 2; ++i) put(at / 8 * 8 + std::uint64_t{8} * i, two[i]);
    return count_ + 2 > words_max ? finish() : status{};
  }
  [[nodiscard]] status finish() noexcept {
    const std::size_t count = std::exchange(count_, 0);
    return count == 0 ? status{} : store_(std::span{words_.data(), count});
  }

 private:
  static constexpr std::size_t words_max = 32;

  // The two words at `at`, with replacements that are not stored yet.
  [[nodiscard]] std::array<std::uint64_t, 2> words_at(std::uint64_t at) const noexcept {
    std::array<std::uint64_t, 2> two{};
    std::memcpy(two.data(), base_ + at / 8 * 8, sizeof two);
    for (std::size_t i = 0; i < count_; ++i) {
      const std::uint64_t k = (words_[i].offset - at / 8 * 8) / 8;
      if (k < 2) two[k] = words_[i].value;
    }
    return two;
  }
  void put(std::uint64_t offset, std::uint64_t value) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (words_[i].offset != offset) continue;
      words_[i].value = value;
      return;
    }
    words_[count_++] = {offset, value};
  }

  std::byte* base_;
  Store& store_;
  std::array<tx::assigned_word, words_max> words_{};
  std::size_t count_ = 0;
};

// Step 2 of pointers at no multiple of 8 bytes.
template <class Store, class Mover>
[[nodiscard]] status move_packed(std::byte* base, const geometry& g, const pointer_plans& plans, const Mover& to,
                                 Store& store, relocation_report& out) noexcept {
  plan_finder finder{plans};
  packed_words<Store> words{base, store};
  status moved;
  const auto move_one = [&](std::uint64_t payload, std::uint64_t at, std::uint32_t type) {
    std::uint64_t value = words.read(payload + at);
    out.pointers += value != 0 ? 1 : 0;
    switch (to.move(value)) {
      case Mover::what::stays:
        break;
      case Mover::what::foreign:
        out.found_foreign({payload, at, value, type});
        break;
      case Mover::what::moves:
        moved = words.replace(payload + at, value);
        ++out.moved;
        break;
    }
  };
  const status s =
      each_typed(base, g, 0, 1, [&](const layout::object_header& h, std::uint64_t payload, std::uint64_t bytes) {
        const pointer_plan* const plan = finder.find(h.type);
        if (plan == nullptr) return;
        plan->each(base + payload, bytes, [&](const pointer_word& p) {
          if (p.at % 8 == 0 || !Mover::concerns(p.kind) || !moved) return;
          move_one(payload, p.at, h.type);
        });
      });
  if (!s) return s;
  return moved ? words.finish() : moved;
}

// Step 2 for all objects, in parts; for a static_mover one pass.  `packed`: some pointers may be at no multiple of 8.
// May throw std::bad_alloc.
template <media M, class Mover, class Run, class Store>
[[nodiscard]] status move_all(M& m, std::byte* base, const geometry& g, const pointer_plans& plans, const Mover& to,
                              bool packed, unsigned parts, Run&& run, Store&& store, relocation_report& report) {
  std::vector<relocation_report> reports(parts);
  std::atomic<errc> failed{errc::ok};
  run(parts, [&](unsigned part) noexcept {
    if (status s = move_part(m, base, g, plans, to, part, parts, reports[part]); !s) failed = s.error();
  });
  for (const relocation_report& r : reports) report.add(r);
  if (failed != errc::ok) return failed.load();
  return packed ? move_packed(base, g, plans, to, store, report) : status{};
}

// Step 0.
template <class Run>
[[nodiscard]] result<survey> survey_all(const std::byte* base, const geometry& g, const pointer_plans& plans,
                                        unsigned parts, Run&& run) {
  std::vector<survey> found(parts);
  run(parts, [&](unsigned part) noexcept { survey_part(base, g, plans, part, parts, found[part]); });
  survey all;
  for (unsigned part = 0; part < parts; ++part) {
    // Once more in this thread, since the message is per thread.
    if (found[part].failure != errc::ok) survey_part(base, g, plans, part, parts, found[part]);
    all.add(found[part]);
  }
  if (status s = all.refusal(); !s) return s.error();
  return all;
}

// All steps, of a pool whose objects are where their addresses say.  `pool` has bases(), address(),
// begin_relocation(m), finish_relocation(m); run(parts, f) calls f(0) .. f(parts - 1), maybe in parallel; store(words)
// stores whole words of the pool in one transaction.
template <media M, class Pool, class Run, class Store>
[[nodiscard]] status relocate(M& m, std::byte* base, const geometry& g, const pointer_plans& plans, Pool& pool,
                              unsigned parts, Run&& run, Store&& store, relocation_report& report) try {
  const auto all = survey_all(base, g, plans, parts, run);
  if (!all) return all.error();

  const bool goes_on = pool.bases().count > 1;
  if (status s = planted(plant::base_not_in_history) ? status{} : pool.begin_relocation(m); !s) return s;
  const mover to{pool.bases(), pool.address(), goes_on};
  if (status s = move_all(m, base, g, plans, to, all->packed != 0, parts, run, store, report); !s) return s;
  return pool.finish_relocation(m);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to relocate a pool");
}

}  // namespace nvm::object
