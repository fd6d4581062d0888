/* Where a transaction begins, and where it comes back to: _ITM_beginTransaction returns once for each attempt and once
 * more after a cancel, each time into the same frame with the registers that the calling convention keeps.
 *
 * A `landing` (transaction.hpp) is what is kept:
 *    0  address after the return address: the caller's stack pointer after the return
 *    8  rbx   16 rbp   24 r12   32 r13   40 r14   48 r15
 *   56  return address: its place on the stack is written over by later calls
 *   64  control bits of SSE   68 control word of the x87 unit
 * There is no note that this object keeps shadow stacks, so that the loader switches them off for programs with it.
 */
  .text
  .globl _ITM_beginTransaction
  .type _ITM_beginTransaction, @function
  .p2align 4
_ITM_beginTransaction:
  .cfi_startproc
  endbr64
  leaq 8(%rsp), %rax
  movq (%rsp), %rcx
  subq $72, %rsp
  .cfi_adjust_cfa_offset 72
  movq %rax, 0(%rsp)
  movq %rbx, 8(%rsp)
  movq %rbp, 16(%rsp)
  movq %r12, 24(%rsp)
  movq %r13, 32(%rsp)
  movq %r14, 40(%rsp)
  movq %r15, 48(%rsp)
  movq %rcx, 56(%rsp)
  stmxcsr 64(%rsp)
  fnstcw 68(%rsp)
  movq %rsp, %rsi
  call nvm_itm_begin
  addq $72, %rsp
  .cfi_adjust_cfa_offset -72
  ret
  .cfi_endproc
  .size _ITM_beginTransaction, .-_ITM_beginTransaction

/* nvm_itm_land(action, landing): returns `action` from the begin that made the landing. */
  .hidden nvm_itm_land
  .globl nvm_itm_land
  .type nvm_itm_land, @function
  .p2align 4
nvm_itm_land:
  .cfi_startproc
  endbr64
  movl %edi, %eax
  movq 8(%rsi), %rbx
  movq 16(%rsi), %rbp
  movq 24(%rsi), %r12
  movq 32(%rsi), %r13
  movq 40(%rsi), %r14
  movq 48(%rsi), %r15
  movq 56(%rsi), %rdx
  ldmxcsr 64(%rsi)
  fldcw 68(%rsi)
  movq 0(%rsi), %rsp
  jmp *%rdx
  .cfi_endproc
  .size nvm_itm_land, .-nvm_itm_land

  .section .note.GNU-stack,"",@progbits
