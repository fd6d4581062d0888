// holdfast kv put, get and del: one entry.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/kv_actions.hpp"

namespace nvm::cli::kv_actions {

exit_code put(call& c) {
  std::string text = c.given.operand(3);
  const bool from_standard = c.given.operands() < 4 || text == "-";
  if (from_standard) {
    text.clear();
    if (::isatty(STDIN_FILENO) == 1) {
      c.out.note("the value of \"{}\", to the end of the input (Ctrl-D):", printable(c.given.operand(2)));
    }
    char part[4096];
    for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, stdin)) != 0;) text.append(part, n);
    if (std::ferror(stdin) != 0)
      return c.out.fail({exit_internal, "standard input", "NVM_E_SYSTEM", std::strerror(errno)});
  }
  // As `get --base64` prints it: with the end of a line.
  if (from_standard && c.base64 && text.ends_with('\n')) text.resize(text.size() - (text.ends_with("\r\n") ? 2 : 1));
  const auto key = c.bytes_of(c.given.operand(2));
  const auto value = from_standard && !c.base64 ? std::optional{text} : c.bytes_of(text);
  if (!key || !value) return c.misused("the key or the value is no base64");
  if (!c.open(true)) return c.failed();
  auto store = c.open_store(true);
  if (!store) return c.failed();
  const bool found = store->contains(*key);
  if (!store->put(*key, *value)) return c.failed();
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(store->index());
  answer["found"] = found;
  c.out.document(answer);
  return exit_good;
}

exit_code get(call& c) {
  const auto key = c.bytes_of(c.given.operand(2));
  if (!key) return c.misused("the key is no base64");
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  const auto value = store->get(*key);
  if (value.code() != NVM_OK) return c.failed();
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(store->index());
  answer["found"] = value.has_value();
  if (value) {
    c.out.text("{}\n", c.base64 ? base64_of(*value) : *value);
    add_bytes(answer, "value", *value, c.base64);
  }
  c.out.document(answer);
  return value ? exit_good : exit_negative;
}

exit_code del(call& c) {
  const auto key = c.bytes_of(c.given.operand(2));
  if (!key) return c.misused("the key is no base64");
  if (!c.open(true)) return c.failed();
  auto store = c.open_store(false);
  if (!store) return c.failed();
  const auto removed = store->remove(*key);
  if (removed.code() != NVM_OK) return c.failed();
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(store->index());
  answer["found"] = removed.has_value();
  c.out.document(answer);
  return removed ? exit_good : exit_negative;
}

}  // namespace nvm::cli::kv_actions
