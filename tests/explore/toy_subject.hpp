// The toy map as a subject: a seeded sequence of puts and erases, its digests, its oracle.
#pragma once

#include <map>
#include <memory>

#include "toy_map.hpp"

namespace nvm::explore::toy {

struct workload {
  unsigned operations = 60;
  std::uint64_t nodes = 12;
  std::uint64_t keys = 16;
  std::uint64_t seed = 7;
};

inline subject make_subject(bug b, const workload& w = {}) {
  auto history = std::make_shared<digest_history>();
  subject s;
  s.name = "toy map " + std::to_string(static_cast<unsigned>(b));
  s.image = formatted(w.nodes);
  s.run = [=](machine& m) {
    history->clear();
    map<recorder<ordered_media>> toy{m.media(), m.base(), b};
    std::uint64_t digest = 0;
    history->state(digest);
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
      // The run itself is crash-free, so its own walk is the model.
      if (auto wrong = walk(m.base(), &digest)) throw std::logic_error(*wrong);
      history->state(digest);
    }
  };
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

}  // namespace nvm::explore::toy
