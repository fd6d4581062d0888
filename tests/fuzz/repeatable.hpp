// Images that are the same in every process, so that an input found by one can be tried by another; except times in
// superblocks, and on ssd the words that depend on them.
#pragma once

namespace nvm::fuzz {

// While it lives, what the system gives as random bytes (identities of pools, seeds of hash tables and of seals) comes
// from a generator that begins the same every time.
class repeatable_randomness {
 public:
  repeatable_randomness() noexcept;
  ~repeatable_randomness();
  repeatable_randomness(const repeatable_randomness&) = delete;
  repeatable_randomness& operator=(const repeatable_randomness&) = delete;
};

}  // namespace nvm::fuzz
