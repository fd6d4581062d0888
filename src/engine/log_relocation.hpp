// Relocation (object/relocation.hpp) where objects live in a log: the pointers of each object are stored anew, by
// ordinary transactions of the heap, which are durable before the other bases are forgotten. Older entries of the log
// are superseded, and never read again.
//
//   1. begin_relocation()                               | pool/E1, E2, durable
//   2. transactions that store moved pointers           | logheap/E1, durable
//   3. finish_relocation()                              | pool/E1, E2
// Recovery: none; the next open finds several bases and begins again.
//
// Threads: one.  Home pages have not been built.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "logheap/logheap.hpp"
#include "object/object.hpp"
#include "space/aligned_layout.hpp"

namespace nvm::engines {

template <class Heap>
class log_relocation {
 public:
  using thread_type = typename Heap::thread;

  // `homes`: of all objects of programs, ascending.
  log_relocation(Heap& heap, thread_type& own, const object::pointer_plans& plans, std::span<const std::uint64_t> homes)
      : heap_{heap}, own_{own}, finder_{plans}, homes_{homes}, window_(window_bytes / 8) {}

  // Whether all objects can be relocated.
  // May throw std::bad_alloc.
  [[nodiscard]] status look() {
    object::survey found;
    for (const std::uint64_t home : homes_) {
      const auto o = object_at(home);
      if (!o) return o.error();
      const object::pointer_plan* const plan = finder_.find(o->type);
      if (plan != nullptr && plan->asks_object()) read_whole(*o);
      found.look_at(o->type, plan, bytes_of_window(), o->bytes);
    }
    return found.refusal();
  }
  // `Mover` as in relocation.hpp; one that moves nothing only looks.  May throw std::bad_alloc.
  template <class Mover>
  [[nodiscard]] status move(const Mover& to, object::relocation_report& report) {
    logheap::transaction<Heap> t{heap_, own_};
    std::uint64_t stores = 0;
    for (const std::uint64_t home : homes_) {
      const auto o = object_at(home);
      if (!o) return o.error();
      const object::pointer_plan* const plan = finder_.find(o->type);
      if (plan == nullptr) continue;
      ++report.objects;
      if (plan->none()) continue;
      // A plan that asks the object's bytes is asked with all of them there.
      const std::uint64_t step = plan->asks_object() ? o->bytes : window_bytes;
      if (plan->asks_object()) read_whole(*o);
      for (std::uint64_t from = 0; from < o->bytes; from += step) {
        stores += move_window(t, *o, *plan, from, std::min(step, o->bytes - from), to, report);
        if (stores < stores_max) continue;
        if (auto version = t.commit(); !version) return version.error();
        stores = 0;
      }
    }
    const auto version = stores == 0 ? result<std::uint64_t>{std::uint64_t{0}} : t.commit();
    return version ? status{} : status{version.error()};
  }

 private:
  static constexpr std::uint64_t window_bytes = std::uint64_t{1} << 16;
  static constexpr std::uint64_t stores_max = 512;  // of a transaction

  struct object_here {
    std::uint64_t payload, bytes;
    std::uint32_t type;
  };

  [[nodiscard]] result<object_here> object_at(std::uint64_t home) noexcept {
    layout::object_header h{};
    const auto room = heap_.room_at(own_, home);
    if (room && room->size > sizeof h) {
      heap_.read(own_, home, &h, sizeof h);
      const auto a = layout::alignment_of(h, home);
      if (layout::object_header_holds(h, home) && a && layout::object_size(h) <= room->bytes - sizeof h) {
        return object_here{home + a->gap, layout::object_size(h) - a->padding(), h.type};
      }
    }
    return fail(errc::corrupt, "object at home %lx: found a header that fails its check, expected one that holds",
                home);
  }

  [[nodiscard]] const std::byte* bytes_of_window() const noexcept {
    return reinterpret_cast<const std::byte*>(window_.data());
  }
  void read_whole(const object_here& o) {
    window_.resize(std::max<std::uint64_t>(window_.size(), ceil_div(o.bytes, 8)));
    heap_.read(own_, o.payload, window_.data(), o.bytes);
  }

  template <class Mover>
  std::uint64_t move_window(logheap::transaction<Heap>& t, const object_here& o, const object::pointer_plan& plan,
                            std::uint64_t from, std::uint64_t bytes, const Mover& to,
                            object::relocation_report& report) {
    bool is_read = plan.asks_object();
    std::uint64_t stores = 0;
    plan.each_in(bytes_of_window(), o.bytes, from, from + bytes, [&](const object::pointer_word& p) {
      // A pointer that begins in the window before was moved with that window.
      if (!Mover::concerns(p.kind) || p.at < from) return;
      if (!is_read) heap_.read(own_, o.payload + from, window_.data(), bytes);
      is_read = true;
      std::uint64_t value = 0;
      if (p.at - from + sizeof value <= bytes) {
        std::memcpy(&value, bytes_of_window() + (p.at - from), sizeof value);
      } else {
        heap_.read(own_, o.payload + p.at, &value, sizeof value);  // of a packed type: the pointer continues in the
                                                                   // next window
      }
      report.pointers += value != 0 && !p.guessed ? 1 : 0;
      switch (to.move(value, p.guessed)) {
        case Mover::what::stays:
          break;
        case Mover::what::foreign:
          report.found_foreign({o.payload, p.at, value, o.type});
          break;
        case Mover::what::moves:
          t.store(o.payload + p.at, &value, sizeof value);
          ++stores;
          ++report.moved;
          break;
      }
    });
    return stores;
  }

  Heap& heap_;
  thread_type& own_;
  object::plan_finder finder_;
  std::span<const std::uint64_t> homes_;
  std::vector<std::uint64_t> window_;
};

}  // namespace nvm::engines
