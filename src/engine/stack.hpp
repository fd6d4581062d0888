// Ground of an engine: a medium with the objects that it depends on.
//
// Engines are compiled over few stacks: the one of direct media for pools in earnest, and any_stack, which reaches
// every other one at run time (docs/design/021-media-behind-three-types.md).
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "engine/region_side.hpp"
#include "engine/structure_side.hpp"
#include "media/media.hpp"
#include "nvm/nvm.h"
#include "space/structure_pages.hpp"

namespace nvm::engines {

template <class S>
concept stack = requires(S& s, nvm_statistics& out) {
  // The medium that the engine sees.  Ready as soon as the stack is made.
  requires media<std::remove_reference_t<decltype(s.top())>>;
  // The engine has come to rest: everything that was ordered is durable, nothing is left to recover.
  { s.close() } -> std::same_as<status>;
  // Adds the counters of the media.
  s.statistics(out);
  // enum nvm_persist in force; 0: none.
  { s.persist() } -> std::same_as<std::uint32_t>;
};

// A stack that an engine is compiled over.
template <class S>
concept engine_stack = stack<S> && requires(S& s, std::byte* base, region_pages& pages, region_wishes wishes,
                                            const structure_settings& settings) {
  // The pool's lock-free structures on this medium (structures_*.cpp), and its regions (regions_*.cpp); errc::engine
  // where there can be none.
  { s.open_structures(base, pages, settings) } -> std::same_as<result<std::unique_ptr<structure_side>>>;
  { s.open_regions(base, pages, wishes) } -> std::same_as<result<std::unique_ptr<region_side>>>;
};

template <class Stack>
using medium_of = std::remove_reference_t<decltype(std::declval<Stack&>().top())>;

// A stack of one medium that counts nothing and has nothing to close.
class plain_stack {
 public:
  static status close() noexcept { return {}; }
  static void statistics(nvm_statistics&) noexcept {}
  static std::uint32_t persist() noexcept { return 0; }
};

// Another stack, with counters of what passes.
template <stack Inner>
class measured {
 public:
  using medium_type = meter_media<medium_of<Inner>>;

  explicit measured(std::unique_ptr<Inner> inner) noexcept
      : inner_{std::move(inner)}, metered_{inner_->top(), counts_} {}
  medium_type& top() noexcept { return metered_; }
  status close() noexcept { return inner_->close(); }
  void statistics(nvm_statistics& out) noexcept {
    inner_->statistics(out);
    const meter_totals r = counts_.totals();
    out.fences += r.fences;
    out.flushed_lines += r.lines;
    out.flushed_bytes += r.bytes;
  }
  std::uint32_t persist() const noexcept { return inner_->persist(); }

 private:
  std::unique_ptr<Inner> inner_;
  meter counts_;
  medium_type metered_;
};

// Any stack whose medium is of this kind.
template <media Any>
class any_stack {
 public:
  virtual ~any_stack() = default;
  any_stack(const any_stack&) = delete;
  any_stack& operator=(const any_stack&) = delete;

  Any& top() noexcept { return top_; }
  virtual status close() noexcept = 0;
  virtual void statistics(nvm_statistics& out) noexcept = 0;
  [[nodiscard]] virtual std::uint32_t persist() const noexcept = 0;
  [[nodiscard]] virtual result<std::unique_ptr<structure_side>> open_structures(std::byte*, structure_pages&,
                                                                                const structure_settings&) noexcept {
    return fail(errc::engine, "a pool that is opened like this has no lock-free structures");
  }
  [[nodiscard]] virtual result<std::unique_ptr<region_side>> open_regions(std::byte*, region_pages&,
                                                                          region_wishes) noexcept {
    return fail(errc::engine, "a pool that is opened like this has no regions");
  }

 protected:
  explicit any_stack(Any top) noexcept : top_{top} {}

 private:
  Any top_;
};
using any_direct_stack = any_stack<any_direct>;
using any_image_stack = any_stack<any_image>;

// Lock-free structures and regions.
enum class structures_here : bool { no, yes };

// This stack as any.
template <stack Inner, structures_here Structures>
class stack_as_any final : public any_stack<any_of<medium_of<Inner>>> {
 public:
  using any_type = any_of<medium_of<Inner>>;
  explicit stack_as_any(std::unique_ptr<Inner> inner) noexcept
      : any_stack<any_type>{any_type{inner->top()}}, inner_{std::move(inner)} {}
  status close() noexcept override { return inner_->close(); }
  void statistics(nvm_statistics& out) noexcept override { inner_->statistics(out); }
  [[nodiscard]] std::uint32_t persist() const noexcept override { return inner_->persist(); }
  [[nodiscard]] result<std::unique_ptr<structure_side>> open_structures(
      std::byte* base, structure_pages& pages, const structure_settings& settings) noexcept override {
    if constexpr (Structures == structures_here::yes) {
      return make_structure_side(this->top(), base, pages, nullptr, settings);
    } else {
      return any_stack<any_type>::open_structures(base, pages, settings);
    }
  }
  [[nodiscard]] result<std::unique_ptr<region_side>> open_regions(std::byte* base, region_pages& pages,
                                                                  region_wishes wishes) noexcept override {
    if constexpr (Structures == structures_here::yes) {
      return make_region_side(this->top(), base, pages, std::move(wishes));
    } else {
      return any_stack<any_type>::open_regions(base, pages, std::move(wishes));
    }
  }

 private:
  std::unique_ptr<Inner> inner_;
};
// May throw std::bad_alloc.
template <structures_here Structures, stack Inner>
[[nodiscard]] std::unique_ptr<any_stack<any_of<medium_of<Inner>>>> as_any(std::unique_ptr<Inner> inner) {
  return std::make_unique<stack_as_any<Inner, Structures>>(std::move(inner));
}

}  // namespace nvm::engines
