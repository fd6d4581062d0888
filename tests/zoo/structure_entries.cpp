// D, continued: what threads of the last run have left behind, and structures of several words.
#include <algorithm>
#include <atomic>

#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using explore::digest_history;
using explore::word_hash;
using std::uint64_t;

// ---- what recovery finds of former threads --------------------------------------------------------------------------

// A pointer is stored with a tag that says "perhaps not durable yet", which is taken off later, without a flush.
struct tagged {
  alignas(64) uint64_t head;  // offset of a node, | 1 with the tag
  struct alignas(64) {
    uint64_t value;
  } nodes[3];
};
subject d54(twin t) {
  auto history = std::make_shared<digest_history>();
  subject s = on<tagged>(
      "D54",
      [=](machine& m, tagged& x) {
        history->clear();
        history->state(0);
        for (uint64_t i = 0; i < 3; ++i) {
          m.op_begin();
          x.nodes[i].value = 10 + i;
          persist(m.media(), &x.nodes[i], 8, edge{"zoo/D54 node"});
          const uint64_t offset = offsetof(tagged, nodes) + i * sizeof x.nodes[0];
          std::atomic_ref{x.head}.store(offset | 1, std::memory_order_release);
          persist(m.media(), &x.head, 8, edge{"zoo/D54 head"});
          std::atomic_ref{x.head}.store(offset, std::memory_order_release);
          m.op_end();
          history->state(10 + i);
        }
      },
      [=](const tagged& x, const window& w) -> verdict {
        if (x.head == 0) return history->check(0, w);
        if (x.head % 64 != 0 || x.head > sizeof x - 64) return fault("the head points to no node");
        uint64_t value = 0;
        std::memcpy(&value, reinterpret_cast<const std::byte*>(&x) + x.head, 8);
        return history->check(value, w);
      });
  if (!is_buggy(t)) {
    s.recover = [](machine& m) {
      auto& x = image_of<tagged>(m);
      if ((x.head & 1) == 0) return pass();
      x.head &= ~uint64_t{1};
      persist(m.media(), &x.head, 8, edge{"zoo/D54 recovered"});
      return pass();
    };
  }
  s.lazy = [](uint64_t offset) { return offset < sizeof tagged::head; };
  return s;
}

// A lock beside what it guards, on media.
struct guarded {
  struct alignas(64) {
    uint64_t lock;
    uint64_t value;
  } cell;
};
void add_one(guarded& x) {
  std::atomic_ref held{x.cell.lock};
  while (held.exchange(1, std::memory_order_acquire) != 0) {
  }
  x.cell.value += 1;
}
subject d55(twin t) {
  subject s = on<guarded>(
      "D55",
      [](machine& m, guarded& x) {
        for (int i = 0; i < 2; ++i) {
          m.op_begin();
          add_one(x);
          persist(m.media(), &x.cell, sizeof x.cell, edge{"zoo/D55"});
          std::atomic_ref{x.cell.lock}.store(0, std::memory_order_release);
          m.op_end();
        }
      },
      [](const guarded&, const window&) { return pass(); });
  s.oracle = [](machine& m, const window& w) -> verdict {
    auto& x = image_of<guarded>(m);
    const uint64_t before = x.cell.value;
    if (before < w.promised || before > w.started) return fault("an operation is lost");
    add_one(x);  // whoever comes next must get the lock
    return x.cell.value == before + 1 ? pass() : fault("not one more");
  };
  if (!is_buggy(t)) {
    s.recover = [](machine& m) {
      auto& x = image_of<guarded>(m);
      if (x.cell.lock == 0) return pass();
      x.cell.lock = 0;
      persist(m.media(), &x.cell, sizeof x.cell, edge{"zoo/D55 recovered"});
      return pass();
    };
  }
  s.lazy = [](uint64_t offset) { return offset < sizeof guarded::cell; };
  return s;
}

// Blocks are retired and come back two epochs later; a thread that is inside announces the epoch it saw.
struct epochs_image {
  alignas(64) uint64_t epoch;
  struct alignas(64) {
    uint64_t inside;  // 0: no
  } threads[2];
  struct alignas(64) {
    uint64_t blocks;  // bits
    uint64_t epoch;
  } retired;

  void try_to_reclaim() {
    for (const auto& t : threads) {
      if (t.inside != 0 && t.inside != epoch) return;
    }
    ++epoch;
    if (retired.blocks != 0 && retired.epoch + 2 <= epoch) retired.blocks = 0;
  }
};
subject d56(twin t) {
  subject s = on<epochs_image>(
      "D56",
      [](machine& m, epochs_image& x) {
        auto& me = x.threads[0];
        for (unsigned i = 0; i < 2; ++i) {
          m.op_begin();
          me.inside = x.epoch;
          persist(m.media(), &me, 8, edge{"zoo/D56 in"});
          x.retired = {x.retired.blocks | uint64_t{1} << i, x.epoch};
          persist(m.media(), &x.retired, sizeof x.retired, edge{"zoo/D56 retired"});
          me.inside = 0;
          persist(m.media(), &me, 8, edge{"zoo/D56 out"});
          m.op_end();
        }
      },
      [](const epochs_image&, const window&) { return pass(); });
  s.oracle = [](machine& m, const window& w) -> verdict {
    auto& x = image_of<epochs_image>(m);
    const uint64_t promised = (uint64_t{1} << w.promised) - 1;
    if ((x.retired.blocks & promised) != promised) return fault("a retired block is forgotten");
    for (int i = 0; i < 8; ++i) x.try_to_reclaim();  // nobody is inside
    return x.retired.blocks == 0 ? pass() : fault("retired blocks never come back");
  };
  if (!is_buggy(t)) {
    s.recover = [](machine& m) {
      auto& me = image_of<epochs_image>(m).threads[0];
      if (me.inside == 0) return pass();
      me.inside = 0;
      persist(m.media(), &me, 8, edge{"zoo/D56 recovered"});
      return pass();
    };
  }
  reinterpret_cast<epochs_image*>(s.image.data())->epoch = 1;
  return s;
}

// A stack whose pop announces what it is about to do, so that recovery can finish it.
struct helped_stack {
  alignas(64) uint64_t head;  // index of a node + 1; above them, the number of the change
  struct alignas(64) {
    uint64_t from;
    uint64_t to;
  } announced;
  struct alignas(64) node {
    uint64_t next;  // index + 1
    uint64_t value;
  };
  node nodes[2];

  static constexpr uint64_t node_of(uint64_t head) { return head & 0xFFFF'FFFF; }
  [[nodiscard]] uint64_t digest() const {
    uint64_t d = 7;
    for (uint64_t at = node_of(head); at != 0; at = nodes[at - 1].next) d = d * 1'000'003 + nodes[at - 1].value;
    return d;
  }
};
subject d57(twin t) {
  auto history = std::make_shared<digest_history>();
  subject s = on<helped_stack>(
      "D57",
      [=](machine& m, helped_stack& x) {
        // Without the number of the change, a node that was popped and pushed again looks as if nothing had happened.
        const auto changed = [&](uint64_t to) { return is_buggy(t) ? to : ((x.head >> 32) + 1) << 32 | to; };
        const auto set_head = [&](uint64_t to) {
          x.head = to;
          persist(m.media(), &x.head, 8, edge{"zoo/D57 head"});
        };
        const auto pop = [&] {
          const uint64_t index = helped_stack::node_of(x.head) - 1;
          const uint64_t to = changed(x.nodes[index].next);
          x.announced.to = to;
          persist(m.media(), &x.announced, sizeof x.announced, edge{"zoo/D57 to"});
          x.announced.from = x.head;
          persist(m.media(), &x.announced, sizeof x.announced, edge{"zoo/D57 from"});
          set_head(to);
          return index;
        };
        const auto push = [&](uint64_t index, uint64_t value) {
          x.nodes[index] = {helped_stack::node_of(x.head), value};
          persist(m.media(), &x.nodes[index], sizeof x.nodes[index], edge{"zoo/D57 node"});
          set_head(changed(index + 1));
        };
        const auto operate = [&](auto&& f) {
          m.op_begin();
          f();
          m.op_end();
          history->state(x.digest());
        };
        history->clear();
        history->state(x.digest());
        uint64_t index = 0;
        operate([&] { push(0, 10); });
        operate([&] { push(1, 11); });
        operate([&] { index = pop(); });
        operate([&] { push(index, 12); });  // the node is used again
      },
      [=](const helped_stack& x, const window& w) { return history->check(x.digest(), w); });
  s.recover = [](machine& m) {
    auto& x = image_of<helped_stack>(m);
    if (x.head == 0 || x.announced.from != x.head) return pass();
    x.head = x.announced.to;
    persist(m.media(), &x.head, 8, edge{"zoo/D57 recovered"});
    return pass();
  };
  return s;
}

// ---- structures of several words ------------------------------------------------------------------------------------

struct tables {
  alignas(64) uint64_t current;
  alignas(64) uint64_t small[4];
  alignas(64) uint64_t large[16];
};
subject d59(twin t) {
  return on<tables>(
      "D59",
      [t](machine& m, tables& x) {
        for (uint64_t key = 1; key <= 8; ++key) {
          m.op_begin(key);
          if (key == 5) {
            for (const uint64_t k : x.small) x.large[k] = k;
            m.media().flush(x.large, sizeof x.large / 2);
            if (!is_buggy(t)) m.media().fence(edge{"zoo/D59 copied"});
            x.current = 1;
            persist(m.media(), &x.current, 8, edge{"zoo/D59 published"});
          }
          uint64_t& place = key < 5 ? x.small[key % 4] : x.large[key];
          place = key;
          persist(m.media(), &place, 8, edge{"zoo/D59 key"});
          m.op_end();
        }
      },
      [](const tables& x, const window& w) -> verdict {
        for (uint64_t key = 1; key <= w.promised; ++key) {
          if ((x.current == 0 ? x.small[key % 4] : x.large[key]) != key)
            return fault("key " + std::to_string(key) + " is lost");
        }
        return pass();
      });
}

// Two leaves under a parent.  A leaf that was split names its sibling, so that who comes by an old way finds the rest.
struct tree {
  struct alignas(64) leaf {
    uint64_t keys[4];
    uint64_t count;
    uint64_t has_sibling;
    [[nodiscard]] bool has(uint64_t key) const { return std::find(keys, keys + count, key) != keys + count; }
  };
  leaf left;
  leaf right;
  alignas(64) uint64_t separator;  // keys from here on are in the right leaf; 0: not split

  [[nodiscard]] bool has(uint64_t key) const {
    if (separator != 0 && key >= separator) return right.has(key);
    return left.has(key) || (left.has_sibling != 0 && right.has(key));
  }
};
subject d60(twin t) {
  subject s = on<tree>(
      "D60",
      [t](machine& m, tree& x) {
        const auto shorten = [&] {
          x.left.count = 2;
          persist(m.media(), &x.left, sizeof x.left, edge{"zoo/D60 shortened"});
        };
        m.op_begin();
        x.right.keys[0] = x.left.keys[2];
        x.right.keys[1] = x.left.keys[3];
        x.right.count = 2;
        persist(m.media(), &x.right, sizeof x.right, edge{"zoo/D60 sibling"});
        if (is_buggy(t)) shorten();
        x.left.has_sibling = 1;
        persist(m.media(), &x.left, sizeof x.left, edge{"zoo/D60 linked"});
        x.separator = x.right.keys[0];
        persist(m.media(), &x.separator, 8, edge{"zoo/D60 parent"});
        if (!is_buggy(t)) shorten();
        m.op_end();
      },
      [](const tree& x, const window&) -> verdict {
        for (uint64_t key = 10; key <= 40; key += 10) {
          if (!x.has(key)) return fault("key " + std::to_string(key) + " is lost");
        }
        return pass();
      });
  auto& start = *reinterpret_cast<tree*>(s.image.data());
  start.left = {.keys = {10, 20, 30, 40}, .count = 4, .has_sibling = 0};
  return s;
}

// Extendible hashing: a directory of 2^depth buckets doubles, then one of them is split.
struct directory_image {
  alignas(64) uint64_t depth;
  alignas(64) uint64_t directory[4];
  struct alignas(64) bucket {
    uint64_t keys[2];
  };
  bucket buckets[3];

  [[nodiscard]] bool has(uint64_t key) const {
    const auto& b = buckets[directory[key % (uint64_t{1} << depth)] % 3];
    return b.keys[0] == key || b.keys[1] == key;
  }
};
subject d60_directory(twin t) {
  subject s = on<directory_image>(
      "D60, directory",
      [t](machine& m, directory_image& x) {
        const auto deepen = [&] {
          x.depth = 2;
          persist(m.media(), &x.depth, 8, edge{"zoo/D60 depth"});
        };
        m.op_begin();
        if (is_buggy(t)) deepen();
        x.directory[2] = x.directory[0];
        x.directory[3] = x.directory[1];
        persist(m.media(), x.directory, sizeof x.directory, edge{"zoo/D60 doubled"});
        if (!is_buggy(t)) deepen();
        x.buckets[2].keys[0] = x.buckets[0].keys[1];
        persist(m.media(), &x.buckets[2], sizeof x.buckets[2], edge{"zoo/D60 bucket"});
        x.directory[2] = 2;
        persist(m.media(), &x.directory[2], 8, edge{"zoo/D60 split"});
        x.buckets[0].keys[1] = 0;
        persist(m.media(), &x.buckets[0], sizeof x.buckets[0], edge{"zoo/D60 removed"});
        m.op_end();
      },
      [](const directory_image& x, const window&) -> verdict {
        for (uint64_t key = 1; key <= 4; ++key) {
          if (!x.has(key)) return fault("key " + std::to_string(key) + " is lost");
        }
        return pass();
      });
  auto& start = *reinterpret_cast<directory_image*>(s.image.data());
  start.depth = 1;
  start.directory[1] = 1;
  start.buckets[0] = {{4, 2}};
  start.buckets[1] = {{1, 3}};
  return s;
}

// A key makes room for another one by moving to its second bucket.
struct buckets {
  struct alignas(64) bucket {
    uint64_t key;  // 0: empty
    uint64_t value;
  };
  bucket at[2];
};
enum class moving { right, lost, twice };
subject on_buckets(const char* name, moving wrong) {
  auto history = std::make_shared<digest_history>();
  const auto digest = [](const buckets& x) {
    uint64_t d = 0;
    for (const auto& b : x.at) d += b.key == 0 ? 0 : word_hash(b.key, b.value);
    return d;
  };
  subject s = on<buckets>(
      name,
      [=](machine& m, buckets& x) {
        const auto put = [&](buckets::bucket& b, uint64_t key, uint64_t value) {
          b.value = value;
          persist(m.media(), &b, sizeof b, edge{"zoo/D61 value"});
          b.key = key;
          persist(m.media(), &b, sizeof b, edge{"zoo/D61 key"});
        };
        const auto clear = [&](buckets::bucket& b) {
          b.key = 0;
          persist(m.media(), &b, sizeof b, edge{"zoo/D61 cleared"});
        };
        history->clear();
        history->state(0);
        m.op_begin();
        put(x.at[0], 5, 50);
        m.op_end();
        history->state(digest(x));
        m.op_begin();
        const auto moved = x.at[0];
        if (wrong == moving::lost) clear(x.at[0]);
        put(x.at[1], moved.key, moved.value);
        if (wrong != moving::lost) clear(x.at[0]);
        put(x.at[0], 7, 70);
        m.op_end();
        history->state(digest(x));
      },
      [=](const buckets& x, const window& w) { return history->check(digest(x), w); });
  s.recover = [wrong](machine& m) {
    auto& x = image_of<buckets>(m);
    if (wrong == moving::twice || x.at[0].key == 0 || x.at[0].key != x.at[1].key) return pass();
    x.at[0].key = 0;
    persist(m.media(), &x.at[0], 8, edge{"zoo/D61 recovered"});
    return pass();
  };
  return s;
}
subject d61_lost(twin t) { return on_buckets("D61, lost", is_buggy(t) ? moving::lost : moving::right); }
subject d61_twice(twin t) { return on_buckets("D61, twice", is_buggy(t) ? moving::twice : moving::right); }

}  // namespace

std::span<const entry> structure_entries() {
  static const entry all[] = {
      {.number = 54, .title = "tag left in a pointer by recovery", .make = d54, .tiers = t1},
      {.number = 55, .title = "lock still held after a crash", .make = d55, .tiers = t1},
      {.number = 56, .title = "announced epoch of a thread that is gone", .make = d56, .tiers = t1},
      {.number = 57, .title = "node recycled before recovery finishes a pop", .make = d57, .tiers = t1},
      {.number = 59, .title = "larger table published before it is durable", .make = d59, .tiers = t1_t3},
      {.number = 60, .title = "leaf shortened before its sibling is linked", .make = d60, .tiers = t1},
      {.number = 60, .title = "depth raised before the directory is doubled", .make = d60_directory, .tiers = t1},
      {.number = 61, .title = "key lost while it moves", .make = d61_lost, .tiers = t1},
      {.number = 61, .title = "key in two places after a move", .make = d61_twice, .tiers = t1},
  };
  return all;
}

}  // namespace nvm::zoo
