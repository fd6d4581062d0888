// Recovery of one lane: a pure function over the pool's bytes.
//
/// S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
///   1. validate every record and every target before the first store; F retired, commit records
///                                                                    | recover/E9  (tx/recover.hpp)
///   2. c = the largest generation of a valid commit record; make again, oldest first, the intents of the commit
///      records newer than `retired` (at most those of the last 8 generations: what is older is durable): S word,
///      length byte; F
///   3. put back the ranges of the undo records of generation c + 1, newest first: S old bytes; F them
///                                                                    | recover/E1  all of it durable before step 4
///   4. S checksum 0 of a torn commit record; F                       | recover/E2  step 5 cannot complete it
///   5. S commit record {c + 1, rest}; F                              | recover/E3  the records are void before step 6
///   6. S retired; F                                                  | recover/E4  on return the lane is at rest
/// Repeatable: intents set or clear bits, undo stores old values, and until 5 is durable the same records lead to the
/// same stores. If `retired` were durable before the commit record, a second recovery would count from there and leave
/// the torn record in place, where a check of the closed pool would find it.
///
/// A lane that is not at rest loses a generation even when there is nothing to undo: a torn undo record of generation c
/// + 1 may lie in its body, and a next transaction of the same generation could supply the very words that the record
/// lacks.  A lane that is at rest has an untouched body: its first log in a process begins with a
/// fresh generation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "log/intent.hpp"
#include "log/record.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"

namespace nvm::log {

struct lane_report {
  std::uint64_t generation = 0;   // the lane's last finished generation, after recovery
  std::uint64_t replayed = 0;     // intents made again
  std::uint64_t rolled_back = 0;  // transactions undone: 0 or 1
  std::uint64_t completed = 0;    // committed transactions some of whose intents had not reached the media
};

// Valid targets of records; given by the layers that know them.
template <class V>
concept targets = requires(const V& v, std::uint64_t offset, std::uint64_t bytes, const intent& i) {
  { v.range(offset, bytes) } noexcept -> std::same_as<bool>;    // a transaction may have logged it
  { v.word(i) } noexcept -> std::same_as<bool>;                 // an allocation word that exists
  { v.segment(offset, bytes) } noexcept -> std::same_as<bool>;  // a log run
};

// Reads the intents of a commit record: calls visit(intent) for each; false if they are malformed.
template <class Visit>
bool each_intent(const std::uint64_t* words, std::uint64_t count, Visit&& visit) {
  for (std::uint64_t i = 0; i < count;) {
    intent it{words[i], 0};
    if (!it.well_formed() || count - i < it.words()) return false;
    if (it.words() == 2) it.value = words[i + 1];
    if (!visit(it)) return false;
    i += it.words();
  }
  return true;
}

template <targets V>
class lane_reader {
 public:
  lane_reader(const std::byte* base, const geometry& g, std::uint64_t key, unsigned lane, const V& valid) noexcept
      : base_{base}, geometry_{g}, key_{key}, lane_{lane}, valid_{valid} {
    at_ = g.log_offset + lane * g.lane_bytes;
    for (unsigned slot = 0; slot < layout::commit_slots; ++slot) {
      slots_[slot] = commit_at(base, at_, slot, key);
      if (slots_[slot] != nullptr && slots_[slot]->generation > generation_) generation_ = slots_[slot]->generation;
    }
    newest_ = generation_;
  }

  // Checks everything that repair() will rely on.
  [[nodiscard]] status validate() noexcept {
    const auto* header = reinterpret_cast<const layout::lane_header*>(base_ + at_);
    if (!retired_holds(header->retired, at_)) {
      return fail(errc::corrupt,
                  "lane %u at offset %lu: retired generation: found %016lx, which fails its check or is above %lu",
                  lane_, at_, header->retired, layout::generation_max);
    }
    retired_ = header->retired & checked_mask;
    // A `retired` beyond the commit records means that the newest of them is damaged: `retired` was durable before it.
    if (retired_ > generation_) generation_ = retired_;
    // The slot of c + 1 may be torn; it held generation c - 7, whose intents are durable.
    for (std::uint64_t g = oldest_needed(); g <= newest_; ++g) {
      const layout::commit_record* c = slots_[g % layout::commit_slots];
      if (c == nullptr || c->generation != g) {
        return fail(errc::corrupt,
                    "lane %u: commit record of generation %lu at offset %lu: found none that passes its check", lane_,
                    g, at_ + layout::commit_slot_at(g));
      }
      const bool good = with_intents(c, [&](const intent& i) {
        ++pending_;
        return valid_.word(i);
      });
      if (!good) {
        return fail(errc::corrupt,
                    "lane %u: commit record of generation %lu at offset %lu: found intents that fit nothing", lane_, g,
                    at_ + layout::commit_slot_at(g));
      }
    }
    if (generation_ == 0 && torn(0)) {
      // Generation 1 goes to slot 1: other bytes have been written here.
      return fail(errc::corrupt, "lane %u at offset %lu: found no commit record that passes its check", lane_, at_);
    }
    if (generation_ == layout::generation_max && !at_rest()) {
      return fail(errc::corrupt, "lane %u at offset %lu: generation %lu is the last and has not come to rest", lane_,
                  at_, generation_);
    }
    auto last = walk(
        base_, at_ + layout::lane_body_at, at_ + geometry_.lane_bytes, generation_ + 1, body_key(key_, lane_),
        geometry_.size_bytes(), [&](std::uint64_t o, std::uint64_t n) { return valid_.segment(o, n); },
        [&](const layout::record_header* r, std::uint64_t at) -> status {
          if (!is_undo(r)) return {};
          const bool good = each_range(
              base_, r, [&](std::uint64_t o, std::uint64_t n, const std::byte*) { return valid_.range(o, n); });
          if (!good) return fail(errc::corrupt, "undo record at offset %lu has ranges outside the data", at);
          return {};
        });
    if (!last) return last.error();
    last_record_ = *last;
    // A generation begins when the one before has ended durably.
    const std::uint64_t body = at_ + layout::lane_body_at;
    const auto* first = reinterpret_cast<const layout::record_header*>(base_ + body);
    if (first->generation > generation_ + 1 &&
        record_at(base_, body, at_ + geometry_.lane_bytes, first->generation, body_key(key_, lane_)) != nullptr) {
      return fail(errc::corrupt,
                  "lane %u: found a record of generation %lu at offset %lu, expected none above %lu: the commit record "
                  "at offset %lu is damaged",
                  lane_, first->generation, body, generation_ + 1, at_ + layout::commit_slot_at(first->generation - 1));
    }
    return {};
  }

  [[nodiscard]] bool at_rest() const noexcept {
    if (torn(next_slot())) return false;
    if (generation_ == 0) return true;
    const layout::commit_record* c = slots_[generation_ % layout::commit_slots];
    return c != nullptr && c->generation == generation_ && retired_ == generation_ &&
           c->kind == static_cast<std::uint16_t>(layout::outcome::rest);
  }
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  // Calls visit(offset) for each commit record that has been damaged: of a pool that was closed any, else those that
  // a crash cannot have torn.
  template <class Visit>
  void each_damaged(bool was_closed, Visit&& visit) const {
    for (unsigned slot = 0; slot < layout::commit_slots; ++slot) {
      if (torn(slot) && (was_closed || slot != next_slot())) visit(at_ + layout::commit_slot_at(slot));
    }
  }
  [[nodiscard]] bool damaged(bool was_closed) const noexcept {
    bool any = false;
    each_damaged(was_closed, [&](std::uint64_t) { any = true; });
    return any;
  }
  // End of the lane's ring of activation records: those before it are of transactions that have committed.
  [[nodiscard]] std::uint32_t attached() const noexcept {
    const layout::commit_record* c = slots_[newest_ % layout::commit_slots];
    return c == nullptr ? 0 : c->attached;
  }
  [[nodiscard]] bool unfinished() const noexcept { return last_record_ != 0; }
  [[nodiscard]] std::uint64_t pending_intents() const noexcept { return pending_; }

  // Flushes the input of step 2, which a killed process may have left in caches only; the caller fences.
  template <media M>
  void write_back(M& m) const noexcept {
    m.flush(base_ + at_, layout::lane_body_at);
  }

  // Steps 2 to 6; the pool's bytes are `base`, the same memory that was validated.
  template <media M>
  lane_report repair(M& m, std::byte* base) noexcept {
    lane_report report{generation_, 0, 0, 0};
    if (at_rest()) return report;
    for (std::uint64_t g = oldest_needed(); g <= newest_; ++g) {
      bool changed = false;
      with_intents(slots_[g % layout::commit_slots], [&](const intent& i) {
        const auto word = [&] { return *reinterpret_cast<const std::uint64_t*>(base + i.word_offset()); };
        const std::uint64_t before = word();
        apply(base, i);
        changed = changed || word() != before;
        each_store(i, [&](std::uint64_t o, std::uint64_t n) { m.flush(base + o, n); });
        ++report.replayed;
        return true;
      });
      report.completed += changed;
    }
    for (std::uint64_t at = last_record_; at != 0;) {
      const auto* r = reinterpret_cast<const layout::record_header*>(base + at);
      if (is_undo(r)) {
        each_range(base, r, [&](std::uint64_t o, std::uint64_t n, const std::byte* old) {
          std::memcpy(base + o, old, n);
          m.flush(base + o, n);
          return true;
        });
      }
      at = r->previous;
    }
    m.fence(edge{"recover/E1"});
    ++report.generation;
    report.rolled_back = last_record_ != 0;
    if (torn(next_slot())) {
      auto* c = reinterpret_cast<layout::commit_record*>(base + at_ + layout::commit_slot_at(report.generation));
      c->checksum = 0;
      m.flush(&c->checksum, 8);
      m.fence(edge{"recover/E2"});
    }
    write_commit(m, base, at_, report.generation, layout::outcome::rest, nullptr, 0, attached(), key_);
    m.fence(edge{"recover/E3"});
    auto* header = reinterpret_cast<layout::lane_header*>(base + at_);
    header->retired = seal_word(report.generation, word_seed(at_));
    m.flush(&header->retired, 8);
    m.fence(edge{"recover/E4"});
    return report;
  }

  // Stores and flushes the commit record of `generation`; the caller fences.
  template <media M>
  static void write_commit(M& m, std::byte* base, std::uint64_t lane_offset, std::uint64_t generation,
                           layout::outcome kind, const std::uint64_t* words, std::uint16_t count,
                           std::uint32_t attached, std::uint64_t key) noexcept {
    const std::uint64_t at = lane_offset + layout::commit_slot_at(generation);
    alignas(line_bytes) layout::commit_record c{};
    c.generation = generation;
    c.kind = static_cast<std::uint16_t>(kind);
    c.intent_words = count;
    c.attached = attached;
    const unsigned used = count == layout::intents_elsewhere ? 1 : count;
    for (unsigned i = 0; i < used; ++i) c.intents[i] = words[i];
    c.checksum = seal_for(&c, at, sizeof c, generation, key);
    copy_out(m, base + at, &c, sizeof c);
  }

 private:
  // Slot of the generation that has not ended.
  [[nodiscard]] unsigned next_slot() const noexcept {
    return static_cast<unsigned>((generation_ + 1) % layout::commit_slots);
  }
  [[nodiscard]] std::uint64_t oldest_needed() const noexcept {
    constexpr std::uint64_t slots = layout::commit_slots;
    // c - 6: the flushes before generation c - 3, c - 2, c - 1 or c covered older ones, and c - 1 was fenced.
    std::uint64_t kept = newest_ + 2 > slots ? newest_ + 2 - slots : 1;
    // c itself may be durable before the lines that were flushed under its fence; then the slot of c - 7 is untouched.
    const layout::commit_record* before = slots_[(newest_ + 1) % slots];
    if (before != nullptr && before->generation + slots == newest_ + 1) kept = before->generation;
    return kept > retired_ ? kept : retired_ + 1;
  }
  [[nodiscard]] bool torn(unsigned slot) const noexcept {
    if (slots_[slot] != nullptr) return false;
    const auto* words = reinterpret_cast<const std::uint64_t*>(base_ + at_ + layout::commit_slot_at(slot));
    bool blank = true;
    for (unsigned i = 0; i < line_bytes / 8; ++i) blank = blank && words[i] == 0;
    return !blank;
  }

  template <class Visit>
  bool with_intents(const layout::commit_record* c, Visit&& visit) const noexcept {
    if (c->intent_words != layout::intents_elsewhere) return each_intent(c->intents, c->intent_words, visit);
    // The record may lie in the lane's body or in an overflow segment; either way it proves itself.
    const std::uint64_t at = c->intents[0];
    const std::uint64_t lane_end = at_ + geometry_.lane_bytes;
    const bool in_body = at >= at_ + layout::lane_body_at && at < lane_end;
    if (at % 8 != 0 || !(in_body || geometry_.in_data(at, sizeof(layout::record_header)))) return false;
    const auto* r =
        record_at(base_, at, in_body ? lane_end : geometry_.size_bytes(), c->generation, body_key(key_, lane_));
    if (r == nullptr || r->kind != static_cast<std::uint16_t>(layout::record_kind::intents)) return false;
    return each_intent(payload(r), (r->bytes - sizeof *r) / 8, visit);
  }

  const std::byte* base_;
  const geometry& geometry_;
  std::uint64_t key_;
  unsigned lane_;
  const V& valid_;
  std::uint64_t at_ = 0;
  const layout::commit_record* slots_[layout::commit_slots] = {};  // valid ones
  std::uint64_t newest_ = 0;                                       // generation of the newest of them
  std::uint64_t generation_ = 0;                                   // last one that has ended
  std::uint64_t retired_ = 0;
  std::uint64_t last_record_ = 0;
  std::uint64_t pending_ = 0;
};

}  // namespace nvm::log
