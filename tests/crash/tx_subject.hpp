// Transactions under the explorer: a small pool, operations on it, and the model that says what must be there.
//
// The state of a pool is the set of its objects {place, size, contents} and its root; its digest is the order-free sum
// of their hashes.  The model keeps the committed state in ordinary containers and never looks at the pool, so that a
// fault that engine and recovery share cannot hide.  A leaked object is a difference of digests, and a failure.
//
// Operations are made by a `player`, which is one run: it boots a heap on the machine's image and executes steps; each
// step that commits is an operation of the explorer, and the digest before and after it goes into the history.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "explore/explore.hpp"
#include "media/media.hpp"
#include "tx/tx.hpp"

namespace nvm::tests {

using explore::machine;
using recording_medium = recorder<ordered_media>;
using recorded_heap = tx::heap<recording_medium>;

struct crash_shape {
  unsigned page_shift = 10;
  std::uint64_t size_pages = 40;
  std::uint64_t capacity_pages = 40;
  std::uint32_t lanes = 2;
  std::uint64_t lane_bytes = 1024;
};

inline layout::superblock crash_superblock(const crash_shape& s) {
  superblock_request r;
  r.shape = {s.page_shift, s.size_pages, s.capacity_pages, s.lanes, s.lane_bytes, 0};
  r.medium = 1;
  for (unsigned i = 0; i < 16; ++i) r.uuid[i] = static_cast<std::uint8_t>(i * 7 + 1);
  auto sb = make_superblock(r);
  if (!sb) std::abort();
  return *sb;
}

inline std::uint64_t hash_object(std::uint64_t payload, std::uint64_t bytes, const void* content) {
  return checksum(content, bytes, mix_seed(payload, bytes));
}
inline std::uint64_t hash_root(std::uint64_t root) { return mix_seed(0x726F6F74, root + 1); }

// Digest of the pool's bytes; a sentence instead when its metadata is not whole.
struct pool_state {
  std::uint64_t digest = 0;
  std::string fault;
};
inline pool_state state_of(const std::byte* base, std::size_t available) {
  pool_state s;
  auto sb = pick_superblock(base, available);
  if (!sb) return {0, last_message()};
  const geometry g = geometry_of(*sb);
  space_summary summary;
  const std::function<void(const damage&)> report = [&](const damage& d) {
    if (s.fault.empty()) s.fault = "offset " + std::to_string(d.offset) + ": " + d.what;
  };
  (void)check_space(base, g, report, summary);
  if (s.fault.empty() && summary.log_pages != 0) s.fault = "a log run is left after recovery";
  auto root = read_root(base, g);
  if (!root) return {0, last_message()};
  s.digest = hash_root(*root);
  const status walked = for_each_object(base, g, [&](std::uint64_t offset, std::uint64_t, layout::object_layout) {
    layout::object_header h;
    std::memcpy(&h, base + offset, sizeof h);
    const std::uint64_t payload = offset + sizeof h;
    s.digest += hash_object(payload, layout::object_size(h), base + payload);
    return true;
  });
  if (!walked && s.fault.empty()) s.fault = last_message();
  return s;
}

// The committed state.
class model {
 public:
  std::uint64_t root = 0;
  std::map<std::uint64_t, std::vector<std::byte>> objects;  // by payload

  [[nodiscard]] std::uint64_t digest() const {
    std::uint64_t d = hash_root(root);
    for (const auto& [at, content] : objects) d += hash_object(at, content.size(), content.data());
    return d;
  }
};

// One transaction of the player with its effect on the model; several may be open at once, each on its lane.
class player;
class open_tx {
 public:
  std::uint64_t alloc(std::uint64_t bytes, std::uint8_t fill);
  bool free(std::uint64_t payload);
  bool write(std::uint64_t payload, std::uint64_t from, std::uint64_t bytes, std::uint8_t fill);
  struct change {
    std::uint64_t payload, from, bytes;
    std::uint8_t fill;
  };
  bool write_many(const std::vector<change>& changes);
  bool set_root(std::uint64_t payload);
  void begin();
  bool commit_level();
  void abort_level();
  bool commit();
  void abort();

 private:
  friend class player;
  open_tx(player& p, unsigned lane);
  tx::transaction<recording_medium>& tx();
  player& player_;
  unsigned lane_;
  // What this transaction does to the model, level by level.
  struct effect {
    std::map<std::uint64_t, std::vector<std::byte>> written;  // whole new contents
    std::vector<std::uint64_t> freed;
    bool root_set = false;
    std::uint64_t root = 0;
  };
  std::vector<effect> levels_;
  std::vector<std::byte> content(std::uint64_t payload) const;
};

class player {
 public:
  player(machine& m, explore::digest_history& history) : machine_{m}, history_{history} {
    auto sb = pick_superblock(m.base(), m.size());
    if (!sb) std::abort();
    superblock_ = *sb;
    heap_ =
        std::make_unique<recorded_heap>(m.media(), m.base(), geometry_of(superblock_), tx::pool_key(superblock_.uuid),
                                        superblock_.lane_count, [this](std::uint64_t pages) { return grow(pages); });
    if (!heap_->boot()) std::abort();
    history_.clear();
    history_.state(model_.digest());
  }

  // A transaction on the lane, its own thread as far as write-backs go.
  std::unique_ptr<open_tx> begin(unsigned lane = 0) {
    machine_.thread(lane);
    auto got = heap_->lanes().acquire(lane);
    if (!got || *got != lane) std::abort();
    auto t = std::unique_ptr<open_tx>(new open_tx(*this, lane));
    t->begin();
    return t;
  }
  recorded_heap& heap() { return *heap_; }
  machine& on() { return machine_; }
  nvm::tests::model& committed() { return model_; }
  std::uint64_t grown = 0;

 private:
  friend class open_tx;
  result<std::uint64_t> grow(std::uint64_t pages) {
    if (pages > superblock_.capacity_pages)
      return fail(errc::no_space, "capacity of %lu pages", superblock_.capacity_pages);
    superblock_.size_pages = pages;
    write_superblock(machine_.media(), machine_.base(), superblock_);
    ++grown;
    return pages;
  }
  machine& machine_;
  explore::digest_history& history_;
  layout::superblock superblock_;
  std::unique_ptr<recorded_heap> heap_;
  nvm::tests::model model_;
};

inline open_tx::open_tx(player& p, unsigned lane) : player_{p}, lane_{lane} {}
inline tx::transaction<recording_medium>& open_tx::tx() {
  player_.machine_.thread(lane_);
  return player_.heap_->of_lane(lane_);
}
inline std::vector<std::byte> open_tx::content(std::uint64_t payload) const {
  for (auto e = levels_.rbegin(); e != levels_.rend(); ++e) {
    if (auto i = e->written.find(payload); i != e->written.end()) return i->second;
  }
  auto i = player_.model_.objects.find(payload);
  return i == player_.model_.objects.end() ? std::vector<std::byte>{} : i->second;
}
inline void open_tx::begin() {
  if (!tx().begin()) std::abort();
  levels_.emplace_back();
}
inline std::uint64_t open_tx::alloc(std::uint64_t bytes, std::uint8_t fill) {
  auto at = tx::allocate_typed(*player_.heap_, tx(), 7, bytes);
  if (!at) return 0;
  std::memset(player_.machine_.base() + *at, fill, bytes);
  levels_.back().written[*at] = std::vector<std::byte>(bytes, std::byte{fill});
  return *at;
}
inline bool open_tx::free(std::uint64_t payload) {
  if (!tx().release(payload - sizeof(layout::object_header), layout::object_layout::typed)) return false;
  levels_.back().freed.push_back(payload);
  return true;
}
inline bool open_tx::write(std::uint64_t payload, std::uint64_t from, std::uint64_t bytes, std::uint8_t fill) {
  return write_many({{payload, from, bytes, fill}});
}
inline bool open_tx::write_many(const std::vector<change>& changes) {
  std::vector<log::byte_range> ranges;
  for (const change& c : changes) ranges.push_back({c.payload + c.from, c.bytes});
  if (!tx().announce(ranges.data(), ranges.size())) return false;
  for (const change& c : changes) {
    std::memset(player_.machine_.base() + c.payload + c.from, c.fill, c.bytes);
    std::vector<std::byte> now = content(c.payload);
    std::memset(now.data() + c.from, c.fill, c.bytes);
    levels_.back().written[c.payload] = std::move(now);
  }
  return true;
}
inline bool open_tx::set_root(std::uint64_t payload) {
  if (!tx::set_root(*player_.heap_, tx(), payload)) return false;
  levels_.back().root_set = true;
  levels_.back().root = payload;
  return true;
}
inline bool open_tx::commit_level() {
  if (!tx().commit_level()) {
    levels_.pop_back();
    return false;
  }
  effect inner = std::move(levels_.back());
  levels_.pop_back();
  effect& outer = levels_.back();
  for (auto& [at, c] : inner.written) outer.written[at] = std::move(c);
  outer.freed.insert(outer.freed.end(), inner.freed.begin(), inner.freed.end());
  if (inner.root_set) {
    outer.root_set = true;
    outer.root = inner.root;
  }
  return true;
}
inline void open_tx::abort_level() {
  tx().abort_level();
  levels_.pop_back();
}
inline bool open_tx::commit() {
  auto& t = tx();
  effect& e = levels_.front();
  nvm::tests::model next = player_.model_;
  for (auto& [at, c] : e.written) next.objects[at] = c;
  for (const std::uint64_t at : e.freed) next.objects.erase(at);
  if (e.root_set) next.root = e.root;
  // What may be there as soon as the commit has begun.
  player_.history_.state(next.digest());
  player_.machine_.op_begin();
  const bool good = t.commit().has_value();
  player_.machine_.op_end();
  if (!good) std::abort();
  player_.model_ = std::move(next);
  (void)t.take_hooks();
  player_.heap_->lanes().release(lane_);
  return true;
}
inline void open_tx::abort() {
  auto& t = tx();
  t.abort();
  (void)t.take_hooks();
  player_.heap_->lanes().release(lane_);
}

// A subject whose run is `steps`; its history lives as long as the subject.
inline explore::subject tx_subject(std::string name, std::function<void(player&)> steps,
                                   const crash_shape& shape = {}) {
  auto history = std::make_shared<explore::digest_history>();
  const layout::superblock sb = crash_superblock(shape);
  const geometry g = geometry_of(sb);
  explore::subject s;
  s.name = std::move(name);
  s.image.resize(round_up(g.capacity_bytes(), line_bytes));
  format_image(s.image.data(), sb);
  s.run = [steps = std::move(steps), history](machine& m) {
    player p{m, *history};
    steps(p);
  };
  s.recover = [](machine& m) -> explore::verdict {
    auto sb = pick_superblock(m.base(), m.size());
    if (!sb) return explore::fault(last_message());
    tx::recovery_report report;
    const status done = tx::recover(m.media(), m.base(), geometry_of(*sb), tx::pool_key(sb->uuid), report,
                                    [](unsigned, std::uint64_t) {});
    if (!done) return explore::fault(last_message());
    return explore::pass();
  };
  s.oracle = [history](machine& m, const explore::window& w) -> explore::verdict {
    const pool_state found = state_of(m.base(), m.size());
    if (!found.fault.empty()) return explore::fault(found.fault);
    return history->check(found.digest, w);
  };
  // Life goes on: allocate, change, free, on both lanes, and everything that was there stays.
  s.after = [](machine& m, const explore::window&) -> explore::verdict {
    auto sb = pick_superblock(m.base(), m.size());
    if (!sb) return explore::fault(last_message());
    recorded_heap h{m.media(), m.base(), geometry_of(*sb), tx::pool_key(sb->uuid), sb->lane_count, nullptr};
    if (!h.boot()) return explore::fault(last_message());
    const std::uint64_t before = state_of(m.base(), m.size()).digest;
    for (unsigned i = 0; i < 6; ++i) {
      const unsigned lane = i % sb->lane_count;
      auto got = h.lanes().acquire(lane);
      if (!got) return explore::fault("no lane");
      auto& t = h.of_lane(*got);
      if (!t.begin()) return explore::fault(last_message());
      auto at = tx::allocate_typed(h, t, 9, 24 + 40 * i);
      if (!at) return explore::fault(last_message());
      std::memset(m.base() + *at, 0x77, 24 + 40 * i);
      if (!t.commit()) return explore::fault(last_message());
      h.lanes().release(*got);
      got = h.lanes().acquire((lane + 1) % sb->lane_count);
      auto& u = h.of_lane(*got);
      if (!u.begin() || !u.release(*at - sizeof(layout::object_header), layout::object_layout::typed)) {
        return explore::fault(last_message());
      }
      if (!u.commit()) return explore::fault(last_message());
      h.lanes().release(*got);
    }
    const pool_state now = state_of(m.base(), m.size());
    if (!now.fault.empty()) return explore::fault(now.fault);
    if (now.digest != before) return explore::fault("objects changed while others came and went");
    return explore::pass();
  };
  return s;
}

}  // namespace nvm::tests
