// Fields that are zero after each open (NVM_RESET) are zero after a crash at any point, also of the pass that zeroes
// them and of a transaction that changes their neighbours; nothing else is changed by it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <span>

#include "../object/sample_types.hpp"
#include "ground.hpp"
#include "image_process.hpp"
#include "object/object.hpp"
#include "subjects.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {
namespace resets {

using explore::machine;
using explore::model;
using explore::report;
using explore::subject;
using explore::verdict;
using explore::window;

struct kept_object {
  const char* type;
  std::uint64_t bytes;
  std::uint64_t at = 0;  // of the payload
  // Whether the byte is one of a field that is zero after each open.
  [[nodiscard]] bool resets(std::uint64_t k) const {
    if (std::strcmp(type, "counted") == 0) return k % 16 >= 8 && (k < 16 || bytes % 16 == 0);
    if (std::strcmp(type, "locked") == 0)
      return (k >= 8 && k < 12) || (k >= 16 && k < 20) || (k >= 24 && k < 28) || k >= 28;
    return false;
  }
};
constexpr unsigned char used = 0x5A;
constexpr unsigned painted_objects = 2;  // the first ones, whose first word a transaction changes
struct known_pool {
  std::vector<std::byte> image;
  std::vector<kept_object> objects = {{"counted", 16}, {"counted", 64}, {"locked", 50},
                                      {"counted", 21}, {"node", 40},    {"", 64}};
};

const object::reset_plans& plans() {
  static const object::reset_plans all = [] {
    const auto words = map_of_resets();
    const auto map = read(words);
    return map ? object::reset_plans{*map} : object::reset_plans{};
  }();
  return all;
}

known_pool made_pool(kind_of_medium kind) {
  known_pool made;
  crash_shape shape;
  shape.size_pages = shape.capacity_pages = 24;
  const std::vector<std::byte> fresh = new_image(shape, kind);
  machine m(fresh.size());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  {
    const auto heap = open_ground(m, kind);
    EXPECT_NE(heap, nullptr) << last_message();
    EXPECT_TRUE(heap->acquire(0) && heap->begin(0)) << last_message();
    for (kept_object& o : made.objects) {
      const auto at = heap->alloc(0, o.bytes);
      EXPECT_TRUE(at) << last_message();
      o.at = *at;
    }
    const auto map = map_of_resets();
    EXPECT_TRUE(heap->publish_types(0, map.data(), map.size() * 8)) << last_message();
    EXPECT_TRUE(heap->commit(0)) << last_message();
    heap->release(0);
    EXPECT_TRUE(heap->close()) << last_message();
  }
  for (const kept_object& o : made.objects) {
    const std::uint64_t at = o.at - sizeof(layout::object_header);
    const auto h = layout::make_object_header(o.bytes, *o.type == 0 ? 0 : layout::type_id_of(o.type), at);
    std::memcpy(m.base() + at, &h, sizeof h);
    std::memset(m.base() + o.at, used, o.bytes);
  }
  made.image.assign(m.base(), m.base() + m.size());
  return made;
}

// As an open does it, by two threads.
void zero(machine& m, std::byte* memory, const geometry& g) {
  object::reset_report done;
  for (unsigned part = 0; part < 2; ++part) {
    m.thread(part + 1);
    object::reset_part(memory, g, plans(), part, 2, done);
  }
  m.thread(0);
}

// Stores to all the fields, as a program does: nobody logs them or writes them back.
void use(std::byte* memory, const known_pool& known) {
  for (const kept_object& o : known.objects) {
    for (std::uint64_t k = 0; k < o.bytes; ++k) {
      if (o.resets(k)) memory[o.at + k] = std::byte{used};
    }
  }
}

status open_and_work(machine& m, kind_of_medium kind, const known_pool& known, std::uint8_t round) {
  const auto heap = open_ground(m, kind);
  if (heap == nullptr) return fail(errc::corrupt, "%s", std::string{last_message()}.c_str());
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return sb.error();
  zero(m, heap->base(), geometry_of(*sb));
  if (!heap->acquire(0)) return fail(errc::invalid, "no lane");
  if (status s = heap->begin(0); !s) return s;
  painted words[painted_objects];
  for (unsigned i = 0; i < painted_objects; ++i) words[i] = {known.objects[i].at, 8, round};
  if (status s = heap->paint(0, words, painted_objects); !s) return s;
  use(heap->base(), known);
  if (const auto done = heap->commit(0); !done) return done.error();
  heap->release(0);
  return heap->close();
}

verdict judge(const std::byte* memory, const known_pool& known) {
  const auto wrong = [](const char* what, const kept_object& o, std::uint64_t k, std::byte found) {
    char text[120];
    std::snprintf(text, sizeof text, "%s: byte %lu of the object at offset %lu: found %x", what, k, o.at,
                  std::to_integer<unsigned>(found));
    return explore::fault(text);
  };
  const std::byte first = memory[known.objects[0].at];
  for (std::size_t i = 0; i < known.objects.size(); ++i) {
    const kept_object& o = known.objects[i];
    for (std::uint64_t k = 0; k < o.bytes; ++k) {
      const std::byte found = memory[o.at + k];
      if (o.resets(k)) {
        if (found != std::byte{0}) return wrong("not zero", o, k, found);
      } else if (found != (i < painted_objects && k < 8 ? first : std::byte{used})) {
        return wrong("changed", o, k, found);
      }
    }
  }
  return explore::pass();
}

// What an open after the crash does.
enum class opening : std::uint8_t { zeroes, leaves_fields, zeroes_whole_words };

subject fields(kind_of_medium kind, opening how = opening::zeroes) {
  const auto known = std::make_shared<const known_pool>(made_pool(kind));
  subject s;
  s.name = std::string{"fields that are zero after each open, on "} + name_of(kind);
  s.image = known->image;
  s.run = [=](machine& m) {
    for (std::uint8_t round = 1; round <= 2; ++round) {
      m.op_begin();
      if (const status done = open_and_work(m, kind, *known, round); !done)
        std::fprintf(stderr, "%s\n", last_message());
      m.op_end();
    }
  };
  const auto open = [=](machine& m, std::byte* memory, const geometry& g) -> verdict {
    if (how != opening::leaves_fields) zero(m, memory, g);
    if (how == opening::zeroes_whole_words) std::memset(memory + known->objects[2].at + 8, 0, 8);
    return judge(memory, *known);
  };
  s.recover = [=](machine& m) -> verdict {
    if (is_image(kind)) {
      image_process p{m};
      if (!p.open(m)) return explore::fault(last_message());
      const verdict v = open(m, p.view.get(), geometry_of(p.superblock));
      return p.medium->close() ? v : explore::fault(last_message());
    }
    if (!recover_image(m, kind)) return explore::fault(last_message());
    const auto sb = pick_superblock(m.base(), m.size());
    return sb ? open(m, m.base(), geometry_of(*sb)) : explore::fault(last_message());
  };
  s.oracle = [](machine&, const window&) { return explore::pass(); };
  for (const kept_object& o : known->objects) {
    for (std::uint64_t k = 0; k < o.bytes; ++k) {
      if (!o.resets(k)) continue;
      if (k == 0 || !o.resets(k - 1)) s.volatile_bytes.push_back({o.at + k, 0});
      ++s.volatile_bytes.back().bytes;
    }
  }
  return s;
}

explore::options options_of(kind_of_medium kind, model under) {
  explore::options o = options_for(under);
  o.nesting = 2;
  o.nested_every = is_image(kind) ? 64 : 32;
  o.exhaustive_max = 128;
  return o;
}

class reset_crash : public testing::TestWithParam<kind_of_medium> {};
TEST_P(reset_crash, leaves_fields_that_the_next_open_zeroes_and_nothing_else) {
  const model on_memory[] = {model::x86, model::torn8}, on_ssd[] = {model::ssd};
  for (const model under : is_image(GetParam()) ? std::span<const model>{on_ssd} : std::span<const model>{on_memory}) {
    const report r = explore_today(fields(GetParam()), options_of(GetParam(), under));
    EXPECT_TRUE(r.clean()) << r.text();
    std::printf("%s\n", r.text().c_str());
  }
}
INSTANTIATE_TEST_SUITE_P(on, reset_crash, testing::ValuesIn(kinds_that([](const auto& k) { return k.part.relocates; })),
                         [](const auto& i) { return name_of(i.param); });

TEST(reset_crash, opens_that_leave_fields_or_zero_their_neighbours_are_found) {
  for (const kind_of_medium& kind : {kind_of_medium::direct, kind_of_medium::image}) {
    explore::options o = options_of(kind, is_image(kind) ? model::ssd : model::x86);
    o.print_violations = false;
    for (const opening how : {opening::leaves_fields, opening::zeroes_whole_words}) {
      EXPECT_TRUE(explore::explore(fields(kind, how), o).finds_violation()) << name_of(kind);
    }
  }
}

}  // namespace resets
}  // namespace
}  // namespace nvm::tests
