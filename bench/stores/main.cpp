// What does an object store cost beside a file for each store (HEAPO, section III-A, figure 4)?
//
//   create-F, attach-F, expand-F, shrink-F, detach-F, first-F
//                    on the file system F, tmpfs or that of the directory that is chosen: a store is made; one of 1 MiB
//                    is attached until its root has been read; gets its first object of 64 bytes (first), and one of
//                    256 KiB (expand), which is freed, and its room given back (shrink); is given up.  Beside it a pool
//                    file for each store, ours and libpmemobj's.
//   attach-N-P       a store of 1 MiB in a pool that has N others, and may grow to just what they take (small) or to
//                    16 GiB (large); with page protection and without; beside the open of a pool file of 1 MiB
//   open-N           the open of a pool with N stores, beside the same pool without
//   names-N          a look-up among N names: in the trie of stores, and as a key in a B+tree of key-value stores
//
// Systems take turns; a repetition is one call.
#include <fmt/core.h>
#include <nvm/kv.h>
#include <nvm/store.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/clock.hpp"
#include "harness/machine.hpp"
#include "harness/mapped_file.hpp"
#include "harness/measured.hpp"
#include "harness/runner.hpp"
#include "stores/keepers.hpp"
#include "stores/names.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t store_bytes = 1 << 20;
using keepers = std::vector<std::unique_ptr<store_keeper>>;

void check(bool good, const char* call) {
  if (!good) throw std::runtime_error{fmt::format("{}: {}", call, nvm_errormsg())};
}
template <class Call>
double timed(Call&& call) {
  const std::uint64_t start = wall_ns();
  call();
  return static_cast<double>(wall_ns() - start);
}

// Samples of one kind of call, of each keeper.
class samples {
 public:
  samples(std::string call, const keepers& of) : call_{std::move(call)} {
    for (const auto& k : of) of_.push_back({k->name(), k->part(), {}});
  }
  template <class Call>
  void time(std::size_t keeper, Call&& call) {
    of_[keeper].ns.push_back(timed(call));
  }
  void report(runner& r, const std::string& where, const nlohmann::ordered_json& parameters) const {
    report_times(r, {call_ + "-" + where, "call", 1, parameters}, of_);
  }

 private:
  std::string call_;
  std::vector<measured> of_;
};

// ---- figure 4 -------------------------------------------------------------------------------------------------------

void figure_4(runner& r, const options& o, const keeper_place& at) {
  const std::string where = file_system_of(at.directory);
  static constexpr const char* calls[] = {"create", "attach", "first", "expand", "shrink", "detach"};
  if (std::none_of(std::begin(calls), std::end(calls),
                   [&](const char* c) { return o.selects(fmt::format("{}-{}", c, where)); }))
    return;
  keepers all;
  all.push_back(keep_in_one_pool(at, std::uint64_t{1} << 30));
  all.push_back(keep_in_pool_files(at));
#if NVM_BENCH_PMEMOBJ
  all.push_back(keep_in_pmemobj_files(at));
#endif
  std::vector<samples> of;
  for (const char* call : calls) of.emplace_back(call, all);
  const unsigned count = o.runs * o.full_or_quick(5U, 1U);
  for (unsigned i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      store_keeper& keeper = *all[k];
      of[0].time(k, [&] { keeper.create(i); });
      keeper.fill(i, store_bytes);
      std::uint64_t first = 0;
      of[1].time(k, [&] { first = keeper.attach(i); });
      if (first != 1) throw std::runtime_error{keeper.name() + ": the root is not what was stored"};
      of[2].time(k, [&] { keeper.allocate_once(); });
      of[3].time(k, [&] { keeper.expand(); });
      of[4].time(k, [&] { keeper.shrink(); });
      of[5].time(k, [&] { keeper.detach(); });
    }
  }
  for (const samples& s : of) s.report(r, where, {{"store_bytes", store_bytes}, {"expansion_bytes", expansion_bytes}});
}

// ---- others in the pool ---------------------------------------------------------------------------------------------

void beside_others(runner& r, const options& o, std::uint64_t others, bool large) {
  const std::string where = fmt::format("{}-{}", others, large ? "large" : "small");
  if (!o.selects("attach-" + where)) return;
  const keeper_place at{"/dev/shm", false};
  const unsigned filled = 8;
  const std::uint64_t capacity =
      large ? std::uint64_t{16} << 30 : std::max<std::uint64_t>((others + 64 * 256 + 8192) * 4096, 64 << 20);
  keepers all;
  all.push_back(keep_in_one_pool(at, capacity, true));
  all.push_back(keep_in_one_pool(at, capacity, false));
  all.push_back(keep_in_pool_files(at));
  for (std::size_t k = 0; k < all.size(); ++k) {
    // Those that are measured lie among the others.
    for (unsigned i = 0; i < filled; ++i) {
      all[k]->create(i);
      all[k]->fill(i, store_bytes);
      const std::uint64_t more = k == 2 ? 0 : others / filled;
      for (std::uint64_t n = 0; n < more; ++n) all[k]->create(static_cast<unsigned>(filled + i * more + n));
    }
  }
  samples attach{"attach", all}, first{"first", all}, detach{"detach", all};
  for (unsigned i = 0; i < o.runs * filled; ++i) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      attach.time(k, [&] { (void)all[k]->attach(i % filled); });
      first.time(k, [&] { all[k]->allocate_once(); });
      detach.time(k, [&] { all[k]->detach(); });
    }
  }
  const nlohmann::ordered_json parameters{
      {"others", others}, {"capacity_bytes", capacity}, {"store_bytes", store_bytes}};
  for (const samples* s : {&attach, &first, &detach}) s->report(r, where, parameters);
}

// ---- opening --------------------------------------------------------------------------------------------------------

void make_pool(const std::string& path, std::uint64_t pages, const std::vector<std::string>& names) {
  nvm_pool_options p{};
  p.medium = NVM_MEDIUM_SHM;
  p.size = p.capacity = (pages + 8192) * 4096;
  NVM_POOL* const pool = nvm_pool_create_with(path.c_str(), &p);
  check(pool != nullptr, "nvm_pool_create_with");
  for (const std::string& name : names) check(nvm_store_create(pool, name.c_str(), nullptr) == 0, "nvm_store_create");
  check(nvm_pool_close(pool) == 0, "nvm_pool_close");
}
std::vector<std::string> names_of(std::uint64_t count) {
  // Paths, numbers and random letters, as services have them.
  std::vector<std::string> all;
  all.reserve(count);
  std::mt19937_64 random{3};
  for (std::uint64_t i = 0; i < count; ++i) {
    all.push_back(i % 2 == 0 ? fmt::format("/srv/robots/{}/{}", i % 97, i) : fmt::format("tenant/{:016x}", random()));
  }
  return all;
}

void opening(runner& r, const options& o) {
  const std::uint64_t count = o.full_or_quick<std::uint64_t>(100'000, 2'000);
  const std::string name = fmt::format("open-{}", count);
  if (!o.selects(name)) return;
  const temporary_path with{"/dev/shm", "with-stores.nvm"};
  const temporary_path without{"/dev/shm", "without-stores.nvm"};
  make_pool(with.string(), count, names_of(count));
  make_pool(without.string(), count, {});
  std::vector<measured> all{{"with stores", role::subject, {}}, {"without", role::peer, {}}};
  for (unsigned i = 0; i < o.runs * 4; ++i) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      NVM_POOL* pool = nullptr;
      all[k].ns.push_back(timed([&] { pool = nvm_pool_open((k == 0 ? with : without).c_str()); }));
      check(pool != nullptr && nvm_pool_close(pool) == 0, "nvm_pool_open");
    }
  }
  report_times(r, {name, "open", 1, {{"stores", count}}}, all);
}

// ---- names ----------------------------------------------------------------------------------------------------------

void names(runner& r, const options& o) {
  const std::uint64_t count = o.records;
  const std::string name = fmt::format("names-{}", count);
  if (!o.selects(name)) return;
  std::vector<std::string> all = names_of(count);
  const temporary_path stores{"/dev/shm", "names.nvm"};
  make_pool(stores.string(), count + count / 40, all);
  const temporary_path tree{"/dev/shm", "tree.nvm"};
  nvm_pool_options p{};
  p.medium = NVM_MEDIUM_SHM;
  p.size = p.capacity = count * 256 + (64 << 20);
  NVM_POOL* const pool = nvm_pool_create_with(tree.c_str(), &p);
  check(pool != nullptr, "nvm_pool_create_with");
  nvm_kv* const kv = nvm_kv_open(pool, "names", nullptr);
  check(kv != nullptr, "nvm_kv_open");
  nvm_pool_info before{}, after{};
  check(nvm_pool_get_info(pool, &before) == 0, "nvm_pool_get_info");
  std::uint64_t text = 0;
  for (const std::string& n : all) {
    check(nvm_kv_put(kv, n.data(), n.size(), &text, sizeof text) == 0, "nvm_kv_put");
    text += n.size();
  }
  check(nvm_pool_get_info(pool, &after) == 0, "nvm_pool_get_info");
  std::shuffle(all.begin(), all.end(), std::mt19937_64{5});
  std::vector<measured> systems{{"trie of stores", role::subject, {}}, {"kv B+tree", role::peer, {}}};
  trie_measured t;
  for (unsigned i = 0; i < o.runs; ++i) {
    t = look_names_up(stores.string(), all);
    systems[0].ns.push_back(t.ns_a_lookup);
    std::uint64_t value = 0;
    const double ns = timed([&] {
      for (const std::string& n : all)
        check(nvm_kv_get(kv, n.data(), n.size(), &value, sizeof value, nullptr) == 1, "nvm_kv_get");
    });
    systems[1].ns.push_back(ns / static_cast<double>(count));
  }
  const auto used = static_cast<double>((after.used_pages - before.used_pages) * after.page_bytes);
  const double tree_bytes = used / static_cast<double>(count);
  const nlohmann::ordered_json parameters{{"names", t.names},
                                          {"text_bytes", static_cast<double>(text) / static_cast<double>(count)},
                                          {"trie_bytes", t.bytes_a_name},
                                          {"trie_bytes_beyond_text", t.bytes_beyond_its_text},
                                          {"tree_bytes", tree_bytes}};
  report_times(r, {name, "look-up", 1, parameters}, systems);
  check(nvm_pool_close(pool) == 0, "nvm_pool_close");
}

void measure(runner& r, const options& o) {
  r.attempt([&] { figure_4(r, o, {"/dev/shm", false}); });
  if (file_system_of(o.directory) != file_system_of("/dev/shm"))
    r.attempt([&] { figure_4(r, o, {o.directory, true}); });
  for (const std::uint64_t others : {std::uint64_t{10}, o.full_or_quick<std::uint64_t>(100'000, 1'000)}) {
    for (const bool large : {false, true}) r.attempt([&] { beside_others(r, o, others, large); });
  }
  r.attempt([&] { opening(r, o); });
  r.attempt([&] { names(r, o); });
}

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "An object store beside a file for each store",
                 .directory = "/dev/shm",
                 .threads = {1},
                 .runs = 9,
                 .records = 1'000'000,
                 .quick_records = 5'000},
                [](runner& r, const options& o) { measure(r, o); });
}
