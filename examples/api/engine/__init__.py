"""A small package whose contract engine-1.json keeps, all but one default."""

from .recipe import Format, Recipe

__version__ = "2.0"


def quantize(x, recipe=None, *, rowwise=True, columnwise=True):
    """Version 1 did not quantise the transpose unless it was asked to."""
    return x, recipe or Recipe(), rowwise, columnwise
