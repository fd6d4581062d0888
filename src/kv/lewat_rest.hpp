// Every entry of a store over regions that no thread uses: each is looked at, and damaged ones are told and, if the
// caller asks for it, taken out.
#pragma once

#include <functional>

#include "engine/region_side.hpp"
#include "kv/item_image.hpp"
#include "kv/store.hpp"

namespace nvm::keyed::lewat {

// What an entry is that stands in the region of that number, where the segment has so many buckets.
enum class verdict : std::uint8_t { sound, elsewhere, no_sum };
[[nodiscard]] verdict judge(const std::byte* image, const item& i, std::uint64_t rid, std::uint64_t buckets,
                            const store_facts& facts) noexcept;

[[nodiscard]] const char* sentence(verdict v) noexcept;

struct rest_report {
  std::function<void(std::string_view key, std::string_view value, std::uint64_t rid)> give{};
  // `key`: as it stands there, where `has_key`.
  std::function<void(const char* what, std::uint64_t rid, bool has_key, std::string_view key)> lost{};
  bool takes_out = false;
};

// errc::no_memory, or what the set's calls say.
[[nodiscard]] status read_at_rest(engines::open_set& set, unsigned who, const store_facts& facts,
                                  const rest_report& report);

}  // namespace nvm::keyed::lewat
