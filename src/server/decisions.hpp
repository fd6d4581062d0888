// Decisions of the commands about a key: pure functions of the present item, so that the store may repeat them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/item_store.hpp"
#include "server/protocol.hpp"

namespace nvm::server {

// The times from which items count as gone: the same for all reads of one command.
struct mortality {
  std::uint32_t now = 0;
  const item_store* store = nullptr;
  [[nodiscard]] bool operator()(const item& i) const noexcept { return is_gone(i, now, store->flushed_before()); }
};

// set, add, replace, append, prepend, cas
struct store_decision final : decision {
  enum class says : std::uint8_t { stored, not_stored, exists, not_found };

  mortality gone;
  verb mode = verb::set;
  std::string_view value;
  std::uint32_t flags = 0;
  std::uint64_t cas = 0;      // 0: any
  bool may_go_stale = false;  // a cas id that is too old still replaces the item, which stays marked
  std::size_t item_bytes_max = 0;
  item_state state;

  says answer = says::not_stored;
  bool replaced_dead = false;

  wish decide(const item* old) noexcept override;
  void fill(char* to, const item* old) noexcept override;
  // Of what it replaces a set asks for the state alone.
  [[nodiscard]] bool sees_damaged() const noexcept override { return mode == verb::set; }
};

// delete, md
struct delete_decision final : decision {
  enum class says : std::uint8_t { deleted, marked, exists, not_found };

  mortality gone;
  std::uint64_t cas = 0;
  bool has_cas = false;
  bool marks = false;  // stale instead of deleted
  bool has_expiry = false;
  std::uint32_t expiry = 0;

  says answer = says::not_found;
  std::size_t value_bytes = 0;

  wish decide(const item* old) noexcept override;
  void fill(char* to, const item* old) noexcept override;
};

// incr, decr, ma
struct number_decision final : decision {
  enum class says : std::uint8_t { done, created, not_found, exists, not_a_number };

  mortality gone;
  bool up = true;
  std::uint64_t delta = 1;
  std::uint64_t cas = 0;  // 0: any
  bool creates = false;
  std::uint64_t initial = 0;
  item_state created_state;
  bool has_expiry = false;
  std::uint32_t expiry = 0;

  says answer = says::not_found;
  std::uint64_t result = 0;
  std::size_t value_bytes = 0;
  std::uint32_t expiry_before = 0;

  wish decide(const item* old) noexcept override;
  void fill(char* to, const item* old) noexcept override;
};

// mg with N
struct vivify_decision final : decision {
  mortality gone;
  item_state state;
  bool created = false;

  wish decide(const item* old) noexcept override;
  void fill(char* to, const item* old) noexcept override;
};

}  // namespace nvm::server
