// Walks over stores over regions.
#include <algorithm>
#include <new>

#include "kv/lewat.hpp"
#include "kv/readable.hpp"

namespace nvm::keyed::lewat {

walk::walk(std::shared_ptr<regions_index> of) noexcept : held_{std::move(of)}, of_{*held_} {
  of_.walks_.fetch_add(1, std::memory_order_relaxed);
}
walk::~walk() {
  if (of_.walks_.fetch_sub(1, std::memory_order_relaxed) != 1) return;
  for (unsigned i = 0; i < layout::item_segments; ++i) {
    regions_index::segment& s = of_.segments_[i];
    const std::lock_guard guard{s.lock};
    if (of_.walks_.load(std::memory_order_relaxed) != 0) return;
    std::vector<std::uint64_t>{}.swap(s.made);
    s.made_is_short = false;
  }
}

status walk::begin() {
  // After each lock was taken once, every region made without a note exists.
  for (unsigned i = 0; i < layout::item_segments; ++i) const std::lock_guard passed{of_.segments_[i].lock};
  std::vector<std::uint64_t> all;
  {
    const reading here{of_.pool_, of_.store_};
    if (status s = here.begun(); !s) return s;
    if (status s = take_numbers(all, layout::item_segments); !s) return s;
  }
  own_.resize(all.size());
  for (const std::uint64_t rid : all) ++own_ends_[layout::segment_of_region(rid) + 1];
  for (unsigned i = 0; i < layout::item_segments; ++i) own_ends_[i + 1] += own_ends_[i];
  std::size_t next[layout::item_segments];
  std::copy(own_ends_, own_ends_ + layout::item_segments, next);
  for (const std::uint64_t rid : all) own_[next[layout::segment_of_region(rid)]++] = rid;
  begun_ = true;
  return {};
}

status walk::take_bucket(std::uint64_t rid) {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  bool there = false;
  if (status s = of_.length(rid, bytes, there); !s) return s;
  const std::size_t from = bytes_.size();
  bytes_.resize(from + bytes);
  if (status s = of_.read(rid, {bytes_.data() + from, bytes}, count, there); !s) return s;
  parts_.push_back({rid, from, from + count});
  seen_.longest = std::max(seen_.longest, count);
  seen_.packed_bytes += count;
  return {};
}

// Of own regions: of one segment, or (item_segments) of all.
status walk::take_numbers(std::vector<std::uint64_t>& to, unsigned number) {
  bool is_short = false;
  const status seen = of_.each_number([&](std::uint64_t rid) {
    const unsigned its = layout::segment_of_region(rid);
    if (!layout::is_own_region(rid) || (number != layout::item_segments && its != number)) return;
    try {
      to.push_back(rid);
    } catch (const std::bad_alloc&) {
      is_short = true;
    }
  });
  if (!seen) return seen;
  if (is_short) return fail(errc::no_memory, "no volatile memory for the numbers of %zu regions", to.size());
  return {};
}

status walk::take_segment(unsigned number) {
  segment_set one;
  one.set(number);
  const segment_locks here{of_, one};
  if (status s = of_.still_open(); !s) return s;
  bytes_.clear();
  parts_.clear();
  part_ = 0;
  at_ = 0;
  buckets_ = of_.segments_[number].buckets.load(std::memory_order_relaxed);
  seen_.buckets += buckets_;
  seen_.depth = std::max<std::uint64_t>(seen_.depth, std::bit_width(buckets_ - 1));
  for (std::uint64_t b = 0; b < buckets_; ++b) {
    if (status s = take_bucket(layout::region_of_bucket(number, b)); !s) return s;
  }
  const regions_index::segment& s = of_.segments_[number];
  own_at_ = 0;
  own_now_.assign(own_.begin() + static_cast<std::ptrdiff_t>(own_ends_[number]),
                  own_.begin() + static_cast<std::ptrdiff_t>(own_ends_[number + 1]));
  if (s.made_is_short) {
    // Nobody has noted the regions that were made during the walk.
    if (status all = take_numbers(own_now_, number); !all) return all;
  } else {
    own_now_.insert(own_now_.end(), s.made.begin(), s.made.end());
  }
  std::sort(own_now_.begin(), own_now_.end());
  own_now_.erase(std::unique(own_now_.begin(), own_now_.end()), own_now_.end());
  status looked;
  const auto gone = std::remove_if(own_now_.begin(), own_now_.end(), [&](std::uint64_t rid) {
    std::uint64_t bytes = 0;
    bool there = false;
    if (status l = of_.length(rid, bytes, there); !l) looked = l.error();
    return !there;
  });
  own_now_.erase(gone, own_now_.end());
  return looked;
}

status walk::read_own(std::uint64_t rid, bool& there) {
  std::uint64_t bytes = 0;
  if (status s = of_.length(rid, bytes, there); !s) return s;
  for (;;) {
    std::uint64_t count = 0;
    bytes_.resize(bytes + 1);
    if (status s = of_.read(rid, bytes_, count, there); !s) return s;
    if (count <= bytes) {
      if (there) parts_.push_back({rid, 0, count});
      return {};
    }
    bytes = 2 * count;  // it has grown
  }
}

// Takes the entry of a region that has gone since, if it has become a small one.
status walk::take_if_packed(std::uint64_t rid) {
  const unsigned number = layout::segment_of_region(rid);
  segment_set one;
  one.set(number);
  const segment_locks here{of_, one};
  if (status s = of_.still_open(); !s) return s;
  bool there = false;
  if (status s = read_own(rid, there); !s || there) return s;
  buckets_ = of_.segments_[number].buckets.load(std::memory_order_relaxed);
  const std::uint64_t bucket = layout::bucket_region(rid, buckets_);
  if (status s = take_bucket(bucket); !s) return s;
  const part all = parts_.back();
  parts_.pop_back();
  const record_sums& sums = of_.store_.sums;
  item i;
  for (std::uint64_t at = 0; read_item(bytes_.data() + all.from, all.to - all.from, at, sums, i) == found::yes;) {
    key k = key_in(bytes_.data() + all.from, i);
    k.take_hash(of_.store_.seed);
    const std::uint64_t next = at + bytes_of(i.sizes, sums);
    if (layout::own_region(k.hash) == rid) parts_.push_back({bucket, all.from + at, all.from + next});
    at = next;
  }
  return {};
}

status walk::take_own(std::uint64_t rid) {
  bytes_.clear();
  parts_.clear();
  part_ = 0;
  at_ = 0;
  ++seen_.own;
  bool there = false;
  {
    const reading here{of_.pool_, of_.store_};
    if (status s = here.begun(); !s) return s;
    if (status s = read_own(rid, there); !s) return s;
  }
  return there ? status{} : take_if_packed(rid);
}

// Where it fails, nothing of it is given out.
template <class Take>
status walk::take_whole(Take&& take) {
  const shape before = seen_;
  status taken;
  try {
    taken = take();
  } catch (const std::bad_alloc&) {
    taken = fail(errc::no_memory, "no volatile memory for entries");
  }
  if (!taken) {
    parts_.clear();
    seen_ = before;
  }
  return taken;
}

// Entries of the next region, or of the next segment; it stays the next one where that fails.
status walk::take_next() {
  if (own_at_ < own_now_.size()) {
    if (status s = take_whole([&] { return take_own(own_now_[own_at_]); }); !s) return s;
    ++own_at_;
    return {};
  }
  if (status s = take_whole([&] { return take_segment(segment_); }); !s) {
    own_now_.clear();
    return s;
  }
  ++segment_;
  return {};
}

result<walk::step> walk::next(entry_view& out) try {
  if (!begun_) {
    if (status s = begin(); !s) return s.error();
  }
  for (;;) {
    if (part_ < parts_.size()) {
      const part& p = parts_[part_];
      const std::byte* image = bytes_.data() + p.from;
      const record_sums& sums = of_.store_.sums;
      item i;
      const found f = read_item(image, p.to - p.from, at_, sums, i);
      if (f != found::yes) {
        ++part_;
        at_ = 0;
        if (f == found::no) continue;
        out = {{}, {}, p.rid};
        (void)of_.damaged(p.rid);
        return step::damage;
      }
      at_ += bytes_of(i.sizes, sums);
      out = {{reinterpret_cast<const char*>(image + i.key_at()), i.sizes.key},
             {reinterpret_cast<const char*>(image + i.value_at()), i.sizes.value},
             p.rid};
      const store& s = of_.store_;
      const verdict v = judge(image, i, p.rid, buckets_, {s.index, s.seed, s.sums.on});
      if (v == verdict::sound) return step::entry;
      (void)of_.damaged_entry(p.rid, key_in(image, i), v);
      return step::damage;
    }
    if (own_at_ == own_now_.size() && segment_ == layout::item_segments) return step::end;
    if (status s = take_next(); !s) return s.error();
  }
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for entries");
}

}  // namespace nvm::keyed::lewat
