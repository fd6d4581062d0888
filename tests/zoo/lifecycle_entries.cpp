// E: life cycle.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "../scratch_folder.hpp"
#include "guarded.hpp"
#include "media/concept.hpp"
#include "model_files.hpp"

namespace nvm::zoo {
namespace {

using explore::digest_history;
using explore::word_hash;
using rule = finding::rule;
using std::uint64_t;

// ---- what a pool may hold -------------------------------------------------------------------------------------------

// A list of three nodes.
struct nodes {
  struct node {
    uint64_t value;
    uint64_t next;  // offset in the image, or address; 0: none
  };
  alignas(64) uint64_t first;
  node all[3];
};
uint64_t link_to(const nodes& x, const void* p, twin t) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return is_buggy(t) ? address : address - reinterpret_cast<std::uintptr_t>(&x);
}
uint64_t sum_of(const nodes& x, twin t) {
  const uint64_t base = is_buggy(t) ? 0 : reinterpret_cast<std::uintptr_t>(&x);
  uint64_t sum = 0;
  for (uint64_t at = x.first; at != 0;) {
    const auto& n = *reinterpret_cast<const nodes::node*>(base + at);
    sum += n.value;
    at = n.next;
  }
  return sum;
}
// One image, mapped at three addresses.
report e66(twin t, const options& o) {
  subject s = on<nodes>(
      "E66", [](machine& m, nodes&) { m.promise(); },
      [t](const nodes& x, const window&) {
        return sum_of(x, t) == 1 + 2 + 3 ? pass() : fault("the list is another one at this address");
      });
  auto made = std::make_unique<machine>(s.image.size());
  auto& x = *reinterpret_cast<nodes*>(made->base());
  x.first = link_to(x, &x.all[2], t);
  x.all[2] = {1, link_to(x, &x.all[0], t)};
  x.all[0] = {2, link_to(x, &x.all[1], t)};
  x.all[1] = {3, 0};
  s.image.assign(made->base(), made->base() + made->size());
  std::byte* const there = made->base();
  made.reset();  // what still leads there faults
  constexpr std::ptrdiff_t away = std::ptrdiff_t{1} << 30;
  return explore_each(
      3,
      [&](std::size_t i) {
        subject one = s;
        one.at = there - static_cast<std::ptrdiff_t>(i) * away;
        return one;
      },
      o);
}

// Objects of two kinds.  What the kind does is code: a table of the program's, or an address that the object holds.
struct shapes {
  struct shape {
    uint64_t kind;
    uint64_t size;
  };
  alignas(64) shape all[2];
};
using area_of = uint64_t (*)(uint64_t);
uint64_t area_of_square(uint64_t size) { return size * size; }
uint64_t area_of_circle(uint64_t size) { return size * size * 3; }
constexpr area_of areas[] = {area_of_square, area_of_circle};

// The word would lead somewhere in this process; in the next one the same place holds something else.
bool is_address(uint64_t word) {
  std::ifstream maps{"/proc/self/maps"};
  std::string line;
  while (std::getline(maps, line)) {
    uint64_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &from, &to) == 2 && word >= from && word < to) return true;
  }
  return false;
}
subject e66_code(twin t) {
  return on<shapes>(
      "E66, code",
      [t](machine& m, shapes& x) {
        m.op_begin();
        for (uint64_t i = 0; i < 2; ++i) {
          x.all[i].kind = is_buggy(t) ? reinterpret_cast<std::uintptr_t>(areas[i]) : i;
          x.all[i].size = i + 5;
        }
        persist(m.media(), &x, sizeof x, edge{"zoo/E66"});
        m.op_end();
      },
      [](const shapes& x, const window&) -> verdict {
        for (const auto& s : x.all) {
          for (const uint64_t word : {s.kind, s.size}) {
            if (is_address(word)) return fault("an address of the process lies in the pool");
          }
        }
        return pass();
      });
}

// ---- creation, opening ----------------------------------------------------------------------------------------------

constexpr unsigned pool_name = 0;
constexpr uint64_t pool_magic = 0x4F4F'5A4C'4F4F'50ULL;
enum class slip : std::uint8_t { none, magic_with_body, name_not_synced };

// A pool of two pages: a header, which has the magic number and how many pages there are, and a body.
void create_pool(machine& m, slip wrong) {
  model_files fs{m};
  const unsigned f = fs.create(pool_name);
  fs.write(f, 0, 1, 2);
  for (unsigned w = 0; w < page_words; ++w) fs.write(f, 1, w, 100 + w);
  if (wrong != slip::magic_with_body) fs.sync_file(f);
  fs.write(f, 0, 0, pool_magic);
  fs.sync_file(f);
  if (wrong != slip::name_not_synced) fs.sync_names();
}
// What opens is whole.
verdict opens_whole(machine& m, const window& w) {
  const model_files fs{m};
  const unsigned f = fs.find(pool_name);
  const bool opens = f != model_files::none && fs.pages(f) != 0 && fs.read(f, 0, 0) == pool_magic;
  if (!opens) return w.promised == 0 ? pass() : fault("the pool is not there");
  if (fs.read(f, 0, 1) > fs.pages(f)) return fault("the header says more pages than the file has");
  for (unsigned i = 0; i < page_words; ++i) {
    if (fs.read(f, 1, i) != 100 + i) return fault("the pool opens, and its body is not there");
  }
  return pass();
}
subject pool_in_file(const char* name, slip wrong) {
  subject s = on<files_image>(
      name,
      [wrong](machine& m, files_image&) {
        m.op_begin();
        create_pool(m, wrong);
        m.op_end();
      },
      [](const files_image&, const window&) { return pass(); });
  s.oracle = opens_whole;
  return s;
}
subject e67_magic(twin t) { return pool_in_file("E67", is_buggy(t) ? slip::magic_with_body : slip::none); }
subject e67_name(twin t) { return pool_in_file("E67, name", is_buggy(t) ? slip::name_not_synced : slip::none); }

// Growing: the file first.
subject e71(twin t) {
  subject s = pool_in_file("E71", slip::none);
  s.run = [t](machine& m) {
    m.op_begin();
    create_pool(m, slip::none);
    m.op_end();
    m.op_begin();
    model_files fs{m};
    const unsigned f = fs.find(pool_name);
    if (is_buggy(t)) fs.write(f, 0, 1, 4);
    fs.allocate(f, 4);
    fs.sync_file(f);
    if (!is_buggy(t)) {
      fs.write(f, 0, 1, 4);
      fs.sync_file(f);
    }
    m.op_end();
  };
  return s;
}

// A program that opens a pool file, whose calls fail one after the other.
struct small_pool {
  platform::file file;
  uint64_t root = 0;
};
small_pool* open_pool(const std::string& path, small_pool& space) {
  auto f = platform::file::open(path.c_str(), O_RDWR, 0600, failing_calls());
  if (!f || !f->lock_exclusive()) return nullptr;
  uint64_t header[2];
  if (!f->read(0, header, sizeof header) || header[0] != pool_magic) return nullptr;
  space.file = std::move(*f);
  space.root = header[1];
  return &space;
}
// The pool's first 16 bytes: magic number, root.
void make_pool_file(const std::string& path, uint64_t root) {
  const uint64_t header[2] = {pool_magic, root};
  auto f = platform::file::open(path.c_str(), O_RDWR | O_CREAT);
  if (!f || !f->write(0, header, sizeof header)) ADD_FAILURE() << last_message();
}
report e68(twin t, const options& o) {
  const tests::scratch_folder folder{"zoo", false};
  const std::string path = folder.path("pool");
  make_pool_file(path, 7);
  return explore_failing_calls(
      "E68",
      [&]() -> verdict {
        small_pool space;
        const small_pool* pool = open_pool(path, space);
        asm volatile("" : "+r"(pool));                       // or the compiler would take the buggy twin's word for it
        if (!is_buggy(t) && pool == nullptr) return pass();  // reported to whoever started the server
        return pool->root == 7 ? pass() : fault("served from another root");
      },
      o);
}

// The header says how long the file is; it may be shorter only while nobody relies on it.
report e71_full(twin t, const options& o) {
  const tests::scratch_folder folder{"zoo", false};
  const std::string path = folder.path("pool");
  return explore_failing_calls(
      "E71, full",
      [&]() -> verdict {
        constexpr uint64_t grown = 8192;
        std::filesystem::remove(path);
        make_pool_file(path, 16);
        auto f = platform::file::open(path.c_str(), O_RDWR, 0600, failing_calls());
        if (!f) return pass();
        const auto say = [&] { return f->write(8, &grown, 8) && f->sync_data(); };
        // What fails is reported; the file is closed and opened again.
        if (is_buggy(t)) {
          if (say()) (void)f->allocate(0, grown).has_value();
        } else if (f->allocate(0, grown) && f->sync_data()) {
          (void)say();
        }
        uint64_t bytes = 0;
        std::ifstream in{path};
        in.seekg(8).read(reinterpret_cast<char*>(&bytes), 8);
        return bytes <= std::filesystem::file_size(path) ? pass() : fault("the header says more than the file has");
      },
      o);
}

// ---- side fields, upgrades, shutdown --------------------------------------------------------------------------------

struct item {
  alignas(64) uint64_t value;
  uint64_t expires;
  alignas(64) uint64_t cas;
};
struct items {
  item slots[2];
  alignas(64) uint64_t linked;  // slot, plus one
};
enum class cas_is : std::uint8_t { stored_before_linking, stored_after_linking, not_durable };
uint64_t digest_of(uint64_t value, uint64_t expires, uint64_t cas) {
  return word_hash(0, value) + word_hash(1, expires) + word_hash(2, cas);
}
subject replaced_item(const char* name, cas_is how) {
  const auto history = std::make_shared<digest_history>();
  return on<items>(
      name,
      [=](machine& m, items& x) {
        history->clear();
        history->state(0);
        for (uint64_t i = 1; i <= 4; ++i) {
          m.op_begin();
          item& it = x.slots[i % 2];
          it.value = 10 * i;
          it.expires = 1000 + i;
          if (how == cas_is::stored_before_linking) it.cas = i;
          m.media().flush(&it.value, 16);
          if (how == cas_is::stored_before_linking) m.media().flush(&it.cas, 8);
          m.media().fence(edge{"zoo/E69 item"});
          x.linked = i % 2 + 1;
          persist(m.media(), &x.linked, 8, edge{"zoo/E69 linked"});
          if (how != cas_is::stored_before_linking) it.cas = i;
          if (how == cas_is::stored_after_linking) persist(m.media(), &it.cas, 8, edge{"zoo/E69 number"});
          m.op_end();
          history->state(digest_of(10 * i, 1000 + i, i));
        }
      },
      [history](const items& x, const window& w) {
        if (x.linked == 0) return history->check(0, w);
        const item& it = x.slots[x.linked - 1];
        return history->check(digest_of(it.value, it.expires, it.cas), w);
      });
}
subject e69_late(twin t) {
  return replaced_item("E69", is_buggy(t) ? cas_is::stored_after_linking : cas_is::stored_before_linking);
}
subject e69_never(twin t) {
  return replaced_item("E69, lost", is_buggy(t) ? cas_is::not_durable : cas_is::stored_before_linking);
}

// Format 1 has times in seconds, format 2 in milliseconds; a pool of format 1 is upgraded when it is opened.
struct dated {
  alignas(64) uint64_t format;
  alignas(64) uint64_t times[4];
  alignas(64) uint64_t new_times[4];  // of format 2, unless it was made in place
};
verdict upgrade(machine& m, twin t) {
  auto& x = *reinterpret_cast<dated*>(m.base());
  if (x.format == 2) return pass();
  uint64_t* const to = is_buggy(t) ? x.times : x.new_times;
  for (int i = 0; i < 4; ++i) to[i] = x.times[i] * 1000;
  persist(m.media(), to, sizeof x.times, edge{"zoo/E70 converted"});
  x.format = 2;
  persist(m.media(), &x.format, 8, edge{"zoo/E70 upgraded"});
  return pass();
}
subject e70(twin t) {
  subject s = on<dated>(
      "E70",
      [t](machine& m, dated&) {
        m.op_begin();
        (void)upgrade(m, t);
        m.op_end();
      },
      [t](const dated& x, const window&) -> verdict {
        const uint64_t* const times = is_buggy(t) ? x.times : x.new_times;
        for (uint64_t i = 0; i < 4; ++i) {
          if (times[i] != (i + 1) * 1000) return fault("time " + std::to_string(i) + " is another one");
        }
        return pass();
      });
  auto& x = *reinterpret_cast<dated*>(s.image.data());
  x.format = 1;
  for (uint64_t i = 0; i < 4; ++i) x.times[i] = i + 1;
  s.recover = [t](machine& m) { return upgrade(m, t); };
  return s;
}

// What programs of this and of later versions have written: a flag says how the values are to be read.
struct flagged {
  alignas(64) uint64_t magic;
  uint64_t features;
  uint64_t values[4];
};
constexpr uint64_t values_are_inverted = 1;  // the one feature that this program knows
void write_with(flagged& x, uint64_t features) {
  x.magic = pool_magic;
  x.features = features;
  for (uint64_t i = 0; i < 4; ++i) {
    x.values[i] = 50 + i;
    if ((features & values_are_inverted) != 0) x.values[i] = ~x.values[i];
    for (unsigned bit = 1; bit < 64; ++bit) {  // what the future has in store
      if ((features >> bit & 1) != 0) x.values[i] = std::rotl(x.values[i], 1) ^ bit;
    }
  }
}
report e70_features(twin t, const options& o) {
  const auto made = [t](std::size_t bit) {
    subject s = on<flagged>(
        "E70, features", [](machine& m, flagged&) { m.promise(); },
        [t](const flagged& x, const window&) -> verdict {
          if (!is_buggy(t) && (x.features & ~values_are_inverted) != 0) return pass();  // refused
          const uint64_t inverted = (x.features & values_are_inverted) != 0 ? ~uint64_t{0} : 0;
          for (uint64_t i = 0; i < 4; ++i) {
            if ((x.values[i] ^ inverted) != 50 + i) return fault("opened, and read as something else");
          }
          return pass();
        });
    write_with(*reinterpret_cast<flagged*>(s.image.data()), bit == 0 ? 0 : uint64_t{1} << (bit - 1));
    return s;
  };
  return explore_each(65, made, o);
}

// The number of entries is kept in volatile memory, stored when the pool is closed, and counted after a crash.
struct closed_pool {
  alignas(64) uint64_t clean;
  alignas(64) uint64_t count;
  alignas(64) uint64_t entries[8];
};
subject e72(twin t) {
  subject s = on<closed_pool>(
      "E72",
      [t](machine& m, closed_pool& x) {
        uint64_t count = 0;
        for (uint64_t i = 0; i < 3; ++i) {
          m.op_begin();
          x.entries[i] = 10 + i;
          persist(m.media(), &x.entries[i], 8, edge{"zoo/E72 entry"});
          ++count;
          m.op_end();
        }
        m.op_begin();
        const auto store_count = [&] {
          x.count = count;
          persist(m.media(), &x.count, 8, edge{"zoo/E72 count"});
        };
        if (!is_buggy(t)) store_count();
        x.clean = 1;
        persist(m.media(), &x.clean, 8, edge{"zoo/E72 clean"});
        if (is_buggy(t)) store_count();
        m.op_end();
      },
      [](const closed_pool& x, const window& w) {
        const auto there = static_cast<uint64_t>(8 - std::count(x.entries, x.entries + 8, 0));
        if (there < std::min<uint64_t>(w.promised, 3)) return fault("an entry is lost");
        return x.count == there ? pass() : fault("the count is not that of the entries");
      });
  s.recover = [](machine& m) {
    auto& x = *reinterpret_cast<closed_pool*>(m.base());
    if (x.clean == 1) return pass();
    x.count = static_cast<uint64_t>(8 - std::count(x.entries, x.entries + 8, 0));
    persist(m.media(), &x.count, 8, edge{"zoo/E72 counted"});
    return pass();
  };
  return s;
}

}  // namespace

std::span<const entry> lifecycle_entries() {
  static const entry all[] = {
      {.number = 66, .title = "absolute pointers", .hunt = e66},
      {.number = 66, .title = "addresses of code", .make = e66_code, .tiers = t1},
      {.number = 67, .title = "magic number not last", .make = e67_magic},
      {.number = 67,
       .title = "directory of a new pool not synced",
       .make = e67_name,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 68, .title = "pool used although opening it failed", .hunt = e68},
      {.number = 69, .title = "side field set after linking", .make = e69_late, .tiers = t1},
      {.number = 69,
       .title = "side field not durable",
       .make = e69_never,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 70, .title = "crash in an upgrade in place", .make = e70, .tiers = t1},
      {.number = 70, .title = "unknown feature ignored", .hunt = e70_features},
      {.number = 71, .title = "header of a pool grows before its file", .make = e71, .tiers = t1_t3},
      {.number = 71, .title = "header of a pool grows, its file cannot", .hunt = e71_full},
      {.number = 72, .title = "clean mark before the last data", .make = e72, .tiers = t1_t2},
  };
  return all;
}

}  // namespace nvm::zoo
