// Items as entries of the table, and those that a sweep of durable_store.cpp has chosen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nvm/lockfree.h"
#include "server/durable_store.hpp"
#include "server/stored_item_layout.hpp"

namespace nvm::server {

// The item of an entry; false: the entry is not ours.
[[nodiscard]] inline bool item_of(const nvm_lf_entry& e, item& to) noexcept {
  if (e.value_bytes < sizeof(layout::stored_item) || e.key_bytes > key_bytes_max) return false;
  layout::stored_item head;
  std::memcpy(&head, e.value, sizeof head);
  const char* const bytes = static_cast<const char*>(e.value);
  to.key = {static_cast<const char*>(e.key), e.key_bytes};
  to.value = {bytes + sizeof head, e.value_bytes - sizeof head};
  to.flags = head.flags;
  to.cas = head.cas;
  to.state_word = e.mark;
  to.place = e.place;
  return true;
}

struct durable_store::victim {
  std::array<char, key_bytes_max> key;
  std::size_t key_bytes;
  std::uint64_t cas;
  bool alive;
  bool same_room;  // its memory serves the new item
  std::uint64_t place;

  void set(const item& i, bool is_alive) noexcept {
    std::memcpy(key.data(), i.key.data(), i.key.size());
    key_bytes = i.key.size();
    cas = i.cas;
    alive = is_alive;
    place = i.place;
  }
};

inline constexpr std::size_t victims_max = 64;
struct durable_store::victims {
  std::size_t count = 0;
  std::array<victim, victims_max> all;
};

}  // namespace nvm::server
