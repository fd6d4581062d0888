#!/usr/bin/env bash
# warnings_test.sh <holdfast-cc>: what may stay unlogged is a warning with its place, and nothing else is one.
set -euo pipefail
cc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# warned <file>: `warnings` are what its comments say.
warned() {
  local line text expected found
  while IFS=: read -r line text; do
    expected=${text#*// WARN }
    sed -n "s/^$1:$line:[0-9]*: warning: //p" warnings | grep -qF -- "$expected" || {
      echo "line $line: no '$expected'" >&2
      cat warnings >&2
      exit 1
    }
  done < <(grep -n 'WARN' "$1")
  found=$(grep -c 'warning:' warnings)
  expected=$(grep -c 'WARN' "$1")
  [ "$found" -eq "$expected" ] || { echo "$found warnings, expected $expected:" >&2; cat warnings >&2; exit 1; }
}
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
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include "vendor.h"
void ours(char *p);
__asm__(".weak ours");
__asm__(".pushsection .rodata\n.globl words\nwords: .long 1, 2 # ret\n.popsection; eight = 8");
__asm__(".globl labelled\nlabelled:\n  movl $1, (%rdi)\n  ret");  // WARN assembly outside of functions: what it stores is not logged [-Wnvm-assembly]
void labelled(char *p);
__attribute__((naked)) void bare(char *p) { __asm__("movl $1, (%rdi)\n\tret"); }
__attribute__((naked)) static void described_bare(char *p) { __asm__("movl $1, (%rdi)\n\tret"); }
void f(NVM_POOL *pool) {
  char *p = nvm_pool_get_root(pool);
  vendor_fill(p);                                  // WARN vendor_fill may write the durable object that it gets; describe it in an unsafe file [-Wnvm-unlogged]
  vendor_read(p);
  struct vendor_vector v = {p, 8};
  vendor_fill_vector(&v);                          // WARN vendor_fill_vector may write the durable object
  putenv(p);                                       // WARN putenv may write durable memory, and nobody can say how much
  sprintf(p, "%d", 7);
  __asm__ volatile("movl $1, (%0)" ::"r"(p) : "memory");
  __asm__ volatile("" ::: "memory");
  __asm__ volatile("incl %0" : "+m"(*(int *)p));
  ours(p);
  bare(p);                                         // WARN bare is assembly, and may write the durable object that it gets; describe it in an unsafe file [-Wnvm-assembly]
  labelled(p);                                     // WARN labelled is assembly, and may write the durable object
  described_bare(p);
  pthread_mutex_t *lock = nvm_alloc(pool, 0, sizeof *lock);
  pthread_mutex_init(lock, 0);                     // WARN pthread_mutex_init gets a lock in durable memory, which is not logged: after a crash it may be held for ever [-Wnvm-lock]
  pthread_mutex_lock(lock);                        // WARN pthread_mutex_lock gets a lock in durable memory
  pthread_cond_t here = PTHREAD_COND_INITIALIZER;
  pthread_cond_wait(&here, lock);                  // WARN pthread_cond_wait gets a lock in durable memory
  sem_post((sem_t *)p);                            // WARN sem_post gets a lock in durable memory
  mtx_lock((mtx_t *)p);                            // WARN mtx_lock gets a lock in durable memory
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&own);
  bare((char *)&v);                                // WARN bare is assembly, and may write the durable object
  strcpy(p, "x");
  puts(p);
  qsort_like(p);
}
int (*locks)(pthread_mutex_t *) = pthread_mutex_lock;
void *table[] = {(void *)sprintf};
int (*chosen(int c))(char *, const char *, ...) {
  return c ? sprintf : 0;                          // WARN the address of sprintf is taken
}
END
sed -i '/qsort_like/d' many.c
printf 'described_bare={nargs:1,wr_set:{{arg0,#4}}}\n' >bare.unsafe
for level in -O0 -O1; do
  "$cc" "$level" -fno-builtin -fnvm-unsafe=bare.unsafe -g -c many.c -o many.o 2>warnings || { cat warnings >&2; exit 1; }
  warned many.c
done

# The same of C++: what comes compiled of libraries, members too, and those of templates.
cat >vendor.hpp <<'END'
#pragma GCC system_header
namespace vendor {
void fill(char &c);
void fill(char *p, unsigned long n);
int read(const char &c);
int read(const char *p);
struct file {
  file(const char *name, char *buffer);
  void load(void *p);
  int size(char *p) const;
};
template <class T> struct box {
  void fill(T *p);
  int read(const T *p) const;
};
extern template struct box<char>;
inline void here(char *p) { *p = 1; }
struct wide { long words[4]; };
wide made(const char *p);
}
END
cat >many.cpp <<'END'
#include <nvm/nvm.h>
#include <charconv>
#include <iostream>
#include <string>
#include "vendor.hpp"
struct node { char text[32]; int n; double d; };
void f(NVM_POOL *pool, std::istream &in, const std::string &s) {
  auto *p = static_cast<node *>(nvm_pool_get_root(pool));
  vendor::fill(*p->text);                          // WARN vendor::fill(char&) may write the durable object
  vendor::fill(p->text, 4);                        // WARN vendor::fill(char*, unsigned long) may write the durable
  vendor::read(*p->text);
  vendor::read(p->text);
  vendor::file file("name", p->text);              // WARN vendor::file::file(char const*, char*) may write the durable
  file.load(p);                                    // WARN vendor::file::load(void*) may write the durable object
  file.size(p->text);                              // WARN vendor::file::size(char*) const may write the durable object
  vendor::box<char> b;
  b.fill(p->text);                                 // WARN vendor::box<char>::fill(char*) may write the durable object
  b.read(p->text);
  vendor::here(p->text);
  vendor::wide w = vendor::made(p->text);
  (void)w;
  in.read(p->text, 4);
  in >> p->n >> p->d;
  std::to_chars(p->text, p->text + 8, 1.5);
  std::cout << p->text << p->n << s << (void *)p;
  s.copy(p->text, 3);
}
END
for level in -O0 -O2; do
  "$(dirname "$cc")/holdfast-c++" -std=c++20 "$level" -g -c many.cpp -o many.o 2>warnings || { cat warnings >&2; exit 1; }
  warned many.cpp
done

# Each warning has a name, which options know.
# says <file> <how many> <kind> <flag>...: so many diagnostics of a kind
says() {
  local file=$1 number=$2 kind=$3
  shift 3
  "$cc" -O1 -fno-builtin -fnvm-unsafe=bare.unsafe -fno-caret-diagnostics -g "$@" -c "$file" -o object 2>out || true
  [ "$(grep -c "$kind: .*\[-W.*nvm-" out)" -eq "$number" ] || {
    echo "$file $*: expected $number times '$kind'" >&2
    cat out >&2
    exit 1
  }
}
# groups_of <file>: the options do what they say.
groups_of() {
  local file=$1 all group these
  "$cc" -O1 -fno-builtin -fnvm-unsafe=bare.unsafe -fno-caret-diagnostics -g -c "$file" -o object 2>found
  all=$(grep -c 'warning: ' found)
  for group in $(grep -o 'nvm-[a-z]*\]' found | tr -d ']' | sort -u); do
    these=$(grep -c "\[-W$group\]" found)
    says "$file" $((all - these)) warning "-Wno-$group"
    says "$file" "$these" error "-Werror=$group"
    says "$file" "$these" warning -Werror "-Wno-error=$group"
  done
  says "$file" "$all" error -Werror
  says "$file" 0 warning -Wno-nvm
  says "$file" 0 warning -w
  says "$file" 0 error -w -Werror
}
# An error of the front end leaves nothing to the pass.
grep -v labelled many.c >functions.c
groups_of functions.c
grep labelled: many.c >assembly.c
groups_of assembly.c
echo ok
