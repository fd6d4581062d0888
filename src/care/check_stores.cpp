#include "care/check_stores.hpp"

#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace nvm::care {

status check_stores(keyed::byte_source& from, std::uint64_t directory,
                    const std::function<void(std::uint64_t offset, const char* finding)>& tell) try {
  char text[512];
  const auto say = [&](const char* of, const keyed::fault& f) {
    if (f.has_key) {
      const keyed::readable key{f.key.data(), f.key.size()};
      std::snprintf(text, sizeof text, "%s: entry \"%s\", record at offset %lu: %s", of, key.text, f.place, f.what);
    } else {
      std::snprintf(text, sizeof text, "%s: %s, at offset %lu", of, f.what, f.place);
    }
    tell(f.place, text);
    return true;
  };
  std::vector<std::pair<std::string, std::uint64_t>> named;
  keyed::inspection names;
  names.wants_values = true;
  names.tell = [&](const keyed::fault& f) { return say("directory of key-value stores", f); };
  names.meet = [&](const keyed::entry_found& e) {
    std::uint64_t place = 0;
    if (e.value.size() != sizeof place) {
      say("directory of key-value stores", {"an entry names no store", e.place, true, e.key});
      return;
    }
    std::memcpy(&place, e.value.data(), sizeof place);
    named.emplace_back(std::string{e.key}, place);
  };
  if (status s = names.run(from, directory); !s) return s;
  for (const auto& [name, place] : named) {
    const keyed::readable readable{name.data(), name.size()};
    char of[256];
    std::snprintf(of, sizeof of, "key-value store \"%s\"", readable.text);
    keyed::inspection store;
    store.tell = [&](const keyed::fault& f) { return say(of, f); };
    if (status s = store.run(from, place); !s) return s;
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the key-value stores");
}

}  // namespace nvm::care
