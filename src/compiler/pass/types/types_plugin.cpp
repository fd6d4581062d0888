// The half of the type maps that works on the source (Breeze, section III-A): a plugin of Clang's front end.
//
// It looks at every NVM_STRUCT and NVM_PTR of a translation unit, at every NVM_TYPE_ID, and at the assignments to
// fields of durable structures; it refuses types that cannot be durable, and warns of values that would not survive.
// The layouts become a type map (object/type_map_layout.hpp), a constant in a section of the object file;
// types_pass.cpp does the rest.
//
// Arguments (-fplugin-arg-nvm-...): dump prints the layouts; W[no-]nvm, W[no-]nvm-<group>, Werror=nvm-<group> and
// Wno-error=nvm-<group> are what their names say.
#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendPluginRegistry.h>
#include <clang/Lex/Preprocessor.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/Support/raw_ostream.h>

#include <array>
#include <optional>
#include <set>

#include "compiler/pass/front/warnings.hpp"
#include "record_layout.hpp"
#include "reset_field.hpp"
#include "types_pass.hpp"
#include "volatile_values.hpp"

using namespace clang;
using llvm::StringRef;

namespace nvm::compiler {
namespace {

// The type of an NVM_TYPE_ID, named in some place of the source.
struct named_id {
  std::string text;
  SourceLocation where;
  const DeclContext* context;
};

class unit_reader : public RecursiveASTVisitor<unit_reader> {
  using base = RecursiveASTVisitor<unit_reader>;

 public:
  unit_reader(CompilerInstance& ci, bool dumps) : ci_{ci}, c_{ci.getASTContext()}, dumps_{dumps} {}

  bool shouldVisitTemplateInstantiations() const { return true; }
  bool shouldVisitImplicitCode() const { return false; }

  bool TraverseDecl(Decl* d) {
    if (d == nullptr) return true;
    // Functions of the system's headers are skipped: they are not the program's, and many.
    if (isa<FunctionDecl>(d) && c_.getSourceManager().isInSystemHeader(d->getLocation())) return true;
    const auto* context = dyn_cast<DeclContext>(d);
    if (context == nullptr) return base::TraverseDecl(d);
    const DeclContext* before = std::exchange(context_, context);
    const bool go_on = base::TraverseDecl(d);
    context_ = before;
    return go_on;
  }

  bool VisitTypedefNameDecl(TypedefNameDecl* d) {
    by_name_[d->getName()].push_back(d);
    return true;
  }
  bool VisitRecordDecl(RecordDecl* d) {
    if (is_reset(*d)) error(d->getLocation(), "NVM_RESET says nothing of a type: it stands after the name of a field");
    if (d->getIdentifier() != nullptr && d->isThisDeclarationADefinition()) by_name_[d->getName()].push_back(d);
    if (!d->isCompleteDefinition() || !d->isThisDeclarationADefinition() || d->isDependentType() ||
        d->isInvalidDecl() || !is_durable(*d)) {
      return true;
    }
    durable_.push_back(d);
    if (const FieldDecl* f = array_of_one_at_end(*d); f != nullptr && has_reset_field(c_.getRecordType(d))) {
      error(f->getLocation(),
            "%0 is an array of one element at the end of %1, which has a field that is NVM_RESET: "
            "what follows such an object may be taken for more of them; write %0[]")
          << f << c_.getRecordType(d);
    }
    return true;
  }

  bool VisitFieldDecl(FieldDecl* d) {
    if (const char* why = why_never_reset(*d)) {
      error(d->getLocation(), std::string{"%0 is NVM_RESET and "} + why) << d;
    }
    return check_stale(d);
  }
  // NVM_STALE_OK: only for fields whose old value is whole after a crash, and without pointers.
  bool check_stale(FieldDecl* d) {
    if (!is_stale_ok(*d) || d->getType()->isDependentType()) return true;
    QualType type = d->getType();
    while (const auto* array = type->getAsArrayTypeUnsafe()) type = array->getElementType();
    const RecordDecl* const of = d->getParent();
    if (!type->isArithmeticType() && !type->isEnumeralType()) {
      error(d->getLocation(), "%0 is NVM_STALE_OK and a %1: only numbers and enumerations may be stale") << d << type;
    } else if (of->hasAttr<PackedAttr>() || d->hasAttr<PackedAttr>()) {
      error(d->getLocation(), "%0 is NVM_STALE_OK and packed: a crash could tear it") << d;
    }
    return true;
  }

  // NVM_PTR, wherever it is written.
  bool VisitAttributedTypeLoc(AttributedTypeLoc l) {
    const auto* note = dyn_cast_or_null<AnnotateTypeAttr>(l.getAttr());
    if (note == nullptr || note->getAnnotation() != "nvm_ptr") return true;
    const QualType pointer = l.getType();
    if (!pointer->isPointerType() || pointer->isDependentType()) return true;
    check_target(pointer->getPointeeType(), l.getBeginLoc());
    return true;
  }

  bool VisitPointerTypeLoc(PointerTypeLoc l) {
    const auto tag = l.getPointeeLoc().getAsAdjusted<BTFTagAttributedTypeLoc>();
    if (!tag.isNull() && tag.getAttr() != nullptr && mark_of(*tag.getAttr()) != pointer_mark::none) {
      check_target(tag.getWrappedLoc().getType(), l.getBeginLoc());
    }
    return true;
  }

  // NVM_TYPE_ID in C, and in C++.
  bool VisitChooseExpr(ChooseExpr* e) {
    if (const StringRef t = text_of_id(e); !t.empty()) named_.push_back({t.str(), e->getBeginLoc(), context_});
    return true;
  }
  bool VisitCallExpr(CallExpr* e) {
    const FunctionDecl* f = e->getDirectCallee();
    if (f == nullptr || f->getIdentifier() == nullptr) return true;
    if (f->getName() == "nvm_type_id_of_name") {
      if (const StringRef t = text_of_id(e); !t.empty()) named_.push_back({t.str(), e->getBeginLoc(), context_});
    } else if (f->getName() == "nvm_register_visitor" && e->getNumArgs() == 2) {
      const StringRef t = text_of_id(e->getArg(0)->IgnoreImpCasts());
      if (!t.empty()) visits_.push_back({t.str(), e->getBeginLoc(), context_});
    } else if (f->getName() == "nvm_pool_set_root" && e->getNumArgs() == 2) {
      const StringRef target = values_.target_of(e->getArg(1));
      if (!target.empty()) {
        warn(warning_group::volatile_pointer, e->getArg(1)->getBeginLoc(),
             "the root of a pool becomes the address of %0: it means nothing to the next process")
            << target << e->getArg(1)->getSourceRange();
      }
    }
    return true;
  }

  bool VisitFunctionDecl(FunctionDecl* f) {
    if (f->doesThisDeclarationHaveABody() && f->getBody() != nullptr && !f->isDependentContext()) values_.enter(*f);
    return true;
  }
  bool VisitBinaryOperator(BinaryOperator* e) {
    if (e->getOpcode() != BO_Assign || e->isTypeDependent() || e->isValueDependent()) return true;
    assignment(e->getLHS()->IgnoreParens(), e->getRHS());
    return true;
  }
  // Of structures in C++.
  bool VisitCXXOperatorCallExpr(CXXOperatorCallExpr* e) {
    if (e->getOperator() != OO_Equal || e->getNumArgs() != 2 || e->isTypeDependent()) return true;
    assignment(e->getArg(0)->IgnoreParens(), e->getArg(1));
    return true;
  }
  // new (place) T{...}: where nvm_alloc() gave the place.
  bool VisitCXXNewExpr(CXXNewExpr* e) {
    if (e->getNumPlacementArgs() == 0 || e->getInitializer() == nullptr || e->isTypeDependent()) return true;
    if (!values_.target_of(e->getPlacementArg(0)).empty()) return true;
    if (const auto* list = braces_of(e->getInitializer())) initialised(list);
    return true;
  }

  bool VisitEnumConstantDecl(EnumConstantDecl* d) {
    enumerators_[d->getName()].push_back(d);
    return true;
  }

  void finish() {
    facts_.enumerator = [&](llvm::ArrayRef<StringRef> path) { return enumerator(path); };
    for (const named_id& n : visits_) {
      const QualType type = parse(n.text, n);
      const RecordDecl* r = type.isNull() ? nullptr : type->getAsRecordDecl();
      if (r == nullptr) continue;
      facts_.visited.try_emplace(r->getCanonicalDecl(), layout::type_id_of(n.text.c_str()));
    }
    for (const RecordDecl* d : durable_) add_layout(c_.getRecordType(d), d->getLocation());
    for (const named_id& n : named_) resolve(n);
    if (c_.getDiagnostics().hasErrorOccurred() || writer_.empty()) return;
    writer_.drop_loose_aliases();
    if (dumps_) dump();
    leave_for_the_pass();
  }

 private:
  // ---- diagnostics ----

  DiagnosticBuilder error(SourceLocation at, const std::string& text) { return report(DiagnosticIDs::Error, at, text); }
  DiagnosticBuilder note(SourceLocation at, const std::string& text) { return report(DiagnosticIDs::Note, at, text); }
  DiagnosticBuilder warn(warning_group g, SourceLocation at, const std::string& text) {
    return compiler::warn(c_, g, at, text);
  }
  DiagnosticBuilder report(DiagnosticIDs::Level level, SourceLocation at, const std::string& text) {
    DiagnosticsEngine& d = c_.getDiagnostics();
    return d.Report(at, d.getDiagnosticIDs()->getCustomDiagID(level, text));
  }

  // ---- pointers ----

  void check_target(QualType to, SourceLocation at) {
    if (!checked_.insert(at).second) return;
    if (to->isVoidType() || is_scalar_data(to) || !announced_type(to).isNull()) return;
    while (const auto* array = to->getAsArrayTypeUnsafe()) to = array->getElementType();
    if (to->isPointerType()) {
      if (mark_of(to) != pointer_mark::none) return;
      warn(warning_group::plain_pointer, at,
           "NVM_PTR to plain pointers (%0), which may point outside of the pool; write NVM_PTR(NVM_PTR(...))")
          << to;
      return;
    }
    const RecordDecl* r = to->getAsRecordDecl();
    if (r != nullptr && is_durable(*r)) return;
    error(at, "NVM_PTR to %0, which is not NVM_STRUCT") << to.getUnqualifiedType();
    if (r != nullptr) note(r->getLocation(), "%0 is declared here") << c_.getRecordType(r);
  }

  // A pointer field of a durable structure, or an element of one that is an array; null: none.
  static const FieldDecl* durable_field(const Expr* lvalue) {
    const Expr* e = lvalue->IgnoreParenImpCasts();
    while (const auto* element = dyn_cast<ArraySubscriptExpr>(e)) e = element->getBase()->IgnoreParenImpCasts();
    for (const auto* m = dyn_cast<MemberExpr>(e); m != nullptr;
         m = dyn_cast<MemberExpr>(m->getBase()->IgnoreParens())) {
      const auto* f = dyn_cast<FieldDecl>(m->getMemberDecl());
      if (f == nullptr) return nullptr;
      if (is_durable(*f->getParent())) return dyn_cast<FieldDecl>(cast<MemberExpr>(e)->getMemberDecl());
      if (m->isArrow()) return nullptr;
    }
    return nullptr;
  }

  static QualType element_of(QualType t) {
    while (const auto* array = t->getAsArrayTypeUnsafe()) t = array->getElementType();
    return t;
  }

  void assignment(const Expr* to, const Expr* value) {
    if (to->getType()->isPointerType()) {
      assigned(to, value);
    } else if (const auto* list = braces_of(value); list != nullptr && !values_.lies_outside(to)) {
      initialised(list);
    }
  }
  void assigned(const Expr* to, const Expr* value) {
    const FieldDecl* f = durable_field(to);
    if (f == nullptr || values_.lies_outside(to)) return;
    receives(*f, value);
  }
  void receives(const FieldDecl& f, const Expr* value) {
    const QualType element = element_of(f.getType());
    if (!element->isPointerType() || is_meant_volatile(f) || is_static(f) || is_reset(f)) return;
    const StringRef target = values_.target_of(value);
    if (target.empty()) return;
    warn(warning_group::volatile_pointer, value->getBeginLoc(),
         "%0 of durable %1 receives the address of %2: it means nothing to the next process")
        << &f << c_.getRecordType(f.getParent()) << target << value->getSourceRange();
  }

  static const InitListExpr* braces_of(const Expr* e) {
    e = e->IgnoreUnlessSpelledInSource();
    if (const auto* c = dyn_cast<CXXFunctionalCastExpr>(e)) e = c->getSubExpr()->IgnoreUnlessSpelledInSource();
    if (const auto* l = dyn_cast<CompoundLiteralExpr>(e)) e = l->getInitializer()->IgnoreParenImpCasts();
    const auto* list = dyn_cast<InitListExpr>(e);
    return list != nullptr && list->isSyntacticForm() && list->getSemanticForm() != nullptr ? list->getSemanticForm()
                                                                                            : list;
  }
  void initialised(const InitListExpr* list) {
    const RecordDecl* r = list->getType()->getAsRecordDecl();
    if (r == nullptr || r->isUnion() || !is_durable(*r)) return;
    unsigned i = 0;
    if (const auto* plus = dyn_cast<CXXRecordDecl>(r)) i = plus->getNumBases();
    for (const FieldDecl* f : r->fields()) {
      if (f->isUnnamedBitField()) continue;
      if (i >= list->getNumInits()) return;
      const Expr* value = list->getInit(i++);
      if (const auto* inner = dyn_cast<InitListExpr>(value)) {
        for (const Expr* e : inner->inits()) {
          if (e->getType()->isPointerType()) receives(*f, e);
        }
      } else if (value->getType()->isPointerType()) {
        receives(*f, value);
      }
    }
  }

  // ---- layouts ----

  // The text of an NVM_TYPE_ID in C, or in C++; empty: it is none.
  static StringRef text_of_id(const Expr* e) {
    if (const auto* choose = dyn_cast<ChooseExpr>(e)) {
      const auto* size = dyn_cast<UnaryExprOrTypeTraitExpr>(choose->getRHS()->IgnoreParenCasts());
      if (size == nullptr || size->getKind() != UETT_SizeOf || size->isArgumentType()) return {};
      const auto* text = dyn_cast<StringLiteral>(size->getArgumentExpr()->IgnoreParens());
      if (text == nullptr || text->getCharByteWidth() != 1) return {};
      StringRef t = text->getString();
      return t.consume_front("nvm_type_id:") ? t : StringRef{};
    }
    const auto* call = dyn_cast<CallExpr>(e);
    if (call == nullptr || call->getNumArgs() != 1) return {};
    const auto* text = dyn_cast<StringLiteral>(call->getArg(0)->IgnoreParenImpCasts());
    return text == nullptr ? StringRef{} : text->getString();
  }

  // The value of an enumerator: the last part of its name is unique, or the parts before it are those around it.
  std::optional<std::int64_t> enumerator(llvm::ArrayRef<StringRef> path) const {
    const auto found = enumerators_.find(path.back());
    if (found == enumerators_.end()) return std::nullopt;
    for (const EnumConstantDecl* d : found->second) {
      const DeclContext* around = d->getDeclContext();
      bool fits = true;
      for (std::size_t i = path.size() - 1; fits && i-- > 0;) {
        // An enumerator of C++ may be named without its enumeration.
        const auto* named = dyn_cast<NamedDecl>(around);
        if (named != nullptr && isa<EnumDecl>(named) && named->getName() != path[i]) {
          around = around->getParent();
          named = dyn_cast<NamedDecl>(around);
        }
        fits = named != nullptr && named->getDeclName().isIdentifier() && named->getName() == path[i];
        if (fits) around = around->getParent();
      }
      if (fits) return d->getInitVal().getExtValue();
    }
    return std::nullopt;
  }

  void found(const layout_finding& f, QualType type, SourceLocation at) {
    using problem = layout_finding::problem;
    const SourceLocation where = f.where == nullptr ? at : f.where->getLocation();
    const std::string in = "'" + f.name + "' of durable %0 ";
    switch (f.what) {
      case problem::pointer_union:
        error(where, in + "is a union with a pointer: say with NVM_UNION_TAG or NVM_VISIT when it is one") << type;
        break;
      case problem::union_tag:
        error(where, in + "has an NVM_UNION_TAG that says nothing: " + f.type) << type;
        break;
      case problem::reset_in_union:
        error(where, in + "is a union, or of a library's type, with a field that is NVM_RESET: no type map can name it")
            << type;
        break;
      case problem::dynamic_class:
        error(at, "durable %0 has virtual functions or bases, whose tables lie elsewhere in the next process") << type;
        break;
      case problem::inner_flexible:
        error(where, in + "is a flexible array that is not the last field") << type;
        break;
      case problem::too_deep:
        error(where, in + "lies in too many arrays of structures: at most 7 inside each other") << type;
        break;
      case problem::library_type:
        library_type(f, type, where);
        break;
      case problem::plain_pointer:
        once(where,
             in + "is a plain pointer, which may point outside of the pool; declare it NVM_PTR, or "
                  "NVM_VOLATILE_PTR if that is meant",
             type);
        break;
      case problem::plain_reference:
        once(where, in + "is a reference, which may refer to something outside of the pool", type);
        break;
      case problem::code_pointer:
        once(where,
             in + "is a pointer to a function, which lies elsewhere in the next process; declare it NVM_STATIC_PTR",
             type);
        break;
      case problem::member_pointer:
        once(where, in + "is a pointer to a member, which another build may represent differently", type);
        break;
    }
  }
  void library_type(const layout_finding& f, QualType type, SourceLocation where) {
    if (!told_types_.insert({where, f.type}).second) return;
    StringRef name = f.name;
    const bool base = name.consume_back("(base)");
    name.consume_back(".");
    const std::string what = !base ? "'" + f.name + "'" : name.empty() ? "a base" : "a base of '" + name.str() + "'";
    const std::string memory = "whose memory is not the pool's: ";
    const std::string why = f.pointer == "(virtual functions)"
                                ? memory + "it has virtual functions, whose table lies elsewhere"
                            : f.pointer == "(a lock)"   ? "a lock, which after a crash may be held for ever"
                            : f.pointer == "(a handle)" ? "which the next process does not know"
                                                        : memory + "it has the plain pointer '" + f.pointer + "'";
    warn(warning_group::library_type, where, "%0 of durable %1 is a %2, %3") << what << type << f.type << why;
  }
  // A structure inside several others is reported once.
  void once(SourceLocation at, const std::string& text, QualType type) {
    if (told_.insert(at).second) warn(warning_group::plain_pointer, at, text) << type;
  }

  void add_layout(QualType type, SourceLocation at) {
    if (type->isIncompleteType() || c_.getTypeSizeInChars(type).isZero()) return;
    object::type_description d;
    if (!describe_type(c_, type, facts_, d, [&](const layout_finding& f) { found(f, type, at); })) return;
    const std::uint32_t id = layout::type_id_of(d.name.c_str());
    if (writer_.add(d)) {
      announce(id, d.name, at);
      return;
    }
    collision(id, d.name, at);
  }

  void announce(std::uint32_t id, const std::string& name, SourceLocation at) { owners_.try_emplace(id, name, at); }
  void collision(std::uint32_t id, const std::string& name, SourceLocation at) {
    error(at, "type id %0 of '%1' belongs to another type already; one of them needs another name")
        << ("0x" + llvm::utohexstr(id, true)) << name;
    const auto owner = owners_.find(id);
    if (owner != owners_.end()) note(owner->second.second, "it is the id of '%0'") << owner->second.first;
  }

  // ---- NVM_TYPE_ID ----

  void resolve(const named_id& n) {
    if (!resolved_.insert({n.text, n.context}).second) return;
    const QualType type = parse(n.text, n);
    if (type.isNull() || type->isDependentType() || type->isFunctionType()) return;
    const RecordDecl* r = type->getAsRecordDecl();
    if (r != nullptr && !is_durable(*r)) {
      if (facts_.visited.contains(r->getCanonicalDecl())) return;
      warn(warning_group::type_id, n.where,
           "NVM_TYPE_ID of %0, which is not NVM_STRUCT: the pool will not know its layout")
          << type;
      return;
    }
    const std::string name = canonical_name(c_, type);
    const std::uint32_t canonical = layout::type_id_of(name.c_str());
    if (r == nullptr) add_layout(type, n.where);
    if (writer_.find(canonical) == nullptr) return;  // incomplete, or of no bytes
    const std::uint32_t id = layout::type_id_of(n.text.c_str());
    if (id == canonical && n.text == name) return;
    if (id != canonical && writer_.add_alias(n.text, canonical)) {
      announce(id, n.text, n.where);
    } else {
      collision(id, n.text, n.where);
    }
  }

  // The type that a text means at its place in the source; null: none that we know.
  QualType parse(StringRef text, const named_id& n) {
    text = text.trim();
    if (text.ends_with("*")) return pointer_to(parse(text.drop_back(), n));
    if (text.ends_with(")")) {
      for (StringRef macro : {"NVM_PTR(", "NVM_VOLATILE_PTR("}) {
        StringRef inside = text.drop_back();
        if (inside.consume_front(macro)) return pointer_to(parse(inside, n));
      }
      return {};
    }
    bool tag = false;
    for (bool more = true; more;) {
      more = false;
      for (StringRef word : {"const", "volatile", "struct", "class", "union", "enum"}) {
        StringRef rest = text;
        if (!rest.consume_front(word) || !rest.starts_with(" ")) continue;
        text = rest.ltrim();
        tag = tag || word == "struct" || word == "class" || word == "union";
        more = true;
      }
    }
    if (const QualType built_in = built_in_type(text); !built_in.isNull()) return built_in;
    if (text.contains('<')) {
      for (const RecordDecl* d : durable_) {
        if (without_spaces(canonical_name(c_, c_.getRecordType(d))) == without_spaces(text)) return c_.getRecordType(d);
      }
      return {};
    }
    return look_up(text, tag, n);
  }

  QualType pointer_to(QualType t) { return t.isNull() ? t : c_.getPointerType(t); }

  static std::string without_spaces(StringRef t) {
    std::string s;
    for (const char c : t) {
      if (c != ' ') s += c;
    }
    return s;
  }

  // The innermost declaration around the place that has this name.
  QualType look_up(StringRef text, bool tag, const named_id& n) {
    text.consume_front("::");
    SmallVector<StringRef, 4> parts;
    text.split(parts, "::");
    const auto candidates = by_name_.find(parts.back().trim());
    if (candidates == by_name_.end()) return {};
    const TypeDecl* best = nullptr;
    unsigned best_depth = 0;
    SmallVector<const TypeDecl*, 4> all;
    for (const TypeDecl* d : candidates->second) {
      if (tag && !isa<TagDecl>(d)) continue;
      // In C a tag alone is no type, unless there is nothing else of that name: the text counts.
      const DeclContext* scope = d->getDeclContext()->getRedeclContext();
      bool fits = true;
      for (std::size_t i = parts.size() - 1; fits && i-- > 0;) {
        const auto* named = dyn_cast<NamedDecl>(scope);
        fits = named != nullptr && named->getDeclName().isIdentifier() && named->getName() == parts[i].trim();
        if (fits) scope = scope->getParent()->getRedeclContext();
      }
      if (!fits) continue;
      all.push_back(d);
      unsigned depth = 1;
      for (const DeclContext* up = scope; up != nullptr; up = up->getParent()) ++depth;
      if (!encloses(scope, n.context) || depth <= best_depth) continue;
      best = d;
      best_depth = depth;
    }
    if (best == nullptr && all.size() == 1) best = all.front();
    return best == nullptr ? QualType{} : c_.getTypeDeclType(best);
  }
  static bool encloses(const DeclContext* scope, const DeclContext* inner) {
    for (; inner != nullptr; inner = inner->getParent()) {
      if (inner->getRedeclContext()->getPrimaryContext() == scope->getPrimaryContext()) return true;
    }
    return scope->isTranslationUnit();
  }

  // By the words, in any order that C allows.
  QualType built_in_type(StringRef text) {
    SmallVector<StringRef, 4> words;
    text.split(words, ' ', -1, false);
    unsigned longs = 0;
    bool is_unsigned = false, is_signed = false, is_short = false, is_char = false, is_int = false;
    QualType other;
    for (const StringRef w : words) {
      if (w == "long") {
        ++longs;
      } else if (w == "unsigned") {
        is_unsigned = true;
      } else if (w == "signed") {
        is_signed = true;
      } else if (w == "short") {
        is_short = true;
      } else if (w == "char") {
        is_char = true;
      } else if (w == "int") {
        is_int = true;
      } else if (w == "float") {
        other = c_.FloatTy;
      } else if (w == "double") {
        other = c_.DoubleTy;
      } else if (w == "bool" || w == "_Bool") {
        other = c_.BoolTy;
      } else {
        return {};
      }
    }
    if (words.empty()) return {};
    if (!other.isNull()) return longs == 1 && other == c_.DoubleTy ? QualType{c_.LongDoubleTy} : other;
    if (is_char) return is_unsigned ? c_.UnsignedCharTy : is_signed ? c_.SignedCharTy : c_.CharTy;
    if (is_short) return is_unsigned ? c_.UnsignedShortTy : c_.ShortTy;
    if (longs == 1) return is_unsigned ? c_.UnsignedLongTy : c_.LongTy;
    if (longs == 2) return is_unsigned ? c_.UnsignedLongLongTy : c_.LongLongTy;
    (void)is_int;
    return is_unsigned ? c_.UnsignedIntTy : c_.IntTy;
  }

  // ---- what is left behind ----

  void dump() const {
    const auto words = writer_.finish();
    const auto* bytes = reinterpret_cast<const char*>(words.data());
    const std::size_t all = words.size() * 8;
    for (std::size_t at = sizeof(layout::type_map_header); at < all;) {
      const auto* r = reinterpret_cast<const layout::type_record*>(bytes + at);
      const auto* name = bytes + at + r->name;
      llvm::outs() << name << ": id 0x" << llvm::utohexstr(r->id, true);
      if (r->canonical != r->id) {
        llvm::outs() << ", another name of 0x" << llvm::utohexstr(r->canonical, true) << "\n";
      } else {
        llvm::outs() << ", " << r->size << " bytes, aligned to " << r->align << "\n";
        const auto* fields = reinterpret_cast<const layout::type_field*>(r + 1);
        for (std::uint32_t i = 0; i < r->fields; ++i) dump(fields[i], bytes + at);
      }
      at += r->bytes;
    }
    llvm::outs().flush();
  }
  static void dump(const layout::type_field& f, const char* record) {
    static constexpr std::array<const char*, layout::field_kind_last + 1> kinds = {
        "?",     "signed",    "unsigned",     "bool",           "char",       "float", "pointer", "plain pointer",
        "bytes", "structure", "weak pointer", "static pointer", "by visitor", "union", "reset"};
    llvm::outs() << "  " << f.offset << ": " << record + f.name << ": ";
    if (f.count != 1) llvm::outs() << f.count << " x ";
    llvm::outs() << kinds[static_cast<std::uint32_t>(f.kind)] << " of " << f.element_bytes;
    if (layout::is_pointer(f.kind) && f.target != 0) llvm::outs() << " to 0x" << llvm::utohexstr(f.target, true);
    if (f.kind == layout::field_kind::by_visitor) llvm::outs() << " of 0x" << llvm::utohexstr(f.target, true);
    if (f.kind == layout::field_kind::tagged_union) llvm::outs() << " by (" << record + f.target << ")";
    if (f.inner != 0) llvm::outs() << " with " << f.inner;
    llvm::outs() << "\n";
  }

  // static const char nvm_types[] __attribute__((section, used, aligned(8))) = "<the map>";
  void leave_for_the_pass() {
    const auto words = writer_.finish();
    const StringRef bytes{reinterpret_cast<const char*>(words.data()), words.size() * 8};
    const QualType type = c_.getStringLiteralArrayType(c_.CharTy.withConst(), static_cast<unsigned>(bytes.size()));
    TranslationUnitDecl* unit = c_.getTranslationUnitDecl();
    auto* v = VarDecl::Create(c_, unit, {}, {}, &c_.Idents.get("nvm_types"), type, c_.getTrivialTypeSourceInfo(type),
                              SC_Static);
    v->setInit(StringLiteral::Create(c_, bytes, StringLiteralKind::Ordinary, false, type, SourceLocation{}));
    v->addAttr(UsedAttr::CreateImplicit(c_));
    v->addAttr(SectionAttr::CreateImplicit(c_, types_section));
    Expr* eight = IntegerLiteral::Create(c_, llvm::APInt(32, 8), c_.IntTy, {});
    eight = ConstantExpr::Create(c_, eight, APValue{llvm::APSInt{llvm::APInt(32, 8)}});
    v->addAttr(AlignedAttr::CreateImplicit(c_, true, eight));
    v->setIsUsed();
    ci_.getASTConsumer().HandleTopLevelDecl(DeclGroupRef{v});
  }

  CompilerInstance& ci_;
  ASTContext& c_;
  const bool dumps_;
  const DeclContext* context_ = nullptr;
  volatile_values values_;
  std::vector<const RecordDecl*> durable_;
  std::vector<named_id> named_;
  std::vector<named_id> visits_;
  unit_facts facts_;
  llvm::StringMap<SmallVector<const EnumConstantDecl*, 1>> enumerators_;
  llvm::StringMap<SmallVector<const TypeDecl*, 2>> by_name_;
  std::set<std::pair<std::string, const DeclContext*>> resolved_;
  std::map<std::uint32_t, std::pair<std::string, SourceLocation>> owners_;
  std::set<SourceLocation> checked_;
  std::set<SourceLocation> told_;
  std::set<std::pair<SourceLocation, std::string>> told_types_;
  object::type_map_writer writer_;
};

class types_consumer : public ASTConsumer {
 public:
  types_consumer(CompilerInstance& ci, bool dumps) : ci_{ci}, dumps_{dumps} {}
  void HandleTranslationUnit(ASTContext& c) override {
    if (c.getDiagnostics().hasErrorOccurred()) return;
    // Nearly all files of nearly all programs have nothing durable: no attribute of this name in them, nor in what they
    // were precompiled with.
    if (c.getExternalSource() == nullptr && c.Idents.find("annotate") == c.Idents.end() &&
        c.Idents.find("nvm_type_id_of_name") == c.Idents.end() && c.Idents.find("annotate_type") == c.Idents.end()) {
      return;
    }
    unit_reader reader{ci_, dumps_};
    reader.TraverseDecl(c.getTranslationUnitDecl());
    reader.finish();
  }

 private:
  CompilerInstance& ci_;
  bool dumps_ = false;
};

class types_action : public PluginASTAction {
 protected:
  std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance& ci, StringRef) override {
    return std::make_unique<types_consumer>(ci, dumps_);
  }
  bool ParseArgs(const CompilerInstance& ci, const std::vector<std::string>& arguments) override {
    for (const std::string& a : arguments) {
      if (a == "dump") {
        dumps_ = true;
        continue;
      }
      if (levels_of_front().take(a)) continue;
      DiagnosticsEngine& d = ci.getDiagnostics();
      d.Report(d.getCustomDiagID(DiagnosticsEngine::Error, "unknown argument '%0' of the plugin nvm")) << a;
      return false;
    }
    return true;
  }
  // Its findings are errors before code is generated, and the code needs the constant that it leaves.
  ActionType getActionType() override { return AddBeforeMainAction; }

 private:
  bool dumps_ = false;
};

const FrontendPluginRegistry::Add<types_action> registered_types{"nvm", "layouts of durable types"};

}  // namespace
}  // namespace nvm::compiler
