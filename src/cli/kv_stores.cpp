// holdfast kv stores, stat and drop: whole stores.
#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/kv_actions.hpp"
#include "cli/progress.hpp"

namespace nvm::cli::kv_actions {

exit_code list_stores(call& c) {
  if (!c.open(false)) return c.failed();
  std::vector<std::pair<std::string, std::string>> all;
  const int ended = c.each_named(
      [](const char* name, enum nvm_kv_index index, void* argument) {
        static_cast<std::vector<std::pair<std::string, std::string>>*>(argument)->emplace_back(
            name, nvm_kv_index_name(index));
        return 0;
      },
      &all);
  if (ended != 0) return c.failed();
  json answer = c.answer();
  answer["stores"] = json::array();
  for (const auto& [name, index] : all) {
    c.out.text("{:<8} {}\n", index, printable(name));
    answer["stores"].push_back({{"name", name}, {"index", index}});
  }
  if (all.empty()) c.out.text("{}: no key-value stores\n", c.path);
  c.out.document(answer);
  return exit_good;
}

exit_code show_statistics(call& c) {
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  const auto s = store->statistics();
  if (!s) return c.failed();
  c.out.text("{}: {}, {} entries, {} bytes of keys, {} bytes of values, depth {}, load {:.2f}, {}\n", c.store,
             nvm_kv_index_name(static_cast<int>(s->index)), s->entries, s->key_bytes, s->value_bytes, s->depth, s->load,
             s->checksums != 0 ? "with checksums" : "without checksums");
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(static_cast<int>(s->index));
  answer["count"] = s->entries;
  answer["key_bytes"] = s->key_bytes;
  answer["value_bytes"] = s->value_bytes;
  answer["checksums"] = s->checksums != 0;
  answer["depth"] = s->depth;
  answer["buckets"] = s->buckets;
  answer["overflow_buckets"] = s->overflow_buckets;
  answer["longest_chain"] = s->longest_chain;
  answer["leaves"] = s->leaves;
  answer["inner_nodes"] = s->inner_nodes;
  answer["load"] = s->load;
  c.out.document(answer);
  return exit_good;
}

exit_code drop(call& c) {
  if (!c.open(true)) return c.failed();
  std::uint64_t count = 0;
  json answer = c.answer();
  {
    const auto store = c.open_store(false);
    if (!store) return c.failed();
    const auto n = store->size();
    if (!n) return c.failed();
    count = *n;
    answer["index"] = nvm_kv_index_name(store->index());
  }
  {
    std::atomic<double> share{0};
    nvm_kv_drop_options o{};
    o.argument = &share;
    o.progress = [](std::uint64_t done, std::uint64_t total, void* argument) {
      *static_cast<std::atomic<double>*>(argument) =
          total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
    };
    // In an object store nothing tells how far it is.
    const std::function<double()> known = [&] { return share.load(); };
    const progress line{c.out, fmt::format("dropping {}", c.store), c.home == nullptr ? known : nullptr};
    if (!c.drop_named(c.store, o)) return c.failed();
  }
  answer["count"] = count;
  c.out.document(answer);
  return exit_good;
}

}  // namespace nvm::cli::kv_actions
