"""Random workloads differ from day to day (./dev test), and can be repeated.  Programs: random_seed.hpp, the same."""

import os


def seed_of(word):
    """The number that a word is: its value if all of it are decimal digits, or a sum of its bytes; of no word 1."""
    data = os.fsencode(word) or b"1"
    is_number = all(byte in b"0123456789" for byte in data)
    seed = 0
    for byte in data:
        seed = (seed * 10 + byte - ord("0") if is_number else seed * 31 + byte) % 2**64
    return seed


def seed_from_environment():
    """Of NVM_EXPLORE_SEED: any word, such as a date; 1 by default."""
    return seed_of(os.environ.get("NVM_EXPLORE_SEED", ""))


def takes_turns():
    """Whether a run that draws from a seed does a part of everything: not with NVM_EXPLORE_ALL."""
    return "NVM_EXPLORE_SEED" in os.environ and "NVM_EXPLORE_ALL" not in os.environ
