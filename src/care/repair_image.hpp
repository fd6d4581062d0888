// The steps of a repair on a private image of a pool.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <vector>

#include "care/mend_chunks.hpp"
#include "care/mend_sets.hpp"
#include "care/repair.hpp"
#include "log/log.hpp"
#include "pool/pool.hpp"

namespace nvm::care {

// End of the note about a directory that is lost.
inline constexpr const char* nothing_of_it = ": nothing of it can be found";

// Whether entries of blocks count whose contents do not hold, in a damaged log.
enum class salvaging : std::uint8_t { all, none };

class repair_image {
 public:
  // `base`: geometry_of(sb).capacity_bytes() bytes; `sb`: the superblock that counts, already mended.
  repair_image(std::byte* base, const layout::superblock& sb, repair_report& report, salvaging how) noexcept
      : base_{base}, sb_{sb}, g_{geometry_of(sb)}, report_{report}, how_{how} {}

  // Repairs everything except superblocks and the log of ssd.  errc::corrupt: report.refusals.
  [[nodiscard]] status run();

 private:
  struct object_found {
    std::uint64_t bytes;
    std::uint32_t type;
  };
  using objects = std::map<std::uint64_t, object_found>;  // by offset of the header

  // A step refuses by adding to report_.refusals; no step is taken after that.
  enum class in_pools : std::uint8_t { all, with_heap, with_log };
  struct step {
    void (repair_image::*take)();
    in_pools where;
  };

  void note(mending how, std::uint64_t offset, std::string what);
  // Not a finding: std::bad_alloc.
  static status looked_at(const status& s) {
    if (!s && s.error() == errc::no_memory) throw std::bad_alloc{};
    return s;
  }
  void refuse(std::string why) { report_.refusals.push_back(std::move(why)); }
  void count_aligned();
  void compare_objects();
  // Objects with headers that hold, if metadata leads to them.
  [[nodiscard]] objects intact_objects() const;

  // Logs.
  void settle_logs();
  void settle_lanes(bool clean);
  void salvage_lane(unsigned lane, const std::string& fault);
  void begin_anew(unsigned lane);
  void settle_rings(bool clean);
  template <log::mnemosyne_kind Kind>
  void settle_word_logs(bool clean);
  void correct_retired(unsigned lane);
  void replay(std::uint64_t& rolled_back);

  // Space and names.
  void settle_names_of_heap();
  void mend_pages();
  void mend_extent_headers();
  void allocate_what_stores_reach();
  [[nodiscard]] bool allocate_again(std::uint64_t place);
  [[nodiscard]] std::uint64_t header_before(std::uint64_t place, std::uint64_t first) const;
  [[nodiscard]] bool allocate_in_extent(std::uint64_t extent, layout::page_kind kind, std::uint64_t at);
  [[nodiscard]] bool enter_pages(std::uint64_t page, const layout::page_entry& e);
  void mend_anchors();
  void mend_anchor_word(anchor_word which);
  template <class Visit>
  void each_store_header(Visit&& visit) const;
  void enter_directory_again(const std::vector<std::uint64_t>& held, const std::vector<std::uint64_t>& corrected);
  void look_for_directory(anchor_word which, bool was_named, bool may_be, std::vector<std::uint64_t>& places);
  [[nodiscard]] bool has_named(anchor_word which) const;
  [[nodiscard]] bool has_entries(std::uint64_t place) const noexcept;
  [[nodiscard]] bool can_name(anchor_word which, std::uint64_t place) const;
  [[nodiscard]] bool is_catalogue(std::uint64_t place) const;
  void drop_type_map(std::uint64_t place, const char* why);
  void free_unnamed();
  void settle_root_of_log();
  void mend_log();
  void mend_beside_objects();
  void mend_counts();
  void mend_structures();
  void mend_structures_of_stores();
  [[nodiscard]] set_mending mending_of_sets();
  [[nodiscard]] chunk_mending mending_of_chunks();

  std::byte* base_;
  const layout::superblock& sb_;
  const geometry g_;
  repair_report& report_;
  const salvaging how_;
  objects before_;
  std::set<std::uint64_t> guessed_words_;  // allocation words of nodes that claim all places
};

}  // namespace nvm::care
