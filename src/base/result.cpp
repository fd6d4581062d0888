// Failures of threads: codes in memory of the thread, sentences in places that threads take.
//
// The memory of the thread itself is scarce: a library that is loaded late gets the rest of a small static block. Hence
// the sentences lie outside of it. A thread takes a place with its first failure and gives it back when it ends. The
// first places need no allocation, so that a lack of memory can be reported.
#include "base/result.hpp"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <new>

namespace nvm {
namespace {

struct sentences {
  std::atomic<bool> taken{false};
  bool allocated = false;
  char last[failure_text_bytes]{};
  char reported[failure_text_bytes]{};
};
constinit sentences places[16];

constexpr const char* without_place = "no volatile memory for the sentence of this failure";

thread_local constinit sentences* place = nullptr;
thread_local constinit errc last = errc::ok;
thread_local constinit errc reported = errc::ok;
thread_local constinit errc cause_of_last = errc::ok;
thread_local constinit errc cause_of_reported = errc::ok;

void give_back(void* taken) noexcept {
  auto* const s = static_cast<sentences*>(taken);
  place = nullptr;
  if (s->allocated) {
    delete s;
    return;
  }
  // release: pairs with the acquire exchange in take_place(); the next thread's sentences come after this one's.
  s->taken.store(false, std::memory_order_release);
}

// Runs after the destructors of thread-local objects, and again for a place that a later destructor takes.
bool at_end_of_thread(sentences* s) noexcept {
  static pthread_key_t key;
  static const bool made = ::pthread_key_create(&key, [](void* p) { give_back(p); }) == 0;
  return made && ::pthread_setspecific(key, s) == 0;
}

// Null: no place and no memory for one.
[[gnu::cold, gnu::noinline]] sentences* take_place() noexcept {
  sentences* mine = nullptr;
  for (sentences& s : places) {
    // acquire: pairs with the release in give_back().
    if (s.taken.load(std::memory_order_relaxed) || s.taken.exchange(true, std::memory_order_acquire)) continue;
    mine = &s;
    break;
  }
  if (mine == nullptr) {
    mine = new (std::nothrow) sentences;
    if (mine == nullptr) return nullptr;
    mine->allocated = true;
  }
  for (char* kept : {mine->last, mine->reported}) std::snprintf(kept, failure_text_bytes, "%s", without_place);
  if (!at_end_of_thread(mine)) {
    give_back(mine);
    return nullptr;
  }
  return place = mine;
}

sentences* my_place() noexcept { return place != nullptr ? place : take_place(); }

const char* text(errc code, const char* kept) noexcept {
  if (code == errc::ok) return "no error";
  return kept != nullptr ? kept : without_place;
}

[[gnu::format(printf, 3, 0)]] void remember(errc cause, errc code, const char* format,
                                            std::va_list arguments) noexcept {
  const int saved = errno;  // the caller's reason; formatting may change it
  last = code;
  cause_of_last = cause;
  if (sentences* const mine = my_place(); mine != nullptr) {
    // Built aside: the arguments may contain the previous message.
    char built[failure_text_bytes];
    std::vsnprintf(built, sizeof built, format, arguments);
    std::snprintf(mine->last, sizeof mine->last, "%s", built);
  }
  errno = saved;
}

}  // namespace

errc fail(errc code, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  remember(code, code, format, arguments);
  va_end(arguments);
  return code;
}

errc fail_for(errc cause, errc code, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  remember(cause, code, format, arguments);
  va_end(arguments);
  return code;
}

const char* last_message() noexcept { return text(last, place != nullptr ? place->last : nullptr); }
errc last_code() noexcept { return last; }
errc last_cause() noexcept { return cause_of_last; }

void report_failure(errc code) noexcept {
  const int saved = errno;
  reported = code;
  cause_of_reported = cause_of_last;
  if (sentences* const mine = my_place(); mine != nullptr) {
    std::snprintf(mine->reported, sizeof mine->reported, "%s", text(last, mine->last));
  }
  errno = saved;
}

const char* reported_message() noexcept { return text(reported, place != nullptr ? place->reported : nullptr); }
errc reported_code() noexcept { return reported; }
errc reported_cause() noexcept { return cause_of_reported; }

}  // namespace nvm
