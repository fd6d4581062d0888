// Bytes of programs that read as records of the log are payloads, wherever they lie.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "forged_ring.hpp"
#include "media/replay.hpp"

namespace nvm {
namespace {

using namespace test;

// Units of the ring from `begin` on claim all that is left of it, and to have been made when much was durable.
void fill_with_claims(forged& f, std::uint64_t begin) {
  const auto& place = f.ring.place;
  for (std::uint64_t at = begin; at < place.ring_bytes(); at += layout::ring_unit) {
    const layout::ring_record r{.checksum = 1,
                                .lsn = 8 * place.ring_bytes() + at,
                                .durable_lsn = 8 * place.ring_bytes(),
                                .units = static_cast<std::uint32_t>((place.ring_bytes() - at) / layout::ring_unit),
                                .count = 1};
    std::memcpy(&f.content[place.ring_offset() + at], &r, sizeof r);
  }
}

// A value of a program's may be full of them.
TEST(payloads, claims_whose_checksums_fail_prove_no_damage_however_many_they_are) {
  const ring_identity large{.place = {.log_offset = 4096, .log_bytes = 1024 * 1024}};
  forged f;
  fill_with_claims(f, 0);
  EXPECT_EQ(f.outcome(), errc::ok) << last_message();
  f.ring = large;
  f.content.assign(2 * 1024 * 1024, std::byte{0});
  memory_device empty{f.content};
  ASSERT_TRUE(format_ring(empty, large));
  f.content = empty.content();
  f.header(0, [&](layout::ring_header& h) { h.checkpoint_lsn = large.place.ring_bytes(); });
  fill_with_claims(f, 0);
  EXPECT_EQ(f.outcome(), errc::ok) << last_message();
}

TEST(payloads, a_lost_record_is_found_behind_any_number_of_claims) {
  for (const std::uint64_t bytes : {std::uint64_t{64}, std::uint64_t{2048}}) {
    forged f;
    const std::uint64_t ring_bytes = f.ring.place.ring_bytes();
    fill_with_claims(f, 0);
    std::byte* const at = &f.content[f.ring.place.ring_offset() + ring_bytes - bytes];
    std::memset(at, 0, bytes);
    const lsn_t lsn = 3 * ring_bytes - bytes;
    seal_record(at, lsn, lsn - sector_bytes, bytes, 1, f.ring.uuid);
    EXPECT_EQ(f.outcome(), errc::corrupt) << bytes;
  }
}

// True if a unit of the ring, but for those where records begin, reads as a header of its place.
bool reads_as_records(const image_rig& rig, const std::vector<std::byte>& content, lsn_t first, lsn_t end) {
  const auto& place = rig.ring().place;
  for (lsn_t lsn = first; lsn < end;) {
    layout::ring_record header;
    std::memcpy(&header, &content[place.offset_of(lsn)], sizeof header);
    if (header.lsn != lsn || header.units == 0) return true;  // no record at all
    for (std::uint64_t unit = 1; unit < header.units; ++unit) {
      layout::ring_record inner;
      const std::uint64_t at = place.offset_of(lsn + unit * layout::ring_unit);
      std::memcpy(&inner, &content[at], sizeof inner);
      if (inner.lsn >= lsn && inner.lsn % place.ring_bytes() == at - place.ring_offset()) return true;
    }
    lsn += header.units * layout::ring_unit;
  }
  return false;
}

constexpr std::uint64_t before_payload = sizeof(layout::ring_record) + sizeof(layout::ring_entry);

// A payload for a record at place `at` of the ring: each unit reads as the header of where it would lie `steps(i)`
// units later, i the number of the unit.
std::vector<std::byte> claims_of_places(const image_rig& rig, std::uint64_t at, std::uint64_t bytes, auto steps) {
  std::vector<std::byte> payload(bytes);
  const std::uint64_t ring_bytes = rig.ring().place.ring_bytes();
  std::uint64_t i = 0;
  for (std::uint64_t in = 16; in + sizeof(layout::ring_record) <= bytes; in += layout::ring_unit, ++i) {
    const lsn_t lsn = 1000 * ring_bytes + (at + before_payload + in + steps(i) * layout::ring_unit) % ring_bytes;
    std::byte* const unit = &payload[in];
    seal_record(unit, lsn, lsn, layout::ring_unit, 0, rig.ring().uuid);
  }
  return payload;
}

lsn_t commit_payload(image_rig& rig, const std::vector<std::byte>& payload, bool batch) {
  std::byte* const to = rig.image() + data_offset;
  std::copy(payload.begin(), payload.end(), to);
  if (batch) {
    image_media::batch b;
    b.add(to, payload.size());
    EXPECT_TRUE(rig.medium->publish(b, [] {}, edge{"test/commit"})) << last_message();
  } else {
    rig.medium->flush(to, payload.size());
  }
  EXPECT_TRUE(rig.medium->sync_appended().has_value()) << last_message();
  return rig.medium->durable_lsn();
}

// Their checksums hold: nothing but their place keeps them from being records of times to come.
TEST(payloads, a_payload_full_of_whole_records_is_a_payload_wherever_it_lies) {
  const auto ring = small_ring(12 * 1024);
  for (const bool batch : {true, false}) {
    for (int how = 0; how < 3; ++how) {
      // Places: where the record is put first, every next one of this lap, and those after the ring's end.
      for (const std::uint64_t before : {std::uint64_t{0}, std::uint64_t{6 * 1024}, std::uint64_t{9 * 1024}}) {
        image_rig rig{ring};
        lsn_t at = rig.medium->last_lsn();
        const lsn_t first = at;
        while (at < first + before) at = commit_payload(rig, std::vector<std::byte>(1400), batch);
        ASSERT_TRUE(rig.medium->checkpoint_step().has_value());
        const auto payload = claims_of_places(rig, at % ring.place.ring_bytes(), 1600, [&](std::uint64_t i) {
          return how == 0 ? 0 : how == 1 ? i : (i * 7) % 50;
        });
        const lsn_t end = commit_payload(rig, payload, batch);
        const auto left = rig.device.crash_losing_all_unsynced();
        EXPECT_FALSE(reads_as_records(rig, left, at, end)) << batch << how << before;
        image_rig after{ring, left};
        ASSERT_EQ(after.replayed, errc::ok) << last_message() << batch << how << before;
        EXPECT_EQ(std::memcmp(after.image() + data_offset, payload.data(), payload.size()), 0);
        // Home, and only the payload is left in the ring.
        ASSERT_TRUE(after.medium->checkpoint_step().has_value());
        image_rig later{ring, after.device.crash_losing_all_unsynced()};
        EXPECT_EQ(later.replayed, errc::ok) << last_message() << batch << how << before;
      }
    }
  }
}

// Payloads that somebody makes who knows all of the pool, and guesses where they will lie.  True: none of sixty reads
// as a record, and the last one before each crash is there after it.
bool stay_payloads(std::uint64_t seed, std::uint64_t log_bytes) {
  std::mt19937_64 random{seed};
  const auto ring = small_ring(log_bytes);
  const std::uint64_t ring_bytes = ring.place.ring_bytes();
  auto rig = std::make_unique<image_rig>(ring);
  std::vector<std::byte> newest;
  for (int i = 0; i < 60; ++i) {
    const lsn_t at = rig->medium->last_lsn();
    const std::uint64_t spread = 1 + random() % 40;
    // Larger records are told apart only where the empty ring is room enough.
    const std::uint64_t bytes = 8 * (1 + random() % (ring_bytes / 3 / 8 - 8));
    newest = claims_of_places(*rig, random() % 4 == 0 ? 0 : at % ring_bytes, bytes,
                              [&](std::uint64_t) { return random() % spread; });
    const lsn_t end = commit_payload(*rig, newest, random() % 2 == 0);
    // A step home may have begun a lap; then the record is at the end all the same.
    const auto left = rig->device.crash_losing_all_unsynced();
    if (reads_as_records(*rig, left, at, end)) return false;
    image_rig after{ring, left};
    if (after.replayed != errc::ok) return false;
    if (std::memcmp(after.image() + data_offset, newest.data(), newest.size()) != 0) return false;
    if (random() % 3 == 0) {
      auto next = std::make_unique<image_rig>(ring, left);
      rig = std::move(next);
    }
  }
  return true;
}
RC_GTEST_PROP(payloads, no_payload_ever_reads_as_a_record, ()) {
  RC_ASSERT(stay_payloads(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::element<std::uint64_t>(8 * 1024, 12 * 1024)));
}
// A batch may be longer than its record: with what its stores may still add this one has more than a third of the ring.
TEST(payloads, of_nearly_a_third_of_the_ring_are_told_apart_in_a_batch_as_well) {
  EXPECT_TRUE(stay_payloads(27109541025618, 12 * 1024));
}

TEST(payloads, a_record_is_moved_no_further_than_twice_its_bytes) {
  const layout::ring_place place{.log_offset = 4096, .log_bytes = 1024 * 1024};
  const std::uint64_t ring_bytes = place.ring_bytes();
  std::mt19937_64 random{11};
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t bytes = layout::ring_unit * (2 + random() % (ring_bytes / 3 / layout::ring_unit - 2));
    const std::uint64_t at = round_down(random() % (ring_bytes - bytes + 1), layout::ring_unit);
    std::vector<std::byte> record(bytes);
    // Each unit rules out one more of the places that are tried, in their order.
    std::uint64_t start = at;
    for (std::uint64_t in = layout::ring_unit; in < bytes; in += layout::ring_unit) {
      const layout::ring_record claim{
          .checksum = 0, .lsn = 9 * ring_bytes + (start + in) % ring_bytes, .durable_lsn = 0, .units = 1, .count = 0};
      std::memcpy(&record[in], &claim, sizeof claim);
      start += layout::ring_unit;
      if (start + bytes > ring_bytes) start = 0;
    }
    const lsn_t lsn = 5 * ring_bytes + at;
    const std::uint64_t pad = pad_to_be_told_apart(record, lsn, place);
    EXPECT_GT(pad, 0U);
    EXPECT_LT(pad, 2 * bytes);
    EXPECT_EQ((lsn + pad) % ring_bytes, start);
    EXPECT_EQ(pad_to_be_told_apart(record, lsn + pad, place), 0U);
    EXPECT_EQ(pad_to_be_told_apart(record, 10 * ring_bytes + at, place), 0U) << "claims of times that are over";
  }
}

}  // namespace
}  // namespace nvm
