#include "tier/policy.hpp"

#include <new>

namespace nvm::tier {
namespace {

template <policy P>
class policy_as_any final : public any_policy {
 public:
  explicit policy_as_any(std::uint64_t pages) noexcept : policy_{pages} {}
  [[nodiscard]] bool exists() const noexcept { return policy_.exists(); }
  [[nodiscard]] const char* name() const noexcept override { return P::name; }
  void came(page_t page) noexcept override { policy_.came(page); }
  void used(page_t page) noexcept override { policy_.used(page); }
  void gone(page_t page) noexcept override { policy_.gone(page); }
  [[nodiscard]] page_t victim(page_host& host) noexcept override { return policy_.victim(host); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return policy_.size(); }

 private:
  P policy_;
};

template <policy P>
result<std::unique_ptr<any_policy>> make(std::uint64_t pages) noexcept {
  std::unique_ptr<policy_as_any<P>> made{new (std::nothrow) policy_as_any<P>{pages}};
  if (made == nullptr || !made->exists()) {
    return fail(errc::no_memory, "no volatile memory for the lists of policy %s", P::name);
  }
  return std::unique_ptr<any_policy>{std::move(made)};
}

}  // namespace

result<std::unique_ptr<any_policy>> make_policy(std::uint32_t which, std::uint64_t pages) noexcept {
  switch (which) {
    case NVM_TIER_STEADY:
      return make<steady>(pages);
    case NVM_TIER_UFLRU:
      return make<uflru>(pages);
    case NVM_TIER_LRU:
      return make<lru>(pages);
    case NVM_TIER_CFLRU:
      return make<cflru>(pages);
    case NVM_TIER_SECOND_CHANCE:
      return make<second_chance>(pages);
    case NVM_TIER_FIFO:
      return make<fifo>(pages);
    default:
      return fail(errc::invalid, "policy %u is none of enum nvm_tier_policy", which);
  }
}

const char* policy_name(std::uint32_t which) noexcept {
  switch (which) {
    case NVM_TIER_STEADY:
      return steady::name;
    case NVM_TIER_UFLRU:
      return uflru::name;
    case NVM_TIER_LRU:
      return lru::name;
    case NVM_TIER_CFLRU:
      return cflru::name;
    case NVM_TIER_SECOND_CHANCE:
      return second_chance::name;
    case NVM_TIER_FIFO:
      return fifo::name;
    default:
      return "?";
  }
}

}  // namespace nvm::tier
