/* Memory that the program itself mapped where pools could lie: stores into it are the program's own affair. */
#define _GNU_SOURCE
#include <nvm/nvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int main(void) {
  void* const wanted = (void*)(NVM_WINDOW_BASE + (1ULL << (NVM_WINDOW_BITS - 1)));
  char* p = mmap(wanted, 8192, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED || !nvm_is_durable(p)) {
    perror("mmap");
    return 1;
  }
  for (int i = 0; i < 8192; i++) p[i] = (char)i;
  memset(p + 100, 7, (size_t)p[1]);
  snprintf(p + 200, 8, "%d", p[100]);
  puts(p + 200);
  return 0;
}
