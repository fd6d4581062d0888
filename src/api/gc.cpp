// The tracing collector of the C interface: roots, refusals, and the frees.
#include "nvm/gc.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/gc_beside.hpp"
#include "api/object_stores.hpp"
#include "api/pool_object.hpp"
#include "base/given_options.hpp"
#include "object/garbage.hpp"
#include "object/led_pointers.hpp"
#include "object/listed_objects.hpp"
#include "object/null_words.hpp"

namespace nvm::api {
namespace {

using object::found_object;
using object::garbage_ways;
using object::listed_objects;
using object::placed_objects;
using object::tracer;
using object::way_to;

constexpr std::size_t frees_max = 256;  // of one transaction
constexpr std::uint64_t header_bytes = sizeof(layout::object_header);

std::uint64_t ns_since(std::chrono::steady_clock::time_point start) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
}

std::uint64_t commits_of(nvm_pool* pool) noexcept {
  nvm_statistics s{};
  pool->engine->statistics(s);
  return s.commits;
}

// One call of nvm_gc().
class collection {
 public:
  collection(nvm_pool* pool, const nvm_gc_options& options, nvm_gc_report& report) noexcept
      : pool_{pool}, options_{options}, report_{report} {}

  // May throw std::bad_alloc.
  [[nodiscard]] status run() {
    const all_pages_open stores{pool_};
    if (status s = admit(); !s) return s;
    if (pool_->references != nullptr && options_.dry_run == 0) {
      // After the frees, records that still wait would be about objects that took the places of freed ones.
      if (status s = pool_->references->counts().settle(object::references::how::at_rest); !s) return s;
    }
    commits_ = commits_of(pool_);
    if (status s = plan(); !s) return s;
    const auto start = std::chrono::steady_clock::now();
    const status marked = pool_->file->geometry().home_bytes == 0 ? mark_placed() : mark_listed();
    report_.mark_ns = ns_since(start);
    if (!marked) return marked;
    if (status s = intact(pool_); !s) return s;
    if (options_.dry_run != 0) return at_rest();
    if (status s = clear_weak(); !s) return s;
    if (status s = free_all(); !s) return s;
    if (planted(plant::weak_cleared_last)) {
      if (status s = make_null(weak_); !s) return s;
    }
    if (pool_->references == nullptr) return {};
    return count_anew();
  }

 private:
  [[nodiscard]] unsigned threads() const noexcept {
    return options_.threads != 0 ? options_.threads : platform::processors();
  }

  [[nodiscard]] status admit() const noexcept {
    const char* const path = pool_->file->path();
    if (options_.processor_percent != 0)
      return fail(errc::invalid, "processor_percent is of collections beside transactions: `beside` is not set");
    if (pool_->engine->translates())
      return fail(errc::engine, "%s is open with translated reads: its objects cannot be read in place", path);
    if (pool_->engine->open_transactions() != 0 || isolation::participant::any_inside(&pool_->barriers))
      return fail(errc::tx_open, "%s: garbage cannot be collected while a transaction is open", path);
    return {};
  }
  // Whether no other transaction has committed since the collection began, and none is open.
  [[nodiscard]] status at_rest() const noexcept {
    const std::uint64_t now = commits_of(pool_);
    if (now == commits_ && pool_->engine->open_transactions() == 0) return {};
    return fail(errc::busy, "%s: found transactions of other threads during a collection, expected a pool at rest",
                pool_->file->path());
  }

  // The plans of the pool's types.
  [[nodiscard]] status plan() {
    if (status s = bring_types(pool_); !s) return s;
    const std::lock_guard guard{pool_->types_lock};
    auto plans = plans_to_follow(pool_);
    if (!plans) return plans.error();
    plans_ = std::move(*plans);
    plans_.untyped_are_bytes(options_.untyped == 1 || (options_.untyped == 0 && untyped_are_bytes(pool_)));
    // Without its visitor a type may have pointers that are not aligned.
    if (options_.untyped == 2) plans_.guess_pointers(options_.dry_run != 0);
    if (options_.pointer == nullptr) return {};
    const auto types = pool_->engine->types();
    if (!types) return types.error();
    if (types->statics().empty()) return {};
    auto programs = object::static_table::read(types->statics());
    if (!programs) return programs.error();
    programs_ = std::move(*programs);
    return {};
  }

  [[nodiscard]] status mark_placed() {
    placed_objects objects{pool_->base(), pool_->file->geometry()};
    return mark(objects, [&](auto& t) { bytes_that_may_point(objects, t); });
  }
  [[nodiscard]] status mark_listed() {
    std::vector<listed_objects::entry> all;
    struct context {
      std::vector<listed_objects::entry>& all;
      bool full = false;
    } k{all};
    auto listed = pool_->engine->each(
        [](void* raw, const object_facts& o) {
          auto* c = static_cast<context*>(raw);
          try {
            c->all.push_back({o.header(), o.usable + o.aligned.gap});
            return 0;
          } catch (const std::bad_alloc&) {
            c->full = true;
            return 1;
          }
        },
        &k);
    if (!listed) return listed.error();
    if (k.full) return fail(errc::no_memory, "no volatile memory for a list of objects");
    listed_objects objects{std::move(all)};
    return mark(objects, [&](auto& t) { own_objects(objects, t); });
  }

  // Conservatively, the contents of stores and structures are roots.
  template <class Objects>
  void own_objects(const Objects& objects, tracer<Objects>& t) const {
    objects.each(0, objects.units(), [&](const found_object& o) {
      const auto p = object::payload_of(pool_->base(), o.header, objects.room_of(o));
      if (p && layout::is_type_of_library(p->type)) t.roots_in(p->at, p->bytes);
    });
  }
  void bytes_that_may_point(const placed_objects& objects, tracer<placed_objects>& t) const {
    own_objects(objects, t);
    const geometry g = pool_->file->geometry();
    for (std::uint64_t page = 0; page < g.size_pages; ++page) {
      const std::uint64_t word = load_word(pool_->base(), g.entry_offset(page));
      layout::page_entry e;
      if (word == 0 || entry_fault(word, page, g, g.size_pages, e) != nullptr) continue;
      if (e.kind == layout::page_kind::cluster) structures_of_store(page, e.length_pages, t);
      if (!layout::transactional(e)) t.roots_in(g.page_offset(page), std::uint64_t{e.length_pages} << g.page_shift);
    }
  }
  // Structures inside of an object store that has the cluster.
  void structures_of_store(std::uint64_t page, std::uint64_t pages, tracer<placed_objects>& t) const {
    const geometry g = pool_->file->geometry();
    cluster c;
    if (cluster_fault(pool_->base(), g, page, pages, c).what != nullptr) return;
    each_inner_entry(
        pool_->base(), g, c,
        [&](std::uint64_t inner, const layout::page_entry& e, std::uint64_t) {
          if (!layout::transactional(e))
            t.roots_in(g.page_offset(inner), std::uint64_t{e.length_pages} << g.page_shift);
          return true;
        },
        [](const damage&) {});
  }

  template <class Objects, class Untyped>
  [[nodiscard]] status mark(Objects& objects, Untyped&& untyped_roots) {
    if (status s = objects.survey(threads()); !s) return s;
    report_.objects = objects.objects();
    tracer<Objects> t{objects,
                      pool_->base(),
                      reinterpret_cast<std::uintptr_t>(pool_->base()),
                      pool_->file->geometry().address_bytes(),
                      plans_,
                      {.threads = threads(),
                       .conservative = options_.conservative != 0,
                       .progress = options_.progress == nullptr ? nullptr : tell_marked,
                       .argument = this}};
    auto root = pool_->engine->root();
    if (!root) return root.error();
    if (*root != 0) t.root(*root);
    if constexpr (requires { objects.keep_objects_of_stores(); }) {
      objects.each_root_of_stores([&](std::uint64_t offset) { t.root(offset); });
    }
    pool_->held.each([&](std::uint64_t offset) {
      ++report_.held_objects;
      t.root(offset);
    });
    if (options_.conservative != 0 || options_.untyped == 2) untyped_roots(t);
    if (status s = t.run(); !s) return s;
    const object::trace_sums sums = t.sums();
    if constexpr (requires { objects.keep_objects_of_stores(); }) {
      // Those that hang from no root are kept as well, until their store is collected, with what they refer to. They
      // are not what can be reached, so the report leaves them out.
      const bool looks_only = options_.dry_run != 0 && options_.pointer != nullptr;
      if (!looks_only)
        objects.each_unmarked_of_stores([&](const found_object& o) {
          if (const auto p = object::payload_of(pool_->base(), o.header, objects.room_of(o)); p) t.root(p->at);
        });
      if (status s = t.run(); !s) return s;
    }
    report_.reachable_objects = sums.objects;
    report_.reachable_bytes = sums.bytes;
    report_.pointers = sums.pointers;
    report_.stray_pointers = sums.stray;
    report_.foreign_pointers = sums.foreign;
    if (!t.sums().undescribed.empty() && options_.conservative == 0) {
      return refuse_undescribed(
          pool_, "nobody has described the types of objects that can be reached, and what they point to is unknown",
          t.sums().undescribed);
    }
    // Objects in object stores are collected with their stores.
    if constexpr (requires { objects.keep_objects_of_stores(); }) objects.keep_objects_of_stores();
    if (status s = sweep(objects); !s) return s;
    if (options_.conservative == 0) {
      weak_ = object::weak_pointers_to_garbage(objects, pool_->base(), reinterpret_cast<std::uintptr_t>(pool_->base()),
                                               plans_);
      report_.weak_pointers = weak_.size();
    }
    tell_types(objects);
    if (options_.pointer != nullptr) tell_pointers(objects);
    return {};
  }
  static void tell_marked(void* argument, std::uint64_t marked) {
    auto* c = static_cast<collection*>(argument);
    c->tell(NVM_GC_MARKING, marked, c->report_.objects);
  }
  void tell(nvm_gc_phase phase, std::uint64_t done, std::uint64_t total) const noexcept {
    if (options_.progress == nullptr) return;
    const platform::out_of_call theirs;
    options_.progress(phase, done, total, options_.argument);
  }

  // Fast Scan in parts, whose lists together are in the order of addresses.
  template <class Objects>
  [[nodiscard]] status sweep(const Objects& objects) {
    const unsigned parts = threads();
    const std::uint64_t share = round_up(ceil_div(objects.units(), parts), layout::coarse_extent_pages);
    std::vector<std::vector<found_object>> found(parts);
    std::atomic<errc> failed{errc::ok};
    platform::run_parts(parts, [&](unsigned part) noexcept {
      try {
        const std::uint64_t first = std::min(part * share, objects.units());
        objects.each_unmarked(first, std::min(first + share, objects.units()), [&](const found_object& o) {
          const auto p = object::payload_of(pool_->base(), o.header, objects.room_of(o));
          if (!p) failed = errc::corrupt;
          if (p && !layout::is_type_of_library(p->type)) found[part].push_back(o);
        });
      } catch (const std::bad_alloc&) {
        failed = errc::no_memory;
      }
    });
    if (failed == errc::no_memory) return fail(errc::no_memory, "no volatile memory for a list of garbage");
    if (failed == errc::corrupt)
      return fail(errc::corrupt, "%s: an object that cannot be reached has a header that fails its check",
                  pool_->file->path());
    for (const auto& f : found) garbage_.insert(garbage_.end(), f.begin(), f.end());
    report_.garbage_objects = garbage_.size();
    for (const found_object& g : garbage_) report_.garbage_bytes += payload(g).bytes;
    return {};
  }
  [[nodiscard]] object::payload_place payload(const found_object& g) const noexcept {
    // The sweep has checked it, its room too.
    return *object::payload_of(pool_->base(), g.header, layout::object_bytes_max);
  }

  // ---- what is told about it ----

  template <class Objects>
  void tell_types(const Objects& objects) {
    if (options_.type == nullptr || garbage_.empty()) return;
    std::optional<garbage_ways<Objects>> ways;
    if (options_.ways != 0)
      ways.emplace(objects, pool_->base(), reinterpret_cast<std::uintptr_t>(pool_->base()), plans_,
                   options_.conservative != 0, garbage_);
    struct of_type {
      nvm_gc_type sum{};
      std::size_t example = 0;
    };
    std::map<std::uint32_t, of_type> types;
    for (std::size_t i = 0; i < garbage_.size(); ++i) {
      const auto p = payload(garbage_[i]);
      const auto [at, first] = types.try_emplace(p.type);
      of_type& t = at->second;
      t.sum.type = p.type;
      ++t.sum.objects;
      t.sum.bytes += p.bytes;
      if (!ways) continue;
      if ((*ways)[i].alone) ++t.sum.unlinked;
      if (first || (*ways)[i].depth < (*ways)[t.example].depth) t.example = i;
    }
    std::vector<of_type> order;
    order.reserve(types.size());
    for (const auto& [id, t] : types) order.push_back(t);
    std::sort(order.begin(), order.end(), [](const of_type& a, const of_type& b) {
      return a.sum.bytes != b.sum.bytes ? a.sum.bytes > b.sum.bytes : a.sum.type < b.sum.type;
    });
    for (of_type& t : order) {
      std::vector<nvm_gc_step> steps;
      if (ways) way(*ways, t.example, steps);
      t.sum.way = steps.data();
      t.sum.steps = steps.size();
      const platform::out_of_call theirs;
      options_.type(&t.sum, options_.argument);
    }
  }
  template <class Ways>
  void way(const Ways& ways, std::size_t to, std::vector<nvm_gc_step>& steps) const {
    std::uint64_t pointer = 0;
    for (std::size_t i = to; steps.size() < NVM_GC_STEPS_MAX; i = ways[i].from) {
      const auto p = payload(garbage_[i]);
      steps.push_back({pool_->base() + p.at, p.type, 0, pointer});
      pointer = ways[i].at;
      if (ways[i].from == way_to::nothing) break;
    }
    std::reverse(steps.begin(), steps.end());
  }

  // The pointers of marked objects that lead to no object.
  template <class Objects>
  void tell_pointers(Objects& objects) const {
    const auto base = reinterpret_cast<std::uintptr_t>(pool_->base());
    objects.each(0, objects.units(), [&](const found_object& o) {
      if (!objects.marks().test(o.mark)) return;
      const auto tell_one = [&](const object::led_pointer& led) {
        if (led.where == object::leads_to::an_object || is_program(led)) return;
        const bool inside = led.where == object::leads_to::no_object;
        const bool beside = nvm_is_durable(reinterpret_cast<const void*>(led.value)) != 0;
        if (led.word.guessed && !inside && !beside && !is_of_processes(led.value)) return;
        const nvm_gc_pointer p{.object = pool_->base() + led.object.at,
                               .type = led.object.type,
                               .kind = static_cast<std::uint32_t>(led.word.kind),
                               .at = led.word.at,
                               .value = led.value,
                               .place = static_cast<std::uint32_t>(inside   ? NVM_GC_NO_OBJECT
                                                                   : beside ? NVM_GC_OTHER_POOL
                                                                            : NVM_GC_ELSEWHERE),
                               .guessed = led.word.guessed};
        const platform::out_of_call theirs;
        options_.pointer(&p, options_.argument);
      };
      object::each_led_pointer(objects, o, pool_->base(), base, pool_->file->geometry().address_bytes(), plans_,
                               tell_one);
    });
  }
  // Whether it leads into a program, as it may.
  [[nodiscard]] bool is_program(const object::led_pointer& led) const noexcept {
    if (led.word.kind != layout::field_kind::static_pointer && !led.word.guessed) return false;
    const auto around = programs_.find_around(led.value);
    return around.object || around.image;
  }
  // Whether Linux has programs, heaps, libraries or stacks there, as it places them by itself.
  static bool is_of_processes(std::uint64_t address) noexcept {
    return address >= 0x5500'0000'0000 && address < 0x8000'0000'0000;
  }

  // ---- weak pointers to garbage, and the frees ----

  // All of them, before anything is freed: a crash in between leaves garbage, and no pointer to memory with another
  // use.
  [[nodiscard]] status clear_weak() { return planted(plant::weak_cleared_last) ? status{} : make_null(weak_); }
  [[nodiscard]] status make_null(std::span<const std::uint64_t> places) {
    for (std::size_t at = 0; at < places.size(); at += object::null_words_at_once) {
      const auto some = places.subspan(at, std::min(object::null_words_at_once, places.size() - at));
      if (status s = at_rest(); !s) return s;
      lsn_t unread = 0;
      const status done = in_transaction(
          [&](open_transaction& t) { return t.assign_all(object::null_words(pool_->base(), some)); }, unread);
      if (!done) return done;
    }
    return {};
  }

  [[nodiscard]] status free_all() {
    const auto start = std::chrono::steady_clock::now();
    lsn_t last = 0;
    status s;
    std::size_t most = frees_max;
    for (std::size_t at = 0; at < garbage_.size() && s;) {
      const std::size_t n = std::min(most, garbage_.size() - at);
      s = at_rest();
      if (s) s = free_some(std::span{garbage_}.subspan(at, n), last);
      if (s.error() == errc::no_space && n > 1) {
        // In a full pool a transaction has what its lane has, and no more.
        most = n / 4 + 1;
        s = {};
        continue;
      }
      if (s) tell(NVM_GC_FREEING, at + n, garbage_.size());
      at += n;
    }
    if (s) s = garbage_.empty() ? at_rest() : pool_->engine->wait(last);
    // The pool has failed between two transactions: frees of the earlier ones may be lost.
    if (s.error() == errc::io && last != 0 && !pool_->engine->is_durable(last)) s = engines::in_doubt();
    if (last != 0 && s) s = change_is_intact(pool_);
    report_.free_ns = ns_since(start);
    return s;
  }
  [[nodiscard]] status free_some(std::span<const found_object> some, lsn_t& last) {
    std::uint64_t bytes = 0;
    const status freed = in_transaction(
        [&](open_transaction& t) {
          status s;
          for (const found_object& g : some) {
            bytes += payload(g).bytes;
            if (s) s = t.release(g.header + header_bytes);
          }
          return s;
        },
        last);
    if (!freed) return freed;
    report_.freed_objects += some.size();
    report_.freed_bytes += bytes;
    return {};
  }
  template <class Body>
  [[nodiscard]] status in_transaction(Body&& body, lsn_t& last) {
    thread_transactions& mine = thread_transactions::mine();
    if (status s = begin_transaction(pool_, mine); !s) return s;
    const entry e = *mine.in(pool_);
    if (status s = body(*e.transaction); !s) {
      const status why = if_intact(pool_, s);
      abort_all_levels(e);
      return why;
    }
    std::vector<tx::hook> hooks;
    auto lsn = e.transaction->commit(hooks);
    mine.remove(pool_);
    if (!lsn) return lsn.error();
    last = *lsn;
    ++commits_;
    if (pool_->references != nullptr) {
      if (status s = pool_->references->counts().settle(object::references::how::counts); !s) return s;
      commits_ = commits_of(pool_);
    }
    ++report_.transactions;
    return {};
  }

  // All objects that are left can be reached: counts become what their pointers say.
  [[nodiscard]] status count_anew() noexcept {
    object::references& counts = pool_->references->counts();
    const std::uint64_t before = counts.sums().mended;
    const status s = counts.recount();
    report_.mended_counts = counts.sums().mended - before;
    return s;
  }

  nvm_pool* pool_;
  const nvm_gc_options& options_;
  nvm_gc_report& report_;
  object::pointer_plans plans_;
  object::static_table programs_;  // what static pointers may lead to; only for options_.pointer
  std::vector<found_object> garbage_;
  std::vector<std::uint64_t> weak_;  // places of weak pointers to garbage
  std::uint64_t commits_ = 0;
};

// Of any collection.
status admit(const nvm_pool* pool, const nvm_gc_options& options) noexcept {
  if (pool->file->read_only() && options.dry_run == 0) {
    return fail(errc::read_only, "%s is open read-only: only a dry run can look for garbage", pool->file->path());
  }
  if (options.untyped > 2) return fail(errc::invalid, "untyped: found %u, expected at most 2", options.untyped);
  if (options.pointer != nullptr && options.conservative != 0)
    return fail(errc::invalid, "pointers are told by the types, which `conservative` does not look at");
  return {};
}

status collect(nvm_pool* pool, const nvm_gc_options& options, nvm_gc_report& report) noexcept try {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s;
  // In a failed pool objects would be missing that an earlier collection freed in memory alone; they are not free in
  // the file.
  if (status s = medium_is_whole(pool); !s) return s;
  const std::unique_lock one_at_a_time{pool->collecting, std::try_to_lock};
  if (!one_at_a_time) return fail(errc::busy, "%s: another collection runs", pool->file->path());
  if (status s = admit(pool, options); !s) return s;
  if (options.beside != 0) return if_intact(pool, collect_beside(pool, options, report));
  std::unique_lock<std::mutex> resting;
  if (pool->references != nullptr) resting = pool->references->hold_thread();
  return if_intact(pool, collection{pool, options, report}.run());
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a collection");
}

// Offset of the payload of the object around p.
result<std::uint64_t> payload_around(nvm_pool* pool, const void* p) noexcept {
  if (pool == nullptr) return fail(errc::bad_pointer, "%p is inside no open pool", p);
  if (status s = pool->file->usable(); !s) return s.error();
  const auto at = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(pool->base());
  if (!pool->file->geometry().in_objects(at, 1))
    return fail(errc::bad_pointer, "%p is not inside the data of %s", p, pool->file->path());
  const auto facts = pool->engine->find_around(at);
  if (status s = intact(pool); !s) return s.error();
  if (!facts) return facts.error();
  if (at < facts->payload || at - facts->payload >= facts->bytes)
    return fail(errc::bad_pointer, "%p is inside no object of %s", p, pool->file->path());
  return facts->payload;
}

}  // namespace
}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

int nvm_gc(NVM_POOL* pool, const nvm_gc_options* options, nvm_gc_report* report) {
  const nvm::platform::in_call here;
  nvm_gc_report unread;
  nvm_gc_report& to = report != nullptr ? *report : unread;
  to = {};
  const auto o = nvm::given_options<80>(options, "nvm_gc_options");
  return o ? api::answer(api::collect(pool, *o, to)) : api::report(o.error());
}

void* nvm_object_around(NVM_POOL* pool, const void* p) {
  const nvm::platform::in_call here;
  if (pool == nullptr) return api::report_null<void>(fail(errc::invalid, "the pool is NULL"));
  const auto at = api::payload_around(pool, p);
  return at ? pool->base() + *at : api::report_null<void>(at.error());
}

int nvm_hold(const void* p) {
  if (p == nullptr) return 0;
  const nvm::platform::in_call here;
  NVM_POOL* const pool = nvm_pool_of(p);
  const auto at = api::payload_around(pool, p);
  return at ? api::answer(pool->held.add(*at)) : api::report(at.error());
}

int nvm_drop(const void* p) {
  if (p == nullptr) return 0;
  const nvm::platform::in_call here;
  NVM_POOL* const pool = nvm_pool_of(p);
  // Where p is the payload itself there is nothing to look for; the program may even have freed it.
  if (pool != nullptr && pool->file->ours()) {
    api::tell_dropped(pool, reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(pool->base()));
  }
  if (pool != nullptr && pool->file->ours() &&
      pool->held.take(reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(pool->base())))
    return 0;
  const auto at = api::payload_around(pool, p);
  if (!at) return api::report(at.error());
  if (pool->held.take(*at)) return 0;
  return api::report(fail(errc::bad_pointer, "the object at %p is not held", p));
}

}  // extern "C"
