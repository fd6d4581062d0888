// Checks of lanes by recovery of the undo engine: images that a crash left are edited, one field each with its checksum
// made good, and recovery refuses them with a message that names the fault, or restores the required state.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pool_image.hpp"
#include "recovery_outcome.hpp"

namespace nvm::tests {
namespace {

using log::intent;
using log::intent_op;

// Lets a test keep the bytes as they are after a fence.
struct watched_media : ordered_media {
  std::function<void(std::string_view)> behind_fence;
  void fence(edge e) noexcept {
    ordered_media::fence(e);
    if (behind_fence) behind_fence(e.name);
  }
};

// A pool of the undo engine as it is after the commit point of one transaction, whose intents have not been applied.
class crashed_lanes {
 public:
  static constexpr unsigned lane = 0;
  static constexpr int old_byte = 1;
  using heap_type = tx::heap<watched_media>;
  using session_type = session<heap_type>;

  enum class crash { at_commit, before };
  using life = std::function<void(heap_type&, session_type&)>;

  // After some history, and what another lane does in a transaction that stays open, live() is committed, or not yet.
  explicit crashed_lanes(const life& live, crash when = crash::at_commit, const life& another = nullptr) {
    buffer memory{g.capacity_bytes()};
    format_image(memory.data(), superblock);
    watched_media medium;
    heap_type heap{medium,
                   memory.data(),
                   g,
                   key,
                   g.lane_count,
                   [](std::uint64_t) -> result<std::uint64_t> { return fail(errc::no_space, "no growth"); }};
    EXPECT_TRUE(heap.boot()) << last_message();
    {
      session_type s{heap, lane};
      root = s.alloc(1000);
      std::memset(heap.base() + root, old_byte, 1000);
      EXPECT_TRUE(s.set_root(root));
      run = s.alloc(20000);
      EXPECT_TRUE(s.commit()) << last_message();
    }
    session_type s{heap, lane};
    session_type other{heap, 1};
    if (another) another(heap, other);
    other.forget();
    EXPECT_EQ(s.lane(), lane);
    live(heap, s);
    bytes.clear();
    medium.behind_fence = [&](std::string_view name) {
      if (name == "undo/E3") bytes.assign(memory.data(), memory.data() + g.size_bytes());
    };
    if (when == crash::at_commit) {
      EXPECT_TRUE(s.commit()) << last_message();
      medium.behind_fence = nullptr;
    } else {
      bytes.assign(memory.data(), memory.data() + g.size_bytes());
      s.forget();
    }
    EXPECT_FALSE(bytes.empty());
  }

  template <class T>
  [[nodiscard]] T& at(std::uint64_t offset) noexcept {
    return *reinterpret_cast<T*>(bytes.data() + offset);
  }
  [[nodiscard]] std::uint64_t lane_at(unsigned i = lane) const noexcept { return g.log_offset + i * g.lane_bytes; }
  [[nodiscard]] std::uint64_t body() const noexcept { return lane_at() + layout::lane_body_at; }
  // The newest commit record of the lane; its place.
  [[nodiscard]] std::uint64_t newest() noexcept {
    std::uint64_t generation = 0;
    for (unsigned slot = 0; slot < layout::commit_slots; ++slot) {
      const auto* c = log::commit_at(bytes.data(), lane_at(), slot, key);
      if (c != nullptr && c->generation > generation) generation = c->generation;
    }
    EXPECT_GT(generation, 0U);
    return lane_at() + layout::commit_slot_at(generation);
  }
  // Edits the newest commit record.
  void commit(const std::function<void(layout::commit_record&)>& change) {
    const std::uint64_t place = newest();
    auto& c = at<layout::commit_record>(place);
    change(c);
    c.checksum = log::seal(bytes.data(), place, sizeof c, c.generation, key);
  }
  void intents(const std::vector<std::uint64_t>& words) {
    commit([&](layout::commit_record& c) {
      c.intent_words = static_cast<std::uint16_t>(words.size());
      std::fill(std::begin(c.intents), std::end(c.intents), 0);
      std::copy(words.begin(), words.end(), c.intents);
    });
  }
  // Makes the record at `place` one of the lane's.
  void seal_record(std::uint64_t place) {
    auto& r = at<layout::record_header>(place);
    r.checksum = log::seal(bytes.data(), place, r.bytes, r.generation, log::body_key(key, lane));
  }
  void put_record(std::uint64_t place, const layout::record_header& header) {
    at<layout::record_header>(place) = header;
    seal_record(place);
  }
  [[nodiscard]] std::uint64_t entry(std::uint64_t page, const layout::page_entry& e) const {
    return seal_word(layout::pack(e), word_seed(g.entry_offset(page)));
  }

  [[nodiscard]] layout::page_kind kind_of(std::uint64_t page) const noexcept {
    return tx::pool_targets{bytes.data(), g}.entry_of(page).kind;
  }
  // [from, from + n) of the root has this byte everywhere.
  [[nodiscard]] bool root_has(std::uint64_t from, std::uint64_t n, int byte) const {
    return std::vector<std::byte>(n, static_cast<std::byte>(byte)) ==
           std::vector<std::byte>(bytes.begin() + static_cast<std::ptrdiff_t>(root + from),
                                  bytes.begin() + static_cast<std::ptrdiff_t>(root + from + n));
  }

  outcome recover() {
    outcome o;
    ordered_media m;
    const status s = tx::recover(m, bytes.data(), g, key, o.report, [](unsigned, std::uint64_t, std::uint32_t) {});
    o.code = s.error();
    if (!s) o.message = last_message();
    return o;
  }
  void expect_refused(const std::string& what, const char* text) {
    const std::vector<std::byte> before = bytes;
    const outcome o = recover();
    EXPECT_EQ(o.code, errc::corrupt) << what;
    EXPECT_NE(o.message.find(text), std::string::npos) << what << ": " << o.message;
    EXPECT_TRUE(bytes == before) << what << ": refused, but written to";
  }
  [[nodiscard]] std::uint64_t objects() {
    std::uint64_t n = 0;
    EXPECT_TRUE(for_each_object(bytes.data(), g, [&](auto...) { return ++n != 0; })) << last_message();
    return n;
  }

  layout::superblock superblock = superblock_for({.lanes = 2}, false);
  geometry g = geometry_of(superblock);
  std::uint64_t key = tx::pool_key(superblock.uuid);
  std::uint64_t root = 0;
  std::uint64_t run = 0;
  std::vector<std::byte> bytes;
};

// Objects of the history, and those that the transaction makes.
constexpr std::uint64_t history = 2;
void few(crashed_lanes::heap_type&, crashed_lanes::session_type& s) {
  for (int i = 0; i < 3; ++i) EXPECT_NE(s.alloc(20), 0U);
}
// Its intents follow an undo record in the body.
void more(crashed_lanes::heap_type& h, crashed_lanes::session_type& s) {
  EXPECT_TRUE(s.store(root_of(h), 7));
  for (int i = 0; i < 20; ++i) EXPECT_NE(s.alloc(40), 0U);
}
// And here in an overflow segment.
void many(crashed_lanes::heap_type& h, crashed_lanes::session_type& s) {
  EXPECT_TRUE(s.store(root_of(h), 7));
  for (int i = 0; i < 500; ++i) EXPECT_NE(s.alloc(40), 0U);
}

TEST(hostile_lanes, intents_are_made_again_wherever_they_lie) {
  crashed_lanes in_record{few};
  EXPECT_EQ(in_record.objects(), history);
  EXPECT_EQ(in_record.recover().code, errc::ok) << last_message();
  EXPECT_EQ(in_record.objects(), history + 3);

  crashed_lanes in_body{more};
  const std::uint64_t place = in_body.at<layout::commit_record>(in_body.newest()).intents[0];
  EXPECT_GT(place, in_body.body());
  EXPECT_LT(place, in_body.lane_at(1));
  outcome o = in_body.recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.completed, 1U);
  EXPECT_EQ(in_body.objects(), history + 20);
  EXPECT_EQ(in_body.at<std::uint64_t>(in_body.root), 7U);

  crashed_lanes in_segment{many};
  EXPECT_GE(in_segment.at<layout::commit_record>(in_segment.newest()).intents[0], in_segment.g.data_offset);
  o = in_segment.recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.freed_log_runs, 1U);
  EXPECT_EQ(in_segment.objects(), history + 500);
}

TEST(hostile_lanes, intents_that_lie_nowhere_are_refused) {
  for (const crashed_lanes::life& live : {crashed_lanes::life{more}, crashed_lanes::life{many}}) {
    const crashed_lanes good{live};
    const geometry& g = good.g;
    const struct {
      const char* what;
      std::uint64_t place;
    } cases[] = {
        {"the lane's header", good.lane_at()},
        {"a commit record", good.lane_at() + layout::lane_commit_at},
        {"an undo record", good.body()},
        {"between two words of the body", good.body() + 4},
        {"no record of the body", good.body() + 8},
        {"the last word of the body", good.lane_at(1) - 8},
        {"another lane", good.lane_at(1)},
        {"the page map", g.page_map_offset},
        {"between two words of the data", g.data_offset + 4},
        {"no record of the data", g.data_offset + 8},
        {"the end of the pool", g.size_bytes()},
        {"behind it", ~std::uint64_t{7}},
    };
    for (const auto& c : cases) {
      crashed_lanes image = good;
      image.commit([&](layout::commit_record& r) { r.intents[0] = c.place; });
      image.expect_refused(c.what, "found intents that fit nothing");
    }
  }
}

TEST(hostile_lanes, intents_about_no_allocation_word_are_refused) {
  const crashed_lanes good{few};
  const geometry& g = good.g;
  const std::uint64_t run_page = g.page_of(good.run);
  ASSERT_EQ(good.kind_of(run_page), layout::page_kind::run);
  // A fine extent: what the few objects are in.
  std::uint64_t fine_page = 0;
  while (good.kind_of(fine_page) != layout::page_kind::fine) ASSERT_LT(++fine_page, g.size_pages);
  const std::uint64_t fine = g.page_offset(fine_page);
  const layout::extent_shape shape = layout::shape_of(layout::page_kind::fine, g.page_shift);
  const auto word = [&](unsigned n) { return fine + layout::first_words_at + std::uint64_t{n} * 8; };
  const unsigned last = shape.words - 1;
  const unsigned behind = shape.slots - last * static_cast<unsigned>(checked_bits);
  const std::uint64_t free_page = g.size_pages - 1;
  ASSERT_EQ(good.kind_of(free_page), layout::page_kind::free);
  const auto code = [](intent_op op, std::uint64_t at, unsigned bit = 0) { return intent::make(op, at, bit).code; };
  const std::uint64_t set_free = code(intent_op::set_entry, g.entry_offset(free_page));
  const auto object = [&](std::uint64_t at, unsigned bit, std::uint64_t distance) {
    return intent::make_object(at, bit, layout::length_byte(1), distance).code;
  };

  const struct {
    const char* what;
    std::vector<std::uint64_t> words;
  } bad[] = {
      {"an entry before the page map", {code(intent_op::clear_entry, g.page_map_offset - 8)}},
      {"an entry behind it", {code(intent_op::clear_entry, g.entry_offset(g.size_pages))}},
      {"an entry that fails its check",
       {set_free, good.entry(free_page, {.length_pages = 1, .kind = layout::page_kind::run}) ^ 1ULL << 60}},
      {"an entry that is no run",
       {set_free, good.entry(free_page, {.length_pages = 1, .kind = layout::page_kind::fine})}},
      {"a run of no pages", {set_free, good.entry(free_page, {.length_pages = 0, .kind = layout::page_kind::run})}},
      {"a run beyond the pool", {set_free, good.entry(free_page, {.length_pages = 2, .kind = layout::page_kind::run})}},
      {"an entry without its value", {set_free}},
      {"a bit of an entry", {code(intent_op::clear_entry, g.entry_offset(run_page)) | 1ULL << 49}},
      {"a bit of the page map", {code(intent_op::clear_bit, g.page_map_offset)}},
      {"a bit behind the data", {code(intent_op::clear_bit, g.size_bytes())}},
      {"a bit of a run", {code(intent_op::clear_bit, g.page_offset(run_page))}},
      {"a bit of a free page", {code(intent_op::clear_bit, g.page_offset(free_page))}},
      {"a bit of the extent's identity", {code(intent_op::clear_bit, fine + layout::first_words_at - 8)}},
      {"a bit of the lengths", {code(intent_op::clear_bit, fine + shape.lengths_at)}},
      {"a bit of the check", {code(intent_op::clear_bit, word(0), 56)}},
      {"a slot behind the last", {code(intent_op::clear_bit, word(last), behind)}},
      {"an object whose length is elsewhere", {object(word(1), 3, layout::lengths_distance(shape, 2))}},
      {"an object without a length", {object(word(1), 3, 0)}},
  };
  for (const auto& c : bad) {
    crashed_lanes image = good;
    image.intents(c.words);
    image.expect_refused(c.what, "found intents that fit nothing");
  }

  // Their good twins.
  crashed_lanes image = good;
  const std::uint64_t entry = good.entry(free_page, {.length_pages = 1, .kind = layout::page_kind::run});
  image.intents({set_free, entry, code(intent_op::clear_entry, g.entry_offset(run_page)),
                 code(intent_op::clear_bit, word(last), behind - 1),
                 object(word(1), 3, layout::lengths_distance(shape, 1))});
  const outcome o = image.recover();
  ASSERT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.replayed_intents, 4U + history);
  EXPECT_EQ(image.at<std::uint64_t>(g.entry_offset(free_page)), entry);
  EXPECT_EQ(image.at<std::uint64_t>(g.entry_offset(run_page)), 0U);
  EXPECT_EQ(image.at<std::uint64_t>(word(1)) & checked_mask, 8U);
  EXPECT_EQ(image.at<std::uint8_t>(fine + shape.lengths_at + checked_bits + 3), layout::length_byte(1));
}

// A small undo record, then a large one.
void overwrite(crashed_lanes::heap_type& h, crashed_lanes::session_type& s) {
  const std::uint64_t root = root_of(h);
  EXPECT_TRUE(s.store(root, 0x0909090909090909));
  EXPECT_TRUE(s.announce(root + 512, 300));
  std::memset(h.base() + root + 512, 9, 300);
}

TEST(hostile_lanes, a_record_may_end_where_its_lane_does) {
  crashed_lanes image{overwrite, crashed_lanes::crash::before};
  const std::uint64_t second = image.body() + line_bytes;
  image.put_record(second, {.checksum = 0,
                            .generation = image.at<layout::record_header>(image.body()).generation,
                            .previous = image.body(),
                            .bytes = static_cast<std::uint32_t>(image.lane_at(1) - second),
                            .kind = static_cast<std::uint16_t>(layout::record_kind::intents),
                            .count = 0});
  const outcome o = image.recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.rolled_back, 1U);
  EXPECT_TRUE(image.root_has(0, 8, crashed_lanes::old_byte));
  EXPECT_TRUE(image.root_has(512, 300, 9)) << "its record is gone";
}

TEST(hostile_lanes, a_large_record_without_room_for_its_range_is_none) {
  crashed_lanes image{overwrite, crashed_lanes::crash::before};
  const std::uint64_t second = image.body() + line_bytes;
  ASSERT_EQ(image.at<layout::record_header>(second).kind, static_cast<std::uint16_t>(layout::record_kind::large_undo));
  crashed_lanes twin = image;
  EXPECT_EQ(twin.recover().code, errc::ok);
  EXPECT_TRUE(twin.root_has(0, 1000, crashed_lanes::old_byte));

  image.at<layout::record_header>(second).bytes = sizeof(layout::record_header);
  image.seal_record(second);
  EXPECT_EQ(image.recover().code, errc::ok);
  EXPECT_TRUE(image.root_has(0, 8, crashed_lanes::old_byte)) << "the record before it counts";
  EXPECT_TRUE(image.root_has(512, 300, 9));
}

// Overlapping segments, each with a record over nearly all of it: every record and every link is good.
TEST(hostile_lanes, a_log_longer_than_its_pool_is_refused) {
  crashed_lanes image{overwrite, crashed_lanes::crash::before};
  const geometry& g = image.g;
  constexpr std::uint32_t pages = 42;
  const std::uint64_t first_page = g.size_pages - pages;
  const std::uint64_t generation = image.at<layout::record_header>(image.body()).generation;
  const auto segment = [&](std::uint64_t n) { return g.page_offset(first_page + n); };
  const auto put = [&](std::uint64_t place, std::uint64_t previous, std::uint64_t bytes, layout::record_kind kind) {
    image.put_record(place, {.checksum = 0,
                             .generation = generation,
                             .previous = previous,
                             .bytes = static_cast<std::uint32_t>(bytes),
                             .kind = static_cast<std::uint16_t>(kind),
                             .count = 0});
  };
  const auto link = [&](std::uint64_t place, std::uint64_t previous, std::uint64_t to) {
    image.at<std::uint64_t>(place + sizeof(layout::record_header)) = segment(to);
    image.at<std::uint64_t>(place + sizeof(layout::record_header) + 8) = g.size_bytes() - segment(to);
    put(place, previous, layout::link_record_bytes, layout::record_kind::link);
  };
  for (std::uint32_t n = 0; n < 2; ++n) {
    ASSERT_EQ(image.kind_of(first_page + n), layout::page_kind::free);
    image.at<std::uint64_t>(g.entry_offset(first_page + n)) =
        image.entry(first_page + n, {.length_pages = pages - n, .kind = layout::page_kind::log});
  }
  const std::uint64_t first_link = image.body() + line_bytes;
  const std::uint64_t second_link = g.size_bytes() - line_bytes;
  put(segment(1), second_link, second_link - line_bytes - segment(1), layout::record_kind::intents);
  link(second_link, segment(0), 1);
  put(segment(0), first_link, second_link - segment(0), layout::record_kind::intents);
  link(first_link, image.body(), 0);
  image.expect_refused("two segments", "the records up to it have");

  crashed_lanes one = image;
  one.at<std::uint64_t>(segment(1)) ^= 1;  // its second record is none
  one.put_record(segment(0), one.at<layout::record_header>(segment(0)));
  EXPECT_EQ(one.recover().code, errc::ok) << last_message();
  EXPECT_TRUE(one.root_has(0, 8, crashed_lanes::old_byte));
}

// Each is good by itself; what the first says of the page map, the second contradicts.  Only who forges writes that: it
// is refused, though the first has been repaired by then.
TEST(hostile_lanes, that_contradict_each_other_are_refused) {
  crashed_lanes image{few, crashed_lanes::crash::at_commit, [](auto& h, auto& s) {
                        EXPECT_TRUE(s.announce(root_of(h), 1000));
                        EXPECT_TRUE(s.announce(h.shape().page_offset(32), 8000));
                      }};
  std::uint64_t page = 0;
  while (image.kind_of(page) != layout::page_kind::log) ASSERT_LT(++page, image.g.size_pages);
  crashed_lanes twin = image;
  const outcome good = twin.recover();
  EXPECT_EQ(good.code, errc::ok) << good.message;
  EXPECT_EQ(good.report.rolled_back, 1U);
  image.intents({intent::make(intent_op::clear_entry, image.g.entry_offset(page), 0).code});
  const outcome o = image.recover();
  EXPECT_EQ(o.code, errc::corrupt);
  EXPECT_NE(o.message.find("links to segment at"), std::string::npos) << o.message;
}

// ---- the last generations ----

void retire_up_to(crashed_lanes& image, std::uint64_t generation) {
  image.at<std::uint64_t>(image.lane_at()) = seal_word(generation, word_seed(image.lane_at()));
}

TEST(hostile_lanes, that_have_counted_further_than_lanes_can_are_refused) {
  crashed_lanes image{few};
  retire_up_to(image, layout::generation_max + 1);
  image.expect_refused("retired", "which fails its check or is above 4503599627370495");
  // Its end would be one further.
  retire_up_to(image, layout::generation_max);
  image.expect_refused("retired", "is the last and has not come to rest");
  retire_up_to(image, layout::generation_max - 1);
  EXPECT_EQ(image.recover().code, errc::ok) << last_message();
  EXPECT_EQ(image.recover().code, errc::ok) << "at rest in the last generation: " << last_message();

  crashed_lanes beyond{few};
  const std::uint64_t place = beyond.lane_at() + layout::commit_slot_at(3);
  layout::commit_record c{.checksum = 0,
                          .generation = layout::generation_max + 1 + 3,
                          .kind = static_cast<std::uint16_t>(layout::outcome::commit),
                          .intent_words = 0,
                          .attached = 0,
                          .intents = {}};
  beyond.at<layout::commit_record>(place) = c;
  beyond.at<layout::commit_record>(place).checksum =
      log::seal(beyond.bytes.data(), place, sizeof c, c.generation, beyond.key);
  EXPECT_EQ(log::commit_at(beyond.bytes.data(), beyond.lane_at(), 3, beyond.key), nullptr);
}

TEST(hostile_lanes, near_the_last_generation_can_be_read_but_begin_no_transaction) {
  crashed_lanes image{few};
  retire_up_to(image, layout::generation_max - layout::generations_kept - 1);
  const std::vector<std::byte> before = image.bytes;
  buffer memory{image.g.capacity_bytes()};
  std::memcpy(memory.data(), before.data(), before.size());
  watched_media medium;
  crashed_lanes::heap_type heap{
      medium, memory.data(), image.g, image.key, image.g.lane_count, [](std::uint64_t) -> result<std::uint64_t> {
        return fail(errc::no_space, "no growth");
      }};
  ASSERT_TRUE(heap.boot()) << last_message();
  const std::uint64_t root = root_of(heap);
  {
    crashed_lanes::session_type s{heap, crashed_lanes::lane};
    EXPECT_EQ(s.announce(root, 8).error(), errc::too_large);
    EXPECT_NE(std::string{last_message()}.find("it cannot count further"), std::string::npos) << last_message();
  }
  {
    crashed_lanes::session_type s{heap, crashed_lanes::lane};
    EXPECT_NE(s.alloc(20), 0U);
    EXPECT_EQ(s.commit().error(), errc::too_large);
    EXPECT_EQ(std::to_integer<int>(heap.base()[root]), crashed_lanes::old_byte);
    // The other lane has counted a few.
    crashed_lanes::session_type other{heap, 1};
    EXPECT_TRUE(other.store(root, 7)) << last_message();
    EXPECT_TRUE(other.commit()) << last_message();
  }
  image.bytes.assign(memory.data(), memory.data() + image.g.size_bytes());
  EXPECT_EQ(image.recover().code, errc::ok) << last_message();
  EXPECT_EQ(image.at<std::uint64_t>(image.root), 7U);
}

}  // namespace
}  // namespace nvm::tests
