// C, continued: reference counts, which follow the links of committed transactions by way of records.
#include <atomic>

#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using std::uint64_t;

// An object that up to two fields refer to.  A transaction that sets a field leaves a record of what that adds to the
// count, and a mark says how many transactions have committed.
struct counted {
  struct alignas(64) word {
    uint64_t value;
    [[nodiscard]] uint64_t get() { return std::atomic_ref{value}.load(std::memory_order_acquire); }
    void set(uint64_t v) { std::atomic_ref{value}.store(v, std::memory_order_release); }
  };
  static constexpr uint64_t sealed = 0x5EA1;
  word fields[2];  // 1: refers to the object
  struct alignas(64) {
    int64_t adds;
    uint64_t seal;
  } records[2];    // of transaction 0 and 1
  word committed;  // transactions
  word count;      // references | how many records it has << 32
  word applied;    // records, of those who keep that apart
  word weak;       // refers to the object, and is not counted
  word allocated;
};
void store(machine& m, counted::word& w, uint64_t value, const char* label) {
  w.set(value);
  persist(m.media(), &w, 8, edge{label});
}
// The object is there while a field refers to it, and its count says how many do.
verdict count_agrees(const counted& x) {
  const uint64_t links = x.fields[0].value + x.fields[1].value;
  if (links != 0 && x.allocated.value == 0) return fault("an object that is referred to is free");
  return (x.count.value & 0xFFFF'FFFF) == links ? pass() : fault("the count is not what the fields say");
}
template <class Start, class Run, class Recover, class Oracle>
subject counting(const char* name, Start start, Run run, Recover recover, Oracle oracle) {
  subject s = on<counted>(name, run, oracle);
  auto& x = *reinterpret_cast<counted*>(s.image.data());
  x.fields[0].value = x.count.value = x.allocated.value = 1;
  start(x);
  s.recover = [recover](machine& m) {
    recover(m, image_of<counted>(m));
    return pass();
  };
  return s;
}
constexpr auto as_it_is = [](counted&) {};
constexpr auto nothing = [](machine&, counted&) {};

// A second reference is committed.
subject c89(twin t) {
  return counting(
      "C89", as_it_is,
      [t](machine& m, counted& x) {
        const auto record = [&] {
          x.records[0] = {1, counted::sealed};
          m.media().flush(&x.records[0], sizeof x.records[0]);
        };
        x.fields[1].value = 1;
        m.media().flush(&x.fields[1], 8);
        if (!is_buggy(t)) record();
        m.media().fence(edge{"zoo/C89 stored"});
        store(m, x.committed, 1, "zoo/C89 committed");
        if (is_buggy(t)) {
          record();
          m.media().fence(edge{"zoo/C89 record"});
        }
        m.promise();
      },
      [](machine& m, counted& x) {
        if (x.committed.value == 0) store(m, x.fields[1], 0, "zoo/C89 undone");
        if (x.committed.value == 0 || x.records[0].seal != counted::sealed || x.count.value >> 32 != 0) return;
        store(m, x.count, 2 | uint64_t{1} << 32, "zoo/C89 applied");
      },
      [](const counted& x, const window&) { return count_agrees(x); });
}

// The record of a committed reference is applied.
subject c90(twin t) {
  const auto apply = [t](machine& m, counted& x) {
    if (!is_buggy(t)) {
      if (x.count.value >> 32 == 0) store(m, x.count, 2 | uint64_t{1} << 32, "zoo/C90 applied");
    } else if (x.applied.value == 0) {
      store(m, x.count, x.count.value + 1, "zoo/C90 counted");
      store(m, x.applied, 1, "zoo/C90 applied");
    }
  };
  return counting(
      "C90", [](counted& x) { x.fields[1].value = x.committed.value = 1; }, apply, apply,
      [](const counted& x, const window&) { return count_agrees(x); });
}

// Transaction 0 has added a reference, transaction 1 then taken the first one away: their records are in two rings.
subject c91(twin t) {
  return counting(
      "C91",
      [](counted& x) {
        x.fields[0].value = 0;
        x.fields[1].value = 1;
        x.records[0] = {1, counted::sealed};
        x.records[1] = {-1, counted::sealed};
        x.committed.value = 2;
      },
      [t](machine& m, counted& x) {
        uint64_t count = 1;
        for (const unsigned ring : {1U, 0U}) {
          count += static_cast<uint64_t>(x.records[ring].adds);
          if (is_buggy(t) && count == 0) store(m, x.allocated, 0, "zoo/C91 freed too early");
        }
        store(m, x.count, count, "zoo/C91 applied");
        if (count == 0) store(m, x.allocated, 0, "zoo/C91 freed");
      },
      nothing,
      [](const counted& x, const window&) {
        return x.fields[1].value != 0 && x.allocated.value == 0 ? fault("an object that is referred to is free")
                                                                : pass();
      });
}

// What was left with a count of 0 gets a reference again, before it is freed.
subject c92(twin t) {
  return counting(
      "C92", [](counted& x) { x.fields[0].value = x.count.value = 0; },
      [t](machine& m, counted& x) {
        const bool left = x.count.value == 0;
        x.fields[1].value = 1;
        x.count.value = 1;
        m.media().flush(&x.fields[1], 8);
        m.media().flush(&x.count, 8);
        m.media().fence(edge{"zoo/C92 referred to again"});
        if (is_buggy(t) ? left : x.count.value == 0) store(m, x.allocated, 0, "zoo/C92 freed");
      },
      nothing,
      [](const counted& x, const window&) {
        return x.fields[1].value != 0 && x.allocated.value == 0 ? fault("an object that is referred to is free")
                                                                : pass();
      });
}

// An object that has died, and to which a weak pointer leads, is freed.
subject c93(twin t) {
  return counting(
      "C93",
      [](counted& x) {
        x.fields[0].value = x.count.value = 0;
        x.weak.value = 1;
      },
      [t](machine& m, counted& x) {
        if (!is_buggy(t)) store(m, x.weak, 0, "zoo/C93 cleared");
        store(m, x.allocated, 0, "zoo/C93 freed");
        if (is_buggy(t)) store(m, x.weak, 0, "zoo/C93 cleared late");
      },
      nothing,
      [](const counted& x, const window&) {
        return x.weak.value != 0 && x.allocated.value == 0 ? fault("a weak pointer leads to what is free") : pass();
      });
}

// ---- with threads ---------------------------------------------------------------------------------------------------

// Thread 0 takes the last reference away and frees the object.  Thread 1 finds the object in a transaction of its own,
// and refers to it from another field.
concurrent c94(twin t) {
  auto open = std::make_shared<std::atomic<uint64_t>>(0);  // transactions that may know the object
  concurrent c;
  c.base = on<counted>(
      "C94", [](machine&, counted&) {},
      [](const counted& x, const window&) {
        return x.fields[1].value != 0 && x.allocated.value == 0 ? fault("an object that is referred to is free")
                                                                : pass();
      });
  auto& start = *reinterpret_cast<counted*>(c.base.image.data());
  start.fields[0].value = start.allocated.value = 1;
  c.start = [open](machine&) { *open = 0; };
  c.threads.push_back([open, t](machine& m) {
    auto& x = image_of<counted>(m);
    store(m, x.fields[0], 0, "zoo/C94 unlinked");
    // A transaction that has begun before ends first; one that begins later finds nothing.
    if (!is_buggy(t) && open->load(std::memory_order_seq_cst) != 0) return;  // another time
    if (x.fields[1].get() == 0) store(m, x.allocated, 0, "zoo/C94 freed");
  });
  c.threads.push_back([open](machine& m) {
    auto& x = image_of<counted>(m);
    open->fetch_add(1, std::memory_order_seq_cst);
    if (x.fields[0].get() != 0) store(m, x.fields[1], 1, "zoo/C94 linked");
    open->fetch_sub(1, std::memory_order_seq_cst);
  });
  return c;
}

}  // namespace

std::span<const entry> counting_entries() {
  static const entry all[] = {
      {.number = 89, .title = "record of a changed reference after the commit mark", .make = c89, .tiers = t1},
      {.number = 90, .title = "record of a changed reference applied twice", .make = c90, .tiers = t1},
      {.number = 91, .title = "count seen at zero before a reference that was committed", .make = c91, .tiers = t1},
      {.number = 92, .title = "object freed though it is referred to again", .make = c92, .tiers = t1},
      {.number = 93, .title = "weak pointer not cleared before its object is freed", .make = c93, .tiers = t1},
      {.number = 94, .title = "object freed under a transaction that knows it", .threads = c94, .tiers = t1},
  };
  return all;
}

}  // namespace nvm::zoo
