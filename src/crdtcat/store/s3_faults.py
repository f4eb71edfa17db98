"""What the errors of S3 and of the libraries below mean.

s3fs turns answers of the server into Python errors and loses detail on the way (a refused condition becomes
`OSError(22)`, like any bad request), but keeps the answer as the cause: its status and code decide here.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

from crdtcat.store import retry
from crdtcat.store.retry import Fault

OK = 200
RANGE_NOT_SATISFIABLE = 416
_CONFLICT, _PRECONDITION_FAILED, _TOO_MANY_REQUESTS = 409, 412, 429

_BY_CODE = {
    "NoSuchKey": Fault.MISSING,
    **dict.fromkeys(("NoSuchBucket", "RequestTimeTooSkewed"), Fault.REFUSED),
    "NoSuchUpload": Fault.UNAVAILABLE,
    "NotImplemented": Fault.UNSUPPORTED,
    **dict.fromkeys(("ExpiredToken", "InvalidToken", "TokenRefreshRequired"), Fault.DENIED),
    **dict.fromkeys(
        (
            "BadDigest",
            "IncompleteBody",
            "InternalError",
            "OperationAborted",
            "RequestTimeout",
            "ServiceUnavailable",
            "SlowDown",
            "Throttling",
            "ThrottlingException",
            "XAmzContentSHA256Mismatch",
        ),
        Fault.TRANSIENT,
    ),
}
_BY_STATUS = {
    401: Fault.DENIED,
    403: Fault.DENIED,
    404: Fault.MISSING,
    408: Fault.TRANSIENT,
    _CONFLICT: Fault.TRANSIENT,
    _TOO_MANY_REQUESTS: Fault.TRANSIENT,
    501: Fault.UNSUPPORTED,
}


def _answer(error: BaseException) -> dict[str, Any]:
    for each in (error, error.__cause__):
        found = getattr(each, "response", None)
        if isinstance(found, dict):
            return found
    return {}


def status(error: BaseException) -> int | None:
    """The HTTP status of the answer behind an error, if there was an answer."""
    found = _answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return found if isinstance(found, int) else None


def says_taken(error: Exception) -> bool:
    """Whether a conditional creation was refused because the name exists, or may exist in a moment."""
    if isinstance(error, FileExistsError) or status(error) in (_CONFLICT, _PRECONDITION_FAILED):
        return True
    return not _answer(error) and isinstance(error, OSError) and error.errno == errno.EINVAL


def classify(error: Exception) -> Fault:
    """The meaning of any error of s3fs, aiobotocore, botocore or aiohttp."""
    answer = _answer(error)
    if answer:
        code, number = str(answer.get("Error", {}).get("Code", "")), status(error) or 0
        fallback = Fault.TRANSIENT if number >= 500 else Fault.REFUSED
        return _BY_CODE.get(code) or _BY_STATUS.get(number) or fallback
    from aiohttp import ClientError as BrokenTransfer  # noqa: PLC0415 (extras, present where s3fs is)
    from botocore import exceptions  # noqa: PLC0415

    denied = (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
    )
    transient = (
        exceptions.ConnectionError,
        exceptions.HTTPClientError,
        exceptions.IncompleteReadError,
        exceptions.FlexibleChecksumError,
        BrokenTransfer,
    )
    if isinstance(error, denied):
        return Fault.DENIED
    return Fault.TRANSIENT if isinstance(error, transient) else retry.classify(error)


def raise_for_deletions(errors: Iterable[dict[str, Any]]) -> None:
    """Raise for names of a multi-object delete that are still there; the answer as a whole says 200."""
    for each in errors:
        code = str(each.get("Code", ""))
        if code == "NoSuchKey":
            continue
        if code == "AccessDenied":
            raise PermissionError(errno.EACCES, f"deleting {each.get('Key')!r}: {code}")
        raise OSError(errno.EBUSY, f"deleting {each.get('Key')!r}: {code}")
