// Mends the headers of clusters of object stores and the lists that lead through them (mend.hpp).
//
// A word in which one bit has changed is put right by its check.  Beyond that: header pages follow from the room of the
// map, a number from the cluster that leads here or to which this one leads, lists from the numbers of all clusters.
// What only its own page says of a store (root, rights, quota) becomes zero where it cannot be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "space/cluster_image.hpp"

namespace nvm {

// The entry of a cluster whose identity, room and number hold at `page`, as long as its map says that it is used;
// length 0: there is none.
[[nodiscard]] layout::page_entry identified_cluster(const std::byte* base, const geometry& g,
                                                    std::uint64_t page) noexcept;

class cluster_mender {
 public:
  using put_function = std::function<void(std::uint64_t at, std::uint64_t word, const char* what, bool certain)>;
  using cannot_function = std::function<void(std::uint64_t at, const char* what)>;
  cluster_mender(std::byte* base, const geometry& g, put_function put, cannot_function cannot)
      : base_{base}, g_{g}, put_{std::move(put)}, cannot_{std::move(cannot)} {}

  // Mends the headers of all clusters that the page map names; its entries are mended before.
  void mend_headers();
  // The clusters whose headers hold now, in the order of their pages.
  [[nodiscard]] const std::vector<cluster>& all() const noexcept { return all_; }
  void mend_lists();

 private:
  void mend_words(std::uint64_t page, std::uint64_t pages);
  // The content of a word, one with can_be(content); `made`: what the word becomes where no single bit explains it.
  template <class CanBe>
  std::uint64_t mend_word(std::uint64_t page, std::size_t at, const char* what, std::uint64_t made, CanBe&& can_be);
  // Mends a word that leads to a page or is zero; and a word of so many bits.
  void mend_link(std::uint64_t page, std::size_t at, const char* what);
  void mend_number(std::uint64_t page, std::size_t at, const char* what, unsigned bits);
  void mend_zeros(std::uint64_t page, std::size_t from, std::size_t to);
  [[nodiscard]] bool holds(std::uint64_t page, std::size_t at) const noexcept;
  [[nodiscard]] std::uint64_t content(std::uint64_t page, std::size_t at) const noexcept;
  [[nodiscard]] bool is_led_to(std::uint64_t page) const noexcept;
  [[nodiscard]] std::uint64_t number_by_list(std::uint64_t page) const noexcept;
  void put_link(std::uint64_t page, std::size_t at, std::uint64_t to);

  std::byte* base_;
  const geometry& g_;
  put_function put_;
  cannot_function cannot_;
  std::vector<std::uint64_t> pages_;  // where clusters begin
  std::vector<cluster> all_;
};

}  // namespace nvm
