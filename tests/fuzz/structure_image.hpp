// Where lock-free structures and the type map are in the image of a pool, for code that changes them and then makes
// their checks right again.
#pragma once

#include <cstring>
#include <vector>

#include "edits.hpp"
#include "lockfree/lockfree.hpp"
#include "object/object.hpp"
#include "object/type_map_writer.hpp"

namespace nvm::fuzz {

class structure_image {
 public:
  structure_image() = default;
  structure_image(const bytes& image, const geometry& g) : original_{&image} {
    directory_ = content_of(image, anchor_word_at(g, 0, anchor_word::lockfree));
    if (directory_ == 0) return;
    types_ = content_of(image, anchor_word_at(g, 0, anchor_word::types));
    for (unsigned i = 0; i < lockfree::layout::structures_max; ++i) {
      const std::uint64_t entry = entry_at(i);
      if (content_of(image, entry) == 0) continue;
      ++entries_;
      const std::uint64_t root = content_of(image, entry + offsetof(lockfree::layout::entry, root));
      const auto sealed = as<lockfree::sealed_root>(image, root);
      if (sealed.magic != lockfree::sealed_magic) continue;
      const std::uint64_t flags = content_of(image, entry + offsetof(lockfree::layout::entry, flags));
      sealed_.push_back({root, sealed.seed, (flags & lockfree::layout::entry_bytes) != 0});
    }
    constexpr std::byte zeros[line_bytes] = {};
    for (std::uint64_t at = g.data_offset; at + line_bytes <= image.size(); at += line_bytes) {
      if (std::memcmp(&image[at], zeros, line_bytes) != 0) lines_.push_back(at);
    }
  }

  // There are structures, and a type map.
  [[nodiscard]] bool whole() const noexcept { return directory_ != 0 && types_ != 0 && entries_ != 0; }

  // A byte of the directory, of the type map, of a line of data that says something.
  [[nodiscard]] std::uint64_t directory_place(std::uint64_t n) const {
    const std::uint64_t fields = n % 8 == 0 ? 64 : sizeof(lockfree::layout::entry);
    return n % 8 == 0 ? directory_ + n / 8 % fields : entry_at(n / 8 / fields % entries_) + n / 8 % fields;
  }
  [[nodiscard]] std::uint64_t type_place(std::uint64_t n) const { return types_ + n % 2048; }
  [[nodiscard]] std::uint64_t used_place(std::uint64_t n) const {
    return lines_[n / line_bytes % lines_.size()] + n % line_bytes;
  }

  // The checks around a byte that was changed. False: it is in nothing that we know.
  bool reseal(bytes& image, std::uint64_t at) const {
    const std::uint64_t word = round_down(at, 8);
    if (at - directory_ < sizeof(lockfree::layout::directory)) return reseal_directory(image, word);
    if (at - types_ < content_of_map(image)) {
      put(image, types_ + offsetof(layout::type_map_header, checksum),
          object::type_map_checksum(&image[types_], content_of_map(image)));
      return true;
    }
    for (const sealed& s : sealed_) {
      if (at - s.root < sizeof(lockfree::sealed_root)) {
        auto root = as<lockfree::sealed_root>(image, s.root);
        root.sum = checksum(&root, offsetof(lockfree::sealed_root, sum), s.root);
        std::memcpy(&image[s.root], &root, sizeof root);
        return true;
      }
      // The node around it, as it was before anybody changed anything.
      for (std::uint64_t back = 0; back <= 32 && back <= word; back += 8) {
        const std::uint64_t node = word - back;
        if (!in_image(image, node, sizeof(lockfree::sealed_bytes::node))) continue;
        const std::uint64_t seal = as<std::uint64_t>(*original_, node + seal_at);
        if (seal == 0 || (seal & lockfree::seal::sum_mask) != sum_of(*original_, node, s)) continue;
        const std::uint64_t now = as<std::uint64_t>(image, node + seal_at);
        put(image, node + seal_at, sum_of(image, node, s) | (now & ~lockfree::seal::sum_mask));
        return true;
      }
    }
    return false;
  }

 private:
  struct sealed {
    std::uint64_t root;
    std::uint64_t seed;
    bool of_bytes;
  };
  static constexpr std::uint64_t seal_at = sizeof(lockfree::node_head);  // in a sealed_head

  static bool in_image(const bytes& image, std::uint64_t at, std::uint64_t n) noexcept {
    return range_inside(at, n, image.size());
  }
  template <class T>
  static T as(const bytes& image, std::uint64_t at) {
    T value{};
    if (in_image(image, at, sizeof value)) std::memcpy(&value, &image[at], sizeof value);
    return value;
  }
  static std::uint64_t content_of(const bytes& image, std::uint64_t at) {
    return as<std::uint64_t>(image, at) & checked_mask;
  }
  static void put(bytes& image, std::uint64_t at, std::uint64_t v) { std::memcpy(&image[at], &v, 8); }
  [[nodiscard]] std::uint64_t entry_at(std::uint64_t i) const noexcept {
    return directory_ + offsetof(lockfree::layout::directory, entries) + i * sizeof(lockfree::layout::entry);
  }
  // Bytes of the type map, as it says itself; 0: it cannot be.
  [[nodiscard]] std::uint64_t content_of_map(const bytes& image) const {
    const std::uint64_t n = as<layout::type_map_header>(image, types_).bytes;
    return n >= sizeof(layout::type_map_header) && in_image(image, types_, n) ? n : 0;
  }
  bool reseal_directory(bytes& image, std::uint64_t word) const {
    const std::uint64_t first = entry_at(0);
    const std::uint64_t i = word < first ? 0 : (word - first) / sizeof(lockfree::layout::entry);
    if (word < first || word - entry_at(i) < offsetof(lockfree::layout::entry, name)) {
      put(image, word, seal_word(as<std::uint64_t>(image, word) & checked_mask, word_seed(word)));
    }
    if (word >= first) {
      const std::uint64_t entry = entry_at(i);
      put(image, entry + offsetof(lockfree::layout::entry, crc),
          checksum(&image[entry + 8], offsetof(lockfree::layout::entry, crc) - 8, entry));
    }
    return true;
  }
  static std::uint64_t sum_of(const bytes& image, std::uint64_t node, const sealed& s) {
    if (s.of_bytes) {
      const auto n = as<lockfree::sealed_bytes::node>(image, node);
      return lockfree::sealed_bytes::sum_of(&n, node, s.seed);
    }
    const auto n = as<lockfree::sealed_words::node>(image, node);
    return lockfree::sealed_words::sum_of(&n, node, s.seed);
  }

  const bytes* original_ = nullptr;
  std::uint64_t directory_ = 0;
  std::uint64_t types_ = 0;
  std::uint64_t entries_ = 0;
  std::vector<sealed> sealed_;
  std::vector<std::uint64_t> lines_;
};

}  // namespace nvm::fuzz
