#include "object/visitors.hpp"

#include <algorithm>
#include <new>

namespace nvm::object {

visitor_registry& visitor_registry::of_program() noexcept {
  // Never destroyed: pools are closed by exit handlers, which may run late.
  union storage {
    constexpr storage() noexcept : registry{} {}
    ~storage() {}
    visitor_registry registry;
  };
  static constinit storage s;
  return s.registry;
}

status visitor_registry::add(std::uint32_t type, nvm_visitor function) noexcept try {
  const std::lock_guard guard{lock_};
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.type == type; });
  if (known != entries_.end()) {
    known->function = function;
  } else {
    entries_.push_back({type, function});
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the visitors of the program");
}

nvm_visitor visitor_registry::find(std::uint32_t type) noexcept {
  const std::lock_guard guard{lock_};
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.type == type; });
  return known == entries_.end() ? nullptr : known->function;
}

}  // namespace nvm::object
