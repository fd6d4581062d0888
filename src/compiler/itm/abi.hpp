// Numbers of the Intel transactional memory ABI (version 1), as GCC's -fgnu-tm uses them.
#pragma once

#include <cstdint>

namespace nvm::itm {

// The compiler's facts about the code of a transaction, given in the call that begins it.
enum property : std::uint32_t {
  has_instrumented_code = 0x0001,
  has_uninstrumented_code = 0x0002,
  has_no_abort = 0x0008,
  does_go_irrevocable = 0x0040,
};

// The value of _ITM_beginTransaction, which tells the code what to do: it returns once for each attempt and once more
// after a cancel.
enum action : std::uint32_t {
  run_instrumented_code = 0x01,
  run_uninstrumented_code = 0x02,
  save_live_variables = 0x04,
  restore_live_variables = 0x08,
  abort_transaction = 0x10,
};

enum abort_reason : std::uint32_t {
  user_abort = 1,
  user_retry = 2,
  outer_abort = 16,
};

enum how_executing : int {
  outside_transaction = 0,
  in_retryable_transaction = 1,
  in_irrevocable_transaction = 2,
};

using transaction_id = std::uint64_t;
inline constexpr transaction_id no_transaction_id = 1;

using user_action = void (*)(void*);

}  // namespace nvm::itm
