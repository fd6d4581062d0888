// Trace rules: faults of a trace by itself, in one pass and without images.
//
// It keeps a little state for each line, and the announced ranges of each transaction. Errors are certain: a store that
// no fence covers when its operation has returned is not durable. Waste (a flush of clean lines, a fence with nothing
// pending) only costs time.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "explore/explorer.hpp"

namespace nvm::explore {

const char* name_of(finding::rule r) noexcept {
  using rule = finding::rule;
  switch (r) {
    case rule::not_durable_at_end:
      return "store not durable when its operation ends";
    case rule::unlogged_store:
      return "store in a transaction outside logged and fresh ranges";
    case rule::logged_too_late:
      return "range logged after it was stored to";
    case rule::store_after_flush:
      return "store to a line between its flush and the fence";
    case rule::non_temporal_no_fence:
      return "non-temporal store without a fence when its operation ends";
    case rule::commit_store:
      return "store to a commit word that is not one aligned atomic word";
    case rule::unguaranteed_read:
      return "recovery reads bytes that nothing guarantees";
    case rule::flush_outside:
      return "flush of memory outside the image";
    case rule::redundant_flush:
      return "flush of lines that are clean";
    case rule::redundant_fence:
      return "fence with nothing pending";
  }
  return "?";
}

namespace {

bool overlap(const extent& e, std::uint64_t offset, std::uint64_t bytes) noexcept {
  return offset < e.offset + e.bytes && e.offset < offset + bytes;
}
bool inside_one(const std::vector<extent>& all, std::uint64_t offset, std::uint64_t bytes) noexcept {
  return std::any_of(all.begin(), all.end(),
                     [&](const extent& e) { return offset >= e.offset && offset + bytes <= e.offset + e.bytes; });
}
bool overlaps_any(const std::vector<extent>& all, std::uint64_t offset, std::uint64_t bytes) noexcept {
  return std::any_of(all.begin(), all.end(), [&](const extent& e) { return overlap(e, offset, bytes); });
}
// Every byte of the range lies in one of the extents.
bool covered(const std::vector<extent>& all, std::uint64_t offset, std::uint64_t bytes) {
  while (bytes != 0) {
    std::uint64_t reach = 0;
    for (const extent& e : all) {
      if (offset >= e.offset && offset < e.offset + e.bytes) reach = std::max(reach, e.offset + e.bytes - offset);
    }
    if (reach == 0) return false;
    const std::uint64_t step = std::min(reach, bytes);
    offset += step;
    bytes -= step;
  }
  return true;
}

class trace_checker {
 public:
  trace_checker(const trace& t, const subject& s, const options& o, const place_table& places)
      : trace_{t}, subject_{s}, options_{o}, places_{places} {}

  std::vector<finding> run() {
    for (const event& e : trace_.events) {
      switch (e.kind) {
        case event_kind::store:
          store(e);
          break;
        case event_kind::flush:
          flush(e);
          break;
        case event_kind::fence:
          fence(e.thread, &e);
          break;
        case event_kind::rmw:
          if (options_.rmw_fences && options_.persistency != model::torn8) fence(e.thread, nullptr);
          break;
        case event_kind::op_end:
          if (options_.promise_at_op_end) end_of_operation(e.thread);
          break;
        case event_kind::promise:
          end_of_operation(std::nullopt);
          break;
        case event_kind::mark:
          note(e);
          break;
        default:
          break;
      }
    }
    std::vector<finding> all;
    all.reserve(found_.size());
    for (auto& [key, f] : found_) all.push_back(std::move(f));
    return all;
  }

 private:
  struct open_store {
    std::uint64_t number;  // of the line's stores, from 1
    const nvm_rec_site* site;
    std::uint8_t thread;
    bool lazy;
    bool non_temporal;
  };
  struct line_state {
    std::uint64_t stores = 0;
    std::vector<open_store> open;  // not durable yet
  };
  // A flush, or a non-temporal store, that its thread's fence completes: the line's stores up to `number` are durable
  // then.
  struct pending_flush {
    std::uint64_t line;
    std::uint64_t number;
  };
  struct transaction {
    bool open = false;
    std::vector<extent> announced;
    std::vector<extent> fresh;
    std::vector<std::pair<extent, const nvm_rec_site*>> unannounced;
  };

  static std::string where(const nvm_rec_site* s) {
    if (s == nullptr) return "?";
    return s->line == 0 ? std::string{s->function}
                        : std::string{s->file} + ":" + std::to_string(s->line) + " (" + s->function + ")";
  }
  std::string at(std::uint64_t offset) const {
    char text[32];
    std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(offset));
    std::string t = text;
    if (subject_.field) t += " " + subject_.field(offset);
    return t;
  }
  void add(finding::rule rule, const std::string& place, const std::string& text) {
    const auto [it, fresh] = found_.try_emplace({rule, place});
    if (!fresh) {
      ++it->second.count;
      return;
    }
    it->second.what = rule;
    it->second.place = place;
    it->second.text = text;
  }

  void store(const event& e) {
    if (inside_one(subject_.volatile_bytes, e.offset, e.bytes)) return;
    const bool non_temporal = e.site != nullptr && (e.site->kind & NVM_REC_NON_TEMPORAL) != 0;
    for (std::uint64_t line = e.offset / line_bytes; line <= (e.offset + e.bytes - 1) / line_bytes; ++line) {
      line_state& l = lines_[line];
      ++l.stores;
      if (options_.persistency == model::eadr && !non_temporal) continue;
      const std::uint64_t flushed = flushed_by(e.thread, line);
      const bool between = std::any_of(l.open.begin(), l.open.end(),
                                       [&](const open_store& o) { return o.number <= flushed && !o.non_temporal; });
      if (between && !non_temporal) {
        add(finding::rule::store_after_flush, where(e.site),
            where(e.site) + " stores to the line of " + at(line * line_bytes) + ", flushed and not yet fenced");
      }
      if (l.open.empty()) open_.push_back(line);
      const bool lazy = subject_.lazy && subject_.lazy(std::max(e.offset, line * line_bytes));
      l.open.push_back({l.stores, e.site, e.thread, lazy, non_temporal});
      if (non_temporal) pending_[e.thread].push_back({line, l.stores});
    }
    commit_store(e);
    transaction_store(e);
  }

  void commit_store(const event& e) {
    if (!overlaps_any(subject_.commit_words, e.offset, e.bytes)) return;
    const std::uint32_t kind = e.site == nullptr ? 0 : e.site->kind & 15U;
    if (kind != NVM_REC_ATOMIC && kind != NVM_REC_RMW) {
      add(finding::rule::commit_store, where(e.site),
          where(e.site) + " is not atomic: the compiler may tear or repeat it");
    } else if (e.bytes > 8 || e.offset / 8 != (e.offset + e.bytes - 1) / 8) {
      add(finding::rule::commit_store, where(e.site),
          where(e.site) + " stores " + std::to_string(e.bytes) + " B at " + at(e.offset) + ": not one aligned word");
    }
  }

  void transaction_store(const event& e) {
    transaction& t = transactions_[e.thread];
    if (!t.open || inside_one(subject_.log_bytes, e.offset, e.bytes)) return;
    if (covered(t.fresh, e.offset, e.bytes) || covered(t.announced, e.offset, e.bytes)) return;
    t.unannounced.push_back({{e.offset, e.bytes}, e.site});
  }

  void note(const event& e) {
    transaction& t = transactions_[e.thread];
    switch (static_cast<mark>(e.place)) {
      case mark::tx_begin:
        t = transaction{};
        t.open = true;
        break;
      case mark::logged:
        for (auto& [range, site] : t.unannounced) {
          if (!overlap(range, e.offset, e.payload)) continue;
          add(finding::rule::logged_too_late, where(site),
              at(range.offset) + " is stored at " + where(site) + " before it is logged");
          range.bytes = 0;
        }
        t.announced.push_back({e.offset, e.payload});
        break;
      case mark::fresh:
        t.fresh.push_back({e.offset, e.payload});
        break;
      case mark::tx_end:
        for (const auto& [range, site] : t.unannounced) {
          if (range.bytes == 0 || covered(t.fresh, range.offset, range.bytes)) continue;
          add(finding::rule::unlogged_store, where(site), where(site) + " stores to " + at(range.offset));
        }
        t = transaction{};
        break;
    }
  }

  void flush(const event& e) {
    const std::string place = places_[e.place].text();
    if (e.outside) return add(finding::rule::flush_outside, place, place);
    bool useful = false;
    const std::uint64_t last = (e.offset + e.payload - 1) / line_bytes;
    for (std::uint64_t line = e.offset / line_bytes; line <= last; ++line) {
      const auto it = lines_.find(line);
      if (it == lines_.end() || it->second.open.empty()) continue;
      if (flushed_by(e.thread, line) == it->second.stores) continue;
      pending_[e.thread].push_back({line, it->second.stores});
      useful = true;
    }
    if (!useful && waste_counts()) add(finding::rule::redundant_flush, place, place);
  }

  // A program written for write-backs is run under eadr, too, where all of them are useless.
  bool waste_counts() const noexcept {
    return options_.persistency == model::x86 || options_.persistency == model::torn8;
  }

  // Number up to which the thread has flushed stores of the line since its last fence.
  std::uint64_t flushed_by(std::uint8_t thread, std::uint64_t line) {
    std::uint64_t number = 0;
    for (const pending_flush& p : pending_[thread]) {
      if (p.line == line) number = std::max(number, p.number);
    }
    return number;
  }

  void fence(std::uint8_t thread, const event* e) {
    bool useful = false;
    for (const pending_flush& p : pending_[thread]) {
      useful |= std::erase_if(lines_[p.line].open, [&](const open_store& o) { return o.number <= p.number; }) != 0;
    }
    pending_[thread].clear();
    if (!useful && e != nullptr && waste_counts()) {
      add(finding::rule::redundant_fence, places_[e->place].text(), "\"" + places_[e->place].text() + "\"");
    }
  }

  // Checks that every store of the thread is durable.
  void end_of_operation(std::optional<std::uint8_t> thread) {
    if (options_.persistency == model::ssd) return;
    std::erase_if(open_, [&](std::uint64_t line) {
      line_state& l = lines_[line];
      std::erase_if(l.open, [&](const open_store& o) {
        if (o.lazy || (thread && o.thread != *thread)) return false;
        if (o.non_temporal) {
          add(finding::rule::non_temporal_no_fence, where(o.site), where(o.site) + " at " + at(line * line_bytes));
        } else {
          const bool flushed = flushed_by(o.thread, line) >= o.number;
          add(finding::rule::not_durable_at_end, where(o.site),
              where(o.site) + " stores to the line of " + at(line * line_bytes) +
                  (flushed ? ", which is flushed and not fenced" : ", which is not flushed"));
        }
        return true;  // said once
      });
      return l.open.empty();
    });
  }

  const trace& trace_;
  const subject& subject_;
  const options& options_;
  const place_table& places_;
  std::unordered_map<std::uint64_t, line_state> lines_;
  std::vector<std::uint64_t> open_;                      // lines with open stores
  std::array<std::vector<pending_flush>, 256> pending_;  // by thread
  std::unordered_map<std::uint8_t, transaction> transactions_;
  std::map<std::pair<finding::rule, std::string>, finding> found_;
};

}  // namespace

std::vector<finding> check_rules(const trace& t, const subject& s, const options& o, const place_table& places) {
  return trace_checker(t, s, o, places).run();
}

}  // namespace nvm::explore
