// The object stores of an open pool over its space, for every engine and medium whose objects are where their addresses
// say: one class, compiled once (stores.cpp).
#pragma once

#include <memory>

#include "engine/engine.hpp"
#include "engine/store_side.hpp"
#include "space/store_pages.hpp"
#include "space/structure_pages.hpp"

namespace nvm::engines {

// The objects that it works on, which live longer.
struct stores_ground {
  std::byte* base;
  structure_pages& pages;  // how large the pool is now
  store_pages& stores;
  engine& transactions;  // whose turns are watched
};
// May throw std::bad_alloc.
[[nodiscard]] std::unique_ptr<store_side> make_store_side(const stores_ground& ground);

}  // namespace nvm::engines
