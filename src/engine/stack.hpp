// What an engine runs on: a medium, with what it needs to live.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "media/media.hpp"
#include "nvm/nvm.h"

namespace nvm::engines {

template <class S>
concept stack = requires(S& s, nvm_statistics& out) {
  // The medium that the engine sees.  Ready as soon as the stack is made.
  requires media<std::remove_reference_t<decltype(s.top())>>;
  // The engine has come to rest: everything that was ordered is durable, nothing is left to recover.
  { s.close() } -> std::same_as<status>;
  // Adds what the media have counted.
  s.statistics(out);
  // enum nvm_persist in force; 0 where there is none.
  { s.persist() } -> std::same_as<std::uint32_t>;
  // Whether lock-free structures are compiled for this medium (structures_*.cpp).
  { S::has_structures } -> std::convertible_to<bool>;
};

template <class Stack>
using medium_of = std::remove_reference_t<decltype(std::declval<Stack&>().top())>;

// A stack of one medium that counts nothing and has nothing to close.
class plain_stack {
 public:
  static constexpr bool has_structures = false;
  static status close() noexcept { return {}; }
  static void statistics(nvm_statistics&) noexcept {}
  static std::uint32_t persist() noexcept { return 0; }
};

// Another stack, with counters of what passes.
template <stack Inner>
class measured {
 public:
  using medium_type = meter_media<medium_of<Inner>>;
  static constexpr bool has_structures = Inner::has_structures;

  explicit measured(std::unique_ptr<Inner> inner) noexcept
      : inner_{std::move(inner)}, metered_{inner_->top(), counts_} {}
  medium_type& top() noexcept { return metered_; }
  status close() noexcept { return inner_->close(); }
  void statistics(nvm_statistics& out) noexcept {
    inner_->statistics(out);
    const meter_totals r = counts_.totals();
    out.fences += r.fences;
    out.flushed_lines += r.lines;
    out.flushed_bytes += r.bytes;
  }
  std::uint32_t persist() const noexcept { return inner_->persist(); }

 private:
  std::unique_ptr<Inner> inner_;
  meter counts_;
  medium_type metered_;
};

}  // namespace nvm::engines
