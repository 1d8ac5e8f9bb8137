"""As test_files.py, with more signals at random moments."""

import unittest

import test_files


class Killed(test_files.Killed):

    SIGNALS = 300


if __name__ == "__main__":
    unittest.main()
