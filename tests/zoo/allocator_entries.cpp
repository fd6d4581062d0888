// C: allocators.
#include <bit>

#include "undo_kit.hpp"

namespace nvm::zoo {
namespace {

using rule = finding::rule;
using std::uint64_t;

// ---- a list of blocks on the undo log -------------------------------------------------------------------------------

// Words of the kit's data.
constexpr std::size_t bits = 0;       // of allocated blocks
constexpr std::size_t head = 1;       // of the list: number of a block + 1
constexpr std::size_t reserved = 2;   // bits of blocks that are allocated for nobody yet
constexpr std::size_t free_head = 3;  // of the list of free blocks, for the program that has one
constexpr std::size_t blocks = 8;
constexpr std::size_t next_of(uint64_t block) { return 8 + 2 * block; }
constexpr std::size_t value_of(uint64_t block) { return next_of(block) + 1; }

// Blocks on the list that begins with `first`; a bit above all blocks tells of a broken one.
uint64_t on_list(const uint64_t* data, uint64_t first) {
  uint64_t there = 0;
  for (uint64_t at = first; at != 0; at = data[next_of(at - 1)]) {
    if (at > blocks || (there >> (at - 1) & 1) != 0) return uint64_t{1} << 63;
    there |= uint64_t{1} << (at - 1);
  }
  return there;
}
uint64_t digest_of_list(const uint64_t* data) {
  uint64_t d = 7;
  if (on_list(data, data[head]) >> 63 != 0) return 0;
  for (uint64_t at = data[head]; at != 0; at = data[next_of(at - 1)]) d = d * 1'000'003 + data[value_of(at - 1)];
  return d;
}
// What is allocated is what can be reached: nothing leaks, nothing in use is free.
verdict nothing_leaks(const uint64_t* data) {
  const uint64_t reached = on_list(data, data[head]);
  if (reached >> 63 != 0) return fault("the list is broken");
  if ((reached & ~data[bits]) != 0) return fault("a block of the list is free");
  if ((data[bits] & ~reached) != 0) return fault("a block is allocated that nothing reaches: a leak");
  return pass();
}

uint64_t allocate(undo_kit& kit, uint64_t not_these = 0) {
  const auto block = static_cast<uint64_t>(std::countr_one(kit.get(bits) | not_these));
  kit.log_and_set(bits, kit.get(bits) | uint64_t{1} << block);
  return block;
}
void link(undo_kit& kit, uint64_t block, uint64_t value) {
  kit.log(next_of(block), 2);
  kit.set(next_of(block), kit.get(head));
  kit.set(value_of(block), value);
  kit.log_and_set(head, block + 1);
}
uint64_t unlink(undo_kit& kit) {
  const uint64_t block = kit.get(head) - 1;
  kit.log_and_set(head, kit.get(next_of(block)));
  return block;
}
void release(undo_kit& kit, uint64_t block) { kit.log_and_set(bits, kit.get(bits) & ~(uint64_t{1} << block)); }
void in_between(undo_kit& kit, twin t) {
  if (!is_buggy(t)) return;
  kit.commit();
  kit.begin();
}
void push(undo_kit& kit, uint64_t value) {
  kit.begin();
  link(kit, allocate(kit), value);
  kit.commit();
}

subject c40_link(twin t) {
  const auto step = [t](undo_kit& kit, unsigned i) {
    kit.begin();
    const uint64_t block = allocate(kit);
    in_between(kit, t);
    link(kit, block, 10 + i);
    kit.commit();
  };
  return subject_of(
      {.name = "C40, link", .operations = 3, .step = step, .digest = digest_of_list, .check = nothing_leaks});
}
subject c40_unlink(twin t) {
  const auto step = [t](undo_kit& kit, unsigned i) {
    if (i < 2) return push(kit, 10 + i);
    kit.begin();
    release(kit, kit.get(head) - 1);
    in_between(kit, t);
    unlink(kit);
    kit.commit();
  };
  return subject_of(
      {.name = "C40, unlink", .operations = 4, .step = step, .digest = digest_of_list, .check = nothing_leaks});
}

// A value is replaced by another one in a block of its own, and one is added; objects that nobody sees yet need no undo
// record.
subject c43(twin t) {
  const auto step = [t](undo_kit& kit, unsigned i) {
    if (i < 2) return push(kit, 10 + i);
    kit.begin();
    const uint64_t old = unlink(kit);
    release(kit, old);
    const uint64_t block = allocate(kit, is_buggy(t) ? 0 : uint64_t{1} << old);
    kit.fresh(next_of(block), 2);
    kit.set(next_of(block), kit.get(head));
    kit.set(value_of(block), 20 + i);
    kit.set(head, block + 1);
    link(kit, allocate(kit, uint64_t{1} << old), 30 + i);
    kit.commit();
  };
  return subject_of({.name = "C43", .operations = 4, .step = step, .digest = digest_of_list, .check = nothing_leaks});
}

// Free blocks on a list.
subject c44(twin t) {
  constexpr uint64_t count = 3;
  const auto format = [](uint64_t* data) {
    for (uint64_t b = 0; b < count; ++b) data[next_of(b)] = (b + 2) % (count + 1);
    data[free_head] = 1;
  };
  const auto step = [t](undo_kit& kit, unsigned i) {
    kit.begin();
    const uint64_t block = kit.get(free_head) - 1;
    const uint64_t rest = kit.get(next_of(block));
    if (rest == 0 && is_buggy(t)) {
      kit.set(free_head, 0);  // "empty from here on, nothing to undo"
    } else {
      kit.log_and_set(free_head, rest);
    }
    link(kit, block, 10 + i);
    kit.commit();
  };
  const auto check = [](const uint64_t* data) -> verdict {
    const uint64_t used = on_list(data, data[head]);
    const uint64_t unused = on_list(data, data[free_head]);
    if (((used | unused) >> 63) != 0 || (used & unused) != 0) return fault("the lists are broken");
    return std::popcount(used | unused) == count ? pass() : fault("a block is on neither list: a leak");
  };
  return subject_of(
      {.name = "C44", .operations = count, .step = step, .format = format, .digest = digest_of_list, .check = check});
}

// Blocks are reserved two at a time; who pushes takes one of them.
subject c45(twin t) {
  const auto step = [](undo_kit& kit, unsigned i) {
    if (kit.get(reserved) == 0) {
      kit.begin();
      kit.log(reserved, 1);
      for (int n = 0; n < 2; ++n) kit.set(reserved, kit.get(reserved) | uint64_t{1} << allocate(kit));
      kit.commit();
    }
    kit.begin();
    const auto block = static_cast<uint64_t>(std::countr_zero(kit.get(reserved)));
    kit.log_and_set(reserved, kit.get(reserved) & ~(uint64_t{1} << block));
    link(kit, block, 10 + i);
    kit.commit();
  };
  const auto give_back = [](machine& m, uint64_t* data) {
    if (data[reserved] == 0) return;
    data[bits] &= ~data[reserved];
    persist(m.media(), &data[bits], 8, edge{"zoo/C45 given back"});
    data[reserved] = 0;
    persist(m.media(), &data[reserved], 8, edge{"zoo/C45 forgotten"});
  };
  kit_program p{.name = "C45", .operations = 3, .step = step, .digest = digest_of_list, .check = nothing_leaks};
  if (!is_buggy(t)) p.tidy = give_back;
  return subject_of(p);
}

// One object, which begins with the first block, grows by a block at a time.
subject c49(twin t) {
  constexpr std::size_t size = 1;
  const auto format = [](uint64_t* data) { data[bits] = data[size] = 1; };
  const auto step = [t](undo_kit& kit, unsigned) {
    kit.begin();
    kit.log_and_set(size, kit.get(size) + 1);
    in_between(kit, t);
    allocate(kit);
    kit.commit();
  };
  const auto check = [](const uint64_t* data) {
    return data[bits] == (uint64_t{1} << data[size]) - 1 ? pass() : fault("the object has a block that is free");
  };
  return subject_of({.name = "C49", .operations = 3, .step = step, .format = format, .check = check});
}

// ---- without a log --------------------------------------------------------------------------------------------------

struct runs_image {
  static constexpr uint64_t count = 3;
  alignas(64) uint64_t used;  // bits
  struct alignas(64) {
    uint64_t slot_bytes;
  } headers[count];
};
subject c41(twin t) {
  return on<runs_image>(
      "C41",
      [t](machine& m, runs_image& x) {
        for (uint64_t i = 0; i < runs_image::count; ++i) {
          m.op_begin();
          x.headers[i].slot_bytes = 16U << i;
          m.media().flush(&x.headers[i], 8);
          if (!is_buggy(t)) m.media().fence(edge{"zoo/C41 header"});
          x.used |= uint64_t{1} << i;
          persist(m.media(), &x.used, 8, edge{"zoo/C41 bitmap"});
          m.op_end();
        }
      },
      [](const runs_image& x, const window& w) -> verdict {
        for (uint64_t i = 0; i < runs_image::count; ++i) {
          const bool used = (x.used >> i & 1) != 0;
          if (used && x.headers[i].slot_bytes != 16U << i) return fault("a run in use has no size");
          if (!used && i < w.promised) return fault("a run is lost");
        }
        return pass();
      });
}

// A pool of any size: count, bits, blocks.  After its end lies somebody else's memory.
struct carved_pool {
  static constexpr std::size_t block_bytes = 24;
  static constexpr std::size_t header_bytes = 8;
  static constexpr std::size_t bitmap_bytes = 8;
  static constexpr std::size_t first_block = header_bytes + bitmap_bytes;
  static constexpr std::byte foreign{0x77};
};
report c42(twin t, const options& o) {
  using pool = carved_pool;
  const auto of_size = [t](std::size_t i) {
    const std::size_t bytes = 64 + 8 * i;
    subject s;
    s.name = "C42, " + std::to_string(bytes) + " bytes";
    s.image.resize((bytes + 63) / 64 * 64 + 64);
    std::fill(s.image.begin() + static_cast<std::ptrdiff_t>(bytes), s.image.end(), pool::foreign);
    s.run = [=](machine& m) {
      auto* words = reinterpret_cast<uint64_t*>(m.base());
      const std::size_t metadata = pool::header_bytes + (is_buggy(t) ? 0 : pool::bitmap_bytes);
      words[0] = (bytes - metadata) / pool::block_bytes;
      persist(m.media(), &words[0], 8, edge{"zoo/C42 format"});
      for (uint64_t b = 0; b < words[0]; ++b) {
        std::byte* block = m.base() + pool::first_block + b * pool::block_bytes;
        m.op_begin();
        std::memset(block, static_cast<int>(b + 1), pool::block_bytes);
        persist(m.media(), block, pool::block_bytes, edge{"zoo/C42 block"});
        words[1] |= uint64_t{1} << b;
        persist(m.media(), &words[1], 8, edge{"zoo/C42 bitmap"});
        m.op_end();
      }
    };
    s.recover = [](machine&) { return pass(); };
    s.oracle = [=](machine& m, const window&) -> verdict {
      const auto* words = reinterpret_cast<const uint64_t*>(m.base());
      for (std::size_t at = bytes; at < m.size(); ++at) {
        if (m.base()[at] != pool::foreign)
          return fault("byte " + std::to_string(at - bytes) + " behind the pool is changed");
      }
      for (uint64_t b = 0; b < words[0]; ++b) {
        const std::byte* block = m.base() + pool::first_block + b * pool::block_bytes;
        for (std::size_t k = 0; k < pool::block_bytes && (words[1] >> b & 1) != 0; ++k) {
          if (block[k] != std::byte(b + 1)) return fault("block " + std::to_string(b) + " is not its owner's alone");
        }
      }
      return pass();
    };
    return s;
  };
  return explore_each(64, of_size, o);
}

// A block whose last owner's bytes are still there gets a new owner, who writes its first word.
struct reused {
  alignas(64) uint64_t owner;
  alignas(64) uint64_t words[4];
};
subject c50(twin t) {
  subject s = on<reused>(
      "C50",
      [t](machine& m, reused& x) {
        const auto clear = [&] { std::memset(&x.words[1], 0, sizeof x.words - 8); };
        m.op_begin();
        x.words[0] = 1;
        if (!is_buggy(t)) clear();
        persist(m.media(), x.words, sizeof x.words, edge{"zoo/C50 initialised"});
        x.owner = 2;
        persist(m.media(), &x.owner, 8, edge{"zoo/C50 published"});
        if (is_buggy(t)) {
          clear();
          persist(m.media(), x.words, sizeof x.words, edge{"zoo/C50 cleared"});
        }
        m.op_end();
      },
      [](const reused& x, const window& w) -> verdict {
        if (x.owner != 2) return w.promised == 0 ? pass() : fault("the new owner is forgotten");
        return (x.words[1] | x.words[2] | x.words[3]) == 0 ? pass()
                                                           : fault("the new owner sees what the last one wrote");
      });
  auto& start = *reinterpret_cast<reused*>(s.image.data());
  start.owner = 1;
  for (uint64_t& w : start.words) w = 0x5EC7'E7;
  return s;
}

}  // namespace

std::span<const entry> allocator_entries() {
  static const entry all[] = {
      {.number = 40, .title = "allocated and linked in two steps: a leak", .make = c40_link, .tiers = t1},
      {.number = 40, .title = "freed and unlinked in two steps: a double free", .make = c40_unlink, .tiers = t1},
      {.number = 41, .title = "bitmap durable before the header", .make = c41, .tiers = t1_t3},
      {.number = 42, .title = "last block lies partly outside the pool", .hunt = c42, .tiers = t1},
      {.number = 43, .title = "block freed and reused in one transaction", .make = c43, .tiers = t1},
      {.number = 44,
       .title = "last free block takes the branch that logs nothing",
       .make = c44,
       .breaks = {rule::unlogged_store},
       .tiers = t1},
      {.number = 45, .title = "reserved blocks lost with their cache", .make = c45, .tiers = t1},
      {.number = 49, .title = "growth in place interrupted", .make = c49, .tiers = t1},
      {.number = 50, .title = "new object shows its last owner's bytes", .make = c50, .tiers = t1},
  };
  return all;
}

}  // namespace nvm::zoo
