// The toy map as a subject: a seeded sequence of puts and erases, its digests, its oracle.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>

#include "toy_map.hpp"

namespace nvm::explore::toy {

struct workload {
  unsigned operations = 60;
  std::uint64_t nodes = 12;
  std::uint64_t keys = 16;
  std::uint64_t seed = 7;
};

// Runs the sequence on a map, whose state is `digest`, and keeps the digest after each operation.
inline void play(machine& m, bug b, const workload& w, digest_history& history) {
  map<recorder<ordered_media>> toy{m.media(), m.base(), b};
  std::uint64_t digest = 0;
  // The run itself is crash-free, so its own walk is the model.
  const auto look = [&] {
    if (auto wrong = walk(m.base(), &digest)) throw std::logic_error(*wrong);
    history.state(digest);
  };
  history.clear();
  look();
  std::uint64_t r = w.seed;
  for (unsigned i = 0; i < w.operations; ++i) {
    r = r * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t key = 1 + (r >> 33) % w.keys;
    m.op_begin(key);
    if ((r >> 60) < 10) {
      toy.put(key, 2 * i + 3);
    } else {
      toy.erase(key);
    }
    m.op_end();
    look();
  }
}

inline subject make_subject(bug b, const workload& w = {}) {
  auto history = std::make_shared<digest_history>();
  subject s;
  s.name = "toy map " + std::to_string(static_cast<unsigned>(b));
  s.image = formatted(w.nodes);
  s.run = [=](machine& m) { play(m, b, w, *history); };
  s.recover = [=](machine& m) { return recover(m.media(), m.base(), m.size(), b); };
  s.oracle = [=](machine& m, const window& at) -> verdict {
    std::uint64_t digest = 0;
    if (auto wrong = walk(m.base(), &digest)) return wrong;
    return history->check(digest, at);
  };
  s.after = [=](machine& m, const window&) -> verdict {
    map<recorder<ordered_media>> toy{m.media(), m.base(), b};
    for (std::uint64_t key = 1; key <= w.keys; ++key) key % 3 == 0 ? toy.erase(key) : toy.put(key, 1000 + key);
    std::uint64_t digest = 0;
    return walk(m.base(), &digest);
  };
  s.log_bytes = {{0, offsetof(layout, heads)}};
  s.field = [](std::uint64_t o) -> std::string {
    if (o < 64) return "log count";
    if (o < offsetof(layout, heads)) return "log entry " + std::to_string((o - 64) / sizeof(log_entry));
    if (o < offsetof(layout, free_head)) return "heads[" + std::to_string((o - offsetof(layout, heads)) / 8) + "]";
    if (o < nodes_at) return o < offsetof(layout, free_count) ? "free_head" : "free_count";
    return "node " + std::to_string((o - nodes_at) / sizeof(node));
  };
  return s;
}

// The same map, started from an image that a crash left: recovery, then more operations, all of it explored.
inline subject make_restarted_subject(bug b, const workload& w, std::vector<std::byte> image) {
  auto history = std::make_shared<digest_history>();
  subject s = make_subject(b, w);
  s.name += ", restarted";
  s.image = std::move(image);
  s.run = [=](machine& m) {
    if (auto wrong = recover(m.media(), m.base(), m.size(), b)) throw std::logic_error(*wrong);
    play(m, b, w, *history);
  };
  s.oracle = [=](machine& m, const window& at) -> verdict {
    std::uint64_t digest = 0;
    if (auto wrong = walk(m.base(), &digest)) return wrong;
    return history->check(digest, at);
  };
  return s;
}

// Images of the subject whose log holds at least `entries` entries; up to `count`, evenly chosen.
inline std::vector<std::vector<std::byte>> crashed_images(const subject& s, std::uint64_t entries, std::size_t count) {
  std::vector<std::vector<std::byte>> all;
  options o;
  o.nesting = 0;
  o.tiers = t1_program_order;
  o.on_image = [&](const machine& m, const window&) {
    if (reinterpret_cast<const layout*>(m.base())->log_count >= entries)
      all.emplace_back(m.base(), m.base() + m.size());
  };
  (void)explore(s, o);
  std::vector<std::vector<std::byte>> some;
  for (std::size_t i = 0; i < count && !all.empty(); ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

}  // namespace nvm::explore::toy
