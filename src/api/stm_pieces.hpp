// Barriers that the C interface does not offer: stores of pieces that come from two places, allocation in an attached
// store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/base.hpp"
#include "space/store_attachment.hpp"

struct nvm_stm;
struct nvm_pool;

namespace nvm::api {

// As nvm_stm_alloc(), in a store of `pool`; no store: it fails with `why`.
[[nodiscard]] void* allocate_in(nvm_stm* tx, const nvm_pool* pool, const store_attachment& store, std::uint32_t type,
                                std::size_t bytes, errc why = errc::invalid);

// As nvm_stm_write() of n bytes and of the word that follows: as two calls they would lock and log the line between
// them twice.
void write_with_word(nvm_stm* tx, void* to, const void* from, std::size_t n, std::uint64_t last);

}  // namespace nvm::api
