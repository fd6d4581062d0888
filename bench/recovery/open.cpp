// How long until a program can allocate again after its owner was killed? And how long does a clean open take?
//
//   crashed-open-N   a pool of N full of 1 KiB objects: from the call that opens it to the return of the first
//                    allocation, one thread (Breeze, Table V, case A)
//   index-N          the full volatile allocation index of that pool, by 1 and 2 threads
//   regions-clean-N, regions-killed-N
//                    N regions of 256 bytes: from the call that opens their pool to the return of the first read; it
//                    had been closed, or its owner was killed after a change
//   stores-clean-N   the same of a key-value store with N entries of 256 bytes, over regions and as a hash table
//   clean-open-8MiB  opening an empty pool that was closed properly; once as the first thing that a process does with
//                    the library (-first), once more in the same process, whose memory is paged in by then
//
// Every opening of a crashed pool is by a fresh process. One that opened a crashed pool is killed with a transaction
// open, so that the next finds the same. Two pools of 16 GiB would not fit: of the crashed pools the systems do not
// alternate.
#include <fmt/core.h>
#include <sys/statvfs.h>

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/mapped_file.hpp"
#include "harness/measured.hpp"
#include "harness/runner.hpp"
#include "recovery/child.hpp"
#include "recovery/crashed_pool.hpp"

namespace nvm::bench {
namespace {

std::string size_name(std::uint64_t bytes) {
  return bytes >= 1ULL << 30 ? fmt::format("{}GiB", bytes >> 30) : fmt::format("{}MiB", bytes >> 20);
}

void report(runner& r, const std::string& name, unsigned threads, nlohmann::ordered_json parameters,
            const std::vector<measured>& systems) {
  report_times(r, {name, name.starts_with("index") ? "rebuild" : "open", threads, std::move(parameters)}, systems);
}

bool fits(const std::string& directory, std::uint64_t bytes) {
  struct statvfs fs{};
  return statvfs(directory.c_str(), &fs) == 0 &&
         static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize > bytes + bytes / 16;
}

void crashed_pools(runner& r, const options& o, std::uint64_t bytes) {
  const std::string size = size_name(bytes);
  if (!o.selects("crashed-open-" + size) && !o.selects("index-" + size)) return;
  if (!fits(o.directory, bytes)) {
    fmt::print("\ncrashed-open-{}: left out, {} has no room for it\n", size, o.directory);
    return;
  }
  nlohmann::ordered_json parameters{{"pool_bytes", bytes}, {"object_bytes", object_bytes}};
  std::vector<measured> opens;
  std::vector<std::vector<measured>> indexes(o.threads.size());
  for (const recovery_system& s : recovery_systems()) {
    const temporary_path path(o.directory, "recovery.nvm");
    const std::uint64_t objects = in_killed_child([&] { return s.fill(path.string(), bytes); });
    parameters[s.name + "_objects"] = objects;
    measured m{s.name, s.role, {}};
    for (unsigned i = 0; i < o.runs; ++i)
      m.ns.push_back(
          static_cast<double>(in_killed_child([&] { return s.open(path.string(), 0); }).first_allocation_ns));
    opens.push_back(std::move(m));
    if (!s.builds_index) continue;
    for (std::size_t t = 0; t < o.threads.size(); ++t) {
      measured index{s.name, s.role, {}};
      for (unsigned i = 0; i < o.runs; ++i)
        index.ns.push_back(
            static_cast<double>(in_killed_child([&] { return s.open(path.string(), o.threads[t]); }).index_ns));
      indexes[t].push_back(std::move(index));
    }
  }
  report(r, "crashed-open-" + size, 1, parameters, opens);
  for (std::size_t t = 0; t < o.threads.size(); ++t)
    if (!indexes[t].empty()) report(r, "index-" + size, o.threads[t], parameters, indexes[t]);
}

constexpr const char* clean_open_option = "--open-clean-twice";

struct clean_times {
  std::uint64_t first_ns;
  std::uint64_t again_ns;
};

// In a process that was started for it: one that was forked finds every page of the library to be copied or mapped
// anew.
clean_times open_in_fresh_process(const recovery_system& s, const std::string& path) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "'" + self + "' " + clean_open_option + " '" + s.name + "' '" + path + "'";
  FILE* out = popen(command.c_str(), "r");
  if (out == nullptr) throw std::runtime_error("cannot start " + self);
  clean_times t{};
  const int read = std::fscanf(out, "%" SCNu64 " %" SCNu64, &t.first_ns, &t.again_ns);
  if (pclose(out) != 0 || read != 2) throw std::runtime_error(command + " failed");
  return t;
}

// The other side of it.
int open_clean_twice(const std::string& name, const std::string& path) {
  for (const recovery_system& s : recovery_systems()) {
    if (s.name != name) continue;
    const std::uint64_t first_ns = s.open_clean(path);
    const std::uint64_t again_ns = s.open_clean(path);
    std::printf("%" PRIu64 " %" PRIu64 "\n", first_ns, again_ns);
    return 0;
  }
  return 2;
}

void clean_pools(runner& r, const options& o) {
  if (!o.selects("clean-open-8MiB")) return;
  const std::vector<recovery_system> systems = recovery_systems();
  std::vector<measured> first;
  std::vector<std::unique_ptr<temporary_path>> paths;
  for (const recovery_system& s : systems) {
    first.push_back({s.name, s.role, {}});
    paths.push_back(std::make_unique<temporary_path>(o.directory, "clean-" + s.name + ".nvm"));
    in_killed_child([&] {
      s.create_small(paths.back()->string());
      return 0;
    });
  }
  std::vector<measured> again = first;
  for (unsigned i = 0; i < o.runs; ++i)
    for (std::size_t k = 0; k < systems.size(); ++k) {
      const clean_times t = open_in_fresh_process(systems[k], paths[k]->string());
      first[k].ns.push_back(static_cast<double>(t.first_ns));
      again[k].ns.push_back(static_cast<double>(t.again_ns));
    }
  const nlohmann::ordered_json parameters{{"pool_bytes", 8 << 20}, {"objects", 0}};
  report(r, "clean-open-8MiB-first", 1, parameters, first);
  report(r, "clean-open-8MiB", 1, parameters, again);
}

#if NVM_BENCH_HOLDFAST
void pools_of_regions(runner& r, const options& o) {
  const std::uint64_t count = o.quick ? 20'000 : 1'000'000;
  const auto name = [&](bool closes) { return fmt::format("regions-{}-{}", closes ? "clean" : "killed", count); };
  if (!o.selects(name(true)) && !o.selects(name(false))) return;
  const temporary_path path(o.directory, "regions.nvm");
  in_killed_child([&] {
    fill_regions(path.string(), count);
    return 0;
  });
  const nlohmann::ordered_json parameters{{"regions", count}, {"region_bytes", region_bytes}};
  for (const bool closes : {true, false}) {
    measured m{"holdfast", role::subject, {}};
    if (!closes) (void)in_killed_child([&] { return open_regions(path.string(), 1, false); });
    for (unsigned i = 0; i < o.runs; ++i) {
      const std::uint64_t rid = 1 + i * (count / o.runs);
      m.ns.push_back(static_cast<double>(in_killed_child([&] { return open_regions(path.string(), rid, closes); })));
    }
    report(r, name(closes), 1, parameters, {m});
  }
}

void pools_of_stores(runner& r, const options& o) {
  const std::uint64_t count = o.quick ? 20'000 : 1'000'000;
  const std::string name = fmt::format("stores-clean-{}", count);
  if (!o.selects(name)) return;
  std::vector<measured> systems;
  for (const bool by_regions : {true, false}) {
    const temporary_path path(o.directory, "stores.nvm");
    in_killed_child([&] {
      fill_store(path.string(), by_regions, count);
      return 0;
    });
    measured m{by_regions ? "kv regions" : "kv hash table", by_regions ? role::subject : role::peer, {}};
    for (unsigned i = 0; i < o.runs; ++i) {
      const std::uint64_t key = 1 + i * (count / o.runs);
      m.ns.push_back(static_cast<double>(in_killed_child([&] { return open_store(path.string(), by_regions, key); })));
    }
    systems.push_back(std::move(m));
  }
  report(r, name, 1, {{"entries", count}, {"value_bytes", region_bytes}}, systems);
}
#endif

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  if (argc == 4 && std::string_view{argv[1]} == clean_open_option) return open_clean_twice(argv[2], argv[3]);
  return answer(argc, argv,
                {.question = "Opening crashed and clean pools", .directory = "/dev/shm", .threads = {1, 2}, .runs = 7},
                [](runner& r, const options& o) {
                  clean_pools(r, o);
#if NVM_BENCH_HOLDFAST
                  pools_of_regions(r, o);
                  pools_of_stores(r, o);
#endif
                  for (const std::uint64_t gib : {4, 8, 16}) crashed_pools(r, o, o.quick ? gib << 23 : gib << 30);
                });
}
