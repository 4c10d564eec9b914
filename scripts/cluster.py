"""The private cluster of this checkout: `make db`, `make db-stop`, `make db-drop`.

Its data, socket and log are below `.pg/`; where root works in a place that the server's user cannot
reach, below /var/tmp instead. `.pg/env` says how to connect. Whatever else runs on the machine is
left alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgwhen.deploy import DeployError, deploy
from pgwhen.embedded import Installation, Server, local_installations, reachable, unprivileged_user

ROOT = Path(__file__).resolve().parents[1]
ENV = ROOT / ".pg" / "env"

DATABASE = "pgwhen"
EXTENSIONS = ("pg_cron", "pg_stat_statements", "pgtap", "plpgsql_check")
PACKAGES = (
    "postgresql-{}",
    "postgresql-{}-cron",
    "postgresql-{}-pgtap",
    "postgresql-{}-plpgsql-check",
)

SETTINGS = {
    "shared_preload_libraries": "pg_cron,plpgsql_check,pg_stat_statements",
    "cron.database_name": DATABASE,
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "max_wal_size": "4GB",
    "shared_buffers": "256MB",
}


def main() -> int | str:
    """Start, stop or drop the cluster, as the one argument says."""
    match sys.argv[1:]:
        case ["start"]:
            start(Server(directory(), installation()))
        case ["stop"]:
            stop()
        case ["drop"]:
            stop()
            shutil.rmtree(directory(), ignore_errors=True)
            shutil.rmtree(ENV.parent, ignore_errors=True)
        case _:
            return "start, stop or drop?"
    return 0


def start(server: Server) -> None:
    """Start *server*, bring its database to this checkout's version, and write `.pg/env`."""
    if server.major is None:
        create(server)
    server.start(SETTINGS)
    conninfo = make_conninfo(server.conninfo, dbname=DATABASE)
    with psycopg.connect(conninfo) as conn:
        for name in EXTENSIONS:
            conn.execute(sql.SQL("create extension if not exists {}").format(sql.Identifier(name)))
    environment = server.environment | {"PGDATABASE": DATABASE}
    ENV.parent.mkdir(exist_ok=True)
    ENV.write_text("".join(f"{name}={value}\n" for name, value in environment.items()))
    try:
        deploy(conninfo)
    except DeployError as exc:
        sys.exit(f"{exc}\nThe private cluster can be made anew: make db-drop db")
    print(f"a server is running; connect with: env $(cat {ENV.relative_to(ROOT)}) psql")


def create(server: Server) -> None:
    """Make the cluster and its database, which must be there when pg_cron starts."""
    server.create()
    server.start()
    with psycopg.connect(server.conninfo, autocommit=True) as conn:
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
    server.stop()


def stop() -> None:
    """Stop the cluster if there is one."""
    if directory().exists():
        Server(directory()).stop()
    ENV.unlink(missing_ok=True)


def directory() -> Path:
    """Return where the cluster lives."""
    if os.geteuid() or reachable(ROOT, unprivileged_user()):
        return ROOT / ".pg"
    return Path("/var/tmp/pgwhen-" + hashlib.sha256(bytes(ROOT)).hexdigest()[:12])  # noqa: S108


def installation() -> Installation:
    """Return a server with every extension that the tests need, installed now if need be."""
    found = [server for server in local_installations() if has_extensions(server)]
    if not found:
        packages = [name.format(debian_major()) for name in PACKAGES]
        subprocess.run([ROOT / "scripts" / "packages", *packages, "pgbouncer"], check=True)
        found = [server for server in local_installations() if has_extensions(server)]
    return found[0]


def has_extensions(server: Installation) -> bool:
    """Whether *server* has all of EXTENSIONS."""
    share = subprocess.run(
        [server.bin / "pg_config", "--sharedir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return all((Path(share) / "extension" / f"{name}.control").exists() for name in EXTENSIONS)


def debian_major() -> str:
    """Return the major version of PostgreSQL that this Debian or Ubuntu carries."""
    policy = subprocess.run(
        ["apt-cache", "policy", "postgresql"], capture_output=True, text=True, check=False
    ).stdout
    candidate = re.search(r"Candidate: (\d+)", policy)
    return candidate[1] if candidate else "15"


if __name__ == "__main__":
    sys.exit(main())
