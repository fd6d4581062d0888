#include "explore/frontier.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace nvm::explore {

const char* name_of(model m) noexcept {
  switch (m) {
    case model::x86:
      return "x86";
    case model::torn8:
      return "torn8";
    case model::ssd:
      return "ssd";
    case model::eadr:
      return "eadr";
  }
  return "?";
}

void frontier::start(model m, std::byte* image, std::size_t bytes, const trace* t, bool rmw_fences) {
  model_ = m;
  shift_ = m == model::torn8 ? 3 : m == model::ssd ? 9 : 6;
  rmw_fences_ = rmw_fences;
  image_ = image;
  trace_ = t;
  const std::size_t units = ceil_div(bytes, unit_bytes());
  if (bytes_ != bytes || slot_of_.size() != units) {
    slot_of_.assign(units, none);
    bytes_ = bytes;
  }
  for (unit* u : active_) {
    slot_of_[u->number] = none;
    spare_.push_back(u);
  }
  active_.clear();
  for (auto& p : pending_) p.clear();
  epoch_.clear();
  scratch_.resize(unit_bytes());
  hash_ = 0;
  steps_total_ = 0;
}

unit& frontier::unit_at(std::uint64_t number) {
  if (unit* u = find(number)) return *u;
  if (spare_.empty()) {
    blocks_.emplace_back(64);
    for (unit& u : blocks_.back()) spare_.push_back(&u);
  }
  unit* u = spare_.back();
  spare_.pop_back();
  u->number = number;
  // Counts never start again: a flush that noted an earlier life of this unit does not cover this one.
  u->dropped = steps_total_;
  u->steps.clear();
  u->block_epoch = ~std::uint64_t{0};
  u->block_is_non_temporal = false;
  u->prepared = false;
  slot_of_[number] = static_cast<std::uint32_t>(active_.size());
  active_.push_back(u);
  return *u;
}

void frontier::retire(unit& u) {
  const std::uint32_t slot = slot_of_[u.number];
  active_[slot] = active_.back();
  slot_of_[active_[slot]->number] = slot;
  active_.pop_back();
  slot_of_[u.number] = none;
  spare_.push_back(&u);
}

void frontier::add_step(unit& u, const step& s, bool opens, bool non_temporal) {
  u.prepared = false;
  epoch_.push_back({&u, static_cast<std::uint32_t>(u.steps.size())});
  u.steps.push_back(s);
  ++steps_total_;
  if (opens) {
    u.steps.back().opens = true;
    u.steps.back().block_steps = 1;
    u.block_epoch = order_epoch_;
    u.block_is_non_temporal = non_temporal;
  } else {
    u.steps.back().opens = false;
    for (std::size_t i = u.steps.size() - 1;; --i) {
      if (!u.steps[i].opens) continue;
      ++u.steps[i].block_steps;
      break;
    }
  }
}

void frontier::add_words(const event& e, std::uint32_t event_number, bool non_temporal) {
  const std::uint64_t end = e.offset + e.bytes;
  const std::uint64_t first_word = e.offset / 8;
  const std::uint64_t per_unit = unit_bytes() / 8;
  unit* in = nullptr;
  for (std::uint64_t w = first_word; w * 8 < end; ++w) {
    const std::uint64_t from = std::max(w * 8, e.offset);
    const std::uint64_t to = std::min(w * 8 + 8, end);
    step s{};
    s.value = e.inline_word ? e.payload : trace_->words[e.payload + (w - first_word)];
    s.event = event_number;
    s.word = static_cast<std::uint8_t>(w % per_unit);
    s.mask = static_cast<std::uint8_t>(((1U << (to - from)) - 1) << (from - w * 8));
    unit& u = unit_at(w / per_unit);
    bool opens = true;
    if (model_ != model::torn8) {
      if (&u == in) {
        opens = false;  // words of one event are unordered
      } else if (non_temporal && !u.steps.empty() && u.block_is_non_temporal && u.block_epoch == order_epoch_) {
        // One block with the non-temporal stores before it, unless one of them wrote the same word.
        opens = false;
        for (std::size_t i = u.steps.size(); i-- > 0;) {
          if (u.steps[i].word == s.word) opens = true;
          if (u.steps[i].opens) break;
        }
      }
    }
    add_step(u, s, opens, non_temporal);
    in = &u;
  }
}

void frontier::add_store(const event& e, std::uint32_t event_number) {
  const bool non_temporal = e.site != nullptr && (e.site->kind & NVM_REC_NON_TEMPORAL) != 0;
  add_words(e, event_number, non_temporal);
  const std::uint64_t first = e.offset >> shift_;
  const std::uint64_t last = (e.offset + e.bytes - 1) >> shift_;
  if (non_temporal) {
    if (pending_.size() <= e.thread) pending_.resize(e.thread + 1U);
    for (std::uint64_t n = first; n <= last; ++n) {
      const unit& u = *find(n);
      pending_[e.thread].push_back({n, u.dropped + u.steps.size()});
    }
  } else if (model_ == model::eadr) {
    for (std::uint64_t n = first; n <= last; ++n) {
      unit& u = *find(n);
      raise(u, u.dropped + u.steps.size());
    }
  }
}

void frontier::add_write(const event& e, std::uint32_t event_number) {
  const std::uint64_t end = e.offset + e.bytes;
  for (std::uint64_t n = e.offset >> shift_; n << shift_ < end; ++n) {
    step s{};
    s.event = event_number;
    add_step(unit_at(n), s, true, false);
  }
}

void frontier::add_flush(const event& e) {
  ++order_epoch_;
  if (e.outside || model_ == model::ssd) return;
  if (pending_.size() <= e.thread) pending_.resize(e.thread + 1U);
  // A write-back takes whole lines, also with a smaller unit.
  const std::uint64_t from = round_down(e.offset, line_bytes) >> shift_;
  const std::uint64_t to = std::min<std::uint64_t>(round_up(e.offset + e.payload, line_bytes), bytes_) >> shift_;
  for (std::uint64_t n = from; n < to; ++n) {
    const unit* u = find(n);
    if (u != nullptr) pending_[e.thread].push_back({n, u->dropped + u->steps.size()});
  }
}

bool frontier::raises(const event& e) const {
  if (e.kind == event_kind::sync) return !active_.empty();
  const bool fences =
      e.kind == event_kind::fence || (e.kind == event_kind::rmw && rmw_fences_ && model_ != model::torn8);
  if (!fences || e.thread >= pending_.size()) return false;
  for (const pending& p : pending_[e.thread]) {
    const unit* u = find(p.unit);
    if (u != nullptr && u->dropped < p.count) return true;
  }
  return false;
}

void frontier::fence_of(std::uint8_t thread) {
  ++order_epoch_;
  if (thread >= pending_.size()) return;
  for (const pending& p : pending_[thread]) {
    unit* u = find(p.unit);
    if (u != nullptr && u->dropped < p.count) raise(*u, p.count);
  }
  pending_[thread].clear();
}

void frontier::feed(std::uint32_t event_number) {
  const event& e = trace_->events[event_number];
  switch (e.kind) {
    case event_kind::store:
      add_store(e, event_number);
      break;
    case event_kind::flush:
      add_flush(e);
      break;
    case event_kind::fence:
      fence_of(e.thread);
      break;
    case event_kind::rmw:
      if (rmw_fences_ && model_ != model::torn8) fence_of(e.thread);
      break;
    case event_kind::write:
      add_write(e, event_number);
      break;
    case event_kind::sync:
      ++order_epoch_;
      while (!active_.empty()) raise(*active_.back(), active_.back()->dropped + active_.back()->steps.size());
      break;
    case event_kind::op_begin:
    case event_kind::op_end:
    case event_kind::promise:
    case event_kind::mark:
      break;
  }
}

void frontier::apply(const unit& u, const step& s, std::byte* content) const {
  if (model_ != model::ssd) {
    std::uint64_t w;
    std::memcpy(&w, content + s.word * 8, 8);
    const std::uint64_t m = spread(s.mask);
    w = (w & ~m) | (s.value & m);
    std::memcpy(content + s.word * 8, &w, 8);
    return;
  }
  const event& e = trace_->events[s.event];
  const std::uint64_t begin = offset_of(u);
  const std::uint64_t from = std::max(begin, e.offset);
  const std::uint64_t to = std::min(begin + unit_bytes(), e.offset + e.bytes);
  const auto* bytes = reinterpret_cast<const std::byte*>(trace_->words.data() + e.payload);
  std::memcpy(content + (from - begin), bytes + (from - round_down(e.offset, 8)), to - from);
}

std::uint64_t frontier::hash_of(const unit& u, const std::byte* content) const {
  std::uint64_t h = 0;
  const std::uint64_t first = offset_of(u) / 8;
  for (std::uint32_t i = 0; i < unit_bytes() / 8; ++i) {
    std::uint64_t w;
    std::memcpy(&w, content + i * 8, 8);
    h += word_hash(first + i, w);
  }
  return h;
}

// Steps [0, count - dropped) become part of the image.  The count may lie inside a block only where two threads stream
// to one line and one of them fences; the rest is a block of its own then.
void frontier::raise(unit& u, std::uint64_t count) {
  const std::size_t n = count - u.dropped;
  NVM_ASSERT(n <= u.steps.size());
  for (std::size_t i = 0; i < n; i += u.steps[i].block_steps) {
    const std::size_t end = i + u.steps[i].block_steps;
    if (end <= n) continue;
    u.steps[n].opens = true;
    u.steps[n].block_steps = static_cast<std::uint8_t>(end - n);
    break;
  }
  std::byte* content = image_ + offset_of(u);
  const std::uint64_t before = hash_of(u, content);
  for (std::size_t i = 0; i < n; ++i) apply(u, u.steps[i], content);
  hash_ += hash_of(u, content) - before;
  u.steps.erase(u.steps.begin(), u.steps.begin() + static_cast<std::ptrdiff_t>(n));
  u.dropped = count;
  u.prepared = false;
  const std::uint64_t offset = offset_of(u);
  if (u.steps.empty()) retire(u);
  if (on_raise) on_raise(offset, unit_bytes());
}

std::uint32_t frontier::cut_of_prefix(const unit& u, std::size_t count) noexcept {
  std::uint32_t base = 0;
  std::size_t i = 0;
  while (i < u.steps.size()) {
    const std::size_t k = u.steps[i].block_steps;
    if (count < i + k) return base + ((1U << (count - i)) - 1);
    base += (1U << k) - 1;
    i += k;
  }
  return base;
}

bool frontier::holds(const unit& u, std::uint32_t cut, std::size_t index) noexcept {
  std::size_t i = 0;
  while (i < u.steps.size()) {
    const std::size_t k = u.steps[i].block_steps;
    const std::uint32_t all = (1U << k) - 1;
    if (index < i + k) return cut >= all || (cut >> (index - i) & 1) != 0;
    if (cut <= all - 1) return false;
    cut -= all;
    i += k;
  }
  return false;
}

void frontier::compute(const unit& u, std::uint32_t cut, std::byte* out) const {
  std::memcpy(out, image_ + offset_of(u), unit_bytes());
  std::size_t i = 0;
  while (i < u.steps.size() && cut != 0) {
    const std::size_t k = u.steps[i].block_steps;
    const std::uint32_t all = (1U << k) - 1;
    const std::uint32_t mask = std::min(cut, all);
    for (std::size_t j = 0; j < k; ++j) {
      if ((mask >> j & 1) != 0) apply(u, u.steps[i + j], out);
    }
    if (cut < all) return;
    cut -= all;
    i += k;
  }
}

void frontier::prepare(unit& u) {
  if (u.prepared) return;
  std::uint64_t choices = 1;
  for (std::size_t i = 0; i < u.steps.size(); i += u.steps[i].block_steps) {
    choices += (std::uint64_t{1} << u.steps[i].block_steps) - 1;
  }
  u.choices = static_cast<std::uint32_t>(std::min<std::uint64_t>(choices, choices_max));
  u.all_cached = u.choices <= cached_choices_max;
  const std::size_t size = unit_bytes();
  const std::uint64_t low = hash_of(u, image_ + offset_of(u));
  const std::size_t cached = u.all_cached ? u.choices : 1;
  u.contents.resize(cached * size);
  u.deltas.resize(cached);
  for (std::size_t i = 0; i < cached; ++i) {
    std::byte* content = u.contents.data() + i * size;
    compute(u, u.all_cached ? static_cast<std::uint32_t>(i) : u.choices - 1, content);
    u.deltas[i] = hash_of(u, content) - low;
  }
  u.prepared = true;
}

std::uint64_t frontier::delta(unit& u, std::uint32_t cut) {
  if (u.all_cached) return u.deltas[cut];
  if (cut == 0) return 0;
  if (cut == u.choices - 1) return u.deltas[0];
  compute(u, cut, scratch_.data());
  return hash_of(u, scratch_.data()) - hash_of(u, image_ + offset_of(u));
}

const std::byte* frontier::content(unit& u, std::uint32_t cut) {
  if (u.all_cached) return u.contents.data() + std::size_t{cut} * unit_bytes();
  if (cut == u.choices - 1) return u.contents.data();
  compute(u, cut, scratch_.data());
  return scratch_.data();
}

bool frontier::matters(unit& u) {
  if (!u.all_cached) return true;
  return std::any_of(u.deltas.begin(), u.deltas.end(), [](std::uint64_t d) { return d != 0; });
}

bool frontier::flushed(const unit& u, std::size_t i) const noexcept {
  for (const auto& of_thread : pending_) {
    for (const pending& p : of_thread) {
      if (p.unit == u.number && p.count > u.dropped + i) return true;
    }
  }
  return false;
}

}  // namespace nvm::explore
