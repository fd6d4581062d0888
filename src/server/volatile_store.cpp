#include "server/volatile_store.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace nvm::server {

// Followed by the key and the value.
struct volatile_store::node {
  std::atomic<std::uint32_t> users{1};
  std::uint32_t flags = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  std::uint64_t cas = 0;
  std::atomic<std::uint64_t> state{0};
  std::size_t place = 0;  // in the ring
  bool used = false;      // since the hand came by; guarded by the shard's mutex

  [[nodiscard]] char* bytes() noexcept { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] std::string_view key() noexcept { return {bytes(), key_bytes}; }
  [[nodiscard]] char* value() noexcept { return bytes() + key_bytes; }
};

class volatile_store::session final : public item_session {
 public:
  explicit session(volatile_store& store) noexcept : store_{store} {}
  ~session() override { leave(); }

  bool enter() noexcept override { return true; }
  void leave() noexcept override {
    for (node* n : held_) release(n);
    held_.clear();
  }

  look find(std::string_view key, item& found) noexcept override {
    shard& s = store_.shard_of(key);
    const std::lock_guard lock{s.mutex};
    const auto it = s.items.find(key);
    if (it == s.items.end()) return look::absent;
    if (!make_room_in(held_)) return look::failed;
    it->second->used = true;
    found = hold(it->second);
    return look::there;
  }

  update_result update(std::string_view key, decision& by) noexcept override {
    shard& s = store_.shard_of(key);
    const std::lock_guard lock{s.mutex};
    const auto it = s.items.find(key);
    node* const old = it == s.items.end() ? nullptr : it->second;
    item before;
    if (!make_room_in(held_) || !make_room_in(s.ring)) return {outcome::no_memory, 0};
    if (old != nullptr) before = hold(old);
    const decision::wish w = by.decide(old != nullptr ? &before : nullptr);
    if (w.to_do == decision::what::keep) return {};
    if (w.to_do == decision::what::remove) {
      if (old == nullptr) return {};
      store_.unlink(s, old);
      return {outcome::removed, 0};
    }
    node* const fresh = make(key, w.value_bytes);
    if (fresh == nullptr) return {outcome::no_memory, 0};
    const std::size_t freed = old != nullptr ? memory_of(*old) : 0;
    // relaxed: two threads may each pass by an item; the limit is not that exact.
    if (store_.memory_.load(std::memory_order_relaxed) - freed + memory_of(*fresh) >
        store_.limit_.load(std::memory_order_relaxed)) {
      release(fresh);
      return {outcome::no_memory, 0};
    }
    fresh->flags = w.flags;
    fresh->cas = store_.next_cas_.fetch_add(1, std::memory_order_relaxed);
    fresh->state.store(w.state.word(), std::memory_order_relaxed);
    by.fill(fresh->value(), old != nullptr ? &before : nullptr);
    fresh->used = true;
    if (!take_entry(s, it, *fresh)) {
      release(fresh);
      return {outcome::no_memory, 0};
    }
    if (old != nullptr) store_.unlink_from_ring(s, old);
    fresh->place = s.ring.size();
    s.ring.push_back(fresh);
    store_.count(*fresh, 1);
    return {outcome::replaced, fresh->cas};
  }

  bool change_state(const item& of, item_state& expected, item_state wanted, bool) noexcept override {
    std::uint64_t word = expected.word();
    // relaxed: the word stands for itself.
    auto& state = reinterpret_cast<node*>(of.place)->state;
    if (state.compare_exchange_strong(word, wanted.word(), std::memory_order_relaxed)) return true;
    expected = item_state::of(word);
    return false;
  }

  [[nodiscard]] position reached() const noexcept override { return 0; }

 private:
  // For one element more. False: there is no memory.
  [[nodiscard]] static bool make_room_in(std::vector<node*>& list) noexcept try {
    if (list.size() == list.capacity()) list.reserve(2 * list.size() + 8);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  // The entry of the item that `fresh` replaces, or a new one; an entry refers to its item's own key.
  [[nodiscard]] static bool take_entry(shard& s, decltype(shard::items)::iterator it, node& fresh) noexcept try {
    if (it == s.items.end()) return s.items.emplace(fresh.key(), &fresh).second;
    auto entry = s.items.extract(it);
    entry.key() = fresh.key();
    entry.mapped() = &fresh;
    s.items.insert(std::move(entry));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  item hold(node* n) noexcept {
    // relaxed: the shard's mutex is held, and the node is linked.
    n->users.fetch_add(1, std::memory_order_relaxed);
    held_.push_back(n);
    return seen(*n);
  }

  volatile_store& store_;
  std::vector<node*> held_;
};

volatile_store::~volatile_store() {
  for (shard& s : shards_) {
    for (node* n : s.ring) release(n);
  }
}

volatile_store::node* volatile_store::make(std::string_view key, std::size_t value_bytes) {
  void* const memory = std::malloc(sizeof(node) + key.size() + value_bytes);
  if (memory == nullptr) return nullptr;
  node* const n = ::new (memory) node;
  n->key_bytes = static_cast<std::uint32_t>(key.size());
  n->value_bytes = static_cast<std::uint32_t>(value_bytes);
  std::memcpy(n->bytes(), key.data(), key.size());
  return n;
}

void volatile_store::release(node* n) noexcept {
  // acq_rel: the last user frees what all others have read.
  if (n->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  n->~node();
  std::free(n);
}

item volatile_store::seen(node& n) noexcept {
  return {n.key(),
          {n.value(), n.value_bytes},
          n.flags,
          n.cas,
          n.state.load(std::memory_order_relaxed),
          reinterpret_cast<std::uintptr_t>(&n)};
}

std::size_t volatile_store::memory_of(const node& n) noexcept { return item_bytes(n.key_bytes, n.value_bytes); }

volatile_store::shard& volatile_store::shard_of(std::string_view key) noexcept {
  // Other bits than those that the map in the shard uses.
  return shards_[std::hash<std::string_view>{}(key) >> 48 & (shards - 1)];
}

void volatile_store::count(const node& n, std::int64_t sign) noexcept {
  const auto times = static_cast<std::uint64_t>(sign);
  items_.fetch_add(times, std::memory_order_relaxed);
  item_bytes_.fetch_add(times * item_bytes(n.key_bytes, n.value_bytes), std::memory_order_relaxed);
  memory_.fetch_add(times * memory_of(n), std::memory_order_relaxed);
}

void volatile_store::unlink(shard& s, node* n) noexcept {
  s.items.erase(n->key());
  unlink_from_ring(s, n);
}
void volatile_store::unlink_from_ring(shard& s, node* n) noexcept {
  s.ring[n->place] = s.ring.back();
  s.ring[n->place]->place = n->place;
  s.ring.pop_back();
  count(*n, -1);
  release(n);
}

std::unique_ptr<item_session> volatile_store::open_session() { return std::make_unique<session>(*this); }

std::size_t volatile_store::sweep(item_session&, const sweep_wish& wish, const sweep_listener& told) {
  if (wish.same_room) return 0;  // malloc() has places of any size
  const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
  const auto enough = [&] { return wish.bytes != 0 && memory_.load(std::memory_order_relaxed) + wish.bytes <= limit; };
  std::size_t gone = 0;
  std::size_t seen_items = 0;
  // Three times around are enough, even if items were used meanwhile.
  patience choosy;
  for (std::size_t turn = 0; turn < 3 * shards && seen_items < wish.items_max && !enough(); ++turn) {
    shard& s = shards_[next_shard_.fetch_add(1, std::memory_order_relaxed) % shards];
    const std::lock_guard lock{s.mutex};
    for (std::size_t left = s.ring.size(); left != 0 && seen_items < wish.items_max && !enough(); --left) {
      ++seen_items;
      if (s.hand >= s.ring.size()) s.hand = 0;
      node* const n = s.ring[s.hand];
      const item found = seen(*n);
      const bool dead = is_gone(found, wish.now, flushed_before());
      if (!dead && (!wish.living || choosy.spares(n->used, found.state().fetched, turn >= shards))) {
        if (wish.living) n->used = false;
        ++s.hand;
        continue;
      }
      told(found, !dead);
      unlink(s, n);  // the last of the ring takes this place
      ++gone;
      if (s.ring.empty()) break;
    }
  }
  return gone;
}

void volatile_store::for_each(item_session&, const std::function<bool(const item&)>& visit) {
  for (shard& s : shards_) {
    const std::lock_guard lock{s.mutex};
    for (node* n : s.ring) {
      if (!visit(seen(*n))) return;
    }
  }
}

usage volatile_store::used() noexcept {
  usage u;
  u.items = items_.load(std::memory_order_relaxed);
  u.item_bytes = item_bytes_.load(std::memory_order_relaxed);
  u.memory_bytes = memory_.load(std::memory_order_relaxed);
  u.limit_bytes = limit_.load(std::memory_order_relaxed);
  return u;
}

void volatile_store::limit(std::uint64_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }

std::uint64_t volatile_store::flushed_before() const noexcept {
  // acquire: pairs with the release in flush_all(); a thread that has seen its acknowledgement sees this.
  return flushed_before_.load(std::memory_order_acquire);
}

bool volatile_store::flush_all(std::uint32_t at, std::uint32_t now) noexcept {
  const std::lock_guard lock{flush_mutex_};
  if (at > now) {
    flush_at_.store(at, std::memory_order_relaxed);
  } else {
    flush_now();
  }
  return true;
}

void volatile_store::flush_now() noexcept {
  // release: pairs with the acquire in flushed_before().
  flushed_before_.store(next_cas_.fetch_add(1, std::memory_order_relaxed), std::memory_order_release);
  // release: pairs with the acquire in tick().
  flush_at_.store(0, std::memory_order_release);
}

void volatile_store::tick(std::uint32_t now) noexcept {
  // acquire: pairs with the release in flush_now(); a thread that sees that nothing waits sees the flush.
  const auto is_due = [&] {
    const std::uint32_t at = flush_at_.load(std::memory_order_acquire);
    return at != 0 && at <= now;
  };
  if (!is_due()) [[likely]]
    return;
  const std::lock_guard lock{flush_mutex_};
  // Another thread may have carried it out, and a client may have put it off again: then it is not due.
  if (is_due()) flush_now();
}

}  // namespace nvm::server
