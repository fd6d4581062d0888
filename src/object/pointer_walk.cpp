#include "object/pointer_walk.hpp"

namespace nvm::object {

void pointer_plan::add(const layout::type_field* fields, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; i += 1 + fields[i].inner) {
    const layout::type_field& f = fields[i];
    const std::size_t here = parts_.size();
    if (leads(f.kind)) {
      parts_.push_back({f.offset, pointer_bytes, f.count, f.target, 0, f.kind});
    } else if (f.kind == layout::field_kind::structure) {
      parts_.push_back({f.offset, f.element_bytes, f.count, 0, 0, f.kind});
      add(fields + i + 1, f.inner);
      if (parts_.size() == here + 1) {
        parts_.pop_back();
      } else {
        parts_[here].parts = static_cast<std::uint32_t>(parts_.size() - here - 1);
      }
    }
  }
}

bool pointer_plan::aligned() const noexcept {
  if (none()) return true;
  // Elements that follow each other keep the places of the first.
  const auto keeps = [](const part& p) {
    return p.offset % pointer_bytes == 0 && (p.count == 1 || p.element_bytes % pointer_bytes == 0);
  };
  return (flexible_ || size_ % pointer_bytes == 0) && std::all_of(parts_.begin(), parts_.end(), keeps);
}

pointer_plan pointer_plan::of(const layout::type_record& r) {
  pointer_plan plan;
  plan.size_ = std::max<std::uint64_t>(r.size, 1);
  const layout::type_field* fields = fields_of(r);
  for (std::uint32_t i = 0; i < r.fields; i += 1 + fields[i].inner) plan.flexible_ |= fields[i].count == 0;
  plan.add(fields, r.fields);
  return plan;
}

pointer_plans::pointer_plans(const type_map& types) {
  std::vector<entry> canonical;
  for (const layout::type_record* r : types.records()) {
    if (r->canonical != r->id) continue;
    canonical.push_back({r->id, static_cast<std::uint32_t>(plans_.size())});
    plans_.push_back(pointer_plan::of(*r));
  }
  const auto before = [](const entry& e, std::uint32_t id) { return e.id < id; };
  for (const layout::type_record* r : types.records()) {
    const auto at = std::lower_bound(canonical.begin(), canonical.end(), r->canonical, before);
    if (at != canonical.end() && at->id == r->canonical) ids_.push_back({r->id, at->plan});
  }
}

const pointer_plan* pointer_plans::find(std::uint32_t type) const noexcept {
  const auto at =
      std::lower_bound(ids_.begin(), ids_.end(), type, [](const entry& e, std::uint32_t id) { return e.id < id; });
  return at != ids_.end() && at->id == type ? &plans_[at->plan] : nullptr;
}

}  // namespace nvm::object
