// nvm_gc() beside transactions (nvm_gc_options.beside).
#pragma once

#include "api/pool_object.hpp"
#include "nvm/gc.h"

namespace nvm::api {

// The caller is the one that collects the pool.  May throw std::bad_alloc.
[[nodiscard]] status collect_beside(nvm_pool* pool, const nvm_gc_options& options, nvm_gc_report& report);

}  // namespace nvm::api
