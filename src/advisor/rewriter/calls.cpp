#include "advisor/rewriter/calls.hpp"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/ParentMapContext.h>
#include <clang/AST/RecordLayout.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Frontend/TextDiagnosticBuffer.h>
#include <clang/Lex/Lexer.h>
#include <clang/Tooling/Tooling.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/StringSaver.h>

#include <algorithm>

namespace nvm::advisor::rewriter {
namespace {

using namespace clang;

struct family {
  llvm::StringLiteral called, placed;
};
constexpr family allocations[] = {
    {"malloc", "nvm_placed_malloc"},     {"calloc", "nvm_placed_calloc"},         {"realloc", "nvm_placed_grow"},
    {"strdup", "nvm_placed_strdup"},     {"__strdup", "nvm_placed_strdup"},       {"strndup", "nvm_placed_strndup"},
    {"__strndup", "nvm_placed_strndup"}, {"aligned_alloc", "nvm_placed_aligned"}, {"memalign", "nvm_placed_aligned"},
};
constexpr llvm::StringLiteral addresses[] = {"free", "realloc", "reallocarray", "malloc_usable_size"};

constexpr llvm::StringLiteral locks[] = {"pthread_mutex_t",
                                         "pthread_cond_t",
                                         "pthread_rwlock_t",
                                         "pthread_spinlock_t",
                                         "sem_t",
                                         "pthread_once_t",
                                         "mtx_t",
                                         "cnd_t",
                                         "pthread_t",
                                         "FILE",
                                         "DIR",
                                         "jmp_buf"};

// ---- types ----------------------------------------------------------------------------------------------------------

hazard hazard_of(QualType type, const std::string& path, unsigned depth);

hazard hazard_of_record(const RecordDecl& r, const std::string& path, unsigned depth) {
  const RecordDecl* d = r.getDefinition();
  if (d == nullptr) return {"unknown", "'" + r.getNameAsString() + "' is not defined here: nothing says what is in it"};
  for (const FieldDecl* f : d->fields()) {
    const std::string name = path.empty() ? f->getNameAsString() : path + "." + f->getNameAsString();
    hazard h = hazard_of(f->getType(), name, depth + 1);
    if (h.kind != "ok") return h;
  }
  return {};
}

hazard hazard_of(QualType type, const std::string& path, unsigned depth) {
  constexpr unsigned depth_max = 16;
  const std::string where = path.empty() ? "the object" : "field '" + path + "'";
  if (const auto* t = type->getAs<TypedefType>()) {
    const std::string name = t->getDecl()->getNameAsString();
    for (llvm::StringRef l : locks) {
      if (name == l) return {"lock", where + " is a " + name + ", which lives in one process"};
    }
  }
  if (depth == depth_max || type->isDependentType()) return {"unknown", where + " has a type that is not known here"};
  if (type->isFunctionPointerType() || type->isMemberFunctionPointerType())
    return {"callback", where + " points to a function, which is elsewhere in the next process"};
  if (type->isAnyPointerType() || type->isReferenceType() || type->isMemberPointerType())
    return {"pointer", where + " is a plain pointer (" + type.getAsString() + "), which may lead into volatile memory"};
  if (const auto* a = dyn_cast_or_null<ArrayType>(type->getAsArrayTypeUnsafe()))
    return hazard_of(a->getElementType(), path, depth + 1);
  if (const auto* r = type->getAs<RecordType>()) return hazard_of_record(*r->getDecl(), path, depth);
  if (type->isVoidType() || type->isFunctionType()) return {"unknown", "nothing says what type the objects have"};
  return {};
}

// ---- the visitor ----------------------------------------------------------------------------------------------------

class visitor : public RecursiveASTVisitor<visitor> {
 public:
  visitor(ASTContext& c, const unit& u, findings& to)
      : context_{c}, sources_{c.getSourceManager()}, unit_{u}, to_{to} {}

  bool TraverseFunctionDecl(FunctionDecl* f) {
    const FunctionDecl* outer = std::exchange(function_, f);
    const bool on = RecursiveASTVisitor::TraverseFunctionDecl(f);
    function_ = outer;
    return on;
  }

  bool VisitFunctionDecl(FunctionDecl* f) {
    if (!f->isMain() || !f->doesThisDeclarationHaveABody()) return true;
    const auto* body = dyn_cast<CompoundStmt>(f->getBody());
    if (body == nullptr || body->getLBracLoc().isMacroID()) {
      to_.main_refused = "main begins inside of a macro";
      return true;
    }
    to_.mains[file_of(body->getLBracLoc())] = sources_.getFileOffset(body->getLBracLoc()) + 1;
    return true;
  }

  bool VisitDeclRefExpr(DeclRefExpr* e) {
    const auto* f = dyn_cast<FunctionDecl>(e->getDecl());
    if (f == nullptr || f->isDefined()) return true;
    const std::string name = f->getNameAsString();
    if (is_by_address(name)) to_.by_address.emplace(name, token_of(e->getLocation()));
    if (name == "fork") {
      const PresumedLoc p = sources_.getPresumedLoc(sources_.getExpansionLoc(e->getLocation()));
      if (p.isValid()) to_.forks.insert(std::string{p.getFilename()} + ":" + std::to_string(p.getLine()));
    }
    return true;
  }

  bool VisitCallExpr(CallExpr* e) {
    const SourceLocation at = sources_.getExpansionLoc(e->getExprLoc());
    if (at.isInvalid() || sources_.isInSystemHeader(at)) return true;
    call c;
    c.file = file_of(at);
    c.line = sources_.getSpellingLineNumber(at);
    c.column = sources_.getSpellingColumnNumber(at);
    const FunctionDecl* f = e->getDirectCallee();
    if (f != nullptr) c.called = f->getNameAsString();
    if (const auto* name = dyn_cast<DeclRefExpr>(e->getCallee()->IgnoreParenImpCasts())) {
      c.name = token_of(name->getLocation());
    } else {
      c.name.refused = "the function is called through an expression";
    }
    if (e->getBeginLoc().isFileID() && e->getEndLoc().isFileID() && file_of(e->getBeginLoc()) == c.name.file) {
      c.begin = sources_.getFileOffset(e->getBeginLoc());
      c.end = sources_.getFileOffset(Lexer::getLocForEndOfToken(e->getEndLoc(), 0, sources_, context_.getLangOpts()));
    }
    if (function_ != nullptr) c.function = function_->getNameAsString();
    if (e->getType()->isPointerType()) find_type(*e, c);
    to_.calls.push_back(std::move(c));
    return true;
  }

 private:
  // Name of the file, as the debug information has it.
  std::string file_of(SourceLocation at) const {
    const FileID id = sources_.getFileID(sources_.getExpansionLoc(at));
    return file_named(id);
  }
  std::string file_named(FileID id) const {
    const OptionalFileEntryRef f = sources_.getFileEntryRefForID(id);
    if (!f) return {};
    llvm::SmallString<128> path{f->getName()};
    if (!llvm::sys::path::is_absolute(path)) {
      llvm::SmallString<128> whole{unit_.folder};
      llvm::sys::path::append(whole, path);
      path = whole;
    }
    llvm::sys::path::remove_dots(path, true);
    return std::string{path};
  }

  token token_of(SourceLocation at) const {
    token t;
    const SourceLocation spelled = sources_.getSpellingLoc(at);
    if (at.isMacroID()) {
      if (sources_.isWrittenInScratchSpace(spelled)) {
        t.refused = "a macro puts the name together (##)";
        return t;
      }
      if (!sources_.isMacroArgExpansion(at))
        t.macro = Lexer::getImmediateMacroName(at, sources_, context_.getLangOpts()).str();
    }
    t.file = file_named(sources_.getFileID(spelled));
    t.offset = sources_.getFileOffset(spelled);
    if (t.file.empty())
      t.refused = "it is spelled in no file (a -D of the command line, or a header of the compiler's)";
    if (sources_.isInSystemHeader(spelled)) t.refused = "it is spelled in a system header, " + t.file;
    return t;
  }

  // What the result of an allocation becomes: by a cast, a variable, an assignment, a parameter, a returned value.
  void find_type(const CallExpr& e, call& c) {
    QualType type = e.getType();
    const ValueDecl* variable = nullptr;
    const Stmt* at = &e;
    for (;;) {
      const auto parents = context_.getParents(*at);
      if (parents.empty()) break;
      if (const auto* d = parents[0].get<VarDecl>()) {
        type = d->getType();
        variable = d;
        break;
      }
      const auto* s = parents[0].get<Stmt>();
      if (s == nullptr) break;
      if (const auto* cast = dyn_cast<CastExpr>(s)) {
        if (cast->getType()->isPointerType() && !cast->getType()->isVoidPointerType()) type = cast->getType();
      } else if (const auto* b = dyn_cast<BinaryOperator>(s)) {
        if (b->getOpcode() == BO_Assign) {
          if (type->isVoidPointerType() || !b->getLHS()->getType()->isVoidPointerType()) type = b->getLHS()->getType();
          if (const auto* r = dyn_cast<DeclRefExpr>(b->getLHS()->IgnoreParenImpCasts())) variable = r->getDecl();
        }
        if (b->getOpcode() != BO_Comma) break;
      } else if (isa<ReturnStmt>(s)) {
        c.returned = true;
        if (function_ != nullptr && type->isVoidPointerType()) type = function_->getReturnType();
        break;
      } else if (!isa<ParenExpr>(s) && !isa<ConditionalOperator>(s)) {
        break;
      }
      at = s;
    }
    if (variable != nullptr && function_ != nullptr && function_->getBody() != nullptr)
      c.returned = returns(function_->getBody(), variable);
    QualType pointee = type->isPointerType() ? type->getPointeeType() : QualType{};
    const bool says_little = pointee.isNull() || pointee->isVoidType() || pointee->isCharType();
    if (says_little) {
      if (const QualType measured = type_in_sizeof(e); !measured.isNull()) pointee = measured;
    }
    if (pointee.isNull() || pointee->isVoidType()) {
      c.why = {"unknown", "nothing says what type the objects have"};
      return;
    }
    c.type = pointee.getUnqualifiedType().getAsString();
    c.why = hazard_of(pointee, "", 0);
  }

  static bool returns(const Stmt* s, const ValueDecl* variable) {
    if (s == nullptr) return false;
    if (const auto* r = dyn_cast<ReturnStmt>(s)) {
      const Expr* v = r->getRetValue();
      const auto* d = v == nullptr ? nullptr : dyn_cast<DeclRefExpr>(v->IgnoreParenCasts());
      return d != nullptr && d->getDecl() == variable;
    }
    return llvm::any_of(s->children(), [&](const Stmt* c) { return returns(c, variable); });
  }

  // T of a sizeof(T) among the arguments, if it is a structure or pointer.
  static QualType type_in_sizeof(const CallExpr& e) {
    for (const Expr* a : e.arguments()) {
      if (const QualType t = measured_in(a); !t.isNull()) return t;
    }
    return {};
  }
  static QualType measured_in(const Stmt* s) {
    if (s == nullptr) return {};
    if (const auto* u = dyn_cast<UnaryExprOrTypeTraitExpr>(s)) {
      if (u->getKind() == UETT_SizeOf) return u->getTypeOfArgument();
      return {};
    }
    for (const Stmt* c : s->children()) {
      if (const QualType t = measured_in(c); !t.isNull()) return t;
    }
    return {};
  }

  ASTContext& context_;
  SourceManager& sources_;
  const unit& unit_;
  findings& to_;
  const FunctionDecl* function_ = nullptr;
};

class consumer : public ASTConsumer {
 public:
  consumer(const unit& u, findings& to) : unit_{u}, to_{to} {}
  void HandleTranslationUnit(ASTContext& c) override {
    visitor{c, unit_, to_}.TraverseDecl(c.getTranslationUnitDecl());
  }

 private:
  const unit& unit_;
  findings& to_;
};

class action : public ASTFrontendAction {
 public:
  action(const unit& u, findings& to) : unit_{u}, to_{to} {}

 protected:
  std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance&, llvm::StringRef) override {
    return std::make_unique<consumer>(unit_, to_);
  }

 private:
  const unit& unit_;
  findings& to_;
};

// ---- the command line -----------------------------------------------------------------------------------------------

bool is_input(llvm::StringRef word) {
  static constexpr llvm::StringLiteral endings[] = {".c", ".cc", ".cpp", ".cxx", ".C", ".o", ".a", ".so", ".S", ".s"};
  return !word.starts_with("-") && llvm::any_of(endings, [&](llvm::StringRef e) { return word.ends_with(e); });
}

// What the compiler recorded, without plugins, outputs and other inputs.
std::vector<std::string> arguments_of(const unit& u, const std::string& path) {
  llvm::BumpPtrAllocator memory;
  llvm::StringSaver saver{memory};
  llvm::SmallVector<const char*, 64> words;
  llvm::cl::TokenizeGNUCommandLine(u.command, saver, words);
  std::vector<std::string> all;
  for (std::size_t k = 0; k < words.size(); ++k) {
    const llvm::StringRef w = words[k];
    const bool takes_next = w == "-o" || w == "-MF" || w == "-MT" || w == "-MQ" || w == "-Xclang" || w == "-mllvm" ||
                            w == "-dumpdir" || w == "-Xlinker";
    if (takes_next) {
      ++k;
      continue;
    }
    if (w.starts_with("-fplugin") || w.starts_with("-fpass-plugin") || w.starts_with("-Wl,") || w.starts_with("-M") ||
        w.starts_with("-l") || w.starts_with("-L") || w == "-c" || w == "-S" || w == "-E" || w == "-pipe" ||
        w.starts_with("-g") || w.starts_with("-Werror") || w.starts_with("-O") || w.starts_with("-save-temps"))
      continue;
    if (k != 0 && is_input(w)) continue;
    all.push_back(w.str());
  }
  if (all.empty()) all.emplace_back("clang");
  all.insert(all.end(), {"-w", "-fsyntax-only", path});
  return all;
}

}  // namespace

bool is_by_address(const std::string& name) {
  return llvm::any_of(addresses, [&](llvm::StringRef a) { return a == name; });
}

std::string placed_name(const std::string& called, bool here) {
  for (const family& f : allocations) {
    if (f.called == called) return f.placed.str() + (here ? "_here" : "");
  }
  return {};
}

void look_at(const unit& u, const std::string& path, findings& to) {
  FileSystemOptions options;
  options.WorkingDir = u.folder;
  const llvm::IntrusiveRefCntPtr<FileManager> files{new FileManager{options}};
  tooling::ToolInvocation invocation{arguments_of(u, path), std::make_unique<action>(u, to), files.get()};
  TextDiagnosticBuffer said;
  invocation.setDiagnosticConsumer(&said);
  if (invocation.run()) return;
  const auto first = said.err_begin();
  to.errors.push_back(path + ": cannot be parsed as it was compiled" +
                      (first == said.err_end() ? std::string{} : ": " + first->second));
}

}  // namespace nvm::advisor::rewriter
