/* The structures that holdfast-cc made durable, under the names of the ones with log calls placed by hand, for programs
 * that are compiled with either. */
#ifndef EXAMPLES_COMPILED_STRUCTURES_H
#define EXAMPLES_COMPILED_STRUCTURES_H

#include "bptree/bptree_compiled.h"
#include "hashtable/hashtable_compiled.h"

#define bptree_create          bptree_create_in
#define bptree_open            bptree_open_in
#define bptree_close           bptree_forget
#define hashtable_create       hashtable_create_in
#define hashtable_open         hashtable_open_in
#define hashtable_close(table) ((void)(table)) /* the table is its own handle */

#endif
