// What the structures of the suite ask of a transactional memory.
//
// A structure is written once, as a program for one thread with its loads and stores of durable memory made by calls,
// and is a template over the transaction type: what an engine does at a load or store is compiled into it, as it would
// be into a program written for that engine alone.
//
// Engines are of two sorts.  Some isolate: transactions of several threads run as if one after the other, and a body
// may run more than once.  The others leave that to the program; `guarded` holds its locks to the end of the commit.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "harness/benchmark.hpp"
#include "harness/emulation.hpp"
#include "harness/machine.hpp"
#include "systems/heap.hpp"

namespace nvm::bench {

struct engine_settings {
  heap_settings heap;
  std::string emulated = "none";  // a preset of nvm_emulation_preset()
  bool counting = false;          // whether the library counts what it does
  std::uint64_t log_bytes = 0;    // of a lane or ring; 0: the library's choice
};

// Whether files of the directory are memory as processors see it; elsewhere a pool needs the medium ssd.
inline bool is_memory(const std::string& directory) { return file_system_of(directory) == "tmpfs"; }

template <class T>
concept transactional =
    requires(T& tx, std::uint64_t* word, void* p, const void* from, std::size_t n, const span_of_bytes* ranges) {
      { tx.load(word) } -> std::same_as<std::uint64_t>;
      { tx.store(word, n) };
      { tx.read(p, from, n) };   // `p` is private memory
      { tx.write(p, from, n) };  // `from` is
      // At most 128 ranges, some perhaps empty.  Says that all of them will be written by what ends with _announced:
      // engines that log ahead of the write do so for all of them together.  Elsewhere it means nothing, and the two
      // are store and write.
      { tx.announce(ranges, n) };
      { tx.store_announced(word, n) };
      { tx.write_announced(p, from, n) };
      // Contents unspecified; private until the commit, so plain stores will do.
      { tx.alloc(n) } -> std::same_as<void*>;
      { tx.free(p) };
    };

template <class E>
concept engine = requires(E& e, std::size_t n, void (*body)(typename E::transaction&)) {
  requires transactional<typename E::transaction>;
  { E::isolates } -> std::convertible_to<bool>;
  { E::counts_itself } -> std::convertible_to<bool>;  // what all its threads do, if settings.counting says so
  { e.transact(0U, body) };                           // thread; durable on return
  { e.examine(0U, body) };                            // the same for a body that changes nothing
  // Zeroed memory that lives as long as the engine; not for the timed part.
  { e.fixed(n) } -> std::same_as<void*>;
  { e.aborts() } -> std::same_as<std::uint64_t>;
  { e.bytes_logged() } -> std::same_as<std::optional<std::uint64_t>>;
  { e.counts() } -> std::same_as<std::optional<library_counts>>;
};

// A system whose contestant make(settings) builds, and its counting copy where the engine can count.
template <class Make>
system_under_test system_of(const std::string& name, role r, bool counts_itself, const engine_settings& settings,
                            Make make) {
  system_under_test system{name, r, [=] { return make(settings); }};
  if (counts_itself) {
    engine_settings counting = settings;
    counting.counting = true;
    system.make_counting = [=] { return make(counting); };
  }
  return system;
}

// An engine with the locks of a program, where it needs any.
template <engine E>
class guarded {
 public:
  template <class... Arguments>
  explicit guarded(unsigned threads, Arguments&&... arguments)
      : engine_(std::forward<Arguments>(arguments)...),
        locks_(threads > 1 && !E::isolates ? std::make_unique<padded_mutex[]>(locks) : nullptr) {}

  E& engine() noexcept { return engine_; }

  // `what` names the part of the structure that the body may see or change, for the program's locks.
  template <class Body>
  void transact(unsigned thread, std::size_t what, Body&& body) {
    const auto held = hold(what);
    engine_.transact(thread, body);
  }
  template <class Body>
  void examine(unsigned thread, std::size_t what, Body&& body) {
    const auto held = hold(what);
    engine_.examine(thread, body);
  }

 private:
  static constexpr std::size_t locks = 1024;
  struct alignas(64) padded_mutex {
    std::mutex mutex;
  };

  std::unique_lock<std::mutex> hold(std::size_t what) {
    return locks_ == nullptr ? std::unique_lock<std::mutex>() : std::unique_lock(locks_[what % locks].mutex);
  }

  E engine_;
  std::unique_ptr<padded_mutex[]> locks_;
};

}  // namespace nvm::bench
