"""As test_endless.py, for every kind of damage and both ways of reading."""

import itertools
import unittest

import test_endless


class Endless(test_endless.Endless):

    COMMANDS = [*itertools.product(("tensor-info", "attn-compute"),
                                   ("history.h5", "free.h5", "tokens.h5")), ("attn-compute", "-")]


if __name__ == "__main__":
    unittest.main()
