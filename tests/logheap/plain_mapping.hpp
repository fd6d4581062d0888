// The simplest mapping there is, for tests of everything else: one sorted map under one lock.
#pragma once

#include <map>
#include <mutex>

#include "logheap/mapping.hpp"
#include "sync/sync.hpp"

namespace nvm::logheap::testing {

class plain_mapping {
 public:
  struct client {
    client(plain_mapping&, unsigned) {}
  };
  plain_mapping(epochs&, const mapping_settings&) {}
  [[nodiscard]] status exists() noexcept { return {}; }
  // Reservations fail while this is not 0, once less each time.
  static inline unsigned shortages = 0;
  [[nodiscard]] status reserve(client&, std::span<const home_range>) noexcept {
    if (shortages == 0) return {};
    --shortages;
    return fail(errc::no_memory, "no nodes");
  }
  [[nodiscard]] status reserve_whole(client& c, std::span<const home_range> assigned,
                                     std::span<const home_range>) noexcept {
    return reserve(c, assigned);
  }
  void release(client&) noexcept {}

  template <class Replaced>
  void assign(client&, std::span<const piece> pieces, Replaced&& replaced) noexcept {
    const std::lock_guard guard{lock_};
    for (const piece& p : pieces) {
      clear(p.home, p.size, replaced);
      pieces_[p.home] = p;
    }
  }
  template <class Replaced>
  void erase(client&, const home_range& r, Replaced&& replaced) noexcept {
    const std::lock_guard guard{lock_};
    clear(r.home, r.size, replaced);
  }
  template <class Visit>
  void for_each_piece(client&, home_t home, std::uint64_t size, Visit&& visit) noexcept {
    const std::lock_guard guard{lock_};
    auto p = pieces_.upper_bound(home);
    if (p != pieces_.begin()) --p;
    for (; p != pieces_.end() && p->first < home + size; ++p) {
      const home_t from = std::max(home, p->first);
      const home_t end = std::min(home + size, p->first + p->second.size);
      if (from < end) visit(piece{from, end - from, p->second.log + (from - p->first)});
    }
  }
  std::uint64_t compare_and_move(client& c, home_t home, std::uint64_t size, log_t from, log_t to) noexcept {
    return move_some(c, home, size, from, to, false);
  }
  std::uint64_t move_whole_pieces(client& c, home_t home, std::uint64_t size, log_t from, log_t to) noexcept {
    return move_some(c, home, size, from, to, true);
  }
  std::uint64_t move_some(client& c, home_t home, std::uint64_t size, log_t from, log_t to, bool uncut) noexcept {
    std::vector<piece> same;
    for_each_piece(c, home, size, [&](const piece& p) {
      if (p.log == from + (p.home - home)) same.push_back({p.home, p.size, to + (p.home - home)});
    });
    std::uint64_t moved = 0;
    for (const piece& p : same) {
      const std::lock_guard guard{lock_};
      // Again, under the lock: only what has stayed.
      for (home_t h = p.home; h < p.home + p.size;) {
        auto at = pieces_.upper_bound(h);
        if (at == pieces_.begin()) break;
        --at;
        const piece q = at->second;
        if (h >= q.home + q.size) {
          h = std::min(p.home + p.size, std::next(at) == pieces_.end() ? p.home + p.size : std::next(at)->first);
          continue;
        }
        const home_t end = std::min(p.home + p.size, q.home + q.size);
        const bool is_cut = q.home != h || q.home + q.size != end;
        if (q.log + (h - q.home) == from + (h - home) && !(uncut && is_cut)) {
          clear(h, end - h, [](const piece&) {});
          pieces_[h] = {h, end - h, to + (h - home)};
          moved += end - h;
        }
        h = end;
      }
    }
    return moved;
  }
  void fetch(home_t) const noexcept {}
  [[nodiscard]] status fill(client& c, std::span<const piece> pieces) noexcept {
    return fill_by_changes(*this, c, pieces);
  }
  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    for (const auto& [home, p] : pieces_) visit(p);
  }
  [[nodiscard]] std::uint64_t bytes_used() noexcept { return pieces_.size() * 80; }

 private:
  template <class Replaced>
  void clear(home_t home, std::uint64_t size, Replaced&& replaced) noexcept {
    auto p = pieces_.upper_bound(home);
    if (p != pieces_.begin()) --p;
    while (p != pieces_.end() && p->first < home + size) {
      const piece old = p->second;
      const home_t from = std::max(home, old.home);
      const home_t end = std::min(home + size, old.home + old.size);
      if (from >= end) {
        ++p;
        continue;
      }
      p = pieces_.erase(p);
      if (old.home < from) pieces_[old.home] = {old.home, from - old.home, old.log};
      if (end < old.home + old.size) {
        p = pieces_.insert_or_assign(end, piece{end, old.home + old.size - end, old.log + (end - old.home)}).first;
      }
      replaced(piece{from, end - from, old.log + (from - old.home)});
    }
  }
  spin_lock lock_;
  std::map<home_t, piece> pieces_;
};
static_assert(mapping<plain_mapping>);

}  // namespace nvm::logheap::testing
