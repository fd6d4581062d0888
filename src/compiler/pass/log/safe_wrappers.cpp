#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

#include "diagnostics.hpp"
#include "facts.hpp"
#include "module_rewrites.hpp"

namespace nvm::compiler {

using namespace llvm;

namespace {

// The possible %n in a format is no reason to warn wherever the address of printf is taken.
bool may_write(const unsafe_function& f) {
  // Locks are no reason either: wrappers of locks take their addresses.
  const auto is_no_lock = [](const written_range& r) { return r.how != written_range::extent::lock; };
  return f.unknown || any_of(f.writes, is_no_lock) ||
         any_of(f.by, [](const walk_of_memory& w) { return !StringRef(w.what).ends_with("printf"); });
}
bool nobody_can_say(const unsafe_function& f) {
  return f.unknown || any_of(f.writes, [](const written_range& r) { return r.how == written_range::extent::unknown; });
}

Function* wrapper_of(Function& f) {
  Module& m = *f.getParent();
  const std::string name = "__nvm_safe_" + f.getName().str();
  if (Function* known = m.getFunction(name)) return known;
  const bool local = f.hasLocalLinkage();  // another file may have another of this name
  Function* w = Function::Create(f.getFunctionType(),
                                 local ? GlobalValue::InternalLinkage : GlobalValue::LinkOnceODRLinkage, name, m);
  w->setAttributes(f.getAttributes());
  w->removeFnAttr(Attribute::Naked);
  w->removeFnAttr(assembly_mark);
  // The declaration's promises about touched memory do not hold for the log.
  w->removeFnAttr(Attribute::Memory);
  w->setCallingConv(f.getCallingConv());
  w->addFnAttr(Attribute::NoInline);
  if (!local) w->setComdat(m.getOrInsertComdat(name));
  IRBuilder<> b(BasicBlock::Create(m.getContext(), "", w));
  SmallVector<Value*, 8> arguments;
  for (Argument& a : w->args()) arguments.push_back(&a);
  CallInst* c = b.CreateCall(&f, arguments);
  c->setCallingConv(f.getCallingConv());
  c->setAttributes(f.getAttributes());
  if (f.getReturnType()->isVoidTy()) {
    b.CreateRetVoid();
  } else {
    b.CreateRet(c);
  }
  return w;
}

}  // namespace

bool make_safe_wrappers(Module& m, const unsafe_table& table) {
  std::vector<Function*> precompiled;
  for (Function& f : m) {
    const auto known = table.find(f.getName().str());
    if (comes_compiled(f) && !f.isIntrinsic() && known != table.end() && may_write(known->second) &&
        !(known->second.of_library && is_program_function(f)))
      precompiled.push_back(&f);
  }
  bool changed = false;
  for (Function* f : precompiled) {
    const auto takes_address = [&](const Use& u) {
      const auto* c = dyn_cast<CallBase>(u.getUser());
      return !(c != nullptr && c->isCallee(&u)) && !isa<GlobalAlias>(u.getUser()) && !isa<BlockAddress>(u.getUser());
    };
    std::vector<const User*> users;
    for (const Use& u : f->uses()) {
      if (takes_address(u)) users.push_back(u.getUser());
    }
    if (users.empty()) continue;
    if (f->isVarArg() || nobody_can_say(table.at(f->getName().str()))) {
      for (const User* u : users) {
        if (const auto* i = dyn_cast<Instruction>(u))
          warn(*i, warning_group::unlogged,
               "the address of " + f->getName().str() + " is taken: what is written through it is not logged");
      }
      continue;
    }
    f->replaceUsesWithIf(wrapper_of(*f), [&](Use& u) { return takes_address(u); });
    changed = true;
  }
  return changed;
}

}  // namespace nvm::compiler
