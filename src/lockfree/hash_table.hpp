// A hash table: one chain, ordered by hash, that can be entered at many cells (log-free, section 3: a list per bucket;
// that the lists are one is what lets the table grow while it is used, after Shalev and Shavit, "Split-ordered lists").
//
// A cell is a link in an array.  With 2^k cells, the hashes that begin with the k bits of i are after cell i, and its
// part of the chain ends where it leads to the next cell.  Doubling adds an array with the cells that divide the parts
// in two; a new cell is put into the chain by the first thread that writes there, and until then readers enter before
// it.
//
/// New array:  S zeros; F them;               | lockfree/E11
///             S the root's word for it; F that; | lockfree/E12  it is part of the table
/// New cell:   S its link: what will follow it, with the tag frozen; F it; then it is linked like a node (change);
///             then the tag goes (tidy).  A frozen cell may be in the chain or not; only the chain tells.
// After a crash nothing has to be done.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

#include "base/inlining.hpp"
#include "lockfree/chain.hpp"
#include "lockfree/face_of.hpp"
#include "platform/platform.hpp"
#include "space/space.hpp"
#include "sync/sync.hpp"

namespace nvm::lockfree {

inline constexpr unsigned hash_growths_max = 40;

struct hash_root {
  std::uint64_t magic;
  std::uint64_t bits;                          // checked word: the first array has 2^bits cells
  std::uint64_t seed;                          // of the hash
  std::uint64_t seed_sum;                      // seed_sum_of(); 0: made by a library that had none
  std::uint64_t arrays[1 + hash_growths_max];  // checked words: offsets; 0: not yet
};
// With another seed each key would be another one.
inline std::uint64_t seed_sum_of(std::uint64_t seed, std::uint64_t root) noexcept {
  return checksum(&seed, sizeof seed, root) | 1;
}
inline constexpr std::uint64_t hash_magic = 0x4853'4148'4552'464C;  // "LFREHASH" in file order

// Hashes of 8-byte keys: one to one, so that the key can be had from the hash.
struct word_hash {
  static constexpr std::uint64_t factor = 0xD6E8'FEB8'6659'FD93;
  static constexpr std::uint64_t inverse = [] {
    std::uint64_t x = factor;
    for (int i = 0; i < 6; ++i) x *= 2 - factor * x;
    return x;
  }();
  static_assert(factor * inverse == 1);
  [[nodiscard]] static constexpr std::uint64_t of(std::uint64_t key, std::uint64_t seed) noexcept {
    std::uint64_t h = (key ^ seed) * factor;
    h ^= h >> 32;
    h *= factor;
    return h ^ h >> 32;
  }
  [[nodiscard]] static constexpr std::uint64_t key_of(std::uint64_t h, std::uint64_t seed) noexcept {
    h ^= h >> 32;
    h *= inverse;
    h ^= h >> 32;
    return h * inverse ^ seed;
  }
};
static_assert(word_hash::key_of(word_hash::of(42, 7), 7) == 42);

// Of keys of any size.
struct byte_hash {
  [[nodiscard]] static std::uint64_t of(std::span<const std::byte> key, std::uint64_t seed) noexcept {
    return checksum(key.data(), key.size(), seed);
  }
};

// Hash: of(key, seed).
template <memory Memory, node_kind Nodes, class Hash>
class hash_table : public face_of<hash_table<Memory, Nodes, Hash>, Memory, Nodes>,
                   public marked_in_itself<hash_table<Memory, Nodes, Hash>> {
  struct cells {
    static constexpr bool exist = true;
    const hash_table* of;
    [[nodiscard, NVM_INLINE]] std::uint64_t order_of(std::uint64_t at) const noexcept { return of->order_of_cell(at); }
  };

 public:
  using session = typename Memory::session;
  using nodes = Nodes;
  using key = typename Nodes::key;
  using value = typename Nodes::value;

  explicit hash_table(Memory& memory, std::uint64_t root) noexcept
      : memory_{memory},
        root_{*reinterpret_cast<hash_root*>(memory.at(root))},
        seed_{root_.seed},
        base_bits_{static_cast<unsigned>(root_.bits & checked_mask)},
        chain_{memory, cells{this}} {
    arrays_[0] = array_at(root_.arrays[0]);
    array_offsets_[0] = root_.arrays[0] & checked_mask;
    unsigned g = 1;
    for (; g <= hash_growths_max && root_.arrays[g] != 0; ++g) {
      arrays_[g] = array_at(root_.arrays[g]);
      array_offsets_[g] = root_.arrays[g] & checked_mask;
    }
    bits_.store(base_bits_ + g - 1, std::memory_order_relaxed);
  }

  static constexpr std::uint64_t root_bytes = sizeof(hash_root);
  static constexpr unsigned bits_min = 1;
  static constexpr unsigned bits_max = 40;
  // For a root that nothing leads to yet, and the first array, of array_bytes(bits), at `array`; the caller makes both
  // durable.
  static void make_root(std::byte* at, std::uint64_t offset, unsigned bits, std::uint64_t seed, std::byte* array,
                        std::uint64_t array_offset) noexcept {
    auto* r = reinterpret_cast<hash_root*>(at);
    *r = {};
    r->magic = hash_magic;
    const std::uint64_t bits_at = offset + offsetof(hash_root, bits);
    r->bits = seal_word(bits, word_seed(bits_at));
    r->seed = seed;
    r->seed_sum = seed_sum_of(seed, offset);
    r->arrays[0] = seal_word(array_offset, word_seed(offset + offsetof(hash_root, arrays)));
    auto* links = reinterpret_cast<link*>(array);
    const std::uint64_t count = std::uint64_t{1} << bits;
    for (std::uint64_t i = 0; i + 1 < count; ++i) links[i].set((array_offset + (i + 1) * sizeof(link)) | cell);
    links[count - 1].set(0);
  }
  static constexpr std::uint64_t array_bytes(unsigned bits) noexcept { return sizeof(link) << bits; }
  static constexpr bool hashes = true;
  template <class Take, class At, class Made>
  [[nodiscard]] static result<std::uint64_t> make_new(const root_settings& s, Take&& take, At&& at, Made&& made) {
    const result<std::uint64_t> root = take(root_bytes);
    if (!root) return root.error();
    const result<std::uint64_t> array = take(array_bytes(s.bits));
    if (!array) return array.error();
    make_root(at(*root), *root, s.bits, s.seed, at(*array), *array);
    made(*root, root_bytes);
    made(*array, array_bytes(s.bits));
    return *root;
  }
  // Bits for a table of so many keys: at least `bits`, in an array of no more than so many bytes.
  [[nodiscard]] static unsigned bits_for(unsigned bits, std::uint64_t keys, std::uint64_t bytes) noexcept {
    while (bits < bits_max && keys > std::uint64_t{1} << bits) ++bits;
    bits = std::max(bits, bits_min);
    while (bits > bits_min && array_bytes(bits) > bytes) --bits;
    return bits;
  }
  // What is wrong with a root; nullptr: nothing.
  [[nodiscard]] static const char* root_fault(const structure_pages& pages, const std::byte* base, std::uint64_t root,
                                              std::uint16_t owner) noexcept {
    const auto& r = *reinterpret_cast<const hash_root*>(base + root);
    if (r.magic != hash_magic) return "it is no root of a hash table";
    const std::uint64_t bits = r.bits & checked_mask;
    if (!word_holds(r.bits, word_seed(root + offsetof(hash_root, bits))) || bits < bits_min || bits > bits_max) {
      return "the size of its table fails its check";
    }
    if (r.seed_sum != 0 && r.seed_sum != seed_sum_of(r.seed, root)) return "the seed of its hash fails its check";
    bool ended = false;
    for (unsigned g = 0; g <= hash_growths_max; ++g) {
      const std::uint64_t at = root + offsetof(hash_root, arrays) + g * 8;
      if (!word_holds(r.arrays[g], word_seed(at))) return "the place of an array fails its check";
      const std::uint64_t offset = r.arrays[g] & checked_mask;
      if (offset == 0) {
        if (g == 0) return "it has no array";
        ended = true;
        continue;
      }
      if (ended) return "it has an array after the last one";
      const auto run = pages.owned_at(offset);
      const std::uint64_t needs = array_bytes(static_cast<unsigned>(g == 0 ? bits : bits + g - 1));
      if (!run || run->offset != offset || run->owner != owner || run->kind != nvm::layout::page_kind::run ||
          run->bytes < needs) {
        return "an array of it is no run of it";
      }
    }
    return nullptr;
  }

  // ---- inside of an operation: face_of.hpp ----

  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool search(session& s, std::uint64_t order, const key& k, Visit&& visit) noexcept {
    return chain_.search(s, entrance(order), order, k, visit);
  }
  template <class Size, class Fill>
  [[nodiscard]] result<written> put(session& s, std::uint64_t order, const key& k, write_rule rule, Size&& size,
                                    Fill&& fill) noexcept {
    return chain_.put(s, entrance_to_write(s, order), order, k, rule, size, fill);
  }
  template <class Decide>
  [[nodiscard]] result<bool> take(session& s, std::uint64_t order, const key& k, Decide&& decide) noexcept {
    return chain_.take(s, entrance_to_write(s, order), order, k, decide);
  }
  // In the order of the hashes.
  template <class Visit>
  void walk(session& s, Visit&& visit) noexcept {
    chain_.walk(s, arrays_[0][0], visit);
  }
  template <class Visit>
  void walk_from(session& s, std::uint64_t order, Visit&& visit) noexcept {
    chain_.walk(s, entrance(order), [&](const node_head* n) { return n->order < order || visit(n); });
  }
  [[nodiscard]] bool tidy(session& s, const node_head* n) noexcept {
    return chain_.tidy_at(s, entrance_to_write(s, n->order), n->order, n);
  }

  // ---- recovery ----

  static constexpr bool searches_slowly = false;
  // Whether something leads to the node, which may hold anything, step by step (durable.hpp).
  using probe = typename chain<Memory, Nodes, cells>::probe;
  [[nodiscard]] bool begin(probe& p, std::uint64_t offset, std::uint64_t) noexcept {
    const auto* n = reinterpret_cast<const node_head*>(memory_.at(offset));
    if (n != nullptr) chain_.begin(p, entrance(n->order), offset, n->order);
    return n != nullptr;
  }
  [[nodiscard]] progress step(probe& p) noexcept { return chain_.step(p); }
  [[nodiscard]] const link* mark_of(std::uint64_t offset, std::uint64_t) const noexcept {
    return has_array_at(offset) ? nullptr : reinterpret_cast<const link*>(memory_.at(offset));
  }
  // Calls pass(link) for each link on the way to where it would be.
  template <class Pass>
  void each_link_to(std::uint64_t offset, std::uint64_t, Pass&& pass) noexcept {
    const auto* n = reinterpret_cast<const node_head*>(memory_.at(offset));
    if (n != nullptr) (void)chain_.leads_to(entrance(n->order), offset, n->order, pass);
  }
  // Keys, where so many nodes and runs are allocated.
  [[nodiscard]] std::uint64_t count_of(std::uint64_t allocated) const noexcept {
    const std::uint64_t others = 1 + static_cast<std::uint64_t>(std::count_if(
                                         array_offsets_.begin(), array_offsets_.end(), [](auto o) { return o != 0; }));
    return allocated > others ? allocated - others : 0;
  }
  // Whether the run at `offset` is one of ours.
  [[nodiscard]] bool has_array_at(std::uint64_t offset) const noexcept {
    for (unsigned g = 0; g <= hash_growths_max; ++g) {
      if (array_offsets_[g] == offset && offset != 0) return true;
    }
    return false;
  }
  template <class Visit>
  [[nodiscard]] bool each_linked(Visit&& visit) noexcept {
    for (std::uint64_t o : array_offsets_) {
      if (o != 0) visit(o);
    }
    // A damaged chain may lead round in a circle.
    std::uint64_t left = 2 * memory_.nodes_max();
    const link* in = &arrays_[0][0];
    for (link_word w = in->load(); offset_of(w) != 0;) {
      auto* n = reinterpret_cast<link*>((w & cell) != 0 ? memory_.at(offset_of(w)) : memory_.node_at(offset_of(w)));
      if (n == nullptr) return true;
      if (left-- == 0) {
        memory_.report_damage(offset_of(w));
        return true;
      }
      if ((w & cell) == 0) visit(offset_of(w), in);
      in = n;
      w = in->load();
    }
    return true;
  }
  // As those of list.hpp.
  template <class Meet>
  [[nodiscard]] const char* check(Meet&& meet) {
    // No walk sees a node that is inserted from a cell outside of the chain.
    std::uint64_t not_passed = 0;
    for (unsigned g = 0; g <= hash_growths_max && arrays_[g] != nullptr; ++g) {
      const std::uint64_t n = std::uint64_t{1} << (g == 0 ? base_bits_ : base_bits_ + g - 1);
      for (std::uint64_t i = g == 0; i < n; ++i) not_passed += is_entered(arrays_[g][i]);
    }
    const auto pass = [&](const link& c) { not_passed -= is_entered(c); };
    const char* fault = chain_.check(*this, arrays_[0][0], pass, meet);
    return fault != nullptr || not_passed == 0 ? fault : "a cell is not in the chain";
  }
  template <class Visit>
  static void each_head(std::uint64_t, Visit&& visit) noexcept {
    visit(std::uint64_t{0});
  }
  [[nodiscard]] static std::uint64_t start_of(std::uint64_t head) noexcept { return head; }
  // By several threads, each with a range of the cells; the table has not grown.
  template <class Head>
  void link_all(std::size_t count, Head&& head, unsigned parts) noexcept {
    const std::uint64_t cells = std::uint64_t{1} << base_bits_;
    const auto node = [&](std::size_t i) { return reinterpret_cast<node_head*>(memory_.at(head(i))); };
    platform::run_parts(parts, [&](unsigned part) noexcept {
      const std::uint64_t first = cells / parts * part;
      const std::uint64_t end = part + 1 == parts ? cells : cells / parts * (part + 1);
      std::size_t i = 0;
      for (std::size_t n = count; n != 0;) {
        // The first node after the first cell.
        const std::size_t half = n / 2;
        const bool before = node(i + half)->order >> (64 - base_bits_) < first;
        i = before ? i + half + 1 : i;
        n = before ? n - half - 1 : half;
      }
      constexpr std::size_t ahead = 16;
      for (std::uint64_t c = first; c < end; ++c) {
        link* in = &arrays_[0][c];
        for (; i < count && node(i)->order >> (64 - base_bits_) == c; ++i) {
          if (i + ahead < count) __builtin_prefetch(node(i + ahead), 1);
          in->set(head(i));
          in = &node(i)->next;
        }
        in->set(c + 1 == cells ? 0 : (array_offsets_[0] + (c + 1) * sizeof(link)) | cell);
      }
    });
  }
  // Number of keys, give or take some of each session; the number when the table was opened is told by the caller.
  [[nodiscard]] std::int64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  void set_count(std::int64_t n) noexcept { count_.store(n, std::memory_order_relaxed); }
  // After each insertion and removal, outside of the operation, since the table may grow.
  void counted(session& s) noexcept {
    const std::int64_t more = s.lately;
    if (-count_by < more && more < count_by) return;
    const std::int64_t now = count_.fetch_add(more, std::memory_order_relaxed) + more;
    s.lately = 0;
    const unsigned k = bits_.load(std::memory_order_relaxed);
    if (k < bits_max && now > std::int64_t{1} << k) grow(s, k);
  }
  [[nodiscard]] unsigned bits() const noexcept { return bits_.load(std::memory_order_relaxed); }

  [[nodiscard, NVM_INLINE]] std::uint64_t order_of(const key& k) const noexcept { return Hash::of(k, seed_); }
  [[nodiscard]] std::uint64_t key_of_order(std::uint64_t order) const noexcept
    requires std::is_same_v<key, std::uint64_t>
  {
    return Hash::key_of(order, seed_);
  }
  [[nodiscard]] Memory& memory() const noexcept { return memory_; }

 private:
  static constexpr unsigned claims_max = 64;
  static constexpr std::int64_t count_by = 32;

  [[nodiscard]] link* array_at(std::uint64_t word) const noexcept {
    return reinterpret_cast<link*>(memory_.at(word & checked_mask));
  }
  // Smallest hash after the cell.
  [[nodiscard, NVM_INLINE]] std::uint64_t order_of_cell(std::uint64_t at) const noexcept {
    const std::uint64_t i = (at - array_offsets_[0]) / sizeof(link);
    if (i < std::uint64_t{1} << base_bits_) [[likely]]
      return i << (64 - base_bits_);
    return order_of_new_cell(at);
  }
  [[nodiscard, gnu::noinline]] std::uint64_t order_of_new_cell(std::uint64_t at) const noexcept {
    const unsigned k = bits_.load(std::memory_order_acquire);
    for (unsigned g = 1; g <= k - base_bits_; ++g) {
      const std::uint64_t i = (at - array_offsets_[g]) / sizeof(link);
      if (i < std::uint64_t{1} << (base_bits_ + g - 1)) return (i << 1 | 1) << (64 - (base_bits_ + g));
    }
    return ~std::uint64_t{0};  // no cell: nothing goes further from here
  }

  // Cell i of 2^k cells; nullptr: it is not known to be in the chain, and `i` becomes the number of the one before.
  [[nodiscard, NVM_INLINE]] link* cell_at(std::uint64_t& i, unsigned k) noexcept {
    const auto zeros = i == 0 ? 64U : static_cast<unsigned>(std::countr_zero(i));
    const unsigned grown = k - base_bits_;
    if (zeros >= grown) return &arrays_[0][i >> grown];
    return &arrays_[grown - zeros][i >> (zeros + 1)];
  }
  [[nodiscard, NVM_INLINE]] link& entrance(std::uint64_t order) noexcept {
    // acquire: pairs with grow(): the array is there.
    const unsigned k = bits_.load(std::memory_order_acquire);
    std::uint64_t i = order >> (64 - k);
    if (k == base_bits_) [[likely]]
      return arrays_[0][i];
    for (;;) {
      link* at = cell_at(i, k);
      if (is_ready(i, k, at)) return *at;
      i &= i - 1;
    }
  }
  [[nodiscard, NVM_INLINE]] bool is_ready(std::uint64_t i, unsigned k, const link* at) const noexcept {
    if (i == 0 || static_cast<unsigned>(std::countr_zero(i)) >= k - base_bits_) return true;
    return was_put_in(at->load());
  }
  // Whether a cell that a growth has added was put in.
  [[nodiscard, NVM_INLINE]] static bool was_put_in(link_word w) noexcept { return w != 0 && (w & frozen) == 0; }
  [[nodiscard]] bool is_entered(const link& c) const noexcept {
    const std::uint64_t i = (memory_.offset_in_pool(&c) - array_offsets_[0]) / sizeof(link);
    return i < std::uint64_t{1} << base_bits_ || was_put_in(c.load());
  }
  [[nodiscard, NVM_INLINE]] link& entrance_to_write(session& s, std::uint64_t order) noexcept {
    const unsigned k = bits_.load(std::memory_order_acquire);
    if (k == base_bits_) [[likely]]
      return arrays_[0][order >> (64 - k)];
    std::uint64_t i = order >> (64 - k);
    link* at = cell_at(i, k);
    if (!is_ready(i, k, at)) put_in(s, i, k, *at);
    return entrance(order);
  }
  // Puts cell i into the chain, unless another thread is about to; in vain if memory is short.
  [[gnu::noinline]] void put_in(session& s, std::uint64_t i, unsigned k, link& own) noexcept {
    const std::uint64_t offset = memory_.offset_in_pool(&own);
    std::atomic<std::uint64_t>& claim = claims_[offset / sizeof(link) % claims_max];
    std::uint64_t nobody = 0;
    // acquire: pairs with the release below: the last thread's changes of the cell are seen.
    if (!claim.compare_exchange_strong(nobody, offset, std::memory_order_acquire, std::memory_order_relaxed)) return;
    const std::uint64_t order = i << (64 - k);
    while (!is_ready(i, k, &own)) {
      typename chain_type::position p;
      // After all smaller hashes; the cell itself may stand there, linked before a crash or by a walk.
      if (!chain_.find_cell(s, entrance(order), order, p)) break;
      if (is_ready(i, k, &own)) break;
      const link_word follows = chain_.settled(s, *p.before, p.word);
      p.settle_before(memory_, s);
      if (offset_of(follows) == offset) {
        memory_.depend(s, order);
        const link_word w = own.load();
        if ((w & frozen) != 0) (void)memory_.tidy(own, w, without(w, frozen));
        break;
      }
      own.set(follows | frozen);
      memory_.contents(&own, sizeof own);
      // Past the link cache: it is used when that is durable, also by another process if this one is killed.
      if (!memory_.begin(s, *p.before, follows, offset | cell, order)) continue;
      memory_.finish(s, order);
      memory_.unmark(*p.before, offset | cell);
      for (link_word w = own.load(); (w & frozen) != 0; w = own.load()) {
        if (memory_.tidy(own, w, without(w, frozen))) break;
      }
    }
    claim.store(0, std::memory_order_release);
  }

  // Doubles the 2^k cells; returns at once if another thread does so or the pool is full.
  [[gnu::noinline]] void grow(session& s, unsigned k) noexcept {
    if (!growing_.try_lock()) return;
    const unsigned g = k - base_bits_ + 1;
    if (bits_.load(std::memory_order_relaxed) == k && g <= hash_growths_max) {
      s.enter();
      const auto run = memory_.take_array(s, array_bytes(k));
      if (run) {
        auto* cells = reinterpret_cast<link*>(memory_.at(*run));
        std::memset(static_cast<void*>(cells), 0, array_bytes(k));
        memory_.publish_run(cells, array_bytes(k), &root_.arrays[g], *run);
        arrays_[g] = cells;
        array_offsets_[g] = *run;
        bits_.store(k + 1, std::memory_order_release);
      }
      s.leave();
    }
    growing_.unlock();
  }

  using chain_type = chain<Memory, Nodes, cells>;
  Memory& memory_;
  hash_root& root_;
  const std::uint64_t seed_;
  const unsigned base_bits_;
  std::atomic<unsigned> bits_{0};
  std::array<link*, 1 + hash_growths_max> arrays_{};
  std::array<std::uint64_t, 1 + hash_growths_max> array_offsets_{};
  chain_type chain_;
  alignas(line_bytes) std::atomic<std::int64_t> count_{0};
  spin_lock growing_;
  std::array<std::atomic<std::uint64_t>, claims_max> claims_{};
};

}  // namespace nvm::lockfree
