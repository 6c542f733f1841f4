"""One guest, one file: memsel in the form that each framework or protocol expects of a part of its own.

Every adapter hands its work to the public doors with their defaults. None is imported by ``import memsel``, and each
says which extra to install where its framework is missing.
"""
