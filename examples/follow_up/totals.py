"""What came out, by two witnesses, beside what the file says: for each customer."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from count import COUNTS

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

OUTCOMES = """
select
    l.user_id, r.name, a.parent_id is not null,
    case when l.status = 'cancelled' then l.error_message else l.status end, count(*)
from pgwhen.trigger_log as l
inner join pgwhen.trigger_rule as r on r.id = l.trigger_rule_id
left join pgwhen.scheduled_action as a on a.id = l.action_id
group by 1, 2, 3, 4
"""
#: What a row of trigger_log counts as, by rule, whether it follows a wait, and status (of what was
#: cancelled: why).
MEANS = {
    ("follow up", False, "success"): ("follow-ups sent",),
    ("follow up", False, "replaced"): ("follow-ups replaced",),
    ("offer", False, "success"): ("offers sent", "offers clicked"),
    ("offer", False, "expired"): ("offers sent", "offers not clicked"),
    ("offer", False, "late_click"): ("offers clicked late",),
    ("offer", True, "success"): ("offers sent again",),
}
#: What a message in the listener's log counts as, by how it begins.
MESSAGES = {
    "How do you like it?": "follow-ups sent",
    "Ten per cent off": "offers sent",
    "Once more": "offers sent again",
}
MESSAGE = re.compile(rf"log_message: to (\w+): ({'|'.join(map(re.escape, MESSAGES))})")


def logged(conn: psycopg.Connection) -> dict[str, Counter[str]]:
    """Count for each customer what trigger_log says."""
    found: dict[str, Counter[str]] = {}
    for customer, *what, number in conn.execute(OUTCOMES):
        for name in MEANS.get(tuple(what), (f"unexpected: {what}",)):
            found.setdefault(customer, Counter())[name] += number
    return found


def delivered(log: Path) -> dict[str, Counter[str]]:
    """Count for each customer the messages that the listener's log has."""
    found: dict[str, Counter[str]] = {}
    for customer, beginning in MESSAGE.findall(log.read_text()):
        found.setdefault(customer, Counter())[MESSAGES[beginning]] += 1
    return found


def compare(
    found: dict[str, Counter[str]],
    messages: dict[str, Counter[str]],
    wanted: dict[str, Counter[str]],
) -> int:
    """Print the totals side by side; returns for how many customers anything differs."""
    totals = [sum(counts.values(), Counter()) for counts in (found, messages, wanted)]
    print(f"\n{'':<22}{'pgwhen':>10}{'messages':>10}{'file':>10}")
    for name in dict.fromkeys([*COUNTS, *totals[0]]):
        ours, seen, file = (f"{total[name]:,}" for total in totals)
        is_message = name in MESSAGES.values()
        print(f"{name:<22}{ours:>10}{seen if is_message else '':>10}{file:>10}")
    customers = sorted(found.keys() | messages.keys() | wanted.keys())
    different = [name for name in customers if not agree(found, messages, wanted, name)]
    if different:
        few = ", ".join(different[:5])
        print(f"\nDIFFERENT for {len(different):,} of {len(customers):,} customers: {few} …")
    else:
        print(f"\nall counts agree, for each of {len(customers):,} customers")
    return len(different)


def agree(
    found: dict[str, Counter[str]],
    messages: dict[str, Counter[str]],
    wanted: dict[str, Counter[str]],
    customer: str,
) -> bool:
    """Whether table, log and file say the same of one customer."""
    mine, seen, file = (counts.get(customer, Counter()) for counts in (found, messages, wanted))
    return mine == file and seen == Counter(
        {name: number for name, number in file.items() if name in MESSAGES.values()}
    )
