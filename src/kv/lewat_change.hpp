// What operations make of regions of a store, in private memory, until commit() changes them: one region by one call,
// several by a group.  The locks of the segments are held from before the first operation until after the commit.
#pragma once

#include "kv/lewat.hpp"

namespace nvm::keyed::lewat {

class change {
 public:
  explicit change(regions_index& of) noexcept : of_{of} {}

  [[nodiscard]] status put(const key& k, bytes_view value, unsigned flags);
  [[nodiscard]] status remove(const key& k, bool& removed);
  // The entry as the operations before have left it; its bytes lie in the thread's scratch.
  [[nodiscard]] status find(const key& k, answer& out);
  // Splits the bucket with that number into itself and the next one of its segment.
  [[nodiscard]] status split(std::uint64_t rid, std::uint64_t buckets);
  [[nodiscard]] status commit();

 private:
  enum class deed : std::uint8_t { none, create, drop, edit };
  // A region, as it is and as it will be.  Only the beginning is known of a large region whose one entry is about to be
  // replaced.
  struct image {
    std::uint64_t rid = 0;
    const std::byte* before = nullptr;
    std::uint64_t known = 0;     // bytes of `before`
    std::uint64_t length = 0;    // of the region
    std::byte* after = nullptr;  // `before`, until it changes
    std::uint64_t after_bytes = 0;
    std::uint64_t after_room = 0;  // room of `after`; 0: it is `before`
    bool exists = false;
    bool changes = false;
    bool is_made = false;     // also without a byte
    deed what = deed::none;   // of commit()
    std::int64_t gained = 0;  // entries
  };
  static constexpr std::uint64_t known_max = 64 << 10;
  struct place {
    unsigned image = 0;
    item i{};
    bool there = false;
  };

  // Number of the image of the region; count_: there is none.
  [[nodiscard]] unsigned find_image(std::uint64_t rid) const noexcept;
  [[nodiscard]] status load(std::uint64_t rid, unsigned& out);
  [[nodiscard]] status read_all(image& m, std::uint64_t room);
  [[nodiscard]] status locate(const key& k, place& out, bool whole);
  [[nodiscard]] status look_in(unsigned number, const key& k, bool whole, place& out);
  // Replaces `bytes` bytes at `at` of an image by the entry, or by nothing.
  [[nodiscard]] status splice(unsigned number, std::uint64_t at, std::uint64_t bytes, const key* k, bytes_view value);
  [[nodiscard]] regions_index::segment& segment_of(const image& m) noexcept {
    return of_.segments_[layout::segment_of_region(m.rid)];
  }
  [[nodiscard]] std::uint64_t bytes_of(const item& i) const noexcept {
    return lewat::bytes_of(i.sizes, of_.store_.sums);
  }

  [[nodiscard]] static deed deed_of(const image& m) noexcept;
  [[nodiscard]] static stretches differences(const image& m) noexcept;
  [[nodiscard]] static std::uint64_t room_of(const image& m) noexcept;
  void announce() noexcept;
  void settle(bool done) noexcept;
  [[nodiscard]] status commit_one(const image& m, unsigned who) noexcept;
  [[nodiscard]] status edit_alone(const image& m, unsigned who) noexcept;
  [[nodiscard]] status commit_group(unsigned who) noexcept;
  [[nodiscard]] static status edit_in(engines::open_regions_change& group, const image& m) noexcept;
  [[nodiscard]] status grow() noexcept;
  void note(unsigned number) noexcept;
  [[nodiscard]] static std::uint64_t slot_of(std::uint64_t rid) noexcept { return mix_seed(rid, 0); }

  regions_index& of_;
  image few_[4];
  image* images_ = few_;
  unsigned count_ = 0, room_ = 4;
  std::uint32_t* slots_ = nullptr;  // of more than few_: numbers of images + 1 by region; 0: free
  segment_set moving_;              // their versions are odd
};

}  // namespace nvm::keyed::lewat
