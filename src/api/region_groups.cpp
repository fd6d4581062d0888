// Transactions of regions of the C interface: of one, and of several.
#include <algorithm>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "api/open_regions.hpp"

namespace nvm::api {
namespace {

nvm_region_group* handle_of(const open_group& g) noexcept {
  return reinterpret_cast<nvm_region_group*>(std::uintptr_t{g.ticket});  // NOLINT(performance-no-int-to-ptr)
}
enum class kind_of_group : std::uint8_t { single, several };

result<open_group*> new_group(part_of_thread& p, nvm_regions* set, kind_of_group kind) noexcept try {
  auto change = set->of->begin(p.number());
  if (!change) return change.error();
  const auto unused =
      std::find_if(p.groups.begin(), p.groups.end(), [](const auto& g) { return g->change == nullptr; });
  open_group* g = nullptr;
  if (unused != p.groups.end()) {
    g = unused->get();
  } else {
    p.groups.push_back(std::make_unique<open_group>());
    g = p.groups.back().get();
  }
  if (status s = begin_use(*p.of, p.place); !s) return s.error();
  const std::uint64_t ticket = kind == kind_of_group::single ? 0 : p.of_groups.next();
  *g = {set, {*p.of, p.place}, std::move(*change), ticket, false, {}};
  return g;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a transaction of regions");
}
result<region::mode> mode_of(unsigned mode) noexcept {
  if (mode > region::mode_max) return fail(errc::invalid, "mode %u is none of enum nvm_region_mode", mode);
  return static_cast<region::mode>(mode);
}
// A transaction without its group, which is over.
struct ending {
  explicit ending(open_group& g) noexcept : place{std::move(g.place)}, change{std::move(g.change)} {}
  const place_in_use<open_region_sets> place;  // ends last
  const std::unique_ptr<open_regions_change> change;
};
// Ends a transaction: its changes are durable, or become durable later.
int end_group(open_group* g, bool commits) noexcept {
  nvm_regions* const set = g->set;
  const ending now{*g};
  if (!commits) return 0;
  return told(run<effect::changes>(set, [&](part_of_thread&) -> result<int> {
    if (status s = now.change->commit(); !s) return s.error();
    return 0;
  }));
}

// `absent`: the first number of which there is no region; errc::not_found then.
result<nvm_region_group*> begin_group(nvm_regions* set, const std::uint64_t* rids, std::size_t n,
                                      std::optional<std::uint64_t>& absent) noexcept {
  nvm_region_group* made = nullptr;
  const auto done = run<effect::begins>(set, [&](part_of_thread& p) -> result<int> {
    std::vector<std::uint64_t> sorted;
    try {
      sorted.assign(rids, rids + n);
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for a group of %zu regions", n);
    }
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    for (const std::uint64_t rid : sorted) {
      if (group_with(p, set, rid) == nullptr) continue;
      return fail(errc::tx_open, "this thread has region %lu in a transaction already", rid);
    }
    const auto g = new_group(p, set, kind_of_group::several);
    if (!g) return g.error();
    for (const std::uint64_t rid : sorted) {
      if (status s = (*g)->change->join(rid, region::mode::adaptive); !s) {
        const ending now{**g};
        if (s.error() == errc::not_found) absent = rid;
        return s.error();
      }
    }
    made = handle_of(**g);
    return 0;
  });
  if (!done) return done.error();
  return made;
}
// Whether the calling thread has a transaction of regions of the pool open.
bool this_thread_has_open_group(const nvm_regions* set) noexcept {
  const auto part = part_in(set->pool);
  return part && has_open_group(**part);
}

result<nvm_region_group*> begin_again(nvm_regions* set, const std::vector<std::uint64_t>& all,
                                      std::optional<std::uint64_t>& absent) noexcept {
  const platform::in_call here;
  return begin_group(set, all.data(), all.size(), absent);
}
// Called before a group is begun again of which a region was refused: that one, or one that another transaction is
// about to make.  Beside another transaction of this thread it might be refused for ever.
status await_refused(nvm_regions* set, std::optional<std::uint64_t> refused, std::vector<std::uint64_t>& all) noexcept {
  if (refused) {
    try {
      all.push_back(*refused);
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for a group of regions");
    }
    return {};
  }
  if (this_thread_has_open_group(set)) {
    return fail(errc::busy,
                "a region is about to be made by another transaction, and this thread has one open beside "
                "the group: waiting might be for ever");
  }
  std::this_thread::yield();
  return {};
}

}  // namespace
}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;
using nvm::result;
using nvm::status;
using nvm::api::effect;

extern "C" {

int nvm_region_begin(nvm_regions* set, uint64_t rid, unsigned mode) {
  const nvm::platform::in_call here;
  const auto how = api::mode_of(mode);
  if (!how) return api::report(how.error());
  return api::told(api::run<effect::begins>(set, [&](api::part_of_thread& p) -> result<int> {
    if (api::group_with(p, set, rid) != nullptr) {
      return fail(errc::tx_open, "this thread has region %lu in a transaction already", rid);
    }
    const auto g = api::new_group(p, set, api::kind_of_group::single);
    if (!g) return g.error();
    if (status s = (*g)->change->join(rid, *how); !s) {
      const api::ending now{**g};
      return s.error();
    }
    return 0;
  }));
}

static result<api::open_group*> single_of(nvm_regions* set, uint64_t rid) {
  if (status s = api::usable(set); !s) return s.error();
  const auto part = api::part_in(set->pool);
  if (!part) return part.error();
  api::open_group* const g = api::group_with(**part, set, rid);
  if (g != nullptr && g->single()) return g;
  return fail(errc::invalid, "this thread has begun no transaction for region %lu", rid);
}

int nvm_region_commit(nvm_regions* set, uint64_t rid) {
  const nvm::platform::in_call here;
  const auto g = single_of(set, rid);
  return g ? api::end_group(*g, true) : api::report(g.error());
}

int nvm_region_abort(nvm_regions* set, uint64_t rid) {
  const nvm::platform::in_call here;
  const auto g = single_of(set, rid);
  return g ? api::end_group(*g, false) : api::report(g.error());
}

int nvm_region_commit_async(nvm_regions* set, uint64_t rid, uint64_t* position) {
  if (position == nullptr) return api::report(fail(errc::invalid, "the place for the position is NULL"));
  const nvm::platform::in_call here;
  *position = NVM_LSN_NONE;
  const auto g = single_of(set, rid);
  if (!g) return api::report(g.error());
  const api::ending now{**g};
  return api::told(api::run<effect::begins>(set, [&](api::part_of_thread& p) -> result<int> {
    if (status s = now.change->commit(); !s) return s.error();
    // The medium is asked after that, as by nvm_lf_get_position().
    const uint64_t reached = set->all->side->position(p.number());
    if (status s = nvm::engines::of_what_is_done(api::medium_is_whole(set->pool)); !s) return s.error();
    *position = reached;
    return 0;
  }));
}

nvm_region_group* nvm_region_group_begin(nvm_regions* set, const uint64_t* rids, size_t n) {
  const nvm::platform::in_call here;
  if (rids == nullptr && n != 0) return api::report_null<nvm_region_group>(fail(errc::invalid, "the numbers are NULL"));
  std::optional<uint64_t> absent;
  const auto made = api::begin_group(set, rids, n, absent);
  return made ? *made : api::report_null<nvm_region_group>(made.error());
}

int nvm_region_group_join(nvm_region_group* group, uint64_t rid, unsigned mode) {
  const nvm::platform::in_call here;
  const auto g = api::group_of(group);
  if (!g) return api::report(g.error());
  const auto how = api::mode_of(mode);
  if (!how) return api::report(how.error());
  return api::told(api::run<effect::begins>((*g)->set, [&](api::part_of_thread& p) -> result<int> {
    if (api::group_with(p, (*g)->set, rid) != nullptr) {
      return fail(errc::tx_open, "this thread has region %lu in a transaction already", rid);
    }
    if (status s = (*g)->change->join(rid, *how); !s) {
      if (s.error() == errc::busy) {
        (*g)->refused = rid;
        (*g)->was_refused = true;
      }
      return s.error();
    }
    return 0;
  }));
}

int nvm_region_group_create(nvm_region_group* group, uint64_t rid, uint64_t size) {
  const nvm::platform::in_call here;
  const auto g = api::group_of(group);
  if (!g) return api::report(g.error());
  return api::told(api::run<effect::begins>((*g)->set, [&](api::part_of_thread&) -> result<int> {
    if (status s = (*g)->change->create(rid, size, 0); !s) {
      if (s.error() == errc::busy) (*g)->was_refused = true;
      return s.error();
    }
    return 0;
  }));
}

int nvm_region_group_drop(nvm_region_group* group, uint64_t rid) {
  const nvm::platform::in_call here;
  const auto g = api::group_of(group);
  return g ? api::answer((*g)->change->drop(rid)) : api::report(g.error());
}

int nvm_region_group_commit(nvm_region_group* group) {
  const nvm::platform::in_call here;
  const auto g = api::group_of(group);
  return g ? api::end_group(*g, true) : api::report(g.error());
}

int nvm_region_group_abort(nvm_region_group* group) {
  const nvm::platform::in_call here;
  const auto g = api::group_of(group);
  return g ? api::end_group(*g, false) : api::report(g.error());
}

int nvm_region_group_run(nvm_regions* set, const uint64_t* rids, size_t n,
                         int (*body)(nvm_region_group* group, void* argument), void* argument) {
  if (body == nullptr) return api::report(fail(errc::invalid, "the body is NULL"));
  if (rids == nullptr && n != 0) return api::report(fail(errc::invalid, "the numbers are NULL"));
  std::vector<uint64_t> all;
  try {
    all.assign(rids, rids + n);
  } catch (const std::bad_alloc&) {
    return api::report(fail(errc::no_memory, "no volatile memory for a group of %zu regions", n));
  }
  for (;;) {
    std::optional<uint64_t> absent;
    const auto begun = api::begin_again(set, all, absent);
    if (!begun) {
      // A region that body has asked for may be gone meanwhile; body finds that out.
      const auto asked_for = absent && begun.error() == errc::not_found
                                 ? std::find(all.begin() + static_cast<std::ptrdiff_t>(n), all.end(), *absent)
                                 : all.end();
      if (asked_for == all.end()) return api::report(begun.error());
      all.erase(asked_for);
      continue;
    }
    nvm_region_group* const g = *begun;
    int answer = 0;
    try {
      answer = body(g, argument);
    } catch (...) {
      (void)nvm_region_group_abort(g);
      throw;
    }
    if (const auto open = api::group_of(g); open && (*open)->was_refused) {
      const std::optional<uint64_t> refused = (*open)->refused;
      (void)nvm_region_group_abort(g);
      if (status s = api::await_refused(set, refused, all); !s) return api::report(s.error());
      continue;
    }
    if (answer == 0) return nvm_region_group_commit(g);
    (void)nvm_region_group_abort(g);
    return answer;
  }
}

}  // extern "C"
