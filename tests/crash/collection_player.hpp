// Collections of a store in stories of store_player: objects without pointers, so that what keeps one is the root, or
// that a story holds it.  Lane 1 is the collection's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "object/beside_collection.hpp"
#include "pool/pool.hpp"
#include "store_player.hpp"

namespace nvm::tests {

// Runs something when a transaction has told, before it does what it told.
class told_hook final : public tx::change_watch {
 public:
  tx::change_watch* of = nullptr;
  const std::function<void()>* told = nullptr;
  bool begin(unsigned lane) noexcept override { return of->begin(lane); }
  void values(std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept override {
    of->values(offset, bytes, data);
  }
  void born(std::uint64_t header) noexcept override { of->born(header); }
  void freed(std::uint64_t header) noexcept override { of->freed(header); }
  void end() noexcept override {
    of->end();
    if (*told) (*told)();
  }
};

class collection_player final : public object::collection_host {
 public:
  using state = object::beside_collection::state;
  using with = object::beside_collection::with;
  static constexpr unsigned lane = 1;

  explicit collection_player(store_player& p) : player_{p} {}

  // Begins to collect an attached store.
  [[nodiscard]] bool begin(std::uint32_t number, with who = with::transactions) {
    runs_.reset();
    watch_ = std::make_unique<object::store_watch>(base(), geometry(), [this](tx::change_watch* w) {
      hook_.of = w;
      hook_.told = &told;
      player_.engine().watch_changes(w == nullptr ? nullptr : &hook_);
    });
    object::pointer_plans plans;
    plans.untyped_are_bytes(true);
    runs_ = std::make_unique<object::beside_collection>(*this, *watch_, std::move(plans));
    open_store* const s = (**player_.engine().stores()).attached(player_.model().stores.at(number).page);
    return s != nullptr && bool{runs_->begin(*s, who)};
  }
  // Goes on until it is done, or waits; a few objects to a transaction.
  state go_on(unsigned frees = 3) {
    state now = state::goes_on;
    while (now == state::goes_on) now = runs_->step({.objects_max = 1, .frees_max = frees});
    return now;
  }
  // Only as far as it looks, and not yet frees.
  state step() { return runs_->step({.objects_max = 1, .frees_max = 3}); }
  // Only until those that were open have ended, and all tell.
  state listen() { return runs_->step({.objects_max = 0, .frees_max = 3}); }
  void stop() { runs_->stop(); }
  void forget() {
    runs_.reset();
    watch_.reset();
  }

  std::function<void()> told;     // called when a transaction has
  std::set<std::uint64_t> held;   // payloads
  std::set<std::uint64_t> freed;  // by it

  // ---- object::collection_host ----
  std::byte* base() noexcept override { return player_.base(); }
  nvm::geometry geometry() noexcept override { return geometry_of(*pick_superblock(base(), 4 << 20)); }
  result<tx::open_transaction*> begin() noexcept override { return player_.begin_beside(lane); }
  void ended() noexcept override {
    for (const std::uint64_t payload : player_.ended_beside(lane, runs_->last_lsn())) freed.insert(payload);
  }
  unsigned lanes() noexcept override { return player_.engine().lanes(); }
  std::uint64_t turns_of(unsigned l) noexcept override { return player_.engine().turns_of(l); }
  isolation::visits barriers_inside() override { return {}; }
  void order_turns() noexcept override { player_.engine().order_turns(); }
  void each_held(const std::function<void(std::uint64_t)>& visit) override {
    for (const std::uint64_t payload : held) visit(payload);
  }
  std::uint64_t now_ns() noexcept override { return 0; }

 private:
  store_player& player_;
  told_hook hook_;
  std::unique_ptr<object::store_watch> watch_;
  std::unique_ptr<object::beside_collection> runs_;
};

}  // namespace nvm::tests
