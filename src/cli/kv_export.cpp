// holdfast kv scan and export: entries in order.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>

#include "cli/kv_actions.hpp"
#include "cli/kv_file.hpp"
#include "cli/progress.hpp"

namespace nvm::cli::kv_actions {
namespace {

// Printed as they are walked: a store may hold more than fits into memory as text.
exit_code print_entries(call& c, const kv& store, const kv_range& range) {
  kv_cursor cursor = store.entries(range);
  std::uint64_t count = 0;
  json head = c.answer();
  head["index"] = nvm_kv_index_name(store.index());
  if (c.out.as_json()) {
    std::string text = line_of(head);
    text.pop_back();
    fmt::print(stdout, "{}, \"entries\": [", text);
  }
  while (const auto e = cursor.next()) {
    ++count;
    if (c.out.as_json()) {
      json o;
      add_bytes(o, "key", e->key, c.base64);
      add_bytes(o, "value", e->value, c.base64);
      fmt::print(stdout, "{}\n  {}", count == 1 ? "" : ",", line_of(o));
    } else if (c.base64) {
      c.out.text("{}\t{}\n", base64_of(e->key), base64_of(e->value));
    } else {
      c.out.text("{}\t{}\n", printable(e->key), printable(e->value));
    }
  }
  failure broken;
  if (cursor.code() != NVM_OK) broken = library_failure(c.path);
  if (c.out.as_json()) {
    fmt::print(stdout, "{}], \"count\": {}", count == 0 ? "" : "\n", count);
    if (cursor.code() != NVM_OK) fmt::print(stdout, ", \"error\": {}", line_of(document_of(broken)));
    fmt::print(stdout, "}}\n");
  }
  if (cursor.code() == NVM_OK) return exit_good;
  c.out.error_line(broken);
  return broken.exit;
}

// The entries are the document.
exit_code export_document(call& c) {
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  return print_entries(c, *store, {});
}

}  // namespace

exit_code scan(call& c) {
  const auto from = c.bytes_of(c.given.text("from"));
  const auto to = c.bytes_of(c.given.text("to"));
  if (!from || !to) return c.misused("--from or --to is no base64");
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  kv_range range;
  if (c.given.flag("from")) range.from = *from;
  if (c.given.flag("to")) range.to = *to;
  range.limit = c.given.number("limit").value_or(0);
  range.backward = c.given.flag("backward");
  if (c.given.number("limit") == 0) return c.misused("--limit: 0 entries");
  return print_entries(c, *store, range);
}

exit_code export_entries(call& c) {
  const std::string& file = c.given.operand(2);
  const bool to_standard = is_standard_output(file);
  if (c.given.flag("salvage")) return export_salvaged(c);
  if (c.out.as_json() && to_standard) return export_document(c);
  const text_format format = format_of(c.given, file);
  if (!to_standard && is_one_file(file, c.path)) return c.misused(fmt::format("{} is the pool itself", file));
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  const auto all = store->size();
  if (!all) return c.failed();
  text_file to{file, true};
  if (!to.is_open()) return c.out.fail(to.problem());
  std::uint64_t count = 0;
  bool written = true;
  {
    std::atomic<std::uint64_t> done{0};
    progress line{
        c.out, fmt::format("exporting {}", c.store),
        [&] { return *all == 0 ? 1.0 : std::min(1.0, static_cast<double>(done.load()) / static_cast<double>(*all)); }};
    const auto print = [&](const std::string& text) {
      written = written && std::fwrite(text.data(), 1, text.size(), to.get()) == text.size();
    };
    if (!c.given.flag("no-header")) print(text_head(format));
    kv_cursor cursor = store->entries();
    while (const auto e = cursor.next()) {
      print(text_of(format, e->key, e->value));
      done = ++count;
      if (!written) break;
    }
    if (cursor.code() != NVM_OK) return c.failed();
  }
  if (!to.finish() || !written) return c.out.fail(to.problem());
  if (!to_standard) c.out.text("{}: {} entries\n", file, count);
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(store->index());
  answer["count"] = count;
  answer.update(file_facts(file, format));
  c.out.document(answer);
  return exit_good;
}

}  // namespace nvm::cli::kv_actions
