// What the actions of holdfast kv share.
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
  if (action != "stores") o["store"] = store;
  return o;
}

bool call::open(bool for_change) {
  nvm_pool_options o{};
  o.read_only = for_change ? 0 : 1;
  at = pool::open(path.c_str(), o);
  return at.has_value();
}

std::optional<kv> call::open_store(bool make) {
  nvm_kv_options o{};
  o.index = index_of(given.choice("index").value_or(""));
  o.mode = make ? NVM_KV_OPEN_OR_CREATE : NVM_KV_OPEN_ONLY;
  o.flags = NVM_KV_VERIFY_READS | (given.flag("no-checksums") ? unsigned{NVM_KV_NO_CHECKSUMS} : 0U);
  return kv::open(*at, store.c_str(), o);
}

}  // namespace nvm::cli::kv_actions
