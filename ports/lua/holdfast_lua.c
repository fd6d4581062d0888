/* A Lua whose state is durable: globals, closures, coroutines and all that they lead to lie in a pool.
 *
 *   holdfast-lua [--capacity BYTES] [--log BYTES] POOL [-e CHUNK | SCRIPT [ARGUMENT]...]
 *
 * Without a chunk or a script it reads statements from its input, as `lua` does.  Each statement, chunk or script is a
 * transaction: one that fails leaves everything as it was, and a process that is killed leaves what the last
 * transaction has left.  holdfast.commit() ends a transaction in the middle of a script, and begins the next.  Output
 * leaves after the commit.
 *
 * Objects hold addresses of functions and tables of the program; it is compiled with -fnvm-statics, so that they are
 * right in the next process, and in the next build.  Exit codes: 0, 1 Lua has an error, 2 wrong use, or the pool cannot
 * be opened, 3 the medium failed. */
#define _GNU_SOURCE
#include "lprefix.h"

#include <nvm/malloc.h>
#include <nvm/static.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lua.h" /* those after it need it */

#include "lauxlib.h"
#include "lgc.h"
#include "lobject.h"
#include "lstate.h"
#include "lualib.h"

#define KIND     "holdfast-lua 1"
#define EOF_MARK "<eof>"

/* Another version of Lua lays its objects out in another way. */
struct root {
  char kind[32];
  char version[32];
  uint64_t sizes[6];
  lua_State* state;
};

static NVM_POOL* pool;
static lua_State* L;

static _Noreturn void give_up(int code, const char* what, const char* why) {
  fflush(stdout);
  fprintf(stderr, "holdfast-lua: %s: %s\n", what, why);
  exit(code);
}
static void need(int good, const char* what) {
  if (!good) give_up(2, what, nvm_errormsg());
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The pool is the scope of the only thread. */
static void* memory(void* unused, void* old, size_t old_bytes, size_t bytes) {
  (void)unused;
  (void)old_bytes;
  if (bytes != 0) return nvm_malloc_resize(old, bytes);
  nvm_malloc_free(old);
  return NULL;
}

/* ---- objects that only the dead process knew --------------------------------------------------------------------- */

/* A file that was open is closed now. */
static void forget_file(Udata* u) {
  luaL_Stream* s = (luaL_Stream*)getudatamem(u);
  if (s->closef == NULL || s->f == stdin || s->f == stdout || s->f == stderr) return;
  s->closef = NULL;
  s->f = NULL;
}
static void forget_files(void) {
  global_State* g = G(L);
  GCObject* const lists[] = {g->allgc, g->finobj, g->tobefnz};
  luaL_getmetatable(L, LUA_FILEHANDLE);
  const void* const files = lua_topointer(L, -1);
  lua_pop(L, 1);
  for (size_t i = 0; files != NULL && i < sizeof lists / sizeof lists[0]; i++) {
    for (GCObject* o = lists[i]; o != NULL; o = o->next) {
      if (o->tt == LUA_VUSERDATA && gco2u(o)->metatable == files) forget_file(gco2u(o));
    }
  }
}

/* The state is between two statements, also where holdfast.commit() was in the middle of one. */
static void come_to_rest(void) {
  global_State* g = G(L);
  const int inside = L->ci != &L->base_ci;
  if (inside || L->errorJmp != NULL) {
    L->errorJmp = NULL;
    L->errfunc = 0;
    L->nCcalls = 0x10000; /* as lua_newstate() leaves it */
    L->allowhook = 1;
    g->gcstp &= GCSTPUSR;
    g->gcemergency = 0;
    lua_resetthread(L);
  }
  lua_settop(L, 0);
}

/* ---- transactions ------------------------------------------------------------------------------------------------ */

static void begin(void) {
  if (nvm_tx_begin(pool) != 0) give_up(3, "begin", nvm_errormsg());
}

/* Commits a statement that is done.  A transaction that cannot be kept is undone. */
static int keep(void) {
  if (nvm_tx_commit(pool) == 0) {
    begin();
    return 1;
  }
  fprintf(stderr, "holdfast-lua: not kept: %s\n", nvm_errormsg());
  if (nvm_errno() == NVM_E_IO || nvm_errno() == NVM_E_IN_DOUBT) exit(3);
  begin();
  come_to_rest();
  return 0;
}
static void undo(void) {
  if (nvm_tx_abort(pool) != 0) give_up(3, "abort", nvm_errormsg());
  begin();
  come_to_rest();
}

/* In the middle of a script there is nothing to go back to: C functions of Lua are on the stack. */
static int commit(lua_State* l) {
  if (nvm_tx_next(pool) != 0) give_up(3, "commit", nvm_errormsg());
  fflush(stdout);
  (void)l;
  return 0;
}
static int leave(lua_State* l) {
  int code = EXIT_SUCCESS;
  if (lua_isboolean(l, 1)) {
    code = lua_toboolean(l, 1) ? EXIT_SUCCESS : EXIT_FAILURE;
  } else {
    code = (int)luaL_optinteger(l, 1, EXIT_SUCCESS);
  }
  commit(l);
  exit(code);
}

static const luaL_Reg library[] = {{"commit", commit}, {NULL, NULL}};

/* ---- the state --------------------------------------------------------------------------------------------------- */

static int open_libraries(lua_State* l) {
  luaL_openlibs(l);
  luaL_newlib(l, library);
  lua_setglobal(l, "holdfast");
  lua_getglobal(l, "os");
  lua_pushcfunction(l, leave);
  lua_setfield(l, -2, "exit");
  return 0;
}

static struct root expected_root(void) {
  struct root r = {
      KIND,
      LUA_RELEASE,
      {sizeof(lua_State), sizeof(global_State), sizeof(Table), sizeof(Proto), sizeof(CallInfo), sizeof(TValue)},
      NULL};
  return r;
}

static void make_state(void) {
  const struct root expected = expected_root();
  struct root* root = nvm_calloc(pool, 0, 1, sizeof *root);
  need(root != NULL, "make the root");
  *root = expected;
  L = lua_newstate(memory, NULL);
  need(L != NULL, "make a state");
  lua_pushcfunction(L, open_libraries);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) give_up(2, "open libraries", lua_tostring(L, -1));
  root->state = L;
  need(nvm_pool_set_root(pool, root) == 0, "set the root");
}

static void find_state(struct root* root, const char* path) {
  const struct root expected = expected_root();
  const size_t bytes = nvm_size_of(pool, root);
  if (bytes != sizeof *root || memcmp(root->kind, expected.kind, sizeof root->kind) != 0) {
    give_up(2, path, "the pool has no Lua state: it is another program's");
  }
  root->version[sizeof root->version - 1] = '\0';
  if (memcmp(root->version, expected.version, sizeof root->version) != 0 ||
      memcmp(root->sizes, expected.sizes, sizeof root->sizes) != 0) {
    fprintf(stderr, "holdfast-lua: %s: found a state of %s, expected one of %s\n", path, root->version,
            expected.version);
    exit(2);
  }
  L = root->state;
}

static void open_state(const char* path, const nvm_pool_options* options) {
  /* Objects of the C library that states lead to. */
  need(nvm_static("stdin", stdin, sizeof *stdin) == 0 && nvm_static("stdout", stdout, sizeof *stdout) == 0 &&
           nvm_static("stderr", stderr, sizeof *stderr) == 0,
       "names");
  pool = nvm_pool_open_or_create(path, options);
  need(pool != NULL, "open");
  need(nvm_scope_begin(pool).begun, "scope");
  void* root = NULL;
  need(nvm_pool_read_root(pool, &root) == 0, "root");
  begin();
  if (root == NULL) {
    make_state();
  } else {
    find_state(root, path);
    come_to_rest();
    forget_files();
  }
  if (!keep()) exit(2);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static int with_traceback(lua_State* l) {
  const char* text = lua_tostring(l, 1);
  if (text == NULL) text = luaL_tolstring(l, 1, NULL);
  luaL_traceback(l, l, text, 1);
  return 1;
}

/* Prints the message at the top of the stack, which undo() takes away. */
static void print_error(void) {
  fflush(stdout);
  fprintf(stderr, "holdfast-lua: %s\n", lua_tostring(L, -1));
}

/* Runs the function under `arguments` values at the top; prints what it returns if it is asked to. */
static int run(int arguments, int prints) {
  const int at = lua_gettop(L) - arguments;
  lua_pushcfunction(L, with_traceback);
  lua_insert(L, at);
  int good = lua_pcall(L, arguments, LUA_MULTRET, at) == LUA_OK;
  if (good && prints && lua_gettop(L) > at) {
    lua_getglobal(L, "print");
    lua_insert(L, at + 1);
    good = lua_pcall(L, lua_gettop(L) - at - 1, 0, at) == LUA_OK;
  }
  if (good) {
    lua_settop(L, 0);
    good = keep();
  } else {
    print_error();
    undo();
  }
  fflush(stdout);
  return good;
}

static int refuse_chunk(void) {
  print_error();
  undo();
  return 0;
}
static int run_text(const char* text, const char* name) {
  if (luaL_loadbuffer(L, text, strlen(text), name) != LUA_OK) return refuse_chunk();
  return run(0, 0);
}

static void set_arguments(char** all, int count) {
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    lua_pushstring(L, all[i]);
    lua_rawseti(L, -2, i);
  }
  lua_setglobal(L, "arg");
}
static int run_script(char** all, int count) {
  set_arguments(all, count);
  if (luaL_loadfile(L, strcmp(all[0], "-") == 0 ? NULL : all[0]) != LUA_OK) return refuse_chunk();
  for (int i = 1; i < count; i++) lua_pushstring(L, all[i]);
  return run(count - 1, 0);
}

static int lacks_its_end(void) {
  size_t bytes = 0;
  const char* text = lua_tolstring(L, -1, &bytes);
  const size_t mark = sizeof EOF_MARK - 1;
  return text != NULL && bytes >= mark && memcmp(text + bytes - mark, EOF_MARK, mark) == 0;
}

struct lines {
  char* text;
  size_t bytes, room;
};
static int read_line(struct lines* all, const char* prompt) {
  static char* line;
  static size_t room;
  if (isatty(STDIN_FILENO)) {
    fputs(prompt, stdout);
    fflush(stdout);
  }
  const ssize_t n = getline(&line, &room, stdin);
  if (n < 0) return 0;
  if (all->bytes + (size_t)n + 1 > all->room) {
    char* more = realloc(all->text, all->bytes + (size_t)n + 1);
    if (more == NULL) give_up(2, "read", "no memory");
    all->text = more;
    all->room = all->bytes + (size_t)n + 1;
  }
  memcpy(all->text + all->bytes, line, (size_t)n + 1);
  all->bytes += (size_t)n;
  return 1;
}

/* Loads lines as an expression, or as a statement; 0: more lines have to follow. */
static int load_lines(const struct lines* all, int* status) {
  const char* expression = lua_pushfstring(L, "return %s", all->text[0] == '=' ? all->text + 1 : all->text);
  *status = luaL_loadbuffer(L, expression, strlen(expression), "=stdin");
  if (*status == LUA_OK) return 1;
  lua_settop(L, 0);
  *status = luaL_loadbuffer(L, all->text, all->bytes, "=stdin");
  return *status == LUA_OK || !lacks_its_end();
}

static int read_statements(void) {
  struct lines all = {NULL, 0, 0};
  int good = 1;
  while (read_line(&all, "> ")) {
    int status = LUA_OK;
    while (!load_lines(&all, &status) && read_line(&all, ">> ")) lua_settop(L, 0);
    good = (status == LUA_OK ? run(0, 1) : refuse_chunk()) && good;
    all.bytes = 0;
  }
  free(all.text);
  return good;
}

static uint64_t number_of(const char* text) {
  char* end = NULL;
  const unsigned long long n = strtoull(text, &end, 10);
  if (*text == '\0' || *text == '-' || *end != '\0') give_up(2, text, "expected a number of bytes");
  return n;
}

int main(int argc, char** argv) {
  const char* const usage = "[--capacity BYTES] [--log BYTES] POOL [-e CHUNK | SCRIPT [ARGUMENT]...]";
  nvm_pool_options options = {0};
  int i = 1;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
    if (strcmp(argv[i], "--capacity") == 0) {
      options.capacity = number_of(argv[i + 1]);
    } else if (strcmp(argv[i], "--log") == 0) {
      options.log_bytes = number_of(argv[i + 1]);
    } else {
      give_up(2, "usage: holdfast-lua", usage);
    }
  }
  if (i >= argc || argv[i][0] == '-') give_up(2, "usage: holdfast-lua", usage);
  const char* const path = argv[i++];
  const int is_chunk = i < argc && strcmp(argv[i], "-e") == 0;
  if (is_chunk && i + 2 != argc) give_up(2, "usage: holdfast-lua", usage);
  if (options.capacity != 0 && options.capacity < (uint64_t)64 << 20) options.size = options.capacity;
  /* Output of a statement leaves when it has committed, or earlier if it is more than this. */
  static char printed[1 << 20];
  (void)setvbuf(stdout, printed, _IOFBF, sizeof printed);
  open_state(path, &options);
  const int good = is_chunk   ? run_text(argv[i + 1], "=(command line)")
                   : i < argc ? run_script(argv + i, argc - i)
                              : read_statements();
  /* A transaction that has changed nothing is still open. */
  need(nvm_tx_abort(pool) == 0, "end");
  need(nvm_pool_close(pool) == 0, "close");
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
