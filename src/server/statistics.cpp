#include "server/statistics.hpp"

namespace nvm::server {

std::uint64_t count_sums::operator[](class_count c) const noexcept {
  std::uint64_t sum = 0;
  for (const auto& one : by_class) sum += one[static_cast<std::size_t>(c)];
  return sum;
}

void counters::add_to(count_sums& sums) const noexcept {
  // relaxed: see add().
  for (std::size_t i = 0; i < counts; ++i) sums.plain[i] += words_.plain[i].load(std::memory_order_relaxed);
  for (std::size_t c = 0; c < size_classes_max; ++c) {
    for (std::size_t i = 0; i < class_counts; ++i) {
      sums.by_class[c][i] += words_.by_class[c][i].load(std::memory_order_relaxed);
    }
  }
}

counters& statistics::add_worker() {
  const std::lock_guard lock{mutex_};
  return *workers_.emplace_back(std::make_unique<counters>());
}

count_sums statistics::raw() const {
  count_sums sums;
  for (const auto& w : workers_) w->add_to(sums);
  return sums;
}

count_sums statistics::sums() const {
  const std::lock_guard lock{mutex_};
  count_sums sums = raw();
  for (std::size_t i = 0; i < counts; ++i) sums.plain[i] -= forgotten_.plain[i];
  for (std::size_t c = 0; c < size_classes_max; ++c) {
    for (std::size_t i = 0; i < class_counts; ++i) sums.by_class[c][i] -= forgotten_.by_class[c][i];
  }
  return sums;
}

void statistics::reset() {
  const std::lock_guard lock{mutex_};
  forgotten_ = raw();
}

}  // namespace nvm::server
