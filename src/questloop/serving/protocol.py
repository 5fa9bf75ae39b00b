"""The part of the OpenAI chat protocol that the local server speaks."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

PNG_URL = "data:image/png;base64,"


class Message(BaseModel):
    """A chat message; content is text or a list of parts."""

    model_config = ConfigDict(extra="ignore")

    role: str
    content: str | list[dict[str, Any]] = ""

    @property
    def text(self) -> str:
        """All text of the message."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(str(part.get("text", "")) for part in self.content if part.get("type") == "text")

    @property
    def png(self) -> bytes | None:
        """The first picture of the message, where it is an inline PNG."""
        for part in self.content if isinstance(self.content, list) else ():
            image = part.get("image_url")
            url = image.get("url", "") if isinstance(image, dict) else ""
            if url.startswith(PNG_URL):
                try:
                    return base64.b64decode(url.removeprefix(PNG_URL), validate=True)
                except binascii.Error:
                    return None
        return None


class ChatRequest(BaseModel):
    """A request of `/v1/chat/completions`; what is not named here is ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str
    messages: list[Message] = Field(min_length=1)
    n: int = Field(1, ge=1, le=128)

    @property
    def system(self) -> str:
        """The text of the system message; empty where there is none."""
        return next((message.text for message in self.messages if message.role == "system"), "")

    @property
    def user(self) -> Message:
        """The last message of the user."""
        return next((m for m in reversed(self.messages) if m.role == "user"), self.messages[-1])


def completion(request: ChatRequest, texts: Sequence[str], request_id: str, created: int) -> dict[str, Any]:
    """The response body. No tokens are counted: no model was run."""
    return {
        "id": f"chatcmpl-{request_id}",
        "object": "chat.completion",
        "created": created,
        "model": request.model,
        "choices": [
            {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for index, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }
