/* longjmp out of the body of nvm_stm_run(): the next call on the thread says so, and those after it are kept. */
#include <nvm/kv.h>
#include <nvm/stm.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static jmp_buf back;
static int failures;

static void expect(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "left_by_longjmp: %s (%s)\n", what, nvm_errormsg());
  failures++;
}

static int put(nvm_kv* kv, const char* key) { return nvm_kv_put(kv, key, strlen(key), "value", 5); }
static int has(nvm_kv* kv, const char* key) {
  size_t bytes = 0;
  char value[8];
  return nvm_kv_get(kv, key, strlen(key), value, sizeof value, &bytes) == 1;
}

static int leave(nvm_stm* tx, void* kv) {
  (void)tx;
  put(kv, "inside");
  longjmp(back, 1);
}
static int inner(nvm_stm* tx, void* kv) {
  if (setjmp(back) == 0) nvm_stm_run(nvm_stm_pool(tx), leave, kv);
  expect(put(kv, "refused") == -1, "the call after an inner level was left succeeded");
  return put(kv, "outer");
}
static int both(nvm_stm* tx, void* kv) {
  expect(nvm_stm_run(nvm_stm_pool(tx), inner, kv) == 0, "a level whose inner one was left");
  return put(kv, "both");
}
__attribute__((noinline)) static int deeper(nvm_kv* kv, const char* key, int calls) {
  char room[64];
  snprintf(room, sizeof room, "%s", key);
  return calls == 0 ? put(kv, room) : deeper(kv, room, calls - 1);
}

int main(int argc, char** argv) {
  char path[4096];
  if (argc != 2) return 2;
  snprintf(path, sizeof path, "%s/left-by-longjmp-%ld.nvm", argv[1], (long)getpid());
  NVM_POOL* pool = nvm_pool_create(path, (size_t)8 << 20);
  nvm_kv* kv = pool == NULL ? NULL : nvm_kv_open(pool, "store", NULL);
  expect(kv != NULL, "no store");
  if (kv == NULL) return 1;

  for (int calls = 0; calls < 4; calls++) {
    if (setjmp(back) == 0) nvm_stm_run(pool, leave, kv);
    expect(deeper(kv, "refused", calls) == -1, "the call after the jump succeeded");
    expect(strstr(nvm_errormsg(), "longjmp") != NULL, "its sentence does not speak of longjmp");
    expect(nvm_stm_current() == NULL, "the transaction is open still");
    expect(!has(kv, "inside") && !has(kv, "refused"), "what was rolled back is there");
    expect(put(kv, "after") == 0, "the second call after the jump failed");
  }
  expect(nvm_stm_run(pool, both, kv) == 0, "levels around one that was left");
  expect(nvm_kv_close(kv) == 0 && nvm_pool_close(pool) == 0, "close");

  pool = nvm_pool_open(path);
  kv = pool == NULL ? NULL : nvm_kv_open(pool, "store", NULL);
  expect(kv != NULL, "no store after the program");
  if (kv != NULL) {
    expect(has(kv, "after") && has(kv, "outer") && has(kv, "both"), "what was told is lost");
    expect(!has(kv, "inside") && !has(kv, "refused"), "what was rolled back is there");
    expect(nvm_kv_close(kv) == 0 && nvm_pool_close(pool) == 0, "close");
  }
  unlink(path);
  return failures == 0 ? 0 : 1;
}
