#include "systems/pmemobj_tables.hpp"

namespace nvm::bench {
namespace {

table_kind kind(const char* structure, const char* system, update_by how,
                std::unique_ptr<table> (*make)(pmemobj_heap&, update_by)) {
  return {system, role::peer, structure, [=](const table_settings& settings) {
            // Beside the value: its header, the allocator's, an entry, and room of a structure that has just grown.
            const std::uint64_t bytes = settings.records * (settings.value_bytes + 256);
            auto heap = std::make_shared<pmemobj_heap>(heap_settings{settings.directory, bytes});
            table_set set;
            set.heap = heap;
            for (unsigned i = 0; i < settings.shards; ++i) set.shards.push_back(make(*heap, how));
            set.bytes_logged = [h = heap.get()] { return h->bytes_logged(); };
            return set;
          }};
}

}  // namespace

std::vector<table_kind> pmemobj_tables() {
  return {kind("hashtable", "libpmemobj", update_by::overwriting, make_pmemobj_hashtable),
          kind("hashtable", "libpmemobj, replacing", update_by::replacing, make_pmemobj_hashtable),
          kind("bptree", "libpmemobj", update_by::overwriting, make_pmemobj_bptree),
          kind("bptree", "libpmemobj, replacing", update_by::replacing, make_pmemobj_bptree)};
}

}  // namespace nvm::bench
