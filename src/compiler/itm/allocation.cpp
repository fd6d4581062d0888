// malloc, free, new and delete of compiled transactions: objects of the pool in use, volatile memory without one.
//
// An allocation that fails because the pool is full gives NULL, or std::bad_alloc, as the program expects.  Such a
// transaction can only be rolled back: it may cancel itself; if it commits, the process ends with a message.
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "compiler/itm/guard.hpp"
#include "compiler/itm/transaction.hpp"

extern "C" [[noreturn]] void __cxa_throw(void*, void*, void (*)(void*));

namespace nvm::itm {
namespace {

// Code of the C++ run-time, which has transactional clones of the standard exceptions' functions.  Their strings are
// freed by destructors outside of transactions, so that they are never durable.
struct code_range {
  std::uintptr_t begin = 0, end = 0;
};

code_range run_time_code() noexcept {
  code_range found;
  (void)dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* argument) {
        for (unsigned k = 0; k < object->dlpi_phnum; ++k) {
          const auto& part = object->dlpi_phdr[k];
          const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || reinterpret_cast<std::uintptr_t>(&__cxa_throw) - begin >= part.p_memsz)
            continue;
          *static_cast<code_range*>(argument) = {begin, begin + part.p_memsz};
          return 1;
        }
        return 0;
      },
      &found);
  // In a program that contains the run-time, the two cannot be told apart.
  const auto self = reinterpret_cast<std::uintptr_t>(&run_time_code);
  if (self - found.begin < found.end - found.begin) found = {};
  return found;
}

bool called_by_run_time(const void* return_address) noexcept {
  static const code_range code = run_time_code();
  return reinterpret_cast<std::uintptr_t>(return_address) - code.begin < code.end - code.begin;
}

// NULL if there is no room.
void* allocate(const char* call, std::size_t bytes) noexcept {
  thread_state& t = open_transaction(call);
  const guard_lifted lifted;
  if (bytes == 0) bytes = 1;
  return t.rest->pool == nullptr ? nvm_stm_malloc(t.stm, bytes) : nvm_stm_alloc(t.stm, 0, bytes);
}

void* allocate_zeroed(const char* call, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  void* p = allocate(call, bytes);
  if (p == nullptr) return nullptr;
  const guard_lifted lifted;
  // No other thread sees it before the commit.
  return std::memset(p, 0, bytes);
}

void release(const char* call, void* p) noexcept {
  if (p == nullptr) return;
  thread_state& t = open_transaction(call);
  const guard_lifted lifted;
  if (nvm_stm_free(t.stm, p) != 0) fatal("%p cannot be freed: %s", p, nvm_errormsg());
}

void* allocate_for_new(const char* call, std::size_t bytes, const void* return_address) noexcept {
  // Not the transaction's: the exception's destructor may free it inside the transaction.
  if (called_by_run_time(return_address)) return std::malloc(bytes == 0 ? 1 : bytes);
  return allocate(call, bytes);
}

}  // namespace
}  // namespace nvm::itm

namespace itm = nvm::itm;

extern "C" {

NVM_API void* _ITM_malloc(std::size_t bytes) { return itm::allocate("_ITM_malloc", bytes); }
NVM_API void* _ITM_calloc(std::size_t count, std::size_t size) {
  return itm::allocate_zeroed("_ITM_calloc", count, size);
}
NVM_API void _ITM_free(void* p) { itm::release("_ITM_free", p); }

// Transactional clones of operator new and delete.
#define ITM_NEW(name, text)                                                               \
  NVM_API void* name(std::size_t bytes) {                                                 \
    void* p = itm::allocate_for_new(text, bytes, __builtin_return_address(0));            \
    if (p == nullptr) throw std::bad_alloc();                                             \
    return p;                                                                             \
  }                                                                                       \
  NVM_API void* name##RKSt9nothrow_t(std::size_t bytes, const std::nothrow_t&) noexcept { \
    return itm::allocate_for_new(text, bytes, __builtin_return_address(0));               \
  }
#define ITM_DELETE(name, text)                                                                            \
  NVM_API void name##Pv(void* p) noexcept { itm::release(text, p); }                                      \
  NVM_API void name##PvRKSt9nothrow_t(void* p, const std::nothrow_t&) noexcept { itm::release(text, p); } \
  NVM_API void name##Pvm(void* p, std::size_t) noexcept { itm::release(text, p); }                        \
  NVM_API void name##PvmRKSt9nothrow_t(void* p, std::size_t, const std::nothrow_t&) noexcept { itm::release(text, p); }

ITM_NEW(_ZGTtnwm, "operator new")
ITM_NEW(_ZGTtnam, "operator new[]")
ITM_DELETE(_ZGTtdl, "operator delete")
ITM_DELETE(_ZGTtda, "operator delete[]")
}
