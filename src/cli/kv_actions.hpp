// The actions of holdfast kv, and the state of one call.
//
// An action is a row in the table of kv.cpp and one function here.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "cli/kv_text.hpp"
#include "nvm/kv.hpp"
#include "nvm/store_kv.h"

namespace nvm::cli::kv_actions {

// NVM_KV_DETECT: no index has that name.
[[nodiscard]] enum nvm_kv_index index_of(const std::string& name);
// Bytes as a person can read them on one line.
[[nodiscard]] std::string printable(std::string_view bytes);
// Sets o[name], or o[name + "_base64"] for bytes that are no UTF-8 and whenever `base64` asks for it.
void add_bytes(json& o, const std::string& name, std::string_view bytes, bool base64);

struct call {
  const arguments& given;
  console& out;
  const std::string& action = given.operand(0);
  const std::string& path = given.operand(1);
  std::string store = given.text("store").empty() ? "main" : given.text("store");
  std::string in = given.text("in");  // the object store that they lie in; empty: the pool has them
  bool base64 = given.flag("base64");
  std::optional<pool> at{};
  nvm_store* home = nullptr;

  // The fields that the answer of every action begins with.
  [[nodiscard]] json answer() const;
  [[nodiscard]] exit_code misused(std::string what) const {
    return out.fail({exit_usage, "kv " + action, "USAGE", std::move(what)});
  }
  [[nodiscard]] exit_code failed() const { return out.fail_library(path); }

  // After a refusal of either, the library's message says why.
  [[nodiscard]] bool open(bool for_change);
  [[nodiscard]] std::optional<kv> open_store(bool make);
  // Opens a store of any name; then calls about names, in the object store or in the pool.
  [[nodiscard]] std::optional<kv> open_named(const std::string& name, const nvm_kv_options& o);
  [[nodiscard]] bool drop_named(const std::string& name, const nvm_kv_drop_options& o = {});
  [[nodiscard]] bool rename_named(const std::string& name, const std::string& new_name);
  using visitor = int (*)(const char* name, enum nvm_kv_index index, void* argument);
  [[nodiscard]] int each_named(visitor visit, void* argument);
  // An operand or option as bytes; no value: it is no base64.
  [[nodiscard]] std::optional<std::string> bytes_of(const std::string& text) const {
    return base64 ? bytes_of_base64(text) : std::optional{text};
  }
};

// kv_entry.cpp: one entry.
[[nodiscard]] exit_code put(call& c);
[[nodiscard]] exit_code get(call& c);
[[nodiscard]] exit_code del(call& c);
// kv_export.cpp: entries in order, as lines or as the document; export --salvage is in kv_salvage.cpp.
[[nodiscard]] exit_code scan(call& c);
[[nodiscard]] exit_code export_entries(call& c);
[[nodiscard]] exit_code export_salvaged(call& c);
// kv_load.cpp
[[nodiscard]] exit_code load(call& c);
// kv_stores.cpp: whole stores.
[[nodiscard]] exit_code list_stores(call& c);
[[nodiscard]] exit_code show_statistics(call& c);
[[nodiscard]] exit_code drop(call& c);

}  // namespace nvm::cli::kv_actions
