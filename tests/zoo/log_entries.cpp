// B, continued: circular logs, log-structured records, checkpoints, sequence numbers, group commit.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <stdexcept>

#include "explore/device.hpp"
#include "zoo.hpp"

namespace nvm::zoo {
namespace {

using explore::digest_history;
using explore::word_hash;
using rule = finding::rule;
using std::uint64_t;

// ---- a ring of records of several words -----------------------------------------------------------------------------

//   append  S record; F;  | ring/E1  record before the tail
//           S tail; F;    | ring/E2  it is in
//   take    S head; F;    | ring/E3  it is out, its words are free
struct ring_image {
  static constexpr std::size_t size = 16;
  alignas(64) uint64_t words[size];
  alignas(64) uint64_t head;  // words ever taken
  alignas(64) uint64_t tail;  // words ever appended
};
struct ring_mistakes {
  bool flush_does_not_wrap = false;
  bool header_not_counted = false;
  bool zero_length_accepted = false;
};

class ring {
 public:
  ring(machine& m, ring_mistakes wrong) : m_{m}, x_{image_of<ring_image>(m)}, wrong_{wrong} {}

  bool append(uint64_t value, std::size_t payload_words) {
    const std::size_t n = payload_words + 1;
    if (x_.tail - x_.head + (wrong_.header_not_counted ? payload_words : n) > ring_image::size) return false;
    for (std::size_t i = 0; i < n; ++i) x_.words[(x_.tail + i) % ring_image::size] = i == 0 ? n : value + i;
    const std::size_t from = x_.tail % ring_image::size;
    const std::size_t to_end = std::min(n, ring_image::size - from);
    m_.media().flush(&x_.words[from], (wrong_.flush_does_not_wrap ? n : to_end) * 8);
    if (n > to_end && !wrong_.flush_does_not_wrap) m_.media().flush(x_.words, (n - to_end) * 8);
    m_.media().fence(edge{"ring/E1"});
    x_.tail += n;
    persist(m_.media(), &x_.tail, 8, edge{"ring/E2"});
    return true;
  }
  void take() {
    x_.head += x_.words[x_.head % ring_image::size];
    persist(m_.media(), &x_.head, 8, edge{"ring/E3"});
  }

 private:
  machine& m_;
  ring_image& x_;
  ring_mistakes wrong_;
};

// Goes from record to record; *digest becomes that of the payloads.
verdict walk(const ring_image& x, ring_mistakes wrong, uint64_t* digest) {
  *digest = 0;
  if (x.tail - x.head > ring_image::size) return fault("more words than there is room for");
  for (uint64_t at = x.head; at != x.tail;) {
    const uint64_t n = x.words[at % ring_image::size];
    if ((n == 0 && !wrong.zero_length_accepted) || n > x.tail - at) return fault("a record of impossible length");
    for (uint64_t i = 1; i < n; ++i) *digest = *digest * 31 + x.words[(at + i) % ring_image::size];
    at += n;
  }
  return pass();
}

subject on_ring(const char* name, ring_mistakes wrong) {
  auto history = std::make_shared<digest_history>();
  subject s = on<ring_image>(
      name,
      [=](machine& m, ring_image&) {
        ring r{m, wrong};
        std::deque<std::pair<uint64_t, std::size_t>> model;
        const auto state = [&] {
          uint64_t digest = 0;
          for (const auto& [value, payload_words] : model) {
            for (uint64_t i = 1; i <= payload_words; ++i) digest = digest * 31 + value + i;
          }
          history->state(digest);
        };
        history->clear();
        state();
        constexpr std::array<std::size_t, 5> lengths{4, 5, 5, 3, 6};
        uint64_t i = 0;
        for (unsigned step = 0; step < 14; ++step) {
          m.op_begin();
          const uint64_t value = 100 * (i + 1);
          if (r.append(value, lengths[i % lengths.size()])) {
            model.emplace_back(value, lengths[i++ % lengths.size()]);
          } else if (!model.empty()) {
            r.take();
            model.pop_front();
          }
          m.op_end();
          state();
        }
      },
      [=](const ring_image& x, const window& w) -> verdict {
        uint64_t digest = 0;
        if (auto broken = walk(x, {}, &digest)) return broken;
        return history->check(digest, w);
      });
  return s;
}
subject b35_split(twin t) { return on_ring("B35, split record", {.flush_does_not_wrap = is_buggy(t)}); }
subject b35_full(twin t) { return on_ring("B35, head passed", {.header_not_counted = is_buggy(t)}); }

report b35_zero(twin t, const options& o) {
  subject s;
  s.name = "B35, length zero";
  s.image.resize(sizeof(ring_image));
  auto& x = *reinterpret_cast<ring_image*>(s.image.data());
  x.words[14] = 3;  // words 14, 15, 0
  x.words[1] = 5;
  x.head = 14;
  x.tail = 22;
  s.recover = [t](machine& m) {
    uint64_t digest = 0;
    return walk(image_of<const ring_image>(m), {.zero_length_accepted = is_buggy(t)}, &digest);
  };
  s.oracle = [](machine& m, const window&) {
    uint64_t digest = 0;
    return walk(image_of<const ring_image>(m), {}, &digest);
  };
  return explore_hostile_bytes(s, o);
}

// ---- log-structured records -----------------------------------------------------------------------------------------

struct indexed {
  struct alignas(64) record {
    uint64_t key;
    uint64_t value;
  };
  record records[6];
  alignas(64) uint64_t newest[3];  // of each key: index of its record + 1
};
subject b36(twin t) {
  auto history = std::make_shared<digest_history>();
  return on<indexed>(
      "B36",
      [=](machine& m, indexed& x) {
        std::map<uint64_t, uint64_t> model;
        const auto state = [&] {
          uint64_t digest = 0;
          for (const auto& [key, value] : model) digest += word_hash(key, value);
          history->state(digest);
        };
        history->clear();
        state();
        for (uint64_t i = 0; i < 6; ++i) {
          const uint64_t key = i * 2 % 3;
          m.op_begin();
          x.records[i] = {key, 100 + i};
          m.media().flush(&x.records[i], sizeof x.records[i]);
          if (!is_buggy(t)) m.media().fence(edge{"zoo/B36 record"});
          x.newest[key] = i + 1;
          persist(m.media(), &x.newest[key], 8, edge{"zoo/B36 index"});
          m.op_end();
          model[key] = 100 + i;
          state();
        }
      },
      [=](const indexed& x, const window& w) {
        uint64_t digest = 0;
        for (uint64_t key = 0; key < 3; ++key) {
          if (x.newest[key] != 0)
            digest += word_hash(x.records[x.newest[key] - 1].key, x.records[x.newest[key] - 1].value);
        }
        return history->check(digest, w);
      });
}

// Segments of records; the newest of a key counts, value 0 is a tombstone.  A record proves itself.
struct segments_image {
  struct alignas(32) record {
    uint64_t key;
    uint64_t value;
    uint64_t sequence;
    uint64_t sum;
    [[nodiscard]] uint64_t right_sum() const {
      return word_hash(1, key) + word_hash(2, value) + word_hash(3, sequence);
    }
    [[nodiscard]] bool holds() const { return sequence != 0 && sum == right_sum(); }
  };
  using segment = std::array<record, 4>;
  alignas(64) uint64_t live;  // a bit for each segment
  alignas(64) segment segments[3];

  [[nodiscard]] bool is_live(std::size_t s) const { return (live >> s & 1) != 0; }
  // In live segments but `but`; nullptr if there is none.
  [[nodiscard]] const record* newest(uint64_t key, std::size_t but = 3) const {
    const record* best = nullptr;
    for (std::size_t s = 0; s < 3; ++s) {
      if (!is_live(s) || s == but) continue;
      for (const record& r : segments[s]) {
        if (r.holds() && r.key == key && (best == nullptr || r.sequence > best->sequence)) best = &r;
      }
    }
    return best;
  }
};
constexpr uint64_t keys_of_segments = 4;

subject b36_tombstone(twin t) {
  auto history = std::make_shared<digest_history>();
  subject s = on<segments_image>(
      "B36, tombstone",
      [=](machine& m, segments_image& x) {
        std::array<uint64_t, keys_of_segments> model{};
        const auto state = [&] {
          uint64_t digest = 0;
          for (uint64_t key = 0; key < keys_of_segments; ++key)
            digest += model[key] == 0 ? 0 : word_hash(key, model[key]);
          history->state(digest);
        };
        history->clear();
        state();
        constexpr std::array<std::pair<uint64_t, uint64_t>, 8> puts{
            {{0, 10}, {1, 11}, {2, 12}, {0, 13}, {0, 0}, {1, 14}, {3, 15}, {3, 0}}};
        for (std::size_t i = 0; i < puts.size(); ++i) {
          const auto [key, value] = puts[i];
          auto& r = x.segments[i / 4][i % 4];
          m.op_begin();
          r = {key, value, i + 1, 0};
          r.sum = r.right_sum();
          persist(m.media(), &r, sizeof r, edge{"zoo/B36 record"});
          m.op_end();
          model[key] = value;
          state();
        }
        // What is still needed of the second segment goes to the third one, which takes its place.
        m.op_begin();
        std::size_t to = 0;
        for (const auto& r : x.segments[1]) {
          if (x.newest(r.key) != &r) continue;
          if (r.value == 0 && (is_buggy(t) || x.newest(r.key, 1) == nullptr)) continue;
          x.segments[2][to++] = r;
        }
        persist(m.media(), &x.segments[2], to * sizeof(segments_image::record), edge{"zoo/B36 compacted"});
        x.live = 0b101;
        persist(m.media(), &x.live, 8, edge{"zoo/B36 switched"});
        m.op_end();
        state();
      },
      [=](const segments_image& x, const window& w) {
        uint64_t digest = 0;
        for (uint64_t key = 0; key < keys_of_segments; ++key) {
          const auto* r = x.newest(key);
          if (r != nullptr && r->value != 0) digest += word_hash(key, r->value);
        }
        return history->check(digest, w);
      });
  reinterpret_cast<segments_image*>(s.image.data())->live = 0b011;
  return s;
}

// ---- checkpoints ----------------------------------------------------------------------------------------------------

// Two superblock slots, two areas, on a block device.
constexpr uint64_t sector_bytes = 512;
constexpr uint64_t area_sectors = 3;
struct superblock_slot {
  uint64_t generation;  // 0: never written
  uint64_t area;        // offset
};
void must(const status& s) {
  if (!s) throw std::runtime_error(last_message());
}
subject b37(twin t) {
  auto history = std::make_shared<digest_history>();
  const auto digest_of = [](const std::byte* area) {
    uint64_t digest = 0;
    for (uint64_t at = 0; at < area_sectors * sector_bytes; at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, area + at, 8);
      digest += word_hash(at, word);
    }
    return digest;
  };
  subject s;
  s.name = "B37";
  s.image.resize((2 + 2 * area_sectors) * sector_bytes);
  s.run = [=](machine& m) {
    explore::device d{m};
    std::vector<uint64_t> area(area_sectors * sector_bytes / 8);
    history->clear();
    history->state(digest_of(reinterpret_cast<const std::byte*>(area.data())));
    for (uint64_t generation = 1; generation <= 4; ++generation) {
      const uint64_t at = (2 + generation % 2 * area_sectors) * sector_bytes;
      std::fill(area.begin(), area.end(), generation);
      m.op_begin();
      must(d.write(at, area.data(), area_sectors * sector_bytes));
      if (!is_buggy(t)) must(d.sync(edge{"zoo/B37 target"}));
      std::array<uint64_t, sector_bytes / 8> slot{generation, at};
      must(d.write(generation % 2 * sector_bytes, slot.data(), sector_bytes));
      must(d.sync(edge{"zoo/B37 slot"}));
      m.op_end();
      history->state(digest_of(reinterpret_cast<const std::byte*>(area.data())));
    }
  };
  s.recover = [](machine&) { return pass(); };
  s.oracle = [=](machine& m, const window& w) {
    std::array<superblock_slot, 2> slots;
    for (std::size_t i = 0; i < 2; ++i) std::memcpy(&slots[i], m.base() + i * sector_bytes, sizeof slots[i]);
    const auto& newest = slots[slots[0].generation > slots[1].generation ? 0 : 1];
    const uint64_t area = newest.generation == 0 ? 2 * sector_bytes : newest.area;
    return history->check(digest_of(m.base() + area), w);
  };
  return s;
}

// ---- sequence numbers -----------------------------------------------------------------------------------------------

// A value in two slots, which are written in turn; the newer one counts.
struct two_slots {
  struct alignas(64) slot {
    std::uint32_t sequence;
    std::uint32_t written;
    uint64_t value;
    uint64_t sum;
    [[nodiscard]] uint64_t right_sum() const { return word_hash(sequence, value) + 1; }
    [[nodiscard]] bool holds() const { return written == 1 && sum == right_sum(); }
  };
  slot slots[2];
};
using sequence_order = bool (*)(std::uint32_t a, std::uint32_t b);  // a is newer
bool newer(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) > 0; }
bool newer_signed(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a) > static_cast<std::int32_t>(b);
}
bool newer_unsigned(std::uint32_t a, std::uint32_t b) { return a > b; }

std::size_t newest(const two_slots& x, sequence_order is_newer) {
  if (!x.slots[0].holds() || !x.slots[1].holds()) return x.slots[0].holds() ? 0 : 1;
  return is_newer(x.slots[0].sequence, x.slots[1].sequence) ? 0 : 1;
}

subject on_two_slots(const char* name, std::uint32_t first, sequence_order is_newer, bool counts_one_slot) {
  auto history = std::make_shared<digest_history>();
  subject s = on<two_slots>(
      name,
      [=](machine& m, two_slots& x) {
        history->clear();
        history->state(0);
        std::size_t current = 0;
        for (uint64_t i = 1; i <= 5; ++i) {
          const std::uint32_t sequence = x.slots[counts_one_slot ? 0 : current].sequence + 1;
          current = 1 - current;
          auto& next = x.slots[current];
          m.op_begin();
          next.sequence = sequence;
          next.written = 1;
          next.value = i;
          next.sum = next.right_sum();
          persist(m.media(), &next, sizeof next, edge{"zoo/B38"});
          m.op_end();
          history->state(i);
        }
      },
      [=](const two_slots& x, const window& w) { return history->check(x.slots[newest(x, is_newer)].value, w); });
  auto& start = reinterpret_cast<two_slots*>(s.image.data())->slots[0];
  start.sequence = first;
  start.written = 1;
  start.sum = start.right_sum();
  return s;
}

subject b37_equal(twin t) { return on_two_slots("B37, equal generations", 1, newer, is_buggy(t)); }

// From shortly before each value at which a number may wrap.
report from_each_sequence(const char* name, sequence_order is_newer, const options& o) {
  constexpr std::array<std::uint32_t, 4> starts{0, 0x7FFF, 0x7FFF'FFFD, 0xFFFF'FFFD};
  return explore_each(starts.size(), [&](std::size_t i) { return on_two_slots(name, starts[i], is_newer, false); }, o);
}
report b38_signed(twin t, const options& o) {
  return from_each_sequence("B38, signed", is_buggy(t) ? newer_signed : newer, o);
}
report b38_wrap(twin t, const options& o) {
  return from_each_sequence("B38, wrap", is_buggy(t) ? newer_unsigned : newer, o);
}

// ---- group commit ---------------------------------------------------------------------------------------------------

// Three threads hand their records to a leader, which makes them durable with one fence.
struct groups {
  static constexpr uint64_t members = 3;
  struct alignas(64) commit {
    uint64_t count;  // of records, of all groups so far
    uint64_t sum;
  };
  struct alignas(64) record {
    uint64_t value;
  };
  commit commits[2];
  record records[2 * members];

  [[nodiscard]] uint64_t digest(uint64_t count) const {
    uint64_t d = 0;
    for (uint64_t i = 0; i < count; ++i) d += word_hash(i, records[i].value);
    return d;
  }
  [[nodiscard]] uint64_t right_sum(uint64_t count, bool of_records) const {
    return word_hash(99, count) + (of_records ? digest(count) : 0);
  }
};
subject b39(twin t) {
  const bool of_records = !is_buggy(t);
  auto history = std::make_shared<digest_history>();
  return on<groups>(
      "B39",
      [=](machine& m, groups& x) {
        history->clear();
        history->state(0);
        for (unsigned g = 0; g < 2; ++g) {
          for (unsigned i = 0; i < groups::members; ++i) {
            m.thread(i);
            m.op_begin();
          }
          m.thread(0);
          for (uint64_t i = g * groups::members; i < (g + 1) * groups::members; ++i) {
            x.records[i].value = 100 + i;
            m.media().flush(&x.records[i], sizeof x.records[i]);
            history->state(x.digest(i + 1));
          }
          const uint64_t count = (g + 1) * groups::members;
          x.commits[g] = {count, x.right_sum(count, of_records)};
          persist(m.media(), &x.commits[g], sizeof x.commits[g], edge{"zoo/B39"});
          for (unsigned i = 0; i < groups::members; ++i) {
            m.thread(i);
            m.op_end();
          }
          m.thread(0);
        }
      },
      [=](const groups& x, const window& w) {
        uint64_t count = 0;
        for (const auto& c : x.commits) {
          if (c.count != 0 && c.count <= 2 * groups::members && c.sum == x.right_sum(c.count, of_records))
            count = c.count;
        }
        return history->check(x.digest(count), w);
      });
}

}  // namespace

std::span<const entry> log_entries() {
  static const entry all[] = {
      {.number = 35,
       .title = "second half of a wrapped record not flushed",
       .make = b35_split,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 35, .title = "tail passes the head of a full ring", .make = b35_full, .tiers = t1},
      {.number = 35, .title = "record of length zero", .hunt = b35_zero, .tiers = t1},
      {.number = 36, .title = "index before its record", .make = b36, .tiers = t1_t3},
      {.number = 36, .title = "tombstone lost in compaction", .make = b36_tombstone, .tiers = t1},
      {.number = 37,
       .title = "superblock slot flipped before its target is durable",
       .make = b37,
       .persistency = explore::model::ssd},
      {.number = 37, .title = "equal generations", .make = b37_equal, .tiers = t1},
      {.number = 38, .title = "signed compare of sequence numbers", .hunt = b38_signed, .tiers = t1},
      {.number = 38, .title = "sequence number wraps", .hunt = b38_wrap, .tiers = t1},
      {.number = 39, .title = "commit record of a torn batch", .make = b39, .tiers = t1_t3},
  };
  return all;
}

}  // namespace nvm::zoo
