// F: pools that open at another address, whose pointers are moved one by one.
#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using std::uint64_t;

constexpr uint64_t range = 0x1000;  // of a base
constexpr uint64_t first_base = 0x10000;
constexpr uint64_t second_base = 0x20000;
constexpr uint64_t base_inside_of_first = first_base + 0x800;

// A superblock that knows one base or two, a redo record of one pointer, and pointers.
struct relocated {
  struct alignas(64) word {
    uint64_t value;
  };
  word bases;        // the preferred one | another one << 32, 0: none
  word record;       // what the first pointer becomes; 0: no record
  word pointers[3];  // the last one is null
};
constexpr uint64_t offsets[] = {0x900, 8};

struct relocation_mistakes {
  bool null_moves = false;
  bool no_fence = false;
  bool record_stays = false;
  bool bases_overlap = false;
};

void put(machine& m, relocated::word& w, uint64_t value, const char* label) {
  w.value = value;
  persist(m.media(), &w, sizeof w.value, edge{label});
}

// Every open, also the one after a crash.
void relocate_pool(machine& m, relocated& x, const relocation_mistakes& wrong) {
  const uint64_t now = wrong.bases_overlap ? base_inside_of_first : second_base;
  if (x.record.value != 0) {
    if (x.pointers[0].value != x.record.value) put(m, x.pointers[0], x.record.value, "zoo/F119 replayed");
    if (!wrong.record_stays) put(m, x.record, 0, "zoo/F119 truncated");
  }
  if (x.bases.value == now) return;
  const uint64_t both = first_base | now << 32;
  if (x.bases.value != both) put(m, x.bases, both, "zoo/F115 joined");
  bool any = false;
  for (relocated::word& w : x.pointers) {
    if (w.value - now < range || (w.value == 0 && !wrong.null_moves)) continue;
    if (w.value != 0 && w.value - first_base >= range) continue;
    w.value = w.value - first_base + now;
    m.media().flush(&w.value, sizeof w.value);
    any = true;
  }
  if (any && !wrong.no_fence) m.media().fence(edge{"zoo/F116 moved"});
  put(m, x.bases, now, "zoo/F115 forgotten");
}

verdict all_lead_where_they_led(const relocated& x) {
  for (unsigned i = 0; i < 2; ++i) {
    const uint64_t place = x.pointers[i].value - offsets[i];
    const uint64_t other = x.bases.value >> 32;
    if (place != (x.bases.value & 0xFFFF'FFFF) && (other == 0 || place != other))
      return fault("a pointer leads elsewhere");
  }
  return x.pointers[2].value == 0 ? pass() : fault("null leads somewhere");
}

subject relocating(const char* name, const relocation_mistakes& wrong, bool with_record = false) {
  subject s = on<relocated>(
      name,
      [wrong](machine& m, relocated& x) {
        relocate_pool(m, x, wrong);
        m.promise();
      },
      [](const relocated& x, const window&) { return all_lead_where_they_led(x); });
  auto& start = *reinterpret_cast<relocated*>(s.image.data());
  start.bases.value = first_base;
  for (unsigned i = 0; i < 2; ++i) start.pointers[i].value = first_base + offsets[i];
  if (with_record) start.record.value = start.pointers[0].value;
  s.recover = [wrong](machine& m) {
    relocate_pool(m, image_of<relocated>(m), wrong);
    return pass();
  };
  return s;
}

subject f115(twin t) { return relocating("F115", {.null_moves = is_buggy(t)}); }
subject f116(twin t) { return relocating("F116", {.no_fence = is_buggy(t)}); }
subject f119(twin t) { return relocating("F119", {.record_stays = is_buggy(t)}, true); }
subject f120(twin t) { return relocating("F120", {.bases_overlap = is_buggy(t)}); }

}  // namespace

std::span<const entry> relocation_entries() {
  static const entry all[] = {
      {.number = 115, .title = "null moved with the pool", .make = f115},
      {.number = 116, .title = "base forgotten before the moved pointers are durable", .make = f116},
      {.number = 119, .title = "base forgotten while a log holds old pointers", .make = f119},
      {.number = 120, .title = "pool moved to a base inside of another one's range", .make = f120},
  };
  return all;
}

}  // namespace nvm::zoo
