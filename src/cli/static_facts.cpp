#include "cli/static_facts.hpp"

#include <set>
#include <string>

#include "nvm/static.h"

namespace nvm::cli {

std::optional<static_facts> statics_of(NVM_POOL* pool) {
  static_facts facts;
  const auto take = [](const nvm_static_info* s, void* to) {
    auto& all = *static_cast<static_facts*>(to);
    json one = {{"fields", s->fields}};
    if (s->name != nullptr) one["name"] = s->name;
    if (s->build != nullptr) one["build"] = s->build;
    all.list.push_back(std::move(one));
    all.fields += s->fields;
    return 0;
  };
  return nvm_pool_each_static(pool, take, &facts) < 0 ? std::nullopt : std::optional{std::move(facts)};
}

void print_each(const static_facts& facts, const console& out) {
  for (const json& s : facts.list) {
    const std::string build = s.value("build", std::string{});
    const std::string what = s.value("name", build.empty() ? "nothing known" : "what has no name");
    out.text("{}  {} static pointers lead there{}{}\n", out.styled(what, style::strong),
             s["fields"].get<std::uint64_t>(), build.empty() ? "" : ": build ", build);
  }
}

void print_sum(const static_facts& facts, const console& out) {
  if (facts.fields == 0) return;
  std::set<std::string> builds;
  for (const json& s : facts.list) {
    if (s.contains("build")) builds.insert(s["build"].get<std::string>());
  }
  std::string names;
  for (const std::string& b : builds) names += (names.empty() ? " of build " : ", ") + b;
  out.text("  {} static pointers lead into programs{}: left alone\n", facts.fields, names);
}

}  // namespace nvm::cli
