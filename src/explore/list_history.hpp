// Strict serializability of transactions over several keys, across crashes, after Elle: keys hold lists, transactions
// read whole lists and append elements, each of which is appended once in the whole history.  A list that was read
// shows the order in which earlier transactions wrote the key, so that dependences are known, not searched for:
//
//   write-write  the one that appended an element -> the one that appended the next
//   write-read   the one that appended the last element of a list -> the one that read the list
//   read-write   the one that read a list -> the one that appended the next element
//   real time    one that had ended -> one that began afterwards
//
// A cycle is a proof that no order exists.  A transaction that a crash cut off counts if another has seen its effect.
// A lost acknowledged transaction shows as a cycle, too: its reader comes both before and after it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "explore/explore.hpp"

namespace nvm::explore {

struct list_access {
  std::uint64_t key = 0;
  bool append = false;
  std::uint64_t element = 0;        // append
  std::vector<std::uint64_t> list;  // read: with the transaction's own appends before
};

enum class fate : std::uint8_t {
  committed,
  rolled_back,
  cut_off,  // by a crash
};

struct list_transaction {
  std::uint64_t number = 0;  // for messages
  enum fate fate = fate::committed;
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;  // cut off: the time of the crash
  std::vector<list_access> accesses;
};

[[nodiscard]] verdict check_list_history(std::span<const list_transaction> history);

}  // namespace nvm::explore
