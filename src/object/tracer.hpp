// Marks what can be reached: the first half of the tracing collector (HEAPO, section II-D).  The second half,
// allocation words against mark words, is each_unmarked() of the objects.
//
// From the roots that it is given it follows the pointer words that the plans of the types name, or, conservatively,
// every aligned word.  A value counts where it leads into the room of an object: to its payload, into the middle of it,
// or to its header.  Values that lead into the pool and to no object are ignored and counted (fields that were never
// written may hold anything), and so are values that lead elsewhere.
//
// Objects is placed_objects or listed_objects.  Nothing may change meanwhile.  No recursion: a stack of bounded size
// for each thread (trace_work.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "object/pointer_walk.hpp"
#include "object/trace_work.hpp"
#include "platform/platform.hpp"
#include "space/face.hpp"

namespace nvm::object {

// Whether such a pointer keeps an object.  Weak pointers do not: those that lead to garbage become null before it is
// freed.
constexpr bool keeps(layout::field_kind kind) noexcept { return kind == layout::field_kind::pointer; }
// Whether such a pointer leads to an object of the pool; static pointers lead out of it.
constexpr bool leads_into_pool(layout::field_kind kind) noexcept {
  return keeps(kind) || kind == layout::field_kind::weak_pointer;
}

struct trace_settings {
  unsigned threads = 1;
  bool conservative = false;  // every aligned word may be a pointer, whatever the types say
  std::size_t stack_max = std::size_t{1} << 16;
  // Now and then, by the thread that called run(): objects marked so far.
  void (*progress)(void* argument, std::uint64_t marked) = nullptr;
  void* argument = nullptr;
};

struct trace_sums {
  std::uint64_t objects = 0;   // reached
  std::uint64_t bytes = 0;     // of these, as asked for
  std::uint64_t pointers = 0;  // that are not null
  std::uint64_t stray = 0;     // into the pool, to no object
  std::uint64_t foreign = 0;   // to anywhere else
  std::uint64_t overflows = 0;
  std::map<std::uint32_t, std::uint64_t> undescribed;  // type -> objects
};

// Payload of an object by its header, which is believed as far as the object's room goes.
struct payload_place {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  std::uint32_t type = 0;
};
[[nodiscard]] inline result<payload_place> payload_of(const std::byte* base, std::uint64_t header,
                                                      std::uint64_t room) noexcept {
  layout::object_header h;
  if (room > sizeof h) {
    // relaxed: a commit of another thread may store the count in it, which is not read here.
    std::array<std::uint64_t, sizeof h / sizeof(std::uint64_t)> words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto* const from = reinterpret_cast<const std::uint64_t*>(base + header) + i;
      words[i] = __atomic_load_n(from, __ATOMIC_RELAXED);
    }
    std::memcpy(&h, words.data(), sizeof h);
    const std::uint64_t size = layout::object_size(h);
    const auto a = layout::alignment_of(h, header);
    if (layout::object_header_holds(h, header) && size <= room - sizeof h && a && a->gap <= room &&
        size - a->padding() <= room - a->gap) {
      return payload_place{header + a->gap, size - a->padding(), h.type};
    }
  }
  return fail(errc::corrupt, "object at offset %lu: its length or its header fails its check", header);
}

template <class Objects>
class tracer {
 public:
  // Addresses [base, base + address_bytes) are the pool's; values in it are offsets from `base` wherever its bytes are
  // mapped: at `bytes`.
  tracer(Objects& objects, const std::byte* bytes, std::uint64_t base, std::uint64_t address_bytes,
         const pointer_plans& plans, const trace_settings& settings) noexcept
      : objects_{objects},
        bytes_{bytes},
        base_{base},
        address_bytes_{address_bytes},
        plans_{plans},
        settings_{settings},
        work_{objects.marks().words(), settings.stack_max} {}

  // The object that holds the byte at this offset, if one does, is reached.  May throw std::bad_alloc.
  void root(std::uint64_t offset) {
    found_object o;
    if (objects_.find(offset, o) && objects_.marks().set(o.mark)) work_.add({o, 0});
  }
  // The values of aligned words in [from, from + n) are roots: of bytes that have no type.  May throw std::bad_alloc.
  void roots_in(std::uint64_t from, std::uint64_t n) {
    for (std::uint64_t at = from; at + 8 <= from + n; at += 8) {
      if (const std::uint64_t v = word_at(at); v - base_ < address_bytes_) root(v - base_);
    }
  }

  // Marks all that the roots lead to.  errc::corrupt: an object's header fails its check; errc::no_memory.  May be
  // called again after more roots.
  [[nodiscard]] status run() {
    if (!work_.exists()) return fail(errc::no_memory, "no volatile memory for the work of a collection");
    do {
      platform::run_parts(settings_.threads, [this](unsigned part) noexcept {
        try {
          worker{*this, part}.run();
        } catch (const std::bad_alloc&) {
          failed(errc::no_memory, {});
        }
      });
    } while (!work_.stopped() && work_.take_up_left_over(objects_));
    sums_.overflows = work_.overflows();
    if (error_ == errc::no_memory) return fail(errc::no_memory, "no volatile memory to mark objects");
    if (error_ == errc::corrupt) return payload_of(bytes_, damaged_.header, objects_.room_of(damaged_)).error();
    return {};
  }
  [[nodiscard]] const trace_sums& sums() const noexcept { return sums_; }

 private:
  static constexpr std::uint64_t segment_bytes = 32768;  // of an object that are followed at once
  static constexpr unsigned ahead = 16;                  // objects that are on their way into the cache
  static constexpr unsigned turns_between = 64;

  class worker {
   public:
    worker(tracer& of, unsigned part)
        : of_{of}, tells_{part == 0 && of.settings_.progress != nullptr}, alone_{of.settings_.threads == 1} {
      stack_.reserve(of.work_.stack_max() + ahead + 1);
    }
    void run() {
      of_.work_.join();
      do {
        drain();
      } while (of_.work_.take(stack_));
      of_.add(mine_);
    }

   private:
    // Objects pass through a short queue on their way from the stack, so that their first lines arrive meanwhile.
    void drain() {
      unsigned turns = 0;
      for (;;) {
        while (queued_ < ahead && !stack_.empty()) {
          queue_[(first_ + queued_++) % ahead] = stack_.back();
          stack_.pop_back();
          of_.objects_.prefetch(queue_[(first_ + queued_ - 1) % ahead].object);
        }
        if (queued_ == 0) return;
        const grey_object g = queue_[first_];
        first_ = (first_ + 1) % ahead;
        --queued_;
        if (++turns % turns_between == 0) {
          if (of_.work_.stopped()) return;
          if (of_.work_.hungry() && stack_.size() >= 2) of_.work_.give(stack_);
          if (tells_ && turns % 8192 == 0) of_.settings_.progress(of_.settings_.argument, mine_.objects);
        }
        follow(g);
      }
    }

    void follow(const grey_object& g) {
      const auto o = payload_of(of_.bytes_, g.object.header, of_.objects_.room_of(g.object));
      if (!o) return of_.failed(errc::corrupt, g.object);
      if (g.from == 0) {
        ++mine_.objects;
        mine_.bytes += o->bytes;
      }
      if (of_.settings_.conservative) return follow_all(g, *o);
      const known& k = known_of(o->type, o->bytes);
      if (k.words <= words_known) {
        for (unsigned i = 0; i < k.strong; ++i) value(of_.word_at(o->at + k.at[i]), k.guessed);
        for (unsigned i = k.strong; i < k.words; ++i) weak_value(of_.word_at(o->at + k.at[i]));
        return;
      }
      const std::uint64_t to = segment(g, *o);
      k.plan->each_in(of_.bytes_ + o->at, o->bytes, g.from, to, [&](const pointer_word& w) {
        // A word on the border of two segments is the first one's.
        if (!leads_into_pool(w.kind) || (w.at < g.from && g.from != 0)) return;
        const std::uint64_t v = of_.word_at(o->at + w.at);
        keeps(w.kind) ? value(v, w.guessed) : weak_value(v);
      });
    }
    void follow_all(const grey_object& g, const payload_place& o) {
      const std::uint64_t to = segment(g, o);
      for (std::uint64_t at = g.from; at + 8 <= to; at += 8) value(of_.word_at(o.at + at), true);
    }
    // Where to stop in a long object; the rest becomes work of its own.
    std::uint64_t segment(const grey_object& g, const payload_place& o) {
      if (o.bytes - g.from <= segment_bytes) return o.bytes;
      const std::uint64_t to = g.from + segment_bytes;
      // Beyond the bound for no more than the queue holds.
      stack_.push_back({g.object, to});
      return to;
    }

    // A guessed value that leads out of the pool is no pointer.
    void value(std::uint64_t v, bool guessed) {
      if (v == 0) return;
      const std::uint64_t offset = v - of_.base_;
      if (offset >= of_.address_bytes_) {
        if (guessed) return;
        ++mine_.pointers;
        ++mine_.foreign;
        return;
      }
      ++mine_.pointers;
      found_object o;
      if (!of_.objects_.find(offset, o)) {
        ++mine_.stray;
        return;
      }
      mark_bits& marks = of_.objects_.marks();
      if (!(alone_ ? marks.set_alone(o.mark) : marks.set(o.mark))) return;
      if (stack_.size() >= of_.work_.stack_max()) return of_.work_.leave_over(o.mark);
      stack_.push_back({o, 0});
    }

    // Counts a weak value like others, and does not follow it.
    void weak_value(std::uint64_t v) {
      if (v == 0) return;
      ++mine_.pointers;
      const std::uint64_t offset = v - of_.base_;
      found_object o;
      if (offset >= of_.address_bytes_) {
        ++mine_.foreign;
      } else if (!of_.objects_.find(offset, o)) {
        ++mine_.stray;
      }
    }

    // What is known of objects of one type and size.  A plan answers for any size, and divides for that; objects of few
    // pointers are nearly all there are.
    static constexpr unsigned words_known = 12;
    struct known {
      std::uint64_t bytes = 0;  // 0: nothing
      const pointer_plan* plan = nullptr;
      std::uint32_t type = 0;
      unsigned words = 0;   // more than words_known: the plan is to be asked
      unsigned strong = 0;  // of them, the first ones
      bool guessed = false;
      std::array<std::uint32_t, words_known> at{};
    };
    const known& known_of(std::uint32_t type, std::uint64_t bytes) {
      known& k = known_[(type ^ type >> 8 ^ bytes >> 3) % known_.size()];
      if (k.type != type || k.bytes != bytes) k = learn(type, bytes);
      if (k.plan == nullptr) ++mine_.undescribed[type];
      return k;
    }
    known learn(std::uint32_t type, std::uint64_t bytes) const {
      known k{bytes, of_.plans_.known(type), type};
      if (k.plan == nullptr) return k;
      k.guessed = k.plan->guesses();
      if (k.plan->asks_object()) {
        k.words = words_known + 1;
        return k;
      }
      const std::uint64_t looked_at = std::min<std::uint64_t>(bytes, segment_bytes);
      k.plan->each_in(bytes, 0, looked_at, [&](const pointer_word& w) {
        if (!leads_into_pool(w.kind) || k.words++ >= words_known) return;
        k.at[k.words - 1] = static_cast<std::uint32_t>(w.at);
        if (keeps(w.kind)) std::swap(k.at[k.strong++], k.at[k.words - 1]);
      });
      if (looked_at < bytes) k.words = words_known + 1;
      return k;
    }

    tracer& of_;
    const bool tells_;
    const bool alone_;
    std::vector<grey_object> stack_;
    std::array<grey_object, ahead> queue_{};
    unsigned first_ = 0;
    unsigned queued_ = 0;
    std::array<known, 32> known_{};
    trace_sums mine_;
  };

  [[nodiscard]] std::uint64_t word_at(std::uint64_t offset) const noexcept {
    std::uint64_t v;
    std::memcpy(&v, bytes_ + offset, sizeof v);
    return v;
  }
  void add(const trace_sums& s) {
    const std::lock_guard guard{lock_};
    sums_.objects += s.objects;
    sums_.bytes += s.bytes;
    sums_.pointers += s.pointers;
    sums_.stray += s.stray;
    sums_.foreign += s.foreign;
    for (const auto& [type, n] : s.undescribed) sums_.undescribed[type] += n;
  }
  void failed(errc why, const found_object& where) noexcept {
    {
      const std::lock_guard guard{lock_};
      if (error_ == errc::ok) {
        error_ = why;
        damaged_ = where;
      }
    }
    work_.stop();
  }

  Objects& objects_;
  const std::byte* bytes_;
  const std::uint64_t base_;
  const std::uint64_t address_bytes_;
  const pointer_plans& plans_;
  const trace_settings settings_;
  trace_work work_;
  std::mutex lock_;
  trace_sums sums_;
  errc error_ = errc::ok;
  found_object damaged_;
};

}  // namespace nvm::object
