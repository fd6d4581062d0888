// A cuckoo hash table over libpmemobj: buckets of four entries, one line each; every key in one of two buckets, chosen
// by DJB2 and by Jenkins's function.
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

struct entry {
  std::uint64_t key;
  std::uint64_t value;  // offset; 0: free
};
struct bucket {
  entry entries[bucket_entries];
};
static_assert(sizeof(bucket) == 64);

struct root {
  std::uint64_t buckets;  // offset of the array
  std::uint64_t count;    // power of two
};

std::uint64_t first_hash(std::uint64_t key) {
  unsigned char bytes[sizeof key];
  std::memcpy(bytes, &key, sizeof key);
  return djb2(bytes, sizeof bytes);
}
std::uint64_t second_hash(std::uint64_t key) {
  unsigned char bytes[sizeof key];
  std::memcpy(bytes, &key, sizeof key);
  return jenkins(bytes, sizeof bytes);
}

// A bucket array, on media or just being made, and its search for room.
class buckets {
 public:
  buckets(bucket* array, std::uint64_t count) : array_(array), mask_(count - 1) {}

  bucket& first(std::uint64_t key) const { return array_[first_hash(key) & mask_]; }
  bucket& second(std::uint64_t key) const { return array_[second_hash(key) & mask_]; }

  entry* find(std::uint64_t key) const {
    if (entry* e = find_in(first(key), key); e != nullptr) return e;
    return find_in(second(key), key);
  }

  // A free entry for a key, without moving any other.
  entry* room_for(std::uint64_t key) const {
    if (entry* e = free_in(first(key)); e != nullptr) return e;
    return free_in(second(key));
  }

  // Entries to move so that the first of the path becomes free: each but the last goes into the place after it. Empty:
  // none found. Breadth first, so the shortest.
  std::vector<entry*> path_to_room(std::uint64_t key) const {
    struct step {
      bucket* b;
      int parent;     // index into steps, -1: one of the key's own buckets
      unsigned slot;  // of the parent's bucket, whose entry may move here
    };
    std::vector<step> steps{{&first(key), -1, 0}, {&second(key), -1, 0}};
    for (std::size_t at = 0; at < steps.size(); ++at) {
      bucket* const b = steps[at].b;
      if (entry* free = free_in(*b); free != nullptr) {
        std::vector<entry*> path{free};
        for (int i = static_cast<int>(at); steps[i].parent >= 0; i = steps[i].parent)
          path.insert(path.begin(), &steps[steps[i].parent].b->entries[steps[i].slot]);
        return path;
      }
      for (unsigned slot = 0; slot < bucket_entries && steps.size() < path_search_max; ++slot) {
        const std::uint64_t moved = b->entries[slot].key;
        bucket* const other = &first(moved) == b ? &second(moved) : &first(moved);
        if (other != b) steps.push_back({other, static_cast<int>(at), slot});
      }
    }
    return {};
  }

 private:
  static entry* find_in(bucket& b, std::uint64_t key) {
    for (entry& e : b.entries)
      if (e.key == key && e.value != 0) return &e;
    return nullptr;
  }

  static entry* free_in(bucket& b) {
    for (entry& e : b.entries)
      if (e.value == 0) return &e;
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
    heap_.begin();
    if (entry* known = all().find(key); known != nullptr) {
      pmemobj_update_value(heap_, how_, &known->value, bytes, size);
    } else if (entry* room = all().room_for(key); room != nullptr) {
      heap_.log(room, sizeof *room);
      *room = {key, pmemobj_make_value(heap_, bytes, size)};
    } else {
      std::vector<entry*> path;
      while ((path = all().path_to_room(key)).empty()) grow();
      for (entry* e : path) heap_.log(e, sizeof *e);
      for (std::size_t i = path.size() - 1; i > 0; --i) *path[i] = *path[i - 1];
      *path[0] = {key, pmemobj_make_value(heap_, bytes, size)};
    }
    heap_.commit();
  }

  const void* get(std::uint64_t key, std::size_t* size) override {
    const entry* found = all().find(key);
    if (found == nullptr) return nullptr;
    const auto* value = static_cast<const pmemobj_value*>(heap_.at(found->value));
    *size = value->size;
    return value->bytes;
  }

 private:
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
        if (e.value == 0) continue;
        if (entry* room = to.room_for(e.key); room != nullptr) {
          *room = e;
          continue;
        }
        const std::vector<entry*> path = to.path_to_room(e.key);
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
