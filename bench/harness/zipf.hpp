// Zipfian choice among n items, as YCSB draws it: Gray et al., "Quickly generating billion-record synthetic databases",
// SIGMOD 1994. Item 0 is the most popular.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/random.hpp"

namespace nvm::bench {

class zipf {
 public:
  // Cost: n calls of pow(), once.
  explicit zipf(std::uint64_t items, double theta = 0.99) : items_(items), theta_(theta), zeta_(zeta(items)) {
    const double zeta2 = 1.0 + std::pow(0.5, theta_);
    alpha_ = 1.0 / (1.0 - theta_);
    eta_ = (1.0 - std::pow(2.0 / static_cast<double>(items_), 1.0 - theta_)) / (1.0 - zeta2 / zeta_);
  }

  std::uint64_t items() const noexcept { return items_; }

  std::uint64_t next(random& source) const {
    const double u = source.unit();
    const double uz = u * zeta_;
    if (uz < 1.0) return 0;
    if (uz < 1.0 + std::pow(0.5, theta_)) return 1;
    const auto item = static_cast<std::uint64_t>(static_cast<double>(items_) * std::pow(eta_ * u - eta_ + 1.0, alpha_));
    return item < items_ ? item : items_ - 1;
  }

 public:
  // The theta with which `part` of the items, the most popular ones, draw `share` of the choices.
  static double theta_for(std::uint64_t items, double part, double share) {
    double low = 0.5;
    double high = 2.0;
    for (int step = 0; step < 40; ++step) {
      const double middle = (low + high) / 2;
      const auto popular = static_cast<double>(items) * part;
      if (approximate_zeta(popular, middle) / approximate_zeta(static_cast<double>(items), middle) < share) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return (low + high) / 2 == 1.0 ? 1.000001 : (low + high) / 2;  // next() divides by 1 - theta
  }

 private:
  // The first terms, and the integral of the others.
  static double approximate_zeta(double items, double theta) {
    constexpr double exact = 1000;
    double sum = 0;
    for (double i = 1; i <= exact && i <= items; ++i) sum += std::pow(i, -theta);
    if (items <= exact) return sum;
    const double from = exact + 0.5;
    const double to = items + 0.5;
    if (std::abs(1 - theta) < 1e-9) return sum + std::log(to / from);
    return sum + (std::pow(to, 1 - theta) - std::pow(from, 1 - theta)) / (1 - theta);
  }
  double zeta(std::uint64_t items) const {
    double sum = 0;
    for (std::uint64_t i = 0; i < items; ++i) sum += 1.0 / std::pow(static_cast<double>(i + 1), theta_);
    return sum;
  }

  std::uint64_t items_;
  double theta_;
  double zeta_;
  double alpha_ = 0;
  double eta_ = 0;
};

}  // namespace nvm::bench
