#include "object/static_registry.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>

#include "object/static_images.hpp"
#include "object/type_registry.hpp"

namespace nvm::object {
namespace {

// Places in announced images; further images count as not announced.
constinit std::array<std::atomic<std::uint64_t>, 64> announced{};

bool is_announced(const static_object& image) noexcept {
  return std::any_of(announced.begin(), announced.end(), [&](const auto& place) {
    const std::uint64_t at = place.load(std::memory_order_relaxed);
    return at != 0 && at - image.address < image.size;
  });
}

bool is_text(std::string_view name) noexcept { return name.starts_with('"'); }

status fault_of(const nvm_static_object& o) noexcept {
  if (o.name == nullptr || *o.name == '\0') return fail(errc::invalid, "the name of a static object is NULL or empty");
  const std::size_t length = ::strnlen(o.name, layout::static_name_max + 1);
  if (length > layout::static_name_max) {
    return fail(errc::invalid, "the name of a static object: found more than %zu bytes, expected at most as many",
                layout::static_name_max);
  }
  if (std::any_of(o.name, o.name + length, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; })) {
    return fail(errc::invalid, "the name of a static object has control characters");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(o.address);
  if (o.bytes > layout::static_size_max || address >= layout::static_address_end - layout::static_size_max) {
    return fail(errc::invalid, "static object %s: found %lu bytes at 0x%lx, which no table can tell", o.name, o.bytes,
                static_cast<std::uint64_t>(address));
  }
  return {};
}

}  // namespace

static_registry& static_registry::of_program() noexcept {
  // Never destroyed: pools are closed by exit handlers, which may run late.
  union storage {
    constexpr storage() noexcept : registry{} {}
    ~storage() {}
    static_registry registry;
  };
  static constinit storage s;
  return s.registry;
}

void static_registry::add_locked(const nvm_static_object& o, images_now images) {
  if (objects_ == nullptr) objects_ = new std::map<std::string, std::vector<object>>;
  auto& known = (*objects_)[o.name];
  const object added{reinterpret_cast<std::uintptr_t>(o.address), std::max<std::uint64_t>(o.bytes, 1)};
  const auto same =
      std::find_if(known.begin(), known.end(), [&](const object& k) { return k.address == added.address; });
  if (same != known.end()) {
    // Some declarations do not say how large an array is.
    same->bytes = std::max(same->bytes, added.bytes);
    return;
  }
  if (!known.empty()) {
    // A library that was unloaded and loaded again elsewhere keeps its meaning.
    const auto loaded = images();
    std::erase_if(known, [&](const object& k) {
      return std::none_of(loaded.begin(), loaded.end(),
                          [&](const static_object& i) { return k.address - i.address < i.size; });
    });
  }
  known.push_back(added);
}

status static_registry::add(const nvm_static_object* objects, std::size_t count, images_now images) noexcept try {
  for (std::size_t i = 0; i < count; ++i) {
    if (status s = fault_of(objects[i]); !s) return s;
  }
  const std::lock_guard guard{lock_};
  if ((objects_ == nullptr ? 0 : objects_->size()) + count > layout::static_rows_max / 2) {
    return fail(errc::too_large, "names of static objects: found more than %u, expected at most as many",
                layout::static_rows_max / 2);
  }
  for (std::size_t i = 0; i < count; ++i) add_locked(objects[i], images);
  if (count != 0) type_registry::changed();
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the names of static objects");
}

bool static_registry::any() noexcept {
  const std::lock_guard guard{lock_};
  return objects_ != nullptr;
}

void announce_image(const void* code) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(code) >> 12 << 12;  // any page of the image will do
  for (auto& place : announced) {
    std::uint64_t found = 0;
    // relaxed: announced before the pools are opened that it concerns.
    if (place.compare_exchange_strong(found, at, std::memory_order_relaxed) || found == at) return;
  }
}

static_table static_registry::table(images_now images) {
  std::vector<static_object> rows;
  {
    const std::lock_guard guard{lock_};
    if (objects_ != nullptr) {
      for (const auto& [name, all] : *objects_) {
        if (all.size() != 1 && !is_text(name)) continue;
        for (const object& o : all) rows.push_back({layout::static_kind::object, o.address, o.bytes, name});
      }
    }
  }
  for (static_object& i : images()) {
    if (key_of(i).empty() || i.size > layout::static_size_max) continue;
    if (is_announced(i)) i.kind = announced_image;
    rows.push_back(std::move(i));
  }
  return {std::move(rows), layout::static_state::at_rest};
}

}  // namespace nvm::object
