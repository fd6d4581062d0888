// What recovery believes of a log: images that a crash left are edited, one field each with its checksum made good, and
// recovery refuses them with a message that names what is wrong, or brings back what must be there.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pool_image.hpp"

namespace nvm::tests {
namespace {

using log::intent;
using log::intent_op;

// Lets a test keep the bytes as they are behind a fence.
struct watched_media : ordered_media {
  std::function<void(std::string_view)> behind_fence;
  void fence(edge e) noexcept {
    ordered_media::fence(e);
    if (behind_fence) behind_fence(e.name);
  }
};

struct outcome {
  errc code = errc::ok;
  std::string message;
  tx::recovery_report report;
};

// ---- the undo engine ------------------------------------------------------------------------------------------------

// A pool of the undo engine as it is behind the commit point of one transaction, whose intents have not been applied.
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
    const status s = tx::recover(m, bytes.data(), g, key, o.report, [](unsigned, std::uint64_t) {});
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

// ---- the redo engine ------------------------------------------------------------------------------------------------

std::uint64_t now = 0;
std::uint64_t read_now() noexcept { return now; }

// Rings with records that were made durable, and of which nothing is home.
class hostile_rings : public testing::Test {
 protected:
  using log_type = log::redo_log<ordered_media>;

  explicit hostile_rings(log::validation how = log::validation::checksum)
      : how_{how}, log_{media_, bytes_.data(), g_, key_, 2, how} {
    format_image(bytes_.data(), superblock_);
    now = 0;
    log_.start(0, read_now);
  }
  template <class T>
  [[nodiscard]] T& at(std::uint64_t offset) noexcept {
    return *reinterpret_cast<T*>(bytes_.data() + offset);
  }
  [[nodiscard]] std::uint64_t lane_at(unsigned i) const noexcept { return g_.log_offset + i * g_.lane_bytes; }
  // The n-th line of a lane's ring.
  [[nodiscard]] std::uint64_t line_at(unsigned lane, unsigned n = 0) const noexcept {
    return lane_at(lane) + layout::redo_ring_at + n * line_bytes;
  }
  // Where tests store.
  [[nodiscard]] std::uint64_t target(unsigned n) const noexcept { return g_.data_offset + n * line_bytes; }
  static void put(log::record_stage& s, std::uint64_t offset, std::uint64_t value) {
    s.range(offset, reinterpret_cast<const std::byte*>(&value), 8);
  }

  // A record as a commit makes it; returns its place.
  std::uint64_t append(unsigned lane, std::uint64_t version, layout::redo_kind kind,
                       const std::function<void(log::record_stage&)>& fill) {
    EXPECT_TRUE(log_.furnish(lane));
    log::record_stage& stage = log_.stage(lane);
    stage.begin();
    fill(stage);
    EXPECT_TRUE(log_.make_room(lane, stage.contents_bytes())) << last_message();
    const std::uint64_t place = line_at(lane) + used_[lane];
    used_[lane] += round_up(stage.record_bytes(), line_bytes);
    EXPECT_TRUE(log_.append(lane, version, kind, 0)) << last_message();
    EXPECT_EQ(at<layout::redo_record>(place).version, version);
    return place;
  }
  std::uint64_t store(unsigned lane, std::uint64_t version, std::uint64_t offset, std::uint64_t value) {
    return append(lane, version, layout::redo_kind::changes, [&](log::record_stage& s) { put(s, offset, value); });
  }
  // The same by a record in a log run at `page`.
  std::uint64_t store_elsewhere(unsigned lane, std::uint64_t version, std::uint64_t page, std::uint64_t offset,
                                std::uint64_t value) {
    entry(page, {.length_pages = 1, .kind = layout::page_kind::log});
    log::record_stage contents;
    contents.begin();
    put(contents, offset, value);
    const std::uint64_t run = g_.page_offset(page);
    std::memcpy(bytes_.data() + run, contents.contents(), contents.contents_bytes());
    return append(lane, version, layout::redo_kind::elsewhere, [&](log::record_stage& s) {
      s.word(run);
      s.word(contents.contents_bytes());
      s.word(log::place_checksum(contents.contents(), contents.contents_bytes(), version));
    });
  }
  void entry(std::uint64_t page, const layout::page_entry& e) {
    const std::uint64_t offset = g_.entry_offset(page);
    at<std::uint64_t>(offset) = seal_word(layout::pack(e), word_seed(offset));
  }
  void seal_record(unsigned lane, std::uint64_t place) {
    auto& r = at<layout::redo_record>(place);
    r.proof = log::redo_proof(&r, place, key_, lane, how_);
  }
  layout::redo_place& place_in(std::uint64_t record) {
    return at<layout::redo_place>(record + sizeof(layout::redo_record));
  }
  void seal_contents(std::uint64_t record) {
    auto& p = place_in(record);
    p.checksum = log::place_checksum(bytes_.data() + p.offset, p.bytes, at<layout::redo_record>(record).version);
  }

  outcome recover() {
    outcome o;
    ordered_media m;
    const status s = tx::recover_redo(m, bytes_.data(), g_, key_, how_, o.report, used_version_);
    o.code = s.error();
    if (!s) o.message = last_message();
    return o;
  }
  // And afterwards all is as before the edit.
  void expect_refused(const char* what, const char* text, const std::function<void()>& edit) {
    const std::vector<std::byte> kept{bytes_.data(), bytes_.data() + bytes_.size()};
    edit();
    const std::vector<std::byte> edited{bytes_.data(), bytes_.data() + bytes_.size()};
    const outcome o = recover();
    EXPECT_EQ(o.code, errc::corrupt) << what;
    EXPECT_NE(o.message.find(text), std::string::npos) << what << ": " << o.message;
    EXPECT_EQ(std::memcmp(bytes_.data(), edited.data(), edited.size()), 0) << what << ": refused, but written to";
    std::memcpy(bytes_.data(), kept.data(), kept.size());
  }

  layout::superblock superblock_ = superblock_for({.lanes = 2}, false);
  geometry g_ = geometry_of(superblock_);
  std::uint64_t key_ = tx::pool_key(superblock_.uuid);
  buffer bytes_{g_.capacity_bytes()};
  ordered_media media_;
  log::validation how_;
  log_type log_;
  std::uint64_t used_[2] = {};  // of each ring
  std::uint64_t used_version_ = 0;
};

TEST_F(hostile_rings, heads_that_say_what_cannot_be_are_refused) {
  store(0, 1, target(0), 11);
  const auto set = [&](std::size_t field, std::uint64_t content) {
    const std::uint64_t offset = lane_at(0) + field;
    at<std::uint64_t>(offset) = seal_word(content, word_seed(offset));
  };
  constexpr std::size_t tail = offsetof(layout::ring_head, tail);
  constexpr std::size_t truncated = offsetof(layout::ring_head, truncated);
  constexpr std::size_t bound = offsetof(layout::ring_head, bound);
  const auto flip = [&](std::size_t field) { at<std::uint64_t>(lane_at(0) + field) ^= 1ULL << 57; };
  expect_refused("truncated", "versions: found", [&] { set(truncated, layout::version_max + 1); });
  expect_refused("bound", "versions: found", [&] { set(bound, layout::version_max + 1); });
  expect_refused("truncated's check", "version that is home: found", [&] { flip(truncated); });
  expect_refused("bound's check", "largest version: found", [&] { flip(bound); });
  expect_refused("tail's check", "tail: found", [&] { flip(tail); });
  expect_refused("tail within a line", "tail: found", [&] { set(tail, layout::redo_ring_at + 8); });
  expect_refused("tail behind the ring", "tail: found", [&] { set(tail, g_.lane_bytes); });
  expect_refused("a version above the bound", "version: found 1, expected at most 0", [&] { set(bound, 0); });
  // Good: the record is home, or the tail leads past it.
  const std::vector<std::byte> kept{bytes_.data(), bytes_.data() + bytes_.size()};
  for (const std::size_t field : {truncated, tail}) {
    set(field, field == tail ? g_.lane_bytes - line_bytes : 1);
    const outcome o = recover();
    EXPECT_EQ(o.code, errc::ok) << o.message;
    EXPECT_EQ(o.report.completed, 0U);
    EXPECT_EQ(at<std::uint64_t>(target(0)), 0U);
    std::memcpy(bytes_.data(), kept.data(), kept.size());
  }
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.completed, 1U);
  EXPECT_EQ(at<std::uint64_t>(target(0)), 11U);
}

TEST_F(hostile_rings, a_ring_of_nothing_but_a_wrap_record_ends) {
  store(0, 1, target(0), 11);
  const std::uint64_t place = store(1, 2, target(0), 22);
  auto& r = at<layout::redo_record>(place);
  r.bytes = sizeof r;
  r.kind_and_intents = static_cast<std::uint32_t>(layout::redo_kind::wrap);
  seal_record(1, place);
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.completed, 1U);
  EXPECT_EQ(at<std::uint64_t>(target(0)), 11U);
}

TEST_F(hostile_rings, contents_in_a_log_run_are_replayed_and_the_run_is_freed) {
  const std::uint64_t page = 40;
  store(1, 1, target(0), 11);
  store_elsewhere(0, 2, page, target(0), 22);
  store(1, 3, target(1), 33);
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.completed, 3U);
  EXPECT_EQ(o.report.freed_log_runs, 1U);
  EXPECT_EQ(at<std::uint64_t>(target(0)), 22U);
  EXPECT_EQ(at<std::uint64_t>(target(1)), 33U);
  EXPECT_EQ(at<std::uint64_t>(g_.entry_offset(page)), 0U);
}

TEST_F(hostile_rings, contents_that_lie_nowhere_are_refused) {
  const std::uint64_t page = 40;
  const std::uint64_t run = g_.page_offset(page);
  const std::uint64_t record = store_elsewhere(0, 1, page, target(0), 22);
  const auto lead = [&](std::uint64_t offset, std::uint64_t bytes) {
    return [this, record, offset, bytes] {
      place_in(record).offset = offset;
      place_in(record).bytes = bytes;
      seal_record(0, record);
    };
  };
  const char* const no_run = "which is no log run";
  expect_refused("within the run", no_run, lead(run + 8, 16));
  expect_refused("the next page", no_run, lead(run + g_.page_bytes(), 16));
  expect_refused("before the data", no_run, lead(g_.page_map_offset, 16));
  expect_refused("behind the pool", no_run, lead(g_.size_bytes(), 16));
  expect_refused("anywhere", no_run, lead(~std::uint64_t{7}, 16));
  expect_refused("no bytes", no_run, lead(run, 0));
  expect_refused("more than the run has", no_run, lead(run, g_.page_bytes() + 8));
  expect_refused("more than the pool has", no_run, lead(run, ~std::uint64_t{7}));
  expect_refused("a run of an object", no_run,
                 [&] { entry(page, {.length_pages = 1, .kind = layout::page_kind::run}); });
  expect_refused("a run longer than the pool", no_run, [&] {
    entry(page, {.length_pages = 1U << 20, .kind = layout::page_kind::log});
    lead(run, g_.size_bytes())();
  });
}

TEST_F(hostile_rings, contents_that_do_not_add_up_are_refused) {
  const std::uint64_t record = store_elsewhere(0, 1, 40, target(0), 22);
  const std::uint64_t run = place_in(record).offset;
  const char* const parts = "found parts that do not add up";
  const auto& head = at<layout::redo_record>(record);
  const auto kind = [&](std::uint32_t kind_and_intents) {
    at<layout::redo_record>(record).kind_and_intents = kind_and_intents;
    seal_record(0, record);
  };
  expect_refused("an unknown kind", parts, [&] { kind(7); });
  expect_refused("more intents than words", parts, [&] { kind(3 | 3 << 4); });
  expect_refused("a place and more", parts, [&] {
    at<layout::redo_record>(record).bytes = sizeof head + sizeof(layout::redo_place) + 8;
    seal_record(0, record);
  });
  const auto grown = [&](std::uint64_t bytes) {
    place_in(record).bytes = bytes;
    seal_contents(record);
    seal_record(0, record);
  };
  expect_refused("half a word behind the range", "found bytes that do not exist", [&] { grown(20); });
  expect_refused("a range of no bytes behind it", "found bytes that do not exist", [&] { grown(24); });
  expect_refused("a range longer than the contents", "found bytes that do not exist", [&] {
    at<std::uint64_t>(run) = layout::pack_range(target(0), 16);
    grown(16);
  });
  expect_refused("a target outside the data", "found bytes that do not exist", [&] {
    at<std::uint64_t>(run) = layout::pack_range(g_.page_map_offset, 8);
    grown(16);
  });
  expect_refused("an intent that is none", "found allocation words that do not exist", [&] {
    at<std::uint64_t>(run + 16) = 0;
    at<std::uint64_t>(run) = intent::make(intent_op::clear_bit, g_.page_map_offset, 0).code;
    grown(8);
    kind(3 | 1 << 4);
  });
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(at<std::uint64_t>(target(0)), 22U);
}

// Its run reached the media in part, or not at all: it never was durable.
TEST_F(hostile_rings, contents_that_are_torn_do_not_count) {
  store(0, 1, target(0), 11);
  const std::uint64_t record = store_elsewhere(0, 2, 40, target(1), 22);
  store(1, 3, target(2), 33);
  at<std::uint64_t>(place_in(record).offset + 8) ^= 1;
  const outcome o = recover();
  EXPECT_EQ(o.code, errc::ok) << o.message;
  EXPECT_EQ(o.report.completed, 2U);
  EXPECT_EQ(o.report.freed_log_runs, 1U);
  EXPECT_EQ(at<std::uint64_t>(target(0)), 11U);
  EXPECT_EQ(at<std::uint64_t>(target(1)), 0U);
  EXPECT_EQ(at<std::uint64_t>(target(2)), 33U);
}

// What follows in its lane began when it was durable: without the record that is damaged it must not be lost unseen.
TEST_F(hostile_rings, contents_that_are_damaged_are_told_from_torn_ones_by_what_follows_them) {
  const std::uint64_t record = store_elsewhere(0, 1, 40, target(0), 11);
  for (std::uint64_t version = 2; version < 5; ++version) {
    store(0, version, target(1), 22);
    expect_refused("damaged contents", "found behind the end of its lane",
                   [&] { at<std::uint64_t>(place_in(record).offset + 8) ^= 1; });
  }
  EXPECT_EQ(recover().code, errc::ok) << last_message();
  EXPECT_EQ(at<std::uint64_t>(target(0)), 11U);
  EXPECT_EQ(at<std::uint64_t>(target(1)), 22U);
}

// A mark is made when the contents are durable, wherever they are: with it, nothing of them can be torn.
class marked_rings : public hostile_rings {
 protected:
  marked_rings() : hostile_rings{log::validation::commit_mark} {}
};

TEST_F(marked_rings, contents_that_are_damaged_are_refused_behind_their_mark) {
  const std::uint64_t record = store_elsewhere(0, 1, 40, target(0), 11);
  const auto damage = [&] { at<std::uint64_t>(place_in(record).offset + 8) ^= 1; };
  expect_refused("damaged contents", "which fail their check", damage);
  const std::uint64_t mark = std::exchange(at<layout::redo_record>(record).proof, 0);
  damage();
  EXPECT_EQ(recover().code, errc::ok) << last_message();
  EXPECT_EQ(at<std::uint64_t>(target(0)), 0U) << "without a mark it never was durable";
  EXPECT_NE(mark, 0U);
}

}  // namespace
}  // namespace nvm::tests
