// F: pages of fast memory that leave for a second file.
#include <array>

#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using explore::digest_history;
using explore::word_hash;
using std::uint64_t;

constexpr uint64_t pages = 2;

// A page that is present is in fast memory; one that is not is where its word says.  Each has two slots in the second
// file, so that the old one stays until the new one counts.  A line each: the second file's reach it in any order until
// a sync.
struct tier_image {
  struct alignas(64) fast_page {
    uint64_t value;
    uint64_t present;
  };
  struct alignas(64) line {
    uint64_t value;
  };
  fast_page fast[pages];
  line slots[pages][2];
  line words[pages];  // slot + 1, 0: none
};

enum class tier_mistake : std::uint8_t { none, slot_not_synced, before_its_word, slow_wins };

class swapped_pages {
 public:
  swapped_pages(machine& m, tier_mistake wrong) : m_{m}, x_{image_of<tier_image>(m)}, wrong_{wrong} {}

  void store(uint64_t page, uint64_t value) {
    bring(page);
    x_.fast[page].value = value;
    persist(m_.media(), &x_.fast[page].value, 8, edge{"zoo/F109 store"});
  }
  void let_go(uint64_t page) {
    if (x_.fast[page].present == 0) return;
    const uint64_t slot = x_.words[page].value == 1 ? 1 : 0;
    x_.slots[page][slot].value = x_.fast[page].value;
    if (wrong_ == tier_mistake::before_its_word) give_back(page);
    x_.words[page].value = slot + 1;
    if (wrong_ != tier_mistake::slot_not_synced) m_.media().flush(&x_.slots[page][slot], 8);
    m_.media().flush(&x_.words[page], 8);
    m_.media().fence(edge{"zoo/F109 sync"});
    if (wrong_ == tier_mistake::slot_not_synced) m_.media().flush(&x_.slots[page][slot], 8);
    if (wrong_ != tier_mistake::before_its_word) give_back(page);
  }
  // Fast wins where it is present.
  void recover() {
    if (wrong_ != tier_mistake::slow_wins) return;
    for (uint64_t page = 0; page < pages; ++page) {
      if (const uint64_t word = x_.words[page].value; word != 0) {
        x_.fast[page].value = x_.slots[page][word - 1].value;
        persist(m_.media(), &x_.fast[page].value, 8, edge{"zoo/F111 recovered"});
      }
    }
  }
  static uint64_t read(const tier_image& x, uint64_t page) {
    if (x.fast[page].present != 0) return x.fast[page].value;
    const uint64_t word = x.words[page].value;
    return word == 0 || word > 2 ? 0 : x.slots[page][word - 1].value;
  }

 private:
  void bring(uint64_t page) {
    if (x_.fast[page].present != 0) return;
    x_.fast[page].value = read(x_, page);
    persist(m_.media(), &x_.fast[page].value, 8, edge{"zoo/F109 brought"});
    x_.fast[page].present = 1;
    persist(m_.media(), &x_.fast[page].present, 8, edge{"zoo/F109 present"});
  }
  void give_back(uint64_t page) {
    x_.fast[page].present = 0;
    persist(m_.media(), &x_.fast[page].present, 8, edge{"zoo/F109 given back"});
  }

  machine& m_;
  tier_image& x_;
  tier_mistake wrong_;
};

uint64_t digest_of(const std::array<uint64_t, pages>& values) {
  uint64_t d = 0;
  for (uint64_t page = 0; page < pages; ++page) d += word_hash(page, values[page]);
  return d;
}

subject swapped(const char* name, tier_mistake wrong) {
  const auto history = std::make_shared<digest_history>();
  subject s = on<tier_image>(
      name,
      [history, wrong](machine& m, tier_image&) {
        history->clear();
        std::array<uint64_t, pages> values{};
        history->state(digest_of(values));
        swapped_pages tier{m, wrong};
        for (uint64_t i = 1; i <= 5; ++i) {
          const uint64_t page = i / 2 % pages;
          m.op_begin();
          tier.store(page, 10 * i);
          m.op_end();
          values[page] = 10 * i;
          history->state(digest_of(values));
          if (i % 3 != 0) tier.let_go(page);
        }
      },
      [history](const tier_image& x, const window& w) {
        std::array<uint64_t, pages> values{};
        for (uint64_t page = 0; page < pages; ++page) values[page] = swapped_pages::read(x, page);
        return history->check(digest_of(values), w);
      });
  s.recover = [wrong](machine& m) {
    swapped_pages{m, wrong}.recover();
    return pass();
  };
  return s;
}

subject f109(twin t) { return swapped("F109", is_buggy(t) ? tier_mistake::slot_not_synced : tier_mistake::none); }
subject f110(twin t) { return swapped("F110", is_buggy(t) ? tier_mistake::before_its_word : tier_mistake::none); }
subject f111(twin t) { return swapped("F111", is_buggy(t) ? tier_mistake::slow_wins : tier_mistake::none); }

}  // namespace

std::span<const entry> tier_entries() {
  static const entry all[] = {
      {.number = 109, .title = "page given back before the second file has it", .make = f109},
      {.number = 110, .title = "fast page given back before its entry", .make = f110},
      {.number = 111, .title = "stale slow page shown after a kill", .make = f111, .tiers = t1_t2},
  };
  return all;
}

}  // namespace nvm::zoo
