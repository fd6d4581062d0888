// A pool whose references are counted, and calls that throw.
#pragma once

#include <nvm/gc.h>
#include <nvm/nvm.h>

#include <stdexcept>
#include <string>

#include "object/type_map_writer.hpp"

namespace nvm::bench {

[[noreturn]] inline void fail_in(const char* call) {
  throw std::runtime_error(std::string(call) + ": " + nvm_errormsg());
}
inline void done(int result, const char* call) {
  if (result != 0) fail_in(call);
}

// Announces struct { NVM_PTR(void) to[pointers]; char rest[bytes - 8 * pointers]; }.
inline void announce_type(const char* name, std::uint64_t pointers, std::uint64_t bytes) {
  object::type_description t;
  t.name = name;
  t.size = bytes;
  t.align = 8;
  t.fields.push_back({{0, 8, pointers, layout::field_kind::pointer, 0, 0, 0}, "to"});
  if (bytes > 8 * pointers) {
    t.fields.push_back({{8 * pointers, 1, bytes - 8 * pointers, layout::field_kind::character, 0, 0, 0}, "rest"});
  }
  object::type_map_writer types;
  types.add(t);
  const auto map = types.finish();
  done(nvm_register_types(map.data(), map.size() * 8), "nvm_register_types");
}

inline nvm_pool_options counted_pool(nvm_collect collect) {
  nvm_pool_options o{};
  o.medium = NVM_MEDIUM_SHM;
  o.persist = NVM_PERSIST_BEST;
  o.collect = collect;
  return o;
}
inline NVM_POOL* open_counted(const std::string& path, nvm_collect collect) {
  const nvm_pool_options o = counted_pool(collect);
  NVM_POOL* const pool = nvm_pool_open_with(path.c_str(), &o);
  if (pool == nullptr) fail_in("nvm_pool_open_with");
  return pool;
}

}  // namespace nvm::bench
