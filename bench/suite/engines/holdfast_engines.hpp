// Holdfast as a memory for the suite's structures: announced stores (undo), and barrier transactions over an engine.
#pragma once

#include <array>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "suite/engine.hpp"
#include "systems/holdfast_heap.hpp"

namespace nvm::bench {

inline nvm_pool_options on_ssd() {
  nvm_pool_options options{};
  options.medium = NVM_MEDIUM_SSD;
  return options;
}

// A pool with the settings of a run.
class holdfast_memory {
 public:
  holdfast_memory(const engine_settings& settings, nvm_pool_options options)
      : heap_(settings.heap, complete(settings, options)), counting_(settings.counting) {}

  holdfast_heap& heap() noexcept { return heap_; }
  void* fixed(std::size_t n, std::uint32_t of = holdfast_heap::type) { return heap_.fixed(n, of); }
  std::optional<std::uint64_t> bytes_logged() const { return heap_.bytes_logged(); }
  std::optional<library_counts> counts() const {
    if (!counting_) return std::nullopt;
    nvm_statistics s{};
    holdfast_heap::check(nvm_pool_get_statistics(heap_.pool(), &s), "nvm_pool_get_statistics");
    return library_counts{s.fences, s.flushed_lines, s.flushed_bytes, s.logged_bytes};
  }

 private:
  static nvm_pool_options complete(const engine_settings& settings, nvm_pool_options options) {
    options.log_bytes = settings.log_bytes;
    // What fixed() makes is one record of the log.
    if (options.medium == NVM_MEDIUM_SSD && options.log_bytes == 0)
      options.log_bytes = (64ULL << 20) + settings.heap.bytes / 2;
    // A log that nobody cleans grows.
    if ((options.log_flags & NVM_LOG_NO_CLEANERS) != 0) options.capacity = 8 * settings.heap.bytes + (4ULL << 30);
    options.meter = settings.counting ? 1 : 0;
    if (settings.emulated != "none")
      holdfast_heap::check(nvm_emulation_preset(settings.emulated.c_str(), &options.emulation), "nvm_emulation_preset");
    return options;
  }

  holdfast_heap heap_;
  bool counting_;
};

// Announced stores: every store is preceded by nvm_tx_log(), what is known together by one nvm_tx_log_many().
// Types says what objects of so many bytes are: alloc_type(n), fixed_type(n).
template <class Types>
class basic_announced_engine {
 public:
  static constexpr bool isolates = false;
  static constexpr bool counts_itself = true;

  class transaction {
   public:
    template <class T>
    T load(const T* p) const noexcept {
      return *p;
    }
    template <class T>
    void store(T* p, std::type_identity_t<T> v) {
      holdfast_heap::check(nvm_tx_log(p, sizeof v), "nvm_tx_log");
      *p = v;
    }
    void read(void* to, const void* from, std::size_t n) const noexcept { std::memcpy(to, from, n); }
    void write(void* to, const void* from, std::size_t n) {
      if (n == 0) return;
      holdfast_heap::check(nvm_tx_log(to, n), "nvm_tx_log");
      std::memcpy(to, from, n);
    }
    void announce(const span_of_bytes* ranges, std::size_t n) {
      std::array<nvm_range, 128> known;
      std::size_t count = 0;
      for (std::size_t i = 0; i < n; ++i)
        if (ranges[i].n != 0) known.at(count++) = {ranges[i].p, ranges[i].n};
      if (count != 0) holdfast_heap::check(nvm_tx_log_many(known.data(), count), "nvm_tx_log_many");
    }
    template <class T>
    void store_announced(T* p, std::type_identity_t<T> v) noexcept {
      *p = v;
    }
    void write_announced(void* to, const void* from, std::size_t n) noexcept { std::memcpy(to, from, n); }
    void* alloc(std::size_t n) { return heap_.alloc(n, Types::alloc_type(n)); }
    void free(void* p) { heap_.free(p); }

   private:
    friend class basic_announced_engine;
    explicit transaction(holdfast_heap& heap) : heap_(heap) {}
    holdfast_heap& heap_;
  };

  basic_announced_engine(const engine_settings& settings, const nvm_pool_options& options)
      : memory_(settings, options) {}

  template <class Body>
  void transact(unsigned, Body&& body) {
    memory_.heap().begin();
    transaction tx(memory_.heap());
    body(tx);
    memory_.heap().commit();
  }
  template <class Body>
  void examine(unsigned, Body&& body) {
    transaction tx(memory_.heap());
    body(tx);
  }
  void* fixed(std::size_t n) { return memory_.fixed(n, Types::fixed_type(n)); }
  std::uint64_t aborts() const noexcept { return 0; }
  std::optional<std::uint64_t> bytes_logged() const { return memory_.bytes_logged(); }
  std::optional<library_counts> counts() const { return memory_.counts(); }

 private:
  holdfast_memory memory_;
};

struct bytes_only {
  static constexpr std::uint32_t alloc_type(std::size_t) noexcept { return holdfast_heap::type; }
  static constexpr std::uint32_t fixed_type(std::size_t) noexcept { return holdfast_heap::type; }
};
using announced_engine = basic_announced_engine<bytes_only>;
static_assert(engine<announced_engine>);

}  // namespace nvm::bench
