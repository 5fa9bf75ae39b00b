"""Starts Ray on this machine, or joins the cluster of RAY_ADDRESS."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path

import ray
import torch

import questloop
from questloop.errors import DiskFullError, UnavailableError, UsageError
from questloop.redaction import shown
from questloop.settings import TrainingSettings
from questloop.training.autoscale import Layout, choose_layout

_OBJECT_STORE_BYTES = 400 * 2**20
_LEAST_ROOM_BYTES = 2**20
_KNOCK_S = 5.0
_LONGEST_BASE = 36
# One thread per runner: emulators fill the cores, and a pool in every process would only fight over them.
_WORKER_ENV = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def start_ray(settings: TrainingSettings) -> Layout:
    """Start or join Ray, unless this process has done so; how runners are laid out on it.

    Raises `UnavailableError` where RAY_ADDRESS does not answer.
    """
    if not ray.is_initialized():
        logging.getLogger("ray").setLevel(logging.ERROR)
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        with _own_signals():
            if settings.ray_address:
                _join(settings.ray_address)
            else:
                _start(settings)
    if settings.ray_address:
        cores = int(ray.cluster_resources().get("CPU", 1))
        return choose_layout(settings, cores, ray.cluster_resources().get("memory", 4e9) / 2**20)
    return choose_layout(settings)


def require_gpu(settings: TrainingSettings) -> None:
    """Raise `UsageError` where LEARNER_GPUS asks for what is not here."""
    if settings.learner_gpus > 1:
        raise UsageError(f"LEARNER_GPUS={settings.learner_gpus:g}: one learner uses one GPU; set 1")
    if settings.learner_gpus and not torch.cuda.is_available():
        built = f"has no CUDA (version {torch.__version__})" if torch.version.cuda is None else "sees none"
        raise UsageError(
            f"LEARNER_GPUS={settings.learner_gpus:g}: no GPU can be used here, since PyTorch {built}; "
            "set LEARNER_GPUS=0, or run where `nvidia-smi` lists one and torch is a CUDA build"
        )


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Keep the standard error of Ray's C++ core off the terminal, unless the block fails.

    It warns there of runners that could not be restarted if this process lost their configuration. What
    Python prints on `sys.stderr` meanwhile, such as the bar of progress, is shown.
    """
    sys.stderr.flush()
    real = os.dup(2)
    with tempfile.TemporaryFile() as kept, open(os.dup(real), "w", encoding="utf-8") as screen:
        os.dup2(kept.fileno(), 2)
        try:
            with redirect_stderr(screen):
                yield
        except BaseException:
            kept.seek(0)
            os.write(real, kept.read())
            raise
        finally:
            os.dup2(real, 2)
            os.close(real)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this process's signal handlers: Ray takes SIGTERM for itself when it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _join(address: str) -> None:
    if address.startswith(("http://", "https://")):
        raise UsageError(
            f"RAY_ADDRESS={shown(address)}: the dashboard's address, where `questloop epoch` submits "
            "jobs; to train from here give the head's, such as 10.0.0.1:6379 or ray://10.0.0.1:10001"
        )
    _knock(address)
    try:
        ray.init(address=address, runtime_env={"env_vars": _WORKER_ENV}, log_to_driver=False)
    except Exception as error:  # Ray raises bare ones too, such as that a node timed out
        raise UnavailableError(f"RAY_ADDRESS={address}: {_line(error)}") from None


def _knock(address: str) -> None:
    """Raise at once where nothing listens: Ray itself tries for minutes. `auto` and the like name no port."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_KNOCK_S).close()
    except (OSError, OverflowError, UnicodeError) as error:  # the latter two: no port, no name
        why = getattr(error, "strerror", None) or error
        raise UnavailableError(f"RAY_ADDRESS={address}: {why}; start a head there, or unset it") from None


def _start(settings: TrainingSettings) -> None:
    start_local(choose_layout(settings).runners)


def start_local(runners: int) -> None:
    """Start Ray in this machine, with room for so many runners whatever its cores."""
    os.environ.update(_WORKER_ENV)
    source = str(Path(questloop.__file__).parent.parent)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if source not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([source, *filter(None, known)])
    folder = ray_folder()
    where = folder or f"{_temporary()}/ray"
    _require_room(_temporary() if folder is None else str(Path(folder).parent))
    try:
        ray.init(
            address="local",
            _temp_dir=folder,
            num_cpus=runners,
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except Exception as error:  # as above
        raise UnavailableError(
            f"Ray did not start here: {_line(error)}; look at free memory, at /dev/shm and at "
            f"{where}/session_latest/logs"
        ) from None


def _temporary() -> str:
    """Where Ray keeps its files: it takes TMPDIR as it is, where Python looks elsewhere if that is full."""
    return os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or tempfile.gettempdir()


def _require_room(place: str) -> None:
    """Raise where Ray would wait for a file that it has no room to write."""
    with suppress(OSError):  # Ray makes it
        if shutil.disk_usage(place).free < _LEAST_ROOM_BYTES:
            raise DiskFullError(
                f"Ray cannot start: the disk of {place} is full; free space there, or set TMPDIR to another"
            )


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def ray_folder() -> str | None:
    """Where Ray keeps its sockets; None: in its own place below TMPDIR.

    A socket's path has 107 bytes at most, and Ray's names take 68 of them; it takes ASCII only. Where TMPDIR
    (of Slurm, of macOS) does not fit, a folder of this user below /tmp does.
    """
    given, base = os.environ.get("RAY_TMPDIR"), _temporary()
    if base.isascii() and len(base) <= _LONGEST_BASE:
        return None
    if given:
        raise UnavailableError(
            f"RAY_TMPDIR={given}: too long for Ray's sockets or not ASCII; name a short one"
        )
    for other in ("/tmp", "/var/tmp", "/dev/shm"):
        if os.access(other, os.W_OK | os.X_OK):
            return f"{other}/questloop-ray-{os.getuid()}"
    raise UnavailableError(
        f"TMPDIR={base}: too long for Ray's sockets or not ASCII; set TMPDIR to a short path"
    )
