/* `check_table POOL`: exit code 0 if the count of table.c's table is that of its entries. */
#include <stdio.h>

#define main table_main
#include "table.c"
#undef main

int main(int argc, char** argv) {
  NVM_POOL* pool = argc == 2 ? nvm_pool_open(argv[1]) : NULL;
  if (pool == NULL) {
    fprintf(stderr, "%s\n", nvm_errormsg());
    return 2;
  }
  const int answer = nvm_crash_check(pool);
  return nvm_pool_close(pool) == 0 ? answer : 2;
}
