#include "compiler/itm/pool.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "compiler/itm/transaction.hpp"
#include "nvm/itm.h"

namespace nvm::itm {
namespace {

constinit std::mutex choosing;
constinit std::atomic<bool> chosen{false};
constinit std::atomic<NVM_POOL*> in_use{nullptr};

// HOLDFAST_ITM_SIZE: bytes, with K, M or G after the number; 0 when it is not set.
std::uint64_t size_of_environment() noexcept {
  const char* text = std::getenv("HOLDFAST_ITM_SIZE");
  if (text == nullptr || *text == 0) return 0;
  char* end = nullptr;
  errno = 0;
  const std::uint64_t number = std::strtoull(text, &end, 10);
  unsigned shift = 0;
  if (*end == 'K') shift = 10;
  if (*end == 'M') shift = 20;
  if (*end == 'G') shift = 30;
  if (shift != 0) ++end;
  if (errno != 0 || *end != 0 || *text < '0' || *text > '9' || number == 0 || number > UINT64_MAX >> shift)
    fatal("HOLDFAST_ITM_SIZE=%s is no size (a number of bytes; K, M, G may follow)", text);
  return number << shift;
}

NVM_POOL* pool_of_environment() noexcept {
  const char* path = std::getenv("HOLDFAST_ITM_POOL");
  if (path == nullptr || *path == 0) return nullptr;
  nvm_pool_options options{};
  options.size = size_of_environment();
  NVM_POOL* pool = access(path, F_OK) == 0 ? nvm_pool_open(path) : nvm_pool_create_with(path, &options);
  if (pool == nullptr) fatal("HOLDFAST_ITM_POOL=%s: %s", path, nvm_errormsg());
  return pool;
}

}  // namespace

NVM_POOL* pool_in_use() noexcept {
  // acquire: pairs with the release stores below and makes the pool visible.
  if (!chosen.load(std::memory_order_acquire)) {
    const std::lock_guard guard{choosing};
    if (!chosen.load(std::memory_order_relaxed)) {  // relaxed: changes are under the lock
      in_use.store(pool_of_environment(), std::memory_order_relaxed);
      chosen.store(true, std::memory_order_release);
    }
  }
  // acquire: pairs with the release in nvm_itm_use_pool().
  return in_use.load(std::memory_order_acquire);
}

}  // namespace nvm::itm

extern "C" {

void nvm_itm_use_pool(NVM_POOL* pool) {
  const std::lock_guard guard{nvm::itm::choosing};
  // release: pairs with the acquires in pool_in_use().
  nvm::itm::in_use.store(pool, std::memory_order_release);
  nvm::itm::chosen.store(true, std::memory_order_release);
}

NVM_POOL* nvm_itm_pool(void) { return nvm::itm::pool_in_use(); }

void* nvm_itm_bind_root(std::size_t size) {
  NVM_POOL* pool = nvm::itm::pool_in_use();
  if (pool == nullptr) return std::calloc(1, size == 0 ? 1 : size);
  const std::lock_guard guard{nvm::itm::choosing};
  void* root = nullptr;
  // A root that cannot be read does not count as none: otherwise its objects would be lost.
  if (nvm_pool_read_root(pool, &root) != 0) {
    std::fprintf(stderr, "libnvm-itm: the pool's root cannot be read: %s\n", nvm_errormsg());
    return nullptr;
  }
  if (root != nullptr) {
    const std::size_t has = nvm_size_of(pool, root);
    if (has >= size) return root;
    std::fprintf(stderr, "libnvm-itm: the pool's root has %zu bytes, the program's %zu\n", has, size);
    return nullptr;
  }
  if (size == 0) size = 1;
  const auto make = [](nvm_stm* tx, void* wanted) {
    const std::size_t bytes = *static_cast<std::size_t*>(wanted);
    void* made = nvm_stm_alloc(tx, 0, bytes);
    if (made == nullptr) return nvm_errno();
    // No other thread sees it before the commit.
    std::memset(made, 0, bytes);
    return nvm_stm_set_root(tx, made) == 0 ? 0 : nvm_errno();
  };
  return nvm_stm_run(pool, make, &size) == 0 ? nvm_pool_get_root(pool) : nullptr;
}

}  // extern "C"
