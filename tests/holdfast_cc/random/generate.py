#!/usr/bin/env python3
"""A random C program whose state is durable, and which knows what an abort and a crash have to leave.

usage: generate.py SEED > program.c

The program is compiled with or without -DTWIN: the twin keeps the same state in ordinary memory, and takes back what a
level of a transaction did by copying. See run_random.py for what is compared. frame.h has what all programs share.
"""

import random
import sys

ARRAYS = {  # field: (elements, is it a floating-point number)
    "i64": (8, False),
    "i32": (40, False),
    "i16": (16, False),
    "u8": (64, False),
    "f64": (8, True),
    "f32": (12, True),
}


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.helpers = 0
        self.variables = []  # integer variables in scope
        self.names = 0
        self.can_nest = True  # no levels inside of levels inside of levels

    def pick(self, choices):
        return self.random.choice(choices)

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def put(self, depth, text):
        self.lines.append("  " * depth + text)

    # ---- expressions: all uint64_t, nothing undefined ----

    def number(self):
        return f"{self.pick([0, 1, 2, 3, 7, 64, 255, self.random.randrange(1 << 16), self.random.randrange(1 << 62)])}u"

    def index(self, below):
        if self.variables and self.chance(50):
            return f"(size_t)({self.pick(self.variables)} % {below})"
        return str(self.random.randrange(below))

    def place(self, floating=None):
        """An lvalue in the durable state, or in a local structure."""
        fields = [f for f, (_, is_float) in ARRAYS.items() if floating is None or is_float == floating]
        owner = self.pick(["s", "s", "s", "s", "o"])
        if floating is not True and self.chance(30):
            part = self.pick(["a", "b", "d", f"c[{self.index(5)}]"])
            return f"{owner}->in[{self.index(4)}].{part}"
        field = self.pick(fields)
        return f"{owner}->{field}[{self.index(ARRAYS[field][0])}]"

    def value(self, depth=0):
        kind = self.random.randrange(10)
        if depth > 2 or kind < 3:
            return self.number()
        if kind < 5 and self.variables:
            return self.pick(self.variables)
        if kind < 8:
            return f"(uint64_t)({self.place(False)})"
        operator = self.pick(["+", "-", "*", "^", "&", "|"])
        return f"({self.value(depth + 1)} {operator} {self.value(depth + 1)})"

    def condition(self):
        return self.pick([
            f"{self.value()} % {self.pick([2, 3, 5])} == 0",
            f"({self.value()} & {self.pick([1, 4, 16])}u) != 0",
            f"{self.value()} < {self.value()}",
        ])

    # ---- statements ----

    def assignment(self, depth):
        if self.chance(20):
            place = self.place(True)
            self.put(depth, f"{place} = (float)({self.value()} % 1000u) * 0.5f;")
        else:
            operator = self.pick(["=", "=", "+=", "^=", "|=", "-="])
            self.put(depth, f"{self.place(False)} {operator} {self.value()};")

    def neighbours(self, depth):
        """A straight line of stores to touching bytes."""
        field = self.pick(["i64", "i32", "i16", "u8"])
        count = self.random.randrange(2, 6)
        first = self.random.randrange(ARRAYS[field][0] - count + 1)
        order = list(range(first, first + count))
        if self.chance(30):
            self.random.shuffle(order)
        for i in order:
            self.put(depth, f"s->{field}[{i}] = {self.value()};")

    def loop(self, depth):
        i = self.name("i")
        field = self.pick(list(ARRAYS))
        size = ARRAYS[field][0]
        count = self.random.randrange(1, size + 1)
        first = self.random.randrange(size - count + 1)
        limit = str(count) if self.chance(60) else f"1 + {self.value()} % {count}"
        direction = self.chance(30)
        at = f"{first + count - 1} - {i}" if direction else f"{first} + {i}"
        owner = self.pick(["s", "s", "s", "o"])
        self.put(depth, f"for (uint64_t {i} = 0, n{i} = {limit}; {i} < n{i}; {i}++) {{")
        self.variables.append(i)
        if self.chance(25):
            self.put(depth + 1, f"if ({self.condition()}) {self.pick(['break', 'continue'])};")
        if ARRAYS[field][1]:
            self.put(depth + 1, f"{owner}->{field}[{at}] = (float)({self.value()} % 1000u) * 0.25f;")
        else:
            self.put(depth + 1, f"{owner}->{field}[{at}] {self.pick(['=', '+=', '^='])} {self.value()};")
        if self.chance(30):
            self.statement(depth + 1)
        self.variables.pop()
        self.put(depth, "}")

    def block_store(self, depth):
        field = self.pick(list(ARRAYS))
        size = ARRAYS[field][0]
        count = self.random.randrange(1, size + 1)
        first = self.random.randrange(size - count + 1)
        amount = str(count) if self.chance(60) else f"({self.value()} % {count + 1})"
        bytes_ = f"{amount} * sizeof s->{field}[0]"
        target = f"&s->{field}[{first}]"
        other = self.random.randrange(size - count + 1)
        kind = self.random.randrange(6)
        if kind == 0:
            self.put(depth, f"memset({target}, (int)({self.value()} & 0x3F), {bytes_});")
        elif kind == 1:
            self.put(depth, f"memcpy({target}, &o->{field}[{other}], {bytes_});")
        elif kind == 2:
            self.put(depth, f"memmove({target}, &s->{field}[{other}], {bytes_});")
        elif kind == 3:
            self.put(depth, f"copiers[{self.value()} % 2]({target}, &o->{field}[{other}], {bytes_});")
        elif kind == 4:
            self.put(depth, f"s->in[{self.index(4)}] = {self.pick(['s', 'o'])}->in[{self.index(4)}];")
        else:
            self.put(depth, "qsort(s->i64, 8, sizeof s->i64[0], by_value);")

    def text(self, depth):
        word = self.pick(["a", "durable", "heap", "store", "0123456789"])
        self.put(depth, self.pick([
            f'strcpy(s->text, "{word}");',
            f'snprintf(s->text, sizeof s->text, "{word} %u", (unsigned)({self.value()} % 100000));',
            f'strncpy(s->text, "{word}", 12);',
            f'if (strlen(s->text) < 20) strcat(s->text, "{word}");',
            f"s->text[{self.index(30)}] = (char)('a' + {self.value()} % 26);",
            "s->text[39] = 0;",
        ]))

    def choice_of_object(self, depth):
        """A pointer that may lead to durable memory or to a variable."""
        q = self.name("q")
        local = self.name("local")
        self.put(depth, f"struct inner {local} = {{1, 2, {{3}}, 4}};")
        self.put(depth, f"struct inner *{q} = {self.condition()} ? &s->in[{self.index(4)}] : &{local};")
        for part in self.random.sample(["a", "b", "d", "c[1]"], self.random.randrange(1, 4)):
            self.put(depth, f"{q}->{part} = {self.value()};")
        self.put(depth, f"o->i64[0] += {local}.d;")

    def whole(self, depth):
        t = self.name("t")
        self.put(depth, f"struct inner {t} = s->in[{self.index(4)}];")
        self.put(depth, f"{t}.a += {self.value()}, {t}.c[2] ^= 5;")
        self.put(depth, f"s->in[{self.index(4)}] = {t};")

    def atomic(self, depth):
        self.put(depth, self.pick([
            f"__atomic_fetch_add(&s->i64[{self.index(8)}], (int64_t)({self.value()} % 1000), __ATOMIC_SEQ_CST);",
            f"__atomic_store_n(&s->i32[{self.index(40)}], (int32_t)({self.value()} % 1000), __ATOMIC_RELEASE);",
            f"(void)__atomic_exchange_n(&s->u8[{self.index(64)}], (uint8_t)({self.value()}), __ATOMIC_RELAXED);",
        ]))

    def branch(self, depth):
        self.put(depth, f"if ({self.condition()}) {{")
        self.block(depth + 1, 2)
        if self.chance(60):
            self.put(depth, "} else {")
            self.block(depth + 1, 2)
        self.put(depth, "}")

    def switch(self, depth):
        self.put(depth, f"switch ({self.value()} % 4) {{")
        for case in range(self.random.randrange(2, 4)):
            self.put(depth + 1, f"case {case}:")
            self.block(depth + 2, 1)
            if self.chance(70):
                self.put(depth + 2, "break;")
        self.put(depth + 1, "default:")
        self.put(depth + 2, "break;")
        self.put(depth, "}")

    def level(self, depth):
        if not self.can_nest:
            return self.assignment(depth)
        self.can_nest = False
        self.put(depth, "begin();")
        self.block(depth, 3)
        if self.chance(50):
            self.put(depth, "commit();")
        else:
            self.put(depth, "take_back();")
        self.can_nest = True
        return None

    def call(self, depth):
        if self.helpers == 0:
            return self.assignment(depth)
        owners = self.pick(["s, o", "s, o", "s, o", "o, s"])  # never one twice: memcpy
        self.put(depth, f"helper{self.random.randrange(self.helpers)}({owners}, {self.value()});")
        return None

    def list_change(self, depth):
        self.put(depth, self.pick([
            f"push((uint32_t)({self.value()} % 1000));",
            f"push((uint32_t)({self.value()} % 1000));",
            "pop();",
            f"""struct node *{(n := self.name("n"))} = new_node();
  *{n} = (struct node){{NULL, 1, {{2}}}};
  begin(); {n}->n = {self.value()} % 99; {n}->bytes[5] = 7; {self.pick(["commit", "take_back"])}();
  s->i64[0] += {n}->n + {n}->bytes[5];
  drop_node({n});""",
            f"for (struct node *n = top->list; n != NULL; n = n->next) n->n += (uint32_t)({self.value()} % 7);",
            f"if (top->list != NULL) memset(top->list->bytes, (int)({self.value()} & 63), 1 + {self.value()} % 24);",
            f"if (top->list != NULL && top->list->next != NULL) top->list->next->bytes[{self.index(24)}] = 9;",
        ]))

    def statement(self, depth):
        kinds = [self.assignment, self.assignment, self.neighbours, self.loop, self.loop, self.block_store, self.text,
                 self.choice_of_object, self.whole, self.atomic, self.call, self.list_change, self.list_change]
        if depth < 4:
            kinds += [self.branch, self.branch, self.switch, self.level]
        self.pick(kinds)(depth)

    def block(self, depth, most):
        # Declarations are legal anywhere but right after a label.
        self.put(depth, "{")
        for _ in range(self.random.randrange(1, most + 1)):
            self.statement(depth + 1)
            self.put(depth + 1, "STEP();")
        self.put(depth, "}")

    # ---- functions ----

    def function(self, head, statements):
        self.put(0, head + " {")
        self.variables = ["x"]
        self.put(1, "(void)o, (void)x;")
        for _ in range(statements):
            self.statement(1)
            self.put(1, "STEP();")
        self.variables = []
        self.put(0, "}")
        self.put(0, "")

    def write(self, seed):
        self.put(0, f"/* Made by generate.py {seed}. */")
        self.put(0, '#include "frame.h"')
        self.put(0, "")
        for _ in range(self.random.randrange(1, 5)):
            attribute = self.pick(["__attribute__((noinline)) ", ""])
            self.can_nest = self.chance(40)
            self.function(f"static {attribute}void helper{self.helpers}(struct state *s, struct state *o, uint64_t x)",
                          self.random.randrange(1, 5))
            self.helpers += 1
        transactions = self.random.randrange(3, 8)
        for k in range(transactions):
            self.can_nest = True
            self.function(f"static void transaction{k}(struct state *s, struct state *o, uint64_t x)",
                          self.random.randrange(3, 12))
        names = ", ".join(f"transaction{k}" for k in range(transactions))
        self.put(0, f"transaction *const transactions[] = {{{names}}};")
        self.put(0, f"const unsigned transaction_count = {transactions};")
        return "\n".join(self.lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(Program(int(sys.argv[1])).write(int(sys.argv[1])))
