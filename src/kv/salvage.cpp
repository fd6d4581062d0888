#include "kv/salvage.hpp"

#include <array>
#include <cstring>
#include <new>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace nvm::keyed {
namespace {

// Where a record may begin in its object: after the links of each index.
constexpr std::array<std::uint64_t, 3> record_offsets{0, sizeof(layout::list_links), sizeof(layout::rb_links)};
constexpr std::array<kv_index, 4> indexes{kv_index::list, kv_index::hash, kv_index::btree, kv_index::rbtree};
constexpr store_facts directory_facts{kv_index::btree, 0, true};

class salvager {
 public:
  salvager(const object_source& from, std::string_view name, const salvage_report& report)
      : from_{from}, name_{name}, report_{report} {}

  status run(std::uint64_t directory) {
    if (status s = find_header(directory); !s) return s;
    inspection walk;
    if (status s = walk_store(walk); !s) return s;
    facts_ = walk.facts();
    if (report_.of) report_.of(facts_);
    const bool proves = facts_.with_sums && !without_proof_;
    if (facts_.index == kv_index::regions) {
      if (status s = read_regions(); !s) return s;
    } else if (proves) {
      follow_links();
      sweep();
    }
    for (const auto& f : faults_) {
      if (f.has_key && given_.contains(f.key)) continue;  // it was found elsewhere
      report_.lost({f.what, f.place, f.has_key, f.key});
    }
    return {};
  }

 private:
  struct kept_fault {
    const char* what;
    std::uint64_t place;
    bool has_key;
    std::string key;
  };
  void keep(const fault& f) { faults_.push_back({f.what, f.place, f.has_key, std::string{f.key}}); }

  // ---- the store's header ----

  void note_name(std::string_view key, std::string_view value) {
    std::uint64_t place = 0;
    if (value.size() != sizeof place) return;
    std::memcpy(&place, value.data(), sizeof place);
    headers_.insert(place);
    if (key == name_) header_ = place;
  }
  status find_header(std::uint64_t directory) {
    inspection names;
    names.wants_values = true;
    names.tell = [](const fault&) { return true; };
    names.meet = [this](const entry_found& e) { note_name(e.key, e.value); };
    if (directory != 0) {
      if (status s = names.run(from_.bytes, directory); !s) return s;
    }
    // The directory's own records, whatever leads there.
    names.begin(from_.bytes, directory_facts);
    from_.each([&](std::uint64_t place, std::uint32_t type, std::uint64_t bytes) {
      if (type == layout::kv_type_header) headers_.insert(place);
      if (type == layout::kv_type_record && read_in(names, place, bytes, 0)) note_name(names.key(), names.value());
    });
    if (header_ != 0) return {};
    return fail(errc::not_found, "there is no key-value store \"%.*s\" that can be read",
                static_cast<int>(name_.size()), name_.data());
  }

  // ---- by links ----

  void give(const entry_found& e, proof how) {
    seen_.insert(e.place);
    given_.emplace(e.key);
    report_.give({e.key, e.value, e.place, how});
  }
  // Number of entries that a walk meets when it takes the store for one of `index`; nothing is given or kept.
  std::uint64_t try_walk(inspection& walk, kv_index index, bool believes) {
    std::uint64_t met = 0;
    walk.take_for(index, believes);
    walk.tell = [](const fault&) { return true; };
    walk.meet = [&met](const entry_found&) { ++met; };
    return walk.run(from_.bytes, header_) ? met : 0;
  }
  status walk_store(inspection& walk) {
    layout::kv_header header{};
    store_facts facts;
    const bool is_read = from_.bytes.read(header_, &header, sizeof header);
    walk.wants_values = true;
    const bool is_damaged = is_read && !check_header(header, header_, facts);
    if (is_damaged && has_regions({kv_index::regions, header.seed, facts.with_sums})) {
      walk.take_for(kv_index::regions, false);
    } else if (is_damaged) {
      std::uint64_t best = 0;
      kv_index index = facts.index;
      for (const bool believes : {false, true}) {
        for (const kv_index i : indexes) {
          if (best != 0 && believes) break;
          const std::uint64_t met = try_walk(walk, i, believes);
          if (met <= best) continue;
          best = met;
          index = i;
          without_proof_ = believes;
        }
      }
      walk.take_for(index, without_proof_);
    }
    walk.tell = [this](const fault& f) {
      keep(f);
      return true;
    };
    walk.meet = [&](const entry_found& e) {
      give(e, walk.facts().with_sums && !without_proof_ ? proof::led_to : proof::none);
    };
    return walk.run(from_.bytes, header_);
  }

  // Whether there are regions of a store of that seed, with an entry.
  bool has_regions(const store_facts& facts) {
    std::uint64_t met = 0;
    lewat::rest_report each;
    each.give = [&met](std::string_view, std::string_view, std::uint64_t) { ++met; };
    each.lost = [](const char*, std::uint64_t, bool, std::string_view) {};
    return from_.regions && from_.regions(facts, each) && met != 0;
  }
  status read_regions() {
    if (!from_.regions) return {};
    lewat::rest_report each;
    each.give = [&](std::string_view key, std::string_view value, std::uint64_t rid) {
      give({key, value, rid}, facts_.with_sums ? proof::led_to : proof::none);
    };
    each.lost = [&](const char* what, std::uint64_t, bool has_key, std::string_view key) {
      keep({what, header_, has_key, key});
    };
    return from_.regions(facts_, each);
  }

  // Follows links as a look-up does, which compares keys alone: to a node whose parent is another one, to a record out
  // of order.  The headers of their objects may be damaged, so that no sweep meets them.
  void follow_links() {
    layout::kv_header header{};
    if (!from_.bytes.read(header_, &header, sizeof header)) return;
    inspection own;
    own.begin(from_.bytes, facts_);
    std::unordered_set<std::uint64_t> met;
    std::vector<std::uint64_t> next{header.root};
    const std::uint64_t most = from_.bytes.objects_max();
    while (!next.empty() && met.size() < most) {
      const std::uint64_t place = next.back();
      next.pop_back();
      if (place == 0 || !met.insert(place).second) continue;
      std::uint64_t record = 0;
      if (facts_.index == kv_index::rbtree) {
        record = add_links<layout::rb_links>(place, next);
      } else if (facts_.index == kv_index::list) {
        record = add_links<layout::list_links>(place, next);
      }
      if (record == 0 || seen_.contains(record) || !own.read_record(record)) continue;
      if (!given_.contains(std::string{own.key()})) give({own.key(), own.value(), record}, proof::led_to);
    }
  }
  // Where the node's links lead, to be followed; place of its record, 0: there is none.
  template <class Links>
  std::uint64_t add_links(std::uint64_t place, std::vector<std::uint64_t>& next) {
    Links links{};
    if (!from_.bytes.read(place, &links, sizeof links)) return 0;
    if constexpr (std::is_same_v<Links, layout::rb_links>) {
      next.push_back(links.right);
      next.push_back(links.left);
    } else {
      next.push_back(links.next);
    }
    return place + sizeof links;
  }

  // ---- all records ----

  // Whether a record that holds lies so far inside of the object. Bytes that are no record may name any sizes: what
  // does not fit is not read, or each object could cost as much as the pool.
  [[nodiscard]] static bool read_in(inspection& as, std::uint64_t object, std::uint64_t bytes, std::uint64_t offset) {
    return offset < bytes && as.read_record(object + offset, nullptr, bytes - offset);
  }
  void sweep() {
    inspection own;
    own.begin(from_.bytes, facts_);
    const std::vector<store_facts> others = facts_of_others();
    from_.each([&](std::uint64_t object, std::uint32_t type, std::uint64_t bytes) {
      if (type != layout::kv_type_record) return;
      for (const std::uint64_t offset : record_offsets) {
        const std::uint64_t place = object + offset;
        if (seen_.contains(place)) return;
        if (!read_in(own, object, bytes, offset)) continue;
        if (!given_.contains(std::string{own.key()})) give({own.key(), own.value(), place}, proof::swept);
        return;
      }
      if (all_have_sums_ && !is_told(object) && !is_of(others, object, bytes)) {
        keep({"a record that is no store's any more: it fails its checksum, and nothing leads there",
              object,
              false,
              {}});
      }
    });
  }
  // The facts of all other stores that the pool has; records without sums could be any store's.
  std::vector<store_facts> facts_of_others() {
    std::vector<store_facts> all{directory_facts};
    for (const std::uint64_t place : headers_) {
      if (place == header_) continue;
      layout::kv_header header{};
      store_facts facts;
      const bool is_read = from_.bytes.read(place, &header, sizeof header);
      if (!is_read || !check_header(header, place, facts) || !facts.with_sums) {
        all_have_sums_ = false;
      } else {
        all.push_back(facts);
      }
    }
    return all;
  }
  bool is_of(const std::vector<store_facts>& stores, std::uint64_t object, std::uint64_t bytes) {
    inspection one;
    for (const store_facts& facts : stores) {
      one.begin(from_.bytes, facts);
      for (const std::uint64_t offset : record_offsets) {
        if (read_in(one, object, bytes, offset)) return true;
      }
    }
    return false;
  }
  // Whether the walk has said something about a record in the object.
  bool is_told(std::uint64_t object) const {
    for (const auto& f : faults_) {
      for (const std::uint64_t offset : record_offsets) {
        if (f.place == object + offset) return true;
      }
    }
    return false;
  }

  const object_source& from_;
  const std::string_view name_;
  const salvage_report& report_;
  std::uint64_t header_ = 0;
  std::set<std::uint64_t> headers_;
  store_facts facts_{};
  bool without_proof_ = false;
  bool all_have_sums_ = true;
  std::unordered_set<std::uint64_t> seen_;
  std::unordered_set<std::string> given_;
  std::vector<kept_fault> faults_;
};

}  // namespace

status salvage(const object_source& from, std::uint64_t directory, std::string_view name,
               const salvage_report& report) try {
  return salvager{from, name, report}.run(directory);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to salvage a key-value store");
}

}  // namespace nvm::keyed
