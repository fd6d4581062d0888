/* The allocation calls of zmalloc.c are Holdfast's family. */
#define NVM_MALLOC_NAMES
#include <nvm/malloc.h>
