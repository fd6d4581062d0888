// Policy and counters of barrier transactions in the C interface.
#include <atomic>

#include "api/pool_object.hpp"
#include "nvm/stm.h"
#include "stm/stm.hpp"

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

int nvm_stm_set_policy(NVM_POOL* pool, enum nvm_stm_policy policy) {
  if (pool == nullptr) return api::report(fail(errc::invalid, "the pool is NULL"));
  if (nvm::status s = pool->file->usable(); !s) return api::report(s.error());
  if (policy != NVM_STM_POLICY_ENGINE && policy != NVM_STM_POLICY_WRITE_BACK) {
    return api::report(fail(errc::invalid, "policy %d is none of enum nvm_stm_policy", policy));
  }
  if (nvm::isolation::participant::any_inside(&pool->barriers)) {
    return api::report(fail(errc::tx_open, "%s: a barrier transaction is open", pool->file->path()));
  }
  pool->barriers.always_write_back = policy == NVM_STM_POLICY_WRITE_BACK;
  return 0;
}

void nvm_stm_get_statistics(nvm_stm_statistics* out) {
  *out = {};
  nvm::isolation::participant::each([out](nvm::isolation::participant& p) {
    // relaxed: recent numbers, no order.
    const auto add = [](uint64_t& sum, const std::atomic<std::uint64_t>& c) {
      sum += c.load(std::memory_order_relaxed);
    };
    add(out->commits, p.count.commits);
    add(out->read_only, p.count.read_only);
    add(out->conflicts, p.count.conflicts);
    add(out->retries, p.count.retries);
    add(out->rollbacks, p.count.rollbacks);
    add(out->extensions, p.count.extensions);
    add(out->serial, p.count.serial);
  });
}

}  // extern "C"
