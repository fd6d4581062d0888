// Notes of a repair, as its parts make them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "care/repair.hpp"

namespace nvm::care {

using told_notes = std::function<void(repair_note)>;

[[nodiscard]] inline repair_note note_of(mending how, std::uint64_t offset, std::string what) {
  repair_note n;
  n.how = how;
  n.offset = offset;
  n.what = std::move(what);
  return n;
}

// Notes about one thing, which they begin with.  `tell` has to outlive it.
class notes_about {
 public:
  notes_about(const told_notes& tell, std::string about) : tell_{tell}, about_{std::move(about)} {}
  void operator()(mending how, std::uint64_t at, const std::string& what) const {
    tell_(note_of(how, at, about_ + what));
  }

 private:
  const told_notes& tell_;
  const std::string about_;
};

}  // namespace nvm::care
