// holdfast-rewrite: the half of `holdfast advise` that knows C and C++, by Clang's syntax tree.
//
//   holdfast-rewrite --verdicts [--sites=N,N] [--with-pointers] -- PROFILE...
//   holdfast-rewrite --patch --sites=N,N [--with-pointers] -- PROFILE...
//
// Prints "verdict <site> <kind> <type>\t<sentence>" for each site, "remark <sentence>", and after a line "patch" a
// unified diff.  Nothing is written.  A refusal is "error <sentence>" and exit code 1; wrong use is 2.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "advisor/rewriter/plan.hpp"
#include "platform/descriptor.hpp"

namespace nvm::advisor::rewriter {
namespace {

enum exit_code : int { exit_good = 0, exit_refused = 1, exit_usage = 2 };

struct order {
  bool patch = false;
  bool with_pointers = false;
  std::set<std::uint32_t> sites;
  std::vector<std::string> profiles;
};

bool read_sites(std::string_view text, std::set<std::uint32_t>& to) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::uint32_t v = 0;
    const auto r = std::from_chars(text.data(), text.data() + end, v);
    if (r.ec != std::errc{} || r.ptr != text.data() + end || v == 0) return false;
    to.insert(v);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

bool read_order(int count, char** words, order& o) {
  int k = 1;
  for (; k < count && std::strcmp(words[k], "--") != 0; ++k) {
    const std::string_view w = words[k];
    const std::string_view sites = "--sites=";
    if (w == "--patch") {
      o.patch = true;
    } else if (w == "--with-pointers") {
      o.with_pointers = true;
    } else if (w.starts_with(sites)) {
      if (!read_sites(w.substr(sites.size()), o.sites)) return false;
    } else if (w != "--verdicts") {
      return false;
    }
  }
  for (++k; k < count; ++k) o.profiles.emplace_back(words[k]);
  return !o.profiles.empty();
}

bool read_profiles(const order& o, profile& all, std::string& problem) {
  for (const std::string& path : o.profiles) {
    std::ifstream in{path, std::ios::binary};
    const std::string text{std::istreambuf_iterator<char>{in}, {}};
    auto one = read_profile(text, problem);
    if (one && &path == &o.profiles.front()) {
      all = std::move(*one);
    } else if (!one || !merge(all, *one, problem)) {
      problem = path + ": " + problem;
      return false;
    }
  }
  return true;
}

// Asked before anything is parsed: in a source that was changed since, the places of a profile mean nothing.
bool are_unchanged(const profile& run, std::string& problem) {
  for (const unit& u : run.units) {
    const source_file& f = run.file(u.file);
    const auto text = source_text::of(f.path);
    if (!text) {
      problem = f.path + " cannot be read";
    } else if (!f.md5.empty() && text->md5() != f.md5) {
      problem = f.path + " has changed since the profile was made: found " + text->md5() + ", expected " + f.md5;
    } else {
      continue;
    }
    return false;
  }
  if (!run.units.empty()) return true;
  problem = "the profile names no sources";
  return false;
}

int refuse(const std::string& why) {
  std::printf("error %s\n", why.c_str());
  return exit_refused;
}

int run(const order& o) {
  profile all;
  std::string problem;
  if (!read_profiles(o, all, problem) || !are_unchanged(all, problem)) return refuse(problem);
  findings found;
  for (const unit& u : all.units) look_at(u, all.file(u.file).path, found);
  if (!found.errors.empty()) return refuse(found.errors.front());
  plan p{all, found, o.with_pointers};
  if (o.patch && !p.make_edits(o.sites, problem)) return refuse(problem);
  for (const auto& [site, v] : p.verdicts())
    std::printf("verdict %u %s %s\t%s\n", site, v.kind.c_str(), v.type.c_str(), v.text.c_str());
  for (const std::string& r : p.remarks()) std::printf("remark %s\n", r.c_str());
  if (o.patch) std::printf("patch\n%s", p.patch().c_str());
  return std::fflush(stdout) == 0 ? exit_good : exit_refused;
}

}  // namespace
}  // namespace nvm::advisor::rewriter

int main(int count, char** words) {
  nvm::platform::occupy_standard_descriptors();
  nvm::advisor::rewriter::order o;
  if (nvm::advisor::rewriter::read_order(count, words, o)) return nvm::advisor::rewriter::run(o);
  std::fprintf(stderr, "usage: holdfast-rewrite --verdicts|--patch [--sites=N,N] [--with-pointers] -- PROFILE...\n");
  return nvm::advisor::rewriter::exit_usage;
}
