// Durable linearizability of the calls of threads on a map of keys to values, across crashes: is there, for each key by
// itself, an order of the calls in which a call that returned before another began comes first, each call has its
// result, every call that returned before a crash occurs, and those that a crash cut off occur or not?
//
// Each key is its own search (linearizability is local), and each search goes once through the key's events in order of
// time, keeping every state that the key may be in together with the open calls that have taken effect in it (Lowe's
// just-in-time linearization).  The cost grows with the overlapping calls on one key, not with the history's length.
#pragma once

#include <cstdint>
#include <span>

#include "explore/explore.hpp"

namespace nvm::explore {

enum class kv_call : std::uint8_t {
  get,     // found, and the value
  put,     // sets the value
  update,  // sets the value if there is one; found
  remove,  // found
  insert,  // sets the value if there is none; found
};

struct kv_event {
  std::uint64_t key = 0;
  kv_call call = kv_call::get;
  std::uint64_t value = 0;  // put, update, insert: the new one; get: the one found
  bool found = false;
  bool returned = false;    // false: a crash came first
  std::uint64_t begun = 0;  // one clock for all threads and processes
  std::uint64_t ended = 0;  // of a call that returned
};

// `crashes`: times on the same clock; a call that had begun before one and not returned had its effect before it, or
// never.  The keys are empty at the start.
[[nodiscard]] verdict check_kv_history(std::span<const kv_event> history, std::span<const std::uint64_t> crashes);

}  // namespace nvm::explore
