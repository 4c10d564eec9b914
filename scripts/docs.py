"""Write docs/reference.md and docs/schema.md from the catalog of a fresh deploy.

With --check: write nothing, and exit with 1 where a file is not what it would be.
"""

from __future__ import annotations

import difflib
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

from pgwhen import sources
from pgwhen.deploy import deploy

if TYPE_CHECKING:
    from collections.abc import Iterator

    Catalog = psycopg.Connection[Any]

ROOT = Path(__file__).resolve().parents[1]
DATABASE = "pgwhen_docs"

CREATES = re.compile(r"create or replace (function|procedure|view) pgwhen\.([a-z0-9_]+)")

ROUTINES = """
select p.proname as name, pg_get_function_arguments(p.oid) as arguments,
    case p.prokind when 'p' then 'procedure' else 'function' end as kind,
    pg_get_function_result(p.oid) as result, obj_description(p.oid, 'pg_proc') as comment
from pg_proc as p
where p.pronamespace = 'pgwhen'::regnamespace
order by p.proname collate "C", 2
"""

RELATIONS = """
select c.oid, n.nspname || '.' || c.relname as name, c.relname, c.relkind::text as kind,
    obj_description(c.oid, 'pg_class') as comment
from pg_class as c
inner join pg_namespace as n on c.relnamespace = n.oid
where n.nspname in ('pgwhen', '_pgwhen') and c.relkind::text = any(%s) and not c.relispartition
order by n.nspname desc, c.relname collate "C"
"""

COLUMNS = """
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as required,
    case
        when a.attidentity <> '' then 'identity'
        else pg_get_expr(d.adbin, d.adrelid)
    end as default,
    col_description(a.attrelid, a.attnum) as comment
from pg_attribute as a
left join pg_attrdef as d on a.attrelid = d.adrelid and a.attnum = d.adnum
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""

CONSTRAINTS = """
select conname as name, pg_get_constraintdef(oid) as definition
from pg_constraint
where conrelid = %s and contype <> 'n'
order by contype = 'p' desc, conname collate "C"
"""

INDEXES = """
select i.indexrelid::regclass::text as name,
    substring(pg_get_indexdef(i.indexrelid) from ' USING (.*)') as definition, i.indisunique
from pg_index as i
where i.indrelid = %s
    and not exists (select from pg_constraint as c where c.conindid = i.indexrelid)
order by i.indexrelid::regclass::text collate "C"
"""

REFERENCES = """
select c.conrelid, r.relname as child, f.relname as parent, c.conname as name
from pg_constraint as c
inner join pg_class as r on c.conrelid = r.oid
inner join pg_class as f on c.confrelid = f.oid
where c.contype = 'f' and c.conparentid = 0
    and r.relnamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
order by r.relname collate "C", c.conname collate "C"
"""

CAST = re.compile(r"(['\])]|NULL)::(?:timestamp with time zone|[a-z0-9_]+)(?:\[\])?")
TERSE = {
    "timestamp with time zone": "timestamptz",
    " DEFAULT NULL": " default null",
    " DEFAULT ": " default ",
    "SETOF ": "setof ",
}

REFERENCE_HEAD = """\
# Reference

What people call and read: the functions and views of schema `pgwhen`. Written by `make docs` from
the comments in the catalog; do not edit. The tables are in [schema.md](schema.md).
"""

SCHEMA_HEAD = """\
# Schema

The tables of schema `pgwhen`, which people read and write, and of `_pgwhen`, which only pgwhen
does. Written by `make docs` from the catalog; do not edit. The functions are in
[reference.md](reference.md).
"""


def main() -> int:
    """Write both files, or check them."""
    with fresh_deploy() as catalog:
        pages = {"reference.md": reference(catalog), "schema.md": schema(catalog)}
    if sys.argv[1:] == ["--check"]:
        return max(check(ROOT / "docs" / name, page) for name, page in pages.items())
    for name, page in pages.items():
        (ROOT / "docs" / name).write_text(page, encoding="utf-8")
    return 0


def check(file: Path, page: str) -> int:
    """Compare *file* with *page*: 0 if equal, else print how they differ and return 1."""
    found = file.read_text(encoding="utf-8") if file.exists() else ""
    if found == page:
        return 0
    lines = difflib.unified_diff(found.splitlines(), page.splitlines(), lineterm="", n=1)
    print(f"docs/{file.name} is stale: run `make docs`", *lines, sep="\n")
    return 1


@contextmanager
def fresh_deploy() -> Iterator[Catalog]:
    """Yield a session in a database that has what this checkout deploys, and nothing else."""
    name = sql.Identifier(DATABASE)
    drop = sql.SQL("drop database if exists {} with (force)").format(name)
    with psycopg.connect(dbname="postgres", autocommit=True) as admin:
        admin.execute(drop)
        admin.execute(sql.SQL("create database {} template template0").format(name))
        try:
            deploy(psycopg.conninfo.make_conninfo(dbname=DATABASE))
            with psycopg.connect(dbname=DATABASE, row_factory=namedtuple_row) as catalog:
                catalog.execute("set search_path = pg_catalog")
                yield catalog
        finally:
            admin.execute(drop)


def reference(catalog: Catalog) -> str:
    """Return the page of functions and views, under the headings of the manifest."""
    routines: dict[str, list[Any]] = {}
    for routine in catalog.execute(ROUTINES):
        routines.setdefault(routine.name, []).append(routine)
    views = {view.relname: view for view in catalog.execute(RELATIONS, [["v"]])}

    page = [REFERENCE_HEAD]
    for heading, files in groups():
        entries = []
        for kind, name in created(files):
            if kind == "view":
                entries.append(view_entry(catalog, views[name]))
            else:
                entries += [routine_entry(routine) for routine in routines.pop(name, [])]
        if entries:
            page += [f"## {heading}\n", *entries]
    return "\n".join(page)


def groups() -> list[tuple[str, list[str]]]:
    """Return the headings of the manifest, each with its files."""
    manifest = (sources.ROOT / "sql" / "pgwhen.psql").read_text(encoding="utf-8")
    found: list[tuple[str, list[str]]] = []
    for paragraph in manifest.split("\n\n"):
        files = re.findall(r"^\\ir (\S+)$", paragraph, re.MULTILINE)
        if files:
            found[-1][1].extend(files)
        else:
            found.append((paragraph.removeprefix("-- ").strip(), []))
    return found


def created(files: list[str]) -> list[tuple[str, str]]:
    """Return the kind and name of each public object that *files* create, in order, once."""
    texts = [(sources.ROOT / "sql" / file).read_text(encoding="utf-8") for file in files]
    return list(dict.fromkeys(match for text in texts for match in CREATES.findall(text)))


def routine_entry(routine: Any) -> str:
    """Return the entry of one function or procedure."""
    arguments = terse(routine.arguments)
    if "," in arguments:
        arguments = "\n    " + re.sub(r", (?=[a-z_]+ )", ",\n    ", arguments) + "\n"
    returns = f" returns {terse(routine.result)}" if routine.kind == "function" else ""
    return (
        f"### {routine.name}\n\n"
        f"```sql\n{routine.kind} pgwhen.{routine.name}({arguments}){returns}\n```\n\n"
        f"{prose(routine.comment)}\n"
    )


def view_entry(catalog: Catalog, view: Any) -> str:
    """Return the entry of one view."""
    columns = catalog.execute(COLUMNS, [view.oid]).fetchall()
    head = ["column", "type", "meaning"]
    rows = [[f"`{c.name}`", terse(c.type), c.comment or ""] for c in columns]
    return f"### {view.relname}\n\nA view. {prose(view.comment)}\n\n{table(head, rows)}\n"


def prose(comment: str | None) -> str:
    """Return a comment as Markdown: what is indented in it is SQL."""
    blocks = re.split(r"\n\n(?=\S)|\n\n(?=  \S)", (comment or "").strip("\n"))
    return "\n\n".join(
        f"```sql\n{re.sub('^  ', '', block, flags=re.MULTILINE)}\n```"
        if block.startswith("  ")
        else block
        for block in blocks
    )


def schema(catalog: Catalog) -> str:
    """Return the page of tables: how they refer to each other, then each."""
    tables = catalog.execute(RELATIONS, [["r", "p"]]).fetchall()
    types = catalog.execute(RELATIONS, [["c"]]).fetchall()
    return "\n".join(
        [
            SCHEMA_HEAD,
            diagram(catalog, tables),
            *(table_entry(catalog, relation) for relation in tables),
            "## Types of what functions take and return\n",
            *(type_entry(catalog, relation) for relation in types),
        ]
    )


def diagram(catalog: Catalog, tables: list[Any]) -> str:
    """Return a mermaid diagram of the tables and their foreign keys."""
    lines = ["```mermaid", "erDiagram"]
    lines += [
        f"    {ref.parent} ||--o{{ {ref.child} : {ref.name}" for ref in catalog.execute(REFERENCES)
    ]
    for relation in tables:
        lines.append(f"    {relation.relname} {{")
        for column in catalog.execute(COLUMNS, [relation.oid]):
            kind = terse(column.type).replace("[]", "_array")
            lines.append(f"        {kind} {column.name}")
        lines.append("    }")
    return "\n".join([*lines, "```", ""])


def table_entry(catalog: Catalog, relation: Any) -> str:
    """Return the entry of one table: comment, columns, constraints and indexes."""
    rows = [
        [
            f"`{c.name}`",
            terse(c.type),
            "" if c.required else "null",
            f"`{terse(c.default)}`" if c.default else "",
            c.comment or "",
        ]
        for c in catalog.execute(COLUMNS, [relation.oid])
    ]
    rules = [
        f"- `{c.name}` {terse(c.definition)}" for c in catalog.execute(CONSTRAINTS, [relation.oid])
    ]
    rules += [
        f"- `{i.name}` {'unique ' if i.indisunique else ''}index {terse(i.definition)}"
        for i in catalog.execute(INDEXES, [relation.oid])
    ]
    parts = [
        f"## {relation.name}",
        relation.comment,
        table(["column", "type", "", "default", "meaning"], rows),
        "\n".join(rules),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def type_entry(catalog: Catalog, relation: Any) -> str:
    """Return the entry of one composite type."""
    rows = [
        [f"`{c.name}`", terse(c.type), c.comment or ""]
        for c in catalog.execute(COLUMNS, [relation.oid])
    ]
    parts = [f"### {relation.name}", relation.comment, table(["field", "type", "meaning"], rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def terse(text: str) -> str:
    """Return what the catalog prints as a person would have written it."""
    text = CAST.sub(r"\1", text)
    for long, short in TERSE.items():
        text = text.replace(long, short)
    return text


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, without the columns that say nothing."""
    used = [n for n in range(len(head)) if any(row[n] for row in rows)]
    lines = [
        [head[n] for n in used],
        ["---"] * len(used),
        *([row[n] for n in used] for row in rows),
    ]
    return "\n".join("| " + " | ".join(escape(cell) for cell in line) + " |" for line in lines)


def escape(cell: str) -> str:
    """Return *cell* as it may stand in a table."""
    return cell.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
