// How long does a pool take to open at another address (Breeze, Table V, case B)?
//
//   relocation-N-P   a pool of N full of objects of 1 KiB that begin with P pointers each: the relocation alone, from
//                    the first look at an object to the fence after which the old address is forgotten; beside it a
//                    loop that loads the header of each, loads and stores the same pointers in memory of this size,
//                    and writes their lines back: what the memory gives; and the paper's Algorithm 1, one transaction
//                    an object
//   lazily-…         the same, each page before it is seen: until the first transaction is committed, beside the whole
//                    relocation; and for each page that is touched first, beside touching it again
//
// Each opening is by a fresh process that may use so many processors; the next one moves the pool again.
#include <fcntl.h>
#include <fmt/core.h>
#include <nvm/nvm.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/clock.hpp"
#include "harness/mapped_file.hpp"
#include "harness/runner.hpp"
#include "harness/statistics.hpp"
#include "object/type_map_writer.hpp"
#include "platform/isa.hpp"
#include "recovery/child.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t object_bytes = 1024;
constexpr std::uint64_t header_bytes = 16;
constexpr std::uint64_t pitch = object_bytes + header_bytes;
constexpr std::uint64_t objects_per_transaction = 512;

[[noreturn]] void fail(const char* call) { throw std::runtime_error(std::string(call) + ": " + nvm_errormsg()); }
void check(int result, const char* call) {
  if (result != 0) fail(call);
}

emulation preset(const std::string& name) {
  nvm_emulation e{};
  if (nvm_emulation_preset(name.c_str(), &e) == 0) return {e.fence_ns, e.writeback_ns, e.bandwidth_bytes_s};
  throw std::runtime_error("no preset of emulated memory is called " + name);
}

std::string type_name(unsigned pointers) { return fmt::format("relocated_{}", pointers); }

// As the compiler plugin describes struct { NVM_PTR(void) to[P]; char data[1024 - 8 * P]; }.
void register_types(unsigned pointers) {
  using enum layout::field_kind;
  const std::uint64_t data = std::uint64_t{8} * pointers;
  object::type_description t{
      type_name(pointers),
      object_bytes,
      8,
      {{{0, 8, pointers, pointer, 0, 0, 0}, "to"}, {{data, 1, object_bytes - data, character, 0, 0, 0}, "data"}}};
  object::type_map_writer w;
  w.add(t);
  const auto words = w.finish();
  check(nvm_register_types(words.data(), words.size() * 8), "nvm_register_types");
}

nvm_pool_options shm_with_write_back(const options& o) {
  nvm_pool_options p{};
  p.medium = NVM_MEDIUM_SHM;
  p.persist = NVM_PERSIST_BEST;
  p.emulation = {static_cast<std::uint32_t>(o.slower.fence_ns), static_cast<std::uint32_t>(o.slower.writeback_ns),
                 o.slower.bandwidth_bytes_s};
  return p;
}

std::uint64_t fill(const std::string& path, std::uint64_t bytes, unsigned pointers) {
  register_types(pointers);
  nvm_pool_options p{};
  p.medium = NVM_MEDIUM_SHM;
  p.size = p.capacity = bytes;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &p);
  if (pool == nullptr) fail("nvm_pool_create_with");
  const std::uint32_t type = layout::type_id_of(type_name(pointers).c_str());
  void* before = nullptr;
  for (std::uint64_t objects = 0;;) {
    check(nvm_tx_begin(pool), "nvm_tx_begin");
    void* last = before;
    for (std::uint64_t i = 0; i < objects_per_transaction; ++i) {
      auto* const object = static_cast<void**>(nvm_alloc(pool, type, object_bytes));
      if (object == nullptr) {
        if (nvm_errno() != NVM_E_NO_SPACE) fail("nvm_alloc");
        check(nvm_tx_abort(pool), "nvm_tx_abort");
        check(nvm_pool_close(pool), "nvm_pool_close");
        return objects;
      }
      for (unsigned k = 0; k < pointers; ++k) object[k] = last != nullptr ? last : object;
      last = object;
    }
    check(nvm_tx_commit(pool), "nvm_tx_commit");
    before = last;
    objects += objects_per_transaction;
  }
}

void use_processors(unsigned count) {
  cpu_set_t may;
  CPU_ZERO(&may);
  if (sched_getaffinity(0, sizeof may, &may) != 0) throw std::runtime_error("sched_getaffinity");
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &may) && (count == 0 || count-- == 0)) CPU_CLR(cpu, &may);
  }
  if (sched_setaffinity(0, sizeof may, &may) != 0) throw std::runtime_error("sched_setaffinity");
}

std::uint64_t other_place(std::uint64_t base) {
  constexpr std::uint64_t places[2] = {NVM_WINDOW_BASE + (std::uint64_t{1} << (NVM_WINDOW_BITS - 2)),
                                       NVM_WINDOW_BASE + (std::uint64_t{1} << (NVM_WINDOW_BITS - 1))};
  return base == places[0] ? places[1] : places[0];
}

// Moves the pool to the other of two places; nanoseconds.
std::uint64_t relocate(const std::string& path, const options& o, unsigned threads, std::uint64_t pointers,
                       std::uint32_t how) {
  use_processors(threads);
  nvm_pool_info info{};
  check(nvm_pool_inspect(path.c_str(), &info), "nvm_pool_inspect");
  nvm_pool_options p = shm_with_write_back(o);
  p.address = other_place(info.base);
  p.relocation = how;
  NVM_POOL* const pool = nvm_pool_open_with(path.c_str(), &p);
  if (pool == nullptr) fail("nvm_pool_open_with");
  nvm_relocation_report r{};
  check(nvm_pool_get_relocation(pool, &r), "nvm_pool_get_relocation");
  if (r.moved != r.objects * pointers) throw std::runtime_error("not every pointer was moved");
  check(nvm_pool_close(pool), "nvm_pool_close");
  return r.duration_ns;
}

// Of an open that relocates page by page: until the first transaction is committed, and for each page that is touched
// first, and once more.
struct lazily {
  std::uint64_t open_ns, first_ns, again_ns, pages_left;
};
lazily relocate_lazily(const std::string& path, const options& o) {
  constexpr std::uint64_t touched = 1000;
  nvm_pool_info info{};
  check(nvm_pool_inspect(path.c_str(), &info), "nvm_pool_inspect");
  nvm_pool_options p = shm_with_write_back(o);
  p.address = other_place(info.base);
  p.relocation = NVM_RELOCATE_LAZY;
  p.untyped = NVM_UNTYPED_BYTES;
  lazily found{};
  const std::uint64_t start = wall_ns();
  NVM_POOL* const pool = nvm_pool_open_with(path.c_str(), &p);
  if (pool == nullptr) fail("nvm_pool_open_with");
  check(nvm_tx_begin(pool), "nvm_tx_begin");
  check(nvm_tx_commit(pool), "nvm_tx_commit");
  found.open_ns = wall_ns() - start;
  check(nvm_pool_get_info(pool, &info), "nvm_pool_get_info");
  const auto* const bytes = reinterpret_cast<const volatile char*>(info.base);
  const auto touch = [&] {
    std::uint64_t at = info.size;
    const std::uint64_t since = wall_ns();
    // From the end, which the thread in the background comes to last.
    for (std::uint64_t i = 0; i < touched; ++i) (void)bytes[at -= info.page_bytes];
    return (wall_ns() - since) / touched;
  };
  found.first_ns = touch();
  found.again_ns = touch();
  nvm_relocation_report r{};
  check(nvm_pool_get_relocation(pool, &r), "nvm_pool_get_relocation");
  found.pages_left = r.pages_left;
  check(nvm_pool_close(pool), "nvm_pool_close");
  return found;
}

// The same lines, read and written back.
std::uint64_t limit(const std::string& path, std::uint64_t objects, unsigned threads, unsigned pointers) {
  use_processors(threads);
  const std::uint64_t bytes = objects * pitch;
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) throw std::runtime_error("cannot make " + path);
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  close(file);
  if (mapped == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  const isa::write_back with = isa::best_write_back();
  const auto part = [&](unsigned n) {
    volatile std::uint64_t sink = 0;
    for (std::uint64_t i = objects * n / threads; i < objects * (n + 1) / threads; ++i) {
      auto* const header = reinterpret_cast<volatile std::uint64_t*>(static_cast<char*>(mapped) + i * pitch);
      sink = *header;
      volatile std::uint64_t* const to = header + header_bytes / 8;
      for (unsigned k = 0; k < pointers; ++k) to[k] = to[k] + 1;
      isa::write_back_lines(const_cast<std::uint64_t*>(to), std::uint64_t{8} * pointers, with);
    }
    (void)sink;
    isa::store_fence();
  };
  const std::uint64_t start = wall_ns();
  std::vector<std::thread> others;
  for (unsigned n = 1; n < threads; ++n) others.emplace_back(part, n);
  part(0);
  for (std::thread& t : others) t.join();
  return wall_ns() - start;
}

// A relocation that was not finished is, so that the next one has everything to do.
std::uint64_t finish(const std::string& path, const options& o) {
  const nvm_pool_options p = shm_with_write_back(o);
  NVM_POOL* const pool = nvm_pool_open_with(path.c_str(), &p);
  if (pool == nullptr) fail("nvm_pool_open_with");
  check(nvm_pool_close(pool), "nvm_pool_close");
  return 0;
}

nlohmann::ordered_json json_of(const std::vector<double>& sample) {
  const spread s = spread_of(sample);
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"sample", sample}};
}

// `eager`: what the whole relocation took.
void measure_lazily(runner& r, const options& o, const std::string& path, const std::string& name,
                    const std::vector<double>& eager) {
  std::vector<double> open, first, again;
  for (unsigned run = 0; run < o.runs; ++run) {
    const lazily found = in_killed_child([&] { return relocate_lazily(path, o); });
    in_killed_child([&] { return finish(path, o); });
    if (found.pages_left == 0) {
      fmt::print("{}: nothing was left to touch, or the system has no page faults for us: left out\n", name);
      return;
    }
    open.push_back(static_cast<double>(found.open_ns));
    first.push_back(static_cast<double>(found.first_ns));
    again.push_back(static_cast<double>(found.again_ns));
  }
  const auto add = [&](const char* what, const char* unit, const char* peer, const std::vector<double>& ours,
                       const std::vector<double>& theirs) {
    nlohmann::ordered_json j{{"name", fmt::format("lazily-{}-{}", what, name)}, {"threads", 1}, {"unit", unit}};
    j["units_per_op"] = 1;
    j["parameters"] = {{"emulated", o.emulated}};
    j["systems"] =
        nlohmann::ordered_json::array({{{"name", "holdfast"}, {"role", "subject"}, {"wall_ns", json_of(ours)}},
                                       {{"name", peer}, {"role", "peer"}, {"wall_ns", json_of(theirs)}}});
    j["ratios"] = nlohmann::ordered_json::array(
        {{{"subject", "holdfast"}, {"peer", peer}, {"wall", json_of(pairwise_ratio(theirs, ours))}}});
    r.add(std::move(j));
  };
  add("open", "open", "eager", open, eager);
  add("touched", "page", "touched-again", first, again);
  fmt::print("{}, lazily: {:.1f} ms to the first transaction; {:.1f} us a page touched first, {:.3f} us once more\n",
             name, spread_of(open).median / 1e6, spread_of(first).median / 1e3, spread_of(again).median / 1e3);
  std::fflush(stdout);
}

void measure(runner& r, const options& o, std::uint64_t bytes, unsigned pointers) {
  const std::string size = bytes >= 1ULL << 30 ? fmt::format("{}GiB", bytes >> 30) : fmt::format("{}MiB", bytes >> 20);
  const std::string name = fmt::format("relocation-{}-{}", size, pointers);
  if (!o.selects(name)) return;
  struct statvfs fs{};
  if (statvfs(o.directory.c_str(), &fs) != 0 || std::uint64_t{fs.f_bavail} * fs.f_frsize < bytes + bytes / 16) {
    fmt::print("\n{}: left out, {} has no room for it\n", name, o.directory);
    return;
  }
  std::vector<std::vector<double>> moved(o.threads.size());
  std::vector<std::vector<double>> printed(o.threads.size());
  std::vector<std::vector<double>> least(o.threads.size());
  std::uint64_t objects = 0;
  {
    const temporary_path path(o.directory, "relocation.nvm");
    objects = in_killed_child([&] { return fill(path.string(), bytes, pointers); });
    for (unsigned run = 0; run < o.runs; ++run) {
      for (std::size_t t = 0; t < o.threads.size(); ++t) {
        for (const auto& [how, into] :
             {std::pair{NVM_RELOCATE_EAGER, &moved}, std::pair{NVM_RELOCATE_TRANSACTIONS, &printed}}) {
          (*into)[t].push_back(static_cast<double>(
              in_killed_child([&] { return relocate(path.string(), o, o.threads[t], pointers, how); })));
        }
      }
    }
    measure_lazily(r, o, path.string(), name, moved.back());
  }
  const temporary_path path(o.directory, "limit");
  for (unsigned run = 0; run < o.runs; ++run) {
    for (std::size_t t = 0; t < o.threads.size(); ++t) {
      least[t].push_back(
          static_cast<double>(in_killed_child([&] { return limit(path.string(), objects, o.threads[t], pointers); })));
    }
  }
  for (std::size_t t = 0; t < o.threads.size(); ++t) {
    nlohmann::ordered_json j{{"name", name}, {"threads", o.threads[t]}, {"unit", "open"}, {"units_per_op", 1}};
    j["parameters"] = {{"pool_bytes", bytes},
                       {"object_bytes", object_bytes},
                       {"objects", objects},
                       {"pointers", pointers},
                       {"emulated", o.emulated}};
    j["systems"] =
        nlohmann::ordered_json::array({{{"name", "holdfast"}, {"role", "subject"}, {"wall_ns", json_of(moved[t])}},
                                       {{"name", "algorithm-1"}, {"role", "peer"}, {"wall_ns", json_of(printed[t])}},
                                       {{"name", "memory"}, {"role", "peer"}, {"wall_ns", json_of(least[t])}}});
    j["ratios"] = nlohmann::ordered_json::array(
        {{{"subject", "holdfast"}, {"peer", "memory"}, {"wall", json_of(pairwise_ratio(least[t], moved[t]))}},
         {{"subject", "holdfast"}, {"peer", "algorithm-1"}, {"wall", json_of(pairwise_ratio(printed[t], moved[t]))}}});
    fmt::print(
        "{}, {} thread{}: {:.3f} s for {} objects, {:.0f} ns each; Algorithm 1 {:.3f} s; the memory's limit {:.3f} s\n",
        name, o.threads[t], o.threads[t] == 1 ? "" : "s", spread_of(moved[t]).median / 1e9, objects,
        spread_of(moved[t]).median / static_cast<double>(objects), spread_of(printed[t]).median / 1e9,
        spread_of(least[t]).median / 1e9);
    std::fflush(stdout);
    r.add(std::move(j));
  }
}

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "Pools that open at another address",
                 .directory = "/dev/shm",
                 .threads = {1, 2},
                 .runs = 5,
                 .emulations = preset},
                [](runner& r, const options& o) {
                  std::vector<std::uint64_t> sizes;
                  if (o.megabytes != 0) {
                    sizes = {o.megabytes << 20};
                  } else {
                    for (const std::uint64_t gib : {1, 2, 4}) sizes.push_back(o.quick ? gib << 23 : gib << 30);
                  }
                  for (const std::uint64_t bytes : sizes) {
                    for (const unsigned pointers : {1U, 2U, 16U}) {
                      r.attempt([&] { measure(r, o, bytes, pointers); });
                    }
                  }
                });
}
