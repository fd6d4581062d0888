#include "object/reset_fields.hpp"

#include <atomic>

namespace nvm::object {

void reset_plan::add(const layout::type_field* fields, std::uint32_t n) {
  using enum layout::field_kind;
  for (std::uint32_t i = 0; i < n; i += 1 + fields[i].inner) {
    const layout::type_field& f = fields[i];
    if (f.kind == reset) {
      parts_.push_back({f.offset, f.element_bytes, f.count, 0});
    } else if (f.kind == structure || f.kind == by_visitor) {
      const std::size_t here = parts_.size();
      parts_.push_back({f.offset, f.element_bytes, f.count, 0});
      add(&f + 1, f.inner);
      parts_[here].parts = static_cast<std::uint32_t>(parts_.size() - here - 1);
      if (parts_[here].parts == 0) parts_.pop_back();
    }
  }
}

reset_plan reset_plan::of(const layout::type_record& r) {
  reset_plan plan;
  plan.size_ = std::max<std::uint64_t>(r.size, 1);
  const layout::type_field* const fields = fields_of(r);
  for (std::uint32_t i = 0; i < r.fields; i += 1 + fields[i].inner) plan.flexible_ |= fields[i].count == 0;
  plan.add(fields, r.fields);
  if (!plan.none()) plan.first_byte_ = plan.parts_.front().offset;
  return plan;
}

bool has_reset_fields(const layout::type_record& r) noexcept {
  const layout::type_field* const fields = fields_of(r);
  return std::any_of(fields, fields + r.fields,
                     [](const layout::type_field& f) { return f.kind == layout::field_kind::reset; });
}
bool have_reset_fields(const type_map& types) noexcept {
  return std::any_of(types.records().begin(), types.records().end(),
                     [](const layout::type_record* r) { return has_reset_fields(*r); });
}

void reset_plans::add(const type_map& types, const std::vector<std::uint32_t>& without) {
  const auto left_out = [&](std::uint32_t id) { return std::binary_search(without.begin(), without.end(), id); };
  const auto before = [](const entry& a, const entry& b) { return a.id < b.id; };
  std::vector<entry> fresh;
  for (const layout::type_record* r : types.records()) {
    if (r->canonical != r->id) continue;
    fresh.push_back({r->id, static_cast<std::uint32_t>(plans_.size())});
    plans_.push_back(left_out(r->id) ? reset_plan{} : reset_plan::of(*r));
    if (plans_.back().none() || std::binary_search(ids_.begin(), ids_.end(), fresh.back(), before)) continue;
    smallest_ = std::min(smallest_, plans_.back().first_byte() + 1);
    if (example_.empty()) example_ = name_of(*r);
  }
  const std::size_t known = ids_.size(), types_of_map = fresh.size();
  const auto in = [&](const std::vector<entry>& all, std::size_t n, std::uint32_t id) -> const entry* {
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(n);
    const auto at = std::lower_bound(all.begin(), end, entry{id, 0}, before);
    return at != end && at->id == id ? &*at : nullptr;
  };
  for (const layout::type_record* r : types.records()) {
    if ((r->canonical != r->id && left_out(r->id)) || in(ids_, known, r->id) != nullptr) continue;
    // Another name of a type means what that does.
    const entry* const meant = in(ids_, known, r->canonical);
    ids_.push_back({r->id, (meant != nullptr ? *meant : *in(fresh, types_of_map, r->canonical)).plan});
  }
  std::sort(ids_.begin(), ids_.end(), before);
}

std::uint64_t make_zero(std::byte* from, std::uint64_t bytes) noexcept {
  std::uint64_t stored = 0;
  const auto by_bytes = [&](std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      if (from[i] == std::byte{0}) continue;
      from[i] = std::byte{0};
      ++stored;
    }
    from += n;
    bytes -= n;
  };
  by_bytes(std::min(bytes, -reinterpret_cast<std::uintptr_t>(from) % sizeof(std::uint64_t)));
  for (; bytes >= sizeof(std::uint64_t); from += sizeof(std::uint64_t), bytes -= sizeof(std::uint64_t)) {
    // relaxed: no other thread sees it; one store.
    const std::atomic_ref word{*reinterpret_cast<std::uint64_t*>(from)};
    if (word.load(std::memory_order_relaxed) == 0) continue;
    word.store(0, std::memory_order_relaxed);
    stored += sizeof(std::uint64_t);
  }
  by_bytes(bytes);
  return stored;
}

}  // namespace nvm::object
