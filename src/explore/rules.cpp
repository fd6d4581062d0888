// Trace rules: what is wrong with a trace by itself, in one pass and without images.
//
// Per line a little state; per transaction the ranges it announced.  Errors are certain: a store that no fence covers
// when its operation has returned is not durable.  Waste (a flush of clean lines, a fence with nothing pending) costs
// time and nothing else.
#include <algorithm>
#include <map>
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

class checker {
 public:
  checker(const trace& t, const subject& s, const options& o, const place_table& places)
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
          if (options_.promise_at_op_end) end_of_operation();
          break;
        case event_kind::promise:
          end_of_operation();
          break;
        case event_kind::mark:
          note(e);
          break;
        default:
          break;
      }
    }
    std::vector<finding> all;
    for (auto& [key, f] : found_) all.push_back(std::move(f));
    return all;
  }

 private:
  struct line_state {
    const nvm_rec_site* dirty = nullptr;    // first store that no flush covers
    const nvm_rec_site* flushed = nullptr;  // first store that a flush covers and no fence
    bool lazy = false;                      // only lazy stores are open
    std::uint8_t flusher = 0;
    bool non_temporal = false;
    std::uint8_t streamer = 0;
    const nvm_rec_site* streamed = nullptr;
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
      if (non_temporal) {
        if (l.streamed == nullptr) l.streamed = e.site;
        l.streamer = e.thread;
        streaming_.push_back(line);
        continue;
      }
      if (l.flushed != nullptr && options_.persistency != model::eadr) {
        add(finding::rule::store_after_flush, where(e.site),
            where(e.site) + " stores to the line of " + at(line * line_bytes) + ", flushed and not yet fenced");
      }
      const bool lazy = subject_.lazy && subject_.lazy(std::max(e.offset, line * line_bytes));
      if (l.dirty == nullptr) {
        l.dirty = e.site;
        l.lazy = lazy;
        open_.push_back(line);
      } else if (l.lazy && !lazy) {
        l.dirty = e.site;
        l.lazy = false;
      }
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
      if (it == lines_.end() || it->second.dirty == nullptr) continue;
      useful = true;
      line_state& l = it->second;
      if (l.flushed == nullptr) {
        l.flushed = l.dirty;
        l.flusher = e.thread;
      } else if (l.flusher != e.thread) {
        // Whose fence completes it is open: the later flusher's covers more.
        l.flusher = e.thread;
      }
      l.dirty = nullptr;
      pending_.push_back(line);
    }
    if (!useful) add(finding::rule::redundant_flush, place, place);
  }

  void fence(std::uint8_t thread, const event* e) {
    bool useful = false;
    const auto settle = [&](std::vector<std::uint64_t>& of, auto member, auto owner) {
      std::erase_if(of, [&](std::uint64_t line) {
        line_state& l = lines_[line];
        if (l.*member == nullptr) return true;
        if (l.*owner != thread) return false;
        l.*member = nullptr;
        useful = true;
        return true;
      });
    };
    settle(pending_, &line_state::flushed, &line_state::flusher);
    settle(streaming_, &line_state::streamed, &line_state::streamer);
    if (!useful && e != nullptr && options_.persistency != model::ssd) {
      add(finding::rule::redundant_fence, places_[e->place].text(), "\"" + places_[e->place].text() + "\"");
    }
  }

  // Every store before now has to be durable.
  void end_of_operation() {
    if (options_.persistency == model::ssd) return;
    if (options_.persistency != model::eadr) {
      std::erase_if(open_, [&](std::uint64_t line) {
        line_state& l = lines_[line];
        if (l.dirty == nullptr) return true;
        if (l.lazy) return false;
        add(finding::rule::not_durable_at_end, where(l.dirty),
            where(l.dirty) + " stores to the line of " + at(line * line_bytes) + ", which is not flushed");
        l.dirty = nullptr;  // said once
        return true;
      });
      std::erase_if(pending_, [&](std::uint64_t line) {
        line_state& l = lines_[line];
        if (l.flushed == nullptr) return true;
        if (l.lazy) return false;
        add(finding::rule::not_durable_at_end, where(l.flushed),
            where(l.flushed) + " stores to the line of " + at(line * line_bytes) + ", which is flushed and not fenced");
        l.flushed = nullptr;
        return true;
      });
    }
    for (const std::uint64_t line : streaming_) {
      line_state& l = lines_[line];
      if (l.streamed == nullptr) continue;
      add(finding::rule::non_temporal_no_fence, where(l.streamed), where(l.streamed) + " at " + at(line * line_bytes));
      l.streamed = nullptr;
    }
    streaming_.clear();
  }

  const trace& trace_;
  const subject& subject_;
  const options& options_;
  const place_table& places_;
  std::unordered_map<std::uint64_t, line_state> lines_;
  std::vector<std::uint64_t> open_;       // lines with a dirty store
  std::vector<std::uint64_t> pending_;    // lines flushed and not fenced
  std::vector<std::uint64_t> streaming_;  // lines with non-temporal stores not fenced
  std::unordered_map<std::uint8_t, transaction> transactions_;
  std::map<std::pair<finding::rule, std::string>, finding> found_;
};

}  // namespace

std::vector<finding> check_rules(const trace& t, const subject& s, const options& o, const place_table& places) {
  return checker(t, s, o, places).run();
}

}  // namespace nvm::explore
