// libFuzzer's door to profiles and to files of coefficients: any text is read or refused with a reason, and an accepted
// profile can be merged with itself, priced and ranked. The sum is put right first, so that the fields that it protects
// are reached.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "advisor/advisor.hpp"
#include "base/checksum.hpp"
#include "door.hpp"

namespace {

void require(bool kept) {
  if (!kept) std::abort();
}

std::string with_sum(std::string body) {
  char line[32];
  const auto sum = nvm::checksum(body.data(), body.size(), nvm::advisor::profile_version);
  std::snprintf(line, sizeof line, "sum %016llx\n", static_cast<unsigned long long>(sum));
  return body + line;
}

void check(const nvm::advisor::profile& p) {
  using namespace nvm::advisor;
  for (const nvm::advisor::site& s : p.sites) {
    for (const std::uint32_t n : p.whole_path(s)) require(n != 0 && n <= p.places.size());
  }
  for (const place& a : p.places) require(a.file <= p.files.size() && a.around < p.places.size() + 1);
  for (const nvm::advisor::edge& e : p.edges)
    require(e.site != 0 && e.site <= p.sites.size() && e.place <= p.places.size());
  for (const unit& u : p.units) require(u.file != 0 && u.file <= p.files.size());
  for (const medium m : {medium::shm, medium::nvm, medium::ssd, medium::tier}) {
    for (const ranked_site& r : rank(p, costs::usual(), {}, m, measure::energy)) {
      require(r.number != 0 && r.number <= p.sites.size());
      for (const price& q : r.prices) require(std::isfinite(q.time_ns) && std::isfinite(q.energy_pj()) && q.wear >= 0);
    }
  }
}

}  // namespace

extern "C" int NVM_FUZZER(profile)(const std::uint8_t* data, std::size_t size);
extern "C" int NVM_FUZZER(profile)(const std::uint8_t* data, std::size_t size) {
  using namespace nvm::advisor;
  const std::string text{reinterpret_cast<const char*>(data), size};
  std::string problem;
  costs c = costs::usual();
  require(c.replace(text, problem) == problem.empty());
  problem.clear();
  const bool as_it_is = read_profile(text, problem).has_value();
  require(as_it_is == problem.empty());
  problem.clear();
  auto p = read_profile(with_sum(text), problem);
  require(p.has_value() == problem.empty());
  if (!p) return 0;
  check(*p);
  profile all = *p;
  if (merge(all, *p, problem)) {
    check(all);
    require(all.sites.size() <= p->sites.size() && all.places.size() <= p->places.size());
  } else {
    require(p->build.empty());
  }
  return 0;
}
