#include "kv/lewat_rest.hpp"

#include <algorithm>
#include <new>
#include <vector>

namespace nvm::keyed::lewat {

verdict judge(const std::byte* image, const item& i, std::uint64_t rid, std::uint64_t buckets,
              const store_facts& facts) noexcept {
  key k = key_in(image, i);
  k.take_hash(facts.seed);
  if (!sum_holds(image, i, k, {facts.with_sums, facts.seed})) return verdict::no_sum;
  const bool own = layout::is_own_region(rid);
  return rid == (own ? layout::own_region(k.hash) : layout::bucket_region(k.hash, buckets)) ? verdict::sound
                                                                                            : verdict::elsewhere;
}

const char* sentence(verdict v) noexcept {
  return v == verdict::no_sum ? "it fails its checksum" : "it is in a region where its key is not looked for";
}

namespace {

class reader {
 public:
  reader(engines::open_set& set, unsigned who, const store_facts& facts, const rest_report& report) noexcept
      : set_{set}, who_{who}, facts_{facts}, report_{report} {
    std::fill(std::begin(buckets_), std::end(buckets_), 1);
  }
  status run() {
    struct region {
      std::uint64_t rid, bytes;
    };
    std::vector<region> all;
    const auto seen = set_.each(
        who_,
        [](std::uint64_t rid, std::uint64_t bytes, void* raw) {
          static_cast<std::vector<region>*>(raw)->push_back({rid, bytes});
          return 0;
        },
        &all);
    if (!seen) return seen.error();
    std::sort(all.begin(), all.end(), [](const region& a, const region& b) { return a.rid < b.rid; });
    std::uint64_t regions[layout::item_segments] = {};
    for (const region& r : all) {
      if (is_bucket(r.rid)) ++regions[layout::segment_of_region(r.rid)];
    }
    // From the largest number down: one that is too large is none of the segment's.
    for (auto r = all.rbegin(); r != all.rend(); ++r) {
      if (!is_bucket(r->rid)) continue;
      const unsigned segment = layout::segment_of_region(r->rid);
      const std::uint64_t buckets = layout::bucket_of_region(r->rid) + 1;
      if (buckets_[segment] < buckets && buckets > layout::buckets_max(regions[segment])) {
        --regions[segment];
      } else {
        buckets_[segment] = std::max(buckets_[segment], buckets);
      }
    }
    for (const region& r : all) {
      if (status s = look_at(r.rid, r.bytes); !s) return s;
    }
    return {};
  }

 private:
  static bool is_bucket(std::uint64_t rid) noexcept {
    return !layout::is_own_region(rid) && layout::segment_of_region(rid) < layout::item_segments;
  }
  status look_at(std::uint64_t rid, std::uint64_t bytes) {
    const unsigned segment = layout::segment_of_region(rid);
    if (segment >= layout::item_segments || (is_bucket(rid) && layout::bucket_of_region(rid) >= buckets_[segment])) {
      report_.lost("a region whose number no entry has", rid, false, {});
      return report_.takes_out ? set_.drop(who_, rid) : status{};
    }
    image_.resize(bytes);
    const auto n = set_.read(who_, rid, 0, image_);
    if (!n) return n.error();
    kept_.clear();
    const record_sums sums{facts_.with_sums, facts_.seed};
    item i;
    found f = found::no;
    for (std::uint64_t at = 0; (f = read_item(image_.data(), *n, at, sums, i)) == found::yes; at = next(i, sums)) {
      take(rid, i, judge(image_.data(), i, rid, buckets_[segment], facts_), sums);
    }
    if (f == found::damaged) report_.lost("sizes of an entry that cannot be: it and all after it", rid, false, {});
    return !report_.takes_out || kept_.size() == *n ? status{} : put_back(rid);
  }
  static std::uint64_t next(const item& i, const record_sums& sums) noexcept { return i.at + bytes_of(i.sizes, sums); }
  void take(std::uint64_t rid, const item& i, verdict v, const record_sums& sums) {
    const auto text = [&](std::uint64_t at, std::uint64_t count) {
      return std::string_view{reinterpret_cast<const char*>(image_.data()) + at, count};
    };
    const std::string_view key = text(i.key_at(), i.sizes.key);
    if (v != verdict::sound) return report_.lost(sentence(v), rid, true, key);
    if (report_.give) report_.give(key, text(i.value_at(), i.sizes.value), rid);
    if (!report_.takes_out) return;
    const std::byte* from = image_.data() + i.at;
    kept_.insert(kept_.end(), from, from + bytes_of(i.sizes, sums));
  }
  status put_back(std::uint64_t rid) {
    if (status s = set_.drop(who_, rid); !s) return s;
    if (kept_.empty() && layout::is_own_region(rid)) return {};
    return set_.create(who_, rid, kept_.size(), kept_, 0);
  }

  engines::open_set& set_;
  const unsigned who_;
  const store_facts& facts_;
  const rest_report& report_;
  std::uint64_t buckets_[layout::item_segments];
  std::vector<std::byte> image_, kept_;
};

}  // namespace

status read_at_rest(engines::open_set& set, unsigned who, const store_facts& facts, const rest_report& report) try {
  return reader{set, who, facts, report}.run();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to look at the entries of a key-value store");
}

}  // namespace nvm::keyed::lewat
