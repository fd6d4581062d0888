// Marks the functions that system headers declare: their code comes compiled, without log calls.  The mark holds the
// numbers of the parameters whose targets the function does not change.  Functions that only the program declares get a
// mark, too: they may be its own, also with a name of the C library.
//
// The mark is an assumption, which is the one attribute of a declaration that Clang hands on to the optimizer as it is.
#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclGroup.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendPluginRegistry.h>

namespace nvm::compiler {

namespace {

class consumer : public clang::ASTConsumer {
 public:
  bool HandleTopLevelDecl(clang::DeclGroupRef group) override {
    for (clang::Decl* d : group) mark(d);
    return true;
  }

 private:
  static void mark(clang::Decl* d) {
    if (auto* linkage = llvm::dyn_cast<clang::LinkageSpecDecl>(d)) {
      for (clang::Decl* inner : linkage->decls()) mark(inner);
    }
    // C functions only: those of C++ libraries come with their code, or take no durable pointers.
    auto* f = llvm::dyn_cast<clang::FunctionDecl>(d);
    if (f == nullptr || f->isThisDeclarationADefinition() || !f->isExternC()) return;
    clang::ASTContext& context = f->getASTContext();
    const auto of_system = [&](const clang::FunctionDecl* d) {
      return context.getSourceManager().isInSystemHeader(d->getLocation());
    };
    if (!of_system(f)) {
      if (f->getBuiltinID() == 0 && llvm::none_of(f->redecls(), of_system))
        f->addAttr(clang::OMPAssumeAttr::CreateImplicit(context, "nvm_program"));
      return;
    }
    std::string what = "nvm_system";
    for (unsigned k = 0; k < f->getNumParams(); ++k) {
      const clang::QualType type = f->getParamDecl(k)->getType();
      if (type->isPointerType() && type->getPointeeType().isConstQualified()) what += ",nvm_reads_" + std::to_string(k);
    }
    f->addAttr(clang::OMPAssumeAttr::CreateImplicit(context, what));
  }
};

class action : public clang::PluginASTAction {
 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance&, llvm::StringRef) override {
    return std::make_unique<consumer>();
  }
  bool ParseArgs(const clang::CompilerInstance&, const std::vector<std::string>&) override { return true; }
  ActionType getActionType() override { return AddBeforeMainAction; }
};

const clang::FrontendPluginRegistry::Add<action> registered_action("nvm-system-functions",
                                                                   "functions that come compiled");

}  // namespace

}  // namespace nvm::compiler
