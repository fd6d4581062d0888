// F: pages that go back to the file system while a pool is used.
#include <bit>

#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using std::uint64_t;

constexpr uint64_t value_of_page = 0x7E57'0000'0000'0001;

// One page, what the page map says of it, and a log of one record that recovery makes again.
struct punched_pool {
  alignas(64) uint64_t entry;       // 1: in use
  alignas(64) uint64_t page;        // what it holds; 0: a hole
  alignas(64) uint64_t freed;       // the record: the entry becomes 0
  alignas(64) uint64_t pool_pages;  // the superblock
  alignas(64) uint64_t file_pages;  // the file's length
};

void put(machine& m, uint64_t& word, uint64_t value) {
  word = value;
  m.media().flush(&word, sizeof word);
}

// The page is freed by a record; then it loses its blocks.
subject f106(twin t) {
  subject s = on<punched_pool>(
      "F106",
      [t](machine& m, punched_pool& p) {
        put(m, p.page, value_of_page);
        m.media().fence(edge{"zoo/F106 page"});
        put(m, p.entry, 1);
        m.media().fence(edge{"zoo/F106 entry"});
        m.op_begin();
        put(m, p.freed, 1);
        if (!is_buggy(t)) m.media().fence(edge{"zoo/F106 free"});
        // The file system does that at any time from now on.
        put(m, p.page, 0);
        m.media().fence(edge{"zoo/F106 hole"});
        m.op_end();
      },
      [](const punched_pool& p, const window& w) {
        if (w.promised != 0 && p.entry != 0) return fault("a page that was freed is in use");
        return p.entry == 0 || p.page == value_of_page ? pass() : fault("a page in use has lost what it held");
      });
  s.recover = [](machine& m) {
    auto& p = image_of<punched_pool>(m);
    if (p.freed == 0 || p.entry == 0) return pass();
    put(m, p.entry, 0);
    m.media().fence(edge{"zoo/F106, recovery"});
    return pass();
  };
  return s;
}

// The pool's last page is free: the superblock says so before the file is cut, and a record that leads there is gone.
enum class cut_mistake : std::uint8_t { none, file_first, under_record };
subject cut(const char* title, cut_mistake wrong) {
  subject s = on<punched_pool>(
      title,
      [wrong](machine& m, punched_pool& p) {
        put(m, p.pool_pages, 2);
        put(m, p.file_pages, 2);
        put(m, p.freed, 1);  // of page 1; may be made again
        m.media().fence(edge{"zoo/F107 grown"});
        m.explore_from_here();
        if (wrong != cut_mistake::under_record) {
          put(m, p.freed, 0);
          m.media().fence(edge{"zoo/F107 settled"});
        }
        if (wrong == cut_mistake::file_first) put(m, p.file_pages, 1);
        put(m, p.pool_pages, 1);
        m.media().fence(edge{"zoo/F107 size"});
        put(m, p.file_pages, 1);
        m.media().fence(edge{"zoo/F107 cut"});
      },
      [](const punched_pool& p, const window&) {
        if (p.pool_pages > p.file_pages) return fault("the pool is longer than its file");
        return p.freed == 0 || p.pool_pages == 2 ? pass() : fault("a record leads beyond the end of the pool");
      });
  return s;
}
subject f107_size(twin t) { return cut("F107", is_buggy(t) ? cut_mistake::file_first : cut_mistake::none); }
subject f107_record(twin t) { return cut("F107", is_buggy(t) ? cut_mistake::under_record : cut_mistake::none); }

// A reader that validates afterwards has got the address of an object that another thread frees; a third gives the
// page away.  Every order of their steps is tried: a load from a page that is gone is a fault, whatever is found later.
report f108(twin t, const options&) {
  uint64_t tried = 0;
  constexpr unsigned reader = 3;   // enters and reads the root, loads from the page, looks again and leaves
  constexpr unsigned trimmer = 4;  // unlinks, frees, waits, gives the page away
  for (unsigned order = 0; order < 1U << (reader + trimmer); ++order) {
    if (static_cast<unsigned>(std::popcount(order)) != trimmer) continue;
    ++tried;
    bool linked = true, free = false, gone = false, inside = false, has = false, waits = false;
    unsigned r = 0, g = 0;
    bool fault_met = false;
    const auto read = [&] {
      if (r == 0) {
        inside = true;
        has = linked;
      } else if (r == 1) {
        fault_met = fault_met || (has && gone);
      } else {
        inside = false;
      }
      ++r;
    };
    for (unsigned i = 0; i < reader + trimmer; ++i) {
      if ((order >> i & 1) == 0) {
        read();
        continue;
      }
      if (g == 0) linked = false;
      if (g == 1) free = true;
      if (g == 2) waits = inside && !is_buggy(t);
      // Waiting lets the reader go on.
      while (waits && inside) read();
      if (g == 3) gone = free;
      ++g;
      if (r > reader) break;
    }
    if (fault_met) return judged("F108", tried, fault("a reader met a page that was given away"));
  }
  return judged("F108", tried, pass());
}

}  // namespace

std::span<const entry> trim_entries() {
  static const entry all[] = {
      {.number = 106, .title = "hole punched before the page map says free", .make = f106, .tiers = t1_t3},
      {.number = 107, .title = "file cut before its pool is shorter", .make = f107_size, .tiers = t1_t3},
      {.number = 107, .title = "pool cut while a record leads beyond its end", .make = f107_record, .tiers = t1_t3},
      {.number = 108, .title = "extent given back while a reader is in it", .hunt = f108},
  };
  return all;
}

}  // namespace nvm::zoo
