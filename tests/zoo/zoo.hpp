// The bug zoo: known crash-consistency bugs as minimal programs, each with a correct twin.
//
// An entry is caught when the buggy program gives what the entry expects, images that recovery or oracle reject or
// broken trace rules, and the correct twin gives neither.  Numbers and titles are those of the project's list of bug
// patterns (docs/design/003-crash-explorer.md).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "explore/explore.hpp"

namespace nvm::zoo {

using explore::fault;
using explore::finding;
using explore::machine;
using explore::pass;
using explore::subject;
using explore::verdict;
using explore::window;

enum class twin : bool { correct, buggy };

struct entry {
  unsigned number;
  const char* title;
  subject (*make)(twin);
  bool shows_in_images = true;             // exploring finds a bad image
  std::vector<finding::rule> breaks = {};  // trace rules that the buggy twin breaks
  unsigned tiers = explore::all_tiers;     // enough to find it
  unsigned nesting = 0;
  explore::model persistency = explore::model::x86;
  bool rmw_fences = false;
  bool instructions = false;
  bool correct_on_torn8 = true;  // the correct twin relies on nothing that x86 alone gives
  const char* needs = nullptr;   // processor feature, or nullptr
};

std::span<const entry> order_entries();        // A: flush, fence, stores
std::span<const entry> transaction_entries();  // B: transactions and logs

// A subject whose image is one object of type T, zeroed.
template <class T, class Run, class Oracle>
subject on(const char* name, Run run, Oracle oracle) {
  subject s;
  s.name = name;
  s.image.resize((sizeof(T) + 63) / 64 * 64);
  s.run = [=](machine& m) { run(m, *reinterpret_cast<T*>(m.base())); };
  s.recover = [](machine&) { return pass(); };
  s.oracle = [=](machine& m, const window& w) { return oracle(*reinterpret_cast<const T*>(m.base()), w); };
  return s;
}

}  // namespace nvm::zoo
