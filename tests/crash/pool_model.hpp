// The content that a pool must have, beside the one that it has.
//
// The state of a pool is the set of its objects {place, size, contents} and its root; its digest is the order-free sum
// of their hashes.  The model keeps the committed state in ordinary containers and never looks at the pool while it
// works, so that a fault that engine and recovery share cannot hide.  A leaked object is a difference of digests, and a
// failure.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "media/media.hpp"
#include "object/object.hpp"
#include "tx/tx.hpp"

namespace nvm::tests {

inline std::uint64_t hash_object(std::uint64_t payload, std::uint64_t bytes, const void* content) {
  return checksum(content, bytes, mix_seed(payload, bytes));
}
inline std::uint64_t hash_types(const std::byte* map, std::uint64_t bytes) { return checksum(map, bytes, 0x74797065); }
inline std::uint64_t hash_root(std::uint64_t root) { return mix_seed(0x726F6F74, root + 1); }

// Bytes of the type map, 0: there is none; errc::corrupt if anything without a type lies in the pool but a whole map.
// Calls typed(offset) for each object that has one.
template <class F>
result<std::uint64_t> types_in(const std::byte* base, const geometry& g, std::uint64_t& at, F&& typed) {
  const auto word = read_anchor_word(base, g, anchor_word::types);
  if (!word) return word.error();
  at = *word;
  std::uint64_t found = 0;
  errc wrong = errc::ok;
  const status walked =
      for_each_object(base, g, [&](std::uint64_t offset, std::uint64_t bytes, layout::object_layout l) {
        if (l == layout::object_layout::typed) typed(offset);
        if (l != layout::object_layout::raw) return true;
        if (offset != at) {
          wrong =
              fail(errc::corrupt, "offset %llu: an object that nothing names", static_cast<unsigned long long>(offset));
        } else if (auto map = object::type_map::read(base + offset, bytes, offset); !map) {
          wrong = map.error();
        } else {
          layout::type_map_header h;
          std::memcpy(&h, base + offset, sizeof h);
          found = h.bytes;
        }
        return wrong == errc::ok;
      });
  if (!walked) return walked.error();
  if (wrong != errc::ok) return wrong;
  if (at != 0 && found == 0) return fail(errc::corrupt, "the type map's place has no object");
  return found;
}

// Digest of the pool's bytes; a sentence instead when its metadata is not whole.
struct pool_state {
  std::uint64_t digest = 0;
  std::string fault;
};
inline pool_state state_of(const std::byte* base, std::size_t available) {
  pool_state s;
  auto sb = pick_superblock(base, available);
  if (!sb) return {0, last_message()};
  const geometry g = geometry_of(*sb);
  space_summary summary;
  const std::function<void(const damage&)> report = [&](const damage& d) {
    if (s.fault.empty()) s.fault = "offset " + std::to_string(d.offset) + ": " + d.what;
  };
  (void)check_space(base, g, report, summary);
  if (s.fault.empty() && summary.log_pages != 0) s.fault = "a log run is left after recovery";
  auto root = read_root(base, g);
  if (!root) return {0, last_message()};
  s.digest = hash_root(*root);
  std::uint64_t types = 0;
  const auto bytes = types_in(base, g, types, [&](std::uint64_t offset) {
    layout::object_header h;
    std::memcpy(&h, base + offset, sizeof h);
    const std::uint64_t payload = offset + sizeof h;
    s.digest += hash_object(payload, layout::object_size(h), base + payload);
  });
  if (!bytes) {
    if (s.fault.empty()) s.fault = last_message();
  } else if (*bytes != 0) {
    s.digest += hash_types(base + types, *bytes);
  }
  return s;
}

// The committed state.
class pool_model {
 public:
  std::uint64_t root = 0;
  std::vector<std::byte> types;                             // empty: none
  std::map<std::uint64_t, std::vector<std::byte>> objects;  // by payload

  [[nodiscard]] std::uint64_t digest() const {
    std::uint64_t d = hash_root(root);
    if (!types.empty()) d += hash_types(types.data(), types.size());
    for (const auto& [at, content] : objects) d += hash_object(at, content.size(), content.data());
    return d;
  }
  // For a run that starts from a crashed image: what its recovery has left.
  [[nodiscard]] static pool_model of(const std::byte* base, std::size_t available) {
    pool_model m;
    const auto sb = pick_superblock(base, available);
    if (!sb) std::abort();
    const geometry g = geometry_of(*sb);
    const auto root = read_root(base, g);
    if (!root) std::abort();
    m.root = *root;
    std::uint64_t types = 0;
    const auto type_bytes = types_in(base, g, types, [&](std::uint64_t offset) {
      layout::object_header h;
      std::memcpy(&h, base + offset, sizeof h);
      const std::byte* payload = base + offset + sizeof h;
      m.objects[offset + sizeof h].assign(payload, payload + layout::object_size(h));
    });
    if (!type_bytes) std::abort();
    m.types.assign(base + types, base + types + *type_bytes);
    return m;
  }
};

}  // namespace nvm::tests
