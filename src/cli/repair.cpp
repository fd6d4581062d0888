// holdfast repair: mends a damaged pool, on a copy, as far as its undamaged rest allows.
#include "care/repair.hpp"

#include <signal.h>

#include "cli/arguments.hpp"
#include "cli/pool_facts.hpp"
#include "cli/progress.hpp"
#include "cli/units.hpp"

namespace nvm::cli {
namespace repair_verb {
namespace {

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "the pool; no process may have it open"}};
constexpr option options[] = {
    {"out", value_kind::path, "FILE", "the repaired pool; must not exist; default PATH.repaired"},
    {"in-place", value_kind::flag, "", "the repaired copy takes the place of PATH, whose file is then gone"},
    {"dry-run", value_kind::flag, "", "report what would be done; nothing is left"},
    {"accept-copy", value_kind::flag, "", "take also a copy that was made of a pool in use, which may be torn"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"out", "file that was written; null: none was"},
    {"result", "repaired; or sound: nothing was to be mended"},
    {"mended[].offset", "bytes from the file's start"},
    {"mended[].what", "sentence: what was mended"},
    {"kept[].offset", "of something whose bytes are there and of which not everything is certain"},
    {"kept[].what", "sentence: what is not certain"},
    {"kept[].type", "type id of the object; null: not an object"},
    {"kept[].type_name", "if the pool knows the type"},
    {"kept[].bytes", "size of the object; null: not known"},
    {"lost[].offset", "of something that was there and cannot be had any more"},
    {"lost[].what", "sentence: what was lost"},
    {"lost[].type", "type id of the object as far as it can be read; null: not an object"},
    {"lost[].type_name", "if the pool knows the type"},
    {"lost[].bytes", "size of the object; null: not known"},
    {"objects_intact", "objects that nothing was wrong with"},
    {"objects", "objects in the repaired pool"},
    {"rolled_back_transactions", "of a dead owner, as the next open would have"},
};
constexpr std::string_view examples[] = {"holdfast repair --dry-run cache.nvm",
                                         "holdfast repair cache.nvm --out mended.nvm && holdfast check mended.nvm"};

json document_of(const care::repair_note& n, bool with_object) {
  json o = {{"offset", n.offset}, {"what", n.what}};
  if (with_object) {
    const bool object = n.object != 0;
    o["type"] = object ? json(n.type) : json(nullptr);
    if (!n.type_name.empty()) o["type_name"] = n.type_name;
    o["bytes"] = object && n.bytes != 0 ? json(n.bytes) : json(nullptr);
  }
  return o;
}

struct sorted_notes {
  json mended = json::array(), kept = json::array(), lost = json::array();
  explicit sorted_notes(const care::repair_report& r) {
    for (const care::repair_note& n : r.notes) {
      if (n.how == mending::mended) mended.push_back(document_of(n, false));
      if (n.how == mending::kept) kept.push_back(document_of(n, true));
      if (n.how == mending::lost) lost.push_back(document_of(n, true));
    }
  }
};

std::string object_text(const care::repair_note& n) {
  if (n.object == 0) return {};
  const std::string type = n.type_name.empty() ? fmt::format("type {}", n.type) : n.type_name;
  return n.bytes == 0 ? fmt::format(" ({})", type) : fmt::format(" ({}, {} bytes)", type, n.bytes);
}

void print(const care::repair_report& r, const console& out) {
  constexpr std::string_view words[] = {"mended", "kept", "lost", "cannot be mended"};
  for (const care::repair_note& n : r.notes) {
    const auto how = static_cast<std::size_t>(n.how);
    out.text("{} offset {}: {}{}\n", out.styled(words[how], n.how == mending::mended ? style::good : style::bad),
             n.offset, n.what, object_text(n));
  }
}

exit_code run(const arguments& given, console& out) {
  care::repair_request request;
  request.path = given.operand(0);
  request.in_place = given.flag("in-place");
  request.dry_run = given.flag("dry-run");
  request.accept_copy = given.flag("accept-copy");
  request.out = given.text("out");
  if (request.in_place && !request.out.empty()) {
    return out.fail({exit_usage, "repair", "USAGE", "--in-place and --out: one of the two"});
  }
  if (request.out.empty()) request.out = request.path + ".repaired";
  ::signal(SIGXFSZ, SIG_IGN);  // exceeding the limit of a file's size is then an ordinary error
  care::repair_report report;
  status done;
  {
    progress line{out, fmt::format("repairing {}", request.path)};
    done = care::repair_pool(request, report);
  }
  if (!done) {
    const bool refused = done.error() == errc::corrupt;
    if (refused) print(report, out);
    failure f{exit_internal, request.path, std::string{nvm_error_name(static_cast<int>(done.error()))}, last_message()};
    f.exit = exit_of_code(static_cast<int>(done.error()));
    if (refused) {
      f.message = "cannot be mended, nothing was changed: " +
                  (report.refusals.empty() ? std::string{last_message()} : report.refusals.front());
      for (std::size_t i = 1; i < report.refusals.size(); ++i) f.message += "; " + report.refusals[i];
    }
    return out.fail(f);
  }
  print(report, out);
  const sorted_notes notes{report};
  const bool sound = report.notes.empty();
  const std::string to = request.in_place ? request.path : request.out;
  out.text("{}: {}: {} mended, {} kept, {} lost; {} objects{}\n", request.path,
           out.styled(sound             ? "sound"
                      : request.dry_run ? "can be repaired"
                                        : "repaired",
                      notes.lost.empty() ? style::good : style::bad),
           notes.mended.size(), notes.kept.size(), notes.lost.size(), report.objects,
           report.written ? fmt::format(", in {}", to) : "");
  const bool lost = !notes.lost.empty() || !notes.kept.empty();
  out.document({
      {"path", request.path},
      {"out", report.written ? json(to) : json(nullptr)},
      {"result", sound ? "sound" : "repaired"},
      {"mended", notes.mended},
      {"kept", notes.kept},
      {"lost", notes.lost},
      {"objects_intact", report.objects_intact},
      {"objects", report.objects},
      {"rolled_back_transactions", report.rolled_back},
  });
  return lost ? exit_negative : exit_good;
}

}  // namespace
}  // namespace repair_verb

extern const command repair_command;
const command repair_command{
    .name = "repair",
    .summary = "mend a damaged pool on a copy, and say what was lost",
    .description =
        "Mends what is known twice: copies of superblock and anchor, entries of the page map from what lies in the "
        "pages, allocation words and lengths from the objects' headers and the other way round, words in which one bit "
        "has changed; makes damaged key-value stores and lock-free structures anew from the entries that can be read, "
        "and their directories, where a name that is lost becomes lost-1, lost-2, ...; drops logs that do not "
        "hold, with what they were about, and a damaged type map. The result has "
        "every object that was intact, and the full check finds nothing in it; otherwise it is refused and nothing is "
        "changed. Contents of objects are not checked: nothing says what they were.\n\n"
        "PATH is not changed: the repaired pool is PATH.repaired or --out. With --in-place it takes the name of PATH "
        "in one step when it is whole. Either needs room for a copy.\n\n"
        "The exit code is 0 when nothing was lost, or nothing was to be mended, 1 when something was lost or is not "
        "certain, 3 when the pool cannot be mended.",
    .operands = repair_verb::operands,
    .options = repair_verb::options,
    .fields = repair_verb::fields,
    .examples = repair_verb::examples,
    .run = repair_verb::run,
};

}  // namespace nvm::cli
