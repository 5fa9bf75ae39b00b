"""What every stage of a run works with: settings, store, lease and run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from questloop.episodes.retention import retire_epochs
from questloop.episodes.run import Run, open_run
from questloop.episodes.session import note_session
from questloop.settings import Settings
from questloop.storage.lease import FencedStore, Lease
from questloop.storage.store import Store, open_store
from questloop.telemetry import logs, metrics


@dataclass(frozen=True)
class Context:
    """A run that this process may write, while `lease` holds: `store` refuses writes after it is lost."""

    settings: Settings
    store: Store
    run: Run
    lease: Lease

    @property
    def fence(self) -> int:
        """Above that of every earlier writer of the store."""
        return self.lease.fence


@contextmanager
def open_context(settings: Settings, *, keep_epochs: int = 0) -> Iterator[Context]:
    """Open the store and its run, and hold the lease meanwhile; publish metrics where METRICS_PORT says so.

    Lines logged inside carry the run. With `keep_epochs` older epochs are removed before it is looked whether
    there is room.

    Raises `LeaseHeld` where another pipeline writes the store, and what `open_store` and `open_run` raise.
    """
    store = open_store(settings.store)
    if not keep_epochs:
        store.check_space()
    run = open_run(store, settings)
    server = metrics.publish(settings.telemetry)
    try:
        with logs.context(run=run.run), Lease.acquire(store, run.run) as lease:
            context = Context(settings, FencedStore(store, lease), run, lease)
            if keep_epochs:
                retire_epochs(context.store, keep_epochs)
                store.check_space()
            note_session(context.store, settings, lease.fence)
            yield context
        if server is not None:
            server.linger(settings.telemetry.metrics_linger_s)
    finally:
        if server is not None:
            server.close()
