// Order of the images of one crash point: first a few that find most faults, then many that find the rest.
#include <algorithm>

#include "explore/explorer.hpp"

namespace nvm::explore {

const char* name_of(tier t) noexcept {
  switch (t) {
    case t1_program_order:
      return "t1 program order";
    case t2_all_low:
      return "t2 all low";
    case t3_pairs:
      return "t3 pairs";
    case t4_triples:
      return "t4 triples";
    case t5_single:
      return "t5 single units";
    case t6_exhaustive:
      return "t6 exhaustive";
    case t7_random:
      return "t7 random";
  }
  return "?";
}

void explorer::fill(unsigned depth, bool high) {
  level& l = *levels_[depth];
  l.row_hash = 0;
  for (std::size_t f = 0; f < l.factors.size(); ++f) {
    l.cuts[f] = high ? l.highs[f] : 0;
    l.row_hash += high ? l.high_deltas[f] : 0;
  }
}

// One image after each store since the last point, and at least one with all stores.
void explorer::program_order(unsigned depth) {
  level& l = *levels_[depth];
  const auto epoch = l.front.epoch();
  for (unit* u : l.factors) u->taken = static_cast<std::uint32_t>(u->steps.size());
  for (std::size_t i = epoch.size(); i-- > 0;) epoch[i].of->taken = epoch[i].index;
  for (std::size_t f = 0; f < l.factors.size(); ++f) {
    set_cut(l, f, frontier::cut_of_prefix(*l.factors[f], l.factors[f]->taken));
  }
  if (epoch.empty()) return try_row(depth, t1_program_order, 0);
  for (std::size_t i = 0; i < epoch.size() && !stop_; ++i) {
    unit& u = *epoch[i].of;
    u.taken = epoch[i].index + 1;
    if (u.factor < l.factors.size()) set_cut(l, u.factor, frontier::cut_of_prefix(u, u.taken));
    // The words of one store in one unit go together here; the other tiers try their subsets.
    const bool last = i + 1 == epoch.size() || epoch[i + 1].of != &u ||
                      epoch[i + 1].of->steps[epoch[i + 1].index].event != u.steps[epoch[i].index].event;
    if (last) try_row(depth, t1_program_order, i);
  }
}

// Each row in {low, high}; every second one again with a cut inside for "high", where there is one.
void explorer::covering_rows(unsigned depth, tier t, const covering_array& a) {
  level& l = *levels_[depth];
  const bool inside = std::any_of(l.factors.begin(), l.factors.end(), [](const unit* u) { return u->choices > 2; });
  for (std::size_t row = 0; row < a.rows() && !stop_; ++row) {
    std::uint64_t sum = 0;
    for (std::size_t f = 0; f < l.factors.size(); ++f) {
      const std::uint64_t taken = a.high(row, f) ? ~std::uint64_t{0} : 0;
      l.cuts[f] = l.highs[f] & static_cast<std::uint32_t>(taken);
      sum += l.high_deltas[f] & taken;
    }
    l.row_hash = sum;
    try_row(depth, t, row * 2);
    if (row % 2 == 0 || !inside || stop_) continue;
    row_random r(options_.seed, l.point, t, row);
    for (std::size_t f = 0; f < l.factors.size(); ++f) {
      set_cut(l, f, a.high(row, f) ? 1 + r.below(l.highs[f]) : 0);
    }
    try_row(depth, t, row * 2 + 1);
  }
}

// The i-th of `of` cuts between low and high: prefixes first, the rest by chance.
std::uint32_t explorer::interior_cut(const unit& u, unsigned i, unsigned of, row_random& r) const {
  if (u.choices - 2 <= of) return i + 1;
  if (i % 2 == 0) return frontier::cut_of_prefix(u, 1 + i * (u.steps.size() - 1) / of);
  return 1 + r.below(u.choices - 2);
}

void explorer::single_units(unsigned depth) {
  constexpr unsigned interior_max = 8;
  level& l = *levels_[depth];
  const std::size_t n = l.factors.size();
  const std::size_t first = n > options_.single_units_max ? n - options_.single_units_max : 0;
  std::uint64_t row = 0;
  for (const bool others_high : {true, false}) {
    fill(depth, others_high);
    for (std::size_t f = first; f < n && !stop_; ++f) {
      const unit& u = *l.factors[f];
      const std::uint32_t others = l.cuts[f];
      set_cut(l, f, others_high ? 0 : u.choices - 1);
      try_row(depth, t5_single, row++);
      const unsigned interior = std::min<std::uint32_t>(u.choices - 2, interior_max);
      row_random r(options_.seed, l.point, t5_single, row);
      for (unsigned i = 0; i < interior && !stop_; ++i) {
        set_cut(l, f, interior_cut(u, i, interior_max, r));
        try_row(depth, t5_single, row++);
      }
      set_cut(l, f, others);
    }
  }
}

std::uint64_t explorer::product_of(const level& l) const noexcept {
  std::uint64_t product = 1;
  for (const unit* u : l.factors) {
    product *= u->choices;
    if (product > options_.exhaustive_max) break;
  }
  return product;
}

void explorer::every_cut(unsigned depth) {
  level& l = *levels_[depth];
  fill(depth, false);
  for (std::uint64_t row = 0; !stop_; ++row) {
    try_row(depth, t6_exhaustive, row);
    std::size_t f = 0;
    while (f < l.factors.size() && l.cuts[f] == l.highs[f]) set_cut(l, f++, 0);
    if (f < l.factors.size()) set_cut(l, f, l.cuts[f] + 1);
    if (f == l.factors.size()) return;
  }
}

void explorer::random_rows(unsigned depth) {
  level& l = *levels_[depth];
  for (unsigned row = 0; row < options_.random_rows && !stop_; ++row) {
    row_random r(options_.seed, l.point, t7_random, row);
    for (std::size_t f = 0; f < l.factors.size(); ++f) set_cut(l, f, r.below(l.factors[f]->choices));
    try_row(depth, t7_random, row);
  }
}

}  // namespace nvm::explore
