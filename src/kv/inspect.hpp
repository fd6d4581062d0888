// A full walk over a key-value store that believes nothing and goes on where it can: each entry is looked at, and
// everything wrong is reported, with its place and, as far as it is known, its key.
//
// It ends: the numbers of a list fall, the nodes of trees lie in levels or name their parents, and no more objects are
// looked at than the pool has room for.  It reads through byte_source, of a pool at rest or inside a transaction; a
// conflict of that transaction may leave it anywhere, so it owns its memory outside of its frames, and run() begins
// again.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kv/operations.hpp"
#include "pool/pool.hpp"

namespace nvm::keyed {

// More objects than the pages of a pool have room for, wherever their addresses are.
[[nodiscard]] std::uint64_t objects_max(const geometry& g) noexcept;

class byte_source {
 public:
  // Copies bytes of the pool's objects; false: there are none at that place.
  [[nodiscard]] virtual bool read(std::uint64_t place, void* to, std::uint64_t bytes) = 0;
  [[nodiscard]] virtual std::uint64_t objects_max() = 0;

 protected:
  ~byte_source() = default;
};

// As the transaction of an operation sees them.
class read_by_transaction final : public byte_source {
 public:
  explicit read_by_transaction(operation& op) noexcept : op_{op} {}
  bool read(std::uint64_t place, void* to, std::uint64_t bytes) override;
  std::uint64_t objects_max() override { return op_.of.pool.objects_max(op_.of.pool.pool); }

 private:
  operation& op_;
};

// Access to a pool's image at rest.
class read_from_image final : public byte_source {
 public:
  read_from_image(const std::byte* base, const geometry& g) noexcept : base_{base}, shape_{g} {}
  bool read(std::uint64_t place, void* to, std::uint64_t bytes) override;
  std::uint64_t objects_max() override { return keyed::objects_max(shape_); }

 private:
  const std::byte* base_;
  geometry shape_;
};

struct figures {
  totals sum{};
  unsigned depth = 0;
  std::uint64_t buckets = 0, overflow_buckets = 0, longest_chain = 0;
  std::uint64_t leaves = 0, inner_nodes = 0;
};

// Something that is not as it must be.
struct fault {
  const char* what = "";
  std::uint64_t place = 0;
  bool has_key = false;
  std::string_view key{};  // as it stands there
};
// An entry that was found; what it names is valid during the call.
struct entry_found {
  std::string_view key;
  std::string_view value;  // empty where the store has no sums
  std::uint64_t place;     // of its record
};

class inspection {
 public:
  // Called for each fault; false: that is enough.
  std::function<bool(const fault&)> tell{};
  std::function<void(const entry_found&)> meet{};
  bool wants_values = false;  // also of a store without sums

  // The first fault ends the walk, as errc::corrupt with a message.
  void stop_at_first(const std::string& name);
  // Walks the store whose header is at that place.  An error: of stop_at_first(), or memory is short.
  [[nodiscard]] status run(byte_source& from, std::uint64_t header_place);
  [[nodiscard]] const figures& found() const noexcept { return found_; }
  // Later walks take a store whose header fails its check for one of that index.  `believes`: they take its entries for
  // what they say, whatever their sums are.
  void take_for(kv_index index, bool believes) noexcept {
    taken_for_ = index;
    believes_ = believes;
  }
  // What the header says, as far as it holds.
  [[nodiscard]] const store_facts& facts() const noexcept { return facts_; }
  [[nodiscard]] bool header_holds() const noexcept { return header_holds_; }

  // Reads the record at `place`; false, and a fault is told, if it does not hold.  Afterwards key() and value() are the
  // record's.  `known`: its key by what leads there, which counts where the record's own is damaged and the sum proves
  // it.  `room`: bytes that it can have.
  [[nodiscard]] bool read_record(std::uint64_t place, const std::string* known = nullptr,
                                 std::uint64_t room = ~std::uint64_t{0});
  [[nodiscard]] std::string_view key() const noexcept { return key_; }
  [[nodiscard]] std::string_view value() const noexcept { return value_; }
  // Begins reading of single records of a store of these facts.
  void begin(byte_source& from, const store_facts& facts);

 private:
  using text = std::string;
  // Bounds of the keys below a node, by their numbers in fences_; -1: none.
  struct range {
    int low = -1, high = -1;
  };
  bool found_fault(const char* what, std::uint64_t place, bool with_key = false);
  [[nodiscard]] bool over() noexcept { return ended_; }
  // One more object; false: there have been too many, or the walk is over.
  [[nodiscard]] bool step(std::uint64_t place);
  template <class T>
  [[nodiscard]] bool read(std::uint64_t place, T& to, const char* what);
  [[nodiscard]] bool look_at(std::uint64_t place, const text* known = nullptr);  // read_record(), counted and met

  void walk_list();
  void walk_hash();
  void walk_chain(std::uint64_t place, layout::bucket image, std::uint64_t number, unsigned depth);
  [[nodiscard]] std::uint64_t bucket_place(std::uint64_t number);
  void walk_tree();
  void walk_node(std::uint64_t place, unsigned level, range bounds, bool is_root);
  void walk_inner(std::uint64_t place, unsigned level, range bounds, bool is_root);
  void walk_leaf(std::uint64_t place, range bounds);
  [[nodiscard]] bool read_separator(std::uint64_t place, const layout::inner& image, unsigned i, range bounds);
  [[nodiscard]] unsigned common_bytes(range bounds) const noexcept;
  [[nodiscard]] text key_in(const layout::leaf_slot& slot, unsigned prefix, range bounds) const;
  unsigned walk_red_black(std::uint64_t place, std::uint64_t parent, bool parent_red, unsigned depth);
  void compare_counters();

  byte_source* from_ = nullptr;
  layout::kv_header header_{};
  std::uint64_t header_place_ = 0;
  store_facts facts_{};
  bool header_holds_ = false;
  kv_index taken_for_{};  // 0: what the header says
  bool believes_ = false;
  figures found_{};
  bool ended_ = false;
  status outcome_{};
  std::uint64_t steps_left_ = 0;
  text key_, value_;
  layout::record_sizes sizes_{};  // of the last record
  std::vector<std::byte> buffer_;
  std::vector<text> fences_;  // a stack
  text before_;               // the key before, in trees
  bool has_before_ = false;
  std::uint64_t next_leaf_ = 0;
  bool first_leaf_ = true;
};

}  // namespace nvm::keyed
