// F: names of stores: a node that bursts, and a store that goes with its name.
#include "zoo.hpp"

namespace nvm::zoo {
namespace {

// A container of two names is full.  The third makes it burst: an inner node, and a container for each way on.
struct bursting {
  alignas(64) uint64_t link;  // 0: to `old`; 1: to `inner`
  alignas(64) uint64_t old[2];
  alignas(64) uint64_t inner[2];  // ways that there are; 1: to the container of that number
  struct alignas(64) {
    uint64_t names[2];
  } containers[2];
};
bool has_name(const bursting& x, uint64_t name) {
  if (x.link == 0) return x.old[0] == name || x.old[1] == name;
  for (unsigned i = 0; i < 2; ++i) {
    if (x.inner[i] == 1 && (x.containers[i].names[0] == name || x.containers[i].names[1] == name)) return true;
  }
  return false;
}
subject f104(twin t) {
  subject s = on<bursting>(
      "F104",
      [t](machine& m, bursting& x) {
        m.op_begin();
        x.containers[0].names[0] = 11;
        x.containers[0].names[1] = 12;
        x.containers[1].names[0] = 21;
        x.inner[0] = x.inner[1] = 1;
        m.media().flush(&x.inner, sizeof x.inner);
        m.media().flush(&x.containers[0], sizeof x.containers[0]);
        // The container of the other way is written back with the link.
        if (!is_buggy(t)) m.media().flush(&x.containers[1], sizeof x.containers[1]);
        m.media().fence(edge{"zoo/F104 nodes"});
        x.link = 1;
        if (is_buggy(t)) m.media().flush(&x.containers[1], sizeof x.containers[1]);
        persist(m.media(), &x.link, 8, edge{"zoo/F104 link"});
        m.op_end(21);
      },
      [](const bursting& x, const window& w) -> verdict {
        if (!has_name(x, 11) || !has_name(x, 12)) return fault("a name that was there is lost");
        if (x.link == 1 && !has_name(x, 21)) return fault("the node has burst, and a way of it leads nowhere");
        for (const auto& e : w.history) {
          if (e.end && !has_name(x, e.value)) return fault("a name that was told to be there is not");
        }
        return pass();
      });
  auto& start = *reinterpret_cast<bursting*>(s.image.data());
  start.old[0] = 11;
  start.old[1] = 12;
  return s;
}

// A store has a name, or is dying, or its page is free.
struct dropped {
  alignas(64) uint64_t name;  // 1: of the store
  alignas(64) uint64_t dying;
  alignas(64) uint64_t page;  // 1: in use
};
// Batches go on with a store that is dying.
verdict finish(machine& m) {
  auto& x = image_of<dropped>(m);
  if (x.dying == 0) return pass();
  x.page = 0;
  persist(m.media(), &x.page, 8, edge{"zoo/F105 recovered page"});
  x.dying = 0;
  persist(m.media(), &x.dying, 8, edge{"zoo/F105 recovered"});
  return pass();
}
verdict store_or_name(const dropped& x, const window&) {
  if (x.name != 0 && x.page == 0) return fault("a name leads to a page that is free");
  if (x.name == 0 && x.page != 0) return fault("a store has no name, and nobody drops it");
  return pass();
}
enum class drop_mistake : std::uint8_t { none, page_first, not_dying };
subject on_dropped(const char* name, drop_mistake mistake) {
  subject s = on<dropped>(
      name,
      [mistake](machine& m, dropped& x) {
        const auto set = [&m](uint64_t& word, uint64_t value, edge e) {
          word = value;
          persist(m.media(), &word, 8, e);
        };
        if (mistake == drop_mistake::page_first) {
          set(x.page, 0, edge{"zoo/F105 page"});
          set(x.name, 0, edge{"zoo/F105 name"});
          return;
        }
        if (mistake == drop_mistake::none) set(x.dying, 1, edge{"zoo/F105 dying"});
        set(x.name, 0, edge{"zoo/F105 name"});
        set(x.page, 0, edge{"zoo/F105 page"});
        if (mistake == drop_mistake::none) set(x.dying, 0, edge{"zoo/F105 dropped"});
      },
      store_or_name);
  s.recover = [](machine& m) {
    // A store that is dying has no name: recovery takes it first.
    auto& x = image_of<dropped>(m);
    if (x.dying != 0 && x.name != 0) {
      x.name = 0;
      persist(m.media(), &x.name, 8, edge{"zoo/F105 recovered name"});
    }
    return finish(m);
  };
  auto& start = *reinterpret_cast<dropped*>(s.image.data());
  start.name = start.page = 1;
  return s;
}
subject f105_page(twin t) {
  return on_dropped("F105, page first", is_buggy(t) ? drop_mistake::page_first : drop_mistake::none);
}
subject f105_dying(twin t) {
  return on_dropped("F105, not dying", is_buggy(t) ? drop_mistake::not_dying : drop_mistake::none);
}

}  // namespace

std::span<const entry> names_entries() {
  static const entry all[] = {
      {.number = 104, .title = "burst seen half", .make = f104, .tiers = t1_t3},
      {.number = 105, .title = "store freed before its name goes", .make = f105_page, .tiers = t1},
      {.number = 105, .title = "name gone, and the store is nobody's to drop", .make = f105_dying, .tiers = t1},
  };
  return all;
}

}  // namespace nvm::zoo
