"""The memory_select policy: which retrieved memories answer the query, and why each was kept or dropped."""
