"""HTTP Range responses, so that browsers can seek in films."""

from __future__ import annotations

import re

from fastapi import Request, Response


def ranged(request: Request, data: bytes, media_type: str) -> Response:
    """`data`, or the one range of it that is asked for (RFC 9110); a range past its end gets 416."""
    headers = {"Accept-Ranges": "bytes"}
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", request.headers.get("range", ""))
    if found is None or found[0] == "bytes=-":
        return Response(data, media_type=media_type, headers=headers)
    first, last = found[1], found[2]
    start = int(first) if first else max(0, len(data) - int(last))
    stop = min(len(data), int(last) + 1) if first and last else len(data)
    if start >= stop:
        return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return Response(data[start:stop], 206, media_type=media_type, headers=headers)
