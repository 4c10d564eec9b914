"""Secrets of configs: found just before the handler is called, and nowhere else."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import pytest

from pgwhen import vault as vaults
from pgwhen.claim import Claim
from pgwhen.context import Context
from pgwhen.database import Database
from pgwhen.errors import ActionError
from pgwhen.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pgwhen.settings import Settings

    from .conftest import Process, Shop


class Names:
    """A database that knows the secrets of accounts by names, and counts who asks."""

    def __init__(self, **names: str) -> None:
        self.names = names
        self.asked: list[str] = []

    async def secret_names(self, line_oa_id: str) -> Mapping[str, str]:
        """As the database's."""
        self.asked.append(line_oa_id)
        return self.names


def a_vault(names: Names | None = None, directory: Path | str = "", **environment: str) -> Vault:
    """Return a vault over *environment* and *directory*."""
    return Vault(cast("Database", names or Names()), str(directory), environment)


def a_claim(config: dict[str, Any]) -> Claim:
    """Return a claim of an action with *config*."""
    context = Context(
        1, "send", 1, "u", "shop7", "default", None, None, None,
        datetime(2030, 1, 1, tzinfo=timezone.utc), str(UUID(int=1)),
    )  # fmt: skip
    return Claim(str(UUID(int=2)), context, config, 60.0)


async def revealed(vault: Vault, config: Any) -> Any:
    """Return *config* as a handler sees it; raises what the attempt fails with."""
    opened, lacking = await vault.opened([a_claim({"x": config})])
    for _, error in lacking:
        raise error
    return opened[0].config["x"]


TOKEN: Any = {"$secret": "line-token.2"}


async def test_secret_is_found_in_the_environment() -> None:
    """Under its name in capitals, with _ for what a variable cannot have, wherever it stands."""
    vault = a_vault(PGWHEN_SECRET_LINE_TOKEN_2="abc\n")
    config = {"a": [TOKEN, {"b": TOKEN}], "text": "$secret", "n": 5, "none": None}

    assert await revealed(vault, config) == {
        "a": ["abc\n", {"b": "abc\n"}],
        "text": "$secret",
        "n": 5,
        "none": None,
    }
    assert config["a"] == [TOKEN, {"b": TOKEN}]


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"abc", "abc"),
        (b"abc\n", "abc"),
        (b"abc\r\n", "abc"),
        (b"a\nb\n\n", "a\nb\n"),
        (b" abc ", " abc "),
        ("กุญแจ".encode(), "กุญแจ"),
        (b"x" * 65536, "x" * 65536),
    ],
)
async def test_secret_is_found_in_a_file(tmp_path: Path, content: bytes, value: str) -> None:
    """What stands in the file of its name, but for one newline at the end."""
    (tmp_path / "line-token.2").write_bytes(content)

    assert await revealed(a_vault(directory=tmp_path), TOKEN) == value


async def test_environment_goes_before_files(tmp_path: Path) -> None:
    """An empty variable is none."""
    (tmp_path / "line-token.2").write_text("file")

    vault = a_vault(directory=tmp_path, PGWHEN_SECRET_LINE_TOKEN_2="variable")
    assert await revealed(vault, TOKEN) == "variable"
    vault = a_vault(directory=tmp_path, PGWHEN_SECRET_LINE_TOKEN_2="")
    assert await revealed(vault, TOKEN) == "file"


async def test_rotated_file_is_read_anew(tmp_path: Path) -> None:
    """As Kubernetes does it: the name is a link into a directory that another one replaces."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "line-token.2").write_text(name)
    (tmp_path / "..data").symlink_to("old")
    (tmp_path / "line-token.2").symlink_to("..data/line-token.2")
    vault = a_vault(directory=tmp_path)
    assert await revealed(vault, TOKEN) == "old"

    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").replace(tmp_path / "..data")

    assert await revealed(vault, TOKEN) == "new"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe", b"x" * 65537])
async def test_missing_secret_fails_the_attempt(tmp_path: Path, content: bytes | None) -> None:
    """It is tried again: the secret may be mounted later. The words say what is missing where."""
    if content is not None:
        (tmp_path / "line-token.2").write_bytes(content)

    with pytest.raises(ActionError) as caught:
        await revealed(a_vault(directory=tmp_path), TOKEN)

    assert str(caught.value) == (
        'secret "line-token.2" is neither in PGWHEN_SECRET_LINE_TOKEN_2 nor in a file '
        "in PGWHEN_SECRETS_DIR"
    )
    assert (caught.value.type, caught.value.non_retryable) == ("SecretMissing", False)


async def test_missing_directory_is_named() -> None:
    """Whoever forgot to set it is told."""
    with pytest.raises(ActionError, match="PGWHEN_SECRETS_DIR is unset"):
        await revealed(a_vault(), TOKEN)


@pytest.mark.parametrize(
    "name",
    ["", "..", "../x", "/etc/passwd", "a/b", ".hidden", "-x", "a b", "x\n", "x\0", "n" * 201, 5],
)
async def test_name_leads_nowhere_else(tmp_path: Path, name: Any) -> None:
    """Not even where a rule has got by the check of its config, nor by an account's names."""
    (tmp_path / "x").write_text("outside")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / ".hidden").write_text("hidden")

    with pytest.raises(ActionError) as caught:
        await revealed(a_vault(directory=tmp_path / "secrets"), {"$secret": name})
    assert caught.value.type == "SecretMissing"

    if isinstance(name, str):
        names = Names(token=name)
        with pytest.raises(ActionError, match="that no secret can have"):
            await revealed(a_vault(names, tmp_path / "secrets"), {"$secret": "token"})


async def test_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Only a file is read."""
    os.mkfifo(tmp_path / "line-token.2")

    with pytest.raises(ActionError, match="nor in a file"):
        await revealed(a_vault(directory=tmp_path), TOKEN)


async def test_malformed_secret_is_not_repeated() -> None:
    """What stands beside the name may be what was to be hidden."""
    with pytest.raises(ActionError) as caught:
        await revealed(a_vault(PGWHEN_SECRET_X="abcd"), {"$secret": "x", "value": "s3cr3t"})

    assert caught.value.type == "SecretMissing"
    assert "s3cr3t" not in str(caught.value)


async def test_account_has_names_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for once in a while, only where a config has a secret; others keep their names."""
    names = Names(token="shop7-token")
    vault = a_vault(names, PGWHEN_SECRET_SHOP7_TOKEN="seven", PGWHEN_SECRET_OTHER="other")

    assert await revealed(vault, "no secret") == "no secret"
    assert names.asked == []
    config = [{"$secret": "token"}, {"$secret": "other"}]
    assert await revealed(vault, config) == ["seven", "other"]
    assert await revealed(vault, config) == ["seven", "other"]
    assert names.asked == ["shop7"]

    names.names = {"token": "other"}
    monkeypatch.setattr(vaults, "MEMORY", 0.0)
    vault = a_vault(names, PGWHEN_SECRET_SHOP7_TOKEN="seven", PGWHEN_SECRET_OTHER="other")
    assert await revealed(vault, config) == ["other", "other"]
    names.names = {"token": "shop7-token"}
    assert await revealed(vault, config) == ["seven", "other"]


async def test_lacking_one_harms_no_other() -> None:
    """Of a batch, the others go on; what has no secret is the claim that came."""
    plain, good, bad = (a_claim({"x": x}) for x in ("plain", TOKEN, {"$secret": "none"}))

    opened, lacking = await a_vault(PGWHEN_SECRET_LINE_TOKEN_2="abcd").opened([bad, plain, good])

    assert [claim.config for claim in opened] == [{"x": "plain"}, {"x": "abcd"}]
    assert [(claim, error.type) for claim, error in lacking] == [(bad, "SecretMissing")]


async def test_deep_config_is_no_trouble() -> None:
    """However deep it is: what has no secrets is left as it is."""
    deep: Any = {}
    for _ in range(20_000):
        deep = [deep]

    assert await revealed(a_vault(PGWHEN_SECRET_LINE_TOKEN_2="abcd"), [deep, TOKEN]) == [
        deep, "abcd",
    ]  # fmt: skip


USING = """
import threading
from pgwhen import ActionError, Result, action

@action("echo")
async def echo(ctx, config):
    ctx.logger.info("token is %s", config["token"])
    return {"sent": config["token"], "length": len(config["token"])}

@action("refuse")
def refuse(ctx, config):
    raise ActionError("401 for " + config["token"], non_retryable=True, details=config)

@action("many", batch=10)
async def many(batch):
    return [Result(len(config["token"])) for _, config in batch]

@action("large")
async def large(ctx, config):
    return "x" * config["size"]
"""


def test_secret_stays_in_the_listener(listener: Process, shop: Shop, tmp_path: Path) -> None:
    """The handler has it; neither a row nor a line of the log has."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "shop-token").write_text("s3cr3t-value\n")
    shop.conn.execute(
        'update pgwhen.account set secrets = \'{"token": "shop-token"}\''
        " where line_oa_id = 'default'"
    )
    for kind in ("echo", "refuse"):
        shop.rule(kind, {"token": {"$secret": "token"}})
    listener.start(USING, PGWHEN_SECRETS_DIR="secrets", PGWHEN_LOG_LEVEL="debug")
    for kind in ("echo", "refuse"):
        shop.submit(kind)

    echoed, refused = sorted(shop.wait_ended(2), key=lambda row: row["action_type"])

    assert echoed["result"] == {"sent": "[secret token]", "length": len("s3cr3t-value")}
    assert refused["error_message"] == "ActionError: 401 for [secret token]"
    assert {str(row["action_config"]) for row in (echoed, refused)} == {
        "{'token': {'$secret': 'token'}}"
    }
    assert listener.stop() == 0
    assert "token is [secret token]" in listener.log
    assert "s3cr3t" not in listener.log
    tables = shop.conn.execute(
        "select n.nspname, c.relname from pg_class as c"
        " inner join pg_namespace as n on n.oid = c.relnamespace"
        " where n.nspname in ('pgwhen', '_pgwhen') and c.relkind = 'r'"
    ).fetchall()
    assert len(tables) > 20
    for schema, table in tables:
        rows = shop.conn.execute(f'select t::text from "{schema}"."{table}" as t').fetchall()
        assert not [row for row in rows if "s3cr3t" in row[0]], table


def test_secret_that_is_mounted_late_is_found(
    listener: Process, shop: Shop, tmp_path: Path
) -> None:
    """Its actions are tried again; those beside them in the batch are done at once."""
    (tmp_path / "secrets").mkdir()
    shop.set("retrySeconds", 0.01)
    shop.set("maxRetries", 1_000_000)
    shop.rule("many", {"token": "plain"}, "plain")
    shop.rule("many", {"token": {"$secret": "late"}}, "late")
    listener.start(USING, PGWHEN_SECRETS_DIR="secrets")
    shop.conn.execute(
        "insert into pgwhen.form_submission (user_id, form_id) values ('u', 'late'), ('v', 'plain')"
    )
    listener.wait_log("action failed action=.*type=many.*", times=2)
    assert [row["result"] for row in shop.wait_ended()] == [len("plain")]
    [(error,)] = shop.conn.execute(
        "select distinct error_message from pgwhen.scheduled_action where retry_count > 0"
    ).fetchall()
    assert error.startswith('SecretMissing: secret "late" is neither in PGWHEN_SECRET_LATE nor in ')

    (tmp_path / "new").write_text("mounted")
    (tmp_path / "new").rename(tmp_path / "secrets" / "late")

    assert [row["result"] for row in shop.wait_ended(2)] == [len("mounted"), len("plain")]


def test_result_over_the_limit_is_refused_alone(listener: Process, shop: Shop) -> None:
    """By the database, whose setting it is: those beside it are kept."""
    shop.set("resultLimit", 100)
    shop.rule("large", {"size": 98}, "fits")
    shop.rule("large", {"size": 99}, "does not")
    listener.start(USING)
    shop.conn.execute(
        "insert into pgwhen.form_submission (user_id, form_id)"
        " select 'u' || n, case n when 33 then 'does not' else 'fits' end"
        " from generate_series(1, 60) as n"
    )

    rows = shop.wait_ended(60)

    assert sum(row["status"] == "done" for row in rows) == 59
    [refused] = [row for row in rows if row["status"] == "failed"]
    assert refused["error_message"] == (
        "ResultTooLarge: the handler's result cannot be kept: the result has 101 bytes, more than "
        "resultLimit, 100. Store it where it belongs, a table or a bucket of yours, and give back "
        "a reference."
    )
    assert (refused["retry_state"], refused["retry_count"]) == ("non_retryable", 1)


async def test_body_is_kept_with_its_key(settings: Settings) -> None:
    """The first one, for good."""
    database = Database(settings)
    await database.open()
    key = str(uuid4())

    kept = [await database.keep_body(key, sha256(body).digest()) for body in (b"a", b"a", b"b")]

    await database.aclose()
    assert kept == [True, True, False]
