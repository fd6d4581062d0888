// Stores of a transaction with isolation that the C interface has not: pieces that come from two places.
#pragma once

#include <cstddef>
#include <cstdint>

struct nvm_stm;

namespace nvm::api {

// As nvm_stm_write() of n bytes and of the word that follows: as two calls they would lock and log the line between
// them twice.
void write_with_word(nvm_stm* tx, void* to, const void* from, std::size_t n, std::uint64_t last);

}  // namespace nvm::api
