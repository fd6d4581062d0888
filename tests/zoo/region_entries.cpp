// F: regions: strings of bytes with headers, a log of records, and replicas.
#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using std::uint64_t;

struct alignas(64) word {
  uint64_t value;
};
// Bytes of a region that are in two lines, so that a crash may tear them; whole ones are equal.
struct two_lines {
  word first, second;
  [[nodiscard]] bool whole() const { return first.value == second.value; }
};
void put(machine& m, word& w, uint64_t value) {
  w.value = value;
  m.media().flush(&w, 8);
}
void put(machine& m, two_lines& b, uint64_t value) {
  put(m, b.first, value);
  put(m, b.second, value);
}
void store(machine& m, word& w, uint64_t value, const char* label) {
  put(m, w, value);
  m.media().fence(edge{label});
}
void store(machine& m, two_lines& b, uint64_t value, const char* label) {
  put(m, b, value);
  m.media().fence(edge{label});
}

// ---- a first write --------------------------------------------------------------------------------------------------

struct appended {
  word length;  // lines that the region has
  word lines[2];
};
subject f121(twin t) {
  return on<appended>(
      "F121",
      [t](machine& m, appended& x) {
        for (uint64_t i = 0; i < 2; ++i) {
          put(m, x.lines[i], i + 1);
          if (!is_buggy(t)) m.media().fence(edge{"zoo/F121 bytes"});
          store(m, x.length, i + 1, "zoo/F121 length");
        }
        m.promise();
      },
      [](const appended& x, const window&) {
        for (uint64_t i = 0; i < x.length.value; ++i) {
          if (x.lines[i].value != i + 1) return fault("the region has bytes that were never written");
        }
        return pass();
      });
}

// ---- records --------------------------------------------------------------------------------------------------------

// Blocks that are used by turns; a record counts if its sum holds, and, in the correct twin, if it is newer than what
// was truncated.
struct logged {
  struct alignas(64) record {
    uint64_t version;
    uint64_t value;
    uint64_t sum;
    [[nodiscard]] bool holds() const { return version != 0 && sum == version * 31 + value; }
  };
  record blocks[2];
  word truncated;  // version
  word home;
  word acknowledged;  // the region has at least this value
};
void change(machine& m, logged& x, unsigned block, uint64_t version) {
  x.blocks[block] = {version, version, version * 31 + version};
  m.media().flush(&x.blocks[block], sizeof x.blocks[block]);
  m.media().fence(edge{"zoo/F122 record"});
  store(m, x.acknowledged, version, "zoo/F122 acknowledged");
  store(m, x.home, version, "zoo/F122 home");
  store(m, x.truncated, version, "zoo/F122 truncated");
}
subject f122(twin t) {
  subject s = on<logged>(
      "F122",
      [](machine& m, logged& x) {
        change(m, x, 0, 1);
        change(m, x, 1, 2);
        // The block of the newest record is cleared for another use.
        x.blocks[1] = {};
        m.media().flush(&x.blocks[1], sizeof x.blocks[1]);
        m.media().fence(edge{"zoo/F122 cleared"});
        m.promise();
      },
      [](const logged& x, const window&) {
        return x.home.value >= x.acknowledged.value ? pass() : fault("a change of longer ago is back");
      });
  s.recover = [t](machine& m) {
    auto& x = image_of<logged>(m);
    for (uint64_t version = 1; version <= 2; ++version) {
      for (const logged::record& r : x.blocks) {
        if (r.version != version || !r.holds() || (!is_buggy(t) && version <= x.truncated.value)) continue;
        store(m, x.home, r.value, "zoo/F122 replayed");
      }
    }
    return pass();
  };
  return s;
}

// One block, whose record counts while it is marked.
struct marked {
  two_lines record;
  word mark;
  two_lines home;
};
subject f123(twin t) {
  subject s = on<marked>(
      "F123",
      [t](machine& m, marked& x) {
        for (uint64_t value = 1; value <= 2; ++value) {
          store(m, x.record, value, "zoo/F123 record");
          store(m, x.mark, 1, "zoo/F123 mark");
          store(m, x.home, value, "zoo/F123 home");
          if (!is_buggy(t)) store(m, x.mark, 0, "zoo/F123 truncated");
        }
        m.promise();
      },
      [](const marked& x, const window&) { return x.home.whole() ? pass() : fault("half of a change"); });
  s.recover = [](machine& m) {
    auto& x = image_of<marked>(m);
    if (x.mark.value == 0) return pass();
    put(m, x.home.first, x.record.first.value);
    put(m, x.home.second, x.record.second.value);
    m.media().fence(edge{"zoo/F123 replayed"});
    store(m, x.mark, 0, "zoo/F123 recovered");
    return pass();
  };
  return s;
}

// ---- in place, with a replica ---------------------------------------------------------------------------------------

struct with_replica {
  two_lines region, replica;
  word counts;  // the replica does
};
subject f124(twin t) {
  subject s = on<with_replica>(
      "F124",
      [t](machine& m, with_replica& x) {
        for (uint64_t value = 1; value <= 2; ++value) {
          store(m, x.replica, value - 1, "zoo/F124 replica");
          store(m, x.counts, 1, "zoo/F124 counts");
          store(m, x.region, value, "zoo/F124 in place");
          put(m, x.counts, 0);
          // The next change fills the replica.
          if (!is_buggy(t) || value == 2) m.media().fence(edge{"zoo/F124 counts no longer"});
        }
        m.promise();
      },
      [](const with_replica& x, const window&) { return x.region.whole() ? pass() : fault("half of a change"); });
  s.recover = [](machine& m) {
    auto& x = image_of<with_replica>(m);
    if (x.counts.value == 0) return pass();
    put(m, x.region.first, x.replica.first.value);
    put(m, x.region.second, x.replica.second.value);
    m.media().fence(edge{"zoo/F124 put back"});
    store(m, x.counts, 0, "zoo/F124 recovered");
    return pass();
  };
  return s;
}

// ---- places ---------------------------------------------------------------------------------------------------------

// Two regions take turns in a place.  The record of the first one's change leads there.
struct shared_place {
  word headers[2];  // 1: the region is there
  word record;      // 0: none, or it was truncated
  word place;
};
subject f125(twin t) {
  subject s = on<shared_place>(
      "F125",
      [t](machine& m, shared_place& x) {
        store(m, x.record, 5, "zoo/F125 record");
        store(m, x.place, 5, "zoo/F125 home");
        store(m, x.headers[0], 0, "zoo/F125 dropped");
        if (!is_buggy(t)) store(m, x.record, 0, "zoo/F125 truncated");
        store(m, x.place, 7, "zoo/F125 bytes without a record");
        store(m, x.headers[1], 1, "zoo/F125 made");
        m.promise();
      },
      [](const shared_place& x, const window&) {
        return x.headers[1].value == 0 || x.place.value == 7 ? pass()
                                                             : fault("a record was replayed into another region");
      });
  reinterpret_cast<shared_place*>(s.image.data())->headers[0].value = 1;
  s.recover = [](machine& m) {
    auto& x = image_of<shared_place>(m);
    if (x.record.value == 0) return pass();
    store(m, x.place, x.record.value, "zoo/F125 replayed");
    store(m, x.record, 0, "zoo/F125 recovered");
    return pass();
  };
  return s;
}

struct moving_region {
  word header;  // the place that it leads to
  word places[2];
};
subject f126(twin t) {
  subject s = on<moving_region>(
      "F126",
      [t](machine& m, moving_region& x) {
        store(m, x.places[1], 2, "zoo/F126 copy");
        put(m, x.header, 1);
        if (!is_buggy(t)) m.media().fence(edge{"zoo/F126 header"});
        store(m, x.places[0], 9, "zoo/F126 used again");
        m.promise();
      },
      [](const moving_region& x, const window&) {
        return x.places[x.header.value].value == x.header.value + 1 ? pass() : fault("the bytes of another region");
      });
  reinterpret_cast<moving_region*>(s.image.data())->places[0].value = 1;
  return s;
}

// ---- a group --------------------------------------------------------------------------------------------------------

// One region gets what the other one loses.  The first mark counts for both in the correct twin.
struct traded {
  word regions[2];
  word records[2];
  word marks[2];
};
subject f127(twin t) {
  subject s = on<traded>(
      "F127",
      [t](machine& m, traded& x) {
        put(m, x.records[0], 3);
        put(m, x.records[1], 7);
        m.media().fence(edge{"zoo/F127 records"});
        store(m, x.marks[0], 1, "zoo/F127 mark");
        if (is_buggy(t)) store(m, x.marks[1], 1, "zoo/F127 mark of the other");
        for (unsigned i = 0; i < 2; ++i) put(m, x.regions[i], x.records[i].value);
        m.media().fence(edge{"zoo/F127 home"});
        m.promise();
      },
      [](const traded& x, const window&) {
        return x.regions[0].value + x.regions[1].value == 10 ? pass() : fault("one of two regions has changed");
      });
  for (word& w : reinterpret_cast<traded*>(s.image.data())->regions) w.value = 5;
  s.recover = [t](machine& m) {
    auto& x = image_of<traded>(m);
    for (unsigned i = 0; i < 2; ++i) {
      if (x.marks[is_buggy(t) ? i : 0].value == 0) continue;
      store(m, x.regions[i], x.records[i].value, "zoo/F127 replayed");
    }
    return pass();
  };
  return s;
}

}  // namespace

std::span<const entry> region_entries() {
  static const entry all[] = {
      {.number = 121, .title = "length of a region before its bytes", .make = f121},
      {.number = 122, .title = "record of longer ago whose sum holds", .make = f122},
      {.number = 123, .title = "mark of an earlier use of a log block", .make = f123},
      {.number = 124, .title = "replica filled while it may still count", .make = f124},
      {.number = 125, .title = "place used again while a record leads there", .make = f125},
      {.number = 126, .title = "place used again before its region's header leads elsewhere", .make = f126},
      {.number = 127, .title = "group of which one region has finished first", .make = f127},
  };
  return all;
}

}  // namespace nvm::zoo
