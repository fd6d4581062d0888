#include "subjects.hpp"

#include <cstdlib>
#include <cstring>

#include "whole_pool.hpp"

namespace nvm::tests {
namespace {

using explore::fault;
using explore::machine;
using explore::pass;
using explore::verdict;
using explore::window;

// Life goes on: allocate and free, on all lanes, and everything that was there stays.
verdict live_on(machine& m, kind_of_medium kind) {
  const auto heap = open_ground(m, kind);
  if (heap == nullptr) return fault(last_message());
  const std::uint64_t before = state_of(heap->base(), m.size()).digest;
  const auto failed = [] { return fault(std::string{"working on: "} + last_message()); };
  for (unsigned i = 0; i < 6; ++i) {
    const unsigned lane = i % heap->lanes();
    const unsigned next = (lane + 1) % heap->lanes();
    if (!heap->acquire(lane) || !heap->begin(lane)) return failed();
    const auto at = heap->alloc(lane, 24 + 40 * i);
    if (!at && last_code() == errc::no_space) {  // it may be full: that is no fault
      heap->abort(lane);
      heap->release(lane);
      continue;
    }
    if (!at) return failed();
    std::memset(heap->base() + *at, 0x77, 24 + 40 * i);
    auto lsn = heap->commit(lane);
    if (!lsn) return failed();
    heap->release(lane);
    if (!heap->acquire(next) || !heap->begin(next) || !heap->free(next, *at)) return failed();
    lsn = heap->commit(next);
    if (!lsn || !heap->durable(*lsn)) return failed();
    heap->release(next);
  }
  const pool_state now = state_of(heap->base(), m.size());
  if (!now.fault.empty()) return fault(now.fault);
  if (now.digest != before) return fault("objects changed while others came and went");
  return pass();
}

}  // namespace

explore::subject subject_from(kind_of_medium kind, std::string name, scenario_steps steps,
                              std::vector<std::byte> image) {
  auto history = std::make_shared<explore::digest_history>();
  explore::subject s;
  s.name = std::move(name);
  s.image = std::move(image);
  if (is_stm(kind) && !is_image(kind)) s.at = place_of_whole_pools();
  s.run = [steps = std::move(steps), history, kind](machine& m) {
    player p{m, *history, kind};
    steps(p);
  };
  s.recover = [kind](machine& m) -> verdict {
    const status done = recover_image(m, kind);
    return done ? pass() : fault(last_message());
  };
  s.oracle = [history](machine& m, const window& w) -> verdict {
    const pool_state found = state_of(m.base(), m.size());
    if (!found.fault.empty()) return fault(found.fault);
    return history->check(found.digest, w);
  };
  s.before = [kind](machine& m, const window& w) -> verdict {
    if (!closed(w)) return pass();
    const std::string unrest = unrest_in(m, kind);
    return unrest.empty() ? pass() : fault("closed, and not at rest: " + unrest);
  };
  // On one thread: a fault must find its way out.
  s.after = [kind](machine& m, const window&) { return live_on(m, plain(kind)); };
  return s;
}

explore::subject subject_on(kind_of_medium kind, std::string name, scenario_steps steps, const crash_shape& shape) {
  return subject_from(kind, std::move(name), std::move(steps), new_image(shape, kind));
}

std::vector<std::byte> image_after(const scenario_steps& steps) {
  const std::vector<std::byte> fresh = new_image({}, kind_of_medium::direct);
  machine m(fresh.size());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  explore::digest_history history;
  player p{m, history, kind_of_medium::direct};
  steps(p);
  return {m.base(), m.base() + m.size()};
}

std::vector<std::vector<std::byte>> crashed_images(const explore::subject& s, explore::options o,
                                                   const explore::mutation& m, std::size_t most,
                                                   const std::function<bool(const machine&, const window&)>& wanted) {
  std::vector<std::vector<std::byte>> found;
  // What becomes of the images is not asked here.
  explore::subject only_crashed = s;
  only_crashed.recover = [](machine&) { return pass(); };
  only_crashed.oracle = [](machine&, const window&) { return pass(); };
  only_crashed.before = only_crashed.after = nullptr;
  o.idempotence_every = 0;
  o.nesting = 0;
  o.violations_max = 0;
  o.print_violations = false;
  o.on_image = [&](const machine& on, const window& w) {
    if (wanted(on, w) && found.size() < most) found.emplace_back(on.base(), on.base() + on.size());
  };
  (void)explore::explore(only_crashed, o, m);
  return found;
}

}  // namespace nvm::tests
