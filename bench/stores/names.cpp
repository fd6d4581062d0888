#include "stores/names.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>

#include "harness/clock.hpp"
#include "pool/superblock.hpp"
#include "space/page_map.hpp"
#include "store/store.hpp"

namespace nvm::bench {
namespace {

class mapped_pool {
 public:
  explicit mapped_pool(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat facts{};
    if (fd < 0 || ::fstat(fd, &facts) != 0) throw std::runtime_error{"cannot open " + path};
    bytes_ = static_cast<std::size_t>(facts.st_size);
    base_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    if (base_ == MAP_FAILED) throw std::runtime_error{"cannot map " + path};
  }
  ~mapped_pool() { ::munmap(base_, bytes_); }
  mapped_pool(const mapped_pool&) = delete;
  mapped_pool& operator=(const mapped_pool&) = delete;
  [[nodiscard]] std::byte* base() const { return static_cast<std::byte*>(base_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* base_ = nullptr;
  std::size_t bytes_ = 0;
};

template <class T>
T must(const result<T>& r) {
  if (!r) throw std::runtime_error{last_message()};
  return *r;
}

}  // namespace

trie_measured look_names_up(const std::string& path, const std::vector<std::string>& names) {
  const mapped_pool pool{path};
  const geometry g = geometry_of(must(pick_superblock(pool.base(), pool.bytes())));
  stores::names_reader m{{pool.base(), g.data_offset, g.size_bytes()}};
  const auto c = must(read_catalogue(m, must(read_anchor_word(pool.base(), g, anchor_word::catalogue))));
  trie_measured out;
  for (const bool timed : {false, true}) {
    std::uint64_t missing = 0;
    const std::uint64_t start = wall_ns();
    for (const std::string& name : names) {
      const auto found = find_name(m, c, name);
      missing += found && *found ? 0 : 1;
    }
    if (timed) out.ns_a_lookup = static_cast<double>(wall_ns() - start) / static_cast<double>(names.size());
    if (missing != 0) throw std::runtime_error{"names are missing"};
  }
  constexpr std::uint64_t header_bytes = 16;
  const auto sum = must(check_trie(m, c.root_at(), {}));
  const auto count = static_cast<double>(sum.names);
  const std::uint64_t spent = sum.node_bytes + header_bytes * (sum.inner_nodes + sum.containers);
  out.names = sum.names;
  out.bytes_a_name = static_cast<double>(spent) / count;
  out.bytes_beyond_its_text = out.bytes_a_name - static_cast<double>(sum.name_bytes) / count;
  return out;
}

}  // namespace nvm::bench
