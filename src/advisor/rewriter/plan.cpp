#include "advisor/rewriter/plan.hpp"

#include <algorithm>
#include <filesystem>

namespace nvm::advisor::rewriter {
namespace {

constexpr char include_line[] = "#include <nvm/placed.h>";
constexpr char start_line[] = "NVM_PLACED_START;";

// The file's name in a patch: relative to the current folder, if the file is below it.
std::string shown(const std::string& path) {
  std::error_code failed;
  const auto here = std::filesystem::current_path(failed);
  const auto relative = std::filesystem::path{path}.lexically_relative(here);
  const std::string text = relative.string();
  if (failed || text.empty() || text.starts_with("..")) return path.substr(path.find_first_not_of('/'));
  return text;
}

}  // namespace

plan::plan(const profile& run, const findings& found, bool with_pointers)
    : run_{run}, found_{found}, with_pointers_{with_pointers} {
  for (const call& c : found.calls) calls_.emplace(place_key{c.file, c.line, c.column, c.called}, &c);
  for (std::uint32_t n = 1; n <= run.sites.size(); ++n) {
    if (run.sites[n - 1].kind != site_kind::path) continue;
    paths_[n] = run.whole_path(run.sites[n - 1]);
    judge(n);
  }
}

const call* plan::call_at(std::uint32_t number) const {
  const place& p = run_.at(number);
  if (p.file == 0) return nullptr;
  const auto found = calls_.find({run_.file(p.file).path, p.line, p.column, p.called});
  return found == calls_.end() ? nullptr : found->second;
}

std::string plan::place_text(std::uint32_t number) const {
  const place& p = run_.at(number);
  return (p.file == 0 ? std::string{"?"} : shown(run_.file(p.file).path)) + ":" + std::to_string(p.line);
}

void plan::refuse(std::uint32_t site, const char* kind, const std::string& why) {
  verdict& v = verdicts_[site];
  if (v.kind == "ok") v = {kind, why, v.type};
}

// The type comes from the first caller that is no wrapper; a wrapper gives out bytes.
void plan::judge(std::uint32_t site) {
  verdict& v = verdicts_[site];
  const std::vector<std::uint32_t>& path = paths_[site];
  const place& first = run_.at(path.front());
  const call* inner = call_at(path.front());
  if (placed_name(first.called, false).empty()) {
    const std::string by = first.called.empty() ? "a call through a pointer" : first.called + "()";
    return refuse(site, "library",
                  place_text(path.front()) + ": " + by + " allocates, whose code is not the program's");
  }
  if (inner == nullptr)
    return refuse(site, "call", place_text(path.front()) + ": no call of " + first.called + " is written there");
  const call* typed = inner;
  for (std::size_t k = 0; k < path.size(); ++k) {
    const call* c = call_at(path[k]);
    if (c == nullptr) break;
    if (!c->type.empty() || k == 0) typed = c;
    const bool bytes_only = c->type.empty() || c->type == "char" || c->type == "unsigned char" || c->type == "void";
    if (!bytes_only || !c->returned) break;
  }
  v.type = typed->type;
  if (typed->why.kind != "ok" && !(with_pointers_ && typed->why.kind != "lock"))
    refuse(site, typed->why.kind.c_str(), (typed->type.empty() ? "" : typed->type + ": ") + typed->why.text);
}

bool plan::is_wanted(std::uint32_t site) const {
  const auto v = verdicts_.find(site);
  return wanted_.contains(site) && v != verdicts_.end() && v->second.kind == "ok";
}

bool plan::add(const std::string& file, const edit& e, std::string& why) {
  auto at = files_.find(file);
  if (at == files_.end()) {
    auto text = source_text::of(file);
    if (!text) {
      why = file + " cannot be read";
      return false;
    }
    const auto known = std::ranges::find(run_.files, file, &source_file::path);
    if (known == run_.files.end() || known->md5.empty()) {
      why = file + " was no part of the profiled program, or its contents are not known";
      return false;
    }
    if (text->md5() != known->md5) {
      why = file + " has changed since the profile was made";
      return false;
    }
    at = files_.emplace(file, std::move(*text)).first;
  }
  if (at->second.add(e)) return true;
  why = shown(file) + ":" + std::to_string(at->second.line_of(e.offset)) + ": two changes of one place";
  return false;
}

bool plan::edit_name(const token& at, const std::string& from, const std::string& to, std::string& why) {
  why = at.refused;
  if (!why.empty()) return false;
  if (!add(at.file, {at.offset, from.size(), to}, why)) return false;
  if (files_.at(at.file).has(at.offset, from)) return true;
  why = shown(at.file) + ": the name is not written in one piece";
  return false;
}

// A name in a macro's definition is that of each use of the macro.
void plan::check_macro(const call& c, const std::vector<std::uint32_t>& users) {
  if (c.name.macro.empty()) return;
  for (const auto& [site, path] : paths_) {
    const call* other = call_at(path.front());
    if (other == nullptr || other->name != c.name || is_wanted(site)) continue;
    for (const std::uint32_t s : users)
      refuse(s, "macro",
             "macro " + c.name.macro + " allocates for site " + std::to_string(site) + " as well, which stays");
    return;
  }
}

// Moves sites that have one innermost call: all of them with it, or those of some callers.
void plan::move_innermost(std::uint32_t number, const std::vector<std::uint32_t>& users) {
  const call* c = call_at(number);
  if (c == nullptr) return;
  check_macro(*c, users);
  const bool all = std::ranges::all_of(users, [&](std::uint32_t s) { return is_wanted(s); });
  std::string why = c->name.refused;
  if (!why.empty()) {
    for (const std::uint32_t s : users) refuse(s, "macro", place_text(number) + ": " + why);
    return;
  }
  if (!all) return move_by_caller(*c, users);
  if (!edit_name(c->name, c->called, placed_name(c->called, false), why)) {
    for (const std::uint32_t s : users) refuse(s, "call", why);
    return;
  }
  moved_.insert(c);
}

// The call of the wrapper is marked, and what it calls looks at the mark.
void plan::move_by_caller(const call& inner, const std::vector<std::uint32_t>& users) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_caller;
  for (const std::uint32_t s : users) {
    if (paths_[s].size() > 1) {
      by_caller[paths_[s][1]].push_back(s);
    } else {
      refuse(s, "call", "its call path ends at the allocation, which other sites share");
    }
  }
  for (const auto& [number, sites] : by_caller) {
    if (std::ranges::none_of(sites, [&](std::uint32_t s) { return is_wanted(s); })) continue;
    const call* outer = call_at(number);
    std::string why;
    if (!std::ranges::all_of(sites, [&](std::uint32_t s) { return is_wanted(s); })) {
      why = place_text(number) + ": other call paths through this call stay";
    } else if (!inner.name.macro.empty()) {
      why = "it is allocated in macro " + inner.name.macro + ", which other callers use";
    } else if (outer == nullptr || outer->end == 0 || !outer->name.macro.empty()) {
      why = place_text(number) + ": the call of the wrapper is not written in one piece";
    } else if (add(outer->name.file, {outer->begin, 0, "NVM_PLACED("}, why) &&
               add(outer->name.file, {outer->end, 0, ")"}, why) &&
               edit_name(inner.name, inner.called, placed_name(inner.called, true), why)) {
      moved_.insert(outer);
      continue;
    }
    for (const std::uint32_t s : sites) refuse(s, "call", why);
  }
}

// Everywhere in the program, an object that may be durable is freed and resized by its address.
bool plan::edit_addresses(std::string& problem) {
  for (const auto& [name, at] : found_.by_address) {
    // A realloc that allocates for a chosen site has been renamed already.
    const auto file = files_.find(at.file);
    if (file != files_.end() && file->second.is_edited_at(at.offset)) continue;
    const std::string placed = "nvm_placed_" + (name == "malloc_usable_size" ? "size" : name);
    std::string why;
    if (edit_name(at, name, placed, why)) continue;
    problem = "a use of " + name + "() that may meet durable objects cannot be changed: " + why;
    return false;
  }
  return true;
}

bool plan::edit_main(std::string& problem) {
  if (found_.mains.empty()) {
    problem = found_.main_refused.empty() ? "no source of the program has a function main" : found_.main_refused;
    return false;
  }
  for (const auto& [file, offset] : found_.mains) {
    const auto text = source_text::of(file);
    if (text && text->content().find(start_line) != std::string::npos) continue;
    // The call gets a line of its own if nothing else follows the brace.
    const std::size_t end = text ? text->content().find('\n', offset) : std::string::npos;
    const bool is_last = end != std::string::npos && text->content().find_first_not_of(" \t\r", offset) == end;
    const edit e = is_last ? edit{end + 1, 0, std::string{"  "} + start_line + "\n"}
                           : edit{offset, 0, std::string{" "} + start_line};
    if (!add(file, e, problem)) return false;
  }
  return true;
}

void plan::remark_transactions() {
  std::set<std::string> said;
  for (const call* c : moved_) {
    if (!said.insert(c->file + c->function).second) continue;
    remarks_.push_back(
        shown(c->file) + ":" + std::to_string(c->line) + ": " + c->function +
        "() makes durable objects, each in a transaction of its own: where what it does with them has to "
        "happen whole or not at all, begin it with NVM_ATOMIC(nvm_placed_pool());");
  }
  for (const std::string& f : found_.forks)
    remarks_.push_back(f + ": a child of fork() has none of the durable objects, and dies where it touches one");
}

bool plan::make_edits(const std::set<std::uint32_t>& sites, std::string& problem) {
  wanted_ = sites;
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_place;
  for (const auto& [site, path] : paths_) by_place[path.front()].push_back(site);
  for (const auto& [number, users] : by_place) {
    if (std::ranges::any_of(users, [&](std::uint32_t s) { return is_wanted(s); })) move_innermost(number, users);
  }
  if (moved_.empty()) {
    problem = "none of the chosen sites can move";
    for (const std::uint32_t s : wanted_) {
      if (const auto v = verdicts_.find(s); v != verdicts_.end() && v->second.kind != "ok")
        problem += "; site " + std::to_string(s) + ": " + v->second.text;
    }
    return false;
  }
  if (!edit_addresses(problem) || !edit_main(problem)) return false;
  for (auto& [path, text] : files_) text.include(include_line);
  remark_transactions();
  return true;
}

std::string plan::patch() const {
  std::string all;
  for (const auto& [path, text] : files_) all += text.diff(shown(path));
  return all;
}

}  // namespace nvm::advisor::rewriter
