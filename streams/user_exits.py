"""Makes errors of what a function of the user raises and no ``except Exception`` catches, such as ``SystemExit``.

``sys.exit()`` in a function ends neither the process nor the application by itself: Python ends the thread with it, in
silence. So it is an error of the user's code wherever it comes out of a thread of the library or out of a callback, and
no handler of records is asked: the one who calls it wants an end.
"""

from __future__ import annotations

import threading
from typing import Any

from processor_api.errors import UserCodeError
from processor_api.texts import error_text
from processor_api.user_code.lines import raised_at
from streams.threads import ThreadKilled


def passes(error: BaseException) -> bool:
    """Whether an exception belongs to somebody else than the code that it came through: Ctrl-C of the main thread, or
    the end of a simulated process."""
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    return isinstance(error, ThreadKilled)


def as_error(error: BaseException, where: str, **place: Any) -> Exception:
    """Returns the error to report for one that a function of the user may have raised: itself, if it is an `Exception`.

    :param where: the words behind "was raised".
    :param place: fields of the error (:class:`~processor_api.errors.StreamsError`).
    """
    if isinstance(error, Exception):
        return error
    text = error_text(error)
    found = UserCodeError(
        f"{type(error).__name__} was raised {where}{': ' * bool(text)}{text}{raised_at(error)}. To end the application,"
        " call its close(), or raise an Exception",
        **place,
    )
    found.__cause__ = error
    return found
