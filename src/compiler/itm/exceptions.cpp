#include "compiler/itm/exceptions.hpp"

#include <cxxabi.h>

#include <new>
#include <typeinfo>

#include "nvm/nvm.h"

extern "C" {
// Function of the C++ run-time: drops an exception that was thrown and not caught, and `caught` catches with theirs.
void __cxa_tm_cleanup(void* thrown, void* in_cleanup, unsigned int caught) noexcept;
}

namespace nvm::itm {
namespace {

own_exception* find(transaction& tx, const void* object) noexcept {
  for (own_exception& e : tx.exceptions) {
    if (e.object == object) return &e;
  }
  return nullptr;
}

void forget(thread_state& t, const void* object) noexcept {
  std::erase_if(t.rest->exceptions, [&](const own_exception& e) { return e.object == object; });
  t.exceptions = !t.rest->exceptions.empty();
}

}  // namespace

void drop_exceptions(thread_state& t, std::size_t exceptions_mark, std::size_t caught_mark) noexcept {
  transaction& tx = *t.rest;
  if (tx.caught.size() > caught_mark) {
    __cxa_tm_cleanup(nullptr, nullptr, static_cast<unsigned>(tx.caught.size() - caught_mark));
    for (; tx.caught.size() > caught_mark; tx.caught.pop_back()) forget(t, tx.caught.back());
  }
  for (; tx.exceptions.size() > exceptions_mark; tx.exceptions.pop_back()) {
    const own_exception& e = tx.exceptions.back();
    if (e.thrown) {
      __cxa_tm_cleanup(e.object, nullptr, 0);
    } else {
      abi::__cxa_free_exception(e.object);
    }
  }
  t.exceptions = !tx.exceptions.empty();
}

void keep_exceptions(thread_state& t) noexcept {
  t.rest->exceptions.clear();
  t.rest->caught.clear();
  t.exceptions = false;
}

}  // namespace nvm::itm

namespace itm = nvm::itm;

extern "C" {

NVM_API void* _ITM_cxa_allocate_exception(std::size_t bytes) try {
  itm::thread_state& t = itm::open_transaction("_ITM_cxa_allocate_exception");
  void* object = abi::__cxa_allocate_exception(bytes);
  t.rest->exceptions.push_back({object, bytes, false});
  t.exceptions = true;
  return object;
} catch (const std::bad_alloc&) {
  itm::fatal("no memory to throw an exception");
}

// The constructor of the object has thrown.
NVM_API void _ITM_cxa_free_exception(void* object) {
  itm::forget(itm::open_transaction("_ITM_cxa_free_exception"), object);
  abi::__cxa_free_exception(object);
}

[[noreturn]] NVM_API void _ITM_cxa_throw(void* object, std::type_info* type, void (*destroy)(void*)) {
  itm::thread_state& t = itm::open_transaction("_ITM_cxa_throw");
  if (itm::own_exception* e = itm::find(*t.rest, object)) e->thrown = true;
  abi::__cxa_throw(object, type, destroy);
}

NVM_API void* _ITM_cxa_begin_catch(void* unwinding) try {
  itm::thread_state& t = itm::open_transaction("_ITM_cxa_begin_catch");
  void* object = abi::__cxa_begin_catch(unwinding);
  // The exception that was thrown last; none if it comes from code without barriers. `object` may be a part of it.
  void* whole = nullptr;
  for (auto e = t.rest->exceptions.rbegin(); e != t.rest->exceptions.rend() && whole == nullptr; ++e) {
    if (!e->thrown) continue;
    e->thrown = false;
    whole = e->object;
  }
  t.rest->caught.push_back(whole);
  return object;
} catch (const std::bad_alloc&) {
  itm::fatal("no memory to catch an exception");
}

NVM_API void _ITM_cxa_end_catch() {
  itm::thread_state& t = itm::open_transaction("_ITM_cxa_end_catch");
  if (!t.rest->caught.empty()) {
    void* object = t.rest->caught.back();
    t.rest->caught.pop_back();
    itm::forget(t, object);
  }
  abi::__cxa_end_catch();
}

}  // extern "C"
