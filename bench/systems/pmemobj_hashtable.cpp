// A cuckoo hash table over libpmemobj: buckets of four entries, one line each; every key in one of two buckets, chosen
// by DJB2 and by Jenkins's function.  As in the example an entry holds both hashes, and the item it leads to key and
// value, of any size.
extern "C" {
#include "hashtable/hashes.h"
}

#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "systems/pmemobj_tables.hpp"

namespace nvm::bench {
namespace {

constexpr unsigned bucket_entries = 4;
constexpr std::uint64_t buckets_at_first = 64;
constexpr std::size_t path_search_max = 512;  // buckets looked at for a free entry, before the table grows

struct item {
  std::uint64_t key_size, size;
  unsigned char bytes[];  // the key, then at the next multiple of 8 the value
};
unsigned char* value_of(item* i) { return i->bytes + (i->key_size + 7) / 8 * 8; }

struct hashes {
  std::uint32_t first, second;
  bool operator==(const hashes&) const = default;
};
struct entry {
  hashes hash;
  std::uint64_t item;  // offset; 0: free
};
struct bucket {
  entry entries[bucket_entries];
};
static_assert(sizeof(bucket) == 64);

struct root {
  std::uint64_t buckets;  // offset of the array
  std::uint64_t count;    // power of two
};

hashes hashes_of(const unsigned char* key, std::size_t size) { return {djb2(key, size), jenkins(key, size)}; }

// A bucket array, on media or just being made, and its search for room.
class buckets {
 public:
  buckets(bucket* array, std::uint64_t count) : array_(array), mask_(count - 1) {}

  bucket& first(hashes h) const { return array_[h.first & mask_]; }
  bucket& second(hashes h) const { return array_[h.second & mask_]; }

  // The entry that `is` accepts among those with these hashes.
  template <class Is>
  entry* find(hashes h, Is&& is) const {
    bucket& other = second(h);
    __builtin_prefetch(&other);
    if (entry* e = find_in(first(h), h, is); e != nullptr) return e;
    return find_in(other, h, is);
  }

  // A free entry for a key, without moving any other.
  entry* room_for(hashes h) const {
    if (entry* e = free_in(first(h)); e != nullptr) return e;
    return free_in(second(h));
  }

  // Entries to move so that the first of the path becomes free: each but the last goes into the place after it. Empty:
  // none found. Breadth first, so the shortest.
  std::vector<entry*> path_to_room(hashes h) const {
    struct step {
      bucket* b;
      int parent;     // index into steps, -1: one of the key's own buckets
      unsigned slot;  // of the parent's bucket, whose entry may move here
    };
    std::vector<step> steps{{&first(h), -1, 0}, {&second(h), -1, 0}};
    for (std::size_t at = 0; at < steps.size(); ++at) {
      bucket* const b = steps[at].b;
      if (entry* free = free_in(*b); free != nullptr) {
        std::vector<entry*> path{free};
        for (int i = static_cast<int>(at); steps[i].parent >= 0; i = steps[i].parent)
          path.insert(path.begin(), &steps[steps[i].parent].b->entries[steps[i].slot]);
        return path;
      }
      for (unsigned slot = 0; slot < bucket_entries && steps.size() < path_search_max; ++slot) {
        const hashes moved = b->entries[slot].hash;
        bucket* const other = &first(moved) == b ? &second(moved) : &first(moved);
        if (other != b) steps.push_back({other, static_cast<int>(at), slot});
      }
    }
    return {};
  }

 private:
  template <class Is>
  static entry* find_in(bucket& b, hashes h, Is&& is) {
    for (entry& e : b.entries)
      if (e.hash == h && e.item != 0 && is(e)) return &e;
    return nullptr;
  }

  static entry* free_in(bucket& b) {
    for (entry& e : b.entries)
      if (e.item == 0) return &e;
    return nullptr;
  }

  bucket* array_;
  std::uint64_t mask_;
};

class hashtable final : public table {
 public:
  hashtable(pmemobj_heap& heap, update_by how)
      : heap_(heap), how_(how), root_(static_cast<root*>(heap.fixed(sizeof(root)))) {
    heap_.begin();
    heap_.log(root_, sizeof *root_);
    root_->buckets = heap_.offset_of(make_array(buckets_at_first));
    root_->count = buckets_at_first;
    heap_.commit();
  }

  void put(std::uint64_t key, const void* bytes, std::size_t size) override {
    put_bytes(&key, sizeof key, bytes, size);
  }
  const void* get(std::uint64_t key, std::size_t* size) override { return get_bytes(&key, sizeof key, size); }

 private:
  void put_bytes(const void* key, std::size_t key_size, const void* bytes, std::size_t size) {
    const hashes h = hashes_of(static_cast<const unsigned char*>(key), key_size);
    heap_.begin();
    if (entry* known = find(h, key, key_size); known != nullptr) {
      update(known, key, key_size, bytes, size);
    } else if (entry* room = all().room_for(h); room != nullptr) {
      heap_.log(room, sizeof *room);
      *room = {h, make_item(key, key_size, bytes, size)};
    } else {
      std::vector<entry*> path;
      while ((path = all().path_to_room(h)).empty()) grow();
      for (entry* e : path) heap_.log(e, sizeof *e);
      for (std::size_t i = path.size() - 1; i > 0; --i) *path[i] = *path[i - 1];
      *path[0] = {h, make_item(key, key_size, bytes, size)};
    }
    heap_.commit();
  }
  const void* get_bytes(const void* key, std::size_t key_size, std::size_t* size) const {
    const entry* found = find(hashes_of(static_cast<const unsigned char*>(key), key_size), key, key_size);
    if (found == nullptr) return nullptr;
    item* const i = item_of(*found);
    *size = i->size;
    return value_of(i);
  }

  item* item_of(const entry& e) const { return static_cast<item*>(heap_.at(e.item)); }
  entry* find(hashes h, const void* key, std::size_t key_size) const {
    return all().find(h, [&](const entry& e) {
      const item* const i = item_of(e);
      return i->key_size == key_size && std::memcmp(i->bytes, key, key_size) == 0;
    });
  }
  std::uint64_t make_item(const void* key, std::size_t key_size, const void* bytes, std::size_t size) {
    auto* i = static_cast<item*>(heap_.alloc(sizeof(item) + (key_size + 7) / 8 * 8 + size));
    i->key_size = key_size;
    i->size = size;
    std::memcpy(i->bytes, key, key_size);
    std::memcpy(value_of(i), bytes, size);
    return heap_.offset_of(i);
  }
  void update(entry* known, const void* key, std::size_t key_size, const void* bytes, std::size_t size) {
    item* const old = item_of(*known);
    if (how_ == update_by::overwriting && old->size == size) {
      heap_.log(value_of(old), size);
      std::memcpy(value_of(old), bytes, size);
      return;
    }
    heap_.log(&known->item, sizeof known->item);
    const std::uint64_t fresh = make_item(key, key_size, bytes, size);
    heap_.free(old);
    known->item = fresh;
  }

  buckets all() const { return {static_cast<bucket*>(heap_.at(root_->buckets)), root_->count}; }

  bucket* make_array(std::uint64_t count) {
    void* array = heap_.alloc(count * sizeof(bucket));
    std::memset(array, 0, count * sizeof(bucket));
    return static_cast<bucket*>(array);
  }

  // Into an array twice as large, in the caller's transaction; the new one is fresh memory and needs no snapshot.
  // Should a key find no room even there, it is doubled again.
  void grow() {
    const auto* old = static_cast<const bucket*>(heap_.at(root_->buckets));
    for (std::uint64_t count = root_->count * 2;; count *= 2) {
      bucket* const array = make_array(count);
      if (!fill(buckets(array, count), old, root_->count)) {
        heap_.free(array);
        continue;
      }
      heap_.free(heap_.at(root_->buckets));
      heap_.log(root_, sizeof *root_);
      root_->buckets = heap_.offset_of(array);
      root_->count = count;
      return;
    }
  }
  static bool fill(const buckets& to, const bucket* from, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i)
      for (const entry& e : from[i].entries) {
        if (e.item == 0) continue;
        if (entry* room = to.room_for(e.hash); room != nullptr) {
          *room = e;
          continue;
        }
        const std::vector<entry*> path = to.path_to_room(e.hash);
        if (path.empty()) return false;
        for (std::size_t k = path.size() - 1; k > 0; --k) *path[k] = *path[k - 1];
        *path[0] = e;
      }
    return true;
  }

  pmemobj_heap& heap_;
  update_by how_;
  root* root_;
};

}  // namespace

std::unique_ptr<table> make_pmemobj_hashtable(pmemobj_heap& heap, update_by how) {
  return std::make_unique<hashtable>(heap, how);
}

}  // namespace nvm::bench
