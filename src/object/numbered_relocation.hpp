// Relocation as the paper prints it (Breeze, section IV-E, Algorithm 1): one transaction for each object, which adds
// the distance of two bases to its pointers and stamps it with the number of the base that they assume from then on.  A
// pointer's value says the same by itself, without a transaction (object/relocation.hpp); this way is there to compare
// that with.
//
// Differences from the printed algorithm: null stays null, and a pointer that leads into no base stays as it is; an
// object whose pointers need not move is stamped all the same; the number is that of an entry of the history, not a
// distance of generations; the history is forgotten when all is done, eight bases are all that it holds, and numbers
// are taken back.
//
//   0. look at every object, as relocation.hpp does; at rest none may bear a number
//   1. begin_numbered_relocation()                      | pool/E1, E2  before any object bears a number
//   2. each object with pointers that does not bear the number of the new base: a transaction of the engine stores its
//      moved pointers and that number
//   3. prefer_base(): objects without a number assume the new base       | pool/E1, E2
//   4. numbers are taken back, by transactions
//   5. finish_relocation()                              | pool/E1, E2
// The medium makes each of these durable, or orders it, before the next begins.
// Recovery: none.  Before 3 an object without a number assumes the old preferred base, and after it the new one, which
// is also what the number says: the next open, at whatever address, begins at 0.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "object/pointer_walk.hpp"
#include "object/relocation_report.hpp"
#include "pool/pool.hpp"
#include "tx/tx.hpp"

namespace nvm::object {

// The pool that is relocated.
class numbered_pool {
 public:
  numbered_pool() = default;
  numbered_pool(const numbered_pool&) = delete;
  numbered_pool& operator=(const numbered_pool&) = delete;
  virtual ~numbered_pool() = default;

  [[nodiscard]] virtual std::uint64_t address() const noexcept = 0;
  [[nodiscard]] virtual numbered_bases numbers() const noexcept = 0;
  // Whether a relocation by transactions is under way.
  [[nodiscard]] virtual bool numbers_objects() const noexcept = 0;
  // Steps 1, 3 and 5.
  [[nodiscard]] virtual status begin() noexcept = 0;
  [[nodiscard]] virtual status prefer_base() noexcept = 0;
  [[nodiscard]] virtual status finish() noexcept = 0;
  // Stores whole words of the pool in one transaction.  Called by any thread of run().
  [[nodiscard]] virtual status store(std::span<const tx::assigned_word> words) noexcept = 0;
  // Calls f(0) .. f(parts - 1), maybe in parallel.
  virtual void run(unsigned parts, const std::function<void(unsigned)>& f) = 0;
};

// All steps, in a pool whose objects are where their addresses say, and which no other thread uses.
[[nodiscard]] status relocate_by_number(std::byte* base, const geometry& g, const pointer_plans& plans,
                                        numbered_pool& pool, unsigned parts, relocation_report& report) noexcept;

}  // namespace nvm::object
