"""The life of a listener: start, work, end.

Beside the pump run four tasks: one keeps the listening connection, one tells outcomes, one ticks,
one says that this worker is there. Each runs for ever, so one that ends, however it does, ends
the process with an error, never in silence.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .connection import patiently
from .database import Database
from .dispatcher import Dispatcher
from .lifeline import Tools
from .outcome import place
from .pump import Pump
from .wakeup import Doorbell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .handlers import Handler
    from .settings import Settings

log = logging.getLogger(__name__)

#: Seconds between two announcements, and between two ticks when nothing is known to be due.
ANNOUNCE_EVERY = 15.0
TICK_EVERY = 1.0
#: Seconds before the next tick after one that found nothing, even if something is said to be due.
TICK_GAP = 0.1
#: Seconds that the last outcomes may take to be told.
LAST_WORDS = 5.0


class Daemon:
    """One listener. *handlers* by action type."""

    def __init__(self, settings: Settings, handlers: Mapping[str, Handler]) -> None:
        self._settings = settings
        self._handlers = handlers
        self._stop = asyncio.Event()
        self._presented = asyncio.Event()
        self._time_is_due = asyncio.Event()
        self._database = Database(settings)
        self._doorbell = Doorbell(settings)
        self._tools = Tools.of(settings, self._database)
        self._dispatcher = Dispatcher(settings, handlers, self._tools, self._doorbell.nudge)
        self._pump = Pump(
            settings, self._database, self._doorbell, self._dispatcher, self._time_is_due
        )
        #: Whether a handler still runs that nothing in this process can end.
        self.stuck = False

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT; a second one ends the process where it stands.

        Raises what ended a task that should never end.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_on_stray)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        await self._database.open()
        self._tools.heart.start(self._dispatcher.lost)
        try:
            await self._work()
        finally:
            self.stuck = not await self._dispatcher.drain(0)
            await self._tools.heart.stop()
            await self._doorbell.close()
            await self._database.aclose()

    def stop(self) -> None:
        """Begin to end, as a first signal does."""
        self._stop.set()
        self._presented.set()
        self._doorbell.nudge()

    async def _work(self) -> None:
        side = [self._dispatcher.settler.run, self._tick, self._present]
        if self._settings.poll is None:
            side.append(self._doorbell.keep_open)
        serving = asyncio.create_task(self._serve())
        tasks = [serving, *(asyncio.create_task(run(), name=run.__qualname__) for run in side)]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
            if serving not in ended:
                raise RuntimeError(f"{ended.pop().get_name()} ended by itself")
        finally:
            await _cancel(tasks)

    async def _serve(self) -> None:
        """Take work once the database knows this worker: in a copy it refuses, and all ends."""
        await self._presented.wait()
        await self._pump.run(self._stop)
        await self._dispatcher.drain(self._settings.grace)
        try:
            await asyncio.wait_for(self._dispatcher.settler.told(), LAST_WORDS)
        except asyncio.TimeoutError:
            log.warning("%d outcomes could not be told", len(self._dispatcher.settler))
        log.info("stopped")

    async def _present(self) -> None:
        """Make the handlers known, and say again and again that this worker is there."""
        version = await patiently("register", self._register)
        self._presented.set()
        served = ", ".join(sorted(self._handlers)) or "no Python actions"
        fields = {"database": version, "worker": self._settings.worker}
        log.info("serving %s", served, extra={"fields": fields})
        while True:
            await asyncio.sleep(ANNOUNCE_EVERY)
            await patiently("announce", self._announce)

    async def _register(self) -> str:
        for handler in self._handlers.values():
            await self._database.register_action(
                handler.name, handler.config_schema, handler.options
            )
        await self._announce()
        return await self._database.version()

    async def _announce(self) -> None:
        await self._database.announce(list(self._handlers))

    async def _tick(self) -> None:
        while True:
            self._time_is_due.clear()
            if await patiently("tick", self._database.tick):
                continue
            await asyncio.sleep(TICK_GAP)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._time_is_due.wait(), TICK_EVERY)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            os._exit(128 + number)
        log.info("stopping", extra={"fields": {"signal": number.name}})
        self.stop()


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """End *tasks*. Before Python 3.12 wait_for may lose a cancellation, so it is repeated."""
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=0.1)


def _on_stray(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a task raises that a handler has left behind: not its message."""
    exc = context.get("exception")
    fields = {"what": context["message"]}
    if exc is not None:
        fields |= {"error": type(exc).__name__, "at": str(place(exc))}
    log.error(
        "left behind in the event loop",
        extra={"fields": fields},
        exc_info=exc if log.isEnabledFor(logging.DEBUG) else None,
    )
