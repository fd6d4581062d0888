// Median and spread of repeated measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace nvm::bench {

struct spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// Of an empty sample: zeros.
inline spread spread_of(std::vector<double> sample) {
  if (sample.empty()) return {};
  std::sort(sample.begin(), sample.end());
  const std::size_t half = sample.size() / 2;
  const double median = sample.size() % 2 != 0 ? sample[half] : (sample[half - 1] + sample[half]) / 2;
  return {median, sample.front(), sample.back()};
}

// Quotients of two samples taken side by side: what disturbed one repetition disturbed both sides of it, so the
// quotients vary less than the times do.
inline std::vector<double> pairwise_ratio(const std::vector<double>& over, const std::vector<double>& under) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(over.size(), under.size()); ++i)
    ratios.push_back(under[i] > 0 ? over[i] / under[i] : 0);
  return ratios;
}

}  // namespace nvm::bench
