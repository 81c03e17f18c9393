"""Assay's Python side: workers, API inventory.

The logic is in the C++ library; what is here only reaches what C++ cannot.
"""
