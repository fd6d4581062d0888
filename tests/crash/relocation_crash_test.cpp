// Relocation survives a crash at any point, also in the relocation after a crashed one and in the one after that: each
// process opens the pool at another address, and every pointer leads where it led.
//
// Method: a process takes the image at a base that is a number: one where the pool has never been, or the very first
// again.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "../object/sample_types.hpp"
#include "cut_off.hpp"
#include "edge_survivors.hpp"
#include "image_process.hpp"
#include "library_transactions.hpp"
#include "object/numbered_objects.hpp"
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

// They differ in several bytes, so that half of a pointer is none.
constexpr std::uint64_t base_number(std::uint64_t n) {
  return 0x2000'0000'0000 + n * 0x141'4000'0000 % (std::uint64_t{1} << 45);
}

const object::pointer_plans& plans() {
  static const object::pointer_plans all = [] {
    type_map_writer w;
    for (const type_description& t : {node_type(), table_type(), odd_type()}) w.add(t);
    const auto words = w.finish();
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

// The same, as a relocation by transactions sees it.
template <media M, class Store>
struct numbered_pool_at final : object::numbered_pool {
  numbered_pool_at(machine& on, M& medium, const pool_at<M>& at, Store& by)
      : computer{on}, m{medium}, pool{at}, words{by} {}
  [[nodiscard]] std::uint64_t address() const noexcept override { return pool.now; }
  [[nodiscard]] numbered_bases numbers() const noexcept override { return numbers_of(pool.sb); }
  [[nodiscard]] bool numbers_objects() const noexcept override {
    return (pool.sb.features_incompat & layout::feature_numbers) != 0;
  }
  status begin() noexcept override {
    const auto joined = join_numbered_base(pool.sb, pool.now);
    if (!joined) return joined.error();
    if (*joined) write_superblock(m, pool.memory, pool.sb);
    return {};
  }
  status prefer_base() noexcept override {
    if (pool.sb.base_address == pool.now) return {};
    pool.sb.base_address = pool.now;
    write_superblock(m, pool.memory, pool.sb);
    return {};
  }
  status finish() noexcept override { return pool.finish_relocation(m); }
  status store(std::span<const tx::assigned_word> all) noexcept override { return words(all); }
  // In turn, as threads would.
  void run(unsigned parts, const std::function<void(unsigned)>& f) override {
    for (unsigned part = 0; part < parts; ++part) {
      computer.thread(part);
      f(part);
    }
    computer.thread(0);
  }

  machine& computer;
  M& m;
  pool_at<M> pool;
  Store& words;
};

enum class order : std::uint8_t {
  right,
  before_recovery,
  without_state,
  packed_without_a_log,
  by_number,
  by_page,
  by_page_halfway,     // the process ends when half of the pages are right
  by_page_one_settles  // the thread that finishes
};

using stored_words = std::span<const tx::assigned_word>;

// Without a log, or in a transaction of the engine on direct media.
auto words_by(machine& m, kind_of_medium kind, order how) {
  return [&m, how, by = transactions_on_ground{m, kind}](stored_words words) mutable -> status {
    if (how != order::packed_without_a_log) return by(words);
    for (const tx::assigned_word& w : words) {
      std::memcpy(m.base() + w.offset, &w.value, sizeof w.value);
      m.media().flush(m.base() + w.offset, sizeof w.value);
    }
    m.media().fence(edge{"test/stores without a log"});
    return {};
  };
}

// In an order as threads might touch them, most pages by a thread of its own, as those are that somebody waits for.
// Meanwhile a transaction stores the pointer at `again` as it is.
template <media M, class Store>
status relocate_by_page(machine& m, M& medium, pool_at<M>& pool, Store& store, order how, std::uint64_t again) {
  const bool goes_on = pool.sb.base_history_count > 1;
  if (status s = pool.begin_relocation(medium); !s) return s;
  object::page_relocation<M> pages{
      medium, pool.memory, geometry_of(pool.sb), plans(), {pool.bases(), pool.now, goes_on}};
  if (status s = pages.look_at_page_map(1, [](unsigned, auto&& f) { f(0U); }); !s) return s;
  const std::uint64_t count = pages.pages();
  const auto answer = [&](std::uint64_t page) {
    m.thread(1);
    pages.put_right(page);
    if (how != order::by_page_one_settles) pages.settle();
    m.thread(0);
  };
  const bool all = how != order::by_page_halfway;
  for (std::uint64_t i = 0; i < (all ? count : count / 2); ++i) {
    const std::uint64_t page = (i * 7 + 5) % count;
    if (i % 4 == 3) {
      pages.put_right(page);
    } else {
      answer(page);
    }
    if (i != count / 4) continue;
    answer(geometry_of(pool.sb).page_of(again));
    tx::assigned_word same{again, 0};
    std::memcpy(&same.value, pool.memory + again, sizeof same.value);
    if (status s = store(stored_words{&same, 1}); !s) return s;
  }
  if (!all) return {};
  pages.settle();
  return pool.finish_relocation(medium);
}

// In two parts, as threads would.
template <media M, class Store>
status relocate_in(machine& m, M& medium, std::byte* memory, const layout::superblock& sb, std::uint64_t now,
                   Store store, order how, std::uint64_t again) {
  if (!must_relocate(sb, now)) return {};
  pool_at<M> pool{memory, sb, now};
  object::relocation_report done;
  if (how == order::by_number) {
    numbered_pool_at numbered{m, medium, pool, store};
    return object::relocate_by_number(memory, geometry_of(sb), plans(), numbered, 2, done);
  }
  if (how == order::by_page || how == order::by_page_halfway || how == order::by_page_one_settles) {
    return relocate_by_page(m, medium, pool, store, how, again);
  }
  const auto run = [&](unsigned parts, auto&& f) {
    for (unsigned part = 0; part < parts; ++part) {
      m.thread(part);
      f(part);
    }
    m.thread(0);
  };
  return object::relocate(medium, memory, geometry_of(sb), plans(), pool, 2, run, store, done);
}

// Where a process opens the pool.
using choice = std::uint64_t (*)(const layout::superblock&);
// A pointer that was forgotten assumes none of the bases that are known there.
std::uint64_t somewhere_new(const layout::superblock& sb) { return base_number(sb.generation + 1); }
std::uint64_t at_the_first_again(const layout::superblock& sb) {
  return sb.base_history_count >= 2 ? base_number(0) : somewhere_new(sb);
}

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

status open_at(machine& m, kind_of_medium kind, choice where, order how = order::right, std::uint64_t again = 0) {
  if (is_image(kind)) {
    image_process p{m};
    if (status s = p.open(m); !s) return s;
    if (status s = relocate_in(m, *p.medium, p.view.get(), p.superblock, where(p.superblock), transactions_on_image{p},
                               how, again);
        !s)
      return s;
    if (status s = p.medium->durable(p.medium->last_lsn()); !s) return s;
    return p.medium->close();
  }
  if (how != order::without_state) {
    if (status s = begin_process(m); !s) return s;
  }
  const auto relocated = [&]() -> status {
    const auto sb = pick_superblock(m.base(), m.size());
    return sb ? relocate_in(m, m.media(), m.base(), *sb, where(*sb), words_by(m, kind, how), how, again)
              : status{sb.error()};
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
  std::vector<std::uint64_t> bytes;  // offsets of 0xA5
  std::vector<std::uint64_t> objects;
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

enum class pointers : std::uint8_t { aligned, packed_too };

// Of a packed type: pointers that share words with each other, that lie across words, and what is beside them.
template <class Lead>
void add_packed(machine& m, const std::vector<std::uint64_t>& o, known_pool& made, Lead& lead) {
  lead(o[4] + 1, o[0]);
  lead(o[4] + 9, o[4] + 18);
  lead(o[4] + 19, 0);
  lead(o[4] + 27, o[1]);
  lead(o[4] + 37, o[2]);
  made.words.push_back({o[4] + 45, 0, 0x5A5A'0000'5A5A});
  put(m.base(), o[4] + 45, 0x5A5A'0000'5A5A);
  made.bytes = {o[4], o[4] + 17, o[4] + 18, o[4] + 35, o[4] + 36, o[4] + 53};
  for (const std::uint64_t at : made.bytes) m.base()[at] = std::byte{0xA5};
}

known_pool made_pool(kind_of_medium kind, pointers which) {
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

  const std::uint64_t sizes[] = {40, 40, 96, 40, 54};  // the last holds nothing unless some are packed
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
  retype(m.base(), o[4], sizes[4], which == pointers::packed_too ? "odd" : "node");
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
  if (which == pointers::packed_too) add_packed(m, o, made, lead);
  lead(o[3], o[0]);
  // The log has another value for one of them, which counts or not.
  leave_in_log(m, kind, o[3], base_number(0) + o[2]);
  if (kind.log != log_kind::old_words && (kind.log != log_kind::lanes || is_image(kind))) {
    made.words.back().offset = o[2];
  }
  made.objects = o;
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
  for (const std::uint64_t at : known.objects) {
    const std::uint64_t header = at - sizeof(layout::object_header);
    if (object::number_of(m.base(), header, layout::alignment{}).number != 0U) return fault("an object bears a number");
  }
  for (const std::uint64_t at : known.bytes) {
    if (m.base()[at] != std::byte{0xA5}) return fault("a byte beside a packed pointer has changed");
  }
  return pass();
}

// `first`: where the process opens it whose crash comes first.
subject relocation(kind_of_medium kind, choice where = somewhere_new, order how = order::right,
                   choice first = somewhere_new, pointers which = pointers::aligned) {
  const auto known = std::make_shared<const known_pool>(made_pool(kind, which));
  subject s;
  s.name = std::string{"relocation on "} + name_of(kind);
  s.image = known->image;
  s.run = [=](machine& m) {
    // Twice: a base that was forgotten may be used again.
    const bool by_page = how == order::by_page || how == order::by_page_one_settles;
    for (unsigned round = 0; round < 2; ++round) {
      m.op_begin();
      const order now = by_page && round == 0 ? order::by_page_halfway : how;
      if (const status opened = open_at(m, kind, first, now, known->words.front().at); !opened)
        std::fprintf(stderr, "%s\n", last_message());
      m.op_end();
    }
  };
  s.recover = [=](machine& m) -> verdict {
    const status opened = open_at(m, kind, where, how, known->words.front().at);
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
      const report r = explore_today(relocation(GetParam(), where), options_of(GetParam(), under));
      EXPECT_TRUE(r.clean()) << r.text();
      if (explores_all_today()) EXPECT_GT(r.nested_states, 100U);
      std::printf("%s\n", r.text().c_str());
    }
  }
}
TEST_P(relocation_crash, leaves_every_packed_pointer_where_it_led) {
  const subject s = relocation(GetParam(), somewhere_new, order::right, somewhere_new, pointers::packed_too);
  for (const model under : models_of(GetParam())) {
    options o = options_of(GetParam(), under);
    o.nested_every *= 4;
    const report r = explore_today(s, o);
    EXPECT_TRUE(r.clean()) << r.text();
    if (explores_all_today()) EXPECT_GT(r.nested_states, 100U);
    std::printf("%s\n", r.text().c_str());
  }
}
// The paper's Algorithm 1, mended.
class numbered_relocation_crash : public testing::TestWithParam<kind_of_medium> {};
TEST_P(numbered_relocation_crash, leaves_every_pointer_where_it_led) {
  for (const pointers which : {pointers::aligned, pointers::packed_too}) {
    const choice where = which == pointers::aligned ? at_the_first_again : somewhere_new;
    const subject s = relocation(GetParam(), where, order::by_number, somewhere_new, which);
    for (const model under : models_of(GetParam())) {
      options o = options_of(GetParam(), under);
      o.nested_every *= 8;
      const report r = explore_today(s, o);
      EXPECT_TRUE(r.clean()) << r.text();
      if (explores_all_today()) EXPECT_GT(r.nested_states, 100U);
      std::printf("%s\n", r.text().c_str());
    }
  }
}
// Page by page, beside transactions; the first process ends before all pages are right.
class page_relocation_crash : public testing::TestWithParam<kind_of_medium> {};
TEST_P(page_relocation_crash, leaves_every_pointer_where_it_led) {
  for (const choice where : {somewhere_new, at_the_first_again}) {
    const subject s = relocation(GetParam(), where, order::by_page);
    for (const model under : models_of(GetParam())) {
      options o = options_of(GetParam(), under);
      o.nested_every *= 4;
      const report r = explore_today(s, o);
      EXPECT_TRUE(r.clean()) << r.text();
      if (explores_all_today()) EXPECT_GT(r.nested_states, 100U);
      std::printf("%s\n", r.text().c_str());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(on, page_relocation_crash,
                         testing::ValuesIn(kinds_that([](const auto& k) { return k.part.relocates && !is_image(k); })),
                         [](const auto& i) { return name_of(i.param); });
INSTANTIATE_TEST_SUITE_P(on, numbered_relocation_crash,
                         testing::ValuesIn(kinds_that([](const auto& k) { return k.part.relocates; })),
                         [](const auto& i) { return name_of(i.param); });

INSTANTIATE_TEST_SUITE_P(on, relocation_crash,
                         testing::ValuesIn(kinds_that([](const auto& k) { return k.part.relocates; })),
                         [](const auto& i) { return name_of(i.param); });

// A process is killed before its `point`-th write-back or fence, and leaves in caches what it has stored; the next one
// goes on at the same base.
subject killed_relocation(kind_of_medium kind, unsigned point, bool& ended) {
  const auto known = std::make_shared<const known_pool>(made_pool(kind, pointers::aligned));
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
      options o = options_of(kind, model::x86);
      o.nesting = 1;  // crashes of the opens after it are explored above
      const report r = explore(killed_relocation(kind, point, ended), o);
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

// A fence of the thread that finishes orders nothing of what the one has flushed that answers for single pages.
TEST(relocation_crash, history_forgotten_before_a_fence_of_each_thread_is_found) {
  for (const kind_of_medium kind : {kind_of_medium::direct, kind_of_medium::redo, kind_of_medium::mnemosyne}) {
    EXPECT_TRUE(finds(relocation(kind, somewhere_new, order::by_page_one_settles), kind, model::x86)) << name_of(kind);
    EXPECT_TRUE(
        finds(relocation(kind, somewhere_new, order::by_page), kind, model::x86, explore::without(edge{"object/E2"})))
        << name_of(kind);
  }
}

// The others have nothing in their logs that would be replayed: a commit has brought it home.
TEST(relocation_crash, history_forgotten_while_a_log_holds_old_pointers_is_found) {
  for (const kind_of_medium kind : {kind_of_medium::direct, kind_of_medium::redo}) {
    EXPECT_TRUE(finds(relocation(kind, somewhere_new, order::before_recovery), kind, model::x86)) << name_of(kind);
  }
}

// A superblock that a crash has torn would be made whole by parts of the next one, and would forget a base that
// pointers have got meanwhile, if the process did not write both copies before it moves anything.
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
  // The second base begins inside of the first one's range: a pointer there has two meanings.
  const auto known = std::make_shared<const known_pool>(made_pool(kind_of_medium::direct, pointers::aligned));
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

TEST(relocation_crash, number_that_an_object_gets_after_its_pointers_is_found) {
  const subject s = relocation(kind_of_medium::direct, somewhere_new, order::by_number);
  const with_planted p{plant::number_alone};
  EXPECT_TRUE(finds(s, kind_of_medium::direct, model::x86));
}
TEST(relocation_crash, numbers_that_go_before_the_pool_prefers_their_base_are_found) {
  const subject s = relocation(kind_of_medium::direct, somewhere_new, order::by_number);
  const with_planted p{plant::numbers_back_early};
  EXPECT_TRUE(finds(s, kind_of_medium::direct, model::x86));
}

TEST(relocation_crash, half_of_a_packed_pointer_is_found) {
  for (const kind_of_medium kind : {kind_of_medium::direct, kind_of_medium::redo}) {
    const subject s = relocation(kind, somewhere_new, order::packed_without_a_log, somewhere_new, pointers::packed_too);
    EXPECT_TRUE(finds(s, kind, model::torn8)) << name_of(kind);
  }
}

// ---- every edge is necessary ----------------------------------------------------------------------------------------

TEST(relocation_edges, are_all_necessary_and_known) {
  const std::vector<subject> subjects{relocation(kind_of_medium::direct), relocation(kind_of_medium::redo),
                                      relocation(kind_of_medium::direct, somewhere_new, order::by_page),
                                      static_pointers(kind_of_medium::direct), static_pointers(kind_of_medium::redo)};
  options o = options_of(kind_of_medium::direct, model::torn8);
  o.nested_every = 64;
  o.print_violations = false;
  const auto is_own = [](const std::string& place) { return place.find("object/") != std::string::npos; };
  const explore::mutation_report score = mutation_score(subjects, o, {}, {}, is_own);
  std::printf("%s\n", score.text().c_str());
  expect_all_necessary(score);
  auto labels = places_in_sources({"object"}, std::regex{R"re(edge\{"([^"]+)"\})re"}, false);
  const auto second = places_in_sources({"object"}, std::regex{R"re(edge\{.*: edge\{"([^"]+)"\})re"}, false);
  labels.insert(labels.end(), second.begin(), second.end());
  EXPECT_EQ(labels.size(), 4U);
  expect_labels_met(places_met(score), labels);
  const auto sites = places_in_sources({"object"}, std::regex{R"re(\b(m|medium_)\.flush\()re"}, true);
  EXPECT_EQ(sites.size(), 2U);
  expect_sites_met(places_met(score), sites);
}

}  // namespace
}  // namespace nvm::tests
