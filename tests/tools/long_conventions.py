"""As test_conventions.py, with more combinations."""

import unittest

import test_conventions


class Conventions(test_conventions.Conventions):

    COMBINATIONS = 300


if __name__ == "__main__":
    unittest.main()
