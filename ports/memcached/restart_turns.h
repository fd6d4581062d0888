/* Declarations that the two files of the pool share. */
#ifndef RESTART_TURNS_H
#define RESTART_TURNS_H

#include <nvm/nvm.h>

extern NVM_POOL* pool_heap; /* NULL: there is none */
/* Ends the process; no reply leaves any more. */
void pool_give_up(const char* what, const char* why) __attribute__((noreturn));

#endif
