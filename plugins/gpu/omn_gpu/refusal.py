"""What a device that does not answer says, whatever it was asked through."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod

import attrs

_ABSENT = (errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL)
_CLOSED = (errno.EACCES,)
_GONE = (errno.ENODEV, errno.ENXIO)


class DeviceRefusal(Exception, ABC):
    """A device did not answer."""

    @property
    @abstractmethod
    def is_unsupported(self) -> bool:
        """Whether the device has no such thing."""

    @property
    @abstractmethod
    def is_forbidden(self) -> bool:
        """Whether it is closed to this user."""

    @property
    @abstractmethod
    def is_loss_of_device(self) -> bool:
        """Whether the device was taken away."""


@attrs.define(eq=False)
class FileRefusal(DeviceRefusal):
    """A file of a device that could not be read: its path, and the kernel's error."""

    path: str
    code: int
    text: str

    @classmethod
    def of(cls, path: str, error: OSError) -> FileRefusal:
        """Make it of the error of a call."""
        return cls(path, error.errno or 0, error.strerror or "")

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"

    @property
    def is_unsupported(self) -> bool:
        """Whether the file is not there, or its driver does not fill it for this device."""
        return self.code in _ABSENT

    @property
    def is_forbidden(self) -> bool:
        """Whether its mode keeps this user out. While it resets its device amdgpu answers EPERM, which is not that."""
        return self.code in _CLOSED

    @property
    def is_loss_of_device(self) -> bool:
        """Whether the device that the open file was of is gone."""
        return self.code in _GONE
