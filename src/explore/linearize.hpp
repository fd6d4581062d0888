// Durable linearizability of a short history: is there an order of its operations in which an operation that returned
// before another began comes first, every operation that returned occurs with its result, each pending one occurs or
// not, and the last state is the recovered one?
//
// Search after Wing and Gong with a memory of (operations done, state) pairs, exponential at worst in the number of
// operations that overlap.  Split a history by key before, where keys are independent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "explore/explore.hpp"

namespace nvm::explore {

struct operation {
  std::uint64_t what = 0;    // as given to op_begin()
  std::uint64_t result = 0;  // as given to op_end(), if it returned
  bool returned = false;
  std::size_t begun_at = 0;  // places in the history
  std::size_t ended_at = 0;
};

inline std::vector<operation> operations_of(std::span<const op_event> history) {
  std::vector<operation> all;
  for (std::size_t i = 0; i < history.size(); ++i) {
    const op_event& e = history[i];
    if (all.size() <= e.op) all.resize(e.op + 1);
    operation& o = all[e.op];
    if (e.end) {
      o.returned = true;
      o.result = e.value;
      o.ended_at = i;
    } else {
      o.what = e.value;
      o.begun_at = i;
    }
  }
  return all;
}

// A sequential specification: State initial(); bool step(State&, const operation&), which makes the operation and says
// whether the result agrees (if it returned); std::uint64_t digest(const State&).
template <class Spec>
class linearizer {
 public:
  // `last_may_be_lost`: the effect of the last operation that returned need not have survived; those of all others
  // must.
  explicit linearizer(Spec spec, bool last_may_be_lost = false)
      : spec_{std::move(spec)}, last_may_be_lost_{last_may_be_lost} {}

  [[nodiscard]] verdict check(std::span<const op_event> history, std::uint64_t recovered) {
    operations_ = operations_of(history);
    if (operations_.size() > 64) return fault("a history of more than 64 operations: split it by key");
    recovered_ = recovered;
    tried_.clear();
    if (search(0, spec_.initial())) return pass();
    return fault("no order of the operations gives these results and this state");
  }

 private:
  template <class State>
  bool search(std::uint64_t done, State state) {
    std::size_t left = 0;              // of those that returned
    std::size_t first_end = SIZE_MAX;  // of those not done: no operation that began after it can come next
    std::size_t last = 0;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if ((done >> i & 1) != 0 || !operations_[i].returned) continue;
      ++left;
      last = i;
      if (operations_[i].ended_at < first_end) first_end = operations_[i].ended_at;
    }
    const std::uint64_t digest = spec_.digest(state);
    if (digest == recovered_) {
      if (left == 0) return true;
      State next = state;
      if (left == 1 && last_may_be_lost_ && spec_.step(next, operations_[last])) return true;
    }
    if (!tried_.insert(done * 0x9E3779B97F4A7C15ULL ^ digest).second) return false;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if ((done >> i & 1) != 0 || operations_[i].begun_at > first_end) continue;
      State next = state;
      if (spec_.step(next, operations_[i]) && search(done | std::uint64_t{1} << i, std::move(next))) return true;
    }
    return false;
  }

  Spec spec_;
  bool last_may_be_lost_;
  std::vector<operation> operations_;
  std::uint64_t recovered_ = 0;
  std::unordered_set<std::uint64_t> tried_;
};

}  // namespace nvm::explore
