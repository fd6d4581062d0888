// Which sites can move, and the edits that move them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "advisor/profile.hpp"
#include "advisor/rewriter/calls.hpp"
#include "advisor/rewriter/sources.hpp"

namespace nvm::advisor::rewriter {

struct verdict {
  std::string kind = "ok";
  std::string text;
  std::string type;
};

class plan {
 public:
  plan(const profile& run, const findings& found, bool with_pointers);

  [[nodiscard]] const std::map<std::uint32_t, verdict>& verdicts() const noexcept { return verdicts_; }
  // Edits for these sites; false: `problem` says why nothing can be moved.
  [[nodiscard]] bool make_edits(const std::set<std::uint32_t>& sites, std::string& problem);
  [[nodiscard]] std::string patch() const;
  [[nodiscard]] const std::vector<std::string>& remarks() const noexcept { return remarks_; }

 private:
  using place_key = std::tuple<std::string, std::uint32_t, std::uint32_t, std::string>;

  void judge(std::uint32_t site);
  const call* call_at(std::uint32_t place) const;
  void refuse(std::uint32_t site, const char* kind, const std::string& why);
  std::string place_text(std::uint32_t place) const;
  bool is_wanted(std::uint32_t site) const;

  void move_innermost(std::uint32_t place, const std::vector<std::uint32_t>& users);
  void move_by_caller(const call& inner, const std::vector<std::uint32_t>& users);
  void check_macro(const call& c, const std::vector<std::uint32_t>& users);
  bool edit_name(const token& at, const std::string& from, const std::string& to, std::string& why);
  bool add(const std::string& file, const edit& e, std::string& why);
  bool edit_addresses(std::string& problem);
  bool edit_main(std::string& problem);
  void remark_transactions();

  const profile& run_;
  const findings& found_;
  bool with_pointers_;
  std::map<place_key, const call*> calls_;
  std::map<std::uint32_t, verdict> verdicts_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> paths_;  // whole paths, by site
  std::set<std::uint32_t> wanted_;
  std::map<std::string, source_text> files_;
  std::set<const call*> moved_;
  std::vector<std::string> remarks_;
};

}  // namespace nvm::advisor::rewriter
