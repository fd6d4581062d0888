// The facts of an entry are known more than once: its state has the kind and the number, the number is that of its
// place; its root begins with the kind, and lies in pages of the number; a checksum covers root, flags and name.  So
// damaged words are found by trying possible values, and proved by the checksum.  Without the checksum, words count
// that hold by themselves; then a name is taken as it stands, if it can be one, and told as not certain.
#include "care/mend_catalogue.hpp"
#include "care/words.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "lockfree/lockfree_layout.hpp"
#include "lockfree/rebuilt.hpp"

namespace nvm::care {
namespace {

namespace lf = lockfree::layout;

void put_word(std::byte* base, std::uint64_t at, std::uint64_t content) noexcept {
  const std::uint64_t w = seal_word(content, word_seed(at));
  std::memcpy(base + at, &w, sizeof w);
}
std::optional<std::uint64_t> content_at(const std::byte* base, std::uint64_t at) noexcept {
  const std::uint64_t w = word_at(base, at);
  return word_holds(w, word_seed(at)) ? std::optional{w & checked_mask} : std::nullopt;
}

// The pages of one number.
struct pages_of_owner {
  std::vector<std::uint64_t> roots{};  // runs that begin as a root does
  unsigned runs = 0;
  bool has_extents = false;
  // Whether it has more pages than a structure that is being made.
  [[nodiscard]] bool is_used() const noexcept { return has_extents || runs > 2; }
};

class catalogue_mender {
 public:
  catalogue_mender(std::byte* base, structure_pages& pages, bool closed, const told_notes& tell)
      : base_{base}, pages_{pages}, closed_{closed}, tell_{tell} {}

  result<mended_catalogue> run() {
    look_at_pages();
    out_.place = word_at(base_, *pages_.lockfree_directory().begin()) & checked_mask;
    if (out_.place != 0) {
      if (status s = mend_head(); !s) return s.error();
      list_active();
    } else {
      out_.active.is_at_rest = closed_;
      out_.active.anywhere = !closed_;
    }
    for (unsigned i = 0; i < lf::structures_max; ++i) {
      if (status s = look_at_entry(i); !s) return s.error();
    }
    for (described_structure& d : damaged_) mend_entry(d);
    for (described_structure& d : out_.structures) {
      if (d.name.empty()) make_up_name(d);
    }
    return std::move(out_);
  }

 private:
  static constexpr std::size_t roots_tried = 8;  // of one structure

  void note(mending how, std::uint64_t at, std::string what) {
    tell_(note_of(how, at, "directory of lock-free structures: " + what));
  }

  // ---- pages ----

  void look_at_pages() {
    for (const owned_pages& p : pages_of(pages_)) look_at(p);
  }
  void look_at(const owned_pages& p) {
    if (p.owner < lf::first_owner || p.owner >= lf::first_owner + lf::structures_max) return;
    pages_of_owner& own = of_[p.owner - lf::first_owner];
    if (p.kind == layout::page_kind::run) {
      ++own.runs;
      const bool is_root = kind_of_root(p.offset) || is_sealed_root(p.offset);
      if (is_root && own.roots.size() < roots_tried) own.roots.push_back(p.offset);
      return;
    }
    own.has_extents = true;
  }
  [[nodiscard]] std::optional<lf::kind> kind_of_root(std::uint64_t at) const noexcept {
    const std::uint64_t magic = word_at(base_, at);
    if (magic == lockfree::list_magic) return lf::kind::list;
    if (magic == lockfree::hash_magic) return lf::kind::hash;
    if (magic == lockfree::skip_magic) return lf::kind::skip_list;
    if (magic == lockfree::tree_magic) return lf::kind::tree;
    if (magic != lockfree::sealed_magic || lockfree::sealed_root_fault(base_, at) != nullptr) return std::nullopt;
    const std::uint64_t kind = word_at(base_, at + offsetof(lockfree::sealed_root, kind));
    const bool says = kind != 0 && kind <= static_cast<std::uint64_t>(lf::last_kind) &&
                      lf::links_may_be_volatile(static_cast<lf::kind>(kind));
    return says ? std::optional{static_cast<lf::kind>(kind)} : std::nullopt;
  }
  [[nodiscard]] bool is_sealed_root(std::uint64_t at) const noexcept {
    return word_at(base_, at) == lockfree::sealed_magic;
  }
  [[nodiscard]] bool is_run_of(std::uint64_t at, std::uint16_t owner) const {
    const auto run = pages_.owned_at(at);
    return run && run->offset == at && run->owner == owner && run->kind == layout::page_kind::run;
  }

  // Whether there is a root in pages that nothing has.
  [[nodiscard]] bool is_forgotten_root(std::uint64_t at) const {
    const geometry& g = pages_.sizes();
    constexpr std::uint64_t most = 512;  // bytes of a root
    if (at % g.page_bytes() != 0 || !g.in_data(at, most) || g.page_of(at) >= pages_.size_pages()) return false;
    return pages_.is_free(g.page_of(at)) && (kind_of_root(at) || is_sealed_root(at));
  }

  // ---- the directory's own words ----

  status mend_head() {
    const std::uint64_t version_at = out_.place + offsetof(lf::directory, version);
    const std::uint64_t shift_at = out_.place + offsetof(lf::directory, area_shift);
    if (word_at(base_, out_.place) != lf::directory_magic) {
      std::memcpy(base_ + out_.place, &lf::directory_magic, sizeof lf::directory_magic);
      note(mending::mended, out_.place, "how it begins");
    }
    const auto version = content_at(base_, version_at);
    if (version && *version > 1) return fail(errc::version, "directory of lock-free structures: version %lu", *version);
    if (!version || *version != 1) {
      put_word(base_, version_at, 1);
      note(mending::mended, version_at, "version");
    }
    const auto shift = content_at(base_, shift_at);
    constexpr std::uint64_t shift_default = 12;
    if (!shift || *shift < 10 || *shift > 30) {
      // Its old value does not matter: nodes that may be new are looked for everywhere.
      out_.active.anywhere = true;
      put_word(base_, shift_at, shift_default);
      note(mending::mended, shift_at, "size of active areas");
    }
    out_.active.shift = static_cast<unsigned>(content_at(base_, shift_at).value_or(shift_default));
    return {};
  }

  // Tables of active areas, which recovery reads as far as they hold.
  void list_active() {
    const std::uint64_t page_bytes = pages_.sizes().page_bytes();
    bool any = false;
    for (unsigned t = 0; t < 256; ++t) {
      std::uint64_t at = out_.place + offsetof(lf::directory, tables) + t * 8;
      for (unsigned n = 0; n < 64; ++n) {
        const auto table = content_at(base_, at);
        out_.active.anywhere = out_.active.anywhere || !table;
        if (!table || *table == 0) break;
        out_.active.threads += n == 0 ? 1 : 0;
        if (!is_run_of(*table, lf::directory_owner)) {
          out_.active.anywhere = true;
          break;
        }
        for (at = *table; at < *table + page_bytes - 8; at += 8) {
          const auto area = content_at(base_, at);
          out_.active.anywhere = out_.active.anywhere || !area;
          if (!area || *area == 0) continue;
          any = true;
          const std::pair<std::uint16_t, std::uint64_t> of{lf::owner_of_word(*area), lf::area_of_word(*area)};
          out_.active.removing.insert(of);
          if (!lf::is_unlinked_only(*area)) out_.active.allocating.insert(of);
        }
      }
    }
    out_.active.is_at_rest = closed_ && !any && !out_.active.anywhere;
    // Where the pool was closed a word that fails its check is damage, and says nothing of threads.
    if (closed_ && !any) out_.active.anywhere = false;
  }

  // ---- entries ----

  [[nodiscard]] std::uint64_t entry_at(unsigned i) const noexcept {
    return out_.place + offsetof(lf::directory, entries) + i * sizeof(lf::entry);
  }
  [[nodiscard]] lf::entry read(std::uint64_t at) const noexcept {
    lf::entry e;
    std::memcpy(&e, base_ + at, sizeof e);
    return e;
  }
  [[nodiscard]] static std::uint64_t crc_of(const lf::entry& e, std::uint64_t at) noexcept {
    return checksum(reinterpret_cast<const std::byte*>(&e) + 8, offsetof(lf::entry, crc) - 8, at);
  }
  [[nodiscard]] static bool can_be_name(const char (&name)[lf::name_max + 1]) noexcept {
    const auto* const end = static_cast<const char*>(std::memchr(name, 0, sizeof name));
    if (end == nullptr || end == name) return false;
    return std::all_of(end, name + sizeof name, [](char c) { return c == 0; }) &&
           std::all_of(static_cast<const char*>(name), end, [](char c) { return c >= 0x20 && c != 0x7F; });
  }

  status look_at_entry(unsigned i) {
    described_structure d;
    d.owner = static_cast<std::uint16_t>(lf::first_owner + i);
    if (out_.place == 0) {
      if (of_[i].is_used()) damaged_.push_back(d);
      return {};
    }
    d.place = entry_at(i);
    const lf::entry e = read(d.place);
    if (e.state == seal_word(lf::leaving(d.owner), word_seed(d.place))) return {};
    if (e.state == 0) {
      if (is_missed(e, of_[i], d)) damaged_.push_back(d);
      return {};
    }
    if (is_of_later_library(e, d)) {
      return fail(errc::version, "lock-free structure '%.*s': this library does not know it",
                  static_cast<int>(lf::name_max), e.name);
    }
    if (holds(e, d)) {
      out_.structures.push_back(d);
      return {};
    }
    damaged_.push_back(d);
    return {};
  }
  // Whether a structure is missed whose entry's state says that there is none: an entry that was never used, or whose
  // structure was dropped, has no pages, except those of a structure that is being made.
  [[nodiscard]] bool is_missed(const lf::entry& e, const pages_of_owner& of, const described_structure& d) const {
    if (of.is_used()) return true;
    described_structure tried = d;
    return closed_ && of.runs != 0 && prove(e, tried) && is_run_of(tried.root, d.owner);
  }
  // Whether an entry is whole, and of a structure that this library does not know.
  [[nodiscard]] static bool is_of_later_library(const lf::entry& e, const described_structure& d) noexcept {
    if (!word_holds(e.state, word_seed(d.place)) || e.crc != crc_of(e, d.place)) return false;
    const std::uint64_t version = (e.state & checked_mask) >> 24;
    return version > lf::entry_version_tally || (e.flags & checked_mask & ~lf::entry_flags_known) != 0;
  }
  // Whether an entry holds, as the catalogue sees it; fills in its facts.
  bool holds(const lf::entry& e, described_structure& d) const {
    const std::uint64_t state = e.state & checked_mask;
    const auto kind = static_cast<lf::kind>(state & 0xFF);
    if (!word_holds(e.state, word_seed(d.place)) || kind == lf::kind::none || kind > lf::last_kind) return false;
    if (static_cast<std::uint16_t>(state >> 8) != d.owner || e.crc != crc_of(e, d.place)) return false;
    const std::uint64_t flags = e.flags & checked_mask;
    if ((flags & ~lf::entry_flags_known) != 0 || state >> 24 != lf::entry_version(flags)) return false;
    if (!is_run_of(e.root & checked_mask, d.owner) || e.name[lf::name_max] != '\0') return false;
    if ((flags & lf::entry_volatile_links) != 0 && !lf::links_may_be_volatile(kind)) return false;
    d.name = e.name;
    d.kind = kind;
    d.root = e.root & checked_mask;
    d.flags = flags;
    const bool was_counted = (flags & lf::entry_tally) != 0 && e.tally != 0;
    if (was_counted) d.had = content_at(base_, d.place + offsetof(lf::entry, tally));
    return true;
  }

  // Roots that it may have had: the one that it names, if that can be one, and runs that begin like one.
  [[nodiscard]] std::vector<std::uint64_t> roots_of(const lf::entry& e, const described_structure& d) const {
    std::vector<std::uint64_t> all = of_[d.owner - lf::first_owner].roots;
    const std::uint64_t said = e.root & checked_mask;
    const bool says = word_holds(e.root, word_seed(d.place + offsetof(lf::entry, root)));
    if (says && said != 0) all.insert(all.begin(), said);
    return all;
  }
  [[nodiscard]] static std::vector<std::uint64_t> flags_of(const lf::entry& e, const described_structure& d) {
    std::vector<std::uint64_t> all;
    const std::uint64_t said = e.flags & checked_mask;
    const bool says = word_holds(e.flags, word_seed(d.place + offsetof(lf::entry, flags)));
    if (says && (said & ~lf::entry_flags_known) == 0) all.push_back(said);
    for (std::uint64_t f = 0; f <= lf::entry_flags_known; ++f) all.push_back(f);
    return all;
  }
  [[nodiscard]] static lf::entry with(const lf::entry& e, const described_structure& d, std::uint64_t root,
                                      std::uint64_t flags) noexcept {
    lf::entry made = e;
    const auto sealed = [&](std::uint64_t content, std::uint64_t field) {
      return seal_word(content, word_seed(d.place + field));
    };
    made.root = sealed(root, offsetof(lf::entry, root));
    made.parameters = sealed(0, offsetof(lf::entry, parameters));
    made.flags = sealed(flags, offsetof(lf::entry, flags));
    return made;
  }
  // Finds the facts that the checksum proves.
  bool prove(const lf::entry& e, described_structure& d) const {
    for (const std::uint64_t root : roots_of(e, d)) {
      for (const std::uint64_t flags : flags_of(e, d)) {
        lf::entry made = with(e, d, root, flags);
        // One byte of the checksum itself may have changed.
        const std::uint64_t change = made.crc ^ crc_of(made, d.place);
        const bool is_one_byte =
            change >> round_down(static_cast<unsigned>(std::countr_zero(change)) & 63U, 8U) <= 0xFF;
        if (!is_one_byte && !correct_name(made, d, flags == flags_of(e, d).front())) continue;
        if (made.name[lf::name_max] != '\0' || made.name[0] == '\0') continue;
        d.name = made.name;
        d.root = root;
        d.flags = flags;
        return true;
      }
    }
    return false;
  }
  // One byte of the name may have changed.
  static bool correct_name(lf::entry& made, const described_structure& d, bool tries) noexcept {
    for (unsigned i = 0; tries && i < lf::name_max; ++i) {
      const char was = made.name[i];
      for (unsigned change = 1; change < 256; ++change) {
        made.name[i] = static_cast<char>(static_cast<unsigned char>(was) ^ change);
        if (made.crc == crc_of(made, d.place)) return true;
      }
      made.name[i] = was;
    }
    return false;
  }

  void find_kind(const lf::entry& e, described_structure& d) const {
    const auto of_state = [&](std::uint64_t word) -> std::optional<lf::kind> {
      const std::uint64_t state = word & checked_mask;
      const auto kind = static_cast<lf::kind>(state & 0xFF);
      const bool is_one = word != 0 && word_holds(word, word_seed(d.place)) &&
                          static_cast<std::uint16_t>(state >> 8) == d.owner && kind != lf::kind::none &&
                          kind <= lf::last_kind;
      return is_one ? std::optional{kind} : std::nullopt;
    };
    auto kind = of_state(e.state);
    if (!kind && d.root != 0) kind = kind_of_root(d.root);
    if (!kind) kind = of_state(corrected_word(e.state, word_seed(d.place)));
    d.kind = kind.value_or(lf::kind::none);
  }
  void mend_entry(described_structure& d) {
    // Without a directory only the pages tell of it.
    const lf::entry e = d.place == 0 ? lf::entry{} : read(d.place);
    const bool is_proved = d.place != 0 && prove(e, d);
    if (!is_proved) {
      for (const std::uint64_t root : roots_of(e, d)) {
        if (d.root == 0 && (is_run_of(root, d.owner) || is_forgotten_root(root))) d.root = root;
      }
      if (can_be_name(e.name)) d.name = e.name;
    }
    d.is_root_owned = is_run_of(d.root, d.owner);
    if (!d.is_root_owned && !is_forgotten_root(d.root)) d.root = 0;
    find_kind(e, d);
    if (!is_proved) find_flags(e, d);
    finish(d, is_proved);
  }
  // Finds the flags with which most nodes there hold.
  void find_flags(const lf::entry& e, described_structure& d) const {
    const std::uint64_t said = e.flags & checked_mask;
    const bool says = said != 0 && d.place != 0 && word_holds(e.flags, word_seed(d.place + offsetof(lf::entry, flags)));
    if (says && (said & ~lf::entry_flags_known) == 0) {
      d.flags = said;
      return;
    }
    std::uint64_t most = 0;
    const std::uint64_t sealed = d.root != 0 && is_sealed_root(d.root) ? lf::entry_volatile_links : 0;
    for (const std::uint64_t bytes : {std::uint64_t{0}, lf::entry_bytes}) {
      described_structure tried = d;
      tried.flags = lf::entry_map | lf::entry_sums | bytes | sealed | (sealed != 0 ? lf::entry_tally : 0);
      if (tried.kind == lf::kind::none) continue;
      structure_reader reader{base_, pages_, tried, out_.active};
      reader.read();
      const structure_contents found = reader.contents();
      const auto doubtful =
          std::count_if(found.faults.begin(), found.faults.end(), [](const auto& f) { return f.how == mending::kept; });
      const std::uint64_t in_doubt = found.unproved + static_cast<std::uint64_t>(doubtful);
      const std::uint64_t proved = found.entries.size() - std::min<std::uint64_t>(in_doubt, found.entries.size());
      if (proved <= most) continue;
      most = proved;
      d.flags = tried.flags;
    }
    if (most == 0) d.kind = lf::kind::none;
  }
  void finish(described_structure& d, bool is_proved) {
    const bool collides = std::any_of(out_.structures.begin(), out_.structures.end(),
                                      [&](const described_structure& other) { return other.name == d.name; });
    if (collides) d.name.clear();
    if (d.place != 0) {
      note(mending::mended, d.place, d.name.empty() ? "an entry" : "the entry of \"" + d.name + "\"");
      if (!is_proved && !d.name.empty()) {
        note(mending::kept, d.place, "nothing proves that the name \"" + d.name + "\" is right");
      }
    }
    if (d.place != 0 && !d.name.empty()) write_entry(d);
    out_.structures.push_back(d);
  }
  void write_entry(const described_structure& d) const {
    if (d.root == 0 || !d.is_root_owned || d.kind == lf::kind::none) return forget_entry(base_, d);
    lf::entry e{};
    e = with(e, d, d.root, d.flags);
    std::memcpy(e.name, d.name.data(), d.name.size());
    e.crc = crc_of(e, d.place);
    e.state = seal_word(std::uint64_t(d.kind) | std::uint64_t{d.owner} << 8 | lf::entry_version(d.flags) << 24,
                        word_seed(d.place));
    std::memcpy(base_ + d.place, &e, sizeof e);
  }
  void make_up_name(described_structure& d) {
    for (unsigned n = 1;; ++n) {
      d.name = "lost-" + std::to_string(n);
      const auto same = std::count_if(out_.structures.begin(), out_.structures.end(),
                                      [&](const described_structure& other) { return other.name == d.name; });
      if (same == 1) break;
    }
    note(mending::lost, d.place, "the name of a structure, which is \"" + d.name + "\" from now on");
    if (d.place != 0) write_entry(d);
  }

  std::byte* const base_;
  structure_pages& pages_;
  const bool closed_;
  const told_notes& tell_;
  mended_catalogue out_;
  std::vector<described_structure> damaged_;
  std::array<pages_of_owner, lf::structures_max> of_;
};

}  // namespace

result<mended_catalogue> mend_catalogue(std::byte* base, structure_pages& pages, bool closed, const told_notes& tell) {
  return catalogue_mender{base, pages, closed, tell}.run();
}

void forget_entry(std::byte* base, const described_structure& d) noexcept {
  if (d.place != 0) std::memset(base + d.place, 0, 8);
}

}  // namespace nvm::care
