// F: a collector of one store, or of a pool, beside transactions, which marks from its root and then frees.
#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using std::uint64_t;

// Two objects, of which the root names one; a transaction that changes the root keeps the old one until it ends.
struct rooted {
  struct alignas(64) word {
    uint64_t value;
  };
  word root;
  word kept;          // old root + 1; 0: no transaction is open
  word allocated[2];  // 0: free; else what is there
};
void store(machine& m, rooted::word& w, uint64_t value, const char* label) {
  w.value = value;
  persist(m.media(), &w, 8, edge{label});
}
void begin_change(machine& m, rooted& x, uint64_t root) {
  store(m, x.kept, x.root.value + 1, "zoo/F112 kept");
  store(m, x.root, root, "zoo/F112 changed");
}
void put_back(machine& m, rooted& x) {
  if (x.kept.value == 0) return;
  store(m, x.root, x.kept.value - 1, "zoo/F112 put back");
  store(m, x.kept, 0, "zoo/F112 ended");
}
template <class Run>
subject on_rooted(const char* name, Run run) {
  subject s = on<rooted>(name, run, [](const rooted& x, const window&) {
    return x.allocated[x.root.value].value == 0 ? fault("the root leads to an object that is free") : pass();
  });
  auto& start = *reinterpret_cast<rooted*>(s.image.data());
  start.allocated[0].value = start.allocated[1].value = 1;
  s.recover = [](machine& m) {
    put_back(m, image_of<rooted>(m));
    return pass();
  };
  return s;
}

// The marks see a root that a transaction has stored which is then rolled back.
subject f112(twin t) {
  return on_rooted("F112", [t](machine& m, rooted& x) {
    begin_change(m, x, 1);
    bool marked[2] = {};
    marked[x.root.value] = true;
    if (is_buggy(t)) {
      store(m, x.allocated[0], 0, "zoo/F112 freed");
    } else {
      // It tells what it has put back.
      marked[x.kept.value - 1] = true;
    }
    put_back(m, x);
    if (!is_buggy(t)) {
      for (unsigned i = 0; i < 2; ++i) {
        if (!marked[i]) store(m, x.allocated[i], 0, "zoo/F112 freed");
      }
    }
    m.promise();
  });
}

// The marks are of before somebody has attached the store, and named another object.
subject f113(twin t) {
  return on_rooted("F113", [t](machine& m, rooted& x) {
    const uint64_t marked = x.root.value;
    begin_change(m, x, 1);
    store(m, x.kept, 0, "zoo/F113 committed");
    const uint64_t reached = is_buggy(t) ? marked : x.root.value;
    store(m, x.allocated[1 - reached], 0, "zoo/F113 freed");
    m.promise();
  });
}

// What has no mark is freed by its owner, and its place has another object, before the collector comes to it.
subject f114(twin t) {
  return on_rooted("F114", [t](machine& m, rooted& x) {
    bool garbage = x.root.value != 1;
    store(m, x.allocated[1], 0, "zoo/F114 freed by its owner");
    if (!is_buggy(t)) garbage = false;
    store(m, x.allocated[1], 2, "zoo/F114 used again");
    begin_change(m, x, 1);
    store(m, x.kept, 0, "zoo/F114 committed");
    if (garbage) store(m, x.allocated[1], 0, "zoo/F114 freed again");
    m.promise();
  });
}

// An object, and two words of which one leads to it.
struct moved {
  struct alignas(64) word {
    uint64_t value;
  };
  word from, to;  // 0: leads nowhere
  word allocated;
};

// A pointer moves from a word that the collector has not read to one that it has.
subject f117(twin t) {
  const auto set = [](machine& m, moved::word& w, uint64_t value, const char* label) {
    w.value = value;
    persist(m.media(), &w, 8, edge{label});
  };
  const auto run = [t, set](machine& m, moved& x) {
    bool marked = x.to.value != 0;
    set(m, x.to, 1, "zoo/F117 moved");
    set(m, x.from, 0, "zoo/F117 unlinked");
    // Who moved it tells where its new pointers lead.
    if (!is_buggy(t)) marked = true;
    marked = marked || x.from.value != 0;
    if (!marked) set(m, x.allocated, 0, "zoo/F117 freed");
    m.promise();
  };
  subject s = on<moved>("F117", run, [](const moved& x, const window&) {
    const bool reached = x.from.value != 0 || x.to.value != 0;
    return reached && x.allocated.value == 0 ? fault("a word leads to an object that is free") : pass();
  });
  auto& start = *reinterpret_cast<moved*>(s.image.data());
  start.from.value = start.allocated.value = 1;
  return s;
}

// A transaction was open before the collector began to listen, and links what it alone knows.
subject f118(twin t) {
  return on_rooted("F118", [t](machine& m, rooted& x) {
    uint64_t marked = x.root.value;
    begin_change(m, x, 1);
    store(m, x.kept, 0, "zoo/F118 committed");
    // The collector waits for all that were open, and then marks.
    if (!is_buggy(t)) marked = x.root.value;
    store(m, x.allocated[1 - marked], 0, "zoo/F118 freed");
    m.promise();
  });
}

}  // namespace

std::span<const entry> collection_entries() {
  static const entry all[] = {
      {.number = 112, .title = "garbage is freed by marks that saw what a transaction rolls back", .make = f112},
      {.number = 113, .title = "garbage is freed by marks from before a store was attached", .make = f113},
      {.number = 114, .title = "garbage is freed whose place has another object by now", .make = f114},
      {.number = 117, .title = "a mark is missed by a pointer that moves", .make = f117},
      {.number = 118, .title = "marks of a snapshot that an open transaction tells nothing of", .make = f118},
  };
  return all;
}

}  // namespace nvm::zoo
