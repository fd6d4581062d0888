// Names in programs to which a pool leads (nvm/static.h), for people: this command knows none of them and leaves them
// alone.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/console.hpp"
#include "nvm/nvm.h"

namespace nvm::cli {

struct static_facts {
  json list = json::array();  // of {name, build, fields}, each name and build where it is known
  std::uint64_t fields = 0;   // of all
};

// No value: nvm_errno() says why.
[[nodiscard]] std::optional<static_facts> statics_of(NVM_POOL* pool);
// A line for each; one for all, if there are any.
void print_each(const static_facts& facts, const console& out);
void print_sum(const static_facts& facts, const console& out);

}  // namespace nvm::cli
