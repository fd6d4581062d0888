// Recovery of one lane: a pure function over the pool's bytes.
//
/// S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
///   1. validate every record and every target before the first store
///   2. c = generation of the newer valid commit record; make again, oldest first, the intents of the up to two commit
///      records newer than `retired`: S word; F word
///   3. put back the ranges of the undo records of generation c + 1, newest first: S old bytes; F them
///                                                                    | recover/E1  all of it durable before step 4
///   4. S checksum 0 of a torn commit record; F                       | recover/E2  step 5 cannot complete it
///   5. S commit record {c + 1, rest}; F                              | recover/E3  the records are void before step 6
///   6. S retired; F                                                  | recover/E4  on return the lane is at rest
/// Repeatable: intents set or clear bits, undo stores old values, and until 5 is durable the same records lead to the
/// same stores.  Were `retired` durable before the commit record, a second recovery would take a generation more.
///
/// A lane that is not at rest loses a generation even when nothing of it is to be undone: a torn undo record of
/// generation c + 1 may lie in its body, and the next transaction, were it of that generation too, could supply the
/// very words that it lacks.  A lane that is at rest has an untouched body: its first log in a process begins with a
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
};

// What may be the target of a record; given by the layers that know.
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
    const auto* a = commit_at(base, at_, 0, key);
    const auto* b = commit_at(base, at_, 1, key);
    newer_ = a == nullptr || (b != nullptr && b->generation > a->generation) ? b : a;
    older_ = newer_ == a ? b : a;
    generation_ = newer_ == nullptr ? 0 : newer_->generation;
    // A lane writes its slots in turn: anything else in the older slot is a leftover of a torn write's predecessor.
    if (older_ != nullptr && older_->generation + 1 != generation_) older_ = nullptr;
  }

  // Checks everything that repair() will rely on.
  [[nodiscard]] status validate() noexcept {
    const auto* header = reinterpret_cast<const layout::lane_header*>(base_ + at_);
    if (!word_holds(header->retired, word_seed(at_))) {
      return fail(errc::corrupt, "lane %u at offset %lu: retired generation %016lx fails its check", lane_, at_,
                  header->retired);
    }
    retired_ = header->retired & checked_mask;
    if (newer_ == nullptr && retired_ == 0 && torn(0) && torn(1)) {
      return fail(errc::corrupt, "lane %u at offset %lu: neither commit record holds", lane_, at_);
    }
    // Beyond the commit record: it was damaged, or is the abort record of step 4 that a crash took back.  Either way
    // what `retired` says was durable before it.
    if (retired_ > generation_) generation_ = retired_;
    for (const auto* c : {older_, newer_}) {
      if (c == nullptr || c->generation <= retired_) continue;
      const bool good = with_intents(c, [&](const intent& i) {
        ++pending_;
        return valid_.word(i);
      });
      if (!good) {
        return fail(errc::corrupt,
                    "lane %u at offset %lu: commit record of generation %lu has intents that fit nothing", lane_, at_,
                    c->generation);
      }
    }
    auto last = walk(
        base_, at_ + layout::lane_body_at, at_ + geometry_.lane_bytes, generation_ + 1, key_, geometry_.size_bytes(),
        [&](std::uint64_t o, std::uint64_t n) { return valid_.segment(o, n); },
        [&](const layout::record_header* r, std::uint64_t at) -> status {
          if (r->kind != static_cast<std::uint16_t>(layout::record_kind::undo)) return {};
          const bool good =
              each_range(r, [&](std::uint64_t o, std::uint64_t n, const std::byte*) { return valid_.range(o, n); });
          if (!good) return fail(errc::corrupt, "undo record at offset %lu has ranges outside the data", at);
          return {};
        });
    if (!last) return last.error();
    last_record_ = *last;
    return {};
  }

  [[nodiscard]] bool at_rest() const noexcept {
    if (torn()) return false;
    if (newer_ == nullptr) return retired_ == 0;
    return newer_->kind == static_cast<std::uint16_t>(layout::outcome::rest) && newer_->generation == generation_ &&
           retired_ == generation_;
  }
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  // A commit record was being written, or has been damaged.
  [[nodiscard]] bool torn() const noexcept { return torn(0) || torn(1); }
  [[nodiscard]] bool unfinished() const noexcept { return last_record_ != 0; }
  [[nodiscard]] std::uint64_t pending_intents() const noexcept { return pending_; }

  // Steps 2 to 4; the pool's bytes are `base`, the same memory that was validated.
  template <media M>
  lane_report repair(M& m, std::byte* base) noexcept {
    lane_report report{generation_, 0, 0};
    if (at_rest()) return report;
    for (const auto* c : {older_, newer_}) {
      if (c == nullptr || c->generation <= retired_) continue;
      with_intents(c, [&](const intent& i) {
        apply(base, i);
        m.flush(base + i.word_offset(), 8);
        ++report.replayed;
        return true;
      });
    }
    for (std::uint64_t at = last_record_; at != 0;) {
      const auto* r = reinterpret_cast<const layout::record_header*>(base + at);
      if (r->kind == static_cast<std::uint16_t>(layout::record_kind::undo)) {
        each_range(r, [&](std::uint64_t o, std::uint64_t n, const std::byte* old) {
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
    if (const unsigned parity = report.generation & 1; torn(parity)) {
      auto* c = reinterpret_cast<layout::commit_record*>(base + at_ + layout::lane_commit_at + parity * line_bytes);
      c->checksum = 0;
      m.flush(&c->checksum, 8);
      m.fence(edge{"recover/E2"});
    }
    write_commit(m, base, at_, report.generation, layout::outcome::rest, nullptr, 0, key_);
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
                           std::uint64_t key) noexcept {
    const std::uint64_t at = lane_offset + layout::lane_commit_at + (generation & 1) * line_bytes;
    auto* c = reinterpret_cast<layout::commit_record*>(base + at);
    c->generation = generation;
    c->kind = static_cast<std::uint16_t>(kind);
    c->intent_words = count;
    c->reserved = 0;
    const unsigned used = count == layout::intents_elsewhere ? 1 : count;
    for (unsigned i = 0; i < layout::inline_intent_words; ++i) c->intents[i] = i < used ? words[i] : 0;
    c->checksum = seal(base, at, sizeof *c, generation, key);
    m.flush(c, sizeof *c);
  }

 private:
  [[nodiscard]] bool torn(unsigned parity) const noexcept {
    const auto* words =
        reinterpret_cast<const std::uint64_t*>(base_ + at_ + layout::lane_commit_at + parity * line_bytes);
    bool blank = true;
    for (unsigned i = 0; i < line_bytes / 8; ++i) blank = blank && words[i] == 0;
    return !blank && commit_at(base_, at_, parity, key_) == nullptr;
  }

  template <class Visit>
  bool with_intents(const layout::commit_record* c, Visit&& visit) const noexcept {
    if (c->intent_words != layout::intents_elsewhere) return each_intent(c->intents, c->intent_words, visit);
    // The record may lie in the lane's body or in an overflow segment; either way it proves itself.
    const std::uint64_t at = c->intents[0];
    std::uint64_t end = 0;
    if (at >= at_ + layout::lane_body_at && at < at_ + geometry_.lane_bytes) {
      end = at_ + geometry_.lane_bytes;
    } else if (at % 8 == 0 && at >= geometry_.data_offset && at < geometry_.size_bytes()) {
      end = geometry_.size_bytes();
    }
    if (end == 0 || at % 8 != 0) return false;
    const auto* r = record_at(base_, at, end, c->generation, key_);
    if (r == nullptr || r->kind != static_cast<std::uint16_t>(layout::record_kind::intents)) return false;
    return each_intent(payload(r), (r->bytes - sizeof *r) / 8, visit);
  }

  const std::byte* base_;
  const geometry& geometry_;
  std::uint64_t key_;
  unsigned lane_;
  const V& valid_;
  std::uint64_t at_ = 0;
  const layout::commit_record* newer_ = nullptr;
  const layout::commit_record* older_ = nullptr;
  std::uint64_t generation_ = 0;
  std::uint64_t retired_ = 0;
  std::uint64_t last_record_ = 0;
  std::uint64_t pending_ = 0;
};

}  // namespace nvm::log
