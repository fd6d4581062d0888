#include "object/static_pointers.hpp"

#include <algorithm>
#include <cinttypes>

#include "object/static_images.hpp"

namespace nvm::object {

using layout::static_kind;
using layout::static_place;

namespace {

// Whether the same build is loaded where it was.
bool has(const static_table& program, const static_object& image) noexcept {
  const auto row = program.find(image);
  return row && program.rows()[*row] == image;
}

// Whether a word without a type leads into an object: not to its end, which may be anything's beginning, nor into code.
bool may_be_address_in(const static_object& o, std::uint64_t offset) noexcept { return offset < o.size; }

// Where a word without a type leads, if it leads into an image that moved.
std::optional<static_place> guessed_place(const static_mover& m, const static_table& table,
                                          std::uint64_t value) noexcept {
  const auto [object, image] = table.find_around(value);
  const bool named = object && may_be_address_in(table.rows()[object->row], object->offset);
  if (named && (!image || m.is_there(*object) || !m.is_there(*image))) return object;
  return image && table.rows()[image->row].kind == announced_image ? std::nullopt : image;
}

}  // namespace

static_mover::static_mover(pass which, const static_table& table, const static_table& program, bool goes_on,
                           static_uses* uses)
    : table_{table}, reach_(table.rows().size()), uses_{uses}, pass_{which}, goes_on_{goes_on} {
  for (std::size_t i = 0; i < reach_.size(); ++i) {
    const auto row = program.find(table.rows()[i]);
    if (!row) continue;
    const static_object& o = program.rows()[*row];
    // Pointers into an object that is gone for good become null, at any offset.
    reach_[i] = o.address == 0 ? ~std::uint64_t{0} : o.size + 1;
  }
  const bool all = &table == &program;
  for (const static_object& o : table.rows()) {
    if (is_image(o.kind) && o.address >= guessed_from && (all || !has(program, o))) {
      images_.push_back({o.address, o.size});
    }
  }
}

std::optional<static_place> static_mover::place_of(std::uint64_t value) const noexcept {
  if (const auto p = table_.place_of_token(value)) return p;
  const auto [object, image] = table_.find_around(value);
  // In the same build an object that has lost its name is found by its place.
  if (object && (!image || is_there(*object) || !is_there(*image))) return object;
  return image;
}

static_mover::what static_mover::move(std::uint64_t& value, bool guessed) const noexcept {
  if (value == 0) return what::stays;
  const auto token = guessed && table_.mark() == 0 ? std::nullopt : table_.place_of_token(value);
  if (pass_ == pass::to_addresses) {
    const auto& p = token;
    if (!p) return what::stays;
    const static_object& o = table_.rows()[p->row];
    value = o.address == 0 ? 0 : o.address + p->offset;
    return what::moves;
  }
  const auto p = token || (guessed && !may_lead(value)) ? token
                 : guessed                              ? guessed_place(*this, table_, value)
                                                        : place_of(value);
  if (pass_ == pass::look) {
    uses_->saw(value);
    if (!p) {
      if (!guessed) uses_->found_unknown();
      return what::stays;
    }
    uses_->found(p->row);
    return is_there(*p) ? what::stays : what::foreign;
  }
  if (!p || token) return what::stays;
  value = table_.token_of(*p);
  return what::moves;
}

static_table joined_table(const static_table& stored, const static_table& program, const static_uses& uses) {
  std::vector<static_object> rows = stored.rows();
  std::vector<bool> taken(program.rows().size());
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const auto now = uses.of_row(i) == 0 ? std::nullopt : program.find(rows[i]);
    const std::uint64_t size = rows[i].size;
    if (now) taken[*now] = true;
    if (stored.mark() == 0) {
      rows[i] = now ? program.rows()[*now] : static_object{};
      // Tokens of an object that is gone for good lead to any place.
      if (now && rows[i].address == 0) rows[i].size = std::max(rows[i].size, size);
    } else if (rows[i].kind != static_kind::vacant) {
      // Nothing leads to objects that are not there now; an image always has an address.
      rows[i].address = now ? program.rows()[*now].address : 0;
      if (!now) rows[i].kind = static_kind::object;
    }
  }
  std::size_t vacant = 0;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (taken[i]) continue;
    while (vacant < rows.size() && (stored.mark() != 0 || rows[vacant].kind != static_kind::vacant)) ++vacant;
    if (vacant == rows.size()) rows.emplace_back();
    rows[vacant] = program.rows()[i];
  }
  return {std::move(rows), layout::static_state::passing, stored.mark()};
}

static_table later_table(const static_table& stored, const static_table& program) {
  std::vector<static_object> rows = program.rows();
  for (const static_object& o : stored.rows()) {
    const bool goes = o.kind == static_kind::vacant || std::any_of(rows.begin(), rows.end(), [&](const auto& now) {
                        return now.kind == o.kind &&
                               (now == o || (now.address < o.address + o.size && o.address < now.address + now.size));
                      });
    if (!goes) rows.push_back(o);
  }
  return {std::move(rows), stored.state()};
}

std::string_view program_of(const static_table& t) noexcept {
  for (const static_object& o : t.rows()) {
    if (is_image(o.kind)) return o.name;
  }
  return "none that says which it is";
}

const static_object* fixed_image_gone(const static_table& stored, const static_table& program) noexcept {
  for (const static_object& o : stored.rows()) {
    if (is_image(o.kind) && o.address < static_mover::guessed_from && !has(program, o)) return &o;
  }
  return nullptr;
}

errc refuse_static(const static_mover& asked, const static_table& stored, const static_table& program,
                   const relocation_report& found, const std::string& field) {
  const foreign_pointer& f = found.first[0];
  const auto p = asked.place_of(f.value);
  if (!p) return fail(errc::corrupt, "object at offset %" PRIu64 " has changed while it was looked at", f.object);
  const static_object& o = stored.rows()[p->row];
  std::string what;
  if (is_image(o.kind)) {
    what = "offset " + std::to_string(p->offset) + ", which has no name, of build " + o.name;
  } else {
    what = o.name + (p->offset == 0 ? "" : " + " + std::to_string(p->offset));
    const auto image = stored.find_around(o.address).image;
    if (image) what += " of build " + stored.rows()[image->row].name;
  }
  return fail(errc::address,
              "%s of the object at offset %" PRIu64 " (and %" PRIu64
              " others) leads into a program: found %s, "
              "expected something that this program has, build %s",
              field.c_str(), f.object, found.foreign - 1, what.c_str(), std::string{program_of(program)}.c_str());
}

}  // namespace nvm::object
