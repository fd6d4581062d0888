// C, continued: garbage collectors, and blocks that two threads both own.
#include <atomic>
#include <bit>

#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using std::uint64_t;

// Allocated blocks are walked from by recovery: what they point to must be there.  Free ones have the bytes of their
// last owner.
struct linked_blocks {
  static constexpr uint64_t count = 3;
  alignas(64) uint64_t used;
  struct alignas(64) block {
    uint64_t next;  // number + 1
    uint64_t value;
  };
  block blocks[count];
};
subject c46(twin t) {
  subject s = on<linked_blocks>(
      "C46",
      [t](machine& m, linked_blocks& x) {
        for (uint64_t i = 0; i < linked_blocks::count; ++i) {
          const auto reserve = [&] {
            x.used |= uint64_t{1} << i;
            persist(m.media(), &x.used, 8, edge{"zoo/C46 reserved"});
          };
          const auto initialise = [&] {
            x.blocks[i].next = i;
            x.blocks[i].value = 10 + i;
            persist(m.media(), &x.blocks[i], sizeof x.blocks[i], edge{"zoo/C46 initialised"});
          };
          m.op_begin();
          if (is_buggy(t)) {
            reserve();
            initialise();
          } else {
            initialise();
            reserve();
          }
          m.op_end();
        }
      },
      [](const linked_blocks& x, const window& w) {
        return static_cast<uint64_t>(std::popcount(x.used)) < w.promised ? fault("a block is lost") : pass();
      });
  for (auto& b : reinterpret_cast<linked_blocks*>(s.image.data())->blocks) b.next = b.value = 0xDBDB'DBDB'DBDB'DBDBULL;
  s.recover = [](machine& m) -> verdict {
    const auto& x = image_of<const linked_blocks>(m);
    for (uint64_t i = 0; i < linked_blocks::count; ++i) {
      if ((x.used >> i & 1) == 0) continue;
      uint64_t blocks_met = 0;
      for (uint64_t at = i + 1; at != 0; at = x.blocks[at - 1].next) blocks_met += x.blocks[at - 1].value != 0 ? 1 : 0;
      if (blocks_met != i + 1) return fault("a block is missing from the chain");
    }
    return pass();
  };
  return s;
}

// An object that two references name is moved from block 0 to block 1.
struct moved {
  alignas(64) uint64_t used;
  struct alignas(64) {
    uint64_t block;
  } references[2];
  struct alignas(64) {
    uint64_t forward;  // number of a block, 0: none
    uint64_t value;
  } blocks[2];
};
enum class move_mistake { none, no_forwarding, freed_early };
subject on_moved(const char* name, move_mistake wrong) {
  subject s = on<moved>(
      name,
      [wrong](machine& m, moved& x) {
        x.blocks[1].value = x.blocks[0].value;
        x.used |= 2;
        m.media().flush(&x.used, 8);
        persist(m.media(), &x.blocks[1], sizeof x.blocks[1], edge{"zoo/C47 copied"});
        if (wrong != move_mistake::no_forwarding) {
          x.blocks[0].forward = 1;
          persist(m.media(), &x.blocks[0], sizeof x.blocks[0], edge{"zoo/C47 forwarded"});
        }
        for (auto& r : x.references) {
          r.block = 1;
          m.media().flush(&r, sizeof r);
        }
        if (wrong != move_mistake::freed_early) m.media().fence(edge{"zoo/C47 referenced"});
        x.used &= ~uint64_t{1};
        persist(m.media(), &x.used, 8, edge{"zoo/C47 freed"});
        m.promise();
      },
      [](const moved& x, const window&) -> verdict {
        uint64_t found[2];
        for (std::size_t i = 0; i < 2; ++i) {
          uint64_t b = x.references[i].block;
          if ((x.used >> b & 1) == 0) return fault("a reference to a free block");
          if (x.blocks[b].forward != 0) b = x.blocks[b].forward;
          if ((x.used >> b & 1) == 0 || x.blocks[b].value != 7) return fault("the object is not where it was moved to");
          found[i] = b;
        }
        return found[0] == found[1] ? pass() : fault("one object has become two");
      });
  auto& start = *reinterpret_cast<moved*>(s.image.data());
  start.used = 1;
  start.blocks[0].value = 7;
  return s;
}
subject c47_forward(twin t) { return on_moved("C47", is_buggy(t) ? move_mistake::no_forwarding : move_mistake::none); }
subject c47_freed(twin t) {
  return on_moved("C47, freed early", is_buggy(t) ? move_mistake::freed_early : move_mistake::none);
}

// ---- with threads ---------------------------------------------------------------------------------------------------

// A collector looks at two fields, marks what they name, and frees the one object if it has no mark.  A mutator moves
// the reference from the second field to the first.
struct marked {
  struct alignas(64) word {
    uint64_t value;
    [[nodiscard]] uint64_t get() { return std::atomic_ref{value}.load(std::memory_order_acquire); }
    void set(uint64_t v) { std::atomic_ref{value}.store(v, std::memory_order_release); }
  };
  word fields[2];  // 0: null
  word mark;
  word allocated;
};
concurrent c48(twin t) {
  concurrent c;
  c.base = on<marked>(
      "C48", [](machine&, marked&) {},
      [](const marked& x, const window&) -> verdict {
        if (x.fields[0].value == 0 && x.fields[1].value == 0) return fault("the reference is lost");
        return x.allocated.value == 1 ? pass() : fault("an object that is referred to is free");
      });
  auto& start = *reinterpret_cast<marked*>(c.base.image.data());
  start.fields[1].value = 1;
  start.allocated.value = 1;
  const auto set = [](machine& m, marked::word& w, uint64_t value) {
    w.set(value);
    persist(m.media(), &w, 8, edge{"zoo/C48"});
  };
  c.threads.push_back([set](machine& m) {
    auto& x = image_of<marked>(m);
    for (auto& f : x.fields) {
      if (f.get() != 0) set(m, x.mark, 1);
    }
    if (x.mark.get() == 0) set(m, x.allocated, 0);
  });
  c.threads.push_back([set, t](machine& m) {
    auto& x = image_of<marked>(m);
    const uint64_t reference = x.fields[1].get();
    if (!is_buggy(t)) set(m, x.mark, reference);  // the write barrier
    set(m, x.fields[0], reference);
    set(m, x.fields[1], 0);
  });
  return c;
}

// Thread 0 allocates a block in a transaction, which an undo record takes back: the bit and the root.  Thread 1 has
// learnt of the block, frees it, and allocates one for itself.
struct owned {
  alignas(64) uint64_t undo;  // number of the block + 1; 0: no transaction
  alignas(64) uint64_t used;
  struct alignas(64) {
    uint64_t block;  // + 1
  } roots[2];
};
verdict c51_oracle(const owned& x, const window& w) {
  for (const auto& r : x.roots) {
    if (r.block != 0 && (x.used >> (r.block - 1) & 1) == 0) return fault("a root names a block that is free");
  }
  if (x.roots[0].block != 0 && x.roots[0].block == x.roots[1].block) return fault("two roots name one block");
  for (const auto& e : w.history) {
    if (e.end && e.value != 0 && x.roots[1].block != e.value) return fault("an allocation that returned is lost");
  }
  return pass();
}
concurrent c51(twin t) {
  struct shared {
    std::atomic<uint64_t> block{0};        // + 1
    std::atomic<bool> transaction{false};  // that allocated it lives
  };
  auto state = std::make_shared<shared>();
  concurrent c;
  c.base = on<owned>("C51", [](machine&, owned&) {}, c51_oracle);
  c.base.recover = [](machine& m) {
    auto& x = image_of<owned>(m);
    if (x.undo == 0) return pass();
    x.roots[0].block = 0;
    x.used &= ~(uint64_t{1} << (x.undo - 1));
    m.media().flush(&x.roots[0], 8);
    persist(m.media(), &x.used, 8, edge{"zoo/C51 undone"});
    x.undo = 0;
    persist(m.media(), &x.undo, 8, edge{"zoo/C51 recovered"});
    return pass();
  };
  const auto allocate_one = [](machine& m, owned& x) {
    std::atomic_ref used{x.used};
    const auto block = static_cast<uint64_t>(std::countr_one(used.load(std::memory_order_acquire)));
    used.fetch_or(uint64_t{1} << block, std::memory_order_acq_rel);
    persist(m.media(), &x.used, 8, edge{"zoo/C51 allocated"});
    return block + 1;
  };
  c.start = [state](machine&) {
    state->block = 0;
    state->transaction = false;
  };
  c.threads.push_back([state](machine& m) {
    auto& x = image_of<owned>(m);
    x.undo = 1;  // the block will be number 0
    persist(m.media(), &x.undo, 8, edge{"zoo/C51 logged"});
    std::atomic_ref{x.used}.fetch_or(1, std::memory_order_acq_rel);
    persist(m.media(), &x.used, 8, edge{"zoo/C51 taken"});
    state->transaction.store(true, std::memory_order_release);
    state->block.store(1, std::memory_order_release);
    x.roots[0].block = 1;
    persist(m.media(), &x.roots[0], 8, edge{"zoo/C51 linked"});
    x.undo = 0;
    persist(m.media(), &x.undo, 8, edge{"zoo/C51 committed"});
    state->transaction.store(false, std::memory_order_release);
  });
  c.threads.push_back([state, t, allocate_one](machine& m) {
    auto& x = image_of<owned>(m);
    const uint64_t block = state->block.load(std::memory_order_acquire);
    if (block == 0) return;
    if (!is_buggy(t) && state->transaction.load(std::memory_order_acquire)) return;  // not ours to free yet
    m.op_begin();
    x.roots[0].block = 0;
    persist(m.media(), &x.roots[0], 8, edge{"zoo/C51 unlinked"});
    std::atomic_ref{x.used}.fetch_and(~(uint64_t{1} << (block - 1)), std::memory_order_acq_rel);
    persist(m.media(), &x.used, 8, edge{"zoo/C51 freed"});
    const uint64_t mine = allocate_one(m, x);
    x.roots[1].block = mine;
    persist(m.media(), &x.roots[1], 8, edge{"zoo/C51 mine"});
    m.op_end(mine);
  });
  return c;
}

}  // namespace

std::span<const entry> collector_entries() {
  static const entry all[] = {
      {.number = 46, .title = "recovery follows a pointer that was never written", .make = c46, .tiers = t1},
      {.number = 47, .title = "object moved without a forwarding pointer", .make = c47_forward, .tiers = t1},
      {.number = 47,
       .title = "moved object's old block freed before the references are durable",
       .make = c47_freed,
       .tiers = t1_t3},
      {.number = 48, .title = "mutator's write missed by the mark", .threads = c48, .tiers = t1},
      {.number = 51, .title = "block of a transaction that still lives freed by another", .threads = c51, .tiers = t1},
  };
  return all;
}

}  // namespace nvm::zoo
