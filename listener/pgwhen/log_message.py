"""The action type `log_message`: write a text to the listener's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import ActionError
from .handlers import action

if TYPE_CHECKING:
    from .context import Config, Context

SCHEMA = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string"}},
}


@action("log_message", config_schema=SCHEMA)
async def log_message(ctx: Context, config: Config) -> None:
    """Log `text` as it stands, with the user it is for."""
    text = config.get("text")
    if not isinstance(text, str):
        raise ActionError("log_message needs a text", type="BadConfig", non_retryable=True)
    ctx.logger.info("to %s: %s", ctx.user_id, text)
