// Static pointers survive a crash at any point, also while a second program goes on where a first has ended, and in a
// third after that: every field leads to what it led to, by name; where programs say so, words of objects without a
// type too.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include "../object/sample_types.hpp"
#include "cut_off.hpp"
#include "image_process.hpp"
#include "library_transactions.hpp"
#include "object/object.hpp"
#include "static_pointers_story.hpp"
#include "subjects.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::fault;
using explore::machine;
using explore::model;
using explore::options;
using explore::pass;
using explore::report;
using explore::subject;
using explore::verdict;
using explore::window;
using layout::static_kind;
using layout::static_state;
using object::static_object;
using object::static_table;

// Three builds.  Of the second alpha lies where beta was, and beta where gamma was; the third has another order, and
// nothing of the first one's spare.
constexpr unsigned programs = 3;
constexpr std::uint64_t low = std::uint64_t{0x5555} << 32;
static_table program(unsigned which) {
  const auto named = [](const char* name, std::uint64_t slot) {
    return static_object{static_kind::object, low + 0x41'0000 + slot * 64, 64, name};
  };
  const static_object image{static_kind::image, low + 0x40'0000 + which * 0x1000, 0x2'0000,
                            which == 2 ? "02 /bin/new" : "01 /bin/old"};
  switch (which) {
    case 0:
      return {{named("alpha", 0), named("beta", 1), named("gamma", 2), named("spare", 3), image},
              static_state::at_rest};
    case 1:
      return {{named("alpha", 1), named("beta", 2), named("gamma", 3), named("spare", 0), image},
              static_state::at_rest};
    default:
      return {{named("gamma", 0), named("alpha", 2), named("beta", 1), image}, static_state::at_rest};
  }
}
std::uint64_t place_in(const static_table& t, const char* name) {
  const auto row = t.find({static_kind::object, 0, 0, name});
  return row ? t.rows()[*row].address : 0;
}

type_description hook_type() {
  using enum layout::field_kind;
  return {"hook",
          40,
          8,
          {field("call", 0, static_pointer, 8), field("next", 8, pointer, 8, 1, layout::type_id_of("hook")),
           field("all", 16, static_pointer, 8, 3)}};
}
// struct __attribute__((packed)) tight { char tag; NVM_STATIC_PTR(void) one; NVM_STATIC_PTR(void) two; char more; };
type_description tight_type() {
  using enum layout::field_kind;
  return {"tight",
          18,
          1,
          {field("tag", 0, character, 1), field("one", 1, static_pointer, 8), field("two", 9, static_pointer, 8),
           field("more", 17, character, 1)}};
}
type_map_writer::words map_of_types() {
  type_map_writer w;
  for (const type_description& t : {hook_type(), tight_type()}) w.add(t);
  return w.finish();
}
const object::pointer_plans& plans(untyped words) {
  const auto made = [](untyped they) {
    const auto types = map_of_types();
    const auto map = read(types);
    auto all = map ? object::pointer_plans{*map} : object::pointer_plans{};
    if (they == untyped::may_lead) all.guess_static_pointers();
    return all;
  };
  static const object::pointer_plans without = made(untyped::are_left_alone), with = made(untyped::may_lead);
  return words == untyped::may_lead ? with : without;
}
// Of a word of the pool that is no token.
constexpr std::uint32_t taken_mark = 0x5A00'0007;
type_map_writer::words map_with(const static_table& t) {
  const auto bytes = t.bytes();
  return object::with_statics(map_of_types(), std::as_bytes(std::span{bytes}));
}

result<static_table> table_in(const std::byte* base, const geometry& g) {
  const auto at = read_anchor_word(base, g, anchor_word::types);
  if (!at) return at.error();
  if (*at == 0) return static_table{};
  const auto map = type_map::read(base + *at, g.size_bytes() - *at, *at);
  return map ? static_table::read(map->statics()) : result<static_table>{map.error()};
}

template <media M, class Transactions>
struct host {
  status pass(const object::static_mover& to, object::relocation_report& report) {
    // In two parts, as two other threads would.
    const auto run = [&](unsigned parts, auto&& f) {
      for (unsigned part = 0; part < parts; ++part) {
        computer.thread(part + 1);
        f(part);
      }
      computer.thread(0);
    };
    return object::move_all(medium, memory, g, plans(words), to, true, 2, run, store, report);
  }
  status publish(const static_table& t) { return store.publish(map_with(t)); }
  static std::string field_of(const object::foreign_pointer&) { return "a field"; }
  [[nodiscard]] std::uint32_t first_mark() const { return words == untyped::may_lead ? taken_mark : 0; }

  machine& computer;
  M& medium;
  std::byte* memory;
  geometry g;
  untyped words;
  Transactions store;
};

unsigned which_is(const static_table& stored) {
  const std::uint64_t alpha = place_in(stored, "alpha");
  unsigned now = 0;
  while (now + 1 < programs && place_in(program(now), "alpha") != alpha) ++now;
  return now;
}

template <class Host>
status open_by(Host h, next_program next) {
  const auto stored = table_in(h.memory, h.g);
  if (!stored) return stored.error();
  const unsigned which = next == next_program::another ? (which_is(*stored) + 1) % programs : 0;
  std::uint64_t moved = 0;
  return object::put_statics_right(h, *stored, program(which), moved);
}
status open_by(machine& m, kind_of_medium kind, next_program next, untyped words) {
  if (is_image(kind)) {
    image_process p{m};
    if (status s = p.open(m); !s) return s;
    const geometry g = geometry_of(p.superblock);
    const status done = open_by(
        host<image_media, transactions_on_image>{m, *p.medium, p.view.get(), g, words, transactions_on_image{p}}, next);
    if (!done) return done;
    if (status s = p.medium->durable(p.medium->last_lsn()); !s) return s;
    return p.medium->close();
  }
  if (status s = recover_image(m, kind); !s) return s;
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return sb.error();
  using medium = std::remove_reference_t<decltype(m.media())>;
  return open_by(host<medium, transactions_on_ground>{m, m.media(), m.base(), geometry_of(*sb), words,
                                                      transactions_on_ground{m, kind}},
                 next);
}

// ---- a pool whose fields are known ----------------------------------------------------------------------------------

struct expected_word {
  std::uint64_t at;
  const char* name;  // nullptr: the value as it is
  std::uint64_t offset;
};
struct known_pool {
  std::vector<std::byte> image;
  std::vector<expected_word> words;
};

void put(std::byte* memory, std::uint64_t at, std::uint64_t value) { std::memcpy(memory + at, &value, sizeof value); }

known_pool made_pool(kind_of_medium kind, untyped words) {
  crash_shape shape;
  shape.size_pages = shape.capacity_pages = 24;
  const std::vector<std::byte> fresh = new_image(shape, kind);
  machine m(fresh.size());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  std::vector<std::uint64_t> o;
  {
    const auto heap = open_ground(m, kind);
    EXPECT_NE(heap, nullptr) << last_message();
    EXPECT_TRUE(heap->acquire(0) && heap->begin(0)) << last_message();
    for (const std::uint64_t bytes : {40, 18, 40, 64}) {
      const auto at = heap->alloc(0, bytes);
      EXPECT_TRUE(at) << last_message();
      o.push_back(*at);
    }
    const auto map = map_with(program(0));
    EXPECT_TRUE(heap->publish_types(0, map.data(), map.size() * 8)) << last_message();
    EXPECT_TRUE(heap->commit(0)) << last_message();
    heap->release(0);
    EXPECT_TRUE(heap->close()) << last_message();
  }
  known_pool made;
  for (std::size_t i = 0; i < o.size(); ++i) {
    const std::uint64_t bytes = i == 1 ? 18 : i == 3 ? 64 : 40, at = o[i] - sizeof(layout::object_header);
    const layout::object_header h =
        layout::make_object_header(bytes, i == 3 ? 0 : layout::type_id_of(i == 1 ? "tight" : "hook"), at);
    std::memcpy(m.base() + at, &h, sizeof h);
    std::memset(m.base() + o[i], 0, bytes);
  }
  const auto lead = [&](std::uint64_t at, const char* name, std::uint64_t offset) {
    made.words.push_back({at, name, offset});
    put(m.base(), at, name == nullptr ? offset : place_in(program(0), name) + offset);
  };
  lead(o[0], "alpha", 0);
  lead(o[0] + 8, nullptr, low + 0x41'0000);  // no static pointer
  lead(o[0] + 16, "beta", 12);
  lead(o[0] + 24, "gamma", 63);
  lead(o[0] + 32, nullptr, 0);
  lead(o[1] + 1, "beta", 0);
  lead(o[1] + 9, "alpha", 1);
  lead(o[2], "gamma", 0);
  lead(o[2] + 16, nullptr, 0x1234);  // what nobody knows
  lead(o[2] + 24, "alpha", 0);
  lead(o[2] + 32, "beta", 0);
  const bool moves = words == untyped::may_lead;
  lead(o[3], moves ? "alpha" : nullptr, moves ? 0 : place_in(program(0), "alpha"));
  lead(o[3] + 8, nullptr, layout::token_of({1, 4}));
  lead(o[3] + 16, nullptr, std::uint64_t{taken_mark} << 32 | 5);
  lead(o[3] + 24, moves ? "beta" : nullptr, moves ? 16 : place_in(program(0), "beta") + 16);
  lead(o[3] + 32, nullptr, 0x41'0000);  // below what is taken for an address
  lead(o[3] + 40, nullptr, std::uint64_t{taken_mark + 1} << 32);
  lead(o[3] + 52, nullptr, place_in(program(0), "gamma"));  // at no multiple of 8
  made.image.assign(m.base(), m.base() + m.size());
  return made;
}

verdict judge(const machine& m, const known_pool& known) {
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return fault(last_message());
  const auto stored = table_in(m.base(), geometry_of(*sb));
  if (!stored) return fault(last_message());
  if (stored->state() != static_state::at_rest) return fault("the table is not at rest");
  const static_table now = program(which_is(*stored));
  if (!stored->says_the_same(now)) return fault("the table is of no program");
  for (const expected_word& w : known.words) {
    std::uint64_t value = 0;
    std::memcpy(&value, m.base() + w.at, sizeof value);
    const std::uint64_t expected = w.name == nullptr ? w.offset : place_in(now, w.name) + w.offset;
    if (value == expected) continue;
    char text[120];
    std::snprintf(text, sizeof text, "field at offset %lu: found %lx, expected %lx", w.at, value, expected);
    return fault(text);
  }
  return pass();
}

options options_of(kind_of_medium kind, model under) {
  options o = options_for(under);
  o.nesting = 3;
  o.nested_every = under == model::torn8 ? 256 : is_image(kind) ? 64 : 32;
  o.idempotence_every = 0;  // a second process is another program
  o.exhaustive_max = 128;
  return o;
}

class static_pointers_crash : public testing::TestWithParam<kind_of_medium> {};
TEST_P(static_pointers_crash, lead_to_what_they_led_to) {
  const model on_memory[] = {model::x86, model::torn8}, on_ssd[] = {model::ssd};
  for (const model under : is_image(GetParam()) ? std::span<const model>{on_ssd} : std::span<const model>{on_memory}) {
    for (const auto& [next, words] : {std::pair{next_program::another, untyped::are_left_alone},
                                      std::pair{next_program::the_first_again, untyped::are_left_alone},
                                      std::pair{next_program::another, untyped::may_lead},
                                      std::pair{next_program::the_first_again, untyped::may_lead}}) {
      const report r = explore_today(static_pointers(GetParam(), next, words), options_of(GetParam(), under));
      EXPECT_TRUE(r.clean()) << r.text();
      if (explores_all_today()) EXPECT_GT(r.nested_states, 50U);
      std::printf("%s\n", r.text().c_str());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(on, static_pointers_crash,
                         testing::ValuesIn(kinds_that([](const auto& k) { return k.part.relocates; })),
                         [](const auto& i) { return name_of(i.param); });

// A process is killed before its `point`-th write-back or fence, and leaves in caches what it has stored; the first
// program goes on.
TEST(static_pointers_crash, what_a_killed_process_left_in_caches_is_not_lost) {
  constexpr auto kind = kind_of_medium::direct;
  constexpr auto words = untyped::may_lead;
  const auto known = std::make_shared<const known_pool>(made_pool(kind, words));
  bool ended = false;
  unsigned point = 0;
  while (!ended && ++point < 400) {
    subject s = static_pointers(kind, next_program::the_first_again, words);
    s.image = known->image;
    s.run = [&](machine& m) {
      m.op_begin();
      const std::function<void()> first = [&] { (void)open_by(m, kind, next_program::another, words); };
      ended = cut_off{m, point, first}.ended();
      if (const status done = open_by(m, kind, next_program::the_first_again, words); !done) {
        std::fprintf(stderr, "%s\n", last_message());
      }
      m.op_end();
    };
    options o = options_of(kind, model::x86);
    o.nesting = 1;
    o.exhaustive_max = 16;
    o.random_rows = 2;
    const report r = explore(s, o);
    ASSERT_TRUE(r.clean()) << "point " << point << '\n' << r.text();
  }
  EXPECT_TRUE(ended);
  EXPECT_GT(point, 20U);
}

bool finds(plant bug, next_program after_a_crash, untyped words = untyped::are_left_alone) {
  options o = options_of(kind_of_medium::direct, model::x86);
  o.nesting = 2;
  o.print_violations = false;
  const subject s = static_pointers(kind_of_medium::direct, after_a_crash, words);
  planted_bug = bug;
  const bool found = explore(s, o).finds_violation();
  planted_bug = plant::none;
  return found;
}
TEST(static_pointers_crash, tables_with_new_addresses_over_old_fields_are_found) {
  EXPECT_TRUE(finds(plant::addresses_alone, next_program::another));
}
TEST(static_pointers_crash, tokens_that_no_table_announces_are_found) {
  // The program whose addresses the table has looks at nothing.
  EXPECT_FALSE(finds(plant::none, next_program::the_first_again));
  EXPECT_TRUE(finds(plant::tokens_unannounced, next_program::the_first_again));
}
TEST(static_pointers_crash, marks_that_a_word_begins_with_are_found) {
  EXPECT_FALSE(finds(plant::none, next_program::another, untyped::may_lead));
  EXPECT_TRUE(finds(plant::mark_taken, next_program::another, untyped::may_lead));
  EXPECT_TRUE(finds(plant::addresses_alone, next_program::another, untyped::may_lead));
}

}  // namespace

subject static_pointers(kind_of_medium kind, next_program after_a_crash, untyped words) {
  const auto known = std::make_shared<const known_pool>(made_pool(kind, words));
  subject s;
  s.name = std::string{"static pointers on "} + name_of(kind) + (words == untyped::may_lead ? ", words guessed" : "");
  s.image = known->image;
  s.run = [=](machine& m) {
    for (unsigned round = 0; round < 2; ++round) {
      m.op_begin();
      if (const status done = open_by(m, kind, next_program::another, words); !done)
        std::fprintf(stderr, "%s\n", last_message());
      m.op_end();
    }
  };
  s.recover = [=](machine& m) -> verdict {
    const status done = open_by(m, kind, after_a_crash, words);
    return done ? pass() : fault(last_message());
  };
  s.oracle = [=](machine& m, const window&) { return judge(m, *known); };
  return s;
}

}  // namespace nvm::tests
