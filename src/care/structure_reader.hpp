// The readable part of one lock-free structure in a damaged image: nodes that its links lead to, and nodes in its
// places that bear neither the mark of removed nodes nor the signs of nodes that were never linked.  Changes nothing.
//
// Every byte may be anything.  Each place is visited once for each level that leads there, each look-up takes no more
// steps than there are places, and all of them together a fixed number of times that.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "care/repair.hpp"
#include "care/structure_nodes.hpp"
#include "space/space.hpp"

namespace nvm::care {

// Places of nodes that threads of a dead process may not have linked yet, by the tables of active areas.
struct active_places {
  bool anywhere = false;    // a table does not hold
  bool is_at_rest = false;  // the pool was closed, and no table says anything
  unsigned shift = 12;
  std::size_t threads = 1;                                          // that ever worked at one time, and one
  using areas = std::set<std::pair<std::uint16_t, std::uint64_t>>;  // owner, number
  areas allocating{};
  areas removing{};                   // or allocating
  std::set<std::uint64_t> guessed{};  // allocation words that claim all places
  [[nodiscard]] bool may_be_new(std::uint16_t owner, std::uint64_t offset) const {
    return anywhere || allocating.contains({owner, offset >> shift});
  }
  [[nodiscard]] bool may_be_leaving(std::uint16_t owner, std::uint64_t offset) const {
    return anywhere || removing.contains({owner, offset >> shift});
  }
};

struct structure_contents {
  struct entry {
    std::string key, value;
    std::uint64_t mark = 0;
  };
  // An entry that is lost, or that is kept although something about it does not hold.
  struct fault {
    mending how = mending::lost;
    std::uint64_t place = 0;
    bool has_key = false;
    std::string key{};
    const char* what = "";
  };
  std::vector<entry> entries{};
  std::vector<fault> faults{};
  std::uint64_t unproved = 0;    // of the entries
  std::uint64_t unreadable = 0;  // former entries whose key cannot be read either
  std::uint64_t uncertain = 0;   // places that may have had an entry
  bool is_unknown = false;       // the kind of its entries is unknown
};

class structure_reader {
 public:
  structure_reader(const std::byte* base, const structure_pages& pages, const described_structure& d,
                   const active_places& active)
      : base_{base}, pages_{pages}, about_{d}, active_{active}, format_{base, d} {}

  // May throw std::bad_alloc, as all others.
  void read();
  // Whether there is something that neither a crash nor recovery leaves: the structure has to be made anew.
  [[nodiscard]] bool is_broken() const noexcept { return fault_ != nullptr; }
  // The first such fault, and its place; nullptr: none.
  [[nodiscard]] const char* fault() const noexcept { return fault_; }
  [[nodiscard]] std::uint64_t fault_place() const noexcept { return fault_place_; }
  // Place of a whole node that belongs to another place, among nodes with volatile links, which prove theirs; 0: none.
  [[nodiscard]] std::uint64_t copied_place() const noexcept { return copied_place_; }
  [[nodiscard]] structure_contents contents();

 private:
  struct item {
    std::uint64_t start = 0;
    std::uint64_t room = 0;  // bytes from the start
    std::uint64_t head = 0;  // 0: there is no head
    bool allocated = false;
    bool fresh = false;    // may not have been linked yet
    bool leaving = false;  // may be about to be unlinked
    bool linked = false;
    bool is_at_bottom = false;  // of a skip list: linked there
    bool gone = false;          // removed
    bool is_branch = false;     // of a tree
    bool holds = false;
    bool is_guessed = false;   // it is unknown whether it is allocated
    bool is_doubtful = false;  // its link can be none
    bool is_torn = false;      // its seal says `live`, and does not hold
    std::uint32_t walk = 0;    // the last walk that came by
  };
  static constexpr std::size_t none = ~std::size_t{0};
  static constexpr std::size_t unlinked_a_thread = 16;  // as the check has it

  void broken(const char* what, std::uint64_t place) noexcept {
    if (fault_ == nullptr) fault_place_ = place;
    if (fault_ == nullptr) fault_ = what;
  }
  [[nodiscard]] bool in_pool(std::uint64_t at, std::uint64_t bytes) const noexcept {
    const geometry& g = pages_.sizes();
    return at >= g.data_offset && at % 8 == 0 && range_inside(at - g.data_offset, bytes, end_ - g.data_offset);
  }
  [[nodiscard]] std::uint64_t room_after(const item& i) const noexcept { return i.room - (i.head - i.start); }

  // The root, as the library looks at it.
  void look_at_root();
  void look_at_hash_root();
  void look_at_sealed_root();
  [[nodiscard]] const char* fault_of_hash_root() const;
  void look_at_arrays(const lockfree::hash_root& r);
  void find_seed();
  [[nodiscard]] bool proves(std::uint64_t seed) const noexcept;

  // Places of its extents and runs.
  void list_places();
  void list_extent(std::uint64_t extent, bool is_stray);
  void list_strays();
  void add_place(std::uint64_t start, std::uint64_t room, bool allocated, bool is_guessed = false);
  void add_live(std::uint64_t start, std::uint64_t room);
  void look_for_twins();

  // Follows links.
  [[nodiscard]] std::size_t item_at(std::uint64_t start, std::uint64_t head, bool is_branch = false);
  [[nodiscard]] bool is_free(std::uint64_t at) const;
  [[nodiscard]] bool can_be_foreign(const item& i, bool is_branch) const;
  void follow_all();
  void follow_chain(std::uint64_t link_at, std::uint64_t order);
  void follow_cells();
  void follow_levels();
  void follow_level(std::uint64_t link_at, unsigned level, std::uint64_t order);
  void follow_tree();
  struct edge {
    std::uint64_t at;
    std::uint64_t low, high;  // heads of branches: keys are not less, less; 0: none
  };
  void arrive_in_tree(const edge& e, std::vector<edge>& edges);
  [[nodiscard]] const char* fault_in_tree(const item& i, const edge& e) const;
  [[nodiscard]] item* arrive(std::uint64_t word, std::uint64_t from, std::uint64_t order);
  template <class Visit>
  void each_cell(Visit&& visit) const;
  [[nodiscard]] bool order_of_cell(std::uint64_t at, std::uint64_t& order) const noexcept;
  [[nodiscard]] static bool was_put_in(std::uint64_t w) noexcept { return w != 0 && (w & lockfree::frozen) == 0; }

  // The node that look-ups find; 0: none.
  [[nodiscard]] std::uint64_t find(const std::string& key);
  [[nodiscard]] std::uint64_t find_in_chain(std::uint64_t order, const std::string& key);
  [[nodiscard]] std::uint64_t find_in_levels(std::uint64_t order, const std::string& key);
  // `properly`: it comes to a leaf that may be where it is.
  [[nodiscard]] std::uint64_t find_in_tree(std::uint64_t order, const std::string& key, bool& properly);
  [[nodiscard]] std::uint64_t entrance(std::uint64_t order) const noexcept;
  [[nodiscard]] bool step() noexcept {
    if (steps_left_ == 0) return false;
    --steps_left_;
    return true;
  }
  // A node against a key; a node that reaches out of the pool is after all of its order.
  [[nodiscard]] int compare(std::uint64_t head, std::uint64_t order, const std::string& key) const noexcept;

  // Decides which nodes are entries.
  void judge();
  void judge_mark(item& i) noexcept;
  void judge_room(item& i) const noexcept;
  [[nodiscard]] bool can_lead(std::uint64_t word) const noexcept;
  [[nodiscard]] static bool is_marked_in_vain(const item& i) noexcept {
    return i.linked && i.gone && i.holds && !i.leaving;
  }
  void count_leads();
  [[nodiscard]] std::uint32_t leads_to(std::uint64_t target) const;
  [[nodiscard]] bool was_linked(const item& i);
  [[nodiscard]] bool was_linked_in_chain(const item& i);
  [[nodiscard]] bool is_candidate(const item& i) const noexcept;
  [[nodiscard]] bool is_entry(const item& i);
  [[nodiscard]] bool is_sealed_entry(item& i) const noexcept;
  [[nodiscard]] bool looks_empty(const item& i) const noexcept;
  [[nodiscard]] bool is_cut_off(const item& i);
  [[nodiscard]] bool is_missed(const item& i);
  [[nodiscard]] bool has_readable_key(const item& i) const noexcept;
  struct candidate {
    std::string key;
    const item* of = nullptr;
  };
  void choose(std::span<const candidate> same, structure_contents& out);
  void keep(const candidate& c, structure_contents& out);
  void tell_lost(const item& i, const std::set<std::string>& kept, structure_contents& out);
  static void count_missing(std::uint64_t had, structure_contents& out);
  void count_of_tree(structure_contents& out) const;
  [[nodiscard]] const candidate* newer(const candidate& a, const candidate& b) const noexcept;
  [[nodiscard]] const candidate& newest(std::span<const candidate> same, bool& is_sure) const noexcept;
  [[nodiscard]] const candidate& found_of(std::span<const candidate> same, bool& is_sure);
  void count_overwritten(std::span<const candidate> same, const candidate& kept, structure_contents& out) const;
  [[nodiscard]] bool had_entry(const item& i) const noexcept;
  void list_sealed();
  [[nodiscard]] bool is_copy(const item& i) const;

  const std::byte* const base_;
  const structure_pages& pages_;
  const described_structure& about_;
  const active_places& active_;
  node_format format_;
  std::uint64_t end_ = 0;  // of the pool's data
  const char* fault_ = nullptr;
  std::uint64_t fault_place_ = 0;
  std::uint64_t copied_place_ = 0;
  bool has_root_ = false;  // which look-ups can begin with
  unsigned bits_ = 0;      // of a hash: cells of the first array, and of all
  unsigned all_bits_ = 0;
  std::vector<std::uint64_t> arrays_;
  std::vector<item> items_;
  std::unordered_map<std::uint64_t, std::size_t> by_start_;
  std::uint64_t stored_seed_ = 0;                             // as the root has it
  std::uint64_t stored_sum_ = 0;                              // its check; 0: there is none
  std::set<std::pair<std::uint64_t, std::uint64_t>> sealed_;  // order and seal of nodes whose seals hold
  std::unordered_set<std::uint64_t> cells_passed_;
  std::unordered_map<std::uint64_t, std::uint32_t> leads_;  // to a head or cell, of all that may count
  bool are_leads_counted_ = false;
  std::uint32_t walks_ = 0;
  std::uint64_t steps_left_ = 0;
};

}  // namespace nvm::care
