// Old bytes, with savepoints: a transaction undoes its stores by them, all of them or those of its innermost level.
//
// The outermost level keeps a byte once, in a table of lines.  Inner levels are short: they keep old bytes one after
// the other, and these join the table when the level becomes part of the outermost one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "isolation/line_table.hpp"
#include "isolation/shared_memory.hpp"

namespace nvm::isolation {

class journal {
 public:
  struct mark {
    std::size_t pieces = 0;
    std::size_t bytes = 0;
  };

  [[nodiscard]] bool empty() const noexcept { return outer_.empty() && pieces_.empty(); }
  [[nodiscard]] mark here() const noexcept { return {pieces_.size(), bytes_.size()}; }

  // The bytes [p, p + n) are about to be overwritten.  May throw std::bad_alloc.
  void keep(const void* p, std::size_t n, bool outermost) {
    if (outermost) {
      keep_once(static_cast<const std::byte*>(p), n,
                [](std::byte* to, const std::byte* from, std::size_t bytes) { copy_out(to, from, bytes); });
      return;
    }
    bytes_.resize(bytes_.size() + n);
    try {
      pieces_.push_back({const_cast<std::byte*>(static_cast<const std::byte*>(p)), n});
    } catch (...) {
      bytes_.resize(bytes_.size() - n);
      throw;
    }
    copy_out(bytes_.data() + bytes_.size() - n, p, n);
  }

  // The level that began at `m` becomes part of the outermost one.  May throw std::bad_alloc; the level can still be
  // put back then.
  void join_outermost(const mark& m) {
    std::size_t at = m.bytes;
    for (std::size_t i = m.pieces; i < pieces_.size(); ++i) {
      const std::byte* kept = bytes_.data() + at;
      const std::byte* const home = pieces_[i].home;
      keep_once(home, pieces_[i].n, [&](std::byte* to, const std::byte* from, std::size_t bytes) {
        std::memcpy(to, kept + (from - home), bytes);
      });
      at += pieces_[i].n;
    }
    forget(m);
  }

  // Stores the bytes of the innermost level back, newest first.
  void put_back(const mark& m) noexcept {
    std::size_t end = bytes_.size();
    for (std::size_t i = pieces_.size(); i-- > m.pieces;) {
      end -= pieces_[i].n;
      copy_in(pieces_[i].home, bytes_.data() + end, pieces_[i].n);
    }
    forget(m);
  }
  // Forgets what was kept since `m`: it will not be put back.
  void forget(const mark& m) noexcept {
    pieces_.resize(m.pieces);
    bytes_.resize(m.bytes);
  }
  void put_all_back() noexcept {
    put_back({0, 0});
    outer_.store_home();
    outer_.clear();
  }
  void clear() noexcept {
    if (empty()) return;
    outer_.clear();
    pieces_.clear();
    bytes_.clear();
  }

 private:
  struct piece {
    std::byte* home;
    std::size_t n;
  };

  // Calls take(to, from, n), which copies, for bytes that are not kept yet.
  template <class Take>
  void keep_once(const std::byte* p, std::size_t n, Take&& take) {
    while (n != 0) {
      const std::uint64_t line = reinterpret_cast<std::uintptr_t>(p) / line_bytes;
      const auto from = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(p) % line_bytes);
      const std::size_t here = n < line_bytes - from ? n : line_bytes - from;
      written_line& w = outer_[outer_.at(line)];
      const std::uint64_t added = bytes_mask(from, here) & ~w.mask;
      each_run(added, [&](unsigned b, std::size_t bytes) { take(w.bytes + b, p + (b - from), bytes); });
      w.mask |= added;
      p += here;
      n -= here;
    }
  }

  line_table outer_;
  std::vector<piece> pieces_;
  std::vector<std::byte> bytes_;
};

}  // namespace nvm::isolation
