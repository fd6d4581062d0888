// libFuzzer's door to second files of pools: header, state, words and slots with any bytes.  Without a forged check
// each page has the written bytes or is refused; with one no access leaves the file.
//
// The first byte chooses how pages are coded.  Then edits of 6 bytes each: what (bits 0 to 1: header, state, a word, a
// slot; bit 2: the check around it is made right again), the page or sector, the place in it (2), the value, an unused
// one.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <vector>

#include "door.hpp"
#include "media/memory_device.hpp"
#include "tier/page_file.hpp"

namespace {

using namespace nvm;
using namespace nvm::tier;

constexpr page_t pages = 24;
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t words_at = 4096;
constexpr std::size_t slots_at = 8192;
constexpr std::size_t file_bytes = slots_at + pages * page_bytes;
constexpr std::size_t edit_bytes = 6;

page_file_identity identity() {
  page_file_identity who;
  std::memset(who.pool_uuid, 1, sizeof who.pool_uuid);
  std::memset(who.uuid, 2, sizeof who.uuid);
  who.pages = pages;
  return who;
}

using contents = std::vector<std::vector<std::byte>>;

const contents& originals() {
  static const contents all = [] {
    contents made(pages, std::vector<std::byte>(page_bytes));
    for (page_t page = 0; page < pages; ++page) {
      std::mt19937_64 random{page};
      const std::size_t step = page % 4 == 0 ? 1 : 32;
      for (std::size_t i = 0; page % 4 != 3 && i < page_bytes; i += step) made[page][i] = std::byte(random());
    }
    return made;
  }();
  return all;
}

std::vector<std::byte> image_of(layout::page_coding coding) {
  memory_device device{file_bytes};
  if (!page_file::format(device, identity(), 1)) std::abort();
  auto file = page_file::open(device, identity(), 0);
  // Where the system has no such library, as they are.
  if (!file || (!(*file)->compress_by(coding) && !(*file)->compress_by(layout::page_coding::plain))) std::abort();
  std::vector<leaving_page> leaving;
  for (page_t page = 0; page < pages; ++page) leaving.push_back({page, originals()[page].data(), {}});
  std::mutex lock;
  if (!(*file)->write(leaving, lock)) std::abort();
  return device.content();
}

template <class Sector>
void seal(std::vector<std::byte>& image, std::size_t at) {
  Sector s;
  std::memcpy(&s, image.data() + at, sizeof s);
  s.crc = checksum(&s, offsetof(Sector, crc), s.magic);
  std::memcpy(image.data() + at, &s, sizeof s);
}
void seal_word(std::vector<std::byte>& image, page_t page) {
  const page_file_identity who = identity();
  const std::uint64_t key = checksum(who.uuid, sizeof who.uuid, layout::page_file_magic);
  const std::size_t at = words_at + page * sizeof(layout::page_word);
  layout::page_word w;
  std::memcpy(&w, image.data() + at, sizeof w);
  w.check = checksum(&w, offsetof(layout::page_word, check), mix_seed(key, page));
  std::memcpy(image.data() + at, &w, sizeof w);
}

// Whether a check was forged.
bool apply(std::vector<std::byte>& image, const std::uint8_t* e) {
  const page_t page = e[1] % pages;
  const std::size_t place = e[2] | std::size_t{e[3]} << 8;
  const bool forges = (e[0] & 4) != 0;
  switch (e[0] & 3) {
    case 0:
      image[place % sector_bytes] = std::byte{e[4]};
      if (forges) seal<layout::page_file_header>(image, 0);
      return forges;
    case 1:
      image[sector_bytes + place % sector_bytes] = std::byte{e[4]};
      if (forges) seal<layout::page_file_state>(image, sector_bytes);
      return forges;
    case 2:
      image[words_at + page * sizeof(layout::page_word) + place % sizeof(layout::page_word)] = std::byte{e[4]};
      if (forges) seal_word(image, page);
      return forges;
    default:
      image[slots_at + (page * page_bytes + place % page_bytes) % (file_bytes - slots_at)] = std::byte{e[4]};
      return false;
  }
}

}  // namespace

extern "C" int NVM_FUZZER(tier)(const std::uint8_t* data, std::size_t size);
extern "C" int NVM_FUZZER(tier)(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const std::vector<std::byte> images[] = {
      image_of(layout::page_coding::plain), image_of(layout::page_coding::lz4), image_of(layout::page_coding::zstd)};
  std::vector<std::byte> image = images[data[0] % 3];
  bool forged = false;
  for (std::size_t at = 1; at + edit_bytes <= size; at += edit_bytes) forged = apply(image, data + at) || forged;
  memory_device device{std::move(image)};
  const auto file = page_file::open(device, identity(), 1);
  if (!file) return 0;
  std::vector<std::byte> found(page_file::batch_max * page_bytes);
  for (page_t page = 0; page < pages; ++page) {
    if (!(*file)->take_words(page, 1)) {
      // What is not taken is not read.
      (*file)->take_present(page, 1);
      continue;
    }
    const auto n = (*file)->read_ahead(page, 1, found.data());
    if (n && !forged && std::memcmp(found.data(), originals()[page].data(), page_bytes) != 0) std::abort();
  }
  // Whatever was taken, pages can go on leaving.
  std::vector<leaving_page> leaving;
  for (page_t page = 0; page < pages; page += 2) leaving.push_back({page, originals()[page].data(), {}});
  std::mutex lock;
  if ((*file)->write(leaving, lock)) {
    for (const leaving_page& p : leaving) (*file)->keep(p);
    for (const leaving_page& p : leaving) {
      if (!(*file)->read(p.page, found.data())) std::abort();
      if (std::memcmp(found.data(), originals()[p.page].data(), page_bytes) != 0) std::abort();
    }
  }
  return 0;
}
