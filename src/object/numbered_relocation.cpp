#include "object/numbered_relocation.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

#include "base/plant.hpp"
#include "object/numbered_objects.hpp"
#include "object/relocation.hpp"

namespace nvm::object {
namespace {

// Calls visit(header offset, header, alignment) for each typed object of a part whose header holds.
template <class Visit>
status each_header(const std::byte* base, const geometry& g, unsigned part, unsigned parts, Visit&& visit) {
  return each_typed(base, g, part, parts, [&](const layout::object_header& h, std::uint64_t, std::uint64_t) {
    const auto at = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&h) - base);
    if (const auto a = layout::alignment_of(h, at)) visit(at, h, *a);
  });
}

// Whole words of one object that become new together.
class object_words {
 public:
  explicit object_words(const std::byte* base) noexcept : base_{base} {}
  // `any_order`: pointers do not come by ascending place, since a visitor tells them.
  void clear(bool any_order = false) noexcept {
    words_.clear();
    any_order_ = any_order;
    // It would zero all buckets, once for each object, also where nothing is in them.
    if (places_.empty()) return;
    if (places_.bucket_count() > buckets_kept_max) {
      places_ = {};
    } else {
      places_.clear();
    }
  }
  [[nodiscard]] bool empty() const noexcept { return words_.empty(); }
  [[nodiscard]] std::size_t count() const noexcept { return words_.size(); }
  [[nodiscard]] std::span<const tx::assigned_word> all() const noexcept { return words_; }

  // The eight bytes at `at`, at whatever multiple, become `value`.  May throw std::bad_alloc.
  void replace(std::uint64_t at, std::uint64_t value) {
    const std::uint64_t word = at / 8 * 8, shift = at % 8 * 8;
    if (shift == 0) return put(word, value);
    const std::uint64_t low = ~std::uint64_t{0} >> (64 - shift);
    put(word, (word_at(word) & low) | value << shift);
    put(word + 8, (word_at(word + 8) & ~low) | value >> (64 - shift));
  }
  void put(std::uint64_t offset, std::uint64_t value) {
    if (const std::size_t i = find(offset); i != words_.size()) {
      words_[i].value = value;
      return;
    }
    words_.push_back({offset, value});
    if (any_order_) places_.emplace(offset, words_.size() - 1);
  }

 private:
  // words_.size(): it is not replaced.
  [[nodiscard]] std::size_t find(std::uint64_t offset) const noexcept {
    if (any_order_) {
      const auto found = places_.find(offset);
      return found == places_.end() ? words_.size() : found->second;
    }
    for (std::size_t back = 1; back <= 2 && back <= words_.size(); ++back) {
      if (words_[words_.size() - back].offset == offset) return words_.size() - back;
    }
    return words_.size();
  }
  [[nodiscard]] std::uint64_t word_at(std::uint64_t offset) const noexcept {
    if (const std::size_t i = find(offset); i != words_.size()) return words_[i].value;
    std::uint64_t value = 0;
    std::memcpy(&value, base_ + offset, sizeof value);
    return value;
  }

  static constexpr std::size_t buckets_kept_max = 256;

  const std::byte* base_;
  std::vector<tx::assigned_word> words_;
  bool any_order_ = false;
  std::unordered_map<std::uint64_t, std::size_t> places_;  // of words_, where pointers come in any order
};

// Algorithm 1, POINTER_REWRITE, and its walk over the objects of a part.
class numbering_pass {
 public:
  numbering_pass(std::byte* base, const pointer_plans& plans, const numbered_bases& numbers, std::uint64_t now,
                 numbered_pool& pool, relocation_report& out) noexcept
      : base_{base}, finder_{plans}, numbers_{numbers}, now_{now}, pool_{pool}, out_{out}, words_{base} {}

  // Step 2.
  void move(std::uint64_t header, const layout::object_header& h, const layout::alignment& a) {
    if (!failure_) return;
    const pointer_plan* const plan = finder_.find(h.type);
    if (plan == nullptr) return;
    const number_place place = number_of(base_, header, a);
    if (!place.number || *place.number > numbers_.count) return refuse(header, place);
    ++out_.objects;
    const std::uint64_t from = numbers_.bases[*place.number];
    words_.clear(plan->asks_object());
    plan->each(base_ + header + a.gap, layout::object_size(h) - a.padding(), [&](const pointer_word& p) {
      if (p.kind == layout::field_kind::static_pointer) return;
      move_pointer(header + a.gap, p.at, h.type, from);
    });
    if (from == now_) return;
    // The transaction is there because a crash might else find the number without the pointers.
    if (planted(plant::number_alone)) {
      if (words_.empty()) return;
      failure_ = pool_.store(words_.all());
      words_.clear();
    }
    words_.put(place.at, place.word_of(numbers_.number_of(now_)));
    if (failure_) failure_ = pool_.store(words_.all());
  }
  // Step 4.
  void take_back(std::uint64_t header, const layout::alignment& a) {
    if (!failure_) return;
    const number_place place = number_of(base_, header, a);
    if (!place.number || *place.number > numbers_.count) return refuse(header, place);
    if (*place.number == 0) return;
    words_.put(place.at, place.word_of(0));
    if (words_.count() == words_together) store_collected();
  }
  void store_collected() {
    if (failure_ && !words_.empty()) failure_ = pool_.store(words_.all());
    words_.clear();
  }
  [[nodiscard]] status failure() const noexcept { return failure_; }

 private:
  static constexpr std::size_t words_together = 32;

  void move_pointer(std::uint64_t payload, std::uint64_t at, std::uint32_t type, std::uint64_t from) {
    // As it was before the object: nothing is stored there until its end, and a visitor may tell a pointer twice.
    std::uint64_t value = 0;
    std::memcpy(&value, base_ + payload + at, sizeof value);
    if (value == 0) return;
    ++out_.pointers;
    if (value - from - 1 >= numbers_.bytes) return out_.found_foreign({payload, at, value, type});
    if (from == now_) return;
    words_.replace(payload + at, value - from + now_);
    ++out_.moved;
  }
  void refuse(std::uint64_t header, const number_place& place) noexcept {
    failure_ = fail(errc::corrupt,
                    "object at offset %lu: the number of its base: found %016lx at offset %lu, expected one of the %u "
                    "bases of a relocation",
                    header, place.word, place.at, numbers_.count);
  }

  std::byte* base_;
  plan_finder finder_;
  const numbered_bases& numbers_;
  std::uint64_t now_;
  numbered_pool& pool_;
  relocation_report& out_;
  object_words words_;
  status failure_;
};

// A failure that a thread met, for the thread that returns to the caller.
struct part_failure {
  errc code = errc::ok;
  char text[256] = "";

  void remember(errc met) noexcept {
    code = met;
    std::snprintf(text, sizeof text, "%s", last_message());
  }
};

// Fails unless the pool is at rest: no object bears a number.
status expect_no_numbers(const std::byte* base, const geometry& g) {
  status found;
  const auto look = [&](std::uint64_t header, const layout::object_header&, const layout::alignment& a) {
    const number_place place = number_of(base, header, a);
    if (place.number == 0U || !found) return;
    found = fail(errc::corrupt,
                 "object at offset %lu: found %016lx at offset %lu, the number of a relocation, and none "
                 "is under way",
                 header, place.word, place.at);
  };
  if (status s = each_header(base, g, 0, 1, look); !s) return s;
  return found;
}

// Calls visit(pass, header offset, header, alignment) for each object, the parts maybe in parallel.  May throw
// std::bad_alloc.
template <class Visit>
status pass_over_all(std::byte* base, const geometry& g, const pointer_plans& plans, numbered_pool& pool,
                     unsigned parts, relocation_report& report, Visit&& visit) {
  const numbered_bases numbers = pool.numbers();
  std::vector<relocation_report> reports(parts);
  std::vector<part_failure> failures(parts);
  pool.run(parts, [&](unsigned part) noexcept {
    try {
      numbering_pass walk{base, plans, numbers, pool.address(), pool, reports[part]};
      status s = each_header(
          base, g, part, parts,
          [&](std::uint64_t at, const layout::object_header& h, const layout::alignment& a) { visit(walk, at, h, a); });
      walk.store_collected();
      if (s) s = walk.failure();
      if (!s) failures[part].remember(s.error());
    } catch (const std::bad_alloc&) {
      failures[part].remember(fail(errc::no_memory, "no volatile memory to relocate a pool"));
    }
  });
  for (const part_failure& f : failures) {
    if (f.code != errc::ok) return fail(f.code, "%s", f.text);
  }
  for (const relocation_report& r : reports) report.add(r);
  return {};
}

}  // namespace

status relocate_by_number(std::byte* base, const geometry& g, const pointer_plans& plans, numbered_pool& pool,
                          unsigned parts, relocation_report& report) noexcept try {
  const auto run = [&](unsigned n, auto&& f) { pool.run(n, f); };
  if (const auto all = survey_all(base, g, plans, parts, run); !all) return all.error();
  if (!pool.numbers_objects()) {
    if (status s = expect_no_numbers(base, g); !s) return s;
  }
  if (status s = pool.begin(); !s) return s;
  const auto over_all = [&](relocation_report& out, auto&& visit) {
    return pass_over_all(base, g, plans, pool, parts, out, visit);
  };
  const auto move = [](auto& walk, std::uint64_t at, const auto& h, const auto& a) { walk.move(at, h, a); };
  const auto take_back = [](auto& walk, std::uint64_t at, const auto& /*h*/, const auto& a) { walk.take_back(at, a); };
  relocation_report nothing;
  if (status s = over_all(report, move); !s) return s;
  if (planted(plant::numbers_back_early)) {
    if (status s = over_all(nothing, take_back); !s) return s;
  }
  if (status s = pool.prefer_base(); !s) return s;
  if (status s = over_all(nothing, take_back); !s) return s;
  return pool.finish();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to relocate a pool");
}

}  // namespace nvm::object
