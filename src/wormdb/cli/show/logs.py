"""What a long-running command logs: lines for people, or lines of JSON for what gathers them."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

__all__ = ["LOG_FORMATS", "JsonLines", "LogFormat", "log_to_stderr"]

LogFormat = Literal["text", "json"]
LOG_FORMATS: Final[tuple[LogFormat, ...]] = ("text", "json")
_TEXT: Final = "%(asctime)s %(levelname)s %(message)s"


class JsonLines(logging.Formatter):
    """One object a line: `time` in UTC, `level`, `logger`, `message`, and `error` with its trace if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a break in it."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": time, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def log_to_stderr(form: LogFormat) -> None:
    """Log what happens on standard error, from now on. What a program has set up before stays."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
