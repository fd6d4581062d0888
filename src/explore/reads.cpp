// Read sets: a line that neither recovery nor oracle reads cannot change the verdict, so it needs one choice only.
//
// The image with all stores on it is run once and its reads are noted; units that were not read leave the enumeration
// and stay high, as they will be at the next points. If a later state reads one of them after all, it is taken in and
// the tiers run again: the set of seen states drops repeated ones. Exact as long as all loads are instrumented.
#include <algorithm>

#include "explore/explorer.hpp"

namespace nvm::explore {

void explorer::leave_out_unread(unsigned depth) {
  level& l = *levels_[depth];
  if (l.factors.empty()) return;
  machine_.track_reads(true);
  if (subject_.self_validating && options_.rules) {
    machine_.on_read = [this, depth](std::uint64_t offset, std::uint64_t bytes, const nvm_rec_site* where) {
      note_unguaranteed(depth, offset, bytes, where);
    };
  }
  fill(depth, true);
  // The first tier finds any fault of this image again.
  (void)holds_up(depth, false, false, false);
  machine_.on_read = nullptr;
  std::size_t kept = 0;
  for (std::size_t f = 0; f < l.factors.size(); ++f) {
    unit* u = l.factors[f];
    if (machine_.was_read(l.front.offset_of(*u), l.front.unit_bytes())) {
      u->factor = static_cast<std::uint32_t>(kept);
      l.ordinals[kept] = l.ordinals[f];
      l.factors[kept++] = u;
    } else {
      u->factor = no_factor;
      l.unread.push_back(u);
      l.unread_ordinals.push_back(l.ordinals[f]);
    }
  }
  l.factors.resize(kept);
  l.ordinals.resize(kept);
  lay_out(l);
  l.read_late = false;
  report_.unread_units += l.unread.size();
}

// Units that some state has read since become factors; false if there are none.
bool explorer::take_in_read(unsigned depth) {
  level& l = *levels_[depth];
  if (!l.read_late) return false;
  l.read_late = false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < l.unread.size(); ++i) {
    unit* u = l.unread[i];
    if (u->factor == read_factor) {
      u->factor = static_cast<std::uint32_t>(l.factors.size());
      l.factors.push_back(u);
      l.ordinals.push_back(l.unread_ordinals[i]);
    } else {
      l.unread[kept] = u;
      l.unread_ordinals[kept++] = l.unread_ordinals[i];
    }
  }
  l.unread.resize(kept);
  l.unread_ordinals.resize(kept);
  lay_out(l);
  return true;
}

// Called after a state of level `depth`: it may have read units that an upper level left out.
void explorer::note_reads(unsigned depth) {
  for (unsigned d = 0; d <= depth; ++d) {
    level& l = *levels_[d];
    for (unit* u : l.unread) {
      if (u->factor == read_factor || !machine_.was_read(l.front.offset_of(*u), l.front.unit_bytes())) continue;
      u->factor = read_factor;
      l.read_late = true;
    }
  }
}

void explorer::note_unguaranteed(unsigned depth, std::uint64_t offset, std::uint64_t bytes, const nvm_rec_site* where) {
  const level& l = *levels_[depth];
  for (const unit* u : l.factors) {
    const std::uint64_t begin = l.front.offset_of(*u);
    for (const step& s : u->steps) {
      const event& e = l.events.events[s.event];
      const std::uint64_t from = std::max({offset, e.offset, begin});
      const std::uint64_t to = std::min({offset + bytes, e.offset + e.bytes, begin + l.front.unit_bytes()});
      if (from >= to || subject_.self_validating(from)) continue;
      const std::string place = where->line == 0 ? std::string{where->function}
                                                 : std::string{where->file} + ":" + std::to_string(where->line);
      for (finding& f : report_.findings) {
        if (f.what != finding::rule::unguaranteed_read || f.place != place) continue;
        ++f.count;
        return;
      }
      finding f;
      f.what = finding::rule::unguaranteed_read;
      f.place = place;
      f.text = place + " (" + where->function + ") reads " + text_of_offset(from);
      report_.findings.push_back(std::move(f));
      return;
    }
  }
}

}  // namespace nvm::explore
