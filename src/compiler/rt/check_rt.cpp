// The run-time of checked builds (-fnvm-check): its reports name the place in the sources.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "nvm/compiled.h"
#include "nvm/store.h"
#include "reports.hpp"
#include "shared_bytes.hpp"

namespace {

using namespace nvm::checked;

struct watched {
  watched* next;  // of those of one variable
  const unsigned char* at;
  std::size_t bytes;
  std::uint64_t ended;
  // The bytes follow.
};
constexpr std::size_t watched_max = 65536;

// The object around p as it is now.
watched* keep(const void* p, watched* next) {
  if (!nvm_is_durable(p)) return next;
  const void* start = nullptr;
  std::size_t bytes = __nvm_object_around(p, &start);
  if (bytes == 0) return next;
  const auto* at = static_cast<const unsigned char*>(start);
  if (bytes > watched_max) {
    const auto skipped = static_cast<std::size_t>(static_cast<const unsigned char*>(p) - at);
    at += skipped;
    bytes = bytes - skipped < watched_max ? bytes - skipped : watched_max;
  }
  auto* w = static_cast<watched*>(std::malloc(sizeof(watched) + bytes));
  if (w == nullptr) return next;
  *w = {next, at, bytes, __nvm_tx_ended()};
  std::memcpy(w + 1, at, bytes);
  return w;
}

void compare(const watched& w, const char* function, const nvm_site* site) {
  // If a transaction has ended in the call, its logged ranges are unknown.
  if (w.ended != __nvm_tx_ended() || nvm_pool_of(w.at) == nullptr) return;
  const auto* old = reinterpret_cast<const unsigned char*>(&w + 1);
  for (std::size_t k = 0; k < w.bytes;) {
    if (w.at[k] == old[k]) {
      ++k;
      continue;
    }
    std::size_t end = k;
    while (end < w.bytes && w.at[end] != old[end]) ++end;
    const int cover = __nvm_tx_covers(w.at + k, end - k);
    if (cover == NVM_COVER_MISSING || cover == NVM_COVER_NO_TRANSACTION) {
      return found(kind::unlogged, site,
                   "%s changed %zu bytes of a durable object, at %p, %s; describe it in an unsafe file", function,
                   end - k, static_cast<const void*>(w.at + k),
                   cover == NVM_COVER_MISSING ? "which nobody logged" : "outside a transaction");
    }
    k = end;
  }
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void __nvm_log_at(const void* p, size_t n, const nvm_site* site) {
  if (n == 0) return;
  switch (__nvm_tx_covers(p, n)) {
    case NVM_COVER_NO_POOL:  // the program's own memory, where pools could lie
      return;
    case NVM_COVER_NO_TRANSACTION:
      return found(kind::outside, site, "store of %zu bytes to durable memory at %p outside a transaction", n, p);
    default:
      note_announced(p, n, site);
      return __nvm_log(p, n);
  }
}

__attribute__((visibility("default"))) void __nvm_log_masked_at(const void* p, size_t n, uint64_t mask,
                                                                const nvm_site* site) {
  const auto* lane = static_cast<const char*>(p);
  for (; mask != 0; mask >>= 1, lane += n) {
    if ((mask & 1) != 0) __nvm_log_at(lane, n, site);
  }
}

__attribute__((visibility("default"))) void __nvm_log_scattered_at(const void* const* lanes, size_t n, uint64_t mask,
                                                                   const nvm_site* site) {
  for (; mask != 0; mask >>= 1, ++lanes) {
    if ((mask & 1) != 0) __nvm_log_at(*lanes, n, site);
  }
}

__attribute__((visibility("default"))) void __nvm_log_object_at(const void* p, const nvm_site* site) {
  const void* start = nullptr;
  const std::size_t bytes = __nvm_object_around(p, &start);
  if (bytes != 0) return __nvm_log_at(start, bytes, site);
  __nvm_log_object(p);
}

__attribute__((visibility("default"))) void __nvm_expect_logged(const void* p, size_t n, const nvm_site* site) {
  switch (__nvm_tx_covers(p, n)) {
    case NVM_COVER_MISSING:
      return found(kind::unlogged, site, "store of %zu bytes to durable memory at %p that the compiler took for logged",
                   n, p);
    case NVM_COVER_NO_TRANSACTION:
      return found(kind::outside, site, "store of %zu bytes to durable memory at %p outside a transaction", n, p);
    default:
      return;
  }
}

__attribute__((visibility("default"))) void __nvm_expect_volatile(const void* p, const nvm_site* site) {
  if (nvm_pool_of(p) == nullptr) return;
  found(kind::unlogged, site, "store to durable memory at %p that the compiler took for volatile", p);
}

__attribute__((visibility("default"))) void __nvm_check_pointer(const void* where, const void* value,
                                                                const nvm_site* site) {
  if (value == nullptr || !nvm_is_durable(where)) return;
  NVM_POOL* pool = nvm_pool_of(where);
  if (pool == nullptr) return;  // the store itself is reported
  if (!nvm_is_durable(value)) {
    if (__nvm_leads_into_program(value) != 0) return;
    return found(kind::pointer, site, "a durable object at %p receives a pointer to volatile memory, %p", where, value);
  }
  if (nvm_pool_of(value) != pool) {
    return found(kind::pointer, site, "a durable object at %p receives a pointer to another pool, or to none, %p",
                 where, value);
  }
  // While the other store is not attached, the pointer leads nowhere.
  const nvm_store* const into = nvm_store_of(value);
  if (into != nullptr && nvm_store_of(where) != into) {
    return found(kind::pointer, site,
                 "a durable object at %p receives a pointer into store \"%s\", which it is not in, %p: an "
                 "nvm_store_ref can do that",
                 where, nvm_store_name(into), value);
  }
}

__attribute__((visibility("default"))) void* __nvm_watch(const void* p, size_t n) {
  if (n == 0) return keep(p, nullptr);
  watched* all = nullptr;
  const auto* words = static_cast<const unsigned char*>(p);
  for (std::size_t k = 0; k + sizeof(void*) <= n; k += sizeof(void*)) {
    const void* inside = nullptr;
    std::memcpy(&inside, words + k, sizeof inside);
    all = keep(inside, all);
  }
  return all;
}

__attribute__((visibility("default"))) void __nvm_watched(void* before, const char* function, const nvm_site* site) {
  for (auto* w = static_cast<watched*>(before); w != nullptr;) {
    compare(*w, function, site);
    watched* const next = w->next;
    std::free(w);
    w = next;
  }
}

__attribute__((visibility("default"))) void __nvm_refused(const void* p, const char* function, const nvm_site* site) {
  if (nvm_pool_of(p) == nullptr) return;
  found(kind::unknown, site, "%s gets durable memory, %p, and nobody can say what it writes there: not logged",
        function, p);
}

__attribute__((visibility("default"))) void __nvm_lock_found(const void* p, const char* function,
                                                             const nvm_site* site) {
  if (nvm_pool_of(p) == nullptr) return;
  found(kind::lock, site,
        "%s gets a lock in durable memory, %p, which is not logged: after a crash it may be held for ever", function,
        p);
}

}  // extern "C"
