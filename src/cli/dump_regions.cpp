#include "cli/dump_regions.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "cli/hex.hpp"
#include "cli/kv_actions.hpp"
#include "cli/units.hpp"
#include "nvm/region.h"

namespace nvm::cli {
namespace {

using kv_actions::printable;
using sized = std::pair<std::uint64_t, std::uint64_t>;  // number, length

// What visitors collect; the library calls them, which no exception may cross.
template <class T>
struct collecting {
  std::vector<T> all{};
  std::exception_ptr thrown{};

  template <class... Arguments>
  int add(Arguments&&... arguments) noexcept {
    try {
      all.emplace_back(std::forward<Arguments>(arguments)...);
      return 0;
    } catch (...) {
      thrown = std::current_exception();
      return 1;
    }
  }
  // Takes the result of an ended walk, in order; false: it failed.
  [[nodiscard]] bool take(int ended) {
    if (thrown) std::rethrow_exception(thrown);
    std::sort(all.begin(), all.end());
    return ended == 0;
  }
};

class one_set {
 public:
  one_set(region_dump& how, const std::string& name, bool first) : how_{how}, name_{name}, first_{first} {}

  bool print() {
    nvm_regions_options o{};
    o.mode = 1;
    set_ = nvm_regions_open(how_.pool, name_.c_str(), &o);
    collecting<sized> regions;
    const auto visit = [](std::uint64_t rid, std::uint64_t size, void* to) {
      return static_cast<collecting<sized>*>(to)->add(rid, size);
    };
    if (set_ == nullptr || !regions.take(nvm_region_each(set_, visit, &regions))) return false;
    std::uint64_t bytes = 0;
    for (const auto& [rid, size] : regions.all) bytes += size;
    begin(regions.all.size(), bytes);
    bool listed = true;
    for (std::size_t i = 0; !how_.summary && listed && i < regions.all.size(); ++i) {
      if (how_.limit == 0) {
        how_.stopped = true;
        break;
      }
      --how_.limit;
      listed = list(regions.all[i], i == 0);
    }
    if (how_.out.as_json()) fmt::print(stdout, "{}}}", how_.summary ? "" : "\n    ]");
    return listed;
  }

 private:
  void begin(std::uint64_t count, std::uint64_t bytes) const {
    if (how_.out.as_json()) {
      fmt::print(stdout, "{}\n    {{\"name\": {}, \"region_count\": {}, \"region_bytes\": {}{}", first_ ? "" : ",",
                 line_of(name_), count, bytes, how_.summary ? "" : ", \"regions\": [");
      return;
    }
    how_.out.text("\nset {}: {} regions, {} bytes ({})\n", printable(name_), count, bytes, size_text(bytes));
  }
  bool list(const sized& region, bool first) const {
    const auto& [rid, size] = region;
    std::vector<std::byte> head(std::min(size, how_.hex_bytes));
    if (!head.empty() && nvm_region_read(set_, rid, 0, head.data(), head.size()) < 0) return false;
    if (how_.out.as_json()) {
      json o = {{"rid", rid}, {"size_bytes", size}};
      if (how_.hex_bytes != 0) o["bytes"] = hex_text(head);
      fmt::print(stdout, "{}\n      {}", first ? "" : ",", line_of(o));
      return true;
    }
    how_.out.text("{:>20} {:>12}\n", rid, size);
    if (!head.empty()) how_.out.text("{}", hex_lines(head, 2));
    return true;
  }

  region_dump& how_;
  const std::string& name_;
  const bool first_;
  nvm_regions* set_ = nullptr;
};

}  // namespace

bool region_dump::print() {
  collecting<std::string> names;
  const auto visit = [](const char* name, std::uint64_t, void* to) {
    return static_cast<collecting<std::string>*>(to)->add(name);
  };
  if (!names.take(nvm_regions_names(pool, visit, &names))) return nvm_errno() == NVM_E_ENGINE;
  if (names.all.empty()) return true;
  if (out.as_json()) fmt::print(stdout, ",\n  \"region_sets\": [");
  bool printed = true;
  for (std::size_t i = 0; printed && i < names.all.size(); ++i) printed = one_set{*this, names.all[i], i == 0}.print();
  if (out.as_json()) fmt::print(stdout, "\n  ]");
  return printed;
}

}  // namespace nvm::cli
