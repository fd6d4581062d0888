/* The engine's methods that change records, each in a transaction where the engine is in a pool.  Part of unqlite.c. */
static int MemHashReplaceInPool(unqlite_kv_engine* pKv, const void* pKey, int nKeyLen, const void* pData,
                                unqlite_int64 nDataLen) {
  const int rc = unqlite_pool_call(pKv);
  return rc != UNQLITE_OK ? rc : unqlite_pool_done(pKv, MemHashReplace(pKv, pKey, nKeyLen, pData, nDataLen));
}
static int MemHashAppendInPool(unqlite_kv_engine* pKv, const void* pKey, int nKeyLen, const void* pData,
                               unqlite_int64 nDataLen) {
  const int rc = unqlite_pool_call(pKv);
  return rc != UNQLITE_OK ? rc : unqlite_pool_done(pKv, MemHashAppend(pKv, pKey, nKeyLen, pData, nDataLen));
}
static int MemHashDeleteInPool(unqlite_kv_cursor* pCursor) {
  unqlite_kv_engine* pKv = pCursor->pStore;
  const int rc = unqlite_pool_call(pKv);
  return rc != UNQLITE_OK ? rc : unqlite_pool_done(pKv, MemHashCursorDelete(pCursor));
}
