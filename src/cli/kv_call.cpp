// The common part of the actions of holdfast kv.
#include "cli/kv_actions.hpp"

namespace nvm::cli::kv_actions {

enum nvm_kv_index index_of(const std::string& name) {
  for (int i = NVM_KV_LIST; nvm_kv_index_name(i) != nullptr; ++i) {
    if (name == nvm_kv_index_name(i)) return static_cast<enum nvm_kv_index>(i);
  }
  return NVM_KV_DETECT;
}

std::string printable(std::string_view bytes) {
  std::string text;
  const bool whole = is_utf8(bytes);
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\\') {
      text += "\\\\";
    } else if (u < 0x20 || u == 0x7F || (u >= 0x80 && !whole)) {
      text += fmt::format("\\x{:02x}", u);
    } else {
      text += c;
    }
  }
  return text;
}

void add_bytes(json& o, const std::string& name, std::string_view bytes, bool base64) {
  if (base64 || !is_utf8(bytes)) {
    o[name + "_base64"] = base64_of(bytes);
  } else {
    o[name] = bytes;
  }
}

json call::answer() const {
  json o = {{"path", path}, {"action", action}};
  if (!in.empty()) o["object_store"] = in;
  if (action != "stores") o["store"] = store;
  return o;
}

bool call::open(bool for_change) {
  nvm_pool_options o{};
  o.read_only = for_change ? 0 : 1;
  at = pool::open(path.c_str(), o);
  if (!at || in.empty()) return at.has_value();
  home = nvm_store_attach(at->handle(), in.c_str(), for_change ? 0U : unsigned{NVM_STORE_READ_ONLY});
  return home != nullptr;
}

std::optional<kv> call::open_store(bool make) {
  nvm_kv_options o{};
  o.index = index_of(given.choice("index").value_or(""));
  o.mode = make ? NVM_KV_OPEN_OR_CREATE : NVM_KV_OPEN_ONLY;
  o.flags = NVM_KV_VERIFY_READS | (given.flag("no-checksums") ? unsigned{NVM_KV_NO_CHECKSUMS} : 0U);
  return open_named(store, o);
}

std::optional<kv> call::open_named(const std::string& name, const nvm_kv_options& o) {
  return home == nullptr ? kv::open(*at, name.c_str(), o) : kv::of(nvm_kv_open_in(home, name.c_str(), &o));
}
bool call::drop_named(const std::string& name, const nvm_kv_drop_options& o) {
  return (home == nullptr ? nvm_kv_drop_with(at->handle(), name.c_str(), &o) : nvm_kv_drop_in(home, name.c_str())) == 0;
}
bool call::rename_named(const std::string& name, const std::string& new_name) {
  const int code = home == nullptr ? nvm_kv_rename(at->handle(), name.c_str(), new_name.c_str())
                                   : nvm_kv_rename_in(home, name.c_str(), new_name.c_str());
  return code == 0;
}
int call::each_named(visitor visit, void* argument) {
  return home == nullptr ? nvm_kv_each(at->handle(), visit, argument) : nvm_kv_each_in(home, visit, argument);
}

}  // namespace nvm::cli::kv_actions
