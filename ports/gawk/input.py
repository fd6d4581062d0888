#!/usr/bin/env python3
"""input.py LINES: lines of words for words.awk, the same each time; a few words are common and many are rare."""
import random
import sys

letters = "abcdefghijklmnopqrstuvwxyz"
choice = random.Random(7)
words = ["".join(choice.choice(letters) for _ in range(choice.randint(2, 11))) for _ in range(8000)]
weights = [1 / (rank + 1) ** 0.9 for rank in range(len(words))]
for _ in range(int(sys.argv[1])):
    print(" ".join(choice.choices(words, weights, k=choice.randint(3, 14))))
