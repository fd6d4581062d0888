#include "volatile_values.hpp"

#include <clang/AST/ASTContext.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <llvm/ADT/StringSwitch.h>

using namespace clang;
using llvm::StringRef;

namespace nvm::compiler {
namespace {

// Strips operations that change neither the value nor its target.
const Expr* strip(const Expr* e) {
  for (;;) {
    e = e->IgnoreParens();
    if (const auto* c = dyn_cast<CastExpr>(e)) {
      if (c->getCastKind() == CK_LValueToRValue) return e;
      // An integer may have come from anywhere.
      if (!c->getType()->isPointerType() || c->getCastKind() == CK_IntegralToPointer) return e;
      e = c->getSubExpr();
    } else if (const auto* b = dyn_cast<BinaryOperator>(e); b != nullptr && b->getOpcode() == BO_Comma) {
      e = b->getRHS();
    } else {
      return e;
    }
  }
}

bool allocates(StringRef name) {
  return llvm::StringSwitch<bool>(name)
      .Cases("malloc", "calloc", "realloc", "reallocarray", true)
      .Cases("strdup", "strndup", "wcsdup", true)
      .Cases("aligned_alloc", "memalign", "valloc", "pvalloc", true)
      .Cases("alloca", "__builtin_alloca", "__builtin_malloc", "__builtin_calloc", true)
      .Cases("__builtin_strdup", "__builtin_strndup", "__builtin_realloc", "getenv", true)
      .Default(false);
}

bool is_null(const Expr* e, ASTContext& c) {
  return e->isNullPointerConstant(c, Expr::NPC_ValueDependentIsNotNull) != Expr::NPCK_NotNull;
}

const VarDecl* variable_of(const Expr* e) {
  const auto* ref = dyn_cast<DeclRefExpr>(e->IgnoreParens());
  return ref == nullptr ? nullptr : dyn_cast<VarDecl>(ref->getDecl());
}

}  // namespace

class volatile_values::reader : public RecursiveASTVisitor<reader> {
 public:
  explicit reader(volatile_values& all) : all_{all} {}
  bool VisitVarDecl(VarDecl* v) {
    if (!v->isLocalVarDecl() || !v->getType()->isPointerType()) return true;
    variable& known = all_.variables_[v];
    if (v->hasInit()) known.values.push_back(v->getInit());
    return true;
  }
  bool VisitDeclRefExpr(DeclRefExpr* e) {
    if (const auto* v = dyn_cast<VarDecl>(e->getDecl())) ++all_.variables_[v].uses;
    return true;
  }
  bool VisitImplicitCastExpr(ImplicitCastExpr* e) {
    if (e->getCastKind() == CK_LValueToRValue) plain(e->getSubExpr());
    return true;
  }
  bool VisitBinaryOperator(BinaryOperator* e) {
    if (!e->isAssignmentOp()) return true;
    const VarDecl* v = plain(e->getLHS());
    if (v != nullptr && e->getOpcode() == BO_Assign) all_.variables_[v].values.push_back(e->getRHS());
    return true;
  }
  bool VisitUnaryOperator(UnaryOperator* e) {
    if (e->isIncrementDecrementOp()) plain(e->getSubExpr());
    return true;
  }

 private:
  const VarDecl* plain(const Expr* e) {
    const VarDecl* v = variable_of(e);
    if (v != nullptr) ++all_.variables_[v].plain_uses;
    return v;
  }
  volatile_values& all_;
};

void volatile_values::enter(const FunctionDecl& function) {
  variables_.clear();
  context_ = &function.getASTContext();
  reader{*this}.TraverseStmt(function.getBody());
}

StringRef volatile_values::target_of_variable(const VarDecl* v) {
  if (!v->isLocalVarDecl() || v->isStaticLocal() || !v->getType()->isPointerType()) return {};
  auto found = variables_.find(v);
  if (found == variables_.end() || found->second.uses != found->second.plain_uses) return {};
  // In a circle of assignments this one contributes nothing.
  if (found->second.asked) return "nothing";
  found->second.asked = true;
  StringRef target;
  bool all = true;
  const auto values = found->second.values;
  for (const Expr* e : values) {
    if (is_null(e, *context_)) continue;
    const StringRef t = target_of(e);
    all = all && !t.empty();
    if (target.empty() && t != "nothing") target = t;
  }
  variables_[v].asked = false;
  return all ? target : StringRef{};
}

StringRef volatile_values::target_of(const Expr* value) {
  const Expr* e = strip(value);
  if (e->isTypeDependent() || e->isValueDependent()) return {};
  if (isa<StringLiteral>(e)) return "a text";
  if (const auto* read = dyn_cast<ImplicitCastExpr>(e); read != nullptr && read->getCastKind() == CK_LValueToRValue) {
    const VarDecl* v = variable_of(read->getSubExpr());
    return v == nullptr ? StringRef{} : target_of_variable(v);
  }
  if (const auto* ref = dyn_cast<DeclRefExpr>(e)) {
    if (isa<FunctionDecl>(ref->getDecl())) return "a function";
    if (ref->getType()->isArrayType() && lies_outside(ref)) return "a variable";
    return {};
  }
  if (const auto* u = dyn_cast<UnaryOperator>(e); u != nullptr && u->getOpcode() == UO_AddrOf) {
    const Expr* of = u->getSubExpr()->IgnoreParens();
    if (const auto* ref = dyn_cast<DeclRefExpr>(of); ref != nullptr && isa<FunctionDecl>(ref->getDecl())) {
      return "a function";
    }
    return lies_outside(of) ? StringRef{"a variable"} : StringRef{};
  }
  // An array that lies in a variable, decayed.
  if (e->isGLValue() && e->getType()->isArrayType()) return lies_outside(e) ? StringRef{"a variable"} : StringRef{};
  if (const auto* call = dyn_cast<CallExpr>(e)) {
    const FunctionDecl* f = call->getDirectCallee();
    if (f == nullptr || f->getIdentifier() == nullptr || f->hasBody() || !allocates(f->getName())) return {};
    return "memory from outside of every pool";
  }
  if (const auto* fresh = dyn_cast<CXXNewExpr>(e)) {
    const FunctionDecl* f = fresh->getOperatorNew();
    const bool global = f != nullptr && !isa<CXXMethodDecl>(f) && f->isReplaceableGlobalAllocationFunction();
    return global && fresh->getNumPlacementArgs() == 0 ? StringRef{"memory from new"} : StringRef{};
  }
  if (const auto* choice = dyn_cast<ConditionalOperator>(e)) {
    const Expr* a = choice->getTrueExpr();
    const Expr* b = choice->getFalseExpr();
    const StringRef first = target_of(a);
    const StringRef second = target_of(b);
    if (is_null(a, *context_)) return second;
    if (is_null(b, *context_)) return first;
    return second.empty() ? second : first;
  }
  if (const auto* sum = dyn_cast<BinaryOperator>(e); sum != nullptr && sum->isAdditiveOp()) {
    if (sum->getLHS()->getType()->isPointerType()) return target_of(sum->getLHS());
    if (sum->getRHS()->getType()->isPointerType()) return target_of(sum->getRHS());
  }
  return {};
}

bool volatile_values::lies_outside(const Expr* lvalue) {
  for (const Expr* e = lvalue->IgnoreParens();;) {
    e = e->IgnoreParens();
    if (const auto* ref = dyn_cast<DeclRefExpr>(e)) {
      const auto* v = dyn_cast<VarDecl>(ref->getDecl());
      return v != nullptr && !v->getType()->isReferenceType();
    }
    if (isa<CompoundLiteralExpr>(e)) return true;
    if (const auto* member = dyn_cast<MemberExpr>(e)) {
      if (member->isArrow()) return !target_of(member->getBase()).empty();
      e = member->getBase();
    } else if (const auto* element = dyn_cast<ArraySubscriptExpr>(e)) {
      const Expr* base = element->getBase()->IgnoreParens();
      const auto* decay = dyn_cast<ImplicitCastExpr>(base);
      if (decay == nullptr || decay->getCastKind() != CK_ArrayToPointerDecay) return !target_of(base).empty();
      e = decay->getSubExpr();
    } else if (const auto* u = dyn_cast<UnaryOperator>(e); u != nullptr && u->getOpcode() == UO_Deref) {
      return !target_of(u->getSubExpr()).empty();
    } else {
      return false;
    }
  }
}

}  // namespace nvm::compiler
