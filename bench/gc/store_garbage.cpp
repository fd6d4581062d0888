// What do collections of object stores cost and save?
//
//   stores-leak-HOW    a service over --records / 1000 stores of 1 MiB that replaces objects and leaks one of ten: what
//                      its stores take, by what lives in them; without collection, locally, detached, both
//   stores-pause       the time of an allocation while a store of 64 MiB is collected locally, beside the same without
//   stores-scan-N      all garbage among N objects: allocation words without mark words, beside looking each allocated
//                      object up in the set of reachable ones: hashed, sorted, or the list itself (N of 10,000)
//   stores-share       detached stores that are collected: the thread's share of a processor, and how long an attach
//                      takes meanwhile
#include <fmt/core.h>
#include <nvm/store.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "gc/questions.hpp"
#include "gc/typed_pool.hpp"
#include "harness/clock.hpp"
#include "object/surveyed_objects.hpp"
#include "pool/pool.hpp"

namespace nvm::bench {
namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t item_bytes = 112;  // 128 with the header
constexpr std::uint64_t shelf_places = 480;
constexpr const char* item_name = "bench_store_item";
constexpr const char* shelf_name = "bench_store_shelf";
const std::uint32_t item_type = layout::type_id_of(item_name);
const std::uint32_t shelf_type = layout::type_id_of(shelf_name);

struct item {
  item* next;
  char rest[item_bytes - 8];
};
// A store's root: shelves of items.
struct shelf {
  void* at[shelf_places];
};

void announce_types() {
  announce_type(item_name, 1, item_bytes);
  announce_type(shelf_name, shelf_places, sizeof(shelf));
}

class store_pool {
 public:
  store_pool(const options& o, std::uint64_t bytes)
      : path_{fmt::format("{}/bench-stores-{}.nvm", o.directory, ::getpid())} {
    announce_types();
    nvm_pool_options p{};
    p.medium = NVM_MEDIUM_SHM;
    p.persist = NVM_PERSIST_BEST;
    p.size = bytes / 2;
    p.capacity = bytes;
    pool_ = nvm_pool_create_with(path_.c_str(), &p);
    if (pool_ == nullptr) fail_in("nvm_pool_create_with");
  }
  ~store_pool() {
    (void)nvm_pool_close(pool_);
    ::unlink(path_.c_str());
  }
  store_pool(const store_pool&) = delete;
  store_pool& operator=(const store_pool&) = delete;

  NVM_POOL* get() const { return pool_; }
  nvm_store* attach(const std::string& name) const {
    nvm_store* const s = nvm_store_attach(pool_, name.c_str(), NVM_STORE_CREATE);
    if (s == nullptr) fail_in("nvm_store_attach");
    return s;
  }
  void collect(std::uint32_t how, std::uint32_t grown = 0) const {
    nvm_stores_options c{};
    c.collect = how;
    c.collect_grown = grown;
    c.collect_period_ms = 100;
    c.collect_load = 1'000'000;  // what else the machine does is no part of the question
    done(nvm_stores_configure(pool_, &c), "nvm_stores_configure");
  }
  nvm_collection_statistics counts() const {
    nvm_collection_statistics c{};
    done(nvm_stores_get_collections(pool_, &c), "nvm_stores_get_collections");
    return c;
  }

 private:
  std::string path_;
  NVM_POOL* pool_;
};

item* new_item(nvm_store* s) {
  auto* const i = static_cast<item*>(nvm_store_calloc(s, item_type, 1, sizeof(item)));
  if (i == nullptr) fail_in("nvm_store_calloc");
  return i;
}
// A shelf of shelves, all places taken: `items` in all.
void fill(NVM_POOL* pool, nvm_store* s, std::uint64_t items) {
  done(nvm_tx_begin(pool), "nvm_tx_begin");
  auto* const root = static_cast<shelf*>(nvm_store_calloc(s, shelf_type, 1, sizeof(shelf)));
  if (root == nullptr) fail_in("nvm_store_calloc");
  done(nvm_store_set_root(s, root), "nvm_store_set_root");
  for (std::uint64_t i = 0; i < ceil_div(items, shelf_places); ++i) {
    auto* const one = static_cast<shelf*>(nvm_store_calloc(s, shelf_type, 1, sizeof(shelf)));
    if (one == nullptr) fail_in("nvm_store_calloc");
    for (std::uint64_t k = 0; k < shelf_places && i * shelf_places + k < items; ++k) one->at[k] = new_item(s);
    root->at[i] = one;
  }
  done(nvm_tx_commit(pool), "nvm_tx_commit");
}
// Another item in a place; the old one is freed, or leaks.
void replace(NVM_POOL* pool, nvm_store* s, std::uint64_t place, bool leak, std::uint64_t* alloc_ns = nullptr) {
  auto* const root = static_cast<shelf*>(nvm_store_get_root(s));
  void*& at = static_cast<shelf*>(root->at[place / shelf_places])->at[place % shelf_places];
  done(nvm_tx_begin(pool), "nvm_tx_begin");
  const std::uint64_t since = alloc_ns == nullptr ? 0 : wall_ns();
  item* const fresh = new_item(s);
  if (alloc_ns != nullptr) *alloc_ns = wall_ns() - since;
  void* const old = at;
  done(nvm_tx_log(&at, sizeof at), "nvm_tx_log");
  at = fresh;
  if (!leak) done(nvm_free(pool, old), "nvm_free");
  done(nvm_tx_commit(pool), "nvm_tx_commit");
}

json of_collections(const nvm_collection_counts& c) {
  return {{"begun", c.begun},
          {"finished", c.finished},
          {"interrupted", c.interrupted},
          {"given_up", c.given_up},
          {"freed_objects", c.freed_objects},
          {"slices", c.slices},
          {"ns", c.ns},
          {"longest_ns", c.longest_ns}};
}
json question(const std::string& name, std::uint64_t objects) {
  json j{{"name", name}, {"threads", 1}, {"unit", "object"}, {"units_per_op", 1}};
  j["parameters"] = {{"objects", objects}};
  j["systems"] = json::array();
  j["ratios"] = json::array();
  return j;
}

// ---- a service that leaks -------------------------------------------------------------------------------------------

constexpr std::uint64_t items_of_a_store = 7680;  // with the shelves 1 MiB
struct sums {
  std::uint64_t used = 0, pages = 0;
};
sums use_of(NVM_POOL* pool) {
  sums all;
  const int ended = nvm_store_list(
      pool, nullptr,
      [](const nvm_store_info* i, void* to) {
        static_cast<sums*>(to)->used += i->used_bytes;
        static_cast<sums*>(to)->pages += i->pages * i->page_bytes;
        return 0;
      },
      &all);
  done(ended, "nvm_store_list");
  return all;
}

void measure_leak(runner& r, const options& o, const char* how, std::uint32_t collect, std::uint32_t grown) {
  const std::string name = fmt::format("stores-leak-{}", how);
  if (!o.selects(name)) return;
  const std::uint64_t stores = std::max<std::uint64_t>(o.records / 1000, 4);
  const store_pool pool{o, stores * (std::uint64_t{4} << 20) + (std::uint64_t{64} << 20)};
  const auto store_name = [](std::uint64_t i) { return fmt::format("tenant/{}", i); };
  for (std::uint64_t i = 0; i < stores; ++i) {
    nvm_store* const s = pool.attach(store_name(i));
    fill(pool.get(), s, items_of_a_store);
    done(nvm_store_detach(s), "nvm_store_detach");
  }
  const sums live = use_of(pool.get());
  pool.collect(collect, grown);
  std::mt19937_64 random{20261128};
  sums most;
  // Each store is taken up so often that all of it is replaced twice: 20 % of it leaks, were nothing collected.
  constexpr std::uint64_t batch = 512;
  const std::uint64_t turns = stores * items_of_a_store * 2 / batch;
  const std::uint64_t since = wall_ns();
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    nvm_store* const s = pool.attach(store_name(random() % stores));
    for (std::uint64_t i = 0; i < batch; ++i) replace(pool.get(), s, random() % items_of_a_store, i % 10 == 0);
    done(nvm_store_detach(s), "nvm_store_detach");
    if (turn % std::max<std::uint64_t>(turns / 20, 1) != 0) continue;
    const sums now = use_of(pool.get());
    most = {std::max(most.used, now.used), std::max(most.pages, now.pages)};
  }
  const double seconds = static_cast<double>(wall_ns() - since) / 1e9;
  const sums end = use_of(pool.get());
  most = {std::max(most.used, end.used), std::max(most.pages, end.pages)};
  const auto share = [](std::uint64_t a, std::uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  json j = question(name, stores * items_of_a_store);
  const nvm_collection_statistics c = pool.counts();
  j["parameters"].update({{"stores", stores},
                          {"replaced", turns * batch},
                          {"seconds", seconds},
                          {"used_times_live_at_most", share(most.used, live.used)},
                          {"pages_times_live_at_most", share(most.pages, live.pages)},
                          {"used_times_live_at_end", share(end.used, live.used)},
                          {"local", of_collections(c.local)},
                          {"detached", of_collections(c.detached)}});
  fmt::print(
      "\n{}, {} stores of 1 MiB, {} objects replaced in {:.1f} s: objects take at most {:.2f} times what lives, pages "
      "{:.2f} times\n",
      name, stores, turns * batch, seconds, share(most.used, live.used), share(most.pages, live.pages));
  std::fflush(stdout);
  r.add(std::move(j));
}

// ---- allocations beside a collection --------------------------------------------------------------------------------

json percentiles(std::vector<std::uint64_t>& ns) {
  std::ranges::sort(ns);
  const auto at = [&](double share) {
    return ns.empty() ? 0
                      : ns[std::min(ns.size() - 1, static_cast<std::size_t>(share * static_cast<double>(ns.size())))];
  };
  return {{"samples", ns.size()},
          {"p50", at(0.5)},
          {"p99", at(0.99)},
          {"p99.9", at(0.999)},
          {"max", ns.empty() ? 0 : ns.back()}};
}

void measure_pause(runner& r, const options& o) {
  const std::string name = "stores-pause";
  if (!o.selects(name)) return;
  const std::uint64_t megabytes = o.full_or_quick<std::uint64_t>(64, 8);
  const std::uint64_t items = megabytes * items_of_a_store;
  const store_pool pool{o, std::max<std::uint64_t>(megabytes, 16) * (std::uint64_t{4} << 20)};
  nvm_store* const s = pool.attach("s");
  if (ceil_div(items, shelf_places) > shelf_places * 3) throw std::runtime_error("too many shelves");
  // More shelves than a shelf has places for: the root is one that is three times as long.
  std::vector<std::uint64_t> without, during;
  done(nvm_tx_begin(pool.get()), "nvm_tx_begin");
  auto* const root = static_cast<void**>(nvm_store_calloc(s, shelf_type, 3, sizeof(shelf)));
  if (root == nullptr) fail_in("nvm_store_calloc");
  done(nvm_store_set_root(s, root), "nvm_store_set_root");
  done(nvm_tx_commit(pool.get()), "nvm_tx_commit");
  for (std::uint64_t i = 0; i * shelf_places < items; ++i) {
    done(nvm_tx_begin(pool.get()), "nvm_tx_begin");
    auto* const one = static_cast<shelf*>(nvm_store_calloc(s, shelf_type, 1, sizeof(shelf)));
    if (one == nullptr) fail_in("nvm_store_calloc");
    for (void*& place : one->at) place = new_item(s);
    done(nvm_tx_log(&root[i], sizeof root[i]), "nvm_tx_log");
    root[i] = one;
    done(nvm_tx_commit(pool.get()), "nvm_tx_commit");
  }
  std::mt19937_64 random{7};
  const auto work = [&](std::vector<std::uint64_t>& into) {
    std::uint64_t ns = 0;
    replace(pool.get(), s, random() % (items / shelf_places * shelf_places), random() % 10 == 0, &ns);
    into.push_back(ns);
  };
  const std::uint64_t count = o.full_or_quick<std::uint64_t>(200'000, 20'000);
  for (std::uint64_t i = 0; i < count; ++i) work(without);
  pool.collect(NVM_STORES_COLLECT_LOCALLY, 10);
  std::uint64_t finished = 0;
  const unsigned wanted = o.full_or_quick(4U, 2U);
  std::vector<std::uint64_t> idle;
  for (std::uint64_t i = 0; finished < wanted && i < count * 200; ++i) {
    const nvm_collection_counts before = pool.counts().local;
    const bool runs = before.begun > before.finished + before.given_up + before.refused;
    work(runs ? during : idle);
    finished = before.finished;
  }
  json j = question(name, items);
  const nvm_collection_counts c = pool.counts().local;
  const json a = percentiles(without);
  const json b = percentiles(during);
  j["parameters"].update({{"megabytes", megabytes}, {"without_ns", a}, {"during_ns", b}, {"local", of_collections(c)}});
  fmt::print(
      "\n{}, a store of {} MiB: allocation p50 {} ns, p99 {}, p99.9 {}, max {} during {} collections; {}, {}, {}, {} "
      "without\n",
      name, megabytes, b["p50"].dump(), b["p99"].dump(), b["p99.9"].dump(), b["max"].dump(), finished, a["p50"].dump(),
      a["p99"].dump(), a["p99.9"].dump(), a["max"].dump());
  std::fflush(stdout);
  r.add(std::move(j));
}

// ---- Fast Scan ------------------------------------------------------------------------------------------------------

// Headers of a store's objects in the order of addresses, and of those that its root leads to in that of the list.
struct listed {
  const std::byte* base = nullptr;
  geometry shape;
  std::uint64_t page = 0;  // of the store
  std::vector<std::uint64_t> allocated, reachable;
};

// A list through nine of ten.
void make_list(NVM_POOL* pool, nvm_store* s, std::uint64_t objects, listed& l) {
  l.allocated.reserve(objects);
  nvm_pool_info info{};
  done(nvm_pool_get_info(pool, &info), "nvm_pool_get_info");
  l.base = reinterpret_cast<const std::byte*>(info.base);
  const auto header_of = [&](void* p) {
    return reinterpret_cast<std::uintptr_t>(p) - info.base - sizeof(layout::object_header);
  };
  void* first = nullptr;
  for (std::uint64_t made = 0; made < objects;) {
    done(nvm_tx_begin(pool), "nvm_tx_begin");
    for (std::uint64_t i = 0; i < 512 && made < objects; ++i, ++made) {
      auto* const node = static_cast<void**>(nvm_store_alloc(s, item_type, 40));
      if (node == nullptr) fail_in("nvm_store_alloc");
      node[0] = node[1] = nullptr;
      l.allocated.push_back(header_of(node));
      if (made % 10 == 9) continue;
      node[0] = first;
      first = node;
    }
    done(nvm_store_set_root(s, first), "nvm_store_set_root");
    done(nvm_tx_commit(pool), "nvm_tx_commit");
  }
  std::ranges::sort(l.allocated);
  for (auto* n = static_cast<void**>(first); n != nullptr; n = static_cast<void**>(n[0]))
    l.reachable.push_back(header_of(n));
  done(nvm_pool_get_info(pool, &info), "nvm_pool_get_info");  // it may have grown
  const auto sb = pick_superblock(l.base, info.file_bytes);
  if (!sb) throw std::runtime_error("the pool's superblock");
  l.shape = geometry_of(*sb);
}

// The store's page is the header of the cluster that its list begins with: found by its number.
void find_page(NVM_POOL* pool, listed& l) {
  const geometry& g = l.shape;
  nvm_store_info about;
  done(nvm_store_stat(pool, "s", &about), "nvm_store_stat");
  for (std::uint64_t p = 0; p < g.size_pages && l.page == 0; ++p) {
    const std::uint64_t word = load_word(l.base, g.entry_offset(p));
    layout::page_entry e;
    if (word == 0 || entry_fault(word, p, g, g.size_pages, e) != nullptr || e.kind != layout::page_kind::cluster)
      continue;
    const auto c = cluster_at(l.base, g, p);
    if (c && c->number == about.number && c->first) l.page = g.page_offset(p);
  }
}

// Marks what can be reached, as a collection does.
void survey_list(const listed& l, object::surveyed_objects& all) {
  const auto clusters = clusters_of(l.base, l.shape, l.page);
  if (!clusters) throw std::runtime_error("the clusters of a store");
  all.begin(*clusters, l.shape);
  if (!all.survey(~0U, [](std::uint64_t, std::uint64_t) { return true; })) throw std::runtime_error("a survey");
  for (const std::uint64_t header : l.reachable) {
    object::found_object f;
    if (!all.find(header, f)) throw std::runtime_error("a survey that lacks an object");
    (void)all.mark(f);
  }
}

std::uint64_t count_unmarked(const object::surveyed_objects& all) {
  std::vector<object::found_object> out;
  std::uint64_t garbage = 0;
  for (std::uint64_t word = 0; word < all.words();) {
    out.clear();
    all.unmarked(word, 4096, out);
    if (out.empty()) break;
    garbage += out.size();
  }
  return garbage;
}

// The paper's Fast Scan: both sets in the order of addresses, one round.
std::uint64_t count_in_one_round(const std::vector<std::uint64_t>& allocated,
                                 const std::vector<std::uint64_t>& sorted) {
  std::uint64_t garbage = 0;
  std::size_t at = 0;
  for (const std::uint64_t h : allocated) {
    if (at < sorted.size() && sorted[at] == h) {
      ++at;
    } else {
      ++garbage;
    }
  }
  return garbage;
}

void measure_scan(runner& r, const options& o, std::uint64_t objects) {
  const std::string name = fmt::format("stores-scan-{}", objects);
  if (!o.selects(name)) return;
  const store_pool pool{o, objects * 96 + (std::uint64_t{64} << 20)};
  listed l;
  make_list(pool.get(), pool.attach("s"), objects, l);
  find_page(pool.get(), l);
  object::surveyed_objects all{l.base, l.shape};
  survey_list(l, all);
  const std::unordered_set<std::uint64_t> hashed(l.reachable.begin(), l.reachable.end());
  std::vector<std::uint64_t> sorted = l.reachable;
  std::ranges::sort(sorted);

  json j = question(name, objects);
  const std::uint64_t expected = l.allocated.size() - l.reachable.size();
  const auto system = [&](const char* what, role as, auto&& scan) {
    std::vector<double> ns;
    for (unsigned run = 0; run < o.runs; ++run) {
      const std::uint64_t since = wall_ns();
      const std::uint64_t garbage = scan();
      ns.push_back(static_cast<double>(wall_ns() - since) / static_cast<double>(objects));
      if (garbage != expected) throw std::runtime_error(fmt::format("{} found {} of {}", what, garbage, expected));
    }
    fmt::print("  {:<28} median {:>10.3f} ns an object\n", what, spread_of(ns).median);
    j["systems"].push_back(
        {{"name", what}, {"role", as == role::subject ? "subject" : "peer"}, {"wall_ns", document_of(ns)}});
    return ns;
  };
  fmt::print("\n{}\n", name);
  const std::vector<double> own = system("words", role::subject, [&] { return count_unmarked(all); });
  const auto against = [&](const char* what, auto&& scan) {
    const std::vector<double> its = system(what, role::peer, scan);
    j["ratios"].push_back({{"subject", "words"}, {"peer", what}, {"wall", document_of(pairwise_ratio(its, own))}});
  };
  const auto count_missing = [&](auto&& has) {
    std::uint64_t garbage = 0;
    for (const std::uint64_t header : l.allocated) garbage += has(header) ? 0 : 1;
    return garbage;
  };
  against("hash", [&] { return count_missing([&](std::uint64_t h) { return hashed.contains(h); }); });
  against("binary search",
          [&] { return count_missing([&](std::uint64_t h) { return std::ranges::binary_search(sorted, h); }); });
  against("sorted sets, one round", [&] { return count_in_one_round(l.allocated, sorted); });
  if (objects <= 10'000) {
    against("the structure itself", [&] {
      return count_missing([&](std::uint64_t h) { return std::ranges::find(l.reachable, h) != l.reachable.end(); });
    });
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

// ---- the thread -----------------------------------------------------------------------------------------------------

void measure_share(runner& r, const options& o) {
  const std::string name = "stores-share";
  if (!o.selects(name)) return;
  const std::uint64_t stores = std::max<std::uint64_t>(o.records / 1000, 4);
  const store_pool pool{o, stores * (std::uint64_t{2} << 20) + (std::uint64_t{64} << 20)};
  const auto store_name = [](std::uint64_t i) { return fmt::format("tenant/{}", i); };
  std::mt19937_64 random{11};
  for (std::uint64_t i = 0; i < stores; ++i) {
    nvm_store* const s = pool.attach(store_name(i));
    fill(pool.get(), s, items_of_a_store);
    for (std::uint64_t k = 0; k < items_of_a_store / 10; ++k) replace(pool.get(), s, random() % items_of_a_store, true);
    done(nvm_store_detach(s), "nvm_store_detach");
  }
  const auto attach_all = [&](std::uint64_t seconds) {
    std::vector<std::uint64_t> ns;
    const std::uint64_t until = wall_ns() + seconds * 1'000'000'000;
    while (wall_ns() < until) {
      const std::string which = store_name(random() % stores);
      const std::uint64_t since = wall_ns();
      nvm_store* const s = nvm_store_attach(pool.get(), which.c_str(), 0);
      ns.push_back(wall_ns() - since);
      if (s == nullptr) fail_in("nvm_store_attach");
      done(nvm_store_detach(s), "nvm_store_detach");
      std::this_thread::sleep_for(std::chrono::microseconds{300});
    }
    return ns;
  };
  const std::uint64_t seconds = o.full_or_quick<std::uint64_t>(10, 1);
  std::vector<std::uint64_t> without = attach_all(seconds);
  pool.collect(NVM_STORES_COLLECT_DETACHED);
  const nvm_collection_counts before = pool.counts().detached;
  const std::uint64_t since = wall_ns();
  std::vector<std::uint64_t> beside = attach_all(seconds);
  const double wall = static_cast<double>(wall_ns() - since);
  const nvm_collection_counts after = pool.counts().detached;
  const double share = static_cast<double>(after.ns - before.ns) / wall;
  json j = question(name, stores * items_of_a_store);
  const json a = percentiles(without);
  const json b = percentiles(beside);
  j["parameters"].update({{"stores", stores},
                          {"share_of_a_processor", share},
                          {"attach_without_ns", a},
                          {"attach_beside_ns", b},
                          {"detached", of_collections(after)}});
  fmt::print(
      "\n{}, {} stores: {:.2f} % of a processor, longest slice {:.0f} us; attach p50 {} ns, p99.9 {}, max {}; {}, {}, "
      "{} "
      "without\n",
      name, stores, share * 100, static_cast<double>(after.longest_ns) / 1e3, b["p50"].dump(), b["p99.9"].dump(),
      b["max"].dump(), a["p50"].dump(), a["p99.9"].dump(), a["max"].dump());
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_store_garbage(runner& r, const options& o) {
  measure_leak(r, o, "nothing", NVM_STORES_COLLECT_NOTHING, 0);
  measure_leak(r, o, "local", NVM_STORES_COLLECT_LOCALLY, 0);
  measure_leak(r, o, "local-15", NVM_STORES_COLLECT_LOCALLY, 15);
  measure_leak(r, o, "detached", NVM_STORES_COLLECT_DETACHED, 0);
  measure_leak(r, o, "both", NVM_STORES_COLLECT_LOCALLY | NVM_STORES_COLLECT_DETACHED, 0);
  measure_pause(r, o);
  for (std::uint64_t n = 10'000; n <= 10 * o.records; n *= 10) measure_scan(r, o, n);
  measure_share(r, o);
}

}  // namespace nvm::bench
