/* The linked list of Breeze, Figure 3: ten nodes, each added at the head; printed at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Node {
  struct Node* next;
  char data[32];
} Node;

int main(void) {
  Node* head = NULL;
  for (int i = 0; i < 10; i++) {
    Node* t = malloc(sizeof(Node));
    if (t == NULL) break;
    t->next = head;
    strcpy(t->data, "Hello world");
    head = t;
  }
  for (Node* t = head; t != NULL; t = t->next) puts(t->data);
  while (head != NULL) {
    Node* next = head->next;
    free(head);
    head = next;
  }
  return 0;
}
