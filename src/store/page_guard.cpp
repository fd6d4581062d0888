#include "store/page_guard.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace nvm::stores {

page_guard::page_guard(std::byte* base, std::uint64_t bytes, page_access whole, const limits& l) noexcept
    : base_{base}, bytes_{bytes}, whole_{whole}, ranges_max_{l.ranges_max} {}

// The kernel's limit is read late: most processes have few ranges.
bool page_guard::has_room() noexcept {
  constexpr std::uint64_t always_allowed = 64;
  if (ranges_max_ == 0 && ranges_ < always_allowed) return true;
  if (ranges_max_ == 0) ranges_max_ = std::max(platform::mappings_max() / 4, always_allowed);
  return ranges_ < ranges_max_;
}

page_access page_guard::wanted(const piece& p) const noexcept {
  if (all_open_ != 0) return whole_;
  if (p.opens == 0) return p.own;
  return std::max(p.own, p.writes ? page_access::all : page_access::read);
}

// Makes a piece begin at `at` if one contains it; returns the first piece from there on.
page_guard::pieces::iterator page_guard::split(std::uint64_t at) {
  const auto behind = pieces_.upper_bound(at);
  if (behind == pieces_.begin()) return behind;
  const auto around = std::prev(behind);
  if (around->first == at || around->second.end <= at) return around->first == at ? around : behind;
  const auto second = pieces_.emplace_hint(behind, at, around->second);
  around->second.end = at;
  if (second->second.holds != whole_) ++ranges_;
  return second;
}

// Adds pieces for plain pages between others.
void page_guard::fill(std::uint64_t from, std::uint64_t to) {
  piece plain;
  plain.own = plain.holds = whole_;
  for (auto next = split(from); from < to;) {
    if (next == pieces_.end() || next->first > from) {
      plain.end = next == pieces_.end() ? to : std::min(to, next->first);
      next = std::next(pieces_.emplace_hint(next, from, plain));
      from = plain.end;
    } else {
      from = next->second.end;
      ++next;
    }
  }
}

void page_guard::holds_now(piece& p, page_access to) noexcept {
  ranges_ += (to != whole_ ? 1 : 0);
  ranges_ -= (p.holds != whole_ ? 1 : 0);
  p.holds = to;
  p.left_open = false;
}

bool page_guard::apply(std::uint64_t from, std::uint64_t to) noexcept {
  for (auto first = pieces_.lower_bound(from); first != pieces_.end() && first->first < to;) {
    const page_access next = wanted(first->second);
    auto end = first;
    bool differs = false;
    std::uint64_t limit = first->first;
    // Pages between pieces are plain, and stay so.
    const auto goes_on = [&](pieces::iterator p) {
      return p == first || ((p->first == limit || next == whole_) && wanted(p->second) == next);
    };
    for (; end != pieces_.end() && end->first < to && goes_on(end); ++end) {
      differs = differs || end->second.holds != next;
      limit = end->second.end;
    }
    if (differs) {
      const bool closes = next != whole_;
      const bool may = !closes || has_room();
      if (may) ++calls_;
      if (may && platform::set_page_access(base_ + first->first, limit - first->first, next)) {
        for (auto p = first; p != end; ++p) holds_now(p->second, next);
      } else if (closes && next < page_access::all && first->second.opens == 0) {
        for (auto p = first; p != end; ++p) p->second.left_open = p->second.holds != next;
      } else {
        return false;
      }
    }
    first = end;
  }
  return true;
}

// Joins equal neighbours, and forgets plain pieces.
void page_guard::tidy(std::uint64_t from, std::uint64_t to) noexcept {
  auto p = pieces_.lower_bound(from);
  if (p != pieces_.begin()) --p;
  while (p != pieces_.end() && p->first <= to) {
    if (p->second.plain(whole_)) {
      p = pieces_.erase(p);
      continue;
    }
    const auto next = std::next(p);
    if (next == pieces_.end() || next->first != p->second.end || !next->second.alike(p->second)) {
      p = next;
      continue;
    }
    p->second.end = next->second.end;
    if (p->second.holds != whole_) --ranges_;
    pieces_.erase(next);
  }
}

void page_guard::give_up() noexcept {
  ++calls_;
  (void)platform::set_page_access(base_, bytes_, whole_);
  pieces_.clear();
  ranges_ = 0;
  given_up_ = true;
}

template <class Change>
void page_guard::change(std::uint64_t offset, std::uint64_t bytes, Change&& how) noexcept {
  const std::lock_guard guard{lock_};
  if (given_up_ || bytes == 0) return;
  const std::uint64_t end = offset + bytes;
  try {
    (void)split(end);
    fill(offset, end);
  } catch (const std::bad_alloc&) {
    return give_up();
  }
  for (auto p = pieces_.lower_bound(offset); p != pieces_.end() && p->first < end; ++p) how(p->second);
  if (!apply(offset, end)) return give_up();
  tidy(offset, end);
}

void page_guard::close_to(std::uint64_t offset, std::uint64_t bytes, page_access to) noexcept {
  change(offset, bytes, [&](piece& p) { p.own = std::min(to, whole_); });
}
void page_guard::release(std::uint64_t offset, std::uint64_t bytes) noexcept {
  change(offset, bytes, [&](piece& p) {
    p.own = whole_;
    p.opens = 0;
    p.writes = false;
  });
}
void page_guard::open(std::uint64_t offset, std::uint64_t bytes, bool writes) noexcept {
  change(offset, bytes, [&](piece& p) {
    ++p.opens;
    p.writes = p.writes || (writes && whole_ == page_access::all);
  });
}
void page_guard::close(std::uint64_t offset, std::uint64_t bytes) noexcept {
  change(offset, bytes, [](piece& p) {
    if (p.opens != 0) --p.opens;
    if (p.opens == 0) p.writes = false;
  });
}

void page_guard::all_opens(int more) noexcept {
  const std::lock_guard guard{lock_};
  all_open_ += more;
  if (given_up_) return;
  if (!apply(0, bytes_)) return give_up();
  tidy(0, bytes_);
}

bool page_guard::is_closed(std::uint64_t offset) const noexcept {
  const std::lock_guard guard{lock_};
  auto p = pieces_.upper_bound(offset);
  if (given_up_ || p == pieces_.begin()) return false;
  --p;
  return offset < p->second.end && p->second.own == page_access::none && !p->second.left_open;
}

page_guard::figures page_guard::now() const noexcept {
  const std::lock_guard guard{lock_};
  figures f;
  f.given_up = given_up_;
  f.calls = calls_;
  std::uint64_t last = 0;
  page_access before = whole_;
  for (const auto& [begin, p] : pieces_) {
    const std::uint64_t n = p.end - begin;
    if (p.holds == page_access::none) f.closed_bytes += n;
    if (p.holds == page_access::read && whole_ == page_access::all) f.read_only_bytes += n;
    if (p.left_open) f.left_open_bytes += n;
    if (p.holds != whole_ && (begin != last || p.holds != before)) ++f.ranges;
    last = p.end;
    before = p.holds;
  }
  return f;
}

}  // namespace nvm::stores
