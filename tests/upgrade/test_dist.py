"""What `make dist` builds: every way to install leaves the same database."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

import pgwhen
from pgwhen import deploy as deployer
from scripts.dist import build
from tests.support import Database, dump, psql, without_times

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with what `make dist` builds."""
    directory = tmp_path_factory.mktemp("dist")
    build(directory)
    return directory


def test_single_file_installs(dist: Path, empty_db: Database, template: Database) -> None:
    """Psql alone does what a deploy does, the ledger included."""
    run = psql(empty_db, "-f", str(dist / f"pgwhen-{pgwhen.__version__}.sql"))

    assert (run.returncode, run.stderr) == (0, "")
    assert without_times(dump(empty_db)) == without_times(dump(template))


def test_single_file_changes_nothing_twice(dist: Path, db: Database) -> None:
    """Run again, it finds every migration in the ledger and leaves an equal dump."""
    before = dump(db)

    run = psql(db, "-f", str(dist / f"pgwhen-{pgwhen.__version__}.sql"))

    assert (run.returncode, run.stderr) == (0, "")
    assert dump(db) == before


def test_single_file_upgrades(db: Database, migration: Path) -> None:
    """It runs the migrations that are missing, and only those."""
    run = psql(db, input=deployer.installer())

    assert (run.returncode, run.stderr) == (0, "")
    names = db.connect().execute("select name from _pgwhen.migration order by name").fetchall()
    assert names[-1] == (migration.stem,)
    assert deployer.deploy(db.conninfo).applied == []


def test_single_file_refuses(db: Database) -> None:
    """It refuses what a deploy refuses, with the same code, and changes nothing."""
    with db.connect() as conn:
        conn.execute("update _pgwhen.migration set digest = 'other'")
    before = dump(db)

    run = psql(db, "-v", "VERBOSITY=verbose", input=deployer.installer())

    assert run.returncode == 3
    assert "PW904: migration 0001_baseline has changed" in run.stderr
    assert dump(db) == before


def test_wheel_deploys(dist: Path, tmp_path: Path, empty_db: Database, template: Database) -> None:
    """The wheel carries all SQL, and installs no module that is called otherwise."""
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = "from pgwhen import deploy, sources; print(sources.ROOT); deploy.deploy()"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**empty_db.env, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip() == os.fspath(tmp_path / "pgwhen" / "_data")
    assert without_times(dump(empty_db)) == without_times(dump(template))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "pgwhen",
        f"pgwhen-{pgwhen.__version__}.dist-info",
    ]
