// The table of engines: a row for each that a pool can have.  Nothing else compares their numbers
// (tools/tree_rules.py): all other code asks the engine's row.
//
// The engines themselves are in src/engine/direct.cpp, check and repair of their logs in src/care/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nvm/nvm.h"

namespace nvm {

// Contents of the log area of a pool on direct media.
enum class log_kind : std::uint8_t {
  lanes,      // old bytes, in a lane for each open transaction
  rings,      // records of whole transactions, in a ring for each lane
  new_words,  // a word at a time, its new value
  old_words,  // a word at a time, its old value
  none,       // the log is the pool's data
};

struct engine_row {
  std::uint32_t number;  // enum nvm_engine, and the superblock's, but for undo, which is 0 there
  const char* name;
  log_kind log;
  bool on_ssd;  // has pools on medium ssd

  // The log is the only copy of the data: addresses of objects are virtual, no image is needed on ssd, and the pool is
  // at home on any medium.
  [[nodiscard]] constexpr bool is_its_log() const noexcept { return log == log_kind::none; }
  // A lane's log holds the records of many transactions.
  [[nodiscard]] constexpr bool wants_large_lanes() const noexcept { return log != log_kind::lanes; }
  // enum nvm_validation may be chosen: recovery validates records of whole transactions, or words, one by one.
  [[nodiscard]] constexpr bool validates() const noexcept { return log != log_kind::lanes && log != log_kind::none; }
};

inline constexpr std::array<engine_row, 5> engine_table{{
    {NVM_ENGINE_UNDO, "undo", log_kind::lanes, true},
    {NVM_ENGINE_REDO, "redo", log_kind::rings, true},
    {NVM_ENGINE_MNEMOSYNE, "mnemosyne", log_kind::new_words, false},
    {NVM_ENGINE_MNEMOSYNE_UNDO, "mnemosyne-undo", log_kind::old_words, false},
    {NVM_ENGINE_LOG, "log", log_kind::none, true},
}};
inline constexpr std::uint32_t default_engine = engine_table[0].number;
// The engines that a superblock may name, for messages.
inline constexpr const char* engines_in_words = "0 (undo), 2 (redo), 3 or 4 (mnemosyne), 5 (log)";
inline constexpr const char* engines_on_ssd_in_words = "0, 2 or 5 on ssd";

static_assert([] {
  for (std::size_t i = 0; i < engine_table.size(); ++i) {
    if (engine_table[i].number != i + 1) return false;
  }
  return true;
}());

// 0 (NVM_ENGINE_DETECT, and undo in superblocks) is one.
[[nodiscard]] constexpr bool is_engine(std::uint32_t number) noexcept { return number <= engine_table.size(); }
// The engine's row; the first row for a number of no engine.
[[nodiscard]] constexpr const engine_row& engine_of(std::uint32_t number) noexcept {
  return engine_table[number == 0 || !is_engine(number) ? 0 : number - 1];
}
[[nodiscard]] constexpr const char* engine_name(std::uint32_t number) noexcept {
  return is_engine(number) ? engine_of(number).name : "?";
}

}  // namespace nvm
