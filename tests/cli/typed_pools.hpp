// Pools with types, for the tests of the command: fields, the pool of an argument, and what ends a maker that fails.
#pragma once

#include <nvm/nvm.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "object/type_map_writer.hpp"

namespace nvm::tests {

inline object::type_description::field field(const char* name, std::uint64_t offset, layout::field_kind kind,
                                             std::uint64_t bytes, std::uint64_t count = 1, std::uint32_t target = 0) {
  return {{offset, bytes, count, kind, target, 0, 0}, name};
}

inline void require(bool good) {
  if (good) return;
  std::fprintf(stderr, "%s\n", nvm_errormsg());
  std::exit(1);
}

inline void register_types(object::type_map_writer& types) {
  const auto map = types.finish();
  require(nvm_register_types(map.data(), map.size() * 8) == 0);
}

// medium: shm, ssd, or log, which is the engine on shm.  A transaction is open.
inline NVM_POOL* make_pool(const char* path, std::string_view medium) {
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.medium = medium == "ssd" ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  if (medium == "log") {
    o.engine = NVM_ENGINE_LOG;
    o.size = 4 << 20;
  }
  NVM_POOL* const pool = nvm_pool_create_with(path, &o);
  require(pool != nullptr && nvm_tx_begin(pool) == 0);
  return pool;
}
inline void finish_pool(NVM_POOL* pool, void* root) {
  require(nvm_pool_set_root(pool, root) == 0 && nvm_tx_commit(pool) == 0 && nvm_pool_close(pool) == 0);
}

}  // namespace nvm::tests
