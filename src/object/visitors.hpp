// Functions of this program that tell where the pointers are in types that no map describes (NVM_VISIT).
//
// Threads: any.  A process has one registry; it is constant-initialised, because constructors of other files use it.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/base.hpp"
#include "nvm/describe.h"

// What a visitor passes on to nvm_visit_field().
struct nvm_visit {
  void (*tell)(nvm_visit* visit, const void* field, std::uint32_t kind);
};

namespace nvm::object {

class visitor_registry {
 public:
  static visitor_registry& of_program() noexcept;

  // The last function that was announced for a type counts.  errc::no_memory.
  [[nodiscard]] status add(std::uint32_t type, nvm_visitor function) noexcept;
  // nullptr: this program has none.
  [[nodiscard]] nvm_visitor find(std::uint32_t type) noexcept;

 private:
  constexpr visitor_registry() noexcept = default;

  struct entry {
    std::uint32_t type;
    nvm_visitor function;
  };
  std::mutex lock_;
  std::vector<entry> entries_;
};

}  // namespace nvm::object
