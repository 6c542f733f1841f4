"""Tests of memory_select; a package, so that its oracle is not taken for the kernel's."""
