#include "bptree_index.h"

#include <stdlib.h>
#include <string.h>

/* Position of the child that leads to a key: the last whose low is not above it.  The first child leads to every key
 * below the second one's low. */
static unsigned position_of(const struct bptree_inner* node, uint64_t key) {
  unsigned first = 0, count = node->children;
  while (count > 1) {
    unsigned half = count / 2;
    if (node->low[first + half] <= key) first += half;
    count -= half;
  }
  return first;
}

/* Nodes from the root down to the lowest level, and the position taken in each. */
struct path {
  struct bptree_inner* node[BPTREE_HEIGHT_MAX];
  unsigned position[BPTREE_HEIGHT_MAX];
};

static void descend(const struct bptree_index* index, uint64_t key, struct path* path) {
  struct bptree_inner* node = index->root;
  for (unsigned level = 0; level < index->height; level++) {
    path->node[level] = node;
    path->position[level] = position_of(node, key);
    node = node->child[path->position[level]];
  }
}

static const struct bptree_inner* lowest_node(const struct bptree_index* index, uint64_t key) {
  const struct bptree_inner* node = index->root;
  for (unsigned level = 1; level < index->height; level++) node = node->child[position_of(node, key)];
  return node;
}

void* bptree_index_find(const struct bptree_index* index, uint64_t key) {
  const struct bptree_inner* node = lowest_node(index, key);
  return node->child[position_of(node, key)];
}

void* bptree_index_before(const struct bptree_index* index, uint64_t key) {
  const struct bptree_inner* node = lowest_node(index, key);
  unsigned position = position_of(node, key);
  return position > 0 ? node->child[position - 1] : NULL;
}

void* bptree_index_after(const struct bptree_index* index, uint64_t key) {
  const struct bptree_inner* node = lowest_node(index, key);
  unsigned position = position_of(node, key);
  return position + 1 < node->children ? node->child[position + 1] : NULL;
}

int bptree_index_reserve(struct bptree_index* index) {
  if (index->height == BPTREE_HEIGHT_MAX) return -1;
  /* One node for each level that splits, one for a new root. */
  while (index->spares <= index->height) {
    struct bptree_inner* node = malloc(sizeof *node);
    if (node == NULL) return -1;
    index->spare[index->spares++] = node;
  }
  return 0;
}

static struct bptree_inner* take_spare(struct bptree_index* index) {
  struct bptree_inner* node = index->spare[--index->spares];
  node->children = 0;
  return node;
}

static void move_children(struct bptree_inner* to, unsigned at, const struct bptree_inner* from, unsigned first,
                          unsigned count) {
  memmove(&to->low[at], &from->low[first], count * sizeof from->low[0]);
  memmove(&to->child[at], &from->child[first], count * sizeof from->child[0]);
}

static void add_child(struct bptree_inner* node, unsigned at, uint64_t low, void* child) {
  move_children(node, at + 1, node, at, node->children - at);
  node->low[at] = low;
  node->child[at] = child;
  node->children++;
}

static void drop_child(struct bptree_inner* node, unsigned at) {
  move_children(node, at, node, at + 1, node->children - at - 1);
  node->children--;
}

void bptree_index_insert(struct bptree_index* index, uint64_t low, void* leaf) {
  if (index->height == 0) {
    index->root = take_spare(index);
    index->height = 1;
    add_child(index->root, 0, low, leaf);
    return;
  }
  struct path path;
  descend(index, low, &path);
  void* child = leaf;
  for (unsigned level = index->height; level-- > 0;) {
    struct bptree_inner* node = path.node[level];
    unsigned at = path.position[level] + 1;
    if (node->children < BPTREE_FANOUT) {
      add_child(node, at, low, child);
      return;
    }
    struct bptree_inner* right = take_spare(index);
    right->children = BPTREE_FANOUT / 2;
    node->children -= right->children;
    move_children(right, 0, node, node->children, right->children);
    if (at > node->children) {
      add_child(right, at - node->children, low, child);
    } else {
      add_child(node, at, low, child);
    }
    low = right->low[0];
    child = right;
  }
  struct bptree_inner* root = take_spare(index);
  add_child(root, 0, index->root->low[0], index->root);
  add_child(root, 1, low, child);
  index->root = root;
  index->height++;
}

/* Brings child `at` of a node, which has too few children of its own, back to half: from a neighbour or into one. */
static void refill(struct bptree_inner* parent, unsigned at) {
  if (at + 1 == parent->children) at--;
  struct bptree_inner* left = parent->child[at];
  struct bptree_inner* right = parent->child[at + 1];
  unsigned sum = left->children + right->children;
  if (sum <= BPTREE_FANOUT) {
    move_children(left, left->children, right, 0, right->children);
    left->children = sum;
    free(right);
    drop_child(parent, at + 1);
    return;
  }
  unsigned kept = sum / 2;
  if (left->children < kept) {
    unsigned moved = kept - left->children;
    move_children(left, left->children, right, 0, moved);
    move_children(right, 0, right, moved, right->children - moved);
  } else {
    unsigned moved = left->children - kept;
    move_children(right, moved, right, 0, right->children);
    move_children(right, 0, left, kept, moved);
  }
  left->children = kept;
  right->children = sum - kept;
  parent->low[at + 1] = right->low[0];
}

void bptree_index_remove(struct bptree_index* index, uint64_t low) {
  struct path path;
  descend(index, low, &path);
  unsigned level = index->height - 1;
  drop_child(path.node[level], path.position[level]);
  while (level > 0 && path.node[level]->children < BPTREE_FANOUT / 2) {
    level--;
    refill(path.node[level], path.position[level]);
  }
  while (index->height > 1 && index->root->children == 1) {
    struct bptree_inner* root = index->root;
    index->root = root->child[0];
    index->height--;
    free(root);
  }
}

static void free_nodes(struct bptree_inner* node, unsigned height) {
  for (unsigned i = 0; height > 1 && i < node->children; i++) free_nodes(node->child[i], height - 1);
  free(node);
}

void bptree_index_clear(struct bptree_index* index) {
  if (index->height > 0) free_nodes(index->root, index->height);
  while (index->spares > 0) free(index->spare[--index->spares]);
  memset(index, 0, sizeof *index);
}

static const char* check_node(const struct bptree_inner* node, unsigned height, int is_root) {
  if (node->children > BPTREE_FANOUT) return "inner node has more children than fit";
  if (node->children < (is_root ? 1u : BPTREE_FANOUT / 2u)) return "inner node has too few children";
  for (unsigned i = 1; i < node->children; i++) {
    if (node->low[i - 1] >= node->low[i]) return "inner node is out of order";
  }
  for (unsigned i = 0; height > 1 && i < node->children; i++) {
    const struct bptree_inner* child = node->child[i];
    if (child->low[0] != node->low[i]) return "inner node and its child disagree about the lowest key";
    const char* finding = check_node(child, height - 1, 0);
    if (finding != NULL) return finding;
  }
  return NULL;
}

const char* bptree_index_check(const struct bptree_index* index) {
  if (index->height == 0) return NULL;
  return check_node(index->root, index->height, 1);
}
