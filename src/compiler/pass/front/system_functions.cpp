// Marks the functions that system headers declare, in C++ those that are called: unless their code is in this unit it
// comes compiled, without log calls.  The mark holds the numbers of the parameters whose targets the function does not
// change.  Functions that only the program declares get a mark, too: they may be its own, also with a name of the C
// library.  Warns of assembly outside of functions.
//
// The mark is an assumption: the only attribute of a declaration that Clang hands on to the optimizer unchanged.
//
// Fields that are NVM_STALE_OK or NVM_RESET have an annotation, which Clang hands on at each access; it gets the bytes
// of the field, so that the pass sees where these end.
#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclGroup.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendPluginRegistry.h>

#include <cstdint>
#include <string>

#include "compiler/pass/assembly_text.hpp"
#include "warnings.hpp"

namespace nvm::compiler {

namespace {

void mark_system(clang::FunctionDecl& f) {
  std::string what = "nvm_system";
  unsigned k = 0;  // arguments of the call, as the optimizer counts them, but for one that says where the result goes
  const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&f);
  const auto reads = [&](bool constant) {
    if (constant) what += ",nvm_reads_" + std::to_string(k);
    ++k;
  };
  if (method != nullptr && method->isInstance()) reads(method->isConst());
  for (const clang::ParmVarDecl* p : f.parameters()) {
    const clang::QualType type = p->getType();
    const bool points = type->isPointerType() || type->isReferenceType();
    reads(points && type->getPointeeType().isConstQualified());
    // A structure of two words is two arguments, an empty one is none.
    const clang::ASTContext& c = f.getASTContext();
    if (type->isDependentType() || !type->isRecordType() || !type.isTriviallyCopyableType(c)) continue;
    const auto bits = c.getTypeSize(type);
    if (type->getAsCXXRecordDecl() != nullptr && type->getAsCXXRecordDecl()->isEmpty()) --k;
    if (bits > 64 && bits <= 128) ++k;
  }
  f.addAttr(clang::OMPAssumeAttr::CreateImplicit(f.getASTContext(), what));
}

// The functions of C++ libraries that a function calls.  They are marked before code is made of the call, and one by
// one: members of templates exist only where they are used.
class callees : public clang::RecursiveASTVisitor<callees> {
 public:
  bool shouldVisitImplicitCode() const { return true; }
  bool VisitCallExpr(clang::CallExpr* e) { return mark(e->getDirectCallee()); }
  bool VisitCXXConstructExpr(clang::CXXConstructExpr* e) { return mark(e->getConstructor()); }

 private:
  static bool mark(clang::FunctionDecl* f) {
    if (f == nullptr || f->isExternC() || f->getBuiltinID() != 0 || f->hasAttr<clang::OMPAssumeAttr>()) return true;
    const clang::SourceManager& sources = f->getASTContext().getSourceManager();
    if (sources.isInSystemHeader(f->getLocation()) && !is_ours(*f)) mark_system(*f);
    return true;
  }
  // The heap's interface logs for itself.
  static bool is_ours(const clang::FunctionDecl& f) {
    for (const clang::DeclContext* c = f.getDeclContext(); c != nullptr; c = c->getParent()) {
      const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(c);
      if (space != nullptr && space->getParent()->isTranslationUnit() && space->getName() == "nvm") return true;
    }
    return false;
  }
};

// Whether it goes on to the end of the object.  Elsewhere an array of GNU C that has no elements is a name for a place.
bool is_flexible(const clang::FieldDecl& f) {
  const auto* const array = f.getType()->getAsArrayTypeUnsafe();
  if (array == nullptr || f.getParent()->isUnion()) return false;
  if (f.getASTContext().getTypeSizeInChars(array->getElementType()).isZero()) return false;
  if (f.getType()->isIncompleteArrayType()) return true;
  const auto* const constant = llvm::dyn_cast<clang::ConstantArrayType>(array);
  if (constant == nullptr || constant->getSize() != 0) return false;
  const clang::FieldDecl* last = nullptr;
  for (const clang::FieldDecl* each : f.getParent()->fields()) last = each;
  return last == &f;
}

// "nvm_reset" becomes "nvm_reset:12", or "nvm_reset:12[]" of an array; that of a flexible array has no end.
void say_extent(const clang::FieldDecl& f, clang::AnnotateAttr& a) {
  const llvm::StringRef what = a.getAnnotation().split(':').first;
  if (what != "nvm_stale_ok" && what != "nvm_reset") return;
  clang::ASTContext& c = f.getASTContext();
  const bool is_array = f.getType()->isArrayType();
  auto bytes = static_cast<std::uint64_t>(c.getTypeSizeInChars(f.getType()).getQuantity());
  if (is_flexible(f)) bytes = INT64_MAX;
  a.setAnnotation(c, what.str() + ":" + std::to_string(bytes) + (is_array ? "[]" : ""));
}

// Of this compilation: it outlives what the optimizer does.
clang::DiagnosticsEngine* engine = nullptr;

class consumer : public clang::ASTConsumer {
 public:
  bool HandleTopLevelDecl(clang::DeclGroupRef group) override {
    for (clang::Decl* d : group) {
      mark(d);
      if (d->getASTContext().getLangOpts().CPlusPlus) callees{}.TraverseDecl(d);
    }
    return true;
  }

  // Before any code is made that uses the type.
  void HandleTagDeclDefinition(clang::TagDecl* d) override {
    const auto* r = llvm::dyn_cast<clang::RecordDecl>(d);
    if (r == nullptr || r->isDependentType() || r->isInvalidDecl()) return;
    for (const clang::FieldDecl* f : r->fields()) {
      if (f->isInvalidDecl() || f->getType()->isReferenceType()) continue;
      for (clang::AnnotateAttr* a : f->specific_attrs<clang::AnnotateAttr>()) say_extent(*f, *a);
    }
  }

 private:
  static void mark(clang::Decl* d) {
    if (llvm::isa<clang::LinkageSpecDecl, clang::NamespaceDecl>(d)) {
      for (clang::Decl* inner : llvm::cast<clang::DeclContext>(d)->decls()) mark(inner);
    }
    if (const auto* assembly = llvm::dyn_cast<clang::FileScopeAsmDecl>(d)) return look(*assembly);
    auto* f = llvm::dyn_cast<clang::FunctionDecl>(d);
    if (f != nullptr && !f->isThisDeclarationADefinition() && f->isExternC()) mark_c(*f);
  }
  static bool is_of_system(const clang::FunctionDecl& f) {
    return f.getASTContext().getSourceManager().isInSystemHeader(f.getLocation());
  }
  static void mark_c(clang::FunctionDecl& f) {
    if (is_of_system(f)) return mark_system(f);
    if (f.getBuiltinID() != 0 || llvm::any_of(f.redecls(), [](auto* d) { return is_of_system(*d); })) return;
    f.addAttr(clang::OMPAssumeAttr::CreateImplicit(f.getASTContext(), "nvm_program"));
  }
  static void look(const clang::FileScopeAsmDecl& d) {
    if (!read_assembly(d.getAsmString()->getString()).has_code) return;
    (void)warn(d.getASTContext(), warning_group::assembly, d.getAsmLoc(),
               "assembly outside of functions: what it stores is not logged");
  }
};

class action : public clang::PluginASTAction {
 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& ci, llvm::StringRef) override {
    engine = &ci.getDiagnostics();
    return std::make_unique<consumer>();
  }
  bool ParseArgs(const clang::CompilerInstance&, const std::vector<std::string>&) override { return true; }
  ActionType getActionType() override { return AddBeforeMainAction; }
};

const clang::FrontendPluginRegistry::Add<action> registered_action("nvm-system-functions",
                                                                   "functions that come compiled");

}  // namespace

// For the pass (log/diagnostics.cpp): Clang would turn its warnings into errors without regard to their group. Returns
// the old setting; false, too, if warnings are off.
extern "C" __attribute__((visibility("default"))) bool nvm_front_set_warnings_as_errors(bool to) {
  if (engine == nullptr) return false;
  const bool was = engine->getWarningsAsErrors() && !engine->getIgnoreAllWarnings();
  engine->setWarningsAsErrors(to);
  return was;
}

}  // namespace nvm::compiler
