// memcpy, memmove and memset of compiled transactions.
//
// In a name, R is for the source and W for the destination: n: only this thread uses it, t: it is shared; taR and taW:
// shared, and read or written by the transaction before.  Overlap is legal in memmove only; one function serves both.
#include <cstring>

#include "compiler/itm/guard.hpp"
#include "compiler/itm/transaction.hpp"

namespace nvm::itm {
namespace {

enum class memory { own, shared };

[[gnu::always_inline]] inline void copy(void* to, const void* from, std::size_t n, memory source,
                                        memory destination) noexcept {
  if (n == 0) return;
  thread_state& t = this_thread;
  // What GCC takes for shared may be a frame of this transaction.
  const bool reads_shared = source == memory::shared && !is_own(t, from);
  const bool own_destination = destination == memory::shared && is_own(t, to);
  if (own_destination) keep_own(t, to, n);
  const bool writes_shared = destination == memory::shared && !own_destination;
  if (writes_shared && t.irrevocable) [[unlikely]] {
    const guard_lifted lifted;
    nvm_stm_copy(t.stm, to, from, n);
  } else if (reads_shared && writes_shared) {
    nvm_stm_copy(t.stm, to, from, n);
  } else if (reads_shared) {
    nvm_stm_read(t.stm, to, from, n);
  } else if (writes_shared) {
    nvm_stm_write(t.stm, to, from, n);
  } else {
    std::memmove(to, from, n);
  }
}

[[gnu::always_inline]] inline void fill(void* to, int byte, std::size_t n) noexcept {
  if (n == 0) return;
  thread_state& t = this_thread;
  if (is_own(t, to)) {
    keep_own(t, to, n);
    std::memset(to, byte, n);
  } else if (t.irrevocable) [[unlikely]] {
    const guard_lifted lifted;
    nvm_stm_fill(t.stm, to, byte, n);
  } else {
    nvm_stm_fill(t.stm, to, byte, n);
  }
}

}  // namespace
}  // namespace nvm::itm

namespace itm = nvm::itm;

#define ITM_COPY(name, source, destination)                                             \
  NVM_API void _ITM_memcpy##name(void* to, const void* from, std::size_t n) noexcept {  \
    itm::copy(to, from, n, itm::memory::source, itm::memory::destination);              \
  }                                                                                     \
  NVM_API void _ITM_memmove##name(void* to, const void* from, std::size_t n) noexcept { \
    itm::copy(to, from, n, itm::memory::source, itm::memory::destination);              \
  }
#define ITM_FILL(name) \
  NVM_API void _ITM_memset##name(void* to, int byte, std::size_t n) noexcept { itm::fill(to, byte, n); }

extern "C" {
ITM_COPY(RnWt, own, shared)
ITM_COPY(RnWtaR, own, shared)
ITM_COPY(RnWtaW, own, shared)
ITM_COPY(RtWn, shared, own)
ITM_COPY(RtWt, shared, shared)
ITM_COPY(RtWtaR, shared, shared)
ITM_COPY(RtWtaW, shared, shared)
ITM_COPY(RtaRWn, shared, own)
ITM_COPY(RtaRWt, shared, shared)
ITM_COPY(RtaRWtaR, shared, shared)
ITM_COPY(RtaRWtaW, shared, shared)
ITM_COPY(RtaWWn, shared, own)
ITM_COPY(RtaWWt, shared, shared)
ITM_COPY(RtaWWtaR, shared, shared)
ITM_COPY(RtaWWtaW, shared, shared)
ITM_FILL(W)
ITM_FILL(WaR)
ITM_FILL(WaW)
}
