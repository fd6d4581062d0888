// The directory of sets of regions, its entries, and the rings.
#include "care/mend_sets.hpp"
#include "care/page_entries.hpp"
#include "care/words.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "log/log.hpp"
#include "media/media.hpp"

namespace nvm::care {
namespace {

namespace on_media = region::layout;
constexpr std::uint64_t directory_bytes = sizeof(on_media::directory);
constexpr std::uint64_t sealed_bytes = offsetof(on_media::directory, crc);

class set_directory_mender {
 public:
  explicit set_directory_mender(const set_mending& m) : m_{m}, base_{m.base}, g_{m.g} {}

  void run() {
    for (const std::uint64_t at : places()) {
      if (!is_run(at) && !enter_again(at)) continue;
      if (!holds(at) && !mend(at)) continue;
      enter_rings(at);
      mend_copy(at);
      return;
    }
  }

 private:
  [[nodiscard]] on_media::directory& at(std::uint64_t place) const noexcept {
    return *reinterpret_cast<on_media::directory*>(base_ + place);
  }
  [[nodiscard]] bool holds(std::uint64_t place) const noexcept {
    const on_media::directory& d = at(place);
    return d.magic == on_media::directory_magic && d.crc == checksum(&d, sealed_bytes, place);
  }
  [[nodiscard]] std::uint64_t copy_at(std::uint64_t place) const noexcept {
    return place + on_media::directory_copy_at(round_up(directory_bytes, g_.page_bytes()));
  }
  // The copy in the last line of its run; nullopt: there is none.
  [[nodiscard]] std::optional<on_media::directory> copy_of(std::uint64_t place) const {
    if (!g_.in_data(place, round_up(directory_bytes, g_.page_bytes()))) return {};
    on_media::directory d{};
    std::memcpy(&d, base_ + copy_at(place), on_media::directory_line_bytes);
    if (d.magic != on_media::directory_magic || d.crc != checksum(&d, sealed_bytes, place)) return {};
    return d;
  }
  // The next open would make it again, too, without a note.
  void mend_copy(std::uint64_t place) const {
    if (std::memcmp(base_ + copy_at(place), &at(place), on_media::directory_line_bytes) == 0) return;
    std::memcpy(base_ + copy_at(place), &at(place), on_media::directory_line_bytes);
    m_.note(mending::mended, copy_at(place), "directory of sets of regions: copy of its first line");
  }
  // Places that anchors name, those that hold first; then all runs that may be a directory.
  [[nodiscard]] std::vector<std::uint64_t> places() const {
    std::vector<std::uint64_t> all;
    const auto add = [&](std::uint64_t place) {
      const bool can_be = place != 0 && place % g_.page_bytes() == 0 && g_.in_data(place, directory_bytes);
      if (can_be && std::find(all.begin(), all.end(), place) == all.end()) all.push_back(place);
    };
    for (const bool corrected : {false, true}) {
      for (unsigned copy = 0; copy < 2; ++copy) {
        const std::uint64_t where = anchor_word_at(g_, copy, anchor_word::regions);
        const std::uint64_t word = word_at(base_, where);
        const bool good = word_holds(word, word_seed(where));
        if (good != corrected) add((good ? word : corrected_word(word, word_seed(where))) & checked_mask);
      }
    }
    for (const pages_of_set& p : pages_of_sets(base_, g_)) {
      if (p.owner == on_media::directory_owner && p.bytes >= directory_bytes &&
          (holds(p.offset) || copy_of(p.offset))) {
        add(p.offset);
      }
    }
    return all;
  }
  [[nodiscard]] bool is_run(std::uint64_t place) const {
    const auto all = pages_of_sets(base_, g_);
    return std::any_of(all.begin(), all.end(), [&](const pages_of_set& p) {
      return p.offset == place && p.owner == on_media::directory_owner && p.bytes >= directory_bytes;
    });
  }
  // An entry of the page map that is zero holds, and says that nothing is there.
  [[nodiscard]] bool enter_run(std::uint64_t place, std::uint64_t bytes) const {
    const layout::page_entry e{static_cast<std::uint32_t>(ceil_div(bytes, g_.page_bytes())), on_media::directory_owner,
                               layout::page_kind::run, layout::object_layout::raw, layout::slot_protocol::region};
    return range_inside(g_.page_of(place), e.length_pages, g_.size_pages) && m_.enter(g_.page_of(place), e);
  }
  [[nodiscard]] bool enter_again(std::uint64_t place) const {
    if ((!holds(place) && !copy_of(place)) || !enter_run(place, directory_bytes)) return false;
    m_.note(mending::mended, place, "pages of the directory of sets of regions: allocated again");
    return true;
  }
  void enter_rings(std::uint64_t place) const {
    const on_media::directory& d = at(place);
    const std::uint64_t bytes = d.ring_bytes * d.ring_count;
    if (d.rings == 0 || !g_.in_data(d.rings, bytes) || word_at(base_, g_.entry_offset(g_.page_of(d.rings))) != 0)
      return;
    if (enter_run(d.rings, bytes)) m_.note(mending::mended, d.rings, "pages of the log of regions: allocated again");
  }

  // Mends the part that never changes: from its copy, or by trying values until its checksum holds.
  [[nodiscard]] bool mend(std::uint64_t place) const {
    on_media::directory& d = at(place);
    if (const auto copy = copy_of(place); copy) {
      std::memcpy(&d, &*copy, on_media::directory_line_bytes);
      m_.note(mending::mended, place, "directory of sets of regions");
      return true;
    }
    const on_media::directory found = d;
    d.magic = on_media::directory_magic;
    d.version = on_media::version;
    d.reserved = 0;
    if (!is_proved(place) && !try_words(place)) {
      const bool keeps = m_.closed && proves_key(base_, g_, d.key) && make_log_anew(place);
      if (!keeps) {
        d = found;
        return false;
      }
      d.crc = checksum(&d, sealed_bytes, place);
    }
    m_.note(mending::mended, place, "directory of sets of regions");
    return true;
  }
  [[nodiscard]] bool is_proved(std::uint64_t place) const {
    return at(place).crc == checksum(&at(place), sealed_bytes, place);
  }
  [[nodiscard]] bool try_words(std::uint64_t place) const {
    on_media::directory& d = at(place);
    for (std::uint64_t* const word : {&d.key, &d.rings, &d.ring_bytes, &d.ring_count, &d.crc}) {
      for (unsigned bit = 0; bit < 64; ++bit) {
        *word ^= std::uint64_t{1} << bit;
        if (is_proved(place)) return true;
        *word ^= std::uint64_t{1} << bit;
      }
    }
    return try_values(place, d.rings, rings(place)) ||
           try_values(place, d.ring_bytes, multiples(place, d.ring_count)) || try_values(place, d.ring_count, counts());
  }
  [[nodiscard]] bool try_values(std::uint64_t place, std::uint64_t& word,
                                const std::vector<std::uint64_t>& values) const {
    const std::uint64_t was = word;
    for (const std::uint64_t value : values) {
      word = value;
      if (is_proved(place)) return true;
    }
    word = was;
    return false;
  }
  [[nodiscard]] std::vector<std::uint64_t> rings(std::uint64_t place) const {
    std::vector<std::uint64_t> all{0};
    for (const pages_of_set& p : pages_of_sets(base_, g_)) {
      if (p.owner == on_media::directory_owner && p.offset != place) all.push_back(p.offset);
    }
    return all;
  }
  [[nodiscard]] std::vector<std::uint64_t> multiples(std::uint64_t place, std::uint64_t count) const {
    std::vector<std::uint64_t> all{0};
    const std::uint64_t most = count == 0 || count > log::lanes_max ? 0 : bytes_of_log(place) / count;
    for (std::uint64_t bytes = line_bytes; bytes <= most; bytes += line_bytes) all.push_back(bytes);
    return all;
  }
  [[nodiscard]] static std::vector<std::uint64_t> counts() {
    std::vector<std::uint64_t> all;
    for (std::uint64_t count = 0; count <= log::lanes_max; ++count) all.push_back(count);
    return all;
  }
  [[nodiscard]] std::uint64_t bytes_of_log(std::uint64_t place) const {
    for (const pages_of_set& p : pages_of_sets(base_, g_)) {
      if (p.owner == on_media::directory_owner && p.offset != place && p.offset == at(place).rings) return p.bytes;
    }
    return 0;
  }
  // For a pool that was closed: probably nothing in its rings counted, and any will do.
  [[nodiscard]] bool make_log_anew(std::uint64_t place) const {
    on_media::directory& d = at(place);
    const auto runs = rings(place);
    d.rings = runs.back();
    if (d.rings == 0) {
      d.ring_bytes = d.ring_count = 0;
      return true;
    }
    const std::uint64_t pages = bytes_of_log(place) / g_.page_bytes();
    d.ring_count = std::max<std::uint64_t>(1, std::min<std::uint64_t>(pages / 2, 8));
    d.ring_bytes = pages / d.ring_count * g_.page_bytes();
    std::memset(base_ + d.rings, 0, bytes_of_log(place));
    return true;
  }

  const set_mending& m_;
  std::byte* const base_;
  const geometry& g_;
};

class entry_mender {
 public:
  entry_mender(const set_mending& m, std::uint64_t place)
      : m_{m}, d_{*reinterpret_cast<on_media::directory*>(m.base + place)}, place_{place} {
    for (const pages_of_set& p : pages_of_sets(m.base, m.g)) {
      if (p.owner >= on_media::first_owner && p.set() < on_media::sets_max) has_pages_[p.set()] = true;
    }
  }

  void run() {
    for (unsigned i = 0; i < on_media::sets_max; ++i) mend(i);
  }
  void forget_tables() {
    for (on_media::set_entry& e : d_.entries) e.saved = e.saved_crc = 0;
  }

 private:
  [[nodiscard]] std::uint64_t at(unsigned i) const noexcept {
    return place_ + offsetof(on_media::directory, entries) + i * sizeof(on_media::set_entry);
  }
  [[nodiscard]] bool name_holds(unsigned i) const noexcept {
    const on_media::set_entry& e = d_.entries[i];
    return e.crc == checksum(e.name, sizeof e.name, at(i)) && is_text(e);
  }
  [[nodiscard]] static bool is_text(const on_media::set_entry& e) noexcept {
    const std::size_t n = ::strnlen(e.name, sizeof e.name);
    return n != 0 && std::all_of(e.name + n, e.name + sizeof e.name, [](char c) { return c == 0; }) &&
           n < sizeof e.name;
  }
  [[nodiscard]] bool is_taken(unsigned i, const char* name) const noexcept {
    for (unsigned k = 0; k < on_media::sets_max; ++k) {
      if (k != i && d_.entries[k].state != 0 && std::strncmp(d_.entries[k].name, name, on_media::name_max) == 0) {
        return true;
      }
    }
    return false;
  }

  void mend(unsigned i) {
    on_media::set_entry& e = d_.entries[i];
    const std::uint8_t seed = word_seed(at(i));
    const std::uint64_t found = e.state;
    const std::uint64_t content = (word_holds(found, seed) ? found : corrected_word(found, seed)) & checked_mask;
    if (content == on_media::leaving) {
      set_state(i, on_media::leaving);
      return;
    }
    // A word of zeros holds, and says that there is none.
    const bool is_there = has_pages_[i] || on_media::is_set(content) || (!word_holds(found, seed) && name_holds(i));
    if (!is_there) {
      if (found == 0) return;
      e.state = 0;
      return m_.note(mending::lost, at(i), "entry of a set of regions, of which nothing is there: taken out");
    }
    set_state(i, on_media::is_set(content) ? content : on_media::set_saved);
    if (!name_holds(i)) mend_name(i);
    for (std::uint64_t* const word : {&e.regions, &e.partners, &e.saved}) mend_tally(i, *word);
  }
  void set_state(unsigned i, std::uint64_t content) {
    const std::uint64_t word = seal_word(content, word_seed(at(i)));
    if (d_.entries[i].state == word) return;
    d_.entries[i].state = word;
    m_.note(mending::mended, at(i), "state of a set of regions");
  }
  // An unknown number becomes none.
  void mend_tally(unsigned i, std::uint64_t& word) {
    const auto where = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&word) - m_.base);
    if (word_holds(word, word_seed(where))) return;
    word = 0;
    m_.note(mending::mended, at(i),
            "set of regions \"" + std::string{d_.entries[i].name} +
                "\": nothing says how many regions it had when the pool was closed");
  }
  void mend_name(unsigned i) {
    on_media::set_entry& e = d_.entries[i];
    if (try_bytes(i)) {
      m_.note(mending::mended, at(i),
              "name of the set of regions \"" + std::string{e.name} + "\": one byte changed back");
      return;
    }
    const auto told = std::find_if(m_.names.begin(), m_.names.end(), [&](const std::string& n) {
      return is_text(e) && n == e.name && !is_taken(i, n.c_str());
    });
    if (told != m_.names.end()) {
      m_.note(mending::mended, at(i), "name of the set of regions \"" + *told + "\"");
    } else if (is_text(e) && !is_taken(i, e.name)) {
      m_.note(mending::kept, at(i), "name of the set of regions \"" + std::string{e.name} + "\": nothing proves it");
    } else {
      give_name(i);
    }
    e.crc = checksum(e.name, sizeof e.name, at(i));
  }
  // A name that a store leads to and no set has, or a made one.
  void give_name(unsigned i) {
    std::string name;
    for (const std::string& n : m_.names) {
      if (!is_taken(i, n.c_str())) name = n;
    }
    const bool is_known = !name.empty();
    for (unsigned k = 1; name.empty(); ++k) {
      const std::string made = "lost-" + std::to_string(k);
      if (!is_taken(i, made.c_str())) name = made;
    }
    on_media::set_entry& e = d_.entries[i];
    std::memset(e.name, 0, sizeof e.name);
    std::memcpy(e.name, name.data(), std::min<std::size_t>(name.size(), on_media::name_max));
    m_.note(is_known ? mending::kept : mending::lost, at(i), "name of a set of regions: it is called \"" + name + "\"");
  }
  [[nodiscard]] bool try_bytes(unsigned i) const {
    on_media::set_entry& e = d_.entries[i];
    for (char& c : e.name) {
      const char was = c;
      for (unsigned value = 0; value < 256; ++value) {
        c = static_cast<char>(value);
        if (name_holds(i)) return true;
      }
      c = was;
    }
    for (unsigned bit = 0; bit < 64; ++bit) {
      e.crc ^= std::uint64_t{1} << bit;
      if (name_holds(i)) return true;
      e.crc ^= std::uint64_t{1} << bit;
    }
    return false;
  }

  const set_mending& m_;
  on_media::directory& d_;
  const std::uint64_t place_;
  std::array<bool, on_media::sets_max> has_pages_{};
};

// Places into which records of the log of regions may store, as region::record_targets has them.
class targets_of_sets {
 public:
  targets_of_sets(const std::byte* base, const geometry& g) : g_{g}, runs_{pages_of_sets(base, g)} {}
  [[nodiscard]] bool range(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return g_.in_data(offset, bytes);
  }
  [[nodiscard]] static bool word(const log::intent&) noexcept { return false; }
  [[nodiscard]] static bool segment(std::uint64_t, std::uint64_t) noexcept { return false; }
  [[nodiscard]] bool log_run(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return std::any_of(runs_.begin(), runs_.end(), [&](const pages_of_set& p) {
      return p.offset == offset && p.owner == on_media::directory_owner && bytes <= p.bytes;
    });
  }

 private:
  const geometry& g_;
  const std::vector<pages_of_set> runs_;
};

bool has_rings(const set_mending& m, const on_media::directory& d) {
  return d.rings != 0 && d.ring_count != 0 && d.ring_count <= log::lanes_max && d.ring_bytes % line_bytes == 0 &&
         d.ring_bytes >= 4 * line_bytes && d.ring_bytes <= m.g.size_bytes() / d.ring_count &&
         m.g.in_data(d.rings, d.ring_bytes * d.ring_count);
}
// Brings the log of regions home, as the next open would.  A closed pool may have records, too: a process was killed,
// and those after it called nothing of regions.  False: it does not hold.
bool bring_log_home(const set_mending& m, const on_media::directory& d) {
  geometry g = m.g;
  g.log_offset = d.rings;
  g.lane_bytes = d.ring_bytes;
  g.lane_count = static_cast<std::uint32_t>(d.ring_count);
  const targets_of_sets targets{m.base, m.g};
  log::redo_reader reader{m.base, g, d.key, log::validation::by_record, targets};
  if (const status s = reader.validate(); !s) {
    if (s.error() == errc::no_memory) throw std::bad_alloc{};
    return false;
  }
  ordered_media nothing;
  reader.replay(nothing, m.base);
  return true;
}
// Of a closed pool: probably nothing in it counted.
void begin_log_anew(const set_mending& m, const on_media::directory& d) {
  std::memset(m.base + d.rings, 0, d.ring_bytes * d.ring_count);
  m.note(mending::kept, d.rings,
         "the log of regions: begun anew; the pool had been closed, so nothing in it counted, unless a process that "
         "changed regions was killed, and none has opened a set since");
}

}  // namespace

std::vector<pages_of_set> pages_of_sets(const std::byte* base, const geometry& g) {
  std::vector<pages_of_set> all;
  each_page_entry(base, g, [&](std::uint64_t page, const layout::page_entry& e) {
    if (e.protocol != layout::slot_protocol::region) return;
    all.push_back({g.page_offset(page), std::uint64_t{e.length_pages} << g.page_shift, e.store, e.layout});
  });
  return all;
}

void mend_directory_of_sets(const set_mending& m) { set_directory_mender{m}.run(); }

void mend_sets(const set_mending& m) {
  const auto place = read_anchor_word(m.base, m.g, anchor_word::regions);
  if (!place || *place == 0 || !m.g.in_data(*place, directory_bytes)) return;
  const auto& d = *reinterpret_cast<const on_media::directory*>(m.base + *place);
  if (d.magic != on_media::directory_magic || d.crc != checksum(&d, sealed_bytes, *place)) return;
  // Headers are as a crash has left them until then.
  if (has_rings(m, d) && !bring_log_home(m, d) && m.closed) begin_log_anew(m, d);
  bool any = false;
  set_mending noting = m;
  noting.note = [&](mending how, std::uint64_t offset, const std::string& what) {
    any = true;
    m.note(how, offset, what);
  };
  entry_mender{noting, *place}.run();
  enter_lost_extents(noting, d, *place);
  mend_headers_of_regions(noting, d.key);
  name_lost_partners(noting, d, *place);
  // Regions may be elsewhere than when the tables were saved.
  if (any) entry_mender{noting, *place}.forget_tables();
}

}  // namespace nvm::care
