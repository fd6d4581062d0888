// A pool as barrier transactions see it.
#pragma once

#include <optional>

#include "stm/face.hpp"

struct nvm_pool;
struct nvm_stm;

namespace nvm::api {

class barrier_side final : public stm::durable_side {
 public:
  explicit barrier_side(nvm_pool& pool) noexcept : pool_{pool} {}
  // The pool is mapped.
  void ready() noexcept;

  result<tx::open_transaction*> begin() noexcept override;
  [[nodiscard]] std::uint64_t data_end() const noexcept override;
  [[nodiscard]] result<stm::home_reader*> reader() noexcept override;
  [[nodiscard]] two_words words_of(anchor_word which) const noexcept override;
  [[nodiscard]] bool takes_announced_stores() const noexcept override;
  status wait(lsn_t lsn) noexcept override;
  status wait_for_seen(lsn_t lsn) noexcept override;
  void clear_new(std::uint32_t type, void* p, std::size_t bytes) noexcept override;
  status let_go(tx::open_transaction& t, std::uint64_t payload) noexcept override;
  [[nodiscard]] status admit_alignment() noexcept override;
  [[nodiscard]] bool may_be_aligned(std::uint64_t place) const noexcept override;
  // Pages of object stores that are not attached may be protected.
  [[nodiscard]] status admits_change(std::uint64_t place, std::uint64_t bytes) const noexcept override;

  [[nodiscard]] nvm_pool& pool() const noexcept { return pool_; }

 private:
  nvm_pool& pool_;
};

// Whether this thread has a barrier transaction open, of any pool.
[[nodiscard]] bool in_barrier_transaction() noexcept;
// Why this thread's barrier transaction allows only abort, errc::ok: it may commit.  nullopt: it is not of this pool
// (nullptr: of any).
[[nodiscard]] std::optional<errc> barrier_failure(const nvm_pool* pool) noexcept;
// Rolls back the levels of nvm_stm_run() whose frames longjmp has left; `later` lies in a frame that was entered after
// those of the levels that are not left.  True: there were some.
[[nodiscard]] bool end_left_runs(const void* later) noexcept;
// Rolls this thread's barrier transaction back if it is of this pool: the process ends.
void abandon_barrier_transaction(const nvm_pool* pool) noexcept;

// As nvm_stm_set_root() and nvm_stm_get_root(), for any word of the anchors.
[[nodiscard]] int set_anchor(nvm_stm* tx, anchor_word which, void* object);
[[nodiscard]] void* anchor(nvm_stm* tx, anchor_word which);

}  // namespace nvm::api
