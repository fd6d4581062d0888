#!/usr/bin/env bash
# warnings_test.sh <holdfast-cc>: what may stay unlogged is a warning with its place, and nothing else is one.
set -euo pipefail
cc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >vendor.h <<'END'
#pragma GCC system_header
void vendor_fill(char *p);
int vendor_read(const char *p);
struct vendor_vector {
  void *base;
  unsigned long bytes;
};
void vendor_fill_vector(const struct vendor_vector *v);
END
cat >many.c <<'END'
#include <nvm/nvm.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include "vendor.h"
void ours(char *p);
void f(NVM_POOL *pool) {
  char *p = nvm_pool_get_root(pool);
  vendor_fill(p);                                  // WARN vendor_fill may write the durable object
  vendor_read(p);
  struct vendor_vector v = {p, 8};
  vendor_fill_vector(&v);                          // WARN vendor_fill_vector may write the durable object
  putenv(p);                                       // WARN putenv may write durable memory, and nobody can say how much
  sprintf(p, "%d", 7);
  __asm__ volatile("movl $1, (%0)" ::"r"(p) : "memory");
  __asm__ volatile("" ::: "memory");
  __asm__ volatile("incl %0" : "+m"(*(int *)p));
  ours(p);
  strcpy(p, "x");
  puts(p);
  qsort_like(p);
}
void *table[] = {(void *)sprintf};
int (*chosen(int c))(char *, const char *, ...) {
  return c ? sprintf : 0;                          // WARN the address of sprintf is taken
}
END
sed -i '/qsort_like/d' many.c
for level in -O0 -O1; do
  "$cc" "$level" -fno-builtin -g -c many.c -o many.o 2>warnings || { cat warnings >&2; exit 1; }
  while IFS=: read -r line text; do
    expected=${text#*// WARN }
    grep -q "many.c:$line:.*warning: .*$expected" warnings || {
      echo "line $line: no '$expected'" >&2
      cat warnings >&2
      exit 1
    }
  done < <(grep -n 'WARN' many.c)
  found=$(grep -c 'warning:' warnings)
  expected=$(grep -c 'WARN' many.c)
  [ "$found" -eq "$expected" ] || { echo "$found warnings, expected $expected:" >&2; cat warnings >&2; exit 1; }
done
echo ok
