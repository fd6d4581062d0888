#include "shared_bytes.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "reports.hpp"

namespace nvm::checked {
namespace {

constexpr std::uint64_t block_bytes = 64;

// Bytes of a block that one transaction has announced at one place.  Entries of one transaction have no byte in common.
struct announced {
  announced* next;  // of the same bucket
  std::uint64_t block;
  std::uint64_t bytes;  // a bit for each
  nvm_turn turn;
  const nvm_site* site;
};

bool same(const nvm_turn& a, const nvm_turn& b) {
  return a.number == b.number && a.pool == b.pool && a.lane == b.lane && a.levels_aborted == b.levels_aborted;
}

// By block.  An entry whose transaction is over, or has rolled a level back since, is dropped by the next that looks at
// its bucket, so the table holds no more than the program announces of different blocks.
class table {
 public:
  // Where another open transaction has announced one of these bytes; nullptr: nowhere.
  const nvm_site* add(std::uint64_t block, std::uint64_t bytes, const nvm_turn& turn, const nvm_site* site) {
    announced** at = bucket_of(block);
    const nvm_site* other = nullptr;
    announced* mine = nullptr;
    while (*at != nullptr) {
      announced& a = **at;
      if (a.block == block && same(a.turn, turn)) {
        bytes &= ~a.bytes;
        if (a.site == site) mine = &a;
      } else if (!goes_on(a)) {
        *at = a.next;
        give_back(&a);
        continue;
      }
      at = &a.next;
    }
    if (bytes == 0) return nullptr;
    for (announced* a = *bucket_of(block); a != nullptr; a = a->next) {
      if (a->block == block && !same(a->turn, turn) && (a->bytes & bytes) != 0) other = a->site;
    }
    if (mine != nullptr) {
      mine->bytes |= bytes;
    } else if (announced* const fresh = take(); fresh != nullptr) {
      announced** const first = bucket_of(block);
      *fresh = {*first, block, bytes, turn, site};
      *first = fresh;
    }
    return other;
  }

 private:
  static constexpr std::size_t buckets = 1 << 16;

  announced** bucket_of(std::uint64_t block) { return &first_[block * 0x9E37'79B9'7F4A'7C15 >> 48]; }
  // Of pools where this thread has no transaction open nothing is known: their entries stay.
  static bool goes_on(const announced& a) {
    const void* const p = reinterpret_cast<const void*>(a.block * block_bytes);
    nvm_turn here;
    return __nvm_tx_turn(p, &here) == 0 || __nvm_tx_goes_on(p, &a.turn) != 0;
  }
  // Without memory nothing is remembered: a report may be missing.
  announced* take() {
    if (announced* const a = free_; a != nullptr) {
      free_ = a->next;
      return a;
    }
    return static_cast<announced*>(std::malloc(sizeof(announced)));
  }
  void give_back(announced* a) {
    a->next = free_;
    free_ = a;
  }

  announced* first_[buckets] = {};
  announced* free_ = nullptr;
};

constinit pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
constinit table all;

}  // namespace

void note_announced(const void* p, std::size_t n, const nvm_site* site) {
  nvm_turn turn;
  if (n == 0 || __nvm_tx_turn(p, &turn) == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t end = begin + n;
  const nvm_site* other = nullptr;
  pthread_mutex_lock(&lock);
  for (std::uint64_t block = begin / block_bytes; block * block_bytes < end; ++block) {
    const std::uint64_t start = block * block_bytes;
    const unsigned from = begin > start ? static_cast<unsigned>(begin - start) : 0;
    const unsigned to = static_cast<unsigned>(std::min<std::uint64_t>(end - start, block_bytes));
    const std::uint64_t bytes = ~std::uint64_t{0} >> (block_bytes - (to - from)) << from;
    const nvm_site* const found = all.add(block, bytes, turn, site);
    if (other == nullptr) other = found;
  }
  pthread_mutex_unlock(&lock);
  if (other == nullptr) return;
  char text[256];
  std::snprintf(text, sizeof text,
                "store of %zu bytes at %p: another open transaction has announced some of them, and either may roll "
                "back the other's",
                n, p);
  found_twice(kind::shared, site, other, text);
}

}  // namespace nvm::checked
