// Wrong frees of a program where references are counted, in checked builds: of an object that was freed already, or
// that something refers to.
//
// Threads: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "object/references.hpp"

namespace nvm::api {

class checked_frees final : public object::free_watcher {
 public:
  struct wrong_free {
    std::uint64_t payload = 0;
    std::uint64_t strong = 0;  // references that are left
    bool twice = false;
    const void* caller = nullptr;
  };
  // The program frees the object by this call, if the transaction commits.
  void called(std::uint64_t payload, const void* caller) noexcept {
    try_to([&] { callers_[payload] = caller; });
  }
  // The wrong frees of transactions that have committed; each is told once.
  [[nodiscard]] std::vector<wrong_free> take() noexcept {
    const std::lock_guard guard{lock_};
    return std::exchange(wrong_, {});
  }

  void lets_go(unsigned lane, std::uint64_t payload, std::uint64_t strong) noexcept override {
    try_to([&] { pending_.push_back({lane, {payload, strong, false, callers_[payload]}}); });
  }
  void ended(unsigned lane, bool committed) noexcept override {
    try_to([&] {
      for (const pending& p : pending_) {
        if (p.lane != lane || !committed) continue;
        wrong_free f = p.free;
        f.twice = !let_go_.try_emplace(f.payload).second;
        if (f.twice || f.strong != 0) wrong_.push_back(f);
      }
      std::erase_if(pending_, [&](const pending& p) { return p.lane == lane; });
    });
  }
  void gone(std::uint64_t payload) noexcept override {
    const std::lock_guard guard{lock_};
    let_go_.erase(payload);
    callers_.erase(payload);
  }

 private:
  struct pending {
    unsigned lane;
    wrong_free free;
  };
  // Without memory a mistake stays unseen.
  template <class Body>
  void try_to(Body&& body) noexcept {
    const std::lock_guard guard{lock_};
    try {
      body();
    } catch (const std::bad_alloc&) {
    }
  }
  std::mutex lock_;
  std::unordered_map<std::uint64_t, const void*> callers_;  // by payload
  std::unordered_map<std::uint64_t, bool> let_go_;          // objects that are still there
  std::vector<pending> pending_;
  std::vector<wrong_free> wrong_;
};

}  // namespace nvm::api
