// F: object stores: clusters of pages, the list that leads through them, and the map that says whose a page is.
#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using std::uint64_t;

// A pool of pages, each a cluster of some store or free.  `map` is the page map: the number of a store, 0: free.  A
// store has a page of its own, whose words lead to a list of clusters; clusters are numbered from 1.
constexpr std::size_t clusters = 4;
constexpr std::size_t stores = 2;
constexpr uint64_t magic = 0x5354'4F52'4500'0001;
struct store_page {
  alignas(64) uint64_t identity;
  uint64_t head;     // number of a cluster, 0: none
  uint64_t in_work;  // likewise
};
struct cluster_page {
  alignas(64) uint64_t number;  // of its store
  uint64_t next;
  uint64_t used;              // pages that its own map names
  alignas(64) uint64_t data;  // anything, where it is no cluster
};
struct small_pool {
  alignas(64) uint64_t names[stores];  // 1: the store has a name
  alignas(64) uint64_t map[8 * (clusters + 1)];
  store_page store[stores];
  cluster_page cluster[clusters + 1];

  // A line for each entry.
  [[nodiscard]] uint64_t& entry(uint64_t c) noexcept { return map[8 * c]; }
  [[nodiscard]] uint64_t entry(uint64_t c) const noexcept { return map[8 * c]; }
};

// Every list leads through clusters of its store alone, once; every cluster is in one, or its store has it in work.
verdict lists_are_sound(const small_pool& p) {
  unsigned listed[clusters + 1] = {};
  for (std::size_t s = 0; s < stores; ++s) {
    if (p.names[s] != 0 && p.store[s].identity != magic) return fault("a name leads to a page that is no store");
    for (uint64_t c = p.store[s].head; c != 0; c = p.cluster[c].next) {
      if (c > clusters) return fault("a list leads out of the pool");
      if (p.entry(c) == 0) return fault("a list leads to a free page");
      if (p.entry(c) != s + 1 || p.cluster[c].number != s + 1) return fault("a list leads to another store's cluster");
      if (listed[c]++ != 0) return fault("a cluster is in two lists, or twice in one");
    }
  }
  for (uint64_t c = 1; c <= clusters; ++c) {
    if (p.entry(c) == 0 || listed[c] != 0) continue;
    const store_page& owner = p.store[p.entry(c) - 1];
    if (owner.in_work != c || p.cluster[c].number != p.entry(c)) return fault("a cluster is in no list: a leak");
    if (p.cluster[c].used != 0) return fault("a cluster with objects is in no list");
  }
  return pass();
}

// What the steps of a program store, each flushed; and its fences.
class steps {
 public:
  steps(machine& m, small_pool& p) noexcept : m_{m}, p_{p} {}
  void put(uint64_t& word, uint64_t value) {
    word = value;
    m_.media().flush(&word, sizeof word);
  }
  void fence() { m_.media().fence(edge{"zoo/stores"}); }

  void create(std::size_t s) {
    put(p_.store[s].identity, magic);
    fence();
    put(p_.names[s], 1);
    fence();
  }
  void header(std::size_t s, uint64_t c) {
    p_.cluster[c].number = s + 1;
    p_.cluster[c].next = p_.store[s].head;
    p_.cluster[c].used = 0;
    m_.media().flush(&p_.cluster[c], 64);
  }
  void grow(std::size_t s, uint64_t c) {
    header(s, c);
    put(p_.store[s].in_work, c);
    fence();
    put(p_.entry(c), s + 1);
    fence();
    put(p_.store[s].head, c);
    fence();
  }
  // The first of the list.
  void take_out(std::size_t s) {
    const uint64_t c = p_.store[s].head;
    put(p_.store[s].in_work, c);
    fence();
    put(p_.store[s].head, p_.cluster[c].next);
    fence();
    put(p_.entry(c), 0);
    fence();
  }

 private:
  machine& m_;
  small_pool& p_;
};

template <class Run>
subject store_subject(const char* name, Run run) {
  return on<small_pool>(
      name,
      [=](machine& m, small_pool& p) {
        m.op_begin();
        steps s{m, p};
        run(s, p);
        m.op_end();
      },
      [](const small_pool& p, const window&) { return lists_are_sound(p); });
}

subject f96(twin t) {
  return store_subject("F96", [t](steps& s, small_pool& p) {
    s.put(p.store[0].identity, magic);
    if (!is_buggy(t)) s.fence();
    s.put(p.names[0], 1);
    s.fence();
  });
}
subject f97(twin t) {
  return store_subject("F97", [t](steps& s, small_pool& p) {
    s.create(0);
    s.put(p.cluster[1].next, 77);  // of a use before
    s.fence();
    s.put(p.store[0].in_work, 1);
    s.header(0, 1);
    if (!is_buggy(t)) s.fence();
    s.put(p.entry(1), 1);
    s.fence();
    s.put(p.store[0].head, 1);
    s.fence();
  });
}
subject f98(twin t) {
  return store_subject("F98", [t](steps& s, small_pool& p) {
    s.create(0);
    s.grow(0, 1);
    s.grow(0, 2);
    s.put(p.store[0].in_work, 2);
    s.fence();
    if (is_buggy(t)) {
      s.put(p.entry(2), 0);
      s.fence();
      s.put(p.store[0].head, p.cluster[2].next);
    } else {
      s.put(p.store[0].head, p.cluster[2].next);
      s.fence();
      s.put(p.entry(2), 0);
    }
    s.fence();
  });
}
// The page of a cluster that one store has taken out goes to another while the first list may still lead there.
subject f99(twin t) {
  return store_subject("F99", [t](steps& s, small_pool& p) {
    s.create(0);
    s.create(1);
    s.grow(0, 1);
    if (is_buggy(t)) {
      s.put(p.store[0].in_work, 1);
      s.fence();
      s.put(p.store[0].head, 0);
      s.put(p.entry(1), 0);
    } else {
      s.take_out(0);
    }
    s.grow(1, 1);
  });
}
subject f100(twin t) {
  return store_subject("F100", [t](steps& s, small_pool& p) {
    s.create(0);
    s.header(0, 1);
    if (!is_buggy(t)) s.put(p.store[0].in_work, 1);
    s.fence();
    s.put(p.entry(1), 1);
    s.fence();
    s.put(p.store[0].head, 1);
    s.fence();
  });
}
// The next cluster is in work before the list is known to have the one before, which has objects.
subject f101(twin t) {
  return store_subject("F101", [t](steps& s, small_pool& p) {
    s.create(0);
    s.header(0, 1);
    s.put(p.store[0].in_work, 1);
    s.fence();
    s.put(p.entry(1), 1);
    s.fence();
    p.store[0].head = 1;
    if (!is_buggy(t)) s.put(p.store[0].head, 1);
    if (!is_buggy(t)) s.fence();
    s.put(p.cluster[1].used, 1);
    s.fence();
    s.grow(0, 2);
  });
}

// A log of one record, {word, value}, that recovery makes again; the word is one of a cluster's map, whose page has
// become an object's of another store meanwhile.
struct logged_pool {
  alignas(64) uint64_t record_word;  // 1: cluster's map, 0: none
  uint64_t record_value;
  alignas(64) uint64_t entry;  // of the page: 1 cluster of the first store, 2 an object of the second
  alignas(64) uint64_t word;   // in the page
  alignas(64) uint64_t committed;
};
subject f102(twin t) {
  subject s = on<logged_pool>(
      "F102",
      [t](machine& m, logged_pool& p) {
        const auto put = [&](uint64_t& word, uint64_t value) {
          word = value;
          m.media().flush(&word, sizeof word);
        };
        const auto fence = [&] { m.media().fence(edge{"zoo/F102"}); };
        put(p.entry, 1);
        fence();
        // A transaction's change of allocation, applied and not yet forgotten by the log.
        p.record_value = 5;
        put(p.record_word, 1);
        fence();
        p.word = 5;
        // Detached: the log is settled, unless that is forgotten.
        if (!is_buggy(t)) {
          m.media().flush(&p.word, 8);
          fence();
          put(p.record_word, 0);
          fence();
        }
        put(p.entry, 0);
        fence();
        m.op_begin();
        put(p.word, 99);
        fence();
        put(p.entry, 2);
        put(p.committed, 1);
        fence();
        m.op_end();
      },
      [](const logged_pool& p, const window& w) {
        const bool there = p.entry == 2 && p.committed == 1;
        if (!there) return w.promised == 0 ? pass() : fault("the object is not there");
        return p.word == 99 ? pass() : fault("a change of a store that is gone was made in another's object");
      });
  s.recover = [](machine& m) {
    auto& p = image_of<logged_pool>(m);
    if (p.record_word == 0) return pass();
    p.word = p.record_value;
    m.media().flush(&p.word, 8);
    m.media().fence(edge{"zoo/F102, recovery"});
    return pass();
  };
  return s;
}

// Pages after a cluster become its own by one store; who names them in the cluster's map first has them outside.
struct growing_cluster {
  alignas(64) uint64_t pages;
  alignas(64) uint64_t map[8];
};
subject f103(twin t) {
  return on<growing_cluster>(
      "F103",
      [t](machine& m, growing_cluster& c) {
        const auto put = [&](uint64_t& word, uint64_t value) {
          word = value;
          m.media().flush(&word, sizeof word);
        };
        m.op_begin();
        put(c.pages, 4);
        if (!is_buggy(t)) m.media().fence(edge{"zoo/F103"});
        put(c.map[3], 1);
        m.media().fence(edge{"zoo/F103"});
        m.op_end();
      },
      [](const growing_cluster& c, const window& w) {
        for (std::size_t i = 0; i < 8; ++i) {
          if (c.map[i] != 0 && i >= c.pages) return fault("a page is named that the cluster has not");
        }
        return w.promised == 0 || c.map[3] == 1 ? pass() : fault("the page is not there");
      });
}

}  // namespace

std::span<const entry> store_entries() {
  static const entry all[] = {
      {.number = 96, .title = "store named before its page is durable", .make = f96},
      {.number = 97, .title = "cluster entered before its header is durable", .make = f97},
      {.number = 98, .title = "page given back before the list leads elsewhere", .make = f98},
      {.number = 99, .title = "cluster in the lists of two stores", .make = f99},
      {.number = 100, .title = "cluster that nobody knows after a crash", .make = f100},
      {.number = 101, .title = "cluster in no list while the next is in work", .make = f101},
      {.number = 102, .title = "log of a detached store made again in its pages", .make = f102},
      {.number = 103, .title = "page named before the cluster has it", .make = f103},
  };
  return all;
}

}  // namespace nvm::zoo
