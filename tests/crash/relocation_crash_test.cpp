// Relocation survives a crash at any point, also in the relocation after a crashed one and in the one after that: each
// process opens the pool at another address, and every pointer leads where it led.
//
// Method: a process takes the image at a base that is a number: one where the pool has never been, or the very first
// again.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <set>

#include "../object/sample_types.hpp"
#include "cut_off.hpp"
#include "image_process.hpp"
#include "object/object.hpp"
#include "source_places.hpp"
#include "subjects.hpp"

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

constexpr std::uint64_t base_number(std::uint64_t n) { return 0x2000'0000'0000 + n * (std::uint64_t{1} << 30); }

constexpr kind_of_medium kinds[] = {kind_of_medium::direct,         kind_of_medium::redo,
                                    kind_of_medium::redo_by_mark,   kind_of_medium::mnemosyne,
                                    kind_of_medium::mnemosyne_undo, kind_of_medium::image};

const object::pointer_plans& plans() {
  static const object::pointer_plans all = [] {
    const auto words = sample_map();
    const auto map = read(words);
    return map ? object::pointer_plans{*map} : object::pointer_plans{};
  }();
  return all;
}

// A pool of object::relocate() in memory.
template <media M>
struct pool_at {
  [[nodiscard]] base_ranges bases() const noexcept { return ranges_of(sb); }
  [[nodiscard]] std::uint64_t address() const noexcept { return now; }
  status begin_relocation(M& m) noexcept {
    const auto joined = join_base(sb, now);
    if (!joined) return joined.error();
    if (*joined) write_superblock(m, memory, sb);
    return {};
  }
  status finish_relocation(M& m) noexcept {
    forget_other_bases(sb, now);
    write_superblock(m, memory, sb);
    return {};
  }

  std::byte* memory;
  layout::superblock sb;
  std::uint64_t now;
};

// In two parts, as threads would.
template <media M>
status relocate_in(machine& m, M& medium, std::byte* memory, const layout::superblock& sb, std::uint64_t now) {
  if (!must_relocate(sb, now)) return {};
  pool_at<M> pool{memory, sb, now};
  object::relocation_report done;
  const auto run = [&](unsigned parts, auto&& f) {
    for (unsigned part = 0; part < parts; ++part) {
      m.thread(part);
      f(part);
    }
    m.thread(0);
  };
  return object::relocate(medium, memory, geometry_of(sb), plans(), pool, 2, run, done);
}

// Where a process opens the pool.
using choice = std::uint64_t (*)(const layout::superblock&);
// A pointer that was left behind assumes none of the bases that are known there.
std::uint64_t somewhere_new(const layout::superblock& sb) { return base_number(sb.generation + 1); }
std::uint64_t at_the_first_again(const layout::superblock& sb) {
  return sb.base_history_count >= 2 ? base_number(0) : somewhere_new(sb);
}

enum class order : std::uint8_t { right, before_recovery, without_state };

// As pool_file::open() does before anything else: what it finds of the superblock is durable, then both copies are
// whole.
status begin_process(machine& m) {
  auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return sb.error();
  const geometry g = geometry_of(*sb);
  for (unsigned c = 0; c < 2; ++c) m.media().flush(m.base() + g.superblock_at(c), sizeof *sb);
  m.media().fence(edge{"test/as the sync of an open"});
  sb->state = static_cast<std::uint32_t>(layout::pool_state::open);
  write_superblock(m.media(), m.base(), *sb);
  return {};
}

status open_at(machine& m, kind_of_medium kind, choice where, order how = order::right) {
  if (is_image(kind)) {
    image_process p{m};
    if (status s = p.open(m); !s) return s;
    if (status s = relocate_in(m, *p.medium, p.view.get(), p.superblock, where(p.superblock)); !s) return s;
    if (status s = p.medium->durable(p.medium->last_lsn()); !s) return s;
    return p.medium->close();
  }
  if (how != order::without_state) {
    if (status s = begin_process(m); !s) return s;
  }
  const auto relocated = [&]() -> status {
    const auto sb = pick_superblock(m.base(), m.size());
    return sb ? relocate_in(m, m.media(), m.base(), *sb, where(*sb)) : status{sb.error()};
  };
  if (how == order::before_recovery) {
    if (status s = relocated(); !s) return s;
    return recover_image(m, kind);
  }
  if (status s = recover_image(m, kind); !s) return s;
  return relocated();
}

// ---- a pool whose pointers are known --------------------------------------------------------------------------------

struct expected_word {
  std::uint64_t at;      // offset in the pool
  std::uint64_t offset;  // where it leads to; 0: null
  std::uint64_t foreign = 0;
};
struct known_pool {
  std::vector<std::byte> image;
  std::vector<expected_word> words;
};

void put(std::byte* memory, std::uint64_t at, std::uint64_t value) { std::memcpy(memory + at, &value, sizeof value); }

// An object of `type` in place of the one that is there.
void retype(std::byte* memory, std::uint64_t payload, std::uint64_t bytes, const char* type) {
  const std::uint64_t at = payload - sizeof(layout::object_header);
  const layout::object_header h = layout::make_object_header(bytes, layout::type_id_of(type), at);
  std::memcpy(memory + at, &h, sizeof h);
  std::memset(memory + payload, 0, bytes);
}

// A transaction of a process that dies: one that was not committed, whose log has the old pointer, or one that was, and
// is only in the log.
void leave_in_log(machine& m, kind_of_medium kind, std::uint64_t at, std::uint64_t value) {
  const auto g = open_ground(m, kind);
  ASSERT_NE(g, nullptr) << last_message();
  ASSERT_TRUE(g->acquire(0));
  ASSERT_TRUE(g->begin(0)) << last_message();
  painted bytes[8];
  for (unsigned i = 0; i < 8; ++i) bytes[i] = {at + i, 1, static_cast<std::uint8_t>(value >> 8 * i)};
  ASSERT_TRUE(g->paint(0, bytes, 8)) << last_message();
  const bool undone = kind.log == log_kind::lanes && !is_image(kind);
  if (undone || kind.log == log_kind::old_words) return;
  ASSERT_TRUE(g->commit(0)) << last_message();
  ASSERT_TRUE(g->sync_appended()) << last_message();
}

known_pool made_pool(kind_of_medium kind) {
  crash_shape shape;
  shape.size_pages = shape.capacity_pages = 24;
  known_pool made;
  const std::vector<std::byte> fresh = new_image(shape, kind);
  machine m(fresh.size());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  auto sb = *pick_superblock(m.base(), m.size());
  sb.base_address = base_number(0);
  layout::superblock copies[2];
  seal_superblocks(sb, copies);
  const geometry g = geometry_of(sb);
  for (unsigned c = 0; c < 2; ++c) std::memcpy(m.base() + g.superblock_at(c), &copies[c], sizeof sb);

  const std::uint64_t sizes[] = {40, 40, 96, 40};
  std::vector<std::uint64_t> o;
  {
    const auto heap = open_ground(m, kind);
    EXPECT_NE(heap, nullptr) << last_message();
    EXPECT_TRUE(heap->acquire(0) && heap->begin(0)) << last_message();
    for (const std::uint64_t bytes : sizes) {
      const auto at = heap->alloc(0, bytes);
      EXPECT_TRUE(at) << last_message();
      o.push_back(*at);
    }
    EXPECT_TRUE(heap->commit(0)) << last_message();
    heap->release(0);
    EXPECT_TRUE(heap->close()) << last_message();
  }
  for (unsigned i = 0; i < 4; ++i) retype(m.base(), o[i], sizes[i], i == 2 ? "table" : "node");
  const auto lead = [&](std::uint64_t at, std::uint64_t offset) {
    made.words.push_back({at, offset});
    put(m.base(), at, offset == 0 ? 0 : base_number(0) + offset);
  };
  lead(o[0], o[1]);
  lead(o[1], o[2] + 12);                // into an object
  lead(o[2] + 8, o[0]);                 // slots[].first
  lead(o[2] + 24, 0);                   // null
  lead(o[2] + 40, o[3] + 40);           // one past the end
  lead(o[2] + 72, o[2]);                // more[], itself
  lead(o[2] + 80, g.capacity_bytes());  // one past the end of the last object that there could be
  lead(o[2] + 88, o[1]);
  made.words.push_back({o[2] + 56, 0, 0x1234'5678});
  put(m.base(), o[2] + 56, 0x1234'5678);
  lead(o[3], o[0]);
  // The log has another value for one of them, which counts or not.
  leave_in_log(m, kind, o[3], base_number(0) + o[2]);
  if (kind.log != log_kind::old_words && (kind.log != log_kind::lanes || is_image(kind))) {
    made.words.back().offset = o[2];
  }
  made.image.assign(m.base(), m.base() + m.size());
  return made;
}

verdict judge(const machine& m, const known_pool& known) {
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return fault(last_message());
  if (sb->base_history_count != 0) return fault("several bases are left");
  for (const expected_word& w : known.words) {
    std::uint64_t value = 0;
    std::memcpy(&value, m.base() + w.at, sizeof value);
    const std::uint64_t expected = w.foreign != 0 ? w.foreign : w.offset == 0 ? 0 : sb->base_address + w.offset;
    if (value == expected) continue;
    char text[120];
    std::snprintf(text, sizeof text, "pointer at offset %lu: found %lx, expected %lx", w.at, value, expected);
    return fault(text);
  }
  return pass();
}

// `first`: where the process opens it whose crash comes first.
subject relocation(kind_of_medium kind, choice where = somewhere_new, order how = order::right,
                   choice first = somewhere_new) {
  const auto known = std::make_shared<const known_pool>(made_pool(kind));
  subject s;
  s.name = std::string{"relocation on "} + name_of(kind);
  s.image = known->image;
  s.run = [=](machine& m) {
    // Twice: a base that was forgotten may be used again.
    for (unsigned round = 0; round < 2; ++round) {
      m.op_begin();
      if (const status opened = open_at(m, kind, first, how); !opened) std::fprintf(stderr, "%s\n", last_message());
      m.op_end();
    }
  };
  s.recover = [=](machine& m) -> verdict {
    const status opened = open_at(m, kind, where, how);
    return opened ? pass() : fault(last_message());
  };
  s.oracle = [=](machine& m, const window&) { return judge(m, *known); };
  return s;
}

options options_of(kind_of_medium kind, model under) {
  options o = options_for(under);
  o.nesting = 3;
  o.nested_every = under == model::torn8 ? 64 : is_image(kind) ? 16 : 8;
  o.idempotence_every = 0;  // a second process opens elsewhere
  o.exhaustive_max = 256;
  return o;
}
std::vector<model> models_of(kind_of_medium kind) {
  if (is_image(kind)) return {model::ssd};
  return {model::x86, model::torn8};
}

class relocation_crash : public testing::TestWithParam<kind_of_medium> {};

TEST_P(relocation_crash, leaves_every_pointer_where_it_led) {
  for (const model under : models_of(GetParam())) {
    for (const choice where : {somewhere_new, at_the_first_again}) {
      const report r = explore(relocation(GetParam(), where), options_of(GetParam(), under));
      EXPECT_TRUE(r.clean()) << r.text();
      EXPECT_GT(r.nested_states, 100U);
      std::printf("%s\n", r.text().c_str());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(on, relocation_crash, testing::ValuesIn(kinds),
                         [](const auto& i) { return name_of(i.param); });

// A process is killed before its `point`-th write-back or fence, and leaves in caches what it has stored; the next one
// goes on at the same base.
subject killed_relocation(kind_of_medium kind, unsigned point, bool& ended) {
  const auto known = std::make_shared<const known_pool>(made_pool(kind));
  const choice there = [](const layout::superblock&) { return base_number(50); };
  subject s = relocation(kind);
  s.name += ", killed at " + std::to_string(point);
  s.image = known->image;
  s.run = [=, &ended](machine& m) {
    m.op_begin();
    status opened;
    const std::function<void()> first = [&] { opened = open_at(m, kind, there); };
    ended = cut_off{m, point, first}.ended();
    opened = open_at(m, kind, there);
    if (!opened) std::fprintf(stderr, "%s\n", last_message());
    m.op_end();
  };
  s.oracle = [=](machine& m, const window&) { return judge(m, *known); };
  return s;
}

TEST(relocation_crash, what_a_killed_relocation_left_in_caches_is_not_lost) {
  for (const kind_of_medium kind : {kind_of_medium::direct, kind_of_medium::redo, kind_of_medium::mnemosyne}) {
    bool ended = false;
    unsigned point = 0;
    while (!ended && ++point < 200) {
      const report r = explore(killed_relocation(kind, point, ended), options_of(kind, model::x86));
      EXPECT_TRUE(r.clean()) << name_of(kind) << ", point " << point << '\n' << r.text();
    }
    EXPECT_TRUE(ended);
    EXPECT_GT(point, 10U);
  }
}

// ---- what is wrong is found -----------------------------------------------------------------------------------------

bool finds(const subject& s, kind_of_medium kind, model under, const explore::mutation& m = {}) {
  options o = options_of(kind, under);
  o.print_violations = false;
  return explore(s, o, m).finds_violation();
}

TEST(relocation_crash, history_forgotten_before_the_fence_is_found) {
  for (const kind_of_medium kind : {kind_of_medium::direct, kind_of_medium::redo, kind_of_medium::mnemosyne}) {
    EXPECT_TRUE(finds(relocation(kind), kind, model::x86, explore::without(edge{"object/E1"}))) << name_of(kind);
  }
}

// The others have nothing in their logs that would be replayed: a commit has brought it home.
TEST(relocation_crash, history_forgotten_while_a_log_holds_old_pointers_is_found) {
  for (const kind_of_medium kind : {kind_of_medium::direct, kind_of_medium::redo}) {
    EXPECT_TRUE(finds(relocation(kind, somewhere_new, order::before_recovery), kind, model::x86)) << name_of(kind);
  }
}

// What a crash has left of a superblock is made whole by parts of the next one, and forgets a base that pointers have
// got back meanwhile: were it not for the process that writes both copies before it moves anything.
TEST(relocation_crash, superblock_that_is_completed_by_a_later_one_is_found) {
  const subject s = relocation(kind_of_medium::direct, at_the_first_again, order::without_state);
  EXPECT_TRUE(finds(s, kind_of_medium::direct, model::torn8));
}

struct with_planted {
  explicit with_planted(plant bug) { planted_bug = bug; }
  with_planted(const with_planted&) = delete;
  with_planted& operator=(const with_planted&) = delete;
  ~with_planted() { planted_bug = plant::none; }
};
TEST(relocation_crash, null_that_is_moved_is_found) {
  const subject s = relocation(kind_of_medium::direct);
  const with_planted p{plant::null_moved};
  EXPECT_TRUE(finds(s, kind_of_medium::direct, model::x86));
}
TEST(relocation_crash, base_that_pointers_get_before_the_history_has_it_is_found) {
  const auto there = [](const layout::superblock&) { return base_number(50); };
  const subject s = relocation(kind_of_medium::direct, somewhere_new, order::right, there);
  EXPECT_FALSE(finds(s, kind_of_medium::direct, model::x86));
  const with_planted p{plant::base_not_in_history};
  EXPECT_TRUE(finds(s, kind_of_medium::direct, model::x86));
}
TEST(relocation_crash, overlapping_bases_are_found) {
  // The second base begins where a part of the first still is: what a pointer means depends on who reads it.
  const auto known = std::make_shared<const known_pool>(made_pool(kind_of_medium::direct));
  machine m(known->image.size());
  std::memcpy(m.base(), known->image.data(), known->image.size());
  ASSERT_TRUE(recover_image(m, kind_of_medium::direct)) << last_message();
  auto sb = *pick_superblock(m.base(), m.size());
  EXPECT_EQ(join_base(sb, base_number(0) + 4096).error(), errc::address);
  base_ranges both = ranges_of(sb);
  both.bases[both.count++] = base_number(0) + 4096;
  const object::mover twin{both, base_number(0) + 4096, false};
  std::uint64_t value = base_number(0) + 8192;              // offset 8192 of the first
  EXPECT_EQ(twin.move(value), object::mover::what::stays);  // and 4096 of the second: moved by nothing, wrongly
}

// ---- every edge is necessary ----------------------------------------------------------------------------------------

TEST(relocation_edges, are_all_necessary_and_known) {
  const std::vector<subject> subjects{relocation(kind_of_medium::direct), relocation(kind_of_medium::redo)};
  options o = options_of(kind_of_medium::direct, model::torn8);
  o.nested_every = 64;
  o.print_violations = false;
  const auto is_own = [](const std::string& place) { return place.find("object/") != std::string::npos; };
  const explore::mutation_report score = mutation_score(subjects, o, {}, {}, is_own);
  std::printf("%s\n", score.text().c_str());
  EXPECT_TRUE(score.clean());
  std::set<std::string> met;
  for (const auto& mutant : score.mutants) {
    EXPECT_TRUE(mutant.killed) << mutant.change.text();
    met.insert(mutant.change.place);
  }
  const auto labels = places_in_sources({"object"}, std::regex{R"re(edge\{"([^"]+)"\})re"}, false);
  EXPECT_EQ(labels.size(), 1U);
  for (const auto& l : labels) EXPECT_TRUE(met.contains(l.text)) << l.text;
  const auto sites = places_in_sources({"object"}, std::regex{R"re(\b(m|medium_)\.flush\()re"}, true);
  EXPECT_EQ(sites.size(), 1U);
  for (const auto& s : sites) {
    const bool known = std::any_of(met.begin(), met.end(), [&](const std::string& p) { return p.ends_with(s.text); });
    EXPECT_TRUE(known) << s.text;
  }
}

}  // namespace
}  // namespace nvm::tests
