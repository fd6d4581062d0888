#include "reset_field.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/Basic/SourceManager.h>

#include "record_layout.hpp"

using namespace clang;

namespace nvm::compiler {
namespace {

const FieldDecl* last_of(const RecordDecl& record) {
  const FieldDecl* last = nullptr;
  for (const FieldDecl* f : record.fields()) last = f;
  return last;
}

// Arrays of GNU C that have no elements are a name for a place, but for one at the end.
bool has_no_bytes(const FieldDecl& field) {
  QualType type = field.getType();
  bool may_be_empty = last_of(*field.getParent()) == &field;
  for (const auto* a = type->getAsArrayTypeUnsafe(); a != nullptr; a = type->getAsArrayTypeUnsafe()) {
    const auto* const constant = dyn_cast<ConstantArrayType>(a);
    if (constant != nullptr && constant->getSize() == 0 && !may_be_empty) return true;
    may_be_empty = false;
    type = a->getElementType();
  }
  return !type->isIncompleteType() && field.getASTContext().getTypeSizeInChars(type).isZero();
}

}  // namespace

const char* why_never_reset(const FieldDecl& field) {
  if (!is_reset(field) || field.getType()->isDependentType()) return nullptr;
  const RecordDecl* of = field.getParent();
  while (of->isAnonymousStructOrUnion() && !of->isUnion()) of = cast<RecordDecl>(of->getDeclContext());
  QualType type = field.getType();
  while (const auto* array = type->getAsArrayTypeUnsafe()) type = array->getElementType();
  if (of->isUnion()) return "in a union, whose bytes are other fields' as well";
  if (!is_durable(*of)) return "in a structure that is not NVM_STRUCT: no pool knows of it";
  if (field.isBitField()) return "a bit-field, which shares its bytes";
  if (type->isReferenceType()) return "a reference, which is never zero";
  if (type->isMemberPointerType()) return "a pointer to a member, whose null is not zero";
  if (!announced_type(type).isNull()) return "of a type that logs its own changes";
  const auto* const plus = type->getAsCXXRecordDecl();
  if (field.hasAttr<NoUniqueAddressAttr>()) return "no_unique_address: its bytes may be other fields' as well";
  if (has_no_bytes(field)) return "of no bytes";
  const bool dynamic = plus != nullptr && plus->hasDefinition() && plus->isDynamicClass();
  return dynamic ? "of a type with virtual functions" : nullptr;
}

bool is_unlogged(const NamedDecl& field) {
  const auto* const f = dyn_cast<FieldDecl>(&field);
  return is_reset(field) || (is_stale_ok(field) && (f == nullptr || !f->isBitField()));
}

QualType kept_in(const RecordDecl& record) {
  const auto* const s = dyn_cast<ClassTemplateSpecializationDecl>(&record);
  if (s == nullptr || (s->getName() != "__aligned_membuf" && s->getName() != "__aligned_buffer")) return {};
  const TemplateArgument& kept = s->getTemplateArgs()[0];
  return kept.getKind() == TemplateArgument::Type ? kept.getAsType() : QualType{};
}

bool has_reset_field(QualType type) {
  while (const auto* array = type->getAsArrayTypeUnsafe()) type = array->getElementType();
  if (const auto* atomic = type->getAs<AtomicType>()) return has_reset_field(atomic->getValueType());
  const RecordDecl* const r = type->getAsRecordDecl();
  if (r == nullptr || r->getDefinition() == nullptr) return false;
  if (const QualType kept = kept_in(*r); !kept.isNull() && has_reset_field(kept)) return true;
  if (const auto* plus = dyn_cast<CXXRecordDecl>(r->getDefinition());
      plus != nullptr && llvm::any_of(plus->bases(), [](const auto& b) { return has_reset_field(b.getType()); })) {
    return true;
  }
  return llvm::any_of(r->getDefinition()->fields(),
                      [](const FieldDecl* f) { return is_reset(*f) || has_reset_field(f->getType()); });
}

bool is_stored_unlogged(const NamedDecl* array, QualType element) {
  const auto* const f = dyn_cast_or_null<FieldDecl>(array);
  return has_reset_field(element) || (f != nullptr && is_unlogged(*f) && last_of(*f->getParent()) == f);
}

const FieldDecl* array_of_one_at_end(const RecordDecl& record) {
  const auto within = [](QualType type) -> const FieldDecl* {
    const RecordDecl* const r = type->getAsRecordDecl();
    if (r == nullptr || r->getDefinition() == nullptr) return nullptr;
    const bool of_library = r->getASTContext().getSourceManager().isInSystemHeader(r->getLocation());
    return of_library ? nullptr : array_of_one_at_end(*r->getDefinition());
  };
  const auto at_end = [&](const FieldDecl* f) {
    const auto* const array = dyn_cast_or_null<ConstantArrayType>(f->getType()->getAsArrayTypeUnsafe());
    return array != nullptr && array->getSize() == 1 ? f : within(f->getType());
  };
  if (record.isUnion()) {
    for (const FieldDecl* f : record.fields()) {
      if (const FieldDecl* const found = at_end(f)) return found;
    }
    return nullptr;
  }
  if (const FieldDecl* const last = last_of(record)) return at_end(last);
  const auto* const plus = dyn_cast<CXXRecordDecl>(&record);
  const CXXBaseSpecifier* base = nullptr;
  if (plus != nullptr) {
    for (const CXXBaseSpecifier& b : plus->bases()) {
      const CXXRecordDecl* const r = b.getType()->getAsCXXRecordDecl();
      if (r != nullptr && !r->isEmpty()) base = &b;
    }
  }
  return base == nullptr ? nullptr : within(base->getType());
}

}  // namespace nvm::compiler
