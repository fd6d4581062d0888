// Holdfast's barrier transactions, over whatever engine a pool has, as a memory for the suite's structures.
#pragma once

#include <nvm/stm.hpp>

#include <type_traits>

#include "suite/engines/holdfast_engines.hpp"

namespace nvm::bench {

// Of all pools of the process; only one is in use while a difference is taken.
inline std::uint64_t stm_conflicts() noexcept {
  nvm_stm_statistics s{};
  nvm_stm_get_statistics(&s);
  return s.conflicts;
}

class stm_engine {
 public:
  static constexpr bool isolates = true;
  static constexpr bool counts_itself = true;

  class transaction {
   public:
    template <class T>
    T load(const T* p) {
      return tx_.load(p);
    }
    template <class T>
    void store(T* p, std::type_identity_t<T> v) {
      tx_.store(p, v);
    }
    void read(void* to, const void* from, std::size_t n) {
      if (n != 0) tx_.read(to, from, n);
    }
    void write(void* to, const void* from, std::size_t n) {
      if (n != 0) tx_.write(to, from, n);
    }
    void announce(const span_of_bytes* spans, std::size_t count) {
      if (expects_) tx_.expect(holdfast_heap::as_ranges(spans), count);
    }
    template <class T>
    void store_announced(T* p, std::type_identity_t<T> v) {
      tx_.store(p, v);
    }
    void write_announced(void* to, const void* from, std::size_t n) { write(to, from, n); }
    void* alloc(std::size_t n) { return tx_.alloc(holdfast_heap::type, n); }
    void free(void* p) { tx_.free(p); }

   private:
    friend class stm_engine;
    transaction(nvm::tx& tx, bool expects) : tx_(tx), expects_(expects) {}
    nvm::tx& tx_;
    bool expects_;
  };

  stm_engine(const engine_settings& settings, const nvm_pool_options& options, nvm_stm_policy policy)
      : memory_(settings, options),
        expects_(options.engine != NVM_ENGINE_MNEMOSYNE && options.engine != NVM_ENGINE_MNEMOSYNE_UNDO) {
    holdfast_heap::check(nvm_stm_set_policy(memory_.heap().pool(), policy), "nvm_stm_set_policy");
  }

  template <class Body>
  void transact(unsigned, Body&& body) {
    const nvm::outcome done = nvm::atomic(memory_.heap().pool(), [&](nvm::tx& tx) {
      transaction t(tx, expects_);
      body(t);
    });
    if (!done) holdfast_heap::fail("nvm::atomic");
  }
  template <class Body>
  void examine(unsigned thread, Body&& body) {
    transact(thread, body);
  }
  void* fixed(std::size_t n) { return memory_.fixed(n); }
  std::uint64_t aborts() const noexcept { return stm_conflicts(); }
  std::optional<std::uint64_t> bytes_logged() const { return memory_.bytes_logged(); }
  std::optional<library_counts> counts() const { return memory_.counts(); }

 private:
  holdfast_memory memory_;
  bool expects_;  // the papers' baselines log store by store
};
static_assert(engine<stm_engine>);

}  // namespace nvm::bench
