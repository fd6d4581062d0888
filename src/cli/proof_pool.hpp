// A pool whose contents prove whether they are complete: for the doctor's kills and power cuts.
//
// Transaction n stores n into the root and into four cells that lie in pages of their own, makes a block whose contents
// follow from n, and frees the block of transaction n - 8. After any crash, recovery must find one n everywhere, the
// blocks of the last eight transactions, and no other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nvm/nvm.h"

namespace nvm::cli {

class proof_pool {
 public:
  // Makes a new pool with number 0 in it, closed. Returns the failure, or an empty text.
  [[nodiscard]] static std::string create(const std::string& path, const nvm_pool_options& options);

  // Opens it; null: nvm_errormsg() says why.
  [[nodiscard]] static NVM_POOL* open(const std::string& path, std::uint32_t medium);

  [[nodiscard]] static std::uint64_t number(NVM_POOL* pool);
  // Transaction `n`, which follows number(); durable when it returns true.
  [[nodiscard]] static bool step(NVM_POOL* pool, std::uint64_t n);
  // With one store that is not announced, as a program may forget to.
  [[nodiscard]] static bool step_with_a_store_forgotten(NVM_POOL* pool, std::uint64_t n);

  // Judges a file that no process has open; returns the fault, or an empty text.  The full check, then a recovering
  // open, then the contents.  `acknowledged`: transactions that must be there; `begun`: the last that can be.
  [[nodiscard]] static std::string judge(const std::string& path, std::uint32_t medium, std::uint64_t acknowledged,
                                         std::uint64_t begun);
};

// Runs `work` in a child process and returns what it returned, or how the child ended instead.
[[nodiscard]] std::string in_a_child(const std::function<std::string()>& work);

}  // namespace nvm::cli
