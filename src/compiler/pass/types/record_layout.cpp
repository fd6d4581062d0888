#include "record_layout.hpp"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/RecordLayout.h>
#include <clang/Basic/SourceManager.h>
#include <llvm/ADT/SmallVector.h>

#include <optional>

#include "object/union_tag.hpp"
#include "reset_field.hpp"
#include "tag_expression.hpp"

using namespace clang;
using llvm::StringRef;

namespace nvm::compiler {
namespace {

using layout::field_kind;
using problem = layout_finding::problem;

// The first pointer in a type, from there on: "first._M_p"; "" if it is the type itself.  Nothing: the type is bytes.
// `allowed`: pointers of these types are none.
using pointer_types = llvm::SmallDenseMap<const Type*, pointer_mark, 4>;
std::optional<std::string> pointer_in(QualType type, const pointer_types& allowed = pointer_types{});

std::optional<std::string> pointer_in(const RecordDecl& record, const pointer_types& allowed) {
  const auto* plus = dyn_cast<CXXRecordDecl>(&record);
  if (plus != nullptr && plus->hasDefinition()) {
    for (const CXXBaseSpecifier& b : plus->bases()) {
      if (auto found = pointer_in(b.getType(), allowed)) return found;
    }
  }
  for (const FieldDecl* f : record.fields()) {
    auto found = pointer_in(f->getType(), allowed);
    if (!found) continue;
    if (f->getName().empty()) return found;
    return f->getNameAsString() + (found->empty() ? "" : ".") + *found;
  }
  return std::nullopt;
}

std::optional<std::string> pointer_in(QualType type, const pointer_types& allowed) {
  type = type.getCanonicalType();
  if (const QualType inner = announced_type(type); !inner.isNull()) return pointer_in(inner, allowed);
  if (const auto* atomic = type->getAs<AtomicType>()) return pointer_in(atomic->getValueType(), allowed);
  if (const auto* array = type->getAsArrayTypeUnsafe()) return pointer_in(array->getElementType(), allowed);
  if (type->isPointerType() || type->isReferenceType() || type->isMemberPointerType() || type->isNullPtrType() ||
      type->isBlockPointerType()) {
    return allowed.contains(type.getUnqualifiedType().getTypePtr()) ? std::nullopt : std::optional<std::string>{""};
  }
  const RecordDecl* record = type->getAsRecordDecl();
  return record == nullptr ? std::nullopt : pointer_in(*record, allowed);
}

bool has_pointer(QualType type) { return pointer_in(type).has_value(); }

// NVM_PTR among the template arguments of a type, as it is written: std::array<NVM_PTR(node), 4>.
void collect_marked(QualType type, pointer_types& marked) {
  const auto* t = type->getAs<TemplateSpecializationType>();
  if (t == nullptr) return;
  for (const TemplateArgument& a : t->template_arguments()) {
    if (a.getKind() != TemplateArgument::Type) continue;
    if (a.getAsType()->isPointerType() && mark_of(a.getAsType()) != pointer_mark::none) {
      const Type* pointer = a.getAsType().getCanonicalType().getUnqualifiedType().getTypePtr();
      marked.try_emplace(pointer, mark_of(a.getAsType()));
    }
    collect_marked(a.getAsType(), marked);
  }
}

// nvm::ref<T>, nvm::weak<T> or nvm::p<T>: its name and T.
struct field_class {
  StringRef name;
  QualType of;
};
field_class field_class_of(QualType type) {
  const auto* s = dyn_cast_or_null<ClassTemplateSpecializationDecl>(type->getAsCXXRecordDecl());
  if (s == nullptr || s->getTemplateArgs().size() != 1) return {};
  if (s->getName() != "p" && s->getName() != "ref" && s->getName() != "weak") return {};
  const auto* space = dyn_cast<NamespaceDecl>(s->getDeclContext());
  if (space == nullptr || space->getName() != "nvm" || !space->getParent()->isTranslationUnit()) return {};
  const TemplateArgument& t = s->getTemplateArgs()[0];
  if (t.getKind() != TemplateArgument::Type) return {};
  return {s->getName(), t.getAsType()};
}

// The text of NVM_UNION_TAG, of the field or of its type; nothing: none.
std::optional<StringRef> tag_text(const Decl* d) {
  if (d == nullptr) return std::nullopt;
  for (const auto* a : d->specific_attrs<AnnotateAttr>()) {
    StringRef text = a->getAnnotation();
    if (text.consume_front("nvm_union_tag:")) return text;
  }
  return std::nullopt;
}

// Types of libraries whose values belong to the process, even without a pointer in them: returns what they are; empty:
// none.
StringRef state_of_process(const ASTContext& c, QualType type) {
  const auto meaning = [](StringRef name, bool in_c) -> StringRef {
    static const StringRef locks_of_c[] = {"pthread_mutex_t",
                                           "pthread_cond_t",
                                           "pthread_rwlock_t",
                                           "pthread_spinlock_t",
                                           "pthread_barrier_t",
                                           "pthread_once_t",
                                           "sem_t",
                                           "mtx_t",
                                           "cnd_t",
                                           "once_flag"};
    static const StringRef locks[] = {"mutex",
                                      "recursive_mutex",
                                      "timed_mutex",
                                      "shared_mutex",
                                      "recursive_timed_mutex",
                                      "shared_timed_mutex",
                                      "condition_variable",
                                      "condition_variable_any",
                                      "once_flag",
                                      "counting_semaphore",
                                      "latch",
                                      "barrier"};
    static const StringRef handles_of_c[] = {"pthread_t", "thrd_t", "pthread_key_t", "tss_t", "timer_t", "mqd_t"};
    static const StringRef handles[] = {"thread", "jthread", "thread::id"};
    if (in_c ? llvm::is_contained(locks_of_c, name) : llvm::is_contained(locks, name)) return "(a lock)";
    return (in_c ? llvm::is_contained(handles_of_c, name) : llvm::is_contained(handles, name)) ? "(a handle)" : "";
  };
  const auto of_system = [&](const Decl& d) { return c.getSourceManager().isInSystemHeader(d.getLocation()); };
  QualType t = type;
  for (const auto* named = t->getAs<TypedefType>(); named != nullptr; named = t->getAs<TypedefType>()) {
    if (of_system(*named->getDecl())) {
      if (const StringRef m = meaning(named->getDecl()->getName(), true); !m.empty()) return m;
    }
    t = named->desugar();
  }
  const RecordDecl* r = type->getAsRecordDecl();
  if (r == nullptr) return {};
  const auto* outer = dyn_cast<RecordDecl>(r->getDeclContext());
  if (!(outer == nullptr ? r : outer)->isInStdNamespace() || !of_system(*r)) return {};
  return meaning(outer == nullptr ? r->getName().str() : (outer->getName() + "::" + r->getName()).str(), false);
}

class describer {
 public:
  describer(const ASTContext& c, const unit_facts& facts, object::type_description& out,
            const std::function<void(const layout_finding&)>& tell)
      : c_{c}, facts_{facts}, out_{out}, tell_{tell} {}

  void record(const RecordDecl& r, std::uint64_t offset, const std::string& prefix, unsigned depth, bool last) {
    const ASTRecordLayout& l = c_.getASTRecordLayout(&r);
    const scope here{*this, r, offset, depth};
    if (const auto* plus = dyn_cast<CXXRecordDecl>(&r)) {
      if (plus->isDynamicClass()) return wrong(problem::dynamic_class, &r, prefix);
      for (const CXXBaseSpecifier& b : plus->bases()) {
        const CXXRecordDecl& base = *b.getType()->getAsCXXRecordDecl();
        if (base.isEmpty()) continue;
        const library_scope scope{*this, base, b.getType(), &r, prefix + "(base)"};
        record(base, offset + bytes(l.getBaseClassOffset(&base)), prefix, depth, false);
      }
    }
    unsigned number = 0;
    bit_run bits;
    for (const FieldDecl* f : r.fields()) {
      ++number;
      const std::uint64_t at = offset + l.getFieldOffset(f->getFieldIndex()) / 8;
      std::string name = prefix + f->getNameAsString();
      if (f->isBitField()) {
        if (!f->isUnnamedBitField()) bits.take(*f, offset * 8 + l.getFieldOffset(f->getFieldIndex()), c_, prefix);
        continue;
      }
      leave(bits);
      const bool anonymous = f->isAnonymousStructOrUnion();
      const bool at_end = last && f->getFieldIndex() + 1 == l.getFieldCount();
      if (anonymous && f->getType()->isStructureOrClassType()) {
        record(*f->getType()->getAsRecordDecl(), at, prefix, depth, at_end);
        continue;
      }
      if (f->getName().empty()) name = prefix + "(" + std::to_string(number) + ")";
      field(f->getType(), f, at, name, depth, at_end);
    }
    leave(bits);
  }

  void field(QualType type, const NamedDecl* where, std::uint64_t offset, const std::string& name, unsigned depth,
             bool last) {
    std::uint64_t count = 1;
    bool flexible = false;
    bool marker = false;
    for (bool outermost = true;; outermost = false) {
      if (const QualType inner = announced_type(type); !inner.isNull()) {
        announced_ = field_class_of(type).name == "weak" ? pointer_mark::weak : pointer_mark::strong;
        type = inner;
        continue;
      }
      if (type->isPointerType()) break;  // its sugar is needed
      const auto* array = type->getAsArrayTypeUnsafe();
      if (array == nullptr) {
        if (const auto* atomic = type->getAs<AtomicType>()) {
          type = atomic->getValueType();
          continue;
        }
        break;
      }
      const auto* constant = dyn_cast<ConstantArrayType>(array);
      const std::uint64_t n = constant == nullptr ? 0 : constant->getSize().getZExtValue();
      if (n == 0) {
        if (!outermost) return;  // of no bytes
        flexible = true;
        marker = constant != nullptr;
      } else {
        count *= n;
      }
      type = array->getElementType();
    }
    const pointer_mark announced = std::exchange(announced_, pointer_mark::none);
    const bool as_one = std::exchange(as_one_, false);
    if (type->isIncompleteType()) return;
    std::uint64_t size = bytes(c_.getTypeSizeInChars(type->isReferenceType() ? c_.VoidPtrTy : type));
    if (size == 0) return;
    if (flexible) {
      // In front of other fields an array of GNU C that has no elements is a name for a place.
      marker = marker && !is_stored_unlogged(where, type);
      if (!last || depth != 0) return marker ? void() : wrong(problem::inner_flexible, where, name);
      count = 0;
    }
    layout::type_field f{};
    f.offset = offset;
    f.element_bytes = size;
    f.count = count;
    if (where != nullptr && is_reset(*where)) return add_as(field_kind::reset, f, name);
    if (const StringRef state = library_ == nullptr && where != nullptr ? state_of_process(c_, type) : "";
        !state.empty()) {
      tell_({problem::library_type, where, name, spelled(c_, type), state.str()});
      return add_as(field_kind::bytes, f, name);
    }
    if (type->isPointerType() || type->isBlockPointerType()) {
      pointer(type, announced, where, name, f);
    } else if (type->isReferenceType() || type->isNullPtrType()) {
      f.kind = field_kind::volatile_pointer;
      if (type->isReferenceType() && where != nullptr) warn(problem::plain_reference, where, name);
    } else if (type->isMemberPointerType()) {
      f.kind = field_kind::bytes;
      if (where != nullptr) warn(problem::member_pointer, where, name);
    } else if (const RecordDecl* r = type->getAsRecordDecl()) {
      const library_scope scope{*this, *r, type, where, name};
      return aggregate(*r, where, f, name, depth, last, as_one);
    } else {
      scalar(type, f);
    }
    add(f, name);
  }

  [[nodiscard]] bool good() const { return good_; }

  // Objects that are arrays of numbers, or of pointers: these of objects of the pool.
  void element(QualType type) {
    announced_ = pointer_mark::strong;
    field(type, nullptr, 0, "", 0, false);
  }

 private:
  // Neighbouring bit-fields: the bytes that they share, named "a:0+3|b:3+5" by the first bit and the width of each.
  struct bit_run {
    std::string name;
    std::uint64_t from = 0, to = 0;  // bytes

    void take(const FieldDecl& f, std::uint64_t bit, const ASTContext& c, const std::string& prefix) {
      const unsigned width = f.getBitWidthValue(c);
      if (name.empty()) {
        from = bit / 8;
        name = prefix;
      } else {
        name += '|';
      }
      to = (bit + width + 7) / 8;
      name += f.getNameAsString() + ":" + std::to_string(bit - from * 8) + "+" + std::to_string(width);
    }
  };
  void leave(bit_run& bits) {
    if (bits.name.empty()) return;
    layout::type_field f{};
    f.offset = bits.from;
    f.element_bytes = bits.to - bits.from;
    f.count = 1;
    f.kind = field_kind::bytes;
    add(f, bits.name);
    bits = {};
  }

  static std::uint64_t bytes(CharUnits u) { return static_cast<std::uint64_t>(u.getQuantity()); }
  void add(const layout::type_field& f, const std::string& name) { out_.fields.push_back({f, name}); }
  void add_as(field_kind kind, layout::type_field f, const std::string& name) {
    f.kind = kind;
    add(f, name);
  }
  void wrong(problem p, const NamedDecl* where, const std::string& name) {
    good_ = false;
    tell_({p, library_ == nullptr ? where : library_, name});
  }
  // Problems inside a type of a library were told to its user, at the field.
  void warn(problem p, const NamedDecl* where, const std::string& name) {
    if (library_ == nullptr) tell_({p, where, name});
  }

  // While it lives, the described fields are in a type of a system header, so they are not the program's.
  class library_scope {
   public:
    library_scope(describer& d, const RecordDecl& r, QualType type, const NamedDecl* where, const std::string& name)
        : d_{d}, entered_{d.library_ == nullptr && where != nullptr && d.is_of_library(r)} {
      if (!entered_) return;
      d_.library_ = where;
      collect_marked(type, d_.marked_);
      std::optional<std::string> pointer = pointer_in(d.c_.getRecordType(&r), d_.marked_);
      if (const auto* plus = dyn_cast<CXXRecordDecl>(&r); !pointer && plus != nullptr && plus->isDynamicClass())
        pointer = "(virtual functions)";
      if (pointer) d_.tell_({problem::library_type, where, name, spelled(d.c_, type), *pointer});
    }
    ~library_scope() {
      if (!entered_) return;
      d_.library_ = nullptr;
      d_.marked_.clear();
    }
    library_scope(const library_scope&) = delete;
    library_scope& operator=(const library_scope&) = delete;

   private:
    describer& d_;
    bool entered_;
  };
  // Unions with a pointer stay bytes: a mutex of C is one.
  [[nodiscard]] bool is_of_library(const RecordDecl& r) const {
    if (r.isUnion() || !c_.getSourceManager().isInSystemHeader(r.getLocation())) return false;
    for (const DeclContext* c = r.getDeclContext(); c != nullptr; c = c->getParent()) {
      const auto* space = dyn_cast<NamespaceDecl>(c);
      if (space != nullptr && space->getName() == "nvm" && space->getParent()->isTranslationUnit()) return false;
    }
    return true;
  }
  // As the program spells it, without the program's own aliases.
  static std::string spelled(const ASTContext& c, QualType type) {
    for (const auto* own = type->getAs<TypedefType>();
         own != nullptr && !c.getSourceManager().isInSystemHeader(own->getDecl()->getLocation());
         own = type->getAs<TypedefType>()) {
      type = own->desugar();
    }
    PrintingPolicy policy{c.getLangOpts()};
    policy.SuppressUnwrittenScope = true;
    return type.getLocalUnqualifiedType().getAsString(policy);
  }
  static bool has_bit_field(const RecordDecl& r) {
    return llvm::any_of(r.fields(), [](const FieldDecl* f) { return f->isBitField() && !f->isUnnamedBitField(); });
  }
  // Whether a type of a library is stored as bytes, since a type map cannot describe it.
  [[nodiscard]] bool is_taken_for_bytes(const RecordDecl& r) const {
    if (library_ == nullptr) return false;
    const auto* plus = dyn_cast<CXXRecordDecl>(&r);
    return r.isUnion() || has_bit_field(r) || (plus != nullptr && plus->isDynamicClass());
  }

  void pointer(QualType type, pointer_mark announced, const NamedDecl* where, const std::string& name,
               layout::type_field& f) {
    const QualType to = type->isBlockPointerType() ? c_.VoidTy : type->getPointeeType();
    pointer_mark mark = announced;
    if (mark == pointer_mark::none) mark = mark_of(type);
    if (mark == pointer_mark::none) mark = marked_.lookup(type.getCanonicalType().getUnqualifiedType().getTypePtr());
    f.kind = mark == pointer_mark::none     ? field_kind::volatile_pointer
             : mark == pointer_mark::strong ? field_kind::pointer
                                            : field_kind::weak_pointer;
    if (!to->isFunctionType()) f.target = target_id(c_, to);
    if (where != nullptr && is_static(*where)) {
      f.kind = field_kind::static_pointer;
      return;
    }
    if (mark != pointer_mark::none || where == nullptr || is_meant_volatile(*where)) return;
    warn(to->isFunctionType() ? problem::code_pointer : problem::plain_pointer, where, name);
  }

  void aggregate(const RecordDecl& r, const NamedDecl* where, layout::type_field f, const std::string& name,
                 unsigned depth, bool last, bool as_one) {
    const bool for_bytes = is_taken_for_bytes(r);
    if ((r.isUnion() || for_bytes || !kept_in(r).isNull()) && has_reset_field(c_.getRecordType(&r)))
      return wrong(problem::reset_in_union, where, name);
    if (for_bytes) return add_as(field_kind::bytes, f, name);
    if (const auto v = facts_.visited.find(r.getCanonicalDecl()); v != facts_.visited.end() && !visited_) {
      return visited(r, v->second, f, name, depth);
    }
    if (r.isUnion()) return union_of(r, where, f, name, depth);
    if (f.count == 1 && !as_one) return record(r, f.offset, name + ".", depth, last);
    f.kind = field_kind::structure;
    container(f, name, depth, where, [&] { record(r, 0, name + ".", depth + 1, false); });
  }

  // A field, and what lies in it.
  template <class Fill>
  std::size_t container(const layout::type_field& f, const std::string& name, unsigned depth, const NamedDecl* where,
                        Fill&& fill) {
    const std::size_t at = out_.fields.size();
    if (depth + 1 >= layout::type_depth_max) {
      wrong(problem::too_deep, where, name);
      return at;
    }
    add(f, name);
    fill();
    const std::size_t inner = out_.fields.size() - at - 1;
    // A structure of padding alone is stored as bytes.
    if (inner == 0 && f.kind != field_kind::by_visitor) out_.fields[at].place.kind = field_kind::bytes;
    out_.fields[at].place.inner = static_cast<std::uint32_t>(inner);
    return at;
  }

  void visited(const RecordDecl& r, std::uint32_t id, layout::type_field f, const std::string& name, unsigned depth) {
    f.kind = field_kind::by_visitor;
    f.target = id;
    visited_ = true;
    container(f, name, depth, nullptr, [&] {
      if (!r.isUnion()) record(r, 0, name.empty() ? "" : name + ".", depth + 1, false);
    });
    visited_ = false;
  }

  void union_of(const RecordDecl& r, const NamedDecl* where, layout::type_field f, const std::string& name,
                unsigned depth) {
    f.kind = field_kind::bytes;
    if (visited_ || !has_pointer(c_.getRecordType(&r))) return add(f, name);
    std::optional<StringRef> text = tag_text(where);
    if (!text) text = tag_text(&r);
    if (!text) return wrong(problem::pointer_union, where, name);
    std::string loose;
    const compiled_tag tag = compile_tag(*text, [&](auto path) { return meaning(path, depth, loose); });
    if (!loose.empty()) return wrong_tag(where, name, "'" + loose + "' is stored without a log, the union with one");
    if (!tag.wrong.empty()) return wrong_tag(where, name, tag.wrong);
    if (!object::union_tag::read(tag.tag, room_at(depth))) return wrong_tag(where, name, "it is too complicated");
    f.kind = field_kind::tagged_union;
    bool whole = true;
    const std::size_t at = container(f, name, depth, where, [&] { whole = members(r, name, depth); });
    if (!whole) return wrong(problem::pointer_union, where, name);
    if (at < out_.fields.size()) out_.fields[at].tag = tag.tag;
  }
  // One field for each member, in their order.  False: there is one of no bytes.
  bool members(const RecordDecl& r, const std::string& name, unsigned depth) {
    unsigned number = 0;
    const scope here{*this, r, 0, depth + 1};
    for (const FieldDecl* m : r.fields()) {
      ++number;
      const std::string given = m->getName().empty() ? "(" + std::to_string(number) + ")" : m->getNameAsString();
      const std::string inner = name + "." + given;
      const std::size_t before = out_.fields.size();
      if (m->isBitField()) {
        if (m->isUnnamedBitField()) continue;
        bit_run bits;
        bits.take(*m, 0, c_, name + ".");
        leave(bits);
      } else {
        as_one_ = true;
        field(m->getType(), m, 0, inner, depth + 1, false);
        as_one_ = false;
      }
      if (out_.fields.size() == before) return !good_;
    }
    return true;
  }
  void wrong_tag(const NamedDecl* where, const std::string& name, const std::string& what) {
    good_ = false;
    tell_({problem::union_tag, library_ == nullptr ? where : library_, name, what});
  }

  // The structures around what is being described, from the inside out, and where they begin in the structure that is
  // an object or an element.
  struct scope {
    scope(describer& d, const RecordDecl& r, std::uint64_t offset, unsigned depth)
        : d_{d}, record{r}, offset{offset}, depth{depth}, outer{d.scope_} {
      d.scope_ = this;
    }
    ~scope() { d_.scope_ = outer; }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

    describer& d_;
    const RecordDecl& record;
    std::uint64_t offset;
    unsigned depth;
    const scope* outer;
  };
  // Bytes of the outermost structure of this depth.
  [[nodiscard]] std::uint64_t room_at(unsigned depth) const {
    std::uint64_t room = 0;
    for (const scope* s = scope_; s != nullptr && s->depth == depth; s = s->outer) {
      room = s->offset + bytes(c_.getASTRecordLayout(&s->record).getSize());
    }
    return room;
  }
  // Meaning of a name in a tag: an integer field of a structure around the union, or an enumerator.
  [[nodiscard]] std::optional<std::string> meaning(llvm::ArrayRef<StringRef> path, unsigned depth,
                                                   std::string& loose) const {
    for (const scope* s = scope_; s != nullptr && s->depth == depth; s = s->outer) {
      const auto place = place_of(s->record, path, s->offset * 8);
      if (place && place->loose) loose = path.back().str();
      if (place) return load_of(*place, room_at(depth));
    }
    if (const auto number = facts_.enumerator(path)) return std::to_string(*number);
    return std::nullopt;
  }
  struct bit_place {
    std::uint64_t bit;
    unsigned width;
    bool is_signed;
    bool whole;  // no bit-field
    bool loose;  // stored without a log
  };
  [[nodiscard]] std::optional<bit_place> place_of(const RecordDecl& r, llvm::ArrayRef<StringRef> path,
                                                  std::uint64_t bit) const {
    const ASTRecordLayout& l = c_.getASTRecordLayout(&r);
    if (const auto* plus = dyn_cast<CXXRecordDecl>(&r)) {
      for (const CXXBaseSpecifier& b : plus->bases()) {
        const CXXRecordDecl& base = *b.getType()->getAsCXXRecordDecl();
        const std::uint64_t at = bytes(l.getBaseClassOffset(&base));
        if (const auto found = place_of(base, path, bit + at * 8)) return found;
      }
    }
    for (const FieldDecl* f : r.fields()) {
      const std::uint64_t at = bit + l.getFieldOffset(f->getFieldIndex());
      QualType type = f->getType();
      if (const QualType inner = announced_type(type); !inner.isNull()) type = inner;
      if (const auto* atomic = type->getAs<AtomicType>()) type = atomic->getValueType();
      const RecordDecl* inner = type->getAsRecordDecl();
      if (f->isAnonymousStructOrUnion()) {
        if (const auto found = place_of(*inner, path, at)) return found;
        continue;
      }
      if (f->getName() != path.front()) continue;
      if (path.size() > 1) {
        auto found = inner == nullptr ? std::nullopt : place_of(*inner, path.drop_front(), at);
        if (found) found->loose |= is_unlogged(*f);
        return found;
      }
      if (!type->isIntegralOrEnumerationType()) return std::nullopt;
      const auto size = static_cast<unsigned>(c_.getTypeSize(type));
      const unsigned width = f->isBitField() ? f->getBitWidthValue(c_) : size;
      if (width == 0 || width > 64) return std::nullopt;
      return bit_place{at, width, type->isSignedIntegerOrEnumerationType(), !f->isBitField(), is_unlogged(*f)};
    }
    return std::nullopt;
  }
  static std::optional<std::string> load_of(const bit_place& p, std::uint64_t room) {
    std::uint64_t at = p.bit / 8;
    const std::uint64_t last = (p.bit + p.width + 7) / 8;
    std::uint64_t size = 1;
    while (size < last - at) size *= 2;
    if (at + size > room) at = room < size ? at : room - size;
    if (size > 8) return std::nullopt;
    std::string text = (p.is_signed ? "s" : "u") + std::to_string(size) + "@" + std::to_string(at);
    if (!p.whole) text += ":" + std::to_string(p.bit - at * 8) + "+" + std::to_string(p.width);
    return text;
  }

  void scalar(QualType type, layout::type_field& f) {
    if (const auto* complex = type->getAs<ComplexType>()) {
      type = complex->getElementType();
      f.count *= 2;
      f.element_bytes /= 2;
    } else if (const auto* vector = type->getAs<VectorType>(); vector != nullptr && vector->getNumElements() != 0) {
      const std::uint64_t element = bytes(c_.getTypeSizeInChars(vector->getElementType()));
      if (f.element_bytes % element == 0) {
        type = vector->getElementType();
        f.count *= f.element_bytes / element;
        f.element_bytes = element;
      }
    }
    f.kind = field_kind::bytes;
    if (const auto* e = type->getAs<EnumType>()) type = e->getDecl()->getIntegerType();
    if (type.isNull()) return;
    type = type.getCanonicalType();
    if (type->isBooleanType()) {
      f.kind = field_kind::boolean;
    } else if (type->isSpecificBuiltinType(BuiltinType::Char_S) || type->isSpecificBuiltinType(BuiltinType::Char_U) ||
               type->isChar8Type()) {
      f.kind = field_kind::character;
    } else if (type->isRealFloatingType()) {
      f.kind = field_kind::floating;
    } else if (type->isSignedIntegerType()) {
      f.kind = field_kind::signed_integer;
    } else if (type->isUnsignedIntegerType()) {
      f.kind = field_kind::unsigned_integer;
    }
  }

  const ASTContext& c_;
  const unit_facts& facts_;
  object::type_description& out_;
  const std::function<void(const layout_finding&)>& tell_;
  const NamedDecl* library_ = nullptr;  // the program's field that is of a library's type, while that is described
  pointer_types marked_{};              // of that field: NVM_PTR in its template arguments
  pointer_mark announced_ = pointer_mark::none;
  bool as_one_ = false;   // a structure is one field, also if there is one of it
  bool visited_ = false;  // inside of a type with a visitor
  const scope* scope_ = nullptr;
  bool good_ = true;
};

}  // namespace

pointer_mark mark_of(const BTFTypeTagAttr& tag) {
  if (tag.getBTFTypeTag() == "nvm_ptr") return pointer_mark::strong;
  return tag.getBTFTypeTag() == "nvm_weak_ptr" ? pointer_mark::weak : pointer_mark::none;
}

pointer_mark mark_of(QualType type) {
  // One layer of sugar at a time: the mark is one of them.  In C++ Clang does not say which annotation a type has, and
  // no other annotates types of pointers: one is NVM_PTR, two are NVM_WEAK_PTR.
  unsigned annotations = 0;
  for (;;) {
    const auto* a = dyn_cast<AttributedType>(type.getTypePtr());
    if (a != nullptr && a->getAttrKind() == attr::AnnotateType && ++annotations == 2) return pointer_mark::weak;
    if (const auto* p = dyn_cast<PointerType>(type.getTypePtr())) {
      const auto* tag = p->getPointeeType()->getAs<BTFTagAttributedType>();  // C
      if (tag != nullptr) return mark_of(*tag->getAttr());
      return annotations == 0 ? pointer_mark::none : pointer_mark::strong;
    }
    const QualType inner = a != nullptr ? a->getModifiedType() : type->getLocallyUnqualifiedSingleStepDesugaredType();
    if (inner.getTypePtr() == type.getTypePtr()) {
      return annotations == 0 ? pointer_mark::none : pointer_mark::strong;
    }
    type = inner;
  }
}

namespace {
bool is_annotated(const NamedDecl& field, StringRef with) {
  // The front end may have added the field's size (pass/front/system_functions.cpp).
  return llvm::any_of(field.specific_attrs<AnnotateAttr>(),
                      [&](const auto* a) { return a->getAnnotation().split(':').first == with; });
}
}  // namespace

bool is_meant_volatile(const NamedDecl& field) { return is_annotated(field, "nvm_volatile_ptr"); }
bool is_static(const NamedDecl& field) { return is_annotated(field, "nvm_static_ptr"); }
bool is_reset(const NamedDecl& field) { return is_annotated(field, "nvm_reset"); }
bool is_stale_ok(const NamedDecl& field) { return is_annotated(field, "nvm_stale_ok"); }

bool is_durable(const RecordDecl& record) {
  for (const TagDecl* d : record.redecls()) {
    for (const auto* a : d->specific_attrs<AnnotateAttr>()) {
      if (a->getAnnotation() == "nvm_struct") return true;
    }
  }
  // An instantiation whose template is NVM_STRUCT.
  if (const auto* s = dyn_cast<ClassTemplateSpecializationDecl>(&record)) {
    return is_durable(*s->getSpecializedTemplate()->getTemplatedDecl());
  }
  return false;
}

QualType announced_type(QualType type) {
  const field_class f = field_class_of(type);
  const bool of_target = f.name == "weak" || f.name == "ref";
  return of_target ? type->getAsCXXRecordDecl()->getASTContext().getPointerType(f.of) : f.of;
}

std::string canonical_name(const ASTContext& context, QualType type) {
  PrintingPolicy policy{context.getLangOpts()};
  policy.SuppressTagKeyword = true;
  policy.SuppressUnwrittenScope = true;
  policy.AnonymousTagLocations = false;
  policy.FullyQualifiedName = true;
  policy.Bool = true;
  return type.getCanonicalType().getUnqualifiedType().getAsString(policy);
}

std::uint32_t target_id(const ASTContext& context, QualType pointee) {
  if (pointee->isVoidType()) return 0;
  while (const auto* array = pointee->getAsArrayTypeUnsafe()) pointee = array->getElementType();
  return layout::type_id_of(canonical_name(context, pointee).c_str());
}

bool is_scalar_data(QualType type) {
  while (const auto* array = type->getAsArrayTypeUnsafe()) type = array->getElementType();
  if (const auto* atomic = type->getAs<AtomicType>()) type = atomic->getValueType();
  return type->isArithmeticType() || type->isEnumeralType() || type->isVectorType();
}

bool describe_type(const ASTContext& context, QualType type, const unit_facts& facts, object::type_description& out,
                   const std::function<void(const layout_finding&)>& tell) {
  out.name = canonical_name(context, type);
  out.size = static_cast<std::uint64_t>(context.getTypeSizeInChars(type).getQuantity());
  out.align = static_cast<std::uint32_t>(context.getTypeAlignInChars(type).getQuantity());
  describer d{context, facts, out, tell};
  const RecordDecl* r = type->getAsRecordDecl();
  if (r != nullptr && !r->isUnion() && !facts.visited.contains(r->getCanonicalDecl())) {
    d.record(*r, 0, "", 0, true);
  } else {
    d.element(type);
  }
  return d.good();
}

}  // namespace nvm::compiler
