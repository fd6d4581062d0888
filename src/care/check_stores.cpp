#include "care/check_stores.hpp"

#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nvm::care {
namespace {

// Reads bytes at any place, and tells once of each place where no object is allocated.
class looking_source final : public keyed::byte_source {
 public:
  using is_allocated = std::function<bool(std::uint64_t place, std::uint64_t bytes)>;
  looking_source(keyed::byte_source& from, const is_allocated& holds) noexcept : from_{from}, holds_{holds} {}
  std::function<void(std::uint64_t place)> missed{};

  bool read(std::uint64_t place, void* to, std::uint64_t bytes) override {
    if (!from_.read(place, to, bytes)) return false;
    if (holds_ && !holds_(place, bytes) && told_.insert(place / told_bytes).second) missed(place);
    return true;
  }
  std::uint64_t objects_max() override { return from_.objects_max(); }

 private:
  static constexpr std::uint64_t told_bytes = 64;
  keyed::byte_source& from_;
  const is_allocated& holds_;
  std::unordered_set<std::uint64_t> told_;
};

// The entries of a store that are in regions; say(of, fault).
template <class Say>
status check_regions_of(std::uint64_t header, const keyed::store_facts& facts, const regions_reader& regions, Say& say,
                        const char* of) {
  keyed::lewat::rest_report look;
  look.lost = [&](const char* what, std::uint64_t rid, bool has_key, std::string_view key) {
    char text[160];
    std::snprintf(text, sizeof text, "in region %016lx: %s", rid, what);
    say(of, {text, header, has_key, key});
  };
  const status s = regions(facts, look);
  if (s || s.error() == errc::no_memory) return s;
  const std::string why = std::string{"its regions cannot be read: "} + last_message();
  say(of, {why.c_str(), header, false, {}});
  return {};
}

}  // namespace

status check_stores(keyed::byte_source& source, std::uint64_t directory,
                    const std::function<void(std::uint64_t offset, const char* finding)>& tell,
                    const std::function<bool(std::uint64_t place, std::uint64_t bytes)>& is_allocated,
                    const regions_reader& regions, std::uint32_t number) try {
  const std::string home = number == 0 ? std::string{} : " of store " + std::to_string(number);
  const std::string directory_of = "directory of key-value stores" + home;
  char text[512];
  looking_source from{source, is_allocated};
  constexpr const char* not_allocated = "a link leads where no object is allocated";
  const auto say = [&](const char* of, const keyed::fault& f) {
    if (f.has_key) {
      const keyed::readable key{f.key.data(), f.key.size()};
      const bool is_record = std::strncmp(f.what, "in region", 9) != 0;
      is_record ? std::snprintf(text, sizeof text, "%s: entry \"%s\", record at offset %lu: %s", of, key.text, f.place,
                                f.what)
                : std::snprintf(text, sizeof text, "%s: entry \"%s\", %s", of, key.text, f.what);
    } else {
      std::snprintf(text, sizeof text, "%s: %s, at offset %lu", of, f.what, f.place);
    }
    tell(f.place, text);
    return true;
  };
  from.missed = [&](std::uint64_t place) { say(directory_of.c_str(), {not_allocated, place, false, {}}); };
  std::vector<std::pair<std::string, std::uint64_t>> named;
  keyed::inspection names;
  names.wants_values = true;
  names.tell = [&](const keyed::fault& f) { return say(directory_of.c_str(), f); };
  names.meet = [&](const keyed::entry_found& e) {
    std::uint64_t place = 0;
    if (e.value.size() != sizeof place) {
      say(directory_of.c_str(), {"an entry names no store", e.place, true, e.key});
      return;
    }
    std::memcpy(&place, e.value.data(), sizeof place);
    named.emplace_back(std::string{e.key}, place);
  };
  if (status s = names.run(from, directory); !s) return s;
  for (const auto& [name, place] : named) {
    // One that is being dropped may have lost a part of its index (kv/dropping.hpp); its header holds to the last.
    const bool dropped = name.starts_with('\0');
    const keyed::readable readable{name.data(), name.size()};
    char of[256];
    std::snprintf(of, sizeof of, "key-value store \"%s\"%s", readable.text, home.c_str());
    from.missed = [&](std::uint64_t at) {
      if (!dropped) say(of, {not_allocated, at, false, {}});
    };
    keyed::inspection store;
    store.tell = [&](const keyed::fault& f) { return dropped || say(of, f); };
    if (status s = store.run(from, place); !s) return s;
    if (dropped && !store.header_holds())
      say(of, {"the header of a store that is being dropped fails", place, false, {}});
    if (dropped) continue;
    if (!regions || store.facts().index != keyed::kv_index::regions || !store.header_holds()) continue;
    if (status s = check_regions_of(place, store.facts(), regions, say, of); !s) return s;
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the key-value stores");
}

}  // namespace nvm::care
