#include "tier/page_file.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <iterator>
#include <new>

namespace nvm::tier {
namespace {

using layout::page_coding;
using layout::page_file_unit;
using layout::page_place;
using layout::page_word;
using layout::unpack_place;

// Mark of a word in memory that the file's word differs from in an unknown way.
constexpr std::uint64_t stale_place = ~std::uint64_t{0};
constexpr std::uint64_t state_offset = sector_bytes;
constexpr std::uint64_t words_start = page_file::page_bytes_max;
constexpr std::uint64_t slots_bytes = page_file::batch_max * page_file::page_bytes_max;

std::uint64_t slots_start(std::uint64_t pages) noexcept {
  return round_up(words_start + pages * sizeof(page_word), page_file::page_bytes_max);
}

template <class Sector>
std::uint64_t crc_of(const Sector& s) noexcept {
  return checksum(&s, offsetof(Sector, crc), s.magic);
}

std::uint64_t check_of(const page_word& w, std::uint64_t seed) noexcept {
  return checksum(&w, offsetof(page_word, check), seed);
}

struct uuid_text {
  explicit uuid_text(const std::uint8_t* uuid) noexcept {
    for (unsigned i = 0; i < 16; ++i) std::snprintf(text + 2 * i, 3, "%02x", uuid[i]);
  }
  char text[33];
};

bool all_zero(const std::byte* bytes, std::size_t n) noexcept {
  return bytes[0] == std::byte{0} && std::memcmp(bytes, bytes + 1, n - 1) == 0;
}

status check_header(const layout::page_file_header& h, const page_file_identity& who, std::uint64_t bytes) noexcept {
  if (h.magic != layout::page_file_magic) {
    return fail(errc::not_a_pool, "magic: found %016" PRIx64 ", expected %016" PRIx64 ": it is no second file", h.magic,
                layout::page_file_magic);
  }
  if (const std::uint64_t expected = crc_of(h); h.crc != expected) {
    return fail(errc::corrupt, "header: crc: found %016" PRIx64 ", expected %016" PRIx64, h.crc, expected);
  }
  if (h.version == 0 || h.version > layout::page_file_version) {
    return fail(errc::version, "version: found %u, expected 1 .. %u; a newer library made it", h.version,
                layout::page_file_version);
  }
  if (std::memcmp(h.pool_uuid, who.pool_uuid, sizeof h.pool_uuid) != 0) {
    return fail(errc::corrupt, "it is that of another pool: found uuid %s, expected %s", uuid_text{h.pool_uuid}.text,
                uuid_text{who.pool_uuid}.text);
  }
  if (std::memcmp(h.uuid, who.uuid, sizeof h.uuid) != 0) {
    return fail(errc::corrupt, "it is another second file of this pool: found uuid %s, expected %s",
                uuid_text{h.uuid}.text, uuid_text{who.uuid}.text);
  }
  if (h.page_bytes != who.page_bytes || h.pages != who.pages) {
    return fail(errc::corrupt, "found %" PRIu64 " pages of %u bytes, expected %" PRIu64 " of %" PRIu64, h.pages,
                h.page_bytes, who.pages, who.page_bytes);
  }
  if (h.words_offset != words_start || h.slots_offset != slots_start(h.pages)) {
    return fail(errc::corrupt, "places: found %" PRIu64 " and %" PRIu64 ", expected %" PRIu64 " and %" PRIu64,
                h.words_offset, h.slots_offset, words_start, slots_start(h.pages));
  }
  if (bytes < h.slots_offset) {
    return fail(errc::corrupt, "it was cut off: found %" PRIu64 " bytes, expected at least %" PRIu64, bytes,
                h.slots_offset);
  }
  return {};
}

}  // namespace

page_file::page_file(block_device& device, const page_file_identity& who) noexcept
    : device_{device},
      who_{who},
      key_{checksum(who.uuid, sizeof who.uuid, layout::page_file_magic)},
      words_offset_{words_start},
      slots_offset_{slots_start(who.pages)},
      words_{who.pages * sizeof(page_word)},
      batch_{slots_bytes},
      slots_{slots_bytes} {}

status page_file::format(block_device& device, const page_file_identity& who, std::uint64_t created_unix_s) noexcept {
  layout::page_file_header h{};
  h.magic = layout::page_file_magic;
  h.version = layout::page_file_version;
  h.page_bytes = static_cast<std::uint32_t>(who.page_bytes);
  std::memcpy(h.pool_uuid, who.pool_uuid, sizeof h.pool_uuid);
  std::memcpy(h.uuid, who.uuid, sizeof h.uuid);
  h.pages = who.pages;
  h.words_offset = words_start;
  h.slots_offset = slots_start(who.pages);
  h.created_unix_s = created_unix_s;
  h.crc = crc_of(h);
  layout::page_file_state state{};
  state.magic = layout::page_file_state_magic;
  state.crc = crc_of(state);
  // The words between are in a hole or on a new device: they were never written.
  const std::byte last[sector_bytes]{};
  if (status s = device.write(h.slots_offset - sizeof last, last, sizeof last); !s) return s;
  if (status s = device.write(0, &h, sizeof h); !s) return s;
  if (status s = device.write(state_offset, &state, sizeof state); !s) return s;
  return device.sync(edge{"tier/E1"});
}

result<std::uint64_t> page_file::facts_of(block_device& device, const page_file_identity& who) noexcept {
  const auto bytes = device.size();
  if (!bytes) return bytes.error();
  layout::page_file_header h;
  layout::page_file_state state;
  if (*bytes < sizeof h + sizeof state) {
    return fail(errc::corrupt, "it was cut off: found %" PRIu64 " bytes, expected at least %" PRIu64, *bytes,
                slots_start(who.pages));
  }
  if (status s = device.read(0, &h, sizeof h); !s) return s.error();
  if (status s = check_header(h, who, *bytes); !s) return s.error();
  if (status s = device.read(state_offset, &state, sizeof state); !s) return s.error();
  if (const std::uint64_t expected = crc_of(state);
      state.magic != layout::page_file_state_magic || state.crc != expected) {
    return fail(errc::corrupt,
                "state at offset %" PRIu64 ": found %016" PRIx64 ", crc %016" PRIx64 ", expected %016" PRIx64
                ", crc %016" PRIx64,
                state_offset, state.magic, state.crc, layout::page_file_state_magic, expected);
  }
  return state.sequence;
}

result<std::uint64_t> page_file::count_not_zeros(block_device& device, std::uint64_t first,
                                                 std::uint64_t count) noexcept {
  std::uint64_t found = 0;
  page_word some[64];
  for (const std::uint64_t end = first + count; first < end;) {
    const std::uint64_t n = std::min(std::uint64_t{std::size(some)}, end - first);
    if (status s = device.read(words_start + first * sizeof(page_word), some, n * sizeof(page_word)); !s) {
      return s.error();
    }
    found += static_cast<std::uint64_t>(std::count_if(some, some + n, [](const auto& w) { return !is_zeros(w); }));
    first += n;
  }
  return found;
}

result<std::unique_ptr<page_file>> page_file::open(block_device& device, const page_file_identity& who,
                                                   std::uint64_t sequence) noexcept {
  const auto found = facts_of(device, who);
  if (!found) return found.error();
  if (*found < sequence) {
    return fail(errc::corrupt, "it is older than the pool: found %" PRIu64 " batches, expected %" PRIu64, *found,
                sequence);
  }
  if (*found > sequence + 1) {
    return fail(errc::corrupt, "it is newer than the pool: found %" PRIu64 " batches, expected %" PRIu64 " or one more",
                *found, sequence);
  }
  std::unique_ptr<page_file> made{new (std::nothrow) page_file{device, who}};
  if (made == nullptr || made->words_.data() == nullptr || made->batch_.data() == nullptr ||
      made->slots_.data() == nullptr) {
    return fail(errc::no_memory, "no volatile memory for the books of a second file");
  }
  // The number of an unfinished batch is used again.
  made->sequence_ = sequence;
  return made;
}

// ---- words ----

status page_file::check_word(page_t page, const page_word& w, std::uint64_t file_bytes) const noexcept {
  const auto refuse = [page](const char* what, std::uint64_t found, std::uint64_t expected) {
    return fail(errc::corrupt, "word of page %u: %s: found %" PRIx64 ", expected %" PRIx64, page, what, found,
                expected);
  };
  if (const std::uint64_t expected = check_of(w, seed_of(page)); w.check != expected) {
    return refuse("check", w.check, expected);
  }
  const page_place p = unpack_place(w.place);
  if (p.coding == page_coding::none || p.coding > layout::last_page_coding) {
    return refuse("coding, at most", static_cast<std::uint64_t>(p.coding),
                  static_cast<std::uint64_t>(layout::last_page_coding));
  }
  if (w.sequence > sequence_) return refuse("batch, at most", w.sequence, sequence_);
  if (p.coding == page_coding::zeros) return p.bytes == 0 && p.unit == 0 ? status{} : refuse("zeros at", w.place, 0);
  if (p.bytes == 0 || p.bytes > who_.page_bytes) return refuse("bytes, at most", p.bytes, who_.page_bytes);
  if (p.coding == page_coding::plain && p.bytes != who_.page_bytes) return refuse("bytes", p.bytes, who_.page_bytes);
  if (const std::uint64_t end = slots_offset_ + p.unit * page_file_unit + p.bytes; end > file_bytes) {
    return fail(errc::corrupt,
                "it was cut off: found %" PRIu64 " bytes, expected at least %" PRIu64 ", where page %u ends",
                file_bytes, end, page);
  }
  return {};
}

status page_file::take_words(std::uint64_t first, std::uint64_t count) noexcept {
  const auto bytes = device_.size();
  if (!bytes) return bytes.error();
  constexpr std::uint64_t together = 1024;
  page_word* const to = words();
  for (std::uint64_t page = first; page < first + count;) {
    const std::uint64_t n = std::min(together, first + count - page);
    if (status s = device_.read(word_at(page), to + page, n * sizeof(page_word)); !s) return s;
    for (std::uint64_t i = page; i < page + n; ++i) {
      if (all_zero(reinterpret_cast<const std::byte*>(to + i), sizeof(page_word))) continue;
      if (status s = check_word(static_cast<page_t>(i), to[i], *bytes); !s) return s;
      const page_place p = unpack_place(to[i].place);
      if (status s = make_sure_of_codec(p.coding); !s) return s;
      if (p.units() == 0 || units_.take_these(p.unit, p.units())) continue;
      return fail(errc::corrupt, "word of page %" PRIu64 ": unit %" PRIu64 ": found it in use by another page", i,
                  p.unit);
    }
    page += n;
  }
  return {};
}

void page_file::take_present(std::uint64_t first, std::uint64_t count) noexcept {
  for (std::uint64_t page = first; page < first + count; ++page) make_stale(static_cast<page_t>(page));
}

std::uint64_t page_file::units_of(const page_word& w) noexcept {
  const page_place p = unpack_place(w.place);
  return p.coding <= layout::last_page_coding ? p.units() : 0;
}

void page_file::give_units(const page_word& w) noexcept {
  if (const std::uint64_t n = units_of(w); n != 0) units_.give(unpack_place(w.place).unit, n);
}

void page_file::make_stale(page_t page) noexcept {
  words()[page] = {};
  words()[page].place = stale_place;
}

void page_file::keep(const leaving_page& page) noexcept {
  page_word& w = words()[page.page];
  give_units(w);
  w = page.word;
}

void page_file::drop(const leaving_page& page) noexcept {
  give_units(page.word);
  make_stale(page.page);
}

void page_file::forget(page_t page) noexcept {
  const page_word& w = word(page);
  // The file has zeros there, if anything, and keeps them.
  if (is_zeros(w)) return;
  give_units(w);
  make_stale(page);
}

// ---- writing ----

status page_file::compress_by(page_coding coding) noexcept {
  if (coding == page_coding::plain) {
    out_.reset();
  } else {
    if (status s = make_sure_of_codec(coding); !s) return s;
    auto made = make_codec(coding);
    if (!made) return made.error();
    out_ = std::move(*made);
  }
  coding_ = coding;
  return {};
}

// Compresses pages into the batch, each from the beginning of a unit, the rest of its last unit zero. The words have no
// units yet.
void page_file::compress(std::span<leaving_page> pages) noexcept {
  auto* const batch = static_cast<std::byte*>(batch_.data());
  std::uint64_t at = 0;
  for (leaving_page& p : pages) {
    p.word = {};
    if (all_zero(p.bytes, who_.page_bytes)) {
      p.word.place = pack(page_place{0, 0, page_coding::zeros});
      continue;
    }
    page_place place{0, who_.page_bytes, page_coding::plain};
    // Compression has to save a unit.
    const std::size_t most = who_.page_bytes - page_file_unit;
    if (const std::size_t n = out_ == nullptr ? 0 : out_->compress({p.bytes, who_.page_bytes}, {batch + at, most});
        n != 0) {
      place.bytes = n;
      place.coding = coding_;
    } else {
      std::memcpy(batch + at, p.bytes, who_.page_bytes);
    }
    const std::uint64_t end = at + place.units() * page_file_unit;
    std::memset(batch + at + place.bytes, 0, end - at - place.bytes);
    at = end;
    p.word.place = pack(place);
    p.word.sum = checksum(p.bytes, who_.page_bytes, seed_of(p.page));
  }
}

// Takes one free piece if there is one, so that the batch is one write and neighbours can be read at once.
bool page_file::take_units(std::span<leaving_page> pages) noexcept {
  std::uint64_t all = 0;
  for (const leaving_page& p : pages) all += unpack_place(p.word.place).units();
  std::uint64_t at = all == 0 ? 0 : units_.take(all, layout::page_file_units_max);
  const bool one_piece = at != unit_map::none;
  for (leaving_page& p : pages) {
    page_place place = unpack_place(p.word.place);
    if (place.units() == 0) continue;
    place.unit = one_piece ? at : units_.take(place.units(), layout::page_file_units_max);
    if (place.unit == unit_map::none) {
      for (leaving_page& q : pages) {
        if (&q == &p) break;
        give_units(q.word);
      }
      return false;
    }
    at += one_piece ? place.units() : 0;
    p.word.place = pack(place);
  }
  return true;
}

void page_file::seal(leaving_page& p) noexcept {
  p.word.sequence = sequence_ + 1;
  p.word.check = check_of(p.word, seed_of(p.page));
}

status page_file::write_slots(std::span<leaving_page> pages) noexcept {
  const auto* const batch = static_cast<const std::byte*>(batch_.data());
  std::uint64_t from = 0;   // in the batch
  std::uint64_t units = 0;  // written at once
  std::uint64_t unit = 0;   // where
  const auto write = [&]() noexcept -> status {
    if (units == 0) return {};
    const std::uint64_t n = units * page_file_unit;
    written_.fetch_add(n, std::memory_order_relaxed);
    if (status s = device_.write(slots_offset_ + unit * page_file_unit, batch + from, n); !s) return s;
    from += n;
    return {};
  };
  for (const leaving_page& p : pages) {
    const page_place place = unpack_place(p.word.place);
    if (place.units() == 0) continue;
    if (units != 0 && place.unit == unit + units) {
      units += place.units();
      continue;
    }
    if (status s = write(); !s) return s;
    unit = place.unit;
    units = place.units();
  }
  return write();
}

status page_file::write_words(std::span<leaving_page> pages) noexcept {
  page_word run[batch_max];
  for (std::size_t i = 0; i < pages.size();) {
    std::size_t n = 0;
    do {
      seal(pages[i + n]);
      run[n] = pages[i + n].word;
      ++n;
    } while (i + n < pages.size() && pages[i + n].page == pages[i].page + n);
    written_.fetch_add(n * sizeof(page_word), std::memory_order_relaxed);
    if (status s = device_.write(word_at(pages[i].page), run, n * sizeof(page_word)); !s) return s;
    i += n;
  }
  return {};
}

status page_file::write_batch(std::span<leaving_page> pages) noexcept {
  if (status s = write_slots(pages); !s) return s;
  if (status s = write_words(pages); !s) return s;
  layout::page_file_state state{};
  state.magic = layout::page_file_state_magic;
  state.sequence = sequence_ + 1;
  state.crc = crc_of(state);
  written_.fetch_add(sizeof state, std::memory_order_relaxed);
  if (status s = device_.write(state_offset, &state, sizeof state); !s) return s;
  syncs_.fetch_add(1, std::memory_order_relaxed);
  return device_.sync(edge{"tier/E2"});
}

// ---- reading ----

// For read(), before it needs it.
status page_file::make_sure_of_codec(page_coding coding) noexcept {
  if (coding != page_coding::lz4 && coding != page_coding::zstd) return {};
  auto& of = codec_of(coding);
  if (of != nullptr) return {};
  auto made = make_codec(coding);
  if (!made) return made.error();
  of = std::move(*made);
  return {};
}

status page_file::expand(page_t page, const std::byte* slot, std::byte* to) noexcept {
  const page_word& w = word(page);
  const page_place p = unpack_place(w.place);
  const std::uint64_t at = slots_offset_ + p.unit * page_file_unit;
  if (p.coding == page_coding::plain) {
    std::memcpy(to, slot, who_.page_bytes);
  } else {
    const auto& with = codec_of(p.coding);
    NVM_ASSERT(with != nullptr);
    if (!with->expand({slot, p.bytes}, {to, who_.page_bytes})) {
      return fail(errc::corrupt,
                  "page %u at offset %" PRIu64 ": found %" PRIu64 " bytes that do not expand to a page of %" PRIu64,
                  page, at, p.bytes, who_.page_bytes);
    }
  }
  if (const std::uint64_t found = checksum(to, who_.page_bytes, seed_of(page)); found != w.sum) {
    return fail(errc::corrupt, "page %u at offset %" PRIu64 ": sum: found %016" PRIx64 ", expected %016" PRIx64, page,
                at, found, w.sum);
  }
  return {};
}

result<unsigned> page_file::read_ahead(page_t first, unsigned count, std::byte* to) noexcept {
  NVM_ASSERT(count != 0 && count <= batch_max);
  if (is_zeros(first)) {
    std::memset(to, 0, who_.page_bytes);
    return 1U;
  }
  unsigned n = 0;
  while (n < count && units_of(word(first + n)) != 0) {
    const auto more = read_run(first + n, count - n, to + n * who_.page_bytes);
    // A failure of pages that were only read ahead is reported when they are asked for.
    if (!more) return n == 0 ? more.error() : result<unsigned>{n};
    n += *more;
  }
  return n;
}

// Reads as many pages as lie one after the other.
result<unsigned> page_file::read_run(page_t first, unsigned count, std::byte* to) noexcept {
  const page_place start = unpack_place(word(first).place);
  std::uint64_t units = start.units();
  unsigned n = 1;
  for (; n < count; ++n) {
    const std::uint64_t more = units_of(word(first + n));
    if (more == 0 || unpack_place(word(first + n).place).unit != start.unit + units) break;
    units += more;
  }
  auto* const slots = static_cast<std::byte*>(slots_.data());
  // Of the last slot the file may have only its units in use.
  const page_place last = unpack_place(word(first + n - 1).place);
  const std::uint64_t bytes = (last.unit - start.unit) * page_file_unit + last.bytes;
  read_.fetch_add(bytes, std::memory_order_relaxed);
  if (status s = device_.read(slots_offset_ + start.unit * page_file_unit, slots, bytes); !s) return s.error();
  for (unsigned i = 0; i < n; ++i) {
    const page_place p = unpack_place(word(first + i).place);
    const status s = expand(first + i, slots + (p.unit - start.unit) * page_file_unit, to + i * who_.page_bytes);
    if (s) continue;
    if (i == 0) return s.error();
    return i;
  }
  return n;
}

status page_file::read(page_t page, std::byte* to) noexcept {
  const auto n = read_ahead(page, 1, to);
  return n ? status{} : status{n.error()};
}

}  // namespace nvm::tier
