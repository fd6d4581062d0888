/* A pool of the engine that the program is compiled for: -DPOOL_ENGINE=NVM_ENGINE_LOG, by default the library's choice.
 * -DPOOL_COLLECT=NVM_COLLECT_BACKGROUND: its references are counted. */
#pragma once
#include <nvm/nvm.h>
#include <string.h>

#ifndef POOL_ENGINE
#define POOL_ENGINE NVM_ENGINE_DETECT
#endif

static inline NVM_POOL* new_pool(const char* path, size_t size) {
  nvm_pool_options how;
  memset(&how, 0, sizeof how);
  how.size = size;
  how.engine = POOL_ENGINE;
#ifdef POOL_COLLECT
  how.collect = POOL_COLLECT;
#endif
  return nvm_pool_create_with(path, &how);
}
