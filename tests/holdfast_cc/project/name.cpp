#include <algorithm>
#include <stdexcept>
#include <string>

#include "counter.h"

namespace {

std::string name_of(long runs) {
  if (runs < 0) throw std::out_of_range{"runs"};
  return "run " + std::to_string(runs);
}

}  // namespace

void counter_name(counter* c) {
  try {
    std::fill(std::begin(c->last), std::end(c->last), '\0');
    const std::string name = name_of(c->runs);
    std::copy(name.begin(), name.end(), c->last);
  } catch (const std::out_of_range&) {
    c->last[0] = '?';
  }
}
