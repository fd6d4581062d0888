// Calls of gone_pages_test.cpp about regions, the collector and relocation.
#include <cstring>

#include "gone_pages_scene.hpp"
#include "nvm/gc.h"

namespace nvm::tests {
namespace {

template <class F>
int each_region(scene& s, F&& f) {
  for (std::uint64_t rid = 0; rid < entries && s.p.regions != nullptr; rid += 7) {
    if (const int answer = f(s.p.regions, rid); answer < 0) return answer;
  }
  return 0;
}
std::string bytes_of(std::uint64_t rid) { return value_of(static_cast<unsigned>(rid % 10000)); }
// A failure that says only that something is there already, or is not.
int unless(int code, int answer) { return answer < 0 && nvm_errno() == code ? 0 : answer; }

int write_in_transaction(nvm_regions* set, std::uint64_t rid) {
  if (nvm_region_begin(set, rid, NVM_REGION_ADAPTIVE) != 0) return -1;
  if (nvm_region_write(set, rid, 0, bytes_of(rid).data(), value_bytes) == 0) return nvm_region_commit(set, rid);
  const int code = nvm_errno();
  const std::string message = nvm_errormsg();
  (void)nvm_region_abort(set, rid);
  return nvm_fail(code, message.c_str());
}
int write_in_group(nvm_region_group*, void* raw) {
  auto& s = *static_cast<scene*>(raw);
  for (const std::uint64_t rid : {7U, 14U}) {
    if (nvm_region_write(s.p.regions, rid, 0, bytes_of(rid).data(), value_bytes) != 0) return -1;
  }
  return 0;
}

}  // namespace

std::vector<one_call> calls_of_regions() {
  return {
      {"nvm_region_read",
       [](scene& s) {
         return each_region(s, [&](nvm_regions* set, std::uint64_t rid) {
           char bytes[value_bytes];
           const std::int64_t n = nvm_region_read(set, rid, 0, bytes, sizeof bytes);
           if (n >= 0 && bytes_of(rid).compare(0, value_bytes, bytes, static_cast<std::size_t>(n)) != 0) {
             s.say("nvm_region_read", "wrong bytes of region " + std::to_string(rid));
           }
           return n < 0 ? -1 : 0;
         });
       }},
      {"nvm_region_size",
       [](scene& s) {
         return each_region(s, [&](nvm_regions* set, std::uint64_t rid) {
           std::uint64_t bytes = value_bytes;
           const int answer = nvm_region_size(set, rid, &bytes);
           if (bytes != value_bytes) s.say("nvm_region_size", "found " + std::to_string(bytes));
           return answer;
         });
       }},
      {"nvm_region_write",
       [](scene& s) {
         return each_region(s, [](nvm_regions* set, std::uint64_t rid) {
           return nvm_region_write(set, rid, 0, bytes_of(rid).data(), value_bytes);
         });
       }},
      {"nvm_region_commit", [](scene& s) { return each_region(s, write_in_transaction); }},
      {"nvm_region_commit_async",
       [](scene& s) {
         if (s.p.regions == nullptr) return 0;
         std::uint64_t position = 0;
         if (nvm_region_begin(s.p.regions, 7, NVM_REGION_ADAPTIVE) != 0) return -1;
         return nvm_region_commit_async(s.p.regions, 7, &position) != 0 ? -1 : nvm_wait(s.p.pool, position);
       }},
      {"nvm_region_group_run",
       [](scene& s) {
         const std::uint64_t both[] = {7, 14};
         return s.p.regions == nullptr ? 0 : nvm_region_group_run(s.p.regions, both, 2, write_in_group, &s);
       }},
      {"nvm_region_create_with",
       [](scene& s) {
         return each_region(s, [](nvm_regions* set, std::uint64_t rid) {
           return unless(NVM_E_EXISTS, nvm_region_create_with(set, 10000 + rid, bytes_of(rid).data(), value_bytes, 0));
         });
       }},
      {"nvm_region_append",
       [](scene& s) {
         return each_region(s, [](nvm_regions* set, std::uint64_t rid) {
           return unless(NVM_E_NOT_FOUND, nvm_region_append(set, 10000 + rid, "more", 4, nullptr));
         });
       }},
      {"nvm_region_truncate",
       [](scene& s) {
         return each_region(s, [](nvm_regions* set, std::uint64_t rid) {
           return unless(NVM_E_NOT_FOUND, nvm_region_truncate(set, 10000 + rid, 100));
         });
       }},
      {"nvm_region_drop",
       [](scene& s) {
         return each_region(s, [](nvm_regions* set, std::uint64_t rid) {
           return unless(NVM_E_NOT_FOUND, nvm_region_drop(set, 10000 + rid));
         });
       }},
      // Its bytes are the program's to read.
      {"nvm_region_hold",
       [](scene& s) {
         return each_region(s, [](nvm_regions* set, std::uint64_t rid) {
           nvm_region_lease lease;
           return nvm_region_hold(set, rid, &lease) != 0 ? -1 : nvm_region_let_go(&lease);
         });
       }},
      {"nvm_region_each",
       [](scene& s) {
         if (s.p.regions == nullptr) return 0;
         return nvm_region_each(s.p.regions, [](std::uint64_t, std::uint64_t, void*) { return 0; }, nullptr);
       }},
      {"nvm_regions_count",
       [](scene& s) {
         std::uint64_t count = entries;
         const int answer = s.p.regions == nullptr ? 0 : nvm_regions_count(s.p.regions, &count);
         if (count < entries) s.say("nvm_regions_count", "found " + std::to_string(count));
         return answer;
       }},
      {"nvm_regions_names",
       [](scene& s) {
         if (s.p.regions == nullptr) return 0;
         return nvm_regions_names(s.p.pool, [](const char*, std::uint64_t, void*) { return 0; }, nullptr);
       }},
      {"nvm_regions_wait", [](scene& s) { return s.p.regions == nullptr ? 0 : nvm_regions_wait(s.p.regions); }},
      {"nvm_regions_open",
       [](scene& s) {
         if (s.p.regions == nullptr) return 0;
         return nvm_regions_open(s.p.pool, "another", nullptr) == nullptr ? -1 : 0;
       }},
      // Any word may be a pointer: nothing of the list is garbage.
      {"nvm_gc",
       [](scene& s) {
         nvm_gc_options o{};
         o.conservative = 1;
         nvm_gc_report r{};
         const int answer = nvm_gc(s.p.pool, &o, &r);
         if (answer == 0 && r.reachable_objects < cells) {
           s.say("nvm_gc", "reached " + std::to_string(r.reachable_objects));
         }
         return answer;
       }},
      {"nvm_object_around",
       [](scene& s) {
         void* root = nullptr;
         if (nvm_pool_read_root(s.p.pool, &root) != 0) return -1;
         void* const found = nvm_object_around(s.p.pool, static_cast<char*>(root) + 8);
         if (found != nullptr && found != root) s.say("nvm_object_around", "another object");
         if (found == nullptr || nvm_hold(root) != 0) return -1;
         return nvm_drop(root);
       }},
      {"nvm_pool_get_relocation",
       [](scene& s) {
         nvm_relocation_report r;
         return nvm_pool_get_relocation(s.p.pool, &r);
       }},
  };
}

}  // namespace nvm::tests
