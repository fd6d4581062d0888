#include "cli/likely.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace nvm::cli {
namespace {

// Letters to insert, remove, replace, or swap with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(now);
  }
  return last[b.size()];
}

}  // namespace

std::string likely(std::string_view word, std::span<const std::string_view> expected) {
  std::string_view best;
  std::size_t least = word.size() < 4 ? 2 : 3;  // two wrong letters of a long word, one of a short one
  for (const std::string_view e : expected) {
    const std::size_t d = distance(word, e);
    if (d < least) {
      least = d;
      best = e;
    }
  }
  return best.empty() ? std::string{} : fmt::format("; did you mean \"{}\"?", best);
}

}  // namespace nvm::cli
