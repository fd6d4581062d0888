// A structure whose links are volatile: found in a pool by its nodes alone (sealed_nodes.hpp), linked when it is
// opened.
//
// Rebuilding.  Several threads look through all extents and runs of the structure; each keeps the live nodes and sorts
// them by their order; the results are merged into one sequence, which becomes the structure.  A node that is not live
// is free: allocation words are made anew.  Two live nodes of one key are a replacement that a crash has cut: the newer
// one stays.  Nodes that must not come back later are wiped out before any thread works:
//
///   S 0 in seals that say `live` and do not hold, S gone in seals of nodes that were replaced; F them; | records/E4
// A seal that fails could be made to hold by the next use of its place.  Where the structure was counted and nothing
// has changed since (tally.hpp), no crash explains such a seal: the entries are counted first, and if one is missing
// nothing is wiped out, so that a repair finds the rest of it.
// If a process was killed, and not the machine, seals are written back as they are, since recovery must report nothing
// that is not durable.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "lockfree/catalogue.hpp"
#include "lockfree/concept.hpp"
#include "lockfree/face_of.hpp"
#include "lockfree/sealed_memory.hpp"
#include "platform/platform.hpp"

namespace nvm::lockfree {

// The root, in a run; constant.
struct sealed_root {
  std::uint64_t magic;
  std::uint64_t bits;  // a hash table has 2^bits cells at least
  std::uint64_t seed;  // of the seals, and of a hash
  std::uint64_t kind;  // as in its entry; 0: only the entry says so
  std::uint64_t reserved[3];
  std::uint64_t sum;  // XXH3 of all before, seeded with the root's offset
};
static_assert(sizeof(sealed_root) == 64);
inline constexpr std::uint64_t sealed_magic = 0x4445'4C41'4553'464C;  // "LFSEALED" in file order

inline void make_sealed_root(std::byte* at, std::uint64_t offset, unsigned bits, std::uint64_t seed,
                             layout::kind kind = layout::kind::none) noexcept {
  sealed_root r{sealed_magic, bits, seed, static_cast<std::uint64_t>(kind), {}, 0};
  r.sum = checksum(&r, offsetof(sealed_root, sum), offset);
  std::memcpy(at, &r, sizeof r);
}
// What is wrong with a root; nullptr: nothing.
[[nodiscard]] inline const char* sealed_root_fault(const std::byte* base, std::uint64_t offset) noexcept {
  sealed_root r;
  std::memcpy(&r, base + offset, sizeof r);
  if (r.magic != sealed_magic) return "it is no root of a structure with volatile links";
  if (r.sum != checksum(&r, offsetof(sealed_root, sum), offset)) return "it fails its checksum";
  return r.bits > 40 ? "it has too many cells" : nullptr;
}

// Shape: a template with these Nodes, whose only open parameter is its memory.
template <media M, sealed_node_kind Nodes, template <class> class Shape>
class rebuilt final : public structure {
 public:
  using memory_type = sealed_memory<M, Nodes>;
  using shape_type = Shape<memory_type>;
  using session = typename memory_type::session;
  static_assert(rebuildable<shape_type>);

  // The root has been checked.
  rebuilt(domain<M>& d, const typename catalogue<M>::found& f) noexcept
      : root_{f.root},
        with_sums_{(f.flags & layout::entry_sums) != 0},
        root_words_{read_root(d.base(), f.root)},
        memory_{d, f.owner, root_words_.seed} {}

  // Called before anything else.  `had`: entries when it was counted, if nothing has changed since.  If found_nodes()
  // differs, nothing is wiped out or linked, unless the structure is only looked at: the caller refuses it.
  // errc::no_memory, corrupt.
  [[nodiscard]] status rebuild(unsigned parts, std::optional<std::uint64_t> had = std::nullopt,
                               bool only_looks = false) noexcept try {
    if (!memory_.exists()) return fail(errc::no_memory, "no volatile memory for the index of a lock-free structure");
    scan s;
    s.parts.resize(std::max(parts, 1U));
    s.end = memory_.of().pages().size_pages();
    s.was_counted = had.has_value();
    platform::run_parts(static_cast<unsigned>(s.parts.size()),
                        [&](unsigned part) noexcept { look_through(s, s.parts[part]); });
    if (s.out_of_memory.load(std::memory_order_relaxed)) {
      return fail(errc::no_memory, "no volatile memory for the nodes of a lock-free structure");
    }
    if (const std::uint64_t at = s.damaged.load(std::memory_order_relaxed); at != 0) {
      return fail(errc::corrupt, "extent at offset %lu, of a lock-free structure: it does not say what is in it", at);
    }
    std::vector<found> all = merged(s);
    found_ = all.size();
    if (had && found_ != *had && !only_looks) return {};
    for (part_of_scan& p : s.parts) {
      for (const place& torn : p.torn) wipe(p, torn.offset, torn.bytes);
      if (!p.torn.empty()) fence_wiped();
    }
    if (status kept = leave_one_of_each(s, all); !kept) return kept;
    for (part_of_scan& p : s.parts) {
      for (const std::uint64_t run : p.dead_runs) memory_.of().pages().give(run);
    }
    keys_ = all.size();
    return build_index(all, static_cast<unsigned>(s.parts.size()));
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the nodes of a lock-free structure");
  }

  [[nodiscard]] shape_type& operator*() noexcept { return *shape_; }
  [[nodiscard]] shape_type* operator->() noexcept { return &*shape_; }
  [[nodiscard]] memory_type& memory() noexcept { return memory_; }
  // Live nodes when it was rebuilt.
  [[nodiscard]] std::uint64_t found_nodes() const noexcept { return found_; }
  // Keys when it was rebuilt.
  [[nodiscard]] std::uint64_t count_keys(unsigned = 1) const noexcept { return keys_; }
  // As those of durable.hpp: deleted nodes are not found again, so none is deleted and still linked.
  [[nodiscard]] static std::optional<std::uint64_t> count_linked() noexcept { return std::nullopt; }
  [[nodiscard]] static status find_deletions() noexcept { return {}; }
  [[nodiscard]] static bool has_deletions() noexcept { return false; }
  [[nodiscard]] static status finish_deletions(typename domain<M>::thread&) noexcept { return {}; }

  bool detach(std::uint64_t, std::uint64_t) noexcept override { return false; }
  [[nodiscard]] bool each_linked(void* context,
                                 void (*visit)(void* context, std::uint64_t offset, const link* by)) noexcept override {
    visit(context, root_, nullptr);
    return shape_->each_linked([&](std::uint64_t offset, const link* by = nullptr) {
      if (!memory_type::is_in_index(offset)) visit(context, offset, by);
    });
  }
  [[nodiscard]] bool is_damaged() const noexcept override { return memory_.is_damaged(); }
  // Links have just been made, so only the order that nodes name can be wrong.
  [[nodiscard]] const char* links_fault() override {
    return shape_->check([](const node_head*) {});
  }
  void each_failing(void* context,
                    void (*visit)(void* context, std::uint64_t offset, std::span<const std::byte> key)) override {
    if (with_sums_) lockfree::each_failing(*shape_, memory_, context, visit);
  }
  // Extents belong to a structure as long as it exists: its nodes are in no free page.  Runs may be given back before
  // the seals in them are gone.
  void each_stray(void* context, void (*visit)(void* context, std::uint64_t offset)) noexcept override {
    structure_pages& pages = memory_.of().pages();
    const std::uint64_t end = round_down(pages.size_pages(), nvm::layout::coarse_extent_pages);
    for (std::uint64_t page = 0; page < end; page += nvm::layout::coarse_extent_pages) {
      const std::uint64_t extent = pages.sizes().page_offset(page);
      if (pages.is_foreign(extent) || pages.owned_at(extent)) continue;
      bool any = false;
      memory_.heap().each_place_in(
          extent, [&](std::uint64_t offset, std::uint64_t bytes) { any = any || live_in(offset, bytes) != 0; });
      if (any) visit(context, extent);
    }
  }
  [[nodiscard]] bool searches_slowly() const noexcept override { return shape_type::searches_slowly; }
  void each_allocated(std::uint64_t first, std::uint64_t end, void* context,
                      void (*visit)(void* context, std::uint64_t offset, std::uint64_t bytes)) noexcept override {
    memory_.heap().each_allocated(first, end,
                                  [&](std::uint64_t offset, std::uint64_t bytes) { visit(context, offset, bytes); });
  }
  // No area of it is ever active: there is nothing to look at, and nothing to free.
  void look_for(std::span<candidate> all) noexcept override {
    for (candidate& c : all) c.linked = true;
  }
  [[nodiscard]] bool bears_mark(std::uint64_t, std::uint64_t) noexcept override { return true; }
  [[nodiscard]] const node_head* whole_at(std::uint64_t, std::uint64_t) noexcept override { return nullptr; }
  void wipe_unlinked(std::uint64_t, std::uint64_t) noexcept override {}
  void write_back_words(std::uint64_t, std::uint64_t) noexcept override {}
  [[nodiscard]] bool note_linked(std::uint64_t, std::uint64_t, const link*) noexcept override { return true; }
  void write_back_mark(std::uint64_t, std::uint64_t) noexcept override {}
  void write_back_links(std::uint64_t, std::uint64_t) noexcept override {}
  void free_unlinked(std::span<const std::uint64_t>) noexcept override {}
  void prefetch_words(std::uint64_t) noexcept override {}
  void come_to_rest() noexcept override {}

 private:
  struct found {
    std::uint64_t order;
    std::uint64_t head;  // offset
  };
  struct place {
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  struct part_of_scan {
    std::vector<found> live;
    std::vector<std::uint64_t> dead_runs;
    std::vector<place> torn;  // not wiped out yet
    bool wrote = false;
  };
  struct scan {
    std::atomic<std::uint64_t> next{0};  // page
    std::uint64_t end = 0;
    bool was_counted = false;
    std::atomic<bool> out_of_memory{false};
    std::atomic<std::uint64_t> damaged{0};
    std::vector<part_of_scan> parts;
  };
  static constexpr std::uint64_t pages_at_once = 1024;

  [[nodiscard]] static sealed_root read_root(const std::byte* base, std::uint64_t at) noexcept {
    sealed_root r;
    std::memcpy(&r, base + at, sizeof r);
    return r;
  }
  [[nodiscard]] M& medium() noexcept { return memory_.of().medium(); }
  // Whether words that recovery sees may be missing on the medium.
  [[nodiscard]] bool looks_at_caches() const noexcept { return !M::atomic_batches && !memory_.plain(); }

  void look_through(scan& s, part_of_scan& part) noexcept try {
    struct closure {
      rebuilt& it;
      scan& s;
      part_of_scan& part;
    } k{*this, s, part};
    for (;;) {
      const std::uint64_t first = s.next.fetch_add(pages_at_once, std::memory_order_relaxed);
      if (first >= s.end) break;
      memory_.of().pages().each_owned(first, std::min(first + pages_at_once, s.end), &k,
                                      [](void* raw, const owned_pages& p) {
                                        auto& in = *static_cast<closure*>(raw);
                                        if (p.owner == in.it.memory_.heap().owner()) in.it.look_at(in.s, in.part, p);
                                        return true;
                                      });
    }
    if (part.wrote) fence_wiped();
    std::sort(part.live.begin(), part.live.end(), [this](const found& a, const found& b) { return before(a, b); });
  } catch (const std::bad_alloc&) {
    s.out_of_memory.store(true, std::memory_order_relaxed);
  }
  void fence_wiped() noexcept { medium().fence(edge{"records/E4"}); }

  void look_at(scan& s, part_of_scan& part, const owned_pages& p) noexcept try {
    if (p.kind == nvm::layout::page_kind::run) {
      if (p.offset != root_ && !is_live(s, part, p.offset, p.bytes)) part.dead_runs.push_back(p.offset);
      return;
    }
    const bool known = memory_.heap().rebuild_words(
        p, [&](std::uint64_t offset, std::uint64_t bytes) { return is_live(s, part, offset, bytes); });
    if (!known) s.damaged.store(p.offset, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    s.out_of_memory.store(true, std::memory_order_relaxed);
  }
  // Offset of the head of the node that lives in so many bytes; 0: none does.
  [[nodiscard]] std::uint64_t live_in(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    std::uint64_t live = 0;
    shape_type::each_head(bytes, [&](std::uint64_t inside) {
      if (bytes - inside < sizeof(typename Nodes::node)) return;
      const sealed_head* n = memory_.node(offset + inside);
      const std::uint64_t now = seal::load(n);
      if (live == 0 && seal::state_of(now) == seal::live && Nodes::fits(n, bytes - inside) &&
          (now & seal::sum_mask) == memory_.sum_of(n, offset + inside)) {
        live = offset + inside;
      }
    });
    return live;
  }
  // Keeps the node in so many bytes, if one lives there; wipes out bytes that could become one.
  [[nodiscard]] bool is_live(scan& s, part_of_scan& part, std::uint64_t offset, std::uint64_t bytes) noexcept try {
    const std::uint64_t live = live_in(offset, bytes);
    if (live != 0) {
      const sealed_head* n = memory_.node(live);
      part.live.push_back({n->order, live});
      if (looks_at_caches()) {
        memory_.write_back_live(n);
        part.wrote = true;
      }
      return true;
    }
    bool is_torn = false;
    shape_type::each_head(bytes, [&](std::uint64_t inside) {
      if (bytes - inside < sizeof(typename Nodes::node)) return;
      const sealed_head* n = memory_.node(offset + inside);
      if (seal::state_of(seal::load(n)) == seal::live) is_torn = true;
      if (!looks_at_caches()) return;
      write_back_seal(n);
      part.wrote = true;
    });
    if (!is_torn) return false;
    if (s.was_counted) {
      part.torn.push_back({offset, bytes});
      return false;
    }
    wipe(part, offset, bytes);
    return false;
  } catch (const std::bad_alloc&) {
    s.out_of_memory.store(true, std::memory_order_relaxed);
    return true;
  }
  void wipe(part_of_scan& part, std::uint64_t offset, std::uint64_t bytes) noexcept {
    // Bytes of a node that is gone may look like a seal: they stay until `gone` is durable.
    if (looks_at_caches()) fence_wiped();
    shape_type::each_head(bytes, [&](std::uint64_t inside) {
      if (bytes - inside < sizeof(typename Nodes::node)) return;
      sealed_head* n = memory_.node(offset + inside);
      if (seal::state_of(seal::load(n)) != seal::live) return;
      seal::set(n, 0);
      write_back_seal(n);
      part.wrote = true;
    });
  }
  void write_back_seal(const sealed_head* n) noexcept {
    if (!memory_.plain()) medium().flush(&n->seal, sizeof n->seal);
  }

  // < 0, 0, > 0: by key.
  [[nodiscard]] int compare(const found& a, const found& b) const noexcept {
    if (a.order != b.order) return a.order < b.order ? -1 : 1;
    return Nodes::compare(memory_.node(a.head), Nodes::key_of(memory_.node(b.head)));
  }
  [[nodiscard]] bool before(const found& a, const found& b) const noexcept {
    const int c = compare(a, b);
    return c != 0 ? c < 0 : a.head < b.head;
  }
  [[nodiscard]] std::vector<found> merged(scan& s) {
    std::vector<std::vector<found>> all;
    all.reserve(s.parts.size());
    for (part_of_scan& p : s.parts) all.push_back(std::move(p.live));
    while (all.size() > 1) {
      std::vector<std::vector<found>> pairs((all.size() + 1) / 2);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        if (2 * i + 1 == all.size()) {
          pairs[i] = std::move(all[2 * i]);
          continue;
        }
        pairs[i].resize(all[2 * i].size() + all[2 * i + 1].size());
        std::merge(all[2 * i].begin(), all[2 * i].end(), all[2 * i + 1].begin(), all[2 * i + 1].end(), pairs[i].begin(),
                   [this](const found& a, const found& b) { return before(a, b); });
      }
      all.swap(pairs);
    }
    return std::move(all.front());
  }
  // Of two nodes of the same key the newer one stays.
  [[nodiscard]] status leave_one_of_each(scan& s, std::vector<found>& all) {
    if (all.empty()) return {};
    std::vector<std::uint64_t> replaced;
    std::size_t kept = 0;
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (all[i].order != all[kept].order || compare(all[i], all[kept]) != 0) {
        all[++kept] = all[i];
        continue;
      }
      const unsigned one = seal::version_of(seal::load(memory_.node(all[kept].head)));
      const unsigned other = seal::version_of(seal::load(memory_.node(all[i].head)));
      const bool is_newer = other == seal::next_version(one);
      if (!is_newer && one != seal::next_version(other)) {
        return fail(errc::corrupt, "nodes at offsets %lu and %lu of a lock-free structure have the same key",
                    all[kept].head, all[i].head);
      }
      const std::uint64_t old = is_newer ? all[kept].head : all[i].head;
      if (is_newer) all[kept] = all[i];
      seal::raise(memory_.node(old), seal::gone);
      write_back_seal(memory_.node(old));
      replaced.push_back(old);
    }
    all.resize(kept + 1);
    if (replaced.empty()) return {};
    fence_wiped();
    struct {
      void add(void*) noexcept {}
    } no_lines;
    part_of_scan& part = s.parts.front();
    part.wrote = false;
    s.was_counted = false;
    for (const std::uint64_t head : replaced) {
      const std::uint64_t start = shape_type::start_of(head);
      // Everything in its place that could become a node is wiped out now, as in any place where none lives.
      memory_.heap().each_allocated(
          start, start + 1, [&](std::uint64_t offset, std::uint64_t bytes) { (void)is_live(s, part, offset, bytes); });
      memory_.heap().free(start, no_lines);
    }
    if (part.wrote) fence_wiped();
    return {};
  }
  [[nodiscard]] status build_index(const std::vector<found>& all, unsigned parts) noexcept {
    root_settings settings{static_cast<unsigned>(root_words_.bits), root_words_.seed};
    if constexpr (shape_type::hashes) {
      settings.bits = shape_type::bits_for(settings.bits, all.size(), memory_.index_bytes() / 2);
    }
    const auto root = shape_type::make_new(
        settings, [this](std::uint64_t bytes) noexcept { return memory_.take_index(bytes); },
        [this](std::uint64_t offset) noexcept { return memory_.at(offset); }, [](std::uint64_t, std::uint64_t) {});
    if (!root) return root.error();
    shape_.emplace(memory_, *root);
    shape_->link_all(all.size(), [&](std::size_t i) { return all[i].head; }, parts);
    return {};
  }

  const std::uint64_t root_;
  const bool with_sums_;
  const sealed_root root_words_;
  memory_type memory_;
  std::optional<shape_type> shape_;
  std::uint64_t keys_ = 0;
  std::uint64_t found_ = 0;
};

}  // namespace nvm::lockfree
