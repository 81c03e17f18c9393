"""Which APIs of a package a code base uses, and what a package declares.

`scan` lists every use of an API in Python sources, `extract` writes the
contract manifest of a package. Both read sources with `ast`: nothing of what
they read is executed. docs/api-inventory.md has the rules.
"""
