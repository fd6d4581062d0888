#include "care/mend_chunks.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/checksum.hpp"
#include "care/page_entries.hpp"
#include "care/words.hpp"
#include "logheap/block.hpp"
#include "logheap/logheap_layout.hpp"
#include "space/mend.hpp"

namespace nvm::care {
namespace {

namespace in_chunk = logheap::layout;

struct run_of_log {
  std::uint64_t offset;
  std::uint64_t bytes;
};
// All runs that are the log's, in the order of their pages.
std::vector<run_of_log> runs_of_log(const std::byte* base, const geometry& g) {
  std::vector<run_of_log> all;
  each_page_entry(base, g, [&](std::uint64_t page, const layout::page_entry& e) {
    if (e.protocol != layout::slot_protocol::self_validating || e.store != in_chunk::owner) return;
    all.push_back({g.page_offset(page), std::uint64_t{e.length_pages} << g.page_shift});
  });
  return all;
}
bool holds(const std::byte* base, std::uint64_t at) { return word_holds(word_at(base, at), word_seed(at)); }
std::uint64_t content(const std::byte* base, std::uint64_t at) {
  return holds(base, at) ? word_at(base, at) & checked_mask : 0;
}
// False: the word has that content already.
bool set_word(std::byte* base, std::uint64_t at, std::uint64_t to) {
  const std::uint64_t word = seal_word(to, word_seed(at));
  if (word_at(base, at) == word) return false;
  std::memcpy(base + at, &word, sizeof word);
  return true;
}
// Whether a line proves to be the root's at `place`.
bool proves_root(const in_chunk::root& r, std::uint64_t place) {
  return r.magic == in_chunk::root_magic &&
         r.check == checksum(&r, offsetof(in_chunk::root, check), mix_seed(in_chunk::root_magic, place));
}
in_chunk::root root_line(const std::byte* base, std::uint64_t at) {
  in_chunk::root r{};
  std::memcpy(&r, base + at, in_chunk::root_line_bytes);
  return r;
}

// ---- the root ------------------------------------------------------------------------------------------------------

class root_mender {
 public:
  explicit root_mender(const chunk_mending& m) : m_{m}, base_{m.base}, runs_{runs_of_log(m.base, m.g)} {}

  void run() {
    for (const std::uint64_t place : places()) {
      const bool holds_already = proves_root(root_line(base_, place), place);
      if (!is_run(place) && !enter_again(place)) continue;
      if (!holds_already && !mend_line(place)) continue;
      return mend_words(place);
    }
  }

 private:
  [[nodiscard]] std::uint64_t run_bytes() const { return round_up(sizeof(in_chunk::root), m_.g.page_bytes()); }
  [[nodiscard]] std::uint64_t copy_at(std::uint64_t place) const { return place + in_chunk::root_copy_at(run_bytes()); }
  [[nodiscard]] bool is_proved(std::uint64_t place) const {
    return proves_root(root_line(base_, place), place) || proves_root(root_line(base_, copy_at(place)), place);
  }
  // Places that the anchors name, first those whose words hold; then each run that proves to be a root.
  [[nodiscard]] std::vector<std::uint64_t> places() const {
    std::vector<std::uint64_t> all;
    const auto add = [&](std::uint64_t place) {
      const bool can_be = place != 0 && place % m_.g.page_bytes() == 0 && m_.g.in_data(place, run_bytes());
      if (can_be && std::find(all.begin(), all.end(), place) == all.end()) all.push_back(place);
    };
    for (const bool corrected : {false, true}) {
      for (unsigned copy = 0; copy < 2; ++copy) {
        const std::uint64_t where = anchor_word_at(m_.g, copy, anchor_word::log_heap);
        const std::uint64_t word = word_at(base_, where);
        const bool good = word_holds(word, word_seed(where));
        if (good != corrected) add((good ? word : corrected_word(word, word_seed(where))) & checked_mask);
      }
    }
    for (const run_of_log& r : runs_) {
      if (r.bytes >= run_bytes() && is_proved(r.offset)) add(r.offset);
    }
    return all;
  }
  [[nodiscard]] bool is_run(std::uint64_t place) const {
    return std::any_of(runs_.begin(), runs_.end(), [&](const run_of_log& r) { return r.offset == place; });
  }
  // An entry of the page map that is zero holds, and says that nothing is there.
  [[nodiscard]] bool enter_again(std::uint64_t place) const {
    const layout::page_entry e{static_cast<std::uint32_t>(run_bytes() / m_.g.page_bytes()), in_chunk::owner,
                               layout::page_kind::run, layout::object_layout::raw,
                               layout::slot_protocol::self_validating};
    if (!is_proved(place) || !m_.enter(m_.g.page_of(place), e)) return false;
    m_.note(mending::mended, place, "root of the log: its page is allocated again");
    return true;
  }

  // Mends the line that never changes: from its copy, or by trying values of its words until its check holds.
  [[nodiscard]] bool mend_line(std::uint64_t place) const {
    in_chunk::root r = root_line(base_, copy_at(place));
    if (!proves_root(r, place)) {
      r = root_line(base_, place);
      r.magic = in_chunk::root_magic;
      if (!try_words(r, place)) return false;
    }
    std::memcpy(base_ + place, &r, in_chunk::root_line_bytes);
    m_.note(mending::mended, place, "root of the log");
    return true;
  }
  [[nodiscard]] bool try_words(in_chunk::root& r, std::uint64_t place) const {
    if (proves_root(r, place)) return true;
    const auto tried = [&](std::uint64_t& word, std::uint64_t value) {
      const std::uint64_t was = word;
      word = value;
      if (proves_root(r, place)) return true;
      word = was;
      return false;
    };
    if (tried(r.version, in_chunk::root_version) || tried(r.home_first, m_.g.home_offset()) ||
        tried(r.home_bytes, m_.g.home_bytes)) {
      return true;
    }
    for (unsigned bit = 0; bit < 64; ++bit) {
      const std::uint64_t power = std::uint64_t{1} << bit;
      if (tried(r.chunk_bytes, power) || tried(r.superblock_bytes, power)) return true;
      for (std::uint64_t* const word : {&r.key, &r.check}) {
        if (tried(*word, *word ^ power)) return true;
      }
    }
    // The check itself is lost: a block proves the key.
    const bool is_proved = has_block_of(r, place);
    if (is_proved) r.check = checksum(&r, offsetof(in_chunk::root, check), mix_seed(in_chunk::root_magic, place));
    return is_proved;
  }
  [[nodiscard]] bool has_block_of(const in_chunk::root& r, std::uint64_t place) const {
    if (!std::has_single_bit(r.chunk_bytes) || r.chunk_bytes < in_chunk::chunk_bytes_min ||
        r.chunk_bytes > in_chunk::chunk_bytes_max) {
      return false;
    }
    for (const run_of_log& run : runs_) {
      if (run.offset == place) continue;
      for (std::uint64_t at = run.offset; run.offset + run.bytes - at >= r.chunk_bytes; at += r.chunk_bytes) {
        const std::uint64_t use = content(base_, at + offsetof(in_chunk::chunk_header, use));
        if (begins_with_block(at, in_chunk::generation_of(use), r)) return true;
      }
    }
    return false;
  }
  [[nodiscard]] bool begins_with_block(std::uint64_t chunk, std::uint64_t generation, const in_chunk::root& r) const {
    in_chunk::block_header h;
    const logheap::block_place first{chunk, sizeof(in_chunk::chunk_header), generation, r.key};
    return logheap::inspect_block(base_, first, r.chunk_bytes, h) == logheap::block_fault::none;
  }

  // Words that change.  `first_chunk` comes with the list.
  void mend_words(std::uint64_t place) const {
    const auto at = [&](std::size_t field) { return place + field; };
    const std::uint64_t through = at(offsetof(in_chunk::root, through));
    if (!holds(base_, through) || content(base_, through) > in_chunk::version_max) {
      set_word(base_, through, 0);
      // Then only blocks tell: the last transaction of a thread counts if all of its blocks are there.
      m_.note(m_.closed ? mending::mended : mending::kept, through,
              "root of the log: which transactions have committed is told by their blocks");
    }
    if (const std::uint64_t saved = at(offsetof(in_chunk::root, saved)); !holds(base_, saved)) {
      set_word(base_, saved, 0);
      m_.note(mending::mended, saved, "root of the log: what was saved is not needed");
    }
    mend_session(place);
    std::byte* const reserved = base_ + at(offsetof(in_chunk::root, reserved));
    constexpr std::size_t bytes = sizeof(in_chunk::root) - offsetof(in_chunk::root, reserved);
    if (std::any_of(reserved, reserved + bytes, [](std::byte b) { return b != std::byte{0}; })) {
      std::memset(reserved, 0, bytes);
      m_.note(mending::mended, at(offsetof(in_chunk::root, reserved)), "root of the log: reserved words");
    }
    // The next open would make the copy again, too, without a note.
    if (std::memcmp(base_ + copy_at(place), base_ + place, in_chunk::root_line_bytes) != 0) {
      std::memcpy(base_ + copy_at(place), base_ + place, in_chunk::root_line_bytes);
      m_.note(mending::mended, copy_at(place), "root of the log: copy of its first line");
    }
  }
  // Greater than that of any chunk's use: blocks of a use that was never durable must not pass for a later one's.
  void mend_session(std::uint64_t place) const {
    constexpr std::uint64_t unused = 1 << 10;
    const std::uint64_t word = place + offsetof(in_chunk::root, session);
    const in_chunk::root line = root_line(base_, place);
    const std::uint64_t chunk_bytes = line.chunk_bytes;
    const bool is_told = holds(base_, word) && content(base_, word) <= in_chunk::session_after_last;
    std::uint64_t newest = 0;
    for (const run_of_log& r : runs_) {
      if (r.offset == place || chunk_bytes == 0) continue;
      for (std::uint64_t at = r.offset; r.offset + r.bytes - at >= chunk_bytes; at += chunk_bytes) {
        const std::uint64_t generation =
            in_chunk::generation_of(content(base_, at + offsetof(in_chunk::chunk_header, use)));
        const std::uint64_t session = generation >> in_chunk::uses_bits;
        // A use that only looks like one (one of 256 does) does not make the word of the root wrong: a block says so.
        if (session > newest && (!is_told || begins_with_block(at, generation, line))) newest = session;
      }
    }
    if (is_told && content(base_, word) >= newest) return;
    set_word(base_, word, std::min(newest + unused, in_chunk::session_after_last));
    m_.note(mending::mended, word, "root of the log: the number of its session is a new one");
  }

  const chunk_mending& m_;
  std::byte* const base_;
  const std::vector<run_of_log> runs_;
};

// ---- chunks --------------------------------------------------------------------------------------------------------

// Chunks with the saved mapping.
struct saved_chunks {
  bool is_whole = false;
  std::map<std::uint64_t, std::uint64_t> chain;  // that hold it
  std::set<std::uint64_t> used;                  // of which it tells
};

class chunk_mender {
 public:
  chunk_mender(const chunk_mending& m, std::uint64_t root) : m_{m}, base_{m.base}, g_{m.g}, root_{root} {
    const in_chunk::root r = root_line(base_, root);
    key_ = r.key;
    chunk_bytes_ = r.chunk_bytes;
    // The largest session that a generation can hold.
    constexpr std::uint64_t most = (std::uint64_t{1} << (in_chunk::generation_bits - in_chunk::uses_bits)) - 1;
    session_ = std::min(content(base_, root + offsetof(in_chunk::root, session)), most);
  }

  void run() {
    find_chunks();
    while (enter_lost_run()) find_chunks();
    std::set<std::uint64_t> listed;
    if (list_holds(listed)) {
      chunks_.assign(listed.begin(), listed.end());
    } else {
      drop_leftovers();
    }
    read_uses();
    // A chunk of the saved mapping tells of all others.
    for (const std::uint64_t at : chunks_) mend_header(at);
    link();
  }

 private:
  [[nodiscard]] static std::uint64_t identity(std::uint64_t at) {
    return at + offsetof(in_chunk::chunk_header, identity);
  }
  [[nodiscard]] static std::uint64_t next(std::uint64_t at) { return at + offsetof(in_chunk::chunk_header, next); }
  [[nodiscard]] static std::uint64_t previous(std::uint64_t at) {
    return at + offsetof(in_chunk::chunk_header, previous);
  }
  [[nodiscard]] static std::uint64_t use(std::uint64_t at) { return at + offsetof(in_chunk::chunk_header, use); }
  [[nodiscard]] static std::uint64_t end(std::uint64_t at) { return at + offsetof(in_chunk::chunk_header, end); }
  [[nodiscard]] static std::uint64_t owner(std::uint64_t at) { return at + offsetof(in_chunk::chunk_header, owner); }
  [[nodiscard]] std::uint64_t first() const { return root_ + offsetof(in_chunk::root, first_chunk); }
  [[nodiscard]] bool is_marked(std::uint64_t at) const { return content(base_, identity(at)) == in_chunk::chunk_magic; }
  [[nodiscard]] bool use_holds(std::uint64_t at) const {
    const std::uint64_t word = content(base_, use(at));
    return in_chunk::generation_of(word) != 0 && std::uint64_t(in_chunk::use_of(word)) < in_chunk::chunk_uses &&
           in_chunk::generation_of(word) >> in_chunk::uses_bits <= session_;
  }

  void find_chunks() {
    runs_ = runs_of_log(base_, g_);
    std::erase_if(runs_, [&](const run_of_log& r) { return r.offset == root_ || r.bytes < chunk_bytes_; });
    chunks_.clear();
    for (const run_of_log& r : runs_) {
      for (std::uint64_t at = r.offset; r.offset + r.bytes - at >= chunk_bytes_; at += chunk_bytes_) {
        chunks_.push_back(at);
      }
    }
  }
  [[nodiscard]] bool is_chunk(std::uint64_t at) const { return std::binary_search(chunks_.begin(), chunks_.end(), at); }

  // Enters a run again whose entry of the page map is zero, which holds, and says that nothing is there.  False: none
  // is missed.
  [[nodiscard]] bool enter_lost_run() {
    std::vector<std::uint64_t> named{content(base_, first())};
    for (const std::uint64_t at : chunks_) {
      named.push_back(content(base_, next(at)));
      named.push_back(content(base_, previous(at)));
    }
    for (std::uint64_t at : named) {
      if (!is_lost(at)) continue;
      while (at >= chunk_bytes_ && is_lost(at - chunk_bytes_) && content(base_, next(at - chunk_bytes_)) == at) {
        at -= chunk_bytes_;
      }
      std::uint64_t bytes = chunk_bytes_;
      while (is_lost(at + bytes) && content(base_, next(at + bytes - chunk_bytes_)) == at + bytes) {
        bytes += chunk_bytes_;
      }
      const layout::page_entry e{static_cast<std::uint32_t>(bytes >> g_.page_shift), in_chunk::owner,
                                 layout::page_kind::run, layout::object_layout::raw,
                                 layout::slot_protocol::self_validating};
      if (!m_.enter(g_.page_of(at), e)) continue;
      m_.note(mending::mended, at, text_of("chunks of the log: %lu bytes are allocated again", bytes));
      return true;
    }
    return false;
  }
  [[nodiscard]] bool is_lost(std::uint64_t at) const {
    return at != 0 && at % g_.page_bytes() == 0 && g_.in_data(at, chunk_bytes_) && !is_chunk(at) && is_marked(at) &&
           word_at(base_, g_.entry_offset(g_.page_of(at))) == 0;
  }

  // Whether an open finds nothing wrong with the list; then `seen` has the chunks in it.
  [[nodiscard]] bool list_holds(std::set<std::uint64_t>& seen) const {
    if (!holds(base_, first())) return false;
    std::uint64_t before = 0;
    for (std::uint64_t at = content(base_, first()); at != 0; at = content(base_, next(at))) {
      if (!is_chunk(at) || !seen.insert(at).second || !is_marked(at) || !holds(base_, next(at))) return false;
      const std::uint64_t back = content(base_, previous(at));
      if (!holds(base_, previous(at)) || (before != 0 && back != 0 && back != before)) return false;
      before = at;
    }
    // A run that a crash has left before it was linked is no part of it, and was never used.
    for (const run_of_log& r : runs_) {
      unsigned listed = 0;
      unsigned all = 0;
      bool any_used = false;
      for (std::uint64_t at = r.offset; r.offset + r.bytes - at >= chunk_bytes_; at += chunk_bytes_) {
        ++all;
        listed += seen.contains(at) ? 1 : 0;
        const std::uint64_t word = content(base_, use(at));
        any_used = any_used || (is_marked(at) && in_chunk::use_of(word) != in_chunk::chunk_use::free);
      }
      if (listed != all && (listed != 0 || any_used)) return false;
    }
    return true;
  }
  // Runs that were never linked: nothing leads there, and none of their chunks bears the mark.
  void drop_leftovers() {
    std::set<std::uint64_t> named{content(base_, first())};
    for (const std::uint64_t at : chunks_) {
      named.insert(content(base_, next(at)));
      named.insert(content(base_, previous(at)));
    }
    std::erase_if(chunks_, [&](std::uint64_t at) {
      const auto run = std::find_if(runs_.begin(), runs_.end(),
                                    [&](const run_of_log& r) { return r.offset <= at && at < r.offset + r.bytes; });
      for (std::uint64_t c = run->offset; run->offset + run->bytes - c >= chunk_bytes_; c += chunk_bytes_) {
        if (is_marked(c) || named.contains(c)) return false;
      }
      return true;
    });
    is_linked_anew_ = true;
  }
  void link() {
    if (!is_linked_anew_) return;
    bool changed = set_word(base_, first(), chunks_.empty() ? 0 : chunks_.front());
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      changed |= set_word(base_, next(chunks_[i]), i + 1 < chunks_.size() ? chunks_[i + 1] : 0);
      changed |= set_word(base_, previous(chunks_[i]), i != 0 ? chunks_[i - 1] : 0);
    }
    if (changed) {
      m_.note(mending::mended, first(), text_of("list of chunks of the log: linked anew, %zu of them", chunks_.size()));
    }
  }

  // ---- headers ----

  void read_uses() {
    for (const std::uint64_t at : chunks_) {
      if (!use_holds(at)) continue;
      most_uses_ = std::max(most_uses_, in_chunk::generation_of(content(base_, use(at))) & 0xFFFF'FFFF);
    }
  }
  void mend_header(std::uint64_t at) {
    if (!is_marked(at)) {
      set_word(base_, identity(at), in_chunk::chunk_magic);
      m_.note(mending::mended, at, "mark of a chunk of the log");
    }
    if (!use_holds(at) || is_contradicted(at)) mend_use(at);
  }
  // One of 256 words from elsewhere holds.  In a pool that was closed, other words say what the use of a chunk is.
  [[nodiscard]] bool is_contradicted(std::uint64_t at) {
    if (!m_.closed) return false;
    const std::uint64_t word = content(base_, use(at));
    const auto what = in_chunk::use_of(word);
    const auto& saved = what_was_saved();
    if (saved.is_whole && saved.chain.contains(at))
      return what != in_chunk::chunk_use::saved || !is_proved_by(at, word);
    if (saved.is_whole && what == in_chunk::chunk_use::saved) return true;
    if (saved.is_whole && what == in_chunk::chunk_use::free) return saved.used.contains(at);
    if (what == in_chunk::chunk_use::free || is_proved_by(at, word)) return false;
    return !in_chunk::bound_to(content(base_, end(at)), in_chunk::generation_of(word)) && generation_of(at) != 0;
  }
  [[nodiscard]] bool is_proved_by(std::uint64_t at, std::uint64_t use_word) const {
    return proves(plausible_blocks(at), at, in_chunk::generation_of(use_word));
  }
  void mend_use(std::uint64_t at) {
    const auto& saved = what_was_saved();
    const auto in_chain = saved.chain.find(at);
    const std::uint64_t generation = in_chain != saved.chain.end() ? in_chain->second : generation_of(at);
    in_chunk::chunk_use what = in_chunk::chunk_use::mixed;
    mending how = mending::mended;
    std::uint64_t chosen = generation;
    if (in_chain != saved.chain.end()) {
      what = in_chunk::chunk_use::saved;
    } else if (saved.is_whole) {
      if (!saved.used.contains(at)) what = in_chunk::chunk_use::free;
    } else if (generation == 0) {
      what = in_chunk::chunk_use::free;
    } else {
      how = mending::kept;  // a cleaner may have recycled it
    }
    const bool is_lost = generation == 0 && !saved.is_whole && !plausible_blocks(at).empty();
    if (chosen == 0) chosen = (std::max<std::uint64_t>(session_, 1) << in_chunk::uses_bits) | (most_uses_ + 1);
    const bool by_cleaner = in_chunk::bound_to(content(base_, owner(at)), chosen) &&
                            (content(base_, owner(at)) & in_chunk::stamp_cleaner) != 0;
    set_word(base_, use(at), in_chunk::pack_use(what, chosen, by_cleaner && what != in_chunk::chunk_use::free));
    // A saved mapping is believed only about chunks that have an end.
    if (m_.closed && what != in_chunk::chunk_use::free && !in_chunk::bound_to(content(base_, end(at)), chosen)) {
      set_word(base_, end(at), in_chunk::pack_bound(static_cast<std::uint32_t>(end_of_blocks(at, chosen)), chosen));
    }
    if (is_lost) {
      m_.note(mending::lost, at, "a chunk of the log, of which nothing says how it was used: what may have been in it");
    } else {
      m_.note(how, use(at),
              how == mending::kept ? "use of a chunk of the log: what is in it counts, and may have been freed"
                                   : "use of a chunk of the log");
    }
  }
  [[nodiscard]] std::uint64_t end_of_blocks(std::uint64_t at, std::uint64_t generation) const {
    std::uint64_t behind = 0;
    for (std::uint64_t in = sizeof(in_chunk::chunk_header); in < chunk_bytes_;) {
      in_chunk::block_header h;
      const auto fault = logheap::inspect_block(base_, {at, in, generation, key_}, chunk_bytes_, h);
      in += logheap::step_over(fault, h);
      if (fault != logheap::block_fault::no_header) behind = in;
    }
    return behind == 0 ? chunk_bytes_ : std::min(behind, chunk_bytes_);
  }

  // Where a header of a block may be.
  [[nodiscard]] std::vector<std::uint64_t> plausible_blocks(std::uint64_t at) const {
    constexpr std::size_t most = 32;
    constexpr std::uint32_t known_flags =
        in_chunk::block_moved | in_chunk::block_allocations | in_chunk::block_entries_checked;
    std::vector<std::uint64_t> all;
    for (std::uint64_t in = sizeof(in_chunk::chunk_header);
         in <= chunk_bytes_ - sizeof(in_chunk::block_header) && all.size() < most; in += in_chunk::block_align) {
      in_chunk::block_header h;
      std::memcpy(&h, base_ + at + in, sizeof h);
      const std::uint32_t low = h.flags & ((std::uint32_t{1} << in_chunk::entry_check_shift) - 1);
      const bool may_be = h.version != 0 && h.version <= in_chunk::version_max && h.bytes <= chunk_bytes_ - in &&
                          h.bytes >= sizeof h + 8 * std::uint64_t{logheap::count_of(h)} && (low & ~known_flags) == 0 &&
                          logheap::peer_of(h) < g_.size_bytes();
      if (may_be) all.push_back(in);
    }
    return all;
  }
  // Whether one of the blocks holds by the generation.
  [[nodiscard]] bool proves(const std::vector<std::uint64_t>& blocks, std::uint64_t at,
                            std::uint64_t generation) const {
    return generation != 0 && std::any_of(blocks.begin(), blocks.end(), [&](std::uint64_t in) {
             in_chunk::block_header h;
             return logheap::inspect_block(base_, {at, in, generation, key_}, chunk_bytes_, h) !=
                    logheap::block_fault::no_header;
           });
  }
  // The generation by which a block in the chunk holds, first that of its use; 0: none does.
  [[nodiscard]] std::uint64_t generation_of(std::uint64_t at) {
    if (const auto known = generations_.find(at); known != generations_.end()) return known->second;
    return generations_[at] = generation_that_proves(at, plausible_blocks(at));
  }
  [[nodiscard]] std::uint64_t generation_that_proves(std::uint64_t at, const std::vector<std::uint64_t>& blocks) const {
    if (blocks.empty()) return 0;
    std::uint64_t found = 0;
    const auto proved = [&](std::uint64_t generation) {
      if (!proves(blocks, at, generation)) return false;
      found = generation;
      return true;
    };
    if (use_holds(at) && proved(in_chunk::generation_of(content(base_, use(at))))) return found;
    const std::uint64_t corrected = corrected_word(word_at(base_, use(at)), word_seed(use(at))) & checked_mask;
    if (proved(in_chunk::generation_of(corrected))) return found;
    std::uint64_t budget = (std::uint64_t{1} << 22) / blocks.size();
    for (const std::uint64_t uses : uses_of(at)) {
      for (std::uint64_t s = session_; s != 0 && budget != 0; --s, --budget) {
        if (proved(s << in_chunk::uses_bits | uses)) return found;
      }
    }
    return 0;
  }
  // How often it may have been used: its other words have the low bits.
  [[nodiscard]] std::vector<std::uint64_t> uses_of(std::uint64_t at) const {
    std::vector<std::uint64_t> all;
    for (const std::uint64_t word : {content(base_, end(at)), content(base_, owner(at))}) {
      if (word != 0) all.push_back(word >> 32);
    }
    if (!all.empty()) return all;
    constexpr std::uint64_t beyond = 16;
    for (std::uint64_t n = 1; n <= most_uses_ + beyond; ++n) all.push_back(n);
    return all;
  }

  // ---- the saved mapping ----

  const saved_chunks& what_was_saved() {
    if (saved_) return *saved_;
    saved_.emplace();
    std::uint64_t at = m_.closed ? content(base_, root_ + offsetof(in_chunk::root, saved)) : 0;
    std::uint64_t version = 0;
    while (is_chunk(at) && !saved_->chain.contains(at)) {
      in_chunk::block_header h;
      // Blocks of an earlier use may follow the one of saved records.
      const std::uint64_t generation = generation_that_proves(at, {sizeof(in_chunk::chunk_header)});
      if (!read_saved(at, generation, h, saved_->used) || (version != 0 && h.version != version)) break;
      saved_->chain[at] = generation;
      version = h.version;
      at = logheap::peer_of(h);
      if (at == 0) saved_->is_whole = agrees_with_uses(*saved_);
    }
    return *saved_;
  }
  // Reads the block of saved records of a chunk, as a heap does that is opened; false: it is none.
  [[nodiscard]] bool read_saved(std::uint64_t at, std::uint64_t generation, in_chunk::block_header& h,
                                std::set<std::uint64_t>& used) const {
    const logheap::block_place place{at, sizeof(in_chunk::chunk_header), generation, key_};
    if (logheap::inspect_block(base_, place, chunk_bytes_, h) != logheap::block_fault::none) return false;
    const std::uint64_t count = logheap::count_of(h);
    if (h.bytes != sizeof h + count * sizeof(in_chunk::saved_record)) return false;
    for (std::uint64_t i = 0; i < count; ++i) {
      in_chunk::saved_record r;
      std::memcpy(&r, base_ + place.offset() + sizeof h + i * sizeof r, sizeof r);
      const std::uint64_t kind = r.home_and_kind >> 56;
      if (kind > std::uint64_t(in_chunk::saved_kind::chunk)) return false;
      if (kind != std::uint64_t(in_chunk::saved_kind::chunk)) continue;
      if (!is_chunk(r.home_and_kind & checked_mask)) return false;
      used.insert(r.home_and_kind & checked_mask);
    }
    return true;
  }
  // One of 256 words from elsewhere holds as the place of what was saved, and entries may look like saved records.  A
  // saved mapping names each chunk that is in use, and none of its own.
  [[nodiscard]] bool agrees_with_uses(const saved_chunks& saved) const {
    return std::ranges::all_of(chunks_, [&](std::uint64_t at) {
      const std::uint64_t word = content(base_, use(at));
      const auto what = in_chunk::use_of(word);
      const bool is_in_use = use_holds(at) && what != in_chunk::chunk_use::free && what != in_chunk::chunk_use::saved &&
                             is_proved_by(at, word);
      if (saved.chain.contains(at)) return !saved.used.contains(at) && (!is_in_use || !saved.used.empty());
      return !is_in_use || saved.used.contains(at);
    });
  }

  const chunk_mending& m_;
  std::byte* const base_;
  const geometry& g_;
  const std::uint64_t root_;
  std::uint64_t key_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t session_ = 0;
  std::uint64_t most_uses_ = 0;  // of any chunk
  bool is_linked_anew_ = false;
  std::vector<run_of_log> runs_;
  std::vector<std::uint64_t> chunks_;  // their places, in order
  std::map<std::uint64_t, std::uint64_t> generations_;
  std::optional<saved_chunks> saved_;
};

std::uint64_t named_root(const std::byte* base, const geometry& g) {
  const auto place = read_anchor_word(base, g, anchor_word::log_heap);
  if (!place || *place == 0 || *place % g.page_bytes() != 0 || !g.in_data(*place, g.page_bytes())) return 0;
  return *place;
}

}  // namespace

void mend_log_root(const chunk_mending& m) { root_mender{m}.run(); }

void mend_chunks(const chunk_mending& m) {
  const std::uint64_t root = named_root(m.base, m.g);
  if (root == 0 || !proves_root(root_line(m.base, root), root)) return;
  const std::uint64_t bytes = root_line(m.base, root).chunk_bytes;
  if (!std::has_single_bit(bytes) || bytes < in_chunk::chunk_bytes_min || bytes > in_chunk::chunk_bytes_max) return;
  chunk_mender{m, root}.run();
}

void check_log_root_copy(const std::byte* base, const geometry& g,
                         const std::function<void(std::uint64_t offset, const char* finding)>& tell) {
  const std::uint64_t root = named_root(base, g);
  if (root == 0) return;
  const std::uint64_t at = root + in_chunk::root_copy_at(round_up(sizeof(in_chunk::root), g.page_bytes()));
  const bool is_there =
      std::any_of(base + at, base + at + in_chunk::root_line_bytes, [](std::byte b) { return b != std::byte{0}; });
  for (std::uint64_t i = 0; is_there && i < in_chunk::root_line_bytes; i += 8) {
    const std::uint64_t found = word_at(base, at + i), expected = word_at(base, root + i);
    if (found == expected) continue;
    char text[160];
    std::snprintf(text, sizeof text,
                  "log-structured heap: copy of its root's first line: found %016lx, expected %016lx as at offset %lu",
                  found, expected, root + i);
    return tell(at + i, text);
  }
}

}  // namespace nvm::care
