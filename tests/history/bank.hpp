// The bank: threads move money between accounts by barrier transactions, in a process that may die at any moment; the
// total stays, every transfer that was acknowledged is there, and nothing of one that was not, but whole.
//
// A subject of kill_campaign.hpp: one pool of 8 MiB.
#pragma once

#include "kill_campaign.hpp"
#include "nvm/stm.h"

namespace nvm::bank {

using nvm::kills::threads_max;

struct ledger : nvm::kills::shared_state {
  std::atomic<std::uint64_t> acknowledged[threads_max];
};

struct engine {
  using state = ledger;
  const char* name;
  nvm_medium medium;
  bool write_back;
  nvm_engine made_of;
  bool by_mark;
  bool is_ssd = medium == NVM_MEDIUM_SSD;
  static constexpr bool kills_openings = false;

  void make(const std::string& path, ledger& s) const;
  void work(const std::string& path, ledger& s, unsigned threads, std::uint64_t seed) const;
  bool look(const std::string& path, ledger& s, unsigned threads) const;
  static std::uint64_t done(const ledger& s, unsigned threads) {
    std::uint64_t all = 0;
    for (unsigned me = 0; me < threads; ++me) all += s.acknowledged[me].load();
    return all;
  }

 private:
  NVM_POOL* open(const std::string& path, ledger& s) const;
};

}  // namespace nvm::bank
