#include "object/type_registry.hpp"

#include <cstdio>
#include <cstring>
#include <new>

#include "object/type_merge.hpp"

namespace nvm::object {

type_registry& type_registry::of_program() noexcept {
  // Never destroyed: pools are closed by exit handlers, which may run late.
  union storage {
    constexpr storage() noexcept : registry{} {}
    ~storage() {}
    type_registry registry;
  };
  static constinit storage s;
  return s.registry;
}

status type_registry::broken(errc code) noexcept {
  if (error_ == errc::ok) {
    error_ = code;
    std::snprintf(message_, sizeof message_, "%s", last_message());
  }
  changed();
  return code;
}

status type_registry::lacks(errc code) noexcept {
  const std::lock_guard guard{lock_};
  return broken(code);
}

status type_registry::add(const void* map, std::uint64_t bytes) noexcept {
  const std::lock_guard guard{lock_};
  try {
    return add_locked(map, bytes);
  } catch (const std::bad_alloc&) {
    return broken(fail(errc::no_memory, "no volatile memory for the types of the program"));
  }
}

status type_registry::add_locked(const void* map, std::uint64_t bytes) {
  auto fresh = std::make_shared<owned_type_map>();
  fresh->bytes.resize(bytes / 8);
  std::memcpy(fresh->bytes.data(), map, fresh->bytes.size() * 8);
  auto read = type_map::read(reinterpret_cast<const std::byte*>(fresh->bytes.data()), fresh->bytes.size() * 8);
  if (!read) return read.error() == errc::no_memory ? broken(read.error()) : read.error();
  fresh->map = std::move(*read);
  if (types_ != nullptr) {
    for (const layout::type_record* r : fresh->map.records()) {
      const layout::type_record* known = types_->map.find(r->id);
      if (known == nullptr || (known->bytes == r->bytes && std::memcmp(known, r, r->bytes) == 0)) continue;
      char before[180];
      char now[180];
      describe(*known, before, sizeof before);
      describe(*r, now, sizeof now);
      return broken(
          fail(errc::type_mismatch, "type id 0x%x has two meanings in this program: %s; %s", r->id, before, now));
    }
    const type_comparison c = compare_types(types_->map, fresh->map);
    if (!c.changes) return {};
    auto merged = std::make_shared<owned_type_map>();
    merged->bytes = merge_types(types_->map, fresh->map);
    auto whole = type_map::read(reinterpret_cast<const std::byte*>(merged->bytes.data()), merged->bytes.size() * 8);
    if (!whole) return broken(whole.error());
    merged->map = std::move(*whole);
    fresh = std::move(merged);
  }
  if (fresh->map.records().empty()) return {};
  types_ = std::move(fresh);
  changed();
  return {};
}

result<std::shared_ptr<const owned_type_map>> type_registry::types() noexcept try {
  const std::lock_guard guard{lock_};
  if (error_ != errc::ok) return fail(error_, "%s", message_);
  if (types_ == nullptr) return std::shared_ptr<const owned_type_map>{std::make_shared<owned_type_map>()};
  return types_;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the types of the program");
}

}  // namespace nvm::object
