#include "record_layout.hpp"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/RecordLayout.h>
#include <clang/Basic/SourceManager.h>
#include <llvm/ADT/SmallPtrSet.h>

#include <optional>

using namespace clang;

namespace nvm::compiler {
namespace {

using layout::field_kind;
using problem = layout_finding::problem;

// The first pointer in a type, from there on: "first._M_p"; "" if it is the type itself.  Nothing: the type is bytes.
// `allowed`: pointers of these types are none.
using pointer_types = llvm::SmallPtrSet<const Type*, 4>;
std::optional<std::string> pointer_in(QualType type, const pointer_types& allowed = {});

std::optional<std::string> pointer_in(const RecordDecl& record, const pointer_types& allowed) {
  const auto* plus = dyn_cast<CXXRecordDecl>(&record);
  if (plus != nullptr && plus->hasDefinition()) {
    for (const CXXBaseSpecifier& b : plus->bases()) {
      if (auto found = pointer_in(b.getType(), allowed)) return found;
    }
  }
  for (const FieldDecl* f : record.fields()) {
    const auto found = pointer_in(f->getType(), allowed);
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
    if (a.getAsType()->isPointerType() && is_marked(a.getAsType())) {
      marked.insert(a.getAsType().getCanonicalType().getUnqualifiedType().getTypePtr());
    }
    collect_marked(a.getAsType(), marked);
  }
}

class describer {
 public:
  describer(const ASTContext& c, object::type_description& out, const std::function<void(const layout_finding&)>& tell)
      : c_{c}, out_{out}, tell_{tell} {}

  void record(const RecordDecl& r, std::uint64_t offset, const std::string& prefix, unsigned depth, bool last) {
    const ASTRecordLayout& l = c_.getASTRecordLayout(&r);
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
    for (const FieldDecl* f : r.fields()) {
      ++number;
      const std::uint64_t at = offset + l.getFieldOffset(f->getFieldIndex()) / 8;
      std::string name = prefix + f->getNameAsString();
      if (f->isUnnamedBitField()) continue;
      if (f->isBitField()) {
        wrong(problem::bit_field, f, name);
        continue;
      }
      const bool anonymous = f->isAnonymousStructOrUnion();
      const bool at_end = last && f->getFieldIndex() + 1 == l.getFieldCount();
      if (anonymous && f->getType()->isStructureOrClassType()) {
        record(*f->getType()->getAsRecordDecl(), at, prefix, depth, at_end);
        continue;
      }
      if (f->getName().empty()) name = prefix + "(" + std::to_string(number) + ")";
      field(f->getType(), f, at, name, depth, at_end);
    }
  }

  void field(QualType type, const NamedDecl* where, std::uint64_t offset, const std::string& name, unsigned depth,
             bool last) {
    std::uint64_t count = 1;
    bool flexible = false;
    bool marker = false;
    for (bool outermost = true;; outermost = false) {
      if (const QualType inner = announced_type(type); !inner.isNull()) {
        announced_ = true;
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
    const bool announced = std::exchange(announced_, false);
    if (type->isIncompleteType()) return;
    std::uint64_t size = bytes(c_.getTypeSizeInChars(type->isReferenceType() ? c_.VoidPtrTy : type));
    if (size == 0) return;
    if (flexible) {
      // In front of other fields an array of GNU C that has no elements is a name for a place.
      if (!last || depth != 0) return marker ? void() : wrong(problem::inner_flexible, where, name);
      count = 0;
    }
    layout::type_field f{};
    f.offset = offset;
    f.element_bytes = size;
    f.count = count;
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
      return aggregate(*r, where, f, name, depth, last);
    } else {
      scalar(type, f);
    }
    add(f, name);
  }

  [[nodiscard]] bool good() const { return good_; }

  // Objects that are arrays of numbers, or of pointers: these of objects of the pool.
  void element(QualType type) {
    announced_ = true;
    field(type, nullptr, 0, "", 0, false);
  }

 private:
  static std::uint64_t bytes(CharUnits u) { return static_cast<std::uint64_t>(u.getQuantity()); }
  void add(const layout::type_field& f, const std::string& name) { out_.fields.push_back({f, name}); }
  void wrong(problem p, const NamedDecl* where, const std::string& name) {
    good_ = false;
    tell_({p, library_ == nullptr ? where : library_, name});
  }
  // Problems inside a type of a library were told to its user, at the field.
  void warn(problem p, const NamedDecl* where, const std::string& name) {
    if (library_ == nullptr) tell_({p, where, name});
  }

  // As long as it lives, what is described lies in a type of a system header, whose fields are none of the program's.
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
  // Unions with a pointer stay what they are: a mutex of C is one.
  [[nodiscard]] bool is_of_library(const RecordDecl& r) const {
    if (r.isUnion() || !c_.getSourceManager().isInSystemHeader(r.getLocation())) return false;
    for (const DeclContext* c = r.getDeclContext(); c != nullptr; c = c->getParent()) {
      const auto* space = dyn_cast<NamespaceDecl>(c);
      if (space != nullptr && space->getName() == "nvm" && space->getParent()->isTranslationUnit()) return false;
    }
    return true;
  }
  // As the program says it, without its own names for it.
  static std::string spelled(const ASTContext& c, QualType type) {
    for (const auto* own = type->getAs<TypedefType>();
         own != nullptr && !c.getSourceManager().isInSystemHeader(own->getDecl()->getLocation());
         own = type->getAs<TypedefType>()) {
      type = own->desugar();
    }
    PrintingPolicy policy{c.getLangOpts()};
    policy.SuppressUnwrittenScope = true;
    return type.getUnqualifiedType().getAsString(policy);
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

  void pointer(QualType type, bool announced, const NamedDecl* where, const std::string& name, layout::type_field& f) {
    const QualType to = type->isBlockPointerType() ? c_.VoidTy : type->getPointeeType();
    const bool durable =
        announced || is_marked(type) || marked_.contains(type.getCanonicalType().getUnqualifiedType().getTypePtr());
    f.kind = durable ? field_kind::pointer : field_kind::volatile_pointer;
    if (!to->isFunctionType()) f.target = target_id(c_, to);
    if (durable || where == nullptr || is_meant_volatile(*where)) return;
    warn(to->isFunctionType() ? problem::code_pointer : problem::plain_pointer, where, name);
  }

  void aggregate(const RecordDecl& r, const NamedDecl* where, layout::type_field f, const std::string& name,
                 unsigned depth, bool last) {
    if (is_taken_for_bytes(r)) {
      f.kind = field_kind::bytes;
      return add(f, name);
    }
    if (r.isUnion()) {
      if (has_pointer(c_.getRecordType(&r))) return wrong(problem::pointer_union, where, name);
      f.kind = field_kind::bytes;
      return add(f, name);
    }
    if (f.count == 1) return record(r, f.offset, name + ".", depth, last);
    if (depth + 1 >= layout::type_depth_max) return wrong(problem::too_deep, where, name);
    f.kind = field_kind::structure;
    const std::size_t at = out_.fields.size();
    add(f, name);
    record(r, 0, name + ".", depth + 1, false);
    const std::size_t inner = out_.fields.size() - at - 1;
    // A structure of padding alone is stored as bytes.
    if (inner == 0) out_.fields[at].place.kind = field_kind::bytes;
    out_.fields[at].place.inner = static_cast<std::uint32_t>(inner);
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
  object::type_description& out_;
  const std::function<void(const layout_finding&)>& tell_;
  const NamedDecl* library_ = nullptr;  // the program's field that is of a library's type, while that is described
  pointer_types marked_{};              // of that field: NVM_PTR in its template arguments
  bool announced_ = false;
  bool good_ = true;
};

}  // namespace

bool is_mark(const BTFTypeTagAttr& tag) { return tag.getBTFTypeTag() == "nvm_ptr"; }

bool is_marked(QualType type) {
  // One layer of sugar at a time: the mark is one of them.
  for (;;) {
    const auto* a = dyn_cast<AttributedType>(type.getTypePtr());
    if (a != nullptr && a->getAttrKind() == attr::AnnotateType) return true;  // C++
    if (const auto* p = dyn_cast<PointerType>(type.getTypePtr())) {
      const auto* tag = p->getPointeeType()->getAs<BTFTagAttributedType>();  // C
      return tag != nullptr && is_mark(*tag->getAttr());
    }
    const QualType inner = type->getLocallyUnqualifiedSingleStepDesugaredType();
    if (inner.getTypePtr() == type.getTypePtr()) return false;
    type = inner;
  }
}

bool is_meant_volatile(const NamedDecl& field) {
  for (const auto* a : field.specific_attrs<AnnotateAttr>()) {
    if (a->getAnnotation() == "nvm_volatile_ptr") return true;
  }
  return false;
}

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
  const auto* record = type->getAsCXXRecordDecl();
  const auto* s = dyn_cast_or_null<ClassTemplateSpecializationDecl>(record);
  if (s == nullptr || s->getName() != "p" || s->getTemplateArgs().size() != 1) return {};
  const auto* space = dyn_cast<NamespaceDecl>(s->getDeclContext());
  if (space == nullptr || space->getName() != "nvm" || !space->getParent()->isTranslationUnit()) return {};
  const TemplateArgument& t = s->getTemplateArgs()[0];
  return t.getKind() == TemplateArgument::Type ? t.getAsType() : QualType{};
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

bool describe_type(const ASTContext& context, QualType type, object::type_description& out,
                   const std::function<void(const layout_finding&)>& tell) {
  out.name = canonical_name(context, type);
  out.size = static_cast<std::uint64_t>(context.getTypeSizeInChars(type).getQuantity());
  out.align = static_cast<std::uint32_t>(context.getTypeAlignInChars(type).getQuantity());
  describer d{context, out, tell};
  if (const RecordDecl* r = type->getAsRecordDecl(); r != nullptr && !r->isUnion()) {
    d.record(*r, 0, "", 0, true);
  } else {
    d.element(type);
  }
  return d.good();
}

}  // namespace nvm::compiler
