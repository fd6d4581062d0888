#include "lockfree/lockfree.hpp"
#include "lockfree/maps.hpp"
#include "lockfree/pool_host.hpp"
#include "lockfree/volatile_memory.hpp"

namespace nvm::bench {
namespace {

template <template <class> class Shape>
class volatile_map final : public map_of<volatile_map<Shape>> {
  using base = map_of<volatile_map<Shape>>;
  using structure = Shape<lockfree::volatile_memory>;

 public:
  explicit volatile_map(const map_settings& s) : base{s}, memory_{pool_bytes_for(s.size)} {
    require(memory_.exists());
    const auto root = structure::make_new(
        {hash_bits(s.size), 0x1234'5678}, [this](std::uint64_t bytes) { return memory_.take_run(bytes); },
        [this](std::uint64_t offset) { return memory_.at(offset); }, [](std::uint64_t, std::uint64_t) {});
    require(root.has_value());
    it_ = std::make_unique<structure>(memory_, *root);
    for (unsigned t = 0; t < s.threads; ++t) {
      sessions_.push_back(std::make_unique<lockfree::volatile_memory::session>(memory_));
    }
    fill(s.shape, s.size, [&](std::uint64_t key) { insert_(0, key, key); });
  }
  [[gnu::always_inline]] bool insert_(unsigned t, std::uint64_t key, std::uint64_t value) {
    const auto r = it_->write(*sessions_[t], key, value, lockfree::write_rule::insert_only);
    if (!r) [[unlikely]]
      require(false);
    return *r == lockfree::written::inserted;
  }
  [[gnu::always_inline]] bool remove_(unsigned t, std::uint64_t key) {
    const auto r = it_->remove(*sessions_[t], key);
    if (!r) [[unlikely]]
      require(false);
    return *r;
  }
  [[gnu::always_inline]] bool look_up_(unsigned t, std::uint64_t key) {
    return it_->look_up(*sessions_[t], key, [](const auto&) {});
  }
  bool replace(unsigned t, std::uint64_t key, std::uint64_t value) override {
    const auto r = it_->write(*sessions_[t], key, value, lockfree::write_rule::replace_only);
    require(r.has_value());
    return *r == lockfree::written::replaced;
  }

 private:
  lockfree::volatile_memory memory_;
  std::unique_ptr<structure> it_;
  std::vector<std::unique_ptr<lockfree::volatile_memory::session>> sessions_;
};

}  // namespace

std::unique_ptr<measured_map> make_volatile_map(const map_settings& s) {
  switch (s.shape) {
    case shape::list:
      return std::make_unique<volatile_map<word_list>>(s);
    case shape::hash:
      return std::make_unique<volatile_map<word_hash_table>>(s);
    case shape::skip_list:
      return std::make_unique<volatile_map<word_skip_list>>(s);
    case shape::tree:
      return std::make_unique<volatile_map<word_tree>>(s);
  }
  throw std::runtime_error("there is no such map");
}

}  // namespace nvm::bench
