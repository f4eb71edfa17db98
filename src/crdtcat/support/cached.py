"""A property that is worked out once, without a lock.

`functools.cached_property` of Python 3.11 holds one lock per class while it works: heads of different tables
would wait for each other, and a child forked at that moment would wait for ever. What is cached in this
library is a pure function of an immutable value, so two threads that work it out at once get the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 (used as a decorator, like the one it stands for)
    """Decorates a method without arguments; its result is kept in the object's `__dict__`."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | Self:
        if instance is None:
            return self
        value = self._function(instance)
        kept: T = instance.__dict__.setdefault(self._name, value)
        return kept
