// The malloc() family of the C interface: scopes, and calls that know memory by its address.
//
// An allocation is tried in a level of its own, so that one that fails leaves nothing but NULL.
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "api/fork.hpp"
#include "api/misuse.hpp"
#include "api/object_stores.hpp"
#include "api/pool_object.hpp"
#include "nvm/malloc.h"
#include "object/static_registry.hpp"

namespace nvm::api {
namespace {

void* no_memory_for_program(int code) noexcept {
  errno = code;
  return nullptr;
}

// Whether fresh memory must be zeroed: old words might be taken for addresses of programs (nvm_statics_in_untyped()).
bool zeroes() noexcept { return object::static_registry::of_program().untyped_may_lead(); }

// NULL: the ordinary heap.  A forked child has no pools to allocate in.
NVM_POOL* scope_of_thread() noexcept {
  NVM_POOL* const pool = nvm_scope_pool();
  return pool == nullptr || pool->file->forked() ? nullptr : pool;
}

// Calls make() in this thread's transaction of the pool.  If it gives NULL, that transaction is as it was.
template <class Make>
void* try_in(NVM_POOL* pool, Make&& make) noexcept {
  entry* const e = thread_transactions::mine().in(pool);
  if (e == nullptr) {
    status s = not_in_barriers("nvm_malloc()", "nvm_stm_alloc() and its kin");
    if (s) {
      s = fail(errc::no_transaction, "%s: the thread is in a scope of the pool, and has no transaction open there",
               pool->file->path());
    }
    report(s.error());
    return no_memory_for_program(ENOMEM);
  }
  if (status s = e->transaction->begin(); !s) {
    report(s.error());
    return no_memory_for_program(ENOMEM);
  }
  void* const made = make();
  if (made == nullptr) {
    const reported failure{static_cast<errc>(nvm_errno())};
    abort_one_level(*e);
    (void)failure.again();
    return no_memory_for_program(ENOMEM);
  }
  if (status s = e->transaction->commit_level(); !s) {
    report(s.error());
    return no_memory_for_program(ENOMEM);
  }
  return made;
}

// The open pool that holds the object; NULL: there is none, which was reported.
NVM_POOL* pool_around(const void* memory) noexcept {
  NVM_POOL* const pool = nvm_pool_of(memory);
  if (pool == nullptr) report(fail(errc::bad_pointer, "%p is inside no open pool", memory));
  return pool;
}

// Frees an object of a pool in which this thread has no transaction.
status free_later(NVM_POOL* pool, void* memory) noexcept try {
  if (status s = pool->file->usable(); !s) return s;
  if (pool->file->read_only()) return fail(errc::read_only, "%s is open read-only", pool->file->path());
  const auto payload = static_cast<std::uint64_t>(static_cast<std::byte*>(memory) - pool->base());
  // First: one that replaces it later, perhaps read-only, is another, and the object is not freed.
  const std::uint64_t attachment = attachment_at(pool, payload);
  if (status s = admits_change(*pool, payload, 1); !s) return s;
  if (nvm_size_of(pool, memory) == 0) return static_cast<errc>(nvm_errno());
  tell_dropped(pool, payload);
  pool->late.leave(*pool->engine, payload, attachment);
  if (pool->late.are_many()) {
    free_some_late(pool);
    pool->late.tried();
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to remember a free");
}

}  // namespace

}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

nvm_scope nvm_scope_begin(NVM_POOL* pool) {
  api::thread_transactions& mine = api::thread_transactions::mine();
  const nvm_scope s{mine.scope(), 1};
  if (nvm::status can = mine.takes_transactions(); !can) {
    api::report(can.error());
    return {s.before, 0};
  }
  mine.set_scope(pool);
  return s;
}

void nvm_scope_end(nvm_scope* scope) {
  if (scope == nullptr || scope->begun == 0) return;
  scope->begun = 0;
  api::thread_transactions& mine = api::thread_transactions::mine();
  if (mine.takes_transactions()) mine.set_scope(scope->before);
}

NVM_POOL* nvm_scope_pool(void) {
  const api::thread_transactions* mine = api::thread_transactions::known();
  return mine == nullptr ? nullptr : mine->scope();
}

void* nvm_malloc(size_t bytes) {
  NVM_POOL* const pool = api::scope_of_thread();
  if (pool == nullptr) return std::malloc(bytes);
  return api::try_in(pool, [&] {
    const size_t n = bytes == 0 ? 1 : bytes;
    return api::zeroes() ? nvm_calloc(pool, 0, 1, n) : nvm_alloc(pool, 0, n);
  });
}

void* nvm_malloc_zeroed(size_t count, size_t bytes) {
  NVM_POOL* const pool = api::scope_of_thread();
  if (pool == nullptr) return std::calloc(count, bytes);
  const bool nothing = count == 0 || bytes == 0;
  return api::try_in(pool, [&] { return nvm_calloc(pool, 0, nothing ? 1 : count, nothing ? 1 : bytes); });
}

void* nvm_malloc_aligned(size_t alignment, size_t bytes) {
  NVM_POOL* const pool = api::scope_of_thread();
  if (pool == nullptr) {
    void* p = nullptr;
    if (alignment < sizeof(void*) && alignment != 0 && (alignment & (alignment - 1)) == 0) alignment = sizeof(void*);
    const int code = posix_memalign(&p, alignment, bytes);
    return code == 0 ? p : api::no_memory_for_program(code);
  }
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    api::report(fail(errc::invalid, "an alignment of %zu bytes: expected a power of 2", alignment));
    return api::no_memory_for_program(EINVAL);
  }
  return api::try_in(pool, [&] { return nvm_alloc_aligned(pool, 0, bytes == 0 ? 1 : bytes, alignment); });
}

char* nvm_malloc_strdup(const char* text) {
  NVM_POOL* const pool = api::scope_of_thread();
  if (pool == nullptr) return ::strdup(text);
  return static_cast<char*>(api::try_in(pool, [&] { return nvm_strdup(pool, text); }));
}

char* nvm_malloc_strndup(const char* text, size_t bytes_max) {
  NVM_POOL* const pool = api::scope_of_thread();
  if (pool == nullptr) return ::strndup(text, bytes_max);
  const size_t bytes = strnlen(text, bytes_max);
  void* const p = api::try_in(pool, [&] { return nvm_alloc(pool, nvm::layout::type_of_text, bytes + 1); });
  if (p == nullptr) return nullptr;
  std::memcpy(p, text, bytes);
  static_cast<char*>(p)[bytes] = 0;
  return static_cast<char*>(p);
}

void* nvm_malloc_resize(void* memory, size_t bytes) {
  if (memory == nullptr) return nvm_malloc(bytes);
  if (bytes == 0) {
    nvm_malloc_free(memory);
    return nullptr;
  }
  if (!nvm_is_durable(memory)) return std::realloc(memory, bytes);
  if (api::in_picture(memory)) {
    void* const own = std::malloc(bytes);
    if (own != nullptr) std::memcpy(own, memory, std::min(bytes, api::bytes_in_picture(memory)));
    return own;
  }
  NVM_POOL* const pool = api::pool_around(memory);
  if (pool == nullptr) {
    api::misused(errc::bad_pointer, memory, __builtin_return_address(0));
    return api::no_memory_for_program(ENOMEM);
  }
  const size_t before = api::zeroes() ? nvm_size_of(pool, memory) : bytes;
  return api::try_in(pool, [&] {
    void* const now = nvm_realloc(pool, memory, nvm_type_of(pool, memory), bytes);
    if (now != nullptr && now != memory && bytes > before) {
      std::memset(static_cast<std::byte*>(now) + before, 0, bytes - before);
    }
    return now;
  });
}

void nvm_malloc_free(void* memory) {
  if (!nvm_is_durable(memory)) return std::free(memory);
  if (api::in_picture(memory)) return;
  const int before = errno;
  NVM_POOL* const pool = api::pool_around(memory);
  nvm::status freed = errc::bad_pointer;
  if (pool != nullptr) {
    const bool here = nvm_tx_depth(pool) != 0 || !api::not_in_barriers("nvm_malloc_free()", "nvm_stm_free()");
    freed = here ? nvm::status{nvm_free(pool, memory) == 0 ? errc::ok : static_cast<errc>(nvm_errno())}
                 : api::free_later(pool, memory);
  }
  if (freed.error() == errc::bad_pointer) api::misused(errc::bad_pointer, memory, __builtin_return_address(0));
  errno = before;  // as free() does
}

size_t nvm_malloc_usable_size(void* memory) {
  if (memory == nullptr) return 0;
  if (!nvm_is_durable(memory)) return malloc_usable_size(memory);
  if (api::in_picture(memory)) return api::bytes_in_picture(memory);
  NVM_POOL* const pool = api::pool_around(memory);
  return pool == nullptr ? 0 : nvm_size_of(pool, memory);
}

}  // extern "C"
