"""As test_memory_limits.py, with more limits."""

import unittest

import test_memory_limits


class MemoryLimits(test_memory_limits.MemoryLimits):

    STEP = 20


if __name__ == "__main__":
    unittest.main()
