// Any medium, chosen at run time: a pointer to it and one to a table of its functions.
//
// Code over `any_direct` or `any_image` is compiled once and serves every medium of that kind: those that count, delay,
// record or sync, and the pure ones as well. A flush or a fence costs one indirect call more; direct_media, the medium
// of pools in earnest, is inlined there (docs/design/021).
//
// There are two types because engines compile to different code with and without atomic batches (concept.hpp).
//
// The medium outlives all references to it. Threads: as the medium says.  A copy refers to the same medium.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "media/concept.hpp"
#include "media/image_batch.hpp"

namespace nvm {

// The common part of both.
class any_medium {
 public:
  void flush(const void* p, std::size_t bytes, site s = site::here()) noexcept { calls_->flush(of_, p, bytes, s); }
  void copy(void* to, const void* from, std::size_t bytes, site s = site::here()) noexcept {
    calls_->copy(of_, to, from, bytes, s);
  }
  void fence(edge e) noexcept { calls_->fence(of_, e); }
  void fence_by_rmw(edge e) noexcept { calls_->fence_by_rmw(of_, e); }
  [[nodiscard]] bool stores_survive() const noexcept { return calls_->stores_survive(of_); }
  [[nodiscard]] lsn_t last_lsn() noexcept { return calls_->last_lsn(of_); }
  [[nodiscard]] bool is_durable(lsn_t lsn) noexcept { return calls_->is_durable(of_, lsn); }
  status durable(lsn_t lsn) noexcept { return calls_->durable(of_, lsn); }
  // Does nothing if the medium cannot be poisoned.
  void poison(const char* reason) noexcept { calls_->poison(of_, reason); }

 protected:
  struct calls {
    void (*flush)(void*, const void*, std::size_t, site) noexcept;
    void (*copy)(void*, void*, const void*, std::size_t, site) noexcept;
    void (*fence)(void*, edge) noexcept;
    void (*fence_by_rmw)(void*, edge) noexcept;
    bool (*stores_survive)(const void*) noexcept;
    lsn_t (*last_lsn)(void*) noexcept;
    bool (*is_durable)(void*, lsn_t) noexcept;
    status (*durable)(void*, lsn_t) noexcept;
    void (*poison)(void*, const char*) noexcept;
  };
  template <media M>
  [[nodiscard]] static M& of(void* m) noexcept {
    return *static_cast<M*>(m);
  }
  template <media M>
  static constexpr calls calls_of{
      .flush = [](void* m, const void* p, std::size_t bytes, site s) noexcept { of<M>(m).flush(p, bytes, s); },
      .copy = [](void* m, void* to, const void* from, std::size_t bytes,
                 site s) noexcept { copy_out(of<M>(m), to, from, bytes, s); },
      .fence = [](void* m, edge e) noexcept { of<M>(m).fence(e); },
      .fence_by_rmw = [](void* m, edge e) noexcept { nvm::fence_by_rmw(of<M>(m), e); },
      .stores_survive = [](const void* m) noexcept { return nvm::stores_survive(*static_cast<const M*>(m)); },
      .last_lsn = [](void* m) noexcept { return of<M>(m).last_lsn(); },
      .is_durable = [](void* m, lsn_t lsn) noexcept { return nvm::is_durable(of<M>(m), lsn); },
      .durable = [](void* m, lsn_t lsn) noexcept { return of<M>(m).durable(lsn); },
      .poison =
          [](void* m, const char* reason) noexcept {
            if constexpr (requires { of<M>(m).poison(reason); }) of<M>(m).poison(reason);
          },
  };

  template <media M>
  explicit any_medium(M& medium) noexcept : of_{std::addressof(medium)}, calls_{&calls_of<M>} {}

  void* of_;
  const calls* calls_;
};

class any_direct : public any_medium {
 public:
  static constexpr bool atomic_batches = false;
  using batch = no_batch;

  template <media M>
    requires(!M::atomic_batches && !std::is_same_v<M, any_direct>)
  explicit any_direct(M& medium) noexcept : any_medium{medium} {}
};
static_assert(media<any_direct>);

class any_image : public any_medium {
 public:
  static constexpr bool atomic_batches = true;
  using batch = image_batch;

  template <media M>
    requires(M::atomic_batches && std::is_same_v<typename M::batch, image_batch> && !std::is_same_v<M, any_image>)
  explicit any_image(M& medium) noexcept
      : any_medium{medium},
        publish_{[](void* m, batch& b, stores_call stores, void* context, edge e) noexcept {
          return of<M>(m).publish(b, [&]() noexcept { stores(context); }, e);
        }},
        await_room_{[](void* m, batch& b) noexcept { return nvm::await_room(of<M>(m), b); }},
        write_straight_{
            [](void* m, const void* p, std::size_t bytes, lsn_t free_since, straight_patience patience) noexcept {
              return nvm::write_straight(of<M>(m), p, bytes, free_since, patience);
            }},
        straight_from_{[](void* m) noexcept { return nvm::straight_from(of<M>(m)); }},
        quiesce_{[](void* m) noexcept { return bring_home(of<M>(m)); }} {}

  template <class F>
  result<lsn_t> publish(batch& b, F&& stores, edge e) noexcept {
    return publish_(
        of_, b, [](void* f) noexcept { (*static_cast<std::remove_reference_t<F>*>(f))(); },
        const_cast<void*>(static_cast<const void*>(std::addressof(stores))), e);
  }
  [[nodiscard]] status await_room(batch& b) noexcept { return await_room_(of_, b); }
  result<straight_outcome> write_straight(const void* p, std::size_t bytes, lsn_t free_since,
                                          straight_patience patience) noexcept {
    return write_straight_(of_, p, bytes, free_since, patience);
  }
  [[nodiscard]] std::uint64_t straight_from() const noexcept { return straight_from_(of_); }
  status quiesce() noexcept { return quiesce_(of_); }

 private:
  using stores_call = void (*)(void*) noexcept;
  result<lsn_t> (*publish_)(void*, batch&, stores_call, void*, edge) noexcept;
  status (*await_room_)(void*, batch&) noexcept;
  result<straight_outcome> (*write_straight_)(void*, const void*, std::size_t, lsn_t, straight_patience) noexcept;
  std::uint64_t (*straight_from_)(void*) noexcept;
  status (*quiesce_)(void*) noexcept;
};
static_assert(media<any_image>);

// The one of the two that M belongs to.
template <media M>
using any_of = std::conditional_t<M::atomic_batches, any_image, any_direct>;

}  // namespace nvm
