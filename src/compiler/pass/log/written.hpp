// The bytes that an intrinsic writes.
//
// LLVM says of every intrinsic whether it may store, and through which of its arguments.  For intrinsics that this file
// knows the bytes are exact; an unknown one counts as writing the whole object around each pointer that it gets. memcpy
// and its kin are not in here: the caller has them.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstrTypes.h>

#include <cstdint>

namespace nvm::compiler {

struct written {
  enum class shape {
    bytes,       // from address on
    line,        // the 64 bytes of the cache line around address
    masked,      // lanes of `bytes` from address on, those that are active
    compressed,  // lanes of `bytes` from address on, as many as are active
    scattered,   // a lane of `bytes` at each address that is active: address + index * scale
    tile,        // of the matrix registers: rows at address + row * scale, as they are configured
    object,      // unknown bytes: the whole object around address, or around each of a vector of them
    refused      // a vector of unknown length: an error
  };
  shape what = shape::refused;
  llvm::Value* address = nullptr;  // scattered: also a vector of pointers
  llvm::Value* bytes = nullptr;    // of the range, or of each lane; any integer
  unsigned lanes = 1;
  // Null: every lane is active.  Else a vector of bits, a vector of integers whose top bits count, or a number whose
  // lowest bits do.
  llvm::Value* mask = nullptr;
  llvm::Value* active_lanes = nullptr;  // lanes from this number on are not active; null: the mask says all
  llvm::Value* index = nullptr;         // scattered: a vector of integers; null: the number of the lane
  llvm::Value* scale = nullptr;         // scattered, tile: an integer; null: `address` is a vector
  std::uint64_t scale_unit = 1;         // bytes of one of `scale`
  unsigned tile = 0;
};

// Empty: no memory that a pointer of the program could name.
[[nodiscard]] llvm::SmallVector<written, 2> written_by(llvm::CallBase& intrinsic, const llvm::DataLayout& layout);

// It calls functions, or returns twice: afterwards another transaction may be open, or another level of it.
[[nodiscard]] bool may_change_transactions(const llvm::CallBase& intrinsic);

// ---- code that the pass that logs and the one that records share (written_lanes.cpp) ----

inline constexpr unsigned word_bits = 64;  // lanes of one number
inline constexpr std::uint64_t tile_configuration_bytes = 64;

// A bit for each lane: it is written.
[[nodiscard]] llvm::Value* active_lanes(llvm::IRBuilder<>& b, const written& w);
// 64 of these bits, from `first` on, as a number.
[[nodiscard]] llvm::Value* lanes_word(llvm::IRBuilder<>& b, llvm::Value* bits, unsigned first);
// Addresses of a scattered store: a vector of pointers.
[[nodiscard]] llvm::Value* lane_addresses(llvm::IRBuilder<>& b, const written& w);
// The rows of a tile as a scattered store; `configuration` is room for the settings of the matrix registers.
[[nodiscard]] written rows_of_tile(llvm::IRBuilder<>& b, const written& tile, llvm::Value* configuration);

// Makes the code that logs it, before the instruction that writes it. `check`: with that instruction's place.
void log_written(const written& w, llvm::Instruction& by, bool check);

}  // namespace nvm::compiler
