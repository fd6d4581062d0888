#include "object/store_watch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "space/space.hpp"

namespace nvm::object {

// The race is meant, and harmless (beside_collection.hpp): aligned words are loaded whole on every machine that there
// is a medium for, others are told by who stores them.
__attribute__((no_sanitize("thread"), noinline)) std::uint64_t read_in_use(const std::byte* at) noexcept {
  std::uint64_t v = 0;
  __builtin_memcpy(&v, at, sizeof v);
  return v;
}

bool told_places::had(std::uint64_t offset) const noexcept {
  const auto behind = std::ranges::upper_bound(of_.ranges, offset, {}, &ground_extent::range::first);
  return behind != of_.ranges.begin() && offset < std::prev(behind)->end;
}

// ---- of a collection ------------------------------------------------------------------------------------------------

void store_watch::add(told_places& to, collected_ground& ground, ground_extent now, bool any_packed) {
  const std::lock_guard guard{lock_};
  to.lost_ = false;
  to.ground_ = &ground;
  to.of_ = std::move(now);
  to.places_.clear();
  is_packed_.reserve(all_.size() + 1);
  all_.push_back(&to);
  is_packed_.push_back(any_packed);
  packed_ += any_packed ? 1 : 0;
  if (all_.size() == 1) tell_(this);
}
void store_watch::again(told_places& to, ground_extent now) {
  const std::lock_guard guard{lock_};
  to.lost_ = false;
  to.of_ = std::move(now);
  to.places_.clear();
}
void store_watch::add_roots(told_places& to, std::span<const std::uint64_t> words) {
  const std::lock_guard guard{lock_};
  std::vector<std::uint64_t>& all = to.of_.root_words;
  all.insert(all.end(), words.begin(), words.end());
  std::ranges::sort(all);
}
void store_watch::remove(told_places& from) noexcept {
  const std::lock_guard guard{lock_};
  const auto at = std::ranges::find(all_, &from);
  if (at == all_.end()) return;
  const auto i = at - all_.begin();
  packed_ -= is_packed_[static_cast<std::size_t>(i)] ? 1 : 0;
  all_.erase(at);
  is_packed_.erase(is_packed_.begin() + i);
  from.places_ = {};
  if (all_.empty()) tell_(nullptr);
}

bool store_watch::take(told_places& from, std::vector<told_places::place>& out) noexcept {
  const std::lock_guard guard{lock_};
  return take_from(from, out);
}
bool store_watch::take_from(told_places& from, std::vector<told_places::place>& out) noexcept {
  out.clear();
  out.swap(from.places_);
  return !from.lost_;
}

void store_watch::frees_garbage(unsigned lane) noexcept {
  const std::lock_guard guard{lock_};
  try {
    lanes_.push_back(lane);
  } catch (const std::bad_alloc&) {
    // Then it tells, and objects that its garbage leads to stay until the next collection.
  }
}

void store_watch::dropped(std::uint64_t payload) noexcept {
  const std::lock_guard guard{lock_};
  leads_to(payload);
}

bool store_watch::begin(unsigned lane) noexcept {
  lock_.lock();
  // Once: the lane belongs to another transaction afterwards.
  const bool known = std::erase(lanes_, lane) != 0;
  if (!known && !all_.empty()) return true;
  lock_.unlock();
  return false;
}

void store_watch::roots_in(const told_places& c, std::uint64_t offset, std::uint64_t bytes,
                           const std::byte* data) noexcept {
  const std::vector<std::uint64_t>& words = c.of_.root_words;
  for (auto w = std::ranges::lower_bound(words, offset); w != words.end() && *w + 8 <= offset + bytes; ++w) {
    std::uint64_t root;
    std::memcpy(&root, data + (*w - offset), sizeof root);
    if ((root & checked_mask) != 0) leads_to(root & checked_mask);
  }
}
void store_watch::values(std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept {
  for (const told_places* c : all_) roots_in(*c, offset, bytes, data);
  const bool anywhere = packed_ != 0;
  const std::uint64_t end = offset + bytes;
  const std::uint64_t first = anywhere ? offset - 7 : round_down(offset, 8);
  for (std::uint64_t at = first; at < end; at += anywhere ? 1 : 8) {
    if (at >= offset && at + 8 <= end) {
      std::uint64_t v;
      std::memcpy(&v, data + (at - offset), sizeof v);
      value(v);
    } else {
      piece(at, offset, bytes, data);
    }
  }
}

void store_watch::piece(std::uint64_t at, std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept
    try {
  // The page after it may belong to anything.
  if (at >> g_.page_shift != (at + 7) >> g_.page_shift) return lose_all();
  const std::uint64_t now = read_in_use(bytes_ + at);
  if (data == bytes_ + offset) return value(now);
  std::uint64_t& v = pieces_.try_emplace(at, now).first->second;
  const std::uint64_t from = std::max(at, offset);
  std::memcpy(reinterpret_cast<std::byte*>(&v) + (from - at), data + (from - offset),
              std::min(at + 8, offset + bytes) - from);
} catch (const std::bad_alloc&) {
  lose_all();
}
void store_watch::end() noexcept {
  for (const auto& [at, v] : pieces_) value(v);
  pieces_.clear();
  lock_.unlock();
}
void store_watch::lose_all() noexcept {
  for (told_places* c : all_) c->lost_ = true;
}

// The header says how long the object is; if it is damaged, nothing can be told.
void store_watch::object(std::uint64_t header, bool is_freed) noexcept {
  layout::object_header h;
  std::memcpy(&h, bytes_ + header, sizeof h);
  const std::uint64_t at = header + sizeof h;
  const std::uint64_t n = layout::object_size(h);
  const bool holds = layout::object_header_holds(h, header) && n <= g_.capacity_bytes() - at;
  bool any = false;
  for (told_places* c : all_) {
    if (!c->has(header, g_)) continue;
    if (is_freed) put(*c, {header, true});
    if (!holds || (n != 0 && !c->has(at + n - 1, g_))) c->lost_ = true;
    any = true;
  }
  if (any && holds && n != 0) values(at, n, bytes_ + at);
}

void store_watch::leads_to(std::uint64_t offset) noexcept {
  for (told_places* c : all_) {
    if (!c->had(offset)) continue;
    if (c->places_.empty() || c->places_.back().offset != offset || c->places_.back().freed) put(*c, {offset, false});
  }
}
void store_watch::put(told_places& to, const told_places::place& p) noexcept {
  if (to.lost_) return;
  if (to.places_.size() < places_max) {
    try {
      to.places_.push_back(p);
      return;
    } catch (const std::bad_alloc&) {
      // as if there were too many
    }
  }
  to.lost_ = true;
  to.places_ = {};
}

}  // namespace nvm::object
