#include "object/relocation.hpp"

#include <cinttypes>
#include <cstdio>

namespace nvm::object {

errc obstacles::refuse(const char* what) const noexcept {
  char list[16 * 48] = "";
  std::size_t at = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    at += static_cast<std::size_t>(std::snprintf(list + at, sizeof list - at, "%s%u (%" PRIu64 ")", i == 0 ? "" : ", ",
                                                 types_[i].type, types_[i].objects));
  }
  if (others_ != 0) (void)std::snprintf(list + at, sizeof list - at, " and %" PRIu64 " of other types", others_);
  return fail(errc::address, "it cannot be relocated: it holds objects %s: types (objects) %s", what, list);
}

status survey::refusal() const noexcept {
  if (failure != errc::ok) return failure;
  if (!undescribed.none()) return undescribed.refuse("that nobody describes, whose pointers are not known");
  return {};
}

}  // namespace nvm::object
