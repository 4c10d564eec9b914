"""The embedded server: which one is taken, and that it keeps to itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgwhen import embedded
from pgwhen.embedded import EmbeddedError, Installation, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALLATIONS = [*embedded.local_installations(), *embedded.wheel_installations()]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to lend its server")


@pytest.fixture
def directory() -> Iterator[Path]:
    """Yield a directory that other users can reach, as pytest's own cannot be."""
    path = Path(tempfile.mkdtemp(prefix="pgwhen-test-"))
    path.chmod(0o711)
    yield path
    Server(path).stop()
    shutil.rmtree(path)


@pytest.fixture
def server(directory: Path) -> Server:
    """Return a server with a new cluster, not started."""
    server = Server(directory)
    server.create()
    return server


def ask(server: Server, query: str) -> str:
    """Run a query in a session of its own and return its one value as text."""
    with psycopg.connect(server.conninfo, autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
        return str(row[0]) if row else ""


def found(monkeypatch: pytest.MonkeyPatch, local: list[Installation]) -> None:
    """Let the search find these servers at the paths that they name, and 16 and 18 in the wheel."""
    by_place = {installation.bin: installation for installation in local}
    monkeypatch.setattr(embedded, "WHERE_SERVERS_ARE", ("/no/such/place",))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(Path, "glob", lambda *_: iter(by_place))
    monkeypatch.setattr(embedded, "installation_at", by_place.get)
    wheel = [Installation(Path("/wheel18"), 18, False), Installation(Path("/wheel16"), 16, False)]
    monkeypatch.setattr(embedded, "wheel_installations", lambda: wheel)


def at(path: str, major: int, *, cron: bool = False) -> Installation:
    return Installation(Path(path), major, cron)


@pytest.mark.parametrize(
    ("local", "major", "taken"),
    [
        ([at("/a", 17), at("/b", 15, cron=True)], None, "/b"),
        ([at("/a", 15), at("/b", 17)], None, "/b"),
        ([at("/a", 14, cron=True), at("/b", 15)], None, "/b"),
        ([at("/a", 14)], None, "/wheel18"),
        ([], None, "/wheel18"),
        ([at("/a", 17, cron=True)], 16, "/wheel16"),
    ],
    ids=["cron-first", "newest", "too-old", "only-too-old", "wheel", "that-made-the-cluster"],
)
def test_takes_the_best_server(
    monkeypatch: pytest.MonkeyPatch, local: list[Installation], major: int | None, taken: str
) -> None:
    found(monkeypatch, local)
    assert embedded.best_installation(major).bin == Path(taken)


def test_says_what_to_install_where_there_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, [])
    with pytest.raises(EmbeddedError, match="there is no PostgreSQL 17 here"):
        embedded.best_installation(17)


@pytest.mark.parametrize(
    "installation", INSTALLATIONS, ids=lambda found: f"{found.major}-{found.bin.parent.name}"
)
def test_runs_every_server_of_this_machine(directory: Path, installation: Installation) -> None:
    server = Server(directory, installation)
    server.create()
    server.start()
    assert ask(server, "show server_version_num").startswith(str(installation.major))
    assert ask(server, "show shared_preload_libraries") == (
        "pg_cron" if installation.has_cron else ""
    )
    server.stop()
    assert not server.running


def test_is_alone_on_a_socket_that_only_its_user_reaches(server: Server) -> None:
    server.start()
    assert ask(server, "show listen_addresses") == ""
    assert server.socket_directory.stat().st_mode & 0o777 == 0o700
    assert server.data.stat().st_mode & 0o777 == 0o700


def test_does_not_heed_variables_that_name_another_cluster(
    monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    for name, value in {"PGDATA": "/elsewhere", "PGPORT": "1", "PGHOST": "elsewhere"}.items():
        monkeypatch.setenv(name, value)
    server = Server(directory)
    server.create()
    server.start()
    assert ask(server, "show data_directory") == str(server.data)


def test_has_after_a_restart_what_was_committed(server: Server) -> None:
    server.start()
    with psycopg.connect(server.conninfo) as conn:
        conn.execute("create table kept as select 42 as answer")
    server.stop()
    again = Server(server.directory)
    again.start()
    assert ask(again, "select answer from kept") == "42"


def test_create_replaces_a_cluster_even_while_it_runs(server: Server) -> None:
    server.start()
    before = ask(server, "select system_identifier from pg_control_system()")
    server.create()
    assert not server.running
    server.start()
    assert ask(server, "select system_identifier from pg_control_system()") != before


def test_puts_the_socket_elsewhere_where_its_path_would_be_too_long(directory: Path) -> None:
    server = Server(directory / ("long" * 25))
    server.create()
    server.start()
    assert ask(server, "select 1") == "1"
    socket_directory = server.socket_directory
    assert socket_directory.is_dir()
    server.stop()
    assert not socket_directory.exists()


def test_refuses_a_directory_that_holds_something_else(directory: Path) -> None:
    precious = directory / "data"
    precious.mkdir()
    with pytest.raises(EmbeddedError, match="holds something else"):
        Server(directory).create()
    assert precious.is_dir()


def test_refuses_a_directory_in_use(directory: Path) -> None:
    with (
        embedded.only_user(directory),
        pytest.raises(EmbeddedError, match="another process is using"),
        embedded.only_user(directory),
    ):
        pass


def test_says_what_the_server_said_when_it_does_not_start(server: Server) -> None:
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        server.start({"no_such_setting": "on"})


@as_root
def test_copies_a_server_that_only_root_can_reach(directory: Path) -> None:
    wheel = embedded.wheel_installations()
    if not wheel:
        pytest.skip("the wheel is not installed")
    package, closed = wheel[0].bin.parents[1], directory / "closed"
    for part in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, closed / part.name, symlinks=True)
    closed.chmod(0o700)
    programs = closed / wheel[0].bin.relative_to(package.parent)
    server = Server(directory / "open", Installation(programs, wheel[0].major, has_cron=False))
    server.create()
    server.start()
    assert server.directory in server.installation.bin.parents
    assert ask(server, "select 1") == "1"
    server.stop()


@as_root
def test_says_so_where_the_servers_user_cannot_reach_the_directory(directory: Path) -> None:
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedError, match=r"cannot run as root, and .* cannot reach"):
        Server(closed / "demo").create()


@as_root
def test_runs_as_a_user_without_privileges(server: Server) -> None:
    server.start()
    pid = (server.data / "postmaster.pid").read_text().split()[0]
    uid = subprocess.check_output(["ps", "-o", "uid=", "-p", pid], text=True)
    assert int(uid) == embedded.unprivileged_user().pw_uid != 0
