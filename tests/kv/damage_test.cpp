// Stores with damaged bytes: damage is reported by name, all other entries are still there, and no walk runs for ever.
#include <cstring>
#include <set>

#include "../file_bytes.hpp"
#include "../sanitized.hpp"
#include "care/repair.hpp"
#include "kv/kv.hpp"
#include "kv/kv_layout.hpp"
#include "kv/salvage.hpp"
#include "kv_testing.hpp"
#include "pool/pool_layout.hpp"
#include "space/check.hpp"
#include "space/space_layout.hpp"

namespace nvm::tests {
namespace {

// Where the bytes are for the last time, after what logs have of them.
std::size_t last_of(const file_bytes& file, const std::string& bytes) {
  return std::string_view{file.data(), file.size()}.rfind(bytes);
}

constexpr std::uint64_t entries = 150;
std::string key_at(std::uint64_t i) { return number_key(i * 77); }
std::string value_at(std::uint64_t i) {
  std::string v = "value " + std::to_string(i * 1'000'003) + ' ';
  return v.append(i % 5 * 30, static_cast<char>('a' + i % 26));
}
model all_of_them() {
  model m;
  for (std::uint64_t i = 0; i < entries; ++i) m.emplace(key_at(i), value_at(i));
  return m;
}
void fill(const pool_place& place, enum nvm_kv_index index, unsigned flags = 0) {
  pool p = place.create(std::size_t{1} << 20);
  nvm_kv_options o{};
  o.index = index;
  o.flags = flags;
  auto s = kv::open(p, "store", o);
  ASSERT_TRUE(s.has_value()) << nvm_errormsg();
  kv_batch first;
  for (const auto& [key, value] : all_of_them()) first.put(*s, key, "another");
  ASSERT_TRUE(first.commit()) << nvm_errormsg();
  kv_batch second;
  for (const auto& [key, value] : all_of_them()) second.put(*s, key, value);
  ASSERT_TRUE(second.commit()) << nvm_errormsg();
}

std::int64_t findings(const std::string& path, std::string* first = nullptr) {
  return nvm_pool_check(
      path.c_str(),
      [](std::uint64_t, const char* what, void* to) {
        auto* text = static_cast<std::string*>(to);
        if (text != nullptr && text->empty()) *text = what;
      },
      first, nullptr);
}

std::string got(const kv& s, const std::string& key) {
  const auto value = s.get(key);
  return value ? *value : "none: " + std::string{nvm_errormsg()};
}

class damaged_pools : public testing::TestWithParam<ground_and_index> {
 protected:
  const pool_place place{GetParam().where};
};
INSTANTIATE_TEST_SUITE_P(everywhere, damaged_pools, testing::ValuesIn(kinds_of_build(grounds_and_indexes())), name_of);

// Method: a word of the closed file, of those that hold something, is changed; where the check finds nothing the store
// must hold what it did.
TEST_P(damaged_pools, pass_the_check_only_with_all_their_contents) {
  fill(place, GetParam().index);
  const file_bytes good = read_file(place.path());
  std::vector<std::size_t> words;
  std::uint64_t data_offset = 0;  // logs hold what has long been done
  std::memcpy(&data_offset, &good[offsetof(layout::superblock, data_offset)], sizeof data_offset);
  for (std::size_t at = data_offset; at + 8 <= good.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, good.data() + at, sizeof word);
    if (word != 0) words.push_back(at);
  }
  random_source random{static_cast<std::uint64_t>(GetParam().index)};
  const model whole = all_of_them();
  unsigned told = 0;
  for (unsigned round = 0; round < 60; ++round) {
    file_bytes bad = good;
    std::uint64_t word = 0;
    const std::size_t at = words[random() % words.size()];
    std::memcpy(&word, &good[at], 8);
    constexpr unsigned ways = 4;
    const std::uint64_t changed[ways] = {word ^ std::uint64_t{1} << random() % 64, random(), 0, word + 16};
    std::memcpy(&bad[at], &changed[round % ways], 8);
    write_file(place.path(), bad);
    if (findings(place.path()) != 0) {
      ++told;
      continue;
    }
    pool p = place.open();
    auto s = kv::open(p, "store");
    ASSERT_TRUE(s.has_value()) << at << ": " << nvm_errormsg();
    EXPECT_EQ(entries_of(*s), whole) << at << ", way " << round % ways;
    for (const auto& [key, value] : whole) EXPECT_EQ(got(*s, key), value) << at;
  }
  // The rings of regions are large, and hold what has long been done.
  EXPECT_GT(told, GetParam().index == NVM_KV_REGIONS ? 8U : 20U);
}

class damaged_records : public testing::TestWithParam<ground_and_index> {
 protected:
  static std::vector<ground_and_index> in_place() {
    std::vector<ground_and_index> all;
    for (const auto& g : grounds_and_indexes()) {
      if (g.where.engine != NVM_ENGINE_LOG) all.push_back(g);
    }
    return all;
  }
  const pool_place place{GetParam().where};
  // Changes one byte of the value of entry i in the closed file.
  void damage_value(std::uint64_t i) const {
    file_bytes f = read_file(place.path());
    const std::string value = value_at(i);
    std::size_t at = last_of(f, value);
    ASSERT_NE(at, std::string::npos);
    // The ring of regions may lie after them; it has nothing of a closed pool any more.
    const bool everywhere = GetParam().index == NVM_KV_REGIONS;
    for (; at != std::string::npos; at = everywhere ? last_of(f, value) : std::string::npos) f[at + 3] = 'X';
    write_file(place.path(), f);
  }

 public:
  static auto parameters() { return testing::ValuesIn(in_place()); }
};
INSTANTIATE_TEST_SUITE_P(everywhere, damaged_records, damaged_records::parameters(), name_of);

TEST_P(damaged_records, are_named_and_passed_over_by_scans_that_meet_all_others) {
  fill(place, GetParam().index);
  damage_value(40);
  damage_value(entries - 1);
  std::string first;
  EXPECT_EQ(findings(place.path(), &first), 2);
  EXPECT_NE(first.find("\"store\""), std::string::npos) << first;
  EXPECT_NE(first.find("fails its checksum"), std::string::npos) << first;
  model expected = all_of_them();
  expected.erase(key_at(40));
  expected.erase(key_at(entries - 1));
  pool p = place.open();
  kv s = open_store(p, "store", GetParam().index);
  model found;
  const int ended = nvm_kv_scan(
      s.handle(), nullptr,
      [](const nvm_kv_entry* e, void* to) {
        static_cast<model*>(to)->emplace(std::string{static_cast<const char*>(e->key), e->key_bytes},
                                         std::string{static_cast<const char*>(e->value), e->value_bytes});
        return 0;
      },
      &found);
  EXPECT_EQ(ended, -1);
  EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT);
  EXPECT_NE(std::string{nvm_errormsg()}.find("2 damaged entries passed over"), std::string::npos) << nvm_errormsg();
  EXPECT_EQ(found, expected);
  EXPECT_FALSE(s.statistics());
}

TEST_P(damaged_records, are_refused_by_updates_and_verified_reads_and_mended_by_a_put) {
  fill(place, GetParam().index);
  damage_value(40);
  pool p = place.open();
  kv s = open_store(p, "store", GetParam().index);
  EXPECT_TRUE(s.get(key_at(40)));  // not looked at
  const auto edit = [](void*, std::size_t*, std::size_t, void*) { return 0; };
  EXPECT_EQ(nvm_kv_update(s.handle(), key_at(40).data(), 8, 0, edit, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT);
  nvm_kv_options o{};
  o.flags = NVM_KV_VERIFY_READS;
  auto verified = kv::open(p, "store", o);
  ASSERT_TRUE(verified.has_value());
  EXPECT_EQ(verified->get(key_at(40)).code(), NVM_E_CORRUPT);
  // Of the key that is named, 40 * 77, as it can be read.
  EXPECT_NE(std::string{nvm_errormsg()}.find("\\x00\\x00\\x00\\x00\\x00\\x00\\x0c\\x08"), std::string::npos)
      << nvm_errormsg();
  EXPECT_EQ(got(*verified, key_at(41)), value_at(41));
  ASSERT_TRUE(s.put(key_at(40), value_at(40)));
  EXPECT_EQ(got(*verified, key_at(40)), value_at(40));
  EXPECT_TRUE(s.statistics()) << nvm_errormsg();
}

// More room than the record has, by one bit: a value that would fit there goes elsewhere.
TEST_P(damaged_records, whose_sizes_are_too_large_leave_their_neighbours_alone) {
  if (GetParam().index == NVM_KV_REGIONS) return;
  fill(place, GetParam().index);
  file_bytes f = read_file(place.path());
  const std::size_t sizes = last_of(f, value_at(40)) - 16;
  f[sizes + 7] ^= 1;
  write_file(place.path(), f);
  {
    pool p = place.open();
    kv s = open_store(p, "store", GetParam().index);
    model expected = all_of_them();
    expected[key_at(40)] = std::string(600, 'n');
    ASSERT_TRUE(s.put(key_at(40), expected[key_at(40)])) << nvm_errormsg();
    for (const auto& [key, value] : expected) EXPECT_EQ(got(s, key), value);
  }
  EXPECT_EQ(place.findings(), 0);
}

TEST_P(damaged_records, that_have_changed_places_are_told) {
  if (GetParam().index == NVM_KV_REGIONS) return;  // below
  fill(place, GetParam().index);
  file_bytes f = read_file(place.path());
  // Two entries with values of the same length; their keys, values and sums change places.
  const std::string a = value_at(50), b = value_at(60);
  ASSERT_EQ(a.size(), b.size());
  const std::size_t at_a = last_of(f, a), at_b = last_of(f, b);
  ASSERT_TRUE(at_a != std::string::npos && at_b != std::string::npos);
  std::swap_ranges(&f[at_a - 8], &f[at_a - 8] + a.size() + 16, &f[at_b - 8]);
  write_file(place.path(), f);
  EXPECT_GE(findings(place.path()), 2);
}

// Zero is a word of an extent that holds, and says that no object is there.
TEST_P(damaged_pools, do_not_pass_the_check_without_the_objects_that_their_links_lead_to) {
  if (GetParam().index == NVM_KV_REGIONS) return;  // they have one
  fill(place, GetParam().index);
  const file_bytes whole = read_file(place.path());
  layout::superblock sb;
  std::memcpy(static_cast<void*>(&sb), whole.data(), sizeof sb);
  const auto word_of = [&](std::uint64_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, &whole[at], sizeof word);
    return word;
  };
  unsigned words = 0;
  for (std::uint64_t page = 0; page < sb.size_pages; ++page) {
    const layout::page_entry e = layout::unpack(word_of(sb.page_map_offset + page * 8) & checked_mask);
    if (e.kind != layout::page_kind::fine && e.kind != layout::page_kind::coarse) continue;
    const layout::extent_shape s = layout::shape_of(e.kind, sb.page_shift);
    for (unsigned w = 0; w < s.words; ++w) {
      const std::uint64_t at = sb.data_offset + (page << sb.page_shift) + layout::first_words_at + w * 8;
      if (word_of(at) == 0) continue;
      file_bytes f = whole;
      std::memset(&f[at], 0, sizeof(std::uint64_t));
      write_file(place.path(), f);
      EXPECT_NE(findings(place.path()), 0) << "word at " << at;
      ++words;
    }
  }
  // A log has all of a log-structured pool; the log of ssd may have the words.
  EXPECT_TRUE(words == 0 || words > 10) << words;
}

// ---- salvage ----

struct salvage_result {
  model entries[4];  // by enum nvm_kv_proof
  std::set<std::string> lost;
  std::int64_t findings = 0;
  model all() const {
    model m;
    for (const model& e : entries) m.insert(e.begin(), e.end());
    return m;
  }
};
salvage_result salvage(const pool_place& place) {
  salvage_result r;
  nvm_kv_salvage_options o{};
  o.argument = &r;
  o.entry = [](const nvm_kv_entry* e, enum nvm_kv_proof proof, void* to) {
    static_cast<salvage_result*>(to)->entries[proof].emplace(
        std::string{static_cast<const char*>(e->key), e->key_bytes},
        std::string{static_cast<const char*>(e->value), e->value_bytes});
  };
  o.lost = [](std::uint64_t, const void* key, std::size_t bytes, const char*, void* to) {
    if (key != nullptr) static_cast<salvage_result*>(to)->lost.emplace(static_cast<const char*>(key), bytes);
  };
  const file_bytes before = read_file(place.path());
  r.findings = nvm_kv_salvage(place.path().c_str(), "store", &o);
  EXPECT_EQ(read_file(place.path()), before);
  return r;
}

TEST_P(damaged_pools, whole_are_salvaged_whole) {
  fill(place, GetParam().index);
  const salvage_result r = salvage(place);
  EXPECT_EQ(r.findings, 0) << nvm_errormsg();
  EXPECT_EQ(r.entries[NVM_KV_LED_TO], all_of_them());
  EXPECT_EQ(nvm_kv_salvage(place.path().c_str(), "another", nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
}

TEST_P(damaged_records, are_lost_by_name_and_all_others_salvaged) {
  fill(place, GetParam().index);
  damage_value(40);
  const salvage_result r = salvage(place);
  model expected = all_of_them();
  expected.erase(key_at(40));
  EXPECT_EQ(r.entries[NVM_KV_LED_TO], expected);
  EXPECT_EQ(r.lost, std::set<std::string>{key_at(40)});
}

// The header of the store in the file; the directory's has seed 0.
template <class Change>
void change_header(const pool_place& place, Change change) {
  file_bytes f = read_file(place.path());
  std::uint64_t data_offset = 0;
  std::memcpy(&data_offset, &f[offsetof(layout::superblock, data_offset)], sizeof data_offset);
  unsigned found = 0;
  for (std::size_t at = data_offset; at + sizeof(layout::kv_header) <= f.size(); at += 16) {
    layout::kv_header h;
    std::memcpy(static_cast<void*>(&h), &f[at], sizeof h);
    if (h.magic != layout::kv_magic || h.seed == 0) continue;
    change(h);
    std::memcpy(&f[at], &h, sizeof h);
    ++found;
  }
  ASSERT_EQ(found, 1U);
  write_file(place.path(), f);
}

TEST_P(damaged_records, that_nothing_leads_to_are_swept_up) {
  if (GetParam().index == NVM_KV_REGIONS) return;  // nothing leads there but their numbers
  fill(place, GetParam().index);
  change_header(place, [](layout::kv_header& h) {
    h.root = 12345 * 16;
    for (std::uint64_t& s : h.segments) s = 0;
  });
  EXPECT_NE(findings(place.path()), 0);
  const salvage_result r = salvage(place);
  EXPECT_GT(r.findings, 0);
  EXPECT_EQ(r.all(), all_of_them());
  EXPECT_EQ(r.entries[NVM_KV_SWEPT].size(), entries);
}

// A look-up compares keys, and asks neither who a node's parent is nor what its object's header says.
TEST(damaged_trees, are_salvaged_with_all_that_a_look_up_reads) {
  const pool_place place{grounds[0]};
  fill(place, NVM_KV_RBTREE);
  file_bytes f = read_file(place.path());
  constexpr std::uint64_t which = 33;
  const std::size_t key = last_of(f, key_at(which) + value_at(which));
  ASSERT_NE(key, std::string::npos);
  const std::size_t links = key - sizeof(std::uint64_t) - sizeof(layout::rb_links);
  layout::rb_links node;
  std::memcpy(&node, &f[links], sizeof node);
  node.parent ^= 0x1000;
  std::memcpy(&f[links], &node, sizeof node);
  std::memset(&f[links - sizeof(layout::object_header)], 0x5A, sizeof(layout::object_header));
  write_file(place.path(), f);
  EXPECT_NE(findings(place.path()), 0);
  EXPECT_EQ(salvage(place).all(), all_of_them());
}

TEST(damaged_stores, are_salvaged_beside_others_at_the_cost_of_what_there_is) {
  const pool_place place{grounds[0]};
  {
    pool p = place.create(std::size_t{4} << 20);
    for (const auto index : indexes) {
      nvm_kv_options o{};
      o.index = index;
      auto s = kv::open(p, nvm_kv_index_name(index), o);
      ASSERT_TRUE(s.has_value()) << nvm_errormsg();
      for (const auto& [key, value] : all_of_them()) ASSERT_TRUE(s->put(key, value)) << nvm_errormsg();
    }
  }
  // What lies in a record's object may look like the sizes of one as large as the pool: links of other indexes do.
  struct counting final : keyed::byte_source {
    explicit counting(keyed::byte_source& source) : from{source} {}
    bool read(std::uint64_t at, void* to, std::uint64_t bytes) override {
      total += bytes;
      return from.read(at, to, bytes);
    }
    std::uint64_t objects_max() override { return from.objects_max(); }
    keyed::byte_source& from;
    std::uint64_t total = 0;
  };
  const file_bytes f = read_file(place.path());
  const auto* base = reinterpret_cast<const std::byte*>(f.data());
  layout::superblock sb;
  std::memcpy(static_cast<void*>(&sb), f.data(), sizeof sb);
  const geometry g = geometry_of(sb);
  keyed::read_from_image image{base, g};
  counting bytes{image};
  const keyed::object_source from{bytes, [&](const keyed::object_source::visitor& visit) {
                                    (void)for_each_object(
                                        base, g, [&](std::uint64_t at, std::uint64_t room, layout::object_layout) {
                                          layout::object_header header{};
                                          std::memcpy(&header, base + at, sizeof header);
                                          visit(at + sizeof header, header.type, room - sizeof header);
                                          return true;
                                        });
                                  }};
  for (const auto index : indexes) {
    SCOPED_TRACE(nvm_kv_index_name(index));
    bytes.total = 0;
    model found;
    const keyed::salvage_report report{
        [&](const keyed::salvaged& e) { found.emplace(std::string{e.key}, std::string{e.value}); },
        [](const keyed::fault& fault) { ADD_FAILURE() << fault.what; }};
    ASSERT_TRUE(keyed::salvage(from, 0, nvm_kv_index_name(index), report));
    EXPECT_EQ(found, all_of_them());
    EXPECT_LT(bytes.total, 2 * f.size());
  }
}

TEST_P(damaged_records, of_a_store_whose_header_is_damaged_are_salvaged) {
  fill(place, GetParam().index);
  const file_bytes good = read_file(place.path());
  // Another index: the sums still say what is an entry.
  change_header(place, [](layout::kv_header& h) { h.index = h.index % 5 + 1; });
  EXPECT_EQ(salvage(place).all(), all_of_them());
  write_file(place.path(), good);
  // Another seed: no sum can be compared any more.
  if (GetParam().index == NVM_KV_HASH) return;     // whose buckets follow from it, too
  if (GetParam().index == NVM_KV_REGIONS) return;  // whose name it is
  change_header(place, [](layout::kv_header& h) { h.seed ^= 2; });
  EXPECT_EQ(salvage(place).entries[NVM_KV_UNPROVED], all_of_them());
}

// The names change in one transaction; what cannot be freed afterwards is no failure of the call.
TEST_P(damaged_records, of_a_store_whose_header_is_damaged_give_way_to_another_store) {
  fill(place, GetParam().index);
  change_header(place, [](layout::kv_header& h) { h.index = h.index % 5 + 1; });
  const std::string key = key_at(1);
  pool p = place.open();
  for (const char* name : {"next", "last"}) {
    kv made = open_store(p, name, GetParam().index);
    ASSERT_TRUE(made.put(key, name)) << nvm_errormsg();
  }
  EXPECT_EQ(nvm_kv_rename(p.handle(), "none", "none"), -1);
  EXPECT_EQ(nvm_kv_rename(p.handle(), "next", "next"), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_kv_rename(p.handle(), "next", "store"), 0) << nvm_errormsg();
  EXPECT_EQ(got(open_store(p, "store", GetParam().index), key), "next");
  EXPECT_EQ(nvm_kv_rename(p.handle(), "last", "store"), 0) << nvm_errormsg();
  ASSERT_TRUE(p.close());
  p = place.open();
  EXPECT_EQ(got(open_store(p, "store", GetParam().index), key), "last");
  EXPECT_EQ(nvm_kv_drop(p.handle(), "store"), 0) << nvm_errormsg();
}
TEST_P(damaged_records, of_a_store_whose_header_is_damaged_can_be_dropped) {
  fill(place, GetParam().index);
  change_header(place, [](layout::kv_header& h) { h.index = h.index % 5 + 1; });
  pool p = place.open();
  EXPECT_EQ(nvm_kv_drop(p.handle(), "store"), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_kv_drop(p.handle(), "store"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
}

TEST(damaged_logs, lose_what_is_damaged_and_no_more_by_salvage) {
  for (const auto index : indexes) {
    const pool_place place{grounds[2]};
    fill(place, index);
    file_bytes f = read_file(place.path());
    const std::string value = value_at(44);
    const std::size_t at = last_of(f, value);
    ASSERT_NE(at, std::string::npos);
    f[at + 3] = 'X';
    write_file(place.path(), f);
    EXPECT_NE(findings(place.path()), 0);
    model expected = all_of_them();
    expected.erase(key_at(44));
    EXPECT_EQ(salvage(place).all(), expected) << nvm_kv_index_name(index);
  }
}

class stores_without_sums : public testing::TestWithParam<ground_and_index> {};
INSTANTIATE_TEST_SUITE_P(everywhere, stores_without_sums, testing::ValuesIn(kinds_of_build(grounds_and_indexes())),
                         name_of);

TEST_P(stores_without_sums, stay_as_they_were_made) {
  const pool_place place{GetParam().where};
  fill(place, GetParam().index, NVM_KV_NO_CHECKSUMS);
  EXPECT_EQ(place.findings(), 0);
  pool p = place.open();
  kv s = open_store(p, "store", GetParam().index);
  EXPECT_EQ(nvm_kv_has_checksums(s.handle()), 0);
  EXPECT_EQ(entries_of(s), all_of_them());
  EXPECT_EQ(s.statistics()->checksums, 0U);
  kv other = open_store(p, "other", GetParam().index);
  EXPECT_EQ(nvm_kv_has_checksums(other.handle()), 1);
}

// In the memory of an open pool, where nobody looks meanwhile.
template <class Change>
void change_records(const pool& p, Change change) {
  (void)nvm_pool_each(
      p.handle(),
      [](void* object, std::uint32_t type, std::size_t, void* raw) {
        if (type == layout::kv_type_record) (*static_cast<Change*>(raw))(static_cast<std::uint64_t*>(object));
        return 0;
      },
      &change);
}

std::uint64_t base_of(const pool& p) {
  nvm_pool_info info{};
  EXPECT_EQ(nvm_pool_get_info(p.handle(), &info), 0);
  return info.base;
}

TEST(damaged_lists, that_run_into_themselves_end_at_once) {
  const pool_place place{grounds[0]};
  fill(place, NVM_KV_LIST);
  pool p = place.open();
  kv s = open_store(p, "store", NVM_KV_LIST);
  const std::uint64_t base = base_of(p);
  change_records(p, [&](std::uint64_t* object) {
    if (object[1] == entries / 2) object[0] = reinterpret_cast<std::uint64_t>(object) - base;
  });
  EXPECT_EQ(s.get("absent!!").code(), NVM_E_CORRUPT);
  EXPECT_FALSE(s.statistics());
  EXPECT_EQ(s.remove("absent!!").code(), NVM_E_CORRUPT);
}

TEST(damaged_trees, whose_links_go_round_end_at_once) {
  for (unsigned which = 0; which < 3; ++which) {
    const pool_place place{grounds[0]};
    fill(place, NVM_KV_RBTREE);
    pool p = place.open();
    kv s = open_store(p, "store", NVM_KV_RBTREE);
    const std::uint64_t base = base_of(p);
    change_records(p, [&](std::uint64_t* object) {
      const auto self = reinterpret_cast<std::uint64_t>(object) - base;
      if (object[which] > 1 && object[0] != 0) object[which] = self | (which == 2 ? object[2] & 1 : 0);
    });
    for (std::uint64_t i = 0; i < entries; ++i) {
      (void)s.get(key_at(i));
      (void)s.put(key_at(i), value_at(i + 1));
      (void)s.put(number_key(i * 77 + 1), "new");
      (void)s.remove(key_at(i));
    }
    for (const auto& e : s.entries()) (void)e;
    EXPECT_FALSE(s.statistics());
  }
}

// A byte that makes a store's name look like that of a store which is being dropped.
TEST_P(damaged_pools, drop_no_store_whose_name_is_damaged) {
  fill(place, GetParam().index);
  file_bytes f = read_file(place.path());
  const std::string name("store\0\0\0", 8);
  unsigned damaged = 0;
  for (std::size_t at = f.size() - 8;
       (at = std::string_view{f.data(), at + 8}.rfind(name)) != std::string::npos && at > 8; --at) {
    std::uint64_t sizes = 0;
    std::memcpy(&sizes, &f[at - 8], sizeof sizes);
    if ((sizes & UINT32_MAX) != 8 || (sizes >> 32 & UINT16_MAX) != 5) continue;
    f[at] = '\0';
    ++damaged;
  }
  ASSERT_GT(damaged, 0U);
  write_file(place.path(), f);
  pool p = place.open();
  (void)kv::open(p, "other");
  auto s = kv::open(p, "store", GetParam().index);
  ASSERT_TRUE(s.has_value()) << nvm_errormsg();
  EXPECT_EQ(entries_of(*s), all_of_them());
}

// A link of one store that leads to a record of another, which is not freed with the first one.
TEST(damaged_stores, free_no_record_of_another_when_they_are_dropped) {
  const auto text = [](const std::string& of, std::uint64_t i) {
    return of + " has value " + std::to_string(1000 + i);
  };
  constexpr std::uint64_t many = 100;
  for (const auto index : indexes) {
    const pool_place place{grounds[0]};
    {
      pool p = place.create();
      for (const char* name : {"first", "other"}) {
        kv s = open_store(p, name, index);
        for (std::uint64_t i = 0; i < many; ++i) ASSERT_TRUE(s.put(number_key(i), text(name, i))) << nvm_errormsg();
      }
    }
    file_bytes f = read_file(place.path());
    const auto object_of = [&](const char* of) {
      const std::size_t links = index == NVM_KV_LIST     ? sizeof(layout::list_links)
                                : index == NVM_KV_RBTREE ? sizeof(layout::rb_links)
                                                         : 0;
      return last_of(f, text(of, 10)) - 16 - links;
    };
    const std::uint64_t own = object_of("first"), foreign = object_of("other");
    unsigned found = 0;
    for (std::size_t at = 0; at + 8 <= f.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, &f[at], 8);
      const bool packed = index == NVM_KV_HASH || index == NVM_KV_BTREE;
      if (packed ? layout::place_of(word) != own || layout::more_of(word) == 0 : word != own) continue;
      // Not the way back to a parent.
      const auto begins_record = [&](std::size_t object) {
        std::uint32_t type = 0;
        std::memcpy(&type, &f[object - 8], sizeof type);
        return type == layout::kv_type_record;
      };
      if (!packed && (at < 24 || (!begins_record(at) && !begins_record(at - 8)))) continue;
      word = packed ? layout::pack_place(foreign, layout::more_of(word)) : foreign;
      std::memcpy(&f[at], &word, 8);
      ++found;
    }
    ASSERT_GT(found, 0U) << index;
    write_file(place.path(), f);
    pool p = place.open();
    ASSERT_EQ(nvm_kv_drop(p.handle(), "first"), 0) << nvm_errormsg();
    kv third = open_store(p, "third", index);
    for (std::uint64_t i = 0; i < 3 * many; ++i) ASSERT_TRUE(third.put(number_key(i), text("third", i)));
    kv other = open_store(p, "other", index);
    for (std::uint64_t i = 0; i < many; ++i) EXPECT_EQ(got(other, number_key(i)), text("other", i)) << index;
    EXPECT_EQ(*other.size(), many);
  }
}

// A damaged store whose drop could not come to its end is room, and nothing that a repair makes anew.
TEST(damaged_stores, that_were_dropped_do_not_keep_others_from_repair) {
  const pool_place place{grounds[0]};
  fill(place, NVM_KV_BTREE);
  {
    pool p = place.open();
    kv gone = open_store(p, "gone", NVM_KV_LIST);
    for (std::uint64_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(gone.put(number_key(i), "goes with " + std::to_string(1000 + i))) << nvm_errormsg();
    }
  }
  file_bytes f = read_file(place.path());
  std::memset(&f[last_of(f, "goes with 1040") - 24], 0, 8);  // its sequence number
  write_file(place.path(), f);
  {
    pool p = place.open();
    ASSERT_EQ(nvm_kv_drop(p.handle(), "gone"), 0) << nvm_errormsg();
  }
  f = read_file(place.path());
  f[last_of(f, value_at(40)) + 3] = 'X';
  write_file(place.path(), f);
  care::repair_request request;
  request.path = place.path();
  request.in_place = true;
  care::repair_report report;
  ASSERT_TRUE(care::repair_pool(request, report)) << last_message();
  EXPECT_EQ(place.findings(), 0);
  pool p = place.open();
  kv s = open_store(p, "store", NVM_KV_BTREE);
  model expected = all_of_them();
  expected.erase(key_at(40));
  EXPECT_EQ(entries_of(s), expected);
}

// A fetch that has failed has given nothing out, and fails again.
TEST(damaged_lists, end_a_cursor_each_time_it_is_asked) {
  const pool_place place{grounds[0]};
  fill(place, NVM_KV_LIST);
  file_bytes f = read_file(place.path());
  std::memset(&f[last_of(f, value_at(40)) - 24], 0, 8);  // its sequence number
  write_file(place.path(), f);
  pool p = place.open();
  kv s = open_store(p, "store", NVM_KV_LIST);
  nvm_kv_cursor* const c = nvm_kv_cursor_open(s.handle(), nullptr);
  ASSERT_NE(c, nullptr) << nvm_errormsg();
  nvm_kv_entry e{};
  unsigned seen = 0;
  int next = 0;
  while ((next = nvm_kv_cursor_next(c, &e)) == 1) ++seen;
  EXPECT_GT(seen, 10U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(next, -1);
    EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
    next = nvm_kv_cursor_next(c, &e);
  }
  nvm_kv_cursor_close(c);
}

}  // namespace
}  // namespace nvm::tests
