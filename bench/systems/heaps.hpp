// The heaps that this build knows, the reference first. The one place that knows which peers were found.
#pragma once

#if NVM_BENCH_PMEMOBJ
#include "systems/pmemobj_heap.hpp"
#endif
#if NVM_BENCH_HOLDFAST
#include "systems/holdfast_heap.hpp"
#endif

namespace nvm::bench {

// Calls f.template operator()<H>(role) for each.
template <class F>
void for_each_heap(F&& f) {
#if NVM_BENCH_PMEMOBJ
  f.template operator()<pmemobj_heap>(role::peer);
#endif
#if NVM_BENCH_HOLDFAST
  f.template operator()<holdfast_heap>(role::subject);
#endif
}

}  // namespace nvm::bench
