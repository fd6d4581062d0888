#include "object/pointer_walk.hpp"

namespace nvm::object {

void pointer_plan::add_one(const layout::type_record& r, const layout::type_field& f, std::uint64_t room) {
  using enum layout::field_kind;
  part p;
  p.offset = f.offset;
  p.element_bytes = f.element_bytes;
  p.count = f.count;
  p.kind = f.kind;
  if (leads(f.kind)) {
    p.target = f.target;
    parts_.push_back(p);
    return;
  }
  if (f.kind == by_visitor) {
    p.target = f.target;
    p.visitor = visitor_registry::of_program().find(f.target);
    if (p.visitor == nullptr && lacks_visitor_of_ == 0) lacks_visitor_of_ = f.target;
    asks_object_ = true;
    parts_.push_back(p);
    return;
  }
  if (!layout::is_container(f.kind)) return;
  const std::size_t here = parts_.size();
  parts_.push_back(p);
  const layout::type_field* const inner = &f + 1;
  if (f.kind == structure) {
    add(r, inner, f.inner, f.element_bytes);
  } else {
    std::uint32_t member = 0;
    for (std::uint32_t i = 0; i < f.inner; i += 1 + inner[i].inner, ++member) {
      const std::size_t at = parts_.size();
      add_one(r, inner[i], f.element_bytes);
      if (parts_.size() > at) parts_[at].member = member;
    }
  }
  if (parts_.size() == here + 1) {
    parts_.pop_back();
    return;
  }
  parts_[here].parts = static_cast<std::uint32_t>(parts_.size() - here - 1);
  if (f.kind == structure) return;
  auto tag = union_tag::read(text_at(r, f.target), room);
  NVM_ASSERT(tag);  // it was read before
  parts_[here].tag = static_cast<std::uint32_t>(tags_.size());
  tags_.push_back(std::move(*tag));
  asks_object_ = true;
}

void pointer_plan::add(const layout::type_record& r, const layout::type_field* fields, std::uint32_t n,
                       std::uint64_t room) {
  for (std::uint32_t i = 0; i < n; i += 1 + fields[i].inner) add_one(r, fields[i], room);
}

bool pointer_plan::aligned() const noexcept {
  if (none()) return true;
  // Elements that follow each other keep the places of the first.
  const auto keeps = [](const part& p) {
    return p.offset % pointer_bytes == 0 && (p.count == 1 || p.element_bytes % pointer_bytes == 0);
  };
  return (flexible_ || size_ % pointer_bytes == 0) && std::all_of(parts_.begin(), parts_.end(), keeps);
}

bool pointer_plan::may_have_weak() const noexcept {
  using enum layout::field_kind;
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const part& p) { return p.kind == weak_pointer || p.kind == by_visitor; });
}

pointer_plan pointer_plan::of(const layout::type_record& r) {
  pointer_plan plan;
  plan.size_ = std::max<std::uint64_t>(r.size, 1);
  const layout::type_field* fields = fields_of(r);
  for (std::uint32_t i = 0; i < r.fields; i += 1 + fields[i].inner) plan.flexible_ |= fields[i].count == 0;
  plan.add(r, fields, r.fields, r.size);
  return plan;
}

pointer_plan pointer_plan::guesses(layout::field_kind kind) {
  pointer_plan plan;
  plan.size_ = pointer_bytes;
  plan.flexible_ = true;
  plan.guesses_ = true;
  part p;
  p.element_bytes = pointer_bytes;
  p.kind = kind;
  plan.parts_.push_back(p);
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
