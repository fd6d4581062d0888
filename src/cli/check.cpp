// holdfast check: a full walk over a closed pool, read-only.
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>

#include "cli/arguments.hpp"
#include "cli/pool_facts.hpp"
#include "cli/progress.hpp"
#include "cli/units.hpp"

namespace nvm::cli {
namespace check_verb {
namespace {

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "the pool; no process may have it open"}};
constexpr option options[] = {
    {"limit", value_kind::count, "N", "print the first N findings only; all are counted"},
    {"accept-copy", value_kind::flag, "",
     "accept a copy that was made while the pool was in use: if it is sound it becomes a pool like any "
     "other. For pools that did not change while they were copied: only the person who made the copy knows"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"sound", "true: nothing was found"},
    {"finding_count", "number of findings"},
    {"findings[].offset", "bytes from the file's start"},
    {"findings[].finding", "sentence: what was found, what was expected"},
    {"notes[]", "sentence: a pointer that leads to no object; none is a finding"},
    {"pages", "pages of data space"},
    {"free_pages", "of them free"},
    {"run_pages", "in objects of whole pages"},
    {"extent_pages", "in extents of slots"},
    {"log_pages", "in overflow segments of logs"},
    {"structure_pages", "of lock-free structures"},
    {"damaged_pages", "of which nothing can be said; with free, run, extent, log and structure pages these are all"},
    {"reclaimed_pages", "of the structures' and log's pages: left unowned by a crash, freed by the next use"},
    {"structure_nodes", "nodes in them, whether anything leads to them yet or not"},
    {"objects", "committed objects"},
    {"object_bytes", "bytes that were asked for when they were allocated"},
    {"pending_transactions", "to be rolled back or completed by the next open"},
    {"garbage_objects", "objects that the root does not lead to; 0 also where types are not described"},
    {"stray_pointers", "of reachable objects: into the pool, to no object"},
    {"foreign_pointers", "of reachable objects: to anywhere else"},
    {"accepted", "true: it was a copy of a pool in use, and is a pool like any other from now on"},
    {"seconds", "duration of the check"},
};
constexpr std::string_view examples[] = {"holdfast check cache.nvm",
                                         "holdfast check --quiet cache.nvm || echo \"damaged or not checked\""};

// Receives the findings as they come.
struct collector {
  const console& out;
  progress& line;
  std::atomic<double>& share;  // finished share, for the thread that draws
  std::optional<std::uint64_t> limit;
  std::uint64_t count = 0;
  json findings = json::array();
  std::uint64_t note_count = 0;
  json notes = json::array();
  std::exception_ptr thrown{};  // by add() and note()

  void add(std::uint64_t offset, const char* finding) {
    if (++count > limit.value_or(UINT64_MAX)) return;
    if (out.as_json()) {
      findings.push_back({{"offset", offset}, {"finding", finding}});
    } else {
      line.interrupt([&] { out.text("{} {}: {}\n", out.styled("offset", style::bad), offset, finding); });
    }
  }
  // Pointers to no object, which are legal.
  void note(const char* sentence) {
    if (++note_count > limit.value_or(notes_max)) return;
    if (out.as_json()) {
      notes.push_back(sentence);
    } else {
      line.interrupt([&] { out.text("note: {}\n", sentence); });
    }
  }
  static constexpr std::uint64_t notes_max = 100;  // without a limit
};

// Called by the library, which no exception may cross.
void report(std::uint64_t offset, const char* finding, void* argument) {
  auto* into = static_cast<collector*>(argument);
  try {
    into->add(offset, finding);
  } catch (...) {
    into->thrown = std::current_exception();
  }
}

void take_note(std::uint64_t, const char* sentence, void* argument) {
  auto* into = static_cast<collector*>(argument);
  try {
    into->note(sentence);
  } catch (...) {
    into->thrown = std::current_exception();
  }
}

void advance(std::uint64_t done, std::uint64_t total, void* argument) {
  static_cast<collector*>(argument)->share = static_cast<double>(done) / static_cast<double>(total);
}

void print_summary(const nvm_check_summary& s, std::uint64_t findings, const std::string& path, const console& out) {
  out.text("{}: ", path);
  if (findings == 0) {
    out.text("{}\n", out.styled("sound", style::good));
  } else {
    out.text("{}\n", out.styled(fmt::format("{} finding{}", findings, findings == 1 ? "" : "s"), style::bad));
  }
  out.text("  objects    {}, {}\n", s.objects, size_text(s.object_bytes));
  out.text("  pages      {}: {} free, {} in runs, {} in extents, {} in logs, {} in lock-free structures\n", s.pages,
           s.free_pages, s.run_pages, s.extent_pages, s.log_pages, s.structure_pages);
  if (s.damaged_pages != 0) out.text("  damaged    {} pages of which nothing can be said\n", s.damaged_pages);
  if (s.reclaimed_pages != 0) out.text("  left over  {} pages; the next use frees them\n", s.reclaimed_pages);
  if (s.garbage_objects != 0)
    out.text("  garbage    {} objects that nothing leads to: `holdfast gc --dry-run`\n", s.garbage_objects);
  if (s.stray_pointers + s.foreign_pointers != 0) {
    out.text("  pointers   {} lead into the pool to no object, {} out of it; none is damage\n", s.stray_pointers,
             s.foreign_pointers);
  }
  if (s.pending_transactions != 0) {
    out.text("  pending    {} transaction{}; the next open rolls back or completes them\n", s.pending_transactions,
             s.pending_transactions == 1 ? "" : "s");
  }
}

// Accepts a copy of a pool in use that is sound: opening it for change makes it a pool of its own.
bool accept(const std::string& path) {
  nvm_pool_options o{};
  o.accept_copy = 1;
  NVM_POOL* const pool = nvm_pool_open_with(path.c_str(), &o);
  return pool != nullptr && nvm_pool_close(pool) == 0;
}

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  nvm_pool_info before{};
  const bool is_copy = given.flag("accept-copy") && nvm_pool_inspect(path.c_str(), &before) == 0 && before.copied != 0;
  const auto start = std::chrono::steady_clock::now();
  nvm_check_summary summary{};
  std::int64_t found = 0;
  std::uint64_t printed_before = 0;
  json findings;
  json notes;
  failure why_not;
  {
    std::atomic<double> share{0};
    progress line{out, fmt::format("checking {}", path), [&share] { return share.load(); }};
    collector into{out, line, share, given.number("limit")};
    nvm_check_options how{};
    how.report = report;
    how.note = take_note;
    how.progress = advance;
    how.argument = &into;
    how.accept_copy = is_copy ? 1 : 0;
    found = nvm_pool_check_with(path.c_str(), &how, &summary);
    if (into.thrown) std::rethrow_exception(into.thrown);
    // A pool without a valid superblock cannot be walked: that is the finding.
    if (found < 0 && nvm_errno() == NVM_E_CORRUPT && into.count == 0) {
      why_not = library_failure(path);
      into.add(0, why_not.message.c_str());
      found = 1;
    }
    if (found < 0) why_not = library_failure(path);
    printed_before = into.count;
    findings = std::move(into.findings);
    notes = std::move(into.notes);
  }
  if (found < 0) return out.fail(why_not);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (const auto limit = given.number("limit"); limit && printed_before > *limit) {
    out.text("and {} more\n", printed_before - *limit);
  }
  const bool accepted = is_copy && found == 0;
  if (accepted && !accept(path)) return out.fail_library(path);
  print_summary(summary, static_cast<std::uint64_t>(found), path, out);
  if (accepted) out.text("  accepted   a copy of a pool that was in use; from now on a pool like any other\n");
  out.document({
      {"path", path},
      {"sound", found == 0},
      {"finding_count", found},
      {"findings", std::move(findings)},
      {"notes", std::move(notes)},
      {"pages", summary.pages},
      {"free_pages", summary.free_pages},
      {"run_pages", summary.run_pages},
      {"extent_pages", summary.extent_pages},
      {"log_pages", summary.log_pages},
      {"structure_pages", summary.structure_pages},
      {"damaged_pages", summary.damaged_pages},
      {"reclaimed_pages", summary.reclaimed_pages},
      {"structure_nodes", summary.structure_nodes},
      {"objects", summary.objects},
      {"object_bytes", summary.object_bytes},
      {"pending_transactions", summary.pending_transactions},
      {"garbage_objects", summary.garbage_objects},
      {"stray_pointers", summary.stray_pointers},
      {"foreign_pointers", summary.foreign_pointers},
      {"accepted", accepted},
      {"seconds", took.count()},
  });
  return found == 0 ? exit_good : exit_negative;
}

}  // namespace
}  // namespace check_verb

extern const command check_command;
const command check_command{
    .name = "check",
    .summary = "walk a closed pool and report damage",
    .description =
        "Reads superblocks, page map, every extent and object header and the logs, walks key-value stores and "
        "lock-free "
        "structures, and reports what does not hold, with its place in the file. Each page is accounted for: free, an "
        "object's, a log's, a structure's, or "
        "damaged. The pool is not changed. The exit code is 0 when the pool is sound, 1 when there are findings, 3 or "
        "4 when it could not be checked.\n\n"
        "A pool whose last owner died is not damaged: its pending transactions are counted and no finding. A copy that "
        "was made while the pool was in use, or after its owner had died, is refused (NVM_E_COPY): it is unknown "
        "whether it is torn.\n\n"
        "Pointers of described types that lead to no object are notes, at most 100 of them without --limit: a field "
        "may "
        "never have been written, and a program may free what it still points to.",
    .operands = check_verb::operands,
    .options = check_verb::options,
    .fields = check_verb::fields,
    .examples = check_verb::examples,
    .run = check_verb::run,
};

}  // namespace nvm::cli
