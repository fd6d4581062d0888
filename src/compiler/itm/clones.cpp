// Table of functions and their transactional clones: code of GCC asks it before a call through a pointer.
//
// Each object of the program registers its table when it is loaded, from its start-up code, which may run before any
// constructor of ours; readers are transactions of any thread.  A table is copied, sorted, and put in front of a list.
// Copies are never freed: a reader may be in one while another thread unloads its object.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>

#include "compiler/itm/transaction.hpp"

namespace nvm::itm {
namespace {

struct clone_pair {
  void* function;
  void* clone;
};

struct clone_table {
  const void* registered;  // the object's own table, which identifies it; NULL once the object is unloaded
  std::size_t count;
  clone_table* next;
  clone_pair pairs[];
};

constinit std::mutex changing;
constinit std::atomic<clone_table*> tables{nullptr};

bool in_order(const clone_pair& a, const clone_pair& b) noexcept { return std::less<>{}(a.function, b.function); }

void* clone_of(void* function) noexcept {
  const clone_pair wanted{function, nullptr};
  // acquire: pairs with the release in add() and makes the copied pairs visible.
  for (const clone_table* t = tables.load(std::memory_order_acquire); t != nullptr; t = t->next) {
    // relaxed: a thread that calls a function of an object during its unloading fails either way.
    if (std::atomic_ref{const_cast<clone_table*>(t)->registered}.load(std::memory_order_relaxed) == nullptr) continue;
    const clone_pair* end = t->pairs + t->count;
    const clone_pair* found = std::lower_bound(t->pairs, end, wanted, in_order);
    if (found != end && found->function == function) return found->clone;
  }
  return nullptr;
}

void add(const void* registered, std::size_t count) noexcept {
  auto* t = static_cast<clone_table*>(std::malloc(sizeof(clone_table) + count * sizeof(clone_pair)));
  if (t == nullptr) fatal("no memory for a table of %zu clones", count);
  t->registered = registered;
  t->count = count;
  std::copy_n(static_cast<const clone_pair*>(registered), count, t->pairs);
  std::sort(t->pairs, t->pairs + count, in_order);
  const std::lock_guard guard{changing};
  t->next = tables.load(std::memory_order_relaxed);  // relaxed: changes are under the lock
  // release: pairs with the acquire in clone_of().
  tables.store(t, std::memory_order_release);
}

void remove(const void* registered) noexcept {
  const std::lock_guard guard{changing};
  for (clone_table* t = tables.load(std::memory_order_relaxed); t != nullptr; t = t->next) {
    // relaxed: as in clone_of().
    if (t->registered == registered) std::atomic_ref{t->registered}.store(nullptr, std::memory_order_relaxed);
  }
}

}  // namespace
}  // namespace nvm::itm

namespace itm = nvm::itm;

extern "C" {

NVM_API void _ITM_registerTMCloneTable(void* table, std::size_t count) { itm::add(table, count); }

NVM_API void _ITM_deregisterTMCloneTable(void* table) { itm::remove(table); }

// Called in a __transaction_relaxed: a function without a clone runs without barriers, irrevocably.
NVM_API void* _ITM_getTMCloneOrIrrevocable(void* function) {
  if (void* clone = itm::clone_of(function)) return clone;
  itm::become_irrevocable(itm::open_transaction("_ITM_getTMCloneOrIrrevocable"));
  return function;
}

// Called in a __transaction_atomic, which may not become irrevocable.
NVM_API void* _ITM_getTMCloneSafe(void* function) {
  if (void* clone = itm::clone_of(function)) return clone;
  itm::fatal("the function at %p has no transactional clone (compile it with -fgnu-tm, as transaction_safe)", function);
}

}  // extern "C"
