// The choice of items that make room for new ones: a clock hand over the table.
#include <algorithm>

#include "nvm/nvm.h"
#include "platform/platform.hpp"
#include "server/durable_items.hpp"

namespace nvm::server {
namespace {

// A sweep frees a little more than requested, so that not every new item sweeps.
constexpr std::uint64_t sweep_margin = std::uint64_t{64} << 10;

}  // namespace

// The choice of a sweep among the items that a scan shows it.
struct durable_store::sweep_choice {
  durable_store& store;
  victims& list;
  const sweep_wish& wish;
  std::uint64_t flushed_before;
  std::uint64_t room;  // same_room: bytes of memory
  std::size_t seen = 0;
  patience choosy{};
  bool came_around = false;

  void look_at(const nvm_lf_entry& e) noexcept {
    item i;
    ++seen;
    if (!item_of(e, i)) return;
    const bool dead = is_gone(i, wish.now, flushed_before);
    if (!dead && !wish.living) return;
    const bool used = (e.mark & item_state::used_bit) != 0;
    if (!dead && choosy.spares(used, i.state().fetched, came_around)) {
      std::uint64_t expected = e.mark;
      if (used) {
        static_cast<void>(
            nvm_lf_change_mark(store.items_, &e, &expected, e.mark & ~item_state::used_bit, NVM_LF_MARK_LAZY));
      }
      return;
    }
    if (list.count == victims_max) return;
    victim& v = list.all[list.count++];
    v.set(i, !dead);
    v.same_room = store.memory_of(i.key.size(), i.value.size()) == room;
  }
};

// Removes the chosen item, if it is still the same.
struct durable_store::goodbye final : decision {
  const victim* who = nullptr;
  bool same = false;
  item last;
  wish decide(const item* old) noexcept override {
    same = old != nullptr && old->cas == who->cas;
    if (!same) return {};
    last = *old;
    return {what::remove, 0, 0, {}};
  }
  void fill(char*, const item*) noexcept override {}
  [[nodiscard]] bool sees_damaged() const noexcept override { return true; }
};

bool durable_store::remove(item_session& by, goodbye& bye, const sweep_listener& told) {
  if (by.update({bye.who->key.data(), bye.who->key_bytes}, bye).what != outcome::removed) return false;
  told(bye.last, bye.who->alive);
  return true;
}

// Items come and go in memory that is cut for their size. A victim of the new item's size leaves its place to it. A
// victim of another size goes with all items around it, and the pool can cut that memory anew. So sizes share the
// memory as they share the victims.
std::size_t durable_store::make_place(item_session& by, const victim& first, std::uint64_t room, std::uint32_t now,
                                      const sweep_listener& told) {
  struct around {
    durable_store& store;
    item_session& by;
    const sweep_listener& told;
    std::uint32_t now;
    std::uint64_t flushed_before;
    std::size_t gone = 0;
    victim who{};
  } all{*this, by, told, now, flushed_before()};
  goodbye bye;
  if (first.same_room) {
    bye.who = &first;
    return remove(by, bye, told) ? 1 : 0;
  }
  nvm_lf_entry entry{};
  entry.place = first.place;
  const auto visit = [](const nvm_lf_entry* e, void* argument) {
    const platform::in_call reading;
    auto& a = *static_cast<around*>(argument);
    item i;
    if (!item_of(*e, i)) return 0;
    a.who.set(i, !is_gone(i, a.now, a.flushed_before));
    goodbye each;
    each.who = &a.who;
    if (a.store.remove(a.by, each, a.told)) ++a.gone;
    return 0;
  };
  // Where the item lay no entry can be any more, or there is no volatile memory for the look: no place is made.
  if (nvm_lf_each_beside(items_, &entry, room, visit, &all) < 0 && nvm_errno() != NVM_E_BAD_POINTER) {
    static_cast<void>(lacked_room());
  }
  // relaxed: a statistic.
  if (all.gone != 0) places_made_.fetch_add(1, std::memory_order_relaxed);
  return all.gone;
}

std::size_t durable_store::sweep(item_session& by, const sweep_wish& wish, const sweep_listener& told) {
  const std::lock_guard lock{sweep_mutex_};
  if (failed()) return 0;
  std::size_t gone = 0;
  const auto enough = [&] {
    if (wish.same_room) return gone != 0;
    return wish.bytes != 0 && memory_.load(std::memory_order_relaxed) + wish.bytes + sweep_margin <=
                                  limit_.load(std::memory_order_relaxed);
  };
  if (enough()) return 0;  // another thread has made room meanwhile
  const std::uint64_t room = memory_of(0, wish.bytes - std::min(wish.bytes, item_bytes(0, 0)));
  sweep_choice choice{*this, *victims_, wish, flushed_before(), room};
  const auto visit = [](const nvm_lf_entry* e, void* argument) {
    const platform::in_call reading;
    static_cast<sweep_choice*>(argument)->look_at(*e);
    return 0;
  };
  goodbye bye;
  std::size_t ends = 0;
  while (choice.seen < wish.items_max && !enough() && ends < 3) {
    victims_->count = 0;
    const std::size_t seen = choice.seen;
    if (nvm_lf_scan(items_, &cursor_, victims_max, visit, &choice) < 0) {
      // A damaged link hides some items, and those that were seen may go.
      if (lacked_room() || failed() || choice.seen == seen) break;
    }
    for (std::size_t v = 0; v < victims_->count && !enough(); ++v) {
      bye.who = &victims_->all[v];
      if (wish.same_room) {
        gone += make_place(by, *bye.who, room, wish.now, told);
      } else if (remove(by, bye, told)) {
        ++gone;
      }
    }
    if (cursor_ != 0) continue;
    choice.came_around = true;
    ++ends;  // three times around are enough, even if items were used meanwhile
    if (wish.bytes == 0) break;
  }
  return gone;
}

}  // namespace nvm::server
